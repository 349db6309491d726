//! A workflow or a run as a drawing of its steps or states, and that as SVG, without another program.

pub mod states;
mod states_svg;
mod svg;

use std::collections::BTreeSet;

use threadline_engine::event::{Address, Output};
use threadline_flow::model::Action;
use threadline_flow::plan::{List, NodeSource, Part, Plan};
use threadline_lang::Value;
use threadline_lang::diag::words;

use self::states::{LoopDrawing, TakenRoutes};
pub use self::svg::{DRAWING_STYLE, SvgUse};
use crate::error::InspectError;
use crate::history::History;
use crate::run_state::{RunState, Standing, StandingCounts};
use crate::timeline::RunTimeline;

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
    /// Its number in the file.
    pub number: String,
    /// The kind of its action.
    pub kind: &'static str,
    /// The list at the end of the run that it stands in, if it is none of the workflow's own steps.
    pub part: Option<Part>,
    /// How it stands, if a run is drawn.
    pub standing: Option<Standing>,
    /// How its items stand, if a run is drawn in which they are known.
    pub items: Option<StandingCounts>,
}

impl DrawnNode {
    /// The second line of a box that also says how the step ended.
    pub fn kind_and_end(&self) -> String {
        let standing = self.standing.filter(|standing| *standing != Standing::NotYet);
        let end = self.items_text().or_else(|| standing.map(|standing| standing.words().to_owned()));
        end.map_or_else(|| self.kind.to_owned(), |end| format!("{}, {end}", self.kind))
    }

    /// The second line of a box whose colour says how the step ended.
    pub fn kind_and_items(&self) -> String {
        self.items_text().map_or_else(|| self.kind.to_owned(), |items| format!("{}, {items}", self.kind))
    }

    /// How many of its items ended in which way: `998 of 1000 items, 2 failed`.
    pub fn items_text(&self) -> Option<String> {
        let counts = self.items?;
        let mut text =
            format!("{} of {}", counts.get(Standing::Completed), words::count(counts.total(), "item"));
        for standing in [Standing::Failed, Standing::Skipped, Standing::Running, Standing::Retrying] {
            let count = counts.get(standing);
            if count > 0 {
                text.extend([", ", &count.to_string(), " ", standing.words()]);
            }
        }
        Some(text)
    }

    /// How it ended, if it has.
    fn end(&self) -> Option<Standing> {
        let is_end = |standing: &Standing| {
            matches!(
                standing,
                Standing::Completed | Standing::Failed | Standing::Skipped | Standing::Cancelled
            )
        };
        self.standing.filter(is_end)
    }
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
            None => Self::Steps(of_plan(plan, None)),
        }
    }

    /// Draws a run as it is now.
    pub fn of_run(history: &History<'_>) -> Result<Self, InspectError> {
        let timeline = RunTimeline::read(history.reader, &history.info.id, &history.plan)?;
        Ok(Self::of_state(&timeline, &RunState::now(&timeline)))
    }

    /// Draws a run as it was after an event.
    pub fn of_state(timeline: &RunTimeline, state: &RunState<'_>) -> Self {
        let plan = &*timeline.plan;
        if plan.states.is_some() {
            let routes = TakenRoutes::after(timeline, state.until);
            return Self::Loop(states::drawing(plan, Some(&routes)));
        }
        Self::Steps(of_plan(plan, Some(state)))
    }

    /// The drawing as a file, which looks right in light and in dark.
    pub fn svg(&self) -> String {
        self.svg_in(SvgUse::File)
    }

    /// The drawing for a file or for a page.
    pub fn svg_in(&self, used: SvgUse) -> String {
        match self {
            Self::Steps(drawing) => svg::svg(drawing, used),
            Self::Loop(drawing) => states_svg::svg(drawing, used),
        }
    }
}

fn of_plan(plan: &Plan, state: Option<&RunState<'_>>) -> GraphDrawing {
    let list = &plan.lists[0];
    let drawn = |around: &Address, list: &List, at: usize, part: Option<Part>| {
        let planned = &plan.steps[list.steps[at] as usize];
        let kind = match &planned.step.action {
            Action::ForEach(each) if each.is_map => "map",
            action => action.name().key(),
        };
        let address = around.child(list, at);
        DrawnNode {
            label: planned.label.to_string(),
            number: planned.number.to_string(),
            kind,
            part,
            standing: state.map(|state| state.at(&address).standing),
            items: state.and_then(|state| state.items_of(&address)),
        }
    };
    let mut nodes: Vec<DrawnNode> =
        (0..list.steps.len()).map(|at| drawn(&Address::root(), list, at, None)).collect();
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
    let arrow = |(from, to)| DrawnEdge { from, to, sort: ArrowKind::Needs, branch: None, taken: None };
    if list.graph.is_none() {
        edges.extend((1..nodes.len()).map(|to| (to - 1, to)).map(arrow));
    }
    // The lists at the end of the run, below each other.
    for (part, number) in &plan.run_parts {
        let Some(of_part) = plan.lists.get(*number as usize) else { continue };
        let first = nodes.len();
        let around = Address::of_run(*part);
        nodes.extend((0..of_part.steps.len()).map(|at| drawn(&around, of_part, at, Some(*part))));
        edges.extend((first + 1..nodes.len()).map(|to| (to - 1, to)).map(arrow));
    }
    for edge in &mut edges {
        let over = |at: usize| nodes[at].end();
        edge.taken = over(edge.from)
            .zip(over(edge.to))
            .map(|(from, to)| from == Standing::Completed && to != Standing::Skipped);
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
            text.extend([", ", &count.to_string(), " ", word]);
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
