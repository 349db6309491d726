//! A working tree for each item that is being worked on, and one branch for what all of them did.
//!
//! A run has a branch, `threadline/RUN`, that begins at the user's commit. An item works in a worktree of its
//! own, on a branch of its own, `threadline/RUN.item-7`. When it did well its commits are merged into the
//! run's branch, one item at a time, without a working tree. The user's branch, index and files change in
//! [`Worktrees::merge_into_original`] and nowhere else.
//!
//! Nothing is remembered beside git, so that a kill at any instant loses nothing: an item is in flight as
//! long as one of the run's worktrees is on its branch; a branch of an item that no worktree is on was kept;
//! anything else is left over, and [`Worktrees::open`] removes it. A worktree that is done is used for the
//! next item.
//!
//! It decides nothing about items: not whether they did well, nor whether they are tried again.

mod carried;
mod error;
mod git;
mod names;
mod remains;
mod repository;
mod stale_lock;
mod step_state;
mod tidy;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use threadline_store::RunId;

pub use carried::{CarriedRepository, RepositoryCarrier};
pub use error::WorktreeError;
pub use remains::{RunRemains, UnmergedWork};

use crate::process::Environment;
use git::Git;
use names::BranchNames;
use repository::{Changes, Repository, Together, TreeStatus};
use step_state::StepState;
use tidy::Begun;

/// The worktrees of one run. Many threads use it at once, each for an item of its own.
#[derive(Debug)]
pub struct Worktrees {
    repository: Repository,
    names: BranchNames,
    /// Where the worktrees are.
    folder: PathBuf,
    begun: Begun,
    /// Held by whoever changes what the worktrees share.
    state: Mutex<WorktreesState>,
}

#[derive(Debug, Default)]
struct WorktreesState {
    in_flight: BTreeMap<u64, ItemPlace>,
    /// Worktrees that are on no branch; their files are those of the item before.
    idle: Vec<PathBuf>,
    /// The number of the next worktree.
    next: u64,
}

/// Where an item is worked on.
#[derive(Clone, Debug)]
struct ItemPlace {
    worktree: PathBuf,
    branch: String,
    /// Whether it was here when the worktrees were opened.
    found: bool,
}

/// An item's worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The top of the worktree.
    pub worktree: PathBuf,
    /// The folder in it that stands for the one the run was started in.
    pub here: PathBuf,
    /// The branch that the item commits on.
    pub branch: String,
    /// Whether the item was here before: everything is as it was left. Else it begins with what the run's
    /// branch has.
    pub again: bool,
}

/// What a merge did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// There was nothing to merge.
    Nothing,
    /// The commit that has it, made now or earlier.
    Commit(String),
}

/// What remains of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The run's branch, if it has commits or items are in flight.
    pub branch: Option<String>,
    /// How many commits it has that the user's commit does not.
    pub commits: u64,
    /// Branches of items that were kept.
    pub kept: Vec<String>,
    /// Items that were neither merged nor abandoned. Their worktrees remain, so that the run can go on.
    pub in_flight: Vec<u64>,
}

impl Worktrees {
    /// Opens the worktrees of a run, or opens them again. What a killed process left half done is put right;
    /// items in flight stay as they are.
    ///
    /// `root` is any folder of the user's repository. `folder` is where the worktrees are; it belongs to this
    /// run alone. No process of the run may be alive, see [`crate::process::end_left_over`].
    pub fn open(
        root: &Path,
        folder: &Path,
        run: &RunId,
        environment: &Environment,
    ) -> Result<Self, WorktreeError> {
        Self::open_after(root, folder, run, environment, None)
    }

    /// The same for a run that keeps all that the items of another run committed: its branch begins where the branch
    /// of that run ends. The other run is named with its folder.
    pub fn open_after(
        root: &Path,
        folder: &Path,
        run: &RunId,
        environment: &Environment,
        earlier: Option<(&RunId, &Path)>,
    ) -> Result<Self, WorktreeError> {
        // Whoever goes on with a run ends what carries the mark of the run that somebody started.
        let repository = Repository::of(root, environment, run.started())?;
        let earlier = earlier.map(|(run, folder)| (BranchNames::new(run), folder));
        tidy::open(repository, BranchNames::new(run), folder, earlier)
    }

