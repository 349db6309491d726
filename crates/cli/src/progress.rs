//! The progress of a run: its lists, the steps and items that run now, and those that failed.
//!
//! Progress is made of events alone, so a resumed run starts with the progress of its past. Nothing is printed here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use threadline_engine::event::{Address, Event, EventKind, Millis, Output, Seq, Status};
use threadline_engine::replay::Failed;
use threadline_engine::spend::Spend;
use threadline_flow::plan::Plan;

use crate::loop_progress::LoopProgress;
use threadline_inspect::failed_items::FailedItems;

/// The time over which the speed of a list is measured, in milliseconds.
const WINDOW: Millis = 10_000;

/// The minimum time between two measurements of a list, in milliseconds.
const MARK_INTERVAL: Millis = 1_000;

/// The progress of a run.
#[derive(Default)]
pub(crate) struct Progress {
    /// The executions that failed and were neither made good nor tolerated.
    pub(crate) failed_steps: Failed,
    /// The items that failed.
    pub(crate) failed: FailedItems,
    /// The outermost lists, by the step whose items they hold.
    lists: BTreeMap<Address, ListProgress>,
    /// The work that runs now: items of these lists, and steps outside of them.
    running: BTreeMap<Address, RunningWork>,
    /// The progress of a loop.
    pub(crate) turns: LoopProgress,
    /// What the run has spent on agents.
    pub(crate) spent: Spend,
    /// Executions whose agents are not asked for more until a budget or their own limits allow it.
    pub(crate) held: BTreeSet<Address>,
    /// Whether the run is over.
    ended: bool,
}

