//! The one thread that writes: it takes a group of jobs, writes them in one transaction, and wakes those who wait.
//!
//! Where the run is kept elsewhere, too, a group is kept there first: see `replica`.
//!
//! A transaction is handed to the operating system when it is committed, and is on disk when the log was synced after
//! it. A transaction that begins when all before it are on disk says so by a mark, so that a damaged log can be told
//! from one that a power loss tore: see `log_check`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

use crate::error::StoreError;
#[cfg(feature = "testing")]
use crate::fault::Faults;
use crate::location::{SharedConnection, leave_open, locked};
use crate::log_file::LogFile;
use crate::names::{Hash, Seq};
use crate::queue::{LeasedRun, Queue, WriteJob, WriterTurn};
use crate::replica::ReplicaCell;
use crate::schema;
use crate::spool_folder::SpoolFolder;
use crate::stored_event::{EventDraft, NewRun, RunHead};

/// The number of commits after which the log is moved into the main file.
const CHECKPOINT_COMMITS: u64 = 500;

/// The number of bytes after which the log is moved into the main file.
const CHECKPOINT_BYTES: usize = 8 << 20;

/// The number of pages from which on a log that readers keep from being reused is too long.
const LONG_LOG: i64 = 16 << 10;

/// The time that the writer waits for the readers of a long log.
const PATIENCE_WITH_READERS: Duration = Duration::from_millis(100);

pub(crate) struct JournalWriter {
    pub(crate) connection: SharedConnection,
    /// None in memory.
    pub(crate) log: Option<LogFile>,
    pub(crate) queue: Arc<Queue>,
    /// Where the values are named that this process stores; none in memory.
    pub(crate) spool_folder: Option<Arc<SpoolFolder>>,
    /// Where a group is kept before it is written here.
    pub(crate) replica: ReplicaCell,
    #[cfg(feature = "testing")]
    pub(crate) faults: Faults,
}

impl JournalWriter {
    /// Writes until the queue is closed or a write fails.
    pub(crate) fn run(mut self) {
        let _guard = StopGuard(self.queue.clone());
        let (mut since, mut bytes) = (0, 0);
        while let Some(turn) = self.queue.take() {
            let group = match turn {
                WriterTurn::Write(group) => group,
                WriterTurn::Sync => {
                    if let Err(failure) = self.log.as_mut().map_or(Ok(()), LogFile::sync) {
                        self.queue.fail(failure);
                        return;
                    }
                    self.queue.finish_sync();
                    continue;
                }
            };
            if let Err(failure) = self.commit(&group) {
                if let StoreError::Vanished { .. } = failure {
                    leave_open(&self.connection);
                }
                self.queue.fail(failure);
                return;
            }
            self.queue.finish_write(&group);
            since += 1;
            bytes += group.iter().map(WriteJob::bytes).sum::<usize>();
            let is_asked = group.iter().any(WriteJob::ends_with_checkpoint);
            if since >= CHECKPOINT_COMMITS || bytes >= CHECKPOINT_BYTES || is_asked {
                (since, bytes) = (0, 0);
                self.checkpoint();
            }
        }
    }

    fn commit(&mut self, group: &[WriteJob]) -> Result<(), StoreError> {
        #[cfg(feature = "testing")]
        self.faults.before_commit()?;
        let replica = locked(&self.replica).clone();
        if let Some(replica) = replica
            && replica.ship(group)?
        {
            #[cfg(feature = "testing")]
            self.faults.after_shipping()?;
        }
        let spool_folder = self.spool_folder.as_deref();
        write_group(&locked(&self.connection), self.log.as_mut(), spool_folder, group)?;
        #[cfg(feature = "testing")]
        self.faults.after_commit()?;
        Ok(())
    }

    /// Moves the log into the main file, as far as readers allow. What cannot be moved now is moved the next time,
    /// and nothing depends on it: an error here would be met again, and told, by the next commit.
    fn checkpoint(&self) {
        let connection = locked(&self.connection);
        let moved = |mode| {
            connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })
        };
        let Ok((pages, done)) = moved("PASSIVE") else { return };
        if pages > LONG_LOG && done < pages {
            let patience = connection.busy_timeout(PATIENCE_WITH_READERS);
            let _ = patience.and_then(|()| moved("RESTART"));
            let _ = connection.busy_timeout(schema::PATIENCE);
        }
        // A journal in memory has no log.
        if pages >= 0 {
            self.queue.count_checkpoint();
        }
    }
}

/// Makes sure that no thread waits for ever, however the writer ends.
struct StopGuard(Arc<Queue>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreError::Crashed);
        }
    }
}

