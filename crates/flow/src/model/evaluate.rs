//! What a verdict is made of, and how the values of its fields are read: once for the check before a run, where they
//! are fixed, and once more while a state is judged.

use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use threadline_expect::table::{Op, Takes};
use threadline_expect::{BadComparison, Comparison, Expectations, is_pattern, quantity};
use threadline_lang::{Document, Expression, Number, Origin, Template, Value, is_plain_name, parse_path};

use super::{Field, Setting};
use crate::json_path::JsonPath;

/// What a verdict is made of.
pub struct Evaluate {
    /// The evaluator that judges the state.
    pub by: Evaluator,
    /// `source`: what is looked at in place of what the state printed.
    pub source: Option<Field<Document>>,
    /// `any_exit_code`: whether what a command printed is looked at when it failed, too.
    pub any_exit_code: bool,
    /// The whole block, or the state when there is none.
    pub origin: Origin,
}

/// How a verdict is found.
pub enum Evaluator {
    /// `exit_code`: `yes`, `no`, or `error`.
    ExitCode {
        /// The codes that mean yes.
        yes: Vec<i64>,
        /// The codes that mean no.
        no: Vec<i64>,
    },
    /// How the action ended: `yes` when it did well, `no` when a called loop came to a bad end, else `error`.
    Outcome,
    /// `expression`: a bool is `yes` or `no`, a text the verdict itself.
    Expression(Field<Arc<Expression>>),
    /// `output_numeric`: a comparison of the number that the output is.
    Numeric {
        /// `key`: the name before the number.
        key: Option<Field<Document>>,
        /// What it is compared with.
        compared: Compared,
    },
    /// `output_json`: a comparison of a value of JSON output.
    Json {
        /// `path`: which; the whole when there is none.
        path: Option<Field<Document>>,
        /// What it is compared with.
        compared: Compared,
    },
    /// `output_contains`: whether something is in the output.
    Contains(Box<Contains>),
    /// `convergence`: whether a number comes nearer to a target.
    Convergence(Box<Convergence>),
    /// `classify`: the last line of the output is the verdict.
    Classify {
        /// `verdicts`: those that there are; any when there are none.
        verdicts: Vec<EcoString>,
    },
    /// `expect`: whether what the state left meets an expectation.
    Expect(Field<Arc<Expectations>>),
    /// `agent`: somebody is asked.
    Agent(Box<Judge>),
}

/// An operator and what it compares with.
pub struct Compared {
    /// `operator`: equality when there is none.
    pub operator: Option<Field<Document>>,
    /// The value of the key `target`.
    pub target: Option<Field<Document>>,
}

/// What is looked for in an output.
pub struct Contains {
    /// The value of the key `pattern`.
    pub pattern: Field<Document>,
    /// `regex`: whether patterns are regular expressions; those between slashes when it is not said.
    pub regex: Option<bool>,
    /// `negate`: whether `yes` is that it is not there.
    pub negate: bool,
    /// `error_patterns`: what makes it an error.
    pub error_patterns: Vec<Field<Document>>,
}

/// A number that should come to a target.
pub struct Convergence {
    /// `key`: the name before the number.
    pub key: Option<Field<Document>>,
    /// The value of the key `target`.
    pub target: Field<Document>,
    /// `tolerance`: how far from the target is near enough.
    pub tolerance: Option<Field<Document>>,
    /// The value of the key `direction`.
    pub direction: Option<Field<Document>>,
    /// `previous`: the measurement before, in place of the one that the state made the last time.
    pub previous: Option<Field<Document>>,
}

/// Which way a number should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Nearer to the target, from either side.
    Toward,
    /// Down: what is below the target has reached it.
    Minimize,
    /// Up: what is above the target has reached it.
    Maximize,
}

/// Somebody who is asked for a verdict.
pub struct Judge {
    /// `agent`: the name.
    pub agent: Field<EcoString>,
    /// `prompt`: what is asked.
    pub prompt: Option<Field<Template>>,
    /// `verdicts`: the answers that there are.
    pub verdicts: Vec<EcoString>,
    /// `min_confidence`: a verdict that is less sure is `uncertain`.
    pub min_confidence: Option<Field<Document>>,
    /// Whether a verdict that is less sure stays what it is, because nothing says what follows `uncertain`.
    pub keeps_unsure: bool,
    /// The value of the key `timeout`.
    pub timeout: Option<Setting<Duration>>,
}

