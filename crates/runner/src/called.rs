//! A step that calls a workflow: a run of its own in the same store, begun, or gone on with where it stopped.
//!
//! The id of that run follows from the call, so it is found again whatever happened in between: a run that is over is
//! never driven again for the same attempt.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use threadline_engine::Hash;
use threadline_engine::event::{Address, Caller, Continued, EventKind, LoopEnd, RunStarted};
use threadline_engine::execute::effect::{Attempt, CallEnd, CallSpec, EffectKey};
use threadline_engine::execute::result::{time_text, timed_out};
use threadline_engine::machine::{BudgetReached, Outcome, Stage};
use threadline_engine::replay::{Failed, output_of};
use threadline_engine::spend::Spend;
use threadline_engine::view::RunNames;
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::Workflow;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_store::{
    Journal, JournalReader, Lease, NewRun, ProjectLocks, RunId, RunInfo, Store, StoreError,
};

use crate::bell::Bell;
use crate::clock::now;
use crate::driver::{
    self, CalledNotice, DriveError, DrivenRun, Ending, Notice, ParentRun, PendingDecision, Resumption, Setup,
};
use crate::earlier::EarlierRun;
use crate::locks::{self, Locked};
use crate::process::Environment;
use crate::project::{Project, plain};
use crate::reload::{self, ImportError, ImportedExports};

/// A step's attempt to call a workflow.
pub(crate) struct CallAttempt<'c> {
    /// Which execution calls it.
    pub(crate) key: &'c EffectKey,
    pub(crate) spec: &'c CallSpec,
    pub(crate) plan: &'c Arc<Plan>,
    /// Where its steps run.
    pub(crate) folder: &'c Path,
    /// The files that they may read and write.
    pub(crate) project: &'c Project,
}

/// What came of a call.
pub(crate) enum CallOutcome {
    /// The called run is over, or could not begin.
    Over(CallEnd),
    /// It stopped because its caller does, and goes on with it.
    Stopped,
    /// Steps in it wait for a decision.
    Waiting(Vec<PendingDecision>),
    /// Budgets of it, or around it, are used up.
    OverBudget(Vec<BudgetReached>),
}

/// A run to be driven, and how far it is.
enum CalledRun {
    New(RunId),
    /// It has an id and nothing else.
    Unbegun(RunInfo),
    Going(RunInfo, Box<reload::ReloadedRun>),
    /// It is over, and nothing of it is done again.
    Over(RunInfo, Outcome, u64),
}

/// Calls a workflow and waits for what comes of it.
pub(crate) fn call(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>) -> Result<CallOutcome, DriveError> {
    let project = match attempted.project.at(attempted.folder) {
        Ok(project) => project.allow(attempted.plan.workflow.allow.files.iter().map(ecow::EcoString::as_str)),
        Err(error) => {
            let message =
                format!("the folder of its steps, `{}`: {}", attempted.folder.display(), plain(&error));
            return Ok(failed(Failure::new(FailureKind::Start, message), Vec::new()));
        }
    };
    let run = find(shared, attempted)?;
    let store = shared.journal.store();
    let mut imports = ImportedExports::default();
    if let CalledRun::New(_) | CalledRun::Unbegun(_) = &run {
        imports = match imported(&attempted.plan.workflow, store)? {
            Ok(imports) => imports,
            Err(failure) => return Ok(failed(failure, Vec::new())),
        };
    }
    let _holding = match claimed(shared, attempted, &project, &run, &imports.values)? {
        LockOutcome::Holds(holding) => holding,
        LockOutcome::Failed(failure) => return Ok(failed(failure, Vec::new())),
        LockOutcome::Stopped => return Ok(CallOutcome::Stopped),
    };
    let (lease, info, state) = match run {
        CalledRun::Over(info, outcome, finished) => {
            return over(shared, attempted, &info.id, outcome, finished);
        }
        CalledRun::New(id) => {
            let new = NewRun {
                id: id.clone(),
                name: attempted.plan.workflow.name.to_string(),
                file: attempted.plan.workflow.file.name().to_owned(),
                started_at: time_text(now()),
            };
            let lease = store.create_run(new)?;
            (lease, store.reader().run(&id)?, None)
        }
        CalledRun::Unbegun(info) => (store.lease(&info.id)?, info, None),
        CalledRun::Going(info, state) => (store.lease(&info.id)?, info, Some(state)),
    };
    let begin = match state {
        Some(state) => {
            let started = reload::started(store.reader(), &info)?.ok_or_else(|| nothing_begun(&info))?;
            let names = reload::names(store.reader(), &info, &started)?;
            Begin::Again { names, started: Box::new(started), state }
        }
        None => first(shared, attempted, &project, &info, imports)?,
    };
    drive(shared, attempted, &project, lease, &info, begin)
}

