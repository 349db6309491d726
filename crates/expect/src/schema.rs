//! The operator `schema`: JSON Schema, without reading anything from elsewhere.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use threadline_lang::diag::words;
use threadline_lang::{Limits, Value};

/// A JSON Schema, compiled once. Nothing is read from elsewhere.
#[derive(Clone)]
pub struct JsonSchema(Arc<Validator>);

impl JsonSchema {
    /// A schema of a value. The error says why it is none.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if !matches!(schema.kind(), threadline_lang::Type::Object | threadline_lang::Type::Bool) {
            return Err("a JSON Schema is an object, or `true` or `false`".to_owned());
        }
        let schema = json(schema);
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex().size_limit(Limits::DEFAULT.regex))
            .build(&schema)
            .map_err(|error| match error.kind() {
                ValidationErrorKind::Referencing(_) => {
                    "a `$ref` leads out of the JSON Schema, and nothing is read from elsewhere".to_owned()
                }
                _ => format!("not a JSON Schema: {}", with_place(&error)),
            })?;
        Ok(Self(Arc::new(validator)))
    }

    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.0.is_valid(&json(value))
    }

    /// What is wrong with a value, the first few things.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        const SHOWN: usize = 3;
        let value = json(value);
        self.0.iter_errors(&value).take(SHOWN).map(|error| with_place(&error)).collect()
    }
}

/// A value as `serde_json` has it, for what works on that. Every digit is kept.
pub fn json(value: &Value) -> serde_json::Value {
    if let Some(items) = value.as_list() {
        return items.iter().map(json).collect();
    }
    if let Some(object) = value.as_object() {
        return object.iter().map(|(key, value)| (key.as_str().to_owned(), json(value))).collect();
    }
    match (value.as_bool(), value.as_str(), value.as_number()) {
        (Some(bool), ..) => bool.into(),
        (_, Some(text), _) => text.into(),
        // Our numbers are written as JSON writes them.
        (.., Some(number)) => {
            let mut text = String::new();
            number.write(&mut text);
            text.parse::<serde_json::Number>().map_or(serde_json::Value::Null, serde_json::Value::Number)
        }
        _ => serde_json::Value::Null,
    }
}

/// What is wrong, behind the place of it.
fn with_place(error: &ValidationError<'_>) -> String {
    let (path, problem) = (error.instance_path().as_str(), one_line(&error.to_string()));
    if path.is_empty() { problem } else { format!("{path}: {problem}") }
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.lines().next().unwrap_or_default();
    words::shorten(line, LONGEST).into_owned()
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}
