//! A model behind the Messages API of Anthropic: the conversation as a request, and the stream of events as an answer.
//!
//! Where the answer must have a form, the model is made to call a tool whose input has that form, so that the API
//! itself keeps to it.

use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::api::{self, ModelMessage};
use super::chat::{Chat, ChatMessage};
use super::events::EventReader;
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

const BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
const MAX_TOKENS: i64 = 8192;

/// The tool that stands for an answer with a form.
const ANSWER: &str = "answer";

pub(super) struct AnthropicProvider {
    agent: ResolvedAgent,
}

impl AnthropicProvider {
    pub(super) fn new(agent: ResolvedAgent) -> Self {
        Self { agent }
    }
}

/// A message as its events build it up.
#[derive(Default)]
struct Message {
    text: String,
    /// The input of the tool that stands for the answer, as JSON.
    input: String,
    model: Option<String>,
    stop_reason: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    is_over: bool,
}

impl Message {
    /// What the events of an answer come to.
    fn read(body: &[u8]) -> Result<Self, Failure> {
        let mut message = Self::default();
        let mut failed = None;
        let mut take = |data: &str| {
            if failed.is_none() {
                failed = api::read(data).and_then(|event| message.take(&event)).err();
            }
        };
        // A server that does not stream answers with the whole message at once.
        if body.trim_ascii_start().starts_with(b"{") {
            let whole = api::read(&String::from_utf8_lossy(body))?;
            message.take_whole(&whole);
        } else {
            EventReader::read_all(body, &mut take);
        }
        match failed {
            Some(failure) => Err(failure),
            None if !message.is_over => Err(api::unreadable("it ends before the message does")),
            None => Ok(message),
        }
    }

    fn take(&mut self, event: &Value) -> Result<(), Failure> {
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => {
                let message = event.get("message").cloned().unwrap_or_default();
                self.model = message.get("model").and_then(Value::as_str).map(str::to_owned);
                self.count(&message);
            }
            "content_block_delta" => {
                let delta = event.get("delta").cloned().unwrap_or_default();
                let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
                self.text.push_str(text("text"));
                self.input.push_str(text("partial_json"));
            }
            "message_delta" => {
                let delta = event.get("delta").cloned().unwrap_or_default();
                self.stop_reason = delta.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
                self.count(event);
            }
            "message_stop" => self.is_over = true,
            "error" => {
                let error = event.get("error").cloned().unwrap_or_default();
                let text =
                    |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let message = format!("the provider broke off ({}): {}", text("type"), text("message"));
                return Err(Failure::new(FailureKind::Http, message));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_whole(&mut self, message: &Value) {
        self.model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        self.stop_reason = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        self.count(message);
        for block in message.get("content").and_then(Value::as_list).unwrap_or_default() {
            self.text.push_str(block.get("text").and_then(Value::as_str).unwrap_or_default());
            if let Some(input) = block.get("input") {
                self.input = input.to_json(JsonStyle::Compact);
            }
        }
        self.is_over = true;
    }

    /// What is counted at the beginning and at the end; the end counts.
    fn count(&mut self, holder: &Value) {
        let Some(usage) = holder.get("usage") else { return };
        if let Some(read) = api::count(usage, "input_tokens") {
            let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
            let cached: u64 = cached.iter().filter_map(|name| api::count(usage, name)).sum();
            self.input_tokens = Some(read.saturating_add(cached));
        }
        self.output_tokens = api::count(usage, "output_tokens").or(self.output_tokens);
    }
}

impl Provider for AnthropicProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        // A tool takes an object; any other answer is asked for in words.
        let schema = chat.format.as_ref().map(|format| &format.schema);
        let schema = schema.filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
        let words = if schema.is_some() { String::new() } else { chat.how_to_answer() };
        let mut messages = Vec::new();
        for (at, message) in chat.messages.iter().enumerate() {
            messages.push(match message {
                ChatMessage::Told(told) if at == 0 => api::message("user", &format!("{told}{words}")),
                ChatMessage::Told(told) => api::message("user", told),
                ChatMessage::Said(said) => api::message("assistant", said.trim_end()),
            });
        }
        let tools = schema.map(|schema| {
            let description = "Give the answer. It is called exactly once.";
            api::list(vec![Value::record([
                ("name", Value::from(ANSWER)),
                ("description", Value::from(description)),
                ("input_schema", schema.clone()),
            ])])
        });
        let choice = schema.map(|_| Value::record([("type", Value::from("tool")), ("name", ANSWER.into())]));
        let body = api::body(vec![
            ("model", self.agent.text("model").map(Value::from)),
            ("max_tokens", self.agent.value("max_tokens").cloned().or(Some(Value::from(MAX_TOKENS)))),
            ("system", self.agent.text("system").map(Value::from)),
            ("temperature", self.agent.value("temperature").cloned()),
            ("messages", Some(api::list(messages))),
            ("tools", tools),
            ("tool_choice", choice),
            ("stream", Some(true.into())),
        ]);
        let url = format!("{}/v1/messages", api::base_url(&self.agent, BASE_URL));
        let key = self.agent.text("api_key").unwrap_or_default().to_owned();
        let headers = vec![("x-api-key", key), ("anthropic-version", VERSION.to_owned())];
        api::request(&self.agent, url, headers, &body, &surroundings)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        api::reply(&self.agent, result, reading, |body| {
            let Message { text, input, model, stop_reason, input_tokens, output_tokens, .. } =
                Message::read(body)?;
            let text = if input.is_empty() { text } else { input };
            let refused = match stop_reason.as_deref() {
                Some("refusal") => Some("the model refuses to answer"),
                Some("max_tokens") => Some("the answer was cut off at `max_tokens`"),
                Some("model_context_window_exceeded") => Some("the conversation is too long for the model"),
                _ => None,
            };
            let refused = refused.map(str::to_owned);
            Ok(ModelMessage { text, model, input_tokens, output_tokens, refused })
        })
    }
}