fn write_group(
    connection: &Connection,
    mut log: Option<&mut LogFile>,
    spool_folder: Option<&SpoolFolder>,
    group: &[WriteJob],
) -> Result<(), StoreError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if let Some(log) = &mut log {
        log.begin(data_version(&transaction)?);
        // Runs are counted on the page of the mark.
        if group.iter().any(WriteJob::is_counted) {
            log.sync()?;
        }
        log.make_room();
        if log.is_synced() {
            transaction.prepare_cached(schema::SYNC_MARK)?.execute([])?;
        }
    }
    // While nobody else can write: whoever removes values afterwards knows that these are needed, new or not.
    if let Some(folder) = spool_folder {
        let stored = group.iter().filter_map(|job| match job {
            WriteJob::Value { hash, .. } => Some(*hash),
            _ => None,
        });
        folder.pin(&stored.collect::<Vec<Hash>>())?;
    }
    let mut heads = BTreeMap::new();
    for job in group {
        match job {
            WriteJob::Run { run, number } => {
                if let Some(new) = insert_run(&transaction, run)? {
                    // Nobody looks before the commit, and each job has a cell of its own.
                    let _ = number.set(new);
                }
            }
            WriteJob::Events { run, events, head } => {
                let first = head.events + 1 - events.len() as u64;
                insert_events(&transaction, run, first, events)?;
                heads.entry(run.number).or_insert((run, first - 1, head)).2 = head;
            }
            WriteJob::Value { hash, data } => insert_value(&transaction, hash, data)?,
            WriteJob::LargeValue { .. } => {}
            WriteJob::Change(change) => (change.perform)(&transaction)?,
        }
    }
    for (run, before, head) in heads.into_values() {
        update_run(&transaction, run, before, head)?;
    }
    transaction.commit()?;
    log.map_or(Ok(()), LogFile::grow)
}

/// A number that changes when another connection commits.
fn data_version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}

/// The number of the new run, or `None` when its id is taken.
pub(crate) fn insert_run(connection: &Connection, run: &NewRun) -> Result<Option<i64>, StoreError> {
    let count = "SELECT value FROM meta WHERE name = 'runs'";
    let number = 1 + connection.prepare_cached(count)?.query_row([], |row| row.get::<_, i64>(0))?;
    let head = RunHead::of(run);
    let insert = "INSERT INTO run (number, id, name, file, started_at, events, last_kind, status, head, seal) \
                  VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING";
    let seal = head.seal(&run.root(), number);
    let inserted = connection.prepare_cached(insert)?.execute(params![
        number,
        run.id.as_str(),
        run.name,
        run.file,
        run.started_at,
        head.last_kind,
        head.status,
        head.hash.as_bytes(),
        seal.as_bytes(),
    ])?;
    if inserted == 0 {
        return Ok(None);
    }
    connection.prepare_cached("UPDATE meta SET value = ?1 WHERE name = 'runs'")?.execute([number])?;
    Ok(Some(number))
}

pub(crate) fn insert_events(
    connection: &Connection,
    run: &LeasedRun,
    first: Seq,
    events: &[(EventDraft, Hash)],
) -> Result<(), StoreError> {
    let insert = "INSERT INTO event (id, kind, place, time, payload, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut insert = connection.prepare_cached(insert)?;
    let first = schema::event_id(run.number, first)?;
    for (id, (draft, hash)) in (first..).zip(events) {
        let row = params![id, draft.kind, draft.address, draft.time, draft.payload, hash.as_bytes()];
        insert.execute(row).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => StoreError::Overtaken { run: run.id.clone() },
            _ => error.into(),
        })?;
    }
    Ok(())
}

fn insert_value(connection: &Connection, hash: &Hash, data: &[u8]) -> Result<(), StoreError> {
    let insert = "INSERT INTO value (hash, data) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";
    connection.prepare_cached(insert)?.execute(params![hash.as_bytes(), data])?;
    Ok(())
}

pub(crate) fn update_run(
    connection: &Connection,
    run: &LeasedRun,
    before: Seq,
    head: &RunHead,
) -> Result<(), StoreError> {
    let update = "UPDATE run SET events = ?1, last_kind = ?2, status = ?3, head = ?4, seal = ?5 \
                  WHERE number = ?6 AND events = ?7";
    let seal = head.seal(&run.root, run.number);
    let updated = connection.prepare_cached(update)?.execute(params![
        head.events,
        head.last_kind,
        head.status,
        head.hash.as_bytes(),
        seal.as_bytes(),
        run.number,
        before,
    ])?;
    if updated == 1 {
        return Ok(());
    }
    let what = "was not the last of its run".to_owned();
    Err(StoreError::DamagedEvent { run: run.id.clone(), seq: before, what })
}
