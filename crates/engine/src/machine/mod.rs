//! The state machine of a run: it takes events and returns the commands that follow from them.
//!
//! The machine is deterministic: the same events give the same state and the same commands. It holds no
//! values, only the numbers of the events that made them, and never asks for the time. An event that does not
//! fit the state, and a state that lacks what a sound journal guarantees, is an [`InvalidEvent`].
//!
//! A *frame* is a list of steps that is being executed: the workflow's own, one for each item of a `foreach`,
//! one for each `on_failure`, `on_success` and `finally` of a step or of the workflow. An *active step* has begun
//! and is not concluded, or has failed and made its list fail. A *scope* holds names: the run has one, and so have
//! each item and each phase.
//!
//! | file | what it decides |
//! |---|---|
//! | `command` | nothing: the types that a driver sees |
//! | `lists` | which step of a list is next, what a step and its own lists lead to |
//! | `graph` | which node of a graph begins or is skipped |
//! | `items` | which items of a `foreach` or a map run, and what becomes of those that fail |
//! | `loop_state` | which state of a loop is entered, and which limit stops it |
//! | `run_end` | what follows when the steps of the run have ended |
//! | `resume` | what a run that failed does again |
//! | `budget` | whether an agent may be asked once more |
//! | `continued` | whether the result of an earlier run may be kept, in a run that continues it |
//! | `names` | which events made the names that a step reads |

mod budget;
mod command;
mod continued;
mod graph;
mod items;
mod lists;
mod loop_state;
mod names;
mod resume;
mod run_end;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::{Action, OnCrash, Step, Workflow};
use threadline_flow::plan::{ListNumber, Part, Plan, StepNumber};

use crate::event::{Address, Event, EventKind, Millis, RunSlice, Seq};
use crate::spend::Spend;
use crate::view::{ItemRef, PastVerdict};
use budget::BudgetLedger;
pub use budget::BudgetReached;
pub use command::{
    Command, Counts, InvalidEvent, ItemEnding, Outcome, Pause, RunOutcome, Stage, StandingFailure, Task,
};
use continued::Continuation;
use graph::GraphState;
#[cfg(feature = "testing")]
pub(crate) use items::ENDS_AHEAD;
use items::{ActiveItem, ItemQueue, JobPool};
use loop_state::LoopState;
use run_end::RunEnd;

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
trait Addressed {
    /// What it is, for the message.
    const NOUN: &'static str;
}

impl Addressed for ListFrame {
    const NOUN: &'static str = "list of steps";
}

impl Addressed for ActiveStep {
    const NOUN: &'static str = "step under way";
}

impl Addressed for NameTable {
    const NOUN: &'static str = "scope of names";
}

impl Addressed for ActiveItem {
    const NOUN: &'static str = "item under way";
}

fn absent<T: Addressed>(at: &Address) -> Mismatch {
    let at = if at.is_root() { "the run".to_owned() } else { format!("`{at}`") };
    Mismatch::new(format!("it needs a {} at {at}, and there is none", T::NOUN))
}

fn find<'m, T: Addressed>(map: &'m BTreeMap<Address, T>, at: &Address) -> Applied<&'m T> {
    map.get(at).ok_or_else(|| absent::<T>(at))
}

fn find_mut<'m, T: Addressed>(map: &'m mut BTreeMap<Address, T>, at: &Address) -> Applied<&'m mut T> {
    map.get_mut(at).ok_or_else(|| absent::<T>(at))
}

fn remove<T: Addressed>(map: &mut BTreeMap<Address, T>, at: &Address) -> Applied<T> {
    map.remove(at).ok_or_else(|| absent::<T>(at))
}

