//! Regular expressions that match in linear time.
//!
//! The last few compiled ones are kept, because an element expression asks for the same one again and again.
//! That changes nothing but the speed.

use std::cell::RefCell;

use regex::{Error, Regex, RegexBuilder};

use super::FuncError;
use crate::limits::Limit;

const KEPT: usize = 8;

struct Compiled {
    limit: usize,
    regex: Regex,
}

thread_local! {
    static COMPILED: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
}

/// The regular expression of a pattern, which is the second argument.
pub(super) fn compiled(pattern: &str, limit: usize) -> Result<Regex, FuncError> {
    COMPILED.with_borrow_mut(|kept| {
        let is_it = |entry: &Compiled| entry.limit == limit && entry.regex.as_str() == pattern;
        if let Some(at) = kept.iter().position(is_it) {
            kept[..=at].rotate_right(1);
            return Ok(kept[0].regex.clone());
        }
        let regex = RegexBuilder::new(pattern).size_limit(limit).build().map_err(refused)?;
        kept.truncate(KEPT - 1);
        kept.insert(0, Compiled { limit, regex: regex.clone() });
        Ok(regex)
    })
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
