//! Lines that are printed while a run goes on. Nothing stops the run when they cannot be printed, but the first failure is
//! remembered: a report or a stream of events with a hole in it must not look whole.

use std::io::{self, Write};
use std::sync::OnceLock;

use threadline_runner::project::plain;

static FIRST_FAILURE: OnceLock<String> = OnceLock::new();

/// Prints a line for programs to stdout, as it is.
pub(crate) fn print_line(line: &str) {
    note(writeln!(io::stdout(), "{line}"));
}

/// Prints a line for people to stdout; without its styles if stdout is not a terminal.
pub(crate) fn print_styled_line(line: &str) {
    note(writeln!(anstream::stdout(), "{line}"));
}

/// Why something could not be printed, if anything.
pub(crate) fn first_failure() -> Option<&'static str> {
    FIRST_FAILURE.get().map(String::as_str)
}

/// Remembers why a line is missing.
pub(crate) fn note_failure(failure: &str) {
    FIRST_FAILURE.get_or_init(|| failure.to_owned());
}

/// That nobody reads the output any more is no failure.
fn note(printed: io::Result<()>) {
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        FIRST_FAILURE.get_or_init(|| plain(&error));
    }
}
