//! What the screen has said about failures, so that each of them is explained once.
//!
//! A diagnostic explains an execution in full, so the line of its step only points to it. The line of a step gives the
//! reason, so neither the step that called its workflow nor the summary of the run repeats it.

use std::collections::{BTreeMap, BTreeSet};

use threadline_engine::event::Address;

use crate::remarks::Diagnosis;

/// The failures that the screen has explained.
#[derive(Default)]
pub(crate) struct FailureLog {
    /// Executions with a diagnostic, and the short reason that points to it.
    diagnosed: BTreeMap<Address, String>,
    /// Executions whose line gives the reason.
    reported: BTreeSet<Address>,
    /// The reason of the last line about a failed step.
    last_reason: Option<String>,
    /// The reason that the screen gave inside of the run that each step called.
    called: BTreeMap<Address, String>,
    /// The last failed step of each item that has not ended.
    items: BTreeMap<Address, FailedItemStep>,
}

/// A step that failed for an item.
pub(super) struct FailedItemStep {
    pub(super) at: Address,
    pub(super) label: String,
    /// The first line of the error.
    pub(super) error: String,
    /// What stands below the line of the item: further lines of the error, and the end of what the step
    /// printed.
    pub(super) below: Vec<String>,
}

impl FailedItemStep {
    /// Whether the item failed because of this step. The error of an item is that of its step, with the end
    /// of what it printed behind it.
    pub(super) fn explains(&self, item_error: &str) -> bool {
        let more = item_error.strip_prefix(self.error.as_str());
        more.is_some_and(|more| more.is_empty() || more.starts_with(':'))
    }
}

impl FailureLog {
    /// Whether a diagnostic about an execution is on the screen.
    pub(crate) fn is_diagnosed(&self, at: &Address) -> bool {
        self.diagnosed.contains_key(at)
    }

    /// Whether the reason of a failure is on the screen.
    pub(crate) fn is_reported(&self, at: &Address) -> bool {
        self.reported.contains(at)
    }

    /// An execution fails because of errors. If their diagnostics were printed for another execution, the values they
    /// show are those of the other, so the line of this execution gives its own reason.
    pub(super) fn diagnose(&mut self, diagnosis: Diagnosis) {
        let Diagnosis { at, pointer, is_new } = diagnosis;
        if is_new {
            self.diagnosed.insert(at, pointer);
        } else if self.diagnosed.get(&at) != Some(&pointer) {
            self.diagnosed.remove(&at);
        }
    }

    /// The reason as the line of a step gives it: without what the screen has said already.
    pub(super) fn line_reason<'r>(&'r self, at: &Address, reason: &'r str) -> &'r str {
        if let Some(pointer) = self.diagnosed.get(at) {
            return pointer;
        }
        let inner = self.called.get(at).and_then(|inner| reason.strip_suffix(inner.as_str()));
        inner.and_then(|outer| outer.strip_suffix(": ")).unwrap_or(reason)
    }

    /// The line of a failed execution was printed.
    pub(super) fn report(&mut self, at: &Address, reason: &str) {
        self.reported.insert(at.clone());
        self.last_reason = Some(reason.to_owned());
    }

    /// The run that a step called has ended.
    pub(super) fn end_call(&mut self, at: &Address, inside: Self) {
        self.called.extend(inside.last_reason.map(|reason| (at.clone(), reason)));
    }

    /// A step of an item failed.
    pub(super) fn fail_item_step(&mut self, item: Address, step: FailedItemStep) {
        self.items.insert(item, step);
    }

    /// The step that failed last for an item, which has ended or is tried again.
    pub(super) fn take_item_step(&mut self, item: &Address) -> Option<FailedItemStep> {
        self.items.remove(item)
    }
}
