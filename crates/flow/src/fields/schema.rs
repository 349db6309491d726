//! The JSON Schema of workflow files, generated from the table of keys.

use ecow::EcoString;
use threadline_lang::data::json;
use threadline_lang::{Limits, Value};

use super::{AGENT, Choice, Form, KeyKind, KeySpec, ObjectSpec, PROVIDERS, WORKFLOW, objects};

/// The objects that may override a fragment or an inherited file: null removes a key there.
const OVERRIDING: [&str; 4] = ["workflow", "state", "fragment", "evaluate"];

/// The JSON Schema of workflow files, draft 2020-12. Every key has its description.
pub fn schema() -> Value {
    let definitions = objects().filter(|object| ![WORKFLOW.name, AGENT.name].contains(&object.name));
    let definitions = definitions.map(|object| (object.name, object_schema(object)));
    let steps = list_or_one(reference("step"));
    let definitions = definitions.chain([("steps", steps), (AGENT.name, agent_schema())]);
    let definitions = definitions.map(|(name, schema)| (EcoString::from(name), schema));
    // Expectations bring their own definitions, under names that no object of a workflow has.
    let expectations = threadline_expect::schema();
    let expectations = expectations.get("$defs").and_then(Value::as_object).cloned();
    let expectations = expectations.iter().flat_map(|found| found.iter());
    let expectations = expectations.filter(|(name, _)| name.as_str() != "file");
    let expectations = expectations.map(|(name, schema)| (name.name().clone(), schema.clone()));
    Value::record([
        ("$schema", "https://json-schema.org/draft/2020-12/schema".into()),
        ("title", "Threadline workflow".into()),
        ("anyOf", Value::sequence([list_of(reference("step")), object_schema(&WORKFLOW)])),
        ("$defs", Value::record(definitions.chain(expectations))),
    ])
}

fn object_schema(object: &ObjectSpec) -> Value {
    let mut properties = Vec::new();
    let mut patterns: Vec<(String, Value)> = Vec::new();
    for key in object.all_keys() {
        let mut kind = kind_schema(&key.kind);
        if OVERRIDING.contains(&object.name) {
            kind = any_of([kind, type_of("null")]);
        }
        if let Some(prefix) = key.prefix() {
            patterns.push((format!("^{prefix}"), key_schema(key, &kind)));
            continue;
        }
        properties.push((key.name, key_schema(key, &kind)));
        let alias = |name: &&'static str| {
            let doc = format!("the same as `{}`", key.name);
            (*name, with(&kind, [("description", doc.into())]))
        };
        properties.extend(key.aliases.iter().map(alias));
    }
    // A key with an alias may be present under either name.
    let required = object.all_keys().filter(|key| key.required && key.aliases.is_empty());
    let required: Vec<Value> = required.map(|key| key.name.into()).collect();
    let mut schema = vec![
        ("type", "object".into()),
        ("description", object.doc.into()),
        ("properties", Value::record(properties)),
        ("required", Value::sequence(required)),
        ("additionalProperties", false.into()),
    ];
    if !patterns.is_empty() {
        schema.push(("patternProperties", Value::record(patterns)));
    }
    let by_type: Vec<Value> = by_type(object).collect();
    if !by_type.is_empty() {
        schema.push(("allOf", Value::sequence(by_type)));
    }
    Value::record(schema)
}

/// An agent: its provider decides which keys it has.
fn agent_schema() -> Value {
    let rules = PROVIDERS.iter().map(|provider| {
        let words = Value::record([("enum", Value::sequence(provider.word.spellings().map(Value::from)))]);
        let named = Value::record([("properties", Value::record([("provider", words)]))]);
        let is_default = AGENT.known("provider").default == Some(provider.word.name);
        let required = (!is_default).then(|| ("required", Value::sequence(["provider".into()])));
        Value::record([("if", with(&named, required)), ("then", reference(provider.object.name))])
    });
    let provider = AGENT.known("provider");
    Value::record([
        ("type", "object".into()),
        ("description", AGENT.doc.into()),
        ("properties", Value::record([(provider.name, key_schema(provider, &kind_schema(&provider.kind)))])),
        ("allOf", Value::sequence(rules)),
    ])
}

