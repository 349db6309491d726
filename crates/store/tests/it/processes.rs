//! Several processes at one journal, and processes that are killed. A test runs itself again in another role.

#![expect(clippy::unwrap_used, reason = "a process that goes wrong fails the test")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixture::{Folder, draft, events, id, is_draft, new_run};
use crate::random::Random;
use threadline_store::{Durability, Hash, JournalReader, Store, StoreError, StoreOptions};

/// What a test gives to itself when it runs again as another process.
const ROLE: &str = "THREADLINE_STORE_TEST_ROLE";

/// The role of this process, if it is not the first.
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// This test program again, for one test, in a role.
fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("processes::{test}"), "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Ends a process the hard way.
fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Lets a process that waits in [`wait_for_start`] go on.
fn start(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
}

fn wait_for_start() {
    say("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Answers go to the first process in lines of their own, which the test harness does not write.
fn say(answer: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n@{answer}").unwrap();
    out.flush().unwrap();
}

fn answers(child: &mut Child) -> Answers {
    Answers(BufReader::new(child.stdout.take().unwrap()))
}

struct Answers(BufReader<ChildStdout>);

impl Iterator for Answers {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            // The last line of a killed process may be cut.
            if let Some(answer) = line.strip_prefix('@').and_then(|line| line.strip_suffix('\n')) {
                return Some(answer.to_owned());
            }
            line.clear();
        }
        None
    }
}

#[test]
fn of_two_processes_that_want_a_run_one_gets_it() {
    if let Some(folder) = role() {
        return want_the_run(Path::new(&folder));
    }
    let shared = Folder::new("races");
    let (mut races, mut named) = (0, 0);
    for race in 0..50 {
        // In every other race the journal, too, is new.
        let own = Folder::new("race");
        let folder = if race % 2 == 0 { &own } else { &shared };
        let mut command =
            again("of_two_processes_that_want_a_run_one_gets_it", folder.journal().to_str().unwrap());
        let mut children: Vec<Child> = (0..2).map(|_| command.spawn().unwrap()).collect();
        let mut heard: Vec<Answers> = children.iter_mut().map(answers).collect();
        for answers in &mut heard {
            assert_eq!(answers.next().unwrap(), "ready");
        }
        children.iter_mut().for_each(start);
        let said: Vec<String> = heard.iter_mut().map(|answers| answers.next().unwrap()).collect();
        let winner = said.iter().position(|answer| answer == "won").unwrap();
        let busy = format!("busy {}", children[winner].id());
        assert!(said[1 - winner] == busy || said[1 - winner] == "busy", "{said:?}");
        races += 1;
        named += u32::from(said[1 - winner] == busy);
        // The winner is killed, and that does not block the next race.
        children.iter_mut().for_each(kill);
    }
    println!("{races} races of two processes, each with one winner; {named} losers knew who won");
    assert!(races == 50 && named > 0, "{races} races, {named} losers knew who won");
}

