//! What the providers behind an HTTP API have in common: the request, failures that may pass, prices, and what is read
//! of an answer.

use std::time::Duration;

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::diag::{preview, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Number, Value, data};

use super::chat::{TokenUsage, ToolRequest};
use super::{AgentSurroundings, CallReach, Reading, Reply, ResolvedAgent};
use crate::evaluate::Request;
use crate::event::Millis;
use crate::execute::effect::{Effect, EffectResult, NoResponse, RequestSpec, Response};
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
    pub(super) tokens: CountedTokens,
    /// Why it is no answer, where it is none.
    pub(super) refused: Option<String>,
    /// Why it is not whole, where it is not.
    pub(super) broken: Option<BrokenMessage>,
}

/// Why a message is not whole.
pub(super) struct BrokenMessage {
    pub(super) failure: Failure,
    /// Who noticed it.
    pub(super) by: BreakWitness,
}

/// Who noticed that a message is not whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakWitness {
    /// The provider says so.
    Provider,
    /// It ends too early, or part of it cannot be read.
    Reader,
    /// Nothing of it can be read: it is not of a model.
    Nobody,
}

/// Tokens as an API counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CountedTokens {
    /// Those that the model read, with those of a cache.
    pub(super) input: Option<u64>,
    /// How many of them were read from a cache.
    pub(super) cache_read: u64,
    /// How many of them were written to one.
    pub(super) cache_write: u64,
    /// Those that it wrote.
    pub(super) output: Option<u64>,
    /// Whether the counts are those of the whole message.
    pub(super) is_final: bool,
    /// The bytes of everything that it wrote, as far as they came.
    pub(super) bytes: u64,
}

/// What the result of a request means. `read` reads the body of a response, also one that breaks off; `estimate` is
/// what the answer counts as where nothing of it is known.
pub(super) fn reply(
    agent: &ResolvedAgent,
    estimate: &CountedTokens,
    result: EffectResult,
    reading: &Reading<'_>,
    read: impl FnOnce(&[u8]) -> ModelMessage,
) -> Reply {
    let EffectResult::Response(response, timing) = result else {
        return Reply::failed(Failure::new(FailureKind::Http, "the model was not asked"));
    };
    let timing = Some(timing);
    let failed = |failure: Failure| Reply { timing, ..Reply::failed(failure) };
    let in_time = |failure: Failure| match reading.cut_short {
        Some(limit) if failure.kind == FailureKind::Timeout => limit_reached(limit),
        _ => failure,
    };
    // A server that could not be reached may be there the next time, and what broke off may not do so again.
    let passing = |failure: &Failure| match failure.kind {
        FailureKind::OutputTooLarge => None,
        FailureKind::Timeout => reading.is_call_limit.then_some(Duration::ZERO),
        _ => Some(Duration::ZERO),
    };
    let (response, cut) = match response {
        Ok(response) => (response, None),
        Err(NoResponse { failure, received: Some(received), .. }) => (*received, Some(in_time(failure))),
        Err(NoResponse { failure, is_sent, received: None }) => {
            let asked = if is_sent { CallReach::Estimated } else { CallReach::Never };
            let usage = if is_sent { usage(agent, estimate) } else { TokenUsage::default() };
            let transient = passing(&failure);
            return Reply { asked, usage, transient, ..failed(in_time(failure)) };
        }
    };
    let worker = response.worker.as_ref().map(|worker| (names::WORKER, Value::from(worker)));
    if !response.is_success() {
        let status = (names::STATUS_CODE, Value::from(i64::from(response.status)));
        let meta = std::iter::once(status).chain(worker).collect();
        let now = timing.map_or(0, |timing| timing.finished);
        let transient = is_transient(response.status).then(|| retry_after(&response, now));
        let reply = failed(Failure::new(FailureKind::Http, refusal(&response)));
        return Reply { meta, transient, ..reply };
    }
    let message = read(&response.body);
    let broken = match (cut, message.broken) {
        // What broke behind a whole message harms nobody.
        (Some(cut), None) if cut.kind == FailureKind::Http => None,
        (Some(cut), _) => {
            let failure = Failure { message: broke_off(&message.text, &cut.message), ..cut };
            Some(BrokenMessage { failure, by: BreakWitness::Reader })
        }
        (None, broken) => broken,
    };
    let model = message.model.map(|model| (names::MODEL_USED, Value::from(model)));
    let meta = model.into_iter().chain(worker).collect();
    if let Some(BrokenMessage { failure, by }) = broken {
        let transient = passing(&failure);
        let (asked, tokens) = match by {
            BreakWitness::Nobody => (CallReach::Never, CountedTokens::default()),
            _ if message.tokens.is_final => (CallReach::Counted, message.tokens),
            _ => (CallReach::Estimated, message.tokens.completed(estimate, by)),
        };
        return Reply { asked, usage: usage(agent, &tokens), meta, transient, ..failed(failure) };
    }
    let usage = usage(agent, &message.tokens);
    let printed = Some(Value::from(message.text.as_str()));
    let answer = match message.refused {
        Some(why) => Err(Failure::new(FailureKind::Agent, why)),
        None => Ok(message.text),
    };
    Reply { answer, calls: message.calls, printed, meta, timing, usage, ..Reply::said(String::new()) }
}

