//! What the machine asks for, and where a run is: the types that a driver meets.

use ecow::EcoString;
use threadline_flow::plan::StepNumber;

use crate::event::{Address, LoopEnd, Millis, Rules, Seq};
use crate::spend::Spend;
use crate::view::Limit;

/// What the machine asks a driver to do next. Each command leads to an event, and the event to further
/// commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Evaluate the condition `when` of a step.
    Decide(Task),
    /// Record that a node of a graph cannot begin.
    Skip {
        /// The node that is skipped.
        task: Task,
        /// The reason, in words.
        reason: EcoString,
    },
    /// Evaluate the list of a `foreach`.
    Expand(Task),
    /// Resolve the fields of a step and carry it out.
    Start {
        /// The step that is started.
        task: Task,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of earlier attempts that do not count: those before the last resume after a failure.
        base: u32,
        /// Whether this attempt was running when Threadline was killed.
        rerun: bool,
    },
    /// Begin the next attempt when the pause is over.
    Wait {
        /// The step or item.
        task: Task,
        /// When the pause began and when it ends.
        pause: Pause,
    },
    /// Record that an item has ended, or that it failed and begins again.
    EndItem {
        /// The item that is over.
        task: Task,
        /// How its steps went.
        ending: ItemEnding,
    },
    /// Record that an item begins again.
    BeginItem {
        /// The item that begins again.
        task: Task,
        /// The number of the attempt, from 2.
        attempt: u32,
    },
    /// Put the results of the items together.
    Collect {
        /// The step whose items they are.
        task: Task,
        /// The event that recorded the items.
        list: Seq,
        /// How many items ended in which way.
        counts: Counts,
        /// The failure rules of the items.
        rules: Rules,
        /// When they began, moved by the time in which nobody worked on them.
        since: Millis,
        /// The limit of the run that cut them short: then the list fails, whatever its rules allow.
        cut_short: Option<Limit>,
    },
    /// Put together the output of a phase.
    Close {
        /// The phase that is closed.
        task: Task,
        /// The event with the output of its last step.
        last: Option<Seq>,
        /// The names that its steps captured, with the events that set them.
        captured: Vec<(EcoString, Seq)>,
    },
    /// Record that a step failed, because it was running when Threadline was killed.
    FailAfterCrash(Task),
    /// Ask the user: the step was running when Threadline was killed, and `on_crash` is `ask`.
    Ask(Task),
    /// Evaluate the limits of a loop.
    ResolveLimits,
    /// Judge a state and find the state that follows.
    Judge(Task),
    /// Record the outcome of the run, which its last lists read or depend on.
    RecordOutcome(Box<RunOutcome>),
    /// Evaluate `exports` and record that the run has ended.
    End {
        /// How it ended.
        outcome: Outcome,
        /// The state that a loop ended with, and the reason.
        ended: Option<LoopEnd>,
        /// How many items are failed.
        failed_items: u64,
        /// What it spent on agents.
        spent: Box<Spend>,
    },
}

impl Command {
    /// Whether it begins new work. A run that stops drops such commands and carries out the others.
    pub fn begins(&self) -> bool {
        !matches!(
            self,
            Self::Collect { .. }
                | Self::EndItem { .. }
                | Self::Close { .. }
                | Self::Judge(_)
                | Self::End { .. }
                | Self::RecordOutcome(_)
                | Self::FailAfterCrash(_)
                | Self::Skip { .. }
        )
    }

    /// The step or item it is about.
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Decide(task)
            | Self::Expand(task)
            | Self::Skip { task, .. }
            | Self::Start { task, .. }
            | Self::Wait { task, .. }
            | Self::EndItem { task, .. }
            | Self::BeginItem { task, .. }
            | Self::Collect { task, .. }
            | Self::Close { task, .. }
            | Self::FailAfterCrash(task)
            | Self::Judge(task)
            | Self::Ask(task) => Some(task),
            Self::ResolveLimits | Self::RecordOutcome(_) | Self::End { .. } => None,
        }
    }
}

/// The outcome of the steps of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// How the run ends, as far as it has come.
    pub outcome: Outcome,
    /// The first of the executions that failed, in the order in which they did.
    pub failed: Vec<StandingFailure>,
    /// The number of all executions that failed.
    pub failed_count: u64,
    /// When the run began, moved by the time it was stopped.
    pub since: Millis,
    /// The state that a loop ended with, and the reason.
    pub ended: Option<LoopEnd>,
}

/// An execution that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingFailure {
    /// The step or item.
    pub at: Address,
    /// The event that says why.
    pub seq: Seq,
}

/// How many items of a list ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The number of all items.
    pub total: u64,
    /// Items that completed.
    pub successful: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items whose steps were all skipped.
    pub skipped: u64,
}

impl Counts {
    /// Items that did not begin.
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.successful + self.failed + self.skipped)
    }
}

/// The step or item that a command is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The address of the execution.
    pub at: Address,
    /// The step of the plan.
    pub step: StepNumber,
    /// The event that made it ready. It must be on disk before the command is carried out.
    pub as_of: Seq,
}

/// A pause between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The time at which it began.
    pub since: Millis,
    /// The time at which it ends.
    pub until: Millis,
}

impl Pause {
    /// The rest of the pause, in milliseconds. A clock that was set back does not make a pause longer.
    pub fn left(self, now: Millis) -> u64 {
        let whole = self.until.saturating_sub(self.since).max(0);
        self.until.saturating_sub(now).clamp(0, whole).unsigned_abs()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No step failed, or none whose failure counts.
    Completed,
    /// A step failed.
    Failed,
    /// A loop reached a limit. A resume goes on with it.
    Stopped,
}

impl Outcome {
    /// Every outcome, in no particular order.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Stopped];

    /// The name that the journal stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No event was applied.
    New,
    /// Started and not ended.
    Going,
    /// Ended; a resume may continue it.
    Ended(Outcome),
}

/// An event that does not fit the state of the machine: the journal belongs to another plan, or is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidEvent {
    /// The number of the event.
    pub seq: Seq,
    /// What was expected, in words.
    pub why: String,
}

/// An item whose steps have all ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemEnding {
    /// The index of the item, from 0.
    pub index: u64,
    /// The number of the runner that had it, from 0.
    pub runner: u64,
    /// Whether its steps succeeded.
    pub succeeded: bool,
    /// The event with the output of the last executed step; of an item that failed, of the step that failed.
    pub output: Option<Seq>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The number of attempts that do not count: those before the last resume after a failure.
    pub base: u32,
    /// The time at which this attempt began.
    pub began: Millis,
    /// Whether a step in it failed because it was running when Threadline was killed: the item would do it twice.
    pub has_crash: bool,
    /// Whether all that its steps left is that of an earlier run.
    pub is_kept: bool,
    /// The failure rules of its list.
    pub rules: Rules,
    /// The time by which what is around the list has to be through.
    pub limit: Option<Limit>,
}