    /// The worktree of an item, on the item's branch. The first time the item begins with what the run's
    /// branch has then; until it is merged or abandoned it is given the same worktree again.
    pub fn enter(&self, item: u64) -> Result<Entered, WorktreeError> {
        if let Some(place) = self.state().in_flight.get(&item) {
            return Ok(self.entered(place, true));
        }
        let commit = self.head()?;
        let worktree = self.prepare(&commit)?;
        let here = worktree.join(&self.repository.prefix);
        fs::create_dir_all(&here).map_err(|error| WorktreeError::io(&here, &error))?;

        // From here on the item is in flight, so this comes last.
        let mut state = self.state();
        let branch = self.names.free(item, &self.repository.branches(&self.names.of_item(item), None)?);
        self.repository.change("make the branch of an item", &Changes::default().create(&branch, &commit))?;
        let call = self.repository.in_worktree(&worktree, "put a worktree on its branch");
        call.args(["symbolic-ref", "HEAD"]).arg(format!("refs/heads/{branch}")).done()?;
        let place = ItemPlace { worktree, branch, found: false };
        let entered = self.entered(&place, false);
        state.in_flight.insert(item, place);
        Ok(entered)
    }

    /// Remembers the files of an item as they are now, before a step of it begins. What is ignored is not
    /// remembered.
    pub fn save(&self, item: u64) -> Result<(), WorktreeError> {
        let Some(place) = self.place(item) else { return Ok(()) };
        let status = self.status(&place)?;
        let (Some(commit), true) =
            (&status.commit, status.branch.as_deref() == Some(OsStr::new(&place.branch)))
        else {
            // It went elsewhere, and nobody could lead it back.
            return StepState::forget(&self.folder, item);
        };
        let mut tree = None;
        if !status.changed.is_empty() {
            let index = StepState::index(&self.folder, item);
            // From the index that is there, so that git need not read every file. Without one it does.
            let _ = fs::copy(self.repository.kept(&place.worktree).join("index"), &index);
            let call = || {
                self.repository.in_worktree(&place.worktree, "remember the files of an item").index(&index)
            };
            let added = call().args(["add", "--all"]).done().and_then(|()| call().arg("write-tree").object());
            // A file that is left behind goes with the folder.
            let _ = fs::remove_file(&index);
            tree = Some(added?);
        }
        StepState { commit: commit.clone(), tree }.write(&self.folder, item)
    }

    /// Puts the files and the branch of an item back as they were when a step of it began that was killed.
    /// Ignored files stay as they are.
    pub fn restore(&self, item: u64) -> Result<(), WorktreeError> {
        let Some(place) = self.place(item) else { return Ok(()) };
        let Some(StepState { commit, tree }) = StepState::read(&self.folder, item)? else { return Ok(()) };
        let call = || self.repository.in_worktree(&place.worktree, "put back the files of an item");
        tidy::end_rebase(&self.repository, &place.worktree)?;
        call().args(["symbolic-ref", "HEAD"]).arg(BranchNames::full(&place.branch)).done()?;
        call().args(["reset", "--hard", "--quiet", &commit, "--"]).done()?;
        call().args(["clean", "-ffdq"]).done()?;
        if let Some(tree) = tree {
            call().args(["read-tree", "--reset", "-u", &tree]).done()?;
            call().args(["reset", "--mixed", "--quiet", &commit, "--"]).done()?;
        }
        Ok(())
    }

