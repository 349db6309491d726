//! Which execution of the first run is which of the second: by step, item and visit.

use std::collections::{BTreeMap, BTreeSet};

use threadline_engine::event::Address;
use threadline_engine::pairing::StepPairing;
use threadline_flow::plan::StepNumber;
use threadline_runner::earlier::ItemPairing;

use super::recorded::RecordedRun;
use crate::error::{InspectError, of_journal};
use crate::history::History;

/// Pairs executions of the second run with those of the first.
pub(super) struct ExecutionAlignment<'c, 'r> {
    histories: [&'c History<'r>; 2],
    recorded: [&'c RecordedRun; 2],
    steps: StepPairing,
    lists: BTreeMap<Address, Option<AlignedItems>>,
}

/// The items of a list of both runs.
pub(super) struct AlignedItems {
    /// Of each item of the second list, by its index, the index in the first; nothing where both are the same list.
    left: Option<Vec<Option<u64>>>,
    /// Items at the same index that have another value now.
    pub(super) changed: Vec<u64>,
    /// Items that only the first list has.
    pub(super) only_left: Vec<u64>,
    /// Items that only the second list has.
    pub(super) only_right: Vec<u64>,
}

impl AlignedItems {
    /// The same value is the same item, else the same index is.
    fn new(pairing: &ItemPairing, left_count: u64, right_count: u64) -> Self {
        let mut found =
            Self { left: None, changed: Vec::new(), only_left: Vec::new(), only_right: Vec::new() };
        if pairing.is_same() {
            return found;
        }
        let mut left: Vec<Option<u64>> = (0..right_count).map(|index| pairing.earlier(index)).collect();
        let mut used: BTreeSet<u64> = left.iter().flatten().copied().collect();
        for (index, of) in (0..).zip(&mut left).filter(|(_, of)| of.is_none()) {
            if index < left_count && used.insert(index) {
                *of = Some(index);
                found.changed.push(index);
            } else {
                found.only_right.push(index);
            }
        }
        found.only_left = (0..left_count).filter(|index| !used.contains(index)).collect();
        found.left = Some(left);
        found
    }

    fn left(&self, right: u64) -> Option<u64> {
        match &self.left {
            None => Some(right),
            Some(left) => left.get(usize::try_from(right).ok()?).copied().flatten(),
        }
    }

    /// Whether the lists differ.
    pub(super) fn differs(&self) -> bool {
        !(self.changed.is_empty() && self.only_left.is_empty() && self.only_right.is_empty())
    }
}

impl<'c, 'r> ExecutionAlignment<'c, 'r> {
    pub(super) fn new(histories: [&'c History<'r>; 2], recorded: [&'c RecordedRun; 2]) -> Self {
        let steps = StepPairing::new(&histories[1].plan, &histories[0].plan);
        Self { histories, recorded, steps, lists: BTreeMap::new() }
    }

    /// The execution of the first run that one of the second is.
    pub(super) fn left(&mut self, right: &Address) -> Result<Option<Address>, InspectError> {
        let Self { histories, recorded, steps, lists } = self;
        let plans = (&*histories[1].plan, &*histories[0].plan);
        steps.execution(plans, right, |step, of, index| {
            if !lists.contains_key(step) {
                let found = aligned_items(*histories, *recorded, (of, step))?;
                lists.insert(step.clone(), found);
            }
            Ok(lists.get(step).and_then(Option::as_ref).and_then(|items| items.left(index)))
        })
    }

    /// How the items of a step of the second run are paired with those of the same of the first.
    pub(super) fn items(
        &mut self,
        left: &Address,
        right: &Address,
    ) -> Result<Option<&AlignedItems>, InspectError> {
        if !self.lists.contains_key(right) {
            let found = aligned_items(self.histories, self.recorded, (left, right))?;
            self.lists.insert(right.clone(), found);
        }
        Ok(self.lists.get(right).and_then(Option::as_ref))
    }

    /// Whether the text of a step differs.
    pub(super) fn has_other_text(&self, left: &Address, right: &Address) -> bool {
        let text = |side: usize, at: &Address| {
            let plan = &self.histories[side].plan;
            let step = at.step(plan)?;
            let span = plan.steps[step as usize].step.origin.span.range();
            plan.workflow.file.text().get(span).map(|text| text.trim().to_owned())
        };
        text(0, left) != text(1, right)
    }

    /// Whether only the workflow of one run has a step: the first's (0) or the second's (1).
    pub(super) fn is_own_step(&self, side: usize, at: &Address) -> bool {
        let Some(step) = at.step(&self.histories[side].plan) else { return false };
        if side == 1 {
            return self.steps.earlier(step).is_none();
        }
        let count = self.histories[1].plan.steps.len();
        !(0..).take(count).any(|right: StepNumber| self.steps.earlier(right) == Some(step))
    }

    /// Whether only one of the runs has an item: the first (0) or the second (1).
    pub(super) fn is_own_item(&self, side: usize, item: &Address) -> bool {
        let Some((list, index)) = item.as_item() else { return false };
        if side == 1 {
            let known = self.lists.get(&list).and_then(Option::as_ref);
            return known.is_some_and(|known| known.only_right.contains(&index));
        }
        // The lists are known by their addresses in the second run, and most have the same in both.
        let mut known = self.lists.values().flatten();
        match self.lists.get(&list).and_then(Option::as_ref) {
            Some(known) => known.only_left.contains(&index),
            None => known.any(|known| known.only_left.contains(&index)),
        }
    }

    /// The steps that only one of the workflows has: the first's, and the second's.
    pub(super) fn own_steps(&self) -> [Vec<String>; 2] {
        let count = self.histories[1].plan.steps.len();
        let paired = (0..).take(count).filter_map(|step: StepNumber| self.steps.earlier(step));
        let paired: BTreeSet<StepNumber> = paired.collect();
        let name =
            |side: usize, step: StepNumber| self.histories[side].plan.steps[step as usize].label.to_string();
        let all = |side: usize| (0..).take(self.histories[side].plan.steps.len());
        [
            all(0).filter(|step| !paired.contains(step)).map(|step| name(0, step)).collect(),
            all(1).filter(|step| self.steps.earlier(*step).is_none()).map(|step| name(1, step)).collect(),
        ]
    }
}

fn aligned_items(
    histories: [&History<'_>; 2],
    recorded: [&RecordedRun; 2],
    (left, right): (&Address, &Address),
) -> Result<Option<AlignedItems>, InspectError> {
    let (Some(then), Some(now)) = (recorded[0].lists.get(left), recorded[1].lists.get(right)) else {
        return Ok(None);
    };
    let pairing = ItemPairing::new(histories[1].reader, &now.items, &then.items);
    let pairing = pairing.map_err(|error| of_journal(&error))?;
    Ok(Some(AlignedItems::new(&pairing, then.count, now.count)))
}
