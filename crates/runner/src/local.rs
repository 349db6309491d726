//! The local driver of one command: evaluates fields in the names of a step, on this machine, and keeps values in the
//! store.
//!
//! What is evaluated when, and what comes of it, is the engine's business: nothing is decided here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use ecow::EcoString;
use threadline_engine::evaluate::{self, Decision, EnteredFolder, FieldErrors, Resolved};
use threadline_engine::event::{Address, Datum, EventKind, LoopLimits, Millis, Seq};
use threadline_engine::execute::effect::Attempt;
use threadline_engine::execute::result::ClockReading;
use threadline_engine::execute::{Driver, Durability, FieldEvaluation, keep_computed};
use threadline_engine::judge::{self, Judgement, Question, Verdict};
use threadline_engine::machine::Task;
use threadline_engine::select::{self, Expansion};
use threadline_engine::view::{StateView, View, with_map};
use threadline_engine::world::{Answer, Record, Recorder};
use threadline_expect::Settled;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, Judge, Shape, Step};
use threadline_flow::problem::Problem;
use threadline_lang::{Envelope, Scope, Session, Value};

use crate::driver::{DriveError, DrivenRun, Notice, now};
use crate::item_worktree::{GIT_VARIABLES, Placed};
use crate::process::Environment;
use crate::project::Project;
use crate::world::{Commands, Folder, RealWorld};

/// What is recorded among computed values: the worktree of the item.
pub const WORKTREE: &str = "worktree";

/// Carries out one command of a run.
pub(crate) struct LocalDriver<'s, 'a> {
    pub(crate) shared: &'s DrivenRun<'a>,
    /// The worktree of the item that the command is about, once it is entered.
    pub(crate) placed: Option<Placed>,
}

/// Goes to the folder of a step. One that a value decides stays in the project, wherever its links lead.
fn enter(project: &Project, folder: &Folder, entered: EnteredFolder<'_>) -> Result<(), String> {
    if entered.is_data {
        project.place(entered.path).map_err(|error| format!("`cwd`: {}", error.message))?;
    }
    if entered.is_of_step {
        folder.enter(project.here().join(entered.path));
    }
    Ok(())
}

/// The entries of `context`, held while more of them may be evaluated.
type ContextGuard<'s> = Option<MutexGuard<'s, BTreeMap<EcoString, Value>>>;

impl<'s, 'a> LocalDriver<'s, 'a> {
    pub(crate) fn new(shared: &'s DrivenRun<'a>) -> Self {
        Self { shared, placed: None }
    }

    /// The files that steps may read and write.
    pub(crate) fn project(&self) -> &Project {
        self.placed.as_ref().map_or(self.shared.project, |placed| &placed.project)
    }

