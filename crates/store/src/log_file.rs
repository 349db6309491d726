//! The write-ahead log of a journal as a file, which the writer syncs itself: SQLite would sync every transaction, and
//! most of them need only be written. It also notices when somebody removes the journal: SQLite would write on into
//! files that nobody can find.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// The log, and what is known of it.
pub(crate) struct LogFile {
    /// The main file of the journal, with its device and number.
    journal: PathBuf,
    identity: (u64, u64),
    path: PathBuf,
    /// SQLite keeps the same file for as long as a connection is open.
    file: Option<File>,
    /// The version of the data that the last transaction began with.
    version: Option<i64>,
    /// Whether everything that this process wrote is on disk, and with it all that others wrote before.
    is_synced: bool,
}

impl LogFile {
    /// The log of a journal that is open.
    pub(crate) fn new(journal: PathBuf, path: PathBuf) -> Result<Self, StoreError> {
        let identity = identity(&journal).ok_or_else(|| vanished(&journal))?;
        Ok(Self { journal, identity, path, file: None, version: None, is_synced: false })
    }

    /// A transaction begins, with this version of the data: another one than before if another process wrote meanwhile.
    pub(crate) fn begin(&mut self, version: i64) {
        self.is_synced &= self.version == Some(version);
        self.version = Some(version);
    }

    /// Whether everything before the transaction that began is on disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// A transaction was written. Fails if it was written into files that somebody has removed.
    pub(crate) fn grow(&mut self) -> Result<(), StoreError> {
        self.is_synced = false;
        if identity(&self.journal) != Some(self.identity) {
            return Err(vanished(&self.journal));
        }
        let links = self.file()?.metadata().map_err(|error| StoreError::io(&self.path, &error))?.nlink();
        if links == 0 { Err(vanished(&self.path)) } else { Ok(()) }
    }

    /// The open log. There is one as soon as a transaction was written.
    fn file(&mut self) -> Result<&mut File, StoreError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(|_| vanished(&self.path))?,
        };
        Ok(self.file.insert(file))
    }

    /// Makes everything durable that was written by now.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_synced {
            return Ok(());
        }
        let synced = self.file()?.sync_data();
        synced.map_err(|error| StoreError::io(&self.path, &error))?;
        self.is_synced = true;
        Ok(())
    }
}

/// The device and number of a file, if it is there.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn vanished(file: &Path) -> StoreError {
    StoreError::Vanished { file: file.to_owned() }
}
