//! `threadline preview`: what every step of a workflow would do, as far as it is known before a run.
//!
//! Nothing is run and nothing is written. Files and the environment are read; commands and declared kinds are not asked.

mod items;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use anstyle::Style;
use ecow::{EcoString, eco_format};
use threadline_engine::evaluate::{file_text, url_text};
use threadline_engine::rehearsal::edges;
use threadline_expect::{DocumentKind, Dynamic};
use threadline_flow::model::{self, Action, Evaluate, Evaluator, Field, Retry, Setting, Terminal, Variable};
use threadline_flow::plan::{LOOP_ROOTS, ListNumber, PAYLOAD, Part, Plan, PlannedStep, StepNumber};
use threadline_flow::shell::BindError;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Error, Explanation, Expression, Origin, Resolution, Scope, ScopeEntry, Session,
    Template, Undefined, Value, World,
};
use threadline_runner::process::{Control, Environment};
use threadline_runner::world::{Commands, Folder, RealWorld};

use self::items::{Items, List};
use super::explain::json::tree;
use super::explain::told::field_of;
use super::history::project;
use super::run::{Prepared, payload, prepare};
use super::{print, print_styled};
use crate::arguments::Preview;
use crate::exit::Failure;
use crate::inputs;
use crate::report::{self, Source, explanation_text, visible};
use crate::table::Table;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// What is said of a value that only the step itself computes.
const WHEN_IT_STARTS: &str = "known when the step starts";

/// `threadline preview`
pub(crate) fn preview(call: &Preview) -> Result<(), Failure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let Prepared { plan, inputs, .. } = prepare(&file, &call.what)?;
    let project =
        project(call.dir.as_deref())?.allow(plan.workflow.allow.files.iter().map(EcoString::as_str));
    let mut world = Before(RealWorld {
        folder: Folder::new(project.here()),
        project: &project,
        env: Environment::inherited(),
        commands: Commands::Refused("a preview runs nothing"),
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
    });
    let run = run_scope(&plan, inputs, payload(&call.what, &plan.workflow)?);
    let here = project.here();
    let mut lists: BTreeMap<StepNumber, Items> = BTreeMap::new();
    let mut look = |number: StepNumber, what: Looked| {
        let step = &plan.steps[number as usize];
        let scope = items::with_first(&plan, number, &lists, step_scope(&plan, number, &run));
        let cwd = step.step.cwd.as_ref().and_then(|cwd| Some(cwd.value.as_plain()?.into_owned()));
        world.0.folder.enter(cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd)));
        let session =
            Session::new(&mut world).limits(&plan.workflow.syntax.limits).undefined(Undefined::Keep);
        let mut looking = Looking {
            plan: &plan,
            step,
            number,
            scope: &scope,
            session: session.traced(),
            fields: Vec::new(),
            unknown: BTreeMap::new(),
        };
        match what {
            Looked::Variables => looking.shared(),
            Looked::Step => looking.step(),
        }
        let fields = looking.fields;
        if let (Action::ForEach(each), Looked::Step) = (&step.step.action, what) {
            let session = Session::new(&mut world).limits(&plan.workflow.syntax.limits);
            let list = List { plan: &plan, number, each, project: &project };
            lists.insert(number, list.items(&fields, &scope, session));
        }
        fields
    };
    let numbers = (0..).take(plan.steps.len());
    let foreseen = Foresight {
        // These read nothing that a step makes, so every step sees them as the first one does.
        env: numbers.clone().take(1).flat_map(|number| look(number, Looked::Variables)).collect(),
        steps: numbers.map(|number| look(number, Looked::Step)).collect(),
        lists,
    };
    if call.json {
        return print(&format!("{}\n", foreseen.json(&plan).to_json(JsonStyle::Compact)));
    }
    print_styled(&foreseen.text(&plan, call.full))
}

/// What of a step is looked at.
#[derive(Clone, Copy)]
enum Looked {
    /// The variables that every step has.
    Variables,
    /// Its own fields.
    Step,
}

/// Everything that is known before a run.
struct Foresight {
    /// The variables of every step.
    env: Vec<Foreseen>,
    /// The fields of each step.
    steps: Vec<Vec<Foreseen>>,
    /// The items of each step that has some.
    lists: BTreeMap<StepNumber, Items>,
}

