//! Loops: what holds for one is found out, and each state is judged. The verdict is recorded with the state that
//! follows; which state begins is the machine's word.

use threadline_engine::evaluate;
use threadline_engine::event::{Instance, Judged, What};
use threadline_engine::judge;
use threadline_engine::machine::{Outcome, Task};
use threadline_engine::view::{Load, StateView, View};
use threadline_flow::model::Shape;
use threadline_store::Sync;

use crate::driver::DriveError;
use crate::execute::Executor;

impl Executor<'_, '_> {
    /// What holds for the loop; without it the run has failed.
    pub(crate) fn bound(&self, view: &View) -> Result<(), DriveError> {
        let shared = self.shared;
        let Shape::Loop(of) = &shared.plan.workflow.shape else { return Ok(()) };
        let at = Instance::default();
        let (bounds, record, context) =
            self.evaluate_here(&at, view, |scope, session| evaluate::bounds(of, scope, session))?;
        self.define(&record, context)?;
        let computed = shared.journal.store().computed(&record.computed)?;
        match bounds {
            Ok(bounds) => shared.record(at, What::Bounded { computed, bounds }, Sync::Now).map(|_| ()),
            Err(errors) => {
                self.tell_problems(&at, &errors);
                self.end(Outcome::Failed, None, view)
            }
        }
    }

    /// The verdict on a state, and where it leads.
    pub(crate) fn judge(&self, task: &Task, view: &View) -> Result<(), DriveError> {
        let shared = self.shared;
        let result = view.result.map(|seq| (&mut &shared.values).output(seq)).transpose()?;
        let nowhere = StateView { name: task.at.0.clone(), iteration: 0, elapsed_ms: 0, in_a_row: 0 };
        let state = view.state.as_ref().unwrap_or(&nowhere);
        let (judgement, record, context) = self.evaluate(task, view, |scope, session| {
            let result = result.as_deref();
            let judged = judge::Judged { plan: &shared.plan, step: task.step, scope, result, state };
            let verdict = judged.verdict(session);
            judged.route(verdict, session)
        })?;
        self.define(&record, context)?;
        let store = shared.journal.store();
        let judge::Judgement { verdict, to, print } = judgement;
        let judged = Judged {
            as_of: task.as_of,
            computed: store.computed(&record.computed)?,
            verdict: verdict.verdict,
            confidence: verdict.confidence,
            reason: verdict.reason,
            details: store.datum(&verdict.details)?,
            to,
            print,
        };
        shared.record(task.at.clone(), What::Judged(Box::new(judged)), Sync::Now).map(|_| ())
    }
}
