//! The fields of a step, resolved. The runner carries out what comes of it; previews and explanations show it.
//!
//! There is one evaluation for all of them, so what is shown is what was done. Nothing is carried out here.

use std::time::Duration;

use crate::event::LoopLimits;
use ecow::EcoString;
use threadline_expect::{
    Actual, DocumentKind, Evaluation, ExpectationAnswer, ExpectationOutcome, Expectations, NoJudge, Settled,
    Unsettled, UnsettledWhy,
};
use threadline_flow::checks::Check;
use threadline_flow::forms;
use threadline_flow::model::{
    self, Action, Backoff, Condition, Field, FileFormat, Given, Http, Input, Judge, Retry, Setting, Step,
    Trigger, Variable,
};
use threadline_flow::plan::{PAYLOAD, Plan, StepNumber};
use threadline_flow::problem::{self, Problem};
use threadline_flow::shell::{Argument, BindError, BoundScript};
use threadline_flow::url::{self, UrlPiece};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    Document, Error, Explanation, Expression, NoWorld, Origin, Scope, ScopeEntry, Session, Syntax, Template,
    Type, Value,
};

/// What a step does, with every value in its place.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What to do.
    pub act: Act,
    /// Variables to set, or to take away.
    pub env: Vec<(EcoString, Option<String>)>,
    /// Where.
    pub cwd: Option<String>,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How long it may print nothing.
    pub idle_timeout: Option<Duration>,
    /// How much it may print, per stream.
    pub max_output: u64,
    /// When it is tried again.
    pub retry: RetryPlan,
    /// What must hold of what it leaves.
    pub expect: Option<Settled>,
}

impl Resolved {
    /// Something to do, and nothing else said.
    pub fn plain(act: Act) -> Self {
        Self {
            act,
            env: Vec::new(),
            cwd: None,
            timeout: None,
            idle_timeout: None,
            max_output: MAX_OUTPUT,
            retry: RetryPlan::ONCE,
            expect: None,
        }
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub enum Act {
    /// Give a text to a shell.
    Shell {
        /// The text with its values bound.
        bound: BoundScript,
    },
    /// Give a text to a shell as it is.
    Verbatim {
        /// The text.
        text: EcoString,
    },
    /// Run a program.
    Argv(Vec<Argument>),
    /// Tell an agent something.
    Agent {
        /// Who.
        agent: EcoString,
        /// The program and its arguments.
        command: Vec<String>,
        /// What.
        message: String,
    },
    /// Send a request.
    Http(Request),
    /// Call a tool of a server.
    Tool(ToolCall),
    /// Write a file.
    WriteFile {
        /// Where.
        path: String,
        /// What, as it will stand there.
        content: String,
        /// Its permissions.
        mode: Option<u32>,
        /// Whether folders on the way are made.
        create_dirs: bool,
    },
    /// Run another workflow.
    Workflow(Call),
    /// Nothing but a value.
    Value(Value),
    /// A value that the engine itself makes, and its own meta data.
    Made {
        /// The value.
        value: Value,
        /// The meta data.
        meta: Vec<(&'static str, Value)>,
    },
}

/// A request with every value in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub method: &'static str,
    /// Where, with the query.
    pub url: String,
    /// Its header lines, their names in lower case.
    pub headers: Vec<(EcoString, String)>,
    /// What is sent.
    pub body: Option<String>,
}

/// A call of a tool with every value in its place.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Whose tool it is.
    pub server: Server,
    /// The name of the tool there.
    pub tool: EcoString,
    /// What it is given, an object.
    pub params: Value,
}

/// A call of another workflow with every value in its place.
#[derive(Debug, Clone)]
pub struct Call {
    /// The name of its file.
    pub file: EcoString,
    /// What it is given, an object.
    pub with: Value,
    /// Its inputs: what it is given, and the defaults of the others.
    pub inputs: Value,
}

/// A server of tools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    /// Its name.
    pub name: EcoString,
    /// How it is reached.
    pub reach: Reach,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Over the stdin and stdout of a program.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables to set, or to take away.
        env: Vec<(EcoString, Option<String>)>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// Over HTTP.
    Url {
        /// Where.
        url: String,
        /// Header lines of every request.
        headers: Vec<(EcoString, String)>,
    },
}

