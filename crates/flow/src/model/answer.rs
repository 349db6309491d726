//! The form that an agent's answer must have: a JSON Schema, what is known of a value that fits it, and what is
//! wrong with one that does not. It takes no answer out of a text, and asks nobody.

use ecow::EcoString;
use threadline_expect::JsonSchema;
use threadline_lang::diag::{excerpt, nearest, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Types, Value, ValueShape};

/// `output` of a step that asks an agent.
#[derive(Debug, Clone)]
pub struct AnswerFormat {
    /// The JSON Schema, whichever way it is written in the file.
    pub schema: Value,
    /// How often the agent is asked again because its answer does not fit.
    pub ask_again: u32,
    compiled: JsonSchema,
    shape: ValueShape,
}

/// How often an agent is asked again where the step does not say.
pub const ASK_AGAIN: u32 = 2;

/// What is deeper in a schema is checked, but not known before the run.
const MAX_DEPTH: u8 = 8;

impl AnswerFormat {
    /// The format of a JSON Schema. The error says why it is none.
    pub(crate) fn of_schema(schema: Value) -> Result<Self, String> {
        let compiled = JsonSchema::compile(&schema)?;
        let shape = schema_shape(&schema, 0);
        Ok(Self { schema, ask_again: ASK_AGAIN, compiled, shape })
    }

    /// The format of every answer.
    pub(crate) fn any() -> Option<Self> {
        Self::of_schema(Value::empty_object()).ok()
    }

    /// What is known of an answer before it is there.
    pub fn shape(&self) -> &ValueShape {
        &self.shape
    }

    /// The schema as text, for whoever is to keep to it.
    pub fn text(&self) -> String {
        self.schema.to_json(JsonStyle::Compact)
    }

    /// An answer as it is read by name: a field that may be left out, and is, is null; so it may also be written. The error says why the answer
    /// does not fit.
    pub fn read(&self, answer: Value) -> Result<Value, String> {
        let answer = without_nulls(answer, &self.schema);
        let problems = self.compiled.problems(&answer);
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        let answer = complete(answer, &self.shape);
        match misfit(&answer, &self.shape, "") {
            Some(why) => Err(why),
            None => Ok(answer),
        }
    }
}

/// An answer without the fields that are null where they could be left out, and could not be null.
fn without_nulls(answer: Value, schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Some(object), Some(properties)) = (answer.as_object(), properties) {
        let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
        let is_required = |key: &str| required.iter().any(|name| name.as_str() == Some(key));
        let fields = object.iter().filter_map(|(key, value)| {
            let Some(schema) = properties.get_str(key.as_str()) else {
                return Some((key.name().clone(), value.clone()));
            };
            let is_left_out = value.is_null() && !is_required(key.as_str()) && refuses_null(schema);
            (!is_left_out).then(|| (key.name().clone(), without_nulls(value.clone(), schema)))
        });
        return Value::object(fields).unwrap_or_else(|_| answer.clone());
    }
    if let (Some(items), Some(schema)) = (answer.as_list(), schema.get("items")) {
        let items = items.iter().map(|item| without_nulls(item.clone(), schema)).collect();
        return Value::list(items).unwrap_or(answer);
    }
    answer
}

/// Whether a schema says by itself that null does not fit.
fn refuses_null(schema: &Value) -> bool {
    let of_types = schema.get("type").map(|kind| match kind.as_list() {
        Some(kinds) => kinds.iter().all(|kind| kind.as_str() != Some("null")),
        None => kind.as_str() != Some("null"),
    });
    let of_values = schema.get("enum").and_then(Value::as_list).map(|values| !values.contains(&Value::NULL));
    of_types == Some(true) || of_values == Some(true)
}

/// An answer with null in the place of fields that are left out.
fn complete(answer: Value, shape: &ValueShape) -> Value {
    if let (Some(object), Some(fields)) = (answer.as_object(), shape.fields()) {
        let known = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, shape)| shape);
        let given = object.iter().map(|(key, value)| {
            let value = value.clone();
            let value = match known(key.as_str()) {
                Some(shape) => complete(value, shape),
                None => value,
            };
            (key.name().clone(), value)
        });
        let left_out = fields
            .iter()
            .filter(|(name, shape)| shape.types.may_be(Type::Null) && answer.get(name).is_none());
        let left_out = left_out.map(|(name, _)| (name.clone(), Value::NULL));
        return Value::object(given.chain(left_out)).unwrap_or(answer.clone());
    }
    if let Some(items) = answer.as_list()
        && shape.types.may_be(Type::List)
    {
        let element = shape.element();
        let items = items.iter().map(|item| complete(item.clone(), &element)).collect();
        return Value::list(items).unwrap_or(answer);
    }
    answer
}

