//! The ways through a loop: states that are never come to, and loops that never end.

use super::{ends, ends_well};
use crate::checks::Check;
use crate::model::{Action, Loop};
use crate::plan::States;
use crate::plan::check::Checker;
use crate::problem::Problem;

/// So many states are named in a sentence.
const MAX_NAMED: usize = 5;

impl Checker<'_> {
    /// What is wrong with the ways, when all of them are known.
    pub(super) fn routes_of_states(&mut self, of: &Loop, states: &States) {
        self.unreachable();
        self.never_ends(of);
        self.one_iteration(of, states);
    }

    /// A state that nothing leads to never runs: what it does is missing in the loop, so it is an error. An end that is
    /// never come to leaves nothing undone.
    fn unreachable(&mut self) {
        let Some(graph) = &self.loop_graph else { return };
        let entered = graph.entered();
        let before = graph.first_before();
        let mut problems = Vec::new();
        for (at, step) in self.plan.workflow.steps.iter().enumerate() {
            let Some(state) = step.state.as_ref().filter(|_| !entered.has(at)) else { continue };
            let name = &state.name;
            let unused = ends(step) && matches!(step.action, Action::Nothing);
            let check = if unused { Check::UnusedEnd } else { Check::UnreachableState };
            let problem = match before[at] {
                None => check.at(name.origin.span, format!("no state leads to `{}`", name.value)),
                Some(from) => {
                    let from = self.plan.lists[0].word(from);
                    let message = format!("no way leads to `{}`", name.value);
                    let note = format!("`{from}` leads to it, and no way leads to `{from}`");
                    check.at(name.origin.span, message).note(note)
                }
            };
            let initial = self.plan.lists[0].word(graph.initial);
            problems.push(problem.note(format!("the loop begins with `{initial}`")));
        }
        for problem in problems {
            if self.is_full() {
                return;
            }
            self.problem(problem);
        }
    }

    /// States from which no end is come to.
    fn never_ends(&mut self, of: &Loop) {
        let limited = of.max_steps.is_some()
            || of.max_iterations.is_some()
            || of.max_edge_revisits.is_some()
            || of.max_stall.is_some()
            || of.timeout.is_some();
        let Some(graph) = self.loop_graph.as_ref().filter(|_| !limited && !of.maintain) else { return };
        let steps = &self.plan.workflow.steps;
        let ending = graph.leading_to((0..steps.len()).filter(|at| ends(&steps[*at])));
        let entered = graph.entered();
        // One that leads nowhere is reported as that.
        let lost: Vec<usize> = (0..steps.len())
            .filter(|at| entered.has(*at) && !ending.has(*at) && !graph.next[*at].is_empty())
            .collect();
        let Some(first) = lost.first().and_then(|at| steps[*at].state.as_ref()) else { return };
        let problem = if ending.has(graph.initial) {
            let shown = lost.iter().take(MAX_NAMED).map(|at| format!("`{}`", self.plan.lists[0].word(*at)));
            let mut words: Vec<String> = shown.collect();
            if lost.len() > MAX_NAMED {
                words.push(format!("{} more", lost.len() - MAX_NAMED));
            }
            let message = format!("no end of the loop can be reached from {}", words.join(", "));
            Check::NeverEnds.at(first.name.origin.span, message)
        } else {
            let message = "no state that ends the loop can be reached";
            Check::NeverEnds.at(of.initial.origin.span, message)
        };
        self.problem(problem.note("it stops after 50 steps, as every loop does that sets no limit").hint(
            "lead to a state with `terminal: true`, or say when it is enough: `max_iterations`, `timeout`",
        ));
    }

    /// What is about iterations, in a loop that never begins another.
    fn one_iteration(&mut self, of: &Loop, states: &States) {
        let Some(graph) = &self.loop_graph else { return };
        let entered = graph.entered();
        let again =
            (0..graph.next.len()).any(|at| entered.has(at) && graph.next[at].contains(&states.initial));
        let span = of.initial.origin.span;
        let initial = self.plan.lists[0].word(states.initial);
        let mut problems: Vec<Problem> = Vec::new();
        if !again {
            let keys = [("max_iterations", of.max_iterations.is_some()), ("backoff", of.backoff.is_some())];
            for (key, _) in keys.iter().filter(|(_, written)| *written) {
                let message = format!("`{key}` never matters: no state leads back to `{initial}`");
                let note = "an iteration begins whenever the initial state is entered";
                let problem = Check::OneIteration.at(span, message).note(note);
                let counted = *key == "max_iterations";
                let hint = "`max_steps` counts every state";
                problems.push(if counted { problem.hint(hint) } else { problem });
            }
        }
        let steps = &self.plan.workflow.steps;
        if of.maintain && !steps.iter().enumerate().any(|(at, step)| entered.has(at) && ends_well(step)) {
            let message = "`maintain` never matters: no good end of the loop can be reached";
            problems.push(Check::OneIteration.at(span, message));
        }
        for problem in problems {
            self.problem(problem);
        }
    }
}
