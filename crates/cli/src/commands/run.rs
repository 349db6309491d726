//! `threadline run` and `threadline resume`: drive a run of a workflow to its end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{Address, Event, EventKind, ExchangeMode, LoopReason, RunStarted};
use threadline_engine::machine::{BudgetReached, Outcome, Stage};
use threadline_engine::replay::Fold;
use threadline_engine::view::RunNames;
use threadline_flow::files::USER_AGENTS;
use threadline_flow::model::{BudgetKey, OnCrash};
use threadline_flow::plan::Plan;
use threadline_flow::shell::quoted;
use threadline_lang::Value;
use threadline_lang::diag::{nearest, words};
use threadline_runner::driver::{
    self, DriveError, Ending, Notice, PendingDecision, PrintedNotices, Resumption, Setup,
};
use threadline_runner::earlier::EarlierRun;
use threadline_runner::exchanges::ExchangeFiles;
use threadline_runner::process;
use threadline_runner::project::{Project, STORE, is_in_store, plain};
use threadline_runner::reload;
use threadline_runner::secrets::{RunSurroundings, SecretReading};
use threadline_runner::trust::StoreUse;
use threadline_runner::values::Values;
use threadline_runner::workplace::Workplace;
use threadline_store::{
    Durability, Journal, JournalError, JournalReader, Lease, NewRun, ProjectLocks, RunId, SegmentEnd, Store,
    StoreError,
};

use super::ci_report;
use super::explain::failures::FailureSummary;
use super::history::{self, History, cannot_start, of_journal, of_store, project, store_of, time_text};
use super::kept::{self, KeptRuns};
use super::launch::Signals;
use super::{elsewhere, print, surroundings_of};
use crate::arguments::{InFlightDecision, ResumeArguments, RunArguments, WatchArguments};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{prepare, read_imports, read_payload};
use crate::printing;
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::report::{self, Report};
use crate::reporter::{FailureLog, ReportOptions, Reporter};
use crate::screen::DRAWING_INTERVAL;
use crate::stats;
use crate::stream::EventLines;

/// The time that processes of a killed run have to end.
pub(crate) const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// The maximum number of further attempts to take the lease of a run.
const MAX_LEASE_RETRIES: u32 = 25;

pub(crate) fn run(call: &RunArguments) -> Result<(), CommandFailure> {
    ci_report::check_folder(&call.watch)?;
    if call.detach {
        return start_detached(call);
    }
    let StartedRun { store, id, stopped } = start(call, None)?;
    if call.watch.stats {
        stats::print(&store);
    }
    let reported = ci_report::write(store.reader(), &id, &call.watch);
    check_printed(stopped.conclude(&store, &id, call.watch.json).and(reported))
}

/// A run that was driven until it ended or stopped.
pub(super) struct StartedRun {
    pub(super) store: Store,
    pub(super) id: String,
    pub(super) stopped: StoppedRun,
}

/// Gives the line that is printed of an event, in place of the usual one.
pub(super) type LineMaker = Box<dyn FnMut(&Event) -> Vec<String> + Send>;

/// Makes what gives the lines of a run, when its plan is known.
pub(super) type WatcherMaker<'m> = &'m dyn Fn(&Arc<Plan>) -> LineMaker;

/// A run that has an id and a row in the journal.
struct NewlyMadeRun {
    store: Store,
    id: String,
    lease: Lease,
    started: RunStarted,
    project: Project,
    plan: Arc<Plan>,
    names: RunNames,
    surroundings: Arc<RunSurroundings>,
    exchanges: Option<Arc<ExchangeFiles>>,
    workplace: Arc<dyn Workplace>,
    signals: Signals,
    holding: ProjectLocks,
    /// Where it is kept, too.
    kept: Option<KeptRuns>,
}

