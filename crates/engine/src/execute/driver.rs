//! What the executor needs from whoever drives a run.
//!
//! A driver keeps the journal and evaluates in the names of a step. What is evaluated for a command stands here once: a
//! driver that invents results replaces single evaluations and nothing else. No driver decides anything.

use std::sync::Arc;
use std::time::Duration;

use threadline_expect::Settled;
use threadline_flow::fields::Failure;
use threadline_flow::model::{Action, Judge, Step};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::{Envelope, Scope, ScopeEntry, Session, Value};

use super::effect::{Attempt, EffectKey};
use super::result::ClockReading;
use super::{AgentCall, CallAdmission};
use crate::agent::exchange::{Answered, ExchangeRecord, ExchangeRequest};
use crate::evaluate::{self, Decision, EnteredFolder, FieldErrors, Resolved};
use crate::event::{Address, Datum, Event, EventKind, KeptMaker, Seq};
use crate::hash::Hash;
use crate::judge::{self, JudgedState, Judgement, Question, Verdict};
use crate::machine::Task;
use crate::replay::Evaluated;
use crate::select::{self, Expansion};
use crate::spend::Spend;
use crate::view::{StateView, View, with_map};
use crate::world::Answer;

/// Something evaluated, and what that had to compute.
#[derive(Debug)]
pub struct FieldEvaluation<T> {
    /// What it came to.
    pub result: T,
    /// What the world was asked for.
    pub computed: Vec<Answer>,
}

impl<T> FieldEvaluation<T> {
    /// What was known without asking the world.
    pub fn known(result: T) -> Self {
        Self { result, computed: Vec::new() }
    }
}

/// Fields: their value, or those that have none.
pub type EvaluatedFields<T> = FieldEvaluation<Result<T, FieldErrors>>;

/// What `secrets` gives where something is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretView {
    /// Masks. Everything that is recorded, told or compared is made of these.
    Masked,
    /// Their values, for an effect that is about to be performed. What is evaluated is told to nobody.
    Revealed,
    /// Words of the driver that stand for them, for an effect that is performed where somebody else looks them up.
    Named,
}

/// An execution of a step, and the names that it sees.
#[derive(Clone, Copy)]
pub struct StepSite<'s> {
    /// The plan of the run.
    pub plan: &'s Plan,
    /// The execution that is evaluated.
    pub task: &'s Task,
    /// The names that are visible.
    pub view: &'s View,
    /// What it sees of secrets.
    pub secrets: SecretView,
}

impl<'s> StepSite<'s> {
    /// The step of the execution.
    pub fn step(self) -> &'s Step {
        &self.plan.steps[self.task.step as usize].step
    }

    /// Where something is evaluated that computes this again.
    pub fn with(self, earlier: &'s [Answer]) -> Site<'s> {
        Site { plan: self.plan, task: Some(self.task), view: self.view, earlier, secrets: self.secrets }
    }
}

/// Where something is evaluated.
#[derive(Clone, Copy)]
pub struct Site<'s> {
    /// The plan of the run.
    pub plan: &'s Plan,
    /// The execution; none outside of every step.
    pub task: Option<&'s Task>,
    /// The names that are visible.
    pub view: &'s View,
    /// What was computed before: it is the same again.
    pub earlier: &'s [Answer],
    /// What is seen of secrets.
    pub secrets: SecretView,
}

/// What the run that this one continues recorded in the same place.
pub struct EarlierResult {
    /// The event that recorded it, in the run that made it.
    pub maker: KeptMaker,
    /// What that event says: of the fields of a step that it completed, of a list its items, of a state its
    /// judgement.
    pub what: EventKind,
    /// What was computed for it.
    pub answers: Vec<Answer>,
    /// The hash of what it depends on, of the fields of a step.
    pub work: Option<Hash>,
    /// The details of a judgement.
    pub details: Value,
}

/// Is told the folder of a step, before the fields are evaluated that may be relative to it, and may refuse it.
pub type EnterFolder<'e> = dyn Fn(EnteredFolder<'_>) -> Result<(), String> + 'e;

/// Whoever drives a run.
///
/// Whatever an evaluation computes comes back with its result; entries of `context` that are evaluated on the way are the
/// driver's to record.
pub trait Driver {
    /// Why the journal cannot be read or written.
    type Error;

    /// The time, on both clocks.
    fn moment(&mut self) -> ClockReading;

    /// Whether an agent may be asked once more in an execution, which has used `used` since the last event of its own:
    /// what the machine says to it, the machines of the runs that called this one, and whoever lets so many calls begin
    /// at once. Where nothing is spent there is no budget.
    fn admit(&mut self, _at: &Address, _used: &Spend, _call: &AgentCall) -> CallAdmission {
        CallAdmission::Now
    }

