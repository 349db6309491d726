//! Carrying out the commands of the machine, without doing anything: what has to be evaluated and performed for a
//! command, and which event comes of it.
//!
//! ```text
//! Command ── begin ──► Next::Perform(effect) ── the driver performs it ──► EffectResult ── done ──► Next
//!                  └─► Next::Record(event)   ── the driver appends it, the machine takes it
//! ```
//!
//! Every decision about a run that is not the machine's is made here: whether a step is tried again, whether it failed,
//! what its envelope holds, how an item, a list, a phase and a judgement end, and what must be on disk before an effect
//! is performed. A [`Driver`] evaluates fields, keeps values and performs effects, and decides nothing. The local driver
//! does it for real; the simulator and the rehearsal of loops answer with what they invent, so the crashes that the
//! simulator tries are crashes of this code.

mod attempt;
pub(crate) mod driver;
pub mod effect;
pub mod inquiry;
mod items;
mod judging;
mod outcome;
pub(crate) mod response;
pub mod result;
mod secrets;
pub mod wire;

use std::time::Duration;

use ecow::EcoString;
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::{Action, ForEach, OnCrash, Step};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::{Envelope, Scope, Session, Value};

use crate::evaluate::{self, Decision, FieldErrors};
use crate::event::{Address, Computed, Datum, EventKind, LoopEnd, Millis, SafeEvents, Seq};
use crate::machine::{BudgetReached, Command, Outcome, Pause, Task, is_found_elsewhere};
use crate::replay::Evaluated;
use crate::spend::Spend;
use crate::view::{Limit, View};
use crate::world::Answer;
#[cfg(feature = "testing")]
pub(crate) use attempt::is_costly;
pub(crate) use attempt::start_failure;
pub use driver::{
    Driver, EarlierResult, EnterFolder, EvaluatedFields, FieldEvaluation, SecretView, Site, StepSite,
};
use effect::{Attempt, Effect, EffectKey, EffectResult, WorktreeEntry};
pub use items::{PRINTED_FORMAT, item_result};
pub use response::result as response_result;
use result::{ClockReading, Measurement, StepResult, Timing, some_spent};

/// How soon an event has to be safe. Events are written in the order in which they are appended, whatever this says.
///
/// What is written was handed to the operating system: it survives the end of this process, however that ends, and may
/// be lost when the machine does. What is on disk survives both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk at once: something waits for it.
    Now,
    /// Written at once, and on disk with the next event that has to be.
    Written,
    /// On disk with the next group, or a few milliseconds later.
    Later,
}

/// An event to record.
#[derive(Debug)]
pub struct Recording {
    /// The execution it is about.
    pub at: Address,
    /// The event that is recorded.
    pub kind: EventKind,
    /// How soon it has to be safe.
    pub durability: Durability,
    /// The envelope in it, as it is read by name, so that nobody need load it again.
    pub envelope: Option<Envelope>,
}

/// What has to be safe before an effect is performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// Nothing: it acts on nothing, and if a crash takes the record of it away, it is performed again.
    Nothing,
    /// The event that is recorded before it is written.
    Written,
    /// The event that is recorded before it is on disk.
    Recorded,
    /// This event is on disk.
    Event(Seq),
}

impl Barrier {
    /// What has to be safe when `recorded` was recorded before.
    pub fn awaits(self, recorded: Option<Seq>) -> SafeEvents {
        let recorded = recorded.unwrap_or(0);
        match self {
            Self::Nothing => SafeEvents::default(),
            Self::Written => SafeEvents { written: recorded, durable: 0 },
            Self::Recorded => SafeEvents { written: recorded, durable: recorded },
            Self::Event(seq) => SafeEvents { written: seq, durable: seq },
        }
    }
}

/// An effect to perform, and how to go on afterwards.
pub struct Performance {
    /// What is recorded first.
    pub before: Option<Recording>,
    /// What has to be safe first.
    pub barrier: Barrier,
    /// Names the effect.
    pub key: EffectKey,
    /// The effect to perform.
    pub effect: Effect,
    /// Goes into [`Executor::done`] with the result.
    pub pending: Pending,
}