/// Makes a run of a file.
fn make(call: &RunArguments) -> Result<NewlyMadeRun, CommandFailure> {
    let targets = call.what.scenarios.as_ref().and_then(|selection| selection.targets.as_deref());
    let file = inputs::read_scenarios(&call.what.file, targets.map(Path::new))?;
    let text = file.own_text().to_owned();
    let name = file.name().to_owned();
    let prepared = prepare(&file, &call.what)?;
    let project =
        project(call.dir.as_deref())?.allow(prepared.plan.workflow.allow.files.iter().map(EcoString::as_str));
    let mode = exchange_mode(call, &prepared.plan, &project)?;
    let on = elsewhere::service(call)?;
    let kept = KeptRuns::of_service(on.as_ref())?;
    let (project, reading) = match &kept {
        Some(kept) if call.detach => {
            refuse_locks(&prepared.plan)?;
            // The secrets are those of the worker.
            (project.with_journal(kept.cache()?), SecretReading::AsFarAsPossible)
        }
        _ => (project, secret_reading(mode.as_ref())),
    };
    let surroundings = Arc::new(surroundings_of(&prepared.plan, &project, reading)?);
    let store = store_of(&project, StoreUse::Write, call.watch.trust_store)?;
    let store = Store::open(&store).map_err(|error| of_store(&error))?;
    let budgets = super::budget::changes(&prepared.plan, &call.budget)?;
    project.ignore_store();
    process::belong_to(store.identity().map_err(|error| of_store(&error))?);
    let workplace = elsewhere::workplace(on.as_ref(), &prepared.plan, &project)?;
    // The runs that it imports from are those of the project, wherever its own journal is.
    let imports_runs = call.detach && !prepared.plan.workflow.imports.is_empty();
    let imported = imports_runs.then(|| history::reader(call.dir.as_deref())).transpose()?;
    let imported = imported.as_ref().unwrap_or_else(|| store.reader());
    let imports = read_imports(&prepared.plan.workflow, &call.import, imported)?;
    let payload = read_payload(&call.what, &prepared.plan.workflow)?.unwrap_or_default();
    let started_at = time_text(jiff::Timestamp::now().as_millisecond());
    let id = new_id();
    let run = RunId::new(&id).map_err(|error| of_store(&error))?;
    let new = NewRun {
        id: run,
        name: prepared.plan.workflow.name.to_string(),
        file: name.clone(),
        started_at: started_at.clone(),
    };
    let names = RunNames {
        inputs: prepared.inputs,
        imports: imports.values,
        payload,
        workflow: prepared.plan.workflow.name.clone(),
        run: id.as_str().into(),
        start_time: started_at.into(),
    };
    refuse_recorded_secrets(&surroundings, &prepared.plan, &names, &prepared.set)?;
    let exchanges = exchange_files(mode.as_ref(), &project);
    let begun = exchanges.as_ref().map(|files| files.begin()).transpose();
    begun.map_err(|message| CommandFailure::NotStarted(vec![Report::plain(message)]))?;
    let signals = Signals::listen(&call.watch);
    let holding = signals.take(&store, &new.id, &prepared.plan, &names, &project, &call.watch)?;
    if let Some(kept) = &kept {
        let watch = kept::watch(&signals.control, &signals.stop);
        let replicated = store.replicate(&new.id, kept.segments(&new.id), SegmentEnd::none(), watch);
        replicated.map_err(|error| of_store(&error))?;
    }
    let lease = store.create_run(new).map_err(|error| of_store(&error))?;
    let set: Result<Vec<_>, _> =
        prepared.set.iter().map(|(path, value)| Ok((path.clone(), store.datum(value)?))).collect();
    let mut files = Vec::new();
    for (name, file) in prepared.plan.other_files() {
        files.push((name, store.put_text(file.own_text()).map_err(|error| of_store(&error))?));
    }
    let started = RunStarted {
        run: id.as_str().into(),
        workflow: prepared.plan.workflow.name.clone(),
        file: name.into(),
        text: store.put_text(&text).map_err(|error| of_store(&error))?,
        inputs: store.datum(&names.inputs).map_err(|error| of_store(&error))?,
        imports: store.datum(&names.imports).map_err(|error| of_store(&error))?,
        imported: imports.runs,
        payload: store.datum(&names.payload).map_err(|error| of_store(&error))?,
        set: set.map_err(|error| of_store(&error))?,
        trust_set: call.what.trust_set,
        folder: project.relative_here().into(),
        program: env!("CARGO_PKG_VERSION").into(),
        jobs: call.watch.jobs.map(|jobs| jobs as u64),
        budgets,
        files,
        caller: None,
        continues: None,
        exchanges: mode,
        on,
    };
    let plan = prepared.plan;
    Ok(NewlyMadeRun {
        store,
        id,
        lease,
        started,
        project,
        plan,
        names,
        surroundings,
        exchanges,
        workplace,
        signals,
        holding,
        kept,
    })
}

/// Locks are those of one machine, and nobody knows which one will drive the run.
fn refuse_locks(plan: &Plan) -> Result<(), CommandFailure> {
    if plan.workflow.locks.is_empty() {
        return Ok(());
    }
    let message = "a workflow with `locks` cannot be handed over: locks hold on one machine";
    let hint = "`--replicate` without `--detach` keeps its journal in the blob store, and drives it here";
    Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]))
}