/// The state of a run.
pub struct Machine {
    plan: Arc<Plan>,
    stage: Stage,
    /// Whether the run stops: nothing new begins.
    stopping: bool,
    /// Whether the last event is that the run stopped, so that nothing was in flight after it.
    is_paused: bool,
    frames: BTreeMap<Address, ListFrame>,
    active: BTreeMap<Address, ActiveStep>,
    scopes: BTreeMap<Address, NameTable>,
    items: BTreeMap<Address, ActiveItem>,
    /// The room of lists that share the jobs of the run.
    pool: JobPool,
    /// Lists of the workflow that completed although items failed, by position: a resume can retry those
    /// items.
    retryable_lists: BTreeMap<usize, RetryableList>,
    /// The items whose last state is that they failed, by the step that they are items of.
    failed_items: BTreeMap<Address, BTreeSet<u64>>,
    /// What the run has spent on agents.
    spent: Spend,
    /// What it may spend.
    budgets: BudgetLedger,
    /// The steps of `context` that were evaluated, by name.
    defined: BTreeMap<EcoString, Seq>,
    /// The event that continued each thread last, by its name.
    threads: BTreeMap<EcoString, Seq>,
    /// The names of the run before its last lists, when they are done again after a failure.
    before: Option<ScopeNames>,
    /// How far the end of the run is, and the time of its steps.
    run_end: RunEnd,
    /// What may be kept of an earlier run, when this one continues it.
    continuation: Option<Box<Continuation>>,
    last: Seq,
    /// When the last event happened.
    time: Millis,
    commands: Vec<Command>,
    /// What of the run it is the machine of; none for all of it.
    slice: Option<RunSlice>,
}

/// A list that completed although items of it failed, as it was before it ended.
struct RetryableList {
    at: Address,
    active: ActiveStep,
}

/// A list being executed. Its key is the address of the list.
struct ListFrame {
    list: ListNumber,
    /// The step it is a part of, and of which item.
    owner: Option<(Address, Part, Option<u64>)>,
    scope: Address,
    position: usize,
    /// The last executed step of this list.
    prev: Option<Seq>,
    failed: bool,
    /// Where its nodes are, when it is a graph.
    nodes: Option<GraphState>,
    /// How far it is, when it is a loop.
    loop_state: Option<Box<LoopState>>,
}

impl ListFrame {
    fn loop_mut(&mut self) -> Applied<&mut LoopState> {
        self.loop_state.as_deref_mut().ok_or_else(|| Mismatch::new("no loop has begun".to_owned()))
    }

    fn nodes(&self) -> Applied<&GraphState> {
        self.nodes.as_ref().ok_or_else(|| Mismatch::new("the list is no graph".to_owned()))
    }

    fn nodes_mut(&mut self) -> Applied<&mut GraphState> {
        self.nodes.as_mut().ok_or_else(|| Mismatch::new("the list is no graph".to_owned()))
    }
}

/// A step that has begun.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct ActiveStep {
    step: StepNumber,
    frame: Address,
    as_of: Seq,
    stage: StepStage,
    /// Attempts made so far.
    attempts: u32,
    /// The event that began the last of them.
    started: Option<Seq>,
    /// What the agent of the attempt under way, or of one before it that it goes on with, said so far.
    exchanges: Vec<Seq>,
    /// Whether the next attempt goes on with them.
    keeps_exchanges: bool,
    /// Whether the agent calls a workflow.
    calls: bool,
    /// Whether a call of its agent may have been in flight at a crash, and is not counted.
    in_doubt: bool,
    /// Attempts before the last resume after a failure.
    base: u32,
    /// The event with its output.
    output: Option<Seq>,
    /// What it would see if it, or its last list, were done again; kept when that may be.
    before: Option<Box<Snapshot>>,
    /// Whether the step itself did well, whatever its lists did.
    succeeded: bool,
    /// Whether the step itself, or one of its lists, failed.
    failed: bool,
    items: Option<ItemQueue>,
    /// When its work began.
    began: Millis,
    /// Why it is skipped.
    reason: Option<EcoString>,
    /// The branch it took, of a conditional.
    branch: Option<EcoString>,
    /// The event with the verdict that led nowhere, of a state that failed.
    verdict: Option<Seq>,
    /// Whether what it left is that of an earlier run.
    is_kept: bool,
    /// Whether it, or a step in it, did anything in this run.
    has_acted: bool,
}

/// What was visible before something that failed.
struct Snapshot {
    prev: Option<Seq>,
    names: ScopeNames,
}

impl ActiveStep {
    fn task(&self, at: &Address) -> Task {
        Task { at: at.clone(), step: self.step, as_of: self.as_of }
    }

