//! Loads a file into a [`Workflow`]: reads every key by the table in [`crate::fields`], and reports all
//! problems at once.
//!
//! Names are not resolved here; the [`crate::plan`] does that.

mod assertion;
mod budget;
mod call;
mod defaults;
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
use threadline_lang::diag::{Fix, Span};
use threadline_lang::{Document, DocumentError, Origin, Syntax, Template, Undefined};

use crate::checks::Check;
use crate::fields::{
    AGENT, ALLOW, BASE_URL, COMPUTED, DEFAULT_PROVIDER, INPUT, KeyKind, KeySpec, PROVIDERS, ProviderSpec,
    SECRET, SettingForm, WORKFLOW,
};
use crate::forms;
use crate::model::{
    Agent, AgentSetting, Allow, ComputedKind, Context, ContextEntry, Field, Import, Input, Secret,
    SecretSource, SettingTemplate, Shape, Workflow,
};
use crate::problem::{self, Problem, in_order};
use crate::shell::UnknownPolicy;
pub use expand::{named_parts, user_agents_of};
use read::{LocatedNode, ObjectFields, WorkflowLoader, head, shown, span_of};
use threadline_lang::source::{SourceFile, TreeNode};

/// The setting of an agent that has to be a secret.
const API_KEY_NAME: &str = "api_key";

/// The agent that needs no declaration, and its command.
const DEFAULT_AGENT: (&str, [&str; 2]) = ("claude", ["claude", "-p"]);

/// Loads a workflow file. Without a workflow there is at least one error. With one there may be errors, too;
/// then it is only good for finding more of them.
pub fn load(file: SourceFile) -> (Option<Workflow>, Vec<Problem>) {
    let root = match file.read_tree(&Syntax::DEFAULT.limits) {
        Ok(root) => root,
        Err(error) => return (None, vec![unreadable(&file, &error)]),
    };
    let expansion = expand::expand(&file, root);
    let mut loader = WorkflowLoader {
        file,
        syntax: Syntax::DEFAULT,
        problems: Vec::new(),
        defaults: None,
        default_labels: None,
    };
    let workflow = expansion.root.and_then(|root| loader.read_workflow(&root));
    without_misplaced(&mut loader.problems, &expansion.rewritten);
    for problem in expansion.problems {
        loader.report(problem);
    }
    let workflow = workflow.map(|mut workflow| {
        workflow.take_scenarios(expansion.scenarios);
        workflow.rewritten = expansion.rewritten;
        workflow
    });
    (workflow, in_order(loader.problems))
}

/// Drops changes of texts that stand otherwise in the file: nobody can tell where they would be made.
pub(crate) fn without_misplaced(problems: &mut [Problem], rewritten: &[Span]) {
    for problem in problems.iter_mut().filter(|problem| problem.file.is_none()) {
        let is_inside =
            |fix: &Fix| rewritten.iter().any(|text| text.start <= fix.span.start && fix.span.end <= text.end);
        problem.fix = problem.fix.take().filter(|fix| !is_inside(fix));
    }
}

/// The tree of a file with all short forms, fragments and inherited files expanded.
pub fn expanded(file: &SourceFile) -> (Option<TreeNode>, Vec<Problem>) {
    match file.read_tree(&Syntax::DEFAULT.limits) {
        Ok(root) => {
            let expansion = expand::expand(file, root);
            (expansion.root, expansion.problems)
        }
        Err(error) => (None, vec![unreadable(file, &error)]),
    }
}

fn unreadable(file: &SourceFile, error: &threadline_lang::data::ReadError) -> Problem {
    let problem = problem::of_reading(error);
    match &error.kind {
        threadline_lang::data::ReadErrorKind::DuplicateKey { first, .. } => {
            let (line, column) = file.line_column(first.range().start);
            problem.note(format!("first defined at {}:{line}:{column}", file.name()))
        }
        _ => problem,
    }
}