    fn step(&self, task: &Task) -> &'s Step {
        let shared = self.shared;
        &shared.plan.steps[task.step as usize].step
    }

    /// The folder of a step, where it is written out; one that is computed is not known yet.
    fn written_folder(&self, task: &Task) -> Folder {
        let cwd = self.step(task).cwd.as_ref().and_then(|cwd| Some(cwd.value.as_plain()?.into_owned()));
        let here = self.project().here();
        Folder::new(cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd)))
    }

    /// Evaluates in the names of a step.
    pub(crate) fn evaluate<T>(
        &mut self,
        task: &Task,
        view: &View,
        earlier: &[Answer],
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Vec<Answer>), DriveError> {
        self.evaluate_at(&task.at, &self.written_folder(task), view, earlier, evaluate)
    }

    /// Evaluates in the names of a step and makes it a result.
    fn evaluate_fields<T>(
        &mut self,
        task: &Task,
        view: &View,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> Result<T, FieldErrors>,
    ) -> Result<FieldEvaluation<T>, DriveError> {
        let (result, computed) = self.evaluate(task, view, &[], evaluate)?;
        Ok(FieldEvaluation { result, computed })
    }

    /// Evaluates outside of every step.
    fn evaluate_run<T>(
        &mut self,
        view: &View,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> Result<T, FieldErrors>,
    ) -> Result<FieldEvaluation<T>, DriveError> {
        let folder = Folder::new(self.shared.project.here());
        let (result, computed) = self.evaluate_at(&Address::default(), &folder, view, &[], evaluate)?;
        Ok(FieldEvaluation { result, computed })
    }

    /// Evaluates once everything that may be read is on disk. Entries of `context` are evaluated once per run, so whoever
    /// evaluates one holds them all until it is recorded.
    fn evaluate_at<T>(
        &mut self,
        at: &Address,
        folder: &Folder,
        view: &View,
        earlier: &[Answer],
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Vec<Answer>), DriveError> {
        let shared = self.shared;
        // What judges a state does nothing: its verdict goes to disk behind what it looked at.
        if !view.is_judged || view.sources().iter().any(|seq| !shared.values.has(*seq)) {
            shared.wait_synced(view.as_of)?;
        }
        let worktree = self.placed.as_ref().map(|placed| placed.worktree.clone());
        let scope = view.scope(&shared.scope, &mut &shared.values, worktree.as_deref())?;
        let mut held: ContextGuard<'s> = None;
        let mut known = |name: &str| {
            if let Some(context) = &held {
                return context.get(name).cloned();
            }
            let context = shared.context.lock().unwrap_or_else(PoisonError::into_inner);
            let found = context.get(name).cloned();
            if found.is_none() {
                held = Some(context);
            }
            found
        };
        let mut world = self.world(at, folder);
        let mut recorder = Recorder::new(&mut world, &mut known, earlier);
        let workflow = &shared.plan.workflow;
        let mut session =
            Session::new(&mut recorder).limits(&workflow.syntax.limits).undefined(workflow.undefined);
        if shared.trace {
            session = session.traced();
        }
        let evaluated = evaluate(&scope, &mut session);
        if shared.trace {
            shared.teller.tell(Notice::Resolved(at.clone(), session.take_trace()));
        }
        let warnings = session.take_warnings();
        if !warnings.is_empty() {
            shared.teller.tell(Notice::Warned(at.clone(), warnings));
        }
        drop(session);
        let Record { mut computed, defined } = recorder.finish();
        if let Some(folder) = worktree.filter(|_| view.item.is_some()) {
            // Which worktree an item is given is nothing that could be found out again.
            let answer = Ok(Value::from(folder.as_str()));
            computed.push(Answer { name: WORKTREE.into(), args: Vec::new(), answer });
        }
        if let Some(mut context) = held.filter(|_| !defined.is_empty()) {
            let mut events = Vec::new();
            for definition in &defined {
                let value = self.keep(&definition.value)?;
                let computed = keep_computed(self, &definition.computed)?;
                let kind = EventKind::Defined { name: definition.name.clone(), value, computed };
                events.push((Address::default(), kind));
            }
            // They are on disk before anybody else reads them.
            let seq = shared.record_all(events, Durability::Now)?;
            shared.wait_synced(seq)?;
            context.extend(defined.into_iter().map(|defined| (defined.name, defined.value)));
        }
        Ok((evaluated, computed))
    }

    fn world(&self, at: &Address, folder: &Folder) -> RealWorld<'_> {
        let shared = self.shared;
        let commands = if shared.plan.workflow.allow.commands {
            Commands::Allowed
        } else {
            Commands::Refused("write `allow: {commands: true}` in the workflow")
        };
        RealWorld {
            project: self.project(),
            folder: folder.clone(),
            env: self.environment(at),
            commands,
            computed: &shared.plan.workflow.computed,
            control: shared.control.clone(),
            spool: self.private_folder(),
        }
    }

    /// The environment of what a step starts: it carries the mark of the run. In a worktree nothing leads git elsewhere.
    pub(crate) fn environment(&self, at: &Address) -> Environment {
        let mut env = self.shared.env.clone();
        if self.placed.is_some() {
            for name in GIT_VARIABLES {
                env.remove(name);
            }
        }
        env.mark(self.shared.started.as_str(), at.as_str());
        env
    }

    /// The folder for values and outputs that are too large for memory or the environment.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.shared.project.store().join("spool")
    }

    /// What an attempt that was running at a crash had computed.
    fn earlier(&self, started: Option<Seq>) -> Result<Vec<Answer>, DriveError> {
        let Some(seq) = started else { return Ok(Vec::new()) };
        let reader = self.shared.journal.store().reader();
        match reader.event(self.shared.journal.run(), seq)?.kind {
            EventKind::Started { computed, .. } => Ok(reader.answers(&computed)?),
            _ => Ok(Vec::new()),
        }
    }

    /// What a state left, when it is judged.
    fn judged_envelope(&mut self, view: &View) -> Result<Option<Arc<Envelope>>, DriveError> {
        view.result.map(|seq| self.envelope(seq)).transpose()
    }

    /// The names that a state saw when it acted, where it is judged with others.
    fn acting_scope(&self, view: &View) -> Result<Option<Scope>, DriveError> {
        let scope = |view: &View| view.scope(&self.shared.scope, &mut &self.shared.values, None);
        Ok(view.acting.as_deref().map(scope).transpose()?)
    }
}