/// When a failed step is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// So many attempts in all.
    pub attempts: u64,
    /// How the pause grows.
    pub backoff: Backoff,
    /// The first pause.
    pub delay: Duration,
    /// The longest pause.
    pub max_delay: Duration,
    /// Whether a pause is shortened by a random part.
    pub jitter: bool,
}

impl RetryPlan {
    /// One attempt.
    pub const ONCE: Self = Self {
        attempts: 1,
        backoff: Backoff::Fixed,
        delay: Duration::ZERO,
        max_delay: Duration::MAX,
        jitter: false,
    };

    /// The pause after an attempt that failed, when another follows. `random` is from 0 to 1.
    pub fn pause(&self, attempt: u32, random: f64) -> Option<Duration> {
        if u64::from(attempt) >= self.attempts {
            return None;
        }
        let factor = match self.backoff {
            Backoff::Fixed => 1,
            Backoff::Linear => attempt,
            Backoff::Exponential => 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX).max(1),
        };
        let pause = self.delay.saturating_mul(factor).min(self.max_delay);
        Some(if self.jitter { pause.mul_f64(1.0 - 0.5 * random.clamp(0.0, 1.0)) } else { pause })
    }
}

/// A field that has no value, and why.
#[derive(Debug, Clone)]
pub struct FieldError {
    /// The field.
    pub origin: Origin,
    /// What is wrong with it.
    pub cause: Cause,
}

/// Why a field has no value.
#[derive(Debug, Clone)]
pub enum Cause {
    /// A reference or expression failed.
    Language(Error),
    /// What is asked of each item failed for one.
    OfItem {
        /// Why.
        error: Error,
        /// The item.
        item: Value,
    },
    /// A value cannot stand where it would.
    Binding(BindError),
    /// The value is not what the field takes.
    Unfit {
        /// What it takes.
        expected: &'static str,
        /// What it was.
        value: Value,
    },
    /// A value cannot stand in a request.
    Request {
        /// What is wrong with it.
        message: String,
        /// How to put it right.
        hint: Option<&'static str>,
    },
    /// An operator of an expectation does not take the value.
    Expected {
        /// What is wrong with it.
        message: String,
        /// The value.
        value: Value,
    },
}

impl FieldError {
    /// As a problem of the file.
    pub fn problem(&self, text: &str) -> Problem {
        match &self.cause {
            Cause::Language(error) | Cause::Binding(BindError::Evaluation(error)) => {
                problem::of_language(error, &self.origin, text)
            }
            Cause::OfItem { error, item } => problem::of_language(error, &self.origin, text)
                .note(format!("the item is {}", threadline_lang::diag::preview(item))),
            Cause::Binding(BindError::Refused(problem)) => problem::of_shell(problem, &self.origin, text),
            Cause::Unfit { expected, value } => {
                let message = format!("expected {expected}, got {}", value.kind().with_article());
                Problem::error("wrong-type", self.origin.span, message)
                    .note(format!("the value is {}", threadline_lang::diag::preview(value)))
            }
            Cause::Request { message, hint } => {
                let problem = Check::BadRequest.at(self.origin.span, message.as_str());
                hint.iter().copied().fold(problem, Problem::hint)
            }
            Cause::Expected { message, value } => {
                Problem::error("wrong-type", self.origin.span, message.as_str())
                    .note(format!("the value is {}", threadline_lang::diag::preview(value)))
            }
        }
    }
}

/// Errors of a step's fields.
pub type FieldErrors = Vec<FieldError>;

/// Whether a step begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Go,
    /// It is skipped; why, in words.
    Skip(EcoString),
}

/// Whether a step's condition holds, and whether its trigger fires.
pub fn decide(step: &Step, scope: &Scope, session: &mut Session<'_>) -> Result<Decision, FieldErrors> {
    if let Some(when) = &step.when {
        session.set_origin(Some(when.origin.clone()));
        let holds = when.value.condition(scope, session);
        if !holds.map_err(|error| vec![language(error, &when.origin)])? {
            return Ok(Decision::Skip("`when` is false".into()));
        }
    }
    let Action::Trigger(trigger) = &step.action else { return Ok(Decision::Go) };
    if !trigger.enabled {
        return Ok(Decision::Skip("the trigger is not enabled".into()));
    }
    let Some(filters) = &trigger.filters else { return Ok(Decision::Go) };
    let actual = Actual::new(DocumentKind::Plain, payload(step, scope, session));
    let outside = Scope::new();
    let Ok(actual) = actual else {
        return Ok(Decision::Skip("the payload is nested too deep for its `filters`".into()));
    };
    let mut judge = NoJudge;
    let mut evaluation = Evaluation::new(&actual, &outside, session, &mut judge);
    let unmet = evaluation
        .explain_all(&filters.value)
        .into_iter()
        .find(|outcome| outcome.answer != ExpectationAnswer::Met);
    Ok(unmet.map_or(Decision::Go, |outcome| {
        Decision::Skip(ecow::eco_format!("the payload does not meet `filters`: {}", outcome.reason))
    }))
}

