//! `threadline runs`: the runs of a project, the newest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use threadline_engine::event::{EventKind, LoopEnd};
use threadline_engine::machine::Outcome;
use threadline_engine::spend::Spend;
use threadline_flow::forms;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_runner::trust::StoreUse;
use threadline_store::{JournalReader, RunInfo, Store, StoreError};

use super::history::{of_store, project, store_of};
use super::kept::KeptRuns;
use super::{print, print_styled};
use crate::arguments::{RunStatus, RunsArguments};
use crate::exit::CommandFailure;
use crate::reporter::{describe_loop_end, spend_text};
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

pub(crate) fn runs(call: &RunsArguments) -> Result<(), CommandFailure> {
    let mut choice = RunChoice::new(call)?;
    let (runs, bytes) = if let Some(kept) = KeptRuns::of(&call.kept)? {
        let store = kept.open_cache()?;
        choice.only = Some(brought(&kept, &store)?);
        let reader = store.reader();
        (all(reader, &choice)?, reader.store_size().map_err(|error| of_store(&error))?)
    } else {
        let store = store_of(&project(call.dir.as_deref())?, StoreUse::Read, call.trust_store)?;
        match JournalReader::open(&store) {
            Ok(reader) => (all(&reader, &choice)?, reader.store_size().map_err(|error| of_store(&error))?),
            // A project without a run has no journal.
            Err(StoreError::NoJournal { .. }) => (Vec::new(), 0),
            Err(error) => return Err(of_store(&error)),
        }
    };
    if call.json {
        let runs = runs.iter().map(run_json);
        let value = Value::record([("runs", Value::sequence(runs)), ("store_bytes", Value::from(bytes))]);
        return print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    if runs.is_empty() {
        return print(if choice.is_everything() {
            "no runs yet: `threadline run FILE` begins one\n"
        } else {
            "no such runs\n"
        });
    }
    let mut table = Table::default();
    let has_spent = runs.iter().any(|listed| listed.spent.as_ref().and_then(spend_text).is_some());
    let heads = ["run", "status", "workflow", "began", "age", "took"].into_iter();
    table.row(heads.chain(has_spent.then_some("agents")).map(|head| (DIM, head.to_owned())));
    for listed in &runs {
        let ListedRun { run, status, .. } = listed;
        let style = match *status {
            RunStatus::Completed => GOOD,
            RunStatus::Failed => BAD,
            _ => OPEN,
        };
        let spent = listed.spent.as_ref().and_then(spend_text).unwrap_or_default();
        let mut row = vec![
            (BOLD, run.id.to_string()),
            (style, status.name().to_owned()),
            (PLAIN, run.name.clone()),
            (DIM, local(&run.started_at)),
            (DIM, age(choice.now, listed.began).unwrap_or_default()),
            (DIM, listed.took.map_or(String::new(), words::duration)),
        ];
        row.extend(has_spent.then_some((PLAIN, spent)));
        row.push((DIM, notes(listed)));
        table.row(row);
    }
    let store = format!(
        "{DIM}{}{}; the store takes {}{DIM:#}\n",
        words::count(runs.len() as u64, "run"),
        total_text(&runs),
        size_text(bytes)
    );
    print_styled(&(table.text("") + &store))
}

/// Brings all runs of a blob store here, and says which they are. One that cannot be read is told, and left out.
fn brought(kept: &KeptRuns, store: &Store) -> Result<BTreeSet<String>, CommandFailure> {
    let mut found = BTreeSet::new();
    for run in kept.all()? {
        let reader = store.reader();
        let brought = kept.import(store, &run).and_then(|_| {
            let info = reader.run(&run).map_err(|error| of_store(&error))?;
            let goes_on = status(reader, &info)? == RunStatus::Interrupted;
            let is_driven = goes_on && kept.is_driven(&run)?;
            reader.note_driven(&run, is_driven);
            // It may have ended in between.
            if goes_on && !is_driven { kept.import(store, &run).map(|_| ()) } else { Ok(()) }
        });
        match brought {
            Ok(()) => drop(found.insert(run.to_string())),
            Err(failure) => drop(failure.show()),
        }
    }
    Ok(found)
}

/// What all runs spent together, where there are several that did. What a called run spent is in its caller's.
fn total_text(runs: &[ListedRun]) -> String {
    let spent =
        runs.iter().filter(|listed| !listed.run.id.is_called()).filter_map(|listed| listed.spent.as_ref());
    let (mut total, mut count) = (Spend::default(), 0);
    for spent in spent.filter(|spent| spend_text(spent).is_some()) {
        total.add(spent);
        count += 1;
    }
    let text = spend_text(&total).filter(|_| count > 1);
    text.map_or(String::new(), |text| format!("; together {text}"))
}

/// A number of bytes in the largest unit that fits, with three digits.
pub(super) fn size_text(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| bytes >= *size) else {
        return words::count(bytes, "byte");
    };
    let (whole, tenths) = (bytes / size, bytes % size * 10 / size);
    if whole < 100 { format!("{whole}.{tenths} {unit}") } else { format!("{whole} {unit}") }
}

