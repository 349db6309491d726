//! Verdicts on what a state printed, or on what `source` names in its place.
//!
//! A command that failed has printed nothing that could be relied on: its exit code makes an error, unless
//! `any_exit_code` says otherwise. Values are compared by the operators of expectations.

use std::borrow::Cow;

use ecow::eco_format;
use threadline_expect::table::Op;
use threadline_expect::{ExpectationAnswer, ExpectationOutcome, Expectations, Tree, quantity};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{
    self, Compared, Contains, Convergence, Direction, Field, Measure, Place, comparison, numeric_comparison,
};
use threadline_lang::diag::{excerpt, preview};
use threadline_lang::{Document, Limits, Session, Value, data};

use super::convergence::{self, Converging};
use super::{JudgedState, Verdict};
use crate::evaluate::{self, Observed, Wanted};

/// What is looked at, and what it is called in a reason.
pub(super) struct Looked {
    pub(super) value: Value,
    name: &'static str,
}

impl Looked {
    /// As one text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self.value.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.value.to_string()),
        }
    }

    fn the(&self) -> String {
        format!("the {}", self.name)
    }
}

impl JudgedState<'_> {
    /// What is looked at. Of a command that failed that is nothing.
    pub(super) fn looked(&self, session: &mut Session<'_>) -> Result<Looked, Verdict> {
        self.succeeded()?;
        self.looked_anyway(session)
    }

    pub(super) fn looked_anyway(&self, session: &mut Session<'_>) -> Result<Looked, Verdict> {
        let source = self.evaluate().and_then(|evaluate| evaluate.source.as_ref());
        if let Some(source) = source {
            return Ok(Looked { value: self.value(source, session)?, name: "source" });
        }
        let Some(result) = self.result else {
            return Err(Verdict::error("the state does nothing, so there is nothing to look at"));
        };
        let output = result.also.as_ref().and_then(|also| also.get(names::OUTPUT));
        let value = output.filter(|output| !output.is_null()).unwrap_or(&result.value);
        Ok(Looked { value: value.clone(), name: "output" })
    }

    /// An exit code other than 0 is an error where it is not said that it does not matter.
    fn succeeded(&self) -> Result<(), Verdict> {
        let any = self.evaluate().is_some_and(|evaluate| evaluate.any_exit_code);
        match self.meta(names::EXIT_CODE).and_then(Value::as_i64) {
            Some(code) if code != 0 && !any => {
                let reason =
                    eco_format!("the command failed with exit code {code}, so its output is not judged");
                Err(Verdict::error(reason).with_details([("exit_code".into(), Value::from(code))]))
            }
            _ => Ok(()),
        }
    }

    // ---- numbers ----------------------------------------------------------------------------------------

    pub(super) fn by_number(
        &self,
        key: Option<&Field<Document>>,
        compared: &Compared,
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        let looked = self.looked(session)?;
        let (name, number) = self.number(&looked, key, session)?;
        let operator = self.optional(compared.operator.as_ref(), session)?;
        let target = self.optional(compared.target.as_ref(), session)?;
        let comparison = numeric_comparison(operator.as_ref(), target.as_ref())
            .map_err(|bad| Verdict::error(bad.message))?;
        let tree = comparison.check(&name, &number, "").map_err(Verdict::error)?;
        Ok(of_tree(tree))
    }

    /// The number that is looked at, and its name.
    fn number(
        &self,
        looked: &Looked,
        key: Option<&Field<Document>>,
        session: &mut Session<'_>,
    ) -> Result<(String, Value), Verdict> {
        let key = match key {
            Some(field) => {
                let value = self.value(field, session)?;
                let unfit = || Verdict::error(eco_format!("`key` is {}, which is no name", preview(&value)));
                Some(model::scalar(&value).filter(|name| !name.trim().is_empty()).ok_or_else(unfit)?)
            }
            None => None,
        };
        let found = match (looked.value.as_str(), &key) {
            (Some(text), _) => find_number(text, key.as_deref().map(str::trim)),
            (None, None) => {
                quantity(&looked.value).map(|_| Found { name: None, value: looked.value.clone() }).ok_or(None)
            }
            (None, Some(_)) => Err(None),
        };
        match found {
            Ok(Found { name, value }) => Ok((name.unwrap_or_else(|| looked.name.to_owned()), value)),
            Err(Some(text)) => {
                let key = key.unwrap_or_default();
                Err(Verdict::error(eco_format!(
                    "`{}` is {}, which is no number",
                    key.trim(),
                    excerpt(&Value::from(text))
                )))
            }
            Err(None) => {
                let behind = key.map_or(String::new(), |key| format!(" behind `{}`", key.trim()));
                let (the, seen) = (looked.the(), preview(&looked.value));
                Err(Verdict::error(eco_format!("there is no number{behind} in {the}: it is {seen}")))
            }
        }
    }

    pub(super) fn by_convergence(
        &self,
        of: &Convergence,
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        let looked = self.looked(session)?;
        let (name, current) = self.number(&looked, of.key.as_ref(), session)?;
        let target = self.value(&of.target, session)?;
        let target = model::measure("target", &target).map_err(Verdict::error)?;
        let tolerance = match self.optional(of.tolerance.as_ref(), session)? {
            Some(value) => model::tolerance(&value).map_err(Verdict::error)?,
            None => threadline_lang::Number::int(0),
        };
        let direction = match self.optional(of.direction.as_ref(), session)? {
            Some(value) => Direction::read(&value).map_err(Verdict::error)?,
            None => Direction::Toward,
        };
        let previous = match &of.previous {
            Some(field) => Some(self.value(field, session)?),
            None => self.state.measured.clone(),
        };
        // What was never measured is null, or an empty text where nothing took its place.
        let previous = previous.filter(|value| !value.is_null() && value.as_str() != Some(""));
        let previous =
            previous.map(|value| model::measure("previous", &value)).transpose().map_err(Verdict::error)?;
        let measured = model::measure(&name, &current).map_err(Verdict::error)?;
        let same = |other: &Measure| other.unit == measured.unit;
        if let Some(other) = std::iter::once(&target).chain(&previous).find(|other| !same(other)) {
            let (one, other) = (&measured.unit, &other.unit);
            return Err(Verdict::error(eco_format!("the units differ: `{one}` and `{other}`")));
        }
        let converging = Converging {
            current: measured.number,
            previous: previous.map(|previous| previous.number),
            target: target.number,
            tolerance,
            direction,
        };
        let verdict = convergence::verdict(&name, &converging).map_err(Verdict::error)?;
        Ok(Verdict { measured: Some(current), ..verdict })
    }

    // ---- JSON and text ----------------------------------------------------------------------------------

    pub(super) fn by_json(
        &self,
        path: Option<&Field<Document>>,
        compared: &Compared,
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        let looked = self.looked(session)?;
        let document = match looked.value.as_str() {
            Some(text) => data::json::read_value(text, &Limits::DEFAULT).map_err(|error| {
                Verdict::error(eco_format!(
                    "{} is no JSON: {error}; it is {}",
                    looked.the(),
                    preview(&looked.value)
                ))
            })?,
            None => looked.value.clone(),
        };
        let operator = self.optional(compared.operator.as_ref(), session)?;
        let target = self.optional(compared.target.as_ref(), session)?;
        let comparison =
            comparison(operator.as_ref(), target.as_ref()).map_err(|bad| Verdict::error(bad.message))?;
        let place = match self.optional(path, session)? {
            Some(path) => Place::read(&path).map_err(Verdict::error)?,
            None => Place::Path("".into()),
        };
        let tree = match place {
            Place::Path(path) => comparison.check(looked.name, &document, &path),
            Place::JsonPath(path) => match path
                .select(&document)
                .map_err(|refusal| Verdict::error(eco_format!("`{}`: {refusal}", path.as_str())))?
                .as_slice()
            {
                [value] => comparison.check(path.as_str(), value, ""),
                // Nothing is there: whether that is right is for the operator.
                [] if comparison.asks() == Op::Exists => {
                    let nothing = Value::empty_object();
                    comparison
                        .check(path.as_str(), &nothing, "nothing")
                        .map(|tree| Tree { reason: format!("`{}` selects nothing", path.as_str()), ..tree })
                }
                found => {
                    let count = if found.is_empty() {
                        "nothing".to_owned()
                    } else {
                        format!("{} values", found.len())
                    };
                    return Err(Verdict::error(eco_format!(
                        "`{}` selects {count}, and not one value",
                        path.as_str()
                    )));
                }
            },
        };
        Ok(of_tree(tree.map_err(Verdict::error)?))
    }

    pub(super) fn by_pattern(
        &self,
        contains: &Contains,
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        let looked = self.looked(session)?;
        let text = Value::from(&*looked.text());
        let mut find = |field: &Field<Document>| -> Result<(Value, Tree), Verdict> {
            let pattern = self.value(field, session)?;
            let comparison =
                model::pattern(contains.regex, &pattern).map_err(|bad| Verdict::error(bad.message))?;
            Ok((pattern, comparison.check(looked.name, &text, "").map_err(Verdict::error)?))
        };
        for field in &contains.error_patterns {
            let (pattern, tree) = find(field)?;
            if tree.answer == Some(ExpectationAnswer::Met) {
                let reason = eco_format!("{}, which is an error", tree.reason);
                return Err(Verdict::error(reason).with_details([("error_pattern".into(), pattern)]));
            }
        }
        let (pattern, tree) = find(&contains.pattern)?;
        let found = tree.answer == Some(ExpectationAnswer::Met);
        let should_not = if found && contains.negate { ", which it should not" } else { "" };
        let verdict = Verdict::of(found != contains.negate, eco_format!("{}{should_not}", tree.reason));
        Ok(verdict.with_details([("pattern".into(), pattern), ("found".into(), Value::from(found))]))
    }

    pub(super) fn by_last_line(
        &self,
        verdicts: &[ecow::EcoString],
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        let looked = self.looked(session)?;
        let text = looked.text();
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let Some(last) = last else {
            return Err(Verdict::error(eco_format!(
                "{} is empty, and its last line would be the verdict",
                looked.the()
            )));
        };
        let shown = excerpt(&Value::from(last));
        if !model::is_verdict(last) {
            let form = model::VERDICT_FORM;
            let why = eco_format!("the last line is {shown}, which is no verdict: {form}");
            return Err(Verdict::error(why));
        }
        if !verdicts.is_empty() && !verdicts.iter().any(|known| known == last) {
            let why =
                eco_format!("the last line is {shown}, and the verdicts are {}", super::listed(verdicts));
            return Err(Verdict::error(why));
        }
        Ok(Verdict::new(last, eco_format!("the last line is {shown}")))
    }

    // ---- expectations -----------------------------------------------------------------------------------

    pub(super) fn by_expectation(
        &self,
        expectations: &Expectations,
        session: &mut Session<'_>,
    ) -> Result<Verdict, Verdict> {
        // An expectation that looks at the exit code says which are right.
        if !expectations.reads("exit_code") && !expectations.reads("meta") {
            self.succeeded()?;
        }
        let looked = self.looked_anyway(session)?;
        let settled =
            evaluate::settle(expectations, self.scope, session).map_err(|errors| self.unresolved(&errors))?;
        let (nothing, from_source) = (Value::NULL, looked.name == "source");
        let result = self.result.filter(|_| !from_source);
        let value = result.map_or(&looked.value, |result| &result.value);
        let meta = self.result.map_or(&nothing, |result| &result.meta);
        let output = Some(&looked.value).filter(|output| output.as_str().is_some());
        let left = Observed { value, output, meta };
        let outcomes = evaluate::expected(&settled, &left, Wanted::All)
            .map_err(|why| Verdict::error(eco_format!("`expect` cannot be evaluated: {why}")))?;
        Ok(of_outcomes(&outcomes))
    }
}

