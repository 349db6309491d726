//! A Restate server, workers, and what spreads acts among them: real programs on free ports, ended with the test.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
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

/// The balancer, where it is installed.
pub(crate) fn haproxy() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("haproxy")).find(|program| program.is_file())
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(LOOK);
    }
}

/// A port that nobody has, of those that connections are not given by themselves: it may stay unused for a while.
pub(crate) fn free_port() -> u16 {
    let mut hash = RandomState::new().build_hasher();
    hash.write_u32(std::process::id());
    let first = u16::try_from(hash.finish() % 10_000).expect("a small number");
    let ports = (0..10_000).map(|more| 20_000 + (first + more) % 10_000);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(free).expect("a free port")
}

/// The files that people install, which are what is tried here.
fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// Restate servers, and the workers behind them.
pub(super) struct Cluster {
    folder: PathBuf,
    servers: Vec<Server>,
    balancer: Balancer,
    key: PathBuf,
}

impl Cluster {
    /// A server without workers. None, and a line that says so, where there is no server.
    pub(super) fn start(name: &str) -> Option<Self> {
        Self::of_servers(name, 1)
    }

    /// One server, or three of which each has what two have.
    pub(super) fn of_servers(name: &str, count: usize) -> Option<Self> {
        let (Some(program), Some(haproxy)) = (server(), haproxy()) else {
            println!("left out: there is no restate-server or no haproxy; .ci/run installs them");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("threadline-restate-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let key = folder.join("key");
        std::fs::write(&key, "the key of the machines of a test\n").expect("a key");
        let ports: Vec<ServerPorts> = (0..count).map(|_| ServerPorts::free()).collect();
        let servers = (0..count).map(|index| Server::start(&program, &folder, index, &ports)).collect();
        let balancer = Balancer::start(&haproxy, &folder, &ports);
        let cluster = Self { folder, servers, balancer, key };
        cluster.servers.iter().for_each(Server::wait_for);
        Some(cluster)
    }

    /// Where requests are taken: by the only server, or by the balancer in front of several.
    pub(super) fn address(&self) -> String {
        let port = match &self.servers[..] {
            [only] => only.ports.ingress,
            _ => self.balancer.requests,
        };
        format!("restate://127.0.0.1:{port}")
    }

    pub(super) fn key(&self) -> &str {
        self.key.to_str().expect("a path")
    }

    /// The arguments of `run` that send programs to the workers.
    pub(super) fn on(&self) -> String {
        format!("--on {} --key-file {}", self.address(), self.key())
    }

    /// The folder with all that the only server stores.
    pub(super) fn data(&self) -> PathBuf {
        self.servers[0].data.clone()
    }

    /// Starts a worker for a project.
    pub(super) fn worker(&self, project: &Path, name: &str, slots: usize) -> Worker {
        self.worker_with(project, name, slots, &[])
    }

    /// The same, with more arguments.
    pub(super) fn worker_with(&self, project: &Path, name: &str, slots: usize, more: &[&str]) -> Worker {
        self.worker_in(project, name, slots, more, &[])
    }

    /// The same, with more variables in its environment.
    pub(super) fn worker_in(
        &self,
        project: &Path,
        name: &str,
        slots: usize,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Worker {
        let port = self.balancer.take_port();
        let mut command = Worker::command(project, name, port, slots, self.key());
        command.args(more);
        Worker::of(command, port, variables)
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
        let port = self.balancer.take_port();
        let mut command = Worker::command(&own.join("empty"), name, port, slots, self.key());
        command.args(["--blobs", blobs]).arg("--cache").arg(own.join("cache"));
        Worker::of(command, port, variables)
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

    /// Another worker may have its place.
    pub(super) fn forget(&self, worker: &Worker) {
        self.balancer.give_back(worker.port);
    }

    /// Tells the servers where the workers are. One of them has to be there.
    pub(super) fn register(&self) {
        let body = format!(r#"{{"uri":"http://127.0.0.1:{}/","force":true}}"#, self.balancer.acts);
        until("the workers are registered", || {
            let answer = http(self.servers[0].ports.admin, "POST", "/deployments", &body);
            answer.is_some_and(|(status, _)| status / 100 == 2)
        });
        for server in &self.servers {
            until("all servers know the workers", || {
                let asked = http(server.ports.ingress, "GET", "/ThreadlineAct/nobody/v1", "");
                asked.is_some_and(|(status, _)| status != 404)
            });
        }
    }

    pub(super) fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.servers[0].ports.admin)
    }

    /// Kills the only server, and starts it again with what it has stored.
    pub(super) fn kill_server(&mut self) {
        self.kill_one_server(0);
        self.start_again(0);
    }

    /// Kills one of the servers.
    pub(super) fn kill_one_server(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Starts one of the servers again, with what it has stored.
    pub(super) fn start_again(&mut self, index: usize) {
        let ports: Vec<ServerPorts> = self.servers.iter().map(|server| server.ports).collect();
        let server = &mut self.servers[index];
        server.child = start_server(&server.program, &self.folder, index, &ports);
        server.wait_for();
    }

    /// Kills the balancer, with every connection through it, and starts it again.
    pub(super) fn kill_balancer(&mut self) {
        self.balancer.kill();
        self.balancer.start_again();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
        self.balancer.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[derive(Clone, Copy)]
struct ServerPorts {
    ingress: u16,
    admin: u16,
    fabric: u16,
}

impl ServerPorts {
    fn free() -> Self {
        Self { ingress: free_port(), admin: free_port(), fabric: free_port() }
    }
}

/// A Restate server.
struct Server {
    program: PathBuf,
    data: PathBuf,
    ports: ServerPorts,
    child: Child,
}

impl Server {
    fn start(program: &Path, folder: &Path, index: usize, ports: &[ServerPorts]) -> Self {
        let child = start_server(program, folder, index, ports);
        let data = folder.join(format!("data-{index}"));
        Self { program: program.to_owned(), data, ports: ports[index], child }
    }

    fn wait_for(&self) {
        until("the server takes requests", || {
            let healthy = |port, path| http(port, "GET", path, "").is_some_and(|(status, _)| status == 200);
            healthy(self.ports.ingress, "/restate/health") && healthy(self.ports.admin, "/health")
        });
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server as `deploy/` has it, on its ports of this machine.
fn start_server(program: &Path, folder: &Path, index: usize, all: &[ServerPorts]) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(folder.join(format!("log-{index}")));
    let log = log.expect("a log");
    let ServerPorts { ingress, admin, fabric } = all[index];
    let file = if all.len() == 1 { "restate/single.toml" } else { "restate/three.toml" };
    let mut command = Command::new(program);
    command.arg("--no-logo").arg("--config-file").arg(deployed(file)).current_dir(folder).env_clear();
    command.env("RESTATE_BASE_DIR", folder.join(format!("data-{index}")));
    command.envs([
        ("RESTATE_BIND_IP", "127.0.0.1"),
        ("RESTATE_DEFAULT_NUM_PARTITIONS", "2"),
        ("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MiB"),
        // What it stores can be searched.
        ("RESTATE_WORKER__STORAGE__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
        ("RESTATE_BIFROST__LOCAL__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
        ("RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_COMPRESSION", "true"),
    ]);
    let fabric_url = |ports: &ServerPorts| format!("http://127.0.0.1:{}/", ports.fabric);
    if all.len() > 1 {
        let urls: Vec<String> = all.iter().map(|ports| format!("{:?}", fabric_url(ports))).collect();
        command.env("RESTATE_NODE_NAME", format!("restate-{}", index + 1));
        command.env("RESTATE_ADVERTISED_ADDRESS", fabric_url(&all[index]));
        command.env("RESTATE_AUTO_PROVISION", (index == 0).to_string());
        command.env("RESTATE_METADATA_CLIENT__ADDRESSES", format!("[{}]", urls.join(",")));
    }
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

/// So many workers may be behind a balancer.
const PLACES: usize = 8;

/// The balancer as `deploy/` has it, in front of places for workers and of the servers.
struct Balancer {
    program: PathBuf,
    folder: PathBuf,
    acts: u16,
    requests: u16,
    figures: u16,
    places: Mutex<VecDeque<u16>>,
    child: Child,
}

impl Balancer {
    fn start(program: &Path, folder: &Path, servers: &[ServerPorts]) -> Self {
        let places: VecDeque<u16> = (0..PLACES).map(|_| free_port()).collect();
        let [acts, requests, figures] = [free_port(), free_port(), free_port()];
        let example = std::fs::read_to_string(deployed("haproxy/machines.cfg")).expect("a list of machines");
        // The lines of machines are those of the example, with the ports of this one.
        let (mut machines, mut is_of_workers) = (String::new(), false);
        for line in example.lines() {
            if line.trim_start().starts_with("server ") {
                continue;
            }
            let _ = writeln!(machines, "{line}");
            if line.trim_start() == "default-server proto h2" {
                is_of_workers = true;
                for (place, port) in places.iter().enumerate() {
                    let _ = writeln!(machines, "    server worker-{place} 127.0.0.1:{port}");
                }
            }
        }
        assert!(is_of_workers && machines.ends_with("GET /restate/health\n"), "{machines}");
        for (index, ports) in servers.iter().enumerate() {
            let _ = writeln!(machines, "    server restate-{index} 127.0.0.1:{}", ports.ingress);
        }
        std::fs::write(folder.join("machines.cfg"), machines).expect("a list of machines");
        let child = start_balancer(program, folder, [acts, requests, figures]);
        let (program, folder, places) = (program.to_owned(), folder.to_owned(), Mutex::new(places));
        let balancer = Self { program, folder, acts, requests, figures, places, child };
        balancer.wait_for();
        balancer
    }

    fn wait_for(&self) {
        until("the balancer is there", || {
            http(self.figures, "GET", "/metrics", "").is_some_and(|(_, text)| text.contains("haproxy_"))
        });
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self) {
        self.child = start_balancer(&self.program, &self.folder, [self.acts, self.requests, self.figures]);
        self.wait_for();
    }

    fn take_port(&self) -> u16 {
        self.places.lock().expect("the list").pop_front().expect("a place for a worker")
    }

    fn give_back(&self, port: u16) {
        self.places.lock().expect("the list").push_back(port);
    }
}

fn start_balancer(program: &Path, folder: &Path, [acts, requests, figures]: [u16; 3]) -> Child {
    let log = std::fs::File::options().append(true).create(true).open(folder.join("log-balancer"));
    let log = log.expect("a log");
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(deployed("haproxy/haproxy.cfg")).arg("-f").arg("machines.cfg");
    command.current_dir(folder).env_clear().env("CHECK_EVERY", "100ms");
    for (name, port) in [("ACTS_AT", acts), ("REQUESTS_AT", requests), ("FIGURES_AT", figures)] {
        command.env(name, format!("127.0.0.1:{port}"));
    }
    let out = log.try_clone().expect("a log");
    command.stdin(Stdio::null()).stdout(out).stderr(log).spawn().expect("the balancer starts")
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
    fn command(project: &Path, name: &str, port: u16, slots: usize, key: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--name", name, "--key-file", key]);
        command.args(["--slots", &slots.to_string()]).arg("--dir").arg(project);
        command
    }

    /// Starts a worker that registers by itself.
    pub(super) fn registering(project: &Path, key: &str, admin: &str) -> Self {
        Self::registering_with(project, key, admin, &[])
    }

    /// The same, with more arguments.
    pub(super) fn registering_with(project: &Path, key: &str, admin: &str, more: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--name", "alone"]);
        command.args(["--key-file", key, "--register", admin, "--slots", "2"]).arg("--dir").arg(project);
        command.args(more);
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

    /// Sends a signal to what performs programs.
    pub(super) fn send_server(&self, signal: Signal) {
        let server = self.server().expect("a server");
        kill_process(server, signal).expect("it can be signalled");
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
