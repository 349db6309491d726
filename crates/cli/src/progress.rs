//! How far a run is: the lists whose items are under way, the steps that run now, the items that failed.
//!
//! It is made of events alone, so that a run that goes on begins with what it had done before. It prints nothing.

use std::collections::{BTreeMap, VecDeque};

use threadline_engine::event::{Address, Event, EventKind, Millis, Output, Seq, Status};

use crate::failed::FailedItems;
use crate::turns::Turns;

/// How fast items are done is measured over about so long, in milliseconds.
const WINDOW: Millis = 10_000;

/// Between two marks of how far a list was lies at least so long.
const BETWEEN_MARKS: Millis = 1_000;

/// How far a run is.
#[derive(Default)]
pub(crate) struct Progress {
    /// The items that failed.
    pub(crate) failed: FailedItems,
    /// The outermost lists, by the step whose they are.
    lists: BTreeMap<Address, List>,
    /// What is under way: items of these lists, and steps outside of them.
    running: BTreeMap<Address, Running>,
    /// How far it is, of a loop.
    pub(crate) turns: Turns,
    /// Whether the run is over.
    ended: bool,
}

/// A list, and how far it is.
pub(crate) struct List {
    /// The step whose items they are.
    pub(crate) at: Address,
    /// The event with the list.
    pub(crate) seq: Seq,
    pub(crate) total: u64,
    pub(crate) parallel: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) stage: ListStage,
    /// When the last line about it was printed, and how many items were done then.
    pub(crate) told: (Millis, u64),
    /// When how many were done; the first is the last that is older than the window.
    marks: VecDeque<(Millis, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListStage {
    Going,
    Over,
    Failed,
}

/// Something that is under way.
pub(crate) struct Running {
    /// When it began.
    pub(crate) since: Millis,
    /// The execution that began last in it; none while it waits for another attempt.
    pub(crate) step: Option<Address>,
}

impl List {
    /// How many are over, well or not.
    pub(crate) fn done(&self) -> u64 {
        self.completed + self.failed + self.skipped
    }

    /// Items in a thousand seconds.
    pub(crate) fn rate(&self, now: Millis) -> Option<u64> {
        let (then, before) = *self.marks.front()?;
        let elapsed = u64::try_from(now - then).ok().filter(|elapsed| *elapsed > 0)?;
        let done = self.done().saturating_sub(before);
        (done > 0).then(|| done.saturating_mul(1_000_000) / elapsed)
    }

    /// How long the rest takes, in milliseconds.
    pub(crate) fn left(&self, now: Millis) -> Option<u64> {
        let rate = self.rate(now).filter(|rate| *rate > 0)?;
        Some(self.total.saturating_sub(self.done()).saturating_mul(1_000_000) / rate)
    }

    fn mark(&mut self, now: Millis) {
        let done = self.done();
        if self.marks.back().is_none_or(|(then, _)| now - then >= BETWEEN_MARKS) {
            self.marks.push_back((now, done));
        }
        while self.marks.get(1).is_some_and(|(then, _)| now - then > WINDOW) {
            self.marks.pop_front();
        }
    }

    /// Items that failed are done again.
    fn again(&mut self, now: Millis) {
        self.failed = 0;
        self.stage = ListStage::Going;
        self.marks.clear();
        self.mark(now);
    }
}

impl Progress {
    /// Takes the next event of the run.
    pub(crate) fn take(&mut self, event: &Event) {
        self.failed.take(event);
        self.turns.take(event);
        let at = &event.at;
        match &event.kind {
            EventKind::Resumed { failed } => self.resumed(event.time, *failed),
            EventKind::Expanded { count, parallel, .. } if !at.is_in_items() => {
                self.running.remove(at);
                self.lists.insert(
                    at.clone(),
                    List {
                        at: event.at.clone(),
                        seq: event.seq,
                        total: *count,
                        parallel: *parallel,
                        completed: 0,
                        failed: 0,
                        skipped: 0,
                        stage: ListStage::Going,
                        told: (event.time, 0),
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
                self.finished(at, output)
            }
            EventKind::Retrying { .. } => {
                self.running.remove(at);
            }
            _ => {}
        }
    }

    /// The lists that are not over.
    pub(crate) fn going(&self) -> impl Iterator<Item = &List> {
        self.lists.values().filter(|list| list.stage == ListStage::Going)
    }

    /// Every outermost list that is known.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &List> {
        self.lists.values()
    }

    /// The list that an item is of, when it is an outermost one.
    pub(crate) fn list_of_item(&mut self, at: &Address) -> Option<&mut List> {
        let (owner, _) = at.as_item()?;
        self.lists.get_mut(&owner)
    }

    /// What is under way, with its name.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Address, &Running)> {
        self.running.iter()
    }

    fn started(&mut self, event: &Event) {
        let step = Some(event.at.clone());
        // Its outermost item, or itself.
        let outer = event.at.items_around().next().unwrap_or_else(|| event.at.clone());
        let running = self.running.entry(outer);
        running.or_insert(Running { since: event.time, step: None }).step = step;
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

    /// What was running when Threadline ended is not; what failed is done again.
    fn resumed(&mut self, now: Millis, failed: bool) {
        let failed = failed && std::mem::take(&mut self.ended);
        self.running.clear();
        for list in self.lists.values_mut() {
            let again = list.stage == ListStage::Failed || failed && list.stage == ListStage::Over;
            if again && list.failed > 0 {
                list.again(now);
            } else {
                // The time it lay still is nobody's.
                list.marks.clear();
                list.mark(now);
            }
            list.told = (now, list.done());
        }
    }
}
