//! Runs that are kept elsewhere: made anew from their segments, fenced, and refused where what is kept does not fit.

#![expect(clippy::unwrap_used, reason = "a journal that cannot be made fails the test")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::fixture::{Folder, draft, events, id, is_draft, new_run};
use crate::random::Random;
use threadline_store::{
    Durability, EventDraft, Fault, Hash, Lease, MemoryDisk, MemorySegments, ReplicaNotice, ReplicaWatch,
    SegmentEnd, SegmentStore as _, Store, StoreError, StoreOptions, WritePoint,
};

fn watch(owner: &str) -> ReplicaWatch {
    ReplicaWatch { owner: owner.to_owned(), tell: Box::new(|_| {}), gives_up: Box::new(|| false) }
}

fn disk() -> Store {
    Store::in_memory(&MemoryDisk::new().unwrap(), StoreOptions::default()).unwrap()
}

/// A store that drives a new run `r1` and keeps it.
fn keeping(store: &Store, segments: &MemorySegments, owner: &str) -> Lease {
    let kept = Arc::new(segments.clone());
    store.replicate(&id("r1"), kept, SegmentEnd::none(), watch(owner)).unwrap();
    store.create_run(new_run("r1")).unwrap()
}

/// Takes a run over from whoever drove it.
fn taking_over(store: &Store, segments: &MemorySegments, owner: &str) -> Result<Lease, StoreError> {
    let end = store.import(&id("r1"), segments)?;
    store.replicate(&id("r1"), Arc::new(segments.clone()), end, watch(owner))?;
    store.lease(&id("r1"))
}

fn append(lease: &Lease, numbers: std::ops::RangeInclusive<u64>) -> Result<(), StoreError> {
    lease.append(numbers.map(draft).collect(), Durability::Now)?.wait()
}

#[test]
fn a_run_is_made_anew_from_its_segments() {
    let segments = MemorySegments::default();
    let first = disk();
    let lease = keeping(&first, &segments, "one");
    let value = first.put_text(&"v".repeat(5_000)).unwrap();
    let called = first.create_run(new_run("r1-called")).unwrap();
    let other = first.create_run(new_run("other")).unwrap();
    append(&lease, 1..=3).unwrap();
    append(&other, 1..=2).unwrap();
    append(&called, 1..=1).unwrap();
    let ended = EventDraft::new("run_ended", "9").status("completed");
    lease.append(vec![ended], Durability::Now).unwrap().wait().unwrap();

    let second = disk();
    let end = second.import(&id("r1"), &segments).unwrap();
    assert_eq!(end.number, u64::try_from(segments.numbers().unwrap().len()).unwrap());
    for run in ["r1", "r1-called"] {
        assert_eq!(events(second.reader(), run), events(first.reader(), run), "{run}");
        assert_eq!(second.reader().run(&id(run)).unwrap(), first.reader().run(&id(run)).unwrap());
    }
    assert_eq!(second.reader().run(&id("r1")).unwrap().status, "completed");
    assert_eq!(second.reader().value(&value).unwrap().len(), 5_000);
    // What belongs to other runs is not kept.
    assert!(matches!(second.reader().run(&id("other")), Err(StoreError::NoSuchRun { .. })));
    // Once more changes nothing.
    let commits = second.stats().commits;
    assert_eq!(second.import(&id("r1"), &segments).unwrap(), end);
    assert_eq!(second.stats().commits, commits);
}

#[test]
fn a_run_is_brought_up_to_date() {
    let segments = MemorySegments::default();
    let (first, second) = (disk(), disk());
    let lease = keeping(&first, &segments, "one");
    let mut last = 0;
    for size in [1, 2, 1, 30, 4] {
        append(&lease, last + 1..=last + size).unwrap();
        last += size;
        second.import(&id("r1"), &segments).unwrap();
        let seen = events(second.reader(), "r1").unwrap();
        assert_eq!(seen.len() as u64, last);
        assert!(seen.iter().zip(1..).all(|(event, n)| is_draft(event, n)));
    }
    assert_eq!(disk().import(&id("nobody"), &MemorySegments::default()), Ok(SegmentEnd::none()));
}

