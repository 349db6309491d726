//! Exit codes, and the failures behind them.

use std::process::ExitCode;

use crate::report::Report;

/// Why a command did not end well. The reports are already what people read.
pub(crate) enum Failure {
    /// A reference or expression failed.
    Failed(Vec<Report>),
    /// The call itself is wrong.
    Usage(String),
    /// Values that the caller gave are wrong, or some are missing.
    Inputs(Vec<Report>),
    /// A file could not be read or parsed.
    NotStarted(Vec<Report>),
    /// Whoever read stdout went away; there is nobody to tell.
    Closed,
    /// It was printed already; only the code is left.
    Shown(u8),
}

impl Failure {
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
            Self::NotStarted(reports) => (reports, 3),
            Self::Closed => (Vec::new(), 0),
            Self::Shown(code) => (Vec::new(), code),
        };
        crate::report::print_all(&reports);
        code
    }
}

/// Help and version are no failures; everything else that clap finds is a wrong call.
pub(crate) fn of_usage(error: &clap::Error) -> ExitCode {
    // Printing fails only when nobody reads, and then there is nothing better to do.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
