//! A loop walked with invented results: the real machine, the real routes and limits, and nothing is done.
//!
//! What a state comes to is invented, or said by a script. Where the script says what a state leaves, and where a verdict
//! reads nothing that was invented, the state is judged as in a run. An invented output is a new one every time, so that
//! only a script makes a loop stall; every state takes a second.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_expect::Settled;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, Evaluator, Judge, Verdicts};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_flow::problem::Problem;
use threadline_lang::{Envelope, Resolution, Scope, ScopeEntry, Session, Value, World};

use crate::agent::ResolvedAgent;
use crate::evaluate::{self, Act, Decision, FieldErrors, Resolved};
use crate::event::{Address, Datum, ERROR, Event, EventKind, LoopEnd, LoopReason, Millis, RunStarted, Seq};
use crate::execute::effect::{
    Attempt, ChosenItems, Effect, EffectKey, EffectResult, ProcessEnd, ProcessEnding, StartFailure,
};
use crate::execute::result::{ClockReading, Timing};
use crate::execute::{
    Driver, EnterFolder, EvaluatedFields, Executor, FieldEvaluation, Next, Recording, Site, StepSite,
};
use crate::judge::{self, Judgement, Question, Rule, Verdict};
use crate::machine::{Command, Machine, Outcome, Task};
use crate::memory::{MemoryJournal, MissingValue};
use crate::random::Random;
use crate::replay::Maker;
use crate::select::{Expansion, ResolvedSource};
use crate::view::{Load as _, RunNames, StateView, View};
use crate::world::Answer;

/// So many states are executed in one walk at most, whatever the file allows.
pub const MOST_STEPS: u64 = 10_000;

/// How long a state takes, in milliseconds.
const DURATION: Millis = 1_000;

/// What states come to.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// What these states come to, one visit after the other; the last goes on.
    pub states: BTreeMap<EcoString, Vec<Scripted>>,
    /// What all others do.
    pub others: Others,
}

/// What a state comes to.
#[derive(Debug, Clone)]
pub enum Scripted {
    /// The state comes to this verdict.
    Verdict(EcoString),
    /// Whatever it is judged by makes of this.
    Output(ScriptedOutput),
}

/// What the action of a state is said to do.
#[derive(Debug, Clone)]
pub struct ScriptedOutput {
    /// What it prints.
    pub output: EcoString,
    /// Its exit code.
    pub exit_code: i32,
    /// Why its action cannot be done.
    pub error: Option<EcoString>,
}

/// What states come to that nobody speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    /// `yes`, or the best verdict there is.
    #[default]
    Yes,
    /// `no`, or the worst.
    No,
    /// No verdict at all.
    Error,
    /// `no` at the first visit, `yes` at the second, and so on.
    Alternating,
    /// One of the verdicts that it can come to; an error only where that has a route.
    Random(u64),
}

/// A walk from the first state to its end.
#[derive(Debug)]
pub struct Walked {
    /// Every state that was executed.
    pub visits: Vec<Visit>,
    /// How it ended.
    pub end: End,
    /// How many iterations were begun.
    pub iterations: u64,
    /// The states that were repeated until a limit ended it, by their positions.
    pub cycle: Option<Vec<usize>>,
}

/// How a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As the machine says.
    Ended(Outcome, Option<LoopEnd>),
    /// The file allows more states than are walked here.
    GivenUp,
}

/// One executed state.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Which execution: `check#3`.
    pub at: Address,
    /// The position of the state.
    pub state: usize,
    /// The iteration it belongs to, from 1.
    pub iteration: u64,
    /// The verdict of this visit.
    pub verdict: EcoString,
    /// Why it is that.
    pub reason: EcoString,
    /// Whether it was judged as in a run.
    pub is_judged: bool,
    /// The state that it leads to, by its position, and what led there.
    pub to: Option<(usize, Rule)>,
}

/// A way from one state to another, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEdge {
    /// From which state, by its position.
    pub from: usize,
    /// The position of the state that it leads to.
    pub to: usize,
    /// What leads there, in the words of the file: verdicts, `error`, `_`.
    pub labels: Vec<EcoString>,
}

