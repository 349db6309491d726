//! Agents behind the protocols of models: asked for real, over loopback, with every way in which an answer can go
//! wrong. The servers are checked against the libraries of the vendors in [`crate::models`].

use serde_json::{Value, json};

use crate::models::{ModelServer, stand_ins};
use crate::support::{Project, report};

/// A key that must be found nowhere but in requests.
const SECRET: &str = "sk-canary-7f3a9c";

/// The two protocols, with what stands behind the address in `base_url` of each.
const PROTOCOLS: [(&str, &str); 2] = [("anthropic", ""), ("openai", "/v1")];

/// Asks a model, and writes what came of it into `out.json`. `step` has more keys of the step.
fn ask(project: &Project, server: &ModelServer, (provider, path): (&str, &str), step: &str) -> (i32, String) {
    let url = server.url();
    let text = format!(
        r"env_file: .env
secrets: {{KEY: {{env: MODEL_KEY}}}}
agents:
  model:
    provider: {provider}
    model: test-model
    base_url: {url}{path}/
    api_key: ${{secrets.KEY}}
    system: You are brief.
    max_tokens: 100
    price: {{input: 3, output: 15}}
steps:
  - id: ask
    agent: model
    message: How many?
{step}
  - write_file:
      path: out.json
      format: json
      content:
        text: ${{ask.result.final_response}}
        output: ${{ask.result.output | default(null)}}
        messages: ${{ask.result.messages_created}}
        tokens: ${{ask.meta.total_tokens | default(null)}}
        cost: ${{ask.meta.total_cost_usd | default(null)}}
        model: ${{ask.meta.model_used}}
        retries: ${{ask.meta.retry_count}}
"
    );
    project.write(".env", format!("MODEL_KEY={SECRET}\n").as_bytes());
    project.write("w.yaml", text.as_bytes());
    let outcome = project.run(&["run", "w.yaml"], b"");
    (outcome.exit, format!("{}{}", outcome.stdout, outcome.stderr))
}

