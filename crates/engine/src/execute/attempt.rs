//! One attempt of a step: from its fields to the effect, and from what came of that to the event.

use std::time::Duration;

use ecow::EcoString;
use threadline_expect::Settled;
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::{
    Action, CaptureFormat, FailureFacts, Moment, OnCrash, RetryConditions, Step, Workflow,
};
use threadline_flow::problem::{self, Problem};
use threadline_flow::shell::{BoundScript, ScriptPiece};
use threadline_lang::Value;

use super::effect::{
    Attempt, CallEnd, CallSpec, Effect, EffectKey, EffectLimits, EffectResult, EffectText, FileSpec, Pieces,
    ProcessEnd, ProcessSpec, RequestSpec, Role, StartFailure, ToolSpec,
};
use super::result::{self, ClockReading, Printed, StepResult, Timing};
use super::secrets::{self, SecretFields};
use super::{
    Barrier, CallAdmission, Driver, Durability, EarlierResult, Executor, FieldEvaluation, Next, Pending,
    PendingStage, Performance, Recording,
};
use super::{call_lost, item_in_worktree, keep_computed, response};
use crate::agent::chat::{Chat, TokenUsage};
use crate::agent::conversation::{AgentConversation, ExchangeResult, Exchanged};
use crate::agent::exchange::{Answered, ExchangeRequest, Served};
use crate::agent::thread::Thread;
use crate::agent::{self, Reading};
use crate::evaluate::{self, Act, Resolved, RetryPlan};
use crate::event::{Address, ContinuedThread, EventKind, KeptResult, Millis};
use crate::machine::Task;
use crate::replay::Evaluated;
use crate::spend::Spend;
use crate::view::{Limit, View};

/// The shell of a step that names none. Its text was read as this shell reads it, so no other may run it.
const DEFAULT_SHELL: &str = "bash";

/// An argument of a program holds at most 128 KiB; a longer script is read from a file.
const MAX_SCRIPT: usize = 120 << 10;

