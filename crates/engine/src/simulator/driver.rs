//! The simulator as the driver of a command: what is evaluated and what effects come to is invented by fate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, Judge, Step};
use threadline_flow::problem::Problem;
use threadline_lang::value::JsonStyle;
use threadline_lang::{ComputeError, Envelope, NoWorld, Scope, ScopeEntry, Session, Value, World};

use super::AskedMessage;
use super::chance::{self, Fated};
use super::check::{item_of, value_of};
use super::life::{Cut, Life};
use crate::agent::ResolvedAgent;
use crate::agent::thread::THREAD;
use crate::evaluate::{Act, Cause, Decision, FieldError, FieldErrors, Resolved};
use crate::event::{Address, Computed, Datum, ERROR, Event, EventKind, Seq, Status};
use crate::execute::effect::{
    Attempt, CallEnd, ChosenItems, Effect, EffectKey, EffectResult, NoResponse, ProcessEnd, ProcessEnding,
    ProcessSpec, Response, Role, ToolAnswer,
};
use crate::execute::result::{ClockReading, Timing};
use crate::execute::{AgentCall, CallAdmission};
use crate::execute::{Driver, EnterFolder, EvaluatedFields, FieldEvaluation, Site, StepSite, driver};
use crate::hash::Hash;
use crate::judge::{Judgement, Question, Verdict};
use crate::machine::Task;
use crate::memory::MemoryJournal;
use crate::replay::output_of;
use crate::select::Expansion;
use crate::spend::Spend;
use crate::view::{Load as _, MapView, StateView, View};
use crate::world::Answer;

