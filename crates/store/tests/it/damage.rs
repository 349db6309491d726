//! A damaged journal is refused or read right; it is never read wrong, and nothing panics.

#![expect(clippy::unwrap_used, reason = "a journal that cannot be made fails the test")]

use std::fs;
use std::path::Path;

use crate::fixture::{Folder, draft, events, id, is_draft, new_run};
use crate::random::Random;
use threadline_store::{
    Durability, Hash, JournalReader, RunInfo, Store, StoreError, StoreOptions, StoredEvent,
};

const RUNS: [&str; 3] = ["a1", "a2", "b1"];
const VALUES: [&str; 3] = ["a short text", "{\"k\": [1, 2, 3]}", "another"];

/// All that a journal says.
#[derive(Debug, PartialEq)]
struct Content {
    runs: Vec<RunInfo>,
    events: Vec<Vec<StoredEvent>>,
    values: Vec<Vec<u8>>,
}

/// Writes a small journal, each event in a commit of its own, so that its log has many.
fn write(store: &Store) {
    for (place, run) in RUNS.iter().enumerate() {
        let lease = store.create_run(new_run(run)).unwrap();
        store.put_text(VALUES[place]).unwrap();
        for n in 1..=12 {
            lease.append(vec![draft(n)], Durability::Now).unwrap().wait().unwrap();
        }
    }
}

/// Reads everything, each part by itself.
struct Parts {
    runs: Result<Vec<RunInfo>, StoreError>,
    events: Vec<Result<Vec<StoredEvent>, StoreError>>,
    values: Vec<Result<Vec<u8>, StoreError>>,
    found: Vec<Result<RunInfo, StoreError>>,
}

fn read(reader: &JournalReader) -> Parts {
    Parts {
        runs: reader.runs(),
        events: RUNS.iter().map(|run| events(reader, run)).collect(),
        values: VALUES.iter().map(|text| reader.value(&Hash::of(text.as_bytes()))).collect(),
        found: RUNS.iter().map(|run| reader.find(run)).collect(),
    }
}

fn content(reader: &JournalReader) -> Content {
    let parts = read(reader);
    let events: Vec<Vec<StoredEvent>> = parts.events.into_iter().map(Result::unwrap).collect();
    assert!(events.iter().flatten().all(|record| is_draft(record, record.seq)));
    Content {
        runs: parts.runs.unwrap(),
        events,
        values: parts.values.into_iter().map(Result::unwrap).collect(),
    }
}

/// Panics if a part that was read is not as it was written. Returns whether any was refused.
fn compare(parts: &Parts, right: &Content, what: &str) -> bool {
    let mut refused = false;
    let mut check = |same: Option<bool>| {
        assert_ne!(same, Some(false), "read wrong: {what}");
        refused |= same.is_none();
    };
    check(parts.runs.as_ref().ok().map(|runs| *runs == right.runs));
    for (found, right) in parts.events.iter().zip(&right.events) {
        check(found.as_ref().ok().map(|events| events == right));
    }
    for (found, right) in parts.values.iter().zip(&right.values) {
        check(found.as_ref().ok().map(|bytes| bytes == right));
    }
    for (found, right) in parts.found.iter().zip(&right.runs) {
        check(found.as_ref().ok().map(|run| run == right));
    }
    refused
}

/// Makes a journal of these files and no others. New files, for some systems sync a file that is written over.
fn put(journal: &Path, file: &[u8], log: Option<&[u8]>) {
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        let _ = fs::remove_file(journal.join(name));
    }
    fs::write(journal.join("journal.db"), file).unwrap();
    if let Some(log) = log {
        fs::write(journal.join("journal.db-wal"), log).unwrap();
    }
}

