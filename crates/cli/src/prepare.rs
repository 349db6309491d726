//! Prepares a workflow for the commands that run, preview or inspect it: reads and plans its file, and reads the values
//! that the user gave for it. Nothing here runs a step or writes a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::checks::Check;
use threadline_flow::files;
use threadline_flow::load::load;
use threadline_flow::model::{Action, Import, Input, InputError, SCENARIOS, Shape, Source, Workflow};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::diag::{nearest, words};
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, Number, PathStep, Type, Value, data};
use threadline_runner::project::Project;
use threadline_runner::reload::{self, ImportError, ImportedExports};
use threadline_store::JournalReader;

use crate::arguments::WorkflowArguments;
use crate::commands::MAX_REPORTS;
use crate::commands::history::{cannot_start, of_journal};
use crate::exit::CommandFailure;
use crate::inputs::{self, PathSetting};
use crate::report::{self, Report, ReportSource};

/// A workflow that can run, with the values that the user gave.
pub(crate) struct PreparedWorkflow {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: Value,
    pub(crate) set: Vec<(EcoString, Value)>,
}

/// Loads and checks a file. Fails if there is any error in it, so that nothing runs then.
pub(crate) fn prepare(
    file: &SourceFile,
    arguments: &WorkflowArguments,
) -> Result<PreparedWorkflow, CommandFailure> {
    let mut set = Vec::new();
    let (planned, problems) = plan_file_with(file, |workflow| {
        for setting in inputs::settings(&arguments.settings)? {
            set.push(set_context(workflow, &setting, arguments.trust_set)?);
        }
        if let Some(selection) = &arguments.scenarios {
            if workflow.scenarios.is_empty() {
                let message = format!("`{}` has no scenarios, so there is nothing to try", file.name());
                let hint = format!("`threadline run {}` runs it; a scenario has a `target`", file.name());
                return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]));
            }
            workflow.select_scenarios(selection);
            if workflow.scenarios.is_empty() {
                return Err(CommandFailure::NothingChosen);
            }
            set.push((SCENARIOS.into(), selection.value()));
        }
        Ok(())
    })?;
    let source = ReportSource::of(file);
    let reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    let Some(planned) = planned else { return Err(CommandFailure::NotStarted(reports)) };
    report::print_all(&reports);
    let inputs = read_inputs(&planned.workflow, arguments)?;
    Ok(PreparedWorkflow { plan: Arc::new(planned), inputs, set })
}

