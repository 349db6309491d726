//! The items of a list, from the event with the list to the event with their results; and what phases leave.
//!
//! Items and results are stored in pieces, so that neither is ever held as a whole.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_engine::evaluate::{FieldErrors, Resolved};
use threadline_engine::event::{Address, Datum, EventKind, ItemEnded, Listed, Output, Rules, Seq, Status};
use threadline_engine::machine::{Counts, ItemEnding, Task};
use threadline_engine::select::{self, Expansion, Found};
use threadline_engine::view::{ItemRef, Load as _, View, with_map};
use threadline_engine::world::Record;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, ForEach, SourceFormat};
use threadline_flow::problem::Problem;
use threadline_flow::shell::Bound;
use threadline_lang::value::MAX_DEPTH;
use threadline_lang::{Envelope, Number, Value};
use threadline_store::{JournalError, Sync};

use crate::choice::{Wrong, choose};
use crate::driver::{DriveError, Notice, now};
use crate::execute::{Attempt, Clock, Done, Executor, measured_since};
use crate::items::{ChunkError, ChunkWriter, Order, SelectError, Sorter, Source, spool};
use crate::output::{self, Left};
use crate::placed::{self, item_of_worktree};
use crate::worktrees::WorktreeError;

/// A piece of a list holds so many elements, and about so many bytes.
const CHUNK_ITEMS: usize = 1_000;
const CHUNK_BYTES: u64 = 256 << 10;

/// So much memory the sorting of results takes.
const SORT_MEMORY: usize = 8 << 20;

/// Why a list has no items.
enum NotSelected {
    /// A field of its step has no value.
    Fields(FieldErrors),
    /// Its source gives none.
    Failed(Failure),
    /// Threadline was told to end.
    Cancelled,
}

/// What came of the command of a source.
enum Printed {
    Text(String),
    Failed(Failure),
    Cancelled,
}

impl Executor<'_, '_> {
    fn each(&self, task: &Task) -> Option<&ForEach> {
        match &self.step(task).action {
            Action::ForEach(each) => Some(each),
            _ => None,
        }
    }

    /// The items of a list are looked for, and recorded.
    pub(crate) fn expand(&self, task: &Task, view: &View) -> Result<(), DriveError> {
        let shared = self.shared;
        let clock = Clock::start();
        let (expanded, record, context) = self
            .evaluate(task, view, |scope, session| select::expand(&shared.plan, task.step, scope, session))?;
        self.define(&record, context)?;
        let expansion = match expanded {
            Ok(expansion) => expansion,
            Err(errors) => return self.field_errors(task, &errors, &record, &clock, 0),
        };
        if self.each(task).is_some_and(|each| each.worktree) {
            match shared.worktrees() {
                Ok(worktrees) => shared.tell_uncommitted(&task.at, &worktrees),
                Err(error) => {
                    let failure = NotSelected::Failed(placed::failure(&error));
                    return self.not_selected(task, failure, &record, &clock);
                }
            }
        }
        let selected = self.select(task, view, &expansion, &record)?;
        let (items, count, record) = match selected {
            Ok(selected) => selected,
            Err(failure) => return self.not_selected(task, failure, &record, &clock),
        };
        let what = EventKind::Expanded {
            as_of: task.as_of,
            computed: shared.journal.store().computed(&record.computed)?,
            items,
            count,
            parallel: expansion.parallel,
            rules: expansion.rules(count),
        };
        shared.record(task.at.clone(), what, Sync::Now).map(|_| ())
    }

    /// The source of a list has no items for it.
    fn not_selected(
        &self,
        task: &Task,
        failure: NotSelected,
        record: &Record,
        clock: &Clock,
    ) -> Result<(), DriveError> {
        let failure = match failure {
            NotSelected::Fields(errors) => return self.field_errors(task, &errors, record, clock, 0),
            NotSelected::Failed(failure) => failure,
            NotSelected::Cancelled => return Ok(()),
        };
        self.unresolved(task, failure, record, clock, 0)
    }