/// Why a value is not what is known of it. A schema takes `85.0` for an integer; here a value has one type.
fn misfit(value: &Value, shape: &ValueShape, path: &str) -> Option<String> {
    if !shape.types.may_be(value.kind()) {
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let (kind, wanted) = (value.kind().with_article(), shape.types.in_words());
        return Some(format!("{place}{} is {kind}, not {wanted}", excerpt(value)));
    }
    if let (Some(_), Some(fields)) = (value.as_object(), shape.fields()) {
        return fields.iter().find_map(|(name, shape)| {
            value.get(name).and_then(|value| misfit(value, shape, &format!("{path}/{name}")))
        });
    }
    let items = value.as_list()?;
    let element = shape.element();
    items.iter().enumerate().find_map(|(at, item)| misfit(item, &element, &format!("{path}/{at}")))
}

/// What is known of a value that fits a schema. Never more than the schema says.
fn schema_shape(schema: &Value, depth: u8) -> ValueShape {
    // What these say of a value is not followed.
    let combines = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "$dynamicRef"];
    if depth >= MAX_DEPTH || combines.iter().any(|key| schema.get(key).is_some()) {
        return ValueShape::ANY;
    }
    let allowed = schema.get("enum").and_then(Value::as_list);
    let constant = schema.get("const").map(std::slice::from_ref);
    if let Some(values) = allowed.or(constant) {
        let kinds = values.iter().map(|value| Types::one(value.kind()));
        return ValueShape::of_types(kinds.fold(Types::NONE, Types::or));
    }
    let types = match schema.get("type").map(|kind| (kind.as_str(), kind.as_list())) {
        Some((Some(word), _)) => schema_types(word),
        Some((_, Some(several))) => {
            several.iter().filter_map(Value::as_str).map(schema_types).fold(Types::NONE, Types::or)
        }
        _ if schema.get("properties").is_some() => Types::one(Type::Object),
        _ => Types::ANY,
    };
    let others = |kind: Type| ValueShape::of_types(types.without(Types::one(kind)));
    if types.may_be(Type::Object)
        && types != Types::ANY
        && let Some(object) = object_shape(schema, depth)
    {
        let others = others(Type::Object);
        return if others.types.is_none() { object } else { object.or(&others) };
    }
    if types.may_be(Type::List)
        && types != Types::ANY
        && let Some(element) = schema.get("items")
    {
        let list = ValueShape::list_of(schema_shape(element, depth + 1));
        let others = others(Type::List);
        return if others.types.is_none() { list } else { list.or(&others) };
    }
    ValueShape::of_types(types)
}

/// The fields of an object that has no others.
fn object_shape(schema: &Value, depth: u8) -> Option<ValueShape> {
    let open = schema.get("additionalProperties").is_some_and(|more| more.as_bool() != Some(false));
    if open || schema.get("patternProperties").is_some() {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let fields = properties.iter().map(|(key, schema)| {
        let shape = schema_shape(schema, depth + 1);
        let is_required = required.iter().any(|name| name.as_str() == Some(key.as_str()));
        (key.name().clone(), if is_required { shape } else { shape.optional() })
    });
    Some(ValueShape::object(fields.collect()))
}

fn schema_types(word: &str) -> Types {
    match word {
        "null" => Types::NULL,
        "boolean" => Types::one(Type::Bool),
        "integer" => Types::one(Type::Int),
        "number" => Types::NUMBER,
        "string" => Types::TEXT,
        "array" => Types::one(Type::List),
        "object" => Types::one(Type::Object),
        _ => Types::ANY,
    }
}

// ---- the short form -------------------------------------------------------------------------------------

/// The words of the short form, and the type that each stands for in JSON Schema.
const WORDS: [(&str, &str); 11] = [
    ("text", "string"),
    ("string", "string"),
    ("int", "integer"),
    ("integer", "integer"),
    ("number", "number"),
    ("decimal", "number"),
    ("float", "number"),
    ("bool", "boolean"),
    ("boolean", "boolean"),
    ("list", "array"),
    ("object", "object"),
];

/// Keys that only a JSON Schema has.
const SCHEMA_KEYS: [&str; 9] =
    ["$schema", "$ref", "properties", "anyOf", "oneOf", "allOf", "enum", "const", "items"];

/// Types of JSON Schema that no word of the short form is.
const SCHEMA_TYPES: [&str; 3] = ["string", "array", "boolean"];

/// Whether an object is a JSON Schema rather than the fields of an answer.
pub(crate) fn is_schema(written: &Value) -> bool {
    let Some(object) = written.as_object() else { return false };
    let kind = written.get("type").and_then(Value::as_str);
    SCHEMA_KEYS.iter().any(|key| written.get(key).is_some())
        || kind.is_some_and(|kind| SCHEMA_TYPES.contains(&kind))
        || (object.len() == 1 && kind.is_some_and(|kind| WORDS.iter().any(|(_, known)| *known == kind)))
}

/// What is wrong with a short form, and how to write it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShortFormError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The keys that lead to it, the innermost first; an element of a list has an empty one.
    pub(crate) path: Vec<EcoString>,
}

