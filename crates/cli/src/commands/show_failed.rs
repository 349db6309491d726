//! `threadline show RUN --failed`: lists the items that failed, the steps that failed outside of items, and those that were
//! let fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{Address, Seq};
use threadline_inspect::failed_items::FailedItem;
use threadline_inspect::failures::{Failures, error_line, step_error};
use threadline_inspect::labels::{handle, label, step_label};
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::history::History;
use super::{print, print_styled};
use crate::exit::CommandFailure;
use crate::report::visible;
use crate::table::Table;

const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Lists what failed in a run and was not made good since.
pub(crate) fn show(history: &History<'_>, json: bool) -> Result<(), CommandFailure> {
    let failures = Failures::read(history)?;
    if json {
        return print_json(&failures, history);
    }
    let id = &history.info.id;
    let mut parts = Vec::new();
    if let Some(first) = failures.items.iter().next() {
        parts.push(items_text(&failures, history, first)?);
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

/// Prints what failed, an object on each line.
fn print_json(failures: &Failures, history: &History<'_>) -> Result<(), CommandFailure> {
    failures.json(history, |failure| print(&format!("{}\n", failure.to_json(JsonStyle::Compact))))
}

/// The items that failed, and how many they are of which list.
fn items_text(
    failures: &Failures,
    history: &History<'_>,
    first: &FailedItem,
) -> Result<String, CommandFailure> {
    let mut table = Table::default();
    let mut lists: BTreeMap<Address, (u64, u64)> = BTreeMap::new();
    for item in failures.items.iter() {
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
    let about =
        first.step.as_ref().map_or_else(|| format!("'{}'", first.at), |step| handle(&history.plan, &step.at));
    let _ = writeln!(
        out,
        "{DIM}threadline explain {id} {about}{DIM:#} says what a step read, \
         {DIM}threadline resume {id} --failed{DIM:#} does them again"
    );
    Ok(out)
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
