//! What runs have for themselves: paths and names that no other run may use meanwhile.
//!
//! Each run has a file of its own, locked by the operating system for as long as the claim holds, so that it ends with
//! the process however that ends. Who takes or looks has the guard meanwhile: nobody sees half a claim, and no two take
//! what only one may have. Runs that are called in one run share what they have.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ecow::EcoString;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use crate::error::StoreError;
use crate::lock::LockedFile;
use crate::names::RunId;
use crate::place::{Place, folders, locked};

/// What a run can have for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// A file or folder with all that is below it; an absolute path without links. It need not exist.
    Path(PathBuf),
    /// A name, the same in the whole project.
    Name(EcoString),
}

impl Claimed {
    /// Whether two runs cannot have both.
    pub fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => one.starts_with(other) || other.starts_with(one),
            (Self::Name(one), Self::Name(other)) => one == other,
            _ => false,
        }
    }
}

/// What a run wants for itself.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The run.
    pub run: RunId,
    /// The name of its workflow.
    pub workflow: EcoString,
    /// Since when it has that.
    pub since: EcoString,
    /// It.
    pub of: Vec<Claimed>,
}

/// Another run has what is wanted.
#[derive(Debug, Clone)]
pub struct Taken {
    /// What is wanted.
    pub wanted: Claimed,
    /// What the other run has.
    pub has: Claimed,
    /// Who.
    pub by: Claim,
    /// The number of its process, a help for people.
    pub pid: Option<u32>,
}

/// What a run has for itself, until this is dropped.
pub struct Holding {
    _hold: Option<Hold>,
}

enum Hold {
    File { _lock: LockedFile },
    Memory { claims: crate::place::MemoryClaims, run: RunId },
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Self::Memory { claims, run } = self {
            locked(claims).remove(run);
        }
    }
}

impl Holding {
    /// Of a run that wants nothing.
    pub const NOTHING: Self = Self { _hold: None };
}

impl Place {
    /// Takes what a run wants, all of it or nothing. Of a run whose process died with a claim, `died` is told before
    /// that is taken over.
    pub(crate) fn claim(
        &self,
        claim: &Claim,
        mut died: impl FnMut(&RunId),
    ) -> Result<Result<Holding, Box<Taken>>, StoreError> {
        if claim.of.is_empty() {
            return Ok(Ok(Holding::NOTHING));
        }
        match self {
            Self::Memory(disk) => {
                let mut claims = locked(&disk.claims);
                let taken = claims.values().find_map(|other| meet(claim, other, Some(std::process::id())));
                if let Some(taken) = taken {
                    return Ok(Err(Box::new(taken)));
                }
                claims.insert(claim.run.clone(), claim.clone());
                let hold = Hold::Memory { claims: disk.claims.clone(), run: claim.run.clone() };
                Ok(Ok(Holding { _hold: Some(hold) }))
            }
            Self::Folder(folder) => self.claim_file(folder, claim, &mut died),
        }
    }

