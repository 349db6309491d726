//! The names of a plan: one scope for the run and one for each `foreach`, every name in it promised before it is set.
//!
//! A scope is built once, whatever the order of its steps: what is set when is a question of order, not of scope.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_lang::{
    FieldTypes, Promise, PromisedShape, Scope, ScopeEntry, ShapeCell, Type, Types, ValueShape,
};

use super::{ListNumber, Part, Plan, StepNumber};
use crate::fields::outputs::{
    ASSERT_OUTPUT_FIELDS, CAPTURED_STATE_FIELDS, ITEM_AGENT_FIELDS, ITEM_FIELDS, JUDGEMENT_FIELDS,
    LOOP_FIELDS, MAP_FIELDS, META, NodeType, OUTPUT_FIELDS, OutputField, PLAIN_OUTPUT_FIELDS, RUN_FOLDER,
    STATE_FIELDS, STATE_OUTPUT_FIELDS, WORKFLOW_FIELDS, nullable, types,
};
use crate::model::{Action, SECRETS_ROOT, Step};
use crate::plan::RUN;

/// The number of a scope; the run's is 0.
pub(super) type ScopeNumber = usize;

/// What a name of a scope stands for.
#[derive(Default)]
pub(super) struct Named {
    /// The step with this id.
    pub(super) id: Option<StepNumber>,
    /// The steps that capture this name.
    pub(super) captures: Vec<StepNumber>,
    /// What all of them leave, if there are several.
    pub(super) shared: ShapeCell,
}

/// The names of the run, or of an item.
pub(super) struct NameScope {
    parent: Option<ScopeNumber>,
    /// The `foreach` whose items it belongs to, or the phase.
    pub(super) owner: Option<StepNumber>,
    /// Whether it is the scope of an item.
    pub(super) of_items: bool,
    /// The item, then.
    pub(super) item: ShapeCell,
    pub(super) names: BTreeMap<EcoString, Named>,
    /// For the checks of the language.
    pub(super) scope: Scope,
}

/// Every scope of a plan.
pub(super) struct Names {
    pub(super) scopes: Vec<NameScope>,
    /// The scope of each list.
    pub(super) of_list: Vec<ScopeNumber>,
    /// The roots that context, the workflow's environment and agents may read.
    pub(super) outer: Scope,
    /// What is known of what each step leaves.
    pub(super) shapes: Vec<StepShapes>,
    /// What is known of each of `map.results`.
    pub(super) result: ShapeCell,
    /// What is known of the `aggregates`, in their order.
    pub(super) aggregates: Vec<ShapeCell>,
}

/// What is known of what a step leaves.
#[derive(Clone)]
pub(super) struct StepShapes {
    /// Its value as its id gives it: it may have been skipped.
    pub(super) value: ShapeCell,
    /// Its value as its capture gives it: it has run.
    pub(super) captured: ShapeCell,
    /// Its meta data.
    pub(super) meta: ShapeCell,
}

/// What a step leaves beside its value, if it has run a program.
const OF_PROGRAM: FieldTypes = &types(&OUTPUT_FIELDS);
/// The same, if it runs no program.
const OF_PLAIN_STEP: FieldTypes = &types(&PLAIN_OUTPUT_FIELDS);
/// The same of an `assert`.
const OF_ASSERTION: FieldTypes = &types(&ASSERT_OUTPUT_FIELDS);
/// The same, if it may have been skipped.
const OF_ANY_STEP: FieldTypes = &types(&nullable(OUTPUT_FIELDS));
/// What a state leaves: the same, and its verdict.
const OF_STATE: FieldTypes = &types(&STATE_OUTPUT_FIELDS);
/// What is captured of a state: the same, and what was captured before.
const OF_CAPTURED_STATE: FieldTypes = &types(&CAPTURED_STATE_FIELDS);

