//! `threadline preview`: what every step of a workflow would do, as far as it is known before a run.
//!
//! Nothing is run and nothing is written. Files and the environment are read; commands and declared kinds are not asked.

mod forecast;
mod items;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;
use ecow::EcoString;
use threadline_engine::evaluate::{Cause, FieldValue, evaluate_field, with_param_entries};
use threadline_engine::view::RunNames;
use threadline_expect::{DocumentKind, Dynamic, Expectations};
use threadline_flow::model::{
    Action, Condition, Field, FieldKind, FieldOwner, Moment, SOURCE, Setting, StepField, step_fields,
};
use threadline_flow::plan::{ListNumber, PAYLOAD, Part, Plan, PlannedStep, RUN, StepNumber};
use threadline_flow::shell::BindError;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Explanation, Number, Origin, Resolution, Scope, ScopeEntry, Session, Template, Undefined,
    Value, World,
};
use threadline_runner::process::{Control, Environment};
use threadline_runner::world::{Commands, Folder, RealWorld};

use self::forecast::Forecast;
use self::items::{Items, PreviewedList};
use super::history::project;
use super::known_surroundings;
use super::{print, print_styled};
use crate::arguments::PreviewArguments;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{PreparedWorkflow, prepare, read_payload};
use crate::report::{LineTable, ReportSource, explanation_text, visible};
use crate::table::Table;
use crate::user_agents;
use threadline_inspect::explanation_json::tree;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// What is said of a value that only the step itself computes.
const WHEN_IT_STARTS: &str = "known when the step starts";

pub(crate) fn preview(call: &PreviewArguments) -> Result<(), CommandFailure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let PreparedWorkflow { plan, inputs, .. } = prepare(&file, &call.what)?;
    let project =
        project(call.dir.as_deref())?.allow(plan.workflow.allow.files.iter().map(EcoString::as_str));
    let surroundings = known_surroundings(&plan, &project)?;
    let mut world = PreviewWorld(RealWorld {
        folder: Folder::new(project.here()),
        project: &project,
        env: surroundings.environment(&plan.workflow, Environment::inherited()),
        commands: Commands::Refused("a preview runs nothing"),
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
        masks: surroundings.masks().cloned(),
        threads: None,
    });
    let run = run_scope(&plan, inputs, read_payload(&call.what, &plan.workflow)?.as_ref());
    let here = project.here();
    let forecast = Forecast::new(&plan, &run);
    let lines = LineTable::new(ReportSource::of(&plan.workflow.file));
    let mut lists: BTreeMap<StepNumber, Items> = BTreeMap::new();
    let mut look = |number: StepNumber, what: PreviewPart| {
        let step = &plan.steps[number as usize];
        let scope = items::with_first(&plan, number, &lists, forecast.scope_of(number));
        let cwd = step.step.cwd.as_ref().and_then(|cwd| Some(cwd.value.as_plain()?.into_owned()));
        world.0.folder.enter(cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd)));
        let session =
            Session::new(&mut world).limits(&plan.workflow.syntax.limits).undefined(Undefined::Keep);
        let mut preview = StepPreview {
            plan: &plan,
            forecast: &forecast,
            lines: &lines,
            step,
            number,
            scope: scope.clone(),
            session: session.traced(),
            fields: Vec::new(),
            unknown: BTreeMap::new(),
        };
        match what {
            PreviewPart::Variables => preview.shared(),
            PreviewPart::Step => preview.step(),
        }
        let (fields, scope) = (preview.fields, preview.scope);
        if let (Action::ForEach(each), PreviewPart::Step) = (&step.step.action, what) {
            let session = Session::new(&mut world).limits(&plan.workflow.syntax.limits);
            let list = PreviewedList { plan: &plan, number, each, project: &project };
            lists.insert(number, list.items(&fields, &scope, session));
        }
        fields
    };
    let numbers = (0..).take(plan.steps.len());
    let foreseen = WorkflowPreview {
        // These read nothing that a step makes, so every step sees them as the first one does.
        env: numbers.clone().take(1).flat_map(|number| look(number, PreviewPart::Variables)).collect(),
        steps: numbers.map(|number| look(number, PreviewPart::Step)).collect(),
        lists,
    };
    if call.json {
        return print(&format!("{}\n", foreseen.json(&plan).to_json(JsonStyle::Compact)));
    }
    print_styled(&foreseen.text(&forecast, &lines, &plan, call.full))
}

/// What of a step is looked at.
#[derive(Clone, Copy)]
enum PreviewPart {
    /// The variables that every step has.
    Variables,
    /// Its own fields.
    Step,
}

