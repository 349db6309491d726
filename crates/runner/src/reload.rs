//! A run of the journal, read again: its names, its state, what it exported. Nothing is driven or changed here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{Continued, EventKind, LoopEnd, RerunTarget, RunStarted, Seq};
use threadline_engine::machine::Machine;
use threadline_engine::replay::Fold;
use threadline_engine::view::RunNames;
use threadline_flow::files;
use threadline_flow::load::load;
use threadline_flow::model::{Import, SCENARIOS, ScenarioSelection, Workflow};
use threadline_flow::plan::Plan;
use threadline_lang::source::SourceFile;
use threadline_lang::{Value, parse_path};
use threadline_store::{JournalError, JournalReader, RunId, RunInfo};

use crate::driver::DriveError;

/// What a run began with; none when it was stopped before that.
pub fn started(reader: &JournalReader, info: &RunInfo) -> Result<Option<RunStarted>, JournalError> {
    if info.events == 0 {
        return Ok(None);
    }
    match reader.event(&info.id, 1)?.kind {
        EventKind::RunStarted(started) => Ok(Some(started)),
        _ => Err(JournalError::Value(format!("run `{}` does not begin with its beginning", info.id))),
    }
}

/// The names of a run that no step makes.
pub fn names(reader: &JournalReader, info: &RunInfo, started: &RunStarted) -> Result<RunNames, JournalError> {
    let (run, start_time) = match &started.continues {
        // What it continues may have named something by them.
        Some(continued) => (continued.first.clone(), continued.start_time.clone()),
        None => (started.run.clone(), info.started_at.as_str().into()),
    };
    Ok(RunNames {
        inputs: reader.load(&started.inputs)?,
        imports: reader.load(&started.imports)?,
        payload: reader.load(&started.payload)?,
        workflow: started.workflow.clone(),
        run,
        start_time,
    })
}

/// How a run continues another one, of which `machine` knows how far it came: it goes on under the names of that.
pub fn continued(
    info: &RunInfo,
    started: &RunStarted,
    machine: Option<&Machine>,
    from: Vec<RerunTarget>,
) -> Continued {
    let (first, start_time) = match &started.continues {
        Some(earlier) => (earlier.first.clone(), earlier.start_time.clone()),
        None => (started.run.clone(), info.started_at.as_str().into()),
    };
    let stopped_after = machine.and_then(Machine::stopped_after);
    Continued { run: started.run.clone(), first, start_time, from, keeps_commits: false, stopped_after }
}

/// Why there is no plan of a stored run.
pub enum PlanError {
    /// The journal cannot be read.
    Journal(JournalError),
    /// This version of the program does not run the workflow.
    Unusable(String),
}

impl<E: Into<JournalError>> From<E> for PlanError {
    fn from(error: E) -> Self {
        Self::Journal(error.into())
    }
}

impl From<PlanError> for DriveError {
    fn from(error: PlanError) -> Self {
        Self::Journal(match error {
            PlanError::Journal(error) => error,
            PlanError::Unusable(why) => JournalError::Value(why),
        })
    }
}

/// The plan of the text that a run was started with.
pub fn plan(reader: &JournalReader, started: &RunStarted) -> Result<Plan, PlanError> {
    let read = |name: &str, text: &Hash| {
        let bytes = reader.value(text)?;
        SourceFile::new(name, bytes).map_err(|error| PlanError::Unusable(error.to_string()))
    };
    let file = read(&started.file, &started.text)?;
    let called = started.files.iter().map(|(name, text)| Ok((name.clone(), read(name, text)?)));
    let called = called.collect::<Result<BTreeMap<_, _>, PlanError>>()?;
    let unusable = || {
        let why = "the workflow of this run is not one that this version of `threadline` runs";
        PlanError::Unusable(why.to_owned())
    };
    let mut targets = None;
    for (_, value) in started.set.iter().filter(|(path, _)| path == SCENARIOS) {
        targets = ScenarioSelection::of_value(&reader.load(value)?).and_then(|selection| selection.targets);
    }
    let file = targets.map_or_else(|| file.clone(), |targets| file.over(&targets));
    let file = files::assemble(file, &files::known(&called));
    let mut workflow = load(file).0.ok_or_else(unusable)?;
    for (path, value) in &started.set {
        let value = reader.load(value)?;
        let path = parse_path(path).map_err(PlanError::Unusable)?;
        workflow.take_setting(&path, &value, started.trust_set);
    }
    files::plan(Arc::new(workflow), &files::known(&called)).0.ok_or_else(unusable)
}