/// Begins a run of a file, and drives it until it ends or stops.
pub(super) fn start(
    call: &RunArguments,
    watcher: Option<WatcherMaker<'_>>,
) -> Result<StartedRun, CommandFailure> {
    let made = make(call)?;
    let NewlyMadeRun { store, id, lease, started, project, plan, names, surroundings, .. } = made;
    let NewlyMadeRun { exchanges, workplace, signals, holding: _holding, .. } = made;
    let launch = RunLaunch {
        journal: Journal::new(&store, lease),
        project: &project,
        plan: Arc::clone(&plan),
        names,
        surroundings,
        signals,
        watch: &call.watch,
        in_flight: None,
        earlier: None,
        exchanges,
        workplace,
        progress: Progress::default(),
        watcher: watcher.map(|watcher| watcher(&plan)),
    };
    let stopped = launch.drive(|setup| driver::begin(setup, EventKind::RunStarted(started)));
    Ok(StartedRun { store, id, stopped })
}

/// Begins a run of a file, and hands it over to workers.
fn start_detached(call: &RunArguments) -> Result<(), CommandFailure> {
    let NewlyMadeRun { store, id, lease, started, kept, .. } = make(call)?;
    let Some(kept) = kept else {
        return Err(CommandFailure::Usage("`--detach` needs `--on` and `--blobs`".to_owned()));
    };
    let run = lease.run().clone();
    let journal = Journal::new(&store, lease);
    let first = vec![(Address::default(), EventKind::RunStarted(started))];
    let now = jiff::Timestamp::now().as_millisecond();
    let (_, ticket) = journal.append(now, first, Durability::Now).map_err(|error| of_store(&error))?;
    ticket.wait().map_err(|error| of_store(&error))?;
    let events = ticket.last();
    drop(journal);
    kept.hand_over(&run, events, false)?;
    tell_handed_over(&id, &kept)
}

/// Says how to follow a run that workers drive.
fn tell_handed_over(id: &str, kept: &KeptRuns) -> Result<(), CommandFailure> {
    print(&format!("{id}\n"))?;
    let arguments = kept.arguments();
    report::print_note(&format!("workers drive the run; `threadline show {id}{arguments}` shows it"));
    report::print_note(&format!("`threadline stop {id}{arguments}` stops it"));
    Ok(())
}

pub(crate) fn resume(call: &ResumeArguments) -> Result<(), CommandFailure> {
    ci_report::check_folder(&call.watch)?;
    if call.edited {
        return super::continued::resume_edited(call);
    }
    if call.confirm.dry_run || call.confirm.yes {
        let flag = if call.confirm.dry_run { "--dry-run" } else { "--yes" };
        return Err(CommandFailure::Usage(format!("`{flag}` is about `resume --edited`")));
    }
    let Some(StartedRun { store, id, stopped }) = go_on(call, None)? else { return Ok(()) };
    if call.watch.stats {
        stats::print(&store);
    }
    let reported = ci_report::write(store.reader(), &id, &call.watch);
    check_printed(stopped.conclude(&store, &id, call.watch.json).and(reported))
}

