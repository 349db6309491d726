//! What a state reads of those before it: whether it is there on every way that an iteration takes.

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Severity, Span};

use super::ways::{Known, shown};
use crate::checks::Check;
use crate::plan::StepNumber;
use crate::plan::check::{Checker, Makers, Reader};
use crate::plan::order::Before;
use crate::problem::Problem;

/// So many states that capture a name are named.
const MAX_NAMED: usize = 5;

/// Where something is read.
enum At {
    /// In this state.
    State(usize),
    /// In the steps of `finally`.
    Finally,
    /// In `exports`, when the loop has come to a good end.
    End,
}

impl Checker<'_> {
    /// Whether a problem was reported because a capture of a loop is not set, or not for sure, where it is read.
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
        if others.clone().any(|step| self.order.before(self.plan, *step, reader.step) == Before::Always) {
            return false;
        }
        // A capture that nothing is done for is reported as that.
        if self.loop_graph.as_ref().is_none_or(|graph| graph.makers(name).next().is_none()) {
            return false;
        }
        if reads_previous(reference, name) {
            return self.previous(span, name, reference);
        }
        match self.at(reader) {
            At::State(state) => self.set_in_state(reader, span, name, state, reference),
            At::Finally if reference.guarded => false,
            At::Finally => {
                let message = format!("`{name}` is not set when the loop ends before it is captured");
                let problem = Check::MaybeUnset.at(span, message).note(self.captured_in(name));
                let problem = problem.hint(self.with_default(&reference.path));
                self.problem(Problem { severity: Severity::Warning, ..problem });
                true
            }
            At::End => self.set_at_end(span, name, reference),
        }
    }

    /// Where in a loop a reader stands: steps inside a state are where that is.
    fn at(&self, reader: Reader) -> At {
        let Some(mut step) = reader.step else { return At::End };
        loop {
            let list = self.plan.steps[step as usize].list;
            match self.plan.lists[list as usize].parent {
                Some((owner, _)) => step = owner,
                None if list == 0 => return At::State(self.order.position(step)),
                None => return At::Finally,
            }
        }
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
        let own = reader.judges.is_some() && graph.makes(state, name);
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
        let way = graph.without(name).way(state);
        let message = format!("`{name}` is not set on every way to `{}`", self.state_name(state));
        self.not_set(span, name, reference, &way, message)
    }

    /// A name that one way does not set.
    fn not_set(
        &mut self,
        span: Span,
        name: &str,
        reference: &Reference,
        way: &[usize],
        message: String,
    ) -> bool {
        let way = shown(way, &self.plan.lists[0].names);
        let problem = Check::MaybeUnset
            .at(span, message)
            .note(format!("not set on the way {way}"))
            .note(self.captured_in(name))
            .hint(self.with_default(&reference.path));
        self.problem(problem);
        true
    }

    /// A name that no way of an iteration has set here. A default would always take its place, so it is no help.
    fn never_set_here(&self, span: Span, name: &str, state: usize, reference: &Reference) -> Problem {
        let Some(graph) = &self.loop_graph else { return Check::NeverSet.at(span, String::new()) };
        let is_initial = state == graph.initial;
        let own = graph.makers(name).all(|maker| maker == state);
        let here = self.state_name(state);
        let message = match (is_initial, own) {
            (true, _) => {
                format!(
                    "`{name}` is never set here: an iteration begins with `{here}`, without what was captured before"
                )
            }
            (false, true) => {
                format!("`{name}` is captured by `{here}` itself: it is not set while that acts")
            }
            (false, false) => format!(
                "`{name}` is never set here: no way of an iteration leads from where it is captured to `{here}`"
            ),
        };
        let problem = Check::NeverSet.at(span, message);
        let problem = if own { problem } else { problem.note(self.captured_in(name)) };
        if !graph.comes_from(name, state) {
            return problem;
        }
        problem.hint(format!("what was captured before: `${{{}:-text}}`", previous_path(reference, name)))
    }

    /// What was captured before: nothing, the first time.
    fn previous(&mut self, span: Span, name: &str, reference: &Reference) -> bool {
        if reference.guarded {
            return false;
        }
        let message = format!("`captured.{name}.previous` is not there before `{name}` is captured again");
        let problem = Check::MaybeUnset.at(span, message);
        let problem = problem.hint(self.with_default(&reference.path));
        self.problem(problem);
        true
    }

    /// `exports` are made when the loop has ended well, in whichever state that was.
    fn set_at_end(&mut self, span: Span, name: &EcoString, reference: &Reference) -> bool {
        let Some(graph) = &mut self.loop_graph else { return false };
        let known = graph.known(name);
        let steps = &self.plan.workflow.steps;
        let mut ends = (0..steps.len()).filter(|at| super::ends_well(&steps[*at]));
        let Some(end) = ends.find(|at| known.unset.has(*at) && !graph.makes(*at, name)) else { return false };
        if reference.guarded {
            return false;
        }
        let way = graph.without(name).way(end);
        let message = format!("`{name}` is not set when the loop ends in `{}`", self.state_name(end));
        self.not_set(span, name, reference, &way, message)
    }

    /// Whether a problem was reported because no state came before one for sure.
    pub(in crate::plan) fn acted_before(
        &mut self,
        reader: Reader,
        span: Span,
        reference: &Reference,
    ) -> bool {
        let At::State(state) = self.at(reader) else { return false };
        let here = self.state_name(state);
        let Some(graph) = &mut self.loop_graph else { return false };
        let known = graph.before();
        let Known { unset, set } = &*known;
        if !unset.has(state) || reference.guarded {
            return false;
        }
        let what = if reference.path.starts_with("json") { "json" } else { "prev" };
        let none = !set.has(state);
        let Some(graph) = &self.loop_graph else { return false };
        let problem = if none {
            let message = format!("`{what}` reads the state before, and before `{here}` there is none");
            Check::NoStepBefore.at(span, message)
        } else if state == graph.initial {
            let message =
                format!("`{what}` reads the state before, and before the first `{here}` there is none");
            Check::NoStepBefore.at(span, message).hint(self.with_default(&reference.path))
        } else {
            let way = shown(&graph.idle().way(state), &self.plan.lists[0].names);
            let message =
                format!("`{what}` reads the state before that did something, and there may be none");
            let problem = Check::NoStepBefore.at(span, message);
            problem.note(format!("none on the way {way}")).hint(self.with_default(&reference.path))
        };
        self.problem(problem);
        true
    }

    /// Which states capture a name.
    fn captured_in(&self, name: &str) -> String {
        let makers: Vec<usize> = self.loop_graph.iter().flat_map(|graph| graph.makers(name)).collect();
        let mut words: Vec<String> =
            makers.iter().take(MAX_NAMED).map(|maker| format!("`{}`", self.state_name(*maker))).collect();
        if makers.len() > MAX_NAMED {
            words.push(format!("{} more", makers.len() - MAX_NAMED));
        }
        format!("captured in {}", words.join(", "))
    }
}

