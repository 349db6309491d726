//! An agent that is a program: the message comes on its standard input, the answer on its standard output.

use threadline_flow::fields::{Failure, FailureKind};

use super::chat::Chat;
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent};
use crate::execute::effect::{Effect, EffectResult, EffectText, ProcessEnd, ProcessEnding, ProcessSpec};
use crate::execute::result::{Printed, process_failure, usage};
use crate::execute::start_failure;

pub(super) struct CommandProvider {
    command: Vec<String>,
}

impl CommandProvider {
    pub(super) fn new(agent: &ResolvedAgent) -> Self {
        Self { command: agent.program("command").unwrap_or_default().to_vec() }
    }
}

/// A program that reads a whole conversation from its standard input.
pub(super) fn process(command: &[String], chat: &Chat, surroundings: AgentSurroundings) -> Effect {
    let AgentSurroundings { env, cwd, limits } = surroundings;
    let mut words = command.iter().map(|word| vec![EffectText::Text(word.clone())]);
    let program = words.next().unwrap_or_default();
    let arguments = words.collect();
    let stdin = Some(chat.as_text());
    Effect::Process(ProcessSpec { program, arguments, files: Vec::new(), env, cwd, stdin, limits })
}

/// How a program ended, or why it did not start.
pub(super) fn process_end(result: EffectResult) -> Result<ProcessEnd, Failure> {
    match result {
        EffectResult::Process(Ok(end)) => Ok(end),
        EffectResult::Process(Err(failure)) => Err(start_failure(failure, false)),
        _ => Err(Failure::new(FailureKind::Start, "the agent was not started")),
    }
}

impl Provider for CommandProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        process(&self.command, chat, surroundings)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        let mut end = match process_end(result) {
            Ok(end) => end,
            Err(failure) => return Reply::failed(failure),
        };
        let printed = Printed::of(&mut end);
        let is_accepted = reading.accepts_exit_codes && matches!(end.ending, ProcessEnding::Exited(_));
        let failure =
            process_failure(&end.ending, reading.limits, reading.cut_short).filter(|_| !is_accepted);
        let (output, stderr) = (printed.output(), printed.stderr());
        let answer = match failure {
            Some(failure) => Err(failure),
            None => printed.stdout,
        };
        let (meta, timing) = (usage(&end), Some(end.timing));
        Reply { answer, printed: output, stderr, meta, timing, ..Reply::said(String::new()) }
    }
}
