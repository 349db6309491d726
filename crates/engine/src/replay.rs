//! A journal read again: the state of a run at any event, what a step saw, and how names changed.
//!
//! Resolution is pure, so what a step saw is evaluated again rather than stored: the names as they were when the step
//! became ready, and the computed values that were recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::fields::FailureKind;
use threadline_flow::model::{Action, ContextEntry, Evaluator, Field, Filter, ForEach, Shape, Step};
use threadline_flow::plan::{PAYLOAD, Plan, RUN, StepNumber};
use threadline_lang::{
    Document, Envelope, Explanation, Expression, ReferenceKind, Resolution, Scope, Session, TracedExpression,
    Value, World,
};

use crate::evaluate::{self, Act, FieldError, FieldErrors, FieldOutcome, FieldValue, Resolved};
use crate::event::{
    self, Address, Computed, Datum, ERROR, Event, EventKind, Millis, Output, RunSlice, RunStarted, Seq,
    Status,
};
use crate::hash::Hash;
use crate::judge::{self, JudgedState, Judgement, Verdict};
use crate::machine::{Command, InvalidEvent, Machine, Outcome};
use crate::select::{self, Expansion};
use crate::view::{ItemView, MapView, View};

/// One evaluation of a step: its condition, its list, or the fields of an attempt, as the journal has it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The execution that is looked at.
    pub at: Address,
    /// The number of its step.
    pub step: StepNumber,
    /// The event that says it: decided, skipped, expanded, started, unresolved, or judged.
    pub seq: Seq,
    /// The time of the event.
    pub time: Millis,
    /// What was evaluated.
    pub evaluated: Evaluated,
    /// Which attempt; 0 for the condition, the list of a `foreach`, and the judgement on a state.
    pub attempt: u32,
    /// Which attempt of the item around it, if there is one.
    pub item_attempt: Option<u32>,
    /// Whether the same attempt was running when Threadline was killed.
    pub rerun: bool,
    /// What the step saw.
    pub view: View,
    /// What it had to compute.
    pub computed: Vec<Computed>,
    /// The entries of `context` known by then, and the events with their values.
    pub defined: BTreeMap<EcoString, Seq>,
    /// The hash of its resolved fields, of an attempt that began.
    pub fields: Option<Hash>,
    /// The verdict on a state, and where it led.
    pub judged: Option<Box<event::JudgedEvent>>,
    /// Of a list, how many elements were chosen.
    pub chosen: Option<ChosenCount>,
    /// Where its result was made, when it was kept.
    pub kept: Option<event::KeptMaker>,
}

/// How many elements of a source became the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenCount {
    /// The number of items.
    pub count: u64,
    /// The number of elements that were read, if the journal says it.
    pub read: Option<u64>,
}

/// What of a step is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluated {
    /// The condition `when` of the step.
    Condition,
    /// The list of a `foreach`.
    List,
    /// The fields of an attempt.
    Fields,
    /// What judges a state, and where it leads.
    Judgement,
    /// The variables that a phase leaves.
    Variables,
    /// What is made of the results of a map.
    Aggregates,
    /// What the run exports, at its end.
    Exports,
}

/// A name that was set.
#[derive(Debug, Clone)]
pub struct Change {
    /// The name that changed.
    pub name: EcoString,
    /// What sort of name it is.
    pub sort: NameSort,
    /// The execution that set it; empty for the run.
    pub at: Address,
    /// The event that changed it.
    pub seq: Seq,
    /// The time of that event.
    pub time: Millis,
    /// The event that had set it before, in the same scope.
    pub before: Option<Seq>,
}

/// What sort of name was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameSort {
    /// A name of `inputs`.
    Input,
    /// An entry of `context`.
    Context,
    /// The id of a step.
    Step,
    /// A name that a step captured.
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
    set: BTreeMap<(Address, EcoString), Seq>,
}