/// What a comparison came to.
fn of_tree(tree: Tree) -> Verdict {
    let verdict = match tree.answer {
        Some(ExpectationAnswer::Met) => Verdict::of(true, tree.reason),
        Some(ExpectationAnswer::Unmet) => Verdict::of(false, tree.reason),
        Some(ExpectationAnswer::NotEvaluable) | None => Verdict::error(tree.reason),
    };
    verdict.with_details([
        ("value".into(), tree.actual.unwrap_or_default()),
        ("operator".into(), Value::from(tree.operator)),
        ("target".into(), tree.expected.unwrap_or_default()),
    ])
}

/// What expectations came to: one that is unmet is enough for `no`.
fn of_outcomes(outcomes: &[ExpectationOutcome]) -> Verdict {
    let has = |answer: ExpectationAnswer| outcomes.iter().any(|outcome| outcome.answer == answer);
    let (answer, word) = match (has(ExpectationAnswer::Unmet), has(ExpectationAnswer::NotEvaluable)) {
        (true, _) => (ExpectationAnswer::Unmet, "no"),
        (false, true) => (ExpectationAnswer::NotEvaluable, crate::event::ERROR),
        (false, false) => (ExpectationAnswer::Met, "yes"),
    };
    let said = outcomes.iter().filter(|outcome| outcome.answer == answer).map(|outcome| {
        let name = Some(&outcome.name).filter(|name| *name != threadline_expect::ALONE);
        name.map_or_else(|| outcome.reason.clone(), |name| format!("{name}: {}", outcome.reason))
    });
    let said: Vec<String> = said.collect();
    Verdict::new(word, said.join("; "))
}

