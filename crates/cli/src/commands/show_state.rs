//! `threadline show RUN --at EVENT`, `--items STEP` and `--source`: a run as it was after an event, the items of a step, and
//! the text of the workflow as it was.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_inspect::items::{self, ItemChoice, ItemPage};
use threadline_inspect::labels::{first_line, label};
use threadline_inspect::run_state::{RunState, Standing};
use threadline_inspect::source;
use threadline_inspect::timeline::RunTimeline;
use threadline_lang::Value;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;

use super::history::{History, clock_text};
use super::{print, print_bytes, print_styled};
use crate::arguments::ShowArguments;
use crate::exit::CommandFailure;
use crate::report::visible;
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

/// Prints the text of the workflow as it was when the run began.
pub(crate) fn show_source(history: &History<'_>, json: bool) -> Result<(), CommandFailure> {
    let texts = source::texts(history)?;
    if json {
        return print_value(&source::texts_value(history, &texts));
    }
    let Some(main) = texts.first() else { return Ok(()) };
    print_bytes(main.text.as_bytes())
}

/// Prints a run, or the items of one of its steps, as they were after an event.
pub(crate) fn show_state(history: &History<'_>, call: &ShowArguments) -> Result<(), CommandFailure> {
    let timeline = RunTimeline::read(history.reader, &history.info.id, &history.plan)?;
    let state = RunState::at_event(history, &timeline, call.at)?;
    if let Some(step) = &call.items {
        return show_items(history, &state, step, call);
    }
    if call.json {
        return print_value(&state.value(history.info.id.as_str()));
    }
    print_styled(&state_text(history, &state))
}

fn print_value(value: &Value) -> Result<(), CommandFailure> {
    print(&format!("{}\n", value.to_json(JsonStyle::Compact)))
}

fn style_of(standing: Standing) -> Style {
    match standing {
        Standing::Completed => GOOD,
        Standing::Failed | Standing::Cancelled => BAD,
        Standing::Skipped | Standing::NotYet => DIM,
        Standing::Running | Standing::Retrying | Standing::Interrupted => OPEN,
    }
}

fn state_text(history: &History<'_>, state: &RunState<'_>) -> String {
    let time = state.time.map_or(String::new(), |time| format!(", {}", clock_text(time)));
    let mut out =
        format!("run {} after event {}{time}: {}\n", history.info.id, state.until, state.phase.name());
    let mut table = Table::default();
    for execution in state.executions() {
        let planned = &history.plan.steps[execution.step as usize];
        let at = execution.at.as_ref();
        let name = at
            .map_or_else(|| planned.label.to_string(), |at| label(&history.plan, at).trim_start().to_owned());
        let standing = execution.state.standing;
        let mut notes = Vec::new();
        if execution.state.attempts > 1 {
            notes.push(words::count(execution.state.attempts, "attempt"));
        }
        notes.extend(at.and_then(|at| state.items_of(at)).map(|items| items.text()));
        table.row([
            (style_of(standing), standing.sign().to_owned()),
            (PLAIN, name),
            (style_of(standing), standing.words().to_owned()),
            (DIM, notes.join("; ")),
        ]);
    }
    out.push_str(&table.text(""));
    // Writing into a text cannot fail.
    let _ = writeln!(out, "{}", state.outside_steps().text());
    out
}

fn show_items(
    history: &History<'_>,
    state: &RunState<'_>,
    step: &str,
    call: &ShowArguments,
) -> Result<(), CommandFailure> {
    let at = &items::list_named(history, state, step)?;
    let choice = ItemChoice { standing: call.standing.clone(), after: call.after, count: call.count };
    let page = items::items(history, state, at, &choice)?;
    let groups = items::error_groups(history, state, at)?;
    if call.json {
        let value = page.value(history.info.id.as_str());
        let entries = value.as_object().into_iter().flat_map(|value| value.iter());
        let entries = entries.map(|(key, value)| (key.name().clone(), value.clone()));
        return print_value(&Value::record(entries.chain([("errors".into(), items::groups_value(&groups))])));
    }
    print_styled(&items_text(history, &page, &groups, step))
}

fn items_text(history: &History<'_>, page: &ItemPage, groups: &[items::ErrorGroup], step: &str) -> String {
    let mut out = format!(
        "{BOLD}{}{BOLD:#}: {} of {}\n",
        visible(label(&history.plan, &page.at).trim_start()),
        page.counts.text(),
        words::count(page.counts.total(), "item")
    );
    for group in groups {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  {BAD}{}{BAD:#}  {}", group.count, visible(&group.shape));
    }
    let mut table = Table::default();
    for row in &page.rows {
        let standing = row.item.state.standing;
        let said = match (&row.error, &row.result) {
            (Some(error), _) => first_line(error).to_owned(),
            (None, Some(result)) => format!("→ {}", excerpt(result)),
            (None, None) => String::new(),
        };
        let attempts = row.attempts.max(row.item.step_attempts);
        let attempts = if attempts > 1 { words::count(attempts, "attempt") } else { String::new() };
        table.row([
            (style_of(standing), standing.sign().to_owned()),
            (PLAIN, format!("[{}]", row.item.index)),
            (PLAIN, excerpt(&row.value)),
            (style_of(standing), standing.words().to_owned()),
            (PLAIN, said),
            (DIM, attempts),
        ]);
    }
    out.push_str(&table.text(""));
    if let Some(next) = page.next {
        let run = &history.info.id;
        let _ = writeln!(out, "{DIM}more: `threadline show {run} --items {step} --after {next}`{DIM:#}");
    }
    out
}