/// Alters some bytes and says how.
fn alter(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let length = bytes.len() as u64;
    let mut place = |end: u64| usize::try_from(random.below(end)).unwrap();
    let at = place(length);
    match place(8) {
        0 => {
            bytes.truncate(at);
            format!("cut to {at} bytes")
        }
        1 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
            format!("zeros from {at} to {end}")
        }
        2 => {
            let pages = length / 4096;
            let (first, second) = (place(pages) * 4096, place(pages) * 4096);
            let page = bytes[first..first + 4096].to_vec();
            bytes.copy_within(second..second + 4096, first);
            bytes[second..second + 4096].copy_from_slice(&page);
            format!("pages at {first} and {second} in each other's place")
        }
        3 => {
            bytes[at] = u8::try_from(place(256)).unwrap();
            format!("byte {at} is {}", bytes[at])
        }
        bit => {
            bytes[at] ^= 1 << (bit + place(2) - 4) << place(4);
            format!("bits of byte {at}")
        }
    }
}

/// Places that must be hit whatever the random numbers are: the first page of a file.
fn header_flips(length: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..100.min(length)).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit)))
}

#[test]
fn an_altered_file_is_refused_or_read_right() {
    let folder = Folder::new("damage");
    let journal = folder.journal();
    let store = Store::open(&journal).unwrap();
    write(&store);
    drop(store);
    let right = content(&JournalReader::open(&journal).unwrap());
    let file = journal.join("journal.db");
    let whole = fs::read(&file).unwrap();
    let mut refused = 0;
    let mut random = Random(10);
    for (at, bit) in header_flips(whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        refused += u32::from(try_altered(&journal, &bytes, &right, &format!("bit {bit} of {at}"), false));
    }
    for number in 0..5_000 {
        let mut bytes = whole.clone();
        let what = alter(&mut bytes, &mut random);
        refused += u32::from(try_altered(&journal, &bytes, &right, &what, number % 25 == 0));
    }
    let tried = 5_000 + u32::try_from(header_flips(whole.len()).count()).unwrap();
    println!("{tried} altered files: {refused} refused, {} read right", tried - refused);
    // Much of the file is free space, and a change there is none.
    assert!(tried == 5_800 && (1_001..tried).contains(&refused), "{refused} of {tried} refused");
    fs::write(&file, &whole).unwrap();
    assert_eq!(content(&JournalReader::open(&journal).unwrap()), right);
}

fn try_altered(journal: &Path, bytes: &[u8], right: &Content, what: &str, append: bool) -> bool {
    put(journal, bytes, None);
    let refused = JournalReader::open(journal).map_or(true, |reader| compare(&read(&reader), right, what));
    if append {
        append_to(journal, right, what);
    }
    refused
}

/// Going on with a damaged run is refused, or what was there before stays right.
fn append_to(journal: &Path, right: &Content, what: &str) {
    let Ok(store) = Store::open(journal) else { return };
    if let Ok(lease) = store.lease(&id(RUNS[2])) {
        let _ = lease.append(vec![draft(13)], Durability::Now).and_then(|ticket| ticket.wait());
    }
    if let Ok(mut all) = events(store.reader(), RUNS[2]) {
        all.truncate(12);
        assert_eq!(all, right.events[2], "read wrong after appending: {what}");
    }
}

#[test]
fn an_altered_log_is_refused_or_read_right_up_to_its_last_transactions() {
    let folder = Folder::new("damaged-log");
    let store = Store::open(&folder.journal()).unwrap();
    write(&store);
    let right = content(store.reader());
    let log = fs::read(folder.journal().join("journal.db-wal")).unwrap();
    let file = fs::read(folder.journal().join("journal.db")).unwrap();
    // As if the process had been killed here.
    let killed = Folder::new("killed");
    let journal = killed.journal();
    fs::create_dir(&journal).unwrap();
    let mut random = Random(11);
    let mut refused = 0;
    for number in 0..1_000 {
        let mut bytes = log.clone();
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        bytes[at] ^= 1 << random.below(8);
        put(&journal, &file, Some(&bytes));
        let opened = if number % 2 == 0 {
            Store::open(&journal).map(|store| store.reader().clone())
        } else {
            JournalReader::open(&journal)
        };
        let Ok(reader) = opened else {
            refused += 1;
            continue;
        };
        // What is read is the journal as it was, or as it was one or two commits before.
        let parts = read(&reader);
        let last = &right.events[2];
        let found = parts.events[2].as_ref().unwrap();
        assert!(found.len() >= last.len() - 2 && last.starts_with(found), "{} at {at}", found.len());
        assert_eq!(parts.events[0].as_ref(), Ok(&right.events[0]));
        assert_eq!(parts.values[0].as_ref(), Ok(&right.values[0]));
    }
    println!("1,000 altered logs: {refused} refused, {} read right", 1_000 - refused);
    assert!((751..1_000).contains(&refused), "{refused} of 1,000 refused");
}

