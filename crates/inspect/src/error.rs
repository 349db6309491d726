//! Why something of a run cannot be shown.

use threadline_store::{JournalError, StoreError};

/// Why something of a run cannot be shown: a message for people, and how to go on.
#[derive(Debug, Clone)]
pub struct InspectError {
    /// What is wrong, and where.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
    /// Whether the run, or what is asked for in it, is not there at all.
    pub is_missing: bool,
}

impl InspectError {
    /// An error without advice.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, is_missing: false }
    }

    /// An error with advice.
    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()), is_missing: false }
    }

    /// The same error, because what is asked for does not exist.
    #[must_use]
    pub fn missing(self) -> Self {
        Self { is_missing: true, ..self }
    }
}

impl std::fmt::Display for InspectError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for InspectError {}

/// An error of the store.
pub fn of_store(error: &StoreError) -> InspectError {
    let is_missing = matches!(error, StoreError::NoSuchRun { .. });
    InspectError { message: error.to_string(), hint: error.hint().map(ToOwned::to_owned), is_missing }
}

/// An error of the journal.
pub fn of_journal(error: &JournalError) -> InspectError {
    match error {
        JournalError::Store(error) => of_store(error),
        error => InspectError::plain(error.to_string()),
    }
}

impl From<StoreError> for InspectError {
    fn from(error: StoreError) -> Self {
        of_store(&error)
    }
}

impl From<JournalError> for InspectError {
    fn from(error: JournalError) -> Self {
        of_journal(&error)
    }
}
