//! `threadline tools`: lists the servers of a workflow, their tools, and the parameters of each.
//!
//! The servers are started for that and stopped at once; no tool is called.

use std::fmt::Write as _;
use std::path::Path;

use anstyle::Style;
use ecow::EcoString;
use threadline_engine::evaluate::{self, FieldError, ResolvedServer};
use threadline_expect::JsonSchema;
use threadline_flow::checks::Check;
use threadline_flow::model::{Action, AgentTool, Server};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Scope, Session, Type, Types, Value, ValueShape};
use threadline_runner::process::{self, Control, Environment};
use threadline_runner::project::Project;
use threadline_runner::secrets::{RunSurroundings, SecretReading};
use threadline_runner::tools::{
    KeptListings, Listing, ServerSurroundings, Servers, Tool, unchecked_parameters,
};
use threadline_runner::world::{Commands, Folder, RealWorld};

use super::history::{own_store, project};
use super::preview::run_scope;
use super::{print, print_styled, surroundings_of};
use crate::arguments::ToolsArguments;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{PreparedWorkflow, plan_file_with, prepare, read_payload};
use crate::report::{Report, ReportSource, visible};
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// A server of the workflow, and its description of itself.
struct ListedServer<'p> {
    name: &'p EcoString,
    listing: Listing,
}

pub(crate) fn tools(call: &ToolsArguments) -> Result<(), CommandFailure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let PreparedWorkflow { plan, inputs, .. } = prepare(&file, &call.what)?;
    let (server, tool) = match call.name.as_deref().map(|name| name.split_once('.').ok_or(name)) {
        None => (None, None),
        Some(Err(server)) => (Some(server), None),
        Some(Ok((server, tool))) => (Some(server), Some(tool)),
    };
    let wanted = wanted(&plan, server)?;
    let source = ReportSource::of(&file);
    let project = project(call.dir.as_deref())?;
    let scope = run_scope(&plan, inputs, read_payload(&call.what, &plan.workflow)?.as_ref());
    let surroundings = surroundings_of(&plan, &project, SecretReading::All)?;
    let (found, mut problems) = list_servers(&plan, &wanted, &project, &scope, &surroundings);
    if call.name.is_none() {
        problems.extend(check_parameters(&plan, &found));
    }
    show(&found, tool, call.json)?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::Failed(problems.iter().map(|problem| Report::problem(source, problem)).collect()))
}

/// Checks the tools that the steps of a plan call against the servers, which are started for that and stopped at once.
pub(super) fn problems(file: &SourceFile, plan: &Plan, project: &Project) -> Vec<Problem> {
    let servers: Vec<&Server> = plan.workflow.servers.iter().collect();
    let surroundings = match RunSurroundings::read(plan, project, SecretReading::All) {
        Ok(surroundings) => surroundings,
        Err(problems) => return problems,
    };
    let scope = run_scope(plan, default_inputs(plan), None);
    let (found, mut problems) = list_servers(plan, &servers, project, &scope, &surroundings);
    problems.extend(check_parameters(plan, &found));
    problems.extend(check_results(file, &found));
    problems
}

/// Checks the tools that the steps of a plan call against what the servers said when they were last greeted. No server
/// is started; one that never was is not known.
pub(super) fn kept_problems(file: &SourceFile, plan: &Plan, project: &Project, store: &Path) -> Vec<Problem> {
    let kept = KeptListings::of_store(store);
    let Ok(surroundings) = RunSurroundings::read(plan, project, SecretReading::WithoutPrograms) else {
        return Vec::new();
    };
    let scope = run_scope(plan, default_inputs(plan), None);
    let servers = plan.workflow.servers.iter();
    let found: Vec<ListedServer<'_>> = servers
        .filter_map(|server| {
            let listing = kept.read(&resolve(plan, server, project, &scope, &surroundings).ok()?)?;
            Some(ListedServer { name: &server.name, listing })
        })
        .collect();
    if found.is_empty() {
        return Vec::new();
    }
    let mut problems = check_parameters(plan, &found);
    problems.extend(check_results(file, &found));
    let again = "the server said so when it was last started; `threadline check --tools` asks it again";
    problems.into_iter().map(|problem| problem.note(again)).collect()
}

/// The inputs that have defaults.
fn default_inputs(plan: &Plan) -> Value {
    let given = plan.workflow.inputs.iter();
    Value::record(given.filter_map(|input| Some((input.name.clone(), input.default.clone()?))))
}