/// The world before a run: what is there can be read, what has to be done is not.
pub(super) struct Before<'a>(pub(super) RealWorld<'a>);

impl World for Before<'_> {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        let unknown = |why: &str| ComputeError::Missing { nearest: Some(why.into()) };
        match name {
            "env" => self.0.compute(name, args),
            // A step before may write it.
            "file" => self.0.compute(name, args).map_err(|error| match error {
                ComputeError::Failed { message, .. } => unknown(&format!("cannot be read now: {message}")),
                missing @ ComputeError::Missing { .. } => missing,
            }),
            _ => Err(unknown(WHEN_IT_STARTS)),
        }
    }
}

/// A field as far as it is known.
struct Foreseen {
    name: String,
    place: (usize, usize),
    shown: Shown,
    references: Vec<Known>,
    /// What cannot be, whatever the unknown values are.
    problems: Vec<String>,
}

enum Shown {
    Nothing,
    Text(String),
    Value(Value),
    Condition(Explanation),
    Shell { text: String, variables: Vec<(String, Result<String, String>)> },
}

/// A reference: its value, or when there will be one.
struct Known {
    reference: EcoString,
    place: (usize, usize),
    value: Result<Value, String>,
}

/// Looks at the fields of one step.
struct Looking<'p, 'w> {
    plan: &'p Plan,
    step: &'p PlannedStep,
    number: StepNumber,
    scope: &'p Scope,
    session: Session<'w>,
    fields: Vec<Foreseen>,
    /// Entries of `context` that are not known, and why.
    unknown: BTreeMap<EcoString, String>,
}

