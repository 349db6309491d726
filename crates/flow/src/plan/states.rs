//! The states of a loop: where each leads, and what its judgement reads.

mod captured;
mod routes;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Span, nearest};

use super::check::{Checker, Readable, Reader, dynamic, field_after};
use super::{Read, ResolvedRoutes, SELF, States};
use crate::checks::Check;
use crate::fields::Form;
use crate::model::{Action, Evaluator, Routes, Shape, Step, Target, Terminal};

pub(super) use ways::Graph;

impl Checker<'_> {
    /// Where the states lead, when the file is a loop.
    pub(super) fn states(&mut self) -> Option<States> {
        let workflow = Arc::clone(&self.plan.workflow);
        let Shape::Loop(of) = &workflow.shape else { return None };
        let names = self.plan.lists[0].names.iter().cloned().zip(0..).collect();
        let mut known = Targets { names, unknown: of.initial.value.is_empty() };
        let initial =
            if of.initial.value.is_empty() { None } else { self.known_state(&mut known, &of.initial, None) };
        let states = workflow.steps.iter().enumerate();
        let routes: Vec<ResolvedRoutes> = states
            .map(|(at, step)| match &step.state {
                Some(state) => self.ways(&mut known, &state.routes, at),
                None => ResolvedRoutes::default(),
            })
            .collect();
        let states = States { initial: initial.unwrap_or(0), routes };
        // What a misspelt name led to is not known: nothing can be said of the ways.
        if !known.unknown && !workflow.steps.is_empty() {
            self.loop_graph = Some(graph(of.maintain, &workflow.steps, &states));
        }
        self.routes_of_states(of, &states);
        Some(states)
    }

    fn ways(&mut self, known: &mut Targets, routes: &Routes, at: usize) -> ResolvedRoutes {
        let mut one = |target: &Option<Target>| {
            target.as_ref().and_then(|target| self.known_state(known, target, Some(at)))
        };
        let (otherwise, error, exhausted) =
            (one(&routes.otherwise), one(&routes.error), one(&routes.exhausted));
        let on = routes.on.iter();
        let on = on.filter_map(|(verdict, target)| {
            Some((verdict.clone(), self.known_state(known, target, Some(at))?))
        });
        let on = on.collect();
        let conditions = routes.conditions.iter();
        let conditions =
            conditions.filter_map(|(_, target)| self.known_state(known, target, Some(at))).collect();
        ResolvedRoutes { on, conditions, otherwise, error, exhausted }
    }

    /// The state that is meant.
    fn known_state(&mut self, known: &mut Targets, target: &Target, at: Option<usize>) -> Option<usize> {
        if let Some(at) = at.filter(|_| target.value == SELF) {
            return Some(at);
        }
        if let Some(found) = known.names.get(&target.value) {
            return Some(*found);
        }
        known.unknown = true;
        if self.is_full() {
            return None;
        }
        let names = &self.plan.lists[0].names;
        let problem =
            Check::UnknownState.at(target.origin.span, format!("there is no state `{}`", target.value));
        let problem = match nearest(&target.value, names.iter().map(EcoString::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`")),
            None => problem.note(format!("states: {}", listed(names))),
        };
        self.problem(problem);
        None
    }

    /// What judges a state, and the conditions of its routes.
    pub(super) fn judged(&mut self, reader: Reader, step: &Step, reads: &mut Vec<Read>) {
        let Some(state) = &step.state else { return };
        let reader = Reader { judges: Some(Judging::Evaluates), ..reader };
        for field in evaluated(step) {
            self.field(reader, field, reads);
        }
        match step.evaluator() {
            Some(Evaluator::Expect(expect)) => self.expected(reader, &expect.value, false, reads),
            Some(Evaluator::Agent(judge)) => self.known_agent(&judge.agent),
            _ => {}
        }
        let reader = Reader { judges: Some(Judging::Routes), ..reader };
        for (condition, _) in &state.routes.conditions {
            self.field(reader, Readable::Condition(condition), reads);
        }
        // What it left is read whenever it is judged.
        reads.push(Read::State);
    }

    /// A root that only loops have. Whether a problem was reported that the language would report again.
    pub(super) fn reads_state(
        &mut self,
        reader: Reader,
        span: Span,
        root: &str,
        reference: &Reference,
    ) -> bool {
        if root != "result" {
            return false;
        }
        let verdict = field_after(reference, root.len()).map(|(_, field)| field);
        let verdict = verdict.filter(|field| OF_VERDICT.contains(field));
        let problem = match (reader.judges, verdict) {
            (Some(Judging::Routes), _) | (Some(Judging::Evaluates), None) => return false,
            (Some(Judging::Evaluates), Some(field)) => {
                let message =
                    format!("`result.{field}` is what `evaluate` comes to: it is known in `route` only");
                Check::NotKnownHere.at(span, message)
            }
            (None, _) => {
                let message = "`result` is known while a state is judged and its route is chosen: in `evaluate` and `route`";
                Check::NotKnownHere.at(span, message).hint("the state before is `prev`: `${prev.verdict}`")
            }
        };
        self.problem(problem);
        true
    }
}

/// What is known of a state only when its verdict is.
const OF_VERDICT: [&str; 5] = ["verdict", "confidence", "reason", "evidence", "details"];

/// What is looked at of a state behind its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judging {
    /// What makes its verdict.
    Evaluates,
    /// What leads on from it, when the verdict is known.
    Routes,
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

/// The states by their names, and whether another name was met.
struct Targets {
    names: BTreeMap<EcoString, usize>,
    unknown: bool,
}

/// The states as a graph. A loop that is maintained goes on from a good end.
fn graph(maintain: bool, steps: &[Arc<Step>], states: &States) -> Graph {
    let next = steps.iter().zip(&states.routes).map(|(step, ways)| {
        let again = (maintain && ends_well(step)).then_some(states.initial);
        // A state that ends the loop leads nowhere, whatever is written.
        let on = ways.targets().filter(|_| !ends(step));
        let mut next: Vec<usize> = on.chain(again).collect();
        next.sort_unstable();
        next.dedup();
        next
    });
    let acts = steps.iter().map(|step| !matches!(step.action, Action::Nothing));
    let captures = steps.iter().map(|step| {
        let capture = step.capture.as_ref().filter(|_| !matches!(step.action, Action::Nothing));
        capture.map(|capture| capture.value.clone())
    });
    Graph::new(states.initial, next.collect(), captures.collect(), acts.collect())
}

/// Names in a sentence, the first of them when there are many.
fn listed(names: &[EcoString]) -> String {
    const SHOWN: usize = 20;
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        None => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// Whether the loop ends with a state.
fn ends(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal.is_some())
}

/// Whether the loop comes to a good end with it.
fn ends_well(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal == Some(Terminal::Success))
}