impl ShortFormError {
    fn new(message: String, hint: Option<&str>) -> Self {
        Self { message, hint: hint.map(str::to_owned), path: Vec::new() }
    }

    /// The same, behind a key.
    fn behind(mut self, key: &str) -> Self {
        self.path.push(key.into());
        self
    }
}

/// The JSON Schema of a short form: `{score: int, reason: text, tags: [text]}`.
pub(crate) fn schema_of(written: &Value) -> Result<Value, ShortFormError> {
    let wrong = |message: String, hint: Option<&str>| Err(ShortFormError::new(message, hint));
    if let Some(word) = written.as_str() {
        return word_schema(word);
    }
    if let Some(items) = written.as_list() {
        let [element] = items else {
            let message = format!("a list has one element, the type of all of them, not {}", items.len());
            return wrong(message, Some("write `[text]` for a list of texts"));
        };
        let list = [
            ("type", Value::from("array")),
            ("items", schema_of(element).map_err(|error| error.behind(""))?),
        ];
        return Ok(Value::record(list));
    }
    let Some(object) = written.as_object() else {
        let message = format!("{} is no type", excerpt(written));
        return wrong(
            message,
            Some("the types are `text`, `int`, `number`, `bool`, `list`, `object` and `any`"),
        );
    };
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for (key, kind) in object.iter() {
        let (name, is_optional) = match key.as_str().strip_suffix('?') {
            Some(name) => (name, true),
            None => (key.as_str(), false),
        };
        if name.is_empty() {
            return wrong("a field has no name".to_owned(), None);
        }
        if properties.iter().any(|(known, _): &(EcoString, Value)| known == name) {
            return wrong(format!("the field `{name}` stands twice"), None);
        }
        let schema = schema_of(kind).map_err(|error| error.behind(key.as_str()))?;
        properties.push((EcoString::from(name), schema));
        if !is_optional {
            required.push(Value::from(name));
        }
    }
    Ok(Value::record([
        ("type", Value::from("object")),
        ("properties", Value::record(properties)),
        ("required", Value::list(required).unwrap_or_default()),
        ("additionalProperties", Value::from(false)),
    ]))
}

/// `int`, `text?`, `low | high`.
fn word_schema(word: &str) -> Result<Value, ShortFormError> {
    let (word, is_nullable) = match word.trim().strip_suffix('?') {
        Some(word) => (word.trim(), true),
        None => (word.trim(), false),
    };
    if word == "any" {
        return Ok(Value::empty_object());
    }
    let null = is_nullable.then(|| Value::from("null"));
    let known = |word: &str| WORDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| Value::from(*kind));
    let listed = |values: Vec<Value>| Value::list(values).unwrap_or_default();
    if let Some(kind) = known(word) {
        let kind = match null {
            Some(null) => listed(vec![kind, null]),
            None => kind,
        };
        return Ok(Value::record([("type", kind)]));
    }
    let parts: Vec<&str> = word.split('|').map(str::trim).collect();
    if parts.len() > 1 && parts.iter().all(|part| !part.is_empty()) {
        let kinds: Vec<Value> = parts.iter().filter_map(|part| known(part)).collect();
        if kinds.len() == parts.len() {
            return Ok(Value::record([("type", listed(kinds.into_iter().chain(null).collect()))]));
        }
        // Words that are no types are what the text may be.
        let texts = parts.iter().map(|part| Value::from(part.trim_matches(['"', '\''])));
        let null = is_nullable.then_some(Value::NULL);
        return Ok(Value::record([("enum", listed(texts.chain(null).collect()))]));
    }
    let near = nearest(word, WORDS.iter().map(|(name, _)| *name).chain(["any"]));
    let types = "the types are `text`, `int`, `number`, `bool`, `list`, `object` and `any`";
    let hint = near.map_or_else(|| types.to_owned(), words::did_you_mean);
    Err(ShortFormError::new(format!("there is no type `{word}`"), Some(&hint)))
}
