//! The errors of a journal, as data, and the wording of each of them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::names::{Hash, LAST, RunId, Seq};

/// Why an operation on the store failed. A failed write is final: every later write of the same store fails with the
/// same error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what the variants say")]
pub enum StoreError {
    /// There is no journal in this folder.
    NoJournal { folder: PathBuf },
    /// The path of the folder is too long by so many bytes.
    LongPath { folder: PathBuf, excess: usize },
    /// The file is not a journal.
    NotAJournal { file: PathBuf },
    /// A newer program wrote the journal.
    Newer { found: i64, known: i64 },
    /// The journal cannot be trusted.
    Damaged { what: String },
    /// The journal was removed or replaced while this process wrote it.
    Vanished { file: PathBuf },
    /// An event is missing, was altered, or is in the wrong place.
    DamagedEvent { run: RunId, seq: Seq, what: String },
    /// The bytes of a value are not those that were stored.
    DamagedValue { hash: Hash },
    /// Another process drives the run. The id of that process is shown to people; nothing is decided by it.
    Busy { run: RunId, pid: Option<u32> },
    /// Another process appended to a run that this one drives: its lease was removed by hand.
    Overtaken { run: RunId },
    /// Another process drives a run that is kept elsewhere: it was faster, and may be on another machine.
    Fenced { run: RunId, by: Option<String> },
    /// What is kept elsewhere of a run cannot be trusted.
    DamagedSegments { run: RunId, what: String },
    /// What is kept elsewhere of a run, and what is here, went on in two ways from this event on; 0 is its beginning.
    Forked { run: RunId, seq: Seq },
    /// What is kept elsewhere of a run cannot be read or written now.
    ReplicaUnavailable { run: RunId, why: String },
    /// The id of a new run is taken.
    RunExists { run: RunId },
    /// No run has this id or prefix.
    NoSuchRun { name: String },
    /// Several runs have this prefix.
    Ambiguous { name: String, runs: Vec<RunId> },
    /// The run has no event of this number.
    NoSuchEvent { run: RunId, seq: Seq },
    /// The journal has no such value.
    NoSuchValue { hash: Hash },
    /// The text cannot be the id of a run.
    BadRunId { text: String },
    /// A text of an event is larger than the journal takes; large values are stored by hash.
    TooLarge { bytes: usize, limit: usize },
    /// The disk is full.
    Full,
    /// The journal cannot be written.
    ReadOnly { what: String },
    /// Reading or writing failed.
    Io { what: String },
    /// Another process kept the journal locked for too long.
    Locked,
    /// The writer stopped as if the process had been killed.
    Crashed,
    /// The store was closed.
    Closed,
}

impl StoreError {
    /// What the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoJournal { .. } => "`threadline run` creates it",
            Self::LongPath { .. } => "move the project to a folder with a shorter path",
            Self::NotAJournal { .. } => "move the file away, or use another folder",
            Self::Newer { .. } => "use the newer `threadline`",
            Self::Damaged { .. } | Self::DamagedEvent { .. } | Self::DamagedValue { .. } => {
                "restore the folder from a copy, or move it away and start again"
            }
            Self::Vanished { .. } => {
                "what it held is lost unless you bring it back; `git clean -e .threadline` leaves it alone"
            }
            Self::Busy { .. } => "wait until it ends, or stop that process first",
            Self::Overtaken { .. } => "files in `.threadline/leases` keep processes apart: leave them there",
            Self::Fenced { .. } => "it goes on there; nothing is lost, and this process has ended its part",
            Self::DamagedSegments { .. } => {
                "restore the blob store from a copy; what is there is not changed"
            }
            Self::Forked { .. } => {
                "the blob store was restored from an older copy, or this store was; remove the one that is wrong"
            }
            Self::ReplicaUnavailable { .. } => {
                "when the blob store is there again, `threadline resume` goes on"
            }
            Self::NoSuchRun { name } if name == LAST => "`threadline run FILE` starts one",
            Self::NoSuchRun { .. } => "`threadline runs` lists them",
            Self::Ambiguous { .. } => "give more of the id",
            Self::BadRunId { .. } => {
                "use at most 64 of `a-z`, `0-9` and `-`, beginning with a letter or digit"
            }
            Self::Full => "free some space, then `threadline resume`",
            Self::ReadOnly { .. } => "make the folder writable, then `threadline resume`",
            Self::Io { .. } | Self::Locked => "remove the cause, then `threadline resume`",
            _ => return None,
        })
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    /// A failed operation on a file.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let what = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly { what },
            _ => Self::Io { what },
        }
    }
}

