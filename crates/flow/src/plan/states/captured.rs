//! Checks that a capture is set on every path of an iteration to the state that reads it.

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Severity, Span, words};

use super::ways::{Known, shown};
use crate::checks::Check;
use crate::plan::StepNumber;
use crate::plan::check::{Checker, Makers, Reader};
use crate::plan::order::RunsBefore;
use crate::problem::Problem;

/// Maximum number of capturing states to name in a message.
const MAX_NAMED: usize = 5;

/// The part of a loop that reads something.
enum LoopPosition {
    /// A state, by its position.
    State(usize),
    /// The steps that run when the loop has ended.
    Finally,
    /// `exports`, after the loop ended successfully.
    End,
}

impl Checker<'_> {
    /// Reports a capture of a loop that is not set, or not on every path, where it is read. Returns whether
    /// it did.
    pub(in crate::plan) fn set_in_loop(
        &mut self,
        reader: Reader,
        span: Span,
        name: &EcoString,
        makers: &Makers,
        reference: &Reference,
    ) -> bool {
        let of_states = |step: &StepNumber| self.plan.steps[*step as usize].step.state.is_some();
        let others = makers.steps.iter().filter(|step| !of_states(step));
        if others.clone().any(|step| self.order.before(self.plan, *step, reader.step) == RunsBefore::Always) {
            return false;
        }
        // A capture without an action is reported elsewhere.
        if self.loop_graph.as_ref().is_none_or(|graph| graph.makers(name).next().is_none()) {
            return false;
        }
        if reads_previous(reference, name) {
            return self.check_previous(reader, span, name, reference);
        }
        match self.loop_position(reader) {
            LoopPosition::State(state) => self.set_in_state(reader, span, name, state, reference),
            LoopPosition::Finally if reference.guarded => false,
            LoopPosition::Finally => {
                let message = format!("`{name}` is not set if the loop ends before it is captured");
                let problem = Check::MaybeUnset.at(span, message).note(self.captured_in(name));
                let problem = problem.hint(Self::with_default(reader, &reference.path));
                self.problem(Problem { severity: Severity::Warning, ..problem });
                true
            }
            LoopPosition::End => self.set_at_end(reader, span, name, reference),
        }
    }

    /// The position of a reader in a loop. Steps inside a state have the position of the state.
    fn loop_position(&self, reader: Reader) -> LoopPosition {
        let Some(mut step) = reader.step else { return LoopPosition::End };
        loop {
            let list = self.plan.steps[step as usize].list;
            match self.plan.lists[list as usize].parent {
                Some((owner, _)) => step = owner,
                None if list == 0 => return LoopPosition::State(self.order.position(step)),
                None => return LoopPosition::Finally,
            }
        }
    }

    /// Names of states in a sentence; only the first few if there are many.
    pub(super) fn list_states(&self, states: &[usize]) -> String {
        let shown = states.iter().take(MAX_NAMED).map(|state| format!("`{}`", self.state_name(*state)));
        let more = states.len().checked_sub(MAX_NAMED).filter(|more| *more > 0);
        words::list(shown.chain(more.map(|more| format!("{more} more"))), "and")
    }

    fn state_name(&self, state: usize) -> EcoString {
        self.plan.lists[0].word(state)
    }

    fn set_in_state(
        &mut self,
        reader: Reader,
        span: Span,
        name: &EcoString,
        state: usize,
        reference: &Reference,
    ) -> bool {
        let Some(graph) = &mut self.loop_graph else { return false };
        let known = graph.known(name);
        let own = reader.judges() && graph.makes(state, name);
        // What is never entered is reported as that.
        if own || !known.unset.has(state) {
            return false;
        }
        if !known.set.has(state) {
            let problem = self.never_set_here(span, name, state, reference);
            self.problem(problem);
            return true;
        }
        if reference.guarded {
            return false;
        }
        let path = graph.without(name).way(state);
        let message = format!("`{name}` is not set on every path to `{}`", self.state_name(state));
        self.report_unset_path(reader, span, name, reference, &path, message)
    }

    /// Reports a name that is not set on a path.
    fn report_unset_path(
        &mut self,
        reader: Reader,
        span: Span,
        name: &str,
        reference: &Reference,
        path: &[usize],
        message: String,
    ) -> bool {
        let path = shown(path, &self.plan.lists[0].names);
        let problem = Check::MaybeUnset
            .at(span, message)
            .note(format!("not set on the path {path}"))
            .note(self.captured_in(name))
            .hint(Self::with_default(reader, &reference.path));
        self.problem(problem);
        true
    }

    /// The problem of a name that no path of an iteration sets. A default would always be used, so it is no
    /// fix.
    fn never_set_here(&self, span: Span, name: &str, state: usize, reference: &Reference) -> Problem {
        let Some(graph) = &self.loop_graph else { return Check::NeverSet.at(span, String::new()) };
        let is_initial = state == graph.initial;
        let own = graph.makers(name).all(|maker| maker == state);
        let here = self.state_name(state);
        let message = match (is_initial, own) {
            (true, _) => {
                format!(
                    "`{name}` is never set here: an iteration starts with `{here}`, without earlier captures"
                )
            }
            (false, true) => {
                format!("`{name}` is captured by `{here}` itself, so it is not set while that state acts")
            }
            (false, false) => format!(
                "`{name}` is never set here: no path of an iteration leads from its capture to `{here}`"
            ),
        };
        let problem = Check::NeverSet.at(span, message);
        let problem = if own { problem } else { problem.note(self.captured_in(name)) };
        if !graph.comes_from(name, state) {
            return problem;
        }
        problem.hint(format!("read an earlier capture: `${{{}:-text}}`", previous_path(reference, name)))
    }

    /// What was captured before: nothing, the first time.
    fn check_previous(&mut self, reader: Reader, span: Span, name: &str, reference: &Reference) -> bool {
        if reference.guarded {
            return false;
        }
        let message =
            format!("`captured.{name}.previous` is not set before `{name}` is captured a second time");
        let problem = Check::MaybeUnset.at(span, message);
        let problem = problem.hint(Self::with_default(reader, &reference.path));
        self.problem(problem);
        true
    }

    /// `exports` are made when the loop has ended well, in whichever state that was.
    fn set_at_end(&mut self, reader: Reader, span: Span, name: &EcoString, reference: &Reference) -> bool {
        let Some(graph) = &mut self.loop_graph else { return false };
        let known = graph.known(name);
        let steps = &self.plan.workflow.steps;
        let mut ends = (0..steps.len()).filter(|at| super::is_success(&steps[*at]));
        let Some(end) = ends.find(|at| known.unset.has(*at) && !graph.makes(*at, name)) else { return false };
        if reference.guarded {
            return false;
        }
        let path = graph.without(name).way(end);
        let message = format!("`{name}` is not set if the loop ends in `{}`", self.state_name(end));
        self.report_unset_path(reader, span, name, reference, &path, message)
    }

    /// Reports a reference to the previous state where there may be none. Returns whether it did.
    pub(in crate::plan) fn acted_before(
        &mut self,
        reader: Reader,
        span: Span,
        reference: &Reference,
    ) -> bool {
        let LoopPosition::State(state) = self.loop_position(reader) else { return false };
        let here = self.state_name(state);
        let Some(graph) = &mut self.loop_graph else { return false };
        let known = graph.before();
        let Known { unset, set } = &*known;
        if !unset.has(state) || reference.guarded {
            return false;
        }
        let what = if reference.path.starts_with("json") { "json" } else { "prev" };
        let none = !set.has(state);
        // Only the initial state can be entered before any other.
        let problem = if none {
            let message = format!("`{what}` reads the previous state, but `{here}` has none");
            Check::NoStepBefore.at(span, message)
        } else {
            let message = format!("`{what}` reads the previous state, but the first `{here}` has none");
            Check::NoStepBefore.at(span, message).hint(Self::with_default(reader, &reference.path))
        };
        self.problem(problem);
        true
    }

    /// The states that capture a name, in words.
    fn captured_in(&self, name: &str) -> String {
        let makers: Vec<usize> = self.loop_graph.iter().flat_map(|graph| graph.makers(name)).collect();
        format!("captured in {}", self.list_states(&makers))
    }
}

