//! Formats and encodings. They read and write texts that are already here; none of them opens anything.

use super::measure::MeasuredForm;
use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Returns, json};
use crate::value::Value;

pub(super) const BASE64: Function = Function {
    name: "base64",
    group: FunctionGroup::Codec,
    params: &[param::scalar("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the UTF-8 bytes of a text encoded as base64 with padding; numbers and bools are converted to text first",
    examples: &[(r#"base64("hello")"#, r#""aGVsbG8=""#)],
    body: Body::Plain(base64),
};

pub(super) const FROM_JSON: Function = Function {
    name: "from_json",
    group: FunctionGroup::Codec,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Any,
    doc: "the value that a JSON text holds",
    examples: &[(r#"from_json('{"a": [1, 2.50]}').a"#, "[1,2.50]")],
    body: Body::Plain(from_json),
};

pub(super) const FROM_YAML: Function = Function {
    name: "from_yaml",
    group: FunctionGroup::Codec,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Any,
    doc: "the value that a YAML text holds",
    examples: &[(r#"from_yaml("[1, 2]")"#, "[1,2]")],
    body: Body::Plain(from_yaml),
};

pub(super) const JSON: Function = Function {
    name: "json",
    group: FunctionGroup::Codec,
    params: &[param::text("path"), param::value("source")],
    required: 2,
    returns: Returns::Any,
    doc: "the value at a path such as `a.b[0]` in a JSON text or in a value; missing if the path leads nowhere",
    examples: &[
        (r#"json("a.b[0]", '{"a": {"b": [5]}}')"#, "5"),
        (r#"json("items.-1", {"items": {"-1": 2}})"#, "2"),
        (r#"json("[-1]", [1, 2])"#, "2"),
        (r#"default(json("b", {"a": 1}), 0)"#, "0"),
    ],
    body: Body::Plain(json_path),
};

pub(super) const SHA256: Function = Function {
    name: "sha256",
    group: FunctionGroup::Codec,
    params: &[param::scalar("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the SHA-256 of the UTF-8 bytes of a text, in lower-case hexadecimal; numbers and bools are converted to text first",
    examples: &[(
        r#"sha256("abc")"#,
        r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#,
    )],
    body: Body::Plain(sha256),
};

pub(super) const TO_JSON: Function = Function {
    name: "to_json",
    group: FunctionGroup::Codec,
    params: &[param::value("value"), param::text("layout")],
    required: 1,
    returns: Returns::Text,
    doc: "the value as JSON, \"compact\" (the default) or \"pretty\"; no digit is lost",
    examples: &[
        (r#"to_json({"a": [1, null]})"#, r#""{\"a\":[1,null]}""#),
        (r#"to_json("a")"#, r#""\"a\"""#),
        (r#"[1] | to_json("pretty")"#, r#""[\n  1\n]""#),
    ],
    body: Body::Plain(to_json),
};

pub(super) const TO_YAML: Function = Function {
    name: "to_yaml",
    group: FunctionGroup::Codec,
    params: &[param::value("value")],
    required: 1,
    returns: Returns::Text,
    doc: "the value as YAML, which reads back as the same value",
    examples: &[(r#"to_yaml({"a": [1, "1"]}) | from_yaml"#, r#"{"a":[1,"1"]}"#)],
    body: Body::Plain(to_yaml),
};

pub(super) const URL: Function = Function {
    name: "url",
    group: FunctionGroup::Codec,
    params: &[param::scalar("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the text percent-encoded as a part of a URL: everything except letters, digits and `-._~`; numbers and bools are converted to text first",
    examples: &[(r#"url("a b/ü")"#, r#""a%20b%2F%C3%BC""#), ("url(42)", r#""42""#)],
    body: Body::Plain(url),
};

fn from_json(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    json::parse(call.text(0)?, 0, call.limits)
}

fn json_path(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let path = call.text(0)?;
    if call.arg(1).as_str().is_some() {
        call.text(1)?;
    }
    json::find(path, call.arg(1), call.limits)
}

fn to_json(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let form = match call.word(1, ["compact", "pretty"])? {
        "pretty" => MeasuredForm::Pretty,
        _ => MeasuredForm::Compact,
    };
    call.make_form(call.arg(0), form)
}

#[cfg(feature = "yaml")]
fn from_yaml(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    crate::data::yaml::read_value(text, call.limits)
        .map_err(|error| json::unread(text, 0, crate::data::DataFormat::Yaml, &error))
}

#[cfg(feature = "yaml")]
fn to_yaml(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let value = call.arg(0);
    let size = call.measured(value, MeasuredForm::Block, 0)?;
    call.make_text(size, |out| crate::data::yaml::write(value, out))
}

/// The text form of a text, a number or a bool.
#[cfg(feature = "codec")]
fn scalar<'a>(call: &mut FunctionCall<'a>) -> Result<std::borrow::Cow<'a, str>, FuncError> {
    use crate::value::Type;
    match call.arg(0).kind() {
        Type::Text => call.text(0).map(Into::into),
        Type::Bool | Type::Int | Type::Decimal => Ok(call.arg(0).to_string().into()),
        _ => Err(call.wrong_type(0, "text, a number or a bool")),
    }
}

#[cfg(feature = "codec")]
fn base64(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    use ::base64::{Engine, engine::general_purpose::STANDARD};
    let text = scalar(call)?;
    let size = text.len().div_ceil(3).saturating_mul(4);
    call.make_text(size, |out| STANDARD.encode_string(text.as_bytes(), out))
}

/// Appends a text percent-encoded for one part of a URL, as the filter `url` gives it.
#[cfg(feature = "codec")]
pub fn percent_encode(text: &str, out: &mut String) {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    out.extend(utf8_percent_encode(text, &RESERVED));
}

#[cfg(feature = "codec")]
fn url(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = scalar(call)?;
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let size = text.bytes().map(|byte| if is_kept(byte) { 1 } else { 3 }).sum();
    call.make_text(size, |out| percent_encode(&text, out))
}

#[cfg(feature = "codec")]
fn sha256(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    use sha2::{Digest, Sha256};
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digest = Sha256::digest(scalar(call)?.as_bytes());
    call.make_text(2 * digest.len(), |out| {
        out.extend(digest.iter().flat_map(|byte| [byte >> 4, byte & 15].map(|d| HEX[usize::from(d)])));
    })
}

#[cfg(not(feature = "yaml"))]
fn from_yaml(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("yaml"))
}

#[cfg(not(feature = "yaml"))]
fn to_yaml(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("yaml"))
}

#[cfg(not(feature = "codec"))]
fn base64(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("codec"))
}

#[cfg(not(feature = "codec"))]
fn url(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("codec"))
}

#[cfg(not(feature = "codec"))]
fn sha256(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("codec"))
}
