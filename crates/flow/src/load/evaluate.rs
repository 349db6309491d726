//! Reads the evaluation of a state. Literal values are checked here, with the functions that read them while
//! a state is judged.

use ecow::EcoString;
use threadline_expect::BadComparison;
use threadline_lang::diag::{Span, words};
use threadline_lang::{Document, Value};

use super::read::{LocatedNode, ObjectFields, WorkflowLoader, shown, span_of};
use crate::checks::Check;
use crate::fields::EVALUATE;
use crate::forms;
use crate::model::{
    self, Action, Compared, Contains, Convergence, Direction, Evaluate, Evaluator, Field, Judge, Routes,
    UNCERTAIN,
};
use crate::problem::{Problem, place_in};

/// Keys that imply the type of an evaluation.
const IMPLYING: [(&str, &str); 5] = [
    ("expression", "expression"),
    ("expect", "expect"),
    ("pattern", "output_contains"),
    ("path", "output_json"),
    ("prompt", "agent"),
];

impl WorkflowLoader {
    /// Reads `evaluate` of a state with this action.
    pub(super) fn read_evaluate(
        &mut self,
        fields: &ObjectFields<'_>,
        action: Option<&Action>,
        routes: &Routes,
    ) -> Option<Evaluate> {
        let place = fields.get("evaluate")?;
        let origin = place.origin();
        let short = place.node.value.as_object().is_none();
        let inner = if short {
            ObjectFields::none(place.clone(), &EVALUATE)
        } else {
            self.read_fields(place.clone(), &EVALUATE)?
        };
        let kind = if short {
            self.read_choice_at(&place, "evaluate", EVALUATE.known("type").choices())?
        } else {
            self.find_type(&inner)?
        };
        self.check_types(&inner, kind);
        let by = self.read_evaluator(&inner, kind, action, routes)?;
        let source = self.read_document_of(&inner, "source");
        if by.looks_at_output() && source.is_none() && matches!(action, Some(Action::Nothing)) {
            let message = format!("`{}` judges an output, but a state without an action has none", by.name());
            let problem = Check::MissingKey.at(span_of(place.node), message);
            self.report(problem.hint("name the value to judge: `source: ${captured.NAME.output}`"));
        }
        let any_exit_code = self.read_bool(&inner, "any_exit_code");
        Some(Evaluate { by, source, any_exit_code, origin })
    }

