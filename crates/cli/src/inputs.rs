//! Reads files, stdin and `--set` into the names that templates see.

use std::io::Read;
use std::path::Path;

use threadline_flow::files::{self, Unread};
use threadline_lang::data::{ReadError, ReadErrorKind};
use threadline_lang::diag::nearest;
use threadline_lang::source::{self, EncodingError, SourceFile};
use threadline_lang::value::Oversized;
use threadline_lang::{
    BUILT_IN_ROOTS, Document, Envelope, Limits, NoWorld, PathStep, Scope, ScopeEntry, Session, SetError,
    Value, data, parse_path,
};
use threadline_runner::project::plain;

use crate::arguments::{ScopeArguments, SetFlag, SettingArguments};
use crate::exit::CommandFailure;
use crate::report::{Report, ReportSource};
use crate::user_agents;

/// The maximum size of a file, in bytes. The language refuses more.
const MAX_BYTES: u64 = 64 << 20;

/// A value that is set by `--set` or `--set-json`, and its path.
pub(crate) struct PathSetting {
    /// The flag and its argument, as they were given.
    given: String,
    path: Vec<PathStep>,
    value: Value,
}

impl PathSetting {
    /// Whether the path begins with a root.
    pub(crate) fn is_about(&self, root: &str) -> bool {
        self.path.first().and_then(PathStep::name).is_some_and(|name| name == root)
    }

    /// The flag and its argument, as they were given.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    /// The path of the value.
    pub(crate) fn path(&self) -> &[PathStep] {
        &self.path
    }

    /// The path as the user wrote it.
    pub(crate) fn path_text(&self) -> &str {
        let argument = self.given.split_once(' ').map_or("", |(_, argument)| argument);
        split_setting(argument).map_or(argument, |(path, _)| path)
    }

    /// The value to set.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Sets the value in a document.
    pub(crate) fn apply(&self, document: &mut Document) -> Result<(), CommandFailure> {
        document.set(&self.path, self.value.clone()).map_err(|error| {
            CommandFailure::Usage(match error {
                SetError::NoSuchPlace { taken } => {
                    format!("`{}`: step {} of the path leads nowhere", self.given, taken + 1)
                }
                SetError::TooDeep => format!("`{}`: the path is too long", self.given),
            })
        })
    }
}

/// Every `--set` and `--set-json`, in the order they were given.
pub(crate) fn settings(settings: &SettingArguments) -> Result<Vec<PathSetting>, CommandFailure> {
    settings.given.iter().map(|(flag, argument)| setting(*flag, argument)).collect()
}

fn setting(flag: SetFlag, argument: &str) -> Result<PathSetting, CommandFailure> {
    let given = format!("{} {argument}", flag.name());
    let Some((path, text)) = split_setting(argument) else {
        return Err(CommandFailure::Usage(format!("`{given}`: write a path, `=` and a value")));
    };
    let path = parse_path(path).map_err(|why| CommandFailure::Usage(format!("`{given}`: {why}")))?;
    let value = match flag {
        SetFlag::Text => Value::from(text),
        SetFlag::Json => data::json::read_value(text, &Limits::DEFAULT)
            .map_err(|error| CommandFailure::Usage(format!("`{given}`: {error}")))?,
    };
    Ok(PathSetting { given, path, value })
}

