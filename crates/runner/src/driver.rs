//! The local driver: carries out what the machine commands, on a few threads, and records what happened.
//!
//! Everything that happens goes one way: it is appended to the journal, the machine takes it, and the commands that
//! come of it are queued. A command is acted upon only when the event that made it ready is on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, Listed, Seq};
use threadline_engine::execute::effect::{Effect, EffectResult};
use threadline_engine::execute::{Durability, Executor, Next, Recording, has_worktrees};
use threadline_engine::machine::{Command, InvalidEvent, Machine, Outcome, Stage};
use threadline_engine::view::{RunNames, View};
use threadline_flow::model::OnCrash;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::{Resolution, Scope, Value, Warning};
use threadline_store::{Journal, JournalError, RunId, StoreError};

use crate::clock::now;
use crate::earlier::{CurrentLists, EarlierRun};
use crate::item_worktree::Opened;
use crate::local::LocalDriver;
use crate::locks::Patience;
use crate::process::{Control, Environment, Stream};
use crate::project::Project;
use crate::secrets::RunSurroundings;
pub use crate::stop::Stop;
use crate::teller::{self, NoticeSender};
use crate::tools::{KeptListings, ServerSurroundings, Servers};
use crate::values::Values;
use crate::worktrees::WorktreeError;

/// So many steps run at once when nobody says otherwise.
const MAX_JOBS: usize = 256;

/// A clock that does not jump cannot count to the end of time.
const LONGEST_PAUSE: Duration = Duration::from_hours(100 * 365 * 24);

/// What a run needs.
pub struct Setup<'a> {
    /// The plan that is carried out.
    pub plan: Arc<Plan>,
    /// The journal of the run, which this process drives.
    pub journal: Journal<'a>,
    /// Where it runs.
    pub project: &'a Project,
    /// The names that no step makes.
    pub names: RunNames,
    /// How many steps may run at once.
    pub jobs: Option<usize>,
    /// Ends what runs.
    pub control: Control,
    /// Asks to start nothing new.
    pub stop: Stop,
    /// Whether every resolved reference is told.
    pub trace: bool,
    /// Whether what steps print is told as it comes.
    pub verbose: bool,
    /// What becomes of steps that were running when Threadline was killed, in place of what they say.
    pub in_flight: Option<OnCrash>,
    /// How long called runs wait for what other runs have for themselves.
    pub patience: Patience,
    /// The variables and secrets that it is given, with all that it calls.
    pub surroundings: Arc<RunSurroundings>,
    /// What it is called in; none when somebody started it.
    pub within: Option<ParentRun>,
    /// The run that it continues.
    pub earlier: Option<EarlierRun<'a>>,
    /// Is told everything that happens, in order.
    pub observer: Observer<'a>,
}

/// What a called run is a part of.
pub struct ParentRun {
    /// The run that somebody started: processes carry its mark.
    pub(crate) started: RunId,
    /// The environment of the step that called it.
    pub(crate) env: Environment,
}

/// Is told everything that happens.
pub type Observer<'a> = Box<dyn FnMut(Notice) + Send + 'a>;

/// Something that happened, for whoever watches.
pub enum Notice {
    /// An event of the journal. It is written, and one that is a result is on disk.
    Event(Box<Event>),
    /// A step printed something.
    Printed(Address, Stream, Vec<u8>),
    /// A step resolved references.
    Resolved(Address, Vec<Resolution>),
    /// A step works, and should be written differently.
    Warned(Address, Vec<Warning>),
    /// A value cannot stand where it would, or a field has none.
    Problems(Address, Vec<Problem>),
    /// Something happened in a run that a step called.
    Called(Box<CalledNotice>),
}

/// Something that happened in a run that a step called.
pub struct CalledNotice {
    /// The step that called the run.
    pub at: Address,
    /// The id of the run.
    pub run: EcoString,
    /// What it follows.
    pub plan: Arc<Plan>,
    /// What happened in the called run.
    pub notice: Notice,
}

/// How driving a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The run is over.
    Ended(Outcome),
    /// It was stopped and can be resumed.
    Stopped,
    /// Somebody has to say what becomes of these steps, which were running when Threadline was killed.
    Waiting(Vec<PendingDecision>),
}

/// A step that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDecision {
    /// The id of its run.
    pub run: EcoString,
    /// The execution that waits.
    pub at: Address,
}

