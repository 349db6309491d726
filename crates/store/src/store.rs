//! The store: who may append to which run, and what has to be on disk when.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::claims::{Claim, Holding, Taken};
use crate::error::StoreError;
#[cfg(feature = "testing")]
use crate::fault::{FaultHook, Faults};
use crate::names::{Hash, RunId, Seq};
use crate::place::{Hold, MemoryDisk, Place, locked};
use crate::queue::{Driven, Job, Queue, Stats};
use crate::read::Reader;
use crate::record::{Draft, Head, NewRun};
use crate::value::{self, Spool};
use crate::writer::Writer;
use threadline_engine::execute::Durability;

/// The largest append, in bytes; what is larger is stored by hash.
const LARGEST_APPEND: usize = 64 << 20;

/// How a store writes. Programs take the default; tests make faults.
pub struct Options {
    /// How many appends may share one commit. With 1 the commits are the same whenever the appends are.
    pub group: usize,
    /// How long an append that has time may lie before it is written.
    pub later: Duration,
    /// Is asked before and after every commit.
    #[cfg(feature = "testing")]
    pub fault: Option<FaultHook>,
    /// The size in pages beyond which the journal cannot grow, as on a full disk.
    pub max_pages: Option<u32>,
}

impl Default for Options {
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

/// A journal that this process may write. Dropping it writes what is still to be written.
pub struct Store {
    place: Place,
    reader: Reader,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

impl Store {
    /// The journal in this folder, which is created when it is not there. Several processes may have it open.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, Options::default())
    }

    /// The same, with options.
    pub fn open_with(folder: &Path, options: Options) -> Result<Self, StoreError> {
        Self::at(Place::create(folder)?, options)
    }

    /// A journal in memory. What was written is there when the same disk is opened again.
    pub fn in_memory(disk: &MemoryDisk, options: Options) -> Result<Self, StoreError> {
        Self::at(Place::Memory(disk.clone()), options)
    }

    fn at(place: Place, options: Options) -> Result<Self, StoreError> {
        let connection = place.writing()?;
        if let Some(pages) = options.max_pages {
            locked(&connection).pragma_update(None, "max_page_count", pages)?;
        }
        let queue = Arc::new(Queue::new(options.group, options.later));
        let reader = Reader::at(place.clone())?;
        let writer = Writer {
            connection,
            queue: queue.clone(),
            #[cfg(feature = "testing")]
            faults: Faults::new(options.fault),
        };
        let writer = thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run());
        let writer = writer.map_err(|error| StoreError::Io { what: error.to_string() })?;
        Ok(Self { place, reader, queue, writer: Some(writer) })
    }

    /// For reading what was written.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Adds a run and takes the right to drive it. It is on disk when this returns.
    pub fn create_run(&self, run: NewRun) -> Result<Lease, StoreError> {
        let hold = self.place.hold(&run.id)?;
        let (id, root, head) = (run.id.clone(), run.root(), Head::of(&run));
        let cell = Arc::new(OnceLock::new());
        let position = self.queue.push(Job::Run { run, number: cell.clone() }, Durability::Now)?;
        self.queue.wait(position)?;
        match cell.get() {
            Some(&number) => Ok(self.driven(hold, id, number, root, head)),
            None => Err(StoreError::RunExists { run: id }),
        }
    }

    /// Takes the right to drive a run that is there.
    pub fn lease(&self, run: &RunId) -> Result<Lease, StoreError> {
        // The row is read under the lock, so that nobody appends between.
        let hold = self.place.hold(run)?;
        let row = self.reader.row(run)?;
        Ok(self.driven(hold, run.clone(), row.number, row.run.root(), row.head))
    }

    /// Takes what a run is to have for itself, all of it or nothing. Of a run whose process died with a claim, `died`
    /// is told, before that is taken over and while nobody can go on with that run.
    pub fn claim(
        &self,
        claim: &Claim,
        died: impl FnMut(&RunId),
    ) -> Result<Result<Holding, Box<Taken>>, StoreError> {
        self.place.claim(claim, died)
    }

    fn driven(&self, hold: Hold, id: RunId, number: i64, root: Hash, head: Head) -> Lease {
        let run = Driven { id, number, root, synced: AtomicU64::new(head.events) };
        Lease {
            queue: self.queue.clone(),
            run: Arc::new(run),
            state: Mutex::new(LeaseState { head, position: 0 }),
            _hold: hold,
        }
    }

