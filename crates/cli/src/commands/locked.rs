//! What a run has for itself before it begins or goes on, and the signals that end the waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use threadline_engine::execute::result::format_duration;
use threadline_engine::view::RunNames;
use threadline_flow::plan::Plan;
use threadline_runner::driver::Stop;
use threadline_runner::locks::{self, Locked, Patience};
use threadline_runner::process::Control;
use threadline_runner::project::Project;
use threadline_runner::signals::{Listener, SignalState};
use threadline_store::{Holding, RunId, Store};

use super::MAX_REPORTS;
use super::history::of_store;
use crate::arguments::Watch;
use crate::exit::Failure;
use crate::report::{self, Report, Source};
use crate::screen::Screen;

/// What people and systems ask of this process, and where notes about it go.
pub(super) struct Signals {
    pub(super) control: Control,
    pub(super) stop: Stop,
    pub(super) screen: Option<Screen>,
    pub(super) notes: Sender<Option<&'static str>>,
    pub(super) to_print: Receiver<Option<&'static str>>,
    /// Whether anything has begun that could come to its end.
    begun: Arc<AtomicBool>,
    pub(super) listener: Option<Listener>,
}

impl Signals {
    pub(super) fn listen(watch: &Watch) -> Self {
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
                let note = "stopping: what runs comes to its end, nothing new begins; once more ends it";
                // Where something is drawn, whoever draws makes place for it.
                if !is_drawn || of_signals.send(Some(note)).is_err() {
                    report::print_note(note);
                }
            }
        });
        Self { control, stop, screen, notes, to_print, begun, listener: listener.ok() }
    }

    /// From now on something runs.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Takes what a run is to have for itself.
    pub(super) fn take(
        &self,
        store: &Store,
        run: &RunId,
        plan: &Plan,
        names: &RunNames,
        project: &Project,
        watch: &Watch,
    ) -> Result<Holding, Failure> {
        let workflow = &plan.workflow;
        let wanted = locks::wanted(plan, names, project).map_err(|problems| {
            let source = Source::of(&workflow.file);
            let reports = problems.iter().take(MAX_REPORTS);
            Failure::NotStarted(reports.map(|problem| Report::problem(source, problem)).collect())
        })?;
        let patience = watch.wait.unwrap_or_default();
        let told = |taken: &threadline_store::Taken| {
            report::print_note(&format!("{}; waiting for it", locks::held(taken, project)));
        };
        let taken = locks::take(store, run, &workflow.name, wanted, patience, &self.stop, told);
        match taken.map_err(|error| of_store(&error))? {
            Locked::Taken(holding) => Ok(holding),
            Locked::Stopped => {
                report::print_note("nothing was begun");
                Err(Failure::Shown(130))
            }
            Locked::Held(taken) => {
                let mut message = locks::held(&taken, project);
                if let Some(pid) = taken.pid {
                    message = format!("{message} (process {pid})");
                }
                let hint = match patience {
                    Patience::For(time) => {
                        format!("it was waited for {}; `--wait` waits without end", format_duration(time))
                    }
                    _ => "`--wait` waits until it is there, `--wait=5m` at most so long".to_owned(),
                };
                Err(Failure::NotStarted(vec![Report::with_hint(message, &hint)]))
            }
        }
    }
}
