//! The end of a run: what follows when its steps have ended, and how much time they have.
//!
//! The steps end, then `on_failure` or `on_success` of the workflow runs, then `finally`, then the run is over.
//! Where one of these lists depends on the outcome, or reads it, the outcome is recorded before: when the steps
//! have ended, and again before `finally` when the list in between has failed.

use std::time::Duration;

use threadline_flow::plan::Part;

use super::loop_state::LoopState;
use super::{Applied, Command, ListFrame, Machine, Outcome, RunOutcome, StandingFailure, StepStage, find};
use crate::event::{Address, LoopEnd, Millis, Seq};
use crate::view::Limit;

/// How far the end of a run is, and the time of its steps.
#[derive(Default)]
pub(super) struct RunEnd {
    /// When the run began, moved by the time it was stopped.
    began: Millis,
    /// When the time of its steps began, moved alike; anew when a run that failed goes on.
    since: Millis,
    /// How long its steps may take together.
    limit: Option<Duration>,
    /// The event with the outcome of the steps.
    outcome: Option<Seq>,
    /// The event with what `on_failure` or `on_success` made of it, when that failed.
    final_outcome: Option<Seq>,
}

/// So many of the steps that failed are named in the outcome of a run; all are counted.
const MAX_FAILURES: usize = 100;

impl RunEnd {
    /// The run begins.
    pub(super) fn begin(&mut self, time: Millis) {
        self.began = time;
    }

    /// The steps of the run begin, and may take this long together.
    pub(super) fn begin_steps(&mut self, time: Millis, limit: Option<Duration>) {
        (self.since, self.limit) = (time, limit);
    }

    /// The time in which the run was stopped does not count.
    pub(super) fn shift(&mut self, passed: Millis) {
        self.began = self.began.saturating_add(passed);
        self.since = self.since.saturating_add(passed);
    }

    /// What ran before `finally` goes on: the outcome of the steps is what it was.
    pub(super) fn reopen_handler(&mut self) {
        self.final_outcome = None;
    }

    /// The steps go on after their end: there will be another.
    pub(super) fn reopen(&mut self, time: Millis) {
        self.since = time;
        (self.outcome, self.final_outcome) = (None, None);
    }
}

impl Machine {
    /// Whether the limits of the run are evaluated before its steps begin, and are not known yet.
    pub(super) fn needs_limits(&self) -> bool {
        let has_limits = self.plan.states.is_some() || self.plan.workflow.timeout.is_some();
        has_limits && !self.frames.contains_key(&Address::root())
    }

    /// The time by which the steps of the run have to be through. What runs when they have ended has its own.
    pub(super) fn run_limit(&self, frame: &Address) -> Option<Limit> {
        if frame.run_part().is_some() {
            return None;
        }
        let RunEnd { since, limit, .. } = self.run_end;
        self.loop_limit().or_else(|| limit.map(|allowed| Limit { since, allowed, scope: "run" }))
    }

    /// Whether the time of the steps is over, for an execution among them.
    pub(super) fn is_out_of_time(&self, at: &Address) -> bool {
        let limit = self.run_end.limit.filter(|_| at.run_part().is_none());
        limit.is_some_and(|limit| {
            let passed = self.time.saturating_sub(self.run_end.since).max(0).unsigned_abs();
            u128::from(passed) >= limit.as_millis()
        })
    }

    /// A list of the workflow is through: the next one follows, or the end.
    pub(super) fn workflow_list_done(&mut self) -> Applied {
        if self.awaits_outcome() {
            self.commands.extend(self.end());
            return Ok(());
        }
        self.open_run_part()
    }

    /// The outcome is recorded: what depends on it may begin.
    pub(super) fn outcome_known(&mut self) -> Applied {
        let seq = self.last;
        let end = &mut self.run_end;
        if end.outcome.is_none() {
            end.outcome = Some(seq);
        } else {
            end.final_outcome = Some(seq);
        }
        self.open_run_part()
    }

    /// Opens the list that follows, or asks for the end.
    fn open_run_part(&mut self) -> Applied {
        let Some(part) = self.next_run_part() else {
            self.commands.extend(self.end());
            return Ok(());
        };
        let Some(list) = self.plan.run_part(part) else { return Ok(()) };
        if self.before.is_none() && self.frames.values().any(|frame| frame.owner.is_none() && frame.failed) {
            self.before = Some(find(&self.scopes, &Address::root())?.names.clone());
        }
        self.open(&Address::of_run(part), list, None, Address::root(), None)
    }