impl WorkflowLoader {
    fn read_workflow(&mut self, root: &TreeNode) -> Option<Workflow> {
        let place = LocatedNode { node: root, path: EcoString::new() };
        if root.value.as_list().is_some() {
            let steps = self.read_steps(&place, "steps");
            return Some(Workflow { steps, ..self.empty_workflow() });
        }
        if root.value.as_object().is_none() {
            let span = Span { end: root.span.end.min(root.span.start + 1), ..root.span };
            let message = if root.value.is_null() && self.written_text(root).trim().is_empty() {
                "the file is empty".to_owned()
            } else {
                format!("a workflow is a list of steps or an object, not {}", shown(&root.value))
            };
            self.report(
                Check::NotAWorkflow.at(span, message).hint("write the steps as a list under `steps:`"),
            );
            return None;
        }
        let fields = self.read_fields(place, &WORKFLOW)?;
        self.check_version(&fields);
        // Templates are parsed with the declared kinds of computed values.
        let computed = self.read_computed(&fields);
        self.syntax.kinds = computed.iter().map(|kind| kind.name.clone()).collect();
        self.read_defaults(&fields);
        let name = self.read_text(&fields, "name").unwrap_or_else(|| name_of(self.file.name()));
        let workflow = Workflow {
            name,
            description: self.read_text(&fields, "description"),
            syntax: self.syntax.clone(),
            undefined: self.read_undefined(&fields),
            rewritten: Vec::new(),
            unknown_commands: match self.read_choice(&fields, "shell_safety") {
                Some("warn") => UnknownPolicy::Warn,
                _ => UnknownPolicy::Refuse,
            },
            inputs: self.read_inputs(&fields),
            context: self.read_context(&fields),
            env: self.read_variables(&fields),
            env_files: self.read_env_files(&fields),
            secrets: self.read_secrets(&fields),
            agents: self.read_agents(&fields),
            servers: self.read_servers(&fields),
            computed,
            allow: self.read_allow(&fields),
            locks: self.read_templates(&fields, "locks").unwrap_or_default(),
            imports: self.read_imports(&fields),
            exports: self.read_exports(&fields),
            shape: self.read_shape(&fields),
            steps: if fields.found("nodes").is_some() {
                self.read_nodes(&fields)
            } else if fields.found("states").is_some() {
                self.read_states(&fields)
            } else if is_map_reduce(&fields) {
                self.read_phases(&fields)
            } else {
                self.read_steps_of(&fields, "steps")
            },
            timeout: self.read_time_limit(&fields, "timeout"),
            budget: self.read_budget(&fields),
            labels: self.default_labels.take(),
            on_failure: self.read_steps_of(&fields, "on_failure"),
            on_success: self.read_steps_of(&fields, "on_success"),
            finally: self.read_steps_of(&fields, "finally"),
            scenarios: Vec::new(),
            file: self.file.clone(),
        };
        Some(workflow)
    }

    /// A workflow without steps.
    fn empty_workflow(&self) -> Workflow {
        Workflow {
            file: self.file.clone(),
            name: name_of(self.file.name()),
            description: None,
            syntax: self.syntax.clone(),
            undefined: Undefined::Error,
            rewritten: Vec::new(),
            unknown_commands: UnknownPolicy::Refuse,
            inputs: Vec::new(),
            context: None,
            env: Vec::new(),
            env_files: Vec::new(),
            secrets: Vec::new(),
            agents: vec![default_agent(&self.syntax)],
            servers: Vec::new(),
            computed: Vec::new(),
            allow: Allow::default(),
            locks: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            steps: Vec::new(),
            shape: Shape::Steps,
            timeout: None,
            budget: None,
            labels: None,
            on_failure: Vec::new(),
            on_success: Vec::new(),
            finally: Vec::new(),
            scenarios: Vec::new(),
        }
    }