/// Everything that is known before a run.
struct WorkflowPreview {
    /// The variables of every step.
    env: Vec<FieldPreview>,
    /// The fields of each step.
    steps: Vec<Vec<FieldPreview>>,
    /// The items of each step that has some.
    lists: BTreeMap<StepNumber, Items>,
}

/// The world before a run: what is there can be read, what has to be done is not.
pub(super) struct PreviewWorld<'a>(pub(super) RealWorld<'a>);

impl World for PreviewWorld<'_> {
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
struct FieldPreview {
    name: String,
    moment: Moment,
    place: (usize, usize),
    shown: PreviewValue,
    references: Vec<KnownReference>,
    /// What cannot be, whatever the unknown values are.
    problems: Vec<String>,
}

enum PreviewValue {
    Nothing,
    /// Something of the file or a measure: it is shown without quotes.
    Plain(String),
    Text(String),
    Value(Value),
    Condition(Explanation),
    Shell {
        text: String,
        variables: Vec<(String, Result<String, String>)>,
    },
}

/// A reference: its value, or when there will be one.
struct KnownReference {
    root: EcoString,
    reference: EcoString,
    place: (usize, usize),
    value: Result<Value, String>,
}

/// Evaluates the fields of one step as far as they are known.
struct StepPreview<'p, 'w> {
    plan: &'p Plan,
    forecast: &'p Forecast<'p>,
    lines: &'p LineTable<'p>,
    step: &'p PlannedStep,
    number: StepNumber,
    scope: Scope,
    session: Session<'w>,
    fields: Vec<FieldPreview>,
    /// Entries of `context` and `param` that are not known, and why.
    unknown: BTreeMap<(&'static str, EcoString), String>,
}

impl<'p> StepPreview<'p, '_> {
    /// The variables of every step.
    fn shared(&mut self) {
        for field in
            self.walk().into_iter().filter(|field| field.owner == FieldOwner::Workflow && field.key == "env")
        {
            self.field(&field);
        }
    }

    /// Every field of the step, and the settings of its agent.
    fn step(&mut self) {
        let (params, mut fields): (Vec<_>, Vec<_>) =
            self.walk().into_iter().partition(|field| field.moment == Moment::Params);
        self.params(&params);
        // What chooses the items comes before what holds for all of them.
        fields.sort_by_key(|field| match field.moment {
            Moment::Params | Moment::Condition => 0,
            Moment::List if field.key == SOURCE => 1,
            Moment::Selection => 2,
            _ => 3,
        });
        for field in fields.iter().filter(|field| matches!(field.owner, FieldOwner::Step | FieldOwner::Agent))
        {
            self.field(field);
        }
    }

