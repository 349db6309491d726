//! A run as people watch it: one line for each step, and a line about the whole run at its end.
//!
//! The reporter consumes events and notices, so a run that is shown later is fed the same events again and
//! prints the same lines. Of the journal it reads only what failed steps printed. It decides nothing about
//! the run.

mod counts;
mod failure_log;
mod labels;
mod large_lists;
mod loop_lines;
mod partial_lines;
mod used;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::agent::conversation::ExchangeKind;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, ItemEnded, JudgeReply, LoopEnd, Millis, Output, Status,
};
use threadline_engine::machine::Outcome;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Action, ItemPool};
use threadline_flow::plan::Plan;
use threadline_inspect::graph::{counts_of, is_map};
use threadline_inspect::labels::visit_suffix;
use threadline_lang::Value;
use threadline_lang::diag::{preview, words};
use threadline_runner::driver::{CalledNotice, Notice, WaitReason};
use threadline_runner::values::Values;
use threadline_store::JournalReader;
use unicode_width::UnicodeWidthStr;

use self::counts::StatusCounts;
use self::failure_log::FailedItemStep;
pub(crate) use self::failure_log::FailureLog;
use self::labels::LabelColumn;
pub(crate) use self::labels::{label, step_label};
use self::large_lists::{FailureDisplay, LargeLists};
use self::loop_lines::LoopLines;
pub(crate) use self::loop_lines::{describe_loop_end, describe_missing_route, describe_route};
use self::partial_lines::PartialLines;
pub(crate) use self::used::spend_text;
use self::used::{budgets_text, used_by};
use crate::arguments::TraceFormat;
use crate::failure_output::{printed_lines, reply_lines};
use crate::live::{DrawnList, LiveView};
use crate::printing::print_styled_line;
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::report::{first_line, guard, visible};
use crate::screen::{Screen, cut};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// The number of lines that a failed step printed that are shown below it, and below an item of a large list.
const PRINTED_LINES: usize = 10;
const PRINTED_LINES_OF_ITEM: usize = 3;

/// The largest stored answer of an agent that is read for one line of it, in bytes.
const READ_FOR_A_LINE: u64 = 1 << 20;

/// The shortest wait for an agent that is worth a line.
const SHOWN_WAIT: Duration = Duration::from_secs(1);

/// The maximum width of the names of exports; values stand behind them.
const MAX_EXPORT_WIDTH: usize = 32;

/// The width of what stands beside the label on the line of a result: the mark, the time and an arrow.
const LINE_HEAD_WIDTH: usize = 14;

/// The width of a value on the narrowest terminal.
const SHORTEST_VALUE: usize = 16;

/// The minimum time between two lines about the progress of a list, in milliseconds.
const PROGRESS_INTERVAL: Millis = 10_000;

/// The maximum number of lines about the progress of a list.
const PROGRESS_LINES: u64 = 10;

/// Prints a run as it goes on.
pub(crate) struct Reporter<'a> {
    plan: Arc<Plan>,
    run: String,
    options: ReportOptions,
    /// The journal, for what failed steps printed.
    reader: Option<&'a JournalReader>,
    remarks: Remarks,
    progress: Progress,
    /// How each step ended last. The states of a loop are counted by its progress.
    steps: BTreeMap<Address, Status>,
    started_at: Option<Millis>,
    partial_lines: PartialLines,
    large_lists: LargeLists,
    failures: FailureLog,
    /// The phase whose steps are shown.
    phase: Option<Address>,
    loop_lines: LoopLines,
    column: LabelColumn,
    /// Until when agents are not asked again, as the lines have said.
    waits: BTreeMap<EcoString, Instant>,
    /// The reporters of runs that steps called and that have not ended.
    called: BTreeMap<EcoString, Self>,
    sink: LineSink<'a>,
}

/// The place that lines go to.
enum LineSink<'a> {
    Stdout,
    /// The reporter of the calling run collects them.
    Buffer(Vec<String>),
    /// A terminal with a block of progress below the lines.
    Terminal(Box<LiveView<'a>>),
}

/// What is printed beside the lines of steps.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReportOptions {
    /// Every line that a step prints, and every item.
    pub(crate) verbose: bool,
    /// Every reference that is resolved.
    pub(crate) trace: Option<TraceFormat>,
    /// Whether programs run on other machines, where they go on when Threadline is killed.
    pub(crate) is_elsewhere: bool,
}

/// How a line about a step begins: its mark, and how long the step took.
#[derive(Clone, Copy)]
struct LineHead<'l> {
    style: Style,
    mark: &'l str,
    time: &'l str,
}

impl<'l> LineHead<'l> {
    fn new(style: Style, mark: &'l str, time: &'l str) -> Self {
        Self { style, mark, time }
    }
}

