//! Which step of an earlier text is which step of a plan, and which execution of an earlier run is which.
//!
//! A pair only says what is compared: whether a result is kept is decided by what the step does. So a step that
//! is paired with the wrong one costs time and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use threadline_flow::plan::{List, ListNumber, Part, Plan, StepNumber};

use crate::event::Address;

/// A place among the steps of an earlier list.
struct Gap {
    behind: Option<StepNumber>,
    before: Option<StepNumber>,
}

/// The steps of a plan and those of an earlier one.
pub struct StepPairing {
    /// For each step of the plan its number in the earlier one.
    earlier: Vec<Option<StepNumber>>,
}

impl StepPairing {
    /// Finds the steps of a plan in an earlier one: by their ids or names, else by their texts, else by the order
    /// of those that do the same sort of thing between the same neighbours. A step is looked for only in the list that its own list is paired
    /// with.
    pub fn new(plan: &Plan, earlier: &Plan) -> Self {
        let mut pairing = Self { earlier: vec![None; plan.steps.len()] };
        pairing.lists(plan, earlier, 0, 0);
        for part in Part::ALL {
            if let (Some(list), Some(of)) = (plan.run_part(part), earlier.run_part(part)) {
                pairing.lists(plan, earlier, list, of);
            }
        }
        pairing
    }

    /// The number of a step in the earlier plan.
    pub fn earlier(&self, step: StepNumber) -> Option<StepNumber> {
        self.earlier.get(step as usize).copied().flatten()
    }

    fn lists(&mut self, plan: &Plan, earlier: &Plan, list: ListNumber, of: ListNumber) {
        let (list, of): (&List, &List) = (&plan.lists[list as usize], &earlier.lists[of as usize]);
        let mut left: BTreeSet<StepNumber> = of.steps.iter().copied().collect();
        let mut open: Vec<StepNumber> = list.steps.clone();
        if list.is_named() {
            let same = |new: StepNumber, old: StepNumber| {
                let word = |list: &List, step: StepNumber| {
                    list.steps.iter().position(|known| *known == step).map(|position| list.word(position))
                };
                word(list, new) == word(of, old)
            };
            self.pair(&mut open, &mut left, same);
        }
        let id = |plan: &Plan, step: StepNumber| {
            plan.steps[step as usize].step.id.as_ref().map(|id| id.value.clone())
        };
        self.pair(&mut open, &mut left, |new, old| {
            let new = id(plan, new);
            new.is_some() && new == id(earlier, old)
        });
        self.pair(&mut open, &mut left, |new, old| text(plan, new) == text(earlier, old));
        // States are known by their names alone.
        if !list.is_named() {
            let action = |plan: &Plan, step: StepNumber| plan.steps[step as usize].step.action.name();
            let gaps: BTreeMap<StepNumber, Gap> =
                open.iter().map(|step| (*step, self.gap(list, *step))).collect();
            let stands_there = |new: StepNumber, old: StepNumber| {
                gaps.get(&new).is_some_and(|gap| {
                    gap.behind.is_none_or(|step| step < old) && gap.before.is_none_or(|step| old < step)
                })
            };
            self.pair(&mut open, &mut left, |new, old| {
                action(plan, new) == action(earlier, old) && stands_there(new, old)
            });
        }
        for step in &list.steps {
            let Some(old) = self.earlier(*step) else { continue };
            for (part, inner) in &plan.steps[*step as usize].parts {
                if let Some(of) = earlier.part(old, *part) {
                    self.lists(plan, earlier, *inner, of);
                }
            }
        }
    }

    /// Between which steps of the earlier list a step stands: those of the nearest that are paired.
    fn gap(&self, list: &List, step: StepNumber) -> Gap {
        let at = list.steps.iter().position(|known| *known == step).unwrap_or(0);
        let behind = list.steps[..at].iter().rev().find_map(|step| self.earlier(*step));
        let before = list.steps[at..].iter().find_map(|step| self.earlier(*step));
        Gap { behind, before }
    }

    /// Pairs each step that is open with the first that is left and is the same in some way.
    fn pair(
        &mut self,
        open: &mut Vec<StepNumber>,
        left: &mut BTreeSet<StepNumber>,
        same: impl Fn(StepNumber, StepNumber) -> bool,
    ) {
        open.retain(|new| {
            let Some(old) = left.iter().copied().find(|old| same(*new, *old)) else { return true };
            left.remove(&old);
            self.earlier[*new as usize] = Some(old);
            false
        });
    }

    /// The execution of the earlier run that is paired with one of this run. `item` says which item of a step of
    /// the earlier run is which: it is given the step, that of the earlier run, and the index.
    pub fn execution<E>(
        &self,
        (plan, earlier): (&Plan, &Plan),
        at: &Address,
        mut item: impl FnMut(&Address, &Address, u64) -> Result<Option<u64>, E>,
    ) -> Result<Option<Address>, E> {
        let mut found = Address::root();
        for around in at.lineage() {
            let next = if let Some((step, index)) = around.as_item() {
                item(&step, &found, index)?.map(|index| found.item(index))
            } else if let Some(part) = around.as_part() {
                Some(found.part(part))
            } else if let Some(part) = around.run_part().filter(|_| !around.is_nested()) {
                Some(Address::of_run(part))
            } else {
                self.step_at(plan, earlier, &found, &around)
            };
            let Some(next) = next else { return Ok(None) };
            found = next;
        }
        Ok(Some(found))
    }

    /// The step of the earlier run in a list of it.
    fn step_at(&self, plan: &Plan, earlier: &Plan, list_at: &Address, at: &Address) -> Option<Address> {
        let old = self.earlier(at.step(plan)?)?;
        let list = &earlier.lists[earlier.steps[old as usize].list as usize];
        let position = list.steps.iter().position(|step| *step == old)?;
        let found = list_at.child(list, position);
        Some(match at.visit() {
            Some(visit) if !at.is_nested() => found.at_visit(visit),
            _ => found,
        })
    }
}

/// What a step is in its file.
fn text(plan: &Plan, step: StepNumber) -> Option<&str> {
    plan.workflow.file.text().get(plan.steps[step as usize].step.origin.span.range())
}
