//! The commands, one function each: it reads its input, evaluates it and prints the result.

pub(crate) mod attach;
mod budget;
pub(crate) mod check;
mod ci_report;
pub(crate) mod clean;
pub(crate) mod continued;
mod conversation;
pub(crate) mod diff;
pub(crate) mod elsewhere;
pub(crate) mod expect;
pub(crate) mod explain;
mod file_check;
mod findings;
mod forecast_text;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod init;
mod kept;
mod launch;
pub(crate) mod logs;
pub(crate) mod manual;
pub(crate) mod migrate;
mod output_schemas;
pub(crate) mod preview;
pub(crate) mod run;
pub(crate) mod run_report;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod show_failed;
mod show_state;
pub(crate) mod simulate;
pub(crate) mod stop;
pub(crate) mod test;
pub(crate) mod tools;
pub(crate) mod vars;

use std::io::{IsTerminal, Write};

use threadline_flow::plan::Plan;
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    Document, DocumentError, Error, Expression, Scope, ScopeEntry, Session, Syntax, Template, Undefined, data,
};
use threadline_runner::process::{Control, Environment};
use threadline_runner::project::{Project, plain};
use threadline_runner::secrets::{RunSurroundings, SecretReading};
use threadline_runner::world::{Commands, Folder, RealWorld};

use crate::arguments::{
    EvalArguments, OutputFormat, RenderArguments, ResolveArguments, ScopeArguments, UndefinedPolicy,
};
use crate::exit::CommandFailure;
use crate::inputs::{self, PathSetting};
use crate::report::{self, Report, ReportSource};

/// The maximum number of problems that are printed in full; the others are counted.
pub(crate) const MAX_REPORTS: usize = 50;

/// The top-level key of a document whose entries are definitions.
const CONTEXT: &str = "context";

pub(crate) fn render(call: &RenderArguments) -> Result<(), CommandFailure> {
    let (name, text) = text_of(&call.names, call.file.as_deref(), call.template.as_deref(), "<template>")?;
    let source = ReportSource::text(&name, &text);
    let scope = inputs::scope(&call.names, inputs::settings(&call.names.settings)?.iter())?;
    let (template, mut errors) = Template::parse_all(text.as_str(), &Syntax::DEFAULT);
    if !errors.is_empty() {
        // What parses is checked all the same: every problem at once.
        errors.extend(template.check(&scope));
        errors.sort_by_key(|error| error.span().start);
        return Err(failed(source, &errors));
    }
    check_names(source, call.undefined.into(), template.check(&scope))?;
    let mut out = String::with_capacity(text.len());
    evaluate(&call.names, source, call.undefined.into(), |session| {
        template.text(&scope, session, &mut out).map_err(|error| template.all_errors(error, &scope, session))
    })?;
    if std::io::stdout().is_terminal() && !out.ends_with('\n') {
        out.push('\n');
    }
    print(&out)
}

pub(crate) fn resolve(call: &ResolveArguments) -> Result<(), CommandFailure> {
    inputs::check_stdin(&call.names, Some(&call.file))?;
    let file = inputs::read_source(&call.file)?;
    let source = ReportSource::of(&file);
    let (mut document, mut errors) = match file.read_document(&Syntax::DEFAULT) {
        Ok(document) => (document, Vec::new()),
        Err(DocumentError::Read(error)) => return Err(inputs::unreadable(&file, &error)),
        Err(DocumentError::Templates { errors, rest }) => (rest, errors),
    };
    let scope = document_scope(&call.names, &mut document, source.name)?;
    if !errors.is_empty() {
        // What parses is checked all the same: every problem at once.
        errors.extend(document.check(&scope));
        errors.sort_by_key(|error| (error.origin().map(|origin| origin.span.start), error.span().start));
        return Err(failed(source, &errors));
    }
    check_names(source, call.undefined.into(), document.check(&scope))?;
    let value =
        evaluate(&call.names, source, call.undefined.into(), |session| document.resolve(&scope, session))?;
    let mut out = String::new();
    match call.format {
        OutputFormat::Json => {
            value.write_json(&mut out, JsonStyle::Pretty);
            out.push('\n');
        }
        OutputFormat::Yaml => data::yaml::write(&value, &mut out),
    }
    print(&out)
}

/// The names that a document sees: those of the user, and its own definitions. Settings of definitions are applied to the
/// document.
fn document_scope(
    names: &ScopeArguments,
    document: &mut Document,
    file: &str,
) -> Result<Scope, CommandFailure> {
    let settings = inputs::settings(&names.settings)?;
    let own = document.has(CONTEXT);
    let (for_file, for_data): (Vec<&PathSetting>, Vec<&PathSetting>) =
        settings.iter().partition(|setting| own && setting.is_about(CONTEXT));
    for setting in for_file {
        setting.apply(document)?;
    }
    let scope = inputs::scope(names, for_data.into_iter())?;
    match document.define(CONTEXT) {
        Ok(Some(definitions)) => with_context(&scope, ScopeEntry::Definitions(definitions), file),
        Ok(None) => Ok(scope),
        Err(found) => {
            let message = format!("{file}: `{CONTEXT}` is an object of definitions, this is {found}");
            Err(CommandFailure::Failed(vec![Report::plain(message)]))
        }
    }
}

/// Adds the definitions of a document; the data must not define the same root.
fn with_context(scope: &Scope, definitions: ScopeEntry, file: &str) -> Result<Scope, CommandFailure> {
    if scope.names().iter().any(|name| name == CONTEXT) {
        return Err(CommandFailure::Usage(format!(
            "`{CONTEXT}` is a name of the data and defined by {file}"
        )));
    }
    // One entry cannot repeat a name.
    Ok(scope.with_entries(CONTEXT, [(CONTEXT.into(), definitions)]).unwrap_or_else(|_| scope.clone()))
}

