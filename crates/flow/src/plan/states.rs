//! The states of a loop: resolves the targets of their routes, and checks what their judgement reads.

mod captured;
mod routes;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::Span;

use super::check::{Checker, Reader, field_after};
use super::{ResolvedRoutes, SELF, States};
use crate::checks::Check;
use crate::model::{Moment, Routes, Shape, Step, Target, Terminal};

pub(super) use ways::RouteGraph;

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
        self.problem(problem.suggest(&target.value, "states", names.iter().map(EcoString::as_str)));
        None
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
        let verdict = verdict.filter(|field| VERDICT_FIELDS.contains(field));
        let problem = match (reader.moment, verdict) {
            (Moment::Routes, _) | (Moment::Judgement, None) => return false,
            (Moment::Judgement, Some(field)) => {
                let message = format!(
                    "`result.{field}` is the result of `evaluate`, so it is only available in `route`"
                );
                Check::NotKnownHere.at(span, message)
            }
            _ => {
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

/// The states by their names, and whether another name was met.
struct Targets {
    names: BTreeMap<EcoString, usize>,
    unknown: bool,
}

/// The states as a graph. With `maintain`, a successful end leads back to the initial state.
fn graph(maintain: bool, steps: &[Arc<Step>], states: &States) -> RouteGraph {
    let next = steps.iter().zip(&states.routes).map(|(step, routes)| {
        let again = (maintain && is_success(step)).then_some(states.initial);
        // A terminal state leads nowhere, even if it has routes.
        let on = routes.targets().filter(|_| !is_terminal(step));
        let mut next: Vec<usize> = on.chain(again).collect();
        next.sort_unstable();
        next.dedup();
        next
    });
    let captures = steps.iter().map(|step| step.capture.as_ref().map(|capture| capture.value.clone()));
    RouteGraph::new(states.initial, next.collect(), captures.collect())
}

/// Whether a state is terminal.
fn is_terminal(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal.is_some())
}

/// Whether a state ends the loop successfully.
fn is_success(step: &Step) -> bool {
    step.state.as_ref().is_some_and(|state| state.terminal == Some(Terminal::Success))
}