/// A server with its values.
fn resolve(
    plan: &Plan,
    server: &Server,
    project: &Project,
    scope: &Scope,
    surroundings: &RunSurroundings,
) -> Result<ResolvedServer, Vec<Problem>> {
    let scope = &surroundings.reveal(&plan.workflow, scope);
    let mut world = RealWorld {
        folder: Folder::new(project.here()),
        project,
        env: surroundings.environment(&plan.workflow, Environment::inherited()),
        commands: Commands::Refused("nothing of the workflow is run"),
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
        masks: surroundings.masks().cloned(),
        threads: None,
    };
    let mut session = Session::new(&mut world).limits(&plan.workflow.syntax.limits);
    evaluate::server(&plan.workflow, server, scope, &mut session).map_err(|errors| {
        let problem = |error: &FieldError| error.problem(plan.workflow.file.text());
        let problems = errors.iter().map(problem).map(|problem| Problem {
            message: masked(surroundings, &problem.message),
            notes: problem.notes.iter().map(|note| masked(surroundings, note)).collect(),
            ..problem
        });
        problems.collect()
    })
}

/// A text without the secrets of the workflow.
fn masked(surroundings: &RunSurroundings, text: &str) -> String {
    surroundings.masks().map_or(text.to_owned(), |masks| masks.masked_text(text))
}

/// Checks what steps read of the results of tools, as far as the servers say what these are.
fn check_results(file: &SourceFile, found: &[ListedServer<'_>]) -> Vec<Problem> {
    let planned = plan_file_with(file, |workflow| {
        for server in &mut workflow.servers {
            let Some(listed) = found.iter().find(|listed| *listed.name == server.name) else { continue };
            let tools = listed.listing.tools.iter();
            let results = tools.filter_map(|tool| Some((tool.name.as_str().into(), result_shape(tool)?)));
            server.results = results.collect();
        }
        Ok(())
    });
    // Without them there was no error, so all errors are about them.
    let problems = planned.map_or_else(|_| Vec::new(), |(_, problems)| problems);
    problems.into_iter().filter(Problem::is_error).collect()
}

/// The fields of a result. A server is not believed what their types are: a number may be a text that runs.
fn result_shape(tool: &Tool) -> Option<ValueShape> {
    fn fields(schema: &Value, depth: u8) -> Option<ValueShape> {
        let open = schema.get("additionalProperties").is_some_and(|more| more.as_bool() != Some(false));
        let properties = schema.get("properties")?.as_object().filter(|_| !open && depth < 8)?;
        let field = |name: &EcoString, schema: &Value| {
            (name.clone(), fields(schema, depth + 1).unwrap_or(ValueShape::ANY))
        };
        let fields = properties.iter().map(|(key, schema)| field(key.name(), schema));
        Some(ValueShape::object(fields.collect()))
    }
    fields(tool.result.as_ref()?, 0)
}

/// Asks servers for their tools.
fn list_servers<'p>(
    plan: &'p Plan,
    wanted: &[&'p Server],
    project: &Project,
    scope: &Scope,
    surroundings: &RunSurroundings,
) -> (Vec<ListedServer<'p>>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    // If orphans cannot be adopted, they are still found by their mark.
    let _ = process::adopt_orphans();
    let run = uuid::Uuid::new_v4().to_string();
    let servers = Servers::new(ServerSurroundings {
        env: surroundings.environment(&plan.workflow, Environment::inherited()),
        run: run.clone(),
        here: project.here().to_owned(),
        spool: std::env::temp_dir(),
        control: Control::new(),
        masks: surroundings.masks().cloned(),
        kept: own_store(project).map(|store| KeptListings::of_store(&store)),
    });
    for server in wanted {
        let resolved = match resolve(plan, server, project, scope, surroundings) {
            Ok(resolved) => resolved,
            Err(unresolved) => {
                problems.extend(unresolved);
                continue;
            }
        };
        match servers.listing(&resolved) {
            Ok(listing) => found.push(ListedServer { name: &server.name, listing }),
            Err(failure) => {
                problems.push(Check::UnknownTool.at(server.span, masked(surroundings, &failure.message)));
            }
        }
    }
    servers.end();
    process::end_descendants(&run, std::time::Duration::ZERO);
    (found, problems)
}

/// The servers that the user asked for: one, or all.
fn wanted<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<&'p Server>, CommandFailure> {
    let all = plan.workflow.servers.iter();
    let wanted: Vec<&Server> =
        all.clone().filter(|server| name.is_none_or(|name| server.name == name)).collect();
    if let Some(name) = name.filter(|_| wanted.is_empty()) {
        let hint = words::suggest(name, all.map(|server| server.name.as_str()));
        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
        return Err(CommandFailure::Usage(format!("the workflow has no server `{name}`{hint}")));
    }
    Ok(wanted)
}