impl Fold {
    /// The fold of no event.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self { machine: Machine::new(plan), started: None, began: 0, set: BTreeMap::new() }
    }

    /// The fold of no event of a slice of a run; see [`Machine::of_slice`].
    pub fn of_slice(plan: Arc<Plan>, slice: RunSlice) -> Self {
        Self { machine: Machine::of_slice(Arc::clone(&plan), slice), ..Self::new(plan) }
    }

    /// What an event says about what its step saw; to be asked before it is applied.
    pub fn seen(&self, event: &Event) -> Option<Seen> {
        let (mut attempt, mut rerun_of, mut hash, mut verdict, mut chosen) = (0, false, None, None, None);
        let mut kept = None;
        let (evaluated, computed) = match &event.kind {
            // Nothing of a node is evaluated that cannot begin.
            EventKind::Skipped { .. } if matches!(self.machine.next_of(&event.at)?, Command::Skip { .. }) => {
                return None;
            }
            EventKind::Decided { computed, .. } | EventKind::Skipped { computed, .. } => {
                (Evaluated::Condition, computed)
            }
            EventKind::Expanded { computed, count, read, .. } => {
                chosen = Some(ChosenCount { count: *count, read: *read });
                (Evaluated::List, computed)
            }
            EventKind::Started { attempt: number, computed, fields, rerun, .. } => {
                (attempt, rerun_of, hash) = (*number, *rerun, Some(*fields));
                (Evaluated::Fields, computed)
            }
            EventKind::Unresolved { computed, .. } => {
                let evaluated = match self.machine.next_of(&event.at)? {
                    Command::Decide(_) => Evaluated::Condition,
                    Command::Expand(_) => Evaluated::List,
                    Command::Start { attempt: number, .. } => {
                        attempt = number;
                        Evaluated::Fields
                    }
                    _ => Evaluated::Fields,
                };
                (evaluated, computed)
            }
            EventKind::Judged(judged) => {
                verdict = Some(judged.clone());
                kept.clone_from(&judged.kept);
                (Evaluated::Judgement, &judged.computed)
            }
            EventKind::Finished { kept: Some(of), .. } => {
                (attempt, hash, kept) = (1, Some(of.fields), Some(of.maker.clone()));
                (Evaluated::Fields, &of.computed)
            }
            EventKind::Finished { output, .. } if output.status == Status::Completed => {
                (self.closes(&event.at)?, &Vec::new())
            }
            EventKind::RunEnded { outcome: Outcome::Completed, .. } => return self.exports_seen(event),
            _ => return None,
        };
        let mut view = self.machine.view(&event.at);
        if evaluated == Evaluated::Aggregates {
            // They are made of what the map has left by then.
            view.map = Some(MapView::Over(event.seq));
        }
        Some(Seen {
            at: event.at.clone(),
            step: self.machine.step_of(&event.at)?,
            seq: event.seq,
            time: event.time,
            evaluated,
            attempt,
            item_attempt: self.machine.item_attempt(&event.at),
            rerun: rerun_of,
            view,
            computed: computed.clone(),
            defined: self.machine.defined().clone(),
            fields: hash,
            judged: verdict,
            chosen,
            kept,
        })
    }

    /// What is evaluated when a phase or a map ends.
    fn closes(&self, at: &Address) -> Option<Evaluated> {
        let plan = self.machine.plan();
        match self.machine.next_of(at)? {
            Command::Close { task, .. } => match &plan.steps[task.step as usize].step.action {
                Action::Phase(phase) => (!phase.variables.is_empty()).then_some(Evaluated::Variables),
                _ => None,
            },
            Command::Collect { task, .. } => match &plan.steps[task.step as usize].step.action {
                Action::ForEach(each) if each.is_map => Some(Evaluated::Aggregates),
                _ => None,
            },
            _ => None,
        }
    }

    /// What `exports` saw.
    fn exports_seen(&self, event: &Event) -> Option<Seen> {
        let plan = self.machine.plan();
        let end =
            Command::End { outcome: Outcome::Completed, ended: None, failed_items: 0, spent: Box::default() };
        (!plan.workflow.exports.is_empty()).then(|| Seen {
            at: event.at.clone(),
            step: 0,
            seq: event.seq,
            time: event.time,
            evaluated: Evaluated::Exports,
            attempt: 0,
            item_attempt: None,
            rerun: false,
            view: self.machine.view_of(&end),
            computed: Vec::new(),
            defined: self.machine.defined().clone(),
            fields: None,
            judged: None,
            chosen: None,
            kept: None,
        })
    }

    /// The names that an event sets; to be asked before it is applied.
    pub fn changes(&mut self, event: &Event) -> Vec<Change> {
        let mut names: Vec<(EcoString, NameSort)> = Vec::new();
        match &event.kind {
            EventKind::Defined { name, .. } => names.push((name.clone(), NameSort::Context)),
            EventKind::Finished { .. } | EventKind::Unresolved { .. } | EventKind::Skipped { .. } => {
                let Some(step) = self.machine.step_of(&event.at) else { return Vec::new() };
                let step = &self.machine.plan().steps[step as usize].step;
                names.extend(step.id.as_ref().map(|id| (id.value.clone(), NameSort::Step)));
                if !matches!(event.kind, EventKind::Skipped { .. }) {
                    let capture = step.capture.as_ref();
                    names.extend(capture.map(|capture| (capture.value.clone(), NameSort::Capture)));
                }
            }
            _ => {}
        }
        let scope = scope_of(&event.at);
        let change = |(name, sort): (EcoString, NameSort)| {
            let key =
                (scope.clone(), if sort == NameSort::Context { context_key(&name) } else { name.clone() });
            let before = self.set.insert(key, event.seq);
            Change { name, sort, at: event.at.clone(), seq: event.seq, time: event.time, before }
        };
        names.into_iter().map(change).collect()
    }

    /// Takes an event.
    pub fn apply(&mut self, event: &Event) -> Result<(), InvalidEvent> {
        if let EventKind::RunStarted(started) = &event.kind {
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
fn scope_of(at: &Address) -> Address {
    at.items_around().next_back().unwrap_or_default()
}

/// The output that an event recorded.
pub fn output_of(event: &Event) -> Option<&Output> {
    match &event.kind {
        EventKind::Finished { output, .. }
        | EventKind::Skipped { output, .. }
        | EventKind::Unresolved { output, .. }
        | EventKind::Exchanged { output, .. }
        | EventKind::Retrying { output, .. } => Some(output),
        _ => None,
    }
}

/// The executions that failed, were not made good, and were not forgiven by `continue_on_error`.
#[derive(Default)]
pub struct Failed {
    executions: BTreeMap<Address, Seq>,
    /// Steps with `continue_on_error` that took too long: they end the run when its time is over.
    timed_out: BTreeMap<Address, Seq>,
    /// The executions that failed and were let fail: the run went on.
    passed_over: BTreeMap<Address, Seq>,
    has_crash: bool,
    is_over: bool,
}

impl Failed {
    /// Takes an event.
    pub fn take(&mut self, plan: &Plan, event: &Event) {
        match &event.kind {
            // What is done again has not failed any more, nor has anything in it.
            EventKind::Started { .. }
            | EventKind::Decided { .. }
            | EventKind::Skipped { .. }
            | EventKind::Expanded { .. }
            | EventKind::ItemBegun { .. } => return self.forget(&event.at),
            EventKind::RunEnded { outcome, .. } => {
                self.is_over = true;
                if *outcome == Outcome::Completed {
                    // What is left was let fail.
                    self.passed_over.extend(self.executions.extract_if(.., |at, _| !at.is_in_items()));
                } else if self.executions.is_empty() {
                    self.passed_over.retain(|at, _| !self.timed_out.contains_key(at));
                    self.executions.append(&mut self.timed_out);
                }
            }
            // Whoever goes on after an end has seen what was cut off.
            EventKind::Resumed { .. } if std::mem::take(&mut self.is_over) => self.has_crash = false,
            _ => {}
        }
        let Some(step) = event.at.step(plan) else { return };
        let step = &plan.steps[step as usize].step;
        let output = match &event.kind {
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => output,
            EventKind::Judged(judged) => return self.judged(step, event, judged),
            _ => return,
        };
        self.has_crash |= FailureKind::of_meta(&output.meta) == Some(FailureKind::Crash);
        // Whether that is a failure of a state is said when it was judged.
        if step.state.is_some() {
            return;
        }
        if step.continue_on_error && FailureKind::of_meta(&output.meta) == Some(FailureKind::Timeout) {
            self.timed_out.insert(event.at.clone(), event.seq);
        }
        let failed = if step.continue_on_error { &mut self.passed_over } else { &mut self.executions };
        // That items failed is said by the items.
        let of_items = FailureKind::of_meta(&output.meta) == Some(FailureKind::Items);
        if output.status == Status::Failed && !of_items {
            failed.insert(event.at.clone(), event.seq);
        } else {
            failed.remove(&event.at);
        }
    }

    /// The kind of failure that the run is for the step that called it. A call in which a step was cut off that may
    /// not run twice is itself such a step: nothing around it makes it again.
    pub fn kind_of_call(&self) -> FailureKind {
        if self.has_crash { FailureKind::Crash } else { FailureKind::Workflow }
    }

    /// A state without a route has failed; one that leads on has made good what failed in it.
    fn judged(&mut self, step: &Step, event: &Event, judged: &event::JudgedEvent) {
        let ends = step.state.as_ref().is_some_and(|state| state.terminal.is_some());
        if judged.to.is_none() && (!ends || judged.verdict == ERROR) {
            self.executions.insert(event.at.clone(), event.seq);
            return;
        }
        self.forget(&event.at);
    }

    fn forget(&mut self, done_again: &Address) {
        for known in [&mut self.executions, &mut self.timed_out, &mut self.passed_over] {
            if !known.is_empty() {
                known.retain(|at, _| at != done_again && !at.is_inside(done_again));
            }
        }
    }

    /// The executions that failed and were let fail, and the events that say so.
    pub fn passed_over(&self) -> impl Iterator<Item = (&Address, Seq)> {
        self.passed_over.iter().map(|(at, seq)| (at, *seq))
    }

    /// They, and the events that say so.
    pub fn executions(&self) -> impl Iterator<Item = (&Address, Seq)> {
        self.executions.iter().map(|(at, seq)| (at, *seq))
    }
}

/// What a step saw and what came of it, evaluated again.
pub struct Look {
    /// Every reference that was resolved.
    pub trace: Vec<Resolution>,
    /// Every whole `${...}`, with what it gave.
    pub expressions: Vec<TracedExpression>,
    /// The tree of its condition.
    pub condition: Option<Explanation>,
    /// What the fields of the list or of the attempt came to.
    pub outcomes: Vec<FieldOutcome>,
    /// Where the items of a list come from.
    pub list: Option<Result<Expansion, FieldErrors>>,
    /// The fields of the step, resolved again.
    pub fields: Option<Result<Resolved, FieldErrors>>,
    /// The judgement on a state.
    pub judged: Option<Rejudged>,
}

/// The judgement on a state, made again.
pub struct Rejudged {
    /// The judgement as it comes out now.
    pub judgement: Judgement,
    /// The tree of the expression that it is made of.
    pub expression: Option<Explanation>,
    /// The trees of the conditions of `route` that were looked at, in their order.
    pub conditions: Vec<Explanation>,
    /// What the judge was asked, where there is one.
    pub question: Option<String>,
}

impl Look {
    /// Why the list or fields have no value.
    pub fn errors(&self) -> &[FieldError] {
        let of_list = self.list.as_ref().and_then(|list| list.as_ref().err());
        let of_fields = self.fields.as_ref().and_then(|fields| fields.as_ref().err());
        of_list.or(of_fields).map_or(&[], Vec::as_slice)
    }
}

/// Evaluates again what an event says was evaluated, with the values of then. `result` is what a state left that was
/// judged, beside what it is judged with what it saw when it acted.
pub fn look(
    plan: &Plan,
    seen: &Seen,
    (scope, acting): (&Scope, Option<&Scope>),
    result: Option<&Envelope>,
    world: &mut dyn World,
) -> Look {
    let step = &plan.steps[seen.step as usize].step;
    let mut session = traced_session(plan, world);
    let (mut condition, mut list, mut fields, judged) = (None, None, None, None);
    let mut outcomes = Vec::new();
    match seen.evaluated {
        Evaluated::Condition => condition = evaluate::explain_condition(step, scope, &mut session),
        Evaluated::List => {
            let (evaluated, expansion) = select::expand_fields(plan, seen.step, scope, &mut session);
            (outcomes, list) = (evaluated, Some(expansion));
            if let Action::ForEach(each) = &step.action {
                look_at_choice(plan, each, scope, &mut session);
            }
        }
        Evaluated::Fields => {
            let (evaluated, resolved) = evaluate::resolve_fields(plan, seen.step, scope, &mut session);
            (outcomes, fields) = (evaluated, Some(resolved));
        }
        Evaluated::Variables => {
            if let Action::Phase(phase) = &step.action {
                let variables = select::variables(phase, scope, &mut session);
                outcomes = named_outcomes("variables", &phase.variables, &variables);
            }
        }
        Evaluated::Aggregates => {
            if let Shape::MapReduce { aggregates } = &plan.workflow.shape {
                let made = select::aggregates(plan, scope, &mut session);
                outcomes = named_outcomes("aggregates", aggregates, &made);
            }
        }
        Evaluated::Exports => {
            let exports = evaluate::exports(plan, scope, &mut session);
            outcomes = named_outcomes("exports", &plan.workflow.exports, &exports);
        }
        Evaluated::Judgement => {
            if let Some(state) = &seen.view.state {
                let (scope, unable) = judge::scope_of(plan, seen.step, acting, scope, &mut session);
                let of_state = JudgedState { plan, step: seen.step, scope: &scope, result, state };
                let (again, trace) = rejudged(&of_state, seen.judged.as_deref(), unable, &mut session);
                let judged = Some(again);
                let expressions = session.take_expressions();
                return Look { trace, expressions, condition, outcomes, list, fields, judged };
            }
        }
    }
    let (trace, expressions) = (session.take_trace(), session.take_expressions());
    Look { trace, expressions, condition, outcomes, list, fields, judged }
}

/// Reads what chooses and sorts the elements of a list, except the elements: it is the same for each of them.
fn look_at_choice(plan: &Plan, each: &ForEach, scope: &Scope, session: &mut Session<'_>) {
    let filter = each.filter.iter().filter_map(|filter| match filter {
        Filter::Condition(condition) => Some(condition),
        Filter::Expectation(_) => None,
    });
    for field in filter.chain(each.sort_by.iter().map(|key| &key.by)).chain(&each.distinct) {
        session.set_origin(Some(field.origin.clone()));
        for reference in field.value.references() {
            if reference.kind != ReferenceKind::Path || reference.root == "item" {
                continue;
            }
            // The spaces bring it to where it stands in the whole expression.
            let text = format!("{}{}", " ".repeat(reference.span.range().start), reference.path);
            if let Ok(read) = Expression::parse(text, &plan.workflow.syntax) {
                // One without a value is in the trace, too.
                let _ = read.value(scope, session);
            }
        }
    }
}

/// What an entry of `context` reads, evaluated again.
pub fn look_at_entry(
    plan: &Plan,
    entry: &ContextEntry,
    scope: &Scope,
    world: &mut dyn World,
) -> Vec<Resolution> {
    let mut session = traced_session(plan, world);
    session.set_origin(Some(entry.written.origin.clone()));
    // One without a value has read what it has.
    let _ = entry.written.value.resolve(scope, &mut session);
    session.take_trace()
}

fn traced_session<'w>(plan: &'w Plan, world: &'w mut dyn World) -> Session<'w> {
    let workflow = &plan.workflow;
    Session::new(world).limits(&workflow.syntax.limits).undefined(workflow.undefined).traced()
}

/// Values by name, as fields whose names begin with a word.
fn named_outcomes(
    key: &'static str,
    values: &[(EcoString, Field<Document>)],
    evaluated: &Result<Value, FieldErrors>,
) -> Vec<FieldOutcome> {
    let value_of = |name: &str| evaluated.as_ref().ok().and_then(|value| value.get(name).cloned());
    let outcome = |(name, written): &(EcoString, Field<Document>)| FieldOutcome {
        key,
        name: ecow::eco_format!("{key}.{name}"),
        origin: Some(written.origin.clone()),
        value: value_of(name).map(FieldValue::Value),
        fixed: false,
    };
    values.iter().map(outcome).collect()
}

/// A judgement and what it read; then, of the same values, why expressions are what they are.
fn rejudged(
    judged: &JudgedState<'_>,
    recorded: Option<&event::JudgedEvent>,
    unable: Option<Verdict>,
    session: &mut Session<'_>,
) -> (Rejudged, Vec<Resolution>) {
    let evaluator = judged.plan.steps[judged.step as usize].step.evaluator();
    let mut question = None;
    let verdict = match (evaluator, recorded) {
        // Nobody is asked twice: what was read for the question is read again, and the answer is the one that was given.
        (Some(Evaluator::Agent(judge)), Some(recorded)) if unable.is_none() => {
            let asked = judged.question(judge, session, |_| Ok(())).ok();
            question = asked.and_then(|asked| match asked.resolved.act {
                Act::Agent { message, .. } => Some(message),
                _ => None,
            });
            answered(recorded)
        }
        _ => unable.unwrap_or_else(|| judged.verdict(session)),
    };
    let mut looked = Vec::new();
    let judgement = judged.route_where(verdict, &mut |_, condition, scope| {
        looked.push((Arc::clone(&condition.value), scope.clone()));
        session.set_origin(Some(condition.origin.clone()));
        condition.value.condition(scope, session)
    });
    let trace = session.take_trace();
    let expression = match evaluator {
        Some(Evaluator::Expression(expression)) => Some(expression.value.explain(judged.scope, session)),
        _ => None,
    };
    let conditions = looked.iter().map(|(condition, scope)| condition.explain(scope, session)).collect();
    (Rejudged { judgement, expression, conditions, question }, trace)
}

/// The verdict that was recorded.
fn answered(recorded: &event::JudgedEvent) -> Verdict {
    let details = match &recorded.details {
        Datum::Here(details) => details.clone(),
        Datum::Stored { .. } => Value::NULL,
    };
    Verdict {
        verdict: recorded.verdict.clone(),
        confidence: recorded.confidence.clone(),
        reason: recorded.reason.clone(),
        details,
        measured: recorded.measured.clone(),
    }
}

/// Who gave the value of a reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// The step whose output this event recorded.
    Event(Seq),
    /// An item of the list that this event recorded.
    Item {
        /// The event with the list.
        list: Seq,
        /// Which element, from 0.
        index: u64,
    },
    /// The caller, who gave this input. All inputs when it has no name.
    Input(Option<EcoString>),
    /// An earlier run, under this name. All of them when it has no name.
    Import(Option<EcoString>),
    /// An entry of `context`. All of them when it has no name.
    Context(Option<EcoString>),
    /// The caller, who started a graph with it.
    Payload,
    /// The run itself.
    Run,
    /// The world: the environment, a file, a command, the clock.
    World,
    /// Nobody: there is no such name.
    Nobody,
}

fn item_maker(item: ItemView) -> Maker {
    Maker::Item { list: item.item.list, index: item.item.index }
}

impl View {
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
            "inputs" => Some(Maker::Input(first.cloned())),
            "imports" => Some(Maker::Import(first.cloned())),
            "workflow" => Some(Maker::Run),
            RUN if self.outcome.is_some() => Some(Maker::Run),
            PAYLOAD if !self.outputs.iter().any(|(id, _)| id == PAYLOAD) => Some(Maker::Payload),
            "context" => Some(Maker::Context(first.cloned())),
            // What a `param` is made of is told on its own.
            "param" | "loop" | "state" if self.state.is_some() => Some(Maker::Run),
            "prev" => self.prev.map(|seq| self.maker_of_state(seq, resolution.path.strip_prefix("prev"))),
            "result" if self.result.is_some() => self.result.map(Maker::Event),
            "item" => self.item.map(|item| match resolution.path.as_str() {
                "item.attempt" => Maker::Run,
                "item.previous_error" => item.error.map_or(Maker::Run, Maker::Event),
                _ => item_maker(item),
            }),
            "agent" if self.item.is_some_and(|item| item.has_agent) => Some(Maker::Run),
            "map" | "aggregates" if self.map.is_some() => Some(match self.map {
                Some(MapView::Over(seq)) => Maker::Event(seq),
                _ => Maker::Run,
            }),
            "captured" => {
                let rest = resolution.path.strip_prefix("captured.");
                let rest = rest.zip(first).and_then(|(rest, name)| rest.strip_prefix(name.as_str()));
                let previous = rest.and_then(|rest| rest.strip_prefix(".previous"));
                let previous = previous.filter(|rest| rest.is_empty() || rest.starts_with('.'));
                let (table, rest) = match previous {
                    Some(previous) => (&self.earlier, Some(previous)),
                    None => (&self.captured, rest),
                };
                let found = table.iter().find(|(known, _)| Some(known) == first);
                found.map(|(_, seq)| self.maker_of_state(*seq, rest))
            }
            "nodes" => find(&self.outputs, first),
            _ => {
                let name = Some(&resolution.root);
                let of_steps = find(&self.outputs, name).or_else(|| find(&self.captured, name));
                of_steps.or_else(|| find(&self.phases, name))
            }
        };
        found.unwrap_or(Maker::Nobody)
    }

    /// Who made a field of what a state left: of its verdict the judgement, else the action.
    fn maker_of_state(&self, seq: Seq, field: Option<&str>) -> Maker {
        let is_verdict = matches!(field, Some(".verdict" | ".reason" | ".confidence"));
        let verdict = self.verdicts.iter().find(|(known, _)| is_verdict && *known == seq);
        Maker::Event(verdict.map_or(seq, |(_, verdict)| verdict.seq))
    }

    /// Who may have made what its references gave, beside the caller and `context`.
    pub fn makers(&self) -> impl Iterator<Item = Maker> {
        let item = self.item.map(item_maker);
        let verdicts = self.verdicts.iter().map(|(_, verdict)| Maker::Event(verdict.seq));
        self.sources().into_iter().map(Maker::Event).chain(item).chain(verdicts)
    }
}