/// Continues a run, and drives it until it ends or stops; none where there is nothing to do.
pub(super) fn go_on(
    call: &ResumeArguments,
    watcher: Option<WatcherMaker<'_>>,
) -> Result<Option<StartedRun>, CommandFailure> {
    let mut found = project(call.dir.as_deref())?;
    if let Some(journal) = &call.journal {
        kept::end_with_worker();
        found = found.with_journal(journal.clone());
    }
    let given = KeptRuns::of(&call.kept)?;
    if let Some(given) = given.as_ref().filter(|_| call.detach) {
        found = found.with_journal(given.cache()?);
    }
    let store = store_of(&found, StoreUse::Resume, call.watch.trust_store)?;
    let store = Store::open(&store).map_err(|error| of_store(&error))?;
    process::belong_to(store.identity().map_err(|error| of_store(&error))?);
    let name = match &given {
        Some(kept) => {
            let run = kept.find(&call.run)?;
            kept.import(&store, &run)?;
            run.to_string()
        }
        None => call.run.clone(),
    };
    let mut history = History::open(store.reader(), &name)?;
    let id = history.info.id.to_string();
    refuse_called(&history)?;
    let service = elsewhere::service_again(history.started.on.as_ref(), &call.kept)?;
    let kept = match given {
        Some(kept) => Some(kept),
        None => KeptRuns::of_service(service.as_ref())?,
    };
    // What another machine did meanwhile comes first.
    let end = kept.as_ref().map(|kept| kept::bring(kept, &store, &history.info.id)).transpose()?;
    if end.is_some() {
        history = History::open(store.reader(), &id)?;
    }
    if let Some(since) = call.since.filter(|since| history.info.events > *since)
        && let Some(code) = stopped_with(&history.info.status)
    {
        report::print_note(&format!("run {id} {} after event {since}", history.info.status));
        return if code == 0 { Ok(None) } else { Err(CommandFailure::Shown(code)) };
    }
    if call.detach {
        return hand_over_again(call, &history, kept.as_ref()).map(|()| None);
    }
    let project = return_to(&found, &history.started, &history.plan)?;
    let mode = history.started.exchanges.clone();
    let surroundings = Arc::new(surroundings_of(&history.plan, &project, secret_reading(mode.as_ref()))?);
    let lease = take_lease(&store, &history.info.id)?;
    // Programs that a killed Threadline left behind must not run beside those of this run.
    process::end_left_over(&id, GRACE);
    let mut progress = Progress::default();
    let fold = history.each(|_, event| {
        progress.take(&history.plan, event);
        Ok(())
    })?;
    if has_nothing_left(call, &history, &fold, &progress)? {
        return Ok(None);
    }
    let budgets = super::budget::changes(&history.plan, &call.budget)?;
    let workplace = elsewhere::workplace(service.as_ref(), &history.plan, &project)?;
    note_changed_file(&history, project.here());
    let earlier = EarlierRun::of(store.reader(), &history.started, &history.plan);
    let earlier = earlier.map_err(|error| of_drive(&error))?;
    let context = history.context(fold.machine.defined())?;
    let mut watch = call.watch.clone();
    let jobs = watch.jobs.map(|jobs| jobs as u64).filter(|jobs| history.started.jobs != Some(*jobs));
    watch.jobs = watch.jobs.or(history.started.jobs.and_then(|jobs| usize::try_from(jobs).ok()));
    let in_flight = call.in_flight.map(|in_flight| match in_flight {
        InFlightDecision::Rerun => OnCrash::Rerun,
        InFlightDecision::Fail => OnCrash::Fail,
    });
    let History { plan, names, .. } = history;
    let signals = Signals::listen(&watch);
    let _holding = signals.take(&store, lease.run(), &plan, &names, &project, &watch)?;
    if let (Some(kept), Some(end)) = (&kept, end) {
        let watch = kept::watch(&signals.control, &signals.stop);
        let replicated = store.replicate(lease.run(), kept.segments(lease.run()), end, watch);
        replicated.map_err(|error| of_store(&error))?;
    }
    let watcher = watcher.map(|watcher| watcher(&plan));
    let launch = RunLaunch {
        journal: Journal::new(&store, lease),
        project: &project,
        plan,
        names,
        surroundings,
        signals,
        watch: &watch,
        in_flight,
        earlier,
        exchanges: exchange_files(mode.as_ref(), &project),
        workplace,
        progress,
        watcher,
    };
    let resumption = Resumption { failed: call.failed, budgets, jobs };
    let stopped = launch.drive(|setup| driver::resume(setup, fold.machine, context, resumption));
    Ok(Some(StartedRun { store, id, stopped }))
}

/// Says so where nothing of a run is left to do.
fn has_nothing_left(
    call: &ResumeArguments,
    history: &History<'_>,
    fold: &Fold,
    progress: &Progress,
) -> Result<bool, CommandFailure> {
    let id = &history.info.id;
    let (stage, let_fail) = (fold.machine.stage(), fold.machine.has_tolerated_failures());
    match stage {
        Stage::Ended(Outcome::Completed) if call.failed && !let_fail => {
            print(&format!("no item of run {id} failed, there is nothing to do again\n"))?;
            return Ok(true);
        }
        Stage::Ended(Outcome::Completed) if !call.failed => {
            let failed = progress.failed.len();
            if let_fail {
                report::print_note(&format!(
                    "{} failed; `threadline resume {id} --failed` does {} again",
                    words::count(failed, "item"),
                    if failed == 1 { "it" } else { "them" }
                ));
            }
            print(&format!("run {id} is completed, there is nothing to resume\n"))?;
            return Ok(true);
        }
        Stage::Ended(Outcome::Failed) if let Some(state) = fold.machine.failed_terminal() => {
            print(&format!("run {id} has ended in `{state}`, a failure: there is nothing to resume\n"))?;
            let file = &history.started.file;
            report::print_note(&format!("`threadline run {file}` starts a new run"));
            return Err(CommandFailure::Shown(1));
        }
        Stage::Ended(Outcome::Failed) if call.failed && progress.failed.is_empty() => {
            print(&format!(
                "no item of run {id} failed; `threadline resume {id}` tries the step that failed again\n"
            ))?;
            return Ok(true);
        }
        _ => {}
    }
    Ok(false)
}