#[test]
fn of_two_processes_that_drive_a_run_one_goes_on() {
    let segments = MemorySegments::default();
    let (first, second) = (disk(), disk());
    let one = keeping(&first, &segments, "one");
    append(&one, 1..=3).unwrap();
    let two = taking_over(&second, &segments, "two").unwrap();
    // Nothing of it is written, and nobody is told that it is.
    let late = append(&one, 4..=4).unwrap_err();
    assert_eq!(late, StoreError::Fenced { run: id("r1"), by: Some("two".to_owned()) });
    assert_eq!(late.to_string(), "another coordinator, `two`, drives run `r1` now");
    assert_eq!(first.reader().run(&id("r1")).unwrap().events, 3);
    append(&two, 4..=6).unwrap();
    let third = disk();
    third.import(&id("r1"), &segments).unwrap();
    assert_eq!(events(third.reader(), "r1"), events(second.reader(), "r1"));
    drop(one);
    // The first one finds what happened, and may drive it again.
    drop(first.close());
}

#[test]
fn two_that_take_over_at_once_are_told_apart() {
    let segments = MemorySegments::default();
    append(&keeping(&disk(), &segments, "one"), 1..=2).unwrap();
    let stores = [disk(), disk()];
    let ends = stores.each_ref().map(|store| store.import(&id("r1"), &segments).unwrap());
    let taken: Vec<Result<(), StoreError>> = stores
        .iter()
        .zip(ends)
        .zip(["two", "three"])
        .map(|((store, end), owner)| {
            store.replicate(&id("r1"), Arc::new(segments.clone()), end, watch(owner))
        })
        .collect();
    assert_eq!(taken[0], Ok(()));
    assert_eq!(taken[1], Err(StoreError::Fenced { run: id("r1"), by: Some("two".to_owned()) }));
}

/// What becomes of segments, and the error that says so.
type Damage = (fn(&MemorySegments), &'static str);

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let damages: [Damage; 7] = [
        (|of| of.change(|all| drop(all.remove(&3))), "segment 3 is missing, and 4 is there"),
        (|of| of.change(|all| drop(all.remove(&1))), "segment 1 is missing, and 2 is there"),
        (
            |of| {
                of.change(|all| {
                    let three = all[&3].clone();
                    all.insert(4, three);
                });
            },
            "what is kept as segment 4 is segment 3",
        ),
        (|of| of.change(|all| all.get_mut(&2).unwrap()[40] ^= 1), "segment 2 was altered or cut off"),
        (|of| of.change(|all| all.get_mut(&5).unwrap().truncate(90)), "segment 5 was altered or cut off"),
        (|of| of.change(|all| *all.get_mut(&2).unwrap() = b"hello".to_vec()), "segment 2 is not a segment"),
        (
            |of| {
                let other = MemorySegments::default();
                let store = disk();
                let lease = keeping(&store, &other, "somebody");
                append(&lease, 1..=1).unwrap();
                let foreign = other.read(3).unwrap().unwrap();
                of.change(|all| drop(all.insert(3, foreign)));
            },
            "segment 3 does not follow segment 2",
        ),
    ];
    for (damage, what) in damages {
        let segments = MemorySegments::default();
        let lease_of = disk();
        let lease = keeping(&lease_of, &segments, "one");
        for number in 1..=4 {
            append(&lease, number..=number).unwrap();
        }
        damage(&segments);
        let error = disk().import(&id("r1"), &segments).unwrap_err();
        assert_eq!(error, StoreError::DamagedSegments { run: id("r1"), what: what.to_owned() });
    }
}

