//! `threadline run` and `threadline resume`: a workflow from its file to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{EventKind, LoopReason, RunStarted};
use threadline_engine::machine::{Outcome, Stage};
use threadline_engine::view::RunNames;
use threadline_flow::model::{Import, Input, InputError, OnCrash, Shape, Workflow};
use threadline_flow::plan::Plan;
use threadline_lang::diag::nearest;
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, Number, PathStep, Type, Value, data};
use threadline_runner::driver::{self, DriveError, Ending, Notice, PendingDecision, Setup};
use threadline_runner::process;
use threadline_runner::project::Project;
use threadline_runner::reload::{self, ImportError};
use threadline_runner::values::Values;
use threadline_store::{Journal, Lease, NewRun, Reader, RunId, Store, StoreError};

use super::check::planned_with;
use super::history::{History, cannot_start, of_journal, of_store, project, time_text};
use super::locked::Signals;
use super::{MAX_REPORTS, print};
use crate::arguments::{InFlight, Resume, Run, Watch};
use crate::exit::Failure;
use crate::inputs::{self, Setting};
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::report::{self, Report, Source};
use crate::reporter::{How, Reporter};
use crate::screen::BETWEEN_DRAWINGS;
use crate::{stats, stream};

/// The time that processes of a killed run have to end.
const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// So often the right to drive a run is asked for again.
const PATIENCE: u32 = 25;

/// `threadline run`
pub(crate) fn run(call: &Run) -> Result<(), Failure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let text = file.own_text().to_owned();
    let name = file.name().to_owned();
    let prepared = prepare(&file, &call.what)?;
    let project =
        project(call.dir.as_deref())?.allow(prepared.plan.workflow.allow.files.iter().map(EcoString::as_str));
    let store = Store::open(&project.store()).map_err(|error| of_store(&error))?;
    project.ignore_store();
    let imports = imports_of(&prepared.plan.workflow, &call.import, store.reader())?;
    let payload = payload(&call.what, &prepared.plan.workflow)?.unwrap_or_default();
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
        imports,
        payload,
        workflow: prepared.plan.workflow.name.clone(),
        run: id.as_str().into(),
        start_time: started_at.into(),
    };
    let signals = Signals::listen(&call.watch);
    let _holding = signals.take(&store, &new.id, &prepared.plan, &names, &project, &call.watch)?;
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
        payload: store.datum(&names.payload).map_err(|error| of_store(&error))?,
        set: set.map_err(|error| of_store(&error))?,
        trust_set: call.what.trust_set,
        folder: project.here().display().to_string().into(),
        program: env!("CARGO_PKG_VERSION").into(),
        jobs: call.watch.jobs.map(|jobs| jobs as u64),
        files,
        caller: None,
    };
    let started = EventKind::RunStarted(started);
    let progress = Progress::default();
    let journal = Journal::new(&store, lease);
    let (driven, failed) =
        drive(journal, &project, prepared.plan, names, signals, &call.watch, None, progress, |setup| {
            driver::begin(setup, started)
        });
    if call.watch.stats {
        stats::print(&store);
    }
    ended(&store, &id, driven, failed, &call.watch)
}

