//! A run on a terminal: the progress of its lists and the work that runs now, in a block of constant height.
//!
//! The block is drawn a few times per second from the progress at that time; events never draw anything.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{Address, ERROR, LoopLimits, Millis};
use threadline_engine::view::{ItemRef, Load as _};
use threadline_flow::plan::Plan;
use threadline_lang::diag::{excerpt, words};
use threadline_runner::clock;
use threadline_runner::values::Values;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::loop_progress::{LoopProgress, PastState, REMEMBERED, has_ignored_failure};
use crate::progress::{ListProgress, Progress, RunningWork};
use crate::report::{first_line, visible};
use crate::reporter::{step_label, whole_seconds};
use crate::screen::{Screen, ScreenLine, ScreenSize, cut};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// The maximum number of lines about running work, and of lists.
const MAX_RUNNING: usize = 8;
const MAX_LISTS: usize = 4;

/// The maximum width of a bar, and of the value of an item.
const BAR_WIDTH: usize = 30;
const ITEM_WIDTH: usize = 40;

/// The number of bytes that are kept of what an agent says, at most.
const SAID: usize = 1024;

/// The time after which a step outside of lists is drawn, in milliseconds.
const LONG: Millis = 500;

/// A list of the run, or of a run that it called.
#[derive(Clone, Copy)]
pub(crate) struct DrawnList<'l> {
    pub(crate) plan: &'l Plan,
    /// The steps that called the run of the list.
    pub(crate) prefix: &'l str,
    pub(crate) list: &'l ListProgress,
}

/// A terminal on which a run is drawn.
pub(crate) struct LiveView<'a> {
    screen: Screen,
    values: Values<'a>,
    /// The values of the items that are drawn, as text.
    items: BTreeMap<Address, String>,
    /// The end of what agents say while they say it.
    said: BTreeMap<Address, String>,
    /// The last lines of a loop, which are held back, and the number of lines before them.
    kept: VecDeque<String>,
    more: u64,
    /// The number of lines about a loop, which never shrinks.
    rows: usize,
    /// The number of lines about running work, which does not shrink while a list is active.
    height: usize,
}

impl<'a> LiveView<'a> {
    pub(crate) fn new(screen: Screen, values: Values<'a>) -> Self {
        let (items, said, kept) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { screen, values, items, said, kept, more: 0, rows: 0, height: 0 }
    }

    /// Prints a line, which scrolls by.
    pub(crate) fn print(&mut self, line: &str) {
        self.screen.print(line);
    }

    /// Takes what an agent says, of which the end is drawn.
    pub(crate) fn hear(&mut self, at: &Address, bytes: &[u8]) {
        let said = self.said.entry(at.clone()).or_default();
        // A character that is cut is not worth waiting for.
        said.push_str(&String::from_utf8_lossy(bytes));
        let start = said.ceil_char_boundary(said.len().saturating_sub(SAID));
        said.drain(..start);
    }

    /// Forgets what an agent said, because it is over.
    pub(crate) fn forget(&mut self, at: &Address) {
        self.said.remove(at);
    }

    /// Adds the end of what an agent says to the line about it.
    fn push_said(&self, line: &mut ScreenLine, at: &Address) {
        let room = line.room();
        let Some(said) = self.said.get(at).filter(|_| room > 12) else { return };
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = visible(&words.join(" "));
        let (mut width, room) = (0, room - 3);
        let fits = |char: &char| {
            width += char.width().unwrap_or(0);
            width <= room
        };
        let length: usize = said.chars().rev().take_while(fits).map(char::len_utf8).sum();
        let (before, end) = said.split_at(said.len() - length);
        let before = if before.is_empty() { "  " } else { "  …" };
        line.push(DIM, before).push(PLAIN, end);
    }

    /// Holds a line of a loop back: only the last of them are printed in the end.
    pub(crate) fn hold_back(&mut self, line: &str) {
        if self.kept.len() == REMEMBERED {
            self.kept.pop_front();
            self.more += 1;
        }
        self.kept.push_back(line.to_owned());
    }

