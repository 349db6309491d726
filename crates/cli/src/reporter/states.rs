//! The lines of a loop: a state, its verdict with the reason, where it leads; where an iteration begins; how it ended.

use std::time::Duration;

use threadline_engine::event::{Address, Datum, ERROR, Event, JudgedEvent, LoopEnd, LoopReason, Output};
use threadline_engine::execute::result::format_duration;
use threadline_engine::machine::Outcome;
use threadline_flow::model::{Step, Terminal};
use threadline_flow::plan::{Plan, StepNumber};
use unicode_width::UnicodeWidthStr as _;

use super::{BAD, DIM, GOOD, Reporter, STDERR_LINES, last_lines, preview, time_of};
use crate::report::first_line;

/// So wide are verdicts with their routes at most.
const ROUTE_WIDTH: usize = 28;

/// What a state did, until it was judged.
#[derive(Default)]
pub(super) struct Acted {
    time: String,
    value: String,
    stderr: Vec<String>,
}

impl Acted {
    pub(super) fn of(output: &Output) -> Self {
        let stderr = match &output.stderr {
            Some(Datum::Here(stderr)) => stderr.to_string(),
            _ => String::new(),
        };
        let value = match &output.value {
            Datum::Here(value) => format!("= {}", preview(value)),
            Datum::Stored { len, .. } => format!("= {len} bytes"),
        };
        Self { time: time_of(output), value, stderr: last_lines(&stderr, STDERR_LINES) }
    }
}

impl Reporter<'_> {
    /// A state was judged: its line.
    pub(super) fn judged(&mut self, event: &Event, judged: &JudgedEvent) {
        let plan = std::sync::Arc::clone(&self.plan);
        let Some(step) = event.at.step(&plan) else { return };
        let acted = std::mem::take(&mut self.acted);
        let is_error = judged.verdict == ERROR;
        let of_step = &plan.steps[step as usize].step;
        let terminal = of_step.state.as_ref().and_then(|state| state.terminal).filter(|_| !is_error);
        let (style, mark) = match terminal {
            _ if is_error => (BAD, "✗"),
            Some(Terminal::Success) => (GOOD, "✓"),
            Some(Terminal::Failure) => (BAD, "✗"),
            None if judged.to.is_none() => (BAD, "✗"),
            None => (DIM, "•"),
        };
        let note = if terminal.is_some() {
            with_value(of_step, &acted)
        } else if judged.to.is_none() {
            no_route(&plan, step, judged)
        } else {
            let way = way(of_step, judged);
            let told = if of_step.is_judged() || is_error {
                first_line(&judged.reason).to_owned()
            } else {
                with_value(of_step, &acted)
            };
            let pad = self.way_width.saturating_sub(way.width());
            format!("{way}{:pad$}  {told}", "")
        };
        self.line(&event.at, style, mark, &acted.time, note.trim_end());
        if is_error {
            self.stderr(&acted.stderr);
        }
    }

    /// The first line of an iteration stands below its number.
    pub(super) fn iteration(&mut self) {
        let turns = &self.progress.turns;
        let Some(limits) = turns.limits.filter(|_| turns.iteration > self.iteration) else { return };
        self.iteration = turns.iteration;
        if turns.iteration == 1 {
            return;
        }
        // One that goes on after a limit may begin as many again.
        let before = turns.iteration - turns.spent().0;
        let of = limits.max_iterations.map_or(String::new(), |most| format!(" of {}", before + most));
        let indent = "  ".repeat(self.indent);
        let line = format!("{DIM}▸ {indent}iteration {}{of}{DIM:#}", turns.iteration);
        self.say(&line);
    }
}

/// What a state left that others may read.
fn with_value(step: &Step, acted: &Acted) -> String {
    let named = step.id.is_some() || step.capture.is_some();
    if named { acted.value.clone() } else { String::new() }
}