/// Why a run could not go on. The journal has everything that was acted upon.
#[derive(Debug, Clone)]
pub enum DriveError {
    /// The journal cannot be read or written.
    Journal(JournalError),
    /// The journal is not of this workflow.
    InvalidEvent(InvalidEvent),
    /// A lock of git stays, and nothing can be done in the repository.
    Git(Box<WorktreeError>),
}

impl From<StoreError> for DriveError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}

impl From<JournalError> for DriveError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<InvalidEvent> for DriveError {
    fn from(misfit: InvalidEvent) -> Self {
        Self::InvalidEvent(misfit)
    }
}

/// Begins a run with its first event.
pub fn begin(setup: Setup<'_>, started: EventKind) -> Result<Ending, DriveError> {
    let machine = Machine::new(Arc::clone(&setup.plan));
    drive(setup, machine, started, BTreeMap::new())
}

/// Goes on with a run whose events the machine has taken; with the items that were let fail, when that is asked.
pub fn resume(
    setup: Setup<'_>,
    machine: Machine,
    context: BTreeMap<EcoString, Value>,
    failed: bool,
) -> Result<Ending, DriveError> {
    drive(setup, machine, EventKind::Resumed { failed }, context)
}

fn drive(
    setup: Setup<'_>,
    mut machine: Machine,
    first: EventKind,
    context: BTreeMap<EcoString, Value>,
) -> Result<Ending, DriveError> {
    let goes_on = matches!(first, EventKind::Resumed { .. });
    let Setup { plan, journal, project, names, jobs, control, stop, trace, verbose, in_flight, .. } = setup;
    let Setup { patience, surroundings, within, earlier, observer, .. } = setup;
    let (events, ticket) = journal.append(now(), vec![(Address::default(), first)], Durability::Now)?;
    // Whoever is told of a run can resume it.
    ticket.wait()?;
    let (teller, notices) = NoticeSender::new();
    for event in events {
        machine.apply(&event)?;
        teller.tell(Notice::Event(Box::new(event)));
    }
    let commands = machine.outstanding(in_flight)?.into();
    let run = journal.run().clone();
    let reader = journal.store().reader();
    let scope = names.scope(&plan);
    let ParentRun { started, env } = within.unwrap_or_else(|| {
        let mut env = surroundings.environment(&plan.workflow, Environment::inherited());
        env.remove("THREADLINE_RUN");
        ParentRun { started: run.clone(), env }
    });
    let servers = Arc::new(Servers::new(ServerSurroundings {
        env: env.clone(),
        run: started.as_str().to_owned(),
        here: project.here().to_owned(),
        spool: journal.store().spool_folder(),
        control: control.clone(),
        masks: surroundings.masks().cloned(),
        kept: Some(KeptListings::of_store(&project.store())),
    }));
    let is_graph = plan.lists[0].graph.is_some();
    let shared = DrivenRun {
        core: Mutex::new(Core {
            machine,
            ready: commands,
            timers: BTreeSet::new(),
            busy: 0,
            workers: 1,
            over: None,
        }),
        teller,
        stop,
        journal,
        values: Values::new(reader, run),
        plan,
        project,
        scope,
        control,
        trace,
        verbose,
        env,
        context: Mutex::new(context),
        servers,
        waiting: Mutex::default(),
        began: Instant::now(),
        started,
        surroundings,
        in_flight,
        patience,
        earlier,
        given_jobs: jobs,
        jobs: jobs.unwrap_or(if is_graph { side_by_side() } else { MAX_JOBS }).max(1),
        opened: Opened::default(),
    };
    // Before the items began there is nothing to put right: they begin with what `setup` will have committed.
    let worktrees = shared.project.worktrees(shared.journal.run().as_str());
    if goes_on && has_worktrees(&shared.plan) && worktrees.is_dir() {
        // What a killed process left is put right; whoever needs a worktree says why there is none.
        let _ = shared.worktrees();
    }
    std::thread::scope(|listeners| {
        let journal = &shared.journal;
        listeners.spawn(move || teller::listen(journal, notices, observer));
        std::thread::scope(|threads| shared.work(threads));
        shared.servers.end();
        // What is left of them is put right when they are opened again.
        let _ = shared.leave_worktrees();
        let over = shared.core().over.take().unwrap_or(Ok(Ending::Stopped));
        let ended = shared.close(over);
        shared.teller.end();
        ended
    })
}

