//! What failed in a run and was not made good since: items, steps outside of items, and steps that were let fail.

use std::collections::BTreeMap;

use threadline_engine::event::{Address, Output, Seq, Status};
use threadline_engine::replay::{Failed, output_of};
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;

use crate::error::{InspectError, of_journal};
use crate::failed_items::{FailedItem, FailedItems};
use crate::history::History;
use crate::labels::first_line;
use crate::printed::last_printed_line;

/// What failed in a run.
pub struct Failures {
    /// The items.
    pub items: FailedItems,
    /// The steps that failed outside of items, each with the event that has what it left.
    pub steps: Vec<(Address, Option<Seq>)>,
    /// The steps that failed and were let fail: the run went on.
    pub passed_over: Vec<(Address, Option<Seq>)>,
}

impl Failures {
    /// Reads what failed, and no more of the run than that takes.
    pub fn read(history: &History<'_>) -> Result<Self, InspectError> {
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

    /// All of it as JSON, one object each.
    pub fn json<E: From<InspectError>>(
        &self,
        history: &History<'_>,
        mut take: impl FnMut(Value) -> Result<(), E>,
    ) -> Result<(), E> {
        for item in self.items.iter() {
            take(item_json(history, item)?)?;
        }
        for (steps, is_passed_over) in [(&self.steps, false), (&self.passed_over, true)] {
            for (at, seq) in steps {
                take(step_json(history, at, *seq, is_passed_over)?)?;
            }
        }
        Ok(())
    }
}

/// The error of a step on one line, with the last line that it printed.
pub fn step_error(history: &History<'_>, seq: Seq) -> Result<Option<String>, InspectError> {
    let event = history.event(seq)?;
    let of_step =
        output_of(&event).and_then(|output| Some((output, output.meta.get(names::ERROR)?.as_str()?)));
    let Some((output, said)) = of_step else { return Ok(None) };
    let last = last_printed_line(history.reader, output).map_err(|error| of_journal(&error))?;
    let said = first_line(said);
    Ok(Some(last.map_or(said.to_owned(), |last| format!("{said}: {last}"))))
}

/// Why an item failed, on one line: the error of its step, and the last line that the step printed.
pub fn error_line(history: &History<'_>, item: &FailedItem) -> Result<String, InspectError> {
    let error = item.ended.error.as_deref().unwrap_or_default();
    let Some(step) = &item.step else { return Ok(first_line(error).to_owned()) };
    let event = history.event(step.seq)?;
    let said = output_of(&event).and_then(|output| output.meta.get(names::ERROR)?.as_str());
    // An item may fail although its steps did well at last: then its own error says why.
    let is_of_step = said.is_some_and(|said| error.starts_with(first_line(said)));
    let of_step = if is_of_step { step_error(history, step.seq)? } else { None };
    Ok(of_step.unwrap_or_else(|| first_line(error).to_owned()))
}

fn item_json(history: &History<'_>, item: &FailedItem) -> Result<Value, InspectError> {
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
) -> Result<Value, InspectError> {
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
