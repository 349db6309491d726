//! Agents: whom an `agent` step and the judge of a state ask.
//!
//! A provider says which effect asks an agent, and what the result of that effect means as an answer. It
//! performs nothing, so steps and judges, local runs, simulations and workers elsewhere ask every agent in
//! the same way. A new provider is a file or folder here and an arm of [`provider`]; its keys are a row of
//! [`threadline_flow::fields::PROVIDERS`].

mod answer;
mod anthropic;
mod api;
pub mod chat;
mod claude;
mod command;
pub mod conversation;
mod events;
mod openai;
mod replay;

use std::time::Duration;

use ecow::EcoString;
use threadline_flow::fields::{DEFAULT_PROVIDER, Failure, ProviderName, ProviderSpec};
use threadline_lang::Value;

use crate::evaluate::HostPolicy;
use crate::execute::effect::{Effect, EffectLimits, EffectResult};
use crate::execute::result::Timing;
use crate::view::Limit;
use chat::{Chat, TokenUsage};

/// How an agent is asked.
pub trait Provider: Send {
    /// The effect that asks the agent for the next message of a conversation.
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect;

    /// What the result of that effect means.
    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply;
}

/// The provider of an agent.
pub fn provider(agent: ResolvedAgent) -> Box<dyn Provider> {
    match agent.provider.name {
        ProviderName::Command => Box::new(command::CommandProvider::new(&agent)),
        ProviderName::Claude => Box::new(claude::ClaudeProvider::new(agent)),
        ProviderName::Anthropic => Box::new(anthropic::AnthropicProvider::new(agent)),
        ProviderName::OpenAi => Box::new(openai::OpenAiProvider::new(agent)),
        ProviderName::Replay => Box::new(replay::ReplayProvider::new(agent)),
    }
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
        Self { name, provider: DEFAULT_PROVIDER, settings: Vec::new(), hosts: HostPolicy::default() }
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
    /// Whether no exit code is a failure by itself.
    pub accepts_exit_codes: bool,
}

/// What an agent answered.
#[derive(Debug)]
pub struct Reply {
    /// The answer, or why there is none.
    pub answer: Result<String, Failure>,
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
    fn failed(failure: Failure) -> Self {
        Self { answer: Err(failure), ..Self::said(String::new()) }
    }

    /// An answer of which nothing else is known.
    fn said(answer: String) -> Self {
        Self {
            answer: Ok(answer),
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