impl Names {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut of_list = vec![0; plan.lists.len()];
        let (names, scope) = (BTreeMap::new(), Scope::new());
        let item = ShapeCell::default();
        let run = NameScope { parent: None, owner: None, of_items: false, item, names, scope };
        let mut scopes = vec![run];
        for (at, list) in plan.lists.iter().enumerate() {
            of_list[at] = match list.parent {
                None => 0,
                Some((owner, part)) => {
                    let around = of_list[plan.steps[owner as usize].list as usize];
                    if part == Part::Do {
                        let names = BTreeMap::new();
                        scopes.push(NameScope {
                            parent: Some(around),
                            owner: Some(owner),
                            of_items: !matches!(plan.steps[owner as usize].step.action, Action::Phase(_)),
                            item: ShapeCell::default(),
                            names,
                            scope: Scope::new(),
                        });
                        scopes.len() - 1
                    } else {
                        around
                    }
                }
            };
        }
        for (number, planned) in (0..).zip(&plan.steps) {
            if planned.step.is_phase() {
                continue;
            }
            let names = &mut scopes[of_list[planned.list as usize]].names;
            if let Some(id) = &planned.step.id {
                names.entry(id.value.clone()).or_default().id.get_or_insert(number);
            }
            if let Some(capture) = &planned.step.capture {
                names.entry(capture.value.clone()).or_default().captures.push(number);
            }
        }
        export_names(plan, &of_list, &mut scopes);
        let outer = outer(plan);
        let shapes = plan.steps.iter().map(|planned| StepShapes {
            value: ShapeCell::default(),
            captured: ShapeCell::default(),
            meta: meta_shape(&planned.step).into(),
        });
        let aggregates = match &plan.workflow.shape {
            crate::model::Shape::MapReduce { aggregates } => {
                aggregates.iter().map(|_| ShapeCell::default()).collect()
            }
            _ => Vec::new(),
        };
        let (shapes, result) = (shapes.collect(), ShapeCell::default());
        let mut names = Self { scopes, of_list, outer, shapes, result, aggregates };
        names.build(plan);
        names
    }

    /// The scopes of the language. A scope's parent stands before it.
    fn build(&mut self, plan: &Plan) {
        let mut captured: Vec<Scope> = Vec::with_capacity(self.scopes.len());
        for at in 0..self.scopes.len() {
            let scope = &self.scopes[at];
            let (around, captured_around, label) = match scope.parent {
                None => (self.outer.clone(), Scope::new(), "run"),
                Some(parent) => {
                    let label = if scope.of_items { "item" } else { "phase" };
                    (self.scopes[parent].scope.clone(), captured[parent].clone(), label)
                }
            };
            let names = &scope.names;
            let of_captures = names
                .iter()
                .filter(|(_, named)| !named.captures.is_empty())
                .map(|(name, named)| ((*name).clone(), promised(self.capture_output(plan, name, named))));
            let inner = layer(&captured_around, label, of_captures);
            let mut entries: Vec<(EcoString, ScopeEntry)> = names
                .iter()
                .map(|(name, named)| ((*name).clone(), promised(self.by_name(plan, name, named))))
                .collect();
            entries.push(("captured".into(), ScopeEntry::Names(inner.clone())));
            if at == 0 && plan.is_map_reduce() {
                entries.extend(self.phase_roots(plan));
            }
            if at == 0 && matches!(plan.workflow.shape, crate::model::Shape::Loop(_)) {
                entries.extend(loop_roots());
            }
            if scope.of_items {
                let why = "there is no item yet".into();
                entries.push((
                    "item".into(),
                    promised(Promise {
                        why,
                        shape: PromisedShape::Item {
                            own: const { &types(&ITEM_FIELDS) },
                            value: scope.item.clone(),
                        },
                    }),
                ));
            }
            if scope.of_items && plan.is_map_reduce() {
                let agent = types(&ITEM_AGENT_FIELDS).map(|(name, types)| {
                    let why = "nobody runs the item yet".into();
                    let shape = PromisedShape::Value(types.into());
                    (EcoString::from(name), promised(Promise { why, shape }))
                });
                entries.push(("agent".into(), ScopeEntry::Names(layer(&Scope::new(), "agent", agent))));
            }
            let built = layer(&around, label, entries);
            captured.push(inner);
            self.scopes[at].scope = built;
        }
    }

    /// What phases leave: the roots that only a map-reduce has.
    fn phase_roots(&self, plan: &Plan) -> Vec<(EcoString, ScopeEntry)> {
        let value = |why: &str, shape: ShapeCell| {
            promised(Promise { why: why.into(), shape: PromisedShape::Value(shape) })
        };
        let names = |label: &str, entries: Vec<(EcoString, ScopeEntry)>| {
            ScopeEntry::Names(layer(&Scope::new(), label, entries))
        };
        let mut roots = Vec::new();
        for planned in &plan.steps {
            let step = &planned.step;
            if step.is_map() {
                let why = "the map is not over yet";
                let known = types(&MAP_FIELDS)
                    .into_iter()
                    .map(|(name, types)| (EcoString::from(name), value(why, types.into())));
                let known = known.chain([("results".into(), value(why, self.result.clone()))]).collect();
                roots.push(("map".into(), names("map", known)));
                if let crate::model::Shape::MapReduce { aggregates } = &plan.workflow.shape {
                    let made = aggregates.iter().zip(&self.aggregates);
                    let made = made.map(|((name, _), shape)| (name.clone(), value(why, shape.clone())));
                    roots.push(("aggregates".into(), names("aggregates", made.collect())));
                }
            }
            let Action::Phase(phase) = &step.action else { continue };
            let why = "the phase is not over yet";
            let captured = planned.parts.first().map(|(_, list)| &self.scopes[self.of(*list)].names);
            let captured = captured.into_iter().flatten().filter(|(_, named)| !named.captures.is_empty());
            let mut variables: BTreeMap<EcoString, ScopeEntry> = captured
                .map(|(name, named)| (name.clone(), value(why, self.captured_shape(named))))
                .collect();
            let own =
                phase.variables.iter().map(|(name, _)| (name.clone(), value(why, ShapeCell::default())));
            variables.extend(own);
            let variables = names("variables", variables.into_iter().collect());
            let output = ("output".into(), value(why, Types::TEXT.into()));
            let of_phase = names(phase.kind.key(), vec![output, ("variables".into(), variables)]);
            roots.push((phase.kind.key().into(), of_phase));
        }
        roots
    }

    /// What a bare name gives: the output of a step, or the value that was captured.
    fn by_name(&self, plan: &Plan, name: &str, named: &Named) -> Promise {
        if let Some(id) = named.id {
            return Promise { why: eco_format!("`{name}` has not run yet"), shape: self.output(plan, id) };
        }
        let why = eco_format!("`{name}` is not captured yet");
        Promise { why, shape: PromisedShape::Value(self.captured_shape(named)) }
    }

    fn capture_output(&self, plan: &Plan, name: &str, named: &Named) -> Promise {
        let why = eco_format!("`{name}` is not captured yet");
        let value = self.captured_shape(named);
        let of_state = named.captures.iter().any(|step| plan.steps[*step as usize].step.state.is_some());
        let (meta, also) = match named.captures[..] {
            _ if of_state => (ShapeCell::default(), OF_CAPTURED_STATE),
            [one] => (self.shapes[one as usize].meta.clone(), fields(plan, &plan.steps[one as usize].step)),
            _ => (ShapeCell::default(), OF_ANY_STEP),
        };
        Promise { why, shape: PromisedShape::Output { value, meta, also } }
    }

    /// What all steps with this capture give. A capture is only set by a step that has run.
    fn captured_shape(&self, named: &Named) -> ShapeCell {
        match named.captures[..] {
            [one] => self.shapes[one as usize].captured.clone(),
            _ => named.shared.clone(),
        }
    }

    /// The output of a step that may have been skipped or have failed.
    pub(super) fn output(&self, plan: &Plan, number: StepNumber) -> PromisedShape {
        let step = &plan.steps[number as usize].step;
        let StepShapes { value, meta, .. } = self.shapes[number as usize].clone();
        let skips = step.when.is_some() || step.continue_on_error;
        let is_assertion = matches!(step.action, Action::Assert(_));
        let also = if skips && !is_assertion { OF_ANY_STEP } else { fields(plan, step) };
        PromisedShape::Output { value, meta, also }
    }

    /// The scope of a list.
    pub(super) fn of(&self, list: ListNumber) -> ScopeNumber {
        self.of_list[list as usize]
    }

    /// The innermost scope, from one outwards, that has a name.
    pub(super) fn find(&self, from: ScopeNumber, name: &str) -> Option<&Named> {
        self.scopes_from(from).find_map(|scope| self.scopes[scope].names.get(name))
    }

    /// A scope and those around it.
    pub(super) fn scopes_from(&self, from: ScopeNumber) -> impl Iterator<Item = ScopeNumber> {
        std::iter::successors(Some(from), |scope| self.scopes[*scope].parent)
    }

    /// A scope in which `prev` is the output of a step, as far as it is known.
    pub(super) fn with_prev(&self, scope: ScopeNumber, shape: PromisedShape) -> Scope {
        let why = "the step before has not run yet".into();
        layer(&self.scopes[scope].scope, "run", [("prev".into(), promised(Promise { why, shape }))])
    }
}

