//! One life of the program: from its start, or from what a crash left, to its end or the next crash.
//!
//! It stands for the driver and its executors: so many workers, a queue of commands, timers, a journal that is
//! committed by somebody else. What happens next among all that could is decided by the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Budget, OnCrash, Step};
use threadline_lang::{Number, Scope};

use super::chance::{Fate, Fated};
use super::check::{Violation, value_of};
use super::elsewhere::{self, ActOrder};
use super::{Execution, Interrupt, InterruptMoment, Interruption, Kept, Outside, Simulation};
use crate::event::{Address, BudgetChange, Event, EventKind, RunStarted, SafeEvents, Seq};
use crate::execute::effect::{Effect, EffectKey, EffectResult, Role};
use crate::execute::inquiry::Inquiry;
use crate::execute::result::some_spent;
use crate::execute::{Driver as _, Durability, Executor, Next, Performance};
use crate::machine::{Command, InFlight, Machine, Outcome, Stage, Task, is_found_elsewhere};

/// What runs are called here.
const RUN: &str = "simulated";

pub(super) struct Life<'s> {
    pub(super) simulation: &'s Simulation,
    pub(super) fate: Fate,
    interruption: Option<Interruption>,
    in_flight: Option<OnCrash>,
    pub(super) outside: &'s mut Outside,
    pub(super) machine: Machine,
    /// The names that no step makes.
    pub(super) names: Scope,
    ready: VecDeque<Command>,
    workers: Vec<Work>,
    timers: Vec<(u64, Address)>,
    appends: u64,
    asking: bool,
    /// Executions that may not ask their agents, and the last event when they were asked about.
    held: (BTreeSet<Address>, Seq),
    /// The number of events that were recorded when an execution was last admitted to ask its agent.
    pub(super) admitted: BTreeMap<Address, Seq>,
    stopping: bool,
    cancelled: bool,
    /// What a phase that is being closed is made of.
    pub(super) phase_reads: Vec<i64>,
    /// How often in a hundred the disk is ready before something else happens.
    disk: u64,
}

/// How a life ended.
pub(super) enum LifeEnd {
    Ended(Outcome),
    /// Everything up to this event is left, and of the rest so much.
    Killed(Seq, Kept),
    Stopped,
    Waiting,
}

/// Why a life goes no further.
pub(super) enum Cut {
    Killed(Seq, Kept),
    Broken(Violation),
}

impl<T: Into<Violation>> From<T> for Cut {
    fn from(violation: T) -> Self {
        Self::Broken(violation.into())
    }
}

/// What a worker is about.
enum Work {
    /// A command that waits until it may be acted upon.
    Command(Command),
    /// An effect that is performed when these events are safe; whether its attempt was under way before.
    Waiting { performance: Box<Performance>, after: SafeEvents, rerun: bool },
    /// An attempt that is being made until then. One that is made elsewhere is asked for.
    Running { performance: Box<Performance>, until: u64, inquiry: Option<Inquiry> },
}

/// What can happen next.
enum SimulatedTurn {
    /// A free worker takes a command.
    Take,
    /// A worker goes on.
    Work(usize),
    /// A pause is over.
    Wake(usize),
    /// Some of what was appended is handed to the operating system.
    Write,
    /// Some of what was written reaches the disk.
    Sync,
}

/// The clock jumps by at most this, in milliseconds: three days.
const LONGEST_JUMP: u64 = 3 * 24 * 60 * 60 * 1_000;

impl<'s> Life<'s> {
    pub(super) fn new(
        simulation: &'s Simulation,
        fate: Fate,
        interruption: Option<Interruption>,
        in_flight: Option<OnCrash>,
        outside: &'s mut Outside,
    ) -> Self {
        let disk = 5 + outside.random.below(95);
        Self {
            simulation,
            fate,
            interruption,
            in_flight,
            outside,
            machine: Machine::new(Arc::clone(&simulation.plan)),
            names: simulation.names(),
            ready: VecDeque::new(),
            workers: Vec::new(),
            timers: Vec::new(),
            appends: 0,
            asking: false,
            held: Default::default(),
            admitted: BTreeMap::new(),
            stopping: false,
            cancelled: false,
            phase_reads: Vec::new(),
            disk,
        }
    }

