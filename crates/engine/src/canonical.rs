//! Resolved fields as one text: the same text for the same fields, in every version of the program.
//!
//! The journal keeps a hash of it with every attempt, so that a later program can tell whether it resolves the same.
//! What only helps people, such as warnings, is not part of it. Nobody reads it back.

use std::fmt::Write as _;

use threadline_flow::fields::ProviderName;
use threadline_flow::model::{Action, Backoff, CaptureFormat, Filter, ForEach, SortKey, SourceFormat};
use threadline_flow::plan::{Plan, PlannedStep, StepNumber};
use threadline_flow::shell::Delivery;
use threadline_lang::Origin;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use crate::agent::tools::ToolOffer;
use crate::agent::{ResolvedAgent, ResolvedSetting};
use crate::evaluate::{Act, Resolved, ResolvedAssertion, ResolvedReach, ResolvedServer, RetryPlan};
use crate::hash::Hash;
use crate::select::{Expansion, ResolvedSource};

/// Settings of an agent that change nothing of what it is asked.
const ASIDE: [&str; 4] = ["price", "timeout", "max_parallel", "requests_per_minute"];

/// The hashes that the journal keeps of the fields of an attempt.
pub(crate) struct FieldHashes {
    /// Of everything that they came to.
    pub(crate) fields: Hash,
    /// Of all that the result depends on.
    pub(crate) work: Hash,
}

impl Resolved {
    /// A hash of everything that the fields came to, so that a later program can tell whether it sees the same.
    pub fn fingerprint(&self) -> Hash {
        Hash::of(self.canonical(self.what_is_done()).as_bytes())
    }

    /// A hash of all that the result of a step depends on, so that a run that continues another one can tell
    /// whether that one did the same. How long it may take and how often it is tried is not part of it: what
    /// ended well was within its limits.
    pub fn work(&self, plan: &Plan, number: StepNumber) -> Hash {
        self.work_in(plan, number, self.what_is_done())
    }

    /// Both hashes: they begin with the same text, which is made once.
    pub(crate) fn hashes(&self, plan: &Plan, number: StepNumber) -> FieldHashes {
        let done = self.what_is_done();
        let fields = Hash::of(self.canonical(Canonical(done.0.clone())).as_bytes());
        FieldHashes { fields, work: self.work_in(plan, number, done) }
    }

    /// What both hashes begin with.
    fn what_is_done(&self) -> Canonical {
        let mut text = Canonical(String::with_capacity(256));
        text.act(&self.act);
        text.variables(&self.env);
        text.optional("cwd", self.cwd.as_deref());
        text
    }

    fn work_in(&self, plan: &Plan, number: StepNumber, mut text: Canonical) -> Hash {
        // What is done stands in the text already.
        let Self { act, env: _, cwd: _, timeout: _, idle_timeout: _, max_output: _, retry: _, expect } = self;
        let planned: &PlannedStep = &plan.steps[number as usize];
        let step = &planned.step;
        for (operator, value) in expect.iter().flat_map(|expect| expect.expectations.values()) {
            text.text("expect", operator);
            text.value("=", value);
        }
        // An expectation is more than the values in it.
        text.source("expect", plan, step.expect.as_ref().map(|expect| &expect.origin));
        text.text("format", format_name(step.format));
        text.optional("program", step.shell_program.as_ref().map(|program| program.value.as_str()));
        text.number("strict", u128::from(step.strict_shell));
        text.number("judged", u128::from(step.expects_exit_code()));
        text.optional("tool", step.tool.as_ref().map(|tool| tool.value.as_str()));
        if let (Act::Agent { agent, .. }, Action::Agent { .. }) = (act, &step.action) {
            let model = plan.workflow.agent(&agent.name).and_then(|agent| agent.model.as_ref());
            text.optional("model", model.map(ecow::EcoString::as_str));
            if let Action::Agent { answer: Some(answer), .. } = &step.action {
                text.value("answer", &answer.schema);
            }
        }
        for called in plan.callees_of(planned) {
            text.text("called", called.workflow.file.own_text());
            for (name, file) in called.other_files() {
                text.text(&name, file.own_text());
            }
        }
        Hash::of(text.0.as_bytes())
    }

    /// The hash of what a judge is asked.
    pub(crate) fn question(&self, verdicts: &[ecow::EcoString], min_confidence: &str) -> Hash {
        let mut text = self.what_is_done();
        for verdict in verdicts {
            text.text("verdict", verdict);
        }
        text.text("confidence", min_confidence);
        Hash::of(text.0.as_bytes())
    }

