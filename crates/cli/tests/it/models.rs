//! The stand-ins for models in `tests/models`: started as tests of agents start them, and checked against the
//! client libraries of the vendors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{PATIENCE, Project};

/// The folder of the stand-ins; its README has the format of rules.
pub(crate) fn stand_ins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

/// A server that speaks the protocols of both APIs and answers as rules say; it ends with the test.
pub(crate) struct ModelServer {
    child: Child,
    address: String,
    log: PathBuf,
}

impl ModelServer {
    /// Starts it. The rules are `models.json` of the project, the log is `models.jsonl` there.
    pub(crate) fn start(project: &Project, rules: &str) -> Self {
        project.write("models.json", rules.as_bytes());
        let log = project.path().join("models.jsonl");
        let mut command = Command::new("python3");
        command.arg(stand_ins().join("model_server.py")).arg(project.path().join("models.json")).arg(&log);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts the server");
        let mut address = String::new();
        let stdout = child.stdout.as_mut().expect("a piped stdout");
        BufReader::new(stdout).read_line(&mut address).expect("the address of the server");
        assert!(address.starts_with("http://127.0.0.1:"), "the server does not start: {address}");
        Self { child, address: address.trim_end().to_owned(), log }
    }

    /// `http://127.0.0.1:PORT`, to which a client adds `/v1/messages` or `/v1/chat/completions`.
    pub(crate) fn url(&self) -> &str {
        &self.address
    }

    /// Every request, in order: its `path`, `headers` and `body`, the `rule` that answered, the `status`.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // It ends with its stdin; waiting shows that it does.
        drop(self.child.stdin.take());
        self.child.wait().expect("the server ends");
    }
}

/// Sends a request as it stands on the wire, and returns everything that comes back.
fn exchange(server: &ModelServer, path: &str, headers: &str, body: &str) -> String {
    let address = server.url().strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the request is sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the answer is text");
    reply
}

#[test]
fn a_server_answers_both_protocols_and_records_what_it_was_asked() {
    let project = Project::new();
    let rules = r#"[{"when": {"user": "first"}, "answer": {"text": "one"}}, {"answer": {"error": 529}}]"#;
    let server = ModelServer::start(&project, rules);
    let messages = r#"[{"role":"user","content":"the first question"}]"#;
    let body = format!(r#"{{"model":"claude-opus-5","max_tokens":9,"messages":{messages}}}"#);
    let key = "x-api-key: k\r\nanthropic-version: 2023-06-01";
    let reply = exchange(&server, "/v1/messages", key, &body);
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains(r#""text":"one""#), "{reply}");
    let chat = format!(r#"{{"model":"gpt-4o","messages":{messages},"stream":true}}"#);
    let reply = exchange(&server, "/v1/chat/completions", "authorization: Bearer k", &chat);
    assert!(reply.contains(r#""delta":{"content":"one"}"#) && reply.contains("data: [DONE]"), "{reply}");
    let reply = exchange(&server, "/v1/messages", key, &body.replace("first", "second"));
    assert!(reply.starts_with("HTTP/1.1 529 ") && reply.contains("overloaded_error"), "{reply}");
    let reply = exchange(&server, "/v1/messages", key, "{}");
    assert!(reply.contains("max_tokens: Field required"), "{reply}");
    let asked = server.requests();
    let seen: Vec<String> = asked.iter().map(|line| format!("{} {}", line["rule"], line["status"])).collect();
    assert_eq!(seen, ["0 200", "0 200", "1 529", "null 400"]);
    assert_eq!(asked[0]["headers"]["x-api-key"], "k");
    assert_eq!(asked[1]["body"]["model"], "gpt-4o");
}

#[test]
fn a_misspelt_rule_stops_a_stand_in() {
    let project = Project::new();
    for (rules, problem) in [
        (r#"[{"answer": {"txt": "a"}}]"#, "rules[0].answer: unknown key `txt`"),
        (r#"[{"when": {"users": "a"}, "answer": {"text": "a"}}]"#, "rules[0].when: unknown key `users`"),
        (r#"[{"answer": {"text": "a", "wire": {"newline": "tab"}}}]"#, "unknown `tab`; known: cr, crlf, lf"),
    ] {
        project.write("models.json", rules.as_bytes());
        let mut command = Command::new("python3");
        command.arg(stand_ins().join("model_server.py")).args(["models.json", "log"]);
        let Output { status, stderr, .. } =
            command.current_dir(project.path()).stdin(Stdio::null()).output().expect("python3 runs");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stderr.contains(problem), "{stderr}");
    }
}

#[test]
fn a_stand_in_of_claude_code_prints_its_lines() {
    let project = Project::new();
    let rules = r#"[{"when": {"user": "fix"}, "answer": {"text": "done", "cost": 0.5, "steps":
        [{"tool": "Bash", "input": {"command": "make"}, "output": "ok"}]}}]"#;
    project.write("rules.json", rules.as_bytes());
    project.write("prompt", b"fix it");
    let mut command = Command::new(stand_ins().join("claude"));
    command.args(["-p", "--output-format", "stream-json", "--verbose"]).args(["--allowedTools", "Bash"]);
    let prompt = std::fs::File::open(project.path().join("prompt")).expect("the prompt");
    command.env("CLAUDE_STAND_IN", project.path()).current_dir(project.path()).stdin(prompt);
    let output = command.output().expect("the stand-in runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["system", "assistant", "user", "assistant", "result"]);
    assert_eq!(lines[4]["result"], "done");
    assert_eq!(lines[4]["total_cost_usd"].to_string(), "0.5");
    assert_eq!(lines[4]["session_id"], lines[0]["session_id"]);
    let log: Value = serde_json::from_str(&project.read("log.jsonl").expect("a log")).expect("JSON");
    assert_eq!(log["stdin"], "fix it");
    assert_eq!(log["options"]["--allowedTools"][0], "Bash");
}

/// The Python that has the libraries: where `.ci/run` installs them.
fn clients() -> Option<PathBuf> {
    let given = std::env::var_os("THREADLINE_MODEL_CLIENTS").map(PathBuf::from);
    if let Some(folder) = &given {
        assert!(folder.join("requirements.txt").exists(), "{} has no libraries", folder.display());
    }
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/model-clients");
    let folder = given.or_else(|| Some(default).filter(|folder| folder.join("requirements.txt").exists()))?;
    Some(folder.join("bin/python"))
}

#[test]
fn the_libraries_of_the_vendors_understand_the_stand_ins() {
    let Some(python) = clients() else {
        // The harness keeps what a test prints that goes well to itself.
        let says = "models: NOT CHECKED against the libraries of the vendors, which are not installed: .ci/run does that";
        writeln!(std::io::stderr(), "{says}").expect("stderr takes a line");
        return;
    };
    let output = Command::new(python).arg(stand_ins().join("vendor_check.py")).output().expect("it runs");
    let (told, problems) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{problems}");
}
