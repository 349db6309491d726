//! What an agent is told and what it said, message by message, and what it used.
//!
//! Every provider writes the same messages as its own protocol has them. Nothing is asked here.

use std::fmt::Write as _;
use std::sync::Arc;

use threadline_flow::fields::field_names as names;
use threadline_flow::model::AnswerFormat;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Number, Value, data};

use super::thread::{ResolvedThread, Thread};

/// A conversation as an agent is shown it.
#[derive(Debug, Clone)]
pub struct Chat {
    /// The messages, of which the first and the last are for the agent.
    pub messages: Vec<ChatMessage>,
    /// The form that the answer must have.
    pub format: Option<Arc<AnswerFormat>>,
    /// The tools that the agent may call.
    pub tools: Vec<ShownTool>,
    /// Which message is the first of the step: those before it were said in the thread that it continues.
    pub begins: usize,
    /// The conversation of the agent that remembers what was said before.
    pub session: Option<String>,
    /// The name of the thread.
    pub thread: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// For the agent.
    Told(String),
    /// What the agent said.
    Said(String),
    /// The agent calls tools.
    Called {
        /// What it said beside that.
        text: String,
        /// The calls, in its order.
        calls: Vec<ToolRequest>,
    },
    /// For the agent: what came of all calls of the message before.
    Results(Vec<ToolOutcome>),
}

/// A tool as an agent sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownTool {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
}

/// A call of a tool by an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The id that the provider gave it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments: an object, or the text that the agent wrote where that is none.
    pub arguments: Value,
}

/// What an agent is told of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The id of the call.
    pub id: String,
    /// The result as text, or why there is none.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A call that is over, as a step and the records of exchanges say it.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// The name of the tool, as the workflow or a program names it.
    pub name: String,
    /// The arguments, as the agent gave them.
    pub arguments: Value,
    /// What the agent was given; null where that is not known.
    pub result: Value,
    /// Whether the call failed.
    pub is_error: bool,
}

impl FinishedCall {
    /// A call whose arguments and result are in nothing deeper than what a step can leave.
    pub(crate) fn new(name: String, arguments: &Value, result: &Value, is_error: bool) -> Self {
        Self { name, arguments: shallow(arguments), result: shallow(result), is_error }
    }

    /// As data.
    pub(crate) fn value(&self) -> Value {
        Value::record([
            (names::NAME, Value::from(self.name.as_str())),
            (names::ARGUMENTS, self.arguments.clone()),
            (names::RESULT, self.result.clone()),
            (names::IS_ERROR, self.is_error.into()),
        ])
    }

    /// What [`Self::value`] made.
    pub(crate) fn of_value(value: &Value) -> Self {
        let part = |key: &str| value.get(key).cloned().unwrap_or_default();
        Self {
            name: part(names::NAME).as_str().unwrap_or_default().to_owned(),
            arguments: part(names::ARGUMENTS),
            result: part(names::RESULT),
            is_error: part(names::IS_ERROR).as_bool() == Some(true),
        }
    }
}

impl ToolRequest {
    /// A call whose arguments are written as JSON.
    pub(crate) fn new(id: String, name: String, arguments: &str) -> Self {
        let text = arguments.trim();
        let is_fit = |value: &Value| value.as_object().is_some() && value.depth() <= MAX_DEPTH;
        let read = || data::json::read_value(text, &Limits::DEFAULT).ok().filter(is_fit);
        // A tool without parameters is called with nothing at all by some servers.
        let object = if text.is_empty() { Some(Value::empty_object()) } else { read() };
        Self { id, name, arguments: object.unwrap_or_else(|| Value::from(arguments)) }
    }

    /// As it stands in the journal.
    pub(crate) fn value(&self) -> Value {
        Value::record([
            (ID, Value::from(self.id.as_str())),
            (NAME, Value::from(self.name.as_str())),
            (ARGUMENTS, self.arguments.clone()),
        ])
    }

    /// What [`Self::value`] made.
    pub(crate) fn of_value(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { id: text(ID), name: text(NAME), arguments: value.get(ARGUMENTS).cloned().unwrap_or_default() }
    }
}

const ID: &str = "id";
const NAME: &str = "name";
const ARGUMENTS: &str = "arguments";

/// The deepest nesting of what an agent gives a tool: it stands inside of other values afterwards.
const MAX_DEPTH: u8 = 128;