    /// The item did well: its commits go into the run's branch. To merge it again does nothing.
    ///
    /// A conflict, or work that is in no commit, is an error. The run's branch is as it was and the item is
    /// in flight, for [`Self::abandon`] to keep its work or not.
    pub fn merge(&self, item: u64) -> Result<Merged, WorktreeError> {
        let Some(place) = self.place(item) else { return self.merged_earlier(item) };
        let status = self.status(&place)?;
        if status.branch.as_deref() != Some(OsStr::new(&place.branch)) {
            return Err(WorktreeError::LeftBranch { item, branch: place.branch, found: status.branch });
        }
        let (Some(tip), true) = (status.commit, status.changed.is_empty()) else {
            return Err(WorktreeError::Uncommitted { item, branch: place.branch, files: status.changed });
        };

        let mut state = self.state();
        let head = self.head()?;
        let changes = Changes::default().delete(&place.branch);
        let (merged, changes) =
            match self.repository.put_together(&head, &tip, &self.names.merge_message(item))? {
                Together::Nothing => (Merged::Nothing, changes),
                Together::Commit(commit) => {
                    let changes = changes.update(self.branch(), &commit, &head);
                    (Merged::Commit(commit), changes)
                }
                Together::Conflict(files) => {
                    let into = self.branch().into();
                    return Err(WorktreeError::Conflict { from: place.branch, into, files });
                }
            };
        self.repository.change("merge an item", &changes)?;
        self.leave(&mut state, item, &place, &tip)?;
        // A kill may have come after the merge and before the end of the item's branch.
        if merged == Merged::Nothing && place.found { self.merged_earlier(item) } else { Ok(merged) }
    }

    /// The item failed, or is tried again from the beginning. With `keep` its branch remains if there is any
    /// work on it; work in no commit is committed there first. What is ignored, or in a repository of its
    /// own, is not kept. The name of the branch that was kept, now or the last time the item was abandoned.
    pub fn abandon(&self, item: u64, keep: bool) -> Result<Option<String>, WorktreeError> {
        let Some(place) = self.place(item) else {
            let kept = self.repository.branches(&self.names.of_item(item), None)?;
            return Ok(self.names.last(item, &kept).filter(|_| keep));
        };
        if keep {
            self.commit_all(item, &place)?;
        }
        let mut state = self.state();
        let head = self.head()?;
        let tip = self.repository.commit(BranchNames::full(&place.branch))?;
        let kept = match &tip {
            Some(tip) => keep && !self.repository.contains(&head, tip)?,
            None => false,
        };
        if !kept && tip.is_some() {
            self.repository.change("drop an item", &Changes::default().delete(&place.branch))?;
        }
        self.leave(&mut state, item, &place, tip.as_deref().unwrap_or(&head))?;
        Ok(kept.then_some(place.branch))
    }

    /// The run is over, or pauses. Worktrees are removed, but for those of items in flight. The run's branch
    /// remains if it has commits, and so do branches that were kept.
    pub fn close(&self) -> Result<Closed, WorktreeError> {
        let mut state = self.state();
        tidy::tidy(self, &mut state)?;
        let in_flight: Vec<u64> = state.in_flight.keys().copied().collect();
        let working: Vec<&String> = state.in_flight.values().map(|place| &place.branch).collect();
        let mut kept = self.repository.branches(&self.names.of_items(), None)?;
        kept.retain(|branch| !working.contains(&branch));
        let head = self.head()?;
        let commits = self.repository.count(&self.begun.base, &head)?;
        let needed = commits > 0 || !in_flight.is_empty();
        if !needed {
            // Without this note and without commits, `open` takes the branch for its own.
            Begun::forget(&self.folder)?;
            self.repository.change("remove the run's branch", &Changes::default().delete(self.branch()))?;
        }
        Ok(Closed { branch: needed.then(|| self.branch().to_owned()), commits, kept, in_flight })
    }

