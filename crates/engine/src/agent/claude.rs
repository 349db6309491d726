//! Claude Code, asked without a terminal: a program that reads the message from its standard input and prints what
//! happens as lines of JSON. The last of them has the answer, what it cost, and the id of the session.

use std::collections::HashMap;

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::{Limits, Value, data};

use super::chat::{Chat, FinishedCall, TokenUsage, shallow};
use super::command::{process, process_end};
use super::stream::StreamForm;
use super::{AgentSurroundings, Provider, ProviderCode, Reading, Reply, ResolvedAgent, api};
use crate::execute::effect::{Effect, EffectResult};
use crate::execute::result::{Printed, process_failure, usage};

/// The program, where the agent names none.
const PROGRAM: &str = "claude";

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(ClaudeProvider { agent }),
    stream: || Some(StreamForm::lines(Box::new(text_of))),
    joined: |_| None,
};

struct ClaudeProvider {
    agent: ResolvedAgent,
}

impl ClaudeProvider {
    /// The words of the command that goes on with a session, or begins one.
    fn command(&self, session: Option<&str>) -> Vec<String> {
        let mut words = match self.agent.program("program") {
            Some(program) => program.to_vec(),
            None => vec![PROGRAM.to_owned()],
        };
        words.extend(["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned));
        if let Some(session) = session {
            words.extend(["--resume".to_owned(), session.to_owned()]);
        }
        let texts = [
            ("model", "--model"),
            ("system", "--append-system-prompt"),
            ("permission_mode", "--permission-mode"),
        ];
        for (key, option) in texts {
            if let Some(text) = self.agent.text(key) {
                words.extend([option.to_owned(), text.to_owned()]);
            }
        }
        if let Some(turns) = self.agent.value("max_turns") {
            words.extend(["--max-turns".to_owned(), turns.to_string()]);
        }
        if let Some(tools) = self.agent.value("allowed_tools") {
            let tools = tools.as_list().map_or_else(|| vec![tools.clone()], <[Value]>::to_vec);
            words.push("--allowedTools".to_owned());
            words.extend(tools.iter().map(Value::to_string));
        }
        words
    }
}

/// What the lines of a session come to.
#[derive(Default)]
struct ClaudeSession {
    model: Option<String>,
    /// What the model said in its turns.
    said: String,
    /// The calls of tools in their order. One without a result has none yet.
    calls: Vec<FinishedCall>,
    /// Which call has which id.
    ids: HashMap<String, usize>,
    result: Option<Value>,
}

impl ClaudeSession {
    fn read(text: &str) -> Self {
        let mut session = Self::default();
        for line in text.lines().filter(|line| line.trim_start().starts_with('{')) {
            let Ok(event) = data::json::read_value(line.trim(), &Limits::DEFAULT) else { continue };
            match event.get("type").and_then(Value::as_str) {
                Some("system") => {
                    session.model = event.get("model").and_then(Value::as_str).map(str::to_owned);
                }
                Some("assistant") => {
                    session.said.push_str(&text_of(&event).unwrap_or_default());
                    session.take_calls(&event);
                }
                Some("user") => session.take_results(&event),
                Some("result") => session.result = Some(event),
                _ => {}
            }
        }
        session
    }

    fn take_calls(&mut self, event: &Value) {
        for block in blocks(event, "tool_use") {
            let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let input = block.get("input").cloned().unwrap_or_else(Value::empty_object);
            self.ids.insert(text("id"), self.calls.len());
            self.calls.push(FinishedCall::new(text("name"), &input, &Value::NULL, false));
        }
    }

    fn take_results(&mut self, event: &Value) {
        for block in blocks(event, "tool_result") {
            let id = block.get("tool_use_id").and_then(Value::as_str);
            let Some(number) = id.and_then(|id| self.ids.get(id)) else { continue };
            let call = &mut self.calls[*number];
            let content = block.get("content").cloned().unwrap_or_default();
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            // A text, or parts of which some are text.
            let content = match content.as_list() {
                Some(parts) => parts.iter().filter_map(text).collect::<Vec<_>>().join("\n").into(),
                None => content,
            };
            call.result = shallow(&content);
            call.is_error = block.get("is_error").and_then(Value::as_bool) == Some(true);
        }
    }
}

/// The blocks of a sort in the message of a line.
fn blocks<'e>(event: &'e Value, kind: &str) -> impl Iterator<Item = &'e Value> {
    let content = event.get("message").and_then(|message| message.get("content"));
    let blocks = content.and_then(Value::as_list).unwrap_or_default().iter();
    blocks.filter(move |block| block.get("type").and_then(Value::as_str) == Some(kind))
}

