//! One life of the program: from its start, or from what a crash left, to its end or the next crash.
//!
//! It stands for the driver and its executors: so many workers, a queue of commands, timers, a journal that is
//! committed by somebody else. What happens next among all that could is decided by the seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::{Action, OnCrash, Shape, Step};
use threadline_lang::{NoWorld, Scope, Session, Value};

use super::chance::{self, Fate, Fated};
use super::check::{Violation, item_of, value_of};
use super::{Execution, Interrupt, Interruption, Kept, Moment, Outside, Simulation};
use crate::evaluate;
use crate::event::{
    Address, Bounds, Datum, ERROR, Event, EventKind, ItemEnded, Judged, Listed, Output, RunStarted, Seq,
    Status,
};
use crate::hash::Hash;
use crate::judge;
use crate::machine::{Command, ItemEnding, Machine, Outcome, Stage, Task};
use crate::view::MapView;

pub(super) struct Life<'s> {
    simulation: &'s Simulation,
    fate: Fate,
    interruption: Option<Interruption>,
    in_flight: Option<OnCrash>,
    outside: &'s mut Outside,
    machine: Machine,
    ready: VecDeque<Command>,
    workers: Vec<Work>,
    timers: Vec<(u64, Address)>,
    appends: u64,
    asking: bool,
    stopping: bool,
    cancelled: bool,
    /// How often in a hundred the disk is ready before something else happens.
    disk: u64,
}

/// How a life ended.
pub(super) enum LifeEnd {
    Ended(Outcome),
    Killed(Kept),
    Stopped,
    Waiting,
}

/// Why a life goes no further.
enum Cut {
    Killed(Kept),
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
    /// An attempt that is recorded, and is made when this event is on disk.
    Starting { attempt: Attempt, after: Seq },
    /// An attempt that is being made until then.
    Running { attempt: Attempt, until: u64 },
}

#[derive(Clone)]
struct Attempt {
    task: Task,
    number: u32,
    base: u32,
}

