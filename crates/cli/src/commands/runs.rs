//! `threadline runs`: the runs of a project, the newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{EventKind, LoopEnd};
use threadline_engine::machine::Outcome;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_store::{Reader, RunInfo, StoreError};

use super::history::{of_store, project};
use super::{print, print_styled};
use crate::arguments::Runs;
use crate::exit::Failure;
use crate::reporter::loop_end;
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

/// `threadline runs`
pub(crate) fn runs(call: &Runs) -> Result<(), Failure> {
    let runs = match Reader::open(&project(call.dir.as_deref())?.store()) {
        Ok(reader) => all(&reader, call.all)?,
        // A project in which nothing ran has no journal.
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
    for Listed { run, status, ended } in &runs {
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

/// A run, and what has become of it.
struct Listed {
    run: RunInfo,
    status: &'static str,
    /// Where a loop ended, and why.
    ended: Option<(Outcome, LoopEnd)>,
}

/// Where a loop ended, and why: `in done`, `before fix: max_steps 20 reached`.
fn how((outcome, end): &(Outcome, LoopEnd)) -> String {
    loop_end(*outcome, end).trim_start().to_owned()
}

/// Every run and its status, the newest first; those that others called only where they are asked for.
fn all(reader: &Reader, called: bool) -> Result<Vec<Listed>, Failure> {
    let mut runs = reader.runs().map_err(|error| of_store(&error))?;
    runs.retain(|run| called || !run.id.is_called());
    // Those that were called stand below the run that somebody started.
    let begun: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(at, run)| (run.id.to_string(), at)).collect();
    runs.sort_by_key(|run| Reverse(begun.get(run.id.started()).copied()));
    let listed = |run: RunInfo| {
        let status = status(reader, &run)?;
        // An event that cannot be read is a matter of whoever opens the run.
        let last =
            matches!(status, "completed" | "failed" | "stopped").then(|| reader.event(&run.id, run.events));
        let ended = match last.and_then(Result::ok).map(|event| event.kind) {
            Some(EventKind::RunEnded { outcome, ended: Some(end), .. }) => Some((outcome, end)),
            _ => None,
        };
        Ok(Listed { run, status, ended })
    };
    runs.into_iter().map(listed).collect()
}

/// What has become of a run. One that nobody drives any more, and that did not end, was interrupted.
fn status(reader: &Reader, run: &RunInfo) -> Result<&'static str, Failure> {
    Ok(match run.status.as_str() {
        "completed" => "completed",
        "failed" => "failed",
        "paused" => "paused",
        "stopped" => "stopped",
        _ if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => "running",
        _ => "interrupted",
    })
}

/// To the second, as people read it.
fn started(time: &str) -> String {
    time.split('.').next().unwrap_or(time).replace('T', " ")
}

fn run_json(listed: &Listed) -> Value {
    let Listed { run, status, ended } = listed;
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
