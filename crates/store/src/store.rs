//! The store: which process may append to which run, and what must be on disk at which time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use threadline_engine::execute::Durability;

use crate::error::StoreError;
#[cfg(feature = "testing")]
use crate::fault::{FaultHook, Faults};
use crate::location::{JournalLocation, LeaseHold, MemoryDisk, locked};
use crate::names::{Hash, RunId, Seq};
use crate::project_locks::{LockConflict, LockRequest, ProjectLocks};
use crate::queue::{LeasedRun, Queue, StoreStats, WriteJob};
use crate::reader::JournalReader;
use crate::replica::ReplicaCell;
use crate::spool_folder::SpoolFolder;
use crate::stored_event::{EventDraft, NewRun, RunHead};
use crate::value::{self, Spool};
use crate::writer::JournalWriter;

/// The maximum size of an append, in bytes. Larger values are stored by hash.
const MAX_APPEND: usize = 64 << 20;

/// How a store writes. Programs use the default; tests inject faults.
pub struct StoreOptions {
    /// The maximum number of appends in one commit. With 1, the same appends make the same commits.
    pub group: usize,
    /// The maximum time before an append that is not urgent is written.
    pub later: Duration,
    /// Called before and after every commit.
    #[cfg(feature = "testing")]
    pub fault: Option<FaultHook>,
    /// The maximum size of the journal in pages, to simulate a full disk.
    pub max_pages: Option<u32>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            group: 256,
            later: Duration::from_millis(5),
            #[cfg(feature = "testing")]
            fault: None,
            max_pages: None,
        }
    }
}