/// What the workflow wrote.
fn written(project: &Project) -> Value {
    project.read("out.json").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

struct Trial {
    name: &'static str,
    rules: Value,
    step: &'static str,
    exit: i32,
    /// A part of the screen.
    says: &'static str,
    requests: usize,
}

fn trial(
    name: &'static str,
    rules: Value,
    step: &'static str,
    exit: i32,
    says: &'static str,
    requests: usize,
) -> Trial {
    Trial { name, rules, step, exit, says, requests }
}

/// Tries again at once.
const RETRY: &str = "    retry: {attempts: 4, delay: 1ms}";

fn trials() -> Vec<Trial> {
    let text = |text: &str| json!([{"answer": {"text": text}}]);
    let wire = |wire: Value| json!([{"answer": {"text": "Zwölf – twelve", "wire": wire}}]);
    let once = |answer: Value| json!([{"times": 1, "answer": answer}, {"answer": {"text": "12"}}]);
    let always = |answer: Value| json!([{"answer": answer}]);
    vec![
        trial("text", text("twelve"), "", 0, "→ \"twelve\"", 1),
        trial("one byte at a time", wire(json!({"chunk": 1})), "", 0, "Zwölf – twelve", 1),
        trial("CRLF", wire(json!({"newline": "crlf", "chunk": 3})), "", 0, "Zwölf – twelve", 1),
        trial("CR", wire(json!({"newline": "cr"})), "", 0, "Zwölf – twelve", 1),
        trial("comments", wire(json!({"comments": true})), "", 0, "Zwölf – twelve", 1),
        trial("rate limit", once(json!({"error": 429, "headers": {"retry-after": "0"}})), RETRY, 0, "429", 2),
        trial("500", once(json!({"error": 500})), RETRY, 0, "the provider answered 500", 2),
        trial(
            "cut in the middle",
            once(json!({"text": "a longer answer", "wire": {"cut": {"after_bytes": 200}}})),
            RETRY,
            0,
            "again in",
            2,
        ),
        trial(
            "malformed",
            once(json!({"text": "x", "wire": {"malformed": "json"}})),
            RETRY,
            0,
            "cannot be read",
            2,
        ),
        trial("not found", always(json!({"error": 404})), "", 1, "the provider answered 404", 1),
        trial("bad request", always(json!({"error": 400})), "", 1, "the provider answered 400", 1),
        trial(
            "wrong key",
            json!({"rules": [{"answer": {"text": "x"}}], "keys": ["other"]}),
            "",
            1,
            "the provider answered 401",
            1,
        ),
        trial(
            "no more than it may",
            always(json!({"error": 500})),
            "    retry: {attempts: 3, delay: 1ms}",
            1,
            "the provider answered 500",
            3,
        ),
        trial("refusal", always(json!({"refusal": "I will not."})), "", 1, "the model refuses to answer", 1),
        trial(
            "cut off",
            always(json!({"text": "tw", "stop": "max_tokens"})),
            "",
            1,
            "cut off at `max_tokens`",
            1,
        ),
        trial(
            "typed",
            text("{\"count\": 12, \"why\": \"eggs\"}"),
            "    output: {count: int, why: text}",
            0,
            "→ {\"count\":12,\"why\":\"eggs\"}",
            1,
        ),
        trial(
            "asked again",
            json!([{"when": {"call": 1}, "answer": {"text": "{\"count\": \"many\"}"}},
            {"when": {"user": "cannot be used"}, "answer": {"text": "{\"count\": 12}"}}]),
            "    output: {count: int}",
            0,
            "asked again",
            2,
        ),
        trial(
            "never fits",
            text("no idea"),
            "    output: {count: int}\n    ask_again: 1",
            1,
            "(asked twice)",
            2,
        ),
    ]
}

#[test]
fn every_answer_of_a_provider_is_an_answer_or_a_failure() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for protocol in PROTOCOLS {
        for Trial { name, rules, step, exit, says, requests } in trials() {
            count += 1;
            let project = Project::new();
            let server = ModelServer::start(&project, &rules.to_string());
            let (code, screen) = ask(&project, &server, protocol, step);
            let asked = server.requests();
            let mut wrong = Vec::new();
            if code != exit {
                wrong.push(format!("exit code {code}, not {exit}"));
            }
            if !screen.contains(says) {
                wrong.push(format!("the screen does not say {says:?}"));
            }
            if asked.len() != requests {
                wrong.push(format!("{} requests, not {requests}", asked.len()));
            }
            if screen.contains(SECRET) {
                wrong.push("the key is on the screen".to_owned());
            }
            if !wrong.is_empty() {
                let problems: Vec<&Value> = asked.iter().map(|line| &line["problem"]).collect();
                failures.push(format!("{} {name}: {wrong:?}\n{screen}\n{problems:?}", protocol.0));
            }
        }
    }
    report(&failures, count);
}

#[test]
fn what_an_answer_used_is_counted_and_priced_exactly() {
    for protocol in PROTOCOLS {
        let project = Project::new();
        let usage = json!({"input": 1200, "output": 50});
        let rules = json!([
            {"when": {"call": 1}, "answer": {"text": "twelve", "usage": usage}},
            {"answer": {"text": "{\"count\": 12}", "usage": usage}}
        ]);
        let server = ModelServer::start(&project, &rules.to_string());
        let (code, screen) = ask(&project, &server, protocol, "    output: {count: int}");
        assert_eq!(code, 0, "{screen}");
        let written = written(&project);
        assert_eq!(written["output"], json!({"count": 12}), "{written}");
        assert_eq!(written["messages"], 2);
        assert_eq!(written["tokens"], 2500);
        // 2400 tokens at 3 dollars a million and 100 at 15.
        assert_eq!(written["cost"].to_string(), "0.0087");
        assert_eq!(written["model"], "test-model");
        assert!(screen.contains("(2500 tokens, $0.0087)"), "{screen}");
    }
}

