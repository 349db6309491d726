//! The store of a project: where it is, and whether it may be used.

use std::path::{Path, PathBuf};

pub(crate) use threadline_engine::execute::result::time_text;
pub(crate) use threadline_inspect::history::{History, clock_text};
use threadline_runner::project::{Project, STORE};
use threadline_runner::trust::{self, StoreUse};
use threadline_store::{JournalError, JournalReader, StoreError};

use crate::exit::CommandFailure;
use crate::report::{self, Report};

/// The project of a folder.
pub(crate) fn project(folder: Option<&Path>) -> Result<Project, CommandFailure> {
    let here = match folder {
        Some(folder) => folder.to_owned(),
        None => {
            std::env::current_dir().map_err(|error| cannot_start(&format!("the current folder: {error}")))?
        }
    };
    Project::of(&here).map_err(|error| cannot_start(&format!("`{}`: {error}", here.display())))
}

/// The store of a project, if it may be used. With `trusted` the user says so.
pub(crate) fn store_of(
    project: &Project,
    purpose: StoreUse,
    trusted: bool,
) -> Result<PathBuf, CommandFailure> {
    let store = project.journal();
    let Err(doubt) = trust::check(&store, purpose) else { return Ok(store) };
    if trusted {
        if let Err(error) = trust::trust(&store) {
            report::print_note(&trust::describe_untold(&error));
        }
        return Ok(store);
    }
    let flag = if purpose == StoreUse::Read { "`threadline runs --trust-store`" } else { "`--trust-store`" };
    let hint = format!(
        "the journal of a store decides what a resumed run does; if you know where it comes from, {flag} uses \
         it from now on, else remove it or begin a project of its own with `mkdir {STORE}`"
    );
    Err(CommandFailure::NotStarted(vec![Report::with_hint(doubt, &hint)]))
}

/// The store of a project, if there is one and nobody else has put it there.
pub(crate) fn own_store(project: &Project) -> Option<PathBuf> {
    let store = project.store();
    (store.is_dir() && trust::check(&store, StoreUse::Write).is_ok()).then_some(store)
}

pub(crate) fn cannot_start(message: &str) -> CommandFailure {
    CommandFailure::NotStarted(vec![Report::plain(message)])
}

/// The failure of a command because of an error of the store.
pub(crate) fn of_store(error: &StoreError) -> CommandFailure {
    CommandFailure::NotStarted(vec![match error.hint() {
        Some(hint) => Report::with_hint(error, hint),
        None => Report::plain(error),
    }])
}

/// The failure of a command because of an error of the journal.
pub(crate) fn of_journal(error: &JournalError) -> CommandFailure {
    match error {
        JournalError::Store(error) => of_store(error),
        error => cannot_start(&error.to_string()),
    }
}

/// Opens the journal of a project for reading.
pub(crate) fn reader(folder: Option<&Path>) -> Result<JournalReader, CommandFailure> {
    let project = project(folder)?;
    JournalReader::open(&store_of(&project, StoreUse::Read, false)?).map_err(|error| match error {
        // A project without a store has no run, whatever it is asked for.
        StoreError::NoJournal { .. } => of_store(&StoreError::NoSuchRun { name: "last".to_owned() }),
        error => of_store(&error),
    })
}
