//! `threadline graph`: draws a workflow or a run as text, Mermaid, Graphviz or SVG, without another program.

mod states;
mod states_svg;
mod svg;
mod text;

pub(super) use self::states::TakenRoutes;

use std::collections::BTreeMap;
use std::path::Path;

use threadline_engine::event::Status;
use threadline_engine::replay::output_of;
use threadline_flow::model::Action;
use threadline_flow::plan::{NodeSource, Plan};

use super::history::{History, reader};
use super::{print, print_styled};
use crate::arguments::{GraphArguments, GraphFormat};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{plan_file, problem_reports};
use crate::reporter::{counts_of, is_map};

/// A drawing of the steps of a workflow and of what each waits for.
pub(super) struct GraphDrawing {
    pub(super) name: String,
    pub(super) nodes: Vec<DrawnNode>,
    pub(super) edges: Vec<DrawnEdge>,
}

/// A step in a drawing.
pub(super) struct DrawnNode {
    pub(super) label: String,
    /// The kind of its action.
    pub(super) kind: &'static str,
    /// How it ended, if a run is drawn.
    pub(super) status: Option<Status>,
    /// How many of its items ended in which way, if a run is drawn in which a map has ended.
    pub(super) items: Option<String>,
}

impl DrawnNode {
    /// The second line of a box that also says how the step ended. The colour of a map says it.
    pub(super) fn kind_and_end(&self) -> String {
        let end = self.items.as_deref().or(self.status.map(Status::name));
        end.map_or_else(|| self.kind.to_owned(), |end| format!("{}, {end}", self.kind))
    }

    /// The second line of a box whose colour says how the step ended.
    pub(super) fn kind_and_items(&self) -> String {
        self.items.as_ref().map_or_else(|| self.kind.to_owned(), |items| format!("{}, {items}", self.kind))
    }
}

/// How a step of a run ended.
struct StepEnd {
    status: Status,
    items: Option<String>,
}

/// An arrow from one step to another.
pub(super) struct DrawnEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sort: ArrowKind,
    /// The branch of a condition that the arrow belongs to.
    pub(super) branch: Option<String>,
    /// Whether it was taken, if a run is drawn in which both steps have ended.
    pub(super) taken: Option<bool>,
}

/// The meaning of an arrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowKind {
    /// The first step must have completed.
    Needs,
    /// One of several edges.
    Edge,
    /// The first step must have ended.
    Waits,
}

pub(crate) fn graph(call: &GraphArguments) -> Result<(), CommandFailure> {
    let picture = picture(call)?;
    match (&picture, call.format) {
        (Picture::Steps(drawing), GraphFormat::Text) => print_styled(&text::text(drawing)),
        (Picture::Steps(drawing), GraphFormat::Mermaid) => print_styled(&text::mermaid(drawing)),
        (Picture::Steps(drawing), GraphFormat::Dot) => print_styled(&text::dot(drawing)),
        (Picture::Steps(drawing), GraphFormat::Svg) => print(&svg::svg(drawing)),
        (Picture::Loop(drawing), GraphFormat::Text) => print_styled(&drawing.text()),
        (Picture::Loop(drawing), GraphFormat::Mermaid) => print_styled(&drawing.mermaid()),
        (Picture::Loop(drawing), GraphFormat::Dot) => print_styled(&drawing.dot()),
        (Picture::Loop(drawing), GraphFormat::Svg) => print(&states_svg::svg(drawing)),
    }
}

/// A drawing of a workflow.
enum Picture {
    /// The steps, and what each waits for.
    Steps(GraphDrawing),
    /// The states, and where each leads.
    Loop(states::LoopDrawing),
}

