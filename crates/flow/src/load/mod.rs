//! From a file to a [`Workflow`]: every key by the table of [`crate::fields`], every problem at once.
//!
//! Names are not looked up here: that is the plan's work.

mod call;
mod evaluate;
mod expand;
mod graph;
mod http;
mod loops;
mod mapreduce;
mod read;
mod steps;
mod tools;
mod verdicts;

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::data::{Sink, Style};
use threadline_lang::diag::Span;
use threadline_lang::{Document, DocumentError, Origin, Syntax, Template, Undefined};

use crate::checks::Check;
use crate::fields::{self, AGENT, ALLOW, COMPUTED, INPUT, WORKFLOW};
use crate::model::{Agent, Allow, Computed, Context, ContextEntry, Field, Import, Input, Shape, Workflow};
use crate::problem::{self, Problem, in_order};
pub use expand::named_parts;
use read::{Fields, Loader, Place, head, shown, span_of};
use threadline_lang::source::{SourceFile, TreeNode};

/// The agent that needs no declaration, and how it is called.
const DEFAULT_AGENT: (&str, [&str; 2]) = ("claude", ["claude", "-p"]);

/// Reads a workflow file. Without a workflow there is at least one error; with one there may be errors all the same,
/// and then it is only good for looking for more.
pub fn load(file: SourceFile) -> (Option<Workflow>, Vec<Problem>) {
    let root = match file.read_tree(&Syntax::DEFAULT.limits) {
        Ok(root) => root,
        Err(error) => return (None, vec![unreadable(&file, &error)]),
    };
    let (root, problems) = expand::expand(&file, root);
    let mut loader = Loader { file, syntax: Syntax::DEFAULT, problems: Vec::new() };
    for problem in problems {
        loader.problem(problem);
    }
    let workflow = root.and_then(|root| loader.workflow(&root));
    (workflow, in_order(loader.problems))
}

/// The tree of a file in which nothing is short for something else.
pub fn expanded(file: &SourceFile) -> (Option<TreeNode>, Vec<Problem>) {
    match file.read_tree(&Syntax::DEFAULT.limits) {
        Ok(root) => expand::expand(file, root),
        Err(error) => (None, vec![unreadable(file, &error)]),
    }
}

fn unreadable(file: &SourceFile, error: &threadline_lang::data::ReadError) -> Problem {
    let problem = problem::of_reading(error);
    match &error.kind {
        threadline_lang::data::ReadErrorKind::DuplicateKey { first, .. } => {
            let (line, column) = file.line_column(first.range().start);
            problem.note(format!("it stands first at {}:{line}:{column}", file.name()))
        }
        _ => problem,
    }
}

impl Loader {
    fn workflow(&mut self, root: &TreeNode) -> Option<Workflow> {
        let place = Place { node: root, path: EcoString::new() };
        if root.value.as_list().is_some() {
            let steps = self.steps(&place, "steps");
            return Some(Workflow { steps, ..self.empty() });
        }
        if root.value.as_object().is_none() {
            let span = Span { end: root.span.end.min(root.span.start + 1), ..root.span };
            let message = if root.value.is_null() && self.written(root).trim().is_empty() {
                "there is nothing in the file".to_owned()
            } else {
                format!("a workflow is a list of steps or an object, not {}", shown(&root.value))
            };
            self.problem(
                Check::NotAWorkflow.at(span, message).hint("write the steps as a list under `steps:`"),
            );
            return None;
        }
        // A file of another shape has other keys, and no word about them would help.
        if let Some(problem) = other_shape(root) {
            self.problem(problem);
            return None;
        }
        let fields = self.fields(place, &WORKFLOW)?;
        self.version(&fields);
        // Templates are parsed with the declared kinds in force.
        let computed = self.computed(&fields);
        self.syntax.kinds = computed.iter().map(|kind| kind.name.clone()).collect();
        let name = self.text(&fields, "name").unwrap_or_else(|| name_of(self.file.name()));
        let workflow = Workflow {
            name,
            description: self.text(&fields, "description"),
            syntax: self.syntax.clone(),
            undefined: self.undefined(&fields),
            inputs: self.inputs(&fields),
            context: self.context(&fields),
            env: self.variables(&fields),
            agents: self.agents(&fields),
            servers: self.servers(&fields),
            computed,
            allow: self.allow(&fields),
            locks: self.templates(&fields, "locks").unwrap_or_default(),
            imports: self.imports(&fields),
            exports: self.exports(&fields),
            shape: self.shape(&fields),
            steps: if fields.found("nodes").is_some() {
                self.nodes(&fields)
            } else if fields.found("states").is_some() {
                self.states(&fields)
            } else if is_map_reduce(&fields) {
                self.phases(&fields)
            } else {
                self.steps_of(&fields, "steps")
            },
            finally: self.steps_of(&fields, "finally"),
            file: self.file.clone(),
        };
        Some(workflow)
    }