    pub(super) fn appends(&self) -> u64 {
        self.appends
    }

    pub(super) fn into_machine(self) -> Machine {
        self.machine
    }

    pub(super) fn live(&mut self) -> Result<LifeEnd, Violation> {
        match self.begin().and_then(|end| end.map_or_else(|| self.go_on(), Ok)) {
            Ok(end) => Ok(end),
            Err(Cut::Broken(violation)) => Err(violation),
            Err(Cut::Killed(safe, kept)) => {
                self.outside.checker.abrupt(self.outside.life);
                Ok(LifeEnd::Killed(safe, kept))
            }
        }
    }

    /// Takes what the journal has. A run that is over is over, unless somebody looked at that end and goes on with it.
    fn begin(&mut self) -> Result<Option<LifeEnd>, Cut> {
        for event in &self.outside.journal {
            self.machine.apply(event)?;
        }
        let ends =
            self.outside.journal.iter().filter(|event| matches!(event.kind, EventKind::RunEnded { .. }));
        let ends = ends.count() as u64;
        let first = match self.machine.stage() {
            Stage::New => EventKind::RunStarted(RunStarted::bare(
                RUN.into(),
                self.simulation.plan.workflow.name.clone(),
            )),
            Stage::Ended(outcome) if ends > u64::from(self.fate.luck) => {
                return Ok(Some(LifeEnd::Ended(outcome)));
            }
            Stage::Ended(Outcome::Failed | Outcome::Stopped) => {
                EventKind::Resumed { failed: self.fate.wants_failed(), budgets: self.raised(), jobs: None }
            }
            Stage::Ended(Outcome::Completed) => {
                EventKind::Resumed { failed: true, budgets: self.raised(), jobs: None }
            }
            Stage::Going => EventKind::Resumed { failed: false, budgets: self.raised(), jobs: None },
        };
        self.append(Address::default(), first, Durability::Now)?;
        self.ready.clear();
        let finds_programs = self.outside.elsewhere.is_some();
        let in_flight = InFlight { decided: self.in_flight, finds_programs };
        self.ready.extend(self.machine.outstanding(in_flight)?);
        Ok(None)
    }

    fn go_on(&mut self) -> Result<LifeEnd, Cut> {
        loop {
            self.outside.fuel = self.outside.fuel.saturating_sub(1);
            if self.outside.fuel == 0 {
                return Err(self.violation("there is no end to it".to_owned()));
            }
            let mut possible = self.possible();
            if possible.is_empty() {
                if self.pass_time() {
                    continue;
                }
                if self.ask_again_for_held() {
                    continue;
                }
                return self.end();
            }
            let chosen = self.outside.random.below(possible.len() as u64);
            match possible.swap_remove(usize::try_from(chosen).unwrap_or(0)) {
                SimulatedTurn::Take => self.workers.extend(self.ready.pop_front().map(Work::Command)),
                SimulatedTurn::Work(worker) => self.work(worker)?,
                SimulatedTurn::Wake(timer) => {
                    let (_, at) = self.timers.swap_remove(timer);
                    self.ready.extend(self.machine.after_pause(&at));
                }
                SimulatedTurn::Write => {
                    let pending = self.outside.journal.len() as u64 - self.outside.safe.written;
                    self.outside.safe.written += 1 + self.outside.random.below(pending);
                }
                SimulatedTurn::Sync => {
                    let pending = self.outside.safe.written - self.outside.safe.durable;
                    self.outside.safe.durable += 1 + self.outside.random.below(pending);
                }
            }
        }
    }

