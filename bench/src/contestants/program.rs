//! Contestants that are programs of their own, driven through a pipe: those who evaluate expectations.
//!
//! They measure themselves, so the way through the pipe is not timed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::harness::Run;

/// The program that evaluates expectations with Threadline.
pub(crate) const OURS: &str = "threadline-bench-ours";
/// That of `jsonschema` and `jsonlogic-rs`.
pub(crate) const PEERS: &str = "threadline-bench-peers";

/// Builds them, each by itself: built together, they would share the features of their dependencies.
pub(crate) fn build() -> Result<(), String> {
    for package in [OURS, PEERS] {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            // The same profile as this program: it is started beside it.
            .args(["build", "--profile", if cfg!(debug_assertions) { "dev" } else { "release" }])
            .args(["--locked", "--quiet", "--package", package, "--manifest-path"])
            .arg(manifest)
            .status()
            .map_err(|error| format!("cargo: {error}"))?;
        if !built.success() {
            return Err(format!("`{package}` does not build"));
        }
    }
    Ok(())
}

/// A contestant of such a program. It is started when it is first needed.
pub(crate) fn contestant(package: &'static str, workload: &'static str, name: &'static str) -> impl Run {
    Program { package, workload, name, running: None }
}

struct Program {
    package: &'static str,
    workload: &'static str,
    name: &'static str,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// Closed at the end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    /// Says a line and gives the line that is said to it.
    fn ask(&mut self, line: &str) -> String {
        let running = self.running.get_or_insert_with(|| start(self.package, self.workload, self.name));
        let mut answer = String::new();
        let asked = running.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        match (asked, running.stdout.read_line(&mut answer)) {
            (Some(Ok(())), Ok(1..)) => answer,
            _ => panic!("`{}` ended early: {} {}", self.package, self.workload, self.name),
        }
    }

    /// The allocations and nanoseconds of so many operations.
    fn measure(&mut self, operations: u64) -> (u64, u64) {
        let answer = self.ask(&operations.to_string());
        let (allocations, nanoseconds) = answer.trim().split_once(' ').expect("it prints two numbers");
        let number = |text: &str| text.parse().expect("it prints two numbers");
        (number(allocations), number(nanoseconds))
    }
}

fn start(package: &str, workload: &str, name: &str) -> Running {
    let path = std::env::current_exe().expect("this program has a path").with_file_name(package);
    let mut child = Command::new(path)
        .args([workload, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built before");
    let stdin = child.stdin.take();
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    Running { child, stdin, stdout }
}

impl Run for Program {
    fn batch(&mut self, operations: u64) {
        self.measure(operations);
    }

    fn output(&mut self) -> Json {
        self.ask("output").parse().expect("it prints JSON")
    }

    fn allocations(&mut self, operations: u64) -> u64 {
        self.measure(operations).0
    }

    fn timed(&mut self, operations: u64) -> Duration {
        Duration::from_nanos(self.measure(operations).1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when its input does. What it made of its end is of no interest: its answers were there.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