/// The verdict of a judge who is not sure enough.
pub const UNCERTAIN: &str = "uncertain";

/// The verdicts that a state can come to, beside `error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdicts {
    /// Exactly these verdicts, the best first.
    Known(Vec<EcoString>),
    /// Whatever it says.
    Any,
}

impl Evaluator {
    /// The verdicts it can give, beside `error`.
    pub fn verdicts(&self) -> Verdicts {
        let known = |names: &[&str]| Verdicts::Known(names.iter().copied().map(EcoString::from).collect());
        match self {
            Self::ExitCode { .. }
            | Self::Outcome
            | Self::Numeric { .. }
            | Self::Json { .. }
            | Self::Contains(_)
            | Self::Expect(_) => known(&["yes", "no"]),
            Self::Convergence(_) => known(&["target", "progress", "stall"]),
            Self::Classify { verdicts } if !verdicts.is_empty() => Verdicts::Known(verdicts.clone()),
            Self::Classify { .. } | Self::Expression(_) => Verdicts::Any,
            Self::Agent(judge) => {
                let asked = judge.min_confidence.iter().filter(|_| !judge.keeps_unsure);
                let unsure = asked.map(|_| EcoString::from(UNCERTAIN));
                let unsure = unsure.filter(|word| !judge.verdicts.contains(word));
                Verdicts::Known(judge.verdicts.iter().cloned().chain(unsure).collect())
            }
        }
    }

    /// As it is written behind `type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ExitCode { .. } => "exit_code",
            Self::Outcome => "outcome",
            Self::Expression(_) => "expression",
            Self::Numeric { .. } => "output_numeric",
            Self::Json { .. } => "output_json",
            Self::Contains(_) => "output_contains",
            Self::Convergence(_) => "convergence",
            Self::Classify { .. } => "classify",
            Self::Expect(_) => "expect",
            Self::Agent(_) => "agent",
        }
    }

    /// Whether it looks at what the state printed, or at what `source` names in its place. A judge that is asked something
    /// may do without.
    pub fn looks_at_output(&self) -> bool {
        match self {
            Self::ExitCode { .. } | Self::Outcome | Self::Expression(_) => false,
            Self::Agent(judge) => judge.prompt.is_none(),
            _ => true,
        }
    }
}

impl Direction {
    /// Of its name.
    pub fn read(value: &Value) -> Result<Self, String> {
        match value.as_str() {
            Some("toward") => Ok(Self::Toward),
            Some("minimize") => Ok(Self::Minimize),
            Some("maximize") => Ok(Self::Maximize),
            _ => Err(format!(
                "`direction` is `minimize`, `maximize` or `toward`, not {}",
                threadline_lang::diag::excerpt(value)
            )),
        }
    }
}

/// What a verdict is made of, for messages.
pub const VERDICT_FORM: &str = "letters, digits, `_` and `-`";

/// Whether a text can be a verdict.
pub fn is_verdict(text: &str) -> bool {
    is_plain_name(text) && text.len() <= 100
}

/// The comparison of a value: any operator of expectations that takes a value. Without an operator it is equality; one
/// that asks whether something is so needs no target.
pub fn comparison(operator: Option<&Value>, target: Option<&Value>) -> Result<Comparison, BadComparison> {
    let name = match operator {
        Some(operator) => operator.as_str().ok_or_else(|| {
            let shown = threadline_lang::diag::excerpt(operator);
            let bad = bad(format!("`operator` is the name of an operator, not {shown}"));
            BadComparison { of_operator: true, ..bad }
        })?,
        None => "eq",
    };
    match target {
        Some(target) => Comparison::new(name, target),
        None if Comparison::operator(name)?.operator.takes == Takes::Bool => {
            Comparison::new(name, &Value::from(true))
        }
        None => Err(bad(format!("`{name}` needs a `target`"))),
    }
}

/// The operators that compare numbers.
const NUMERIC: [Op; 7] = [Op::Eq, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::Between, Op::Approx];

