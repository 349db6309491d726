//! A workflow as its file says it: typed fields with their places, names not yet looked up.
//!
//! The loader makes it of a file; a [`crate::plan::Plan`] is made of it. It knows what is written, never what
//! a name will stand for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_lang::diag::{Span, nearest};
use threadline_lang::{
    Definitions, Document, Expression, Number, Origin, PathStep, Reference, ReferenceKind, SetError, Syntax,
    Template, Type, Undefined, Value, ValueShape,
};

use threadline_expect::{DocumentKind, Expectations};
pub use threadline_lang::source::Field;
use threadline_lang::source::SourceFile;

use crate::fields::{BASE_URL, NodeType, ProviderSpec};
use crate::json_path::JsonPath;
use crate::shell::UnknownPolicy;
use crate::worker_labels::WorkerLabels;

mod answer;
mod budget;
mod evaluate;
mod fields;
mod retry;
mod scenarios;

pub use answer::{ASK_AGAIN, AnswerFormat};
pub(crate) use answer::{ShortFormError, is_schema, schema_of};
pub use budget::{Budget, BudgetKey};
pub use evaluate::{
    Compared, Contains, Convergence, Direction, Evaluate, Evaluator, Judge, Measure, Place, UNCERTAIN,
    VERDICT_FORM, Verdicts, comparison, confidence, is_verdict, measure, number, numeric_comparison, pattern,
    scalar, tolerance,
};

pub use fields::{
    FieldKind, FieldOwner, Moment, SOURCE, StepField, agent_fields, limit_fields, server_fields, step_fields,
};

pub use retry::{Backoff, FailureFacts, FailureMatch, Retry, RetryConditions};
pub use scenarios::{CaseFilter, SCENARIOS, ScenarioSelection, case_name};

/// A whole file.
pub struct Workflow {
    /// The file it was read from.
    pub file: SourceFile,
    /// `name`, else the file's name without its extension.
    pub name: EcoString,
    /// The value of the key `description`.
    pub description: Option<EcoString>,
    /// The language in force: the limits, and the declared kinds of computed values.
    pub syntax: Syntax,
    /// What happens to references without a value in text and value fields.
    pub undefined: Undefined,
    /// `shell_safety`: what happens where a command cannot be followed
    pub unknown_commands: UnknownPolicy,
    /// The texts that stand otherwise in the file: places in them are those of the whole text.
    pub rewritten: Vec<Span>,
    /// The value of the key `inputs`.
    pub inputs: Vec<Input>,
    /// `context`: the author's own values, which may refer to each other.
    pub context: Option<Context>,
    /// `env`: variables of every step.
    pub env: Vec<Variable>,
    /// `env_file`: files with more variables, as they are written.
    pub env_files: Vec<Field<EcoString>>,
    /// The value of the key `secrets`.
    pub secrets: Vec<Secret>,
    /// The value of the key `agents`.
    pub agents: Vec<Agent>,
    /// The value of the key `servers`.
    pub servers: Vec<Server>,
    /// `computed`: declared kinds of computed values.
    pub computed: Vec<ComputedKind>,
    /// The value of the key `allow`.
    pub allow: Allow,
    /// `locks`: what no other run may use meanwhile.
    pub locks: Vec<Field<Template>>,
    /// `imports`: what earlier runs exported.
    pub imports: Vec<Import>,
    /// `exports`: names that later runs and callers may read.
    pub exports: Vec<(EcoString, Field<Document>)>,
    /// `steps`, or `nodes`
    pub steps: Vec<Arc<Step>>,
    /// What makes one step wait for another.
    pub shape: Shape,
    /// `timeout`: how long the steps may take together.
    pub timeout: Option<Setting<Duration>>,
    /// `budget`: what agents may use together.
    pub budget: Option<Budget>,
    /// `on` of `defaults`: which workers may perform what says nothing about that.
    pub labels: Option<WorkerLabels>,
    /// `on_failure`: runs when the steps have ended and the run has failed.
    pub on_failure: Vec<Arc<Step>>,
    /// `on_success`: runs when the steps have ended and the run has completed.
    pub on_success: Vec<Arc<Step>>,
    /// `finally`: runs at the end, whatever happened.
    pub finally: Vec<Arc<Step>>,
    /// The scenarios that its nodes were made of, in their order.
    pub scenarios: Vec<Scenario>,
}

/// A scenario with one of its targets: a node of the graph, whose items are the cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The id of the node.
    pub node: EcoString,
    /// The id of the scenario, which its nodes for other targets share.
    pub id: EcoString,
    /// The name of the scenario.
    pub name: EcoString,
    /// The value of the key `description`.
    pub description: Option<EcoString>,
    /// The name of the target, where there are several.
    pub target: Option<EcoString>,
    /// The values of the keys `tags` and `category`.
    pub tags: Vec<EcoString>,
    /// Whether it has `cases`; without, it is tried with one that is empty.
    pub has_cases: bool,
    /// How often each case is tried.
    pub times: u64,
    /// Why it is not tried.
    pub skip: Option<EcoString>,
    /// Where its name stands.
    pub span: Span,
}

