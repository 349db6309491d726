//! Agents that call tools: over both protocols, with calls that are no calls, with hostile results, and killed behind
//! every event.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::models::ModelServer;
use crate::support::{Project, report};
use crate::tools::server::{Server, json as json_reply};

pub(crate) const PROTOCOLS: [(&str, &str); 2] = [("anthropic", ""), ("openai", "/v1")];

const CANARY: &str = "sk-canary-7f3a9c";

/// A server with a tool that echoes, one that fails and one that nobody may call. Each call is a line of `calls`.
const SERVER: &str = r#"import json, sys

def tool(name, properties):
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()},
              "required": list(properties)}
    return {"name": name, "description": f"the tool {name}", "inputSchema": schema}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "desk", "version": "3"}}
    if message["method"] == "tools/list":
        result = {"tools": [tool("echo", {"text": "string"}), tool("fail", {}), tool("remove", {"path": "string"})]}
    if message["method"] == "tools/call":
        name, arguments = message["params"]["name"], message["params"]["arguments"]
        open("calls", "a").write(json.dumps([name, arguments]) + "\n")
        said = "it is broken" if name == "fail" else "echo: " + arguments.get("text", "")
        result = {"content": [{"type": "text", "text": said}], "isError": name == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

const CALLED: &str = "description: Adds two numbers.
inputs: {a: {type: int}, b: {type: int, default: 1}}
steps:
  - {id: sum, shell: 'echo ran >> calls; echo $(( ${inputs.a} + ${inputs.b} ))', capture_format: number}
exports: {sum: '${sum}'}
";

/// A project with a workflow whose only agent has tools.
pub(crate) fn project(rules: &Value, (provider, path): (&str, &str), more: &str) -> (Project, ModelServer) {
    let project = Project::new();
    let server = ModelServer::start(&project, &rules.to_string());
    let url = server.url();
    let text = format!(
        "secrets: {{KEY: {{env: PATH}}}}
servers: {{desk: {{command: [python3, desk.py]}}}}
agents:
  clerk:
    provider: {provider}
    model: test-model
    base_url: {url}{path}
    api_key: ${{secrets.KEY}}
    max_turns: 6
    tools: [read_file, write_file, http, {{server: desk, deny: [remove]}}, {{workflow: add.yaml}}]
steps:
  - id: work
    agent: clerk
    message: Do it.
{more}"
    );
    project.write("w.yaml", text.as_bytes());
    project.write("desk.py", SERVER.as_bytes());
    project.write("add.yaml", CALLED.as_bytes());
    project.write("notes.txt", b"seventeen\n");
    (project, server)
}

/// What the last request told the model of its calls.
fn told(server: &ModelServer) -> String {
    server.requests().last().map(|request| request["body"]["messages"].to_string()).unwrap_or_default()
}

struct Trial {
    name: &'static str,
    /// The calls of the first message.
    calls: Value,
    /// What the model is told of them.
    told: &'static [&'static str],
    /// What the server and the workflow did.
    did: &'static str,
}

