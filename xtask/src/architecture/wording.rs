//! Names and doc comments that tell a reader nothing.

use std::collections::BTreeSet;

use crate::measure::RustFile;
use crate::measure::names::{TypeNames, short_docs};

/// Names that more than one type has, one in a line. A name leaves the list when it is used once; none comes
/// to it.
const REPEATED: &str = include_str!("repeated_names.txt");

/// How many doc comments of at most two words there may be. The number goes down, never up.
const SHORT_DOCS: usize = 433;

/// Types that share their name with another type. Two things with one word are told apart by nobody.
pub(super) fn repeated_names(names: &TypeNames) -> Vec<String> {
    let allowed: BTreeSet<&str> = REPEATED.lines().collect();
    let new = names.repeated().filter(|(name, _)| !allowed.contains(name));
    new.map(|(name, count)| format!("{count} types are called `{name}`: give each a name of its own"))
        .collect()
}

/// Doc comments of one or two words, as soon as there are more than there may be.
pub(super) fn empty_docs(files: &[RustFile]) -> Vec<String> {
    let found = files
        .iter()
        .flat_map(|file| short_docs(file).into_iter().map(|line| format!("{}:{line}", file.path.display())));
    let found: Vec<String> = found.collect();
    if found.len() <= SHORT_DOCS {
        return Vec::new();
    }
    let message = "doc comments of at most two words, where";
    vec![format!("there are {} {message} {SHORT_DOCS} are allowed: {}", found.len(), found.join(", "))]
}