#[test]
fn a_store_that_knows_another_past_is_refused() {
    let (segments, older) = (MemorySegments::default(), MemorySegments::default());
    let store = disk();
    let lease = keeping(&store, &segments, "one");
    append(&lease, 1..=2).unwrap();
    segments.change(|all| older.change(|copy| copy.clone_from(all)));
    append(&lease, 3..=3).unwrap();
    drop(lease);
    // Somebody brought an older copy back: what is here would be lost.
    assert_eq!(store.import(&id("r1"), &older), Err(StoreError::Forked { run: id("r1"), seq: 3 }));
    // And somebody went on from it elsewhere.
    let elsewhere = disk();
    let lease = taking_over(&elsewhere, &older, "two").unwrap();
    lease.append(vec![draft(9)], Durability::Now).unwrap().wait().unwrap();
    assert_eq!(store.import(&id("r1"), &older), Err(StoreError::Forked { run: id("r1"), seq: 3 }));
}

#[test]
fn the_run_waits_while_nothing_can_be_kept() {
    let segments = MemorySegments::default();
    let store = disk();
    let (said, heard) = mpsc::channel();
    let given_up = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&given_up);
    let watch = ReplicaWatch {
        owner: "one".to_owned(),
        tell: Box::new(move |notice| drop(said.send(notice))),
        gives_up: Box::new(move || flag.load(Ordering::SeqCst)),
    };
    store.replicate(&id("r1"), Arc::new(segments.clone()), SegmentEnd::none(), watch).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    segments.set_unavailable(Some("no route"));
    let ticket = lease.append(vec![draft(1)], Durability::Now).unwrap();
    assert_eq!(heard.recv(), Ok(ReplicaNotice::Waits("no route".to_owned())));
    assert!(!ticket.is_done(), "nobody is told that it is on disk");
    assert_eq!(store.reader().run(&id("r1")).unwrap().events, 0, "nothing is here that is not there");
    segments.set_unavailable(None);
    ticket.wait().unwrap();
    assert_eq!(heard.recv(), Ok(ReplicaNotice::GoesOn));

    segments.set_unavailable(Some("still no route"));
    given_up.store(true, Ordering::SeqCst);
    let failed = append(&lease, 2..=2).unwrap_err();
    assert_eq!(failed.to_string(), "the blob store of run `r1` cannot be used: still no route");
    assert_eq!(store.reader().run(&id("r1")).unwrap().events, 1);
}

/// Segments whose creation seems to fail though it did not, as when an answer is lost.
struct LostAnswers(MemorySegments, AtomicBool);

impl threadline_store::SegmentStore for LostAnswers {
    fn create(
        &self,
        number: u64,
        bytes: &[u8],
    ) -> Result<threadline_store::SegmentCreation, threadline_store::SegmentError> {
        let made = self.0.create(number, bytes)?;
        if self.1.fetch_xor(true, Ordering::SeqCst) {
            return Ok(made);
        }
        Err(threadline_store::SegmentError::Unavailable("the answer was lost".to_owned()))
    }

    fn read(&self, number: u64) -> Result<Option<Vec<u8>>, threadline_store::SegmentError> {
        self.0.read(number)
    }

    fn numbers(&self) -> Result<Vec<u64>, threadline_store::SegmentError> {
        self.0.numbers()
    }

    fn keep_value(
        &self,
        hash: &Hash,
        length: u64,
        value: &mut dyn std::io::Read,
    ) -> Result<(), threadline_store::SegmentError> {
        self.0.keep_value(hash, length, value)
    }

    fn read_value(
        &self,
        hash: &Hash,
        to: &mut dyn std::io::Write,
    ) -> Result<(), threadline_store::SegmentError> {
        self.0.read_value(hash, to)
    }
}

#[test]
fn a_lost_answer_is_not_taken_for_somebody_else() {
    let segments = MemorySegments::default();
    let store = disk();
    let lost = Arc::new(LostAnswers(segments.clone(), AtomicBool::new(false)));
    store.replicate(&id("r1"), lost, SegmentEnd::none(), watch("one")).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    for number in 1..=5 {
        append(&lease, number..=number).unwrap();
    }
    let other = disk();
    other.import(&id("r1"), &segments).unwrap();
    assert_eq!(events(other.reader(), "r1"), events(store.reader(), "r1"));
}

