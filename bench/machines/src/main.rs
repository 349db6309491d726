//! Runs on workers beside the local driver and beside a bare fan-out on the same Restate server: what a step costs, and
//! whether the coordinator takes more memory for a long list than for a short one.
//!
//! ```text
//! cargo run --release --manifest-path bench/machines/Cargo.toml -- \
//!     --restate FOLDER/restate-server --items 10000
//! ```
//!
//! It needs a Restate server and HAProxy, and starts them as `deploy/` has them, with four workers. `--binary` names a
//! binary of Threadline in place of the release binary, which it builds. The bare fan-out has a service that waits for
//! as long as the program of an item takes, and starts none; its callers ask as many at once as the run has items in
//! flight. The exit code says whether every run did its work, never whether a target was reached.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use restate_sdk::prelude::{
    Context, ContextSideEffects as _, Endpoint, HandlerError, HttpServer, RunFuture as _, service,
};

/// So many items are in flight at once.
const WINDOW: usize = 64;
const WORKERS: usize = 4;
/// The time that the program of an item takes.
const ITEM: Duration = Duration::from_millis(10);
/// So many items of one second, and so many at once.
const LONG_ITEMS: usize = 160;
const LONG_WINDOW: usize = 16;
/// So often memory is looked at.
const LOOKS: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [serve, port] if serve == "--serve-bare" => serve_bare(port),
        _ => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What a bare fan-out asks for.
struct Bare;

#[service(name = "Bare")]
impl Bare {
    #[handler]
    async fn wait(&self, ctx: Context<'_>, item: String) -> Result<String, HandlerError> {
        let wait = || async move {
            tokio::time::sleep(ITEM).await;
            Ok(item)
        };
        Ok(ctx.run(wait).await?)
    }
}

fn serve_bare(port: &str) -> Result<(), String> {
    let address = format!("127.0.0.1:{port}").parse().map_err(|error| format!("{port}: {error}"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(HttpServer::new(Endpoint::builder().bind(Bare).build()).listen_and_serve(address));
    Ok(())
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let usage = "usage: machines --restate PROGRAM [--items N] [--binary BINARY] [--haproxy PROGRAM]";
    let (mut items, mut binary, mut restate) = (10_000, None, None);
    let mut haproxy = PathBuf::from("/usr/sbin/haproxy");
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(usage.to_owned()) };
        let path = || std::path::absolute(value).map_err(|error| format!("{value}: {error}"));
        match name.as_str() {
            "--items" => items = value.parse().map_err(|_| usage)?,
            "--binary" => binary = Some(path()?),
            "--restate" => restate = Some(path()?),
            "--haproxy" => haproxy = path()?,
            _ => return Err(usage.to_owned()),
        }
    }
    let binary = binary.map_or_else(build, Ok)?;
    let field = Field::start(binary, &restate.ok_or(usage)?, &haproxy)?;
    field.short_items(items)?;
    field.long_items()
}

/// Builds the release binary.
fn build() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let build = ["build", "--release", "-q", "-p", "threadline"];
    let built = Command::new("cargo").args(build).current_dir(&root).status();
    match built {
        Ok(status) if status.success() => Ok(root.join("target/release/threadline")),
        _ => Err("the binary does not build".to_owned()),
    }
}

/// A process that ends with this one.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        started.map(Self).map_err(|error| format!("{}: {error}", command.get_program().display()))
    }

    /// The memory that it has now, in MiB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A worker ends its programs when it is asked to.
        let asked = Command::new("kill").arg(self.0.id().to_string()).status();
        if asked.is_err() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// Four workers behind a server, and a folder to run in.
struct Field {
    folder: PathBuf,
    binary: PathBuf,
    ingress: u16,
    server: Process,
    _others: Vec<Process>,
}

fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    port.map(|address| address.port()).map_err(|error| error.to_string())
}