    /// Every field, each text with its length before it.
    fn canonical(&self, mut text: Canonical) -> String {
        // A field that is added to it does not compile before it stands here, or in `what_is_done`.
        let Self { act: _, env: _, cwd: _, timeout, idle_timeout, max_output, retry, expect } = self;
        let RetryPlan { attempts, backoff, delay, max_delay, jitter } = retry;
        text.number("timeout", timeout.map_or(0, |timeout| timeout.as_millis()));
        if let Some(idle) = idle_timeout {
            text.number("idle_timeout", idle.as_millis());
        }
        text.number("max_output", u128::from(*max_output));
        text.number("attempts", u128::from(*attempts));
        text.text(
            "backoff",
            match backoff {
                Backoff::Fixed => "fixed",
                Backoff::Linear => "linear",
                Backoff::Exponential => "exponential",
            },
        );
        text.number("delay", delay.as_millis());
        text.number("max_delay", max_delay.as_millis());
        text.number("jitter", u128::from(*jitter));
        for (operator, value) in expect.iter().flat_map(|expect| expect.expectations.values()) {
            text.text("expect", operator);
            text.value("=", value);
        }
        text.0
    }
}

impl Expansion {
    /// A hash of where items come from and which of them are taken, so that a run that continues another one
    /// can tell whether that one took the same. How many run at once and what becomes of failures is not part
    /// of it.
    pub fn source(&self, plan: &Plan, each: &ForEach) -> Hash {
        let Self { source, offset, max_items, .. } = self;
        let ForEach { json_path, filter, sort_by, distinct, is_map, .. } = each;
        let mut text = Canonical(String::new());
        match source {
            ResolvedSource::List(value) => text.value("list", value),
            ResolvedSource::File { path, format } => {
                text.text("file", path);
                text.text("format", source_format_name(*format));
            }
            ResolvedSource::Files(pattern) => text.text("files", pattern),
            ResolvedSource::Shell { bound, env, format } => {
                text.script(bound);
                text.variables(env);
                text.text("format", source_format_name(*format));
            }
        }
        text.optional("json_path", json_path.as_ref().map(|path| path.value.as_str()));
        let filter = filter.as_ref().map(|filter| match filter {
            Filter::Condition(condition) => &condition.origin,
            Filter::Expectation(expectation) => &expectation.origin,
        });
        text.source("filter", plan, filter);
        for SortKey { by, descending, nulls_first } in sort_by {
            text.source("sort", plan, Some(&by.origin));
            text.number("descending", u128::from(*descending));
            text.number("nulls_first", nulls_first.map_or(2, u128::from));
        }
        text.source("distinct", plan, distinct.as_ref().map(|distinct| &distinct.origin));
        text.number("offset", u128::from(*offset));
        text.number("max_items", max_items.map_or(u128::MAX, u128::from));
        text.number("map", u128::from(*is_map));
        Hash::of(text.0.as_bytes())
    }
}

fn format_name(format: CaptureFormat) -> &'static str {
    match format {
        CaptureFormat::Text => "text",
        CaptureFormat::Json => "json",
        CaptureFormat::Lines => "lines",
        CaptureFormat::Number => "number",
        CaptureFormat::Boolean => "boolean",
    }
}

fn source_format_name(format: Option<SourceFormat>) -> &'static str {
    match format {
        None => "",
        Some(SourceFormat::Json) => "json",
        Some(SourceFormat::JsonLines) => "jsonl",
        Some(SourceFormat::Lines) => "lines",
        Some(SourceFormat::Csv) => "csv",
    }
}

struct Canonical(String);

impl Canonical {
    fn variables(&mut self, env: &[(ecow::EcoString, Option<String>)]) {
        for (name, value) in env {
            self.text("env", name);
            self.optional("=", value.as_deref());
        }
    }

    /// What stands at a place of the file.
    fn source(&mut self, name: &str, plan: &Plan, origin: Option<&Origin>) {
        let text = plan.workflow.file.text();
        self.optional(name, origin.and_then(|origin| text.get(origin.span.range())));
    }

