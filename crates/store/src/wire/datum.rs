//! Values in events and beside them: small ones as they are, large ones by hash.
//!
//! Earlier versions had binary floats and stored a value with one as `tagged`. Such values are still read, each float as
//! the decimal that it was shown as; none is written.

use std::convert::Infallible;

use threadline_engine::event::{Datum, ValueEncoding};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Number, Value, data};

use super::fields::{FieldReader, FieldResult, hash};

/// How the values of an event are written: as they are stored, or as somebody reads them.
pub trait DatumForm {
    /// Why a value cannot be written.
    type Error;

    /// A value of the event.
    fn value(&self, datum: &Datum) -> Result<Value, Self::Error>;

    /// The list that an index of chunks leads to; none if the index is written instead.
    fn elements(&self, index: &Datum) -> Result<Option<Value>, Self::Error>;
}

/// Values as the journal stores them.
pub struct StoredForm;

impl DatumForm for StoredForm {
    type Error = Infallible;

    fn value(&self, of: &Datum) -> Result<Value, Infallible> {
        Ok(datum(of))
    }

    fn elements(&self, _: &Datum) -> Result<Option<Value>, Infallible> {
        Ok(None)
    }
}

/// The stored form of a datum.
pub fn datum(datum: &Datum) -> Value {
    match datum {
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
        let mut known = [ValueEncoding::Text, ValueEncoding::Json, ValueEncoding::Tagged].into_iter();
        let known = known.find(|known| form_name(*known) == form);
        Ok(Datum::Stored { hash, len, form: known.ok_or_else(|| format!("there is no form `{form}`"))? })
    })
}

fn form_name(form: ValueEncoding) -> &'static str {
    match form {
        ValueEncoding::Text => "text",
        ValueEncoding::Json => "json",
        ValueEncoding::Tagged => "tagged",
    }
}

/// The maximum depth of a value inside an event, which nests it a few levels deeper; a deeper one is stored apart.
pub(crate) const SHALLOW: u8 = 50;

/// The limits for stored values: what was a value once is read again, whatever the limits for files are, and what was
/// written around one.
const STORED: Limits = Limits { source: 1 << 30, data_depth: 250, ..Limits::DEFAULT };

/// The text that is stored for a value, and its form; [`value_of`] reads it back.
pub fn value_text(value: &Value) -> (ValueEncoding, String) {
    match value.as_str() {
        Some(text) => (ValueEncoding::Text, text.to_owned()),
        None => (ValueEncoding::Json, value.to_json(JsonStyle::Compact)),
    }
}

/// The value of a stored text.
pub fn value_of(form: ValueEncoding, text: String) -> Result<Value, String> {
    if form == ValueEncoding::Text {
        return Ok(Value::from(text));
    }
    let value = data::json::read_value(&text, &STORED).map_err(|error| error.to_string())?;
    if form == ValueEncoding::Json { Ok(value) } else { untagged(&value) }
}

/// The value of the tagged form, in which a number may be `{"float": "0.1"}` and each object is `{"object": {...}}`.
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
    let number = Number::parse(reader.text("float")?).map_err(|_| "it is not a number")?;
    reader.finish()?;
    Ok(Value::from(number))
}
