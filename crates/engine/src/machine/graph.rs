//! Nodes of a graph: each begins when everything it waits for is over, or is skipped for a reason.
//!
//! | what it waits for | it begins when |
//! |---|---|
//! | edges into it | all are settled, and one is live: its node completed, by the branch of the edge where it has one |
//! | nodes it needs or reads | every one has completed, by the branch where one is named |
//! | nodes it reads with a default, or only the meta data of | every one is over |
//!
//! An edge from a node that failed is live when that node has `continue_on_error`. What cannot begin is
//! skipped, with the first reason; who waits for it sees that it is over.

use std::collections::BTreeMap;

use ecow::{EcoString, eco_format};
use threadline_flow::plan::{Graph, NodeSource, Part, Plan, StepNumber};

use super::{Applied, Machine, Mismatch, ScopeNames, StepStage, find, find_mut};
use crate::event::{Address, Seq};

/// Where the nodes of a graph are.
pub(super) struct GraphState {
    states: Vec<NodeStage>,
    /// How many nodes each still waits for.
    pending: Vec<usize>,
    /// How many are not over.
    open: usize,
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeStage {
    Waiting,
    /// It has begun.
    Begun,
    /// It is over.
    Over(NodeEnd),
}

/// How a node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeEnd {
    /// Well, by this branch when it is a conditional.
    Completed(Option<EcoString>),
    /// Not well; whether what comes behind it goes on all the same.
    Failed { goes_on: bool },
    /// It did not run; whether because another failed.
    Skipped {
        /// Then it may run when that one is tried again.
        by_failure: bool,
    },
}

impl GraphState {
    fn new(graph: &Graph) -> Self {
        let count = graph.nodes.len();
        let pending = graph.nodes.iter().map(|node| node.sources().count()).collect();
        Self { states: vec![NodeStage::Waiting; count], pending, open: count }
    }

    /// Whether a failure of one of them makes the graph fail.
    fn failed(&self) -> bool {
        self.states.iter().any(|state| matches!(state, NodeStage::Over(NodeEnd::Failed { goes_on: false })))
    }
}

/// Why a node cannot begin.
struct Refused {
    reason: EcoString,
    by_failure: bool,
}

impl Machine {
    /// Begins a graph: every node that waits for nothing.
    pub(super) fn open_graph(&mut self, frame_at: &Address) -> Applied {
        let plan = self.plan.clone();
        let frame = find_mut(&mut self.frames, frame_at)?;
        let graph = graph_of(&plan, frame.list)?;
        let nodes = GraphState::new(graph);
        let ready: Vec<usize> = (0..nodes.pending.len()).filter(|at| nodes.pending[*at] == 0).collect();
        let empty = nodes.open == 0;
        frame.nodes = Some(nodes);
        for at in ready {
            self.settle_node(frame_at, at)?;
        }
        if empty { self.list_done(frame_at, true) } else { Ok(()) }
    }

    /// A node waits for nothing any more: it begins, or is skipped.
    fn settle_node(&mut self, frame_at: &Address, at: usize) -> Applied {
        let refused = self.refused(frame_at, at)?;
        let frame = find_mut(&mut self.frames, frame_at)?;
        let nodes = frame.nodes_mut()?;
        nodes.states[at] = NodeStage::Begun;
        let list = frame.list;
        let step = self.plan.lists[list as usize].steps[at];
        let instance = frame_at.child(&self.plan.lists[list as usize], at);
        // One that failed has begun already, so nothing refuses it.
        if self.active.contains_key(&instance) {
            return self.reopen_step(&instance);
        }
        match refused {
            None => self.begin_step(frame_at, &instance, step),
            Some(Refused { reason, by_failure }) => {
                let stage = StepStage::Skipping { by_failure };
                self.insert_active(frame_at, &instance, step, stage);
                find_mut(&mut self.active, &instance)?.reason = Some(reason);
                self.command(&instance)
            }
        }
    }

