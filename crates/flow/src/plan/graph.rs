//! What the nodes of a graph wait for: edges, `needs`, and what they read.
//!
//! An edge is control: of all edges into a node one must be live. What a node needs or reads must have completed. What
//! it reads with a default, or only the meta data of, must be over.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Reference;
use threadline_lang::diag::{Span, nearest};

use super::check::{Checker, Reader};
use super::context::circles;
use super::{Graph, Node, Plan, Source, StepNumber};
use crate::checks::Check;
use crate::model::{Action, Shape};

/// The branches of a conditional.
const BRANCHES: [&str; 2] = ["true", "false"];

/// What one node waits for another for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// It must have completed.
    Needs,
    /// It must be over.
    Waits,
}

/// The node that each step belongs to, of a graph: itself, or the one around it.
pub(super) fn nodes(plan: &Plan) -> Vec<Option<usize>> {
    let mut nodes = vec![None; plan.steps.len()];
    if plan.lists[0].graph.is_none() {
        return nodes;
    }
    for (at, step) in plan.lists[0].steps.iter().enumerate() {
        nodes[*step as usize] = Some(at);
    }
    // A step stands behind the one it is a part of.
    for (at, planned) in plan.steps.iter().enumerate() {
        if let Some((owner, _)) = plan.lists[planned.list as usize].parent {
            nodes[at] = nodes[owner as usize];
        }
    }
    nodes
}

impl Checker<'_> {
    /// Notes that a node reads another. Whether that is all there is to say about the order of the two.
    pub(super) fn reads_node(&mut self, reader: Reader, made: StepNumber, reference: &Reference) -> bool {
        let Some(reading) = reader.step.and_then(|step| self.node(step)) else { return false };
        let Some(node) = self.node(made).filter(|node| *node != reading) else { return false };
        let link = if reference.guarded || reads_meta(reference) { Link::Waits } else { Link::Needs };
        self.links[reading].push((node, link));
        self.plan.lists[0].steps[node] == made
    }

    fn node(&self, step: StepNumber) -> Option<usize> {
        *self.nodes.get(step as usize)?
    }

    /// The graph with everything its nodes wait for.
    pub(super) fn graph(&mut self) -> Option<Graph> {
        let workflow = Arc::clone(&self.plan.workflow);
        let Shape::Graph { edges } = &workflow.shape else { return None };
        let count = self.plan.lists[0].steps.len();
        let mut nodes: Vec<Node> = (0..count).map(|_| Node::default()).collect();
        for edge in edges {
            let from = self.node_called(&edge.from.value, edge.from.origin.span);
            let to = self.node_called(&edge.to.value, edge.to.origin.span);
            let branch = edge.branch.as_ref();
            if let (Some(from), Some(branch)) = (from, branch) {
                self.is_branch(from, &branch.value, branch.origin.span);
            }
            if let (Some(from), Some(to)) = (from, to) {
                nodes[to]
                    .edges
                    .push(Source { node: from, branch: branch.map(|branch| branch.value.clone()) });
            }
        }
        let steps = self.plan.lists[0].steps.clone();
        for (at, number) in steps.iter().enumerate() {
            let step = Arc::clone(&self.plan.steps[*number as usize].step);
            for need in &step.needs {
                let Some(node) = self.node_called(&need.node, need.span) else { continue };
                if let Some(branch) = &need.branch {
                    self.is_branch(node, branch, need.span);
                }
                nodes[at].needs.push(Source { node, branch: need.branch.clone() });
            }
        }
        for (at, mut links) in std::mem::take(&mut self.links).into_iter().enumerate() {
            links.sort_unstable();
            links.dedup_by_key(|(node, _)| *node);
            for (node, link) in links {
                match link {
                    Link::Needs => nodes[at].needs.push(Source { node, branch: None }),
                    Link::Waits => nodes[at].waits.push(node),
                }
            }
        }
        self.cycles(&nodes, &steps);
        self.captured_once();
        for at in 0..count {
            for source in nodes[at].sources() {
                nodes[source].feeds.push(at);
            }
        }
        Some(Graph { nodes })
    }

    fn node_called(&mut self, id: &EcoString, span: Span) -> Option<usize> {
        let nodes = &self.plan.lists[0].steps;
        let id_of = |number: &StepNumber| self.plan.steps[*number as usize].step.id.as_ref();
        if let Some(found) = self.by_id.get(id) {
            return Some(*found);
        }
        let ids = nodes.iter().filter_map(id_of).map(|id| id.value.as_str());
        let problem = Check::UnknownNode.at(span, format!("there is no node `{id}`"));
        let problem = match nearest(id, ids) {
            Some(near) => problem.hint(format!("did you mean `{near}`")),
            None => problem,
        };
        self.problem(problem);
        None
    }

    /// A branch belongs to a conditional, and is one of two.
    fn is_branch(&mut self, node: usize, branch: &str, span: Span) {
        let step = &self.plan.steps[self.plan.lists[0].steps[node] as usize];
        if !matches!(step.step.action, Action::Condition(_)) {
            let message = format!("`{}` has no branches: only a `condition` has", step.label);
            self.problem(Check::UnknownBranch.at(span, message));
        } else if !BRANCHES.contains(&branch) {
            let message = format!("the branches of `{}` are `true` and `false`, not `{branch}`", step.label);
            self.problem(Check::UnknownBranch.at(span, message));
        }
    }

    /// Nodes that wait for each other.
    fn cycles(&mut self, nodes: &[Node], steps: &[StepNumber]) {
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

    /// Which of two nodes a name comes from would depend on which is faster. Names of items are their own.
    fn captured_once(&mut self) {
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
                let message = format!("`{}` is captured by {} already", capture.value, self.title(by));
                let hint = "nodes run side by side: choose another name, or read them by their ids";
                self.problem(Check::DuplicateName.at(capture.origin.span, message).hint(hint));
            }
        }
    }
}

impl Node {
    /// Every node it waits for, each once.
    pub fn sources(&self) -> impl Iterator<Item = usize> + use<> {
        let hard = self.edges.iter().chain(&self.needs).map(|source| source.node);
        let mut all: Vec<usize> = hard.chain(self.waits.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

/// Whether a reference reads nothing but how a node went.
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
