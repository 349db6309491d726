//! The repository of the user: what it is asked, and the few ways in which it is changed. It knows no runs
//! and no items.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::WorktreeError;
use super::git::{Git, GitCall, OLDEST, object, path};
use super::stale_lock::SeenLock;
use crate::process::Environment;

/// Who makes a merge when the user has told git no name.
const FALLBACK: (&str, &str) = ("Threadline", "threadline@localhost");

/// The repository around a folder.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) git: Git,
    /// The top of the working tree.
    pub(super) top: PathBuf,
    /// The way from there to the folder.
    pub(super) prefix: PathBuf,
    /// What all working trees of the repository share.
    pub(super) shared: PathBuf,
    /// What git keeps about the working tree of the user.
    own: PathBuf,
}

/// A working tree, as git lists it.
pub(super) struct ListedWorktree {
    pub(super) folder: PathBuf,
    /// The whole name of the branch that is checked out.
    pub(super) branch: Option<OsString>,
}

/// What a working tree holds beside its commit.
pub(super) struct TreeStatus {
    pub(super) commit: Option<String>,
    /// The short name of the branch.
    pub(super) branch: Option<OsString>,
    pub(super) changed: Vec<PathBuf>,
}

/// How two commits go together.
pub(super) enum Together {
    /// One has the other already.
    Nothing,
    /// The new commit.
    Commit(String),
    /// These files were changed on both sides.
    Conflict(Vec<PathBuf>),
}

impl Repository {
    /// The repository around a folder, or why it cannot be used.
    pub(super) fn of(folder: &Path, environment: &Environment, run: &str) -> Result<Self, WorktreeError> {
        let mut git = Git::new(environment, run);
        check_version(&git, folder)?;
        let asked = |question: &str| {
            git.within(folder, "describe the repository").args([
                "rev-parse",
                "--path-format=absolute",
                question,
            ])
        };
        let inside = asked("--is-inside-work-tree").answer()?;
        if inside.said.iter().any(|line| line.contains("safe.bareRepository")) {
            return Err(WorktreeError::NoWorkingTree { folder: folder.to_owned() });
        }
        if inside.code != 0 {
            return Err(WorktreeError::NoRepository { folder: folder.to_owned(), said: inside.said });
        }
        if inside.stdout.trim_ascii() != b"true" {
            return Err(WorktreeError::NoWorkingTree { folder: folder.to_owned() });
        }
        let top = asked("--show-toplevel").line()?.into();
        let prefix = asked("--show-prefix").line()?.into();
        let shared = asked("--git-common-dir").line()?.into();
        let own = asked("--absolute-git-dir").line()?.into();
        if git.within(folder, "say who commits").args(["var", "GIT_COMMITTER_IDENT"]).answer()?.code != 0 {
            git.fall_back_on(FALLBACK.0, FALLBACK.1);
        }
        Ok(Self { git, top, prefix, shared, own })
    }