/// The path after the name of a capture in a reference to it.
fn rest_after<'r>(reference: &'r Reference, name: &str) -> &'r str {
    let path = reference.path.as_str();
    let path = path.strip_prefix("captured").filter(|_| reference.root == "captured").unwrap_or(path);
    let path = path.trim_start_matches(['.', '[', '"', '\'']);
    let path = path.strip_prefix(name).unwrap_or(path);
    path.trim_start_matches(['"', '\'', ']'])
}

/// Whether a reference reads an earlier capture.
fn reads_previous(reference: &Reference, name: &str) -> bool {
    if reference.root != "captured" {
        return false;
    }
    let field = rest_after(reference, name).trim_start_matches(['.', '[', '"', '\'']);
    let field = field.strip_prefix("previous");
    field.is_some_and(|rest| {
        !rest.starts_with(|char: char| char.is_alphanumeric() || matches!(char, '_' | '-'))
    })
}

/// The same reference, to the earlier capture.
fn previous_path(reference: &Reference, name: &str) -> String {
    let rest = rest_after(reference, name);
    match (reference.root == "captured", rest.is_empty()) {
        (true, false) => format!("captured.{name}.previous{rest}"),
        (_, true) => format!("captured.{name}.previous.value"),
        (false, false) => format!("captured.{name}.previous.value{rest}"),
    }
}