fn trials() -> Vec<Trial> {
    let one = |name: &'static str, tool: &str, input: Value, told: &'static [&'static str]| {
        let calls = json!([{"name": tool, "input": input, "unknown": true}]);
        Trial { name, calls, told, did: "" }
    };
    vec![
        Trial {
            did: "[\"echo\", {\"text\": \"a\"}]\n[\"echo\", {\"text\": \"b\"}]\nran\n",
            ..one("several at once", "", json!({}), &["echo: a", "echo: b", "sum", "42", "seventeen"])
        }
        .with(json!([
            {"name": "desk__echo", "input": {"text": "a"}},
            {"name": "desk__echo", "input": {"text": "b"}},
            {"name": "add", "input": {"a": 41}},
            {"name": "read_file", "input": {"path": "notes.txt"}}
        ])),
        Trial {
            did: "[\"fail\", {}]\n",
            ..one("a tool that fails", "desk__fail", json!({}), &["it is broken"])
        },
        one("a tool that is not there", "desk__ehco", json!({"text": "a"}), &["did you mean `desk__echo`"]),
        one("a tool that is denied", "desk__remove", json!({"path": "notes.txt"}), &["there is no tool"]),
        one(
            "an argument of another type",
            "desk__echo",
            json!({"text": 7}),
            &["do not fit", "7 is not of type"],
        ),
        one("an argument too few", "add", json!({}), &["do not fit", "required property"]),
        one("an argument too many", "add", json!({"a": 1, "c": 2}), &["do not fit", "'c' was unexpected"]),
        one("an input of another type", "add", json!({"a": "$(touch pwned)"}), &["do not fit"]),
        one("a file outside", "read_file", json!({"path": "../../../../etc/passwd"}), &["outside"]),
        one("a file that is not there", "read_file", json!({"path": "nothing.txt"}), &["nothing.txt"]),
        one("a file of git", "write_file", json!({"path": ".git/config", "content": "[alias]\n"}), &[".git"]),
        one("an address inside", "http", json!({"url": "http://127.0.0.1:1/x"}), &["allow"]),
        one("an address of metadata", "http", json!({"url": "http://169.254.169.254/"}), &["allow"]),
        one("a file as an address", "http", json!({"url": "file:///etc/passwd"}), &["file:"]),
        Trial { told: &["not a JSON object"], ..one("broken arguments", "", json!({}), &[]) }
            .with(json!([{"name": "desk__echo", "arguments": "{\"text\": "}])),
        Trial { told: &["not a JSON object"], ..one("arguments that are a list", "", json!({}), &[]) }
            .with(json!([{"name": "desk__echo", "arguments": "[1]"}])),
    ]
}

impl Trial {
    fn with(self, calls: Value) -> Self {
        Self { calls, ..self }
    }

    /// What is wrong with it.
    fn problem(&self, protocol: (&str, &str)) -> Option<String> {
        // A stream of the one API holds what it cannot read as JSON; the other one has objects only.
        if protocol.0 == "anthropic" && self.calls[0].get("arguments").is_some() {
            return None;
        }
        let rules = json!([
            {"when": {"tool_result": true}, "answer": {"text": "Done."}},
            {"answer": {"text": "I look.", "tools": self.calls}}
        ]);
        let (project, server) = project(&rules, protocol, "");
        let outcome = project.run(&["run", "w.yaml"], b"");
        let told = told(&server);
        let did = project.read("calls").unwrap_or_default();
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        let is_told = self.told.iter().all(|part| told.contains(part));
        let is_well = outcome.exit == 0 && screen.contains("\"Done.\"") && is_told && did == self.did;
        let was_run = project.read("pwned").is_some() || project.read(".git/config").is_some();
        (!is_well || was_run).then(|| format!("{}, {}:\n{told}\n{did}\n{screen}", protocol.0, self.name))
    }
}

#[test]
fn what_a_model_calls_is_called_or_it_is_told_why_not() {
    let trials = trials();
    let failures: Vec<String> = PROTOCOLS
        .iter()
        .flat_map(|protocol| trials.iter().filter_map(|trial| trial.problem(*protocol)).collect::<Vec<_>>())
        .collect();
    report(&failures, trials.len() * PROTOCOLS.len());
}

#[test]
fn calls_come_before_an_answer_of_a_declared_form() {
    for protocol in PROTOCOLS {
        let call =
            json!({"text": "I look.", "tools": [{"name": "read_file", "input": {"path": "notes.txt"}}]});
        let answer = match protocol.0 {
            "anthropic" => json!({"tools": [{"name": "answer", "input": {"count": 17}}]}),
            _ => json!({"text": "{\"count\": 17}"}),
        };
        let rules = json!([{"when": {"tool_result": true}, "answer": answer}, {"answer": call}]);
        let (project, server) = project(
            &rules,
            protocol,
            "    output: {count: int}\n  - value: ${= work.result.output.count + 1}\n    id: more\n",
        );
        let outcome = project.run(&["run", "w.yaml"], b"");
        assert!(outcome.stdout.contains("→ 18"), "{}{}", outcome.stdout, outcome.stderr);
        let events = project.run(&["show", "last", "--json"], b"").stdout;
        let call = r#""tool_calls":[{"name":"read_file","arguments":{"path":"notes.txt"},"result":"seventeen\n","is_error":false}]"#;
        assert!(events.contains(call) && server.requests().len() == 2, "{events}");
        // The attempt began when the first exchange did.
        let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let began: Vec<String> =
            events.map(|event| event["data"]["output"]["meta"]["started_at"].to_string()).collect();
        let began: Vec<&String> = began.iter().filter(|time| *time != "null").collect();
        assert!(began.len() == 5 && began[3] <= began[0] && began[0] <= began[1], "{began:?}");
    }
}

