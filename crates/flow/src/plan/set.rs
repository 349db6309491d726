//! Whether a name is set where it is read: on every way there, on some, or on none.

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Severity, Span};

use super::check::{Checker, MAX_MAKERS, Makers, Reader, Written};
use super::order::{Before, Condition, Order};
use super::{Part, StepNumber};
use crate::checks::Check;
use crate::problem::Problem;

impl Checker<'_> {
    /// Whether a problem was reported because a name is not set, or not for sure, where it is read.
    pub(super) fn set_before(
        &mut self,
        reader: Reader,
        span: Span,
        name: &EcoString,
        makers: &Makers,
        reference: &Reference,
    ) -> bool {
        if makers.steps.iter().any(|step| self.plan.steps[*step as usize].step.state.is_some()) {
            return self.set_in_loop(reader, span, name, makers, reference);
        }
        // Of nodes the reader waits for all that it reads: none of it can be unset when it runs.
        let waited_for =
            makers.steps.iter().filter(|made| self.reads_node(reader, **made, reference)).count();
        if waited_for > 0 && waited_for == makers.steps.len() {
            return false;
        }
        let mut maybe: Vec<(StepNumber, Vec<Condition>)> = Vec::new();
        let mut not = None;
        for &step in &makers.steps {
            match self.order.before(self.plan, step, reader.step) {
                Before::Always => return false,
                Before::Only(conditions) => {
                    // A step that was skipped leaves an output all the same, without a value.
                    let counts =
                        |condition: &Condition| !makers.is_id || !matches!(condition, Condition::When(_));
                    let conditions: Vec<Condition> = conditions.into_iter().filter(counts).collect();
                    let left = self.unprotected(reader, name, conditions);
                    if left.is_empty() {
                        return false;
                    }
                    maybe.push((step, left));
                }
                other => not = not.or(Some((step, other))),
            }
        }
        match (maybe.first(), not) {
            (Some(_), _) if reference.guarded || maybe.len() >= MAX_MAKERS || cover_all(&maybe) => false,
            (Some((step, conditions)), _) => {
                let problem = self.maybe_unset(reader, span, reference, name, *step, conditions);
                self.problem(problem);
                true
            }
            (None, Some((step, before))) => {
                let problem = self.never_set(span, name, step, &before, makers.is_id);
                self.problem(problem);
                true
            }
            (None, None) => false,
        }
    }

    /// The conditions that do not hold for sure where the reader runs.
    fn unprotected(&self, reader: Reader, name: &str, conditions: Vec<Condition>) -> Vec<Condition> {
        let Some(step) = reader.step else { return conditions };
        let around = Order::conditions(self.plan, step, !reader.is_when);
        let whens = around.iter().filter_map(|step| self.plan.steps[*step as usize].step.when.as_ref());
        let whens: Vec<_> = whens.collect();
        let asks = whens.iter().any(|when| {
            when.value.references().iter().any(|reference| {
                let named = if reference.root == "captured" { reference.first.as_deref() } else { None };
                reference.guarded && named.unwrap_or(&reference.root) == name
            })
        });
        if asks {
            return Vec::new();
        }
        let same = |condition: &Condition| match condition {
            Condition::When(text) => whens.iter().any(|when| when.value.source().trim() == text),
            _ => false,
        };
        conditions.into_iter().filter(|condition| !same(condition)).collect()
    }

    fn maybe_unset(
        &self,
        reader: Reader,
        span: Span,
        reference: &Reference,
        name: &str,
        step: StepNumber,
        conditions: &[Condition],
    ) -> Problem {
        let title = self.title(step);
        let default = self.with_default(&reference.path);
        let problem = match &conditions[0] {
            Condition::When(text) => {
                let same = if reader.step.is_some() { ", or give this step the same `when`" } else { "" };
                Check::MaybeUnset
                    .at(span, format!("`{name}` is not set when {title} is skipped"))
                    .note(format!("{title} runs only when `{text}`"))
                    .hint(format!("{default}{same}"))
            }
            Condition::Part(owner, part) => {
                let message = format!("`{name}` is set only when {} {}", self.title(*owner), outcome(*part));
                Check::MaybeUnset.at(span, message).hint(default)
            }
            Condition::Reached => {
                let message = format!("`{name}` is not set when the run ends before {title}");
                Check::MaybeUnset.at(span, message).hint(default)
            }
        };
        let has_when =
            reader.step.is_some_and(|step| !Order::conditions(self.plan, step, !reader.is_when).is_empty());
        let mild = has_when || conditions[0] == Condition::Reached;
        Problem { severity: if mild { Severity::Warning } else { Severity::Error }, ..problem }
    }

    /// How a default is written where a reference stands: in text, or in an expression.
    pub(super) fn with_default(&self, path: &str) -> String {
        if self.written == Written::Expression {
            format!("give a default: `default({path}, \"\")`")
        } else {
            format!("give a default: `${{{path}:-text}}`")
        }
    }

    fn never_set(&self, span: Span, name: &str, step: StepNumber, before: &Before, is_id: bool) -> Problem {
        let title = self.title(step);
        let message = match before {
            Before::Itself => format!("`{name}` is not there before {title} is done"),
            Before::Never(owner, part) => {
                let owner = self.title(*owner);
                format!("`{name}` is set only when {owner} {}, and then this does not run", outcome(*part))
            }
            _ if is_id => format!("`{name}` runs later: {title}"),
            _ => format!("`{name}` is captured later: {title}"),
        };
        Check::RunsLater.at(span, message)
    }
}

/// How a step ended whose list of this part runs.
fn outcome(part: Part) -> &'static str {
    if part == Part::OnFailure { "fails" } else { "goes well" }
}

/// Whether one of two steps runs in any case: one `when` is the other with a `not` before it.
fn cover_all(maybe: &[(StepNumber, Vec<Condition>)]) -> bool {
    let whens: Vec<&str> = maybe
        .iter()
        .filter_map(|(_, conditions)| match &conditions[..] {
            [Condition::When(text)] => Some(text.as_str()),
            _ => None,
        })
        .collect();
    whens.iter().any(|one| {
        whens.iter().any(|other| {
            let opposite = other.strip_prefix("not ").or_else(|| other.strip_prefix('!'));
            opposite.is_some_and(|opposite| {
                let opposite = opposite.trim();
                opposite == *one
                    || opposite.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) == Some(*one)
            })
        })
    })
}
