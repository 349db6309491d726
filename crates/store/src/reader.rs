//! Reads a journal, also while another process writes it. Everything is checked against its hash before it is returned;
//! nothing is ever changed.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::location::{DrivingProcess, JournalLocation, SharedConnection, leave_open, locked};
use crate::names::{Hash, LAST, RunId, Seq, is_prefix};
use crate::schema::{event_id, event_ids, seq_of};
use crate::stored_event::{NewRun, RunHead, RunInfo, StoredEvent};

/// The maximum number of events, and of their bytes, that are read before the journal is released again.
pub(crate) const PAGE_EVENTS: u64 = 256;
const PAGE_BYTES: usize = 1 << 20;

/// The maximum number of events of which the addresses are read before the journal is released again.
const PAGE_ADDRESSES: u64 = 16_384;

/// The number of rows of runs that are read before the journal is released again.
const PAGE_RUNS: u32 = 256;

const RUN_COLUMNS: &str = "number, id, name, file, started_at, events, last_kind, status, head, seal";

/// Reads the runs, events and values of a journal.
#[derive(Clone)]
pub struct JournalReader {
    location: JournalLocation,
    connection: SharedConnection,
    /// The journal that was opened, by its device and number.
    identity: Option<String>,
    /// The runs that are driven elsewhere, as far as somebody has said so.
    driven: Arc<Mutex<BTreeSet<RunId>>>,
}

/// What is known of an event that was not read.
pub struct EventMark<'r> {
    /// Its number.
    pub seq: Seq,
    /// Its kind.
    pub kind: &'r str,
    /// The text of the address that it is about; none if that is no text.
    pub address: Option<&'r str>,
    /// Its time, as it is stored.
    pub time: Option<&'r str>,
    /// Whether its payload has the text that was looked for.
    pub has_text: bool,
}

/// The row of a run.
pub(crate) struct RunRow {
    pub(crate) number: i64,
    pub(crate) run: NewRun,
    pub(crate) head: RunHead,
}

