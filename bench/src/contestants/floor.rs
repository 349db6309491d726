//! The floors: what is left to do when everything is known beforehand. Nobody need be as fast; it is the scale.

use std::borrow::Cow;
use std::hint::black_box;

use serde_json::Value as Json;

use super::plain::{Segment, compile, follow};
use crate::harness::{self, Run, keep};

/// A leaf that has been looked up, ready to print.
enum Leaf {
    Text(&'static str),
    Int(i64),
    Decimal(f64),
    Bool(bool),
}

/// Every reference looked up beforehand: only copying and printing numbers remain.
pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    let pieces: Vec<Leaf> = compile(template).iter().map(|segment| resolve(context, segment)).collect();
    harness::text(move |buffer| {
        for piece in black_box(&pieces) {
            piece.print(buffer);
        }
    })
}

fn resolve(context: &'static Json, segment: &Segment<'static>) -> Leaf {
    let value = match segment {
        Segment::Text(text) => return Leaf::Text(text),
        Segment::Path(path) => follow(context, path),
    };
    match value {
        Json::String(text) => Leaf::Text(text),
        Json::Bool(value) => Leaf::Bool(*value),
        Json::Number(number) => number
            .as_i64()
            .map_or_else(|| Leaf::Decimal(number.as_f64().expect("a sample number is a decimal")), Leaf::Int),
        other => unreachable!("the templates print no {other}"),
    }
}

impl Leaf {
    fn print(&self, buffer: &mut String) {
        match self {
            Self::Text(text) => buffer.push_str(text),
            Self::Int(int) => buffer.push_str(itoa::Buffer::new().format(*int)),
            Self::Decimal(decimal) => buffer.push_str(zmij::Buffer::new().format_finite(*decimal)),
            Self::Bool(value) => buffer.push_str(if *value { "true" } else { "false" }),
        }
    }
}

/// W3 on typed fields.
pub(crate) fn condition(context: &'static Json) -> impl Run {
    struct Fields {
        count: i64,
        passed: bool,
        author: String,
    }
    let fields = keep(Fields {
        count: context["score"]["output"]["count"].as_i64().expect("an int"),
        passed: context["test"]["output"]["passed"].as_bool().expect("a bool"),
        author: context["fetch"]["output"]["author"].as_str().expect("a text").to_owned(),
    });
    harness::value(move || {
        let fields = black_box(fields);
        fields.count >= 80 && fields.passed && fields.author != "x"
    })
}

/// W4: the index chain of `serde_json`, borrowed.
pub(crate) fn path(context: &'static Json) -> impl Run {
    harness::value(move || &black_box(context)["fetch"]["output"]["page"]["stats"]["samples"])
}

/// W5: the bare scan.
pub(crate) fn borrow_text(text: &'static str) -> impl Run {
    harness::value(move || borrowed(black_box(text)))
}

/// W5buf: scan and copy.
pub(crate) fn copy_text(text: &'static str) -> impl Run {
    harness::text(move |buffer| buffer.push_str(&borrowed(black_box(text))))
}

fn borrowed(text: &str) -> Cow<'_, str> {
    assert!(memchr::memchr(b'$', text.as_bytes()).is_none(), "the sample has no reference");
    Cow::Borrowed(text)
}

/// W6: a clone of the result.
pub(crate) fn document(expected: &'static Json) -> impl Run {
    harness::value(move || black_box(expected).clone())
}

/// W6text: `serde_json` reads the source and prints the result; nothing in between.
pub(crate) fn document_text(source: &'static str, expected: &'static Json) -> impl Run {
    harness::bytes(move |buffer| {
        black_box(read(source));
        serde_json::to_writer(buffer, black_box(expected)).expect("a buffer takes everything");
    })
}

/// W8: `serde_json` alone.
pub(crate) fn scope(json: &'static str) -> impl Run {
    harness::value(move || read(json))
}

fn read(json: &str) -> Json {
    serde_json::from_str(black_box(json)).expect("the sample is JSON")
}
