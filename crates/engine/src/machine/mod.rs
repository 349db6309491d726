//! The machine of step lists and graphs: it takes events and says what to do next.
//!
//! It is total and deterministic: the same events give the same state and the same commands, whoever applies them.
//! It holds no values, only the numbers of the events that made them. It never asks for the time.
//!
//! A *frame* is a list of steps being executed: the workflow's own, one for each item of a `foreach`, one for each
//! `on_failure`, `on_success` and `finally`. A *live step* is a step that has begun and is not concluded, or one that
//! failed and made its list fail. A *scope* is where names go: the run has one, and each item.

mod graph;
mod items;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::{Action, OnCrash};
use threadline_flow::plan::{ListNumber, Part, Plan, Read, StepNumber};

use crate::event::{Address, Datum, Event, EventKind, LoopEnd, Millis, Output, Rules, Seq, Status};
use crate::view::{ItemRef, ItemView, Limit, MapView, Said, View};
use graph::{Nodes, Over};
pub use items::ItemEnding;
use items::{Item, Items, let_fail};
use walk::Walk;

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
    /// Record that an item failed and begins again, or that it is over.
    EndItem {
        /// The item.
        task: Task,
        /// What is known of it.
        ending: ItemEnding,
    },
    /// Record that an item begins again.
    BeginItem {
        /// The item.
        task: Task,
        /// Which attempt, from 2.
        attempt: u32,
    },
    /// Put the results of the items together.
    Collect {
        /// Which.
        task: Task,
        /// The event with the list: the items began with it.
        list: Seq,
        /// How they ended.
        counts: Counts,
        /// What held for them.
        rules: Rules,
    },
    /// Put together what a phase leaves.
    Close {
        /// Which.
        task: Task,
        /// What its last step left.
        last: Option<Seq>,
        /// What it captured.
        captured: Vec<(EcoString, Seq)>,
    },
    /// It was running when Threadline was killed, and counts as failed.
    FailAfterCrash(Task),
    /// It was running when Threadline was killed, and somebody has to say what to do.
    Ask(Task),
    /// Find out what holds for a loop.
    Bound,
    /// Judge a state, and find where it leads.
    Judge(Task),
    /// Record that the run is over.
    End {
        /// How.
        outcome: Outcome,
        /// Where a loop ended, and why.
        ended: Option<LoopEnd>,
    },
}

impl Command {
    /// Whether it begins something, rather than ending it: not when nothing new is to begin.
    pub fn begins(&self) -> bool {
        !matches!(
            self,
            Self::Collect { .. }
                | Self::EndItem { .. }
                | Self::Close { .. }
                | Self::Judge(_)
                | Self::End { .. }
                | Self::FailAfterCrash(_)
                | Self::Skip { .. }
        )
    }

    /// The step it is about.
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Decide(task)
            | Self::Expand(task)
            | Self::Skip { task, .. }
            | Self::Start { task, .. }
            | Self::Wait { task, .. }
            | Self::EndItem { task, .. }
            | Self::BeginItem { task, .. }
            | Self::Collect { task, .. }
            | Self::Close { task, .. }
            | Self::FailAfterCrash(task)
            | Self::Judge(task)
            | Self::Ask(task) => Some(task),
            Self::Bound | Self::End { .. } => None,
        }
    }
}

/// How the items of a list ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All there are.
    pub total: u64,
    /// Those that did well.
    pub successful: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those of which no step was executed.
    pub skipped: u64,
}

impl Counts {
    /// Those that did not begin.
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.successful + self.failed + self.skipped)
    }
}

/// A step to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Which execution.
    pub at: Address,
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
    /// A loop reached a limit: it can go on.
    Stopped,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Stopped];

    /// As it stands in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
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
pub struct InvalidEvent {
    /// The event.
    pub seq: Seq,
    /// Why it does not fit, in words.
    pub why: String,
}

/// Why an event does not fit: what the state should hold and does not.
struct Mismatch {
    why: String,
}

impl Mismatch {
    fn new(why: String) -> Self {
        Self { why }
    }
}

/// What came of applying an event, or a part of that.
type Applied<T = ()> = Result<T, Mismatch>;

/// What the state keeps by address. Looking for one that is not there is an error: in a sound journal it is.
trait Kept {
    /// What it is, for the message.
    const NOUN: &'static str;
}

impl Kept for Frame {
    const NOUN: &'static str = "list of steps";
}

impl Kept for Live {
    const NOUN: &'static str = "step under way";
}

impl Kept for Scope {
    const NOUN: &'static str = "scope of names";
}

impl Kept for Item {
    const NOUN: &'static str = "item under way";
}

fn absent<T: Kept>(at: &Address) -> Mismatch {
    let at = if at.is_root() { "the run".to_owned() } else { format!("`{at}`") };
    Mismatch::new(format!("it needs a {} at {at}, and there is none", T::NOUN))
}

fn find<'m, T: Kept>(map: &'m BTreeMap<Address, T>, at: &Address) -> Applied<&'m T> {
    map.get(at).ok_or_else(|| absent::<T>(at))
}

