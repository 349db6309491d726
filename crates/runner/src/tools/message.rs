//! Messages of JSON-RPC. Nothing here sends anything.

use threadline_flow::fields::Failure;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

/// The code for a method that somebody does not have.
const NO_SUCH_METHOD: i64 = -32_601;

/// Why a request has no answer.
#[derive(Debug, Clone)]
pub(super) enum ExchangeError {
    /// It did not come in time.
    Timeout,
    /// The server ended; how, in words.
    Ended(String),
    /// The server answered with an error.
    Error(String),
    /// There is no such tool; what there is.
    NoTool(String),
    /// The parameters are not what the tool takes.
    Params(String),
    /// The server cannot be started or reached.
    Failure(Failure),
}

/// A message that arrived.
pub(super) enum Arrived {
    /// The answer to a request of ours.
    Answer(i64, Result<Value, ExchangeError>),
    /// A request of the server's: its id and method.
    Asked(Value, String),
    /// Anything else, which needs no answer.
    Told,
}

pub(super) fn request(id: i64, method: &str, params: Value) -> String {
    text(&Value::record([
        ("jsonrpc", "2.0".into()),
        ("id", id.into()),
        ("method", method.into()),
        ("params", params),
    ]))
}

pub(super) fn notification(method: &str, params: Value) -> String {
    text(&Value::record([("jsonrpc", "2.0".into()), ("method", method.into()), ("params", params)]))
}

/// What a server that asks something is told: `ping` is answered, anything else is not offered.
pub(super) fn reply(id: Value, method: &str) -> String {
    let (key, value) = if method == "ping" {
        ("result", Value::empty_object())
    } else {
        ("error", Value::record([("code", NO_SUCH_METHOD.into()), ("message", "not offered".into())]))
    };
    text(&Value::record([("jsonrpc", "2.0".into()), ("id", id), (key, value)]))
}

fn text(message: &Value) -> String {
    message.to_json(JsonStyle::Compact)
}

/// A message of its text; nothing when it is none.
pub(super) fn read(text: &str) -> Option<Arrived> {
    let message = data::json::read_value(text.trim(), &Limits::DEFAULT).ok()?;
    message.as_object()?;
    let id = message.get("id").filter(|id| !id.is_null());
    if let Some(method) = message.get("method").and_then(Value::as_str) {
        return Some(id.map_or(Arrived::Told, |id| Arrived::Asked(id.clone(), method.to_owned())));
    }
    let number = id.and_then(|id| id.to_string().parse().ok())?;
    if let Some(error) = message.get("error") {
        let said =
            error.get("message").and_then(Value::as_str).unwrap_or("the server answered with an error");
        return Some(Arrived::Answer(number, Err(ExchangeError::Error(said.to_owned()))));
    }
    Some(Arrived::Answer(number, Ok(message.get("result").cloned().unwrap_or_default())))
}
