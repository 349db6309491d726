//! The summary of a failed run: the name of each failed step, the values it read, and the command that tells
//! more.
//!
//! It never repeats what the screen has said: a reason is given only if no line gave it, and values only if
//! no diagnostic showed them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::Address;
use threadline_flow::fields::field_names as names;
use threadline_flow::forms::is_secret_name;
use threadline_flow::plan::Plan;

use super::super::history::History;
use super::text::ExplanationPrinter;
use crate::exit::CommandFailure;
use crate::failure_output::printed_lines;
use crate::report::{first_line, further_lines, visible};
use crate::reporter::{FailureLog, describe_missing_route};
use threadline_inspect::explanation::{
    ExplainedReference, Readers, StepExplanation, explain_steps, last_of_each,
};
use threadline_inspect::labels::{handle, label};
use threadline_inspect::target::ExplainTarget;

const BAD: Style = AnsiColor::Red.on_default().bold();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The maximum number of failed steps in the summary, and of references of each of them.
const MAX_STEPS: usize = 5;
const MAX_REFERENCES: usize = 10;

/// The maximum number of lines that a failed step printed.
const PRINTED_LINES: usize = 10;

/// The failed steps of a run, and what the screen has said about them.
pub(crate) struct FailureSummary<'s> {
    pub(crate) plan: &'s Plan,
    pub(crate) run: &'s str,
    /// The executions that failed, in the order of their failures.
    pub(crate) failed: &'s [Address],
    pub(crate) log: &'s FailureLog,
}

impl FailureSummary<'_> {
    /// Whether any step has to be read from the journal: no diagnostic on the screen shows its values.
    pub(crate) fn needs_journal(&self) -> bool {
        self.shown().any(|at| !self.log.is_diagnosed(at))
    }

    fn shown(&self) -> impl Iterator<Item = &Address> {
        self.failed.iter().take(MAX_STEPS)
    }

    /// The summary as text; empty if no step failed. The journal is read only for steps without a diagnostic.
    pub(crate) fn text(&self, history: Option<&History<'_>>) -> Result<String, CommandFailure> {
        let mut read = BTreeMap::new();
        if let Some(history) = history {
            let steps: Vec<Address> = self.shown().filter(|at| !self.log.is_diagnosed(at)).cloned().collect();
            let told = if steps.is_empty() {
                Vec::new()
            } else {
                explain_steps(history, &ExplainTarget::executions(&history.plan, steps))?
            };
            let readers = Readers::new();
            for one in last_of_each(&told) {
                let secrets = secrets_of(one);
                let teller =
                    ExplanationPrinter { history, readers: &readers, full: false, wide: false, secrets };
                let called = one.called().map(str::to_owned);
                read.insert(one.seen.at.clone(), (self.details(&teller, one)?, called));
            }
        }
        let mut out = String::new();
        for at in self.shown() {
            let name = visible(label(self.plan, at).trim_start());
            let (details, called) = match read.get(at) {
                Some((details, called)) => (details.as_str(), called.as_deref()),
                None => ("\n", None),
            };
            let handle = handle(self.plan, at);
            // Writing into a text cannot fail.
            let _ = write!(out, "\n{BAD}✗{BAD:#} {BOLD}{name}{BOLD:#}{details}");
            let _ = writeln!(out, "  {DIM}threadline explain {} {handle}{DIM:#}", self.run);
            if let Some(run) = called {
                let _ = writeln!(out, "  {DIM}threadline explain {run}{DIM:#}");
            }
        }
        let more = self.failed.len().saturating_sub(MAX_STEPS);
        if more > 0 {
            let _ = writeln!(out, "\n{more} more failed: `threadline {}`", self.more_command());
        }
        Ok(out)
    }

    /// The command that shows all failures: of items in a table.
    fn more_command(&self) -> String {
        let run = self.run;
        let are_items = self.failed.iter().all(Address::is_in_items);
        if are_items { format!("show {run} --failed") } else { format!("explain {run}") }
    }

    /// What stands behind the name of a step: its reason, unless a line gave it, and the values it read.
    fn details(
        &self,
        teller: &ExplanationPrinter<'_, '_>,
        told: &StepExplanation,
    ) -> Result<String, CommandFailure> {
        let mut out = String::from("\n");
        if !self.log.is_reported(&told.seen.at) {
            let error = if let Some(judged) = &told.judged {
                let reason = first_line(&judged.recorded.reason);
                describe_missing_route(self.plan, told.seen.step, &judged.recorded, reason)
            } else {
                let error = told.ended.as_ref().and_then(|ended| ended.output.meta.get(names::ERROR));
                error.map(ToString::to_string).unwrap_or_default()
            };
            let hide = |error: String, secret: &String| error.replace(secret.as_str(), "***");
            let error = teller.secrets.iter().fold(error, hide);
            if !error.is_empty() {
                let (first, more) = (visible(first_line(&error)), further_lines(&error, "    "));
                out = format!(": {first}\n{more}");
            }
            if let Some(ended) = told.ended.as_ref().filter(|_| told.judged.is_none()) {
                for line in printed_lines(teller.history.reader, &ended.output, PRINTED_LINES) {
                    // Writing into a text cannot fail.
                    let _ = writeln!(out, "    {}", teller.secrets.iter().fold(line, hide));
                }
            }
        }
        let references: Vec<&ExplainedReference> = told.references().take(MAX_REFERENCES).collect();
        out.push_str(&teller.references(told, references, "  ")?);
        Ok(out)
    }
}

/// The values of environment variables whose names say that nobody else may see them. A log of a failed run
/// is read by more people than its journal.
fn secrets_of(told: &StepExplanation) -> Vec<String> {
    let secret = told.references().map(|reference| &reference.resolution).filter(|resolution| {
        &*resolution.root == "env" && resolution.first.as_deref().is_some_and(is_secret_name)
    });
    let texts = secret.filter_map(|resolution| Some(resolution.value.as_ref()?.as_str()?.to_owned()));
    texts.filter(|text| !text.trim().is_empty()).collect()
}
