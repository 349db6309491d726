//! A run as people watch it: one line per step, and what went wrong at the end.
//!
//! It only consumes events; a run that is shown later is fed the same events again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::event::{Datum, Event, Instance, Millis, Output, Status, What};
use threadline_engine::machine::Outcome;
use threadline_flow::plan::{Part, Plan};
use threadline_lang::Value;
use threadline_lang::diag::preview;
use threadline_runner::driver::{CalledNotice, Notice};
use threadline_runner::output::spoken;
use threadline_runner::process::Stream;
use unicode_width::UnicodeWidthStr;

use crate::arguments::Trace;
use crate::report::{self, Report, Source, first_line, visible};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// The column where times begin.
const LABEL_WIDTH: usize = 32;

/// The steps of each item are shown when a `foreach` has at most so many; of more only what goes wrong.
const ITEMS_SHOWN: u64 = 10;

/// So many lines of a failed step's stderr are shown.
const STDERR_LINES: usize = 10;

/// Prints a run as it goes on.
pub(crate) struct Reporter {
    plan: Arc<Plan>,
    how: How,
    counts: Counts,
    began: Option<Millis>,
    /// The line of a step that has been printed only in part, for each stream.
    partial: BTreeMap<(Instance, bool), Vec<u8>>,
    /// The executions with more items than are shown.
    crowded: BTreeSet<Instance>,
    /// How wide the labels are.
    width: usize,
    /// What stands before the labels of a called run: the step that called it.
    prefix: String,
    /// How far its lines are indented.
    indent: usize,
    /// Whether only what goes wrong is shown.
    quiet: bool,
    /// Runs that steps called and that go on.
    called: BTreeMap<EcoString, Self>,
}

/// What is printed.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Every line that a step prints.
    pub(crate) verbose: bool,
    /// Every reference that is resolved.
    pub(crate) trace: Option<Trace>,
}

#[derive(Default)]
struct Counts {
    completed: u64,
    failed: u64,
    skipped: u64,
}

impl Reporter {
    pub(crate) fn new(plan: Arc<Plan>, how: How) -> Self {
        let width = label_width(&plan, &mut BTreeMap::new()).clamp(12, LABEL_WIDTH);
        Self {
            plan,
            how,
            counts: Counts::default(),
            began: None,
            partial: BTreeMap::new(),
            crowded: BTreeSet::new(),
            width,
            prefix: String::new(),
            indent: 0,
            quiet: false,
            called: BTreeMap::new(),
        }
    }

