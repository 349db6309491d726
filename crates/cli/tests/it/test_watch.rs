//! `threadline test --watch`: a change of a file tries it again.

#![expect(clippy::unwrap_used, reason = "a program that does not start fails the test")]

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, Project};

const SCENARIO: &str =
    "name: NAME\ntarget: {argv: [sh, SCRIPT]}\nprompt: Hi\nexpectations: {shouldContain: yes}\n";

/// `threadline test --watch`, whose lines are read one by one.
struct Watcher {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Watcher {
    fn start(project: &Project, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["test", "--watch"]).args(arguments).current_dir(project.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// What is printed up to the line with the sums.
    fn report(&self) -> String {
        let mut report = String::new();
        loop {
            let line = self.stdout.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("only {report:?}"));
            report.push_str(&line);
            report.push('\n');
            if line.contains(" cases: ") || line.contains(" case: ") {
                return report;
            }
        }
    }

    /// What is said until files are watched again.
    fn notes(&self) -> String {
        let mut notes = String::new();
        loop {
            let line = self.stderr.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("only {notes:?}"));
            notes.push_str(&line);
            notes.push('\n');
            if line.contains("watching ") {
                return notes;
            }
        }
    }

    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn scenario(project: &Project, name: &str) {
    let text = SCENARIO.replace("NAME", name).replace("SCRIPT", &format!("{name}.sh"));
    project.write(&format!("{name}.test.yaml"), text.as_bytes());
}

#[test]
fn a_change_of_a_file_or_of_one_that_it_names_tries_it_again() {
    let project = Project::new();
    for name in ["one", "two"] {
        scenario(&project, name);
        project.write(&format!("{name}.sh"), b"echo no\n");
    }
    let watcher = Watcher::start(&project, &["--report", "json=all.json"]);
    let first = watcher.report();
    assert!(first.contains("2 cases: 0 passed, 2 failed"), "{first}");
    assert!(watcher.notes().contains("note: watching 4 files; Ctrl-C ends"));
    // The program that a target starts.
    project.write("one.sh", b"echo yes\n");
    let again = watcher.report();
    assert!(again.contains("1 case: 1 passed") && again.contains("one  run "), "{again}");
    watcher.notes();
    // The report still has both.
    let report: serde_json::Value = serde_json::from_str(&project.read("all.json").unwrap()).unwrap();
    assert_eq!((&report["counts"]["passed"], &report["counts"]["failed"]), (&1.into(), &1.into()));
    // A file that cannot be read any more, and can be again.
    project.write("two.test.yaml", b"name: [\n");
    let notes = watcher.notes();
    assert!(notes.contains("error") && notes.contains("two.test.yaml"), "{notes}");
    project.write("two.test.yaml", SCENARIO.replace("NAME", "two").replace("SCRIPT", "one.sh").as_bytes());
    let mended = watcher.report();
    assert!(mended.contains("two  run ") && mended.contains("1 case: 1 passed"), "{mended}");
    watcher.notes();
    assert_eq!(watcher.interrupt(), Some(0));
}

#[test]
fn the_exit_code_is_that_of_the_last_results() {
    let project = Project::new();
    scenario(&project, "one");
    project.write("one.sh", b"echo no\n");
    let watcher = Watcher::start(&project, &[]);
    watcher.notes();
    assert_eq!(watcher.interrupt(), Some(1));
    project.write("one.test.yaml", b"name: [\n");
    let watcher = Watcher::start(&project, &[]);
    watcher.notes();
    assert_eq!(watcher.interrupt(), Some(1), "a file that cannot be tried");
}

/// A new file with scenarios is tried when it appears.
#[test]
fn a_new_file_is_tried() {
    let project = Project::new();
    scenario(&project, "one");
    project.write("one.sh", b"echo yes\n");
    project.write("two.sh", b"echo yes\n");
    let watcher = Watcher::start(&project, &[]);
    watcher.notes();
    watcher.report();
    scenario(&project, "two");
    let new = watcher.report();
    assert!(new.contains("two  run ") && !new.contains("one  run "), "{new}");
    watcher.notes();
    assert_eq!(watcher.interrupt(), Some(0));
}
