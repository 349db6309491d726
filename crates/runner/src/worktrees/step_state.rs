//! The files of an item as they were when a step of it began: a commit, and a tree where there was more than
//! that.
//!
//! It stands in a file beside the worktrees, so that a step that was killed can begin again from where it
//! began.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::WorktreeError;
use super::git::object;
use super::tidy::remove_all;
use crate::project::replace;

/// How the name of such a file begins; the index of the item follows.
const NAME: &str = "step-of-";

/// What the files of an item were.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepState {
    /// The commit that the branch of the item was on.
    pub(super) commit: String,
    /// All files, where there were changes in no commit.
    pub(super) tree: Option<String>,
}

impl StepState {
    pub(super) fn read(folder: &Path, item: u64) -> Result<Option<Self>, WorktreeError> {
        let file = file(folder, item);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WorktreeError::io(&file, &error)),
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let unknown = || WorktreeError::Io { path: file, what: "not written by this version".into() };
        let commit = lines.next().and_then(object).ok_or_else(unknown)?;
        Ok(Some(Self { commit, tree: lines.next().and_then(object) }))
    }

    pub(super) fn write(&self, folder: &Path, item: u64) -> Result<(), WorktreeError> {
        let file = file(folder, item);
        let content = format!("{}\n{}\n", self.commit, self.tree.as_deref().unwrap_or_default());
        replace(&file, content.as_bytes(), None).map_err(|error| WorktreeError::io(&file, &error))
    }

    pub(super) fn forget(folder: &Path, item: u64) -> Result<(), WorktreeError> {
        remove_all(&file(folder, item))
    }

    /// An index of git for a moment.
    pub(super) fn index(folder: &Path, item: u64) -> PathBuf {
        file(folder, item).with_extension("index")
    }

    /// The item whose state a file of this name holds.
    pub(super) fn item(name: &OsStr) -> Option<u64> {
        name.to_str()?.strip_prefix(NAME)?.parse().ok()
    }
}

fn file(folder: &Path, item: u64) -> PathBuf {
    folder.join(format!("{NAME}{item}"))
}
