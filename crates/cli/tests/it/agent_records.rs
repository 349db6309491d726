//! What agents said, kept for later: runs that are recorded and replayed, answers that are kept, and threads; over both
//! protocols, with Claude Code, and killed in between.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::agent_tools::{PROTOCOLS, project};
use crate::models::stand_ins;
use crate::support::{Outcome, Project};

/// A model that calls three tools at once, gives an answer that does not fit, and then one that does.
fn rules() -> Value {
    json!([
        {"when": {"user": "That answer cannot be used"}, "answer": {"text": "{\"count\": 17}"}},
        {"when": {"tool_result": true}, "answer": {"text": "seventeen"}},
        {"answer": {"text": "I look.", "tools": [
            {"name": "desk__echo", "input": {"text": "a"}},
            {"name": "add", "input": {"a": 41}},
            {"name": "read_file", "input": {"path": "notes.txt"}}
        ]}}
    ])
}

/// An answer is asked for with a schema that is no object, so that both protocols answer with text.
const TYPED: &str =
    "    output: {type: [object, string], properties: {count: {type: integer}}, not: {type: string}}\n";

fn screen(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

/// The files of a folder with their texts, by their paths.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("inside").display().to_string();
                found.insert(name, std::fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    found
}

#[test]
fn a_replayed_run_asks_no_model_and_calls_no_tool() {
    for protocol in PROTOCOLS {
        let (project, server) = project(&rules(), protocol, TYPED);
        let recorded = project.run(&["run", "w.yaml", "--record", "kept"], b"");
        assert_eq!(recorded.exit, 0, "{}", screen(&recorded));
        assert!(recorded.stdout.contains("{\"count\":17}"), "{}", recorded.stdout);
        let (asked, did) = (server.requests().len(), project.read("kept/work.json").expect("a record"));
        assert_eq!(asked, 3, "{did}");
        // The same again gives the same files, whatever ids and times there are.
        let again = project.run(&["run", "w.yaml", "--record", "more/kept"], b"");
        assert_eq!(again.exit, 0, "{}", screen(&again));
        let (first, second) = (project.path().join("kept"), project.path().join("more/kept"));
        assert_eq!(files(&first), files(&second));
        drop(server);
        project.write("notes.txt", b"eighteen\n");
        project.write("desk.py", b"raise SystemExit('nobody starts this')\n");
        let replayed = project.run(&["run", "w.yaml", "--replay", "kept"], b"");
        assert_eq!(replayed.exit, 0, "{}", screen(&replayed));
        assert!(replayed.stdout.contains("{\"count\":17}"), "{}", replayed.stdout);
        assert!(replayed.stdout.contains("tokens"), "{}", replayed.stdout);
        let told = project.run(&["show", "last", "work"], b"").stdout;
        assert!(
            told.contains("echo: a") && told.contains("seventeen") && told.contains("replayed"),
            "{told}"
        );
        // The message of the step moved; then a setting; then what a tool was offered.
        let text = project.read("w.yaml").expect("the file");
        for (from, to, moved) in [
            ("message: Do it.", "message: Do that.", "message 1 is \"Do that.\", and was \"Do it.\""),
            ("model: test-model", "model: other-model", "the setting `model` is \"other-model\""),
            ("tools: [read_file, ", "tools: [", "the tool list"),
        ] {
            project.write("w.yaml", text.replace(from, to).as_bytes());
            let refused = project.run(&["run", "w.yaml", "--replay", "kept"], b"");
            assert_eq!(refused.exit, 1, "{}", screen(&refused));
            assert!(refused.stdout.contains(moved), "{moved}:\n{}", screen(&refused));
        }
    }
}

#[test]
fn a_kept_answer_costs_nothing_and_tools_are_called_again() {
    for protocol in PROTOCOLS {
        let more = format!("{TYPED}    cache: true\n");
        let (project, server) = project(&rules(), protocol, &more);
        let first = project.run(&["run", "w.yaml"], b"");
        assert_eq!((first.exit, server.requests().len()), (0, 3), "{}", screen(&first));
        let calls = project.read("calls").expect("calls").lines().count();
        let second = project.run(&["run", "w.yaml"], b"");
        // Only the answer that did not fit is asked for again, and with it what was wrong about it.
        assert_eq!((second.exit, server.requests().len()), (0, 4), "{}", screen(&second));
        assert_eq!(project.read("calls").expect("calls").lines().count(), calls * 2);
        let cleaned = project.run(&["clean", "--older-than", "0s"], b"");
        assert!(cleaned.stdout.contains("removed 2 kept answers of agents"), "{}", screen(&cleaned));
        let third = project.run(&["run", "w.yaml"], b"");
        assert_eq!((third.exit, server.requests().len()), (0, 7), "{}", screen(&third));
    }
}

#[test]
fn a_model_is_told_what_was_said_in_its_thread_before() {
    for protocol in PROTOCOLS {
        let rules = json!([
            {"when": {"user": "More"}, "answer": {"text": "Much more."}},
            {"when": {"tool_result": true}, "answer": {"text": "Done."}},
            {"answer": {"text": "I look.", "tools": [{"name": "desk__echo", "input": {"text": "a"}}]}}
        ]);
        let more = "    thread: talk\n  - {id: more, agent: clerk, thread: talk, message: More of it.}\n";
        let (project, server) = project(&rules, protocol, more);
        let outcome = project.run(&["run", "w.yaml"], b"");
        assert_eq!(outcome.exit, 0, "{}", screen(&outcome));
        let requests = server.requests();
        let messages = &requests.last().expect("a request")["body"]["messages"];
        let said: Vec<(&str, &str)> = messages
            .as_array()
            .expect("messages")
            .iter()
            .filter(|message| message["role"] != "system")
            .map(|message| {
                (
                    message["role"].as_str().unwrap_or_default(),
                    message["content"].as_str().unwrap_or_default(),
                )
            })
            .collect();
        let expected = [("user", "Do it."), ("assistant", "Done."), ("user", "More of it.")];
        assert_eq!(said, expected, "{}", protocol.0);
    }
}

#[test]
fn claude_code_goes_on_with_its_own_session() {
    let project = Project::new();
    project.write("rules.json", json!([{"answer": {"text": "Fine."}}]).to_string().as_bytes());
    let text = format!(
        "agents:
  coder: {{provider: claude, program: [{}]}}
  other: {{command: [sh, -c, 'grep -c \"\"']}}
env: {{CLAUDE_STAND_IN: {}}}
steps:
  - {{id: one, agent: coder, thread: fix, message: Fix it.}}
  - {{id: two, agent: coder, thread: fix, message: Fix more.}}
  - {{id: between, agent: other, thread: fix, message: What was it?}}
  - {{id: three, agent: coder, thread: fix, message: And now?}}
",
        stand_ins().join("claude").display(),
        project.path().display(),
    );
    project.write("w.yaml", text.as_bytes());
    let outcome = project.run(&["run", "w.yaml"], b"");
    assert_eq!(outcome.exit, 0, "{}", screen(&outcome));
    let log = project.read("log.jsonl").expect("a log");
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let resumed = |at: usize| log[at]["options"].get("--resume").and_then(Value::as_str);
    let first = log[0]["session_id"].as_str();
    assert!(first.is_some() && resumed(0).is_none() && resumed(1) == first, "{log:?}");
    assert_eq!(log[1]["prompt"].as_str().map(str::trim), Some("Fix more."));
    // Somebody else had the last word, so the session does not know all of it.
    let told = log[2]["prompt"].as_str().unwrap_or_default();
    assert!(resumed(2).is_none() && told.contains("Fix more.") && told.contains("What was it?"), "{told}");
}

/// An agent that notes what it is told and kills Threadline the second time, before it answers.
const KILLER: &str = r#"import os, signal, sys
message = sys.stdin.read()
with open("asked", "a") as log:
    log.write(str(message.count("You answered")) + "\n")
with open("asked") as log:
    if len(log.readlines()) == 2:
        os.kill(os.getppid(), signal.SIGKILL)
print("Fine.")
"#;

#[test]
fn a_kill_neither_loses_nor_repeats_what_was_said_in_a_thread() {
    let project = Project::new();
    project.write("agent.py", KILLER.as_bytes());
    let mut text = "agents: {oracle: {command: [python3, agent.py]}}\nsteps:\n".to_owned();
    for step in 1..=4 {
        let _ = writeln!(text, "  - {{id: s{step}, agent: oracle, thread: talk, message: 'Step {step}.'}}");
    }
    project.write("w.yaml", text.as_bytes());
    project.run(&["run", "w.yaml"], b"");
    assert_eq!(project.read("asked").as_deref(), Some("0\n1\n"));
    // The file that other runs find is gone, as if the kill had come before it was written.
    std::fs::remove_dir_all(project.path().join(".threadline/threads")).expect("the threads");
    let outcome = project.run(&["resume", "last"], b"");
    assert_eq!(outcome.exit, 0, "{}", screen(&outcome));
    assert_eq!(project.read("asked").as_deref(), Some("0\n1\n1\n2\n3\n"));
    let next = project.run(&["run", "w.yaml"], b"");
    assert_eq!(next.exit, 0, "{}", screen(&next));
    assert_eq!(project.read("asked").as_deref(), Some("0\n1\n1\n2\n3\n4\n5\n6\n7\n"));
}

#[test]
fn hostile_names_and_messages_of_threads_are_data() {
    let hostile = "../../$(touch pwned)`touch pwned`'; touch pwned; #\n\u{1b}[31m${cmd:touch pwned}";
    let project = Project::new();
    let text = json!({
        "inputs": {"name": {"type": "text"}},
        "agents": {"echo": {"command": ["cat"]}},
        "steps": [
            {"id": "a", "agent": "echo", "thread": "${inputs.name}", "message": "${inputs.name}"},
            {"id": "b", "agent": "echo", "thread": "${a.result.thread_id}", "message": "${a}"},
            {"id": "c", "shell": "printf %s ${b.result.thread_id}"},
            {"id": "same", "value": "${= c == inputs.name }"}
        ]
    });
    project.write("w.yaml", text.to_string().as_bytes());
    let name = format!("name={hostile}");
    let arguments = ["run", "w.yaml", "--record", "calls", "--input", &name];
    let outcome = project.run(&arguments, b"");
    let told = project.run(&["show", "last", "b"], b"").stdout;
    assert_eq!(outcome.exit, 0, "{}", screen(&outcome));
    assert!(outcome.stdout.contains("true"), "{}", outcome.stdout);
    assert!(project.read("pwned").is_none());
    assert!(!screen(&outcome).contains('\u{1b}') && !told.contains('\u{1b}'), "{told}");
    let threads = files(&project.path().join(".threadline/threads"));
    assert_eq!(threads.len(), 1);
    assert!(
        threads
            .keys()
            .all(|name| name.trim_end_matches(".json").chars().all(|char| char.is_ascii_hexdigit()))
    );
}
