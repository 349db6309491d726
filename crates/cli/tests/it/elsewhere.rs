//! A run that another process drives: its output is followed, and it is stopped, through the real binary.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Project};

const WORK: &str = "steps:
  - {id: first, shell: echo one}
  - {id: second, shell: \"touch inside; until test -e go; do sleep 0.01; done; echo two; echo oops >&2\"}
  - {id: third, shell: echo three}
";

fn start(project: &Project, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let command = command.args(arguments).current_dir(project.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A project whose run is in its second step.
fn running() -> (Project, Child) {
    let project = Project::new();
    project.write("work.yaml", WORK.as_bytes());
    let child = start(&project, &["run", "work.yaml"]);
    let begun = Instant::now();
    while project.read("inside").is_none() {
        assert!(begun.elapsed() < PATIENCE, "the run does not get there");
        std::thread::sleep(Duration::from_millis(2));
    }
    (project, child)
}

#[test]
fn output_is_followed_until_the_run_ends() {
    let (project, run) = running();
    let mut follow = start(&project, &["logs", "last", "--follow"]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("first | one"));
    project.write("go", b"");
    assert_eq!(lines.collect::<Vec<_>>(), ["second | two", "second ! oops", "third | three"]);
    assert!(follow.wait().unwrap().success());
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
fn a_run_is_stopped_when_its_step_has_finished() {
    let (project, mut run) = running();
    let stop = start(&project, &["stop", "last"]);
    let mut said = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The run was told, and waits for its step.
    assert!(said.next().is_some_and(|line| line.contains("stopping")));
    project.write("go", b"");
    let stop = stop.wait_with_output().unwrap();
    assert!(stop.status.success(), "{stop:?}");
    assert!(String::from_utf8(stop.stdout).unwrap().starts_with("stopped: `threadline resume "));
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130));
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(printed.contains("second") && !printed.contains("third"), "{printed}");
}

#[test]
fn a_run_is_stopped_now_and_resumed() {
    let (project, run) = running();
    let stop = project.run(&["stop", "--now", "last"], b"");
    assert_eq!((stop.exit, stop.stderr.as_str()), (0, ""));
    assert!(stop.stdout.starts_with("stopped: `threadline resume "), "{}", stop.stdout);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(130));
    project.write("go", b"");
    assert_eq!(project.run(&["resume", "last"], b"").exit, 0);
    let again = project.run(&["stop", "last"], b"");
    assert_eq!(again.exit, 3);
    assert!(again.stderr.starts_with("error: no process drives run `"), "{}", again.stderr);
}