/// A number of a text.
#[derive(Debug, PartialEq)]
struct Found {
    /// The name before it.
    name: Option<String>,
    value: Value,
}

/// The number that a text is, or the last one behind a name, `name=5` or `name: 5`. Where the name is given, what stands
/// behind it the last time has to be a number: that text is the error.
fn find_number(text: &str, key: Option<&str>) -> Result<Found, Option<String>> {
    if key.is_none()
        && let Some(value) = number_of(text)
    {
        return Ok(Found { name: None, value });
    }
    for line in text.lines().rev() {
        for (at, _) in line.rmatch_indices(['=', ':']) {
            let (before, behind) = (line[..at].trim_end(), &line[at + 1..]);
            let name = name_at_end(before, key);
            // `12:30` and `host:80` are no names with numbers behind them.
            let is_apart = key.is_some() || line.as_bytes()[at] == b'=' || behind.starts_with([' ', '\t']);
            let Some(name) = name.filter(|_| is_apart) else { continue };
            let word = behind
                .trim_start()
                .split([' ', '\t', ',', ';', ')', ']', '}', '|'])
                .next()
                .unwrap_or_default();
            let word = word.trim_end_matches('.');
            match (number_of(word), key) {
                (Some(value), _) => return Ok(Found { name: Some(name.to_owned()), value }),
                (None, Some(_)) => return Err(Some(word.to_owned())),
                (None, None) => {}
            }
        }
    }
    Err(None)
}