#[test]
fn a_model_that_only_calls_is_stopped() {
    let rules = json!([{"answer": {"text": "Once more.", "tools": [{"name": "desk__echo", "input": {"text": "x"}}]}}]);
    let (project, server) = project(&rules, PROTOCOLS[0], "");
    let outcome = project.run(&["run", "w.yaml"], b"");
    let screen = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!((outcome.exit, server.requests().len()), (1, 6), "{screen}");
    assert!(screen.contains("it wrote 6 messages (`max_turns`) and no answer"), "{screen}");
}

#[test]
fn a_name_that_no_tool_has_fails_the_step_before_the_model_is_asked() {
    let (project, server) = project(&json!([]), PROTOCOLS[1], "");
    let text = project.read("w.yaml").unwrap_or_default().replace("deny: [remove]", "deny: [remvoe]");
    project.write("w.yaml", text.as_bytes());
    let outcome = project.run(&["run", "w.yaml"], b"");
    let screen = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!((outcome.exit, server.requests().len()), (1, 0), "{screen}");
    assert!(screen.contains("the server `desk` has no tool `remvoe`; did you mean `remove`"), "{screen}");
    let checked = project.run(&["check", "w.yaml"], b"");
    let problems = format!("{}{}", checked.stdout, checked.stderr);
    assert!(problems.contains("w.yaml:10:64") && problems.contains("remove"), "{problems}");
}

/// Values that leave a file where anything of them is run: those of the shell's corpus, and some of our own.
fn hostile_values() -> Vec<String> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../runner/tests/shell/attack/values.txt");
    let corpus = std::fs::read_to_string(corpus).expect("the corpus");
    let values = corpus.lines().filter(|line| !line.starts_with('#'));
    let values = values.filter_map(|line| line.split_once(": ")).map(|(_, value)| value.replace('⏎', "\n"));
    let own = [
        "it's $(touch hit) `touch hit` \"; touch hit # \\ * ~ ${HOME} $HOME\t!\n -rf",
        "${cmd:touch hit}${= cmd('touch hit') }${file:/etc/passwd}",
        "\n{\"score\": 1} && touch hit",
        "--upload-pack=touch hit",
        "\u{1b}[31m\u{9b}2J$(touch${IFS}hit)",
        "../../hit",
    ];
    values.chain(own.map(str::to_owned)).collect()
}

/// What a model and its tools say is data in every place that it reaches.
#[test]
fn hostile_answers_and_results_run_nowhere() {
    let values = hostile_values();
    assert!(values.len() > 60, "the corpus has {} values", values.len());
    let steps = "  - id: all
    foreach: NUMBERS
    do:
      - {id: said, agent: clerk, message: 'Number ${item}.'}
      - {id: text, value: '${said.result.final_response}'}
      - {id: shell, shell: 'printf %s ${text}'}
      - {id: argv, argv: [printf, '%s', '${text}']}
      - {id: inner, shell: 'bash -c ''printf %s \"$1\"'' _ \"${text}\"'}
      - {write_file: {path: 'said-${item}.txt', content: '${text}'}}
      - {http: {method: POST, url: '${context.url}/said/${text}', body: {said: '${text}'}}}
      - {agent: clerk, thread: 'talk-${item}', message: 'Number ${item}. Say it: ${text}'}
      - {agent: clerk, thread: 'talk-${item}', message: 'Number ${item}. Say it: once more'}
      - value: \"${= text == shell and shell == argv and argv == inner and said.result.tool_calls[0].arguments.text == text }\"
        expect: {value: {eq: true}}
      - {value: '${text}', expect: {value: {eq: '${text}', not-contains: '${text}x'}}}
";
    let numbers: Vec<usize> = (0..values.len()).collect();
    let steps = steps.replace("NUMBERS", &format!("{numbers:?}"));
    for protocol in PROTOCOLS {
        let rules = values.iter().enumerate().flat_map(|(number, value)| {
            let calls = json!([
                {"name": "desk__echo", "input": {"text": value}},
                {"name": "read_file", "input": {"path": value}},
                {"name": value.chars().take(40).collect::<String>(), "input": {}, "unknown": true},
                {"name": "write_file", "input": {"path": format!("kept-{number}.txt"), "content": value}}
            ]);
            let user = format!("Number {number}.");
            [
                json!({"when": {"tool_result": true, "user": user}, "answer": {"text": value}}),
                json!({"when": {"user": format!("{user} Say it")}, "answer": {"text": value}}),
                json!({"when": {"user": user}, "answer": {"tools": calls}}),
            ]
        });
        let (project, server) = project(&rules.collect(), protocol, &steps);
        let sink = Server::new(|_, _| json_reply("{}"));
        let text = project
            .read("w.yaml")
            .unwrap_or_default()
            .replace("  - id: work\n    agent: clerk\n    message: Do it.\n", "");
        project.write("w.yaml", format!("context: {{url: '{}'}}\n{text}", sink.url()).as_bytes());
        let outcome = project.run(&["run", "w.yaml"], b"");
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.exit, 0, "{}: {screen}", protocol.0);
        assert!(!screen.contains('\u{1b}') && !screen.contains('\u{9b}'), "{screen}");
        assert!(project.read("hit").is_none(), "{}: a value was run", protocol.0);
        assert_eq!(server.requests().len(), 4 * values.len());
        let sent = sink.received();
        assert_eq!(sent.len(), values.len());
        for (number, (value, sent)) in values.iter().zip(&sent).enumerate() {
            let body: Value = serde_json::from_str(&sent.body).unwrap_or_default();
            let kept =
                [format!("said-{number}.txt"), format!("kept-{number}.txt")].map(|path| project.read(&path));
            assert_eq!((&body["said"], sent.line.matches('/').count()), (&json!(value), 2), "{}", sent.line);
            assert_eq!(kept, [Some(value.clone()), Some(value.clone())]);
        }
    }
}

