//! The fields of the expectations of agents, each built as the check that its line of the table says.

use threadline_lang::diag::{Span, words};
use threadline_lang::{Type, Value};

use super::expectation::{node, test};
use super::{ExpectationLoader, TreeCursor, comparison, known};
use crate::checks::Check;
use crate::model::{ExpectationLine, FieldRule, LineKind, Operand};
use crate::operand;
use crate::path::ActualPath;
use crate::table::{self, FieldName, FieldSpec, FieldTakes, NamedOperator, Op, RESPONSE_TYPES};

/// What is asked of one step of the plan.
#[derive(Default)]
pub(super) struct StepChecks {
    checks: Vec<ExpectationLine>,
    /// Where among the lines of its owner it goes.
    pub(super) position: Option<usize>,
    /// How many lines stand before the key that is being read.
    pub(super) here: usize,
}

impl StepChecks {
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }
}

/// Whether a field is about a step of the plan.
pub(super) fn is_of_step(field: &FieldSpec) -> bool {
    use FieldName::{Agent, Amount, Function, Params, Recipient};
    matches!(field.field, Agent | Function | Params | Amount | Recipient)
}

/// An operator that is in the table.
fn operator(name: &str) -> NamedOperator {
    table::named(name).unwrap_or_else(|| unreachable!("`{name}` is in the table of operators"))
}

