//! A workflow in a project of its own, run to its end or until it is killed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use crate::support::{PATIENCE, Project};

/// A project with `workflow.yaml` in it.
pub(crate) struct Workflow {
    pub(crate) project: Project,
    env: Vec<(String, String)>,
}

/// A workflow of this text, in a project of its own.
pub(crate) fn workflow(text: &str) -> Workflow {
    let workflow = Workflow { project: Project::new(), env: Vec::new() };
    workflow.project.write("workflow.yaml", text.as_bytes());
    workflow
}

/// Runs a workflow of this text that must do well.
pub(crate) fn run(text: &str) -> Run {
    workflow(text).run().well()
}

impl Workflow {
    /// With a file.
    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.project.write(name, content.as_bytes());
        self
    }

    /// With a program: a script of `sh` that may be executed.
    pub(crate) fn program(self, name: &str, script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        self.project.write(name, format!("#!/bin/sh\n{script}\n").as_bytes());
        let permissions = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.project.path().join(name), permissions).expect("a program");
        self
    }

    /// With a link.
    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.project.link(name, target);
        self
    }

    /// With named pipes.
    pub(crate) fn pipes(self, names: &[&str]) -> Self {
        let made = Command::new("mkfifo").args(names).current_dir(self.project.path()).status();
        assert!(made.expect("mkfifo").success());
        self
    }

    /// What git prints in the project, with no settings but those of its repository.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.project.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        let output = command.output().expect("git");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// In a repository of its own, with one commit of everything there is.
    pub(crate) fn repository(self) -> Self {
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["config", "user.name", "Somebody"]);
        self.git(&["config", "user.email", "somebody@example.org"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "everything"]);
        self
    }

    /// With a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Run {
        self.run_with(&[])
    }

    /// Runs it to its end with more arguments.
    pub(crate) fn run_with(&self, arguments: &[&str]) -> Run {
        self.start(arguments).wait()
    }

    /// Resumes its last run.
    pub(crate) fn resume(&self) -> Run {
        self.resume_with(&[])
    }

    /// Resumes its last run with more arguments.
    pub(crate) fn resume_with(&self, arguments: &[&str]) -> Run {
        self.command(&[&["resume", "--json"], arguments].concat()).wait()
    }

    /// Starts it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.command(&[&["run", "--json", "workflow.yaml"], arguments].concat())
    }

    /// Starts the binary.
    pub(crate) fn command(&self, arguments: &[&str]) -> Running {
        self.start_program(env!("CARGO_BIN_EXE_threadline"), arguments)
    }

    /// Starts a program in the project, as the binary is started.
    pub(crate) fn start_program(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.project.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([("HOME", "/home/user"), ("NO_COLOR", "1")]);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(command.spawn().expect("the binary starts"))
    }

    /// The content of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        self.project.read(name).unwrap_or_else(|| panic!("there is no file {name}"))
    }

    /// The number of lines of a file; 0 when there is none.
    pub(crate) fn lines(&self, name: &str) -> usize {
        self.project.read(name).map_or(0, |text| text.lines().count())
    }

    /// Whether there is such a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.project.path().join(name).exists()
    }

    /// Waits until there is such a file.
    pub(crate) fn until_there(&self, name: &str) {
        let begun = Instant::now();
        while !self.has(name) {
            assert!(begun.elapsed() < PATIENCE, "there is no `{name}`");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The text that a step writes into a pipe: waits until it does.
    pub(crate) fn receive(&self, pipe: &str) -> String {
        self.with_pipe(pipe, |path| {
            let mut text = String::new();
            File::open(path).and_then(|mut pipe| pipe.read_to_string(&mut text)).map(|_| text)
        })
    }

    /// Lets a step go on that reads a pipe: waits until it does.
    pub(crate) fn release(&self, pipe: &str) {
        self.with_pipe(pipe, |path| std::fs::write(path, "go\n"));
    }

    fn with_pipe<T: Send + 'static>(
        &self,
        pipe: &str,
        talk: impl FnOnce(PathBuf) -> std::io::Result<T> + Send + 'static,
    ) -> T {
        let path = self.project.path().join(pipe);
        let (sender, receiver) = mpsc::channel();
        // Nobody listens only when the other side never came.
        std::thread::spawn(move || drop(sender.send(talk(path))));
        let talked = receiver.recv_timeout(PATIENCE);
        talked.unwrap_or_else(|_| panic!("nobody came to the pipe {pipe}")).expect("the pipe")
    }
}

