//! The secret that whoever asks must know, and what is made of it. Secrets are compared in constant time.

use std::fmt;

/// The minimum length of a token that the user gives.
const SHORTEST: usize = 32;

/// The maximum length of one.
const LONGEST: usize = 512;

/// A secret. It is not printed by accident.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one, which nobody can guess.
    pub fn new() -> Self {
        let half = || uuid::Uuid::new_v4().simple().to_string();
        Self(half() + &half())
    }

    /// One that the user gives; an error says why it cannot be used.
    pub fn given(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < SHORTEST || text.len() > LONGEST {
            return Err(format!(
                "a token has {SHORTEST} to {LONGEST} characters, this one has {}",
                text.len()
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
            return Err("a token is made of letters, digits, `-`, `.`, `_` and `~`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself, for the address that is printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a text is this secret.
    pub(crate) fn is(&self, text: &str) -> bool {
        is_same(&self.0, text)
    }

    /// What a browser keeps in a cookie. The token does not follow from it.
    pub(crate) fn cookie(&self) -> String {
        self.derive("threadline 2026-11-19 cookie of a browser").to_hex().to_string()
    }

    /// The first segment of the paths of pages. It follows from the token, so that bookmarks hold as long as that does, and
    /// nobody can guess it.
    pub(crate) fn segment(&self) -> String {
        self.derive("threadline 2026-11-19 segment of paths").to_hex()[..20].to_owned()
    }

    fn derive(&self, purpose: &str) -> blake3::Hash {
        blake3::Hash::from_bytes(blake3::derive_key(purpose, self.0.as_bytes()))
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

/// Whether two secrets are the same. How long that takes says nothing about where they differ: hashes are compared, and
/// these in constant time.
pub(crate) fn is_same(known: &str, given: &str) -> bool {
    blake3::hash(known.as_bytes()) == blake3::hash(given.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_plain() {
        assert!(Token::given("short").is_err());
        assert!(Token::given(&"a b".repeat(20)).is_err());
        let token = Token::given(&"k".repeat(SHORTEST)).expect("a token");
        assert!(token.is(&"k".repeat(SHORTEST)) && !token.is(&"k".repeat(SHORTEST + 1)) && !token.is(""));
    }

    #[test]
    fn what_is_made_of_a_token_differs_from_it_and_from_each_other() {
        let token = Token::new();
        assert!(!token.cookie().contains(&token.segment()));
        assert_ne!(token.cookie(), token.reveal());
        assert_ne!(Token::new().segment(), token.segment());
        assert!(!format!("{token:?}").contains(token.reveal()));
    }
}