impl<'p> Looking<'p, '_> {
    /// The variables of every step.
    fn shared(&mut self) {
        let plan = self.plan;
        self.variables(&plan.workflow.env);
    }

    /// Every field of the step.
    fn step(&mut self) {
        let step = &*self.step.step;
        if let Some(when) = &step.when {
            self.condition(when);
        }
        self.variables(&step.env);
        if let Some(cwd) = &step.cwd {
            self.template(cwd);
        }
        self.setting(step.timeout.as_ref());
        self.setting(step.idle_timeout.as_ref());
        self.setting(step.max_output.as_ref());
        if let Some(Retry { attempts, delay, max_delay, .. }) = &step.retry {
            self.setting(Some(attempts));
            self.setting(Some(delay));
            self.setting(Some(max_delay));
        }
        self.action();
        if let Some(expect) = &step.expect {
            for dynamic in
                expect.value.dynamics().iter().filter(|dynamic| !dynamic.is_late(DocumentKind::Step))
            {
                if let Dynamic::Value(field) = dynamic {
                    self.document_at(&field.value, &field.origin);
                }
            }
        }
        self.judgement();
    }

    /// What judges a state, and the conditions of its routes.
    fn judgement(&mut self) {
        let Some(state) = &self.step.step.state else { return };
        if let Some(Evaluate { by: Evaluator::Expression(expression), .. }) = &state.evaluate {
            self.condition(expression);
        }
        for (condition, _) in &state.routes.conditions {
            self.condition(condition);
        }
    }

    fn variables(&mut self, variables: &'p [Variable]) {
        for field in variables.iter().filter_map(|variable| variable.value.as_ref()) {
            self.template(field);
        }
    }

    fn action(&mut self) {
        let (plan, step) = (self.plan, self.step);
        match &step.step.action {
            Action::Shell { text, .. } => self.shell(text),
            Action::Argv(words) => self.argv(words),
            Action::Agent { agent, message } => {
                let known = plan.workflow.agents.iter().find(|known| known.name == agent.value);
                for word in known.iter().flat_map(|agent| &agent.command) {
                    self.template(word);
                }
                self.template(message);
            }
            Action::Http(http) => {
                let Field { value: of, origin } = &http.url;
                let url = url_text(of, origin, self.scope, &mut self.session);
                let (shown, problem) = match url {
                    Ok(url) => (Shown::Text(format!("{} {url}", http.method)), None),
                    Err(error) => (Shown::Nothing, Some(error.problem(plan.workflow.file.text()).message)),
                };
                self.add(origin, shown, problem.into_iter().collect());
                // What is not known yet would be encoded as it is written.
                if let Some(field) = self.fields.last_mut()
                    && field.references.iter().any(|reference| reference.value.is_err())
                {
                    field.shown = Shown::Text(format!("{} {}", http.method, of.source()));
                    field.problems.clear();
                }
                http.headers.iter().for_each(|(_, value)| self.template(value));
                http.query.iter().chain(&http.body).for_each(|field| self.document(field));
            }
            Action::Tool(call) => {
                let name = Shown::Text(call.name.value.to_string());
                self.add(&call.name.origin, name, Vec::new());
                call.params.iter().for_each(|field| self.document(field));
            }
            Action::Workflow(call) => {
                let file = step.calls.as_ref().map_or("", |plan| plan.workflow.file.name());
                self.add(&call.path.origin, Shown::Text(file.to_owned()), Vec::new());
                for given in &call.with {
                    self.document(&given.value);
                }
            }
            Action::WriteFile(file) => {
                self.template(&file.path);
                self.session.set_origin(Some(file.content.origin.clone()));
                let content = file.content.value.resolve(self.scope, &mut self.session);
                let content = content.map(|value| Shown::Text(file_text(&value, file.format)));
                self.resolved(&file.content.origin, content);
            }
            Action::Value(field) => self.document(field),
            Action::Condition(condition) => self.condition(&condition.expression),
            Action::Trigger(_) | Action::Nothing => {}
            Action::Phase(phase) => phase.variables.iter().for_each(|(_, value)| self.document(value)),
            Action::ForEach(each) => {
                match &each.source {
                    model::Source::Value(items) => self.document(items),
                    model::Source::File { path, .. } => self.template(path),
                    model::Source::Shell { text, .. } => self.shell(text),
                }
                self.setting(each.offset.as_ref());
                self.setting(each.max_items.as_ref());
                self.setting(each.parallel.as_ref());
            }
        }
    }

    fn condition(&mut self, field: &Field<Arc<Expression>>) {
        self.session.set_origin(Some(field.origin.clone()));
        let explanation = field.value.explain(self.scope, &mut self.session);
        self.add(&field.origin, Shown::Condition(explanation), Vec::new());
    }

    fn template(&mut self, field: &Field<Template>) {
        let mut text = String::new();
        self.session.set_origin(Some(field.origin.clone()));
        let result = field.value.text(self.scope, &mut self.session, &mut text);
        self.resolved(&field.origin, result.map(|()| Shown::Text(text)).map_err(|error| vec![error]));
    }

    fn document(&mut self, field: &Field<Document>) {
        self.document_at(&field.value, &field.origin);
    }

    fn document_at(&mut self, document: &Document, origin: &Origin) {
        self.session.set_origin(Some(origin.clone()));
        let resolved = document.resolve(self.scope, &mut self.session).map(Shown::Value);
        self.resolved(origin, resolved);
    }

    fn setting<T>(&mut self, setting: Option<&Setting<T>>) {
        if let Some(Setting::Dynamic(field)) = setting {
            self.document(field);
        }
    }

    fn resolved(&mut self, origin: &Origin, resolved: Result<Shown, Vec<Error>>) {
        let (shown, errors) = match resolved {
            Ok(shown) => (shown, Vec::new()),
            Err(errors) => (Shown::Nothing, errors),
        };
        self.add(origin, shown, errors.iter().map(ToString::to_string).collect());
    }

    fn shell(&mut self, text: &Field<EcoString>) {
        let Some(script) = &self.step.script else {
            return self.add(&text.origin, Shown::Text(text.value.to_string()), Vec::new());
        };
        self.session.set_origin(Some(text.origin.clone()));
        let foreseen = script.preview(self.scope, &mut self.session);
        let mut problems = Vec::new();
        let variables = foreseen.bound.variables.iter().enumerate().map(|(at, variable)| {
            let value = match foreseen.unknown.iter().find(|(unknown, _)| *unknown == at) {
                None => Ok(variable.value.clone()),
                Some((_, BindError::Evaluation(error))) => Err(error.to_string()),
                Some((_, BindError::Refused(problem))) => {
                    problems.push(problem.message.clone());
                    Err("cannot stand here".to_owned())
                }
            };
            (variable.name.clone(), value)
        });
        let variables = variables.collect();
        let shown = Shown::Shell { text: foreseen.bound.text, variables };
        self.add(&text.origin, shown, problems);
    }

    fn argv(&mut self, words: &'p [Field<Template>]) {
        let Some(argv) = &self.step.argv else { return };
        let bound = argv.bind(self.scope, &mut self.session, |at, session| {
            session.set_origin(Some(words[at].origin.clone()));
        });
        let texts: Vec<Value> = match &bound {
            Ok(arguments) => arguments.iter().map(|argument| argument.value.as_str().into()).collect(),
            // As written, where something is not known.
            Err(_) => words.iter().map(|word| word.value.source().into()).collect(),
        };
        let refused = |(_, error): (usize, BindError)| match error {
            BindError::Refused(problem) => Some(problem.message),
            BindError::Evaluation(_) => None,
        };
        let problems = bound.err().into_iter().flatten().filter_map(refused).collect();
        let origin = words.first().map_or_else(|| self.step.step.origin.clone(), |word| word.origin.clone());
        self.add(&origin, Shown::Value(Value::sequence(texts)), problems);
    }

    /// A field, with the references that were resolved for it.
    fn add(&mut self, origin: &Origin, shown: Shown, problems: Vec<String>) {
        let source = self.source();
        let mut references = Vec::new();
        for made in self.session.take_trace() {
            let within = made.within.clone();
            let known = self.known(made);
            match (within, &known.value) {
                (None, _) => references.push(known),
                (Some(entry), Err(why)) => {
                    self.unknown.entry(entry).or_insert_with(|| why.clone());
                }
                (Some(_), Ok(_)) => {}
            }
        }
        self.fields.push(Foreseen {
            name: field_of(self.step, Some(origin)),
            place: {
                let (_, line, column) = source.place(origin.span.range().start.min(source.text.len()));
                (line, column)
            },
            shown,
            references,
            problems,
        });
    }

    fn known(&self, made: Resolution) -> Known {
        let (_, line, column) = report::trace_place(self.source(), &made);
        let place = (line, column);
        let entry = made.first.as_ref().filter(|_| made.root == "context");
        let value = match (made.value, entry.and_then(|entry| self.unknown.get(entry))) {
            (_, Some(why)) => Err(why.clone()),
            (Some(value), None) => Ok(value),
            (None, None) if made.computed && made.root == "env" => Err("is not set".to_owned()),
            (None, None) if made.computed => Err(WHEN_IT_STARTS.to_owned()),
            (None, None) => Err(self.when(&made.root, made.first.as_ref())),
        };
        Known { reference: made.reference, place, value }
    }

    /// When there will be a value of a name, in words.
    fn when(&self, root: &str, first: Option<&EcoString>) -> String {
        let name = match root {
            "captured" | "nodes" => first.map_or("", EcoString::as_str),
            root => root,
        };
        match name {
            "workflow" => WITH_THE_RUN.to_owned(),
            PAYLOAD if self.plan.lists[0].graph.is_some() => WITH_THE_RUN.to_owned(),
            "context" => "depends on what is not known yet".to_owned(),
            "aggregates" if self.plan.is_map_reduce() => self.when("map", None),
            "result" if self.plan.states.is_some() => "known when the state is judged".to_owned(),
            "state" | "loop" if self.plan.states.is_some() => WHEN_IT_STARTS.to_owned(),
            name => when_known(self.plan, self.number, name).unwrap_or_else(|| "is missing".to_owned()),
        }
    }

    fn source(&self) -> Source<'p> {
        let file = &self.plan.workflow.file;
        Source::of(file)
    }
}

