//! The location of a journal: a folder on disk, or the memory of this process. All paths of a journal are made here,
//! its leases are taken here, and its database is opened here.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::locked_file::{self, LockedFile};
use crate::log_check;
use crate::log_file::LogFile;
use crate::names::{Hash, RunId};
use crate::project_locks::LockRequest;
use crate::schema;
use crate::spool_folder::{self, SpoolFolder};

/// The folder of a project that holds its journal.
pub const FOLDER: &str = ".threadline";

const JOURNAL: &str = "journal.db";
const LOG: &str = "journal.db-wal";
const GUARD: &str = "open.lock";
const VALUES: &str = "values";
const SPOOL: &str = "spool";

/// The maximum length of the path of a log, in bytes: SQLite has room for 512, and for names that are a little longer.
const MAX_PATH: usize = 508;

/// A connection to the database that several threads use in turn.
pub(crate) type SharedConnection = Arc<Mutex<Connection>>;

/// Locks a mutex even if a thread panicked while it held it: the data guarded here is never left half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Never closes a connection to a journal that somebody has removed: SQLite would remove the log at the same path, which
/// may be that of a new journal by now.
pub(crate) fn leave_open(connection: &SharedConnection) {
    std::mem::forget(Arc::clone(connection));
}

/// A disk for tests: it outlives the stores that are opened on it, as a disk outlives processes.
#[derive(Clone)]
pub struct MemoryDisk {
    connection: SharedConnection,
    leases: Arc<Mutex<BTreeSet<RunId>>>,
    pub(crate) locks: MemoryLocks,
}

/// The locks of runs, in memory.
pub(crate) type MemoryLocks = Arc<Mutex<BTreeMap<RunId, LockRequest>>>;

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Result<Self, StoreError> {
        let connection = Connection::open_in_memory()?;
        schema::create(&connection)?;
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
            leases: Arc::default(),
            locks: Arc::default(),
        })
    }
}

#[derive(Clone)]
pub(crate) enum JournalLocation {
    Folder(PathBuf),
    Memory(MemoryDisk),
}

/// The right to drive a run, given back when it is dropped.
pub(crate) enum LeaseHold {
    File { _lock: LockedFile },
    Memory { disk: MemoryDisk, run: RunId },
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        if let Self::Memory { disk, run } = self {
            locked(&disk.leases).remove(run);
        }
    }
}

impl JournalLocation {
    /// The location of a journal, which is created if it does not exist, and the folder of this process in it.
    pub(crate) fn create(folder: &Path) -> Result<(Self, SpoolFolder), StoreError> {
        check_length(folder)?;
        create_folders(folder)?;
        let location = Self::Folder(folder.to_owned());
        let guard = folder.join(GUARD);
        let lock = open_guard(&guard).map_err(|error| StoreError::io(&guard, &error))?;
        // Two processes that find no journal must not both make one, and none may take the new folder of another process
        // for an abandoned one.
        lock.lock().map_err(|error| StoreError::io(&guard, &error))?;
        if !folder.join(JOURNAL).exists() {
            create_journal(folder)?;
        }
        log_check::check(&folder.join(LOG))?;
        Ok((location, SpoolFolder::create(&folder.join(SPOOL))?))
    }

    /// The location of a journal that must exist.
    pub(crate) fn existing(folder: &Path) -> Result<Self, StoreError> {
        check_length(folder)?;
        if !folder.join(JOURNAL).exists() {
            check_no_log(folder)?;
            return Err(StoreError::NoJournal { folder: folder.to_owned() });
        }
        log_check::check(&folder.join(LOG))?;
        Ok(Self::Folder(folder.to_owned()))
    }

    /// Opens a connection that may write.
    pub(crate) fn open_for_writing(&self) -> Result<SharedConnection, StoreError> {
        match self {
            Self::Folder(folder) => connect(&folder.join(JOURNAL), schema::prepare_writer),
            Self::Memory(disk) => Ok(disk.connection.clone()),
        }
    }

    /// Opens a connection that only reads, also while another process writes.
    pub(crate) fn open_for_reading(&self) -> Result<SharedConnection, StoreError> {
        match self {
            Self::Folder(folder) => match connect(&folder.join(JOURNAL), schema::prepare_reader) {
                Err(_) if is_read_only(folder) => connect_read_only(folder),
                connected => connected,
            },
            Self::Memory(disk) => Ok(disk.connection.clone()),
        }
    }