#[test]
fn a_request_says_what_the_workflow_says_and_the_key_is_nowhere_else() {
    for protocol in PROTOCOLS {
        let project = Project::new();
        let rules = json!([{"answer": {"text": "{\"count\": 12}"}}]);
        let server = ModelServer::start(&project, &rules.to_string());
        let (code, screen) = ask(&project, &server, protocol, "    output: {count: int}");
        assert_eq!(code, 0, "{screen}");
        let asked = server.requests();
        let [request] = &asked[..] else { panic!("{asked:?}") };
        let (headers, body) = (&request["headers"], &request["body"]);
        let system = if protocol.0 == "anthropic" {
            assert_eq!(headers["x-api-key"], SECRET);
            assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "answer"}));
            &body["system"]
        } else {
            assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
            assert_eq!(body["response_format"]["json_schema"]["strict"], true);
            &body["messages"][0]["content"]
        };
        assert_eq!(system, "You are brief.");
        assert_eq!(body["model"], "test-model");
        assert_eq!(body["stream"], true);
        let last = body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
        assert_eq!(last["content"], "How many?", "the form is asked for by the API, not in words");
        for entry in std::fs::read_dir(project.path().join(".threadline")).expect("a store") {
            let path = entry.expect("a file").path();
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
            assert!(!found, "the key is in {}", path.display());
        }
    }
}

/// The rows of a table of a page, from the heading of its second column on: the code of the first column, and the
/// second column.
fn rows(page: &str, heading: &str) -> Vec<(String, String)> {
    let table = page.split(&format!("| {heading} |\n|---|---|\n")).nth(1).expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let line = line.trim_start_matches("| ").trim_end_matches(" |").replace("\\|", "\0");
        let (answer, what) = line.split_once(" | ").expect("two columns");
        let code = |text: &str| text.trim_matches('`').trim().to_owned();
        let what = if what.starts_with("`{") { code(what) } else { what.to_owned() };
        (code(answer).replace('\0', "|"), what.replace('\0', "|"))
    };
    rows.map(row).collect()
}