/// Draws a file if there is one of this name, otherwise a run.
fn picture(call: &GraphArguments) -> Result<Picture, CommandFailure> {
    let path = Path::new(&call.what);
    if call.what == "-" || path.is_file() {
        let file = inputs::read_workflow(path)?;
        let (planned, problems) = plan_file(&file);
        let planned = planned.ok_or_else(|| CommandFailure::NotStarted(problem_reports(&file, &problems)))?;
        return Ok(match planned.states {
            Some(_) => Picture::Loop(states::drawing(&planned, None)),
            None => Picture::Steps(of_plan(&planned, &BTreeMap::new())),
        });
    }
    let reader = reader(call.dir.as_deref())?;
    let history = History::open(&reader, &call.what)?;
    if let Some(drawing) = draw_loop(&history)? {
        return Ok(Picture::Loop(drawing));
    }
    let mut ends: BTreeMap<usize, StepEnd> = BTreeMap::new();
    history.each(|_, event| {
        let is_step = event.at.outermost().is_some_and(|step| step == event.at);
        let position = event.at.outermost_position(&history.plan).filter(|_| is_step);
        if let (Some(position), Some(output)) = (position, output_of(event)) {
            let step = event.at.step(&history.plan).map(|step| &history.plan.steps[step as usize].step);
            let is_map = step.is_some_and(|step| is_map(&step.action));
            ends.insert(
                position,
                StepEnd { status: output.status, items: is_map.then(|| counts_of(output)) },
            );
        }
        Ok(())
    })?;
    Ok(Picture::Steps(of_plan(&history.plan, &ends)))
}

/// Draws the states of a run and the routes it took, if it is the run of a loop.
fn draw_loop(history: &History<'_>) -> Result<Option<states::LoopDrawing>, CommandFailure> {
    if history.plan.states.is_none() {
        return Ok(None);
    }
    let mut path = TakenRoutes::default();
    history.each(|_, event| {
        path.take(&history.plan, event);
        Ok(())
    })?;
    Ok(Some(states::drawing(&history.plan, Some(&path))))
}

/// The states of a run as text with the routes it took, if it is the run of a loop.
pub(super) fn loop_text(plan: &Plan, path: &TakenRoutes) -> Option<String> {
    plan.states.as_ref().map(|_| states::drawing(plan, Some(path)).text())
}

fn of_plan(plan: &Plan, ends: &BTreeMap<usize, StepEnd>) -> GraphDrawing {
    let list = &plan.lists[0];
    let nodes = list.steps.iter().enumerate().map(|(at, number)| {
        let planned = &plan.steps[*number as usize];
        let end = ends.get(&at);
        let kind = match &planned.step.action {
            Action::ForEach(each) if each.is_map => "map",
            action => action.name().key(),
        };
        DrawnNode {
            label: planned.label.to_string(),
            kind,
            status: end.map(|end| end.status),
            items: end.and_then(|end| end.items.clone()),
        }
    });
    let nodes: Vec<DrawnNode> = nodes.collect();
    let mut edges = Vec::new();
    for (to, node) in list.graph.iter().flat_map(|graph| &graph.nodes).enumerate() {
        let arrow = |sort: ArrowKind, source: &NodeSource| {
            let branch = source.branch.as_ref().map(ToString::to_string);
            DrawnEdge { from: source.node, to, sort, branch, taken: None }
        };
        edges.extend(node.edges.iter().map(|source| arrow(ArrowKind::Edge, source)));
        edges.extend(node.needs.iter().map(|source| arrow(ArrowKind::Needs, source)));
        let waits = node.waits.iter();
        edges.extend(waits.map(|from| arrow(ArrowKind::Waits, &NodeSource { node: *from, branch: None })));
    }
    if list.graph.is_none() {
        let pairs = (1..nodes.len()).map(|to| (to - 1, to));
        let arrow = |(from, to)| DrawnEdge { from, to, sort: ArrowKind::Needs, branch: None, taken: None };
        edges.extend(pairs.map(arrow));
    }
    for edge in &mut edges {
        let over = |at: usize| nodes[at].status;
        edge.taken = over(edge.from)
            .zip(over(edge.to))
            .map(|(from, to)| from == Status::Completed && to != Status::Skipped);
    }
    GraphDrawing { name: plan.workflow.name.to_string(), nodes, edges: distinct(edges) }
}

/// Removes duplicate arrows between two nodes: a `needs` says more than a wait.
fn distinct(mut edges: Vec<DrawnEdge>) -> Vec<DrawnEdge> {
    edges.sort_by(|a, b| (a.to, a.from, &b.branch, a.sort).cmp(&(b.to, b.from, &a.branch, b.sort)));
    edges.dedup_by(|later, first| later.to == first.to && later.from == first.from && later.branch.is_none());
    edges
}