/// What a driver does next.
pub enum Next {
    /// Record an event: the command is carried out.
    Record(Box<Recording>),
    /// Perform an effect.
    Perform(Box<Performance>),
    /// Start the next attempt when a pause is over.
    Pause(Address, Pause),
    /// Wait until somebody decides what becomes of an execution.
    Ask(Address),
    /// Ask no agent for an execution until its budget allows it.
    Hold(Address, BudgetReached),
    /// Begin the same after this time, or when another call of the agent is over.
    Later(Address, Option<Duration>),
    /// Nothing: the run was told to end, and the command is carried out when it goes on.
    Leave,
}

/// An agent that is asked, and how often it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCall {
    /// Its name in the workflow.
    pub agent: EcoString,
    /// How many executions may ask it at once.
    pub max_parallel: Option<u64>,
    /// How many requests it may be sent in a minute.
    pub requests_per_minute: Option<u64>,
}

/// What is said to one more call of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallAdmission {
    /// It begins at once.
    Now,
    /// It begins after this time, or when another call of the agent is over.
    Later(Option<Duration>),
    /// A budget is used up.
    OverBudget(BudgetReached),
}

/// A command whose effect is being performed.
pub struct Pending(PendingStage);

impl Pending {
    /// When the time is over that the item, phase, loop or run around it leaves to it, if there is such a limit.
    pub fn not_after(&self) -> Option<Millis> {
        match &self.0 {
            PendingStage::Attempt(pending) => pending.limit.map(|limit| limit.until()),
            _ => None,
        }
    }
}

enum PendingStage {
    /// The worktree of an item is entered before the command.
    Enter(Box<(Command, View)>),
    Attempt(Box<attempt::PendingAttempt>),
    Source(Box<items::PendingSource>),
    Items(Box<items::PendingItems>),
    Merge(Box<items::PendingEnd>),
    Abandon(Box<items::PendingEnd>),
    Close(Box<items::PendingMap>),
    Judge(Box<judging::PendingVerdict>),
}

/// Carries out commands of a plan.
#[derive(Clone, Copy)]
pub struct Executor<'p> {
    plan: &'p Plan,
    /// Whether programs that were under way went on elsewhere when the run was killed.
    finds_programs: bool,
}

impl<'p> Executor<'p> {
    /// An executor of commands of this plan.
    pub fn new(plan: &'p Plan) -> Self {
        Self { plan, finds_programs: false }
    }

    /// The same for a run whose programs went on elsewhere while nobody drove it.
    #[must_use]
    pub fn finding_programs(self, finds_programs: bool) -> Self {
        Self { finds_programs, ..self }
    }

    /// What has to be safe before a command begins: nothing is evaluated or performed because of an event that a crash may
    /// still take away. What only follows from events is recorded behind them, and a judgement behind what it looked at.
    pub fn awaits(self, command: &Command, view: &View) -> SafeEvents {
        let durable = match command {
            Command::Decide(task)
            | Command::Expand(task)
            | Command::Start { task, .. }
            | Command::Collect { task, .. }
            | Command::Close { task, .. } => task.as_of,
            Command::ResolveLimits | Command::RecordOutcome(_) => view.as_of,
            Command::End { outcome, .. } if self.has_exports(*outcome) => view.as_of,
            _ => 0,
        };
        let SafeEvents { mut written, durable: settled } = view.earlier_ends;
        if let Command::Start { task, .. } = command
            && !self.plan.workflow.allow.commands
            && item_in_worktree(self.plan, &task.at).is_none()
        {
            // Its start is recorded behind those ends, and nothing happens before that is written.
            written = 0;
        }
        SafeEvents { written, durable: durable.max(settled) }
    }

    fn has_exports(self, outcome: Outcome) -> bool {
        outcome == Outcome::Completed && !self.plan.workflow.exports.is_empty()
    }

    /// Begins a command. The view is the one that the machine has for it.
    pub fn begin<D: Driver>(self, driver: &mut D, command: Command, view: View) -> Result<Next, D::Error> {
        if let Command::Decide(task) | Command::Expand(task) | Command::Start { task, .. } = &command
            && let Some(item) = item_in_worktree(self.plan, &task.at)
        {
            let key = EffectKey {
                at: task.at.clone(),
                as_of: task.as_of,
                attempt: 1,
                role: effect::Role::Worktree,
                exchange: 0,
            };
            let effect = Effect::EnterWorktree { item, entry: self.worktree_entry(&command, &view) };
            let barrier = Barrier::Nothing;
            let pending = Pending(PendingStage::Enter(Box::new((command, view))));
            return Ok(Next::Perform(Box::new(Performance { before: None, barrier, key, effect, pending })));
        }
        self.carry_out(driver, command, view)
    }

