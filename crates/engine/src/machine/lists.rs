//! Lists of steps, one after the other: a step begins, acts, ends, opens its own lists, and the next one
//! follows. A phase of a map-reduce is a list with names of its own.

use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::fields::FailureKind;
use threadline_flow::model::{Action, Retry};
use threadline_flow::plan::{ListNumber, Part, StepNumber};

use super::graph::{self, NodeEnd};
use super::items::has_tolerated_failures;
use super::{
    ActiveStep, Applied, Command, ListFrame, Machine, NameTable, RetryableList, Snapshot, StepStage, find,
    find_mut, remove,
};
use crate::event::{Address, Datum, Output, Seq, Status};

impl Machine {
    pub(super) fn open(
        &mut self,
        frame_at: &Address,
        list: ListNumber,
        owner: Option<(Address, Part, Option<u64>)>,
        scope: Address,
        prev: Option<Seq>,
    ) -> Applied {
        let frame =
            ListFrame { list, owner, scope, position: 0, prev, failed: false, nodes: None, loop_state: None };
        self.frames.insert(frame_at.clone(), frame);
        if self.plan.lists[list as usize].graph.is_some() {
            self.open_graph(frame_at)
        } else {
            self.begin(frame_at)
        }
    }

    /// Begins the step at the frame's position, or concludes the list.
    pub(super) fn begin(&mut self, frame_at: &Address) -> Applied {
        let frame = find(&self.frames, frame_at)?;
        let Some(step) = self.plan.lists[frame.list as usize].steps.get(frame.position).copied() else {
            return self.list_done(frame_at, true);
        };
        let at = frame_at.child(&self.plan.lists[frame.list as usize], frame.position);
        self.begin_step(frame_at, &at, step)
    }

    /// Begins a step.
    pub(super) fn begin_step(&mut self, frame_at: &Address, at: &Address, step: StepNumber) -> Applied {
        self.insert_active(frame_at, at, step, StepStage::Deciding);
        if self.plan.steps[step as usize].step.decides() { self.command(at) } else { self.act(at) }
    }

    pub(super) fn insert_active(
        &mut self,
        frame_at: &Address,
        at: &Address,
        step: StepNumber,
        stage: StepStage,
    ) {
        let active = ActiveStep {
            step,
            frame: frame_at.clone(),
            as_of: self.last,
            stage,
            attempts: 0,
            started: None,
            exchanges: Vec::new(),
            keeps_exchanges: false,
            calls: false,
            in_doubt: false,
            base: 0,
            output: None,
            before: None,
            succeeded: false,
            failed: false,
            items: None,
            began: self.time,
            reason: None,
            branch: None,
            verdict: None,
            is_kept: false,
            has_acted: false,
        };
        self.active.insert(at.clone(), active);
    }

    /// The condition holds: on with it.
    pub(super) fn act(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        active.as_of = self.last;
        active.began = self.time;
        active.stage = match &self.plan.steps[active.step as usize].step.action {
            Action::ForEach(_) => StepStage::Expanding,
            Action::Phase(_) => return self.open_phase(at),
            Action::Nothing => StepStage::Judging,
            _ => StepStage::Ready,
        };
        self.command(at)
    }

    /// Opens the steps of a phase, in a scope of their own.
    pub(super) fn open_phase(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        let parent = find(&self.frames, &active.frame)?.scope.clone();
        self.scopes.insert(at.clone(), NameTable { parent: Some(parent), ..NameTable::default() });
        match self.plan.part(active.step, Part::Do) {
            Some(list) => {
                active.stage = StepStage::In(Part::Do);
                let owner = Some((at.clone(), Part::Do, None));
                self.open(at, list, owner, at.clone(), None)
            }
            None => self.close_phase(at),
        }
    }