const WITH_THE_RUN: &str = "known when the run starts";

/// When a name that a step reads gets its value.
fn when_known(plan: &Plan, number: StepNumber, name: &str) -> Option<String> {
    match name {
        "prev" if plan.steps[number as usize].step.state.is_some() => Some(before_state(plan, number)),
        "prev" => {
            let step = &plan.steps[number as usize];
            let list = &plan.lists[step.list as usize].steps;
            let before = list.iter().take_while(|other| **other != number).last();
            let owner = plan.lists[step.list as usize].parent.map(|(owner, _)| owner);
            let title = &plan.steps[before.copied().or(owner)? as usize].label;
            Some(format!("known after `{title}` has run"))
        }
        "item" => {
            let each = foreach_of(plan, plan.steps[number as usize].list)?;
            Some(format!("one for each item of `{}`", plan.steps[each as usize].label))
        }
        name => {
            let makers: Vec<String> = visible_steps(plan, number)
                .filter(|step| {
                    let named = |field: &Option<Field<EcoString>>| {
                        field.as_ref().is_some_and(|field| field.value == name)
                    };
                    named(&step.step.id) || named(&step.step.capture)
                })
                .map(|step| format!("`{}`", step.label))
                .collect();
            (!makers.is_empty()).then(|| format!("known after {} has run", makers.join(" or ")))
        }
    }
}