/// An attempt whose effect is being performed.
pub(super) struct PendingAttempt {
    pub(super) task: Task,
    pub(super) attempt: Attempt,
    pub(super) began: ClockReading,
    retry: RetryPlan,
    expect: Option<Settled>,
    limits: EffectLimits,
    /// The limit of the item, phase, loop or run around the step.
    pub(super) limit: Option<Limit>,
    /// The same, where it left the attempt less time than its own.
    pub(super) cut_short: Option<Limit>,
    /// What the attempt comes to when its effect is nothing.
    pub(super) known: Option<StepResult>,
    /// The meta data that is known before the effect.
    own: Vec<(&'static str, Value)>,
    /// What the built-in tool that the step stands for was given.
    parameters: Option<Value>,
    /// The conversation with the agent that the step asks.
    pub(super) conversation: Option<Box<AgentConversation>>,
    /// What answers the agent in place of its effect, or why nothing does.
    served: Option<Served>,
    /// Whether answers are kept for later runs.
    keeps_answers: bool,
    /// The answers that are kept when the attempt has gone well.
    to_keep: Vec<(ExchangeRequest, Answered)>,
    /// The thread that it continued, as it is when the attempt has gone well.
    thread: Option<(String, Thread)>,
    /// When the effect that is being performed was made.
    asked_at: ClockReading,
    /// The time that was left to the attempt when its effect was made.
    pub(super) left: Option<Duration>,
    /// What its effect is made of again where its fields read secrets.
    pub(super) secret: Option<Box<SecretFields>>,
}

/// What an attempt left, with what was measured.
struct ObservedAttempt {
    result: StepResult,
    timing: Timing,
    own: Vec<(&'static str, Value)>,
    /// Of a failure that may pass: how long to wait at least before the same is tried again.
    transient: Option<Duration>,
    /// What agents used for it.
    spent: Spend,
}

/// What becomes of an attempt in a run that continues another one.
enum KeepDecision {
    /// The result of the other run is kept.
    Kept(Next),
    /// It is made, with these fields where they were resolved already.
    Again(Option<Box<Resolved>>),
}

impl Executor<'_> {
    pub(super) fn start<D: Driver>(
        self,
        driver: &mut D,
        task: Task,
        view: &View,
        attempt: Attempt,
    ) -> Result<Next, D::Error> {
        let began = driver.moment();
        let known = match self.keep(driver, &task, view, attempt)? {
            KeepDecision::Kept(next) => return Ok(next),
            KeepDecision::Again(known) => known,
        };
        let FieldEvaluation { result, computed } = match known {
            Some(resolved) => FieldEvaluation::known(Ok(*resolved)),
            None => driver.fields(self.site(&task, view), attempt)?,
        };
        let mut resolved = match result {
            Ok(resolved) => resolved,
            Err(errors) => {
                return self.field_errors(driver, &task, &errors, &computed, began, attempt.retries());
            }
        };
        let hashes = resolved.hashes(self.plan, task.step);
        let cut_short = match shorten(&mut resolved, view.limit, driver.moment().time) {
            Ok(cut_short) => cut_short,
            Err(failure) => return self.finish_unrun(driver, &task, failure, attempt.retries()),
        };
        let step = self.step(&task);
        let is_careful = !computed.is_empty()
            // Its files are put back only where it is known that it began.
            || item_in_worktree(self.plan, &task.at).is_some();
        let kind = EventKind::Started {
            as_of: task.as_of,
            attempt: attempt.number,
            rerun: attempt.rerun,
            computed: keep_computed(driver, &computed)?,
            fields: hashes.fields,
            work: Some(hashes.work),
        };
        if let Act::Shell { bound } = &resolved.act
            && !bound.warnings.is_empty()
        {
            driver.report(&task.at, self.shell_warnings(step, bound));
        }
        let at = task.at.clone();
        let mut key = attempt_key(&task, attempt, 0);
        let timeout = resolved.timeout;
        let reads_secrets = self.reads_secrets(&task, &[Moment::Attempt]);
        let (mut pending, mut effect) = self.attempt_effect(task, step, resolved, attempt, began, cut_short);
        pending.limit = view.limit;
        if let Some(conversation) = pending.conversation.as_mut().filter(|_| !view.exchanges.is_empty()) {
            for exchange in &view.exchanges {
                conversation.restore(&*driver.envelope(*exchange)?);
            }
            key.exchange = conversation.exchanges();
            effect = conversation.next(None);
        }
        pending.keeps_answers = self.plan.workflow.keeps_answers(step);
        if let Some(conversation) = &pending.conversation {
            pending.served = serve(driver, &key, pending.reads_kept(conversation), || conversation.asked())?;
            if attempt.rerun && view.in_doubt && pending.served.is_none() && conversation.asks_agent() {
                // It is asked when what it may have cost is written.
                return Ok(call_lost(at, conversation.lost(Duration::ZERO), true));
            }
            match driver.admit(&at, &Spend::default(), conversation.call()) {
                CallAdmission::Now => {}
                CallAdmission::Later(pause) => {
                    let pause = super::no_longer_than(pause, view.limit, driver.moment().time);
                    return Ok(Next::Later(at, pause));
                }
                CallAdmission::OverBudget(reached) => return Ok(Next::Hold(at, reached)),
            }
        }
        if pending.served.is_some() {
            effect = Effect::Nothing;
        }
        // What a record answers costs nothing, and is answered the same once more.
        let is_costly = pending.served.is_none() && is_costly(&self.plan.workflow, step, &effect);
        let (durability, barrier) = if is_careful || is_costly {
            (Durability::Now, Barrier::Recorded)
        } else if let Effect::Nothing = effect {
            (Durability::Later, Barrier::Nothing)
        } else {
            (Durability::Written, Barrier::Written)
        };
        let before = Some(Recording { at: key.at.clone(), kind, durability, envelope: None });
        let effect = match effect {
            Effect::Nothing => Effect::Nothing,
            effect if reads_secrets => {
                pending.secret = Some(Box::new(SecretFields { view: view.clone(), computed, timeout }));
                Effect::WithSecrets(Box::new(effect))
            }
            effect => effect,
        };
        let pending = Pending(PendingStage::Attempt(Box::new(pending)));
        Ok(Next::Perform(Box::new(Performance { before, barrier, key, effect, pending })))
    }

    /// What a call of an agent counts as that was in flight at a crash, of a step that is not done again.
    pub(super) fn lost_at_crash<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
    ) -> Result<Spend, D::Error> {
        let step = self.step(task);
        if !view.in_doubt || !matches!(step.action, Action::Agent { .. }) {
            return Ok(Spend::default());
        }
        let attempt = Attempt { number: view.attempts, base: 0, rerun: true, began: view.started };
        let FieldEvaluation { result, .. } = driver.fields(self.site(task, view), attempt)?;
        let Ok(resolved) = result else {
            return Ok(Spend::of_turn(&TokenUsage::default(), Duration::ZERO));
        };
        let began = driver.moment();
        let (pending, _) = self.attempt_effect(task.clone(), step, resolved, attempt, began, None);
        let Some(mut conversation) = pending.conversation else { return Ok(Spend::default()) };
        for exchange in &view.exchanges {
            conversation.restore(&*driver.envelope(*exchange)?);
        }
        // The effect is not performed; it says what is asked.
        drop(conversation.next(None));
        let asks = conversation.asks_agent();
        Ok(if asks { conversation.lost(Duration::ZERO) } else { Spend::default() })
    }

