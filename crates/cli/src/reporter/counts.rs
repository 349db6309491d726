//! How many steps or items ended in which way, for the last line of a run.

use threadline_engine::event::Status;
use threadline_lang::diag::words::plural;

#[derive(Default)]
pub(super) struct StatusCounts {
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl StatusCounts {
    pub(super) fn add(&mut self, status: Status) {
        match status {
            Status::Completed => self.completed += 1,
            Status::Failed | Status::Cancelled => self.failed += 1,
            Status::Skipped => self.skipped += 1,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.completed + self.failed + self.skipped == 0
    }

    /// `4 completed, 1 failed`; with a unit `4 steps completed, 1 failed`.
    pub(super) fn text(&self, unit: Option<&str>) -> String {
        let Self { completed, failed, skipped } = self;
        let unit = unit.map_or(String::new(), |unit| format!(" {}", plural(completed, unit)));
        let mut parts = vec![format!("{completed}{unit} completed")];
        if *failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        if *skipped > 0 {
            parts.push(format!("{skipped} skipped"));
        }
        parts.join(", ")
    }
}