    /// A workflow without anything in it.
    fn empty(&self) -> Workflow {
        Workflow {
            file: self.file.clone(),
            name: name_of(self.file.name()),
            description: None,
            syntax: self.syntax.clone(),
            undefined: Undefined::Error,
            inputs: Vec::new(),
            context: None,
            env: Vec::new(),
            agents: vec![default_agent(&self.syntax)],
            servers: Vec::new(),
            computed: Vec::new(),
            allow: Allow::default(),
            locks: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            steps: Vec::new(),
            shape: Shape::Steps,
            finally: Vec::new(),
        }
    }

    /// Whether the file is a list of steps or a graph; it must be one of them.
    fn shape(&mut self, fields: &Fields<'_>) -> Shape {
        if is_map_reduce(fields) {
            for found in ["steps", "nodes", "edges"].iter().filter_map(|key| fields.found(key)) {
                let message = format!("a map-reduce has phases, and no `{}`", found.written);
                self.problem(Check::ConflictingKeys.at(found.entry.key_span, message));
            }
            return self.map_reduce(fields);
        }
        if let Some(shape) = self.loop_shape(fields) {
            return shape;
        }
        match (fields.found("steps"), fields.found("nodes"), fields.found("edges")) {
            (Some(steps), Some(nodes), _) => {
                let message = format!("a workflow has `{}` or `nodes`, not both", steps.written);
                self.problem(Check::ConflictingKeys.at(nodes.entry.key_span, message));
            }
            (Some(_), None, Some(edges)) => {
                let message = "`edges` go between the `nodes` of a graph, and this is a list of steps";
                self.problem(Check::KeyNotHere.at(edges.entry.key_span, message));
            }
            (None, None, _) if !fields.misspelt("steps") && !fields.misspelt("nodes") => {
                let message = "a workflow needs `steps`: what to do, one step after the other; or `nodes`, as a graph; or `states`, as a loop";
                self.problem(Check::MissingKey.at(head(fields.place.node), message));
            }
            _ => {}
        }
        let edges = self.edges(fields);
        if fields.found("nodes").is_some() { Shape::Graph { edges } } else { Shape::Steps }
    }

    fn version(&mut self, fields: &Fields<'_>) {
        let Some(place) = fields.get("threadline") else { return };
        let known = fields.object.known("threadline").choices();
        let written = self.written(place.node).trim().trim_matches(['"', '\'']).to_owned();
        if !known.iter().any(|version| version.name == written) {
            let message =
                format!("this program knows version 1 of the language, not {}", shown(&place.node.value));
            self.problem(Check::OtherVersion.at(span_of(place.node), message).hint("write `threadline: 1`"));
        }
    }

    fn undefined(&mut self, fields: &Fields<'_>) -> Undefined {
        match self.choice(fields, "undefined") {
            Some("keep") => Undefined::Keep,
            Some("empty") => Undefined::Empty,
            _ => Undefined::Error,
        }
    }

    fn allow(&mut self, fields: &Fields<'_>) -> Allow {
        let Some(place) = fields.get("allow") else { return Allow::default() };
        let Some(fields) = self.fields(place, &ALLOW) else { return Allow::default() };
        Allow {
            commands: self.bool(&fields, "commands"),
            files: self.texts(&fields, "files").unwrap_or_default(),
        }
    }