/// What came of what a called run wants for itself.
enum LockOutcome {
    Holds(ProjectLocks),
    Failed(Failure),
    Stopped,
}

/// Takes what a called run is to have for itself.
fn claimed(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    project: &Project,
    run: &CalledRun,
    imports: &Value,
) -> Result<LockOutcome, DriveError> {
    let plan = attempted.plan;
    let workflow = &plan.workflow.name;
    if plan.workflow.locks.is_empty() || matches!(run, CalledRun::Over(..)) {
        return Ok(LockOutcome::Holds(ProjectLocks::NONE));
    }
    let store = shared.journal.store();
    let begun = match run {
        CalledRun::Going(info, _) => reload::started(store.reader(), info)?.map(|started| (info, started)),
        _ => None,
    };
    let run = match run {
        CalledRun::New(id) => id,
        CalledRun::Unbegun(info) | CalledRun::Going(info, _) | CalledRun::Over(info, ..) => &info.id,
    };
    let names = match &begun {
        Some((info, started)) => reload::names(store.reader(), info, started)?,
        None => RunNames {
            inputs: attempted.spec.call.inputs.clone(),
            imports: imports.clone(),
            payload: Value::NULL,
            workflow: workflow.clone(),
            run: run.as_str().into(),
            start_time: time_text(now()).into(),
        },
    };
    let wanted = match locks::wanted(plan, &names, project) {
        Ok(wanted) => wanted,
        Err(problems) => {
            let file = plan.workflow.file.name();
            let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            let message = format!("`locks` of `{file}`: {}", messages.join("; "));
            return Ok(LockOutcome::Failed(Failure::new(FailureKind::Workflow, message)));
        }
    };
    let stop = shared.stop.child();
    Ok(match locks::take(store, run, workflow, wanted, shared.patience, &stop, |_| {})? {
        Locked::Taken(holding) => LockOutcome::Holds(holding),
        Locked::Held(taken) => {
            LockOutcome::Failed(Failure::new(FailureKind::Locked, locks::held(&taken, project)))
        }
        Locked::Stopped => LockOutcome::Stopped,
    })
}

/// The run of this attempt. After a resume that is the one that failed before, when it was given the same.
fn find(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>) -> Result<CalledRun, DriveError> {
    let Attempt { number, base, rerun, .. } = attempted.spec.attempt;
    let EffectKey { at, as_of, exchange, .. } = attempted.key;
    let own = RunId::called(&shared.started, shared.journal.run(), at.as_str(), *as_of, *exchange)?;
    if !rerun && base == 0 {
        return Ok(CalledRun::New(own));
    }
    let reader = shared.journal.store().reader();
    if let Some(info) = known(shared, &own)? {
        if reload::started(reader, &info)?.is_none() {
            return Ok(CalledRun::Unbegun(info));
        }
        let state = reload::state(reader, &info.id, attempted.plan)?;
        return Ok(match state.machine.stage() {
            Stage::Ended(outcome) => CalledRun::Over(info, outcome, state.finished),
            _ => CalledRun::Going(info, Box::new(state)),
        });
    }
    let resumed = base > 0 && number == base + 1;
    let before = if resumed { before(shared, attempted)? } else { None };
    let Some(info) = before else { return Ok(CalledRun::New(own)) };
    let Some(started) = reload::started(reader, &info)? else { return Ok(CalledRun::New(own)) };
    if reader.load(&started.inputs)? != attempted.spec.call.inputs {
        return Ok(CalledRun::New(own));
    }
    let state = reload::state(reader, &info.id, attempted.plan)?;
    Ok(match state.machine.stage() {
        // What it left was not what the step expects; or this attempt made it good, and was killed.
        Stage::Ended(Outcome::Completed) if !rerun => CalledRun::New(own),
        Stage::Ended(Outcome::Completed) => CalledRun::Over(info, Outcome::Completed, state.finished),
        // A loop that came to a bad end has come to its end.
        Stage::Ended(Outcome::Failed) if state.machine.failed_terminal().is_some() => CalledRun::New(own),
        _ => CalledRun::Going(info, Box::new(state)),
    })
}

