//! A Restate server, workers, and what spreads acts among them: real programs on free ports, ended with the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, Project};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Where `.ci/run` installs the server; none where it did not.
fn server() -> Option<PathBuf> {
    let given = std::env::var_os("THREADLINE_RESTATE").map(PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/restate");
    let folder = given.clone().unwrap_or_else(default).join("node_modules/@restatedev");
    let found = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| {
        let program = entry.ok()?.path().join("bin/restate-server");
        // The package of the same name only chooses among those of the platforms.
        let name = program.parent()?.parent()?.file_name()?.to_string_lossy().into_owned();
        (name != "restate-server" && program.exists()).then_some(program)
    });
    let found = found.last();
    assert!(given.is_none() || found.is_some(), "THREADLINE_RESTATE has no server");
    found
}

/// Waits until something is so.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(LOOK);
    }
}

/// A port that nobody has.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port").port()
}

/// A Restate server and the workers behind it.
pub(super) struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    ingress: u16,
    admin: u16,
    fabric: u16,
    server: Child,
    balancer: Balancer,
    key: PathBuf,
}

impl Cluster {
    /// A server without workers. None, and a line that says so, where there is no server.
    pub(super) fn start(name: &str) -> Option<Self> {
        let Some(program) = server() else {
            println!("left out: there is no restate-server; .ci/run installs it");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("threadline-restate-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let key = folder.join("key");
        std::fs::write(&key, "the key of the machines of a test\n").expect("a key");
        let (ingress, admin, fabric) = (free_port(), free_port(), free_port());
        let server = start_server(&program, &folder, [ingress, admin, fabric]);
        let balancer = Balancer::start();
        let cluster = Self { program, folder, ingress, admin, fabric, server, balancer, key };
        cluster.wait_for_server();
        Some(cluster)
    }

    fn wait_for_server(&self) {
        until("the server takes requests", || {
            let healthy = |port, path| http(port, "GET", path, "").is_some_and(|(status, _)| status == 200);
            healthy(self.ingress, "/restate/health") && healthy(self.admin, "/health")
        });
    }

    pub(super) fn address(&self) -> String {
        format!("restate://127.0.0.1:{}", self.ingress)
    }

    pub(super) fn key(&self) -> &str {
        self.key.to_str().expect("a path")
    }

    /// The arguments of `run` that send programs to the workers.
    pub(super) fn on(&self) -> String {
        format!("--on {} --key-file {}", self.address(), self.key())
    }

    /// The folder with all that the server stores.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts a worker for a project.
    pub(super) fn worker(&self, project: &Path, name: &str, slots: usize) -> Worker {
        self.worker_with(project, name, slots, &[])
    }

    /// The same, with more arguments.
    pub(super) fn worker_with(&self, project: &Path, name: &str, slots: usize, more: &[&str]) -> Worker {
        let port = free_port();
        let worker = Worker::start(project, name, port, slots, self.key(), more);
        self.balancer.add(port);
        worker
    }

    /// Starts a worker that sees no folder but its own, which is empty, and the blob store.
    pub(super) fn lone_worker(&self, name: &str, slots: usize, blobs: &str) -> Worker {
        self.lone_worker_with(name, slots, blobs, &[])
    }

    /// The same, with more variables in its environment.
    pub(super) fn lone_worker_with(
        &self,
        name: &str,
        slots: usize,
        blobs: &str,
        variables: &[(&str, &str)],
    ) -> Worker {
        let own = self.folder.join(format!("worker-{name}"));
        std::fs::create_dir_all(own.join("empty")).expect("a folder");
        let port = free_port();
        let mut command = Worker::command(&own.join("empty"), name, port, slots, self.key());
        command.args(["--blobs", blobs]).arg("--cache").arg(own.join("cache"));
        let worker = Worker::of(command, port, variables);
        self.balancer.add(port);
        worker
    }

    /// A blob store in a folder of the cluster.
    pub(super) fn blobs(&self) -> String {
        format!("file://{}", self.folder.join("blobs").display())
    }

    /// What all workers that see only their own folder keep there between acts.
    pub(super) fn copies(&self) -> Vec<PathBuf> {
        let inside = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let workers = inside(self.folder.clone()).map(|entry| entry.path().join("cache/copies"));
        workers.flat_map(inside).flat_map(|worker| inside(worker.path())).map(|entry| entry.path()).collect()
    }

    /// A folder that ends with the cluster.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Lets nobody be sent to a worker any more.
    pub(super) fn forget(&self, worker: &Worker) {
        self.balancer.remove(worker.port);
    }

    /// Tells the server where the workers are. One of them has to be there.
    pub(super) fn register(&self) {
        let body = format!(r#"{{"uri":"http://127.0.0.1:{}/","force":true}}"#, self.balancer.port);
        let mut said = String::new();
        until("the workers are registered", || {
            let Some((status, text)) = http(self.admin, "POST", "/deployments", &body) else { return false };
            said = text;
            assert!(status < 500 || !said.is_empty());
            status / 100 == 2
        });
    }

    pub(super) fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin)
    }

    /// Kills the server, and starts it again with what it has stored.
    pub(super) fn kill_server(&mut self) {
        self.server.kill().expect("it can be killed");
        self.server.wait().expect("it ends");
        self.server = start_server(&self.program, &self.folder, [self.ingress, self.admin, self.fabric]);
        self.wait_for_server();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn start_server(program: &Path, folder: &Path, [ingress, admin, fabric]: [u16; 3]) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(folder.join("log")).expect("a log");
    let mut command = Command::new(program);
    command.args(["--no-logo", "--node-name", "test"]).current_dir(folder).env_clear();
    command.env("RESTATE_BASE_DIR", folder.join("data"));
    command.envs([
        ("RESTATE_LISTEN_MODE", "tcp"),
        ("RESTATE_BIND_IP", "127.0.0.1"),
        ("RESTATE_DEFAULT_NUM_PARTITIONS", "2"),
        ("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MiB"),
        ("RESTATE_DISABLE_TELEMETRY", "true"),
        // One act for each connection, so that the balancer spreads acts.
        ("RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT", "1"),
        // What it stores can be searched.
        ("RESTATE_WORKER__STORAGE__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
        ("RESTATE_BIFROST__LOCAL__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
        ("RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
    ]);
    command.env("RESTATE_BIND_PORT", fabric.to_string());
    command.env("RESTATE_INGRESS__BIND_PORT", ingress.to_string());
    command.env("RESTATE_ADMIN__BIND_PORT", admin.to_string());
    let out = log.try_clone().expect("a log");
    command.stdin(Stdio::null()).stdout(out).stderr(log).spawn().expect("the server starts")
}

/// One request, and the status and text of its answer.
fn http(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

/// Gives each connection to the next worker that takes it.
struct Balancer {
    port: u16,
    workers: Arc<Mutex<Vec<u16>>>,
}

impl Balancer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let workers: Arc<Mutex<Vec<u16>>> = Arc::default();
        let known = Arc::clone(&workers);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut ports = known.lock().expect("the list");
                if !ports.is_empty() {
                    ports.rotate_left(1);
                }
                let ports = ports.clone();
                let Some(worker) =
                    ports.iter().find_map(|port| TcpStream::connect(("127.0.0.1", *port)).ok())
                else {
                    continue;
                };
                pipe(&stream, &worker);
                pipe(&worker, &stream);
            }
        });
        Self { port, workers }
    }

    fn add(&self, port: u16) {
        self.workers.lock().expect("the list").push(port);
    }

    fn remove(&self, port: u16) {
        self.workers.lock().expect("the list").retain(|known| *known != port);
    }
}

/// Passes on what comes from one to the other, until it ends.
fn pipe(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
    let _ = to.set_nodelay(true);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

/// A stand-in for S3 with one empty bucket.
pub(super) struct Bucket {
    server: Child,
    endpoint: String,
}

impl Bucket {
    /// None, and a line that says so, where `.ci/run` did not install it.
    pub(super) fn start() -> Option<Self> {
        let given = std::env::var_os("THREADLINE_OBJECT_STORE").map(PathBuf::from);
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/object-store");
        let program = given.clone().unwrap_or_else(default).join("bin/moto_server");
        assert!(given.is_none() || program.exists(), "THREADLINE_OBJECT_STORE has no moto_server");
        if !program.exists() {
            println!("left out: there is no moto_server; .ci/run installs it");
            return None;
        }
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let bucket = Self {
            server: command.spawn().expect("the stand-in starts"),
            endpoint: format!("http://127.0.0.1:{port}"),
        };
        until("there is a bucket", || {
            http(port, "PUT", "/bucket", "").is_some_and(|(status, _)| status == 200)
        });
        Some(bucket)
    }

    /// What whoever uses it has in the environment.
    pub(super) fn variables(&self) -> [(&str, &str); 5] {
        [
            ("AWS_ACCESS_KEY_ID", "x"),
            ("AWS_SECRET_ACCESS_KEY", "y"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT", &self.endpoint),
            ("AWS_ALLOW_HTTP", "true"),
        ]
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A worker: a supervisor and its server.
pub(super) struct Worker {
    child: Child,
    port: u16,
}

impl Worker {
    fn start(project: &Path, name: &str, port: u16, slots: usize, key: &str, more: &[&str]) -> Self {
        let mut command = Self::command(project, name, port, slots, key);
        command.args(more);
        Self::of(command, port, &[])
    }

    fn command(project: &Path, name: &str, port: u16, slots: usize, key: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--name", name, "--key-file", key]);
        command.args(["--slots", &slots.to_string()]).arg("--dir").arg(project);
        command
    }

    /// Starts a worker that registers by itself.
    pub(super) fn registering(project: &Path, key: &str, admin: &str) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--name", "alone"]);
        command.args(["--key-file", key, "--register", admin, "--slots", "2"]).arg("--dir").arg(project);
        Self::of(command, port, &[])
    }

    fn of(mut command: Command, port: u16, variables: &[(&str, &str)]) -> Self {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(variables.iter().copied());
        // What the coordinators of these tests have, too: examples must do the same there and here.
        command.envs([("HOME", "/home/user"), ("GREETING", "hello"), ("NO_COLOR", "1")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a worker starts");
        let (said, lines) = channel();
        let errors = BufReader::new(child.stderr.take().expect("its stderr"));
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let first = lines.recv_timeout(PATIENCE).expect("a worker says that it listens");
        assert!(first.contains("listens at"), "{first}");
        // What it says later is for nobody.
        std::thread::spawn(move || lines.into_iter().for_each(drop));
        Self { child, port }
    }

    /// The process that performs programs.
    fn server(&self) -> Option<Pid> {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        let mut servers = children.split_whitespace().filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"--serving")
        });
        Pid::from_raw(servers.next()?.parse().ok()?)
    }

    /// Kills what performs programs. Its supervisor ends these and starts another one.
    pub(super) fn kill(&self) {
        until("the worker has a server", || self.server().is_some());
        let server = self.server().expect("a server");
        kill_process(server, Signal::KILL).expect("it can be killed");
        until("another server is there", || self.server().is_some_and(|now| now != server));
    }

    pub(super) fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a number");
        let _ = kill_process(pid, signal);
    }

    /// Waits until it has ended by itself.
    pub(super) fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        for _ in 0..2 {
            if ended(&mut self.child) {
                return;
            }
            self.send(Signal::TERM);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(3) && !ended(&mut self.child) {
                std::thread::sleep(LOOK);
            }
        }
        let _ = self.child.wait();
    }
}

/// A project whose programs write lines into one file, each in one piece.
pub(super) struct Witness<'p>(pub(super) &'p Project);

impl Witness<'_> {
    /// How often each line stands in the file.
    pub(super) fn counts(&self) -> std::collections::BTreeMap<String, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for line in self.0.read("witness").unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// How many lines there are.
    pub(super) fn lines(&self) -> usize {
        self.counts().values().sum()
    }
}
