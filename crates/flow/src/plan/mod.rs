//! A checked workflow: every step with a number, every list with its place, every name a step reads known.
//!
//! A plan is made once before a run and never changes. It holds no values.

mod calls;
mod check;
mod command;
mod context;
mod graph;
mod mapreduce;
mod names;
mod number;
mod order;
mod params;
mod set;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::source::SourceFile;

use crate::fields::ActionName;
use crate::model::{Action, Shape, Step, Workflow};
use crate::problem::{Problem, in_order};
use crate::shell::{Argv, Script};

/// The first names of references that mean the same in every workflow: no id and no capture can be called so.
pub const ROOTS: [&str; 10] =
    ["captured", "context", "env", "imports", "inputs", "item", "nodes", "prev", "uuid", "workflow"];

/// The payload, which only graphs have: elsewhere an id may be called so.
pub const PAYLOAD: &str = "trigger";

/// The roots that only a map-reduce has: elsewhere an id may be called so.
pub const MAP_REDUCE_ROOTS: [&str; 6] = ["agent", "aggregates", "map", "merge", "reduce", "setup"];

/// The roots that only a loop has: elsewhere an id may be called so.
pub const LOOP_ROOTS: [&str; 4] = ["loop", "param", "result", "state"];

/// Makes the plan of a workflow and checks every name it reads. Without a plan there is at least one error. What it
/// calls is not looked for: that is [`crate::files`].
pub fn plan(workflow: Arc<Workflow>) -> (Option<Plan>, Vec<Problem>) {
    plan_calling(workflow, &Called::new())
}

/// The same for a workflow that calls others, which are known by the paths that it names them by.
pub(crate) fn plan_calling(workflow: Arc<Workflow>, called: &Called) -> (Option<Plan>, Vec<Problem>) {
    let mut plan = number::number(workflow);
    let problems = in_order(check::check(&mut plan, called));
    let sound = !problems.iter().any(Problem::is_error);
    for planned in &mut plan.steps {
        if let Action::Workflow(call) = &planned.step.action {
            planned.calls = called.get(&call.path.value).and_then(|callee| callee.plan.clone());
        }
    }
    let whole = plan
        .steps
        .iter()
        .all(|planned| planned.calls.is_some() || !matches!(planned.step.action, Action::Workflow(_)));
    ((sound && whole).then_some(plan), problems)
}

/// The workflows that a file calls, by the paths that it names them by.
pub(crate) type Called = BTreeMap<EcoString, Callee>;

/// A workflow that is called.
#[derive(Clone, Default)]
pub(crate) struct Callee {
    /// What its file says, when it can be read.
    pub(crate) workflow: Option<Arc<Workflow>>,
    /// Its plan, when there is no error in it.
    pub(crate) plan: Option<Arc<Plan>>,
}

/// How a route names the state that it stands in.
pub(crate) const SELF: &str = "self";

/// The number of a step, in the order of the file.
pub type StepNumber = u32;
/// The number of a list of steps.
pub type ListNumber = u32;

/// A workflow that can run.
pub struct Plan {
    /// What it was made of.
    pub workflow: Arc<Workflow>,
    /// Every step of the file, those inside others too.
    pub steps: Vec<PlannedStep>,
    /// Every list of steps. The first is the workflow's own.
    pub lists: Vec<List>,
    /// The list that runs at the end, whatever happened.
    pub finally: Option<ListNumber>,
    /// What `exports` can read, each name once.
    pub export_reads: Vec<Read>,
    /// Where the file reads meta data as older systems did, beside the value: `meta.` belongs there.
    pub old_spellings: Vec<Span>,
    /// Where its states lead, of a loop.
    pub states: Option<States>,
}

/// The states of a loop, by their positions.
#[derive(Debug, Clone, Default)]
pub struct States {
    /// The one it begins with.
    pub initial: usize,
    /// Where each leads.
    pub routes: Vec<ResolvedRoutes>,
}

