//! What a CI system reads about a run: a `JUnit` report in a file, and in a job of GitHub Actions annotations and
//! a summary.
//!
//! It is made of the journal after the run has ended or stopped, and never changes the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use threadline_engine::event::{Address, Event, EventKind, Output, Seq, Status};
use threadline_engine::machine::Outcome;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::{preview, words};
use threadline_runner::project::{STORE, is_in_store, plain};
use threadline_store::JournalReader;

use super::findings::annotation;
use super::history::History;
use crate::arguments::{JunitPath, WatchArguments};
use crate::exit::CommandFailure;
use crate::failure_output::printed_lines;
use crate::junit::{TestCase, TestOutcome, TestSuite, TestTrouble, junit};
use crate::printing;
use crate::report::{Report, first_line};
use crate::reporter::label;

/// The number of lines that a failed step printed that are reported.
const PRINTED_LINES: usize = 50;

/// The maximum number of annotations, which is what GitHub shows of a step, and of rows of the summary.
pub(super) const MAX_ANNOTATIONS: usize = 10;
pub(super) const MAX_ROWS: usize = 100;

/// Whether this is a step of a job of GitHub Actions, which reads commands from what is printed.
pub(super) fn is_on_github() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Refuses a report that cannot be written, before the run does anything.
pub(super) fn check_folder(watch: &WatchArguments) -> Result<(), CommandFailure> {
    match &watch.report {
        Some(JunitPath(path)) => check_report_path(path),
        None => Ok(()),
    }
}

/// Refuses the file of a report that cannot be written.
pub(super) fn check_report_path(path: &Path) -> Result<(), CommandFailure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if is_in_store(path) {
        let message = format!("cannot write the report `{}`: a store belongs to Threadline", path.display());
        let hint = format!("name a file outside of `{STORE}`");
        return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]));
    }
    if folder.is_none_or(Path::is_dir) && !path.is_dir() {
        return Ok(());
    }
    let message = format!("cannot write the report `{}`", path.display());
    let hint = "name a file in a folder that exists";
    Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]))
}

/// Writes what was asked for, and what the environment asks for.
pub(super) fn write(reader: &JournalReader, run: &str, watch: &WatchArguments) -> Result<(), CommandFailure> {
    let is_on_github = is_on_github() && !watch.json;
    if watch.report.is_none() && !is_on_github {
        return Ok(());
    }
    let report = RunReport::read(reader, run)?;
    if let Some(JunitPath(path)) = &watch.report {
        write_report(path, &report.junit())?;
    }
    if is_on_github {
        for line in report.annotations().lines() {
            printing::print_line(line);
        }
        append_summary(&report.markdown())?;
    }
    Ok(())
}

pub(super) fn write_report(path: &Path, text: &str) -> Result<(), CommandFailure> {
    std::fs::write(path, text).map_err(|error| {
        let message = format!("cannot write the report `{}`: {}", path.display(), plain(&error));
        CommandFailure::Failed(vec![Report::plain(message)])
    })
}

/// Adds a summary to the page of a job of GitHub Actions, if this is one.
pub(super) fn append_summary(markdown: &str) -> Result<(), CommandFailure> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(markdown.as_bytes())).map_err(|error| {
        let path = Path::new(&path).display();
        let message = format!("cannot write the summary of the job, `{path}`: {}", plain(&error));
        CommandFailure::Failed(vec![Report::plain(message)])
    })
}

/// How every step and every item of a run ended.
struct RunReport {
    workflow: String,
    run: String,
    /// How the run ended; none if it stopped before its end.
    outcome: Option<Outcome>,
    duration: Duration,
    exports: Value,
    executions: Vec<ReportedExecution>,
}

/// A step or an item with its last outcome.
struct ReportedExecution {
    name: String,
    /// The file, line and column of the step.
    place: (String, usize, usize),
    time: Duration,
    status: Status,
    /// The error, or the reason why it was skipped.
    reason: String,
    printed: Vec<String>,
}

impl RunReport {
    fn read(reader: &JournalReader, run: &str) -> Result<Self, CommandFailure> {
        let history = History::open(reader, run)?;
        let mut last: BTreeMap<Address, (Seq, ReportedExecution)> = BTreeMap::new();
        let (mut outcome, mut exports, mut times) = (None, Value::NULL, None);
        history.each(|_, event| {
            let (first, _) = times.unwrap_or((event.time, event.time));
            times = Some((first, event.time));
            match &event.kind {
                EventKind::RunEnded { outcome: ended, exports: datum, .. } => {
                    outcome = Some(*ended);
                    exports = history.load(datum)?;
                }
                // What failed is done again, so the run goes on.
                EventKind::Resumed { .. } => outcome = None,
                _ => {}
            }
            if let Some(execution) = ReportedExecution::of(&history, event) {
                let first = last.get(&event.at).map_or(event.seq, |(seq, _)| *seq);
                last.insert(event.at.clone(), (first, execution));
            }
            Ok(())
        })?;
        let mut executions: Vec<_> = last.into_values().collect();
        executions.sort_by_key(|(seq, _)| *seq);
        let (first, end) = times.unwrap_or_default();
        Ok(Self {
            workflow: history.started.workflow.to_string(),
            run: run.to_owned(),
            outcome,
            duration: Duration::from_millis(u64::try_from(end - first).unwrap_or(0)),
            exports,
            executions: executions.into_iter().map(|(_, execution)| execution).collect(),
        })
    }

