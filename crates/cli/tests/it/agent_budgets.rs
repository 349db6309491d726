//! Budgets of agents through the binary: nothing is asked once one is used up, and what was answered is never asked for
//! again when the run goes on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent_spend::{head, listed, project, rules, run};
use crate::models::ModelServer;
use crate::support::{PATIENCE, Project};

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
    // Whoever gives another budget has seen that, and gets one more answer.
    let (exit, screen) = run(&project, &["resume", "last"]);
    assert_eq!((exit, server.requests().len()), (4, 1), "{screen}");
    let (exit, screen) = run(&project, &["resume", "last", "--budget", "cost=6"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "{screen}");
    assert!(screen.contains(says), "{screen}");
}

/// A workflow with one step that asks a model of a protocol.
fn one_step(server: &ModelServer, (provider, path): (&str, &str), settings: &str, step: &str) -> String {
    let head = head(server, settings).replace("provider: anthropic", &format!("provider: {provider}"));
    let head = head.replace(server.url(), &format!("{}{path}", server.url()));
    format!("{head}steps: [{{id: ask, agent: model, message: How many?{step}}}]\n")
}

const PROTOCOLS: [(&str, &str); 2] = [("anthropic", ""), ("openai", "/v1")];

/// What breaks off is paid for: the provider was asked, and counts what it wrote by then.
#[test]
fn an_answer_that_breaks_off_counts() {
    let long = "a rather long answer of which only half arrives";
    let usage = json!({"input": 1000, "output": 100});
    let cut = |wire: Value| json!({"text": long, "usage": usage, "wire": wire}).to_string();
    // A limit that three calls reach, of five that are made without one. What `openai` used it says only at the end.
    let (tokens, turns) = ("tokens: 2500", "turns: 3");
    for (name, answer, settings, limits) in [
        ("cut", cut(json!({"cut": {"after_events": 4}})), "", [tokens, turns]),
        ("reset", cut(json!({"cut": {"after_events": 4, "how": "reset"}})), "", [tokens, turns]),
        (
            "an error in the stream",
            json!({"text": long, "usage": usage, "stream_error": {"after": 4, "error": "overloaded"}})
                .to_string(),
            "",
            [tokens, turns],
        ),
        ("malformed", cut(json!({"malformed": "json", "malformed_at": 4})), "", [tokens, turns]),
        ("no end", cut(json!({"malformed": "end"})), "", [tokens, turns]),
        (
            "too late",
            cut(json!({"gate": {"file": "never", "after": 4}})),
            ", timeout: 500ms",
            [tokens, turns],
        ),
        (
            "silent",
            cut(json!({"gate": {"file": "never", "head": true}})),
            ", timeout: 500ms, max_tokens: 900",
            [tokens, tokens],
        ),
    ] {
        for (protocol, limit) in PROTOCOLS.into_iter().zip(limits) {
            let project = project();
            let server = ModelServer::start(&project, &format!("[{{\"answer\": {answer}}}]"));
            let file = one_step(&server, protocol, settings, "");
            project.write("w.yaml", format!("budget: {{{limit}}}\n{file}").as_bytes());
            let (exit, screen) = run(&project, &["run", "w.yaml"]);
            let of = protocol.0;
            assert_eq!((exit, server.requests().len()), (4, 3), "{name} of {of}: {screen}");
            assert!(screen.contains("about ") && screen.contains('$'), "{name} of {of}: {screen}");
            let spent = listed(&project)["spent"].clone();
            assert_eq!(
                (&spent["turns"], &spent["estimated"]),
                (&json!(3), &json!(3)),
                "{name} of {of}: {spent}"
            );
            if of == "anthropic" && name != "silent" {
                assert_eq!(spent["input_tokens"], 3000, "{name}: what was reported counts as it is");
            }
        }
    }
}

/// A request that was refused, or that nobody heard of, is not paid for.
#[test]
fn a_request_that_is_not_answered_costs_nothing() {
    let project = project();
    let server = ModelServer::start(&project, &json!([{"answer": {"error": 529}}]).to_string());
    let retry = ", retry: {attempts: 3, delay: 1ms}";
    project.write(
        "w.yaml",
        format!("budget: {{turns: 1}}\n{}", one_step(&server, PROTOCOLS[0], "", retry)).as_bytes(),
    );
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (1, 3), "{screen}");
    assert_eq!(listed(&project)["spent"]["turns"], 0, "{screen}");
    let file = project.read("w.yaml").expect("the file");
    drop(server);
    project.write("w.yaml", file.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 1, "nobody is there any more: {screen}");
    assert_eq!(listed(&project)["spent"]["turns"], 0, "{screen}");
}

