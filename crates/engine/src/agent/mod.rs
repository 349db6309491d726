//! Agents: whom an `agent` step and the judge of a state ask.
//!
//! A provider says which effect asks an agent, and what the result of that effect means as an answer. It performs
//! nothing, so steps and judges, local runs, simulations and workers elsewhere ask every agent in the same way. A new
//! provider is a file of this folder and a row of [`provider`].

mod command;

use ecow::EcoString;
use threadline_flow::fields::Failure;
use threadline_lang::Value;

use crate::execute::effect::{Effect, EffectLimits, EffectResult};
use crate::execute::result::Timing;
use crate::view::Limit;

/// How an agent is asked.
pub trait Provider: Send {
    /// The effect that asks the agent.
    fn ask(&self, message: String, surroundings: AgentSurroundings) -> Effect;

    /// What the result of that effect means.
    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply;
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
}

impl Reply {
    fn failed(failure: Failure) -> Self {
        Self { answer: Err(failure), printed: None, stderr: None, meta: Vec::new(), timing: None }
    }
}

/// The provider of an agent whose program and arguments these are.
pub fn provider(command: Vec<String>) -> Box<dyn Provider> {
    Box::new(command::CommandProvider::new(command))
}
