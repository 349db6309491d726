//! What the verdict of a state is made of, read from a file. What is fixed is checked here, with the same functions that
//! read it while a state is judged.

use ecow::EcoString;
use threadline_expect::BadComparison;
use threadline_lang::diag::Span;
use threadline_lang::{Document, Value};

use super::read::{Fields, Loader, Place, shown, span_of};
use crate::checks::Check;
use crate::fields::EVALUATE;
use crate::forms;
use crate::model::{
    self, Action, Compared, Contains, Convergence, Direction, Evaluate, Evaluator, Field, Judge,
};
use crate::problem::{Problem, place_in};

/// Keys that say by themselves how a verdict is found.
const SAYING: [(&str, &str); 5] = [
    ("expression", "expression"),
    ("expect", "expect"),
    ("pattern", "output_contains"),
    ("path", "output_json"),
    ("prompt", "agent"),
];

impl Loader {
    /// `evaluate` of a state that does this.
    pub(super) fn evaluate(&mut self, fields: &Fields<'_>, action: Option<&Action>) -> Option<Evaluate> {
        let place = fields.get("evaluate")?;
        let origin = place.origin();
        let short = place.node.value.as_object().is_none();
        let inner = if short {
            Fields::none(place.clone(), &EVALUATE)
        } else {
            self.fields(place.clone(), &EVALUATE)?
        };
        let kind = if short {
            self.choice_at(&place, "evaluate", EVALUATE.known("type").choices())?
        } else {
            self.kind_of(&inner)?
        };
        self.check_types(&inner, kind);
        let by = self.evaluator(&inner, kind, action)?;
        let source = self.document_of(&inner, "source");
        if by.looks_at_output() && source.is_none() && matches!(action, Some(Action::Nothing)) {
            let message =
                format!("`{}` looks at an output, and a state without an action has none", by.name());
            let problem = Check::MissingKey.at(span_of(place.node), message);
            self.problem(problem.hint("say what is looked at: `source: ${captured.NAME.output}`"));
        }
        let any_exit_code = self.bool(&inner, "any_exit_code");
        Some(Evaluate { by, source, any_exit_code, origin })
    }

