//! What agents use: counted to the token on the screen and in the journal, for steps, judges, called runs and answers
//! that do not fit; and settings that cannot be used, which are noticed before anything is paid.

use serde_json::{Value, json};

use crate::models::ModelServer;
use crate::support::{Project, report};

/// A project with a key, and what agents of it have in common.
pub(crate) fn project() -> Project {
    let project = Project::new();
    project.write(".env", b"MODEL_KEY=sk-canary-7f3a9c\n");
    project
}

/// The head of a workflow with an agent `model` behind a server.
pub(crate) fn head(server: &ModelServer, settings: &str) -> String {
    let url = server.url();
    format!(
        "env_file: .env\nsecrets: {{KEY: {{env: MODEL_KEY}}}}\nagents:\n  model: {{provider: anthropic, model: m, \
         base_url: \"{url}\", api_key: \"${{secrets.KEY}}\", price: {{input: 3, output: 15}}{settings}}}\n"
    )
}

/// Rules by which every answer reads 1000 tokens and writes 100: 0.0045 dollars.
pub(crate) fn rules(text: &str) -> String {
    json!([{"answer": {"text": text, "usage": {"input": 1000, "output": 100}}}]).to_string()
}

/// Runs a command and gives its exit code and its screen.
pub(crate) fn run(project: &Project, arguments: &[&str]) -> (i32, String) {
    let outcome = project.run(arguments, b"");
    (outcome.exit, format!("{}{}", outcome.stdout, outcome.stderr))
}

/// The only run that `runs --json` lists, with called ones left out.
pub(crate) fn listed(project: &Project) -> Value {
    let (exit, text) = run(project, &["runs", "--json"]);
    assert_eq!(exit, 0, "{text}");
    let runs: Value = serde_json::from_str(&text).expect("JSON");
    runs["runs"][0].clone()
}

/// The sum of what the events of the last run say.
fn sum_of_events(project: &Project) -> u64 {
    let (_, text) = run(project, &["show", "last", "--json"]);
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let spent = events.map(|event| {
        let data = &event["data"];
        let of_event = [&data["output"]["spent"], &data["reply"]["spent"]];
        of_event.into_iter().filter_map(|spent| spent["input_tokens"].as_u64()).sum::<u64>()
    });
    spent.sum()
}

#[test]
fn everything_that_agents_use_is_in_the_summary_and_in_the_list_of_runs() {
    let project = project();
    let server = ModelServer::start(&project, &rules("no idea"));
    let head = head(&server, "");
    project.write(
        "inner.yaml",
        format!("{head}steps:\n  - {{id: inside, agent: model, message: Inside}}\n").as_bytes(),
    );
    // One answer, two that do not fit, and one of a called run.
    let steps = "steps:\n  - {id: ask, agent: model, message: First}\n  - {id: call, workflow: inner.yaml}\n  \
                 - {id: typed, agent: model, message: Second, output: {n: int}, ask_again: 1}\n";
    project.write("w.yaml", format!("{head}{steps}").as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 1, "{screen}");
    assert!(screen.contains("failed: 2 completed, 1 failed in "), "{screen}");
    assert!(screen.contains(", 4400 tokens, $0.018\n"), "{screen}");
    assert!(screen.contains("(2200 tokens, $0.009)"), "what a failed step used: {screen}");
    assert!(screen.contains("│ no idea"), "what it answered: {screen}");
    let spent = json!({"turns": 4, "input_tokens": 4000, "output_tokens": 400, "cost_usd": 0.018, "uncounted": 0,
        "unpriced": 0});
    let mut of_run = listed(&project)["spent"].clone();
    of_run.as_object_mut().map(|of_run| of_run.remove("elapsed_ms"));
    assert_eq!(of_run, spent);
    assert_eq!(sum_of_events(&project), 4000);
    let (_, shown) = run(&project, &["show", "last"]);
    assert!(shown.contains(", 4400 tokens, $0.018\n") && shown.contains("│ no idea"), "{shown}");
    let (_, explained) = run(&project, &["explain", "last", "typed"]);
    assert!(explained.contains("│ no idea"), "{explained}");
    let (_, runs) = run(&project, &["runs"]);
    assert!(runs.contains("  agents\n") && runs.contains("  4400 tokens, $0.018\n"), "{runs}");
    // What failed is done again, and what it uses is added.
    let (_, screen) = run(&project, &["resume", "last"]);
    assert!(screen.contains(", 6600 tokens, $0.027\n"), "{screen}");
    assert_eq!(listed(&project)["spent"]["turns"], 6);
    assert_eq!(sum_of_events(&project), 6000);
}

