//! Runs that want the same for themselves, through the real binary: one has it, the others say who, wait, or take over
//! what a killed one had.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Project};

/// Holds its lock until there is a file `go`.
fn holder(locks: &str) -> String {
    format!("locks: {locks}\nsteps:\n  - shell: touch inside; until test -e go; do sleep 0.01; done\n")
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let command = command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until there is a file.
fn until_there(project: &Project, name: &str) {
    let begun = Instant::now();
    while project.read(name).is_none() {
        assert!(begun.elapsed() < PATIENCE, "there is no `{name}`");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until a run waits, which is the first thing that it says: that, and what comes behind it.
fn until_waiting(child: &mut Child) -> (String, BufReader<ChildStderr>) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("waiting for it"), "{said}");
    (said, stderr)
}

/// How it ended, and what it said.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A project in which a run has what it locks.
fn held(locks: &str) -> (Project, Child) {
    let project = Project::new();
    project.write("holder.yaml", holder(locks).as_bytes());
    let child = start(project.path(), &["run", "holder.yaml"]);
    until_there(&project, "inside");
    (project, child)
}

fn other(project: &Project, locks: &str) -> (i32, String) {
    project.write("other.yaml", format!("locks: {locks}\nsteps:\n  - shell: touch ran\n").as_bytes());
    let outcome = project.run(&["run", "other.yaml"], b"");
    (outcome.exit, outcome.stdout + &outcome.stderr)
}

#[test]
fn a_second_run_is_told_who_has_it() {
    let (project, child) = held("[src/parser, 'name:release']");
    let refused = [
        "[src/parser]",
        "[src]",
        "[src/parser/lexer.rs]",
        "[.]",
        "[./src/../src/parser/]",
        "[docs, 'name:release']",
    ];
    for locks in refused {
        let (exit, said) = other(&project, locks);
        assert_eq!(exit, 3, "{locks}: {said}");
        assert!(said.contains("of `holder` has `"), "{locks}: {said}");
        assert!(said.contains(&format!("(process {})", child.id())), "{locks}: {said}");
        assert!(said.contains("hint: `--wait` waits until it is free"), "{locks}: {said}");
        assert!(project.read("ran").is_none(), "{locks}");
    }
    for locks in ["[docs]", "[src/parser-old]", "['name:other']", "['name:src/parser']", "[]"] {
        let (exit, said) = other(&project, locks);
        assert_eq!(exit, 0, "{locks}: {said}");
    }
    // A run that could not begin is none.
    let runs = project.run(&["runs"], b"").stdout;
    let listed = runs.lines().count() - ["the heading", "the size of the store"].len();
    assert_eq!(listed, 6, "{runs}");
    project.write("go", b"");
    assert_eq!(ended(child).0, Some(0));
    assert_eq!(other(&project, "[src]").0, 0);
}

/// A link leads to the same place.
#[test]
fn links_do_not_hide_a_path() {
    let (project, child) = held("[src]");
    std::fs::create_dir_all(project.path().join("src/inner")).unwrap();
    project.link("elsewhere", "src/inner");
    let (exit, said) = other(&project, "[elsewhere/file]");
    assert_eq!(exit, 3, "{said}");
    project.write("go", b"");
    assert_eq!(ended(child).0, Some(0));
}

#[test]
fn a_killed_holder_holds_nothing_and_resumes_when_it_is_free() {
    let (project, mut child) = held("[src]");
    child.kill().unwrap();
    child.wait().unwrap();
    // What its step does would go on beside the run that takes over.
    let (exit, said) = other(&project, "[src]");
    assert_eq!(exit, 0, "{said}");
    std::fs::remove_file(project.path().join("inside")).unwrap();
    // And the other way round: `resume` takes it again.
    let first = start(project.path(), &["resume", first_run(&project).as_str()]);
    until_there(&project, "inside");
    assert_eq!(other(&project, "[src]").0, 3);
    project.write("go", b"");
    assert_eq!(ended(first).0, Some(0));
}

/// The run that began first.
fn first_run(project: &Project) -> String {
    let runs = project.run(&["runs"], b"").stdout;
    // The last line is about the store.
    runs.lines().rev().nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn resume_wants_what_the_run_locks() {
    let project = Project::new();
    project.write("failing.yaml", b"locks: [src]\nsteps:\n  - shell: test -e good\n");
    assert_eq!(project.run(&["run", "failing.yaml"], b"").exit, 1);
    let run = first_run(&project);
    project.write("holder.yaml", holder("[src]").as_bytes());
    let child = start(project.path(), &["run", "holder.yaml"]);
    until_there(&project, "inside");
    project.write("good", b"");
    let refused = project.run(&["resume", &run], b"");
    assert_eq!(refused.exit, 3, "{}", refused.stderr);
    let waiting = start(project.path(), &["resume", &run, "--wait"]);
    project.write("go", b"");
    assert_eq!(ended(child).0, Some(0));
    let (exit, said) = ended(waiting);
    assert_eq!(exit, Some(0), "{said}");
}

#[test]
fn a_run_waits_when_that_is_asked() {
    let (project, child) = held("[src]");
    project.write("other.yaml", b"locks: [src]\nsteps:\n  - shell: test -e go && touch ran\n");
    let short = project.run(&["run", "other.yaml", "--wait=100ms"], b"");
    assert_eq!(short.exit, 3, "{}", short.stderr);
    assert!(short.stderr.contains("waited for 100ms"), "{}", short.stderr);
    let mut waiting = start(project.path(), &["run", "other.yaml", "--wait"]);
    let (mut told, mut more) = until_waiting(&mut waiting);
    let mut stopped = start(project.path(), &["run", "other.yaml", "--wait=10m"]);
    let (mut said, mut stderr) = until_waiting(&mut stopped);
    signal(&stopped, "-INT");
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(stopped.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(said.matches("waiting for it").count(), 1, "{said}");
    assert!(said.contains("stopped before the run started"), "{said}");
    assert!(project.read("ran").is_none());
    project.write("go", b"");
    assert_eq!(ended(child).0, Some(0));
    more.read_to_string(&mut told).unwrap();
    let (exit, said) = ended(waiting);
    assert_eq!(exit, Some(0), "{said}{told}");
    assert_eq!(told.matches("waiting for it").count(), 1, "{told}");
    assert!(project.read("ran").is_some());
}

#[test]
fn a_called_workflow_takes_its_own_locks() {
    let (project, child) = held("[src]");
    project.write("caller.yaml", b"- {id: call, workflow: part.yaml}\n");
    project.write("part.yaml", b"locks: [src/parser]\nsteps:\n  - shell: touch ran\n");
    let refused = project.run(&["run", "caller.yaml"], b"");
    assert_eq!(refused.exit, 1, "{}", refused.stdout);
    assert!(refused.stdout.contains("by its lock on `src` since"), "{}", refused.stdout);
    assert!(project.read("ran").is_none());
    let waiting = start(project.path(), &["resume", "last", "--wait"]);
    project.write("go", b"");
    assert_eq!(ended(child).0, Some(0));
    let (exit, said) = ended(waiting);
    assert_eq!(exit, Some(0), "{said}");
    assert!(project.read("ran").is_some());
}

/// Twenty processes that all wait for one lock: never two are inside, and each comes to its turn; some are killed while
/// they have it.
#[test]
fn never_two_inside() {
    let project = Project::new();
    // Who is inside makes a folder, which fails when there is one; who is killed leaves it, and says whose it was.
    let workflow = "locks: [shared]\nsteps:\n  - shell: |\n      if [ -e inside ]; then kill -0 \"$(cat inside)\" \
                    2>/dev/null && echo two >> broken; fi\n      echo $PPID > inside\n      sleep 0.02\n      \
                    [ \"$(cat inside)\" = \"$PPID\" ] || echo changed >> broken\n      rm inside\n      echo done >> turns\n";
    project.write("workflow.yaml", workflow.as_bytes());
    let children: Vec<Child> =
        (0..20).map(|_| start(project.path(), &["run", "workflow.yaml", "--wait"])).collect();
    let mut completed = 0;
    for (number, mut child) in children.into_iter().enumerate() {
        if number % 5 == 4 {
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let (exit, said) = ended(child);
        assert_eq!(exit, Some(0), "{said}");
        completed += 1;
    }
    assert_eq!(completed, 16);
    assert_eq!(project.read("broken"), None);
    assert!(project.read("turns").unwrap().lines().count() >= completed);
    let claims = std::fs::read_dir(project.path().join(".threadline/claims")).unwrap();
    // Those who were killed may have left theirs.
    assert!(claims.count() <= 4);
}