/// What makes one step wait for another.
pub enum Shape {
    /// The order of the file.
    Steps,
    /// References, `needs` and these edges.
    Graph {
        /// The value of the key `edges`.
        edges: Vec<Edge>,
    },
    /// Phases: before the items, for each item, after them.
    MapReduce {
        /// `aggregates`: what is made of the results, by name.
        aggregates: Vec<(EcoString, Field<Document>)>,
    },
    /// What each state leads to.
    Loop(Box<Loop>),
}

/// A loop of states: what holds for all of them.
pub struct Loop {
    /// `initial`: the state it begins with. An iteration begins whenever that is entered.
    pub initial: Field<EcoString>,
    /// `max_steps`: so many states are executed at most.
    pub max_steps: Option<Setting<u64>>,
    /// The value of the key `max_iterations`.
    pub max_iterations: Option<Setting<u64>>,
    /// `max_edge_revisits`: how often the way from one state to another may be taken again.
    pub max_edge_revisits: Option<Setting<u64>>,
    /// `max_stall`: how often in a row a state may come to the same.
    pub max_stall: Option<Setting<u64>>,
    /// `backoff`: the pause before another iteration.
    pub backoff: Option<Setting<Duration>>,
    /// `maintain`: whether it begins again when it has come to a good end.
    pub maintain: bool,
}

/// What makes a step a state of a loop.
pub struct State {
    /// The name of the state.
    pub name: Field<EcoString>,
    /// `evaluate`: what its verdict is made of; by what it does when it is not said.
    pub evaluate: Option<Evaluate>,
    /// Where it leads.
    pub routes: Routes,
    /// `terminal`: how the loop ends here.
    pub terminal: Option<Terminal>,
    /// `max_retries`: how often it may follow itself.
    pub max_retries: Option<u64>,
    /// `param`: values that its fields read as `param.NAME`.
    pub params: Vec<(EcoString, Field<Document>)>,
}

/// How a loop ends in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// The loop ends well.
    Success,
    /// The loop ends badly.
    Failure,
}

/// A state that another leads to: its name, or `self`.
pub type Target = Field<EcoString>;

/// Where a state leads.
#[derive(Default)]
pub struct Routes {
    /// `on_VERDICT`, and the verdicts of `route`, in the order of the file.
    pub on: Vec<(EcoString, Target)>,
    /// `route` as a list: the first condition that holds, before everything else.
    pub conditions: Vec<(Field<Arc<Expression>>, Target)>,
    /// `_` of `route`, and `next`: every other verdict, but never an error.
    pub otherwise: Option<Target>,
    /// `on_error`, and `_error` of `route`
    pub error: Option<Target>,
    /// The value of the key `on_retry_exhausted`.
    pub exhausted: Option<Target>,
}

impl Routes {
    /// Every state it may lead to, with how that is written.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let on = self.on.iter().map(|(_, target)| target);
        let conditions = self.conditions.iter().map(|(_, target)| target);
        on.chain(conditions).chain(&self.otherwise).chain(&self.error).chain(&self.exhausted)
    }

    /// Whether any verdict is told from another.
    pub fn judges(&self) -> bool {
        !self.on.is_empty() || !self.conditions.is_empty()
    }

    /// The verdicts that an agent is asked to choose from, where nothing else names them: `yes`, `no`, and those that have
    /// routes.
    pub fn judged_verdicts(&self) -> Vec<EcoString> {
        let routed = self.on.iter().map(|(verdict, _)| verdict.clone());
        let routed = routed.filter(|verdict| !["yes", "no", UNCERTAIN].contains(&verdict.as_str()));
        ["yes".into(), "no".into()].into_iter().chain(routed).collect()
    }
}

/// From one node to another.
pub struct Edge {
    /// The node it leaves.
    pub from: Field<EcoString>,
    /// The node it leads to.
    pub to: Field<EcoString>,
    /// The branch of a conditional that it belongs to.
    pub branch: Option<Field<EcoString>>,
}

/// A node that another needs.
pub struct Need {
    /// The id of the node that is needed.
    pub node: EcoString,
    /// The branch that must have been taken, of a conditional.
    pub branch: Option<EcoString>,
    /// Where it stands.
    pub span: Span,
}

impl Workflow {
    /// Every step, those inside others too, in the order of the file.
    pub fn all_steps(&self) -> Vec<&Arc<Step>> {
        let mut all = Vec::new();
        let at_end = crate::plan::Part::OF_RUN.iter().flat_map(|part| self.run_part(*part));
        let mut open: Vec<&Arc<Step>> = self.steps.iter().chain(at_end).collect();
        open.reverse();
        while let Some(step) = open.pop() {
            all.push(step);
            open.extend(crate::plan::Part::ALL.iter().flat_map(|part| step.part(*part)).rev());
        }
        all
    }