/// Every way that the states of a loop lead, in the order of the file; those between two states are one.
pub fn edges(plan: &Plan) -> Vec<RouteEdge> {
    let mut edges: Vec<RouteEdge> = Vec::new();
    // The ways from a state stand behind each other.
    let mut add = |from: usize, to: usize, label: EcoString| {
        let mut own = edges.iter_mut().rev().take_while(|edge| edge.from == from);
        match own.find(|edge| edge.to == to) {
            Some(edge) => edge.labels.push(label),
            None => edges.push(RouteEdge { from, to, labels: vec![label] }),
        }
    };
    let routes = plan.states.iter().flat_map(|states| &states.routes).enumerate();
    for (from, ways) in routes {
        for (at, to) in ways.conditions.iter().enumerate() {
            add(from, *to, eco_format!("condition {}", at + 1));
        }
        for (verdict, to) in &ways.on {
            add(from, *to, verdict.clone());
        }
        let alone = ways.on.is_empty() && ways.conditions.is_empty();
        let rest = [
            (ways.otherwise, if alone { "" } else { "_" }),
            (ways.error, ERROR),
            (ways.exhausted, "retries exhausted"),
        ];
        for (to, label) in rest {
            if let Some(to) = to {
                add(from, to, label.into());
            }
        }
    }
    edges
}

/// Walks a loop from its beginning to its end. Without what holds for the loop there is none.
pub fn walk(
    plan: &Arc<Plan>,
    names: &RunNames,
    script: &Script,
    world: &mut dyn World,
) -> Result<Walked, FieldErrors> {
    let random = if let Others::Random(seed) = script.others { seed } else { 0 };
    let mut rehearsal = Rehearsal {
        plan,
        run: names.scope(plan),
        script,
        world,
        machine: Machine::new(Arc::clone(plan)),
        todo: VecDeque::new(),
        time: 0,
        journal: Vec::new(),
        known: BTreeSet::new(),
        meant: BTreeMap::new(),
        counts: BTreeMap::new(),
        random: Random::new(random),
        visits: Vec::new(),
        end: None,
    };
    evaluate::limits(&plan.workflow, &rehearsal.run, &mut session(plan, rehearsal.world))?;
    let started = RunStarted::bare(names.run.clone(), names.workflow.clone());
    rehearsal.happen(Address::default(), EventKind::RunStarted(started));
    while rehearsal.end.is_none() {
        let Some(command) = rehearsal.todo.pop_front() else {
            // A machine without anything to do has ended.
            break;
        };
        // A machine asks only for what was recorded.
        if rehearsal.follow(command).is_err() {
            rehearsal.end = Some(End::GivenUp);
        }
        if rehearsal.visits.len() as u64 >= MOST_STEPS {
            rehearsal.end.get_or_insert(End::GivenUp);
        }
    }
    let Rehearsal { visits, end, .. } = rehearsal;
    let end = end.unwrap_or(End::GivenUp);
    let by_limit = match &end {
        End::Ended(_, ended) => ended.as_ref().is_some_and(|end| end.reason != LoopReason::Terminal),
        End::GivenUp => true,
    };
    let cycle = if by_limit { cycle(&visits) } else { None };
    let iterations = visits.last().map_or(0, |visit| visit.iteration);
    Ok(Walked { visits, end, iterations, cycle })
}

/// The shortest row of states that a walk repeats at its end, at least twice.
fn cycle(visits: &[Visit]) -> Option<Vec<usize>> {
    let states: Vec<usize> = visits.iter().map(|visit| visit.state).collect();
    let repeats = |length: &usize| {
        let (tail, before) = (&states[states.len() - length..], &states[..states.len() - length]);
        before.ends_with(tail)
    };
    let length = (1..=states.len() / 2).find(repeats)?;
    let row = &states[states.len() - length..];
    // It is told from the state of it that the file has first.
    let first = row.iter().enumerate().min_by_key(|(_, state)| **state).map_or(0, |(at, _)| at);
    Some(row[first..].iter().chain(&row[..first]).copied().collect())
}