/// Splits at the first `=` that is not part of a quoted key.
fn split_setting(argument: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, char) in argument.char_indices() {
        match (quote, char) {
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), char) if open == char => quote = None,
            (None, '=') => return Some((&argument[..at], &argument[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The names of `--data`, `--outputs` and the settings.
pub(crate) fn scope<'s>(
    names: &ScopeArguments,
    settings: impl Iterator<Item = &'s PathSetting>,
) -> Result<Scope, CommandFailure> {
    let (mut document, label) = match &names.data {
        Some(path) => (Document::fixed(read_object(path, "--data")?), "data"),
        None => (Document::fixed(Value::NULL), "set"),
    };
    for setting in settings {
        setting.apply(&mut document)?;
    }
    let mut scope = Scope::new();
    let values = fixed(&document);
    let values = values.as_object();
    if let Some(values) = values {
        let clash = BUILT_IN_ROOTS.into_iter().find(|root| values.get_str(root).is_some());
        if let Some(root) = clash {
            return Err(CommandFailure::Usage(format!(
                "`{root}` is a built-in name, data cannot take its place"
            )));
        }
        scope = scope.with_values(label, values.clone());
    }
    let Some(path) = &names.outputs else { return Ok(scope) };
    let outputs = read_object(path, "--outputs")?;
    let outputs = outputs.as_object().map(|outputs| Envelope::all_from_outside(outputs));
    let outputs =
        outputs.transpose().map_err(|oversized| oversized_file(path, oversized))?.unwrap_or_default();
    if let Some((id, _)) =
        outputs.iter().find(|(id, _)| values.is_some_and(|values| values.get_str(id).is_some()))
    {
        return Err(CommandFailure::Usage(format!("`{id}` is a name of the data and the id of an output")));
    }
    let entries = outputs.into_iter().map(|(id, envelope)| (id, ScopeEntry::Output(envelope)));
    // The ids are the keys of one object, so none occurs twice.
    Ok(scope.with_entries("outputs", entries).unwrap_or(scope))
}

fn oversized_file(path: &Path, Oversized(limit): Oversized) -> CommandFailure {
    let message = format!("{}: over the limit: {}", path.display(), limit.name());
    CommandFailure::NotStarted(vec![Report::plain(message)])
}

/// The value of a document without references.
fn fixed(document: &Document) -> Value {
    // Nothing in it is evaluated, so no world is asked and nothing can fail.
    document.resolve(&Scope::new(), &mut Session::new(&mut NoWorld)).unwrap_or_default()
}

/// Refuses a command line that reads stdin twice.
pub(crate) fn check_stdin(names: &ScopeArguments, file: Option<&Path>) -> Result<(), CommandFailure> {
    let paths = [names.data.as_deref(), names.outputs.as_deref(), file];
    let count = paths.iter().flatten().filter(|path| path.as_os_str() == "-").count();
    if count > 1 {
        return Err(CommandFailure::Usage("only one of them can be read from stdin".to_owned()));
    }
    Ok(())
}

pub(crate) fn read_object(path: &Path, flag: &str) -> Result<Value, CommandFailure> {
    let file = read_source(path)?;
    let value = file.read_value(&Limits::DEFAULT).map_err(|error| unreadable(&file, &error))?;
    if value.as_object().is_some() {
        return Ok(value);
    }
    let message = format!(
        "{}: `{flag}` takes an object of names, this is {}",
        file.name(),
        value.kind().with_article()
    );
    Err(CommandFailure::NotStarted(vec![Report::plain(message)]))
}

/// The failure for a file that cannot be read as data.
pub(crate) fn unreadable(file: &SourceFile, error: &ReadError) -> CommandFailure {
    let source = ReportSource::of(file);
    let hints: Vec<String> = error.advice().into_iter().collect();
    let mut notes = Vec::new();
    if let ReadErrorKind::DuplicateKey { first, .. } = &error.kind {
        let (line, column) = file.line_column(first.range().start);
        notes.push(format!("it stands first at {}:{line}:{column}", file.name()));
    }
    CommandFailure::NotStarted(vec![Report::at(source, error.span, &error.to_string(), &notes, &hints)])
}

/// Reads a file or stdin as data.
pub(crate) fn read_source(path: &Path) -> Result<SourceFile, CommandFailure> {
    let name = name_of(path);
    SourceFile::new(&name, read_bytes(path)?).map_err(|error| bad_source(&error))
}

/// Reads the file of a workflow, with all files that it imports.
pub(crate) fn read_workflow(path: &Path) -> Result<SourceFile, CommandFailure> {
    Ok(files::assemble(read_source(path)?, &read_called))
}

/// Reads a file of scenarios over the file with their targets, if there is one.
pub(crate) fn read_scenarios(path: &Path, targets: Option<&Path>) -> Result<SourceFile, CommandFailure> {
    let Some(targets) = targets else { return read_workflow(path) };
    // What is wrong with it is said of itself.
    let below = read_source(targets)?;
    Ok(files::assemble(read_source(path)?.over(below.name()), &read_called))
}

/// Reads the file of a called workflow.
pub(crate) fn read_called(name: &str) -> Result<SourceFile, Unread> {
    if name == files::USER_AGENTS {
        return user_agents::read();
    }
    let path = Path::new(name);
    let unread = |error: std::io::Error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let nearest = if missing { nearest_file(path) } else { None };
        Unread { message: format!("cannot read `{name}`: {}", plain(&error)), hint: None, nearest }
    };
    // Reading a pipe would block.
    let regular = |found: std::fs::Metadata| {
        if found.is_file() { Ok(()) } else { Err(std::io::Error::other("is not a regular file")) }
    };
    let file = std::fs::metadata(path).and_then(regular).and_then(|()| std::fs::File::open(path));
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(unread)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("`{name}` is larger than 64 MiB");
        return Err(Unread { message, hint: None, nearest: None });
    }
    SourceFile::new(name, bytes).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        Unread { message: error.to_string(), hint, nearest: None }
    })
}

/// The name in the same folder that is nearest to one that does not exist.
fn nearest_file(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.flatten().take(1_000);
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let name = path.file_name()?.to_string_lossy();
    nearest(&name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Reads a file or stdin as text.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), CommandFailure> {
    let name = name_of(path);
    let text = source::text(&name, read_bytes(path)?).map_err(|error| bad_source(&error))?;
    Ok((name, text))
}

fn bad_source(error: &EncodingError) -> CommandFailure {
    CommandFailure::NotStarted(vec![match error.hint() {
        Some(hint) => Report::with_hint(error, hint),
        None => Report::plain(error),
    }])
}

fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, CommandFailure> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    let name = name_of(path);
    let report = |message: String| CommandFailure::NotStarted(vec![Report::plain(message)]);
    read.map_err(|error| report(format!("cannot read `{name}`: {}", plain(&error))))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(report(format!("`{name}` is over the limit: template or document size, at most 64 MiB")));
    }
    Ok(bytes)
}
