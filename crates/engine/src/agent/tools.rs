//! The tools that an agent may call: what it is told about them, and which effect a call is.
//!
//! What an agent writes is data. A call is an object that is compared with the schema of its tool, and goes to that tool
//! as it is; nothing of it becomes a command, a path outside of the project, or the name of another tool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use threadline_expect::JsonSchema;
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::{AgentTool, BuiltInTool, Input, Workflow};
use threadline_lang::diag::{nearest, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Value};

use super::AgentSurroundings;
use super::chat::{ShownTool, ToolOutcome, ToolRequest};
use crate::evaluate::{HostPolicy, Request, ResolvedCall, ResolvedServer, ResolvedToolCall};
use crate::execute::effect::{
    Attempt, CallEnd, CallSpec, Effect, EffectLimits, EffectResult, FileSpec, ListingSpec, ReadSpec,
    RequestSpec, ToolSpec,
};
use crate::execute::response;
use crate::execute::result::{StepResult, Timing};
use crate::spend::Spend;

/// The longest result that an agent is shown, in bytes. A longer one is in the journal, and the agent is told so.
const MAX_SHOWN: usize = 200_000;

/// The longest name of a tool that both APIs take.
const MAX_NAME: usize = 64;

/// How long a call may take where the step has no time limit.
const CALL_TIMEOUT: Duration = Duration::from_mins(10);

/// What an agent may call, with every value in its place.
#[derive(Debug, Clone)]
pub enum ToolOffer {
    /// Tools of a server.
    Server {
        /// The server that has them.
        server: ResolvedServer,
        /// The tools that it may call; all of them where there are none.
        allow: Vec<EcoString>,
        /// The tools that it may not call.
        deny: Vec<EcoString>,
    },
    /// A tool that needs no server.
    BuiltIn {
        /// Which built-in tool it is.
        tool: BuiltInTool,
        /// Where its requests may go.
        hosts: HostPolicy,
    },
    /// A workflow that the agent may call.
    Workflow {
        /// The name of the tool.
        name: EcoString,
        /// What the agent is told about it.
        description: Option<EcoString>,
        /// The workflow itself.
        workflow: OfferedWorkflow,
    },
}

/// A workflow that an agent may call.
#[derive(Clone)]
pub struct OfferedWorkflow(pub Arc<Workflow>);

impl fmt::Debug for OfferedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.file.name())
    }
}

/// The tools of an agent, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Toolbox {
    offers: Vec<ToolOffer>,
    /// The number of offers whose tools are known.
    listed: usize,
    tools: Vec<OfferedTool>,
}

/// A tool, as the agent sees it and as it is called.
#[derive(Debug, Clone)]
struct OfferedTool {
    shown: ShownTool,
    /// Which offer it comes from.
    offer: usize,
    /// Its name where it comes from.
    own_name: EcoString,
}

/// What came of a call.
pub struct CallResult {
    /// The value, or why there is none. The agent is told either.
    pub(crate) result: StepResult,
    pub(crate) timing: Option<Timing>,
    pub(crate) meta: Vec<(&'static str, Value)>,
    /// What agents used for it.
    pub(crate) spent: Spend,
}

impl Toolbox {
    pub(crate) fn new(offers: Vec<ToolOffer>) -> Self {
        let mut toolbox = Self { offers, ..Self::default() };
        toolbox.add_known();
        toolbox
    }

    /// The tools that the agent is shown.
    pub(crate) fn shown(&self) -> Vec<ShownTool> {
        self.tools.iter().map(|tool| tool.shown.clone()).collect()
    }

    /// The server that has to be asked for its tools next.
    pub(crate) fn unlisted(&self) -> Option<&ResolvedServer> {
        match self.offers.get(self.listed)? {
            ToolOffer::Server { server, .. } => Some(server),
            ToolOffer::BuiltIn { .. } | ToolOffer::Workflow { .. } => None,
        }
    }

    /// The effect that asks a server for its tools.
    pub(crate) fn listing(server: &ResolvedServer, limits: EffectLimits) -> Effect {
        Effect::ListTools(ListingSpec { server: server.clone(), limits: call_limits(limits) })
    }

