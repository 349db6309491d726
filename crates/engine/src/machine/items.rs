//! The items of a `foreach` or a map: which begin, what becomes of those that fail, and when all are over.
//!
//! An item that did well leaves nothing in the machine. One that failed stays, so that it can be done again.

use std::collections::BTreeSet;

use threadline_flow::model::Action;
use threadline_flow::plan::Part;

use super::{Command, Counts, Live, Machine, Pause, Phase, Scope, Task};
use crate::event::{Address, ItemEnded, Millis, Rules, Seq, Status};
use crate::view::ItemRef;

/// The items of a list.
pub(super) struct Items {
    pub(super) list: Seq,
    pub(super) count: u64,
    parallel: u64,
    pub(super) rules: Rules,
    next: u64,
    /// Those that failed and are to be done again.
    again: BTreeSet<u64>,
    running: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    successful: u64,
    skipped: u64,
    /// Numbers of runners that are free, below those that were ever given.
    free: BTreeSet<u64>,
    given: u64,
}

impl Items {
    fn new(list: Seq, count: u64, parallel: u64, rules: Rules) -> Self {
        let (again, running, failed, free) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let parallel = parallel.max(1);
        Self {
            list,
            count,
            parallel,
            rules,
            next: 0,
            again,
            running,
            failed,
            successful: 0,
            skipped: 0,
            free,
            given: 0,
        }
    }

    /// The next item that may begin.
    fn take(&mut self) -> Option<u64> {
        let room = (self.running.len() as u64) < self.parallel;
        if !room || self.rules.stops_after(self.failed.len() as u64) {
            return None;
        }
        let index = match self.again.pop_first() {
            Some(index) => index,
            None if self.next < self.count => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.running.insert(index);
        Some(index)
    }

    /// The lowest number of a runner that is free.
    fn runner(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        })
    }

    fn are_over(&self) -> bool {
        let none_left = self.next >= self.count && self.again.is_empty();
        self.running.is_empty() && (none_left || self.rules.stops_after(self.failed.len() as u64))
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    fn counts(&self) -> Counts {
        let failed = self.failed.len() as u64;
        Counts { total: self.count, successful: self.successful, failed, skipped: self.skipped }
    }
}

/// An item that is under way, or that failed.
pub(super) struct Item {
    owner: Address,
    index: u64,
    /// Who runs it.
    pub(super) runner: u64,
    /// Which attempt it is, from 1.
    pub(super) attempt: u32,
    /// Attempts before the last resume after a failure.
    base: u32,
    /// When this attempt began.
    pub(super) began: Millis,
    as_of: Seq,
    phase: ItemPhase,
    /// The event that says why the attempt before failed.
    pub(super) error: Option<Seq>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemPhase {
    Running,
    /// Its steps are through.
    Ending {
        well: bool,
        output: Option<Seq>,
    },
    Waiting(Pause),
    /// It failed; whether all its steps did well.
    Failed {
        steps_well: bool,
    },
}

impl Machine {
    pub(super) fn expanded(&mut self, at: &Address, seq: Seq, count: u64, parallel: u64, rules: Rules) {
        let Some(live) = self.live.get_mut(at) else { return };
        live.phase = Phase::Items;
        live.items = Some(Items::new(seq, count, parallel, rules));
        self.more_items(at);
    }

    /// Begins as many items as may run, or ends the matter.
    pub(super) fn more_items(&mut self, at: &Address) {
        while let Some(index) =
            self.live.get_mut(at).and_then(|live| live.items.as_mut()).and_then(Items::take)
        {
            self.begin_item(at, index);
        }
        self.items_over(at);
    }

