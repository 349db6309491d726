//! The outcome of a run, as its last lists read it: how it ends, why, and how long it took.

use ecow::{EcoString, eco_format};
use threadline_flow::fields::{FailureKind, field_names as names};
use threadline_lang::Value;
use threadline_lang::diag::words;

use super::result::{self, Timing};
use super::{Driver, Durability, Executor, Next, record};
use crate::event::{Address, Event, EventKind, LoopEnd, LoopReason};
use crate::machine::{Outcome, RunOutcome, StandingFailure};
use crate::replay::output_of;

/// Why something failed.
struct FailureCause {
    error: EcoString,
    kind: FailureKind,
}

impl Executor<'_> {
    /// Records the outcome of the run.
    pub(super) fn record_outcome<D: Driver>(
        self,
        driver: &mut D,
        known: &RunOutcome,
    ) -> Result<Next, D::Error> {
        let mut failed = Vec::with_capacity(known.failed.len());
        let mut first = None;
        for StandingFailure { at, seq } in &known.failed {
            let cause = cause_in(&driver.event(*seq)?);
            failed.push(Value::record([
                (names::STEP, Value::from(at.shown(self.plan).as_str())),
                (names::ERROR, cause.error.as_str().into()),
                (names::ERROR_TYPE, cause.kind.name().into()),
            ]));
            first.get_or_insert(cause);
        }
        let (error, error_type) = match (first, &known.ended, known.outcome) {
            (_, _, Outcome::Completed) => (Value::NULL, Value::NULL),
            (Some(cause), ..) => (cause.error.as_str().into(), cause.kind.name().into()),
            (None, Some(ended), Outcome::Failed) => {
                (loop_error(ended).as_str().into(), FailureKind::Verdict.name().into())
            }
            (None, Some(ended), Outcome::Stopped) => (loop_error(ended).as_str().into(), Value::NULL),
            (None, None, _) => ("the run failed".into(), FailureKind::Workflow.name().into()),
        };
        let took = Timing::since(known.since, driver.moment().time).elapsed;
        let run = Value::record([
            (names::STATUS, Value::from(known.outcome.name())),
            (names::ERROR, error),
            (names::ERROR_TYPE, error_type),
            (names::FAILED, Value::sequence(failed)),
            (names::FAILED_COUNT, Value::from(known.failed_count)),
            (names::DURATION, result::seconds(took)),
        ]);
        let kind = EventKind::OutcomeKnown { outcome: known.outcome, run: driver.keep(&run)? };
        Ok(record(Address::default(), kind, Durability::Now))
    }
}

/// Why something failed, as an event says it.
fn cause_in(event: &Event) -> FailureCause {
    match &event.kind {
        EventKind::ItemEnded(ended) => {
            FailureCause { error: ended.error.clone().unwrap_or_default(), kind: FailureKind::Worktree }
        }
        EventKind::Judged(judged) => {
            FailureCause { error: judged.reason.clone(), kind: FailureKind::Verdict }
        }
        _ => {
            let meta = output_of(event).map(|output| &output.meta);
            let error = meta.and_then(|meta| meta.get(names::ERROR)?.as_str());
            let kind = meta.and_then(FailureKind::of_meta).unwrap_or(FailureKind::Evaluation);
            FailureCause { error: error.unwrap_or_default().into(), kind }
        }
    }
}

/// Why a loop ended, in words.
fn loop_error(ended: &LoopEnd) -> EcoString {
    let LoopEnd { reason, state, limit } = ended;
    match (reason, limit) {
        (LoopReason::Terminal, _) => eco_format!("the loop ended in the failure state `{state}`"),
        (LoopReason::Timeout, Some(limit)) => {
            let time = words::duration(std::time::Duration::from_millis(*limit));
            eco_format!("the loop stopped before `{state}`: it reached `timeout` after {time}")
        }
        (reason, limit) => {
            let limit = limit.map_or_else(String::new, |limit| format!(" of {limit}"));
            eco_format!("the loop stopped before `{state}`: it reached `{}`{limit}", reason.name())
        }
    }
}
