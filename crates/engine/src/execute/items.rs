//! The items of a list, from the event with the list to the event with their results; and what phases leave.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::{FailureFacts, Moment, RetryConditions, SourceFormat};
use threadline_flow::problem::Problem;
use threadline_lang::value::MAX_DEPTH;
use threadline_lang::{Envelope, Number, Value};

use super::attempt::{NextAttempt, bound_process, process_result, start_failure};
use super::effect::{
    ChosenItems, Effect, EffectKey, EffectLimits, EffectResult, ItemsSource, ItemsSpec, NotChosen, Role,
};
use super::result::{self, ClockReading, Measurement, StepResult, Timing};
use super::{
    Barrier, Driver, Durability, Executor, FieldEvaluation, Next, Pending, PendingStage, Performance,
    Recording,
};
use super::{item_of_worktree, keep_computed, record, secrets};
use crate::evaluate::MAX_OUTPUT;
use crate::event::{Datum, EventKind, ItemEnded, Rules, Seq, Status};
use crate::hash::Hash;
use crate::machine::{Counts, ItemEnding, Task};
use crate::replay::Evaluated;
use crate::select::{Expansion, ResolvedSource};
use crate::view::{Limit, View};
use crate::world::Answer;

/// The command of a source is running.
pub(super) struct PendingSource {
    pub(super) task: Task,
    began: ClockReading,
    expansion: Expansion,
    pub(super) computed: Vec<Answer>,
    pub(super) limits: EffectLimits,
    /// The names that its fields see, where they read secrets.
    pub(super) secret_view: Option<Box<View>>,
    /// The limit of the item, phase, loop or run around the step.
    pub(super) cut_short: Option<Limit>,
}

/// Items are being read.
pub(super) struct PendingItems {
    task: Task,
    began: ClockReading,
    parallel: u64,
    expansion: Expansion,
    /// What the fields of the list had to compute.
    computed: Vec<Answer>,
}

/// The worktree of an item is being merged or left.
pub(super) struct PendingEnd {
    task: Task,
    ending: ItemEnding,
    value: Datum,
    is_skipped: bool,
    error: Option<EcoString>,
    /// What is known of the failure, for `retry`.
    facts: Option<FailureFacts>,
    /// The pause before the item begins again, in milliseconds.
    pause: Option<i64>,
    /// Why it does not begin again although it could.
    not_retried: Option<EcoString>,
    /// The attempts and the time that it took in an earlier run, whose results it keeps.
    earlier: Option<(u32, u64)>,
}

/// The worktrees of a map are being closed.
pub(super) struct PendingMap {
    task: Task,
    view: View,
    counts: Counts,
    failure: Option<Failure>,
    timing: Timing,
    results: Datum,
}

