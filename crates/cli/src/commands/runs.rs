//! `threadline runs`: the runs of a project, the newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{EventKind, LoopEnd};
use threadline_engine::machine::Outcome;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_runner::trust::StoreUse;
use threadline_store::{JournalReader, RunInfo, StoreError};

use super::history::{of_store, project, store_of};
use super::{print, print_styled};
use crate::arguments::RunsArguments;
use crate::exit::CommandFailure;
use crate::reporter::describe_loop_end;
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

pub(crate) fn runs(call: &RunsArguments) -> Result<(), CommandFailure> {
    let store = store_of(&project(call.dir.as_deref())?, StoreUse::Read, call.trust_store)?;
    let runs = match JournalReader::open(&store) {
        Ok(reader) => all(&reader, call.all)?,
        // A project without a run has no journal.
        Err(StoreError::NoJournal { .. }) => Vec::new(),
        Err(error) => return Err(of_store(&error)),
    };
    if call.json {
        let runs = runs.iter().map(run_json);
        let value = Value::record([("runs", Value::sequence(runs))]);
        return print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    if runs.is_empty() {
        return print("no runs yet: `threadline run FILE` begins one\n");
    }
    let mut table = Table::default();
    for ListedRun { run, status, ended } in &runs {
        let style = match *status {
            "completed" => GOOD,
            "failed" => BAD,
            _ => OPEN,
        };
        let events = if run.events == 1 { "1 event".to_owned() } else { format!("{} events", run.events) };
        table.row([
            (BOLD, run.id.to_string()),
            (style, (*status).to_owned()),
            (PLAIN, run.name.clone()),
            (DIM, started(&run.started_at)),
            (DIM, events),
            (DIM, ended.as_ref().map_or(String::new(), how)),
        ]);
    }
    print_styled(&table.text(""))
}

/// A run and its status.
struct ListedRun {
    run: RunInfo,
    status: &'static str,
    /// Where and why a loop ended.
    ended: Option<(Outcome, LoopEnd)>,
}

/// Where a loop ended, and why: `in done`, `before fix: max_steps 20 reached`.
fn how((outcome, end): &(Outcome, LoopEnd)) -> String {
    describe_loop_end(*outcome, end).trim_start().to_owned()
}

/// Every run and its status, the newest first. Called runs are listed only if the user asks for them.
fn all(reader: &JournalReader, called: bool) -> Result<Vec<ListedRun>, CommandFailure> {
    let mut runs = reader.runs().map_err(|error| of_store(&error))?;
    runs.retain(|run| called || !run.id.is_called());
    // Called runs are listed below the run that was started by the user.
    let begun: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(at, run)| (run.id.to_string(), at)).collect();
    runs.sort_by_key(|run| Reverse(begun.get(run.id.started()).copied()));
    let listed = |run: RunInfo| {
        let status = status(reader, &run)?;
        // An event that cannot be read is reported when the run is opened.
        let last =
            matches!(status, "completed" | "failed" | "stopped").then(|| reader.event(&run.id, run.events));
        let ended = match last.and_then(Result::ok).map(|event| event.kind) {
            Some(EventKind::RunEnded { outcome, ended: Some(end), .. }) => Some((outcome, end)),
            _ => None,
        };
        Ok(ListedRun { run, status, ended })
    };
    runs.into_iter().map(listed).collect()
}

/// The status of a run. A run that has not ended and that no process drives was interrupted.
fn status(reader: &JournalReader, run: &RunInfo) -> Result<&'static str, CommandFailure> {
    Ok(match run.status.as_str() {
        "completed" => "completed",
        "failed" => "failed",
        "paused" => "paused",
        "stopped" => "stopped",
        _ if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => "running",
        _ => "interrupted",
    })
}

/// A time for people, without fractions of a second.
fn started(time: &str) -> String {
    time.split('.').next().unwrap_or(time).replace('T', " ")
}

fn run_json(listed: &ListedRun) -> Value {
    let ListedRun { run, status, ended } = listed;
    let mut entries: Vec<(&str, Value)> = vec![
        ("run", run.id.as_str().into()),
        ("workflow", run.name.as_str().into()),
        ("file", run.file.as_str().into()),
        ("status", (*status).into()),
        ("started_at", run.started_at.as_str().into()),
        ("events", Value::from(run.events)),
    ];
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
