//! Agents: whom an `agent` step and the judge of a state ask.
//!
//! A provider says which effect asks an agent, and what the result of that effect means as an answer. It
//! performs nothing, so steps and judges, local runs, simulations and workers elsewhere ask every agent in
//! the same way. A new provider is a file or folder here and an arm of `code_of`; its keys are a row of
//! [`threadline_flow::fields::PROVIDERS`].

mod answer;
mod anthropic;
mod api;
pub mod chat;
mod claude;
mod command;
pub mod conversation;
mod events;
pub mod exchange;
mod openai;
mod replay;
pub mod stream;
pub mod thread;
pub mod tools;

use std::time::Duration;

use ecow::EcoString;
use threadline_flow::fields::{DEFAULT_PROVIDER, Failure, ProviderName, ProviderSpec};
use threadline_flow::forms::duration;
use threadline_lang::Value;

use crate::evaluate::HostPolicy;
use crate::execute::AgentCall;
use crate::execute::effect::{Effect, EffectLimits, EffectResult};
use crate::execute::result::Timing;
use crate::spend::Spend;
use crate::view::Limit;
use chat::{Chat, FinishedCall, TokenUsage, ToolRequest};
use stream::StreamForm;
use tools::ToolOffer;

/// How an agent is asked.
pub trait Provider: Send {
    /// The effect that asks the agent for the next message of a conversation.
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect;

    /// What the result of that effect means.
    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply;

    /// What the message that it was asked for last counts as, where nobody knows what came of it; nothing where that
    /// cannot be said.
    fn estimate(&self) -> TokenUsage {
        TokenUsage::default()
    }
}

/// What a provider is made of.
struct ProviderCode {
    /// Makes the provider of an agent.
    new: fn(ResolvedAgent) -> Box<dyn Provider>,
    /// How the text of an answer is read while it arrives; nothing where it comes at once.
    stream: fn() -> Option<StreamForm>,
    /// An answer that came in pieces as one message; nothing where none does, or it cannot be read.
    joined: fn(&[u8]) -> Option<Value>,
}

/// The code of a provider.
fn code_of(provider: ProviderName) -> &'static ProviderCode {
    match provider {
        ProviderName::Command => &command::CODE,
        ProviderName::Claude => &claude::CODE,
        ProviderName::Anthropic => &anthropic::CODE,
        ProviderName::OpenAi => &openai::CODE,
        ProviderName::Replay => &replay::CODE,
    }
}

/// The provider of an agent.
pub fn provider(agent: ResolvedAgent) -> Box<dyn Provider> {
    (code_of(agent.provider.name).new)(agent)
}

/// An agent with every setting in its place.
#[derive(Debug, Clone)]
pub struct ResolvedAgent {
    /// The name of the agent in the workflow.
    pub name: EcoString,
    /// How it is asked.
    pub provider: &'static ProviderSpec,
    /// What its settings came to, by their keys.
    pub settings: Vec<(&'static str, ResolvedSetting)>,
    /// Where its requests may go.
    pub hosts: HostPolicy,
    /// What it may call.
    pub tools: Vec<ToolOffer>,
}

/// What a setting of an agent came to.
#[derive(Debug, Clone)]
pub enum ResolvedSetting {
    /// A program and its arguments.
    Program(Vec<String>),
    /// A text in which every reference is resolved.
    Text(String),
    /// A value of any type.
    Value(Value),
}

impl ResolvedAgent {
    /// An agent of whom nothing but the name matters, because what it answers is invented.
    pub(crate) fn invented(name: EcoString) -> Self {
        Self {
            name,
            provider: DEFAULT_PROVIDER,
            settings: Vec::new(),
            hosts: HostPolicy::default(),
            tools: Vec::new(),
        }
    }

    /// How often it may be asked.
    pub(crate) fn call(&self) -> AgentCall {
        let count = |key: &str| self.value(key)?.as_i64().and_then(|count| u64::try_from(count).ok());
        AgentCall {
            agent: self.name.clone(),
            max_parallel: count("max_parallel"),
            requests_per_minute: count("requests_per_minute"),
        }
    }

    /// How long one call may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.value("timeout").and_then(duration)
    }