    fn junit(&self) -> String {
        let mut cases: Vec<TestCase> = self.executions.iter().map(ReportedExecution::case).collect();
        if matches!(self.outcome, None | Some(Outcome::Stopped)) {
            let message = "the run stopped before its end".to_owned();
            let text = format!("`threadline resume {}` goes on", self.run);
            let outcome = TestOutcome::Errored(TestTrouble { message, text });
            cases.push(TestCase {
                name: format!("run {}", self.run),
                time: None,
                outcome,
                output: String::new(),
            });
        }
        junit(&[TestSuite { name: self.workflow.clone(), properties: Vec::new(), cases }])
    }

    fn failed(&self) -> impl Iterator<Item = &ReportedExecution> {
        self.executions.iter().filter(|execution| execution.status == Status::Failed)
    }

    /// Commands of GitHub that put each failure beside its step.
    fn annotations(&self) -> String {
        let mut out = String::new();
        for execution in self.failed().take(MAX_ANNOTATIONS) {
            let (file, line, column) = &execution.place;
            let place = format!("line={line},col={column}");
            let title = format!("{} failed", execution.name);
            out.push_str(&annotation("error", file, &place, &title, &execution.text()));
        }
        out
    }

    fn markdown(&self) -> String {
        let outcome = match self.outcome {
            Some(Outcome::Completed) => "completed",
            Some(Outcome::Failed) => "failed",
            Some(Outcome::Stopped) | None => "stopped",
        };
        let count = |status| self.executions.iter().filter(|one| one.status == status).count();
        let counts = Status::ALL.map(|status| (count(status), status.name()));
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let mut out = format!(
            "### {}: {outcome}\n\nRun `{}`, {}, {}.\n\n",
            inline(&self.workflow),
            self.run,
            counts.join(", "),
            words::duration(self.duration)
        );
        let failed: Vec<&ReportedExecution> = self.failed().collect();
        // Writing into a text cannot fail.
        if !failed.is_empty() {
            out.push_str("| failed | place | reason |\n|---|---|---|\n");
            for execution in failed.iter().take(MAX_ROWS) {
                let (file, line, _) = &execution.place;
                let (name, reason) = (inline(&execution.name), inline(first_line(&execution.reason)));
                let _ = writeln!(out, "| {name} | {}:{line} | {reason} |", inline(file));
            }
            if failed.len() > MAX_ROWS {
                let _ = writeln!(out, "\n{} more failed.", failed.len() - MAX_ROWS);
            }
            out.push('\n');
        }
        if let Some(exports) = self.exports.as_object().filter(|exports| !exports.is_empty()) {
            out.push_str("| export | value |\n|---|---|\n");
            for (name, value) in exports.iter() {
                let _ = writeln!(out, "| {} | {} |", inline(name.as_str()), inline(&preview(value)));
            }
            out.push('\n');
        }
        out
    }
}

impl ReportedExecution {
    /// The execution that an event ends: a step outside of items, or an outermost item.
    fn of(history: &History<'_>, event: &Event) -> Option<Self> {
        let plan = &*history.plan;
        let (status, reason, millis, printed) = match &event.kind {
            EventKind::Finished { output, .. }
            | EventKind::Unresolved { output, .. }
            | EventKind::Skipped { output, .. }
                if !event.at.is_in_items() && !is_container(plan, &event.at) =>
            {
                let meta = |name: &str| output.meta.get(name);
                let reason = meta(names::ERROR).or_else(|| meta(names::REASON));
                let millis = meta(names::EXECUTION_TIME_MS).and_then(Value::as_i64).unwrap_or(0);
                let millis = u64::try_from(millis).unwrap_or(0);
                (output.status, reason.map(ToString::to_string), millis, printed(history, output))
            }
            EventKind::ItemEnded(ended) if event.at.items().count() == 1 => {
                let reason = ended.error.as_ref().map(ToString::to_string);
                (ended.status, reason, ended.duration_ms, Vec::new())
            }
            _ => return None,
        };
        let step = event.at.step(plan).map(|step| &plan.steps[step as usize]);
        let offset = step.map_or(0, |step| step.step.origin.span.range().start);
        let (file, line, column) = history.source().place(offset);
        Some(Self {
            name: label(plan, &event.at).trim_start().to_owned(),
            place: (file.to_owned(), line, column),
            time: Duration::from_millis(millis),
            status,
            reason: reason.unwrap_or_default(),
            printed,
        })
    }

    fn case(&self) -> TestCase {
        let outcome = match self.status {
            Status::Completed => TestOutcome::Passed,
            Status::Skipped => TestOutcome::Skipped(self.reason.clone()),
            Status::Failed | Status::Cancelled => TestOutcome::Failed(TestTrouble {
                message: first_line(&self.reason).to_owned(),
                text: self.text(),
            }),
        };
        TestCase { name: self.name.clone(), time: Some(self.time), outcome, output: String::new() }
    }

    /// The place of the step, the whole error, and the end of what the step printed.
    fn text(&self) -> String {
        let (file, line, column) = &self.place;
        let mut text = format!("{file}:{line}:{column}\n{}", self.reason);
        for line in &self.printed {
            text.push('\n');
            text.push_str(line);
        }
        text
    }
}

/// Whether an execution is a phase, a map or another list, which its own steps and items stand for.
fn is_container(plan: &Plan, at: &Address) -> bool {
    let action = at.step(plan).map(|step| &plan.steps[step as usize].step.action);
    action.is_some_and(|action| matches!(action, Action::Phase(_) | Action::ForEach(_)))
}

/// The end of what a failed step printed.
fn printed(history: &History<'_>, output: &Output) -> Vec<String> {
    if output.status != Status::Failed {
        return Vec::new();
    }
    let lines = printed_lines(history.reader, output, PRINTED_LINES);
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}

/// A text in a cell of a table of Markdown, in which it formats nothing.
pub(super) fn inline(text: &str) -> String {
    let text = words::one_line(text);
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if "\\`*_[]<>|&~#$".contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}