/// The states that lead to one, in words.
fn before_state(plan: &Plan, number: StepNumber) -> String {
    let list = &plan.lists[0];
    let leads = edges(plan).into_iter().filter(|edge| list.steps.get(edge.to) == Some(&number));
    let names: Vec<String> = leads.map(|edge| format!("`{}`", list.word(edge.from))).collect();
    if names.is_empty() {
        return "nothing is before it".to_owned();
    }
    format!("known after {} has run", names.join(" or "))
}

/// Where a state leads, in words.
fn leads(plan: &Plan, number: StepNumber) -> String {
    let list = &plan.lists[0];
    let edges = edges(plan).into_iter().filter(|edge| list.steps.get(edge.from) == Some(&number));
    let ways = edges.map(|edge| {
        let labels: Vec<&str> =
            edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
        format!("{} → {}", labels.join(" or "), list.word(edge.to)).trim_start().to_owned()
    });
    let ways: Vec<String> = ways.collect();
    let state = plan.steps[number as usize].step.state.as_ref();
    match state.and_then(|state| state.terminal) {
        Some(Terminal::Success) => "the loop ends well".to_owned(),
        Some(Terminal::Failure) => "the loop ends as failed".to_owned(),
        None => ways.join(", "),
    }
}

/// The steps whose names a step can see.
fn visible_steps(plan: &Plan, number: StepNumber) -> impl Iterator<Item = &PlannedStep> {
    let mut scopes = vec![foreach_of(plan, plan.steps[number as usize].list)];
    while let Some(Some(each)) = scopes.last() {
        let outer = foreach_of(plan, plan.steps[*each as usize].list);
        scopes.push(outer);
    }
    plan.steps.iter().filter(move |step| scopes.contains(&foreach_of(plan, step.list)))
}

/// The innermost `foreach` around a list.
fn foreach_of(plan: &Plan, list: ListNumber) -> Option<StepNumber> {
    let mut list = list;
    loop {
        let (owner, part) = plan.lists[list as usize].parent?;
        if part == Part::Do && matches!(plan.steps[owner as usize].step.action, Action::ForEach(_)) {
            return Some(owner);
        }
        list = plan.steps[owner as usize].list;
    }
}

/// The names that are there before a run.
pub(super) fn run_scope(plan: &Plan, inputs: Value, payload: Option<Value>) -> Scope {
    let unset = |name: &str| (EcoString::from(name), ScopeEntry::Unset(WITH_THE_RUN.into()));
    let name = ("name".into(), ScopeEntry::Plain(plan.workflow.name.as_str().into()));
    let workflow = layer(&Scope::new(), "workflow", vec![name, unset("id"), unset("start_time")]);
    let imports = plan.workflow.imports.iter().map(|import| unset(&import.name)).collect();
    let mut entries = vec![
        ("imports".into(), ScopeEntry::Names(layer(&Scope::new(), "imports", imports))),
        ("inputs".into(), ScopeEntry::Plain(inputs)),
        ("workflow".into(), ScopeEntry::Names(workflow)),
    ];
    if plan.lists[0].graph.is_some() {
        entries.push(
            payload.map_or_else(|| unset(PAYLOAD), |payload| (PAYLOAD.into(), ScopeEntry::Plain(payload))),
        );
    }
    if let Some(context) = &plan.workflow.context {
        entries.push(("context".into(), ScopeEntry::Definitions(Arc::clone(&context.definitions))));
    }
    layer(&Scope::new(), "run", entries)
}