    /// Whether what an earlier run left stands for an attempt: that run did the same, with the values that were
    /// computed then, and it went well.
    fn keep<D: Driver>(
        self,
        driver: &mut D,
        task: &Task,
        view: &View,
        attempt: Attempt,
    ) -> Result<KeepDecision, D::Error> {
        let site = self.site(task, view);
        let is_first = attempt.number == 1 && !attempt.rerun;
        let earlier = if view.may_keep && is_first { driver.earlier(site, Evaluated::Fields)? } else { None };
        let Some(EarlierResult { maker, what: EventKind::Finished { output, .. }, answers, work, .. }) =
            earlier
        else {
            return Ok(KeepDecision::Again(None));
        };
        let FieldEvaluation { result, computed } = driver
            .evaluate(site.with(&answers), |scope, session, enter| {
                evaluate::resolve(self.plan, task.step, scope, session, enter)
            })?;
        // Why a field has no value is told by whoever evaluates it for the attempt.
        let Ok(resolved) = result else { return Ok(KeepDecision::Again(None)) };
        let now = resolved.work(self.plan, task.step);
        if work != Some(now) {
            // What was computed for the earlier run is not for what is done anew.
            return Ok(KeepDecision::Again(computed.is_empty().then(|| Box::new(resolved))));
        }
        let computed = keep_computed(driver, &computed)?;
        let kept =
            KeptResult { as_of: task.as_of, maker, computed, fields: resolved.fingerprint(), work: now };
        let kind = EventKind::Finished { output, results: None, kept: Some(Box::new(kept)) };
        Ok(KeepDecision::Kept(super::record(task.at.clone(), kind, Durability::Later)))
    }

    fn shell_warnings(self, step: &Step, bound: &BoundScript) -> Vec<Problem> {
        let text = self.plan.workflow.file.text();
        let origin = match &step.action {
            Action::Shell { text, .. } => &text.origin,
            _ => &step.origin,
        };
        bound.warnings.iter().map(|warning| problem::of_shell(warning, origin, text)).collect()
    }

    pub(super) fn attempt_effect(
        self,
        task: Task,
        step: &Step,
        resolved: Resolved,
        attempt: Attempt,
        began: ClockReading,
        cut_short: Option<Limit>,
    ) -> (PendingAttempt, Effect) {
        let limits = limits_of(&resolved);
        let parameters = step.tool.as_ref().map(|_| parameters(step, &resolved.act));
        // A field that is added to it does not compile before it has an effect here. Two are in the limits.
        let Resolved { act, env, cwd, timeout, idle_timeout: _, max_output: _, retry, expect } = resolved;
        let mut pending = PendingAttempt {
            task,
            attempt,
            began,
            retry,
            expect,
            limits,
            limit: cut_short,
            cut_short,
            known: None,
            own: Vec::new(),
            parameters,
            conversation: None,
            served: None,
            keeps_answers: false,
            to_keep: Vec::new(),
            thread: None,
            asked_at: began,
            left: None,
            secret: None,
        };
        let effect = match act {
            Act::Value(value) => {
                pending.known = Some(StepResult::silent(Ok(value)));
                Effect::Nothing
            }
            Act::Assert(assertion) => {
                pending.known = Some(assertion.result());
                Effect::Nothing
            }
            Act::Wait(duration) => {
                let waited = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
                let value = Value::record([(names::WAITED_MS, waited.into())]);
                // A wait that outlasts the time around it ends with that.
                let over = timeout.filter(|timeout| *timeout < duration);
                let result = match over {
                    Some(_) => Err(result::timed_out(pending.limits.timeout, pending.cut_short.as_ref())),
                    None => Ok(value),
                };
                pending.known = Some(StepResult::silent(result));
                Effect::Pause(over.unwrap_or(duration))
            }
            Act::Fail(message) => {
                pending.known = Some(StepResult::failed(Failure::new(FailureKind::Fail, message)));
                Effect::Nothing
            }
            Act::Made { value, meta } => {
                pending.known = Some(StepResult::silent(Ok(value)));
                pending.own = meta;
                Effect::Nothing
            }
            Act::WriteFile { path, content, mode, create_dirs } => {
                let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
                let written =
                    [(names::PATH.into(), path.as_str().into()), (names::BYTES.into(), bytes.into())];
                pending.known = Value::object(written).ok().map(|written| StepResult::silent(Ok(written)));
                Effect::WriteFile(FileSpec { path, content, mode, create_dirs, cwd })
            }
            Act::Tool(call) => {
                pending.own = vec![
                    (names::TOOL_NAME, Value::from(format!("{}.{}", call.server.name, call.tool))),
                    (names::PARAMETERS, call.params.clone()),
                ];
                Effect::Tool(ToolSpec { call, limits })
            }
            Act::Workflow(call) => Effect::Workflow(CallSpec { call, attempt, env, cwd, timeout }),
            Act::Http(request) => {
                pending.own = vec![(names::TOOL_NAME, Value::from("http"))];
                Effect::Request(RequestSpec { request, limits })
            }
            Act::Verbatim { text } => {
                let script = vec![EffectText::Text(text.into())];
                Effect::Process(shell_process(step, script, Vec::new(), env, cwd, limits))
            }
            Act::Shell { bound } => Effect::Process(bound_process(step, &bound, env, cwd, limits)),
            Act::Argv(arguments) => {
                let mut files = Vec::new();
                let mut words = arguments.into_iter().map(|argument| {
                    if !argument.is_file {
                        return vec![EffectText::Text(argument.value)];
                    }
                    files.push(vec![EffectText::Text(argument.value)]);
                    vec![EffectText::PathOf(files.len() - 1)]
                });
                let program = words.next().unwrap_or_default();
                let arguments = words.collect();
                Effect::Process(ProcessSpec {
                    program,
                    arguments,
                    files,
                    env,
                    cwd,
                    stdin: None,
                    reports_usage: false,
                    limits,
                })
            }
            Act::Agent { agent, message, thread } => {
                pending.own = self.agent_meta(&agent.name);
                let format = match &step.action {
                    Action::Agent { answer, .. } => answer.clone(),
                    _ => None,
                };
                let surroundings = agent::AgentSurroundings { env, cwd, limits };
                let mut chat = Chat::new(message, format);
                if let Some(thread) = thread {
                    chat = chat.continuing(thread, &agent.name);
                }
                let mut conversation = AgentConversation::new(agent, chat, surroundings, step.format);
                let effect = conversation.next(None);
                pending.conversation = Some(Box::new(conversation));
                effect
            }
        };
        (pending, effect)
    }

