//! How far a loop is: the state it is in, what the last ones came to, how much of its limits is used up.
//!
//! It is made of events alone, as everything that is shown of a run. It prints nothing.

use std::collections::VecDeque;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, JudgedEvent, LoopLimits, Millis};

/// So many states are remembered.
pub(crate) const REMEMBERED: usize = 8;

/// How far a loop is.
#[derive(Default)]
pub(crate) struct Turns {
    /// What holds for it, when it is a loop and has begun.
    pub(crate) limits: Option<LoopLimits>,
    /// When it began, moved by the time it was stopped.
    pub(crate) began: Millis,
    /// How many iterations were begun.
    pub(crate) iteration: u64,
    /// The last execution that was counted.
    counted: Address,
    /// How many states were executed.
    pub(crate) steps: u64,
    /// What of these limits do not count: what was before it went on.
    before: Before,
    initial: Option<EcoString>,
    /// The execution that it is in.
    pub(crate) current: Option<Current>,
    /// The states before, the last one at the end.
    pub(crate) recent: VecDeque<Turn>,
    /// When the last event happened.
    last: Millis,
    ended: bool,
}

#[derive(Default)]
struct Before {
    iterations: u64,
    steps: u64,
}

/// A state that is being executed, or waited for.
pub(crate) struct Current {
    /// Which execution; none while the next iteration is waited for.
    pub(crate) at: Option<Address>,
    /// Since when.
    pub(crate) since: Millis,
    /// Until when it waits.
    pub(crate) until: Option<Millis>,
}

/// A state that was executed.
pub(crate) struct Turn {
    /// Which execution.
    pub(crate) at: Address,
    /// How long it took, with its judgement.
    pub(crate) took: Millis,
    pub(crate) verdict: EcoString,
    pub(crate) reason: EcoString,
    pub(crate) to: Option<EcoString>,
}

impl Turns {
    /// Takes the next event of the run.
    pub(crate) fn take(&mut self, event: &Event) {
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
                    self.before = Before { iterations: self.iteration, steps: self.steps };
                    self.began = event.time;
                }
            }
            EventKind::RunEnded { .. } => {
                self.ended = true;
                self.current = None;
            }
            EventKind::Judged(judged) if self.limits.is_some() => self.judged(event, judged),
            _ if self.limits.is_some() => self.entered(&event.at, event.time),
            _ => {}
        }
    }

    /// The first event of a state is its beginning.
    fn entered(&mut self, at: &Address, time: Millis) {
        let Some((at, name)) = at.outermost().zip(at.state()) else { return };
        if self.current.as_ref().is_some_and(|current| current.at.as_ref() == Some(&at)) {
            return;
        }
        self.current = Some(Current { at: Some(at.clone()), since: time, until: None });
        // A state that goes on after a stop, or is done again, is the same execution.
        if self.counted == at {
            return;
        }
        self.counted = at;
        self.steps += 1;
        if self.initial.get_or_insert_with(|| name.into()) == name {
            self.iteration += 1;
        }
    }

    fn judged(&mut self, event: &Event, judged: &JudgedEvent) {
        self.entered(&event.at, event.time);
        let since = self.current.take().map_or(event.time, |current| current.since);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Turn {
            at: event.at.clone(),
            took: event.time - since,
            verdict: judged.verdict.clone(),
            reason: judged.reason.clone(),
            to: judged.to.clone(),
        });
        // A loop that is kept going leads nowhere and begins again.
        let begins = judged.to.is_none() || judged.to == self.initial;
        let pause = self.limits.and_then(|limits| limits.backoff).filter(|pause| begins && !pause.is_zero());
        let pause = pause.map(|pause| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4));
        self.current = pause.map(|pause| Current {
            at: None,
            since: event.time,
            until: Some(event.time.saturating_add(pause)),
        });
    }

    /// How many iterations and states count for the limits.
    pub(crate) fn spent(&self) -> (u64, u64) {
        (self.iteration - self.before.iterations, self.steps - self.before.steps)
    }

    /// `3 iterations, 7 steps`
    pub(crate) fn counts(&self) -> String {
        let count = |count: u64, unit: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {unit}{plural}")
        };
        format!("{}, {}", count(self.iteration, "iteration"), count(self.steps, "step"))
    }
}