    /// The log of the journal; `None` in memory.
    pub(crate) fn log_file(&self) -> Result<Option<LogFile>, StoreError> {
        match self {
            Self::Folder(folder) => LogFile::new(folder.join(JOURNAL), folder.join(LOG)).map(Some),
            Self::Memory(_) => Ok(None),
        }
    }

    /// The device and number of the journal; those of the process in memory.
    pub(crate) fn identity(&self) -> Result<String, StoreError> {
        let Self::Folder(folder) = self else { return Ok(std::process::id().to_string()) };
        let journal = folder.join(JOURNAL);
        let found = fs::metadata(&journal).map_err(|error| StoreError::io(&journal, &error))?;
        Ok(format!("{:x}-{:x}", found.dev(), found.ino()))
    }

    /// Takes the right to drive a run.
    pub(crate) fn hold(&self, run: &RunId) -> Result<LeaseHold, StoreError> {
        match self {
            Self::Folder(folder) => hold_file(&folder.join("leases"), run),
            Self::Memory(disk) => {
                if locked(&disk.leases).insert(run.clone()) {
                    return Ok(LeaseHold::Memory { disk: disk.clone(), run: run.clone() });
                }
                Err(StoreError::Busy { run: run.clone(), pid: Some(std::process::id()) })
            }
        }
    }

    /// Whether a process has the right to drive a run.
    pub(crate) fn is_held(&self, run: &RunId) -> Result<bool, StoreError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join("leases").join(run.as_str());
                locked_file::is_held(&path).map_err(|error| StoreError::io(&path, &error))
            }
            Self::Memory(disk) => Ok(locked(&disk.leases).contains(run)),
        }
    }

    /// The process that drives a run, as it signed itself.
    pub(crate) fn driving_process(&self, run: &RunId) -> Result<Option<DrivingProcess>, StoreError> {
        if !self.is_held(run)? {
            return Ok(None);
        }
        Ok(Some(match self {
            Self::Folder(folder) => {
                let lease = folder.join("leases").join(run.as_str());
                DrivingProcess { pid: locked_file::signature(&lease), lease }
            }
            Self::Memory(_) => DrivingProcess { pid: Some(std::process::id()), lease: PathBuf::new() },
        }))
    }

    /// Keeps everybody from removing values that are files; `None` in memory.
    pub(crate) fn share_values(&self) -> Result<Option<File>, StoreError> {
        self.lock_guard(File::lock_shared)
    }

    /// Keeps everybody from storing values that are files, and from opening the journal for writing; `None` in memory.
    pub(crate) fn own_values(&self) -> Result<Option<File>, StoreError> {
        self.lock_guard(File::lock)
    }

    fn lock_guard(&self, lock: fn(&File) -> io::Result<()>) -> Result<Option<File>, StoreError> {
        let Self::Folder(folder) = self else { return Ok(None) };
        let path = folder.join(GUARD);
        let failed = |error: io::Error| StoreError::io(&path, &error);
        let guard = open_guard(&path).map_err(failed)?;
        lock(&guard).map_err(failed)?;
        Ok(Some(guard))
    }

    /// The values that living processes need.
    pub(crate) fn pinned(&self) -> Result<HashSet<Hash>, StoreError> {
        match self {
            Self::Folder(folder) => spool_folder::pinned(&folder.join(SPOOL)),
            Self::Memory(_) => Ok(HashSet::new()),
        }
    }

    /// The values that are files, with their sizes.
    pub(crate) fn value_files(&self) -> Result<Vec<(Hash, u64)>, StoreError> {
        let Self::Folder(folder) = self else { return Ok(Vec::new()) };
        let values = folder.join(VALUES);
        let mut found = Vec::new();
        for part in entries(&values)? {
            for file in entries(&part)? {
                let hash = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
                // It may be removed by now.
                if let (Some(hash), Ok(known)) = (hash, fs::symlink_metadata(&file)) {
                    found.push((hash, known.len()));
                }
            }
        }
        Ok(found)
    }

    /// The number of bytes that the journal, its log and its values take.
    pub(crate) fn size(&self) -> Result<u64, StoreError> {
        let Self::Folder(folder) = self else { return Ok(0) };
        let files = [JOURNAL, LOG].map(|name| fs::metadata(folder.join(name)).map_or(0, |found| found.len()));
        let values = self.value_files()?.into_iter().map(|(_, bytes)| bytes);
        Ok(files.into_iter().chain(values).sum())
    }

    /// The file of a large value; `None` in memory.
    pub(crate) fn value_file(&self, hash: &Hash) -> Option<PathBuf> {
        let Self::Folder(folder) = self else { return None };
        let name = hash.to_string();
        Some(folder.join(VALUES).join(&name[..2]).join(name))
    }
}