    /// What becomes of the files of an item before a command. An attempt that a crash cut off finds what it found the
    /// first time, so that it does not stumble over what it did. A called workflow goes on instead, as does an agent
    /// behind what it said, and what runs in lists inside an item shares its files with others.
    fn worktree_entry(self, command: &Command, view: &View) -> WorktreeEntry {
        match command {
            Command::Start { .. } if !view.exchanges.is_empty() => WorktreeEntry::AsTheyAre,
            // It went on, and what it did meanwhile stays.
            Command::Start { task, rerun: true, .. }
                if self.finds_programs && self.is_found_elsewhere(task) =>
            {
                WorktreeEntry::AsTheyAre
            }
            Command::Start { task, rerun, .. } if begins_with_saved_files(self.plan, &task.at) => {
                if *rerun {
                    WorktreeEntry::Restore
                } else {
                    WorktreeEntry::Save
                }
            }
            _ => WorktreeEntry::AsTheyAre,
        }
    }

    fn carry_out<D: Driver>(self, driver: &mut D, command: Command, view: View) -> Result<Next, D::Error> {
        match command {
            Command::Decide(task) => self.decide(driver, &task, &view),
            Command::Skip { task, reason } => self.skip(driver, &task, &reason),
            Command::Expand(task) => self.expand(driver, task, &view),
            Command::Start { task, attempt, base, rerun } => {
                let attempt = Attempt { number: attempt, base, rerun, began: view.started };
                self.start(driver, task, &view, attempt)
            }
            Command::Wait { task, pause } => Ok(Next::Pause(task.at, pause)),
            Command::EndItem { task, ending } => self.end_item(driver, task, &view, ending),
            Command::BeginItem { task, attempt } => {
                Ok(record(task.at, EventKind::ItemBegun { attempt }, Durability::Later))
            }
            Command::Collect { task, list, counts, rules, since, cut_short } => {
                let mut timing = Timing::since(since, driver.moment().time);
                if let Some(elapsed) = self.earlier_times(driver, &task, &view)?.and_then(|meta| {
                    meta.get(names::EXECUTION_TIME_MS)?.as_i64().and_then(|millis| u64::try_from(millis).ok())
                }) {
                    timing.elapsed = Duration::from_millis(elapsed);
                }
                let failure = items::failure(counts, &rules, cut_short.as_ref());
                self.collect(driver, task, view, (list, timing), counts, failure)
            }
            Command::Close { task, last, captured } => self.close(driver, &task, &view, last, &captured),
            Command::FailAfterCrash(task) => {
                let failure = Failure::new(FailureKind::Crash, "it was running when Threadline was killed");
                let began = driver.moment();
                let spent = self.lost_at_crash(driver, &task, &view)?;
                let mut measurement = self.measure(driver, &task, began, view.attempts.saturating_sub(1));
                measurement.spent = spent;
                self.finish(driver, &task, &measurement, StepResult::failed(failure))
            }
            Command::Ask(task) => Ok(Next::Ask(task.at)),
            Command::ResolveLimits => self.resolve_limits(driver, &view),
            Command::Judge(task) => self.judge(driver, task, view),
            Command::RecordOutcome(outcome) => self.record_outcome(driver, &outcome),
            Command::End { outcome, ended, failed_items, spent } => {
                self.end(driver, outcome, (ended, failed_items), &spent, &view)
            }
        }
    }

