//! Stores to which something happens, through the real binary: they vanish under a run, are copied or moved, or cannot be
//! created.

use crate::harness::workflow;

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