    /// The type, as written or as implied by another key.
    fn find_type(&mut self, fields: &ObjectFields<'_>) -> Option<&'static str> {
        if fields.found("type").is_some() {
            return self.read_choice(fields, "type");
        }
        let implying: Vec<&(&str, &'static str)> =
            IMPLYING.iter().filter(|(key, _)| fields.found(key).is_some()).collect();
        if let [(_, kind)] = implying[..] {
            return Some(kind);
        }
        if !fields.misspelt("type") {
            let message = if implying.is_empty() {
                format!("an evaluation needs `type`: {}", EVALUATE.known("type").summary())
            } else {
                let keys = words::code_list(implying.iter().map(|(key, _)| key), "and");
                format!("{keys} imply different types: add `type`")
            };
            self.report(Check::MissingKey.at(span_of(fields.place.node), message));
        }
        None
    }

    /// Reports keys that do not apply to the type.
    fn check_types(&mut self, fields: &ObjectFields<'_>, kind: &str) {
        for found in fields.all() {
            let types = found.key.types;
            if types.is_empty() || types.contains(&kind) {
                continue;
            }
            let message = format!("`{}` does not apply to `{kind}`", found.written);
            let note = format!("it applies to {}", words::code_list(types, "and"));
            self.report(Check::KeyNotHere.at(found.entry.key_span, message).note(note));
        }
        // Nor is such a key what a misspelt one was meant to be.
        let object = fields.place.node.span.range();
        let applies = |name: &str| {
            fields.object.key(name).is_none_or(|key| key.types.is_empty() || key.types.contains(&kind))
        };
        for problem in &mut self.problems {
            let is_inside = object.contains(&problem.span.range().start);
            if is_inside && problem.fix.as_ref().is_some_and(|fix| !applies(&fix.text)) {
                (problem.hints, problem.fix) = (Vec::new(), None);
            }
        }
    }

    fn read_evaluator(
        &mut self,
        fields: &ObjectFields<'_>,
        kind: &'static str,
        action: Option<&Action>,
        routes: &Routes,
    ) -> Option<Evaluator> {
        Some(match kind {
            "exit_code" => Evaluator::ExitCode {
                yes: self.read_codes(fields, "yes_codes"),
                no: self.read_codes(fields, "no_codes"),
            },
            "outcome" => Evaluator::Outcome,
            "output_numeric" => Evaluator::Numeric {
                key: self.read_number_name(fields),
                compared: self.read_comparison(fields, model::numeric_comparison),
            },
            "output_json" => {
                let path = self.read_checked(fields, "path", Check::BadJsonPath, |value| {
                    model::Place::read(value).map(drop)
                });
                Evaluator::Json { path, compared: self.read_comparison(fields, model::comparison) }
            }
            "output_contains" => Evaluator::Contains(Box::new(self.read_contains(fields)?)),
            "convergence" => Evaluator::Convergence(Box::new(self.read_convergence(fields)?)),
            "classify" => Evaluator::Classify { verdicts: self.read_verdicts(fields) },
            "expect" => {
                self.require_key(fields, "expect")?;
                Evaluator::Expect(self.read_expectations(fields, action?)?)
            }
            "agent" => Evaluator::Agent(Box::new(self.read_judge(fields, routes)?)),
            _ => {
                self.require_key(fields, "expression")?;
                Evaluator::Expression(self.read_expression(fields, "expression")?)
            }
        })
    }

    /// Reports a required key that is missing.
    fn require_key(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<()> {
        if fields.found(name).is_some() {
            return Some(());
        }
        if !fields.misspelt(name) {
            let message = format!("this evaluation needs `{name}`: {}", EVALUATE.known(name).summary());
            self.report(Check::MissingKey.at(span_of(fields.place.node), message));
        }
        None
    }

    fn read_number_name(&mut self, fields: &ObjectFields<'_>) -> Option<Field<Document>> {
        self.read_checked(fields, "key", Check::WrongType, |value| match model::scalar(value) {
            Some(name) if !name.trim().is_empty() => Ok(()),
            _ => Err(format!("`key` takes the name of a number, not {}", shown(value))),
        })
    }

    fn read_comparison<T>(
        &mut self,
        fields: &ObjectFields<'_>,
        read: impl Fn(Option<&Value>, Option<&Value>) -> Result<T, BadComparison>,
    ) -> Compared {
        // A missing target is a literal, too.
        let mut read_key = |name: &str| match fields.get(name) {
            None => (None, Some(None)),
            Some(place) => {
                let (field, value) = self.read_literal(&place);
                (field, value.map(Some))
            }
        };
        let (operator, known_operator) = read_key("operator");
        let (target, known_target) = read_key("target");
        let bad = match (&known_operator, &known_target) {
            (Some(operator), Some(target)) => read(operator.as_ref(), target.as_ref()).err(),
            // The operator can be checked before its target is known.
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
            self.report_bad_value(check, &place, bad);
        }
        Compared { operator, target }
    }

    fn read_contains(&mut self, fields: &ObjectFields<'_>) -> Option<Contains> {
        self.require_key(fields, "pattern")?;
        let regex = self.read_given_bool(fields, "regex");
        let negate = self.read_bool(fields, "negate");
        self.warn_of_literal(fields, regex);
        let pattern = fields.get("pattern").and_then(|place| self.read_pattern(&place, regex));
        let mut error_patterns = Vec::new();
        if let Some(place) = fields.get("error_patterns") {
            let is_list = place.node.value.as_list().is_some();
            let places = if is_list { place.items().collect() } else { vec![place] };
            error_patterns.extend(places.iter().filter_map(|place| self.read_pattern(place, regex)));
        }
        Some(Contains { pattern: pattern?, regex, negate, error_patterns })
    }

    /// Warns of a pattern that is written as a regular expression, as older systems read all of them.
    fn warn_of_literal(&mut self, fields: &ObjectFields<'_>, regex: Option<bool>) {
        let Some(place) = fields.get("pattern") else { return };
        let Some(text) = place.node.value.as_str().filter(|_| regex.is_none()) else { return };
        let has_sign = ["\\b", "\\s", "\\d", "\\w", ".*", ".+", "[0-9", "[a-z", "[A-Z"]
            .iter()
            .any(|sign| text.contains(sign));
        let has_choice = text.contains('|') && text.contains('(') && text.contains(')');
        let is_plain = !has_sign && !has_choice && !text.starts_with('^') && !text.ends_with('$');
        if is_plain || threadline_expect::is_pattern(text) {
            return;
        }
        let message = format!("`{text}` is looked for as it is, not as a regular expression");
        let hint = format!("write `/{text}/` for a regular expression, or say `regex: false`");
        self.report(Check::LiteralPattern.at(place.node.span, message).hint(hint));
    }

    fn read_pattern(&mut self, place: &LocatedNode<'_>, regex: Option<bool>) -> Option<Field<Document>> {
        let (pattern, value) = self.read_literal(place);
        if let Some(Err(bad)) = value.map(|value| model::pattern(regex, &value)) {
            self.report_bad_value(Check::WrongType, place, bad);
        }
        pattern
    }

    fn read_convergence(&mut self, fields: &ObjectFields<'_>) -> Option<Convergence> {
        self.require_key(fields, "target")?;
        let wrong = Check::WrongType;
        let target =
            self.read_checked(fields, "target", wrong, |value| model::measure("target", value).map(drop));
        let tolerance =
            self.read_checked(fields, "tolerance", wrong, |value| model::tolerance(value).map(drop));
        let direction = self.read_checked(fields, "direction", Check::UnknownChoice, |value| {
            Direction::read(value).map(drop)
        });
        let previous =
            self.read_checked(fields, "previous", wrong, |value| model::measure("previous", value).map(drop));
        Some(Convergence {
            key: self.read_number_name(fields),
            target: target?,
            tolerance,
            direction,
            previous,
        })
    }

    fn read_judge(&mut self, fields: &ObjectFields<'_>, routes: &Routes) -> Option<Judge> {
        let agent = if fields.found("agent").is_some() {
            self.read_agent_name(fields)
        } else {
            let mut agent = fields.place.field(EcoString::from("claude"));
            agent.origin.span = span_of(fields.place.node);
            Some(agent)
        };
        let mut verdicts = self.read_verdicts(fields);
        if fields.found("verdicts").is_none() {
            verdicts = routes.judged_verdicts();
        }
        let min_confidence = self.read_checked(fields, "min_confidence", Check::WrongType, |value| {
            model::confidence("min_confidence", value).map(drop)
        });
        let prompt = self.read_template_of(fields, "prompt");
        let timeout = self.read_time_limit(fields, "timeout");
        // Where nothing says what follows when the judge is not sure, its verdict counts all the same.
        let is_routed = routes.on.iter().any(|(verdict, _)| verdict == UNCERTAIN)
            || routes.otherwise.is_some()
            || !routes.conditions.is_empty();
        let keeps_unsure = min_confidence.is_some() && !is_routed;
        Some(Judge { agent: agent?, prompt, verdicts, min_confidence, keeps_unsure, timeout })
    }

    /// Reads the allowed verdicts.
    fn read_verdicts(&mut self, fields: &ObjectFields<'_>) -> Vec<EcoString> {
        let Some(place) = fields.get("verdicts") else { return Vec::new() };
        if place.node.value.as_list().is_none() {
            let message = format!("`verdicts` takes a list of words, not {}", shown(&place.node.value));
            self.report(Check::WrongType.at(span_of(place.node), message));
            return Vec::new();
        }
        let mut verdicts: Vec<EcoString> = Vec::new();
        for item in place.items() {
            let Some(word) = self.read_scalar_text(&item, "verdicts") else { continue };
            let problem = if word == "error" {
                Some("`error` is always a possible verdict and cannot be listed".to_owned())
            } else if !model::is_verdict(&word) {
                Some(format!("`{word}` cannot be a verdict: {}", model::VERDICT_FORM))
            } else if verdicts.contains(&word) {
                Some(format!("`{word}` is listed twice"))
            } else {
                None
            };
            match problem {
                Some(message) => self.report(Check::BadName.at(span_of(item.node), message)),
                None => verdicts.push(word),
            }
        }
        if place.node.items().is_empty() {
            self.report(Check::WrongType.at(span_of(place.node), "`verdicts` is empty"));
        }
        verdicts
    }

    /// Reads a value, and checks it if it is a literal.
    fn read_checked(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
        check: Check,
        read: impl Fn(&Value) -> Result<(), String>,
    ) -> Option<Field<Document>> {
        let place = fields.get(name)?;
        let (field, value) = self.read_literal(&place);
        if let Some(Err(message)) = value.as_ref().map(read) {
            self.report(check.at(span_of(place.node), message));
        }
        field
    }

    /// Reads a value with references, together with its literal value if it has none.
    fn read_literal(&mut self, place: &LocatedNode<'_>) -> (Option<Field<Document>>, Option<Value>) {
        let before = self.problems.len();
        let field = self.read_document(place);
        // A text that does not parse was reported, and is not the value that was meant.
        let sound = self.problems.len() == before;
        let value = field.as_ref().filter(|_| sound).and_then(|field| field.value.as_fixed().cloned());
        (field, value)
    }

    fn report_bad_value(&mut self, check: Check, place: &LocatedNode<'_>, bad: BadComparison) {
        let span = match bad.at {
            Some(at) => place_in(&place.origin(), Span::new(at.start, at.end), self.file.text()),
            None => span_of(place.node),
        };
        let problem = check.at(span, bad.message);
        self.report(bad.hint.into_iter().fold(problem, Problem::hint));
    }

    fn read_codes(&mut self, fields: &ObjectFields<'_>, key: &str) -> Vec<i64> {
        let Some(place) = fields.get(key) else { return Vec::new() };
        if self.check_list(&place, key).is_none() {
            return Vec::new();
        }
        let mut codes = Vec::new();
        for item in place.items() {
            if let Some(code) = forms::count(&item.node.value).and_then(|code| i64::try_from(code).ok()) {
                codes.push(code);
            } else {
                let message = format!("`{key}` takes exit codes, not {}", shown(&item.node.value));
                self.report(Check::WrongType.at(span_of(item.node), message));
            }
        }
        codes
    }
}
