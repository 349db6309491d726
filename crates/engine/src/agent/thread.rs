//! Threads: conversations that go on from step to step, from visit to visit, and from run to run.
//!
//! What was said in a thread before is asked of the world when a step begins, and recorded like every other computed
//! value; what it is afterwards stands in the event that ends the step. So a step that begins again after a kill sees
//! the same, and nothing is said twice.

use threadline_lang::Value;

use super::chat::ChatMessage;

/// By this name the world is asked for a thread. No computed value that a file declares can have it.
pub const THREAD: &str = "agent.thread";

/// What was said in a thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// The messages to agents, each followed by its answer.
    pub messages: Vec<ChatMessage>,
    /// The conversation of an agent that remembers all of them.
    pub session: Option<ThreadSession>,
}

/// A conversation that an agent keeps itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSession {
    /// The name of the agent.
    pub agent: String,
    /// The id that the agent gave it.
    pub id: String,
}

/// A thread that a step continues.
#[derive(Debug, Clone)]
pub struct ResolvedThread {
    /// The name that steps continue it by.
    pub name: String,
    /// What was said in it before.
    pub before: Thread,
}

impl Thread {
    /// What [`Self::value`] gave; null is a thread that begins.
    pub fn of_value(value: &Value) -> Self {
        let messages = value.get("messages").and_then(Value::as_list).unwrap_or_default();
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        let message = |message: &Value| {
            let said = || text(message, "said").map(ChatMessage::Said);
            text(message, "told").map(ChatMessage::Told).or_else(said)
        };
        let session = value.get("session").and_then(|session| {
            Some(ThreadSession { agent: text(session, "agent")?, id: text(session, "id")? })
        });
        Self { messages: messages.iter().filter_map(message).collect(), session }
    }

    /// As it is recorded.
    pub fn value(&self) -> Value {
        let messages = self.messages.iter().filter_map(|message| match message {
            ChatMessage::Told(told) => Some(Value::record([("told", Value::from(told.as_str()))])),
            ChatMessage::Said(said) => Some(Value::record([("said", Value::from(said.as_str()))])),
            // What tools gave is part of one answer, and other agents have other tools.
            ChatMessage::Called { .. } | ChatMessage::Results(_) => None,
        });
        let session = self.session.as_ref().map(|ThreadSession { agent, id }| {
            let session = [("agent", Value::from(agent.as_str())), ("id", id.as_str().into())];
            ("session", Value::record(session))
        });
        Value::record([("messages", Value::sequence(messages))].into_iter().chain(session))
    }
}
