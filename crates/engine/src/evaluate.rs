//! The fields of a step, resolved. The runner carries out what comes of it; previews and explanations show it.
//!
//! There is one evaluation for all of them, over the one walk of [`threadline_flow::model::step_fields`], so what is shown
//! is what was done. Nothing is carried out here.

mod assertion;
mod fields;

use std::time::Duration;

use crate::agent::ResolvedAgent;
use crate::agent::thread::{ResolvedThread, Thread};
use crate::event::LoopLimits;
use ecow::EcoString;
use threadline_expect::{
    Actual, DocumentKind, Evaluation, ExpectationAnswer, ExpectationOutcome, Expectations, NoJudge, Settled,
};
use threadline_flow::checks::Check;
use threadline_flow::fields::field_names as names;
pub use threadline_flow::model::Backoff;
use threadline_flow::model::{
    self, Action, FieldOwner, FileFormat, Judge, Moment, Step, StepField, Trigger, Workflow, limit_fields,
    server_fields, step_fields,
};
use threadline_flow::plan::{PAYLOAD, Plan, PlannedStep, StepNumber};
use threadline_flow::problem::{self, Problem};
use threadline_flow::shell::{Argument, BindError, BoundScript};
use threadline_flow::url::{self, UrlPiece};
use threadline_lang::value::{JsonStyle, MAX_DEPTH, MAX_SIZE};
use threadline_lang::{Error, Explanation, NoWorld, Origin, Scope, ScopeEntry, Session, Template, Value};

pub use assertion::ResolvedAssertion;
pub use fields::{FieldOutcome, FieldValue, evaluate_field};
pub(crate) use fields::{FieldOutcomes, Fields};

/// What a step does, with every value in its place.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What to do.
    pub act: Act,
    /// Variables to set, or to take away.
    pub env: Vec<(EcoString, Option<String>)>,
    /// The folder to run in, relative to the folder of the run.
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
        /// The text of the script.
        text: EcoString,
    },
    /// Run a program.
    Argv(Vec<Argument>),
    /// Tell an agent something.
    Agent {
        /// Whom, and how.
        agent: ResolvedAgent,
        /// The message that it is sent.
        message: String,
        /// The conversation that it continues.
        thread: Option<ResolvedThread>,
    },
    /// Send a request.
    Http(Request),
    /// Call a tool of a server.
    Tool(ResolvedToolCall),
    /// Write a file.
    WriteFile {
        /// The path of the file.
        path: String,
        /// What, as it will stand there.
        content: String,
        /// The permissions of the file, if they are given.
        mode: Option<u32>,
        /// Whether folders on the way are made.
        create_dirs: bool,
    },
    /// Run another workflow.
    Workflow(ResolvedCall),
    /// Nothing but a value.
    Value(Value),
    /// Compare a document with expectations.
    Assert(Box<ResolvedAssertion>),
    /// Fail with this message.
    Fail(String),
    /// Let time pass.
    Wait(Duration),
    /// A value that the engine itself makes, and its own meta data.
    Made {
        /// The value that the step leaves.
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
    /// Where it may go.
    pub hosts: HostPolicy,
}

/// Which hosts a request may go to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPolicy {
    /// Whether a value decides the host: then it must be a public one.
    pub is_data: bool,
    /// The hosts that may be private all the same: a name, an address, or `*.` and the end of a name.
    pub known: Vec<EcoString>,
}

impl HostPolicy {
    /// Of a URL in a workflow.
    fn of(workflow: &Workflow, step: Option<&Step>, url: &Template) -> Self {
        Self { is_data: workflow.is_host_data(step, url), known: workflow.known_hosts() }
    }

    /// Whether a host may have a private address although a value or a redirect names it.
    pub fn is_known(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.known.iter().any(|known| match known.to_ascii_lowercase().strip_prefix('*') {
            Some(end) => !end.is_empty() && host.ends_with(end),
            None => known.eq_ignore_ascii_case(&host),
        })
    }
}

/// A call of a tool with every value in its place.
#[derive(Debug, Clone)]
pub struct ResolvedToolCall {
    /// Whose tool it is.
    pub server: ResolvedServer,
    /// The name of the tool there.
    pub tool: EcoString,
    /// What it is given, an object.
    pub params: Value,
}

/// A call of another workflow with every value in its place.
#[derive(Debug, Clone)]
pub struct ResolvedCall {
    /// The name of its file.
    pub file: EcoString,
    /// What it is given, an object.
    pub with: Value,
    /// Its inputs: what it is given, and the defaults of the others.
    pub inputs: Value,
}

