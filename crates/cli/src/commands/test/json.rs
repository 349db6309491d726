//! The report for programs: one JSON document, whose schema is `threadline schema tests`. It is also what `--baseline`
//! reads.

use threadline_engine::machine::Outcome;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::TestReport;
use super::baseline::{BaselineComparison, CaseChange};
use super::rate::rounded;
use super::results::{TestCheck, TestExecution, TestResult, TestedFile, TriedCase, Turn};
use crate::commands::history::cannot_start;
use crate::exit::CommandFailure;

/// The depth of a value that still fits into the document around it.
const MAX_INNER_DEPTH: u8 = 180;

pub(super) fn report(report: &TestReport<'_>) -> Result<String, CommandFailure> {
    let totals = &report.totals;
    let counts = TestResult::ALL.map(|result| (result.name(), Value::from(totals.count(result))));
    let counts = [("cases", Value::from(totals.cases))].into_iter().chain(counts);
    let files =
        report.files.iter().enumerate().map(|(at, file)| file_value(file, at, report.comparison.as_ref()));
    let mut entries = vec![
        ("program", Value::from(env!("CARGO_PKG_VERSION"))),
        ("counts", Value::record(counts)),
        ("executions", totals.executions.into()),
        ("vacuous", totals.vacuous.into()),
        ("duration_ms", totals.duration_ms.into()),
        ("spent", totals.spent.value()),
        ("files", Value::sequence(files)),
    ];
    entries.extend(report.comparison.as_ref().map(|comparison| ("baseline", comparison_value(comparison))));
    let document = Value::record(entries);
    if document.get("files").is_none_or(Value::is_null) {
        return Err(cannot_start("the report is too large: try the files one after the other"));
    }
    Ok(format!("{}\n", document.to_json(JsonStyle::Compact)))
}

fn comparison_value(comparison: &BaselineComparison<'_>) -> Value {
    let counts = CaseChange::ALL.map(|change| (change.name(), Value::from(comparison.count(change))));
    let missing = comparison.missing.iter().map(|case| Value::from(case.name.as_str()));
    let entries = [("file", Value::from(comparison.baseline))].into_iter().chain(counts);
    Value::record(entries.chain([("missing", Value::sequence(missing))]))
}

fn file_value(file: &TestedFile, at: usize, comparison: Option<&BaselineComparison<'_>>) -> Value {
    let cases = file.cases.iter().enumerate().map(|(position, case)| {
        // Without a baseline there is no such key; of a case that has not changed it is null.
        let change = comparison.map(|comparison| {
            comparison.change(at, position).map_or(Value::NULL, |change| change.name().into())
        });
        case_value(case, change)
    });
    Value::record([
        ("file", Value::from(file.file.as_str())),
        ("name", file.workflow.as_str().into()),
        ("run", file.run.as_str().into()),
        ("outcome", file.outcome.map_or(Value::NULL, |outcome: Outcome| outcome.name().into())),
        ("started_at", file.started_at.as_str().into()),
        ("duration_ms", file.duration_ms.into()),
        ("cases", Value::sequence(cases)),
    ])
}

fn case_value(case: &TriedCase, change: Option<Value>) -> Value {
    let scenario = &case.scenario;
    let text = |text: Option<&str>| text.map_or(Value::NULL, Value::from);
    let (file, line, column) = &case.place;
    let rate = case.rate();
    let interval = rate.map_or(Value::NULL, |rate| {
        let (low, high) = rate.interval();
        Value::sequence([rounded(low).into(), rounded(high).into()])
    });
    let mut entries = vec![
        ("scenario", Value::from(scenario.id.as_str())),
        ("name", scenario.name.as_str().into()),
        ("description", text(scenario.description.as_deref())),
        ("target", text(scenario.target.as_deref())),
        ("tags", Value::sequence(scenario.tags.iter().map(Value::from))),
        ("case", text(case.case.as_ref().map(|(name, _)| name.as_str()))),
        ("input", case.case.as_ref().map_or(Value::NULL, |(_, value)| fitting(value))),
        ("result", case.result.name().into()),
        ("reason", case.reason().into()),
        ("file", file.as_str().into()),
        ("line", (*line).into()),
        ("column", (*column).into()),
        ("passed", case.passed().into()),
        ("tried", case.tried().into()),
        ("pass_rate", rate.map_or(Value::NULL, |rate| rounded(rate.share()).into())),
        ("interval", interval),
        ("flaky", Value::sequence(case.flaky().into_iter().map(Value::from))),
        ("executions", Value::sequence(case.executions.iter().map(execution_value))),
    ];
    if let Some(change) = change {
        entries.push(("change", change));
    }
    Value::record(entries)
}

fn execution_value(execution: &TestExecution) -> Value {
    Value::record([
        ("repetition", execution.repetition.map_or(Value::NULL, Value::from)),
        ("at", execution.at.as_str().into()),
        ("result", execution.result.name().into()),
        ("reason", execution.reason().into()),
        ("error", execution.error.as_deref().map_or(Value::NULL, Value::from)),
        ("failed_step", execution.failed_step.as_ref().map_or(Value::NULL, |at| at.as_str().into())),
        ("duration_ms", execution.duration_ms.into()),
        ("spent", execution.spent.value()),
        ("turns", Value::sequence(execution.turns.iter().map(turn_value))),
        ("checks", Value::sequence(execution.checks.iter().map(check_value))),
    ])
}

fn turn_value(turn: &Turn) -> Value {
    Value::record([
        ("prompt", fitting(&turn.prompt)),
        ("answer", turn.answer.as_ref().map_or(Value::NULL, fitting)),
        ("error", turn.error.as_deref().map_or(Value::NULL, Value::from)),
        ("printed", Value::sequence(turn.printed.iter().map(|line| Value::from(line.as_str())))),
        ("duration_ms", turn.duration_ms.map_or(Value::NULL, Value::from)),
        ("spent", turn.spent.value()),
    ])
}

fn check_value(check: &TestCheck) -> Value {
    let expectations = check.outcomes().iter().map(|outcome| {
        let part = |key: &str| outcome.get(key).map_or(Value::NULL, fitting);
        let (file, line, column) = match check.place_of(outcome) {
            Some((file, line, column)) => (file.as_str().into(), (*line).into(), (*column).into()),
            None => (Value::NULL, Value::NULL, Value::NULL),
        };
        Value::record([
            ("name", part("name")),
            ("result", part("result")),
            ("reason", part("reason")),
            ("file", file),
            ("line", line),
            ("column", column),
            ("tree", part("tree")),
        ])
    });
    Value::record([
        ("at", Value::from(check.at.as_str())),
        ("expectations", Value::sequence(expectations)),
        ("opinions", Value::sequence(check.opinions().iter().cloned())),
    ])
}

/// A value as it is; one that is too deep to stand in the report is the text of its JSON.
fn fitting(value: &Value) -> Value {
    if value.depth() > MAX_INNER_DEPTH { value.to_json(JsonStyle::Compact).into() } else { value.clone() }
}