/// A value, or its text where it is nested too deeply.
pub(super) fn shallow(value: &Value) -> Value {
    if value.depth() <= MAX_DEPTH { value.clone() } else { value.to_json(JsonStyle::Compact).into() }
}

impl Chat {
    /// A conversation that begins with a message.
    pub fn new(message: String, format: Option<Arc<AnswerFormat>>) -> Self {
        let messages = vec![ChatMessage::Told(message)];
        Self { messages, format, tools: Vec::new(), begins: 0, session: None, thread: None }
    }

    /// The same behind what was said in a thread. `agent` is the one that is asked now.
    #[must_use]
    pub fn continuing(mut self, thread: ResolvedThread, agent: &str) -> Self {
        let ResolvedThread { name, before: Thread { messages, session } } = thread;
        self.begins = messages.len();
        self.messages.splice(..0, messages);
        self.session = session.filter(|session| session.agent == agent).map(|session| session.id);
        self.thread = Some(name);
        self
    }

    /// The messages of the step itself.
    pub fn own_messages(&self) -> &[ChatMessage] {
        &self.messages[self.begins..]
    }

    /// The conversation as one text, for an agent that remembers nothing, or nothing but its session. What it said
    /// before is between two lines that it cannot hold itself.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        let remembered = if self.session.is_some() { self.begins } else { 0 };
        for (at, message) in self.messages.iter().enumerate().skip(remembered) {
            match message {
                ChatMessage::Told(told) => {
                    if !text.is_empty() {
                        text.push_str("\n\n");
                    }
                    text.push_str(told);
                    if at == self.begins {
                        text.push_str(&self.how_to_answer());
                    }
                }
                ChatMessage::Said(said) => {
                    let mark = crate::hash::Hash::of(said.as_bytes()).to_string();
                    let mark = format!("--- {}", &mark[..16]);
                    let said = said.trim_end();
                    let before = "\n\nYou answered what stands between the two lines";
                    // Writing into a text cannot fail.
                    let _ = write!(text, "{before} `{mark}`.\n\n{mark}\n{said}\n{mark}");
                }
                // No agent that remembers nothing has tools.
                ChatMessage::Called { .. } | ChatMessage::Results(_) => {}
            }
        }
        text
    }

    /// What is added to the first message of the step where the answer must have a form.
    pub fn how_to_answer(&self) -> String {
        self.format.as_ref().map_or(String::new(), |format| {
            format!(
                "\n\nAnswer with one JSON value that fits this JSON Schema, and nothing else:\n\n{}\n",
                format.text()
            )
        })
    }
}

/// What asking an agent used, as far as it says so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenUsage {
    /// Tokens that it read.
    pub input_tokens: Option<u64>,
    /// Tokens that it wrote.
    pub output_tokens: Option<u64>,
    /// What that costs in US dollars.
    pub cost: Option<Number>,
}

impl TokenUsage {
    /// Both together. What one of them does not say is not known of both, unless the other is nothing at all.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        if *self == Self::default() {
            return other.clone();
        }
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let cost =
            self.cost.as_ref().zip(other.cost.as_ref()).and_then(|(a, b)| a.add(b).ok()?.shortest().ok());
        Self {
            input_tokens: both(self.input_tokens, other.input_tokens),
            output_tokens: both(self.output_tokens, other.output_tokens),
            cost,
        }
    }

    /// As it stands in the meta data.
    pub fn meta(&self) -> Vec<(&'static str, Value)> {
        let total = self.input_tokens.zip(self.output_tokens).map(|(a, b)| a.saturating_add(b));
        let counts = [
            (names::INPUT_TOKENS, self.input_tokens),
            (names::OUTPUT_TOKENS, self.output_tokens),
            (names::TOTAL_TOKENS, total),
        ];
        let mut meta: Vec<_> =
            counts.into_iter().filter_map(|(name, count)| Some((name, Value::from(count?)))).collect();
        meta.extend(self.cost.clone().map(|cost| (names::TOTAL_COST_USD, cost.into())));
        meta
    }

    /// What meta data say.
    pub fn of_meta(meta: &Value) -> Self {
        let count = |name: &str| meta.get(name)?.as_i64().and_then(|count| u64::try_from(count).ok());
        Self {
            input_tokens: count(names::INPUT_TOKENS),
            output_tokens: count(names::OUTPUT_TOKENS),
            cost: meta.get(names::TOTAL_COST_USD).and_then(Value::as_number).cloned(),
        }
    }
}