/// The comparison of a number.
pub fn numeric_comparison(
    operator: Option<&Value>,
    target: Option<&Value>,
) -> Result<Comparison, BadComparison> {
    let comparison = comparison(operator, target)?;
    if !NUMERIC.contains(&comparison.asks()) {
        let hint = Some("`eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `between` and `approx` do".to_owned());
        let name = operator.and_then(Value::as_str).unwrap_or_default();
        let bad = bad(format!("`{name}` compares no numbers"));
        return Err(BadComparison { hint, of_operator: true, ..bad });
    }
    if let Some(target) = target.filter(|target| comparison.asks() == Op::Eq && quantity(target).is_none()) {
        return Err(bad(format!(
            "`target` is {}, which is no number",
            threadline_lang::diag::preview(target)
        )));
    }
    Ok(comparison)
}

/// A comparison that finds a pattern in a text.
pub fn pattern(regex: Option<bool>, pattern: &Value) -> Result<Comparison, BadComparison> {
    let text = scalar(pattern)
        .ok_or_else(|| bad(format!("a pattern is a text, not {}", pattern.kind().with_article())))?;
    if text.is_empty() {
        return Err(bad("the pattern is empty: everything contains it".to_owned()));
    }
    let is_regex = regex.unwrap_or_else(|| is_pattern(&text));
    let found = Comparison::new(if is_regex { "matches" } else { "contains" }, &Value::from(text));
    found.map_err(|bad| {
        let as_it_is = regex.is_none().then(|| "for the text as it is say `regex: false`".to_owned());
        let hints: Vec<String> = bad.hint.into_iter().chain(as_it_is).collect();
        BadComparison { hint: (!hints.is_empty()).then(|| hints.join("; ")), ..bad }
    })
}

/// A number and its unit, which is empty where there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The number without its unit.
    pub number: Number,
    /// The unit behind the number.
    pub unit: EcoString,
}

/// A number with or without a unit.
pub fn measure(key: &str, value: &Value) -> Result<Measure, String> {
    match quantity(value) {
        Some((number, unit)) => Ok(Measure { number, unit: unit.into() }),
        None => Err(format!("`{key}` is {}, which is no number", threadline_lang::diag::preview(value))),
    }
}

/// How far from a target is near enough: a number of at least 0.
pub fn tolerance(value: &Value) -> Result<Number, String> {
    let found = number("tolerance", value)?;
    if found.is_negative() {
        return Err("`tolerance` is below 0: nothing would be near enough".to_owned());
    }
    Ok(found)
}

/// A number that may be a text, without a unit.
pub fn number(key: &str, value: &Value) -> Result<Number, String> {
    match quantity(value) {
        Some((number, "")) => Ok(number),
        _ => Err(format!("`{key}` is {}, which is no number", threadline_lang::diag::preview(value))),
    }
}

/// A number from 0 to 1.
pub fn confidence(key: &str, value: &Value) -> Result<Number, String> {
    let found = number(key, value)?;
    if found.is_negative() || found > Number::int(1) {
        return Err(format!(
            "`{key}` is {}, which is not from 0 to 1",
            threadline_lang::diag::excerpt(value)
        ));
    }
    Ok(found)
}

/// A place in a JSON document.
pub enum Place {
    /// As the language writes it, `a.b[0]`; all of it when it is empty.
    Path(EcoString),
    /// As RFC 9535 has it, `$.a.b[0]`.
    JsonPath(JsonPath),
}

impl Place {
    /// Of its text.
    pub fn read(value: &Value) -> Result<Self, String> {
        let Some(text) = scalar(value) else {
            return Err(format!("a path is a text, not {}", value.kind().with_article()));
        };
        if text.trim_start().starts_with('$') {
            return JsonPath::parse(text.trim()).map(Self::JsonPath).map_err(|error| error.message);
        }
        parse_path(&text).map_err(|why| format!("`{text}` is no path: {why}"))?;
        Ok(Self::Path(text))
    }
}

/// The text of a text, a number or a bool.
pub fn scalar(value: &Value) -> Option<EcoString> {
    match value.as_str() {
        Some(text) => Some(text.into()),
        None => (value.as_number().is_some() || value.as_bool().is_some()).then(|| value.to_string().into()),
    }
}

fn bad(message: String) -> BadComparison {
    BadComparison { message, hint: None, of_operator: false, at: None }
}
