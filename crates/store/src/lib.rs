//! The journal: ordered events of runs, and the values in them, in one SQLite file. It never decides anything.
//!
//! A [`Store`] is a journal that this process may write; a [`JournalReader`] reads one. A process drives a run while it
//! has its [`Lease`]. Events are opaque here: a kind, an address, a time and a payload, numbered and chained by hash, so
//! that one that was altered, lost or moved is noticed when it is read.
//!
//! ```
//! use threadline_store::{EventDraft, MemoryDisk, NewRun, StoreOptions, RunId, Store, Durability};
//!
//! # fn main() -> Result<(), threadline_store::StoreError> {
//! let store = Store::in_memory(&MemoryDisk::new()?, StoreOptions::default())?;
//! let run = RunId::new("k3x9-0001")?;
//! let lease = store.create_run(NewRun {
//!     id: run.clone(),
//!     name: "deploy".into(),
//!     file: "deploy.yaml".into(),
//!     started_at: "2026-01-01T00:00:00.000Z".into(),
//! })?;
//!
//! // That a step started is written before it does; a result is on disk before anything uses it.
//! let started = EventDraft::new("started", "2026-01-01T00:00:00.001Z").at("build");
//! lease.append(vec![started], Durability::Written)?;
//! lease.wait_written(1)?;
//! let finished = EventDraft::new("finished", "2026-01-01T00:00:00.002Z").at("build").with(r#"{"value": 85}"#);
//! let ticket = lease.append(vec![finished], Durability::Now)?;
//! assert_eq!((ticket.first(), ticket.last()), (2, 2));
//! ticket.wait()?;
//!
//! let events = store.reader().read(&run, 1)?.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(events[1].payload, r#"{"value": 85}"#);
//! assert_eq!(store.reader().find("k3")?.events, 2);
//! # Ok(())
//! # }
//! ```
//!
//! A write that fails is final: every later append and every wait answers the same error, and nothing may be acted
//! upon. Opening the journal again finds everything that was ever acknowledged. Several processes may have one journal
//! open, each driving runs of its own.

mod error;
#[cfg(feature = "testing")]
mod fault;
mod journal;
mod location;
mod locked_file;
mod log_check;
mod log_file;
mod names;
mod project_locks;
mod queue;
mod reader;
mod removal;
mod replica;
mod schema;
mod spool_folder;
mod store;
mod stored_event;
mod sweep;
mod value;
pub mod wire;
mod writer;

pub use error::StoreError;
#[cfg(feature = "testing")]
pub use fault::{Fault, FaultHook, WritePoint};
pub use journal::{Journal, JournalError};
pub use location::{DrivingProcess, FOLDER, MemoryDisk};
pub use names::{BadHash, Hash, RunId, Seq};
pub use project_locks::{LockConflict, LockRequest, LockTarget, ProjectLocks};
pub use queue::StoreStats;
pub use reader::{EventMark, JournalReader, StartedRuns, StoredEvents};
pub use removal::RunsRemoved;
pub use replica::{
    MemorySegments, ReplicaNotice, ReplicaWatch, SegmentCreation, SegmentEnd, SegmentError, SegmentNumber,
    SegmentStore,
};
pub use store::{Lease, Store, StoreOptions, Ticket};
pub use stored_event::{EventDraft, NewRun, RunInfo, StoredEvent};
pub use sweep::StoreSweep;
pub use threadline_engine::execute::Durability;
pub use value::Spool;
