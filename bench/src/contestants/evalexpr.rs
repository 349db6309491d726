//! evalexpr 13: conditions and paths over flat names; the dotted path of a leaf is its name.

use std::hint::black_box;

use evalexpr::{ContextWithMutableVariables as _, DefaultNumericTypes, HashMapContext, Node, Value};
use serde_json::Value as Json;

use crate::harness::{self, Run};

type Context = HashMapContext<DefaultNumericTypes>;

fn flat(json: &Json) -> Context {
    let mut context = Context::new();
    insert(&mut context, String::new(), json);
    context
}

fn insert(context: &mut Context, path: String, json: &Json) {
    if let Json::Object(fields) = json {
        for (name, field) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            insert(context, path, field);
        }
    } else {
        context.set_value(path, value_of(json)).expect("every name is new");
    }
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::String(text) => Value::String(text.clone()),
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => Value::Float(number.as_f64().expect("a sample number is a decimal")),
        },
        Json::Array(items) => Value::Tuple(items.iter().map(value_of).collect()),
        Json::Null | Json::Object(_) => Value::Empty,
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::String(text) => text.clone().into(),
        Value::Boolean(value) => (*value).into(),
        Value::Int(int) => (*int).into(),
        Value::Float(float) => (*float).into(),
        Value::Tuple(items) => items.iter().map(json_of).collect(),
        Value::Empty => Json::Null,
    }
}

fn compiled(source: &str) -> Node {
    evalexpr::build_operator_tree(source).expect("the expression compiles")
}

fn translated(condition: &str) -> String {
    condition.replace(" and ", " && ")
}

pub(crate) fn condition(context: &'static Json, condition: &'static str) -> impl Run {
    let (condition, context) = (compiled(&translated(condition)), flat(context));
    harness::value(move || condition.eval_boolean_with_context(&context).expect("it evaluates"))
}

pub(crate) fn parse_and_evaluate(context: &'static Json, condition: &'static str) -> impl Run {
    let (condition, context) = (translated(condition), flat(context));
    harness::value(move || {
        evalexpr::eval_boolean_with_context(black_box(&condition), &context).expect("it evaluates")
    })
}

pub(crate) fn path(context: &'static Json, path: &'static str) -> impl Run {
    let (path, context) = (compiled(path), flat(context));
    harness::shown(move || path.eval_with_context(&context).expect("it evaluates"), json_of)
}
