//! The machine of step lists and graphs: it takes events and says what to do next.
//!
//! It is total and deterministic: the same events give the same state and the same commands, whoever applies them.
//! It holds no values, only the numbers of the events that made them. It never asks for the time.
//!
//! A *frame* is a list of steps being executed: the workflow's own, one for each item of a `foreach`, one for each
//! `on_failure`, `on_success` and `finally`. A *live step* is a step that has begun and is not concluded, or one that
//! failed and made its list fail. A *scope* is where names go: the run has one, and each item.

mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_flow::model::{Action, OnCrash};
use threadline_flow::plan::{ListNumber, Part, Plan, Read, StepNumber};

use crate::event::{Datum, Event, Instance, Millis, Output, Seq, Status, What};
use crate::view::{ItemRef, View};
use graph::{Nodes, Over};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Evaluate `when`.
    Decide(Task),
    /// Record that a node cannot begin.
    Skip {
        /// Which.
        task: Task,
        /// Why, in words.
        reason: EcoString,
    },
    /// Evaluate the list of a `foreach`.
    Expand(Task),
    /// Do it.
    Start {
        /// Which.
        task: Task,
        /// Which attempt, from 1.
        attempt: u32,
        /// How many attempts of it went before that do not count: those before a resume after a failure.
        base: u32,
        /// Whether this attempt was running when Threadline was killed.
        rerun: bool,
    },
    /// Begin the next attempt when the pause is over.
    Wait {
        /// Which.
        task: Task,
        /// The pause.
        pause: Pause,
    },
    /// Put the results of the items together.
    Collect {
        /// Which.
        task: Task,
        /// The event with the list: the items began with it.
        list: Seq,
        /// The last output of each item; none where it failed or did not run.
        items: Vec<Option<Seq>>,
        /// Whether items failed.
        failed: u64,
    },
    /// It was running when Threadline was killed, and counts as failed.
    FailAfterCrash(Task),
    /// It was running when Threadline was killed, and somebody has to say what to do.
    Ask(Task),
    /// Record that the run is over.
    End(Outcome),
}

impl Command {
    /// The step it is about.
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Decide(task)
            | Self::Expand(task)
            | Self::Skip { task, .. }
            | Self::Start { task, .. }
            | Self::Wait { task, .. }
            | Self::Collect { task, .. }
            | Self::FailAfterCrash(task)
            | Self::Ask(task) => Some(task),
            Self::End(_) => None,
        }
    }
}

/// A step to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Which execution.
    pub at: Instance,
    /// Of which step.
    pub step: StepNumber,
    /// The event that made it ready: everything up to there must be on disk before it is acted upon.
    pub as_of: Seq,
}

/// A pause between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When it began.
    pub since: Millis,
    /// When it is over.
    pub until: Millis,
}

impl Pause {
    /// How much of it is left at this time, in milliseconds. A clock that was set back makes no pause longer.
    pub fn left(self, now: Millis) -> u64 {
        let whole = self.until.saturating_sub(self.since).max(0);
        self.until.saturating_sub(now).clamp(0, whole).unsigned_abs()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every step that had to did well.
    Completed,
    /// A step failed.
    Failed,
}

impl Outcome {
    /// As it stands in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing has happened.
    New,
    /// On its way.
    Going,
    /// Over.
    Ended(Outcome),
}

/// What should not happen: an event that does not fit the state. The journal is not of this plan, or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The event.
    pub seq: Seq,
    /// Why it does not fit, in words.
    pub why: String,
}

/// The state of a run.
pub struct Machine {
    plan: Arc<Plan>,
    stage: Stage,
    /// Set while nothing new is to begin.
    stopping: bool,
    frames: BTreeMap<EcoString, Frame>,
    live: BTreeMap<EcoString, Live>,
    scopes: BTreeMap<EcoString, Scope>,
    /// The steps of `context` that were evaluated, by name.
    defined: BTreeMap<EcoString, Seq>,
    /// The names of the run before its last list, when that is done again after a failure.
    before: Option<Names>,
    last: Seq,
    commands: Vec<Command>,
}

