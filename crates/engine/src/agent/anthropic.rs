//! A model behind the Messages API of Anthropic: the conversation as a request, and the stream of events as an answer.
//!
//! Where the answer must have a form, the model is made to call a tool whose input has that form, so that the API
//! itself keeps to it. Beside other tools it is one more of them, and the model must call one.

use std::collections::BTreeMap;

use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::api::{self, ModelMessage};
use super::chat::{Chat, ChatMessage, ToolOutcome, ToolRequest};
use super::events::EventReader;
use super::stream::{StreamForm, TextReader};
use super::{AgentSurroundings, Provider, ProviderCode, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

const BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
const MAX_TOKENS: i64 = 8192;

/// The tool that stands for an answer with a form.
const ANSWER: &str = "answer";

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(AnthropicProvider { agent, asks_by_tool: false }),
    stream: || Some(StreamForm::events(text_reader())),
    joined,
};

struct AnthropicProvider {
    agent: ResolvedAgent,
    /// Whether a tool stands for the answer that was asked for last.
    asks_by_tool: bool,
}

/// A message as its events build it up.
#[derive(Default)]
struct Message {
    text: String,
    /// The tools that it calls, by the numbers of their blocks: id, name and input as JSON.
    calls: BTreeMap<i64, (String, String, String)>,
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
            "content_block_start" => {
                let block = event.get("content_block").cloned().unwrap_or_default();
                self.begin_block(index_of(event), &block);
            }
            "content_block_delta" => {
                let delta = event.get("delta").cloned().unwrap_or_default();
                let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
                self.text.push_str(text("text"));
                if let Some((_, _, input)) = self.calls.get_mut(&index_of(event)) {
                    input.push_str(text("partial_json"));
                }
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
        let content = message.get("content").and_then(Value::as_list).unwrap_or_default();
        for (index, block) in (0..).zip(content) {
            self.text.push_str(block.get("text").and_then(Value::as_str).unwrap_or_default());
            self.begin_block(index, block);
            if let (Some(input), Some(call)) = (block.get("input"), self.calls.get_mut(&index)) {
                call.2 = input.to_json(JsonStyle::Compact);
            }
        }
        self.is_over = true;
    }

    /// Takes the beginning of a block. That of a call has no input yet.
    fn begin_block(&mut self, index: i64, block: &Value) {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("type") == "tool_use" {
            self.calls.insert(index, (text("id"), text("name"), String::new()));
        }
    }