#[test]
fn a_called_run_that_goes_on_after_a_failure_is_counted_once() {
    let project = project();
    let rules = json!([
        {"when": {"user": "Second", "call": [2]}, "answer": {"error": 400}},
        {"answer": {"text": "yes", "usage": {"input": 1000, "output": 100}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let head = head(&server, "");
    let inner = "steps:\n  - {agent: model, message: First}\n  - {agent: model, message: Second}\n";
    project.write("inner.yaml", format!("{head}{inner}").as_bytes());
    project.write("w.yaml", b"steps: [{workflow: inner.yaml}]\n");
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 1, "{screen}");
    assert_eq!(listed(&project)["spent"]["turns"], 1, "{screen}");
    let (exit, screen) = run(&project, &["resume", "last"]);
    assert_eq!((exit, listed(&project)["spent"]["turns"].clone()), (0, json!(2)), "{screen}");
    assert_eq!(sum_of_events(&project), 2000);
}

#[test]
fn what_a_judge_uses_is_counted() {
    let project = project();
    let verdict = json!({"verdict": "yes", "confidence": 0.9, "reason": "fine"}).to_string();
    let server = ModelServer::start(&project, &rules(&verdict));
    let states = "initial: work\nstates:\n  work:\n    value: 1\n    evaluate: {type: agent, agent: model, \
                  prompt: Is it fine?}\n    on_yes: done\n    on_no: work\n  done: {terminal: success}\n";
    project.write("w.yaml", format!("{}{states}", head(&server, "")).as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 0, "{screen}");
    assert!(screen.contains("(1100 tokens, $0.0045)"), "{screen}");
    assert!(
        screen.lines().any(|line| line.starts_with("completed") && line.ends_with(", 1100 tokens, $0.0045"))
    );
    assert_eq!(listed(&project)["spent"]["turns"], 1);
    assert_eq!(sum_of_events(&project), 1000);
}

#[test]
fn what_is_not_known_is_said_to_be_more() {
    let project = project();
    let rules = json!([
        {"when": {"call": 1}, "answer": {"text": "a", "usage": null}},
        {"answer": {"text": "b", "usage": {"input": 1000, "output": 100}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let steps = "steps:\n  - {agent: model, message: First}\n  - {agent: model, message: Second}\n";
    let file = format!("{}{steps}", head(&server, "")).replace("anthropic", "openai");
    let file = file.replace(server.url(), &format!("{}/v1", server.url()));
    project.write("w.yaml", file.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 0, "{screen}");
    assert!(screen.contains(", at least 1100 tokens, at least $0.0045\n"), "{screen}");
}

#[test]
fn a_setting_that_cannot_be_used_fails_the_step_before_anything_is_paid() {
    let cases = [
        (", temperature: \"${inputs.bad}\"", "warm", "expected a number, got text"),
        (", max_tokens: \"${inputs.bad}\"", "many", "expected a whole number above 0, got text"),
        (", max_tokens: \"${inputs.bad}\"", "0", "expected a whole number above 0, got an int"),
        (", max_turns: \"${inputs.bad}\"", "1.5", "expected a whole number above 0, got a decimal"),
        (
            "price",
            "cheap",
            "expected two numbers of at least 0, as in `{input: 3, output: 15}`, perhaps with",
        ),
        ("price", "{\"input\": -1, \"output\": 1}", "expected two numbers of at least 0"),
        ("url", "models.example", "does not start with `http://` or `https://`"),
        ("url", "ftp://models.example", "does not start with `http://` or `https://`"),
        ("url", "http://", "has no host"),
    ];
    let mut failures = Vec::new();
    for (setting, value, says) in &cases {
        let project = project();
        let server = ModelServer::start(&project, &rules("yes"));
        let written = match *setting {
            "price" => head(&server, "").replace("{input: 3, output: 15}", "\"${inputs.bad}\""),
            "url" => head(&server, "").replace(server.url(), "${inputs.bad}"),
            setting => head(&server, setting),
        };
        let kind = match *value {
            "0" => "int",
            "1.5" => "decimal",
            value if value.starts_with('{') => "object",
            _ => "text",
        };
        let steps = format!(
            "inputs: {{bad: {{type: {kind}}}}}\nsteps:\n  - {{id: ask, agent: model, message: First}}\n"
        );
        project.write("w.yaml", format!("{written}{steps}").as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml", "--input", &format!("bad={value}")]);
        let asked = server.requests().len();
        if exit != 1 || asked != 0 || !screen.contains(says) || screen.contains("again in") {
            failures.push(format!("{setting} {value}: exit {exit}, {asked} requests\n{screen}"));
        }
    }
    report(&failures, cases.len());
}
