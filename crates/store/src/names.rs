//! Names of runs, events and values. A name that reaches a path was checked here.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreError;

pub use threadline_engine::event::Seq;
pub use threadline_engine::{BadHash, Hash};

/// The longest id of a run, in bytes.
const LONGEST: usize = 64;

/// The word that stands for the newest run, and so cannot be an id.
pub(crate) const LAST: &str = "last";

/// The id of a run: 1 to 64 of `a-z`, `0-9` and `-`, beginning with a letter or digit. It is safe as the name of a
/// file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Box<str>);

impl RunId {
    /// Checks a text that is to be an id.
    pub fn new(text: &str) -> Result<Self, StoreError> {
        if is_prefix(text) && text != LAST {
            return Ok(Self(text.into()));
        }
        Err(StoreError::BadRunId { text: text.chars().take(LONGEST).collect() })
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether an id may begin with this text.
pub(crate) fn is_prefix(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && text.bytes().all(plain)
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        Self::new(text)
    }
}