/// What phases export is there for the phases after them too.
fn export_names(plan: &Plan, of_list: &[ScopeNumber], scopes: &mut [NameScope]) {
    for planned in &plan.steps {
        let Action::Phase(phase) = &planned.step.action else { continue };
        let Some((_, list)) = planned.parts.first() else { continue };
        for name in phase.exports.iter().map(|name| &name.value) {
            let Some(named) = scopes[of_list[*list as usize]].names.get(name) else { continue };
            let (id, captures) = (named.id, named.captures.clone());
            let outer = scopes[0].names.entry(name.clone()).or_default();
            outer.id = outer.id.or(id);
            outer.captures.extend(captures);
        }
    }
}

/// The roots that only a loop has.
fn loop_roots() -> Vec<(EcoString, ScopeEntry)> {
    let names = |label: &str, fields: FieldTypes| {
        let why = "the loop has not begun";
        let entries = fields.iter().map(|(name, types)| {
            let promise = Promise { why: why.into(), shape: PromisedShape::Value((*types).into()) };
            (EcoString::from(*name), promised(promise))
        });
        (EcoString::from(label), ScopeEntry::Names(layer(&Scope::new(), label, entries)))
    };
    let why = "nothing is judged yet".into();
    let result = promised(Promise {
        why,
        shape: PromisedShape::Output {
            value: ShapeCell::default(),
            meta: ShapeCell::default(),
            also: const { &types(&JUDGEMENT_FIELDS) },
        },
    });
    vec![
        names("state", const { &types(&STATE_FIELDS) }),
        names("loop", const { &types(&LOOP_FIELDS) }),
        ("result".into(), result),
    ]
}

