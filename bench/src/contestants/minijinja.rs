//! minijinja 3: templates and expressions compiled, the context converted beforehand, text rendered into a reused buffer.

use std::hint::black_box;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Expression, Template, Value, escape_formatter};
use serde_json::Value as Json;

use super::tree::{Tree, replace_leaves, text_to_text};
use crate::harness::{self, Run, keep};
use crate::sample;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn value_of(json: &Json) -> Value {
    Value::from(Serde(json))
}

/// minijinja prints `True` and drops a final line break unless told otherwise.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment
        .set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build().expect("the default syntax"));
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Bool => Ok(out.write_str(if value.is_true() { "true" } else { "false" })?),
        _ => escape_formatter(out, state, value),
    });
    environment
}

fn template(source: String) -> Template<'static, 'static> {
    ENVIRONMENT.template_from_str(keep(source)).expect("the template compiles")
}

fn expression(source: String) -> Expression<'static, 'static> {
    ENVIRONMENT.compile_expression_owned(source).expect("the expression compiles")
}

pub(crate) fn render(context: &'static Json, source: &'static str) -> impl Run {
    let (template, context) = (template(sample::braces(source)), value_of(context));
    harness::bytes(move |buffer| print(&template, &context, buffer))
}

pub(crate) fn parse_and_render(context: &'static Json, source: &'static str) -> impl Run {
    let (context, source) = (value_of(context), keep(sample::braces(source)));
    harness::bytes(move |buffer| {
        let template = ENVIRONMENT.template_from_str(black_box(source));
        print(&template.expect("the template compiles"), &context, buffer);
    })
}

fn print(template: &Template, context: &Value, buffer: &mut Vec<u8>) {
    let captured = template.render_captured_to(context.clone(), buffer);
    captured.expect("it renders");
}

pub(crate) fn condition(context: &'static Json, condition: &'static str) -> impl Run {
    let (condition, context) = (expression(condition.to_owned()), value_of(context));
    harness::value(move || condition.eval(context.clone()).expect("it evaluates").is_true())
}

pub(crate) fn parse_and_evaluate(context: &'static Json, condition: &'static str) -> impl Run {
    let (environment, context) = (&*ENVIRONMENT, value_of(context));
    harness::value(move || {
        let condition = environment.compile_expression(black_box(condition)).expect("the condition compiles");
        condition.eval(context.clone()).expect("it evaluates").is_true()
    })
}

pub(crate) fn path(context: &'static Json, path: &'static str) -> impl Run {
    let (path, context) = (expression(path.to_owned()), value_of(context));
    harness::value(move || path.eval(context.clone()).expect("it evaluates"))
}

/// A leaf of a document: exactly one reference keeps its type.
enum Leaf {
    Whole(Expression<'static, 'static>),
    Mixed(Template<'static, 'static>),
}

impl Leaf {
    fn compile(text: &str) -> Option<Self> {
        match (whole(text), text.contains("${")) {
            (Some(path), _) => Some(Self::Whole(expression(path.to_owned()))),
            (None, true) => Some(Self::Mixed(template(sample::braces(text)))),
            (None, false) => None,
        }
    }

    fn resolve(&self, context: &Value) -> Json {
        match self {
            Self::Whole(expression) => json_of(&expression.eval(context.clone()).expect("it evaluates")),
            Self::Mixed(template) => template.render(context.clone()).expect("it renders").into(),
        }
    }
}

fn whole(text: &str) -> Option<&str> {
    text.strip_prefix("${")?.strip_suffix('}').filter(|path| !path.contains('}'))
}

fn json_of(value: &Value) -> Json {
    serde_json::to_value(value).expect("the sample is plain data")
}

pub(crate) fn document(context: &'static Json, document: &'static Json) -> impl Run {
    let (tree, context) = (Tree::compile(document, &Leaf::compile), value_of(context));
    harness::value(move || tree.build(&|leaf| leaf.resolve(&context)))
}

/// The document is written in minijinja's syntax here, so that nothing is translated while it is timed.
pub(crate) fn document_text(context: &'static Json, source: &'static str) -> impl Run {
    let (environment, context) = (&*ENVIRONMENT, value_of(context));
    let source = in_braces(source);
    harness::bytes(move |buffer| {
        text_to_text(black_box(&source), &|text| resolve_source(environment, &context, text), buffer);
    })
}

fn in_braces(source: &str) -> String {
    let mut document: Json = serde_json::from_str(source).expect("the sample is JSON");
    replace_leaves(&mut document, &|text| Some(sample::braces(text).into()));
    document.to_string()
}

fn resolve_source(environment: &Environment, context: &Value, text: &str) -> Option<Json> {
    if !text.contains("{{") {
        return None;
    }
    let inner = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    let Some(path) = inner.filter(|path| !path.contains("}}")) else {
        return Some(environment.render_str(text, context.clone()).expect("it renders").into());
    };
    let expression = environment.compile_expression_owned(path.to_owned()).expect("the expression compiles");
    Some(json_of(&expression.eval(context.clone()).expect("it evaluates")))
}

pub(crate) fn scope(json: &'static str) -> impl Run {
    harness::value(move || -> Value { serde_json::from_str(black_box(json)).expect("the sample is JSON") })
}
