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
fn a_run_is_watched_until_it_ends() {
    let (project, run) = running();
    let mut attached = start(&project, &["attach", "last"]);
    let mut lines = BufReader::new(attached.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().is_some_and(|line| line.starts_with("work run ")));
    assert!(lines.next().is_some_and(|line| line.contains("first") && line.ends_with("\"one\" (text)")));
    project.write("go", b"");
    let rest: Vec<String> = lines.collect();
    assert!(
        matches!(&rest[..], [second, third, end]
        if second.contains("✓ second") && third.contains("✓ third") && end.starts_with("completed: 3 completed")),
        "{rest:?}"
    );
    assert_eq!(attached.wait().unwrap().code(), Some(0));
    assert!(run.wait_with_output().unwrap().status.success());
    // One that is over is shown as a whole.
    let again = project.run(&["attach", "last"], b"");
    assert_eq!((again.exit, again.stderr.as_str(), again.stdout.lines().count()), (0, "", 5));
}

#[test]
fn a_watched_run_that_is_killed_or_stopped_says_how_to_go_on() {
    let (project, mut run) = running();
    let attached = start(&project, &["attach", "last"]);
    run.kill().unwrap();
    run.wait().unwrap();
    let attached = attached.wait_with_output().unwrap();
    let said = String::from_utf8(attached.stderr).unwrap();
    assert_eq!(attached.status.code(), Some(4), "{said}");
    assert!(
        said.starts_with("note: the process that drove the run is gone\nnote: `threadline resume "),
        "{said}"
    );
    project.write("go", b"");
    assert_eq!(project.run(&["resume", "last"], b"").exit, 0);
    assert_eq!(project.run(&["attach", "last"], b"").exit, 0);
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

/// The bytes of what a program printed are kept also where its text is not: other line breaks at the end, and no UTF-8.
#[test]
fn what_a_program_printed_comes_out_byte_for_byte() {
    let project = Project::new();
    let large = vec![b'x'; 300_000];
    let printed: [(&str, &[u8]); 7] = [
        ("none", b""),
        ("usual", b"a\nb\n"),
        ("open", b"a\nb"),
        ("many", b"a\n\n\r\n\n"),
        ("only", b"\n\n"),
        ("foreign", b"\xff\xfe a\n"),
        ("large", &large),
    ];
    let steps = printed.map(|(name, bytes)| {
        project.write(name, bytes);
        format!(
            "- {{id: {name}-out, shell: cat {name}, continue_on_error: true}}\n\
             - {{id: {name}-err, shell: cat {name} >&2; exit 3, continue_on_error: true}}\n"
        )
    });
    let workflow = format!("steps:\n{}", steps.concat());
    project.write("work.yaml", workflow.as_bytes());
    start(&project, &["run", "work.yaml"]).wait_with_output().unwrap();
    for (name, bytes) in printed {
        for (step, stream) in [(format!("{name}-out"), "--stdout"), (format!("{name}-err"), "--stderr")] {
            let logs = start(&project, &["logs", "last", &step, stream]).wait_with_output().unwrap();
            assert!(logs.stdout == bytes, "{step}: {:?}", String::from_utf8_lossy(&logs.stdout));
        }
    }
}
