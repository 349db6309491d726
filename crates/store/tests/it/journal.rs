//! Appending and reading: order, numbers, groups, names, values, and what a failed write means.

#![expect(clippy::unwrap_used, reason = "a journal that cannot be made fails the test")]

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use crate::fixture::{Folder, draft, events, id, is_draft, new_run};
use threadline_store::{
    Durability, EventDraft, Fault, Hash, JournalReader, MemoryDisk, RunId, Store, StoreError, StoreOptions,
    WritePoint,
};

#[test]
fn events_come_back_in_order_with_numbers_from_one() {
    let folder = Folder::new("order");
    {
        let store = Store::open(&folder.journal()).unwrap();
        let lease = store.create_run(new_run("r1")).unwrap();
        assert_eq!(lease.next_seq(), 1);
        let mut n = 0;
        for size in [1, 3, 0, 700, 2] {
            let drafts = (n + 1..=n + size).map(draft).collect();
            let ticket = lease.append(drafts, Durability::Later).unwrap();
            assert_eq!((ticket.first(), ticket.last()), (n + 1, n + size));
            n += size;
        }
        lease.wait_synced(n).unwrap();
        assert_eq!(lease.next_seq(), 707);
    }
    let reader = JournalReader::open(&folder.journal()).unwrap();
    let all = events(&reader, "r1").unwrap();
    assert!(all.iter().zip(1..).all(|(record, n)| record.seq == n && is_draft(record, n)));
    assert_eq!(all.len(), 706);
    for from in [0, 1, 2, 256, 257, 706] {
        let part: Vec<_> = reader.read(&id("r1"), from).unwrap().map(Result::unwrap).collect();
        assert_eq!(part, all[usize::try_from(from.max(1)).unwrap() - 1..]);
    }
    assert_eq!(reader.read(&id("r1"), 707).unwrap().count(), 0);
    assert_eq!(reader.stored_event(&id("r1"), 300).unwrap(), all[299]);
    for seq in [0, 707] {
        let missing = StoreError::NoSuchEvent { run: id("r1"), seq };
        assert_eq!(reader.stored_event(&id("r1"), seq).unwrap_err(), missing);
    }
}

#[test]
fn a_run_goes_on_where_it_was_left() {
    let folder = Folder::new("resume");
    for round in 0..5 {
        let store = Store::open(&folder.journal()).unwrap();
        let lease = if round == 0 {
            store.create_run(new_run("r1")).unwrap()
        } else {
            store.lease(&id("r1")).unwrap()
        };
        assert_eq!(lease.next_seq(), 2 * round + 1);
        lease.append(vec![draft(2 * round + 1), draft(2 * round + 2)], Durability::Later).unwrap();
    }
    let all = events(&JournalReader::open(&folder.journal()).unwrap(), "r1").unwrap();
    assert!(all.iter().zip(1..=10).all(|(record, n)| is_draft(record, n)));
    assert_eq!(all.len(), 10);
}

#[test]
fn appends_that_wait_together_share_a_commit() {
    // The writer is held inside its first commit until the others have appended.
    let (entered, arrived) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let fault = move |point| {
        if point == WritePoint::Before(2) {
            entered.send(()).unwrap();
            released.recv().unwrap();
        }
        Fault::None
    };
    let folder = Folder::new("group");
    let options = StoreOptions { fault: Some(Box::new(fault)), ..StoreOptions::default() };
    let store = Store::open_with(&folder.journal(), options).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let mut tickets = vec![lease.append(vec![draft(1)], Durability::Now).unwrap()];
    arrived.recv().unwrap();
    tickets.extend((2..=100).map(|n| lease.append(vec![draft(n)], Durability::Now).unwrap()));
    assert!(tickets.iter().all(|ticket| !ticket.is_done()));
    release.send(()).unwrap();
    for ticket in &tickets {
        ticket.wait().unwrap();
        assert!(ticket.is_done());
    }
    let stats = store.stats();
    assert_eq!((stats.commits, stats.events, stats.largest_group), (3, 100, 99));
}

