//! The obvious hand-written way: find references with a regex, walk the path through `serde_json`, copy what is there.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value as Json;

use super::plain::print_value;
use super::tree::{replace_leaves, text_to_text};
use crate::harness::{self, Run};

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| regex(r"\$\{([^}]+)\}"));
static WHOLE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\$\{([^}]+)\}$"));
static COMPARISON: LazyLock<Regex> = LazyLock::new(|| regex(r"^([\w.]+)\s*(>=|!=)\s*(.+)$"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is right")
}

fn walk(context: &Json, path: &str) -> Json {
    path.split('.').fold(context, |value, name| &value[name]).clone()
}

fn substitute<'t>(context: &Json, template: &'t str) -> Cow<'t, str> {
    REFERENCE.replace_all(template, |found: &Captures| {
        let mut text = String::new();
        print_value(&walk(context, &found[1]), &mut text);
        text
    })
}

/// Compiled or not is the same here.
pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    harness::text(move |buffer| buffer.push_str(&substitute(context, black_box(template))))
}

pub(crate) fn borrow_text(text: &'static str) -> impl Run {
    harness::value(move || substitute(&Json::Null, black_box(text)))
}

pub(crate) fn condition(context: &'static Json, condition: &'static str) -> impl Run {
    harness::value(move || black_box(condition).split(" and ").all(|part| test(context, part)))
}

fn test(context: &Json, part: &str) -> bool {
    let Some(found) = COMPARISON.captures(part) else {
        return walk(context, part) == true;
    };
    let left = walk(context, &found[1]);
    let right: Json = serde_json::from_str(&found[3]).expect("the right side is a literal");
    match &found[2] {
        ">=" => left.as_f64() >= right.as_f64(),
        _ => left != right,
    }
}

pub(crate) fn path(context: &'static Json, path: &'static str) -> impl Run {
    let reference = format!("${{{path}}}");
    harness::value(move || whole(context, black_box(&reference)).expect("a reference"))
}

fn whole(context: &Json, text: &str) -> Option<Json> {
    WHOLE.captures(text).map(|found| walk(context, &found[1]))
}

fn leaf(context: &Json, text: &str) -> Option<Json> {
    whole(context, text).or_else(|| match substitute(context, text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text.into()),
    })
}

pub(crate) fn document(context: &'static Json, document: &'static Json) -> impl Run {
    harness::value(move || {
        let mut document = document.clone();
        replace_leaves(&mut document, &|text| leaf(context, text));
        document
    })
}

pub(crate) fn document_text(context: &'static Json, source: &'static str) -> impl Run {
    harness::bytes(move |buffer| {
        text_to_text(black_box(source), &|text| leaf(context, text), buffer);
    })
}
