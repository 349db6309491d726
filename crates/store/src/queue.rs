//! The ordered, bounded queue between the threads that append and the one that writes. It never looks into a database.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use threadline_engine::execute::Durability;

use crate::error::StoreError;
use crate::location::locked;
use crate::names::{Hash, RunId, Seq};
use crate::stored_event::{EventDraft, NewRun, RunHead};

/// What a store has written so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The number of transactions.
    pub commits: u64,
    /// Syncs of the log; one makes all transactions before it durable.
    pub syncs: u64,
    /// Moves of the log into the main file; each is two more syncs.
    pub checkpoints: u64,
    /// Events that were written.
    pub events: u64,
    /// Values, whether or not they were stored before. Large ones, which are files, are not counted.
    pub values: u64,
    /// Bytes of the events and values.
    pub bytes: u64,
    /// The maximum number of appends that shared one commit.
    pub largest_group: usize,
}

/// One thing to write.
pub(crate) enum WriteJob {
    Run {
        run: NewRun,
        number: Arc<OnceLock<i64>>,
    },
    Events {
        run: Arc<LeasedRun>,
        events: Vec<(EventDraft, Hash)>,
        head: RunHead,
    },
    Value {
        hash: Hash,
        data: Vec<u8>,
    },
    /// A value that is a file by now. It is said only where it is kept elsewhere, too.
    LargeValue {
        hash: Hash,
        length: u64,
    },
    Change(Box<StoreChange>),
}

/// Makes a change within a transaction.
pub(crate) type ChangeFunction = Box<dyn Fn(&Connection) -> Result<(), StoreError> + Send>;

/// A change of the journal that is not an append: one step of cleaning up.
pub(crate) struct StoreChange {
    /// Whether it changes the page of the mark, so that everything before it has to be on disk.
    pub(crate) is_counted: bool,
    /// Whether the log is to be moved into the main file afterwards.
    pub(crate) ends_with_checkpoint: bool,
    pub(crate) perform: ChangeFunction,
}

/// About how many bytes a change writes.
const CHANGE_BYTES: usize = 1 << 20;

/// A run that this process drives.
pub(crate) struct LeasedRun {
    pub(crate) id: RunId,
    pub(crate) number: i64,
    pub(crate) root: Hash,
    /// The number of the last event that is written.
    pub(crate) written: AtomicU64,
    /// The number of the last event that is on disk.
    pub(crate) synced: AtomicU64,
}

/// What the writer does next.
pub(crate) enum WriterTurn {
    /// Writes these jobs in one transaction.
    Write(Vec<WriteJob>),
    /// Makes everything that is written durable.
    Sync,
}

impl LeasedRun {
    /// A run with this many events, all of them on disk.
    pub(crate) fn new(id: RunId, number: i64, root: Hash, events: Seq) -> Self {
        Self { id, number, root, written: AtomicU64::new(events), synced: AtomicU64::new(events) }
    }
}

impl WriteJob {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Run { run, .. } => run.name.len() + run.file.len(),
            Self::Events { events, .. } => events.iter().map(|(draft, _)| draft.bytes()).sum(),
            Self::Value { data, .. } => data.len(),
            Self::LargeValue { .. } => size_of::<Hash>(),
            Self::Change(_) => CHANGE_BYTES,
        }
    }

    /// Whether it changes the page of the mark.
    pub(crate) fn is_counted(&self) -> bool {
        match self {
            Self::Run { .. } => true,
            Self::Change(change) => change.is_counted,
            Self::Events { .. } | Self::Value { .. } | Self::LargeValue { .. } => false,
        }
    }

    /// Whether the log is to be moved into the main file afterwards.
    pub(crate) fn ends_with_checkpoint(&self) -> bool {
        matches!(self, Self::Change(change) if change.ends_with_checkpoint)
    }
}

/// Bytes after which a group is not made larger, and a producer waits.
const GROUP_BYTES: usize = 8 << 20;

pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer: there is a job.
    work: Condvar,
    /// Wakes producers: there is room again.
    room: Condvar,
    /// Wakes threads that wait until something is written.
    written: Condvar,
    /// Wakes threads that wait until something is on disk.
    synced: Condvar,
    group: usize,
    later: Duration,
}

