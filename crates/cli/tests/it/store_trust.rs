//! A store that this user did not make is not used: not one of another user, nor a link, nor what came with a
//! clone.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use crate::harness::{Workflow, workflow};

/// A workflow whose run can be resumed: its first step fails once.
const FAILS: &str = "
steps:
  - shell: 'test -e again || { touch again; exit 1; }'
";

/// The workflow in a project whose user has a state folder, after a run that failed.
fn failed() -> Workflow {
    let workflow = workflow(FAILS);
    let state = workflow.project.path().join("../state").display().to_string();
    let workflow = workflow.env("XDG_STATE_HOME", &state);
    workflow.run().exits(1);
    workflow
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(folder);
    assert!(git.status().expect("git").success(), "{arguments:?}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_folder_that_is_too_open_is_closed() {
    let workflow = workflow("steps: [{value: 1}]");
    let store = workflow.project.path().join(".threadline");
    set_mode(&store, 0o777);
    workflow.run().well();
    assert_eq!(mode(&store), 0o700);
    assert_eq!(mode(&store.join("journal.db")), 0o600);
    workflow.run().well();
}

#[test]
fn a_journal_that_others_may_read_is_used_once_the_user_trusts_it() {
    let workflow = failed();
    let journal = workflow.project.path().join(".threadline/journal.db");
    set_mode(&journal, 0o644);
    workflow.resume().exits(3).says("other users may read").says("`--trust-store`");
    workflow.run().exits(3).says("other users may read");
    assert!(workflow.command(&["runs"]).wait().well().stdout.contains("failed"));
    workflow.resume_with(&["--trust-store"]).well();
    workflow.run().well();

    // Another folder in its place is not trusted.
    let store = workflow.project.path().join(".threadline");
    let aside = workflow.project.path().join("aside");
    assert!(Command::new("cp").arg("-rp").arg(&store).arg(&aside).status().expect("cp").success());
    std::fs::remove_dir_all(&store).expect("removed");
    std::fs::rename(&aside, &store).expect("renamed");
    workflow.run().exits(3).says("other users may read");
}

#[test]
fn a_journal_that_others_may_write_is_not_even_read() {
    let workflow = failed();
    let store = workflow.project.path().join(".threadline");
    set_mode(&store.join("journal.db"), 0o666);
    workflow
        .command(&["show", "last"])
        .wait()
        .exits(3)
        .says("other users may change")
        .says("runs --trust-store");
    workflow.command(&["runs", "--trust-store"]).wait().well();
    workflow.command(&["show", "last"]).wait().well();
    workflow.resume().well();
}

#[test]
fn trust_holds_for_one_command_where_it_cannot_be_remembered() {
    let workflow = failed().env("XDG_STATE_HOME", "/dev/null/state");
    set_mode(&workflow.project.path().join(".threadline/journal.db"), 0o644);
    workflow.resume_with(&["--trust-store"]).well().says("trusted for this command only");
    workflow.run().exits(3);
}

#[test]
fn a_link_is_no_store() {
    let workflow = failed();
    let (store, elsewhere) =
        (workflow.project.path().join(".threadline"), workflow.project.path().join("../elsewhere"));
    std::fs::rename(&store, elsewhere).expect("renamed");
    workflow.project.link(".threadline", "../elsewhere");
    workflow.resume().exits(3).says("is a link");
    workflow.command(&["runs"]).wait().exits(3).says("is a link");
    workflow.resume_with(&["--trust-store"]).well();
}

#[test]
fn nothing_is_removed_through_a_link_in_a_store() {
    let workflow = workflow("steps: [{value: 1}]").file("../precious/file", "precious");
    workflow.project.link(".threadline/spool", "../../precious");
    workflow.run().exits(3).says(".threadline/spool` is a link");
    assert!(workflow.has("../precious/file"));
}

#[test]
fn a_store_that_came_with_a_clone_is_not_resumed() {
    let workflow = failed();
    let origin = workflow.project.path();
    git(origin, &["init", "-q", "."]);
    git(origin, &["add", "-f", ".threadline/journal.db", "workflow.yaml"]);
    git(origin, &["commit", "-q", "-m", "first"]);
    git(origin, &["clone", "-q", ".", "../clone"]);
    let clone = origin.join("../clone");
    let resume = ["resume", "--dir", "../clone"];
    workflow.command(&resume).wait().exits(3).says("other users may");
    // With another umask a clone is as private as a store of ours.
    set_mode(&clone.join(".threadline/journal.db"), 0o600);
    workflow.command(&resume).wait().exits(3).says("git tracks").says("came with the repository");
    assert!(!clone.join("again").exists());
    // One's own store is not resumed either when git tracks it, until its user says so.
    workflow.resume().exits(3).says("git tracks");
    workflow.resume_with(&["--trust-store"]).well();
}

#[test]
fn a_store_of_another_user_is_not_used() {
    if !is_root() {
        return;
    }
    let workflow = failed();
    let store = workflow.project.path().join(".threadline");
    let nobody = Command::new("chown").args(["-R", "65534"]).arg(&store).status();
    assert!(nobody.expect("chown").success());
    set_mode(&store, 0o777);
    for command in
        [&["resume"][..], &["run", "workflow.yaml"], &["runs"], &["show", "last"], &["vars", "last"]]
    {
        workflow.command(command).wait().exits(3).says("belongs to another user");
    }
    assert_eq!(mode(&store), 0o777);
    // Whoever became root by `sudo` goes on with their own.
    let workflow = workflow.env("SUDO_UID", "65534");
    workflow.resume().well();
}
