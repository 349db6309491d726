//! Repositories of all sorts, and what surrounds them: each works or is refused with a reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use threadline_runner::process::Environment;
use threadline_runner::worktrees::{Merged, WorktreeError, Worktrees};
use threadline_store::RunId;

use super::fixture::{Fixture, Folder, closed, commit, environment, git};

fn open(root: &Path) -> Result<Worktrees, WorktreeError> {
    open_with(root, &environment())
}

fn open_with(root: &Path, environment: &Environment) -> Result<Worktrees, WorktreeError> {
    let store = root.join(".threadline");
    Worktrees::open(root, &store.join("worktrees/r1"), &RunId::new("r1").unwrap(), environment)
}

/// One item commits a file, which is merged. The run's branch then has the file, and nothing else is left.
fn assert_works(worktrees: &Worktrees, top: &Path) {
    let entered = worktrees.enter(1).unwrap();
    commit(&entered.here, "added", "by the item");
    assert!(matches!(worktrees.merge(1), Ok(Merged::Commit(_))));
    assert_eq!(worktrees.close().unwrap(), closed(Some("threadline/r1"), 2, &[]));
    assert_eq!(git(top, &["ls-tree", "-r", "--name-only", "threadline/r1"]).matches("added").count(), 1);
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_no_repository_with_files_and_a_commit_is_refused() {
    let folder = Folder::new();
    let mut alone = environment();
    alone.set("GIT_CEILING_DIRECTORIES", std::env::temp_dir());
    let error = open_with(&folder.0, &alone).unwrap_err();
    assert!(matches!(error, WorktreeError::NoRepository { .. }), "{error}");
    assert!(error.to_string().contains("is in no git repository\n  fatal: not a git repository"), "{error}");
    assert!(error.hint().is_some());

    git(&folder.0, &["init", "-q", "--bare", "bare"]);
    let error = open(&folder.0.join("bare")).unwrap_err();
    assert!(matches!(error, WorktreeError::NoWorkingTree { .. }), "{error}");

    git(&folder.0, &["init", "-q", "empty"]);
    let error = open(&folder.0.join("empty")).unwrap_err();
    assert!(matches!(error, WorktreeError::NoCommits { .. }), "{error}");
    assert!(!folder.0.join("empty/.threadline").exists());
}

#[test]
fn no_git_and_an_old_git_are_told() {
    let fixture = Fixture::new();
    let folder = Folder::new();
    let mut environment = environment();
    environment.set("PATH", &folder.0);
    let error = open_with(&fixture.root, &environment).unwrap_err();
    assert!(error.to_string().starts_with("git cannot be started: "), "{error}");
    for version in ["git version 2.37.9", "git version 1.99", "hello"] {
        script(&folder.0.join("git"), &format!("echo '{version}'"));
        let error = open_with(&fixture.root, &environment).unwrap_err();
        assert_eq!(error.to_string(), format!("git is too old for worktrees: `{version}`"));
        assert_eq!(error.hint().unwrap(), "install git 2.38 or newer");
    }
    fixture.assert_only(&[]);
}

#[test]
fn a_run_can_begin_on_no_branch() {
    let fixture = Fixture::new();
    git(&fixture.root, &["checkout", "-q", "--detach"]);
    let worktrees = fixture.open();
    assert_eq!(worktrees.original(), None);
    assert_works(&worktrees, &fixture.root);
    let error = worktrees.merge_into_original().unwrap_err();
    assert_eq!(error.to_string(), "the run began on no branch, `threadline/r1` cannot be merged into it");
    assert_eq!(fixture.open().original(), None);
}

#[test]
fn a_run_can_begin_in_a_folder_of_the_repository() {
    let fixture = Fixture::new();
    let inner = fixture.root.join("inner folder");
    fs::create_dir(&inner).unwrap();
    let store = fixture.folder();
    let run = RunId::new("r1").unwrap();
    let worktrees = Worktrees::open(&inner, &store, &run, &environment()).unwrap();
    let entered = worktrees.enter(1).unwrap();
    assert_eq!(entered.here, entered.worktree.join("inner folder"));
    commit(&entered.here, "added", "");
    worktrees.merge(1).unwrap();
    worktrees.close().unwrap();
    fixture.show("threadline/r1:inner folder/added");
    fs::remove_dir(inner).unwrap();
    fixture.assert_only(&["threadline/r1"]);
}

#[test]
fn a_shallow_clone_a_linked_worktree_and_longer_hashes_work() {
    let fixture = Fixture::new();
    let folder = Folder::new();
    let source = fixture.root.with_file_name("source");
    fs::rename(&fixture.root, &source).unwrap();
    // An address cannot hold every name that a folder can.
    std::os::unix::fs::symlink(&source, folder.0.join("source")).unwrap();
    git(&folder.0, &["clone", "-q", "--depth=1", "--no-local", "source", "shallow"]);
    let shallow = folder.0.join("shallow");
    assert_eq!(git(&shallow, &["rev-list", "--count", "HEAD"]), "1\n");
    assert_works(&open(&shallow).unwrap(), &shallow);

    git(&shallow, &["worktree", "add", "-q", "-b", "side", "../linked"]);
    git(&shallow, &["branch", "-D", "-q", "threadline/r1"]);
    let linked = folder.0.join("linked");
    let worktrees = open(&linked).unwrap();
    assert_works(&worktrees, &linked);
    worktrees.merge_into_original().unwrap();
    assert!(linked.join("added").exists() && !shallow.join("added").exists());

    git(&folder.0, &["init", "-q", "--object-format=sha256", "longer"]);
    let longer = folder.0.join("longer");
    commit(&longer, "first", "");
    assert_works(&open(&longer).unwrap(), &longer);
}

#[test]
fn submodules_are_left_alone() {
    let folder = Folder::new();
    for name in ["part", "whole"] {
        git(&folder.0, &["init", "-q", "-b", "main", name]);
        commit(&folder.0.join(name), "first", "");
    }
    let whole = folder.0.join("whole");
    let local = ["-c", "protocol.file.allow=always"];
    git(&whole, &[&local[..], &["submodule", "--quiet", "add", "../part", "part"]].concat());
    git(&whole, &["commit", "-q", "-m", "part"]);
    let worktrees = open(&whole).unwrap();
    let here = worktrees.enter(1).unwrap().here;
    assert_eq!(fs::read_dir(here.join("part")).unwrap().count(), 0);
    git(&here, &[&local[..], &["submodule", "--quiet", "update", "--init"]].concat());
    assert_works(&worktrees, &whole);
    assert!(whole.join("part/first").exists());
    assert!(!git(&whole, &["worktree", "list"]).contains("r1.0"));
}

/// Hooks, signatures, settings and variables of the user's that would change what is done, or where.
#[test]
fn what_surrounds_the_repository_changes_nothing() {
    let mut fixture = Fixture::new();
    let trace = fixture.root.with_file_name("hooks-that-ran");
    for hook in
        ["post-checkout", "post-merge", "pre-merge-commit", "reference-transaction", "post-index-change"]
    {
        script(&fixture.root.join(".git/hooks").join(hook), "echo \"$0\" >> \"$TRACE\"; exit 1");
    }
    let config = fixture.root.with_file_name("config");
    fs::write(
        &config,
        "[commit]\ngpgSign = true\n[merge]\nff = false\nautoStash = true\n[status]\nshowUntrackedFiles = no\n\
         [core]\npager = false\neditor = false\nfsmonitor = true\nquotePath = true\n[color]\nui = always\n\
         [log]\nshowSignature = true\n[user]\nuseConfigOnly = true\n[gpg]\nprogram = false\n",
    )
    .unwrap();
    let elsewhere = Folder::new();
    git(&elsewhere.0, &["init", "-q"]);
    for (name, value) in [
        ("GIT_DIR", elsewhere.0.join(".git")),
        ("GIT_WORK_TREE", elsewhere.0.clone()),
        ("GIT_INDEX_FILE", elsewhere.0.join("index")),
        ("GIT_OBJECT_DIRECTORY", elsewhere.0.join("objects")),
        ("GIT_NAMESPACE", "other".into()),
        ("GIT_CONFIG_PARAMETERS", "'core.bare=true'".into()),
        ("GIT_COMMITTER_DATE", "nonsense".into()),
        ("GIT_CONFIG_GLOBAL", config),
        ("TRACE", trace.clone()),
    ] {
        fixture.environment.set(name, value);
    }
    // Nobody has told git who commits.
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"]
    {
        fixture.environment.remove(name);
    }
    let worktrees = fixture.open();
    let here = worktrees.enter(1).unwrap().here;
    // What the item itself does has the hooks of the user.
    git(&here, &["-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "x"]);
    fs::write(here.join("new"), "").unwrap();
    assert!(matches!(worktrees.merge(1), Err(WorktreeError::Uncommitted { .. })));
    fs::remove_file(here.join("new")).unwrap();
    assert!(matches!(worktrees.merge(1), Ok(Merged::Commit(_))));
    let authors = git(&fixture.root, &["log", "--format=%an <%ae>", "main..threadline/r1"]);
    assert_eq!(authors, "Threadline <threadline@localhost>\nAda <ada@example.org>\n");
    fixture.assert_user_untouched();
    assert!(matches!(worktrees.merge_into_original(), Ok(Merged::Commit(_))));
    worktrees.close().unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    assert_eq!(fs::read_dir(&elsewhere.0).unwrap().count(), 1, "nothing went to the other repository");
}
