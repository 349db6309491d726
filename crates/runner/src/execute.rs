//! One command, from the evaluation of its fields to the event that says what came of it.
//!
//! This is the one step executor: whatever shape a workflow has, its steps are done here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use std::collections::BTreeMap;

use ecow::EcoString;
use jiff::Timestamp;
use threadline_engine::evaluate::{
    self, Act, Call, Decision, FieldErrors, Request, Resolved, RetryPlan, ToolCall,
};
use threadline_engine::event::{Address, Datum, EventKind, LoopEnd, Millis, Output, Seq, Status};
use threadline_engine::machine::{Command, Outcome, Task};
use threadline_engine::view::View;
use threadline_engine::world::{Answer, Record, Recorder};
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Action, CaptureFormat, OnCrash, Step};
use threadline_flow::problem::{self, Problem};
use threadline_flow::shell::Argument;
use threadline_lang::{Scope, Session, Value};
use threadline_store::Sync;

use crate::called::{self, Attempted, Came};
use crate::driver::{DriveError, Notice, Shared, Work, now};
use crate::http;
use crate::output::{self, Left, Measured};
use crate::placed::{GIT_VARIABLES, Placed, item_in_worktree};
use crate::private::PrivateFiles;
use crate::process::{self, Control, Ended, Environment, How, Spec, Stdin, Stream};
use crate::project::{Project, WriteHow};
use crate::tools;
use crate::world::{Commands, Folder, RealWorld};

/// The time between the request to end and force.
const GRACE: Duration = Duration::from_secs(5);

/// The shell of a step that names none. Its text was read as this shell reads it, so no other may run it.
const DEFAULT_SHELL: &str = "bash";

/// An argument of a program can hold so much; a longer script is read from a file.
const MAX_SCRIPT: usize = 120 << 10;

/// What is recorded among computed values: the worktree of the item.
pub const WORKTREE: &str = "worktree";

/// Carries out commands of a run.
pub(crate) struct Executor<'s, 'a> {
    pub(crate) shared: &'s Shared<'a>,
    /// Where an item's steps run that has a worktree of its own.
    placed: Option<Placed>,
}

/// The entries of `context`, held while more of them may be evaluated.
pub(crate) type Context<'s> = Option<MutexGuard<'s, BTreeMap<EcoString, Value>>>;

impl<'s, 'a> Executor<'s, 'a> {
    pub(crate) fn new(shared: &'s Shared<'a>) -> Self {
        Self { shared, placed: None }
    }

    /// The files that steps may read and write.
    pub(crate) fn project(&self) -> &Project {
        self.placed.as_ref().map_or(self.shared.project, |placed| &placed.project)
    }

    pub(crate) fn carry_out(&mut self, work: Work) -> Result<(), DriveError> {
        let Work { command, view, earlier } = work;
        if let Command::Decide(task) | Command::Expand(task) | Command::Start { task, .. } = &command
            && let Some(item) = item_in_worktree(&self.shared.plan, &task.at)
        {
            self.shared.wait_synced(task.as_of)?;
            match self.shared.enter(item) {
                Ok(placed) => self.placed = Some(placed),
                Err(failure) => return self.finish_unrun(task, failure, 0),
            }
        }
        match command {
            Command::Decide(task) => self.decide(&task, &view),
            Command::Skip { task, reason } => self.skip(&task, &reason),
            Command::Expand(task) => self.expand(&task, &view),
            Command::Start { task, attempt, base, rerun } => {
                let attempt = Attempt { number: attempt, base, rerun, began: view.started };
                self.start(&task, &view, attempt, &earlier)
            }
            Command::EndItem { task, ending } => self.end_item(&task, &ending),
            Command::BeginItem { task, attempt } => self.begin_item(&task, attempt),
            Command::Collect { task, list, counts, rules } => {
                self.collect(&task, &view, list, counts, &rules)
            }
            Command::Close { task, last, captured } => self.close(&task, &view, last, &captured),
            Command::FailAfterCrash(task) => {
                let failure = Failure::new(FailureKind::Crash, "it was running when Threadline was killed");
                self.finish_unrun(&task, failure, view.attempts.saturating_sub(1))
            }
            // The driver deals with these itself.
            Command::Wait { .. } | Command::Ask(_) | Command::Bound | Command::End { .. } => Ok(()),
            Command::Judge(task) => self.judge(&task, &view),
        }
    }