    /// Takes what the server said that was asked last: its tools as it describes them. A name in `allow` or `deny` that
    /// no tool has is a failure: the agent would have other tools than the file says.
    pub(crate) fn list(&mut self, described: &Value) -> Result<(), Failure> {
        let Some(ToolOffer::Server { server, allow, deny }) = self.offers.get(self.listed) else {
            return Ok(());
        };
        let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
        let tools = described.as_list().unwrap_or_default();
        let names: Vec<String> = tools.iter().filter_map(|tool| text(tool, "name")).collect();
        for pattern in allow.iter().chain(deny) {
            if !names.iter().any(|name| AgentTool::is_named(pattern, name)) {
                let rest = instead(pattern, names.iter().map(String::as_str));
                let message = format!("the server `{}` has no tool `{pattern}`; {rest}", server.name);
                return Err(Failure::new(FailureKind::Tool, message));
            }
        }
        let is_among = |patterns: &[EcoString], name: &str| {
            patterns.iter().any(|pattern| AgentTool::is_named(pattern, name))
        };
        let (prefix, mut found) = (server.name.clone(), Vec::new());
        for tool in tools {
            let Some(name) = text(tool, "name") else { continue };
            if (allow.is_empty() || is_among(allow, &name)) && !is_among(deny, &name) {
                let parameters = tool.get("inputSchema").cloned().unwrap_or_else(no_parameters);
                found.push((name, text(tool, "description").unwrap_or_default(), parameters));
            }
        }
        let offer = self.listed;
        for (own, description, parameters) in found {
            self.add(offer, &own, &format!("{prefix}__{own}"), description, parameters);
        }
        self.listed += 1;
        self.add_known();
        Ok(())
    }

    /// Takes over what is known of the same tools.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.listed = other.listed;
        self.tools.clone_from(&other.tools);
    }

    /// Adds the tools of offers that nobody has to be asked about.
    fn add_known(&mut self) {
        while let Some(offer) = self.offers.get(self.listed) {
            let (name, description, parameters) = match offer {
                ToolOffer::Server { .. } => return,
                ToolOffer::BuiltIn { tool, .. } => {
                    (EcoString::from(tool.name()), about(*tool).to_owned(), parameters(*tool))
                }
                ToolOffer::Workflow { name, description, workflow } => {
                    let description = description.as_ref().or(workflow.0.description.as_ref());
                    let description = description.map(EcoString::to_string).unwrap_or_default();
                    (name.clone(), description, inputs_schema(&workflow.0.inputs))
                }
            };
            self.add(self.listed, &name, &name, description, parameters);
            self.listed += 1;
        }
    }

    fn add(&mut self, offer: usize, own: &str, wanted: &str, description: String, parameters: Value) {
        let is_same =
            |tool: &OfferedTool| tool.own_name == own && self.source(tool.offer) == self.source(offer);
        if self.tools.iter().any(is_same) {
            return;
        }
        let allowed = |char: char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' };
        let plain: String = wanted.chars().map(allowed).take(MAX_NAME).collect();
        let is_taken = |name: &str| self.tools.iter().any(|tool| tool.shown.name == name);
        let mut name = plain.clone();
        let mut number = 2;
        while is_taken(&name) {
            let end = format!("_{number}");
            name = plain.chars().take(MAX_NAME - end.len()).chain(end.chars()).collect();
            number += 1;
        }
        let shown = ShownTool { name, description, parameters };
        self.tools.push(OfferedTool { shown, offer, own_name: own.into() });
    }

    /// Where the tools of an offer come from: two offers of one server are the same.
    fn source(&self, offer: usize) -> (usize, &str) {
        match &self.offers[offer] {
            ToolOffer::Server { server, .. } => (usize::MAX, &server.name),
            ToolOffer::BuiltIn { .. } | ToolOffer::Workflow { .. } => (offer, ""),
        }
    }

    /// Whether a call is one of a workflow.
    pub(crate) fn is_workflow(&self, call: &ToolRequest) -> bool {
        let offer = self.find(call).map(|tool| &self.offers[tool.offer]);
        matches!(offer, Ok(ToolOffer::Workflow { .. }))
    }

    /// The name of the tool of a call in the journal: `SERVER.TOOL`, or that of a built-in tool or a workflow.
    pub(crate) fn full_name(&self, call: &ToolRequest) -> String {
        match self.find(call) {
            Ok(tool) => match &self.offers[tool.offer] {
                ToolOffer::Server { server, .. } => format!("{}.{}", server.name, tool.own_name),
                ToolOffer::BuiltIn { .. } | ToolOffer::Workflow { .. } => tool.own_name.to_string(),
            },
            Err(_) => call.name.clone(),
        }
    }