pub(crate) fn eval(call: &EvalArguments) -> Result<(), CommandFailure> {
    if !matches!(call.undefined, UndefinedPolicy::Error) {
        let message =
            "`--undefined` is about texts and documents: an expression without one of its values has none";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let (name, text) =
        text_of(&call.names, call.file.as_deref(), call.expression.as_deref(), "<expression>")?;
    let source = ReportSource::text(&name, &text);
    let scope = inputs::scope(&call.names, inputs::settings(&call.names.settings)?.iter())?;
    let parsed = Expression::parse(text.as_str(), &Syntax::DEFAULT);
    let expression = parsed.map_err(|error| failed(source, &[error]))?;
    check_names(source, Undefined::Error, expression.check(&scope))?;
    let value = evaluate(&call.names, source, Undefined::Error, |session| {
        if !call.explain {
            return expression
                .value(&scope, session)
                .map_err(|error| expression.all_errors(error, &scope, session));
        }
        let explanation = expression.explain(&scope, session);
        report::print_explanation(&explanation);
        match explanation.outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(expression.all_errors(error, &scope, session)),
            // The whole expression is always evaluated.
            None => Err(Vec::new()),
        }
    })?;
    print(&format!("{}\n", value.to_json(JsonStyle::Compact)))
}

/// The name and the text of an argument or a file.
fn text_of(
    names: &ScopeArguments,
    file: Option<&std::path::Path>,
    argument: Option<&str>,
    label: &str,
) -> Result<(String, String), CommandFailure> {
    inputs::check_stdin(names, file)?;
    match file {
        Some(path) => inputs::read_text(path),
        None => Ok((label.to_owned(), argument.unwrap_or_default().to_owned())),
    }
}

/// Checks names before anything is evaluated. A name that does not exist is an error even if evaluation would not reach
/// it, and no command has run by then.
fn check_names(
    source: ReportSource<'_>,
    undefined: Undefined,
    mut errors: Vec<Error>,
) -> Result<(), CommandFailure> {
    errors.retain(|error| !undefined.tolerates(error));
    if errors.iter().any(Error::is_unknown_name) { Err(failed(source, &errors)) } else { Ok(()) }
}

/// Evaluates in the real world, then prints the trace and the warnings.
fn evaluate<T>(
    names: &ScopeArguments,
    source: ReportSource<'_>,
    undefined: Undefined,
    evaluation: impl FnOnce(&mut Session<'_>) -> Result<T, Vec<Error>>,
) -> Result<T, CommandFailure> {
    let project = history::project(None)?;
    let commands = if names.allow_commands {
        Commands::Allowed
    } else {
        Commands::Refused("allow them with `--allow-commands`")
    };
    let mut world = real_world(&project, commands);
    let mut session = Session::new(&mut world).undefined(undefined);
    if names.trace.is_some() {
        session = session.traced();
    }
    let result = evaluation(&mut session);
    if let Some(format) = names.trace {
        report::print_trace(source, format, &session.take_trace());
    }
    let warnings: Vec<Report> =
        session.take_warnings().iter().map(|warning| Report::warning(source, warning)).collect();
    report::print_all(&warnings);
    result.map_err(|errors| failed(source, &errors))
}

/// The environment files of a workflow, and those of its secrets that can be read without running anything.
fn known_surroundings(plan: &Plan, project: &Project) -> Result<RunSurroundings, CommandFailure> {
    surroundings_of(plan, project, SecretReading::WithoutPrograms)
}

/// The environment files and the secrets of a workflow and of all that it calls.
fn surroundings_of(
    plan: &Plan,
    project: &Project,
    reading: SecretReading,
) -> Result<RunSurroundings, CommandFailure> {
    RunSurroundings::read(plan, project, reading).map_err(|problems| {
        let source = ReportSource::of(&plan.workflow.file);
        CommandFailure::NotStarted(problems.iter().map(|problem| Report::problem(source, problem)).collect())
    })
}

/// The world outside of a run.
fn real_world(project: &Project, commands: Commands) -> RealWorld<'_> {
    RealWorld {
        project,
        folder: Folder::new(project.here()),
        env: Environment::inherited(),
        commands,
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
        masks: None,
        threads: None,
    }
}

fn failed(source: ReportSource<'_>, errors: &[Error]) -> CommandFailure {
    let mut reports: Vec<Report> =
        errors.iter().take(MAX_REPORTS).map(|error| Report::error(source, error)).collect();
    if let Some(more) = errors.len().checked_sub(MAX_REPORTS).filter(|more| *more > 0) {
        reports.push(Report::plain(format!("{more} more, of {} in all", errors.len())));
    }
    CommandFailure::Failed(reports)
}

/// Prints text for people to stdout; without its styles if stdout is not a terminal.
pub(crate) fn print_styled(text: &str) -> Result<(), CommandFailure> {
    let mut stdout = anstream::stdout().lock();
    printed(stdout.write_all(report::guard(text).as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints a result for programs to stdout, as it is. If nobody reads it any more, the command ends.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    print_bytes(text.as_bytes())
}

/// Prints bytes to stdout as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), CommandFailure> {
    let mut stdout = std::io::stdout().lock();
    printed(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

fn printed(result: std::io::Result<()>) -> Result<(), CommandFailure> {
    result.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => CommandFailure::Closed,
        _ => CommandFailure::NotStarted(vec![Report::plain(format!("cannot print: {}", plain(&error)))]),
    })
}
