//! The folder of one process for files that are nobody's yet: values that are still being written, outputs of programs,
//! values that programs read as files. It is locked for as long as the process lives and removed with all that is in it:
//! by the process itself, or by the next one that opens the journal after it was killed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::location::create_folders;
use crate::locked_file::LockedFile;

/// The file in the folder of a process that the process keeps locked.
const LOCK: &str = "lock";

/// The folder of this process, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SpoolFolder {
    path: PathBuf,
    _lock: LockedFile,
}

impl SpoolFolder {
    /// Creates a folder for this process below `parent`, and removes those of processes that were killed. No other
    /// process does either at the same time: the caller holds the guard of the journal.
    pub(crate) fn create(parent: &Path) -> Result<Self, StoreError> {
        create_folders(parent)?;
        remove_abandoned(parent).map_err(|error| StoreError::io(parent, &error))?;
        let mut number = 0;
        let path = loop {
            // A process in another container may have the same id.
            let path = parent.join(format!("{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(StoreError::io(&path, &error)),
            }
        };
        let lock = path.join(LOCK);
        match LockedFile::acquire(&lock) {
            Ok(Some(held)) => Ok(Self { path, _lock: held }),
            Ok(None) => Err(StoreError::Locked),
            Err(error) => Err(StoreError::io(&lock, &error)),
        }
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpoolFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by whoever opens the journal next.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what no living process owns. What cannot be removed only takes up space.
fn remove_abandoned(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            let _ = fs::remove_file(&path);
        } else if let Ok(Some(_held)) = LockedFile::acquire(&path.join(LOCK)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
