//! `threadline serve` under load: the first byte of each view, and the memory of the server, with 1,000 stored runs, a map of
//! 10,000 items that 50 streams follow, and runs of ten times as many events each.
//!
//! ```sh
//! cargo run --release --manifest-path bench/Cargo.toml --bin page -- --binary path/to/threadline --largest 1000000
//! ```
//!
//! Clients speak HTTP over a socket each; nothing else is asked for at the same time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often each view is asked for.
const ROUNDS: usize = 15;

/// How many streams follow a run at once.
const STREAMS: usize = 50;

/// How many runs are stored.
const RUNS: usize = 1_000;

const SMALL: &str = "inputs: {n: {type: int}}\nsteps:\n  - {id: one, value: \"${inputs.n}\"}\n  - {id: two, value: \"${one}\"}\n";

const MAP: &str = "inputs: {n: {type: int}}
map:
  input: {shell: 'seq ${inputs.n}'}
  steps: [{id: one, value: '${item}'}]
";

/// A server, which ends with the benchmark.
struct Server {
    child: Child,
    host: String,
    token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(binary: &Path, folder: &Path) -> Self {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("an address");
        let (address, token) = line.trim().split_once("?token=").expect("a token");
        let host = address.trim_start_matches("http://").split('/').next().expect("a host");
        Self { child, host: host.to_owned(), token: token.to_owned() }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).expect("a connection");
        let (host, token) = (&self.host, &self.token);
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        stream
    }

    /// The time until the first byte, and the whole answer.
    fn get(&self, path: &str) -> (Duration, String) {
        let begun = Instant::now();
        let mut stream = self.ask(path);
        let mut bytes = vec![0];
        stream.read_exact(&mut bytes).expect("an answer");
        let first = begun.elapsed();
        stream.read_to_end(&mut bytes).expect("all of it");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
        (first, text)
    }

    /// The memory that it holds, in MB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kibibytes * 1024.0 / 1e6
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut binary, mut largest) = (PathBuf::from("target/release/threadline"), 100_000_u64);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("`{argument}` needs a value"));
        match argument.as_str() {
            "--binary" => binary = std::path::absolute(value).expect("a path"),
            "--largest" => largest = value.parse().expect("a number of events"),
            other => panic!("there is no `{other}`: `--binary` and `--largest`"),
        }
    }
    let folder = std::env::temp_dir().join(format!("threadline-bench-page-{}", std::process::id()));
    std::fs::create_dir_all(folder.join(".threadline")).expect("a folder");
    std::fs::set_permissions(folder.join(".threadline"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("a private folder");
    std::fs::write(folder.join("small.yaml"), SMALL).expect("a file");
    std::fs::write(folder.join("map.yaml"), MAP).expect("a file");
    measure(&binary, &folder, largest);
    let _ = std::fs::remove_dir_all(&folder);
}

fn run(binary: &Path, folder: &Path, file: &str, n: u64) {
    let input = format!("n={n}");
    let status = Command::new(binary)
        .args(["run", file, "--input", &input])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("it starts").success(), "{file} {n}");
}

fn measure(binary: &Path, folder: &Path, largest: u64) {
    for n in 0..RUNS as u64 {
        run(binary, folder, "small.yaml", n);
    }
    println!(
        "| events | state | graph | items | timeline | explanation | run | last event of {STREAMS} streams | memory |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut items = 10_000;
    loop {
        run(binary, folder, "map.yaml", items);
        let events = rows(binary, folder, items);
        if events >= largest {
            break;
        }
        items *= if events * 10 <= largest { 10 } else { largest.div_ceil(events).max(2) };
    }
    let server = Server::start(binary, folder);
    let runs = format!("/api/projects/{}/runs", name(&server));
    let list = median(&server, &runs);
    let (_, page) = server.get(&runs);
    println!(
        "\na list of {RUNS} runs, 50 at a time: first byte after {list}, {} kB; memory {:.1} MB",
        page.len() / 1_000,
        server.memory()
    );
    println!("a text that no run has: {}", median(&server, &format!("{runs}?text=nothing")));
}

fn name(server: &Server) -> String {
    let (_, projects) = server.get("/api/projects");
    let (_, rest) = projects.split_once("\"project\":\"").expect("a project");
    rest.split('"').next().expect("a name").to_owned()
}

/// Measures the views of the last run with a server of its own, and gives the number of its events.
fn rows(binary: &Path, folder: &Path, items: u64) -> u64 {
    let server = Server::start(binary, folder);
    let runs = format!("/api/projects/{}/runs", name(&server));
    let (_, list) = server.get(&format!("{runs}?count=1"));
    let part = |key: &str| {
        let (_, rest) = list.split_once(&format!("\"{key}\":")).expect("a key");
        rest.trim_start_matches('"').split(['"', ',', '}']).next().expect("a value").to_owned()
    };
    let (id, events): (String, u64) = (part("run"), part("events").parse().expect("a number"));
    let run = format!("{runs}/{id}");
    // The first answer reads the run; what follows finds it read.
    let (opened, _) = server.get(&format!("{run}/state"));
    let views = ["state", "graph", "items?step=map", "timeline", "explanation?items=7", ""];
    let times: Vec<String> = views
        .iter()
        .map(|view| median(&server, &format!("{run}/{view}").trim_end_matches('/').to_owned()))
        .collect();
    let followed = follow(&server, &format!("{run}/events?after={}", events.saturating_sub(10_000)), events);
    println!(
        "| {events} ({items} items; opened in {}) | {} | {followed} | {:.0} MB |",
        text(opened),
        times.join(" | "),
        server.memory()
    );
    events
}

/// The time until all streams have seen the last event.
fn follow(server: &Server, path: &str, last: u64) -> String {
    let begun = Instant::now();
    let streams: Vec<TcpStream> = (0..STREAMS).map(|_| server.ask(path)).collect();
    let mark = format!("id: {last}");
    let readers: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let mark = mark.clone();
            std::thread::spawn(move || {
                let found = BufReader::new(stream).lines().map_while(Result::ok).any(|line| line == mark);
                assert!(found, "the stream ends before its last event");
            })
        })
        .collect();
    for reader in readers {
        reader.join().expect("a stream");
    }
    text(begun.elapsed())
}

/// The median time until the first byte.
fn median(server: &Server, path: &str) -> String {
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| server.get(path).0).collect();
    times.sort();
    text(times[ROUNDS / 2])
}

fn text(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
