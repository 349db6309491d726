//! Going on after a failure or a limit: what failed is done again, and sees what it saw before.

use threadline_flow::model::Action;
use threadline_flow::plan::Part;

use super::{
    ActiveStep, Applied, Machine, Mismatch, Outcome, RetryableList, Stage, StepStage, find_mut, graph,
};
use crate::event::{Address, Millis};

impl Machine {
    /// A run that failed goes on where it failed; or with the items that were let fail.
    pub(super) fn resume(&mut self, failed: bool, before: Millis) -> Applied {
        self.time_begins_anew(before);
        let ended = matches!(self.stage, Stage::Ended(_));
        let rewind = if ended && failed { self.retryable_lists.pop_first() } else { None };
        if let Some((position, rewind)) = rewind {
            self.retryable_lists.clear();
            self.stage = Stage::Going;
            self.retry_list(position, rewind)?;
            self.commands.clear();
            return Ok(());
        }
        if !matches!(self.stage, Stage::Ended(Outcome::Failed | Outcome::Stopped)) {
            return Ok(());
        }
        self.stage = Stage::Going;
        let failed = |list: &Address| self.frames.get(list).is_some_and(|frame| frame.failed);
        // What ends a loop is not done again.
        if failed(&Address::root()) && self.failed_terminal_state().is_none() {
            // There will be another end.
            self.drop_run_parts(&Part::OF_RUN)?;
            self.run_end.reopen(self.time);
            self.reopen(&Address::root())?;
        } else if let Some(part) = Part::OF_RUN.into_iter().find(|part| failed(&Address::of_run(*part))) {
            if part != Part::Finally {
                self.drop_run_parts(&[Part::Finally])?;
                self.run_end.reopen_handler();
            }
            self.reopen(&Address::of_run(part))?;
        }
        // Whoever resumes asks for all that is outstanding.
        self.commands.clear();
        Ok(())
    }

    /// Forgets lists of the workflow that run at its end, and the names that they set.
    fn drop_run_parts(&mut self, parts: &[Part]) -> Applied {
        for part in parts {
            self.drop_lists(&Address::of_run(*part));
        }
        if let Some(names) = self.before.take() {
            find_mut(&mut self.scopes, &Address::root())?.names = names;
        }
        Ok(())
    }

    /// Back to a list whose items were let fail: they are done again, and everything that came after it.
    pub(super) fn retry_list(&mut self, position: usize, rewind: RetryableList) -> Applied {
        let RetryableList { at, active } = rewind;
        let kept = |key: &Address| key.is_in_items_of(&at);
        self.active.retain(|key, _| kept(key));
        self.frames.retain(|key, _| key.is_root() || kept(key));
        self.scopes.retain(|key, _| key.is_root() || kept(key));
        self.items.retain(|key, _| kept(key));
        let frame = find_mut(&mut self.frames, &Address::root())?;
        (frame.position, frame.failed) = (position, false);
        self.before = None;
        self.run_end.reopen(self.time);
        let active = ActiveStep { stage: StepStage::Items, output: None, as_of: self.last, ..active };
        self.active.insert(at.clone(), active);
        self.restore(&at)?;
        self.reopen_items(&at)
    }

    /// Whether items were let fail that can be done again.
    pub fn has_tolerated_failures(&self) -> bool {
        !self.retryable_lists.is_empty()
    }

    /// A list that failed goes on with the step that failed.
    pub(super) fn reopen(&mut self, frame_at: &Address) -> Applied {
        let frame = find_mut(&mut self.frames, frame_at)?;
        frame.failed = false;
        if frame.nodes.is_some() {
            return self.reopen_graph(frame_at);
        }
        if frame.loop_state.is_some() {
            return self.reopen_loop();
        }
        let at = frame_at.child(&self.plan.lists[frame.list as usize], frame.position);
        self.reopen_step(&at)
    }

    /// A step that failed is done again.
    pub(super) fn reopen_step(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        active.failed = false;
        active.verdict = None;
        active.base = active.attempts;
        active.as_of = self.last;
        active.began = self.time;
        if active.succeeded {
            return self.reopen_part(at);
        }
        if matches!(self.plan.steps[active.step as usize].step.action, Action::Phase(_)) {
            if self.frames.get(at).is_some_and(|frame| frame.failed) {
                active.stage = StepStage::In(Part::Do);
                return self.reopen(at);
            }
            return self.close_phase(at);
        }
        self.drop_lists(at);
        self.restore(at)?;
        let active = find_mut(&mut self.active, at)?;
        active.output = None;
        match &mut active.items {
            None => {
                active.stage = StepStage::Deciding;
                if self.plan.steps[active.step as usize].step.decides() {
                    self.command(at)
                } else {
                    self.act(at)
                }
            }
            Some(items) if !items.has_failed() && !items.is_halted() => {
                active.stage = StepStage::Collecting;
                self.command(at)
            }
            Some(_) => {
                active.stage = StepStage::Items;
                self.reopen_items(at)
            }
        }
    }

    /// A step that did well goes on with the first of its lists that failed.
    pub(super) fn reopen_part(&mut self, at: &Address) -> Applied {
        for part in [Part::OnSuccess, Part::Finally] {
            let frame_at = at.part(part);
            if !self.frames.get(&frame_at).is_some_and(|frame| frame.failed) {
                continue;
            }
            if part == Part::OnSuccess {
                // There will be another end.
                self.drop_lists(&at.part(Part::Finally));
                self.restore(at)?;
            }
            find_mut(&mut self.active, at)?.stage = StepStage::In(part);
            return self.reopen(&frame_at);
        }
        Err(Mismatch::new(format!("`{at}` failed, and neither it nor a list of it did")))
    }

    /// What is done again does not see what it left the first time.
    pub(super) fn restore(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        // Nodes have nothing to put back.
        let Some(before) = active.before.take() else { return Ok(()) };
        let frame = find_mut(&mut self.frames, &active.frame)?;
        frame.prev = before.prev;
        let scope = find_mut(&mut self.scopes, &frame.scope)?;
        graph::put_back(&self.plan, &frame.scope, at, &mut scope.names, before.names);
        Ok(())
    }

    /// Forgets the lists that stand right below an address, and everything in them.
    pub(super) fn drop_lists(&mut self, at: &Address) {
        self.frames.remove(at);
        at.remove_lists_from(&mut self.frames);
        at.remove_lists_from(&mut self.active);
        at.remove_lists_from(&mut self.scopes);
        at.remove_lists_from(&mut self.items);
    }

    /// Forgets the items of a step, and everything in them.
    pub(super) fn drop_items(&mut self, at: &Address) {
        at.remove_items_from(&mut self.frames);
        at.remove_items_from(&mut self.active);
        at.remove_items_from(&mut self.scopes);
        at.remove_items_from(&mut self.items);
    }
}