impl<'a> Reporter<'a> {
    /// A reporter of a run; a resumed run has the progress of its past.
    pub(crate) fn new(plan: Arc<Plan>, run: &str, options: ReportOptions, progress: Progress) -> Self {
        Self {
            run: run.to_owned(),
            options,
            reader: None,
            remarks: Remarks::new(options.trace),
            steps: BTreeMap::new(),
            started_at: None,
            partial_lines: PartialLines::default(),
            large_lists: LargeLists::restore(&progress, options.verbose),
            failures: FailureLog::default(),
            phase: None,
            loop_lines: LoopLines::new(&plan, progress.turns.iteration),
            column: LabelColumn::new(&plan),
            waits: BTreeMap::new(),
            called: BTreeMap::new(),
            sink: LineSink::Stdout,
            progress,
            plan,
        }
    }

    /// Shows what failed steps printed, which is read from the journal.
    pub(crate) fn reading(self, reader: &'a JournalReader) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// Draws on a terminal; the values of items are read for it.
    pub(crate) fn live(self, screen: Screen, values: Values<'a>) -> Self {
        Self { sink: LineSink::Terminal(Box::new(LiveView::new(screen, values))), ..self }
    }

    /// The number of items that are failed now.
    pub(crate) fn failed_items(&self) -> usize {
        self.progress.failed.len()
    }

    /// The executions that failed and were neither made good nor tolerated, in the order of their failures.
    pub(crate) fn failed_steps(&self) -> Vec<Address> {
        let mut failed: Vec<_> = self.progress.failed_steps.executions().collect();
        // Items that run side by side fail in any order.
        failed.sort_by_key(|(at, seq)| {
            let is_item = at.is_in_items();
            (is_item, if is_item { 0 } else { *seq }, at.items().collect::<Vec<_>>(), *seq)
        });
        failed.into_iter().map(|(at, _)| at.clone()).collect()
    }

    /// What runs now, as lines: steps, and items with their current step.
    pub(crate) fn running_lines(&mut self) -> Vec<String> {
        let label = |at: &Address| visible(label(&self.plan, at).trim());
        let running = self.progress.running().map(|(at, work)| {
            let step = work.step.as_ref().filter(|step| *step != at);
            let step = step.map_or(String::new(), |step| format!(": {}", label(step)));
            format!("{DIM}▸{DIM:#} {}{step} {DIM}is running{DIM:#}", label(at))
        });
        running.collect()
    }

    /// What the screen has said about failures.
    pub(crate) fn take_failures(&mut self) -> FailureLog {
        std::mem::take(&mut self.failures)
    }

    /// Takes an event that is shown elsewhere.
    pub(crate) fn track(&mut self, event: &Event) {
        self.progress.take(&self.plan, event);
    }

    /// Takes what the runner has to say.
    pub(crate) fn notice(&mut self, notice: &Notice) {
        match notice {
            _ if is_remark(innermost(notice)) => self.remark(notice),
            Notice::Event(event) => self.event(event),
            Notice::Printed(at, stream, bytes) if self.options.verbose => {
                if let Some(lines) = self.partial_lines.add(at, *stream, bytes) {
                    self.print_output(at, &lines);
                }
            }
            Notice::Printed(at, _, bytes) => {
                if let LineSink::Terminal(live) = &mut self.sink {
                    live.hear(at, bytes);
                }
            }
            Notice::Waits(at, why, pause) => self.waits(at, why, *pause),
            Notice::Called(called) => self.called(called),
            _ => {}
        }
    }

    /// Draws the block of progress again.
    pub(crate) fn redraw(&mut self) {
        if let LineSink::Terminal(live) = &mut self.sink {
            let mut called = Vec::new();
            self.called.values().for_each(|run| run.collect_lists(&mut called));
            live.draw(&self.plan, &self.progress, &called);
        }
    }

    /// Adds the lists of this run, which a step called, and of the runs that its steps called.
    fn collect_lists<'l>(&'l self, lists: &mut Vec<DrawnList<'l>>) {
        let (plan, prefix) = (&*self.plan, &*self.column.prefix);
        lists.extend(self.progress.active_lists().map(|list| DrawnList { plan, prefix, list }));
        self.called.values().for_each(|run| run.collect_lists(lists));
    }

    /// Removes the block of progress, so that something else can be printed.
    pub(crate) fn clear_block(&mut self) {
        if let LineSink::Terminal(live) = &mut self.sink {
            live.clear();
        }
    }

    /// Prints a diagnostic, a warning or a trace. That is done by the outermost reporter, which has the screen and
    /// knows what was printed before; the reporter of the run it is about then points to it.
    fn remark(&mut self, notice: &Notice) {
        let plan = Arc::clone(&self.plan);
        self.clear_block();
        let diagnosis = self.remarks.notice(plan_of(&plan, notice), innermost(notice));
        let Some(diagnosis) = diagnosis else { return };
        if let Some(reporter) = self.reporter_of(notice) {
            reporter.failures.diagnose(diagnosis);
        }
    }