#[test]
fn what_has_time_rides_along_and_is_never_forgotten() {
    let disk = MemoryDisk::new().unwrap();
    let hour = std::time::Duration::from_hours(1);
    let store = Store::in_memory(&disk, StoreOptions { later: hour, ..StoreOptions::default() }).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let later = lease.append(vec![draft(1)], Durability::Later).unwrap();
    let now = lease.append(vec![draft(2)], Durability::Now).unwrap();
    now.wait().unwrap();
    assert!(later.is_done());
    assert_eq!(store.stats().commits, 2);

    // Whoever waits makes it urgent.
    lease.append(vec![draft(3)], Durability::Later).unwrap().wait().unwrap();
    lease.append(vec![draft(4)], Durability::Later).unwrap();
    lease.wait_synced(4).unwrap();
    lease.append(vec![draft(5)], Durability::Later).unwrap();
    drop(lease);
    store.lease(&id("r1")).unwrap().append(vec![draft(6)], Durability::Later).unwrap();
    store.close().unwrap();
    assert_eq!(
        events(Store::in_memory(&disk, StoreOptions::default()).unwrap().reader(), "r1").unwrap().len(),
        6
    );
}

#[test]
fn what_is_written_is_synced_when_somebody_waits_for_the_disk() {
    let folder = Folder::new("written");
    let hour = std::time::Duration::from_hours(1);
    let options = StoreOptions { later: hour, ..StoreOptions::default() };
    let store = Store::open_with(&folder.journal(), options).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let before = store.stats();
    let tickets: Vec<_> = (1..=5)
        .map(|n| {
            let ticket = lease.append(vec![draft(n)], Durability::Written).unwrap();
            lease.wait_written(n).unwrap();
            // Whoever reads the journal finds it.
            assert_eq!(
                events(&JournalReader::open(&folder.journal()).unwrap(), "r1").unwrap().len() as u64,
                n
            );
            ticket
        })
        .collect();
    assert!(tickets.iter().all(|ticket| !ticket.is_done()));
    let written = store.stats();
    assert_eq!((written.commits - before.commits, written.syncs - before.syncs), (5, 0));
    lease.wait_synced(3).unwrap();
    assert!(tickets.iter().all(threadline_store::Ticket::is_done));
    let synced = store.stats();
    assert_eq!((synced.commits - before.commits, synced.syncs - before.syncs), (5, 1));
    assert!(lease.wait_written(6).is_err());
}

/// Threads that wait for the disk and threads that wait until something is written do not keep each other waiting.
#[test]
fn writes_and_syncs_take_turns() {
    let folder = Folder::new("turns");
    let store = Store::open(&folder.journal()).unwrap();
    std::thread::scope(|scope| {
        for (run, durability) in
            [("r1", Durability::Now), ("r2", Durability::Written), ("r3", Durability::Later)]
        {
            let store = &store;
            scope.spawn(move || {
                let lease = store.create_run(new_run(run)).unwrap();
                for n in 1..=200 {
                    let ticket = lease.append(vec![draft(n)], durability).unwrap();
                    match durability {
                        Durability::Now => ticket.wait().unwrap(),
                        Durability::Written => lease.wait_written(n).unwrap(),
                        Durability::Later => lease.wait_patiently(n).unwrap(),
                    }
                }
            });
        }
    });
    for run in ["r1", "r2", "r3"] {
        assert_eq!(events(store.reader(), run).unwrap().len(), 200);
    }
}

#[test]
fn what_has_time_is_written_by_itself() {
    let folder = Folder::new("later");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let ticket = lease.append(vec![draft(1)], Durability::Later).unwrap();
    while !ticket.is_done() {
        std::thread::yield_now();
    }
    assert_eq!(events(store.reader(), "r1").unwrap().len(), 1);
}

#[test]
fn many_threads_append_to_runs_of_their_own() {
    let folder = Folder::new("threads");
    let store = Store::open(&folder.journal()).unwrap();
    std::thread::scope(|scope| {
        for run in 0..8 {
            let store = &store;
            scope.spawn(move || {
                let lease = store.create_run(new_run(&format!("r{run}"))).unwrap();
                for n in 1..=50 {
                    lease.append(vec![draft(n)], Durability::Now).unwrap().wait().unwrap();
                }
            });
        }
    });
    for run in 0..8 {
        let all = events(store.reader(), &format!("r{run}")).unwrap();
        assert!(all.iter().zip(1..=50).all(|(record, n)| is_draft(record, n)));
        assert_eq!(all.len(), 50);
    }
    assert_eq!(store.stats().events, 400);
}