#[test]
fn a_large_value_is_kept_beside_the_segments() {
    let (from, to) = (Folder::new("replica-from"), Folder::new("replica-to"));
    let segments = MemorySegments::default();
    let store = Store::open(&from.journal()).unwrap();
    let lease = keeping(&store, &segments, "one");
    let large = "large ".repeat(300_000);
    let hash = store.put_text(&large).unwrap();
    append(&lease, 1..=1).unwrap();
    let bytes: usize = {
        let mut sum = 0;
        segments.change(|all| sum = all.values().map(Vec::len).sum());
        sum
    };
    assert!(bytes < 10_000, "{bytes} bytes of segments");
    let other = Store::open(&to.journal()).unwrap();
    other.import(&id("r1"), &segments).unwrap();
    assert_eq!(other.reader().value(&hash).unwrap(), large.as_bytes());

    segments.change_values(|all| all.get_mut(&hash).unwrap()[7] ^= 1);
    let damaged = disk().import(&id("r1"), &segments).unwrap_err();
    assert!(damaged.to_string().ends_with(&format!("value `{hash}` was altered")), "{damaged}");
    segments.change_values(|all| drop(all.remove(&hash)));
    let missing = disk().import(&id("r1"), &segments).unwrap_err();
    assert!(missing.to_string().ends_with(&format!("value `{hash}` is missing")), "{missing}");
}

/// A process dies before and after each segment is kept, and before and after each local commit. Another machine, or the
/// same one, takes over: whatever was told is there, in order, and once.
#[test]
fn a_kill_at_every_border_of_a_segment_loses_nothing_that_was_told() {
    let mut tried = 0;
    for number in 2..=8 {
        for point in [WritePoint::Before(number), WritePoint::Shipped(number), WritePoint::After(number)] {
            for same_disk in [true, false] {
                die_at(point, same_disk);
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 42);
}

fn die_at(point: WritePoint, same_disk: bool) {
    let why = format!("{point:?}, same disk: {same_disk}");
    let (segments, first) = (MemorySegments::default(), MemoryDisk::new().unwrap());
    let options = StoreOptions {
        group: 1,
        later: Duration::ZERO,
        fault: Some(Box::new(move |at| if at == point { Fault::Crash } else { Fault::None })),
        max_pages: None,
    };
    let store = Store::in_memory(&first, options).unwrap();
    let lease = keeping(&store, &segments, "one");
    let mut told = 0;
    let mut random = Random(7);
    let crashed = loop {
        let size = 1 + random.below(3);
        match append(&lease, told + 1..=told + size) {
            Ok(()) => told += size,
            Err(error) => break error,
        }
    };
    assert_eq!(crashed, StoreError::Crashed, "{why}");
    drop(lease);
    let here = store.reader().run(&id("r1")).unwrap().events;
    drop(store);
    let second = if same_disk { first } else { MemoryDisk::new().unwrap() };
    let store = Store::in_memory(&second, StoreOptions::default()).unwrap();
    let lease = taking_over(&store, &segments, "two").unwrap();
    let found = lease.next_seq() - 1;
    assert!(found >= told && found >= here, "{why}: {told} told, {here} here, {found} found");
    // What was kept and not told is there as well: nobody acted upon it, and it is no other than it would have been.
    assert_eq!(found > told, !matches!(point, WritePoint::Before(_)), "{why}");
    append(&lease, found + 1..=found + 2).unwrap();
    let all = events(store.reader(), "r1").unwrap();
    assert!(all.iter().zip(1..).all(|(event, n)| event.seq == n && is_draft(event, n)), "{why}");
    assert_eq!(all.len() as u64, found + 2);
}
