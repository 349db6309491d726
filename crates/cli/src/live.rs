//! A run as a terminal shows it: how far its lists are, and what is under way, in a block of constant height.
//!
//! It is drawn a few times a second, from what is known then; an event draws nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::event::Millis;
use threadline_engine::view::{ItemRef, Load as _};
use threadline_flow::plan::Plan;
use threadline_lang::diag::excerpt;
use threadline_runner::output::spoken;
use threadline_runner::values::Values;
use unicode_width::UnicodeWidthStr as _;

use crate::failed::item_of;
use crate::progress::{List, Progress, Running};
use crate::report::visible;
use crate::reporter::{about, step_label};
use crate::screen::{Line, Screen, Size, cut};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// So many lines about what is under way are drawn, and so many lists.
const MOST_RUNNING: usize = 8;
const MOST_LISTS: usize = 4;

/// So wide is a bar at most, and the value of an item.
const BAR_WIDTH: usize = 30;
const ITEM_WIDTH: usize = 40;

/// A step outside of lists is drawn when it takes longer than this, in milliseconds.
const LONG: Millis = 500;

/// A terminal on which a run is drawn.
pub(crate) struct Live<'a> {
    screen: Screen,
    values: Values<'a>,
    /// The items that are drawn, as text.
    items: BTreeMap<EcoString, String>,
    /// How many lines there are for what is under way: as long as a list goes on, not fewer than there were.
    height: usize,
}

impl<'a> Live<'a> {
    pub(crate) fn new(screen: Screen, values: Values<'a>) -> Self {
        Self { screen, values, items: BTreeMap::new(), height: 0 }
    }

    /// A line scrolls by.
    pub(crate) fn say(&mut self, line: &str) {
        self.screen.say(line);
    }

    /// Nothing is drawn until the next drawing.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
    }

    /// Draws how far the run is.
    pub(crate) fn draw(&mut self, plan: &Plan, progress: &Progress) {
        let (size, now) = (Screen::size(), jiff::Timestamp::now().as_millisecond());
        let lines = self.lines(plan, progress, size, now);
        self.screen.draw(size, &lines);
    }

    fn lines(&mut self, plan: &Plan, progress: &Progress, size: Size, now: Millis) -> Vec<Line> {
        let lists: Vec<&List> = progress.going().collect();
        let mut lines: Vec<Line> =
            lists.iter().take(MOST_LISTS).map(|list| list_line(plan, list, size, now)).collect();
        if lists.len() > MOST_LISTS {
            let mut line = Line::new(size);
            line.push(DIM, &format!("… and {} more lists", lists.len() - MOST_LISTS));
            lines.push(line);
        }
        // The longest first: what is slow stays where it is.
        let under_way =
            |(name, running): &(&EcoString, &Running)| name.contains('[') || now - running.since > LONG;
        let mut running: Vec<(&EcoString, &Running)> = progress.running().filter(under_way).collect();
        running.sort_by_key(|(_, running)| running.since);
        let room = size.rows.saturating_sub(lines.len() + 3).clamp(1, MOST_RUNNING);
        let at_once =
            lists.iter().fold(0, |sum: u64, list| sum.saturating_add(list.parallel.min(list.total)));
        let at_once = usize::try_from(at_once).unwrap_or(usize::MAX);
        let drawn: Vec<Line> = running
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
        lines.extend((0..empty).map(|_| Line::new(size)));
        if has_more {
            let mut line = Line::new(size);
            if more > 0 {
                line.push(DIM, &format!("  … and {more} more"));
            }
            lines.push(line);
        }
        lines
    }

    /// `  [17] "src/main.rs"   shell map.2   12s`
    fn running_line(
        &mut self,
        plan: &Plan,
        lists: &[&List],
        name: &EcoString,
        running: &Running,
        size: Size,
        now: Millis,
    ) -> Line {
        let mut line = Line::new(size);
        let seconds = u64::try_from(now - running.since).unwrap_or(0) / 1_000;
        let elapsed =
            if seconds == 0 { String::new() } else { format!("  {}", spoken(Duration::from_secs(seconds))) };
        let step = running.step.as_ref().map(|step| step_label(plan, step));
        let Some((owner, index)) = item_of(name) else {
            line.push(DIM, "  ▸ ").push(PLAIN, &visible(&step.unwrap_or_default()));
            line.push(DIM, &elapsed);
            return line;
        };
        let several = lists.len() > 1;
        line.push(DIM, "  ").push(BOLD, &if several { name.to_string() } else { format!("[{index}]") });
        let step = step.as_deref().unwrap_or("waits for another attempt");
        let rest = format!("  {}{elapsed}", visible(step));
        let list = lists.iter().find(|list| list.at.0 == owner).map(|list| list.seq);
        if let Some(list) = list {
            // Its value makes place for what it is at.
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
        line
    }

    /// The value of an item, read once.
    fn item(&mut self, name: &EcoString, item: ItemRef) -> &str {
        let values = &self.values;
        self.items.entry(name.clone()).or_insert_with(|| {
            let value = (&mut &*values).item(item);
            // An item that cannot be read fails the run elsewhere.
            value.map(|value| visible(&excerpt(&value))).unwrap_or_default()
        })
    }
}

/// `map  ━━━━━━━━╌╌╌╌╌╌╌╌  4312 of 100000  3 failed  812/s  2m05s left`
fn list_line(plan: &Plan, list: &List, size: Size, now: Millis) -> Line {
    let mut line = Line::new(size);
    let (done, total) = (list.done(), list.total);
    let count = format!("  {done} of {total}");
    let mut rest = String::new();
    if let Some(rate) = list.rate(now) {
        rest = format!("  {}", rate_text(rate));
    }
    if let Some(left) = list.left(now).filter(|_| done < total) {
        // Writing into a text cannot fail.
        let _ = write!(rest, "  {} left", about(left));
    }
    let failed = if list.failed > 0 { format!("  {} failed", list.failed) } else { String::new() };
    let name = visible(&step_label(plan, &list.at));
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

/// How much of a bar is full: all of it only when all is done.
fn filled(done: u64, total: u64, width: usize) -> usize {
    let wide = u128::from(done) * width as u128;
    let full = wide.checked_div(u128::from(total)).unwrap_or(width as u128);
    usize::try_from(full).unwrap_or(width).min(width)
}

/// Items in a thousand seconds, as people say it.
fn rate_text(rate: u64) -> String {
    match rate {
        10_000.. => format!("{}/s", rate / 1_000),
        1_000.. => format!("{}.{}/s", rate / 1_000, rate % 1_000 / 100),
        17.. => format!("{}/min", rate * 60 / 1_000),
        _ => format!("{}/h", rate * 3_600 / 1_000),
    }
}
