//! The local driver: carries out what the machine commands, on a few threads, and records what happened.
//!
//! Everything that happens goes one way: it is appended to the journal, the machine takes it, and the commands that
//! come of it are queued. A command is acted upon only when the event that made it ready is on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::{Address, BudgetChange, Event, EventKind, Listed, SafeEvents, Seq};
use threadline_engine::execute::effect::{Effect, EffectResult, USAGE_VARIABLE};
use threadline_engine::execute::{
    AgentCall, CallAdmission, Durability, Executor, Next, Recording, SecretView, has_worktrees,
};
use threadline_engine::machine::{BudgetReached, Command, InFlight, InvalidEvent, Machine, Outcome, Stage};
use threadline_engine::spend::Spend;
use threadline_engine::view::{RunNames, View};
use threadline_flow::model::{Action, DEFAULT_JOBS, Evaluator, OnCrash};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::{Resolution, Scope, Value, Warning};
use threadline_store::{Journal, JournalError, RunId, StoreError};

use crate::agent_gates::{AgentGates, GatePassage, MINUTE};
use crate::called;
use crate::clock::now;
use crate::earlier::{CurrentLists, EarlierRun, ItemPairings};
use crate::exchanges::ExchangeFiles;
use crate::item_worktree::Opened;
use crate::local::LocalDriver;
use crate::locks::Patience;
use crate::process::{Control, Environment, Stream};
use crate::project::{Project, plain};
use crate::secrets::RunSurroundings;
pub use crate::stop::Stop;
use crate::teller::{self, NoticeSender};
use crate::threads::{ThreadClaims, ends_attempt};
use crate::tools::{KeptListings, ServerSurroundings, Servers};
use crate::values::Values;
use crate::workplace::Workplace;
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
    /// What is told of what steps print, as it comes.
    pub printed: PrintedNotices,
    /// What becomes of steps that were running when Threadline was killed, in place of what they say.
    pub in_flight: Option<OnCrash>,
    /// How long called runs wait for what other runs have for themselves.
    pub patience: Patience,
    /// The variables and secrets that it is given, with all that it calls.
    pub surroundings: Arc<RunSurroundings>,
    /// What it is called in; none when somebody started it.
    pub within: Option<ParentRun<'a>>,
    /// The run that it continues.
    pub earlier: Option<EarlierRun<'a>>,
    /// Where its exchanges with agents are recorded, or replayed from.
    pub exchanges: Option<Arc<ExchangeFiles>>,
    /// Where its programs are performed, and those of all that it calls.
    pub workplace: Arc<dyn Workplace>,
    /// Is told everything that happens, in order.
    pub observer: Observer<'a>,
}

/// What is told of what steps print, as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedNotices {
    /// Nothing: nobody looks.
    None,
    /// What agents say.
    Agents,
    /// All that is printed.
    All,
}

/// What a called run is a part of.
pub struct ParentRun<'a> {
    /// The run that somebody started: processes carry its mark.
    pub(crate) started: RunId,
    /// The environment of the step that called it.
    pub(crate) env: Environment,
    /// The budgets around it.
    pub(crate) budget: CallerBudget<'a>,
    /// How many calls of agents may begin.
    pub(crate) gates: Arc<AgentGates>,
    /// Whether it, or a run around it, has a budget.
    pub(crate) has_budgets: bool,
}

/// What the run that called another one says to one more call of an agent, given what the called run has spent in all
/// and how many of its calls are in flight; of a call that is only noted nothing is asked.
pub(crate) type CallerBudget<'a> =
    Box<dyn Fn(CalledCall, &Spend, u64) -> Result<(), BudgetReached> + Send + Sync + 'a>;

/// What the caller of a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledCall {
    /// What is spent has changed.
    Noted,
    /// One more call is about to begin.
    Begins,
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
    /// A step or a judge asks its agent after this time.
    Waits(Address, WaitReason, Duration),
    /// Something happened in a run that a step called.
    Called(Box<CalledNotice>),
}

