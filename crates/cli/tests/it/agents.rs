//! Agents behind the protocols of models: asked for real, over loopback, with every way in which an answer can go
//! wrong. The servers are checked against the libraries of the vendors in [`crate::models`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::agent_budgets::killed_at;
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
        trial("overloaded", once(json!({"error": "overloaded"})), RETRY, 0, "overloaded", 2),
        trial(
            "context too long",
            always(json!({"error": "context_length"})),
            "",
            1,
            "the provider answered 400",
            1,
        ),
        trial(
            "an error in the stream",
            once(json!({"text": "a longer answer", "stream_error": {"after": 3, "error": "overloaded"}})),
            RETRY,
            0,
            "the provider broke off",
            2,
        ),
        trial("500", once(json!({"error": 500})), RETRY, 0, "the provider answered 500", 2),
        trial(
            "cut in the middle",
            once(json!({"text": "a longer answer", "wire": {"cut": {"after_bytes": 200}}})),
            RETRY,
            0,
            "the answer broke off ",
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

/// Claude Code, killed with Threadline behind each line that it prints: what was over is not asked for again, what was
/// under way only when somebody says so, and both are counted.
#[test]
fn a_kill_repeats_no_answer_of_claude_code() {
    let mut histogram: BTreeMap<String, usize> = BTreeMap::new();
    for after in 0..5 {
        let project = Project::new();
        let steps = json!([{"tool": "Read", "input": {"path": "a"}, "output": "A"}]);
        let rules = json!([
            {"when": {"user": "First"}, "answer": {"text": "one", "cost": 0.25, "usage": {"input": 10, "output": 5}}},
            {"answer": {"text": "two", "cost": 0.25, "steps": steps, "usage": {"input": 10, "output": 5}, "gate": {"file": "gate", "after": after}}}
        ]);
        project.write("rules.json", rules.to_string().as_bytes());
        let text = format!(
            "agents: {{coder: {{provider: claude, program: [{}]}}}}\nenv: {{CLAUDE_STAND_IN: {}}}\nsteps:\n  - {{id: first, agent: coder, \
             message: First}}\n  - {{id: second, agent: coder, message: Second}}\n",
            stand_ins().join("claude").display(),
            project.path().display(),
        );
        project.write("w.yaml", text.as_bytes());
        killed_at(&project, &["run", "w.yaml"], "gate");
        project.write("gate", b"");
        let events = project.run(&["show", "last", "--json"], b"").stdout;
        let last: Value =
            events.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("an event");
        let kind = format!(
            "{} {}",
            last["kind"].as_str().unwrap_or_default(),
            last["step"].as_str().unwrap_or_default()
        );
        *histogram.entry(kind).or_default() += 1;
        let asked = || project.read("log.jsonl").unwrap_or_default().lines().count();
        let outcome = project.run(&["resume", "last"], b"");
        assert!(outcome.exit != 0 && asked() == 2, "{after}: {}{}", outcome.stdout, outcome.stderr);
        let outcome = project.run(&["resume", "last", "--in-flight", "rerun"], b"");
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!((outcome.exit, asked()), (0, 3), "{after}: {screen}");
        let runs: Value = serde_json::from_str(&project.run(&["runs", "--json"], b"").stdout).expect("JSON");
        let spent = &runs["runs"][0]["spent"];
        assert_eq!((&spent["turns"], &spent["unpriced"]), (&json!(3), &json!(1)), "{after}: {spent}");
        assert!(screen.contains("$0.5"), "{after}: {screen}");
    }
    println!("claude, killed behind: {histogram:?}");
    assert_eq!(histogram, BTreeMap::from([("started second".to_owned(), 5)]));
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

/// A pause that is a date, by a clock that is not ours: it is as long as the provider means it.
#[test]
fn a_pause_may_be_a_date() {
    let project = Project::new();
    let (date, until) = ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:01 GMT");
    let rules = json!([
        {"times": 1, "answer": {"error": 429, "headers": {"retry-after": until, "date": date}}},
        {"answer": {"text": "12"}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    let (exit, screen) = ask(&project, &server, PROTOCOLS[0], RETRY);
    assert_eq!((exit, server.requests().len()), (0, 2), "{screen}");
    // What is left of the second when the line is printed.
    let left = regex::Regex::new(r"again in (1s|[1-9]\d\dms)").unwrap();
    assert!(left.is_match(&screen), "{screen}");
}

/// What is no data in a stream does no harm: comments, fields without a colon, fields that nobody knows.
#[test]
fn lines_that_are_no_data_do_no_harm() {
    let chunk = r#"{"choices": [{"delta": {"content": "twelve"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}"#;
    let raw = format!(
        ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\nevent\nid\ndata: {chunk}\n\n:\n\nretry: 5\nnonsense\n\ndata: [DONE]\n\n"
    );
    let project = Project::new();
    let rules = json!([{"answer": {"raw": raw, "content_type": "text/event-stream"}}]);
    let server = ModelServer::start(&project, &rules.to_string());
    let (exit, screen) = ask(&project, &server, PROTOCOLS[1], "");
    assert_eq!(exit, 0, "{screen}");
    assert!(screen.contains("→ \"twelve\"") && written(&project)["tokens"] == 4, "{screen}");
}

/// A schema is sent as strict only where the API takes it so, and a field that may be left out may then be null.
#[test]
fn openai_is_held_to_the_schemas_that_it_takes() {
    let field = |kind: Value| json!({"type": kind});
    for (output, answer, strict, value) in [
        (
            "{score: int, note?: text, tags: [text], verdict: low | high}",
            json!({"score": 1, "note": null, "tags": ["a"], "verdict": "low"}),
            Some(json!({
                "type": "object",
                "properties": {
                    "score": field(json!("integer")),
                    "note": field(json!(["string", "null"])),
                    "tags": {"type": "array", "items": field(json!("string"))},
                    "verdict": {"type": "string", "enum": ["low", "high"]},
                },
                "required": ["score", "note", "tags", "verdict"],
                "additionalProperties": false,
            })),
            json!({"score": 1, "note": null, "tags": ["a"], "verdict": "low"}),
        ),
        (
            "{inner: {deep?: {n?: int}, level?: a | b}}",
            json!({"inner": {"deep": {"n": null}, "level": null}}),
            Some(json!({
                "type": "object",
                "properties": {"inner": {
                    "type": "object",
                    "properties": {
                        "deep": {
                            "type": ["object", "null"],
                            "properties": {"n": field(json!(["integer", "null"]))},
                            "required": ["n"],
                            "additionalProperties": false,
                        },
                        "level": {"type": ["string", "null"], "enum": ["a", "b", null]},
                    },
                    "required": ["deep", "level"],
                    "additionalProperties": false,
                }},
                "required": ["inner"],
                "additionalProperties": false,
            })),
            json!({"inner": {"deep": {"n": null}, "level": null}}),
        ),
        ("{a: object}", json!({"a": {"b": 1}}), None, json!({"a": {"b": 1}})),
        ("{a: list}", json!({"a": [1]}), None, json!({"a": [1]})),
        ("{a: any}", json!({"a": "x"}), None, json!({"a": "x"})),
        ("{a: [object]}", json!({"a": [{}]}), None, json!({"a": [{}]})),
        ("{a: {b: [any]}}", json!({"a": {"b": [1]}}), None, json!({"a": {"b": [1]}})),
        (
            "{type: object, properties: {a: {type: string, minLength: 1}}, required: [a], additionalProperties: false}",
            json!({"a": "x"}),
            None,
            json!({"a": "x"}),
        ),
        (
            "{type: object, properties: {a: {type: string}}, additionalProperties: true}",
            json!({"a": "x", "b": 1}),
            None,
            json!({"a": "x", "b": 1}),
        ),
    ] {
        let project = Project::new();
        let server =
            ModelServer::start(&project, &json!([{"answer": {"text": answer.to_string()}}]).to_string());
        let (exit, screen) = ask(&project, &server, PROTOCOLS[1], &format!("    output: {output}"));
        assert_eq!(exit, 0, "{output}: {screen}");
        let sent = server.requests()[0]["body"]["response_format"]["json_schema"].clone();
        assert_eq!(sent["strict"], strict.is_some(), "{output}: {sent}");
        if let Some(strict) = strict {
            assert_eq!(sent["schema"], strict, "{output}");
        }
        assert_eq!(written(&project)["output"], value, "{output}: {screen}");
    }
}

/// A field that may be left out may be null, whoever answers; one that must be there may not.
#[test]
fn null_stands_for_a_field_that_is_left_out() {
    let project = Project::new();
    for (answer, exit) in [(r#"{"a": 1, "b": null}"#, 0), (r#"{"a": null, "b": "x"}"#, 1)] {
        let file = format!(
            "agents: {{a: {{command: [echo, '{answer}']}}}}\nsteps:\n  - {{id: ask, agent: a, message: hi, output: {{a: int, b?: \
             text}}, ask_again: 0}}\n  - {{value: \"${{= ask.result.output.b is null}}\"}}\n"
        );
        project.write("w.yaml", file.replace(" is null", " == null").as_bytes());
        let outcome = project.run(&["run", "w.yaml"], b"");
        assert_eq!(outcome.exit, exit, "{answer}: {}{}", outcome.stdout, outcome.stderr);
    }
}

/// Models that know only the newer name of `max_tokens` are told it, also behind another address.
#[test]
fn a_model_is_told_its_limit_by_the_name_that_it_knows() {
    for (model, name) in [
        ("gpt-5-mini", "max_completion_tokens"),
        ("openai/o3", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("olmo-2", "max_tokens"),
        ("qwen3", "max_tokens"),
    ] {
        let project = Project::new();
        let server = ModelServer::start(&project, &json!([{"answer": {"text": "fine"}}]).to_string());
        let text = format!(
            "agents: {{a: {{provider: openai, model: {model}, base_url: '{}/v1', max_tokens: 77}}}}\nsteps: [{{agent: a, message: hi}}]\n",
            server.url()
        );
        project.write("w.yaml", text.as_bytes());
        let outcome = project.run(&["run", "w.yaml"], b"");
        assert_eq!(server.requests()[0]["body"][name], 77, "{model}: {}{}", outcome.stdout, outcome.stderr);
    }
}

/// Tokens of a cache cost what the price says of them.
#[test]
fn tokens_of_a_cache_have_prices_of_their_own() {
    for (protocol, price, cost) in [
        // 10 fresh tokens, 100 that were read from a cache, 20 that were written to one, and 7 that the model wrote.
        (PROTOCOLS[0], "{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}", "0.00024"),
        (PROTOCOLS[0], "{input: 3, output: 15}", "0.000495"),
        (PROTOCOLS[1], "{input: 3, output: 15, cache_read: 0.3}", "0.000225"),
    ] {
        let project = Project::new();
        let rules = json!([{"answer": {"text": "fine", "usage": {"input": 10, "cache_read": 100, "cache_write": 20, "output": 7}}}]);
        let server = ModelServer::start(&project, &rules.to_string());
        let url = server.url();
        let text = format!(
            "secrets: {{K: {{env: PATH}}}}\nagents: {{a: {{provider: {}, model: m, base_url: '{url}{}', api_key: '${{secrets.K}}', price: {price}}}}}\nsteps:\n  - {{id: ask, agent: a, message: hi}}\n  - write_file: {{path: out.txt, content: '${{ask.meta.total_cost_usd}} ${{ask.meta.input_tokens}}'}}\n",
            protocol.0, protocol.1
        );
        project.write("w.yaml", text.as_bytes());
        let outcome = project.run(&["run", "w.yaml"], b"");
        assert_eq!(
            project.read("out.txt").unwrap_or_default(),
            format!("{cost} 130"),
            "{price}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
}

/// `timeout` of an agent bounds each call, and that of the step all of them together.
#[test]
fn a_call_takes_no_longer_than_its_agent_allows() {
    let slow = json!({"text": "late", "wire": {"gate": {"file": "never", "head": true}}});
    let rules = json!([{"times": 1, "answer": slow}, {"answer": {"text": "fine"}}]).to_string();
    let always = json!([{"answer": slow}]).to_string();
    for (provider, path) in PROTOCOLS {
        for (rules, timeout, step, exit, says, requests) in [
            (&rules, "300ms", "", 0, "timed out after 300ms", 2),
            (&always, "200ms", "    retry: {attempts: 3, delay: 1ms}", 1, "timed out after 200ms", 3),
            (&always, "10m", "    timeout: 300ms", 1, "timed out after 300ms", 1),
        ] {
            let project = Project::new();
            let server = ModelServer::start(&project, rules);
            let text = format!(
                "secrets: {{K: {{env: PATH}}}}\nagents: {{a: {{provider: {provider}, model: m, base_url: '{}{path}', api_key: '${{secrets.K}}', timeout: {timeout}}}}}\nsteps:\n  - agent: a\n    message: hi\n{step}\n",
                server.url()
            );
            project.write("w.yaml", text.as_bytes());
            let outcome = project.run(&["run", "w.yaml"], b"");
            let screen = format!("{}{}", outcome.stdout, outcome.stderr);
            assert_eq!(
                (outcome.exit, server.requests().len()),
                (exit, requests),
                "{provider} {timeout}: {screen}"
            );
            assert!(screen.contains(says), "{provider} {timeout}: {screen}");
        }
    }
    let project = Project::new();
    project.write(
        "w.yaml",
        b"agents: {a: {command: [sleep, '600'], timeout: 300ms}}\nsteps: [{agent: a, message: hi}]\n",
    );
    let outcome = project.run(&["run", "w.yaml"], b"");
    assert!(
        outcome.exit == 1 && outcome.stdout.contains("timed out after 300ms"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    for wrong in ["0s", "soon", "[1]"] {
        project.write(
            "w.yaml",
            format!(
                "agents: {{a: {{command: [x], timeout: {wrong}}}}}\nsteps: [{{agent: a, message: hi}}]\n"
            )
            .as_bytes(),
        );
        let outcome = project.run(&["check", "w.yaml"], b"");
        assert!(
            outcome.exit == 1 && outcome.stderr.contains("`timeout` takes a duration above 0, such as `2m`"),
            "{wrong}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
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
