//! Removes runs from the journal. A run goes with the runs that it called, in one transaction; its events and values go
//! afterwards, when the store is swept.

use rusqlite::{Connection, params};

use crate::error::StoreError;
use crate::location::LeaseHold;
use crate::names::RunId;
use crate::queue::{StoreChange, WriteJob};
use crate::reader::{called_range, read_count};
use crate::schema;
use crate::store::Store;
use crate::stored_event::RunInfo;
use threadline_engine::execute::Durability;

/// The maximum number of runs that are removed in one transaction. Each takes an open file meanwhile.
const RUNS_AT_ONCE: usize = 64;

/// What became of runs that were to be removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RunsRemoved {
    /// The runs that are gone.
    pub removed: Vec<RunId>,
    /// The runs that a process drives. They are as they were.
    pub driven: Vec<RunId>,
}

impl Store {
    /// Removes runs that somebody started, each with the runs that it called. They are gone for good when this returns. A
    /// run that a process drives stays, and so does one that went on since its row was read.
    pub fn remove_runs(&self, runs: &[RunInfo]) -> Result<RunsRemoved, StoreError> {
        let mut outcome = RunsRemoved::default();
        for runs in runs.chunks(RUNS_AT_ONCE) {
            let mut held = Vec::new();
            for run in runs {
                match self.location.hold(&run.id) {
                    Ok(lock) => held.push((run, lock)),
                    Err(StoreError::Busy { .. }) => outcome.driven.push(run.id.clone()),
                    Err(error) => return Err(error),
                }
            }
            self.remove_held(&held, &mut outcome)?;
        }
        Ok(outcome)
    }

    fn remove_held(
        &self,
        held: &[(&RunInfo, LeaseHold)],
        outcome: &mut RunsRemoved,
    ) -> Result<(), StoreError> {
        let mut going = Vec::new();
        for (run, _) in held {
            // Under the lock nobody else changes it.
            match self.reader().run(&run.id) {
                Ok(found) if found.events == run.events => going.push(run.id.clone()),
                Ok(_) => outcome.driven.push(run.id.clone()),
                Err(StoreError::NoSuchRun { .. }) => outcome.removed.push(run.id.clone()),
                Err(error) => return Err(error),
            }
        }
        if going.is_empty() {
            return Ok(());
        }
        let rows = going.clone();
        let perform = Box::new(move |connection: &Connection| delete_rows(connection, &rows));
        let change = StoreChange { is_counted: true, ends_with_checkpoint: false, perform };
        let position = self.queue.push(WriteJob::Change(Box::new(change)), Durability::Now)?;
        self.queue.wait(position)?;
        outcome.removed.extend(going);
        Ok(())
    }
}

/// Deletes the rows of runs and of the runs that they called, and counts them.
fn delete_rows(connection: &Connection, runs: &[RunId]) -> Result<(), StoreError> {
    let mut delete = connection.prepare_cached("DELETE FROM run WHERE id = ?1 OR (id >= ?2 AND id < ?3)")?;
    let mut deleted = 0;
    for run in runs {
        let (from, to) = called_range(run);
        deleted += delete.execute(params![run.as_str(), from, to])?;
    }
    let removed = read_count(connection, "removed")? + i64::try_from(deleted).unwrap_or(i64::MAX);
    let count =
        "INSERT INTO meta (name, value) VALUES ('removed', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1";
    connection.prepare_cached(count)?.execute([removed])?;
    // An older program would miss them.
    connection.pragma_update(None, "user_version", schema::VERSION)?;
    Ok(())
}