/// The length of a log without the room behind it.
fn end_of_log(log: &[u8]) -> usize {
    let (header, frame) = (32, 24 + 4096);
    let end = log.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    header + (end - header).div_ceil(frame) * frame
}

/// What was written and not synced can be torn by a power loss, in any order: such a log is read up to there. What was
/// synced before it stays protected.
#[test]
fn a_log_that_a_power_loss_tore_is_read_up_to_there() {
    let folder = Folder::new("torn-log");
    let hour = std::time::Duration::from_hours(1);
    let options = StoreOptions { later: hour, ..StoreOptions::default() };
    let store = Store::open_with(&folder.journal(), options).unwrap();
    write(&store);
    let lease = store.lease(&id(RUNS[2])).unwrap();
    let log_path = folder.journal().join("journal.db-wal");
    let synced = end_of_log(&fs::read(&log_path).unwrap());
    for n in 13..=20 {
        lease.append(vec![draft(n)], Durability::Written).unwrap();
        lease.wait_written(n).unwrap();
    }
    let mut log = fs::read(&log_path).unwrap();
    log.truncate(end_of_log(&log));
    let file = fs::read(folder.journal().join("journal.db")).unwrap();
    let torn = Folder::new("torn");
    let journal = torn.journal();
    fs::create_dir(&journal).unwrap();
    let mut random = Random(13);
    let (mut refused, mut lost) = (0, 0);
    for _ in 0..400 {
        let mut bytes = log.clone();
        let at = usize::try_from(random.below(log.len() as u64)).unwrap();
        // A sector that did not reach the disk.
        let sector = at - at % 512;
        let end = (sector + 512).min(bytes.len());
        bytes[sector..end].iter_mut().for_each(|byte| *byte = !*byte);
        put(&journal, &file, Some(&bytes));
        let reader = match JournalReader::open(&journal) {
            Err(error) => {
                assert!(sector < synced, "{at}: {error}");
                refused += 1;
                continue;
            }
            reader => reader.unwrap(),
        };
        let found = events(&reader, RUNS[2]).unwrap();
        assert!(found.len() >= 10 && found.iter().zip(1..).all(|(record, n)| is_draft(record, n)), "{at}");
        lost += u64::from(sector >= synced && found.len() < 20);
    }
    println!("400 torn logs: {refused} refused, {lost} read up to the tear");
    assert!(refused > 100 && lost > 20, "{refused} refused, {lost} read up to the tear");
}

#[test]
fn a_log_that_is_cut_is_an_earlier_state() {
    let folder = Folder::new("cut-log");
    let store = Store::open(&folder.journal()).unwrap();
    write(&store);
    let right = content(store.reader());
    let log = fs::read(folder.journal().join("journal.db-wal")).unwrap();
    let file = fs::read(folder.journal().join("journal.db")).unwrap();
    let killed = Folder::new("cut");
    let journal = killed.journal();
    fs::create_dir(&journal).unwrap();
    let mut random = Random(12);
    let (mut read, mut earlier) = (0, 0);
    for _ in 0..200 {
        let length = usize::try_from(random.below(log.len() as u64)).unwrap();
        put(&journal, &file, Some(&log[..length]));
        let reader = JournalReader::open(&journal).unwrap();
        for info in reader.runs().unwrap() {
            let run = RUNS.iter().position(|run| *run == info.id.as_str()).unwrap();
            let found = events(&reader, RUNS[run]).unwrap();
            assert!(right.events[run].starts_with(&found));
            read += 1;
            earlier += u32::from(found.len() < right.events[run].len());
        }
    }
    println!("200 logs that were cut: {read} runs read, {earlier} of them an earlier state");
    assert!(read > 100 && earlier > 50, "{read} runs read, {earlier} of them an earlier state");
}