/// The names that a step will see, none of those that steps make with a value yet.
fn step_scope(plan: &Plan, number: StepNumber, run: &Scope) -> Scope {
    let mut names: Vec<EcoString> = Vec::new();
    let mut captured: Vec<EcoString> = Vec::new();
    for step in visible_steps(plan, number) {
        let id = step.step.id.as_ref().map(|id| id.value.clone());
        let capture = step.step.capture.as_ref().map(|capture| capture.value.clone());
        names.extend(id.into_iter().chain(capture.clone()));
        captured.extend(capture);
    }
    names.extend(["prev".into(), "item".into()]);
    if plan.states.is_some() {
        names.extend(LOOP_ROOTS.map(EcoString::from));
    }
    let unset = |mut names: Vec<EcoString>| -> Vec<(EcoString, ScopeEntry)> {
        names.sort();
        names.dedup();
        let entry = |name: EcoString| {
            let when = match when_known(plan, number, &name) {
                None if plan.states.is_some() && LOOP_ROOTS.contains(&name.as_str()) => {
                    WHEN_IT_STARTS.to_owned()
                }
                when => when?,
            };
            Some((name.clone(), ScopeEntry::Unset(eco_format!("{when}"))))
        };
        names.into_iter().filter_map(entry).collect()
    };
    let captured = layer(&Scope::new(), "captured", unset(captured));
    let mut entries = unset(names);
    entries.push(("captured".into(), ScopeEntry::Names(captured)));
    layer(run, "steps", entries)
}

/// A layer of names of which none stands twice.
fn layer(scope: &Scope, label: &str, entries: Vec<(EcoString, ScopeEntry)>) -> Scope {
    scope.with_entries(label, entries).unwrap_or_else(|_| scope.clone())
}

// ---- plain ----------------------------------------------------------------------------------------------

impl Foresight {
    fn text(&self, plan: &Plan, full: bool) -> String {
        let file = &plan.workflow.file;
        let mut out = String::new();
        if !self.env.is_empty() {
            // Writing into a text cannot fail.
            let _ = writeln!(out, "{BOLD}env{BOLD:#}  {DIM}{}, every step{DIM:#}", file.name());
        }
        for field in &self.env {
            field_text(field, full, &mut out);
        }
        for ((number, step), fields) in (0..).zip(&plan.steps).zip(&self.steps) {
            if !out.is_empty() {
                out.push('\n');
            }
            let start = step.step.origin.span.range().start.min(file.text().len());
            let (name, line, column) = Source::of(file).place(start);
            let _ = writeln!(
                out,
                "{BOLD}{}{BOLD:#}  {DIM}{}:{line}:{column}, step {}{}{DIM:#}",
                visible(&step.label),
                name,
                step.number,
                items::of_first(plan, number, &self.lists)
            );
            for field in fields {
                field_text(field, full, &mut out);
            }
            if let Some(items) = self.lists.get(&number) {
                items.text(full, &mut out);
            }
            if step.step.state.is_some() {
                let _ = writeln!(out, "  {}", leads(plan, number));
            }
        }
        out
    }
}

