//! A run as people watch it: one line per step, and what went wrong at the end.
//!
//! It only consumes events; a run that is shown later is fed the same events again.

mod states;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, ItemEnded, LoopEnd, Millis, Output, Status,
};
use threadline_engine::execute::result::format_duration;
use threadline_engine::machine::Outcome;
use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::preview;
use threadline_runner::driver::{CalledNotice, Notice};
use threadline_runner::process::Stream;
use threadline_runner::values::Values;
use unicode_width::UnicodeWidthStr;

use self::states::Acted;
pub(crate) use self::states::{loop_end, no_route, way};
use crate::arguments::Trace;
use crate::commands::explain::target::lists_around;
use crate::live::Live;
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::report::{first_line, visible};
use crate::screen::Screen;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// The column where times begin.
const LABEL_WIDTH: usize = 32;

/// The steps of each item are shown when a list has at most so many; of more only how many are done and what goes wrong.
const ITEMS_SHOWN: u64 = 10;

/// So many items that fail are shown of a list with many; the others are counted.
const FAILURES_SHOWN: usize = 10;

/// So many lines of a failed step's stderr are shown, and of an item that is one of many.
const STDERR_LINES: usize = 10;
const STDERR_LINES_OF_ITEM: usize = 3;

/// Between two lines about a list lies at least so long, in milliseconds, and such a part of its items.
const BETWEEN_LINES: Millis = 10_000;
const LINES_OF_LIST: u64 = 10;

/// Prints a run as it goes on.
pub(crate) struct Reporter<'a> {
    plan: Arc<Plan>,
    run: String,
    how: How,
    remarks: Remarks,
    progress: Progress,
    steps: Counts,
    began: Option<Millis>,
    /// The line of a step that has been printed only in part, for each stream.
    partial: BTreeMap<(Address, bool), Vec<u8>>,
    /// The lists with more items than are shown, and how many of their failures were.
    crowded: BTreeMap<Address, usize>,
    /// The last step that failed, of items that are not over.
    failing: BTreeMap<Address, Failing>,
    /// The phase whose steps are shown.
    phase: Option<Address>,
    /// What the state did that is being judged.
    acted: Acted,
    /// The iteration whose states are shown.
    iteration: u64,
    /// Whether lines are those of a loop, of which a terminal shows the last.
    keeps: bool,
    /// How wide verdicts are with their routes.
    way_width: usize,
    /// How wide the labels are.
    width: usize,
    /// What stands before the labels of a called run: the step that called it.
    prefix: String,
    /// How far its lines are indented.
    indent: usize,
    /// Runs that steps called and that go on.
    called: BTreeMap<EcoString, Self>,
    voice: Voice<'a>,
}

