//! `threadline show RUN --failed`: lists the items that failed, and the steps that failed outside of items.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{Address, Seq};
use threadline_engine::replay::output_of;
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::explain::failed as failed_executions;
use super::explain::failures::handle;
use super::history::{History, of_journal};
use super::{print, print_styled};
use crate::exit::CommandFailure;
use crate::failed_items::{FailedItem, FailedItems};
use crate::failure_output::last_printed_line;
use crate::report::{first_line, visible};
use crate::reporter::step_label;
use crate::table::Table;

const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Lists the items of a run that failed and were not made good since.
pub(crate) fn show(history: &History<'_>, json: bool) -> Result<(), CommandFailure> {
    let mut failed = FailedItems::default();
    history.each(|_, event| {
        failed.take(event);
        Ok(())
    })?;
    let id = &history.info.id;
    let steps: Vec<Address> =
        failed_executions(history)?.into_iter().filter(|at| !at.is_in_items()).collect();
    if json {
        for item in failed.iter() {
            print(&format!("{}\n", item_json(history, item)?.to_json(JsonStyle::Compact)))?;
        }
        let last_outputs = if steps.is_empty() { BTreeMap::new() } else { last_outputs(history)? };
        for at in &steps {
            let seq = last_outputs.get(at).copied();
            print(&format!("{}\n", step_json(history, at, seq)?.to_json(JsonStyle::Compact)))?;
        }
        return Ok(());
    }
    let Some(first) = failed.iter().next() else {
        return print_styled(&steps_text(history, &steps)?);
    };
    let mut table = Table::default();
    let mut lists: BTreeMap<Address, (u64, u64)> = BTreeMap::new();
    for item in failed.iter() {
        table.row(row(history, item)?);
        if let Some((owner, _)) = item.at.as_item() {
            lists.entry(owner).or_insert((0, item.of)).0 += 1;
        }
    }
    let mut out = table.text("");
    out.push('\n');
    for (owner, (count, of)) in lists {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "{count} of {of} items of `{owner}` failed");
    }
    let about =
        first.step.as_ref().map_or_else(|| format!("'{}'", first.at), |step| handle(&history.plan, &step.at));
    let _ = writeln!(
        out,
        "{DIM}threadline explain {id} {about}{DIM:#} says what a step read, \
         {DIM}threadline resume {id} --failed{DIM:#} does them again"
    );
    if !steps.is_empty() {
        out.push('\n');
        out.push_str(&steps_text(history, &steps)?);
    }
    print_styled(&out)
}

/// The steps that failed outside of items, with the last line that each printed.
fn steps_text(history: &History<'_>, steps: &[Address]) -> Result<String, CommandFailure> {
    let id = &history.info.id;
    let Some(first) = steps.first() else { return Ok(format!("nothing of run {id} failed\n")) };
    let last_outputs = last_outputs(history)?;
    let mut table = Table::default();
    for at in steps {
        let error = last_outputs.get(at).map(|seq| step_error(history, *seq)).transpose()?;
        let name = format!("✗ {}", visible(step_label(&history.plan, at).trim_start()));
        table.row([(BAD, name), (PLAIN, error.flatten().unwrap_or_default())]);
    }
    let about = handle(&history.plan, first);
    Ok(format!(
        "{}\n{DIM}threadline explain {id} {about}{DIM:#} says what a step read, \
         {DIM}threadline resume {id}{DIM:#} tries it again\n",
        table.text("")
    ))
}

/// The event with the last output of each execution.
fn last_outputs(history: &History<'_>) -> Result<BTreeMap<Address, Seq>, CommandFailure> {
    let mut last = BTreeMap::new();
    history.each(|_, event| {
        if output_of(event).is_some() {
            last.insert(event.at.clone(), event.seq);
        }
        Ok(())
    })?;
    Ok(last)
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
        (BAD, format!("✗ {}", item.at)),
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
    ]))
}

/// A step that failed outside of items, in the shape of an item.
fn step_json(history: &History<'_>, at: &Address, seq: Option<Seq>) -> Result<Value, CommandFailure> {
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
    ]))
}
