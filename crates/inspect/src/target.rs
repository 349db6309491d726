//! The names of steps on the command line: an id, a capture, a number, a label or an address, with an item and a field.

use std::collections::BTreeSet;

use ecow::EcoString;
use threadline_engine::event::{Address, RerunTarget, RunSlice, split_item_suffix};
use threadline_flow::model::Action;
use threadline_flow::plan::{Part, Plan, PlannedStep, StepNumber};
use threadline_lang::diag::nearest;

use crate::error::InspectError;
use crate::history::History;

/// The steps, executions and field that the user asks about.
pub struct ExplainTarget {
    /// The steps with the name.
    pub steps: Vec<StepNumber>,
    /// Only these executions, unless empty.
    at: Vec<Address>,
    /// Only these items, the outermost first.
    items: Vec<u64>,
    /// Only what stands in these items, or around them.
    around: Vec<u64>,
    is_around: bool,
    /// Only this field.
    pub field: Option<String>,
}

/// No step has the name.
pub struct NoSuchStep {
    /// The nearest name of a step.
    pub nearest: Option<String>,
}

impl ExplainTarget {
    /// Every execution and field of steps.
    pub fn of(steps: Vec<StepNumber>) -> Self {
        Self { steps, at: Vec::new(), items: Vec::new(), around: Vec::new(), is_around: false, field: None }
    }

    /// Every step outside of items, and in items those of one of each list: what is shown where there is room for one.
    pub fn with_item(plan: &Plan, items: Vec<u64>) -> Self {
        let steps = (0..).take(plan.steps.len()).collect();
        Self { around: items, is_around: true, ..Self::of(steps) }
    }

    /// Every execution of every step.
    pub fn whole(plan: &Plan) -> Self {
        Self::of((0..).take(plan.steps.len()).collect())
    }

    /// Every field of executions.
    pub fn executions(plan: &Plan, at: Vec<Address>) -> Self {
        let steps = at.iter().filter_map(|at| at.step(plan)).collect();
        Self { at, ..Self::of(steps) }
    }

    /// Finds what a text names: its longest prefix that names a step, then a field.
    pub fn find(plan: &Plan, text: &str) -> Result<Self, NoSuchStep> {
        if let Some(found) = step(plan, text).or_else(|| engine_value(plan, text)) {
            return Ok(found);
        }
        let mut splits: Vec<usize> = text.match_indices('.').map(|(at, _)| at).collect();
        splits.reverse();
        for at in splits {
            if let Some(mut found) = step(plan, &text[..at]) {
                found.field = Some(text[at + 1..].to_owned());
                return Ok(found);
            }
        }
        let names = plan.steps.iter().flat_map(|step| names(step).map(EcoString::as_str));
        Err(NoSuchStep { nearest: nearest(text, names).map(str::to_owned) })
    }

    /// The same for a run, with an error for people.
    pub fn named(history: &History<'_>, text: &str) -> Result<Self, InspectError> {
        Self::find(&history.plan, text).map_err(|missing| {
            let run = &history.info.id;
            let hint = match missing.nearest {
                Some(near) => format!("did you mean `{near}`"),
                None => format!("`threadline explain {run}` lists them"),
            };
            InspectError::with_hint(format!("run `{run}` has no step `{text}`"), hint).missing()
        })
    }

    /// The items that it is about, by their indexes, where it is not about every item; none of them where it is about steps
    /// outside of items.
    pub fn asked_items(&self, plan: &Plan) -> Option<Vec<Vec<u64>>> {
        if !self.at.is_empty() {
            let items = self.at.iter().map(|at| at.items().collect::<Vec<u64>>());
            return Some(items.filter(|items| !items.is_empty()).collect());
        }
        if self.is_around {
            return Some(vec![self.around.clone()].into_iter().filter(|items| !items.is_empty()).collect());
        }
        if !self.items.is_empty() {
            return Some(vec![self.items.clone()]);
        }
        let are_outside = self.steps.iter().all(|step| lists_around(plan, *step) == 0);
        are_outside.then(Vec::new)
    }

    /// The slice of a run in which it shows what it shows in the whole run; none where all of the run has to be read.
    pub fn slice(&self, history: &History<'_>) -> Result<Option<RunSlice>, InspectError> {
        let plan = &history.plan;
        let Some(slice) = self.asked_items(plan).map(RunSlice::new) else { return Ok(None) };
        let Some(visited) = history.visited()? else { return Ok(Some(slice)) };
        let (mut visits, mut through_end) = (BTreeSet::new(), false);
        for at in &self.at {
            match at.visit_around() {
                Some(visit) => visits.extend(visited.number(&visit)),
                None => through_end = true,
            }
        }
        for step in self.steps.iter().filter(|_| self.at.is_empty()) {
            match state_around(plan, *step) {
                Some(position) => visits.extend(visited.of_state(position)),
                None => through_end = true,
            }
        }
        Ok(visited.slice(&visits, through_end).map(|visits| slice.in_visits(visits)))
    }

    /// Whether an execution belongs to the target.
    pub fn means(&self, at: &Address, step: StepNumber) -> bool {
        if !self.at.is_empty() {
            return self.at.contains(at);
        }
        let items: Vec<u64> = at.items().collect();
        if self.is_around {
            return self.around.starts_with(&items)
                || items.starts_with(&self.around) && !self.around.is_empty();
        }
        self.steps.contains(&step) && items.starts_with(&self.items)
    }