    /// The provider of an agent asks not to be asked for so long.
    fn leave_alone(&mut self, _call: &AgentCall, _pause: Duration) {}

    /// How often the judge of an execution could not be asked by now, this time included. A driver that does not count
    /// that gives none, and the judge is not asked again.
    fn unanswered(&mut self, _at: &Address) -> Option<u32> {
        None
    }

    /// The judge of an execution is asked again after a pause, because of a failure: before that it is not admitted.
    fn judge_waits(&mut self, _at: &Address, _failure: &Failure, _pause: Duration) {}

    /// A number from 0 to 1 that spreads pauses.
    fn spread(&mut self) -> f64;

    /// A value as the journal keeps it: in the event, or by its hash.
    fn keep(&mut self, value: &Value) -> Result<Datum, Self::Error>;

    /// The envelope that an event recorded.
    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, Self::Error>;

    /// An event that is on disk.
    fn event(&mut self, seq: Seq) -> Result<Event, Self::Error>;

    /// What the attempt computed that an event began.
    fn answers(&mut self, seq: Seq) -> Result<Vec<Answer>, Self::Error>;

    /// What the run that this one continues recorded when it evaluated the same of a step; nothing where this
    /// run continues none, or that one did not come so far.
    fn earlier(
        &mut self,
        _site: StepSite<'_>,
        _evaluated: Evaluated,
    ) -> Result<Option<EarlierResult>, Self::Error> {
        Ok(None)
    }

    /// What is recorded in place of an exchange with an agent; nothing where the agent itself is asked.
    fn recorded(&mut self, _key: &EffectKey) -> Result<Option<ExchangeRecord>, Self::Error> {
        Ok(None)
    }

    /// The answer that was kept of an agent that was asked exactly this.
    fn kept_answer(&mut self, _asked: &ExchangeRequest) -> Option<Answered> {
        None
    }

    /// Keeps an answer for whoever asks the same.
    fn keep_answer(&mut self, _asked: &ExchangeRequest, _answered: &Answered) {}

    /// Takes an exchange with an agent to record it. It asks for it when a record is made.
    fn exchanged(&mut self, _key: &EffectKey, _exchange: &dyn Fn() -> (ExchangeRequest, Answered)) {}

    /// The values of all items of a list in order: null for an item that failed or was skipped.
    fn item_values(
        &mut self,
        task: &Task,
        list: Seq,
        total: u64,
    ) -> Result<Result<Value, Failure>, Self::Error>;

    /// Stores the results of the items of a map in order: of an item that was done again the last one.
    fn store_results(&mut self, task: &Task, list: Seq) -> Result<Datum, Self::Error>;

    /// Stored results, as they are read by name.
    fn rows(&mut self, results: &Datum) -> Result<ScopeEntry, Self::Error>;

    /// Shows problems and warnings of a step to the person who watches.
    fn report(&mut self, at: &Address, problems: Vec<Problem>);

    /// The scope of a view.
    fn scope(&mut self, view: &View) -> Result<Scope, Self::Error>;

