//! A workflow or a run as a drawing of its steps or states, and that as SVG, without another program.

pub mod states;
mod states_svg;
mod svg;

use std::collections::{BTreeMap, BTreeSet};

use threadline_engine::event::{Output, Status};
use threadline_engine::replay::output_of;
use threadline_flow::model::Action;
use threadline_flow::plan::{NodeSource, Plan};
use threadline_lang::Value;
use threadline_lang::diag::words;

use self::states::{LoopDrawing, TakenRoutes};
use crate::error::InspectError;
use crate::history::History;

/// A drawing of the steps of a workflow and of what each waits for.
pub struct GraphDrawing {
    /// The name of the workflow.
    pub name: String,
    /// The steps, in the order of the file.
    pub nodes: Vec<DrawnNode>,
    /// The arrows.
    pub edges: Vec<DrawnEdge>,
}

/// A step in a drawing.
pub struct DrawnNode {
    /// The label of the step.
    pub label: String,
    /// The kind of its action.
    pub kind: &'static str,
    /// How it ended, if a run is drawn.
    pub status: Option<Status>,
    /// How many of its items ended in which way, if a run is drawn in which a map has ended.
    pub items: Option<String>,
}

impl DrawnNode {
    /// The second line of a box that also says how the step ended. The colour of a map says it.
    pub fn kind_and_end(&self) -> String {
        let end = self.items.as_deref().or(self.status.map(Status::name));
        end.map_or_else(|| self.kind.to_owned(), |end| format!("{}, {end}", self.kind))
    }

    /// The second line of a box whose colour says how the step ended.
    pub fn kind_and_items(&self) -> String {
        self.items.as_ref().map_or_else(|| self.kind.to_owned(), |items| format!("{}, {items}", self.kind))
    }
}

/// How a step of a run ended.
struct StepEnd {
    status: Status,
    items: Option<String>,
}

/// An arrow from one step to another.
pub struct DrawnEdge {
    /// The step that it leaves, by its place among the nodes.
    pub from: usize,
    /// The step that it leads to.
    pub to: usize,
    /// What it means.
    pub sort: ArrowKind,
    /// The branch of a condition that the arrow belongs to.
    pub branch: Option<String>,
    /// Whether it was taken, if a run is drawn in which both steps have ended.
    pub taken: Option<bool>,
}

/// The meaning of an arrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArrowKind {
    /// The first step must have completed.
    Needs,
    /// One of several edges.
    Edge,
    /// The first step must have ended.
    Waits,
}

/// A drawing of a workflow.
pub enum WorkflowDrawing {
    /// The steps, and what each waits for.
    Steps(GraphDrawing),
    /// The states, and where each leads.
    Loop(LoopDrawing),
}

impl WorkflowDrawing {
    /// Draws a workflow of which nothing runs.
    pub fn of_plan(plan: &Plan) -> Self {
        match plan.states {
            Some(_) => Self::Loop(states::drawing(plan, None)),
            None => Self::Steps(of_plan(plan, &BTreeMap::new())),
        }
    }

    /// Draws a run.
    pub fn of_run(history: &History<'_>) -> Result<Self, InspectError> {
        if history.plan.states.is_some() {
            let mut path = TakenRoutes::default();
            history.each(|_, event| {
                path.take(&history.plan, event);
                Ok(())
            })?;
            return Ok(Self::Loop(states::drawing(&history.plan, Some(&path))));
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
        Ok(Self::Steps(of_plan(&history.plan, &ends)))
    }

    /// The drawing as SVG.
    pub fn svg(&self) -> String {
        match self {
            Self::Steps(drawing) => svg::svg(drawing),
            Self::Loop(drawing) => states_svg::svg(drawing),
        }
    }
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

/// Whether an action is a map.
pub fn is_map(action: &Action) -> bool {
    matches!(action, Action::ForEach(each) if each.is_map)
}

/// The number of items that ended in each way: `998 of 1000 items, 2 failed`.
pub fn counts_of(output: &Output) -> String {
    let count = |name: &str| output.meta.get(name).and_then(Value::as_i64).unwrap_or(0);
    let (total, failed, skipped) = (count("total"), count("failed"), count("skipped"));
    let mut text = format!("{} of {}", count("successful"), words::count(total, "item"));
    for (count, word) in [(failed, "failed"), (skipped, "skipped")] {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    text
}

/// The nodes, each after those that it waits for, otherwise in the order of the file.
pub fn order(drawing: &GraphDrawing) -> Vec<usize> {
    let mut pending = vec![0_usize; drawing.nodes.len()];
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); drawing.nodes.len()];
    for edge in &drawing.edges {
        pending[edge.to] += 1;
        feeds[edge.from].push(edge.to);
    }
    let mut ready: BTreeSet<usize> = (0..pending.len()).filter(|at| pending[*at] == 0).collect();
    let mut order = Vec::with_capacity(pending.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for next in &feeds[at] {
            pending[*next] -= 1;
            if pending[*next] == 0 {
                ready.insert(*next);
            }
        }
    }
    order
}