impl Driver for LocalDriver<'_, '_> {
    type Error = DriveError;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: now(), steady: self.shared.began.elapsed() }
    }

    fn spread(&mut self) -> f64 {
        let bits = uuid::Uuid::new_v4().as_u64_pair().0 >> 32;
        f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn keep(&mut self, value: &Value) -> Result<Datum, DriveError> {
        Ok(self.shared.journal.store().datum(value)?)
    }

    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, DriveError> {
        let shared = self.shared;
        // What is not at hand is read from the journal, where it has to be first.
        if !shared.values.has(seq) {
            shared.wait_synced(seq)?;
        }
        Ok(shared.values.output(seq)?)
    }

    fn time_of(&mut self, seq: Seq) -> Result<Millis, DriveError> {
        self.shared.wait_synced(seq)?;
        Ok(self.shared.journal.store().reader().event(self.shared.journal.run(), seq)?.time)
    }

    fn report(&mut self, at: &Address, problems: Vec<Problem>) {
        self.shared.teller.tell(Notice::Problems(at.clone(), problems));
    }

    fn condition(&mut self, task: &Task, view: &View) -> Result<FieldEvaluation<Decision>, DriveError> {
        let step = self.step(task);
        self.evaluate_fields(task, view, |scope, session| evaluate::decide(step, scope, session))
    }

    fn list(&mut self, task: &Task, view: &View) -> Result<FieldEvaluation<Expansion>, DriveError> {
        let plan = &self.shared.plan;
        self.evaluate_fields(task, view, |scope, session| select::expand(plan, task.step, scope, session))
    }

    fn fields(
        &mut self,
        task: &Task,
        view: &View,
        attempt: Attempt,
    ) -> Result<FieldEvaluation<Resolved>, DriveError> {
        let earlier = if attempt.rerun { self.earlier(view.started)? } else { Vec::new() };
        let folder = self.written_folder(task);
        let project = self.project().clone();
        let enter = |entered: EnteredFolder<'_>| enter(&project, &folder, entered);
        let plan = &self.shared.plan;
        let (result, computed) = self.evaluate_at(&task.at, &folder, view, &earlier, |scope, session| {
            evaluate::resolve(plan, task.step, scope, session, enter)
        })?;
        Ok(FieldEvaluation { result, computed })
    }

    fn expectation(
        &mut self,
        task: &Task,
        view: &View,
    ) -> Result<FieldEvaluation<Option<Settled>>, DriveError> {
        let Some(expect) = &self.step(task).expect else {
            return Ok(FieldEvaluation { result: Ok(None), computed: Vec::new() });
        };
        self.evaluate_fields(task, view, |scope, session| {
            evaluate::settle(&expect.value, scope, session).map(Some)
        })
    }

    fn item_values(
        &mut self,
        task: &Task,
        list: Seq,
        total: u64,
    ) -> Result<Result<Value, Failure>, DriveError> {
        let values = self.values_of_items(task, list, total)?;
        Ok(Value::list(values).map_err(|_| {
            Failure::new(FailureKind::Format, "the results of all items are too large together")
        }))
    }

    fn store_results(&mut self, task: &Task, list: Seq) -> Result<Datum, DriveError> {
        self.store_item_results(task, list)
    }

    fn aggregates(
        &mut self,
        task: &Task,
        view: &View,
        map: &Value,
        results: &Datum,
    ) -> Result<FieldEvaluation<Value>, DriveError> {
        let shared = self.shared;
        let rows = shared.values.rows(results)?;
        self.evaluate_fields(task, view, |scope, session| {
            select::aggregates(&shared.plan, &with_map(scope, map, rows), session)
        })
    }

    fn variables(&mut self, task: &Task, view: &View) -> Result<FieldEvaluation<Value>, DriveError> {
        let Action::Phase(phase) = &self.step(task).action else {
            return Ok(FieldEvaluation { result: Ok(Value::NULL), computed: Vec::new() });
        };
        self.evaluate_fields(task, view, |scope, session| select::variables(phase, scope, session))
    }

    fn limits(&mut self, view: &View) -> Result<FieldEvaluation<LoopLimits>, DriveError> {
        let plan = &self.shared.plan;
        self.evaluate_run(view, |scope, session| match &plan.workflow.shape {
            Shape::Loop(of) => evaluate::bounds(of, scope, session),
            _ => Ok(LoopLimits::default()),
        })
    }

    fn question(
        &mut self,
        task: &Task,
        view: &View,
        judge: &Judge,
    ) -> Result<(Result<Question, Verdict>, Vec<Answer>), DriveError> {
        let plan = &self.shared.plan;
        let (result, acting) = (self.judged_envelope(view)?, self.acting_scope(view)?);
        let state = StateView::of(view, &task.at);
        let folder = self.written_folder(task);
        let project = self.project().clone();
        let enter = |entered: EnteredFolder<'_>| enter(&project, &folder, entered);
        self.evaluate_at(&task.at, &folder, view, &[], |scope, session| {
            let (scope, unable) = judge::scope_of(plan, task.step, acting.as_ref(), scope, session);
            if let Some(verdict) = unable {
                return Err(verdict);
            }
            let judged = judge::JudgedState {
                plan,
                step: task.step,
                scope: &scope,
                result: result.as_deref(),
                state: &state,
            };
            judged.question(judge, session, enter)
        })
    }

    fn judgement(
        &mut self,
        task: &Task,
        view: &View,
        verdict: Option<Verdict>,
        earlier: &[Answer],
    ) -> Result<(Judgement, Vec<Answer>), DriveError> {
        let plan = &self.shared.plan;
        let (result, acting) = (self.judged_envelope(view)?, self.acting_scope(view)?);
        let state = StateView::of(view, &task.at);
        self.evaluate(task, view, earlier, |scope, session| {
            let (scope, unable) = judge::scope_of(plan, task.step, acting.as_ref(), scope, session);
            let judged = judge::JudgedState {
                plan,
                step: task.step,
                scope: &scope,
                result: result.as_deref(),
                state: &state,
            };
            let verdict = verdict.or(unable).unwrap_or_else(|| judged.verdict(session));
            judged.route(verdict, session)
        })
    }

    fn exports(&mut self, view: &View) -> Result<FieldEvaluation<Value>, DriveError> {
        let plan = &self.shared.plan;
        self.evaluate_run(view, |scope, session| evaluate::exports(plan, scope, session))
    }
}
