//! A journal read again: the state of a run at any event, what a step saw, and how names changed.
//!
//! Resolution is pure, so what a step saw is evaluated again rather than stored: the names as they were when the step
//! became ready, and the computed values that were recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::plan::{Plan, StepNumber};
use threadline_lang::{Explanation, Resolution, Scope, Session, Value, World};

use crate::evaluate::{self, FieldErrors, Resolved};
use crate::event::{Computed, Event, Instance, Millis, Output, RunStarted, Seq, What};
use crate::hash::Hash;
use crate::machine::{Machine, Misfit};
use crate::view::{ItemRef, View};

/// One attempt of a step, or its condition, as the journal has it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The execution.
    pub at: Instance,
    /// The step.
    pub step: StepNumber,
    /// The event that says it: decided, skipped, expanded, started, or finished without having started.
    pub seq: Seq,
    /// When.
    pub time: Millis,
    /// Which attempt; 0 for the condition and the list of a `foreach`.
    pub attempt: u32,
    /// What the step saw.
    pub view: View,
    /// What it had to compute.
    pub computed: Vec<Computed>,
    /// The entries of `context` known by then, and the events with their values.
    pub defined: BTreeMap<EcoString, Seq>,
    /// The hash of its resolved fields, of an attempt.
    pub fields: Option<Hash>,
    /// What came of it.
    pub kind: SeenKind,
}

/// What came of looking at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenKind {
    /// Its condition is true.
    Decided,
    /// Its condition is false.
    Skipped,
    /// Its list is known.
    Expanded,
    /// An attempt began.
    Started,
    /// It failed before it began: a field or condition has no value.
    NotStarted,
}

/// A name that was set.
#[derive(Debug, Clone)]
pub struct Change {
    /// The name.
    pub name: EcoString,
    /// What sort of name it is.
    pub sort: NameSort,
    /// The execution that set it; empty for the run.
    pub at: Instance,
    /// The event.
    pub seq: Seq,
    /// When.
    pub time: Millis,
    /// The event that had set it before, in the same scope.
    pub before: Option<Seq>,
}

/// What sort of name was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameSort {
    /// An input.
    Input,
    /// An entry of `context`.
    Context,
    /// The id of a step.
    Step,
    /// A capture.
    Capture,
}

/// Folds the events of a run, one after the other.
pub struct Fold {
    /// The machine so far.
    pub machine: Machine,
    /// What the run began with.
    pub started: Option<RunStarted>,
    /// When the run began.
    pub began: Millis,
    set: BTreeMap<(EcoString, EcoString), Seq>,
}

impl Fold {
    /// The fold of no event.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self { machine: Machine::new(plan), started: None, began: 0, set: BTreeMap::new() }
    }

    /// What an event says about what its step saw; to be asked before it is applied.
    pub fn seen(&self, event: &Event) -> Option<Seen> {
        let (kind, attempt, computed, fields) = match &event.what {
            What::Decided { computed, .. } => (SeenKind::Decided, 0, computed.clone(), None),
            What::Skipped { computed, .. } => (SeenKind::Skipped, 0, computed.clone(), None),
            What::Expanded { computed, .. } => (SeenKind::Expanded, 0, computed.clone(), None),
            What::Started { attempt, computed, fields, .. } => {
                (SeenKind::Started, *attempt, computed.clone(), Some(*fields))
            }
            _ => return None,
        };
        let step = self.machine.step_of(&event.at)?;
        Some(Seen {
            at: event.at.clone(),
            step,
            seq: event.seq,
            time: event.time,
            attempt,
            view: self.machine.view(&event.at),
            computed,
            defined: self.machine.defined().clone(),
            fields,
            kind,
        })
    }

    /// The names that an event sets; to be asked before it is applied.
    pub fn changes(&mut self, event: &Event) -> Vec<Change> {
        let mut names: Vec<(EcoString, NameSort)> = Vec::new();
        match &event.what {
            What::Defined { name, .. } => names.push((name.clone(), NameSort::Context)),
            What::Finished { .. } | What::Skipped { .. } => {
                let Some(step) = self.machine.step_of(&event.at) else { return Vec::new() };
                let step = &self.machine.plan().steps[step as usize].step;
                names.extend(step.id.as_ref().map(|id| (id.of.clone(), NameSort::Step)));
                if matches!(event.what, What::Finished { .. }) {
                    let capture = step.capture.as_ref();
                    names.extend(capture.map(|capture| (capture.of.clone(), NameSort::Capture)));
                }
            }
            _ => {}
        }
        let scope: EcoString = scope_of(&event.at).into();
        let change = |(name, sort): (EcoString, NameSort)| {
            let key =
                (scope.clone(), if sort == NameSort::Context { context_key(&name) } else { name.clone() });
            let before = self.set.insert(key, event.seq);
            Change { name, sort, at: event.at.clone(), seq: event.seq, time: event.time, before }
        };
        names.into_iter().map(change).collect()
    }

    /// Takes an event.
    pub fn apply(&mut self, event: &Event) -> Result<(), Misfit> {
        if let What::RunStarted(started) = &event.what {
            self.started = Some(started.clone());
            self.began = event.time;
        }
        self.machine.apply(event).map(|_| ())
    }
}