    /// The reporter of the run that a notice is about.
    fn reporter_of(&mut self, notice: &Notice) -> Option<&mut Self> {
        match notice {
            Notice::Called(called) => self.called.get_mut(&called.run)?.reporter_of(&called.notice),
            _ => Some(self),
        }
    }

    /// What happens in a run that a step called, below the line of that step.
    fn called(&mut self, called: &CalledNotice) {
        let CalledNotice { at, run, plan, notice } = called;
        let happened = if let Notice::Event(event) = notice { Some(&event.kind) } else { None };
        if self.large_lists.large_list_of(at).is_some() {
            // The line of the item says how its call ended.
            return;
        }
        if !self.called.contains_key(run) {
            if matches!(happened, Some(EventKind::RunStarted(_) | EventKind::Resumed { .. })) {
                let goes_on =
                    if matches!(happened, Some(EventKind::Resumed { .. })) { " goes on" } else { "" };
                self.line(at, LineHead::new(DIM, "▸", ""), &format!("run {run}{goes_on}"));
            }
            let inside = Self {
                column: self.column.of_called(&self.plan, at),
                reader: self.reader,
                sink: LineSink::Buffer(Vec::new()),
                ..Self::new(Arc::clone(plan), run, self.options, Progress::default())
            };
            self.called.insert(run.clone(), inside);
        }
        let Some(inside) = self.called.get_mut(run) else { return };
        match happened {
            Some(EventKind::RunStarted(_) | EventKind::Resumed { .. }) => {}
            // The line of the calling step says how the run ended.
            Some(EventKind::RunEnded { .. } | EventKind::Paused { .. }) => {
                let failures = inside.take_failures();
                self.called.remove(run);
                self.failures.end_call(at, failures);
            }
            _ => {
                inside.notice(notice);
                let LineSink::Buffer(lines) = &mut inside.sink else { return };
                for line in std::mem::take(lines) {
                    self.print(&line);
                }
            }
        }
    }

    /// Takes the next event of the run.
    pub(crate) fn event(&mut self, event: &Event) {
        let was_held = self.progress.held.contains(&event.at);
        self.progress.take(&self.plan, event);
        if let LineSink::Terminal(live) = &mut self.sink {
            live.forget(&event.at);
        }
        if ends_output(&event.kind) {
            for rest in self.partial_lines.take_rest(&event.at) {
                self.print_output(&event.at, &rest);
            }
        }
        match &event.kind {
            EventKind::RunStarted(started) => {
                self.started_at = Some(event.time);
                let of = started.continues.as_ref();
                let of = of.map_or(String::new(), |of| format!(", continues {}", of.run));
                let line = format!(
                    "{BOLD}{}{BOLD:#} {DIM}run {}{of}{DIM:#}",
                    visible(&started.workflow),
                    started.run
                );
                self.print(&line);
            }
            EventKind::Resumed { budgets, .. } => {
                self.started_at.get_or_insert(event.time);
                self.phase = None;
                let budgets = budgets_text(&self.plan, budgets);
                self.print(&format!("{DIM}resumed{budgets}{DIM:#}"));
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                self.finished(event, output);
            }
            EventKind::Skipped { output, .. } => self.skipped(event, output),
            EventKind::Retrying { .. } | EventKind::Exchanged { .. }
                if self.large_lists.large_list_of(&event.at).is_some() => {}
            EventKind::Exchanged { output, .. } => self.exchanged(&event.at, output),
            EventKind::Retrying { output, until, .. } => {
                let error = error_of(output);
                let reason = self.failures.line_reason(&event.at, first_line(&error));
                let note = format!("{reason}, again in {}", pause(event.time, *until));
                self.line(&event.at, LineHead::new(OPEN, "↻", &time_of(output)), &note);
            }
            EventKind::Expanded { count, parallel, .. } => self.expanded(&event.at, *count, *parallel),
            EventKind::ItemRetrying { error, until } => {
                let error = item_error_line(error);
                let reason = self.item_reason(&event.at, &error);
                let reason = reason.map_or(String::new(), |reason| format!("{reason}, "));
                let note = format!("{reason}again in {}", pause(event.time, *until));
                if self.shows_failure(&event.at) {
                    self.line(&event.at, LineHead::new(OPEN, "↻", ""), &note);
                }
            }
            EventKind::ItemEnded(ended) => {
                if ended.status == Status::Failed {
                    self.item_failed(&event.at, ended);
                }
                self.maybe_print_progress(event);
            }
            EventKind::Paused { reason, .. } => {
                self.release_loop_lines();
                let done = self.progress.active_lists().map(|list| {
                    let name = visible(&self.column.label(&self.plan, &list.at));
                    format!("; {} of {} items of {} done", list.done(), list.total, name.trim())
                });
                let done: String = done.collect();
                let spent = self.spent_text();
                self.print(&format!("{DIM}paused: {reason}{done}{spent}{DIM:#}"));
            }
            EventKind::Judged(judged) => {
                self.loop_lines.held_back = true;
                self.judged(event, judged);
                self.loop_lines.held_back = false;
            }
            EventKind::RunEnded { outcome, ended, exports, .. } => {
                self.ended(event.time, *outcome, ended.as_ref());
                self.exports(exports);
            }
            // One that had to wait just goes on.
            EventKind::Started { rerun: true, .. } if !was_held => {
                let note = if self.options.is_elsewhere {
                    "had begun and not ended here, is asked for again"
                } else {
                    "had begun and not ended, runs again"
                };
                self.line(&event.at, LineHead::new(DIM, "↻", ""), note);
            }
            EventKind::Decided { .. }
            | EventKind::CallLost { .. }
            | EventKind::Started { .. }
            | EventKind::Defined { .. }
            | EventKind::LimitsResolved { .. }
            | EventKind::OutcomeKnown { .. }
            | EventKind::ItemBegun { .. } => {}
        }
    }

