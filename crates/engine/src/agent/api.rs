//! What the providers behind an HTTP API have in common: the request, failures that may pass, prices, and what is read
//! of an answer.

use std::time::Duration;

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::diag::preview;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Number, Value, data};

use super::chat::{TokenUsage, ToolRequest};
use super::{AgentSurroundings, Reading, Reply, ResolvedAgent};
use crate::evaluate::Request;
use crate::execute::effect::{Effect, EffectResult, RequestSpec, Response};
use crate::execute::result::limit_reached;

/// A request with a JSON body.
pub(super) fn request(
    agent: &ResolvedAgent,
    url: String,
    own: Vec<(&'static str, String)>,
    body: &Value,
    surroundings: &AgentSurroundings,
) -> Effect {
    let mut headers: Vec<(ecow::EcoString, String)> =
        own.into_iter().map(|(name, value)| (name.into(), value)).collect();
    headers.push(("content-type".into(), "application/json".to_owned()));
    if let Some(more) = agent.value("headers") {
        let more = more.as_object().into_iter().flat_map(|more| more.iter());
        for (name, value) in more.filter(|(_, value)| !value.is_null()) {
            let name = name.as_str().to_ascii_lowercase();
            headers.retain(|(known, _)| *known != name);
            headers.push((name.into(), value.to_string()));
        }
    }
    let body = Some(body.to_json(JsonStyle::Compact));
    let request = Request { method: "POST", url, headers, body, hosts: agent.hosts.clone() };
    Effect::Request(RequestSpec { request, limits: surroundings.limits })
}

/// The URL of an agent, without a slash at its end.
pub(super) fn base_url<'a>(agent: &'a ResolvedAgent, usual: &'a str) -> &'a str {
    agent.text("base_url").unwrap_or(usual).trim_end_matches('/')
}

/// A body of the fields that are there.
pub(super) fn body(fields: Vec<(&'static str, Option<Value>)>) -> Value {
    Value::record(fields.into_iter().filter_map(|(name, value)| Some((name, value?))))
}

/// A message of a conversation, as both APIs have it.
pub(super) fn message(role: &str, content: &str) -> Value {
    Value::record([("role", Value::from(role)), ("content", Value::from(content))])
}

pub(super) fn list(values: Vec<Value>) -> Value {
    Value::list(values).unwrap_or_default()
}

/// The message of a model, as one of the protocols has it.
pub(super) struct ModelMessage {
    pub(super) text: String,
    /// The tools that it calls.
    pub(super) calls: Vec<ToolRequest>,
    pub(super) model: Option<String>,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// Why it is no answer, where it is none.
    pub(super) refused: Option<String>,
}

/// What the result of a request means. `read` reads the body of a response.
pub(super) fn reply(
    agent: &ResolvedAgent,
    result: EffectResult,
    reading: &Reading<'_>,
    read: impl FnOnce(&[u8]) -> Result<ModelMessage, Failure>,
) -> Reply {
    let EffectResult::Response(response, timing) = result else {
        return Reply::failed(Failure::new(FailureKind::Http, "the model was not asked"));
    };
    let timing = Some(timing);
    let failed = |failure: Failure| Reply { timing, ..Reply::failed(failure) };
    let response = match response {
        Ok(response) if response.is_success() => response,
        Ok(response) => {
            let meta = vec![(names::STATUS_CODE, Value::from(i64::from(response.status)))];
            let transient = is_transient(response.status).then(|| retry_after(&response));
            let reply = failed(Failure::new(FailureKind::Http, refusal(&response)));
            return Reply { meta, transient, ..reply };
        }
        Err(failure) => {
            return match reading.cut_short {
                Some(limit) if failure.kind == FailureKind::Timeout => failed(limit_reached(limit)),
                _ => {
                    // A server that could not be reached may be there the next time.
                    let transient = (failure.kind == FailureKind::Http).then_some(Duration::ZERO);
                    Reply { transient, ..failed(failure) }
                }
            };
        }
    };
    let message = match read(&response.body) {
        Ok(message) => message,
        // A stream that breaks off may not do so again.
        Err(failure) => return Reply { transient: Some(Duration::ZERO), ..failed(failure) },
    };
    let usage = usage(agent, message.input_tokens, message.output_tokens);
    let meta = message.model.map(|model| (names::MODEL_USED, Value::from(model))).into_iter().collect();
    let printed = Some(Value::from(message.text.as_str()));
    let answer = match message.refused {
        Some(why) => Err(Failure::new(FailureKind::Agent, why)),
        None => Ok(message.text),
    };
    Reply { answer, calls: message.calls, printed, meta, timing, usage, ..Reply::said(String::new()) }
}

/// Whether the same request may go well later: too many requests, or a server that cannot answer now.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// How long a server asks to wait.
fn retry_after(response: &Response) -> Duration {
    let number = |name: &str| response.header(name).and_then(|value| value.trim().parse::<f64>().ok());
    let millis = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds = millis.or_else(|| number("retry-after")).filter(|seconds| seconds.is_finite());
    // Nobody waits for more than an hour without being asked.
    Duration::from_secs_f64(seconds.unwrap_or(0.0).clamp(0.0, 3600.0))
}

/// What a server says of a request that it did not answer, in one sentence.
fn refusal(response: &Response) -> String {
    let body = String::from_utf8_lossy(&response.body);
    let said = data::json::read_value(&body, &Limits::DEFAULT).ok();
    let error = said.as_ref().and_then(|said| said.get("error"));
    let text = |name: &str| error.and_then(|error| error.get(name)).and_then(Value::as_str);
    let message = text("message").or_else(|| error.and_then(Value::as_str));
    let kind = text("code").or_else(|| text("type")).map_or(String::new(), |kind| format!(" ({kind})"));
    let status = response.status;
    let said = match message {
        Some(message) => message.to_owned(),
        None if body.trim().is_empty() => response.reason.clone().unwrap_or_default(),
        None => preview(&Value::from(body.trim())),
    };
    if said.is_empty() {
        format!("the provider answered {status}")
    } else {
        format!("the provider answered {status}{kind}: {said}")
    }
}

/// The failure of an answer that cannot be read.
pub(super) fn unreadable(why: &str) -> Failure {
    Failure::new(FailureKind::Agent, format!("the answer of the provider cannot be read: {why}"))
}

/// A JSON value of an answer.
pub(super) fn read(text: &str) -> Result<Value, Failure> {
    data::json::read_value(text, &Limits::DEFAULT).map_err(|error| unreadable(&error.to_string()))
}

/// A count in an answer.
pub(super) fn count(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_i64().and_then(|count| u64::try_from(count).ok())
}

/// What an answer used, with its cost where the agent has a price. That the price is one was seen before it was asked.
fn usage(agent: &ResolvedAgent, input_tokens: Option<u64>, output_tokens: Option<u64>) -> TokenUsage {
    let cost = |tokens: Option<u64>, name: &str| {
        let price = agent.value("price")?.get(name)?.as_number()?;
        let tokens = Number::int(i64::try_from(tokens?).ok()?);
        tokens.mul(price).ok()?.div(&Number::int(1_000_000)).ok()
    };
    let both = cost(input_tokens, "input").zip(cost(output_tokens, "output"));
    let cost = both.and_then(|(input, output)| input.add(&output).ok()?.shortest().ok());
    TokenUsage { input_tokens, output_tokens, cost }
}
