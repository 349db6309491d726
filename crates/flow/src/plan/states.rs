//! The states of a loop: resolves the targets of their routes, and checks what their judgement reads.

mod captured;
mod routes;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::Span;

use super::check::{Checker, Readable, Reader, dynamic, field_after};
use super::{Read, ResolvedRoutes, SELF, States};
use crate::checks::Check;
use crate::fields::Form;
use crate::model::{Action, Evaluator, Routes, Shape, Step, Target, Terminal};
use crate::problem::suggest_or_list;

pub(super) use ways::Graph;

impl Checker<'_> {
    /// Resolves the routes of all states, if the file is a loop.
    pub(super) fn states(&mut self) -> Option<States> {
        let workflow = Arc::clone(&self.plan.workflow);
        let Shape::Loop(spec) = &workflow.shape else { return None };
        let names = self.plan.lists[0].names.iter().cloned().zip(0..).collect();
        let mut known = Targets { names, unknown: spec.initial.value.is_empty() };
        let initial = if spec.initial.value.is_empty() {
            None
        } else {
            self.resolve_target(&mut known, &spec.initial, None)
        };
        let states = workflow.steps.iter().enumerate();
        let routes: Vec<ResolvedRoutes> = states
            .map(|(at, step)| match &step.state {
                Some(state) => self.resolve_routes(&mut known, &state.routes, at),
                None => ResolvedRoutes::default(),
            })
            .collect();
        let states = States { initial: initial.unwrap_or(0), routes };
        // With an unknown target, nothing can be said about the paths.
        if !known.unknown && !workflow.steps.is_empty() {
            self.loop_graph = Some(graph(spec.maintain, &workflow.steps, &states));
        }
        self.check_paths(spec, &states);
        Some(states)
    }

    fn resolve_routes(&mut self, known: &mut Targets, routes: &Routes, at: usize) -> ResolvedRoutes {
        let mut resolve = |target: &Option<Target>| {
            target.as_ref().and_then(|target| self.resolve_target(known, target, Some(at)))
        };
        let (otherwise, error, exhausted) =
            (resolve(&routes.otherwise), resolve(&routes.error), resolve(&routes.exhausted));
        let on = routes.on.iter();
        let on = on.filter_map(|(verdict, target)| {
            Some((verdict.clone(), self.resolve_target(known, target, Some(at))?))
        });
        let on = on.collect();
        let conditions = routes.conditions.iter();
        let conditions =
            conditions.filter_map(|(_, target)| self.resolve_target(known, target, Some(at))).collect();
        ResolvedRoutes { on, conditions, otherwise, error, exhausted }
    }

    /// The position of a target; `self` is the state at `at`.
    fn resolve_target(&mut self, known: &mut Targets, target: &Target, at: Option<usize>) -> Option<usize> {
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
        let problem = Check::UnknownState.at(target.origin.span, format!("unknown state `{}`", target.value));
        self.problem(suggest_or_list(problem, &target.value, names.iter().map(EcoString::as_str), "states"));
        None
    }

    /// Checks the evaluation of a state and the conditions of its routes.
    pub(super) fn judged(&mut self, reader: Reader, step: &Step, reads: &mut Vec<Read>) {
        let Some(state) = &step.state else { return };
        let reader = Reader { judges: Some(Judging::Evaluates), ..reader };
        for field in evaluation_fields(step) {
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
        // A judgement always reads the result of the state.
        reads.push(Read::State);
    }

    /// Checks a reference to a root that only loops have. Returns whether a problem was reported.
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
        let verdict = verdict.filter(|field| VERDICT_FIELDS.contains(field));
        let problem = match (reader.judges, verdict) {
            (Some(Judging::Routes), _) | (Some(Judging::Evaluates), None) => return false,
            (Some(Judging::Evaluates), Some(field)) => {
                let message = format!(
                    "`result.{field}` is the result of `evaluate`, so it is only available in `route`"
                );
                Check::NotKnownHere.at(span, message)
            }
            (None, _) => {
                let message = "`result` is only available in `evaluate` and `route`, while a state is judged";
                Check::NotKnownHere
                    .at(span, message)
                    .hint("read the previous state as `prev`: `${prev.verdict}`")
            }
        };
        self.problem(problem);
        true
    }
}

/// The fields of `result` that are set together with the verdict.
const VERDICT_FIELDS: [&str; 5] = ["verdict", "confidence", "reason", "evidence", "details"];

/// The part of the judgement of a state that a reader belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judging {
    /// The evaluation, before there is a verdict.
    Evaluates,
    /// The routes, after the verdict.
    Routes,
}

/// The fields of the evaluation of a state.
fn evaluation_fields(step: &Step) -> Vec<Readable<'_>> {
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

/// The positions of states by name, and whether an unknown name was found.
struct Targets {
    names: BTreeMap<EcoString, usize>,
    unknown: bool,
}

/// The states as a graph. With `maintain`, a successful end leads back to the initial state.
fn graph(maintain: bool, steps: &[Arc<Step>], states: &States) -> Graph {
    let next = steps.iter().zip(&states.routes).map(|(step, routes)| {
        let again = (maintain && is_success(step)).then_some(states.initial);
        // A terminal state leads nowhere, even if it has routes.
        let on = routes.targets().filter(|_| !is_terminal(step));
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

/// Whether a state is terminal.
fn is_terminal(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal.is_some())
}

/// Whether a state ends the loop successfully.
fn is_success(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal == Some(Terminal::Success))
}