#[test]
fn an_answer_is_what_the_reference_says() {
    let page = std::fs::read_to_string(stand_ins().join("../../../../spec/agents.md")).expect("the page");
    let (fit, unfit) = (rows(&page, "value"), rows(&page, "the answer …"));
    assert!(fit.len() + unfit.len() >= 60, "{} and {}", fit.len(), unfit.len());
    let project = Project::new();
    let answers: Vec<Value> = fit
        .iter()
        .chain(&unfit)
        .map(|(answer, _)| serde_json::from_str(answer).unwrap_or_else(|error| panic!("{answer}: {error}")))
        .collect();
    let recorded: Vec<Value> = answers
        .iter()
        .enumerate()
        .map(|(at, answer)| json!({"message": format!("question {at}"), "answers": [answer, "never mind"]}))
        .collect();
    let items: Vec<usize> = (0..answers.len()).collect();
    project.write("answers.json", json!(recorded).to_string().as_bytes());
    project.write("items.json", json!(items).to_string().as_bytes());
    project.write(
        "w.yaml",
        b"agents: {oracle: {provider: replay, file: answers.json}}
map:
  input: items.json
  steps:
    - agent: oracle
      message: question ${item}
      output: {score: int, reason: text, tags: [text], note?: text}
      ask_again: 1
error_policy: {continue_on_failure: true}
reduce:
  - write_file: {path: out.json, content: \"${map.results}\", format: json}
",
    );
    let outcome = project.run(&["run", "w.yaml"], b"");
    let results: Vec<Value> = project
        .read("out.json")
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(|| panic!("{}{}", outcome.stdout, outcome.stderr));
    let told = project.run(&["show", "last", "--json"], b"").stdout;
    let asked_again = |at: usize| {
        let place = format!("map[{at}]/1");
        let events = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = events.filter(|event| event["at"] == place.as_str() && event["kind"] == "exchanged");
        found
            .next()
            .map(|event| event["data"]["output"]["meta"]["reason"].as_str().unwrap_or_default().to_owned())
    };
    let mut failures = Vec::new();
    for (at, ((answer, expected), result)) in fit.iter().chain(&unfit).zip(&results).enumerate() {
        let why = asked_again(at);
        let found = if at < fit.len() {
            let expected: Value = serde_json::from_str(expected).expect("a value");
            (result["value"]["output"] == expected && why.is_none()).then_some(())
        } else {
            (why.as_ref() == Some(expected) && result["status"] == "failed").then_some(())
        };
        if found.is_none() {
            failures.push(format!("{answer}: {expected}, not {} {why:?}", result["value"]["output"]));
        }
    }
    report(&failures, results.len());
}

#[test]
fn claude_code_answers_with_its_cost_and_session() {
    let project = Project::new();
    let rules = json!([{"answer": {"text": "done: {\"files\": 3}", "cost": 0.25, "usage": {"input": 100, "output": 20}}}]);
    project.write("rules.json", rules.to_string().as_bytes());
    let program = stand_ins().join("claude");
    let text = format!(
        "agents:\n  coder:\n    provider: claude\n    program: [{}]\n    model: opus\n    allowed_tools: [Read, \"Bash(git log:*)\"]\n    \
         max_turns: 4\nenv: {{CLAUDE_STAND_IN: {}}}\nsteps:\n  - id: fix\n    agent: coder\n    message: Fix it.\n    \
         output: {{files: int}}\n  - id: say\n    shell: echo \"${{fix.result.output.files}} ${{fix.meta.total_cost_usd}} ${{fix.result.thread_id}}\"\n",
        program.display(),
        project.path().display(),
    );
    project.write("w.yaml", text.as_bytes());
    let outcome = project.run(&["run", "w.yaml"], b"");
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    let screen = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(screen.contains("→ {\"files\":3}  (120 tokens, $0.25)"), "{screen}");
    let log: Value = serde_json::from_str(&project.read("log.jsonl").expect("a log")).expect("JSON");
    assert_eq!(log["options"]["--allowedTools"], json!(["Read", "Bash(git log:*)"]));
    assert!(screen.contains("→ \"3 0.25 "), "{screen}");
}

/// Tools that Claude Code called itself are part of what it leaves, also those before an answer that did not fit.
#[test]
fn what_claude_code_called_is_listed() {
    let project = Project::new();
    let again =
        json!({"text": "{\"files\": 3}", "steps": [{"tool": "Read", "input": {"path": "a"}, "output": "A"}]});
    let first = json!({"text": "three", "steps": [
        {"tool": "Grep", "input": {"pattern": "x", "deep": [[1]]}, "output": [{"type": "text", "text": "a:1"}, {"type": "text", "text": "b:2"}]},
        {"tool": "Bash", "input": {"command": "rm -rf ."}},
    ]});
    let rules = json!([{"when": {"user": "cannot be used"}, "answer": again}, {"answer": first}]);
    project.write("rules.json", rules.to_string().as_bytes());
    let text = format!(
        "agents: {{coder: {{provider: claude, program: [{}]}}}}\nenv: {{CLAUDE_STAND_IN: {}}}\nsteps:\n  - id: fix\n    agent: coder\n    \
         message: Fix it.\n    output: {{files: int}}\n  - write_file: {{path: out.json, format: json, content: \"${{fix.result.tool_calls}}\"}}\n",
        stand_ins().join("claude").display(),
        project.path().display(),
    );
    project.write("w.yaml", text.as_bytes());
    for arguments in [["run", "w.yaml", "--record", "calls"], ["run", "w.yaml", "--replay", "calls"]] {
        let outcome = project.run(&arguments, b"");
        assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
        let refused = "Claude requested permissions to use Bash, but you haven't granted it yet.";
        assert_eq!(
            project.read("out.json").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null),
            json!([
                {"name": "Grep", "arguments": {"pattern": "x", "deep": [[1]]}, "result": "a:1\nb:2", "is_error": false},
                {"name": "Bash", "arguments": {"command": "rm -rf ."}, "result": refused, "is_error": true},
                {"name": "Read", "arguments": {"path": "a"}, "result": "A", "is_error": false},
            ])
        );
    }
    let log = project.read("log.jsonl").unwrap_or_default();
    assert_eq!(log.lines().count(), 2, "a replay asks nobody");
    let said = project.run(&["show", "last", "fix"], b"").stdout;
    let calls = ["called  `Grep` {", "called  `Bash` {\"command\":\"rm -rf .\"}: failed", "called  `Read` {"];
    let places: Vec<usize> =
        calls.iter().map(|call| said.find(call).unwrap_or_else(|| panic!("{said}"))).collect();
    assert!(
        places.is_sorted()
            && said.find("holds no JSON value").is_some_and(|at| places[1] < at && at < places[2]),
        "{said}"
    );
}

