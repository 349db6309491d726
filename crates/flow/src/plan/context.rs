//! What stands outside of the steps: context, the workflow's environment and the commands of agents.
//!
//! They are read before a step runs, so they know only what is there from the start.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_lang::{Reference, ReferenceKind, Template};

use super::check::Checker;
use crate::checks::Check;
use crate::model::{ContextEntry, Field};

impl Checker<'_> {
    /// Entries that need each other, each circle once.
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
            let message = format!("entries of `context` need each other: {}", chain.join(" → "));
            self.problem(Check::ContextCycle.at(first.key_span, message));
        }
    }
}

impl Checker<'_> {
    /// What a run has for itself is known before it begins: nothing is computed for it.
    pub(super) fn locks(&mut self, locks: &[Field<Template>]) {
        for lock in locks {
            let asks_the_world = |reference: &Reference| {
                reference.kind == ReferenceKind::Computed || matches!(reference.root.as_str(), "env" | "uuid")
            };
            for reference in lock.value.references().into_iter().filter(asks_the_world) {
                let span = self.place(&lock.origin, reference.span);
                let message = "`locks` is known before the run begins, when nothing is computed";
                self.problem(Check::NotKnownHere.at(span, message).hint("give it as an input"));
            }
        }
    }
}

/// The entries that one reads. One that reads all of them reads itself, which is circle enough.
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

/// So many circles are shown.
const MAX_CIRCLES: usize = 20;

/// The circles of a graph, each from its first member. No recursion: a chain may be as long as a file.
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

/// The roots that are there before anything runs.
pub(super) const OUTER: [&str; 6] = ["context", "imports", "inputs", "env", "workflow", "uuid"];

/// Why a name is not known outside of the steps.
pub(super) fn not_known(name: &EcoString) -> String {
    format!("`{name}` is not known here: this is read before any step runs")
}
