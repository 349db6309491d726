//! Stores to which something happens, through the real binary: they vanish under a run, are copied or moved, or cannot be
//! created.

use std::process::{Command, Output, Stdio};

use crate::harness::{Workflow, workflow};
use crate::support::is_long;

/// A run whose second step removes something of the store, and what the program says.
#[test]
fn a_journal_that_vanishes_stops_its_run() {
    let removals = [
        ("rm -r .threadline", "journal.db` was removed or replaced while the run was writing it"),
        ("mv .threadline elsewhere", "journal.db` was removed or replaced while the run was writing it"),
        ("rm .threadline/journal.db", "journal.db` was removed or replaced while the run was writing it"),
        (
            "rm .threadline/journal.db-wal",
            "journal.db-wal` was removed or replaced while the run was writing it",
        ),
        (
            "cp .threadline/journal.db copy; mv copy .threadline/journal.db",
            "journal.db` was removed or replaced while the run was writing it",
        ),
    ];
    for (removal, said) in removals {
        let text = format!("- shell: touch first\n- shell: {removal}\n- shell: touch later\n");
        let workflow = workflow(&text);
        let run = workflow.run().exits(4).says(said).says("`git clean -e .threadline` leaves it alone");
        assert!(workflow.has("first") && !workflow.has("later"), "{removal}");
        assert!(!run.stderr.contains("is in its journal"), "{removal}: {}", run.stderr);
        assert_eq!(run.count("finished", "2"), 0, "{removal}: {}", run.stdout);
    }
}

/// What is left of the old store does not harm a new one in its place.
#[test]
fn a_store_in_the_place_of_another_stays_whole() {
    let workflow = workflow("- shell: mv .threadline old; mkdir .threadline; \"$PROGRAM\" run small.yaml\n")
        .file("small.yaml", "name: small\nsteps: [{value: 1}]\n")
        .env("PROGRAM", env!("CARGO_BIN_EXE_threadline"));
    workflow.run().exits(4);
    let runs = workflow.command(&["runs"]).wait().well().stdout;
    assert!(runs.contains("completed") && runs.contains("small"), "{runs}");
    workflow.command(&["show", "last"]).wait().well();
}

/// A log without its journal is damage for every command.
#[test]
fn a_journal_that_is_gone_is_missed_by_all_commands_alike() {
    let workflow = workflow("- shell: rm .threadline/journal.db\n");
    workflow.run().exits(4);
    for command in [&["runs"][..], &["show", "last"], &["resume", "last"], &["run", "workflow.yaml"]] {
        let said = "the journal is damaged: `";
        workflow.command(command).wait().exits(3).says(said).says("is there without its journal");
    }
}

/// A limit on the size of files makes some write fail while the store is created, at another place for each limit. With
/// room again the same project works.
#[test]
fn a_store_whose_creation_failed_is_created_again() {
    let (mut refused, mut stopped) = (0, 0);
    for kibibytes in (0..=120).step_by(if is_long() { 1 } else { 5 }) {
        let workflow = workflow("- {id: one, value: 1}\n");
        let limited =
            workflow.project.run_limited(&format!("-f {kibibytes}"), &["run", "workflow.yaml"], b"");
        match limited.exit {
            0 => {}
            code @ (3 | 4) => {
                assert!(
                    limited.stderr.contains("the journal cannot be read or written"),
                    "{}",
                    limited.stderr
                );
                refused += u64::from(code == 3);
                stopped += u64::from(code == 4);
            }
            code => panic!("{kibibytes} KiB: exit {code}\n{}", limited.stderr),
        }
        assert_eq!(workflow.run().well().value("one"), "1", "after {kibibytes} KiB");
    }
    println!("{refused} stores could not be created, {stopped} runs stopped, and all went on");
    assert!(refused > 2 && stopped > 0, "{refused} stores could not be created, {stopped} runs stopped");
}

/// A program that a step starts is ended by the limit, as it would be in a shell.
#[test]
fn a_limit_on_files_is_a_limit_for_steps() {
    let workflow = workflow("- {shell: 'head -c 4000000 /dev/zero > large'}\n");
    let limited = workflow.project.run_limited("-f 2000", &["run", "--json", "workflow.yaml"], b"");
    assert_eq!(limited.exit, 1, "{}", limited.stderr);
    assert!(limited.stdout.contains("exit code 153"), "{}", limited.stdout);
}

/// Its step runs until there is a file `go`.
const WAITING: &str =
    "- {id: one, shell: 'pwd > where; touch inside; until test -e go; do sleep 0.01; done; touch over'}\n";

/// A copy of a project with a live run: `resume` there leaves the original alone, and works in the copy.
#[test]
fn a_copied_project_works_on_itself() {
    let workflow = workflow("- {value: 1}\n").file("sub/waiting.yaml", WAITING);
    let running = workflow.command(&["run", "--json", "--dir", "sub", "sub/waiting.yaml"]);
    workflow.until_there("sub/inside");
    let copy = workflow.project.path().with_file_name("copy");
    let copied = Command::new("cp").arg("-r").arg(workflow.project.path()).arg(&copy).status();
    assert!(copied.expect("cp").success());
    std::fs::write(copy.join("sub/go"), "").expect("the copy");
    let resumed = workflow.command(&["resume", "--json", "--dir", &copy.display().to_string()]).wait().well();
    assert_eq!(resumed.count("finished", "one"), 1);
    let place = std::fs::read_to_string(copy.join("sub/where")).expect("the copy");
    assert_eq!(place.trim(), copy.join("sub").display().to_string());
    // The original goes on as if nothing had happened.
    assert!(!workflow.has("sub/over"));
    workflow.project.write("sub/go", b"");
    running.wait().well();
    assert_eq!(workflow.read("sub/where").trim(), workflow.project.path().join("sub").display().to_string());
}

