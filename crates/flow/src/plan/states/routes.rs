//! Checks the paths through a loop: states that cannot be reached, and loops that never end.

use super::{is_success, is_terminal};
use crate::checks::Check;
use crate::model::{Action, Loop};
use crate::plan::States;
use crate::plan::check::Checker;
use crate::problem::Problem;

impl Checker<'_> {
    /// Checks the paths, if all targets are known.
    pub(super) fn check_paths(&mut self, spec: &Loop, states: &States) {
        self.report_unreachable();
        self.report_endless(spec);
        self.report_single_iteration(spec, states);
    }

    /// Reports states that cannot be reached. A state with work that never runs is an error; an unused
    /// terminal state is only a warning.
    fn report_unreachable(&mut self) {
        let Some(graph) = &self.loop_graph else { return };
        let entered = graph.entered();
        let before = graph.first_before();
        let mut problems = Vec::new();
        for (at, step) in self.plan.workflow.steps.iter().enumerate() {
            let Some(state) = step.state.as_ref().filter(|_| !entered.has(at)) else { continue };
            let name = &state.name;
            let unused = is_terminal(step) && matches!(step.action, Action::Nothing);
            let check = if unused { Check::UnusedEnd } else { Check::UnreachableState };
            let problem = match before[at] {
                None => check.at(name.origin.span, format!("no route leads to `{}`", name.value)),
                Some(from) => {
                    let from = self.plan.lists[0].word(from);
                    let message = format!("`{}` cannot be reached", name.value);
                    let note = format!("`{from}` leads to it, but cannot be reached itself");
                    check.at(name.origin.span, message).note(note)
                }
            };
            let initial = self.plan.lists[0].word(graph.initial);
            problems.push(problem.note(format!("the loop starts with `{initial}`")));
        }
        for problem in problems {
            if self.is_full() {
                return;
            }
            self.problem(problem);
        }
    }

    /// Reports states from which no terminal state can be reached.
    fn report_endless(&mut self, spec: &Loop) {
        let limited = spec.max_steps.is_some()
            || spec.max_iterations.is_some()
            || spec.max_edge_revisits.is_some()
            || spec.max_stall.is_some()
            || self.plan.workflow.timeout.is_some();
        let Some(graph) = self.loop_graph.as_ref().filter(|_| !limited && !spec.maintain) else { return };
        let steps = &self.plan.workflow.steps;
        let ending = graph.leading_to((0..steps.len()).filter(|at| is_terminal(&steps[*at])));
        let entered = graph.entered();
        // A state without a route is reported elsewhere.
        let lost: Vec<usize> = (0..steps.len())
            .filter(|at| entered.has(*at) && !ending.has(*at) && !graph.next[*at].is_empty())
            .collect();
        let Some(first) = lost.first().and_then(|at| steps[*at].state.as_ref()) else { return };
        let problem = if ending.has(graph.initial) {
            let message = format!("no terminal state can be reached from {}", self.list_states(&lost));
            Check::NeverEnds.at(first.name.origin.span, message)
        } else {
            let message = "no terminal state can be reached";
            Check::NeverEnds.at(spec.initial.origin.span, message)
        };
        self.problem(problem.note("it stops after 50 steps, like every loop without a limit").hint(
            "add a route to a state with `terminal: true`, or set a limit: `max_iterations`, `timeout`",
        ));
    }

    /// Reports settings of iterations in a loop that has only one.
    fn report_single_iteration(&mut self, spec: &Loop, states: &States) {
        let Some(graph) = &self.loop_graph else { return };
        let entered = graph.entered();
        let again =
            (0..graph.next.len()).any(|at| entered.has(at) && graph.next[at].contains(&states.initial));
        let span = spec.initial.origin.span;
        let initial = self.plan.lists[0].word(states.initial);
        let mut problems: Vec<Problem> = Vec::new();
        if !again {
            let keys =
                [("max_iterations", spec.max_iterations.is_some()), ("backoff", spec.backoff.is_some())];
            for (key, _) in keys.iter().filter(|(_, written)| *written) {
                let message = format!("`{key}` has no effect: no route leads back to `{initial}`");
                let note = "an iteration starts when the loop enters the initial state";
                let problem = Check::OneIteration.at(span, message).note(note);
                let counted = *key == "max_iterations";
                let hint = "`max_steps` counts every state";
                problems.push(if counted { problem.hint(hint) } else { problem });
            }
        }
        let steps = &self.plan.workflow.steps;
        if spec.maintain && !steps.iter().enumerate().any(|(at, step)| entered.has(at) && is_success(step)) {
            let message = "`maintain` has no effect: no successful end of the loop can be reached";
            problems.push(Check::OneIteration.at(span, message));
        }
        for problem in problems {
            self.problem(problem);
        }
    }
}
