//! The locks of runs: paths and names of a project that no other run may use at the same time.
//!
//! Each run has a file of its own with its locks. The operating system locks that file until the process ends, however
//! it ends. A process takes or inspects locks only while it holds the guard, so no process sees half a request, and no
//! two take the same thing. A run shares its locks with the runs that it calls.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ecow::EcoString;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use crate::error::StoreError;
use crate::location::{JournalLocation, create_folders, locked};
use crate::locked_file::LockedFile;
use crate::names::RunId;

/// What a run can lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockTarget {
    /// A file or folder with all that is below it; an absolute path without links. It need not exist.
    Path(PathBuf),
    /// A name, which means the same in the whole project.
    Name(EcoString),
}

impl LockTarget {
    /// Whether two runs cannot lock both.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => one.starts_with(other) || other.starts_with(one),
            (Self::Name(one), Self::Name(other)) => one == other,
            _ => false,
        }
    }
}

/// What a run wants to lock.
#[derive(Debug, Clone)]
pub struct LockRequest {
    /// The run that asks.
    pub run: RunId,
    /// The name of its workflow.
    pub workflow: EcoString,
    /// The time since when the run has its locks.
    pub since: EcoString,
    /// What is to be locked.
    pub targets: Vec<LockTarget>,
}

/// Another run has locked what a run wants.
#[derive(Debug, Clone)]
pub struct LockConflict {
    /// What is wanted.
    pub wanted: LockTarget,
    /// What the other run has locked.
    pub locked: LockTarget,
    /// The locks of the other run.
    pub by: LockRequest,
    /// The process of the other run, to be shown to people.
    pub pid: Option<u32>,
}

/// The locks of a run, released when this is dropped.
pub struct ProjectLocks {
    _hold: Option<LockHold>,
}

enum LockHold {
    File { _lock: LockedFile },
    Memory { locks: crate::location::MemoryLocks, run: RunId },
}

impl Drop for LockHold {
    fn drop(&mut self) {
        if let Self::Memory { locks, run } = self {
            locked(locks).remove(run);
        }
    }
}

impl ProjectLocks {
    /// The locks of a run that wants none.
    pub const NONE: Self = Self { _hold: None };
}

impl JournalLocation {
    /// Takes all locks that a run wants, or none. If the process of another run died with its locks, `died` is called
    /// with that run before its locks are released.
    pub(crate) fn lock(
        &self,
        request: &LockRequest,
        mut died: impl FnMut(&RunId),
    ) -> Result<Result<ProjectLocks, Box<LockConflict>>, StoreError> {
        if request.targets.is_empty() {
            return Ok(Ok(ProjectLocks::NONE));
        }
        match self {
            Self::Memory(disk) => {
                let mut locks = locked(&disk.locks);
                let taken =
                    locks.values().find_map(|other| find_conflict(request, other, Some(std::process::id())));
                if let Some(taken) = taken {
                    return Ok(Err(Box::new(taken)));
                }
                locks.insert(request.run.clone(), request.clone());
                let hold = LockHold::Memory { locks: disk.locks.clone(), run: request.run.clone() };
                Ok(Ok(ProjectLocks { _hold: Some(hold) }))
            }
            Self::Folder(folder) => self.lock_in_folder(folder, request, &mut died),
        }
    }