#[test]
fn what_a_judge_does_not_say_to_the_end_counts() {
    let project = project();
    let rules = json!([{"answer": {"text": "{\"verdict\": \"yes\"}", "usage": {"input": 1000, "output": 100},
        "wire": {"cut": {"after_events": 4}}}}]);
    let server = ModelServer::start(&project, &rules.to_string());
    let states = "budget: {tokens: 1500}\ninitial: work\nstates:\n  work:\n    value: 1\n    evaluate: {type: agent, \
                  agent: model, prompt: Is it fine?}\n    on_yes: done\n    on_no: work\n  done: {terminal: success}\n";
    project.write("w.yaml", format!("{}{states}", head(&server, "")).as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!((exit, server.requests().len()), (4, 2), "{screen}");
    assert_eq!(listed(&project)["spent"]["input_tokens"], 2000, "{screen}");
}

/// Runs a workflow and kills it when a stand-in waits at a gate.
pub(crate) fn killed_at(project: &Project, arguments: &[&str], gate: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(arguments).current_dir(project.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("threadline starts");
    let reached = project.path().join(format!("{gate}.reached"));
    let began = Instant::now();
    while !Path::new(&reached).exists() {
        assert!(began.elapsed() < PATIENCE, "nobody asks");
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it was asked");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("a child can be killed");
    child.wait().expect("a killed child ends");
    std::fs::remove_file(&reached).expect("the file is there");
}

/// A call that a kill cuts off is paid for, whatever becomes of its step.
#[test]
fn a_call_in_flight_at_a_kill_counts() {
    let rules = json!([{"answer": {"text": "fine", "usage": {"input": 1000, "output": 100}, "wire": {"gate": {"file": "gate", "head": true}}}}]);
    let state = "initial: work\nstates:\n  work:\n    value: 1\n    evaluate: {type: agent, agent: model, prompt: Fine?}\n    \
                 on_yes: done\n    on_no: done\n    on_error: done\n  done: {terminal: success}\n";
    for (what, is_judge, decision) in
        [("done again", false, "rerun"), ("not done again", false, "fail"), ("a judge", true, "rerun")]
    {
        let project = project();
        let server = ModelServer::start(&project, &rules.to_string());
        let file = if is_judge {
            format!("{}{state}", head(&server, ", max_tokens: 300"))
        } else {
            one_step(&server, PROTOCOLS[0], ", max_tokens: 300", "")
        };
        project.write("w.yaml", format!("budget: {{turns: 1}}\n{file}").as_bytes());
        killed_at(&project, &["run", "w.yaml"], "gate");
        project.write("gate", b"");
        let (exit, screen) = run(&project, &["resume", "last", "--in-flight", decision]);
        assert_eq!(server.requests().len(), 1, "{what}: the only turn was taken: {screen}");
        assert_eq!(exit, if decision == "fail" { 1 } else { 4 }, "{what}: {screen}");
        let spent = listed(&project)["spent"].clone();
        let counts = (&spent["turns"], &spent["output_tokens"], &spent["estimated"]);
        assert_eq!(counts, (&json!(1), &json!(300), &json!(1)), "{what}: {spent} {screen}");
        if decision == "fail" {
            continue;
        }
        // That it is counted is written once, however often somebody looks.
        for _ in 0..2 {
            let (exit, screen) = run(&project, &["resume", "last"]);
            assert_eq!((exit, server.requests().len()), (4, 1), "{what}: {screen}");
        }
        let (exit, screen) = run(&project, &["resume", "last", "--budget", "turns=2"]);
        assert_eq!((exit, server.requests().len()), (0, 2), "{what}: {screen}");
        assert_eq!(listed(&project)["spent"]["turns"], 2, "{what}: {screen}");
    }
}

/// A budget that ends in a workflow which an agent, or a step, calls: the run goes on there.
#[test]
fn a_run_goes_on_in_a_workflow_that_an_agent_calls() {
    let inner = |server: &ModelServer| {
        format!(
            "{}inputs: {{n: {{type: int}}}}\nsteps:\n  - {{agent: model, message: First}}\n  - {{id: second, agent: model, message: Second}}\nexports: {{said: \"${{second.result.final_response}}\"}}\n",
            head(server, "")
        )
    };
    let usage = json!({"input": 1000, "output": 100});
    let rules = json!([
        {"when": {"tool_result": true}, "answer": {"text": "It is done.", "usage": usage}},
        {"when": {"user": "Ask around"}, "answer": {"text": "I ask.", "usage": usage, "tools": [{"name": "inner", "input": {"n": 1}}]}},
        {"answer": {"text": "fine", "usage": usage}}
    ]);
    // Which is the last message that the budget allows, of four.
    for (limit, most) in
        [("turns: 1", 1), ("turns: 2", 2), ("cost: 0.009", 2), ("tokens: 3300", 3), ("cost: 0.0135", 3)]
    {
        let project = project();
        let server = ModelServer::start(&project, &rules.to_string());
        project.write("inner.yaml", inner(&server).as_bytes());
        let head = head(&server, ", tools: [{workflow: inner.yaml}]");
        let steps = "steps: [{id: ask, agent: model, message: Ask around.}]\n";
        project.write("w.yaml", format!("{head}budget: {{{limit}}}\n{steps}").as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml"]);
        assert_eq!((exit, server.requests().len()), (4, most), "{limit}: {screen}");
        let (exit, screen) = run(&project, &["resume", "last"]);
        assert_eq!((exit, server.requests().len()), (4, most), "{limit}, nobody gives more: {screen}");
        assert!(screen.contains("the budget of the run is used up"), "{limit}: {screen}");
        let key = limit.split(':').next().expect("a key");
        let (exit, screen) = run(&project, &["resume", "last", "--budget", &format!("{key}=100000")]);
        assert_eq!((exit, server.requests().len()), (0, 4), "{limit}: {screen}");
        assert!(
            screen.contains("It is done.") && screen.contains(", 4400 tokens, $0.018\n"),
            "{limit}: {screen}"
        );
        assert!(!screen.contains("crash"), "{limit}: {screen}");
    }
}

/// Lists, judges, retried calls and called runs, whose answers break off: the stand-in counts what it was really asked.
#[test]
fn a_limit_is_exceeded_by_no_more_than_what_was_in_flight() {
    for (number, limit, most) in
        [(0_u64, "turns: 7", 7_000_u32), (1, "tokens: 5000", 5_000), (2, "cost: 0.03", 5_000)]
    {
        let project = project();
        // Three of the first answers are cut, fewer than a step has attempts. What is read is always 1000 tokens, and what
        // is written is short.
        let cut: Vec<u64> = (1..10).filter(|call| (call + number).is_multiple_of(3)).collect();
        let rules = json!([
            {"when": {"call": cut}, "answer": {"text": "a long answer that is cut", "usage": {"input": 1000, "output": 9}, "wire": {"cut": {"after_events": 4}}}},
            {"when": {"user": "Is it"}, "answer": {"text": "{\"verdict\": \"yes\", \"reason\": \"fine\"}", "usage": {"input": 1000, "output": 9}}},
            {"answer": {"text": "fine", "usage": {"input": 1000, "output": 9}}}
        ]);
        let server = ModelServer::start(&project, &rules.to_string());
        let retry = "retry: {attempts: 4, delay: 1ms}";
        let inner = format!(
            "{}initial: work\nstates:\n  work:\n    agent: model\n    message: Work\n    {retry}\n    evaluate: {{type: agent, agent: model, prompt: Is it fine?}}\n    on_yes: done\n    on_no: done\n  done: {{terminal: success}}\n",
            head(&server, "")
        );
        project.write("inner.yaml", inner.as_bytes());
        let (parallel, jobs) = (3, 3);
        let outer = format!(
            "{}budget: {{{limit}}}\nsteps:\n  - foreach: [1, 2, 3, 4, 5, 6]\n    parallel: {parallel}\n    do:\n      - {{agent: model, message: Begin, {retry}}}\n      - {{workflow: inner.yaml}}\n",
            head(&server, "")
        );
        project.write("w.yaml", outer.as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml"]);
        assert_eq!(exit, 4, "{limit}: {screen}");
        let asked = u32::try_from(server.requests().len()).expect("a few");
        if limit.starts_with("turns") {
            assert_eq!(asked, most / 1_000, "{screen}");
        } else {
            // Of 1000 tokens each, all but those in flight were over before the limit.
            let reached =
                if limit.starts_with("cost") { 0.03 / 0.003_135 } else { f64::from(most) / 1_009.0 };
            assert!(
                f64::from(asked) <= reached.ceil() + f64::from(jobs - 1)
                    && f64::from(asked) >= reached.floor(),
                "{limit}: {asked} requests, {reached} reach it: {screen}"
            );
        }
        let (exit, screen) = run(
            &project,
            &["resume", "last", "--budget", "turns=500", "--budget", "tokens=500000", "--budget", "cost=500"],
        );
        assert_eq!(exit, 0, "{limit}: {screen}");
        assert_eq!(
            listed(&project)["spent"]["turns"],
            json!(server.requests().len()),
            "{limit}: every request is a turn: {screen}"
        );
    }
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