    /// The items of a list, stored in pieces; how many they are; and what their choice had to compute.
    fn select(
        &self,
        task: &Task,
        view: &View,
        expansion: &Expansion,
        earlier: &Record,
    ) -> Result<Result<(Listed, u64, Record), NotSelected>, DriveError> {
        let shared = self.shared;
        let Some(each) = self.each(task) else { return Ok(Err(NotSelected::Cancelled)) };
        let folder = self.project().here();
        let printed;
        let source = match &expansion.source {
            Found::List(value) => Source::Value { name: "the list".to_owned(), value },
            Found::File { path, format } => match self.project().open(path, folder) {
                Ok(file) => {
                    let read = Box::new(std::io::BufReader::new(file));
                    Source::Stream { name: path.clone(), read, format: *format }
                }
                Err(error) => {
                    let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                    let hint = if each.is_map && path.contains(char::is_whitespace) {
                        "; what a command prints: `input: {shell: COMMAND}`".to_owned()
                    } else {
                        hint
                    };
                    let failure =
                        Failure::new(FailureKind::Input, format!("the items: {}{hint}", error.message));
                    return Ok(Err(NotSelected::Failed(failure)));
                }
            },
            Found::Shell { bound, env, format } => match self.printed(task, bound, env)? {
                Printed::Text(text) => {
                    printed = text;
                    let format = format.unwrap_or(SourceFormat::Lines);
                    let name = "what the command printed".to_owned();
                    Source::Stream { name, read: Box::new(printed.as_bytes()), format: Some(format) }
                }
                Printed::Failed(failure) => return Ok(Err(NotSelected::Failed(failure))),
                Printed::Cancelled => return Ok(Err(NotSelected::Cancelled)),
            },
        };
        let mut chunks = ChunkWriter::new(shared.journal.store(), CHUNK_ITEMS, CHUNK_BYTES);
        let spool = self.private_folder();
        let (selected, record, context) =
            self.evaluate_with(task, view, &earlier.computed, |scope, session| {
                let mut take = |value: Value| chunks.push(value);
                choose((each, expansion), source, (scope, session), &spool, &mut take)
            })?;
        self.define(&record, context)?;
        match selected {
            Ok(counts) => {
                if let Some(path) = each.json_path.as_ref().filter(|_| counts.complete && counts.read == 0) {
                    let message = format!("`{}` leads to nothing: there are no items", path.value.as_str());
                    let problem = Problem::warning("no-items", path.origin.span, message);
                    shared.teller.tell(Notice::Problems(task.at.clone(), vec![problem]));
                }
            }
            Err(SelectError::Caller(Wrong::Field(error))) => {
                return Ok(Err(NotSelected::Fields(vec![*error])));
            }
            Err(SelectError::Caller(Wrong::Taker(ChunkError::Journal(error)))) => return Err(error.into()),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                let failure = Failure::new(FailureKind::Input, format!("the items: {error}{hint}"));
                return Ok(Err(NotSelected::Failed(failure)));
            }
        }
        let chunks = chunks.finish().map_err(JournalError::from)?;
        let index = chunks.store(shared.journal.store()).map_err(JournalError::from)?;
        Ok(Ok((Listed::Chunks(index), chunks.len(), record)))
    }

    /// What the command of a source prints.
    fn printed(
        &self,
        task: &Task,
        bound: &Bound,
        env: &[(EcoString, Option<String>)],
    ) -> Result<Printed, DriveError> {
        let resolved = Resolved::of_shell(bound.clone(), env.to_vec());
        let attempt = Attempt { number: 1, base: 0, rerun: false, began: None };
        let done = self.act(task, self.step(task), &resolved, attempt)?;
        let Done::Output(output) = done else { return Ok(Printed::Cancelled) };
        // It is read before an event names it.
        self.shared.journal.store().wait_for_values()?;
        let envelope = output::loaded(self.shared.journal.store().reader(), &output)?;
        if output.status == Status::Completed {
            return Ok(Printed::Text(envelope.value.to_string()));
        }
        let of_meta = |name: &str| envelope.meta.get(name).map(Value::to_string).unwrap_or_default();
        let stderr = envelope.also.as_ref().and_then(|also| also.get("stderr")).map(Value::to_string);
        let stderr = stderr.filter(|text| !text.is_empty()).map_or(String::new(), |text| format!(": {text}"));
        let message = format!("the command for the items failed, {}{stderr}", of_meta("error"));
        Ok(Printed::Failed(Failure::new(FailureKind::Input, message)))
    }

    /// The steps of an item are through: it is over, or begins again.
    pub(crate) fn end_item(&self, task: &Task, ending: &ItemEnding) -> Result<(), DriveError> {
        let shared = self.shared;
        let (mut status, mut value, mut error) = (Status::Completed, Datum::Here(Value::NULL), None);
        if let Some(seq) = ending.output.filter(|seq| !shared.values.has(*seq)) {
            shared.wait_synced(seq)?;
        }
        match ending.output.map(|seq| shared.values.output(seq)).transpose()? {
            Some(output) if ending.well => value = shared.journal.store().datum(&output.value)?,
            None if ending.well => status = Status::Skipped,
            output => {
                status = Status::Failed;
                let said = output.and_then(|output| said_of(&output));
                error =
                    Some(said.unwrap_or_else(|| "a step that follows from one of its steps failed".into()));
            }
        }
        let item = item_of_worktree(&shared.plan, &task.at);
        let mut branch = None;
        if let (Some(item), None) = (item, &error)
            && let Err(failure) = self.merge_item(task, item)?
        {
            (status, value) = (Status::Failed, Datum::Here(Value::NULL));
            error = Some(failure.message.into());
        }
        if let Some(error) = &error
            && let Some(pause) = self.pause(&ending.rules.retry, ending.attempt - ending.base)
        {
            if let Some(item) = item {
                self.abandon_item(task, item, false)?;
            }
            let what = EventKind::ItemRetrying { error: error.clone(), until: now() + pause };
            return shared.record(task.at.clone(), what, Sync::Now).map(|_| ());
        }
        if let (Some(item), Some(_)) = (item, &error) {
            branch = self.abandon_item(task, item, true)?;
        }
        let duration_ms = now().saturating_sub(ending.began).max(0).unsigned_abs();
        let ended = ItemEnded { status, value, error, attempts: ending.attempt, duration_ms, branch };
        shared.record(task.at.clone(), EventKind::ItemEnded(ended), Sync::Later).map(|_| ())
    }

    /// The commits of an item that did well go into the branch of the run, when its end is on disk.
    fn merge_item(&self, task: &Task, item: u64) -> Result<Result<(), Failure>, DriveError> {
        self.shared.wait_synced(task.as_of)?;
        let merged = self.shared.worktrees().and_then(|worktrees| worktrees.merge(item));
        Ok(merged.map(|_| ()).map_err(|error| placed::failure(&error)))
    }

    /// The worktree of an item that failed is free again. Gives the branch that keeps what it did.
    fn abandon_item(&self, task: &Task, item: u64, keep: bool) -> Result<Option<EcoString>, DriveError> {
        self.shared.wait_synced(task.as_of)?;
        let abandoned = self.shared.worktrees().and_then(|worktrees| worktrees.abandon(item, keep));
        match abandoned {
            Ok(branch) => Ok(branch.map(EcoString::from)),
            // What cannot be tidied up now is when the worktrees are opened again.
            Err(error) => {
                self.tell_worktrees(task, &error);
                Ok(None)
            }
        }
    }

    fn tell_worktrees(&self, task: &Task, error: &WorktreeError) {
        let problem = Problem::warning("worktrees", self.step(task).origin.span, error.to_string());
        self.shared.teller.tell(Notice::Problems(task.at.clone(), vec![problem]));
    }

    /// The pause before another attempt of an item is over.
    pub(crate) fn begin_item(&self, task: &Task, attempt: u32) -> Result<(), DriveError> {
        self.shared.record(task.at.clone(), EventKind::ItemBegun { attempt }, Sync::Later).map(|_| ())
    }

    /// The items are over: their results are put together.
    pub(crate) fn collect(
        &self,
        task: &Task,
        view: &View,
        list: Seq,
        counts: Counts,
        rules: &Rules,
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        shared.wait_synced(task.as_of)?;
        let Some(each) = self.each(task) else { return Ok(()) };
        let began = shared.journal.store().reader().event(shared.journal.run(), list)?.time;
        let measured = measured_since(began, if each.is_map { "map" } else { "foreach" }, of_counts(counts));
        let goes_on = rules.goes_on && !rules.stops_after(counts.failed);
        let failure = (counts.failed > 0 && !goes_on).then(|| failed(counts));
        if each.is_map {
            return self.collect_map(task, view, list, counts, failure, measured);
        }
        let value = if let Some(failure) = failure {
            Err(failure)
        } else {
            let results = self.values_of_items(task, list, counts.total)?;
            Value::list(results).map_err(|_| {
                Failure::new(FailureKind::Format, "the results of all items are too large together")
            })
        };
        let mut left = Left { value, output: None, stderr: None };
        if let Some(expect) = &self.step(task).expect {
            // Nothing of it is computed, but for entries of `context`, which are recorded as that.
            let (settled, record, context) = self.evaluate(task, view, |scope, session| {
                threadline_engine::evaluate::settle(&expect.value, scope, session)
            })?;
            self.define(&record, context)?;
            match settled {
                Ok(settled) => left = output::checked(&settled, &measured, left),
                Err(errors) => left.value = Err(self.evaluation_failure(task, &errors)),
            }
        }
        self.finish(task, output::envelope(shared.journal.store(), &measured, left)?)
    }

    /// The value of each item in order; null where it failed or was skipped.
    fn values_of_items(&self, task: &Task, list: Seq, total: u64) -> Result<Vec<Value>, DriveError> {
        let mut values = vec![Value::NULL; usize::try_from(total).unwrap_or(0)];
        let reader = self.shared.journal.store().reader();
        self.each_ended(&task.at, list, |index, ended| {
            if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
                *place = reader.load(&ended.value)?;
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Every end of an item since the event with the list, in the order of the journal.
    fn each_ended(
        &self,
        at: &Address,
        list: Seq,
        mut told: impl FnMut(u64, ItemEnded) -> Result<(), DriveError>,
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        for event in shared.journal.store().reader().events_of(shared.journal.run(), list, "item_ended")? {
            let event = event?;
            let index = event.at.as_item().filter(|(owner, _)| owner == at).map(|(_, index)| index);
            if let (Some(index), EventKind::ItemEnded(ended)) = (index, event.kind) {
                told(index, ended)?;
            }
        }
        Ok(())
    }

    /// What a map leaves: how many there were, and what was made of the results.
    fn collect_map(
        &self,
        task: &Task,
        view: &View,
        list: Seq,
        counts: Counts,
        failure: Option<Failure>,
        mut measured: output::Measured,
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        let store = shared.journal.store();
        let results = self.store_results(task, list)?;
        let branch = match shared.leave_worktrees() {
            Ok(closed) => closed.and_then(|closed| closed.branch),
            Err(error) => {
                self.tell_worktrees(task, &error);
                None
            }
        };
        let known = of_map(counts, measured.elapsed, branch.as_deref());
        let value = if let Some(failure) = failure {
            Err(failure)
        } else {
            let known = known.iter().map(|(name, value)| (EcoString::from(*name), value.clone()));
            self.summary(task, view, &results, known.collect())?
        };
        if value.is_err() {
            // Without a value it is read from here.
            measured.own = known;
        }
        let left = Left { value, output: None, stderr: None };
        let output: Output = output::envelope(store, &measured, left)?;
        let what = EventKind::Finished { output, results: Some(results) };
        shared.record(task.at.clone(), what, Sync::Now).map(|_| ())
    }

    /// How many items there were, and what is made of their results.
    fn summary(
        &self,
        task: &Task,
        view: &View,
        results: &Datum,
        mut entries: Vec<(EcoString, Value)>,
    ) -> Result<Result<Value, Failure>, DriveError> {
        let shared = self.shared;
        let too_large =
            || Failure::new(FailureKind::Format, "what is made of the results is too large together");
        let Ok(known) = Value::object(entries.clone()) else { return Ok(Err(too_large())) };
        let rows = shared.values.rows(results)?;
        let (made, record, context) = self.evaluate(task, view, |scope, session| {
            select::aggregates(&shared.plan, &with_map(scope, &known, rows), session)
        })?;
        self.define(&record, context)?;
        match made {
            Ok(made) => entries.push(("aggregates".into(), made)),
            Err(errors) => return Ok(Err(self.evaluation_failure(task, &errors))),
        }
        Ok(Value::object(entries).map_err(|_| too_large()))
    }

    /// The results of all items in their order, in pieces. Of an item that was done again the last one counts.
    fn store_results(&self, task: &Task, list: Seq) -> Result<Datum, DriveError> {
        let shared = self.shared;
        let store = shared.journal.store();
        let spooled =
            |error: std::io::Error| JournalError::Value(format!("the results cannot be sorted: {error}"));
        let mut sorter = Sorter::new(&[Order::default()], &self.private_folder(), SORT_MEMORY);
        self.each_ended(&task.at, list, |index, ended| {
            let item = (&shared.values).item(ItemRef { list, index })?;
            let result = result(index, item, &ended, store.reader().load(&ended.value)?);
            sorter.push(vec![Value::from(index)], |out| spool::encode(&result, out)).map_err(spooled)?;
            Ok(())
        })?;
        let mut chunks = ChunkWriter::new(store, CHUNK_ITEMS, CHUNK_BYTES);
        let mut in_order = sorter.finish().map_err(spooled)?;
        let mut before: Option<(Vec<Value>, Vec<u8>)> = None;
        loop {
            let next = in_order.next().map_err(spooled)?;
            let same = next.as_ref().zip(before.as_ref()).is_some_and(|(next, before)| next.0 == before.0);
            if let Some((_, bytes)) = before.filter(|_| !same) {
                let result = spool::decode(&bytes).map_err(spooled)?;
                chunks.push(result).map_err(JournalError::from)?;
            }
            if next.is_none() {
                break;
            }
            before = next;
        }
        let chunks = chunks.finish().map_err(JournalError::from)?;
        let index = chunks.store(store).map_err(JournalError::from)?;
        // They are read before an event names them.
        store.wait_for_values()?;
        Ok(index)
    }

    /// What a phase leaves for those after it.
    pub(crate) fn close(
        &self,
        task: &Task,
        view: &View,
        last: Option<Seq>,
        captured: &[(EcoString, Seq)],
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        let Action::Phase(phase) = &self.step(task).action else { return Ok(()) };
        let clock = Clock::start();
        let (variables, record, context) =
            self.evaluate(task, view, |scope, session| select::variables(phase, scope, session))?;
        self.define(&record, context)?;
        let own = match variables {
            Ok(variables) => variables,
            Err(errors) => return self.field_errors(task, &errors, &record, &clock, 0),
        };
        let printed = match last {
            Some(seq) => printed(shared.values.output(seq)?.as_ref()),
            None => Value::NULL,
        };
        let mut variables: Vec<(EcoString, Value)> = Vec::new();
        let of_own = own.as_object().into_iter().flat_map(|object| object.iter());
        let of_own: Vec<_> = of_own.map(|(key, value)| (key.name().clone(), value.clone())).collect();
        for (name, seq) in captured {
            if !of_own.iter().any(|(own, _)| own == name) {
                variables.push((name.clone(), shared.values.output(*seq)?.value.clone()));
            }
        }
        variables.extend(of_own);
        let value = Value::object(variables).and_then(|variables| {
            Value::object([("output".into(), printed), ("variables".into(), variables)])
        });
        let value =
            value.map_err(|_| Failure::new(FailureKind::Format, "what the phase left is too large together"));
        let measured = clock.measured("phase", 0, Vec::new());
        let left = Left { value, output: None, stderr: None };
        self.finish(task, output::envelope(shared.journal.store(), &measured, left)?)
    }
}

/// What a step printed; the text of its value when it printed nothing.
fn printed(output: &Envelope) -> Value {
    let printed = output.also.as_ref().and_then(|also| also.get("output")).filter(|text| !text.is_null());
    printed.cloned().unwrap_or_else(|| Value::from(output.value.to_string()))
}

/// So many characters of what a failed program wrote to stderr stand in the error of its item.
const SAID: usize = 2_000;

/// Why a step failed: its error, and behind an exit code the end of what it wrote to stderr, which is what the next
/// attempt or whoever reads the list of failures needs.
fn said_of(output: &Envelope) -> Option<EcoString> {
    let error = output.meta.get("error")?.as_str()?;
    let is_exit = FailureKind::of_meta(&output.meta) == Some(FailureKind::ExitCode);
    let stderr = output.also.as_ref().filter(|_| is_exit).and_then(|also| also.get("stderr"));
    let stderr = stderr.and_then(Value::as_str).map(str::trim).filter(|stderr| !stderr.is_empty());
    let Some(stderr) = stderr else { return Some(error.into()) };
    let cut = stderr.char_indices().rev().nth(SAID - 1).map_or(0, |(at, _)| at);
    let mark = if cut == 0 { "" } else { "… " };
    Some(eco_format!("{error}: {mark}{}", &stderr[cut..]))
}

/// Why a list failed.
fn failed(counts: Counts) -> Failure {
    let (failed, total) = (counts.failed, counts.total);
    let message = match counts.left() {
        0 => format!("{failed} of {total} items failed"),
        left => format!("{failed} of {total} items failed, {left} did not run"),
    };
    Failure::new(FailureKind::Items, message)
}

/// What became of one item. What is nested too deep to stand in a list of such objects is left out, and that is said.
fn result(index: u64, item: Value, ended: &ItemEnded, value: Value) -> Value {
    let status = if ended.status == Status::Completed { "success" } else { ended.status.name() };
    let mut error = ended.error.clone();
    let mut fitting = |value: Value, what: &str| {
        if value.depth() < MAX_DEPTH - 2 {
            return value;
        }
        error.get_or_insert_with(|| ecow::eco_format!("{what} is nested too deep to be part of a result"));
        Value::NULL
    };
    let (item, value) = (fitting(item, "the item"), fitting(value, "its value"));
    // Its parts are within the limit of depth, and a journal held them before.
    Value::record([
        ("item", item),
        ("index", Value::from(index)),
        ("status", status.into()),
        ("value", value),
        ("error", error.map_or(Value::NULL, |error| error.as_str().into())),
        ("attempts", Value::from(ended.attempts)),
        ("duration_ms", Value::from(ended.duration_ms)),
    ])
}

fn of_counts(counts: Counts) -> Vec<(&'static str, Value)> {
    vec![
        ("total", Value::from(counts.total)),
        ("successful", Value::from(counts.successful)),
        ("failed", Value::from(counts.failed)),
        ("skipped", Value::from(counts.skipped + counts.left())),
    ]
}

/// How a map went: counts, seconds, and how many in a hundred went well.
fn of_map(counts: Counts, elapsed: Duration, branch: Option<&str>) -> Vec<(&'static str, Value)> {
    let mut entries = of_counts(counts);
    let decimal = |text: String| Number::parse(&text).map_or(Value::NULL, Value::from);
    entries.push(("duration", decimal(format!("{}.{:03}", elapsed.as_secs(), elapsed.subsec_millis()))));
    // In hundredths of a percent, rounded down: all is 100 only when it is all.
    let rate = (u128::from(counts.successful) * 10_000).checked_div(u128::from(counts.total));
    let rate = rate.map(|rate| match rate % 100 {
        0 => decimal((rate / 100).to_string()),
        rest => decimal(format!("{}.{rest:02}", rate / 100)),
    });
    entries.push(("success_rate", rate.unwrap_or(Value::NULL)));
    entries.push(("branch", branch.map_or(Value::NULL, Value::from)));
    entries
}
