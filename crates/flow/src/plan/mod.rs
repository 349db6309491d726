//! The plan of a workflow: every step and list has a number, and every name is resolved.
//!
//! A plan is made once before a run and never changes. It holds no values.

mod calls;
mod check;
mod command;
mod context;
mod foreign;
mod graph;
mod mapreduce;
mod names;
mod number;
mod order;
mod outcome;
mod params;
mod secrets;
mod set;
mod shapes;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::ValueShape;
use threadline_lang::source::SourceFile;

use crate::fields::{ActionName, ProviderName};
use crate::model::{Action, AgentTool, Evaluator, ItemPool, Moment, Shape, Source, Step, Workflow};
use crate::problem::{Problem, in_order};
use crate::shell::{Argv, ShellScript};
use crate::worker_labels::WorkerLabels;

/// Roots that have a meaning in every workflow, so no id or capture can have these names.
pub const ROOTS: [&str; 11] = [
    "captured", "context", "env", "imports", "inputs", "item", "nodes", "prev", "secrets", "uuid", "workflow",
];

/// The root of the payload, which only graphs have; other workflows may use the name.
pub const PAYLOAD: &str = "trigger";

/// The root of the outcome, which only workflows with `on_failure`, `on_success` or `finally` have; others may use
/// the name.
pub const RUN: &str = "run";

/// Roots that only a map-reduce has; other workflows may use the names.
pub const MAP_REDUCE_ROOTS: [&str; 6] = ["agent", "aggregates", "map", "merge", "reduce", "setup"];

/// Roots that only a loop has; other workflows may use the names.
pub const LOOP_ROOTS: [&str; 4] = ["loop", "param", "result", "state"];

/// Makes the plan of a workflow and checks every name that it reads. Without a plan there is at least one
/// error. Called workflows are not resolved here; [`crate::files`] does that.
pub fn plan(workflow: Arc<Workflow>) -> (Option<Plan>, Vec<Problem>) {
    plan_calling(workflow, &Called::new())
}

/// Makes the plan of a workflow that calls others, which are keyed by the paths that it names.
pub(crate) fn plan_calling(workflow: Arc<Workflow>, called: &Called) -> (Option<Plan>, Vec<Problem>) {
    let mut plan = number::number(workflow);
    let problems = in_order(check::check(&mut plan, called));
    let sound = !problems.iter().any(Problem::is_error);
    for planned in &mut plan.steps {
        if let Action::Workflow(call) = &planned.step.action {
            planned.calls = called.get(&call.path.value).and_then(|callee| callee.plan.clone());
        }
    }
    let mut whole = plan
        .steps
        .iter()
        .all(|planned| planned.calls.is_some() || !matches!(planned.step.action, Action::Workflow(_)));
    let workflow = Arc::clone(&plan.workflow);
    for tool in workflow.agents.iter().flat_map(|agent| &agent.tools) {
        let AgentTool::Workflow { path, .. } = tool else { continue };
        match called.get(&path.value).and_then(|callee| callee.plan.clone()) {
            Some(offered) => drop(plan.tools.insert(path.value.clone(), offered)),
            None => whole = false,
        }
    }
    ((sound && whole).then_some(plan), problems)
}

/// The workflows that a file calls, keyed by the paths that it names.
pub(crate) type Called = BTreeMap<EcoString, Callee>;

/// A called workflow.
#[derive(Clone, Default)]
pub(crate) struct Callee {
    /// The workflow, if its file can be read.
    pub(crate) workflow: Option<Arc<Workflow>>,
    /// Its plan, if it has no errors.
    pub(crate) plan: Option<Arc<Plan>>,
}

/// The target of a route that leads back to the same state.
pub(crate) const SELF: &str = "self";

/// Number of a step, in the order of the file.
pub type StepNumber = u32;
/// Number of a list of steps.
pub type ListNumber = u32;

