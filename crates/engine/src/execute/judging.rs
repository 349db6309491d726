//! Loops: the limits that hold for one, and the judgement of each state.

use std::time::Duration;

use ecow::eco_format;
use threadline_flow::model::{Evaluator, Judge, Moment};
use threadline_lang::diag::excerpt;
use threadline_lang::{Scope, Session};

use super::attempt::{limits_of, serve, shorten};
use super::effect::{Effect, EffectKey, EffectLimits, EffectResult, Role};
use super::result::{ClockReading, some_spent};
use super::{
    AgentCall, Barrier, CallAdmission, Driver, Durability, EarlierResult, EnterFolder, Executor,
    FieldEvaluation, Next, Pending, PendingStage, Performance,
};
use super::{call_lost, keep_computed, record, secrets};
use crate::agent::chat::Chat;
use crate::agent::conversation::lost;
use crate::agent::exchange::{Answered, AskedAgent, ExchangeRequest, Served};
use crate::agent::{self, AgentSurroundings, Provider, Reading};
use crate::evaluate::{self, Act, Resolved, RetryPlan};
use crate::event::{Address, ERROR, EventKind, JudgeReply, JudgedEvent, KeptMaker};
use crate::judge::{Judgement, Question, Verdict};
use crate::machine::{Outcome, Task};
use crate::replay::Evaluated;
use crate::spend::Spend;
use crate::view::{Limit, View};
use crate::world::Answer;

/// A judge is being asked.
pub(super) struct PendingVerdict {
    pub(super) task: Task,
    pub(super) view: View,
    pub(super) question: Question,
    provider: Box<dyn Provider>,
    asking: AskedJudge,
    /// Who is asked, and how often that may be.
    call: AgentCall,
    cut_short: Option<Limit>,
    began: ClockReading,
    /// What the question had to compute.
    pub(super) computed: Vec<Answer>,
}

/// What a judge is asked.
struct AskedJudge {
    key: EffectKey,
    /// The question, as data.
    asked: ExchangeRequest,
    /// What answers in its place, or why nothing does.
    served: Option<Served>,
    /// The bounds on the answer, and whether the judge itself set the time.
    bounds: (EffectLimits, bool),
}

/// What came of asking a judge; nothing for a state that has none.
#[derive(Default)]
struct JudgeOutcome {
    verdict: Option<Verdict>,
    /// What the question had to compute.
    computed: Vec<Answer>,
    /// What an earlier run computed for the judgement, of a state that has no judge.
    earlier: Vec<Answer>,
    reply: Option<JudgeReply>,
    /// Where it was asked, when another run did.
    kept: Option<KeptMaker>,
}

impl JudgeOutcome {
    /// The verdict where nobody could be asked.
    fn of(verdict: Verdict, computed: Vec<Answer>) -> Self {
        Self { verdict: Some(verdict), computed, ..Self::default() }
    }
}

impl PendingVerdict {
    /// What a call of the judge counts as that was stopped in flight.
    pub(super) fn lost(&self, now: ClockReading) -> Option<(Address, Spend)> {
        let elapsed = self.began.until(now).elapsed;
        self.asking.served.is_none().then(|| (self.task.at.clone(), lost(&*self.provider, elapsed)))
    }
}