/// A failed statement. The schema is compared when the journal is opened, so a statement that does not fit it, or a
/// column of a wrong type, means damage.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let what = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => Self::Full,
            Some(Code::ReadOnly | Code::PermissionDenied) => Self::ReadOnly { what },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Locked,
            Some(Code::SystemIoFailure | Code::CannotOpen | Code::OutOfMemory | Code::NoLargeFileSupport) => {
                Self::Io { what }
            }
            _ => Self::Damaged { what },
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJournal { folder } => write!(f, "no journal in `{}`", folder.display()),
            Self::LongPath { folder, excess } => {
                let bytes = if *excess == 1 { "byte" } else { "bytes" };
                write!(f, "the path of the store is {excess} {bytes} too long: `{}`", folder.display())
            }
            Self::NotAJournal { file } => write!(f, "`{}` is not a journal", file.display()),
            Self::Newer { found, known } => {
                write!(f, "written by a newer threadline: version {found}, this one knows {known}")
            }
            Self::Damaged { what } => write!(f, "the journal is damaged: {what}"),
            Self::DamagedEvent { run, seq, what } => {
                write!(f, "the journal is damaged: event {seq} of run `{run}` {what}")
            }
            Self::Vanished { file } => {
                write!(f, "`{}` was removed or replaced while the run was writing it", file.display())
            }
            Self::DamagedValue { hash } => write!(f, "the journal is damaged: value `{hash}` was altered"),
            Self::Busy { run, pid: Some(pid) } => write!(f, "process {pid} drives run `{run}`"),
            Self::Busy { run, pid: None } => write!(f, "another process drives run `{run}`"),
            Self::Overtaken { run } => {
                write!(f, "another process drives run `{run}`, too: the lease of this one was removed")
            }
            Self::Fenced { run, by: Some(by) } => {
                write!(f, "another coordinator, `{}`, drives run `{run}` now", by.escape_debug())
            }
            Self::Fenced { run, by: None } => write!(f, "another coordinator drives run `{run}` now"),
            Self::DamagedSegments { run, what } => {
                write!(f, "run `{run}` cannot be read from the blob store: {what}")
            }
            Self::Forked { run, seq } => {
                write!(f, "run `{run}` is not the same here and in the blob store, from event {seq} on")
            }
            Self::ReplicaUnavailable { run, why } => {
                write!(f, "the blob store of run `{run}` cannot be used: {why}")
            }
            Self::RunExists { run } => write!(f, "a run `{run}` already exists"),
            Self::NoSuchRun { name } if name == LAST => f.write_str("the project has no run yet"),
            Self::NoSuchRun { name } => write!(f, "no run `{name}`"),
            Self::Ambiguous { name, runs } => {
                write!(f, "`{name}` is a prefix of {} run ids", runs.len())?;
                for (place, run) in runs.iter().take(4).enumerate() {
                    write!(f, "{} `{run}`", if place == 0 { ":" } else { "," })?;
                }
                Ok(())
            }
            Self::NoSuchEvent { run, seq } => write!(f, "run `{run}` has no event {seq}"),
            Self::NoSuchValue { hash } => write!(f, "the journal has no value `{hash}`"),
            Self::BadRunId { text } => write!(f, "`{}` cannot be the id of a run", text.escape_debug()),
            Self::TooLarge { bytes, limit } => {
                write!(f, "an event of {bytes} bytes is too large: the limit is {limit}")
            }
            Self::Full => write!(f, "the disk is full, the journal cannot be written"),
            Self::ReadOnly { what } => write!(f, "the journal cannot be written: {what}"),
            Self::Io { what } => write!(f, "the journal cannot be read or written: {what}"),
            Self::Locked => write!(f, "another process keeps the journal locked"),
            Self::Crashed => write!(f, "the writer of the journal stopped"),
            Self::Closed => write!(f, "the journal was closed"),
        }
    }
}

impl std::error::Error for StoreError {}