    fn walk(&self) -> Vec<StepField<'p>> {
        step_fields(&self.plan.workflow, &self.step.step)
    }

    /// The values of a state's own, which its other fields read.
    fn params(&mut self, params: &[StepField<'p>]) {
        let mut entries = Vec::with_capacity(params.len());
        for field in params {
            self.field(field);
            let name = EcoString::from(field.name.strip_prefix("param.").unwrap_or(&field.name));
            let entry = match self.fields.last().map(|field| (field.unknown().next(), &field.shown)) {
                Some((None, PreviewValue::Value(value))) => ScopeEntry::Plain(value.clone()),
                Some((Some(unknown), _)) => {
                    let why = unknown.value.as_ref().err().cloned().unwrap_or_default();
                    self.unknown.insert(("param", name.clone()), why.clone());
                    ScopeEntry::Unset(why.into())
                }
                _ => ScopeEntry::Unset("it has no value".into()),
            };
            entries.push((name, entry));
        }
        if !entries.is_empty() {
            self.scope = with_param_entries(&self.scope, entries);
        }
    }

    fn field(&mut self, field: &StepField<'p>) {
        // What is left out or taken away is not shown.
        let Some(origin) = field.kind.origin() else { return };
        let (shown, problems) = match field.kind {
            FieldKind::Script { text, interpolate: true } => self.shell(text),
            kind if field.moment == Moment::Selection => self.selection(kind),
            FieldKind::Argv(words) => self.argv(words),
            FieldKind::Word(word, _) => (PreviewValue::Plain(word.to_owned()), Vec::new()),
            // The payload is a value, and what judges a state a condition or a verdict.
            FieldKind::Expression(_) if field.moment == Moment::Attempt => self.resolved(field.kind),
            FieldKind::Condition(Field { value, origin })
            | FieldKind::Branch(Condition { expression: Field { value, origin }, .. })
            | FieldKind::Expression(Field { value, origin }) => {
                self.session.set_origin(Some(origin.clone()));
                let explanation = value.explain(&self.scope, &mut self.session);
                (PreviewValue::Condition(explanation), Vec::new())
            }
            FieldKind::Expectations(expect, kind) => return self.expectations(field, &expect.value, kind),
            kind => self.resolved(kind),
        };
        self.add(field, origin, shown, problems);
    }

    fn resolved(&mut self, kind: FieldKind<'p>) -> (PreviewValue, Vec<String>) {
        match evaluate_field(self.step, kind, &self.scope, &mut self.session) {
            Ok(value) => (shown(value), Vec::new()),
            Err(errors) => {
                let text = self.plan.workflow.file.text();
                let problems = errors.iter().map(|error| error.problem(text).message);
                (PreviewValue::Nothing, problems.collect())
            }
        }
    }

    fn argv(&mut self, words: &'p [Field<Template>]) -> (PreviewValue, Vec<String>) {
        match evaluate_field(self.step, FieldKind::Argv(words), &self.scope, &mut self.session) {
            Ok(value) => (shown(value), Vec::new()),
            // As written, where something is not known or cannot be an argument.
            Err(errors) => {
                let refused = errors.into_iter().filter_map(|error| match error.cause {
                    Cause::Binding(BindError::Refused(problem)) => Some(problem.message),
                    _ => None,
                });
                (texts(words.iter().map(|word| word.value.source())), refused.collect())
            }
        }
    }

    /// What chooses the items is shown as it is written: it has another value for each of them.
    fn selection(&mut self, kind: FieldKind<'p>) -> (PreviewValue, Vec<String>) {
        let written = match kind {
            FieldKind::Condition(field) | FieldKind::Expression(field) => {
                // For the trace of what it reads beside the item.
                self.session.set_origin(Some(field.origin.clone()));
                let _ = field.value.explain(&self.scope, &mut self.session);
                field.value.source().to_owned()
            }
            FieldKind::SortKey(key) => {
                let descending = if key.descending { " DESC" } else { "" };
                let nulls = match key.nulls_first {
                    Some(true) => " NULLS FIRST",
                    Some(false) => " NULLS LAST",
                    None => "",
                };
                format!("{}{descending}{nulls}", key.by.value.source())
            }
            kind => {
                let text = self.plan.workflow.file.text();
                let span = kind.origin().map(|origin| origin.span.range());
                span.and_then(|span| text.get(span)).unwrap_or_default().trim().to_owned()
            }
        };
        (PreviewValue::Plain(written), Vec::new())
    }

    /// The values that expectations compare with, as far as they are evaluated before the step acts.
    fn expectations(&mut self, field: &StepField<'p>, expectations: &'p Expectations, kind: DocumentKind) {
        for dynamic in expectations.dynamics().iter().filter(|dynamic| !dynamic.is_late(kind)) {
            let Dynamic::Value(value) = dynamic else { continue };
            self.session.set_origin(Some(value.origin.clone()));
            let (shown, problems) = match value.value.resolve(&self.scope, &mut self.session) {
                Ok(value) => (PreviewValue::Value(value), Vec::new()),
                Err(errors) => (PreviewValue::Nothing, errors.iter().map(ToString::to_string).collect()),
            };
            self.add(field, &value.origin, shown, problems);
        }
    }

    fn shell(&mut self, text: &Field<EcoString>) -> (PreviewValue, Vec<String>) {
        let Some(script) = &self.step.script else {
            return (PreviewValue::Text(text.value.to_string()), Vec::new());
        };
        self.session.set_origin(Some(text.origin.clone()));
        let foreseen = script.preview(&self.scope, &mut self.session);
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
        (PreviewValue::Shell { text: foreseen.bound.text, variables }, problems)
    }

    /// What is written in a field that reads something unknown. What is evaluated for it is not traced.
    fn as_written(&mut self, field: &StepField<'_>) -> Option<PreviewValue> {
        let document = match field.kind {
            FieldKind::Url(field) => return Some(PreviewValue::Text(field.value.source().to_owned())),
            FieldKind::Command(words) => return Some(texts(words.iter().map(|word| word.value.source()))),
            FieldKind::Expression(_) if field.moment == Moment::Attempt => {
                return Some(PreviewValue::Nothing);
            }
            FieldKind::Given(given) => &given.value,
            FieldKind::Query(field)
            | FieldKind::Params(field)
            | FieldKind::Items(field, _)
            | FieldKind::Count(Setting::Dynamic(field), _)
            | FieldKind::Size(Setting::Dynamic(field))
            | FieldKind::TimeLimit(Setting::Dynamic(field))
            | FieldKind::Pause(Setting::Dynamic(field))
            | FieldKind::Fraction(Setting::Dynamic(field)) => field,
            _ => return None,
        };
        let value = document.value.resolve(&self.scope, &mut self.session);
        self.session.take_trace();
        value.ok().map(PreviewValue::Value)
    }

    /// Adds a field with the references that were resolved for it.
    fn add(&mut self, field: &StepField<'p>, origin: &Origin, shown: PreviewValue, problems: Vec<String>) {
        let mut references = Vec::new();
        for made in self.session.take_trace() {
            let within = made.within.clone();
            let known = self.known(made);
            match (within, &known.value) {
                (None, _) => references.push(known),
                (Some(entry), Err(why)) => {
                    self.unknown.entry(("context", entry)).or_insert_with(|| why.clone());
                }
                (Some(_), Ok(_)) => {}
            }
        }
        // Which item that is stands with the items.
        references.retain(|known| field.moment != Moment::Selection || known.root != "item");
        let (_, line, column) = self.lines.place(origin.span.range().start);
        let (name, moment) = (field.name.to_string(), field.moment);
        let mut preview = FieldPreview { name, moment, place: (line, column), shown, references, problems };
        if preview.unknown().next().is_some()
            && let Some(written) = self.as_written(field)
        {
            preview.shown = written;
            preview.problems.clear();
        }
        if let (FieldKind::Url(_), Action::Http(http), PreviewValue::Text(url)) =
            (field.kind, &self.step.step.action, &mut preview.shown)
        {
            url.insert_str(0, &format!("{} ", http.method));
        }
        self.fields.push(preview);
    }

    fn known(&self, made: Resolution) -> KnownReference {
        let (_, line, column) = self.lines.trace_place(&made);
        let place = (line, column);
        let root = ["context", "param"].into_iter().find(|root| made.root == *root);
        let entry = root.zip(made.first.clone()).and_then(|entry| self.unknown.get(&entry));
        let value = match (made.value, entry) {
            (_, Some(why)) => Err(why.clone()),
            (Some(value), None) => Ok(value),
            (None, None) if made.computed && made.root == "env" => Err("is not set".to_owned()),
            (None, None) if made.computed => Err(WHEN_IT_STARTS.to_owned()),
            (None, None) => Err(self.when(&made.root, made.first.as_ref())),
        };
        KnownReference { root: made.root, reference: made.reference, place, value }
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
            // Without handlers `run` is a name like any other.
            "run" if !self.plan.run_parts.is_empty() => "known when the steps have ended".to_owned(),
            name => self.forecast.when_known(self.number, name).unwrap_or_else(|| "is missing".to_owned()),
        }
    }
}