    /// Merges the run's branch into the branch that the run began on, wherever that is checked out, or
    /// nowhere. A conflict, or a changed file that would be overwritten, is an error, and everything is as it
    /// was.
    pub fn merge_into_original(&self) -> Result<Merged, WorktreeError> {
        let _state = self.state();
        let branch = self.branch().to_owned();
        let Some(original) = self.original().map(OsStr::to_owned) else {
            return Err(WorktreeError::NoOriginal { branch });
        };
        let full = BranchNames::full(&original);
        let Some(tip) = self.repository.commit(&full)? else {
            return Err(WorktreeError::OriginalGone { original, branch });
        };
        let head = self.head()?;
        let commit = if self.repository.contains(&head, &tip)? {
            head.clone()
        } else {
            match self.repository.put_together(&tip, &head, &self.names.final_message(&original))? {
                Together::Nothing => tip.clone(),
                Together::Commit(commit) => commit,
                Together::Conflict(files) => {
                    return Err(WorktreeError::Conflict { from: branch, into: original, files });
                }
            }
        };
        if commit == tip {
            return Ok(Merged::Nothing);
        }
        let listed = self.repository.listed()?;
        if let Some(listed) = listed.into_iter().find(|listed| listed.branch.as_ref() == Some(&full)) {
            // The commit is made, so git has nothing to merge: it changes the files, or none of them.
            let purpose = "merge into the user's branch";
            let call = if listed.folder == self.repository.top {
                self.repository.call(purpose)
            } else {
                self.repository.in_worktree(&listed.folder, purpose)
            };
            let merge = ["merge", "--ff-only", "--no-verify-signatures", "--quiet", "--no-stat"];
            let answer = call.args(merge).arg(&*commit).answer()?;
            if answer.code != 0 {
                let (folder, said) = (listed.folder, answer.said);
                return Err(WorktreeError::InTheWay { original, folder, branch, said });
            }
        } else {
            let changes = Changes::default().update(&original, &commit, &tip);
            self.repository.change("merge into the user's branch", &changes)?;
        }
        Ok(Merged::Commit(commit))
    }

    /// The items that were entered and neither merged nor abandoned.
    pub fn in_flight(&self) -> Vec<u64> {
        self.state().in_flight.keys().copied().collect()
    }

    /// The run's branch.
    pub fn branch(&self) -> &str {
        &self.names.branch
    }

    /// The user's commit that the run began with.
    pub fn base(&self) -> &str {
        &self.begun.base
    }

    /// The user's branch that the run began on.
    pub fn original(&self) -> Option<&OsStr> {
        self.begun.original.as_deref()
    }

    /// The user's changes that are in no commit, which items do not see.
    pub fn uncommitted(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let call = self.repository.call("look at the user's files");
        Ok(Repository::status(call)?.changed)
    }

