//! The exit codes, and the failures that lead to them.

use std::process::ExitCode;

use threadline_inspect::InspectError;

use crate::report::Report;

/// Why a command failed. The reports are ready to be printed.
pub(crate) enum CommandFailure {
    /// A reference or expression failed.
    Failed(Vec<Report>),
    /// The command line is wrong.
    Usage(String),
    /// Values that the user gave are wrong, or some are missing.
    Inputs(Vec<Report>),
    /// None of the scenarios of a file was chosen.
    NothingChosen,
    /// A file could not be read or parsed.
    NotStarted(Vec<Report>),
    /// The reader of stdout is gone, so nothing can be printed.
    Closed,
    /// Everything was printed already; only the exit code is left.
    Shown(u8),
}

impl CommandFailure {
    /// Prints what happened and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        ExitCode::from(self.show())
    }

    /// Prints what happened.
    pub(crate) fn show(self) -> u8 {
        let (reports, code) = match self {
            Self::Failed(reports) => (reports, 1),
            Self::Usage(message) => (vec![Report::plain(message)], 2),
            Self::Inputs(reports) => (reports, 2),
            Self::NothingChosen => (vec![Report::plain("no scenario was chosen")], 2),
            Self::NotStarted(reports) => (reports, 3),
            Self::Closed => (Vec::new(), 0),
            Self::Shown(code) => (Vec::new(), code),
        };
        crate::report::print_all(&reports);
        code
    }
}

impl From<InspectError> for CommandFailure {
    fn from(error: InspectError) -> Self {
        Self::NotStarted(vec![match &error.hint {
            Some(hint) => Report::with_hint(&error.message, hint),
            None => Report::plain(&error.message),
        }])
    }
}

/// The exit code for an error of the argument parser. Help and version are no failures.
pub(crate) fn of_usage(error: &clap::Error) -> ExitCode {
    // Printing fails only if there is no reader, and then nothing can be done.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
