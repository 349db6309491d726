//! `threadline schema`: the JSON Schema of what Threadline reads and writes.

use threadline_engine::event::Status;
use threadline_flow::fields::{FailureKind, META, NodeType, OutputField};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Value};

use super::{output_schemas, print};
use crate::arguments::{SchemaArguments, SchemaKind};
use crate::exit::CommandFailure;

pub(crate) fn schema(call: &SchemaArguments) -> Result<(), CommandFailure> {
    print(&format!("{}\n", schema_of(call.kind).to_json(JsonStyle::Pretty)))
}

/// The schema of something.
pub(super) fn schema_of(kind: SchemaKind) -> Value {
    match kind {
        SchemaKind::Workflow => threadline_flow::fields::schema(),
        SchemaKind::Envelope => envelope(),
        SchemaKind::Events => output_schemas::events(),
        SchemaKind::Expectations => threadline_expect::schema(),
        SchemaKind::Outcomes => output_schemas::outcomes(),
        SchemaKind::Failures => output_schemas::failures(),
        SchemaKind::State => output_schemas::state(),
        SchemaKind::Items => output_schemas::items(),
        SchemaKind::Source => output_schemas::source(),
        SchemaKind::Simulation => output_schemas::simulation(),
        SchemaKind::Runs => output_schemas::runs(),
        SchemaKind::Explanation => output_schemas::explanation(),
        SchemaKind::Conversations => output_schemas::conversations(),
        SchemaKind::Chain => output_schemas::chain(),
        SchemaKind::Diff => output_schemas::diff(),
        SchemaKind::Names => output_schemas::names(),
        SchemaKind::Preview => output_schemas::preview(),
        SchemaKind::Problems => output_schemas::problems(),
        SchemaKind::Tools => output_schemas::tools(),
        SchemaKind::Logs => output_schemas::logs(),
        SchemaKind::Cleaning => output_schemas::cleaning(),
        SchemaKind::Continuation => output_schemas::continuation(),
        SchemaKind::Tests => output_schemas::tests(),
        SchemaKind::Openapi => super::serve::openapi(),
    }
}

pub(super) type SchemaProperties = Vec<(&'static str, Value)>;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    Value::sequence(words.into_iter().map(Value::from))
}

/// Something of a type, and what it means.
pub(super) fn typed(kind: &str, about: &str) -> Value {
    Value::record([("type", kind.into()), ("description", about.into())])
}

pub(super) fn any(about: &str) -> Value {
    Value::record([("description", about.into())])
}

pub(super) fn one_of<'a>(choices: impl IntoIterator<Item = &'a str>, about: &str) -> Value {
    Value::record([("enum", words(choices)), ("description", about.into())])
}

pub(super) fn an_object(properties: SchemaProperties, required: &[&str], open: bool) -> Value {
    let mut object = vec![
        ("type", Value::from("object")),
        ("properties", Value::record(properties)),
        ("required", words(required.iter().copied())),
    ];
    if !open {
        object.push(("additionalProperties", false.into()));
    }
    Value::record(object)
}

/// A field of the table of outputs.
fn property(field: &'static OutputField) -> (&'static str, Value) {
    let schema = match (field.name, field.kind) {
        ("node_type", _) => one_of(NodeType::ALL.map(NodeType::name), field.doc),
        ("status", _) => one_of(Status::ALL.map(Status::name), field.doc),
        ("error_type", _) => one_of(FailureKind::ALL.map(FailureKind::name), field.doc),
        (_, None) => any(field.doc),
        // A map that failed writes null for what it cannot count.
        (_, Some(kind)) if matches!(field.name, "duration" | "success_rate" | "branch") => {
            or_null(type_word(kind), field.doc)
        }
        (_, Some(kind)) => typed(type_word(kind), field.doc),
    };
    (field.name, schema)
}

fn type_word(kind: Type) -> &'static str {
    match kind {
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Int => "integer",
        Type::Decimal => "number",
        Type::Text => "string",
        Type::List => "array",
        Type::Object => "object",
    }
}

/// Every field that the `meta` of a step can have.
fn meta() -> SchemaProperties {
    let mut fields: SchemaProperties = META.iter().map(property).collect();
    for field in NodeType::ALL.into_iter().flat_map(NodeType::meta) {
        if !fields.iter().any(|(name, _)| *name == field.name) {
            fields.push(property(field));
        }
    }
    fields
}

fn envelope() -> Value {
    let required: Vec<&str> = META.iter().filter(|field| !field.optional).map(|field| field.name).collect();
    let properties = vec![("value", any("the result, typed")), ("meta", an_object(meta(), &required, true))];
    let body = an_object(properties, &["value", "meta"], false);
    described("What a step leaves", &body)
}

/// A schema with its title before it.
pub(super) fn described(title: &str, body: &Value) -> Value {
    let head = [("$schema".into(), Value::from(DRAFT)), ("title".into(), title.into())];
    let body = body.as_object().into_iter().flat_map(|body| body.iter());
    let body = body.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(head.into_iter().chain(body))
}

/// Something of a type, or null.
pub(super) fn or_null(kind: &str, about: &str) -> Value {
    Value::record([("type", words([kind, "null"])), ("description", about.into())])
}

pub(super) fn listed(items: Value, about: &str) -> Value {
    Value::record([("type", "array".into()), ("items", items), ("description", about.into())])
}