/// The progress of a list of items.
pub(crate) struct ListProgress {
    /// The step whose items the list holds.
    pub(crate) at: Address,
    /// The event with the list.
    pub(crate) seq: Seq,
    pub(crate) total: u64,
    pub(crate) parallel: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) stage: ListStage,
    /// When the last line about the list was printed, and the number of items that had ended then.
    pub(crate) last_line: (Millis, u64),
    /// The number of items that had ended at some times; the first is the last that is older than the window.
    marks: VecDeque<(Millis, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListStage {
    Going,
    Over,
    Failed,
}

/// An item or a step that runs now.
pub(crate) struct RunningWork {
    /// The time of its start.
    pub(crate) since: Millis,
    /// The execution that started last; `None` while another attempt is waited for.
    pub(crate) step: Option<Address>,
}

impl ListProgress {
    /// The number of items that have ended, in whatever way.
    pub(crate) fn done(&self) -> u64 {
        self.completed + self.failed + self.skipped
    }

    /// The number of items per thousand seconds.
    pub(crate) fn rate(&self, now: Millis) -> Option<u64> {
        let (then, before) = *self.marks.front()?;
        let elapsed = u64::try_from(now - then).ok().filter(|elapsed| *elapsed > 0)?;
        let done = self.done().saturating_sub(before);
        (done > 0).then(|| done.saturating_mul(1_000_000) / elapsed)
    }

    /// The estimated time for the remaining items, in milliseconds.
    pub(crate) fn left(&self, now: Millis) -> Option<u64> {
        let rate = self.rate(now).filter(|rate| *rate > 0)?;
        Some(self.total.saturating_sub(self.done()).saturating_mul(1_000_000) / rate)
    }

    fn mark(&mut self, now: Millis) {
        let done = self.done();
        if self.marks.back().is_none_or(|(then, _)| now - then >= MARK_INTERVAL) {
            self.marks.push_back((now, done));
        }
        while self.marks.get(1).is_some_and(|(then, _)| now - then > WINDOW) {
            self.marks.pop_front();
        }
    }

    /// Failed items are executed again.
    fn restart_failed(&mut self, now: Millis) {
        self.failed = 0;
        self.stage = ListStage::Going;
        self.marks.clear();
        self.mark(now);
    }
}

impl Progress {
    /// Takes the next event of the run.
    pub(crate) fn take(&mut self, plan: &Plan, event: &Event) {
        self.failed_steps.take(plan, event);
        self.failed.take(event);
        self.turns.take(plan, event);
        if let Some(spent) = event.kind.spent() {
            self.spent.add(spent);
        }
        match &event.kind {
            EventKind::Exchanged { held, calls, .. } => {
                if *held || *calls {
                    self.held.insert(event.at.clone());
                } else {
                    self.held.remove(&event.at);
                }
            }
            EventKind::Started { .. } => {
                self.held.remove(&event.at);
            }
            _ => {}
        }
        let at = &event.at;
        match &event.kind {
            EventKind::Resumed { failed, .. } => self.resumed(event.time, *failed),
            EventKind::Expanded { count, parallel, .. } if !at.is_in_items() => {
                self.running.remove(at);
                self.lists.insert(
                    at.clone(),
                    ListProgress {
                        at: event.at.clone(),
                        seq: event.seq,
                        total: *count,
                        parallel: *parallel,
                        completed: 0,
                        failed: 0,
                        skipped: 0,
                        stage: ListStage::Going,
                        last_line: (event.time, 0),
                        marks: VecDeque::from([(event.time, 0)]),
                    },
                );
            }
            EventKind::RunEnded { .. } => self.ended = true,
            EventKind::Started { .. } => self.started(event),
            EventKind::ItemRetrying { .. } => {
                if let Some(running) = self.running.get_mut(at) {
                    running.step = None;
                }
            }
            EventKind::ItemEnded(ended) => self.item_ended(event, ended.status),
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                self.finished(at, output);
            }
            EventKind::Retrying { .. } => {
                self.running.remove(at);
            }
            _ => {}
        }
    }

    /// The lists that have not ended.
    pub(crate) fn active_lists(&self) -> impl Iterator<Item = &ListProgress> {
        self.lists.values().filter(|list| list.stage == ListStage::Going)
    }

    /// Every outermost list.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &ListProgress> {
        self.lists.values()
    }

    /// The list of an item, if it is an outermost one.
    pub(crate) fn list_of_item(&mut self, at: &Address) -> Option<&mut ListProgress> {
        let (owner, _) = at.as_item()?;
        self.lists.get_mut(&owner)
    }

    /// The work that runs now, with its name.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Address, &RunningWork)> {
        self.running.iter()
    }

    fn started(&mut self, event: &Event) {
        let step = Some(event.at.clone());
        let item = event.at.items_around().next().unwrap_or_else(|| event.at.clone());
        let running = self.running.entry(item);
        running.or_insert(RunningWork { since: event.time, step: None }).step = step;
    }

    fn finished(&mut self, at: &Address, output: &Output) {
        if at.is_in_items() {
            return;
        }
        self.running.remove(at);
        if let Some(list) = self.lists.get_mut(at) {
            let well = output.status == Status::Completed;
            list.stage = if well { ListStage::Over } else { ListStage::Failed };
        }
    }

    fn item_ended(&mut self, event: &Event, status: Status) {
        let Some(list) = self.list_of_item(&event.at) else { return };
        match status {
            Status::Completed => list.completed += 1,
            Status::Skipped => list.skipped += 1,
            Status::Failed | Status::Cancelled => list.failed += 1,
        }
        list.mark(event.time);
        self.running.remove(&event.at);
    }

    /// The run was resumed: nothing runs yet, and failed items may be executed again.
    fn resumed(&mut self, now: Millis, failed: bool) {
        let failed = failed && std::mem::take(&mut self.ended);
        self.running.clear();
        for list in self.lists.values_mut() {
            let again = list.stage == ListStage::Failed || failed && list.stage == ListStage::Over;
            if again && list.failed > 0 {
                list.restart_failed(now);
            } else {
                // The time while the run was stopped does not count.
                list.marks.clear();
                list.mark(now);
            }
            list.last_line = (now, list.done());
        }
    }
}