    fn script(&mut self, bound: &threadline_flow::shell::BoundScript) {
        self.text("shell", &bound.text);
        for variable in &bound.variables {
            let delivery = match variable.delivery {
                Delivery::Environment | Delivery::File => "value",
                Delivery::Path => "path",
            };
            self.text(&variable.name, &variable.value);
            self.text("travel", delivery);
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Shell { bound } => self.script(bound),
            Act::Verbatim { text } => self.text("verbatim", text),
            Act::Argv(arguments) => {
                for argument in arguments {
                    self.text(if argument.is_file { "file" } else { "argument" }, &argument.value);
                }
            }
            Act::Agent { agent, message, thread } => {
                self.agent(agent);
                self.text("message", message);
                if let Some(thread) = thread {
                    self.text("thread", &thread.name);
                    self.value("before", &thread.before.value());
                }
            }
            Act::Http(request) => {
                self.text("http", request.method);
                self.text("url", &request.url);
                for (name, value) in &request.headers {
                    self.text(name, value);
                }
                self.optional("body", request.body.as_deref());
            }
            Act::Tool(call) => {
                self.text("tool", &call.tool);
                self.server(&call.server);
                self.value("params", &call.params);
            }
            Act::WriteFile { path, content, mode, create_dirs } => {
                self.text("path", path);
                self.text("content", content);
                self.number("mode", mode.map_or(u128::MAX, u128::from));
                self.number("create_dirs", u128::from(*create_dirs));
            }
            Act::Workflow(call) => {
                self.text("workflow", &call.file);
                self.value("with", &call.with);
            }
            Act::Value(value) => self.value("value", value),
            Act::Assert(assertion) => {
                let ResolvedAssertion { kind, document, facts, latency, expect, .. } = &**assertion;
                let ResolvedAssertion { rulings, quorum, keeps_open, .. } = &**assertion;
                self.text("assert", kind.with_article());
                self.value("document", document);
                self.value("facts", facts);
                if !latency.is_null() {
                    self.value("latency", latency);
                }
                for (operator, value) in expect.expectations.values() {
                    self.text("expect", operator);
                    self.value("value", value);
                }
                self.value("rulings", rulings);
                self.number("quorum", quorum.map_or(0, u128::from));
                self.number("open", u128::from(*keeps_open));
            }
            Act::Fail(message) => self.text("fail", message),
            Act::Wait(duration) => self.number("wait", duration.as_millis()),
            Act::Made { value, meta } => {
                self.value("made", value);
                for (name, value) in meta {
                    self.value(name, value);
                }
            }
        }
    }

    fn agent(&mut self, agent: &ResolvedAgent) {
        let ResolvedAgent { name, provider, settings, hosts: _, tools } = agent;
        self.text("agent", name);
        // A program is known by its arguments.
        if provider.name != ProviderName::Command {
            self.text("provider", provider.word.name);
        }
        // What an answer costs and when it is asked for changes nothing of it.
        for (key, setting) in settings.iter().filter(|(key, _)| !ASIDE.contains(key)) {
            match setting {
                ResolvedSetting::Program(words) => words.iter().for_each(|word| self.text("argument", word)),
                ResolvedSetting::Text(text) => self.text(key, text),
                ResolvedSetting::Value(value) => self.value(key, value),
            }
        }
        for tool in tools {
            match tool {
                ToolOffer::Server { server, allow, deny } => {
                    self.server(server);
                    for name in allow {
                        self.text("allow", name);
                    }
                    for name in deny {
                        self.text("deny", name);
                    }
                }
                ToolOffer::BuiltIn { tool, hosts: _ } => self.text("built_in", tool.name()),
                ToolOffer::Workflow { name, description, workflow } => {
                    self.text("workflow", workflow.0.file.name());
                    self.text("name", name);
                    self.optional("description", description.as_deref());
                }
            }
        }
    }

    fn server(&mut self, server: &ResolvedServer) {
        self.text("server", &server.name);
        match &server.reach {
            ResolvedReach::Program { command, env, cwd } => {
                for word in command {
                    self.text("argument", word);
                }
                self.variables(env);
                self.optional("cwd", cwd.as_deref());
            }
            ResolvedReach::Url { url, headers, hosts: _ } => {
                self.text("url", url);
                for (name, value) in headers {
                    self.text(name, value);
                }
            }
        }
    }

    fn value(&mut self, name: &str, value: &Value) {
        self.text(name, &value.to_json(JsonStyle::Compact));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.0.push_str(name);
        self.0.push(' ');
        self.digits(text.len() as u128);
        self.0.push(' ');
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn optional(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.text(name, "\0"),
        }
    }

    fn number(&mut self, name: &str, number: u128) {
        self.0.push_str(name);
        self.0.push(' ');
        self.digits(number);
        self.0.push('\n');
    }

