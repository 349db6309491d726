//! Completion of the command line, which a shell asks this program for: runs, steps and inputs as they are in the
//! project, and everything that the command line itself knows. It reads and never writes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::CompleteEnv;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::Shells;
use threadline_flow::load::load;
use threadline_flow::model::Workflow;
use threadline_flow::plan::Plan;
use threadline_runner::project::Project;
use threadline_runner::trust::{self, StoreUse};
use threadline_store::JournalReader;

use crate::arguments::{Arguments, CompletionsArguments};
use crate::commands::history::History;
use crate::commands::{init, print};
use crate::exit::CommandFailure;
use crate::inputs;

/// The variable with which the script of a shell asks for candidates.
const VARIABLE: &str = "THREADLINE_COMPLETE";
const PROGRAM: &str = "threadline";
/// The end of the script for zsh, which is right where the script is sourced.
const ZSH_SOURCED: &str = "compdef _clap_dynamic_completer_threadline threadline";
/// A file of `fpath` is run when the first completion is asked for, and has to answer it, too.
const ZSH_BOTH: &str = "if [[ $funcstack[1] == _threadline ]]; then
    _clap_dynamic_completer_threadline \"$@\"
fi
compdef _clap_dynamic_completer_threadline threadline";
/// The maximum number of runs that are offered, the newest.
const MAX_RUNS: usize = 50;

/// Answers a shell, if one asks, and ends the process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Arguments::command).var(VARIABLE).bin(PROGRAM).complete();
}

/// Prints the script that makes a shell ask.
pub(crate) fn completions(call: &CompletionsArguments) -> Result<(), CommandFailure> {
    let shells = Shells::builtins();
    let name = call.shell.to_string();
    let mut script = Vec::new();
    let written = shells
        .completer(&name)
        .map(|shell| shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script));
    match written {
        Some(Ok(())) => print(&String::from_utf8_lossy(&script).replace(ZSH_SOURCED, ZSH_BOTH)),
        _ => Err(CommandFailure::Usage(format!("there are no completions for `{name}`"))),
    }
}

/// The runs of the project, the newest first.
pub(crate) fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(reader) = reader() else { return Vec::new() };
    let runs = reader.runs().unwrap_or_default();
    let runs = runs.iter().rev().filter(|run| !run.id.is_called()).take(MAX_RUNS);
    let last = CompletionCandidate::new("last").help(Some("the newest run".into()));
    let listed = runs.map(|run| {
        CompletionCandidate::new(run.id.as_str()).help(Some(format!("{} {}", run.name, run.status).into()))
    });
    beginning(current, std::iter::once(last).chain(listed))
}

/// The runs of the project, and files.
pub(crate) fn files_and_runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let files = PathCompleter::file().complete(current);
    files.into_iter().chain(runs(current)).collect()
}

/// The workflows that have runs in the project.
pub(crate) fn workflows(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(reader) = reader() else { return Vec::new() };
    let names: BTreeSet<String> = reader.runs().unwrap_or_default().into_iter().map(|run| run.name).collect();
    beginning(current, names.into_iter().map(CompletionCandidate::new))
}

/// The steps of the run that the line names, each by a name that is one word of every shell.
pub(crate) fn steps(current: &OsStr) -> Vec<CompletionCandidate> {
    let candidates = of_run(|plan| {
        let steps = plan.steps.iter().map(|step| {
            if is_word(&step.label) {
                return CompletionCandidate::new(step.label.as_str());
            }
            CompletionCandidate::new(step.number.as_str()).help(Some(step.label.to_string().into()))
        });
        steps.collect()
    });
    beginning(current, candidates.into_iter())
}

/// The names that the run that the line names can have set: inputs, entries of `context`, steps and captures.
pub(crate) fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    let candidates = of_run(|plan| {
        let workflow = &plan.workflow;
        let inputs = workflow.inputs.iter().map(|input| format!("inputs.{}", input.name));
        let entries = workflow.context.iter().flat_map(|context| &context.entries);
        let entries = entries.map(|entry| format!("context.{}", entry.name));
        let steps = plan.steps.iter().flat_map(|step| [&step.step.id, &step.step.capture]);
        let steps = steps.flatten().map(|name| name.value.to_string());
        inputs
            .chain(entries)
            .chain(steps)
            .filter(|name| is_word(name))
            .map(CompletionCandidate::new)
            .collect()
    });
    beginning(current, candidates.into_iter())
}

/// What a run offers that the line names.
fn of_run(offered: impl FnOnce(&Plan) -> Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let Some(reader) = reader() else { return Vec::new() };
    // The words are the command, its run, and what is to be completed.
    let mut words = words().into_iter();
    let command = words.next();
    let named = words.find(|word| word == "last" || reader.find(word).is_ok());
    let run = named.or_else(|| (command? == "rerun").then(|| "last".to_owned()));
    let history = run.and_then(|run| History::open(&reader, &run).ok());
    history.map_or_else(Vec::new, |history| offered(&history.plan))
}

/// Whether a text is one word of every shell.
fn is_word(text: &str) -> bool {
    text.chars().all(|sign| sign.is_alphanumeric() || "_-.".contains(sign))
}

/// The commands of the program.
pub(crate) fn commands(current: &OsStr) -> Vec<CompletionCandidate> {
    let program = Arguments::command();
    let commands = program
        .get_subcommands()
        .map(|command| CompletionCandidate::new(command.get_name()).help(command.get_about().cloned()));
    beginning(current, commands)
}

/// The starter files.
pub(crate) fn starter_files(current: &OsStr) -> Vec<CompletionCandidate> {
    let files =
        init::starter_files().map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into())));
    beginning(current, files)
}

/// The inputs of the workflow that the line names, each with `=`.
pub(crate) fn inputs_of_file(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(workflow) = workflow_of_line() else { return Vec::new() };
    let names = workflow.inputs.iter().map(|input| {
        let help = input.description.as_ref().map(|text| text.to_string().into());
        CompletionCandidate::new(format!("{}=", input.name)).help(help)
    });
    beginning(current, names)
}

/// The imports of the workflow that the line names, each with the runs that it can be read from.
pub(crate) fn imports_of_file(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(workflow) = workflow_of_line() else { return Vec::new() };
    let written = current.to_string_lossy();
    if let Some((name, _)) = written.split_once('=') {
        let runs = runs(OsStr::new(""));
        let runs = runs.into_iter().map(|run| run.add_prefix(format!("{name}=")));
        return beginning(current, runs);
    }
    let names = workflow.imports.iter().map(|import| CompletionCandidate::new(format!("{}=", import.name)));
    beginning(current, names)
}

/// The workflow that the line names.
fn workflow_of_line() -> Option<Workflow> {
    words().into_iter().find_map(|word| {
        let path = Path::new(&word);
        let file = path.extension().and_then(|_| inputs::read_workflow(path).ok())?;
        load(file).0
    })
}

/// The candidates that begin with what is written.
fn beginning(
    current: &OsStr,
    candidates: impl Iterator<Item = CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    candidates.filter(|candidate| candidate.get_value().to_string_lossy().starts_with(&*current)).collect()
}

/// The words of the line that is completed.
fn words() -> Vec<String> {
    let line = std::env::args().skip_while(|word| word != "--").skip(2);
    line.filter(|word| !word.starts_with('-')).collect()
}

/// The journal of the project that the shell is in. A store that may not be ours is not read.
fn reader() -> Option<JournalReader> {
    let project = Project::of(&std::env::current_dir().ok()?).ok()?;
    let store = project.store();
    trust::check(&store, StoreUse::Read).ok()?;
    JournalReader::open(&store).ok()
}
