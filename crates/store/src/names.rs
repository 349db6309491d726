//! Names of runs, events and values. A name that reaches a path was checked here.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreError;

/// The number of an event in its run; the first is 1.
pub type Seq = u64;

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

/// The BLAKE3 hash of the bytes of a value, or of an event and all before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// The hash of these 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn finish(hasher: &blake3::Hasher) -> Self {
        Self(hasher.finalize().into())
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads the 64 lower-case digits that `Display` writes.
impl FromStr for Hash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(BadHash);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn digit(digit: u8) -> Result<u8, BadHash> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(BadHash),
    }
}

/// The text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHash;

impl fmt::Display for BadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a hash: 64 of `0-9` and `a-f`")
    }
}

impl std::error::Error for BadHash {}
