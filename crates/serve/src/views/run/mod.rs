//! The page of a run. All that decides what it shows stands in its address; without scripts every view is a link or a form.

pub(crate) mod choice;
pub(crate) mod head;
mod inspector;
mod lanes;
mod panes;
pub(crate) mod report;
mod source;
pub(crate) mod value;

use askama::Template;
use jiff::Timestamp;
use threadline_inspect::InspectError;
use threadline_inspect::graph::{SvgUse, WorkflowDrawing};
use threadline_inspect::history::History;
use threadline_inspect::run_state::{RunState, Standing};
use threadline_inspect::runs::ListedRun;
use threadline_inspect::timeline::RunTimeline;
use threadline_lang::diag::words;

use self::choice::{Pane, ViewChoice};
use self::head::{ActionView, FailureView, HeadView};
use self::inspector::{InspectorView, maker_text};
use self::lanes::TimelineView;
use self::panes::{ItemsView, LogView, StepsView, TalkView};
use self::source::{LinePart, ShownEvaluations, SourceView};
use super::{PageFrame, page};
use crate::answer::HttpAnswer;
use crate::api;
use crate::problem::Problem;
use crate::server::RouteCall;

pub(crate) use self::value::visible;

/// The ways that steps stand which a drawing explains.
const LEGEND: [Standing; 6] = [
    Standing::Completed,
    Standing::Failed,
    Standing::Running,
    Standing::Retrying,
    Standing::Skipped,
    Standing::NotYet,
];

/// What is shown of a run, without what stands around it.
pub(crate) struct RunView {
    /// What a drawing explains.
    pub(crate) legend: [Standing; 6],
    /// What paths begin with, and the project, for links beside this page.
    pub(crate) base: String,
    pub(crate) project: String,
    pub(crate) head: HeadView,
    pub(crate) failure: Option<FailureView>,
    pub(crate) actions: Option<ActionView>,
    pub(crate) graph: String,
    pub(crate) tabs: Vec<TabView>,
    pub(crate) pane: Pane,
    pub(crate) source: Option<SourceView>,
    pub(crate) inspector: Option<InspectorView>,
    /// Whether a value is asked for that was not evaluated.
    pub(crate) has_no_value: bool,
    pub(crate) steps: Option<StepsView>,
    pub(crate) items: Option<ItemsView>,
    pub(crate) log: Option<LogView>,
    pub(crate) talks: Vec<TalkView>,
    pub(crate) called: Vec<CalledView>,
    pub(crate) timeline: TimelineView,
}

/// A tab over the middle of the page.
pub(crate) struct TabView {
    pub(crate) title: &'static str,
    pub(crate) link: String,
    pub(crate) is_chosen: bool,
    pub(crate) note: String,
}

/// A run that a step called.
pub(crate) struct CalledView {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) status: &'static str,
    pub(crate) took: String,
    pub(crate) by: String,
    /// Its steps, each with how it stands.
    pub(crate) steps: StepsView,
}

