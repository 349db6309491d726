//! A run as one file: the same views below each other, with their style in the file and no script. It asks nobody for
//! anything, and links lead to places in it.

use askama::Template;
use jiff::Timestamp;
use threadline_inspect::InspectError;
use threadline_inspect::graph::DRAWING_STYLE;
use threadline_inspect::history::History;
use threadline_inspect::run_state::RunState;
use threadline_inspect::runs::{ListedRun, RunStatus};
use threadline_inspect::source;
use threadline_inspect::timeline::RunTimeline;

use super::RunView;
use super::choice::{Pane, ViewChoice};
use super::inspector::InspectorView;
use super::panes::{self, ItemsView, StepDetail, StepsView};
use super::source::{LinePart, ShownEvaluations};

/// The maximum number of executions that are shown with all that was evaluated of them.
const MAX_DETAILS: usize = 300;

/// The numbers of values and of events up to which each value has its chains: each chain reads the run.
const MAX_CHAINS: usize = 80;
const MAX_CHAIN_EVENTS: u64 = 3_000;

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    view: RunView,
    style: &'static str,
    drawing: &'static str,
    values: Vec<InspectorView>,
    details: Vec<StepDetail>,
    left_out: usize,
    has_chains: bool,
    program: &'static str,
}

/// A run as it is, as a page of its own.
pub fn report(history: &History<'_>, now: Timestamp) -> Result<String, InspectError> {
    let reader = history.reader;
    let timeline = RunTimeline::read(reader, &history.info.id, &history.plan)?;
    let state = RunState::now(&timeline);
    let choice = ViewChoice { is_file: true, pane: Some(Pane::Source), ..ViewChoice::default() };
    let listed = ListedRun::of(reader, now, history.info.clone(), RunStatus::of(reader, &history.info)?);
    let mut view = RunView::new(history, &timeline, &state, &listed, &choice, (now, true))?;
    view.steps = Some(StepsView::new(history, &state, &choice)?);
    view.items = ItemsView::new(history, &state, &choice)?;
    view.talks =
        if panes::has_agents(history) { panes::talks(history, &state, &choice)? } else { Vec::new() };
    view.called = super::called_runs(history, &state, true)?;
    let shown = ShownEvaluations::read(history, &state, &choice)?;
    let text = source::texts(history)?.into_iter().next().map(|main| main.text).unwrap_or_default();
    let places = shown.places(&text);
    let has_chains = places.len() <= MAX_CHAINS && timeline.last() <= MAX_CHAIN_EVENTS;
    let mut values = Vec::with_capacity(places.len());
    for place in places {
        values.extend(InspectorView::new(history, &shown, &choice, place, has_chains)?);
    }
    let mut executions: Vec<_> =
        state.executions().into_iter().filter_map(|execution| execution.at).collect();
    // The source shows the values of one item, and leads to its steps.
    for told in &shown.told {
        if !executions.contains(&told.seen.at) {
            executions.push(told.seen.at.clone());
        }
    }
    let left_out = executions.len().saturating_sub(MAX_DETAILS);
    let mut details = Vec::new();
    for at in executions.iter().take(MAX_DETAILS) {
        details.push(StepDetail::new(history, &state, at, &choice)?);
    }
    let page = ReportPage {
        view,
        style: include_str!("../../../assets/style.css"),
        drawing: DRAWING_STYLE,
        values,
        details,
        left_out,
        has_chains,
        program: env!("CARGO_PKG_VERSION"),
    };
    page.render().map_err(|error| InspectError::plain(format!("the page cannot be made: {error}")))
}
