//! A run made anew from its segments, or brought up to date: each segment becomes one transaction, as it was when it was
//! written. Everything is checked on the way, and what does not fit is refused by name.

use std::io::Write as _;

use rusqlite::Connection;
use threadline_engine::execute::Durability;

use super::segment::{Segment, SegmentPart};
use super::{SegmentEnd, SegmentError, SegmentNumber, SegmentStore};
use crate::error::StoreError;
use crate::names::{Hash, RunId, Seq};
use crate::queue::{LeasedRun, StoreChange, WriteJob};
use crate::reader::{read_event_hash, read_row};
use crate::store::Store;
use crate::stored_event::{EventDraft, NewRun};
use crate::writer::{insert_events, insert_run, update_run};

impl Store {
    /// Makes a run from its segments, or brings it up to date with them. Returns the last one. A run without segments is
    /// [`SegmentEnd::none`]. What is refused leaves the run as far as it was understood.
    pub fn import(&self, run: &RunId, segments: &dyn SegmentStore) -> Result<SegmentEnd, StoreError> {
        let _hold = self.location.hold(run)?;
        let importing = RunImport { store: self, run, segments };
        let last = importing.last_number()?;
        let mut end = importing.known(last)?;
        while end.number < last {
            let (segment, hash) = importing.read(end.number + 1)?;
            importing.check_follows(&segment, end)?;
            importing.apply(segment)?;
            end = SegmentEnd { number: end.number + 1, hash };
        }
        self.queue.wait_all()?;
        Ok(end)
    }
}

struct RunImport<'i> {
    store: &'i Store,
    run: &'i RunId,
    segments: &'i dyn SegmentStore,
}