    /// Why a node cannot begin, when it cannot.
    fn refused(&self, frame_at: &Address, at: usize) -> Applied<Option<Refused>> {
        let frame = find(&self.frames, frame_at)?;
        let nodes = frame.nodes()?;
        let node = &graph_of(&self.plan, frame.list)?.nodes[at];
        let mut unmet = node.needs.iter().map(|source| self.unmet_need(frame.list, nodes, source));
        if let Some(refused) = unmet.find_map(|unmet| unmet) {
            return Ok(Some(refused));
        }
        let dead = node.edges.iter().map(|source| self.dead_edge(frame.list, nodes, source));
        // One edge that is live is enough.
        let Some(reasons) = dead.collect::<Option<Vec<Refused>>>() else { return Ok(None) };
        let by_failure = reasons.iter().any(|refused| refused.by_failure);
        Ok(reasons.into_iter().next().map(|refused| Refused { by_failure, ..refused }))
    }

    fn unmet_need(&self, list: u32, nodes: &GraphState, source: &NodeSource) -> Option<Refused> {
        let name = self.node_label(list, source.node);
        let NodeStage::Over(over) = &nodes.states[source.node] else { return None };
        match over {
            NodeEnd::Completed(branch) => other_branch(&name, branch.as_ref(), source),
            // What goes on after its failure is not tried again.
            NodeEnd::Failed { goes_on } => {
                Some(Refused { reason: eco_format!("`{name}` failed"), by_failure: !goes_on })
            }
            NodeEnd::Skipped { by_failure } => {
                Some(Refused { reason: eco_format!("`{name}` was skipped"), by_failure: *by_failure })
            }
        }
    }

    fn dead_edge(&self, list: u32, nodes: &GraphState, source: &NodeSource) -> Option<Refused> {
        match &nodes.states[source.node] {
            NodeStage::Over(NodeEnd::Failed { goes_on: true }) if source.branch.is_none() => None,
            _ => self.unmet_need(list, nodes, source),
        }
    }

    fn node_label(&self, list: u32, at: usize) -> EcoString {
        let step = self.plan.lists[list as usize].steps[at];
        self.plan.steps[step as usize].label.clone()
    }

    /// A node is over: whoever waited for it may begin.
    pub(super) fn node_over(&mut self, frame_at: &Address, at: usize, over: NodeEnd) -> Applied {
        let plan = self.plan.clone();
        let frame = find_mut(&mut self.frames, frame_at)?;
        let graph = graph_of(&plan, frame.list)?;
        let nodes = frame.nodes_mut()?;
        nodes.states[at] = NodeStage::Over(over);
        nodes.open = nodes.open.saturating_sub(1);
        let mut ready = Vec::new();
        for &next in &graph.nodes[at].feeds {
            nodes.pending[next] = nodes.pending[next].saturating_sub(1);
            if nodes.pending[next] == 0 && nodes.states[next] == NodeStage::Waiting {
                ready.push(next);
            }
        }
        if nodes.open == 0 {
            let succeeded = !nodes.failed();
            return self.list_done(frame_at, succeeded);
        }
        for next in ready {
            self.settle_node(frame_at, next)?;
        }
        Ok(())
    }

    /// A graph that failed goes on with the nodes that failed, and those that were skipped because of them.
    pub(super) fn reopen_graph(&mut self, frame_at: &Address) -> Applied {
        let plan = self.plan.clone();
        let frame = find_mut(&mut self.frames, frame_at)?;
        let graph = graph_of(&plan, frame.list)?;
        let scope = frame.scope.clone();
        let nodes = frame.nodes_mut()?;
        let mut again = Vec::new();
        for (at, state) in nodes.states.iter_mut().enumerate() {
            let once_more = [NodeEnd::Failed { goes_on: false }, NodeEnd::Skipped { by_failure: true }];
            if matches!(state, NodeStage::Over(over) if once_more.contains(over)) {
                *state = NodeStage::Waiting;
                again.push(at);
            }
        }
        nodes.open = again.len();
        for &at in &again {
            let open = |source: &usize| !matches!(nodes.states[*source], NodeStage::Over(_));
            nodes.pending[at] = graph.nodes[at].sources().filter(open).count();
        }
        let ready: Vec<usize> = again.iter().copied().filter(|at| nodes.pending[*at] == 0).collect();
        let list = frame.list;
        for at in again {
            // A node that did well, and whose list failed, stays as it is.
            let instance = frame_at.child(&plan.lists[list as usize], at);
            let has_succeeded = self.active.get(&instance).is_some_and(|active| active.succeeded);
            if !has_succeeded {
                let scope = find_mut(&mut self.scopes, &scope)?;
                let step = plan.lists[list as usize].steps[at];
                own_names(&plan, step, &mut |name, kind| {
                    kind.of(&mut scope.names).remove(name);
                });
            }
        }
        for at in ready {
            self.settle_node(frame_at, at)?;
        }
        Ok(())
    }

