//! The names of branches and worktrees of a run, and the words of its commits.
//!
//! The id of a run holds no `.`, so that no name of one run is a name of another. A branch of an item is not below the
//! run's branch, `threadline/RUN/...`, because git keeps a branch where it would keep that folder.

use std::ffi::{OsStr, OsString};

use threadline_store::RunId;

/// How the names of a run begin.
#[derive(Debug)]
pub(super) struct BranchNames {
    run: RunId,
    /// The run's branch.
    pub(super) branch: String,
}

impl BranchNames {
    pub(super) fn new(run: &RunId) -> Self {
        Self { run: run.clone(), branch: format!("threadline/{run}") }
    }

    /// The whole name of a branch.
    pub(super) fn full(branch: impl AsRef<OsStr>) -> OsString {
        let mut full = OsString::from("refs/heads/");
        full.push(branch);
        full
    }

    /// How the branches of all items begin.
    pub(super) fn of_items(&self) -> String {
        format!("{}.item-", self.branch)
    }

    /// The first branch of an item. Later ones have a number behind it, and items with longer numbers begin the same.
    pub(super) fn of_item(&self, item: u64) -> String {
        format!("{}.item-{item}", self.branch)
    }

    /// The item of a branch, and which of the item's branches it is.
    pub(super) fn item(&self, branch: &str) -> Option<(u64, u64)> {
        let rest = branch.strip_prefix(&self.of_items())?;
        let (item, number) = rest.split_once('.').unwrap_or((rest, "1"));
        Some((item.parse().ok()?, number.parse().ok()?))
    }

    /// A name for a branch of an item, beside those that it has.
    pub(super) fn free(&self, item: u64, taken: &[String]) -> String {
        match self.highest(item, taken) {
            Some((number, _)) => format!("{}.{}", self.of_item(item), number + 1),
            None => self.of_item(item),
        }
    }

    /// The latest branch of an item.
    pub(super) fn last(&self, item: u64, branches: &[String]) -> Option<String> {
        self.highest(item, branches).map(|(_, branch)| branch.clone())
    }

    fn highest<'b>(&self, item: u64, branches: &'b [String]) -> Option<(u64, &'b String)> {
        let of_item = |branch: &'b String| match self.item(branch)? {
            (found, number) if found == item => Some((number, branch)),
            _ => None,
        };
        branches.iter().filter_map(of_item).max()
    }

    /// The name of the folder of a worktree, which git takes for its own name of it, too.
    pub(super) fn worktree(&self, number: u64) -> String {
        format!("{}.{number}", self.run)
    }

    /// The number of such a name.
    pub(super) fn number(&self, worktree: &OsStr) -> Option<u64> {
        worktree.to_str()?.strip_prefix(self.run.as_str())?.strip_prefix('.')?.parse().ok()
    }

    pub(super) fn merge_message(&self, item: u64) -> String {
        let run = &self.run;
        format!("Merge item {item} of run {run}\n\nThreadline-run: {run}\n{}\n", Self::trailer(item))
    }

    /// The line of a merge by which it is found again.
    pub(super) fn trailer(item: u64) -> String {
        format!("Threadline-item: {item}")
    }

    pub(super) fn keep_message(&self, item: u64) -> String {
        let run = &self.run;
        format!("Work of item {item} of run {run} that was in no commit\n\nThreadline-run: {run}\n")
    }

    pub(super) fn final_message(&self, original: &OsStr) -> String {
        format!("Merge run {} into {}\n\nThreadline-run: {}\n", self.run, original.display(), self.run)
    }
}