struct Rehearsal<'a> {
    plan: &'a Arc<Plan>,
    run: Scope,
    script: &'a Script,
    world: &'a mut dyn World,
    machine: Machine,
    todo: VecDeque<Command>,
    time: Millis,
    journal: Vec<Event>,
    /// Events with an output of which the script says what it is.
    known: BTreeSet<Seq>,
    /// What executions are to come to that are under way.
    meant: BTreeMap<Address, Option<Scripted>>,
    /// How often each state was executed, and each condition looked at.
    counts: BTreeMap<(usize, Option<usize>), u64>,
    random: Random,
    visits: Vec<Visit>,
    end: Option<End>,
}

impl Rehearsal<'_> {
    /// The machine takes an event that it waits for.
    fn happen(&mut self, at: Address, kind: EventKind) -> Seq {
        let seq = self.machine.last() + 1;
        let event = Event { seq, time: self.time, at, kind };
        match self.machine.apply(&event) {
            Ok(commands) => self.todo.extend(commands),
            // Only what was asked for is told; a machine that refuses it goes no further.
            Err(_) => self.end = Some(End::GivenUp),
        }
        self.journal.push(event);
        seq
    }

    /// Carries out a command as in a run, with what is invented for its effects.
    fn follow(&mut self, command: Command) -> Result<(), MissingValue> {
        // What it would export is made of what was invented.
        if let Command::End { outcome, ended, .. } = command {
            self.end = Some(End::Ended(outcome, ended));
            return Ok(());
        }
        let plan = Arc::clone(self.plan);
        let executor = Executor::new(&plan);
        let view = self.machine.view_of(&command);
        let mut next = executor.begin(self, command, view)?;
        loop {
            let performance = match next {
                Next::Record(recording) => {
                    self.record(*recording);
                    return Ok(());
                }
                Next::Perform(performance) => *performance,
                Next::Pause(at, pause) => {
                    self.time = self.time.max(pause.until);
                    let next = self.machine.after_pause(&at);
                    self.todo.extend(next);
                    return Ok(());
                }
                Next::Ask(_) | Next::Hold(..) | Next::Later(..) | Next::Leave => return Ok(()),
            };
            if let Some(before) = performance.before {
                self.record(before);
            }
            let result = self.invent(&performance.key, &performance.effect);
            next = executor.done(self, performance.pending, result)?;
        }
    }

    fn record(&mut self, recording: Recording) {
        let Recording { at, kind, envelope, .. } = recording;
        let is_known = matches!(self.meant.get(&at), Some(Some(Scripted::Output(_))));
        let seq = self.happen(at, kind);
        self.known.extend((is_known && envelope.is_some()).then_some(seq));
    }

    /// What comes of an effect: what the script says, and otherwise something that fits. Every action takes its time.
    fn invent(&mut self, key: &EffectKey, effect: &Effect) -> EffectResult {
        let started = self.time;
        let timing = Timing::since(started, started + DURATION);
        match effect {
            Effect::Process(_) => {
                self.time += DURATION;
                let scripted = if let Some(Some(Scripted::Output(output))) = self.meant.get(&key.at) {
                    output.clone()
                } else {
                    let error = Some("invented".into());
                    ScriptedOutput { output: EcoString::new(), exit_code: 0, error }
                };
                let ScriptedOutput { output, exit_code, error } = scripted;
                EffectResult::Process(match error {
                    Some(error) => Err(StartFailure {
                        message: error.into(),
                        hint: None,
                        is_missing: false,
                        kind: FailureKind::Start,
                    }),
                    None => Ok(ProcessEnd::printed(ProcessEnding::Exited(exit_code), &output, timing)),
                })
            }
            // There are no items here.
            Effect::ReadItems(_) => EffectResult::Items(Ok(ChosenItems::whole(Vec::new()))),
            Effect::CloseWorktrees | Effect::AbandonItem { .. } => EffectResult::Branch(None),
            Effect::EnterWorktree { .. } | Effect::MergeItem(_) => EffectResult::Worktree(Ok(())),
            _ => {
                self.time += DURATION;
                EffectResult::Nothing
            }
        }
    }

    /// The state that a step is.
    fn position(&self, step: StepNumber) -> Option<usize> {
        self.plan.lists[0].steps.iter().position(|known| *known == step)
    }

    /// What the script says that a state comes to this time.
    fn meant(&mut self, state: usize) -> Option<Scripted> {
        let count = self.counts.entry((state, None)).or_default();
        *count += 1;
        let row = self.script.states.get(&self.plan.lists[0].word(state))?;
        let at = usize::try_from(*count - 1).unwrap_or(usize::MAX).min(row.len().checked_sub(1)?);
        row.get(at).cloned()
    }

    /// What a step is given to do: what the script says comes of it, or an output that was never there before and fits
    /// the verdict that is meant.
    fn invented_act(&mut self, task: &Task) -> Act {
        let state = self.position(task.step);
        let meant = state.and_then(|state| self.meant(state));
        let is_error = match (state, &meant) {
            (Some(_), Some(Scripted::Verdict(verdict))) => verdict == ERROR,
            (Some(_), None) => self.script.others == Others::Error,
            _ => false,
        };
        let is_program = is_error || matches!(meant, Some(Scripted::Output(_)));
        if state.is_some() {
            self.meant.insert(task.at.clone(), meant);
        }
        if !is_program {
            return Act::Value(Value::from(format!("invented {}", self.machine.last())));
        }
        match &self.plan.steps[task.step as usize].step.action {
            Action::Agent { agent, .. } => {
                let agent = ResolvedAgent::invented(agent.value.clone());
                Act::Agent { agent, message: String::new(), thread: None }
            }
            _ => Act::Argv(Vec::new()),
        }
    }

    // ---- judging ---------------------------------------------------------------------------------------

    fn judge(&mut self, task: &Task, view: &View) -> Result<Judgement, MissingValue> {
        let plan = Arc::clone(self.plan);
        let state = self.position(task.step).unwrap_or(0);
        let meant = match self.meant.remove(&task.at) {
            Some(meant) => meant,
            // One that does nothing is only judged.
            None => self.meant(state),
        };
        let scope = self.scope(view)?;
        let result = view.result.map(|seq| self.envelope(seq)).transpose()?;
        let of_state = StateView::of(view, &task.at);
        let acting = view.acting.as_deref().map(|view| self.scope(view)).transpose()?;
        let mut own = session(&plan, self.world).traced();
        let (scope, unable) = judge::scope_of(&plan, task.step, acting.as_ref(), &scope, &mut own);
        let trace = own.take_trace();
        drop(own);
        let of_known = unable.is_none() && self.is_known(view, &trace);
        let judged = judge::JudgedState {
            plan: &plan,
            step: task.step,
            scope: &scope,
            result: result.as_deref(),
            state: &of_state,
        };
        let (verdict, is_judged) = match meant {
            Some(Scripted::Verdict(verdict)) => (Verdict::new(verdict, "as the script says"), false),
            meant => {
                let judged =
                    of_known.then(|| self.judged_as_in_a_run(&judged, view, meant.is_some())).flatten();
                let is_judged = judged.is_some();
                (judged.unwrap_or_else(|| Verdict::new(self.verdict(state), "invented")), is_judged)
            }
        };
        let judgement = self.route(&judged, view, state, verdict);
        let next = judgement.to.as_ref().and_then(|to| plan.lists[0].position(to));
        self.visits.push(Visit {
            at: task.at.clone(),
            state,
            iteration: of_state.iteration,
            verdict: judgement.verdict.verdict.clone(),
            reason: judgement.verdict.reason.clone(),
            is_judged,
            to: next.zip(judgement.by),
        });
        Ok(judgement)
    }

    /// The verdict of what judges the state, where nothing that it looks at was invented.
    fn judged_as_in_a_run(
        &mut self,
        judged: &judge::JudgedState<'_>,
        view: &View,
        scripted: bool,
    ) -> Option<Verdict> {
        let step = &self.plan.steps[judged.step as usize].step;
        if matches!(step.evaluator(), Some(Evaluator::Agent(_))) {
            // Nobody is asked.
            return None;
        }
        let reads_result = !matches!(step.evaluator(), Some(Evaluator::Expression(_)));
        if reads_result && judged.result.is_some() && !scripted {
            return None;
        }
        let mut session = session(self.plan, self.world).traced();
        let verdict = judged.verdict(&mut session);
        let trace = session.take_trace();
        drop(session);
        self.is_known(view, &trace).then_some(verdict)
    }

    /// Whether nothing that was read was invented.
    fn is_known(&self, view: &View, trace: &[Resolution]) -> bool {
        trace.iter().all(|resolution| match view.maker(resolution) {
            Maker::Event(seq) => self.known.contains(&seq),
            Maker::Item { .. } | Maker::World => false,
            _ => true,
        })
    }

    /// Where a verdict leads. A condition that reads what was invented holds as verdicts are invented.
    fn route(
        &mut self,
        judged: &judge::JudgedState<'_>,
        view: &View,
        state: usize,
        verdict: Verdict,
    ) -> Judgement {
        judged.route_where(verdict, &mut |number, condition, scope| {
            let mut session = session(self.plan, self.world).traced();
            session.set_origin(Some(condition.origin.clone()));
            let holds = condition.value.condition(scope, &mut session);
            let trace = session.take_trace();
            drop(session);
            // The verdict itself is known, whoever said it.
            let reads = trace.into_iter().filter(|read| {
                read.root != "result"
                    || !matches!(
                        read.first.as_deref(),
                        Some("verdict" | "confidence" | "reason" | "evidence" | "details")
                    )
            });
            if self.is_known(view, &reads.collect::<Vec<_>>()) {
                return holds;
            }
            let count = self.counts.entry((state, Some(number))).or_default();
            *count += 1;
            Ok(match self.script.others {
                Others::Yes => true,
                Others::No | Others::Error => false,
                Others::Alternating => count.is_multiple_of(2),
                Others::Random(_) => self.random.percent(50),
            })
        })
    }

    /// A verdict for a state that nobody speaks of.
    fn verdict(&mut self, state: usize) -> EcoString {
        let step = self.plan.lists[0].steps[state];
        if matches!(self.plan.steps[step as usize].step.action, Action::Fail(_)) {
            return ERROR.into();
        }
        let can = verdicts(self.plan, state);
        let has = |word: &str| can.iter().find(|known| *known == word).cloned();
        let best = has("yes").or_else(|| can.first().cloned()).unwrap_or_else(|| "yes".into());
        let worst = has("no").or_else(|| can.last().cloned()).unwrap_or_else(|| "no".into());
        let count = self.counts.get(&(state, None)).copied().unwrap_or(1);
        match self.script.others {
            Others::Yes => best,
            Others::Error => ERROR.into(),
            Others::Alternating if count.is_multiple_of(2) => best,
            Others::No | Others::Alternating => worst,
            Others::Random(_) => {
                let ways = self.plan.states.as_ref().and_then(|states| states.routes.get(state));
                let error = ways.is_some_and(|ways| ways.error.is_some()).then(|| EcoString::from(ERROR));
                let can: Vec<EcoString> = can.into_iter().chain(error).collect();
                let at = self.random.below(can.len() as u64);
                usize::try_from(at).ok().and_then(|at| can.get(at)).cloned().unwrap_or_else(|| "yes".into())
            }
        }
    }
}