/// The bytes that an estimate takes for a token.
const BYTES_OF_TOKEN: u64 = 3;

/// The tokens that an answer is taken to have of which nothing came, where the agent has no `max_tokens`.
pub(super) const MAX_TOKENS: i64 = 8192;

impl CountedTokens {
    /// What the answer to a request counts as if nothing of it is known.
    pub(super) fn of_request(agent: &ResolvedAgent, effect: &Effect) -> Self {
        let body = match effect {
            Effect::Request(spec) => spec.request.body.as_ref().map_or(0, String::len),
            _ => 0,
        };
        let most = agent.value("max_tokens").and_then(Value::as_i64).unwrap_or(MAX_TOKENS);
        let output = u64::try_from(most).unwrap_or(0);
        let input = (body as u64).div_ceil(BYTES_OF_TOKEN);
        Self { input: Some(input), output: Some(output), ..Self::default() }
    }

    /// The counts of a message that broke off: what the API said, and an estimate of what it did not say.
    fn completed(self, estimate: &Self, by: BreakWitness) -> Self {
        let came = self.bytes.div_ceil(BYTES_OF_TOKEN).max(self.output.unwrap_or(0));
        // A model may think for long before the first word that is sent.
        let is_silent = self.bytes == 0 && by != BreakWitness::Provider;
        let output = if is_silent { estimate.output } else { Some(came) };
        Self { input: self.input.or(estimate.input), output, ..self }
    }
}

/// The failure of a message that ends too early.
pub(super) fn ends_early(text: &str) -> Failure {
    Failure::new(FailureKind::Http, broke_off(text, "it ends before the message does"))
}

/// What is said of an answer that breaks off: how much of it came, and why no more.
fn broke_off(text: &str, why: &str) -> String {
    match text.chars().count() as u64 {
        0 => format!("the answer broke off before it began: {why}"),
        characters => format!("the answer broke off after {}: {why}", words::count(characters, "character")),
    }
}

/// Whether the same request may go well later: too many requests, or a server that cannot answer now.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// How long a server asks to wait: so many seconds, or until a time by its own clock, or else by ours.
fn retry_after(response: &Response, now: Millis) -> Duration {
    let number = |name: &str| response.header(name).and_then(|value| value.trim().parse::<f64>().ok());
    let date = |name: &str| {
        let text = response.header(name)?.trim();
        jiff::fmt::rfc2822::DateTimeParser::new()
            .parse_timestamp(text)
            .ok()
            .map(jiff::Timestamp::as_millisecond)
    };
    let until = || {
        let left = date("retry-after")?.saturating_sub(date("date").unwrap_or(now)).max(0);
        Some(Duration::from_millis(left.unsigned_abs()).as_secs_f64())
    };
    let millis = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds =
        millis.or_else(|| number("retry-after")).or_else(until).filter(|seconds| seconds.is_finite());
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
pub(super) fn usage(agent: &ResolvedAgent, tokens: &CountedTokens) -> TokenUsage {
    let CountedTokens { input, cache_read, cache_write, output, .. } = *tokens;
    let price = |name: &str| agent.value("price")?.get(name)?.as_number();
    let cost = |tokens: u64, price: &Number| {
        let tokens = Number::int(i64::try_from(tokens).ok()?);
        tokens.mul(price).ok()?.div(&Number::int(1_000_000)).ok()
    };
    let all = || {
        let (of_input, of_output) = (price("input")?, price("output")?);
        let fresh = input?.saturating_sub(cache_read).saturating_sub(cache_write);
        let mut sum = cost(fresh, of_input)?.add(&cost(output?, of_output)?).ok()?;
        for (tokens, name) in [(cache_read, "cache_read"), (cache_write, "cache_write")] {
            sum = sum.add(&cost(tokens, price(name).unwrap_or(of_input))?).ok()?;
        }
        sum.shortest().ok()
    };
    TokenUsage { input_tokens: input, output_tokens: output, cost: all() }
}