    fn state(&self) -> MutexGuard<'_, WorktreesState> {
        // Whoever panicked left what git knows, and a worktree that is missing here is only not used again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, item: u64) -> Option<ItemPlace> {
        self.state().in_flight.get(&item).cloned()
    }

    fn status(&self, place: &ItemPlace) -> Result<TreeStatus, WorktreeError> {
        let call = self.repository.in_worktree(&place.worktree, "look at the files of an item");
        Repository::status(call)
    }

    fn entered(&self, place: &ItemPlace, again: bool) -> Entered {
        let here = place.worktree.join(&self.repository.prefix);
        Entered { worktree: place.worktree.clone(), here, branch: place.branch.clone(), again }
    }

    /// Where the run's branch is.
    fn head(&self) -> Result<String, WorktreeError> {
        let gone =
            || WorktreeError::BranchGone { branch: self.branch().to_owned(), base: self.begun.base.clone() };
        self.repository.commit(BranchNames::full(self.branch()))?.ok_or_else(gone)
    }

    /// A worktree on no branch with exactly the files of a commit.
    fn prepare(&self, commit: &str) -> Result<PathBuf, WorktreeError> {
        let repository = &self.repository;
        let attributes = format!("attr.tree={commit}");
        let reset = |worktree: &Path| {
            repository
                .in_worktree(worktree, "check out the files of an item")
                .args(["-c", &attributes, "reset", "--hard", "--quiet", commit, "--"])
                .done()
        };
        let idle = self.state().idle.pop();
        if let Some(worktree) = idle {
            let clean =
                || repository.in_worktree(&worktree, "clean a worktree").args(["clean", "-ffdxq"]).done();
            if reset(&worktree).and_then(|()| clean()).is_ok() {
                return Ok(worktree);
            }
            // An item can leave a worktree in ways that git cannot undo. A new one is only slower.
            tidy::remove_worktree(repository, &worktree)?;
        }
        let worktree = {
            let mut state = self.state();
            let worktree = self.folder.join(self.names.worktree(state.next));
            state.next += 1;
            let call = repository.call("make a worktree");
            call.args(["worktree", "add", "--quiet", "--detach", "--no-checkout", "--"])
                .arg(&worktree)
                .arg(commit)
                .done()?;
            worktree
        };
        reset(&worktree)?;
        Ok(worktree)
    }

    /// The item is not in flight any more. Its worktree can be used again.
    fn leave(
        &self,
        state: &mut WorktreesState,
        item: u64,
        place: &ItemPlace,
        tip: &str,
    ) -> Result<(), WorktreeError> {
        let call = self.repository.in_worktree(&place.worktree, "take a worktree off its branch");
        let detached = call.args(["update-ref", "--no-deref", "HEAD", tip]).done();
        if detached.is_ok() && tidy::is_plain(&self.repository, &place.worktree) {
            state.idle.push(place.worktree.clone());
        } else {
            tidy::remove_worktree(&self.repository, &place.worktree)?;
        }
        StepState::forget(&self.folder, item)?;
        state.in_flight.remove(&item);
        Ok(())
    }

    /// All that an item has done becomes a commit on its branch, wherever the item went.
    fn commit_all(&self, item: u64, place: &ItemPlace) -> Result<(), WorktreeError> {
        if !place.worktree.join(".git").exists() {
            // There is nothing left but what the branch has.
            return Ok(());
        }
        let status = self.status(place)?;
        let on_branch = status.branch.as_deref() == Some(OsStr::new(&place.branch));
        if on_branch && status.changed.is_empty() {
            return Ok(());
        }
        let call = || self.repository.in_worktree(&place.worktree, "keep the work of an item");
        call().args(["add", "--all"]).done()?;
        let tree = call().arg("write-tree").object()?;
        let tip = self.repository.commit(BranchNames::full(&place.branch))?;
        let mut parents: Vec<&str> = status.commit.iter().map(String::as_str).collect();
        parents.extend(tip.as_deref().filter(|tip| status.commit.as_deref() != Some(tip)));
        let commit = self.repository.make_commit(&tree, &parents, &self.names.keep_message(item))?;
        let changes = match &tip {
            Some(tip) => Changes::default().update(&place.branch, &commit, tip),
            None => Changes::default().create(&place.branch, &commit),
        };
        self.repository.change("keep the work of an item", &changes)
    }

    /// The commit that merged an item that is not in flight.
    fn merged_earlier(&self, item: u64) -> Result<Merged, WorktreeError> {
        let call = self.repository.call("find the merge of an item");
        let call =
            call.args(["log", "--first-parent", "--max-count=1", "--format=%H", "--no-show-signature"]);
        let call = call.arg(format!("--grep=^{}$", BranchNames::trailer(item)));
        let found = call.arg(format!("{}..{}", self.begun.base, self.head()?)).arg("--").line()?;
        let found: Option<String> = found.into_string().ok().filter(|commit| !commit.is_empty());
        Ok(found.map_or(Merged::Nothing, Merged::Commit))
    }
}

/// Whether git tracks a file of a folder. Where there is no repository, or no git, nothing is tracked.
pub(crate) fn is_tracked(folder: &Path, environment: &Environment) -> bool {
    let (Some(around), Some(name)) = (folder.parent(), folder.file_name()) else { return false };
    if !around.ancestors().any(|above| above.join(".git").exists()) {
        return false;
    }
    let git = Git::new(environment, "");
    let call = git.within(around, "list a tracked file").args(["ls-files", "-z", "--"]).arg(name);
    call.bytes().is_ok_and(|tracked| !tracked.is_empty())
}

/// What git ignores in a folder, by paths from there; a folder that is ignored as a whole ends with a slash. Where there is
/// no repository, nothing is ignored.
pub fn ignored(folder: &Path, environment: &Environment) -> Result<Vec<String>, WorktreeError> {
    if !folder.ancestors().any(|above| above.join(".git").exists()) {
        return Ok(Vec::new());
    }
    let git = Git::new(environment, "");
    let call = git.within(folder, "list what is ignored");
    let listed = call
        .args(["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", "."])
        .bytes()?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    // A name that is no text is ignored by nobody, and told about where it is met.
    Ok(names.filter_map(|name| std::str::from_utf8(name).ok()).map(str::to_owned).collect())
}

/// The last part of a name of a branch, behind `refs/heads/`.
fn short(full: &OsStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    full.as_bytes().strip_prefix(b"refs/heads/").map(|short| OsStr::from_bytes(short).to_owned())
}
