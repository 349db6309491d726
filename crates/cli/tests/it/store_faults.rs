//! Stores to which something happens, through the real binary: they vanish under a run, are copied or moved, or cannot be
//! created.

use std::process::Command;

use crate::harness::workflow;
use crate::support::is_long;

/// A run whose second step removes something of the store, and what the program says.
#[test]
fn a_journal_that_vanishes_stops_its_run() {
    let removals = [
        ("rm -r .threadline", "journal.db` was removed or replaced while the run was writing it"),
        ("mv .threadline elsewhere", "journal.db` was removed or replaced while the run was writing it"),
        ("rm .threadline/journal.db", "journal.db` was removed or replaced while the run was writing it"),
        ("rm .threadline/journal.db-wal", "journal.db-wal` was removed or replaced while the run was writing it"),
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
        let limited = workflow.project.run_limited(&format!("-f {kibibytes}"), &["run", "workflow.yaml"], b"");
        match limited.exit {
            0 => {}
            code @ (3 | 4) => {
                assert!(limited.stderr.contains("the journal cannot be read or written"), "{}", limited.stderr);
                refused += u64::from(code == 3);
                stopped += u64::from(code == 4);
            }
            code => panic!("{kibibytes} KiB: exit {code}\n{}", limited.stderr),
        }
        assert_eq!(workflow.run().well().value("one"), "1", "after {kibibytes} KiB");
    }
    assert!(refused > 2, "{refused} stores could not be created, {stopped} runs stopped");
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
const WAITING: &str = "- {id: one, shell: 'pwd > where; touch inside; until test -e go; do sleep 0.01; done; touch over'}\n";

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
    let resumed = workflow.command(&["resume", "--json", "--dir", &moved.display().to_string()]).wait().well();
    assert_eq!((resumed.count("finished", "one"), resumed.count("started", "one")), (1, 1));
    let place = std::fs::read_to_string(moved.join("sub/where")).expect("the project");
    assert_eq!(place.trim(), moved.join("sub").display().to_string());
    assert_eq!(std::fs::read_dir(workflow.project.path()).expect("the folder").count(), 0);
}