impl ExpectationLoader<'_> {
    /// The lines of a field. What it asks of a step of the plan goes to `bound`.
    pub(super) fn field(
        &mut self,
        field: &'static FieldSpec,
        at: &TreeCursor<'_>,
        span: Span,
        depth: usize,
        bound: &mut StepChecks,
    ) -> Option<ExpectationLine> {
        if let Some(kind) = self.context.kind
            && kind != crate::actual::DocumentKind::Answer
        {
            let known = words::names(kind.roots());
            let message = format!(
                "`{}` is about the answer of an agent, and this is {}",
                field.name,
                kind.with_article()
            );
            self.problem(Check::UnknownField.at(span, message).hint(format!("it has {known}")));
            return None;
        }
        let name = field.name;
        let line = |what: LineKind| Some(node(name, span, what));
        match field.field {
            FieldName::ResponseType => {
                let check = self.comparison(at, name, depth)?;
                self.response_types(&check);
                line(LineKind::At(ActualPath::of(&["type"]), check.into()))
            }
            FieldName::Agent => self.of_step(field, &["agent"], at, span, depth, bound),
            FieldName::Function => self.of_step(field, &["function"], at, span, depth, bound),
            FieldName::Amount => self.of_step(field, &["params", "amount"], at, span, depth, bound),
            FieldName::Recipient => self.of_step(field, &["params", "recipient"], at, span, depth, bound),
            FieldName::Params => {
                self.params(at, depth, bound);
                None
            }
            FieldName::Contain | FieldName::Mention | FieldName::Warn => {
                self.words(field, "iContainsAll", at, span)
            }
            FieldName::NotContain => self.words(field, "not-iContainsAny", at, span),
            FieldName::AskFor => {
                let words = self.words(field, "iContainsAll", at, span)?;
                let asks =
                    [("type", "eq", "clarification"), ("text", "contains", "?")].map(|(root, op, value)| {
                        let check = fixed(name, op, value.into(), span);
                        node(root, span, LineKind::At(ActualPath::of(&[root]), check.into()))
                    });
                let any = node("any", span, LineKind::Any(asks.into()));
                line(LineKind::Together(vec![any, words]))
            }
            FieldName::Reject
            | FieldName::Explain
            | FieldName::MaintainRole
            | FieldName::Handle
            | FieldName::Behavior => {
                let operand = match field.takes {
                    FieldTakes::Bool => {
                        let met = self.bool(name, at.node)?;
                        Operand::Fixed(operand::PreparedOperand::Bool(met).into(), met.into())
                    }
                    FieldTakes::Text if at.node.value.as_str().is_none_or(|text| text.trim().is_empty()) => {
                        self.wrong_type(name, "the name of a role", at.node);
                        return None;
                    }
                    _ => {
                        self.is_words(name, at)?;
                        self.text_operand(at)?
                    }
                };
                line(LineKind::Rule(FieldRule { field: field.field, operand }))
            }
        }
    }

    /// A text or texts that may hold references.
    pub(super) fn text_operand(&mut self, at: &TreeCursor<'_>) -> Option<Operand> {
        self.operand(operator("containsAll"), at)
    }

    fn of_step(
        &mut self,
        field: &FieldSpec,
        path: &[&str],
        at: &TreeCursor<'_>,
        span: Span,
        depth: usize,
        bound: &mut StepChecks,
    ) -> Option<ExpectationLine> {
        // What is compared is one amount or name, so that a name behind it is an operator that does not exist.
        let is_path = |key: &str| {
            table::named(key).is_none()
                && known(table::LOGIC, key).is_none()
                && comparison::meant_behind_parameter(key).is_none()
                && !key.contains(['.', '['])
        };
        if at.node.entries().next().is_some() && at.node.entries().all(|(key, _)| is_path(key)) {
            for (key, entry) in at.node.entries() {
                let problem = Check::UnknownOperator.at(entry.key_span, format!("`{key}` is no operator"));
                self.unknown(problem.hint("write an operator, such as `eq`, `gt` or `in`"));
                bound.checks.extend(self.left_out_operator(key, entry.key_span));
            }
            return None;
        }
        let check = self.comparison(at, field.name, depth)?;
        bound.position.get_or_insert(bound.here);
        bound.checks.push(node(field.name, span, LineKind::At(ActualPath::of(path), check.into())));
        None
    }

    /// Names of parameters, never operators: a parameter may be called `type`.
    fn params(&mut self, at: &TreeCursor<'_>, depth: usize, bound: &mut StepChecks) {
        if at.node.value.as_object().is_none() {
            return self.wrong_type("expectedParams", FieldTakes::Params.expected(), at.node);
        }
        if at.node.entries().next().is_none() {
            let problem = Check::NotAnExpectation.at(at.node.span, "`expectedParams` names no parameter");
            return self.problem(problem);
        }
        bound.position.get_or_insert(bound.here);
        for (name, entry) in at.node.entries() {
            let child = at.key(name, &entry.node);
            let path = match ActualPath::parse(&format!("params.{name}")) {
                Ok(path) => path,
                Err(_) => ActualPath::of(&["params", name]),
            };
            if let Some(left_out) = self.unknown_operators(name, &child) {
                bound.checks.extend(left_out);
            } else if let Some(check) = self.comparison(&child, "expectedParams", depth) {
                bound.checks.push(node("expectedParams", entry.key_span, LineKind::At(path, check.into())));
            }
        }
    }

    /// Names behind a parameter that are neither operators nor paths. A parameter is compared, so that a name there is an
    /// operator that does not exist; a field of the parameter is written as a path.
    fn unknown_operators(&mut self, name: &str, at: &TreeCursor<'_>) -> Option<Vec<ExpectationLine>> {
        let is_known = |key: &str| table::named(key).is_some() || known(table::LOGIC, key).is_some();
        let entries: Vec<_> = at.node.entries().collect();
        let is_path = |key: &str| key.contains(['.', '[']);
        if entries.is_empty() || entries.iter().any(|(key, _)| is_known(key) || is_path(key)) {
            return None;
        }
        let mut left_out = Vec::new();
        for (key, entry) in entries {
            let problem = Check::UnknownOperator.at(entry.key_span, format!("`{key}` is no operator"));
            let path = format!("for a field of that name write `{name}.{key}` as one path");
            self.unknown(match comparison::meant_behind_parameter(key) {
                Some(meant) => problem.replace(format!("{}; {path}", words::did_you_mean(&meant)), meant),
                None => problem.hint(path),
            });
            left_out.extend(self.left_out_operator(key, entry.key_span));
        }
        Some(left_out)
    }

    /// What was asked of one step, as a line, and where it goes.
    pub(super) fn step_of(&mut self, bound: StepChecks) -> Option<(usize, ExpectationLine)> {
        let StepChecks { checks, position, .. } = bound;
        let first = checks.first()?;
        self.contradictions(&checks);
        let mut names: Vec<&str> = Vec::new();
        for check in &checks {
            if !names.contains(&check.written.as_str()) {
                names.push(&check.written);
            }
        }
        let span = first.span;
        let names = names.join(", ");
        Some((position.unwrap_or_default(), node(&names, span, LineKind::Step(checks))))
    }

    /// Two checks of the same part of a step that no step can meet.
    fn contradictions(&mut self, checks: &[ExpectationLine]) {
        for (at, check) in checks.iter().enumerate() {
            let Some((path, equal)) = equal_to(check) else { continue };
            let other = checks[..at].iter().filter_map(equal_to).find(|(other, _)| *other == path);
            if let Some((_, other)) = other
                && !operand::can_be_both(other, equal)
            {
                // Of parameters only the path says which one it is.
                let name = if check.written == "expectedParams" { &path } else { check.written.as_str() };
                let message = format!(
                    "`{name}` cannot be both {} and {}: the checks of one expectation are about one step of the plan",
                    super::shown(other.1),
                    super::shown(equal.1)
                );
                let hint = "for two steps write two expectations, or `distinct: true` beside `all`";
                self.problem(Check::Contradiction.at(check.span, message).hint(hint));
            }
        }
    }

    fn words(
        &mut self,
        field: &FieldSpec,
        op: &str,
        at: &TreeCursor<'_>,
        span: Span,
    ) -> Option<ExpectationLine> {
        self.is_words(field.name, at)?;
        let named = operator(op);
        let operand = self.operand(named, at)?;
        let check = node(field.name, span, test(named, operand));
        Some(node(field.name, span, LineKind::At(ActualPath::of(&["text"]), check.into())))
    }

    /// A text, or a list of texts; numbers stand for their text.
    fn is_words(&mut self, name: &str, at: &TreeCursor<'_>) -> Option<()> {
        let is_word = |value: &Value| matches!(value.kind(), Type::Text | Type::Int | Type::Decimal);
        let expected = FieldTakes::Words.expected();
        if at.node.value.as_list().is_none() && !is_word(&at.node.value) {
            self.wrong_type(name, expected, at.node);
            return None;
        }
        let mut sound = true;
        let empty = |value: &Value| value.as_str() == Some("");
        let texts = match at.node.value.as_list() {
            Some([]) => {
                self.problem(Check::NoMembers.at(at.node.span, format!("`{name}` needs at least one text")));
                return None;
            }
            Some(_) => at.node.items(),
            None => std::slice::from_ref(at.node),
        };
        for item in texts {
            if !is_word(&item.value) {
                let found = item.value.kind().with_article();
                let message = format!("every item of `{name}` is text, this is {found}");
                self.problem(Check::WrongType.at(item.span, message));
                sound = false;
            } else if empty(&item.value) {
                let message = format!("`{name}` has an empty text, which every text contains");
                self.problem(Check::WrongType.at(item.span, message));
                sound = false;
            }
        }
        sound.then_some(())
    }

    /// Kinds of answers that there are.
    fn response_types(&mut self, check: &ExpectationLine) {
        let mut unknown = Vec::new();
        check.visit(&mut |line| {
            let LineKind::Test(found) = &line.what else { return };
            let Operand::Fixed(_, value) = &found.operand else { return };
            if !matches!(found.named.operator.op, Op::Eq | Op::In) || found.named.fold {
                return;
            }
            let values = value.as_list().map_or_else(|| vec![value], |items| items.iter().collect());
            let known = |value: &Value| value.as_str().is_some_and(|name| RESPONSE_TYPES.contains(&name));
            unknown.extend(
                values.into_iter().filter(|value| !known(value)).map(|value| (value.clone(), line.span)),
            );
        });
        for (value, span) in unknown {
            let message = format!("`responseType` is never {}", super::shown(&value));
            let hint = match value.as_str().and_then(|name| words::suggest(name, RESPONSE_TYPES)) {
                Some(hint) => hint,
                None => {
                    format!("it is one of {}; for other kinds write `type`", words::names(RESPONSE_TYPES))
                }
            };
            self.problem(Check::WrongType.at(span, message).hint(hint));
        }
    }
}

/// A test with an operand of our own.
fn fixed(written: &str, op: &str, value: Value, span: Span) -> ExpectationLine {
    let named = operator(op);
    let prepared = operand::prepare(named, &value).unwrap_or(operand::PreparedOperand::Bool(true));
    node(written, span, test(named, Operand::Fixed(prepared.into(), value)))
}

/// The path and the value of a check that asks for one value.
fn equal_to(check: &ExpectationLine) -> Option<(String, (&operand::PreparedOperand, &Value))> {
    let LineKind::At(path, inner) = &check.what else { return None };
    let LineKind::Test(found) = &inner.what else { return None };
    let Operand::Fixed(prepared, value) = &found.operand else { return None };
    let mut text = String::new();
    path.steps().iter().for_each(|step| step.write(&mut text));
    (found.named.operator.op == Op::Eq && !found.named.negated).then_some((text, (prepared, value)))
}