/// The key of the model, said by the model piece by piece: in its answer, and in the arguments of a call.
#[test]
fn a_secret_in_pieces_is_found_in_the_whole() {
    let said = format!("The key is {CANARY}, is it not?");
    let call = json!([{"name": "desk__echo", "input": {"text": said}}]);
    for protocol in PROTOCOLS {
        for more in ["", "    secret_output: mask\n"] {
            let rules = json!([
                {"when": {"tool_result": true}, "answer": {"text": said, "piece": 3}},
                {"answer": {"tools": call, "piece": 3}}
            ]);
            let (project, server) = project(&rules, protocol, more);
            let text = project.read("w.yaml").unwrap_or_default();
            project.write(
                "w.yaml",
                text.replace("{env: PATH}}", "{env: MODEL_KEY}}\nenv_file: .env").as_bytes(),
            );
            project.write(".env", format!("MODEL_KEY={CANARY}\n").as_bytes());
            let outcome = project.run(&["run", "w.yaml", "--verbose"], b"");
            let screen = format!("{}{}", outcome.stdout, outcome.stderr);
            if more.is_empty() {
                assert_eq!((outcome.exit, server.requests().len()), (1, 1), "{screen}");
                assert!(screen.contains("its output contains the secret `KEY`"), "{screen}");
            } else {
                assert_eq!((outcome.exit, server.requests().len()), (0, 2), "{screen}");
                assert!(screen.contains("The key is ***, is it not?"), "{screen}");
                assert!(project.read("calls").is_some_and(|calls| calls.contains("***")), "{screen}");
            }
            let events = project.run(&["show", "last", "--json", "--stored"], b"").stdout;
            let seen = [&screen, &events].into_iter().any(|text| text.contains(CANARY));
            assert!(!seen && !is_in_store(&project, CANARY), "{}: {screen}\n{events}", protocol.0);
        }
    }
}

/// Whether a text is anywhere in the store.
fn is_in_store(project: &Project, text: &str) -> bool {
    let store = project.path().join(".threadline");
    let found = Command::new("grep")
        .args(["--recursive", "--quiet", "--binary-files=text", text])
        .arg(store)
        .status();
    found.expect("grep runs").success()
}

