//! The simulator as the driver of a command: what is evaluated and what effects come to is invented by fate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use threadline_expect::Settled;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, Judge, Shape, Step};
use threadline_flow::problem::Problem;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Envelope, NoWorld, Scope, Session, Value};

use super::chance::{self, Fated};
use super::check::{item_of, value_of};
use super::life::{Cut, Life};
use crate::agent::ResolvedAgent;
use crate::evaluate::{self, Act, Cause, Decision, FieldError, FieldErrors, Request, Resolved, ResolvedCall};
use crate::event::{Address, Datum, ERROR, Event, EventKind, Listed, LoopLimits, Millis, Seq, Status};
use crate::execute::effect::{
    Attempt, CallEnd, ChosenItems, Effect, EffectKey, EffectResult, ProcessEnd, ProcessEnding, Response,
    Role, ToolAnswer,
};
use crate::execute::result::{ClockReading, Timing, envelope};
use crate::execute::{Driver, FieldEvaluation};
use crate::hash::Hash;
use crate::judge::{self, Judgement, Question, Verdict};
use crate::machine::Task;
use crate::replay::output_of;
use crate::select::Expansion;
use crate::view::{MapView, StateView, View};
use crate::world::Answer;

impl Life<'_> {
    /// Invents what comes of an effect. What an attempt makes follows from what it reads.
    pub(super) fn invent(&mut self, key: &EffectKey, effect: &Effect, reads: &[i64]) -> EffectResult {
        let fated = self.fated(&key.at);
        let is_well = self.fate.well(&fated, key.attempt);
        let value = self.fate.value(&fated, reads);
        let timing = self.timing();
        let failure = |kind| Failure::new(kind, "fate");
        match effect {
            Effect::Nothing => EffectResult::Nothing,
            // A judge says what fate has put into the question, and fails when that is nothing.
            Effect::Process(spec) if key.role == Role::Judge => {
                let answer = spec.stdin.clone().unwrap_or_default();
                let ending =
                    if answer.is_empty() { ProcessEnding::Signalled(9) } else { ProcessEnding::Exited(0) };
                EffectResult::Process(Ok(process_end(ending, answer, timing)))
            }
            Effect::Process(_) => {
                // No expectation and no judge takes a signal for a result, as they may an exit code.
                let ending = if is_well { ProcessEnding::Exited(0) } else { ProcessEnding::Signalled(9) };
                EffectResult::Process(Ok(process_end(ending, value.to_string(), timing)))
            }
            Effect::Request(_) => EffectResult::Response(
                Ok(Response {
                    status: if is_well { 200 } else { 500 },
                    reason: None,
                    headers: Vec::new(),
                    body: value.to_string().into_bytes(),
                }),
                timing,
            ),
            Effect::Tool(_) => {
                let answer = Value::object([("structuredContent".into(), Value::from(value))]);
                let result =
                    if is_well { Ok(answer.unwrap_or_default()) } else { Err(failure(FailureKind::Tool)) };
                EffectResult::Tool(ToolAnswer { result, version: None }, timing)
            }
            Effect::ReadFile(_) => {
                let text = if is_well { Ok(value.to_string()) } else { Err(failure(FailureKind::File)) };
                EffectResult::Read(text, timing)
            }
            Effect::WriteFile(_) => {
                EffectResult::Written(if is_well { Ok(()) } else { Err(failure(FailureKind::File)) }, timing)
            }
            Effect::Workflow(_) => {
                let value =
                    if is_well { Ok(Value::from(value)) } else { Err(failure(FailureKind::Workflow)) };
                EffectResult::Called(CallEnd { value, meta: Vec::new() }, timing)
            }
            Effect::ReadItems(_) => {
                let items = self.fate.items(&fated);
                let count = items.len() as u64;
                // A few numbers are never too many.
                let list = Value::list(items.into_iter().map(Value::from).collect()).unwrap_or_default();
                let items = Listed::Whole(Datum::Here(list));
                let chosen = ChosenItems { items, count, leads_nowhere: false, computed: Vec::new() };
                EffectResult::Items(Ok(chosen))
            }
            Effect::EnterWorktree(_) => EffectResult::Worktree(Ok(())),
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
    fn fated_fields<T>(
        &self,
        task: &Task,
        field: &str,
        value: impl FnOnce(&Fated) -> T,
    ) -> FieldEvaluation<T> {
        let fated = self.fated(&task.at);
        let result = if self.fate.evaluates(&fated, field) {
            Ok(value(&fated))
        } else {
            Err(no_value(self.step(task)))
        };
        FieldEvaluation { result, computed: Vec::new() }
    }

    /// What a step is given to do: something of its own kind. What would leave a value whatever happens is a program when
    /// the attempt is to fail.
    fn fated_act(&self, task: &Task, fated: &Fated, attempt: Attempt, reads: &[i64]) -> Act {
        let is_well = self.fate.well(fated, attempt.number);
        match &self.step(task).action {
            Action::Condition(_) if is_well => {
                let branch = Value::from(self.fate.holds(fated).to_string());
                // An object of one text is never too large.
                let value = Value::object([("branch".into(), branch)]).unwrap_or_default();
                Act::Made { value, meta: Vec::new() }
            }
            Action::Trigger(_) | Action::Value(_) | Action::Nothing if is_well => {
                Act::Value(Value::from(self.fate.value(fated, reads)))
            }
            Action::Agent { agent, .. } => {
                Act::Agent { agent: ResolvedAgent::invented(agent.value.clone()), message: String::new() }
            }
            Action::Http(_) => {
                let (url, headers) = (String::new(), Vec::new());
                Act::Http(Request { method: "GET", url, headers, body: None })
            }
            Action::Workflow(_) => {
                Act::Workflow(ResolvedCall { file: "".into(), with: Value::NULL, inputs: Value::NULL })
            }
            _ => Act::Argv(Vec::new()),
        }
    }

    /// The verdict that fate has for a state: an error when its action failed.
    fn fated_verdict(&mut self, task: &Task, view: &View) -> Result<&'static str, Cut> {
        let reads = self.reads(task)?;
        let fated = self.fated(&task.at);
        Ok(if self.has_failed(view) { ERROR } else { self.fate.verdict(&fated, &reads) })
    }

    /// Whether what a state did failed.
    fn has_failed(&self, view: &View) -> bool {
        view.result.is_some_and(|seq| value_of(&self.outside.journal, seq) == -1)
    }

    /// The values that a step reads. They are of events that had happened when it became ready, and not its own.
    pub(super) fn reads(&mut self, task: &Task) -> Result<Vec<i64>, Cut> {
        let view = self.machine.view(&task.at);
        if let Some(late) = view.sources().into_iter().find(|seq| *seq > task.as_of) {
            return Err(self.violation(format!(
                "`{}` reads event {late}, and was ready at event {}",
                task.at, task.as_of
            )));
        }
        let journal = &self.outside.journal;
        // What a state left is read when it is judged.
        let own = |event: &&Event| {
            event.at == task.at && view.sources().contains(&event.seq) && view.result != Some(event.seq)
        };
        if let Some(own) = journal.iter().find(own) {
            return Err(
                self.violation(format!("`{}` reads what it left itself at event {}", task.at, own.seq))
            );
        }
        self.outside.checker.reads(&task.at, &view, &self.outside.journal)?;
        let journal = &self.outside.journal;
        let names = view.outputs.iter().chain(&view.captured).map(|(_, seq)| *seq).chain(view.prev);
        let item = view.item.map(|item| item_of(journal, item.item.list, item.item.index));
        let phases = view.phases.iter().map(|(_, seq)| value_of(journal, *seq));
        let map = view.map.map(|map| match map {
            MapView::Running { total } => i64::try_from(total).unwrap_or(0),
            MapView::Over(seq) => value_of(journal, seq),
        });
        let state = view.state.iter().flat_map(|state| [state.iteration, state.in_a_row]);
        let earlier = view.earlier.iter().map(|(_, seq)| value_of(journal, *seq));
        let verdict = view.prev.and_then(|prev| view.verdicts.iter().find(|(seq, _)| *seq == prev));
        let verdict = verdict.map(|(_, said)| said.verdict.len() as u64);
        let numbers = state.chain(verdict).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let values = names.map(|seq| value_of(journal, seq)).chain(item).chain(phases).chain(map);
        Ok(values.chain(earlier).chain(numbers).collect())
    }

    /// The last result of each item of a list that has one, in order: all on disk.
    pub(super) fn item_numbers(&self, task: &Task, list: Seq) -> Result<Vec<Option<i64>>, Cut> {
        let from = usize::try_from(list).unwrap_or(usize::MAX);
        let mut results = BTreeMap::new();
        for event in self.outside.journal.iter().skip(from) {
            let EventKind::ItemEnded(ended) = &event.kind else { continue };
            let Some((_, index)) = event.at.as_item().filter(|(list, _)| *list == task.at) else { continue };
            if event.seq > self.outside.durable {
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

fn process_end(ending: ProcessEnding, stdout: String, timing: Timing) -> ProcessEnd {
    ProcessEnd {
        ending,
        stdout: Ok(stdout.into_bytes()),
        stderr: Vec::new(),
        cpu_time: Duration::ZERO,
        max_memory: 0,
        timing,
    }
}

/// A field of a step that fate gives no value.
fn no_value(step: &Step) -> FieldErrors {
    let cause = Cause::Unfit { expected: "a value", value: Value::NULL };
    vec![FieldError { origin: step.origin.clone(), cause }]
}

impl Driver for Life<'_> {
    type Error = Cut;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: self.outside.clock, steady: Duration::from_millis(self.outside.steady) }
    }

    fn spread(&mut self) -> f64 {
        0.5
    }

    fn keep(&mut self, value: &Value) -> Result<Datum, Cut> {
        Ok(Datum::Here(value.clone()))
    }

    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, Cut> {
        let event = usize::try_from(seq).ok().and_then(|seq| self.outside.journal.get(seq.checked_sub(1)?));
        let Some(output) = event.and_then(output_of) else {
            return Err(self.violation(format!("event {seq} has no envelope, and is read")));
        };
        let Datum::Here(value) = &output.value else {
            return Err(self.violation(format!("the value of event {seq} is not in it")));
        };
        Ok(Arc::new(envelope(value.clone(), None, None, output.meta.clone())))
    }

    fn time_of(&mut self, seq: Seq) -> Result<Millis, Cut> {
        let event = usize::try_from(seq).ok().and_then(|seq| self.outside.journal.get(seq.checked_sub(1)?));
        event.map(|event| event.time).ok_or_else(|| self.violation(format!("there is no event {seq}")))
    }

    fn report(&mut self, _: &Address, _: Vec<Problem>) {}

    fn condition(&mut self, task: &Task, _: &View) -> Result<FieldEvaluation<Decision>, Cut> {
        self.reads(task)?;
        Ok(self.fated_fields(task, "when", |fated| {
            if self.fate.holds(fated) { Decision::Go } else { Decision::Skip("fate".into()) }
        }))
    }

    fn list(&mut self, task: &Task, _: &View) -> Result<FieldEvaluation<Expansion>, Cut> {
        self.reads(task)?;
        Ok(self.fated_fields(task, "foreach", |_| chance::expansion(self.step(task))))
    }

    fn fields(&mut self, task: &Task, _: &View, attempt: Attempt) -> Result<FieldEvaluation<Resolved>, Cut> {
        let reads = self.reads(task)?;
        let evaluated = self.fated_fields(task, "fields", |fated| {
            let act = self.fated_act(task, fated, attempt, &reads);
            Resolved { retry: chance::retry(self.step(task)), ..Resolved::plain(act) }
        });
        let answer = Answer { name: "now".into(), args: Vec::new(), answer: Ok(attempt.number.into()) };
        let computes = self.fate.computes(&self.fated(&task.at));
        Ok(FieldEvaluation { computed: computes.then_some(answer).into_iter().collect(), ..evaluated })
    }

    fn expectation(&mut self, _: &Task, _: &View) -> Result<FieldEvaluation<Option<Settled>>, Cut> {
        Ok(FieldEvaluation { result: Ok(None), computed: Vec::new() })
    }

    fn item_values(&mut self, task: &Task, list: Seq, _: u64) -> Result<Result<Value, Failure>, Cut> {
        let numbers: Vec<i64> = self.item_numbers(task, list)?.into_iter().flatten().collect();
        let fated = self.fated(&task.at);
        if !self.fate.evaluates(&fated, "results") {
            return Ok(Err(Failure::new(FailureKind::Format, "fate")));
        }
        // A list of one number is never too large.
        Ok(Ok(Value::list(vec![self.fate.value(&fated, &numbers).into()]).unwrap_or_default()))
    }

    fn store_results(&mut self, task: &Task, list: Seq) -> Result<Datum, Cut> {
        let numbers = self.item_numbers(task, list)?.into_iter().flatten().map(Value::from).collect();
        Ok(Datum::Here(Value::list(numbers).unwrap_or_default()))
    }

    fn aggregates(
        &mut self,
        task: &Task,
        _: &View,
        _: &Value,
        results: &Datum,
    ) -> Result<FieldEvaluation<Value>, Cut> {
        let Datum::Here(results) = results else {
            return Err(self.violation(format!("the results of `{}` are not in their event", task.at)));
        };
        let numbers: Vec<i64> =
            results.as_list().unwrap_or_default().iter().filter_map(Value::as_i64).collect();
        Ok(self.fated_fields(task, "results", |fated| Value::from(self.fate.value(fated, &numbers))))
    }

    fn variables(&mut self, task: &Task, _: &View) -> Result<FieldEvaluation<Value>, Cut> {
        self.reads(task)?;
        let left = self.phase_reads.clone();
        Ok(self.fated_fields(task, "variables", |fated| {
            let value = Value::from(self.fate.value(fated, &left));
            // An object of one number is never too large.
            Value::object([(chance::FATE.into(), value)]).unwrap_or_default()
        }))
    }

    fn limits(&mut self, _: &View) -> Result<FieldEvaluation<LoopLimits>, Cut> {
        let mut world = NoWorld;
        let result = match &self.simulation.plan.workflow.shape {
            Shape::Loop(of) => evaluate::bounds(of, &Scope::new(), &mut Session::new(&mut world)),
            _ => Ok(LoopLimits::default()),
        };
        Ok(FieldEvaluation { result, computed: Vec::new() })
    }

    fn question(
        &mut self,
        task: &Task,
        view: &View,
        judge: &Judge,
    ) -> Result<(Result<Question, Verdict>, Vec<Answer>), Cut> {
        let verdict = self.fated_verdict(task, view)?;
        if verdict == ERROR && self.has_failed(view) {
            return Ok((Err(Verdict::error("fate")), Vec::new()));
        }
        let agent = judge.agent.value.clone();
        // An object of one text is never too large.
        let answer = Value::object([("verdict".into(), verdict.into())]).unwrap_or_default();
        let message = if verdict == ERROR { String::new() } else { answer.to_json(JsonStyle::Compact) };
        let act = Act::Agent { agent: ResolvedAgent::invented(agent.clone()), message };
        Ok((Ok(Question::new(Resolved::plain(act), agent, vec![verdict.into()])), Vec::new()))
    }

    fn judgement(
        &mut self,
        task: &Task,
        view: &View,
        verdict: Option<Verdict>,
        _: &[Answer],
    ) -> Result<(Judgement, Vec<Answer>), Cut> {
        let state = StateView::of(view, &task.at);
        let passed = i64::try_from(self.outside.steady).unwrap_or(i64::MAX);
        if !self.simulation.jumps && !(0..=passed).contains(&state.elapsed_ms) {
            let what = format!("{} of {passed} milliseconds have passed in `{}`", state.elapsed_ms, task.at);
            return Err(self.violation(what));
        }
        let verdict = match verdict {
            Some(verdict) => verdict,
            None => Verdict::new(self.fated_verdict(task, view)?, ""),
        };
        let plan = Arc::clone(&self.simulation.plan);
        let scope = Scope::new();
        let subject =
            judge::JudgedState { plan: &plan, step: task.step, scope: &scope, result: None, state: &state };
        let mut world = NoWorld;
        let judgement = subject.route(verdict, &mut Session::new(&mut world));
        let fingerprint = Hash::of(&self.fate.fingerprint(&self.fated(&task.at)).to_le_bytes());
        Ok((Judgement { fingerprint, ..judgement }, Vec::new()))
    }

    fn exports(&mut self, _: &View) -> Result<FieldEvaluation<Value>, Cut> {
        Ok(FieldEvaluation { result: Ok(Value::NULL), computed: Vec::new() })
    }
}
