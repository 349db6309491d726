//! What runs that are to be removed have in the repository: branches, and worktrees of items that were in flight. It is
//! looked at all at once, because most runs have nothing there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use threadline_store::RunId;

use super::error::WorktreeError;
use super::names::BranchNames;
use super::repository::{Changes, ListedWorktree, Repository};
use super::short;
use super::tidy::{remove_all, remove_worktree};
use crate::process::Environment;

/// How the branches of all runs begin.
const BRANCHES: &str = "threadline/";

/// The branches and worktrees of the runs of a store.
#[derive(Debug)]
pub struct RunRemains {
    /// None if the project is in no repository.
    repository: Option<Repository>,
    /// Where the worktrees of all runs are.
    folder: PathBuf,
    /// The branches of each run.
    branches: BTreeMap<RunId, Vec<String>>,
    /// The runs that have a folder for worktrees.
    folders: BTreeSet<RunId>,
}

/// Work that is nowhere else, and would be gone with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmergedWork {
    /// A branch has commits that no other branch, tag or remote has.
    Commits {
        /// The branch, one of several.
        branch: String,
        /// How many commits, on all branches of the run.
        count: u64,
    },
    /// A worktree has changes that are in no commit.
    Files {
        /// The folder of the worktree.
        worktree: PathBuf,
        /// How many files.
        count: usize,
    },
}

impl RunRemains {
    /// Looks at the repository around a folder, and at the folder that holds the worktrees of all runs.
    pub fn look(root: &Path, folder: &Path, environment: &Environment) -> Result<Self, WorktreeError> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let folders = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders =
            folders.filter_map(|entry| entry.file_name().to_str().and_then(|name| RunId::new(name).ok()));
        let folders: BTreeSet<RunId> = folders.collect();
        let is_repository = root.ancestors().any(|above| above.join(".git").exists());
        let repository = match is_repository.then(|| Repository::of(root, environment, "")) {
            None => None,
            // Without git, or where git uses no repository, there are no branches.
            Some(Err(WorktreeError::NoGit { .. } | WorktreeError::NoRepository { .. }))
                if folders.is_empty() =>
            {
                None
            }
            Some(repository) => Some(repository?),
        };
        let mut branches: BTreeMap<RunId, Vec<String>> = BTreeMap::new();
        if let Some(repository) = &repository {
            for branch in repository.branches(BRANCHES, None)? {
                if let Some(run) = run_of(&branch) {
                    branches.entry(run).or_default().push(branch);
                }
            }
        }
        Ok(Self { repository, folder, branches, folders })
    }

    /// The branches of a run, and of the runs that it called.
    pub fn branches(&self, run: &RunId) -> Vec<&str> {
        let of_run = self.branches.iter().filter(|(id, _)| id.started() == run.as_str());
        of_run.flat_map(|(_, branches)| branches.iter().map(String::as_str)).collect()
    }

    /// Whether a run, or one that it called, has anything here.
    pub fn has(&self, run: &RunId) -> bool {
        !self.branches(run).is_empty() || self.folders_of(run).next().is_some()
    }

    /// What would be lost with a run. Fails if that cannot be told, or if one of its branches is checked out elsewhere.
    pub fn unmerged(&self, run: &RunId) -> Result<Option<UnmergedWork>, WorktreeError> {
        if !self.has(run) {
            return Ok(None);
        }
        let Some(repository) = &self.repository else { return Ok(None) };
        let (worktrees, elsewhere): (Vec<ListedWorktree>, Vec<ListedWorktree>) =
            repository.listed()?.into_iter().partition(|listed| self.is_of(run, &listed.folder));
        let branches = self.branches(run);
        for listed in elsewhere {
            let branch = listed.branch.as_deref().and_then(short).and_then(|short| short.into_string().ok());
            if let Some(branch) = branch.filter(|branch| branches.contains(&branch.as_str())) {
                return Err(WorktreeError::BranchInUse { branch, folder: listed.folder });
            }
        }
        let mut tips: Vec<String> = branches.iter().map(|branch| format!("refs/heads/{branch}")).collect();
        for listed in worktrees.iter().filter(|listed| listed.folder.join(".git").is_file()) {
            let call = repository.in_worktree(&listed.folder, "look at the files of an item");
            let status = Repository::status(call)?;
            if !status.changed.is_empty() {
                let worktree = listed.folder.clone();
                return Ok(Some(UnmergedWork::Files { worktree, count: status.changed.len() }));
            }
            tips.extend(status.commit);
        }
        let Some(branch) = branches.first().map(|branch| (*branch).to_owned()) else { return Ok(None) };
        let call = repository.call("look for work that is nowhere else");
        let call = call.args(["rev-list", "--count"]).args(tips).arg("--not");
        let call = call.arg(format!("--exclude={BRANCHES}*")).args(["--branches", "--tags", "--remotes"]);
        let call = if repository.commit("HEAD")?.is_some() { call.arg("HEAD") } else { call };
        let answer = call.arg("--").answer()?;
        if answer.code != 0 {
            return Err(answer.refused());
        }
        let text = str::from_utf8(&answer.stdout).unwrap_or_default();
        let count: u64 = text.trim().parse().map_err(|_| answer.unknown())?;
        Ok((count > 0).then_some(UnmergedWork::Commits { branch, count }))
    }

    /// Removes the branches and worktrees of a run and of the runs that it called, whatever is in them. No process of the
    /// run may be alive. Cut off anywhere, it can be done again.
    pub fn remove(&self, run: &RunId) -> Result<(), WorktreeError> {
        if !self.has(run) {
            return Ok(());
        }
        if let Some(repository) = &self.repository {
            for listed in repository.listed()?.iter().filter(|listed| self.is_of(run, &listed.folder)) {
                remove_worktree(repository, &listed.folder)?;
            }
            let changes = self.branches(run).iter().fold(Changes::default(), Changes::delete);
            if !changes.is_empty() {
                repository.change("remove the branches of a run", &changes)?;
            }
        }
        self.folders_of(run).try_for_each(|id| remove_all(&self.folder.join(id.as_str())))
    }

    fn folders_of(&self, run: &RunId) -> impl Iterator<Item = &RunId> {
        self.folders.iter().filter(move |id| id.started() == run.as_str())
    }

    /// Whether a worktree is one of a run, or of a run that it called.
    fn is_of(&self, run: &RunId, worktree: &Path) -> bool {
        let Some(parent) = worktree.parent().filter(|parent| parent.parent() == Some(&self.folder)) else {
            return false;
        };
        let id = parent.file_name().and_then(OsStr::to_str).and_then(|name| RunId::new(name).ok());
        id.is_some_and(|id| id.started() == run.as_str())
    }
}

/// The run that a branch belongs to: `threadline/RUN`, `threadline/RUN.item-7`. Others are not ours.
fn run_of(branch: &str) -> Option<RunId> {
    let name = branch.strip_prefix(BRANCHES)?;
    let run = RunId::new(name.split_once('.').map_or(name, |(run, _)| run)).ok()?;
    let names = BranchNames::new(&run);
    (names.branch == branch || names.item(branch).is_some()).then_some(run)
}