    /// Prints the lines that were held back.
    pub(crate) fn release(&mut self, run: &str) {
        let more = std::mem::take(&mut self.more);
        if more > 0 {
            let more = words::count(more, "line");
            self.screen.print(&format!("{DIM}… {more} before: threadline show {run}{DIM:#}"));
        }
        for line in std::mem::take(&mut self.kept) {
            self.screen.print(&line);
        }
    }

    /// Removes the block until the next drawing.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
    }

    /// Draws the progress of the run.
    pub(crate) fn draw(&mut self, plan: &Plan, progress: &Progress, called: &[DrawnList<'_>]) {
        let (size, now) = (Screen::size(), clock::now());
        let lines = self.lines(plan, progress, called, size, now);
        self.screen.draw(size, &lines);
    }

    fn lines(
        &mut self,
        plan: &Plan,
        progress: &Progress,
        called: &[DrawnList<'_>],
        size: ScreenSize,
        now: Millis,
    ) -> Vec<ScreenLine> {
        let lists: Vec<&ListProgress> = progress.active_lists().collect();
        let mut lines = self.loop_lines(plan, &progress.turns, size, now);
        let own = lists.iter().map(|list| DrawnList { plan, prefix: "", list });
        let all = own.chain(called.iter().copied());
        lines.extend(all.take(MAX_LISTS).map(|list| list_line(list, size, now)));
        if lists.len() + called.len() > MAX_LISTS {
            let mut line = ScreenLine::new(size);
            line.push(DIM, &format!("… and {} more lists", lists.len() + called.len() - MAX_LISTS));
            lines.push(line);
        }
        // The state of a loop is drawn already. The oldest work comes first, so that slow work keeps its line.
        let under_way = |(at, running): &(&Address, &RunningWork)| {
            at.is_in_items() || now - running.since > LONG && !at.is_visit()
        };
        let mut running: Vec<(&Address, &RunningWork)> = progress.running().filter(under_way).collect();
        running.sort_by_key(|(_, running)| running.since);
        let room = size.rows.saturating_sub(lines.len() + 3).clamp(1, MAX_RUNNING);
        let at_once =
            lists.iter().fold(0, |sum: u64, list| sum.saturating_add(list.parallel.min(list.total)));
        let at_once = usize::try_from(at_once).unwrap_or(usize::MAX);
        let drawn: Vec<ScreenLine> = running
            .iter()
            .take(room)
            .map(|(name, running)| self.running_line(plan, &lists, name, running, size, now))
            .collect();
        self.items.retain(|name, _| running.iter().take(room).any(|(running, _)| *running == name));
        let more = running.len().saturating_sub(room);
        let has_more = at_once > room || more > 0;
        self.height =
            if lists.is_empty() { drawn.len() } else { self.height.max(at_once).min(room).max(drawn.len()) };
        let empty = self.height - drawn.len();
        lines.extend(drawn);
        lines.extend((0..empty).map(|_| ScreenLine::new(size)));
        if has_more {
            let mut line = ScreenLine::new(size);
            if more > 0 {
                line.push(DIM, &format!("  … and {more} more"));
            }
            lines.push(line);
        }
        lines
    }

    /// The lines about a loop: the last states with their verdicts, the current one, and the use of its limits.
    fn loop_lines(
        &mut self,
        plan: &Plan,
        turns: &LoopProgress,
        size: ScreenSize,
        now: Millis,
    ) -> Vec<ScreenLine> {
        let Some(limits) = turns.limits else { return Vec::new() };
        let room = size.rows.saturating_sub(6).clamp(1, REMEMBERED);
        let recent = turns.recent.iter().skip(turns.recent.len().saturating_sub(room));
        let names = turns.recent.iter().map(|turn| turn.at.as_str().width());
        let wide =
            names.chain(turns.current.iter().filter_map(|now| Some(now.at.as_ref()?.as_str().width()))).max();
        let wide = wide.unwrap_or(0);
        let mut lines: Vec<ScreenLine> = recent.map(|turn| turn_line(plan, turn, wide, size)).collect();
        self.rows = self.rows.max(lines.len()).min(room);
        lines.extend((lines.len()..self.rows).map(|_| ScreenLine::new(size)));
        let mut line = current_line(turns, wide, size, now);
        if let Some(at) = turns.current.as_ref().and_then(|current| current.at.as_ref()) {
            self.push_said(&mut line, at);
        }
        lines.push(line);
        lines.push(limits_line(turns, &limits, size, now));
        lines
    }

    /// `  [17] "src/main.rs"   shell map.2   12s`
    fn running_line(
        &mut self,
        plan: &Plan,
        lists: &[&ListProgress],
        name: &Address,
        running: &RunningWork,
        size: ScreenSize,
        now: Millis,
    ) -> ScreenLine {
        let mut line = ScreenLine::new(size);
        let seconds = u64::try_from(now - running.since).unwrap_or(0) / 1_000;
        let elapsed = if seconds == 0 {
            String::new()
        } else {
            format!("  {}", words::duration(Duration::from_secs(seconds)))
        };
        let step = running.step.as_ref().map(|step| step_label(plan, step));
        let Some((owner, index)) = name.as_item() else {
            line.push(DIM, "  ▸ ").push(PLAIN, &visible(&step.unwrap_or_default()));
            line.push(DIM, &elapsed);
            self.push_said(&mut line, running.step.as_ref().unwrap_or(name));
            return line;
        };
        let several = lists.len() > 1;
        line.push(DIM, "  ").push(BOLD, &if several { name.to_string() } else { format!("[{index}]") });
        let step = step.as_deref().unwrap_or("waits for another attempt");
        let rest = format!("  {}{elapsed}", visible(step));
        let list = lists.iter().find(|list| list.at == owner).map(|list| list.seq);
        if let Some(list) = list {
            // The value of the item is cut so that its step has room.
            let room = line.room().saturating_sub(rest.width() + 1).min(ITEM_WIDTH);
            let item = self.item(name, ItemRef { list, index });
            let shown = if item.width() > room {
                format!("{}…", cut(item, room.saturating_sub(1)))
            } else {
                item.to_owned()
            };
            line.push(PLAIN, " ").push(PLAIN, &shown);
        }
        line.push(DIM, &rest);
        if let Some(step) = &running.step {
            self.push_said(&mut line, step);
        }
        line
    }

    /// The value of an item, read once.
    fn item(&mut self, name: &Address, item: ItemRef) -> &str {
        let values = &self.values;
        self.items.entry(name.clone()).or_insert_with(|| {
            let value = (&mut &*values).item(item);
            // An item that cannot be read fails the run elsewhere.
            value.map(|value| visible(&excerpt(&value))).unwrap_or_default()
        })
    }
}

/// `  • check#3   120ms  no → fix  exit code 1`
fn turn_line(plan: &Plan, turn: &PastState, wide: usize, size: ScreenSize) -> ScreenLine {
    let mut line = ScreenLine::new(size);
    let step = turn.at.outermost_position(plan).map(|at| plan.lists[0].steps[at]);
    let step = step.map(|step| &plan.steps[step as usize].step);
    let is_judged = step.is_some_and(|step| step.is_judged()) || turn.verdict == ERROR;
    let has_reason = is_judged || has_ignored_failure(plan, &turn.at, &turn.verdict);
    let pad = wide.saturating_sub(turn.at.as_str().width());
    let took = words::duration(Duration::from_millis(u64::try_from(turn.took).unwrap_or(0)));
    line.push(DIM, "• ")
        .push(PLAIN, &visible(turn.at.as_str()))
        .push(DIM, &format!("{:pad$} {took:>7}  ", ""));
    if is_judged {
        let style = if turn.verdict == ERROR { BAD } else { BOLD };
        line.push(style, &visible(&turn.verdict)).push(PLAIN, " ");
    }
    if let Some(to) = &turn.to {
        line.push(PLAIN, &format!("→ {to}"));
    }
    if has_reason {
        line.push(DIM, &format!("  {}", visible(first_line(&turn.reason))));
    }
    line
}

/// `▸ fix#3   12s`, or how long it waits.
fn current_line(turns: &LoopProgress, wide: usize, size: ScreenSize, now: Millis) -> ScreenLine {
    let mut line = ScreenLine::new(size);
    let Some(current) = &turns.current else { return line };
    let seconds = |millis: Millis| u64::try_from(millis).unwrap_or(0).div_ceil(1_000);
    match (&current.at, current.until) {
        (Some(at), _) => {
            let pad = wide.saturating_sub(at.as_str().width());
            let elapsed =
                words::duration(Duration::from_secs(seconds(now - current.since).saturating_sub(1)));
            line.push(GOOD, "▸ ")
                .push(BOLD, &visible(at.as_str()))
                .push(DIM, &format!("{:pad$} {elapsed:>7}", ""));
        }
        (None, until) => {
            let left = words::duration(Duration::from_secs(seconds(until.map_or(0, |until| until - now))));
            line.push(DIM, &format!("▸ next iteration in {left}"));
        }
    }
    line
}

/// `iteration 3/10, step 7/20, 2m05s of 10m`
fn limits_line(turns: &LoopProgress, limits: &LoopLimits, size: ScreenSize, now: Millis) -> ScreenLine {
    let mut line = ScreenLine::new(size);
    let (iteration, step) = turns.spent();
    let of = |most: Option<u64>| most.map_or(String::new(), |most| format!("/{most}"));
    let elapsed = Duration::from_secs(u64::try_from(now - turns.began).unwrap_or(0) / 1_000);
    let limit = limits.timeout.map_or(String::new(), |limit| format!(" of {}", words::duration(limit)));
    line.push(BOLD, &format!("iteration {iteration}{}", of(limits.max_iterations)));
    line.push(PLAIN, &format!(", step {step}/{}", limits.max_steps));
    line.push(DIM, &format!(", {}{limit}", words::duration(elapsed)));
    line
}

/// `map  ━━━━━━━━╌╌╌╌╌╌╌╌  4312 of 100000  3 failed  812/s  2m05s left`
fn list_line(shown: DrawnList<'_>, size: ScreenSize, now: Millis) -> ScreenLine {
    let DrawnList { plan, prefix, list } = shown;
    let mut line = ScreenLine::new(size);
    let (done, total) = (list.done(), list.total);
    let count = format!("  {done} of {total}");
    let mut rest = String::new();
    if let Some(rate) = list.rate(now) {
        rest = format!("  {}", rate_text(rate));
    }
    if let Some(left) = list.left(now).filter(|_| done < total) {
        // Writing into a text cannot fail.
        let _ = write!(rest, "  {} left", whole_seconds(left));
    }
    let failed = if list.failed > 0 { format!("  {} failed", list.failed) } else { String::new() };
    let name = visible(&format!("{prefix}{}", step_label(plan, &list.at)));
    line.push(BOLD, &name).push(PLAIN, "  ");
    let words = count.width() + failed.width() + rest.width();
    let width = line.room().saturating_sub(words).min(BAR_WIDTH);
    if width >= 5 {
        let full = filled(done, total, width);
        line.push(GOOD, &"━".repeat(full)).push(DIM, &"╌".repeat(width - full));
    }
    line.push(PLAIN, &count).push(BAD, &failed).push(DIM, &rest);
    line
}

/// The number of full columns of a bar; the whole bar only if all items have ended.
fn filled(done: u64, total: u64, width: usize) -> usize {
    let wide = u128::from(done) * width as u128;
    let full = wide.checked_div(u128::from(total)).unwrap_or(width as u128);
    usize::try_from(full).unwrap_or(width).min(width)
}

/// A speed in items per thousand seconds, in the unit that suits it.
fn rate_text(rate: u64) -> String {
    match rate {
        10_000.. => format!("{}/s", rate / 1_000),
        1_000.. => format!("{}.{}/s", rate / 1_000, rate % 1_000 / 100),
        17.. => format!("{}/min", rate * 60 / 1_000),
        _ => format!("{}/h", rate * 3_600 / 1_000),
    }
}
