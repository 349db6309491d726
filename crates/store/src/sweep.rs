//! Removes what belongs to no run: events of runs that were removed, and values that no event names. Then the file is
//! made smaller. Other processes may drive runs meanwhile: everything happens in small transactions, and a kill
//! between any two leaves work for the next sweep and nothing else.
//!
//! A value is stored before an event names it, so a value that no event names may be needed soon. A process therefore
//! writes down which values it stored or found stored, and they stay while it lives; when it ends, its events name
//! them. Both are looked at in the transaction that removes a value, while no other process can write.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension, params};
use threadline_engine::execute::Durability;

use crate::error::StoreError;
use crate::location::{JournalLocation, locked, remove_if_there};
use crate::names::{Hash, Seq};
use crate::queue::{StoreChange, WriteJob};
use crate::reader::{PAGE_EVENTS, RunRow, read_page, read_rows};
use crate::schema::{event_ids, run_of};
use crate::store::Store;

/// The maximum number of events, of values and of bytes of values that one transaction removes.
const EVENTS_AT_ONCE: usize = 4_096;
const VALUES_AT_ONCE: usize = 1_024;
const BYTES_AT_ONCE: u64 = 8 << 20;

/// The maximum number of pages that one transaction gives back.
const PAGES_AT_ONCE: i64 = 1_024;

/// The mode of a file that can be made smaller bit by bit.
const INCREMENTAL: i64 = 2;

/// What a sweep removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StoreSweep {
    /// Events of runs that were removed.
    pub events: u64,
    /// Values that no event names.
    pub values: u64,
    /// Whether the file of the journal can become smaller. An earlier version made files that cannot: what becomes free in
    /// them is used again.
    pub can_shrink: bool,
}

impl Store {
    /// Removes the events of removed runs and the values that no event names, and makes the files smaller. Fails, and
    /// removes no value, if the journal is damaged.
    pub fn sweep(&self) -> Result<StoreSweep, StoreError> {
        let events = self.sweep_events(&self.reader().with_connection(runs_without_row)?)?;
        let mut marked = ReferencedValues::new(self.location.clone());
        self.reader().with_connection(|connection| marked.advance(connection))?;
        let marked = Arc::new(Mutex::new(marked));
        let values = self.sweep_table(&marked)? + self.sweep_files(&marked)?;
        Ok(StoreSweep { events, values, can_shrink: self.shrink()? })
    }

