//! Results of scenarios for CI systems: `JUnit`, annotations of GitHub Actions, and the summary of a job there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use threadline_lang::Value;
use threadline_lang::diag::words;

use super::TestReport;
use super::baseline::CaseChange;
use super::results::{TestExecution, TestResult, TestedFile, TriedCase, result_of};
use super::text::{answer_text, opinion_text, tool_calls};
use crate::commands::ci_report::{MAX_ANNOTATIONS, MAX_ROWS, inline};
use crate::commands::findings::annotation;
use crate::junit::{self, TestCase, TestOutcome, TestSuite, TestTrouble};
use crate::report::first_line;

/// A suite for each file, and a case for each case; its repetitions are in its text.
pub(super) fn junit(report: &TestReport<'_>) -> String {
    let suites: Vec<TestSuite> = report.files.iter().map(suite).collect();
    junit::junit(&suites)
}

fn suite(file: &TestedFile) -> TestSuite {
    let mut cases: Vec<TestCase> = file.cases.iter().map(|case| junit_case(file, case)).collect();
    if file.outcome.is_none() {
        let message = "the run stopped before its end".to_owned();
        let text = format!("`threadline test --resume {}` goes on", file.run);
        let outcome = TestOutcome::Errored(TestTrouble { message, text });
        cases.push(TestCase {
            name: format!("run {}", file.run),
            time: None,
            outcome,
            output: String::new(),
        });
    }
    let properties = vec![("file", file.file.clone()), ("run", file.run.clone())];
    TestSuite { name: file.workflow.clone(), properties, cases }
}

fn junit_case(file: &TestedFile, case: &TriedCase) -> TestCase {
    let trouble = || TestTrouble { message: summary(case), text: details(file, case) };
    let outcome = match case.result {
        TestResult::Passed => TestOutcome::Passed,
        TestResult::Skipped => TestOutcome::Skipped(case.reason()),
        TestResult::Failed => TestOutcome::Failed(trouble()),
        TestResult::NotEvaluable | TestResult::Errored | TestResult::NotRun => {
            TestOutcome::Errored(trouble())
        }
    };
    let time = (!case.executions.is_empty()).then(|| Duration::from_millis(case.duration_ms()));
    // What a failure says has it.
    let output = if case.result == TestResult::Passed { conversation(case) } else { String::new() };
    TestCase { name: case.name(), time, outcome, output }
}

/// What was said in all executions of a case.
fn conversation(case: &TriedCase) -> String {
    let mut out = String::new();
    for execution in &case.executions {
        write_turns(&mut out, execution);
    }
    out
}

/// Why a case failed, in one line.
fn summary(case: &TriedCase) -> String {
    match case.rate() {
        Some(rate) => format!("{} of {} passed; {}", rate.passed, rate.tried, case.reason()),
        None => case.reason(),
    }
}

/// Everything that went wrong, with prompts and answers.
fn details(file: &TestedFile, case: &TriedCase) -> String {
    let (name, line, column) = &case.place;
    let mut out = format!("{name}:{line}:{column}\n");
    if case.executions.is_empty() {
        out.push_str(&case.untried);
    }
    // Writing into a text cannot fail.
    for execution in case.failures() {
        write_turns(&mut out, execution);
        let has_error = execution.turns.iter().any(|turn| turn.error.is_some());
        for (check, outcome) in execution.unmet() {
            let place = check.place_of(outcome);
            let place = place.map(|(file, line, column)| format!("{file}:{line}:{column}: "));
            let _ = writeln!(out, "{}{}", place.unwrap_or_default(), outcome_text(outcome));
        }
        for opinion in execution.opinions() {
            let _ = writeln!(out, "judge: {}", opinion_text(opinion));
        }
        let is_told = has_error || execution.unmet().next().is_some();
        if let Some(error) = execution.error.as_deref().filter(|_| !is_told) {
            let _ = writeln!(out, "error: {error}");
        }
        if let Some(at) = &execution.failed_step {
            let _ = writeln!(out, "threadline explain {} '{at}'", file.run);
        }
    }
    out
}

/// What was said in an execution, with the tools that were called.
fn write_turns(out: &mut String, execution: &TestExecution) {
    // Writing into a text cannot fail.
    if let Some(repetition) = execution.repetition {
        let _ = writeln!(out, "\nrepetition {repetition}:");
    }
    for turn in &execution.turns {
        let _ = writeln!(out, "prompt: {}", turn.prompt);
        if let Some(answer) = &turn.answer {
            let _ = writeln!(out, "answer: {}", answer_text(answer));
            for call in tool_calls(answer) {
                let _ = writeln!(out, "tool: {}", call.text());
            }
        }
        if let Some(error) = &turn.error {
            let _ = writeln!(out, "error: {error}");
            for line in &turn.printed {
                let _ = writeln!(out, "{line}");
            }
        }
    }
}