/// A workflow that can run.
pub struct Plan {
    /// The workflow that the plan was made from.
    pub workflow: Arc<Workflow>,
    /// All steps of the file, including nested ones.
    pub steps: Vec<PlannedStep>,
    /// All lists of steps. The first one is that of the workflow itself.
    pub lists: Vec<List>,
    /// The lists that run when the outcome of the run is known, in the order of [`Part::OF_RUN`].
    pub run_parts: Vec<(Part, ListNumber)>,
    /// Whether something reads the folder of the run, which is made then.
    pub reads_folder: bool,
    /// What is known of the exports before the run.
    pub export_shape: ValueShape,
    /// The names that `exports` read, without duplicates.
    pub export_reads: Vec<Read>,
    /// The routes of the states, if the workflow is a loop.
    pub states: Option<States>,
    /// The plans of the workflows that agents may call, keyed by the paths that the file names.
    pub tools: BTreeMap<EcoString, Arc<Plan>>,
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
    /// The next state for each verdict.
    pub on: Vec<(EcoString, usize)>,
    /// By the conditions of `route`, in their order.
    pub conditions: Vec<usize>,
    /// Every other verdict but an error.
    pub otherwise: Option<usize>,
    /// The next state after an error.
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

/// A list of steps that run one after the other, unless it is a graph.
pub struct List {
    /// The steps, in the order of the file.
    pub steps: Vec<StepNumber>,
    /// The step and the part that the list belongs to; none for a top-level list.
    pub parent: Option<(StepNumber, Part)>,
    /// The dependencies of the steps, if they are the nodes of a graph.
    pub graph: Option<Graph>,
    /// Names of the steps, if they are the phases of a map-reduce or the states of a loop.
    pub names: Vec<EcoString>,
}

impl List {
    /// Whether the steps have names instead of positions.
    pub fn is_named(&self) -> bool {
        !self.names.is_empty()
    }

    /// The name of the step at a position, or its number counted from 1.
    pub fn word(&self, position: usize) -> EcoString {
        self.names.get(position).cloned().unwrap_or_else(|| ecow::eco_format!("{}", position + 1))
    }

    /// The position of the step with a name or a number.
    pub fn position(&self, word: &str) -> Option<usize> {
        if self.is_named() {
            return self.names.iter().position(|known| known == word);
        }
        let number: usize = word.parse().ok()?;
        number.checked_sub(1).filter(|at| *at < self.steps.len())
    }
}

/// The dependencies of the nodes of a graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The dependencies of each node, by its position.
    pub nodes: Vec<Node>,
}

/// The dependencies of a node.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The edges into the node, of which at least one must be live.
    pub edges: Vec<NodeSource>,
    /// The nodes that must have completed: `needs`, and the nodes that it reads.
    pub needs: Vec<NodeSource>,
    /// The nodes that must be over: those that it reads with a default, or only the metadata of.
    pub waits: Vec<usize>,
    /// The nodes that wait for it.
    pub feeds: Vec<usize>,
}

/// A node that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSource {
    /// Position of the node.
    pub node: usize,
    /// The branch that the node must have taken.
    pub branch: Option<EcoString>,
}

/// A list of steps that belongs to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// `do`, once for each item, in a scope of its own
    Do,
    /// The steps of `retry: {fix: ...}`, between two attempts.
    Fix,
    /// The steps of `on_failure`.
    OnFailure,
    /// The steps of `on_success`.
    OnSuccess,
    /// The steps of `finally`.
    Finally,
}

/// A step with everything that is known about it before the run.
pub struct PlannedStep {
    /// The step as it was loaded.
    pub step: Arc<Step>,
    /// Label for people: the id, the capture, the name, or the action and its number.
    pub label: EcoString,
    /// Number among all steps of the file: `3` for the third of the workflow, `3.on_failure.1`, `3.do.2`,
    /// `finally.1`. People may name a step by it.
    pub number: EcoString,
    /// The list that contains the step.
    pub list: ListNumber,
    /// The lists that belong to the step.
    pub parts: Vec<(Part, ListNumber)>,
    /// The names that its fields read, without duplicates.
    pub reads: Vec<Read>,
    /// The analysed shell text; none if references in it are not bound.
    pub script: Option<ShellScript>,
    /// The analysed program and arguments.
    pub argv: Option<Argv>,
    /// What is known of its `params`, if it calls a tool.
    pub params: Option<ValueShape>,
    /// The plan of the workflow that it calls.
    pub calls: Option<Arc<Plan>>,
    /// When its fields read secrets.
    pub secret_moments: Vec<Moment>,
}

/// A name of the scope that a step reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// The output of the step with this id.
    Output(EcoString),
    /// A captured output, through `captured.NAME` or its bare name.
    Captured(EcoString),
    /// All captures: `captured` as a whole.
    AllCaptured,
    /// The previous step of the list.
    Prev,
    /// The current item.
    Item,
    /// The results of a phase: `setup` or `reduce`.
    Phase(EcoString),
    /// The map, and the aggregates of its results.
    Map,
    /// The state, and the loop around it.
    State,
    /// The outcome of the run.
    Outcome,
}