    /// An agent is not done yet: it called a tool, or is asked for another answer.
    fn exchanged(&mut self, at: &Address, output: &Output) {
        let text = |name: &str| output.meta.get(name).and_then(Value::as_str).unwrap_or_default();
        match ExchangeKind::of_meta(&output.meta) {
            // Each call has a line of its own.
            ExchangeKind::Tools | ExchangeKind::Calls => {}
            ExchangeKind::Call => {
                let arguments = output.meta.get(names::PARAMETERS).map(preview).unwrap_or_default();
                let result = match output.status {
                    Status::Completed => self.result_of(at, output),
                    _ => format!("✗ {}", first_line(&error_of(output))),
                };
                let note = format!("{} {arguments} {result}", text(names::TOOL_NAME));
                self.line(at, LineHead::new(DIM, "◦", &time_of(output)), &note);
            }
            ExchangeKind::Misfit => {
                let note = format!("the answer {}; asked again", first_line(text(names::REASON)));
                self.line(at, LineHead::new(OPEN, "↻", &time_of(output)), &note);
            }
        }
    }

    fn skipped(&mut self, event: &Event, output: &Output) {
        self.count(&event.at, Status::Skipped);
        if self.large_lists.large_list_of(&event.at).is_none() {
            let reason = output.meta.get(names::REASON).map_or(String::new(), Value::to_string);
            self.line(&event.at, LineHead::new(DIM, "-", "skipped"), &reason);
        }
    }