/// Hands a run over to workers that has stopped.
fn hand_over_again(
    call: &ResumeArguments,
    history: &History<'_>,
    kept: Option<&KeptRuns>,
) -> Result<(), CommandFailure> {
    let Some(kept) = kept else {
        let message = "`--detach` is about a run whose journal is kept in a blob store";
        return Err(CommandFailure::Usage(message.to_owned()));
    };
    refuse_locks(&history.plan)?;
    let mut progress = Progress::default();
    let fold = history.each(|_, event| {
        progress.take(&history.plan, event);
        Ok(())
    })?;
    if has_nothing_left(call, history, &fold, &progress)? {
        return Ok(());
    }
    kept.hand_over(&history.info.id, history.info.events, call.failed)?;
    tell_handed_over(history.info.id.as_str(), kept)
}

/// The exit code of a run that has this status, if it stopped.
fn stopped_with(status: &str) -> Option<u8> {
    match status {
        "completed" => Some(0),
        "failed" => Some(1),
        "stopped" => Some(4),
        "paused" => Some(130),
        _ => None,
    }
}

/// What becomes of the exchanges of a run with agents, as the caller wants it.
fn exchange_mode(
    call: &RunArguments,
    plan: &Plan,
    project: &Project,
) -> Result<Option<ExchangeMode>, CommandFailure> {
    let folder = |given: &Path| {
        let path = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        match path.strip_prefix(project.root()) {
            Ok(inside) if inside.as_os_str().is_empty() => EcoString::from("."),
            Ok(inside) => EcoString::from(inside.display().to_string()),
            Err(_) => EcoString::from(path.display().to_string()),
        }
    };
    if let Some(given) = &call.record {
        if is_in_store(given) {
            let message = format!("cannot record in `{}`: a store belongs to Threadline", given.display());
            let hint = format!("name a folder outside of `{STORE}`");
            return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]));
        }
        return Ok(Some(ExchangeMode::Record { folder: folder(given) }));
    }
    let Some(given) = &call.replay else { return Ok(None) };
    let names = step_names(plan);
    for name in &call.live {
        if !names.contains(name.as_str()) {
            let near = nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; {}", words::did_you_mean(near)));
            return Err(CommandFailure::Usage(format!("`--live {name}`: there is no such step{near}")));
        }
    }
    let live = call.live.iter().map(EcoString::from).collect();
    Ok(Some(ExchangeMode::Replay { folder: folder(given), live }))
}

/// The labels and numbers of the steps of a plan and of all that it calls.
fn step_names(plan: &Plan) -> BTreeSet<&str> {
    let own = plan.steps.iter().flat_map(|step| {
        let id = step.step.id.as_ref().map(|id| id.value.as_str());
        [Some(step.label.as_str()), Some(step.number.as_str()), id].into_iter().flatten()
    });
    own.chain(plan.callees().flat_map(|called| step_names(called))).collect()
}

/// Where the exchanges of a run are recorded, or replayed from.
pub(super) fn exchange_files(mode: Option<&ExchangeMode>, project: &Project) -> Option<Arc<ExchangeFiles>> {
    mode.map(|mode| ExchangeFiles::of(mode, project.root()))
}

/// Which secrets a run needs. Keys of agents that nobody asks need not be there.
pub(super) fn secret_reading(mode: Option<&ExchangeMode>) -> SecretReading {
    match mode {
        Some(ExchangeMode::Replay { .. }) => SecretReading::AsFarAsPossible,
        _ => SecretReading::All,
    }
}

/// Refuses a run whose first event would hold a secret: in the text of a file, or in a value that the caller gave.
pub(super) fn refuse_recorded_secrets(
    surroundings: &RunSurroundings,
    plan: &Plan,
    names: &RunNames,
    set: &[(EcoString, Value)],
) -> Result<(), CommandFailure> {
    let Some(masks) = surroundings.masks() else { return Ok(()) };
    let refused = |what: &str, secrets: Vec<EcoString>| {
        let secret = secrets.first()?;
        let message = format!("{what} contains the secret `{secret}`, and would be recorded");
        Some(Report::with_hint(message, &format!("read it as `${{secrets.{secret}}}`")))
    };
    let file = &plan.workflow.file;
    let others = plan.other_files();
    let texts = std::iter::once((file.name(), file.own_text()))
        .chain(others.iter().map(|(name, file)| (name.as_str(), file.own_text())));
    let texts = texts.filter_map(|(name, text)| refused(&format!("`{name}`"), masks.mask_text(text).1));
    let values =
        [("an input", &names.inputs), ("an import", &names.imports), ("the payload", &names.payload)];
    let set = set.iter().map(|(path, value)| (path.as_str(), value));
    let values =
        values.into_iter().chain(set).filter_map(|(what, value)| refused(what, masks.mask_value(value).1));
    let reports: Vec<Report> = texts.chain(values).collect();
    if reports.is_empty() { Ok(()) } else { Err(CommandFailure::NotStarted(reports)) }
}

