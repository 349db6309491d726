//! What a run has in the repository, found again: what is in flight, what was kept, and what is left over and
//! goes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use super::error::WorktreeError;
use super::git::{object, path};
use super::names::BranchNames;
use super::repository::{Changes, Repository, is_same};
use super::stale_lock::SeenLock;
use super::step_state::StepState;
use super::{ItemPlace, Worktrees, WorktreesState, short};
use crate::project::replace;

/// The file that says where a run began.
const BEGUN: &str = "begun";

/// Its first line. The number changes with the format.
const VERSION: &str = "threadline worktrees 1";

/// What git keeps about a worktree when nothing special is going on there: no rebase, no lock, no setting of
/// its own.
const PLAIN: &[&str] =
    &["HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "commondir", "gitdir", "index", "logs", "refs"];

/// Where a run began.
#[derive(Debug)]
pub(super) struct Begun {
    /// The user's commit.
    pub(super) base: String,
    /// The short name of the user's branch.
    pub(super) original: Option<OsString>,
}

impl Begun {
    fn read(folder: &Path) -> Result<Option<Self>, WorktreeError> {
        let file = folder.join(BEGUN);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WorktreeError::io(&file, &error)),
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let known = lines.next() == Some(VERSION.as_bytes());
        match (known, lines.next().and_then(object), lines.next()) {
            (true, Some(base), Some(original)) => {
                let original = (!original.is_empty()).then(|| OsStr::from_bytes(original).to_owned());
                Ok(Some(Self { base, original }))
            }
            _ => Err(WorktreeError::Io { path: file, what: "not written by this version".into() }),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), WorktreeError> {
        let file = folder.join(BEGUN);
        let original = self.original.as_deref().unwrap_or_default();
        let content =
            [VERSION.as_bytes(), b"\n", self.base.as_bytes(), b"\n", original.as_bytes(), b"\n"].concat();
        replace(&file, &content, None).map_err(|error| WorktreeError::io(&file, &error))
    }

    /// Forgets that the run began. The folder goes with it.
    pub(super) fn forget(folder: &Path) -> Result<(), WorktreeError> {
        remove_all(folder)
    }
}

pub(super) fn open(
    mut repository: Repository,
    names: BranchNames,
    folder: &Path,
    earlier: Option<(BranchNames, &Path)>,
) -> Result<Worktrees, WorktreeError> {
    let Some(commit) = repository.commit("HEAD")? else {
        return Err(WorktreeError::NoCommits { folder: repository.top });
    };
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    let folder = made.map_err(|error| WorktreeError::io(folder, &error))?;
    repository.git.spool(folder.clone());
    remove_locks(&repository, &names)?;
    let full = BranchNames::full(&names.branch);
    if let Some(listed) =
        repository.listed()?.into_iter().find(|listed| listed.branch.as_ref() == Some(&full))
    {
        return Err(WorktreeError::BranchInUse { branch: names.branch, folder: listed.folder });
    }
    let begun = match (Begun::read(&folder)?, repository.commit(&full)?) {
        (Some(begun), Some(_)) => begun,
        (Some(begun), None) => {
            return Err(WorktreeError::BranchGone { branch: names.branch, base: begun.base });
        }
        (None, found) => {
            let start = earlier.map(|(names, folder)| end_of(&repository, &names, folder)).transpose()?;
            let start = if let Some(start) = start.flatten() {
                start
            } else {
                let original = repository.branch()?.as_deref().and_then(short);
                (commit.clone(), Begun { base: commit, original })
            };
            begin(&repository, &names, &folder, start, found.as_deref())?
        }
    };
    if SeenLock::look(&repository).is_some() {
        // Else every item would wait for it. To delete what is not there takes the lock, and changes nothing.
        let nothing = Changes::default().delete(format!("{}.none", names.branch));
        repository.change("take the lock on branches", &nothing)?;
    }
    let worktrees = Worktrees { repository, names, folder, begun, state: Mutex::default() };
    tidy(&worktrees, &mut worktrees.state())?;
    Ok(worktrees)
}

/// Makes the run's branch. One that has no commits of its own is what a kill at this very place left.
fn begin(
    repository: &Repository,
    names: &BranchNames,
    folder: &Path,
    (commit, begun): (String, Begun),
    found: Option<&str>,
) -> Result<Begun, WorktreeError> {
    let changes = match found {
        None => Changes::default().create(&names.branch, &commit),
        Some(found) if repository.contains(&commit, found)? => {
            Changes::default().update(&names.branch, &commit, found)
        }
        Some(_) => return Err(WorktreeError::BranchTaken { branch: names.branch.clone() }),
    };
    repository.change("make the run's branch", &changes)?;
    begun.write(folder)?;
    Ok(begun)
}

/// The last commit of another run, and where that run began; nothing if it has left no commits.
fn end_of(
    repository: &Repository,
    names: &BranchNames,
    folder: &Path,
) -> Result<Option<(String, Begun)>, WorktreeError> {
    let commit = repository.commit(BranchNames::full(&names.branch))?;
    Ok(commit.zip(Begun::read(folder)?))
}

/// Finds what is in flight and removes every other worktree, with branches that have no work of their own.
pub(super) fn tidy(worktrees: &Worktrees, state: &mut WorktreesState) -> Result<(), WorktreeError> {
    let Worktrees { repository, names, folder, .. } = worktrees;
    let mut found = WorktreesState::default();
    for listed in repository.listed()? {
        if listed.folder.parent() != Some(folder) {
            continue;
        }
        match in_flight(repository, names, &listed.folder, listed.branch.as_deref())? {
            Some((item, branch)) => {
                // Whoever merges an item that was in flight before may have done so already.
                let found_here = state.in_flight.get(&item).is_none_or(|place| place.found);
                let place = ItemPlace { worktree: listed.folder, branch, found: found_here };
                found.in_flight.insert(item, place);
            }
            None => remove_worktree(repository, &listed.folder)?,
        }
    }
    let used = |name: &OsStr| found.in_flight.values().any(|place| place.worktree.file_name() == Some(name));
    for name in entries(folder)? {
        let is_state = StepState::item(&name).is_some_and(|item| found.in_flight.contains_key(&item));
        if name != BEGUN && !used(&name) && !is_state {
            remove_all(&folder.join(name))?;
        }
    }
    let known_to_git = repository.shared.join("worktrees");
    for name in entries(&known_to_git)? {
        let kept = known_to_git.join(&name);
        if names.number(&name).is_some() && !used(&name) && !leads_elsewhere(&kept, folder) {
            remove_all(&kept)?;
        }
    }
    let numbers = found.in_flight.values().filter_map(|place| names.number(place.worktree.file_name()?));
    found.next = numbers.max().map_or(0, |number| number + 1);

    let head = worktrees.head()?;
    let without_work = repository.branches(&names.of_items(), Some(&head))?;
    let working = |branch: &String| found.in_flight.values().any(|place| place.branch == *branch);
    let left = without_work.iter().filter(|branch| names.item(branch).is_some() && !working(branch));
    let changes = left.fold(Changes::default(), Changes::delete);
    if !changes.is_empty() {
        repository.change("remove branches without work", &changes)?;
    }
    *state = found;
    Ok(())
}

/// The item that is in flight in a worktree, and its branch.
fn in_flight(
    repository: &Repository,
    names: &BranchNames,
    worktree: &Path,
    branch: Option<&OsStr>,
) -> Result<Option<(u64, String)>, WorktreeError> {
    let short = branch.and_then(short).and_then(|short| short.into_string().ok());
    let Some((branch, (item, _))) = short.and_then(|short| names.item(&short).map(|item| (short, item)))
    else {
        return Ok(None);
    };
    // Without its files it cannot go on; without its branch it was merged or abandoned just before a kill.
    let whole = worktree.join(".git").is_file() && repository.commit(BranchNames::full(&branch))?.is_some();
    Ok(whole.then_some((item, branch)))
}

/// Removes a worktree that git knows, whatever is in it.
pub(super) fn remove_worktree(repository: &Repository, worktree: &Path) -> Result<(), WorktreeError> {
    remove_all(worktree)?;
    let call = repository.call("remove a worktree");
    call.args(["worktree", "remove", "--force", "--force", "--"]).arg(worktree).done()
}

/// Ends a rebase or whatever else was going on in a worktree, and leaves its files as they are.
pub(super) fn end_rebase(repository: &Repository, worktree: &Path) -> Result<(), WorktreeError> {
    let kept = repository.kept(worktree);
    ["rebase-merge", "rebase-apply", "sequencer"].iter().try_for_each(|name| remove_all(&kept.join(name)))
}

/// Whether a worktree is as git makes it, so that a reset is all that the next item needs.
pub(super) fn is_plain(repository: &Repository, worktree: &Path) -> bool {
    let Ok(link) = fs::read(worktree.join(".git")) else { return false };
    let Some(link) = link.trim_ascii_end().strip_prefix(b"gitdir: ") else { return false };
    let kept = repository.kept(worktree);
    if !is_same(&worktree.join(path(link)), &kept) {
        return false;
    }
    let (Ok(names), Ok(references)) = (entries(&kept), entries(&kept.join("refs"))) else { return false };
    references.is_empty() && names.iter().all(|name| PLAIN.iter().any(|plain| name == plain))
}

/// Whether what git keeps about a worktree is of one that is not in this folder.
fn leads_elsewhere(kept: &Path, folder: &Path) -> bool {
    let Ok(mut link) = fs::read(kept.join("gitdir")) else { return false };
    link.truncate(link.trim_ascii_end().len());
    let link = kept.join(OsString::from_vec(link));
    let parent = link.parent().and_then(Path::parent);
    parent.is_some_and(|parent| parent.canonicalize().as_deref().unwrap_or(parent) != folder)
}

/// Removes the locks that a killed git left on what belongs to this run alone.
fn remove_locks(repository: &Repository, names: &BranchNames) -> Result<(), WorktreeError> {
    let branches = repository.shared.join("refs/heads");
    let own = branches.join(&names.branch);
    let around = own.parent().unwrap_or(&branches);
    for name in entries(around)? {
        let locked = name.to_str().and_then(|name| name.strip_suffix(".lock"));
        let locked = locked.map(|locked| format!("threadline/{locked}"));
        if locked.is_some_and(|locked| locked == names.branch || names.item(&locked).is_some()) {
            remove_all(&around.join(name))?;
        }
    }
    let known_to_git = repository.shared.join("worktrees");
    for name in entries(&known_to_git)?.into_iter().filter(|name| names.number(name).is_some()) {
        let kept = known_to_git.join(name);
        for name in entries(&kept)?.into_iter().filter(|name| name.as_bytes().ends_with(b".lock")) {
            remove_all(&kept.join(name))?;
        }
    }
    Ok(())
}

/// The names in a folder, none if it is not there.
fn entries(folder: &Path) -> Result<Vec<OsString>, WorktreeError> {
    let read: io::Result<Vec<OsString>> =
        fs::read_dir(folder).and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect());
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        read => read.map_err(|error| WorktreeError::io(folder, &error)),
    }
}

/// Removes a file or folder with all that is in it, also what the user may not write but may remove.
pub(super) fn remove_all(path: &Path) -> Result<(), WorktreeError> {
    let remove = || match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    let removed = match remove() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path);
            remove()
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(WorktreeError::io(path, &error)),
        _ => Ok(()),
    }
}

/// Makes all folders writable. What fails here is told by the removal that follows.
fn make_writable(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}