/// Which runs are listed.
struct RunChoice<'c> {
    call: &'c RunsArguments,
    now: Timestamp,
    since: Option<Timestamp>,
    /// The runs that somebody started and that count, where others are in the same journal.
    only: Option<BTreeSet<String>>,
}

impl<'c> RunChoice<'c> {
    fn new(call: &'c RunsArguments) -> Result<Self, CommandFailure> {
        let now = Timestamp::now();
        let since = call.since.as_deref().map(|text| since(now, text)).transpose()?;
        Ok(Self { call, now, since, only: None })
    }

    fn is_everything(&self) -> bool {
        let RunsArguments { status, workflow, since, count, .. } = self.call;
        status.is_empty() && workflow.is_none() && since.is_none() && count.is_none()
    }

    /// Whether a run is listed, as far as the list of runs tells.
    fn has(&self, run: &RunInfo) -> bool {
        let RunsArguments { all, workflow, .. } = self.call;
        (*all || !run.id.is_called())
            && self.only.as_ref().is_none_or(|only| only.contains(run.id.started()))
            && workflow.as_ref().is_none_or(|name| run.name == *name || run.file == *name)
            && self.since.is_none_or(|since| moment(&run.started_at).is_some_and(|began| began >= since))
    }
}

/// The moment that `--since` names: a duration before now, a time, or the beginning of a day here.
fn since(now: Timestamp, text: &str) -> Result<Timestamp, CommandFailure> {
    let ago = forms::duration(&Value::from(text)).and_then(|ago| SignedDuration::try_from(ago).ok());
    let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::system()).ok().map(|day| day.timestamp());
    let found = match ago {
        Some(ago) => now.checked_sub(ago).ok(),
        None => moment(text).or_else(date),
    };
    found.ok_or_else(|| {
        CommandFailure::Usage(format!(
            "`--since` takes a duration such as `12h` or `7d`, a date such as `2026-01-31`, or a time such as \
             `2026-01-31T08:00:00Z`, not `{text}`"
        ))
    })
}

/// A run and its status.
struct ListedRun {
    run: RunInfo,
    status: RunStatus,
    began: Option<Timestamp>,
    /// From its first event to its last, or until now if it goes on.
    took: Option<Duration>,
    /// Where and why a loop ended.
    ended: Option<(Outcome, LoopEnd)>,
    /// The run whose results it keeps.
    continues: Option<String>,
    /// How many items are failed, if its last event says so: a run that has ended or paused.
    failed_items: Option<u64>,
    /// What it spent on agents, if its last event says so: that of a run that has ended or paused.
    spent: Option<Spend>,
}

/// What else is to be said about a run.
fn notes(listed: &ListedRun) -> String {
    let ListedRun { continues, ended, failed_items, .. } = listed;
    let continues = continues.as_ref().map(|run| format!("continues {run}"));
    let failed = failed_items.filter(|count| *count > 0);
    let failed = failed.map(|count| format!("{} failed", words::count(count, "item")));
    let notes = continues.into_iter().chain(ended.as_ref().map(how)).chain(failed);
    notes.collect::<Vec<_>>().join(", ")
}

/// Where a loop ended, and why: `in done`, `before fix: max_steps 20 reached`.
fn how((outcome, end): &(Outcome, LoopEnd)) -> String {
    describe_loop_end(*outcome, end).trim_start().to_owned()
}