/// What all threads of a run share.
pub(crate) struct DrivenRun<'a> {
    core: Mutex<Core>,
    pub(crate) teller: NoticeSender,
    pub(crate) stop: Stop,
    pub(crate) journal: Journal<'a>,
    pub(crate) values: Values<'a>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) project: &'a Project,
    pub(crate) scope: Scope,
    pub(crate) control: Control,
    pub(crate) trace: bool,
    pub(crate) verbose: bool,
    pub(crate) env: Environment,
    /// The entries of `context` that were evaluated. Who evaluates more of them holds the lock.
    pub(crate) context: Mutex<BTreeMap<EcoString, Value>>,
    /// The servers whose tools were called.
    pub(crate) servers: Arc<Servers>,
    waiting: Mutex<Vec<PendingDecision>>,
    /// When it began to be driven, by a clock that does not jump.
    pub(crate) began: Instant,
    /// The run that somebody started and that this one is a part of.
    pub(crate) started: RunId,
    /// The variables and secrets that it is given.
    pub(crate) surroundings: Arc<RunSurroundings>,
    /// What becomes of steps that were running when Threadline was killed, in place of what they say.
    pub(crate) in_flight: Option<OnCrash>,
    /// How long called runs wait for what other runs have for themselves.
    pub(crate) patience: Patience,
    /// The run that it continues.
    pub(crate) earlier: Option<EarlierRun<'a>>,
    /// How many steps may run at once, as the caller says.
    pub(crate) given_jobs: Option<usize>,
    jobs: usize,
    /// The worktrees of items.
    pub(crate) opened: Opened,
}

struct Core {
    machine: Machine,
    ready: VecDeque<Command>,
    /// Attempts that wait, by a clock that does not jump.
    timers: BTreeSet<(Instant, Address)>,
    busy: usize,
    workers: usize,
    over: Option<Result<Ending, DriveError>>,
}