fn want_the_run(folder: &Path) {
    wait_for_start();
    let store = Store::open(folder).unwrap();
    let lease = match store.create_run(new_run("r1")) {
        Err(StoreError::RunExists { .. }) => store.lease(&id("r1")),
        other => other,
    };
    match lease {
        Ok(_) => say("won"),
        Err(StoreError::Busy { pid: Some(pid), .. }) => say(&format!("busy {pid}")),
        Err(StoreError::Busy { pid: None, .. }) => say("busy"),
        Err(error) => say(&error.to_string()),
    }
    // Until the first process ends it.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn of_many_threads_that_want_a_run_one_gets_it() {
    let folder = Folder::new("thread-races");
    drop(Store::open(&folder.journal()).unwrap().create_run(new_run("r1")).unwrap());
    let stores: Vec<Store> = (0..4).map(|_| Store::open(&folder.journal()).unwrap()).collect();
    let next = std::sync::Barrier::new(stores.len());
    for _ in 0..200 {
        let won: usize = std::thread::scope(|scope| {
            let race = |store: &Store| {
                next.wait();
                let lease = store.lease(&id("r1"));
                // Nobody gives it back before everybody has asked.
                next.wait();
                usize::from(lease.is_ok())
            };
            let threads: Vec<_> = stores.iter().map(|store| scope.spawn(move || race(store))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn a_run_that_is_given_back_has_one_driver_at_a_time() {
    let folder = Folder::new("hand-over");
    drop(Store::open(&folder.journal()).unwrap().create_run(new_run("r1")).unwrap());
    let stores: Vec<Store> = (0..4).map(|_| Store::open(&folder.journal()).unwrap()).collect();
    let drivers = AtomicUsize::new(0);
    let drive = |store: &Store| {
        let mut driven = 0;
        while driven < 200 {
            match store.lease(&id("r1")) {
                Ok(_lease) => {
                    assert_eq!(drivers.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    drivers.fetch_sub(1, Ordering::SeqCst);
                    driven += 1;
                }
                Err(error) => assert!(matches!(error, StoreError::Busy { .. }), "{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| drive(store));
        }
    });
}

#[test]
fn a_journal_is_opened_and_closed_while_others_write() {
    let folder = Folder::new("come-and-go");
    std::thread::scope(|scope| {
        for run in ["r1", "r2", "r3", "r4"] {
            let journal = folder.journal();
            scope.spawn(move || {
                for round in 0..25 {
                    let store = Store::open(&journal).unwrap();
                    let lease = match round {
                        0 => store.create_run(new_run(run)).unwrap(),
                        _ => store.lease(&id(run)).unwrap(),
                    };
                    for n in 1..=4 {
                        lease.append(vec![draft(4 * round + n)], Durability::Now).unwrap().wait().unwrap();
                    }
                    drop(lease);
                    drop(store);
                    let found = events(&JournalReader::open(&journal).unwrap(), run).unwrap();
                    assert!(found.iter().zip(1..).all(|(record, n)| is_draft(record, n)));
                    assert_eq!(found.len() as u64, 4 * round + 4);
                }
            });
        }
    });
}

/// The folder of a store is its own until the store is dropped, whoever else opens and closes the journal meanwhile. No
/// name is given twice: who removes a folder removes its lock by name, which must not be that of another by then.
#[test]
fn stores_that_come_and_go_keep_their_folders() {
    let folder = Folder::new("folders-of-processes");
    let journal = folder.journal();
    let rounds = if std::env::var_os("THREADLINE_LONG").is_some() { 500 } else { 50 };
    let names = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let store = Store::open(&journal).unwrap();
                    let mine = store.spool_folder();
                    assert!(names.lock().unwrap().insert(mine.clone()), "{} a second time", mine.display());
                    std::fs::write(mine.join("output"), "x").unwrap();
                    std::thread::yield_now();
                    assert_eq!(std::fs::read(mine.join("output")).unwrap(), b"x");
                    assert!(mine.join("lock").exists());
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(journal.join("spool")).unwrap().count(), 0);
}

#[test]
fn several_processes_share_a_journal_and_readers_see_whole_runs() {
    if let Some(role) = role() {
        let (run, folder) = role.split_once('@').unwrap();
        return write_a_run(Path::new(folder), run);
    }
    let folder = Folder::new("share");
    let journal = folder.journal();
    let runs = ["r1", "r2", "r3"];
    let mut children: Vec<Child> = runs
        .iter()
        .map(|run| {
            let role = format!("{run}@{}", journal.display());
            again("several_processes_share_a_journal_and_readers_see_whole_runs", &role).spawn().unwrap()
        })
        .collect();
    let mut heard: Vec<Answers> = children.iter_mut().map(answers).collect();
    for answers in &mut heard {
        assert_eq!(answers.next().unwrap(), "ready");
    }
    children.iter_mut().for_each(start);
    let reader = JournalReader::open(&journal).unwrap();
    let mut looks = 0;
    loop {
        let known = reader.runs().unwrap();
        for info in &known {
            let all = events(&reader, info.id.as_str()).unwrap();
            assert!(all.len() as u64 >= info.events);
            assert!(all.iter().zip(1..).all(|(record, n)| is_draft(record, n)));
        }
        looks += 1;
        for child in &mut children {
            assert!(child.try_wait().unwrap().is_none_or(|status| status.success()));
        }
        if known.len() == 3 && known.iter().all(|info| info.events == 300) {
            break;
        }
    }
    assert!(looks > 1);
    for (child, answers) in children.iter_mut().zip(&mut heard) {
        assert_eq!(answers.next().unwrap(), "written");
        assert!(child.wait().unwrap().success());
    }
}

fn write_a_run(folder: &Path, run: &str) {
    let store = Store::open(folder).unwrap();
    wait_for_start();
    let lease = store.create_run(new_run(run)).unwrap();
    for n in 1..=300 {
        let ticket = lease.append(vec![draft(n)], Durability::Now).unwrap();
        if n % 3 == 0 {
            ticket.wait().unwrap();
        }
    }
    drop(lease);
    store.close().unwrap();
    say("written");
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    if let Some(folder) = role() {
        return write_for_ever(Path::new(&folder));
    }
    let mut random = Random(7);
    let mut kept = 0;
    for _ in 0..5 {
        let folder = Folder::new("kill");
        let mut known = 0;
        for _ in 0..12 {
            known = kill_a_writer(&folder.journal(), known, &mut random);
        }
        kept += known;
        drop(Store::open(&folder.journal()).unwrap());
        let spool = folder.journal().join("spool");
        assert!(!spool.exists() || std::fs::read_dir(spool).unwrap().next().is_none());
    }
    assert!(kept > 600, "{kept} events after 60 kills");
}

/// Starts a writer on a journal of `known` events, kills it, and looks at what it left. Returns how many events there
/// are.
fn kill_a_writer(journal: &Path, known: u64, random: &mut Random) -> u64 {
    let test = "a_killed_writer_loses_nothing_that_was_acknowledged";
    let mut child = again(test, journal.to_str().unwrap()).spawn().unwrap();
    let mut heard = answers(&mut child);
    let mut acknowledged = None;
    for _ in 0..random.below(40) {
        acknowledged = heard.next();
    }
    for _ in 0..random.below(50_000) {
        std::hint::spin_loop();
    }
    kill(&mut child);
    let acknowledged = heard.last().or(acknowledged).map_or(known, |answer| answer.parse().unwrap());

    let reader = match JournalReader::open(journal) {
        Err(StoreError::NoJournal { .. }) if acknowledged == 0 => return 0,
        reader => reader.unwrap(),
    };
    if reader.runs().unwrap().is_empty() {
        assert_eq!(acknowledged, 0);
        return 0;
    }
    let all = events(&reader, "r1").unwrap();
    assert!(all.len() as u64 >= acknowledged, "{} events of {acknowledged}", all.len());
    for (record, n) in all.iter().zip(1..) {
        match record.payload.parse::<Hash>() {
            Ok(hash) if n > known => assert_eq!(reader.value(&hash).unwrap(), value(n)),
            Ok(_) => {}
            Err(_) => assert!(is_draft(record, n)),
        }
    }
    all.len() as u64
}

/// A value for event `n`: mostly small, sometimes a file.
fn value(n: u64) -> Vec<u8> {
    let mut value = vec![b'x'; if n.is_multiple_of(50) { (1 << 20) + 1 } else { 100 }];
    value.extend(n.to_le_bytes());
    value
}

fn write_for_ever(folder: &Path) {
    let store = Store::open_with(folder, StoreOptions { group: 8, ..StoreOptions::default() }).unwrap();
    let lease = match store.create_run(new_run("r1")) {
        Err(StoreError::RunExists { .. }) => store.lease(&id("r1")).unwrap(),
        created => created.unwrap(),
    };
    let mut n = lease.next_seq();
    loop {
        for _ in 0..3 {
            lease.append(vec![draft_or_value(&store, n)], Durability::Later).unwrap();
            n += 1;
        }
        lease.append(vec![draft_or_value(&store, n)], Durability::Written).unwrap();
        lease.wait_written(n).unwrap();
        say(&n.to_string());
        n += 1;
        lease.append(vec![draft_or_value(&store, n)], Durability::Now).unwrap().wait().unwrap();
        say(&n.to_string());
        n += 1;
    }
}

fn draft_or_value(store: &Store, n: u64) -> threadline_store::EventDraft {
    if n.is_multiple_of(5) {
        return draft(n).with(store.put_value(value(n)).unwrap().to_string());
    }
    draft(n)
}

#[test]
fn a_file_that_cannot_grow_is_a_named_error_and_opening_again_works() {
    if let Some(folder) = role() {
        return write_until_it_fails(Path::new(&folder));
    }
    let folder = Folder::new("limit");
    let journal = folder.journal();
    // The shell limits the size of files; the signal that comes with it is ignored, so that writing fails instead.
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"trap '' XFSZ; ulimit -f 400; exec "$@""#, "sh"]);
    let this =
        again("a_file_that_cannot_grow_is_a_named_error_and_opening_again_works", journal.to_str().unwrap());
    limited.arg(this.get_program()).args(this.get_args());
    limited.env(ROLE, journal.to_str().unwrap()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = limited.spawn().unwrap();
    let said: Vec<String> = answers(&mut child).collect();
    assert!(child.wait().unwrap().success());
    let [acknowledged, error] = &said[..] else { panic!("{said:?}") };
    let named = ["the journal cannot be read or written: ", "the disk is full"];
    assert!(named.iter().any(|start| error.starts_with(start)), "{error}");
    let acknowledged: u64 = acknowledged.parse().unwrap();
    assert!(acknowledged > 0);

    let store = Store::open(&journal).unwrap();
    let lease = store.lease(&id("r1")).unwrap();
    let next = lease.next_seq();
    assert!(next > acknowledged);
    lease.append(vec![draft(next)], Durability::Now).unwrap().wait().unwrap();
    assert!(events(store.reader(), "r1").unwrap().iter().zip(1..).all(|(record, n)| is_draft(record, n)));
}

fn write_until_it_fails(folder: &Path) {
    let store = Store::open(folder).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let append = |n| lease.append(vec![draft(n)], Durability::Now).and_then(|ticket| ticket.wait());
    let (last, error) = (1..100_000).find_map(|n| append(n).err().map(|error| (n - 1, error))).unwrap();
    assert_eq!(append(last + 1).unwrap_err(), error);
    say(&last.to_string());
    say(&error.to_string());
}

#[test]
fn a_full_disk_is_a_named_error_and_opening_again_works() {
    let folder = Folder::new("full");
    let options = StoreOptions { max_pages: Some(30), ..StoreOptions::default() };
    let store = Store::open_with(&folder.journal(), options).unwrap();
    let lease = store.create_run(new_run("r1")).unwrap();
    let append = |n| lease.append(vec![draft(n)], Durability::Now).and_then(|ticket| ticket.wait());
    let failed = (1..10_000).find(|n| append(*n).is_err()).unwrap();
    assert_eq!(append(failed), Err(StoreError::Full));
    drop(lease);
    assert_eq!(store.close(), Err(StoreError::Full));

    let store = Store::open(&folder.journal()).unwrap();
    let lease = store.lease(&id("r1")).unwrap();
    assert_eq!(lease.next_seq(), failed);
    lease.append(vec![draft(failed)], Durability::Now).unwrap().wait().unwrap();
    assert_eq!(events(store.reader(), "r1").unwrap().len() as u64, failed);
}
