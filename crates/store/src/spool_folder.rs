//! The folder of one process for files that are nobody's yet: values that are still being written, outputs of programs,
//! values that programs read as files. It is locked for as long as the process lives and removed with all that is in it:
//! by the process itself, or by the next one that opens the journal after it was killed.
//!
//! It also names the values that the process stored or found stored: events that are still to come may refer to them, so
//! nobody removes them while the process lives.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::StoreError;
use crate::location::{create_folders, locked};
use crate::locked_file::{self, LockedFile};
use crate::names::Hash;

/// The file in the folder of a process that the process keeps locked.
const LOCK: &str = "lock";

/// The file in the folder of a process that names the values it needs: one hash after the other.
const PINS: &str = "pins";

/// The folder of this process, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SpoolFolder {
    path: PathBuf,
    /// Opened with the first value.
    pins: Mutex<Option<File>>,
    _lock: LockedFile,
}

impl SpoolFolder {
    /// Creates a folder for this process below `parent`, and removes those of processes that were killed. No other
    /// process does either at the same time: the caller holds the guard of the journal.
    pub(crate) fn create(parent: &Path) -> Result<Self, StoreError> {
        create_folders(parent)?;
        remove_abandoned(parent).map_err(|error| StoreError::io(parent, &error))?;
        let path = loop {
            let path = parent.join(unused_name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io(&path, &error)),
            }
        };
        let lock = path.join(LOCK);
        match LockedFile::acquire(&lock) {
            Ok(Some(held)) => Ok(Self { path, pins: Mutex::default(), _lock: held }),
            Ok(None) => Err(StoreError::Locked),
            Err(error) => Err(StoreError::io(&lock, &error)),
        }
    }

    /// Says that this process needs these values, which an event may name later.
    pub(crate) fn pin(&self, values: &[Hash]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let path = self.path.join(PINS);
        let failed = |error: io::Error| StoreError::io(&path, &error);
        let mut pins = locked(&self.pins);
        let file = match pins.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(failed)?,
        };
        let bytes: Vec<u8> = values.iter().flat_map(Hash::as_bytes).copied().collect();
        pins.insert(file).write_all(&bytes).map_err(failed)
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

/// A name that no folder had before: whoever removes a folder does so by its name and beside others, so a name that was
/// used again would cost its next owner the lock. A process in another container may have the same id.
fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{count}-{:x}", std::process::id(), now.as_nanos())
}

/// The values that living processes need.
pub(crate) fn pinned(parent: &Path) -> Result<HashSet<Hash>, StoreError> {
    let mut pinned = HashSet::new();
    let failed = |error: io::Error| StoreError::io(parent, &error);
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(pinned),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let folder = entry.map_err(failed)?.path();
        // What a process stored that ended meanwhile is named by its events, or by none.
        if !locked_file::is_held(&folder.join(LOCK)).unwrap_or(false) {
            continue;
        }
        let pins = match fs::read(folder.join(PINS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            pins => pins.map_err(failed)?,
        };
        let hashes = pins.chunks_exact(32).filter_map(|bytes| bytes.try_into().ok());
        pinned.extend(hashes.map(Hash::from_bytes));
    }
    Ok(pinned)
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
