//! Checks files of one kind, workflows or expectations, and prints what was found: as text, or as JSON.

use std::path::{Path, PathBuf};

use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::diag::Severity;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;

use super::{print, print_styled};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::problem_reports;
use crate::report;

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
pub(super) fn check_files(files: &[PathBuf], json: bool, kind: &FileKind<'_>) -> Result<(), CommandFailure> {
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(CommandFailure::Usage("only one of them can be read from stdin".to_owned()));
    }
    let mut worst = Ok(());
    for path in files {
        match check_file(path, json, kind) {
            Ok(()) => {}
            Err(CommandFailure::Closed) => return Err(CommandFailure::Closed),
            Err(failure) => {
                let code = failure.show();
                worst = Err(CommandFailure::Shown(code.max(match worst {
                    Err(CommandFailure::Shown(code)) => code,
                    _ => 0,
                })));
            }
        }
    }
    worst
}

fn check_file(path: &Path, json: bool, kind: &FileKind<'_>) -> Result<(), CommandFailure> {
    let file = inputs::read_workflow(path)?;
    let (count, problems) = (kind.check)(&file);
    if json {
        return print_json(&file, kind, count, &problems);
    }
    let reports = problem_reports(&file, &problems);
    match count {
        None => Err(CommandFailure::Failed(reports)),
        Some(count) => {
            report::print_all(&reports);
            let unit = if count == 1 { kind.unit } else { kind.units };
            print_styled(&format!("{}: ok, {count} {unit}\n", file.name()))
        }
    }
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
    print(&format!("{}\n", Value::record(entries).to_json(JsonStyle::Compact)))?;
    if count.is_some() { Ok(()) } else { Err(CommandFailure::Failed(Vec::new())) }
}

fn problem_json(file: &SourceFile, problem: &Problem) -> Value {
    let texts = |texts: &[String]| Value::sequence(texts.iter().map(|text| Value::from(text.as_str())));
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let file = problem.file.as_ref().unwrap_or(file);
    let named = file.placed(problem.span.range().start).name;
    let elsewhere = problem.file.is_some() || named != file.name();
    let called = elsewhere.then(|| ("file", named.into()));
    let (line, column) = file.line_column(problem.span.range().start);
    let (end_line, end_column) = file.line_column(problem.span.range().end);
    let entries = [
        ("id", problem.id.into()),
        ("severity", severity.into()),
        ("message", problem.message.as_str().into()),
        ("line", line.into()),
        ("column", column.into()),
        ("end_line", end_line.into()),
        ("end_column", end_column.into()),
        ("notes", texts(&problem.notes)),
        ("hints", texts(&problem.hints)),
    ];
    // A problem of a file that this one calls, or is put together with, names it.
    let entries = called.into_iter().chain(entries);
    Value::record(entries)
}
