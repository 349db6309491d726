//! The local driver of one command: evaluates fields in the names of a step, on this machine, and keeps values in the
//! store.
//!
//! What is evaluated when, and what comes of it, is the engine's business: nothing is decided here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::agent::exchange::{Answered, ExchangeRecord, ExchangeRequest};
use threadline_engine::evaluate::EnteredFolder;
use threadline_engine::event::{Address, Datum, Event, EventKind, Millis, Seq};
use threadline_engine::execute::effect::{Effect, EffectKey};
use threadline_engine::execute::result::ClockReading;
use threadline_engine::execute::{AgentCall, CallAdmission};
use threadline_engine::execute::{
    Driver, Durability, EarlierResult, EnterFolder, FieldEvaluation, SecretView, Site, StepSite,
    keep_computed,
};
use threadline_engine::machine::Task;
use threadline_engine::replay::Evaluated;
use threadline_engine::spend::Spend;
use threadline_engine::view::View;
use threadline_engine::world::{Answer, Record, Recorder};
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::problem::Problem;
use threadline_lang::{Envelope, Scope, ScopeEntry, Session, Value};

use crate::answers::KeptAnswers;
use crate::clock::now;
use crate::driver::{DriveError, DrivenRun, Notice, WaitReason};
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
    /// Whether the effect that it performs holds secrets.
    pub(crate) has_secrets: bool,
    /// The effect with words in place of secrets, where those are looked up elsewhere.
    pub(crate) named: Option<Effect>,
    /// Whether the attempt that it performs was under way when the run was killed.
    pub(crate) is_rerun: bool,
    /// The time that the effect may not outlast.
    pub(crate) not_after: Option<Millis>,
    /// The agent that its effect asks.
    pub(crate) call: Option<AgentCall>,
    /// How many calls of agents had ended when it was told that all that may be are in flight.
    pub(crate) queued_at: u64,
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

impl<'s, 'a> LocalDriver<'s, 'a> {
    pub(crate) fn new(shared: &'s DrivenRun<'a>) -> Self {
        Self {
            shared,
            placed: None,
            has_secrets: false,
            named: None,
            is_rerun: false,
            not_after: None,
            call: None,
            queued_at: 0,
        }
    }

    /// The files that steps may read and write.
    pub(crate) fn project(&self) -> &Project {
        self.placed.as_ref().map_or(self.shared.project, |placed| &placed.project)
    }

    /// The folder of a step, where it is written out; one that is computed is not known yet.
    fn written_folder(&self, task: &Task) -> Folder {
        let step = &self.shared.plan.steps[task.step as usize].step;
        let cwd = step.cwd.as_ref().and_then(|cwd| Some(cwd.value.as_plain()?.into_owned()));
        let here = self.project().here();
        Folder::new(cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd)))
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
            masks: shared.surroundings.masks().cloned(),
            threads: None,
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

    /// The folder for values that a program reads from files. Secrets are not written to a disk where that can be avoided.
    pub(crate) fn value_folder(&self) -> PathBuf {
        let memory = Path::new("/dev/shm");
        if self.has_secrets && memory.is_dir() { memory.to_owned() } else { self.private_folder() }
    }

    /// The folder for values and outputs that are too large for memory or the environment.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.shared.journal.store().spool_folder()
    }
}

