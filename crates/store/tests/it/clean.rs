//! Runs that are removed, and what goes with them. What remains is as it was, whoever writes beside it and wherever it is
//! cut off.

#![expect(clippy::unwrap_used, reason = "a journal that cannot be made fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fixture::{Folder, draft, events, id, new_run};
use crate::random::Random;
use threadline_store::{
    Durability, EventDraft, Fault, Hash, JournalReader, RunInfo, RunsRemoved, Store, StoreError,
    StoreOptions, StoredEvent, WritePoint,
};

/// A value of its own for a number: small ones go into the table, every tenth is a file.
fn value(n: u64) -> Vec<u8> {
    let size = if n.is_multiple_of(10) { 1 << 20 } else { 3_000 };
    format!("{n} ").repeat(size / 2 + 1).into_bytes()
}

/// An event that names values, as a datum does.
fn naming(values: &[Hash]) -> EventDraft {
    let names = values.iter().map(|hash| format!(r#"{{"hash":"{hash}","bytes":1,"form":"text"}}"#));
    EventDraft::new("finished", "1").with(format!("[{}]", names.collect::<Vec<_>>().join(",")))
}

/// Writes a run whose events name a value of its own, one that two runs share, and an index of pieces.
fn write_run(store: &Store, run: &str, n: u64) {
    let lease = store.create_run(new_run(run)).unwrap();
    let own = store.put_value(value(n)).unwrap();
    let shared = store.put_value(value(1_000 + n / 2)).unwrap();
    let piece = store.put_value(value(2_000 + n)).unwrap();
    let index = store.put_value(format!(r#"[1,[[0,{{"hash":"{piece}"}}]]]"#).into_bytes()).unwrap();
    lease.append((1..=20).map(draft).collect(), Durability::Later).unwrap();
    lease.append(vec![naming(&[own, shared, index])], Durability::Now).unwrap().wait().unwrap();
}

/// All that a journal says of a run: its events, and the values that they name.
type RunContent = (Vec<StoredEvent>, Vec<Vec<u8>>);

fn content(reader: &JournalReader, run: &str) -> RunContent {
    let events = events(reader, run).unwrap();
    let mut values = Vec::new();
    let mut named: Vec<Hash> = events.iter().flat_map(|event| hashes(event.payload.as_bytes())).collect();
    while let Some(hash) = named.pop() {
        let bytes = reader.value(&hash).unwrap();
        if bytes.starts_with(b"[") {
            named.extend(hashes(&bytes));
        }
        values.push(bytes);
    }
    (events, values)
}

fn hashes(json: &[u8]) -> Vec<Hash> {
    let text = str::from_utf8(json).unwrap();
    text.split('"').filter_map(|part| part.parse().ok()).collect()
}

fn infos(reader: &JournalReader, chosen: impl Fn(&str) -> bool) -> Vec<RunInfo> {
    let mut runs = reader.runs().unwrap();
    runs.retain(|run| chosen(run.id.as_str()));
    runs
}

fn files(folder: &Path) -> usize {
    let folders = fs::read_dir(folder.join("values")).into_iter().flatten().flatten();
    folders.map(|folder| fs::read_dir(folder.path()).unwrap().count()).sum()
}

#[test]
fn what_remains_is_as_it_was_and_the_file_is_smaller() {
    let folder = Folder::new("clean");
    let journal = folder.journal();
    let store = Store::open(&journal).unwrap();
    for n in 0..40 {
        write_run(&store, &format!("r{n:02}"), n);
    }
    write_run(&store, "r07-called", 50);
    write_run(&store, "r070", 51);
    let kept = ["r00", "r01", "r21", "r39", "r070"];
    let before: Vec<RunContent> = kept.iter().map(|run| content(store.reader(), run)).collect();
    store.close().unwrap();
    let (size, count) = (fs::metadata(journal.join("journal.db")).unwrap().len(), files(&journal));

    let store = Store::open(&journal).unwrap();
    let going = infos(store.reader(), |run| !kept.contains(&run) && !run.contains('-'));
    let outcome = store.remove_runs(&going).unwrap();
    assert_eq!((outcome.removed.len(), outcome.driven.len()), (36, 0));
    let sweep = store.sweep().unwrap();
    assert!(sweep.can_shrink);
    assert_eq!(sweep.events, 37 * 21, "a called run goes with its caller");
    let commits = store.stats().commits;
    assert!(commits < 12, "{commits} transactions for 36 runs");
    store.close().unwrap();

    let reader = JournalReader::open(&journal).unwrap();
    let after: Vec<RunContent> = kept.iter().map(|run| content(&reader, run)).collect();
    assert!(after == before, "a run that remains has changed");
    let ids: Vec<String> = reader.runs().unwrap().iter().map(|run| run.id.to_string()).collect();
    assert_eq!(ids, kept);
    assert_eq!(reader.run(&id("r07-called")), Err(StoreError::NoSuchRun { name: "r07-called".into() }));
    let now = fs::metadata(journal.join("journal.db")).unwrap().len();
    assert!(now < size / 3, "{size} bytes became {now}");
    assert!(files(&journal) < count, "no file of a value has gone");

    // New runs get new numbers, and a second sweep finds nothing.
    let store = Store::open(&journal).unwrap();
    write_run(&store, "new", 60);
    let sweep = store.sweep().unwrap();
    assert_eq!((sweep.events, sweep.values), (0, 0));
    assert_eq!(store.reader().runs().unwrap().len(), 6);
}

#[test]
fn a_run_that_is_driven_or_went_on_stays() {
    let folder = Folder::new("clean-driven");
    let store = Store::open(&folder.journal()).unwrap();
    for (n, run) in ["a", "b", "c"].into_iter().enumerate() {
        write_run(&store, run, n as u64);
    }
    let all = infos(store.reader(), |_| true);
    let driven = store.lease(&id("a")).unwrap();
    let went_on = store.lease(&id("b")).unwrap();
    went_on.append(vec![draft(1)], Durability::Now).unwrap().wait().unwrap();
    drop(went_on);
    let outcome = store.remove_runs(&all).unwrap();
    assert_eq!(outcome, RunsRemoved { removed: vec![id("c")], driven: vec![id("a"), id("b")] });
    driven.append(vec![draft(2)], Durability::Now).unwrap().wait().unwrap();
    drop(driven);
    store.sweep().unwrap();
    content(store.reader(), "a");
    content(store.reader(), "b");
    assert_eq!(store.lease(&id("c")).unwrap_err(), StoreError::NoSuchRun { name: "c".into() });
    assert!(!folder.journal().join("leases/c").exists());
}

#[test]
fn a_value_that_a_living_process_stored_stays() {
    let folder = Folder::new("clean-pins");
    let journal = folder.journal();
    let (one, other) = (Store::open(&journal).unwrap(), Store::open(&journal).unwrap());
    write_run(&one, "old", 10);
    let lease = other.create_run(new_run("new")).unwrap();
    // Values that are there already, and new ones, none of them named by an event yet.
    let stored: Vec<Hash> = [10, 2_010, 20, 21].map(|n| other.put_value(value(n)).unwrap()).into();
    other.wait_for_values().unwrap();
    let old = infos(one.reader(), |run| run == "old");
    one.remove_runs(&old).unwrap();
    one.sweep().unwrap();
    lease.append(vec![naming(&stored)], Durability::Now).unwrap().wait().unwrap();
    drop(lease);
    assert_eq!(content(other.reader(), "new").1.len(), 4);
    drop(other);
    // Its events name them now.
    one.sweep().unwrap();
    assert_eq!(content(one.reader(), "new").1.len(), 4);
    let unnamed = one.put_value(value(30)).unwrap();
    drop(one);
    let store = Store::open(&journal).unwrap();
    assert!(store.sweep().unwrap().values >= 1);
    assert_eq!(store.reader().value(&unnamed), Err(StoreError::NoSuchValue { hash: unnamed }));
}

#[test]
fn a_sweep_beside_writers_loses_nothing() {
    let folder = Folder::new("clean-beside");
    let journal = folder.journal();
    drop(Store::open(&journal).unwrap());
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let rounds = if std::env::var_os("THREADLINE_LONG").is_some() { 400 } else { 40 };
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (journal, written, done) = (&journal, &written, &done);
            scope.spawn(move || {
                for round in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    // Every run in a process of its own, as far as the store can tell.
                    let store = Store::open(journal).unwrap();
                    write_run(&store, &format!("w{writer}x{round}"), round % 7);
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut random = Random(7);
        for _ in 0..rounds {
            let store = Store::open(&journal).unwrap();
            let mut going = infos(store.reader(), |_| true);
            going.retain(|run| run.events == 21 && random.below(3) > 0);
            store.remove_runs(&going).unwrap();
            store.sweep().unwrap();
            for run in store.reader().runs().unwrap() {
                content(store.reader(), run.id.as_str());
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{rounds} sweeps beside {} runs", written.load(Ordering::Relaxed));
}

#[test]
fn cut_off_at_any_write_it_loses_nothing_and_is_completed_later() {
    let folder = Folder::new("clean-cut");
    let kept = ["r00", "r03", "r11"];
    let whole = folder.join("whole");
    let store = Store::open(&whole).unwrap();
    for n in 0..12 {
        write_run(&store, &format!("r{n:02}"), n);
    }
    let before: BTreeMap<&str, RunContent> =
        kept.iter().map(|run| (*run, content(store.reader(), run))).collect();
    store.close().unwrap();
    let mut cuts = 0;
    for number in 1.. {
        for point in [WritePoint::Before(number), WritePoint::After(number)] {
            let cut = folder.join("cut");
            let _ = fs::remove_dir_all(&cut);
            copy(&whole, &cut);
            let fault = move |asked: WritePoint| if asked == point { Fault::Crash } else { Fault::None };
            let options = StoreOptions { fault: Some(Box::new(fault)), ..StoreOptions::default() };
            let store = Store::open_with(&cut, options).unwrap();
            let going = infos(store.reader(), |run| !kept.contains(&run));
            let cleaned = store.remove_runs(&going).and_then(|_| store.sweep());
            drop(store);
            if cleaned.is_ok() {
                assert!(cuts > 8, "only {cuts} cuts");
                println!("cut off at {cuts} points");
                return;
            }
            cuts += 1;
            check_cut(&cut, &before, &format!("{point:?}"));
        }
    }
}

/// What was cut off lost nothing that remains, and is completed by the next one.
fn check_cut(cut: &Path, before: &BTreeMap<&str, RunContent>, what: &str) {
    let store = Store::open(cut).unwrap();
    for (run, content_before) in before {
        assert!(content(store.reader(), run) == *content_before, "{what}: {run} has changed");
    }
    // A run is there as a whole, or not at all.
    for run in store.reader().runs().unwrap() {
        content(store.reader(), run.id.as_str());
    }
    let going = infos(store.reader(), |run| !before.contains_key(run));
    store.remove_runs(&going).unwrap();
    store.sweep().unwrap();
    for (run, content_before) in before {
        assert!(content(store.reader(), run) == *content_before, "{what}: {run} has changed");
    }
    assert_eq!(store.reader().runs().unwrap().len(), before.len(), "{what}");
    store.close().unwrap();
    let size = fs::metadata(cut.join("journal.db")).unwrap().len();
    assert!(size < 200_000, "{what}: {size} bytes");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_reader_of_a_run_that_is_removed_meanwhile_says_so() {
    let folder = Folder::new("clean-reader");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("long")).unwrap();
    for _ in 0..10 {
        lease.append((1..=100).map(draft).collect(), Durability::Later).unwrap();
    }
    drop(lease);
    let mut reading = store.reader().read(&id("long"), 1).unwrap();
    reading.next().unwrap().unwrap();
    store.remove_runs(&infos(store.reader(), |_| true)).unwrap();
    store.sweep().unwrap();
    let error = reading.find_map(Result::err).unwrap();
    assert_eq!(error, StoreError::NoSuchRun { name: "long".into() });
}

#[test]
fn a_damaged_journal_loses_no_value() {
    let folder = Folder::new("clean-damaged");
    let journal = folder.journal();
    let store = Store::open(&journal).unwrap();
    for n in 0..4 {
        write_run(&store, &format!("r{n}"), n);
    }
    drop(store);
    let connection = rusqlite::Connection::open(journal.join("journal.db")).unwrap();
    connection.execute("UPDATE event SET payload = '' WHERE id & 255 = 21", []).unwrap();
    let values =
        || connection.query_row("SELECT count(*) FROM value", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = values();
    let store = Store::open(&journal).unwrap();
    assert!(matches!(store.sweep(), Err(StoreError::DamagedEvent { .. })));
    assert_eq!(values(), before);
}

#[test]
fn a_journal_of_an_earlier_version_is_cleaned_too() {
    let folder = Folder::new("clean-earlier");
    let journal = folder.journal();
    drop(Store::open(&journal).unwrap());
    // As it was made before it could shrink: no page that says what each page is for.
    let file = journal.join("journal.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "auto_vacuum", "none").unwrap();
    connection.execute_batch("VACUUM").unwrap();
    drop(connection);
    let store = Store::open(&journal).unwrap();
    for n in 0..4 {
        write_run(&store, &format!("r{n}"), n);
    }
    let kept = content(store.reader(), "r3");
    store.remove_runs(&infos(store.reader(), |run| run != "r3")).unwrap();
    assert!(!store.sweep().unwrap().can_shrink);
    assert!(content(store.reader(), "r3") == kept);
}
