//! `threadline check`: every problem of workflow files, and nothing run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadline_flow::files;
use threadline_flow::load::load;
use threadline_flow::model::Workflow;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::diag::Severity;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;

use super::history::project;
use super::{MAX_REPORTS, print};
use crate::arguments::Check;
use crate::exit::Failure;
use crate::inputs;
use crate::report::{self, Report, Source};

/// How much a file holds when there is no error in it, and its problems.
pub(super) type Found = (Option<usize>, Vec<Problem>);

/// A kind of file, and how it is checked.
pub(super) struct What<'w> {
    /// What was found in a file, and how much it holds when there is no error.
    pub(super) checked: &'w dyn Fn(&SourceFile) -> Found,
    /// What is counted.
    pub(super) unit: &'static str,
    /// Several of them, which is also the key that JSON has for it.
    pub(super) units: &'static str,
}

/// `threadline check`
pub(crate) fn check(call: &Check) -> Result<(), Failure> {
    if !call.tools {
        let what = What { checked: &checked, unit: "step", units: "steps" };
        return check_files(&call.files, call.json, &what);
    }
    let project = project(None)?;
    let with_tools = |file: &SourceFile| {
        let (planned, mut problems) = planned(file);
        if let Some(plan) = &planned {
            problems.extend(super::tools::problems(plan, &project));
        }
        let sound = !problems.iter().any(Problem::is_error);
        (planned.filter(|_| sound).map(|plan| plan.steps.len()), problems)
    };
    check_files(&call.files, call.json, &What { checked: &with_tools, unit: "step", units: "steps" })
}

/// Checks every file and says what it found; the worst of it is the exit code.
pub(super) fn check_files(files: &[PathBuf], json: bool, what: &What<'_>) -> Result<(), Failure> {
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("only one of them can be read from stdin".to_owned()));
    }
    let mut worst = Ok(());
    for path in files {
        match check_file(path, json, what) {
            Ok(()) => {}
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(failure) => {
                let code = failure.show();
                worst = Err(Failure::Shown(code.max(match worst {
                    Err(Failure::Shown(code)) => code,
                    _ => 0,
                })));
            }
        }
    }
    worst
}

fn checked(file: &SourceFile) -> Found {
    let (planned, problems) = planned(file);
    (planned.map(|plan| plan.steps.len()), problems)
}

/// The plan of a file and of all that it calls when there is no error in them. Its own problems come first, in the order
/// of the file.
pub(super) fn planned(file: &SourceFile) -> (Option<Plan>, Vec<Problem>) {
    // Nothing is changed, so nothing fails.
    planned_with(file, |_| Ok(())).unwrap_or_default()
}

/// The same, when something of the file is changed before.
pub(super) fn planned_with(
    file: &SourceFile,
    change: impl FnOnce(&mut Workflow) -> Result<(), Failure>,
) -> Result<(Option<Plan>, Vec<Problem>), Failure> {
    let (workflow, mut problems) = load(file.clone());
    let mut planned = None;
    if let Some(mut workflow) = workflow {
        change(&mut workflow)?;
        let (plan, found) = files::plan(Arc::new(workflow), &inputs::read_called);
        problems.extend(found);
        planned = plan;
    }
    // Those of called files stay behind, in the order they were read.
    problems.sort_by_key(|problem| match &problem.file {
        None => (false, problem.span.start),
        Some(_) => (true, 0),
    });
    let sound = !problems.iter().any(Problem::is_error);
    Ok((planned.filter(|_| sound), problems))
}

fn check_file(path: &Path, json: bool, what: &What<'_>) -> Result<(), Failure> {
    let file = inputs::read_workflow(path)?;
    let (count, problems) = (what.checked)(&file);
    if json {
        return told_json(&file, what, count, &problems);
    }
    let reports = reports(&file, &problems);
    match count {
        None => Err(Failure::Failed(reports)),
        Some(count) => {
            report::print_all(&reports);
            let unit = if count == 1 { what.unit } else { what.units };
            print(&format!("{}: ok, {count} {unit}\n", file.name()))
        }
    }
}

/// The problems of a file, and how many more there are than anybody reads.
pub(super) fn reports(file: &SourceFile, problems: &[Problem]) -> Vec<Report> {
    let source = Source::of(file);
    let mut reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    if let Some(more) = problems.len().checked_sub(MAX_REPORTS).filter(|more| *more > 0) {
        reports.push(Report::plain(format!("{more} more, of {} in all", problems.len())));
    }
    reports
}

fn told_json(
    file: &SourceFile,
    what: &What<'_>,
    count: Option<usize>,
    problems: &[Problem],
) -> Result<(), Failure> {
    let problems: Vec<Value> = problems.iter().map(|problem| problem_json(file, problem)).collect();
    let entries = [
        ("file", Value::from(file.name())),
        ("ok", count.is_some().into()),
        (what.units, count.map_or(Value::NULL, Value::from)),
        ("problems", Value::sequence(problems)),
    ];
    print(&format!("{}\n", Value::record(entries).to_json(JsonStyle::Compact)))?;
    if count.is_some() { Ok(()) } else { Err(Failure::Failed(Vec::new())) }
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