    /// Stores a value once and returns its hash, which events that are appended afterwards may name.
    pub fn put_value(&self, bytes: Vec<u8>) -> Result<Hash, StoreError> {
        value::put(&self.place, &self.queue, bytes)
    }

    /// Stores a text, such as that of a workflow file, as a value.
    pub fn put_text(&self, text: &str) -> Result<Hash, StoreError> {
        self.put_value(text.as_bytes().to_vec())
    }

    /// Waits until the values that were stored by now can be read.
    pub fn wait_for_values(&self) -> Result<(), StoreError> {
        self.queue.wait_all()
    }

    /// A value that is to arrive bit by bit.
    pub fn spool(&self) -> Spool {
        Spool::new(self.place.clone(), self.queue.clone())
    }

    /// What this store has written so far.
    pub fn stats(&self) -> Stats {
        self.queue.stats()
    }

    /// Writes what is still to be written, and says whether everything was.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.stop();
        self.queue.failure().map_or(Ok(()), Err)
    }

    fn stop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has told everybody who waits.
            let _ = writer.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The right to append to one run. Dropping it waits until what was appended is on disk, then gives the right back.
pub struct Lease {
    queue: Arc<Queue>,
    run: Arc<Driven>,
    state: Mutex<LeaseState>,
    _hold: Hold,
}

/// The end of the run as it will be when everything appended is on disk.
struct LeaseState {
    head: Head,
    /// Of the last job in the queue.
    position: u64,
}

impl Lease {
    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run.id
    }

    /// The number that the next event will have.
    pub fn next_seq(&self) -> Seq {
        locked(&self.state).head.events + 1
    }

    /// Appends events. They are numbered at once, and written together, after everything that was appended before.
    pub fn append(&self, drafts: Vec<Draft>, durability: Durability) -> Result<Ticket, StoreError> {
        let bytes = drafts.iter().map(Draft::bytes).sum();
        if bytes > LARGEST_APPEND {
            return Err(StoreError::TooLarge { bytes, limit: LARGEST_APPEND });
        }
        // Held until the job is in the queue: the order of numbers is the order of writing.
        let mut state = locked(&self.state);
        let first = state.head.events + 1;
        let (head, events) = chain(&state.head, drafts);
        let last = head.events;
        if !events.is_empty() {
            let job = Job::Events { run: self.run.clone(), events, head: head.clone() };
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

    /// Waits until an event is on disk, without making it be written sooner: for those who only watch.
    pub fn wait_patiently(&self, seq: Seq) -> Result<(), StoreError> {
        self.position_of(seq)?;
        self.queue.wait_patiently(&self.run, seq)
    }

    /// A position in the queue that an event was appended before.
    fn position_of(&self, seq: Seq) -> Result<u64, StoreError> {
        let state = locked(&self.state);
        if seq > state.head.events {
            return Err(StoreError::NoSuchEvent { run: self.run.id.clone(), seq });
        }
        Ok(state.position)
    }
}

/// Gives each draft its hash, and the run its new end.
fn chain(end: &Head, drafts: Vec<Draft>) -> (Head, Vec<(Draft, Hash)>) {
    let mut head = end.clone();
    let chained = drafts.into_iter().map(|draft| {
        head.events += 1;
        head.hash = draft.chained(&head.hash, head.events);
        (draft, head.hash)
    });
    let events: Vec<_> = chained.collect();
    if let Some((draft, _)) = events.last() {
        head.last_kind.clone_from(&draft.kind);
    }
    let status = events.iter().rev().find_map(|(draft, _)| draft.status.clone());
    head.status = status.unwrap_or_else(|| std::mem::replace(&mut head.status, Cow::Borrowed("")));
    (head, events)
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Whoever drives the run next must find all of it. If it could not be written, they find what could.
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

    /// Waits until the events are on disk. Nothing may be acted upon before this is well.
    pub fn wait(&self) -> Result<(), StoreError> {
        self.queue.wait(self.position)
    }

    /// Whether the events are on disk.
    pub fn is_done(&self) -> bool {
        self.queue.is_done(self.position)
    }
}
