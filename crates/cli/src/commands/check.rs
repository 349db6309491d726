//! `threadline check`: every problem of workflow files, and nothing run.

use std::path::Path;
use std::sync::Arc;

use threadline_flow::load::load;
use threadline_flow::plan::plan;
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::diag::Severity;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;

use super::{MAX_REPORTS, object, print};
use crate::arguments::Check;
use crate::exit::Failure;
use crate::inputs;
use crate::report::{self, Report, Source};

/// `threadline check`
pub(crate) fn check(call: &Check) -> Result<(), Failure> {
    if call.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("only one of them can be read from stdin".to_owned()));
    }
    let mut worst = Ok(());
    for path in &call.files {
        let checked = if call.json { check_json(path) } else { check_file(path) };
        match checked {
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

/// What was found in a file, and how many steps it has when it can run.
fn checked(file: &SourceFile) -> (Option<usize>, Vec<Problem>) {
    let (workflow, mut problems) = load(file.clone());
    let planned = workflow.and_then(|workflow| {
        let (planned, found) = plan(Arc::new(workflow));
        problems.extend(found);
        planned
    });
    problems.sort_by_key(|problem| problem.span.start);
    let sound = !problems.iter().any(Problem::is_error);
    (planned.filter(|_| sound).map(|plan| plan.steps.len()), problems)
}

fn check_file(path: &Path) -> Result<(), Failure> {
    let file = inputs::read_source(path)?;
    let (steps, problems) = checked(&file);
    let source = Source { name: file.name(), text: file.text() };
    let mut reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    if let Some(more) = problems.len().checked_sub(MAX_REPORTS).filter(|more| *more > 0) {
        reports.push(Report::plain(format!("{more} more, of {} in all", problems.len())));
    }
    match steps {
        None => Err(Failure::Failed(reports)),
        Some(steps) => {
            report::print_all(&reports);
            let unit = if steps == 1 { "step" } else { "steps" };
            print(&format!("{}: ok, {steps} {unit}\n", file.name()))
        }
    }
}

fn check_json(path: &Path) -> Result<(), Failure> {
    let file = inputs::read_source(path)?;
    let (steps, problems) = checked(&file);
    let problems: Vec<Value> = problems.iter().map(|problem| problem_json(&file, problem)).collect();
    let entries = [
        ("file", Value::from(file.name())),
        ("ok", steps.is_some().into()),
        ("steps", steps.map_or(Value::NULL, Value::from)),
        ("problems", Value::list(problems).unwrap_or_default()),
    ];
    print(&format!("{}\n", object(entries).to_json(JsonStyle::Compact)))?;
    if steps.is_some() { Ok(()) } else { Err(Failure::Failed(Vec::new())) }
}

fn problem_json(file: &SourceFile, problem: &Problem) -> Value {
    let texts = |texts: &[String]| {
        let texts = texts.iter().map(|text| Value::from(text.as_str())).collect();
        Value::list(texts).unwrap_or_default()
    };
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let (line, column) = file.line_column(problem.span.range().start);
    let (end_line, end_column) = file.line_column(problem.span.range().end);
    object([
        ("id", problem.id.into()),
        ("severity", severity.into()),
        ("message", problem.message.as_str().into()),
        ("line", line.into()),
        ("column", column.into()),
        ("end_line", end_line.into()),
        ("end_column", end_column.into()),
        ("notes", texts(&problem.notes)),
        ("hints", texts(&problem.hints)),
    ])
}
