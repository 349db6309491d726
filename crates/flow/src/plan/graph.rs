//! The dependencies of the nodes of a graph: edges, `needs`, and the nodes that they read.
//!
//! Of all edges into a node, at least one must be live. The nodes that it needs or reads must have completed.
//! Those that it reads with a default, or only the metadata of, must be over.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Span, nearest};

use super::check::{Checker, Reader};
use super::context::circles;
use super::{Graph, Node, NodeSource, Plan, StepNumber};
use crate::checks::Check;
use crate::model::{Action, Shape};
use crate::problem::Problem;

/// The branches of a conditional node.
const BRANCHES: [&str; 2] = ["true", "false"];

/// How one node depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeDependency {
    /// The other node must have completed.
    Needs,
    /// The other node must be over: completed, failed or skipped.
    Waits,
}

/// The node of a graph that each step belongs to: the step itself, or the one around it.
pub(super) fn nodes(plan: &Plan) -> Vec<Option<usize>> {
    let mut nodes = vec![None; plan.steps.len()];
    if plan.lists[0].graph.is_none() {
        return nodes;
    }
    for (at, step) in plan.lists[0].steps.iter().enumerate() {
        nodes[*step as usize] = Some(at);
    }
    // A step is numbered after the one that contains it.
    for (at, planned) in plan.steps.iter().enumerate() {
        if let Some((owner, _)) = plan.lists[planned.list as usize].parent {
            nodes[at] = nodes[owner as usize];
        }
    }
    nodes
}