/// A list being executed. Its key is the prefix of its steps' instances.
struct Frame {
    list: ListNumber,
    /// The step it is a part of, and of which item.
    owner: Option<(EcoString, Part, Option<u64>)>,
    scope: EcoString,
    position: usize,
    /// The last executed step of this list.
    prev: Option<Seq>,
    failed: bool,
    /// Where its nodes are, when it is a graph.
    nodes: Option<Nodes>,
}

/// A step that has begun.
struct Live {
    step: StepNumber,
    frame: EcoString,
    as_of: Seq,
    phase: Phase,
    /// Attempts made so far.
    attempts: u32,
    /// The event that began the last of them.
    started: Option<Seq>,
    /// Attempts before the last resume after a failure.
    base: u32,
    /// The event with its output.
    output: Option<Seq>,
    /// What it would see if it, or its last list, were done again; kept when that may be.
    before: Option<Box<Before>>,
    /// Whether the step itself did well, whatever its lists did.
    well: bool,
    /// Whether the step itself, or one of its lists, failed.
    failed: bool,
    items: Option<Items>,
    /// Why it is skipped.
    reason: Option<EcoString>,
    /// The branch it took, of a conditional.
    branch: Option<EcoString>,
}

/// What was visible before something that failed.
struct Before {
    prev: Option<Seq>,
    names: Names,
}

impl Live {
    /// Whether an attempt of this number may begin: the next one, or again the one that was running at a crash.
    fn may_start(&self, attempt: u32, rerun: bool) -> bool {
        match self.phase {
            Phase::Ready | Phase::Waiting(_) => !rerun && attempt == self.attempts.saturating_add(1),
            Phase::Running => rerun && attempt == self.attempts,
            _ => false,
        }
    }

    fn may_skip(&self) -> bool {
        matches!(self.phase, Phase::Deciding | Phase::Skipping { .. })
    }

    /// Whether a field of the step may be found without a value.
    fn may_fail_unbegun(&self) -> bool {
        matches!(
            self.phase,
            Phase::Deciding | Phase::Expanding | Phase::Ready | Phase::Running | Phase::Waiting(_)
        )
    }

    /// Whether the step may be done: also before it began, when a field of it has no value.
    fn may_finish(&self) -> bool {
        !matches!(self.phase, Phase::Skipping { .. } | Phase::Items | Phase::In(_) | Phase::Failed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It cannot begin; whether because another node failed.
    Skipping {
        by_failure: bool,
    },
    Deciding,
    Expanding,
    Ready,
    Running,
    Waiting(Pause),
    Items,
    Collecting,
    In(Part),
    /// It failed, and its list with it.
    Failed,
}

/// The items of a `foreach`.
struct Items {
    list: Seq,
    count: u64,
    parallel: u64,
    next: u64,
    running: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    results: Vec<Option<Seq>>,
}

/// Names that are set, and by which events.
#[derive(Default)]
struct Scope {
    parent: Option<EcoString>,
    item: Option<ItemRef>,
    names: Names,
}

/// Names by what they were set with.
#[derive(Default, Clone)]
struct Names {
    outputs: BTreeMap<EcoString, Seq>,
    captured: BTreeMap<EcoString, Seq>,
}

const STEPS: ListNumber = 0;

impl Machine {
    /// The machine of a run that has not begun.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            stage: Stage::New,
            stopping: false,
            frames: BTreeMap::new(),
            live: BTreeMap::new(),
            scopes: BTreeMap::new(),
            defined: BTreeMap::new(),
            before: None,
            last: 0,
            commands: Vec::new(),
        }
    }

    /// The plan that is followed.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Where the run is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The number of the last event.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// How many things it keeps: lists, steps and scopes. What is done with is not among them.
    pub fn kept(&self) -> usize {
        self.frames.len() + self.live.len() + self.scopes.len()
    }

