//! `threadline runs`: the runs of a project, the newest first.

use std::collections::BTreeSet;

use anstyle::{AnsiColor, Style};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use threadline_engine::event::LoopEnd;
use threadline_engine::machine::Outcome;
use threadline_engine::spend::Spend;
use threadline_flow::forms;
use threadline_inspect::runs::{
    ListedRun, RunChoice, RunDetails, RunPage, RunStatus, moment, runs as list_of_runs,
};
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_runner::trust::StoreUse;
use threadline_store::{JournalReader, Store, StoreError};

use super::history::{of_store, project, store_of};
use super::kept::KeptRuns;
use super::{print, print_styled};
use crate::arguments::RunsArguments;
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
    let now = Timestamp::now();
    let mut choice = choice(call, now)?;
    let listed = |reader: &JournalReader, choice: &RunChoice| -> Result<(RunPage, u64), CommandFailure> {
        Ok((list_of_runs(reader, choice, now)?, reader.store_size().map_err(|error| of_store(&error))?))
    };
    let (page, bytes) = if let Some(kept) = KeptRuns::of(&call.kept)? {
        let store = kept.open_cache()?;
        choice.only = Some(brought(&kept, &store)?);
        let (page, bytes) = listed(store.reader(), &choice)?;
        if call.json {
            return print_json(store.reader(), &page, bytes, call.details);
        }
        (page, bytes)
    } else {
        let store = store_of(&project(call.dir.as_deref())?, StoreUse::Read, call.trust_store)?;
        match JournalReader::open(&store) {
            Ok(reader) => {
                let (page, bytes) = listed(&reader, &choice)?;
                if call.json {
                    return print_json(&reader, &page, bytes, call.details);
                }
                (page, bytes)
            }
            // A project without a run has no journal.
            Err(StoreError::NoJournal { .. }) if call.json => {
                return print("{\"runs\":[],\"next\":null,\"store_bytes\":0}\n");
            }
            Err(StoreError::NoJournal { .. }) => (RunPage { runs: Vec::new(), next: None }, 0),
            Err(error) => return Err(of_store(&error)),
        }
    };
    let RunPage { runs, next } = page;
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
            (DIM, age(now, listed.began).unwrap_or_default()),
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
    let next =
        next.map_or(String::new(), |last| format!("{DIM}more: the same with `--after {last}`{DIM:#}\n"));
    print_styled(&(table.text("") + &store + &next))
}

/// Prints runs as an object.
fn print_json(
    reader: &JournalReader,
    page: &RunPage,
    bytes: u64,
    has_details: bool,
) -> Result<(), CommandFailure> {
    let mut listed = Vec::with_capacity(page.runs.len());
    for run in &page.runs {
        let details = if has_details { Some(RunDetails::read(reader, &run.run.id)?) } else { None };
        listed.push(run.value(details.as_ref()));
    }
    let value = Value::record([
        ("runs", Value::sequence(listed)),
        ("next", page.next.as_deref().map_or(Value::NULL, Value::from)),
        ("store_bytes", Value::from(bytes)),
    ]);
    print(&format!("{}\n", value.to_json(JsonStyle::Compact)))
}

/// The choice that the command line makes.
fn choice(call: &RunsArguments, now: Timestamp) -> Result<RunChoice, CommandFailure> {
    let RunsArguments { status, workflow, search, since: began, all, after, count, .. } = call;
    Ok(RunChoice {
        status: status.clone(),
        workflow: workflow.clone(),
        text: search.clone(),
        since: began.as_deref().map(|text| since(now, text)).transpose()?,
        until: None,
        called: *all,
        after: after.clone(),
        count: *count,
        only: None,
    })
}

/// Brings all runs of a blob store here, and says which they are. One that cannot be read is told, and left out.
fn brought(kept: &KeptRuns, store: &Store) -> Result<BTreeSet<String>, CommandFailure> {
    let mut found = BTreeSet::new();
    for run in kept.all()? {
        let reader = store.reader();
        let brought = kept.import(store, &run).and_then(|_| {
            let info = reader.run(&run).map_err(|error| of_store(&error))?;
            let goes_on = RunStatus::of(reader, &info)? == RunStatus::Interrupted;
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

/// What else is to be said about a run.
fn notes(listed: &ListedRun) -> String {
    let ListedRun { continues, loop_end, failed_items, .. } = listed;
    let continues = continues.as_ref().map(|run| format!("continues {run}"));
    let failed = failed_items.filter(|count| *count > 0);
    let failed = failed.map(|count| format!("{} failed", words::count(count, "item")));
    let notes = continues.into_iter().chain(loop_end.as_ref().map(how)).chain(failed);
    notes.collect::<Vec<_>>().join(", ")
}

/// Where a loop ended, and why: `in done`, `before fix: max_steps 20 reached`.
fn how((outcome, end): &(Outcome, LoopEnd)) -> String {
    describe_loop_end(*outcome, end).trim_start().to_owned()
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