impl Executor<'_> {
    /// Looks for the items of a list.
    pub(super) fn expand<D: Driver>(self, driver: &mut D, task: Task, view: &View) -> Result<Next, D::Error> {
        let began = driver.moment();
        let FieldEvaluation { result, computed } = driver.list(self.site(&task, view))?;
        let expansion = match result {
            Ok(expansion) => expansion,
            Err(errors) => return self.field_errors(driver, &task, &errors, &computed, began, 0),
        };
        if let Some(kept) = self.keep_items(driver, &task, view, &expansion, &computed)? {
            return Ok(kept);
        }
        let ResolvedSource::Shell { bound, env, .. } = &expansion.source else {
            let source = ItemsSource::Resolved(expansion.source.clone());
            return Ok(Self::read_items(task, began, expansion, computed, source));
        };
        let now = driver.moment().time;
        let timeout = view.limit.map(|limit| limit.left(now));
        if let Some(limit) = view.limit.filter(|limit| limit.left(now).is_zero()) {
            return self.unresolved(driver, &task, result::limit_reached(&limit), &computed, began, 0);
        }
        let limits = EffectLimits { timeout, idle_timeout: None, max_output: MAX_OUTPUT };
        let step = self.step(&task);
        let effect = Effect::Process(bound_process(step, bound, env.clone(), None, limits));
        let key = items_key(&task);
        let reads_secrets = self.reads_secrets(&task, &[Moment::List]);
        let effect = if reads_secrets { Effect::WithSecrets(Box::new(effect)) } else { effect };
        let secret_view = reads_secrets.then(|| Box::new(view.clone()));
        let cut_short = view.limit;
        let pending = PendingSource { task, began, expansion, computed, limits, secret_view, cut_short };
        let pending = Pending(PendingStage::Source(Box::new(pending)));
        let barrier = Barrier::Nothing;
        Ok(Next::Perform(Box::new(Performance { before: None, barrier, key, effect, pending })))
    }

    /// The items that an earlier run took, where they come from the same place and the same are taken.
    fn keep_items<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
        expansion: &Expansion,
        computed: &[Answer],
    ) -> Result<Option<Next>, D::Error> {
        let site = self.site(task, view);
        let earlier = if view.may_keep { driver.earlier(site, Evaluated::List)? } else { None };
        let Some(EventKind::Expanded { items, count, read, source: Some(source), .. }) =
            earlier.map(|earlier| earlier.what)
        else {
            return Ok(None);
        };
        if self.source_hash(task, expansion) != Some(source) {
            return Ok(None);
        }
        let kind = EventKind::Expanded {
            as_of: task.as_of,
            computed: keep_computed(driver, computed)?,
            items,
            count,
            read,
            parallel: expansion.parallel,
            rules: expansion.rules(count),
            source: Some(source),
        };
        Ok(Some(record(task.at.clone(), kind, Durability::Now)))
    }

    /// The hash of where the items of a list come from, and which are taken.
    fn source_hash(self, task: &Task, expansion: &Expansion) -> Option<Hash> {
        self.each(task).map(|each| expansion.source(self.plan, each))
    }

    fn read_items(
        task: Task,
        began: ClockReading,
        expansion: Expansion,
        computed: Vec<Answer>,
        source: ItemsSource,
    ) -> Next {
        let key = items_key(&task);
        let spec = ItemsSpec { expansion: expansion.clone(), source, earlier: computed.clone() };
        let effect = Effect::ReadItems(Box::new(spec));
        let parallel = expansion.parallel;
        let pending = PendingItems { task, began, parallel, expansion, computed };
        let pending = Pending(PendingStage::Items(Box::new(pending)));
        let barrier = Barrier::Nothing;
        Next::Perform(Box::new(Performance { before: None, barrier, key, effect, pending }))
    }

    /// The command of a source has ended.
    pub(super) fn source_read<D: Driver>(
        self,
        driver: &mut D,
        pending: PendingSource,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        let PendingSource { task, began, expansion, computed, limits, secret_view: _, cut_short } = pending;
        let step = self.step(&task);
        let (result, leaked) = result.split_leaked();
        let mut result = match result {
            EffectResult::Refused(failure) => StepResult::failed(failure),
            EffectResult::Process(Ok(mut end)) => process_result(step, &mut end, &limits, cut_short.as_ref()),
            EffectResult::Process(Err(failure)) => {
                StepResult::failed(start_failure(failure, step.shell_program.is_none()))
            }
            _ => StepResult::silent(Ok(Value::from(""))),
        };
        if let Some(failure) = secrets::leak(step, &leaked) {
            result = secrets::refuse_output(result, failure);
        }
        match result.value {
            Ok(text) => {
                let source = ItemsSource::Printed(text.to_string());
                Ok(Self::read_items(task, began, expansion, computed, source))
            }
            Err(failure) => {
                let stderr = result.stderr.map(|text| format!(": {text}")).unwrap_or_default();
                let message = format!("the command for the items failed, {}{stderr}", failure.message);
                let is_timeout = failure.kind == FailureKind::Timeout;
                let kind = if is_timeout { FailureKind::Timeout } else { FailureKind::Input };
                let failure = Failure::new(kind, message);
                self.unresolved(driver, &task, failure, &computed, began, 0)
            }
        }
    }

    /// The items are stored, or there are none.
    pub(super) fn items_read<D: Driver>(
        self,
        driver: &mut D,
        pending: PendingItems,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        let PendingItems { task, began, parallel, expansion, computed } = pending;
        let chosen = match result {
            EffectResult::Items(Ok(chosen)) => chosen,
            EffectResult::Items(Err(NotChosen::Fields(errors))) => {
                return self.field_errors(driver, &task, &errors, &computed, began, 0);
            }
            EffectResult::Items(Err(NotChosen::Failed(failure))) => {
                return self.unresolved(driver, &task, failure, &computed, began, 0);
            }
            _ => return Ok(Next::Leave),
        };
        let ChosenItems { items, count, read, leads_nowhere, computed } = chosen;
        if leads_nowhere && let Some(path) = self.each(&task).and_then(|each| each.json_path.as_ref()) {
            let message = format!("`{}` leads to nothing: there are no items", path.value.as_str());
            driver.report(&task.at, vec![Problem::warning("no-items", path.origin.span, message)]);
        }
        let computed = keep_computed(driver, &computed)?;
        let (rules, source) = (expansion.rules(count), self.source_hash(&task, &expansion));
        let (as_of, read) = (task.as_of, Some(read));
        let kind = EventKind::Expanded { as_of, computed, items, count, read, parallel, rules, source };
        Ok(record(task.at, kind, Durability::Now))
    }

    /// The steps of an item are through: it is over, or begins again.
    pub(super) fn end_item<D: Driver>(
        self,
        driver: &mut D,
        task: Task,
        view: &View,
        ending: ItemEnding,
    ) -> Result<Next, D::Error> {
        let site = self.site(&task, view);
        let earlier = if ending.is_kept { driver.earlier(site, Evaluated::Fields)? } else { None };
        let earlier = earlier.and_then(|earlier| match earlier.what {
            EventKind::ItemEnded(ended) => Some((ended.attempts, ended.duration_ms)),
            _ => None,
        });
        let left = ending.output.map(|seq| driver.envelope(seq)).transpose()?;
        let mut value = Datum::Here(Value::NULL);
        let (mut error, mut facts) = (None, None);
        match &left {
            Some(left) if ending.succeeded => value = driver.keep(&left.value)?,
            None if ending.succeeded => {}
            left => {
                let said = left.as_ref().and_then(|left| describe_failure(left));
                error = Some(said.unwrap_or_else(|| "a step after one of its steps failed".into()));
                facts = left.as_ref().and_then(|left| {
                    let kind = FailureKind::of_meta(&left.meta)?;
                    Some(FailureFacts::new(kind, |name| left.meta.get(name).cloned()))
                });
            }
        }
        let is_skipped = left.is_none() && ending.succeeded;
        let not_retried = None;
        let pending =
            PendingEnd { task, ending, value, is_skipped, error, facts, pause: None, not_retried, earlier };
        match item_of_worktree(self.plan, &pending.task.at) {
            // The commits of an item go into the branch of the run when its end is on disk.
            Some(item) if pending.error.is_none() => {
                Ok(worktree(pending, Effect::MergeItem(item), PendingStage::Merge))
            }
            item => Ok(self.conclude_item(driver, pending, item)),
        }
    }

    /// The commits of an item were merged, or could not be.
    pub(super) fn merged<D: Driver>(
        self,
        driver: &mut D,
        mut pending: PendingEnd,
        result: EffectResult,
    ) -> Next {
        if let EffectResult::Worktree(Err(failure)) = result {
            pending.value = Datum::Here(Value::NULL);
            pending.facts = Some(FailureFacts { kind: failure.kind, exit_code: None, status: None });
            pending.error = Some(failure.message.into());
        }
        let item = item_of_worktree(self.plan, &pending.task.at);
        self.conclude_item(driver, pending, item)
    }

    /// Whether an item that failed begins again; its worktree is left either way.
    fn conclude_item<D: Driver>(self, driver: &mut D, mut pending: PendingEnd, item: Option<u64>) -> Next {
        if pending.error.is_some() {
            let ItemEnding { rules, attempt, base, has_crash, limit, .. } = &pending.ending;
            let retry = self.each(&pending.task).and_then(|each| each.policy.retry.as_ref());
            let conditions = RetryConditions::of(retry);
            let (retry, tries, limit) = (&rules.retry, attempt - base, limit.as_ref());
            let next = NextAttempt { retry, conditions, tries, limit };
            // A failure of which no more is known is one of the steps around what did well.
            let unknown = FailureFacts { kind: FailureKind::Items, exit_code: None, status: None };
            // Beginning again would do once more what `on_crash` says is not to be.
            if !has_crash {
                match next.decide(driver, pending.facts.as_ref().unwrap_or(&unknown)) {
                    Ok(pause) => pending.pause = Some(pause),
                    Err(why) => pending.not_retried = why.map(Into::into),
                }
            }
            if let Some(item) = item {
                let keep = pending.pause.is_none();
                return worktree(pending, Effect::AbandonItem { item, keep }, PendingStage::Abandon);
            }
        }
        Self::record_end(driver, pending, None)
    }

    /// The worktree of an item that failed is left.
    pub(super) fn abandoned<D: Driver>(driver: &mut D, pending: PendingEnd, result: EffectResult) -> Next {
        let branch = if let EffectResult::Branch(branch) = result { branch } else { None };
        Self::record_end(driver, pending, branch)
    }

    fn record_end<D: Driver>(driver: &mut D, pending: PendingEnd, branch: Option<EcoString>) -> Next {
        let PendingEnd { task, ending, value, is_skipped, error, facts: _, pause, not_retried, earlier } =
            pending;
        let now = driver.moment().time;
        if let (Some(error), Some(pause)) = (&error, pause) {
            let kind = EventKind::ItemRetrying { error: error.clone(), until: now.saturating_add(pause) };
            return record(task.at, kind, Durability::Now);
        }
        let status = match (&error, is_skipped) {
            (Some(_), _) => Status::Failed,
            (None, true) => Status::Skipped,
            (None, false) => Status::Completed,
        };
        let duration_ms = now.saturating_sub(ending.began).max(0).unsigned_abs();
        let (attempts, duration_ms) = earlier.unwrap_or((ending.attempt, duration_ms));
        let ended = ItemEnded { status, value, error, attempts, duration_ms, branch, not_retried };
        record(task.at, EventKind::ItemEnded(ended), Durability::Later)
    }

    /// The items are over: their results are put together.
    pub(super) fn collect<D: Driver>(
        self,
        driver: &mut D,
        task: Task,
        view: View,
        (list, timing): (Seq, Timing),
        counts: Counts,
        failure: Option<Failure>,
    ) -> Result<Next, D::Error> {
        if self.each(&task).is_some_and(|each| each.is_map) {
            let results = driver.store_results(&task, list)?;
            let key = items_key(&task);
            let pending = PendingMap { task, view, counts, failure, timing, results };
            let pending = Pending(PendingStage::Close(Box::new(pending)));
            let (effect, barrier) = (Effect::CloseWorktrees, Barrier::Nothing);
            return Ok(Next::Perform(Box::new(Performance { before: None, barrier, key, effect, pending })));
        }
        let value = match failure {
            Some(failure) => Err(failure),
            None => driver.item_values(&task, list, counts.total)?,
        };
        let measurement = self.measurement(&task, timing, 0, counts_meta(counts));
        let mut result = StepResult::silent(value);
        if self.step(&task).expect.is_some() {
            match driver.expectation(self.site(&task, &view))?.result {
                Ok(Some(settled)) => result = result::compare(&settled, &measurement, result),
                Ok(None) => {}
                Err(errors) => result.value = Err(self.evaluation_failure(driver, &task, &errors)),
            }
        }
        let next = self.finish(driver, &task, &measurement, result)?;
        self.at_earlier_times(driver, &task, &view, next)
    }

    /// The worktrees of a map are closed: it leaves the number of its items, and what is made of their results.
    pub(super) fn worktrees_closed<D: Driver>(
        self,
        driver: &mut D,
        pending: PendingMap,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        let PendingMap { task, view, counts, failure, timing, results } = pending;
        let branch = if let EffectResult::Branch(branch) = result { branch } else { None };
        let known = map_meta(counts, timing.elapsed, branch.as_deref());
        let value = match failure {
            Some(failure) => Err(failure),
            None => self.summary(driver, &task, &view, &results, &known)?,
        };
        // Without a value the counts and the rest are read from the meta data.
        let own = if value.is_err() { known } else { counts_meta(counts) };
        let measurement: Measurement = self.measurement(&task, timing, 0, own);
        let sealed = result::seal(driver, &measurement, StepResult::silent(value), None)?;
        let kind = EventKind::Finished { output: sealed.output, results: Some(results), kept: None };
        let (at, envelope) = (task.at.clone(), Some(sealed.envelope));
        let next = Next::Record(Box::new(Recording { at, kind, durability: Durability::Now, envelope }));
        self.at_earlier_times(driver, &task, &view, next)
    }

    fn summary<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
        results: &Datum,
        known: &[(&'static str, Value)],
    ) -> Result<Result<Value, Failure>, D::Error> {
        let too_large =
            || Failure::new(FailureKind::Format, "what is made of the results is too large together");
        let mut entries: Vec<(EcoString, Value)> =
            known.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        let Ok(map) = Value::object(entries.clone()) else { return Ok(Err(too_large())) };
        match driver.aggregates(self.site(task, view), &map, results)?.result {
            Ok(made) => entries.push(("aggregates".into(), made)),
            Err(errors) => return Ok(Err(self.evaluation_failure(driver, task, &errors))),
        }
        Ok(Value::object(entries).map_err(|_| too_large()))
    }

    /// The steps of a phase are through: it leaves what its last step printed, and variables.
    pub(super) fn close<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
        last: Option<Seq>,
        captured: &[(EcoString, Seq)],
    ) -> Result<Next, D::Error> {
        let began = driver.moment();
        let FieldEvaluation { result, computed } = driver.variables(self.site(task, view))?;
        let own = match result {
            Ok(variables) => variables,
            Err(errors) => return self.field_errors(driver, task, &errors, &computed, began, 0),
        };
        let printed = match last {
            Some(seq) => printed(driver.envelope(seq)?.as_ref()),
            None => Value::NULL,
        };
        let own = own.as_object().into_iter().flat_map(|object| object.iter());
        let own: Vec<(EcoString, Value)> =
            own.map(|(key, value)| (key.name().clone(), value.clone())).collect();
        let mut variables = Vec::new();
        for (name, seq) in captured {
            if !own.iter().any(|(known, _)| known == name) {
                variables.push((name.clone(), driver.envelope(*seq)?.value.clone()));
            }
        }
        variables.extend(own);
        let value = Value::object(variables).and_then(|variables| {
            Value::object([(names::OUTPUT.into(), printed), (names::VARIABLES.into(), variables)])
        });
        let too_large = |_| Failure::new(FailureKind::Format, "what the phase left is too large together");
        let measurement = self.measure(driver, task, began, 0);
        let next = self.finish(driver, task, &measurement, StepResult::silent(value.map_err(too_large)))?;
        self.at_earlier_times(driver, task, view, next)
    }
}

