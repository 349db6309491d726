//! The write-ahead log of a journal as a file, which the writer syncs itself: SQLite would sync every transaction, and
//! most of them need only be written. It also notices when somebody removes the journal: SQLite would write on into
//! files that nobody can find.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// A log that is shorter than this is left as SQLite makes it: most runs are over before it is longer.
const ROOM_FROM: u64 = 64 << 10;

/// The most room that is made at once, in bytes.
const MOST_ROOM: u64 = 1 << 20;

/// No room is made in a log that is longer than this. One that has no readers is used again from its beginning before.
const ROOM_UP_TO: u64 = 16 << 20;

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
    /// The length of the file when the last transaction began.
    length: u64,
    /// Whether that transaction found no room in it, and made it longer.
    is_full: bool,
    /// Whether everything that this process wrote is on disk, and with it all that others wrote before.
    is_synced: bool,
}

impl LogFile {
    /// The log of a journal that is open.
    pub(crate) fn new(journal: PathBuf, path: PathBuf) -> Result<Self, StoreError> {
        let identity = identity(&journal).ok_or_else(|| vanished(&journal))?;
        Ok(Self {
            journal,
            identity,
            path,
            file: None,
            version: None,
            length: 0,
            is_full: false,
            is_synced: false,
        })
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
        let found = self.file()?.metadata().map_err(|error| StoreError::io(&self.path, &error))?;
        self.is_full = found.len() > self.length;
        if found.nlink() == 0 { Err(vanished(&self.path)) } else { Ok(()) }
    }

    /// Makes the file longer than the log in it, ahead of the transactions that will fill it: a sync that need not
    /// record a new length is many times faster. To be called within a transaction, while nobody else writes.
    ///
    /// The room holds zeros, which end a log for everybody who reads it.
    pub(crate) fn make_room(&mut self) {
        let Some((file, found)) = self.file.as_ref().and_then(|file| Some((file, file.metadata().ok()?)))
        else {
            return;
        };
        self.length = found.len();
        let is_full = std::mem::take(&mut self.is_full);
        if !is_full || !(ROOM_FROM..ROOM_UP_TO).contains(&self.length) {
            return;
        }
        let room = self.length.min(MOST_ROOM);
        let zeros = vec![0; usize::try_from(room).unwrap_or(0)];
        match file.write_all_at(&zeros, self.length) {
            Ok(()) => self.length += room,
            // The transaction itself may still find room on the disk, or says that there is none.
            Err(_) => drop(file.set_len(self.length)),
        }
    }

    /// The open log. There is one as soon as a transaction was written.
    fn file(&mut self) -> Result<&mut File, StoreError> {
        let open = || OpenOptions::new().read(true).write(true).open(&self.path);
        let file = self.file.take().map_or_else(open, Ok).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => vanished(&self.path),
            _ => StoreError::io(&self.path, &error),
        })?;
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
