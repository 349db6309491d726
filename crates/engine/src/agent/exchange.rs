//! An exchange with an agent as data: what was asked, and what came of it.
//!
//! The record of a run and the answers that are kept between runs have this form. It holds what the one who is asked
//! can see, with masks in place of secrets, and nothing that changes from run to run: no times, and no ids of calls.

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::chat::{Chat, ChatMessage, FinishedCall, TokenUsage, ToolOutcome, ToolRequest};
use super::tools::CallResult;
use super::{AgentSurroundings, CallReach, Reply, ResolvedAgent, ResolvedSetting};
use crate::execute::result::StepResult;
use crate::hash::Hash;

/// What was asked: a message of an agent, the result of a tool, or the tools of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeRequest(Value);

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered(Value);

/// What answers in place of the one who would be asked.
#[derive(Debug, Clone)]
pub(crate) enum Served {
    /// The record of another run.
    Recorded(Answered),
    /// An answer that was kept.
    Kept(Answered),
    /// Nothing: a record has no answer to this.
    Nothing(Failure),
}

impl Served {
    /// What it adds to the meta data.
    pub(crate) fn meta(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Recorded(_) => Some((names::REPLAYED, true.into())),
            Self::Kept(_) => Some((names::CACHED, true.into())),
            Self::Nothing(_) => None,
        }
    }
}

/// What is recorded of the exchanges of an execution that can answer a question.
#[derive(Debug, Clone)]
pub struct ExchangeRecord {
    /// Where they are recorded.
    pub place: String,
    /// Which exchange is meant, in words.
    pub number: String,
    /// The exchanges with the same number, or why they cannot be read.
    pub entries: Result<Vec<(ExchangeRequest, Answered)>, String>,
}

/// Settings that nobody who answers can see.
const UNSEEN: [&str; 6] = ["api_key", "price", "max_turns", "timeout", "max_parallel", "requests_per_minute"];