impl Checker<'_> {
    /// Notes that a node reads another one. Returns whether that decides the order of the two.
    pub(super) fn reads_node(&mut self, reader: Reader, made: StepNumber, reference: &Reference) -> bool {
        let Some(reading) = reader.step.and_then(|step| self.node(step)) else { return false };
        let Some(node) = self.node(made).filter(|node| *node != reading) else { return false };
        let link = if reference.guarded || reads_meta(reference) {
            NodeDependency::Waits
        } else {
            NodeDependency::Needs
        };
        self.links[reading].push((node, link));
        self.plan.lists[0].steps[node] == made
    }

    fn node(&self, step: StepNumber) -> Option<usize> {
        *self.nodes.get(step as usize)?
    }

    /// The graph with the dependencies of every node.
    pub(super) fn graph(&mut self) -> Option<Graph> {
        let workflow = Arc::clone(&self.plan.workflow);
        let Shape::Graph { edges } = &workflow.shape else { return None };
        let count = self.plan.lists[0].steps.len();
        let mut nodes: Vec<Node> = (0..count).map(|_| Node::default()).collect();
        for edge in edges {
            let from = self.find_node(&edge.from.value, edge.from.origin.span);
            let to = self.find_node(&edge.to.value, edge.to.origin.span);
            let branch = edge.branch.as_ref();
            if let (Some(from), Some(branch)) = (from, branch) {
                self.check_branch(from, &branch.value, branch.origin.span);
            }
            if let (Some(from), Some(to)) = (from, to) {
                nodes[to]
                    .edges
                    .push(NodeSource { node: from, branch: branch.map(|branch| branch.value.clone()) });
            }
        }
        let steps = self.plan.lists[0].steps.clone();
        for (at, number) in steps.iter().enumerate() {
            let step = Arc::clone(&self.plan.steps[*number as usize].step);
            for need in &step.needs {
                let Some(node) = self.find_node(&need.node, need.span) else { continue };
                if let Some(branch) = &need.branch {
                    self.check_branch(node, branch, need.span);
                }
                nodes[at].needs.push(NodeSource { node, branch: need.branch.clone() });
            }
        }
        for (at, mut links) in std::mem::take(&mut self.links).into_iter().enumerate() {
            links.sort_unstable();
            links.dedup_by_key(|(node, _)| *node);
            for (node, link) in links {
                match link {
                    NodeDependency::Needs => nodes[at].needs.push(NodeSource { node, branch: None }),
                    NodeDependency::Waits => nodes[at].waits.push(node),
                }
            }
        }
        self.report_cycles(&nodes, &steps);
        self.report_shared_captures();
        for at in 0..count {
            for source in nodes[at].sources() {
                nodes[source].feeds.push(at);
            }
        }
        Some(Graph { nodes })
    }

    fn find_node(&mut self, id: &EcoString, span: Span) -> Option<usize> {
        let nodes = &self.plan.lists[0].steps;
        let id_of = |number: &StepNumber| self.plan.steps[*number as usize].step.id.as_ref();
        if let Some(found) = self.by_id.get(id) {
            return Some(*found);
        }
        let ids = nodes.iter().filter_map(id_of).map(|id| id.value.as_str());
        let problem = Check::UnknownNode.at(span, format!("unknown node `{id}`"));
        let near = nearest(id, ids);
        self.problem(near.into_iter().fold(problem, Problem::did_you_mean));
        None
    }

    /// Checks that a node is conditional and has a branch.
    fn check_branch(&mut self, node: usize, branch: &str, span: Span) {
        let step = &self.plan.steps[self.plan.lists[0].steps[node] as usize];
        if !matches!(step.step.action, Action::Condition(_)) {
            let message = format!("`{}` has no branches; only a `condition` has them", step.label);
            self.problem(Check::UnknownBranch.at(span, message));
        } else if !BRANCHES.contains(&branch) {
            let message = format!("the branches of `{}` are `true` and `false`, not `{branch}`", step.label);
            self.problem(Check::UnknownBranch.at(span, message));
        }
    }

    /// Reports nodes that wait for each other.
    fn report_cycles(&mut self, nodes: &[Node], steps: &[StepNumber]) {
        let needs: Vec<Vec<usize>> = nodes.iter().map(|node| node.sources().collect()).collect();
        for circle in circles(&needs) {
            let label = |at: &usize| self.plan.steps[steps[*at] as usize].label.as_str();
            let chain: Vec<&str> = circle.iter().chain(circle.first()).map(label).collect();
            let message = match &chain[..] {
                [itself, _] => format!("`{itself}` waits for itself"),
                chain => format!("nodes wait for each other: {}", chain.join(" → ")),
            };
            let step = &self.plan.steps[steps[circle[0]] as usize].step;
            let span = step.id.as_ref().map_or(step.origin.span, |id| id.origin.span);
            self.problem(Check::GraphCycle.at(span, message));
        }
    }

    /// Reports names that two nodes capture: the value would depend on which node is faster. Items have their
    /// own scope.
    fn report_shared_captures(&mut self) {
        let mut seen = std::collections::BTreeMap::new();
        for at in 0..self.plan.steps.len() {
            let number = super::number::count(at);
            let planned = &self.plan.steps[at];
            let (Some(node), Some(capture)) = (self.nodes[at], planned.step.capture.clone()) else {
                continue;
            };
            if self.names.of(planned.list) != 0 {
                continue;
            }
            let (first, by) = *seen.entry(capture.value.clone()).or_insert((node, number));
            if first != node {
                let message = format!("`{}` is already captured by {}", capture.value, self.title(by));
                let hint = "nodes run in parallel: choose another name, or read the nodes by their ids";
                self.problem(Check::DuplicateName.at(capture.origin.span, message).hint(hint));
            }
        }
    }
}

impl Node {
    /// Every node that it waits for, without duplicates.
    pub fn sources(&self) -> impl Iterator<Item = usize> + use<> {
        let hard = self.edges.iter().chain(&self.needs).map(|source| source.node);
        let mut all: Vec<usize> = hard.chain(self.waits.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

/// Whether a reference reads only metadata of a node.
fn reads_meta(reference: &Reference) -> bool {
    let path = reference.path.as_str();
    let rest = match reference.root.as_str() {
        "nodes" | "captured" => path.split_once(']').map_or(path, |(_, rest)| rest),
        root => path.strip_prefix(root).unwrap_or(path),
    };
    let rest = rest.trim_start_matches('.');
    let name = rest.split(['.', '[', '|', ' ']).next().unwrap_or_default();
    matches!(name, "meta" | "status" | "state" | "duration_ms")
}
