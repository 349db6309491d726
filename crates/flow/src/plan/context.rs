//! Checks fields outside of the steps: `context`, the environment of the workflow, and the commands of
//! agents.
//!
//! They are evaluated before any step runs, so they can only read what is available from the start.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_lang::{Reference, ReferenceKind, Template};

use super::check::Checker;
use crate::checks::Check;
use crate::model::{ContextEntry, Field};

impl Checker<'_> {
    /// Reports entries that depend on each other, each cycle once.
    pub(super) fn context_cycles(&mut self) {
        let workflow = std::sync::Arc::clone(&self.plan.workflow);
        let Some(context) = &workflow.context else { return };
        let entries = &context.entries;
        let by_name: BTreeMap<&str, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.name.as_str(), at)).collect();
        let needs: Vec<Vec<usize>> =
            entries.iter().enumerate().map(|(at, entry)| needs(at, entry, &by_name)).collect();
        for circle in circles(&needs) {
            let first = &entries[circle[0]];
            let chain: Vec<&str> =
                circle.iter().chain(circle.first()).map(|at| entries[*at].name.as_str()).collect();
            let message = format!("entries of `context` depend on each other: {}", chain.join(" → "));
            self.problem(Check::ContextCycle.at(first.key_span, message));
        }
    }
}

impl Checker<'_> {
    /// Checks `locks`, which are evaluated before the run, without computed values.
    pub(super) fn locks(&mut self, locks: &[Field<Template>]) {
        for lock in locks {
            let asks_the_world = |reference: &Reference| {
                reference.kind == ReferenceKind::Computed || matches!(reference.root.as_str(), "env" | "uuid")
            };
            for reference in lock.value.references().into_iter().filter(asks_the_world) {
                let span = self.place(&lock.origin, reference.span);
                let message =
                    "`locks` is evaluated before the run starts, when no computed values are available";
                self.problem(Check::NotKnownHere.at(span, message).hint("pass it as an input"));
            }
        }
    }
}

/// The entries that an entry reads. An entry that reads all of them reads itself, which is a cycle.
fn needs(own: usize, entry: &ContextEntry, by_name: &BTreeMap<&str, usize>) -> Vec<usize> {
    let mut needs = Vec::new();
    for (_, Reference { root, first, .. }) in entry.written.value.references() {
        match (root.as_str(), first.as_deref()) {
            ("context", Some(name)) => needs.extend(by_name.get(name)),
            ("context", None) => needs.push(own),
            _ => {}
        }
    }
    needs
}

/// Maximum number of cycles to report.
const MAX_CIRCLES: usize = 20;

/// The cycles of a graph, each starting with its first member. It does not recurse, because a chain can be as
/// long as a file.
pub(super) fn circles(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    let mut state = vec![NEW; needs.len()];
    let mut found = Vec::new();
    for start in 0..needs.len() {
        let mut way: Vec<(usize, usize)> = Vec::new();
        if state[start] == NEW {
            state[start] = 0;
            way.push((start, 0));
        }
        while let Some((at, next)) = way.last_mut().filter(|_| found.len() < MAX_CIRCLES) {
            let (at, step) = (*at, *next);
            *next += 1;
            match needs[at].get(step) {
                None => {
                    state[at] = DONE;
                    way.pop();
                }
                Some(&other) => match state[other] {
                    DONE => {}
                    NEW => {
                        state[other] = way.len();
                        way.push((other, 0));
                    }
                    from => found.push(way[from..].iter().map(|(at, _)| *at).collect()),
                },
            }
        }
    }
    found
}

/// The roots that are available before any step runs.
pub(super) const OUTER: [&str; 7] = ["context", "imports", "inputs", "env", "workflow", "uuid", "secrets"];

/// Why a name is not available outside of the steps.
pub(super) fn not_known(name: &EcoString) -> String {
    format!("`{name}` is not available here, because this is evaluated before any step runs")
}