/// What it did and said counts, and not the lines in which it says so.
#[test]
fn claude_code_says_why_it_failed() {
    let turns = json!({"text": "never", "steps": [{"text": "I look.", "tool": "Read", "input": {}, "output": "A"}, {"tool": "Read"}, {"tool": "Read"}]});
    for (answer, says, called) in [
        (turns, "it took more than `max_turns` turns", 2),
        (json!({"text": "Credit balance is too low", "is_error": true}), "Credit balance is too low", 0),
        (
            json!({"text": "x", "result": "error_during_execution", "errors": ["it broke", "twice"]}),
            "it broke; twice",
            0,
        ),
    ] {
        let project = Project::new();
        project.write("rules.json", json!([{"answer": answer}]).to_string().as_bytes());
        let text = format!(
            "agents: {{coder: {{provider: claude, program: [{}], max_turns: 2}}}}\nenv: {{CLAUDE_STAND_IN: {}}}\nsteps:\n  - id: fix\n    \
             agent: coder\n    message: Fix it.\n    continue_on_error: true\n  - value: ${{fix.meta.tool_calls | default([]) | len}}\n    id: count\n",
            stand_ins().join("claude").display(),
            project.path().display(),
        );
        project.write("w.yaml", text.as_bytes());
        let outcome = project.run(&["run", "w.yaml"], b"");
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(screen.contains(says) && screen.contains(&format!("→ {called} (int)")), "{screen}");
        assert!(!screen.contains("exit code") && !screen.contains("session_id"), "{screen}");
    }
}

