//! The end of a failed run: each failed step with the values it read, and the command that tells more.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::Address;
use threadline_flow::plan::Plan;

use super::super::history::History;
use super::explanation::{ExplainedReference, Readers, StepExplanation, explain_steps, last_of_each};
use super::json::label;
use super::target::Target;
use super::text::Teller;
use crate::exit::Failure;
use crate::report::{first_line, further_lines, visible};
use crate::reporter::no_route;

const BAD: Style = AnsiColor::Red.on_default().bold();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// So many failed steps are shown, and so many of the references of each.
const MAX_STEPS: usize = 5;
const MAX_REFERENCES: usize = 10;

/// The steps that failed, as text; nothing when none did.
pub(crate) fn failures(history: &History<'_>) -> Result<String, Failure> {
    let mut failed = super::failed(history)?;
    if failed.is_empty() {
        return Ok(String::new());
    }
    let more = failed.len().saturating_sub(MAX_STEPS);
    failed.truncate(MAX_STEPS);
    let told = explain_steps(history, &Target::executions(&history.plan, failed))?;
    let told = last_of_each(&told);
    let readers = Readers::new();
    let teller = Teller { history, readers: &readers, full: false, wide: false };
    let mut out = String::new();
    for one in &told {
        out.push('\n');
        out.push_str(&failure(&teller, one)?);
    }
    if more > 0 {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "\n{more} more failed: `threadline explain {}`", history.info.id);
    }
    Ok(out)
}

fn failure(teller: &Teller<'_, '_>, told: &StepExplanation) -> Result<String, Failure> {
    let history = teller.history;
    let name = visible(&label(history, &told.seen.at));
    let error = told.ended.as_ref().and_then(|ended| ended.output.meta.get("error"));
    let error = match &told.judged {
        Some(judged) => no_route(&history.plan, told.seen.step, &judged.recorded),
        None => error.map(ToString::to_string).unwrap_or_default(),
    };
    let message = if error.is_empty() { String::new() } else { format!(": {}", visible(first_line(&error))) };
    let mut out = format!("{BAD}✗{BAD:#} {BOLD}{name}{BOLD:#}{message}\n");
    out.push_str(&further_lines(&error, "    "));
    let references: Vec<&ExplainedReference> = told.references().take(MAX_REFERENCES).collect();
    out.push_str(&teller.references(told, references, "  ")?);
    let handle = handle(&history.plan, &told.seen.at);
    let _ = writeln!(out, "  {DIM}threadline explain {} {handle}{DIM:#}", history.info.id);
    if let Some(run) = told.called() {
        let _ = writeln!(out, "  {DIM}threadline explain {run}{DIM:#}");
    }
    Ok(out)
}

/// What to call an execution on a command line.
pub(crate) fn handle(plan: &Plan, at: &Address) -> String {
    let step = at.step(plan).map(|step| &plan.steps[step as usize].step);
    // Of a state each visit is an execution of its own.
    let step = step.filter(|step| step.state.is_none());
    let name = step.and_then(|step| step.id.as_ref().or(step.capture.as_ref()));
    let handle = name.map_or_else(|| at.to_string(), |name| format!("{}{}", name.value, at.item_suffix()));
    let is_word = handle.chars().all(|char| char.is_ascii_alphanumeric() || "_-./#".contains(char));
    if is_word { handle } else { format!("'{handle}'") }
}