fn items_key(task: &Task) -> EffectKey {
    EffectKey { at: task.at.clone(), as_of: task.as_of, attempt: 1, role: Role::Items, exchange: 0 }
}

fn worktree(pending: PendingEnd, effect: Effect, stage: fn(Box<PendingEnd>) -> PendingStage) -> Next {
    let (at, as_of) = (pending.task.at.clone(), pending.task.as_of);
    let key = EffectKey { at, as_of, attempt: pending.ending.attempt, role: Role::Worktree, exchange: 0 };
    let barrier = Barrier::Event(as_of);
    let pending = Pending(stage(Box::new(pending)));
    Next::Perform(Box::new(Performance { before: None, barrier, key, effect, pending }))
}

/// How the output of a command is read where its format is not said.
pub const PRINTED_FORMAT: SourceFormat = SourceFormat::Lines;

/// What a step printed; the text of its value when it printed nothing.
fn printed(left: &Envelope) -> Value {
    let printed = left.also.as_ref().and_then(|also| also.get(names::OUTPUT)).filter(|text| !text.is_null());
    printed.cloned().unwrap_or_else(|| Value::from(left.value.to_string()))
}

/// The number of lines that a step printed that stand in the error of an item.
const LINES_SHOWN: usize = 10;

/// Why a step failed: its error, and behind an exit code the end of what it printed, which the next attempt
/// and the list of failures need. One line stands behind the error, several below it.
fn describe_failure(left: &Envelope) -> Option<EcoString> {
    let error = left.meta.get(names::ERROR)?.as_str()?;
    let is_exit = FailureKind::of_meta(&left.meta) == Some(FailureKind::ExitCode);
    let tail = result::failure_tails(left, LINES_SHOWN).pop().filter(|_| is_exit);
    Some(match tail.map(|tail| (tail.before, tail.lines)) {
        None => error.into(),
        Some((0, lines)) if lines.len() == 1 => eco_format!("{error}: {}", lines[0].trim_start()),
        Some((0, lines)) => eco_format!("{error}:\n{}", lines.join("\n")),
        Some((_, lines)) => eco_format!("{error}:\n…\n{}", lines.join("\n")),
    })
}