fn find_mut<'m, T: Kept>(map: &'m mut BTreeMap<Address, T>, at: &Address) -> Applied<&'m mut T> {
    map.get_mut(at).ok_or_else(|| absent::<T>(at))
}

fn remove<T: Kept>(map: &mut BTreeMap<Address, T>, at: &Address) -> Applied<T> {
    map.remove(at).ok_or_else(|| absent::<T>(at))
}

/// The state of a run.
pub struct Machine {
    plan: Arc<Plan>,
    stage: Stage,
    /// Set while nothing new is to begin.
    stopping: bool,
    frames: BTreeMap<Address, Frame>,
    live: BTreeMap<Address, Live>,
    scopes: BTreeMap<Address, Scope>,
    items: BTreeMap<Address, Item>,
    /// Lists of the workflow whose items were let fail: what it takes to do these again.
    rewinds: BTreeMap<usize, Rewind>,
    /// The steps of `context` that were evaluated, by name.
    defined: BTreeMap<EcoString, Seq>,
    /// The names of the run before its last list, when that is done again after a failure.
    before: Option<Names>,
    last: Seq,
    /// When the last event happened.
    time: Millis,
    commands: Vec<Command>,
}

/// A list whose items were let fail, with what was visible before it was over.
struct Rewind {
    at: Address,
    live: Live,
}

/// A list being executed. Its key is the address of the list.
struct Frame {
    list: ListNumber,
    /// The step it is a part of, and of which item.
    owner: Option<(Address, Part, Option<u64>)>,
    scope: Address,
    position: usize,
    /// The last executed step of this list.
    prev: Option<Seq>,
    failed: bool,
    /// Where its nodes are, when it is a graph.
    nodes: Option<Nodes>,
    /// How far it is, when it is a loop.
    walk: Option<Box<Walk>>,
}

impl Frame {
    fn walk_mut(&mut self) -> Applied<&mut Walk> {
        self.walk.as_deref_mut().ok_or_else(|| Mismatch::new("no loop has begun".to_owned()))
    }

    fn nodes(&self) -> Applied<&Nodes> {
        self.nodes.as_ref().ok_or_else(|| Mismatch::new("the list is no graph".to_owned()))
    }

    fn nodes_mut(&mut self) -> Applied<&mut Nodes> {
        self.nodes.as_mut().ok_or_else(|| Mismatch::new("the list is no graph".to_owned()))
    }
}

/// A step that has begun.
struct Live {
    step: StepNumber,
    frame: Address,
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
    /// When its work began.
    began: Millis,
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
    fn task(&self, at: &Address) -> Task {
        Task { at: at.clone(), step: self.step, as_of: self.as_of }
    }

    /// The next attempt.
    fn start(&self, at: &Address) -> Command {
        let attempt = self.attempts.saturating_add(1);
        Command::Start { task: self.task(at), attempt, base: self.base, rerun: false }
    }

    /// Whether an attempt of this number may begin: the next one, or again the one that was running at a crash.
    fn may_start(&self, attempt: u32, rerun: bool) -> bool {
        match self.phase {
            Phase::Ready | Phase::Waiting(_) => !rerun && attempt == self.attempts.saturating_add(1),
            Phase::Running => rerun && attempt == self.attempts,
            _ => false,
        }
    }

    fn items(&self) -> Applied<&Items> {
        self.items.as_ref().ok_or_else(|| Mismatch::new("the items of the step are not known".to_owned()))
    }

    fn items_mut(&mut self) -> Applied<&mut Items> {
        self.items.as_mut().ok_or_else(|| Mismatch::new("the items of the step are not known".to_owned()))
    }

    fn may_skip(&self) -> bool {
        matches!(self.phase, Phase::Deciding | Phase::Skipping { .. })
    }

    /// Whether a field of the step may be found without a value.
    fn may_fail_unbegun(&self) -> bool {
        matches!(
            self.phase,
            Phase::Deciding
                | Phase::Expanding
                | Phase::Ready
                | Phase::Running
                | Phase::Waiting(_)
                | Phase::Closing
        )
    }

    /// Whether the step may be done: also before it began, when a field of it has no value.
    fn may_finish(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Skipping { .. } | Phase::Items | Phase::In(_) | Phase::Judging | Phase::Failed
        )
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
    /// The steps of a phase are through.
    Closing,
    /// What a state does is done.
    Judging,
    In(Part),
    /// It failed, and its list with it.
    Failed,
}

/// Names that are set, and by which events.
#[derive(Default)]
struct Scope {
    parent: Option<Address>,
    item: Option<ItemRef>,
    names: Names,
}

/// Names by what they were set with.
#[derive(Default, Clone)]
struct Names {
    outputs: BTreeMap<EcoString, Seq>,
    captured: BTreeMap<EcoString, Seq>,
    /// In a loop: what was captured by the same names before.
    earlier: BTreeMap<EcoString, Seq>,
    /// In a loop: the verdicts on what events made.
    verdicts: BTreeMap<Seq, Said>,
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
            items: BTreeMap::new(),
            rewinds: BTreeMap::new(),
            defined: BTreeMap::new(),
            before: None,
            last: 0,
            time: 0,
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