    /// The steps that run when the outcome of the run is known.
    pub fn run_part(&self, part: crate::plan::Part) -> &[Arc<Step>] {
        match part {
            crate::plan::Part::OnFailure => &self.on_failure,
            crate::plan::Part::OnSuccess => &self.on_success,
            crate::plan::Part::Finally => &self.finally,
            crate::plan::Part::Do | crate::plan::Part::Fix => &[],
        }
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == *name)
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == *name)
    }

    /// The servers whose tools an agent may call, each once.
    pub fn servers_of_agent(&self, name: &str) -> impl Iterator<Item = &Server> {
        let agent = self.agent(name);
        self.servers.iter().filter(move |known| {
            let tools = agent.into_iter().flat_map(|agent| &agent.tools);
            let is_it = |tool: &AgentTool| matches!(tool, AgentTool::Server { server, .. } if server.value == known.name);
            tools.into_iter().any(is_it)
        })
    }

    /// Whether a reference of a step, or of what all steps share, reads what stands in the file: a literal
    /// text of `context`, or a literal parameter. Everything else is data.
    pub fn is_literal(&self, step: Option<&Step>, reference: &Reference) -> bool {
        let Some(name) = reference.first.as_ref().filter(|_| reference.kind == ReferenceKind::Path) else {
            return false;
        };
        let mut context = self.context.iter().flat_map(|context| &context.entries);
        let mut params = step.into_iter().flat_map(|step| &step.state).flat_map(|state| &state.params);
        match &*reference.root {
            "context" => context.any(|entry| entry.name == *name && entry.literal.is_some()),
            "param" => params.any(|(known, value)| known == name && value.value.as_fixed().is_some()),
            _ => false,
        }
    }

    /// Whether a value decides the host of a URL. What stands in the environment was put there by whoever
    /// runs the workflow.
    pub fn is_host_data(&self, step: Option<&Step>, url: &Template) -> bool {
        let has_host = |written: &str, begins_with_value: bool| {
            let rest =
                if begins_with_value { Some(written) } else { written.split_once("://").map(|url| url.1) };
            rest.is_some_and(|rest| rest.contains(['/', '?', '#']))
        };
        let references = url.references_until(has_host);
        references.iter().any(|reference| reference.root != "env" && !self.is_literal(step, reference))
    }

    /// What becomes of a step that was running when Threadline was killed. An answer that costs money is not asked for
    /// twice unless somebody says so.
    pub fn on_crash(&self, step: &Step) -> OnCrash {
        let is_paid = match &step.action {
            Action::Agent { agent, .. } => {
                self.agent(&agent.value).is_some_and(|agent| agent.provider.is_paid)
            }
            _ => false,
        };
        step.on_crash.unwrap_or(if is_paid { OnCrash::Ask } else { OnCrash::Rerun })
    }

    /// Whether what the agent of a step answers is kept for later runs.
    pub fn keeps_answers(&self, step: &Step) -> bool {
        let of_agent = |name: &str| self.agent(name).is_some_and(|agent| agent.cache);
        match &step.action {
            Action::Agent { agent, cache, .. } => cache.unwrap_or_else(|| of_agent(&agent.value)),
            _ => false,
        }
    }

    /// The hosts that requests may go to although a value names them and they are private: those of `allow`,
    /// and those of URLs that stand in the file as defaults.
    pub fn known_hosts(&self) -> Vec<EcoString> {
        let defaults = self.inputs.iter().filter_map(|input| input.default.as_ref()?.as_str());
        let context = self.context.iter().flat_map(|context| &context.entries);
        let texts = defaults.chain(context.filter_map(|entry| entry.written.value.as_fixed()?.as_str()));
        let written = texts.filter_map(crate::url::host_name).map(EcoString::from);
        self.allow.hosts.iter().cloned().chain(written).collect()
    }

    /// Puts a value into `context`, in place of what the file says. The first step of the path is one of its
    /// names. Unless the caller vouches for it, the value is no text of the author's and cannot stand as
    /// code.
    pub fn set_context(&mut self, path: &[PathStep], value: &Value, trusted: bool) -> Result<(), SetError> {
        let missing = SetError::NoSuchPlace { taken: 0 };
        let context = self.context.as_mut().ok_or(missing)?;
        let Some(name) = path.first().and_then(PathStep::name) else { return Err(missing) };
        context.definitions = Arc::new(context.definitions.with(path, value.clone())?);
        let entry = context.entries.iter_mut().find(|entry| entry.name == *name).ok_or(missing)?;
        if path.len() == 1 {
            entry.literal = value.as_str().filter(|_| trusted).map(EcoString::from);
            entry.written.value = Document::fixed(value.clone());
        }
        Ok(())
    }
}

/// The author's own values.
pub struct Context {
    /// The entries, evaluated when they are read.
    pub definitions: Arc<Definitions>,
    /// What each entry can read and whether it is a literal text, in order.
    pub entries: Vec<ContextEntry>,
}

/// One of the author's own values.
pub struct ContextEntry {
    /// The name of the entry.
    pub name: EcoString,
    /// The value as it is written.
    pub written: Field<Document>,
    /// Where the key stands.
    pub key_span: Span,
    /// The text, when it is one without a reference: only such an entry may stand as code in shell text.
    pub literal: Option<EcoString>,
}

/// A value of the caller's.
pub struct Input {
    /// The name of the input.
    pub name: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// `type`: anything when there is none.
    pub kind: Option<Type>,
    /// `required`, which it is unless there is a default.
    pub required: bool,
    /// The value of the key `default`.
    pub default: Option<Value>,
    /// The value of the key `description`.
    pub description: Option<EcoString>,
}

