//! What an agent is told and what it said, message by message, and what it used.
//!
//! Every provider writes the same messages as its own protocol has them. Nothing is asked here.

use std::fmt::Write as _;
use std::sync::Arc;

use threadline_flow::fields::field_names as names;
use threadline_flow::model::AnswerFormat;
use threadline_lang::{Number, Value};

/// A conversation as an agent is shown it.
#[derive(Debug, Clone)]
pub struct Chat {
    /// The messages, of which the first and the last are for the agent.
    pub messages: Vec<ChatMessage>,
    /// The form that the answer must have.
    pub format: Option<Arc<AnswerFormat>>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatMessage {
    /// For the agent.
    Told(String),
    /// What the agent said.
    Said(String),
}

impl Chat {
    /// A conversation that begins with a message.
    pub fn new(message: String, format: Option<Arc<AnswerFormat>>) -> Self {
        Self { messages: vec![ChatMessage::Told(message)], format }
    }

    /// The whole conversation as one text, for an agent that remembers nothing. What it said before is between two
    /// lines that it cannot hold itself.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        for message in &self.messages {
            match message {
                ChatMessage::Told(told) if text.is_empty() => {
                    text.push_str(told);
                    text.push_str(&self.how_to_answer());
                }
                ChatMessage::Told(told) => {
                    text.push_str("\n\n");
                    text.push_str(told);
                }
                ChatMessage::Said(said) => {
                    let mark = crate::hash::Hash::of(said.as_bytes()).to_string();
                    let mark = format!("--- {}", &mark[..16]);
                    let said = said.trim_end();
                    let before = "\n\nYou answered what stands between the two lines";
                    // Writing into a text cannot fail.
                    let _ = write!(text, "{before} `{mark}`.\n\n{mark}\n{said}\n{mark}");
                }
            }
        }
        text
    }

    /// What is added to the first message where the answer must have a form.
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
