//! A model behind the Chat Completions API, of OpenAI or of any server that speaks it: the conversation as a request,
//! and the stream of chunks as an answer.

use std::collections::BTreeMap;

use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::api::{self, ModelMessage};
use super::chat::{Chat, ChatMessage, ShownTool, ToolOutcome, ToolRequest};
use super::events::EventReader;
use super::stream::StreamForm;
use super::{AgentSurroundings, Provider, ProviderCode, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

const BASE_URL: &str = "https://api.openai.com/v1";

/// What ends a stream.
const DONE: &str = "[DONE]";

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(OpenAiProvider { agent }),
    stream: || Some(StreamForm::events(Box::new(text_of))),
    joined,
};

struct OpenAiProvider {
    agent: ResolvedAgent,
}

/// A completion as its chunks build it up.
#[derive(Default)]
struct Completion {
    text: String,
    /// The tools that it calls, by their numbers: id, name and arguments as JSON.
    calls: BTreeMap<i64, (String, String, String)>,
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
        for (at, part) in (0..).zip(message.get("tool_calls").and_then(Value::as_list).unwrap_or_default()) {
            // A call comes in pieces with its number, or as a whole without one.
            let number = part.get("index").and_then(Value::as_i64);
            let number = number.unwrap_or_else(|| at + i64::try_from(self.calls.len()).unwrap_or_default());
            let (id, name, arguments) = self.calls.entry(number).or_default();
            id.push_str(&text(part, "id").unwrap_or_default());
            let function = part.get("function").cloned().unwrap_or_default();
            name.push_str(&text(&function, "name").unwrap_or_default());
            match function.get("arguments") {
                Some(written) if written.as_object().is_some() => {
                    *arguments = written.to_json(JsonStyle::Compact);
                }
                Some(written) => arguments.push_str(written.as_str().unwrap_or_default()),
                None => {}
            }
        }
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

/// An answer as one completion.
fn joined(body: &[u8]) -> Option<Value> {
    let Completion { text, calls, refusal, model, finish_reason, input_tokens, output_tokens, is_over: _ } =
        Completion::read(body).ok()?;
    let calls = calls.into_values().map(|(id, name, arguments)| {
        let arguments = api::read(&arguments)
            .ok()
            .filter(|read| read.as_object().is_some())
            .unwrap_or_else(|| arguments.into());
        let function = Value::record([("name", Value::from(name)), ("arguments", arguments)]);
        Value::record([("id", Value::from(id)), ("function", function)])
    });
    let message = Value::record([
        ("content", Value::from(text)),
        ("refusal", refusal.into()),
        ("tool_calls", api::list(calls.collect())),
    ]);
    let usage = [("prompt_tokens", input_tokens), ("completion_tokens", output_tokens)];
    let choice = vec![("message", Some(message)), ("finish_reason", finish_reason.map(Value::from))];
    Some(api::body(vec![
        ("model", model.map(Value::from)),
        ("choices", Some(api::list(vec![api::body(choice)]))),
        ("usage", Some(api::body(usage.map(|(name, count)| (name, count.map(Value::from))).into()))),
    ]))
}

/// The text that a chunk adds.
fn text_of(chunk: &Value) -> Option<String> {
    let choice = chunk.get("choices")?.as_list()?.first()?;
    choice.get("delta")?.get("content")?.as_str().map(str::to_owned)
}

/// A call, as the model is shown what it said.
fn tool_call(call: &ToolRequest) -> Value {
    let arguments = match call.arguments.as_str() {
        Some(text) => text.to_owned(),
        None => call.arguments.to_json(JsonStyle::Compact),
    };
    let function =
        Value::record([("name", Value::from(call.name.as_str())), ("arguments", arguments.into())]);
    Value::record([
        ("id", Value::from(call.id.as_str())),
        ("type", "function".into()),
        ("function", function),
    ])
}

fn tool_message(outcome: &ToolOutcome) -> Value {
    // The API has no word for a call that failed.
    let text = if outcome.is_error { format!("error: {}", outcome.text) } else { outcome.text.clone() };
    Value::record([
        ("role", Value::from("tool")),
        ("tool_call_id", outcome.id.as_str().into()),
        ("content", text.into()),
    ])
}

/// A tool, as the model is told of it.
fn tool(shown: &ShownTool) -> Value {
    let function = Value::record([
        ("name", Value::from(shown.name.as_str())),
        ("description", shown.description.as_str().into()),
        ("parameters", shown.parameters.clone()),
    ]);
    Value::record([("type", "function".into()), ("function", function)])
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
                ChatMessage::Told(told) if at == chat.begins => {
                    api::message("user", &format!("{told}{words}"))
                }
                ChatMessage::Told(told) => api::message("user", told),
                ChatMessage::Said(said) => api::message("assistant", said),
                ChatMessage::Called { text, calls } => {
                    let text = if text.is_empty() { Value::NULL } else { text.as_str().into() };
                    Value::record([
                        ("role", Value::from("assistant")),
                        ("content", text),
                        ("tool_calls", api::list(calls.iter().map(tool_call).collect())),
                    ])
                }
                ChatMessage::Results(outcomes) => {
                    messages.extend(outcomes.iter().map(tool_message));
                    continue;
                }
            });
        }
        let tools: Vec<Value> = chat.tools.iter().map(tool).collect();
        let tools = Some(tools).filter(|tools| !tools.is_empty()).map(api::list);
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
            ("tools", tools),
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
            let completion = Completion::read(body)?;
            let Completion { text, calls, refusal, model, finish_reason, .. } = completion;
            let (input_tokens, output_tokens) = (completion.input_tokens, completion.output_tokens);
            let calls =
                calls.into_values().map(|(id, name, arguments)| ToolRequest::new(id, name, &arguments));
            let calls = calls.collect();
            let refused = match finish_reason.as_deref() {
                _ if !refusal.is_empty() => Some(format!("the model refuses to answer: {}", refusal.trim())),
                Some("length") => Some("the answer was cut off at `max_tokens`".to_owned()),
                Some("content_filter") => Some("the provider held the answer back".to_owned()),
                _ => None,
            };
            Ok(ModelMessage { text, calls, model, input_tokens, output_tokens, refused })
        })
    }
}