/// The text of a line: what the model says in a turn.
fn text_of(line: &Value) -> Option<String> {
    let content =
        line.get("message").filter(|_| line.get("type").and_then(Value::as_str) == Some("assistant"));
    let blocks = content?.get("content")?.as_list()?.iter();
    let text: String = blocks.filter_map(|block| block.get("text")?.as_str()).collect();
    (!text.is_empty()).then(|| text + "\n")
}

impl Provider for ClaudeProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        process(&self.command(chat.session.as_deref()), chat, surroundings, false)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        let mut end = match process_end(result) {
            Ok(end) => end,
            Err(failure) => return Reply::failed(failure),
        };
        let printed = Printed::of(&mut end);
        let (output, stderr) = (printed.output(), printed.stderr());
        let mut meta = usage(&end);
        let failure = process_failure(&end.ending, reading.limits, reading.cut_short);
        let session = printed.stdout.as_deref().map(ClaudeSession::read).unwrap_or_default();
        meta.extend(session.model.map(|model| (names::MODEL_USED, Value::from(model))));
        let (called, timing) = (session.calls, Some(end.timing));
        let reply = Reply { called, printed: output, stderr, meta, timing, ..Reply::said(String::new()) };
        let Some(result) = session.result else {
            let why = "it printed no result: expected lines of `--output-format stream-json`";
            let failure = failure.unwrap_or_else(|| api::unreadable(why));
            return Reply { answer: Err(failure), ..reply };
        };
        let used = result.get("usage").cloned().unwrap_or_default();
        let read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        let read: Vec<u64> = read.iter().filter_map(|name| api::count(&used, name)).collect();
        let usage = TokenUsage {
            input_tokens: (!read.is_empty()).then(|| read.iter().sum()),
            output_tokens: api::count(&used, "output_tokens"),
            cost: result.get("total_cost_usd").and_then(Value::as_number).cloned(),
        };
        let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
        let thread = text("session_id");
        let subtype = text("subtype").unwrap_or_default();
        let is_error = result.get("is_error").and_then(Value::as_bool) == Some(true) || subtype != "success";
        let answer = text("result");
        let (answer, printed) = match (answer, is_error) {
            (Some(answer), false) => (Ok(answer.clone()), Some(Value::from(answer))),
            (answer, _) => {
                // What it says of itself says more than the code that it exits with then.
                let failure = failure.filter(|failure| failure.kind != FailureKind::ExitCode);
                let failure = failure.unwrap_or_else(|| {
                    Failure::new(FailureKind::Agent, why_failed(&subtype, answer.as_deref(), &result))
                });
                let said = Some(session.said).filter(|said| !said.is_empty());
                (Err(failure), said.map(Value::from))
            }
        };
        Reply { answer, printed, usage, thread, ..reply }
    }
}

/// Why a session failed, as its last line says.
fn why_failed(subtype: &str, answer: Option<&str>, result: &Value) -> String {
    let errors = result.get("errors").and_then(Value::as_list).unwrap_or_default();
    let errors: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
    match (subtype, answer.map(str::trim).filter(|answer| !answer.is_empty())) {
        ("error_max_turns", _) => "it took more than `max_turns` turns".to_owned(),
        (_, Some(answer)) => answer.to_owned(),
        _ if !errors.is_empty() => errors.join("; "),
        _ => format!("it ended with `{subtype}`"),
    }
}