    /// Makes one change of the journal and returns what it answers, when it is on disk.
    fn change<T: Send + 'static>(
        &self,
        ends_with_checkpoint: bool,
        perform: impl Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = Arc::new(Mutex::new(None));
        let cell = answer.clone();
        let perform = Box::new(move |connection: &Connection| {
            *locked(&cell) = Some(perform(connection)?);
            Ok(())
        });
        let change = StoreChange { is_counted: false, ends_with_checkpoint, perform };
        let position = self.queue.push(WriteJob::Change(Box::new(change)), Durability::Now)?;
        self.queue.wait(position)?;
        let answer = locked(&answer).take();
        answer.ok_or(StoreError::Closed)
    }

    /// Removes the events of runs that have no row any more. The number of a run is never given to another.
    fn sweep_events(&self, runs: &[i64]) -> Result<u64, StoreError> {
        let (mut removed, mut rest) = (0, runs);
        while !rest.is_empty() {
            let now = rest[..rest.len().min(EVENTS_AT_ONCE)].to_vec();
            let (deleted, emptied) = self.change(false, move |connection| delete_events(connection, &now))?;
            removed += deleted as u64;
            rest = &rest[emptied..];
        }
        Ok(removed)
    }

    /// Removes values in the table that nobody needs.
    fn sweep_table(&self, marked: &Arc<Mutex<ReferencedValues>>) -> Result<u64, StoreError> {
        let unmarked =
            self.reader().with_connection(|connection| -> Result<Vec<(Hash, u64)>, StoreError> {
                let marked = locked(marked);
                let mut query =
                    connection.prepare("SELECT hash, octet_length(data) FROM value ORDER BY number")?;
                let rows = query.query_map([], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get(1)?)))?;
                let mut unmarked = Vec::new();
                for row in rows {
                    let (hash, bytes) = row?;
                    let hash = Hash::from_bytes(hash);
                    if !marked.has(&hash) {
                        unmarked.push((hash, bytes));
                    }
                }
                Ok(unmarked)
            })?;
        let mut removed = 0;
        let mut rest = unmarked.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let mut fits = |(_, size): &(Hash, u64)| {
                bytes += size;
                bytes <= BYTES_AT_ONCE
            };
            let count = rest.iter().take(VALUES_AT_ONCE).take_while(|value| fits(value)).count().max(1);
            let (now, later) = rest.split_at(count);
            let values: Vec<Hash> = now.iter().map(|(hash, _)| *hash).collect();
            let marked = marked.clone();
            removed += self.change(false, move |connection| {
                let mut delete = connection.prepare_cached("DELETE FROM value WHERE hash = ?1")?;
                let mut removed = 0;
                for hash in locked(&marked).unneeded(connection, &values)? {
                    removed += delete.execute([hash.as_bytes()])? as u64;
                }
                Ok(removed)
            })?;
            rest = later;
        }
        Ok(removed)
    }

    /// Removes values that are files and that nobody needs.
    fn sweep_files(&self, marked: &Arc<Mutex<ReferencedValues>>) -> Result<u64, StoreError> {
        let mut files: Vec<Hash> = self.location.value_files()?.into_iter().map(|(hash, _)| hash).collect();
        files.retain(|hash| !locked(marked).has(hash));
        let mut removed = 0;
        for files in files.chunks(VALUES_AT_ONCE) {
            // Nobody stores one of them again until they are gone.
            let _owned = self.location.own_values()?;
            let (marked, values) = (marked.clone(), files.to_vec());
            let unneeded =
                self.change(false, move |connection| locked(&marked).unneeded(connection, &values))?;
            for hash in unneeded {
                if let Some(path) = self.location.value_file(&hash) {
                    remove_if_there(&path)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Gives free pages back, and moves the log into the file. Returns whether the file can become smaller.
    fn shrink(&self) -> Result<bool, StoreError> {
        let can_shrink = self.reader().with_connection(|connection| {
            connection.pragma_query_value(None, "auto_vacuum", |row| Ok(row.get::<_, i64>(0)? == INCREMENTAL))
        })?;
        while can_shrink && self.change(false, give_pages_back)? {}
        self.change(true, |_| Ok(()))?;
        Ok(can_shrink)
    }
}

/// Deletes events of some runs, as many as one transaction may. Returns how many, and of how many of the runs none is left.
fn delete_events(connection: &Connection, runs: &[i64]) -> Result<(usize, usize), StoreError> {
    let delete = "DELETE FROM event WHERE id IN \
                  (SELECT id FROM event WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3)";
    let mut delete = connection.prepare_cached(delete)?;
    let mut deleted = 0;
    for (emptied, run) in runs.iter().enumerate() {
        let (first, last) = event_ids(*run)?;
        let room = EVENTS_AT_ONCE - deleted;
        let count = delete.execute(params![first, last, room])?;
        deleted += count;
        if count == room {
            return Ok((deleted, emptied));
        }
    }
    Ok((deleted, runs.len()))
}

/// Gives some free pages back. Returns whether there are more.
fn give_pages_back(connection: &Connection) -> Result<bool, StoreError> {
    let free = || connection.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
    let before = free()?;
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    let after = free()?;
    Ok(after > 0 && after < before)
}

/// The numbers of runs that have events and no row.
fn runs_without_row(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let rows: HashSet<i64> = read_rows(&transaction)?.into_iter().map(|row| row.number).collect();
    let mut next = transaction.prepare_cached("SELECT id FROM event WHERE id > ?1 ORDER BY id LIMIT 1")?;
    let (mut after, mut found) = (0, Vec::new());
    while let Some(id) = next.query_row([after], |row| row.get(0)).optional()? {
        let run = run_of(id);
        if !rows.contains(&run) {
            found.push(run);
        }
        after = event_ids(run)?.1;
    }
    Ok(found)
}

/// The values that events name, of all events up to some number of each run.
struct ReferencedValues {
    location: JournalLocation,
    values: HashSet<Hash>,
    /// The last event of each run that was looked at, and its hash.
    seen: BTreeMap<i64, (Seq, Hash)>,
}

impl ReferencedValues {
    fn new(location: JournalLocation) -> Self {
        Self { location, values: HashSet::new(), seen: BTreeMap::new() }
    }

    fn has(&self, hash: &Hash) -> bool {
        self.values.contains(hash)
    }

    /// Those of some values that no event names and no living process needs. Called within a transaction that writes, so
    /// that nobody can change the answer before it ends.
    fn unneeded(&mut self, connection: &Connection, values: &[Hash]) -> Result<Vec<Hash>, StoreError> {
        self.advance(connection)?;
        let pinned = self.location.pinned()?;
        let is_needed = |hash: &Hash| self.has(hash) || pinned.contains(hash);
        Ok(values.iter().filter(|hash| !is_needed(hash)).copied().collect())
    }

    /// Looks at all events that were appended since the last time.
    fn advance(&mut self, connection: &Connection) -> Result<(), StoreError> {
        for row in read_rows(connection)? {
            self.advance_run(connection, &row)?;
        }
        Ok(())
    }

    fn advance_run(&mut self, connection: &Connection, row: &RunRow) -> Result<(), StoreError> {
        let (mut last, mut before) = self.seen.get(&row.number).copied().unwrap_or((0, row.run.root()));
        while last < row.head.events {
            let page = read_page(connection, row, last + 1, PAGE_EVENTS)?;
            if page.is_empty() {
                return Err(row.damaged(last + 1, "is missing"));
            }
            for event in page {
                if event.seq != last + 1 || !event.follows(&before) {
                    return Err(row.damaged(last + 1, "was altered, or does not follow the one before"));
                }
                self.take(connection, named_hashes(event.payload.as_bytes()))?;
                (last, before) = (event.seq, event.hash);
            }
        }
        self.seen.insert(row.number, (last, before));
        Ok(())
    }

    /// Adds values, and those that they name in turn: the index of a list names its pieces.
    fn take(&mut self, connection: &Connection, mut named: Vec<Hash>) -> Result<(), StoreError> {
        while let Some(hash) = named.pop() {
            if self.values.insert(hash) {
                named.extend(self.named_by(connection, &hash)?);
            }
        }
        Ok(())
    }

    /// The values that a value may name. Only JSON names values; what is no value has none.
    fn named_by(&self, connection: &Connection, hash: &Hash) -> Result<Vec<Hash>, StoreError> {
        let mut query = connection.prepare_cached("SELECT data FROM value WHERE hash = ?1")?;
        let found = query.query_row([hash.as_bytes()], |row| {
            let data = row.get_ref(0)?.as_blob().unwrap_or_default();
            Ok(if is_container(data) { named_hashes(data) } else { Vec::new() })
        });
        if let Some(named) = found.optional()? {
            return Ok(named);
        }
        let Some(path) = self.location.value_file(hash) else { return Ok(Vec::new()) };
        match File::open(&path).and_then(named_in_file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            named => named.map_err(|error| StoreError::io(&path, &error)),
        }
    }
}

/// Whether a text can be a list or an object.
fn is_container(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'[' | b'{'))
}

/// The length of a hash in hexadecimal digits.
const DIGITS: usize = 64;

/// Every text of JSON that can be a hash. What only looks like one names no value, or keeps one that could go.
fn named_hashes(json: &[u8]) -> Vec<Hash> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(quote) = json.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'"')) {
        let start = at + quote + 1;
        at = start;
        let Some(text) = json.get(start..start + DIGITS).filter(|_| json.get(start + DIGITS) == Some(&b'"'))
        else {
            continue;
        };
        if let Some(hash) = str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
            found.push(hash);
            at = start + DIGITS;
        }
    }
    found
}