#[test]
fn a_moved_project_goes_on() {
    let workflow = workflow("- {value: 1}\n").file("sub/waiting.yaml", WAITING);
    let running = workflow.command(&["run", "--json", "--dir", "sub", "sub/waiting.yaml"]);
    workflow.until_there("sub/inside");
    running.kill();
    let moved = workflow.project.path().with_file_name("moved");
    std::fs::rename(workflow.project.path(), &moved).expect("the project");
    std::fs::create_dir(workflow.project.path()).expect("an empty folder in its place");
    std::fs::write(moved.join("sub/go"), "").expect("the project");
    let resumed =
        workflow.command(&["resume", "--json", "--dir", &moved.display().to_string()]).wait().well();
    assert_eq!((resumed.count("finished", "one"), resumed.count("started", "one")), (1, 1));
    let place = std::fs::read_to_string(moved.join("sub/where")).expect("the project");
    assert_eq!(place.trim(), moved.join("sub").display().to_string());
    assert_eq!(std::fs::read_dir(workflow.project.path()).expect("the folder").count(), 0);
}

/// Runs the binary from a line of shell, in which `$0` is the binary.
fn from_shell(workflow: &Workflow, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", line, env!("CARGO_BIN_EXE_threadline")]).current_dir(workflow.project.path());
    command.stdin(Stdio::null()).output().expect("bash")
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let workflow = workflow("- {shell: touch ran}\n");
    for line in ["\"$0\" run workflow.yaml > /dev/full", "\"$0\" run --json workflow.yaml > /dev/full"] {
        let output = from_shell(&workflow, line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("cannot print: no space left on device"), "{line}: {said}");
        // The run itself did well.
        let runs = workflow.command(&["runs"]).wait().well().stdout;
        assert!(workflow.has("ran") && !runs.contains("failed"), "{runs}");
    }
    // A reader that has seen enough is no failure.
    let output = from_shell(&workflow, "\"$0\" run workflow.yaml > >(exec true); wait $!");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_path_that_is_too_long_is_named() {
    let workflow = workflow("- {value: 1}\n");
    let long = format!("{}/{}", "d".repeat(250), "e".repeat(240));
    std::fs::create_dir_all(workflow.project.path().join(&long).join(".threadline")).expect("folders");
    for command in [&["run", "workflow.yaml", "--dir", &long][..], &["runs", "--dir", &long]] {
        let refused = workflow.command(command).wait().exits(3);
        let said = refused
            .says("the path of the store is ")
            .says("move the project to a folder with a shorter path");
        assert!(said.stderr.contains("bytes too long"), "{}", said.stderr);
    }
}

/// Two processes at one run, because somebody removed the lease: one of them says so and stops.
#[test]
fn a_lease_that_was_removed_is_not_taken_for_damage() {
    let workflow = workflow(WAITING);
    let first = workflow.start(&[]);
    workflow.until_there("inside");
    std::fs::remove_dir_all(workflow.project.path().join(".threadline/leases")).expect("leases");
    workflow.project.write("go", b"");
    let second = workflow.resume();
    let both = [first.wait(), second];
    let said: Vec<&str> = both.iter().map(|run| run.stderr.as_str()).collect();
    assert!(said.iter().all(|said| !said.contains("damaged")), "{said:?}");
    for run in both.iter().filter(|run| run.exit == 4) {
        assert!(run.stderr.contains("the lease of this one was removed"), "{}", run.stderr);
    }
    workflow.command(&["show", "last"]).wait().well();
}

/// Whether this user may mount file systems in a name space of their own.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
fn a_store_that_cannot_be_written_is_read() {
    let workflow = workflow("- {id: one, shell: echo done}\n");
    workflow.run().well();
    if !may_mount() {
        return;
    }
    let read_only = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && exec \"$0\"";
    for (command, code, said) in [
        ("runs", 0, "completed"),
        ("show last", 0, "done"),
        ("explain last one", 0, "echo done"),
        ("run workflow.yaml", 3, "the journal cannot be written"),
    ] {
        let script = format!("{read_only} {command}");
        let line = format!("exec unshare --user --map-root-user --mount bash -c '{script}' \"$0\"");
        let output = from_shell(&workflow, &line);
        let printed = [&output.stdout[..], &output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert_eq!(output.status.code(), Some(code), "{command}: {printed}");
        assert!(printed.contains(said), "{command}: {printed}");
    }
}

/// The disk is full while a program prints: that is not the fault of its step.
#[test]
fn a_disk_that_is_full_of_output_stops_the_run() {
    let workflow =
        workflow("- {id: large, shell: 'head -c 8000000 /dev/zero | tr \"\\0\" x', max_output: 100MB}\n");
    if !may_mount() {
        return;
    }
    let script = "mount -t tmpfs -o size=2m,mode=700 none .threadline && \"$0\" run workflow.yaml; code=$?; \
                  mount -o remount,size=64m .threadline && \"$0\" resume && exit $code";
    let line = format!("exec unshare --user --map-root-user --mount bash -c '{script}' \"$0\"");
    let output = from_shell(&workflow, &line);
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("the disk is full"), "{said}");
}