/// A run that a step of another run called is not continued by itself.
pub(super) fn refuse_called(history: &History<'_>) -> Result<(), CommandFailure> {
    let Some(caller) = &history.started.caller else { return Ok(()) };
    let id = &history.info.id;
    let message = format!("run `{id}` belongs to the step `{}` of run `{}`", caller.at, caller.run);
    let hint = format!("`threadline resume {}` goes on with both", id.started());
    Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]))
}

/// The project, in the folder that the steps of a run run in.
pub(super) fn return_to(
    project: &Project,
    started: &RunStarted,
    plan: &Plan,
) -> Result<Project, CommandFailure> {
    let folder = started.folder.as_str();
    let project = project
        .return_to(folder)
        .map_err(|error| cannot_start(&format!("the folder of the run, `{folder}`: {}", plain(&error))))?;
    Ok(project.allow(plan.workflow.allow.files.iter().map(EcoString::as_str)))
}

/// The failure of a command because a run could not be read.
pub(super) fn of_drive(error: &DriveError) -> CommandFailure {
    match error {
        DriveError::Journal(error) => of_journal(error),
        DriveError::InvalidEvent(invalid) => {
            cannot_start(&format!("event {} does not fit: {}", invalid.seq, invalid.why))
        }
        DriveError::Git(error) => cannot_start(&error.to_string()),
        DriveError::Folder(error) => cannot_start(&no_folder(error)),
    }
}

/// A run that did well has failed its caller if what it printed is not all there.
pub(super) fn check_printed(concluded: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
    match printing::first_failure() {
        Some(failure) if concluded.is_ok() => {
            let message = format!("cannot print: {failure}; `threadline show` prints the run again");
            Err(CommandFailure::Failed(vec![Report::plain(message)]))
        }
        _ => concluded,
    }
}

/// Takes the right to drive a run. If Threadline was killed while it started a program, its child holds the lease until
/// it has become that program.
pub(super) fn take_lease(store: &Store, run: &RunId) -> Result<Lease, CommandFailure> {
    let mut asked = 0;
    loop {
        match store.lease(run) {
            Err(StoreError::Busy { .. }) if asked < MAX_LEASE_RETRIES => {
                asked += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            leased => return leased.map_err(|error| of_store(&error)),
        }
    }
}

/// Notes files that have changed since the run was started, because the run goes on with the old text.
fn note_changed_file(history: &History<'_>, folder: &Path) {
    let RunStarted { file, text, files, .. } = &history.started;
    for (file, text) in std::iter::once((file, text)).chain(files.iter().map(|(file, text)| (file, text))) {
        let path = path_of(file, folder);
        if let Ok(now) = std::fs::read(&path)
            && Hash::of(&now) != *text
        {
            let path = path.display();
            report::print_note(&format!(
                "`{path}` has changed since; the run goes on with the text it began with; `threadline resume {} \
                 --edited` uses the changed file",
                history.info.id
            ));
        }
    }
}

/// Where a file of a run is. Its path is relative to the folder that Threadline was started in: this one, or the
/// one that steps run in.
pub(super) fn path_of(file: &str, folder: &Path) -> PathBuf {
    let file = Path::new(file.strip_prefix(USER_AGENTS).unwrap_or(file));
    if file.exists() { file.to_owned() } else { folder.join(file) }
}

/// A run that is about to begin or to go on.
pub(super) struct RunLaunch<'a> {
    pub(super) journal: Journal<'a>,
    pub(super) project: &'a Project,
    pub(super) plan: Arc<Plan>,
    pub(super) names: RunNames,
    pub(super) surroundings: Arc<RunSurroundings>,
    pub(super) signals: Signals,
    pub(super) watch: &'a WatchArguments,
    /// What becomes of steps that were running when Threadline was killed, if the caller says so.
    pub(super) in_flight: Option<OnCrash>,
    /// The run that it continues with a changed file, or from a step on.
    pub(super) earlier: Option<EarlierRun<'a>>,
    /// Where its exchanges with agents are recorded, or replayed from.
    pub(super) exchanges: Option<Arc<ExchangeFiles>>,
    /// Where its programs are performed.
    pub(super) workplace: Arc<dyn Workplace>,
    pub(super) progress: Progress,
    /// Gives other lines than the usual ones.
    pub(super) watcher: Option<LineMaker>,
}

/// A run that is not driven any more, and what the screen has said about it.
pub(super) struct StoppedRun {
    ending: Result<Ending, DriveError>,
    plan: Arc<Plan>,
    failed_items: usize,
    failed_steps: Vec<Address>,
    failures: FailureLog,
}

