//! The write-ahead log of a journal as a file, which the writer syncs itself: SQLite would sync every transaction, and
//! most of them need only be written.

use std::fs::File;
use std::path::PathBuf;

use crate::error::StoreError;

/// The log, and what is known of it.
pub(crate) struct LogFile {
    path: PathBuf,
    /// SQLite keeps the same file for as long as a connection is open.
    file: Option<File>,
    /// The version of the data that the last transaction began with.
    version: Option<i64>,
    /// Whether everything that this process wrote is on disk, and with it all that others wrote before.
    is_synced: bool,
}

impl LogFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, version: None, is_synced: false }
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

    /// A transaction was written.
    pub(crate) fn grow(&mut self) {
        self.is_synced = false;
    }

    /// Makes everything durable that was written by now.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_synced {
            return Ok(());
        }
        let failed = |error| StoreError::io(&self.path, &error);
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(failed)?,
        };
        self.file.insert(file).sync_data().map_err(failed)?;
        self.is_synced = true;
        Ok(())
    }
}