    fn claim_file(
        &self,
        folder: &Path,
        claim: &Claim,
        died: &mut dyn FnMut(&RunId),
    ) -> Result<Result<Holding, Box<Taken>>, StoreError> {
        let claims = folder.join("claims");
        folders(&claims)?;
        let guard = folder.join("claims.lock");
        let failed = |error| StoreError::io(&guard, &error);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&guard);
        let file = file.map_err(failed)?;
        file.lock().map_err(failed)?;
        let entries = fs::read_dir(&claims).map_err(|error| StoreError::io(&claims, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| StoreError::io(&claims, &error))?.path();
            // What is not the name of a run is nobody's claim.
            let run = path.file_name().and_then(|name| RunId::new(name.to_str()?).ok());
            let Some(run) = run else { continue };
            let failed = |error| StoreError::io(&path, &error);
            if let Some(left) = LockedFile::acquire(&path).map_err(failed)? {
                self.tell_died(&run, died)?;
                drop(left);
                continue;
            }
            let text = fs::read_to_string(&path).map_err(failed)?;
            let Some((other, pid)) = read(&text, run) else {
                return Err(StoreError::damaged(format!("`{}` is no claim", path.display())));
            };
            if let Some(taken) = meet(claim, &other, pid) {
                return Ok(Err(Box::new(taken)));
            }
        }
        let path = claims.join(claim.run.as_str());
        let failed = |error| StoreError::io(&path, &error);
        let Some(mut lock) = LockedFile::acquire(&path).map_err(failed)? else {
            return Err(StoreError::Busy { run: claim.run.clone(), pid: None });
        };
        let text = written(claim);
        lock.file().set_len(0).and_then(|()| lock.file().write_all(text.as_bytes())).map_err(failed)?;
        Ok(Ok(Holding { _hold: Some(Hold::File { _lock: lock }) }))
    }

    /// A process died with a claim. Who goes on with its run meanwhile sees to what it left.
    fn tell_died(&self, run: &RunId, died: &mut dyn FnMut(&RunId)) -> Result<(), StoreError> {
        let started = RunId::new(run.started())?;
        match self.hold(&started) {
            Ok(_held) => died(&started),
            Err(StoreError::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// What two runs both want. One that is called in the other has what that has.
fn meet(claim: &Claim, other: &Claim, pid: Option<u32>) -> Option<Taken> {
    if claim.run.started() == other.run.started() {
        return None;
    }
    claim.of.iter().find_map(|wanted| {
        let has = other.of.iter().find(|has| has.meets(wanted))?;
        Some(Taken { wanted: wanted.clone(), has: has.clone(), by: other.clone(), pid })
    })
}

/// A claim as it stands in its file.
fn written(claim: &Claim) -> String {
    let of = claim.of.iter().map(|claimed| match claimed {
        // A path of a workflow is text.
        Claimed::Path(path) => Value::record([("path", Value::from(path.to_string_lossy().as_ref()))]),
        Claimed::Name(name) => Value::record([("name", Value::from(name.as_str()))]),
    });
    let fields = [
        ("workflow", Value::from(claim.workflow.as_str())),
        ("since", Value::from(claim.since.as_str())),
        ("pid", Value::from(std::process::id())),
        ("of", Value::sequence(of)),
    ];
    Value::record(fields).to_json(JsonStyle::Compact)
}

/// The claim of a file, and the number of the process that wrote it.
fn read(text: &str, run: RunId) -> Option<(Claim, Option<u32>)> {
    let value = data::json::read_value(text, &Limits::DEFAULT).ok()?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(EcoString::from);
    let claimed = |value: &Value| {
        let path = value.get("path").and_then(Value::as_str).map(|path| Claimed::Path(path.into()));
        path.or_else(|| Some(Claimed::Name(value.get("name")?.as_str()?.into())))
    };
    let of: Option<Vec<_>> = value.get("of")?.as_list()?.iter().map(claimed).collect();
    let pid = value.get("pid").and_then(Value::as_i64).and_then(|pid| u32::try_from(pid).ok());
    Some((Claim { run, workflow: field("workflow")?, since: field("since")?, of: of? }, pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_meets_what_is_below_it_and_above_it_and_nothing_beside_it() {
        let path = |path: &str| Claimed::Path(path.into());
        let name = |name: &str| Claimed::Name(name.into());
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
            assert_eq!((one.meets(&other), other.meets(&one)), (meets, meets), "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let run = RunId::new("abc").unwrap();
        let of = vec![Claimed::Path("/p/a b\n\"c".into()), Claimed::Name("release".into())];
        let claim = Claim { run: run.clone(), workflow: "w".into(), since: "now".into(), of };
        let (read, pid) = read(&written(&claim), run).unwrap();
        assert_eq!((read.of, read.workflow, read.since), (claim.of, claim.workflow, claim.since));
        assert_eq!(pid, Some(std::process::id()));
    }
}
