//! The merge into the user's branch, the only thing that touches it.

use std::fs;

use threadline_runner::worktrees::{Merged, WorktreeError, Worktrees};

use super::fixture::{Fixture, commit, git, users};

/// A run that changed these files in one item.
fn run_with(fixture: &Fixture, files: &[(&str, &str)]) -> Worktrees {
    let worktrees = fixture.open();
    let here = worktrees.enter(1).unwrap().here;
    for (file, content) in files {
        commit(&here, file, content);
    }
    worktrees.merge(1).unwrap();
    worktrees
}

#[test]
fn the_users_branch_and_files_get_what_the_run_did() {
    let fixture = Fixture::new();
    let worktrees = run_with(&fixture, &[("shared", "by the run\n"), ("added", "by the run\n")]);
    fixture.assert_user_untouched();
    assert!(matches!(worktrees.merge_into_original(), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.merge_into_original(), Ok(Merged::Nothing), "again");
    for (file, content) in [
        ("shared", "by the run\n"),
        ("added", "by the run\n"),
        ("changed", "the user's\n"),
        ("staged", "the user's\n"),
        ("new", "the user's\n"),
    ] {
        assert_eq!(fs::read_to_string(fixture.root.join(file)).unwrap(), content, "{file}");
    }
    assert_eq!(git(&fixture.root, &["status", "--porcelain"]), " M changed\nM  staged\n?? new\n");
    let same = git(&fixture.root, &["rev-parse", "main", "threadline/r1"]);
    let same: Vec<&str> = same.lines().collect();
    assert_eq!(same[0], same[1]);
}

#[test]
fn commits_that_the_user_made_meanwhile_are_merged() {
    let fixture = Fixture::new();
    let worktrees = run_with(&fixture, &[("shared", "one\ntwo\nthree\nby the run\n")]);
    git(&fixture.root, &["stash", "-q"]);
    commit(&fixture.root, "shared", "by the user\none\ntwo\nthree\n");
    git(&fixture.root, &["stash", "pop", "-q", "--index"]);
    assert!(matches!(worktrees.merge_into_original(), Ok(Merged::Commit(_))));
    let merged = fs::read_to_string(fixture.root.join("shared")).unwrap();
    assert_eq!(merged, "by the user\none\ntwo\nthree\nby the run\n");
    assert_eq!(git(&fixture.root, &["log", "-1", "--format=%s"]), "Merge run r1 into main\n");
    assert_eq!(git(&fixture.root, &["status", "--porcelain"]), " M changed\nM  staged\n?? new\n");
}

#[test]
fn what_is_in_the_way_is_told_and_nothing_changes() {
    for file in ["changed", "staged", "new"] {
        let fixture = Fixture::new();
        let worktrees = run_with(&fixture, &[("added", "by the run\n"), (file, "by the run\n")]);
        let error = worktrees.merge_into_original().unwrap_err();
        assert!(matches!(error, WorktreeError::InTheWay { .. }), "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert!(error.hint().unwrap().contains("git merge threadline/r1"));
        fixture.assert_user_untouched();
    }
}

#[test]
fn a_conflict_is_told_and_nothing_changes() {
    let fixture = Fixture::new();
    let worktrees = run_with(&fixture, &[("shared", "by the run\n"), ("added", "by the run\n")]);
    git(&fixture.root, &["commit", "-q", "-m", "staged"]);
    commit(&fixture.root, "shared", "by the user\n");
    let before = users(&fixture.root);
    let error = worktrees.merge_into_original().unwrap_err();
    assert_eq!(error.to_string(), "`threadline/r1` conflicts with `main`: `shared`");
    assert_eq!(users(&fixture.root), before);
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_or_nowhere_is_merged_there() {
    let fixture = Fixture::new();
    let worktrees = run_with(&fixture, &[("added", "by the run\n")]);
    git(&fixture.root, &["switch", "-q", "-c", "other"]);
    assert!(matches!(worktrees.merge_into_original(), Ok(Merged::Commit(_))));
    assert!(!fixture.root.join("added").exists());
    assert_eq!(fixture.show("main:added"), "by the run\n");
    assert_eq!(git(&fixture.root, &["status", "--porcelain"]), " M changed\nM  staged\n?? new\n");

    git(&fixture.root, &["worktree", "add", "-q", ".threadline/main", "main"]);
    commit(&worktrees.enter(2).unwrap().here, "second", "by the run\n");
    worktrees.merge(2).unwrap();
    assert!(matches!(worktrees.merge_into_original(), Ok(Merged::Commit(_))));
    assert!(fixture.root.join(".threadline/main/second").exists());
    assert!(!fixture.root.join("second").exists());
    worktrees.close().unwrap();
    git(&fixture.root, &["worktree", "remove", ".threadline/main"]);
    git(&fixture.root, &["branch", "-m", "main", "renamed"]);
    let error = worktrees.merge_into_original().unwrap_err();
    assert_eq!(error.to_string(), "the branch `main`, which the run began on, is not there any more");
}
