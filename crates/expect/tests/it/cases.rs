//! The library against the cases of the program: the same problems in the same order, the same answers.
#![expect(clippy::disallowed_methods, reason = "the cases are files")]

use std::path::PathBuf;

use crate::support::{detected, loaded, outcomes};
use threadline_expect::ExpectationAnswer;
use threadline_lang::data::DataFormat;

/// The cases of `threadline expect` with one file of expectations, by name.
fn cases() -> Vec<(String, String)> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../cli/tests/cases/expect"].iter().collect();
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut cases: Vec<(String, String)> = entries
        .flatten()
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_else(|error| panic!("{error}"));
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .filter(|(_, text)| section(text, "e.yaml").or(section(text, "e.json")).is_some())
        // What the command line says about the document is not in the file.
        .filter(|(_, text)| !text.contains(" --as "))
        .collect();
    cases.sort();
    cases
}

fn section<'c>(case: &'c str, name: &str) -> Option<&'c str> {
    let (_, rest) = case.split_once(&format!("\n-- {name} --\n"))?;
    let end = rest.find("\n-- ").map_or(rest.len(), |end| end + 1);
    Some(&rest[..end])
}

/// The first line of every problem that was printed.
fn printed_problems(case: &str) -> Vec<String> {
    let lines = section(case, "stderr").unwrap_or_default().lines();
    lines
        .filter(|line| line.starts_with("error[") || line.starts_with("warning["))
        .map(str::to_owned)
        .collect()
}

/// The answers that were printed, with the names of the expectations.
fn printed_answers(case: &str) -> Vec<(ExpectationAnswer, String)> {
    let lines = section(case, "stdout").unwrap_or_default().lines();
    let answer = |line: &str| {
        let (answer, name) = line.split_at_checked(15)?;
        let answers = [ExpectationAnswer::Met, ExpectationAnswer::Unmet, ExpectationAnswer::NotEvaluable];
        let found = answers.into_iter().find(|known| format!("{:<15}", known.words()) == answer)?;
        Some((found, name.to_owned()))
    };
    lines.filter_map(answer).collect()
}

#[test]
fn problems_and_answers_are_those_of_the_program() {
    let (mut problems_seen, mut answers_seen) = (0, 0);
    for (name, case) in cases() {
        let (text, format) = match section(&case, "e.yaml") {
            Some(text) => (text, DataFormat::Yaml),
            None => (section(&case, "e.json").unwrap_or_default(), DataFormat::Json),
        };
        let (expectations, problems) = loaded(text, format);
        if !case.contains(" --json ") {
            let severity = |error: bool| if error { "error" } else { "warning" };
            let found: Vec<String> = problems
                .iter()
                .map(|problem| {
                    format!("{}[{}]: {}", severity(problem.is_error()), problem.id, problem.message)
                })
                .collect();
            assert_eq!(found, printed_problems(&case), "{name}");
            problems_seen += found.len();
        }
        let (Some(expectations), Some(document)) = (expectations, section(&case, "a.json")) else { continue };
        let outcomes = outcomes(&expectations, &detected(document)).into_iter();
        let found: Vec<_> = outcomes.map(|outcome| (outcome.answer, outcome.name.to_string())).collect();
        assert_eq!(found, printed_answers(&case), "{name}");
        answers_seen += found.len();
    }
    assert!(problems_seen > 150 && answers_seen > 40, "{problems_seen} problems, {answers_seen} answers");
}