    /// The position of an execution in its graph; nothing for one of a list.
    pub(super) fn in_graph(&self, frame: &Address, at: &Address) -> Option<usize> {
        self.frames.get(frame)?.nodes.as_ref()?;
        at.position()
    }
}

fn graph_of(plan: &Plan, list: u32) -> Applied<&Graph> {
    let graph = plan.lists[list as usize].graph.as_ref();
    graph.ok_or_else(|| Mismatch::new("the list is no graph".to_owned()))
}

/// Why a node that needs a branch cannot begin, when another was taken.
fn other_branch(name: &str, taken: Option<&EcoString>, source: &NodeSource) -> Option<Refused> {
    let wanted = source.branch.as_ref()?;
    if taken == Some(wanted) {
        return None;
    }
    let reason = eco_format!("branch `{wanted}` of `{name}` was not taken");
    Some(Refused { reason, by_failure: false })
}

/// What a name was set with.
#[derive(Clone, Copy)]
enum NameKind {
    Id,
    Capture,
}

impl NameKind {
    fn of(self, names: &mut ScopeNames) -> &mut BTreeMap<EcoString, Seq> {
        match self {
            Self::Id => &mut names.outputs,
            Self::Capture => &mut names.captured,
        }
    }
}

/// The names that are kept with a step, to be put back when it is done again. Nodes share a scope and run
/// side by side, so inside a node they are the node's own; elsewhere all of the scope.
pub(super) fn names_with(plan: &Plan, scope: &Address, at: &Address, names: &ScopeNames) -> ScopeNames {
    let Some(node) = node_around(plan, scope, at) else { return names.clone() };
    let mut own = ScopeNames::default();
    own_names(plan, node, &mut |name, kind| {
        let set = match kind {
            NameKind::Id => names.outputs.get(name),
            NameKind::Capture => names.captured.get(name),
        };
        kind.of(&mut own).extend(set.map(|seq| (name.clone(), *seq)));
    });
    own
}

/// Puts names back that were kept with a step: what is done again does not see what it left the first time.
pub(super) fn put_back(
    plan: &Plan,
    scope: &Address,
    at: &Address,
    names: &mut ScopeNames,
    mut kept: ScopeNames,
) {
    let Some(node) = node_around(plan, scope, at) else {
        *names = kept;
        return;
    };
    own_names(plan, node, &mut |name, kind| {
        kind.of(names).remove(name);
    });
    names.outputs.append(&mut kept.outputs);
    names.captured.append(&mut kept.captured);
}

/// The node that an execution with the names of the run is inside of.
fn node_around(plan: &Plan, scope: &Address, at: &Address) -> Option<StepNumber> {
    plan.lists[0].graph.as_ref().filter(|_| scope.is_root())?;
    plan.lists[0].steps.get(at.outermost_position(plan)?).copied()
}

/// Every name that a step and its lists set. Names of items are gone with them.
fn own_names(plan: &Plan, step: StepNumber, tell: &mut impl FnMut(&EcoString, NameKind)) {
    let planned = &plan.steps[step as usize].step;
    if let Some(id) = &planned.id {
        tell(&id.value, NameKind::Id);
    }
    if let Some(capture) = &planned.capture {
        tell(&capture.value, NameKind::Capture);
    }
    let lists = Part::BESIDE.map(|part| plan.part(step, part));
    for list in lists.into_iter().flatten() {
        for inner in &plan.lists[list as usize].steps {
            own_names(plan, *inner, tell);
        }
    }
}