/// Checks literal parameters of steps against the schemas of their tools.
fn check_parameters(plan: &Plan, found: &[ListedServer<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for tool in plan.workflow.agents.iter().flat_map(|agent| &agent.tools) {
        let AgentTool::Server { server, allow, deny } = tool else { continue };
        let Some(found) = found.iter().find(|found| *found.name == server.value) else { continue };
        for name in allow.iter().chain(deny) {
            if found.listing.tools.iter().all(|tool| !AgentTool::is_named(&name.value, &tool.name)) {
                // A word such as `files.read` has the name of the server in it.
                let is_word = name.origin.span == server.origin.span;
                let before = if is_word { format!("{}.", server.value) } else { String::new() };
                problems.push(found.has_no_tool(&name.value, &before, name.origin.span));
            }
        }
    }
    for step in &plan.steps {
        let Action::Tool(call) = &step.step.action else { continue };
        let Some(server) = found.iter().find(|found| *found.name == call.server) else { continue };
        let Some(tool) = server.tool(&call.tool) else {
            problems.push(server.has_no_tool(
                &call.tool,
                &format!("{}.", call.server),
                call.name.origin.span,
            ));
            continue;
        };
        let nothing = Value::empty_object();
        let params = match &call.params {
            Some(params) => params.value.as_fixed(),
            None => Some(&nothing),
        };
        let schema = match JsonSchema::compile(&tool.parameters) {
            Ok(schema) => schema,
            Err(why) => {
                let message = unchecked_parameters(&call.name.value, &why);
                problems.push(Problem::warning("tool-schema", call.name.origin.span, message));
                continue;
            }
        };
        let problems_of = |params: &Value| schema.problems(params);
        let found = match (params, &step.params) {
            (Some(params), _) => problems_of(params),
            (None, Some(shape)) => unfit(&tool.parameters, shape, ""),
            (None, None) => continue,
        };
        for problem in found {
            let origin = call.params.as_ref().map_or(&call.name.origin, |params| &params.origin);
            let message = format!("`params` are not what `{}` takes: {problem}", call.name.value);
            let span = Span { end: origin.span.end.min(origin.span.start + 1), ..origin.span };
            problems.push(Check::WrongType.at(span, message));
        }
    }
    problems
}

impl ListedServer<'_> {
    fn tool(&self, name: &str) -> Option<&Tool> {
        self.listing.tools.iter().find(|tool| tool.name == name)
    }

    /// The problem of a name that no tool has. `before` stands before it in the file.
    fn has_no_tool(&self, name: &str, before: &str, span: Span) -> Problem {
        let near = nearest(name, self.listing.tools.iter().map(|tool| tool.name.as_str()));
        let problem = Check::UnknownTool.at(span, format!("the server `{}` has no tool `{name}`", self.name));
        match near {
            Some(near) => problem.hint(words::did_you_mean(format!("{before}{near}"))),
            None => problem,
        }
    }
}

/// Why no value of a shape can be one of a schema.
fn unfit(schema: &Value, shape: &ValueShape, path: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "null" => Types::NULL,
        "boolean" => Types::one(Type::Bool),
        "integer" | "number" => Types::NUMBER,
        "string" => Types::TEXT,
        "array" => Types::one(Type::List),
        "object" => Types::one(Type::Object),
        _ => Types::ANY,
    };
    let takes = match schema.get("type") {
        Some(kind) => match (kind.as_str(), kind.as_list()) {
            (Some(kind), _) => word(kind),
            (_, Some(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                kinds.fold(Types::NONE, |types, kind| types.or(word(kind)))
            }
            _ => Types::ANY,
        },
        None => Types::ANY,
    };
    if shape.types.and(takes).is_none() {
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        return vec![format!("{place}this gives {}, not {}", shape.types.in_words(), takes.in_words())];
    }
    let (Some(fields), Some(properties)) =
        (shape.fields(), schema.get("properties").and_then(Value::as_object))
    else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (name, field) in fields {
        if let Some(schema) = properties.get_str(name) {
            problems.extend(unfit(schema, field, &format!("{path}/{name}")));
        } else if schema.get("additionalProperties").and_then(Value::as_bool) == Some(false) {
            problems.push(format!("there is no `{name}`"));
        }
    }
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let missing = required.iter().filter_map(Value::as_str);
    let missing = missing.filter(|name| !fields.iter().any(|(known, _)| known == name));
    problems.extend(missing.map(|name| format!("`{name}` is missing")));
    problems
}