/// Positions count jobs from the first that was ever pushed.
#[derive(Default)]
struct QueueState {
    jobs: VecDeque<WriteJob>,
    bytes: usize,
    pushed: u64,
    taken: u64,
    written: u64,
    synced: u64,
    /// The jobs up to this position are to be written at once.
    awaits_write: u64,
    /// The jobs up to this position are to be on disk at once.
    awaits_sync: u64,
    /// The jobs up to this position are to be on disk by `due`, though nobody waits.
    settles: u64,
    due: Option<Instant>,
    /// The runs whose last events are written and not on disk.
    unsynced: Vec<Arc<LeasedRun>>,
    /// The last turn of the writer was a write: if both are wanted, they take turns.
    wrote_last: bool,
    /// The writer wakes up by itself in a moment.
    watching: bool,
    closed: bool,
    failure: Option<StoreError>,
    stats: StoreStats,
}

impl Queue {
    /// A queue in which at most `group` jobs share a commit, and a job that nobody waits for is on disk after `later`.
    pub(crate) fn new(group: usize, later: Duration) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            written: Condvar::new(),
            synced: Condvar::new(),
            group: group.max(1),
            later,
        }
    }

    /// Adds a job at the end and returns its position. Waits while the queue is full.
    pub(crate) fn push(&self, job: WriteJob, durability: Durability) -> Result<u64, StoreError> {
        let bytes = job.bytes();
        let mut state = locked(&self.state);
        loop {
            state.check_usable()?;
            if state.jobs.len() < 2 * self.group && state.bytes < 2 * GROUP_BYTES {
                break;
            }
            state = wait(&self.room, state);
        }
        state.jobs.push_back(job);
        state.bytes += bytes;
        state.pushed += 1;
        match durability {
            Durability::Now => state.awaits_sync = state.pushed,
            Durability::Written => state.awaits_write = state.pushed,
            Durability::Later => {
                state.settles = state.pushed;
                state.due.get_or_insert_with(|| Instant::now() + self.later);
            }
        }
        if durability != Durability::Later || !state.watching || self.full(&state) {
            self.work.notify_one();
        }
        Ok(state.pushed)
    }

    /// Waits until the job at this position is on disk.
    pub(crate) fn wait(&self, position: u64) -> Result<(), StoreError> {
        self.wait_for_sync(position, |state| state.synced >= position)
    }

    /// Waits until everything that was pushed by now is on disk.
    pub(crate) fn wait_all(&self) -> Result<(), StoreError> {
        let pushed = locked(&self.state).pushed;
        self.wait(pushed)
    }

    /// Waits until an event is on disk that a job up to `position` holds.
    pub(crate) fn wait_synced(&self, run: &LeasedRun, seq: Seq, position: u64) -> Result<(), StoreError> {
        self.wait_for_sync(position, |_| run.synced.load(Ordering::Acquire) >= seq)
    }

    /// Waits until an event is on disk, without making it urgent.
    pub(crate) fn wait_patiently(&self, run: &LeasedRun, seq: Seq) -> Result<(), StoreError> {
        self.wait_for_sync(0, |_| run.synced.load(Ordering::Acquire) >= seq)
    }

    /// Waits until an event is written that a job up to `position` holds.
    pub(crate) fn wait_written(&self, run: &LeasedRun, seq: Seq, position: u64) -> Result<(), StoreError> {
        let reached = |_: &QueueState| run.written.load(Ordering::Acquire) >= seq;
        self.wait_until(&self.written, position, |state| &mut state.awaits_write, reached)
    }

    /// Waits until all jobs up to `position` are on disk, or less suffices.
    fn wait_for_sync(&self, position: u64, reached: impl Fn(&QueueState) -> bool) -> Result<(), StoreError> {
        self.wait_until(&self.synced, position, |state| &mut state.awaits_sync, reached)
    }

    /// Waits until something is reached, and makes the jobs up to `position` urgent, as `urgent` counts them.
    fn wait_until(
        &self,
        done: &Condvar,
        position: u64,
        urgent: impl Fn(&mut QueueState) -> &mut u64,
        reached: impl Fn(&QueueState) -> bool,
    ) -> Result<(), StoreError> {
        let mut state = locked(&self.state);
        while !reached(&state) {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let awaited = urgent(&mut state);
            if *awaited < position {
                *awaited = position;
                self.work.notify_one();
            }
            state = wait(done, state);
        }
        Ok(())
    }

    /// Whether the job at this position is on disk.
    pub(crate) fn is_done(&self, position: u64) -> bool {
        locked(&self.state).synced >= position
    }

    /// Fails if nothing can be written any more.
    pub(crate) fn check_usable(&self) -> Result<(), StoreError> {
        locked(&self.state).check_usable()
    }

    /// Accepts no more jobs. Those in the queue are still written.
    pub(crate) fn close(&self) {
        locked(&self.state).closed = true;
        self.work.notify_one();
        self.room.notify_all();
    }

    /// Stops writing: every thread that waits or appends gets the failure.
    pub(crate) fn fail(&self, failure: StoreError) {
        let mut state = locked(&self.state);
        state.failure.get_or_insert(failure);
        state.jobs.clear();
        self.room.notify_all();
        self.written.notify_all();
        self.synced.notify_all();
    }

    /// The failure that stopped the writer, if any.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        locked(&self.state).failure.clone()
    }

    pub(crate) fn stats(&self) -> StoreStats {
        locked(&self.state).stats
    }

    /// What the writer does next, as soon as a thread waits for it, a group is full, or its time has come. Returns `None`
    /// if there will be nothing more.
    pub(crate) fn take(&self) -> Option<WriterTurn> {
        let mut state = locked(&self.state);
        loop {
            if state.failure.is_some() {
                return None;
            }
            let rest = state.due.map(|due| due.saturating_duration_since(Instant::now()));
            let is_due = state.closed || rest.is_some_and(|rest| rest.is_zero());
            let is_awaited = state.awaits_sync.max(state.awaits_write) > state.taken;
            let writes = !state.jobs.is_empty() && (is_due || is_awaited || self.full(&state));
            let unsynced = state.written - state.synced;
            // A group that nobody waits for is synced when it is full, as it is written.
            let is_due = is_due || unsynced >= self.group as u64;
            // Whoever waits for what is written already does not wait for those who come behind.
            let is_awaited = state.awaits_sync > state.synced && state.awaits_sync <= state.written;
            if unsynced > 0 && (is_awaited || is_due) && (state.wrote_last || !writes) {
                state.wrote_last = false;
                return Some(WriterTurn::Sync);
            }
            if writes {
                state.wrote_last = true;
                return Some(WriterTurn::Write(self.take_group(&mut state)));
            }
            if state.closed {
                return None;
            }
            match rest.filter(|rest| !rest.is_zero()) {
                None => state = wait(&self.work, state),
                Some(rest) => {
                    // While the writer wakes up by itself, a job that has time need not wake it.
                    state.watching = true;
                    state = self.work.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
                    state.watching = false;
                }
            }
        }
    }

    fn full(&self, state: &QueueState) -> bool {
        state.jobs.len() >= self.group || state.bytes >= GROUP_BYTES
    }

    fn take_group(&self, state: &mut QueueState) -> Vec<WriteJob> {
        let mut group = Vec::with_capacity(self.group.min(state.jobs.len()));
        let mut bytes = 0;
        while group.len() < self.group && bytes < GROUP_BYTES {
            let Some(job) = state.jobs.pop_front() else { break };
            bytes += job.bytes();
            group.push(job);
        }
        state.bytes -= bytes;
        state.taken += group.len() as u64;
        self.room.notify_all();
        group
    }

    /// Marks a group as written.
    pub(crate) fn finish_write(&self, group: &[WriteJob]) {
        let mut state = locked(&self.state);
        for job in group {
            state.stats.bytes += job.bytes() as u64;
            match job {
                WriteJob::Run { .. } | WriteJob::Change(_) | WriteJob::LargeValue { .. } => {}
                WriteJob::Events { run, events, head } => {
                    state.stats.events += events.len() as u64;
                    run.written.store(head.events, Ordering::Release);
                    if !state.unsynced.iter().any(|known| Arc::ptr_eq(known, run)) {
                        state.unsynced.push(run.clone());
                    }
                }
                WriteJob::Value { .. } => state.stats.values += 1,
            }
        }
        state.written += group.len() as u64;
        state.stats.commits += 1;
        state.stats.largest_group = state.stats.largest_group.max(group.len());
        self.written.notify_all();
    }

    /// Marks everything that is written as durable.
    pub(crate) fn finish_sync(&self) {
        let mut state = locked(&self.state);
        for run in std::mem::take(&mut state.unsynced) {
            run.synced.store(run.written.load(Ordering::Acquire), Ordering::Release);
        }
        state.synced = state.written;
        state.due = (state.settles > state.synced).then(|| Instant::now() + self.later);
        state.stats.syncs += 1;
        self.synced.notify_all();
    }

    /// Counts a move of the log into the main file.
    pub(crate) fn count_checkpoint(&self) {
        locked(&self.state).stats.checkpoints += 1;
    }
}

impl QueueState {
    fn check_usable(&self) -> Result<(), StoreError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.closed => Err(StoreError::Closed),
            None => Ok(()),
        }
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}