    pub(crate) fn step(&self, task: &Task) -> &'s Step {
        let shared = self.shared;
        &shared.plan.steps[task.step as usize].step
    }

    // ---- conditions and lists ---------------------------------------------------------------------------

    fn decide(&self, task: &Task, view: &View) -> Result<(), DriveError> {
        let step = self.step(task);
        let clock = Clock::start();
        let (decided, record, context) =
            self.evaluate(task, view, |scope, session| evaluate::decide(step, scope, session))?;
        self.define(&record, context)?;
        let computed = self.shared.journal.store().computed(&record.computed)?;
        let what = match decided {
            Ok(Decision::Go) => EventKind::Decided { as_of: task.as_of, computed },
            Ok(Decision::Skip(reason)) => {
                let measured = clock.measured(node_type(step), 0, Vec::new());
                let output = output::skipped(self.shared.journal.store(), &measured, &reason)?;
                EventKind::Skipped { as_of: task.as_of, computed, output }
            }
            Err(errors) => return self.field_errors(task, &errors, &record, &clock, 0),
        };
        self.shared.record(task.at.clone(), what, Sync::Now).map(|_| ())
    }

    /// A node that cannot begin.
    fn skip(&self, task: &Task, reason: &str) -> Result<(), DriveError> {
        let measured = Clock::start().measured(node_type(self.step(task)), 0, Vec::new());
        let output = output::skipped(self.shared.journal.store(), &measured, reason)?;
        let what = EventKind::Skipped { as_of: task.as_of, computed: Vec::new(), output };
        self.shared.record(task.at.clone(), what, Sync::Later).map(|_| ())
    }

    /// The run is over: what it exports is evaluated and recorded with that.
    pub(crate) fn end(
        &self,
        outcome: Outcome,
        ended: Option<LoopEnd>,
        view: &View,
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        let nothing = Datum::Here(Value::NULL);
        let (mut outcome, mut exports) = (outcome, nothing);
        if outcome == Outcome::Completed && !shared.plan.workflow.exports.is_empty() {
            let at = Address::default();
            let (evaluated, record, context) = self
                .evaluate_here(&at, view, |scope, session| evaluate::exports(&shared.plan, scope, session))?;
            self.define(&record, context)?;
            match evaluated {
                Ok(value) => exports = shared.journal.store().datum(&value)?,
                Err(errors) => {
                    self.tell_problems(&at, &errors);
                    outcome = Outcome::Failed;
                }
            }
        }
        shared
            .record(Address::default(), EventKind::RunEnded { outcome, exports, ended }, Sync::Now)
            .map(|_| ())
    }

    // ---- attempts ---------------------------------------------------------------------------------------

    fn start(
        &self,
        task: &Task,
        view: &View,
        attempt: Attempt,
        earlier: &[Answer],
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        let clock = Clock::start();
        let folder = self.written_folder(task);
        let enter = |cwd: &str| folder.enter(self.project().here().join(cwd));
        let (resolved, record, context) =
            self.evaluate_at(&task.at, &folder, view, earlier, |scope, session| {
                evaluate::resolve(&shared.plan, task.step, scope, session, enter)
            })?;
        self.define(&record, context)?;
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(errors) => return self.field_errors(task, &errors, &record, &clock, attempt.retries()),
        };
        let mut resolved = resolved;
        let mut cut_short = None;
        if let Some(limit) = view.limit {
            let left = limit.left(now());
            if left.is_zero() {
                return self.finish_unrun(task, output::over(&limit), attempt.retries());
            }
            if resolved.timeout.is_none_or(|own| left < own) {
                resolved.timeout = Some(left);
                cut_short = Some(limit);
            }
        }
        let step = self.step(task);
        let careful = !record.computed.is_empty()
            || step.on_crash != OnCrash::Rerun
            || matches!(step.action, Action::Agent { .. });
        let started = EventKind::Started {
            as_of: task.as_of,
            attempt: attempt.number,
            rerun: attempt.rerun,
            computed: shared.journal.store().computed(&record.computed)?,
            fields: resolved.fingerprint(),
        };
        let seq = shared.record(task.at.clone(), started, if careful { Sync::Now } else { Sync::Later })?;
        if careful {
            shared.wait_synced(seq)?;
        }
        let mut done = self.act(task, step, &resolved, attempt)?;
        if let (Done::Output(output), Some(limit)) = (&mut done, &cut_short) {
            output::name_limit(output, limit);
        }
        self.attempt_done(task, done, &resolved, attempt)
    }

    /// Records what an attempt left, and whether another follows.
    fn attempt_done(
        &self,
        task: &Task,
        done: Done,
        resolved: &Resolved,
        attempt: Attempt,
    ) -> Result<(), DriveError> {
        let output = match done {
            Done::Output(output) => output,
            // The attempt is still under way as far as the journal knows, and is made again when the run goes on.
            Done::Cancelled => return Ok(()),
        };
        let failed = output.status == Status::Failed;
        let pause = if failed { self.pause(&resolved.retry, attempt.number - attempt.base) } else { None };
        let Some(pause) = pause else { return self.finish(task, output) };
        let until = now() + pause;
        self.shared.record(task.at.clone(), EventKind::Retrying { output, until }, Sync::Now).map(|_| ())
    }

    /// The pause before what failed is tried again, when it is.
    pub(crate) fn pause(&self, retry: &RetryPlan, attempt: u32) -> Option<Millis> {
        let pause = retry
            .pause(attempt, random())
            .filter(|_| self.shared.control.asked() == process::Asked::Nothing)?;
        Some(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4))
    }

    pub(crate) fn finish(&self, task: &Task, mut output: Output) -> Result<(), DriveError> {
        let shared = self.shared;
        self.name_state(task, &mut output);
        let small = is_small(&output).then(|| output::loaded(shared.journal.store().reader(), &output));
        let small = small.transpose()?.map(Arc::new);
        // Items and nodes that run at once do not wait for each other, so what they leave shares a sync; whoever does wait for it
        // has it written at once.
        let aside = task.at.items().next().is_some()
            || shared.plan.lists[0].graph.is_some()
            || self.step(task).state.is_some();
        let sync = if aside { Sync::Later } else { Sync::Now };
        let finished = vec![(task.at.clone(), EventKind::Finished { output, results: None })];
        // Whoever reads it next need not ask the journal.
        let known = |seq| small.iter().for_each(|envelope| shared.values.keep_output(seq, envelope));
        shared.record_known(finished, sync, known).map(|_| ())
    }

    /// The state that left it stands in the meta data.
    fn name_state(&self, task: &Task, output: &mut Output) {
        if let Some(state) = &self.step(task).state {
            output.meta = output::with(&output.meta, "state", Value::from(state.name.value.as_str()));
        }
    }

    fn finish_unrun(&self, task: &Task, failure: Failure, retries: u32) -> Result<(), DriveError> {
        let measured = Clock::start().measured(node_type(self.step(task)), retries, Vec::new());
        let left = Left { value: Err(failure), output: None, stderr: None };
        let output = output::envelope(self.shared.journal.store(), &measured, left)?;
        self.finish(task, output)
    }

    /// A field has no value: the step fails before it begins.
    pub(crate) fn field_errors(
        &self,
        task: &Task,
        errors: &FieldErrors,
        record: &Record,
        clock: &Clock,
        retries: u32,
    ) -> Result<(), DriveError> {
        self.unresolved(task, self.evaluation_failure(task, errors), record, clock, retries)
    }

    /// The step fails before it begins.
    pub(crate) fn unresolved(
        &self,
        task: &Task,
        failure: Failure,
        record: &Record,
        clock: &Clock,
        retries: u32,
    ) -> Result<(), DriveError> {
        let measured = clock.measured(node_type(self.step(task)), retries, Vec::new());
        let left = Left { value: Err(failure), output: None, stderr: None };
        let store = self.shared.journal.store();
        let mut output = output::envelope(store, &measured, left)?;
        self.name_state(task, &mut output);
        let computed = store.computed(&record.computed)?;
        let what = EventKind::Unresolved { as_of: task.as_of, computed, output };
        self.shared.record(task.at.clone(), what, Sync::Now).map(|_| ())
    }

    /// Tells what is wrong with fields, and gives it as the failure of their step.
    pub(crate) fn evaluation_failure(&self, task: &Task, errors: &FieldErrors) -> Failure {
        let problems = self.tell_problems(&task.at, errors);
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        Failure::new(FailureKind::Evaluation, messages.join("; "))
    }

    pub(crate) fn tell_problems(&self, at: &Address, errors: &FieldErrors) -> Vec<Problem> {
        let text = self.shared.plan.workflow.file.text();
        let problems: Vec<Problem> = errors.iter().map(|error| error.problem(text)).collect();
        self.shared.teller.tell(Notice::Problems(at.clone(), problems.clone()));
        problems
    }

    // ---- evaluation -------------------------------------------------------------------------------------

    /// Evaluates in the scope of a step, once everything it may read is on disk. What was computed is recorded; entries of `context` are evaluated once per
    /// run, so who evaluates one holds them all until it is on disk.
    pub(crate) fn evaluate<T>(
        &self,
        task: &Task,
        view: &View,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Record, Context<'s>), DriveError> {
        self.evaluate_with(task, view, &[], evaluate)
    }

    /// The same, where some was computed before.
    pub(crate) fn evaluate_with<T>(
        &self,
        task: &Task,
        view: &View,
        earlier: &[Answer],
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Record, Context<'s>), DriveError> {
        self.evaluate_at(&task.at, &self.written_folder(task), view, earlier, evaluate)
    }

    /// The folder of a step, where it is written out; one that is computed is not known yet.
    pub(crate) fn written_folder(&self, task: &Task) -> Folder {
        let cwd = self.step(task).cwd.as_ref().and_then(|cwd| Some(cwd.value.as_plain()?.into_owned()));
        let here = self.project().here();
        Folder::new(cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd)))
    }

    /// The same, outside of every step.
    pub(crate) fn evaluate_here<T>(
        &self,
        at: &Address,
        view: &View,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Record, Context<'s>), DriveError> {
        self.evaluate_at(at, &Folder::new(self.shared.project.here()), view, &[], evaluate)
    }

    pub(crate) fn evaluate_at<T>(
        &self,
        at: &Address,
        folder: &Folder,
        view: &View,
        earlier: &[Answer],
        evaluate: impl FnOnce(&Scope, &mut Session<'_>) -> T,
    ) -> Result<(T, Record, Context<'s>), DriveError> {
        let shared = self.shared;
        // What judges a state does nothing: its verdict goes to disk behind what it looked at.
        if !view.is_judged || view.sources().iter().any(|seq| !shared.values.has(*seq)) {
            shared.wait_synced(view.as_of)?;
        }
        let worktree = self.placed.as_ref().map(|placed| placed.worktree.clone());
        let scope = view.scope(&shared.scope, &mut &shared.values, worktree.as_deref())?;
        let mut held: Context<'s> = None;
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
        let mut record = recorder.finish();
        if let Some(folder) = worktree.filter(|_| view.item.is_some()) {
            // Which worktree an item is given is nothing that could be found out again.
            let answer = Ok(Value::from(folder.as_str()));
            record.computed.push(Answer { name: WORKTREE.into(), args: Vec::new(), answer });
        }
        let context = if record.defined.is_empty() { None } else { held };
        Ok((evaluated, record, context))
    }

    /// Records the entries of `context` that were evaluated now. They are on disk before anybody else reads them.
    pub(crate) fn define(&self, record: &Record, context: Context<'s>) -> Result<(), DriveError> {
        let Some(mut context) = context else { return Ok(()) };
        let store = self.shared.journal.store();
        let mut happened = Vec::new();
        for definition in &record.defined {
            let value = store.datum(&definition.value)?;
            let computed = store.computed(&definition.computed)?;
            happened.push((
                Address::default(),
                EventKind::Defined { name: definition.name.clone(), value, computed },
            ));
        }
        let seq = self.shared.record_all(happened, Sync::Now)?;
        self.shared.wait_synced(seq)?;
        context.extend(record.defined.iter().map(|defined| (defined.name.clone(), defined.value.clone())));
        Ok(())
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

    // ---- doing it ---------------------------------------------------------------------------------------

    pub(crate) fn act(
        &self,
        task: &Task,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
    ) -> Result<Done, DriveError> {
        match &resolved.act {
            Act::Value(value) => self.plain(step, resolved, attempt, Ok(value.clone()), None),
            Act::Made { value, meta } => {
                let measured = Clock::start().measured(node_type(step), attempt.retries(), meta.clone());
                self.left(resolved, &measured, Left { value: Ok(value.clone()), output: None, stderr: None })
            }
            Act::WriteFile { path, content, mode, create_dirs } => {
                let folder = self.folder(resolved);
                let how = WriteHow { from: &folder, mode: *mode, create_dirs: *create_dirs };
                let clock = Clock::start();
                let written = self.project().write(path, content, &how).map_err(|error| {
                    let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                    Failure::new(FailureKind::File, format!("{}{hint}", error.message))
                });
                let value = written.and_then(|_| {
                    let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
                    Value::object([("path".into(), path.as_str().into()), ("bytes".into(), bytes.into())])
                        .map_err(|_| Failure::new(FailureKind::File, "its path is too long"))
                });
                self.plain(step, resolved, attempt, value, Some(clock))
            }
            Act::Tool(call) => self.tool(step, resolved, attempt, call),
            Act::Workflow(call) => self.workflow(task, resolved, attempt, call),
            Act::Http(request) => self.http(step, resolved, attempt, request),
            Act::Verbatim { text } => self.shell(task, step, resolved, attempt, text, Vec::new()),
            Act::Shell { bound } => {
                if !bound.warnings.is_empty() {
                    let text = self.shared.plan.workflow.file.text();
                    let problems: Vec<Problem> =
                        bound.warnings.iter().map(|warning| shell_problem(warning, step, text)).collect();
                    self.shared.teller.tell(Notice::Problems(task.at.clone(), problems));
                }
                let files = match self
                    .write_files(bound.files().map(|(at, variable)| (at, variable.value.as_bytes())))
                {
                    Ok(files) => files,
                    Err(failure) => return self.plain(step, resolved, attempt, Err(failure), None),
                };
                let script = bound.script(|at| files.path(at));
                let done = self.shell(task, step, resolved, attempt, &script, bound.environment().collect());
                drop(files);
                done
            }
            Act::Argv(arguments) => {
                let values = arguments.iter().enumerate().filter(|(_, argument)| argument.is_file);
                let files = match self.write_files(values.map(|(at, file)| (at, file.value.as_bytes()))) {
                    Ok(files) => files,
                    Err(failure) => return self.plain(step, resolved, attempt, Err(failure), None),
                };
                let word = |(at, argument): (usize, &Argument)| {
                    if argument.is_file { files.path(at) } else { argument.value.clone() }
                };
                let mut words = arguments.iter().enumerate().map(word).map(OsString::from);
                let program = words.next().unwrap_or_default();
                let spec = self.spec(task, resolved, program, words.collect(), Stdin::Null);
                let done = self.process(task, step, resolved, attempt, &spec);
                drop(files);
                done
            }
            Act::Agent { agent, command, message } => {
                let spec = self.agent_spec(task, resolved, command, message);
                self.agent(task, step, resolved, attempt, &spec, agent)
            }
        }
    }

    /// The program of an agent that is told something.
    pub(crate) fn agent_spec(
        &self,
        task: &Task,
        resolved: &Resolved,
        command: &[String],
        message: &str,
    ) -> Spec {
        let mut words = command.iter().map(OsString::from);
        let program = words.next().unwrap_or_default();
        self.spec(task, resolved, program, words.collect(), Stdin::Bytes(message.as_bytes().into()))
    }

    fn http(
        &self,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        request: &Request,
    ) -> Result<Done, DriveError> {
        let clock = Clock::start();
        let limits = http::Limits { timeout: resolved.timeout, max_answer: resolved.max_output };
        let request = request.clone();
        let sent = self.shared.control.child().aside(move || http::send(&request, limits));
        let mut own = vec![("tool_name", Value::from("http"))];
        let left = match sent {
            Ok(None) => return Ok(Done::Cancelled),
            Ok(Some(Ok(answer))) => {
                own.extend(answer.meta());
                answer.left()
            }
            Ok(Some(Err(failure))) => Left { value: Err(failure), output: None, stderr: None },
            Err(error) => {
                let failure = Failure::new(FailureKind::Http, format!("no request can be made: {error}"));
                Left { value: Err(failure), output: None, stderr: None }
            }
        };
        own.extend(of_built_in(step, resolved, clock.instant.elapsed()).into_iter().skip(1));
        let measured = clock.measured(node_type(step), attempt.retries(), own);
        self.left(resolved, &measured, left)
    }

    fn tool(
        &self,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        call: &ToolCall,
    ) -> Result<Done, DriveError> {
        let clock = Clock::start();
        let limits = tools::Limits { timeout: resolved.timeout, max_answer: resolved.max_output };
        let mut own = vec![
            ("tool_name", Value::from(format!("{}.{}", call.server.name, call.tool))),
            ("parameters", call.params.clone()),
        ];
        let (servers, call) = (Arc::clone(&self.shared.servers), call.clone());
        let called = self.shared.control.child().aside(move || servers.call(&call, limits));
        let left = match called {
            Ok(None) => return Ok(Done::Cancelled),
            Ok(Some(called)) => {
                own.extend(called.version.map(|version| ("tool_version", version.into())));
                called.left
            }
            Err(error) => {
                let failure = Failure::new(FailureKind::Tool, format!("no tool can be called: {error}"));
                Left { value: Err(failure), output: None, stderr: None }
            }
        };
        own.push(("tool_execution_time_ms", output::millis(clock.instant.elapsed())));
        let measured = clock.measured(node_type(step), attempt.retries(), own);
        self.left(resolved, &measured, left)
    }

    fn workflow(
        &self,
        task: &Task,
        resolved: &Resolved,
        attempt: Attempt,
        call: &Call,
    ) -> Result<Done, DriveError> {
        let planned = &self.shared.plan.steps[task.step as usize];
        let clock = Clock::start();
        let Some(plan) = &planned.calls else { return Ok(Done::Cancelled) };
        let folder = self.folder(resolved);
        let Attempt { number, base, rerun, began } = attempt;
        let (at, as_of, folder) = (&task.at, task.as_of, &folder);
        let project = self.project();
        let attempted =
            Attempted { at, number, base, rerun, as_of, began, call, plan, resolved, folder, project };
        match called::call(self.shared, &attempted)? {
            Came::Over { value, meta } => {
                let measured = clock.measured(node_type(&planned.step), attempt.retries(), meta);
                self.left(resolved, &measured, Left { value, output: None, stderr: None })
            }
            Came::Stopped => Ok(Done::Cancelled),
            Came::Waiting(waits) => {
                self.shared.waits(waits);
                Ok(Done::Cancelled)
            }
        }
    }

    fn plain(
        &self,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        value: Result<Value, Failure>,
        clock: Option<Clock>,
    ) -> Result<Done, DriveError> {
        let clock = clock.unwrap_or_else(Clock::start);
        let own = of_built_in(step, resolved, clock.instant.elapsed());
        let measured = clock.measured(node_type(step), attempt.retries(), own);
        self.left(resolved, &measured, Left { value, output: None, stderr: None })
    }

    /// What an attempt left, once it was compared with what the step expects.
    fn left(&self, resolved: &Resolved, measured: &Measured, left: Left) -> Result<Done, DriveError> {
        let left = match &resolved.expect {
            Some(settled) => output::checked(settled, measured, left),
            None => left,
        };
        Ok(Done::Output(output::envelope(self.shared.journal.store(), measured, left)?))
    }

    fn shell(
        &self,
        task: &Task,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        script: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Done, DriveError> {
        let given = step.shell_program.as_ref().map(|program| program.value.as_str());
        let (program, options) = match given {
            None => (DEFAULT_SHELL, shell_options(DEFAULT_SHELL)),
            Some(program) => (program, shell_options(program)),
        };
        let mut args: Vec<OsString> = Vec::new();
        if given.is_some_and(|program| program.rsplit('/').next() == Some("busybox")) {
            args.push("sh".into());
        }
        if step.strict_shell {
            args.extend(options.iter().map(OsString::from));
        }
        let mut kept = None;
        if script.len() > MAX_SCRIPT {
            let files = match self.write_files([(0, script.as_bytes())].into_iter()) {
                Ok(files) => files,
                Err(failure) => return self.plain(step, resolved, attempt, Err(failure), None),
            };
            args.push(files.path(0).into());
            kept = Some(files);
        } else {
            args.push("-c".into());
            args.push(script.into());
        }
        let mut spec = self.spec(task, resolved, program.into(), args, Stdin::Null);
        for (name, value) in variables {
            spec.env.set(name, value);
        }
        let done = self.process(task, step, resolved, attempt, &spec);
        drop(kept);
        done
    }

    fn process(
        &self,
        task: &Task,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        spec: &Spec,
    ) -> Result<Done, DriveError> {
        let clock = Clock::start();
        let ended = match self.run(task, spec) {
            Ok(ended) => ended,
            Err(failure) => return self.plain(step, resolved, attempt, Err(failure), Some(clock)),
        };
        if ended.how == How::Cancelled {
            return Ok(Done::Cancelled);
        }
        let texts = Texts::of(&ended);
        let failure = failure(step, resolved, &ended);
        let (value, printed) = match (&texts.stdout, failure) {
            (Err(failure), None) => (Err(failure.clone()), None),
            (text, Some(failure)) => (Err(failure), text.clone().ok()),
            (Ok(text), None) => match output::read(text, step.format) {
                Ok(value) if step.format == CaptureFormat::Text => (Ok(value), None),
                value => (value, Some(text.clone())),
            },
        };
        let output = printed.map(|text| Value::from(output::stripped(&text)));
        let left = Left { value, output, stderr: texts.stderr() };
        self.ended(step, resolved, attempt, &ended, left, Vec::new())
    }

    fn agent(
        &self,
        task: &Task,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        spec: &Spec,
        agent: &EcoString,
    ) -> Result<Done, DriveError> {
        let known = self.shared.plan.workflow.agents.iter().find(|known| known.name == *agent);
        let mut own =
            vec![("agent_id", Value::from(agent.as_str())), ("agent_name", Value::from(agent.as_str()))];
        own.extend(
            known.and_then(|agent| agent.model.as_ref()).map(|model| ("model_used", model.as_str().into())),
        );
        let clock = Clock::start();
        let ended = match self.run(task, spec) {
            Ok(ended) => ended,
            Err(failure) => {
                let measured = clock.measured(node_type(step), attempt.retries(), own);
                let left = Left { value: Err(failure), output: None, stderr: None };
                return Ok(Done::Output(output::envelope(self.shared.journal.store(), &measured, left)?));
            }
        };
        if ended.how == How::Cancelled {
            return Ok(Done::Cancelled);
        }
        let texts = Texts::of(&ended);
        let failure = failure(step, resolved, &ended);
        let value = match (&texts.stdout, failure) {
            (_, Some(failure)) => Err(failure),
            (Err(failure), None) => Err(failure.clone()),
            (Ok(text), None) => agent_value(text, step.format),
        };
        let output = texts.stdout.as_ref().ok().map(|text| Value::from(output::stripped(text)));
        let left = Left { value, output, stderr: texts.stderr() };
        self.ended(step, resolved, attempt, &ended, left, own)
    }

    pub(crate) fn run(&self, task: &Task, spec: &Spec) -> Result<Ended, Failure> {
        let mut print = |stream: Stream, bytes: &[u8]| {
            if self.shared.verbose {
                self.shared.teller.tell(Notice::Printed(task.at.clone(), stream, bytes.to_vec()));
            }
        };
        let control: Control = self.shared.control.child();
        process::run(spec, &control, &mut print).map_err(|error| {
            let no_bash =
                spec.program == DEFAULT_SHELL && matches!(error, process::StartError::NotOnPath { .. });
            let hint = if no_bash {
                Some("install it, or say `shell_program: sh`".to_owned())
            } else {
                error.hint()
            };
            let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
            Failure::new(FailureKind::Start, format!("{error}{hint}"))
        })
    }

    fn ended(
        &self,
        step: &Step,
        resolved: &Resolved,
        attempt: Attempt,
        ended: &Ended,
        left: Left,
        mut own: Vec<(&'static str, Value)>,
    ) -> Result<Done, DriveError> {
        own.extend(of_built_in(step, resolved, ended.elapsed));
        own.extend(output::usage(ended));
        let measured = Measured {
            node_type: node_type(step),
            started: ended.started,
            finished: ended.finished,
            elapsed: ended.elapsed,
            retries: attempt.retries(),
            own,
        };
        self.left(resolved, &measured, left)
    }

    // ---- surroundings -----------------------------------------------------------------------------------

    fn spec(
        &self,
        task: &Task,
        resolved: &Resolved,
        program: OsString,
        args: Vec<OsString>,
        stdin: Stdin,
    ) -> Spec {
        let mut env = self.own_environment();
        env.change(&resolved.env);
        env.mark(self.shared.started.as_str(), task.at.as_str());
        Spec {
            program,
            args,
            env,
            cwd: self.folder(resolved),
            stdin,
            timeout: resolved.timeout,
            idle_timeout: resolved.idle_timeout,
            max_output: resolved.max_output,
            grace: GRACE,
            spool: self.private_folder(),
        }
    }

    /// The environment of a step's children: they carry the mark of the run.
    fn environment(&self, at: &Address) -> Environment {
        let mut env = self.own_environment();
        env.mark(self.shared.started.as_str(), at.as_str());
        env
    }

    /// The environment of the run; in a worktree without what would lead git elsewhere.
    fn own_environment(&self) -> Environment {
        let mut env = self.shared.env.clone();
        if self.placed.is_some() {
            for name in GIT_VARIABLES {
                env.remove(name);
            }
        }
        env
    }

    fn folder(&self, resolved: &Resolved) -> PathBuf {
        let here = self.project().here();
        resolved.cwd.as_ref().map_or_else(|| here.to_owned(), |cwd| here.join(cwd))
    }

    /// Where values and outputs go that are too large for memory or the environment.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.shared.project.store().join("spool")
    }

    fn write_files<'v>(
        &self,
        values: impl Iterator<Item = (usize, &'v [u8])>,
    ) -> Result<PrivateFiles, Failure> {
        PrivateFiles::write(&self.private_folder(), values).map_err(|error| {
            Failure::new(FailureKind::File, format!("a value for the step could not be written: {error}"))
        })
    }
}

/// Which attempt of a step.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) base: u32,
    pub(crate) rerun: bool,
    /// The event that began the attempt before, or this one when it was under way.
    pub(crate) began: Option<Seq>,
}

impl Attempt {
    /// How many attempts went before.
    fn retries(self) -> u32 {
        self.number.saturating_sub(1)
    }
}

/// What came of an attempt.
pub(crate) enum Done {
    Output(Output),
    /// Threadline was told to end, and the attempt with it.
    Cancelled,
}

/// What a child printed, as text.
pub(crate) struct Texts {
    pub(crate) stdout: Result<String, Failure>,
    stderr: String,
}

impl Texts {
    pub(crate) fn of(ended: &Ended) -> Self {
        let stdout =
            ended.stdout.read().map_err(|error| Failure::new(FailureKind::OutputTooLarge, error.to_string()));
        let stdout = stdout.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                let message =
                    format!("its output is not UTF-8 at byte {at}; pipe it through `base64`, or into a file");
                Failure::new(FailureKind::Format, message)
            })
        });
        let stderr = ended.stderr.read().unwrap_or_default();
        Self { stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
    }

    pub(crate) fn stderr(&self) -> Option<Value> {
        let text = output::stripped(&self.stderr);
        (!text.is_empty()).then(|| Value::from(text))
    }
}

