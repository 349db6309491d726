//! The names of runs, events and values. Every name that becomes part of a path is checked here.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreError;

pub use threadline_engine::event::Seq;
pub use threadline_engine::{BadHash, Hash};

/// The maximum length of the id of a run, in bytes.
const MAX_LENGTH: usize = 64;

/// The number of letters and digits that distinguish the runs called within one run: enough that a million of them do
/// not collide.
const CALLED_LENGTH: usize = 12;

/// The word for the newest run, which therefore cannot be an id.
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
        Err(StoreError::BadRunId { text: text.chars().take(MAX_LENGTH).collect() })
    }

    /// The id of a run that a step of another run calls. The part before its `-` is the run that was started by a user. The
    /// rest follows from the calling run, the execution, the event that made the execution ready, and the exchange of an
    /// agent that calls it, so that the called run is found again.
    pub fn called(
        started: &Self,
        caller: &Self,
        at: &str,
        as_of: Seq,
        exchange: u32,
    ) -> Result<Self, StoreError> {
        const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
        let exchange = if exchange == 0 { String::new() } else { format!(" {exchange}") };
        let hash = Hash::of(format!("{caller} {as_of} {at}{exchange}").as_bytes());
        let letters = hash
            .as_bytes()
            .iter()
            .take(CALLED_LENGTH)
            .map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
        Self::new(&format!("{}-{}", started.started(), letters.collect::<String>()))
    }

    /// The id of the run that was started by a user and that this run is a part of, which may be this run.
    pub fn started(&self) -> &str {
        self.0.split_once('-').map_or(&*self.0, |(started, _)| started)
    }

    /// Whether a step of another run called this run.
    pub fn is_called(&self) -> bool {
        self.0.contains('-')
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether an id may begin with this text.
pub(crate) fn is_prefix(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !text.is_empty() && text.len() <= MAX_LENGTH && !text.starts_with('-') && text.bytes().all(plain)
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
