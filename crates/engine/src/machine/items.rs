//! The items of a `foreach` or a map: which begin, what becomes of those that fail, and when all are over.
//!
//! An item that did well leaves nothing in the machine. One that failed stays, so that it can be done again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use threadline_flow::model::{Action, DEFAULT_JOBS, ItemPool};
use threadline_flow::plan::Part;

use super::{
    ActiveStep, Applied, Command, Counts, ItemEnding, Machine, Mismatch, NameTable, Pause, StepStage, Task,
    find, find_mut,
};
use crate::event::{Address, Event, EventKind, ItemEnded, Millis, Rules, SafeEvents, Seq, Status};
use crate::view::ItemRef;

/// So many items of a list may have ended without being on disk when another one begins. That is more than end while
/// the disk is synced once, so nobody waits for it in general.
pub(crate) const ENDS_AHEAD: usize = 16;

/// The items of a list.
pub(super) struct ItemQueue {
    pub(super) list: Seq,
    pub(super) count: u64,
    parallel: u64,
    /// What else bounds how many run at once.
    pool: ItemPool,
    /// Whether its items do something in the world, so that it matters how many a crash repeats.
    acts: bool,
    /// The ends of the last items, in order: so many need not be on disk before another item begins.
    last_ends: VecDeque<Seq>,
    /// The last end that has to be on disk before another item begins.
    settled: Seq,
    pub(super) rules: Rules,
    next: u64,
    /// The items that belong to the slice of the run that is read, in order, and have not begun; none if all do.
    chosen: Option<VecDeque<u64>>,
    /// Those that failed and are to be done again.
    again: BTreeSet<u64>,
    running: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    successful: u64,
    skipped: u64,
    /// Numbers of runners that are free, below those that were ever given.
    free: BTreeSet<u64>,
    given: u64,
    /// When it began, moved by the time in which nobody worked on it.
    since: Millis,
    /// When it was over, until it goes on.
    over: Option<Millis>,
    /// Whether no further item begins, because the run has no time left.
    halted: bool,
}

impl ItemQueue {
    fn new(list: Seq, count: u64, parallel: u64, rules: Rules, since: Millis) -> Self {
        let (again, running, failed, free) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let parallel = parallel.max(1);
        Self {
            list,
            count,
            parallel,
            pool: ItemPool::Own,
            acts: false,
            last_ends: VecDeque::new(),
            settled: list,
            rules,
            next: 0,
            chosen: None,
            again,
            running,
            failed,
            successful: 0,
            skipped: 0,
            free,
            given: 0,
            since,
            over: None,
            halted: false,
        }
    }

    /// The run goes on: the time since its last event, or since the list was over, does not count.
    fn skip_pause(&mut self, last: Millis, now: Millis) {
        let still_since = self.over.take().unwrap_or(last);
        self.since = self.since.saturating_add(now.saturating_sub(still_since).max(0));
    }

