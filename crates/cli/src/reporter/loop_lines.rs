//! The lines of a loop: each state with its verdict, the reason and the state that follows; headings of iterations; how
//! the loop ended.

use std::sync::Arc;
use std::time::Duration;

use threadline_engine::event::{ERROR, Event, JudgedEvent, LoopEnd, LoopReason, Output};
use threadline_engine::machine::Outcome;
use threadline_flow::model::{Step, Terminal};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_lang::diag::words;
use unicode_width::UnicodeWidthStr as _;

use super::{BAD, DIM, GOOD, LineHead, OPEN, PRINTED_LINES, Reporter, duration_of, spend_text, used_by};
use crate::loop_progress::has_ignored_failure;
use crate::report::first_line;
use threadline_inspect::printed::last_printed_line;

/// The maximum width of the column with verdicts and routes.
const MAX_ROUTE_WIDTH: usize = 28;

/// What the lines of a loop need to know of the lines before.
pub(super) struct LoopLines {
    /// What the state did that is being judged.
    result: StateResult,
    /// The iteration whose states are shown.
    iteration: u64,
    /// The width of the column with verdicts and routes.
    route_width: usize,
    /// Whether a terminal holds the printed lines back, to show only the last of them.
    pub(super) held_back: bool,
}

/// What a state did, for the line that is printed once it was judged.
#[derive(Default)]
struct StateResult {
    time: Option<Duration>,
    value: String,
    output: Option<Output>,
    /// Whether an earlier run did it.
    is_kept: bool,
}

impl LoopLines {
    pub(super) fn new(plan: &Plan, iteration: u64) -> Self {
        let route_width = route_width(plan);
        Self { result: StateResult::default(), iteration, route_width, held_back: false }
    }

    /// A state has ended and will be judged. `shown` is what it left, for its line.
    pub(super) fn remember(&mut self, output: &Output, shown: &str, is_kept: bool) {
        let value = format!("= {shown}{}", used_by(output));
        let (time, output) = (Some(duration_of(output)), Some(output.clone()));
        self.result = StateResult { time, value, output, is_kept };
    }
}

impl Reporter<'_> {
    /// A state was judged: its line is printed.
    pub(super) fn judged(&mut self, event: &Event, judged: &JudgedEvent) {
        let plan = Arc::clone(&self.plan);
        let Some(step_number) = event.at.step(&plan) else { return };
        let result = std::mem::take(&mut self.loop_lines.result);
        let is_error = judged.verdict == ERROR;
        let is_ignored = has_ignored_failure(&plan, &event.at, &judged.verdict);
        let step = &plan.steps[step_number as usize].step;
        let terminal = step.state.as_ref().and_then(|state| state.terminal).filter(|_| !is_error);
        let (style, mark) = match terminal {
            _ if is_error => (BAD, "✗"),
            Some(Terminal::Success) => (GOOD, "✓"),
            Some(Terminal::Failure) => (BAD, "✗"),
            None if judged.to.is_none() => (BAD, "✗"),
            None if is_ignored => (OPEN, "!"),
            None if result.is_kept => (DIM, "="),
            None => (DIM, "•"),
        };
        let reason = first_line(&judged.reason);
        let reason = if is_error { self.failures.line_reason(&event.at, reason) } else { reason };
        let note = if terminal.is_some() {
            named_value(step, &result)
        } else if judged.to.is_none() {
            describe_missing_route(&plan, step_number, judged, reason)
        } else {
            let route = describe_route(step, judged);
            let is_judged = step.is_judged() || is_error;
            let note = match result.output.as_ref().filter(|_| is_ignored) {
                _ if is_judged => reason.to_owned(),
                Some(output) => match self.last_printed_line(output) {
                    Some(said) => format!("{reason}: {said}"),
                    None => reason.to_owned(),
                },
                None => named_value(step, &result),
            };
            let pad = self.loop_lines.route_width.saturating_sub(route.width());
            format!("{route}{:pad$}  {note}", "")
        };
        // The time of the judge counts.
        let asked = judged.reply.as_ref().map(|reply| Duration::from_millis(reply.elapsed_ms));
        let time = result.time.into_iter().chain(asked).reduce(|action, judge| action + judge);
        let time = time.map_or(String::new(), words::duration);
        let used =
            event.kind.spent().and_then(spend_text).map_or(String::new(), |used| format!("  ({used})"));
        let note = note + &used;
        self.line(&event.at, LineHead::new(style, mark, &time), note.trim_end());
        let is_failed = is_error || judged.to.is_none() && terminal.is_none();
        if is_failed {
            self.failures.report(&event.at, first_line(&judged.reason));
        }
        // What failed is the judge, where one was asked.
        let lines = match (&result.output, &judged.reply) {
            (_, Some(reply)) if is_error => self.reply_lines(reply),
            (Some(output), _) if is_failed => self.printed_lines(output, PRINTED_LINES),
            _ => Vec::new(),
        };
        self.print_all(&lines);
    }

    /// The last line that the action of a state printed, if it can be read.
    fn last_printed_line(&self, output: &Output) -> Option<String> {
        last_printed_line(self.reader?, output).ok().flatten()
    }

    /// Prints the number of an iteration above its first line.
    pub(super) fn iteration_heading(&mut self) {
        let turns = &self.progress.turns;
        let Some(limits) = turns.limits.filter(|_| turns.iteration > self.loop_lines.iteration) else {
            return;
        };
        self.loop_lines.iteration = turns.iteration;
        if turns.iteration == 1 {
            return;
        }
        // A loop that is resumed after a limit may begin as many iterations again.
        let before = turns.iteration - turns.spent().0;
        let of = limits.max_iterations.map_or(String::new(), |most| format!(" of {}", before + most));
        let indent = "  ".repeat(self.column.indent);
        let line = format!("{DIM}▸ {indent}iteration {}{of}{DIM:#}", turns.iteration);
        self.print(&line);
    }
}