impl Plan {
    /// Whether the workflow is a map-reduce.
    pub fn is_map_reduce(&self) -> bool {
        matches!(self.workflow.shape, Shape::MapReduce { .. })
    }

    /// All ids and captures of the file, without duplicates, whether they are set or not.
    pub fn names(&self) -> BTreeSet<&EcoString> {
        let steps = self.steps.iter().map(|planned| &planned.step);
        let own = steps.filter(|step| !matches!(&step.action, Action::Phase(_)) && !step.is_map());
        own.flat_map(|step| step.id.iter().chain(&step.capture)).map(|name| &name.value).collect()
    }

    /// All other files that the plan depends on, without duplicates: the parts of its own file, the called
    /// workflows, and so on for each of them.
    pub fn other_files(&self) -> BTreeMap<EcoString, SourceFile> {
        let mut files = BTreeMap::new();
        let parts =
            |file: &SourceFile| file.parts().map(|part| (EcoString::from(part.name()), part)).collect();
        let mut found: Vec<(EcoString, SourceFile)> = parts(&self.workflow.file);
        let mut open: Vec<&Plan> = self.callees().collect();
        while let Some(plan) = open.pop() {
            let file = &plan.workflow.file;
            if files.insert(EcoString::from(file.name()), file.clone()).is_none() {
                found.extend(parts(file));
                open.extend(plan.callees());
            }
        }
        files.extend(found);
        files
    }

    /// Which workers may perform what a step does, or ask its judge: what the step says, or its agent, or the list around
    /// it, or `defaults`.
    pub fn labels_of(&self, step: StepNumber, is_judge: bool) -> Option<&WorkerLabels> {
        let own = &self.steps[step as usize].step;
        let agent = match (&own.action, own.evaluator()) {
            (_, Some(Evaluator::Agent(judge))) if is_judge => Some(&judge.agent.value),
            (Action::Agent { agent, .. }, _) => Some(&agent.value),
            _ => None,
        };
        let agent = agent.and_then(|agent| self.workflow.agent(agent)?.labels.as_ref());
        let said = if is_judge { agent.or(own.labels.as_ref()) } else { own.labels.as_ref().or(agent) };
        let mut list = self.steps[step as usize].list;
        let mut found = said;
        while found.is_none() {
            let Some((around, _)) = self.lists[list as usize].parent else { break };
            let around = &self.steps[around as usize];
            (found, list) = (around.step.labels.as_ref(), around.list);
        }
        found.or(self.workflow.labels.as_ref())
    }

    /// The labels of workers that its steps ask for, each with a step that does, and those of the workflows that it calls;
    /// none for what any worker without labels may perform.
    pub fn asked_labels(&self) -> BTreeMap<WorkerLabels, (&Plan, StepNumber)> {
        let mut asked = BTreeMap::new();
        let mut open = vec![self];
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(plan) = open.pop() {
            if !seen.insert(plan.workflow.file.name()) {
                continue;
            }
            for (number, planned) in (0..).zip(&plan.steps) {
                let step = &planned.step;
                let is_asked = |agent: &EcoString| {
                    plan.workflow
                        .agent(agent)
                        .is_some_and(|agent| agent.provider.name != ProviderName::Replay)
                };
                let acts = match &step.action {
                    Action::Shell { .. } | Action::Argv(_) | Action::Http(_) => true,
                    Action::Agent { agent, .. } => is_asked(&agent.value),
                    Action::ForEach(each) => matches!(each.source, Source::Shell { .. }),
                    _ => false,
                };
                let judges = match step.evaluator() {
                    Some(Evaluator::Agent(judge)) => is_asked(&judge.agent.value),
                    _ => false,
                };
                for is_judge in [acts.then_some(false), judges.then_some(true)].into_iter().flatten() {
                    let labels = plan.labels_of(number, is_judge).cloned().unwrap_or_default();
                    asked.entry(labels).or_insert((plan, number));
                }
            }
            open.extend(plan.callees());
        }
        asked
    }

    /// The plans of the workflows that its steps call and that its agents may call.
    pub fn callees(&self) -> impl Iterator<Item = &Plan> {
        let by_steps = self.steps.iter().filter_map(|step| step.calls.as_deref());
        by_steps.chain(self.tools.values().map(Arc::as_ref))
    }