/// Brackets that lead nowhere are read once, not once for each of them.
#[test]
fn long_answers_of_brackets_are_refused_soon() {
    let project = Project::new();
    project.write(
        "agent.py",
        b"import sys\nprint({'curly': '{x ', 'square': '[', 'text': '{\"a'}[sys.argv[1]] * 1000000)\n",
    );
    let agent = |name: &str| format!("  {name}: {{command: [python3, agent.py, {name}]}}\n");
    let step = |name: &str| {
        format!(
            "  - {{agent: {name}, message: hi, output: {{a: text}}, ask_again: 0, continue_on_error: true}}\n"
        )
    };
    let names = ["curly", "square", "text"];
    let text = format!("agents:\n{}steps:\n{}", names.map(agent).concat(), names.map(step).concat());
    project.write("w.yaml", text.as_bytes());
    let outcome = project.run(&["run", "w.yaml"], b"");
    assert_eq!(
        outcome.stdout.matches("the answer is not JSON").count(),
        3,
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}

/// A judge that cannot answer now is asked again, and the loop does not notice.
#[test]
fn a_judge_that_cannot_answer_now_is_asked_again() {
    for (provider, path) in PROTOCOLS {
        let project = Project::new();
        let rules = json!([
            {"times": 1, "answer": {"error": 429, "headers": {"retry-after": "0"}}},
            {"times": 1, "answer": {"text": "a longer answer", "wire": {"cut": {"after_bytes": 200}}}},
            {"answer": {"text": "{\"verdict\": \"yes\", \"reason\": \"it is done\"}"}}
        ]);
        let server = ModelServer::start(&project, &rules.to_string());
        let url = server.url();
        let text = format!(
            "secrets: {{KEY: {{env: PATH}}}}\nagents: {{judge: {{provider: {provider}, model: m, base_url: \"{url}{path}\", \
             api_key: \"${{secrets.KEY}}\"}}}}\ninitial: work\nstates:\n  work:\n    shell: echo done\n    \
             evaluate: {{type: agent, agent: judge, prompt: Is it done?}}\n    on_yes: end\n    on_no: work\n  end: {{terminal: true}}\n"
        );
        project.write("w.yaml", text.as_bytes());
        let outcome = project.run(&["run", "w.yaml", "--record", "calls"], b"");
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!((outcome.exit, server.requests().len()), (0, 3), "{screen}");
        assert_eq!(screen.matches('↻').count(), 2, "{screen}");
        assert!(screen.contains("it is done"), "{screen}");
        let replayed = project.run(&["run", "w.yaml", "--replay", "calls"], b"");
        assert_eq!(
            (replayed.exit, server.requests().len()),
            (0, 3),
            "{}{}",
            replayed.stdout,
            replayed.stderr
        );
    }
}

/// An agent that counts how often it is asked, and kills Threadline the second time.
const KILLER: &str = r#"import os, signal, sys
message = sys.stdin.read()
with open("asked", "a") as log:
    log.write("again\n" if "You answered" in message else "first\n")
with open("asked") as log:
    if len(log.readlines()) == 2:
        os.kill(os.getppid(), signal.SIGKILL)
print('{"count": 12}' if "You answered" in message else "twelve")
"#;

#[test]
fn what_an_agent_said_before_a_kill_is_not_asked_for_again() {
    let project = Project::new();
    project.write("agent.py", KILLER.as_bytes());
    project.write(
        "w.yaml",
        b"agents: {oracle: {command: [python3, agent.py]}}
steps:
  - id: ask
    agent: oracle
    message: How many?
    output: {count: int}
  - id: half
    value: ${= ask.result.output.count / 2}
",
    );
    project.run(&["run", "w.yaml"], b"");
    assert_eq!(project.read("asked").as_deref(), Some("first\nagain\n"));
    let outcome = project.run(&["resume", "last"], b"");
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(project.read("asked").as_deref(), Some("first\nagain\nagain\n"), "the first answer was kept");
    assert!(outcome.stdout.contains("→ 6"), "{}", outcome.stdout);
    let value = project.run(&["vars", "last", "ask"], b"").stdout;
    assert!(value.contains("messages_created"), "{value}");
}

#[test]
fn an_answer_that_costs_money_is_asked_for_twice_only_when_somebody_says_so() {
    let project = Project::new();
    let killer = r#"import json, os, signal, sys
sys.stdin.read()
first = not os.path.exists("asked")
open("asked", "a").write("asked\n")
if first:
    os.kill(os.getppid(), signal.SIGKILL)
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}))
"#;
    project.write("agent.py", killer.as_bytes());
    project.write(
        "w.yaml",
        b"agents: {coder: {provider: claude, program: [python3, agent.py]}}
steps:
  - id: fix
    agent: coder
    message: Fix it.
",
    );
    project.run(&["run", "w.yaml"], b"");
    let outcome = project.run(&["resume", "last"], b"");
    let screen = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_ne!(outcome.exit, 0, "{screen}");
    assert_eq!(project.read("asked").as_deref(), Some("asked\n"), "{screen}");
    let outcome = project.run(&["resume", "last", "--in-flight", "rerun"], b"");
    let screen = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.exit, 0, "{screen}");
    assert_eq!(project.read("asked").as_deref(), Some("asked\nasked\n"), "{screen}");
}
