//! The one error of all tasks: made to be read, never to be matched on.

use std::fmt;
use std::path::Path;

/// What went wrong, and what to do about it.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// A file or folder that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::new(format!("{}: {error}", path.display()), "see whether it is there and yours")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n\nhint: {}", self.message, self.hint)
    }
}
