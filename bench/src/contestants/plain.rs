//! Straightforward Rust: a template becomes segments once, a path is followed through `serde_json`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hint::black_box;

use serde_json::Value as Json;

use super::tree::{Tree, text_to_text};
use crate::harness::{self, Run};

pub(crate) enum Segment<'t> {
    Text(&'t str),
    Path(Vec<&'t str>),
}

pub(crate) fn compile(template: &str) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    let mut rest = template;
    while let Some((text, reference)) = rest.split_once("${") {
        let (path, after) = reference.split_once('}').expect("a reference ends");
        if !text.is_empty() {
            segments.push(Segment::Text(text));
        }
        segments.push(Segment::Path(split(path)));
        rest = after;
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest));
    }
    segments
}

fn split(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

pub(crate) fn follow<'a>(context: &'a Json, path: &[&str]) -> &'a Json {
    path.iter().fold(context, |value, name| value.get(*name).expect("the samples have every name"))
}

fn print(context: &Json, segments: &[Segment], buffer: &mut String) {
    for segment in segments {
        match segment {
            Segment::Text(text) => buffer.push_str(text),
            Segment::Path(path) => print_value(follow(context, path), buffer),
        }
    }
}

pub(crate) fn print_value(value: &Json, buffer: &mut String) {
    match value {
        Json::String(text) => buffer.push_str(text),
        Json::Bool(value) => buffer.push_str(if *value { "true" } else { "false" }),
        Json::Null => {}
        Json::Number(number) => write!(buffer, "{number}").expect("a String takes everything"),
        other => write!(buffer, "{other}").expect("a String takes everything"),
    }
}

pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    let segments = compile(template);
    harness::text(move |buffer| print(context, &segments, buffer))
}

pub(crate) fn parse_and_render(context: &'static Json, template: &'static str) -> impl Run {
    harness::text(move |buffer| print(context, &compile(black_box(template)), buffer))
}

/// One part of a condition; the tree is written by hand, for there is no parser here.
enum Part {
    AtLeast(Vec<&'static str>, f64),
    Holds(Vec<&'static str>),
    Differs(Vec<&'static str>, &'static str),
}

impl Part {
    fn test(&self, context: &Json) -> bool {
        match self {
            Self::AtLeast(path, least) => follow(context, path).as_f64().is_some_and(|value| value >= *least),
            Self::Holds(path) => follow(context, path).as_bool().unwrap_or(false),
            Self::Differs(path, text) => follow(context, path) != *text,
        }
    }
}

pub(crate) fn condition(context: &'static Json) -> impl Run {
    let parts = vec![
        Part::AtLeast(split("score.output.count"), 80.0),
        Part::Holds(split("test.output.passed")),
        Part::Differs(split("fetch.output.author"), "x"),
    ];
    harness::value(move || black_box(&parts).iter().all(|part| part.test(context)))
}

pub(crate) fn path(context: &'static Json, path: &'static str) -> impl Run {
    let path = split(path);
    harness::value(move || follow(context, black_box(&path)))
}

pub(crate) fn borrow_text(text: &'static str) -> impl Run {
    harness::value(move || borrowed(black_box(text)))
}

pub(crate) fn copy_text(text: &'static str) -> impl Run {
    harness::text(move |buffer| buffer.push_str(&borrowed(black_box(text))))
}

fn borrowed(text: &str) -> Cow<'_, str> {
    assert!(!text.contains("${"), "the sample has no reference");
    Cow::Borrowed(text)
}

pub(crate) fn document(context: &'static Json, document: &'static Json) -> impl Run {
    let tree = Tree::compile(document, &compile_leaf);
    harness::value(move || tree.build(&|segments| resolve(context, segments)))
}

pub(crate) fn document_text(context: &'static Json, source: &'static str) -> impl Run {
    harness::bytes(move |buffer| {
        let leaf = |text: &str| compile_leaf(text).map(|segments| resolve(context, &segments));
        text_to_text(black_box(source), &leaf, buffer);
    })
}

fn compile_leaf(text: &str) -> Option<Vec<Segment<'_>>> {
    text.contains("${").then(|| compile(text))
}

/// Exactly one reference keeps its type; anything more is text.
fn resolve(context: &Json, segments: &[Segment]) -> Json {
    if let [Segment::Path(path)] = segments {
        return follow(context, path).clone();
    }
    let mut text = String::new();
    print(context, segments, &mut text);
    text.into()
}