/// A run, when it is there.
fn known(shared: &DrivenRun<'_>, run: &RunId) -> Result<Option<RunInfo>, DriveError> {
    match shared.journal.store().reader().run(run) {
        Ok(info) => Ok(Some(info)),
        Err(StoreError::NoSuchRun { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The run that the attempt before called, which what it left names.
fn before(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>) -> Result<Option<RunInfo>, DriveError> {
    // An attempt that was under way has begun since; what went before it is not noted.
    let from = attempted.spec.attempt.began.filter(|_| !attempted.spec.attempt.rerun).unwrap_or(1);
    let mut last = None;
    for event in shared.journal.store().reader().events(shared.journal.run(), from)? {
        let event = event?;
        if event.at != attempted.key.at {
            continue;
        }
        if let Some(output) = output_of(&event) {
            last = Some(output.meta.get(names::RUN_ID).and_then(Value::as_str).map(RunId::new).transpose()?);
            if !attempted.spec.attempt.rerun {
                break;
            }
        }
    }
    last.flatten().map_or(Ok(None), |run| known(shared, &run))
}

/// Drives the called run on a thread of its own, so that calls inside calls do not share one stack.
fn drive(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    project: &Project,
    lease: Lease,
    info: &RunInfo,
    begin: Begin,
) -> Result<CallOutcome, DriveError> {
    let store = shared.journal.store();
    let (control, stop) = (shared.control.child(), shared.stop.child());
    let finished = AtomicU64::new(match &begin {
        Begin::First { .. } => 0,
        Begin::Again { state, .. } => state.finished,
    });
    let (run, plan) = (ecow::EcoString::from(info.id.as_str()), attempted.plan);
    let (Begin::First { started, .. } | Begin::Again { started, .. }) = &begin;
    let earlier = EarlierRun::of(store.reader(), started, plan)?;
    let observer = |notice: Notice| {
        if let Notice::Event(event) = &notice
            && matches!(event.kind, EventKind::Finished { .. })
        {
            finished.fetch_add(1, Ordering::Relaxed);
        }
        let called =
            CalledNotice { at: attempted.key.at.clone(), run: run.clone(), plan: Arc::clone(plan), notice };
        shared.teller.tell(Notice::Called(Box::new(called)));
    };
    let recorded = &recorded_of(shared, attempted, &info.id)?;
    let setup = |names| Setup {
        plan: Arc::clone(plan),
        journal: Journal::new(store, lease),
        project,
        names,
        jobs: shared.given_jobs,
        control: control.clone(),
        stop: stop.clone(),
        trace: shared.trace,
        printed: shared.printed,
        in_flight: shared.in_flight,
        patience: shared.patience,
        surroundings: Arc::clone(&shared.surroundings),
        within: Some(ParentRun {
            started: shared.started.clone(),
            env: environment(shared, attempted),
            gates: Arc::clone(&shared.gates),
            has_budgets: shared.has_budgets,
            budget: Box::new(|call, spent: &Spend, in_flight| {
                let mut unrecorded = spent.clone();
                unrecorded.remove(recorded);
                shared.admit_called(call, &attempted.key.at, unrecorded, in_flight)
            }),
        }),
        earlier,
        exchanges: shared.exchanges.as_ref().map(|files| files.of_called(&shared.plan, attempted.key)),
        workplace: Arc::clone(&shared.workplace),
        observer: Box::new(observer),
    };
    let (over_now, was_late, bell) = (AtomicBool::new(false), AtomicBool::new(false), Bell::default());
    let (rings, timeout) = (bell.rings(), attempted.spec.timeout);
    let ending = std::thread::scope(|threads| {
        if timeout.is_some() {
            threads.spawn(|| {
                bell.wait(rings, timeout);
                if !over_now.load(Ordering::SeqCst) {
                    was_late.store(true, Ordering::SeqCst);
                    stop.ask();
                    control.cancel();
                }
            });
        }
        let driven = threads.spawn(|| match begin {
            Begin::First { names, started } => driver::begin(setup(names), EventKind::RunStarted(*started)),
            Begin::Again { names, state, .. } => {
                driver::resume(setup(names), state.machine, state.context, Resumption::default())
            }
        });
        let ending = driven.join();
        over_now.store(true, Ordering::SeqCst);
        bell.ring();
        // What a thread panicked with was told by it, and goes on here.
        ending.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    match ending? {
        Ending::Ended(outcome) => over(shared, attempted, &info.id, outcome, finished.into_inner()),
        _ if was_late.into_inner() => {
            let value = Err(timed_out(timeout, None));
            let meta = meta(attempted, &info.id, finished.into_inner());
            Ok(CallOutcome::Over(CallEnd { value, meta, spent: spent(shared, attempted, info)? }))
        }
        Ending::Stopped => Ok(CallOutcome::Stopped),
        Ending::Waiting(waits) => Ok(CallOutcome::Waiting(waits)),
        Ending::OverBudget(reached) => Ok(CallOutcome::OverBudget(reached)),
    }
}

/// How a called run is begun.
enum Begin {
    First { names: RunNames, started: Box<RunStarted> },
    Again { names: RunNames, started: Box<RunStarted>, state: Box<reload::ReloadedRun> },
}

/// What a called workflow imports, or why there is nothing.
fn imported(workflow: &Workflow, store: &Store) -> Result<Result<ImportedExports, Failure>, DriveError> {
    let message = match reload::imports(workflow, &BTreeMap::new(), store.reader()) {
        Ok(imports) => return Ok(Ok(imports)),
        Err(ImportError::Journal(error)) => return Err(error.into()),
        Err(ImportError::NeverRan(missing)) => {
            let names: Vec<String> = missing.iter().map(|import| format!("`{}`", import.workflow)).collect();
            format!("`{}` imports what no run has exported: {}", workflow.file.name(), names.join(", "))
        }
        // No run is named, so none that is named did not complete.
        Err(ImportError::NotCompleted { .. } | ImportError::TooLarge) => {
            format!("the imports of `{}` are too large", workflow.file.name())
        }
    };
    Ok(Err(Failure::new(FailureKind::Workflow, message)))
}

/// The first event of a called run, and its names.
fn first(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    project: &Project,
    info: &RunInfo,
    imports: ImportedExports,
) -> Result<Begin, DriveError> {
    let store: &Store = shared.journal.store();
    let workflow = &attempted.plan.workflow;
    let inputs = attempted.spec.call.inputs.clone();
    let continues = continued(shared, attempted)?;
    let text = |text: &str| Hash::of(text.as_bytes());
    let files = attempted.plan.other_files();
    let started = RunStarted {
        run: info.id.as_str().into(),
        workflow: workflow.name.clone(),
        file: workflow.file.name().into(),
        // The run that somebody started has stored the texts of all that it calls.
        text: text(workflow.file.own_text()),
        inputs: store.datum(&inputs)?,
        imports: store.datum(&imports.values)?,
        imported: imports.runs,
        payload: store.datum(&Value::NULL)?,
        set: Vec::new(),
        trust_set: false,
        folder: project.relative_here().into(),
        program: env!("CARGO_PKG_VERSION").into(),
        jobs: shared.given_jobs.map(|jobs| jobs as u64),
        budgets: Vec::new(),
        files: files.into_iter().map(|(name, file)| (name, text(file.own_text()))).collect(),
        caller: Some(Caller {
            run: shared.journal.run().as_str().into(),
            at: attempted.key.at.clone(),
            attempt: attempted.spec.attempt.number,
        }),
        continues,
        // It does what its caller does.
        exchanges: None,
        on: None,
    };
    let names = reload::names(store.reader(), info, &started)?;
    Ok(Begin::First { names, started: Box::new(started) })
}

/// The run that was called in the same place by the run that the caller continues. What it left is compared step by
/// step, where the call may be kept.
fn continued(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>) -> Result<Option<Continued>, DriveError> {
    let (Some(earlier), at) = (&shared.earlier, &attempted.key.at) else { return Ok(None) };
    let view = shared.view(at);
    if !view.may_keep {
        return Ok(None);
    }
    let Some(run) = earlier.called(shared, at, view.path)? else { return Ok(None) };
    let reader = shared.journal.store().reader();
    let info = reader.run(&run)?;
    let Some(started) = reload::started(reader, &info)? else { return Ok(None) };
    let then = Arc::new(reload::plan(reader, &started)?);
    // Only of a loop has to be known how far it came.
    let state = then.states.is_some().then(|| reload::state(reader, &run, &then)).transpose()?;
    let machine = state.as_ref().map(|state| &state.machine);
    Ok(Some(reload::continued(&info, &started, machine, Vec::new())))
}

fn nothing_begun(info: &RunInfo) -> DriveError {
    let why = format!("run `{}` has a state and no beginning", info.id);
    DriveError::Journal(threadline_store::JournalError::Value(why))
}

/// What a run that is over came to.
fn over(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    run: &RunId,
    outcome: Outcome,
    finished: u64,
) -> Result<CallOutcome, DriveError> {
    let reader = shared.journal.store().reader();
    let info = reader.run(run)?;
    let ended = reload::ended(reader, &info)?;
    let value = match (outcome, &ended) {
        (Outcome::Completed, _) => {
            let exports = reload::exports(reader, &info)?;
            // A workflow without `exports` gives an object all the same.
            Ok(if exports.is_null() { Value::empty_object() } else { exports })
        }
        (Outcome::Failed | Outcome::Stopped, ended) => {
            let mut failed = Failed::default();
            for event in reader.events(run, 1)? {
                failed.take(attempted.plan, &event?);
            }
            let message = match ended {
                Some(ended) => why_loop(attempted, ended),
                None => why(shared, attempted, run, &failed)?,
            };
            Err(Failure::new(failed.kind_of_call(), message))
        }
    };
    let mut meta = meta(attempted, run, finished);
    if let Some(LoopEnd { reason, state, .. }) = ended {
        meta.extend([(names::ENDED_BY, reason.name().into()), (names::ENDED_IN, state.as_str().into())]);
    }
    let spent = spent(shared, attempted, &info)?;
    Ok(CallOutcome::Over(CallEnd { value, meta, spent }))
}

fn meta(attempted: &CallAttempt<'_>, run: &RunId, finished: u64) -> Vec<(&'static str, Value)> {
    vec![
        (names::RUN_ID, run.as_str().into()),
        (names::WORKFLOW, attempted.plan.workflow.name.clone().into()),
        (names::STEPS_RUN, finished.into()),
    ]
}

fn failed(failure: Failure, meta: Vec<(&'static str, Value)>) -> CallOutcome {
    CallOutcome::Over(CallEnd { value: Err(failure), meta, spent: Spend::default() })
}

/// What a called run that ended or was stopped spent on agents, without what the caller has recorded of it: a run that
/// failed goes on when its caller is resumed.
fn spent(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>, info: &RunInfo) -> Result<Spend, DriveError> {
    let reader = shared.journal.store().reader();
    let info = reader.run(&info.id)?;
    let mut spent = match reader.event(&info.id, info.events)?.kind {
        EventKind::RunEnded { spent, .. } | EventKind::Paused { spent, .. } => {
            spent.map(|spent| *spent).unwrap_or_default()
        }
        _ => Spend::default(),
    };
    if !spent.is_nothing() {
        spent.remove(&recorded_of(shared, attempted, &info.id)?);
    }
    Ok(spent)
}

/// What the runs that a run called have spent and it has not recorded, by the executions that called them: when it goes on
/// after a crash or a stop, before any of them does.
pub(crate) fn unrecorded(
    reader: &JournalReader,
    started: &RunId,
    run: &RunId,
) -> Result<Vec<(Address, Spend)>, DriveError> {
    let mut called: Vec<CalledSpend> = Vec::new();
    for info in
        reader.runs()?.into_iter().filter(|info| info.id.is_called() && info.id.started() == started.as_str())
    {
        if let Some(RunStarted { caller: Some(caller), .. }) = reload::started(reader, &info)? {
            called.push(CalledSpend { run: info.id, caller });
        }
    }
    of_called(reader, run, &called)
}

/// A called run, and who called it.
struct CalledSpend {
    run: RunId,
    caller: Caller,
}

fn of_called(
    reader: &JournalReader,
    run: &RunId,
    called: &[CalledSpend],
) -> Result<Vec<(Address, Spend)>, DriveError> {
    let mut recorded: BTreeMap<String, Spend> = BTreeMap::new();
    for event in reader.events(run, 1)? {
        let event = event?;
        let of =
            output_of(&event).and_then(|output| output.meta.get(names::RUN_ID)?.as_str().map(str::to_owned));
        if let (Some(of), Some(spent)) = (of, event.kind.spent()) {
            recorded.entry(of).or_default().add(spent);
        }
    }
    let mut all = Vec::new();
    for CalledSpend { run: inner, caller } in called.iter().filter(|called| called.caller.run == run.as_str())
    {
        let mut spent = Spend::default();
        for event in reader.events(inner, 1)? {
            if let Some(more) = event?.kind.spent() {
                spent.add(more);
            }
        }
        for (_, deeper) in of_called(reader, inner, called)? {
            spent.add(&deeper);
        }
        if let Some(recorded) = recorded.get(inner.as_str()) {
            spent.remove(recorded);
        }
        if !spent.is_nothing() {
            all.push((caller.at.clone(), spent));
        }
    }
    Ok(all)
}

/// What the caller has recorded of what a run has spent that it called: where that run failed and goes on.
fn recorded_of(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    run: &RunId,
) -> Result<Spend, DriveError> {
    let mut sum = Spend::default();
    if attempted.spec.attempt.base == 0 {
        return Ok(sum);
    }
    let reader = shared.journal.store().reader();
    for event in reader.events(shared.journal.run(), 1)? {
        let event = event?;
        let is_of_run = output_of(&event).is_some_and(|output| {
            output.meta.get(names::RUN_ID).and_then(Value::as_str) == Some(run.as_str())
        });
        if event.at == attempted.key.at
            && is_of_run
            && let Some(recorded) = event.kind.spent()
        {
            sum.add(recorded);
        }
    }
    Ok(sum)
}

/// Why a called loop did not come to a good end.
fn why_loop(attempted: &CallAttempt<'_>, ended: &LoopEnd) -> String {
    let file = attempted.plan.workflow.file.name();
    let LoopEnd { reason, state, limit } = ended;
    match limit {
        Some(limit) => format!("`{file}` stopped before `{state}`: `{}` is {limit}", reason.name()),
        None => format!("`{file}` ended in `{state}`"),
    }
}

/// Why a called run failed: its first step that did, and what that says.
fn why(
    shared: &DrivenRun<'_>,
    attempted: &CallAttempt<'_>,
    run: &RunId,
    all: &Failed,
) -> Result<String, DriveError> {
    let reader = shared.journal.store().reader();
    let plan = attempted.plan;
    let file = plan.workflow.file.name();
    Ok(match all.executions().next() {
        Some((at, seq)) => {
            let label = at.step(plan).map_or_else(
                || at.to_string(),
                |step| {
                    let items = at.items().fold(String::new(), |text, index| format!("{text}[{index}]"));
                    format!("{}{items}", plan.steps[step as usize].label)
                },
            );
            let event = reader.event(run, seq)?;
            let error =
                output_of(&event).and_then(|output| output.meta.get(names::ERROR).map(Value::to_string));
            let more = match all.executions().count() - 1 {
                0 => String::new(),
                more => format!(" ({more} more failed)"),
            };
            format!("`{label}` of `{file}` failed: {}{more}", error.unwrap_or_default())
        }
        None => format!("`exports` of `{file}` have no value"),
    })
}

/// The environment of everything that the called run starts: that of its step, then that of its environment files.
fn environment(shared: &DrivenRun<'_>, attempted: &CallAttempt<'_>) -> Environment {
    let mut env = shared.env.clone();
    env.change(&attempted.spec.env);
    shared.surroundings.environment(&attempted.plan.workflow, env)
}