    /// The next attempt.
    fn start(&self, at: &Address) -> Command {
        let attempt = self.attempts.saturating_add(1);
        Command::Start { task: self.task(at), attempt, base: self.base, rerun: false }
    }

    /// Whether an attempt of this number may begin: the next one, or again the one that was running at a
    /// crash.
    fn may_start(&self, attempt: u32, rerun: bool) -> bool {
        match self.stage {
            StepStage::Ready | StepStage::Waiting(_) => !rerun && attempt == self.attempts.saturating_add(1),
            StepStage::Running | StepStage::Held => rerun && attempt == self.attempts,
            _ => false,
        }
    }

    fn items(&self) -> Applied<&ItemQueue> {
        self.items.as_ref().ok_or_else(|| Mismatch::new("the items of the step are not known".to_owned()))
    }

    fn items_mut(&mut self) -> Applied<&mut ItemQueue> {
        self.items.as_mut().ok_or_else(|| Mismatch::new("the items of the step are not known".to_owned()))
    }

    fn may_skip(&self) -> bool {
        matches!(self.stage, StepStage::Deciding | StepStage::Skipping { .. })
    }

    /// Whether a field of the step may be found without a value.
    fn may_fail_unbegun(&self) -> bool {
        matches!(
            self.stage,
            StepStage::Deciding
                | StepStage::Expanding
                | StepStage::Ready
                | StepStage::Running
                | StepStage::Held
                | StepStage::Waiting(_)
                | StepStage::Closing
        )
    }

