//! cel 0.15: programs compiled, the context converted beforehand. Where parsing is timed, its faster parser is used.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use cel::parser::PrattParser;
use cel::{Context, Env, Program, Value};
use serde_json::Value as Json;

use super::plain::{Segment, compile};
use crate::harness::{self, Run};
use crate::sample;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

fn context_of(json: &Json) -> Context<'static, 'static> {
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    for (name, value) in json.as_object().expect("the sample is an object") {
        context.add_variable(name.as_str(), value).expect("the sample is plain data");
    }
    context
}

fn compiled(source: &str) -> Program {
    ENVIRONMENT.compile(source).expect("the expression compiles")
}

/// cel has no templates: `a ${b} c` is written `"a " + string(b) + " c"`.
fn sum(template: &str) -> String {
    let terms = compile(template).into_iter().map(|segment| match segment {
        Segment::Text(text) => format!("{text:?}"),
        Segment::Path(path) => format!("string({})", path.join(".")),
    });
    terms.collect::<Vec<_>>().join(" + ")
}

fn translated(condition: &str) -> String {
    condition.replace(" and ", " && ")
}

fn json_of(value: &Value) -> Json {
    value.json().expect("the sample is plain data")
}

fn execute(source: &str, context: &Json) -> impl Run + use<> {
    let (program, context) = (compiled(source), context_of(context));
    harness::shown(move || program.execute(&context).expect("it evaluates"), json_of)
}

fn parse_and_execute(source: String, context: &Json) -> impl Run + use<> {
    let context = context_of(context);
    let compute = move || {
        let expression = PrattParser::default().parse(black_box(&source)).expect("the expression parses");
        Value::resolve(&expression, &context).expect("it evaluates")
    };
    harness::shown(compute, json_of)
}

pub(crate) fn render(context: &'static Json, template: &'static str) -> impl Run {
    execute(&sum(template), context)
}

pub(crate) fn parse_and_render(context: &'static Json, template: &'static str) -> impl Run {
    parse_and_execute(sum(template), context)
}

pub(crate) fn condition(context: &'static Json, condition: &'static str) -> impl Run {
    execute(&translated(condition), context)
}

pub(crate) fn parse_and_evaluate(context: &'static Json, condition: &'static str) -> impl Run {
    parse_and_execute(translated(condition), context)
}

pub(crate) fn path(context: &'static Json, path: &'static str) -> impl Run {
    execute(path, context)
}

pub(crate) fn scope(json: &'static str) -> impl Run {
    let compute = move || {
        let json: Json = serde_json::from_str(black_box(json)).expect("the sample is JSON");
        context_of(&json)
    };
    harness::shown(compute, show)
}

fn show(context: &Context) -> Json {
    let expected = sample::context();
    let names = expected.as_object().expect("an object").keys();
    let value = |name: &str| compiled(name).execute(context).expect("the name is there");
    names.map(|name| (name.clone(), json_of(&value(name)))).collect()
}