impl Input {
    /// The type that a word of `type:` stands for.
    pub(crate) fn type_of(word: &str) -> Option<Type> {
        match word {
            "text" => Some(Type::Text),
            "int" => Some(Type::Int),
            "number" => Some(Type::Decimal),
            "bool" => Some(Type::Bool),
            "list" => Some(Type::List),
            "object" => Some(Type::Object),
            _ => None,
        }
    }

    /// Whether a value is of a type that an input asks for. A decimal is any number.
    pub fn accepts(kind: Type, value: &Value) -> bool {
        value.kind() == kind || kind == Type::Decimal && value.kind() == Type::Int
    }
}

/// Why values are not the inputs of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputError {
    /// There is no such input.
    Unknown {
        /// The name of the input.
        name: EcoString,
        /// The nearest there is.
        nearest: Option<EcoString>,
    },
    /// It is of another type.
    WrongType {
        /// The name of the input.
        name: EcoString,
        /// What it must be.
        kind: Type,
        /// What it was.
        given: Type,
    },
    /// It is required, and not given.
    Missing {
        /// The name of the input.
        name: EcoString,
        /// What it is for.
        description: Option<EcoString>,
    },
    /// They are too large together.
    TooLarge,
}

impl Workflow {
    /// Every input: what is given, of the declared types, and the defaults of the others. All problems at
    /// once.
    pub fn inputs_of(&self, given: &[(EcoString, Value)]) -> Result<Value, Vec<InputError>> {
        let mut problems = Vec::new();
        for (name, value) in given {
            match self.inputs.iter().find(|input| input.name == *name) {
                None => {
                    let names = self.inputs.iter().map(|input| input.name.as_str());
                    let nearest = nearest(name, names).map(EcoString::from);
                    problems.push(InputError::Unknown { name: name.clone(), nearest });
                }
                Some(Input { kind: Some(kind), .. }) if !Input::accepts(*kind, value) => {
                    let (name, kind, given) = (name.clone(), *kind, value.kind());
                    problems.push(InputError::WrongType { name, kind, given });
                }
                Some(_) => {}
            }
        }
        let mut values = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let value = given.iter().find(|(name, _)| *name == input.name).map(|(_, value)| value.clone());
            match value.or_else(|| input.default.clone()) {
                Some(value) => values.push((input.name.clone(), value)),
                None if input.required => {
                    let (name, description) = (input.name.clone(), input.description.clone());
                    problems.push(InputError::Missing { name, description });
                }
                None => values.push((input.name.clone(), Value::NULL)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Value::object(values).map_err(|_| vec![InputError::TooLarge])
    }
}

/// What the last completed run of another workflow exported.
pub struct Import {
    /// The name it is read by.
    pub name: EcoString,
    /// The name of the workflow.
    pub workflow: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// What it exports, where somebody has looked at a run of it.
    pub exports: Option<ValueShape>,
}

/// A variable of a step's environment.
pub struct Variable {
    /// The name of the variable.
    pub name: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// Its value; null takes the variable away.
    pub value: Option<Field<Template>>,
}

/// Who answers an `agent` step.
pub struct Agent {
    /// The name of the agent.
    pub name: EcoString,
    /// How it is asked.
    pub provider: &'static ProviderSpec,
    /// What the provider needs for that, in the order of its row.
    pub settings: Vec<AgentSetting>,
    /// `model`, as a name for the meta data.
    pub model: Option<EcoString>,
    /// The value of the key `tools`.
    pub tools: Vec<AgentTool>,
    /// Whether its answers are kept for later runs.
    pub cache: bool,
    /// `on`: which workers may ask it.
    pub labels: Option<WorkerLabels>,
    /// Where the name stands.
    pub span: Span,
}

/// Whose requests a provider counts together: those to one address with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAccount {
    /// The provider and its address.
    pub address: EcoString,
    /// The names of the secrets that the key is read from.
    pub secrets: Vec<EcoString>,
}

impl Agent {
    /// The account that an agent behind an API is asked with. An address that is not written out is nobody's but its own.
    pub fn account(&self) -> Option<AgentAccount> {
        let usual = self.provider.name.usual_url()?;
        let text = |key: &str| {
            self.settings.iter().find_map(|setting| match &setting.value {
                SettingTemplate::Text(text) if setting.key == key => Some(text),
                _ => None,
            })
        };
        let url = match text(BASE_URL) {
            Some(written) => written.value.as_plain()?.into_owned(),
            None => usual.to_owned(),
        };
        let key = text("api_key").map(|key| key.value.references()).unwrap_or_default();
        let secrets = key.into_iter().filter_map(|reference| reference.first).collect();
        let provider = self.provider.word.name;
        Some(AgentAccount { address: eco_format!("{provider} {}", url.trim_end_matches('/')), secrets })
    }
}

/// What an agent may call: an entry of `tools`.
pub enum AgentTool {
    /// Tools of a server.
    Server {
        /// The name of the server.
        server: Field<EcoString>,
        /// The tools that it may call; all of them where there are none. A `*` at the end stands for any rest.
        allow: Vec<Field<EcoString>>,
        /// The tools that it may not call although they are allowed.
        deny: Vec<Field<EcoString>>,
    },
    /// A tool that needs no server.
    BuiltIn(BuiltInTool),
    /// A workflow of this project.
    Workflow {
        /// Its file, as it is written: relative to the folder of the file that names it.
        path: Field<EcoString>,
        /// The name of the tool.
        name: EcoString,
        /// What the agent is told about it, where that is not the description of the workflow.
        description: Option<EcoString>,
    },
}

impl AgentTool {
    /// Whether `pattern`, an entry of `allow` or `deny`, names the tool of a server.
    pub fn is_named(pattern: &str, tool: &str) -> bool {
        pattern.strip_suffix('*').map_or(pattern == tool, |start| tool.starts_with(start))
    }
}

/// A tool of agents that needs no server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltInTool {
    /// Reads a file of the project.
    ReadFile,
    /// Writes a file of the project.
    WriteFile,
    /// Sends a GET request.
    Http,
}

