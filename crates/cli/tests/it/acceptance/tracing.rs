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
        .map(|line| {
            data::json::read_value(line, &Limits::DEFAULT).unwrap_or_else(|_| panic!("no JSON: {line}"))
        })
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

#[test]
fn a_preview_shows_what_would_be_done_and_does_nothing() {
    let workflow = workflow(
        r#"
allow: {commands: true}
inputs: {name: {default: "it's"}}
computed: {own: {command: [touch, plugged]}}
steps:
  - {id: a, shell: "touch ran; echo ${inputs.name} ${cmd:touch called}"}
  - {value: "${own:x}"}
  - {write_file: {path: "made.txt", content: "${a} ${inputs.name}"}}
  - {foreach: [1], do: [{shell: touch item}]}
"#,
    );
    let before = std::fs::read_dir(workflow.project.path()).expect("the project").count();
    let run = workflow.command(&["preview", "workflow.yaml"]).wait().well();
    for text in ["touch ran", "it's", "made.txt", "cmd:touch called"] {
        assert!(run.stdout.contains(text), "`{text}` is not in\n{}", run.stdout);
    }
    assert_eq!(std::fs::read_dir(workflow.project.path()).expect("the project").count(), before);
}

#[test]
fn explain_gives_the_values_of_then() {
    let workflow = workflow(
        r#"
allow: {commands: true}
steps:
  - {id: a, value: ["${uuid}", "${cmd:echo >> calls; wc -l < calls}", "${file:note.txt}", "${env.COLOUR}", "${date:%H:%M:%S}"]}
  - {id: b, shell: "echo ${a.value[0]}"}
"#,
    )
    .file("note.txt", "before")
    .env("COLOUR", "blue");
    let run = workflow.run().well();
    workflow.project.write("note.txt", b"after");
    let workflow = workflow.env("COLOUR", "red");
    let explained = workflow.command(&["explain", "last", "a", "--json"]).wait().well();
    assert!(explained.stdout.contains(&run.value("a")), "{}\n{}", run.value("a"), explained.stdout);
    assert!(explained.stdout.contains("\"reproducible\":true"), "{}", explained.stdout);
    let used = workflow.command(&["explain", "last", "b", "--json"]).wait().well();
    assert!(used.stdout.contains(&run.value("b")), "{}", used.stdout);
    assert_eq!(workflow.lines("calls"), 1);
}

#[test]
fn explain_gives_the_values_of_then_after_a_kill_and_a_resume() {
    let workflow = workflow(
        "- {id: a, shell: \"echo > began; cat go > /dev/null; echo ${uuid}\"}\n- {id: b, value: \"${a}\"}\n",
    )
    .pipes(&["began", "go"]);
    let running = workflow.start(&[]);
    workflow.receive("began");
    running.kill();
    let resumed = workflow.command(&["resume", "--json"]);
    workflow.receive("began");
    workflow.release("go");
    let run = resumed.wait().well();
    let explained = workflow.command(&["explain", "last", "a", "--json"]).wait().well();
    assert_eq!(explained.stdout.matches("\"evaluated\":\"attempt\"").count(), 2, "{}", explained.stdout);
    // Bound, as it was resolved, and as the whole reference gave it: in both attempts.
    assert_eq!(
        explained.stdout.matches(&format!("\"value\":{}", run.value("b"))).count(),
        6,
        "{}",
        explained.stdout
    );
}