/// How wide the widest verdict with its route is.
pub(super) fn way_width(plan: &Plan) -> usize {
    let states = plan.states.iter().flat_map(|states| states.routes.iter().zip(&plan.lists[0].steps));
    let ways = states.flat_map(|(ways, step)| {
        let step = &plan.steps[*step as usize].step;
        let name = |to: usize| plan.lists[0].names.get(to).map_or(0, |name| name.width()) + 2;
        let on = ways.on.iter().map(move |(verdict, to)| verdict.width() + 1 + name(*to));
        let conditions = ways.conditions.iter().map(move |to| 4 + name(*to));
        let word = if step.is_judged() { 4 } else { 0 };
        let otherwise = ways.otherwise.into_iter().map(move |to| word + name(to));
        let error = ways.error.into_iter().map(move |to| ERROR.len() + 1 + name(to));
        on.chain(conditions).chain(otherwise).chain(error)
    });
    ways.max().unwrap_or(0).min(ROUTE_WIDTH)
}

/// `no → fix`, and how sure it is where that is known; of a state that only goes on `→ fix`.
pub(crate) fn way(step: &Step, judged: &JudgedEvent) -> String {
    let verdict = if step.is_judged() || judged.verdict == ERROR { judged.verdict.as_str() } else { "" };
    let sure = judged.confidence.as_ref().map_or(String::new(), |sure| format!(" ({sure})"));
    let to = judged.to.as_ref().map_or(String::new(), |to| format!("→ {to}"));
    format!("{verdict}{sure} {to}").trim().to_owned()
}

/// A verdict without a route: what had one, and why the verdict is what it is.
pub(crate) fn no_route(plan: &Plan, step: StepNumber, judged: &JudgedEvent) -> String {
    let position = plan.lists[0].steps.iter().position(|known| *known == step);
    let ways = plan.states.as_ref().zip(position).and_then(|(states, at)| states.routes.get(at));
    let mut routed: Vec<&str> = Vec::new();
    if let Some(ways) = ways {
        routed.extend(ways.on.iter().map(|(verdict, _)| verdict.as_str()));
        routed.extend(ways.error.map(|_| ERROR));
    }
    // Where every other verdict has a route only an error has none, which surprises those who wrote just that.
    let others = ways.is_some_and(|ways| ways.otherwise.is_some());
    let ends = plan.steps[step as usize].step.state.as_ref().is_some_and(|state| state.terminal.is_some());
    let routed = match &routed[..] {
        _ if ends => String::new(),
        _ if others => " has no route, `next` and `_` are for other verdicts".to_owned(),
        [] => " has no route".to_owned(),
        [one] => format!(" has no route, only {one} has"),
        [first @ .., last] => format!(" has no route, {} and {last} have", first.join(", ")),
    };
    format!("{}{routed}: {}", judged.verdict, first_line(&judged.reason))
}

/// Where a loop ended, and why: ` in done`, ` before fix: max_steps 20 reached`.
pub(crate) fn loop_end(outcome: Outcome, end: &LoopEnd) -> String {
    let limit = match (end.reason, end.limit) {
        (LoopReason::Timeout, Some(millis)) => format_duration(Duration::from_millis(millis)),
        (_, limit) => limit.map_or(String::new(), |limit| limit.to_string()),
    };
    let reached = format!("{} {limit} reached", end.reason.name());
    match end.reason {
        LoopReason::Terminal => format!(" in {}", end.state),
        // A loop that is kept going ends well in the state that ends it.
        _ if outcome == Outcome::Completed => format!(" in {}: {reached}", end.state),
        _ => format!(" before {}: {reached}", end.state),
    }
}

/// The number of a visit behind the name of a state, from the second on.
pub(super) fn visit(at: &Address) -> String {
    match at.visit().filter(|visit| at.is_visit() && *visit > 1) {
        Some(visit) => format!("#{visit}"),
        None => String::new(),
    }
}