    pub(crate) fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Printed(at, stream, bytes) if self.how.verbose => self.printed(at, *stream, bytes),
            Notice::Printed(..) => {}
            Notice::Called(called) => self.called(called),
            remark => self::remark(&self.plan, self.how.trace, remark),
        }
    }

    /// What happens in a run that a step called, under the line of that step.
    fn called(&mut self, called: &CalledNotice) {
        let CalledNotice { at, run, plan, notice } = called;
        let happened = if let Notice::Event(event) = notice { Some(&event.what) } else { None };
        if !self.called.contains_key(run) {
            let quiet = self.is_crowded(at);
            if !quiet && matches!(happened, Some(What::RunStarted(_) | What::Resumed { .. })) {
                let goes_on = if matches!(happened, Some(What::Resumed { .. })) { " goes on" } else { "" };
                self.line(at, DIM, "▸", "", &format!("run {run}{goes_on}"));
            }
            let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize]);
            let inside = Self {
                prefix: format!("{}{}/", self.prefix, self.name(at)),
                indent: self.indent + step.map_or(0, |step| depth(&step.number)) + 1,
                quiet,
                width: self.width,
                ..Self::new(Arc::clone(plan), self.how)
            };
            self.called.insert(run.clone(), inside);
        }
        match happened {
            Some(What::RunStarted(_) | What::Resumed { .. }) => {}
            // The step that called it says how it ended.
            Some(What::RunEnded { .. } | What::Paused { .. }) => drop(self.called.remove(run)),
            _ => self.called.get_mut(run).into_iter().for_each(|inside| inside.notice(notice)),
        }
    }

    /// A step and its items, without what it is a part of.
    fn name(&self, at: &Instance) -> String {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].label);
        step.map_or_else(|| at.to_string(), |label| format!("{label}{}", items(at)))
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match &event.what {
            What::RunStarted(started) => {
                self.began = Some(event.time);
                say(&format!("{BOLD}{}{BOLD:#} {DIM}run {}{DIM:#}", visible(&started.workflow), started.run));
            }
            What::Resumed { .. } => {
                self.began.get_or_insert(event.time);
                say(&format!("{DIM}resumed{DIM:#}"));
            }
            What::Finished { output, .. } | What::Unresolved { output, .. } => {
                self.rest_of_lines(&event.at);
                self.finished(event, output);
            }
            What::Skipped { output, .. } => {
                self.counts.skipped += 1;
                if self.is_crowded(&event.at) {
                    return;
                }
                let reason = output.meta.get("reason").map_or(String::new(), Value::to_string);
                self.line(&event.at, DIM, "-", "skipped", &reason);
            }
            What::Retrying { .. } if self.is_crowded(&event.at) => {}
            What::Retrying { output, until } => {
                let pause = u64::try_from(until - event.time).unwrap_or(0);
                let pause = spoken(std::time::Duration::from_millis(pause));
                let note = format!("{}, again in {pause}", error_of(output));
                self.line(&event.at, BAD, "↻", &time_of(output), &note);
            }
            What::Expanded { count, parallel, .. } => {
                let within_crowd = self.is_crowded(&event.at);
                if *count > ITEMS_SHOWN && !self.how.verbose {
                    self.crowded.insert(event.at.clone());
                }
                if !within_crowd {
                    let unit = if *count == 1 { "item" } else { "items" };
                    let at_once = if *parallel > 1 { format!(", {parallel} at once") } else { String::new() };
                    self.line(&event.at, DIM, "▸", "", &format!("{count} {unit}{at_once}"));
                }
            }
            What::Paused { reason } => say(&format!("{DIM}paused: {reason}{DIM:#}")),
            What::RunEnded { outcome, .. } => self.ended(event.time, *outcome),
            What::Started { rerun: true, .. } => {
                self.line(&event.at, DIM, "↻", "", "was running at the crash, runs again");
            }
            What::Decided { .. }
            | What::Started { .. }
            | What::Defined { .. }
            | What::ItemBegun { .. }
            | What::ItemEnded(_)
            | What::ItemRetrying { .. } => {}
        }
    }

    fn finished(&mut self, event: &Event, output: &Output) {
        if output.status == Status::Completed {
            self.counts.completed += 1;
            if self.is_crowded(&event.at) {
                return;
            }
            let step = event.at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
            let named = step.is_some_and(|step| step.id.is_some() || step.capture.is_some());
            let note = if named { result_of(output) } else { String::new() };
            self.line(&event.at, GOOD, "✓", &time_of(output), &note);
            return;
        }
        self.counts.failed += 1;
        self.line(&event.at, BAD, "✗", &time_of(output), &error_of(output));
        if let Some(Datum::Here(stderr)) = &output.stderr {
            let text = stderr.to_string();
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(STDERR_LINES)..] {
                say(&format!("    {DIM}│{DIM:#} {}", visible(line)));
            }
        }
    }

    /// Whether it belongs to an item of which there are many.
    fn is_crowded(&self, at: &Instance) -> bool {
        let mut ends = at.0.match_indices('[').map(|(end, _)| end);
        self.quiet || ends.any(|end| self.crowded.contains(&Instance(at.0[..end].into())))
    }

    fn ended(&self, time: Millis, outcome: Outcome) {
        let Counts { completed, failed, skipped } = &self.counts;
        let mut parts = vec![format!("{completed} completed")];
        if *failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        if *skipped > 0 {
            parts.push(format!("{skipped} skipped"));
        }
        let elapsed = self.began.map(|began| u64::try_from(time - began).unwrap_or(0));
        let elapsed = elapsed.map_or(String::new(), |millis| {
            format!(" in {}", spoken(std::time::Duration::from_millis(millis)))
        });
        let (style, word) = match outcome {
            Outcome::Completed => (GOOD, "completed"),
            Outcome::Failed => (BAD, "failed"),
        };
        say(&format!("{style}{word}{style:#}: {}{elapsed}", parts.join(", ")));
    }

    /// One line about a step: a mark, its label, how long it took, and what is to be said.
    fn line(&self, at: &Instance, style: Style, mark: &str, time: &str, note: &str) {
        let label = self.label(at);
        let mut line = format!("{style}{mark}{style:#} {}", visible(&label));
        let pad = self.width.saturating_sub(label.width());
        // Writing into a text cannot fail.
        let _ = write!(line, "{:pad$} {DIM}{time:>7}{DIM:#}  {}", "", visible(note));
        say(line.trim_end());
    }

    /// A step as its lines begin with it.
    fn label(&self, at: &Instance) -> String {
        if self.prefix.is_empty() {
            return label(&self.plan, at);
        }
        let inside = at.step(&self.plan).map_or(0, |step| depth(&self.plan.steps[step as usize].number));
        format!("{}{}{}", "  ".repeat(self.indent + inside), self.prefix, self.name(at))
    }

    /// Whole lines of what a step prints, as they come.
    fn printed(&mut self, at: &Instance, stream: Stream, bytes: &[u8]) {
        let key = (at.clone(), stream == Stream::Stderr);
        let partial = self.partial.entry(key).or_default();
        partial.extend_from_slice(bytes);
        let Some(end) = partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = partial.split_off(end + 1);
        let lines = std::mem::replace(partial, rest);
        self.lines(at, &lines);
    }

    fn rest_of_lines(&mut self, at: &Instance) {
        for stderr in [false, true] {
            if let Some(rest) = self.partial.remove(&(at.clone(), stderr)).filter(|rest| !rest.is_empty()) {
                self.lines(at, &rest);
            }
        }
    }

    fn lines(&self, at: &Instance, bytes: &[u8]) {
        let label = self.label(at);
        for line in String::from_utf8_lossy(bytes).lines() {
            say(&format!("  {DIM}{} │{DIM:#} {}", visible(&label), visible(line)));
        }
    }
}