/// Changes a journal as only a person with a tool could.
fn tamper(journal: &Path, statement: &str) {
    let connection = rusqlite::Connection::open(journal.join("journal.db")).unwrap();
    connection.execute_batch(statement).unwrap();
}

#[test]
fn events_that_were_altered_removed_or_moved_are_named() {
    // The id of an event is the number of its run, 40 bits, and its own number.
    let second = |seq: u64| (2 << 40) + seq;
    let altered = "was altered, or does not follow the one before";
    let cases = [
        (format!("UPDATE event SET payload = '{{}}' WHERE id = {}", second(5)), 5, altered),
        (format!("UPDATE event SET kind = 'ended' WHERE id = {}", second(1)), 1, altered),
        (format!("UPDATE event SET place = place || '0' WHERE id = {}", second(12)), 12, altered),
        (format!("UPDATE event SET time = '' WHERE id = {}", second(2)), 2, altered),
        (format!("UPDATE event SET kind = '', place = kind || place WHERE id = {}", second(3)), 3, altered),
        (format!("UPDATE event SET hash = x'00' WHERE id = {}", second(4)), 4, "cannot be read"),
        (format!("UPDATE event SET hash = zeroblob(32) WHERE id = {}", second(4)), 4, altered),
        (format!("DELETE FROM event WHERE id = {}", second(7)), 7, "is missing"),
        (format!("DELETE FROM event WHERE id = {}", second(12)), 12, "is missing"),
        (format!("DELETE FROM event WHERE id > {}", second(0)), 1, "is missing"),
        (
            format!(
                "UPDATE event SET id = 1 WHERE id = {0}; UPDATE event SET id = {0} WHERE id = {1}; \
                 UPDATE event SET id = {1} WHERE id = 1",
                second(8),
                second(9)
            ),
            8,
            altered,
        ),
        (
            format!(
                "DELETE FROM event WHERE id = {0}; UPDATE event SET id = {0} WHERE id = {1}",
                second(1),
                (1_u64 << 40) + 1
            ),
            1,
            altered,
        ),
    ];
    for (statement, seq, what) in cases {
        let folder = Folder::new("tamper");
        let store = Store::open(&folder.journal()).unwrap();
        write(&store);
        drop(store);
        tamper(&folder.journal(), &statement);
        let reader = JournalReader::open(&folder.journal()).unwrap();
        let error = events(&reader, "a2").unwrap_err();
        let expected = format!("the journal is damaged: event {seq} of run `a2` {what}");
        assert_eq!(error.to_string(), expected, "{statement}");
    }
}

#[test]
fn rows_of_runs_that_were_altered_or_removed_are_noticed() {
    let altered = "the journal is damaged: the row of run `a2` was altered";
    let cases = [
        ("UPDATE run SET status = 'completed' WHERE number = 2", altered),
        ("UPDATE run SET name = '' WHERE number = 2", altered),
        ("UPDATE run SET events = 11 WHERE number = 2", altered),
        ("UPDATE run SET head = zeroblob(32) WHERE number = 2", altered),
        ("UPDATE run SET number = 4 WHERE number = 2", altered),
        ("DELETE FROM run WHERE number = 2", "the journal is damaged: 2 of 3 runs are there"),
        ("DELETE FROM run WHERE number = 3", "the journal is damaged: 2 of 3 runs are there"),
        ("UPDATE meta SET value = 2", "the journal is damaged: 3 of 2 runs are there"),
    ];
    for (statement, expected) in cases {
        let folder = Folder::new("tamper-run");
        let store = Store::open(&folder.journal()).unwrap();
        write(&store);
        drop(store);
        tamper(&folder.journal(), statement);
        let reader = JournalReader::open(&folder.journal()).unwrap();
        assert_eq!(reader.runs().unwrap_err().to_string(), expected, "{statement}");
        assert_eq!(reader.find("b").unwrap_err().to_string(), expected, "{statement}");
        assert_eq!(reader.run(&id("none")).unwrap_err().to_string(), expected, "{statement}");
    }
}

