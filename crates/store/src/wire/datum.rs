//! Values in events and beside them: small ones as they are, large ones by hash, binary floats without loss.

use threadline_engine::event::{Datum, Form};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Number, Value, data};

use super::fields::{FieldReader, FieldResult, hash};

/// The stored form of a datum.
pub fn datum(datum: &Datum) -> Value {
    match datum {
        Datum::Here(value) if has_float(value) => Value::record([("tagged", tagged(value))]),
        Datum::Here(value) => Value::record([("here", value.clone())]),
        Datum::Stored { hash: of, len, form } => Value::record([
            ("hash", hash(of)),
            ("bytes", Value::from(*len)),
            ("form", Value::from(form_name(*form))),
        ]),
    }
}

/// The datum that [`datum`] was given.
pub fn read_datum(value: &Value) -> Result<Datum, String> {
    FieldReader::read_all(value, |reader| {
        if let Some(value) = reader.optional("here") {
            return Ok(Datum::Here(value.clone()));
        }
        if let Some(value) = reader.optional("tagged") {
            return untagged(value).map(Datum::Here);
        }
        let (hash, len, form) = (reader.hash("hash")?, reader.count("bytes")?, reader.text("form")?);
        let mut known = [Form::Text, Form::Json, Form::Tagged].into_iter();
        let known = known.find(|known| form_name(*known) == form);
        Ok(Datum::Stored { hash, len, form: known.ok_or_else(|| format!("there is no form `{form}`"))? })
    })
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Json => "json",
        Form::Tagged => "tagged",
    }
}

/// The maximum depth of a value whose floats are tagged, which doubles its depth. A value of more than half this depth is
/// stored apart from its event, which nests it a few levels deeper.
pub(crate) const SHALLOW: u8 = 100;

/// The limits for stored values: what was a value once is read again, whatever the limits for files are.
const STORED: Limits = Limits { source: 1 << 30, ..Limits::DEFAULT };

/// The text that is stored for a value, and its form; [`value_of`] reads it back.
pub fn value_text(value: &Value) -> (Form, String) {
    match value.as_str() {
        Some(text) => (Form::Text, text.to_owned()),
        None => container_text(value, value.to_json(JsonStyle::Compact)),
    }
}

/// The text that is stored for a list or an object whose JSON is known.
pub(crate) fn container_text(value: &Value, json: String) -> (Form, String) {
    if has_float(value) && value.depth() <= SHALLOW {
        (Form::Tagged, tagged(value).to_json(JsonStyle::Compact))
    } else {
        (Form::Json, json)
    }
}

/// The value of a stored text.
pub fn value_of(form: Form, text: String) -> Result<Value, String> {
    if form == Form::Text {
        return Ok(Value::from(text));
    }
    let value = data::json::read_value(&text, &STORED).map_err(|error| error.to_string())?;
    if form == Form::Json { Ok(value) } else { untagged(&value) }
}

/// Whether a value contains a binary float, whose text would be read back as a decimal with another value.
fn has_float(value: &Value) -> bool {
    if let Some(items) = value.as_list() {
        return items.iter().any(has_float);
    }
    if let Some(object) = value.as_object() {
        return object.values().iter().any(has_float);
    }
    value.as_number().is_some_and(|number| number.as_binary_float().is_some())
}

/// A value with its binary floats as `{"float": "0.1"}`, and each of its objects as `{"object": {...}}`.
fn tagged(value: &Value) -> Value {
    if let Some(items) = value.as_list() {
        return Value::sequence(items.iter().map(tagged));
    }
    if let Some(entries) = value.as_object() {
        let entries = entries.iter().map(|(key, value)| (key.name().clone(), tagged(value)));
        return Value::record([("object", Value::record(entries))]);
    }
    match value.as_number().and_then(Number::as_binary_float) {
        Some(_) => Value::record([("float", Value::from(value.to_string()))]),
        None => value.clone(),
    }
}

/// The value that [`tagged`] was given.
fn untagged(value: &Value) -> FieldResult<Value> {
    let oversized = |_| "it is too large".to_owned();
    if let Some(items) = value.as_list() {
        return Value::list(items.iter().map(untagged).collect::<FieldResult<_>>()?).map_err(oversized);
    }
    if value.as_object().is_none() {
        return Ok(value.clone());
    }
    let mut reader = FieldReader::new(value)?;
    if let Some(entries) = reader.optional("object") {
        reader.finish()?;
        let entries = entries.as_object().ok_or("`object` is not an object")?;
        let entries = entries.iter().map(|(key, value)| Ok((key.name().clone(), untagged(value)?)));
        return Value::object(entries.collect::<FieldResult<Vec<_>>>()?).map_err(oversized);
    }
    let float: f64 = reader.text("float")?.parse().map_err(|_| "it is not a float")?;
    reader.finish()?;
    Number::float(float).map(Value::from).map_err(|_| "it is not a float".to_owned())
}
