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
    for (reference, shown) in
        [("seven", "7"), ("context.greeting", "\"Hello Ada\""), ("inputs.name", "\"Ada\""), ("item", "\"x\"")]
    {
        let text = |line: &Value, key| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let found = lines.iter().find(|line| text(line, "reference") == reference);
        let found = found.unwrap_or_else(|| panic!("{reference} is not in\n{}", run.stderr));
        assert_eq!(text(found, "preview"), shown);
    }
}