    fn find(&self, call: &ToolRequest) -> Result<&OfferedTool, String> {
        let found = self.tools.iter().find(|tool| tool.shown.name == call.name);
        found.ok_or_else(|| {
            let names = self.tools.iter().map(|tool| tool.shown.name.as_str());
            format!("there is no tool `{}`; {}", call.name, instead(&call.name, names))
        })
    }

    /// The effect that a call is, or what the agent is told instead.
    pub(crate) fn effect(
        &self,
        call: &ToolRequest,
        surroundings: &AgentSurroundings,
    ) -> Result<Effect, String> {
        let tool = self.find(call)?;
        if call.arguments.as_object().is_none() {
            return Err(format!("the arguments of `{}` are not a JSON object", call.name));
        }
        if let Ok(schema) = JsonSchema::compile(&tool.shown.parameters) {
            let problems = schema.problems(&call.arguments);
            if !problems.is_empty() {
                return Err(format!("the arguments do not fit `{}`: {}", call.name, problems.join("; ")));
            }
        }
        let limits = call_limits(surroundings.limits);
        let text = |key: &str| call.arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(match &self.offers[tool.offer] {
            ToolOffer::Server { server, .. } => {
                let (server, tool, params) = (server.clone(), tool.own_name.clone(), call.arguments.clone());
                Effect::Tool(ToolSpec { call: ResolvedToolCall { server, tool, params }, limits })
            }
            ToolOffer::BuiltIn { tool, hosts } => match tool {
                BuiltInTool::ReadFile => Effect::ReadFile(ReadSpec { path: text("path") }),
                BuiltInTool::WriteFile => Effect::WriteFile(FileSpec {
                    path: text("path"),
                    content: text("content"),
                    mode: None,
                    create_dirs: true,
                    cwd: surroundings.cwd.clone(),
                }),
                BuiltInTool::Http => {
                    let (url, hosts) = (text("url"), hosts.clone());
                    let request = Request { method: "GET", url, headers: Vec::new(), body: None, hosts };
                    Effect::Request(RequestSpec { request, limits })
                }
            },
            ToolOffer::Workflow { workflow, .. } => {
                let given = call.arguments.as_object().into_iter().flat_map(|given| given.iter());
                let given: Vec<(EcoString, Value)> =
                    given.map(|(name, value)| (name.name().clone(), value.clone())).collect();
                // The schema of the tool says the same of each input; what is left is their size.
                let unfit = |_| format!("the arguments do not fit the inputs of `{}`", call.name);
                let inputs = workflow.0.inputs_of(&given).map_err(unfit)?;
                let file = workflow.0.file.name().into();
                let call = ResolvedCall { file, with: call.arguments.clone(), inputs };
                // Which attempt of the step it is does not matter: each call has a run of its own.
                let attempt = Attempt { number: 1, base: 0, rerun: true, began: None };
                let (env, cwd) = (surroundings.env.clone(), surroundings.cwd.clone());
                Effect::Workflow(CallSpec { call, attempt, env, cwd, timeout: limits.timeout })
            }
        })
    }

    /// The meta data of a call that are known before it is made.
    pub(crate) fn meta(&self, call: &ToolRequest) -> Vec<(&'static str, Value)> {
        vec![
            (names::TOOL_NAME, Value::from(self.full_name(call))),
            (names::PARAMETERS, call.arguments.clone()),
        ]
    }

    /// What came of the effect of a call.
    pub(crate) fn outcome(
        &self,
        call: &ToolRequest,
        result: EffectResult,
        surroundings: &AgentSurroundings,
    ) -> CallResult {
        let mut meta = self.meta(call);
        let max_output = surroundings.limits.max_output;
        let mut spent = Spend::default();
        let (result, timing) = match result {
            EffectResult::Tool(answer, timing) => {
                meta.extend(answer.version.map(|version| (names::TOOL_VERSION, version.into())));
                let result = match answer.result {
                    Ok(answer) => response::tool_result(&answer, max_output),
                    Err(failure) => StepResult::failed(failure),
                };
                (result, Some(timing))
            }
            EffectResult::Response(answer, timing) => {
                let result = match answer {
                    Ok(answer) => {
                        meta.push((names::STATUS_CODE, i64::from(answer.status).into()));
                        response::result(answer)
                    }
                    Err(missing) => StepResult::failed(missing.failure),
                };
                (result, Some(timing))
            }
            EffectResult::Read(text, timing) => {
                let value = text.map(Value::from).and_then(|value| {
                    let message = format!("the file is larger than {max_output} bytes");
                    let large = Failure::new(FailureKind::OutputTooLarge, message);
                    if value.size() > max_output { Err(large) } else { Ok(value) }
                });
                (StepResult::silent(value), Some(timing))
            }
            EffectResult::Written(written, timing) => {
                let path = call.arguments.get("path").cloned().unwrap_or_default();
                let value = written.map(|()| Value::record([(names::PATH, path)]));
                (StepResult::silent(value), Some(timing))
            }
            EffectResult::Called(CallEnd { value, meta: own, spent: of_run }, timing) => {
                meta.extend(own);
                spent = of_run;
                (StepResult::silent(value), Some(timing))
            }
            EffectResult::Refused(failure) => (StepResult::failed(failure), None),
            _ => {
                let why = self.effect(call, surroundings).err();
                let why = why.unwrap_or_else(|| "the tool was not called".to_owned());
                (StepResult::failed(Failure::new(FailureKind::Tool, why)), None)
            }
        };
        CallResult { result, timing, meta, spent }
    }
}