impl BuiltInTool {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::ReadFile, Self::WriteFile, Self::Http];

    /// The name, in a file and for an agent.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::Http => "http",
        }
    }
}

impl Agent {
    /// A setting that is a text.
    pub fn text(&self, key: &str) -> Option<&Field<Template>> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        match &setting.value {
            SettingTemplate::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// One of the keys that an agent has because of its provider.
pub struct AgentSetting {
    /// Its key in the row of the provider.
    pub key: &'static str,
    /// What is written there.
    pub value: SettingTemplate,
}

/// What is written in a setting of an agent.
pub enum SettingTemplate {
    /// A program and its arguments.
    Program(Vec<Field<Template>>),
    /// Text with references.
    Text(Field<Template>),
    /// A value of any type.
    Value(Field<Document>),
}

/// An MCP server.
pub struct Server {
    /// The name of the server.
    pub name: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// How it is reached.
    pub reach: Reach,
    /// What the results of its tools are, by their names, where somebody has asked the server.
    pub results: BTreeMap<EcoString, ValueShape>,
}

/// How a server is reached.
pub enum Reach {
    /// Over the stdin and stdout of a program.
    Program {
        /// The program and its arguments.
        command: Vec<Field<Template>>,
        /// The value of the key `env`.
        env: Vec<Variable>,
        /// The value of the key `cwd`.
        cwd: Option<Field<Template>>,
    },
    /// A server that is reached over HTTP.
    Url {
        /// The address of the server.
        url: Field<Template>,
        /// `headers`, their names in lower case
        headers: Vec<(EcoString, Field<Template>)>,
    },
}

/// The root of secrets.
pub const SECRETS_ROOT: &str = "secrets";

/// What stands in place of a secret wherever it is recorded or shown.
pub const SECRET_MASK: &str = "***";

/// A value that is never recorded or shown. The model knows where it comes from, never what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name: `secrets.NAME`.
    pub name: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// Where the value comes from.
    pub source: SecretSource,
}

/// Where the value of a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// `env`: a variable of the environment.
    Variable(EcoString),
    /// `file`: the path of a file.
    File(EcoString),
    /// `command`: a program with its arguments, which prints it.
    Command(Vec<EcoString>),
}

/// What happens to an output that contains a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecretOutput {
    /// The step fails.
    #[default]
    Fail,
    /// The output is masked.
    Mask,
}

/// A declared kind of computed value: the argument as JSON on stdin, JSON back.
pub struct ComputedKind {
    /// The name of the computed kind.
    pub name: EcoString,
    /// The program and its arguments, fixed.
    pub command: Vec<EcoString>,
    /// Where the name stands.
    pub span: Span,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// What a workflow may do beyond the usual.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// `commands`: `cmd:` may run.
    pub commands: bool,
    /// `files`: folders outside the project that `file:` and `write_file` may use.
    pub files: Vec<EcoString>,
    /// `hosts`: hosts with private addresses that values may name in URLs.
    pub hosts: Vec<EcoString>,
}

/// One unit of work.
pub struct Step {
    /// The value of the key `id`.
    pub id: Option<Field<EcoString>>,
    /// `name`: a title for people.
    pub name: Option<EcoString>,
    /// The whole step in the file, and the keys that lead to it.
    pub origin: Origin,
    /// What it does.
    pub action: Action,
    /// `tool`, when it names a built-in one: the step does what that tool does.
    pub tool: Option<Field<EcoString>>,
    /// The value of the key `when`.
    pub when: Option<Field<Arc<Expression>>>,
    /// `capture`, also written `capture_output`
    pub capture: Option<Field<EcoString>>,
    /// The value of the key `capture_format`.
    pub format: CaptureFormat,
    /// The value of the key `timeout`.
    pub timeout: Option<Setting<Duration>>,
    /// The value of the key `idle_timeout`.
    pub idle_timeout: Option<Setting<Duration>>,
    /// The value of the key `retry`.
    pub retry: Option<Retry>,
    /// The value of the key `budget`, of an agent, a call or a list.
    pub budget: Option<Budget>,
    /// The value of the key `on_crash`.
    pub on_crash: Option<OnCrash>,
    /// `on`: which workers may perform it.
    pub labels: Option<WorkerLabels>,
    /// The value of the key `on_failure`.
    pub on_failure: Vec<Arc<Step>>,
    /// The value of the key `on_success`.
    pub on_success: Vec<Arc<Step>>,
    /// The value of the key `finally`.
    pub finally: Vec<Arc<Step>>,
    /// The value of the key `continue_on_error`.
    pub continue_on_error: bool,
    /// The value of the key `env`.
    pub env: Vec<Variable>,
    /// The value of the key `cwd`.
    pub cwd: Option<Field<Template>>,
    /// The value of the key `shell_program`.
    pub shell_program: Option<Field<EcoString>>,
    /// The value of the key `strict_shell`.
    pub strict_shell: bool,
    /// `trust`: why its command is safe although it cannot be followed
    pub trust: Option<EcoString>,
    /// `max_output`, in bytes
    pub max_output: Option<Setting<u64>>,
    /// The value of the key `secret_output`.
    pub secret_output: SecretOutput,
    /// The value of the key `expect`.
    pub expect: Option<Field<Arc<Expectations>>>,
    /// `needs`, of a node
    pub needs: Vec<Need>,
    /// What makes it a state of a loop.
    pub state: Option<Box<State>>,
}