impl Driver for LocalDriver<'_, '_> {
    type Error = DriveError;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: now(), steady: self.shared.began.elapsed() }
    }

    fn admit(&mut self, at: &Address, used: &Spend, call: &AgentCall) -> CallAdmission {
        let (admission, seen) = self.shared.admit(at, used, call);
        self.queued_at = seen;
        self.call = Some(call.clone());
        admission
    }

    fn leave_alone(&mut self, call: &AgentCall, pause: Duration) {
        self.shared.gates.close(&self.shared.plan.workflow, &call.agent, Instant::now(), pause);
    }

    fn unanswered(&mut self, at: &Address) -> Option<u32> {
        Some(self.shared.unanswered(at))
    }

    fn judge_waits(&mut self, at: &Address, failure: &Failure, pause: Duration) {
        self.shared.judge_waits(at, pause);
        let why = WaitReason::Unanswered(failure.message.clone());
        self.shared.teller.tell(Notice::Waits(at.clone(), why, pause));
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

    fn report(&mut self, at: &Address, problems: Vec<Problem>) {
        self.shared.teller.tell(Notice::Problems(at.clone(), problems));
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

    fn rows(&mut self, results: &Datum) -> Result<ScopeEntry, DriveError> {
        Ok(self.shared.values.rows(results)?)
    }

    fn event(&mut self, seq: Seq) -> Result<Event, DriveError> {
        self.shared.wait_synced(seq)?;
        Ok(self.shared.journal.store().reader().event(self.shared.journal.run(), seq)?)
    }

    fn answers(&mut self, seq: Seq) -> Result<Vec<Answer>, DriveError> {
        let reader = self.shared.journal.store().reader();
        match reader.event(self.shared.journal.run(), seq)?.kind {
            EventKind::Started { computed, .. } => Ok(reader.answers(&computed)?),
            _ => Ok(Vec::new()),
        }
    }

    fn earlier(
        &mut self,
        site: StepSite<'_>,
        evaluated: Evaluated,
    ) -> Result<Option<EarlierResult>, DriveError> {
        let Some(earlier) = &self.shared.earlier else { return Ok(None) };
        earlier.result(self.shared, &site.task.at, site.view.path, evaluated)
    }

    fn recorded(&mut self, key: &EffectKey) -> Result<Option<ExchangeRecord>, DriveError> {
        let Some(files) = &self.shared.exchanges else { return Ok(None) };
        Ok(files.find(&self.shared.plan, key, self.shared.item_attempt(&key.at)))
    }

    fn kept_answer(&mut self, asked: &ExchangeRequest) -> Option<Answered> {
        KeptAnswers::of_store(&self.shared.project.store()).read(asked)
    }

    fn keep_answer(&mut self, asked: &ExchangeRequest, answered: &Answered) {
        KeptAnswers::of_store(&self.shared.project.store()).keep(asked, answered);
    }

    fn exchanged(&mut self, key: &EffectKey, exchange: &dyn Fn() -> (ExchangeRequest, Answered)) {
        let Some(files) = &self.shared.exchanges else { return };
        let kept = files.keep(&self.shared.plan, key, self.shared.item_attempt(&key.at), exchange);
        if let Err(message) = kept {
            self.shared.warn(&key.at, "record", message);
        }
    }

    fn scope(&mut self, view: &View) -> Result<Scope, DriveError> {
        let worktree = self.placed.as_ref().map(|placed| placed.worktree.as_str());
        Ok(view.scope(&self.shared.scope, &mut &self.shared.values, worktree)?)
    }

    /// Entries of `context` are evaluated once per run, so whoever evaluates one holds them all until it is recorded.
    fn evaluate<T>(
        &mut self,
        site: Site<'_>,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>, &EnterFolder<'_>) -> T,
    ) -> Result<FieldEvaluation<T>, DriveError> {
        let (shared, view) = (self.shared, site.view);
        // What a state is judged by need not be on disk where it is at hand.
        if view.is_judged && view.sources().iter().any(|seq| !shared.values.has(*seq)) {
            shared.wait_synced(view.as_of)?;
        }
        let at = site.task.map(|task| task.at.clone()).unwrap_or_default();
        let project = self.project().clone();
        let folder = site.task.map_or_else(|| Folder::new(project.here()), |task| self.written_folder(task));
        let mut scope = self.scope(view)?;
        let workflow = &shared.plan.workflow;
        let is_revealed = site.secrets != SecretView::Masked;
        match site.secrets {
            SecretView::Masked => {}
            SecretView::Revealed => scope = shared.surroundings.reveal(workflow, &scope),
            SecretView::Named => scope = shared.surroundings.name_secrets(workflow, &scope),
        }
        let mut held: Option<MutexGuard<'_, BTreeMap<EcoString, Value>>> = None;
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
        let thread = |name: &str| shared.thread(name, &at, view.attempts + 1);
        let mut world = RealWorld { threads: Some(&thread), ..self.world(&at, &folder) };
        let mut recorder = Recorder::new(&mut world, &mut known, site.earlier);
        if let Some(earlier) = &shared.earlier {
            recorder = recorder.continuing(earlier.definitions());
        }
        let mut session =
            Session::new(&mut recorder).limits(&workflow.syntax.limits).undefined(workflow.undefined);
        // Nobody is told what is made of a secret.
        let is_traced = shared.trace && !is_revealed;
        if is_traced {
            session = session.traced();
        }
        let result = evaluate(&scope, &mut session, &|entered| enter(&project, &folder, entered));
        if is_traced {
            shared.teller.tell(Notice::Resolved(at.clone(), session.take_trace()));
        }
        let warnings = session.take_warnings();
        if !warnings.is_empty() && !is_revealed {
            shared.teller.tell(Notice::Warned(at.clone(), warnings));
        }
        drop(session);
        let Record { mut computed, defined } = recorder.finish();
        if let Some(placed) = self.placed.as_ref().filter(|_| view.item.is_some()) {
            // Which worktree an item is given is nothing that could be found out again.
            let answer = Ok(Value::from(placed.worktree.as_str()));
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
        Ok(FieldEvaluation { result, computed })
    }
}