/// The failure of a list, when its rules do not let its items fail, or the run had no time left for them.
pub(super) fn failure(counts: Counts, rules: &Rules, cut_short: Option<&Limit>) -> Option<Failure> {
    if let Some(limit) = cut_short {
        let Failure { kind, message } = result::limit_reached(limit);
        let cut = counts.failed + counts.left();
        let message = format!("{message}: {cut} of {} items did not complete", counts.total);
        return Some(Failure::new(kind, message));
    }
    let goes_on = rules.goes_on && !rules.stops_after(counts.failed);
    (counts.failed > 0 && !goes_on).then(|| items_failed(counts))
}

/// The failure of a list whose items failed.
fn items_failed(counts: Counts) -> Failure {
    let (failed, total) = (counts.failed, counts.total);
    let message = match counts.left() {
        0 => format!("{failed} of {total} items failed"),
        left => format!("{failed} of {total} items failed, {left} did not run"),
    };
    Failure::new(FailureKind::Items, message)
}

/// An entry of `map.results`: what became of one item. An item or value that is nested too deep for it is left out, and
/// the entry says so.
pub fn item_result(index: u64, item: Value, ended: &ItemEnded, value: Value) -> Value {
    let status = if ended.status == Status::Completed { "success" } else { ended.status.name() };
    let mut error = ended.error.clone();
    let mut fitting = |value: Value, what: &str| {
        if value.depth() < MAX_DEPTH - 2 {
            return value;
        }
        error.get_or_insert_with(|| eco_format!("{what} is nested too deep to be part of a result"));
        Value::NULL
    };
    let (item, value) = (fitting(item, "the item"), fitting(value, "its value"));
    let result = Value::object([
        (names::ITEM.into(), item),
        (names::INDEX.into(), count(index)),
        (names::STATUS.into(), status.into()),
        (names::VALUE.into(), value),
        (names::ERROR.into(), error.map_or(Value::NULL, |error| error.as_str().into())),
        (names::ATTEMPTS.into(), count(ended.attempts.into())),
        (names::DURATION_MS.into(), count(ended.duration_ms)),
    ]);
    // Its parts are within the limit of depth, and a journal held them before.
    result.unwrap_or_default()
}