/// What the graph was started with.
fn payload(step: &Step, scope: &Scope, session: &mut Session<'_>) -> Value {
    let path = ecow::eco_format!("{}.{PAYLOAD}", step.origin.path);
    session.set_origin(Some(Origin { path, ..step.origin.clone() }));
    let payload = Expression::parse(PAYLOAD, &Syntax::DEFAULT);
    payload.ok().and_then(|payload| payload.value(scope, session).ok()).unwrap_or_default()
}

/// So many states are executed when nobody says otherwise, for each iteration that may begin.
const MAX_STEPS: u64 = 50;

/// What holds for a loop.
pub fn bounds(of: &model::Loop, scope: &Scope, session: &mut Session<'_>) -> Result<LoopLimits, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let max_iterations = of.max_iterations.as_ref().and_then(|setting| fields.ordinal(setting));
    let max_steps = of.max_steps.as_ref().and_then(|setting| fields.ordinal(setting));
    let bounds = LoopLimits {
        max_steps: max_steps.unwrap_or_else(|| MAX_STEPS.saturating_mul(max_iterations.unwrap_or(1))),
        max_iterations,
        max_edge_revisits: of.max_edge_revisits.as_ref().and_then(|setting| fields.count(setting)),
        max_stall: of.max_stall.as_ref().and_then(|setting| fields.several(setting)),
        timeout: of.timeout.as_ref().and_then(|setting| fields.time_limit(setting)),
        backoff: of.backoff.as_ref().and_then(|setting| fields.duration(setting)),
    };
    if fields.errors.is_empty() { Ok(bounds) } else { Err(fields.errors) }
}

/// What no other run may use while one of this workflow is under way.
pub fn locks(
    workflow: &model::Workflow,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Vec<(Origin, String)>, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let texts = workflow.locks.iter().filter_map(|lock| {
        let text = fields.text(&lock.value, &lock.origin)?;
        Some((lock.origin.clone(), text))
    });
    let texts = texts.collect();
    if fields.errors.is_empty() { Ok(texts) } else { Err(fields.errors) }
}