    /// Evaluates something in the names of a site.
    fn evaluate<T>(
        &mut self,
        site: Site<'_>,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>, &EnterFolder<'_>) -> T,
    ) -> Result<FieldEvaluation<T>, Self::Error>;

    /// Evaluates the condition `when` of a step.
    fn condition(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Decision>, Self::Error> {
        decide(self, site)
    }

    /// Evaluates the source of a list and the rules for its items.
    fn list(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Expansion>, Self::Error> {
        expand(self, site)
    }

    /// Evaluates all fields of a step. An attempt that was running at a crash computes the same values again.
    fn fields(
        &mut self,
        site: StepSite<'_>,
        attempt: Attempt,
    ) -> Result<EvaluatedFields<Resolved>, Self::Error> {
        resolve(self, site, attempt)
    }

    /// Evaluates what a list expects of its results. Only entries of `context` are computed for that.
    fn expectation(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Option<Settled>>, Self::Error> {
        let expect = site.step().expect.as_ref();
        self.evaluate(site.with(&[]), |scope, session, _| {
            expect.map(|expect| evaluate::settle(&expect.value, scope, session)).transpose()
        })
    }

    /// Evaluates the aggregates of a map over its stored results.
    fn aggregates(
        &mut self,
        site: StepSite<'_>,
        map: &Value,
        results: &Datum,
    ) -> Result<EvaluatedFields<Value>, Self::Error> {
        let rows = self.rows(results)?;
        self.evaluate(site.with(&[]), |scope, session, _| {
            select::aggregates(site.plan, &with_map(scope, map, rows), session)
        })
    }

    /// Evaluates the variables that a phase leaves, an object.
    fn variables(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Value>, Self::Error> {
        self.evaluate(site.with(&[]), |scope, session, _| match &site.step().action {
            Action::Phase(phase) => select::variables(phase, scope, session),
            _ => Ok(Value::NULL),
        })
    }

    /// Makes the question to the judge of a state, or the verdict where it cannot be asked.
    fn question(
        &mut self,
        site: StepSite<'_>,
        judge: &Judge,
        earlier: &[Answer],
    ) -> Result<FieldEvaluation<Result<Question, Verdict>>, Self::Error> {
        make_question(self, site, judge, earlier)
    }

    /// Judges a state, where a judge has not done so, and finds the state that follows.
    fn judgement(
        &mut self,
        site: StepSite<'_>,
        verdict: Option<Verdict>,
        earlier: &[Answer],
    ) -> Result<FieldEvaluation<Judgement>, Self::Error> {
        judge_state(self, site, verdict, earlier)
    }
}

// What is evaluated in a run: for a driver that replaces only some of what it comes to.

pub(crate) fn decide<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
) -> Result<EvaluatedFields<Decision>, D::Error> {
    let earlier = earlier_answers(driver, site, Evaluated::Condition)?;
    driver.evaluate(site.with(&earlier), |scope, session, _| evaluate::decide(site.step(), scope, session))
}

/// What was computed for the same in the run that this one continues.
fn earlier_answers<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
    evaluated: Evaluated,
) -> Result<Vec<Answer>, D::Error> {
    let earlier = if site.view.may_keep { driver.earlier(site, evaluated)? } else { None };
    Ok(earlier.map(|earlier| earlier.answers).unwrap_or_default())
}

pub(crate) fn expand<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
) -> Result<EvaluatedFields<Expansion>, D::Error> {
    let (plan, step) = (site.plan, site.task.step);
    let earlier = earlier_answers(driver, site, Evaluated::List)?;
    driver.evaluate(site.with(&earlier), |scope, session, _| select::expand(plan, step, scope, session))
}

pub(crate) fn resolve<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
    attempt: Attempt,
) -> Result<EvaluatedFields<Resolved>, D::Error> {
    let began = attempt.began.filter(|_| attempt.rerun);
    let earlier = began.map(|seq| driver.answers(seq)).transpose()?.unwrap_or_default();
    driver.evaluate(site.with(&earlier), |scope, session, enter| {
        evaluate::resolve(site.plan, site.task.step, scope, session, enter)
    })
}

pub(crate) fn make_question<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
    judge: &Judge,
    earlier: &[Answer],
) -> Result<FieldEvaluation<Result<Question, Verdict>>, D::Error> {
    evaluate_judged(driver, site, earlier, |judged, unable, session, enter| match unable {
        Some(verdict) => Err(verdict),
        None => judged.question(judge, session, enter),
    })
}

pub(crate) fn judge_state<D: Driver + ?Sized>(
    driver: &mut D,
    site: StepSite<'_>,
    verdict: Option<Verdict>,
    earlier: &[Answer],
) -> Result<FieldEvaluation<Judgement>, D::Error> {
    evaluate_judged(driver, site, earlier, |judged, unable, session, _| {
        let verdict = verdict.or(unable).unwrap_or_else(|| judged.verdict(session));
        judged.route(verdict, session)
    })
}

/// Evaluates what judges a state, with what the state left. There is a verdict where one of its own values has none.
fn evaluate_judged<D: Driver + ?Sized, T>(
    driver: &mut D,
    site: StepSite<'_>,
    earlier: &[Answer],
    evaluate: impl FnOnce(&JudgedState<'_>, Option<Verdict>, &mut Session<'_>, &EnterFolder<'_>) -> T,
) -> Result<FieldEvaluation<T>, D::Error> {
    let StepSite { plan, task, view, .. } = site;
    let result = view.result.map(|seq| driver.envelope(seq)).transpose()?;
    let acting = view.acting.as_deref().map(|view| driver.scope(view)).transpose()?;
    let state = StateView::of(view, &task.at);
    driver.evaluate(site.with(earlier), |scope, session, enter| {
        let (scope, unable) = judge::scope_of(plan, task.step, acting.as_ref(), scope, session);
        let (scope, result) = (&scope, result.as_deref());
        let judged = JudgedState { plan, step: task.step, scope, result, state: &state };
        evaluate(&judged, unable, session, enter)
    })
}