#[test]
fn threads_that_share_a_lease_share_one_order() {
    let folder = Folder::new("shared-lease");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let names = ["left", "right"];
    std::thread::scope(|scope| {
        for name in names {
            let lease = &lease;
            scope.spawn(move || {
                for n in 0..200 {
                    let sync = if n % 3 == 0 { Durability::Now } else { Durability::Later };
                    let ticket = lease.append(vec![draft(n).at(name), draft(n + 1).at(name)], sync).unwrap();
                    assert_eq!(ticket.last(), ticket.first() + 1);
                    if n % 7 == 0 {
                        ticket.wait().unwrap();
                    }
                }
            });
        }
    });
    lease.wait_synced(800).unwrap();
    let all = events(store.reader(), "r1").unwrap();
    for name in names {
        let own = all.iter().filter(|record| record.address == name).map(|record| record.payload.clone());
        assert!(own.eq((0..200).flat_map(|n| [draft(n).payload, draft(n + 1).payload])));
    }
    assert!(all.chunks(2).all(|pair| pair[0].address == pair[1].address));
}

#[test]
fn the_row_of_a_run_follows_its_events() {
    let folder = Folder::new("row");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    assert_eq!(store.create_run(new_run("r1")).unwrap_err().to_string(), busy("r1"));
    let info = store.reader().run(&id("r1")).unwrap();
    assert_eq!((info.events, &*info.last_kind, &*info.status), (0, "", ""));
    assert_eq!((&*info.name, &*info.file), ("deploy", "flows/deploy.yaml"));
    let drafts = vec![EventDraft::new("run-started", "t").status("running"), EventDraft::new("ready", "t")];
    lease.append(drafts, Durability::Now).unwrap().wait().unwrap();
    let info = store.reader().run(&id("r1")).unwrap();
    assert_eq!((info.events, &*info.last_kind, &*info.status), (2, "ready", "running"));
    lease.append(vec![EventDraft::new("ended", "t").status("failed")], Durability::Later).unwrap();
    drop(lease);
    assert_eq!(store.create_run(new_run("r1")).unwrap_err(), StoreError::RunExists { run: id("r1") });
    let info = store.reader().run(&id("r1")).unwrap();
    assert_eq!((info.events, &*info.last_kind, &*info.status), (3, "ended", "failed"));
    // That an id was taken is no failed write.
    assert!(store.create_run(new_run("r2")).is_ok());
}

fn busy(run: &str) -> String {
    format!("process {} drives run `{run}`", std::process::id())
}

#[test]
fn runs_are_found_by_id_prefix_and_last() {
    let folder = Folder::new("find");
    let store = Store::open(&folder.journal()).unwrap();
    let find = |name: &str| store.reader().find(name).map(|info| info.id.to_string());
    assert_eq!(find("last").unwrap_err(), StoreError::NoSuchRun { name: "last".into() });
    for run in ["ab", "abc-1", "abc-2", "z9"] {
        let lease = store.create_run(new_run(run)).unwrap();
        lease.append(vec![draft(1)], Durability::Now).unwrap();
    }
    // One that was killed before its first event is found by its id alone.
    store.create_run(new_run("y0")).unwrap();
    assert_eq!(find("y0").unwrap(), "y0");
    for (name, found) in [("ab", "ab"), ("abc-1", "abc-1"), ("z", "z9"), ("last", "z9"), ("abc-2", "abc-2")] {
        assert_eq!(find(name).unwrap(), found);
    }
    let both = "`abc` is a prefix of 2 run ids: `abc-1`, `abc-2`";
    assert_eq!(find("abc").unwrap_err().to_string(), both);
    for name in ["x", "", "../ab", "AB", "%", "a%", "ab\0", "-"] {
        assert_eq!(find(name).unwrap_err(), StoreError::NoSuchRun { name: name.into() });
    }
    let all: Vec<_> = store.reader().runs().unwrap().into_iter().map(|info| info.id.to_string()).collect();
    assert_eq!(all, ["ab", "abc-1", "abc-2", "z9", "y0"]);
    assert_eq!(store.lease(&id("none")).unwrap_err(), StoreError::NoSuchRun { name: "none".into() });
}

