//! tera 2: templates compiled into one instance, rendered into a reused buffer.

use std::hint::black_box;

use serde_json::Value as Json;
use tera::{Context, Tera};

use crate::harness::{self, Run};
use crate::sample;

const NAME: &str = "it";

fn context_of(json: &Json) -> Context {
    Context::from_serialize(json).expect("the sample is an object")
}

fn compiled(source: &str) -> Tera {
    let mut tera = Tera::new();
    tera.add_raw_template(NAME, source).expect("the template compiles");
    tera
}

pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    let (tera, context) = (compiled(&sample::braces(template)), context_of(context));
    harness::bytes(move |buffer| tera.render_to(NAME, &context, buffer).expect("it renders"))
}

pub(crate) fn parse_and_render(context: &'static Json, template: &'static str) -> impl Run {
    let (tera, context, source) = (Tera::new(), context_of(context), sample::braces(template));
    harness::bytes(move |buffer| render_source(&tera, &source, &context, buffer))
}

fn render_source(tera: &Tera, source: &str, context: &Context, buffer: &mut Vec<u8>) {
    tera.render_str_to(black_box(source), context, false, buffer).expect("it renders");
}

/// tera has no bare expressions: the text `1` stands for true.
fn if_template(condition: &str) -> String {
    format!("{{% if {condition} %}}1{{% endif %}}")
}

pub(crate) fn condition(context: &'static Json, condition: &'static str) -> impl Run {
    let (tera, context) = (compiled(&if_template(condition)), context_of(context));
    let mut buffer = Vec::new();
    harness::value(move || {
        buffer.clear();
        tera.render_to(NAME, &context, &mut buffer).expect("it renders");
        buffer == b"1"
    })
}

pub(crate) fn parse_and_evaluate(context: &'static Json, condition: &'static str) -> impl Run {
    let (tera, context, source) = (Tera::new(), context_of(context), if_template(condition));
    let mut buffer = Vec::new();
    harness::value(move || {
        buffer.clear();
        render_source(&tera, &source, &context, &mut buffer);
        buffer == b"1"
    })
}

pub(crate) fn scope(json: &'static str) -> impl Run {
    harness::shown(
        move || {
            let json: Json = serde_json::from_str(black_box(json)).expect("the sample is JSON");
            context_of(&json)
        },
        show,
    )
}

/// A context cannot be listed, so it is asked for the names it must have.
fn show(context: &Context) -> Json {
    let expected = sample::context();
    let names = expected.as_object().expect("an object").keys();
    names.map(|name| (name.clone(), serde_json::to_value(context.get(name)).expect("plain data"))).collect()
}