/// What can happen next.
enum Next {
    /// A free worker takes a command.
    Take,
    /// A worker goes on.
    Work(usize),
    /// A pause is over.
    Wake(usize),
    /// Some of what was appended reaches the disk.
    Commit,
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
            ready: VecDeque::new(),
            workers: Vec::new(),
            timers: Vec::new(),
            appends: 0,
            asking: false,
            stopping: false,
            cancelled: false,
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
            Err(Cut::Killed(kept)) => {
                self.outside.checker.abrupt(self.outside.life);
                Ok(LifeEnd::Killed(kept))
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
            Stage::New => EventKind::RunStarted(started(&self.simulation.plan)),
            Stage::Ended(outcome) if ends > u64::from(self.fate.luck) => {
                return Ok(Some(LifeEnd::Ended(outcome)));
            }
            Stage::Ended(Outcome::Failed | Outcome::Stopped) => {
                EventKind::Resumed { failed: self.fate.wants_failed() }
            }
            Stage::Ended(Outcome::Completed) => EventKind::Resumed { failed: true },
            Stage::Going => EventKind::Resumed { failed: false },
        };
        self.append(Address::default(), first)?;
        self.ready.clear();
        for command in self.machine.outstanding(self.in_flight) {
            match command {
                Command::Ask(_) => self.asking = true,
                command => self.ready.push_back(command),
            }
        }
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
                return self.end();
            }
            let chosen = self.outside.random.below(possible.len() as u64);
            match possible.swap_remove(usize::try_from(chosen).unwrap_or(0)) {
                Next::Take => self.workers.extend(self.ready.pop_front().map(Work::Command)),
                Next::Work(worker) => self.work(worker)?,
                Next::Wake(timer) => {
                    let (_, at) = self.timers.swap_remove(timer);
                    self.ready.extend(self.machine.waited(&at));
                }
                Next::Commit => {
                    let pending = self.outside.journal.len() as u64 - self.outside.durable;
                    self.outside.durable += 1 + self.outside.random.below(pending);
                }
            }
        }
    }

    fn possible(&mut self) -> Vec<Next> {
        let mut possible = Vec::new();
        if !self.ready.is_empty() && self.workers.len() < self.simulation.jobs {
            possible.push(Next::Take);
        }
        let durable = self.outside.durable;
        for (index, work) in self.workers.iter().enumerate() {
            let free = match work {
                // The driver does these at once.
                Work::Command(Command::FailAfterCrash(_) | Command::Wait { .. }) => true,
                Work::Command(command) => command.task().is_none_or(|task| task.as_of <= durable),
                Work::Starting { after, .. } => *after <= durable,
                Work::Running { until, .. } => *until <= self.outside.steady,
            };
            possible.extend(free.then_some(Next::Work(index)));
        }
        let due = |(_, (until, _)): &(usize, &(u64, Address))| *until <= self.outside.steady;
        possible.extend(self.timers.iter().enumerate().filter(due).map(|(index, _)| Next::Wake(index)));
        let pending = durable < self.outside.journal.len() as u64;
        if pending && (possible.is_empty() || self.outside.random.percent(self.disk)) {
            possible.push(Next::Commit);
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

    /// Nothing is left to do.
    fn end(&mut self) -> Result<LifeEnd, Cut> {
        let end = match self.machine.stage() {
            Stage::Ended(outcome) => return Ok(LifeEnd::Ended(outcome)),
            _ if self.stopping => LifeEnd::Stopped,
            _ if self.asking => LifeEnd::Waiting,
            _ => return Err(self.violation("nothing is left to do, and the run is not over".to_owned())),
        };
        self.append(Address::default(), EventKind::Paused { reason: "stopped".into() })?;
        self.outside.durable = self.outside.journal.len() as u64;
        Ok(end)
    }

    // ---- the journal -----------------------------------------------------------------------------------

    fn append(&mut self, at: Address, what: EventKind) -> Result<Seq, Cut> {
        self.appends += 1;
        self.interrupt(Moment::Before)?;
        self.jump();
        let seq = self.outside.journal.len() as u64 + 1;
        let event = Event { seq, time: self.outside.clock, at, kind: what };
        self.outside.checker.event(&event, self.outside.durable)?;
        let commands = self.machine.apply(&event)?;
        self.outside.journal.push(event);
        self.ready.extend(commands);
        self.interrupt(Moment::After)?;
        let ready = self.ready.iter().filter_map(|command| command.task().map(|task| &task.at));
        let work = self.workers.iter().filter_map(|work| Some(&work.task()?.at));
        let waiting = self.timers.iter().map(|(_, at)| at);
        self.outside.checker.under_way(ready.chain(work).chain(waiting))?;
        Ok(seq)
    }

    fn interrupt(&mut self, moment: Moment) -> Result<(), Cut> {
        let now = |interruption: &Interruption| {
            interruption.append == self.appends && interruption.moment == moment
        };
        let Some(interruption) = self.interruption.filter(now) else { return Ok(()) };
        match interruption.how {
            Interrupt::Kill(kept) => return Err(Cut::Killed(kept)),
            Interrupt::Stop => {}
            Interrupt::Cancel => {
                self.cancelled = true;
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
            Work::Starting { .. } if self.cancelled => Ok(()),
            Work::Starting { attempt, .. } => {
                let at = attempt.task.at.clone();
                let fated = self.fated(&at);
                let until = self.outside.steady + self.fate.duration(&fated, attempt.number);
                let execution = Execution { at, fated, attempt: attempt.number, life: self.outside.life };
                self.outside.checker.execute(execution, self.outside.durable, self.in_flight)?;
                self.workers.push(Work::Running { attempt, until });
                Ok(())
            }
            Work::Running { attempt, .. } => self.attempt_done(&attempt),
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<(), Cut> {
        match command {
            Command::Decide(task) => {
                let fated = self.fated(&task.at);
                self.reads(&task)?;
                let what = if !self.fate.evaluates(&fated, "when") {
                    unresolved(&task)
                } else if self.fate.holds(&fated) {
                    EventKind::Decided { as_of: task.as_of, computed: Vec::new() }
                } else {
                    let output = output(Status::Skipped, -2);
                    EventKind::Skipped { as_of: task.as_of, computed: Vec::new(), output }
                };
                self.append(task.at, what)?;
            }
            Command::Skip { task, .. } => {
                let output = output(Status::Skipped, -2);
                let what = EventKind::Skipped { as_of: task.as_of, computed: Vec::new(), output };
                self.append(task.at, what)?;
            }
            Command::Expand(task) => self.expand(task)?,
            Command::Start { task, attempt, base, rerun } => self.start(task, attempt, base, rerun)?,
            Command::Wait { task, pause } => {
                self.timers.push((self.outside.steady + pause.left(self.outside.clock), task.at));
            }
            Command::EndItem { task, ending } => self.end_item(task, ending)?,
            Command::BeginItem { task, attempt } => {
                self.append(task.at, EventKind::ItemBegun { attempt })?;
            }
            Command::Close { task, last, captured } => {
                let left = last.into_iter().chain(captured.iter().map(|(_, seq)| *seq));
                let left: Vec<i64> = left.map(|seq| value_of(&self.outside.journal, seq)).collect();
                self.reads(&task)?;
                let fated = self.fated(&task.at);
                let well = self.fate.evaluates(&fated, "variables");
                let value = self.fate.value(&fated, &left);
                let output = if well { output(Status::Completed, value) } else { output(Status::Failed, -1) };
                self.append(task.at, EventKind::Finished { output, results: None })?;
            }
            Command::Collect { task, list, counts, rules } => {
                let results = self.results(&task, list)?;
                self.outside.checker.counted(&task.at, counts)?;
                if results.len() as u64 + counts.left() != counts.total {
                    let what = format!("`{}` has {} results of {counts:?}", task.at, results.len());
                    return Err(self.violation(what));
                }
                let results: Vec<i64> = results.into_iter().flatten().collect();
                let fated = self.fated(&task.at);
                let value = self.fate.value(&fated, &results);
                let goes_on = rules.goes_on && !rules.stops_after(counts.failed);
                let well = (counts.failed == 0 || goes_on) && self.fate.evaluates(&fated, "results");
                let output = if well { output(Status::Completed, value) } else { output(Status::Failed, -1) };
                self.append(task.at, EventKind::Finished { output, results: None })?;
            }
            Command::FailAfterCrash(task) => {
                self.outside.checker.fails_by_crash();
                self.append(
                    task.at,
                    EventKind::Finished { output: output(Status::Failed, -1), results: None },
                )?;
            }
            Command::End { outcome, ended } => {
                self.append(
                    Address::default(),
                    EventKind::RunEnded { outcome, exports: Datum::Here(Value::NULL), ended },
                )?;
            }
            Command::Bound => {
                let bounds = self.bounds();
                self.append(Address::default(), EventKind::Bounded { computed: Vec::new(), bounds })?;
            }
            Command::Judge(task) => self.judge(&task)?,
            Command::Ask(_) => self.asking = true,
        }
        Ok(())
    }

    /// What holds for the loop, as the file says.
    fn bounds(&self) -> Bounds {
        let Shape::Loop(of) = &self.simulation.plan.workflow.shape else { return Bounds::default() };
        let mut world = NoWorld;
        evaluate::bounds(of, &Scope::new(), &mut Session::new(&mut world)).unwrap_or_default()
    }

    /// The verdict on a state, made of what it reads, and where that leads.
    fn judge(&mut self, task: &Task) -> Result<(), Cut> {
        let reads = self.reads(task)?;
        let view = self.machine.view(&task.at);
        let Some(state) = view.state else {
            return Err(self.violation(format!("`{}` is judged and is no state", task.at)));
        };
        let passed = i64::try_from(self.outside.steady).unwrap_or(i64::MAX);
        if !self.simulation.jumps && !(0..=passed).contains(&state.elapsed_ms) {
            let what = format!("{} of {passed} milliseconds have passed in `{}`", state.elapsed_ms, task.at);
            return Err(self.violation(what));
        }
        let failed = view.result.is_some_and(|seq| value_of(&self.outside.journal, seq) == -1);
        let fated = self.fated(&task.at);
        let verdict = if failed { ERROR } else { self.fate.verdict(&fated, &reads) };
        let plan = Arc::clone(&self.simulation.plan);
        let scope = Scope::new();
        let judged =
            judge::Judged { plan: &plan, step: task.step, scope: &scope, result: None, state: &state };
        let mut world = NoWorld;
        let judgement = judged.route(judge::Verdict::new(verdict, ""), &mut Session::new(&mut world));
        let print = Hash::of(&self.fate.print(&fated).to_le_bytes());
        let judged = Judged {
            as_of: task.as_of,
            computed: Vec::new(),
            verdict: judgement.verdict.verdict,
            confidence: None,
            reason: EcoString::new(),
            details: Datum::Here(Value::NULL),
            measured: None,
            to: judgement.to,
            print,
        };
        self.append(task.at.clone(), EventKind::Judged(Box::new(judged)))?;
        Ok(())
    }

    /// The last result of each item of a list that has one, in order: all on disk.
    fn results(&self, task: &Task, list: Seq) -> Result<Vec<Option<i64>>, Cut> {
        let from = usize::try_from(list).unwrap_or(usize::MAX);
        let mut results = BTreeMap::new();
        for event in self.outside.journal.iter().skip(from) {
            let Some((_, index)) = event.at.as_item().filter(|(each, _)| *each == task.at) else { continue };
            let EventKind::ItemEnded(ended) = &event.kind else { continue };
            if event.seq > self.outside.durable {
                return Err(
                    self.violation(format!("`{}` collects event {}, not on disk", task.at, event.seq))
                );
            }
            let value = if let Datum::Here(value) = &ended.value { value.as_i64() } else { None };
            results.insert(index, value);
        }
        Ok(results.into_values().collect())
    }

    /// An item is over, or begins again.
    fn end_item(&mut self, task: Task, ending: ItemEnding) -> Result<(), Cut> {
        self.outside.checker.runs(&task.at, ending.runner)?;
        let in_worktree = matches!(&self.step(&task).action, Action::ForEach(each) if each.worktree);
        let well = ending.well && (!in_worktree || self.fate.merges(&self.fated(&task.at)));
        let status = match (well, ending.output) {
            (false, _) => Status::Failed,
            (true, None) => Status::Skipped,
            (true, Some(_)) => Status::Completed,
        };
        let pause =
            (status == Status::Failed).then(|| ending.rules.retry.pause(ending.attempt - ending.base, 0.5));
        if let Some(pause) = pause.flatten() {
            let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4);
            let until = self.outside.clock + pause;
            self.append(task.at, EventKind::ItemRetrying { error: "it failed".into(), until })?;
            return Ok(());
        }
        let value = ending.output.filter(|_| well);
        let value = value.map_or(Value::NULL, |seq| Value::from(value_of(&self.outside.journal, seq)));
        let error = (!well).then(|| "it failed".into());
        let (attempts, value) = (ending.attempt, Datum::Here(value));
        let ended = ItemEnded { status, value, error, attempts, duration_ms: 0, branch: None };
        self.append(task.at, EventKind::ItemEnded(ended))?;
        Ok(())
    }

    fn expand(&mut self, task: Task) -> Result<(), Cut> {
        self.reads(&task)?;
        let fated = self.fated(&task.at);
        let items = self.fate.items(&fated);
        let what = if self.fate.evaluates(&fated, "foreach") {
            EventKind::Expanded {
                as_of: task.as_of,
                computed: Vec::new(),
                count: items.len() as u64,
                parallel: chance::parallel(self.step(&task)),
                items: Listed::Whole(Datum::Here(list(&items))),
                rules: chance::rules(self.step(&task), items.len() as u64),
            }
        } else {
            unresolved(&task)
        };
        self.append(task.at, what)?;
        Ok(())
    }

    fn start(&mut self, task: Task, number: u32, base: u32, rerun: bool) -> Result<(), Cut> {
        if !self.fate.evaluates(&self.fated(&task.at), "fields") {
            let what = unresolved(&task);
            self.append(task.at, what)?;
            return Ok(());
        }
        let careful = {
            let step = self.step(&task);
            step.on_crash != OnCrash::Rerun || matches!(step.action, Action::Agent { .. })
        };
        let what = EventKind::Started {
            as_of: task.as_of,
            attempt: number,
            rerun,
            computed: Vec::new(),
            fields: Hash::default(),
        };
        let seq = self.append(task.at.clone(), what)?;
        let after = if careful { seq } else { 0 };
        self.workers.push(Work::Starting { attempt: Attempt { task, number, base }, after });
        Ok(())
    }

    fn attempt_done(&mut self, attempt: &Attempt) -> Result<(), Cut> {
        let at = attempt.task.at.clone();
        let reads = self.reads(&attempt.task)?;
        let fated = self.fated(&at);
        let mut output = if self.fate.well(&fated, attempt.number) {
            output(Status::Completed, self.fate.value(&fated, &reads))
        } else {
            output(Status::Failed, -1)
        };
        if output.status == Status::Completed
            && matches!(self.step(&attempt.task).action, Action::Condition(_))
        {
            output.value = Datum::Here(branch(self.fate.holds(&fated)));
        }
        let retry = chance::retry(self.step(&attempt.task));
        let pause =
            (output.status == Status::Failed).then(|| retry.pause(attempt.number - attempt.base, 0.5));
        let what = match pause.flatten() {
            Some(pause) => {
                let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4);
                EventKind::Retrying { output, until: self.outside.clock + pause }
            }
            None => EventKind::Finished { output, results: None },
        };
        self.append(at, what)?;
        Ok(())
    }

    /// The values that a step reads. They are of events that had happened when it became ready, and not its own.
    fn reads(&mut self, task: &Task) -> Result<Vec<i64>, Cut> {
        let view = self.machine.view(&task.at);
        if let Some(late) = view.sources().into_iter().find(|seq| *seq > task.as_of) {
            return Err(self.violation(format!(
                "`{}` reads event {late}, and was ready at event {}",
                task.at, task.as_of
            )));
        }
        let journal = &self.outside.journal;
        // What a state left is read when it is judged.
        let own = |event: &&Event| {
            event.at == task.at && view.sources().contains(&event.seq) && view.result != Some(event.seq)
        };
        if let Some(own) = journal.iter().find(own) {
            return Err(
                self.violation(format!("`{}` reads what it left itself at event {}", task.at, own.seq))
            );
        }
        self.outside.checker.reads(&task.at, &view, &self.outside.journal)?;
        let journal = &self.outside.journal;
        let names = view.outputs.iter().chain(&view.captured).map(|(_, seq)| *seq).chain(view.prev);
        let item = view.item.map(|item| item_of(journal, item.item.list, item.item.index));
        let phases = view.phases.iter().map(|(_, seq)| value_of(journal, *seq));
        let map = view.map.map(|map| match map {
            MapView::Running { total } => i64::try_from(total).unwrap_or(0),
            MapView::Over(seq) => value_of(journal, seq),
        });
        let state = view.state.iter().flat_map(|state| [state.iteration, state.in_a_row]);
        let earlier = view.earlier.iter().map(|(_, seq)| value_of(journal, *seq));
        let verdict = view.prev.and_then(|prev| view.verdicts.iter().find(|(seq, _)| *seq == prev));
        let verdict = verdict.map(|(_, said)| said.verdict.len() as u64);
        let numbers = state.chain(verdict).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let values = names.map(|seq| value_of(journal, seq)).chain(item).chain(phases).chain(map);
        Ok(values.chain(earlier).chain(numbers).collect())
    }

    fn fated(&self, at: &Address) -> Fated {
        self.outside.checker.fated(at)
    }

    fn step(&self, task: &Task) -> &Step {
        &self.simulation.plan.steps[task.step as usize].step
    }

    fn violation(&self, what: String) -> Cut {
        Cut::Broken(Violation { seq: self.machine.last(), what })
    }
}

impl Work {
    fn task(&self) -> Option<&Task> {
        match self {
            Self::Command(command) => command.task(),
            Self::Starting { attempt, .. } | Self::Running { attempt, .. } => Some(&attempt.task),
        }
    }
}

fn started(plan: &threadline_flow::plan::Plan) -> RunStarted {
    RunStarted {
        run: "simulated".into(),
        workflow: plan.workflow.name.clone(),
        file: plan.workflow.file.name().into(),
        text: Hash::default(),
        inputs: Datum::Here(Value::NULL),
        imports: Datum::Here(Value::NULL),
        payload: Datum::Here(Value::NULL),
        set: Vec::new(),
        trust_set: false,
        folder: EcoString::new(),
        program: EcoString::new(),
        jobs: None,
        files: Vec::new(),
        caller: None,
    }
}

/// A field has no value.
fn unresolved(task: &Task) -> EventKind {
    EventKind::Unresolved { as_of: task.as_of, computed: Vec::new(), output: output(Status::Failed, -1) }
}

fn output(status: Status, value: i64) -> Output {
    let meta = Value::record([("status", Value::from(status.name()))]);
    Output { status, value: Datum::Here(Value::from(value)), output: None, stderr: None, meta }
}

/// What a conditional leaves.
fn branch(taken: bool) -> Value {
    Value::record([("branch", taken.to_string().into())])
}

fn list(items: &[i64]) -> Value {
    // A few numbers are never too many.
    Value::sequence(items.iter().map(|item| Value::from(*item)))
}
