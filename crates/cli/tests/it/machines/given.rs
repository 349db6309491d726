//! What acts are given and who performs them: requests and agents behind an API on workers, secrets by name, labels, and
//! requests that somebody sends once more.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::cluster::{Cluster, Witness, Worker, until};
use super::{holds, start_on};
use crate::models::ModelServer;
use crate::support::{PATIENCE, Project};

/// A server that says what it was asked, and repeats the header `authorization`.
struct EchoServer {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl EchoServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        // It ends with the process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let request = read_request(&mut stream);
                let said = request.lines().find_map(|line| line.strip_prefix("authorization: "));
                let body = format!("{{\"said\":{:?}}}", said.unwrap_or_default());
                seen.lock().unwrap().push(request);
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        });
        Self { port, asked }
    }
}

/// A request with its body.
fn read_request(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length_of(head)
        {
            return text;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(length) => read.extend_from_slice(&buffer[..length]),
        }
    }
}

fn length_of(head: &str) -> usize {
    let lines = head.lines().map(str::to_ascii_lowercase);
    let length =
        lines.into_iter().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    length.unwrap_or(0)
}

#[test]
fn requests_and_agents_run_on_workers_and_secrets_travel_by_name() {
    let Some(cluster) = Cluster::start("given") else { return };
    let project = Project::new();
    let (service, models) = (
        EchoServer::start(),
        ModelServer::start(&project, r#"[{"answer": {"text": "the answer, with model-canary-3141"}}]"#),
    );
    // Each has characters that JSON and URLs write differently.
    let (token, key, printed) = ("token-canary-\"17\"+%", "key canary/é\\18", "printed-canary-1999");
    project.write("key.txt", format!("{key}\n").as_bytes());
    project.write("printed.txt", printed.as_bytes());
    let (echo, url) = (service.port, models.url());
    let workflow = format!(
        r#"secrets:
  TOKEN: {{env: TOKEN}}
  KEY: {{file: key.txt}}
  PRINTED: {{command: [cat, printed.txt]}}
  MODEL: {{env: MODEL_KEY}}
  ELSEWHERE: {{env: ELSEWHERE}}
  OTHER: {{env: OTHER}}
agents:
  model: {{provider: openai, base_url: "{url}/v1", api_key: "${{secrets.MODEL}}", model: gpt-4o}}
steps:
  - id: same
    shell: "test \"${{secrets.KEY}}\" = \"$(cat key.txt)\" && test \"$GIVEN\" = \"$TOKEN\" && echo same-$PRINTED_LENGTH"
    env: {{GIVEN: "${{secrets.TOKEN}}", PRINTED: "${{secrets.PRINTED}}", PRINTED_LENGTH: said-by-the-step}}
  - id: printed
    shell: "echo before; echo $PRINTED; printf %s \"$PRINTED\" | base64"
    env: {{PRINTED: "${{secrets.PRINTED}}"}}
    secret_output: mask
  - id: leaks
    shell: "printenv TOKEN"
    continue_on_error: true
  - id: asked
    http:
      method: POST
      url: "http://127.0.0.1:{echo}/pay?key=${{secrets.KEY}}"
      headers: {{authorization: "Bearer ${{secrets.TOKEN}}"}}
      body: {{key: "${{secrets.KEY}}"}}
    secret_output: mask
  - id: answered
    agent: model
    message: hello
    secret_output: mask
  - id: made
    shell: "echo \"${{= secrets.TOKEN | base64}}\" | wc -c"
    continue_on_error: true
  - id: unknown
    shell: "echo ${{secrets.ELSEWHERE}} | wc -c"
    continue_on_error: true
  - id: other
    shell: "echo ${{secrets.OTHER}} | wc -c"
    continue_on_error: true
"#
    );
    project.write("workflow.yaml", workflow.as_bytes());
    let shared = [("TOKEN", token), ("MODEL_KEY", "model-canary-3141")];
    let of_worker = [&shared[..], &[("OTHER", "another-value-here")]].concat();
    let _worker = cluster.worker_in(project.path(), "one", 4, &[], &of_worker);
    cluster.register();
    let own =
        [&shared[..], &[("OTHER", "the-value-there"), ("ELSEWHERE", "only-at-the-coordinator")]].concat();
    let arguments =
        ["run", "workflow.yaml", "--json", "--on", &cluster.address(), "--key-file", cluster.key()];
    let outcome = project.run_with(&own, &arguments);
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    let said = |what: &str| assert!(outcome.stdout.contains(what), "{what}: {}", outcome.stdout);
    said("same-said-by-the-step");
    said(r#""value":"before\n***\n***"#);
    said("its output contains the secret `TOKEN`");
    said(r#""said":"Bearer ***""#);
    said("the answer, with ***");
    said("it is given what an expression or a filter makes of a secret");
    said("the secret `ELSEWHERE`: the variable `ELSEWHERE` is not set");
    said("the secret `OTHER`: the variable `OTHER` has another value here than at the coordinator");
    assert!(outcome.stdout.matches(r#""worker":"one""#).count() >= 5, "{}", outcome.stdout);
    let asked = service.asked.lock().unwrap().join("\n");
    assert!(asked.contains("POST /pay?key=key%20canary%2F%C3%A9%5C18 "), "{asked}");
    assert!(asked.contains(&format!("authorization: Bearer {token}\r\n")), "{asked}");
    assert!(asked.ends_with(r#"{"key":"key canary/é\\18"}"#), "{asked}");
    assert_eq!(models.requests()[0]["headers"]["authorization"], "Bearer model-canary-3141");
    // Neither what the server stores nor the journal has a form of any of them.
    assert!(holds(&cluster.data(), b"said-by-the-step"), "what the server stores can be searched");
    let forms = ["token-canary", "dG9rZW4tY2FuYXJ5", "canary/", "canary%2F", printed, "cHJpbnRlZC1jYW5hcnkt"];
    for form in forms.iter().chain(&["model-canary", "only-at-the-coordinator", "the-value-there"]) {
        assert!(!holds(&cluster.data(), form.as_bytes()), "{form} at the server");
        assert!(!holds(&project.path().join(".threadline"), form.as_bytes()), "{form} in the journal");
        assert!(!outcome.stdout.contains(form), "{form}: {}", outcome.stdout);
    }
}

#[test]
fn steps_run_on_workers_with_the_labels_that_they_ask_for() {
    let Some(cluster) = Cluster::start("labels") else { return };
    let project = Project::new();
    let workflow = "agents:\n  reader: {command: [cat], on: {gpu: true}}\ndefaults: {on: {zone: eu}}\nsteps:\n  - shell: \
                    echo zone\n  - shell: echo both\n    on: {zone: eu, gpu: true}\n  - shell: echo any\n    on: {}\n  - \
                    agent: reader\n    message: asked\n  - foreach: {shell: seq 2}\n    on: {gpu: true}\n    do:\n      - \
                    shell: \"echo item-${item}\"\n      - shell: \"echo free-${item}\"\n        on: {}\n";
    project.write("workflow.yaml", workflow.as_bytes());
    project.write("missing.yaml", b"steps:\n  - shell: echo a\n  - shell: echo b\n    on: {gpu: a100}\n");
    let plain = cluster.worker(project.path(), "plain", 4);
    cluster.register();
    let run = |file: &str| {
        project.run(&["run", file, "--json", "--on", &cluster.address(), "--key-file", cluster.key()], b"")
    };
    let nobody = run("workflow.yaml");
    assert_eq!(nobody.exit, 3, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("no worker with the labels `gpu=true"), "{}", nobody.stderr);
    let labels = ["--label", "gpu=true", "--label", "zone=eu"];
    let labelled = Worker::registering_with(project.path(), cluster.key(), &cluster.admin(), &labels);
    let mut outcome = None;
    until("it has registered", || {
        let tried = run("workflow.yaml");
        let is_known = tried.exit != 3;
        outcome = Some(tried);
        is_known
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    let by = |value: &str, worker: &str| {
        let line = outcome.stdout.lines().find(|line| line.contains("finished") && line.contains(value));
        let line = line.unwrap_or_else(|| panic!("{value}: {}", outcome.stdout));
        assert!(line.contains(&format!(r#""worker":"{worker}""#)), "{value} by {worker}: {line}");
    };
    for value in ["zone", "both", "asked", "item-1", "item-2"] {
        by(value, "alone");
    }
    for value in ["any", "free-1", "free-2"] {
        by(value, "plain");
    }
    let missing = run("missing.yaml");
    assert_eq!(missing.exit, 3);
    let wanted = "no worker with the labels `gpu=a100` is registered";
    assert!(
        missing.stderr.contains(wanted) && missing.stderr.contains("missing.yaml:3:"),
        "{}",
        missing.stderr
    );
    assert_eq!(project.run(&["run", "workflow.yaml"], b"").exit, 0, "labels mean nothing here");
    drop((plain, labelled));
}

/// Forwards connections to a server, and keeps what clients send.
fn recorder(port: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&recorded);
    // It ends with the process.
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
            let (kept, mut client, mut server) = (Arc::clone(&kept), client, server);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = client.read(&mut buffer) {
                    kept.lock().unwrap().extend_from_slice(&buffer[..length]);
                    if server.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (own, recorded)
}

#[test]
fn a_request_that_is_sent_once_more_begins_nothing() {
    let Some(cluster) = Cluster::start("replayed") else { return };
    let project = Project::new();
    project.write("workflow.yaml", b"steps:\n  - shell: \"echo begun >> witness; echo answered\"\n");
    let _worker = cluster.worker(project.path(), "one", 2);
    cluster.register();
    let address = cluster.address();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let (through, recorded) = recorder(port);
    let on = format!("restate://127.0.0.1:{through}");
    let outcome = project.run(&["run", "workflow.yaml", "--on", &on, "--key-file", cluster.key()], b"");
    assert_eq!((outcome.exit, Witness(&project).lines()), (0, 1), "{}", outcome.stderr);
    let recorded = String::from_utf8(recorded.lock().unwrap().clone()).unwrap();
    let request = recorded.split("POST ").find(|request| request.contains("witness")).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let body = &body[..length_of(head)];
    let path = head.split(' ').next().unwrap();
    let send = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let again = send(path);
    assert!(again.starts_with("HTTP/1.1 409 "), "{again}");
    let other = send("/ThreadlineAct/another/v1");
    assert!(other.contains("it was signed for something else"), "{other}");
    assert_eq!(Witness(&project).lines(), 1, "only the first began");
}

#[test]
fn a_limit_of_an_agent_holds_for_all_coordinators_and_runs_take_turns() {
    let Some(cluster) = Cluster::start("limits") else { return };
    let project = Project::new();
    let agents = "agents:\n  one: {command: [sh, ask.sh], max_parallel: 1}\n";
    let ask = "read -r who\necho \"begin $who\" >> witness\nuntil test -e go; do sleep 0.02; done\nsleep 0.1\necho \"end \
               $who\" >> witness\n";
    project.write("ask.sh", ask.as_bytes());
    let list = |who: &str, count: usize| {
        format!(
            "{agents}steps:\n  - foreach: {{shell: seq {count}}}\n    parallel: 4\n    do:\n      - agent: one\n        \
             message: \"{who}\"\n"
        )
    };
    project.write("long.yaml", list("long", 5).as_bytes());
    project.write("short.yaml", list("short", 1).as_bytes());
    let _workers = ["one", "two"].map(|worker| cluster.worker(project.path(), worker, 4));
    cluster.register();
    let mut long = start_on(&cluster, &project, "long.yaml");
    let lines = || project.read("witness").unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    until("the first call has begun", || lines().len() == 1);
    let mut short = start_on(&cluster, &project, "short.yaml");
    until("the other run asks, too", || {
        let shown = project.run(&["show", "last", "--json"], b"").stdout;
        shown.contains("short.yaml") && shown.contains(r#""kind":"started""#)
    });
    project.write("go", b"");
    for run in [&mut long, &mut short] {
        until("the run has ended", || run.try_wait().unwrap().is_some());
        assert!(run.wait().unwrap().success());
    }
    let lines = lines();
    assert_eq!(lines.len(), 12, "{lines:?}");
    for pair in lines.chunks(2) {
        assert_eq!(pair[0].replace("begin", "end"), pair[1], "one at a time: {lines:?}");
    }
    let place = lines.iter().position(|line| line == "end short").unwrap();
    assert!(place < lines.len() - 1, "the short run did not wait for all of the long one: {lines:?}");
}