impl RunView {
    /// What is shown of a run as a view asks for it.
    pub(crate) fn new(
        history: &History<'_>,
        timeline: &RunTimeline,
        state: &RunState<'_>,
        listed: &ListedRun,
        choice: &ViewChoice,
        (now, read_only): (Timestamp, bool),
    ) -> Result<Self, InspectError> {
        let last = timeline.last();
        let is_past = state.until < last;
        let shown = ShownEvaluations::read(history, state, choice)?;
        let head = HeadView::new(history, state, listed, last, choice, now);
        // Of a map that has failed items the items say it; elsewhere the source does.
        let has_items = state.lists().next().is_some();
        let usual = if has_items && state.items().total() > 1 { Pane::Items } else { Pane::Source };
        let pane = choice.pane.unwrap_or(if choice.value.is_some() { Pane::Source } else { usual });
        let inspector = match choice.value {
            Some(place) => InspectorView::new(history, &shown, choice, place, true)?,
            None => None,
        };
        let called = called_runs(history, state, pane == Pane::Called)?;
        let has_talks = panes::has_agents(history);
        let tabs = Pane::ALL.into_iter().filter(|tab| match tab {
            Pane::Items => has_items,
            Pane::Agents => has_talks,
            Pane::Called => !called.is_empty(),
            _ => true,
        });
        let tabs = tabs.map(|tab| TabView {
            title: tab.title(),
            link: choice.pane(tab),
            is_chosen: tab == pane,
            note: match tab {
                Pane::Items => state.items().total().to_string(),
                Pane::Called => called.len().to_string(),
                _ => String::new(),
            },
        });
        let failure = if is_past { None } else { FailureView::new(history, state, &shown, choice)? };
        Ok(Self {
            base: String::new(),
            project: String::new(),
            failure,
            actions: ActionView::new(history, state, listed, is_past, read_only),
            graph: WorkflowDrawing::of_state(timeline, state).svg_in(SvgUse::Page),
            tabs: tabs.collect(),
            pane,
            source: (pane == Pane::Source)
                .then(|| SourceView::new(history, state, &shown, choice))
                .transpose()?,
            has_no_value: choice.value.is_some() && inspector.is_none(),
            inspector,
            steps: (pane == Pane::Steps).then(|| StepsView::new(history, state, choice)).transpose()?,
            items: if pane == Pane::Items { ItemsView::new(history, state, choice)? } else { None },
            log: (pane == Pane::Log).then(|| LogView::new(history, state, choice)).transpose()?,
            talks: if pane == Pane::Agents { panes::talks(history, state, choice)? } else { Vec::new() },
            called,
            timeline: TimelineView::new(history, timeline, state, choice),
            head,
            legend: LEGEND,
        })
    }
}

/// The runs that steps called, with their steps where they are looked at.
fn called_runs(
    history: &History<'_>,
    state: &RunState<'_>,
    with_steps: bool,
) -> Result<Vec<CalledView>, InspectError> {
    let id = &history.info.id;
    let started =
        threadline_store::RunId::new(id.started()).map_err(|error| threadline_inspect::of_store(&error))?;
    let known = history.reader.called_by(&started).map_err(|error| threadline_inspect::of_store(&error))?;
    let mut found = Vec::new();
    for info in known.into_iter().filter(|info| info.events > 0) {
        let other = History::open(history.reader, info.id.as_str())?;
        let Some(caller) = other.started.caller.clone().filter(|caller| *caller.run == *id.as_str()) else {
            continue;
        };
        // One that was called later is not there yet.
        if state.at(&caller.at).last == 0 {
            continue;
        }
        let timeline = RunTimeline::read(history.reader, &info.id, &other.plan)?;
        let now = RunState::now(&timeline);
        let steps = if with_steps {
            StepsView::new(&other, &now, &ViewChoice::default())?
        } else {
            StepsView { rows: Vec::new(), more: 0, inside: Vec::new(), detail: None }
        };
        let took = now.began.zip(now.time).map(|(began, time)| source::millis_text(time - began));
        found.push(CalledView {
            id: info.id.to_string(),
            workflow: visible(&info.name),
            status: now.phase.name(),
            took: took.unwrap_or_default(),
            by: visible(&threadline_inspect::labels::name(&history.plan, &caller.at)),
            steps,
        });
        // Of many the first are enough to find one; the others are in the list of runs.
        if found.len() >= 50 {
            break;
        }
    }
    Ok(found)
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunHtml {
    frame: PageFrame,
    view: RunView,
    project: String,
}

/// The page of a run.
pub(crate) fn run(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let project = call.project()?.name.clone();
    let choice = ViewChoice::of(&call.arguments);
    let mut view = api::run::open(call, |history, timeline| {
        let state = RunState::at_event(history, timeline, choice.at)?;
        let (listed, _) = api::run::listed(call, history, &RunState::now(timeline))?;
        Ok(RunView::new(history, timeline, &state, &listed, &choice, (call.now, call.server.read_only))?)
    })?;
    (view.base, view.project) = (call.server.gate.base(), project.clone());
    let title = format!("{}, {}", view.head.workflow, words::one_line(&view.head.word.to_lowercase()));
    page(&RunHtml { frame: PageFrame::new(&call.server, title, Some(&project)), view, project })
}
