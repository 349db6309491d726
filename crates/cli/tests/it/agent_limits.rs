//! How many calls of an agent run at once, and that a provider which asks to wait is left alone by all of them.

use std::time::Duration;

use serde_json::json;

use crate::agent_spend::{head, project, run};
use crate::models::ModelServer;

/// A program that notes how many of it run at once, and waits until the others had the time to begin.
const AGENT: &str = r#"
import fcntl, os, sys, time
def change(by):
    with open("now", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        now = int(file.read() or 0) + by
        file.seek(0); file.truncate(); file.write(str(now))
        if by > 0:
            with open("most", "a") as most: most.write(f"{now}\n")
sys.stdin.read()
change(1)
time.sleep(0.05)
change(-1)
print("done")
"#;

#[test]
fn no_more_calls_run_at_once_than_the_agent_allows() {
    for (limit, most) in [("max_parallel: 2", 2), ("max_parallel: 1", 1)] {
        let project = project();
        project.write("agent.py", AGENT.as_bytes());
        let agents = format!("agents: {{a: {{command: [python3, agent.py], {limit}}}}}\n");
        // Steps, items and called runs share it: the called file is one that all of them call.
        let inner = "steps: [{agent: a, message: hi}]\n";
        project.write("inner.yaml", format!("{agents}{inner}").as_bytes());
        let outer = "steps:\n  - foreach: [1, 2, 3, 4, 5, 6, 7, 8]\n    parallel: 8\n    do: [{workflow: inner.yaml}]\n";
        project.write("w.yaml", outer.as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml"]);
        assert_eq!(exit, 0, "{screen}");
        let seen = project.read("most").expect("calls");
        let seen: Vec<u64> = seen.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(seen.len(), 8, "{seen:?}");
        assert!(seen.iter().all(|now| *now <= most), "{seen:?}");
    }
}

/// Two agents with one key are one account for a provider: when it asks one of them to wait, the other waits, too.
#[test]
fn a_retry_after_pauses_every_agent_of_the_account() {
    let project = project();
    let rules = json!([
        {"when": {"call": 1}, "answer": {"error": 429, "headers": {"retry-after": "2"}}},
        {"answer": {"text": "fine", "usage": {"input": 10, "output": 1}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let url = server.url();
    let agent = |name: &str, key: &str| {
        format!(
            "  {name}: {{provider: anthropic, model: m, base_url: \"{url}\", api_key: \"${{secrets.{key}}}\"}}\n"
        )
    };
    // The second key comes from the same variable, the third from another one.
    let file = format!(
        "env_file: .env\nsecrets: {{KEY: {{env: MODEL_KEY}}, SAME: {{env: MODEL_KEY}}, OTHER: {{env: OTHER_KEY}}}}\nagents:\n{}{}{}\
         nodes:\n  first: {{agent: one, message: First, retry: {{attempts: 1}}, continue_on_error: true}}\n  second: {{agent: two, \
         message: \"Second, ${{first.meta.status}}\"}}\n  third: {{agent: three, message: \"Third, ${{first.meta.status}}\"}}\n",
        agent("one", "KEY"),
        agent("two", "SAME"),
        agent("three", "OTHER"),
    );
    project.write(".env", b"MODEL_KEY=sk-canary-7f3a9c\nOTHER_KEY=sk-canary-other\n");
    project.write("w.yaml", file.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (0, 3), "{screen}");
    let (_, text) = run(&project, &["show", "last", "--json"]);
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let order: Vec<String> = events
        .filter(|event| event["kind"] == "started")
        .map(|event| event["step"].as_str().unwrap_or_default().to_owned())
        .collect();
    // `third` is another account and begins at once; `second` begins when the pause of the provider is over.
    assert_eq!(order, ["first", "third", "second"], "{screen}");
}

#[test]
fn a_retry_after_pauses_every_call_of_the_agent() {
    let project = project();
    let rules = json!([
        {"when": {"call": 1}, "answer": {"error": 429, "headers": {"retry-after": "1"}}},
        {"answer": {"text": "fine", "usage": {"input": 10, "output": 1}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let items = "steps:\n  - foreach: [1, 2, 3, 4]\n    parallel: 4\n    do: [{agent: model, message: \"Number ${item}\"}]\n";
    let head = head(&server, ", max_parallel: 1");
    project.write("w.yaml", format!("{head}{items}").as_bytes());
    let began = std::time::Instant::now();
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (0, 5), "{screen}");
    assert!(began.elapsed() >= Duration::from_secs(1), "{screen}");
    // The other three waited, too, and none of them was refused: there is one retry in the run.
    assert_eq!(screen.matches("again in").count(), 1, "{screen}");
    let (_, text) = run(&project, &["show", "last", "--json"]);
    let times: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|event| {
            (
                event["kind"].as_str().unwrap_or_default().to_owned(),
                event["time"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let refused = times.iter().position(|(kind, _)| kind == "retrying").expect("a retry");
    let finished = times.iter().position(|(kind, _)| kind == "finished").expect("an end");
    assert!(refused < finished, "nobody was answered before: {times:?}");
}

#[test]
fn so_many_requests_a_minute_are_let_through_and_the_run_can_be_stopped_while_others_wait() {
    let project = project();
    let server = ModelServer::start(&project, &json!([{"answer": {"text": "fine"}}]).to_string());
    let items = "steps:\n  - foreach: [1, 2, 3, 4]\n    parallel: 4\n    do: [{agent: model, message: \"Number ${item}\"}]\n";
    let head = head(&server, ", requests_per_minute: 2");
    project.write("w.yaml", format!("{head}{items}timeout: 3s\n").as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (1, 2), "{screen}");
    assert_eq!(screen.matches("s: `model` may not be asked more often").count(), 1, "{screen}");
}

#[test]
fn a_run_that_goes_on_counts_what_it_asked_before_in_the_same_minute() {
    let project = project();
    let server = ModelServer::start(&project, &json!([{"answer": {"text": "fine"}}]).to_string());
    let items = "steps:\n  - foreach: [1, 2, 3]\n    do: [{agent: model, message: \"Number ${item}\"}]\n";
    let head = head(&server, ", requests_per_minute: 2");
    project.write("w.yaml", format!("{head}{items}timeout: 5s\nbudget: {{turns: 2}}\n").as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "{screen}");
    // The third has to wait for longer than the run may take.
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=3"]);
    assert_eq!((exit, server.requests().len()), (1, 2), "{screen}");
    assert!(screen.contains("may not be asked more often"), "{screen}");
}
