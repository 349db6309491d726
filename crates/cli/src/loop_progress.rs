//! The progress of a loop: the current state, the last verdicts, and how much of the limits is used.
//!
//! Like all progress it is made of events alone. Nothing is printed here.

use std::collections::VecDeque;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, JudgedEvent, LoopLimits, Millis};
use threadline_flow::plan::Plan;
use threadline_lang::diag::words;

/// The number of past states that are remembered.
pub(crate) const REMEMBERED: usize = 8;

/// The progress of a loop.
#[derive(Default)]
pub(crate) struct LoopProgress {
    /// The limits of the loop, once it has started; `None` for a run that is not a loop.
    pub(crate) limits: Option<LoopLimits>,
    /// The time of its start, moved by the time it was stopped.
    pub(crate) began: Millis,
    /// The number of iterations that have started.
    pub(crate) iteration: u64,
    /// The last execution that was counted.
    counted: Address,
    /// The number of states that were executed.
    pub(crate) steps: u64,
    /// The number of those whose action failed although the loop went on as if it had not.
    failed_actions: u64,
    /// The part that does not count for the limits, because it was before the loop was resumed.
    before: SpentBefore,
    initial: Option<EcoString>,
    /// The execution that runs now.
    pub(crate) current: Option<CurrentState>,
    /// The past states, the last one at the end.
    pub(crate) recent: VecDeque<PastState>,
    /// The time of the last event.
    last: Millis,
    ended: bool,
}

#[derive(Default)]
struct SpentBefore {
    iterations: u64,
    steps: u64,
}

/// A state that runs now, or that is waited for.
pub(crate) struct CurrentState {
    /// The execution; `None` while the next iteration is waited for.
    pub(crate) at: Option<Address>,
    /// The time of the start of the execution, or of the wait.
    pub(crate) since: Millis,
    /// The end of the wait.
    pub(crate) until: Option<Millis>,
}

/// A state that was executed.
pub(crate) struct PastState {
    /// The address of the execution.
    pub(crate) at: Address,
    /// The time it took, including its judgement.
    pub(crate) took: Millis,
    pub(crate) verdict: EcoString,
    pub(crate) reason: EcoString,
    pub(crate) to: Option<EcoString>,
}

impl LoopProgress {
    /// Takes the next event of the run.
    pub(crate) fn take(&mut self, plan: &Plan, event: &Event) {
        let stopped = event.time - self.last;
        self.last = event.time;
        match &event.kind {
            EventKind::LimitsResolved { limits, .. } => {
                self.limits = Some(*limits);
                self.began = event.time;
            }
            EventKind::Resumed { .. } => {
                self.began += stopped;
                self.current = None;
                if std::mem::take(&mut self.ended) {
                    self.before = SpentBefore { iterations: self.iteration, steps: self.steps };
                    self.began = event.time;
                }
            }
            EventKind::RunEnded { .. } => {
                self.ended = true;
                self.current = None;
            }
            EventKind::Judged(judged) if self.limits.is_some() => self.judged(plan, event, judged),
            _ if self.limits.is_some() => self.entered(&event.at, event.time),
            _ => {}
        }
    }

    /// Enters a state with its first event.
    fn entered(&mut self, at: &Address, time: Millis) {
        let Some((at, name)) = at.outermost().zip(at.state()) else { return };
        if self.current.as_ref().is_some_and(|current| current.at.as_ref() == Some(&at)) {
            return;
        }
        self.current = Some(CurrentState { at: Some(at.clone()), since: time, until: None });
        // A state that is resumed or executed again is the same execution.
        if self.counted == at {
            return;
        }
        self.counted = at;
        self.steps += 1;
        if self.initial.get_or_insert_with(|| name.into()) == name {
            self.iteration += 1;
        }
    }

    fn judged(&mut self, plan: &Plan, event: &Event, judged: &JudgedEvent) {
        self.entered(&event.at, event.time);
        self.failed_actions += u64::from(has_ignored_failure(plan, &event.at, &judged.verdict));
        let since = self.current.take().map_or(event.time, |current| current.since);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(PastState {
            at: event.at.clone(),
            took: event.time - since,
            verdict: judged.verdict.clone(),
            reason: judged.reason.clone(),
            to: judged.to.clone(),
        });
        // A loop that is kept going has no next state and starts again.
        let begins = judged.to.is_none() || judged.to == self.initial;
        let pause = self.limits.and_then(|limits| limits.backoff).filter(|pause| begins && !pause.is_zero());
        let pause = pause.map(|pause| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4));
        self.current = pause.map(|pause| CurrentState {
            at: None,
            since: event.time,
            until: Some(event.time.saturating_add(pause)),
        });
    }

    /// The number of iterations and states that count for the limits.
    pub(crate) fn spent(&self) -> (u64, u64) {
        (self.iteration - self.before.iterations, self.steps - self.before.steps)
    }

    /// `3 iterations, 7 steps`, and how many actions failed that only `next` followed: `, 1 failure ignored`
    pub(crate) fn counts(&self) -> String {
        let failed = match self.failed_actions {
            0 => String::new(),
            failed => format!(", {} ignored", words::count(failed, "failure")),
        };
        format!("{}, {}{failed}", words::count(self.iteration, "iteration"), words::count(self.steps, "step"))
    }
}

/// Whether the action of a state failed and nothing looks at that: the state only goes on.
pub(crate) fn has_ignored_failure(plan: &Plan, at: &Address, verdict: &str) -> bool {
    let step = at.step(plan).map(|step| &plan.steps[step as usize].step);
    verdict == "no" && step.is_some_and(|step| !step.is_judged())
}
