//! A model behind the Chat Completions API, of OpenAI or of any server that speaks it: the conversation as a request,
//! and the stream of chunks as an answer.

use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;

use super::api::{self, ModelMessage};
use super::chat::{Chat, ChatMessage};
use super::events::EventReader;
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

const BASE_URL: &str = "https://api.openai.com/v1";

/// What ends a stream.
const DONE: &str = "[DONE]";

pub(super) struct OpenAiProvider {
    agent: ResolvedAgent,
}

impl OpenAiProvider {
    pub(super) fn new(agent: ResolvedAgent) -> Self {
        Self { agent }
    }
}

/// A completion as its chunks build it up.
#[derive(Default)]
struct Completion {
    text: String,
    refusal: String,
    model: Option<String>,
    finish_reason: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    is_over: bool,
}

impl Completion {
    fn read(body: &[u8]) -> Result<Self, Failure> {
        let mut completion = Self::default();
        let mut failed = None;
        // A server that does not stream answers with the whole completion at once.
        if body.trim_ascii_start().starts_with(b"{") {
            completion.take(&api::read(&String::from_utf8_lossy(body))?)?;
            completion.is_over = true;
        } else {
            EventReader::read_all(body, |data| {
                if data.trim() == DONE {
                    completion.is_over = true;
                } else if failed.is_none() {
                    failed = api::read(data).and_then(|chunk| completion.take(&chunk)).err();
                }
            });
        }
        match failed {
            Some(failure) => Err(failure),
            None if !completion.is_over => Err(api::unreadable("it ends before the message does")),
            None => Ok(completion),
        }
    }

    fn take(&mut self, chunk: &Value) -> Result<(), Failure> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let message = text(error, "message").unwrap_or_else(|| error.to_string());
            return Err(Failure::new(FailureKind::Http, format!("the provider broke off: {message}")));
        }
        self.model = text(chunk, "model").or(self.model.take());
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.input_tokens = api::count(usage, "prompt_tokens");
            self.output_tokens = api::count(usage, "completion_tokens");
        }
        let choices = chunk.get("choices").and_then(Value::as_list).unwrap_or_default();
        let Some(choice) = choices.first() else { return Ok(()) };
        let message = choice.get("delta").or_else(|| choice.get("message")).cloned().unwrap_or_default();
        self.text.push_str(&text(&message, "content").unwrap_or_default());
        self.refusal.push_str(&text(&message, "refusal").unwrap_or_default());
        self.finish_reason = text(choice, "finish_reason").or(self.finish_reason.take());
        Ok(())
    }
}

/// Whether the API can be made to keep to a schema: every object in it is closed and has all of its fields.
fn is_strict(schema: &Value) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let is_closed = fields.is_none_or(|fields| {
        let closed = schema.get("additionalProperties").and_then(Value::as_bool) == Some(false);
        closed && fields.len() == required.len()
    });
    let nested = fields.into_iter().flat_map(|fields| fields.iter()).all(|(_, schema)| is_strict(schema));
    is_closed && nested && schema.get("items").is_none_or(is_strict)
}

impl Provider for OpenAiProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        let schema = chat.format.as_ref().map(|format| &format.schema);
        // The API takes the schema of an object; any other answer is asked for in words.
        let native = schema.filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
        let words = if native.is_some() { String::new() } else { chat.how_to_answer() };
        let mut messages: Vec<Value> = Vec::new();
        messages.extend(self.agent.text("system").map(|system| api::message("system", system)));
        for (at, message) in chat.messages.iter().enumerate() {
            messages.push(match message {
                ChatMessage::Told(told) if at == 0 => api::message("user", &format!("{told}{words}")),
                ChatMessage::Told(told) => api::message("user", told),
                ChatMessage::Said(said) => api::message("assistant", said),
            });
        }
        let format = native.map(|schema| {
            let schema = Value::record([
                ("name", Value::from("answer")),
                ("schema", schema.clone()),
                ("strict", is_strict(schema).into()),
            ]);
            Value::record([("type", Value::from("json_schema")), ("json_schema", schema)])
        });
        // OpenAI's own models know only the newer name, and other servers only the older one.
        let base_url = api::base_url(&self.agent, BASE_URL);
        let max_tokens = if base_url == BASE_URL { "max_completion_tokens" } else { "max_tokens" };
        let body = api::body(vec![
            ("model", self.agent.text("model").map(Value::from)),
            (max_tokens, self.agent.value("max_tokens").cloned()),
            ("temperature", self.agent.value("temperature").cloned()),
            ("messages", Some(api::list(messages))),
            ("response_format", format),
            ("stream", Some(true.into())),
            ("stream_options", Some(Value::record([("include_usage", Value::from(true))]))),
        ]);
        let url = format!("{base_url}/chat/completions");
        let key = self.agent.text("api_key").map(|key| ("authorization", format!("Bearer {key}")));
        api::request(&self.agent, url, key.into_iter().collect(), &body, &surroundings)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        api::reply(&self.agent, result, reading, |body| {
            let Completion { text, refusal, model, finish_reason, input_tokens, output_tokens, .. } =
                Completion::read(body)?;
            let refused = match finish_reason.as_deref() {
                _ if !refusal.is_empty() => Some(format!("the model refuses to answer: {}", refusal.trim())),
                Some("length") => Some("the answer was cut off at `max_tokens`".to_owned()),
                Some("content_filter") => Some("the provider held the answer back".to_owned()),
                _ => None,
            };
            Ok(ModelMessage { text, model, input_tokens, output_tokens, refused })
        })
    }
}