const WITH_THE_RUN: &str = "known when the run starts";

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

/// The names that are there before a run: those of the run, as far as they are known.
pub(super) fn run_scope(plan: &Plan, inputs: Value, payload: Option<&Value>) -> Scope {
    let names = RunNames {
        inputs,
        imports: Value::NULL,
        payload: payload.cloned().unwrap_or_default(),
        workflow: plan.workflow.name.clone(),
        run: EcoString::new(),
        start_time: EcoString::new(),
    };
    let unset = |name: &str| (EcoString::from(name), ScopeEntry::Unset(WITH_THE_RUN.into()));
    let name = ("name".into(), ScopeEntry::Plain(plan.workflow.name.as_str().into()));
    let workflow = layer(&Scope::new(), "workflow", vec![name, unset("id"), unset("start_time")]);
    let imports = plan.workflow.imports.iter().map(|import| unset(&import.name)).collect();
    let mut unknown = vec![
        ("imports".into(), ScopeEntry::Names(layer(&Scope::new(), "imports", imports))),
        ("workflow".into(), ScopeEntry::Names(workflow)),
        (RUN.into(), ScopeEntry::Names(layer(&Scope::new(), RUN, vec![unset("dir")]))),
    ];
    if plan.lists[0].graph.is_some() && payload.is_none() {
        unknown.push(unset(PAYLOAD));
    }
    layer(&names.scope(plan), "run", unknown)
}

/// A layer of names of which none stands twice.
fn layer(scope: &Scope, label: &str, entries: Vec<(EcoString, ScopeEntry)>) -> Scope {
    scope.with_entries(label, entries).unwrap_or_else(|_| scope.clone())
}

impl FieldPreview {
    /// The references without a value.
    fn unknown(&self) -> impl Iterator<Item = &KnownReference> {
        self.references.iter().filter(|known| known.value.is_err())
    }
}

