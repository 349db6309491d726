//! The replica of a run: what the writer writes of it is kept elsewhere first, in numbered segments, so that the loss of
//! this disk loses nothing that was acted upon.
//!
//! A segment holds what one group commit writes of the run and of the runs that it called. It is created under the next
//! number, and never changed: of two processes that drive the same run, one creates it, and the other one stops. Only
//! when it is there is the group written here, and only then is anybody told. So a local journal is never ahead of its
//! segments, and [`Store::import`] can make it anew from them.
//!
//! This module knows neither a network nor where segments are: that is for whoever implements [`SegmentStore`].

mod import;
mod memory;
mod segment;

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::segment::{Segment, SegmentPart};
use crate::error::StoreError;
use crate::location::locked;
use crate::names::{Hash, RunId};
use crate::queue::WriteJob;
use crate::store::Store;

pub use memory::MemorySegments;

/// The number of a segment of a run, from 1.
pub type SegmentNumber = u64;

/// The first pause before a segment is created again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So long nobody is told that segments cannot be kept.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the segments of one run are kept.
pub trait SegmentStore: Send + Sync {
    /// Keeps a segment under a number, unless there is one.
    fn create(&self, number: SegmentNumber, bytes: &[u8]) -> Result<SegmentCreation, SegmentError>;

    /// The segment of a number; none if it is not there.
    fn read(&self, number: SegmentNumber) -> Result<Option<Vec<u8>>, SegmentError>;

    /// The numbers of all segments, in order.
    fn numbers(&self) -> Result<Vec<SegmentNumber>, SegmentError>;

    /// Keeps a large value by its hash. One that is there already stays.
    fn keep_value(&self, hash: &Hash, length: u64, value: &mut dyn Read) -> Result<(), SegmentError>;

    /// Writes a large value. Whoever asks checks it against its hash.
    fn read_value(&self, hash: &Hash, to: &mut dyn Write) -> Result<(), SegmentError>;
}

/// What came of a segment that was to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentCreation {
    /// It is there now.
    Created,
    /// One of that number was there before.
    AlreadyThere,
}

/// Why segments cannot be kept or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentError {
    /// Not now. It is not known whether anything was done.
    Unavailable(String),
    /// What is there is not what was kept.
    Damaged(String),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) | Self::Damaged(why) => f.write_str(why),
        }
    }
}

/// What somebody who watches a replica is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaNotice {
    /// Segments cannot be kept, for this reason; the run waits.
    Waits(String),
    /// They can be kept again.
    GoesOn,
    /// Another process drives the run: this one has lost it.
    Fenced,
}

/// Who watches a replica.
pub struct ReplicaWatch {
    /// A name for this process, which no other process has.
    pub owner: String,
    /// Is told what happens to it.
    pub tell: Box<dyn Fn(ReplicaNotice) + Send + Sync>,
    /// Whether nobody wants to wait any longer until segments can be kept.
    pub gives_up: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The last segment of a run, as far as somebody has seen: the next follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Its number; 0 where there is none.
    pub number: SegmentNumber,
    pub(crate) hash: Hash,
}

impl SegmentEnd {
    /// The end of a run without segments.
    pub fn none() -> Self {
        Self { number: 0, hash: Hash::from_bytes([0; 32]) }
    }
}

/// The replica of the run that a store drives, once there is one: shared by the writer and by whoever stores large values.
pub(crate) type ReplicaCell = Arc<Mutex<Option<Arc<Replica>>>>;

/// The run that is kept elsewhere.
pub(crate) struct Replica {
    run: RunId,
    segments: Arc<dyn SegmentStore>,
    watch: ReplicaWatch,
    end: Mutex<SegmentEnd>,
}

impl Store {
    /// Keeps what is written of a run, and of those that it calls, in segments from now on, behind those that are there
    /// and that were imported. This process owns the run from then on: whoever drove it before stops at the next write. It
    /// fails if another process was faster.
    pub fn replicate(
        &self,
        run: &RunId,
        segments: Arc<dyn SegmentStore>,
        end: SegmentEnd,
        watch: ReplicaWatch,
    ) -> Result<(), StoreError> {
        let replica = Replica { run: run.clone(), segments, watch, end: Mutex::new(end) };
        // It says nothing but that somebody else drives the run now.
        replica.keep(Vec::new())?;
        *locked(self.replica()) = Some(Arc::new(replica));
        Ok(())
    }
}

