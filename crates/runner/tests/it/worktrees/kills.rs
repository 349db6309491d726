//! A kill at any instant: whatever was done until then, the next process goes on, and nothing is lost or left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use threadline_runner::worktrees::{Merged, WorktreeError, Worktrees};

use super::fixture::{Fixture, Folder, closed, commit, git};

/// A git that changes something a number of times, and from then on fails at once: what comes to be is what a kill
/// leaves.
struct Mortal {
    folder: Folder,
    real: PathBuf,
}

impl Mortal {
    fn new() -> Self {
        let folder = Folder::new();
        let path = std::env::var_os("PATH").unwrap();
        let real = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.exists());
        let script = r#"#!/bin/sh
            read -r left < "$LEFT"
            [ "$left" -gt 0 ] || exit 137
            case " $* " in
            *' rev-parse '* | *' merge-base '* | *' for-each-ref '* | *' version '* | *' var '* | *' rev-list '*) ;;
            *' status '* | *' log '* | *' worktree list '* | *' merge-tree '* | *' commit-tree '*) ;;
            *) echo $((left - 1)) > "$LEFT" ;;
            esac
            exec "$REAL" "$@"
        "#;
        let file = folder.0.join("git");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, real: real.unwrap() }
    }

    /// The fixture has so many calls from now on.
    fn give(&self, fixture: &mut Fixture, calls: u64) {
        let left = fixture.root.with_file_name("left");
        fs::write(&left, calls.to_string()).unwrap();
        let mut path = self.folder.0.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        fixture.environment.set("PATH", path);
        fixture.environment.set("REAL", &self.real);
        fixture.environment.set("LEFT", left);
    }

    fn left(fixture: &Fixture) -> u64 {
        let left = fs::read_to_string(fixture.root.with_file_name("left")).unwrap();
        left.trim().parse().unwrap()
    }
}

/// A step of a run: when it is done it is recorded, and is not done again.
type Step = fn(&Worktrees) -> Result<(), WorktreeError>;

/// An item does its work where it is not done yet.
fn work(worktrees: &Worktrees, item: u64, file: &str, content: &str) -> Result<(), WorktreeError> {
    let here = worktrees.enter(item)?.here;
    if git(&here, &["log", "--format=%s", "main.."]).lines().all(|subject| subject != file) {
        commit(&here, file, content);
    }
    Ok(())
}

/// The run still has the worktree of an item, with what an earlier step did there.
fn in_flight(worktrees: &Worktrees, item: u64) -> Result<(), WorktreeError> {
    assert!(worktrees.enter(item)?.again, "item {item} is in flight");
    Ok(())
}

/// A run, and what it must leave.
struct Run {
    steps: &'static [Step],
    /// The subjects of the commits on the run's branch.
    merged: &'static [&'static str],
    kept: &'static [&'static str],
    /// What commits have, in the words of `git show`.
    content: &'static [(&'static str, &'static str)],
}

fn close(run: &Worktrees, commits: u64, kept: &[&str]) -> Result<(), WorktreeError> {
    let branch = (commits > 0).then_some("threadline/r1");
    run.close().map(|found| assert_eq!(found, closed(branch, commits, kept)))
}

/// Items that do well, one after the other in the same worktree, the last with nothing to do.
const MERGED: Run = Run {
    steps: &[
        |run| work(run, 1, "of-1", "1"),
        |run| in_flight(run, 1),
        |run| run.merge(1).map(|merged| assert!(matches!(merged, Merged::Commit(_)))),
        |run| work(run, 2, "of-2", "2"),
        |run| run.merge(2).map(|merged| assert!(matches!(merged, Merged::Commit(_)))),
        |run| run.enter(3).map(drop),
        |run| run.merge(3).map(|merged| assert_eq!(merged, Merged::Nothing)),
        |run| close(run, 4, &[]),
    ],
    merged: &["of-1", "of-2"],
    kept: &[],
    content: &[("threadline/r1:of-1", "1"), ("threadline/r1:of-2", "2")],
};

