//! `threadline serve` as a client sees it: over connections, byte by byte. The routes that are tried are those of the
//! description that the program prints, which is made of the table that the server answers by.

mod actions;
mod answers;
mod browser;
mod gate;
mod malformed;
mod pages;
mod proxy;
mod streams;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{PATIENCE, Project};

/// A workflow with something of everything: inputs, a condition, items that fail, a step that is skipped, a called
/// workflow, and a text that is large.
const WORK: &str = r#"inputs:
  who: {type: text, default: world}
steps:
  - {id: greet, shell: "echo hello ${inputs.who}; echo warned >&2", capture: greeting}
  - {id: large, shell: "head -c 5000 /dev/zero | tr '\\0' x"}
  - {id: seldom, when: "inputs.who == 'nobody'", shell: echo seldom}
  - id: each
    foreach: [1, 2, 3, 4, 5]
    continue_on_error: true
    do:
      - {id: odd, shell: "test ${item} -ne 3", retry: {attempts: 2, delay: 0s}}
  - {id: called, workflow: part.yaml, with: {text: "${greeting}"}}
  - {id: last, shell: "echo ${greeting} ${large} | tail -c 20"}
"#;

const PART: &str = "inputs: {text: {type: text}}
steps: [{id: say, shell: 'echo ${inputs.text}'}]
";

/// The path of the routes of a project.
const RUNS: &str = "/api/projects/project/runs";

/// A project with runs, and a server of it.
struct Served {
    project: Project,
    server: Server,
}

/// A server that was started.
struct Server {
    child: Child,
    /// Its host and port.
    host: String,
    /// What the paths of pages begin with.
    base: String,
    token: String,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end + 4..].to_vec() })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// A field of the head; several of the same name are separated by line breaks.
    fn field(&self, name: &str) -> Option<String> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let found: Vec<&str> =
            fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect();
        (!found.is_empty()).then(|| found.join("\n"))
    }
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let free = ["--listen", "127.0.0.1:0"];
        let listen = if arguments.contains(&"--listen") { &[][..] } else { &free[..] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_threadline"))
            .arg("serve")
            .args(listen)
            .args(arguments)
            .current_dir(folder)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("an address");
        let rest = line.trim().split_once("://").map(|(_, rest)| rest);
        let rest = rest.unwrap_or_else(|| panic!("no address but `{line}`: {}", stderr_of(&mut child)));
        let (host, path) = rest.split_once('/').expect("a path");
        let (base, query) = path.split_once('/').expect("a segment");
        let token = query.strip_prefix("open?token=").unwrap_or_default().to_owned();
        Self { child, host: host.to_owned(), base: format!("/{base}"), token }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    }

    /// Sends bytes and reads the answer to its end. With `is_all`, the server sees that nothing more comes.
    fn send(&self, bytes: &[u8], is_all: bool) -> Vec<u8> {
        let mut stream = self.connect();
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(bytes);
        if is_all {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn request(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let answer = self.send(&[head.as_bytes(), body].concat(), false);
        Reply::read(&answer).unwrap_or_else(|| {
            panic!("no answer to {method} {path} but `{}`", String::from_utf8_lossy(&answer))
        })
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Asks as a program that knows the token.
    fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[("host", &self.host), ("authorization", &self.bearer())], b"")
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        let bearer = self.bearer();
        let fields =
            [("host", self.host.as_str()), ("authorization", &bearer), ("content-type", "application/json")];
        self.request("POST", path, &fields, body.as_bytes())
    }

    /// What is asked with GET, as JSON.
    fn json(&self, path: &str) -> serde_json::Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// The address that its process listens at, which may not be the one that it prints.
    fn listens_at(&self) -> String {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the sockets");
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("its files");
        let links = folder.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        let own: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let listening =
            sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|parts| {
                parts.get(3) == Some(&"0A")
                    && own.contains(&format!("socket:[{}]", parts.get(9).unwrap_or(&"")))
            });
        let listening = listening.expect("a socket that listens");
        let port = listening[1].rsplit(':').next().expect("a port");
        format!("127.0.0.1:{}", u16::from_str_radix(port, 16).expect("a number"))
    }

    /// Ends it, and gives what it said on stderr.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        stderr_of(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stderr_of(child: &mut Child) -> String {
    let _ = child.kill();
    let _ = child.wait();
    let mut said = String::new();
    let stderr = child.stderr.take();
    let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
    said
}

impl Served {
    /// A project with one run of everything.
    fn new(arguments: &[&str]) -> Self {
        let project = Project::new();
        project.write("work.yaml", WORK.as_bytes());
        project.write("part.yaml", PART.as_bytes());
        let ran = project.run(&["run", "work.yaml"], b"");
        assert_eq!(ran.exit, 0, "{}", ran.stderr);
        let server = Server::start(project.path(), arguments);
        Self { project, server }
    }

    /// The path of the routes of the last run that somebody started.
    fn run(&self) -> String {
        format!("{RUNS}/{}", self.last())
    }

    fn last(&self) -> String {
        let runs = self.server.json(&format!("{RUNS}?count=1"));
        runs["runs"][0]["run"].as_str().expect("a run").to_owned()
    }

    /// Every file of the store beside the lock files, with what is in it.
    fn store(&self) -> Vec<(String, Vec<u8>)> {
        let folder = self.project.path().join(".threadline");
        let mut found = Vec::new();
        for name in ["journal.db", "journal.db-wal"] {
            found.push((name.to_owned(), std::fs::read(folder.join(name)).unwrap_or_default()));
        }
        found
    }
}

/// A route of the description.
struct DescribedRoute {
    method: String,
    path: String,
    operation: serde_json::Value,
}

/// Every route, as the program describes them.
fn routes() -> Vec<DescribedRoute> {
    let description = description();
    let paths = description["paths"].as_object().expect("paths").clone();
    let routes = paths.into_iter().flat_map(|(path, operations)| {
        let operations = operations.as_object().expect("operations").clone();
        operations.into_iter().map(move |(method, operation)| DescribedRoute {
            method: method.to_uppercase(),
            path: path.clone(),
            operation,
        })
    });
    routes.collect()
}

fn description() -> serde_json::Value {
    let printed = Project::new().run(&["schema", "openapi"], b"").stdout;
    serde_json::from_str(&printed).expect("a description is JSON")
}

impl DescribedRoute {
    /// Its path with what stands there: a run that there is, and names of everything else.
    fn path_of(&self, run: &str) -> String {
        let path = self.path.replace("{project}", "project").replace("{run}", run);
        path.replace("{asset}", "style.css")
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn is_entry(&self) -> bool {
        self.path == "/open"
    }

    fn streams(&self) -> bool {
        self.operation["responses"]["200"]["content"].get("text/event-stream").is_some()
    }
}

/// How long nothing is waited for where a stream could say something.
const A_MOMENT: Duration = Duration::from_millis(20);
