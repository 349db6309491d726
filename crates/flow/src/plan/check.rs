//! The checks of a plan: every name that a field reads is looked up, in its scope and in the order of the steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::{Fix, Span, excerpt, nearest};
use threadline_lang::envelope::MOVED_TO_META;
use threadline_lang::{
    Document, Error, ErrorKind, Expression, Inferred, Origin, PromisedShape, Reference, ReferenceKind, Scope,
    Template, Type, Types, Undefined, Value, ValueShape, Warning,
};

use threadline_expect::{DocumentKind, Dynamic, Expectations, reads_actual};

use super::context::{OUTER, not_known};
use super::graph::NodeDependency;
use super::names::{self, Named, Names, ScopeNumber};
use super::order::StepOrder;
use super::{Called, LOOP_ROOTS, MAP_REDUCE_ROOTS, PAYLOAD, Part, Plan, ROOTS, RUN, Read, StepNumber};
use crate::checks::Check;
use crate::fields::outputs::RUN_FOLDER;
use crate::fields::{Form, hint_for_root};
use crate::model::{
    self, Action, AgentTool, BuiltInTool, Evaluator, Field, FieldKind, FieldOwner, Moment, Reach,
    SECRETS_ROOT, Setting, Step, StepField, agent_fields, limit_fields, server_fields, step_fields,
};
use crate::problem::{self, PlaceFinder, Problem};
use crate::shell::{Argv, ShellScript};

/// So many problems are looked for: nobody reads more, and each takes its time.
const MAX_PROBLEMS: usize = 200;

/// So many steps that capture one name are looked at for a reader; with more of them one will have run.
pub(super) const MAX_MAKERS: usize = 100;

/// Checks a plan and writes down what its steps read.
pub(super) fn check(plan: &mut Plan, called: &Called) -> Vec<Problem> {
    let mut checker = Checker {
        names: Names::new(plan),
        order: StepOrder::new(plan),
        nodes: super::graph::nodes(plan),
        by_id: by_id(plan),
        links: vec![Vec::new(); plan.lists[0].steps.len()],
        plan,
        called,
        places: PlaceFinder::default(),
        reads_folder: false,
        problems: Vec::new(),
        of_items: BTreeMap::new(),
        loop_graph: None,
        written_files: Vec::new(),
    };
    checker.note_written_files();
    checker.fill_shapes();
    let states = checker.states();
    checker.declared_names();
    checker.context_cycles();
    checker.outside_of_steps();
    let steps = 0..checker.plan.steps.len();
    let found: Vec<Checked> = steps.map(|at| checker.step(super::number::count(at))).collect();
    checker.foreign_references();
    let secret_moments = checker.secrets(&found);
    let exports = checker.exports();
    let export_shape = checker.export_shape();
    let graph = checker.graph();
    let reads_folder = checker.reads_folder;
    let problems = checker.problems;
    for ((planned, checked), moments) in plan.steps.iter_mut().zip(found).zip(secret_moments) {
        let Checked { reads, script, argv, params } = checked;
        planned.secret_moments = moments;
        planned.params = params;
        planned.reads = reads;
        planned.script = script;
        planned.argv = argv;
    }
    plan.reads_folder = reads_folder;
    plan.export_reads = exports;
    plan.export_shape = export_shape;
    plan.lists[0].graph = graph;
    plan.states = states;
    problems
}

/// The nodes of a graph by their ids.
fn by_id(plan: &Plan) -> BTreeMap<EcoString, usize> {
    let steps = plan.lists[0].steps.iter().enumerate();
    let named =
        steps.filter_map(|(at, step)| Some((plan.steps[*step as usize].step.id.as_ref()?.value.clone(), at)));
    named.collect()
}

pub(super) struct Checker<'p> {
    pub(super) plan: &'p Plan,
    /// The workflows that it calls.
    pub(super) called: &'p Called,
    pub(super) names: Names,
    pub(super) order: StepOrder,
    problems: Vec<Problem>,
    /// The node that each step belongs to, of a graph.
    pub(super) nodes: Vec<Option<usize>>,
    /// The nodes of a graph by their ids.
    pub(super) by_id: BTreeMap<EcoString, usize>,
    /// What each node of a graph waits for because it reads it.
    pub(super) links: Vec<Vec<(usize, NodeDependency)>>,
    places: PlaceFinder,
    /// Whether something reads the folder of the run.
    reads_folder: bool,
    /// Names of items and phases, and whose they are: to say so where they are read outside.
    of_items: BTreeMap<EcoString, StepNumber>,
    /// The states of a loop, when every one that is led to is known.
    pub(super) loop_graph: Option<super::states::RouteGraph>,
    /// The files that steps write with values in them, as far as their names are known.
    pub(super) written_files: Vec<EcoString>,
}

/// How a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Text or values, with references in them.
    Text,
    Expression,
}

/// What was found out about a step.
pub(super) struct Checked {
    reads: Vec<Read>,
    pub(super) script: Option<ShellScript>,
    pub(super) argv: Option<Argv>,
    params: Option<ValueShape>,
}

/// The field that reads, as far as that decides what it can read.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// The step; none at the end of the run.
    pub(super) step: Option<StepNumber>,
    /// The scope that it reads in.
    pub(super) scope: ScopeNumber,
    /// When it reads.
    pub(super) moment: Moment,
    /// How it is written.
    pub(super) written: Written,
}

impl Reader {
    /// Whether it is the `when` of the step, which does not protect what it reads itself.
    pub(super) fn is_when(self) -> bool {
        self.moment == Moment::Condition
    }

    /// Whether it judges a state or chooses its route: then the output of the state is there.
    pub(super) fn judges(self) -> bool {
        matches!(self.moment, Moment::Judgement | Moment::Routes)
    }
}