/// Two items on the same line.
const CONFLICT: Run = Run {
    steps: &[
        |run| work(run, 1, "shared", "one\n1\nthree\n"),
        |run| work(run, 2, "shared", "one\n2\nthree\n"),
        |run| run.merge(1).map(drop),
        |run| match run.merge(2) {
            Err(WorktreeError::Conflict { .. }) => Ok(()),
            other => other.map(|merged| panic!("no conflict: {merged:?}")),
        },
        |run| run.abandon(2, true).map(|kept| assert_eq!(kept.as_deref(), Some("threadline/r1.item-2"))),
        |run| close(run, 2, &["threadline/r1.item-2"]),
    ],
    merged: &["shared"],
    kept: &["threadline/r1.item-2"],
    content: &[
        ("threadline/r1:shared", "one\n1\nthree\n"),
        ("threadline/r1.item-2:shared", "one\n2\nthree\n"),
    ],
};

/// An item with work in no commit, and one that is tried again from the beginning.
const ABANDONED: Run = Run {
    steps: &[
        |run| work(run, 1, "of-1", "1"),
        |run| {
            let entered = run.enter(1)?;
            assert!(entered.again);
            fs::write(entered.here.join("late"), "late").unwrap();
            Ok(())
        },
        |run| match run.merge(1) {
            Err(WorktreeError::Uncommitted { .. }) => Ok(()),
            other => other.map(|merged| panic!("work in no commit was merged: {merged:?}")),
        },
        |run| run.abandon(1, true).map(|kept| assert_eq!(kept.as_deref(), Some("threadline/r1.item-1"))),
        |run| work(run, 2, "dropped", ""),
        |run| run.abandon(2, false).map(|kept| assert_eq!(kept, None)),
        |run| close(run, 0, &["threadline/r1.item-1"]),
    ],
    merged: &[],
    kept: &["threadline/r1.item-1"],
    content: &[("threadline/r1.item-1:of-1", "1"), ("threadline/r1.item-1:late", "late")],
};

impl Run {
    /// Does the steps that are not done, until git fails. What is done then.
    fn go_on(&self, fixture: &Fixture, done: usize) -> Result<(), (usize, WorktreeError)> {
        let worktrees = fixture.try_open().map_err(|error| (done, error))?;
        for (at, step) in self.steps.iter().enumerate().skip(done) {
            step(&worktrees).map_err(|error| (at, error))?;
        }
        Ok(())
    }

    fn assert_complete(&self, fixture: &Fixture) {
        let own = (!self.merged.is_empty()).then_some("threadline/r1");
        fixture.assert_only(&own.iter().chain(self.kept).copied().collect::<Vec<_>>());
        if let Some(own) = own {
            let log = git(&fixture.root, &["log", "--no-merges", "--format=%s", own, "^main"]);
            let mut log: Vec<&str> = log.lines().collect();
            log.sort_unstable();
            assert_eq!(log, self.merged, "each commit once");
        }
        for (what, content) in self.content {
            assert_eq!(fixture.show(what), *content);
        }
    }

    /// Kills the run after each of its changes.
    fn check(&self) {
        const PLENTY: u64 = 100_000;
        let mortal = Mortal::new();
        let fresh = Fixture::new();
        let mut fixture = fresh.copy();
        mortal.give(&mut fixture, PLENTY);
        self.go_on(&fixture, 0).unwrap();
        self.assert_complete(&fixture);
        let changes = PLENTY - Mortal::left(&fixture);
        assert!(changes > 10);
        for at in 0..changes {
            let mut fixture = fresh.copy();
            mortal.give(&mut fixture, at);
            let done = match self.go_on(&fixture, 0) {
                Err((done, WorktreeError::Git { .. })) => done,
                other => panic!("killed after {at} changes: {other:?}"),
            };
            fixture.assert_user_untouched();
            mortal.give(&mut fixture, PLENTY);
            if let Err((step, error)) = self.go_on(&fixture, done) {
                panic!("killed after {at} changes, then in step {step}: {error}");
            }
            self.assert_complete(&fixture);
        }
    }
}