/// The value of a state that other states can read.
fn named_value(step: &Step, result: &StateResult) -> String {
    let is_named = step.id.is_some() || step.capture.is_some();
    if is_named { result.value.clone() } else { String::new() }
}

/// The width of the widest verdict with its route.
fn route_width(plan: &Plan) -> usize {
    let states = plan.states.iter().flat_map(|states| states.routes.iter().zip(&plan.lists[0].steps));
    let widths = states.flat_map(|(routes, step)| {
        let step = &plan.steps[*step as usize].step;
        let name = |to: usize| plan.lists[0].names.get(to).map_or(0, |name| name.width()) + 2;
        let on = routes.on.iter().map(move |(verdict, to)| verdict.width() + 1 + name(*to));
        let conditions = routes.conditions.iter().map(move |to| 4 + name(*to));
        let word = if step.is_judged() { 4 } else { 0 };
        let otherwise = routes.otherwise.into_iter().map(move |to| word + name(to));
        let error = routes.error.into_iter().map(move |to| ERROR.len() + 1 + name(to));
        on.chain(conditions).chain(otherwise).chain(error)
    });
    widths.max().unwrap_or(0).min(MAX_ROUTE_WIDTH)
}

/// A verdict with its confidence and its route, `no (0.9) → fix`; `→ fix` for a state that is not judged.
pub(crate) fn describe_route(step: &Step, judged: &JudgedEvent) -> String {
    let verdict = if step.is_judged() || judged.verdict == ERROR { judged.verdict.as_str() } else { "" };
    let confidence = judged.confidence.as_ref().map_or(String::new(), |number| format!(" ({number})"));
    let to = judged.to.as_ref().map_or(String::new(), |to| format!("→ {to}"));
    format!("{verdict}{confidence} {to}").trim().to_owned()
}

/// A verdict without a route: the verdicts that have one, and the reason of the verdict.
pub(crate) fn describe_missing_route(
    plan: &Plan,
    step: StepNumber,
    judged: &JudgedEvent,
    reason: &str,
) -> String {
    let position = plan.lists[0].steps.iter().position(|known| *known == step);
    let routes = plan.states.as_ref().zip(position).and_then(|(states, at)| states.routes.get(at));
    let mut verdicts: Vec<&str> = Vec::new();
    if let Some(routes) = routes {
        verdicts.extend(routes.on.iter().map(|(verdict, _)| verdict.as_str()));
        verdicts.extend(routes.error.map(|_| ERROR));
    }
    // If every other verdict has a route, only an error has none, which surprises people who wrote just that route.
    let others = routes.is_some_and(|routes| routes.otherwise.is_some());
    let ends = plan.steps[step as usize].step.state.as_ref().is_some_and(|state| state.terminal.is_some());
    let missing = match &verdicts[..] {
        _ if ends => String::new(),
        _ if others => " has no route, `next` and `_` are for other verdicts".to_owned(),
        [] => " has no route".to_owned(),
        [one] => format!(" has no route, only {one} has"),
        several => format!(" has no route, {} have", words::list(several, "and")),
    };
    format!("{}{missing}: {reason}", judged.verdict)
}

/// Where a loop ended, and why: ` in done`, ` before fix: max_steps 20 reached`.
pub(crate) fn describe_loop_end(outcome: Outcome, end: &LoopEnd) -> String {
    let limit = match (end.reason, end.limit) {
        (LoopReason::Timeout, Some(millis)) => words::duration(Duration::from_millis(millis)),
        (_, limit) => limit.map_or(String::new(), |limit| limit.to_string()),
    };
    let reached = format!("{} {limit} reached", end.reason.name());
    match end.reason {
        LoopReason::Terminal => format!(" in {}", end.state),
        // A loop that is kept going succeeds in the state that ends it.
        _ if outcome == Outcome::Completed => format!(" in {}: {reached}", end.state),
        _ => format!(" before {}: {reached}", end.state),
    }
}
