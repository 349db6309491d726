//! The one walk over the fields of a step.
//!
//! [`step_fields`] lists every field of a step that is evaluated: with its name, with how it is evaluated, and with the
//! moment of that. The checks look up the names that these fields read, a run resolves them, `preview` and `explain` show
//! them. Every struct of the model is taken apart without `..`, so a key that is added to the model does not compile
//! before it stands here.

use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_expect::{DocumentKind, Expectations};
use threadline_lang::{Document, Expression, Number, Origin, Template};

use super::{
    Action, Agent, AgentSetting, Assertion, Call, Compared, Condition, Contains, Convergence, Evaluate,
    Evaluator, Field, FileFormat, Filter, ForEach, Given, Http, Judge, Loop, Phase, Policy, Reach, Retry,
    Routes, Server, Setting, SettingTemplate, Shape, SortKey, Source, State, Step, ToolCall, Trigger,
    Variable, Workflow, WriteFile,
};
use crate::fields::BASE_URL;
use crate::plan::PAYLOAD;

/// A field of a step.
#[derive(Clone)]
pub struct StepField<'f> {
    /// Its key in the table of keys: `timeout`, `env`, `headers`.
    pub key: &'static str,
    /// Its name inside the step: `timeout`, `env.PATH`, `http.headers.accept`.
    pub name: EcoString,
    /// What is written there and how it is evaluated.
    pub kind: FieldKind<'f>,
    /// When it is evaluated.
    pub moment: Moment,
    /// Whose field it is.
    pub owner: FieldOwner<'f>,
}

/// What a field of a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOwner<'f> {
    /// The step itself.
    Step,
    /// The workflow, which gives it to every step.
    Workflow,
    /// The agent that the step or its judge asks.
    Agent,
    /// The server of this name, whose tools the step or its agent calls.
    Server(&'f str),
}

/// When a field of a step is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before everything else: the `param` of a state.
    Params,
    /// Before the step is started or skipped.
    Condition,
    /// Before the items of the step are read.
    List,
    /// For each item that is read, before it is taken.
    Selection,
    /// Before each attempt of the step.
    Attempt,
    /// When the steps inside of the step are over.
    End,
    /// While the state is judged.
    Judgement,
    /// While the next state is chosen: the verdict is known.
    Routes,
}