fn set_context(
    workflow: &mut Workflow,
    setting: &PathSetting,
    trusted: bool,
) -> Result<(EcoString, Value), CommandFailure> {
    if !setting.is_about("context") {
        return Err(CommandFailure::Usage(format!(
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
        let hint = near
            .map_or(String::new(), |near| format!("; {}", words::did_you_mean(format!("context.{near}"))));
        CommandFailure::Usage(format!(
            "`{}`: the workflow's `context` has no such place{hint}",
            setting.given()
        ))
    })?;
    Ok((setting.path_text().into(), setting.value().clone()))
}

/// Reads the payload that a graph is started with: JSON, or a file after `@`.
pub(crate) fn read_payload(
    arguments: &WorkflowArguments,
    workflow: &Workflow,
) -> Result<Option<Value>, CommandFailure> {
    let Some(given) = &arguments.payload else { return Ok(None) };
    if !matches!(workflow.shape, Shape::Graph { .. }) {
        return Err(CommandFailure::Usage(
            "`--payload` starts a graph, and this is a list of steps".to_owned(),
        ));
    }
    if let Some(path) = given.strip_prefix('@') {
        let file = inputs::read_source(Path::new(path))?;
        let value = file.read_value(&Limits::DEFAULT);
        return value.map(Some).map_err(|error| inputs::unreadable(&file, &error));
    }
    data::json::read_value(given, &Limits::DEFAULT).map(Some).map_err(|error| {
        let hint = "quote it as JSON, or give a file: `--payload @FILE`";
        CommandFailure::Inputs(vec![Report::with_hint(format!("`--payload`: {error}"), hint)])
    })
}

/// The runs that the user names for imports.
fn given_imports<'g>(
    workflow: &Workflow,
    given: &'g [String],
) -> Result<BTreeMap<&'g str, &'g str>, CommandFailure> {
    let mut runs = BTreeMap::new();
    for argument in given {
        let Some((name, run)) = argument.split_once('=') else {
            return Err(CommandFailure::Usage(format!("`--import {argument}`: write a name, `=` and a run")));
        };
        let names = workflow.imports.iter().map(|import| import.name.as_str());
        if !names.clone().any(|known| known == name) {
            let hint = words::suggest(name, names).map_or(String::new(), |hint| format!("; {hint}"));
            return Err(CommandFailure::Usage(format!("the workflow imports nothing as `{name}`{hint}")));
        }
        runs.insert(name, run);
    }
    Ok(runs)
}

/// Reads what the last completed runs of other workflows exported, as an object with the names of `imports`.
pub(crate) fn read_imports(
    workflow: &Workflow,
    given: &[String],
    reader: &JournalReader,
) -> Result<ImportedExports, CommandFailure> {
    let given = given_imports(workflow, given)?;
    reload::imports(workflow, &given, reader).map_err(|error| match error {
        ImportError::Journal(error) => of_journal(&error),
        ImportError::NotCompleted { import, status } => {
            let run = given.get(import.name.as_str()).copied().unwrap_or_default();
            cannot_start(&format!("`--import {}={run}`: the run is {status}", import.name))
        }
        ImportError::NeverRan(missing) => {
            let source = ReportSource::of(&workflow.file);
            let report = |import: &&Import| {
                let message = format!("no run of the workflow `{}` has completed", import.workflow);
                let hints = ["run it first, in this project".to_owned()];
                Report::at(source, import.span, &message, &[], &hints)
            };
            CommandFailure::NotStarted(missing.iter().map(report).collect())
        }
        ImportError::TooLarge => cannot_start("the imports are too large"),
    })
}

/// Reads the inputs that the user gave, each of its declared type.
fn read_inputs(workflow: &Workflow, arguments: &WorkflowArguments) -> Result<Value, CommandFailure> {
    let mut given: Vec<(EcoString, Value)> = match &arguments.inputs {
        Some(path) => {
            let object = inputs::read_object(path, "--inputs")?;
            let entries = object.as_object().into_iter().flat_map(|object| object.iter());
            entries.map(|(key, value)| (key.name().clone(), value.clone())).collect()
        }
        None => Vec::new(),
    };
    let (mut problems, mut unread) = (Vec::new(), Vec::new());
    let declared = |name: &str| workflow.inputs.iter().find(|input| input.name == name);
    for argument in &arguments.input {
        let Some((name, text)) = argument.split_once('=') else {
            return Err(CommandFailure::Usage(format!(
                "`--input {argument}`: write a name, `=` and a value"
            )));
        };
        match input_value(declared(name).and_then(|input| input.kind), text) {
            Ok(value) => {
                given.retain(|(known, _)| known != name);
                given.push((name.into(), value));
            }
            Err(expected) => {
                problems.push(format!("`--input {argument}`: expected {expected}"));
                unread.push(name);
            }
        }
    }
    let inputs = workflow.inputs_of(&given);
    // What was given and could not be read is not also missing.
    let is_told = |error: &&InputError| matches!(error, InputError::Missing { name, .. } if unread.contains(&name.as_str()));
    let errors = inputs.as_ref().err().into_iter().flatten().filter(|error| !is_told(error));
    problems.extend(errors.map(input_problem));
    match inputs {
        Ok(inputs) if problems.is_empty() => Ok(inputs),
        _ => Err(CommandFailure::Inputs(problems.iter().map(Report::plain).collect())),
    }
}

/// What is wrong with an input, in words.
pub(crate) fn input_problem(error: &InputError) -> String {
    match error {
        InputError::Unknown { name, nearest } => {
            let hint =
                nearest.as_ref().map_or(String::new(), |near| format!(", {}", words::did_you_mean(near)));
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
    }
}

/// Reads an argument as a value of a type. The error says what is expected.
fn input_value(kind: Option<Type>, text: &str) -> Result<Value, &'static str> {
    let json = || data::json::read_value(text, &Limits::DEFAULT).ok();
    match kind {
        None | Some(Type::Text) => Ok(Value::from(text)),
        Some(Type::Bool) => match text {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err("`true` or `false`"),
        },
        Some(kind @ (Type::Int | Type::Decimal)) => match Number::parse(text).map(Value::from) {
            Ok(value) if Input::accepts(kind, &value) => Ok(value),
            _ if kind == Type::Int => Err("a whole number"),
            _ => Err("a number"),
        },
        Some(Type::List) => json().filter(|value| value.as_list().is_some()).ok_or("a list as JSON"),
        Some(Type::Object) => json().filter(|value| value.as_object().is_some()).ok_or("an object as JSON"),
        Some(Type::Null) => json().filter(Value::is_null).ok_or("`null`"),
    }
}

/// Plans a file with all files that it calls, if there is no error in them. Its own problems come first, in the order of
/// the file.
pub(crate) fn plan_file(file: &SourceFile) -> (Option<Plan>, Vec<Problem>) {
    // Without a change nothing can fail.
    plan_file_with(file, |_| Ok(())).unwrap_or_default()
}

/// Plans a file after the loaded workflow was changed.
pub(crate) fn plan_file_with(
    file: &SourceFile,
    change: impl FnOnce(&mut Workflow) -> Result<(), CommandFailure>,
) -> Result<(Option<Plan>, Vec<Problem>), CommandFailure> {
    let (workflow, mut problems) = load(file.clone());
    let mut planned = None;
    if let Some(mut workflow) = workflow {
        change(&mut workflow)?;
        let (plan, found) = files::plan(Arc::new(workflow), &inputs::read_called);
        problems.extend(found);
        problems.extend(plan.iter().flat_map(outside_sources));
        planned = plan;
    }
    // The problems of called files come last, in the order the files were read.
    problems.sort_by_key(|problem| match &problem.file {
        None => (false, problem.span.start),
        Some(_) => (true, 0),
    });
    let sound = !problems.iter().any(Problem::is_error);
    Ok((planned.filter(|_| sound), problems))
}

/// Files of items that are named before the run, and lie where no run reads them.
fn outside_sources(plan: &Plan) -> Vec<Problem> {
    let project = std::env::current_dir().ok().and_then(|here| Project::of(&here).ok());
    let Some(project) = project else { return Vec::new() };
    let workflow = &plan.workflow;
    let project = project.allow(workflow.allow.files.iter().map(EcoString::as_str));
    let mut problems = Vec::new();
    for planned in &plan.steps {
        let Action::ForEach(each) = &planned.step.action else { continue };
        let (path, origin) = match &each.source {
            Source::File { path, .. } => (path.value.as_plain().map(|path| path.to_string()), &path.origin),
            Source::Value(value) if each.is_map => {
                (value.value.as_fixed().and_then(|value| value.as_str()).map(str::to_owned), &value.origin)
            }
            _ => continue,
        };
        if let Some(path) = path.filter(|path| path.starts_with('/'))
            && let Err(error) = project.place(&path)
        {
            let problem = Check::UnreadableItems.at(origin.span, format!("the items: {}", error.message));
            problems.push(error.hint.into_iter().fold(problem, Problem::hint));
        }
    }
    problems
}

/// Reports of the problems of a file. Beyond the maximum, only their number is reported.
pub(crate) fn problem_reports(file: &SourceFile, problems: &[Problem]) -> Vec<Report> {
    let source = ReportSource::of(file);
    let mut reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    if let Some(more) = problems.len().checked_sub(MAX_REPORTS).filter(|more| *more > 0) {
        reports.push(Report::plain(format!("{more} more, of {} in all", problems.len())));
    }
    reports
}