/// `threadline resume`
pub(crate) fn resume(call: &Resume) -> Result<(), Failure> {
    let found = project(call.dir.as_deref())?;
    let store = Store::open(&found.store()).map_err(|error| of_store(&error))?;
    let history = History::open(store.reader(), &call.run)?;
    let id = history.info.id.to_string();
    if let Some(caller) = &history.started.caller {
        let message = format!("run `{id}` belongs to the step `{}` of run `{}`", caller.at, caller.run);
        let hint = format!("`threadline resume {}` goes on with both", history.info.id.started());
        return Err(Failure::NotStarted(vec![Report::with_hint(message, &hint)]));
    }
    let project = Project::of(Path::new(history.started.folder.as_str()))
        .map_err(|error| {
            cannot_start(&format!("the folder of the run, `{}`: {error}", history.started.folder))
        })?
        .allow(history.plan.workflow.allow.files.iter().map(EcoString::as_str));
    let lease = lease(&store, &history.info.id)?;
    // What a killed Threadline left behind must not work beside its successor.
    process::end_left_over(&id, GRACE);
    let mut progress = Progress::default();
    let fold = history.each(|_, event| {
        progress.take(event);
        Ok(())
    })?;
    let (stage, let_fail) = (fold.machine.stage(), fold.machine.has_tolerated_failures());
    match stage {
        Stage::Ended(Outcome::Completed) if call.failed && !let_fail => {
            return print(&format!("no item of run {id} failed, there is nothing to do again\n"));
        }
        Stage::Ended(Outcome::Completed) if !call.failed => {
            let failed = progress.failed.len();
            if let_fail {
                report::print_note(&format!(
                    "{} failed; `threadline resume {id} --failed` does {} again",
                    count_of(failed),
                    if failed == 1 { "it" } else { "them" }
                ));
            }
            return print(&format!("run {id} is completed, there is nothing to resume\n"));
        }
        Stage::Ended(Outcome::Failed) if let Some(state) = fold.machine.failed_terminal() => {
            print(&format!("run {id} has ended in `{state}`, a failure: there is nothing to resume\n"))?;
            let file = &history.started.file;
            report::print_note(&format!("`threadline run {file}` begins anew"));
            return Err(Failure::Shown(1));
        }
        Stage::Ended(Outcome::Failed) if call.failed && progress.failed.is_empty() => {
            return print(&format!(
                "no item of run {id} failed; `threadline resume {id}` tries the step that failed again\n"
            ));
        }
        _ => {}
    }
    note_changed_file(&history);
    let context = history.context(fold.machine.defined())?;
    let mut watch = call.watch.clone();
    watch.jobs = watch.jobs.or(history.started.jobs.and_then(|jobs| usize::try_from(jobs).ok()));
    let in_flight = call.in_flight.map(|in_flight| match in_flight {
        InFlight::Rerun => OnCrash::Rerun,
        InFlight::Fail => OnCrash::Fail,
    });
    let History { plan, names, .. } = history;
    let signals = Signals::listen(&watch);
    let _holding = signals.take(&store, lease.run(), &plan, &names, &project, &watch)?;
    let journal = Journal::new(&store, lease);
    let (driven, failed) =
        drive(journal, &project, plan, names, signals, &watch, in_flight, progress, |setup| {
            driver::resume(setup, fold.machine, context, call.failed)
        });
    if watch.stats {
        stats::print(&store);
    }
    ended(&store, &id, driven, failed, &watch)
}

/// The right to drive a run. Of a process that was killed while it started a program, the child that is not yet that
/// program has it for a moment more.
fn lease(store: &Store, run: &RunId) -> Result<Lease, Failure> {
    let mut asked = 0;
    loop {
        match store.lease(run) {
            Err(StoreError::Busy { .. }) if asked < PATIENCE => {
                asked += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            leased => return leased.map_err(|error| of_store(&error)),
        }
    }
}

/// A run goes on with the text that it began with, whatever has become of the file.
fn note_changed_file(history: &History<'_>) {
    let RunStarted { file, text, files, folder, .. } = &history.started;
    for (file, text) in std::iter::once((file, text)).chain(files.iter().map(|(file, text)| (file, text))) {
        // It was named from where Threadline was started, which may be this folder or the one that steps run in.
        let file = Path::new(file.as_str());
        let path = if file.exists() { file.to_owned() } else { Path::new(folder.as_str()).join(file) };
        if let Ok(now) = std::fs::read(&path)
            && Hash::of(&now) != *text
        {
            let path = path.display();
            report::print_note(&format!(
                "`{path}` has changed since; the run goes on with the text it began with"
            ));
        }
    }
}

/// Opens everything that a run needs, and drives it. How it ended, and how many items are failed then.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a thing of its own, and two callers have them at hand"
)]
fn drive<'a>(
    journal: Journal<'a>,
    project: &'a Project,
    plan: Arc<Plan>,
    names: RunNames,
    signals: Signals,
    watch: &Watch,
    in_flight: Option<OnCrash>,
    progress: Progress,
    go: impl FnOnce(Setup<'a>) -> Result<Ending, DriveError>,
) -> (Result<Ending, DriveError>, usize) {
    // Where orphans cannot be adopted they are still found by their mark.
    let _ = process::adopt_orphans();
    signals.begin();
    let Signals { control, stop, screen, notes, to_print, listener: _listening, .. } = signals;
    let trace = watch.trace_variables;
    let how = How { verbose: watch.verbose, trace };
    let mut reporter = Reporter::new(Arc::clone(&plan), journal.run().as_str(), how, progress);
    let is_drawn = screen.is_some();
    if let Some(screen) = screen {
        let values = Values::new(journal.store().reader(), journal.run().clone());
        reporter = reporter.live(screen, values);
    }
    let reporter = Arc::new(Mutex::new(reporter));
    let watcher = Arc::clone(&reporter);
    let observer: driver::Observer<'a> = if watch.json {
        let plan = Arc::clone(&plan);
        let mut remarks = Remarks::new(trace);
        Box::new(move |notice: Notice| {
            if let Notice::Event(event) = &notice {
                locked(&watcher).recall(event);
            }
            stream::notice(&plan, &mut remarks, &notice);
        })
    } else {
        Box::new(move |notice: Notice| locked(&watcher).notice(&notice))
    };
    let setup = Setup {
        plan,
        journal,
        project,
        names,
        jobs: watch.jobs,
        control,
        stop,
        trace: trace.is_some(),
        verbose: watch.verbose,
        in_flight,
        patience: watch.wait.unwrap_or_default(),
        within: None,
        observer,
    };
    let driven = std::thread::scope(|threads| {
        if is_drawn {
            let reporter = &reporter;
            threads.spawn(move || paint(reporter, &to_print));
        }
        let driven = go(setup);
        // Nobody listens where nothing is drawn.
        let _ = notes.send(None);
        driven
    });
    let mut reporter = locked(&reporter);
    reporter.aside();
    let failed = reporter.failed_items();
    (driven, failed)
}