#[test]
fn a_value_that_was_altered_is_noticed() {
    let folder = Folder::new("tamper-value");
    let store = Store::open(&folder.journal()).unwrap();
    let small = store.put_text(VALUES[0]).unwrap();
    let large = store.put_value(vec![1; 2 << 20]).unwrap();
    drop(store);
    tamper(&folder.journal(), "UPDATE value SET data = x'00'");
    let name = large.to_string();
    let file = folder.journal().join("values").join(&name[..2]).join(&name);
    let mut bytes = fs::read(&file).unwrap();
    bytes[1 << 20] = 0;
    fs::write(&file, bytes).unwrap();
    let reader = JournalReader::open(&folder.journal()).unwrap();
    for hash in [small, large] {
        assert_eq!(reader.value(&hash).unwrap_err(), StoreError::DamagedValue { hash });
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(reader.value(&large).unwrap_err(), StoreError::NoSuchValue { hash: large });
}

#[test]
fn what_is_no_journal_of_ours_is_refused() {
    let cases = [
        ("PRAGMA user_version = 7", "written by a newer threadline: version 7, this one knows 2"),
        ("PRAGMA user_version = 0", "`FILE` is not a journal"),
        ("PRAGMA application_id = 0", "`FILE` is not a journal"),
        ("CREATE TABLE extra (x)", "the journal is damaged: its tables are not those of a journal"),
        ("PRAGMA journal_mode = delete", "the journal is damaged: its mode is `delete`"),
    ];
    for (statement, expected) in cases {
        let folder = Folder::new("foreign");
        drop(Store::open(&folder.journal()).unwrap());
        tamper(&folder.journal(), statement);
        let file = folder.journal().join("journal.db");
        let expected = expected.replace("FILE", file.to_str().unwrap());
        assert_eq!(Store::open(&folder.journal()).err().unwrap().to_string(), expected, "{statement}");
        assert_eq!(
            JournalReader::open(&folder.journal()).err().unwrap().to_string(),
            expected,
            "{statement}"
        );
    }

    for text in
        ["", "not a database, but a text that is as long as the header of one would be, or longer still"]
    {
        let folder = Folder::new("text");
        fs::create_dir(folder.journal()).unwrap();
        let file = folder.journal().join("journal.db");
        fs::write(&file, text).unwrap();
        let expected = StoreError::NotAJournal { file: file.clone() };
        assert_eq!(Store::open(&folder.journal()).err().as_ref(), Some(&expected), "{text:?}");
        assert_eq!(JournalReader::open(&folder.journal()).err().as_ref(), Some(&expected), "{text:?}");
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
}

#[test]
fn reading_creates_nothing() {
    let folder = Folder::new("nothing");
    let missing = StoreError::NoJournal { folder: folder.journal() };
    assert_eq!(JournalReader::open(&folder.journal()).err(), Some(missing.clone()));
    assert!(!folder.journal().exists());
    fs::create_dir(folder.journal()).unwrap();
    assert_eq!(JournalReader::open(&folder.journal()).err(), Some(missing));
    assert_eq!(fs::read_dir(folder.journal()).unwrap().count(), 0);
}

#[test]
fn a_log_without_its_journal_is_not_taken_into_a_new_one() {
    let folder = Folder::new("orphan");
    let store = Store::open(&folder.journal()).unwrap();
    write(&store);
    let log = fs::read(folder.journal().join("journal.db-wal")).unwrap();
    drop(store);
    fs::remove_file(folder.journal().join("journal.db")).unwrap();
    fs::write(folder.journal().join("journal.db-wal"), log).unwrap();
    assert!(matches!(Store::open(&folder.journal()), Err(StoreError::Damaged { .. })));
    assert!(matches!(JournalReader::open(&folder.journal()), Err(StoreError::Damaged { .. })));
}
