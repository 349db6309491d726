//! The lock on packed references that a killed git left behind: whether it is one, and its removal.
//!
//! Git takes this lock to delete a branch, and a git that is ended while it takes the lock leaves it for
//! ever. It belongs to the whole repository, so it goes only when another git has waited for it in vain, and
//! every git that worked on the repository when the lock came to be has ended.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::WorktreeError;
use super::git::path;
use super::repository::Repository;
use crate::process::{SeenProgram, find_programs};

/// The lock, and the file that only its owner writes.
const NAMES: [&str; 2] = ["packed-refs.lock", "packed-refs.new"];

/// The option and the variable that lead git to a repository elsewhere than around its folder.
const OPTION: &[u8] = b"--git-dir";
const VARIABLE: &[u8] = b"GIT_DIR=";

/// A program that began so soon after the lock may have begun before it: neither time is exact.
const INEXACTNESS: Duration = Duration::from_millis(100);

/// The lock at some moment, and whoever may have had it then.
#[derive(Debug)]
pub(super) struct SeenLock {
    files: Vec<LockFile>,
    /// Git programs that are as old as the lock, were alive, and may work on the repository. Younger ones
    /// only wait.
    owners: Vec<SeenProgram>,
}

/// A file, and what tells it from a later one of the same name.
#[derive(Debug, PartialEq, Eq)]
struct LockFile {
    path: PathBuf,
    number: u64,
    modified: SystemTime,
}

impl SeenLock {
    /// The lock as it is now, if there is one.
    pub(super) fn look(repository: &Repository) -> Option<Self> {
        let files = find_files(repository);
        let made = files.iter().map(|file| file.modified).max()? + INEXACTNESS;
        let folders = repository.listed().ok()?.into_iter().map(|listed| listed.folder);
        let folders: Vec<PathBuf> =
            folders.chain([repository.top.clone(), repository.shared.clone()]).collect();
        let mut owners = find_programs("git");
        owners.retain(|program| program.started.is_none_or(|started| started <= made));
        owners.retain(|program| may_work_in(program, &folders));
        Some(Self { files, owners })
    }

    /// Whether this lock made a git fail, and whoever may have had it is gone.
    pub(super) fn is_stale(&self, repository: &Repository, error: &WorktreeError) -> bool {
        let WorktreeError::Git { said, .. } = error else { return false };
        let is_named = said.iter().any(|line| NAMES.iter().any(|name| line.contains(name)));
        is_named && self.owners.iter().all(SeenProgram::has_ended) && self.files == find_files(repository)
    }

    pub(super) fn remove(self) -> Result<(), WorktreeError> {
        for LockFile { path, .. } in self.files {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(WorktreeError::io(&path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn find_files(repository: &Repository) -> Vec<LockFile> {
    let file = |name: &str| {
        let path = repository.shared.join(name);
        let found = fs::symlink_metadata(&path).ok()?;
        Some(LockFile { path, number: found.ino(), modified: found.modified().ok()? })
    };
    NAMES.into_iter().filter_map(file).collect()
}

/// Whether a git works in one of these folders, or may.
fn may_work_in(program: &SeenProgram, folders: &[PathBuf]) -> bool {
    // The folder of another user's process is not shown.
    let Some(folder) = &program.folder else { return true };
    let mut named = Vec::new();
    let mut arguments = program.arguments.split(|byte| *byte == 0);
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(OPTION) {
            Some(b"") => named.extend(arguments.next()),
            Some(value) => named.extend(value.strip_prefix(b"=")),
            None => {}
        }
    }
    let variables = program.environment.split(|byte| *byte == 0);
    named.extend(variables.filter_map(|variable| variable.strip_prefix(VARIABLE)));
    let is_there = |found: &Path| {
        let found = found.canonicalize().unwrap_or_else(|_| found.to_owned());
        folders.iter().any(|folder| found.starts_with(folder))
    };
    is_there(folder) || named.into_iter().any(|name| is_there(&folder.join(path(name))))
}
