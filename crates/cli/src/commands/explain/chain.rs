//! Chains of values as text.

use std::fmt::Write as _;

use threadline_inspect::chain::{Chains, TracedRead};
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use crate::report::visible;

/// The chains as text.
pub(super) fn text(chains: &Chains<'_>, full: bool) -> String {
    let mut out = String::new();
    for link in &chains.links {
        let TracedRead { reader, field, reference, value, maker, is_control, .. } = &link.read;
        let found = match value {
            Some(value) if full => format!(" = {}, from", value.to_json(JsonStyle::Compact)),
            Some(value) => format!(" = {}, from", excerpt(value)),
            None if *is_control => ", decided by".to_owned(),
            None => " has no value, from".to_owned(),
        };
        let shown = if link.shown { ", which is above" } else { "" };
        let indent = "  ".repeat(link.depth);
        let line = format!("{reader} {field}: {reference}{found} {maker}{shown}");
        // Writing into a text cannot fail.
        let _ = writeln!(out, "{indent}{}", visible(&line));
    }
    if chains.cut {
        out.push_str("and more\n");
    }
    if out.is_empty() { "nothing\n".to_owned() } else { out }
}