    fn agent_meta(self, agent: &EcoString) -> Vec<(&'static str, Value)> {
        let model = self.plan.workflow.agent(agent).and_then(|agent| agent.model.as_ref());
        let mut own = vec![
            (names::AGENT_ID, Value::from(agent.as_str())),
            (names::AGENT_NAME, Value::from(agent.as_str())),
        ];
        own.extend(model.map(|model| (names::MODEL_USED, model.as_str().into())));
        own
    }

    /// Records what an attempt left, and whether another follows.
    pub(super) fn attempt_done<D: Driver>(
        self,
        driver: &mut D,
        mut pending: PendingAttempt,
        result: EffectResult,
    ) -> Result<Next, D::Error> {
        let step = self.step(&pending.task);
        let (mut result, leaked) = result.split_leaked();
        let served = pending.served.take();
        let is_replayed = matches!(served, Some(Served::Recorded(_)));
        if let Some(Served::Nothing(failure)) = &served {
            result = EffectResult::Refused(failure.clone());
        }
        let call = pending.conversation.as_ref().map(|conversation| conversation.call().clone());
        let observed = match pending.conversation.take() {
            Some(mut conversation) if !matches!(result, EffectResult::Refused(_)) => {
                let (limits, cut_short) = (&pending.limits, pending.cut_short.as_ref());
                let accepts_exit_codes = step.expects_exit_code();
                let reading = Reading { limits, cut_short, is_call_limit: false, accepts_exit_codes };
                let outcome = match &served {
                    Some(Served::Recorded(answered) | Served::Kept(answered)) => {
                        conversation.served(answered)
                    }
                    _ => conversation.read(result, &reading),
                };
                let key = attempt_key(&pending.task, pending.attempt, conversation.exchanges());
                driver.exchanged(&key, &|| (conversation.asked(), outcome.answered()));
                let is_new = served.is_none() && pending.keeps_answers && conversation.asks_agent();
                let exchange = is_new.then(|| (conversation.asked(), outcome.answered()));
                let mut exchanged = conversation.take(outcome);
                pending.thread = conversation.thread();
                // An answer that does not fit is nothing to keep.
                pending.to_keep.extend(exchange.filter(|_| exchanged.is_whole()));
                exchanged.result_mut().meta.extend(served.as_ref().and_then(Served::meta));
                if let Some(Served::Kept(_)) = served {
                    exchanged.result_mut().spent = Spend::default();
                }
                match exchanged {
                    Exchanged::Again(exchange) if secrets::leak(step, &leaked).is_none() => {
                        return self.ask_again(driver, pending, conversation, exchange);
                    }
                    Exchanged::Again(mut exchange) | Exchanged::Over(mut exchange) => {
                        if conversation.exchanges() > 0 {
                            // The attempt is all of them.
                            exchange.timing = Some(pending.began.until(driver.moment()));
                        }
                        observe_exchange(driver, step, &mut pending, exchange)
                    }
                }
            }
            _ => observe(driver, step, &mut pending, result),
        };
        let ObservedAttempt { mut result, timing, own, transient, spent } = observed;
        if let (Some(pause), Some(call)) = (transient.filter(|pause| !pause.is_zero()), &call) {
            // It asks that of everybody, not only of this step.
            driver.leave_alone(call, pause);
        }
        if let Some(failure) = secrets::leak(step, &leaked) {
            result = secrets::refuse_output(result, failure);
        }
        let mut measurement = self.measurement(&pending.task, timing, pending.attempt.retries(), own);
        measurement.spent = spent;
        if let Some(settled) = &pending.expect {
            result = result::compare(settled, &measurement, result);
        }
        if result.value.is_ok() {
            for (asked, answered) in &pending.to_keep {
                driver.keep_answer(asked, answered);
            }
        }
        let tries = pending.attempt.number - pending.attempt.base;
        let pause = match &result.value {
            // A call that held a step which may not run twice is not made again.
            // Nor is what a record does not have asked for again.
            Err(failure) if !matches!(failure.kind, FailureKind::Crash | FailureKind::Replay) => {
                let meta = |name: &str| {
                    measurement.own.iter().find(|(known, _)| *known == name).map(|own| own.1.clone())
                };
                let facts = FailureFacts::new(failure.kind, meta);
                let conditions = RetryConditions::of(step.retry.as_ref());
                // What may pass by itself is tried again, also where nothing is said about it.
                let is_passing = transient.is_some() && step.retry.is_none();
                let retry = if is_passing { &RetryPlan::PASSING } else { &pending.retry };
                let next = NextAttempt { retry, conditions, tries, limit: pending.limit.as_ref() };
                next.decide(driver, &facts)
            }
            _ => Err(None),
        };
        let pause = match pause {
            Ok(pause) => pause,
            Err(why) => {
                measurement.own.extend(why.map(|why| (names::NOT_RETRIED, why.into())));
                let has_gone_well = result.value.is_ok();
                let mut sealed = result::seal(driver, &measurement, result, self.state_name(&pending.task))?;
                if let Some((name, thread)) = pending.thread.filter(|_| has_gone_well) {
                    let conversation = driver.keep(&thread.value())?;
                    sealed.output.thread =
                        Some(Box::new(ContinuedThread { name: name.into(), conversation }));
                }
                return Ok(self.finish_sealed(&pending.task, sealed));
            }
        };
        // What the provider asks for is not shortened.
        let asked_for = transient.map_or(0, |pause| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4));
        // Nobody has to be waited for where a record answers.
        let pause = if is_replayed { 0 } else { pause.max(asked_for) };
        let until = driver.moment().time.saturating_add(pause);
        let output = result::seal(driver, &measurement, result, None)?.output;
        // What the agent said is not asked for once more where it was only out of reach.
        let kind = EventKind::Retrying { output, until, keeps_exchanges: transient.is_some() };
        Ok(super::record(pending.task.at, kind, Durability::Now))
    }

    /// Records what an agent said, and asks it again in the same attempt.
    fn ask_again<D: Driver>(
        self,
        driver: &mut D,
        mut pending: PendingAttempt,
        mut conversation: Box<AgentConversation>,
        exchange: ExchangeResult,
    ) -> Result<Next, D::Error> {
        let ExchangeResult { result, timing, meta, spent, .. } = exchange;
        let held = conversation.asks_agent()
            && driver.admit(&pending.task.at, &spent, conversation.call()) != CallAdmission::Now;
        let now = driver.moment();
        let passed = pending.began.until(now);
        let mut own = pending.own.clone();
        own.extend(meta);
        let retries = pending.attempt.retries();
        // What nobody had to be asked for took no time.
        let timing = timing.unwrap_or_else(|| now.until(now));
        let mut measurement = self.measurement(&pending.task, timing, retries, own);
        measurement.spent = spent;
        let output = result::seal(driver, &measurement, result, None)?.output;
        let calls = conversation.calls_workflow();
        let kind = EventKind::Exchanged { number: conversation.exchanges(), held, calls, output };
        pending.asked_at = now;
        let at = pending.task.at.clone();
        if held {
            // It goes on behind this, and is told then why it has to wait.
            return Ok(super::record(at, kind, Durability::Now));
        }
        let before = Some(Recording { at, kind, durability: Durability::Now, envelope: None });
        // All answers together take no longer than the step may.
        let left = pending.limits.timeout.map(|timeout| timeout.saturating_sub(passed.elapsed));
        if left.is_some_and(|left| left.is_zero()) {
            // It is noticed when the agent is asked, as every other timeout is.
            pending.left = Some(Duration::from_millis(1));
        } else {
            pending.left = left;
        }
        let effect = conversation.next(pending.left);
        let key = attempt_key(&pending.task, pending.attempt, conversation.exchanges());
        pending.served = serve(driver, &key, pending.reads_kept(&conversation), || conversation.asked())?;
        pending.conversation = Some(conversation);
        let effect = match effect {
            _ if pending.served.is_some() => Effect::Nothing,
            effect if pending.secret.is_some() => Effect::WithSecrets(Box::new(effect)),
            effect => effect,
        };
        let pending = Pending(PendingStage::Attempt(Box::new(pending)));
        // Nobody is asked again before it is known for good what was said: a finished call is never made twice.
        let barrier = Barrier::Recorded;
        Ok(Next::Perform(Box::new(Performance { before, barrier, key, effect, pending })))
    }
}

