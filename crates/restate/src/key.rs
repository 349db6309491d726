//! The key that the requests of a coordinator are signed with.
//!
//! Whoever reaches the port of a Restate server can send requests to workers, and a request is a program to run. So a
//! worker performs only what is signed with the key that it shares with its coordinators.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};

/// A key has at least so many bytes.
const SHORTEST: usize = 16;

/// The bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// A key that coordinators and workers share. It is never shown.
#[derive(Clone)]
pub struct SharedKey([u8; BLOCK]);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

impl SharedKey {
    /// The key in a file, without white space around it.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let found = std::fs::read(path);
        let found = found.map_err(|error| format!("the key file `{}`: {error}", path.display()))?;
        Self::of_bytes(&found).map_err(|why| format!("the key in `{}` {why}", path.display()))
    }

    /// The key in an environment variable.
    pub fn of_variable(name: &str) -> Result<Self, String> {
        let found = std::env::var(name).map_err(|_| format!("there is no environment variable `{name}`"))?;
        Self::of_bytes(found.as_bytes()).map_err(|why| format!("the key in the variable `{name}` {why}"))
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let key = bytes.trim_ascii();
        if key.len() < SHORTEST {
            return Err(format!("has {} bytes, and must have at least {SHORTEST}", key.len()));
        }
        // As HMAC makes a block of a key: a longer one is hashed, and zeros follow.
        let hashed = Sha256::digest(key);
        let key = if key.len() > BLOCK { hashed.as_slice() } else { key };
        let mut block = [0; BLOCK];
        block[..key.len()].copy_from_slice(key);
        Ok(Self(block))
    }

    fn mac(&self, text: &[u8]) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&self.0.into()).chain_update(text)
    }

    /// What proves that a text comes from somebody with this key.
    pub(crate) fn sign(&self, text: &[u8]) -> String {
        use std::fmt::Write as _;
        let bytes = self.mac(text).finalize().into_bytes();
        bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Whether a text was signed with this key. It takes the same time wherever the two differ.
    pub(crate) fn has_signed(&self, text: &[u8], signature: &str) -> bool {
        let digits = signature.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> =
            digits.map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()).collect();
        bytes.is_some_and(|bytes| self.mac(text).verify_slice(&bytes).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_text_are_accepted() {
        let key = SharedKey::of_bytes(b" 0123456789abcdef\n").unwrap();
        let other = SharedKey::of_bytes(b"0123456789abcdeg").unwrap();
        let signature = key.sign(b"text");
        assert!(key.has_signed(b"text", &signature));
        assert!(!key.has_signed(b"texu", &signature));
        assert!(!other.has_signed(b"text", &signature));
        for wrong in ["", "x", "00", &signature[1..], "é0"] {
            assert!(!key.has_signed(b"text", wrong));
        }
        assert_eq!(SharedKey::of_bytes(b"short").unwrap_err(), "has 5 bytes, and must have at least 16");
        assert_eq!(format!("{key:?}"), "SharedKey(..)");
    }
}
