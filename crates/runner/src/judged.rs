//! Loops: what holds for one is found out, and each state is judged. The verdict is recorded with the state that
//! follows; which state begins is the machine's word.

use ecow::eco_format;
use threadline_engine::evaluate::{self, Act};
use threadline_engine::event::{Address, EventKind, Judged};
use threadline_engine::judge::{self, Question, Verdict};
use threadline_engine::machine::{Outcome, Task};
use threadline_engine::view::{Load, StateView, View};
use threadline_engine::world::Answer;
use threadline_flow::model::{Evaluator, Judge, Shape};
use threadline_lang::diag::excerpt;
use threadline_lang::{Envelope, Scope};
use threadline_store::Sync;

use crate::driver::{DriveError, now};
use crate::execute::{Executor, Texts};
use crate::output;
use crate::process::How;

impl Executor<'_, '_> {
    /// What holds for the loop; without it the run has failed.
    pub(crate) fn bound(&self, view: &View) -> Result<(), DriveError> {
        let shared = self.shared;
        let Shape::Loop(of) = &shared.plan.workflow.shape else { return Ok(()) };
        let at = Address::default();
        let (bounds, record, context) =
            self.evaluate_here(&at, view, |scope, session| evaluate::bounds(of, scope, session))?;
        self.define(&record, context)?;
        let computed = shared.journal.store().computed(&record.computed)?;
        match bounds {
            Ok(bounds) => shared.record(at, EventKind::Bounded { computed, bounds }, Sync::Now).map(|_| ()),
            Err(errors) => {
                self.tell_problems(&at, &errors);
                self.end(Outcome::Failed, None, view)
            }
        }
    }

    /// The verdict on a state, and where it leads.
    pub(crate) fn judge(&self, task: &Task, view: &View) -> Result<(), DriveError> {
        let shared = self.shared;
        // What is not at hand is read from the journal, where it has to be first.
        if let Some(seq) = view.result.filter(|seq| !shared.values.has(*seq)) {
            shared.wait_synced(seq)?;
        }
        let result = view.result.map(|seq| (&mut &shared.values).output(seq)).transpose()?;
        let acting = self.acting(view)?;
        let nowhere = StateView {
            name: task.at.as_str().into(),
            iteration: 0,
            elapsed_ms: 0,
            in_a_row: 0,
            measured: None,
        };
        let state = view.state.as_ref().unwrap_or(&nowhere);
        let result = result.as_deref();
        let mut asked = None;
        if let Some(Evaluator::Agent(judge)) = self.step(task).evaluator() {
            // Told to end before there is an answer: the judge is asked again when the run goes on.
            let Some(answer) = self.ask(task, view, judge, result, state)? else { return Ok(()) };
            asked = Some(answer);
        }
        let (verdict, mut computed) = asked.unzip();
        let earlier = computed.as_deref().unwrap_or_default();
        let (judgement, record, context) = self.evaluate_with(task, view, earlier, |scope, session| {
            let (scope, unable) = judge::scope_of(&shared.plan, task.step, acting.as_ref(), scope, session);
            let judged = judge::Judged { plan: &shared.plan, step: task.step, scope: &scope, result, state };
            let verdict = verdict.or(unable).unwrap_or_else(|| judged.verdict(session));
            judged.route(verdict, session)
        })?;
        self.define(&record, context)?;
        let computed = computed.get_or_insert_default();
        computed.extend(record.computed);
        let store = shared.journal.store();
        let judge::Judgement { verdict, to, print, .. } = judgement;
        let judged = Judged {
            as_of: task.as_of,
            computed: store.computed(computed)?,
            verdict: verdict.verdict,
            confidence: verdict.confidence,
            reason: verdict.reason,
            details: store.datum(&verdict.details)?,
            measured: verdict.measured,
            to,
            print,
        };
        // Whoever acts upon it waits until it is on disk. What only leads on to another judgement need not hurry.
        let hurries = view.result.is_some() || !judged.computed.is_empty();
        let sync = if hurries { Sync::Now } else { Sync::Later };
        shared.record(task.at.clone(), EventKind::Judged(Box::new(judged)), sync).map(|_| ())
    }

    /// The names that a state saw when it acted, where it is judged with others.
    fn acting(&self, view: &View) -> Result<Option<Scope>, DriveError> {
        let scope = |view: &View| view.scope(&self.shared.scope, &mut &self.shared.values, None);
        Ok(view.acting.as_deref().map(scope).transpose()?)
    }

    /// The verdict of a judge who is asked, and what the question had to compute. Nothing when the run was told to end.
    fn ask(
        &self,
        task: &Task,
        view: &View,
        judge: &Judge,
        result: Option<&Envelope>,
        state: &StateView,
    ) -> Result<Option<(Verdict, Vec<Answer>)>, DriveError> {
        let shared = self.shared;
        let folder = self.written_folder(task);
        let acting = self.acting(view)?;
        let enter = |cwd: &str| folder.enter(self.project().here().join(cwd));
        let (question, record, context) =
            self.evaluate_at(&task.at, &folder, view, &[], |scope, session| {
                let (scope, unable) =
                    judge::scope_of(&shared.plan, task.step, acting.as_ref(), scope, session);
                if let Some(verdict) = unable {
                    return Err(verdict);
                }
                let judged =
                    judge::Judged { plan: &shared.plan, step: task.step, scope: &scope, result, state };
                judged.question(judge, session, enter)
            })?;
        self.define(&record, context)?;
        let verdict = match question {
            Err(verdict) => verdict,
            Ok(question) => {
                // What is judged is on disk before anybody hears of it: the action is not done again.
                shared.wait_synced(view.as_of)?;
                match self.answer(task, view, question) {
                    Some(verdict) => verdict,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some((verdict, record.computed)))
    }

    /// What a judge answers. Nothing when the run was told to end.
    fn answer(&self, task: &Task, view: &View, mut question: Question) -> Option<Verdict> {
        let mut cut_short = None;
        if let Some(limit) = view.limit {
            let left = limit.left(now());
            if left.is_zero() {
                return Some(Verdict::error(output::over(&limit).message));
            }
            if question.resolved.timeout.is_none_or(|own| left < own) {
                question.resolved.timeout = Some(left);
                cut_short = Some(limit);
            }
        }
        let resolved = &question.resolved;
        let Act::Agent { agent, command, message } = &resolved.act else { return None };
        let failed = |why: &str| Verdict::error(eco_format!("the judge `{agent}` gave no answer: {why}"));
        let ended = match self.run(task, &self.agent_spec(task, resolved, command, message)) {
            Ok(ended) => ended,
            Err(failure) => return Some(failed(&failure.message)),
        };
        if ended.how == How::Cancelled {
            return None;
        }
        let texts = Texts::of(&ended);
        let failure = match (ended.how, cut_short) {
            (How::TimedOut, Some(limit)) => Some(output::over(&limit)),
            (how, _) => output::ending(how, resolved.timeout, resolved.idle_timeout, resolved.max_output),
        };
        Some(match (failure, &texts.stdout) {
            (Some(failure), _) => {
                let said = texts.stderr().map(|said| format!("; it says {}", excerpt(&said)));
                failed(&format!("{}{}", failure.message, said.unwrap_or_default()))
            }
            (None, Err(failure)) => failed(&failure.message),
            (None, Ok(text)) => question.answered(text),
        })
    }
}