/// The name that a text ends with: this one, or any.
fn name_at_end<'t>(text: &'t str, key: Option<&'t str>) -> Option<&'t str> {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    if let Some(key) = key {
        let rest = text.strip_suffix(key)?;
        return (!rest.ends_with(is_part)).then_some(key);
    }
    let start = text
        .rfind(|char| !is_part(char))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let name = &text[start..];
    name.starts_with(|first: char| first.is_alphabetic() || first == '_').then_some(name)
}

/// A number without a unit as such, one with a unit as its text.
fn number_of(text: &str) -> Option<Value> {
    let text = Value::from(text.trim());
    let (number, unit) = quantity(&text)?;
    Some(if unit.is_empty() { Value::from(number) } else { text.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(text: &str, key: Option<&str>) -> String {
        match find_number(text, key) {
            Ok(Found { name, value }) => format!("{} {value}", name.unwrap_or_else(|| "-".to_owned())),
            Err(Some(word)) => format!("not {word}"),
            Err(None) => "none".to_owned(),
        }
    }

    #[test]
    fn the_number_that_a_text_is() {
        for (text, expected) in [
            ("5", "- 5"),
            (" -0.10\n", "- -0.10"),
            ("9007199254740993", "- 9007199254740993"),
            ("85%", "- 85%"),
            ("", "none"),
            ("NaN", "none"),
            ("inf", "none"),
            ("1,000", "none"),
            ("five", "none"),
        ] {
            assert_eq!(found(text, None), expected, "{text:?}");
        }
    }

    /// Whatever stands around it, the last number behind a name is found as it is written, with every digit.
    #[test]
    fn a_number_is_found_as_it_is_written() {
        let numbers =
            ["0", "-1", "3.50", "1e9", "0.1", "123456789012345678901234567890", "-0.000000000000000001"];
        for (number, other) in numbers.iter().flat_map(|one| numbers.iter().map(move |other| (one, other))) {
            for (open, close) in [("", ""), ("[", "]"), ("see ", ", done"), ("a=x ", "; b: y"), ("é ", " é")]
            {
                for pair in [format!("k={number}"), format!("k: {number}"), format!("k = {number}")] {
                    let text = format!("k={other}\n{open}{pair}{close}\nthe end");
                    assert_eq!(found(&text, None), format!("k {number}"), "{text:?}");
                    assert_eq!(found(&text, Some("k")), format!("k {number}"), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn the_last_number_behind_a_name() {
        for (text, key, expected) in [
            ("errors=3", None, "errors 3"),
            ("errors: 3", None, "errors 3"),
            ("errors=3 warnings=7", None, "warnings 7"),
            ("errors=3\nwarnings: 7\ndone", None, "warnings 7"),
            ("errors=3 warnings=7", Some("errors"), "errors 3"),
            ("errors=3\nerrors=2", Some("errors"), "errors 2"),
            ("errors:3", Some("errors"), "errors 3"),
            ("Total errors: 3.", Some("Total errors"), "Total errors 3"),
            ("more_errors=3", Some("errors"), "none"),
            ("errors=none", Some("errors"), "not none"),
            ("errors=3\nerrors=n/a", Some("errors"), "not n/a"),
            ("errors=none", None, "none"),
            ("http://host:8080 at 12:30", None, "none"),
            ("a==5 b<=6", None, "none"),
            ("(coverage=85%)", None, "coverage 85%"),
            ("größe=4", None, "größe 4"),
        ] {
            assert_eq!(found(text, key), expected, "{text:?}");
        }
    }
}