    /// Whether the step may be done: also before it began, when a field of it has no value.
    fn may_finish(&self) -> bool {
        !matches!(
            self.stage,
            StepStage::Skipping { .. }
                | StepStage::Items
                | StepStage::In(_)
                | StepStage::Judging
                | StepStage::Failed
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepStage {
    /// It cannot begin; whether because another node failed.
    Skipping {
        by_failure: bool,
    },
    Deciding,
    Expanding,
    Ready,
    Running,
    /// The agent is not asked for more until its budget allows it.
    Held,
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

/// A scope of names: that of the run, of an item, or of a phase.
#[derive(Default)]
struct NameTable {
    parent: Option<Address>,
    item: Option<ItemRef>,
    names: ScopeNames,
}

/// Names, each with the event that set it.
#[derive(Default, Clone)]
struct ScopeNames {
    outputs: BTreeMap<EcoString, Seq>,
    captured: BTreeMap<EcoString, Seq>,
    /// In a loop: what was captured by the same names before.
    earlier: BTreeMap<EcoString, Seq>,
    /// In a loop: the verdicts on what events made.
    verdicts: BTreeMap<Seq, PastVerdict>,
}

/// What becomes of steps that were under way when a run was stopped or killed, in place of what they say.
#[derive(Debug, Clone, Copy, Default)]
pub struct InFlight {
    /// What somebody has decided.
    pub decided: Option<OnCrash>,
    /// Whether programs went on elsewhere, where it is known what came of them: they are asked for again, and nothing
    /// begins twice.
    pub finds_programs: bool,
}

const STEPS: ListNumber = 0;

impl Machine {
    /// The machine of a run that has not begun.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            budgets: BudgetLedger::new(&plan),
            plan,
            stage: Stage::New,
            stopping: false,
            is_paused: false,
            frames: BTreeMap::new(),
            active: BTreeMap::new(),
            scopes: BTreeMap::new(),
            items: BTreeMap::new(),
            pool: JobPool::new(None),
            retryable_lists: BTreeMap::new(),
            failed_items: BTreeMap::new(),
            spent: Spend::default(),
            defined: BTreeMap::new(),
            threads: BTreeMap::new(),
            before: None,
            run_end: RunEnd::default(),
            continuation: None,
            last: 0,
            time: 0,
            commands: Vec::new(),
            slice: None,
        }
    }

    /// The machine of a slice of a run, which takes no other events. What a step in it sees is the same as in the
    /// whole run, but not when an item began, who runs it, and what it waits for. Of a loop that holds for the visits that
    /// the slice asks for.
    ///
    /// Where the rest of the run decides what comes next, an event does not fit: then the whole run has to be read.
    pub fn of_slice(plan: Arc<Plan>, slice: RunSlice) -> Self {
        Self { slice: Some(slice), ..Self::new(plan) }
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

    /// The number of entries it holds: lists, steps, items, scopes, and the transitions and names of a loop.
    /// For tests of memory use: what has ended must not stay.
    pub fn retained_entries(&self) -> usize {
        self.frames.len() + self.active.len() + self.scopes.len() + self.items.len() + self.retained_in_loop()
    }

    /// What the run has spent on agents so far, with the runs that it called and that have ended.
    pub fn spent(&self) -> &Spend {
        &self.spent
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
        let follows = match self.slice {
            Some(_) => event.seq > self.last,
            None => event.seq == self.last + 1,
        };
        if !follows {
            return Err(misfit("it does not follow the event before it"));
        }
        if matches!(self.stage, Stage::New) != matches!(event.kind, EventKind::RunStarted(_)) {
            return Err(misfit("a run begins once"));
        }
        if matches!(self.stage, Stage::Ended(_)) && !matches!(event.kind, EventKind::Resumed { .. }) {
            return Err(misfit("the run is over"));
        }
        self.come_to_visit(&event.at)?;
        self.last = event.seq;
        let before = std::mem::replace(&mut self.time, event.time);
        let was_paused =
            std::mem::replace(&mut self.is_paused, matches!(event.kind, EventKind::Paused { .. }));
        self.note_failed_items(event);
        if let Some(spent) = event.kind.spent() {
            self.spent.add(spent);
        }
        self.budgets.note(&self.plan, event, &self.spent);
        match &event.kind {
            EventKind::RunStarted(started) => {
                self.stage = Stage::Going;
                self.pool = JobPool::new(started.jobs);
                self.continuation = started.continues.as_ref().map(|of| Box::new(Continuation::new(of)));
                self.scopes.insert(Address::root(), NameTable::default());
                self.run_end.begin(event.time);
                if self.needs_limits() {
                    self.commands.push(Command::ResolveLimits);
                } else {
                    self.open(&Address::root(), STEPS, None, Address::root(), None)?;
                }
            }
            EventKind::LimitsResolved { limits, .. } => {
                if !self.needs_limits() {
                    return Err(misfit("no limits are asked for"));
                }
                if self.plan.states.is_some() {
                    self.begin_loop(*limits)?;
                } else {
                    self.run_end.begin_steps(event.time, limits.timeout);
                    self.open(&Address::root(), STEPS, None, Address::root(), None)?;
                }
            }
            EventKind::Resumed { failed, jobs, .. } => {
                if !was_paused {
                    // Nothing says whether their judges were asked.
                    let judging = |active: &&mut ActiveStep| active.stage == StepStage::Judging;
                    self.active.values_mut().filter(judging).for_each(|active| active.in_doubt = true);
                }
                self.resume(*failed, before)?;
                self.set_jobs(*jobs)?;
                self.note_in_doubt();
            }
            EventKind::ItemRetrying { until, .. } => self.item_retrying(&event.at, *until)?,
            EventKind::ItemBegun { attempt } => self.item_begun(&event.at, *attempt)?,
            EventKind::ItemEnded(ended) => self.item_ended(&event.at, ended)?,
            EventKind::Paused { .. } => {}
            EventKind::OutcomeKnown { outcome, .. } => match self.end() {
                Some(Command::RecordOutcome(known)) if known.outcome == *outcome => self.outcome_known()?,
                _ => return Err(misfit("the outcome of the run is another, or not known")),
            },
            EventKind::RunEnded { outcome, .. } => {
                // A run whose steps all succeeded still fails when `exports`, or the limits of a loop, cannot
                // be evaluated.
                match self.end() {
                    Some(Command::ResolveLimits) if *outcome == Outcome::Failed => {}
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
                let active =
                    self.active.get_mut(&event.at).ok_or_else(|| misfit("the step is not under way"))?;
                match what {
                    EventKind::Decided { .. } if active.stage == StepStage::Deciding => {
                        self.act(&event.at)?;
                    }
                    EventKind::Skipped { .. } if active.may_skip() => self.skipped(&event.at, event.seq)?,
                    EventKind::Expanded { count, parallel, rules, .. }
                        if active.stage == StepStage::Expanding =>
                    {
                        self.expanded(&event.at, event.seq, *count, *parallel, *rules)?;
                    }
                    EventKind::Started { attempt, rerun, .. } if active.may_start(*attempt, *rerun) => {
                        active.stage = StepStage::Running;
                        active.attempts = *attempt;
                        active.started = Some(event.seq);
                        active.in_doubt = true;
                        active.calls &= *rerun;
                        if !rerun && !std::mem::take(&mut active.keeps_exchanges) {
                            active.exchanges.clear();
                        }
                        self.acted(&event.at);
                    }
                    EventKind::Exchanged { number, held, calls, .. }
                        if active.stage == StepStage::Running
                            && *number as usize == active.exchanges.len() + 1 =>
                    {
                        active.exchanges.push(event.seq);
                        (active.calls, active.in_doubt) = (*calls, !*held && !*calls);
                        if *held {
                            active.stage = StepStage::Held;
                            self.command(&event.at)?;
                        }
                    }
                    EventKind::CallLost { goes_on, .. }
                        if matches!(active.stage, StepStage::Running | StepStage::Judging) =>
                    {
                        active.in_doubt = false;
                        if *goes_on {
                            if active.stage == StepStage::Running {
                                active.stage = StepStage::Held;
                            }
                            self.command(&event.at)?;
                        }
                    }
                    EventKind::Retrying { until, keeps_exchanges, .. }
                        if active.stage == StepStage::Running =>
                    {
                        active.in_doubt = false;
                        active.keeps_exchanges = *keeps_exchanges;
                        active.stage = StepStage::Waiting(Pause { since: event.time, until: *until });
                        // The next attempt must not begin before this is on disk; it sees the same names.
                        active.as_of = event.seq;
                        self.command(&event.at)?;
                    }
                    EventKind::Finished { kept: Some(_), .. } if active.stage != StepStage::Ready => {
                        return Err(misfit("what is kept is not done"));
                    }
                    EventKind::Finished { output, kept, .. } if active.may_finish() => {
                        active.is_kept = kept.is_some();
                        active.in_doubt = false;
                        if let Some(thread) = &output.thread {
                            self.threads.insert(thread.name.clone(), event.seq);
                        }
                        self.finished(&event.at, event.seq, output)?;
                    }
                    EventKind::Unresolved { output, .. } if active.may_fail_unbegun() => {
                        self.finished(&event.at, event.seq, output)?;
                    }
                    EventKind::Judged(judged) if active.stage == StepStage::Judging => {
                        if judged.reply.is_some() && judged.kept.is_none() {
                            self.acted(&event.at);
                        }
                        self.judged(&event.at, judged)?;
                    }
                    _ => return Err(misfit("the step is somewhere else")),
                }
            }
        }
        Ok(())
    }

    /// The pause before an attempt is over: what begins. The state does not change until the attempt has
    /// begun.
    ///
    /// Nothing begins when nothing waits there any more, or when the run stops.
    pub fn after_pause(&self, at: &Address) -> Option<Command> {
        if self.stopping {
            return None;
        }
        match self.active.get(at) {
            Some(active) => matches!(active.stage, StepStage::Waiting(_)).then(|| active.start(at)),
            None => self.item_after_pause(at),
        }
    }

    /// What is wrong with the events up to now.
    fn invalid(&self, mismatch: Mismatch) -> InvalidEvent {
        InvalidEvent { seq: self.last, why: mismatch.why }
    }

    /// Everything that is to be done in this state: what a run that was stopped or killed goes on with. What
    /// was running then follows its `on_crash`, unless the caller decides.
    pub fn outstanding(&self, in_flight: InFlight) -> Result<Vec<Command>, InvalidEvent> {
        let steps = self.active.keys().map(|at| self.outstanding_of(at, in_flight));
        let items = self.items.keys().map(|key| self.outstanding_item(key));
        let end = self.end().filter(|_| self.stage == Stage::Going);
        let commands = steps.chain(items).filter_map(Applied::transpose).chain(end.map(Ok));
        commands.collect::<Applied<_>>().map_err(|mismatch| self.invalid(mismatch))
    }

    fn outstanding_of(&self, at: &Address, in_flight: InFlight) -> Applied<Option<Command>> {
        let active = find(&self.active, at)?;
        let task = active.task(at);
        Ok(Some(match active.stage {
            StepStage::Skipping { .. } => {
                Command::Skip { task, reason: active.reason.clone().unwrap_or_default() }
            }
            StepStage::Deciding => Command::Decide(task),
            StepStage::Expanding => Command::Expand(task),
            StepStage::Ready => active.start(at),
            StepStage::Running if active.calls => {
                Command::Start { task, attempt: active.attempts, base: active.base, rerun: true }
            }
            StepStage::Running => match self.on_crash(active.step, in_flight) {
                OnCrash::Rerun => {
                    Command::Start { task, attempt: active.attempts, base: active.base, rerun: true }
                }
                OnCrash::Fail => Command::FailAfterCrash(task),
                OnCrash::Ask => Command::Ask(task),
            },
            // The attempt goes on behind what the agent said.
            StepStage::Held => {
                Command::Start { task, attempt: active.attempts, base: active.base, rerun: true }
            }
            StepStage::Waiting(pause) => Command::Wait { task, pause },
            StepStage::Collecting => self.collect(at)?,
            StepStage::Closing => self.close(at)?,
            StepStage::Judging => Command::Judge(task),
            StepStage::Items | StepStage::In(_) | StepStage::Failed => return Ok(None),
        }))
    }

    /// What becomes of a step that was under way. A call goes on inside, where it is asked for each step.
    fn on_crash(&self, step: StepNumber, in_flight: InFlight) -> OnCrash {
        let (workflow, step) = (&self.plan.workflow, &self.plan.steps[step as usize].step);
        match (&step.action, in_flight) {
            (Action::Workflow(_), _) => OnCrash::Rerun,
            (_, InFlight { decided: Some(decided), .. }) => decided,
            (_, InFlight { finds_programs: true, .. }) if is_found_elsewhere(workflow, step) => {
                OnCrash::Rerun
            }
            _ => workflow.on_crash(step),
        }
    }

    /// What is to be done next with one execution, or with an item.
    pub fn next_of(&self, at: &Address) -> Option<Command> {
        let of_step = || self.outstanding_of(at, InFlight::default()).ok().flatten();
        self.after_pause(at).or_else(of_step).or_else(|| self.outstanding_item(at).ok().flatten())
    }

    /// Which attempt of the item around an execution it is, from 1.
    pub fn item_attempt(&self, at: &Address) -> Option<u32> {
        let item = at.items_around().next_back()?;
        self.items.get(&item).map(|item| item.attempt)
    }

    /// Asks for what is to be done next with a step.
    fn command(&mut self, at: &Address) -> Applied {
        let next = self.outstanding_of(at, InFlight::default())?;
        self.commands.extend(next);
        Ok(())
    }

    fn scope_of(&self, at: &Address) -> Applied<Address> {
        let active = find(&self.active, at)?;
        Ok(find(&self.frames, &active.frame)?.scope.clone())
    }

    /// The events that continued threads last, by their names.
    pub fn threads(&self) -> &BTreeMap<EcoString, Seq> {
        &self.threads
    }

    /// The event that evaluated an entry of `context`.
    pub fn defined(&self) -> &BTreeMap<EcoString, Seq> {
        &self.defined
    }

    /// The step of an execution that is under way.
    pub fn step_of(&self, at: &Address) -> Option<StepNumber> {
        self.active.get(at).map(|active| active.step)
    }
}

/// Whether all that a step does is performed by workers, in a run that has some: it goes on while nobody drives the run.
/// Between the answers of a model its tools are called by the coordinator.
pub(crate) fn is_found_elsewhere(workflow: &Workflow, step: &Step) -> bool {
    match &step.action {
        Action::Shell { .. } | Action::Argv(_) | Action::Http(_) => true,
        Action::Agent { agent, .. } => workflow
            .agent(&agent.value)
            .is_some_and(|agent| agent.provider.is_program || agent.tools.is_empty()),
        _ => false,
    }
}