fn locked<'r, 'a>(reporter: &'r Mutex<Reporter<'a>>) -> MutexGuard<'r, Reporter<'a>> {
    reporter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws how far a run is, a few times a second, and makes place for notes, until the end is noted.
fn paint(reporter: &Mutex<Reporter<'_>>, notes: &mpsc::Receiver<Option<&str>>) {
    loop {
        match notes.recv_timeout(BETWEEN_DRAWINGS) {
            Ok(Some(note)) => {
                let mut reporter = locked(reporter);
                reporter.aside();
                report::print_note(note);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => locked(reporter).tick(),
            Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What a run came to, as an exit code and as words.
fn ended(
    store: &Store,
    id: &str,
    driven: Result<Ending, DriveError>,
    failed: usize,
    watch: &Watch,
) -> Result<(), Failure> {
    process::end_left_over(id, GRACE);
    let note = |message: &str| {
        if !watch.json {
            report::print_note(message);
        }
    };
    match driven {
        Ok(Ending::Ended(Outcome::Completed)) => {
            if failed > 0 {
                note(&format!(
                    "{} failed: `threadline show {id} --failed`; `threadline resume {id} --failed` does {} again",
                    count_of(failed),
                    if failed == 1 { "it" } else { "them" }
                ));
            }
            Ok(())
        }
        Ok(Ending::Ended(Outcome::Failed)) => {
            if !watch.json {
                let history = History::open(store.reader(), id)?;
                super::print_styled(&super::explain::failures::failures(&history)?)?;
            }
            let run =
                RunId::new(id).and_then(|run| store.reader().run(&run)).map_err(|error| of_store(&error))?;
            let ended = reload::ended(store.reader(), &run).map_err(|error| of_journal(&error))?;
            // A loop that came to a bad end has come to its end.
            if ended.is_none_or(|ended| ended.reason != LoopReason::Terminal) {
                note(&format!("`threadline resume {id}` tries again from there"));
            }
            Err(Failure::Shown(1))
        }
        Ok(Ending::Ended(Outcome::Stopped)) => {
            note(&format!("`threadline resume {id}` goes on, with the same limits again"));
            Err(Failure::Shown(4))
        }
        Ok(Ending::Stopped) => {
            note(&format!("`threadline resume {id}` goes on"));
            Err(Failure::Shown(130))
        }
        Ok(Ending::Waiting(waits)) => {
            let step = |PendingDecision { run, at }: &PendingDecision| {
                if run == id { format!("`{at}`") } else { format!("`{at}` of run {run}") }
            };
            let steps: Vec<String> = waits.iter().map(step).collect();
            note(&format!(
                "{} was running when Threadline was killed and has `on_crash: ask`; \
                 `threadline resume {id} --in-flight rerun` or `--in-flight fail`",
                steps.join(", ")
            ));
            Err(Failure::Shown(4))
        }
        Err(DriveError::Journal(error)) => {
            let mut failure = of_journal(&error);
            if let Failure::NotStarted(reports) = &mut failure {
                reports.push(Report::plain(format!(
                    "run {id} stopped; everything it acted upon is in its journal"
                )));
            }
            failure.show();
            Err(Failure::Shown(4))
        }
        Err(DriveError::InvalidEvent(misfit)) => {
            Err(cannot_start(&format!("event {} of run `{id}` does not fit: {}", misfit.seq, misfit.why)))
        }
    }
}

fn count_of(items: usize) -> String {
    if items == 1 { "1 item".to_owned() } else { format!("{items} items") }
}

/// A workflow that can run, with the caller's values.
pub(crate) struct Prepared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: Value,
    pub(crate) set: Vec<(EcoString, Value)>,
}

/// Loads and checks a file. Nothing runs when anything in it is wrong.
pub(crate) fn prepare(file: &SourceFile, what: &crate::arguments::What) -> Result<Prepared, Failure> {
    let mut set = Vec::new();
    let (planned, problems) = planned_with(file, |workflow| {
        for setting in inputs::settings(&what.settings)? {
            set.push(set_context(workflow, &setting, what.trust_set)?);
        }
        Ok(())
    })?;
    let source = Source::of(file);
    let reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    let Some(planned) = planned else { return Err(Failure::NotStarted(reports)) };
    report::print_all(&reports);
    let inputs = inputs_of(&planned.workflow, what)?;
    Ok(Prepared { plan: Arc::new(planned), inputs, set })
}

fn set_context(
    workflow: &mut Workflow,
    setting: &Setting,
    trusted: bool,
) -> Result<(EcoString, Value), Failure> {
    if !setting.is_about("context") {
        return Err(Failure::Usage(format!(
            "`{}`: only values of `context` can be set; inputs are given with `--input`",
            setting.given()
        )));
    }
    let path = setting.path().get(1..).unwrap_or_default();
    workflow.set_context(path, setting.value(), trusted).map_err(|_| {
        let names: Vec<EcoString> =
            workflow.context.as_ref().map(|context| context.definitions.names()).unwrap_or_default();
        let name = path.first().and_then(PathStep::name);
        let near = name.and_then(|name| nearest(name, names.iter().map(EcoString::as_str)));
        let hint = near.map_or(String::new(), |near| format!("; did you mean `context.{near}`"));
        Failure::Usage(format!("`{}`: the workflow's `context` has no such place{hint}", setting.given()))
    })?;
    Ok((setting.path_text().into(), setting.value().clone()))
}

/// What a graph is started with: JSON, or a file after `@`.
pub(super) fn payload(what: &crate::arguments::What, workflow: &Workflow) -> Result<Option<Value>, Failure> {
    let Some(given) = &what.payload else { return Ok(None) };
    if !matches!(workflow.shape, Shape::Graph { .. }) {
        return Err(Failure::Usage("`--payload` starts a graph, and this is a list of steps".to_owned()));
    }
    if let Some(path) = given.strip_prefix('@') {
        let file = inputs::read_source(Path::new(path))?;
        let value = file.read_value(&Limits::DEFAULT);
        return value.map(Some).map_err(|error| inputs::unreadable(&file, &error));
    }
    data::json::read_value(given, &Limits::DEFAULT).map(Some).map_err(|error| {
        let hint = "quote it as JSON, or give a file: `--payload @FILE`";
        Failure::Inputs(vec![Report::with_hint(format!("`--payload`: {error}"), hint)])
    })
}

/// The runs that the caller names for imports.
fn given_imports<'g>(
    workflow: &Workflow,
    given: &'g [String],
) -> Result<BTreeMap<&'g str, &'g str>, Failure> {
    let mut runs = BTreeMap::new();
    for argument in given {
        let Some((name, run)) = argument.split_once('=') else {
            return Err(Failure::Usage(format!("`--import {argument}`: write a name, `=` and a run")));
        };
        let names = workflow.imports.iter().map(|import| import.name.as_str());
        if !names.clone().any(|known| known == name) {
            let hint = nearest(name, names).map_or(String::new(), |near| format!("; did you mean `{near}`"));
            return Err(Failure::Usage(format!("the workflow imports nothing as `{name}`{hint}")));
        }
        runs.insert(name, run);
    }
    Ok(runs)
}

/// What the last completed runs of other workflows exported, an object by the names of `imports`.
fn imports_of(workflow: &Workflow, given: &[String], reader: &Reader) -> Result<Value, Failure> {
    let given = given_imports(workflow, given)?;
    reload::imports(workflow, &given, reader).map_err(|error| match error {
        ImportError::Journal(error) => of_journal(&error),
        ImportError::NotCompleted { import, status } => {
            let run = given.get(import.name.as_str()).copied().unwrap_or_default();
            cannot_start(&format!("`--import {}={run}`: the run is {status}", import.name))
        }
        ImportError::NeverRan(missing) => {
            let source = Source::of(&workflow.file);
            let report = |import: &&Import| {
                let message = format!("no run of the workflow `{}` has completed", import.workflow);
                let hints = ["run it first, in this project".to_owned()];
                Report::at(source, import.span, &message, &[], &hints)
            };
            Failure::NotStarted(missing.iter().map(report).collect())
        }
        ImportError::TooLarge => cannot_start("the imports are too large"),
    })
}

/// The caller's values, of the declared types.
fn inputs_of(workflow: &Workflow, what: &crate::arguments::What) -> Result<Value, Failure> {
    let mut given: Vec<(EcoString, Value)> = match &what.inputs {
        Some(path) => {
            let object = inputs::read_object(path, "--inputs")?;
            let entries = object.as_object().into_iter().flat_map(|object| object.iter());
            entries.map(|(key, value)| (key.name().clone(), value.clone())).collect()
        }
        None => Vec::new(),
    };
    let mut problems = Vec::new();
    let declared = |name: &str| workflow.inputs.iter().find(|input| input.name == name);
    for argument in &what.input {
        let Some((name, text)) = argument.split_once('=') else {
            return Err(Failure::Usage(format!("`--input {argument}`: write a name, `=` and a value")));
        };
        match input_value(declared(name).and_then(|input| input.kind), text) {
            Ok(value) => {
                given.retain(|(known, _)| known != name);
                given.push((name.into(), value));
            }
            Err(expected) => problems.push(format!("`--input {argument}`: expected {expected}")),
        }
    }
    let inputs = workflow.inputs_of(&given);
    for error in inputs.as_ref().err().into_iter().flatten() {
        problems.push(match error {
            InputError::Unknown { name, nearest } => {
                let hint = nearest.as_ref().map_or(String::new(), |near| format!(", did you mean `{near}`"));
                format!("the workflow has no input `{name}`{hint}")
            }
            InputError::WrongType { name, kind, given } => {
                let (kind, given) = (kind.with_article(), given.with_article());
                format!("input `{name}` is {kind}, and {given} was given")
            }
            InputError::Missing { name, description } => {
                let about = description.as_ref().map_or(String::new(), |about| format!(" ({about})"));
                format!("input `{name}`{about} is required: `--input {name}=...`")
            }
            InputError::TooLarge => "the inputs are too large".to_owned(),
        });
    }
    match inputs {
        Ok(inputs) if problems.is_empty() => Ok(inputs),
        _ => Err(Failure::Inputs(problems.iter().map(Report::plain).collect())),
    }
}

/// A text of the command line as a value of a type; the error says what is expected.
fn input_value(kind: Option<Type>, text: &str) -> Result<Value, &'static str> {
    let json = || data::json::read_value(text, &Limits::DEFAULT).ok();
    match kind {
        None | Some(Type::Text) => Ok(Value::from(text)),
        Some(Type::Bool) => match text {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err("`true` or `false`"),
        },
        Some(kind @ (Type::Int | Type::Float)) => match Number::parse(text).map(Value::from) {
            Ok(value) if Input::accepts(kind, &value) => Ok(value),
            _ if kind == Type::Int => Err("a whole number"),
            _ => Err("a number"),
        },
        Some(Type::List) => json().filter(|value| value.as_list().is_some()).ok_or("a list as JSON"),
        Some(Type::Object) => json().filter(|value| value.as_object().is_some()).ok_or("an object as JSON"),
        Some(Type::Null) => json().filter(Value::is_null).ok_or("`null`"),
    }
}

/// An id that nobody has used: eight letters and digits that are hard to mistake for each other.
fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let bytes = *uuid::Uuid::new_v4().as_bytes();
    bytes.iter().rev().take(8).map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}
