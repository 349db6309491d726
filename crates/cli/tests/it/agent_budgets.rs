//! Budgets of agents through the binary: nothing is asked once one is used up, and what was answered is never asked for
//! again when the run goes on.

use serde_json::{Value, json};

use crate::agent_spend::{head, listed, project, rules, run};
use crate::models::ModelServer;
use crate::support::Project;

/// A list of five messages, each 1100 tokens and 0.0045 dollars.
fn five(server: &ModelServer, of_run: &str, of_list: &str) -> String {
    let items = "steps:\n  - id: all\n    foreach: [1, 2, 3, 4, 5]\n    parallel: 1";
    let steps =
        format!("{items}\n{of_list}    do: [{{id: ask, agent: model, message: \"Number ${{item}}\"}}]\n");
    format!("{}{of_run}{steps}", head(server, ""))
}

/// The last user message of every request, as text.
fn asked(server: &ModelServer) -> Vec<String> {
    let requests = server.requests();
    let last = |request: &Value| request["body"]["messages"].as_array().and_then(|all| all.last()).cloned();
    requests.iter().filter_map(last).map(|message| message["content"].to_string()).collect()
}

#[test]
fn a_run_stops_when_its_budget_is_used_up_and_goes_on_with_more() {
    let limits = [
        ("cost: 0.01", "$0.0135 of $0.01", "cost"),
        ("tokens: 3000", "3300 of 3000 tokens", "tokens"),
        ("turns: 3", "3 of 3 turns", "turns"),
    ];
    for (limit, says, key) in limits {
        let project = project();
        let server = ModelServer::start(&project, &rules("fine"));
        project.write("w.yaml", five(&server, &format!("budget: {{{limit}}}\n"), "").as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml"]);
        assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
        assert!(screen.contains(&format!("paused: the budget of the run is used up: {says}")), "{screen}");
        let go_on = format!("--budget {key}=...` goes on");
        assert!(screen.contains(&go_on), "{screen}");
        assert_eq!(listed(&project)["status"], "paused");
        assert_eq!(listed(&project)["spent"]["turns"], 3);
        // Nothing is asked as long as nobody gives more.
        let (exit, screen) = run(&project, &["resume", "last"]);
        assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
        let (exit, screen) = run(&project, &["resume", "last", "--budget", &format!("{key}=100000")]);
        assert_eq!((exit, server.requests().len()), (0, 5), "{screen}");
        assert!(screen.contains(&format!("resumed, budget {key}=100000")), "{screen}");
        assert!(screen.contains(", 5500 tokens, $0.0225\n"), "{screen}");
        let mut messages = asked(&server);
        messages.sort();
        messages.dedup();
        assert_eq!(messages.len(), 5, "no message was sent twice: {messages:?}");
    }
}

#[test]
fn a_list_and_a_step_have_budgets_of_their_own() {
    let project = project();
    let server = ModelServer::start(&project, &rules("fine"));
    project.write("w.yaml", five(&server, "", "    budget: {turns: 2}\n").as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "{screen}");
    assert!(screen.contains("the budget of `all` is used up: 2 of 2 turns"), "{screen}");
    let (exit, screen) =
        run(&project, &["resume", "last", "--budget", "all.turns=4", "--budget", "cost=0.0001"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "the run has a budget now, too: {screen}");
    assert!(screen.contains("the budget of the run is used up: $0.009 of $0.0001"), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "all.turns=9", "--budget", "cost=1"]);
    assert_eq!((exit, server.requests().len()), (0, 5), "{screen}");
}

#[test]
fn a_conversation_that_is_stopped_goes_on_behind_what_was_said() {
    let project = project();
    let rules = json!([
        {"when": {"call": 1}, "answer": {"text": "no idea", "usage": {"input": 1000, "output": 100}}},
        {"answer": {"text": "{\"n\": 7}", "usage": {"input": 1000, "output": 100}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let steps = "steps:\n  - {id: ask, agent: model, message: How many?, output: {n: int}, budget: {turns: 1}}\n  - \
                 {id: seen, value: \"${ask.result.output.n}\"}\n";
    project.write("w.yaml", format!("{}{steps}", head(&server, "")).as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 1), "{screen}");
    assert!(screen.contains("the budget of `ask` is used up: 1 of 1 turn"), "{screen}");
    // Nobody has to decide what becomes of a call that was over.
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "ask.turns=2"]);
    assert_eq!((exit, server.requests().len()), (0, 2), "{screen}");
    assert!(!screen.contains("crash"), "{screen}");
    assert!(screen.contains("→ 7 (int)"), "{screen}");
    assert!(asked(&server)[1].contains("cannot be used"), "{:?}", asked(&server));
    assert_eq!(listed(&project)["spent"]["turns"], 2);
}

#[test]
fn called_runs_count_into_the_budget_of_their_caller() {
    let project = project();
    let server = ModelServer::start(&project, &rules("fine"));
    let inner = "steps:\n  - {agent: model, message: First}\n  - {agent: model, message: Second}\n";
    project.write("inner.yaml", format!("{}{inner}", head(&server, "")).as_bytes());
    let outer = "budget: {turns: 3}\nsteps:\n  - id: all\n    foreach: [1, 2, 3]\n    parallel: 2\n    do: [{workflow: \
                 inner.yaml}]\n";
    project.write("w.yaml", outer.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
    assert!(screen.contains("the budget of the run is used up: 3 of 3 turns"), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=5"]);
    assert_eq!((exit, server.requests().len()), (4, 5), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=50"]);
    assert_eq!((exit, server.requests().len()), (0, 6), "{screen}");
    assert!(screen.contains(", 6600 tokens, $0.027\n"), "{screen}");
}

#[test]
fn what_called_runs_have_spent_is_known_before_any_of_them_goes_on() {
    let project = project();
    let server = ModelServer::start(&project, &rules("fine"));
    let inner = "steps:\n  - {agent: model, message: First}\n  - {agent: model, message: Second}\n";
    project.write("inner.yaml", format!("{}{inner}", head(&server, "")).as_bytes());
    let middle = "steps: [{workflow: inner.yaml}]\n";
    project.write("middle.yaml", middle.as_bytes());
    let outer = "budget: {turns: 3}\nsteps:\n  - id: all\n    foreach: [1, 2, 3]\n    parallel: 3\n    do: [{workflow: \
                 middle.yaml}]\n";
    project.write("w.yaml", outer.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last"]);
    assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=4"]);
    assert_eq!((exit, server.requests().len()), (4, 4), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=7"]);
    assert_eq!((exit, server.requests().len()), (0, 6), "{screen}");
}

#[test]
fn judges_count_into_the_budget() {
    let project = project();
    let verdict = json!({"verdict": "no", "confidence": 0.9, "reason": "not yet"}).to_string();
    let server = ModelServer::start(&project, &rules(&verdict));
    let states = "budget: {turns: 2}\ninitial: work\nstates:\n  work:\n    value: 1\n    evaluate: {type: agent, agent: \
                  model, prompt: Is it fine?}\n    on_yes: done\n    on_no: work\n  done: {terminal: success}\n";
    project.write("w.yaml", format!("{}{states}", head(&server, "")).as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=3"]);
    assert_eq!((exit, server.requests().len()), (4, 3), "{screen}");
}

#[test]
fn a_cost_that_is_not_known_cannot_be_kept() {
    let project = project();
    let server = ModelServer::start(&project, &rules("fine"));
    let file = five(&server, "budget: {cost: 5}\n", "").replace(", price: {input: 3, output: 15}", "");
    project.write("w.yaml", file.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 1), "{screen}");
    let says = "the budget of the run cannot be kept: the cost of 1 message is not known";
    assert!(screen.contains(says), "{screen}");
}

#[test]
fn a_budget_on_the_command_line_is_checked() {
    let project: Project = project();
    let server = ModelServer::start(&project, &rules("fine"));
    project.write("w.yaml", five(&server, "", "").as_bytes());
    for (given, says) in [
        ("cost", "write `KEY=LIMIT` or `STEP.KEY=LIMIT`, such as `cost=5`"),
        ("costs=5", "a budget has no limit `costs`: it has turns, tokens, cost, time; did you mean `cost`"),
        ("cost=cheap", "`cost` takes a number of US dollars above 0, not `cheap`"),
        ("turns=0", "`turns` takes a whole number above 0, not `0`"),
        ("time=5 apples", "`time` takes a duration above 0, such as `30m`, not `5 apples`"),
        ("al.turns=5", "there is no step `al`; did you mean `all`"),
    ] {
        let (exit, screen) = run(&project, &["run", "w.yaml", "--budget", given]);
        assert!(exit == 2 && screen.contains(says), "{given}: {exit} {screen}");
    }
    assert!(server.requests().is_empty());
    let (exit, screen) =
        run(&project, &["run", "w.yaml", "--budget", "all.ask.turns=1", "--budget", "turns=4"]);
    assert_eq!(exit, 2, "{screen}");
    let (exit, screen) = run(&project, &["run", "w.yaml", "--budget", "ask.turns=1", "--budget", "turns=4"]);
    assert_eq!((exit, server.requests().len()), (4, 4), "each item may ask once: {screen}");
}