    /// Every attempt makes this text, and most of its numbers have one digit.
    fn digits(&mut self, number: u128) {
        match u8::try_from(number) {
            Ok(digit) if digit < 10 => self.0.push(char::from(b'0' + digit)),
            // Writing into a text cannot fail.
            _ => drop(write!(self.0, "{number}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use threadline_flow::fields::PROVIDERS;
    use threadline_flow::shell::Argument;

    use super::*;
    use crate::evaluate::{HostPolicy, Request, ResolvedToolCall};

    fn argv(words: &[&str], env: &[(&str, Option<&str>)]) -> Resolved {
        let argument =
            |(entry, word): (usize, &&str)| Argument { entry, value: (*word).to_owned(), is_file: false };
        Resolved {
            env: env.iter().map(|(name, value)| ((*name).into(), value.map(str::to_owned))).collect(),
            ..Resolved::plain(Act::Argv(words.iter().enumerate().map(argument).collect()))
        }
    }

    fn agent(provider: ProviderName, settings: &[(&'static str, ResolvedSetting)]) -> Resolved {
        let provider = PROVIDERS.iter().find(|known| known.name == provider).unwrap();
        let (settings, hosts) = (settings.to_vec(), HostPolicy::default());
        let agent = ResolvedAgent { name: "a".into(), provider, settings, hosts, tools: Vec::new() };
        Resolved::plain(Act::Agent { agent, message: "m".to_owned(), thread: None })
    }

    #[test]
    fn a_program_that_is_an_agent_is_known_by_its_arguments() {
        let command = ResolvedSetting::Program(vec!["sh".to_owned(), "x y".to_owned()]);
        let canonical = agent(ProviderName::Command, &[("command", command)]).what_is_done().0;
        assert!(
            canonical.starts_with("agent 1 a\nargument 2 sh\nargument 3 x y\nmessage 1 m\n"),
            "{canonical}"
        );
    }

    fn http(headers: &[(&str, &str)], body: Option<&str>) -> Resolved {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())).collect();
        let (url, body) = ("http://a".to_owned(), body.map(str::to_owned));
        Resolved {
            act: Act::Http(Request { method: "GET", url, headers, body, hosts: HostPolicy::default() }),
            ..argv(&[], &[])
        }
    }

    fn tool(reach: ResolvedReach) -> Resolved {
        let server = ResolvedServer { name: "s".into(), reach };
        let call = ResolvedToolCall { server, tool: "t".into(), params: Value::NULL };
        Resolved { act: Act::Tool(call), ..argv(&[], &[]) }
    }

    #[test]
    fn other_fields_have_another_fingerprint() {
        let all = [
            argv(&["a", "b"], &[]),
            argv(&["a b"], &[]),
            argv(&["a", "", "b"], &[]),
            argv(&["a\nargument 1 b"], &[]),
            argv(&["a", "b"], &[("X", None)]),
            argv(&["a", "b"], &[("X", Some(""))]),
            argv(&["a", "b"], &[("X", Some("="))]),
            Resolved { cwd: Some(String::new()), ..argv(&["a", "b"], &[]) },
            Resolved { max_output: 1, ..argv(&["a", "b"], &[]) },
            agent(ProviderName::Command, &[("command", ResolvedSetting::Program(vec!["x".to_owned()]))]),
            agent(ProviderName::Replay, &[("file", ResolvedSetting::Text("x".to_owned()))]),
            agent(ProviderName::Replay, &[("file", ResolvedSetting::Value("x".into()))]),
            agent(ProviderName::Replay, &[("fil", ResolvedSetting::Text("x".to_owned()))]),
            http(&[], None),
            http(&[], Some("")),
            http(&[("body", "a")], None),
            http(&[], Some("a")),
            tool(ResolvedReach::Url {
                url: "http://a".to_owned(),
                headers: Vec::new(),
                hosts: HostPolicy::default(),
            }),
            tool(ResolvedReach::Url {
                url: "http://a".to_owned(),
                headers: vec![("a".into(), String::new())],
                hosts: HostPolicy::default(),
            }),
            tool(ResolvedReach::Program { command: vec!["a".to_owned()], env: Vec::new(), cwd: None }),
            tool(ResolvedReach::Program {
                command: vec!["a".to_owned()],
                env: Vec::new(),
                cwd: Some(String::new()),
            }),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.fingerprint(), one.clone().fingerprint());
            for other in &all[at + 1..] {
                assert_ne!(one.fingerprint(), other.fingerprint(), "{one:?} and {other:?}");
            }
        }
    }
}