impl RunImport<'_> {
    fn damaged(&self, what: String) -> StoreError {
        StoreError::DamagedSegments { run: self.run.clone(), what }
    }

    fn failed(&self, error: SegmentError) -> StoreError {
        match error {
            SegmentError::Unavailable(why) => StoreError::ReplicaUnavailable { run: self.run.clone(), why },
            SegmentError::Damaged(what) => self.damaged(what),
        }
    }

    /// The number of the last segment, when all before it are there, too.
    fn last_number(&self) -> Result<SegmentNumber, StoreError> {
        let numbers = self.segments.numbers().map_err(|error| self.failed(error))?;
        for (number, expected) in numbers.iter().zip(1..) {
            if *number != expected {
                return Err(self.damaged(if *number < expected {
                    format!("segment {number} is there twice")
                } else {
                    format!("segment {expected} is missing, and {number} is there")
                }));
            }
        }
        Ok(numbers.last().copied().unwrap_or(0))
    }

    fn read(&self, number: SegmentNumber) -> Result<(Segment<'static>, Hash), StoreError> {
        let bytes = self.segments.read(number).map_err(|error| self.failed(error))?;
        let bytes = bytes.ok_or_else(|| self.damaged(format!("segment {number} is missing")))?;
        let (segment, hash) =
            Segment::read(&bytes).map_err(|what| self.damaged(format!("segment {number} {what}")))?;
        if segment.number != number {
            let of = segment.number;
            return Err(self.damaged(format!("what is kept as segment {number} is segment {of}")));
        }
        if *segment.run != *self.run {
            let of = &segment.run;
            return Err(self.damaged(format!("what is kept as segment {number} is of run `{of}`")));
        }
        Ok((segment, hash))
    }

    fn check_follows(&self, segment: &Segment<'_>, end: SegmentEnd) -> Result<(), StoreError> {
        if segment.before == end.hash {
            return Ok(());
        }
        Err(self.damaged(format!("segment {} does not follow segment {}", segment.number, end.number)))
    }

    /// The last segment that this store has whole: what is written here of a run was kept there before, so whatever comes
    /// before it is here, too.
    fn known(&self, last: SegmentNumber) -> Result<SegmentEnd, StoreError> {
        let reader = self.store.reader();
        match reader.run(self.run) {
            Ok(_) => {}
            Err(StoreError::NoSuchRun { .. }) => return Ok(SegmentEnd::none()),
            Err(error) => return Err(error),
        }
        let mut after: Option<Hash> = None;
        for number in (1..=last).rev() {
            let (segment, hash) = self.read(number)?;
            if after.is_some_and(|before| before != hash) {
                return Err(self.damaged(format!("segment {} does not follow segment {number}", number + 1)));
            }
            after = Some(segment.before);
            let Some((run, seq, is_ahead)) =
                reader.with_connection(|connection| Self::has(connection, &segment))?
            else {
                continue;
            };
            if number == last && is_ahead {
                return Err(StoreError::Forked { run, seq: seq + 1 });
            }
            return Ok(SegmentEnd { number, hash });
        }
        Ok(SegmentEnd::none())
    }

    /// The last event in a segment, and whether there are more of its run here, if the store has that event. A segment
    /// without events tells nothing.
    fn has(connection: &Connection, segment: &Segment<'_>) -> Result<Option<(RunId, Seq, bool)>, StoreError> {
        let last = segment.parts.iter().rev().find_map(|part| match part {
            SegmentPart::Events { run, first, events } => {
                let (_, hash) = events.last()?;
                Some((run, first + (events.len() as u64 - 1), *hash))
            }
            _ => None,
        });
        let Some((run, seq, hash)) = last else { return Ok(None) };
        let Some(row) = read_row(connection, run)? else { return Ok(None) };
        if row.head.events < seq {
            return Ok(None);
        }
        match read_event_hash(connection, &row, seq)? {
            Some(here) if here == hash => Ok(Some(((**run).clone(), seq, row.head.events > seq))),
            _ => Err(StoreError::Forked { run: (**run).clone(), seq }),
        }
    }

    fn apply(&self, segment: Segment<'static>) -> Result<(), StoreError> {
        let number = segment.number;
        let mut parts = Vec::new();
        for part in segment.parts {
            match part {
                SegmentPart::Run(run) => parts.push(ImportedPart::Run(run.into_owned())),
                SegmentPart::Events { run, first, events } => parts.push(ImportedPart::Events {
                    run: run.into_owned(),
                    first,
                    events: events.into_owned(),
                }),
                // Before the events that name them, and known to whoever removes values.
                SegmentPart::Value { hash, data } => {
                    if Hash::of(&data) != hash {
                        return Err(self.damaged(format!("a value of segment {number} was altered")));
                    }
                    self.store.put_value(data.into_owned())?;
                }
                SegmentPart::LargeValue { hash, length } => self.fetch(&hash, length)?,
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let of = self.run.clone();
        let is_counted = parts.iter().any(|part| matches!(part, ImportedPart::Run(_)));
        let perform = Box::new(move |connection: &Connection| apply_parts(connection, &of, number, &parts));
        let change = StoreChange { is_counted, ends_with_checkpoint: false, perform };
        // One that is refused is met by the next, or at the end.
        self.store.queue.push(WriteJob::Change(Box::new(change)), Durability::Later).map(|_| ())
    }

    /// Brings a large value here, unless it is.
    fn fetch(&self, hash: &Hash, length: u64) -> Result<(), StoreError> {
        let is_here = self.store.location.value_file(hash).and_then(|path| path.metadata().ok());
        if is_here.is_some_and(|found| found.len() == length) {
            return Ok(());
        }
        let mut spool = self.store.spool();
        self.segments.read_value(hash, &mut spool).map_err(|error| self.failed(error))?;
        spool.flush().map_err(|error| StoreError::Io { what: error.to_string() })?;
        if spool.length() == length && spool.finish()? == *hash {
            return Ok(());
        }
        Err(self.damaged(format!("value `{hash}` was altered")))
    }
}

/// What one transaction writes of a segment.
enum ImportedPart {
    Run(NewRun),
    Events { run: RunId, first: Seq, events: Vec<(EventDraft, Hash)> },
}

fn apply_parts(
    connection: &Connection,
    of: &RunId,
    number: SegmentNumber,
    parts: &[ImportedPart],
) -> Result<(), StoreError> {
    let damaged = |what: String| StoreError::DamagedSegments { run: of.clone(), what };
    for part in parts {
        match part {
            ImportedPart::Run(run) => {
                if run.id.started() != of.started() {
                    return Err(damaged(format!("segment {number} begins run `{}`", run.id)));
                }
                if insert_run(connection, run)?.is_none() {
                    let same = read_row(connection, &run.id)?.is_some_and(|row| row.run == *run);
                    if !same {
                        return Err(StoreError::Forked { run: run.id.clone(), seq: 0 });
                    }
                }
            }
            ImportedPart::Events { run, first, events } => {
                let row = read_row(connection, run)?;
                let row = row.ok_or_else(|| {
                    damaged(format!("segment {number} has events of run `{run}`, which has not begun"))
                })?;
                if run.started() != of.started() || *first != row.head.events + 1 {
                    let what = format!("segment {number} goes on with event {first} of run `{run}`");
                    return Err(damaged(format!("{what}, which has {}", row.head.events)));
                }
                let mut head = row.head.clone();
                for (draft, hash) in events {
                    head.advance(draft);
                    if head.hash != *hash {
                        let seq = head.events;
                        return Err(damaged(format!(
                            "event {seq} of run `{run}` in segment {number} was altered"
                        )));
                    }
                }
                let leased = LeasedRun::new(run.clone(), row.number, row.run.root(), row.head.events);
                insert_events(connection, &leased, *first, events)?;
                update_run(connection, &leased, row.head.events, &head)?;
            }
        }
    }
    Ok(())
}