fn count(count: u64) -> Value {
    Value::from(i64::try_from(count).unwrap_or(i64::MAX))
}

fn counts_meta(counts: Counts) -> Vec<(&'static str, Value)> {
    vec![
        (names::TOTAL, count(counts.total)),
        (names::SUCCESSFUL, count(counts.successful)),
        (names::FAILED, count(counts.failed)),
        (names::SKIPPED, count(counts.skipped + counts.left())),
    ]
}

/// How a map went: counts, seconds, the percentage of its items that went well, and the branch with their commits.
fn map_meta(counts: Counts, elapsed: Duration, branch: Option<&str>) -> Vec<(&'static str, Value)> {
    let mut entries = counts_meta(counts);
    let decimal = |text: String| Number::parse(&text).map_or(Value::NULL, Value::from);
    entries.push((names::DURATION, result::seconds(elapsed)));
    // In hundredths of a percent, rounded down: only all of them are 100 percent.
    let rate = (u128::from(counts.successful) * 10_000).checked_div(u128::from(counts.total));
    let rate = rate.map(|rate| match rate % 100 {
        0 => decimal((rate / 100).to_string()),
        rest => decimal(format!("{}.{rest:02}", rate / 100)),
    });
    entries.push((names::SUCCESS_RATE, rate.unwrap_or(Value::NULL)));
    entries.push((names::BRANCH, branch.map_or(Value::NULL, Value::from)));
    entries
}