    /// How many things it keeps: lists, steps and scopes, and of a loop its ways. What is done with is not among them.
    pub fn kept(&self) -> usize {
        self.frames.len() + self.live.len() + self.scopes.len() + self.items.len() + self.kept_of_walk()
    }

    /// From now on nothing new begins.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Takes an event, and says what to do next.
    ///
    /// After an error the machine is of no use: the event may have been applied in part.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Command>, InvalidEvent> {
        self.take(event).map_err(|Mismatch { why }| InvalidEvent { seq: event.seq, why })?;
        let commands = std::mem::take(&mut self.commands);
        Ok(if self.stopping {
            commands.into_iter().filter(|command| !command.begins()).collect()
        } else {
            commands
        })
    }

    fn take(&mut self, event: &Event) -> Applied {
        let misfit = |why: &str| Mismatch::new(why.to_owned());
        if event.seq != self.last + 1 {
            return Err(misfit("it does not follow the event before it"));
        }
        if matches!(self.stage, Stage::New) != matches!(event.kind, EventKind::RunStarted(_)) {
            return Err(misfit("a run begins once"));
        }
        if matches!(self.stage, Stage::Ended(_)) && !matches!(event.kind, EventKind::Resumed { .. }) {
            return Err(misfit("the run is over"));
        }
        self.last = event.seq;
        let before = std::mem::replace(&mut self.time, event.time);
        match &event.kind {
            EventKind::RunStarted(_) => {
                self.stage = Stage::Going;
                self.scopes.insert(Address::root(), Scope::default());
                if self.plan.states.is_some() {
                    self.commands.push(Command::Bound);
                } else {
                    self.open(&Address::root(), STEPS, None, Address::root(), None)?;
                }
            }
            EventKind::Bounded { bounds, .. } => {
                if self.plan.states.is_none() || self.frames.contains_key(&Address::root()) {
                    return Err(misfit("no loop begins here"));
                }
                self.begin_walk(*bounds)?;
            }
            EventKind::Resumed { failed } => self.resume(*failed, before)?,
            EventKind::ItemRetrying { until, .. } => self.item_retrying(&event.at, *until)?,
            EventKind::ItemBegun { attempt } => self.item_begun(&event.at, *attempt)?,
            EventKind::ItemEnded(ended) => self.item_ended(&event.at, ended)?,
            EventKind::Paused { .. } => {}
            EventKind::RunEnded { outcome, .. } => {
                // A run of which all steps did well fails when what it exports has no value, and a loop of which the
                // limits have none.
                match self.end() {
                    Some(Command::Bound) if *outcome == Outcome::Failed => {}
                    Some(Command::End { outcome: end, .. })
                        if end == *outcome || *outcome == Outcome::Failed => {}
                    _ => return Err(misfit("the run is not at this end")),
                }
                self.stage = Stage::Ended(*outcome);
            }
            EventKind::Defined { name, .. } => {
                self.defined.insert(name.clone(), event.seq);
            }
            what => {
                let live = self.live.get_mut(&event.at).ok_or_else(|| misfit("the step is not under way"))?;
                match what {
                    EventKind::Decided { .. } if live.phase == Phase::Deciding => self.act(&event.at)?,
                    EventKind::Skipped { .. } if live.may_skip() => self.skipped(&event.at, event.seq)?,
                    EventKind::Expanded { count, parallel, rules, .. } if live.phase == Phase::Expanding => {
                        self.expanded(&event.at, event.seq, *count, *parallel, *rules)?;
                    }
                    EventKind::Started { attempt, rerun, .. } if live.may_start(*attempt, *rerun) => {
                        live.phase = Phase::Running;
                        live.attempts = *attempt;
                        live.started = Some(event.seq);
                    }
                    EventKind::Retrying { until, .. } if live.phase == Phase::Running => {
                        live.phase = Phase::Waiting(Pause { since: event.time, until: *until });
                        // The next attempt must not begin before this is on disk; it sees the same names.
                        live.as_of = event.seq;
                        self.command(&event.at)?;
                    }
                    EventKind::Finished { output, .. } if live.may_finish() => {
                        self.finished(&event.at, event.seq, output)?;
                    }
                    EventKind::Unresolved { output, .. } if live.may_fail_unbegun() => {
                        self.finished(&event.at, event.seq, output)?;
                    }
                    EventKind::Judged(judged) if live.phase == Phase::Judging => {
                        self.judged(&event.at, judged)?;
                    }
                    _ => return Err(misfit("the step is somewhere else")),
                }
            }
        }
        Ok(())
    }

    /// The pause before an attempt is over: what begins. The state does not change until the attempt has begun.
    ///
    /// Nothing begins when nothing waits there any more, or when the run stops.
    pub fn waited(&self, at: &Address) -> Option<Command> {
        if self.stopping {
            return None;
        }
        match self.live.get(at) {
            Some(live) => matches!(live.phase, Phase::Waiting(_)).then(|| live.start(at)),
            None => self.waited_item(at),
        }
    }

    /// What is wrong with the events up to now.
    fn invalid(&self, mismatch: Mismatch) -> InvalidEvent {
        InvalidEvent { seq: self.last, why: mismatch.why }
    }

    /// Everything that is to be done in this state: what a run that was stopped or killed goes on with. What was
    /// running then follows its `on_crash`, unless the caller decides.
    pub fn outstanding(&self, in_flight: Option<OnCrash>) -> Result<Vec<Command>, InvalidEvent> {
        let steps = self.live.keys().map(|at| self.outstanding_of(at, in_flight));
        let items = self.items.keys().map(|key| self.outstanding_item(key));
        let end = self.end().filter(|_| self.stage == Stage::Going);
        let commands = steps.chain(items).filter_map(Applied::transpose).chain(end.map(Ok));
        commands.collect::<Applied<_>>().map_err(|mismatch| self.invalid(mismatch))
    }

    fn outstanding_of(&self, at: &Address, in_flight: Option<OnCrash>) -> Applied<Option<Command>> {
        let live = find(&self.live, at)?;
        let task = live.task(at);
        Ok(Some(match live.phase {
            Phase::Skipping { .. } => Command::Skip { task, reason: live.reason.clone().unwrap_or_default() },
            Phase::Deciding => Command::Decide(task),
            Phase::Expanding => Command::Expand(task),
            Phase::Ready => live.start(at),
            Phase::Running => match self.on_crash(live.step, in_flight) {
                OnCrash::Rerun => {
                    Command::Start { task, attempt: live.attempts, base: live.base, rerun: true }
                }
                OnCrash::Fail => Command::FailAfterCrash(task),
                OnCrash::Ask => Command::Ask(task),
            },
            Phase::Waiting(pause) => Command::Wait { task, pause },
            Phase::Collecting => self.collect(at)?,
            Phase::Closing => self.close(at)?,
            Phase::Judging => Command::Judge(task),
            Phase::Items | Phase::In(_) | Phase::Failed => return Ok(None),
        }))
    }

    /// What becomes of a step that was under way. A call goes on inside, where it is asked for each step.
    fn on_crash(&self, step: StepNumber, in_flight: Option<OnCrash>) -> OnCrash {
        let step = &self.plan.steps[step as usize].step;
        match step.action {
            Action::Workflow(_) => OnCrash::Rerun,
            _ => in_flight.unwrap_or(step.on_crash),
        }
    }

    /// What is to be done next with one execution.
    pub fn next_of(&self, at: &Address) -> Option<Command> {
        self.waited(at).or_else(|| self.outstanding_of(at, None).ok().flatten())
    }

    /// What a step sees: for each name it reads, the event that made it.
    pub fn view(&self, at: &Address) -> View {
        let Some(live) = self.live.get(at) else { return View::default() };
        let Some(frame) = self.frames.get(&live.frame) else { return View::default() };
        let reads = &self.plan.steps[live.step as usize].reads;
        let (as_of, attempts, started) = (live.as_of, live.attempts, live.started);
        let limit = self.limit(&live.frame);
        // At its end a phase reads what its own steps left.
        let (scope, prev) = match (live.phase, self.frames.get(at)) {
            (Phase::Closing, inner) => (at, inner.and_then(|frame| frame.prev)),
            // What judges a state reads the same names as what it did, and what that left.
            // One that does nothing has left nothing, and the last that did is before it.
            (Phase::Judging, _) if live.output.is_none() => (&frame.scope, frame.prev),
            (Phase::Judging, _) => (&frame.scope, live.before.as_ref().and_then(|before| before.prev)),
            _ => (&frame.scope, frame.prev),
        };
        let judging = live.phase == Phase::Judging;
        let result = live.output.filter(|_| judging);
        let state = reads.contains(&Read::State).then(|| self.state_view(at)).flatten();
        let names = self.names_of(reads, scope, prev);
        let view = View { as_of, attempts, started, limit, is_judged: judging, result, state, ..names };
        let acting = if judging { self.acting(live, &view) } else { None };
        View { acting: acting.map(Box::new), ..view }
    }

    /// The time by which the steps of a list have to be through: that of the item or phase around them that is over
    /// first.
    fn limit(&self, frame: &Address) -> Option<Limit> {
        let mut first: Option<Limit> = self.walk_limit();
        let mut next = self.frames.get(frame)?.owner.as_ref();
        while let Some((at, part, item)) = next {
            let live = self.live.get(at)?;
            let limit = match (part, item) {
                (Part::Do, Some(index)) => {
                    let allowed = live.items.as_ref().and_then(|items| items.rules.timeout);
                    let item = self.items.get(&at.item(*index));
                    allowed.zip(item).map(|(allowed, item)| Limit {
                        since: item.began,
                        allowed,
                        scope: "item",
                    })
                }
                (Part::Do, None) => match &self.plan.steps[live.step as usize].step.action {
                    Action::Phase(phase) => phase.timeout.map(|allowed| Limit {
                        since: live.began,
                        allowed,
                        scope: phase.kind.key(),
                    }),
                    _ => None,
                },
                _ => None,
            };
            first = match (first, limit) {
                (Some(known), Some(other)) => Some(if other.until() < known.until() { other } else { known }),
                (known, other) => known.or(other),
            };
            next = self.frames.get(&live.frame)?.owner.as_ref();
        }
        first
    }

    /// The names that a command may read.
    pub fn view_of(&self, command: &Command) -> View {
        match command {
            Command::End { .. } => self.end_view(),
            Command::Bound => View { as_of: self.last, ..View::default() },
            _ => command.task().map(|task| self.view(&task.at)).unwrap_or_default(),
        }
    }

    /// What `exports` see at the end of the run.
    fn end_view(&self) -> View {
        let reads = &self.plan.export_reads;
        let state = reads.contains(&Read::State).then(|| self.last_state()).flatten();
        View { as_of: self.last, state, ..self.names_of(reads, &Address::root(), None) }
    }

    fn names_of(&self, reads: &[Read], scope: &Address, prev: Option<Seq>) -> View {
        let mut view = View::default();
        self.earlier_names(reads, scope, &mut view);
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
                Read::State => {}
                Read::Item => view.item = self.item_view(scope),
                Read::Phase(name) => {
                    let found = self
                        .scopes
                        .get(&Address::root())
                        .and_then(|scope| scope.names.outputs.get(name).copied());
                    view.phases.extend(found.map(|seq| (name.clone(), seq)));
                }
                Read::Map => {
                    let over = self
                        .scopes
                        .get(&Address::root())
                        .and_then(|scope| scope.names.outputs.get("map").copied());
                    let running = || {
                        let items = self.live.get("map")?.items.as_ref()?;
                        Some(MapView::Running { total: items.count })
                    };
                    view.map = over.map(MapView::Over).or_else(running);
                }
            }
        }
        view
    }

    /// The item that a scope belongs to.
    fn item_view(&self, scope: &Address) -> Option<ItemView> {
        let mut name = Some(scope);
        while let Some((key, scope)) = name.and_then(|name| Some((name, self.scopes.get(name)?))) {
            if let Some(of) = scope.item {
                let item = self.items.get(key)?;
                let (attempt, runner) = (item.attempt, item.runner);
                let error = item.error.filter(|_| attempt > 1);
                let has_agent = self.plan.is_map_reduce();
                return Some(ItemView { item: of, attempt, runner, has_agent, error });
            }
            name = scope.parent.as_ref();
        }
        None
    }

    /// The event that evaluated an entry of `context`.
    pub fn defined(&self) -> &BTreeMap<EcoString, Seq> {
        &self.defined
    }

    /// The step of an execution that is under way.
    pub fn step_of(&self, at: &Address) -> Option<StepNumber> {
        self.live.get(at).map(|live| live.step)
    }

    /// The names of the run, and what set each last: ids and captures. Those of items are gone with them.
    pub fn names(&self) -> Vec<(EcoString, Seq)> {
        let Some(scope) = self.scopes.get(&Address::root()) else { return Vec::new() };
        let names = scope.names.outputs.iter().chain(&scope.names.captured);
        names.map(|(name, seq)| (name.clone(), *seq)).collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    // ---- frames ----------------------------------------------------------------------------------------

    fn open(
        &mut self,
        frame_at: &Address,
        list: ListNumber,
        owner: Option<(Address, Part, Option<u64>)>,
        scope: Address,
        prev: Option<Seq>,
    ) -> Applied {
        let frame = Frame { list, owner, scope, position: 0, prev, failed: false, nodes: None, walk: None };
        self.frames.insert(frame_at.clone(), frame);
        if self.plan.lists[list as usize].graph.is_some() {
            self.open_graph(frame_at)
        } else {
            self.begin(frame_at)
        }
    }

    /// Begins the step at the frame's position, or concludes the list.
    fn begin(&mut self, frame_at: &Address) -> Applied {
        let frame = find(&self.frames, frame_at)?;
        let Some(step) = self.plan.lists[frame.list as usize].steps.get(frame.position).copied() else {
            return self.list_done(frame_at, true);
        };
        let at = frame_at.child(&self.plan.lists[frame.list as usize], frame.position);
        self.begin_step(frame_at, &at, step)
    }

    /// Begins a step.
    fn begin_step(&mut self, frame_at: &Address, at: &Address, step: StepNumber) -> Applied {
        self.insert_live(frame_at, at, step, Phase::Deciding);
        if self.plan.steps[step as usize].step.decides() { self.command(at) } else { self.act(at) }
    }

    fn insert_live(&mut self, frame_at: &Address, at: &Address, step: StepNumber, phase: Phase) {
        let live = Live {
            step,
            frame: frame_at.clone(),
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
            began: self.time,
            reason: None,
            branch: None,
        };
        self.live.insert(at.clone(), live);
    }

    /// The condition holds: on with it.
    fn act(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        live.as_of = self.last;
        live.began = self.time;
        live.phase = match &self.plan.steps[live.step as usize].step.action {
            Action::ForEach(_) => Phase::Expanding,
            Action::Phase(_) => return self.open_phase(at),
            Action::Nothing => Phase::Judging,
            _ => Phase::Ready,
        };
        self.command(at)
    }

    // ---- phases ----------------------------------------------------------------------------------------

    /// Opens the steps of a phase, in a scope of their own.
    fn open_phase(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        let parent = find(&self.frames, &live.frame)?.scope.clone();
        self.scopes.insert(at.clone(), Scope { parent: Some(parent), ..Scope::default() });
        match self.plan.part(live.step, Part::Do) {
            Some(list) => {
                live.phase = Phase::In(Part::Do);
                let owner = Some((at.clone(), Part::Do, None));
                self.open(at, list, owner, at.clone(), None)
            }
            None => self.close_phase(at),
        }
    }

    /// The steps of a phase are through.
    fn phase_steps_done(&mut self, at: &Address, well: bool) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        if well {
            return self.close_phase(at);
        }
        live.failed = true;
        self.conclude(at)
    }

    fn close_phase(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        live.phase = Phase::Closing;
        live.as_of = self.last;
        self.command(at)
    }

    fn close(&self, at: &Address) -> Applied<Command> {
        let last = self.frames.get(at).and_then(|frame| frame.prev);
        let captured = &find(&self.scopes, at)?.names.captured;
        let captured = captured.iter().map(|(name, seq)| (name.clone(), *seq)).collect();
        Ok(Command::Close { task: find(&self.live, at)?.task(at), last, captured })
    }

    /// A phase is over: of its names those that it exports stay.
    fn leave_phase(&mut self, at: &Address, exports: &[threadline_flow::model::Field<EcoString>]) -> Applied {
        self.frames.remove(at);
        let inner = remove(&mut self.scopes, at)?;
        let outer = find_mut(&mut self.scopes, inner.parent.as_ref().unwrap_or(&Address::root()))?;
        for name in exports.iter().map(|name| &name.value) {
            outer.names.outputs.extend(inner.names.outputs.get(name).map(|seq| (name.clone(), *seq)));
            outer.names.captured.extend(inner.names.captured.get(name).map(|seq| (name.clone(), *seq)));
        }
        Ok(())
    }

    // ---- steps -----------------------------------------------------------------------------------------

    fn skipped(&mut self, at: &Address, seq: Seq) -> Applied {
        let live = find(&self.live, at)?;
        let step = &self.plan.steps[live.step as usize].step;
        // A skipped step can be read by its id; its capture stays as it was.
        if let Some(id) = &step.id {
            let (name, scope) = (id.value.clone(), self.scope_of(at)?);
            find_mut(&mut self.scopes, &scope)?.names.outputs.insert(name, seq);
        }
        self.next(at)
    }

    fn finished(&mut self, at: &Address, seq: Seq, output: &Output) -> Applied {
        let name = self.scope_of(at)?;
        let plan = Arc::clone(&self.plan);
        let live = find_mut(&mut self.live, at)?;
        live.output = Some(seq);
        live.well = output.status == Status::Completed;
        live.failed = !live.well;
        let step = &plan.steps[live.step as usize].step;
        if matches!(step.action, Action::Condition(_)) {
            live.branch = branch_of(output);
        }
        let frame = find_mut(&mut self.frames, &live.frame)?;
        // Nodes run side by side: no one of them is before another.
        let in_graph = frame.nodes.is_some();
        let prev = if in_graph { None } else { frame.prev.replace(seq) };
        let scope = find_mut(&mut self.scopes, &name)?;
        if (live.failed || let_fail(live) || step.state.is_some()) && !in_graph {
            let names = graph::names_with(&self.plan, &name, at, &scope.names);
            live.before = Some(Before { prev, names }.into());
        } else {
            live.before = None;
        }
        if let Some(id) = &step.id {
            scope.names.outputs.insert(id.value.clone(), seq);
        }
        if let Some(capture) = &step.capture {
            let earlier = scope.names.captured.insert(capture.value.clone(), seq);
            if let Some(earlier) = earlier.filter(|_| step.state.is_some()) {
                scope.names.keep_earlier(&capture.value, earlier);
            }
        }
        if step.state.is_some() {
            return self.judge(at);
        }
        let part = if live.failed { Part::OnFailure } else { Part::OnSuccess };
        if let (Action::Phase(phase), true) = (&step.action, live.well) {
            self.leave_phase(at, &phase.exports)?;
        }
        self.enter(at, part)
    }

    /// Opens a part of a step, or goes on behind it.
    fn enter(&mut self, at: &Address, part: Part) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        let Some(list) = self.plan.part(live.step, part) else {
            return if part == Part::Finally { self.conclude(at) } else { self.enter(at, Part::Finally) };
        };
        live.phase = Phase::In(part);
        let frame = find(&self.frames, &live.frame)?;
        let (output, prev, scope) = (live.output, frame.prev, frame.scope.clone());
        if live.well && live.failed && frame.nodes.is_none() {
            // `on_success` failed: when it goes on, the last list is done again.
            let names = &find(&self.scopes, &scope)?.names;
            let names = graph::names_with(&self.plan, &scope, at, names);
            live.before = Some(Before { prev, names }.into());
        }
        let frame_at = at.part(part);
        self.open(&frame_at, list, Some((at.clone(), part, None)), scope, output)
    }

    /// A list is at its end, well or not.
    fn list_done(&mut self, frame_at: &Address, well: bool) -> Applied {
        let frame = find_mut(&mut self.frames, frame_at)?;
        frame.failed = !well;
        let (owner, prev) = (frame.owner.clone(), frame.prev);
        match owner {
            None => self.workflow_list_done(frame_at),
            Some((at, Part::Do, Some(index))) => self.item_steps_done(&at, index, prev, well),
            Some((at, Part::Do, None)) => self.phase_steps_done(&at, well),
            Some((at, part, _)) => {
                if well {
                    self.frames.remove(frame_at);
                } else {
                    find_mut(&mut self.live, &at)?.failed = true;
                }
                if part == Part::Finally { self.conclude(&at) } else { self.enter(&at, Part::Finally) }
            }
        }
    }

    fn workflow_list_done(&mut self, frame_at: &Address) -> Applied {
        match self.plan.finally {
            Some(list) if frame_at.is_root() => {
                let failed = find(&self.frames, frame_at)?.failed;
                let names = &find(&self.scopes, &Address::root())?.names;
                self.before = failed.then(|| names.clone());
                self.open(&Address::finally(), list, None, Address::root(), None)
            }
            _ => {
                self.commands.extend(self.end());
                Ok(())
            }
        }
    }

    /// The end of the run, when no step of it is under way.
    fn end(&self) -> Option<Command> {
        let over = self.live.values().all(|live| live.phase == Phase::Failed);
        let failed = self.frames.values().any(|frame| frame.owner.is_none() && frame.failed);
        let walk = self.frames.get(&Address::root()).and_then(|frame| frame.walk.as_ref());
        if self.plan.states.is_some() && walk.is_none() {
            return Some(Command::Bound);
        }
        let ended = walk.and_then(|walk| walk.ended.clone());
        let stopped = walk.is_some_and(|walk| walk.is_stopped());
        let well = if failed { Outcome::Failed } else { Outcome::Completed };
        let in_finally = self.frames.get(&Address::finally()).is_some_and(|frame| frame.failed);
        let outcome = if stopped && !in_finally { Outcome::Stopped } else { well };
        over.then_some(Command::End { outcome, ended })
    }

    /// A step and all its lists are through.
    fn conclude(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        let goes_on = self.plan.steps[live.step as usize].step.continue_on_error;
        if live.failed && !goes_on {
            live.phase = Phase::Failed;
            let frame = live.frame.clone();
            match self.in_graph(&frame, at) {
                Some(node) => self.node_over(&frame, node, Over::Failed { goes_on: false }),
                None => self.list_done(&frame, false),
            }
        } else {
            self.next(at)
        }
    }

    /// On to the step behind this one. What was kept to go on after a failure is not needed any more.
    fn next(&mut self, at: &Address) -> Applied {
        let live = remove(&mut self.live, at)?;
        if live.failed {
            self.drop_lists(at);
        }
        if let Some(node) = self.in_graph(&live.frame, at) {
            self.drop_items(at);
            let over = match live.phase {
                Phase::Skipping { by_failure } => Over::Skipped { by_failure },
                Phase::Deciding => Over::Skipped { by_failure: false },
                _ if live.failed => Over::Failed { goes_on: true },
                _ => Over::Completed(live.branch),
            };
            return self.node_over(&live.frame, node, over);
        }
        let frame = find_mut(&mut self.frames, &live.frame)?;
        let (list, position) = (live.frame.clone(), frame.position);
        frame.position += 1;
        if list.is_root() && let_fail(&live) {
            self.rewinds.insert(position, Rewind { at: at.clone(), live });
        } else {
            self.drop_items(at);
        }
        self.begin(&list)
    }

    // ---- going on after a failure ----------------------------------------------------------------------

    /// A run that failed goes on where it failed; or with the items that were let fail.
    fn resume(&mut self, failed: bool, before: Millis) -> Applied {
        self.time_begins_anew(before);
        let ended = matches!(self.stage, Stage::Ended(_));
        let rewind = if ended && failed { self.rewinds.pop_first() } else { None };
        if let Some((position, rewind)) = rewind {
            self.rewinds.clear();
            self.stage = Stage::Going;
            self.rewind(position, rewind)?;
            self.commands.clear();
            return Ok(());
        }
        if !matches!(self.stage, Stage::Ended(Outcome::Failed | Outcome::Stopped)) {
            return Ok(());
        }
        self.stage = Stage::Going;
        let failed = |list: &Address| self.frames.get(list).is_some_and(|frame| frame.failed);
        // What ends a loop is not done again.
        if failed(&Address::root()) && self.ended_badly().is_none() {
            // There will be another end.
            self.drop_lists(&Address::finally());
            if let Some(names) = self.before.take() {
                find_mut(&mut self.scopes, &Address::root())?.names = names;
            }
            self.reopen(&Address::root())?;
        } else if failed(&Address::finally()) {
            self.reopen(&Address::finally())?;
        }
        // Whoever resumes asks for all that is outstanding.
        self.commands.clear();
        Ok(())
    }

    /// Back to a list whose items were let fail: they are done again, and everything that came after it.
    fn rewind(&mut self, position: usize, rewind: Rewind) -> Applied {
        let Rewind { at, live } = rewind;
        let kept = |key: &Address| key.is_in_items_of(&at);
        self.live.retain(|key, _| kept(key));
        self.frames.retain(|key, _| key.is_root() || kept(key));
        self.scopes.retain(|key, _| key.is_root() || kept(key));
        self.items.retain(|key, _| kept(key));
        let frame = find_mut(&mut self.frames, &Address::root())?;
        (frame.position, frame.failed) = (position, false);
        self.before = None;
        let live = Live { phase: Phase::Items, output: None, as_of: self.last, ..live };
        self.live.insert(at.clone(), live);
        self.restore(&at)?;
        self.reopen_items(&at)
    }

    /// Whether items were let fail that can be done again.
    pub fn let_items_fail(&self) -> bool {
        !self.rewinds.is_empty()
    }

    /// A list that failed goes on with the step that failed.
    fn reopen(&mut self, frame_at: &Address) -> Applied {
        let frame = find_mut(&mut self.frames, frame_at)?;
        frame.failed = false;
        if frame.nodes.is_some() {
            return self.reopen_graph(frame_at);
        }
        if frame.walk.is_some() {
            return self.reopen_walk();
        }
        let at = frame_at.child(&self.plan.lists[frame.list as usize], frame.position);
        self.reopen_step(&at)
    }

    /// A step that failed is done again.
    fn reopen_step(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        live.failed = false;
        live.base = live.attempts;
        live.as_of = self.last;
        live.began = self.time;
        if live.well {
            return self.reopen_part(at);
        }
        if matches!(self.plan.steps[live.step as usize].step.action, Action::Phase(_)) {
            if self.frames.get(at).is_some_and(|frame| frame.failed) {
                live.phase = Phase::In(Part::Do);
                return self.reopen(at);
            }
            return self.close_phase(at);
        }
        self.drop_lists(at);
        self.restore(at)?;
        let live = find_mut(&mut self.live, at)?;
        live.output = None;
        match &mut live.items {
            None => {
                live.phase = Phase::Deciding;
                if self.plan.steps[live.step as usize].step.decides() {
                    self.command(at)
                } else {
                    self.act(at)
                }
            }
            Some(items) if !items.has_failed() => {
                live.phase = Phase::Collecting;
                self.command(at)
            }
            Some(_) => {
                live.phase = Phase::Items;
                self.reopen_items(at)
            }
        }
    }

    /// A step that did well goes on with the first of its lists that failed.
    fn reopen_part(&mut self, at: &Address) -> Applied {
        for part in [Part::OnSuccess, Part::Finally] {
            let frame_at = at.part(part);
            if !self.frames.get(&frame_at).is_some_and(|frame| frame.failed) {
                continue;
            }
            if part == Part::OnSuccess {
                // There will be another end.
                self.drop_lists(&at.part(Part::Finally));
                self.restore(at)?;
            }
            find_mut(&mut self.live, at)?.phase = Phase::In(part);
            return self.reopen(&frame_at);
        }
        Err(Mismatch::new(format!("`{at}` failed, and neither it nor a list of it did")))
    }

    /// What is done again does not see what it left the first time.
    fn restore(&mut self, at: &Address) -> Applied {
        let live = find_mut(&mut self.live, at)?;
        // Nodes have nothing to put back.
        let Some(before) = live.before.take() else { return Ok(()) };
        let frame = find_mut(&mut self.frames, &live.frame)?;
        frame.prev = before.prev;
        let scope = find_mut(&mut self.scopes, &frame.scope)?;
        graph::put_back(&self.plan, &frame.scope, at, &mut scope.names, before.names);
        Ok(())
    }

    /// Forgets the lists that stand right below an address, and everything in them.
    fn drop_lists(&mut self, at: &Address) {
        self.frames.remove(at);
        at.remove_lists_from(&mut self.frames);
        at.remove_lists_from(&mut self.live);
        at.remove_lists_from(&mut self.scopes);
        at.remove_lists_from(&mut self.items);
    }

    /// Forgets the items of a step, and everything in them.
    fn drop_items(&mut self, at: &Address) {
        at.remove_items_from(&mut self.frames);
        at.remove_items_from(&mut self.live);
        at.remove_items_from(&mut self.scopes);
        at.remove_items_from(&mut self.items);
    }

    // ---- looking things up -----------------------------------------------------------------------------

    /// Asks for what is to be done next with a step.
    fn command(&mut self, at: &Address) -> Applied {
        let next = self.outstanding_of(at, None)?;
        self.commands.extend(next);
        Ok(())
    }

    fn scope_of(&self, at: &Address) -> Applied<Address> {
        let live = find(&self.live, at)?;
        Ok(find(&self.frames, &live.frame)?.scope.clone())
    }

    /// The innermost answer, from a scope outwards.
    fn in_scopes<T>(&self, from: &Address, ask: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        let mut name = Some(from);
        while let Some(scope) = name.and_then(|name| self.scopes.get(name)) {
            if let Some(answer) = ask(scope) {
                return Some(answer);
            }
            name = scope.parent.as_ref();
        }
        None
    }

    fn all_captured(&self, from: &Address, view: &mut View) {
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

/// The branch that a conditional took.
fn branch_of(output: &Output) -> Option<EcoString> {
    match &output.value {
        Datum::Here(value) => value.get("branch")?.as_str().map(EcoString::from),
        Datum::Stored { .. } => None,
    }
}
