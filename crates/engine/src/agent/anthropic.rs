//! A model behind the Messages API of Anthropic: the conversation as a request, and the stream of events as an answer.
//!
//! Where the answer must have a form, the model is made to call a tool whose input has that form, so that the API
//! itself keeps to it. Beside other tools it is one more of them, and the model must call one.

use std::collections::BTreeMap;

use threadline_flow::fields::{ANTHROPIC_URL, Failure, FailureKind};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::api::{self, BreakWitness, BrokenMessage, CountedTokens, ModelMessage};
use super::chat::{Chat, ChatMessage, TokenUsage, ToolOutcome, ToolRequest};
use super::events::EventReader;
use super::stream::{StreamForm, TextReader};
use super::{AgentSurroundings, Provider, ProviderCode, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

const VERSION: &str = "2023-06-01";

/// The tool that stands for an answer with a form.
const ANSWER: &str = "answer";

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| {
        let estimate = CountedTokens::default();
        Box::new(AnthropicProvider { agent, asks_by_tool: false, estimate })
    },
    stream: || Some(StreamForm::events(text_reader())),
    joined,
};

struct AnthropicProvider {
    agent: ResolvedAgent,
    /// Whether a tool stands for the answer that was asked for last.
    asks_by_tool: bool,
    /// What the answer counts as that was asked for last, if nothing of it is known.
    estimate: CountedTokens,
}

/// A message as its events build it up.
#[derive(Default)]
struct Message {
    text: String,
    /// The tools that it calls, by the numbers of their blocks: id, name and input as JSON.
    calls: BTreeMap<i64, (String, String, String)>,
    model: Option<String>,
    stop_reason: Option<String>,
    tokens: CountedTokens,
    is_over: bool,
    broken: Option<BrokenMessage>,
}

impl Message {
    /// What the events of an answer come to, as far as they came.
    fn read(body: &[u8]) -> Self {
        let mut message = Self::default();
        let mut begun = false;
        // A server that does not stream answers with the whole message at once.
        if body.trim_ascii_start().starts_with(b"{") {
            match api::read(&String::from_utf8_lossy(body)) {
                Ok(whole) => message.take_whole(&whole),
                Err(failure) => message.breaks(failure, BreakWitness::Reader),
            }
        } else {
            EventReader::read_all(body, |data| match api::read(data) {
                _ if message.broken.is_some() => {}
                Ok(event) => {
                    begun = true;
                    message.take(&event);
                }
                Err(failure) => message.breaks(failure, BreakWitness::Reader),
            });
            if !begun {
                message.breaks(api::unreadable("it is not what a model answers"), BreakWitness::Nobody);
            }
        }
        if !message.is_over {
            message.breaks(api::ends_early(&message.text), BreakWitness::Reader);
        }
        message
    }

    /// Notes why the message is not whole; the first reason counts.
    fn breaks(&mut self, failure: Failure, by: BreakWitness) {
        self.broken.get_or_insert(BrokenMessage { failure, by });
    }

    fn take(&mut self, event: &Value) {
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
                let written = ["text", "thinking", "partial_json"].map(|name| text(name).len() as u64);
                self.tokens.bytes = self.tokens.bytes.saturating_add(written.iter().sum());
                if let Some((_, _, input)) = self.calls.get_mut(&index_of(event)) {
                    input.push_str(text("partial_json"));
                }
            }
            "message_delta" => {
                let delta = event.get("delta").cloned().unwrap_or_default();
                self.stop_reason = delta.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
                self.count(event);
                self.tokens.is_final = self.tokens.output.is_some();
            }
            "message_stop" => self.is_over = true,
            "error" => {
                let error = event.get("error").cloned().unwrap_or_default();
                let text =
                    |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let message = format!("the provider broke off ({}): {}", text("type"), text("message"));
                self.breaks(Failure::new(FailureKind::Http, message), BreakWitness::Provider);
            }
            _ => {}
        }
    }

    fn take_whole(&mut self, message: &Value) {
        self.model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        self.stop_reason = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        self.count(message);
        self.tokens.is_final = true;
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
        let tokens = &mut self.tokens;
        if let Some(read) = api::count(usage, "input_tokens") {
            tokens.cache_write = api::count(usage, "cache_creation_input_tokens").unwrap_or(0);
            tokens.cache_read = api::count(usage, "cache_read_input_tokens").unwrap_or(0);
            // The count of the API leaves those of the cache out.
            tokens.input = Some(read.saturating_add(tokens.cache_write).saturating_add(tokens.cache_read));
        }
        tokens.output = api::count(usage, "output_tokens").or(tokens.output);
    }
}

/// An answer as one message.
fn joined(body: &[u8]) -> Option<Value> {
    let message = Message::read(body);
    if message.broken.is_some() {
        return None;
    }
    let Message { text, calls, model, stop_reason, tokens, is_over: _, broken: _ } = message;
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
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let usage = [
        ("input_tokens", tokens.input.map(|input| input.saturating_sub(cached))),
        ("cache_read_input_tokens", Some(tokens.cache_read)),
        ("cache_creation_input_tokens", Some(tokens.cache_write)),
        ("output_tokens", tokens.output),
    ];
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
            ("max_tokens", self.agent.value("max_tokens").cloned().or(Some(Value::from(api::MAX_TOKENS)))),
            ("system", self.agent.text("system").map(Value::from)),
            ("temperature", self.agent.value("temperature").cloned()),
            ("messages", Some(api::list(messages))),
            ("tools", tools),
            ("tool_choice", choice),
            ("stream", Some(true.into())),
        ]);
        let url = format!("{}/v1/messages", api::base_url(&self.agent, ANTHROPIC_URL));
        let key = self.agent.text("api_key").unwrap_or_default().to_owned();
        let headers = vec![("x-api-key", key), ("anthropic-version", VERSION.to_owned())];
        let effect = api::request(&self.agent, url, headers, &body, &surroundings);
        self.estimate = CountedTokens::of_request(&self.agent, &effect);
        effect
    }

    fn estimate(&self) -> TokenUsage {
        api::usage(&self.agent, &self.estimate)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        api::reply(&self.agent, &self.estimate, result, reading, |body| {
            let mut message = Message::read(body);
            let (model, stop_reason) = (message.model.take(), message.stop_reason.take());
            let (tokens, broken) = (message.tokens, message.broken.take());
            let (calls, text) = message.into_calls(self.asks_by_tool);
            let refused = match stop_reason.as_deref() {
                Some("refusal") => Some("the model refuses to answer"),
                Some("max_tokens") => Some("the answer was cut off at `max_tokens`"),
                Some("model_context_window_exceeded") => Some("the conversation is too long for the model"),
                _ => None,
            };
            let refused = refused.map(str::to_owned);
            ModelMessage { text, calls, model, tokens, refused, broken }
        })
    }
}
