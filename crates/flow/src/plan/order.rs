//! The order of execution: whether one step has run before another, by their positions in the lists of a
//! plan.

use std::cmp::Ordering;

use ecow::EcoString;

use super::{ListNumber, Part, Plan, StepNumber};

/// The position of every step in its list, and the depth of every list.
pub(super) struct StepOrder {
    positions: Vec<u32>,
    depths: Vec<u32>,
}

/// Whether the step that makes a value runs before the step that reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunsBefore {
    /// Whenever the reader runs.
    Always,
    /// Only if all of these conditions hold.
    Only(Vec<RunCondition>),
    /// Not before the reader: later, or at the same time.
    Later,
    /// Not yet: it is the reader itself, or a step around it.
    Itself,
    /// Never: it runs only if the reader does not.
    Never(StepNumber, Part),
    /// Never: it runs only if the run fails, or completes, and the reader only if not.
    OtherOutcome(Part),
}

/// A condition for a step to have run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunCondition {
    /// A `when`, as written.
    When(EcoString),
    /// The step with this list failed, or succeeded.
    Part(StepNumber, Part),
    /// The run did not end before.
    Reached,
    /// The run failed, or completed: this list of the workflow ran.
    RunPart(Part),
}

impl StepOrder {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut positions = vec![0; plan.steps.len()];
        let mut depths: Vec<u32> = vec![0; plan.lists.len()];
        for (at, list) in plan.lists.iter().enumerate() {
            // A list is numbered after the list that contains it.
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

    /// Whether `made` runs before a reader; without one, before the end of the run.
    pub(super) fn before(&self, plan: &Plan, made: StepNumber, reader: Option<StepNumber>) -> RunsBefore {
        let mut conditions = Vec::new();
        let Some(reader) = reader else {
            let mut made = OutwardWalk::new(plan, made);
            while made.up(&mut conditions) {}
            made.when(&mut conditions);
            // Only a run that completed has an end that reads anything.
            return match plan.run_part(Part::OnFailure) {
                Some(list) if list == made.list => RunsBefore::OtherOutcome(Part::OnFailure),
                _ => only(conditions),
            };
        };
        let (mut made, mut at) = (OutwardWalk::new(plan, made), OutwardWalk::new(plan, reader));
        while made.list != at.list {
            let depth = |list: ListNumber| self.depths[list as usize];
            let moved = match depth(made.list).cmp(&depth(at.list)) {
                Ordering::Greater => made.up(&mut conditions),
                Ordering::Less => at.up(&mut Vec::new()),
                Ordering::Equal => made.up(&mut conditions) && at.up(&mut Vec::new()),
            };
            if !moved {
                return across(plan, &made, at.list, conditions);
            }
        }
        let (first, second) = (self.positions[made.step as usize], self.positions[at.step as usize]);
        // A node of a graph runs before the nodes that read it, whatever their positions.
        let is_graph = plan.lists[made.list as usize].graph.is_some();
        match first.cmp(&second) {
            Ordering::Greater if is_graph => {
                made.when(&mut conditions);
                only(conditions)
            }
            Ordering::Less => {
                // Steps after one that ends the list when it fails run only if it succeeded.
                let ends = !plan.steps[made.step as usize].step.continue_on_error;
                let succeeded = RunCondition::Part(made.step, Part::OnSuccess);
                conditions.retain(|condition| !ends || *condition != succeeded);
                made.when(&mut conditions);
                only(conditions)
            }
            Ordering::Greater => RunsBefore::Later,
            Ordering::Equal => match (made.from, at.from) {
                // At its end, a phase reads the results of its own steps.
                (Some(Part::Do), None) => only(conditions),
                (None, None | Some(Part::Do)) => RunsBefore::Itself,
                (None, Some(_)) => RunsBefore::Always,
                (Some(part @ Part::OnFailure), Some(Part::OnSuccess))
                | (Some(part @ Part::OnSuccess), Some(Part::OnFailure)) => RunsBefore::Never(made.step, part),
                (Some(part), Some(other)) if part < other => only(conditions),
                _ => RunsBefore::Later,
            },
        }
    }

    /// The steps around a step, and the step itself, that have a `when`. With `own` false, the `when` of the
    /// step itself is not included, because it is the reader.
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

fn only(conditions: Vec<RunCondition>) -> RunsBefore {
    if conditions.is_empty() { RunsBefore::Always } else { RunsBefore::Only(conditions) }
}

/// The order of two top-level lists: the last lists of a run read the results of its steps, unless the run ended
/// before. In `on_success` it did not.
fn across(
    plan: &Plan,
    made: &OutwardWalk<'_>,
    reader: ListNumber,
    mut conditions: Vec<RunCondition>,
) -> RunsBefore {
    let part_of =
        |list: ListNumber| plan.run_parts.iter().find(|(_, known)| *known == list).map(|(part, _)| *part);
    match (part_of(made.list), part_of(reader)) {
        (Some(part @ (Part::OnFailure | Part::OnSuccess)), Some(Part::Finally)) => {
            conditions.push(RunCondition::RunPart(part));
            made.when(&mut conditions);
            conditions.push(RunCondition::Reached);
        }
        (Some(part @ (Part::OnFailure | Part::OnSuccess)), Some(_)) => return RunsBefore::OtherOutcome(part),
        (Some(_), _) => return RunsBefore::Later,
        (None, reader) => {
            made.when(&mut conditions);
            // At the end of a graph every node is over; a list may have ended early.
            if plan.lists[0].graph.is_none() && reader != Some(Part::OnSuccess) {
                conditions.push(RunCondition::Reached);
            }
        }
    }
    only(conditions)
}

/// A position that moves outward from a step.
struct OutwardWalk<'p> {
    plan: &'p Plan,
    step: StepNumber,
    list: ListNumber,
    /// The part of the step that the position came from.
    from: Option<Part>,
}

impl<'p> OutwardWalk<'p> {
    fn new(plan: &'p Plan, step: StepNumber) -> Self {
        Self { plan, step, list: plan.steps[step as usize].list, from: None }
    }

    /// Moves to the step around, and adds the conditions under which the inner one runs. Returns whether
    /// there is one.
    fn up(&mut self, conditions: &mut Vec<RunCondition>) -> bool {
        let Some((owner, part)) = self.plan.lists[self.list as usize].parent else { return false };
        self.when(conditions);
        if matches!(part, Part::Fix | Part::OnFailure | Part::OnSuccess) {
            conditions.push(RunCondition::Part(owner, part));
        }
        *self = Self { from: Some(part), ..Self::new(self.plan, owner) };
        true
    }

    fn when(&self, conditions: &mut Vec<RunCondition>) {
        let when = self.plan.steps[self.step as usize].step.when.as_ref();
        conditions.extend(when.map(|when| RunCondition::When(when.value.source().trim().into())));
    }
}
