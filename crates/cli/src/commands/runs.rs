//! `threadline runs`: the runs of a project, the newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_store::{Reader, RunInfo, StoreError};

use super::explain::json::number;
use super::history::{of_store, project};
use super::{object, print, print_styled};
use crate::arguments::Runs;
use crate::exit::Failure;
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
        let runs = runs.iter().map(|(run, status)| run_json(run, status)).collect();
        let value = object([("runs", Value::list(runs).unwrap_or_default())]);
        return print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    if runs.is_empty() {
        return print("no runs yet: `threadline run FILE` begins one\n");
    }
    let mut table = Table::default();
    for (run, status) in &runs {
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
        ]);
    }
    print_styled(&table.text(""))
}

/// Every run and its status, the newest first; those that others called only where they are asked for.
fn all(reader: &Reader, called: bool) -> Result<Vec<(RunInfo, &'static str)>, Failure> {
    let mut runs = reader.runs().map_err(|error| of_store(&error))?;
    runs.retain(|run| called || !run.id.is_called());
    // Those that were called stand below the run that somebody started.
    let begun: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(at, run)| (run.id.to_string(), at)).collect();
    runs.sort_by_key(|run| Reverse(begun.get(run.id.started()).copied()));
    let with_status = |run: RunInfo| Ok((status(reader, &run)?, run));
    let runs: Result<Vec<_>, Failure> = runs.into_iter().map(with_status).collect();
    Ok(runs?.into_iter().map(|(status, run)| (run, status)).collect())
}

/// What has become of a run. One that nobody drives any more, and that did not end, was interrupted.
fn status(reader: &Reader, run: &RunInfo) -> Result<&'static str, Failure> {
    Ok(match run.status.as_str() {
        "completed" => "completed",
        "failed" => "failed",
        "paused" => "paused",
        _ if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => "running",
        _ => "interrupted",
    })
}

/// To the second, as people read it.
fn started(time: &str) -> String {
    time.split('.').next().unwrap_or(time).replace('T', " ")
}

fn run_json(run: &RunInfo, status: &str) -> Value {
    object([
        ("run", run.id.as_str().into()),
        ("workflow", run.name.as_str().into()),
        ("file", run.file.as_str().into()),
        ("status", status.into()),
        ("started_at", run.started_at.as_str().into()),
        ("events", number(run.events)),
    ])
}
