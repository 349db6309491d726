//! `threadline diff`: compares two runs of a workflow value by value, and says why they differ. Runs are only read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::Address;
use threadline_inspect::chain::TracedRead;
use threadline_inspect::diff::sentences::{because, names};
use threadline_inspect::diff::{ChangedPart, DiffRow, DiffSide, Difference, PartChange, RunDiff, SameStep};
use threadline_lang::Value;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;
use threadline_store::{JournalReader, RunId, RunInfo};

use super::history::{History, of_store, reader};
use super::{print, print_styled};
use crate::arguments::DiffArguments;
use crate::exit::CommandFailure;
use crate::report::{Report, visible};
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const LEFT: Style = AnsiColor::Yellow.on_default();
const RIGHT: Style = AnsiColor::Cyan.on_default();

/// The letters of the two runs.
const LETTERS: [(Style, &str); 2] = [(LEFT, "A"), (RIGHT, "B")];

/// The maximum number of executions of one step in items that are shown.
const MAX_ITEMS: usize = 3;

/// The maximum number of links of the chain behind the first difference.
const MAX_LINKS: usize = 20;

/// The exit code for runs that differ.
const DIFFERENT: u8 = 1;

pub(crate) fn diff(call: &DiffArguments) -> Result<(), CommandFailure> {
    let reader = reader(call.dir.as_deref())?;
    let (left, right) = match &call.runs[..] {
        [left, right] => (History::open(&reader, left)?, History::open(&reader, right)?),
        one => {
            let right = History::open(&reader, one.first().map_or("last", String::as_str))?;
            let before = run_before(&reader, &right.info)?;
            (History::open(&reader, before.as_str())?, right)
        }
    };
    let found = RunDiff::between(&left, &right)?;
    let chain = found.chain_behind_first([&left, &right])?;
    if call.json {
        print(&format!("{}\n", found.value(chain.as_ref()).to_json(JsonStyle::Compact)))?;
    } else {
        let printer = DiffPrinter { diff: &found, full: call.full };
        let links = chain.as_ref().map(|(_, chain)| chain.links.iter().map(|link| (link.depth, &link.read)));
        print_styled(&printer.text(links.into_iter().flatten()))?;
    }
    if found.differences.is_empty() { Ok(()) } else { Err(CommandFailure::Shown(DIFFERENT)) }
}

/// The run of the same workflow that began before a run.
fn run_before(reader: &JournalReader, run: &RunInfo) -> Result<RunId, CommandFailure> {
    let runs = reader.runs().map_err(|error| of_store(&error))?;
    let mut before = runs.into_iter().take_while(|known| known.id != run.id);
    let is_like = |known: &RunInfo| {
        known.name == run.name && known.events > 0 && known.id.is_called() == run.id.is_called()
    };
    let found = before.by_ref().filter(is_like).last();
    found.map(|found| found.id).ok_or_else(|| {
        let message = format!("no run of `{}` began before run `{}`", run.name, run.id);
        CommandFailure::NotStarted(vec![Report::with_hint(
            message,
            "name both runs: `threadline diff RUN RUN`",
        )])
    })
}

/// Formats a comparison as text.
struct DiffPrinter<'d> {
    diff: &'d RunDiff,
    full: bool,
}

