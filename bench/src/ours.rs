//! Threadline's own entries. Every operation makes its own session, as a caller would.

use serde_json::Value as Json;
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    Document, Expression, Limits, NoWorld, Scope, Session, Syntax, Template, Value, data, render_into,
};

use crate::harness::{self, Workload};

pub(crate) const OURS: &str = "threadline";
pub(crate) const OURS_TRACED: &str = "threadline traced";

fn value_of(json: &Json) -> Value {
    data::json::read_value(&json.to_string(), &Limits::DEFAULT).expect("the samples are JSON")
}

fn scope_of(value: &Value) -> Scope {
    Scope::new().with_values("data", value.as_object().expect("the samples are objects").clone())
}

fn template_of(text: &str) -> Template {
    Template::parse(text, &Syntax::DEFAULT).expect("the samples parse")
}

fn expression_of(text: &str) -> Expression {
    Expression::parse(text, &Syntax::DEFAULT).expect("the samples parse")
}

fn shown(value: &Value) -> Json {
    serde_json::from_str(&value.to_json(JsonStyle::Compact)).expect("JSON is printed as JSON")
}

/// W1, W2, W7: a compiled template, rendered into a reused buffer.
pub(crate) fn render(workload: &mut Workload, context: &'static Json, text: &'static str) {
    workload.add(OURS, || {
        let (scope, template) = (scope_of(&value_of(context)), template_of(text));
        harness::text(move |buffer| {
            let mut world = NoWorld;
            template.text(&scope, &mut Session::new(&mut world), buffer).expect("the names are there");
        })
    });
    workload.add(OURS_TRACED, || {
        let (scope, template) = (scope_of(&value_of(context)), template_of(text));
        harness::text(move |buffer| {
            let mut world = NoWorld;
            let mut session = Session::new(&mut world).traced();
            template.text(&scope, &mut session, buffer).expect("the names are there");
        })
    });
}

/// W1b: parse with spans, arity and root checks, then render.
pub(crate) fn parse_and_render(workload: &mut Workload, context: &'static Json, text: &'static str) {
    workload.add(OURS, || {
        let scope = scope_of(&value_of(context));
        harness::text(move |buffer| {
            let mut world = NoWorld;
            let mut session = Session::new(&mut world);
            render_into(text, &scope, &mut session, buffer).expect("the names are there");
        })
    });
}

/// W3: a compiled condition to a bool.
pub(crate) fn condition(workload: &mut Workload, context: &'static Json, condition: &'static str) {
    workload.add(OURS, || {
        let (scope, expression) = (scope_of(&value_of(context)), expression_of(condition));
        harness::value(move || {
            let mut world = NoWorld;
            expression.condition(&scope, &mut Session::new(&mut world)).expect("a bool")
        })
    });
}

/// W3b: parse and evaluate.
pub(crate) fn parse_and_evaluate(workload: &mut Workload, context: &'static Json, condition: &'static str) {
    workload.add(OURS, || {
        let scope = scope_of(&value_of(context));
        harness::value(move || {
            let mut world = NoWorld;
            expression_of(condition).condition(&scope, &mut Session::new(&mut world)).expect("a bool")
        })
    });
}

/// W4, W4big: a compiled path to a typed value.
pub(crate) fn path(workload: &mut Workload, context: &'static Json, path: &'static str) {
    workload.add(OURS, || {
        let (scope, template) = (scope_of(&value_of(context)), template_of(&format!("${{{path}}}")));
        let compute = move || {
            let mut world = NoWorld;
            template.value(&scope, &mut Session::new(&mut world)).expect("the names are there")
        };
        harness::shown(compute, shown)
    });
}

/// W5: text without references, from source, borrowed.
pub(crate) fn borrow_text(workload: &mut Workload, text: &'static str) {
    workload.add(OURS, || {
        // A session may serve many texts, and one without references never looks at it.
        let (scope, session) = (Scope::new(), harness::keep_mut(Session::new(harness::keep_mut(NoWorld))));
        harness::value(move || threadline_lang::render(text, &scope, session).expect("nothing to resolve"))
    });
}

/// W5buf: text without references, from source, into a reused buffer.
pub(crate) fn copy_text(workload: &mut Workload, text: &'static str) {
    workload.add(OURS, || {
        let scope = Scope::new();
        harness::text(move |buffer| {
            let mut world = NoWorld;
            let mut session = Session::new(&mut world);
            render_into(text, &scope, &mut session, buffer).expect("nothing to resolve");
        })
    });
}

/// W6: a compiled document to a new document, types kept.
pub(crate) fn document(workload: &mut Workload, context: &'static Json, document: &'static Json) {
    workload.add(OURS, || {
        let scope = scope_of(&value_of(context));
        let document =
            Document::from_value(&value_of(document), &Syntax::DEFAULT).expect("the samples parse");
        let compute = move || {
            let mut world = NoWorld;
            document.resolve(&scope, &mut Session::new(&mut world)).expect("the names are there")
        };
        harness::shown(compute, shown)
    });
}

/// W6text: JSON text to JSON text.
pub(crate) fn document_text(workload: &mut Workload, context: &'static Json, text: &'static str) {
    workload.add(OURS, || {
        let scope = scope_of(&value_of(context));
        harness::text(move |buffer| {
            let document =
                Document::read(text, data::DataFormat::Json, &Syntax::DEFAULT).expect("the samples parse");
            let mut world = NoWorld;
            let resolved =
                document.resolve(&scope, &mut Session::new(&mut world)).expect("the names are there");
            resolved.write_json(buffer, JsonStyle::Compact);
        })
    });
}

/// W8: a scope from JSON text.
pub(crate) fn scope(workload: &mut Workload, json: &'static str) {
    workload.add(OURS, || {
        let compute = move || {
            let value = data::json::read_value(json, &Limits::DEFAULT).expect("the samples are JSON");
            let scope = scope_of(&value);
            (value, scope)
        };
        harness::shown(compute, |(value, _)| shown(value))
    });
}