    /// Goes on with a command whose effect was performed.
    pub fn done<D: Driver>(
        self,
        driver: &mut D,
        pending: Pending,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        if let EffectResult::Cancelled = result {
            // The attempt is still under way as far as the journal knows, and is made again when the run goes on. What
            // is paid for all the same is known.
            let lost = match &pending.0 {
                PendingStage::Attempt(pending) => pending.lost(driver.moment()),
                PendingStage::Judge(pending) => pending.lost(driver.moment()),
                _ => None,
            };
            return Ok(lost.map_or(Next::Leave, |(at, spent)| call_lost(at, spent, false)));
        }
        let result = match (result, &pending.0) {
            (EffectResult::Interrupted(why), PendingStage::Attempt(pending)) => {
                return self.interrupted(driver, pending, why);
            }
            // Only what an attempt does may have to happen at most once.
            (EffectResult::Interrupted(why), _) => {
                EffectResult::Refused(Failure::new(FailureKind::Crash, why))
            }
            (result, _) => result,
        };
        match pending.0 {
            PendingStage::Enter(begun) => {
                let (command, view) = *begun;
                match (result, command.task()) {
                    (EffectResult::Worktree(Err(failure)), Some(task)) => {
                        self.finish_unrun(driver, task, failure, 0)
                    }
                    _ => self.carry_out(driver, command, view),
                }
            }
            PendingStage::Attempt(pending) => self.attempt_done(driver, *pending, result),
            PendingStage::Source(pending) => self.source_read(driver, *pending, result),
            PendingStage::Items(pending) => self.items_read(driver, *pending, result),
            PendingStage::Merge(pending) => Ok(self.merged(driver, *pending, result)),
            PendingStage::Abandon(pending) => Ok(Self::abandoned(driver, *pending, result)),
            PendingStage::Close(pending) => self.worktrees_closed(driver, *pending, result),
            PendingStage::Judge(pending) => self.answered(driver, *pending, result),
        }
    }

    /// An attempt was cut off where it was performed: that is to it what a crash is to an attempt here.
    fn interrupted<D: Driver>(
        self,
        driver: &mut D,
        pending: &attempt::PendingAttempt,
        why: String,
    ) -> Result<Next, D::Error> {
        let task = &pending.task;
        match self.plan.workflow.on_crash(self.step(task)) {
            OnCrash::Ask => Ok(Next::Ask(task.at.clone())),
            OnCrash::Fail | OnCrash::Rerun => {
                let failure = Failure::new(FailureKind::Crash, why);
                self.finish_unrun(driver, task, failure, pending.attempt.retries())
            }
        }
    }

    fn is_found_elsewhere(self, task: &Task) -> bool {
        is_found_elsewhere(&self.plan.workflow, self.step(task))
    }