#[test]
fn an_id_is_safe_as_the_name_of_a_file() {
    let long = "a".repeat(64);
    for text in ["a", "0", "a-b-1", "9-", &*long] {
        assert_eq!(RunId::new(text).unwrap().as_str(), text);
    }
    let too_long = "a".repeat(65);
    let bad = [
        "", "-", "-a", ".", "..", "a/b", "../x", "/etc", "a\\b", "A", "ä", "a b", "a.b", "a\0", "a\n", "last",
    ];
    for text in bad.into_iter().chain([&*too_long]) {
        assert!(matches!(RunId::new(text), Err(StoreError::BadRunId { .. })), "{text:?}");
    }
}

#[test]
fn everything_is_for_the_owner_only() {
    let folder = Folder::new("modes");
    let store = Store::open(&folder.journal()).unwrap();
    let _lease = store.create_run(new_run("r1")).unwrap();
    store.put_value(vec![7; 3 << 20]).unwrap();
    let mut spool = store.spool();
    spool.add(&vec![8; 3 << 20]).unwrap();
    let mut seen = 0;
    let mut folders = vec![folder.journal()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".gitignore" {
                continue;
            }
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    // Journal, two files beside it, two locks, a lease, a value, a spool, the names of values, and five folders.
    assert_eq!(seen, 14);
    assert_eq!(folder.journal().metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn values_are_stored_once_by_their_hash() {
    let folder = Folder::new("values");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let sizes = [0, 1, 1000, 1 << 20, (1 << 20) + 1, 5 << 20];
    let bytes = |size: usize| -> Vec<u8> { (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect() };
    for size in sizes {
        let hash = store.put_value(bytes(size)).unwrap();
        assert_eq!(hash, Hash::of(&bytes(size)));
        let mut spool = store.spool();
        for part in bytes(size).chunks(70_000) {
            spool.add(part).unwrap();
        }
        assert_eq!(spool.length(), size as u64);
        assert_eq!(spool.finish().unwrap(), hash);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        lease.append(vec![draft(1).with(hash.to_string())], Durability::Now).unwrap().wait().unwrap();
        // The event is on disk, so the value is.
        assert_eq!(JournalReader::open(&folder.journal()).unwrap().value(&hash).unwrap(), bytes(size));
    }
    let text = store.put_text("name: deploy\n").unwrap();
    lease.append(vec![draft(1)], Durability::Now).unwrap().wait().unwrap();
    assert_eq!(store.reader().value(&text).unwrap(), b"name: deploy\n");
    let none = Hash::of(b"nothing");
    assert_eq!(store.reader().value(&none).unwrap_err(), StoreError::NoSuchValue { hash: none });

    drop(store.spool());
    let mut spool = store.spool();
    spool.add(&bytes(2 << 20)).unwrap();
    // One file is the lock of this process, another names the values that it stored.
    assert_eq!(entries(&store.spool_folder()), 3);
    drop(spool);
    assert_eq!(entries(&store.spool_folder()), 2);
}

fn entries(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn what_a_dead_process_spooled_is_removed_and_what_is_written_stays() {
    let folder = Folder::new("left");
    let store = Store::open(&folder.journal()).unwrap();
    let mut spool = store.spool();
    spool.add(&vec![1; 2 << 20]).unwrap();
    let spools = folder.journal().join("spool");
    // Of a process that was killed, of one that was killed before it had its lock, and of an earlier version.
    for left in ["4711-0/lock", "4711-0/output-0", "4712-0"] {
        let path = spools.join(left);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "left").unwrap();
    }
    std::fs::create_dir(spools.join("4713-0")).unwrap();
    assert_eq!(entries(&spools), 4);
    let second = Store::open(&folder.journal()).unwrap();
    assert_ne!(store.spool_folder(), second.spool_folder());
    assert_eq!(entries(&spools), 2);
    let hash = spool.finish().unwrap();
    assert_eq!(second.reader().value(&hash).unwrap().len(), 2 << 20);
    drop((store, second));
    assert_eq!(entries(&spools), 0);
}

#[test]
fn a_failed_write_is_final_until_the_journal_is_opened_again() {
    let failures = [StoreError::Full, StoreError::Crashed, StoreError::Io { what: "short write".into() }];
    for failure in failures {
        for point in [WritePoint::Before(4), WritePoint::After(4)] {
            let disk = MemoryDisk::new().unwrap();
            let answer = failure.clone();
            let fault = move |now| match &answer {
                _ if now != point => Fault::None,
                StoreError::Crashed => Fault::Crash,
                other => Fault::Fail(other.clone()),
            };
            let options = StoreOptions { group: 1, fault: Some(Box::new(fault)), ..StoreOptions::default() };
            let store = Store::in_memory(&disk, options).unwrap();
            let lease = store.create_run(new_run("r1")).unwrap();
            // The first commit was the run.
            let answers: Vec<_> = (1..=5)
                .map(|n| lease.append(vec![draft(n)], Durability::Now).and_then(|ticket| ticket.wait()))
                .collect();
            let failed = || Err(failure.clone());
            assert_eq!(answers, [Ok(()), Ok(()), failed(), failed(), failed()]);
            assert_eq!(lease.append(vec![draft(6)], Durability::Later).map(|_| ()), failed());
            assert_eq!(lease.wait_synced(3), failed());
            assert_eq!(store.put_value(vec![1]).map(|_| ()), failed());
            assert_eq!(store.create_run(new_run("r2")).map(|_| ()), failed());
            drop(lease);
            assert_eq!(store.close(), failed());

            let written = if point == WritePoint::Before(4) { 2 } else { 3 };
            let store = Store::in_memory(&disk, StoreOptions::default()).unwrap();
            let lease = store.lease(&id("r1")).unwrap();
            assert_eq!(lease.next_seq(), written + 1);
            lease.append(vec![draft(written + 1)], Durability::Now).unwrap().wait().unwrap();
            let all = events(store.reader(), "r1").unwrap();
            assert!(all.iter().zip(1..).all(|(record, n)| is_draft(record, n)));
            assert_eq!(all.len() as u64, written + 1);
        }
    }
}

#[test]
fn a_writer_that_panics_leaves_nobody_waiting() {
    let disk = MemoryDisk::new().unwrap();
    let fault =
        |point| if point == WritePoint::Before(2) { panic!("a fault of a test") } else { Fault::None };
    let options = StoreOptions { fault: Some(Box::new(fault)), ..StoreOptions::default() };
    let store = Store::in_memory(&disk, options).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let ticket = lease.append(vec![draft(1)], Durability::Now).unwrap();
    assert_eq!(ticket.wait(), Err(StoreError::Crashed));
}

#[test]
fn a_store_that_was_closed_takes_nothing_more() {
    let store = Store::in_memory(&MemoryDisk::new().unwrap(), StoreOptions::default()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    store.close().unwrap();
    assert_eq!(lease.append(vec![draft(1)], Durability::Now).map(|_| ()), Err(StoreError::Closed));
}

#[test]
fn an_event_that_is_too_large_is_refused_and_nothing_else() {
    let store = Store::in_memory(&MemoryDisk::new().unwrap(), StoreOptions::default()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let large = draft(1).with("x".repeat(65 << 20));
    assert!(matches!(lease.append(vec![large], Durability::Now), Err(StoreError::TooLarge { .. })));
    lease.append(vec![draft(1)], Durability::Now).unwrap().wait().unwrap();
    assert_eq!(events(store.reader(), "r1").unwrap().len(), 1);
}

#[test]
fn the_log_does_not_grow_without_bound() {
    let folder = Folder::new("log");
    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let payload = "x".repeat(10_000);
    for n in 0..10_000 {
        lease.append(vec![draft(n).with(payload.clone())], Durability::Later).unwrap();
    }
    lease.append(vec![draft(1)], Durability::Now).unwrap().wait().unwrap();
    assert!(store.stats().checkpoints > 5);
    let log = folder.journal().join("journal.db-wal").metadata().unwrap().len();
    assert!(log < 40 << 20, "{log} bytes of log after 100 MB of events");
}

/// A sync that records a new length is slow, so the log seldom becomes longer; two stores make room for each other.
#[test]
fn the_log_is_made_longer_ahead() {
    let folder = Folder::new("room");
    let stores = [(); 2].map(|()| Store::open(&folder.journal()).unwrap());
    let leases =
        [(&stores[0], "r1"), (&stores[1], "r2")].map(|(store, run)| store.create_run(new_run(run)).unwrap());
    let length = || folder.journal().join("journal.db-wal").metadata().unwrap().len();
    let (mut last, mut grew) = (length(), 0);
    for n in 1..=200 {
        for lease in &leases {
            lease.append(vec![draft(n)], Durability::Now).unwrap().wait().unwrap();
            grew += u64::from(length() > last);
            last = length();
        }
    }
    // The first 64 KiB one by one, then twice as much each time.
    assert!(grew < 40, "the log of 400 transactions became longer {grew} times");
    for (store, run) in stores.iter().zip(["r1", "r2"]) {
        assert_eq!(events(store.reader(), run).unwrap().len(), 200);
    }
}

/// A run of six steps: goes on where the journal ends, and returns the steps that it ran.
fn drive(store: &Store) -> Result<Vec<String>, StoreError> {
    let lease = match store.create_run(new_run("r1")) {
        Err(StoreError::RunExists { .. }) => store.lease(&id("r1"))?,
        created => created?,
    };
    let before = events(store.reader(), "r1")?;
    let has =
        |kind: &str, place: &str| before.iter().any(|event| event.kind == kind && event.address == place);
    let mut ran = Vec::new();
    for step in (1..=6).map(|n| format!("step-{n}")).filter(|step| !has("finished", step)) {
        lease.append(vec![EventDraft::new("started", "t").at(&step)], Durability::Later)?;
        ran.push(step.clone());
        lease.append(vec![EventDraft::new("finished", "t").at(&step)], Durability::Now)?.wait()?;
    }
    if !has("ended", "") {
        lease.append(vec![EventDraft::new("ended", "t").status("completed")], Durability::Now)?.wait()?;
    }
    Ok(ran)
}

/// Options under which each append is a commit, with a crash at one point.
fn crash_at(crash: WritePoint) -> StoreOptions {
    let fault = move |point| if point == crash { Fault::Crash } else { Fault::None };
    StoreOptions { group: 1, fault: Some(Box::new(fault)), ..StoreOptions::default() }
}

#[test]
fn a_crash_at_any_write_runs_no_finished_step_again() {
    // A run, twelve events of steps, and the end.
    let points = (1..=14).flat_map(|commit| [WritePoint::Before(commit), WritePoint::After(commit)]);
    for point in points {
        let disk = MemoryDisk::new().unwrap();
        let folder = Folder::new("crash");
        check_crash(point, |options| Store::in_memory(&disk, options).unwrap());
        check_crash(point, |options| Store::open_with(&folder.journal(), options).unwrap());
    }
}

fn check_crash(point: WritePoint, open: impl Fn(StoreOptions) -> Store) {
    let store = open(crash_at(point));
    assert_eq!(drive(&store), Err(StoreError::Crashed), "{point:?}");
    drop(store);
    let store = open(StoreOptions::default());
    let left = store.reader().runs().unwrap();
    let finished = if left.is_empty() { Vec::new() } else { events(store.reader(), "r1").unwrap() };
    let finished = finished.iter().filter(|event| event.kind == "finished").count();
    assert_eq!(drive(&store).unwrap().len(), 6 - finished, "{point:?}");
    let all = events(store.reader(), "r1").unwrap();
    for step in (1..=6).map(|n| format!("step-{n}")) {
        let times = all.iter().filter(|event| event.kind == "finished" && event.address == step).count();
        assert_eq!(times, 1, "{point:?} {step}");
    }
    assert_eq!(store.reader().find("last").unwrap().status, "completed");
}