fn context_key(name: &EcoString) -> EcoString {
    ecow::eco_format!("context.{name}")
}

/// The scope of an execution: that of its item, else that of the run.
fn scope_of(at: &Instance) -> &str {
    at.0.rfind(']').map_or("", |end| &at.0[..=end])
}

/// The output that an event recorded.
pub fn output_of(event: &Event) -> Option<&Output> {
    match &event.what {
        What::Finished { output } | What::Skipped { output, .. } | What::Retrying { output, .. } => {
            Some(output)
        }
        _ => None,
    }
}

/// What a step saw and what came of it, evaluated again.
pub struct Look {
    /// Every reference that was resolved.
    pub trace: Vec<Resolution>,
    /// The tree of its condition.
    pub condition: Option<Explanation>,
    /// The list of a `foreach`.
    pub list: Option<Result<Value, FieldErrors>>,
    /// Its fields.
    pub fields: Option<Result<Resolved, FieldErrors>>,
}

/// Evaluates again what an event says was evaluated, with the values of then.
pub fn look(plan: &Plan, seen: &Seen, scope: &Scope, world: &mut dyn World) -> Look {
    let step = &plan.steps[seen.step as usize].step;
    let workflow = &plan.workflow;
    let mut session =
        Session::new(world).limits(&workflow.syntax.limits).undefined(workflow.undefined).traced();
    let (mut condition, mut list, mut fields) = (None, None, None);
    match seen.kind {
        SeenKind::Decided | SeenKind::Skipped => {
            condition = evaluate::explain_condition(step, scope, &mut session);
        }
        SeenKind::Expanded => {
            list = Some(evaluate::expand(step, scope, &mut session).map(|(list, _)| list));
        }
        SeenKind::Started | SeenKind::NotStarted => {
            fields = Some(evaluate::resolve(plan, seen.step, scope, &mut session));
        }
    }
    Look { trace: session.take_trace(), condition, list, fields }
}

/// Who gave the value of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Maker {
    /// The step whose output this event recorded.
    Event(Seq),
    /// An item of the list that this event recorded.
    Item(ItemRef),
    /// The caller.
    Caller,
    /// An entry of `context`, evaluated at this event.
    Context(Option<Seq>),
    /// The run itself.
    Run,
    /// The world: the environment, a file, a command, the clock.
    World,
    /// Nobody: there is no value.
    Nobody,
}

impl Seen {
    /// Who gave the value of a reference.
    pub fn maker(&self, resolution: &Resolution) -> Maker {
        let first = resolution.first.as_ref();
        let find = |table: &[(EcoString, Seq)], name: Option<&EcoString>| {
            table.iter().find(|(known, _)| Some(known) == name).map(|(_, seq)| Maker::Event(*seq))
        };
        if resolution.computed {
            return Maker::World;
        }
        let found = match resolution.root.as_str() {
            "inputs" => Some(Maker::Caller),
            "workflow" => Some(Maker::Run),
            "context" => Some(Maker::Context(first.and_then(|name| self.defined.get(name).copied()))),
            "prev" => self.view.prev.map(Maker::Event),
            "item" => self.view.item.map(Maker::Item),
            "captured" => find(&self.view.captured, first),
            "nodes" => find(&self.view.outputs, first),
            _ => {
                let name = Some(&resolution.root);
                find(&self.view.outputs, name).or_else(|| find(&self.view.captured, name))
            }
        };
        found.unwrap_or(Maker::Nobody)
    }
}
