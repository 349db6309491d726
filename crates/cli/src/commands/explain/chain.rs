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
        let TracedRead { reader, field, reference, value, maker, .. } = &link.read;
        let value = value.as_ref().map_or("has no value".to_owned(), |value| {
            let shown = if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
            format!("= {shown}")
        });
        let shown = if link.shown { ", which is above" } else { "" };
        let indent = "  ".repeat(link.depth);
        let line = format!("{reader} {field}: {reference} {value}, from {maker}{shown}");
        // Writing into a text cannot fail.
        let _ = writeln!(out, "{indent}{}", visible(&line));
    }
    if chains.cut {
        out.push_str("and more\n");
    }
    if out.is_empty() { "nothing\n".to_owned() } else { out }
}