impl Step {
    /// The type that its `meta.node_type` names. A step that names a built-in tool is a `tool`, whatever that
    /// tool does.
    pub fn node_type(&self) -> NodeType {
        if self.tool.is_some() { NodeType::Tool } else { self.action.node_type() }
    }

    /// Whether something is evaluated before it begins that may make it be skipped.
    pub fn decides(&self) -> bool {
        let guarded =
            matches!(&self.action, Action::Trigger(trigger) if !trigger.enabled || trigger.filters.is_some());
        self.when.is_some() || guarded
    }

    /// Whether no exit code is a failure by itself: its expectation says which are right, or what judges the
    /// state what each means. An agent that fails has no answer to be judged, unless that is what is asked
    /// about.
    pub fn expects_exit_code(&self) -> bool {
        let of_agent = || match self.evaluator() {
            Some(Evaluator::ExitCode { .. }) => true,
            Some(Evaluator::Expect(expect)) => expect.value.reads("exit_code"),
            _ => false,
        };
        let of_state = self.state.is_some() && (!matches!(self.action, Action::Agent { .. }) || of_agent());
        of_state || self.expect.as_ref().is_some_and(|expect| expect.value.reads("exit_code"))
    }

    /// How its verdict is found, of a state.
    pub fn evaluator(&self) -> Option<&Evaluator> {
        let state = self.state.as_ref()?;
        Some(match (&state.evaluate, &self.action) {
            (Some(evaluate), _) => &evaluate.by,
            // What only goes on is not judged by its exit code.
            (None, Action::Shell { .. } | Action::Argv(_)) if state.routes.judges() => &BY_EXIT_CODE,
            (None, _) => &Evaluator::Outcome,
        })
    }

    /// Whether its verdict decides anything: not that of a state that only goes on.
    pub fn is_judged(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.evaluate.is_some() || state.routes.judges())
    }
}

/// 0 is yes, 1 is no.
static BY_EXIT_CODE: Evaluator = Evaluator::ExitCode { yes: Vec::new(), no: Vec::new() };

/// A number or duration that can hold references.
pub enum Setting<T> {
    /// Left out: the default in the table of keys.
    Default(T),
    /// Written without a reference.
    Fixed(Field<T>),
    /// Written with references, and known when the step starts.
    Dynamic(Field<Document>),
}

impl<T: Clone> Setting<T> {
    /// The value, unless it holds references.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Default(value) => Some(value.clone()),
            Self::Fixed(field) => Some(field.value.clone()),
            Self::Dynamic(_) => None,
        }
    }
}

/// What a step does.
pub enum Action {
    /// `shell`: text for a shell. With `interpolate: false` it is used as it is.
    Shell {
        /// The text of the script.
        text: Field<EcoString>,
        /// Whether references in it are bound.
        interpolate: bool,
    },
    /// `argv`: a program and its arguments.
    Argv(Vec<Field<Template>>),
    /// `agent` and `message`, also written `claude: text`
    Agent {
        /// The name of the agent.
        agent: Field<EcoString>,
        /// What it is told.
        message: Field<Template>,
        /// The form that its answer must have.
        answer: Option<Arc<AnswerFormat>>,
        /// The name of the conversation that it continues.
        thread: Option<Field<Template>>,
        /// Whether its answer is kept for later runs; what the agent says where there is nothing.
        cache: Option<bool>,
    },
    /// The action `http`.
    Http(Http),
    /// `tool` of a server, and `params`
    Tool(ToolCall),
    /// The action `write_file`.
    WriteFile(WriteFile),
    /// The action `value`.
    Value(Field<Document>),
    /// The action `assert`.
    Assert(Box<Assertion>),
    /// `fail`: the step fails with this message.
    Fail(Field<Template>),
    /// `wait`: nothing happens for so long.
    Wait(Setting<Duration>),
    /// `workflow` and `with`
    Workflow(Call),
    /// `foreach` and `do`, or `map`
    ForEach(Box<ForEach>),
    /// `setup`, `reduce` or `merge`
    Phase(Phase),
    /// The action `condition`.
    Condition(Condition),
    /// The action `trigger`.
    Trigger(Trigger),
    /// A state without an action: it is only judged.
    Nothing,
}