/// An agent as it stands in everything that it is asked.
#[derive(Debug, Clone)]
pub struct AskedAgent(Vec<(&'static str, Value)>);

impl AskedAgent {
    /// An agent with its settings. Where it runs and with which variables is one of them, for a program.
    pub fn new(agent: &ResolvedAgent, surroundings: &AgentSurroundings) -> Self {
        let value = |setting: &ResolvedSetting| match setting {
            ResolvedSetting::Program(words) => Value::sequence(words.iter().map(|word| word.as_str().into())),
            ResolvedSetting::Text(text) => text.as_str().into(),
            ResolvedSetting::Value(value) => value.clone(),
        };
        let is_program = agent.provider.is_program;
        let settings = agent.settings.iter();
        let seen = settings.filter(|(key, _)| !UNSEEN.contains(key) || *key == "max_turns" && is_program);
        let mut settings: Vec<(&'static str, Value)> =
            seen.map(|(key, setting)| (*key, value(setting))).collect();
        if is_program {
            settings.extend(surroundings.cwd.as_deref().map(|cwd| ("cwd", Value::from(cwd))));
            if !surroundings.env.is_empty() {
                let variables = surroundings.env.iter();
                let variables = variables.map(|(name, value)| (name.clone(), value.as_deref()));
                settings.push(("env", Value::record(variables.map(or_null))));
            }
        }
        Self(vec![
            ("agent", Value::from(&agent.name)),
            ("provider", agent.provider.word.name.into()),
            ("settings", Value::record(settings)),
        ])
    }
}

impl AskedAgent {
    /// Its name in the workflow.
    pub fn name(&self) -> &str {
        let name = self.0.iter().find(|(key, _)| *key == "agent");
        name.and_then(|(_, name)| name.as_str()).unwrap_or_default()
    }
}

fn or_null((name, value): (ecow::EcoString, Option<&str>)) -> (ecow::EcoString, Value) {
    (name, value.map_or(Value::NULL, Value::from))
}

const MESSAGES: &str = "messages";
const TOOLS: &str = "tools";
const SAID: &str = "said";
const CALLS: &str = "calls";
const TEXT: &str = "text";
const ERROR: &str = "error";
const VALUE: &str = "value";

impl ExchangeRequest {
    /// The next message of an agent.
    pub fn message(agent: &AskedAgent, chat: &Chat) -> Self {
        let mut fields = agent.0.clone();
        if let Some(format) = &chat.format {
            fields.push(("output", format.schema.clone()));
        }
        if !chat.tools.is_empty() {
            let tools = chat.tools.iter().map(|tool| {
                Value::record([
                    ("name", Value::from(tool.name.as_str())),
                    ("description", tool.description.as_str().into()),
                    ("parameters", tool.parameters.clone()),
                ])
            });
            fields.push((TOOLS, Value::sequence(tools)));
        }
        fields.push((MESSAGES, Value::sequence(chat.messages.iter().map(message_value))));
        Self(Value::record(fields))
    }

    /// The tools of a server.
    pub fn listing(server: &str) -> Self {
        Self(Value::record([("server", Value::from(server))]))
    }

    /// The result of a tool.
    pub fn call(tool: &str, arguments: &Value) -> Self {
        Self(Value::record([("tool", Value::from(tool)), ("arguments", arguments.clone())]))
    }

    /// What [`Self::value`] gave.
    pub fn of_value(value: Value) -> Self {
        Self(value)
    }

    /// The request as a record keeps it.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The hash of all of it.
    pub fn hash(&self) -> Hash {
        Hash::of(self.0.to_json(JsonStyle::Compact).as_bytes())
    }

    /// What is recorded as the answer to exactly this, or the failure that says what differs.
    pub fn answer_in(&self, record: ExchangeRecord) -> Result<Answered, Failure> {
        let ExchangeRecord { place, number, entries } = record;
        let entries = entries.map_err(|why| Failure::new(FailureKind::Replay, why))?;
        let mut difference = None;
        for (asked, answered) in entries {
            match self.difference(&asked) {
                None => return Ok(answered),
                Some(moved) => difference = difference.or(Some(moved)),
            }
        }
        let message = if let Some(moved) = difference {
            format!("`{place}` has no answer to this: {moved}")
        } else {
            let asked = excerpt(&self.last_message());
            format!("`{place}` has nothing for {number}, which asks {asked}")
        };
        Err(Failure::new(FailureKind::Replay, message))
    }

    /// What was said last, or all that is asked where nothing was said.
    fn last_message(&self) -> Value {
        let messages = self.0.get(MESSAGES).and_then(Value::as_list);
        messages.and_then(<[Value]>::last).unwrap_or(&self.0).clone()
    }

    /// The first place in which this is not what was recorded.
    fn difference(&self, recorded: &Self) -> Option<String> {
        let keys = |value: &Value| -> Vec<String> {
            let fields = value.as_object().into_iter().flat_map(|fields| fields.iter());
            fields.map(|(key, _)| key.as_str().to_owned()).collect()
        };
        let mut all = keys(&recorded.0);
        all.extend(keys(&self.0).into_iter().filter(|key| recorded.0.get(key).is_none()));
        all.iter().find_map(|key| {
            let (then, now) = (recorded.0.get(key), self.0.get(key));
            let place = match key.as_str() {
                "agent" | "provider" => format!("the {key}"),
                "arguments" => "the arguments".to_owned(),
                TOOLS => "the tool list".to_owned(),
                _ => format!("`{key}`"),
            };
            match (key.as_str(), then, now) {
                ("settings", Some(then), Some(now)) => {
                    first_difference(String::new(), then, now).map(|moved| moved.told("the setting", ""))
                }
                (MESSAGES, Some(then), Some(now)) => {
                    first_difference(String::new(), then, now).map(|moved| moved.told("message", ""))
                }
                (_, Some(then), Some(now)) => {
                    first_difference(String::new(), then, now).map(|moved| moved.told(&place, " at"))
                }
                (_, then, now) => {
                    let moved = Moved { path: String::new(), then: then.cloned(), now: now.cloned() };
                    Some(moved.told(&place, ""))
                }
            }
        })
    }
}

/// Where two values differ, and what each of them has there.
struct Moved {
    path: String,
    then: Option<Value>,
    now: Option<Value>,
}

/// The number of characters before a difference that are shown.
const BEFORE: usize = 24;

impl Moved {
    fn told(self, place: &str, preposition: &str) -> String {
        let place = match (place, self.path.trim_start_matches('.')) {
            (place, "") => place.to_owned(),
            ("the setting", path) => format!("{place} `{path}`"),
            ("message", path) => {
                let part = [".told", ".said"].iter().find_map(|part| path.strip_suffix(part));
                format!("{place} {}", part.unwrap_or(path))
            }
            (place, path) => format!("{place}{preposition} `{path}`"),
        };
        let (then, now) = match (self.then, self.now) {
            (Some(then), Some(now)) => match (then.as_str(), now.as_str()) {
                (Some(then), Some(now)) => {
                    let same = then.chars().zip(now.chars()).take_while(|(then, now)| then == now).count();
                    (from_difference(then, same), from_difference(now, same))
                }
                _ => (excerpt(&then), excerpt(&now)),
            },
            (then, now) => {
                let shown = |value: Option<Value>| {
                    value.map_or_else(|| "nothing".to_owned(), |value| excerpt(&value))
                };
                (shown(then), shown(now))
            }
        };
        format!("{place} is {now}, and was {then} when it was recorded")
    }
}

/// A text from a little before a difference on.
fn from_difference(text: &str, same: usize) -> String {
    let from = same.saturating_sub(BEFORE);
    let text: String = text.chars().skip(from).collect();
    let shown = excerpt(&Value::from(text));
    if from > 0 { format!("…{shown}") } else { shown }
}

fn first_difference(path: String, then: &Value, now: &Value) -> Option<Moved> {
    if then == now {
        return None;
    }
    if let (Some(before), Some(after)) = (then.as_list(), now.as_list()) {
        let length = before.len().max(after.len());
        return (0..length).find_map(|at| {
            let path = format!("{path}.{}", at + 1);
            differ(path, before.get(at), after.get(at))
        });
    }
    if let (Some(before), Some(after)) = (then.as_object(), now.as_object()) {
        let added = after.iter().filter(|(key, _)| then.get(key.as_str()).is_none());
        let mut keys = before.iter().chain(added).map(|(key, _)| key.as_str());
        let found = keys.find_map(|key| differ(format!("{path}.{key}"), then.get(key), now.get(key)));
        if found.is_some() {
            return found;
        }
    }
    Some(Moved { path, then: Some(then.clone()), now: Some(now.clone()) })
}

fn differ(path: String, then: Option<&Value>, now: Option<&Value>) -> Option<Moved> {
    match (then, now) {
        (Some(then), Some(now)) => first_difference(path, then, now),
        (then, now) => Some(Moved { path, then: then.cloned(), now: now.cloned() }),
    }
}

/// A message of a conversation as data.
fn message_value(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::Told(told) => Value::record([("told", Value::from(told.as_str()))]),
        ChatMessage::Said(said) => Value::record([(SAID, Value::from(said.as_str()))]),
        ChatMessage::Called { text, calls } => {
            let said = Some(text.as_str()).filter(|text| !text.is_empty());
            let said = said.map(|said| (SAID, Value::from(said)));
            Value::record(said.into_iter().chain([(CALLS, calls_value(calls))]))
        }
        ChatMessage::Results(outcomes) => {
            let results = outcomes.iter().map(|ToolOutcome { text, is_error, .. }| {
                let text = (TEXT, Value::from(text.as_str()));
                let is_error = is_error.then(|| ("is_error", true.into()));
                Value::record([text].into_iter().chain(is_error))
            });
            Value::record([("results", Value::sequence(results))])
        }
    }
}

fn calls_value(calls: &[ToolRequest]) -> Value {
    Value::sequence(calls.iter().map(|call| {
        Value::record([("tool", Value::from(call.name.as_str())), ("arguments", call.arguments.clone())])
    }))
}

fn failure_value(failure: &Failure) -> Value {
    Value::record([("kind", Value::from(failure.kind.name())), ("message", failure.message.as_str().into())])
}

fn value_failure(value: &Value) -> Failure {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = FailureKind::ALL.into_iter().find(|kind| kind.name() == text("kind"));
    Failure::new(kind.unwrap_or(FailureKind::Agent), text("message"))
}

/// What meta data of an answer mean the same in another run.
const META: [&str; 4] = [names::MODEL_USED, names::EXIT_CODE, names::STATUS_CODE, names::SIGNAL];

impl Answered {
    /// A message of an agent, or why there is none.
    pub(crate) fn of_reply(reply: &Reply) -> Self {
        let mut fields = Vec::new();
        match &reply.answer {
            Ok(text) => fields.push((TEXT, Value::from(text.as_str()))),
            Err(failure) => {
                fields.push((ERROR, failure_value(failure)));
                fields.extend(reply.transient.map(|_| ("may_pass", true.into())));
                fields.extend(reply.printed.clone().map(|printed| ("printed", printed)));
            }
        }
        if !reply.calls.is_empty() {
            fields.push((CALLS, calls_value(&reply.calls)));
        }
        if !reply.called.is_empty() {
            let called = reply.called.iter().map(FinishedCall::value);
            fields.push((names::TOOL_CALLS, Value::sequence(called)));
        }
        fields.extend(reply.thread.as_deref().map(|thread| ("session", thread.into())));
        fields.extend(reply.meta.iter().filter(|(name, _)| META.contains(name)).cloned());
        let counts = reply.usage.meta().into_iter();
        fields.extend(counts.filter(|(name, _)| *name != names::TOTAL_TOKENS));
        Self(Value::record(fields))
    }

    /// What came of asking a server for its tools.
    pub(crate) fn of_listing(listed: &Result<Value, Failure>) -> Self {
        Self(Value::record([match listed {
            Ok(listed) => (TOOLS, listed.clone()),
            Err(failure) => (ERROR, failure_value(failure)),
        }]))
    }

    /// What came of a call.
    pub(crate) fn of_call(result: &CallResult) -> Self {
        let value = match &result.result.value {
            Ok(value) => (VALUE, value.clone()),
            Err(failure) => (ERROR, failure_value(failure)),
        };
        let meta = result.meta.iter().filter(|(name, _)| META.contains(name)).cloned();
        Self(Value::record([value].into_iter().chain(meta)))
    }

    /// What [`Self::value`] gave.
    pub fn of_value(value: Value) -> Self {
        Self(value)
    }

    /// The answer as a record keeps it.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The same for nothing: it is given once more, and nobody is paid again.
    #[must_use]
    pub(crate) fn free(&self) -> Self {
        let spent = [names::INPUT_TOKENS, names::OUTPUT_TOKENS, names::TOTAL_COST_USD];
        let fields = self.0.as_object().into_iter().flat_map(|fields| fields.iter());
        Self(Value::record(fields.map(|(key, value)| {
            let is_spent = spent.contains(&key.as_str());
            (key.name().clone(), if is_spent { Value::from(0) } else { value.clone() })
        })))
    }

    /// The message that it is. Calls get ids of their own: `turn` tells them apart.
    pub(crate) fn reply(&self, turn: usize) -> Reply {
        let text = |key: &str| self.0.get(key).and_then(Value::as_str);
        let answer = match self.0.get(ERROR) {
            Some(error) => Err(value_failure(error)),
            None => Ok(text(TEXT).unwrap_or_default().to_owned()),
        };
        let calls = self.0.get(CALLS).and_then(Value::as_list).unwrap_or_default();
        let calls = calls.iter().enumerate().map(|(at, call)| ToolRequest {
            id: format!("call_{turn}_{}", at + 1),
            name: call.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned(),
            arguments: call.get("arguments").cloned().unwrap_or_default(),
        });
        let called = self.0.get(names::TOOL_CALLS).and_then(Value::as_list).unwrap_or_default();
        let mut meta: Vec<(&'static str, Value)> = self.meta();
        let count = |name: &str| self.0.get(name)?.as_i64().and_then(|count| u64::try_from(count).ok());
        let usage = TokenUsage {
            input_tokens: count(names::INPUT_TOKENS),
            output_tokens: count(names::OUTPUT_TOKENS),
            cost: self.0.get(names::TOTAL_COST_USD).and_then(Value::as_number).cloned(),
        };
        let printed = self.0.get("printed").cloned();
        let printed = printed.or_else(|| answer.as_ref().ok().map(|text| Value::from(text.as_str())));
        let is_said = printed.is_some() || usage != TokenUsage::default();
        let asked = if is_said { CallReach::Counted } else { CallReach::Never };
        let may_pass = self.0.get("may_pass").and_then(Value::as_bool) == Some(true);
        meta.retain(|(_, value)| !value.is_null());
        Reply {
            asked,
            answer,
            calls: calls.collect(),
            called: called.iter().map(FinishedCall::of_value).collect(),
            printed,
            meta,
            usage,
            thread: text("session").map(str::to_owned),
            transient: may_pass.then_some(std::time::Duration::ZERO),
            ..Reply::said(String::new())
        }
    }

    /// The tools that a server has.
    pub(crate) fn listing(&self) -> Result<Value, Failure> {
        match self.0.get(ERROR) {
            Some(error) => Err(value_failure(error)),
            None => Ok(self.0.get(TOOLS).cloned().unwrap_or_default()),
        }
    }

    /// The result of a call.
    pub(crate) fn step_result(&self) -> StepResult {
        StepResult::silent(match self.0.get(ERROR) {
            Some(error) => Err(value_failure(error)),
            None => Ok(self.0.get(VALUE).cloned().unwrap_or_default()),
        })
    }

    /// What it adds to the meta data.
    pub(crate) fn meta(&self) -> Vec<(&'static str, Value)> {
        META.iter().filter_map(|name| Some((*name, self.0.get(name)?.clone()))).collect()
    }
}