    fn begin_item(&mut self, at: &Address, index: u64) {
        let Some(items) = self.live.get_mut(at).and_then(|live| live.items.as_mut()) else { return };
        let (list, parallel, runner) = (items.list, items.parallel, items.runner());
        let key = at.item(index);
        let now = self.last;
        let earlier = self.items.remove(&key);
        let item = Item {
            owner: at.clone(),
            index,
            runner,
            attempt: earlier.as_ref().map_or(1, |item| item.attempt.saturating_add(1)),
            base: earlier.as_ref().map_or(0, |item| item.attempt),
            began: self.time,
            as_of: now,
            phase: ItemPhase::Running,
            error: earlier.as_ref().and_then(|item| item.error),
        };
        self.items.insert(key.clone(), item);
        match earlier.map(|item| item.phase) {
            // What it had done is there, and it goes on where it failed.
            Some(ItemPhase::Failed { steps_well: false }) if !self.in_worktree(at) => {
                self.reopen(&key);
            }
            Some(_) => self.open_item(at, ItemRef { list, index }),
            None => {
                // Items side by side depend on the event with their list and not on each other. One after the other they
                // begin when the one before is on disk.
                self.last = if parallel > 1 { list } else { now };
                self.open_item(at, ItemRef { list, index });
                self.last = now;
            }
        }
    }

    /// Opens the steps of an item from their beginning.
    fn open_item(&mut self, at: &Address, item: ItemRef) {
        let Some(live) = self.live.get(at) else { return };
        let step = live.step;
        let Some(parent) = self.frames.get(&live.frame).map(|frame| frame.scope.clone()) else { return };
        let key = at.item(item.index);
        self.drop_lists(&key);
        let scope = Scope { parent: Some(parent), item: Some(item), ..Scope::default() };
        self.scopes.insert(key.clone(), scope);
        let Some(list) = self.plan.part(step, Part::Do) else { return };
        self.open(&key, list, Some((at.clone(), Part::Do, Some(item.index))), key.clone(), None);
    }

    /// Whether what the steps of an item left is in a worktree, which does not outlive a failure.
    fn in_worktree(&self, at: &Address) -> bool {
        let step = self.live.get(at).map(|live| &self.plan.steps[live.step as usize].step);
        step.is_some_and(|step| matches!(&step.action, Action::ForEach(each) if each.worktree))
    }

    /// The steps of an item are through, well or not.
    pub(super) fn item_steps_done(&mut self, at: &Address, index: u64, output: Option<Seq>, well: bool) {
        let key = at.item(index);
        let Some(item) = self.items.get_mut(&key) else { return };
        item.phase = ItemPhase::Ending { well, output };
        item.as_of = self.last;
        self.commands.extend(self.outstanding_item(&key));
    }

    /// What is to be done next with an item.
    pub(super) fn outstanding_item(&self, key: &Address) -> Option<Command> {
        let item = self.items.get(key)?;
        let live = self.live.get(&item.owner)?;
        let task = Task { at: key.clone(), step: live.step, as_of: item.as_of };
        match item.phase {
            ItemPhase::Running | ItemPhase::Failed { .. } => None,
            ItemPhase::Waiting(pause) => Some(Command::Wait { task, pause }),
            ItemPhase::Ending { well, output } => Some(Command::EndItem {
                task,
                ending: ItemEnding {
                    index: item.index,
                    runner: item.runner,
                    well,
                    output,
                    attempt: item.attempt,
                    base: item.base,
                    began: item.began,
                    rules: live.items.as_ref().map_or(Rules::STRICT, |items| items.rules),
                },
            }),
        }
    }

    /// The pause before another attempt of an item is over.
    pub(super) fn waited_item(&self, key: &Address) -> Option<Command> {
        let item = self.items.get(key)?;
        let step = self.live.get(&item.owner)?.step;
        let task = Task { at: key.clone(), step, as_of: item.as_of };
        let attempt = item.attempt.saturating_add(1);
        matches!(item.phase, ItemPhase::Waiting(_)).then_some(Command::BeginItem { task, attempt })
    }

    /// An item failed and begins again later. Whether that fits.
    pub(super) fn item_retrying(&mut self, key: &Address, until: Millis) -> bool {
        let (now, seq) = (self.time, self.last);
        let Some(item) = self.items.get_mut(key) else { return false };
        if !matches!(item.phase, ItemPhase::Ending { .. }) {
            return false;
        }
        item.phase = ItemPhase::Waiting(Pause { since: now, until });
        item.error = Some(seq);
        item.as_of = seq;
        self.drop_lists(key);
        self.commands.extend(self.outstanding_item(key));
        true
    }