impl Life<'_> {
    /// Whether a conversation with an agent goes on after an exchange: the agent gives an answer that does not fit, or
    /// calls tools, or this is a call.
    pub(super) fn goes_on(&self, key: &EffectKey, effect: &Effect) -> bool {
        let plan = &self.simulation.plan;
        let step = key.at.step(plan).map(|step| &plan.steps[step as usize].step.action);
        let (true, Some(Action::Agent { answer, .. })) = (key.role == Role::Act, step) else { return false };
        let fated = self.fated(&key.at);
        match effect {
            Effect::WithSecrets(effect) => self.goes_on(key, effect),
            Effect::Process(_) => {
                answer.is_some() && u64::from(key.exchange) < self.fate.misfits(&fated, key.attempt)
            }
            Effect::Request(_) => self.fate.calls(&fated, key.attempt, key.exchange) > 0,
            _ => true,
        }
    }

    /// What an agent behind an API says: it calls tools, of which some do not exist, or it answers.
    fn invent_message(&self, key: &EffectKey, answer: i64) -> Value {
        let calls = self.fate.calls(&self.fated(&key.at), key.attempt, key.exchange);
        let name = ["files__look", "nosuch", "read_file"][key.exchange as usize % 3];
        let call = |number: u64| {
            let arguments = Value::from(r#"{"path": "notes"}"#);
            let function = Value::record([("name", Value::from(name)), ("arguments", arguments)]);
            Value::record([
                ("id", Value::from(format!("call_{}_{number}", key.exchange))),
                ("function", function),
            ])
        };
        let message = match calls {
            0 => Value::record([("content", Value::from(answer.to_string()))]),
            _ => Value::record([("tool_calls", Value::sequence((0..calls).map(call)))]),
        };
        let reason = if calls == 0 { "stop" } else { "tool_calls" };
        let choice = Value::record([("message", message), ("finish_reason", reason.into())]);
        let (input, output) = self.tokens_of_model(key);
        let usage = [("prompt_tokens", Value::from(input)), ("completion_tokens", output.into())];
        Value::record([("choices", Value::sequence([choice])), ("usage", Value::record(usage))])
    }

    /// The tokens that a model reads and writes for a message.
    fn tokens_of_model(&self, key: &EffectKey) -> (u64, u64) {
        let tokens = self.fate.tokens(&self.fated(&key.at), key.attempt, key.exchange);
        (tokens % chance::MAX_MODEL_TOKENS, 1 + tokens / 2 % chance::MAX_MODEL_TOKENS)
    }

    /// Notes what an agent that is asked now will really use.
    pub(super) fn note_asked(&mut self, key: &EffectKey, effect: &Effect) {
        let (input_tokens, output_tokens) = match effect {
            Effect::WithSecrets(effect) => return self.note_asked(key, effect),
            Effect::Process(ProcessSpec { reports_usage: true, .. }) => {
                (self.fate.tokens(&self.fated(&key.at), key.attempt, key.exchange), 1)
            }
            Effect::Request(spec) if spec.request.method == "POST" && self.asks_agent(key) => {
                self.tokens_of_model(key)
            }
            _ => return,
        };
        let (at, after) = (key.at.clone(), self.outside.journal.len() as u64);
        let elapsed_ms = self.time_of(key, effect);
        let admitted = self.admitted.get(&at).copied().unwrap_or(after);
        self.outside.asked.push(AskedMessage {
            at,
            after,
            admitted,
            input_tokens,
            output_tokens,
            elapsed_ms,
        });
    }

    fn asks_agent(&self, key: &EffectKey) -> bool {
        let plan = &self.simulation.plan;
        let step = key.at.step(plan).map(|step| &plan.steps[step as usize].step.action);
        key.role == Role::Act && matches!(step, Some(Action::Agent { .. }))
    }

    /// An answer of a model that breaks off: nothing of it came, or half of it, and whoever reads it hears why or not.
    fn broken(&self, key: &EffectKey, way: u64) -> Result<Response, NoResponse> {
        let tokens = self.tokens_of_model(key).1;
        let text = "x".repeat(usize::try_from(tokens * 3).unwrap_or(0));
        let body = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let (reason, headers, body, worker) = (None, Vec::new(), body.into_bytes(), None);
        let response = Response { status: 200, reason, headers, body, worker };
        let failure = Failure::new(FailureKind::Http, "fate");
        match way {
            0 => Err(NoResponse { failure, is_sent: true, received: None }),
            1 => Err(NoResponse { failure, is_sent: true, received: Some(Box::new(response)) }),
            _ => Ok(response),
        }
    }

    /// Invents what comes of an effect. What an attempt makes follows from what it reads; an agent says what it used.
    pub(super) fn invent(&mut self, key: &EffectKey, effect: &Effect, reads: &[i64]) -> EffectResult {
        let mut result = self.invent_result(key, effect, reads);
        if let (Effect::Process(ProcessSpec { reports_usage: true, .. }), EffectResult::Process(Ok(end))) =
            (effect, &mut result)
        {
            let tokens = self.fate.tokens(&self.fated(&key.at), key.attempt, key.exchange);
            end.usage =
                Some(Ok(format!("{{\"input_tokens\": {tokens}, \"output_tokens\": 1, \"cost_usd\": 0.01}}")));
        }
        result
    }

    fn invent_result(&mut self, key: &EffectKey, effect: &Effect, reads: &[i64]) -> EffectResult {
        let fated = self.fated(&key.at);
        let is_well = self.fate.well(&fated, key.attempt);
        let value = self.fate.value(&fated, reads);
        let elapsed = Duration::from_millis(self.time_of(key, effect));
        let timing = Timing { elapsed, ..self.timing() };
        let failure = |kind| Failure::new(kind, "fate");
        match effect {
            Effect::Nothing | Effect::Pause(_) => EffectResult::Nothing,
            // There are no secrets here: what is invented needs none.
            Effect::WithSecrets(effect) => self.invent(key, effect, reads),
            // A judge says what fate has put into the question, and fails when that is nothing.
            Effect::Process(spec) if key.role == Role::Judge => {
                let answer = spec.stdin.clone().unwrap_or_default();
                let ending =
                    if answer.is_empty() { ProcessEnding::Signalled(9) } else { ProcessEnding::Exited(0) };
                EffectResult::Process(Ok(ProcessEnd::printed(ending, &answer, timing)))
            }
            Effect::Process(_) if self.goes_on(key, effect) => {
                EffectResult::Process(Ok(ProcessEnd::printed(ProcessEnding::Exited(0), "no idea", timing)))
            }
            Effect::Process(_)
                if self
                    .time_limit(effect)
                    .is_some_and(|most| self.fate.duration(&fated, key.attempt) > most) =>
            {
                EffectResult::Process(Ok(ProcessEnd::printed(ProcessEnding::TimedOut, "", timing)))
            }
            Effect::Process(_) => {
                // No expectation and no judge takes a signal for a result, as they may an exit code.
                let ending = if is_well { ProcessEnding::Exited(0) } else { ProcessEnding::Signalled(9) };
                EffectResult::Process(Ok(ProcessEnd::printed(ending, &value.to_string(), timing)))
            }
            Effect::Request(_) => {
                let plan = &self.simulation.plan;
                let step = key.at.step(plan).map(|step| &plan.steps[step as usize].step.action);
                let is_agent = matches!(step, Some(Action::Agent { .. }));
                if let Some(way) = self.fate.breaks(&fated, key.attempt, key.exchange).filter(|_| is_agent) {
                    return EffectResult::Response(self.broken(key, way), timing);
                }
                let status = if is_well || self.goes_on(key, effect) { 200 } else { 500 };
                let body = if is_agent {
                    self.invent_message(key, value).to_json(JsonStyle::Compact)
                } else {
                    value.to_string()
                };
                let (reason, headers, body, worker) = (None, Vec::new(), body.into_bytes(), None);
                EffectResult::Response(Ok(Response { status, reason, headers, body, worker }), timing)
            }
            Effect::Tool(_) => {
                let answer = Value::record([("structuredContent", Value::from(value))]);
                let result = if is_well { Ok(answer) } else { Err(failure(FailureKind::Tool)) };
                EffectResult::Tool(ToolAnswer { result, version: None }, timing)
            }
            Effect::ListTools(_) => {
                let tools = Value::sequence([Value::record([("name", Value::from("look"))])]);
                EffectResult::Tools(Ok(tools), timing)
            }
            Effect::ReadFile(_) => {
                let text = if is_well { Ok(value.to_string()) } else { Err(failure(FailureKind::File)) };
                EffectResult::Read(text, timing)
            }
            Effect::WriteFile(_) => {
                EffectResult::Written(if is_well { Ok(()) } else { Err(failure(FailureKind::File)) }, timing)
            }
            Effect::Workflow(_) => {
                let crashes = self.fate.crashes(&fated, key.attempt);
                let kind = if crashes { FailureKind::Crash } else { FailureKind::Workflow };
                let value = if is_well { Ok(Value::from(value)) } else { Err(failure(kind)) };
                EffectResult::Called(CallEnd { value, meta: Vec::new(), spent: Spend::default() }, timing)
            }
            Effect::ReadItems(_) => {
                let items = self.fate.items(&fated).into_iter().map(Value::from).collect();
                EffectResult::Items(Ok(ChosenItems::whole(items)))
            }
            Effect::EnterWorktree { .. } => EffectResult::Worktree(Ok(())),
            Effect::MergeItem(_) => {
                let is_merged = self.fate.merges(&fated);
                EffectResult::Worktree(if is_merged { Ok(()) } else { Err(failure(FailureKind::Worktree)) })
            }
            Effect::AbandonItem { .. } | Effect::CloseWorktrees => EffectResult::Branch(None),
        }
    }

    fn timing(&self) -> Timing {
        Timing { started: self.outside.clock, finished: self.outside.clock, elapsed: Duration::ZERO }
    }

    /// Fields have a value, or fate says that one has none.
    fn fated_fields<T>(&self, task: &Task, field: &str, fields: EvaluatedFields<T>) -> EvaluatedFields<T> {
        let evaluates = self.fate.evaluates(&self.fated(&task.at), field);
        let result = if evaluates { fields.result } else { Err(no_value(self.step(task))) };
        FieldEvaluation { result, ..fields }
    }

    /// What a step does: what would leave a value whatever happens leaves that of fate, and is a program when the attempt
    /// is to fail.
    fn fated_act(&self, act: Act, fated: &Fated, attempt: Attempt, reads: &[i64]) -> Act {
        match act {
            Act::Value(_) | Act::Assert(_) | Act::Wait(_) | Act::Made { .. }
                if !self.fate.well(fated, attempt.number) =>
            {
                Act::Argv(Vec::new())
            }
            Act::Value(_) | Act::Assert(_) | Act::Wait(_) => {
                Act::Value(Value::from(self.fate.value(fated, reads)))
            }
            Act::Made { .. } => {
                let value = Value::record([("branch", self.fate.holds(fated).to_string().as_str().into())]);
                Act::Made { value, meta: Vec::new() }
            }
            // The file that was written is all that it leaves.
            Act::WriteFile { content, mode, create_dirs, .. } => {
                let path = self.fate.value(fated, reads).to_string();
                Act::WriteFile { path, content, mode, create_dirs }
            }
            act => act,
        }
    }

    /// The verdict that fate has for a state: an error when its action failed.
    fn fated_verdict(&mut self, site: StepSite<'_>) -> Result<&'static str, Cut> {
        let reads = self.reads(site.task)?;
        let fated = self.fated(&site.task.at);
        Ok(if self.has_failed(site.view) { ERROR } else { self.fate.verdict(&fated, &reads) })
    }

    /// Whether what a state did failed.
    fn has_failed(&self, view: &View) -> bool {
        view.result.is_some_and(|seq| value_of(&self.outside.journal, seq) == -1)
    }

    /// The values that a step reads, which it may.
    pub(super) fn reads(&mut self, task: &Task) -> Result<Vec<i64>, Cut> {
        let view = self.machine.view(&task.at);
        self.outside.checker.reads(task, &view, &self.outside.journal)?;
        let journal = &self.outside.journal;
        let names = view.outputs.iter().chain(&view.captured).map(|(_, seq)| *seq).chain(view.prev);
        let item = view.item.map(|item| item_of(journal, item.item));
        let phases = view.phases.iter().map(|(_, seq)| value_of(journal, *seq));
        let map = view.map.map(|map| match map {
            MapView::Running { total } => i64::try_from(total).unwrap_or(0),
            MapView::Over(seq) => value_of(journal, seq),
        });
        let state = view.state.iter().flat_map(|state| [state.iteration, state.in_a_row]);
        let outcome = view.outcome.and_then(|seq| MemoryJournal(journal).event(seq).ok());
        let outcome = outcome.and_then(|event| match event.kind {
            EventKind::OutcomeKnown { outcome, .. } => i64::try_from(outcome.name().len()).ok(),
            _ => None,
        });
        let earlier = view.earlier.iter().map(|(_, seq)| value_of(journal, *seq));
        let verdict = view.prev.and_then(|prev| view.verdicts.iter().find(|(seq, _)| *seq == prev));
        let verdict = verdict.map(|(_, said)| said.verdict.len() as u64);
        let numbers = state.chain(verdict).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let values = names.map(|seq| value_of(journal, seq)).chain(item).chain(phases).chain(map);
        Ok(values.chain(earlier).chain(numbers).chain(outcome).collect())
    }

    /// The last result of each item of a list that has one, in order: all on disk.
    pub(super) fn item_numbers(&self, task: &Task, list: Seq) -> Result<Vec<Option<i64>>, Cut> {
        let from = usize::try_from(list).unwrap_or(usize::MAX);
        let mut results = BTreeMap::new();
        for event in self.outside.journal.iter().skip(from) {
            let EventKind::ItemEnded(ended) = &event.kind else { continue };
            let Some((_, index)) = event.at.as_item().filter(|(list, _)| *list == task.at) else { continue };
            if event.seq > self.outside.safe.durable {
                return Err(
                    self.violation(format!("`{}` collects event {}, not on disk", task.at, event.seq))
                );
            }
            // The last step of an item that did well may have been let fail.
            let otherwise = (ended.status == Status::Completed).then_some(-1);
            let value = if let Datum::Here(value) = &ended.value { chance::number_in(value) } else { None };
            let value = value.or(otherwise);
            results.insert(index, value);
        }
        Ok(results.into_values().collect())
    }
}

/// A field of a step that fate gives no value.
fn no_value(step: &Step) -> FieldErrors {
    let cause = Cause::Unfit { expected: "a value", value: Value::NULL };
    vec![FieldError { origin: step.origin.clone(), cause }]
}

/// A world in which there is nothing but threads: those that the run has continued.
struct ThreadWorld<'l, 's> {
    life: &'l Life<'s>,
    /// What the attempt read that a crash cut off.
    earlier: Option<&'l Answer>,
    read: Option<Answer>,
}

impl World for ThreadWorld<'_, '_> {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        if name != THREAD {
            return NoWorld.compute(name, args);
        }
        let answer = self.earlier.cloned().unwrap_or_else(|| {
            let name = args.first().and_then(Value::as_str).unwrap_or_default();
            let event = self.life.machine.threads().get(name);
            let event = event.and_then(|seq| MemoryJournal(&self.life.outside.journal).event(*seq).ok());
            let thread = event.and_then(output_of).and_then(|output| output.thread.as_ref());
            let said = match thread.map(|thread| &thread.conversation) {
                Some(Datum::Here(said)) => said.clone(),
                _ => Value::NULL,
            };
            Answer { name: THREAD.into(), args: args.to_vec(), answer: Ok(said) }
        });
        self.read = Some(answer.clone());
        answer.answer
    }

    fn known(&mut self, _: &str) -> Option<Value> {
        None
    }
}

