//! An agent that is asked until its answer fits.
//!
//! A conversation says which effect asks the agent next, and takes what came of it: an answer that fits, or one that
//! does not, with the reason, so that the agent can be asked again. Each exchange but the last is an event of its own,
//! and a conversation that a crash cut off goes on behind the last of them. Nothing is performed here.

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::CaptureFormat;
use threadline_lang::diag::excerpt;
use threadline_lang::{Envelope, Value};

use super::chat::{Chat, ChatMessage, TokenUsage};
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent, answer};
use crate::execute::effect::{Effect, EffectResult};
use crate::execute::result::{self, StepResult, Timing};

/// An agent, what it is told, and what it said so far.
pub struct AgentConversation {
    provider: Box<dyn Provider>,
    pub(crate) chat: Chat,
    surroundings: AgentSurroundings,
    format: CaptureFormat,
    /// The number of exchanges that are over.
    exchanges: u32,
    usage: TokenUsage,
}

/// What came of an exchange.
pub enum Exchanged {
    /// The agent is asked again: what it left, and how long it took.
    Again(ExchangeResult),
    /// The conversation is over.
    Over(ExchangeResult),
}

/// What an exchange left, with what was measured.
pub struct ExchangeResult {
    /// The value, or why there is none.
    pub result: StepResult,
    /// When it happened, where that was measured.
    pub timing: Option<Timing>,
    /// What it adds to the meta data.
    pub meta: Vec<(&'static str, Value)>,
    /// How long the provider asks to wait before it is asked the same again, of a failure that may pass.
    pub transient: Option<std::time::Duration>,
}

impl AgentConversation {
    /// A conversation that begins.
    pub fn new(
        agent: ResolvedAgent,
        chat: Chat,
        surroundings: AgentSurroundings,
        format: CaptureFormat,
    ) -> Self {
        let provider = super::provider(agent);
        Self { provider, chat, surroundings, format, exchanges: 0, usage: TokenUsage::default() }
    }

    /// The number of exchanges that are over.
    pub fn exchanges(&self) -> u32 {
        self.exchanges
    }

    /// Goes on behind an exchange that was recorded.
    pub fn restore(&mut self, exchange: &Envelope) {
        let said = exchange.value.as_str().unwrap_or_default().to_owned();
        let why = exchange.meta.get(names::REASON).and_then(Value::as_str).unwrap_or_default();
        self.usage = self.usage.plus(&TokenUsage::of_meta(&exchange.meta));
        self.again(said, why);
    }

    /// Takes what was said before over from the same conversation with masks in place of secrets.
    pub fn follow(&mut self, masked: &Self) {
        self.chat.messages.extend(masked.chat.messages.iter().skip(1).cloned());
        self.exchanges = masked.exchanges;
    }

    /// The effect that asks the agent. `left` is the time that is left to it.
    pub fn ask(&mut self, left: Option<std::time::Duration>) -> Effect {
        let mut surroundings = self.surroundings.clone();
        surroundings.limits.timeout = left.or(surroundings.limits.timeout);
        self.provider.ask(&self.chat, surroundings)
    }

    /// What the result of that effect means.
    pub fn take(&mut self, result: EffectResult, reading: &Reading<'_>) -> Exchanged {
        let Reply { answer, printed, stderr, meta, timing, usage, thread, transient } =
            self.provider.reply(result, reading);
        let total = self.usage.plus(&usage);
        let over = |value: Result<Value, Failure>, printed: Option<Value>, mut meta: Vec<_>| {
            meta.extend(total.meta());
            let result = StepResult { value, output: printed, stderr: stderr.clone() };
            Exchanged::Over(ExchangeResult { result, timing, meta, transient })
        };
        let text = match answer {
            Ok(text) => text,
            Err(failure) => return over(Err(failure), printed, meta),
        };
        let thread = thread.map_or(Value::NULL, Value::from);
        let Some(format) = self.chat.format.clone() else {
            let output = match self.format {
                CaptureFormat::Text => None,
                format => match result::read_output(&text, format) {
                    Ok(output) => Some(output),
                    Err(failure) => return over(Err(failure), printed, meta),
                },
            };
            return over(self.answer(&text, output, thread), printed, meta);
        };
        match answer::read(&text, &format) {
            Ok(output) => over(self.answer(&text, Some(output), thread), printed, meta),
            Err(why) if self.exchanges >= format.ask_again => {
                let asked = match format.ask_again {
                    0 => String::new(),
                    1 => " (asked twice)".to_owned(),
                    more => format!(" (asked {} times)", u64::from(more) + 1),
                };
                let said = excerpt(&Value::from(text.trim()));
                let message = format!("the answer {why}{asked}; it is {said}");
                over(Err(Failure::new(FailureKind::Format, message)), printed, meta)
            }
            Err(why) => {
                let mut meta = meta;
                meta.extend(usage.meta());
                meta.push((names::REASON, why.as_str().into()));
                let value = Value::from(text.as_str());
                self.usage = total;
                self.again(text, &why);
                let result = StepResult { value: Ok(value), output: None, stderr };
                Exchanged::Again(ExchangeResult { result, timing, meta, transient: None })
            }
        }
    }

    /// Asks for another answer, because the last one cannot be used.
    fn again(&mut self, said: String, why: &str) {
        self.exchanges += 1;
        self.chat.messages.push(ChatMessage::Said(said));
        let told = format!(
            "That answer cannot be used, because it {why}. Answer again, with one JSON value that fits the JSON \
             Schema and nothing else."
        );
        self.chat.messages.push(ChatMessage::Told(told));
    }

    /// The value of an agent's answer.
    fn answer(&self, text: &str, output: Option<Value>, thread: Value) -> Result<Value, Failure> {
        let mut entries = vec![
            (names::MESSAGES_CREATED.into(), Value::from(u64::from(self.exchanges) + 1)),
            (names::FINAL_RESPONSE.into(), Value::from(result::trim_newlines(text))),
            (names::THREAD_ID.into(), thread),
        ];
        entries.extend(output.map(|output| (names::OUTPUT.into(), output)));
        Value::object(entries).map_err(|_| Failure::new(FailureKind::Format, "its answer is too large"))
    }
}