    fn possible(&mut self) -> Vec<SimulatedTurn> {
        let mut possible = Vec::new();
        if !self.ready.is_empty() && self.workers.len() < self.simulation.jobs {
            possible.push(SimulatedTurn::Take);
        }
        let safe = self.outside.safe;
        for (index, work) in self.workers.iter().enumerate() {
            let free = match work {
                Work::Command(command) => {
                    let view = self.machine.view_of(command);
                    self.executor().awaits(command, &view).are_within(safe)
                }
                Work::Waiting { after, .. } => after.are_within(safe),
                Work::Running { until, .. } => *until <= self.outside.steady,
            };
            possible.extend(free.then_some(SimulatedTurn::Work(index)));
        }
        let due = |(_, (until, _)): &(usize, &(u64, Address))| *until <= self.outside.steady;
        possible
            .extend(self.timers.iter().enumerate().filter(due).map(|(index, _)| SimulatedTurn::Wake(index)));
        let is_stuck = possible.is_empty();
        if safe.written < self.outside.journal.len() as u64
            && (is_stuck || self.outside.random.percent(self.disk))
        {
            possible.push(SimulatedTurn::Write);
        }
        if safe.durable < safe.written && (is_stuck || self.outside.random.percent(self.disk)) {
            possible.push(SimulatedTurn::Sync);
        }
        possible
    }

    /// Goes to the next moment at which something happens.
    fn pass_time(&mut self) -> bool {
        let running = self.workers.iter().filter_map(|work| match work {
            Work::Running { until, .. } => Some(*until),
            _ => None,
        });
        let Some(next) = running.chain(self.timers.iter().map(|(until, _)| *until)).min() else {
            return false;
        };
        let passed = next.saturating_sub(self.outside.steady);
        self.outside.steady += passed;
        self.outside.clock += i64::try_from(passed).unwrap_or(0);
        self.jump();
        true
    }

    fn jump(&mut self) {
        if self.simulation.jumps && self.outside.random.percent(30) {
            let by = i64::try_from(self.outside.random.below(2 * LONGEST_JUMP)).unwrap_or(0);
            self.outside.clock += by - i64::try_from(LONGEST_JUMP).unwrap_or(0);
        }
    }

    /// Whether what was held because of calls in flight begins again, now that none is.
    fn ask_again_for_held(&mut self) -> bool {
        let (held, last) = (std::mem::take(&mut self.held.0), self.machine.last());
        if held.is_empty() || self.held.1 == last || self.stopping {
            self.held.0 = held;
            return false;
        }
        self.held.1 = last;
        self.ready.extend(held.iter().filter_map(|at| self.machine.next_of(at)));
        !self.ready.is_empty()
    }

    /// Whoever goes on with a run whose budgets were used up doubles them.
    fn raised(&self) -> Vec<BudgetChange> {
        let plan = &self.simulation.plan;
        let of_run = plan.workflow.budget.as_ref().map(|budget| (None, budget));
        let of_steps = plan
            .steps
            .iter()
            .filter_map(|planned| Some((Some(planned.number.clone()), planned.step.budget.as_ref()?)));
        let raises = self.outside.over_budget.min(20);
        let change = |(step, budget): (Option<EcoString>, &Budget)| {
            let larger = |count: Option<u64>| count.map(|count| count << raises);
            let factor = Number::int(1 << raises);
            let cost = budget.cost.as_ref().and_then(|cost| cost.mul(&factor).ok());
            let time = budget.time.map(|time| time * (1 << raises));
            let budget = Budget { turns: larger(budget.turns), tokens: larger(budget.tokens), cost, time };
            BudgetChange { step, budget }
        };
        if raises == 0 { Vec::new() } else { of_run.into_iter().chain(of_steps).map(change).collect() }
    }

    /// Nothing is left to do.
    fn end(&mut self) -> Result<LifeEnd, Cut> {
        let end = match self.machine.stage() {
            Stage::Ended(outcome) => return Ok(LifeEnd::Ended(outcome)),
            _ if self.stopping => LifeEnd::Stopped,
            _ if self.asking => LifeEnd::Waiting,
            _ if !self.held.0.is_empty() => {
                self.outside.over_budget += 1;
                LifeEnd::Stopped
            }
            _ => return Err(self.violation("nothing is left to do, and the run is not over".to_owned())),
        };
        let failed_items = Some(self.machine.failed_items());
        let spent = some_spent(self.machine.spent());
        let paused = EventKind::Paused { reason: "stopped".into(), failed_items, spent };
        self.append(Address::default(), paused, Durability::Now)?;
        self.outside.safe = SafeEvents::all(&self.outside.journal);
        Ok(end)
    }

    // ---- the journal -----------------------------------------------------------------------------------