    fn run_frame(&self, part: Part) -> Option<&ListFrame> {
        self.frames.get(&Address::of_run(part))
    }

    /// The list that ran after the steps, before `finally`.
    fn handler(&self) -> Option<&ListFrame> {
        self.run_frame(Part::OnFailure).or_else(|| self.run_frame(Part::OnSuccess))
    }

    fn next_run_part(&self) -> Option<Part> {
        if self.run_frame(Part::Finally).is_some() {
            return None;
        }
        let handler = match self.outcome() {
            _ if self.handler().is_some() => None,
            Outcome::Failed => Some(Part::OnFailure),
            Outcome::Completed => Some(Part::OnSuccess),
            // It can be gone on with, and has neither failed nor completed.
            Outcome::Stopped => None,
        };
        let has = |part: &Part| self.plan.run_part(*part).is_some();
        handler.filter(has).or(Some(Part::Finally).filter(has))
    }

    /// Whether the outcome is to be recorded before the run goes on, when no step of it is under way.
    fn awaits_outcome(&self) -> bool {
        if !self.plan.records_outcome() || self.run_frame(Part::Finally).is_some() {
            return false;
        }
        let RunEnd { outcome, final_outcome, .. } = self.run_end;
        let has_finally = self.plan.run_part(Part::Finally).is_some();
        let handler_failed = self.handler().is_some_and(|frame| frame.failed);
        outcome.is_none() || has_finally && handler_failed && final_outcome.is_none()
    }

    /// The event with the outcome, as the steps of a list of the workflow see it.
    pub(super) fn outcome_seen(&self, at: &Address) -> Option<Seq> {
        let RunEnd { outcome, final_outcome, .. } = self.run_end;
        let last = final_outcome.filter(|_| at.run_part() == Some(Part::Finally));
        last.or(outcome)
    }

    /// How the run ends, as far as it has come.
    fn outcome(&self) -> Outcome {
        let failed = |list: &Address| self.frames.get(list).is_some_and(|frame| frame.failed);
        if Part::OF_RUN.iter().any(|part| failed(&Address::of_run(*part))) {
            return Outcome::Failed;
        }
        let is_stopped = self.loop_state().is_some_and(LoopState::is_stopped);
        match failed(&Address::root()) {
            true if is_stopped => Outcome::Stopped,
            true => Outcome::Failed,
            false => Outcome::Completed,
        }
    }

    fn loop_end(&self) -> Option<LoopEnd> {
        self.loop_state().and_then(|loop_state| loop_state.ended.clone())
    }

    /// What is to be done about the end of the run, when no step of it is under way.
    pub(super) fn end(&self) -> Option<Command> {
        if self.needs_limits() {
            return Some(Command::ResolveLimits);
        }
        if !self.active.values().all(|active| active.stage == StepStage::Failed) {
            return None;
        }
        let (outcome, ended) = (self.outcome(), self.loop_end());
        if !self.awaits_outcome() {
            return Some(Command::End {
                outcome,
                ended,
                failed_items: self.failed_items(),
                spent: Box::new(self.spent.clone()),
            });
        }
        let mut failed = self.failed_executions();
        let failed_count = failed.len() as u64;
        failed.truncate(MAX_FAILURES);
        let since = self.run_end.began;
        Some(Command::RecordOutcome(Box::new(RunOutcome { outcome, failed, failed_count, since, ended })))
    }

    /// Everything that failed and made the run fail, in the order in which it did. That items failed is said by the
    /// items; what was let fail is not among them.
    fn failed_executions(&self) -> Vec<StandingFailure> {
        let stands = |at: &Address| {
            at.items_around()
                .filter_map(|item| item.as_item())
                .all(|(list, _)| self.active.contains_key(&list))
        };
        let steps = self.active.iter().filter_map(|(at, active)| {
            let of_items = active.items.as_ref().is_some_and(super::ItemQueue::has_failed);
            let seq = active.output.filter(|_| !active.succeeded && !of_items).or(active.verdict)?;
            (active.stage == StepStage::Failed).then(|| StandingFailure { at: at.clone(), seq })
        });
        let items = self.items.iter().filter_map(|(at, item)| {
            Some(StandingFailure { at: at.clone(), seq: item.failed_on_its_own()? })
        });
        let mut failed: Vec<StandingFailure> =
            steps.chain(items).filter(|failed| stands(&failed.at)).collect();
        failed.sort_unstable_by_key(|failed| failed.seq);
        failed
    }
}