fn field_text(field: &Foreseen, full: bool, out: &mut String) {
    let shown = |value: &Value| if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
    let name = &field.name;
    let mut table = Table::default();
    let mut unknown = field.references.iter().filter(|known| known.value.is_err()).peekable();
    let _ = match &field.shown {
        Shown::Nothing => writeln!(out, "  {BOLD}{name}{BOLD:#}"),
        Shown::Text(text) if !text.trim_end().contains('\n') => {
            writeln!(out, "  {BOLD}{name}{BOLD:#} {}", shown(&text.as_str().into()))
        }
        Shown::Text(text) => writeln!(out, "  {BOLD}{name}{BOLD:#}\n{}", block(text)),
        Shown::Value(value) => writeln!(out, "  {BOLD}{name}{BOLD:#} {}", shown(value)),
        Shown::Condition(explanation)
            if unknown.peek().is_some() && matches!(explanation.outcome, Some(Err(_))) =>
        {
            writeln!(
                out,
                "  {BOLD}{name}{BOLD:#} {} {DIM}is not known yet{DIM:#}",
                visible(&explanation.source)
            )
        }
        Shown::Condition(explanation) => {
            let tree: Vec<String> =
                explanation_text(explanation).lines().map(|line| format!("    {line}")).collect();
            writeln!(out, "  {BOLD}{name}{BOLD:#}\n{}", tree.join("\n"))
        }
        Shown::Shell { text, variables } => {
            for (name, value) in variables {
                let value = match value {
                    Ok(value) => format!("= {}", shown(&value.as_str().into())),
                    Err(_) => "is not known yet".to_owned(),
                };
                table.row([(PLAIN, name.clone()), (PLAIN, value)]);
            }
            writeln!(out, "  {BOLD}{name}{BOLD:#}\n{}", block(text))
        }
    };
    out.push_str(&table.text("    "));
    let mut table = Table::default();
    if unknown.peek().is_some() {
        for known in unknown {
            let (line, column) = known.place;
            let why = known.value.as_ref().err().cloned().unwrap_or_default();
            table.row([(DIM, format!("{line}:{column}")), (PLAIN, known.reference.to_string()), (DIM, why)]);
        }
    }
    out.push_str(&table.text("    "));
    for problem in &field.problems {
        let _ = writeln!(out, "    {}", visible(problem));
    }
}

fn block(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| format!("    {DIM}│{DIM:#} {}", visible(line))).collect();
    lines.join("\n")
}

// ---- JSON -----------------------------------------------------------------------------------------------

impl Foresight {
    fn json(&self, plan: &Plan) -> Value {
        let fields = |fields: &[Foreseen]| Value::sequence(fields.iter().map(field_json));
        let steps = (0..).zip(&plan.steps).zip(&self.steps).map(|((number, step), foreseen)| {
            let mut entries = vec![
                ("step", Value::from(step.label.as_str())),
                ("number", step.number.as_str().into()),
                ("action", step.step.action.name().key().into()),
                ("fields", fields(foreseen)),
            ];
            entries.extend(self.lists.get(&number).map(|items| ("items", items.json())));
            Value::record(entries)
        });
        Value::record([
            ("file", plan.workflow.file.name().into()),
            ("workflow", plan.workflow.name.as_str().into()),
            ("env", fields(&self.env)),
            ("steps", Value::sequence(steps)),
        ])
    }
}

fn field_json(field: &Foreseen) -> Value {
    let references = field.references.iter().map(|known| {
        let (value, why) = match &known.value {
            Ok(value) => (value.clone(), Value::NULL),
            Err(why) => (Value::NULL, why.as_str().into()),
        };
        Value::record([
            ("reference", known.reference.as_str().into()),
            ("line", known.place.0.into()),
            ("column", known.place.1.into()),
            ("known", known.value.is_ok().into()),
            ("value", value),
            ("why", why),
        ])
    });
    let mut entries = vec![
        ("field", Value::from(field.name.as_str())),
        ("line", field.place.0.into()),
        ("column", field.place.1.into()),
        ("known", field.references.iter().all(|known| known.value.is_ok()).into()),
    ];
    match &field.shown {
        Shown::Nothing => entries.push(("value", Value::NULL)),
        Shown::Text(text) => entries.push(("value", text.as_str().into())),
        Shown::Value(value) => entries.push(("value", value.clone())),
        Shown::Condition(explanation) => {
            let value = explanation.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
            entries.push(("value", value.cloned().unwrap_or_default()));
            entries.push(("explanation", tree(explanation)));
        }
        Shown::Shell { text, variables } => {
            entries.push(("value", text.as_str().into()));
            let variables = variables.iter().map(|(name, value)| {
                let (value, why) = match value {
                    Ok(value) => (value.as_str().into(), Value::NULL),
                    Err(why) => (Value::NULL, why.as_str().into()),
                };
                Value::record([("name", name.as_str().into()), ("value", value), ("why", why)])
            });
            entries.push(("variables", Value::sequence(variables)));
        }
    }
    entries.push(("references", Value::sequence(references)));
    let problems = field.problems.iter().map(|problem| problem.as_str().into());
    entries.push(("problems", Value::sequence(problems)));
    Value::record(entries)
}