    fn append(&mut self, at: Address, what: EventKind, durability: Durability) -> Result<Seq, Cut> {
        self.outside.checker.pauses(&at, &what, self.outside.clock)?;
        self.appends += 1;
        self.interrupt(InterruptMoment::Before)?;
        self.jump();
        let seq = self.outside.journal.len() as u64 + 1;
        let event = Event { seq, time: self.outside.clock, at, kind: what };
        self.outside.checker.event(&event, self.outside.safe.durable)?;
        let commands = self.machine.apply(&event)?;
        self.outside.checker.awaited(&event, durability, &commands)?;
        self.outside.journal.push(event);
        self.ready.extend(commands);
        self.interrupt(InterruptMoment::After)?;
        let ready = self.ready.iter().filter_map(|command| command.task().map(|task| &task.at));
        let work = self.workers.iter().filter_map(Work::at);
        let waiting = self.timers.iter().map(|(_, at)| at);
        self.outside.checker.under_way(ready.chain(work).chain(waiting))?;
        Ok(seq)
    }

    fn interrupt(&mut self, moment: InterruptMoment) -> Result<(), Cut> {
        let now = |interruption: &Interruption| {
            interruption.append == self.appends && interruption.moment == moment
        };
        let Some(interruption) = self.interruption.filter(now) else { return Ok(()) };
        match interruption.how {
            Interrupt::Kill(kept) => return Err(Cut::Killed(self.outside.safe.written, kept)),
            Interrupt::PowerLoss(kept) => return Err(Cut::Killed(self.outside.safe.durable, kept)),
            Interrupt::Stop => {}
            Interrupt::Cancel => {
                self.cancelled = true;
                self.end_elsewhere();
                self.workers.retain(|work| !matches!(work, Work::Running { .. }));
                self.outside.checker.abrupt(self.outside.life);
            }
        }
        self.stopping = true;
        self.machine.stop();
        self.ready.retain(|command| !command.begins());
        self.timers.clear();
        Ok(())
    }

    // ---- commands --------------------------------------------------------------------------------------

