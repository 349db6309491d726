//! The states of a loop: where each leads, and what its judgement reads.

use ecow::EcoString;
use threadline_lang::diag::{Span, nearest};

use super::check::{Checker, Readable, Reader, dynamic};
use super::{Read, SELF, States, Ways};
use crate::checks::Check;
use crate::fields::Form;
use crate::model::{Evaluator, Routes, Shape, Step, Target};

impl Checker<'_> {
    /// Where the states lead, when the file is a loop.
    pub(super) fn states(&mut self) -> Option<States> {
        let workflow = std::sync::Arc::clone(&self.plan.workflow);
        let Shape::Loop(of) = &workflow.shape else { return None };
        let initial = if of.initial.of.is_empty() { None } else { self.known_state(&of.initial, None) };
        let states = workflow.steps.iter().enumerate();
        let routes = states
            .map(|(at, step)| match &step.state {
                Some(state) => self.ways(&state.routes, at),
                None => Ways::default(),
            })
            .collect();
        Some(States { initial: initial.unwrap_or(0), routes })
    }

    fn ways(&mut self, routes: &Routes, at: usize) -> Ways {
        let mut one =
            |target: &Option<Target>| target.as_ref().and_then(|target| self.known_state(target, Some(at)));
        let (otherwise, error, exhausted) =
            (one(&routes.otherwise), one(&routes.error), one(&routes.exhausted));
        let on = routes.on.iter();
        let on =
            on.filter_map(|(verdict, target)| Some((verdict.clone(), self.known_state(target, Some(at))?)));
        let on = on.collect();
        let conditions = routes.conditions.iter();
        let conditions = conditions.filter_map(|(_, target)| self.known_state(target, Some(at))).collect();
        Ways { on, conditions, otherwise, error, exhausted }
    }

    /// The state that is meant.
    fn known_state(&mut self, target: &Target, at: Option<usize>) -> Option<usize> {
        if let Some(at) = at.filter(|_| target.of == SELF) {
            return Some(at);
        }
        let names = &self.plan.lists[0].names;
        if let Some(found) = names.iter().position(|name| *name == target.of) {
            return Some(found);
        }
        let problem =
            Check::UnknownState.at(target.origin.span, format!("there is no state `{}`", target.of));
        let problem = match nearest(&target.of, names.iter().map(EcoString::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`")),
            None => problem.note(format!("states: {}", names.join(", "))),
        };
        self.problem(problem);
        None
    }

    /// What judges a state, and the conditions of its routes.
    pub(super) fn judged(&mut self, reader: Reader, step: &Step, reads: &mut Vec<Read>) {
        let Some(state) = &step.state else { return };
        let reader = Reader { judges: true, ..reader };
        for field in evaluated(step) {
            self.field(reader, field, reads);
        }
        match step.evaluator() {
            Some(Evaluator::Expect(expect)) => self.expected(reader, &expect.of, false, reads),
            Some(Evaluator::Agent(judge)) => self.known_agent(&judge.agent),
            _ => {}
        }
        for (condition, _) in &state.routes.conditions {
            self.field(reader, Readable::Condition(condition), reads);
        }
        // What it left is read whenever it is judged.
        reads.push(Read::State);
    }

    /// A root that only loops have. Whether a problem was reported that the language would report again.
    pub(super) fn reads_state(&mut self, reader: Reader, span: Span, root: &str) -> bool {
        if root != "result" || reader.judges {
            return false;
        }
        let message =
            "`result` is known while a state is judged and its route is chosen: in `evaluate` and `route`";
        self.problem(
            Check::NotKnownHere.at(span, message).hint("the state before is `prev`: `${prev.verdict}`"),
        );
        true
    }
}

/// The fields of what judges a state.
fn evaluated(step: &Step) -> Vec<Readable<'_>> {
    let Some(evaluate) = step.state.as_ref().and_then(|state| state.evaluate.as_ref()) else {
        return Vec::new();
    };
    let mut fields: Vec<Readable<'_>> = evaluate.source.iter().map(Readable::Value).collect();
    fields.extend(evaluate.by.values().into_iter().map(Readable::Value));
    match &evaluate.by {
        Evaluator::Expression(expression) => fields.push(Readable::Expression(expression)),
        Evaluator::Agent(judge) => {
            fields.extend(judge.prompt.iter().map(Readable::Text));
            fields.extend(judge.timeout.iter().filter_map(|timeout| dynamic(timeout, Form::Duration)));
        }
        _ => {}
    }
    fields
}
