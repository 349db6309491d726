//! Checks that a name is set where it is read: on every path, on some, or on none.

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Severity, Span};

use super::check::{Checker, MAX_MAKERS, Makers, Reader, Written};
use super::order::{RunCondition, RunsBefore, StepOrder};
use super::{Part, StepNumber};
use crate::checks::Check;
use crate::problem::Problem;

impl Checker<'_> {
    /// Reports a name that is not set, or not on every path, where it is read. Returns whether it did.
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
        // A node waits for all nodes that it reads, so none of their results can be unset when it runs.
        let waited_for =
            makers.steps.iter().filter(|made| self.reads_node(reader, **made, reference)).count();
        if waited_for > 0 && waited_for == makers.steps.len() {
            return false;
        }
        let mut maybe: Vec<(StepNumber, Vec<RunCondition>)> = Vec::new();
        let mut not = None;
        for &step in &makers.steps {
            match self.order.before(self.plan, step, reader.step) {
                RunsBefore::Always => return false,
                RunsBefore::Only(conditions) => {
                    // A skipped step leaves an output, too, but without a value.
                    let counts = |condition: &RunCondition| {
                        !makers.is_id || !matches!(condition, RunCondition::When(_))
                    };
                    let conditions: Vec<RunCondition> = conditions.into_iter().filter(counts).collect();
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

    /// The conditions that may not hold when the reader runs.
    fn unprotected(&self, reader: Reader, name: &str, conditions: Vec<RunCondition>) -> Vec<RunCondition> {
        let Some(step) = reader.step else { return conditions };
        let around = StepOrder::conditions(self.plan, step, !reader.is_when());
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
        let same = |condition: &RunCondition| match condition {
            RunCondition::When(text) => whens.iter().any(|when| when.value.source().trim() == text),
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
        conditions: &[RunCondition],
    ) -> Problem {
        let title = self.title(step);
        let default = Self::with_default(reader, &reference.path);
        let problem = match &conditions[0] {
            RunCondition::When(text) => {
                let same = if reader.step.is_some() { ", or give this step the same `when`" } else { "" };
                Check::MaybeUnset
                    .at(span, format!("`{name}` is not set if {title} is skipped"))
                    .note(format!("{title} only runs if `{text}`"))
                    .hint(format!("{default}{same}"))
            }
            RunCondition::Part(owner, part) => {
                let message = format!("`{name}` is only set if {} {}", self.title(*owner), outcome(*part));
                Check::MaybeUnset.at(span, message).hint(default)
            }
            RunCondition::RunPart(part) => {
                let message = format!("`{name}` is only set if the run {}", outcome(*part));
                Check::MaybeUnset.at(span, message).hint(default)
            }
            RunCondition::Reached => {
                let message = format!("`{name}` is not set if the run ends before {title}");
                Check::MaybeUnset.at(span, message).hint(default)
            }
        };
        let has_when = reader
            .step
            .is_some_and(|step| !StepOrder::conditions(self.plan, step, !reader.is_when()).is_empty());
        let mild = has_when || matches!(conditions[0], RunCondition::Reached | RunCondition::RunPart(_));
        Problem { severity: if mild { Severity::Warning } else { Severity::Error }, ..problem }
    }

    /// How a default is written where a reference stands: in text, or in an expression.
    pub(super) fn with_default(reader: Reader, path: &str) -> String {
        if reader.written == Written::Expression {
            format!("give a default: `default({path}, \"\")`")
        } else {
            format!("give a default: `${{{path}:-text}}`")
        }
    }

    fn never_set(
        &self,
        span: Span,
        name: &str,
        step: StepNumber,
        before: &RunsBefore,
        is_id: bool,
    ) -> Problem {
        let title = self.title(step);
        let message = match before {
            RunsBefore::Itself => format!("`{name}` is not available before {title} is done"),
            RunsBefore::Never(owner, part) => {
                let owner = self.title(*owner);
                format!("`{name}` is only set if {owner} {}, and then this does not run", outcome(*part))
            }
            RunsBefore::OtherOutcome(part) => {
                format!("`{name}` is only set if the run {}, and then this does not run", outcome(*part))
            }
            _ if is_id => format!("`{name}` runs later: {title}"),
            _ => format!("`{name}` is captured later: {title}"),
        };
        Check::RunsLater.at(span, message)
    }
}

/// The outcome of a step, or of the run, after which this part runs.
fn outcome(part: Part) -> &'static str {
    match part {
        Part::Fix => "is tried again",
        Part::OnFailure => "fails",
        _ => "succeeds",
    }
}

/// Whether one of two steps always runs: one `when` is the negation of the other.
fn cover_all(maybe: &[(StepNumber, Vec<RunCondition>)]) -> bool {
    let whens: Vec<&str> = maybe
        .iter()
        .filter_map(|(_, conditions)| match &conditions[..] {
            [RunCondition::When(text)] => Some(text.as_str()),
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
