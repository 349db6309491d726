//! What decided that an execution ran, or did not: conditions of the steps around it, branches of a graph, the failure that
//! its list handles, and the verdict that led to a visit.

use std::rc::Rc;

use threadline_engine::event::{Address, EventKind, Seq, Status};
use threadline_engine::replay::{Evaluated, output_of};
use threadline_flow::plan::{Part, StepNumber};

use super::{TracedRead, TracedRun, Tracer};
use crate::error::InspectError;

/// An event whose output decided something, and in which way: the field, and what was asked of it.
struct DecidingEvent {
    left: Seq,
    field: &'static str,
    reference: String,
}

impl Tracer<'_> {
    /// What decided, before an event, that an execution ran or was skipped, beside its own condition. The verdict that led
    /// to a visit of a loop is among it only where that is asked for: behind it stand all visits before.
    pub(super) fn control_reads(
        &mut self,
        run: usize,
        at: &Address,
        before: Seq,
        with_route: bool,
    ) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let plan = &traced.history.plan;
        let mut reads = Vec::new();
        for around in at.lineage() {
            let mut decisions = Vec::new();
            if let Some(part) = around.as_part().filter(|part| matches!(part, Part::Fix | Part::OnFailure))
                && let Some(owner) = around.parent()
            {
                let left =
                    traced.last_left(&owner, before).or_else(|| traced.last_failed_attempt(&owner, before));
                let reference = format!("{} failed", owner.shown(plan));
                decisions.extend(left.map(|left| DecidingEvent { left, field: part.key(), reference }));
            }
            let step = around.step(plan).filter(|_| !around.is_item() && around.as_part().is_none());
            if let Some(step) = step {
                if around != *at {
                    let seen = traced.last_seen(&around, Evaluated::Condition, before);
                    reads.extend(self.evaluation_reads(run, seen)?);
                }
                decisions.extend(branches(&traced, &around, step, before)?);
            }
            if with_route && around.is_visit() {
                decisions.extend(route(&traced, &around));
            }
            for DecidingEvent { left, field, reference } in decisions {
                let read = self.pass_on_output(run, &around, (field, &reference), Vec::new(), left)?;
                // How it ended decided, and not what it left.
                reads.push(TracedRead { is_passed_on: false, value: None, ..read });
            }
        }
        Ok(reads.into_iter().map(|read| TracedRead { is_control: true, ..read }).collect())
    }
}

impl TracedRun<'_> {
    /// The event with what an execution left last, before another one.
    fn last_left(&self, at: &Address, before: Seq) -> Option<Seq> {
        self.events.outputs.get(at)?.iter().rfind(|seq| **seq < before).copied()
    }

    /// The last attempt of an execution that failed before an event, where the execution is not over by then.
    fn last_failed_attempt(&self, at: &Address, before: Seq) -> Option<Seq> {
        self.events.retries.iter().rfind(|(of, seq)| of == at && *seq < before).map(|(_, seq)| *seq)
    }
}

/// The nodes of a graph whose branch a node waited for, and those that it needed and that did not complete.
fn branches(
    traced: &TracedRun<'_>,
    at: &Address,
    step: StepNumber,
    before: Seq,
) -> Result<Vec<DecidingEvent>, InspectError> {
    let plan = &traced.history.plan;
    let list = &plan.lists[plan.steps[step as usize].list as usize];
    let (Some(graph), Some(position)) = (&list.graph, list.steps.iter().position(|known| *known == step))
    else {
        return Ok(Vec::new());
    };
    let Some(node) = graph.nodes.get(position) else { return Ok(Vec::new()) };
    let around = list_around(at);
    let edges = node.edges.iter().map(|source| ("edges", source));
    let needs = node.needs.iter().map(|source| ("needs", source));
    let mut found: Vec<DecidingEvent> = Vec::new();
    for (field, source) in edges.chain(needs) {
        let sibling = around.child(list, source.node);
        let Some(left) = traced.last_left(&sibling, before) else { continue };
        let name = sibling.shown(plan);
        let reference = if let Some(branch) = &source.branch {
            format!("{name}.{branch}")
        } else {
            let event = traced.history.event(left)?;
            if output_of(&event).is_none_or(|output| output.status == Status::Completed) {
                continue;
            }
            name.to_string()
        };
        let is_new = !found.iter().any(|known| known.left == left && known.reference == reference);
        found.extend(is_new.then_some(DecidingEvent { left, field, reference }));
    }
    Ok(found)
}

/// The list that a step stands in.
fn list_around(at: &Address) -> Address {
    at.parent().unwrap_or_default()
}

/// The verdict that led to a visit.
fn route(traced: &TracedRun<'_>, visit: &Address) -> Option<DecidingEvent> {
    let seen = traced.events.seen.get(visit).and_then(|seen| seen.first()).map(|seen| seen.seq);
    let left = traced.events.outputs.get(visit).and_then(|left| left.first()).copied();
    let first = seen.into_iter().chain(left).min()?;
    let (left, verdict) = traced.events.judged.iter().rfind(|(seq, _)| *seq < first)?;
    let state = visit.state()?;
    Some(DecidingEvent { left: *left, field: "route", reference: format!("{verdict} → {state}") })
}

/// Whether an event ends an attempt that another one follows.
pub(super) fn is_retry(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Retrying { .. })
}