/// The chosen runs, the newest first.
fn all(reader: &JournalReader, choice: &RunChoice<'_>) -> Result<Vec<ListedRun>, CommandFailure> {
    let mut runs = reader.runs().map_err(|error| of_store(&error))?;
    if choice.only.is_some() {
        // They were brought here in any order.
        runs.sort_by(|one, two| one.started_at.cmp(&two.started_at));
    }
    // A run without events was killed before it did anything.
    runs.retain(|run| run.events > 0 && choice.has(run));
    // Called runs are listed below the run that was started by the user.
    let begun: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(at, run)| (run.id.to_string(), at)).collect();
    runs.sort_by_key(|run| Reverse(begun.get(run.id.started()).copied()));
    let mut listed = Vec::new();
    for run in runs {
        if choice.call.count.is_some_and(|count| listed.len() >= count) {
            break;
        }
        let status = status(reader, &run)?;
        if choice.call.status.is_empty() || choice.call.status.contains(&status) {
            listed.push(list(reader, choice.now, run, status));
        }
    }
    Ok(listed)
}

fn list(reader: &JournalReader, now: Timestamp, run: RunInfo, status: RunStatus) -> ListedRun {
    // An event that cannot be read is reported when the run is opened.
    let last = reader.event(&run.id, run.events).ok();
    let began = moment(&run.started_at);
    let until = match (status, &last) {
        (RunStatus::Running, _) => Some(now),
        (_, Some(last)) => Timestamp::from_millisecond(last.time).ok(),
        (_, None) => None,
    };
    let took = began.zip(until).and_then(|(began, until)| until.duration_since(began).try_into().ok());
    let (ended, failed_items, spent) = match last.map(|event| event.kind) {
        Some(EventKind::RunEnded { outcome, ended, failed_items, spent, .. }) => {
            (ended.map(|end| (outcome, end)), failed_items, Some(spent))
        }
        Some(EventKind::Paused { failed_items, spent, .. }) => (None, failed_items, Some(spent)),
        _ => (None, None, None),
    };
    let spent = spent.map(|spent| spent.map(|spent| *spent).unwrap_or_default());
    let continues = match reader.event(&run.id, 1).map(|event| event.kind) {
        Ok(EventKind::RunStarted(started)) => started.continues.map(|of| of.run.to_string()),
        _ => None,
    };
    ListedRun { run, status, began, took, ended, continues, failed_items, spent }
}

/// The status of a run. A run that has not ended and that no process drives was interrupted.
pub(super) fn status(reader: &JournalReader, run: &RunInfo) -> Result<RunStatus, CommandFailure> {
    Ok(match run.status.as_str() {
        "completed" => RunStatus::Completed,
        "failed" => RunStatus::Failed,
        "paused" => RunStatus::Paused,
        "stopped" => RunStatus::Stopped,
        _ if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => RunStatus::Running,
        _ => RunStatus::Interrupted,
    })
}

pub(super) fn moment(time: &str) -> Option<Timestamp> {
    time.parse().ok()
}

/// A time for people: local, without fractions of a second, with the offset of its zone.
pub(super) fn local(time: &str) -> String {
    let Some(moment) = moment(time) else { return time.to_owned() };
    moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
}

/// How long ago something was, in its largest unit.
pub(super) fn age(now: Timestamp, then: Option<Timestamp>) -> Option<String> {
    let seconds = now.duration_since(then?).as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1, "s"));
    Some(format!("{}{unit}", seconds.max(0) / size))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn run_json(listed: &ListedRun) -> Value {
    let ListedRun { run, status, took, ended, .. } = listed;
    let mut entries: Vec<(&str, Value)> = vec![
        ("run", run.id.as_str().into()),
        ("workflow", run.name.as_str().into()),
        ("file", run.file.as_str().into()),
        ("status", status.name().into()),
        ("started_at", run.started_at.as_str().into()),
        ("duration_ms", took.map_or(Value::NULL, |took| Value::from(millis(took)))),
        ("events", Value::from(run.events)),
        ("failed_items", listed.failed_items.map_or(Value::NULL, Value::from)),
        ("spent", listed.spent.as_ref().map_or(Value::NULL, Spend::value)),
    ];
    entries.extend(listed.continues.as_deref().map(|run| ("continues", run.into())));
    entries.extend(ended.as_ref().map(|(_, end)| {
        let end = Value::record([
            ("reason", end.reason.name().into()),
            ("state", end.state.as_str().into()),
            ("limit", end.limit.map_or(Value::NULL, Value::from)),
        ]);
        ("ended", end)
    }));
    Value::record(entries)
}
