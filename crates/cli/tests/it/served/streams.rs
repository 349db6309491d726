//! Events as they come: a client that connects again behind the last event that it has seen gets every event once, whatever
//! is killed in between: its connection, the server, the run.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{A_MOMENT, RUNS, Served, Server};
use crate::machines::cluster::until;
use crate::power_loss::Random;
use crate::support::{PATIENCE, Project, is_long, seed};

/// A run that takes a while: it waits for files that the test makes.
const SLOW: &str = "steps:
  - id: each
    foreach: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    do: [{id: one, shell: 'echo ${item}'}]
  - {id: wait, shell: 'while ! test -e go; do sleep 0.02; done'}
  - id: rest
    foreach: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    do: [{id: two, shell: 'echo ${item}'}]
";

/// A client of a stream.
pub(super) struct Stream {
    lines: BufReader<TcpStream>,
}

/// What a client of a stream sees.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Event(u64),
    Driven(bool),
    /// Nothing is said for the moment.
    Nothing,
    /// The connection has ended.
    End,
}

impl Stream {
    fn open(server: &Server, path: &str, last: Option<u64>) -> Option<Self> {
        Self::open_as(&server.host, path, &server.token, last)
    }

    pub(super) fn open_as(host: &str, path: &str, token: &str, last: Option<u64>) -> Option<Self> {
        let mut stream = TcpStream::connect(host).ok()?;
        let last = last.map_or(String::new(), |last| format!("last-event-id: {last}\r\n"));
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        while lines.read_line(&mut line).ok()? > 0 && line != "\r\n" {
            line.clear();
        }
        lines.get_ref().set_read_timeout(Some(A_MOMENT)).ok()?;
        Some(Self { lines })
    }

    /// The next thing that is told, as long as it takes.
    pub(super) fn wait(&mut self) -> Told {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next() {
                Told::Nothing => assert!(Instant::now() < deadline, "nothing is told"),
                told => return told,
            }
        }
    }

    /// The next thing that is told.
    fn next(&mut self) -> Told {
        let (mut line, mut driven) = (String::new(), false);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.read_line(&mut line) {
                Ok(0) => return Told::End,
                Ok(_) => {}
                // A line that has begun ends soon.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(Instant::now() < deadline, "a line that has begun does not end: {line}");
                    if line.is_empty() && !driven {
                        return Told::Nothing;
                    }
                    continue;
                }
                Err(_) => return Told::End,
            }
            if let Some(id) = line.strip_prefix("id: ") {
                return Told::Event(id.trim().parse().expect("a number"));
            }
            driven |= line.starts_with("event: driven");
            if driven && line.starts_with("data: ") {
                return Told::Driven(line.contains("true"));
            }
            line.clear();
        }
    }
}

fn token_file(project: &Project) {
    project.write("token", "k3v9t2mp".repeat(8).as_bytes());
}

fn start_run(project: &Project, file: &str) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let command = command.args(["run", file]).current_dir(project.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a run starts")
}

#[test]
fn a_stream_that_is_cut_anywhere_goes_on_exactly() {
    let project = Project::new();
    project.write("slow.yaml", SLOW.as_bytes());
    token_file(&project);
    let token = "k3v9t2mp".repeat(8);
    let start = |listen: &str| {
        let mut server = Server::start(project.path(), &["--token-file", "token", "--listen", listen]);
        server.token.clone_from(&token);
        server
    };
    let mut server = start("127.0.0.1:0");
    let mut run = start_run(&project, "slow.yaml");
    let runs = "/api/projects/project/runs";
    until("the run", || server.json(runs)["runs"].as_array().is_some_and(|runs| !runs.is_empty()));
    let id = server.json(runs)["runs"][0]["run"].as_str().expect("an id").to_owned();
    let path = format!("{runs}/{id}/events");
    let (mut random, mut seen, mut cuts) = (Random(seed()), Vec::new(), 0);
    let most = if is_long() { 200 } else { 30 };
    let mut has_gone_on = false;
    // The last events come only after the file is there.
    'connections: loop {
        let last = seen.last().copied();
        let Some(mut stream) = Stream::open(&server, &path, last) else {
            server = start(&server.host.clone());
            continue;
        };
        let until_cut = if cuts < most { 1 + random.below(6) } else { usize::MAX };
        let mut told = 0;
        while told < until_cut {
            match stream.next() {
                Told::Event(seq) => {
                    seen.push(seq);
                    told += 1;
                }
                Told::Driven(is_driven) => {
                    if !is_driven && has_gone_on {
                        break 'connections;
                    }
                }
                Told::Nothing => {
                    if !has_gone_on {
                        project.write("go", b"");
                        has_gone_on = true;
                    }
                }
                Told::End => break,
            }
        }
        cuts += 1;
        // Now and then the server is killed, and another one answers at the same place.
        if cuts <= most && cuts % 5 == 0 {
            let host = server.host.clone();
            drop(server);
            server = start(&host);
        }
    }
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    let events = server.json(&format!("{runs}/{id}"))["events"].as_u64().expect("a number");
    assert_eq!(seen, (1..=events).collect::<Vec<u64>>(), "each event once, in order");
    assert!(cuts > 5, "it was cut {cuts} times");
}

#[test]
fn many_streams_of_a_run_see_the_same_and_one_that_reads_nothing_holds_up_nobody() {
    let project = Project::new();
    project.write("slow.yaml", SLOW.as_bytes());
    let server = Server::start(project.path(), &[]);
    let mut run = start_run(&project, "slow.yaml");
    let runs = "/api/projects/project/runs";
    until("the run", || server.json(runs)["runs"].as_array().is_some_and(|runs| !runs.is_empty()));
    let id = server.json(runs)["runs"][0]["run"].as_str().expect("an id").to_owned();
    let path = format!("{runs}/{id}/events");
    let _sleeper = Stream::open(&server, &path, None).expect("a stream");
    let mut streams: Vec<(Stream, Vec<u64>)> =
        (0..20).map(|_| (Stream::open(&server, &path, None).expect("a stream"), Vec::new())).collect();
    project.write("go", b"");
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    let events = server.json(&format!("{runs}/{id}"))["events"].as_u64().expect("a number");
    for (stream, seen) in &mut streams {
        while seen.last() != Some(&events) {
            match stream.wait() {
                Told::Event(seq) => seen.push(seq),
                Told::Driven(_) => {}
                other => panic!("a stream does not end by itself: {other:?}, behind {seen:?}"),
            }
        }
        assert_eq!(*seen, (1..=events).collect::<Vec<u64>>());
    }
}

#[test]
fn an_event_that_is_not_there_is_an_error() {
    let served = Served::new(&[]);
    let path = format!("{}/events", served.run());
    let reply = served.server.get(&format!("{path}?after=99999"));
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert!(reply.text().contains("its events are 1 to"), "{}", reply.text());
    let bearer = served.server.bearer();
    for id in ["x", "-1", "1.5", "99999999999999999999999"] {
        let fields =
            [("host", served.server.host.as_str()), ("authorization", &bearer), ("last-event-id", id)];
        assert_eq!(served.server.request("GET", &path, &fields, b"").status, 400, "{id}");
    }
    assert_eq!(served.server.get(&format!("{RUNS}/nosuchrun/events")).status, 404);
}