    /// The tools that it calls, and its text: that is the answer where it calls the tool which stands for it, and
    /// no other.
    fn into_calls(self, has_answer: bool) -> (Vec<ToolRequest>, String) {
        let is_answer = |(_, name, _): &(String, String, String)| name == ANSWER;
        match self.calls.values().next() {
            Some(call) if has_answer && self.calls.len() == 1 && is_answer(call) => {
                (Vec::new(), call.2.clone())
            }
            _ => {
                let calls = self.calls.into_values();
                (calls.map(|(id, name, input)| ToolRequest::new(id, name, &input)).collect(), self.text)
            }
        }
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

/// An answer as one message.
fn joined(body: &[u8]) -> Option<Value> {
    let Message { text, calls, model, stop_reason, input_tokens, output_tokens, is_over: _ } =
        Message::read(body).ok()?;
    let text = Value::record([("type", Value::from("text")), ("text", text.into())]);
    let calls = calls.into_values().map(|(id, name, input)| {
        let input = match input.trim() {
            "" => Value::empty_object(),
            text => api::read(text).unwrap_or_else(|_| text.into()),
        };
        Value::record([
            ("type", Value::from("tool_use")),
            ("id", id.into()),
            ("name", name.into()),
            ("input", input),
        ])
    });
    let usage = [("input_tokens", input_tokens), ("output_tokens", output_tokens)];
    Some(api::body(vec![
        ("model", model.map(Value::from)),
        ("stop_reason", stop_reason.map(Value::from)),
        ("content", Some(api::list(std::iter::once(text).chain(calls).collect()))),
        ("usage", Some(api::body(usage.map(|(name, count)| (name, count.map(Value::from))).into()))),
    ]))
}

/// Reads the text that each event of a stream adds: that of the answer, also where a tool stands for it.
fn text_reader() -> TextReader {
    let mut answer = None;
    Box::new(move |event| {
        if let Some(block) = event.get("content_block") {
            let is_answer = block.get("name").and_then(Value::as_str) == Some(ANSWER);
            answer = is_answer.then(|| index_of(event)).or(answer);
        }
        let delta = event.get("delta")?;
        let text = |name: &str| delta.get(name).and_then(Value::as_str).map(str::to_owned);
        text("text").or_else(|| text("partial_json").filter(|_| answer == Some(index_of(event))))
    })
}

/// The number of the block that an event is about.
fn index_of(event: &Value) -> i64 {
    event.get("index").and_then(Value::as_i64).unwrap_or_default()
}

/// A call, as the model is shown what it said.
fn tool_use(call: &ToolRequest) -> Value {
    let input =
        if call.arguments.as_object().is_some() { call.arguments.clone() } else { Value::empty_object() };
    Value::record([
        ("type", Value::from("tool_use")),
        ("id", call.id.as_str().into()),
        ("name", call.name.as_str().into()),
        ("input", input),
    ])
}

fn tool_result(outcome: &ToolOutcome) -> Value {
    Value::record([
        ("type", Value::from("tool_result")),
        ("tool_use_id", outcome.id.as_str().into()),
        ("content", outcome.text.as_str().into()),
        ("is_error", outcome.is_error.into()),
    ])
}

/// A tool, as the model is told of it.
fn tool(name: &str, description: &str, schema: &Value) -> Value {
    Value::record([
        ("name", Value::from(name)),
        ("description", Value::from(description)),
        ("input_schema", schema.clone()),
    ])
}

impl Provider for AnthropicProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        // A tool takes an object; any other answer is asked for in words.
        let schema = chat.format.as_ref().map(|format| &format.schema);
        let schema = schema.filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
        let words = if schema.is_some() { String::new() } else { chat.how_to_answer() };
        self.asks_by_tool = schema.is_some();
        let mut messages = Vec::new();
        for (at, message) in chat.messages.iter().enumerate() {
            messages.push(match message {
                ChatMessage::Told(told) if at == chat.begins => {
                    api::message("user", &format!("{told}{words}"))
                }
                ChatMessage::Told(told) => api::message("user", told),
                ChatMessage::Said(said) => api::message("assistant", said.trim_end()),
                ChatMessage::Called { text, calls } => {
                    let text = Some(text.trim_end()).filter(|text| !text.is_empty());
                    let text =
                        text.map(|text| Value::record([("type", "text".into()), ("text", text.into())]));
                    let blocks = text.into_iter().chain(calls.iter().map(tool_use)).collect();
                    Value::record([("role", Value::from("assistant")), ("content", api::list(blocks))])
                }
                ChatMessage::Results(outcomes) => {
                    let blocks = outcomes.iter().map(tool_result).collect();
                    Value::record([("role", Value::from("user")), ("content", api::list(blocks))])
                }
            });
        }
        let mut tools: Vec<Value> =
            chat.tools.iter().map(|shown| tool(&shown.name, &shown.description, &shown.parameters)).collect();
        let description = if tools.is_empty() {
            "Give the answer. It is called exactly once."
        } else {
            "Give the answer, when no other tool has to be called any more. It is called exactly once, and alone."
        };
        let choice = schema.map(|_| match tools[..] {
            [] => Value::record([("type", Value::from("tool")), ("name", ANSWER.into())]),
            _ => Value::record([("type", Value::from("any"))]),
        });
        tools.extend(schema.map(|schema| tool(ANSWER, description, schema)));
        let tools = Some(tools).filter(|tools| !tools.is_empty()).map(api::list);
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
            let mut message = Message::read(body)?;
            let (model, stop_reason) = (message.model.take(), message.stop_reason.take());
            let (input_tokens, output_tokens) = (message.input_tokens, message.output_tokens);
            let (calls, text) = message.into_calls(self.asks_by_tool);
            let refused = match stop_reason.as_deref() {
                Some("refusal") => Some("the model refuses to answer"),
                Some("max_tokens") => Some("the answer was cut off at `max_tokens`"),
                Some("model_context_window_exceeded") => Some("the conversation is too long for the model"),
                _ => None,
            };
            let refused = refused.map(str::to_owned);
            Ok(ModelMessage { text, calls, model, input_tokens, output_tokens, refused })
        })
    }
}