/// Where a state leads: positions of states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedRoutes {
    /// By verdict.
    pub on: Vec<(EcoString, usize)>,
    /// By the conditions of `route`, in their order.
    pub conditions: Vec<usize>,
    /// Every other verdict but an error.
    pub otherwise: Option<usize>,
    /// An error.
    pub error: Option<usize>,
    /// When it has followed itself too often.
    pub exhausted: Option<usize>,
}

impl ResolvedRoutes {
    /// Every state it may lead to, some more than once.
    pub fn targets(&self) -> impl Iterator<Item = usize> {
        let on = self.on.iter().map(|(_, to)| *to).chain(self.conditions.iter().copied());
        on.chain(self.otherwise).chain(self.error).chain(self.exhausted)
    }
}

/// Steps that run one after the other.
pub struct List {
    /// They.
    pub steps: Vec<StepNumber>,
    /// Whose part it is; none for those of the workflow itself.
    pub parent: Option<(StepNumber, Part)>,
    /// What its steps wait for, where they do not run one after the other.
    pub graph: Option<Graph>,
    /// What its steps are called in place of their positions, where they are the phases of a map-reduce or the states of
    /// a loop.
    pub names: Vec<EcoString>,
}

impl List {
    /// Whether its steps have names in place of positions.
    pub fn is_named(&self) -> bool {
        !self.names.is_empty()
    }

    /// What the step at a position is called: its name, or its number from 1.
    pub fn word(&self, position: usize) -> EcoString {
        self.names.get(position).cloned().unwrap_or_else(|| ecow::eco_format!("{}", position + 1))
    }

    /// The position of the step that is called so.
    pub fn position(&self, word: &str) -> Option<usize> {
        if self.is_named() {
            return self.names.iter().position(|known| known == word);
        }
        let number: usize = word.parse().ok()?;
        number.checked_sub(1).filter(|at| *at < self.steps.len())
    }
}

/// What the nodes of a graph wait for, by their position.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// They.
    pub nodes: Vec<Node>,
}

/// What a node waits for.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The edges into it: one of them must be live.
    pub edges: Vec<Source>,
    /// The nodes that must have completed: `needs`, and those it reads.
    pub needs: Vec<Source>,
    /// The nodes that must be over: those it reads with a default, or only the meta data of.
    pub waits: Vec<usize>,
    /// The nodes that wait for it.
    pub feeds: Vec<usize>,
}

/// A node that another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its position.
    pub node: usize,
    /// The branch that it must have taken.
    pub branch: Option<EcoString>,
}

/// Which list of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// `do`, once for each item, in a scope of its own.
    Do,
    /// `on_failure`
    OnFailure,
    /// `on_success`
    OnSuccess,
    /// `finally`
    Finally,
}

/// A step, and what is known of it before the run.
pub struct PlannedStep {
    /// The step as it is written.
    pub step: Arc<Step>,
    /// What people see: the id, the capture, the name, or what it does and where.
    pub label: EcoString,
    /// Where it stands among all steps of the file: `3` for the third of the workflow, `3.on_failure.1`, `3.do.2`,
    /// `finally.1`. People may name a step by it.
    pub number: EcoString,
    /// The list it is in.
    pub list: ListNumber,
    /// Its lists.
    pub parts: Vec<(Part, ListNumber)>,
    /// What its fields can read, each name once.
    pub reads: Vec<Read>,
    /// Its shell text, analysed; none where references in it are not bound.
    pub script: Option<Script>,
    /// Its program and arguments, analysed.
    pub argv: Option<Argv>,
    /// The workflow it calls.
    pub calls: Option<Arc<Plan>>,
}

/// A name of the scope that a step reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// The output of the step with this id.
    Output(EcoString),
    /// A captured output, through `captured.NAME` or its bare name.
    Captured(EcoString),
    /// Every capture there is: `captured` as a whole.
    AllCaptured,
    /// The step before in this list.
    Prev,
    /// The item.
    Item,
    /// What a phase left: `setup` or `reduce`.
    Phase(EcoString),
    /// The map, and what was made of its results.
    Map,
    /// The state, and the loop around it.
    State,
}