    fn work(&mut self, worker: usize) -> Result<(), Cut> {
        match self.workers.swap_remove(worker) {
            Work::Command(command) => self.carry_out(command),
            Work::Waiting { performance, rerun, .. } => self.perform(performance, rerun),
            Work::Running { performance, inquiry: Some(inquiry), .. } => self.hear(performance, inquiry),
            Work::Running { performance, inquiry: None, .. } => self.done(*performance),
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<(), Cut> {
        match &command {
            Command::EndItem { task, ending } => {
                self.outside.checker.runs(&task.at, ending.runner)?;
                let left = ending.output.filter(|_| !ending.succeeded);
                let left = left.map(|seq| self.envelope(seq)).transpose()?;
                let error = left.as_ref().and_then(|left| left.meta.get(names::ERROR)?.as_str());
                self.outside.checker.item_ends(&task.at, ending.succeeded, error.map(Into::into));
            }
            Command::Skip { task, .. } => self.outside.checker.cannot_begin(&task.at),
            Command::FailAfterCrash(task) => {
                let plan = &self.simulation.plan;
                let is_known = self.outside.elsewhere.is_some()
                    && self.in_flight != Some(OnCrash::Fail)
                    && is_found_elsewhere(&plan.workflow, self.step(task));
                if is_known {
                    let what =
                        format!("`{}` fails after a crash, and a worker knows what came of it", task.at);
                    return Err(self.violation(what));
                }
                self.outside.checker.fails_by_crash();
            }
            Command::Close { last, captured, .. } => {
                let left = last.iter().chain(captured.iter().map(|(_, seq)| seq));
                self.phase_reads = left.map(|seq| value_of(&self.outside.journal, *seq)).collect();
            }
            Command::Collect { task, list, counts, cut_short, .. } => {
                let results = self.item_numbers(task, *list)?;
                self.outside.checker.counted(&task.at, *counts, cut_short.is_some())?;
                if results.len() as u64 + counts.left() != counts.total {
                    let what = format!("`{}` has {} results of {counts:?}", task.at, results.len());
                    return Err(self.violation(what));
                }
            }
            _ => {}
        }
        let view = self.machine.view_of(&command);
        let next = self.executor().begin(self, command, view)?;
        self.follow(next)
    }

    fn follow(&mut self, next: Next) -> Result<(), Cut> {
        match next {
            Next::Record(recording) => {
                self.append(recording.at, recording.kind, recording.durability)?;
            }
            Next::Perform(mut performance) => {
                let rerun = performance
                    .before
                    .as_ref()
                    .is_some_and(|before| matches!(before.kind, EventKind::Started { rerun: true, .. }));
                let recorded = match performance.before.take() {
                    Some(before) => Some(self.append(before.at, before.kind, before.durability)?),
                    None => None,
                };
                let after = performance.barrier.awaits(recorded);
                self.workers.push(Work::Waiting { performance, after, rerun });
            }
            Next::Pause(at, pause) => {
                self.timers.push((self.outside.steady + pause.left(self.outside.clock), at));
            }
            Next::Ask(_) => self.asking = true,
            Next::Later(at, _) | Next::Hold(at, _) => {
                self.held.0.insert(at);
            }
            Next::Leave => {}
        }
        Ok(())
    }

    /// Performs an effect: an attempt takes its time, the rest is done at once. Nothing that a step asks of the world is
    /// begun after a cancellation.
    fn perform(&mut self, performance: Box<Performance>, rerun: bool) -> Result<(), Cut> {
        let EffectKey { at, attempt, role, exchange, .. } = performance.key.clone();
        if self.cancelled && role != Role::Worktree {
            return Ok(());
        }
        let limit = (role == Role::Act).then(|| self.machine.view(&at).limit).flatten();
        let limit = limit.map(|limit| (limit, self.outside.clock));
        self.outside.checker.perform(&performance, self.outside.safe, limit)?;
        self.note_asked(&performance.key, &performance.effect);
        if role != Role::Act {
            return self.done(*performance);
        }
        let fated = self.fated(&at);
        let until = self.outside.steady + self.time_of(&performance.key, &performance.effect);
        let once = self.asked_elsewhere(&performance);
        let execution = Execution { at, fated, attempt, exchange, life: self.outside.life };
        let acts = !matches!(performance.effect, Effect::Nothing);
        // What is performed elsewhere is asked for again, whatever `on_crash` says: it is the same act.
        let in_flight = once.map_or(self.in_flight, |_| Some(OnCrash::Rerun));
        self.outside.checker.execute(execution, acts, self.outside.safe, in_flight)?;
        if let Some(once) = once {
            let repeats = rerun && self.in_flight == Some(OnCrash::Rerun);
            return self.ask(performance, Inquiry::new(once, repeats));
        }
        self.workers.push(Work::Running { performance, until, inquiry: None });
        Ok(())
    }

    // ---- other machines ----------------------------------------------------------------------------------

    /// Whether an effect that is performed elsewhere may begin at most once; nothing where it is performed here.
    fn asked_elsewhere(&self, performance: &Performance) -> Option<bool> {
        let plan = &self.simulation.plan;
        let step = &plan.steps[performance.key.at.step(plan)? as usize].step;
        let is_asked = self.outside.elsewhere.is_some()
            && performance.effect.is_act()
            && is_found_elsewhere(&plan.workflow, step);
        is_asked.then(|| plan.workflow.on_crash(step) != OnCrash::Rerun)
    }

    /// Asks for an act by the key that it has now.
    fn ask(&mut self, performance: Box<Performance>, inquiry: Inquiry) -> Result<(), Cut> {
        let key = inquiry.key(RUN, &performance.key);
        if !self.outside.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.knows(&key)) {
            let result = self.comes_of(&performance)?;
            let EffectKey { at, attempt, exchange, .. } = &performance.key;
            let order = ActOrder {
                of: (self.fated(at), *attempt, *exchange),
                once: self.asked_elsewhere(&performance) == Some(true),
                duration: self.time_of(&performance.key, &performance.effect),
                life: self.outside.life,
                result,
            };
            let now = self.outside.steady;
            if let Some(elsewhere) = &mut self.outside.elsewhere {
                elsewhere.ask(&key, &order, now);
            }
        }
        let now = self.outside.steady;
        let until = self.outside.elsewhere.as_mut().map_or(now, |elsewhere| elsewhere.arrives(&key, now));
        self.workers.push(Work::Running { performance, until, inquiry: Some(inquiry) });
        Ok(())
    }

    /// An answer arrives, or is lost on the way: then it is asked for again.
    fn hear(&mut self, performance: Box<Performance>, mut inquiry: Inquiry) -> Result<(), Cut> {
        let key = inquiry.key(RUN, &performance.key);
        let (now, life) = (self.outside.steady, self.outside.life);
        let elsewhere = self.outside.elsewhere.as_mut();
        let (is_lost, news) =
            elsewhere.map_or((false, None), |elsewhere| (elsewhere.loses(), elsewhere.news(&key, life)));
        if is_lost {
            let until = now + elsewhere::PATIENCE;
            self.workers.push(Work::Running { performance, until, inquiry: Some(inquiry) });
            return Ok(());
        }
        let Some(news) = news else {
            return Err(self.violation(format!("`{key}` is not known to those who were asked for it")));
        };
        let Some(result) = inquiry.hear(news, self.cancelled) else { return self.ask(performance, inquiry) };
        if let EffectResult::Interrupted(_) = result {
            self.outside.checker.abrupt(life);
            self.outside.checker.fails_by_crash();
        }
        self.ends_with(*performance, result)
    }

    /// Everything that is asked for is to end.
    fn end_elsewhere(&mut self) {
        let Some(elsewhere) = &mut self.outside.elsewhere else { return };
        for work in &self.workers {
            if let Work::Running { performance, inquiry: Some(inquiry), .. } = work {
                elsewhere.end(&inquiry.key(RUN, &performance.key), self.outside.steady);
            }
        }
    }

    /// How long an effect of an attempt takes, in milliseconds. What an agent says before its last answer takes no time:
    /// only that counts for what is foretold.
    pub(super) fn time_of(&self, key: &EffectKey, effect: &Effect) -> u64 {
        if key.role != Role::Act || self.goes_on(key, effect) {
            return 0;
        }
        let took = self.fate.duration(&self.fated(&key.at), key.attempt);
        self.time_limit(effect).map_or(took, |most| most.min(took))
    }

    /// How long a program may take at most, in milliseconds. Loops have times of their own, which nothing exceeds.
    pub(super) fn time_limit(&self, effect: &Effect) -> Option<u64> {
        let Effect::Process(spec) = effect else { return None };
        let limit = spec.limits.timeout.filter(|_| !self.outside.walks)?;
        u64::try_from(limit.as_millis()).ok()
    }

    fn done(&mut self, performance: Performance) -> Result<(), Cut> {
        let result = self.comes_of(&performance)?;
        self.ends_with(performance, result)
    }

    /// Invents what comes of an effect that is performed.
    fn comes_of(&mut self, performance: &Performance) -> Result<EffectResult, Cut> {
        let Performance { key, effect, .. } = performance;
        let reads = match (key.role, key.at.step(&self.simulation.plan)) {
            (Role::Act, Some(step)) => self.reads(&Task { at: key.at.clone(), step, as_of: key.as_of })?,
            _ => Vec::new(),
        };
        Ok(self.invent(key, effect, &reads))
    }

    fn ends_with(&mut self, performance: Performance, result: EffectResult) -> Result<(), Cut> {
        let next = self.executor().done(self, performance.pending, result)?;
        self.follow(next)
    }

    pub(super) fn fated(&self, at: &Address) -> Fated {
        self.outside.checker.fated(at)
    }

    fn executor(&self) -> Executor<'s> {
        Executor::new(&self.simulation.plan).finding_programs(self.outside.elsewhere.is_some())
    }

    pub(super) fn step(&self, task: &Task) -> &Step {
        &self.simulation.plan.steps[task.step as usize].step
    }

    pub(super) fn violation(&self, what: String) -> Cut {
        Cut::Broken(Violation { seq: self.machine.last(), what })
    }
}

impl Work {
    /// The execution it is about.
    fn at(&self) -> Option<&Address> {
        match self {
            Self::Command(command) => command.task().map(|task| &task.at),
            Self::Waiting { performance, .. } | Self::Running { performance, .. } => {
                Some(&performance.key.at)
            }
        }
    }
}
