//! What the response of a server and the answer of a tool are as values.

use ecow::EcoString;
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::{Limits, Value, data};

use super::effect::Response;
use super::result::StepResult;

/// The number of characters of a refusal that stand in a message.
const SHOWN: usize = 200;

/// The meta data that a response adds.
pub(super) fn meta(response: &Response) -> Vec<(&'static str, Value)> {
    let headers = response.headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    // The client bounds the headers of a response.
    let headers: Vec<(EcoString, Value)> = headers.collect();
    let headers = Value::object(headers).unwrap_or_default();
    let status = (names::STATUS_CODE, i64::from(response.status).into());
    let worker = response.worker.as_ref().map(|worker| (names::WORKER, worker.into()));
    [status, (names::HEADERS, headers)].into_iter().chain(worker).collect()
}

/// What a response leaves: JSON as a value, anything else as text. A status other than 2xx is a failure.
pub fn result(response: Response) -> StepResult {
    let (is_json, is_success) = (is_json(&content_type(&response)), response.is_success());
    let Response { status, reason, body, .. } = response;
    let text = String::from_utf8(body);
    if !is_success {
        let text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
        let failure = Failure::new(FailureKind::Http, refusal(status, reason.as_deref(), &text));
        return StepResult::printed(Err(failure), Some(text.into()), None);
    }
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!("the answer is not UTF-8 at byte {at}");
            return StepResult::failed(Failure::new(FailureKind::Format, message));
        }
    };
    if !is_json {
        return StepResult::silent(Ok(text.into()));
    }
    let value = match text.trim() {
        "" => Ok(Value::NULL),
        _ => data::json::read_value(&text, &Limits::DEFAULT)
            .map_err(|error| Failure::new(FailureKind::Format, format!("the answer is not JSON: {error}"))),
    };
    StepResult::printed(value, Some(text.into()), None)
}

fn content_type(response: &Response) -> String {
    let kind = response.header("content-type").and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

/// What a server said when it refused a request.
fn refusal(status: u16, reason: Option<&str>, text: &str) -> String {
    let reason = reason.map_or(String::new(), |reason| format!(" {reason}"));
    let said: String = text.trim().chars().take(SHOWN).collect();
    let more = if said.len() < text.trim().len() { "..." } else { "" };
    let said = if said.is_empty() { said } else { format!(": {said}{more}") };
    format!("the server answered {status}{reason}{said}")
}

/// What the answer of a tool leaves: its structured content; without that its texts, one as a text and several as a
/// list. An answer that says that it is an error is a failure.
pub(crate) fn tool_result(answer: &Value, max_answer: u64) -> StepResult {
    if answer.size() > max_answer {
        let message = format!("the answer is larger than {max_answer} bytes");
        return StepResult::failed(Failure::new(FailureKind::OutputTooLarge, message));
    }
    let content = answer.get("content").and_then(Value::as_list).unwrap_or_default();
    let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
    let printed = texts.join("\n");
    if answer.get("isError").and_then(Value::as_bool) == Some(true) {
        let said =
            if printed.trim().is_empty() { "the tool failed and does not say why" } else { printed.trim() };
        let value = Err(Failure::new(FailureKind::Tool, said));
        return StepResult::printed(value, Some(printed.into()), None);
    }
    let value = match (answer.get("structuredContent").filter(|value| !value.is_null()), content) {
        (Some(structured), _) => structured.clone(),
        (None, []) => Value::NULL,
        (None, [one]) => part(one),
        (None, several) => Value::list(several.iter().map(part).collect()).unwrap_or_default(),
    };
    let output = value.as_str().is_none().then(|| printed.into());
    StepResult::printed(Ok(value), output, None)
}

fn text_of(part: &Value) -> Option<&str> {
    let is_text = part.get("type").and_then(Value::as_str) == Some("text");
    part.get("text").and_then(Value::as_str).filter(|_| is_text)
}

/// A text as text; an image or a resource as the object that it is.
fn part(part: &Value) -> Value {
    text_of(part).map_or_else(|| part.clone(), Value::from)
}