/// A scope with the values of a state's own, for all that it reads. They are made of what it saw when it acted.
pub fn with_params(
    step: &Step,
    acting: &Scope,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Scope, FieldErrors> {
    let Some(state) = step.state.as_ref().filter(|state| !state.params.is_empty()) else {
        return Ok(scope.clone());
    };
    let mut fields = Fields::new(acting, session);
    let mut names = Vec::with_capacity(state.params.len());
    for (name, value) in &state.params {
        names.extend(fields.document(value).map(|value| (name.clone(), ScopeEntry::Plain(value))));
    }
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    // Names of a table: none stands twice.
    let names = Scope::new().with_entries("param", names).unwrap_or_default();
    let entries = [("param".into(), ScopeEntry::Names(names))];
    Ok(scope.with_entries("state", entries).unwrap_or_else(|_| scope.clone()))
}

/// Why a step's condition is what it is.
pub fn explain_condition(step: &Step, scope: &Scope, session: &mut Session<'_>) -> Option<Explanation> {
    step.when.as_ref().map(|when| {
        session.set_origin(Some(when.origin.clone()));
        when.value.explain(scope, session)
    })
}

/// Every field of a step. All problems are reported. `enter` is told the step's folder before the fields that may be
/// meant from there.
pub fn resolve(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
    enter: impl FnOnce(&str),
) -> Result<Resolved, FieldErrors> {
    let planned = &plan.steps[number as usize];
    let step = &*planned.step;
    let scope = &with_params(step, scope, scope, session)?;
    let mut fields = Fields::new(scope, session);
    let (cwd, env) = fields.surroundings(plan, step, enter);
    let timeout = step.timeout.as_ref().and_then(|setting| fields.time_limit(setting));
    let idle_timeout = step.idle_timeout.as_ref().and_then(|setting| fields.time_limit(setting));
    let max_output = step.max_output.as_ref().and_then(|setting| fields.size(setting));
    let retry = step.retry.as_ref().map_or(RetryPlan::ONCE, |retry| fields.retry(retry));
    let act = match &step.action {
        Action::Shell { text, interpolate: false } => Some(Act::Verbatim { text: text.value.clone() }),
        Action::Shell { text, .. } => match &planned.script {
            Some(script) => {
                fields.session.set_origin(Some(text.origin.clone()));
                let bound = script.bind(scope, fields.session);
                fields.bound(bound, &text.origin).map(|bound| Act::Shell { bound })
            }
            None => Some(Act::Verbatim { text: text.value.clone() }),
        },
        Action::Argv(words) => planned.argv.as_ref().and_then(|argv| {
            let place =
                |at: usize, session: &mut Session<'_>| session.set_origin(Some(words[at].origin.clone()));
            let bound = argv.bind(scope, fields.session, place);
            fields.words(bound, words).map(Act::Argv)
        }),
        Action::Agent { agent, message } => {
            let message = fields.text(&message.value, &message.origin);
            fields.agent(plan, &agent.value, message)
        }
        Action::WriteFile(file) => {
            let path = fields.text(&file.path.value, &file.path.origin);
            let content = fields.document(&file.content).map(|value| file_text(&value, file.format));
            path.zip(content).map(|(path, content)| Act::WriteFile {
                path,
                content,
                mode: file.mode,
                create_dirs: file.create_dirs,
            })
        }
        Action::Value(document) => fields.document(document).map(Act::Value),
        Action::Http(http) => fields.request(http).map(Act::Http),
        Action::Tool(call) => fields.tool(plan, call).map(Act::Tool),
        Action::Workflow(call) => fields.call(planned.calls.as_deref(), call).map(Act::Workflow),
        Action::ForEach(_) | Action::Phase(_) | Action::Nothing => Some(Act::Value(Value::NULL)),
        Action::Condition(condition) => fields.condition(condition),
        Action::Trigger(trigger) => Some(triggered(trigger, payload(step, scope, fields.session))),
    };
    let expect = step.expect.as_ref().and_then(|expect| fields.expectations(&expect.value));
    let errors = fields.errors;
    match act {
        Some(act) if errors.is_empty() => {
            let max_output = max_output.unwrap_or(MAX_OUTPUT);
            Ok(Resolved { act, env, cwd, timeout, idle_timeout, max_output, retry, expect })
        }
        _ => Err(errors),
    }
}

/// What a judge is asked, and how: in the surroundings of the state. `below` stands below what it is asked.
#[expect(clippy::too_many_arguments, reason = "each is another part of one question")]
pub(crate) fn question(
    plan: &Plan,
    number: StepNumber,
    judge: &Judge,
    prompt: &str,
    below: &str,
    scope: &Scope,
    session: &mut Session<'_>,
    enter: impl FnOnce(&str),
) -> Result<Resolved, FieldErrors> {
    let step = &*plan.steps[number as usize].step;
    let mut fields = Fields::new(scope, session);
    let (cwd, env) = fields.surroundings(plan, step, enter);
    let timeout = judge.timeout.as_ref().and_then(|setting| fields.time_limit(setting));
    let prompt = match &judge.prompt {
        Some(prompt) => fields.text(&prompt.value, &prompt.origin),
        None => Some(prompt.to_owned()),
    };
    let message = prompt.map(|prompt| format!("{}{below}", prompt.trim_end()));
    let act = fields.agent(plan, &judge.agent.value, message);
    let (max_output, retry) = (MAX_OUTPUT, RetryPlan::ONCE);
    match act {
        Some(act) if fields.errors.is_empty() => {
            Ok(Resolved { act, env, cwd, timeout, idle_timeout: None, max_output, retry, expect: None })
        }
        _ => Err(fields.errors),
    }
}

/// What a step left, as its expectation sees it.
#[derive(Debug, Clone)]
pub struct Left<'l> {
    /// Its value.
    pub value: &'l Value,
    /// What it printed, when it ran a program.
    pub output: Option<&'l Value>,
    /// Its meta data, with the exit code of its program.
    pub meta: &'l Value,
}