/// Names the effect of an attempt.
fn attempt_key(task: &Task, attempt: Attempt, exchange: u32) -> EffectKey {
    let (at, as_of) = (task.at.clone(), task.as_of);
    EffectKey { at, as_of, attempt: attempt.number, role: Role::Act, exchange }
}

/// What answers in place of an agent: where its exchanges are recorded exactly what it was asked then, or nothing; else
/// an answer that was kept.
pub(super) fn serve<D: Driver>(
    driver: &mut D,
    key: &EffectKey,
    reads_kept: bool,
    asked: impl FnOnce() -> ExchangeRequest,
) -> Result<Option<Served>, D::Error> {
    Ok(match driver.recorded(key)? {
        Some(record) => Some(match asked().answer_in(record) {
            Ok(answered) => Served::Recorded(answered),
            Err(failure) => Served::Nothing(failure),
        }),
        None if reads_kept => driver.kept_answer(&asked()).map(|answered| Served::Kept(answered.free())),
        None => None,
    })
}

impl PendingAttempt {
    /// What a call of its agent counts as that was stopped in flight.
    pub(super) fn lost(&self, now: ClockReading) -> Option<(Address, Spend)> {
        let conversation = self.conversation.as_ref().filter(|conversation| conversation.asks_agent())?;
        let elapsed = self.asked_at.until(now).elapsed;
        self.served.is_none().then(|| (self.task.at.clone(), conversation.lost(elapsed)))
    }

