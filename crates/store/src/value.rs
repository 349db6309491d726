//! Large values, stored once by the hash of their bytes: smaller ones in a table, the others as files of their own.
//!
//! A value is on disk before an event that was appended after it: in the table because the writer keeps the order,
//! as a file because it is synced before its hash is returned.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use threadline_engine::execute::Durability;

use crate::error::StoreError;
use crate::location::{JournalLocation, create_folders, sync_folder};
use crate::locked_file::LockedFile;
use crate::names::Hash;
use crate::queue::{Queue, WriteJob};

/// The maximum size of values in the table, in bytes.
const IN_TABLE: usize = 1 << 20;

/// A value that is written piece by piece: it is hashed as it comes, and beyond a megabyte it is kept on disk instead of
/// in memory. If it is dropped before [`Spool::finish`], it leaves nothing behind.
pub struct Spool {
    location: JournalLocation,
    queue: Arc<Queue>,
    hasher: blake3::Hasher,
    start: Vec<u8>,
    file: Option<LockedFile>,
    length: u64,
}

impl Spool {
    pub(crate) fn new(location: JournalLocation, queue: Arc<Queue>) -> Self {
        Self { location, queue, hasher: blake3::Hasher::new(), start: Vec::new(), file: None, length: 0 }
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
            Some(file) => keep(&self.location, file, &hash)?,
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
            return write(file, bytes);
        }
        if let Some(folder) =
            self.location.spool_folder().filter(|_| self.start.len() + bytes.len() > IN_TABLE)
        {
            let mut file = create(&folder)?;
            write(&mut file, &std::mem::take(&mut self.start))?;
            write(&mut file, bytes)?;
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
pub(crate) fn put(
    location: &JournalLocation,
    queue: &Arc<Queue>,
    bytes: Vec<u8>,
) -> Result<Hash, StoreError> {
    if bytes.len() > IN_TABLE && location.spool_folder().is_some() {
        let mut spool = Spool::new(location.clone(), queue.clone());
        spool.add(&bytes)?;
        return spool.finish();
    }
    let hash = Hash::of(&bytes);
    queue.push(WriteJob::Value { hash, data: bytes }, Durability::Later)?;
    Ok(hash)
}

fn create(folder: &Path) -> Result<LockedFile, StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    create_folders(folder)?;
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        let file = LockedFile::acquire(&path).map_err(|error| StoreError::io(&path, &error))?;
        if let Some(mut file) = file {
            // A process with the same id may have left a file of this name.
            file.file().set_len(0).map_err(|error| StoreError::io(&path, &error))?;
            return Ok(file);
        }
    }
}

fn write(file: &mut LockedFile, bytes: &[u8]) -> Result<(), StoreError> {
    let written = file.file().write_all(bytes);
    written.map_err(|error| StoreError::io(file.path(), &error))
}

/// Makes a spooled file the file of the value with this hash.
fn keep(location: &JournalLocation, mut file: LockedFile, hash: &Hash) -> Result<(), StoreError> {
    let path = location.value_file(hash).ok_or(StoreError::NoSuchValue { hash: *hash })?;
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    create_folders(&folder)?;
    file.file().sync_all().map_err(|error| StoreError::io(file.path(), &error))?;
    file.keep_as(&path).map_err(|error| StoreError::io(&path, &error))?;
    // The folder of values, and the one above it, may be new as well.
    folder.ancestors().take(3).try_for_each(sync_folder)
}
