//! Claude Code, asked without a terminal: a program that reads the message from its standard input and prints what
//! happens as lines of JSON. The last of them has the answer, what it cost, and the id of the session.

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::{Limits, Value, data};

use super::chat::{Chat, TokenUsage};
use super::command::{process, process_end};
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent, api};
use crate::execute::effect::{Effect, EffectResult};
use crate::execute::result::{Printed, process_failure, usage};

/// The program, where the agent names none.
const PROGRAM: &str = "claude";

pub(super) struct ClaudeProvider {
    agent: ResolvedAgent,
}

impl ClaudeProvider {
    pub(super) fn new(agent: ResolvedAgent) -> Self {
        Self { agent }
    }

    /// The words of the command.
    fn command(&self) -> Vec<String> {
        let mut words = match self.agent.program("program") {
            Some(program) => program.to_vec(),
            None => vec![PROGRAM.to_owned()],
        };
        words.extend(["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned));
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
                Some("result") => session.result = Some(event),
                _ => {}
            }
        }
        session
    }
}

impl Provider for ClaudeProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        process(&self.command(), chat, surroundings)
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
        let reply =
            Reply { printed: output, stderr, meta, timing: Some(end.timing), ..Reply::said(String::new()) };
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
                let why = match subtype.as_str() {
                    "error_max_turns" => "it took more than `max_turns` turns".to_owned(),
                    _ => answer.map_or_else(
                        || format!("it ended with `{subtype}`"),
                        |answer| answer.trim().to_owned(),
                    ),
                };
                (Err(failure.unwrap_or_else(|| Failure::new(FailureKind::Agent, why))), reply.printed.clone())
            }
        };
        Reply { answer, printed, usage, thread, ..reply }
    }
}