impl<'a> RunLaunch<'a> {
    /// Drives the run to its end, or until it is stopped, and reports it.
    pub(super) fn drive(self, go: impl FnOnce(Setup<'a>) -> Result<Ending, DriveError>) -> StoppedRun {
        let Self { journal, project, plan, names, surroundings, signals, watch, .. } = self;
        let Self { in_flight, earlier, exchanges, workplace, progress, watcher, .. } = self;
        process::prepare(journal.run().as_str());
        signals.begin();
        let Signals { control, stop, screen, notes, to_print, listener: _listening, .. } = signals;
        let trace = watch.trace_variables;
        let is_elsewhere = workplace.remembers().is_some();
        let options = ReportOptions { verbose: watch.verbose, trace, is_elsewhere };
        let mut reporter = Reporter::new(Arc::clone(&plan), journal.run().as_str(), options, progress);
        let reader = journal.store().reader();
        reporter = reporter.reading(reader);
        let is_drawn = screen.is_some();
        if let Some(screen) = screen {
            let values = Values::new(reader, journal.run().clone());
            reporter = reporter.live(screen, values);
        }
        let reporter = Arc::new(Mutex::new(reporter));
        let observer = match watcher {
            Some(mut watcher) => {
                let reporter = Arc::clone(&reporter);
                Box::new(move |notice: Notice| {
                    let Notice::Event(event) = &notice else { return };
                    let mut reporter = locked(&reporter);
                    reporter.track(event);
                    for line in watcher(event) {
                        reporter.print(&line);
                    }
                })
            }
            None => observer(Arc::clone(&reporter), &plan, reader, watch),
        };
        let printed = match (watch.verbose, is_drawn) {
            (true, _) => PrintedNotices::All,
            (false, true) => PrintedNotices::Agents,
            (false, false) => PrintedNotices::None,
        };
        let setup = Setup {
            plan: Arc::clone(&plan),
            journal,
            project,
            names,
            jobs: watch.jobs,
            control,
            stop,
            trace: trace.is_some(),
            printed,
            in_flight,
            patience: watch.wait.unwrap_or_default(),
            surroundings,
            within: None,
            earlier,
            exchanges,
            workplace,
            observer,
        };
        let ending = std::thread::scope(|threads| {
            if is_drawn {
                let reporter = &reporter;
                threads.spawn(move || paint(reporter, &to_print));
            }
            let ending = go(setup);
            // Nobody listens if nothing is drawn.
            let _ = notes.send(None);
            ending
        });
        let mut reporter = locked(&reporter);
        reporter.clear_block();
        StoppedRun {
            ending,
            plan,
            failed_items: reporter.failed_items(),
            failed_steps: reporter.failed_steps(),
            failures: reporter.take_failures(),
        }
    }
}

/// Reports what the runner has to say: as lines for people, or as lines of JSON.
fn observer<'a>(
    reporter: Arc<Mutex<Reporter<'a>>>,
    plan: &Arc<Plan>,
    reader: &'a JournalReader,
    watch: &WatchArguments,
) -> driver::Observer<'a> {
    if !watch.json {
        return Box::new(move |notice: Notice| locked(&reporter).notice(&notice));
    }
    let plan = Arc::clone(plan);
    let lines = EventLines::new(reader, watch.stored);
    let mut remarks = Remarks::new(watch.trace_variables);
    Box::new(move |notice: Notice| {
        if let Notice::Event(event) = &notice {
            locked(&reporter).track(event);
        }
        lines.notice(&plan, &mut remarks, &notice);
    })
}