    /// A step has its list of items.
    fn expanded(&mut self, at: &Address, count: u64, parallel: u64) {
        let is_nested = self.large_lists.large_list_of(at).is_some();
        self.large_lists.add(at, count);
        if !is_nested {
            let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step.action);
            let has_own = matches!(step, Some(Action::ForEach(each)) if each.pool == ItemPool::Own);
            let at_once =
                if parallel > 1 && has_own { format!(", {parallel} at once") } else { String::new() };
            let note = format!("{}{at_once}", words::count(count, "item"));
            self.line(at, LineHead::new(DIM, "▸", ""), &note);
        }
    }

    fn finished(&mut self, event: &Event, output: &Output) {
        self.count(&event.at, output.status);
        let plan = Arc::clone(&self.plan);
        let step = event.at.step(&plan).map(|step| &plan.steps[step as usize].step);
        if step.is_some_and(|step| step.state.is_some()) {
            // The line of a state is printed when it was judged.
            let is_kept = matches!(event.kind, EventKind::Finished { kept: Some(_), .. });
            let shown = self.shown(output);
            self.loop_lines.remember(output, &shown, is_kept);
            return;
        }
        if output.status != Status::Completed {
            return self.failed(event, output);
        }
        let is_phase = step.is_some_and(|step| matches!(step.action, Action::Phase(_)));
        if is_phase || self.large_lists.large_list_of(&event.at).is_some() {
            return;
        }
        let is_map = step.is_some_and(|step| is_map(&step.action));
        // Others can read what a step with a name left; an agent is asked for what it says.
        let is_agent = step.is_some_and(|step| matches!(step.action, Action::Agent { .. }));
        let is_named = is_agent || step.is_some_and(|step| step.id.is_some() || step.capture.is_some());
        let note = match (is_map, is_named) {
            (true, _) => counts_of(output),
            (false, true) => self.result_of(&event.at, output),
            (false, false) => String::new(),
        };
        let time = time_of(output);
        let head = match &event.kind {
            EventKind::Finished { kept: Some(_), .. } => LineHead::new(DIM, "=", "kept"),
            _ => LineHead::new(GOOD, "✓", &time),
        };
        self.line(&event.at, head, &note);
    }

    /// A step failed. For an item of a large list that is said when the item has ended.
    fn failed(&mut self, event: &Event, output: &Output) {
        let error = error_of(output);
        let first = first_line(&error);
        let is_diagnosed = self.failures.is_diagnosed(&event.at);
        let further = if is_diagnosed { Vec::new() } else { error.split('\n').skip(1).collect() };
        let further: Vec<String> = further.into_iter().map(|line| format!("    {}", visible(line))).collect();
        if let Some(item) = event.at.items_around().next_back() {
            let is_one_of_many = self.large_lists.large_list_of(&event.at).is_some();
            let mut below = Vec::new();
            if is_one_of_many {
                below.clone_from(&further);
                below.extend(self.printed_lines(output, PRINTED_LINES_OF_ITEM));
            }
            let (at, label) = (event.at.clone(), step_label(&self.plan, &event.at));
            let step = FailedItemStep { at, label, error: first.to_owned(), below };
            self.failures.fail_item_step(item, step);
            if is_one_of_many {
                return;
            }
        }
        let reason = self.failures.line_reason(&event.at, first);
        let why = output.meta.get(names::NOT_RETRIED).and_then(Value::as_str);
        let reason = with_refusal(reason, why) + &used_by(output);
        self.line(&event.at, LineHead::new(BAD, "✗", &time_of(output)), &reason);
        self.failures.report(&event.at, first);
        self.print_all(&further);
        self.print_all(&self.printed_lines(output, PRINTED_LINES));
    }

    /// A step waits until its agent may be asked again. Others that wait until then have no line.
    fn waits(&mut self, at: &Address, why: &WaitReason, pause: Duration) {
        let agent = match why {
            WaitReason::Limited(agent) => agent,
            WaitReason::Unanswered(_) if self.large_lists.large_list_of(at).is_some() => return,
            WaitReason::Unanswered(why) => {
                let note = format!("{}, again in {}", first_line(why), words::duration(pause));
                return self.line(at, LineHead::new(OPEN, "↻", ""), &note);
            }
        };
        let until = Instant::now() + pause;
        let known = self.waits.get(agent).is_some_and(|known| *known + SHOWN_WAIT >= until);
        if pause < SHOWN_WAIT || known {
            return;
        }
        self.waits.insert(agent.clone(), until);
        let list = self.large_lists.large_list_of(at);
        let pause = whole_seconds(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let note = format!("waits {pause}: `{agent}` may not be asked more often");
        self.line(&list.unwrap_or_else(|| at.clone()), LineHead::new(OPEN, "·", ""), &note);
    }

    /// What a step left, with what it used, for its line. On a terminal the line is cut rather than broken.
    fn result_of(&self, at: &Address, output: &Output) -> String {
        let (shown, used) = (visible(&self.shown(output)), used_by(output));
        let label = self.column.label(&self.plan, at).width().max(self.column.width);
        let beside = label + LINE_HEAD_WIDTH + used.width();
        match (&self.sink, shown.width()) {
            (LineSink::Terminal(_), width) if beside + width >= Screen::size().columns => {
                let room = Screen::size().columns.saturating_sub(beside + 2);
                format!("→ {}…{used}", cut(&shown, room.max(SHORTEST_VALUE)))
            }
            _ => format!("→ {shown}{used}"),
        }
    }

    /// What a step left, as a line shows it.
    fn shown(&self, output: &Output) -> String {
        match shown_of(output, |stored| self.reader?.load(stored).ok()) {
            Ok(value) => preview(&value),
            Err(bytes) => format!("{bytes} bytes"),
        }
    }

    /// The end of what a failed step printed, as it stands below the line of the step.
    fn printed_lines(&self, output: &Output, max_lines: usize) -> Vec<String> {
        let lines = self.reader.map(|reader| printed_lines(reader, output, max_lines)).unwrap_or_default();
        indented(lines)
    }

    /// The end of what a judge said.
    fn reply_lines(&self, reply: &JudgeReply) -> Vec<String> {
        let lines = self.reader.map(|reader| reply_lines(reader, reply, PRINTED_LINES)).unwrap_or_default();
        indented(lines)
    }

    /// An item failed. That is said of an item of a large list, and otherwise unless its steps have said it.
    fn item_failed(&mut self, at: &Address, ended: &ItemEnded) {
        let error = ended.error.as_deref().map(item_error_line).unwrap_or_default();
        let step = self.failures.take_item_step(at).filter(|step| step.explains(&error));
        let is_one_of_many = self.large_lists.large_list_of(at).is_some();
        // That it is not tried again is said of an item of its own.
        let is_said = step.is_some() && !is_one_of_many && ended.not_retried.is_none();
        if is_said || !self.shows_failure(at) {
            return;
        }
        let note = step.as_ref().map_or(error.into_owned(), |step| {
            format!("{}: {}", step.label, self.failures.line_reason(&step.at, &step.error))
        });
        let note = if is_one_of_many { self.counted(at, note) } else { note };
        let time = words::duration(Duration::from_millis(ended.duration_ms));
        let note = with_refusal(&note, ended.not_retried.as_deref());
        self.line(at, LineHead::new(BAD, "✗", &time), &note);
        if let Some(step) = step {
            self.failures.report(&step.at, &step.error);
            self.print_all(&step.below);
        }
    }

    /// A note about an item that has ended, behind the number of items that have ended so far. A terminal
    /// shows that number below the lines.
    fn counted(&mut self, at: &Address, note: String) -> String {
        if matches!(self.sink, LineSink::Terminal(_)) {
            return note;
        }
        match self.progress.list_of_item(at) {
            Some(list) => format!("({}/{}) {note}", list.done(), list.total),
            None => note,
        }
    }

    /// The reason why an item is tried again, unless the line of its step has given it.
    fn item_reason<'e>(&mut self, at: &Address, error: &'e str) -> Option<&'e str> {
        let step = self.failures.take_item_step(at).filter(|step| step.explains(error));
        let is_shown = step.is_some_and(|step| self.failures.is_reported(&step.at));
        (!is_shown).then_some(error)
    }

    /// Whether one more failed item is shown. The first that is not is announced.
    fn shows_failure(&mut self, at: &Address) -> bool {
        let display = self.large_lists.count_failure(at);
        if display == FailureDisplay::FirstHidden {
            let run = &self.run;
            let line =
                format!("  {DIM}failures from here on are counted: threadline show {run} --failed{DIM:#}");
            self.print(&line);
        }
        display == FailureDisplay::Shown
    }

    /// Prints the progress of a large list, if enough time has passed and enough items have ended since the last line.
    fn maybe_print_progress(&mut self, event: &Event) {
        if matches!(self.sink, LineSink::Terminal(_)) {
            return;
        }
        let large = &self.large_lists;
        let list = self.progress.list_of_item(&event.at).filter(|list| large.contains(&list.at));
        let Some(list) = list else { return };
        let (then, before) = list.last_line;
        let is_far = (list.done() - before).saturating_mul(PROGRESS_LINES) >= list.total;
        if event.time - then < PROGRESS_INTERVAL || !is_far || list.done() >= list.total {
            return;
        }
        list.last_line = (event.time, list.done());
        let mut note = format!("{} of {} items", list.done(), list.total);
        if list.failed > 0 {
            // Writing into a text cannot fail.
            let _ = write!(note, ", {} failed", list.failed);
        }
        if let Some(left) = list.left(event.time) {
            let _ = write!(note, ", about {} left", whole_seconds(left));
        }
        let at = list.at.clone();
        self.line(&at, LineHead::new(DIM, "·", ""), &note);
    }

    /// Counts what people call a step: no step of an item, no phase and no map.
    fn count(&mut self, at: &Address, status: Status) {
        let action = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step.action);
        let is_phase = action.is_some_and(|action| matches!(action, Action::Phase(_)) || is_map(action));
        if !is_phase && at.items().next().is_none() && self.plan.states.is_none() {
            self.steps.insert(at.clone(), status);
        }
    }

    fn ended(&mut self, time: Millis, outcome: Outcome, ended: Option<&LoopEnd>) {
        // Items that were done again are counted as they are now.
        let items = self.progress.lists().fold(StatusCounts::default(), |sum, list| StatusCounts {
            completed: sum.completed + list.completed,
            failed: sum.failed + list.failed,
            skipped: sum.skipped + list.skipped,
        });
        let mut steps = StatusCounts::default();
        for status in self.steps.values() {
            steps.add(*status);
        }
        let counts = match (items.is_empty(), steps.is_empty()) {
            (true, _) => steps.text(None),
            (false, true) => items.text(Some("item")),
            (false, false) => format!("{}; {}", steps.text(Some("step")), items.text(Some("item"))),
        };
        let elapsed = self.started_at.map_or(String::new(), |then| format!(" in {}", pause(then, time)));
        let spent = self.spent_text();
        let (style, word) = match outcome {
            Outcome::Completed => (GOOD, "completed"),
            Outcome::Failed => (BAD, "failed"),
            Outcome::Stopped => (OPEN, "stopped"),
        };
        self.release_loop_lines();
        let line = match (&self.plan.states, ended) {
            (None, _) => format!("{style}{word}{style:#}: {counts}{elapsed}{spent}"),
            (Some(_), ended) => {
                let turns = &self.progress.turns;
                let last = turns.recent.back().map_or(String::new(), |turn| {
                    format!(" in {}{}", turn.at.state().unwrap_or_default(), visit_suffix(&turn.at))
                });
                let ended = ended.map_or(last, |end| describe_loop_end(outcome, end));
                format!("{style}{word}{style:#}{ended}; {}{elapsed}{spent}", turns.counts())
            }
        };
        self.print(&line);
    }

    /// What the run has spent on agents, behind something else.
    fn spent_text(&self) -> String {
        spend_text(&self.progress.spent).map_or(String::new(), |spent| format!(", {spent}"))
    }

    /// Prints what the run exports, a line for each name.
    fn exports(&mut self, exports: &Datum) {
        let loaded = match (exports, self.reader) {
            (Datum::Here(value), _) => Ok(value.clone()),
            (Datum::Stored { .. }, Some(reader)) => reader.load(exports),
            (Datum::Stored { .. }, None) => return,
        };
        let exports = match loaded {
            Ok(exports) => exports,
            Err(error) => {
                let error = visible(&error.to_string());
                return self.print(&format!("{DIM}exports cannot be read:{DIM:#} {error}"));
            }
        };
        let Some(exports) = exports.as_object().filter(|exports| !exports.is_empty()) else { return };
        let width =
            exports.iter().map(|(name, _)| name.as_str().width()).max().unwrap_or(0).min(MAX_EXPORT_WIDTH);
        self.print(&format!("{DIM}exports{DIM:#}"));
        for (name, value) in exports.iter() {
            let pad = width.saturating_sub(name.as_str().width());
            self.print(&format!("  {}{:pad$}  {}", visible(name.as_str()), "", visible(&preview(value))));
        }
    }

    /// Prints one line about a step: a mark, its label, how long it took, and a note.
    fn line(&mut self, at: &Address, head: LineHead<'_>, note: &str) {
        self.phase_heading(at);
        self.iteration_heading();
        let LineHead { style, mark, time } = head;
        let label = self.column.label(&self.plan, at);
        let mut line = format!("{style}{mark}{style:#} {}", visible(&label));
        if time.is_empty() && note.is_empty() {
            return self.print(&line);
        }
        let pad = self.column.width.saturating_sub(label.width());
        // Writing into a text cannot fail.
        let _ = write!(line, "{:pad$} {DIM}{time:>7}{DIM:#}  {}", "", visible(note));
        self.print(line.trim_end());
    }

    /// Prints the name of a phase above the first line from inside of it.
    fn phase_heading(&mut self, at: &Address) {
        let Some(phase) = at.outermost().filter(|_| self.plan.is_map_reduce()) else { return };
        if self.phase.as_ref() == Some(&phase) || phase == *at || at.is_in_items_of(&phase) {
            return;
        }
        let label = self.column.label(&self.plan, &phase);
        self.phase = Some(phase);
        self.print(&format!("{DIM}▸{DIM:#} {}", visible(&label)));
    }

    /// Prints whole lines of the output of a step.
    fn print_output(&mut self, at: &Address, bytes: &[u8]) {
        self.iteration_heading();
        let label = self.column.label(&self.plan, at);
        for line in String::from_utf8_lossy(bytes).lines() {
            self.print(&format!("  {DIM}{} │{DIM:#} {}", visible(&label), visible(line)));
        }
    }

    fn print_all(&mut self, lines: &[String]) {
        for line in lines {
            self.print(line);
        }
    }

    /// Prints the lines of a loop that a terminal held back.
    fn release_loop_lines(&mut self) {
        if let LineSink::Terminal(live) = &mut self.sink {
            live.release(&self.run);
        }
    }

    /// Prints a line for people, above the block of progress if there is one.
    pub(crate) fn print(&mut self, line: &str) {
        match &mut self.sink {
            LineSink::Stdout => print_styled_line(&guard(line)),
            LineSink::Buffer(lines) => lines.push(line.to_owned()),
            LineSink::Terminal(screen) if self.loop_lines.held_back => screen.hold_back(line),
            LineSink::Terminal(screen) => screen.print(line),
        }
    }
}

