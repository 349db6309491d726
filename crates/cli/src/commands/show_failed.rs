//! `threadline show RUN --failed`: lists the items that failed, the steps that failed outside of items, and those that were
//! let fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{Address, Output, Seq, Status};
use threadline_engine::replay::{Failed, output_of};
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::explain::failures::handle;
use super::history::{History, of_journal};
use super::{print, print_styled};
use crate::exit::CommandFailure;
use crate::failed_items::{FailedItem, FailedItems};
use crate::failure_output::last_printed_line;
use crate::report::{first_line, visible};
use crate::reporter::{label, step_label};
use crate::table::Table;

const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Lists what failed in a run and was not made good since.
pub(crate) fn show(history: &History<'_>, json: bool) -> Result<(), CommandFailure> {
    let failures = Failures::read(history)?;
    if json {
        return failures.print_json(history);
    }
    let id = &history.info.id;
    let mut parts = Vec::new();
    if let Some(first) = failures.items.iter().next() {
        parts.push(failures.items_text(history, first)?);
    }
    if let Some((first, _)) = failures.steps.first() {
        let about = handle(&history.plan, first);
        let table = steps_table(history, &failures.steps, "")?;
        parts.push(format!(
            "{table}\n{DIM}threadline explain {id} {about}{DIM:#} says what a step read, \
             {DIM}threadline resume {id}{DIM:#} tries it again\n"
        ));
    }
    if let Some((first, _)) = failures.passed_over.first() {
        let about = handle(&history.plan, first);
        let table = steps_table(history, &failures.passed_over, "passed over")?;
        parts.push(format!("{table}\n{DIM}threadline explain {id} {about}{DIM:#} says what a step read\n"));
    }
    if parts.is_empty() {
        parts.push(format!("nothing of run {id} failed\n"));
    }
    print_styled(&parts.join("\n"))
}

/// What failed in a run.
struct Failures {
    items: FailedItems,
    /// The steps that failed outside of items, each with the event that has what it left.
    steps: Vec<(Address, Option<Seq>)>,
    /// The steps that failed and were let fail: the run went on.
    passed_over: Vec<(Address, Option<Seq>)>,
}

impl Failures {
    fn read(history: &History<'_>) -> Result<Self, CommandFailure> {
        let (mut items, mut failed) = (FailedItems::default(), Failed::default());
        let mut last_outputs: BTreeMap<Address, Seq> = BTreeMap::new();
        history.each_of_failures(|event| {
            items.take(event);
            failed.take(&history.plan, event);
            let is_needed = |output: &Output| output.status == Status::Failed || !event.at.is_in_items();
            if output_of(event).is_some_and(is_needed) {
                last_outputs.insert(event.at.clone(), event.seq);
            }
            Ok(())
        })?;
        let with_output = |(at, _): (&Address, Seq)| (at.clone(), last_outputs.get(at).copied());
        let outside = failed.executions().filter(|(at, _)| !at.is_in_items());
        let steps = outside.map(with_output).collect();
        let passed_over = failed.passed_over().map(with_output).collect();
        Ok(Self { items, steps, passed_over })
    }

    fn print_json(&self, history: &History<'_>) -> Result<(), CommandFailure> {
        let line = |failure: Value| print(&format!("{}\n", failure.to_json(JsonStyle::Compact)));
        for item in self.items.iter() {
            line(item_json(history, item)?)?;
        }
        for (steps, is_passed_over) in [(&self.steps, false), (&self.passed_over, true)] {
            for (at, seq) in steps {
                line(step_json(history, at, *seq, is_passed_over)?)?;
            }
        }
        Ok(())
    }

    /// The items that failed, and how many they are of which list.
    fn items_text(&self, history: &History<'_>, first: &FailedItem) -> Result<String, CommandFailure> {
        let mut table = Table::default();
        let mut lists: BTreeMap<Address, (u64, u64)> = BTreeMap::new();
        for item in self.items.iter() {
            table.row(row(history, item)?);
            if let Some((owner, _)) = item.at.as_item() {
                lists.entry(owner).or_insert((0, item.of)).0 += 1;
            }
        }
        let mut out = table.text("");
        out.push('\n');
        for (owner, (count, of)) in lists {
            // Writing into a text cannot fail.
            let owner = visible(label(&history.plan, &owner).trim_start());
            let _ = writeln!(out, "{count} of {of} items of `{owner}` failed");
        }
        let id = &history.info.id;
        let about = first
            .step
            .as_ref()
            .map_or_else(|| format!("'{}'", first.at), |step| handle(&history.plan, &step.at));
        let _ = writeln!(
            out,
            "{DIM}threadline explain {id} {about}{DIM:#} says what a step read, \
             {DIM}threadline resume {id} --failed{DIM:#} does them again"
        );
        Ok(out)
    }
}

