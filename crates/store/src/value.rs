//! Large values, stored once by the hash of their bytes: smaller ones in a table, the others as files of their own.
//!
//! A value is on disk before an event that was appended after it: in the table because the writer keeps the order,
//! as a file because it is synced before its hash is returned.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use threadline_engine::execute::Durability;

use crate::error::StoreError;
use crate::location::{JournalLocation, create_folders, locked, sync_folder};
use crate::names::Hash;
use crate::queue::{Queue, WriteJob};
use crate::replica::ReplicaCell;
use crate::spool_folder::SpoolFolder;

/// The maximum size of values in the table, in bytes.
const IN_TABLE: usize = 1 << 20;

/// A value that is written piece by piece: it is hashed as it comes, and beyond a megabyte it is kept on disk instead of
/// in memory. If it is dropped before [`Spool::finish`], it leaves nothing behind.
pub struct Spool {
    location: JournalLocation,
    /// Where the file is made; none in memory.
    folder: Option<Arc<SpoolFolder>>,
    queue: Arc<Queue>,
    /// Where a large value is kept, too.
    replica: ReplicaCell,
    hasher: blake3::Hasher,
    start: Vec<u8>,
    file: Option<SpoolFile>,
    length: u64,
}

impl Spool {
    pub(crate) fn new(
        location: JournalLocation,
        folder: Option<Arc<SpoolFolder>>,
        queue: Arc<Queue>,
        replica: ReplicaCell,
    ) -> Self {
        let (hasher, start) = (blake3::Hasher::new(), Vec::new());
        Self { location, folder, queue, replica, hasher, start, file: None, length: 0 }
    }

    /// The number of bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Stores the value. An event that is appended from now on may name it.
    pub fn finish(mut self) -> Result<Hash, StoreError> {
        self.queue.check_usable()?;
        let hash = Hash::from(self.hasher.finalize());
        match self.file.take() {
            Some(file) => {
                let path = file.keep(&self.location, self.folder.as_deref(), &hash)?;
                let replica = locked(&self.replica).clone();
                if let Some(replica) = replica {
                    let open = || File::open(&path).map_err(|error| StoreError::io(&path, &error));
                    replica.keep_value(&hash, self.length, open)?;
                    let kept = WriteJob::LargeValue { hash, length: self.length };
                    self.queue.push(kept, Durability::Later)?;
                }
            }
            None => {
                self.queue.push(WriteJob::Value { hash, data: self.start }, Durability::Later)?;
            }
        }
        Ok(hash)
    }

    /// Adds bytes to the value.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        if let Some(file) = &mut self.file {
            return file.write(bytes);
        }
        if let Some(folder) = self.folder.as_ref().filter(|_| self.start.len() + bytes.len() > IN_TABLE) {
            let mut file = SpoolFile::create(folder.path())?;
            file.write(&std::mem::take(&mut self.start))?;
            file.write(bytes)?;
            self.file = Some(file);
        } else {
            self.start.extend_from_slice(bytes);
        }
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stores a whole value.
pub(crate) fn put(mut spool: Spool, bytes: Vec<u8>) -> Result<Hash, StoreError> {
    if bytes.len() > IN_TABLE && spool.folder.is_some() {
        spool.add(&bytes)?;
        return spool.finish();
    }
    let hash = Hash::of(&bytes);
    spool.queue.push(WriteJob::Value { hash, data: bytes }, Durability::Later)?;
    Ok(hash)
}

/// A value on its way to its own file. It is removed when this is dropped before it is kept.
struct SpoolFile {
    file: File,
    path: PathBuf,
    is_kept: bool,
}

impl SpoolFile {
    /// Creates a file in the folder of this process.
    fn create(folder: &Path) -> Result<Self, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = folder.join(format!("stored-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| StoreError::io(&path, &error))?;
        Ok(Self { file, path, is_kept: false })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(|error| StoreError::io(&self.path, &error))
    }

    /// Makes this the file of the value with this hash, and returns where that is.
    fn keep(
        mut self,
        location: &JournalLocation,
        spool_folder: Option<&SpoolFolder>,
        hash: &Hash,
    ) -> Result<PathBuf, StoreError> {
        let path = location.value_file(hash).ok_or(StoreError::NoSuchValue { hash: *hash })?;
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        create_folders(&folder)?;
        self.file.sync_all().map_err(|error| StoreError::io(&self.path, &error))?;
        {
            // Nobody removes the value between these two.
            let _shared = location.share_values()?;
            spool_folder.map_or(Ok(()), |folder| folder.pin(&[*hash]))?;
            fs::rename(&self.path, &path).map_err(|error| StoreError::io(&path, &error))?;
        }
        self.is_kept = true;
        // The folder of values, and the one above it, may be new as well.
        folder.ancestors().take(3).try_for_each(sync_folder)?;
        Ok(path)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What stays goes with the folder of this process.
            let _ = fs::remove_file(&self.path);
        }
    }
}