fn locked<'r, 'a>(reporter: &'r Mutex<Reporter<'a>>) -> MutexGuard<'r, Reporter<'a>> {
    reporter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws the progress of a run a few times per second and prints notes, until the end of the run.
fn paint(reporter: &Mutex<Reporter<'_>>, notes: &mpsc::Receiver<Option<&str>>) {
    loop {
        match notes.recv_timeout(DRAWING_INTERVAL) {
            Ok(Some(note)) => {
                let mut reporter = locked(reporter);
                reporter.clear_block();
                report::print_note(note);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => locked(reporter).redraw(),
            Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl StoppedRun {
    /// How the run ended; none where it can be resumed.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match self.ending {
            Ok(Ending::Ended(outcome @ (Outcome::Completed | Outcome::Failed))) => Some(outcome),
            _ => None,
        }
    }

    /// Prints how to go on after the run, and gives the exit code.
    pub(super) fn conclude(self, store: &Store, id: &str, json: bool) -> Result<(), CommandFailure> {
        process::end_descendants(id, GRACE);
        let note = |message: &str| {
            if !json {
                report::print_note(message);
            }
        };
        match &self.ending {
            Ok(Ending::Ended(Outcome::Completed)) => {
                let failed = self.failed_items;
                if failed > 0 {
                    let them = if failed == 1 { "it" } else { "them" };
                    note(&format!(
                        "{} failed: `threadline show {id} --failed`; `threadline resume {id} --failed` does {them} again",
                        words::count(failed, "item")
                    ));
                }
                Ok(())
            }
            Ok(Ending::Ended(Outcome::Failed)) => {
                if !json {
                    self.summarize_failures(store, id)?;
                }
                let run = RunId::new(id).and_then(|run| store.reader().run(&run));
                let run = run.map_err(|error| of_store(&error))?;
                let ended = reload::ended(store.reader(), &run).map_err(|error| of_journal(&error))?;
                // A loop that ended in a failure has nothing left to do.
                if ended.is_none_or(|ended| ended.reason != LoopReason::Terminal) {
                    note(&format!("`threadline resume {id}` tries again from there"));
                }
                Err(CommandFailure::Shown(1))
            }
            Ok(Ending::Ended(Outcome::Stopped)) => {
                note(&format!("`threadline resume {id}` goes on, with the same limits again"));
                Err(CommandFailure::Shown(4))
            }
            Ok(Ending::OverBudget(reached)) => {
                note(&going_on_with_more(id, reached));
                Err(CommandFailure::Shown(4))
            }
            Ok(Ending::Stopped) => {
                note(&format!("`threadline resume {id}` goes on"));
                Err(CommandFailure::Shown(130))
            }
            Ok(Ending::Waiting(waits)) => {
                note(&ask_for_decision(id, waits));
                Err(CommandFailure::Shown(4))
            }
            Err(DriveError::Journal(error)) => {
                let mut failure = of_journal(error);
                if let CommandFailure::NotStarted(reports) = &mut failure {
                    reports.push(Report::plain(match error {
                        JournalError::Store(StoreError::Vanished { .. }) => format!("run {id} stopped"),
                        _ => format!("run {id} stopped; everything it acted upon is in its journal"),
                    }));
                }
                failure.show();
                Err(CommandFailure::Shown(4))
            }
            Err(DriveError::Folder(error)) => Err(cannot_start(&no_folder(error))),
            Err(DriveError::Git(error)) => {
                let hint = error.hint().unwrap_or_default();
                let hint = format!("{hint}; `threadline resume {id}` goes on");
                CommandFailure::NotStarted(vec![Report::with_hint(error.to_string(), &hint)]).show();
                Err(CommandFailure::Shown(4))
            }
            Err(DriveError::InvalidEvent(invalid)) => Err(cannot_start(&format!(
                "event {} of run `{id}` does not fit: {}",
                invalid.seq, invalid.why
            ))),
        }
    }

    /// Prints the failed steps. The journal is read only for what the screen has not shown.
    fn summarize_failures(&self, store: &Store, id: &str) -> Result<(), CommandFailure> {
        let Self { plan, failed_steps, failures, .. } = self;
        let summary = FailureSummary { plan, run: id, failed: failed_steps, log: failures };
        let history = summary.needs_journal().then(|| History::open(store.reader(), id)).transpose()?;
        super::print_styled(&summary.text(history.as_ref())?)
    }
}

/// How to go on with more of what was used up first.
fn going_on_with_more(id: &str, reached: &[BudgetReached]) -> String {
    let Some(BudgetReached { step, key, unknown, .. }) = reached.first() else {
        return format!("`threadline resume {id}` goes on");
    };
    // No limit is large enough for what nobody knows.
    match key {
        BudgetKey::Cost if *unknown > 0 => {
            return format!("`threadline resume {id} --edited` goes on when each agent has a `price`");
        }
        _ if *unknown > 0 => {
            return format!("`threadline resume {id} --edited` goes on without a budget of {}", key.name());
        }
        _ => {}
    }
    let limit = step.as_ref().map_or(String::new(), |step| format!("{step}.")) + key.name() + "=...";
    let limit = if limit.contains(' ') { quoted(&limit) } else { limit };
    format!("`threadline resume {id} --budget {limit}` goes on")
}

/// What to decide about steps that were running when Threadline was killed.
fn ask_for_decision(id: &str, waits: &[PendingDecision]) -> String {
    let step = |PendingDecision { run, at }: &PendingDecision| {
        if run == id { format!("`{at}`") } else { format!("`{at}` of run {run}") }
    };
    let steps: Vec<String> = waits.iter().map(step).collect();
    format!(
        "{} was cut off while it ran and has `on_crash: ask`; \
         `threadline resume {id} --in-flight rerun` or `--in-flight fail`",
        steps.join(", ")
    )
}

/// A new id: eight letters and digits that are hard to confuse with each other.
pub(super) fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let bytes = *uuid::Uuid::new_v4().as_bytes();
    bytes.iter().rev().take(8).map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// The folder of the run, which it reads as `run.dir`, cannot be made.
fn no_folder(why: &str) -> String {
    format!("cannot make the folder of the run: {why}")
}