/// The process that drives a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrivingProcess {
    /// Its number, as it wrote it into the file. Nobody may be signalled because of a number alone.
    pub pid: Option<u32>,
    /// The file that it keeps locked while it drives the run.
    pub lease: PathBuf,
}

/// Creates a folder and those above it, accessible to the owner only.
pub(crate) fn create_folders(folder: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| StoreError::io(folder, &error))
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| StoreError::io(folder, &error))
}

fn hold_file(leases: &Path, run: &RunId) -> Result<LeaseHold, StoreError> {
    create_folders(leases)?;
    let path = leases.join(run.as_str());
    let failed = |error| StoreError::io(&path, &error);
    let Some(mut lock) = LockedFile::acquire(&path).map_err(failed)? else {
        return Err(StoreError::Busy { run: run.clone(), pid: locked_file::signature(&path) });
    };
    lock.sign().map_err(failed)?;
    Ok(LeaseHold::File { _lock: lock })
}

/// Creates an empty journal under another name and renames it, so that an empty or truncated file is never taken for a
/// new journal.
fn create_journal(folder: &Path) -> Result<(), StoreError> {
    let journal = folder.join(JOURNAL);
    check_no_log(folder)?;
    let aside = folder.join("journal.new");
    let failed = |error: io::Error| StoreError::io(&aside, &error);
    remove_if_there(&aside)?;
    // SQLite gives its other files the mode of this one.
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).map_err(failed)?;
    file.write_all(&schema::empty_journal()?).and_then(|()| file.sync_all()).map_err(failed)?;
    let ignored = folder.join(".gitignore");
    fs::write(&ignored, "*\n").map_err(|error| StoreError::io(&ignored, &error))?;
    fs::rename(&aside, &journal).map_err(|error| StoreError::io(&journal, &error))?;
    sync_folder(folder)
}

/// Fails if there is a log though there is no journal: then somebody removed the journal.
fn check_no_log(folder: &Path) -> Result<(), StoreError> {
    let log = folder.join(LOG);
    if log.exists() {
        return Err(StoreError::damaged(format!("`{}` is there without its journal", log.display())));
    }
    Ok(())
}

fn open_guard(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// What is in a folder, nothing if it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let read = fs::read_dir(folder).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        read => read.map_err(|error| StoreError::io(folder, &error)),
    }
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, &error)),
        _ => Ok(()),
    }
}

/// Fails if SQLite cannot open files at such a path.
fn check_length(folder: &Path) -> Result<(), StoreError> {
    let bytes = folder.join(LOG).as_os_str().len();
    if bytes > MAX_PATH {
        let folder = folder.to_owned();
        return Err(StoreError::LongPath { folder, excess: bytes - MAX_PATH });
    }
    Ok(())
}

/// Whether the file system of a store cannot be written. The guard is there in every store, and nobody looks into it.
fn is_read_only(folder: &Path) -> bool {
    let opened = OpenOptions::new().write(true).open(folder.join(GUARD));
    opened.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// Opens a journal on a file system that cannot be written. SQLite cannot read a log there.
fn connect_read_only(folder: &Path) -> Result<SharedConnection, StoreError> {
    let log = folder.join(LOG);
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let what = format!("`{}` has to be taken into the journal first", log.display());
        return Err(StoreError::ReadOnly { what });
    }
    let journal = folder.join(JOURNAL);
    // In a URI, these three and no others have a meaning in a path.
    let path = journal.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)?;
    schema::check_format(&connection, &journal)?;
    schema::prepare_reader(&connection)?;
    Ok(Arc::new(Mutex::new(connection)))
}

/// A connection is used by one thread at a time, and file names are not read as URIs.
fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn connect(
    file: &Path,
    prepare: impl FnOnce(&Connection) -> Result<(), StoreError>,
) -> Result<SharedConnection, StoreError> {
    let connection = Connection::open_with_flags(file, flags())?;
    schema::check(&connection, file)?;
    prepare(&connection)?;
    Ok(Arc::new(Mutex::new(connection)))
}