    fn computed(&mut self, fields: &Fields<'_>) -> Vec<Computed> {
        let Some(place) = self.map(fields, "computed") else { return Vec::new() };
        let mut all = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.own_kind(name, entry.key_span) {
                continue;
            }
            let Some(fields) = self.fields(at, &COMPUTED) else { continue };
            let command = self.texts(&fields, "command");
            let timeout = self.fixed_duration(&fields, "timeout");
            let Some(command) = self.program(command, fields.get("command"), "command") else { continue };
            all.push(Computed { name: name.into(), command, span: entry.key_span, timeout });
        }
        all
    }

    fn own_kind(&mut self, name: &str, span: Span) -> bool {
        let taken = threadline_lang::BUILT_IN_KINDS.contains(&name) || crate::plan::ROOTS.contains(&name);
        if taken {
            self.problem(
                Check::ReservedName.at(span, format!("`{name}` is built in")).hint("choose another name"),
            );
        }
        !taken && self.check_name(name, span)
    }

    /// A program that is not empty.
    pub(super) fn program<T>(
        &mut self,
        command: Option<Vec<T>>,
        place: Option<Place<'_>>,
        name: &str,
    ) -> Option<Vec<T>> {
        let command = command?;
        if command.is_empty() {
            let span = place.map_or(Span::default(), |place| place.node.span);
            self.problem(
                Check::WrongType
                    .at(span, format!("`{name}` takes a program and its arguments, this is empty")),
            );
            return None;
        }
        Some(command)
    }

    fn inputs(&mut self, fields: &Fields<'_>) -> Vec<Input> {
        let Some(place) = self.map(fields, "inputs") else { return Vec::new() };
        let mut inputs = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            let mut input = Input {
                name: name.into(),
                span: entry.key_span,
                kind: None,
                required: true,
                default: None,
                description: None,
            };
            if !entry.node.value.is_null()
                && let Some(fields) = self.fields(at, &INPUT)
            {
                self.input(&fields, &mut input);
            }
            inputs.push(input);
        }
        inputs
    }

    fn input(&mut self, fields: &Fields<'_>, input: &mut Input) {
        input.kind = self.choice(fields, "type").and_then(Input::type_of);
        input.default = fields.get("default").map(|place| place.node.value.clone());
        input.required = self.given_bool(fields, "required").unwrap_or(input.default.is_none());
        input.description = self.text(fields, "description");
        if let (Some(kind), Some(default), Some(place)) = (input.kind, &input.default, fields.get("default"))
            && !Input::accepts(kind, default)
        {
            let message = format!(
                "`default` of `{}` is {}, not {}",
                input.name,
                default.kind().with_article(),
                kind.with_article()
            );
            self.problem(Check::WrongType.at(span_of(place.node), message));
        }
    }

    fn context(&mut self, fields: &Fields<'_>) -> Option<Context> {
        let place = self.map(fields, "context")?;
        let mut entries = Vec::new();
        for (name, entry, at) in place.entries() {
            let Some(written) = self.document(&at) else { continue };
            let literal = written.value.as_fixed().and_then(|value| value.as_str()).map(EcoString::from);
            entries.push(ContextEntry { name: name.into(), written, key_span: entry.key_span, literal });
        }
        let compiled = Document::compile(&self.syntax, |sink| {
            sink.begin_object(place.node.span)?;
            sink.key("context", Style::Plain, place.node.span)?;
            place.node.feed(sink)?;
            sink.end_object(place.node.span)
        });
        // The problems were found entry by entry.
        let mut document = match compiled {
            Ok(document) | Err(DocumentError::Templates { rest: document, .. }) => document,
            Err(DocumentError::Read(_)) => return None,
        };
        let definitions = document.define("context").ok().flatten()?;
        Some(Context { definitions, entries })
    }

    fn agents(&mut self, fields: &Fields<'_>) -> Vec<Agent> {
        let mut agents = Vec::new();
        if let Some(place) = self.map(fields, "agents") {
            for (name, entry, at) in place.entries() {
                if !self.check_name(name, entry.key_span) {
                    continue;
                }
                let Some(fields) = self.fields(at, &AGENT) else { continue };
                self.choice(&fields, "provider");
                let command = self.templates(&fields, "command");
                let command = self.program(command, fields.get("command"), "command").unwrap_or_default();
                let model = self.text(&fields, "model");
                agents.push(Agent { name: name.into(), command, model, span: entry.key_span });
            }
        }
        if !agents.iter().any(|agent| agent.name == DEFAULT_AGENT.0) {
            agents.push(default_agent(&self.syntax));
        }
        agents
    }

    fn imports(&mut self, fields: &Fields<'_>) -> Vec<Import> {
        let Some(place) = self.map(fields, "imports") else { return Vec::new() };
        let mut imports = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(workflow) = self.scalar_text(&at, name)
            {
                imports.push(Import { name: name.into(), workflow, span: entry.key_span });
            }
        }
        imports
    }

    fn exports(&mut self, fields: &Fields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.map(fields, "exports") else { return Vec::new() };
        let mut exports = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.document(&at)
            {
                exports.push((name.into(), document));
            }
        }
        exports
    }
}

/// Whether a file has the phases of a map-reduce.
fn is_map_reduce(fields: &Fields<'_>) -> bool {
    mapreduce::KEYS.iter().any(|key| fields.found(key).is_some())
}

/// The problem of a file that is something else than a list of steps.
fn other_shape(root: &TreeNode) -> Option<Problem> {
    if ["steps", "commands", "nodes", "map", "states"].iter().any(|key| root.get(key).is_some()) {
        return None;
    }
    root.entries().find_map(|(key, entry)| match WORKFLOW.find_unsupported(key) {
        Some(fields::UnsupportedKey::OtherShape(_)) => {
            Some(read::unknown_key(&WORKFLOW, key, entry.key_span))
        }
        _ => None,
    })
}

fn name_of(file: &str) -> EcoString {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem }).into()
}

fn default_agent(syntax: &Syntax) -> Agent {
    let origin = Origin { path: EcoString::new(), span: Span::default(), style: Style::Plain };
    let (name, command) = DEFAULT_AGENT;
    let field = |word: &str| Field { value: Template::parse_all(word, syntax).0, origin: origin.clone() };
    Agent { name: name.into(), command: command.map(field).into(), model: None, span: Span::default() }
}

/// Steps behind a pointer, as the model has them.
type Steps = Vec<Arc<crate::model::Step>>;