    /// Whether an answer that was kept may answer next. What failed is asked anew: it was not what the step wants.
    fn reads_kept(&self, conversation: &AgentConversation) -> bool {
        self.keeps_answers && self.attempt.number == 1 && conversation.asks_agent()
    }
}

/// What came of the last exchange with an agent.
fn observe_exchange<D: Driver>(
    driver: &mut D,
    step: &Step,
    pending: &mut PendingAttempt,
    exchange: ExchangeResult,
) -> ObservedAttempt {
    let ExchangeResult { result, timing, meta, transient, spent } = exchange;
    let timing = timing.unwrap_or_else(|| pending.began.until(driver.moment()));
    let mut own = std::mem::take(&mut pending.own);
    own.extend(built_in_meta(step, pending.parameters.take(), timing, true));
    // What the provider says counts more than what the file says.
    own.retain(|(name, _)| meta.iter().all(|(said, _)| said != name));
    own.extend(meta);
    ObservedAttempt { result, timing, own, transient, spent }
}

/// Whether an attempt must not be made again without anybody knowing, not even after a power loss: it may not be
/// repeated, or a repetition costs something.
pub(crate) fn is_costly(workflow: &Workflow, step: &Step, effect: &Effect) -> bool {
    workflow.on_crash(step) != OnCrash::Rerun
        || matches!(step.action, Action::Agent { .. })
        || matches!(effect, Effect::Request(_) | Effect::Tool(_))
}