/// The roots that are there before anything runs.
fn outer(plan: &Plan) -> Scope {
    let workflow = &plan.workflow;
    let value = |why: &str, shape: ShapeCell| {
        promised(Promise { why: why.into(), shape: PromisedShape::Value(shape) })
    };
    let inputs = workflow.inputs.iter().map(|input| {
        let shape = ValueShape::of_types(Types::named(input.kind));
        let given = input.required || input.default.is_some();
        let shape = if given { shape } else { shape.optional() };
        // A default may be null, whatever the type.
        let null = input.default.as_ref().is_some_and(threadline_lang::Value::is_null);
        let shape = if null { shape.optional() } else { shape };
        (input.name.clone(), value("the inputs are not given yet", shape.into()))
    });
    let secrets = workflow.secrets.iter().map(|secret| {
        (
            secret.name.clone(),
            value("the secrets are read when the run starts", Types::one(Type::Text).into()),
        )
    });
    let of_workflow = types(&WORKFLOW_FIELDS)
        .map(|(name, types)| (name.into(), value("the workflow has not started", types.into())));
    let imports = workflow.imports.iter();
    let imports = imports.map(|import| {
        let shape = import.exports.clone().unwrap_or_else(|| ValueShape::one(Type::Object));
        (import.name.clone(), value("it is read when the run begins", shape.into()))
    });
    let mut entries = vec![
        ("inputs".into(), ScopeEntry::Names(layer(&Scope::new(), "inputs", inputs))),
        ("workflow".into(), ScopeEntry::Names(layer(&Scope::new(), "workflow", of_workflow))),
    ];
    if matches!(workflow.shape, crate::model::Shape::Graph { .. }) {
        entries.push(("trigger".into(), value("the payload is not given yet", ShapeCell::default())));
    }
    if !workflow.secrets.is_empty() {
        entries.push((SECRETS_ROOT.into(), ScopeEntry::Names(layer(&Scope::new(), SECRETS_ROOT, secrets))));
    }
    if !workflow.imports.is_empty() {
        entries.push(("imports".into(), ScopeEntry::Names(layer(&Scope::new(), "imports", imports))));
    }
    let why = "the run has not begun";
    let folder = [(RUN_FOLDER.name.into(), value(why, RUN_FOLDER.types().into()))];
    entries.push((RUN.into(), ScopeEntry::Names(layer(&Scope::new(), RUN, folder))));
    entries.push((
        "context".into(),
        match &workflow.context {
            Some(context) => ScopeEntry::Definitions(Arc::clone(&context.definitions)),
            None => ScopeEntry::Names(Scope::new()),
        },
    ));
    layer(&Scope::new(), "run", entries)
}

