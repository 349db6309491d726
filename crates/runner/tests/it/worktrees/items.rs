//! One item after the other: what each finds, and what remains of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use threadline_runner::worktrees::{Merged, WorktreeError};

use super::fixture::{Fixture, closed, commit, git};

#[test]
fn commits_of_items_come_together_on_the_branch_of_the_run() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    assert_eq!(worktrees.branch(), "threadline/r1");
    assert_eq!(worktrees.original(), Some(OsStr::new("main")));
    assert_eq!(worktrees.base(), git(&fixture.root, &["rev-parse", "main"]).trim());
    assert_eq!(worktrees.uncommitted().unwrap(), ["changed", "staged", "new"].map(PathBuf::from));
    let (one, two) = (worktrees.enter(1).unwrap(), worktrees.enter(2).unwrap());
    assert_ne!(one.worktree, two.worktree);
    assert_eq!(one.branch, "threadline/r1.item-1");
    assert_eq!(fs::read_to_string(one.here.join("changed")).unwrap(), "as committed\n");
    assert!(!one.here.join("new").exists());
    commit(&one.here, "one", "1\n");
    commit(&two.here, "two", "2\n");
    assert_eq!(worktrees.in_flight(), [1, 2]);
    let Merged::Commit(merged) = worktrees.merge(1).unwrap() else { panic!("not merged") };
    assert!(matches!(worktrees.merge(2), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.merge(1), Ok(Merged::Commit(merged)), "again");
    assert_eq!(fixture.show("threadline/r1:one"), "1\n");
    assert_eq!(fixture.show("threadline/r1:two"), "2\n");
    let message = git(&fixture.root, &["log", "-1", "--format=%s", "threadline/r1"]);
    assert_eq!(message, "Merge item 2 of run r1\n");
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 4, &[]));
    fixture.assert_only(&["threadline/r1"]);
}

#[test]
fn an_item_finds_its_worktree_as_it_left_it() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let first = worktrees.enter(7).unwrap();
    assert!(!first.again);
    commit(&first.here, "done", "by an earlier step\n");
    fs::write(first.here.join("half"), "in no commit").unwrap();
    fs::write(first.here.join("x.ignored"), "built").unwrap();
    assert_eq!(worktrees.enter(7).unwrap().worktree, first.worktree);
    drop(worktrees);

    let worktrees = fixture.open();
    assert_eq!(worktrees.in_flight(), [7]);
    let again = worktrees.enter(7).unwrap();
    assert!(again.again);
    assert_eq!((again.worktree, again.branch), (first.worktree, first.branch));
    for file in ["done", "half", "x.ignored"] {
        assert!(first.here.join(file).exists(), "{file}");
    }
    fs::remove_file(first.here.join("half")).unwrap();
    assert!(matches!(worktrees.merge(7), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 2, &[]));
    fixture.assert_only(&["threadline/r1"]);
}

/// The next item is in the same place, and finds nothing of the one before.
#[test]
fn a_worktree_is_used_again_and_clean() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let first = worktrees.enter(1).unwrap();
    fs::write(first.here.join("shared"), "changed\n").unwrap();
    fs::remove_file(first.here.join("staged")).unwrap();
    fs::write(first.here.join("new"), "new").unwrap();
    fs::write(first.here.join("x.ignored"), "built").unwrap();
    fs::create_dir(first.here.join("inner")).unwrap();
    git(&first.here.join("inner"), &["init", "-q"]);
    assert_eq!(worktrees.abandon(1, false), Ok(None));
    let second = worktrees.enter(2).unwrap();
    assert_eq!(second.worktree, first.worktree);
    assert_as_committed(&second.here);
    assert_eq!(worktrees.merge(2), Ok(Merged::Nothing));
    assert_eq!(worktrees.close().unwrap(), closed(None, 0, &[]));
    fixture.assert_only(&[]);
    assert!(!fixture.folder().exists());
}

fn assert_as_committed(worktree: &Path) {
    let mut names: Vec<_> = fs::read_dir(worktree).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".git", ".gitignore", "changed", "shared", "staged"]);
    assert_eq!(git(worktree, &["status", "--porcelain", "--ignored"]), "");
}