impl JournalReader {
    /// Opens the journal in a folder for reading. Creates nothing.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::at(JournalLocation::existing(folder)?)
    }

    pub(crate) fn at(location: JournalLocation) -> Result<Self, StoreError> {
        let connection = location.open_for_reading()?;
        let identity = location.identity().ok();
        Ok(Self { location, connection, identity, driven: Arc::default() })
    }

    /// Whether the journal is still the one that was opened. If somebody has removed it, the connection is never closed, and
    /// whoever reads on opens the journal that is there now.
    pub fn is_current(&self) -> bool {
        let is_current = self.location.identity().ok() == self.identity;
        if !is_current {
            self.leave_open();
        }
        is_current
    }

    /// Never closes the connection: see [`leave_open`].
    pub(crate) fn leave_open(&self) {
        leave_open(&self.connection);
    }

    /// All runs, the oldest first.
    pub fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        Ok(self.rows()?.into_iter().map(RunRow::info).collect())
    }

    /// The runs that somebody started, the newest first, from the one behind a run on; those that other runs called are left
    /// out. The iterator keeps one page of rows, so that a list that shows only its beginning reads no more.
    pub fn newest_started(&self, behind: Option<&RunId>) -> Result<StartedRuns, StoreError> {
        {
            let connection = locked(&self.connection);
            let transaction = connection.unchecked_transaction()?;
            count_rows(&transaction)?;
        }
        let below = behind.map(|run| self.row(run)).transpose()?.map_or(i64::MAX, |row| row.number);
        Ok(StartedRuns { reader: self.clone(), below, page: VecDeque::new(), ended: false })
    }

    /// The runs that a run called, directly or by others, the oldest first.
    pub fn called_by(&self, run: &RunId) -> Result<Vec<RunInfo>, StoreError> {
        let (from, to) = called_range(run);
        let connection = locked(&self.connection);
        let query = format!("SELECT {RUN_COLUMNS} FROM run WHERE id >= ?1 AND id < ?2 ORDER BY number");
        let mut query = connection.prepare_cached(&query)?;
        let rows = query.query_map([from, to], |row| Ok(RunRow::read(row)))?;
        rows.map(|row| Ok(row??.info())).collect()
    }

    /// Finds a run by its id, by a prefix that no other id has, or the newest run by `last`. A called run is found only if
    /// no other run matches, and a run without events, which was killed before it did anything, is never the last.
    pub fn find(&self, name: &str) -> Result<RunInfo, StoreError> {
        let missing = || StoreError::NoSuchRun { name: name.chars().take(80).collect() };
        if name != LAST && !is_prefix(name) {
            return Err(missing());
        }
        let mut rows = self.rows()?;
        let is_found = |row: &RunRow| match name {
            LAST => row.head.events > 0,
            name => row.run.id.as_str().starts_with(name),
        };
        rows.retain(is_found);
        if rows.iter().any(|row| !row.run.id.is_called()) {
            rows.retain(|row| !row.run.id.is_called());
        }
        if name == LAST {
            return rows.pop().map(RunRow::info).ok_or_else(missing);
        }
        if let Some(exact) = rows.iter().position(|row| row.run.id.as_str() == name) {
            return Ok(rows.swap_remove(exact).info());
        }
        if rows.len() > 1 {
            let runs = rows.into_iter().map(|row| row.run.id).collect();
            return Err(StoreError::Ambiguous { name: name.to_owned(), runs });
        }
        rows.pop().map(RunRow::info).ok_or_else(missing)
    }

    /// The run with this id.
    pub fn run(&self, run: &RunId) -> Result<RunInfo, StoreError> {
        Ok(self.row(run)?.info())
    }

    /// Says whether a run is driven elsewhere, which no lease here tells.
    pub fn note_driven(&self, run: &RunId, is_driven: bool) {
        let mut driven = locked(&self.driven);
        if is_driven {
            driven.insert(run.clone());
        } else {
            driven.remove(run);
        }
    }

    /// Whether a process drives a run now.
    pub fn is_driven(&self, run: &RunId) -> Result<bool, StoreError> {
        if locked(&self.driven).iter().any(|known| known.started() == run.started()) {
            return Ok(true);
        }
        self.location.is_held(run)
    }

    /// The process that drives a run now.
    pub fn driving_process(&self, run: &RunId) -> Result<Option<DrivingProcess>, StoreError> {
        self.location.driving_process(run)
    }

    /// The events of a run from a number on, up to the last one at the time of the call. The iterator keeps one page of
    /// events, and does not keep the journal locked.
    pub fn read(&self, run: &RunId, from: Seq) -> Result<StoredEvents, StoreError> {
        let row = self.row(run)?;
        let from = from.max(1);
        let before = self.hash_before(&row, from)?;
        Ok(StoredEvents {
            reader: self.clone(),
            row,
            next: from,
            before,
            page: VecDeque::new(),
            page_size: PAGE_EVENTS,
            ended: false,
        })
    }

    /// The numbers of the events of a run that are about an address that is `wanted`, in order. Nothing of the events is
    /// read beside their addresses.
    pub fn choose(&self, run: &RunId, wanted: impl Fn(&str) -> bool) -> Result<Vec<Seq>, StoreError> {
        let mut chosen = Vec::new();
        self.scan(run, None, |mark| {
            // What is no text is chosen: whoever reads the event says so.
            if mark.address.is_none_or(&wanted) {
                chosen.push(mark.seq);
            }
        })?;
        Ok(chosen)
    }

    /// Visits all events of a run in order, of which nothing is read beside their kinds, their addresses, and whether their
    /// payloads have a text.
    pub fn scan(
        &self,
        run: &RunId,
        text: Option<&str>,
        visit: impl FnMut(&EventMark<'_>),
    ) -> Result<(), StoreError> {
        self.scan_from(run, 1, text.as_slice(), visit)
    }

    /// The same from an event on, and of several texts: an event has text where it has one of them.
    pub fn scan_from(
        &self,
        run: &RunId,
        from: Seq,
        texts: &[&str],
        visit: impl FnMut(&EventMark<'_>),
    ) -> Result<(), StoreError> {
        self.scan_range(run, from, Seq::MAX, texts, visit)
    }

    /// The same up to an event, or to the last one.
    pub fn scan_range(
        &self,
        run: &RunId,
        from: Seq,
        to: Seq,
        texts: &[&str],
        mut visit: impl FnMut(&EventMark<'_>),
    ) -> Result<(), StoreError> {
        let row = self.row(run)?;
        let to = to.min(row.head.events);
        let found: Vec<String> =
            (0..texts.len()).map(|at| format!("instr(payload, ?{}) > 0", at + 3)).collect();
        let found = if found.is_empty() { "0".to_owned() } else { found.join(" OR ") };
        let query = format!(
            "SELECT id, kind, place, {found}, time FROM event WHERE id BETWEEN ?1 AND ?2 ORDER BY id"
        );
        let mut next = from.max(1);
        while next <= to {
            let last = to.min(next + (PAGE_ADDRESSES - 1));
            let connection = locked(&self.connection);
            let mut query = connection.prepare_cached(&query)?;
            let ids = (event_id(row.number, next)?, event_id(row.number, last)?);
            let ids = [ids.0, ids.1].map(rusqlite::types::Value::Integer);
            let texts = texts.iter().map(|text| rusqlite::types::Value::Text((*text).to_owned()));
            let mut rows = query.query(rusqlite::params_from_iter(ids.into_iter().chain(texts)))?;
            while let Some(found) = rows.next()?.filter(|_| next <= last) {
                if seq_of(found.get(0)?) != next {
                    break;
                }
                let [kind, address] = [found.get_ref(1)?.as_str().ok(), found.get_ref(2)?.as_str().ok()];
                visit(&EventMark {
                    seq: next,
                    kind: kind.unwrap_or_default(),
                    address,
                    time: found.get_ref(4)?.as_str().ok(),
                    has_text: found.get(3)?,
                });
                next += 1;
            }
            drop(rows);
            drop(query);
            drop(connection);
            if next <= last {
                return Err(self.missing(&row, next));
            }
        }
        Ok(())
    }

    /// The events of a run with these numbers, which are in order.
    pub fn read_chosen<'s>(
        &'s self,
        run: &'s RunId,
        chosen: &'s [Seq],
    ) -> impl Iterator<Item = Result<StoredEvent, StoreError>> + 's {
        let ranges = chosen.chunk_by(|before, seq| before + 1 == *seq);
        ranges.flat_map(move |range| {
            let events = self.read(run, range[0]).map(|mut events| {
                events.page_size = PAGE_EVENTS.min(range.len() as u64);
                events.take(range.len())
            });
            let (events, error) = match events {
                Ok(events) => (Some(events), None),
                Err(error) => (None, Some(Err(error))),
            };
            events.into_iter().flatten().chain(error)
        })
    }

    /// The event of a run with this number.
    pub fn stored_event(&self, run: &RunId, seq: Seq) -> Result<StoredEvent, StoreError> {
        let missing = || StoreError::NoSuchEvent { run: run.clone(), seq };
        if seq == 0 {
            return Err(missing());
        }
        let mut events = self.read(run, seq)?;
        events.page_size = 1;
        events.next().ok_or_else(missing)?
    }

    /// The bytes of a value.
    pub fn value(&self, hash: &Hash) -> Result<Vec<u8>, StoreError> {
        let bytes = match self.value_in_table(hash)? {
            Some(bytes) => bytes,
            None => self.value_in_file(hash)?,
        };
        if Hash::of(&bytes) == *hash { Ok(bytes) } else { Err(StoreError::DamagedValue { hash: *hash }) }
    }

    fn value_in_table(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached("SELECT data FROM value WHERE hash = ?1")?;
        Ok(query.query_row([hash.as_bytes()], |row| row.get(0)).optional()?)
    }

    fn value_in_file(&self, hash: &Hash) -> Result<Vec<u8>, StoreError> {
        let path = self.location.value_file(hash).ok_or(StoreError::NoSuchValue { hash: *hash })?;
        fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoSuchValue { hash: *hash },
            _ => StoreError::io(&path, &error),
        })
    }

    /// The row of a run. All rows are counted before a run is reported as missing.
    pub(crate) fn row(&self, run: &RunId) -> Result<RunRow, StoreError> {
        let found = read_row(&locked(&self.connection), run)?;
        match found {
            Some(row) => Ok(row),
            None => match self.rows()?.into_iter().find(|row| row.run.id == *run) {
                Some(_) => Err(StoreError::damaged(format!("run `{run}` is not in its index"))),
                None => Err(StoreError::NoSuchRun { name: run.to_string() }),
            },
        }
    }

    /// All rows, the oldest first.
    fn rows(&self) -> Result<Vec<RunRow>, StoreError> {
        let connection = locked(&self.connection);
        let transaction = connection.unchecked_transaction()?;
        read_rows(&transaction)
    }

    /// Calls `read` with the connection.
    pub(crate) fn with_connection<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(&locked(&self.connection))
    }

    /// The number of bytes that the journal and its values take on disk.
    pub fn store_size(&self) -> Result<u64, StoreError> {
        self.location.size()
    }

    /// The number of bytes of the events of a run and of the runs that it called. Values that are stored by their hash
    /// are not counted: runs share them.
    pub fn size_with_called(&self, run: &RunId) -> Result<u64, StoreError> {
        let connection = locked(&self.connection);
        let (from, to) = called_range(run);
        let numbers = "SELECT number FROM run WHERE id = ?1 OR (id >= ?2 AND id < ?3)";
        let mut numbers = connection.prepare_cached(numbers)?;
        let numbers = numbers.query_map([run.as_str(), &from, &to], |row| row.get::<_, i64>(0))?;
        let size = "SELECT sum(octet_length(kind) + octet_length(place) + octet_length(time) \
                    + octet_length(payload) + octet_length(hash)) FROM event WHERE id BETWEEN ?1 AND ?2";
        let mut size = connection.prepare_cached(size)?;
        let mut bytes = 0;
        for number in numbers {
            let (first, last) = event_ids(number?)?;
            bytes += size.query_row([first, last], |row| row.get::<_, Option<u64>>(0))?.unwrap_or(0);
        }
        Ok(bytes)
    }

    /// The hash that event `from` of the run must follow.
    fn hash_before(&self, row: &RunRow, from: Seq) -> Result<Hash, StoreError> {
        let last = from - 1;
        if last == 0 {
            return Ok(row.run.root());
        }
        if last >= row.head.events {
            return Ok(row.head.hash);
        }
        let hash = read_event_hash(&locked(&self.connection), row, last)?;
        hash.ok_or_else(|| self.missing(row, last))
    }

    /// The next page of events of a run.
    fn page(&self, row: &RunRow, from: Seq, size: u64) -> Result<VecDeque<StoredEvent>, StoreError> {
        read_page(&locked(&self.connection), row, from, size)
    }

    /// The error for an event that is not there: the run may have been removed since it was found.
    fn missing(&self, row: &RunRow, seq: Seq) -> StoreError {
        match self.row(&row.run.id) {
            Err(error @ StoreError::NoSuchRun { .. }) => error,
            _ => row.damaged(seq, "is missing"),
        }
    }
}