/// The verdicts that a state can come to, the best first, beside `error`.
fn verdicts(plan: &Plan, state: usize) -> Vec<EcoString> {
    let step = &plan.steps[plan.lists[0].steps[state] as usize].step;
    // What was called can end badly and have ended. So can a command, which matters only where that is judged.
    let may_fail = match step.action {
        Action::Workflow(_) => true,
        Action::Shell { .. } | Action::Argv(_) => step.is_judged(),
        _ => false,
    };
    let known = match step.evaluator() {
        None => vec!["yes".into()],
        Some(Evaluator::Outcome) if !may_fail => vec!["yes".into()],
        Some(evaluator) => match evaluator.verdicts() {
            Verdicts::Known(words) => words,
            Verdicts::Any => Vec::new(),
        },
    };
    if !known.is_empty() {
        return known;
    }
    // Whatever is routed, and something that is not where the others lead somewhere.
    let ways = plan.states.as_ref().and_then(|states| states.routes.get(state));
    let routed = ways.into_iter().flat_map(|ways| &ways.on).map(|(verdict, _)| verdict.clone());
    let mut words: Vec<EcoString> = Vec::new();
    for word in routed {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if ways.is_some_and(|ways| ways.otherwise.is_some()) || words.is_empty() {
        words.push(if words.is_empty() { "yes".into() } else { "anything else".into() });
    }
    words
}

fn session<'w>(plan: &'w Plan, world: &'w mut dyn World) -> Session<'w> {
    Session::new(world).limits(&plan.workflow.syntax.limits).undefined(plan.workflow.undefined)
}

impl Driver for Rehearsal<'_> {
    type Error = MissingValue;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: self.time, steady: Duration::from_millis(self.time.unsigned_abs()) }
    }

    fn spread(&mut self) -> f64 {
        0.0
    }

    fn keep(&mut self, value: &Value) -> Result<Datum, MissingValue> {
        Ok(Datum::Here(value.clone()))
    }

    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, MissingValue> {
        MemoryJournal(&self.journal).output(seq)
    }

    fn event(&mut self, seq: Seq) -> Result<Event, MissingValue> {
        MemoryJournal(&self.journal).event(seq).cloned()
    }

    fn answers(&mut self, _: Seq) -> Result<Vec<Answer>, MissingValue> {
        Ok(Vec::new())
    }

    fn item_values(&mut self, _: &Task, _: Seq, _: u64) -> Result<Result<Value, Failure>, MissingValue> {
        Ok(Ok(Value::from(format!("invented {}", self.machine.last()))))
    }

    fn store_results(&mut self, _: &Task, _: Seq) -> Result<Datum, MissingValue> {
        Ok(Datum::Here(Value::NULL))
    }

    fn rows(&mut self, _: &Datum) -> Result<ScopeEntry, MissingValue> {
        Ok(ScopeEntry::Plain(Value::NULL))
    }

    fn report(&mut self, _: &Address, _: Vec<Problem>) {}

    fn scope(&mut self, view: &View) -> Result<Scope, MissingValue> {
        view.scope(&self.run, &mut MemoryJournal(&self.journal), None)
    }

    fn evaluate<T>(
        &mut self,
        site: Site<'_>,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>, &EnterFolder<'_>) -> T,
    ) -> Result<FieldEvaluation<T>, MissingValue> {
        let scope = self.scope(site.view)?;
        Ok(FieldEvaluation::known(evaluate(&scope, &mut session(site.plan, self.world), &|_| Ok(()))))
    }

    fn condition(&mut self, _: StepSite<'_>) -> Result<EvaluatedFields<Decision>, MissingValue> {
        Ok(FieldEvaluation::known(Ok(Decision::Go)))
    }

    fn list(&mut self, _: StepSite<'_>) -> Result<EvaluatedFields<Expansion>, MissingValue> {
        Ok(FieldEvaluation::known(Ok(Expansion::plain(ResolvedSource::List(Value::NULL)))))
    }

    fn fields(&mut self, site: StepSite<'_>, _: Attempt) -> Result<EvaluatedFields<Resolved>, MissingValue> {
        Ok(FieldEvaluation::known(Ok(Resolved::plain(self.invented_act(site.task)))))
    }

    fn expectation(&mut self, _: StepSite<'_>) -> Result<EvaluatedFields<Option<Settled>>, MissingValue> {
        Ok(FieldEvaluation::known(Ok(None)))
    }

    fn question(
        &mut self,
        _: StepSite<'_>,
        _: &Judge,
        _: &[Answer],
    ) -> Result<FieldEvaluation<Result<Question, Verdict>>, MissingValue> {
        Ok(FieldEvaluation::known(Err(Verdict::error("nobody is asked"))))
    }

    fn judgement(
        &mut self,
        site: StepSite<'_>,
        _: Option<Verdict>,
        _: &[Answer],
    ) -> Result<FieldEvaluation<Judgement>, MissingValue> {
        Ok(FieldEvaluation::known(self.judge(site.task, site.view)?))
    }
}