    fn setting(&self, key: &str) -> Option<&ResolvedSetting> {
        self.settings.iter().find(|(known, _)| *known == key).map(|(_, setting)| setting)
    }

    fn program(&self, key: &str) -> Option<&[String]> {
        match self.setting(key)? {
            ResolvedSetting::Program(words) => Some(words),
            _ => None,
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        match self.setting(key)? {
            ResolvedSetting::Value(value) => Some(value),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.setting(key)? {
            ResolvedSetting::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The bounds on one call of an agent, which may take so long, and whether that is less time than the step leaves it.
pub(crate) fn call_limits(timeout: Option<Duration>, limits: EffectLimits) -> (EffectLimits, bool) {
    match timeout.filter(|own| limits.timeout.is_none_or(|left| *own < left)) {
        Some(own) => (EffectLimits { timeout: Some(own), ..limits }, true),
        None => (limits, false),
    }
}

/// Where an agent runs, and within which limits.
#[derive(Debug, Clone)]
pub struct AgentSurroundings {
    /// Variables to set in the environment of the run, or to remove from it.
    pub env: Vec<(EcoString, Option<String>)>,
    /// The folder, relative to the folder of the run.
    pub cwd: Option<String>,
    /// Bounds on the answer.
    pub limits: EffectLimits,
}

/// How a reply is read.
pub struct Reading<'r> {
    /// The bounds that held for it.
    pub limits: &'r EffectLimits,
    /// The limit of the item, phase or loop that left it less time.
    pub cut_short: Option<&'r Limit>,
    /// Whether the agent itself left the call less time than the step had.
    pub is_call_limit: bool,
    /// Whether no exit code is a failure by itself.
    pub accepts_exit_codes: bool,
}

/// How far a call of an agent came, which is what a run pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallReach {
    /// It could not be asked, or refused to be.
    Never,
    /// It was, and said what it used as far as it does.
    Counted,
    /// It was, and what it used is an estimate, as it broke off.
    Estimated,
    /// It was, and ended by itself without a word.
    InVain,
}

/// What an agent answered.
#[derive(Debug)]
pub struct Reply {
    /// Whether it was asked at all.
    pub asked: CallReach,
    /// The answer, or why there is none.
    pub answer: Result<String, Failure>,
    /// The tools that it calls before it answers: then `answer` is what it said beside that.
    pub calls: Vec<ToolRequest>,
    /// The tools that it called itself before it answered, where it says so.
    pub called: Vec<FinishedCall>,
    /// Everything that the agent printed.
    pub printed: Option<Value>,
    /// What it printed to standard error, if anything.
    pub stderr: Option<Value>,
    /// What the provider adds to the meta data.
    pub meta: Vec<(&'static str, Value)>,
    /// When it answered, where that was measured.
    pub timing: Option<Timing>,
    /// What it used, as far as it says so.
    pub usage: TokenUsage,
    /// The id of the conversation, where the agent has one.
    pub thread: Option<String>,
    /// Of a failure that may pass: how long to wait before the same is asked again, at least.
    pub transient: Option<Duration>,
}

impl Reply {
    /// What it adds to what the run spent.
    pub(crate) fn spent(&self) -> Spend {
        let elapsed = self.timing.map_or(Duration::ZERO, |timing| timing.elapsed);
        match self.asked {
            CallReach::Never => Spend::default(),
            CallReach::Counted => Spend::of_turn(&self.usage, elapsed),
            CallReach::Estimated => Spend { estimated: 1, ..Spend::of_turn(&self.usage, elapsed) },
            CallReach::InVain => Spend { uncounted: 0, unpriced: 0, ..Spend::of_turn(&self.usage, elapsed) },
        }
    }

    /// Nobody was asked.
    fn failed(failure: Failure) -> Self {
        Self { asked: CallReach::Never, answer: Err(failure), ..Self::said(String::new()) }
    }

    /// An answer of which nothing else is known.
    fn said(answer: String) -> Self {
        Self {
            asked: CallReach::Counted,
            answer: Ok(answer),
            calls: Vec::new(),
            called: Vec::new(),
            printed: None,
            stderr: None,
            meta: Vec::new(),
            timing: None,
            usage: TokenUsage::default(),
            thread: None,
            transient: None,
        }
    }
}