    fn step(self, task: &Task) -> &'p Step {
        &self.plan.steps[task.step as usize].step
    }

    fn site<'s>(self, task: &'s Task, view: &'s View) -> StepSite<'s>
    where
        'p: 's,
    {
        StepSite { plan: self.plan, task, view, secrets: SecretView::Masked }
    }

    /// Where something is evaluated outside of every step.
    fn outside<'s>(self, view: &'s View) -> Site<'s>
    where
        'p: 's,
    {
        Site { plan: self.plan, task: None, view, earlier: &[], secrets: SecretView::Masked }
    }

    fn each(self, task: &Task) -> Option<&'p ForEach> {
        match &self.step(task).action {
            Action::ForEach(each) => Some(each),
            _ => None,
        }
    }

    // ---- conditions, and the end of the run ------------------------------------------------------------

    fn decide<D: Driver>(self, driver: &mut D, task: &Task, view: &View) -> Result<Next, D::Error> {
        let began = driver.moment();
        let FieldEvaluation { result, computed } = driver.condition(self.site(task, view))?;
        let kind = match result {
            Ok(Decision::Go) => {
                EventKind::Decided { as_of: task.as_of, computed: keep_computed(driver, &computed)? }
            }
            Ok(Decision::Skip(reason)) => {
                let computed = keep_computed(driver, &computed)?;
                let measurement = self.measure(driver, task, began, 0);
                let output = result::seal_skipped(driver, &measurement, &reason)?;
                EventKind::Skipped { as_of: task.as_of, computed, output }
            }
            Err(errors) => return self.field_errors(driver, task, &errors, &computed, began, 0),
        };
        Ok(record(task.at.clone(), kind, Durability::Now))
    }

    /// Records that a node cannot begin.
    fn skip<D: Driver>(self, driver: &mut D, task: &Task, reason: &str) -> Result<Next, D::Error> {
        let began = driver.moment();
        let measurement = self.measure(driver, task, began, 0);
        let output = result::seal_skipped(driver, &measurement, reason)?;
        let kind = EventKind::Skipped { as_of: task.as_of, computed: Vec::new(), output };
        Ok(record(task.at.clone(), kind, Durability::Later))
    }

    /// Ends the run with what it exports. One whose exports have no value has failed.
    fn end<D: Driver>(
        self,
        driver: &mut D,
        outcome: Outcome,
        (ended, failed_items): (Option<LoopEnd>, u64),
        spent: &Spend,
        view: &View,
    ) -> Result<Next, D::Error> {
        let mut outcome = outcome;
        let mut exports = Datum::Here(Value::NULL);
        if self.has_exports(outcome) {
            let exports_of = |scope: &Scope, session: &mut Session<'_>, _: &EnterFolder<'_>| {
                evaluate::exports(self.plan, scope, session)
            };
            match driver.evaluate(self.outside(view), exports_of)?.result {
                Ok(value) => exports = driver.keep(&value)?,
                Err(errors) => {
                    self.report(driver, &Address::default(), &errors);
                    outcome = Outcome::Failed;
                }
            }
        }
        let kind = EventKind::RunEnded {
            outcome,
            exports,
            ended,
            failed_items: Some(failed_items),
            spent: some_spent(spent),
        };
        Ok(record(Address::default(), kind, Durability::Now))
    }

    // ---- failures before an attempt begins --------------------------------------------------------------

    /// Fails a step whose fields have no value.
    fn field_errors<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        errors: &FieldErrors,
        computed: &[Answer],
        began: ClockReading,
        retries: u32,
    ) -> Result<Next, D::Error> {
        let failure = self.evaluation_failure(driver, task, errors);
        self.unresolved(driver, task, failure, computed, began, retries)
    }

    /// Fails a step before it begins.
    fn unresolved<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        failure: Failure,
        computed: &[Answer],
        began: ClockReading,
        retries: u32,
    ) -> Result<Next, D::Error> {
        let measurement = self.measure(driver, task, began, retries);
        let state = self.state_name(task);
        let sealed = result::seal(driver, &measurement, StepResult::failed(failure), state)?;
        let computed = keep_computed(driver, computed)?;
        let kind = EventKind::Unresolved { as_of: task.as_of, computed, output: sealed.output };
        Ok(record(task.at.clone(), kind, Durability::Now))
    }

    /// Fails a step that does not get as far as its fields.
    fn finish_unrun<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        failure: Failure,
        retries: u32,
    ) -> Result<Next, D::Error> {
        let began = driver.moment();
        let measurement = self.measure(driver, task, began, retries);
        self.finish(driver, task, &measurement, StepResult::failed(failure))
    }

    /// Shows what is wrong with fields, and gives it as the failure of their step.
    fn evaluation_failure<D: Driver>(self, driver: &mut D, task: &Task, errors: &FieldErrors) -> Failure {
        let message = self.report(driver, &task.at, errors);
        Failure::new(FailureKind::Evaluation, message)
    }

    fn report<D: Driver>(self, driver: &mut D, at: &Address, errors: &FieldErrors) -> String {
        let text = self.plan.workflow.file.text();
        let problems: Vec<Problem> = errors.iter().map(|error| error.problem(text)).collect();
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        let messages = messages.join("; ");
        driver.report(at, problems);
        messages
    }

    // ---- what a step leaves -----------------------------------------------------------------------------

    /// Records what a step left, whatever that is.
    fn finish<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        measurement: &Measurement,
        result: StepResult,
    ) -> Result<Next, D::Error> {
        let sealed = result::seal(driver, measurement, result, self.state_name(task))?;
        Ok(self.finish_sealed(task, sealed))
    }

    fn finish_sealed(self, task: &Task, sealed: result::Sealed) -> Next {
        // Items, nodes and states do not wait for each other, so what they leave shares a sync; whoever does wait for it
        // has it written at once.
        let is_aside = task.at.items().next().is_some()
            || self.plan.lists[0].graph.is_some()
            || self.step(task).state.is_some();
        let durability = if is_aside { Durability::Later } else { Durability::Now };
        let kind = EventKind::Finished { output: sealed.output, results: None, kept: None };
        let envelope = Some(sealed.envelope);
        Next::Record(Box::new(Recording { at: task.at.clone(), kind, durability, envelope }))
    }

    /// The name of the state that a step is: it stands in the meta data of what the state leaves.
    fn state_name(self, task: &Task) -> Option<&'p str> {
        self.step(task).state.as_ref().map(|state| state.name.value.as_str())
    }

    /// The meta data of a list or phase of an earlier run, where nothing in it was done again.
    fn earlier_times<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
    ) -> Result<Option<Value>, D::Error> {
        if !view.is_kept {
            return Ok(None);
        }
        let earlier = driver.earlier(self.site(task, view), Evaluated::Variables)?;
        Ok(match earlier.map(|earlier| earlier.what) {
            Some(EventKind::Finished { output, .. }) => Some(output.meta),
            _ => None,
        })
    }

    /// What is made again of results that were kept has the times that it had.
    fn at_earlier_times<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
        mut next: Next,
    ) -> Result<Next, D::Error> {
        let Some(then) = self.earlier_times(driver, task, view)? else { return Ok(next) };
        if let Next::Record(recording) = &mut next
            && let EventKind::Finished { output, .. } = &mut recording.kind
        {
            let times = [names::EXECUTION_TIME_MS, names::STARTED_AT, names::FINISHED_AT];
            let now = output.meta.as_object().into_iter().flat_map(|now| now.iter());
            let entries = now.map(|(key, value)| {
                let of_then = then.get(key.as_str()).filter(|_| times.contains(&key.as_str()));
                (key.name().clone(), of_then.unwrap_or(value).clone())
            });
            output.meta = Value::record(entries);
            recording.envelope = None;
        }
        Ok(next)
    }

    fn measure<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        began: ClockReading,
        retries: u32,
    ) -> Measurement {
        let timing = began.until(driver.moment());
        self.measurement(task, timing, retries, Vec::new())
    }

    fn measurement(
        self,
        task: &Task,
        timing: Timing,
        retries: u32,
        own: Vec<(&'static str, Value)>,
    ) -> Measurement {
        Measurement { node_type: node_type(self.step(task)), timing, retries, own, spent: Spend::default() }
    }
}