impl Driver for Life<'_> {
    type Error = Cut;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: self.outside.clock, steady: Duration::from_millis(self.outside.steady) }
    }

    fn admit(&mut self, at: &Address, used: &Spend, _: &AgentCall) -> CallAdmission {
        match self.machine.admit(at, used) {
            Ok(()) => {
                self.admitted.insert(at.clone(), self.outside.journal.len() as u64);
                CallAdmission::Now
            }
            Err(reached) => CallAdmission::OverBudget(reached),
        }
    }

    fn spread(&mut self) -> f64 {
        0.5
    }

    fn keep(&mut self, value: &Value) -> Result<Datum, Cut> {
        Ok(Datum::Here(value.clone()))
    }

    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, Cut> {
        Ok(MemoryJournal(&self.outside.journal).output(seq)?)
    }

    fn event(&mut self, seq: Seq) -> Result<Event, Cut> {
        Ok(MemoryJournal(&self.outside.journal).event(seq)?.clone())
    }

    fn answers(&mut self, seq: Seq) -> Result<Vec<Answer>, Cut> {
        let EventKind::Started { computed, .. } = &MemoryJournal(&self.outside.journal).event(seq)?.kind
        else {
            return Err(self.violation(format!("event {seq} began no attempt")));
        };
        let answer = |computed: &Computed| {
            let Ok(Datum::Here(value)) = &computed.answer else { return None };
            let Datum::Here(args) = &computed.args else { return None };
            let args = args.as_list().unwrap_or_default().to_vec();
            Some(Answer { name: computed.name.clone(), args, answer: Ok(value.clone()) })
        };
        Ok(computed.iter().filter_map(answer).collect())
    }

    fn item_values(&mut self, task: &Task, list: Seq, _: u64) -> Result<Result<Value, Failure>, Cut> {
        let numbers: Vec<i64> = self.item_numbers(task, list)?.into_iter().flatten().collect();
        let fated = self.fated(&task.at);
        if !self.fate.evaluates(&fated, "results") {
            return Ok(Err(Failure::new(FailureKind::Format, "fate")));
        }
        Ok(Ok(Value::sequence([self.fate.value(&fated, &numbers).into()])))
    }

    fn store_results(&mut self, task: &Task, list: Seq) -> Result<Datum, Cut> {
        let numbers = self.item_numbers(task, list)?.into_iter().flatten().map(Value::from);
        Ok(Datum::Here(Value::sequence(numbers)))
    }

    fn rows(&mut self, results: &Datum) -> Result<ScopeEntry, Cut> {
        match results {
            Datum::Here(results) => Ok(ScopeEntry::Plain(results.clone())),
            Datum::Stored { .. } => Err(self.violation("results are not in their event".to_owned())),
        }
    }

    fn report(&mut self, _: &Address, _: Vec<Problem>) {}

    fn scope(&mut self, view: &View) -> Result<Scope, Cut> {
        Ok(view.scope(&self.names, &mut MemoryJournal(&self.outside.journal), None)?)
    }

    fn evaluate<T>(
        &mut self,
        site: Site<'_>,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>, &EnterFolder<'_>) -> T,
    ) -> Result<FieldEvaluation<T>, Cut> {
        if let Some(task) = site.task {
            self.reads(task)?;
        }
        let scope = self.scope(site.view)?;
        let earlier = site.earlier.iter().find(|answer| answer.name == THREAD);
        let mut world = ThreadWorld { life: self, earlier, read: None };
        let result = evaluate(&scope, &mut Session::new(&mut world), &|_| Ok(()));
        let read = world.read;
        let asks = site.task.is_some_and(|task| self.fate.computes(&self.fated(&task.at)));
        // Another answer each time, unless it is given again.
        let now = || Answer { name: "now".into(), args: Vec::new(), answer: Ok(self.outside.steady.into()) };
        let mut others = site.earlier.iter().filter(|answer| answer.name != THREAD);
        let computed = asks.then(|| others.next().cloned().unwrap_or_else(now));
        Ok(FieldEvaluation { result, computed: computed.into_iter().chain(read).collect() })
    }

    fn condition(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Decision>, Cut> {
        let (mut decided, task) = (driver::decide(self, site)?, site.task);
        let is_skipped = !self.fate.holds(&self.fated(&task.at));
        let decision = if is_skipped { Decision::Skip("fate".into()) } else { Decision::Go };
        decided.result = decided.result.map(|_| decision);
        Ok(self.fated_fields(task, "when", decided))
    }

    fn list(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Expansion>, Cut> {
        let list = driver::expand(self, site)?;
        Ok(self.fated_fields(site.task, "foreach", list))
    }

    fn fields(&mut self, site: StepSite<'_>, attempt: Attempt) -> Result<EvaluatedFields<Resolved>, Cut> {
        let reads = self.reads(site.task)?;
        let mut fields = driver::resolve(self, site, attempt)?;
        let fated = self.fated(&site.task.at);
        fields.result = fields.result.map(|resolved| {
            let act = self.fated_act(resolved.act, &fated, attempt, &reads);
            Resolved { act, ..resolved }
        });
        Ok(self.fated_fields(site.task, "fields", fields))
    }

    fn aggregates(
        &mut self,
        site: StepSite<'_>,
        _: &Value,
        results: &Datum,
    ) -> Result<EvaluatedFields<Value>, Cut> {
        let task = site.task;
        let ScopeEntry::Plain(results) = self.rows(results)? else {
            return Err(self.violation(format!("the results of `{}` are not a list", task.at)));
        };
        let numbers: Vec<i64> =
            results.as_list().unwrap_or_default().iter().filter_map(Value::as_i64).collect();
        let value = Value::from(self.fate.value(&self.fated(&task.at), &numbers));
        Ok(self.fated_fields(task, "results", FieldEvaluation::known(Ok(value))))
    }

    fn variables(&mut self, site: StepSite<'_>) -> Result<EvaluatedFields<Value>, Cut> {
        let task = site.task;
        self.reads(task)?;
        let value = Value::from(self.fate.value(&self.fated(&task.at), &self.phase_reads));
        let value = Value::record([(chance::FATE, value)]);
        Ok(self.fated_fields(task, "variables", FieldEvaluation::known(Ok(value))))
    }

    fn question(
        &mut self,
        site: StepSite<'_>,
        judge: &Judge,
        _: &[Answer],
    ) -> Result<FieldEvaluation<Result<Question, Verdict>>, Cut> {
        let verdict = self.fated_verdict(site)?;
        if verdict == ERROR && self.has_failed(site.view) {
            return Ok(FieldEvaluation::known(Err(Verdict::error("fate"))));
        }
        let agent = judge.agent.value.clone();
        let answer = Value::record([("verdict", Value::from(verdict))]);
        let message = if verdict == ERROR { String::new() } else { answer.to_json(JsonStyle::Compact) };
        let act = Act::Agent { agent: ResolvedAgent::invented(agent.clone()), message, thread: None };
        let question = Question::new(Resolved::plain(act), agent, vec![verdict.into()]);
        Ok(FieldEvaluation::known(Ok(question)))
    }

    fn judgement(
        &mut self,
        site: StepSite<'_>,
        verdict: Option<Verdict>,
        earlier: &[Answer],
    ) -> Result<FieldEvaluation<Judgement>, Cut> {
        let task = site.task;
        let elapsed = StateView::of(site.view, &task.at).elapsed_ms;
        let passed = i64::try_from(self.outside.steady).unwrap_or(i64::MAX);
        if !self.simulation.jumps && !(0..=passed).contains(&elapsed) {
            let what = format!("{elapsed} of {passed} milliseconds have passed in `{}`", task.at);
            return Err(self.violation(what));
        }
        let verdict = match verdict {
            Some(verdict) => verdict,
            None => Verdict::new(self.fated_verdict(site)?, ""),
        };
        let mut judged = driver::judge_state(self, site, Some(verdict), earlier)?;
        judged.result.fingerprint = Hash::of(&self.fate.fingerprint(&self.fated(&task.at)).to_le_bytes());
        Ok(judged)
    }
}