/// Why a process did not end well. An expectation that looks at the exit code says which are right.
fn failure(step: &Step, resolved: &Resolved, ended: &Ended) -> Option<Failure> {
    match ended.how {
        How::Exited(_) if step.expects_exit_code() => None,
        how => output::ending(how, resolved.timeout, resolved.idle_timeout, resolved.max_output),
    }
}

/// What an agent's answer is as a value.
fn agent_value(text: &str, format: CaptureFormat) -> Result<Value, Failure> {
    let answer = Value::from(output::stripped(text));
    let mut entries = vec![
        ("messages_created".into(), Value::from(1_i64)),
        ("final_response".into(), answer),
        ("thread_id".into(), Value::NULL),
    ];
    if format != CaptureFormat::Text {
        entries.push(("output".into(), output::read(text, format)?));
    }
    Value::object(entries).map_err(|_| Failure::new(FailureKind::Format, "its answer is too large"))
}

/// When something began.
pub(crate) struct Clock {
    started: Timestamp,
    instant: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Timestamp::now(), instant: Instant::now() }
    }

    pub(crate) fn measured(
        &self,
        node_type: &'static str,
        retries: u32,
        own: Vec<(&'static str, Value)>,
    ) -> Measured {
        let elapsed = self.instant.elapsed();
        Measured { node_type, started: self.started, finished: Timestamp::now(), elapsed, retries, own }
    }
}