impl Executor<'_> {
    /// Finds out the limits of a run. One whose limits have no value has failed.
    pub(super) fn resolve_limits<D: Driver>(self, driver: &mut D, view: &View) -> Result<Next, D::Error> {
        let limits_of = |scope: &Scope, session: &mut Session<'_>, _: &EnterFolder<'_>| {
            evaluate::limits(&self.plan.workflow, scope, session)
        };
        let FieldEvaluation { result, computed } = driver.evaluate(self.outside(view), limits_of)?;
        match result {
            Ok(limits) => {
                let kind = EventKind::LimitsResolved { computed: keep_computed(driver, &computed)?, limits };
                Ok(record(Address::default(), kind, Durability::Now))
            }
            Err(errors) => {
                self.report(driver, &Address::default(), &errors);
                self.end(driver, Outcome::Failed, (None, 0), &Spend::default(), view)
            }
        }
    }

    /// Judges a state, by asking its judge where it has one.
    pub(super) fn judge<D: Driver>(self, driver: &mut D, task: Task, view: View) -> Result<Next, D::Error> {
        let site = self.site(&task, &view);
        let earlier = if view.may_keep { driver.earlier(site, Evaluated::Judgement)? } else { None };
        if let Some(Evaluator::Agent(judge)) = self.step(&task).evaluator() {
            return self.ask(driver, task, view, judge, earlier);
        }
        let earlier = earlier.map(|earlier| earlier.answers).unwrap_or_default();
        let outcome = JudgeOutcome { earlier, ..JudgeOutcome::default() };
        self.record_judgement(driver, task, &view, outcome)
    }

    fn ask<D: Driver>(
        self,
        driver: &mut D,
        task: Task,
        view: View,
        judge: &Judge,
        earlier: Option<EarlierResult>,
    ) -> Result<Next, D::Error> {
        let answers = earlier.as_ref().map_or(&[][..], |earlier| &earlier.answers);
        let FieldEvaluation { result, computed } =
            driver.question(self.site(&task, &view), judge, answers)?;
        let mut question = match result {
            Ok(question) => question,
            Err(verdict) => {
                return self.record_judgement(driver, task, &view, JudgeOutcome::of(verdict, computed));
            }
        };
        if let Some((verdict, reply, maker)) = earlier.and_then(|earlier| same_answer(earlier, &question)) {
            let (reply, kept) = (Some(reply), Some(maker));
            let outcome = JudgeOutcome { reply, kept, ..JudgeOutcome::of(verdict, computed) };
            return self.record_judgement(driver, task, &view, outcome);
        }
        let cut_short = match shorten(&mut question.resolved, view.limit, driver.moment().time) {
            Ok(cut_short) => cut_short,
            Err(failure) => {
                let verdict = Verdict::error(failure.message);
                return self.record_judgement(driver, task, &view, JudgeOutcome::of(verdict, computed));
            }
        };
        let limits = limits_of(&question.resolved);
        let Resolved { act: Act::Agent { agent, message, .. }, env, cwd, .. } = &question.resolved else {
            let verdict = Verdict::error("nobody was asked");
            return self.record_judgement(driver, task, &view, JudgeOutcome::of(verdict, computed));
        };
        let call = agent.call();
        let mut provider = agent::provider(agent.clone());
        let (limits, is_call_limit) = agent::call_limits(agent.timeout(), limits);
        let surroundings = AgentSurroundings { env: env.clone(), cwd: cwd.clone(), limits };
        let chat = Chat::new(message.clone(), None);
        let asked = ExchangeRequest::message(&AskedAgent::new(agent, &surroundings), &chat);
        let effect = provider.ask(&chat, surroundings);
        let (at, as_of) = (task.at.clone(), task.as_of);
        let key = EffectKey { at, as_of, attempt: 1, role: Role::Judge, exchange: 0 };
        let served = serve(driver, &key, self.keeps_verdicts(judge), || asked.clone())?;
        if view.in_doubt && served.is_none() {
            return Ok(call_lost(task.at, lost(&*provider, Duration::ZERO), true));
        }
        match driver.admit(&task.at, &Spend::default(), &call) {
            CallAdmission::Now => {}
            CallAdmission::Later(pause) => {
                let pause = super::no_longer_than(pause, view.limit, driver.moment().time);
                return Ok(Next::Later(task.at, pause));
            }
            CallAdmission::OverBudget(reached) => return Ok(Next::Hold(task.at, reached)),
        }
        // What is judged is on disk before the judge hears of it: the action is not done again.
        let barrier = Barrier::Event(view.as_of);
        let began = driver.moment();
        // The judge runs in the surroundings of the state, whose fields are those of an attempt.
        let reads_secrets = self.reads_secrets(&task, &[Moment::Attempt, Moment::Judgement]);
        let effect = match effect {
            _ if served.is_some() => Effect::Nothing,
            effect if reads_secrets => Effect::WithSecrets(Box::new(effect)),
            effect => effect,
        };
        let performed = key.clone();
        let asking = AskedJudge { key, asked, served, bounds: (limits, is_call_limit) };
        let pending =
            PendingVerdict { task, view, question, provider, asking, call, cut_short, began, computed };
        let pending = Pending(PendingStage::Judge(Box::new(pending)));
        Ok(Next::Perform(Box::new(Performance { before: None, barrier, key: performed, effect, pending })))
    }

    /// The judge has answered, or failed to.
    pub(super) fn answered<D: Driver>(
        self,
        driver: &mut D,
        pending: PendingVerdict,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        let PendingVerdict { task, view, question, provider, asking, call, cut_short, began, computed } =
            pending;
        let (limits, is_call_limit) = &asking.bounds;
        let (result, leaked) = result.split_leaked();
        let refused = match (&result, &asking.served) {
            (EffectResult::Refused(failure), _) | (_, Some(Served::Nothing(failure))) => {
                Some(failure.clone())
            }
            _ => secrets::leak(self.step(&task), &leaked),
        };
        let (is_call_limit, cut_short) = (*is_call_limit, cut_short.as_ref().filter(|_| !is_call_limit));
        let reading = Reading { limits, cut_short, is_call_limit, accepts_exit_codes: false };
        let reply = match &asking.served {
            Some(Served::Recorded(answered) | Served::Kept(answered)) => answered.reply(0),
            _ => provider.reply(result, &reading),
        };
        if let (Some(pause), None) = (reply.transient.filter(|pause| !pause.is_zero()), &asking.served) {
            driver.leave_alone(&call, pause);
        }
        if let (Some(asked_for), Err(failure), None, None) =
            (reply.transient, &reply.answer, &asking.served, &refused)
            && let Some(pause) = next_pause(driver, &task.at, asked_for)
        {
            let pause = super::no_longer_than(Some(pause), view.limit, driver.moment().time);
            driver.judge_waits(&task.at, failure, pause.unwrap_or_default());
            let spent = reply.spent();
            return Ok(if spent.is_nothing() {
                // Nothing was said and nothing is paid: it has not been asked yet.
                Next::Later(task.at, pause)
            } else {
                call_lost(task.at, spent, true)
            });
        }
        if refused.is_none() {
            driver.exchanged(&asking.key, &|| (asking.asked.clone(), Answered::of_reply(&reply)));
        }
        let timing = reply.timing.unwrap_or_else(|| began.until(driver.moment()));
        let answered = asking.served.is_none().then(|| Answered::of_reply(&reply));
        let recorded = JudgeReply {
            answer: reply.printed.as_ref().map(|printed| driver.keep(printed)).transpose()?,
            stderr: reply.stderr.as_ref().map(|stderr| driver.keep(stderr)).transpose()?,
            elapsed_ms: u64::try_from(timing.elapsed.as_millis()).unwrap_or(u64::MAX),
            asked: Some(question.asked()),
            spent: some_spent(&reply.spent()),
        };
        let verdict = match refused.map_or(reply.answer, Err) {
            Ok(text) => question.answered(&text),
            Err(failure) => {
                let agent = question.agent();
                let said = reply.stderr.map(|said| format!("; it says {}", excerpt(&said)));
                let said = said.unwrap_or_default();
                Verdict::error(eco_format!("the judge `{agent}` gave no answer: {}{said}", failure.message))
            }
        };
        if let (Some(answered), Some(Evaluator::Agent(judge))) = (answered, self.step(&task).evaluator())
            && self.keeps_verdicts(judge)
            && verdict.verdict != ERROR
        {
            driver.keep_answer(&asking.asked, &answered);
        }
        let outcome = JudgeOutcome { reply: Some(recorded), ..JudgeOutcome::of(verdict, computed) };
        self.record_judgement(driver, task, &view, outcome)
    }

    /// Whether what a judge says is kept for later runs.
    fn keeps_verdicts(self, judge: &Judge) -> bool {
        self.plan.workflow.agent(&judge.agent.value).is_some_and(|agent| agent.cache)
    }

    fn record_judgement<D: Driver>(
        self,
        driver: &mut D,
        task: Task,
        view: &View,
        outcome: JudgeOutcome,
    ) -> Result<Next, D::Error> {
        let JudgeOutcome { verdict, mut computed, earlier, reply, kept } = outcome;
        let known = if earlier.is_empty() { &computed } else { &earlier };
        let judgement = driver.judgement(self.site(&task, view), verdict, known)?;
        computed.extend(judgement.computed);
        let Judgement { verdict, to, fingerprint, .. } = judgement.result;
        let judged = JudgedEvent {
            as_of: task.as_of,
            computed: keep_computed(driver, &computed)?,
            verdict: verdict.verdict,
            confidence: verdict.confidence,
            reason: verdict.reason,
            details: driver.keep(&verdict.details)?,
            measured: verdict.measured,
            to,
            fingerprint,
            reply,
            kept,
        };
        // Whoever acts upon it waits until it is on disk. What only leads to another judgement need not hurry.
        let is_awaited = view.result.is_some() || !judged.computed.is_empty();
        let durability = if is_awaited { Durability::Now } else { Durability::Later };
        Ok(record(task.at, EventKind::Judged(Box::new(judged)), durability))
    }
}

/// How long to wait before a judge that could not answer is asked again; none when it was asked often enough.
fn next_pause<D: Driver>(driver: &mut D, at: &Address, asked_for: Duration) -> Option<Duration> {
    let tries = driver.unanswered(at)?;
    // What the provider asks for is not shortened.
    RetryPlan::PASSING.pause(tries, driver.spread()).map(|pause| pause.max(asked_for))
}

/// What a judge said in an earlier run, where it was asked the same and had an answer.
fn same_answer(earlier: EarlierResult, question: &Question) -> Option<(Verdict, JudgeReply, KeptMaker)> {
    let EventKind::Judged(judged) = earlier.what else { return None };
    let judged = *judged;
    let reply = judged.reply.filter(|reply| reply.asked == Some(question.asked()))?;
    let verdict = Verdict {
        verdict: judged.verdict,
        confidence: judged.confidence,
        reason: judged.reason,
        details: earlier.details,
        measured: judged.measured,
    };
    (verdict.verdict != ERROR).then_some((verdict, reply, earlier.maker))
}
