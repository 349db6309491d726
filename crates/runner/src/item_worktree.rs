//! Items of a map in worktrees of their own: where a step of such an item runs, and what becomes of what it
//! committed.
//!
//! What is done with git is for [`crate::worktrees`]; here it is only asked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::Address;
use threadline_engine::execute::effect::WorktreeEntry;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::problem::Problem;

use crate::driver::{DriveError, DrivenRun, Notice};
use crate::earlier::EarlierRun;
use crate::project::Project;
use crate::worktrees::{Closed, WorktreeError, Worktrees};

/// How long a lock of git may be in the way. Git itself waits for most of them, too.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// The time between two tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// Variables with which git would look elsewhere than in the folder of a step.
pub(crate) const GIT_VARIABLES: [&str; 6] =
    ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"];

/// The worktrees of a run, opened when the first item needs one.
#[derive(Default)]
pub(crate) struct Opened(Mutex<Option<Arc<Worktrees>>>);

/// Where a step of an item runs.
pub(crate) struct Placed {
    /// The worktree as a project.
    pub(crate) project: Project,
    pub(crate) worktree: EcoString,
}

pub(crate) fn failure(error: &WorktreeError) -> Failure {
    let message = error.to_string();
    // Below what git said stands a line of its own.
    let before = if message.contains('\n') { "\n" } else { "; " };
    let hint = error.hint().map_or(String::new(), |hint| format!("{before}{hint}"));
    Failure::new(FailureKind::Worktree, message + &hint)
}

impl DrivenRun<'_> {
    /// The worktrees of the run. What a killed process left is put right when they are opened.
    pub(crate) fn worktrees(&self) -> Result<Arc<Worktrees>, WorktreeError> {
        let mut opened = self.opened.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worktrees) = &*opened {
            return Ok(Arc::clone(worktrees));
        }
        let run = self.journal.run();
        let folder = self.project.worktrees(run.as_str());
        let earlier = self.earlier.as_ref().filter(|earlier| earlier.keeps_commits()).map(EarlierRun::run);
        let earlier = earlier.map(|run| (run, self.project.worktrees(run.as_str())));
        let earlier = earlier.as_ref().map(|(run, folder)| (*run, folder.as_path()));
        let here = self.project.here();
        let worktrees = Arc::new(Worktrees::open_after(here, &folder, run, &self.env, earlier)?);
        *opened = Some(Arc::clone(&worktrees));
        Ok(worktrees)
    }

    /// Does something with the repository, again and again while a lock of git is in the way: that is
    /// nobody's failure. A lock that stays ends the run, which can be resumed; none when somebody asked to
    /// end before.
    pub(crate) fn unlocked<T>(
        &self,
        act: impl Fn() -> Result<T, WorktreeError>,
    ) -> Result<Option<Result<T, WorktreeError>>, DriveError> {
        let give_up_at = Instant::now() + LOCK_PATIENCE;
        loop {
            let rings = self.stop.bell().rings();
            let error = match act() {
                Err(error) if error.lock().is_some() => error,
                done => return Ok(Some(done)),
            };
            if self.stop.asked() {
                return Ok(None);
            }
            if Instant::now() >= give_up_at {
                return Err(DriveError::Git(Box::new(error)));
            }
            self.stop.bell().wait(rings, Some(BETWEEN_TRIES));
        }
    }

    /// Where the steps of an item run.
    pub(crate) fn enter(&self, item: u64, entry: WorktreeEntry) -> Result<Placed, WorktreeError> {
        let worktrees = self.worktrees()?;
        let entered = worktrees.enter(item)?;
        match entry {
            WorktreeEntry::AsTheyAre => {}
            WorktreeEntry::Save => worktrees.save(item)?,
            WorktreeEntry::Restore => worktrees.restore(item)?,
        }
        let worktree = entered.worktree.display().to_string().into();
        Ok(Placed { project: self.project.in_worktree(entered.worktree, entered.here), worktree })
    }

    /// No item needs its worktree any more, but those that are under way.
    pub(crate) fn leave_worktrees(&self) -> Result<Option<Closed>, WorktreeError> {
        let opened = self.opened.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        opened.map(|worktrees| worktrees.close()).transpose()
    }

    /// Says which changes of the user's no item sees.
    pub(crate) fn tell_uncommitted(&self, at: &Address, worktrees: &Worktrees) {
        let Ok(files) = worktrees.uncommitted() else { return };
        if files.is_empty() {
            return;
        }
        let span = at.step(&self.plan).map(|step| self.plan.steps[step as usize].step.origin.span);
        let count = files.len();
        let shown: Vec<String> = files.iter().take(3).map(|file| format!("`{}`", file.display())).collect();
        let more = count.saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("the items do not see what is in no commit: {}{more}", shown.join(", "));
        let problem = Problem::warning("uncommitted", span.unwrap_or_default(), message);
        self.teller.tell(Notice::Problems(at.clone(), vec![problem.hint("commit it before the run")]));
    }
}