/// A field that can read something.
#[derive(Clone, Copy)]
pub(super) enum Readable<'f> {
    Text(&'f Field<Template>),
    Value(&'f Field<Document>),
    Condition(&'f Field<Arc<Expression>>),
    /// A number, duration or size, and how it is written.
    Setting(&'f Field<Document>, Form),
    /// The items of a `foreach`.
    Items(&'f Field<Document>),
    /// A value for an input of this type.
    Given(&'f Field<Document>, Type),
    /// A value that an expectation compares with.
    Expected(&'f Field<Document>),
    /// A value that an expression gives.
    Expression(&'f Field<Arc<Expression>>),
    /// A condition of an expectation.
    ExpectedCondition(&'f Field<Expression>),
}

impl<'f> Readable<'f> {
    pub(super) fn references(self) -> Vec<(Origin, Reference)> {
        let placed = |origin: &Origin, references: Vec<Reference>| {
            references.into_iter().map(|reference| (origin.clone(), reference)).collect()
        };
        match self {
            Self::Text(field) => placed(&field.origin, field.value.references()),
            Self::Value(field) | Self::Setting(field, _) | Self::Items(field) | Self::Given(field, _) => {
                field.value.references()
            }
            Self::Condition(field) | Self::Expression(field) => {
                placed(&field.origin, field.value.references())
            }
            Self::Expected(field) => field.value.references(),
            Self::ExpectedCondition(field) => placed(&field.origin, field.value.references()),
        }
    }

    /// What the language says of its names and of its types.
    fn errors(self, scope: &Scope) -> (Vec<Error>, Inferred) {
        match self {
            Self::Text(field) => (field.value.check(scope), field.value.infer(scope)),
            Self::Value(field) | Self::Setting(field, _) | Self::Items(field) | Self::Given(field, _) => {
                (field.value.check(scope), field.value.infer(scope))
            }
            Self::Condition(field) => (field.value.check(scope), field.value.infer_condition(scope)),
            Self::Expression(field) => (field.value.check(scope), field.value.infer(scope)),
            Self::Expected(field) => (field.value.check(scope), field.value.infer(scope)),
            Self::ExpectedCondition(field) => (field.value.check(scope), field.value.infer_condition(scope)),
        }
    }

    /// The types that will do, and what they are in words; anything when there are none.
    fn needs(self) -> (Types, String) {
        match self {
            Self::Setting(_, form) => (Types::NUMBER.or(Types::TEXT), form.expected()),
            Self::Items(_) => (Types::one(Type::List), "a list".to_owned()),
            Self::Given(_, kind) => (accepted(kind), Types::named(Some(kind)).in_words()),
            _ => (Types::NONE, String::new()),
        }
    }

    /// Whether a value that is written out can be read as what it needs.
    fn reads(self, value: &Value) -> bool {
        match self {
            Self::Setting(_, form) => form.reads(value),
            _ => true,
        }
    }

    fn written(self) -> Written {
        match self {
            Self::Condition(_) | Self::Expression(_) | Self::ExpectedCondition(_) => Written::Expression,
            _ => Written::Text,
        }
    }

    fn origin(self) -> &'f Origin {
        match self {
            Self::Text(field) => &field.origin,
            Self::Value(field) | Self::Setting(field, _) | Self::Items(field) | Self::Given(field, _) => {
                &field.origin
            }
            Self::Condition(field) | Self::Expression(field) => &field.origin,
            Self::Expected(field) => &field.origin,
            Self::ExpectedCondition(field) => &field.origin,
        }
    }
}

/// Who names a server.
#[derive(Clone, Copy)]
enum ServerUse<'n> {
    /// A step, for this tool.
    Step(&'n str),
    /// An agent, in its `tools`.
    Agent,
}

impl Checker<'_> {
    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn is_graph(&self) -> bool {
        self.plan.lists[0].graph.is_some()
    }

    /// Whether something runs when the outcome of the run is known.
    pub(super) fn has_outcome(&self) -> bool {
        !self.plan.run_parts.is_empty()
    }

    pub(super) fn is_loop(&self) -> bool {
        matches!(self.plan.workflow.shape, model::Shape::Loop(_))
    }

    /// Whether a name means something in every file of this shape.
    pub(super) fn is_root(&self, name: &str) -> bool {
        ROOTS.contains(&name)
            || name == PAYLOAD && self.is_graph()
            || name == RUN && self.has_outcome()
            || MAP_REDUCE_ROOTS.contains(&name) && self.plan.is_map_reduce()
            || LOOP_ROOTS.contains(&name) && self.is_loop()
    }

    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    /// Where a reference stands in the file.
    pub(super) fn place(&mut self, origin: &Origin, span: Span) -> Span {
        self.places.place_in(origin, span, self.plan.workflow.file.text())
    }

    /// A step in a sentence.
    pub(super) fn title(&self, step: StepNumber) -> String {
        let planned = &self.plan.steps[step as usize];
        if self.scenario_around(step).is_none() {
            return format!("step {}", planned.number);
        }
        // Nobody wrote the numbers of the steps that scenarios become.
        if let Some(id) = &planned.step.id {
            return format!("step `{}`", id.value);
        }
        let (line, _) = self.plan.workflow.file.line_column(planned.step.origin.span.range().start);
        format!("the step in line {line}")
    }

    // ---- declarations ----------------------------------------------------------------------------------

    /// Ids and captures: none like a root, no id twice, what hides what.
    fn declared_names(&mut self) {
        let plan = self.plan;
        let mut ids: BTreeMap<(Option<usize>, &str), StepNumber> = BTreeMap::new();
        for (number, planned) in (0..).zip(&plan.steps) {
            let step = &planned.step;
            if step.is_phase() {
                continue;
            }
            for (name, what) in [(&step.id, "an id"), (&step.capture, "a capture")] {
                let Some(name) = name else { continue };
                if self.is_root(&name.value) {
                    let message =
                        format!("`{}` is a root of the language: {what} cannot be called so", name.value);
                    self.problem(
                        Check::ReservedName.at(name.origin.span, message).hint("choose another name"),
                    );
                }
            }
            if let Some(id) = &step.id
                && let Some(first) = ids.insert((self.scenario_around(number), &id.value), number)
            {
                let message = format!("`{}` is the id of {} already", id.value, self.title(first));
                self.problem(Check::DuplicateName.at(id.origin.span, message));
            }
            self.clashes(number, step);
            if self.is_full() {
                return;
            }
        }
        for scope in &self.names.scopes {
            let Some(owner) = scope.owner else { continue };
            self.of_items.extend(scope.names.keys().map(|name| (name.clone(), owner)));
        }
    }

    /// The scenario that a step stands in, as a node of the graph: no other one sees its names.
    fn scenario_around(&self, number: StepNumber) -> Option<usize> {
        let is_inside =
            !self.plan.workflow.scenarios.is_empty() && self.plan.steps[number as usize].list != 0;
        self.nodes[number as usize].filter(|_| is_inside)
    }

    /// A capture that is called like an id, or that hides a name outside.
    fn clashes(&mut self, number: StepNumber, step: &Step) {
        let scope = self.names.of(self.plan.steps[number as usize].list);
        if let Some(capture) = &step.capture
            && let Some(id) = self.names.scopes[scope].names.get(&capture.value).and_then(|named| named.id)
        {
            let message = format!("`{}` is the id of {} and a capture", capture.value, self.title(id));
            let hint = "leave out the one or the other: an output can be read by its id too";
            self.problem(Check::DuplicateName.at(capture.origin.span, message).hint(hint));
        }
        for name in [&step.id, &step.capture].into_iter().flatten() {
            let hidden = self.names.scopes_from(scope).skip(1).find_map(|outer| {
                let named = self.names.scopes[outer].names.get(&name.value)?;
                // What a phase exports is the same name outside of it.
                if named.id == Some(number) || named.captures.contains(&number) {
                    return None;
                }
                named.id.or_else(|| named.captures.first().copied())
            });
            // One id twice is reported as that.
            let twice = |hidden: StepNumber| {
                let other = self.plan.steps[hidden as usize].step.id.as_ref();
                other.is_some_and(|other| step.id.as_ref().is_some_and(|id| id.value == other.value))
            };
            // What a phase exports stands outside of it as well.
            let itself = |hidden: StepNumber| hidden == number;
            // Nothing in a scenario reads another one.
            let hidden = hidden.filter(|_| self.scenario_around(number).is_none());
            if let Some(hidden) = hidden.filter(|hidden| !twice(*hidden) && !itself(*hidden)) {
                let inner = self.names.scopes[scope].of_items;
                let place = if inner { "for each item" } else { "in this phase" };
                let message = format!("`{}` hides the one of {} {place}", name.value, self.title(hidden));
                self.problem(Check::HiddenName.at(name.origin.span, message).hint("choose another name"));
            }
        }
    }

    // ---- outside of the steps --------------------------------------------------------------------------

    /// Context, the workflow's environment and the settings of agents: only what is there from the start.
    fn outside_of_steps(&mut self) {
        let workflow = Arc::clone(&self.plan.workflow);
        let scope = self.names.outer.clone();
        let context = workflow.context.iter().flat_map(|context| &context.entries);
        let context = context.map(|entry| Readable::Value(&entry.written));
        self.code_variables(&workflow.env);
        let env = workflow.env.iter().filter_map(|variable| variable.value.as_ref()).map(Readable::Text);
        let agents = workflow.agents.iter().flat_map(agent_fields);
        let servers = workflow.servers.iter().flat_map(server_fields);
        for server in &workflow.servers {
            if let Reach::Program { env, .. } = &server.reach {
                self.code_variables(env);
            }
        }
        for agent in &workflow.agents {
            self.shared_commands(agent_fields(agent), &workflow.env);
            for tool in &agent.tools {
                if let AgentTool::Server { server, .. } = tool {
                    self.known_server(&server.value, server.origin.span, ServerUse::Agent);
                }
            }
        }
        for server in &workflow.servers {
            let own = match &server.reach {
                Reach::Program { env, .. } => &env[..],
                Reach::Url { .. } => &[],
            };
            self.shared_commands(server_fields(server), own);
        }
        self.locks(&workflow.locks);
        let locks = workflow.locks.iter().map(Readable::Text);
        let limits = limit_fields(&workflow);
        let shared = agents.chain(servers).chain(limits).flat_map(|field| readable(field.kind));
        for field in context.chain(env).chain(locks).chain(shared) {
            if self.is_full() {
                return;
            }
            let mut handled = Vec::new();
            for (origin, reference) in field.references() {
                if self.outer_reference(&origin, &reference) {
                    handled.push((origin.span.start, reference.span));
                }
            }
            self.language_errors(None, field, &scope, &handled);
        }
    }

    /// Whether a name that is not there from the start was reported.
    fn outer_reference(&mut self, origin: &Origin, reference: &Reference) -> bool {
        let span = self.place(origin, reference.span);
        if reference.kind == ReferenceKind::Computed {
            self.computed(span, reference);
            self.bound_command(origin, reference);
            return false;
        }
        let is_folder = reference.first.as_deref() == Some(RUN_FOLDER.name);
        if reference.root == RUN && is_folder && self.names.find(0, RUN).is_none() {
            self.reads_folder = true;
            return false;
        }
        let known_later = self.is_root(&reference.root) || self.names.find(0, &reference.root).is_some();
        if OUTER.contains(&reference.root.as_str()) || !known_later {
            return false;
        }
        // Of these fields only some may read secrets.
        let roots = OUTER.iter().filter(|root| **root != SECRETS_ROOT).map(|root| format!("`{root}`"));
        let hint = format!("it may read {}, and computed values", roots.collect::<Vec<_>>().join(", "));
        self.problem(Check::NotKnownHere.at(span, not_known(&reference.root)).hint(hint));
        true
    }

    fn computed(&mut self, span: Span, reference: &Reference) {
        if reference.root == "cmd" && !self.plan.workflow.allow.commands {
            let message = "`cmd` runs a command, which this workflow is not allowed to";
            self.problem(
                Check::CommandsNotAllowed
                    .at(span, message)
                    .hint("write at the top: `allow: {commands: true}`"),
            );
        }
    }

    fn exports(&mut self) -> Vec<Read> {
        let workflow = Arc::clone(&self.plan.workflow);
        let reader = Reader { step: None, scope: 0, moment: Moment::End, written: Written::Text };
        let mut reads = Vec::new();
        for (_, document) in &workflow.exports {
            self.field(reader, Readable::Value(document), &mut reads);
        }
        distinct(reads)
    }

    // ---- steps -----------------------------------------------------------------------------------------

    /// What a step reads, and its command analysed.
    fn step(&mut self, number: StepNumber) -> Checked {
        let (workflow, plan) = (Arc::clone(&self.plan.workflow), self.plan);
        let step = Arc::clone(&plan.steps[number as usize].step);
        let mut found = Checked { reads: Vec::new(), script: None, argv: None, params: None };
        // What all steps share is looked at once, outside of them.
        let own = step_fields(&workflow, &step).into_iter().filter(|field| field.owner == FieldOwner::Step);
        // That a trigger stands outside of a graph is reported as that.
        let own = own.filter(|field| field.key != PAYLOAD || self.is_graph()).collect::<Vec<_>>();
        for StepField { kind, moment, .. } in own {
            let reader = self.reader(number, moment);
            match kind {
                FieldKind::Script { text, interpolate } => {
                    found.script = self.script(reader, &step, text, interpolate, &mut found.reads);
                }
                FieldKind::Argv(words) => {
                    found.argv = Some(self.argv(reader, &step, words, &mut found.reads));
                }
                FieldKind::Given(given) => {
                    if let Action::Workflow(call) = &step.action {
                        self.given(reader, call, given, &mut found.reads);
                    }
                }
                // An expectation of an item compares with what the file fixes.
                FieldKind::Expectations(..) if moment == Moment::Selection => {}
                // The expectation of a `foreach` is settled when its items have ended.
                FieldKind::Expectations(expectations, document) => {
                    let late = moment == Moment::End;
                    let moment = if late { Moment::Attempt } else { moment };
                    let reader = Reader { moment, ..reader };
                    self.expected(reader, (&expectations.value, document), late, &mut found.reads);
                }
                FieldKind::Params(params) => {
                    found.params = Some(self.document_shape(reader, params));
                    self.own_field(reader, kind, &mut found.reads);
                }
                kind => self.own_field(reader, kind, &mut found.reads),
            }
        }
        self.declarations(number, &step);
        if step.state.is_some() {
            // What it left is read whenever it is judged.
            found.reads.push(Read::State);
        }
        Checked { reads: distinct(found.reads), ..found }
    }

    /// A field of a step that needs no more than its names looked up.
    fn own_field(&mut self, reader: Reader, kind: FieldKind<'_>, reads: &mut Vec<Read>) {
        let mut found = Vec::new();
        for field in readable(kind) {
            self.field(reader, field, &mut found);
        }
        // The item of a list that is being chosen is not an item around the step.
        found.retain(|read| reader.moment != Moment::Selection || *read != Read::Item);
        reads.extend(found);
    }

    /// The reader of a field of a step.
    pub(super) fn reader(&self, number: StepNumber, moment: Moment) -> Reader {
        let planned = &self.plan.steps[number as usize];
        let inside = match moment {
            Moment::Selection => true,
            Moment::End => matches!(planned.step.action, Action::Phase(_)),
            _ => false,
        };
        let list = self.plan.part(number, Part::Do).filter(|_| inside).unwrap_or(planned.list);
        Reader { step: Some(number), scope: self.names.of(list), moment, written: Written::Text }
    }

    /// Items that run at once cannot continue one thread: each would say something that the others do not hear.
    fn shared_thread(&mut self, number: StepNumber, thread: &Field<Template>) {
        if !thread.value.references().is_empty()
            || thread.value.as_plain().is_some_and(|name| name.is_empty())
        {
            return;
        }
        let mut list = self.plan.steps[number as usize].list;
        while let Some((owner, part)) = self.plan.lists[list as usize].parent {
            let planned = &self.plan.steps[owner as usize];
            // What runs after all items, such as `on_failure` of the list, runs once.
            if let Action::ForEach(each) = &planned.step.action
                && part == Part::Do
                && each.parallel.as_ref().and_then(Setting::known).is_some_and(|parallel| parallel > 1)
            {
                let message = "the items run at once, and all of them would continue this thread";
                let hint = "give each its own, as in `thread: review-${item.index}`, or run one at a time: `parallel: 1`";
                self.problem(Check::SharedThread.at(thread.origin.span, message).hint(hint));
                return;
            }
            list = planned.list;
        }
    }

    /// What a step names that is declared elsewhere: agents, servers, inputs of a called workflow.
    fn declarations(&mut self, number: StepNumber, step: &Step) {
        match &step.action {
            Action::Agent { agent, thread, .. } => {
                self.known_agent(agent);
                if let Some(thread) = thread {
                    self.shared_thread(number, thread);
                }
            }
            Action::Tool(call) => {
                self.known_server(&call.server, call.name.origin.span, ServerUse::Step(&call.tool));
            }
            Action::Workflow(call) => self.missing_inputs(call),
            Action::Phase(phase) => self.phase_exports(number, phase),
            _ => {}
        }
        if let Some(Evaluator::Agent(judge)) = step.evaluator() {
            self.known_agent(&judge.agent);
        }
        self.code_variables(&step.env);
    }

    /// The names that an expectation reads; whether all of them are read when the step has ended.
    pub(super) fn expected(
        &mut self,
        reader: Reader,
        (expectations, document): (&Expectations, DocumentKind),
        all_late: bool,
        reads: &mut Vec<Read>,
    ) {
        for dynamic in expectations.dynamics() {
            let late = dynamic.is_late(document) || all_late;
            let field = match &dynamic {
                Dynamic::Value(field) => Readable::Expected(field),
                Dynamic::Expression(field) => Readable::ExpectedCondition(field),
            };
            let mut handled = Vec::new();
            let mut uses_prev = false;
            for (origin, reference) in field.references() {
                if reads_actual(document, &reference) || self.is_full() {
                    continue;
                }
                uses_prev |= reference.root == "prev";
                let refused = late && self.late_reference(&origin, &reference)
                    || self.reference(reader, &origin, &reference, reads);
                if refused {
                    handled.push((origin.span.start, reference.span));
                }
            }
            if self.is_full() {
                return;
            }
            let scope = threadline_expect::with_promised(Some(document), &self.scope(reader, uses_prev));
            self.language_errors(Some(reader), field, &scope, &handled);
        }
    }

    /// Whether a name was reported that cannot be computed any more when the step has ended.
    fn late_reference(&mut self, origin: &Origin, reference: &Reference) -> bool {
        if reference.kind != ReferenceKind::Computed && !matches!(reference.root.as_str(), "env" | "uuid") {
            return false;
        }
        let span = self.place(origin, reference.span);
        let message = format!("`{}` cannot be computed any more when the step has ended", reference.root);
        let hint = "name it in `context` and read `context.NAME`";
        self.problem(Check::NotKnownHere.at(span, message).hint(hint));
        true
    }

    pub(super) fn known_agent(&mut self, agent: &Field<EcoString>) {
        let agents = &self.plan.workflow.agents;
        if agents.iter().any(|known| known.name == agent.value) {
            return;
        }
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let problem =
            Check::UnknownAgent.at(agent.origin.span, format!("there is no agent `{}`", agent.value));
        let problem = match nearest(&agent.value, names.iter().copied()) {
            Some(near) => problem.did_you_mean(near),
            None => problem
                .note(format!("agents: {}", names.join(", ")))
                .hint(format!("declare it: `agents: {{{}: {{command: [program]}}}}`", agent.value)),
        };
        self.problem(problem);
    }

    /// Reports a server that is not declared.
    fn known_server(&mut self, name: &str, span: Span, usage: ServerUse<'_>) {
        let servers = &self.plan.workflow.servers;
        if servers.iter().any(|known| known.name == name) {
            return;
        }
        let mut names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let (message, rest) = match usage {
            ServerUse::Step(tool) => (format!("there is no server `{name}`"), format!(".{tool}")),
            ServerUse::Agent => {
                names.extend(BuiltInTool::ALL.map(BuiltInTool::name));
                (format!("there is no server or built-in tool `{name}`"), String::new())
            }
        };
        let problem = Check::UnknownTool.at(span, message);
        let problem = match nearest(name, names.iter().copied()) {
            Some(near) => problem.did_you_mean(format_args!("{near}{rest}")),
            None if servers.is_empty() => {
                problem.hint(format!("declare it: `servers: {{{name}: {{command: [program]}}}}`"))
            }
            None => {
                let servers: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
                problem.note(format!("servers: {}", servers.join(", ")))
            }
        };
        self.problem(problem);
    }

    /// One field: its references in the order of the steps, then what the language says of the rest.
    pub(super) fn field(&mut self, reader: Reader, field: Readable<'_>, reads: &mut Vec<Read>) {
        let mut handled = Vec::new();
        let mut uses_prev = false;
        let reader = Reader { written: field.written(), ..reader };
        for (origin, reference) in field.references() {
            uses_prev |= reference.root == "prev";
            if self.is_full() {
                continue;
            }
            if self.reference(reader, &origin, &reference, reads) {
                handled.push((origin.span.start, reference.span));
            }
        }
        if self.is_full() {
            return;
        }
        let scope = self.scope(reader, uses_prev);
        self.language_errors(Some(reader), field, &scope, &handled);
    }

    /// The scope of a reader; with the step before where that is read.
    pub(super) fn scope(&self, reader: Reader, uses_prev: bool) -> Scope {
        let scope = match self.prev(reader).filter(|_| uses_prev) {
            Some(shape) => self.names.with_prev(reader.scope, shape),
            None => self.names.scopes[reader.scope].scope.clone(),
        };
        self.with_outcome(reader, self.with_params(reader, scope))
    }

    fn language_errors(
        &mut self,
        reader: Option<Reader>,
        field: Readable<'_>,
        scope: &Scope,
        handled: &[Handled],
    ) {
        let moment = reader.map_or(Moment::Attempt, |reader| reader.moment);
        let undefined = match field {
            Readable::Condition(_)
            | Readable::Expression(_)
            | Readable::Expected(_)
            | Readable::ExpectedCondition(_) => Undefined::Error,
            _ => self.plan.workflow.undefined,
        };
        let (mut errors, inferred) = field.errors(scope);
        let sound = inferred.errors.is_empty();
        errors.extend(inferred.errors);
        for error in errors {
            let origin = error.origin().unwrap_or(field.origin());
            let tolerated = undefined.tolerates(&error) && !error.is_unknown_name();
            let asked = reader.is_some_and(|reader| self.is_asked(reader, &error));
            if !tolerated && !asked && !is_handled(handled, origin, &error) {
                let problem = problem::of_language(&error, field.origin(), self.plan.workflow.file.text());
                let problem = self.with_format_hint(&error, problem);
                self.unknown_root(moment, problem);
            }
        }
        self.warnings(inferred.warnings, field.origin());
        if sound && handled.is_empty() && undefined == Undefined::Error {
            self.needed_type(reader, field, &inferred.shape);
        }
    }

    /// Of a condition that is the text a program printed, it may be meant that the text is a bool.
    fn with_format_hint(&self, error: &Error, problem: Problem) -> Problem {
        if !matches!(error.kind(), ErrorKind::Expected { expected: "a bool", got: Type::Text, .. }) {
            return problem;
        }
        let name = self.plan.workflow.file.text().get(problem.span.range()).unwrap_or_default();
        let named =
            |field: &Option<Field<EcoString>>| field.as_ref().is_some_and(|field| field.value == name);
        let prints = |step: &Step| {
            matches!(step.action, Action::Shell { .. } | Action::Argv(_))
                && (named(&step.id) || named(&step.capture))
        };
        if self.plan.steps.iter().any(|planned| prints(&planned.step)) {
            let hint = format!("or give `{name}` a bool: `capture_format: boolean` on that step");
            return problem.hint(hint);
        }
        problem
    }

    /// What the language says of a field that works.
    pub(super) fn warnings(&mut self, warnings: Vec<Warning>, origin: &Origin) {
        for warning in warnings {
            let origin = warning.origin.as_ref().unwrap_or(origin);
            let span = self.place(origin, warning.span);
            let text = self.plan.workflow.file.text();
            let fix = warning.fix.and_then(|fix| problem::fix_in(origin, fix, text));
            let problem = Problem { fix, ..Problem::warning(warning.id, span, warning.message) };
            self.problem(warning.hint.into_iter().fold(problem, Problem::hint));
        }
    }

    /// Notes a problem; of a root that is known elsewhere there is more to say.
    pub(super) fn unknown_root(&mut self, moment: Moment, mut problem: Problem) {
        if problem.id != "unknown-root" {
            return self.problem(problem);
        }
        let text = self.plan.workflow.file.text().get(problem.span.range()).unwrap_or_default();
        let name = EcoString::from(text);
        if self.unknown(problem.span, &name) {
            return;
        }
        let known_elsewhere = |problem: &mut Problem, hint: String| {
            (problem.hints, problem.fix) = (vec![hint], None);
        };
        if name == SECRETS_ROOT {
            known_elsewhere(&mut problem, "declare it at the top: `secrets: {NAME: VARIABLE}`".to_owned());
        } else if let Some(instead) = hint_for_root(&name) {
            known_elsewhere(&mut problem, instead.to_owned());
        } else if self.plan.workflow.env.iter().any(|variable| variable.name == name) {
            let hint = format!("`env:` is for programs: name it in `context:` and read `context.{name}`");
            known_elsewhere(&mut problem, hint);
        } else if moment == Moment::Selection {
            known_elsewhere(&mut problem, format!("a field of the item: `item.{name}`"));
            problem.fix = Some(Fix::new(problem.span, format!("item.{name}")));
        }
        self.problem(problem);
    }

    fn needed_type(&mut self, reader: Option<Reader>, field: Readable<'_>, shape: &ValueShape) {
        let (fitting, words) = field.needs();
        if fitting.is_none() {
            return;
        }
        let allowed = shape.allowed.without(fitting);
        let gives = if shape.types.and(fitting).is_none() {
            format!("this gives {}", shape.types.in_words())
        } else if !allowed.is_none() && !reader.is_some_and(|reader| self.asks(reader, field)) {
            format!("this may be {}", allowed.in_words())
        } else if let Some(literal) = shape.literal.as_ref().filter(|literal| !field.reads(literal)) {
            format!("this is {}", excerpt(literal))
        } else {
            return;
        };
        let origin = field.origin();
        let key = origin.path.rsplit('.').next().unwrap_or_default();
        self.problem(Check::WrongType.at(origin.span, format!("`{key}` takes {words}, and {gives}")));
    }

    // ---- references ------------------------------------------------------------------------------------

    /// Notes what a reference reads. Whether a problem of it was reported that the language would report again.
    pub(super) fn reference(
        &mut self,
        reader: Reader,
        origin: &Origin,
        reference: &Reference,
        reads: &mut Vec<Read>,
    ) -> bool {
        let span = self.place(origin, reference.span);
        if reference.kind == ReferenceKind::Computed {
            self.computed(span, reference);
            self.bound_command(origin, reference);
            return false;
        }
        let first = reference.first.as_ref();
        if self.undeclared(span, reference) {
            return true;
        }
        let (read, named) = match (reference.root.as_str(), first) {
            ("env" | "uuid" | "context" | "imports" | "inputs" | "secrets" | "workflow", _)
            | ("nodes", None) => {
                return false;
            }
            (PAYLOAD, _) if self.is_graph() => return false,
            (RUN, Some(field)) if field == RUN_FOLDER.name && self.find(reader, RUN, |_| true).is_none() => {
                self.reads_folder = true;
                return false;
            }
            (RUN, _) if self.has_outcome() || self.find(reader, RUN, |_| true).is_none() => {
                reads.push(Read::Outcome);
                return self.reads_outcome(reader, span);
            }
            ("captured", None) => {
                reads.push(Read::AllCaptured);
                return false;
            }
            ("prev", _) => {
                reads.push(Read::Prev);
                return self.reads_prev(reader, span, reference);
            }
            (root @ ("item" | "agent"), _) if root == "item" || self.plan.is_map_reduce() => {
                reads.push(Read::Item);
                return self.reads_item(reader, span, &reference.root);
            }
            (root @ ("setup" | "reduce" | "merge" | "map" | "aggregates"), _)
                if self.plan.is_map_reduce() =>
            {
                return self.reads_phase(reader, span, root, reference, reads);
            }
            ("param", _) if self.is_loop() => return self.reads_param(reader, span),
            (root @ ("state" | "loop" | "result"), _) if self.is_loop() => {
                reads.push(Read::State);
                return self.reads_state(reader, span, root, reference);
            }
            ("nodes", Some(id)) => {
                (Read::Output(id.clone()), self.find(reader, id, |named| named.id.is_some()))
            }
            ("captured", Some(name)) => {
                (Read::Captured(name.clone()), self.find(reader, name, |named| !named.captures.is_empty()))
            }
            _ => {
                let named = self.find(reader, &reference.root, |_| true);
                let is_output = named.as_ref().is_some_and(|makers| makers.is_id);
                let name = reference.root.clone();
                (if is_output { Read::Output(name) } else { Read::Captured(name) }, named)
            }
        };
        let name = first.filter(|_| matches!(reference.root.as_str(), "nodes" | "captured"));
        let name = name.unwrap_or(&reference.root);
        match named {
            Some(makers) => {
                let is_output = makers.is_id || matches!(reference.root.as_str(), "nodes" | "captured");
                if is_output {
                    self.old_spelling(origin, reference, name);
                }
                reads.push(read);
                let unset = self.set_before(reader, span, name, &makers, reference);
                unset || self.unknown_export(origin, reference, name, &makers, is_output)
            }
            None => self.unknown(span, name),
        }
    }

    /// Whether a name was reported that nothing can ever give a value, behind a default that hides it. Without one the
    /// language reports it.
    fn undeclared(&mut self, span: Span, reference: &Reference) -> bool {
        let Some(name) = reference.first.as_ref().filter(|_| reference.guarded) else { return false };
        let workflow = &self.plan.workflow;
        let (known, how): (Vec<&EcoString>, &str) = match reference.root.as_str() {
            "captured" => {
                let steps = self.plan.steps.iter().map(|planned| &planned.step);
                (steps.filter_map(|step| step.capture.as_ref()).map(|name| &name.value).collect(), "captures")
            }
            "context" => {
                let entries = workflow.context.iter().flat_map(|context| &context.entries);
                (entries.map(|entry| &entry.name).collect(), "declares")
            }
            "inputs" => (workflow.inputs.iter().map(|input| &input.name).collect(), "declares"),
            "secrets" => (workflow.secrets.iter().map(|secret| &secret.name).collect(), "declares"),
            _ => return false,
        };
        if known.contains(&name) {
            return false;
        }
        let message =
            format!("nothing {how} `{}.{name}`: the default would always take its place", reference.root);
        let problem = Check::UndeclaredName.at(span, message);
        self.problem(match nearest(name, known.iter().map(|name| name.as_str())) {
            Some(near) => problem.hint(format!("did you mean `{}.{near}`", reference.root)),
            None => problem,
        });
        true
    }

    /// Reports a field of `meta` that is read beside the value, as `${n.status}`.
    fn old_spelling(&mut self, origin: &Origin, reference: &Reference, name: &str) {
        let Some((at, field)) = field_after(reference, end_of_output(reference, name)) else { return };
        if MOVED_TO_META.contains(&field) {
            let at = reference.span.range().start + at;
            let span = self.place(origin, Span::new(at, at));
            let path = reference.path.as_str();
            let at = at.saturating_sub(reference.span.range().start);
            let (before, behind) = path.split_at_checked(at).unwrap_or((path, ""));
            let message = format!("`{path}` is deprecated");
            let problem = Problem::warning("deprecated-field", span, message);
            let fix = Some(Fix::new(span, "meta."));
            self.problem(Problem { fix, ..problem.hint(format!("write `${{{before}meta.{behind}}}`")) });
        }
    }

    /// The steps that a name may come from where it is read, the last before the reader first.
    fn find(&self, reader: Reader, name: &str, suits: impl Fn(&Named) -> bool) -> Option<Makers> {
        let mut scopes = self.names.scopes_from(reader.scope);
        let named =
            scopes.find_map(|scope| self.names.scopes[scope].names.get(name).filter(|named| suits(named)))?;
        if let Some(id) = named.id {
            return Some(Makers { is_id: true, steps: vec![id] });
        }
        // Steps have their numbers in the order they run.
        let until =
            reader.step.map_or(named.captures.len(), |step| named.captures.partition_point(|at| *at < step));
        let before = named.captures[..until].iter().rev().take(MAX_MAKERS);
        let after = named.captures[until..].iter().take(1);
        Some(Makers { is_id: false, steps: before.chain(after).copied().collect() })
    }

    /// A name that no scope here has, and whether there is more to say than that.
    fn unknown(&mut self, span: Span, name: &EcoString) -> bool {
        let Some(&owner) = self.of_items.get(name) else { return false };
        if let Action::Phase(phase) = &self.plan.steps[owner as usize].step.action {
            let key = phase.kind.key();
            let message = format!("`{name}` is only visible inside `{key}`");
            let scope = self.plan.part(owner, Part::Do).map_or(0, |list| self.names.of(list));
            let named = self.names.scopes[scope].names.get(name);
            let export = format!("export it: `{key}: {{steps: [...], exports: [{name}]}}`");
            let hint = if named.is_some_and(|named| !named.captures.is_empty()) {
                format!("{export}, or read `${{{key}.variables.{name}}}`")
            } else {
                export
            };
            self.problem(Check::EndsWithItem.at(span, message).hint(hint));
            return true;
        }
        let is_map = self.plan.steps[owner as usize].step.is_map();
        let (list, hint) = if is_map {
            ("`map`".to_owned(), "what the last step of each item gave is in `${map.results}`")
        } else {
            (self.title(owner), "capture the `foreach` itself to read what its items gave")
        };
        let message = format!("`{name}` belongs to the items of {list}: names of an item end with it");
        self.problem(Check::EndsWithItem.at(span, message).hint(hint));
        true
    }

    fn reads_item(&mut self, reader: Reader, span: Span, root: &str) -> bool {
        let inside = self.names.scopes_from(reader.scope).any(|scope| self.names.scopes[scope].of_items);
        if inside {
            return false;
        }
        let problem = if self.plan.is_map_reduce() {
            let message = format!("`{root}` is known in the steps of `map` only, which run for each item");
            let problem = Check::ItemOutside.at(span, message);
            if self.knows_results(reader) {
                problem.hint("what became of all items is `${map.results}`")
            } else {
                problem
            }
        } else {
            let message = format!("`{root}` is known inside the `do` of a `foreach` only");
            Check::ItemOutside.at(span, message)
        };
        self.problem(problem);
        true
    }

    fn reads_prev(&mut self, reader: Reader, span: Span, reference: &Reference) -> bool {
        if self.prev(reader).is_some() {
            if self.is_state(reader) {
                return self.acted_before(reader, span, reference);
            }
            let makers = Makers { is_id: false, steps: self.steps_before(reader) };
            return self.set_before(reader, span, &reference.root, &makers, reference);
        }
        let problem = if reference.path.starts_with("json") {
            Check::NoStepBefore
                .at(span, "`json` reads the output of the step before, and there is none")
                .hint("of something else: `json(\"a.b\", source)`")
        } else {
            Check::NoStepBefore.at(span, "`prev` is the step before, and there is none")
        };
        let is_node =
            reader.step.is_some_and(|step| self.plan.steps[step as usize].list == 0) && self.is_graph();
        let problem = if is_node {
            problem.hint("no node of a graph comes before another: read one by its id, `${ID}`")
        } else {
            problem
        };
        self.problem(problem);
        true
    }

    fn is_state(&self, reader: Reader) -> bool {
        reader.step.is_some_and(|step| self.plan.steps[step as usize].step.state.is_some())
    }

    /// The steps of the same list that may be the one before, when one of them must have run for that.
    fn steps_before(&self, reader: Reader) -> Vec<StepNumber> {
        let Some(step) = reader.step else { return Vec::new() };
        let list = &self.plan.lists[self.plan.steps[step as usize].list as usize];
        if matches!(list.parent, Some((_, part)) if part != Part::Do) {
            return Vec::new();
        }
        let before = &list.steps[..self.order.position(step)];
        before.iter().rev().take(MAX_MAKERS).copied().collect()
    }

    /// What is known of the step before, when there is one.
    fn prev(&self, reader: Reader) -> Option<PromisedShape> {
        let step = reader.step?;
        let list = &self.plan.lists[self.plan.steps[step as usize].list as usize];
        if self.plan.steps[step as usize].step.state.is_some() {
            return Some(names::any_state());
        }
        if list.graph.is_some() {
            return None;
        }
        if let Some(before) = self.order.position(step).checked_sub(1) {
            let before = list.steps[before];
            // A step that was skipped is not the one that `prev` means.
            let skips = self.plan.steps[before as usize].step.when.is_some();
            return Some(if skips { names::any_output() } else { self.names.output(self.plan, before) });
        }
        match list.parent? {
            (_, Part::Do) => None,
            (owner, Part::OnSuccess) => Some(self.names.output(self.plan, owner)),
            (_, Part::Fix | Part::OnFailure | Part::Finally) => Some(names::any_output()),
        }
    }
}

/// The steps that a name comes from.
pub(super) struct Makers {
    pub(super) is_id: bool,
    pub(super) steps: Vec<StepNumber>,
}

/// A reference whose problem was reported: where its scalar begins, and the reference in it.
pub(super) type Handled = (u32, Span);

/// Whether an error is about a reference whose problem was reported.
pub(super) fn is_handled(handled: &[Handled], origin: &Origin, error: &Error) -> bool {
    let at = error.span().start;
    handled.iter().any(|(start, span)| {
        *start == origin.span.start && span.start <= at && at < span.end.max(span.start + 1)
    })
}

/// Where the name of an output ends in a reference to it.
pub(super) fn end_of_output(reference: &Reference, name: &str) -> usize {
    let path = reference.path.as_str();
    match reference.root.as_str() {
        "nodes" => path.find(']').map_or(path.len(), |end| end + 1),
        "captured" => "captured.".len() + name.len(),
        root => root.len(),
    }
}

/// The field that is read with a dot after a part of a reference, and where it stands.
pub(super) fn field_after(reference: &Reference, end: usize) -> Option<(usize, &str)> {
    let field = reference.path.get(end..)?.strip_prefix('.')?;
    let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    let length = field.find(|char| !is_name(char)).unwrap_or(field.len());
    Some((end + 1, &field[..length]))
}

/// The types that an input of a type takes. What is known only as a number before the run may be whole.
fn accepted(kind: Type) -> Types {
    match kind {
        Type::Int => Types::NUMBER,
        kind => Types::named(Some(kind)),
    }
}

fn distinct(mut reads: Vec<Read>) -> Vec<Read> {
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// What a field can read. Commands, expectations and what a call gives are looked at on their own.
pub(super) fn readable(kind: FieldKind<'_>) -> Vec<Readable<'_>> {
    match kind {
        FieldKind::Name(_)
        | FieldKind::Word(..)
        | FieldKind::Argv(_)
        | FieldKind::Script { .. }
        | FieldKind::Given(_)
        | FieldKind::Expectations(..) => Vec::new(),
        FieldKind::Text(field) | FieldKind::Url(field) | FieldKind::Header { value: field, .. } => {
            vec![Readable::Text(field)]
        }
        FieldKind::Variable(variable) => variable.value.iter().map(Readable::Text).collect(),
        FieldKind::Command(words) => words.iter().map(Readable::Text).collect(),
        // What is fixed was looked at when it was read.
        FieldKind::Items(items, _) if items.value.as_fixed().is_some() => Vec::new(),
        FieldKind::Items(items, each) if !each.is_map => vec![Readable::Items(items)],
        FieldKind::Value(field)
        | FieldKind::Query(field)
        | FieldKind::Params(field)
        | FieldKind::Content(field, _)
        | FieldKind::Items(field, _) => vec![Readable::Value(field)],
        FieldKind::Count(setting, least) => dynamic(setting, Form::Count(least)),
        FieldKind::Size(setting) => dynamic(setting, Form::Size),
        FieldKind::TimeLimit(setting) | FieldKind::Pause(setting) => dynamic(setting, Form::Duration),
        FieldKind::Fraction(setting) => dynamic(setting, Form::Fraction),
        FieldKind::Condition(field) => vec![Readable::Condition(field)],
        FieldKind::Branch(condition) => vec![Readable::Condition(&condition.expression)],
        FieldKind::Expression(field) => vec![Readable::Expression(field)],
        FieldKind::SortKey(key) => vec![Readable::Expression(&key.by)],
    }
}

fn dynamic<T>(setting: &Setting<T>, form: Form) -> Vec<Readable<'_>> {
    match setting {
        Setting::Default(_) | Setting::Fixed(_) => Vec::new(),
        Setting::Dynamic(document) => vec![Readable::Setting(document, form)],
    }
}