    fn lock_in_folder(
        &self,
        folder: &Path,
        request: &LockRequest,
        died: &mut dyn FnMut(&RunId),
    ) -> Result<Result<ProjectLocks, Box<LockConflict>>, StoreError> {
        let requests = folder.join("claims");
        create_folders(&requests)?;
        let guard = folder.join("claims.lock");
        let failed = |error| StoreError::io(&guard, &error);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&guard);
        let file = file.map_err(failed)?;
        file.lock().map_err(failed)?;
        let entries = fs::read_dir(&requests).map_err(|error| StoreError::io(&requests, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| StoreError::io(&requests, &error))?.path();
            // What is not the name of a run is not a file of locks.
            let run = path.file_name().and_then(|name| RunId::new(name.to_str()?).ok());
            let Some(run) = run else { continue };
            let failed = |error| StoreError::io(&path, &error);
            if let Some(left) = LockedFile::acquire(&path).map_err(failed)? {
                self.report_death(&run, died)?;
                drop(left);
                continue;
            }
            let text = fs::read_to_string(&path).map_err(failed)?;
            let Some((other, pid)) = read_request(&text, run) else {
                return Err(StoreError::damaged(format!("`{}` is not a file of locks", path.display())));
            };
            if let Some(taken) = find_conflict(request, &other, pid) {
                return Ok(Err(Box::new(taken)));
            }
        }
        let path = requests.join(request.run.as_str());
        let failed = |error| StoreError::io(&path, &error);
        let Some(mut lock) = LockedFile::acquire(&path).map_err(failed)? else {
            return Err(StoreError::Busy { run: request.run.clone(), pid: None });
        };
        let text = write_request(request);
        lock.file().set_len(0).and_then(|()| lock.file().write_all(text.as_bytes())).map_err(failed)?;
        Ok(Ok(ProjectLocks { _hold: Some(LockHold::File { _lock: lock }) }))
    }

    /// Calls `died` for a run whose process died with its locks, unless another process has resumed that run.
    fn report_death(&self, run: &RunId, died: &mut dyn FnMut(&RunId)) -> Result<(), StoreError> {
        let started = RunId::new(run.started())?;
        match self.hold(&started) {
            Ok(_held) => died(&started),
            Err(StoreError::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The first lock that two runs both want. Runs of one call tree never conflict.
fn find_conflict(request: &LockRequest, other: &LockRequest, pid: Option<u32>) -> Option<LockConflict> {
    if request.run.started() == other.run.started() {
        return None;
    }
    request.targets.iter().find_map(|wanted| {
        let has = other.targets.iter().find(|has| has.conflicts_with(wanted))?;
        Some(LockConflict { wanted: wanted.clone(), locked: has.clone(), by: other.clone(), pid })
    })
}

/// A request as its file stores it.
fn write_request(request: &LockRequest) -> String {
    let of = request.targets.iter().map(|target| match target {
        // A path of a workflow is text.
        LockTarget::Path(path) => Value::record([("path", Value::from(path.to_string_lossy().as_ref()))]),
        LockTarget::Name(name) => Value::record([("name", Value::from(name.as_str()))]),
    });
    let fields = [
        ("workflow", Value::from(request.workflow.as_str())),
        ("since", Value::from(request.since.as_str())),
        ("pid", Value::from(std::process::id())),
        ("of", Value::sequence(of)),
    ];
    Value::record(fields).to_json(JsonStyle::Compact)
}

/// The request in a file, and the process that wrote it.
fn read_request(text: &str, run: RunId) -> Option<(LockRequest, Option<u32>)> {
    let value = data::json::read_value(text, &Limits::DEFAULT).ok()?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(EcoString::from);
    let target = |value: &Value| {
        let path = value.get("path").and_then(Value::as_str).map(|path| LockTarget::Path(path.into()));
        path.or_else(|| Some(LockTarget::Name(value.get("name")?.as_str()?.into())))
    };
    let of: Option<Vec<_>> = value.get("of")?.as_list()?.iter().map(target).collect();
    let pid = value.get("pid").and_then(Value::as_i64).and_then(|pid| u32::try_from(pid).ok());
    Some((LockRequest { run, workflow: field("workflow")?, since: field("since")?, targets: of? }, pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_meets_what_is_below_it_and_above_it_and_nothing_beside_it() {
        let path = |path: &str| LockTarget::Path(path.into());
        let name = |name: &str| LockTarget::Name(name.into());
        let cases = [
            (path("/p/src"), path("/p/src"), true),
            (path("/p/src"), path("/p/src/main.rs"), true),
            (path("/p"), path("/p/src/main.rs"), true),
            (path("/p/src"), path("/p/src-old"), false),
            (path("/p/a"), path("/p/b"), false),
            (name("release"), name("release"), true),
            (name("release"), name("release-2"), false),
            (name("/p"), path("/p"), false),
        ];
        for (one, other, meets) in cases {
            assert_eq!(
                (one.conflicts_with(&other), other.conflicts_with(&one)),
                (meets, meets),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let run = RunId::new("abc").unwrap();
        let of = vec![LockTarget::Path("/p/a b\n\"c".into()), LockTarget::Name("release".into())];
        let request =
            LockRequest { run: run.clone(), workflow: "w".into(), since: "now".into(), targets: of };
        let (read, pid) = read_request(&write_request(&request), run).unwrap();
        assert_eq!(
            (read.targets, read.workflow, read.since),
            (request.targets, request.workflow, request.since)
        );
        assert_eq!(pid, Some(std::process::id()));
    }
}