    /// An item begins again. Whether that fits.
    pub(super) fn item_begun(&mut self, key: &Address, attempt: u32) -> bool {
        let (now, seq) = (self.time, self.last);
        let Some(item) = self.items.get_mut(key) else { return false };
        if !matches!(item.phase, ItemPhase::Waiting(_)) || attempt != item.attempt.saturating_add(1) {
            return false;
        }
        item.phase = ItemPhase::Running;
        item.attempt = attempt;
        item.began = now;
        item.as_of = seq;
        let (owner, index) = (item.owner.clone(), item.index);
        let Some(list) = self.live.get(&owner).and_then(|live| live.items.as_ref()).map(|items| items.list)
        else {
            return false;
        };
        self.open_item(&owner, ItemRef { list, index });
        true
    }

    /// An item is over. Whether that fits.
    pub(super) fn item_ended(&mut self, key: &Address, ended: &ItemEnded) -> bool {
        let seq = self.last;
        let Some(item) = self.items.get_mut(key) else { return false };
        let ItemPhase::Ending { well, .. } = item.phase else { return false };
        let (at, index, runner) = (item.owner.clone(), item.index, item.runner);
        let Some(items) = self.live.get_mut(&at).and_then(|live| live.items.as_mut()) else { return false };
        items.running.remove(&index);
        items.free.insert(runner);
        match ended.status {
            Status::Completed => items.successful += 1,
            Status::Skipped => items.skipped += 1,
            Status::Failed | Status::Cancelled => {
                items.failed.insert(index);
                item.phase = ItemPhase::Failed { steps_well: well };
                item.error = Some(seq);
            }
        }
        if !items.failed.contains(&index) {
            self.items.remove(key);
            self.frames.remove(key);
            self.scopes.remove(key);
        }
        self.more_items(&at);
        true
    }

    fn items_over(&mut self, at: &Address) {
        let Some(live) = self.live.get_mut(at) else { return };
        let Some(items) = &live.items else { return };
        if items.are_over() && live.phase == Phase::Items {
            live.phase = Phase::Collecting;
            // It reads what the items left.
            live.as_of = self.last;
            self.commands.extend(self.outstanding_of(at, None));
        }
    }

    pub(super) fn collect(&self, at: &Address) -> Option<Command> {
        let items = self.live.get(at)?.items.as_ref()?;
        let (list, counts, rules) = (items.list, items.counts(), items.rules);
        Some(Command::Collect { task: self.task(at)?, list, counts, rules })
    }

    /// The items that failed are done again.
    pub(super) fn reopen_items(&mut self, at: &Address) {
        let Some(items) = self.live.get_mut(at).and_then(|live| live.items.as_mut()) else { return };
        items.again = std::mem::take(&mut items.failed);
        self.more_items(at);
    }

    /// What a run that goes on measures begins anew: the time it lay still is nobody's.
    pub(super) fn time_begins_anew(&mut self, before: Millis) {
        let now = self.time;
        self.walk_waited(now.saturating_sub(before).max(0));
        for item in self.items.values_mut() {
            item.began = now;
        }
        for live in self.live.values_mut() {
            live.began = now;
        }
    }
}

/// What is known of an item whose steps are through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemEnding {
    /// Which item, from 0.
    pub index: u64,
    /// Who ran it, from 0.
    pub runner: u64,
    /// Whether its steps did well.
    pub well: bool,
    /// What the last step that was executed left; of an item that failed, the step that failed.
    pub output: Option<Seq>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Attempts of it that do not count: those before a resume after a failure.
    pub base: u32,
    /// When this attempt began.
    pub began: Millis,
    /// What holds for it.
    pub rules: Rules,
}

/// Whether the items of a step failed and were let fail.
pub(super) fn let_fail(live: &Live) -> bool {
    !live.failed && live.items.as_ref().is_some_and(Items::has_failed)
}