impl Replica {
    /// Keeps what a group writes of the run. Returns whether that was anything.
    pub(crate) fn ship(&self, group: &[WriteJob]) -> Result<bool, StoreError> {
        let parts: Vec<SegmentPart<'_>> = group.iter().filter_map(|job| self.part(job)).collect();
        if parts.is_empty() {
            return Ok(false);
        }
        self.keep(parts).map(|()| true)
    }

    fn part<'j>(&self, job: &'j WriteJob) -> Option<SegmentPart<'j>> {
        let is_own = |run: &RunId| run.started() == self.run.started();
        match job {
            WriteJob::Run { run, .. } => is_own(&run.id).then_some(SegmentPart::Run(Cow::Borrowed(run))),
            WriteJob::Events { run, events, head } => is_own(&run.id).then(|| SegmentPart::Events {
                run: Cow::Borrowed(&run.id),
                first: head.events + 1 - events.len() as u64,
                events: Cow::Borrowed(events),
            }),
            WriteJob::Value { hash, data } => {
                Some(SegmentPart::Value { hash: *hash, data: Cow::Borrowed(data) })
            }
            WriteJob::LargeValue { hash, length } => {
                Some(SegmentPart::LargeValue { hash: *hash, length: *length })
            }
            WriteJob::Change(_) => None,
        }
    }

    fn keep(&self, parts: Vec<SegmentPart<'_>>) -> Result<(), StoreError> {
        let mut end = locked(&self.end);
        let number = end.number + 1;
        let writer = self.watch.owner.as_str().into();
        let segment = Segment { run: Cow::Borrowed(&self.run), number, writer, before: end.hash, parts };
        let (bytes, hash) = segment.to_bytes();
        self.persist(|| self.create(number, &bytes))?;
        *end = SegmentEnd { number, hash };
        Ok(())
    }

    /// Creates a segment, unless somebody else has.
    fn create(&self, number: SegmentNumber, bytes: &[u8]) -> Result<(), KeepError> {
        match self.segments.create(number, bytes)? {
            SegmentCreation::Created => Ok(()),
            // An attempt that seemed to fail may have made it.
            SegmentCreation::AlreadyThere => match self.segments.read(number)? {
                Some(found) if found == bytes => Ok(()),
                Some(found) => Err(KeepError::Fenced(
                    Segment::read(&found).ok().map(|(segment, _)| segment.writer.into_owned()),
                )),
                None => {
                    Err(SegmentError::Unavailable(format!("segment {number} is there, and cannot be read"))
                        .into())
                }
            },
        }
    }

    /// Keeps a large value, which an event may name afterwards.
    pub(crate) fn keep_value(
        &self,
        hash: &Hash,
        length: u64,
        open: impl Fn() -> Result<std::fs::File, StoreError>,
    ) -> Result<(), StoreError> {
        self.persist(|| {
            let mut file = open().map_err(KeepError::Store)?;
            Ok(self.segments.keep_value(hash, length, &mut file)?)
        })
    }

    /// Tries until it succeeds, or until somebody gives up.
    fn persist(&self, keep: impl Fn() -> Result<(), KeepError>) -> Result<(), StoreError> {
        let (mut pause, mut was_told, since) = (FIRST_PAUSE, false, Instant::now());
        loop {
            let why = match keep() {
                Ok(()) => {
                    if was_told {
                        (self.watch.tell)(ReplicaNotice::GoesOn);
                    }
                    return Ok(());
                }
                Err(KeepError::Fenced(by)) => {
                    (self.watch.tell)(ReplicaNotice::Fenced);
                    return Err(StoreError::Fenced { run: self.run.clone(), by });
                }
                Err(KeepError::Store(error)) => return Err(error),
                Err(KeepError::Segment(SegmentError::Damaged(what))) => {
                    return Err(StoreError::DamagedSegments { run: self.run.clone(), what });
                }
                Err(KeepError::Segment(SegmentError::Unavailable(why))) => why,
            };
            if (self.watch.gives_up)() {
                return Err(StoreError::ReplicaUnavailable { run: self.run.clone(), why });
            }
            if !was_told && since.elapsed() >= PATIENCE {
                was_told = true;
                (self.watch.tell)(ReplicaNotice::Waits(why));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

enum KeepError {
    /// The name of the process that was faster, if its segment says it.
    Fenced(Option<String>),
    Segment(SegmentError),
    Store(StoreError),
}

impl From<SegmentError> for KeepError {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}