    /// The steps of a phase are through.
    pub(super) fn phase_steps_done(&mut self, at: &Address, succeeded: bool) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        if succeeded {
            return self.close_phase(at);
        }
        active.failed = true;
        self.conclude(at)
    }

    pub(super) fn close_phase(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        active.stage = StepStage::Closing;
        active.as_of = self.last;
        self.command(at)
    }

    pub(super) fn close(&self, at: &Address) -> Applied<Command> {
        let last = self.frames.get(at).and_then(|frame| frame.prev);
        let captured = &find(&self.scopes, at)?.names.captured;
        let captured = captured.iter().map(|(name, seq)| (name.clone(), *seq)).collect();
        Ok(Command::Close { task: find(&self.active, at)?.task(at), last, captured })
    }

    /// A phase is over: of its names those that it exports stay.
    pub(super) fn leave_phase(
        &mut self,
        at: &Address,
        exports: &[threadline_flow::model::Field<EcoString>],
    ) -> Applied {
        self.frames.remove(at);
        let inner = remove(&mut self.scopes, at)?;
        let outer = find_mut(&mut self.scopes, inner.parent.as_ref().unwrap_or(&Address::root()))?;
        for name in exports.iter().map(|name| &name.value) {
            outer.names.outputs.extend(inner.names.outputs.get(name).map(|seq| (name.clone(), *seq)));
            outer.names.captured.extend(inner.names.captured.get(name).map(|seq| (name.clone(), *seq)));
        }
        Ok(())
    }

    pub(super) fn skipped(&mut self, at: &Address, seq: Seq) -> Applied {
        let active = find(&self.active, at)?;
        let step = &self.plan.steps[active.step as usize].step;
        // A skipped step can be read by its id; its capture stays as it was.
        if let Some(id) = &step.id {
            let (name, scope) = (id.value.clone(), self.scope_of(at)?);
            find_mut(&mut self.scopes, &scope)?.names.outputs.insert(name, seq);
        }
        self.next(at)
    }

    pub(super) fn finished(&mut self, at: &Address, seq: Seq, output: &Output) -> Applied {
        if FailureKind::of_meta(&output.meta) == Some(FailureKind::Crash) {
            self.crashed(at);
        }
        let name = self.scope_of(at)?;
        let plan = Arc::clone(&self.plan);
        let active = find_mut(&mut self.active, at)?;
        active.output = Some(seq);
        active.succeeded = output.status == Status::Completed;
        active.failed = !active.succeeded;
        let step = &plan.steps[active.step as usize].step;
        if matches!(step.action, Action::Condition(_)) {
            active.branch = branch_of(output);
        }
        let frame = find_mut(&mut self.frames, &active.frame)?;
        // Nodes run side by side: none of them is before another.
        let in_graph = frame.nodes.is_some();
        let prev = if in_graph { None } else { frame.prev.replace(seq) };
        let scope = find_mut(&mut self.scopes, &name)?;
        if (active.failed || has_tolerated_failures(active) || step.state.is_some()) && !in_graph {
            let names = graph::names_with(&self.plan, &name, at, &scope.names);
            active.before = Some(Snapshot { prev, names }.into());
        } else {
            active.before = None;
        }
        if let Some(id) = &step.id {
            scope.names.outputs.insert(id.value.clone(), seq);
        }
        if let Some(capture) = &step.capture {
            let earlier = scope.names.captured.insert(capture.value.clone(), seq);
            if let Some(earlier) = earlier.filter(|_| step.state.is_some()) {
                scope.names.keep_earlier(&capture.value, earlier);
            }
        }
        if step.state.is_some() {
            return self.judge(at);
        }
        let part = if !active.failed {
            Part::OnSuccess
        } else if self.may_fix(at, output)? {
            Part::Fix
        } else {
            Part::OnFailure
        };
        let active = find(&self.active, at)?;
        if let (Action::Phase(phase), true) = (&step.action, active.succeeded) {
            self.leave_phase(at, &phase.exports)?;
        }
        self.enter(at, part)
    }

    /// Whether the steps of `fix` run, and the step is tried again behind them: not where it was never tried, or where
    /// nobody knows how far it came.
    fn may_fix(&self, at: &Address, output: &Output) -> Applied<bool> {
        let active = find(&self.active, at)?;
        let retry = self.plan.steps[active.step as usize].step.retry.as_ref();
        let Some(attempts) = retry.and_then(Retry::fixed_attempts) else { return Ok(false) };
        let kind = FailureKind::of_meta(&output.meta);
        let was_tried = !matches!(kind, Some(FailureKind::Crash | FailureKind::Evaluation));
        let tries = u64::from(active.attempts.saturating_sub(active.base));
        Ok(was_tried && tries < attempts && !self.is_out_of_time(at))
    }

    /// The steps of `fix` are through: the step is tried again, and sees what it saw before, and what they set.
    fn fix_done(&mut self, at: &Address, succeeded: bool) -> Applied {
        if !succeeded {
            return self.enter(at, Part::OnFailure);
        }
        let active = find_mut(&mut self.active, at)?;
        active.failed = false;
        active.output = None;
        let before = active.before.take();
        let frame = find_mut(&mut self.frames, &active.frame)?;
        if let Some(before) = before {
            frame.prev = before.prev;
        }
        self.drop_lists(at);
        self.act(at)
    }

    /// Opens a part of a step, or goes on behind it.
    pub(super) fn enter(&mut self, at: &Address, part: Part) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        let Some(list) = self.plan.part(active.step, part) else {
            return match part {
                Part::Finally => self.conclude(at),
                _ => self.enter(at, Part::Finally),
            };
        };
        active.stage = StepStage::In(part);
        let frame = find(&self.frames, &active.frame)?;
        let (output, prev, scope) = (active.output, frame.prev, frame.scope.clone());
        if active.succeeded && active.failed && frame.nodes.is_none() {
            // `on_success` failed: when it goes on, the last list is done again.
            let names = &find(&self.scopes, &scope)?.names;
            let names = graph::names_with(&self.plan, &scope, at, names);
            active.before = Some(Snapshot { prev, names }.into());
        }
        let frame_at = at.part(part);
        self.open(&frame_at, list, Some((at.clone(), part, None)), scope, output)
    }

    /// A list is at its end, well or not.
    pub(super) fn list_done(&mut self, frame_at: &Address, succeeded: bool) -> Applied {
        let frame = find_mut(&mut self.frames, frame_at)?;
        frame.failed = !succeeded;
        let (owner, prev) = (frame.owner.clone(), frame.prev);
        match owner {
            None => self.workflow_list_done(),
            Some((at, Part::Do, Some(index))) => self.item_steps_done(&at, index, prev, succeeded),
            Some((at, Part::Do, None)) => self.phase_steps_done(&at, succeeded),
            Some((at, Part::Fix, _)) => self.fix_done(&at, succeeded),
            Some((at, part, _)) => {
                if succeeded {
                    self.frames.remove(frame_at);
                } else {
                    find_mut(&mut self.active, &at)?.failed = true;
                }
                if part == Part::Finally { self.conclude(&at) } else { self.enter(&at, Part::Finally) }
            }
        }
    }

    /// A step and all its lists are through.
    pub(super) fn conclude(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        let goes_on = self.plan.steps[active.step as usize].step.continue_on_error;
        let has_failed = active.failed;
        // Nothing is let fail because the run has no time left for it.
        let ends = has_failed && (!goes_on || self.is_out_of_time(at));
        let active = find_mut(&mut self.active, at)?;
        if ends {
            active.stage = StepStage::Failed;
            let frame = active.frame.clone();
            match self.in_graph(&frame, at) {
                Some(node) => self.node_over(&frame, node, NodeEnd::Failed { goes_on: false }),
                None => self.list_done(&frame, false),
            }
        } else {
            self.next(at)
        }
    }

    /// On to the step behind this one. What was kept to go on after a failure is not needed any more.
    pub(super) fn next(&mut self, at: &Address) -> Applied {
        let active = remove(&mut self.active, at)?;
        if active.failed {
            self.drop_lists(at);
        }
        if let Some(node) = self.in_graph(&active.frame, at) {
            self.drop_items(at);
            let over = match active.stage {
                StepStage::Skipping { by_failure } => NodeEnd::Skipped { by_failure },
                StepStage::Deciding => NodeEnd::Skipped { by_failure: false },
                _ if active.failed => NodeEnd::Failed { goes_on: true },
                _ => NodeEnd::Completed(active.branch),
            };
            return self.node_over(&active.frame, node, over);
        }
        let frame = find_mut(&mut self.frames, &active.frame)?;
        let (list, position) = (active.frame.clone(), frame.position);
        frame.position += 1;
        if list.is_root() && has_tolerated_failures(&active) {
            self.retryable_lists.insert(position, RetryableList { at: at.clone(), active });
        } else {
            self.drop_items(at);
        }
        self.begin(&list)
    }
}

/// The branch that a conditional took.
fn branch_of(output: &Output) -> Option<EcoString> {
    match &output.value {
        Datum::Here(value) => value.get("branch")?.as_str().map(EcoString::from),
        Datum::Stored { .. } => None,
    }
}