/// The notice inside of all runs that called each other.
fn innermost(notice: &Notice) -> &Notice {
    match notice {
        Notice::Called(called) => innermost(&called.notice),
        notice => notice,
    }
}

/// The plan of the run that a notice is about.
fn plan_of<'n>(plan: &'n Plan, notice: &'n Notice) -> &'n Plan {
    match notice {
        Notice::Called(called) => plan_of(&called.plan, &called.notice),
        _ => plan,
    }
}

/// Whether a notice is about the text of a workflow.
fn is_remark(notice: &Notice) -> bool {
    matches!(notice, Notice::Resolved(..) | Notice::Warned(..) | Notice::Problems(..))
}

/// Whether something is over whose last line may not have ended.
fn ends_output(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Finished { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Exchanged { .. }
            | EventKind::Retrying { .. }
            | EventKind::Judged(_)
    )
}

/// The time between two moments.
fn pause(from: Millis, to: Millis) -> String {
    words::duration(Duration::from_millis(u64::try_from(to - from).unwrap_or(0)))
}

/// An estimated time, rounded up to seconds.
pub(crate) fn whole_seconds(millis: u64) -> String {
    words::duration(Duration::from_secs(millis.div_ceil(1_000)))
}

/// The error of an item on one line. Where several lines stand below it that a step printed, the last of
/// them.
fn item_error_line(error: &str) -> Cow<'_, str> {
    match error.split_once('\n') {
        Some((first, below)) if first.ends_with(':') => {
            let last = words::last_lines(below, 1).pop().unwrap_or_default();
            Cow::Owned(format!("{first} {}", last.trim_start()))
        }
        _ => Cow::Borrowed(first_line(error)),
    }
}