    /// Determines the shape of a file from its keys.
    fn read_shape(&mut self, fields: &ObjectFields<'_>) -> Shape {
        if is_map_reduce(fields) {
            for found in ["steps", "nodes", "edges"].iter().filter_map(|key| fields.found(key)) {
                let message = format!("a map-reduce has phases and cannot have `{}`", found.written);
                self.report(Check::ConflictingKeys.at(found.entry.key_span, message));
            }
            return self.read_map_reduce(fields);
        }
        if let Some(shape) = self.read_loop_shape(fields) {
            return shape;
        }
        match (fields.found("steps"), fields.found("nodes"), fields.found("edges")) {
            (Some(steps), Some(nodes), _) => {
                let message = format!("a workflow has either `{}` or `nodes`, not both", steps.written);
                self.report(Check::ConflictingKeys.at(nodes.entry.key_span, message));
            }
            (Some(_), None, Some(edges)) => {
                let message = "`edges` only applies to graphs, but this is a list of steps";
                self.report(Check::KeyNotHere.at(edges.entry.key_span, message));
            }
            (None, None, _) if !fields.misspelt("steps") && !fields.misspelt("nodes") => {
                let message =
                    "a workflow needs `steps`, a list of steps; `nodes`, a graph; or `states`, a loop";
                self.report(Check::MissingKey.at(head(fields.place.node), message));
            }
            _ => {}
        }
        let edges = self.read_edges(fields);
        if fields.found("nodes").is_some() { Shape::Graph { edges } } else { Shape::Steps }
    }

    fn check_version(&mut self, fields: &ObjectFields<'_>) {
        let Some(place) = fields.get("threadline") else { return };
        let known = fields.object.known("threadline").choices();
        let written = self.written_text(place.node).trim().trim_matches(['"', '\'']).to_owned();
        if !known.iter().any(|version| version.name == written) {
            let message =
                format!("this program supports version 1 of the language, not {}", shown(&place.node.value));
            self.report(Check::OtherVersion.at(span_of(place.node), message).hint("write `threadline: 1`"));
        }
    }

    fn read_undefined(&mut self, fields: &ObjectFields<'_>) -> Undefined {
        match self.read_choice(fields, "undefined") {
            Some("keep") => Undefined::Keep,
            Some("empty") => Undefined::Empty,
            _ => Undefined::Error,
        }
    }

    fn read_allow(&mut self, fields: &ObjectFields<'_>) -> Allow {
        let Some(place) = fields.get("allow") else { return Allow::default() };
        let Some(fields) = self.read_fields(place, &ALLOW) else { return Allow::default() };
        Allow {
            commands: self.read_bool(&fields, "commands"),
            files: self.read_texts(&fields, "files").unwrap_or_default(),
            hosts: self.read_texts(&fields, "hosts").unwrap_or_default(),
        }
    }

    fn read_env_files(&mut self, fields: &ObjectFields<'_>) -> Vec<Field<EcoString>> {
        let Some(place) = fields.get("env_file") else { return Vec::new() };
        let places = if place.node.value.as_list().is_some() { place.items().collect() } else { vec![place] };
        let mut files = Vec::new();
        for place in places {
            let Some(path) = self.read_scalar_text(&place, "env_file") else { continue };
            files.push(Field { value: path, origin: place.origin() });
        }
        files
    }