/// For each `type` of an object, a rule that refuses the keys which do not apply to it.
fn by_type(object: &ObjectSpec) -> impl Iterator<Item = Value> {
    let choices = object.key("type").map_or(&[][..], KeySpec::choices);
    choices.iter().filter_map(|choice| {
        let apart = |key: &&KeySpec| !key.types.is_empty() && !key.types.contains(&choice.name);
        let refused: Vec<_> = object.all_keys().filter(apart).map(|key| (key.name, false.into())).collect();
        let words = Value::record([("enum", Value::sequence(choice.spellings().map(Value::from)))]);
        let is_it = Value::record([
            ("properties", Value::record([("type", words)])),
            ("required", Value::sequence(["type".into()])),
        ]);
        let without = Value::record([("properties", Value::record(refused.iter().cloned()))]);
        (!refused.is_empty()).then(|| Value::record([("if", is_it), ("then", without)]))
    })
}

fn key_schema(key: &KeySpec, kind: &Value) -> Value {
    let mut more = vec![("description", Value::from(key.doc))];
    more.extend(key.default.map(|default| ("default", written(default))));
    with(kind, more)
}

/// A default, read as it would be from a file.
fn written(default: &str) -> Value {
    json::read_value(default, &Limits::DEFAULT).unwrap_or_else(|_| default.into())
}

fn kind_schema(kind: &KeyKind) -> Value {
    match kind {
        KeyKind::Fixed(form) => form_schema(*form),
        KeyKind::Setting(form) => any_of([form_schema(*form), type_of("string")]),
        KeyKind::Text => types(&["string", "number", "boolean"]),
        KeyKind::Value => Value::empty_object(),
        KeyKind::Expression => types(&["string", "boolean"]),
        KeyKind::Shell => type_of("string"),
        KeyKind::Expectation => list_or_one(reference("expectation")),
        KeyKind::Steps => reference("steps"),
        KeyKind::Agent => reference(AGENT.name),
        KeyKind::Nodes => {
            let by_id =
                Value::record([("type", "object".into()), ("additionalProperties", reference("step"))]);
            any_of([by_id, list_of(reference("node"))])
        }
        KeyKind::Object(object) => reference(object.name),
        KeyKind::Map(kind) => {
            let inner = any_of([kind_schema(kind), type_of("null")]);
            Value::record([("type", "object".into()), ("additionalProperties", inner)])
        }
        KeyKind::List(kind) => list_of(kind_schema(kind)),
        KeyKind::Either(kinds) => any_of(kinds.iter().map(kind_schema)),
    }
}

fn form_schema(form: Form) -> Value {
    match form {
        Form::Text => types(&["string", "number", "boolean"]),
        Form::Name => type_of("string"),
        Form::Any => Value::empty_object(),
        Form::Bool => type_of("boolean"),
        Form::Count(least) => Value::record([("type", "integer".into()), ("minimum", least.into())]),
        Form::Duration | Form::Mode | Form::Fraction => types(&["string", "number"]),
        Form::Size => types(&["string", "integer"]),
        Form::OneOf(choices) => Value::record([(
            "enum",
            Value::sequence(choices.iter().flat_map(Choice::spellings).map(written)),
        )]),
    }
}

fn reference(name: &str) -> Value {
    Value::record([("$ref", format!("#/$defs/{name}").into())])
}

fn type_of(name: &str) -> Value {
    Value::record([("type", name.into())])
}

fn types(names: &[&'static str]) -> Value {
    Value::record([("type", Value::sequence(names.iter().map(|name| Value::from(*name))))])
}

fn list_of(items: Value) -> Value {
    Value::record([("type", "array".into()), ("items", items)])
}

fn list_or_one(item: Value) -> Value {
    any_of([list_of(item.clone()), item])
}

fn any_of(schemas: impl IntoIterator<Item = Value>) -> Value {
    Value::record([("anyOf", Value::sequence(schemas))])
}

/// A schema with more keywords.
fn with(schema: &Value, more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let known = schema.as_object().map(|object| object.iter().collect::<Vec<_>>()).unwrap_or_default();
    let known = known.into_iter().map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(known.chain(more.into_iter().map(|(key, value)| (key.into(), value))))
}