/// The expectations of a step with what they compare with, as far as that is known before the step has ended.
pub fn settle(
    expectations: &Expectations,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Settled, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let settled = fields.expectations(expectations);
    settled.ok_or(fields.errors)
}

/// Which expectations are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those that are not met.
    Unmet,
    /// All of them.
    All,
}

/// What the expectations of a step come to, and why. The error says why they cannot be asked.
pub fn expected(
    settled: &Settled,
    left: &Left<'_>,
    wanted: Wanted,
) -> Result<Vec<ExpectationOutcome>, &'static str> {
    let mut entries: Vec<(EcoString, Value)> = vec![("value".into(), left.value.clone())];
    entries.extend(left.output.map(|output| ("output".into(), output.clone())));
    entries.extend(left.meta.get("exit_code").map(|code| ("exit_code".into(), code.clone())));
    entries.push(("meta".into(), left.meta.clone()));
    let actual = Value::object(entries).and_then(|document| Actual::new(DocumentKind::Step, document));
    let actual = actual.map_err(|_| "what it left is nested too deep, or too large")?;
    let (mut world, mut judge) = (NoWorld, NoJudge);
    let mut session = Session::new(&mut world);
    let mut evaluation = Evaluation::new(&actual, &settled.scope, &mut session, &mut judge);
    // A tree is made only for somebody to read.
    if wanted == Wanted::Unmet && evaluation.answer_all(&settled.expectations) == ExpectationAnswer::Met {
        return Ok(Vec::new());
    }
    let mut outcomes = evaluation.explain_all(&settled.expectations);
    outcomes.retain(|outcome| wanted == Wanted::All || outcome.answer != ExpectationAnswer::Met);
    Ok(outcomes)
}

/// The values that later runs may read, an object.
pub fn exports(plan: &Plan, scope: &Scope, session: &mut Session<'_>) -> Result<Value, FieldErrors> {
    crate::select::named(&plan.workflow.exports, scope, session)
}

/// What a step may print when it does not say.
pub const MAX_OUTPUT: u64 = 64 << 20;

/// A value as it stands in a file.
pub fn file_text(value: &Value, format: FileFormat) -> String {
    match format {
        FileFormat::Text => value.to_string(),
        FileFormat::Json => value.to_json(JsonStyle::Pretty) + "\n",
        FileFormat::Yaml => {
            let mut text = String::new();
            threadline_lang::data::yaml::write(value, &mut text);
            text
        }
    }
}

/// A server of a workflow with its references resolved, to look at it outside of a run.
pub fn server(
    server: &model::Server,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Server, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let resolved = fields.server(server);
    let errors = fields.errors;
    resolved.filter(|_| errors.is_empty()).ok_or(errors)
}

/// A URL, each value encoded for the place where it stands.
pub fn url_text(
    template: &Template,
    origin: &Origin,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<String, FieldError> {
    session.set_origin(Some(origin.clone()));
    let mut parts: Vec<(bool, String)> = Vec::new();
    let keep = &mut |is_value, text: &str| parts.push((is_value, text.to_owned()));
    template.text_parts(scope, session, keep).map_err(|error| language(error, origin))?;
    let pieces = parts
        .iter()
        .map(|(is_value, text)| if *is_value { UrlPiece::Value(text) } else { UrlPiece::Written(text) });
    url::build(pieces).map_err(|error| FieldError {
        origin: origin.clone(),
        cause: Cause::Request { message: error.message, hint: error.hint },
    })
}

/// What a trigger leaves: the payload.
fn triggered(trigger: &Trigger, payload: Value) -> Act {
    let value = Value::record([("triggered", true.into()), ("trigger_data", payload)]);
    let meta = vec![("trigger_type", trigger.kind.name().into()), ("trigger_config", trigger.config.clone())];
    Act::Made { value, meta }
}

pub(crate) fn language(error: Error, origin: &Origin) -> FieldError {
    FieldError { origin: origin.clone(), cause: Cause::Language(error) }
}

/// Evaluates fields and keeps every problem.
pub(crate) struct Fields<'a, 's, 'w> {
    scope: &'a Scope,
    pub(crate) session: &'s mut Session<'w>,
    pub(crate) errors: FieldErrors,
}