/// What a reset does not undo: an unfinished rebase, a lock, settings, folders that cannot be written, no link to git.
#[test]
fn whatever_an_item_leaves_the_next_one_begins_clean() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let mut item = 0;
    let mut after = |leave: &dyn Fn(&Path)| {
        item += 1;
        leave(&worktrees.enter(item).unwrap().here);
        assert_eq!(worktrees.abandon(item, false), Ok(None));
        let next = worktrees.enter(item).unwrap();
        assert_as_committed(&next.here);
        assert!(!git(&next.here, &["status"]).contains("rebase"));
        assert_eq!(git(&next.here, &["symbolic-ref", "--short", "HEAD"]).trim(), next.branch);
        assert_eq!(worktrees.abandon(item, false), Ok(None));
    };
    after(&|here| {
        commit(here, "a", "a");
        git(here, &["-c", "core.editor=sed -i 's/^pick/edit/'", "rebase", "-q", "-i", "HEAD~1"]);
    });
    after(&|here| {
        git(here, &["-c", "alias.hold=!touch \"$(git rev-parse --git-path index.lock)\"", "hold"]);
    });
    after(&|here| {
        fs::create_dir_all(here.join("sealed/inner")).unwrap();
        fs::write(here.join("sealed/inner/file"), "").unwrap();
        fs::set_permissions(here.join("sealed/inner"), fs::Permissions::from_mode(0o500)).unwrap();
    });
    after(&|here| {
        git(here, &["worktree", "lock", "."]);
        git(here, &["update-ref", "refs/worktree/mine", "HEAD"]);
    });
    after(&|here| fs::remove_file(here.join(".git")).unwrap());
    after(&|here| fs::remove_dir_all(here).unwrap());
    after(&|here| drop(git(here, &["checkout", "-q", "--detach"])));
    let here = worktrees.enter(100).unwrap().here;
    commit(&here, "a", "a");
    fs::remove_dir_all(here).unwrap();
    assert_eq!(worktrees.abandon(100, true).unwrap().as_deref(), Some("threadline/r1.item-100"));
    assert_eq!(worktrees.close().unwrap(), closed(None, 0, &["threadline/r1.item-100"]));
    fixture.assert_only(&["threadline/r1.item-100"]);
}

#[test]
fn a_conflict_names_the_files_and_changes_nothing() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    for item in [1, 2] {
        let here = worktrees.enter(item).unwrap().here;
        commit(&here, "shared", &format!("one\n{item}\nthree\n"));
        commit(&here, &format!("of-{item}"), "");
    }
    worktrees.merge(1).unwrap();
    let before = git(&fixture.root, &["rev-parse", "threadline/r1"]);
    let error = worktrees.merge(2).unwrap_err();
    assert_eq!(error.to_string(), "`threadline/r1.item-2` conflicts with `threadline/r1`: `shared`");
    assert!(error.hint().unwrap().contains("git merge threadline/r1.item-2"));
    assert_eq!(git(&fixture.root, &["rev-parse", "threadline/r1"]), before);
    assert_eq!(worktrees.in_flight(), [2]);
    let kept = Some("threadline/r1.item-2".to_owned());
    assert_eq!(worktrees.abandon(2, true).unwrap(), kept);
    assert_eq!(worktrees.abandon(2, true).unwrap(), kept, "again");
    assert_eq!(fixture.show("threadline/r1.item-2:shared"), "one\n2\nthree\n");

    // The next attempt sees what was merged, and the branch that was kept stays.
    let next = worktrees.enter(2).unwrap();
    assert_eq!(next.branch, "threadline/r1.item-2.2");
    assert_eq!(fs::read_to_string(next.here.join("shared")).unwrap(), "one\n1\nthree\n");
    commit(&next.here, "shared", "one\n1 and 2\nthree\n");
    worktrees.merge(2).unwrap();
    let left = closed(Some("threadline/r1"), 5, &["threadline/r1.item-2"]);
    assert_eq!(worktrees.close().unwrap(), left);
    fixture.assert_only(&["threadline/r1", "threadline/r1.item-2"]);
}

#[test]
fn work_in_no_commit_is_an_error_and_can_be_kept() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let here = worktrees.enter(3).unwrap().here;
    fs::write(here.join("shared"), "changed\n").unwrap();
    fs::write(here.join("a\nb"), "new").unwrap();
    fs::write(here.join("x.ignored"), "built").unwrap();
    let error = worktrees.merge(3).unwrap_err();
    let message = r"item 3 left changes that are in no commit of `threadline/r1.item-3`: `shared`, `a\nb`";
    assert_eq!(error.to_string(), message);
    assert!(error.hint().unwrap().starts_with("commit in a step of the item"));
    assert_eq!(worktrees.abandon(3, true).unwrap().as_deref(), Some("threadline/r1.item-3"));
    assert_eq!(fixture.show("threadline/r1.item-3:shared"), "changed\n");
    assert_eq!(fixture.show("threadline/r1.item-3:a\nb"), "new");

    // What is ignored is nobody's work.
    let here = worktrees.enter(4).unwrap().here;
    fs::write(here.join("x.ignored"), "built").unwrap();
    assert_eq!(worktrees.merge(4), Ok(Merged::Nothing));
    worktrees.enter(5).unwrap();
    assert_eq!(worktrees.abandon(5, true), Ok(None), "without work nothing is kept");
    assert_eq!(worktrees.close().unwrap(), closed(None, 0, &["threadline/r1.item-3"]));
    fixture.assert_only(&["threadline/r1.item-3"]);
}

