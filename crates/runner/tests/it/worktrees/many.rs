//! Many items at once.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use threadline_runner::worktrees::{Merged, WorktreeError, Worktrees};

use super::fixture::{Fixture, commit, git};

const ITEMS: u64 = 200;
const THREADS: u64 = 16;

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Merged,
    Nothing,
    Conflict,
    Failed,
    FailedWithoutCommit,
}

/// An item commits a file of its own. Every seventh also changes the one line that others change, every tenth fails,
/// every twentieth does so before it has done anything, every ninth has nothing to do.
fn work(worktrees: &Worktrees, item: u64) -> Fate {
    let entered = worktrees.enter(item).unwrap();
    let name = entered.worktree.file_name().unwrap().to_str().unwrap();
    let number: u64 = name.strip_prefix("r1.").unwrap().parse().unwrap();
    assert!(number < THREADS, "worktrees are used again");
    assert_eq!(git(&entered.here, &["status", "--porcelain", "--ignored"]), "", "item {item} begins clean");
    if item.is_multiple_of(20) {
        assert_eq!(worktrees.abandon(item, true), Ok(None));
        return Fate::FailedWithoutCommit;
    }
    if item % 9 == 8 {
        assert_eq!(worktrees.merge(item), Ok(Merged::Nothing));
        return Fate::Nothing;
    }
    commit(&entered.here, &format!("of-{item}"), &format!("{item}\n"));
    if item.is_multiple_of(7) {
        commit(&entered.here, "shared", &format!("one\n{item}\nthree\n"));
    }
    fs::write(entered.here.join("built.ignored"), "").unwrap();
    if item.is_multiple_of(10) {
        assert_eq!(worktrees.abandon(item, true).unwrap(), Some(entered.branch));
        return Fate::Failed;
    }
    match worktrees.merge(item) {
        Ok(Merged::Commit(_)) => Fate::Merged,
        Err(WorktreeError::Conflict { from, files, .. }) => {
            assert_eq!(files, [Path::new("shared")]);
            assert_eq!(worktrees.abandon(item, true).unwrap().as_ref(), Some(&from));
            Fate::Conflict
        }
        other => panic!("item {item}: {other:?}"),
    }
}

#[test]
fn two_hundred_items_sixteen_at_once() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let clock = Instant::now();
    let next = AtomicU64::new(1);
    let fates = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let item = next.fetch_add(1, Ordering::Relaxed);
                    if item > ITEMS {
                        break;
                    }
                    let fate = work(&worktrees, item);
                    fates.lock().unwrap().push((item, fate));
                }
            });
        }
    });
    let closed = worktrees.close().unwrap();
    let elapsed = clock.elapsed();
    let mut fates = fates.into_inner().unwrap();
    fates.sort_by_key(|(item, _)| *item);
    let of = |wanted: &[Fate]| -> Vec<u64> {
        fates.iter().filter(|(_, fate)| wanted.contains(fate)).map(|(item, _)| *item).collect()
    };
    let (merged, conflicts) = (of(&[Fate::Merged]), of(&[Fate::Conflict]));
    println!(
        "{ITEMS} items, {THREADS} at once: {elapsed:?}; {} merged, {conflicts:?} in conflict",
        merged.len()
    );
    assert_eq!(fates.len() as u64, ITEMS);
    assert!(merged.len() > 100);

    // Every commit of an item that was merged is there, once, and none of any other.
    let log = git(&fixture.root, &["log", "--no-merges", "--format=%s", "main..threadline/r1"]);
    let mut found: Vec<&str> = log.lines().filter(|line| *line != "shared").collect();
    found.sort_unstable();
    let mut expected: Vec<String> = merged.iter().map(|item| format!("of-{item}")).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let counted = git(&fixture.root, &["rev-list", "--merges", "--count", "main..threadline/r1"]);
    assert_eq!(counted.trim(), merged.len().to_string());
    for item in &merged {
        assert_eq!(fixture.show(&format!("threadline/r1:of-{item}")), format!("{item}\n"));
    }

    // Items on the same line were merged where they saw what was there, and are in conflict where they did not.
    let contested =
        (1..=ITEMS).filter(|item| item.is_multiple_of(7) && !item.is_multiple_of(10) && item % 9 != 8);
    let mut settled: Vec<u64> = merged.iter().copied().filter(|item| item.is_multiple_of(7)).collect();
    settled.extend(&conflicts);
    settled.sort_unstable();
    assert_eq!(settled, contested.collect::<Vec<u64>>());

    // What was kept is exactly what failed with work, each with its work.
    let mut kept: Vec<String> = of(&[Fate::Conflict, Fate::Failed]).into_iter().map(name).collect();
    kept.sort_unstable();
    let mut listed = closed.kept.clone();
    listed.sort_unstable();
    assert_eq!(listed, kept);
    for item in of(&[Fate::Conflict, Fate::Failed]) {
        assert_eq!(fixture.show(&format!("{}:of-{item}", name(item))), format!("{item}\n"));
    }
    kept.insert(0, "threadline/r1".into());
    fixture.assert_only(&kept.iter().map(String::as_str).collect::<Vec<_>>());
    git(&fixture.root, &["fsck", "--no-dangling", "--strict"]);
}

fn name(item: u64) -> String {
    format!("threadline/r1.item-{item}")
}