/// A journal that this process may write. Dropping it writes everything that is still in the queue.
pub struct Store {
    pub(crate) location: JournalLocation,
    /// None in memory.
    spool_folder: Option<Arc<SpoolFolder>>,
    reader: JournalReader,
    pub(crate) queue: Arc<Queue>,
    replica: ReplicaCell,
    writer: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens the journal in a folder, which is created if it does not exist. Several processes may have it open.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, StoreOptions::default())
    }

    /// Opens the journal in a folder with options.
    pub fn open_with(folder: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let (location, spool_folder) = JournalLocation::create(folder)?;
        Self::at(location, Some(spool_folder), options)
    }

    /// Opens a journal in memory. Everything that was written is there when the same disk is opened again.
    pub fn in_memory(disk: &MemoryDisk, options: StoreOptions) -> Result<Self, StoreError> {
        Self::at(JournalLocation::Memory(disk.clone()), None, options)
    }

    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::needless_pass_by_value, reason = "tests pass a hook in it")
    )]
    fn at(
        location: JournalLocation,
        spool_folder: Option<SpoolFolder>,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let connection = location.open_for_writing()?;
        if let Some(pages) = options.max_pages {
            locked(&connection).pragma_update(None, "max_page_count", pages)?;
        }
        let queue = Arc::new(Queue::new(options.group, options.later));
        let spool_folder = spool_folder.map(Arc::new);
        let reader = JournalReader::at(location.clone())?;
        let replica = ReplicaCell::default();
        let writer = JournalWriter {
            connection,
            log: location.log_file()?,
            queue: queue.clone(),
            spool_folder: spool_folder.clone(),
            replica: replica.clone(),
            #[cfg(feature = "testing")]
            faults: Faults::new(options.fault),
        };
        let writer = thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run());
        let writer = writer.map_err(|error| StoreError::Io { what: error.to_string() })?;
        Ok(Self { location, spool_folder, reader, queue, replica, writer: Some(writer) })
    }

    /// Where the run is kept that is kept elsewhere, too.
    pub(crate) fn replica(&self) -> &ReplicaCell {
        &self.replica
    }

    /// The reader of this journal.
    pub fn reader(&self) -> &JournalReader {
        &self.reader
    }

    /// Adds a run and takes the right to drive it. The run is on disk when this returns.
    pub fn create_run(&self, run: NewRun) -> Result<Lease, StoreError> {
        let hold = self.location.hold(&run.id)?;
        let (id, root, head) = (run.id.clone(), run.root(), RunHead::of(&run));
        let cell = Arc::new(OnceLock::new());
        let position = self.queue.push(WriteJob::Run { run, number: cell.clone() }, Durability::Now)?;
        self.queue.wait(position)?;
        match cell.get() {
            Some(&number) => Ok(self.lease_run(hold, id, number, root, head)),
            None => Err(StoreError::RunExists { run: id }),
        }
    }

    /// Takes the right to drive a run of the journal.
    pub fn lease(&self, run: &RunId) -> Result<Lease, StoreError> {
        // The row is read under the lock, so that no process appends in between.
        let hold = self.location.hold(run)?;
        let row = self.reader.row(run)?;
        Ok(self.lease_run(hold, run.clone(), row.number, row.run.root(), row.head))
    }

    /// Takes all locks that a run wants, or none. If the process of another run died with its locks, `died` is called with
    /// that run before its locks are released, while no process can resume it.
    pub fn lock(
        &self,
        request: &LockRequest,
        died: impl FnMut(&RunId),
    ) -> Result<Result<ProjectLocks, Box<LockConflict>>, StoreError> {
        self.location.lock(request, died)
    }

    fn lease_run(&self, hold: LeaseHold, id: RunId, number: i64, root: Hash, head: RunHead) -> Lease {
        let run = LeasedRun::new(id, number, root, head.events);
        Lease {
            queue: self.queue.clone(),
            run: Arc::new(run),
            state: Mutex::new(LeaseState { head, position: 0 }),
            _hold: hold,
        }
    }

    /// Stores a value once and returns its hash, which events that are appended afterwards may name.
    pub fn put_value(&self, bytes: Vec<u8>) -> Result<Hash, StoreError> {
        value::put(self.spool(), bytes)
    }

    /// Stores a text, such as that of a workflow file, as a value.
    pub fn put_text(&self, text: &str) -> Result<Hash, StoreError> {
        self.put_value(text.as_bytes().to_vec())
    }

    /// Waits until the values that were stored by now can be read.
    pub fn wait_for_values(&self) -> Result<(), StoreError> {
        self.queue.wait_all()
    }

    /// A value that will be written piece by piece.
    pub fn spool(&self) -> Spool {
        let (location, folder) = (self.location.clone(), self.spool_folder.clone());
        Spool::new(location, folder, self.queue.clone(), self.replica.clone())
    }

    /// The folder for files that only this process and its children use. No other process removes anything in it while
    /// this store is open; afterwards it is gone.
    pub fn spool_folder(&self) -> PathBuf {
        self.spool_folder.as_ref().map_or_else(std::env::temp_dir, |folder| folder.path().to_owned())
    }

    /// Tells this store from all others, also from a copy of it. It stays the same when the store is moved.
    pub fn identity(&self) -> Result<String, StoreError> {
        self.location.identity()
    }

    /// What this store has written so far.
    pub fn stats(&self) -> StoreStats {
        self.queue.stats()
    }

    /// Writes everything that is still in the queue. Fails if anything could not be written.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.stop();
        self.queue.failure().map_or(Ok(()), Err)
    }

    fn stop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has woken every thread that waits.
            let _ = writer.join();
            if let Some(StoreError::Vanished { .. }) = self.queue.failure() {
                self.reader.leave_open();
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The right to append to one run. Dropping it waits until everything that was appended is on disk, then gives the right
/// back.
pub struct Lease {
    queue: Arc<Queue>,
    run: Arc<LeasedRun>,
    state: Mutex<LeaseState>,
    _hold: LeaseHold,
}

/// The end of the run as it will be when everything appended is on disk.
struct LeaseState {
    head: RunHead,
    /// The position of the last job in the queue.
    position: u64,
}

impl Lease {
    /// The id of the run.
    pub fn run(&self) -> &RunId {
        &self.run.id
    }

    /// The number of the next event.
    pub fn next_seq(&self) -> Seq {
        locked(&self.state).head.events + 1
    }

    /// Appends events. They are numbered at once, and written together, after everything that was appended before.
    pub fn append(&self, drafts: Vec<EventDraft>, durability: Durability) -> Result<Ticket, StoreError> {
        let bytes = drafts.iter().map(EventDraft::bytes).sum();
        if bytes > MAX_APPEND {
            return Err(StoreError::TooLarge { bytes, limit: MAX_APPEND });
        }
        // Held until the job is in the queue: the order of numbers is the order of writing.
        let mut state = locked(&self.state);
        let first = state.head.events + 1;
        let (head, events) = chain(&state.head, drafts);
        let last = head.events;
        if !events.is_empty() {
            let job = WriteJob::Events { run: self.run.clone(), events, head: head.clone() };
            state.position = self.queue.push(job, durability)?;
            state.head = head;
        }
        Ok(Ticket { queue: self.queue.clone(), position: state.position, first, last })
    }

    /// Waits until the run is on disk up to this event.
    pub fn wait_synced(&self, seq: Seq) -> Result<(), StoreError> {
        let position = self.position_of(seq)?;
        self.queue.wait_synced(&self.run, seq, position)
    }

    /// Waits until the run is written up to this event: nothing that happens to this process takes it away.
    pub fn wait_written(&self, seq: Seq) -> Result<(), StoreError> {
        let position = self.position_of(seq)?;
        self.queue.wait_written(&self.run, seq, position)
    }

    /// Waits until an event is written, without making it urgent: for observers.
    pub fn wait_written_patiently(&self, seq: Seq) -> Result<(), StoreError> {
        self.position_of(seq)?;
        self.queue.wait_written(&self.run, seq, 0)
    }

    /// Waits until an event is on disk, without making it urgent: for observers.
    pub fn wait_patiently(&self, seq: Seq) -> Result<(), StoreError> {
        self.position_of(seq)?;
        self.queue.wait_patiently(&self.run, seq)
    }

    /// A position in the queue up to which an event is written.
    fn position_of(&self, seq: Seq) -> Result<u64, StoreError> {
        let state = locked(&self.state);
        if seq > state.head.events {
            return Err(StoreError::NoSuchEvent { run: self.run.id.clone(), seq });
        }
        Ok(state.position)
    }
}

/// Chains drafts to the end of a run, and returns the new end.
fn chain(end: &RunHead, drafts: Vec<EventDraft>) -> (RunHead, Vec<(EventDraft, Hash)>) {
    let mut head = end.clone();
    let chained = drafts.into_iter().map(|draft| {
        head.advance(&draft);
        (draft, head.hash)
    });
    let events = chained.collect();
    (head, events)
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The process that drives the run next must find all of it, as far as it could be written.
        let position = locked(&self.state).position;
        let _ = self.queue.wait(position);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("run", &self.run.id).finish_non_exhaustive()
    }
}

/// Events on their way to the disk.
#[derive(Clone)]
pub struct Ticket {
    queue: Arc<Queue>,
    position: u64,
    first: Seq,
    last: Seq,
}

impl Ticket {
    /// The number of the first event.
    pub fn first(&self) -> Seq {
        self.first
    }

    /// The number of the last event.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Waits until the events are on disk. Nothing may act upon them before this succeeds.
    pub fn wait(&self) -> Result<(), StoreError> {
        self.queue.wait(self.position)
    }

    /// Whether the events are on disk.
    pub fn is_done(&self) -> bool {
        self.queue.is_done(self.position)
    }
}