    /// A call within the working tree of the user.
    pub(super) fn call(&self, purpose: impl Into<String>) -> GitCall<'_> {
        self.git.at(&self.top, &self.own, purpose)
    }

    /// A call within a worktree.
    pub(super) fn in_worktree<'g>(&'g self, worktree: &'g Path, purpose: impl Into<String>) -> GitCall<'g> {
        self.git.at(worktree, &self.kept(worktree), purpose)
    }

    /// What git keeps about a worktree. Its own link to that is not asked: whoever writes in it can change
    /// the link.
    pub(super) fn kept(&self, worktree: &Path) -> PathBuf {
        let known = self.shared.join("worktrees");
        // Git takes the name of the folder, unless that is taken.
        let usual = known.join(worktree.file_name().unwrap_or_default());
        let is_of = |kept: &Path| {
            let link = fs::read(kept.join("gitdir")).ok();
            let folder = link.map(|link| kept.join(path(link.trim_ascii_end())));
            folder.as_deref().and_then(Path::parent).is_some_and(|folder| is_same(folder, worktree))
        };
        if is_of(&usual) {
            return usual;
        }
        let all = fs::read_dir(&known).into_iter().flatten().flatten();
        all.map(|entry| entry.path()).find(|kept| is_of(kept)).unwrap_or(usual)
    }

    /// The commit of a name, if there is one.
    pub(super) fn commit(&self, name: impl AsRef<OsStr>) -> Result<Option<String>, WorktreeError> {
        let mut name = name.as_ref().to_owned();
        name.push("^{commit}");
        let call = self.call("find a commit");
        let answer =
            call.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(name).answer()?;
        match answer.code {
            0 => object(answer.stdout.trim_ascii()).map(Some).ok_or_else(|| answer.unknown()),
            1 => Ok(None),
            _ => Err(answer.refused()),
        }
    }

    /// The whole name of the branch that the user is on.
    pub(super) fn branch(&self) -> Result<Option<OsString>, WorktreeError> {
        let call = self.call("name the current branch");
        let answer = call.args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
        match answer.code {
            0 => Ok(Some(OsStr::from_bytes(answer.stdout.trim_ascii_end()).to_owned())),
            1 => Ok(None),
            _ => Err(answer.refused()),
        }
    }

    /// Whether everything of a commit is in another.
    pub(super) fn contains(&self, all: &str, part: &str) -> Result<bool, WorktreeError> {
        let call = self.call("compare commits");
        call.args(["merge-base", "--is-ancestor", part, all]).holds()
    }

    /// How many commits are in one and not in the other.
    pub(super) fn count(&self, from: &str, to: &str) -> Result<u64, WorktreeError> {
        let call = self.call("count commits");
        let answer = call.args(["rev-list", "--count"]).arg(format!("{from}..{to}")).arg("--").answer()?;
        if answer.code != 0 {
            return Err(answer.refused());
        }
        let text = str::from_utf8(&answer.stdout).unwrap_or_default();
        text.trim().parse().map_err(|_| answer.unknown())
    }

    /// Puts two commits together, without a working tree. No branch moves.
    pub(super) fn put_together(
        &self,
        into: &str,
        from: &str,
        message: &str,
    ) -> Result<Together, WorktreeError> {
        if self.contains(into, from)? {
            return Ok(Together::Nothing);
        }
        let call = self.call("merge");
        let merge = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", into, from];
        let answer = call.args(merge).answer()?;
        let mut parts = answer.stdout.split(|byte| *byte == 0);
        let tree = parts.next().and_then(|part| object(part.trim_ascii()));
        match (answer.code, tree) {
            (0, Some(tree)) => Ok(Together::Commit(self.make_commit(&tree, &[into, from], message)?)),
            (1, Some(_)) => {
                let mut files: Vec<PathBuf> = parts.filter(|part| !part.is_empty()).map(path).collect();
                files.dedup();
                Ok(Together::Conflict(files))
            }
            (0, None) => Err(answer.unknown()),
            _ => Err(answer.refused()),
        }
    }

    /// A commit of a tree, on no branch.
    pub(super) fn make_commit(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, WorktreeError> {
        let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
        let call = self.call("commit").args(["commit-tree"]).args(parents);
        call.arg(tree).input(message.into()).object()
    }

    /// Changes branches, all of them or none. A lock that a killed git left is not in the way for ever.
    pub(super) fn change(&self, purpose: &str, changes: &Changes) -> Result<(), WorktreeError> {
        let lock = SeenLock::look(self);
        match (self.try_change(purpose, changes), lock) {
            (Err(error), Some(lock)) if lock.is_stale(self, &error) => {
                lock.remove()?;
                self.try_change(purpose, changes)
            }
            (outcome, _) => outcome,
        }
    }

    fn try_change(&self, purpose: &str, changes: &Changes) -> Result<(), WorktreeError> {
        let call = self.call(purpose);
        call.args(["update-ref", "-m"])
            .arg(format!("threadline: {purpose}"))
            .args(["--stdin", "-z"])
            // Without its last word, which a kill of this process can cut off, git changes nothing.
            .input([b"start\0", changes.0.as_slice(), b"commit\0"].concat())
            .done()
    }

    /// The branches whose short names begin like this, sorted; of these only the ones that a commit contains,
    /// if one is given. What begins like this holds no `/` afterwards.
    pub(super) fn branches(&self, begin: &str, within: Option<&str>) -> Result<Vec<String>, WorktreeError> {
        let call = self.call("list branches");
        let call = call.args(["for-each-ref", "--format=%(refname:lstrip=2)"]);
        let call = within.into_iter().fold(call, |call, commit| call.arg(format!("--merged={commit}")));
        let answer = call.arg(format!("refs/heads/{begin}*")).bytes()?;
        Ok(String::from_utf8_lossy(&answer).lines().map(str::to_owned).collect())
    }

    /// All working trees of the repository that git knows.
    pub(super) fn listed(&self) -> Result<Vec<ListedWorktree>, WorktreeError> {
        let call = self.call("list worktrees");
        let answer = call.args(["worktree", "list", "--porcelain", "-z"]).bytes()?;
        let mut all: Vec<ListedWorktree> = Vec::new();
        for line in answer.split(|byte| *byte == 0) {
            if let Some(folder) = line.strip_prefix(b"worktree ") {
                all.push(ListedWorktree { folder: path(folder), branch: None });
            } else if let (Some(branch), Some(last)) = (line.strip_prefix(b"branch "), all.last_mut()) {
                last.branch = Some(OsStr::from_bytes(branch).to_owned());
            }
        }
        Ok(all)
    }

    /// What the working tree of a call holds that is in no commit: changed files, and new ones that are not
    /// ignored.
    pub(super) fn status(call: GitCall<'_>) -> Result<TreeStatus, WorktreeError> {
        let call = call.args(["status", "--porcelain=v2", "--branch", "-z", "--no-renames"]);
        let answer = call.args(["--untracked-files=normal", "--ignore-submodules=untracked"]).bytes()?;
        let mut status = TreeStatus { commit: None, branch: None, changed: Vec::new() };
        for line in answer.split(|byte| *byte == 0) {
            if let Some(commit) = line.strip_prefix(b"# branch.oid ") {
                status.commit = object(commit);
            } else if let Some(branch) = line.strip_prefix(b"# branch.head ") {
                status.branch = (branch != b"(detached)").then(|| OsStr::from_bytes(branch).to_owned());
            } else {
                // The path is the last field, and may hold spaces.
                let fields = match line.first() {
                    Some(b'1') => 9,
                    Some(b'u') => 11,
                    Some(b'?') => 2,
                    _ => continue,
                };
                status.changed.extend(line.splitn(fields, |byte| *byte == b' ').nth(fields - 1).map(path));
            }
        }
        Ok(status)
    }
}