    /// The next item that may begin.
    fn take(&mut self) -> Option<u64> {
        if let Some(chosen) = &mut self.chosen {
            // When the others make room for them is not known.
            let index = self.again.pop_first().or_else(|| chosen.pop_front())?;
            self.running.insert(index);
            return Some(index);
        }
        let room = (self.running.len() as u64) < self.parallel;
        if !room || self.ends_early() {
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
        let have_begun = match &self.chosen {
            Some(chosen) => chosen.is_empty(),
            None => self.next >= self.count,
        };
        let none_left = have_begun && self.again.is_empty();
        self.running.is_empty() && (none_left || self.ends_early())
    }

    /// Whether no further item begins: too many failed, or the run has no time left.
    fn ends_early(&self) -> bool {
        self.halted || self.rules.stops_after(self.failed.len() as u64)
    }

    pub(super) fn is_halted(&self) -> bool {
        self.halted
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// An item is over with this event.
    fn note_end(&mut self, seq: Seq) {
        self.last_ends.push_back(seq);
        if self.last_ends.len() > ENDS_AHEAD {
            self.settled = self.last_ends.pop_front().unwrap_or(self.settled);
        }
    }

    /// The list goes on because of this event, such as the end of the item before that around it: nothing of it begins
    /// before that is on disk, and with it all ends of its own.
    fn go_on(&mut self, seq: Seq) {
        self.last_ends.clear();
        self.settled = seq;
    }

    fn counts(&self) -> Counts {
        let failed = self.failed.len() as u64;
        Counts { total: self.count, successful: self.successful, failed, skipped: self.skipped }
    }
}

/// The items of all lists that share the jobs of the run.
pub(super) struct JobPool {
    /// So many are under way at most.
    most: u64,
    /// The same before the run was resumed with another number.
    declared: u64,
    running: u64,
    /// The lists that had no room for an item, in the order in which they began.
    waiting: BTreeMap<Seq, Address>,
}

impl JobPool {
    pub(super) fn new(jobs: Option<u64>) -> Self {
        let most = jobs.unwrap_or(DEFAULT_JOBS).max(1);
        Self { most, declared: most, running: 0, waiting: BTreeMap::new() }
    }

    fn has_room(&self) -> bool {
        self.running < self.most
    }
}

/// An item that is under way, or that failed.
pub(super) struct ActiveItem {
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
    stage: ItemProgress,
    /// The event that says why the attempt before failed.
    pub(super) error: Option<Seq>,
    /// Whether a step in it failed because it was running when Threadline was killed.
    has_crash: bool,
    /// Whether a step in it did anything in this run.
    pub(super) has_acted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemProgress {
    Running,
    /// Its steps are through.
    Ending {
        succeeded: bool,
        output: Option<Seq>,
    },
    Waiting(Pause),
    /// It failed; whether all its steps did well.
    Failed {
        steps_succeeded: bool,
    },
}

impl ActiveItem {
    /// The event that says why the item failed although all its steps did well.
    pub(super) fn failed_on_its_own(&self) -> Option<Seq> {
        self.error.filter(|_| self.stage == ItemProgress::Failed { steps_succeeded: true })
    }
}

impl Machine {
    pub(super) fn expanded(
        &mut self,
        at: &Address,
        seq: Seq,
        count: u64,
        parallel: u64,
        rules: Rules,
    ) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        active.stage = StepStage::Items;
        let acts = self.plan.part(active.step, Part::Do).is_some_and(|list| self.plan.acts(list));
        let chosen = self.slice.as_ref().and_then(|slice| slice.items_of(at, count)).map(VecDeque::from);
        let pool = match &self.plan.steps[active.step as usize].step.action {
            Action::ForEach(each) => each.pool,
            _ => ItemPool::Own,
        };
        let parallel = if pool == ItemPool::Around { parallel.min(self.pool.most) } else { parallel };
        let items = ItemQueue::new(seq, count, parallel, rules, self.time);
        active.items = Some(ItemQueue { pool, acts, chosen, ..items });
        self.more_items(at)
    }

    /// Begins as many items as may run, or ends the matter.
    pub(super) fn more_items(&mut self, at: &Address) -> Applied {
        let is_out_of_time = self.is_out_of_time(at);
        find_mut(&mut self.active, at)?.items_mut()?.halted |= is_out_of_time;
        while let Some(index) = self.take_item(at)? {
            self.begin_item(at, index)?;
        }
        self.items_over(at)
    }

    /// The next item of a list that begins, if there is room for it.
    fn take_item(&mut self, at: &Address) -> Applied<Option<u64>> {
        let items = find_mut(&mut self.active, at)?.items_mut()?;
        if items.pool != ItemPool::Jobs {
            return Ok(items.take());
        }
        // When the items outside of a slice make room is not known.
        if self.slice.is_none() && !self.pool.has_room() {
            self.pool.waiting.insert(items.list, at.clone());
            return Ok(None);
        }
        let index = items.take();
        self.pool.running += u64::from(index.is_some());
        Ok(index)
    }

    /// Begins items of lists that share the jobs of the run, in the order of the lists, as long as there is room.
    fn begin_waiting(&mut self) -> Applied {
        while self.pool.has_room()
            && let Some((_, at)) = self.pool.waiting.pop_first()
        {
            if self.active.get(&at).is_some_and(|active| active.items.is_some()) {
                self.more_items(&at)?;
            }
        }
        Ok(())
    }

    /// From now on so many items are under way at most in lists that share the jobs of the run.
    pub(super) fn set_jobs(&mut self, jobs: Option<u64>) -> Applied {
        self.pool.most = jobs.unwrap_or(self.pool.declared);
        self.begin_waiting()
    }

    fn begin_item(&mut self, at: &Address, index: u64) -> Applied {
        let items = find_mut(&mut self.active, at)?.items_mut()?;
        let (list, parallel, runner) = (items.list, items.parallel, items.runner());
        let key = at.item(index);
        let now = self.last;
        let earlier = self.items.remove(&key);
        let item = ActiveItem {
            owner: at.clone(),
            index,
            runner,
            attempt: earlier.as_ref().map_or(1, |item| item.attempt.saturating_add(1)),
            base: earlier.as_ref().map_or(0, |item| item.attempt),
            began: self.time,
            as_of: now,
            stage: ItemProgress::Running,
            error: earlier.as_ref().and_then(|item| item.error),
            has_crash: false,
            has_acted: false,
        };
        self.items.insert(key.clone(), item);
        match earlier.map(|item| item.stage) {
            // What it had done is there, and it goes on where it failed.
            Some(ItemProgress::Failed { steps_succeeded: false }) if !self.in_worktree(at)? => {
                self.reopen(&key)
            }
            Some(_) => self.open_item(at, ItemRef { list, index }),
            None => {
                // Items side by side depend on the event with their list and not on each other; how long they wait
                // for the ends of others is in `earlier_ends`. One after the other they begin when the one before is
                // on disk.
                self.last = if parallel > 1 { list } else { now };
                let opened = self.open_item(at, ItemRef { list, index });
                self.last = now;
                opened
            }
        }
    }

    /// Opens the steps of an item from their beginning.
    fn open_item(&mut self, at: &Address, item: ItemRef) -> Applied {
        let active = find(&self.active, at)?;
        let step = active.step;
        let parent = find(&self.frames, &active.frame)?.scope.clone();
        let key = at.item(item.index);
        self.drop_lists(&key);
        let scope = NameTable { parent: Some(parent), item: Some(item), ..NameTable::default() };
        self.scopes.insert(key.clone(), scope);
        let list = self.plan.part(step, Part::Do);
        let list = list.ok_or_else(|| Mismatch::new(format!("`{at}` has no steps for its items")))?;
        self.open(&key, list, Some((at.clone(), Part::Do, Some(item.index))), key.clone(), None)
    }

    /// What has to be safe of the ends of other items before an item that acts begins with this step: that of the item
    /// whose place it takes is written, so that a kill repeats no more items than run at once, and of all others only
    /// the last few need not be on disk, so that a power loss repeats no more than those besides.
    pub(super) fn earlier_ends(&self, step: &ActiveStep) -> SafeEvents {
        let item_of = || {
            let (owner, _, index) = self.frames.get(&step.frame)?.owner.as_ref()?;
            let items = self.active.get(owner)?.items.as_ref()?;
            let begins = items.acts && items.parallel > 1 && step.as_of == items.list;
            let item = self.items.get(&owner.item((*index)?)).filter(|_| begins)?;
            Some(SafeEvents { written: item.as_of, durable: items.settled })
        };
        item_of().unwrap_or_default()
    }

    /// A step that may not run twice was cut off by a crash: nothing around it begins again by itself.
    pub(super) fn crashed(&mut self, at: &Address) {
        for key in at.items_around() {
            if let Some(item) = self.items.get_mut(&key) {
                item.has_crash = true;
            }
        }
    }

    /// Whether what the steps of an item left is in a worktree, which does not outlive a failure.
    fn in_worktree(&self, at: &Address) -> Applied<bool> {
        let step = find(&self.active, at)?.step;
        let action = &self.plan.steps[step as usize].step.action;
        Ok(matches!(action, Action::ForEach(each) if each.worktree))
    }

    /// The steps of an item are through, well or not.
    pub(super) fn item_steps_done(
        &mut self,
        at: &Address,
        index: u64,
        output: Option<Seq>,
        succeeded: bool,
    ) -> Applied {
        let key = at.item(index);
        let item = find_mut(&mut self.items, &key)?;
        item.stage = ItemProgress::Ending { succeeded, output };
        item.as_of = self.last;
        self.command_item(&key)
    }

    /// What is to be done next with an item.
    pub(super) fn outstanding_item(&self, key: &Address) -> Applied<Option<Command>> {
        let item = find(&self.items, key)?;
        // The items of a list that is over stay, so that they can be done again.
        let Some(active) = self.active.get(&item.owner) else { return Ok(None) };
        let task = Task { at: key.clone(), step: active.step, as_of: item.as_of };
        Ok(match item.stage {
            ItemProgress::Running | ItemProgress::Failed { .. } => None,
            ItemProgress::Waiting(pause) => Some(Command::Wait { task, pause }),
            ItemProgress::Ending { succeeded, output } => Some(Command::EndItem {
                task,
                ending: ItemEnding {
                    index: item.index,
                    runner: item.runner,
                    succeeded,
                    output,
                    attempt: item.attempt,
                    base: item.base,
                    began: item.began,
                    has_crash: item.has_crash,
                    is_kept: self.continuation.is_some() && !item.has_acted,
                    rules: active.items()?.rules,
                    limit: self.limit(&active.frame),
                },
            }),
        })
    }

    /// Asks for what is to be done next with an item.
    fn command_item(&mut self, key: &Address) -> Applied {
        let next = self.outstanding_item(key)?;
        self.commands.extend(next);
        Ok(())
    }

    /// The pause before another attempt of an item is over.
    pub(super) fn item_after_pause(&self, key: &Address) -> Option<Command> {
        let item = self.items.get(key)?;
        let step = self.active.get(&item.owner)?.step;
        let task = Task { at: key.clone(), step, as_of: item.as_of };
        let attempt = item.attempt.saturating_add(1);
        matches!(item.stage, ItemProgress::Waiting(_)).then_some(Command::BeginItem { task, attempt })
    }

    /// An item failed and begins again later.
    pub(super) fn item_retrying(&mut self, key: &Address, until: Millis) -> Applied {
        let (now, seq) = (self.time, self.last);
        let item = find_mut(&mut self.items, key)?;
        if !matches!(item.stage, ItemProgress::Ending { .. }) {
            return Err(not_at_end());
        }
        item.stage = ItemProgress::Waiting(Pause { since: now, until });
        item.error = Some(seq);
        item.as_of = seq;
        self.drop_lists(key);
        self.command_item(key)
    }

    /// An item begins again.
    pub(super) fn item_begun(&mut self, key: &Address, attempt: u32) -> Applied {
        let (now, seq) = (self.time, self.last);
        let item = find_mut(&mut self.items, key)?;
        if !matches!(item.stage, ItemProgress::Waiting(_)) || attempt != item.attempt.saturating_add(1) {
            return Err(Mismatch::new("the item does not wait for this attempt".to_owned()));
        }
        item.stage = ItemProgress::Running;
        item.attempt = attempt;
        item.began = now;
        item.as_of = seq;
        let (owner, index) = (item.owner.clone(), item.index);
        let list = find(&self.active, &owner)?.items()?.list;
        self.open_item(&owner, ItemRef { list, index })
    }

    /// An item is over.
    pub(super) fn item_ended(&mut self, key: &Address, ended: &ItemEnded) -> Applied {
        let seq = self.last;
        let item = find_mut(&mut self.items, key)?;
        let ItemProgress::Ending { succeeded, .. } = item.stage else { return Err(not_at_end()) };
        let (at, index, runner) = (item.owner.clone(), item.index, item.runner);
        let items = find_mut(&mut self.active, &at)?.items_mut()?;
        items.running.remove(&index);
        items.free.insert(runner);
        if items.pool == ItemPool::Jobs {
            self.pool.running = self.pool.running.saturating_sub(1);
        }
        items.note_end(seq);
        match ended.status {
            Status::Completed => items.successful += 1,
            Status::Skipped => items.skipped += 1,
            Status::Failed | Status::Cancelled => {
                items.failed.insert(index);
                item.stage = ItemProgress::Failed { steps_succeeded: succeeded };
                item.error = Some(seq);
            }
        }
        if !items.failed.contains(&index) {
            self.items.remove(key);
            self.frames.remove(key);
            self.scopes.remove(key);
        }
        self.begin_waiting()?;
        self.more_items(&at)
    }

    fn items_over(&mut self, at: &Address) -> Applied {
        let active = find_mut(&mut self.active, at)?;
        if active.items()?.are_over() && active.stage == StepStage::Items {
            active.stage = StepStage::Collecting;
            active.items_mut()?.over = Some(self.time);
            // It reads what the items left.
            active.as_of = self.last;
            self.command(at)?;
        }
        Ok(())
    }

    pub(super) fn collect(&self, at: &Address) -> Applied<Command> {
        let active = find(&self.active, at)?;
        let items = active.items()?;
        let ItemQueue { list, rules, since, halted, .. } = *items;
        let counts = items.counts();
        // What was cut off, or did not begin, because the run has no time left is not let fail.
        let is_cut_short = halted && counts.failed + counts.left() > 0;
        let cut_short = self.run_limit(&active.frame).filter(|_| is_cut_short);
        Ok(Command::Collect { task: active.task(at), list, counts, rules, since, cut_short })
    }

    /// The items that failed are done again.
    pub(super) fn reopen_items(&mut self, at: &Address) -> Applied {
        let last = self.last;
        let items = find_mut(&mut self.active, at)?.items_mut()?;
        items.again = std::mem::take(&mut items.failed);
        items.halted = false;
        items.go_on(last);
        self.more_items(at)
    }

    /// What a run that goes on measures begins anew: the time it lay still is nobody's.
    pub(super) fn time_begins_anew(&mut self, before: Millis) {
        let now = self.time;
        self.shift_loop_clock(now.saturating_sub(before));
        self.run_end.shift(now.saturating_sub(before));
        for item in self.items.values_mut() {
            item.began = now;
        }
        for active in self.active.values_mut() {
            active.began = now;
        }
        let active = self.active.values_mut().filter_map(|active| active.items.as_mut());
        let retryable = self.retryable_lists.values_mut().filter_map(|list| list.active.items.as_mut());
        for items in active.chain(retryable) {
            items.skip_pause(before, now);
        }
    }
}

impl Machine {
    /// How many items are failed: those whose last attempt failed, as long as nothing around them begins again.
    pub fn failed_items(&self) -> u64 {
        self.failed_items.values().map(|items| items.len() as u64).sum()
    }

    /// Keeps the items that are failed after an event.
    pub(super) fn note_failed_items(&mut self, event: &Event) {
        let (at, failed) = (&event.at, &mut self.failed_items);
        match &event.kind {
            EventKind::Expanded { .. } => {
                failed.remove(at);
                at.remove_items_from(failed);
            }
            EventKind::ItemRetrying { .. } | EventKind::ItemBegun { .. } => at.remove_lists_from(failed),
            EventKind::ItemEnded(ended) => {
                let Some((owner, index)) = at.as_item() else { return };
                if ended.status == Status::Failed {
                    failed.entry(owner).or_default().insert(index);
                } else if let Some(items) = failed.get_mut(&owner) {
                    items.remove(&index);
                }
            }
            _ => {}
        }
    }
}

fn not_at_end() -> Mismatch {
    Mismatch::new("the item is not at its end".to_owned())
}

/// Whether the items of a step failed and were let fail.
pub(super) fn has_tolerated_failures(active: &ActiveStep) -> bool {
    !active.failed && active.items.as_ref().is_some_and(ItemQueue::has_failed)
}
