//! Numbers the steps and lists of a workflow in the order of the file. Names are not resolved here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_lang::ValueShape;

use super::{Graph, List, ListNumber, Part, Plan, PlannedStep, StepNumber};
use crate::model::{Action, Shape, Step, Workflow};

/// The plan of a workflow before its names are resolved.
pub(super) fn number(workflow: Arc<Workflow>) -> Plan {
    let source = Arc::clone(&workflow);
    let mut plan = Plan {
        workflow,
        steps: Vec::new(),
        lists: Vec::new(),
        run_parts: Vec::new(),
        reads_folder: false,
        export_shape: ValueShape::ANY,
        export_reads: Vec::new(),
        states: None,
        tools: BTreeMap::new(),
    };
    plan.add_list(&source.steps, None, "");
    if matches!(source.shape, Shape::MapReduce { .. }) {
        let names = source.steps.iter().filter_map(|step| Some(step.id.as_ref()?.value.clone()));
        plan.lists[0].names = names.collect();
    }
    if matches!(source.shape, Shape::Loop(_)) {
        let names = source.steps.iter().filter_map(|step| Some(step.state.as_ref()?.name.value.clone()));
        plan.lists[0].names = names.collect();
    }
    if matches!(source.shape, Shape::Graph { .. }) {
        plan.lists[0].graph = Some(Graph::default());
    }
    for part in Part::OF_RUN {
        let steps = source.run_part(part);
        if !steps.is_empty() {
            let list = plan.add_list(steps, None, &eco_format!("{}.", part.key()));
            plan.run_parts.push((part, list));
        }
    }
    plan
}

impl Plan {
    fn add_list(
        &mut self,
        steps: &[Arc<Step>],
        parent: Option<(StepNumber, Part)>,
        prefix: &str,
    ) -> ListNumber {
        let list = count(self.lists.len());
        let names = Vec::new();
        self.lists.push(List { steps: Vec::with_capacity(steps.len()), parent, graph: None, names });
        let of_phases = list == 0 && matches!(self.workflow.shape, Shape::MapReduce { .. });
        for (at, step) in steps.iter().enumerate() {
            let word = step.id.as_ref().filter(|_| of_phases).map(|id| id.value.clone());
            let word = word.or_else(|| step.state.as_ref().map(|state| state.name.value.clone()));
            let word = word.unwrap_or_else(|| eco_format!("{}", at + 1));
            let number = self.add_step(step, list, &eco_format!("{prefix}{word}"));
            self.lists[list as usize].steps.push(number);
        }
        list
    }

    fn add_step(&mut self, step: &Arc<Step>, list: ListNumber, number: &EcoString) -> StepNumber {
        let at = count(self.steps.len());
        self.steps.push(PlannedStep {
            step: Arc::clone(step),
            label: label(step, number),
            number: number.clone(),
            list,
            parts: Vec::new(),
            reads: Vec::new(),
            script: None,
            argv: None,
            secret_moments: Vec::new(),
            params: None,
            calls: None,
        });
        for part in Part::ALL {
            let steps = step.part(part);
            if !steps.is_empty() {
                // The steps of a phase and of the map are numbered directly below it.
                let below = match (&step.action, part) {
                    (Action::Phase(_), _) => format!("{number}."),
                    (Action::ForEach(each), Part::Do) if each.is_map => format!("{number}."),
                    _ => format!("{number}.{}.", part.key()),
                };
                let list = self.add_list(steps, Some((at, part)), &below);
                self.steps[at as usize].parts.push((part, list));
            }
        }
        at
    }
}

/// A file has at most 64 MiB, so neither steps nor lists reach this number.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn label(step: &Step, number: &str) -> EcoString {
    if let Some(state) = &step.state {
        return state.name.value.clone();
    }
    let given = step.id.as_ref().or(step.capture.as_ref()).map(|name| &name.value);
    let given = given.or(step.name.as_ref()).cloned();
    given.unwrap_or_else(|| eco_format!("{} {number}", step.action.name().key()))
}