/// Killed behind every event: a finished call is not made again, and the end is the same.
#[test]
fn a_kill_anywhere_repeats_no_finished_call() {
    let rules = json!([
        {"when": {"tool_result": "wrote"}, "answer": {"text": "The sum is 42."}},
        {"when": {"tool_result": "42"}, "answer": {"tools": [{"name": "desk__echo", "input": {"text": "wrote"}}]}},
        {"answer": {"text": "I look.", "tools": [
            {"name": "desk__echo", "input": {"text": "one"}},
            {"name": "add", "input": {"a": 41}},
            {"name": "desk__fail", "input": {}}
        ]}}
    ]);
    for protocol in PROTOCOLS {
        let histogram = kill_anywhere(&rules, protocol);
        println!("{}, killed behind: {histogram:?}", protocol.0);
        for kind in ["started", "exchanged tools", "exchanged calls", "exchanged call"] {
            assert!(histogram.contains_key(kind), "{}: {histogram:?} has no `{kind}`", protocol.0);
        }
    }
}

/// Kills runs behind each of their events, and counts what the last event was.
fn kill_anywhere(rules: &Value, protocol: (&str, &str)) -> BTreeMap<String, usize> {
    let start = || project(rules, protocol, "    on_crash: rerun\n");
    let (whole, server) = start();
    let lines = whole.run(&["run", "w.yaml", "--json"], b"").stdout;
    let events = lines.lines().count();
    let (calls, requests) = (whole.read("calls").unwrap_or_default(), server.requests().len());
    assert_eq!((calls.lines().count(), requests), (4, 3), "{lines}");
    // Kills, by what was the last event that the journal had.
    let mut histogram: BTreeMap<String, usize> = BTreeMap::new();
    for count in 1..events {
        let (project, server) = start();
        let last = killed_after(&project, count);
        *histogram.entry(last).or_default() += 1;
        let before = project.run(&["show", "last", "--json"], b"").stdout;
        let done = finished_calls(&before);
        let outcome = project.run(&["resume", "last"], b"");
        let screen = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.exit, 0, "after {count} events: {screen}");
        let after = project.run(&["show", "last", "--json"], b"").stdout;
        assert_eq!(finished_calls(&after).len(), 4, "after {count} events: {after}");
        assert!(finished_calls(&after).starts_with(&done), "after {count} events: {before}\n{after}");
        // One call may have been under way, and one message.
        let made = project.read("calls").unwrap_or_default().lines().count();
        assert!((4..=5).contains(&made), "after {count} events: {made} calls");
        let asked = server.requests().len();
        assert!((3..=4).contains(&asked), "after {count} events: {asked} requests");
        assert!(made + asked <= 8, "after {count} events: one thing at a time was under way");
        let end = project.run(&["vars", "last", "work"], b"").stdout;
        assert!(end.contains("The sum is 42."), "after {count} events: {end}");
        assert_eq!(
            listed_calls(&after),
            ["desk.echo", "add", "desk.fail", "desk.echo"],
            "after {count} events"
        );
    }
    histogram
}

/// The tools that were called, as the journal has it.
fn finished_calls(lines: &str) -> Vec<String> {
    let calls = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        let output = &event["data"]["output"];
        let is_call = event["kind"] == "exchanged" && output["meta"]["exchange"] == "call";
        is_call.then(|| format!("{} {}", output["meta"]["tool_name"], output["meta"]["parameters"]))
    });
    calls.collect()
}

/// The tools that the result of the step lists.
fn listed_calls(lines: &str) -> Vec<String> {
    let mut events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = events.rfind(|event| event["kind"] == "finished" && event["step"] == "work");
    let calls = ended.map(|event| event["data"]["output"]["value"]["tool_calls"].clone()).unwrap_or_default();
    let names = calls.as_array().into_iter().flatten().map(|call| &call["name"]);
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Runs the workflow and kills it when it has told of so many events; gives the kind of the last one.
fn killed_after(project: &Project, count: usize) -> String {
    use std::io::BufRead as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(["run", "w.yaml", "--json"]).current_dir(project.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("threadline starts");
    let stdout = child.stdout.take().expect("a piped stdout");
    let line = std::io::BufReader::new(stdout).lines().take(count).last();
    child.kill().expect("a child can be killed");
    child.wait().expect("a killed child ends");
    let line = line.and_then(Result::ok).unwrap_or_default();
    let event: Value = serde_json::from_str(&line).unwrap_or_default();
    let exchange = event["data"]["output"]["meta"]["exchange"].as_str().map(|kind| format!(" {kind}"));
    format!("{}{}", event["kind"].as_str().unwrap_or_default(), exchange.unwrap_or_default())
}
