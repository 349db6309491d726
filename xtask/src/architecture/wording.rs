//! Names and doc comments that tell a reader nothing.

use std::collections::BTreeSet;

use crate::measure::RustFile;
use crate::measure::names::{TypeNames, short_docs};

/// Names that more than one type has, one in a line. A name leaves the list when it is used once; none comes
/// to it.
const REPEATED: &str = include_str!("repeated_names.txt");

/// How many doc comments of at most two words there may be. The number goes down, never up.
const SHORT_DOCS: usize = 436;

/// Types that share their name with another type. Two things with one word are told apart by nobody.
pub(super) fn repeated_names(names: &TypeNames) -> Vec<String> {
    let allowed: BTreeSet<&str> = REPEATED.lines().collect();
    let new = names.repeated().filter(|(name, _)| !allowed.contains(name));
    new.map(|(name, count)| format!("{count} types are called `{name}`: give each a name of its own"))
        .collect()
}

/// Doc comments of one or two words, as soon as there are more than there may be.
pub(super) fn empty_docs(files: &[RustFile]) -> Vec<String> {
    let counts = files.iter().map(|file| (short_docs(file).len(), file));
    let mut counts: Vec<(usize, &RustFile)> = counts.filter(|(count, _)| *count > 0).collect();
    let all: usize = counts.iter().map(|(count, _)| count).sum();
    if all <= SHORT_DOCS {
        return Vec::new();
    }
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let most = counts.iter().take(5).map(|(count, file)| format!("{count} in {}", file.path.display()));
    let most: Vec<String> = most.collect();
    let message = "doc comments have at most two words, where";
    vec![format!("{all} {message} {SHORT_DOCS} may: {}, ...", most.join(", "))]
}
