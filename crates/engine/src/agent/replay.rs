//! An agent whose answers are recorded in a file, so that a workflow can be tried and tested without asking
//! anybody.
//!
//! The file is a JSON list of `{"message": TEXT, "answer": VALUE}`, or has one such object per line. An
//! answer belongs to the message that is exactly the same; nothing is guessed and nothing is recorded here.
//! An agent that is asked again gives the next one of `answers`, a list in the place of `answer`.

use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use super::chat::{Chat, ChatMessage};
use super::{AgentSurroundings, CallReach, Provider, ProviderCode, Reading, Reply, ResolvedAgent};
use crate::event::trim_newlines;
use crate::execute::effect::{Effect, EffectResult, ReadSpec};

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(ReplayProvider { agent, message: String::new(), asked: 0 }),
    stream: || None,
    joined: |_| None,
};

struct ReplayProvider {
    agent: ResolvedAgent,
    message: String,
    /// How often it was asked before in the same conversation.
    asked: usize,
}

impl ReplayProvider {
    fn file(&self) -> &str {
        self.agent.text("file").unwrap_or_default()
    }

    /// The answer that is recorded for the message.
    fn find_answer(&self, text: &str) -> Result<String, Failure> {
        let mut found: Option<Value> = None;
        let mut nearly = false;
        for RecordedAnswer { message, mut answers } in self.read_answers(text)? {
            if message != self.message {
                nearly |= trim_newlines(&message) == trim_newlines(&self.message);
                continue;
            }
            if self.asked >= answers.len() {
                let count = words::count(answers.len() as u64, "answer");
                let asked = words::count(self.asked as u64 + 1, "time");
                let hint = format!(": {count}, and the agent is asked {asked}");
                return Err(self.not_found("too few answers", &hint));
            }
            let answer = answers.swap_remove(self.asked);
            if found.as_ref().is_some_and(|known| *known != answer) {
                return Err(self.not_found("different answers", ""));
            }
            found = Some(answer);
        }
        let Some(answer) = found else {
            let hint =
                if nearly { "; a recorded one differs only in the line breaks at its end" } else { "" };
            return Err(self.not_found("no answer", hint));
        };
        let text = answer.as_str().map(str::to_owned);
        Ok(text.unwrap_or_else(|| answer.to_json(JsonStyle::Compact)))
    }

    fn read_answers(&self, text: &str) -> Result<Vec<RecordedAnswer>, Failure> {
        let read = |text: &str| data::json::read_value(text, &Limits::DEFAULT);
        if text.trim_start().starts_with('[') {
            let list = read(text).map_err(|error| self.unfit(None, &format!("it is not JSON: {error}")))?;
            let entries = list.as_list().unwrap_or_default().iter().enumerate();
            return entries.map(|(at, entry)| self.read_entry(&format!("entry {}", at + 1), entry)).collect();
        }
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let entries = lines.map(|(at, line)| {
            let place = format!("line {}", at + 1);
            let entry =
                read(line).map_err(|error| self.unfit(Some(&place), &format!("it is not JSON: {error}")))?;
            self.read_entry(&place, &entry)
        });
        entries.collect()
    }

    fn read_entry(&self, place: &str, entry: &Value) -> Result<RecordedAnswer, Failure> {
        let message = entry.get("message").and_then(Value::as_str);
        let several = entry.get("answers").and_then(Value::as_list).map(<[Value]>::to_vec);
        let answers = entry.get("answer").map(|answer| vec![answer.clone()]).or(several);
        let (Some(message), Some(answers)) = (message, answers) else {
            let why = format!("expected {{\"message\": TEXT, \"answer\": VALUE}}, got {}", excerpt(entry));
            return Err(self.unfit(Some(place), &why));
        };
        Ok(RecordedAnswer { message: message.to_owned(), answers })
    }

    /// The failure of a message that has not exactly one answer.
    fn not_found(&self, what: &str, hint: &str) -> Failure {
        let (file, agent) = (self.file(), &self.agent.name);
        let message = excerpt(&Value::from(self.message.as_str()));
        Failure::new(FailureKind::File, format!("`{file}` has {what} of `{agent}` to {message}{hint}"))
    }

    /// The failure of a file that is not a record of answers.
    fn unfit(&self, place: Option<&str>, why: &str) -> Failure {
        let place = place.map_or(String::new(), |place| format!(", {place}"));
        let (file, agent) = (self.file(), &self.agent.name);
        let message = format!("the recorded answers of `{agent}` in `{file}`{place}: {why}");
        Failure::new(FailureKind::Format, message)
    }
}

/// Answers, and the message that they belong to.
struct RecordedAnswer {
    message: String,
    answers: Vec<Value>,
}

impl Provider for ReplayProvider {
    fn ask(&mut self, chat: &Chat, _: AgentSurroundings) -> Effect {
        let told = |message: &ChatMessage| match message {
            ChatMessage::Told(told) => Some(told.clone()),
            // It calls no tools.
            ChatMessage::Said(_) | ChatMessage::Called { .. } | ChatMessage::Results(_) => None,
        };
        let messages = chat.own_messages();
        self.message = messages.iter().find_map(told).unwrap_or_default();
        self.asked = messages.iter().filter(|message| told(message).is_none()).count();
        Effect::ReadFile(ReadSpec { path: self.file().to_owned() })
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        let (text, timing) = match result {
            EffectResult::Read(text, timing) => (text, Some(timing)),
            _ => (Err(Failure::new(FailureKind::File, "they were not read")), None),
        };
        let agent = &self.agent.name;
        let text = text.map_err(|failure| Failure {
            message: format!("the recorded answers of `{agent}`: {}", failure.message),
            ..failure
        });
        let max_output = reading.limits.max_output;
        let answer = text.and_then(|text| self.find_answer(&text)).and_then(|answer| {
            if answer.len() as u64 <= max_output {
                return Ok(answer);
            }
            let message = format!("the recorded answer of `{agent}` is larger than {max_output} bytes");
            Err(Failure::new(FailureKind::OutputTooLarge, message))
        });
        let printed = answer.as_ref().ok().map(|answer| Value::from(trim_newlines(answer)));
        let asked = if answer.is_ok() { CallReach::Counted } else { CallReach::Never };
        Reply { asked, answer, printed, timing, ..Reply::said(String::new()) }
    }
}
