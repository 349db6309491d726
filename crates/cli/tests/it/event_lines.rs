//! The values in the lines of `run --json` and `show --json`: plain and whole up to a limit, whatever the store does with
//! them, and as the schema says.

use crate::harness::{Run, workflow};
use crate::support::Project;

/// Values of every size: in the event, stored apart, too large for a line, nested nearly as deep as a value can be.
const SIZES: &str = r#"
steps:
- {id: small, value: {a: [1, "x", null]}}
- {id: large, shell: "head -c 5000000 /dev/zero | tr '\\0' x"}
- {id: huge, shell: "head -c 70000000 /dev/zero | tr '\\0' x", max_output: 100MiB}
- {id: nested, shell: "printf '[%.0s' $(seq 100); printf ']%.0s' $(seq 100)", capture_format: json}
- {id: deep, shell: "printf '[%.0s' $(seq 195); printf ']%.0s' $(seq 195)", capture_format: json}
- id: list
  shell: "x=$(head -c 1000000 /dev/zero | tr '\\0' x); printf '[\"%s\",\"%s\",\"%s\",\"%s\",\"%s\"]' $x $x $x $x $x"
  capture_format: json
- {id: few, foreach: [1, 2], do: [{value: '${item}'}]}
- {id: many, foreach: '${list}', do: [{value: '${item | len}'}]}
"#;

/// The data of the one event of a kind about a step.
fn data(run: &Run, kind: &str, step: &str) -> serde_json::Value {
    let text = run.last(kind, step).to_json(threadline_lang::value::JsonStyle::Compact);
    serde_json::from_str(&text).expect("it is JSON")
}

fn value(run: &Run, step: &str) -> serde_json::Value {
    data(run, "finished", step)["output"]["value"].clone()
}

#[test]
fn values_are_plain_whatever_their_size() {
    let workflow = workflow(SIZES);
    let run = workflow.run().well();
    assert_eq!(value(&run, "small"), serde_json::json!({"a": [1, "x", null]}));
    assert_eq!(value(&run, "large").as_str().map(str::len), Some(5_000_000));
    let huge = value(&run, "huge");
    assert_eq!((&huge["bytes"], &huge["form"]), (&70_000_000.into(), &"text".into()));
    assert_eq!(huge["hash"].as_str().map(str::len), Some(64));
    assert!(value(&run, "nested").to_string().starts_with("[[[[["));
    assert_eq!(value(&run, "deep")["bytes"], 390);
    assert_eq!(data(&run, "expanded", "few")["items"], serde_json::json!([1, 2]));
    let many = data(&run, "expanded", "many");
    assert_eq!((many.get("items"), &many["count"]), (None, &5.into()));
    assert!(many["chunks"].is_object(), "{many}");
    assert_eq!(value(&run, "many"), serde_json::Value::from(vec![1_000_000; 5]));
    let shown = workflow.command(&["show", "last", "--json"]).wait().well();
    assert!(shown.stdout == run.stdout, "`show` prints other lines than `run`");
    let schema = Project::new().run(&["schema", "events"], b"").stdout;
    let schema = serde_json::from_str(&schema).expect("a schema is JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema is one");
    for line in run.stdout.lines() {
        let event = serde_json::from_str(line).expect("a line is JSON");
        assert!(schema.is_valid(&event), "{}", line.get(..2_000).unwrap_or(line));
    }
}
