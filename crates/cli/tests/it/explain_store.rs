//! Stores that the commands which read runs meet: runs with like ids, and one that a newer version wrote.

use std::io::{Seek, SeekFrom, Write};

use crate::support::Project;
use threadline_engine::event::{Address, EventKind, RunStarted};
use threadline_store::{Durability, Journal, NewRun, RunId, Store};

/// Where `SQLite` keeps the version that its user gives a file: four bytes, the highest first.
const USER_VERSION: u64 = 60;

fn run(id: &str) -> NewRun {
    NewRun {
        id: RunId::new(id).expect("an id"),
        name: "work".into(),
        file: "work.yaml".into(),
        started_at: "2026-01-01T00:00:00.000Z".into(),
    }
}

#[test]
fn an_id_that_several_runs_begin_with_names_them() {
    let project = Project::new();
    let store = Store::open(&project.path().join(".threadline")).expect("a store");
    drop(store.create_run(run("aaaa0001")).expect("a run"));
    drop(store.create_run(run("aaaa0002")).expect("a run"));
    store.close().expect("a store");
    for command in [&["show", "aaaa"][..], &["explain", "aaaa"], &["vars", "aaaa"], &["resume", "aaaa"]] {
        let outcome = project.run(command, b"");
        let expected =
            "error: `aaaa` is a prefix of 2 run ids: `aaaa0001`, `aaaa0002`\n\nhint: give more of the id\n";
        assert_eq!((outcome.stderr.as_str(), outcome.exit), (expected, 3), "{command:?}");
    }
}

#[test]
fn a_running_run_is_running_until_nobody_drives_it() {
    let project = Project::new();
    let store = Store::open(&project.path().join(".threadline")).expect("a store");
    let lease = store.create_run(run("aaaa0001")).expect("a run");
    let status = || {
        let runs = project.run(&["runs"], b"").stdout;
        let listed = runs.lines().find(|line| line.starts_with("aaaa0001"));
        listed.and_then(|line| line.split_whitespace().nth(1).map(str::to_owned))
    };
    // A run without an event has not begun.
    assert_eq!(status(), None);
    let journal = Journal::new(&store, lease);
    let started = RunStarted::bare("aaaa0001".into(), "work".into());
    let first = vec![(Address::default(), EventKind::RunStarted(started))];
    let (_, ticket) = journal.append(0, first, Durability::Now).expect("a journal");
    ticket.wait().expect("a journal");
    assert_eq!(status().as_deref(), Some("running"));
    drop(journal);
    assert_eq!(status().as_deref(), Some("interrupted"));
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let project = Project::new();
    let folder = project.path().join(".threadline");
    let store = Store::open(&folder).expect("a store");
    drop(store.create_run(run("aaaa0001")).expect("a run"));
    store.close().expect("a store");
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("journal.db"));
    let mut file = file.expect("the journal");
    file.seek(SeekFrom::Start(USER_VERSION)).expect("the header");
    file.write_all(&9_999_u32.to_be_bytes()).expect("a version");
    drop(file);
    for command in [&["runs"][..], &["show", "last"], &["explain", "last"], &["vars", "last"]] {
        let outcome = project.run(command, b"");
        assert!(outcome.stderr.starts_with("error: written by a newer threadline: "), "{}", outcome.stderr);
        assert!(outcome.stderr.ends_with("\nhint: use the newer `threadline`\n"), "{}", outcome.stderr);
        assert_eq!((outcome.stdout.as_str(), outcome.exit), ("", 3), "{command:?}");
    }
}