/// What was measured since an event, perhaps of an earlier process.
pub(crate) fn measured_since(
    began: Millis,
    node_type: &'static str,
    own: Vec<(&'static str, Value)>,
) -> Measured {
    let finished = Timestamp::now();
    let started = Timestamp::from_millisecond(began).unwrap_or(finished);
    let elapsed = finished.as_millisecond().saturating_sub(began).max(0).unsigned_abs();
    Measured { node_type, started, finished, elapsed: Duration::from_millis(elapsed), retries: 0, own }
}

/// Whether everything of an output stands in its event.
fn is_small(output: &Output) -> bool {
    let parts = [Some(&output.value), output.output.as_ref(), output.stderr.as_ref()];
    parts.into_iter().flatten().all(|datum| matches!(datum, Datum::Here(_)))
}

/// The options that make a shell strict.
fn shell_options(program: &str) -> &'static [&'static str] {
    match program.rsplit('/').next().unwrap_or(program) {
        "bash" | "zsh" => &["-e", "-o", "pipefail"],
        _ => &["-e"],
    }
}

/// What a built-in tool adds to the meta data of the step that it stands for, its name first.
fn of_built_in(step: &Step, resolved: &Resolved, elapsed: Duration) -> Vec<(&'static str, Value)> {
    let Some(tool) = &step.tool else { return Vec::new() };
    let params = match (&step.action, &resolved.act) {
        (Action::Shell { text, .. }, _) => vec![("command", text.value.clone().into())],
        (_, Act::Argv(arguments)) => {
            let words = arguments.iter().map(|argument| Value::from(argument.value.as_str()));
            vec![("argv", Value::sequence(words))]
        }
        // Headers may hold what lets somebody in.
        (_, Act::Http(request)) => {
            let mut params = vec![("method", request.method.into()), ("url", request.url.as_str().into())];
            params.extend(request.body.as_ref().map(|body| ("body", body.as_str().into())));
            params
        }
        _ => Vec::new(),
    };
    vec![
        ("tool_name", tool.value.clone().into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("parameters", Value::record(params)),
        ("tool_execution_time_ms", output::millis(elapsed)),
    ]
}

pub(crate) fn node_type(step: &Step) -> &'static str {
    if step.tool.is_some() {
        return "tool";
    }
    match &step.action {
        Action::Shell { .. } | Action::Argv(_) => "shell",
        Action::Agent { .. } => "agent",
        Action::Http(_) => "http",
        Action::Tool(_) => "tool",
        Action::WriteFile(_) => "write_file",
        Action::Value(_) => "value",
        Action::Workflow(_) => "workflow",
        Action::ForEach(each) if each.is_map => "map",
        Action::ForEach(_) => "foreach",
        Action::Phase(_) => "phase",
        Action::Condition(_) => "conditional",
        Action::Trigger(_) => "trigger",
        Action::Nothing => "state",
    }
}

fn shell_problem(warning: &threadline_flow::shell::Problem, step: &Step, text: &str) -> Problem {
    let origin = match &step.action {
        Action::Shell { text, .. } => &text.origin,
        _ => &step.origin,
    };
    problem::of_shell(warning, origin, text)
}

/// From 0 to 1, for the spread of pauses; nothing else depends on it.
fn random() -> f64 {
    f64::from(u32::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or(0)) / 65_535.0
}