/// What a field came to, as a preview shows it.
fn shown(value: FieldValue) -> PreviewValue {
    match value {
        FieldValue::Text(text) | FieldValue::Variable(Some(text)) => PreviewValue::Text(text),
        FieldValue::Variable(None) | FieldValue::Expectations(_) => PreviewValue::Nothing,
        FieldValue::Words(words) => texts(words.iter().map(String::as_str)),
        FieldValue::Arguments(arguments) => texts(arguments.iter().map(|argument| argument.value.as_str())),
        FieldValue::Shell(bound) => PreviewValue::Text(bound.text),
        FieldValue::Value(value) | FieldValue::Branch { value, .. } => PreviewValue::Value(value),
        FieldValue::Count(count) => PreviewValue::Plain(count.to_string()),
        FieldValue::Duration(duration) => PreviewValue::Plain(words::duration(duration)),
        FieldValue::Fraction(fraction) => {
            let percent = fraction.mul(&Number::int(100)).and_then(|percent| percent.shortest());
            PreviewValue::Plain(
                percent.map_or_else(|_| fraction.to_string(), |percent| format!("{percent}%")),
            )
        }
        FieldValue::Condition(explanation) => PreviewValue::Condition(explanation),
    }
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> PreviewValue {
    PreviewValue::Value(Value::sequence(texts.map(Value::from)))
}

// ---- plain ----------------------------------------------------------------------------------------------

impl WorkflowPreview {
    fn text(&self, forecast: &Forecast<'_>, lines: &LineTable<'_>, plan: &Plan, full: bool) -> String {
        let file = &plan.workflow.file;
        let mut out = String::new();
        if let Some(note) = user_agents::note(file) {
            // Writing into a text cannot fail.
            let _ = writeln!(out, "{DIM}{}{DIM:#}", visible(&note));
        }
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
            let (name, line, column) = lines.place(step.step.origin.span.range().start);
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
                let _ = writeln!(out, "  {}", forecast.leads(number));
            }
        }
        out
    }
}

fn field_text(field: &FieldPreview, full: bool, out: &mut String) {
    let shown = |value: &Value| if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
    let name = &field.name;
    let mut table = Table::default();
    let mut unknown = field.references.iter().filter(|known| known.value.is_err()).peekable();
    let _ = match &field.shown {
        PreviewValue::Nothing => writeln!(out, "  {BOLD}{name}{BOLD:#}"),
        PreviewValue::Plain(text) if !text.contains('\n') => {
            writeln!(out, "  {BOLD}{name}{BOLD:#} {}", visible(text))
        }
        PreviewValue::Text(text) if !text.trim_end().contains('\n') => {
            writeln!(out, "  {BOLD}{name}{BOLD:#} {}", shown(&text.as_str().into()))
        }
        PreviewValue::Plain(text) | PreviewValue::Text(text) => {
            writeln!(out, "  {BOLD}{name}{BOLD:#}\n{}", block(text))
        }
        PreviewValue::Value(value) => writeln!(out, "  {BOLD}{name}{BOLD:#} {}", shown(value)),
        PreviewValue::Condition(explanation)
            if unknown.peek().is_some() && matches!(explanation.outcome, Some(Err(_))) =>
        {
            writeln!(
                out,
                "  {BOLD}{name}{BOLD:#} {} {DIM}is not known yet{DIM:#}",
                visible(&explanation.source)
            )
        }
        PreviewValue::Condition(explanation) => {
            let tree: Vec<String> =
                explanation_text(explanation).lines().map(|line| format!("    {line}")).collect();
            writeln!(out, "  {BOLD}{name}{BOLD:#}\n{}", tree.join("\n"))
        }
        PreviewValue::Shell { text, variables } => {
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

impl WorkflowPreview {
    fn json(&self, plan: &Plan) -> Value {
        let fields = |fields: &[FieldPreview]| Value::sequence(fields.iter().map(field_json));
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

fn field_json(field: &FieldPreview) -> Value {
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
        PreviewValue::Nothing => entries.push(("value", Value::NULL)),
        PreviewValue::Plain(text) | PreviewValue::Text(text) => entries.push(("value", text.as_str().into())),
        PreviewValue::Value(value) => entries.push(("value", value.clone())),
        PreviewValue::Condition(explanation) => {
            let value = explanation.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
            entries.push(("value", value.cloned().unwrap_or_default()));
            entries.push(("explanation", tree(explanation)));
        }
        PreviewValue::Shell { text, variables } => {
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