/// Steps that failed, each with its error and the last line that it printed.
fn steps_table(
    history: &History<'_>,
    steps: &[(Address, Option<Seq>)],
    note: &str,
) -> Result<String, CommandFailure> {
    let mut table = Table::default();
    for (at, seq) in steps {
        let error = seq.map(|seq| step_error(history, seq)).transpose()?;
        let name = format!("✗ {}", visible(step_label(&history.plan, at).trim_start()));
        table.row([(BAD, name), (PLAIN, error.flatten().unwrap_or_default()), (DIM, note.to_owned())]);
    }
    Ok(table.text(""))
}

/// The error of a step on one line, with the last line that it printed.
fn step_error(history: &History<'_>, seq: Seq) -> Result<Option<String>, CommandFailure> {
    let event = history.event(seq)?;
    let of_step =
        output_of(&event).and_then(|output| Some((output, output.meta.get(names::ERROR)?.as_str()?)));
    let Some((output, said)) = of_step else { return Ok(None) };
    let last = last_printed_line(history.reader, output).map_err(|error| of_journal(&error))?;
    let said = first_line(said);
    Ok(Some(last.map_or(said.to_owned(), |last| format!("{said}: {last}"))))
}

fn row(history: &History<'_>, item: &FailedItem) -> Result<[(Style, String); 5], CommandFailure> {
    let step = item.step.as_ref().map(|step| step_label(&history.plan, &step.at)).unwrap_or_default();
    let mut more = Vec::new();
    if item.ended.attempts > 1 {
        more.push(format!("{} attempts", item.ended.attempts));
    }
    more.extend(item.ended.branch.as_ref().map(|branch| format!("branch {branch}")));
    Ok([
        (BAD, format!("✗ {}", visible(label(&history.plan, &item.at).trim_start()))),
        (PLAIN, excerpt(&history.item(item.item)?)),
        (DIM, step),
        (PLAIN, error_line(history, item)?),
        (DIM, more.join(", ")),
    ])
}

/// Why an item failed, on one line: the error of its step, and the last line that the step printed.
fn error_line(history: &History<'_>, item: &FailedItem) -> Result<String, CommandFailure> {
    let error = item.ended.error.as_deref().unwrap_or_default();
    let Some(step) = &item.step else { return Ok(first_line(error).to_owned()) };
    let event = history.event(step.seq)?;
    let said = output_of(&event).and_then(|output| output.meta.get(names::ERROR)?.as_str());
    // An item may fail although its steps did well at last: then its own error says why.
    let is_of_step = said.is_some_and(|said| error.starts_with(first_line(said)));
    let of_step = if is_of_step { step_error(history, step.seq)? } else { None };
    Ok(of_step.unwrap_or_else(|| first_line(error).to_owned()))
}

fn item_json(history: &History<'_>, item: &FailedItem) -> Result<Value, CommandFailure> {
    let text = |text: Option<&str>| text.map_or(Value::NULL, Value::from);
    let ended = &item.ended;
    Ok(Value::record([
        ("at", item.at.as_str().into()),
        ("index", Value::from(item.item.index)),
        ("item", history.item(item.item)?),
        ("step", text(item.step.as_ref().map(|step| step.at.as_str()))),
        ("error", ended.error.as_deref().unwrap_or_default().into()),
        ("attempts", Value::from(ended.attempts)),
        ("duration_ms", Value::from(ended.duration_ms)),
        ("branch", text(ended.branch.as_deref())),
        ("passed_over", false.into()),
    ]))
}

/// A step that failed outside of items or was let fail, in the shape of an item.
fn step_json(
    history: &History<'_>,
    at: &Address,
    seq: Option<Seq>,
    is_passed_over: bool,
) -> Result<Value, CommandFailure> {
    let event = seq.map(|seq| history.event(seq)).transpose()?;
    let meta = event.as_ref().and_then(output_of).map(|output| &output.meta);
    let count = |name: &str| meta.and_then(|meta| meta.get(name)?.as_i64());
    let error = meta.and_then(|meta| meta.get(names::ERROR)?.as_str());
    Ok(Value::record([
        ("at", at.as_str().into()),
        ("index", Value::NULL),
        ("item", Value::NULL),
        ("step", at.as_str().into()),
        ("error", error.unwrap_or_default().into()),
        ("attempts", Value::from(count(names::RETRY_COUNT).unwrap_or_default() + 1)),
        ("duration_ms", count(names::EXECUTION_TIME_MS).map_or(Value::NULL, Value::from)),
        ("branch", Value::NULL),
        ("passed_over", is_passed_over.into()),
    ]))
}