/// Where lines go.
enum Voice<'a> {
    /// To stdout.
    Lines,
    /// To whoever reports the run that called this one.
    Kept(Vec<String>),
    /// To a terminal with a block below them.
    Live(Live<'a>),
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

impl Counts {
    fn add(&mut self, status: Status) {
        match status {
            Status::Completed => self.completed += 1,
            Status::Failed | Status::Cancelled => self.failed += 1,
            Status::Skipped => self.skipped += 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.completed + self.failed + self.skipped == 0
    }

    /// `4 completed, 1 failed`; with a unit `4 steps completed, 1 failed`.
    fn text(&self, unit: &str) -> String {
        let Self { completed, failed, skipped } = self;
        let unit = match (unit, *completed) {
            ("", _) => String::new(),
            (unit, 1) => format!(" {unit}"),
            (unit, _) => format!(" {unit}s"),
        };
        let mut parts = vec![format!("{completed}{unit} completed")];
        if *failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        if *skipped > 0 {
            parts.push(format!("{skipped} skipped"));
        }
        parts.join(", ")
    }
}

/// A step that failed in an item.
struct Failing {
    label: String,
    error: String,
    stderr: Vec<String>,
}

impl<'a> Reporter<'a> {
    /// Reports a run of which so much has happened.
    pub(crate) fn new(plan: Arc<Plan>, run: &str, how: How, progress: Progress) -> Self {
        let width = label_width(&plan, &mut BTreeMap::new()).clamp(12, LABEL_WIDTH);
        let way_width = states::way_width(&plan);
        let iteration = progress.turns.iteration;
        Self {
            plan,
            run: run.to_owned(),
            how,
            remarks: Remarks::new(how.trace),
            progress,
            steps: Counts::default(),
            began: None,
            partial: BTreeMap::new(),
            crowded: BTreeMap::new(),
            failing: BTreeMap::new(),
            phase: None,
            acted: Acted::default(),
            iteration,
            keeps: false,
            way_width,
            width,
            prefix: String::new(),
            indent: 0,
            called: BTreeMap::new(),
            voice: Voice::Lines,
        }
        .known_crowds()
    }

    /// Draws on a terminal; items are read from these values.
    pub(crate) fn live(self, screen: Screen, values: Values<'a>) -> Self {
        Self { voice: Voice::Live(Live::new(screen, values)), ..self }
    }

    /// The lists that were under way when the run was resumed.
    fn known_crowds(mut self) -> Self {
        let going = self.progress.lists().filter(|list| list.total > ITEMS_SHOWN && !self.how.verbose);
        self.crowded = going.map(|list| (list.at.clone(), 0)).collect();
        self
    }

    /// How many items are failed now.
    pub(crate) fn failed_items(&self) -> usize {
        self.progress.failed.len()
    }

    /// Takes an event that is shown elsewhere.
    pub(crate) fn recall(&mut self, event: &Event) {
        self.progress.take(event);
    }

    pub(crate) fn notice(&mut self, notice: &Notice) {
        let plan = Arc::clone(&self.plan);
        let (plan, inner) = innermost(&plan, notice);
        match notice {
            // What is said of a text is said of it by whoever runs it.
            _ if is_remark(inner) => {
                self.aside();
                self.remarks.notice(plan, inner);
            }
            Notice::Event(event) => self.event(event),
            Notice::Printed(at, stream, bytes) if self.how.verbose => self.printed(at, *stream, bytes),
            Notice::Called(called) => self.called(called),
            _ => {}
        }
    }

    /// What is drawn is drawn anew.
    pub(crate) fn tick(&mut self) {
        if let Voice::Live(live) = &mut self.voice {
            live.draw(&self.plan, &self.progress);
        }
    }

    /// Somebody else prints something: what is drawn makes place for it.
    pub(crate) fn aside(&mut self) {
        if let Voice::Live(live) = &mut self.voice {
            live.clear();
        }
    }

    /// What happens in a run that a step called, under the line of that step.
    fn called(&mut self, called: &CalledNotice) {
        let CalledNotice { at, run, plan, notice } = called;
        let happened = if let Notice::Event(event) = notice { Some(&event.kind) } else { None };
        if self.crowd_of(at).is_some() {
            // The item says what became of it.
            return;
        }
        if !self.called.contains_key(run) {
            if matches!(happened, Some(EventKind::RunStarted(_) | EventKind::Resumed { .. })) {
                let goes_on =
                    if matches!(happened, Some(EventKind::Resumed { .. })) { " goes on" } else { "" };
                self.line(at, DIM, "▸", "", &format!("run {run}{goes_on}"));
            }
            let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize]);
            let inside = Self {
                prefix: format!("{}{}/", self.prefix, self.name(at)),
                indent: self.indent + step.map_or(0, |step| depth(&step.number)) + 1,
                width: self.width,
                voice: Voice::Kept(Vec::new()),
                ..Self::new(Arc::clone(plan), run, self.how, Progress::default())
            };
            self.called.insert(run.clone(), inside);
        }
        let Some(inside) = self.called.get_mut(run) else { return };
        match happened {
            Some(EventKind::RunStarted(_) | EventKind::Resumed { .. }) => {}
            // The step that called it says how it ended.
            Some(EventKind::RunEnded { .. } | EventKind::Paused { .. }) => drop(self.called.remove(run)),
            _ => {
                inside.notice(notice);
                let Voice::Kept(lines) = &mut inside.voice else { return };
                for line in std::mem::take(lines) {
                    self.say(&line);
                }
            }
        }
    }

    /// A step and its items, without what it is a part of.
    fn name(&self, at: &Address) -> String {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].label);
        let visit = states::visit(at);
        step.map_or_else(|| at.to_string(), |label| format!("{label}{visit}{}", at.item_suffix()))
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.progress.take(event);
        match &event.kind {
            EventKind::RunStarted(started) => {
                self.began = Some(event.time);
                let line =
                    format!("{BOLD}{}{BOLD:#} {DIM}run {}{DIM:#}", visible(&started.workflow), started.run);
                self.say(&line);
            }
            EventKind::Resumed { .. } => {
                self.began.get_or_insert(event.time);
                self.phase = None;
                self.say(&format!("{DIM}resumed{DIM:#}"));
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                self.rest_of_lines(&event.at);
                self.finished(event, output);
            }
            EventKind::Skipped { output, .. } => {
                self.count(&event.at, Status::Skipped);
                if self.crowd_of(&event.at).is_some() {
                    return;
                }
                let reason = output.meta.get("reason").map_or(String::new(), Value::to_string);
                self.line(&event.at, DIM, "-", "skipped", &reason);
            }
            EventKind::Retrying { .. } if self.crowd_of(&event.at).is_some() => {}
            EventKind::Retrying { output, until } => {
                let note = format!("{}, again in {}", error_of(output), pause(event.time, *until));
                self.line(&event.at, BAD, "↻", &time_of(output), &note);
            }
            EventKind::Expanded { count, parallel, .. } => {
                let within_crowd = self.crowd_of(&event.at).is_some();
                if *count > ITEMS_SHOWN && !self.how.verbose {
                    self.crowded.insert(event.at.clone(), 0);
                }
                if !within_crowd {
                    let unit = if *count == 1 { "item" } else { "items" };
                    let at_once = if *parallel > 1 { format!(", {parallel} at once") } else { String::new() };
                    self.line(&event.at, DIM, "▸", "", &format!("{count} {unit}{at_once}"));
                }
            }
            EventKind::ItemRetrying { error, until } => {
                self.failing.remove(&event.at);
                let note = format!("{}, again in {}", first_line(error), pause(event.time, *until));
                if self.shows_failure(&event.at) {
                    self.line(&event.at, BAD, "↻", "", &note);
                }
            }
            EventKind::ItemEnded(ended) => self.item_ended(event, ended),
            EventKind::Paused { reason } => {
                self.release();
                self.say(&format!("{DIM}paused: {reason}{DIM:#}"));
            }
            EventKind::Judged(judged) => {
                self.keeps = true;
                self.judged(event, judged);
                self.keeps = false;
            }
            EventKind::RunEnded { outcome, ended, .. } => self.ended(event.time, *outcome, ended.as_ref()),
            EventKind::Started { rerun: true, .. } => {
                self.line(&event.at, DIM, "↻", "", "was running at the crash, runs again");
            }
            EventKind::Decided { .. }
            | EventKind::Started { .. }
            | EventKind::Defined { .. }
            | EventKind::LimitsResolved { .. }
            | EventKind::ItemBegun { .. } => {}
        }
    }

    fn finished(&mut self, event: &Event, output: &Output) {
        self.count(&event.at, output.status);
        let step = event.at.step(&self.plan).map(|step| Arc::clone(&self.plan.steps[step as usize].step));
        if step.as_ref().is_some_and(|step| step.state.is_some()) {
            // Its line is printed when it was judged.
            self.acted = Acted::of(output);
            return;
        }
        if output.status == Status::Completed {
            let is_phase = step.as_ref().is_some_and(|step| matches!(step.action, Action::Phase(_)));
            if is_phase || self.crowd_of(&event.at).is_some() {
                return;
            }
            let is_map = step.as_ref().is_some_and(|step| is_map(&step.action));
            let named = step.is_some_and(|step| step.id.is_some() || step.capture.is_some());
            let note = if is_map {
                counts_of(output)
            } else if named {
                result_of(output)
            } else {
                String::new()
            };
            self.line(&event.at, GOOD, "✓", &time_of(output), &note);
            return;
        }
        let stderr = match &output.stderr {
            Some(Datum::Here(stderr)) => stderr.to_string(),
            _ => String::new(),
        };
        let error = error_of(output);
        if let Some(item) = event.at.items_around().next_back() {
            let is_one_of_many = self.crowd_of(&event.at).is_some();
            let label = step_label(&self.plan, &event.at);
            let lines = if is_one_of_many { last_lines(&stderr, STDERR_LINES_OF_ITEM) } else { Vec::new() };
            self.failing.insert(item, Failing { label, error: error.clone(), stderr: lines });
            if is_one_of_many {
                return;
            }
        }
        self.line(&event.at, BAD, "✗", &time_of(output), &error);
        self.stderr(&last_lines(&stderr, STDERR_LINES));
    }

    /// An item is over. One of many is what is told of, one of few only when its steps do not say it.
    fn item_ended(&mut self, event: &Event, ended: &ItemEnded) {
        let failing = self.failing.remove(&event.at);
        if ended.status == Status::Failed {
            let error = ended.error.as_deref().map(first_line).unwrap_or_default();
            // Behind the error of its step an item has what the program said, which stands below the line here.
            let of_step = failing.as_ref().filter(|failing| {
                let more = error.strip_prefix(failing.error.as_str());
                more.is_some_and(|more| more.is_empty() || more.starts_with(": "))
            });
            let is_one_of_many = self.crowd_of(&event.at).is_some();
            if of_step.is_none() || is_one_of_many {
                let note = of_step.map_or(error.to_owned(), |step| format!("{}: {}", step.label, step.error));
                let time = format_duration(Duration::from_millis(ended.duration_ms));
                if self.shows_failure(&event.at) {
                    self.line(&event.at, BAD, "✗", &time, &note);
                    self.stderr(of_step.map_or(&[], |step| &step.stderr));
                }
            }
        }
        self.now_and_then(event);
    }

    /// Whether one more item that fails is shown; when there are too many of them, that is said once.
    fn shows_failure(&mut self, at: &Address) -> bool {
        let Some(crowd) = self.crowd_of(at) else { return true };
        let Some(shown) = self.crowded.get_mut(&crowd) else { return true };
        *shown += 1;
        if *shown == FAILURES_SHOWN + 1 {
            let line = format!(
                "  {DIM}failures from here on are counted: threadline show {} --failed{DIM:#}",
                self.run
            );
            self.say(&line);
            return false;
        }
        *shown <= FAILURES_SHOWN
    }

    /// A line about a list with many items, when long enough after the one before and far enough.
    fn now_and_then(&mut self, event: &Event) {
        if matches!(self.voice, Voice::Live(_)) {
            return;
        }
        let crowded = &self.crowded;
        let list = self.progress.list_of_item(&event.at).filter(|list| crowded.contains_key(&list.at));
        let Some(list) = list else { return };
        let (then, before) = list.told;
        let far = (list.done() - before).saturating_mul(LINES_OF_LIST) >= list.total;
        if event.time - then < BETWEEN_LINES || !far || list.done() >= list.total {
            return;
        }
        list.told = (event.time, list.done());
        let mut note = format!("{} of {} items", list.done(), list.total);
        if list.failed > 0 {
            // Writing into a text cannot fail.
            let _ = write!(note, ", {} failed", list.failed);
        }
        if let Some(left) = list.left(event.time) {
            let _ = write!(note, ", about {} left", about(left));
        }
        let at = list.at.clone();
        self.line(&at, DIM, "·", "", &note);
    }

    fn stderr(&mut self, lines: &[String]) {
        for line in lines {
            self.say(&format!("    {DIM}│{DIM:#} {}", visible(line)));
        }
    }

    /// Counts what people call a step: nothing inside of an item, and no phase.
    fn count(&mut self, at: &Address, status: Status) {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step.action);
        let is_phase = step.is_some_and(|action| matches!(action, Action::Phase(_)) || is_map(action));
        if !is_phase && at.items().next().is_none() {
            self.steps.add(status);
        }
    }

    /// The list with many items that an execution belongs to one of.
    fn crowd_of(&self, at: &Address) -> Option<Address> {
        if self.crowded.is_empty() {
            return None;
        }
        let owners = at.items_around().filter_map(|item| item.parent());
        owners.into_iter().find(|owner| self.crowded.contains_key(owner))
    }

    fn ended(&mut self, time: Millis, outcome: Outcome, ended: Option<&LoopEnd>) {
        // Items that were done again are counted as they are now.
        let items = self.progress.lists().fold(Counts::default(), |sum, list| Counts {
            completed: sum.completed + list.completed,
            failed: sum.failed + list.failed,
            skipped: sum.skipped + list.skipped,
        });
        let counts = match (items.is_empty(), self.steps.is_empty()) {
            (true, _) => self.steps.text(""),
            (false, true) => items.text("item"),
            (false, false) => format!("{}; {}", self.steps.text("step"), items.text("item")),
        };
        let elapsed = self.began.map(|began| u64::try_from(time - began).unwrap_or(0));
        let elapsed = elapsed.map_or(String::new(), |millis| {
            format!(" in {}", format_duration(Duration::from_millis(millis)))
        });
        let (style, word) = match outcome {
            Outcome::Completed => (GOOD, "completed"),
            Outcome::Failed => (BAD, "failed"),
            Outcome::Stopped => (OPEN, "stopped"),
        };
        self.release();
        let line = match (&self.plan.states, ended) {
            (None, _) => format!("{style}{word}{style:#}: {counts}{elapsed}"),
            (Some(_), ended) => {
                let turns = &self.progress.turns;
                let last = turns.recent.back().map_or(String::new(), |turn| {
                    format!(" in {}{}", turn.at.state().unwrap_or_default(), states::visit(&turn.at))
                });
                let ended = ended.map_or(last, |end| loop_end(outcome, end));
                format!("{style}{word}{style:#}{ended}; {}{elapsed}", turns.counts())
            }
        };
        self.say(&line);
    }

    /// One line about a step: a mark, its label, how long it took, and what is to be said.
    fn line(&mut self, at: &Address, style: Style, mark: &str, time: &str, note: &str) {
        self.heading(at);
        self.iteration();
        let label = self.label(at);
        let mut line = format!("{style}{mark}{style:#} {}", visible(&label));
        if time.is_empty() && note.is_empty() {
            return self.say(&line);
        }
        let pad = self.width.saturating_sub(label.width());
        // Writing into a text cannot fail.
        let _ = write!(line, "{:pad$} {DIM}{time:>7}{DIM:#}  {}", "", visible(note));
        self.say(line.trim_end());
    }

    /// The first line from inside of a phase stands below its name.
    fn heading(&mut self, at: &Address) {
        let Some(phase) = at.outermost().filter(|_| self.plan.is_map_reduce()) else { return };
        if self.phase.as_ref() == Some(&phase) || phase == *at || at.is_in_items_of(&phase) {
            return;
        }
        let line = format!("{DIM}▸{DIM:#} {}", visible(&self.label(&phase)));
        self.phase = Some(phase);
        self.say(&line);
    }

    /// A step as its lines begin with it.
    fn label(&self, at: &Address) -> String {
        if self.prefix.is_empty() {
            return label(&self.plan, at);
        }
        let inside = at.step(&self.plan).map_or(0, |step| depth(&self.plan.steps[step as usize].number));
        format!("{}{}{}", "  ".repeat(self.indent + inside), self.prefix, self.name(at))
    }

    /// Whole lines of what a step prints, as they come.
    fn printed(&mut self, at: &Address, stream: Stream, bytes: &[u8]) {
        let key = (at.clone(), stream == Stream::Stderr);
        let partial = self.partial.entry(key).or_default();
        partial.extend_from_slice(bytes);
        let Some(end) = partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = partial.split_off(end + 1);
        let lines = std::mem::replace(partial, rest);
        self.lines(at, &lines);
    }

    fn rest_of_lines(&mut self, at: &Address) {
        if self.partial.is_empty() {
            return;
        }
        for stderr in [false, true] {
            if let Some(rest) = self.partial.remove(&(at.clone(), stderr)).filter(|rest| !rest.is_empty()) {
                self.lines(at, &rest);
            }
        }
    }

    fn lines(&mut self, at: &Address, bytes: &[u8]) {
        self.iteration();
        let label = self.label(at);
        for line in String::from_utf8_lossy(bytes).lines() {
            self.say(&format!("  {DIM}{} │{DIM:#} {}", visible(&label), visible(line)));
        }
    }

    /// The lines of a loop that were kept back.
    fn release(&mut self) {
        if let Voice::Live(live) = &mut self.voice {
            live.release(&self.run);
        }
    }

    fn say(&mut self, line: &str) {
        match &mut self.voice {
            // Whoever read it may be gone; the run goes on.
            Voice::Lines => drop(writeln!(anstream::stdout(), "{line}")),
            Voice::Kept(lines) => lines.push(line.to_owned()),
            Voice::Live(screen) if self.keeps => screen.keep(line),
            Voice::Live(screen) => screen.say(line),
        }
    }
}