impl DrivenRun<'_> {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on commands until the run is over.
    fn work<'s>(&'s self, threads: &'s std::thread::Scope<'s, '_>) {
        loop {
            let rings = self.stop.bell().rings();
            let mut core = self.core();
            if core.over.is_some() {
                return;
            }
            if self.stop.asked() {
                core.machine.stop();
                core.ready.retain(|command| !command.begins());
                core.timers.clear();
            }
            core.wake_due(Instant::now());
            if let Some(command) = core.ready.pop_front() {
                core.busy += 1;
                // Whoever is free takes the next command, or looks after the pauses.
                let more = !core.ready.is_empty() || !core.timers.is_empty();
                if more && core.busy == core.workers && core.workers < self.jobs {
                    core.workers += 1;
                    threads.spawn(move || self.work(threads));
                }
                let view = core.machine.view_of(&command);
                drop(core);
                let result = self.carry_out(command, view);
                let mut core = self.core();
                core.busy -= 1;
                if let Err(error) = result {
                    core.over.get_or_insert(Err(error));
                }
                drop(core);
                self.stop.bell().ring();
                continue;
            }
            if core.busy == 0 && core.timers.is_empty() {
                let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let ending = match core.machine.stage() {
                    Stage::Ended(outcome) => Ending::Ended(outcome),
                    _ if !self.stop.asked() && !waiting.is_empty() => Ending::Waiting(waiting.clone()),
                    _ => Ending::Stopped,
                };
                drop(waiting);
                core.over = Some(Ok(ending));
                drop(core);
                self.stop.bell().ring();
                return;
            }
            let first = core.timers.first();
            let pause = first.map(|(until, _)| until.saturating_duration_since(Instant::now()));
            drop(core);
            self.stop.bell().wait(rings, pause);
        }
    }

    /// Carries out a command: what the engine says next is done until there is nothing more to do.
    fn carry_out(&self, command: Command, view: View) -> Result<(), DriveError> {
        let executor = Executor::new(&self.plan);
        let mut driver = LocalDriver::new(self);
        let reads_items = matches!(command, Command::Expand(_)).then(|| view.clone());
        self.wait_synced(executor.awaits(&command, &view))?;
        let mut next = executor.begin(&mut driver, command, view)?;
        loop {
            let mut performance = match next {
                Next::Record(recording) => return self.record(*recording).map(|_| ()),
                Next::Perform(performance) => *performance,
                Next::Pause(at, pause) => {
                    let left = Duration::from_millis(pause.left(now())).min(LONGEST_PAUSE);
                    self.core().timers.insert((Instant::now() + left, at));
                    return Ok(());
                }
                Next::Ask(at) => {
                    let run = self.journal.run().as_str().into();
                    self.await_decisions(vec![PendingDecision { run, at }]);
                    return Ok(());
                }
                Next::Leave => return Ok(()),
            };
            let recorded = performance.before.map(|before| self.record(before)).transpose()?;
            self.wait_written(performance.barrier.awaits_written(recorded))?;
            self.wait_synced(performance.barrier.awaits(recorded))?;
            let result = match performance.effect {
                Effect::WithSecrets(_) => match executor.reveal(&mut driver, &mut performance.pending)? {
                    Ok(effect) => {
                        driver.has_secrets = true;
                        let result = driver.perform(&performance.key, &effect, reads_items.as_ref())?;
                        driver.has_secrets = false;
                        result
                    }
                    Err(failure) => EffectResult::Refused(failure),
                },
                effect => driver.perform(&performance.key, &effect, reads_items.as_ref())?,
            };
            let result = match self.surroundings.masks() {
                Some(masks) => masks.mask_result(result),
                None => result,
            };
            next = executor.done(&mut driver, performance.pending, result)?;
        }
    }

    /// What an execution sees now.
    pub(crate) fn view(&self, at: &Address) -> View {
        self.core().machine.view(at)
    }

    /// Notes executions that wait for somebody's decision.
    pub(crate) fn await_decisions(&self, decisions: Vec<PendingDecision>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(decisions);
    }

    /// Records an event. An envelope in it need not be loaded again.
    fn record(&self, recording: Recording) -> Result<Seq, DriveError> {
        let Recording { at, kind, durability, envelope } = recording;
        self.append(vec![(at, kind)], durability, |seq| {
            if let Some(envelope) = envelope {
                self.values.keep_output(seq, &Arc::new(envelope));
            }
        })
    }

    /// Records events. Gives the number of the last.
    pub(crate) fn record_all(
        &self,
        events: Vec<(Address, EventKind)>,
        durability: Durability,
    ) -> Result<Seq, DriveError> {
        self.append(events, durability, |_| {})
    }

    /// Appends events, lets the machine take them, and queues the commands that follow. `before` is told the number of the
    /// last event before anybody acts upon it.
    fn append(
        &self,
        events: Vec<(Address, EventKind)>,
        durability: Durability,
        before: impl FnOnce(Seq),
    ) -> Result<Seq, DriveError> {
        let mut core = self.core();
        let core = &mut *core;
        let (events, ticket) = self.journal.append(now(), events, durability)?;
        before(ticket.last());
        for event in events {
            let commands = core.machine.apply(&event)?;
            core.ready.extend(commands);
            // In the order of the journal, so while nobody else can record anything.
            self.teller.tell(Notice::Event(Box::new(event)));
        }
        if !core.ready.is_empty() {
            self.stop.bell().ring();
        }
        Ok(ticket.last())
    }

    /// Waits until an event is written; there is no event 0.
    fn wait_written(&self, seq: Seq) -> Result<(), DriveError> {
        if seq > 0 {
            self.journal.wait_written(seq)?;
        }
        Ok(())
    }

    /// Waits until an event is on disk; there is no event 0.
    pub(crate) fn wait_synced(&self, seq: Seq) -> Result<(), DriveError> {
        if seq > 0 {
            self.journal.wait_synced(seq)?;
        }
        Ok(())
    }

    /// Everything is on disk before anybody hears how it ended.
    fn close(&self, over: Result<Ending, DriveError>) -> Result<Ending, DriveError> {
        let ending = over?;
        if let Ending::Stopped | Ending::Waiting(_) = ending {
            let reason = if ending == Ending::Stopped { "stopped" } else { "waiting for a decision" };
            let failed_items = Some(self.core().machine.failed_items());
            let paused = EventKind::Paused { reason: reason.into(), failed_items };
            let paused = (Address::default(), paused);
            self.record_all(vec![paused], Durability::Now)?;
        }
        let last = self.core().machine.last();
        self.wait_synced(last)?;
        Ok(ending)
    }
}

impl CurrentLists for DrivenRun<'_> {
    fn list_of(&self, at: &Address) -> Option<Seq> {
        self.core().machine.items_of(at)
    }

    fn items(&self, list: Seq) -> Result<Listed, JournalError> {
        match self.journal.store().reader().event(self.journal.run(), list)?.kind {
            EventKind::Expanded { items, .. } => Ok(items),
            _ => Err(JournalError::Value(format!("event {list} has no list"))),
        }
    }
}

impl Core {
    /// Queues the attempts whose pause is over.
    fn wake_due(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(until, _)| *until <= now) {
            let due = self.timers.pop_first();
            self.ready.extend(due.and_then(|(_, at)| self.machine.after_pause(&at)));
        }
    }
}

/// How many nodes of a graph run at once when nobody says: nothing else bounds them.
fn side_by_side() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(4)
}
