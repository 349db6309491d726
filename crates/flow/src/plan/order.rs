//! What has run before what: the places of two steps in the lists of a plan.

use std::cmp::Ordering;

use ecow::EcoString;

use super::{ListNumber, Part, Plan, StepNumber};

/// Where a step stands in its list, for every step; and how deep every list is.
pub(super) struct Order {
    positions: Vec<u32>,
    depths: Vec<u32>,
}

/// How a step that makes something stands to one that reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It has run, whenever the reader runs.
    Always,
    /// It has run only when all this was so.
    Only(Vec<Condition>),
    /// It runs later, or at the same time.
    Later,
    /// It is the step itself, or one around it that is not done.
    Itself,
    /// It runs only when the reader does not.
    Never(StepNumber, Part),
}

/// What must have been so for a step to have run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// A `when`, as it is written.
    When(EcoString),
    /// The step with this list failed, or went well.
    Part(StepNumber, Part),
    /// The run came so far.
    Reached,
}

impl Order {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut positions = vec![0; plan.steps.len()];
        let mut depths: Vec<u32> = vec![0; plan.lists.len()];
        for (at, list) in plan.lists.iter().enumerate() {
            // A list stands behind the one its step is in.
            depths[at] =
                list.parent.map_or(0, |(step, _)| depths[plan.steps[step as usize].list as usize] + 1);
            for (position, step) in (0..).zip(&list.steps) {
                positions[*step as usize] = position;
            }
        }
        Self { positions, depths }
    }

    /// The position of a step in its list.
    pub(super) fn position(&self, step: StepNumber) -> usize {
        self.positions[step as usize] as usize
    }

    /// How `made` stands to a reader; without one, to the end of the run.
    pub(super) fn before(&self, plan: &Plan, made: StepNumber, reader: Option<StepNumber>) -> Before {
        let mut conditions = Vec::new();
        let Some(reader) = reader else {
            let mut made = Walk::new(plan, made);
            while made.up(&mut conditions) {}
            made.when(&mut conditions);
            return only(conditions);
        };
        let (mut made, mut at) = (Walk::new(plan, made), Walk::new(plan, reader));
        while made.list != at.list {
            let depth = |list: ListNumber| self.depths[list as usize];
            let moved = match depth(made.list).cmp(&depth(at.list)) {
                Ordering::Greater => made.up(&mut conditions),
                Ordering::Less => at.up(&mut Vec::new()),
                Ordering::Equal => made.up(&mut conditions) && at.up(&mut Vec::new()),
            };
            if !moved {
                return across(plan, &made, conditions);
            }
        }
        let (first, second) = (self.positions[made.step as usize], self.positions[at.step as usize]);
        // A node of a graph comes before whoever reads it, wherever they stand.
        let is_graph = plan.lists[made.list as usize].graph.is_some();
        match first.cmp(&second) {
            Ordering::Greater if is_graph => {
                made.when(&mut conditions);
                only(conditions)
            }
            Ordering::Less => {
                made.when(&mut conditions);
                only(conditions)
            }
            Ordering::Greater => Before::Later,
            Ordering::Equal => match (made.from, at.from) {
                // At its end a phase reads what its steps left.
                (Some(Part::Do), None) => only(conditions),
                (None, None | Some(Part::Do)) => Before::Itself,
                (None, Some(_)) => Before::Always,
                (Some(part @ Part::OnFailure), Some(Part::OnSuccess))
                | (Some(part @ Part::OnSuccess), Some(Part::OnFailure)) => Before::Never(made.step, part),
                (Some(part), Some(other)) if part < other => only(conditions),
                _ => Before::Later,
            },
        }
    }

    /// The conditions under which a step runs, those of the steps around it too; without its own `when` where that is
    /// what reads.
    pub(super) fn conditions(plan: &Plan, step: StepNumber, own: bool) -> Vec<StepNumber> {
        let mut with = Vec::new();
        let mut next = Some((step, own));
        while let Some((step, counts)) = next {
            let planned = &plan.steps[step as usize];
            if counts && planned.step.when.is_some() {
                with.push(step);
            }
            next = plan.lists[planned.list as usize].parent.map(|(owner, _)| (owner, true));
        }
        with
    }
}

fn only(conditions: Vec<Condition>) -> Before {
    if conditions.is_empty() { Before::Always } else { Before::Only(conditions) }
}

/// Of two lists of the workflow itself: the last steps read what the others made, as far as the run came.
fn across(plan: &Plan, made: &Walk<'_>, mut conditions: Vec<Condition>) -> Before {
    if plan.finally == Some(made.list) {
        return Before::Later;
    }
    made.when(&mut conditions);
    // At the end of a graph every node is over; a list may have ended before.
    if plan.lists[0].graph.is_none() {
        conditions.push(Condition::Reached);
    }
    only(conditions)
}

/// From a step outwards.
struct Walk<'p> {
    plan: &'p Plan,
    step: StepNumber,
    list: ListNumber,
    /// Through which part of the step the way came.
    from: Option<Part>,
}

impl<'p> Walk<'p> {
    fn new(plan: &'p Plan, step: StepNumber) -> Self {
        Self { plan, step, list: plan.steps[step as usize].list, from: None }
    }

    /// To the step around; what must have been so for the way there is added.
    fn up(&mut self, conditions: &mut Vec<Condition>) -> bool {
        let Some((owner, part)) = self.plan.lists[self.list as usize].parent else { return false };
        self.when(conditions);
        if matches!(part, Part::OnFailure | Part::OnSuccess) {
            conditions.push(Condition::Part(owner, part));
        }
        *self = Self { from: Some(part), ..Self::new(self.plan, owner) };
        true
    }

    fn when(&self, conditions: &mut Vec<Condition>) {
        let when = self.plan.steps[self.step as usize].step.when.as_ref();
        conditions.extend(when.map(|when| Condition::When(when.value.source().trim().into())));
    }
}