fn outcome_text(outcome: &Value) -> String {
    let word = if result_of(outcome) == "unmet" { "unmet" } else { "not evaluable" };
    let reason = outcome.get("reason").map(ToString::to_string).unwrap_or_default();
    format!("{word}: {reason}")
}

/// Commands of GitHub that put each failure beside its expectation, or beside its scenario.
pub(super) fn annotations(report: &TestReport<'_>) -> String {
    let mut all = Vec::new();
    for (file, case) in report.cases().filter(|(_, case)| case.result.is_bad()) {
        if case.executions.is_empty() {
            all.push(case_annotation(case, &case.untried));
            continue;
        }
        // What several repetitions have in common is said once.
        let mut told = BTreeSet::new();
        for execution in case.failures() {
            for text in execution_annotations(file, case, execution) {
                let head = first_line(&text).split("%0A").next().unwrap_or_default().to_owned();
                if told.insert(head) {
                    all.push(text);
                }
            }
        }
    }
    all.truncate(MAX_ANNOTATIONS);
    all.concat()
}

fn execution_annotations(file: &TestedFile, case: &TriedCase, execution: &TestExecution) -> Vec<String> {
    let answer = execution.turns.iter().rev().find_map(|turn| turn.answer.as_ref());
    let answer = answer.map(|answer| format!("\nanswer: {}", answer_text(answer))).unwrap_or_default();
    let explain = execution.failed_step.as_ref();
    let explain = explain.map(|at| format!("\nthreadline explain {} '{at}'", file.run)).unwrap_or_default();
    let unmet = execution.unmet().map(|(check, outcome)| {
        let text = format!("{}{answer}{explain}", outcome_text(outcome));
        let Some((file, line, column)) = check.place_of(outcome) else {
            return case_annotation(case, &text);
        };
        annotation("error", file, &format!("line={line},col={column}"), &case.name(), &text)
    });
    let mut all: Vec<String> = unmet.collect();
    if all.is_empty() {
        all.push(case_annotation(case, &format!("{}{explain}", execution.reason())));
    }
    all
}

fn case_annotation(case: &TriedCase, text: &str) -> String {
    let (file, line, column) = &case.place;
    annotation("error", file, &format!("line={line},col={column}"), &case.name(), text)
}

/// The summary of a job, in Markdown.
pub(super) fn markdown(report: &TestReport<'_>) -> String {
    let totals = &report.totals;
    let counts = TestResult::ALL.map(|result| (totals.count(result), result));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, result)| format!("{count} {}", result.words())).collect();
    let mut out = format!(
        "### Scenarios: {} of {} passed\n\n{}, {}.\n\n",
        totals.count(TestResult::Passed),
        totals.wanted(),
        if counts.is_empty() { "no case".to_owned() } else { counts.join(", ") },
        words::duration(Duration::from_millis(totals.duration_ms))
    );
    if let Some(comparison) = &report.comparison {
        let counts = CaseChange::ALL.map(|change| (comparison.count(change), change.words()));
        let missing = [(comparison.missing.len(), "missing")];
        let counts = counts.into_iter().chain(missing).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        let counts = if counts.is_empty() { "nothing has changed".to_owned() } else { counts.join(", ") };
        let _ = writeln!(out, "Compared with {}: {counts}.\n", inline(comparison.baseline));
    }
    let bad: Vec<(&TestedFile, &TriedCase)> =
        report.cases().filter(|(_, case)| case.result.is_bad()).collect();
    if !bad.is_empty() {
        out.push_str("| case | result | place | reason |\n|---|---|---|---|\n");
        for (_, case) in bad.iter().take(MAX_ROWS) {
            let (file, line, _) = &case.place;
            let (name, reason) = (inline(&case.name()), inline(first_line(&summary(case))));
            let _ =
                writeln!(out, "| {name} | {} | {}:{line} | {reason} |", case.result.words(), inline(file));
        }
        if bad.len() > MAX_ROWS {
            let _ = writeln!(out, "\n{} more failed.", bad.len() - MAX_ROWS);
        }
        out.push('\n');
    }
    out
}
