//! upon 0.11: templates compiled, values converted beforehand, rendered into a reused buffer.

use std::hint::black_box;

use serde_json::Value as Json;
use upon::{Engine, Value};

use crate::harness::{self, Run, keep};
use crate::sample;

fn value_of(json: &Json) -> Value {
    upon::to_value(json).expect("the sample is plain data")
}

pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    let (engine, context) = (keep(Engine::new()), keep(value_of(context)));
    let template = keep(engine.compile(sample::braces(template)).expect("the template compiles"));
    harness::bytes(move |buffer| {
        template.render_from(engine, context).to_writer(buffer).expect("it renders");
    })
}

pub(crate) fn parse_and_render(context: &'static Json, template: &'static str) -> impl Run {
    let (engine, context, source) =
        (keep(Engine::new()), keep(value_of(context)), keep(sample::braces(template)));
    harness::bytes(move |buffer| {
        let template = engine.compile(black_box(source.as_str())).expect("the template compiles");
        template.render_from(engine, context).to_writer(buffer).expect("it renders");
    })
}

pub(crate) fn scope(json: &'static str) -> impl Run {
    harness::value(move || {
        let json: Json = serde_json::from_str(black_box(json)).expect("the sample is JSON");
        value_of(&json)
    })
}
