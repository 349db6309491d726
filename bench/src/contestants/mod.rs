//! How each contestant does each workload it can do.
//!
//! A function sets one up and returns what is repeated. All modules use the same names for the same work: `render`,
//! `condition`, `path`, `document` are compiled in the set-up; `parse_and_...` and `..._text` compile every time.

pub(crate) mod cel;
pub(crate) mod evalexpr;
pub(crate) mod floor;
pub(crate) mod minijinja;
pub(crate) mod plain;
pub(crate) mod program;
pub(crate) mod regex_walk;
pub(crate) mod tera;
mod tree;
pub(crate) mod upon;

use crate::ours::{OURS, OURS_TRACED};

pub(crate) const FLOOR: &str = "floor";
pub(crate) const PLAIN: &str = "plain";
pub(crate) const REGEX_WALK: &str = "regex-walk";
pub(crate) const TERA: &str = "tera";
pub(crate) const UPON: &str = "upon";
pub(crate) const MINIJINJA: &str = "minijinja";
pub(crate) const EVALEXPR: &str = "evalexpr";
pub(crate) const CEL: &str = "cel";
pub(crate) const JSONSCHEMA: &str = "jsonschema";
pub(crate) const JSONLOGIC: &str = "jsonlogic";

/// Everybody, in the order of the tables, and what they are.
pub(crate) const ALL: &[(&str, &str)] = &[
    (OURS, "Threadline"),
    (OURS_TRACED, "Threadline with tracing on"),
    (
        FLOOR,
        "what is left when everything is known beforehand: a bare scan, an index chain, a clone, serde_json alone",
    ),
    (PLAIN, "straightforward Rust: compiled segments over serde_json"),
    (REGEX_WALK, "the obvious hand-written way: a regex, and a walk over serde_json"),
    (TERA, "tera 2; a condition is an if-template"),
    (UPON, "upon 0.11"),
    (MINIJINJA, "minijinja 3; a document is walked with serde_json around it"),
    (EVALEXPR, "evalexpr 13; its names are flat, so the dotted path is one key"),
    (CEL, "cel 0.15 with its faster parser; a template is a sum of texts"),
    (JSONSCHEMA, "jsonschema 0.60 with the faster of its engines for patterns"),
    (JSONLOGIC, "jsonlogic-rs 0.5, which reads its rule as it applies it"),
];