/// A pause, cut short where the time around it is over before: that is noticed then.
fn no_longer_than(pause: Option<Duration>, limit: Option<Limit>, now: Millis) -> Option<Duration> {
    pause.map(|pause| limit.map_or(pause, |limit| pause.min(limit.left(now))))
}

/// Records what a call of an agent counts as that nobody will hear of any more.
fn call_lost(at: Address, spent: Spend, goes_on: bool) -> Next {
    record(at, EventKind::CallLost { spent: Box::new(spent), goes_on }, Durability::Now)
}

fn record(at: Address, kind: EventKind, durability: Durability) -> Next {
    Next::Record(Box::new(Recording { at, kind, durability, envelope: None }))
}

/// Values that were computed, as the journal keeps them.
pub fn keep_computed<D: Driver>(driver: &mut D, answers: &[Answer]) -> Result<Vec<Computed>, D::Error> {
    let mut keep = |answer: &Answer| {
        let args = Value::list(answer.args.clone()).unwrap_or_default();
        let args = driver.keep(&args)?;
        let answered = match &answer.answer {
            Ok(value) => Ok(driver.keep(value)?),
            Err(error) => Err(error.clone()),
        };
        Ok(Computed { name: answer.name.clone(), args, answer: answered })
    };
    answers.iter().map(&mut keep).collect()
}

/// The kind of a step, as it stands in `meta.node_type`.
pub fn node_type(step: &Step) -> &'static str {
    step.node_type().name()
}

/// The address of the map of a map-reduce.
const MAP: &str = "map";

/// Whether the items of a plan's map have worktrees of their own.
pub fn has_worktrees(plan: &Plan) -> bool {
    plan.steps.iter().any(|planned| matches!(&planned.step.action, Action::ForEach(each) if each.worktree))
}

/// The item of the map that an execution belongs to, when it has a worktree of its own.
pub fn item_in_worktree(plan: &Plan, at: &Address) -> Option<u64> {
    if !plan.is_map_reduce() || !has_worktrees(plan) {
        return None;
    }
    let (step, index) = at.items_around().next()?.as_item()?;
    (step.as_str() == MAP).then_some(index)
}

/// Whether the files of an item are remembered before an attempt of a step in it.
pub(crate) fn begins_with_saved_files(plan: &Plan, at: &Address) -> bool {
    let action = at.step(plan).map(|step| &plan.steps[step as usize].step.action);
    at.items().count() == 1 && action.is_some_and(|action| !matches!(action, Action::Workflow(_)))
}

/// The item that an execution is, when it has a worktree of its own: not one of a list inside of it, which shares its.
fn item_of_worktree(plan: &Plan, at: &Address) -> Option<u64> {
    item_in_worktree(plan, at).filter(|_| at.is_item() && at.items().count() == 1)
}