    /// The executions of the target, as those that are to be done again.
    pub fn rerun(&self, plan: &Plan) -> Vec<RerunTarget> {
        let number = |step: StepNumber| plan.steps[step as usize].number.clone();
        if self.at.is_empty() {
            let of_step = |step: &StepNumber| RerunTarget {
                step: number(*step),
                items: self.items.clone(),
                visit: None,
            };
            return self.steps.iter().map(of_step).collect();
        }
        let of_execution = |at: &Address| {
            let step = number(at.step(plan)?);
            Some(RerunTarget { step, items: at.items().collect(), visit: at.visit() })
        };
        self.at.iter().filter_map(of_execution).collect()
    }

    /// Whether a field belongs to the target, by its path in the step.
    pub fn means_field(&self, path: &str) -> bool {
        let Some(field) = &self.field else { return true };
        let below = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        below(path, field) || below(field, path)
    }

    /// Whether the target is a single execution or item.
    pub fn is_one(&self) -> bool {
        !self.at.is_empty() || !self.items.is_empty()
    }
}

fn names(step: &PlannedStep) -> impl Iterator<Item = &EcoString> {
    let id = step.step.id.as_ref().map(|id| &id.value);
    let capture = step.step.capture.as_ref().map(|capture| &capture.value);
    [id, capture, Some(&step.number), Some(&step.label), step.step.name.as_ref()].into_iter().flatten()
}

fn step(plan: &Plan, text: &str) -> Option<ExplainTarget> {
    let at = Address::parse(text).ok().filter(|at| at.is_nested() || at.visit().is_some());
    if let Some(at) = at {
        at.step(plan)?;
        return Some(ExplainTarget::executions(plan, vec![at]));
    }
    let (name, items) = split_item_suffix(text)?;
    // The first kind of name that matches: an id before a capture, a number before a label.
    let sorts: [fn(&PlannedStep) -> Option<&EcoString>; 5] = [
        |step| step.step.id.as_ref().map(|id| &id.value),
        |step| step.step.capture.as_ref().map(|capture| &capture.value),
        |step| Some(&step.number),
        |step| Some(&step.label),
        |step| step.step.name.as_ref(),
    ];
    let steps = sorts.into_iter().find_map(|sort| {
        let named = |(_, step): &(StepNumber, &PlannedStep)| sort(step).is_some_and(|known| known == name);
        let found: Vec<StepNumber> = (0..).zip(&plan.steps).filter(named).map(|(number, _)| number).collect();
        (!found.is_empty()).then_some(found)
    })?;
    let steps = of_items(plan, &steps, items.len());
    Some(ExplainTarget { items, ..ExplainTarget::of(steps) })
}

/// What a map or a phase makes at its end: `aggregates.NAME`, `setup.variables.NAME`.
fn engine_value(plan: &Plan, text: &str) -> Option<ExplainTarget> {
    let (root, rest) = text.split_once('.').unwrap_or((text, ""));
    let (owner, field) = match root {
        "aggregates" => ("map", text),
        "setup" | "reduce" if rest.split('.').next() == Some("variables") => (root, rest),
        _ => return None,
    };
    let is_owner = |step: &PlannedStep| {
        let action = &step.step.action;
        let is_map = matches!(action, Action::ForEach(each) if each.is_map);
        step.label == owner && (is_map || matches!(action, Action::Phase(_)))
    };
    let number = plan.steps.iter().position(is_owner)?;
    let steps = vec![StepNumber::try_from(number).ok()?];
    Some(ExplainTarget { field: Some(field.to_owned()), ..ExplainTarget::of(steps) })
}

/// The steps inside of items and phases, in place of the steps that contain them.
fn of_items(plan: &Plan, steps: &[StepNumber], count: usize) -> Vec<StepNumber> {
    let mut found = Vec::new();
    for number in steps {
        let opens = match plan.steps[*number as usize].step.action {
            Action::ForEach(_) => lists_around(plan, *number) + 1 == count,
            Action::Phase(_) => count == 0,
            _ => false,
        };
        if opens {
            found.extend((0..).take(plan.steps.len()).filter(|inner| stands_in(plan, *inner, *number)));
        } else {
            found.push(*number);
        }
    }
    found
}

/// The position of the state that a step of a loop is or stands in; none for the steps at the end of the run.
fn state_around(plan: &Plan, number: StepNumber) -> Option<usize> {
    let outermost =
        std::iter::successors(Some(number), |number| owner(plan, *number).map(|(owner, _)| owner));
    let outermost = outermost.last()?;
    plan.lists.first()?.steps.iter().position(|step| *step == outermost)
}

/// The step that contains a step, and the part that it is in.
fn owner(plan: &Plan, number: StepNumber) -> Option<(StepNumber, Part)> {
    plan.lists[plan.steps[number as usize].list as usize].parent
}

/// Whether a step is inside of another, at any depth.
fn stands_in(plan: &Plan, inner: StepNumber, outer: StepNumber) -> bool {
    std::iter::successors(owner(plan, inner), |(number, _)| owner(plan, *number))
        .any(|(number, part)| number == outer && part == Part::Do)
}

/// The number of lists of items around a step.
pub fn lists_around(plan: &Plan, number: StepNumber) -> usize {
    let is_list = |number: StepNumber| matches!(plan.steps[number as usize].step.action, Action::ForEach(_));
    std::iter::successors(owner(plan, number), |(number, _)| owner(plan, *number))
        .filter(|(number, part)| *part == Part::Do && is_list(*number))
        .count()
}
