//! `threadline attach`: shows a run that another process drives, as that process would, until it ends.
//!
//! It only reads the journal. Whoever ends it leaves the run as it is.

use std::sync::Arc;

use threadline_engine::event::{EventKind, Seq};
use threadline_engine::machine::Outcome;
use threadline_runner::values::Values;

use super::explain::failures::FailureSummary;
use super::history::{History, of_journal, of_store};
use super::kept::stored;
use super::print_styled;
use crate::arguments::AttachArguments;
use crate::exit::CommandFailure;
use crate::progress::Progress;
use crate::report;
use crate::reporter::{ReportOptions, Reporter};
use crate::screen::Screen;

pub(crate) fn attach(call: &AttachArguments) -> Result<(), CommandFailure> {
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    let run = history.info.id.clone();
    let plan = Arc::clone(&history.plan);
    let mut reporter = Reporter::new(plan, run.as_str(), ReportOptions::default(), Progress::default());
    reporter = reporter.reading(&reader);
    if let Some(screen) = Screen::of_stdout() {
        reporter = reporter.live(screen, Values::new(&reader, run.clone()));
    }
    let mut watched = WatchedRun { history: &history, reporter, next: 1, stage: WatchedStage::Going };
    loop {
        reader.refresh()?;
        // Asked first, so that what a run writes before it ends is read.
        let is_driven = reader.is_driven(&run).map_err(|error| of_store(&error))?;
        watched.read()?;
        if !is_driven {
            return watched.conclude(&reader.arguments());
        }
        watched.reporter.redraw();
        std::thread::sleep(reader.pause());
    }
}

/// A run, and how much of it was shown.
struct WatchedRun<'h> {
    history: &'h History<'h>,
    reporter: Reporter<'h>,
    /// The first event that was not shown yet.
    next: Seq,
    stage: WatchedStage,
}

enum WatchedStage {
    Going,
    Paused,
    Ended(Outcome),
}

impl WatchedRun<'_> {
    /// Shows the events that were written since the last call.
    fn read(&mut self) -> Result<(), CommandFailure> {
        let History { reader, info, .. } = self.history;
        for event in reader.events(&info.id, self.next).map_err(|error| of_store(&error))? {
            let event = event.map_err(|error| of_journal(&error))?;
            self.next = event.seq + 1;
            self.reporter.event(&event);
            self.stage = match event.kind {
                EventKind::RunEnded { outcome, .. } => WatchedStage::Ended(outcome),
                EventKind::Paused { .. } => WatchedStage::Paused,
                _ => WatchedStage::Going,
            };
        }
        Ok(())
    }

    /// Says how to go on, with the exit code that the run itself has.
    fn conclude(mut self, arguments: &str) -> Result<(), CommandFailure> {
        self.reporter.clear_block();
        let id = self.history.info.id.as_str();
        let code = match self.stage {
            WatchedStage::Ended(Outcome::Completed) => return Ok(()),
            WatchedStage::Ended(Outcome::Failed) => {
                let (failed, log) = (self.reporter.failed_steps(), self.reporter.take_failures());
                let summary =
                    FailureSummary { plan: &self.history.plan, run: id, failed: &failed, log: &log };
                print_styled(&summary.text(Some(self.history))?)?;
                1
            }
            WatchedStage::Ended(Outcome::Stopped) => 4,
            WatchedStage::Paused => 130,
            WatchedStage::Going => {
                report::print_note("the process that drove the run is gone");
                4
            }
        };
        report::print_note(&format!("`threadline resume {id}{arguments}` goes on"));
        Err(CommandFailure::Shown(code))
    }
}