impl Field {
    fn start(binary: PathBuf, restate: &Path, haproxy: &Path) -> Result<Self, String> {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let folder = std::env::temp_dir().join(format!("threadline-machines-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("project")).map_err(|error| error.to_string())?;
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
        };
        write("key", "the key of the machines of a benchmark")?;
        let [ingress, admin, fabric, acts, bare] =
            [free_port()?, free_port()?, free_port()?, free_port()?, free_port()?];
        let server = Process::start(
            Command::new(restate)
                .arg("--no-logo")
                .arg("--config-file")
                .arg(deploy.join("restate/single.toml"))
                .env("RESTATE_BASE_DIR", folder.join("data"))
                .env("RESTATE_BIND_IP", "127.0.0.1")
                .env("RESTATE_BIND_PORT", fabric.to_string())
                .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
                .env("RESTATE_ADMIN__BIND_PORT", admin.to_string()),
        )?;
        let mut others = Vec::new();
        let mut machines = String::from("backend workers\n    default-server proto h2\n");
        for number in 1..=WORKERS {
            let port = free_port()?;
            machines += &format!("    server worker-{number} 127.0.0.1:{port}\n");
            let mut worker = Command::new(&binary);
            worker.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--key-file"]);
            worker.arg(folder.join("key")).args(["--name", &format!("worker-{number}"), "--dir"]);
            worker.arg(folder.join("project")).args(["--slots", &(WINDOW / WORKERS).to_string()]);
            others.push(Process::start(&mut worker)?);
        }
        machines += &format!("backend servers\n    server restate-1 127.0.0.1:{ingress}\n");
        write("machines.cfg", &machines)?;
        let at = |port: u16| format!("127.0.0.1:{port}");
        others.push(Process::start(
            Command::new(haproxy)
                .arg("-db")
                .arg("-f")
                .arg(deploy.join("haproxy/haproxy.cfg"))
                .arg("-f")
                .arg(folder.join("machines.cfg"))
                .envs([
                    ("ACTS_AT", at(acts)),
                    ("REQUESTS_AT", at(free_port()?)),
                    ("FIGURES_AT", at(free_port()?)),
                ]),
        )?);
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        others.push(Process::start(Command::new(own).args(["--serve-bare", &bare.to_string()]))?);
        for port in [acts, bare] {
            let body = format!(r#"{{"uri":"http://127.0.0.1:{port}/","force":true}}"#);
            let began = Instant::now();
            while !matches!(ask(admin, "/deployments", &body), Ok((200..=299, _))) {
                if began.elapsed() > Duration::from_secs(60) {
                    return Err("no worker can be registered".to_owned());
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(Self { folder, binary, ingress, server, _others: others })
    }

    /// Runs so many items of a program, here or on the workers; how long it took, and the memory of the coordinator while
    /// it ran.
    fn run(&self, items: usize, window: usize, seconds: &str, on_workers: bool) -> Result<Measured, String> {
        let project = self.folder.join("project");
        let _ = std::fs::remove_dir_all(project.join(".threadline"));
        let text = format!(
            "map:\n  input: {{shell: seq {items}}}\n  max_parallel: {window}\n  steps: [{{argv: [sleep, '{seconds}']}}]\n"
        );
        std::fs::write(project.join("items.yaml"), text).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.binary);
        command.args(["run", "items.yaml"]).current_dir(&project);
        if on_workers {
            let on = format!("restate://127.0.0.1:{}", self.ingress);
            command.args(["--on", &on, "--key-file"]).arg(self.folder.join("key"));
        }
        let clock = Instant::now();
        let mut process = Process::start(&mut command)?;
        let mut memory = vec![(0.0, 0.0)];
        let mut pause = Duration::from_millis(100);
        let status = loop {
            if let Some(status) = process.0.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            memory.push((clock.elapsed().as_secs_f64(), process.memory()));
            if memory.len() > 20 * LOOKS {
                // Half as often from now on.
                let mut number = 0_usize;
                memory.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                pause *= 2;
            }
            std::thread::sleep(pause);
        };
        let elapsed = clock.elapsed();
        if status.success() {
            Ok(Measured { elapsed, memory })
        } else {
            Err(format!("the run failed: {status}"))
        }
    }

    /// Asks for so many items without Threadline.
    fn bare(&self, items: usize) -> Result<Duration, String> {
        let next = Arc::new(AtomicUsize::new(0));
        let clock = Instant::now();
        let callers: Vec<_> = (0..WINDOW)
            .map(|_| {
                let (next, port) = (Arc::clone(&next), self.ingress);
                std::thread::spawn(move || {
                    let mut caller = Caller::new(port)?;
                    loop {
                        let item = next.fetch_add(1, Ordering::Relaxed);
                        if item >= items {
                            return Ok::<(), String>(());
                        }
                        let (status, said) = caller.ask("/Bare/wait", &format!("\"{item}\""))?;
                        if status != 200 || said != format!("\"{item}\"") {
                            return Err(format!("item {item}: status {status}: {said}"));
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().map_err(|_| "a caller ended".to_owned())??;
        }
        Ok(clock.elapsed())
    }

    fn short_items(&self, items: usize) -> Result<(), String> {
        println!("{items} items of {} ms, {WINDOW} at once, {WORKERS} workers", ITEM.as_millis());
        let seconds = ITEM.as_secs_f64().to_string();
        let here = self.run(items, WINDOW, &seconds, false)?;
        let bare = self.bare(items)?;
        let elsewhere = self.run(items, WINDOW, &seconds, true)?;
        let each = |elapsed: Duration| items as f64 / elapsed.as_secs_f64();
        println!("  here            {:>8.0} items a second", each(here.elapsed));
        println!("  bare Restate    {:>8.0} items a second", each(bare));
        println!("  on workers      {:>8.0} items a second", each(elsewhere.elapsed));
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!(
            "  time on workers beside here {:.2}, beside bare Restate {:.2}",
            ratio(elsewhere.elapsed, here.elapsed),
            ratio(elsewhere.elapsed, bare)
        );
        println!("  memory of the coordinator while it ran, MiB: {}", elsewhere.looks());
        println!("  memory of the local driver while it ran, MiB: {}", here.looks());
        println!("  memory of the Restate server afterwards, MiB: {:.0}", self.server.memory());
        Ok(())
    }

    fn long_items(&self) -> Result<(), String> {
        let here = self.run(LONG_ITEMS, LONG_WINDOW, "1", false)?.elapsed;
        let elsewhere = self.run(LONG_ITEMS, LONG_WINDOW, "1", true)?.elapsed;
        let ideal = LONG_ITEMS as f64 / LONG_WINDOW as f64;
        println!("{LONG_ITEMS} items of one second, {LONG_WINDOW} at once ({ideal:.0} s at best)");
        println!(
            "  here {:.2} s, on workers {:.2} s, ratio {:.3} (at most 1.05)",
            here.as_secs_f64(),
            elsewhere.as_secs_f64(),
            elsewhere.as_secs_f64() / here.as_secs_f64()
        );
        Ok(())
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Measured {
    elapsed: Duration,
    /// The memory at some seconds, in MiB.
    memory: Vec<(f64, f64)>,
}

impl Measured {
    /// The memory at a few moments, one after the other.
    fn looks(&self) -> String {
        let every = (self.memory.len() / LOOKS).max(1);
        let looks = self.memory.iter().skip(1).step_by(every).map(|(_, memory)| format!("{memory:.0}"));
        looks.collect::<Vec<_>>().join(" ")
    }
}

/// One connection that requests go through.
struct Caller {
    port: u16,
    stream: BufReader<TcpStream>,
}

impl Caller {
    fn new(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { port, stream: BufReader::new(stream) })
    }

    fn ask(&mut self, path: &str, body: &str) -> Result<(u16, String), String> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut line = String::new();
        let (mut status, mut length) = (0, 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line).map_err(|error| error.to_string())?;
            let head = line.trim_end();
            if head.is_empty() {
                break;
            }
            if let Some(rest) = head.strip_prefix("HTTP/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            }
            if let Some((name, value)) = head.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).map_err(|error| error.to_string())?;
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// One request through a connection of its own.
fn ask(port: u16, path: &str, body: &str) -> Result<(u16, String), String> {
    Caller::new(port)?.ask(path, body)
}