/// All rows of runs, the oldest first. They are counted, so a lost row is noticed.
pub(crate) fn read_rows(connection: &Connection) -> Result<Vec<RunRow>, StoreError> {
    let query = format!("SELECT {RUN_COLUMNS} FROM run NOT INDEXED ORDER BY number");
    let mut query = connection.prepare_cached(&query)?;
    let rows = query.query_map([], |row| Ok(RunRow::read(row)))?;
    let rows = rows.map(|row| row?).collect::<Result<Vec<RunRow>, StoreError>>()?;
    let last = rows.last().map_or(0, |row| row.number);
    check_count(connection, i64::try_from(rows.len()).unwrap_or(i64::MAX), last)?;
    Ok(rows)
}

/// Counts the rows of runs without reading them.
fn count_rows(connection: &Connection) -> Result<(), StoreError> {
    let mut query = connection.prepare_cached("SELECT count(*), coalesce(max(number), 0) FROM run")?;
    let (found, last) = query.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    check_count(connection, found, last)
}

/// Whether as many rows of runs were found as there should be, and none with a number that was not given yet.
fn check_count(connection: &Connection, found: i64, last: i64) -> Result<(), StoreError> {
    let (count, removed) = (read_count(connection, "runs")?, read_count(connection, "removed")?);
    let left = count - removed;
    if found == left && last <= count {
        return Ok(());
    }
    Err(StoreError::damaged(format!("{found} of {left} runs are there")))
}