/// What came of the effect of an attempt.
fn observe<D: Driver>(
    driver: &mut D,
    step: &Step,
    pending: &mut PendingAttempt,
    result: EffectResult,
) -> ObservedAttempt {
    let began = pending.began;
    let mut own = std::mem::take(&mut pending.own);
    let limited = |failure: Failure| match &pending.cut_short {
        Some(limit) if failure.kind == FailureKind::Timeout => result::limit_reached(limit),
        _ => failure,
    };
    if let EffectResult::Refused(failure) = result {
        let timing = began.until(driver.moment());
        own.extend(built_in_meta(step, pending.parameters.take(), timing, true));
        return ObservedAttempt {
            result: StepResult::failed(failure),
            timing,
            own,
            transient: None,
            spent: Spend::default(),
        };
    }
    let (result, timing) = match result {
        EffectResult::Process(Ok(mut end)) => {
            let result = process_result(step, &mut end, &pending.limits, pending.cut_short.as_ref());
            own.extend(built_in_meta(step, pending.parameters.take(), end.timing, true));
            own.extend(result::usage(&end));
            return ObservedAttempt {
                result,
                timing: end.timing,
                own,
                transient: None,
                spent: Spend::default(),
            };
        }
        EffectResult::Process(Err(failure)) => {
            let is_default = step.shell_program.is_none() && matches!(step.action, Action::Shell { .. });
            (StepResult::failed(start_failure(failure, is_default)), None)
        }
        EffectResult::Response(response, timing) => {
            let result = match response {
                Ok(response) => {
                    own.extend(response::meta(&response));
                    response::result(response)
                }
                Err(missing) => StepResult::failed(limited(missing.failure)),
            };
            own.extend(built_in_meta(step, pending.parameters.take(), timing, false));
            return ObservedAttempt { result, timing, own, transient: None, spent: Spend::default() };
        }
        EffectResult::Tool(answer, timing) => {
            own.extend(answer.version.map(|version| (names::TOOL_VERSION, version.into())));
            let result = match answer.result {
                Ok(answer) => response::tool_result(&answer, pending.limits.max_output).typed(step.format),
                Err(failure) => StepResult::failed(limited(failure)),
            };
            own.push((names::TOOL_EXECUTION_TIME_MS, result::millis(timing.elapsed)));
            return ObservedAttempt { result, timing, own, transient: None, spent: Spend::default() };
        }
        EffectResult::Written(written, timing) => {
            let too_long = || Failure::new(FailureKind::File, "its path is too long");
            let known = |()| pending.known.take().unwrap_or_else(|| StepResult::failed(too_long()));
            (written.map_or_else(StepResult::failed, known), Some(timing))
        }
        EffectResult::Called(CallEnd { value, meta, spent }, timing) => {
            let result = StepResult::silent(value.map_err(limited));
            return ObservedAttempt { result, timing, own: meta, transient: None, spent };
        }
        _ => (pending.known.take().unwrap_or_else(|| StepResult::silent(Ok(Value::NULL))), None),
    };
    let timing = timing.unwrap_or_else(|| began.until(driver.moment()));
    own.extend(built_in_meta(step, pending.parameters.take(), timing, true));
    ObservedAttempt { result, timing, own, transient: None, spent: Spend::default() }
}

/// The time that a limit leaves to an attempt: its own, what is left of the limit, or none.
pub(super) fn shorten(
    resolved: &mut Resolved,
    limit: Option<Limit>,
    now: Millis,
) -> Result<Option<Limit>, Failure> {
    let Some(limit) = limit else { return Ok(None) };
    let left = limit.left(now);
    if left.is_zero() {
        return Err(result::limit_reached(&limit));
    }
    if resolved.timeout.is_some_and(|own| own <= left) {
        return Ok(None);
    }
    resolved.timeout = Some(left);
    Ok(Some(limit))
}

/// How long a tool of a server may take where nothing else is said.
const TOOL_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) fn limits_of(resolved: &Resolved) -> EffectLimits {
    let usual = matches!(resolved.act, Act::Tool(_)).then_some(TOOL_TIMEOUT);
    EffectLimits {
        timeout: resolved.timeout.or(usual),
        idle_timeout: resolved.idle_timeout,
        max_output: resolved.max_output,
    }
}

/// Whether what failed is tried again.
pub(super) struct NextAttempt<'r> {
    pub(super) retry: &'r RetryPlan,
    pub(super) conditions: &'r RetryConditions,
    /// The number of attempts that were made.
    pub(super) tries: u32,
    /// The time by which everything has to be through.
    pub(super) limit: Option<&'r Limit>,
}

impl NextAttempt<'_> {
    /// The pause before the next attempt, in milliseconds; or why there is none although there would be attempts
    /// left. A pause that outlasts the time that is left is not begun.
    pub(super) fn decide<D: Driver>(
        &self,
        driver: &mut D,
        failure: &FailureFacts,
    ) -> Result<Millis, Option<String>> {
        let pause = self.retry.pause(self.tries, driver.spread()).ok_or(None)?;
        if let Some(why) = self.conditions.refusal(failure) {
            return Err(Some(why));
        }
        let now = driver.moment().time;
        match self.limit {
            // The failure itself says that the time is over.
            Some(limit) if limit.left(now).is_zero() && failure.kind == FailureKind::Timeout => Err(None),
            Some(limit) if limit.left(now) <= pause => {
                Err(Some(format!("the {} times out before the next attempt", limit.scope)))
            }
            _ => Ok(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4)),
        }
    }
}

// ---- processes ------------------------------------------------------------------------------------------

/// The process that runs a shell text with bound values.
pub(super) fn bound_process(
    step: &Step,
    bound: &BoundScript,
    mut env: Vec<(EcoString, Option<String>)>,
    cwd: Option<String>,
    limits: EffectLimits,
) -> ProcessSpec {
    let mut files = Vec::new();
    let mut place_of = Vec::new();
    for (index, variable) in bound.files() {
        place_of.push((index, files.len()));
        files.push(vec![EffectText::Text(variable.value.clone())]);
    }
    let place = |index: usize| place_of.iter().find(|(at, _)| *at == index).map_or(0, |(_, place)| *place);
    let script = bound.pieces().into_iter().map(|piece| match piece {
        ScriptPiece::Text(text) => EffectText::Text(text),
        ScriptPiece::FileOf(index) => EffectText::QuotedPathOf(place(index)),
    });
    env.extend(bound.environment().map(|(name, value)| (name.into(), Some(value.to_owned()))));
    shell_process(step, script.collect(), files, env, cwd, limits)
}

