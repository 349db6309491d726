//! What can go wrong with worktrees, as data, and the wording of each in one place.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::git::OLDEST;
use crate::process::StartError;
use crate::project::plain;

/// How many files a message names.
const SHOWN: usize = 10;

/// Why a worktree could not be used. Nothing of the user's was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what the variants say")]
pub enum WorktreeError {
    /// Git could not be started.
    NoGit { error: StartError },
    /// Git cannot merge without a working tree.
    OldGit { found: String },
    /// The folder belongs to no repository that git would use.
    NoRepository { folder: PathBuf, said: Vec<String> },
    /// The folder belongs to a repository, and not to its files.
    NoWorkingTree { folder: PathBuf },
    /// There is nothing to begin with.
    NoCommits { folder: PathBuf },
    /// A branch has the name of the run's branch, and this run did not make it.
    BranchTaken { branch: String },
    /// Somebody removed the branch of the run.
    BranchGone { branch: String, base: String },
    /// The branch of the run is checked out somewhere, where it must not move.
    BranchInUse { branch: String, folder: PathBuf },
    /// An item did well and left work that is in no commit.
    Uncommitted { item: u64, branch: String, files: Vec<PathBuf> },
    /// An item did well and is not on its branch any more: what it committed is elsewhere.
    LeftBranch { item: u64, branch: String, found: Option<OsString> },
    /// Two sides changed the same lines. Neither branch has moved.
    Conflict { from: String, into: OsString, files: Vec<PathBuf> },
    /// The run began on no branch, so there is none to merge into.
    NoOriginal { branch: String },
    /// The branch that the run began on is not there any more.
    OriginalGone { original: OsString, branch: String },
    /// The user's files are in the way of a merge. Nothing was changed.
    InTheWay { original: OsString, folder: PathBuf, branch: String, said: Vec<String> },
    /// Git refused what it was asked to do.
    Git { purpose: String, command: String, how: String, said: Vec<String> },
    /// Git answered something unknown.
    GitAnswer { purpose: String, answer: String },
    /// Another file could not be read, written or removed.
    Io { path: PathBuf, what: String },
}

impl WorktreeError {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoGit { error } => return error.hint(),
            Self::OldGit { .. } => format!("install git {}.{} or newer", OLDEST.0, OLDEST.1),
            Self::NoRepository { .. } => "`git init` makes one; without it leave out `worktree: true`".into(),
            Self::NoWorkingTree { .. } => "start in a folder where files of it are checked out".into(),
            Self::NoCommits { .. } => "commit something first: items begin with what is committed".into(),
            Self::BranchTaken { branch } => format!("rename it: `git branch -m {branch} NAME`"),
            Self::BranchGone { branch, base } => {
                format!("`git branch {branch} {base}` puts it where the run began; `git reflog` may know more")
            }
            Self::BranchInUse { .. } => "switch to another branch there".into(),
            Self::Uncommitted { .. } => {
                "commit in a step of the item, `git add -A && git commit -m ...`, or ignore the files in `.gitignore`"
                    .into()
            }
            Self::LeftBranch { branch, .. } => format!("the steps of the item commit on `{branch}`"),
            Self::Conflict { from, .. } => {
                format!("`git merge {from}` where the other side is checked out, and resolve it there")
            }
            Self::NoOriginal { branch } | Self::OriginalGone { branch, .. } => {
                format!("`git merge {branch}` on the branch that shall have it")
            }
            Self::InTheWay { branch, .. } => {
                format!("commit or stash these changes, then `git merge {branch}`")
            }
            Self::Git { .. } => {
                let lock = self.lock()?;
                format!("if no git is running there, one was killed: remove `{}`", lock.escape_debug())
            }
            _ => return None,
        })
    }

    /// The lock of git that was in the way, where that is all: its path as git says it.
    pub fn lock(&self) -> Option<String> {
        let Self::Git { said, .. } = self else { return None };
        // A path may hold line ends and quotes.
        let said = said.join("\n");
        let (_, path) = said.split_once("Unable to create '")?;
        let (path, _) = path.split_once(".lock': File exists")?;
        Some(format!("{path}.lock"))
    }

    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: path.to_owned(), what: plain(error) }
    }
}

impl fmt::Display for WorktreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGit { error } => write!(f, "git cannot be started: {error}"),
            Self::OldGit { found } => write!(f, "git is too old for worktrees: `{}`", found.escape_debug()),
            Self::NoRepository { folder, said } => {
                write!(f, "`{}` is in no git repository", folder.display())?;
                lines(f, said)
            }
            Self::NoWorkingTree { folder } => {
                write!(f, "`{}` is a git repository without checked out files", folder.display())
            }
            Self::NoCommits { folder } => write!(f, "the repository of `{}` has no commit", folder.display()),
            Self::BranchTaken { branch } => write!(f, "there is a branch `{branch}`, not made by this run"),
            Self::BranchGone { branch, .. } => write!(f, "the run's branch `{branch}` is not there any more"),
            Self::BranchInUse { branch, folder } => {
                write!(f, "the run's branch `{branch}` is checked out in `{}`", folder.display())
            }
            Self::Uncommitted { item, branch, files } => {
                write!(f, "item {item} left changes that are in no commit of `{branch}`")?;
                named(f, files)
            }
            Self::LeftBranch { item, branch, found: Some(found) } => {
                write!(f, "item {item} left its branch `{branch}` for `{}`", found.display())
            }
            Self::LeftBranch { item, branch, found: None } => {
                write!(f, "item {item} left its branch `{branch}` for no branch at all")
            }
            Self::Conflict { from, into, files } => {
                write!(f, "`{from}` conflicts with `{}`", into.display())?;
                named(f, files)
            }
            Self::NoOriginal { branch } => {
                write!(f, "the run began on no branch, `{branch}` cannot be merged into it")
            }
            Self::OriginalGone { original, .. } => {
                write!(
                    f,
                    "the branch `{}`, which the run began on, is not there any more",
                    original.display()
                )
            }
            Self::InTheWay { original, folder, branch, said } => {
                let (original, folder) = (original.display(), folder.display());
                write!(
                    f,
                    "`{branch}` cannot be merged into `{original}`, which is checked out in `{folder}`"
                )?;
                lines(f, said)
            }
            Self::Git { purpose, command, how, said } => {
                write!(f, "git could not {purpose}: `{command}` {how}")?;
                lines(f, said)
            }
            Self::GitAnswer { purpose, answer } => {
                write!(f, "git was asked to {purpose} and answered `{}`", answer.escape_debug())
            }
            Self::Io { path, what } => write!(f, "`{}`: {what}", path.display()),
        }
    }
}

impl std::error::Error for WorktreeError {}

/// What git said, each line below the message.
fn lines(f: &mut fmt::Formatter<'_>, said: &[String]) -> fmt::Result {
    said.iter().try_for_each(|line| write!(f, "\n  {line}"))
}

fn named(f: &mut fmt::Formatter<'_>, files: &[PathBuf]) -> fmt::Result {
    for (place, file) in files.iter().take(SHOWN).enumerate() {
        // A path may hold anything, line ends too.
        let file = file.to_string_lossy();
        write!(f, "{} `{}`", if place == 0 { ":" } else { "," }, file.escape_debug())?;
    }
    match files.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
