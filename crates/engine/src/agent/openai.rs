//! A model behind the Chat Completions API, of OpenAI or of any server that speaks it: the conversation as a request,
//! and the stream of chunks as an answer.

use std::collections::BTreeMap;

use threadline_flow::fields::{Failure, FailureKind, OPENAI_URL};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Value};

use super::api::{self, BreakWitness, BrokenMessage, CountedTokens, ModelMessage};
use super::chat::{Chat, ChatMessage, ShownTool, TokenUsage, ToolOutcome, ToolRequest};
use super::events::EventReader;
use super::stream::StreamForm;
use super::{AgentSurroundings, Provider, ProviderCode, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult};

/// What ends a stream.
const DONE: &str = "[DONE]";

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(OpenAiProvider { agent, estimate: CountedTokens::default() }),
    stream: || Some(StreamForm::events(Box::new(text_of))),
    joined,
};

struct OpenAiProvider {
    agent: ResolvedAgent,
    /// What the answer counts as that was asked for last, if nothing of it is known.
    estimate: CountedTokens,
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
    tokens: CountedTokens,
    is_over: bool,
    broken: Option<BrokenMessage>,
}

impl Completion {
    /// What the chunks of an answer come to, as far as they came.
    fn read(body: &[u8]) -> Self {
        let mut completion = Self::default();
        let mut begun = false;
        // A server that does not stream answers with the whole completion at once.
        if body.trim_ascii_start().starts_with(b"{") {
            match api::read(&String::from_utf8_lossy(body)) {
                Ok(whole) => completion.take(&whole),
                Err(failure) => completion.breaks(failure, BreakWitness::Reader),
            }
            completion.is_over = true;
        } else {
            EventReader::read_all(body, |data| {
                if data.trim() == DONE {
                    completion.is_over = true;
                    return;
                }
                match api::read(data) {
                    _ if completion.broken.is_some() => {}
                    Ok(chunk) => {
                        begun = true;
                        completion.take(&chunk);
                    }
                    Err(failure) => completion.breaks(failure, BreakWitness::Reader),
                }
            });
            if !begun {
                completion.breaks(api::unreadable("it is not what a model answers"), BreakWitness::Nobody);
            }
        }
        if !completion.is_over {
            completion.breaks(api::ends_early(&completion.text), BreakWitness::Reader);
        }
        completion
    }

    /// Notes why the completion is not whole; the first reason counts.
    fn breaks(&mut self, failure: Failure, by: BreakWitness) {
        self.broken.get_or_insert(BrokenMessage { failure, by });
    }

    fn take(&mut self, chunk: &Value) {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let message = text(error, "message").unwrap_or_else(|| error.to_string());
            let failure = Failure::new(FailureKind::Http, format!("the provider broke off: {message}"));
            self.breaks(failure, BreakWitness::Provider);
            return;
        }
        self.model = text(chunk, "model").or(self.model.take());
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.tokens.input = api::count(usage, "prompt_tokens");
            self.tokens.output = api::count(usage, "completion_tokens");
            let details = usage.get("prompt_tokens_details");
            self.tokens.cache_read =
                details.and_then(|details| api::count(details, "cached_tokens")).unwrap_or(0);
            self.tokens.is_final = self.tokens.output.is_some();
        }
        let choices = chunk.get("choices").and_then(Value::as_list).unwrap_or_default();
        let Some(choice) = choices.first() else { return };
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
        let called: usize =
            self.calls.values().map(|(_, name, arguments)| name.len() + arguments.len()).sum();
        self.tokens.bytes = (self.text.len() + self.refusal.len() + called) as u64;
    }
}

/// What the API knows of JSON Schema when it is made to keep to one.
const STRICT_KEYS: [&str; 10] = [
    "$schema",
    "title",
    "description",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
];