/// Why something failed, and why it is not tried again although it could be.
fn with_refusal(reason: &str, not_retried: Option<&str>) -> String {
    let again = not_retried.map_or(String::new(), |why| format!(", not tried again: {why}"));
    format!("{reason}{again}")
}

/// Lines as they stand below the line of a step.
fn indented(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("    {line}")).collect()
}

fn time_of(output: &Output) -> String {
    words::duration(duration_of(output))
}

fn duration_of(output: &Output) -> Duration {
    let millis = output.meta.get(names::EXECUTION_TIME_MS).and_then(Value::as_i64).unwrap_or(0);
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The error of a step that failed.
fn error_of(output: &Output) -> String {
    output.meta.get(names::ERROR).map_or_else(|| output.status.name().to_owned(), Value::to_string)
}

/// What a line shows of what a step left: the answer of an agent without what surrounds it, of any other step its value;
/// the number of bytes of a value that is not read for a line. `load` reads a stored value.
pub(crate) fn shown_of(output: &Output, load: impl FnOnce(&Datum) -> Option<Value>) -> Result<Value, u64> {
    let is_agent = output.meta.get(names::AGENT_ID).is_some();
    let value = match &output.value {
        Datum::Here(value) => value.clone(),
        // An answer is what people wait for. What other steps leave may be anything.
        stored @ Datum::Stored { len, .. } => {
            Some(stored).filter(|_| is_agent && *len <= READ_FOR_A_LINE).and_then(load).ok_or(*len)?
        }
    };
    let answer = || value.get(names::OUTPUT).or_else(|| value.get(names::FINAL_RESPONSE));
    Ok(if is_agent { answer().cloned().unwrap_or(value) } else { value })
}

#[cfg(test)]
mod tests {
    use threadline_engine::event::{Listed, Rules};
    use threadline_flow::load::load;
    use threadline_flow::plan::plan;
    use threadline_lang::source::SourceFile;

    use super::*;

    /// The lines about a map of `count` items, whose ends are `between` milliseconds apart.
    fn lines(count: u64, between: Millis) -> Vec<String> {
        let text = "map:\n  input: list.json\n  steps: [{value: 1}]\n";
        let file = SourceFile::new("work.yaml", text.as_bytes().to_vec()).expect("a file");
        let workflow = load(file).0.expect("a workflow");
        let plan = plan(Arc::new(workflow)).0.expect("a plan");
        let reporter = Reporter::new(Arc::new(plan), "abc", ReportOptions::default(), Progress::default());
        let mut reporter = Reporter { sink: LineSink::Buffer(Vec::new()), ..reporter };
        let nothing = Datum::Here(Value::NULL);
        let items = Listed::Whole(nothing.clone());
        let (computed, parallel, rules) = (Vec::new(), 1, Rules::STRICT);
        let mut happened = vec![(
            "map".to_owned(),
            EventKind::Expanded {
                as_of: 1,
                computed,
                items,
                count,
                read: None,
                parallel,
                rules,
                source: None,
            },
        )];
        happened.extend((0..count).map(|index| {
            let ended = ItemEnded {
                status: Status::Completed,
                value: nothing.clone(),
                error: None,
                attempts: 1,
                duration_ms: 1,
                branch: None,
                not_retried: None,
            };
            (format!("map[{index}]"), EventKind::ItemEnded(ended))
        }));
        let mut time = 0;
        for (seq, (at, kind)) in (1..).zip(happened) {
            reporter.event(&Event { seq, time, at: Address::parse(&at).unwrap(), kind });
            time += between;
        }
        let LineSink::Buffer(lines) = reporter.sink else { panic!("lines are kept") };
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
