//! Many executions of a step, a line for each: its items, or the visits of a state. Nothing of them is evaluated again, and
//! of each no more is kept than its line.

use std::collections::BTreeMap;

use anstyle::Style;
use threadline_engine::event::{Address, Event, Output};
use threadline_engine::replay::{Evaluated, Fold, Seen};
use threadline_flow::fields::field_names as names;
use threadline_lang::diag::excerpt;

use crate::commands::history::{History, clock_text};
use crate::loop_progress::has_ignored_failure;
use crate::report::first_line;
use crate::reporter::{describe_route, shown_of};
use crate::table::Table;
use threadline_inspect::InspectError;
use threadline_inspect::explanation::{ended, explain_seen};
use threadline_inspect::explanation_json::label;
use threadline_inspect::labels::handle;
use threadline_inspect::target::ExplainTarget;

const PLAIN: Style = Style::new();
const DIM: Style = Style::new().dimmed();

/// A line for each execution of a target; none if it has only one that can be shown in full.
pub(super) fn overview(
    history: &History<'_>,
    target: &ExplainTarget,
) -> Result<Option<Overview>, InspectError> {
    let plan = &history.plan;
    // Elsewhere a step is executed once, whatever attempts it takes.
    if target.asked_items(plan).is_some() && plan.states.is_none() {
        return Ok(None);
    }
    let mut found =
        Executions { history, target, rows: Vec::new(), places: BTreeMap::new(), visits: Vec::new() };
    history.each(|fold, event| found.take(fold, event))?;
    Ok(found.overview())
}

/// A table and what to do next.
pub(super) struct Overview {
    pub(super) table: Table,
    pub(super) next: String,
}

/// Collects the executions of a target.
struct Executions<'h, 'r> {
    history: &'h History<'r>,
    target: &'h ExplainTarget,
    rows: Vec<ExecutionRow>,
    places: BTreeMap<Address, usize>,
    visits: Vec<VisitRow>,
}

/// The last evaluation of an execution, and how it ended.
struct ExecutionRow {
    at: Address,
    time: i64,
    status: &'static str,
    note: String,
}

/// A visit of a state, and where it led.
struct VisitRow {
    at: Address,
    time: i64,
    route: String,
    reason: String,
}

impl Executions<'_, '_> {
    /// Takes the next event.
    fn take(&mut self, fold: &Fold, event: &Event) -> Result<(), InspectError> {
        let is_asked = fold.machine.step_of(&event.at).is_some_and(|step| self.target.means(&event.at, step));
        let seen = is_asked.then(|| fold.seen(event)).flatten();
        if let Some(seen) = seen.filter(|seen| seen.evaluated != Evaluated::Exports)
            && self.has_field(&seen)?
        {
            self.begin(seen);
        }
        if let (Some(at), Some(ended)) = (self.places.get(&event.at).copied(), ended(event)) {
            let row = &mut self.rows[at];
            (row.status, row.note) = (ended.output.status.name(), note(self.history, &ended.output));
        }
        Ok(())
    }

    /// Whether the field that is asked for was evaluated.
    fn has_field(&self, seen: &Seen) -> Result<bool, InspectError> {
        if self.target.field.is_none() {
            return Ok(true);
        }
        let explained = explain_seen(self.history, seen.clone())?;
        Ok(explained.fields.iter().any(|field| self.target.means_field(&field.name)))
    }

    fn begin(&mut self, seen: Seen) {
        if let Some(judged) = &seen.judged {
            let step = &self.history.plan.steps[seen.step as usize].step;
            let is_told =
                step.is_judged() || has_ignored_failure(&self.history.plan, &seen.at, &judged.verdict);
            let reason = if is_told { first_line(&judged.reason).to_owned() } else { String::new() };
            let route = describe_route(step, judged);
            self.visits.push(VisitRow { at: seen.at.clone(), time: seen.time, route, reason });
        }
        let row =
            ExecutionRow { at: seen.at.clone(), time: seen.time, status: "not ended", note: String::new() };
        if let Some(place) = self.places.get(&seen.at) {
            self.rows[*place] = row;
        } else {
            self.places.insert(seen.at, self.rows.len());
            self.rows.push(row);
        }
    }

    fn overview(self) -> Option<Overview> {
        let run = &self.history.info.id;
        let mut table = Table::default();
        let one = if let Some(last) = self.visits.last().filter(|_| self.visits.len() > 1) {
            let one = last.at.to_string();
            for VisitRow { at, time, route, reason } in self.visits {
                let time = clock_text(time);
                table.row([(PLAIN, at.to_string()), (PLAIN, route), (DIM, time), (PLAIN, reason)]);
            }
            one
        } else {
            let mut items = self.rows.iter().filter(|row| row.at.is_in_items());
            items.nth(1)?;
            let one = self.rows.first().map_or(String::new(), |row| handle(&self.history.plan, &row.at));
            for ExecutionRow { at, time, status, note } in self.rows {
                let name = label(self.history, &at);
                let (status, time) = (status.to_owned(), clock_text(time));
                table.row([(PLAIN, name), (PLAIN, status), (DIM, time), (PLAIN, note)]);
            }
            one
        };
        Some(Overview { table, next: format!("`threadline explain {run} {one}` shows one of them\n") })
    }
}

/// How an execution ended, in a few words.
fn note(history: &History<'_>, output: &Output) -> String {
    let error = output.meta.get(names::ERROR).or_else(|| output.meta.get(names::REASON));
    match error {
        Some(error) => first_line(&error.to_string()).to_owned(),
        None => match shown_of(output, |stored| history.load(stored).ok()) {
            Ok(value) => format!("→ {}", excerpt(&value)),
            Err(bytes) => format!("→ {bytes} bytes"),
        },
    }
}