impl<'a, 's, 'w> Fields<'a, 's, 'w> {
    pub(crate) fn new(scope: &'a Scope, session: &'s mut Session<'w>) -> Self {
        Self { scope, session, errors: Vec::new() }
    }
}

impl Fields<'_, '_, '_> {
    pub(crate) fn text(&mut self, template: &Template, origin: &Origin) -> Option<String> {
        let mut text = String::new();
        self.session.set_origin(Some(origin.clone()));
        let result = template.text(self.scope, self.session, &mut text);
        result.map_err(|error| self.errors.push(language(error, origin))).ok()?;
        Some(text)
    }

    /// Where a step runs, and the variables that it sees.
    fn surroundings(
        &mut self,
        plan: &Plan,
        step: &Step,
        enter: impl FnOnce(&str),
    ) -> (Option<String>, Vec<(EcoString, Option<String>)>) {
        let cwd = step.cwd.as_ref().and_then(|cwd| self.text(&cwd.value, &cwd.origin));
        if let Some(cwd) = &cwd {
            enter(cwd);
        }
        let mut env = Vec::new();
        for variable in plan.workflow.env.iter().chain(&step.env) {
            self.variable(variable, &mut env);
        }
        (cwd, env)
    }

    /// An agent, and what it is told.
    fn agent(&mut self, plan: &Plan, agent: &EcoString, message: Option<String>) -> Option<Act> {
        let known = plan.workflow.agents.iter().find(|known| known.name == *agent);
        let words = known.into_iter().flat_map(|agent| &agent.command);
        let words: Vec<_> = words.map(|word| self.text(&word.value, &word.origin)).collect();
        let command: Option<Vec<String>> = words.into_iter().collect();
        command.zip(message).map(|(command, message)| Act::Agent { agent: agent.clone(), command, message })
    }

    pub(crate) fn document(&mut self, field: &Field<Document>) -> Option<Value> {
        self.session.set_origin(Some(field.origin.clone()));
        let resolved = field.value.resolve(self.scope, self.session);
        let failed = |errors: Vec<Error>| {
            self.errors.extend(errors.into_iter().map(|error| language(error, &field.origin)));
        };
        resolved.map_err(failed).ok()
    }

    pub(crate) fn variable(&mut self, variable: &Variable, env: &mut Vec<(EcoString, Option<String>)>) {
        let value = match &variable.value {
            Some(template) => match self.text(&template.value, &template.origin) {
                Some(value) => Some(value),
                None => return,
            },
            None => None,
        };
        env.retain(|(name, _)| *name != variable.name);
        env.push((variable.name.clone(), value));
    }

    fn duration(&mut self, setting: &Setting<Duration>) -> Option<Duration> {
        self.setting(setting, "a duration such as `30s`", forms::duration)
    }

    /// Nothing or more.
    pub(crate) fn time_limit(&mut self, setting: &Setting<Duration>) -> Option<Duration> {
        let above_zero = |value: &Value| forms::duration(value).filter(|time| !time.is_zero());
        self.setting(setting, "a duration above 0, such as `30s`", above_zero)
    }

    pub(crate) fn count(&mut self, setting: &Setting<u64>) -> Option<u64> {
        self.setting(setting, "a whole number of at least 0", forms::count)
    }

    /// One or more.
    pub(crate) fn ordinal(&mut self, setting: &Setting<u64>) -> Option<u64> {
        let read = |value: &Value| forms::count(value).filter(|count| *count > 0);
        self.setting(setting, "a whole number of at least 1", read)
    }

    /// Two or more.
    fn several(&mut self, setting: &Setting<u64>) -> Option<u64> {
        let read = |value: &Value| forms::count(value).filter(|count| *count > 1);
        self.setting(setting, "a whole number of at least 2", read)
    }

    /// A part of a whole.
    pub(crate) fn fraction(&mut self, setting: &Setting<f64>) -> Option<f64> {
        self.setting(setting, forms::FRACTION_FORM, forms::fraction)
    }

    fn size(&mut self, setting: &Setting<u64>) -> Option<u64> {
        self.setting(setting, "a size such as `64MiB`", forms::size)
    }

    fn setting<T: Copy>(
        &mut self,
        setting: &Setting<T>,
        expected: &'static str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        match setting {
            Setting::Fixed(fixed) => Some(*fixed),
            Setting::Dynamic(field) => {
                let value = self.document(field)?;
                let read = read(&value);
                if read.is_none() {
                    self.unfit(&field.origin, expected, value);
                }
                read
            }
        }
    }

    pub(crate) fn retry(&mut self, retry: &Retry) -> RetryPlan {
        RetryPlan {
            attempts: self.ordinal(&retry.attempts).unwrap_or(1),
            backoff: retry.backoff,
            delay: self.duration(&retry.delay).unwrap_or_default(),
            max_delay: self.duration(&retry.max_delay).unwrap_or(Duration::MAX),
            jitter: retry.jitter,
        }
    }

    fn request(&mut self, http: &Http) -> Option<Request> {
        let Http { method, url, headers, query, body } = http;
        let found = url_text(&url.value, &url.origin, self.scope, self.session);
        let url = found.map_err(|error| self.errors.push(error)).ok();
        let query = match query {
            Some(field) => self.query(field),
            None => Some(Vec::new()),
        };
        let mut lines = self.headers(headers);
        let body = match body {
            Some(field) => Some(self.document(field)?).filter(|value| !value.is_null()),
            None => None,
        };
        let body = body.map(|value| {
            let (kind, text) = match value.as_str() {
                Some(text) => ("text/plain; charset=utf-8", text.to_owned()),
                None => ("application/json", value.to_json(JsonStyle::Compact)),
            };
            if !lines.iter().any(|(name, _)| name == "content-type") {
                lines.push(("content-type".into(), kind.to_owned()));
            }
            text
        });
        let mut url = url?;
        url::add_query(&mut url, query.iter().flatten().map(|(name, value)| (name.as_str(), value.clone())));
        Some(Request { method, url, headers: lines, body })
    }

    fn headers(&mut self, headers: &[(EcoString, Field<Template>)]) -> Vec<(EcoString, String)> {
        let mut lines = Vec::new();
        for (name, field) in headers {
            let Some(text) = self.text(&field.value, &field.origin) else { continue };
            if !url::is_header_value(&text) {
                let message =
                    format!("the header `{name}` contains a line break or another control character");
                self.refused(&field.origin, message, None);
            }
            lines.push((name.clone(), text));
        }
        lines
    }

    fn tool(&mut self, plan: &Plan, call: &model::ToolCall) -> Option<ToolCall> {
        let known = plan.workflow.servers.iter().find(|server| server.name == call.server)?;
        let server = self.server(known);
        let params = match &call.params {
            Some(field) => {
                let value = self.document(field)?;
                match value.kind() {
                    Type::Object => value,
                    Type::Null => Value::empty_object(),
                    _ => {
                        self.unfit(&field.origin, "an object", value);
                        return None;
                    }
                }
            }
            None => Value::empty_object(),
        };
        Some(ToolCall { server: server?, tool: call.tool.clone(), params })
    }

    /// What a call gives, of the types that the called workflow asks for.
    fn call(&mut self, callee: Option<&Plan>, call: &model::Call) -> Option<Call> {
        let callee = &callee?.workflow;
        let mut given = Vec::new();
        for Given { name, value: field, .. } in &call.with {
            let Some(value) = self.document(field) else { continue };
            let kind = callee.inputs.iter().find(|input| input.name == *name).and_then(|input| input.kind);
            match kind.filter(|kind| !Input::accepts(*kind, &value)) {
                Some(kind) => self.unfit(&field.origin, kind.with_article(), value),
                None => given.push((name.clone(), value)),
            }
        }
        let inputs = callee.inputs_of(&given);
        let with = Value::object(given);
        let (Ok(inputs), Ok(with)) = (inputs, with) else {
            // What is missing or has no value was reported; what is left is too much of it.
            if self.errors.is_empty() {
                self.unfit(&call.path.origin, "values that are not too large together", Value::NULL);
            }
            return None;
        };
        Some(Call { file: callee.file.name().into(), with, inputs })
    }

    fn server(&mut self, server: &model::Server) -> Option<Server> {
        let reach = match &server.reach {
            model::Reach::Program { command, env, cwd } => {
                let words: Vec<_> = command.iter().map(|word| self.text(&word.value, &word.origin)).collect();
                let mut variables = Vec::new();
                for variable in env {
                    self.variable(variable, &mut variables);
                }
                let cwd = match cwd {
                    Some(cwd) => Some(self.text(&cwd.value, &cwd.origin)?),
                    None => None,
                };
                Reach::Program { command: words.into_iter().collect::<Option<_>>()?, env: variables, cwd }
            }
            model::Reach::Url { url, headers } => {
                let found = url_text(&url.value, &url.origin, self.scope, self.session);
                let url = found.map_err(|error| self.errors.push(error)).ok();
                let headers = self.headers(headers);
                Reach::Url { url: url?, headers }
            }
        };
        Some(Server { name: server.name.clone(), reach })
    }

    /// The names and values of a query; a list has its name before each of its items, null is left out.
    fn query(&mut self, field: &Field<Document>) -> Option<Vec<(EcoString, String)>> {
        let value = self.document(field)?;
        let Some(object) = value.as_object() else {
            self.unfit(&field.origin, "an object of names and values", value);
            return None;
        };
        let mut query = Vec::new();
        for (name, value) in object.iter() {
            let one = std::slice::from_ref(value);
            for item in value.as_list().unwrap_or(one) {
                match item.kind() {
                    Type::Null => {}
                    Type::List | Type::Object => {
                        let message =
                            format!("`{}` of the query is {}", name.name(), item.kind().with_article());
                        self.refused(&field.origin, message, Some("make text of it: `| to_json`"));
                    }
                    _ => query.push((name.name().clone(), item.to_string())),
                }
            }
        }
        Some(query)
    }

    fn refused(&mut self, origin: &Origin, message: String, hint: Option<&'static str>) {
        self.errors.push(FieldError { origin: origin.clone(), cause: Cause::Request { message, hint } });
    }

    /// The branch that a conditional takes, and why.
    fn condition(&mut self, condition: &Condition) -> Option<Act> {
        let Field { value: expression, origin } = &condition.expression;
        self.session.set_origin(Some(origin.clone()));
        let explanation = expression.explain(self.scope, self.session);
        let known = explanation.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()?.as_bool());
        let result = match known {
            Some(result) => result,
            // It fails again, and says as a condition why.
            None => match expression.condition(self.scope, self.session) {
                Ok(result) => result,
                Err(error) => {
                    self.errors.push(language(error, origin));
                    return None;
                }
            },
        };
        let value = [("condition_result", result.into()), ("branch", result.to_string().into())];
        let meta = vec![
            ("condition", condition.written.clone().into()),
            ("resolved_condition", explanation.in_source(expression.source()).into()),
            ("evaluation_method", "expression".into()),
        ];
        Some(Act::Made { value: Value::record(value), meta })
    }

    fn expectations(&mut self, expectations: &Expectations) -> Option<Settled> {
        let failed = |unsettled: Vec<Unsettled>| {
            self.errors.extend(unsettled.into_iter().map(|Unsettled { origin, why }| {
                let cause = match why {
                    UnsettledWhy::Language(error) => Cause::Language(error),
                    UnsettledWhy::Unfit { message, value } => Cause::Expected { message, value },
                };
                FieldError { origin, cause }
            }));
        };
        expectations.settle(DocumentKind::Step, self.scope, self.session).map_err(failed).ok()
    }

    fn words(
        &mut self,
        bound: Result<Vec<Argument>, Vec<(usize, BindError)>>,
        words: &[Field<Template>],
    ) -> Option<Vec<Argument>> {
        let failed = |errors: Vec<(usize, BindError)>| {
            let errors = errors.into_iter();
            self.errors.extend(errors.map(|(at, error)| FieldError {
                origin: words[at].origin.clone(),
                cause: Cause::Binding(error),
            }));
        };
        bound.map_err(failed).ok()
    }

    pub(crate) fn bound<T>(&mut self, bound: Result<T, Vec<BindError>>, origin: &Origin) -> Option<T> {
        let failed = |errors: Vec<BindError>| {
            let errors = errors.into_iter();
            self.errors.extend(
                errors.map(|error| FieldError { origin: origin.clone(), cause: Cause::Binding(error) }),
            );
        };
        bound.map_err(failed).ok()
    }

    pub(crate) fn unfit(&mut self, origin: &Origin, expected: &'static str, value: Value) {
        self.errors.push(FieldError { origin: origin.clone(), cause: Cause::Unfit { expected, value } });
    }
}