fn show(found: &[ListedServer<'_>], only: Option<&str>, json: bool) -> Result<(), CommandFailure> {
    let is_wanted = |tool: &&Tool| only.is_none_or(|only| tool.name == only);
    if let (Some(only), [one]) = (only, found)
        && !one.listing.tools.iter().any(|tool| tool.name == only)
    {
        let near = nearest(only, one.listing.tools.iter().map(|tool| tool.name.as_str()));
        let hint = near.map_or(String::new(), |near| {
            format!("; {}", words::did_you_mean(format!("{}.{near}", one.name)))
        });
        return Err(CommandFailure::Usage(format!("the server `{}` has no tool `{only}`{hint}", one.name)));
    }
    if json {
        let servers = found.iter().map(|server| {
            let tools =
                server.listing.tools.iter().filter(is_wanted).map(|tool| tool_json(server.name, tool));
            Value::record([
                ("name", server.name.clone().into()),
                ("title", server.listing.title.clone().map_or(Value::NULL, Value::from)),
                ("version", server.listing.version.clone().map_or(Value::NULL, Value::from)),
                ("tools", Value::sequence(tools)),
            ])
        });
        let all = Value::record([("servers", Value::sequence(servers))]);
        return print(&format!("{}\n", all.to_json(JsonStyle::Compact)));
    }
    let mut out = String::new();
    for server in found {
        let Listing { title, version, tools } = &server.listing;
        let about: Vec<&str> = title.iter().chain(version).map(String::as_str).collect();
        let count = words::count(tools.len(), "tool");
        // Writing into a text cannot fail.
        let _ = writeln!(
            out,
            "{BOLD}{}{BOLD:#}  {DIM}{}, {count}{DIM:#}",
            server.name,
            visible(&about.join(" "))
        );
        let mut table = Table::default();
        for tool in tools.iter().filter(is_wanted) {
            let said = tool.description.as_deref().unwrap_or_default();
            let said = if only.is_some() { String::new() } else { beginning(said) };
            let name = format!("{}.{}", server.name, tool.name);
            table.row([(PLAIN, name), (PLAIN, signature(tool)), (DIM, said)]);
        }
        out.push_str(&table.text("  "));
        if let Some(tool) = tools.iter().find(|tool| only == Some(tool.name.as_str())) {
            out.push_str(&details(tool));
        }
    }
    if found.is_empty() {
        out.push_str("no servers; the tools `shell` and `http` are built in\n");
    }
    print_styled(&out)
}

/// The first line of a description, shortened.
fn beginning(description: &str) -> String {
    const MAX_CHARS: usize = 80;
    words::shorten(description.trim().lines().next().unwrap_or_default(), MAX_CHARS).into_owned()
}

fn tool_json(server: &str, tool: &Tool) -> Value {
    Value::record([
        ("name", format!("{server}.{}", tool.name).into()),
        ("description", tool.description.clone().map_or(Value::NULL, Value::from)),
        ("parameters", tool.parameters.clone()),
    ])
}

/// A parameter: its name, its type in words, whether it must be given, and what it is for.
fn parameters(tool: &Tool) -> Vec<(String, String, bool, String)> {
    let required = tool.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    let properties = tool.parameters.get("properties").and_then(|properties| properties.as_object().cloned());
    let mut parameters = Vec::new();
    for (name, schema) in properties.iter().flat_map(|properties| properties.iter()) {
        let is_required = required.iter().any(|required| required.as_str() == Some(name.as_str()));
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = match schema.get("enum").and_then(Value::as_list) {
            Some(choices) => choices
                .iter()
                .map(|choice| choice.to_json(JsonStyle::Compact))
                .collect::<Vec<_>>()
                .join(" or "),
            None => text("type"),
        };
        parameters.push((name.as_str().to_owned(), kind, is_required, text("description")));
    }
    parameters
}

/// `path: string, head?: number`
fn signature(tool: &Tool) -> String {
    let parameters = parameters(tool).into_iter().map(|(name, kind, is_required, _)| {
        let mark = if is_required { "" } else { "?" };
        if kind.is_empty() { format!("{name}{mark}") } else { format!("{name}{mark}: {kind}") }
    });
    parameters.collect::<Vec<_>>().join(", ")
}

fn details(tool: &Tool) -> String {
    let mut out = String::new();
    for line in tool.description.iter().flat_map(|description| description.lines()) {
        let _ = writeln!(out, "    {}", visible(line));
    }
    let mut table = Table::default();
    for (name, kind, is_required, about) in parameters(tool) {
        let must = if is_required { "required" } else { "" };
        table.row([(PLAIN, name), (PLAIN, kind), (DIM, must.to_owned()), (DIM, about)]);
    }
    out.push_str(&table.text("    "));
    out
}