#[test]
fn a_kill_among_merges_loses_nothing() {
    MERGED.check();
}

#[test]
fn a_kill_around_a_conflict_loses_nothing() {
    CONFLICT.check();
}

#[test]
fn a_kill_among_abandoned_items_loses_nothing() {
    ABANDONED.check();
}

/// What a git that was killed itself can leave.
#[test]
fn what_a_killed_git_left_half_done_is_put_right() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let here = worktrees.enter(1).unwrap().here;
    commit(&here, "of-1", "1");
    drop(worktrees);
    let of_git = fixture.root.join(".git");
    let write = |path: PathBuf, content: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    for lock in ["threadline/r1.lock", "threadline/r1.item-1.lock", "threadline/r1.item-9.lock"] {
        write(of_git.join("refs/heads").join(lock), "");
    }
    let known: Vec<PathBuf> =
        fs::read_dir(of_git.join("worktrees")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(known.len(), 1);
    write(known[0].join("index.lock"), "");
    write(known[0].join("HEAD.lock"), "");
    // A worktree that was just being made, at three moments.
    write(of_git.join("worktrees/r1.7/locked"), "initializing");
    write(fixture.folder().join("r1.8/.git"), "gitdir: nowhere\n");
    let path = Path::new("r1.9");
    git(
        &fixture.folder(),
        &["worktree", "add", "-q", "--detach", "--no-checkout", "--", path.to_str().unwrap()],
    );
    fs::remove_file(of_git.join("worktrees/r1.9/commondir")).unwrap();
    // A branch that was made and never entered; a worktree of the user's with a name like ours.
    git(&fixture.root, &["branch", "threadline/r1.item-5", "threadline/r1"]);
    let theirs = fixture.root.with_file_name("r1.44");
    let beside = ["worktree", "add", "-q", "--detach", "../r1.44"];
    git(&fixture.root, &beside);

    let worktrees = fixture.open();
    assert_eq!(worktrees.in_flight(), [1]);
    assert!(worktrees.enter(1).unwrap().again);
    assert!(matches!(worktrees.merge(1), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 2, &[]));
    assert!(theirs.join("shared").exists());
    git(&fixture.root, &["worktree", "remove", "../r1.44"]);
    fixture.assert_only(&["threadline/r1"]);
}

/// The lock that git takes to delete a branch, left by one that was killed. A git that is alive may have it.
#[test]
fn the_lock_of_a_killed_git_goes_when_no_git_is_left() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    for item in [1, 2] {
        let entered = worktrees.enter(item).unwrap();
        commit(&entered.here, &format!("of-{item}"), "");
    }
    git(&fixture.root, &["pack-refs", "--all", "--no-prune"]);
    let locks = ["packed-refs.lock", "packed-refs.new"].map(|name| fixture.root.join(".git").join(name));
    let leave = || locks.iter().for_each(|lock| fs::write(lock, "").unwrap());

    let mut alive = Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(fixture.root.join(".git"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    leave();
    let error = worktrees.merge(1).unwrap_err();
    assert!(error.to_string().contains("packed-refs.lock"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("packed-refs.lock`")), "{error:?}");
    assert_eq!(error.lock(), Some(locks[0].to_string_lossy().into_owned()));
    assert!(locks.iter().all(|lock| lock.exists()));
    drop(alive.stdin.take());
    alive.wait().unwrap();

    // Whoever goes on with the run does not let the items wait for it.
    let worktrees = fixture.open();
    assert!(locks.iter().all(|lock| !lock.exists()));
    assert!(matches!(worktrees.merge(1), Ok(Merged::Commit(_))));
    // Without the lock nobody writes the other file.
    fs::write(&locks[1], "").unwrap();
    assert!(matches!(worktrees.merge(2), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 4, &[]));
    fixture.assert_only(&["threadline/r1"]);
}