impl Action {
    /// The type of a step that does this.
    pub fn node_type(&self) -> NodeType {
        match self {
            Self::Shell { .. } | Self::Argv(_) => NodeType::Shell,
            Self::Agent { .. } => NodeType::Agent,
            Self::Http(_) => NodeType::Http,
            Self::Tool(_) => NodeType::Tool,
            Self::WriteFile(_) => NodeType::WriteFile,
            Self::Value(_) => NodeType::Value,
            Self::Assert(_) => NodeType::Assert,
            Self::Fail(_) => NodeType::Fail,
            Self::Wait(_) => NodeType::Wait,
            Self::Workflow(_) => NodeType::Workflow,
            Self::ForEach(each) if each.is_map => NodeType::Map,
            Self::ForEach(_) => NodeType::ForEach,
            Self::Phase(_) => NodeType::Phase,
            Self::Condition(_) => NodeType::Conditional,
            Self::Trigger(_) => NodeType::Trigger,
            Self::Nothing => NodeType::State,
        }
    }

    /// Whether it does something in the world: what only makes a value can be done again and nobody notices.
    /// What the steps inside of it do is not meant.
    pub fn acts(&self) -> bool {
        match self {
            Self::Shell { .. }
            | Self::Argv(_)
            | Self::Agent { .. }
            | Self::Http(_)
            | Self::Tool(_)
            | Self::WriteFile(_)
            | Self::Workflow(_) => true,
            Self::ForEach(each) => matches!(each.source, Source::Shell { .. }),
            Self::Value(_)
            | Self::Assert(_)
            | Self::Fail(_)
            | Self::Wait(_)
            | Self::Phase(_)
            | Self::Condition(_)
            | Self::Trigger(_)
            | Self::Nothing => false,
        }
    }
}

/// A condition that decides between branches.
pub struct Condition {
    /// What is evaluated.
    pub expression: Field<Arc<Expression>>,
    /// As it is written.
    pub written: EcoString,
}

/// What starts a graph.
pub struct Trigger {
    /// The value of the key `type`.
    pub kind: TriggerKind,
    /// The value of the key `enabled`.
    pub enabled: bool,
    /// `filters`: what must hold of the payload.
    pub filters: Option<Field<Arc<Expectations>>>,
    /// Everything about it, as it is written.
    pub config: Value,
    /// The payload that the graph is started with, which the trigger leaves.
    pub payload: Field<Arc<Expression>>,
}

/// What makes a trigger fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerKind {
    /// Somebody runs the workflow.
    Manual,
    /// A time comes.
    Schedule,
    /// A request arrives.
    Webhook,
}

impl TriggerKind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
        }
    }
}

/// Expectations about a document.
pub struct Assertion {
    /// What the document is of: an answer, or any value.
    pub kind: DocumentKind,
    /// The document.
    pub document: Field<Document>,
    /// The value of the key `facts`.
    pub facts: Option<Field<Document>>,
    /// The value of the key `latency`.
    pub latency: Option<Field<Document>>,
    /// The value of the key `expect`.
    pub expect: Field<Arc<Expectations>>,
    /// The value of the key `rulings`.
    pub rulings: Option<Field<Document>>,
    /// The value of the key `quorum`.
    pub quorum: Option<u64>,
    /// `open: keep`: whether the step succeeds although only a judge can say more.
    pub keeps_open: bool,
}

/// A request to a server. How long it may take is the `timeout` of its step.
pub struct Http {
    /// The value of the key `method`.
    pub method: &'static str,
    /// The value of the key `url`.
    pub url: Field<Template>,
    /// `headers`, their names in lower case
    pub headers: Vec<(EcoString, Field<Template>)>,
    /// The value of the key `query`.
    pub query: Option<Field<Document>>,
    /// The value of the key `body`.
    pub body: Option<Field<Document>>,
}

/// A tool of a server, and what it is given.
pub struct ToolCall {
    /// The name of the server.
    pub server: EcoString,
    /// The name of the tool there.
    pub tool: EcoString,
    /// Where both stand.
    pub name: Field<EcoString>,
    /// The value of the key `params`.
    pub params: Option<Field<Document>>,
}

/// Another workflow, and what it is given.
pub struct Call {
    /// Its file, as it is written: relative to the folder of the file that calls it.
    pub path: Field<EcoString>,
    /// The value of the key `with`.
    pub with: Vec<Given>,
}

/// A value for an input of a called workflow.
pub struct Given {
    /// The name of the input.
    pub name: EcoString,
    /// Where the name stands.
    pub span: Span,
    /// The value that is passed.
    pub value: Field<Document>,
}

/// A file to write.
pub struct WriteFile {
    /// The value of the key `path`.
    pub path: Field<Template>,
    /// The value of the key `content`.
    pub content: Field<Document>,
    /// The value of the key `format`.
    pub format: FileFormat,
    /// `mode`, such as 0o644
    pub mode: Option<u32>,
    /// The value of the key `create_dirs`.
    pub create_dirs: bool,
}