    /// From now on nothing new begins.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Takes an event, and says what to do next.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Command>, Misfit> {
        let misfit = |why: &str| Misfit { seq: event.seq, why: why.to_owned() };
        if event.seq != self.last + 1 {
            return Err(misfit("it does not follow the event before it"));
        }
        if matches!(self.stage, Stage::New) != matches!(event.what, What::RunStarted(_)) {
            return Err(misfit("a run begins once"));
        }
        if matches!(self.stage, Stage::Ended(_)) && !matches!(event.what, What::Resumed) {
            return Err(misfit("the run is over"));
        }
        self.last = event.seq;
        match &event.what {
            What::RunStarted(_) => {
                self.stage = Stage::Going;
                self.scopes.insert(EcoString::new(), Scope::default());
                self.open(&EcoString::new(), STEPS, None, EcoString::new(), None);
            }
            What::Resumed => self.resume(),
            What::Paused { .. } => {}
            What::RunEnded { outcome, .. } => {
                if self.end() != Some(Command::End(*outcome)) {
                    return Err(misfit("the run is not at this end"));
                }
                self.stage = Stage::Ended(*outcome);
            }
            What::Defined { name, .. } => {
                self.defined.insert(name.clone(), event.seq);
            }
            what => {
                let live =
                    self.live.get_mut(&event.at.0).ok_or_else(|| misfit("the step is not under way"))?;
                match what {
                    What::Decided { .. } if live.phase == Phase::Deciding => self.act(&event.at.0),
                    What::Skipped { .. } if live.may_skip() => self.skipped(&event.at.0, event.seq),
                    What::Expanded { count, parallel, .. } if live.phase == Phase::Expanding => {
                        self.expanded(&event.at.0, event.seq, *count, *parallel);
                    }
                    What::Started { attempt, rerun, .. } if live.may_start(*attempt, *rerun) => {
                        live.phase = Phase::Running;
                        live.attempts = *attempt;
                        live.started = Some(event.seq);
                    }
                    What::Retrying { until, .. } if live.phase == Phase::Running => {
                        live.phase = Phase::Waiting(Pause { since: event.time, until: *until });
                        // The next attempt must not begin before this is on disk; it sees the same names.
                        live.as_of = event.seq;
                        self.commands.extend(self.outstanding_of(&event.at.0, None));
                    }
                    What::Finished { output } if live.may_finish() => {
                        self.finished(&event.at.0, event.seq, output);
                    }
                    What::Unresolved { output, .. } if live.may_fail_unbegun() => {
                        self.finished(&event.at.0, event.seq, output);
                    }
                    _ => return Err(misfit("the step is somewhere else")),
                }
            }
        }
        let commands = std::mem::take(&mut self.commands);
        Ok(if self.stopping {
            commands.into_iter().filter(|command| !begins(command)).collect()
        } else {
            commands
        })
    }

    /// The pause before an attempt is over: what begins. The state does not change until the attempt has begun.
    pub fn waited(&self, at: &Instance) -> Option<Command> {
        let live = self.live.get(&at.0)?;
        match live.phase {
            Phase::Waiting(_) if !self.stopping => self.start(&at.0),
            _ => None,
        }
    }

    /// Everything that is to be done in this state: what a run that was stopped or killed goes on with. What was
    /// running then follows its `on_crash`, unless the caller decides.
    pub fn outstanding(&self, in_flight: Option<OnCrash>) -> Vec<Command> {
        let steps = self.live.keys().filter_map(|at| self.outstanding_of(at, in_flight));
        steps.chain(self.end().filter(|_| self.stage == Stage::Going)).collect()
    }

    fn outstanding_of(&self, at: &EcoString, in_flight: Option<OnCrash>) -> Option<Command> {
        let live = self.live.get(at)?;
        let task = self.task(at)?;
        Some(match live.phase {
            Phase::Skipping { .. } => Command::Skip { task, reason: live.reason.clone().unwrap_or_default() },
            Phase::Deciding => Command::Decide(task),
            Phase::Expanding => Command::Expand(task),
            Phase::Ready => self.start(at)?,
            Phase::Running => match in_flight.unwrap_or(self.plan.steps[live.step as usize].step.on_crash) {
                OnCrash::Rerun => {
                    Command::Start { task, attempt: live.attempts, base: live.base, rerun: true }
                }
                OnCrash::Fail => Command::FailAfterCrash(task),
                OnCrash::Ask => Command::Ask(task),
            },
            Phase::Waiting(pause) => Command::Wait { task, pause },
            Phase::Collecting => self.collect(at)?,
            Phase::Items | Phase::In(_) | Phase::Failed => return None,
        })
    }

    /// What is to be done next with one execution.
    pub fn next_of(&self, at: &Instance) -> Option<Command> {
        self.waited(at).or_else(|| self.outstanding_of(&at.0, None))
    }

    /// The next attempt.
    fn start(&self, at: &EcoString) -> Option<Command> {
        let live = self.live.get(at)?;
        let attempt = live.attempts.saturating_add(1);
        Some(Command::Start { task: self.task(at)?, attempt, base: live.base, rerun: false })
    }

    /// What a step sees: for each name it reads, the event that made it.
    pub fn view(&self, at: &Instance) -> View {
        let Some(live) = self.live.get(&at.0) else { return View::default() };
        let Some(frame) = self.frames.get(&live.frame) else { return View::default() };
        let reads = &self.plan.steps[live.step as usize].reads;
        let (as_of, attempts, started) = (live.as_of, live.attempts, live.started);
        View { as_of, attempts, started, ..self.names_of(reads, &frame.scope, frame.prev) }
    }

    /// What `exports` see at the end of the run.
    pub fn end_view(&self) -> View {
        View { as_of: self.last, ..self.names_of(&self.plan.export_reads, &EcoString::new(), None) }
    }

    fn names_of(&self, reads: &[Read], scope: &EcoString, prev: Option<Seq>) -> View {
        let mut view = View::default();
        for read in reads {
            match read {
                Read::Output(id) => {
                    let found = self.in_scopes(scope, |scope| scope.names.outputs.get(id).copied());
                    view.outputs.extend(found.map(|seq| (id.clone(), seq)));
                }
                Read::Captured(name) => {
                    let found = self.in_scopes(scope, |scope| scope.names.captured.get(name).copied());
                    view.captured.extend(found.map(|seq| (name.clone(), seq)));
                }
                Read::AllCaptured => self.all_captured(scope, &mut view),
                Read::Prev => view.prev = prev,
                Read::Item => view.item = self.in_scopes(scope, |scope| scope.item),
            }
        }
        view
    }

    /// The event that evaluated an entry of `context`.
    pub fn defined(&self) -> &BTreeMap<EcoString, Seq> {
        &self.defined
    }

    /// The step of an execution that is under way.
    pub fn step_of(&self, at: &Instance) -> Option<StepNumber> {
        self.live.get(&at.0).map(|live| live.step)
    }

    /// The names of the run, and what set each last: ids and captures. Those of items are gone with them.
    pub fn names(&self) -> Vec<(EcoString, Seq)> {
        let Some(scope) = self.scopes.get("") else { return Vec::new() };
        let names = scope.names.outputs.iter().chain(&scope.names.captured);
        names.map(|(name, seq)| (name.clone(), *seq)).collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    // ---- frames ----------------------------------------------------------------------------------------

    fn open(
        &mut self,
        prefix: &EcoString,
        list: ListNumber,
        owner: Option<(EcoString, Part, Option<u64>)>,
        scope: EcoString,
        prev: Option<Seq>,
    ) {
        let frame = Frame { list, owner, scope, position: 0, prev, failed: false, nodes: None };
        self.frames.insert(prefix.clone(), frame);
        if self.plan.lists[list as usize].graph.is_some() {
            self.open_graph(prefix);
        } else {
            self.begin(prefix);
        }
    }

    /// Begins the step at the frame's position, or concludes the list.
    fn begin(&mut self, prefix: &EcoString) {
        let Some(frame) = self.frames.get(prefix) else { return };
        let Some(step) = self.plan.lists[frame.list as usize].steps.get(frame.position).copied() else {
            return self.list_done(prefix, true);
        };
        let at = eco_format!("{prefix}{}", frame.position + 1);
        self.begin_step(prefix, &at, step);
    }

    /// Begins a step.
    fn begin_step(&mut self, prefix: &EcoString, at: &EcoString, step: StepNumber) {
        self.insert_live(prefix, at, step, Phase::Deciding);
        if self.plan.steps[step as usize].step.decides() {
            self.commands.extend(self.outstanding_of(at, None));
        } else {
            self.act(at);
        }
    }

    fn insert_live(&mut self, prefix: &EcoString, at: &EcoString, step: StepNumber, phase: Phase) {
        let live = Live {
            step,
            frame: prefix.clone(),
            as_of: self.last,
            phase,
            attempts: 0,
            started: None,
            base: 0,
            output: None,
            before: None,
            well: false,
            failed: false,
            items: None,
            reason: None,
            branch: None,
        };
        self.live.insert(at.clone(), live);
    }

    /// The condition holds: on with it.
    fn act(&mut self, at: &EcoString) {
        let Some(live) = self.live.get_mut(at) else { return };
        let action = &self.plan.steps[live.step as usize].step.action;
        live.phase = if matches!(action, Action::ForEach(_)) { Phase::Expanding } else { Phase::Ready };
        live.as_of = self.last;
        self.commands.extend(self.outstanding_of(at, None));
    }

    fn skipped(&mut self, at: &EcoString, seq: Seq) {
        let Some(live) = self.live.get(at) else { return };
        let step = &self.plan.steps[live.step as usize].step;
        // A skipped step can be read by its id; its capture stays as it was.
        if let (Some(id), Some(scope)) = (&step.id, self.scope_of(at)) {
            let name = id.of.clone();
            self.scopes.entry(scope).or_default().names.outputs.insert(name, seq);
        }
        self.next(at);
    }

    fn finished(&mut self, at: &EcoString, seq: Seq, output: &Output) {
        let scope = self.scope_of(at);
        let Some(live) = self.live.get_mut(at) else { return };
        live.output = Some(seq);
        live.well = output.status == Status::Completed;
        live.failed = !live.well;
        let step = &self.plan.steps[live.step as usize].step;
        if matches!(step.action, Action::Condition(_)) {
            live.branch = branch_of(output);
        }
        let frame = self.frames.get_mut(&live.frame);
        // Nodes run side by side: no one of them is before another.
        let in_graph = frame.as_ref().is_some_and(|frame| frame.nodes.is_some());
        let prev = frame.filter(|_| !in_graph).and_then(|frame| frame.prev.replace(seq));
        if let Some((name, scope)) =
            scope.and_then(|name| self.scopes.get_mut(&name).map(|scope| (name, scope)))
        {
            let keeps = live.failed && !in_graph;
            let names = || graph::names_with(&self.plan, &name, at, &scope.names);
            live.before = keeps.then(|| Before { prev, names: names() }.into());
            if let Some(id) = &step.id {
                scope.names.outputs.insert(id.of.clone(), seq);
            }
            if let Some(capture) = &step.capture {
                scope.names.captured.insert(capture.of.clone(), seq);
            }
        }
        let part = if live.failed { Part::OnFailure } else { Part::OnSuccess };
        self.enter(at, part);
    }

    /// Opens a part of a step, or goes on behind it.
    fn enter(&mut self, at: &EcoString, part: Part) {
        let Some(live) = self.live.get_mut(at) else { return };
        let Some(list) = self.plan.part(live.step, part) else {
            return if part == Part::Finally { self.conclude(at) } else { self.enter(at, Part::Finally) };
        };
        live.phase = Phase::In(part);
        let Some(frame) = self.frames.get(&live.frame) else { return };
        let (output, prev, scope) = (live.output, frame.prev, frame.scope.clone());
        if live.well && live.failed && frame.nodes.is_none() {
            // `on_success` failed: when it goes on, the last list is done again.
            let names = self.scopes.get(&scope);
            let names = names.map(|around| graph::names_with(&self.plan, &scope, at, &around.names));
            live.before = names.map(|names| Before { prev, names }.into());
        }
        let prefix = eco_format!("{at}/{}/", part.key());
        self.open(&prefix, list, Some((at.clone(), part, None)), scope, output);
    }

    /// A list is at its end, well or not.
    fn list_done(&mut self, prefix: &EcoString, well: bool) {
        let Some(frame) = self.frames.get_mut(prefix) else { return };
        frame.failed = !well;
        let (owner, prev) = (frame.owner.clone(), frame.prev);
        match owner {
            None => self.workflow_list_done(prefix),
            Some((at, Part::Do, item)) => self.item_done(&at, item.unwrap_or(0), prefix, prev, well),
            Some((at, part, _)) => {
                if well {
                    self.frames.remove(prefix);
                } else if let Some(live) = self.live.get_mut(&at) {
                    live.failed = true;
                }
                if part == Part::Finally { self.conclude(&at) } else { self.enter(&at, Part::Finally) }
            }
        }
    }

    fn workflow_list_done(&mut self, prefix: &EcoString) {
        match self.plan.finally {
            Some(list) if prefix.is_empty() => {
                let failed = self.frames.get(prefix).is_some_and(|frame| frame.failed);
                self.before = self.scopes.get("").filter(|_| failed).map(|scope| scope.names.clone());
                self.open(&FINALLY.into(), list, None, EcoString::new(), None);
            }
            _ => {
                self.commands.extend(self.end());
            }
        }
    }

    /// The end of the run, when no step of it is under way.
    fn end(&self) -> Option<Command> {
        let over = self.live.values().all(|live| live.phase == Phase::Failed);
        let failed = self.frames.values().any(|frame| frame.owner.is_none() && frame.failed);
        over.then_some(Command::End(if failed { Outcome::Failed } else { Outcome::Completed }))
    }

    /// A step and all its lists are through.
    fn conclude(&mut self, at: &EcoString) {
        let Some(live) = self.live.get_mut(at) else { return };
        let goes_on = self.plan.steps[live.step as usize].step.continue_on_error;
        if live.failed && !goes_on {
            live.phase = Phase::Failed;
            let frame = live.frame.clone();
            match self.in_graph(&frame, at) {
                Some(node) => self.node_over(&frame, node, Over::Failed { goes_on: false }),
                None => self.list_done(&frame, false),
            }
        } else {
            self.next(at);
        }
    }

    /// On to the step behind this one. What was kept to go on after a failure is not needed any more.
    fn next(&mut self, at: &EcoString) {
        let Some(live) = self.live.remove(at) else { return };
        if live.failed {
            self.drop_parts(at);
            self.drop_below(&format!("{at}["));
        }
        if let Some(node) = self.in_graph(&live.frame, at) {
            let over = match live.phase {
                Phase::Skipping { by_failure } => Over::Skipped { by_failure },
                Phase::Deciding => Over::Skipped { by_failure: false },
                _ if live.failed => Over::Failed { goes_on: true },
                _ => Over::Completed(live.branch),
            };
            return self.node_over(&live.frame, node, over);
        }
        if let Some(frame) = self.frames.get_mut(&live.frame) {
            frame.position += 1;
        }
        self.begin(&live.frame);
    }

    // ---- items -----------------------------------------------------------------------------------------

    fn expanded(&mut self, at: &EcoString, seq: Seq, count: u64, parallel: u64) {
        let Some(live) = self.live.get_mut(at) else { return };
        live.phase = Phase::Items;
        let results = vec![None; usize::try_from(count).unwrap_or(0)];
        let (running, failed) = (BTreeSet::new(), BTreeSet::new());
        live.items =
            Some(Items { list: seq, count, parallel: parallel.max(1), next: 0, running, failed, results });
        self.more_items(at);
    }

    /// Begins as many items as may run, or ends the matter.
    fn more_items(&mut self, at: &EcoString) {
        loop {
            let Some(live) = self.live.get_mut(at) else { return };
            let Some(items) = &mut live.items else { return };
            let room = (items.running.len() as u64) < items.parallel;
            if !room || items.next >= items.count || !items.failed.is_empty() {
                break;
            }
            let index = items.next;
            items.next += 1;
            items.running.insert(index);
            let (list, step, frame) = (items.list, live.step, live.frame.clone());
            let Some(parent) = self.frames.get(&frame).map(|frame| frame.scope.clone()) else { return };
            let scope = eco_format!("{at}[{index}]");
            let item = Some(ItemRef { list, index });
            self.scopes.insert(scope.clone(), Scope { parent: Some(parent), item, ..Scope::default() });
            let Some(list) = self.plan.part(step, Part::Do) else { return };
            let now = self.last;
            self.last = items_as_of(self.live.get(at)).unwrap_or(now);
            self.open(&eco_format!("{scope}/"), list, Some((at.clone(), Part::Do, Some(index))), scope, None);
            self.last = now;
        }
        self.items_over(at);
    }

    fn item_done(&mut self, at: &EcoString, index: u64, prefix: &EcoString, prev: Option<Seq>, well: bool) {
        let Some(items) = self.live.get_mut(at).and_then(|live| live.items.as_mut()) else { return };
        items.running.remove(&index);
        if well {
            if let Some(result) = usize::try_from(index).ok().and_then(|at| items.results.get_mut(at)) {
                *result = prev;
            }
            self.frames.remove(prefix);
            self.scopes.remove(prefix.strip_suffix('/').unwrap_or(prefix));
        } else {
            items.failed.insert(index);
        }
        self.more_items(at);
    }

    fn items_over(&mut self, at: &EcoString) {
        let Some(live) = self.live.get_mut(at) else { return };
        let Some(items) = &live.items else { return };
        let over = items.running.is_empty() && (items.next >= items.count || !items.failed.is_empty());
        if over && live.phase == Phase::Items {
            live.phase = Phase::Collecting;
            // It reads what the items left.
            live.as_of = self.last;
            self.commands.extend(self.outstanding_of(at, None));
        }
    }

    fn collect(&self, at: &EcoString) -> Option<Command> {
        let items = self.live.get(at)?.items.as_ref()?;
        let (list, failed) = (items.list, items.failed.len() as u64);
        Some(Command::Collect { task: self.task(at)?, list, items: items.results.clone(), failed })
    }

    // ---- going on after a failure ----------------------------------------------------------------------

    /// A run that failed goes on where it failed.
    fn resume(&mut self) {
        if self.stage != Stage::Ended(Outcome::Failed) {
            return;
        }
        self.stage = Stage::Going;
        if self.frames.get("").is_some_and(|frame| frame.failed) {
            // There will be another end.
            self.drop_below(FINALLY);
            if let (Some(names), Some(scope)) = (self.before.take(), self.scopes.get_mut("")) {
                scope.names = names;
            }
            self.reopen(&EcoString::new());
        } else {
            self.reopen(&FINALLY.into());
        }
        // Whoever resumes asks for all that is outstanding.
        self.commands.clear();
    }

    /// A list that failed goes on with the step that failed.
    fn reopen(&mut self, prefix: &EcoString) {
        let Some(frame) = self.frames.get_mut(prefix) else { return };
        frame.failed = false;
        if frame.nodes.is_some() {
            return self.reopen_graph(prefix);
        }
        let at = eco_format!("{prefix}{}", frame.position + 1);
        self.reopen_step(&at);
    }

    /// A step that failed is done again.
    fn reopen_step(&mut self, at: &EcoString) {
        let Some(live) = self.live.get_mut(at) else { return };
        live.failed = false;
        live.base = live.attempts;
        live.as_of = self.last;
        if live.well {
            return self.reopen_part(at);
        }
        self.drop_parts(at);
        self.restore(at);
        let Some(live) = self.live.get_mut(at) else { return };
        live.output = None;
        match &mut live.items {
            None => {
                live.phase = Phase::Deciding;
                if self.plan.steps[live.step as usize].step.decides() {
                    self.commands.extend(self.outstanding_of(at, None));
                } else {
                    self.act(at);
                }
            }
            Some(items) if items.failed.is_empty() => {
                live.phase = Phase::Collecting;
                self.commands.extend(self.outstanding_of(at, None));
            }
            Some(items) => {
                live.phase = Phase::Items;
                let failed = std::mem::take(&mut items.failed);
                items.running.extend(&failed);
                for index in failed {
                    self.reopen(&eco_format!("{at}[{index}]/"));
                }
                self.more_items(at);
            }
        }
    }

    /// A step that did well goes on with the first of its lists that failed.
    fn reopen_part(&mut self, at: &EcoString) {
        for part in [Part::OnSuccess, Part::Finally] {
            let prefix = eco_format!("{at}/{}/", part.key());
            if !self.frames.get(&prefix).is_some_and(|frame| frame.failed) {
                continue;
            }
            if part == Part::OnSuccess {
                // There will be another end.
                self.drop_below(&format!("{at}/{}/", Part::Finally.key()));
                self.restore(at);
            }
            if let Some(live) = self.live.get_mut(at) {
                live.phase = Phase::In(part);
            }
            return self.reopen(&prefix);
        }
    }

    /// What is done again does not see what it left the first time.
    fn restore(&mut self, at: &EcoString) {
        let scope = self.scope_of(at);
        let Some(live) = self.live.get_mut(at) else { return };
        let Some(before) = live.before.take() else { return };
        if let Some(frame) = self.frames.get_mut(&live.frame) {
            frame.prev = before.prev;
        }
        let Some(name) = scope else { return };
        if let Some(scope) = self.scopes.get_mut(&name) {
            graph::put_back(&self.plan, &name, at, &mut scope.names, before.names);
        }
    }

    fn drop_parts(&mut self, at: &EcoString) {
        self.drop_below(&format!("{at}/"));
    }

    /// Takes away everything whose key begins so.
    fn drop_below(&mut self, prefix: &str) {
        take_below(&mut self.frames, prefix);
        take_below(&mut self.live, prefix);
        take_below(&mut self.scopes, prefix);
    }

    // ---- looking things up -----------------------------------------------------------------------------

    fn task(&self, at: &EcoString) -> Option<Task> {
        let live = self.live.get(at)?;
        Some(Task { at: Instance(at.clone()), step: live.step, as_of: live.as_of })
    }

    fn scope_of(&self, at: &EcoString) -> Option<EcoString> {
        let live = self.live.get(at)?;
        self.frames.get(&live.frame).map(|frame| frame.scope.clone())
    }

    /// The innermost answer, from a scope outwards.
    fn in_scopes<T>(&self, from: &EcoString, ask: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        let mut name = Some(from);
        while let Some(scope) = name.and_then(|name| self.scopes.get(name)) {
            if let Some(answer) = ask(scope) {
                return Some(answer);
            }
            name = scope.parent.as_ref();
        }
        None
    }

    fn all_captured(&self, from: &EcoString, view: &mut View) {
        let mut name = Some(from);
        while let Some(scope) = name.and_then(|name| self.scopes.get(name)) {
            for (captured, seq) in &scope.names.captured {
                if !view.captured.iter().any(|(known, _)| known == captured) {
                    view.captured.push((captured.clone(), *seq));
                }
            }
            name = scope.parent.as_ref();
        }
    }
}

/// The prefix of the steps that run at the end.
const FINALLY: &str = "finally/";

/// Items side by side depend on the event with their list and not on each other. One after the other they begin when
/// the one before is on disk.
fn items_as_of(live: Option<&Live>) -> Option<Seq> {
    let items = live?.items.as_ref()?;
    (items.parallel > 1).then_some(items.list)
}

/// Takes away the entries whose keys begin so, which lie side by side.
fn take_below<T>(map: &mut BTreeMap<EcoString, T>, prefix: &str) {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    let keys: Vec<EcoString> = map
        .range::<str, _>(from)
        .map(|(key, _)| key.clone())
        .take_while(|key| key.starts_with(prefix))
        .collect();
    for key in keys {
        map.remove(&key);
    }
}

/// The branch that a conditional took.
fn branch_of(output: &Output) -> Option<EcoString> {
    match &output.value {
        Datum::Here(value) => value.get("branch")?.as_str().map(EcoString::from),
        Datum::Stored { .. } => None,
    }
}

/// Whether a command begins something, rather than ending it.
fn begins(command: &Command) -> bool {
    !matches!(
        command,
        Command::Collect { .. } | Command::End(_) | Command::FailAfterCrash(_) | Command::Skip { .. }
    )
}