/// The hashes that a file of JSON names.
fn named_in_file(mut file: File) -> io::Result<Vec<Hash>> {
    const PIECE: usize = 1 << 20;
    /// A hash with its quotes may lie across the end of a piece.
    const OVERLAP: usize = DIGITS + 1;
    let (mut found, mut buffer) = (Vec::new(), Vec::with_capacity(PIECE + OVERLAP));
    let mut is_first = true;
    loop {
        let read = Read::by_ref(&mut file).take(PIECE as u64).read_to_end(&mut buffer)?;
        if read == 0 || (is_first && !is_container(&buffer)) {
            return Ok(found);
        }
        is_first = false;
        found.extend(named_hashes(&buffer));
        buffer.drain(..buffer.len().saturating_sub(OVERLAP));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_hash_is_found_wherever_it_stands() {
        let (one, two) = (Hash::of(b"one"), Hash::of(b"two"));
        let json = format!(r#"{{"text":"{one}","list":["{two}","{one}a","a{two}"],"other":"x"}}"#);
        assert_eq!(named_hashes(json.as_bytes()), [one, two]);
        assert_eq!(named_hashes(format!(r#""a"{one}""#).as_bytes()), [one], "more than enough");
        for cut in 0..json.len() {
            named_hashes(&json.as_bytes()[..cut]);
        }
    }

    #[test]
    fn a_hash_is_found_across_pieces_of_a_file() {
        let path = std::env::temp_dir().join(format!("threadline-pieces-{}", std::process::id()));
        for before in [0, 1, 30, 64, 65, 66, 70] {
            let hash = Hash::of(&[before]);
            let text = format!("[\"{}\",\"{hash}\",1]", "x".repeat((1 << 20) - usize::from(before) - 5));
            let mut file =
                File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            let mut found = named_in_file(file).unwrap();
            found.dedup();
            assert_eq!(found, [hash], "{before}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