/// What stands behind the name of a capture in a reference to it.
fn behind<'r>(reference: &'r Reference, name: &str) -> &'r str {
    let path = reference.path.as_str();
    let path = path.strip_prefix("captured").filter(|_| reference.root == "captured").unwrap_or(path);
    let path = path.trim_start_matches(['.', '[', '"', '\'']);
    let path = path.strip_prefix(name).unwrap_or(path);
    path.trim_start_matches(['"', '\'', ']'])
}

/// Whether a reference reads what a name was captured with before.
fn reads_previous(reference: &Reference, name: &str) -> bool {
    if reference.root != "captured" {
        return false;
    }
    let field = behind(reference, name).trim_start_matches(['.', '[', '"', '\'']);
    let field = field.strip_prefix("previous");
    field.is_some_and(|rest| {
        !rest.starts_with(|char: char| char.is_alphanumeric() || matches!(char, '_' | '-'))
    })
}

/// The same reference to what a name was captured with before.
fn previous_path(reference: &Reference, name: &str) -> String {
    let rest = behind(reference, name);
    match (reference.root == "captured", rest.is_empty()) {
        (true, false) => format!("captured.{name}.previous{rest}"),
        (_, true) => format!("captured.{name}.previous.value"),
        (false, false) => format!("captured.{name}.previous.value{rest}"),
    }
}