/// Changes of branches, as `git update-ref --stdin -z` reads them.
#[derive(Default)]
pub(super) struct Changes(Vec<u8>);

impl Changes {
    /// A branch comes to be.
    pub(super) fn create(self, branch: impl AsRef<OsStr>, commit: &str) -> Self {
        self.push("create", branch.as_ref(), &[commit])
    }

    /// A branch moves, if it is where it was seen.
    pub(super) fn update(self, branch: impl AsRef<OsStr>, to: &str, from: &str) -> Self {
        self.push("update", branch.as_ref(), &[to, from])
    }

    /// A branch goes, wherever it is.
    pub(super) fn delete(self, branch: impl AsRef<OsStr>) -> Self {
        self.push("delete", branch.as_ref(), &[""])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(mut self, what: &str, branch: &OsStr, commits: &[&str]) -> Self {
        for bytes in [what.as_bytes(), b" refs/heads/", branch.as_bytes(), b"\0"] {
            self.0.extend_from_slice(bytes);
        }
        for commit in commits {
            self.0.extend_from_slice(commit.as_bytes());
            self.0.push(0);
        }
        self
    }
}

/// Whether two paths lead to the same folder.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

fn check_version(git: &Git, folder: &Path) -> Result<(), WorktreeError> {
    let found = git.within(folder, "say its version").arg("version").line()?.to_string_lossy().into_owned();
    let number = found.split_whitespace().nth(2).unwrap_or_default();
    let mut parts = number.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(WorktreeError::OldGit { found }),
    }
}