/// The row of a run, if there is one.
pub(crate) fn read_row(connection: &Connection, run: &RunId) -> Result<Option<RunRow>, StoreError> {
    let query = format!("SELECT {RUN_COLUMNS} FROM run WHERE id = ?1");
    let mut query = connection.prepare_cached(&query)?;
    query.query_row([run.as_str()], |row| Ok(RunRow::read(row))).optional()?.transpose()
}

/// The hash of an event of a run, if it is there.
pub(crate) fn read_event_hash(
    connection: &Connection,
    row: &RunRow,
    seq: Seq,
) -> Result<Option<Hash>, StoreError> {
    let mut query = connection.prepare_cached("SELECT hash FROM event WHERE id = ?1")?;
    let hash = query.query_row([event_id(row.number, seq)?], |row| read_hash(row, 0)).optional()?;
    Ok(hash.flatten())
}

/// How many runs there were, or were removed.
pub(crate) fn read_count(connection: &Connection, name: &str) -> Result<i64, StoreError> {
    let mut query = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    Ok(query.query_row([name], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The ids of runs that a run called are at least the first text, and less than the second.
pub(crate) fn called_range(run: &RunId) -> (String, String) {
    // `.` follows `-`.
    (format!("{run}-"), format!("{run}."))
}

/// A page of the events of a run, from a number on. Whoever reads them checks that they follow each other.
pub(crate) fn read_page(
    connection: &Connection,
    row: &RunRow,
    from: Seq,
    size: u64,
) -> Result<VecDeque<StoredEvent>, StoreError> {
    let last = row.head.events.min(from + (size - 1));
    let query = "SELECT id, kind, place, time, payload, hash FROM event \
                     WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    let mut query = connection.prepare_cached(query)?;
    let mut rows = query.query(params![event_id(row.number, from)?, event_id(row.number, last)?])?;
    let (mut page, mut bytes) = (VecDeque::new(), 0);
    while let Some(found) = rows.next()? {
        let seq = seq_of(found.get(0)?);
        let record = read_event(found, seq)?.ok_or_else(|| row.damaged(seq, "cannot be read"))?;
        bytes += record.bytes();
        page.push_back(record);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

impl RunRow {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let id: String = row.get(1)?;
        let broken = || StoreError::damaged(format!("the row of run `{}` was altered", id.escape_debug()));
        let run = NewRun {
            id: RunId::new(&id).map_err(|_| broken())?,
            name: row.get(2)?,
            file: row.get(3)?,
            started_at: row.get(4)?,
        };
        let head = RunHead {
            events: row.get(5)?,
            last_kind: row.get::<_, String>(6)?.into(),
            status: row.get::<_, String>(7)?.into(),
            hash: read_hash(row, 8)?.ok_or_else(broken)?,
        };
        let number = row.get(0)?;
        if read_hash(row, 9)? != Some(head.seal(&run.root(), number)) {
            return Err(broken());
        }
        Ok(Self { number, run, head })
    }

    fn info(self) -> RunInfo {
        RunInfo {
            id: self.run.id,
            name: self.run.name,
            file: self.run.file,
            started_at: self.run.started_at,
            events: self.head.events,
            last_kind: self.head.last_kind.into_owned(),
            status: self.head.status.into_owned(),
        }
    }

    pub(crate) fn damaged(&self, seq: Seq, what: &str) -> StoreError {
        StoreError::DamagedEvent { run: self.run.id.clone(), seq, what: what.to_owned() }
    }
}

fn read_hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Hash>> {
    Ok(row.get_ref(column)?.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).map(Hash::from_bytes))
}

fn read_event(row: &Row<'_>, seq: Seq) -> Result<Option<StoredEvent>, StoreError> {
    let Some(hash) = read_hash(row, 5)? else { return Ok(None) };
    let texts = (row.get(1), row.get(2), row.get(3), row.get(4));
    let (Ok(kind), Ok(address), Ok(time), Ok(payload)) = texts else { return Ok(None) };
    Ok(Some(StoredEvent { seq, kind, address, time, payload, hash }))
}

/// Runs that somebody started, the newest first. The iterator ends after the first error.
pub struct StartedRuns {
    reader: JournalReader,
    /// Only rows with a smaller number are still to come.
    below: i64,
    page: VecDeque<RunRow>,
    ended: bool,
}

impl StartedRuns {
    fn read_page(&mut self) -> Result<(), StoreError> {
        let connection = locked(&self.reader.connection);
        let query = format!(
            "SELECT {RUN_COLUMNS} FROM run WHERE number < ?1 AND instr(id, '-') = 0 ORDER BY number DESC LIMIT ?2"
        );
        let mut query = connection.prepare_cached(&query)?;
        let rows = query.query_map(params![self.below, PAGE_RUNS], |row| Ok(RunRow::read(row)))?;
        for row in rows {
            let row = row??;
            self.below = row.number;
            self.page.push_back(row);
        }
        Ok(())
    }
}

impl Iterator for StartedRuns {
    type Item = Result<RunInfo, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.page.is_empty()
            && let Err(error) = self.read_page()
        {
            self.ended = true;
            return Some(Err(error));
        }
        let row = self.page.pop_front();
        self.ended = row.is_none();
        row.map(|row| Ok(row.info()))
    }
}

/// The events of a run in their order. The iterator ends after the first error.
pub struct StoredEvents {
    reader: JournalReader,
    row: RunRow,
    next: Seq,
    before: Hash,
    page: VecDeque<StoredEvent>,
    page_size: u64,
    ended: bool,
}

impl StoredEvents {
    fn step(&mut self) -> Result<StoredEvent, StoreError> {
        if self.page.is_empty() {
            self.page = self.reader.page(&self.row, self.next, self.page_size)?;
        }
        let record = self.page.pop_front().filter(|record| record.seq == self.next);
        let record = record.ok_or_else(|| self.reader.missing(&self.row, self.next))?;
        let last = record.seq == self.row.head.events;
        if !record.follows(&self.before) || (last && record.hash != self.row.head.hash) {
            return Err(self.row.damaged(self.next, "was altered, or does not follow the one before"));
        }
        self.next += 1;
        self.before = record.hash;
        Ok(record)
    }
}

impl Iterator for StoredEvents {
    type Item = Result<StoredEvent, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.next > self.row.head.events {
            return None;
        }
        let record = self.step();
        self.ended = record.is_err();
        Some(record)
    }
}
