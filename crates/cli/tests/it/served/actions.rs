//! Runs that are started, stopped and resumed by requests.

use std::time::Instant;

use super::{A_MOMENT, RUNS, Served};
use crate::support::PATIENCE;

/// Waits until a run stands in some way.
fn wait_for(served: &Served, run: &str, status: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = served.server.json(&format!("{RUNS}/{run}"))["status"].clone();
        if found == status {
            return;
        }
        assert!(Instant::now() < deadline, "run {run} is {found}, not {status}");
        std::thread::sleep(A_MOMENT);
    }
}

fn start(served: &Served, body: &serde_json::Value) -> String {
    let reply = served.server.post(RUNS, &body.to_string());
    assert_eq!(reply.status, 202, "{}", reply.text());
    reply.json()["run"].as_str().expect("an id").to_owned()
}

#[test]
fn a_workflow_is_started_with_inputs_of_either_form() {
    let served = Served::new(&[]);
    let workflows = served.server.json("/api/projects/project/workflows");
    let files: Vec<&str> = workflows["workflows"]
        .as_array()
        .expect("workflows")
        .iter()
        .map(|workflow| workflow["file"].as_str().expect("a file"))
        .collect();
    assert_eq!(files, ["part.yaml", "work.yaml"]);
    assert_eq!(workflows["workflows"][1]["inputs"][0]["default"], "world");
    // Values are values, whatever a shell would make of them.
    let hostile = "$(touch canary) `touch canary` ' \" \\ ü --help\nsecond";
    for body in [
        serde_json::json!({"workflow": "part.yaml", "inputs": {"text": hostile}}),
        serde_json::json!({"workflow": "part.yaml", "texts": {"text": hostile}}),
    ] {
        let run = start(&served, &body);
        wait_for(&served, &run, "completed");
        let names = served.server.json(&format!("{RUNS}/{run}/names?name=inputs.text"));
        assert_eq!(names["names"][0]["value"], hostile);
    }
    assert_eq!(served.project.read("canary"), None);
}

#[test]
fn what_cannot_be_started_says_why() {
    let served = Served::new(&[]);
    let before = served.store();
    for (body, status, said) in [
        (r#"{"workflow": "part.yaml"}"#, 409, "input `text`"),
        (r#"{"workflow": "part.yaml", "inputs": {"text": 5}}"#, 409, "input `text` is text"),
        (r#"{"workflow": "part.yaml", "inputs": {"tex": "a"}}"#, 409, "tex"),
        (r#"{"workflow": "gone.yaml"}"#, 404, "no such workflow"),
        (r#"{"workflow": "part.yaml", "inputs": []}"#, 400, "`inputs` is an object"),
        (r#"{"workflow": "part.yaml", "texts": {"text": 5}}"#, 400, "`texts` is an object"),
        (r#"{"workflow": "part.yaml", "texts": {"a=b": "c"}}"#, 400, "`texts` is an object"),
        (r#"{"workflow": "part.yaml", "budget": {}}"#, 400, "no entry `budget`"),
        (r#"{"workflow": 5}"#, 400, "`workflow` is"),
        ("[]", 400, "a JSON object"),
        ("{", 400, "not JSON"),
        ("", 400, "`workflow` is"),
    ] {
        let reply = served.server.post(RUNS, body);
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
        assert!(reply.text().contains(said), "{body}: {}", reply.text());
    }
    assert_eq!(served.store(), before, "nothing was changed");
}

#[test]
fn a_run_is_stopped_and_resumed() {
    let served = Served::new(&[]);
    let work = "steps:\n  - {id: one, shell: 'echo one >> done'}\n  - {id: wait, shell: 'while ! test -e go; do sleep 0.02; done'}\n  - {id: two, shell: 'echo two >> done'}\n";
    served.project.write("wait.yaml", work.as_bytes());
    let run = start(&served, &serde_json::json!({"workflow": "wait.yaml"}));
    wait_for(&served, &run, "running");
    let path = format!("{RUNS}/{run}");
    assert_eq!(served.server.post(&format!("{path}/stop"), r#"{"now": true}"#).status, 202);
    wait_for(&served, &run, "paused");
    let again = served.server.post(&format!("{path}/stop"), "{}");
    assert!(again.status == 409 && again.text().contains("no process drives"), "{}", again.text());
    served.project.write("go", b"");
    assert_eq!(served.server.post(&format!("{path}/resume"), "{}").status, 202);
    wait_for(&served, &run, "completed");
    assert_eq!(served.project.read("done").as_deref(), Some("one\ntwo\n"));
}

#[test]
fn failed_items_are_run_again() {
    let served = Served::new(&[]);
    let work = "steps:\n  - id: each\n    foreach: [1, 2, 3]\n    do: [{id: one, shell: 'echo ${item} >> tries; test ${item} -ne 2 -o -e mended'}]\n";
    served.project.write("items.yaml", work.as_bytes());
    let run = start(&served, &serde_json::json!({"workflow": "items.yaml"}));
    wait_for(&served, &run, "failed");
    served.project.write("mended", b"");
    let reply = served.server.post(&format!("{RUNS}/{run}/resume"), r#"{"failed": true}"#);
    assert_eq!(reply.status, 202, "{}", reply.text());
    wait_for(&served, &run, "completed");
    assert_eq!(served.project.read("tries").map(|tries| tries.matches('2').count()), Some(2));
}

#[test]
fn a_run_outlives_the_server_that_started_it() {
    let mut served = Served::new(&[]);
    let work = "steps: [{id: wait, shell: 'while ! test -e go; do sleep 0.02; done; echo done'}]\n";
    served.project.write("wait.yaml", work.as_bytes());
    let run = start(&served, &serde_json::json!({"workflow": "wait.yaml"}));
    served.server = super::Server::start(served.project.path(), &[]);
    wait_for(&served, &run, "running");
    served.project.write("go", b"");
    wait_for(&served, &run, "completed");
}

#[test]
fn a_server_that_only_shows_changes_nothing() {
    let served = Served::new(&["--read-only"]);
    let before = served.store();
    for path in [RUNS.to_owned(), format!("{}/stop", served.run()), format!("{}/resume", served.run())] {
        let reply = served.server.post(&path, r#"{"workflow": "part.yaml", "inputs": {"text": "x"}}"#);
        assert_eq!(reply.status, 403, "{path}");
        assert!(reply.text().contains("--read-only"), "{}", reply.text());
    }
    assert_eq!(served.server.json("/api/projects")["read_only"], true);
    assert_eq!(served.store(), before, "nothing was changed");
}