/// Prints what is said to people about the text of a workflow, whatever form the run itself is shown in.
pub(crate) fn remark(plan: &Plan, trace: Option<Trace>, notice: &Notice) {
    let file = &plan.workflow.file;
    let source = Source { name: file.name(), text: file.text() };
    let reports: Vec<Report> = match notice {
        Notice::Resolved(_, resolutions) => {
            if let Some(format) = trace {
                report::print_trace(source, format, resolutions);
            }
            return;
        }
        Notice::Warned(_, warnings) => {
            warnings.iter().map(|warning| Report::warning(source, warning)).collect()
        }
        Notice::Problems(_, problems) => {
            problems.iter().map(|problem| Report::problem(source, problem)).collect()
        }
        Notice::Event(_) | Notice::Printed(..) | Notice::Called(_) => return,
    };
    report::print_all(&reports);
}

/// A step and its items, as people name them.
pub(crate) fn label(plan: &Plan, at: &Instance) -> String {
    let Some(step) = at.step(plan) else { return at.to_string() };
    let step = &plan.steps[step as usize];
    format!("{}{}{}", "  ".repeat(depth(&step.number)), step.label, items(at))
}

/// The items that an execution is for, `[17]` or `[3][0]`; nothing where there is none.
pub(crate) fn items(at: &Instance) -> String {
    at.items().fold(String::new(), |text, index| text + "[" + index + "]")
}

/// How wide the labels of a plan are, with those of the workflows that it calls; `known` are those of files.
fn label_width<'p>(plan: &'p Plan, known: &mut BTreeMap<&'p str, usize>) -> usize {
    let mut widest = 0;
    for step in &plan.steps {
        // Room for the index of an item, such as `[17]`.
        let items = step.number.split('.').filter(|word| *word == Part::Do.key()).count();
        let width = step.label.width() + 2 * depth(&step.number) + 4 * items;
        let inside = match &step.calls {
            // A slash, and one level further.
            Some(plan) => {
                3 + match known.get(plan.workflow.file.name()) {
                    Some(width) => *width,
                    None => label_width(plan, known),
                }
            }
            None => 0,
        };
        widest = widest.max(width + inside);
    }
    known.insert(plan.workflow.file.name(), widest);
    widest
}

/// How deep a step stands in the file.
fn depth(number: &str) -> usize {
    number.split('.').count().saturating_sub(1) / 2
}

fn time_of(output: &Output) -> String {
    let millis = output.meta.get("execution_time_ms").and_then(Value::as_i64).unwrap_or(0);
    spoken(std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

fn error_of(output: &Output) -> String {
    let error = output.meta.get("error").map(Value::to_string);
    error.map_or_else(|| output.status.name().to_owned(), |error| first_line(&error).to_owned())
}

fn result_of(output: &Output) -> String {
    match &output.value {
        Datum::Here(value) => format!("→ {}", preview(value)),
        Datum::Stored { len, .. } => format!("→ {len} bytes"),
    }
}

fn say(line: &str) {
    // Whoever read it may be gone; the run goes on.
    let _ = writeln!(anstream::stdout(), "{line}");
}