/// A schema in the form in which the API can be made to keep to it: every value has a type, every object is closed and
/// has all of its fields, and one that may be left out is null instead. Whatever fits it fits the schema that is given,
/// once such fields are left out. There is none where the schema cannot be written so.
fn strict(schema: &Value) -> Option<Value> {
    let keys = schema.as_object()?;
    if keys.iter().any(|(key, _)| !STRICT_KEYS.contains(&key.as_str())) {
        return None;
    }
    let allowed = match (schema.get("enum"), schema.get("const")) {
        (Some(values), None) => Some(values.as_list()?.to_vec()),
        (None, Some(value)) => Some(vec![value.clone()]),
        (None, None) => None,
        _ => return None,
    };
    let kinds: Vec<&str> = match (schema.get("type"), &allowed) {
        (Some(kind), _) if kind.as_str().is_some() => vec![kind.as_str()?],
        (Some(kinds), _) => kinds.as_list()?.iter().map(Value::as_str).collect::<Option<_>>()?,
        (None, Some(values)) => {
            let mut kinds: Vec<&str> = values.iter().map(schema_type).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
        (None, None) if schema.get("properties").is_some() => vec!["object"],
        (None, None) => return None,
    };
    let kind = match kinds[..] {
        [kind] => Value::from(kind),
        _ => api::list(kinds.iter().map(|kind| Value::from(*kind)).collect()),
    };
    let mut fields = vec![("type", Some(kind)), ("description", schema.get("description").cloned())];
    fields.push(("enum", allowed.map(api::list)));
    if kinds.contains(&"object") {
        let is_open = schema.get("additionalProperties").is_some_and(|more| more.as_bool() != Some(false));
        let properties = schema.get("properties").and_then(Value::as_object).filter(|_| !is_open)?;
        let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
        let strict_field = |(name, field): (&threadline_lang::Key, &Value)| {
            let field = strict(field)?;
            let is_required = required.iter().any(|known| known.as_str() == Some(name.as_str()));
            Some((name.name().clone(), if is_required { field } else { nullable(&field) }))
        };
        let properties: Vec<_> = properties.iter().map(strict_field).collect::<Option<_>>()?;
        let names = properties.iter().map(|(name, _)| Value::from(name.clone())).collect();
        fields.push(("properties", Some(Value::record(properties))));
        fields.push(("required", Some(api::list(names))));
        fields.push(("additionalProperties", Some(false.into())));
    }
    if kinds.contains(&"array") {
        fields.push(("items", Some(strict(schema.get("items")?)?)));
    }
    Some(api::body(fields))
}

/// A strict schema that null fits, too.
fn nullable(schema: &Value) -> Value {
    let with_null = |values: &[Value], null: Value| {
        let has_null = values.contains(&null);
        api::list(values.iter().cloned().chain((!has_null).then_some(null)).collect())
    };
    let fields = schema.as_object().into_iter().flat_map(|fields| fields.iter());
    Value::record(fields.map(|(key, value)| {
        let value = match key.as_str() {
            "type" => match value.as_list() {
                Some(kinds) => with_null(kinds, "null".into()),
                None => with_null(std::slice::from_ref(value), "null".into()),
            },
            "enum" => with_null(value.as_list().unwrap_or_default(), Value::NULL),
            _ => value.clone(),
        };
        (key.name().clone(), value)
    }))
}

/// The word for the type of a value.
fn schema_type(value: &Value) -> &'static str {
    match value.kind() {
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Int => "integer",
        Type::Decimal => "number",
        Type::Text => "string",
        Type::List => "array",
        Type::Object => "object",
    }
}

/// Whether a model counts `max_tokens` under its newer name, also behind another server.
fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_numbered = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    name.starts_with("gpt-5") || name.strip_prefix('o').is_some_and(is_numbered)
}

/// An answer as one completion.
fn joined(body: &[u8]) -> Option<Value> {
    let completion = Completion::read(body);
    if completion.broken.is_some() {
        return None;
    }
    let Completion { text, calls, refusal, model, finish_reason, tokens, is_over: _, broken: _ } = completion;
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
    let details = Value::record([("cached_tokens", Value::from(tokens.cache_read))]);
    let usage = vec![
        ("prompt_tokens", tokens.input.map(Value::from)),
        ("prompt_tokens_details", Some(details)),
        ("completion_tokens", tokens.output.map(Value::from)),
    ];
    let choice = vec![("message", Some(message)), ("finish_reason", finish_reason.map(Value::from))];
    Some(api::body(vec![
        ("model", model.map(Value::from)),
        ("choices", Some(api::list(vec![api::body(choice)]))),
        ("usage", Some(api::body(usage))),
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
            let strict = strict(schema);
            let schema = Value::record([
                ("name", Value::from("answer")),
                ("strict", strict.is_some().into()),
                ("schema", strict.unwrap_or_else(|| schema.clone())),
            ]);
            Value::record([("type", Value::from("json_schema")), ("json_schema", schema)])
        });
        // OpenAI's own models know only the newer name, wherever they are, and other models only the older one.
        let base_url = api::base_url(&self.agent, OPENAI_URL);
        let is_newer = base_url == OPENAI_URL || self.agent.text("model").is_some_and(thinks);
        let max_tokens = if is_newer { "max_completion_tokens" } else { "max_tokens" };
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
        let effect = api::request(&self.agent, url, key.into_iter().collect(), &body, &surroundings);
        self.estimate = CountedTokens::of_request(&self.agent, &effect);
        effect
    }

    fn estimate(&self) -> TokenUsage {
        api::usage(&self.agent, &self.estimate)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        api::reply(&self.agent, &self.estimate, result, reading, |body| {
            let completion = Completion::read(body);
            let Completion { text, calls, refusal, model, finish_reason, tokens, broken, .. } = completion;
            let calls =
                calls.into_values().map(|(id, name, arguments)| ToolRequest::new(id, name, &arguments));
            let calls = calls.collect();
            let refused = match finish_reason.as_deref() {
                _ if !refusal.is_empty() => Some(format!("the model refuses to answer: {}", refusal.trim())),
                Some("length") => Some("the answer was cut off at `max_tokens`".to_owned()),
                Some("content_filter") => Some("the provider held the answer back".to_owned()),
                _ => None,
            };
            ModelMessage { text, calls, model, tokens, refused, broken }
        })
    }
}