    fn read_secrets(&mut self, fields: &ObjectFields<'_>) -> Vec<Secret> {
        let Some(place) = self.read_map(fields, "secrets") else { return Vec::new() };
        let mut secrets = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            let source = if at.node.value.as_object().is_some() {
                self.read_secret_source(at, name)
            } else {
                let text = at.node.value.to_string();
                self.read_secret_variable(&at, name, &text)
            };
            // One that cannot be read is declared all the same: who reads it is not to blame.
            let source = source.unwrap_or_else(|| SecretSource::Variable(name.into()));
            secrets.push(Secret { name: name.into(), span: entry.key_span, source });
        }
        secrets
    }

    /// Reads the name of the variable that holds a secret.
    fn read_secret_variable(
        &mut self,
        place: &LocatedNode<'_>,
        name: &str,
        text: &str,
    ) -> Option<SecretSource> {
        if forms::is_variable(text) {
            return Some(SecretSource::Variable(text.into()));
        }
        let message = "a secret is given as the name of an environment variable";
        let problem = Check::WrongType.at(span_of(place.node), message);
        // A reference to the environment, as older systems write it, ends with the variable.
        let mut words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        let last = words.rfind(|word| forms::is_variable(word));
        let variable = last.filter(|_| text.contains("env")).unwrap_or(name);
        self.report(problem.hint(format!("write `{name}: {variable}`")));
        None
    }

    fn read_secret_source(&mut self, place: LocatedNode<'_>, name: &str) -> Option<SecretSource> {
        let (span, is_empty) = (span_of(place.node), place.entries().next().is_none());
        let fields = self.read_fields(place, &SECRET)?;
        let found: Vec<&str> =
            ["env", "file", "command"].into_iter().filter(|key| fields.found(key).is_some()).collect();
        match found[..] {
            ["env"] => {
                let place = fields.get("env")?;
                let text = self.read_scalar_text(&place, "env")?;
                self.read_secret_variable(&place, "env", &text)
            }
            ["file"] => Some(SecretSource::File(self.read_text(&fields, "file")?)),
            ["command"] => {
                let command = self.read_texts(&fields, "command");
                let command = self.check_program(command, fields.get("command"), "command")?;
                Some(SecretSource::Command(command))
            }
            [] => {
                // A key that it does not have is reported as that.
                if is_empty {
                    let message = format!("the secret `{name}` needs one of `env`, `file` and `command`");
                    self.report(Check::MissingKey.at(span, message));
                }
                None
            }
            _ => {
                let message =
                    format!("the secret `{name}` has one of `env`, `file` and `command`, not several");
                self.report(Check::ConflictingKeys.at(span, message));
                None
            }
        }
    }

    fn read_computed(&mut self, fields: &ObjectFields<'_>) -> Vec<ComputedKind> {
        let Some(place) = self.read_map(fields, "computed") else { return Vec::new() };
        let mut all = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_kind_name(name, entry.key_span) {
                continue;
            }
            let Some(fields) = self.read_fields(at, &COMPUTED) else { continue };
            let command = self.read_texts(&fields, "command");
            let timeout = self.read_fixed_duration(&fields, "timeout");
            let Some(command) = self.check_program(command, fields.get("command"), "command") else {
                continue;
            };
            all.push(ComputedKind { name: name.into(), command, span: entry.key_span, timeout });
        }
        all
    }

    fn check_kind_name(&mut self, name: &str, span: Span) -> bool {
        let taken = threadline_lang::BUILT_IN_KINDS.contains(&name) || crate::plan::ROOTS.contains(&name);
        if taken {
            self.report(
                Check::ReservedName
                    .at(span, format!("`{name}` is a built-in name"))
                    .hint("choose another name"),
            );
        }
        !taken && self.check_name(name, span)
    }

    /// Checks that a program is not empty.
    pub(super) fn check_program<T>(
        &mut self,
        command: Option<Vec<T>>,
        place: Option<LocatedNode<'_>>,
        name: &str,
    ) -> Option<Vec<T>> {
        let command = command?;
        if command.is_empty() {
            let span = place.map_or(Span::default(), |place| place.node.span);
            self.report(
                Check::WrongType
                    .at(span, format!("`{name}` takes a program and its arguments, but is empty")),
            );
            return None;
        }
        Some(command)
    }

    fn read_inputs(&mut self, fields: &ObjectFields<'_>) -> Vec<Input> {
        let Some(place) = self.read_map(fields, "inputs") else { return Vec::new() };
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
                && let Some(fields) = self.read_fields(at, &INPUT)
            {
                self.read_input(&fields, &mut input);
            }
            inputs.push(input);
        }
        inputs
    }

    fn read_input(&mut self, fields: &ObjectFields<'_>, input: &mut Input) {
        input.kind = self.read_choice(fields, "type").and_then(Input::type_of);
        input.default = fields.get("default").map(|place| place.node.value.clone());
        input.required = self.read_given_bool(fields, "required").unwrap_or(input.default.is_none());
        input.description = self.read_text(fields, "description");
        if let (Some(kind), Some(default), Some(place)) = (input.kind, &input.default, fields.get("default"))
            && !Input::accepts(kind, default)
        {
            let message = format!(
                "`default` of `{}` is {}, not {}",
                input.name,
                default.kind().with_article(),
                kind.with_article()
            );
            self.report(Check::WrongType.at(span_of(place.node), message));
        }
    }

    fn read_context(&mut self, fields: &ObjectFields<'_>) -> Option<Context> {
        let place = self.read_map(fields, "context")?;
        let mut entries = Vec::new();
        for (name, entry, at) in place.entries() {
            let Some(written) = self.read_document(&at) else { continue };
            let literal = written.value.as_fixed().and_then(|value| value.as_str()).map(EcoString::from);
            entries.push(ContextEntry { name: name.into(), written, key_span: entry.key_span, literal });
        }
        let compiled = Document::compile(&self.syntax, |sink| {
            sink.begin_object(place.node.span)?;
            sink.key("context", Style::Plain, place.node.span)?;
            place.node.feed(sink)?;
            sink.end_object(place.node.span)
        });
        // The problems were reported entry by entry.
        let mut document = match compiled {
            Ok(document) | Err(DocumentError::Templates { rest: document, .. }) => document,
            Err(DocumentError::Read(_)) => return None,
        };
        let definitions = document.define("context").ok().flatten()?;
        Some(Context { definitions, entries })
    }

    fn read_agents(&mut self, fields: &ObjectFields<'_>) -> Vec<Agent> {
        let mut agents = Vec::new();
        self.read_prices(fields);
        if let Some(place) = self.read_map(fields, "agents") {
            for (name, entry, at) in place.entries() {
                if !self.check_agent_name(name, entry.key_span) {
                    continue;
                }
                let (provider, fields) = match self.read_provider(&at) {
                    Some(provider) => (provider, self.read_fields(at, &provider.object)),
                    // Its keys cannot be known, but its name is.
                    None => (DEFAULT_PROVIDER, None),
                };
                let mut agent = Agent {
                    name: name.into(),
                    provider,
                    settings: Vec::new(),
                    model: None,
                    tools: Vec::new(),
                    cache: false,
                    labels: None,
                    span: entry.key_span,
                };
                if let Some(fields) = fields {
                    agent.model = self.read_text(&fields, "model");
                    agent.cache = self.read_bool(&fields, "cache");
                    agent.labels = self.read_labels(&fields);
                    agent.tools = self.read_agent_tools(&fields);
                    let settings = provider.object.keys.iter().filter(|key| key.name != "tools");
                    agent.settings =
                        settings.filter_map(|key| self.read_agent_setting(&fields, key)).collect();
                }
                agents.push(agent);
            }
        }
        if !agents.iter().any(|agent| agent.name == DEFAULT_AGENT.0) {
            agents.push(default_agent(&self.syntax));
        }
        agents
    }

    /// Checks the prices of models. They became prices of agents when the file was expanded.
    fn read_prices(&mut self, fields: &ObjectFields<'_>) {
        let Some(place) = self.read_map(fields, "prices") else { return };
        for (model, _, at) in place.entries() {
            if !SettingForm::Price.fits(&at.node.value) {
                let expected = SettingForm::Price.expected();
                let message = format!("the price of `{model}` is {expected}, not {}", shown(&at.node.value));
                self.report(Check::WrongType.at(span_of(at.node), message));
            }
        }
    }

    /// The provider of an agent, which decides what other keys it has.
    fn read_provider(&mut self, place: &LocatedNode<'_>) -> Option<&'static ProviderSpec> {
        let Some((_, _, at)) = place.entries().find(|(key, ..)| *key == "provider") else {
            return Some(DEFAULT_PROVIDER);
        };
        let word = self.read_choice_at(&at, "provider", AGENT.known("provider").choices())?;
        PROVIDERS.iter().find(|provider| provider.word.name == word)
    }

    fn read_agent_setting(
        &mut self,
        fields: &ObjectFields<'_>,
        key: &'static KeySpec,
    ) -> Option<AgentSetting> {
        let value = match key.kind {
            KeyKind::List(KeyKind::Text) => {
                let words = self.read_templates(fields, key.name);
                SettingTemplate::Program(self.check_program(words, fields.get(key.name), key.name)?)
            }
            KeyKind::Text => {
                let text = self.read_template_of(fields, key.name)?;
                match key.name {
                    API_KEY_NAME => self.check_api_key(&text),
                    BASE_URL => self.check_url(&text),
                    _ => {}
                }
                SettingTemplate::Text(text)
            }
            KeyKind::Map(_) => {
                self.read_map(fields, key.name)?;
                SettingTemplate::Value(self.read_document_of(fields, key.name)?)
            }
            _ => {
                let value = self.read_document_of(fields, key.name)?;
                self.check_agent_number(key.name, &value);
                SettingTemplate::Value(value)
            }
        };
        Some(AgentSetting { key: key.name, value })
    }

    /// A number that is written out is looked at before an answer is paid for.
    fn check_agent_number(&mut self, key: &str, setting: &Field<Document>) {
        let Some(value) = setting.value.as_fixed() else { return };
        let Some(form) = SettingForm::of(key) else { return };
        if !form.fits(value) {
            let message = format!("`{key}` takes {}, not {}", form.expected(), shown(value));
            self.report(Check::WrongType.at(setting.origin.span, message));
        }
    }

    /// What is not a secret is recorded, shown and kept.
    fn check_api_key(&mut self, key: &Field<Template>) {
        let references = key.value.references();
        let is_secret =
            !references.is_empty() && references.iter().all(|reference| reference.root == "secrets");
        if !is_secret {
            let message = "`api_key` must be read from a secret: everything else is recorded";
            let hint = "declare it, as in `secrets: {API_KEY: {env: API_KEY}}`, and write `api_key: ${secrets.API_KEY}`";
            self.report(Check::KeyNotSecret.at(key.origin.span, message).hint(hint));
        }
    }

    fn read_imports(&mut self, fields: &ObjectFields<'_>) -> Vec<Import> {
        let Some(place) = self.read_map(fields, "imports") else { return Vec::new() };
        let mut imports = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(workflow) = self.read_scalar_text(&at, name)
            {
                let span = entry.key_span;
                imports.push(Import { name: name.into(), workflow, span, exports: None });
            }
        }
        imports
    }

    fn read_exports(&mut self, fields: &ObjectFields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.read_map(fields, "exports") else { return Vec::new() };
        let mut exports = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.read_document(&at)
            {
                exports.push((name.into(), document));
            }
        }
        exports
    }
}

/// Whether a file has the phases of a map-reduce.
fn is_map_reduce(fields: &ObjectFields<'_>) -> bool {
    mapreduce::KEYS.iter().any(|key| fields.found(key).is_some())
}

/// The problem of a file of another shape.
fn name_of(file: &str) -> EcoString {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem }).into()
}

fn default_agent(syntax: &Syntax) -> Agent {
    let origin = Origin { path: EcoString::new(), span: Span::default(), style: Style::Plain };
    let (name, command) = DEFAULT_AGENT;
    let field = |word: &str| Field { value: Template::parse_all(word, syntax).0, origin: origin.clone() };
    let command = SettingTemplate::Program(command.map(field).into());
    Agent {
        name: name.into(),
        provider: DEFAULT_PROVIDER,
        settings: vec![AgentSetting { key: "command", value: command }],
        model: None,
        tools: Vec::new(),
        cache: false,
        labels: None,
        span: Span::default(),
    }
}

/// A list of steps, as the model has it.
type StepList = Vec<Arc<crate::model::Step>>;