#[test]
fn work_on_another_branch_is_an_error_and_can_be_kept() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let here = worktrees.enter(1).unwrap().here;
    commit(&here, "before", "");
    git(&here, &["checkout", "-q", "--detach", "HEAD~1"]);
    commit(&here, "elsewhere", "");
    fs::write(here.join("in-no-commit"), "").unwrap();
    let error = worktrees.merge(1).unwrap_err();
    let message = "item 1 left its branch `threadline/r1.item-1` for no branch at all";
    assert_eq!(error.to_string(), message);
    assert_eq!(worktrees.abandon(1, true).unwrap().as_deref(), Some("threadline/r1.item-1"));
    let files = git(&fixture.root, &["log", "--format=%s", "threadline/r1.item-1", "^main"]);
    assert!(files.contains("before\n") && files.contains("elsewhere\n"), "{files}");
    fixture.show("threadline/r1.item-1:in-no-commit");

    let here = worktrees.enter(2).unwrap().here;
    git(&here, &["checkout", "-q", "-b", "mine"]);
    let error = worktrees.merge(2).unwrap_err();
    assert_eq!(error.to_string(), "item 2 left its branch `threadline/r1.item-2` for `mine`");
    assert_eq!(worktrees.abandon(2, false), Ok(None));
    worktrees.close().unwrap();
    fixture.assert_only(&["mine", "threadline/r1.item-1"]);
}

#[test]
fn without_keep_nothing_of_an_item_remains() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    commit(&worktrees.enter(1).unwrap().here, "a", "");
    assert_eq!(worktrees.abandon(1, false), Ok(None));
    assert_eq!(worktrees.abandon(1, false), Ok(None), "again");
    assert_eq!(worktrees.close().unwrap(), closed(None, 0, &[]));
    fixture.assert_only(&[]);
}

#[test]
fn a_pause_leaves_the_worktrees_of_items_in_flight() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    let here = worktrees.enter(1).unwrap().here;
    worktrees.enter(2).unwrap();
    fs::write(here.join("half"), "").unwrap();
    worktrees.merge(2).unwrap();
    let left = worktrees.close().unwrap();
    assert_eq!((left.branch.as_deref(), left.commits, left.in_flight), (Some("threadline/r1"), 0, vec![1]));
    fixture.assert_user_untouched();
    drop(worktrees);
    let worktrees = fixture.open();
    assert!(worktrees.enter(1).unwrap().again);
    commit(&here, "half", "whole");
    assert!(matches!(worktrees.merge(1), Ok(Merged::Commit(_))));
    worktrees.close().unwrap();
    fixture.assert_only(&["threadline/r1"]);

    // A run that has ended can go on, with items that failed.
    let worktrees = fixture.open();
    commit(&worktrees.enter(3).unwrap().here, "third", "");
    worktrees.merge(3).unwrap();
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 4, &[]));
    fixture.assert_only(&["threadline/r1"]);
}

/// Somebody removed the files of an item in flight: what was committed is kept, and the item begins again.
#[test]
fn an_item_whose_worktree_is_gone_begins_again() {
    let fixture = Fixture::new();
    let worktrees = fixture.open();
    commit(&worktrees.enter(1).unwrap().here, "a", "");
    drop(worktrees);
    for entry in fs::read_dir(fixture.folder()).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let worktrees = fixture.open();
    assert!(worktrees.in_flight().is_empty());
    let entered = worktrees.enter(1).unwrap();
    assert_eq!((entered.again, &*entered.branch), (false, "threadline/r1.item-1.2"));
    worktrees.abandon(1, true).unwrap();
    assert_eq!(worktrees.close().unwrap(), closed(None, 0, &["threadline/r1.item-1"]));
    fixture.assert_only(&["threadline/r1.item-1"]);
}

#[test]
fn a_branch_that_is_not_the_runs_own_or_not_there_is_told() {
    let fixture = Fixture::new();
    git(&fixture.root, &["branch", "threadline/r1"]);
    let worktrees = fixture.open();
    commit(&worktrees.enter(1).unwrap().here, "a", "");
    worktrees.merge(1).unwrap();
    worktrees.close().unwrap();
    git(&fixture.root, &["worktree", "add", "-q", ".threadline/look", "threadline/r1"]);
    let error = fixture.try_open().unwrap_err();
    assert!(matches!(error, WorktreeError::BranchInUse { .. }), "{error}");
    git(&fixture.root, &["worktree", "remove", ".threadline/look"]);
    git(&fixture.root, &["branch", "-m", "threadline/r1", "moved"]);
    let error = fixture.try_open().unwrap_err();
    assert_eq!(error.to_string(), "the run's branch `threadline/r1` is not there any more");
    git(&fixture.root, &["branch", "-m", "moved", "threadline/r1"]);
    fs::remove_dir_all(fixture.folder()).unwrap();
    let error = fixture.try_open().unwrap_err();
    assert_eq!(error.to_string(), "there is a branch `threadline/r1`, not made by this run");
}