/// What is written in a field and how it is evaluated.
#[derive(Clone, Copy)]
pub enum FieldKind<'f> {
    /// A fixed name: it is shown and not evaluated.
    Name(&'f Field<EcoString>),
    /// One of several words that the table of keys knows, and where it is written.
    Word(&'static str, &'f Origin),
    /// Text with references.
    Text(&'f Field<Template>),
    /// A variable of the environment.
    Variable(&'f Variable),
    /// The program of an agent or a server with its arguments.
    Command(&'f [Field<Template>]),
    /// A program with its arguments.
    Argv(&'f [Field<Template>]),
    /// Text for a shell. Without `interpolate` it is used as it is.
    Script {
        /// The text of the script.
        text: &'f Field<EcoString>,
        /// Whether references in it are bound.
        interpolate: bool,
    },
    /// A URL, in which values are encoded.
    Url(&'f Field<Template>),
    /// A line of the head of a request.
    Header {
        /// Its name in lower case.
        name: &'f EcoString,
        /// The text behind the name.
        value: &'f Field<Template>,
    },
    /// A value of any type.
    Value(&'f Field<Document>),
    /// An object of names and values for the query of a URL.
    Query(&'f Field<Document>),
    /// An object of parameters for a tool.
    Params(&'f Field<Document>),
    /// A value for an input of a called workflow.
    Given(&'f Given),
    /// The content of a file.
    Content(&'f Field<Document>, FileFormat),
    /// The items of a list, or the path of a file for a map.
    Items(&'f Field<Document>, &'f ForEach),
    /// A whole number from this one on.
    Count(&'f Setting<u64>, u64),
    /// A size in bytes.
    Size(&'f Setting<u64>),
    /// A duration above 0.
    TimeLimit(&'f Setting<Duration>),
    /// A length of time that may be 0.
    Pause(&'f Setting<Duration>),
    /// A part of a whole.
    Fraction(&'f Setting<Number>),
    /// An expression that gives true or false.
    Condition(&'f Field<Arc<Expression>>),
    /// The condition that decides between branches.
    Branch(&'f Condition),
    /// An expression of any type.
    Expression(&'f Field<Arc<Expression>>),
    /// An expression that items are sorted by.
    SortKey(&'f SortKey),
    /// Expectations about a document of this kind.
    Expectations(&'f Field<Arc<Expectations>>, DocumentKind),
}

impl<'f> FieldKind<'f> {
    /// Where the field stands; `None` for a setting that is left out and for a variable that is taken away.
    pub fn origin(self) -> Option<&'f Origin> {
        fn of_setting<T>(setting: &Setting<T>) -> Option<&Origin> {
            match setting {
                Setting::Default(_) => None,
                Setting::Fixed(field) => Some(&field.origin),
                Setting::Dynamic(field) => Some(&field.origin),
            }
        }
        match self {
            Self::Name(field) | Self::Script { text: field, .. } => Some(&field.origin),
            Self::Text(field) | Self::Url(field) | Self::Header { value: field, .. } => Some(&field.origin),
            Self::Variable(variable) => variable.value.as_ref().map(|field| &field.origin),
            Self::Command(words) | Self::Argv(words) => words.first().map(|word| &word.origin),
            Self::Value(field)
            | Self::Query(field)
            | Self::Params(field)
            | Self::Content(field, _)
            | Self::Items(field, _) => Some(&field.origin),
            Self::Given(given) => Some(&given.value.origin),
            Self::Count(setting, _) | Self::Size(setting) => of_setting(setting),
            Self::TimeLimit(setting) | Self::Pause(setting) => of_setting(setting),
            Self::Fraction(setting) => of_setting(setting),
            Self::Condition(field) | Self::Expression(field) => Some(&field.origin),
            Self::Branch(condition) => Some(&condition.expression.origin),
            Self::SortKey(key) => Some(&key.by.origin),
            Self::Word(_, origin) => Some(origin),
            Self::Expectations(field, _) => Some(&field.origin),
        }
    }
}

/// Every field of a step that is evaluated, in the order of evaluation.
pub fn step_fields<'f>(workflow: &'f Workflow, step: &'f Step) -> Vec<StepField<'f>> {
    let Step {
        id: _,
        name: _,
        origin: _,
        action,
        tool,
        when,
        capture: _,
        format: _,
        timeout,
        idle_timeout,
        retry,
        budget: _,
        on_crash: _,
        labels: _,
        on_failure: _,
        on_success: _,
        finally: _,
        continue_on_error: _,
        env,
        cwd,
        shell_program: _,
        strict_shell: _,
        trust: _,
        max_output,
        secret_output: _,
        expect,
        needs: _,
        state,
    } = step;
    let mut walk = Walk { workflow, fields: Vec::new(), moment: Moment::Params, of_tool: tool.is_some() };
    if let Some(state) = state {
        walk.params(state);
    }
    walk.moment = Moment::Condition;
    walk.each("when", when.iter().map(FieldKind::Condition));
    if let Action::ForEach(each) = action {
        walk.list(each);
    }
    walk.moment = Moment::Attempt;
    walk.each("cwd", cwd.iter().map(FieldKind::Text));
    walk.variables(&workflow.env, FieldOwner::Workflow);
    walk.variables(env, FieldOwner::Step);
    walk.each("timeout", timeout.iter().map(FieldKind::TimeLimit));
    walk.each("idle_timeout", idle_timeout.iter().map(FieldKind::TimeLimit));
    walk.each("max_output", max_output.iter().map(FieldKind::Size));
    if let Some(retry) = retry {
        walk.retry(retry);
    }
    walk.action(action);
    walk.moment = if matches!(action, Action::ForEach(_)) { Moment::End } else { Moment::Attempt };
    walk.each("expect", expect.iter().map(|expect| FieldKind::Expectations(expect, DocumentKind::Step)));
    if let Some(state) = state {
        walk.state(state);
    }
    walk.fields
}

/// The limits of a run, which are evaluated when it begins: its time, and those of a loop.
pub fn limit_fields(workflow: &Workflow) -> Vec<StepField<'_>> {
    let field = |key: &'static str, kind| StepField {
        key,
        name: key.into(),
        kind,
        moment: Moment::Params,
        owner: FieldOwner::Workflow,
    };
    let timeout = workflow.timeout.iter().map(|timeout| field("timeout", FieldKind::TimeLimit(timeout)));
    let Shape::Loop(of) = &workflow.shape else { return timeout.collect() };
    let Loop { initial: _, max_steps, max_iterations, max_edge_revisits, max_stall, backoff, maintain: _ } =
        &**of;
    let counts = [
        ("max_iterations", max_iterations, 1),
        ("max_steps", max_steps, 1),
        ("max_edge_revisits", max_edge_revisits, 0),
        ("max_stall", max_stall, 2),
    ];
    let counts = counts
        .into_iter()
        .filter_map(|(name, count, least)| Some(field(name, FieldKind::Count(count.as_ref()?, least))));
    let backoff = backoff.iter().map(|backoff| field("backoff", FieldKind::Pause(backoff)));
    counts.chain(timeout).chain(backoff).collect()
}

/// The fields of a server.
pub fn server_fields(server: &Server) -> Vec<StepField<'_>> {
    let Server { name: server, span: _, reach, results: _ } = server;
    let field = |key: &'static str, name: EcoString, kind| StepField {
        key,
        name,
        kind,
        moment: Moment::Attempt,
        owner: FieldOwner::Server(server),
    };
    match reach {
        Reach::Program { command, env, cwd } => {
            let command = [field("server.command", "server.command".into(), FieldKind::Command(command))];
            let env = env.iter().map(|variable| {
                let name = eco_format!("server.env.{}", variable.name);
                field("server.env", name, FieldKind::Variable(variable))
            });
            let cwd = cwd.iter().map(|cwd| field("server.cwd", "server.cwd".into(), FieldKind::Text(cwd)));
            command.into_iter().chain(env).chain(cwd).collect()
        }
        Reach::Url { url, headers } => {
            let url = [field("server.url", "server.url".into(), FieldKind::Url(url))];
            let headers = headers.iter().map(|(name, value)| {
                let kind = FieldKind::Header { name, value };
                field("server.headers", eco_format!("server.headers.{name}"), kind)
            });
            url.into_iter().chain(headers).collect()
        }
    }
}

/// The settings of an agent.
pub fn agent_fields(agent: &Agent) -> Vec<StepField<'_>> {
    let Agent { name: _, provider: _, settings, model: _, tools: _, cache: _, labels: _, span: _ } = agent;
    let fields = settings.iter().map(|AgentSetting { key, value }| {
        let kind = match value {
            SettingTemplate::Program(words) => FieldKind::Command(words),
            SettingTemplate::Text(url) if *key == BASE_URL => FieldKind::Url(url),
            SettingTemplate::Text(text) => FieldKind::Text(text),
            SettingTemplate::Value(value) => FieldKind::Value(value),
        };
        StepField { key, name: (*key).into(), kind, moment: Moment::Attempt, owner: FieldOwner::Agent }
    });
    fields.collect()
}

/// The key of the source of a list, which has another name in a `foreach` and in a map.
pub const SOURCE: &str = "source";

struct Walk<'f> {
    workflow: &'f Workflow,
    fields: Vec<StepField<'f>>,
    moment: Moment,
    /// Whether the step names a built-in tool: then its fields stand in `params`.
    of_tool: bool,
}

impl<'f> Walk<'f> {
    fn add(&mut self, key: &'static str, kind: FieldKind<'f>) {
        self.add_as(key, key, kind);
    }

    /// Adds a field whose name is not its key alone.
    fn add_as(&mut self, key: &'static str, name: impl Into<EcoString>, kind: FieldKind<'f>) {
        self.fields.push(StepField {
            key,
            name: name.into(),
            kind,
            moment: self.moment,
            owner: FieldOwner::Step,
        });
    }

    fn each(&mut self, key: &'static str, kinds: impl IntoIterator<Item = FieldKind<'f>>) {
        kinds.into_iter().for_each(|kind| self.add(key, kind));
    }

    fn shared(&mut self, fields: Vec<StepField<'f>>) {
        let moment = self.moment;
        self.fields.extend(fields.into_iter().map(|field| StepField { moment, ..field }));
    }

    fn variables(&mut self, variables: &'f [Variable], owner: FieldOwner<'f>) {
        for variable in variables {
            let Variable { name, span: _, value: _ } = variable;
            let (name, kind) = (eco_format!("env.{name}"), FieldKind::Variable(variable));
            self.fields.push(StepField { key: "env", name, kind, moment: self.moment, owner });
        }
    }

    fn retry(&mut self, retry: &'f Retry) {
        let Retry { attempts, backoff: _, delay, max_delay, jitter: _, conditions: _, fix: _ } = retry;
        self.add("retry.attempts", FieldKind::Count(attempts, 1));
        self.add("retry.delay", FieldKind::Pause(delay));
        self.add("retry.max_delay", FieldKind::Pause(max_delay));
    }

    fn params(&mut self, state: &'f State) {
        for (name, value) in &state.params {
            self.add_as("param", eco_format!("param.{name}"), FieldKind::Value(value));
        }
    }

    /// The fields that choose the items, and what holds for all of them.
    fn list(&mut self, each: &'f ForEach) {
        let ForEach {
            source,
            json_path: _,
            filter,
            named: _,
            sort_by,
            distinct,
            offset,
            max_items,
            parallel,
            steps: _,
            policy,
            worktree: _,
            pool: _,
            is_map,
        } = each;
        self.moment = Moment::List;
        let key = if *is_map { "input" } else { "foreach" };
        match source {
            Source::Value(items) => self.add_as(SOURCE, key, FieldKind::Items(items, each)),
            Source::File { path: text, format: _ } | Source::Files(text) => {
                self.add_as(SOURCE, key, FieldKind::Text(text));
            }
            Source::Shell { text, format: _ } => {
                self.add_as(SOURCE, key, FieldKind::Script { text, interpolate: true });
                self.variables(&self.workflow.env, FieldOwner::Workflow);
            }
        }
        let key = if *is_map { "max_parallel" } else { "parallel" };
        let counts = parallel.iter().map(|count| FieldKind::Count(count, 1));
        counts.for_each(|count| self.add_as("parallel", key, count));
        self.each("max_items", max_items.iter().map(|count| FieldKind::Count(count, 0)));
        self.each("offset", offset.iter().map(|count| FieldKind::Count(count, 0)));
        self.policy(policy);
        self.moment = Moment::Selection;
        match filter {
            Some(Filter::Condition(condition)) => self.add("filter", FieldKind::Condition(condition)),
            Some(Filter::Expectation(expectations)) => {
                self.add("filter", FieldKind::Expectations(expectations, DocumentKind::Plain));
            }
            None => {}
        }
        for key in sort_by {
            let SortKey { by: _, descending: _, nulls_first: _ } = key;
            self.add("sort_by", FieldKind::SortKey(key));
        }
        self.each("distinct", distinct.iter().map(FieldKind::Expression));
    }

    fn policy(&mut self, policy: &'f Policy) {
        let Policy {
            retry,
            timeout,
            on_item_failure: _,
            continue_on_failure: _,
            max_failures,
            failure_threshold,
        } = policy;
        if let Some(retry) = retry {
            self.retry(retry);
        }
        self.each("timeout", timeout.iter().map(FieldKind::TimeLimit));
        let counts = max_failures.iter().map(|count| FieldKind::Count(count, 0));
        self.each("error_policy.max_failures", counts);
        self.each("error_policy.failure_threshold", failure_threshold.iter().map(FieldKind::Fraction));
    }

    fn action(&mut self, action: &'f Action) {
        match action {
            Action::Shell { text, interpolate } => {
                let name = Self::written(&text.origin, if self.of_tool { "params.command" } else { "shell" });
                self.add_as("shell", name, FieldKind::Script { text, interpolate: *interpolate });
            }
            Action::Argv(words) => {
                let name = if self.of_tool { "params.argv" } else { "argv" };
                self.add_as("argv", name, FieldKind::Argv(words));
            }
            Action::Agent { agent, message, answer: _, thread, cache: _ } => {
                self.add_as("message", Self::written(&message.origin, "message"), FieldKind::Text(message));
                if let Some(thread) = thread {
                    self.add("thread", FieldKind::Text(thread));
                }
                self.agent(&agent.value);
                for server in self.workflow.servers_of_agent(&agent.value) {
                    self.shared(server_fields(server));
                }
            }
            Action::Http(http) => self.http(http),
            Action::Tool(ToolCall { server, tool: _, name, params }) => {
                self.add_as("tool", Self::written(&name.origin, "tool"), FieldKind::Name(name));
                let known = self.workflow.servers.iter().find(|known| known.name == *server);
                self.shared(known.map(server_fields).unwrap_or_default());
                self.each("params", params.iter().map(FieldKind::Params));
            }
            Action::WriteFile(file) => {
                let WriteFile { path, content, format, mode: _, create_dirs: _ } = file;
                let base = if self.of_tool { "params" } else { "write_file" };
                self.add_as("path", eco_format!("{base}.path"), FieldKind::Text(path));
                self.add_as("content", eco_format!("{base}.content"), FieldKind::Content(content, *format));
            }
            Action::Value(value) => self.add("value", FieldKind::Value(value)),
            Action::Assert(assertion) => {
                let Assertion { kind, document, facts, latency, expect, rulings, quorum: _, keeps_open: _ } =
                    &**assertion;
                let name = if *kind == DocumentKind::Answer { "assert.answer" } else { "assert.value" };
                self.add_as("assert", name, FieldKind::Value(document));
                self.each("assert.facts", facts.iter().map(FieldKind::Value));
                self.each("assert.latency", latency.iter().map(FieldKind::Value));
                self.each("assert.rulings", rulings.iter().map(FieldKind::Value));
                self.add("assert.expect", FieldKind::Expectations(expect, *kind));
            }
            Action::Fail(message) => self.add("fail", FieldKind::Text(message)),
            Action::Wait(duration) => self.add("wait", FieldKind::Pause(duration)),
            Action::Workflow(Call { path, with }) => {
                self.add("workflow", FieldKind::Name(path));
                for given in with {
                    let Given { name, span: _, value: _ } = given;
                    self.add_as("with", eco_format!("with.{name}"), FieldKind::Given(given));
                }
            }
            Action::Condition(condition) => self.add("condition", FieldKind::Branch(condition)),
            Action::Phase(phase) => self.phase(phase),
            Action::ForEach(each) => self.aggregates(each),
            // Its filters compare the payload with what the file fixes, and read no name.
            Action::Trigger(Trigger { kind: _, enabled: _, filters: _, config: _, payload }) => {
                self.add(PAYLOAD, FieldKind::Expression(payload));
            }
            Action::Nothing => {}
        }
    }

    /// The name of a field in the short form of a state, where every action is an `action`.
    fn written(origin: &Origin, name: &'static str) -> &'static str {
        if origin.path.ends_with(".action") { "action" } else { name }
    }

    fn agent(&mut self, name: &str) {
        self.shared(self.workflow.agent(name).map(agent_fields).unwrap_or_default());
    }

    fn http(&mut self, http: &'f Http) {
        let Http { method: _, url, headers, query, body } = http;
        let base = if self.of_tool { "params" } else { "http" };
        self.add_as("url", eco_format!("{base}.url"), FieldKind::Url(url));
        if let Some(query) = query {
            self.add_as("query", eco_format!("{base}.query"), FieldKind::Query(query));
        }
        for (name, value) in headers {
            let kind = FieldKind::Header { name, value };
            self.add_as("headers", eco_format!("{base}.headers.{name}"), kind);
        }
        if let Some(body) = body {
            self.add_as("body", eco_format!("{base}.body"), FieldKind::Value(body));
        }
    }

    fn phase(&mut self, phase: &'f Phase) {
        let Phase { kind: _, steps: _, variables, exports: _, timeout: _ } = phase;
        self.moment = Moment::End;
        for (name, value) in variables {
            self.add_as("variables", eco_format!("variables.{name}"), FieldKind::Value(value));
        }
    }

    fn aggregates(&mut self, each: &ForEach) {
        let Shape::MapReduce { aggregates } = &self.workflow.shape else { return };
        if !each.is_map {
            return;
        }
        self.moment = Moment::End;
        for (name, value) in aggregates {
            self.add_as("aggregates", eco_format!("aggregates.{name}"), FieldKind::Value(value));
        }
    }

    fn state(&mut self, state: &'f State) {
        let State { name: _, evaluate, routes, terminal: _, max_retries: _, params: _ } = state;
        self.moment = Moment::Judgement;
        if let Some(Evaluate { by, source, any_exit_code: _, origin }) = evaluate {
            if !matches!(by, Evaluator::Expression(_)) {
                self.add_as("evaluate.type", "evaluate", FieldKind::Word(by.name(), origin));
            }
            self.each("evaluate.source", source.iter().map(FieldKind::Value));
            self.evaluator(by);
        }
        self.moment = Moment::Routes;
        let Routes { on: _, conditions, otherwise: _, error: _, exhausted: _ } = routes;
        for (at, (condition, _)) in conditions.iter().enumerate() {
            self.add_as("route", eco_format!("route[{at}]"), FieldKind::Condition(condition));
        }
    }

    fn evaluator(&mut self, by: &'f Evaluator) {
        match by {
            Evaluator::ExitCode { yes: _, no: _ }
            | Evaluator::Outcome
            | Evaluator::Classify { verdicts: _ } => {}
            Evaluator::Expression(expression) => self.add("evaluate", FieldKind::Expression(expression)),
            Evaluator::Expect(expect) => {
                self.add("evaluate.expect", FieldKind::Expectations(expect, DocumentKind::Step));
            }
            Evaluator::Numeric { key, compared } => {
                self.each("evaluate.key", key.iter().map(FieldKind::Value));
                self.compared(compared);
            }
            Evaluator::Json { path, compared } => {
                self.each("evaluate.path", path.iter().map(FieldKind::Value));
                self.compared(compared);
            }
            Evaluator::Contains(contains) => {
                let Contains { pattern, regex: _, negate: _, error_patterns } = &**contains;
                self.add("evaluate.pattern", FieldKind::Value(pattern));
                self.each("evaluate.error_patterns", error_patterns.iter().map(FieldKind::Value));
            }
            Evaluator::Convergence(convergence) => {
                let Convergence { key, target, tolerance, direction, previous } = &**convergence;
                self.each("evaluate.key", key.iter().map(FieldKind::Value));
                self.add("evaluate.target", FieldKind::Value(target));
                self.each("evaluate.tolerance", tolerance.iter().map(FieldKind::Value));
                self.each("evaluate.direction", direction.iter().map(FieldKind::Value));
                self.each("evaluate.previous", previous.iter().map(FieldKind::Value));
            }
            Evaluator::Agent(judge) => {
                let Judge { agent, prompt, verdicts: _, min_confidence, keeps_unsure: _, timeout } = &**judge;
                self.each("evaluate.timeout", timeout.iter().map(FieldKind::TimeLimit));
                self.each("evaluate.prompt", prompt.iter().map(FieldKind::Text));
                self.agent(&agent.value);
                self.each("evaluate.min_confidence", min_confidence.iter().map(FieldKind::Value));
            }
        }
    }

    fn compared(&mut self, compared: &'f Compared) {
        let Compared { operator, target } = compared;
        self.each("evaluate.operator", operator.iter().map(FieldKind::Value));
        self.each("evaluate.target", target.iter().map(FieldKind::Value));
    }
}