/// Steps for each element of a list.
pub struct ForEach {
    /// Where the elements come from.
    pub source: Source,
    /// `json_path`: which parts of a document are the elements.
    pub json_path: Option<Field<JsonPath>>,
    /// The value of the key `filter`.
    pub filter: Option<Filter>,
    /// Which elements are taken of those, by their names as cases.
    pub named: Option<CaseFilter>,
    /// The value of the key `sort_by`.
    pub sort_by: Vec<SortKey>,
    /// `distinct`: of elements for which this is the same the first is taken.
    pub distinct: Option<Field<Arc<Expression>>>,
    /// `offset`: so many elements are left out at the beginning.
    pub offset: Option<Setting<u64>>,
    /// The value of the key `max_items`.
    pub max_items: Option<Setting<u64>>,
    /// `parallel`, of a map `max_parallel`: so many at once.
    pub parallel: Option<Setting<u64>>,
    /// What else bounds how many are under way at once.
    pub pool: ItemPool,
    /// `do`, of a map `agent_template`
    pub steps: Vec<Arc<Step>>,
    /// What becomes of elements whose steps fail.
    pub policy: Policy,
    /// `worktree`: whether each element has a worktree of its own.
    pub worktree: bool,
    /// Whether it is the map of a map-reduce: then its value says how many there were, and the results are
    /// read apart.
    pub is_map: bool,
}

/// What bounds the number of items of a list that are under way at once, besides the list itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemPool {
    /// Nothing does.
    Own,
    /// The items of all such lists of the run share its jobs: no more are under way than there are jobs, so that each runs
    /// to its end before another one begins.
    Jobs,
    /// The last step of each item is a list that shares the jobs of the run.
    Around,
}

/// The number of items under way in lists that share the jobs of a run, where its caller names no number of jobs.
pub const DEFAULT_JOBS: u64 = 8;

/// Where the elements of a list come from.
pub enum Source {
    /// A value: a list, or of a map also text, the name of a file.
    Value(Field<Document>),
    /// The items are read from a file.
    File {
        /// The path of the file.
        path: Field<Template>,
        /// How it is read; by its name when it is not said.
        format: Option<SourceFormat>,
    },
    /// Each file of a pattern is an item.
    Files(Field<Template>),
    /// What a command prints.
    Shell {
        /// Text for a shell.
        text: Field<EcoString>,
        /// How it is read.
        format: Option<SourceFormat>,
    },
}

/// How a text is read as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    /// A JSON document.
    Json,
    /// A JSON document on each line.
    JsonLines,
    /// A text on each line.
    Lines,
    /// Rows of values, the first of which names the columns.
    Csv,
}

/// Which elements are taken.
pub enum Filter {
    /// Those for which a condition holds.
    Condition(Field<Arc<Expression>>),
    /// Those that meet an expectation.
    Expectation(Field<Arc<Expectations>>),
}

/// What elements are sorted by.
pub struct SortKey {
    /// A value of the element.
    pub by: Field<Arc<Expression>>,
    /// Whether `DESC` reverses the order.
    pub descending: bool,
    /// `NULLS FIRST` or `NULLS LAST`
    pub nulls_first: Option<bool>,
}

/// What becomes of elements whose steps fail.
pub struct Policy {
    /// `retry`, of a map
    pub retry: Option<Retry>,
    /// `timeout`, of a map
    pub timeout: Option<Setting<Duration>>,
    /// The value of the key `on_item_failure`.
    pub on_item_failure: OnItemFailure,
    /// The value of the key `continue_on_failure`.
    pub continue_on_failure: bool,
    /// The value of the key `max_failures`.
    pub max_failures: Option<Setting<u64>>,
    /// `failure_threshold`, in percent
    pub failure_threshold: Option<Setting<Number>>,
}

/// What happens when an item fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnItemFailure {
    /// It is tried again, then left out.
    Retry,
    /// The others go on.
    Skip,
    /// No other begins.
    Stop,
}

/// Steps with a scope of their own, before or after the items.
pub struct Phase {
    /// Which of the phases it is.
    pub kind: PhaseKind,
    /// The steps of the phase, in order.
    pub steps: Vec<Arc<Step>>,
    /// `variables`: values that later phases may read, evaluated at its end.
    pub variables: Vec<(EcoString, Field<Document>)>,
    /// `exports`: names of its steps that later phases may read as they are.
    pub exports: Vec<Field<EcoString>>,
    /// The value of the key `timeout`.
    pub timeout: Option<Duration>,
}

/// The phases of a map-reduce beside the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// Before the items.
    Setup,
    /// The phase after the items.
    Reduce,
    /// At the end.
    Merge,
}

impl PhaseKind {
    /// As it is written.
    pub fn key(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Reduce => "reduce",
            Self::Merge => "merge",
        }
    }
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileFormat {
    /// The text form.
    #[default]
    Text,
    /// JSON with two spaces of indentation.
    Json,
    /// YAML in block style.
    Yaml,
}

/// What becomes of a step's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaptureFormat {
    /// Text without its final line breaks.
    #[default]
    Text,
    /// A JSON document.
    Json,
    /// A list of lines.
    Lines,
    /// A number, read from the trimmed output.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// What happens to a step that was running when Threadline was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrash {
    /// It runs again.
    #[default]
    Rerun,
    /// It has failed.
    Fail,
    /// The run waits until somebody says.
    Ask,
}