/// Why an agent is asked later.
pub enum WaitReason {
    /// This agent may not be asked more often now.
    Limited(EcoString),
    /// It could not answer, for this reason.
    Unanswered(String),
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
    /// No agent may be asked any more, because these budgets are used up.
    OverBudget(Vec<BudgetReached>),
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
    /// The folder of the run cannot be made.
    Folder(String),
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

/// How a run is resumed.
#[derive(Default)]
pub struct Resumption {
    /// Whether the items that were let fail are done again.
    pub failed: bool,
    /// The budgets that hold from now on, beside those of before.
    pub budgets: Vec<BudgetChange>,
    /// How many steps may run at once from now on, where that is another number than at the beginning.
    pub jobs: Option<u64>,
}

/// Goes on with a run whose events the machine has taken.
pub fn resume(
    setup: Setup<'_>,
    machine: Machine,
    context: BTreeMap<EcoString, Value>,
    resumption: Resumption,
) -> Result<Ending, DriveError> {
    let Resumption { failed, budgets, jobs } = resumption;
    drive(setup, machine, EventKind::Resumed { failed, budgets, jobs }, context)
}

fn drive(
    setup: Setup<'_>,
    mut machine: Machine,
    first: EventKind,
    context: BTreeMap<EcoString, Value>,
) -> Result<Ending, DriveError> {
    let goes_on = matches!(first, EventKind::Resumed { .. });
    let Setup { plan, journal, project, names, jobs, control, stop, trace, printed, in_flight, .. } = setup;
    let Setup { patience, surroundings, within, earlier, exchanges, workplace, observer, .. } = setup;
    if plan.reads_folder {
        project.make_run_folder(&names.run).map_err(|error| DriveError::Folder(plain(&error)))?;
    }
    let finds_programs = finds_programs(&journal, &*workplace)?;
    let (events, ticket) = journal.append(now(), vec![(Address::default(), first)], Durability::Now)?;
    // Whoever is told of a run can resume it.
    ticket.wait()?;
    let (teller, notices) = NoticeSender::new();
    for event in events {
        machine.apply(&event)?;
        teller.tell(Notice::Event(Box::new(event)));
    }
    let commands = machine.outstanding(InFlight { decided: in_flight, finds_programs })?;
    let run = journal.run().clone();
    let reader = journal.store().reader();
    let scope = names.scope(&plan);
    let mut has_budgets = machine.has_budgets();
    let (started, env, around, gates) = if let Some(parent) = within {
        let ParentRun { started, env, budget, gates, has_budgets: around } = parent;
        has_budgets |= around;
        (started, env, Some(budget), gates)
    } else {
        let mut env = surroundings.environment(&plan.workflow, Environment::inherited());
        env.remove("THREADLINE_RUN");
        env.remove(USAGE_VARIABLE);
        (run.clone(), env, None, Arc::default())
    };
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
    let shares_jobs = plan.shares_jobs();
    let default_jobs = match (shares_jobs, is_graph) {
        (true, _) => usize::try_from(DEFAULT_JOBS).unwrap_or(MAX_JOBS),
        // Nothing else bounds how many nodes of a graph run at once.
        (false, true) => workplace.most_at_once(),
        (false, false) => MAX_JOBS,
    };
    let mut ready = ReadyCommands { shares_jobs, commands: VecDeque::new() };
    ready.extend(commands);
    let shared = DrivenRun {
        core: Mutex::new(Core {
            machine,
            ready,
            timers: BTreeSet::new(),
            queued: BTreeSet::new(),
            queued_at: u64::MAX,
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
        printed,
        env,
        context: Mutex::new(context),
        servers,
        waiting: Mutex::default(),
        held: Mutex::default(),
        around,
        gates,
        has_budgets,
        began: Instant::now(),
        started,
        surroundings,
        in_flight,
        finds_programs,
        patience,
        earlier,
        pairings: ItemPairings::default(),
        exchanges,
        workplace,
        threads: ThreadClaims::default(),
        unanswered: Mutex::default(),
        given_jobs: jobs,
        jobs: jobs.unwrap_or(default_jobs).max(1),
        opened: Opened::default(),
    };
    if goes_on && has_budgets && shared.plan.callees().next().is_some() {
        let unrecorded = called::unrecorded(reader, &shared.started, shared.journal.run())?;
        let mut core = shared.core();
        for (at, spent) in unrecorded {
            if core.machine.step_of(&at).is_some() {
                core.machine.note_called(&at, spent, 0);
            }
        }
    }
    shared.tell_caller(&shared.core());
    if goes_on {
        shared.remember_calls()?;
        let threads = shared.core().machine.threads().clone();
        let threads: Vec<(String, Seq)> =
            threads.into_iter().map(|(name, seq)| (name.to_string(), seq)).collect();
        shared.publish_again(&threads)?;
    }
    // Before the items began there is nothing to put right: they begin with what `setup` will have committed.
    let worktrees = shared.project.worktrees(shared.journal.run().as_str());
    if goes_on && has_worktrees(&shared.plan) && worktrees.is_dir() {
        // What a killed process left is put right; whoever needs a worktree says why there is none.
        let _ = shared.worktrees();
    }
    std::thread::scope(|listeners| {
        let journal = &shared.journal;
        listeners.spawn(move || teller::listen(journal, notices, observer));
        std::thread::scope(|threads| {
            // Not this thread: it is the one that adopts, and whoever looks for what programs left finds nothing
            // else among its children.
            threads.spawn(|| shared.work(threads));
        });
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
    pub(crate) printed: PrintedNotices,
    pub(crate) env: Environment,
    /// The entries of `context` that were evaluated. Who evaluates more of them holds the lock.
    pub(crate) context: Mutex<BTreeMap<EcoString, Value>>,
    /// The servers whose tools were called.
    pub(crate) servers: Arc<Servers>,
    waiting: Mutex<Vec<PendingDecision>>,
    held: Mutex<HeldCalls>,
    /// The budgets of the run that called it.
    around: Option<CallerBudget<'a>>,
    /// Whether this run, or one around it, has a budget.
    pub(crate) has_budgets: bool,
    /// How many calls of agents may begin, in all runs of the tree.
    pub(crate) gates: Arc<AgentGates>,
    /// When it began to be driven, by a clock that does not jump.
    pub(crate) began: Instant,
    /// The run that somebody started and that this one is a part of.
    pub(crate) started: RunId,
    /// The variables and secrets that it is given.
    pub(crate) surroundings: Arc<RunSurroundings>,
    /// What becomes of steps that were running when Threadline was killed, in place of what they say.
    pub(crate) in_flight: Option<OnCrash>,
    /// Whether it is known what came of programs that were running then: they went on elsewhere.
    finds_programs: bool,
    /// How long called runs wait for what other runs have for themselves.
    pub(crate) patience: Patience,
    /// The run that it continues.
    pub(crate) earlier: Option<EarlierRun<'a>>,
    /// The items of the lists of the run, as they are paired with those of that run.
    pairings: ItemPairings,
    /// Where its exchanges with agents are recorded, or replayed from.
    pub(crate) exchanges: Option<Arc<ExchangeFiles>>,
    /// Where its programs are performed.
    pub(crate) workplace: Arc<dyn Workplace>,
    /// Which of its executions continue which threads.
    pub(crate) threads: ThreadClaims,
    /// How often the judges of executions could not be asked, and when each may be asked again.
    unanswered: Mutex<BTreeMap<Address, (u32, Instant)>>,
    /// How many steps may run at once, as the caller says.
    pub(crate) given_jobs: Option<usize>,
    jobs: usize,
    /// The worktrees of items.
    pub(crate) opened: Opened,
}

/// Executions that may not ask their agents.
#[derive(Default)]
struct HeldCalls {
    /// Those of this run, which may be asked again when less is in flight.
    own: BTreeMap<Address, BudgetReached>,
    /// What ended called runs.
    called: Vec<BudgetReached>,
    /// The last event when they were asked about last.
    asked_at: Seq,
}

/// Commands that nobody has taken yet, in the order in which they are.
struct ReadyCommands {
    /// Whether items share the jobs of the run: then what is in an item comes before what begins another list.
    shares_jobs: bool,
    commands: VecDeque<Command>,
}

impl ReadyCommands {
    fn extend(&mut self, commands: impl IntoIterator<Item = Command>) {
        if !self.shares_jobs {
            self.commands.extend(commands);
            return;
        }
        let is_in_item = |command: &Command| command.task().is_some_and(|task| task.at.is_in_items());
        let (inner, other): (Vec<Command>, Vec<Command>) = commands.into_iter().partition(is_in_item);
        inner.into_iter().rev().for_each(|command| self.commands.push_front(command));
        self.commands.extend(other);
    }
}

struct Core {
    machine: Machine,
    ready: ReadyCommands,
    /// Attempts that wait, by a clock that does not jump.
    timers: BTreeSet<(Instant, Address)>,
    /// Executions that wait until fewer calls of their agent are in flight, and how many calls had ended when they began
    /// to.
    queued: BTreeSet<Address>,
    queued_at: u64,
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
                core.ready.commands.retain(|command| !command.begins());
                core.timers.clear();
                core.queued.clear();
            }
            core.wake_due(Instant::now());
            core.take_queued(self.gates.ended());
            if let Some(command) = core.ready.commands.pop_front() {
                core.busy += 1;
                // Whoever is free takes the next command, or looks after the pauses.
                let more = !core.ready.commands.is_empty() || !core.timers.is_empty();
                if more && core.busy == core.workers && core.workers < self.jobs {
                    core.workers += 1;
                    threads.spawn(move || self.work(threads));
                }
                let view = core.machine.view_of(&command);
                drop(core);
                let at = command.task().map(|task| task.at.clone());
                let result = self.carry_out(command, view);
                let is_free = at.is_some_and(|at| self.gates.leave(self.journal.run().as_str(), &at));
                let mut core = self.core();
                core.busy -= 1;
                if let Err(error) = result {
                    core.over.get_or_insert(Err(error));
                }
                drop(core);
                if is_free {
                    // Somebody may wait for it in another run of the same tree.
                    self.stop.ring_all();
                }
                self.stop.bell().ring();
                continue;
            }
            if core.is_idle() && self.ask_again_for_held(&mut core) {
                continue;
            }
            if core.is_idle() {
                let over = self.held().reached();
                let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let ending = match core.machine.stage() {
                    Stage::Ended(outcome) => Ending::Ended(outcome),
                    _ if !self.stop.asked() && !waiting.is_empty() => Ending::Waiting(waiting.clone()),
                    _ if !self.stop.asked() && !over.is_empty() => Ending::OverBudget(over),
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

    /// Carries out a command, and lets go of the thread that it continued.
    fn carry_out(&self, command: Command, view: View) -> Result<(), DriveError> {
        // One that starts an attempt is over with the attempt, or the attempt goes on in another process.
        let at = match &command {
            Command::Start { task, .. } => Some(task.at.clone()),
            _ => None,
        };
        let carried_out = self.take_steps(command, view);
        if let Some(at) = at.filter(|_| carried_out.as_ref().is_ok_and(|recorded| !recorded)) {
            self.threads.release(&at);
        }
        carried_out.map(|_| ())
    }

    /// What the engine says next is done until there is nothing more to do. Whether that was to record an event.
    fn take_steps(&self, command: Command, view: View) -> Result<bool, DriveError> {
        let executor = Executor::new(&self.plan).finding_programs(self.finds_programs);
        let mut driver = LocalDriver::new(self);
        let reads_items = matches!(command, Command::Expand(_)).then(|| view.clone());
        self.wait_safe(executor.awaits(&command, &view))?;
        let mut next = executor.begin(&mut driver, command, view)?;
        loop {
            let mut performance = match next {
                Next::Record(recording) => {
                    let thread = match &recording.kind {
                        EventKind::Finished { output, .. } => output.thread.as_ref(),
                        _ => None,
                    };
                    let thread = thread.map(|thread| (recording.at.clone(), thread.name.clone()));
                    self.record(*recording)?;
                    if let Some((at, name)) = thread {
                        self.publish(&at, &name)?;
                    }
                    return Ok(true);
                }
                Next::Perform(performance) => *performance,
                Next::Pause(at, pause) => {
                    let left = Duration::from_millis(pause.left(now())).min(LONGEST_PAUSE);
                    self.core().timers.insert((Instant::now() + left, at));
                    return Ok(false);
                }
                Next::Ask(at) => {
                    let run = self.journal.run().as_str().into();
                    self.await_decisions(vec![PendingDecision { run, at }]);
                    return Ok(false);
                }
                Next::Hold(at, reached) => {
                    self.held().own.insert(at, reached);
                    return Ok(false);
                }
                Next::Later(at, Some(pause)) => {
                    self.core().timers.insert((Instant::now() + pause.min(LONGEST_PAUSE), at));
                    return Ok(false);
                }
                Next::Later(at, None) => {
                    let mut core = self.core();
                    core.queued.insert(at);
                    core.queued_at = core.queued_at.min(driver.queued_at);
                    return Ok(false);
                }
                Next::Leave => return Ok(false),
            };
            driver.not_after = performance.pending.not_after();
            driver.is_rerun = performance.before.as_ref().is_some_and(is_rerun);
            let recorded = performance.before.map(|before| self.record(before)).transpose()?;
            self.wait_safe(performance.barrier.awaits(recorded))?;
            let result = match performance.effect {
                Effect::WithSecrets(_) => {
                    let pending = &mut performance.pending;
                    match executor.reveal(&mut driver, pending, SecretView::Revealed)? {
                        Ok(effect) => {
                            if effect.is_act() && self.workplace.looks_up_secrets() {
                                let named = executor.reveal(&mut driver, pending, SecretView::Named)?;
                                // What cannot be made with words is nothing that travels.
                                driver.named = Some(named.unwrap_or(Effect::Nothing));
                            }
                            driver.has_secrets = true;
                            let result = driver.perform(&performance.key, &effect, reads_items.as_ref())?;
                            (driver.has_secrets, driver.named) = (false, None);
                            result
                        }
                        Err(failure) => EffectResult::Refused(failure),
                    }
                }
                effect => driver.perform(&performance.key, &effect, reads_items.as_ref())?,
            };
            let result = match self.surroundings.masks() {
                Some(masks) => masks.mask_result(result),
                None => result,
            };
            next = executor.done(&mut driver, performance.pending, result)?;
        }
    }

    /// Which attempt of the item around it an execution belongs to; 1 where there is none.
    pub(crate) fn item_attempt(&self, at: &Address) -> u32 {
        self.core().machine.item_attempt(at).unwrap_or(1)
    }

    fn held(&self) -> MutexGuard<'_, HeldCalls> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what was held because of calls in flight begins again, now that none is.
    fn ask_again_for_held(&self, core: &mut Core) -> bool {
        let mut held = self.held();
        let last = core.machine.last();
        if held.own.is_empty() || held.asked_at == last || self.stop.asked() {
            return false;
        }
        held.asked_at = last;
        let own = std::mem::take(&mut held.own);
        core.ready.extend(own.keys().filter_map(|at| core.machine.next_of(at)));
        !core.ready.commands.is_empty()
    }

    /// What is said to one more call of an agent, and how many calls had ended by then.
    pub(crate) fn admit(&self, at: &Address, used: &Spend, call: &AgentCall) -> (CallAdmission, u64) {
        let seen = self.gates.ended();
        if let Some(pause) = self.pause_of_judge(at) {
            return (CallAdmission::Later(Some(pause)), seen);
        }
        // What no budget allows need not wait for its turn.
        if let Err(reached) = self.admit_by_budget(at, used) {
            return (CallAdmission::OverBudget(reached), seen);
        }
        let place = (&*self.plan.workflow, self.journal.run().as_str());
        let admission = match self.gates.enter(place, at, call, Instant::now()) {
            GatePassage::Open => return (CallAdmission::Now, seen),
            GatePassage::Full => CallAdmission::Later(None),
            GatePassage::After(pause) => {
                let why = WaitReason::Limited(call.agent.clone());
                self.teller.tell(Notice::Waits(at.clone(), why, pause));
                CallAdmission::Later(Some(pause))
            }
        };
        self.core().machine.withdraw(at);
        (admission, seen)
    }

    /// How often the judge of an execution could not be asked, this time included.
    pub(crate) fn unanswered(&self, at: &Address) -> u32 {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let (tries, _) = unanswered.entry(at.clone()).or_insert_with(|| (0, Instant::now()));
        *tries += 1;
        let tries = *tries;
        drop(unanswered);
        // It is not in flight while it waits.
        self.core().machine.withdraw(at);
        tries
    }

    /// The judge of an execution could not be asked, and is asked again after a pause.
    pub(crate) fn judge_waits(&self, at: &Address, pause: Duration) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, until)) = unanswered.get_mut(at) {
            *until = Instant::now() + pause.min(LONGEST_PAUSE);
        }
    }

    /// How long an execution has to wait before its judge is asked again.
    fn pause_of_judge(&self, at: &Address) -> Option<Duration> {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let left = unanswered.get(at)?.1.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    /// Tells the gates which agents the run asked in the last minute before it was stopped.
    fn remember_calls(&self) -> Result<(), JournalError> {
        let (workflow, reader) = (&self.plan.workflow, self.journal.store().reader());
        if workflow.agents.is_empty() {
            return Ok(());
        }
        let (wall, steady) = (now(), Instant::now());
        let last = reader.run(self.journal.run())?.events;
        for seq in (1..=last).rev() {
            let event = reader.event(self.journal.run(), seq)?;
            let age = u64::try_from(wall - event.time).map(Duration::from_millis);
            let Some(age) = age.ok().filter(|age| *age < MINUTE) else { break };
            let step = event.at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
            let agent = step.and_then(|step| match (&event.kind, &step.action, step.evaluator()) {
                (EventKind::Judged(_), _, Some(Evaluator::Agent(judge))) => Some(&judge.agent.value),
                (_, Action::Agent { agent, .. }, _) => Some(&agent.value),
                _ => None,
            });
            let (Some(agent), Some(spent)) = (agent, event.kind.spent()) else { continue };
            // What is not known is when it was asked: it was answered when this was written.
            let asked = steady.checked_sub(age + Duration::from_millis(spent.elapsed_ms));
            if let Some(asked) = asked {
                self.gates.remember(workflow, agent, asked);
            }
        }
        Ok(())
    }

    /// What the machine of this run says to one more call, and those of the runs that called it.
    fn admit_by_budget(&self, at: &Address, used: &Spend) -> Result<(), BudgetReached> {
        let mut core = self.core();
        core.machine.admit(at, used)?;
        let Some(around) = &self.around else { return Ok(()) };
        let (mut spent, in_flight) = core.machine.total_spent();
        spent.add(used);
        let admitted = around(CalledCall::Begins, &spent, in_flight.saturating_sub(1));
        if admitted.is_err() {
            core.machine.withdraw(at);
        }
        admitted
    }

    /// The same for a call in a run that an execution of this one called. `spent` is what that run has spent and this one
    /// has not recorded.
    pub(crate) fn admit_called(
        &self,
        call: CalledCall,
        at: &Address,
        spent: Spend,
        in_flight: u64,
    ) -> Result<(), BudgetReached> {
        let mut core = self.core();
        core.machine.note_called(at, spent.clone(), in_flight);
        if call == CalledCall::Begins {
            core.machine.admit_called(at)?;
        }
        if let Some(around) = &self.around {
            let (total, in_flight) = core.machine.total_spent();
            around(call, &total, in_flight)?;
        }
        if call == CalledCall::Begins {
            core.machine.note_called(at, spent, in_flight.saturating_add(1));
        }
        Ok(())
    }

    /// Notes that a called run stopped because budgets are used up.
    pub(crate) fn hold_call(&self, reached: Vec<BudgetReached>) {
        self.held().called.extend(reached);
    }

    /// Tells the caller of this run what it has spent.
    fn tell_caller(&self, core: &Core) {
        if let Some(around) = &self.around {
            let (spent, in_flight) = core.machine.total_spent();
            // Nothing is asked.
            let _ = around(CalledCall::Noted, &spent, in_flight);
        }
    }

    /// The event of this run that continued a thread last.
    pub(crate) fn thread_event(&self, name: &str) -> Option<Seq> {
        self.core().machine.threads().get(name).copied()
    }

    /// Warns about an execution.
    pub(crate) fn warn(&self, at: &Address, id: &'static str, message: String) {
        let span = at.step(&self.plan).map(|step| self.plan.steps[step as usize].step.origin.span);
        let problem = Problem::warning(id, span.unwrap_or_default(), message);
        self.teller.tell(Notice::Problems(at.clone(), vec![problem]));
    }

    /// What an execution sees now.
    pub(crate) fn view(&self, at: &Address) -> View {
        self.core().machine.view(at)
    }

    /// Notes executions that wait for somebody's decision.
    pub(crate) fn await_decisions(&self, decisions: Vec<PendingDecision>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(decisions);
    }

    /// Records an event. An envelope in it need not be loaded again, nor need what an earlier run left.
    fn record(&self, recording: Recording) -> Result<Seq, DriveError> {
        let Recording { at, kind, durability, envelope } = recording;
        let earlier = match &kind {
            EventKind::Finished { output, kept: Some(_), .. } => Some(output.clone()),
            _ => None,
        };
        self.append(vec![(at, kind)], durability, |seq| {
            if let Some(envelope) = envelope {
                self.values.keep_output(seq, &Arc::new(envelope));
            } else if let Some(output) = earlier {
                self.values.keep_earlier(seq, output);
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
            if ends_attempt(&event.kind) {
                self.threads.release(&event.at);
            }
            let commands = core.machine.apply(&event)?;
            core.ready.extend(commands);
            if event.kind.spent().is_some() {
                self.tell_caller(core);
            }
            // In the order of the journal, so while nobody else can record anything.
            self.teller.tell(Notice::Event(Box::new(event)));
        }
        if !core.ready.commands.is_empty() {
            self.stop.bell().ring();
        }
        Ok(ticket.last())
    }

    /// Waits until events are safe; there is no event 0.
    fn wait_safe(&self, events: SafeEvents) -> Result<(), DriveError> {
        if events.written > events.durable {
            self.journal.wait_written(events.written)?;
        }
        self.wait_synced(events.durable)
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
        let reason = match &ending {
            Ending::Ended(_) => None,
            Ending::Stopped => Some("stopped".to_owned()),
            Ending::Waiting(_) => Some("waiting for a decision".to_owned()),
            Ending::OverBudget(reached) => {
                Some(reached.iter().map(BudgetReached::to_string).collect::<Vec<_>>().join("; "))
            }
        };
        if let Some(reason) = reason {
            let core = self.core();
            let (failed_items, spent) = (Some(core.machine.failed_items()), core.machine.spent().clone());
            drop(core);
            let spent = (!spent.is_nothing()).then(|| Box::new(spent));
            let paused = EventKind::Paused { reason: reason.into(), failed_items, spent };
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

    fn pairings(&self) -> &ItemPairings {
        &self.pairings
    }
}

impl HeldCalls {
    /// The budgets that hold them, each once.
    fn reached(&self) -> Vec<BudgetReached> {
        let mut all: Vec<BudgetReached> = Vec::new();
        for reached in self.own.values().chain(&self.called) {
            if !all.iter().any(|known| (&known.step, known.key) == (&reached.step, reached.key)) {
                all.push(reached.clone());
            }
        }
        all
    }
}

impl Core {
    /// Queues the attempts whose pause is over.
    fn wake_due(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(until, _)| *until <= now) {
            let due = self.timers.pop_first();
            self.ready.extend(due.and_then(|(_, at)| self.machine.next_of(&at)));
        }
    }

    /// Queues what waits for a call to end, if one has.
    fn take_queued(&mut self, ended: u64) {
        if !self.queued.is_empty() && self.queued_at < ended {
            let queued = std::mem::take(&mut self.queued);
            self.ready.extend(queued.iter().filter_map(|at| self.machine.next_of(at)));
            self.queued_at = u64::MAX;
        }
    }

    /// Whether nothing goes on and nothing is waited for.
    fn is_idle(&self) -> bool {
        self.busy == 0 && self.timers.is_empty() && self.queued.is_empty()
    }
}

/// Whether what is recorded is that an attempt begins which was under way before.
fn is_rerun(recording: &Recording) -> bool {
    matches!(recording.kind, EventKind::Started { rerun: true, .. })
}

/// Whether it is still known what came of programs that were under way when the run was killed: they are asked for
/// again, whatever `on_crash` says, and nothing begins twice. What this process did itself follows `on_crash`.
fn finds_programs(journal: &Journal<'_>, workplace: &dyn Workplace) -> Result<bool, JournalError> {
    let Some(memory) = workplace.remembers() else { return Ok(false) };
    let reader = journal.store().reader();
    let last = match reader.run(journal.run())?.events {
        0 => return Ok(false),
        last => reader.event(journal.run(), last)?,
    };
    // What ran then ended later, and is remembered from its end on.
    let since = u64::try_from(now() - last.time).map_or(Duration::ZERO, Duration::from_millis);
    Ok(since < memory)
}