/// The value of an entry of `context`, which an event recorded.
pub fn defined(reader: &JournalReader, run: &RunId, seq: Seq) -> Result<Value, JournalError> {
    match reader.event(run, seq)?.kind {
        EventKind::Defined { value, .. } => reader.load(&value),
        _ => Err(JournalError::Value(format!("event {seq} defines nothing"))),
    }
}

/// What a completed run exported, which its last event says; null when it exports nothing.
pub fn exports(reader: &JournalReader, run: &RunInfo) -> Result<Value, JournalError> {
    match reader.event(&run.id, run.events)?.kind {
        EventKind::RunEnded { exports, .. } => reader.load(&exports),
        _ => Ok(Value::NULL),
    }
}

/// Where a loop ended and why, which the last event of its run says.
pub fn ended(reader: &JournalReader, run: &RunInfo) -> Result<Option<LoopEnd>, JournalError> {
    match reader.event(&run.id, run.events)?.kind {
        EventKind::RunEnded { ended, .. } => Ok(ended),
        _ => Ok(None),
    }
}

/// Why there is nothing to import.
pub enum ImportError<'w> {
    /// The journal cannot be read.
    Journal(JournalError),
    /// The run that was named did not complete.
    NotCompleted {
        /// What it was named for.
        import: &'w Import,
        /// What it is.
        status: String,
    },
    /// No run of these workflows has completed.
    NeverRan(Vec<&'w Import>),
    /// They are too large together.
    TooLarge,
}

impl<E: Into<JournalError>> From<E> for ImportError<'_> {
    fn from(error: E) -> Self {
        Self::Journal(error.into())
    }
}

/// What earlier runs exported, for a run that imports it.
#[derive(Default)]
pub struct ImportedExports {
    /// An object by the names of `imports`.
    pub values: Value,
    /// The run that each of them comes from.
    pub runs: Vec<(EcoString, EcoString)>,
}

/// What the last completed runs of other workflows exported. For some of them the caller may name the run.
pub fn imports<'w>(
    workflow: &'w Workflow,
    named: &BTreeMap<&str, &str>,
    reader: &JournalReader,
) -> Result<ImportedExports, ImportError<'w>> {
    let runs = if workflow.imports.is_empty() { Vec::new() } else { reader.runs()? };
    let (mut values, mut from, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for import in &workflow.imports {
        if let Some(name) = named.get(import.name.as_str()) {
            let run = reader.find(name)?;
            if run.status != "completed" {
                return Err(ImportError::NotCompleted { import, status: run.status });
            }
            values.push((import.name.clone(), exports(reader, &run)?));
            from.push((import.name.clone(), run.id.as_str().into()));
            continue;
        }
        let completed =
            runs.iter().rev().find(|run| run.name == import.workflow.as_str() && run.status == "completed");
        match completed {
            Some(run) => {
                values.push((import.name.clone(), exports(reader, run)?));
                from.push((import.name.clone(), run.id.as_str().into()));
            }
            None => missing.push(import),
        }
    }
    if !missing.is_empty() {
        return Err(ImportError::NeverRan(missing));
    }
    let values = Value::object(values).map_err(|_| ImportError::TooLarge)?;
    Ok(ImportedExports { values, runs: from })
}

/// The state of a run that is gone on with.
pub(crate) struct ReloadedRun {
    pub(crate) machine: Machine,
    pub(crate) context: BTreeMap<EcoString, Value>,
    /// How many executions of steps ended.
    pub(crate) finished: u64,
}

pub(crate) fn state(
    reader: &JournalReader,
    run: &RunId,
    plan: &Arc<Plan>,
) -> Result<ReloadedRun, DriveError> {
    let mut fold = Fold::new(Arc::clone(plan));
    let mut finished = 0;
    for event in reader.events(run, 1)? {
        let event = event?;
        finished += u64::from(matches!(event.kind, EventKind::Finished { .. }));
        fold.apply(&event)?;
    }
    let mut context = BTreeMap::new();
    for (name, seq) in fold.machine.defined() {
        context.insert(name.clone(), defined(reader, run, *seq)?);
    }
    Ok(ReloadedRun { machine: fold.machine, context, finished })
}