impl DiffPrinter<'_> {
    fn text<'r>(&self, chain: impl Iterator<Item = (usize, &'r TracedRead)>) -> String {
        let mut out = self.head();
        let Some(first) = self.diff.first else {
            out.push_str("\nnothing differs\n");
            return out;
        };
        let difference = &self.diff.differences[first];
        let _ = writeln!(out, "\n{DIM}first difference{DIM:#}");
        self.difference(difference, &mut out);
        let links: Vec<String> = chain.map(|(depth, read)| self.link(depth, read)).collect();
        if !links.is_empty() {
            let _ = writeln!(out, "  {DIM}behind it{DIM:#}");
            for link in links.iter().take(if self.full { usize::MAX } else { MAX_LINKS }) {
                let _ = writeln!(out, "    {link}");
            }
            if let Some(more) = links.len().checked_sub(MAX_LINKS).filter(|more| *more > 0 && !self.full) {
                let _ = writeln!(out, "    and {more} more");
            }
        }
        out.push_str(&self.following(first));
        let mut shown: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.diff.rows {
            match row {
                DiffRow::Different(at) if *at == first => {}
                DiffRow::Different(at) => {
                    let difference = &self.diff.differences[*at];
                    if self.is_left_out(difference, &mut shown) {
                        continue;
                    }
                    out.push('\n');
                    self.difference(difference, &mut out);
                }
                DiffRow::Same(same) => {
                    let _ = writeln!(out, "\n{DIM}the same: {}{DIM:#}", visible(&same_text(same)));
                }
            }
        }
        for (step, count) in shown {
            if let Some(more) = count.checked_sub(MAX_ITEMS).filter(|more| *more > 0) {
                let _ = writeln!(out, "\n{more} more of `{}`; `--full` shows them", visible(&step));
            }
        }
        out
    }

    /// The runs, and whether their texts differ.
    fn head(&self) -> String {
        let [left, right] = &self.diff.runs;
        let mut table = Table::default();
        for (run, (style, letter)) in [left, right].into_iter().zip(LETTERS) {
            table.row([
                (style, letter.to_owned()),
                (BOLD, run.id.clone()),
                (PLAIN, run.status.to_owned()),
                (PLAIN, run.workflow.clone()),
                (DIM, run.file.clone()),
            ]);
        }
        let mut out = table.text("");
        if self.diff.has_same_text() {
            return out;
        }
        let _ = writeln!(
            out,
            "the text of the workflow differs: {:.12} and {:.12}",
            left.text.to_string(),
            right.text.to_string()
        );
        for (run, (_, letter)) in [left, right].into_iter().zip(LETTERS) {
            if !run.own_steps.is_empty() {
                let _ = writeln!(out, "only {letter} has {}", visible(&names(&run.own_steps)));
            }
        }
        out
    }

    /// Whether enough of the same step in other items is shown already.
    fn is_left_out(&self, difference: &Difference, shown: &mut BTreeMap<String, usize>) -> bool {
        let at = difference.sides.iter().flatten().find_map(|side| side.at.as_ref());
        if self.full || !at.is_some_and(Address::is_in_items) {
            return false;
        }
        let step = difference.name.split('[').next().unwrap_or_default().to_owned();
        let count = shown.entry(step).or_default();
        *count += 1;
        *count > MAX_ITEMS
    }

    fn difference(&self, difference: &Difference, out: &mut String) {
        let line = difference.line.map_or(String::new(), |line| format!("  {DIM}line {line}{DIM:#}"));
        let _ = writeln!(out, "{BOLD}{}{BOLD:#}{line}", visible(&difference.name));
        let mut table = Table::default();
        let has_status = difference.changes.iter().any(|change| change.what == ChangedPart::Status);
        for change in &difference.changes {
            let found = &change.change;
            // A run whose execution did not end has no value, which its status says.
            let is_told = has_status && change.what == ChangedPart::Value && found.path.is_empty();
            if is_told {
                continue;
            }
            for (side, (style, letter)) in LETTERS.into_iter().enumerate() {
                let value = if side == 0 { &found.left } else { &found.right };
                let text = match (change.what, value) {
                    (ChangedPart::Status, _) => self.status(difference, side),
                    (_, Some(value)) => self.value(value),
                    (_, None) => "nothing".to_owned(),
                };
                let label = if side == 0 { part_text(change) } else { String::new() };
                table.row([(DIM, label), (style, letter.to_owned()), (PLAIN, text)]);
            }
        }
        out.push_str(&table.text("  "));
        if difference.more > 0 {
            let parts = words::plural(&difference.more, "part");
            let _ = writeln!(out, "  {} more {parts} differ", difference.more);
        }
        let because = because(self.diff, difference, &|value| self.value(value));
        if !because.is_empty() {
            let _ = writeln!(out, "  {DIM}{}{DIM:#}", visible(&because));
        }
    }

    /// How an execution ended in one of the runs, and what it left.
    fn status(&self, difference: &Difference, side: usize) -> String {
        let Some(DiffSide { status, why, .. }) = &difference.sides[side] else {
            return "not reached".to_owned();
        };
        let status = status.unwrap_or_default();
        if let Some(why) = why {
            return format!("{status}: {why}");
        }
        let value = difference.changes.iter().find(|change| change.what == ChangedPart::Value);
        let value = value.and_then(|change| {
            if side == 0 { change.change.left.as_ref() } else { change.change.right.as_ref() }
        });
        value.map_or(status.to_owned(), |value| format!("{status}: {}", self.value(value)))
    }

    fn value(&self, value: &Value) -> String {
        if self.full { value.to_json(JsonStyle::Compact) } else { excerpt(value) }
    }

    fn link(&self, depth: usize, read: &TracedRead) -> String {
        let TracedRead { reader, field, reference, value, maker, .. } = read;
        let value =
            value.as_ref().map_or("has no value".to_owned(), |value| format!("= {}", self.value(value)));
        visible(&format!("{}{reader} {field}: {reference} {value}, from {maker}", "  ".repeat(depth)))
    }

    /// What follows from the first difference.
    fn following(&self, first: usize) -> String {
        let later = self.diff.differences.len().saturating_sub(1);
        let following = self.diff.following(first);
        if later == 0 {
            return String::new();
        }
        let all: Vec<String> = following.iter().map(|at| self.diff.differences[*at].name.clone()).collect();
        let mut distinct: Vec<String> = Vec::new();
        for name in all {
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        let count = following.len();
        let of = words::count(later as u64, "other difference");
        let sentence = match count {
            0 => format!("none of {of} follows from it"),
            _ if count == later && later == 1 => format!("it led to {}", names(&distinct)),
            _ if count == later => format!("all {of} follow from it: {}", names(&distinct)),
            _ => format!("{count} of {of} follow from it: {}", names(&distinct)),
        };
        format!("  {}\n", visible(&sentence))
    }
}

/// Which part of something differs.
fn part_text(change: &PartChange) -> String {
    let what = match change.what {
        ChangedPart::ExitCode => "exit code",
        ChangedPart::Status => "",
        ChangedPart::Value if !change.change.path.is_empty() => "",
        what => what.name(),
    };
    let line = change.change.line.map_or(String::new(), |line| format!(" line {line}"));
    format!("{what}{}{line}", change.change.path).trim_start().to_owned()
}

/// Steps that are the same, each with how many executions.
fn same_text(same: &[SameStep]) -> String {
    let names: Vec<String> = same
        .iter()
        .map(
            |SameStep { step, count }| {
                if *count == 1 { format!("`{step}`") } else { format!("`{step}` ({count} times)") }
            },
        )
        .collect();
    words::list(names, "and")
}