/// A server of tools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedServer {
    /// The name of the server in the workflow.
    pub name: EcoString,
    /// How it is reached.
    pub reach: ResolvedReach,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResolvedReach {
    /// Over the stdin and stdout of a program.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables to set, or to take away.
        env: Vec<(EcoString, Option<String>)>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// A server that is reached over HTTP.
    Url {
        /// The address of the server.
        url: String,
        /// Header lines of every request.
        headers: Vec<(EcoString, String)>,
        /// Where requests may go.
        hosts: HostPolicy,
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
    /// A plan with a single attempt.
    pub const ONCE: Self = Self {
        attempts: 1,
        backoff: Backoff::Fixed,
        delay: Duration::ZERO,
        max_delay: Duration::MAX,
        jitter: false,
    };

    /// The plan for a provider that cannot answer now, where the step has none.
    pub const PASSING: Self = Self {
        attempts: 5,
        backoff: Backoff::Exponential,
        delay: Duration::from_secs(1),
        max_delay: Duration::from_mins(1),
        jitter: true,
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
    /// The field, with the keys that lead to it.
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
        /// The error that the item caused.
        error: Error,
        /// The item that caused it.
        item: Value,
    },
    /// A value cannot stand where it would.
    Binding(BindError),
    /// Values that fit one by one are over a limit of data together.
    TooLarge,
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
    /// A thread cannot be continued.
    Thread {
        /// What is wrong with it.
        message: String,
        /// How to put it right.
        hint: Option<String>,
    },
    /// A value leads to a folder where nothing may run.
    Folder {
        /// What is wrong with it.
        message: String,
    },
    /// An operator of an expectation does not take the value.
    Expected {
        /// What is wrong with it.
        message: String,
        /// The value that was refused.
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
            Cause::TooLarge => {
                let message = "these values are too large together, or nested too deep";
                let limits = format!("the limits are {} MiB and {MAX_DEPTH} levels", MAX_SIZE >> 20);
                Problem::error("limit", self.origin.span, message).note(limits)
            }
            Cause::Request { message, hint } => {
                let problem = Check::BadRequest.at(self.origin.span, message.as_str());
                hint.iter().copied().fold(problem, Problem::hint)
            }
            Cause::Thread { message, hint } => {
                let problem = Problem::error("thread", self.origin.span, message.as_str());
                hint.iter().fold(problem, |problem, hint| problem.hint(hint.as_str()))
            }
            Cause::Folder { message } => {
                Problem::error("outside-project", self.origin.span, message.as_str()).hint(
                    "a `cwd` that a value decides stays inside the project; write the folder out, or add it: \
                     `allow: {files: [...]}`",
                )
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
    /// The step runs.
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
    let payload = &trigger.payload;
    session.set_origin(Some(payload.origin.clone()));
    let payload =
        payload.value.value(scope, session).map_err(|error| vec![language(error, &payload.origin)])?;
    let actual = Actual::new(DocumentKind::Plain, payload);
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

/// The default of `max_steps`, for each of `max_iterations`.
const MAX_STEPS: u64 = 50;

/// The limits of a run: its time, and those of a loop.
pub fn limits(
    workflow: &Workflow,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<LoopLimits, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let outcomes = fields.evaluate_all(None, limit_fields(workflow));
    let max_iterations = outcomes.count("max_iterations");
    let limits = LoopLimits {
        max_steps: outcomes
            .count("max_steps")
            .unwrap_or_else(|| MAX_STEPS.saturating_mul(max_iterations.unwrap_or(1))),
        max_iterations,
        max_edge_revisits: outcomes.count("max_edge_revisits"),
        max_stall: outcomes.count("max_stall"),
        timeout: outcomes.duration("timeout"),
        backoff: outcomes.duration("backoff"),
    };
    if fields.errors.is_empty() { Ok(limits) } else { Err(fields.errors) }
}

/// What no other run may use while one of this workflow is under way.
pub fn locks(
    workflow: &Workflow,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Vec<(Origin, String)>, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let texts = workflow.locks.iter().filter_map(|lock| {
        let text = fields.text(lock)?;
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
    Ok(with_param_entries(scope, names))
}

/// A scope with the values of a state's own, as far as they are known.
pub fn with_param_entries(scope: &Scope, params: Vec<(EcoString, ScopeEntry)>) -> Scope {
    // Names of a table: none stands twice.
    let names = Scope::new().with_entries("param", params).unwrap_or_default();
    let entries = [("param".into(), ScopeEntry::Names(names))];
    scope.with_entries("state", entries).unwrap_or_else(|_| scope.clone())
}

/// Why a step's condition is what it is.
pub fn explain_condition(step: &Step, scope: &Scope, session: &mut Session<'_>) -> Option<Explanation> {
    step.when.as_ref().map(|when| {
        session.set_origin(Some(when.origin.clone()));
        when.value.explain(scope, session)
    })
}

/// A folder that something is about to run in.
#[derive(Debug, Clone, Copy)]
pub struct EnteredFolder<'f> {
    /// The folder, relative to the folder of the run.
    pub path: &'f str,
    /// Whether a value decides it that does not stand in the file.
    pub is_data: bool,
    /// Whether it is the folder of the step; else it is that of a server.
    pub is_of_step: bool,
}

/// Resolves every field of an attempt of a step, and reports all problems. `enter` is called with the step's folder
/// before the fields are evaluated that can be relative to it, and says why nothing may run there.
pub fn resolve(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
    enter: impl FnMut(EnteredFolder<'_>) -> Result<(), String>,
) -> Result<Resolved, FieldErrors> {
    let planned = &plan.steps[number as usize];
    let scope = &with_params(&planned.step, scope, scope, session)?;
    attempt(plan, planned, scope, session, enter).1
}

/// The same, with what each field came to.
pub fn resolve_fields(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
) -> (Vec<FieldOutcome>, Result<Resolved, FieldErrors>) {
    let planned = &plan.steps[number as usize];
    let scope = &match with_params(&planned.step, scope, scope, session) {
        Ok(scope) => scope,
        Err(errors) => {
            let fields = attempt_fields(plan, &planned.step).map(|field| FieldOutcome::new(&field, None));
            return (fields.collect(), Err(errors));
        }
    };
    let (outcomes, resolved) = attempt(plan, planned, scope, session, |_| Ok(()));
    let mut outcomes = outcomes.into_owned();
    if let Ok(Resolved { act: Act::Http(request), .. }) = &resolved {
        show_request(request, &mut outcomes);
    }
    (outcomes, resolved)
}

/// Puts what is sent in place of what it is made of: the URL with its query, and the body as text.
fn show_request(request: &Request, outcomes: &mut [FieldOutcome]) {
    for outcome in outcomes {
        let text = match outcome.key {
            "url" => Some(format!("{} {}", request.method, request.url)),
            "body" => request.body.clone(),
            _ => continue,
        };
        outcome.value = text.map(FieldValue::Text);
    }
}

fn attempt_fields<'p>(plan: &'p Plan, step: &'p Step) -> impl Iterator<Item = StepField<'p>> {
    step_fields(&plan.workflow, step).into_iter().filter(|field| field.moment == Moment::Attempt)
}

fn attempt<'p>(
    plan: &'p Plan,
    planned: &'p PlannedStep,
    scope: &Scope,
    session: &mut Session<'_>,
    enter: impl FnMut(EnteredFolder<'_>) -> Result<(), String>,
) -> (FieldOutcomes<'p>, Result<Resolved, FieldErrors>) {
    let step = &*planned.step;
    let mut fields = Fields::new(scope, session);
    let mut outcomes = fields.evaluate_in_folder(plan, planned, attempt_fields(plan, step), enter);
    let mut action = assemble(plan, planned, &mut outcomes);
    if let Some(Act::Agent { thread: Some(thread), .. }) = &mut action
        && fields.errors.is_empty()
    {
        fields.read_thread(step, thread);
    }
    let mut errors = fields.errors;
    if let (Action::Workflow(call), None, true) = (&step.action, &action, errors.is_empty()) {
        // Each value fits; what is left is too much of it.
        errors.push(FieldError { origin: call.path.origin.clone(), cause: Cause::TooLarge });
    }
    let resolved = match action {
        Some(action) if errors.is_empty() => Ok(Resolved {
            act: action,
            env: outcomes.variables("env"),
            cwd: outcomes.text("cwd"),
            timeout: outcomes.duration("timeout"),
            idle_timeout: outcomes.duration("idle_timeout"),
            max_output: outcomes.count("max_output").unwrap_or(MAX_OUTPUT),
            // With steps between them, attempts follow each other in the machine.
            retry: step
                .retry
                .as_ref()
                .filter(|retry| retry.fix.is_empty())
                .map_or(RetryPlan::ONCE, |retry| outcomes.retry(retry)),
            expect: outcomes.expectations("expect"),
        }),
        _ => Err(errors),
    };
    (outcomes, resolved)
}

/// The action of a step, made of what its fields came to.
fn assemble(plan: &Plan, planned: &PlannedStep, outcomes: &mut FieldOutcomes<'_>) -> Option<Act> {
    Some(match &planned.step.action {
        Action::Shell { .. } => match outcomes.get("shell")? {
            FieldValue::Shell(bound) => Act::Shell { bound: bound.clone() },
            FieldValue::Text(text) => Act::Verbatim { text: text.as_str().into() },
            _ => return None,
        },
        Action::Argv(_) => match outcomes.get("argv")? {
            FieldValue::Arguments(arguments) => Act::Argv(arguments.clone()),
            _ => return None,
        },
        Action::Agent { agent, .. } => {
            let tools = outcomes.agent_tools(plan, &agent.value)?;
            let agent = ResolvedAgent { tools, ..outcomes.agent(&plan.workflow, &agent.value) };
            let thread = outcomes.text("thread").filter(|name| !name.is_empty());
            let thread = thread.map(|name| ResolvedThread { name, before: Thread::default() });
            Act::Agent { agent, message: outcomes.text("message")?, thread }
        }
        Action::Http(http) => {
            let hosts = HostPolicy::of(&plan.workflow, Some(&planned.step), &http.url.value);
            Act::Http(outcomes.request(http, hosts)?)
        }
        Action::Tool(call) => {
            let server = plan.workflow.servers.iter().find(|server| server.name == call.server)?;
            let server = outcomes.server(&plan.workflow, server)?;
            let params = outcomes.value("params").unwrap_or_else(Value::empty_object);
            Act::Tool(ResolvedToolCall { server, tool: call.tool.clone(), params })
        }
        Action::WriteFile(file) => Act::WriteFile {
            path: outcomes.text("path")?,
            content: outcomes.text("content")?,
            mode: file.mode,
            create_dirs: file.create_dirs,
        },
        Action::Value(_) => Act::Value(outcomes.value("value")?),
        Action::Assert(assertion) => Act::Assert(Box::new(outcomes.assertion(assertion)?)),
        Action::Fail(_) => Act::Fail(outcomes.text("fail")?),
        Action::Wait(_) => Act::Wait(outcomes.duration("wait")?),
        Action::Workflow(call) => Act::Workflow(outcomes.call(planned, call)?),
        Action::ForEach(_) | Action::Phase(_) | Action::Nothing => Act::Value(Value::NULL),
        Action::Condition(_) => match outcomes.get("condition")? {
            FieldValue::Branch { value, meta, .. } => Act::Made { value: value.clone(), meta: meta.clone() },
            _ => return None,
        },
        Action::Trigger(trigger) => triggered(trigger, outcomes.value(PAYLOAD)?),
    })
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
    enter: impl FnMut(EnteredFolder<'_>) -> Result<(), String>,
) -> Result<Resolved, FieldErrors> {
    let planned = &plan.steps[number as usize];
    let of_question = |field: &StepField<'_>| match field.moment {
        Moment::Attempt => matches!(field.key, "cwd" | "env"),
        Moment::Judgement => {
            field.owner == FieldOwner::Agent || matches!(field.key, "evaluate.timeout" | "evaluate.prompt")
        }
        _ => false,
    };
    let mut fields = Fields::new(scope, session);
    let asked = step_fields(&plan.workflow, &planned.step).into_iter().filter(of_question);
    let outcomes = fields.evaluate_in_folder(plan, planned, asked, enter);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let prompt = outcomes.text("evaluate.prompt").unwrap_or_else(|| prompt.to_owned());
    let message = format!("{}{below}", prompt.trim_end());
    let agent = outcomes.agent(&plan.workflow, &judge.agent.value);
    Ok(Resolved {
        env: outcomes.variables("env"),
        cwd: outcomes.text("cwd"),
        timeout: outcomes.duration("evaluate.timeout"),
        ..Resolved::plain(Act::Agent { agent, message, thread: None })
    })
}

/// The output of a step, as its expectations see it.
#[derive(Debug, Clone)]
pub struct Observed<'l> {
    /// The value that the step left.
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
    let settled = fields.settled(expectations, DocumentKind::Step);
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
    left: &Observed<'_>,
    wanted: Wanted,
) -> Result<Vec<ExpectationOutcome>, &'static str> {
    let mut entries: Vec<(EcoString, Value)> = vec![("value".into(), left.value.clone())];
    entries.extend(left.output.map(|output| ("output".into(), output.clone())));
    entries.extend(left.meta.get(names::EXIT_CODE).map(|code| ("exit_code".into(), code.clone())));
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

/// Resolves a server of a workflow, to look at it outside of a run.
pub fn server(
    workflow: &Workflow,
    server: &model::Server,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<ResolvedServer, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let outcomes = fields.evaluate_all(None, server_fields(server));
    let errors = fields.errors;
    outcomes.server(workflow, server).filter(|_| errors.is_empty()).ok_or(errors)
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