impl Plan {
    /// Whether it is a map-reduce.
    pub fn is_map_reduce(&self) -> bool {
        matches!(self.workflow.shape, Shape::MapReduce { .. })
    }

    /// Every id and capture of the file, each once: names that can be read whether they are set or not.
    pub fn names(&self) -> BTreeSet<&EcoString> {
        let steps = self.steps.iter().map(|planned| &planned.step);
        let own = steps.filter(|step| !matches!(&step.action, Action::Phase(_)) && !step.is_map());
        own.flat_map(|step| step.id.iter().chain(&step.capture)).map(|name| &name.value).collect()
    }

    /// The files beside its own that it is made of, each once: those that it is put together with, those of all
    /// workflows that it calls, and so on for each of them.
    pub fn other_files(&self) -> BTreeMap<EcoString, SourceFile> {
        let mut files = BTreeMap::new();
        let parts = |of: &SourceFile| of.parts().map(|part| (EcoString::from(part.name()), part)).collect();
        let mut found: Vec<(EcoString, SourceFile)> = parts(&self.workflow.file);
        let mut open: Vec<&Plan> = self.steps.iter().filter_map(|step| step.calls.as_deref()).collect();
        while let Some(plan) = open.pop() {
            let file = &plan.workflow.file;
            if files.insert(EcoString::from(file.name()), file.clone()).is_none() {
                found.extend(parts(file));
                open.extend(plan.steps.iter().filter_map(|step| step.calls.as_deref()));
            }
        }
        files.extend(found);
        files
    }

    /// A part of a step, when it has one.
    pub fn part(&self, number: StepNumber, part: Part) -> Option<ListNumber> {
        self.steps[number as usize].parts.iter().find(|(of, _)| *of == part).map(|(_, list)| *list)
    }
}

impl Step {
    /// Whether it is the map of a map-reduce.
    pub fn is_map(&self) -> bool {
        matches!(&self.action, Action::ForEach(each) if each.is_map)
    }

    /// Whether it stands for a phase of a map-reduce, the map too.
    pub fn is_phase(&self) -> bool {
        self.is_map() || matches!(self.action, Action::Phase(_))
    }

    /// The steps of one of its lists.
    pub fn part(&self, part: Part) -> &[Arc<Step>] {
        match (part, &self.action) {
            (Part::OnFailure, _) => &self.on_failure,
            (Part::OnSuccess, _) => &self.on_success,
            (Part::Finally, _) => &self.finally,
            (Part::Do, Action::ForEach(each)) => &each.steps,
            (Part::Do, Action::Phase(phase)) => &phase.steps,
            (Part::Do, _) => &[],
        }
    }
}

impl Action {
    /// Which one it is.
    pub fn name(&self) -> ActionName {
        match self {
            Self::Shell { .. } => ActionName::Shell,
            Self::Argv(_) => ActionName::Argv,
            Self::Agent { .. } => ActionName::Agent,
            Self::Http(_) => ActionName::Http,
            Self::Tool(_) => ActionName::Tool,
            Self::WriteFile(_) => ActionName::WriteFile,
            Self::Value(_) => ActionName::Value,
            Self::Workflow(_) => ActionName::Workflow,
            Self::ForEach(_) => ActionName::ForEach,
            Self::Condition(_) => ActionName::Condition,
            Self::Trigger(_) => ActionName::Trigger,
            Self::Phase(_) => ActionName::Phase,
            Self::Nothing => ActionName::Nothing,
        }
    }
}

impl Part {
    /// Every part, in the order their steps are numbered.
    pub const ALL: [Self; 4] = [Self::Do, Self::OnFailure, Self::OnSuccess, Self::Finally];

    /// The key of the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Do => "do",
            Self::OnFailure => "on_failure",
            Self::OnSuccess => "on_success",
            Self::Finally => "finally",
        }
    }
}
