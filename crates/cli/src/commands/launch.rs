//! What happens before a run is driven: signals are listened for, and the locks of the run are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use threadline_engine::view::RunNames;
use threadline_flow::plan::Plan;
use threadline_lang::diag::words;
use threadline_runner::driver::Stop;
use threadline_runner::locks::{self, Locked, Patience};
use threadline_runner::process::Control;
use threadline_runner::project::Project;
use threadline_runner::signals::{Listener, SignalState};
use threadline_store::{ProjectLocks, RunId, Store};

use super::MAX_REPORTS;
use super::history::of_store;
use crate::arguments::WatchArguments;
use crate::exit::CommandFailure;
use crate::report::{self, Report, ReportSource};
use crate::screen::Screen;

/// The signals that this process receives, and the channel for notes about them.
pub(super) struct Signals {
    pub(super) control: Control,
    pub(super) stop: Stop,
    pub(super) screen: Option<Screen>,
    pub(super) notes: Sender<Option<&'static str>>,
    pub(super) to_print: Receiver<Option<&'static str>>,
    /// Whether the run is being driven, so that steps may have to finish.
    begun: Arc<AtomicBool>,
    pub(super) listener: Option<Listener>,
}

impl Signals {
    pub(super) fn listen(watch: &WatchArguments) -> Self {
        let (control, stop) = (Control::new(), Stop::default());
        let screen = if watch.json || watch.verbose { None } else { Screen::of_stdout() };
        let is_drawn = screen.is_some();
        let (notes, to_print) = mpsc::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let (asked, of_signals, has_begun) = (stop.clone(), notes.clone(), Arc::clone(&begun));
        // Without signals a run can still be killed and resumed.
        let listener = Listener::start(control.clone(), move |state| {
            asked.ask();
            if state == SignalState::Stopping && has_begun.load(Ordering::SeqCst) {
                let note =
                    "stopping: running steps finish, and nothing new starts; a second signal kills them";
                // If a block is drawn on the terminal, the thread that draws it prints the note.
                if !is_drawn || of_signals.send(Some(note)).is_err() {
                    report::print_note(note);
                }
            }
        });
        Self { control, stop, screen, notes, to_print, begun, listener: listener.ok() }
    }

    /// Marks the run as driven.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Takes the locks of a run, and waits for them as long as the user says.
    pub(super) fn take(
        &self,
        store: &Store,
        run: &RunId,
        plan: &Plan,
        names: &RunNames,
        project: &Project,
        watch: &WatchArguments,
    ) -> Result<ProjectLocks, CommandFailure> {
        let workflow = &plan.workflow;
        let wanted = locks::wanted(plan, names, project).map_err(|problems| {
            let source = ReportSource::of(&workflow.file);
            let reports = problems.iter().take(MAX_REPORTS);
            CommandFailure::NotStarted(reports.map(|problem| Report::problem(source, problem)).collect())
        })?;
        let patience = watch.wait.unwrap_or_default();
        let told = |taken: &threadline_store::LockConflict| {
            report::print_note(&format!("{}; waiting for it", locks::held(taken, project)));
        };
        let taken = locks::take(store, run, &workflow.name, wanted, patience, &self.stop, told);
        match taken.map_err(|error| of_store(&error))? {
            Locked::Taken(holding) => Ok(holding),
            Locked::Stopped => {
                report::print_note("stopped before the run started");
                Err(CommandFailure::Shown(130))
            }
            Locked::Held(taken) => {
                let mut message = locks::held(&taken, project);
                if let Some(pid) = taken.pid {
                    message = format!("{message} (process {pid})");
                }
                let hint = match patience {
                    Patience::For(time) => {
                        format!("waited for {}; `--wait` waits without a limit", words::duration(time))
                    }
                    _ => "`--wait` waits until it is free, `--wait=5m` for at most 5 minutes".to_owned(),
                };
                Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]))
            }
        }
    }
}