/// What an agent is told of a call: the value, or why there is none.
pub(crate) fn told(call: &ToolRequest, value: Result<&Value, &str>) -> ToolOutcome {
    let (text, is_error) = match value {
        Ok(value) => {
            let text = value.as_str().map_or_else(|| value.to_json(JsonStyle::Compact), str::to_owned);
            match text.len() {
                0..=MAX_SHOWN => (text, false),
                bytes => {
                    let text =
                        format!("the result has {bytes} bytes, more than the {MAX_SHOWN} that are shown");
                    (text, true)
                }
            }
        }
        Err(why) => (why.to_owned(), true),
    };
    ToolOutcome { id: call.id.clone(), text, is_error }
}

fn call_limits(limits: EffectLimits) -> EffectLimits {
    EffectLimits { timeout: limits.timeout.or(Some(CALL_TIMEOUT)), ..limits }
}

/// What could be meant by a name that no tool has.
fn instead<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => words::did_you_mean(near),
        None if names.is_empty() => "there are none".to_owned(),
        None => format!("the tools are {}", words::names(names.iter().map(|name| format!("`{name}`")))),
    }
}

fn about(tool: BuiltInTool) -> &'static str {
    match tool {
        BuiltInTool::ReadFile => "Reads a file of the project and gives its text.",
        BuiltInTool::WriteFile => "Writes a file of the project. What the file held before is replaced.",
        BuiltInTool::Http => "Sends a GET request to a URL and gives the body of the response.",
    }
}

fn parameters(tool: BuiltInTool) -> Value {
    let text = |about: &str| Value::record([("type", "string".into()), ("description", about.into())]);
    let path = || text("path of the file, relative to the folder of the project");
    match tool {
        BuiltInTool::ReadFile => object_schema(vec![("path".into(), path(), true)]),
        BuiltInTool::WriteFile => object_schema(vec![
            ("path".into(), path(), true),
            ("content".into(), text("the new text of the file"), true),
        ]),
        BuiltInTool::Http => object_schema(vec![("url".into(), text("the URL, with its query"), true)]),
    }
}

/// The JSON Schema of the inputs of a workflow.
fn inputs_schema(inputs: &[Input]) -> Value {
    let field = |input: &Input| {
        let mut schema = Vec::new();
        let kind = input.kind.map(|kind| match kind {
            Type::Int => "integer",
            Type::Decimal => "number",
            Type::Bool => "boolean",
            Type::List => "array",
            Type::Object => "object",
            Type::Null => "null",
            Type::Text => "string",
        });
        schema.extend(kind.map(|kind| ("type", Value::from(kind))));
        schema.extend(input.description.clone().map(|about| ("description", Value::from(about))));
        schema.extend(input.default.clone().map(|default| ("default", default)));
        (input.name.clone(), Value::record(schema), input.required && input.default.is_none())
    };
    object_schema(inputs.iter().map(field).collect())
}

fn no_parameters() -> Value {
    object_schema(Vec::new())
}

/// The JSON Schema of an object of these fields; each with whether it must be there.
fn object_schema(fields: Vec<(EcoString, Value, bool)>) -> Value {
    let required =
        fields.iter().filter(|(_, _, required)| *required).map(|(name, ..)| Value::from(name.clone()));
    let required = Value::sequence(required);
    Value::record([
        ("type", Value::from("object")),
        ("properties", Value::record(fields.into_iter().map(|(name, schema, _)| (name, schema)))),
        ("required", required),
        ("additionalProperties", false.into()),
    ])
}
