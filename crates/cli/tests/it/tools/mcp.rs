//! Tools of MCP servers: one written for these tests, over stdio and over HTTP.

use std::path::Path;
use std::time::Instant;

use super::server::{Received, Reply, Server, json, status};
use crate::harness::{Run, Workflow, workflow};
use crate::support::PATIENCE;

const SERVER: &str = include_str!("server.sh");

/// A workflow whose server `s` is the one of these tests.
fn with_server(text: &str) -> Workflow {
    workflow(&format!("servers: {{s: {{command: [sh, server.sh]}}}}\n{text}")).file("server.sh", SERVER)
}

/// Whether a process runs. One that has ended may still be there for its parent to notice.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Waits for a file, which another process writes.
fn await_file(workflow: &Workflow, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !workflow.has(name) {
        assert!(Instant::now() < deadline, "{name} is never written");
        std::thread::yield_now();
    }
}

#[test]
fn an_answer_is_typed() {
    let workflow = with_server(
        r#"
inputs: {n: {default: 2}}
steps:
  - {id: sum, tool: s.add, params: {a: "${inputs.n}", b: 3}}
  - {id: one, tool: s.texts, params: {count: 1}}
  - {id: none, tool: s.texts, params: {count: 0}}
  - {id: several, tool: s.texts}
  - {id: asked, tool: s.ask}
  - {id: read, value: "${= sum.result.sum + 1}"}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("sum"), r#"{"sum":9007199254740993.10,"of":["a"]}"#);
    assert_eq!(run.value("one"), r#""one""#);
    assert_eq!(run.value("none"), "null");
    assert_eq!(run.value("several"), r#"["one","two",{"type":"image","data":"","mimeType":"image/png"}]"#);
    assert_eq!(run.value("asked"), r#""answered""#);
    assert_eq!(run.value("read"), "9007199254740994.10");
    assert_eq!(run.meta("sum", "node_type"), r#""tool""#);
    assert_eq!(run.meta("sum", "tool_name"), r#""s.add""#);
    assert_eq!(run.meta("sum", "tool_version"), r#""1.2.3""#);
    assert_eq!(run.meta("sum", "parameters"), r#"{"a":2,"b":3}"#);
    assert!(run.meta("sum", "tool_execution_time_ms").parse::<u64>().is_ok());
    assert!(workflow.read("calls").contains(r#""params":{"name":"add","arguments":{"a":2,"b":3}}"#));
    // One process for all calls, and none is left.
    assert_eq!(workflow.lines("pids"), 1);
    assert!(!lives(workflow.read("pids").trim()));
    assert!(!workflow.has("unknown"));
}

#[test]
fn what_goes_wrong_fails_the_step() {
    let workflow = with_server(
        r#"
steps:
  - {id: fail, tool: s.fail, continue_on_error: true}
  - {id: said, value: "${fail.output}"}
  - {id: refuse, tool: s.refuse, continue_on_error: true}
  - {id: missing, tool: s.ad, continue_on_error: true}
  - {id: params, tool: s.add, params: {a: x, c: 1}, continue_on_error: true}
  - {id: large, tool: s.texts, max_output: 10B, continue_on_error: true}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.error("fail"), "Tool: no such file\ntry another");
    assert_eq!(run.value("said"), r#""no such file\ntry another""#);
    assert_eq!(run.error("refuse"), "Tool: not today");
    assert_eq!(run.error("missing"), "Tool: the server `s` has no tool `ad`; did you mean `add`");
    let params = run.error("params");
    assert!(params.starts_with("Tool: `params` are not what `s.add` takes: "), "{params}");
    assert_eq!(run.error("large"), "OutputTooLarge: the answer is larger than 10 bytes");
    assert_eq!(run.meta("fail", "tool_version"), r#""1.2.3""#);
    // What does not fit is not sent.
    assert!(!workflow.read("calls").contains("\"add\""));
}

#[test]
fn states_of_a_loop_call_tools() {
    let workflow = with_server(
        r#"
initial: add
states:
  add:
    action: s.add
    action_type: mcp_tool
    params: {a: "${state.iteration}", b: 3}
    capture: sum
    evaluate: {expression: result.value.sum > 1}
    on_yes: fail
    on_no: failed
  fail: {tool: s.fail, retry: 2, on_error: told, next: failed}
  told:
    value: "${prev.state} said ${prev.verdict}, after ${sum.sum}: ${prev.reason}"
    capture: said
    next: done
  done: {value: "${said}", terminal: true}
  failed: {terminal: failure}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("add"), r#"{"sum":9007199254740993.10,"of":["a"]}"#);
    assert_eq!(run.error("fail"), "Tool: no such file\ntry another");
    assert_eq!(run.meta("fail", "retry_count"), "1");
    let said = r#""fail said error, after 9007199254740993.10: no such file\ntry another""#;
    assert_eq!(run.value("done"), said);
    assert_eq!(workflow.lines("pids"), 1);
}

#[test]
fn a_server_that_cannot_be_started_is_named() {
    let run = workflow(
        r#"
servers:
  nothing: {command: [no-such-program-here]}
  silent: {command: ["true"]}
  elsewhere: {command: [sh], cwd: nowhere}
  nobody: {url: "http://127.0.0.1:1/"}
steps:
  - {id: nothing, tool: nothing.x, continue_on_error: true}
  - {id: silent, tool: silent.x, continue_on_error: true}
  - {id: elsewhere, tool: elsewhere.x, continue_on_error: true}
  - {id: nobody, tool: nobody.x, continue_on_error: true}
"#,
    )
    .run()
    .well();
    let expected =
        "Start: server `nothing`: cannot find the program `no-such-program-here`; no folder of `PATH` has it";
    assert_eq!(run.error("nothing"), expected);
    assert_eq!(run.error("silent"), "Tool: the server `silent` ended, exit code 0");
    assert!(
        run.error("elsewhere").starts_with("Start: server `elsewhere`: the folder "),
        "{}",
        run.error("elsewhere")
    );
    assert_eq!(
        run.error("nobody"),
        "Http: server `nobody`: no connection to `127.0.0.1:1`: connection refused"
    );
}

#[test]
fn a_slow_tool_is_cancelled_and_its_server_goes_on() {
    let workflow = with_server(
        "steps:\n  - {id: slow, tool: s.slow, timeout: 300ms, continue_on_error: true}\n  - {id: next, tool: s.pid}\n",
    );
    let run = workflow.run().well();
    assert_eq!(run.error("slow"), "Timeout: timed out after 300ms");
    assert_eq!(run.value("next"), format!("\"{}\"", workflow.read("pids").trim()));
    assert!(workflow.read("notified").contains("notifications/cancelled"));
}

#[test]
fn a_server_that_dies_is_started_again() {
    let workflow = with_server(
        "steps:\n  - {id: die, tool: s.die, continue_on_error: true}\n  - {id: next, tool: s.pid}\n  - {id: last, tool: s.pid}\n",
    );
    let run = workflow.run().well();
    assert_eq!(run.error("die"), "Tool: the server `s` ended, exit code 3: out of memory");
    let pids = workflow.read("pids");
    let pids: Vec<&str> = pids.lines().collect();
    assert_eq!((pids.len(), run.value("next")), (2, format!("\"{}\"", pids[1])));
    assert_eq!(run.value("last"), run.value("next"));
}

#[test]
fn all_nodes_of_a_graph_share_a_server() {
    let nodes: Vec<String> = (0..8).map(|at| format!("  n{at}: {{tool: s.pid}}\n")).collect();
    let workflow = with_server(&format!("nodes:\n{}", nodes.concat()));
    let run = workflow.run_with(&["--jobs", "8"]).well();
    assert_eq!(workflow.lines("pids"), 1);
    assert_eq!(run.value("n0"), run.value("n7"));
}

#[test]
fn a_document_of_another_system_names_tools() {
    let workflow = with_server(
        r#"
nodes:
  - {id: tool-1, type: tool, config: {tool_name: s.add, static_params: {a: 1}}, position: {x: 0, y: 0}}
  - {id: tool-2, type: tool, config: {tool_name: shell, static_params: {command: "echo ${tool-1.result.sum}"}}}
edges: [{from_node_id: tool-1, to_node_id: tool-2}]
"#,
    );
    assert_eq!(workflow.run().well().value("tool-2"), r#""9007199254740993.10""#);
}

#[test]
fn a_second_signal_does_not_wait_for_a_tool() {
    let workflow = with_server("steps:\n  - {id: slow, tool: s.slow}\n");
    let running = workflow.start(&[]);
    await_file(&workflow, "calls");
    running.signal("INT");
    running.until("stopping:");
    running.signal("INT");
    running.wait().exits(130);
    assert!(!lives(workflow.read("pids").trim()));
}

#[test]
fn a_server_does_not_outlive_a_killed_run_that_is_resumed() {
    // It ignores that its stdin is closed.
    let stubborn = SERVER.replace("\ndone\n", "\ndone\nwhile :; do sleep 1; done\n");
    let workflow =
        with_server("steps:\n  - {id: slow, tool: s.slow, on_crash: fail}\n").file("server.sh", &stubborn);
    let running = workflow.start(&[]);
    await_file(&workflow, "calls");
    running.kill();
    let pid = workflow.read("pids");
    assert!(lives(pid.trim()));
    workflow.resume().exits(1);
    assert!(!lives(pid.trim()));
}

// ---- over HTTP -----------------------------------------------------------------------------------------

/// The id of a message, as it is written.
fn id(received: &Received) -> &str {
    let rest = received.body.split("\"id\":").nth(1).unwrap_or("0");
    rest.split(',').next().unwrap_or("0")
}

fn answered(received: &Received, result: &str, stream: bool) -> Reply {
    let message = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id(received));
    let session = ("mcp-session-id", "abc".to_owned());
    if stream {
        let told = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        let body = format!("event: message\ndata: {told}\n\nevent: message\ndata: {message}\n\n");
        return Reply::Answer(200, vec![("content-type", "text/event-stream".into()), session], body);
    }
    Reply::Answer(200, vec![("content-type", "application/json".into()), session], message)
}

/// A server over HTTP that answers in this form.
fn over_http(stream: bool) -> Server {
    Server::new(move |received, _| match received.body.as_str() {
        body if body.contains("\"initialize\"") => {
            let hello = r#"{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"web","version":"9"}}"#;
            answered(received, hello, stream)
        }
        _ if received.header("mcp-session-id") != "abc" => status(400, "no session"),
        body if body.contains("\"tools/list\"") => answered(
            received,
            r#"{"tools":[{"name":"hello","inputSchema":{}},{"name":"slow","inputSchema":{}}]}"#,
            stream,
        ),
        body if body.contains("\"slow\"") => Reply::Silence,
        body if body.contains("\"tools/call\"") => {
            answered(received, r#"{"content":[],"structuredContent":{"n":1.0}}"#, stream)
        }
        _ => Reply::Answer(202, Vec::new(), String::new()),
    })
}

fn run_over_http(server: &Server, steps: &str) -> Run {
    let servers = format!(
        "servers: {{w: {{url: \"{}/mcp\", headers: {{Authorization: \"Bearer t\"}}}}}}\n",
        server.url()
    );
    workflow(&format!("{servers}{steps}")).run()
}

#[test]
fn a_server_is_reached_over_http() {
    for stream in [false, true] {
        let server = over_http(stream);
        let steps = "steps:\n  - {id: a, tool: w.hello}\n  - {id: b, tool: w.slow, timeout: 300ms, continue_on_error: true}\n";
        let run = run_over_http(&server, steps).well();
        assert_eq!(run.value("a"), r#"{"n":1.0}"#);
        assert_eq!(run.meta("a", "tool_version"), r#""9""#);
        assert_eq!(run.error("b"), "Timeout: timed out after 300ms");
        let received = server.received();
        assert!(received.iter().all(|received| received.header("authorization") == "Bearer t"));
        let call = received.iter().find(|received| received.body.contains("\"hello\"")).expect("the call");
        assert_eq!(call.header("accept"), "application/json, text/event-stream");
        assert_eq!(call.header("mcp-protocol-version"), "2025-03-26");
        let last = received.last().expect("requests");
        assert_eq!((last.line.as_str(), last.header("mcp-session-id")), ("DELETE /mcp", "abc"));
    }
}

#[test]
fn a_lost_session_is_begun_anew() {
    let server = Server::new(|received, before| match received.body.as_str() {
        body if body.contains("\"initialize\"") => answered(received, r#"{"serverInfo":{}}"#, false),
        body if body.contains("\"tools/list\"") => {
            answered(received, r#"{"tools":[{"name":"hello"}]}"#, false)
        }
        body if body.contains("\"tools/call\"") && before < 5 => status(404, "no such session"),
        body if body.contains("\"tools/call\"") => answered(received, r#"{"content":[]}"#, false),
        _ => json(""),
    });
    let run =
        run_over_http(&server, "steps:\n  - {id: a, tool: w.hello, retry: {attempts: 2, delay: 1ms}}\n")
            .well();
    assert_eq!(run.count("retrying", "a"), 1);
    let greetings =
        server.received().iter().filter(|received| received.body.contains("\"initialize\"")).count();
    assert_eq!(greetings, 2);
}

// ---- built-in tools ------------------------------------------------------------------------------------

#[test]
fn built_in_tools_do_what_steps_do() {
    let server = Server::new(|received, _| json(&format!("\"{}\"", received.line)));
    let run = workflow(&format!(
        r#"
context: {{title: "it's; $(touch ran)", api: "{}"}}
steps:
  - {{id: text, tool: shell, params: {{command: "echo ${{context.title}}"}}}}
  - {{id: words, tool: shell, params: {{argv: [echo, "${{context.title}}"]}}}}
  - {{id: asked, tool: http, params: {{method: POST, url: "${{context.api}}/${{context.title}}", body: [1]}}}}
  - {{id: failed, tool: shell, params: {{argv: ["false"]}}, continue_on_error: true}}
"#,
        server.url()
    ))
    .run()
    .well();
    assert_eq!(run.value("text"), r#""it's; $(touch ran)""#);
    assert_eq!(run.value("words"), run.value("text"));
    assert_eq!(run.value("asked"), r#""POST /it%27s%3B%20%24%28touch%20ran%29""#);
    for (step, tool) in [("text", "shell"), ("words", "shell"), ("asked", "http"), ("failed", "shell")] {
        assert_eq!(run.meta(step, "node_type"), r#""tool""#, "{step}");
        assert_eq!(run.meta(step, "tool_name"), format!("\"{tool}\""), "{step}");
        assert!(!run.meta(step, "tool_version").is_empty(), "{step}");
        assert!(run.meta(step, "tool_execution_time_ms").parse::<u64>().is_ok(), "{step}");
    }
    assert_eq!(run.meta("words", "parameters"), r#"{"argv":["echo","it's; $(touch ran)"]}"#);
    assert_eq!(run.meta("asked", "status_code"), "200");
    assert_eq!(run.meta("failed", "exit_code"), "1");
}

// ---- commands ------------------------------------------------------------------------------------------

#[test]
fn preview_and_explain_show_the_call() {
    let workflow = with_server("steps:\n  - {id: a, tool: s.add, params: {a: \"${= 1 + 1}\"}}\n");
    let shown = workflow.command(&["preview", "workflow.yaml"]).wait().well().stdout;
    assert!(shown.contains("tool \"s.add\"") && shown.contains("params {\"a\":2}"), "{shown}");
    assert!(!workflow.has("pids"), "a preview starts nothing");
    workflow.run().well();
    let told = workflow.command(&["explain", "last", "a"]).wait().well().stdout;
    assert!(told.contains("tool \"s.add\"") && told.contains("params {\"a\":2}"), "{told}");
}

// ---- servers of the public registries ------------------------------------------------------------------

/// Where `.ci/run` installs them.
fn registry() -> Option<std::path::PathBuf> {
    let given = std::env::var_os("THREADLINE_MCP_SERVERS").map(std::path::PathBuf::from);
    if let Some(folder) = &given {
        assert!(
            folder.join("node_modules/.bin/mcp-server-everything").exists(),
            "{} has no servers",
            folder.display()
        );
    }
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mcp-servers");
    given.or_else(|| Some(default).filter(|folder| folder.is_dir()))
}

#[test]
fn servers_of_the_public_registries_serve() {
    let Some(folder) = registry() else {
        eprintln!("not installed: .ci/run installs them");
        return;
    };
    let bin = folder.join("node_modules/.bin");
    let text = r#"
servers:
  everything: {command: ["BIN/mcp-server-everything"]}
  files: {command: ["BIN/mcp-server-filesystem", .]}
nodes:
  echo: {tool: everything.echo, params: {message: "it's ${workflow.name}"}}
  sum: {tool: everything.get-sum, params: {a: 2, b: 40}}
  weather: {tool: everything.get-structured-content, params: {location: Chicago}}
  slow:
    tool: everything.trigger-long-running-operation
    params: {duration: 60, steps: 2}
    timeout: 1s
    continue_on_error: true
  write: {tool: files.write_file, params: {path: note.txt, content: "${echo}"}}
  read: {tool: files.read_text_file, params: {path: note.txt}, needs: [write]}
  outside: {tool: files.read_text_file, params: {path: /etc/passwd}, continue_on_error: true}
"#;
    let workflow = workflow(&text.replace("BIN", &bin.display().to_string()));
    let run = workflow.run().well();
    assert_eq!(run.value("echo"), r#""Echo: it's workflow""#);
    assert_eq!(run.value("sum"), r#""The sum of 2 and 40 is 42.""#);
    assert!(run.value("weather").contains("\"temperature\":"), "{}", run.value("weather"));
    assert_eq!(run.error("slow"), "Timeout: timed out after 1s");
    assert!(run.value("read").contains("Echo: it's workflow"), "{}", run.value("read"));
    assert!(run.error("outside").starts_with("Tool: Access denied"), "{}", run.error("outside"));
    let listed = workflow.command(&["tools", "workflow.yaml"]).wait().well().stdout;
    assert!(listed.contains("files.read_text_file") && listed.contains("everything.get-sum"), "{listed}");
}

/// A server that answers the call of its only tool with what a file holds, to the byte.
const STUBBORN: &str = r#"#!/bin/sh
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}' ;;
    *'"method":"tools/list"'*) answer "$(cat tools)" ;;
    *'"method":"tools/call"'*) : > called; sed "s/@ID@/$id/" answer ;;
  esac
done
"#;

const ONE_TOOL: &str = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#;

fn stubborn(answer: &[u8], tools: &str, steps: &str) -> Workflow {
    let text = format!("servers: {{s: {{command: [sh, stubborn.sh]}}}}\nsteps:\n{steps}");
    let workflow = workflow(&text).file("stubborn.sh", STUBBORN).file("tools", tools);
    workflow.project.write("answer", answer);
    workflow
}

#[test]
fn an_answer_that_cannot_be_read_fails_the_step_at_once() {
    let deep = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}1{}}}"#, "[".repeat(300), "]".repeat(300));
    let digits = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"n":{}}}}}"#, "9".repeat(20_000));
    for (answer, why) in [
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":\"\xff\"}\n".to_vec(), "it is not UTF-8"),
        (format!("{deep}\n").into_bytes(), "nesting of data"),
        (format!("{digits}\n").into_bytes(), "limit"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":@ID@}\n".to_vec(), "neither a result nor an error"),
        (b"{\"jsonrpc\":\"2.0\",\"result\":{,}\n".to_vec(), ""),
    ] {
        let run = stubborn(&answer, ONE_TOOL, "  - {id: a, tool: s.t}\n").run().exits(1);
        let error = run.error("a");
        assert!(error.starts_with("Format: the answer of the server `s` cannot be read: "), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_a_warning() {
    let answer = br#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[]}}
"#;
    for (schema, why) in [
        (r#"{"type":"object","$ref":"https://schema.example/x.json"}"#, "leads out of the JSON Schema"),
        (r#"{"type":17}"#, "not a JSON Schema"),
        (r#""nothing""#, "a JSON Schema is an object"),
    ] {
        let tools = format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#);
        let workflow = stubborn(answer, &tools, "  - {id: a, tool: s.t, params: {x: 1}}\n");
        let run = workflow.run().well();
        assert!(run.stderr.contains("are not checked") && run.stderr.contains(why), "{}", run.stderr);
        let listed = workflow.command(&["check", "--tools", "workflow.yaml"]).wait();
        assert!(listed.stderr.contains("are not checked"), "{}", listed.stderr);
    }
}

#[test]
fn the_first_interrupt_ends_a_call_that_waits() {
    let workflow = stubborn(b"", ONE_TOOL, "  - {id: a, tool: s.t}\n");
    let running = workflow.start(&[]);
    await_file(&workflow, "called");
    running.signal("INT");
    running.wait().exits(130);
    workflow.project.write("answer", b"{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[]}}\n");
    workflow.resume().well();
}

#[test]
fn an_error_names_a_few_of_many_tools() {
    let tools: Vec<String> =
        (0..1_000).map(|number| format!(r#"{{"name":"tool-{number}","inputSchema":{{}}}}"#)).collect();
    let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let run = stubborn(b"", &tools, "  - {id: a, tool: s.other}\n").run().exits(1);
    assert!(run.error("a").ends_with("`tool-19` and 980 more"), "{}", run.error("a"));
}

#[test]
fn a_server_that_moved_is_an_error_that_names_its_new_place() {
    let server = Server::new(|_, _| Reply::Answer(302, vec![("location", "/new".to_owned())], String::new()));
    let text = format!("servers: {{s: {{url: '{}/old'}}}}\nsteps: [{{id: a, tool: s.t}}]\n", server.url());
    let run = workflow(&text).run().exits(1);
    let error = run.error("a");
    assert!(error.contains("the server redirects to") && error.contains("/new"), "{error}");
    assert!(server.received().iter().all(|received| received.line == "POST /old"));
}
