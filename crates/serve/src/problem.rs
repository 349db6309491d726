//! Why a request is not answered: a status, and words for people, as RFC 9457 writes them.

use hyper::StatusCode;
use threadline_inspect::InspectError;
use threadline_lang::Value;
use threadline_store::{JournalError, StoreError};

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// What is wrong.
    pub(crate) detail: String,
    /// What can be done about it.
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: &str) -> Self {
        Self { status, detail: detail.to_owned(), hint: None }
    }

    /// What is asked for is not there.
    pub(crate) fn missing(detail: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// It is asked for in a wrong way.
    pub(crate) fn bad(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    #[must_use]
    pub(crate) fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    pub(crate) fn value(&self) -> Value {
        Value::record([
            ("type", Value::from("about:blank")),
            ("title", self.status.canonical_reason().unwrap_or_default().into()),
            ("status", Value::from(u64::from(self.status.as_u16()))),
            ("detail", self.detail.as_str().into()),
            ("hint", self.hint.as_deref().map_or(Value::NULL, Value::from)),
        ])
    }
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        let status = if error.is_missing { StatusCode::NOT_FOUND } else { StatusCode::INTERNAL_SERVER_ERROR };
        Self { status, detail: error.message, hint: error.hint }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        InspectError::from(error).into()
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        InspectError::from(error).into()
    }
}