    /// The type, as it is written or as one of the other keys says it.
    fn kind_of(&mut self, fields: &Fields<'_>) -> Option<&'static str> {
        if fields.found("type").is_some() {
            return self.choice(fields, "type");
        }
        let said: Vec<&(&str, &'static str)> =
            SAYING.iter().filter(|(key, _)| fields.found(key).is_some()).collect();
        if let [(_, kind)] = said[..] {
            return Some(kind);
        }
        if !fields.misspelt("type") {
            let keys: Vec<String> = said.iter().map(|(key, _)| format!("`{key}`")).collect();
            let message = if keys.is_empty() {
                format!("an evaluation needs `type`: {}", EVALUATE.known("type").doc)
            } else {
                format!("{} say different things: an evaluation needs `type`", keys.join(" and "))
            };
            self.problem(Check::MissingKey.at(span_of(fields.place.node), message));
        }
        None
    }

    /// Keys that do not go with the type.
    fn check_types(&mut self, fields: &Fields<'_>, kind: &str) {
        for found in fields.all() {
            let types = found.key.types;
            if types.is_empty() || types.contains(&kind) {
                continue;
            }
            let goes: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
            let message = format!("`{}` does not go with `{kind}`", found.written);
            let note = format!("it goes with {}", goes.join(", "));
            self.problem(Check::KeyNotHere.at(found.entry.key_span, message).note(note));
        }
    }

    fn evaluator(
        &mut self,
        fields: &Fields<'_>,
        kind: &'static str,
        action: Option<&Action>,
    ) -> Option<Evaluator> {
        Some(match kind {
            "exit_code" => Evaluator::ExitCode {
                yes: self.codes(fields, "yes_codes"),
                no: self.codes(fields, "no_codes"),
            },
            "outcome" => Evaluator::Outcome,
            "output_numeric" => Evaluator::Numeric {
                key: self.name_before(fields),
                compared: self.compared(fields, model::numeric_comparison),
            },
            "output_json" => {
                let path = self
                    .checked(fields, "path", Check::BadJsonPath, |value| model::Place::read(value).map(drop));
                Evaluator::Json { path, compared: self.compared(fields, model::comparison) }
            }
            "output_contains" => Evaluator::Contains(Box::new(self.contains(fields)?)),
            "convergence" => Evaluator::Convergence(Box::new(self.convergence(fields)?)),
            "classify" => Evaluator::Classify { verdicts: self.verdicts(fields) },
            "expect" => {
                self.needed(fields, "expect")?;
                Evaluator::Expect(self.expectations(fields, action?)?)
            }
            "agent" => Evaluator::Agent(Box::new(self.judge(fields)?)),
            _ => {
                self.needed(fields, "expression")?;
                Evaluator::Expression(self.expression(fields, "expression")?)
            }
        })
    }

    /// A key that this type needs.
    fn needed(&mut self, fields: &Fields<'_>, name: &str) -> Option<()> {
        if fields.found(name).is_some() {
            return Some(());
        }
        if !fields.misspelt(name) {
            let message = format!("this evaluation needs `{name}`: {}", EVALUATE.known(name).doc);
            self.problem(Check::MissingKey.at(span_of(fields.place.node), message));
        }
        None
    }

    fn name_before(&mut self, fields: &Fields<'_>) -> Option<Field<Document>> {
        self.checked(fields, "key", Check::WrongType, |value| match model::scalar(value) {
            Some(name) if !name.trim().is_empty() => Ok(()),
            _ => Err(format!("`key` takes the name before a number, not {}", shown(value))),
        })
    }

    fn compared<T>(
        &mut self,
        fields: &Fields<'_>,
        read: impl Fn(Option<&Value>, Option<&Value>) -> Result<T, BadComparison>,
    ) -> Compared {
        // What is not there is known too.
        let mut read_key = |name: &str| match fields.get(name) {
            None => (None, Some(None)),
            Some(place) => {
                let (field, value) = self.known(&place);
                (field, value.map(Some))
            }
        };
        let (operator, known_operator) = read_key("operator");
        let (target, known_target) = read_key("target");
        let bad = match (&known_operator, &known_target) {
            (Some(operator), Some(target)) => read(operator.as_ref(), target.as_ref()).err(),
            // Whether the operator is one can be said before its target is known.
            (Some(Some(operator)), None) => {
                operator.as_str().and_then(|name| threadline_expect::Comparison::operator(name).err())
            }
            _ => None,
        };
        if let Some(bad) = bad {
            let place = fields.get(if bad.of_operator { "operator" } else { "target" });
            let place = place.or_else(|| fields.get("operator"));
            let check = match (bad.of_operator, &target) {
                (true, _) => Check::UnknownChoice,
                (false, None) => Check::MissingKey,
                (false, Some(_)) => Check::WrongType,
            };
            let place = place.unwrap_or_else(|| fields.place.clone());
            self.bad(check, &place, bad);
        }
        Compared { operator, target }
    }

    fn contains(&mut self, fields: &Fields<'_>) -> Option<Contains> {
        self.needed(fields, "pattern")?;
        let regex = self.given_bool(fields, "regex");
        let negate = self.bool(fields, "negate");
        let pattern = fields.get("pattern").and_then(|place| self.pattern(&place, regex));
        let mut error_patterns = Vec::new();
        if let Some(place) = fields.get("error_patterns") {
            let is_list = place.node.value.as_list().is_some();
            let places = if is_list { place.items().collect() } else { vec![place] };
            error_patterns.extend(places.iter().filter_map(|place| self.pattern(place, regex)));
        }
        Some(Contains { pattern: pattern?, regex, negate, error_patterns })
    }

    fn pattern(&mut self, place: &Place<'_>, regex: Option<bool>) -> Option<Field<Document>> {
        let (pattern, value) = self.known(place);
        if let Some(Err(bad)) = value.map(|value| model::pattern(regex, &value)) {
            self.bad(Check::WrongType, place, bad);
        }
        pattern
    }

    fn convergence(&mut self, fields: &Fields<'_>) -> Option<Convergence> {
        self.needed(fields, "target")?;
        let wrong = Check::WrongType;
        let target = self.checked(fields, "target", wrong, |value| model::measure("target", value).map(drop));
        let tolerance = self.checked(fields, "tolerance", wrong, |value| model::tolerance(value).map(drop));
        let direction =
            self.checked(fields, "direction", Check::UnknownChoice, |value| Direction::read(value).map(drop));
        let previous =
            self.checked(fields, "previous", wrong, |value| model::measure("previous", value).map(drop));
        Some(Convergence { key: self.name_before(fields), target: target?, tolerance, direction, previous })
    }

    fn judge(&mut self, fields: &Fields<'_>) -> Option<Judge> {
        let agent = if fields.found("agent").is_some() {
            self.name(fields, "agent")
        } else {
            let mut agent = fields.place.field(EcoString::from("claude"));
            agent.origin.span = span_of(fields.place.node);
            Some(agent)
        };
        let mut verdicts = self.verdicts(fields);
        if fields.found("verdicts").is_none() {
            verdicts = vec!["yes".into(), "no".into()];
        }
        let min_confidence = self.checked(fields, "min_confidence", Check::WrongType, |value| {
            model::confidence("min_confidence", value).map(drop)
        });
        let prompt = self.template_of(fields, "prompt");
        let timeout = self.time_limit(fields, "timeout");
        Some(Judge { agent: agent?, prompt, verdicts, min_confidence, timeout })
    }

    /// The verdicts that there are.
    fn verdicts(&mut self, fields: &Fields<'_>) -> Vec<EcoString> {
        let Some(place) = fields.get("verdicts") else { return Vec::new() };
        if place.node.value.as_list().is_none() {
            let message = format!("`verdicts` takes a list of words, not {}", shown(&place.node.value));
            self.problem(Check::WrongType.at(span_of(place.node), message));
            return Vec::new();
        }
        let mut verdicts: Vec<EcoString> = Vec::new();
        for item in place.items() {
            let Some(word) = self.scalar_text(&item, "verdicts") else { continue };
            let problem = if word == "error" {
                Some("`error` is the verdict of what cannot be determined: it is always there".to_owned())
            } else if !model::is_verdict(&word) {
                Some(format!("`{word}` cannot be a verdict: {}", model::VERDICT_FORM))
            } else if verdicts.contains(&word) {
                Some(format!("`{word}` is there already"))
            } else {
                None
            };
            match problem {
                Some(message) => self.problem(Check::BadName.at(span_of(item.node), message)),
                None => verdicts.push(word),
            }
        }
        if place.node.items().is_empty() {
            self.problem(
                Check::WrongType.at(span_of(place.node), "`verdicts` is empty: there would be none"),
            );
        }
        verdicts
    }

    /// A value, checked when it is known from the file.
    fn checked(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        check: Check,
        read: impl Fn(&Value) -> Result<(), String>,
    ) -> Option<Field<Document>> {
        let place = fields.get(name)?;
        let (field, value) = self.known(&place);
        if let Some(Err(message)) = value.as_ref().map(read) {
            self.problem(check.at(span_of(place.node), message));
        }
        field
    }

    /// A value with references, and what it is when it has none.
    fn known(&mut self, place: &Place<'_>) -> (Option<Field<Document>>, Option<Value>) {
        let before = self.problems.len();
        let field = self.document(place);
        // What does not parse was reported: it is not the value that was meant.
        let sound = self.problems.len() == before;
        let value = field.as_ref().filter(|_| sound).and_then(|field| field.value.as_fixed().cloned());
        (field, value)
    }

    fn bad(&mut self, check: Check, place: &Place<'_>, bad: BadComparison) {
        let span = match bad.at {
            Some(at) => place_in(&place.origin(), Span::new(at.start, at.end), self.file.text()),
            None => span_of(place.node),
        };
        let problem = check.at(span, bad.message);
        self.problem(bad.hint.into_iter().fold(problem, Problem::hint));
    }

    fn codes(&mut self, fields: &Fields<'_>, key: &str) -> Vec<i64> {
        let Some(place) = fields.get(key) else { return Vec::new() };
        if self.list(&place, key).is_none() {
            return Vec::new();
        }
        let mut codes = Vec::new();
        for item in place.items() {
            if let Some(code) = forms::count(&item.node.value).and_then(|code| i64::try_from(code).ok()) {
                codes.push(code);
            } else {
                let message = format!("`{key}` takes exit codes, not {}", shown(&item.node.value));
                self.problem(Check::WrongType.at(span_of(item.node), message));
            }
        }
        codes
    }
}
