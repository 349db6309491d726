//! What was resolved can be seen, while it runs and afterwards.

use threadline_lang::{Limits, Value, data};

use crate::harness::workflow;

const STEPS: &str = r#"
inputs: {name: {default: Ada}}
context: {greeting: "Hello ${inputs.name}"}
steps:
  - {shell: echo 7, capture: seven, capture_format: number}
  - {id: a, when: seven == 7, value: "${context.greeting} ${seven}"}
  - {id: b, foreach: [x], do: [{shell: "echo ${item}"}]}
"#;

#[test]
fn every_reference_is_shown_as_text() {
    let run = workflow(STEPS).command(&["run", "--trace-variables", "workflow.yaml"]).wait().well();
    for text in ["context.greeting", "inputs.name", "seven", "item", "Hello Ada", "Ada", "7"] {
        assert!(run.stderr.contains(text), "`{text}` is not in\n{}", run.stderr);
    }
    let quiet = workflow(STEPS).command(&["run", "workflow.yaml"]).wait().well();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn every_reference_is_shown_as_json() {
    let run = workflow(STEPS).run_with(&["--trace-variables=json"]).well();
    let lines: Vec<Value> = run
        .stderr
        .lines()
        .map(|line| data::json::read_value(line, &Limits::DEFAULT).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let has = |reference: &str, value: &Value| {
        let is = |line: &&Value| {
            line.as_object().is_some_and(|line| {
                line.iter().any(|(_, found)| found.as_str() == Some(reference)) && line.iter().any(|(_, found)| found == value)
            })
        };
        assert!(lines.iter().any(|line| is(&line)), "{reference} is not in\n{}", run.stderr);
    };
    has("seven", &Value::from(7_i64));
    has("context.greeting", &Value::from("Hello Ada"));
    has("inputs.name", &Value::from("Ada"));
    has("item", &Value::from("x"));
}