/// A binary that runs.
pub(crate) struct Running {
    child: Child,
    outputs: [JoinHandle<Vec<u8>>; 2],
    /// The lines of both streams as they come.
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn of(mut child: Child) -> Self {
        fn collect(
            pipe: impl std::io::Read + Send + 'static,
            lines: mpsc::Sender<String>,
        ) -> JoinHandle<Vec<u8>> {
            std::thread::spawn(move || {
                let (mut pipe, mut bytes) = (BufReader::new(pipe), Vec::new());
                loop {
                    let before = bytes.len();
                    if pipe.read_until(b'\n', &mut bytes).expect("the output can be read") == 0 {
                        return bytes;
                    }
                    // Most tests do not look at lines.
                    let _ = lines.send(String::from_utf8_lossy(&bytes[before..]).into_owned());
                }
            })
        }
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let outputs = [collect(stdout, sender.clone()), collect(stderr, sender)];
        Self { child, outputs, lines }
    }

    /// Waits until a line with this in it is printed.
    pub(crate) fn until(&self, text: &str) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            if line.unwrap_or_else(|_| panic!("`{text}` is never printed")).contains(text) {
                return;
            }
        }
    }

    /// Sends a signal such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill").success());
    }

    /// Kills it at once; what it started lives on.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is dead");
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Run {
        let id = self.child.id().to_string();
        let (sender, receiver) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if receiver.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // It may have ended just now.
                let _ = Command::new("kill").args(["-s", "KILL", &id]).status();
            }
        });
        let status = self.child.wait().expect("the binary ends");
        drop(sender);
        watch.join().expect("the watch ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let [stdout, stderr] = self.outputs.map(|output| text(output.join().expect("the output")));
        let events = stdout.lines().filter(|line| line.starts_with('{'));
        let event = |line| data::json::read_value(line, &Limits::DEFAULT).expect("a line of JSON");
        let events = events.map(event).collect();
        Run { exit: status.code().unwrap_or(-1), stdout, stderr, events }
    }
}

/// What a run printed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) events: Vec<Value>,
}

impl Run {
    /// Asserts that it did well.
    pub(crate) fn well(self) -> Self {
        self.exits(0)
    }

    /// Asserts how it ended.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr has this in it.
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not in\n{}", self.stderr);
        self
    }

    /// The events of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| is(event, "kind", kind)).collect()
    }

    /// The data of the last event of a kind about a step, by its label or its place.
    pub(crate) fn last(&self, kind: &str, step: &str) -> &Value {
        let about = |event: &&&Value| is(event, "step", step) || is(event, "at", step);
        let found = self.of_kind(kind).into_iter().rev().find(|event| about(&event));
        let found = found.and_then(|event| event.get("data"));
        found.unwrap_or_else(|| panic!("nothing {kind} of {step} in\n{}\n{}", self.stdout, self.stderr))
    }

    /// How many events of a kind are about a step.
    pub(crate) fn count(&self, kind: &str, step: &str) -> usize {
        let about = |event: &&Value| is(event, "step", step) || is(event, "at", step);
        self.of_kind(kind).into_iter().filter(about).count()
    }

    /// What a step left: when it was done, or when a field of it turned out to have no value.
    fn output(&self, step: &str) -> &Value {
        let kind = if self.count("finished", step) == 0 { "unresolved" } else { "finished" };
        self.last(kind, step).get("output").expect("an output")
    }

    /// The value of a step as JSON.
    pub(crate) fn value(&self, step: &str) -> String {
        self.output(step).get("value").expect("a value").to_json(JsonStyle::Compact)
    }

    /// A field of a step's meta data as JSON; empty when there is none.
    pub(crate) fn meta(&self, step: &str, name: &str) -> String {
        let found = self.output(step).get("meta").and_then(|meta| meta.get(name));
        found.map_or(String::new(), |value| value.to_json(JsonStyle::Compact))
    }

    /// The error of a step and its sort.
    pub(crate) fn error(&self, step: &str) -> String {
        let text = |name| self.output(step).get("meta").and_then(|meta| meta.get(name)?.as_str());
        format!("{}: {}", text("error_type").unwrap_or("none"), text("error").unwrap_or_default())
    }

    /// The places of the steps that finished, in that order.
    pub(crate) fn order(&self) -> Vec<&str> {
        let finished = self.of_kind("finished").into_iter();
        finished.filter_map(|event| event.get("at").and_then(Value::as_str)).collect()
    }
}

fn is(event: &Value, key: &str, expected: &str) -> bool {
    event.get(key).and_then(Value::as_str) == Some(expected)
}
