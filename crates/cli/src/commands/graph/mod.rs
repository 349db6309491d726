//! `threadline graph`: a workflow or a run as a picture. No program beside this one is needed.

mod states;
mod states_svg;
mod svg;
mod written;

use std::collections::BTreeMap;
use std::path::Path;

use threadline_engine::event::Status;
use threadline_engine::replay::output_of;
use threadline_flow::model::Action;
use threadline_flow::plan::{Plan, Source};

use super::check::{planned, reports};
use super::history::{History, reader};
use super::{print, print_styled};
use crate::arguments::{Graph, GraphFormat};
use crate::exit::Failure;
use crate::inputs;

/// What is drawn: the steps of a workflow, and what each waits for.
pub(super) struct Drawing {
    pub(super) name: String,
    pub(super) nodes: Vec<Drawn>,
    pub(super) edges: Vec<Arrow>,
}

/// A step.
pub(super) struct Drawn {
    pub(super) label: String,
    /// What it does.
    pub(super) kind: &'static str,
    /// How it ended, in a run.
    pub(super) status: Option<Status>,
}

/// From one step to another.
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sort: Sort,
    /// The branch that it belongs to.
    pub(super) branch: Option<String>,
    /// Whether it was taken, in a run in which both ends are over.
    pub(super) taken: Option<bool>,
}

/// What an arrow means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// The other must have completed.
    Needs,
    /// One of several edges.
    Edge,
    /// The other must be over.
    Waits,
}

/// `threadline graph`
pub(crate) fn graph(call: &Graph) -> Result<(), Failure> {
    let picture = picture(call)?;
    match (&picture, call.format) {
        (Picture::Steps(drawing), GraphFormat::Text) => print(&written::text(drawing)),
        (Picture::Steps(drawing), GraphFormat::Mermaid) => print(&written::mermaid(drawing)),
        (Picture::Steps(drawing), GraphFormat::Dot) => print(&written::dot(drawing)),
        (Picture::Steps(drawing), GraphFormat::Svg) => print(&svg::svg(drawing)),
        (Picture::Loop(drawing), GraphFormat::Text) => print_styled(&drawing.text()),
        (Picture::Loop(drawing), GraphFormat::Mermaid) => print(&drawing.mermaid()),
        (Picture::Loop(drawing), GraphFormat::Dot) => print(&drawing.dot()),
        (Picture::Loop(drawing), GraphFormat::Svg) => print(&states_svg::svg(drawing)),
    }
}

/// What is drawn.
enum Picture {
    /// Steps, and what each waits for.
    Steps(Drawing),
    /// States, and where each leads.
    Loop(states::Drawing),
}

/// A file when there is one of this name, else a run.
fn picture(call: &Graph) -> Result<Picture, Failure> {
    let path = Path::new(&call.what);
    if call.what == "-" || path.is_file() {
        let file = inputs::read_workflow(path)?;
        let (planned, problems) = planned(&file);
        let planned = planned.ok_or_else(|| Failure::NotStarted(reports(&file, &problems)))?;
        return Ok(match planned.states {
            Some(_) => Picture::Loop(states::drawing(&planned, None)),
            None => Picture::Steps(of_plan(&planned, &BTreeMap::new())),
        });
    }
    let reader = reader(call.dir.as_deref())?;
    let history = History::open(&reader, &call.what)?;
    if let Some(drawing) = of_loop(&history)? {
        return Ok(Picture::Loop(drawing));
    }
    let mut statuses: BTreeMap<usize, Status> = BTreeMap::new();
    history.each(|_, event| {
        let is_step = event.at.outermost().is_some_and(|step| step == event.at);
        let position = event.at.outermost_position(&history.plan).filter(|_| is_step);
        if let (Some(position), Some(output)) = (position, output_of(event)) {
            statuses.insert(position, output.status);
        }
        Ok(())
    })?;
    Ok(Picture::Steps(of_plan(&history.plan, &statuses)))
}

/// The states of a run, when it is that of a loop, and where it went.
fn of_loop(history: &History<'_>) -> Result<Option<states::Drawing>, Failure> {
    if history.plan.states.is_none() {
        return Ok(None);
    }
    let mut path = states::Path::default();
    history.each(|_, event| {
        path.take(&history.plan, event);
        Ok(())
    })?;
    Ok(Some(states::drawing(&history.plan, Some(&path))))
}

/// The states of a run as text, when it is that of a loop.
pub(super) fn ways(history: &History<'_>) -> Result<Option<String>, Failure> {
    Ok(of_loop(history)?.map(|drawing| drawing.text()))
}

fn of_plan(plan: &Plan, statuses: &BTreeMap<usize, Status>) -> Drawing {
    let list = &plan.lists[0];
    let nodes = list.steps.iter().enumerate().map(|(at, number)| {
        let planned = &plan.steps[*number as usize];
        let status = statuses.get(&at).copied();
        let kind = match &planned.step.action {
            Action::ForEach(each) if each.is_map => "map",
            action => action.name().key(),
        };
        Drawn { label: planned.label.to_string(), kind, status }
    });
    let nodes: Vec<Drawn> = nodes.collect();
    let mut edges = Vec::new();
    for (to, node) in list.graph.iter().flat_map(|graph| &graph.nodes).enumerate() {
        let arrow = |sort: Sort, source: &Source| {
            let branch = source.branch.as_ref().map(ToString::to_string);
            Arrow { from: source.node, to, sort, branch, taken: None }
        };
        edges.extend(node.edges.iter().map(|source| arrow(Sort::Edge, source)));
        edges.extend(node.needs.iter().map(|source| arrow(Sort::Needs, source)));
        let waits = node.waits.iter();
        edges.extend(waits.map(|from| arrow(Sort::Waits, &Source { node: *from, branch: None })));
    }
    if list.graph.is_none() {
        let pairs = (1..nodes.len()).map(|to| (to - 1, to));
        let arrow = |(from, to)| Arrow { from, to, sort: Sort::Needs, branch: None, taken: None };
        edges.extend(pairs.map(arrow));
    }
    for edge in &mut edges {
        let over = |at: usize| nodes[at].status;
        edge.taken = over(edge.from)
            .zip(over(edge.to))
            .map(|(from, to)| from == Status::Completed && to != Status::Skipped);
    }
    Drawing { name: plan.workflow.name.to_string(), nodes, edges: distinct(edges) }
}

/// Of several arrows between two nodes that say the same, one: what is needed says more than what is waited for.
fn distinct(mut edges: Vec<Arrow>) -> Vec<Arrow> {
    edges.sort_by(|a, b| (a.to, a.from, &b.branch, a.sort).cmp(&(b.to, b.from, &a.branch, b.sort)));
    edges.dedup_by(|later, first| later.to == first.to && later.from == first.from && later.branch.is_none());
    edges
}
