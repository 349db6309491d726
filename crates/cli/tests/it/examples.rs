//! Every example, run as its first line says, against exactly what its steps must leave: statuses, typed values, errors
//! and files. `THREADLINE_UPDATE=1` writes what they left; read the difference.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, Outcome, Project};
use regex::Regex;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The examples that are run, by name.
pub(crate) fn examples() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the examples");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let workflows = folders.filter(|folder| folder.join("workflow.yaml").is_file());
    let mut names: Vec<String> =
        workflows.map(|folder| folder.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn copy(from: &Path, project: &Project, inside: &str) {
    for entry in std::fs::read_dir(from).expect("an example") {
        let path = entry.expect("an entry").path();
        let name = format!("{inside}{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            copy(&path, project, &format!("{name}/"));
        } else {
            project.write(&name, &std::fs::read(&path).expect("a file"));
        }
    }
}

/// What a run left: of each step its status, value and error, in the order of the file.
fn summary(events: &str) -> Value {
    let mut steps: Vec<(String, Value)> = Vec::new();
    let mut is_loop = false;
    for line in events.lines() {
        let event = data::json::read_value(line, &Limits::DEFAULT).expect("a line of JSON");
        // What a called run did is told by the step that called it.
        if event.get("run").is_some() {
            continue;
        }
        let of = |value: &Value, key: &str| value.get(key).cloned();
        let kind = event.get("kind").and_then(Value::as_str).expect("a kind");
        let data = event.get("data").expect("data");
        // Where a state leads, and where a loop ends.
        if kind == "judged" || kind == "run_ended" && data.get("reason").is_some() {
            is_loop = true;
            let keys = ["verdict", "to", "confidence", "outcome", "reason", "state", "limit"];
            let said = keys.iter().filter(|key| kind != "judged" || **key != "reason");
            let said = said.filter_map(|key| Some(((*key).into(), of(data, key)?)));
            let at = of(&event, "at").map(|at| ("at".into(), at));
            let entries = at.into_iter().chain([("kind".into(), kind.into())]).chain(said);
            steps.push((String::new(), Value::object(entries).expect("a summary")));
            continue;
        }
        let Some(at) = event.get("at").and_then(Value::as_str) else { continue };
        // An item tells of itself what a step tells of its output.
        let (output, meta) = match data.get("output") {
            Some(output) => (output, output.get("meta").expect("meta")),
            None if matches!(kind, "item_ended" | "item_retrying") => (data, data),
            None => continue,
        };
        let mut entries = vec![("at".into(), Value::from(at))];
        entries.extend(of(&event, "step").map(|step| ("step".into(), step)));
        entries.push(("kind".into(), kind.into()));
        entries.extend(of(output, "value").map(|value| ("value".into(), value)));
        for key in ["status", "error", "error_type", "reason", "exit_code", "retry_count", "attempts"] {
            entries.extend(of(meta, key).map(|value| (key.into(), value)));
        }
        steps.push((at.to_owned(), Value::object(entries).expect("a summary")));
    }
    // Items and nodes that run at once end in any order; what one left in its attempts stays in order.
    // The states of a loop stay as they were visited.
    if !is_loop {
        steps.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    Value::list(steps.into_iter().map(|(_, step)| step).collect()).expect("a list")
}

/// An example in a folder of its own, and the command that runs it.
pub(crate) fn prepared(name: &str) -> (Project, String) {
    let source = folder().join(name);
    let workflow = std::fs::read_to_string(source.join("workflow.yaml")).expect("the workflow");
    let first = workflow.lines().next().unwrap_or_default();
    let command = first.strip_prefix("# ").unwrap_or_else(|| panic!("{name} does not say how it is run"));
    let project = Project::new();
    copy(&source, &project, "");
    (project, format!("{command} --json"))
}

/// What was left, as it stands in `expected.json`.
pub(crate) fn text_of(exit: i32, events: &str) -> String {
    let varies = [
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,24}", "[UUID]"),
        ("threadline/[a-z0-9]{8}", "threadline/[RUN]"),
        (r#""(duration|latency|waited_ms)": [0-9.]+"#, r#""$1": "[TIME]""#),
        (r#"\blatency(\\?"): ?[0-9.]+"#, "latency$1:[TIME]"),
        (r#""scenario [a-z0-9]{8} "#, r#""scenario [RUN] "#),
    ];
    let left = Value::object([("exit".into(), i64::from(exit).into()), ("steps".into(), summary(events))]);
    let text = left.expect("an object").to_json(JsonStyle::Pretty) + "\n";
    let pattern = |pattern| Regex::new(pattern).expect("a pattern");
    varies
        .into_iter()
        .fold(text, |text, (varying, name)| pattern(varying).replace_all(&text, name).into_owned())
}

/// What an example must leave.
pub(crate) fn expected(name: &str) -> String {
    std::fs::read_to_string(folder().join(name).join("expected.json")).unwrap_or_default()
}

/// What is wrong with what a command of an example left, if anything; and its events are as their schema says.
fn wrong(name: &str, expected: &str, outcome: &Outcome, schema: &jsonschema::Validator) -> Option<String> {
    assert_eq!(outcome.stderr, "", "{name}");
    for line in outcome.stdout.lines() {
        let event = serde_json::from_str(line).expect("a line of JSON");
        let problems: Vec<String> = schema.iter_errors(&event).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{name}: {}\n{line}", problems.join("\n"));
    }
    let seen = text_of(outcome.exit, &outcome.stdout);
    let expected = folder().join(name).join(expected);
    if support::updates() {
        std::fs::write(&expected, &seen).expect("the expectation");
        return None;
    }
    let is_same = std::fs::read_to_string(&expected).unwrap_or_default() == seen;
    (!is_same).then(|| format!("{name} left\n{seen}"))
}

#[test]
fn every_example_leaves_exactly_what_it_must() {
    let schema = Project::new().run(&["schema", "events"], b"").stdout;
    let schema = serde_json::from_str(&schema).expect("a schema is JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema is one");
    let mut failures = Vec::new();
    for name in examples() {
        let (project, command) = prepared(&name);
        failures.extend(wrong(&name, "expected.json", &project.run_line(&command), &schema));
        // Some stop, and go on as their second line says.
        let workflow = project.read("workflow.yaml").unwrap_or_default();
        let second = workflow.lines().nth(1).and_then(|line| line.strip_prefix("# threadline "));
        if let Some(command) = second {
            let resumed = project.run_line(&format!("threadline {command} --json"));
            failures.extend(wrong(&name, "expected-resumed.json", &resumed, &schema));
        }
        // Some are continued with a changed file.
        if let Some(edited) = project.read("edited.yaml") {
            project.write("workflow.yaml", edited.as_bytes());
            let continued = project.run_line("threadline resume last --edited --yes --json");
            failures.extend(wrong(&name, "expected-edited.json", &continued, &schema));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Their steps count their own attempts in a file, so one that is interrupted counts once more.
const COUNT_ATTEMPTS: [&str; 2] = ["expectations", "retry-and-cleanup"];

/// Every event in the long form. By default every third, from another one on in each example, so that all kinds of
/// events have their turn.
fn kill_points(example: usize) -> impl Iterator<Item = usize> {
    let (first, step) = if support::is_long() { (1, 1) } else { (1 + example % 3, 3) };
    (first..1_000).step_by(step)
}

/// Kills an example when it has told of so many events, goes on with it, and compares. Says whether it was still alive.
fn killed_after(name: &str, events: usize) -> bool {
    let (project, command) = prepared(name);
    let (words, _) = support::command_line(&command).expect("a command");
    let mut child = Command::new(env!("CARGO_BIN_EXE_threadline"))
        .args(&words[1..])
        .current_dir(project.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let stdout = BufReader::new(child.stdout.take().expect("its stdout"));
    let told = stdout.lines().take(events).map_while(Result::ok).count();
    child.kill().expect("it can be killed");
    if child.wait().expect("it ends").code().is_some() {
        return false;
    }
    // A loop that has just been stopped by a limit would go on, and one that failed has ended.
    let is_loop = name.starts_with("loop-");
    let shown = if is_loop { project.run_line("threadline show last --json").stdout } else { String::new() };
    let ends = shown.lines().filter(|line| line.contains(r#""run_ended""#) && !line.contains(r#""run":"#));
    if ends.into_iter().any(|end| end.contains(r#""reason":"#) && !end.contains(r#""outcome":"completed""#)) {
        return true;
    }
    let resumed = project.run_line("threadline resume last --in-flight rerun");
    let shown = project.run_line("threadline show last --json");
    let left = text_of(resumed.exit, &shown.stdout);
    let expected = std::fs::read_to_string(folder().join(name).join("expected.json")).expect("it");
    if COUNT_ATTEMPTS.contains(&name) {
        assert_eq!(resumed.exit, 0, "{name} killed after {told} events: {}", resumed.stderr);
    } else {
        assert_eq!(left, expected, "{name} killed after {told} events: {}", resumed.stderr);
    }
    true
}

#[test]
fn every_example_survives_a_kill_after_any_event() {
    let examples: Vec<(usize, String)> = examples().into_iter().enumerate().collect();
    let least = if support::is_long() { 6 } else { 2 };
    std::thread::scope(|threads| {
        for half in 0..2 {
            let mine = examples.iter().skip(half).step_by(2);
            threads.spawn(move || {
                for (number, name) in mine {
                    let kills = kill_points(*number).take_while(|events| killed_after(name, *events)).count();
                    assert!(kills >= least, "{name} was killed only {kills} times");
                }
            });
        }
    });
}

/// The reference says what each example is for.
#[test]
fn every_example_stands_in_the_reference() {
    let page = folder().join("../spec/examples.md");
    let page = std::fs::read_to_string(page).expect("the page about examples");
    assert!(examples().len() >= 8);
    for name in examples() {
        let link = format!("(../examples/{name}/workflow.yaml)");
        assert!(page.contains(&link), "spec/examples.md does not mention {name}");
    }
}
