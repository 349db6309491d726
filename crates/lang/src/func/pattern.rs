//! Regular expressions that match in linear time.
//!
//! The last few compiled ones are kept for the length of an evaluation, because an element expression asks for
//! the same one again and again.

use regex::{Error, Regex, RegexBuilder};

use super::FuncError;
use crate::limits::Limit;

const KEPT: usize = 8;

/// The compiled patterns of one evaluation, the last used first.
#[derive(Default)]
pub(crate) struct PatternCache(Vec<Regex>);

impl PatternCache {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The regular expression of a pattern, which is the second argument.
    pub(super) fn compiled(&mut self, pattern: &str, limit: usize) -> Result<&Regex, FuncError> {
        if let Some(at) = self.0.iter().position(|regex| regex.as_str() == pattern) {
            self.0[..=at].rotate_right(1);
        } else {
            let regex = RegexBuilder::new(pattern).size_limit(limit).build().map_err(refused)?;
            self.0.truncate(KEPT - 1);
            self.0.insert(0, regex);
        }
        Ok(&self.0[0])
    }
}

fn refused(error: Error) -> FuncError {
    match error {
        Error::CompiledTooBig(_) => FuncError::Limit(Limit::Regex),
        error => {
            let error = error.to_string();
            FuncError::value(1, format!("not a regular expression: {}", reason(&error)), None)
        }
    }
}

/// The library draws the pattern over several lines and puts the reason last.
fn reason(error: &str) -> &str {
    let reason = error.lines().last().unwrap_or("").trim();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    if reason.starts_with("look-around") {
        "look-ahead and look-behind are not supported"
    } else if reason.starts_with("backreferences") {
        "back-references are not supported"
    } else {
        reason
    }
}
