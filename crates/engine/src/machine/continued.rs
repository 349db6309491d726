//! A run that continues another one: whether the result of that run may stand for an execution.
//!
//! Who reads what has changed is found by comparing resolved fields, which is not the machine's business. What
//! no field tells stands here:
//!
//! | what | is kept |
//! |---|---|
//! | `on_success`, `on_failure` and `finally` of a step | beside a result that was kept |
//! | `on_success`, `on_failure` and `finally` of the workflow | as long as nothing was done |
//! | states of a loop | as long as nothing was done |
//! | the stop of a loop at a limit | never: it goes on from there, and counts anew |
//! | what follows a step that is to be done again | never |
//!
//! What follows a step: all that comes behind it in its list and in the lists around it, and the nodes of a graph
//! that wait for it.

use std::collections::{BTreeMap, BTreeSet};

use threadline_flow::plan::{Graph, Part};

use super::{ListFrame, Machine};
use crate::event::{Address, Continued, RerunTarget};

/// What may be kept of an earlier run.
pub(super) struct Continuation {
    /// What is done again, with all that follows.
    from: Vec<RerunTarget>,
    keeps_commits: bool,
    /// The number of states up to which no limit stops the loop.
    stopped_after: Option<u64>,
    /// Whether anything was done in this run.
    has_acted: bool,
    /// The steps that were to be done again and were, by their lists and positions.
    again: BTreeMap<Address, BTreeSet<usize>>,
}

impl Continuation {
    pub(super) fn new(of: &Continued) -> Self {
        let (from, keeps_commits, stopped_after) = (of.from.clone(), of.keeps_commits, of.stopped_after);
        Self { from, keeps_commits, stopped_after, has_acted: false, again: BTreeMap::new() }
    }
}

impl Machine {
    /// Something is done, and not kept.
    pub(super) fn acted(&mut self, at: &Address) {
        let Some(continuation) = &self.continuation else { return };
        let marks = if self.is_target(&continuation.from, at) { self.places(at) } else { Vec::new() };
        for around in at.lineage() {
            if let Some(active) = self.active.get_mut(&around) {
                active.has_acted = true;
            }
            if let Some(item) = self.items.get_mut(&around) {
                item.has_acted = true;
            }
        }
        let Some(continuation) = &mut self.continuation else { return };
        continuation.has_acted = true;
        for (list, position) in marks {
            continuation.again.entry(list).or_default().insert(position);
        }
    }

    /// Whether the states of the loop are those of an earlier run until now.
    pub(super) fn keeps_loop(&self) -> bool {
        self.continuation.as_ref().is_some_and(|continuation| !continuation.has_acted)
    }

    /// Whether the loop goes on behind so many states whatever its limits are: the earlier run had come as far when a
    /// limit stopped it, and whoever continues it wants it to go on.
    pub(super) fn passes_limits(&self, states: u64) -> bool {
        let stopped_after = self.continuation.as_ref().and_then(|continuation| continuation.stopped_after);
        self.keeps_loop() && stopped_after.is_some_and(|last| states <= last)
    }

    /// Whether the result of an earlier run may stand for an execution.
    pub(super) fn may_keep(&self, at: &Address) -> bool {
        let Some(continuation) = &self.continuation else { return false };
        let is_last = at.run_part().is_some();
        if continuation.has_acted && (self.plan.states.is_some() || is_last) {
            return false;
        }
        if crate::execute::item_in_worktree(&self.plan, at).is_some() && !continuation.keeps_commits {
            return false;
        }
        self.stands_beside_kept(at)
            && !self.is_target(&continuation.from, at)
            && !self.follows(continuation, at)
    }

    /// Whether the step whose list an execution stands in was kept, where it is not one of its items.
    fn stands_beside_kept(&self, at: &Address) -> bool {
        let mut at = at.clone();
        while let Some(frame) = self.frame_of(&at) {
            let Some((owner, part, _)) = &frame.owner else { return true };
            let is_kept = self.active.get(owner).is_some_and(|active| active.is_kept);
            if *part != Part::Do && !is_kept {
                return false;
            }
            at = owner.clone();
        }
        true
    }

    /// Whether an execution is to be done again, or stands in one that is.
    fn is_target(&self, from: &[RerunTarget], at: &Address) -> bool {
        !from.is_empty() && at.lineage().any(|around| from.iter().any(|of| of.means(&self.plan, &around)))
    }

    /// Whether an execution comes behind one that was to be done again.
    fn follows(&self, continuation: &Continuation, at: &Address) -> bool {
        if continuation.again.is_empty() {
            return false;
        }
        self.places(at).into_iter().any(|(list, position)| {
            let Some(again) = continuation.again.get(&list) else { return false };
            let graph = self.frames.get(&list);
            match graph.and_then(|frame| self.plan.lists[frame.list as usize].graph.as_ref()) {
                Some(graph) => waits_for(graph, position, again),
                None => again.range(..position).next().is_some(),
            }
        })
    }

    /// The list that an execution stands in, and its position there; then the same of what that list belongs to.
    fn places(&self, at: &Address) -> Vec<(Address, usize)> {
        let (mut places, mut at) = (Vec::new(), at.clone());
        while let (Some(active), Some(frame)) = (self.active.get(&at), self.frame_of(&at)) {
            let steps = &self.plan.lists[frame.list as usize].steps;
            let position = steps.iter().position(|step| *step == active.step);
            places.extend(position.map(|position| (active.frame.clone(), position)));
            let Some((owner, _, _)) = &frame.owner else { break };
            at = owner.clone();
        }
        places
    }

    fn frame_of(&self, at: &Address) -> Option<&ListFrame> {
        self.frames.get(&self.active.get(at)?.frame)
    }
}

/// Whether a node waits for one of these, however far.
fn waits_for(graph: &Graph, node: usize, these: &BTreeSet<usize>) -> bool {
    let (mut open, mut known) = (vec![node], BTreeSet::new());
    while let Some(node) = open.pop() {
        for source in graph.nodes[node].sources() {
            if these.contains(&source) {
                return true;
            }
            if known.insert(source) {
                open.push(source);
            }
        }
    }
    false
}

impl RerunTarget {
    /// Whether an execution is meant.
    pub fn means(&self, plan: &threadline_flow::plan::Plan, at: &Address) -> bool {
        let step = at.step(plan).map(|step| &plan.steps[step as usize].number);
        let items: Vec<u64> = at.items().collect();
        let is_visit = self.visit.is_none_or(|from| at.visit().is_some_and(|visit| visit >= from));
        // An item stands for its steps, unless it is meant itself.
        let is_part = at.as_part().is_none() && (!at.is_item() || !self.items.is_empty());
        step == Some(&self.step) && items.starts_with(&self.items) && is_visit && is_part
    }
}
