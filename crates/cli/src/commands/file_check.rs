//! Checks files of one kind, workflows or expectations, and prints what was found: as text, or as JSON.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::diag::Fix;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;

use super::ci_report::is_on_github;
use super::findings::{self, CheckedFile, PlacedProblem};
use super::{print, print_styled};
use crate::arguments::CheckFormat;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::problem_reports;
use crate::report;
use crate::user_agents;

/// The number of steps or expectations of a file, unless there is an error in it, and its problems.
pub(super) type FileFindings = (Option<usize>, Vec<Problem>);

/// A kind of file, and how it is checked.
pub(super) struct FileKind<'w> {
    /// Checks one file.
    pub(super) check: &'w dyn Fn(&SourceFile) -> FileFindings,
    /// The word for what is counted.
    pub(super) unit: &'static str,
    /// The plural of the word, which is also the key in JSON.
    pub(super) units: &'static str,
}

/// Checks every file and prints its problems. The exit code is the worst of all files.
pub(super) fn check_files(
    files: &[PathBuf],
    format: CheckFormat,
    kind: &FileKind<'_>,
) -> Result<(), CommandFailure> {
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(CommandFailure::Usage("only one of them can be read from stdin".to_owned()));
    }
    let mut worst = 0;
    let mut checked = Vec::new();
    for path in files {
        let found = check_file(path, kind).and_then(|(file, (count, problems))| {
            match format {
                CheckFormat::Text => print_text(&file, kind, count, &problems)?,
                CheckFormat::Json => print_json(&file, kind, count, &problems)?,
                CheckFormat::Github | CheckFormat::Sarif | CheckFormat::Junit => {}
            }
            Ok(CheckedFile { file, ok: count.is_some(), problems })
        });
        match found {
            Ok(found) => {
                worst = worst.max(u8::from(!found.ok));
                checked.push(found);
            }
            Err(CommandFailure::Closed) => return Err(CommandFailure::Closed),
            Err(failure) => worst = worst.max(failure.show()),
        }
    }
    match format {
        CheckFormat::Text if is_on_github() => print(&findings::github(&checked))?,
        CheckFormat::Text | CheckFormat::Json => {}
        CheckFormat::Github => print(&findings::github(&checked))?,
        CheckFormat::Sarif => print(&findings::sarif(&checked))?,
        CheckFormat::Junit => print(&findings::suites(&checked))?,
    }
    if worst == 0 { Ok(()) } else { Err(CommandFailure::Shown(worst)) }
}

fn check_file(path: &Path, kind: &FileKind<'_>) -> Result<(SourceFile, FileFindings), CommandFailure> {
    let file = inputs::read_workflow(path)?;
    let found = (kind.check)(&file);
    Ok((file, found))
}

fn print_text(
    file: &SourceFile,
    kind: &FileKind<'_>,
    count: Option<usize>,
    problems: &[Problem],
) -> Result<(), CommandFailure> {
    report::print_all(&problem_reports(file, problems));
    let Some(count) = count else { return Ok(()) };
    let unit = if count == 1 { kind.unit } else { kind.units };
    let users = user_agents::note(file).map_or(String::new(), |note| format!("; {note}"));
    print_styled(&format!("{}: ok, {count} {unit}{users}\n", file.name()))
}

fn print_json(
    file: &SourceFile,
    kind: &FileKind<'_>,
    count: Option<usize>,
    problems: &[Problem],
) -> Result<(), CommandFailure> {
    let problems: Vec<Value> = problems.iter().map(|problem| problem_json(file, problem)).collect();
    let entries = [
        ("file", Value::from(file.name())),
        ("ok", count.is_some().into()),
        (kind.units, count.map_or(Value::NULL, Value::from)),
        ("problems", Value::sequence(problems)),
    ];
    print(&format!("{}\n", Value::record(entries).to_json(JsonStyle::Compact)))
}

fn problem_json(file: &SourceFile, problem: &Problem) -> Value {
    let texts = |texts: &[String]| Value::sequence(texts.iter().map(|text| Value::from(text.as_str())));
    let placed = PlacedProblem::new(file, problem);
    let ((line, column), (end_line, end_column)) = (placed.start, placed.end);
    let called = placed.elsewhere.map(|named| ("file", named.into()));
    let entries = [
        ("id", problem.id.into()),
        ("severity", placed.severity().into()),
        ("message", problem.message.as_str().into()),
        ("line", line.into()),
        ("column", column.into()),
        ("end_line", end_line.into()),
        ("end_column", end_column.into()),
        ("notes", texts(&problem.notes)),
        ("hints", texts(&problem.hints)),
    ];
    let fix_in = problem.file.as_ref().unwrap_or(file);
    let fix = problem.fix.as_ref().map(|fix| ("fix", fix_json(fix_in, fix)));
    // A problem of a file that this one calls, or is put together with, names it.
    let entries = called.into_iter().chain(entries).chain(fix);
    Value::record(entries)
}

/// The range of the file that a fix replaces, and what it puts there.
fn fix_json(file: &SourceFile, fix: &Fix) -> Value {
    let range = fix.span.range();
    let (line, column) = file.line_column(range.start);
    let (end_line, end_column) = file.line_column(range.end);
    let entries = [
        ("line", line.into()),
        ("column", column.into()),
        ("end_line", end_line.into()),
        ("end_column", end_column.into()),
        ("text", in_same_quotes(file.text().get(range).unwrap_or(""), &fix.text).as_ref().into()),
    ];
    Value::record(entries)
}

/// What takes the place of a text in quotes stands in the same quotes: a key of JSON is nothing without them.
fn in_same_quotes<'t>(replaced: &str, text: &'t str) -> Cow<'t, str> {
    let quoted = |quote: char| replaced.len() > 1 && replaced.starts_with(quote) && replaced.ends_with(quote);
    match text.chars().next() {
        // What stands in quotes where a bool is needed loses them.
        _ if matches!(text, "true" | "false") => Cow::Borrowed(text),
        Some('"' | '\'') => Cow::Borrowed(text),
        _ if quoted('"') => Cow::Owned(Value::from(text).to_json(JsonStyle::Compact)),
        _ if quoted('\'') => Cow::Owned(format!("'{}'", text.replace('\'', "''"))),
        _ => Cow::Borrowed(text),
    }
}
