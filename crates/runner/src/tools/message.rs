//! Messages of JSON-RPC. Nothing here sends anything.

use threadline_flow::fields::Failure;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

/// The code for a method that somebody does not have.
const NO_SUCH_METHOD: i64 = -32_601;

/// So many bytes at the beginning and at the end of a message that cannot be read are looked at for its id.
const AROUND: usize = 100;

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
    /// What arrived is no answer, in words.
    Unreadable(String),
    /// The answer has more than this many bytes.
    TooLarge(usize),
    /// The server cannot be started or reached.
    Failure(Failure),
}

/// A message that arrived.
pub(super) enum Arrived {
    /// The answer to a request of ours.
    Answer(i64, Result<Value, ExchangeError>),
    /// A message that cannot be read: the request that it seems to answer, and what is wrong with it.
    Unreadable(Option<i64>, String),
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

/// A message of its text. What does not look like one is not for us.
pub(super) fn read(bytes: &[u8]) -> Arrived {
    let Ok(text) = str::from_utf8(bytes) else { return unreadable(bytes, "it is not UTF-8") };
    let message = match data::json::read_value(text.trim(), &Limits::DEFAULT) {
        Ok(message) => message,
        Err(error) => return unreadable(bytes, &error.to_string()),
    };
    let id = message.get("id").filter(|id| !id.is_null());
    if let Some(method) = message.get("method").and_then(Value::as_str) {
        return id.map_or(Arrived::Told, |id| Arrived::Asked(id.clone(), method.to_owned()));
    }
    let Some(number) = id.and_then(|id| id.to_string().parse().ok()) else { return Arrived::Told };
    let answer = match (message.get("error"), message.get("result")) {
        (Some(error), _) => {
            let said = error.get("message").and_then(Value::as_str);
            Err(ExchangeError::Error(said.unwrap_or("the server answered with an error").to_owned()))
        }
        (None, Some(result)) => Ok(result.clone()),
        (None, None) => Err(ExchangeError::Unreadable("it has neither a result nor an error".to_owned())),
    };
    Arrived::Answer(number, answer)
}

/// What a server prints beside messages is no concern of ours, but an answer that cannot be read is one.
fn unreadable(bytes: &[u8], why: &str) -> Arrived {
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    if !bytes.trim_ascii_start().starts_with(b"{") || !has(b"\"jsonrpc\"") {
        return Arrived::Told;
    }
    // The keys of a message stand at its beginning or at its end, and what is inside may have keys of the
    // same name.
    let (first, last) = (&bytes[..bytes.len().min(AROUND)], &bytes[bytes.len().saturating_sub(AROUND)..]);
    let first =
        first.windows(4).position(|window| window == b"\"id\"").and_then(|at| number(&first[at + 4..]));
    let last =
        || last.windows(4).rposition(|window| window == b"\"id\"").and_then(|at| number(&last[at + 4..]));
    Arrived::Unreadable(first.or_else(last), why.to_owned())
}

/// The number behind a colon.
fn number(rest: &[u8]) -> Option<i64> {
    let digits = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