fn shell_process(
    step: &Step,
    script: Pieces,
    mut files: Vec<Pieces>,
    env: Vec<(EcoString, Option<String>)>,
    cwd: Option<String>,
    limits: EffectLimits,
) -> ProcessSpec {
    let given = step.shell_program.as_ref().map(|program| program.value.as_str());
    let program = given.unwrap_or(DEFAULT_SHELL);
    let text = |text: &str| vec![EffectText::Text(text.to_owned())];
    let mut arguments: Vec<Pieces> = Vec::new();
    if given.is_some_and(|program| program.rsplit('/').next() == Some("busybox")) {
        arguments.push(text("sh"));
    }
    if step.strict_shell {
        arguments.extend(strict_options(program).iter().map(|option| text(option)));
    }
    let length: usize = script.iter().map(EffectText::length).sum();
    if length > MAX_SCRIPT {
        files.push(script);
        arguments.push(vec![EffectText::PathOf(files.len() - 1)]);
    } else {
        arguments.push(text("-c"));
        arguments.push(script);
    }
    ProcessSpec {
        program: text(program),
        arguments,
        files,
        env,
        cwd,
        stdin: None,
        reports_usage: false,
        limits,
    }
}

/// The options that make a shell strict.
fn strict_options(program: &str) -> &'static [&'static str] {
    match program.rsplit('/').next().unwrap_or(program) {
        "bash" | "zsh" => &["-e", "-o", "pipefail"],
        _ => &["-e"],
    }
}

/// What a program left: its output as the format of the step reads it.
pub(super) fn process_result(
    step: &Step,
    end: &mut ProcessEnd,
    limits: &EffectLimits,
    cut_short: Option<&Limit>,
) -> StepResult {
    let printed = Printed::of(end);
    let failure = if step.expects_exit_code() && matches!(end.ending, super::effect::ProcessEnding::Exited(_))
    {
        // An expectation, or the judge of a state, says which exit codes are right.
        None
    } else {
        result::process_failure(&end.ending, limits, cut_short)
    };
    let (output, stderr) = (printed.output(), printed.stderr());
    let value = match (printed.stdout, failure) {
        (_, Some(failure)) | (Err(failure), None) => Err(failure),
        (Ok(text), None) => result::read_output(&text, step.format),
    };
    // A value that is the text itself is not kept twice.
    let output = output.filter(|_| value.is_err() || step.format != CaptureFormat::Text);
    StepResult { value, output, stderr, exact: printed.exact }
}

/// The failure of a program that could not be started.
pub(crate) fn start_failure(failure: StartFailure, is_default_shell: bool) -> Failure {
    let StartFailure { message, hint, is_missing, kind } = failure;
    let hint = if is_missing && is_default_shell {
        Some("install it, or say `shell_program: sh`".to_owned())
    } else {
        hint
    };
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    Failure::new(kind, format!("{message}{hint}"))
}

// ---- values and meta data -------------------------------------------------------------------------------

/// What the built-in tool that a step stands for was given.
fn parameters(step: &Step, act: &Act) -> Value {
    let entries = match (&step.action, act) {
        (Action::Shell { text, .. }, _) => vec![("command".into(), text.value.clone().into())],
        (_, Act::Argv(arguments)) => {
            let words = arguments.iter().map(|argument| Value::from(argument.value.as_str())).collect();
            vec![("argv".into(), Value::list(words).unwrap_or_default())]
        }
        // Headers may hold what lets somebody in.
        (_, Act::Http(request)) => {
            let mut entries =
                vec![("method".into(), request.method.into()), ("url".into(), request.url.as_str().into())];
            entries.extend(request.body.as_ref().map(|body| ("body".into(), body.as_str().into())));
            entries
        }
        _ => Vec::new(),
    };
    Value::object(entries).unwrap_or_default()
}

/// What a built-in tool adds to the meta data of the step that stands for it.
fn built_in_meta(
    step: &Step,
    parameters: Option<Value>,
    timing: Timing,
    is_named: bool,
) -> Vec<(&'static str, Value)> {
    let Some(tool) = &step.tool else { return Vec::new() };
    let name = is_named.then(|| (names::TOOL_NAME, tool.value.clone().into()));
    let rest = [
        (names::TOOL_VERSION, env!("CARGO_PKG_VERSION").into()),
        (names::PARAMETERS, parameters.unwrap_or_default()),
        (names::TOOL_EXECUTION_TIME_MS, result::millis(timing.elapsed)),
    ];
    name.into_iter().chain(rest).collect()
}