    /// The plans of the workflows that a step calls, or that its agent may call.
    pub fn callees_of<'p>(&'p self, planned: &'p PlannedStep) -> impl Iterator<Item = &'p Arc<Plan>> {
        let agent = match &planned.step.action {
            Action::Agent { agent, .. } => self.workflow.agent(&agent.value),
            _ => None,
        };
        let by_agent = agent.into_iter().flat_map(|agent| &agent.tools).filter_map(|tool| match tool {
            AgentTool::Workflow { path, .. } => self.tools.get(&path.value),
            AgentTool::Server { .. } | AgentTool::BuiltIn(_) => None,
        });
        planned.calls.iter().chain(by_agent)
    }

    /// The plan of the workflow in a file, where a step calls it or its agent may.
    pub fn callee(&self, number: StepNumber, file: &str) -> Option<&Arc<Plan>> {
        let planned = &self.steps[number as usize];
        self.callees_of(planned).find(|plan| plan.workflow.file.name() == file)
    }

    /// The list of a part of a step, if it has one.
    pub fn part(&self, number: StepNumber, part: Part) -> Option<ListNumber> {
        self.steps[number as usize].parts.iter().find(|(known, _)| *known == part).map(|(_, list)| *list)
    }

    /// The list of the workflow that runs when the outcome of the run is known, if it has one.
    pub fn run_part(&self, part: Part) -> Option<ListNumber> {
        self.run_parts.iter().find(|(known, _)| *known == part).map(|(_, list)| *list)
    }

    /// Whether the outcome of the run is recorded before its last lists run: they read it, or depend on it.
    pub fn records_outcome(&self) -> bool {
        let depends = self.run_parts.iter().any(|(part, _)| *part != Part::Finally);
        depends || self.steps.iter().any(|planned| planned.reads.contains(&Read::Outcome))
    }

    /// Whether there are lists whose items share the jobs of a run.
    pub fn shares_jobs(&self) -> bool {
        let shares = |action: &Action| matches!(action, Action::ForEach(each) if each.pool == ItemPool::Jobs);
        self.steps.iter().any(|planned| shares(&planned.step.action))
    }

    /// Whether the steps of a list, or of a list inside of it, do something in the world. A command that a
    /// field computes is something, too.
    pub fn acts(&self, list: ListNumber) -> bool {
        let step_acts = |number: &StepNumber| {
            let planned = &self.steps[*number as usize];
            planned.step.action.acts() || planned.parts.iter().any(|(_, list)| self.acts(*list))
        };
        self.workflow.allow.commands || self.lists[list as usize].steps.iter().any(step_acts)
    }
}

impl Step {
    /// Whether the step is the map of a map-reduce.
    pub fn is_map(&self) -> bool {
        matches!(&self.action, Action::ForEach(each) if each.is_map)
    }

    /// Whether the step is a phase of a map-reduce, including the map.
    pub fn is_phase(&self) -> bool {
        self.is_map() || matches!(self.action, Action::Phase(_))
    }

    /// The steps of a part.
    pub fn part(&self, part: Part) -> &[Arc<Step>] {
        match (part, &self.action) {
            (Part::Fix, _) => self.retry.as_ref().map_or(&[], |retry| &retry.fix),
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
    /// The name of the action.
    pub fn name(&self) -> ActionName {
        match self {
            Self::Shell { .. } => ActionName::Shell,
            Self::Argv(_) => ActionName::Argv,
            Self::Agent { .. } => ActionName::Agent,
            Self::Http(_) => ActionName::Http,
            Self::Tool(_) => ActionName::Tool,
            Self::WriteFile(_) => ActionName::WriteFile,
            Self::Value(_) => ActionName::Value,
            Self::Assert(_) => ActionName::Assert,
            Self::Fail(_) => ActionName::Fail,
            Self::Wait(_) => ActionName::Wait,
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
    /// All parts, in the order in which their steps are numbered.
    pub const ALL: [Self; 5] = [Self::Do, Self::Fix, Self::OnFailure, Self::OnSuccess, Self::Finally];

    /// The lists that belong to a step and set names beside it, in the order in which they run.
    pub const BESIDE: [Self; 4] = [Self::Fix, Self::OnFailure, Self::OnSuccess, Self::Finally];

    /// The lists that a workflow has, too, in the order in which they run.
    pub const OF_RUN: [Self; 3] = [Self::OnFailure, Self::OnSuccess, Self::Finally];

    /// The key of the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Do => "do",
            Self::Fix => "fix",
            Self::OnFailure => "on_failure",
            Self::OnSuccess => "on_success",
            Self::Finally => "finally",
        }
    }
}