/// What a notice is about, through all runs that called each other, and the text it belongs to.
pub(crate) fn innermost<'n>(plan: &'n Plan, notice: &'n Notice) -> (&'n Plan, &'n Notice) {
    let mut found = (plan, notice);
    while let Notice::Called(called) = found.1 {
        found = (&called.plan, &called.notice);
    }
    found
}

/// Whether something is said about the text of a workflow.
fn is_remark(notice: &Notice) -> bool {
    matches!(notice, Notice::Resolved(..) | Notice::Warned(..) | Notice::Problems(..))
}

/// A step and its items, as people name them.
pub(crate) fn label(plan: &Plan, at: &Address) -> String {
    let Some(step) = at.step(plan) else { return at.to_string() };
    let step = &plan.steps[step as usize];
    let visit = states::visit(at);
    format!("{}{}{visit}{}", "  ".repeat(depth(&step.number)), step.label, at.item_suffix())
}

/// A step, as people name it.
pub(crate) fn step_label(plan: &Plan, at: &Address) -> String {
    at.step(plan).map_or_else(|| at.to_string(), |step| plan.steps[step as usize].label.to_string())
}

/// How wide the labels of a plan are, with those of the workflows that it calls; `known` are those of files.
fn label_width<'p>(plan: &'p Plan, known: &mut BTreeMap<&'p str, usize>) -> usize {
    let mut widest = 0;
    for (number, step) in (0..).zip(&plan.steps) {
        // Room for the index of an item, such as `[17]`.
        // Of a state for the number of a visit, such as `#17`.
        let visit = if step.step.state.is_some() { 3 } else { 0 };
        let width = step.label.width() + visit + 2 * depth(&step.number) + 4 * lists_around(plan, number);
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

/// How deep a step stands in the file: `3` and `finally.1` at the top, `setup.1` and `3.do.1` below another.
fn depth(number: &str) -> usize {
    let number = number.strip_prefix("finally.").unwrap_or(number);
    number.split('.').count() / 2
}

fn is_map(action: &Action) -> bool {
    matches!(action, Action::ForEach(each) if each.is_map)
}

/// The pause before another attempt.
fn pause(now: Millis, until: Millis) -> String {
    format_duration(Duration::from_millis(u64::try_from(until - now).unwrap_or(0)))
}

/// A long time in words, without what nobody knows yet.
pub(crate) fn about(millis: u64) -> String {
    format_duration(Duration::from_secs(millis.div_ceil(1_000)))
}

fn last_lines(text: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
}

/// `998 of 1000 items, 2 failed`.
fn counts_of(output: &Output) -> String {
    let count = |name: &str| output.meta.get(name).and_then(Value::as_i64).unwrap_or(0);
    let (total, failed, skipped) = (count("total"), count("failed"), count("skipped"));
    let mut text =
        format!("{} of {total} {}", count("successful"), if total == 1 { "item" } else { "items" });
    for (count, word) in [(failed, "failed"), (skipped, "skipped")] {
        if count > 0 {
            // Writing into a text cannot fail.
            let _ = write!(text, ", {count} {word}");
        }
    }
    text
}

fn time_of(output: &Output) -> String {
    let millis = output.meta.get("execution_time_ms").and_then(Value::as_i64).unwrap_or(0);
    format_duration(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
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

#[cfg(test)]
mod tests {
    use threadline_engine::event::{Listed, Rules};
    use threadline_flow::load::load;
    use threadline_flow::plan::plan;
    use threadline_lang::source::SourceFile;

    use super::*;

    /// What is printed of a map of so many items, each over so many milliseconds after the one before.
    fn lines(count: u64, between: Millis) -> Vec<String> {
        let text = "map:\n  input: list.json\n  steps: [{value: 1}]\n";
        let file = SourceFile::new("work.yaml", text.as_bytes().to_vec()).expect("a file");
        let workflow = load(file).0.expect("a workflow");
        let plan = plan(Arc::new(workflow)).0.expect("a plan");
        let reporter = Reporter::new(Arc::new(plan), "abc", How::default(), Progress::default());
        let mut reporter = Reporter { voice: Voice::Kept(Vec::new()), ..reporter };
        let nothing = Datum::Here(Value::NULL);
        let items = Listed::Whole(nothing.clone());
        let (computed, parallel, rules) = (Vec::new(), 1, Rules::STRICT);
        let mut happened = vec![(
            "map".to_owned(),
            EventKind::Expanded { as_of: 1, computed, items, count, parallel, rules },
        )];
        happened.extend((0..count).map(|index| {
            let ended = ItemEnded {
                status: Status::Completed,
                value: nothing.clone(),
                error: None,
                attempts: 1,
                duration_ms: 1,
                branch: None,
            };
            (format!("map[{index}]"), EventKind::ItemEnded(ended))
        }));
        let mut time = 0;
        for (seq, (at, what)) in (1..).zip(happened) {
            reporter.event(&Event { seq, time, at: Address::parse(&at).unwrap(), kind: what });
            time += between;
        }
        let Voice::Kept(lines) = reporter.voice else { panic!("lines are kept") };
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn many_quick_items_are_one_line() {
        assert_eq!(lines(1_000, 1).len(), 1);
        assert_eq!(lines(100_000, 0).len(), 1);
    }

    #[test]
    fn a_line_every_ten_seconds_when_a_tenth_takes_less() {
        // A hundred seconds: nine lines between the first and the end.
        let lines = lines(10_000, 10);
        assert_eq!(lines.len(), 1 + 9, "{lines:#?}");
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
            "· map 1000 of 10000 items, about 1m30s left"
        );
    }

    #[test]
    fn a_line_every_tenth_when_that_takes_longer() {
        // Forty items of a minute each.
        let lines = lines(40, 60_000);
        assert_eq!(lines.len(), 1 + 9, "{lines:#?}");
        assert!(lines[1].contains("4 of 40 items"), "{lines:#?}");
    }
}