/// A scope behind a layer of names, none of which stands twice.
fn layer(scope: &Scope, label: &str, entries: impl IntoIterator<Item = (EcoString, ScopeEntry)>) -> Scope {
    scope.with_entries(label, entries).unwrap_or_else(|_| scope.clone())
}

fn promised(promise: Promise) -> ScopeEntry {
    ScopeEntry::Promised(Arc::new(promise))
}

/// The output of a step of which nothing is known.
pub(super) fn any_output() -> PromisedShape {
    PromisedShape::Output { value: ShapeCell::default(), meta: ShapeCell::default(), also: OF_ANY_STEP }
}

/// The output of a state of which nothing is known.
pub(super) fn any_state() -> PromisedShape {
    PromisedShape::Output { value: ShapeCell::default(), meta: ShapeCell::default(), also: OF_STATE }
}

fn fields(plan: &Plan, step: &Step) -> FieldTypes {
    match &step.action {
        Action::Shell { .. } | Action::Argv(_) => OF_PROGRAM,
        Action::Agent { agent, .. } => {
            let agent = plan.workflow.agent(&agent.value);
            if agent.is_none_or(|agent| agent.provider.is_program) { OF_PROGRAM } else { OF_ANY_STEP }
        }
        Action::Assert(_) if step.state.is_none() => OF_ASSERTION,
        _ if step.state.is_some() => OF_ANY_STEP,
        _ => OF_PLAIN_STEP,
    }
}

/// The fields of the meta data of a step.
fn meta_shape(step: &Step) -> ValueShape {
    let node_type = step.action.node_type();
    if step.state.is_some() || matches!(node_type, NodeType::State | NodeType::Phase) {
        return ValueShape::one(Type::Object);
    }
    // A built-in tool adds what the tools of servers have to the step that stands for it.
    let own = || META.iter().chain(node_type.meta());
    let of_tool = NodeType::Tool.meta().filter(|_| step.tool.is_some());
    let added = of_tool.filter(|added| !own().any(|field| field.name == added.name));
    object_of(own().chain(added))
}

/// An object of these fields.
pub(super) fn object_of<'f>(fields: impl Iterator<Item = &'f OutputField>) -> ValueShape {
    let shape = |field: &OutputField| (EcoString::from(field.name), ValueShape::of_types(field.types()));
    ValueShape::object(fields.map(shape).collect())
}
