//! When each execution ran, as lanes of a drawing, and the bar over the events of the journal.

use std::fmt::Write as _;

use threadline_engine::event::Millis;
use threadline_inspect::history::History;
use threadline_inspect::labels;
use threadline_inspect::run_state::{RunState, Standing, StandingExecution};
use threadline_inspect::timeline::RunTimeline;

use super::choice::{Pane, ViewChoice};
use super::source::millis_text;
use super::value::visible;

/// The maximum number of lanes.
const MAX_LANES: usize = 14;

/// The width of the drawing in its own units.
const WIDTH: i64 = 1000;

/// The timeline of a run.
pub(crate) struct TimelineView {
    pub(crate) lanes: Vec<LaneView>,
    /// How many executions have no lane.
    pub(crate) more: usize,
    /// Where the shown event is, of 1000.
    pub(crate) line: i64,
    pub(crate) until: u64,
    pub(crate) last: u64,
    pub(crate) what: String,
    pub(crate) offset: String,
    pub(crate) before: String,
    pub(crate) after: String,
    /// What a form keeps beside the event.
    pub(crate) fields: Vec<(String, String)>,
}

/// One lane.
pub(crate) struct LaneView {
    pub(crate) name: String,
    pub(crate) link: String,
    pub(crate) bar: String,
    pub(crate) took: String,
}

impl TimelineView {
    pub(crate) fn new(
        history: &History<'_>,
        timeline: &RunTimeline,
        state: &RunState<'_>,
        choice: &ViewChoice,
    ) -> Self {
        let last = timeline.last();
        let time = |seq: u64| timeline.event(seq).map_or(0, |event| event.time);
        let (began, end) = (time(1), time(last));
        let now = state.time.unwrap_or(end);
        let span = (end - began).max(1);
        let place = |time: Millis| ((time - began).max(0) * WIDTH / span).min(WIDTH);
        let mut executions: Vec<StandingExecution> = state.executions();
        executions.retain(|execution| execution.at.is_some());
        let total = executions.len();
        if total > MAX_LANES {
            let took = |execution: &StandingExecution| {
                let place = &execution.state;
                place.began.map_or(0, |began| place.ended.unwrap_or(now) - began)
            };
            let is_urgent = |execution: &StandingExecution| {
                matches!(execution.state.standing, Standing::Failed | Standing::Running | Standing::Retrying)
            };
            let mut order: Vec<usize> = (0..total).collect();
            order.sort_by_key(|at| (!is_urgent(&executions[*at]), -took(&executions[*at])));
            let mut kept: Vec<usize> = order.into_iter().take(MAX_LANES).collect();
            kept.sort_unstable();
            let mut at = 0;
            executions.retain(|_| {
                at += 1;
                kept.binary_search(&(at - 1)).is_ok()
            });
        }
        let more = total - executions.len();
        let lanes = executions.iter().filter_map(|execution| {
            let at = execution.at.as_ref()?;
            let of = &execution.state;
            let from = place(of.began.or(of.ended).unwrap_or(began));
            let to = place(of.ended.unwrap_or(now));
            let width = (to - from).max(4);
            let standing = of.standing.name();
            let mut bar = String::new();
            // Writing into a text cannot fail.
            let _ = write!(
                bar,
                "<rect class=\"{standing}\" x=\"{}\" y=\"3\" width=\"{width}\" height=\"8\" rx=\"2\"/>",
                from.min(WIDTH - width)
            );
            let took = match of.standing {
                Standing::Skipped => "skipped".to_owned(),
                _ => of.began.map_or(String::new(), |began| millis_text(of.ended.unwrap_or(now) - began)),
            };
            let name = visible(&labels::name(&history.plan, at));
            Some(LaneView { name, link: choice.step(Pane::Steps, at), bar, took })
        });
        let step = |at: u64| choice.with(|other| other.at = (at < last).then_some(at));
        Self {
            lanes: lanes.collect(),
            more,
            line: place(now),
            until: state.until,
            last,
            what: super::head::event_text(history, state.until),
            offset: millis_text(now - began),
            before: step(state.until.saturating_sub(1).max(1)),
            after: step((state.until + 1).min(last)),
            fields: choice.fields(&["at"]),
        }
    }
}
