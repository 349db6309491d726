//! The table of answers, `answers.txt`: what every operator says of every kind of value. The reference prints it.

use crate::support::{detected, evaluating, sound};
use threadline_expect::{Actual, ExpectationAnswer, table};

const TABLE: &str = include_str!("../answers.txt");

/// The cells of a line.
fn cells(line: &str) -> Vec<&str> {
    line.split(" | ").map(str::trim).collect()
}

/// The actual values of the table.
fn columns() -> Vec<&'static str> {
    TABLE.lines().find(|line| line.contains(" | ")).map(|line| cells(line)[1..].to_vec()).unwrap_or_default()
}

/// The lines of the table, with what each says of each value.
fn rows() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    TABLE.lines().filter(|line| line.contains(" | ")).skip(1).map(|line| {
        let cells = cells(line);
        (cells[0], cells[1..].to_vec())
    })
}

fn actual(value: &str) -> Actual {
    match value {
        "missing" => detected(r#"{"other": 1}"#),
        value => detected(&format!(r#"{{"checked": {value}}}"#)),
    }
}

fn sign(answer: ExpectationAnswer) -> &'static str {
    match answer {
        ExpectationAnswer::Met => "+",
        ExpectationAnswer::Unmet => "-",
        ExpectationAnswer::NotEvaluable => "?",
    }
}

#[test]
fn every_answer_is_as_the_table_says() {
    let columns = columns();
    let mut wrong = Vec::new();
    let mut answers = 0;
    for (check, expected) in rows() {
        assert_eq!(expected.len(), columns.len(), "{check}");
        let (operator, operand) = check.split_once(": ").unwrap_or_default();
        let expectations = sound(&format!(r#"{{"value.checked": {{"{operator}": {operand}}}}}"#));
        for (value, expected) in columns.iter().zip(expected) {
            let actual = actual(value);
            let outcome = evaluating(&actual, |evaluation| evaluation.explain(&expectations.members()[0]));
            if sign(outcome.answer) != expected {
                let found = sign(outcome.answer);
                wrong.push(format!("{check} of {value}: {found}, not {expected}: {}", outcome.reason));
            }
            answers += 1;
        }
    }
    assert!(answers > 0 && wrong.is_empty(), "{} of {answers} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every operator, every form of it that folds case, and `not-` before each.
#[test]
fn every_operator_has_a_line() {
    let written: Vec<&str> = rows().filter_map(|(check, _)| Some(check.split_once(": ")?.0)).collect();
    let names = table::operator_names().flat_map(|name| [format!("not-{name}"), name]);
    let without: Vec<String> = names.filter(|name| !written.contains(&name.as_str())).collect();
    assert_eq!(without, [""; 0]);
}
