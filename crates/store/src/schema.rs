//! The tables of a journal, its version, and the settings of a connection.
//!
//! A change that an older program could misread must raise [`VERSION`].

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::error::StoreError;
use crate::names::Seq;

/// The version of a journal from which no run was ever removed.
const FIRST_VERSION: i64 = 1;

/// The version of a journal from which runs were removed, and the newest that this program reads. An older program would
/// take a removed run for a lost one.
pub(crate) const VERSION: i64 = 2;

/// The application id of a journal in the header of its SQLite file: `Thrl` in ASCII.
const APPLICATION: i64 = 0x5468_726C;

/// The time to wait for another process that writes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The page of the table `meta`. It is the first table that is created, behind the page that says what each page is for.
/// Journals that cannot shrink have no such page; there it was the second table.
pub(crate) const META_PAGE: u32 = 3;

/// Changes the page of the table `meta`, which is how a transaction says that all before it are on disk.
pub(crate) const SYNC_MARK: &str =
    "INSERT INTO meta (name, value) VALUES ('synced', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1";

/// Every table, as SQLite stores its text. The id of an event combines the number of its run and its own number, so that
/// events are always appended at the end of a run. `number` counts runs, and `meta` how many there were and how many were
/// removed, so that a lost one is noticed.
const TABLES: [(&str, &str); 4] = [
    (
        "event",
        "CREATE TABLE event (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL, time TEXT NOT NULL, \
         payload TEXT NOT NULL, hash BLOB NOT NULL) STRICT",
    ),
    ("meta", "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID"),
    (
        "run",
        "CREATE TABLE run (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, \
         file TEXT NOT NULL, started_at TEXT NOT NULL, events INTEGER NOT NULL, last_kind TEXT NOT NULL, \
         status TEXT NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL) STRICT",
    ),
    (
        "value",
        "CREATE TABLE value (number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL) STRICT",
    ),
];

/// The number of bits of an event's id that hold its number in the run.
const SEQ_BITS: u32 = 40;

/// The key of an event in its table.
pub(crate) fn event_id(run: i64, seq: Seq) -> Result<i64, StoreError> {
    let fits = run > 0 && run < 1 << (63 - SEQ_BITS) && seq < 1 << SEQ_BITS;
    let seq = i64::try_from(seq).ok().filter(|_| fits);
    seq.map(|seq| run << SEQ_BITS | seq).ok_or_else(|| StoreError::damaged("a number is out of range"))
}

/// The keys between which all events of a run are.
pub(crate) fn event_ids(run: i64) -> Result<(i64, i64), StoreError> {
    Ok((event_id(run, 0)?, event_id(run, (1 << SEQ_BITS) - 1)?))
}

/// The number of the run that the event with this key belongs to.
pub(crate) fn run_of(id: i64) -> i64 {
    id >> SEQ_BITS
}

/// The number in its run of the event with this key.
pub(crate) fn seq_of(id: i64) -> Seq {
    (id & ((1 << SEQ_BITS) - 1)).unsigned_abs()
}

/// The bytes of an empty journal that keeps a log. They are made in memory, so that one file is written as a whole and
/// no failure in between can leave half a journal.
pub(crate) fn empty_journal() -> Result<Vec<u8>, StoreError> {
    let mut connection = Connection::open_in_memory()?;
    create(&connection)?;
    let mut bytes = connection.serialize(rusqlite::MAIN_DB)?.to_vec();
    // The versions of the format that writers and readers need: with 2, changes go to a log first.
    bytes.get_mut(18..20).ok_or_else(|| StoreError::damaged("a new journal is empty"))?.fill(2);
    Ok(bytes)
}

/// Fills an empty database.
pub(crate) fn create(connection: &Connection) -> Result<(), StoreError> {
    // Pages that become free can be given back. This is decided before there is a table.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    let transaction = connection.unchecked_transaction()?;
    let (meta, others): (Vec<_>, Vec<_>) = TABLES.into_iter().partition(|(name, _)| *name == "meta");
    for (_, text) in meta.into_iter().chain(others) {
        transaction.execute_batch(text)?;
    }
    transaction.execute("INSERT INTO meta (name, value) VALUES ('runs', 0)", [])?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FIRST_VERSION)?;
    Ok(transaction.commit()?)
}

/// Checks that a database is a journal that this program may use, and keeps a log.
pub(crate) fn check(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    check_format(connection, file)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::damaged(format!("its mode is `{mode}`")));
    }
    Ok(())
}

/// Checks that a database is a journal that this program may read.
pub(crate) fn check_format(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    connection.busy_timeout(PATIENCE)?;
    let not_ours = || StoreError::NotAJournal { file: file.to_owned() };
    let application = match connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0))
    {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => return Err(not_ours()),
        application => application?,
    };
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if application != APPLICATION || version < FIRST_VERSION {
        return Err(not_ours());
    }
    if version > VERSION {
        return Err(StoreError::Newer { found: version, known: VERSION });
    }
    check_tables(connection)
}

fn check_tables(connection: &Connection) -> Result<(), StoreError> {
    let query = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let found = rows.collect::<Result<Vec<_>, _>>()?;
    let same = |((name, text), (known_name, known_text)): (&(String, String), &(&str, &str))| {
        name == known_name && text == known_text
    };
    if found.len() == TABLES.len() && found.iter().zip(&TABLES).all(same) {
        return Ok(());
    }
    Err(StoreError::damaged("its tables are not those of a journal"))
}

/// Settings for the one connection of a process that writes: a commit is handed to the operating system when it returns,
/// and the writer itself decides when to sync the log and when to move it into the main file, which SQLite does durably.
pub(crate) fn prepare_writer(connection: &Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    take_in_log(connection)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    prepare_any(connection, "normal")
}

/// Moves a log that a killed process left into the main file, so that nothing is ever written behind torn frames. A log
/// that other processes use stays.
fn take_in_log(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(Duration::ZERO)?;
    let taken = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(PATIENCE)?;
    match taken.map_err(StoreError::from) {
        Err(StoreError::Locked) => Ok(()),
        taken => taken,
    }
}

/// Settings for a connection that only reads.
pub(crate) fn prepare_reader(connection: &Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "query_only", true)?;
    prepare_any(connection, "full")
}

/// The last connection to close, whichever it is, moves the log into the main file, and must do so durably: with either
/// level it does.
fn prepare_any(connection: &Connection, synchronous: &str) -> Result<(), StoreError> {
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection.pragma_update(None, "trusted_schema", false)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is synced cannot be seen without taking the power away, so the settings are looked at.
    #[test]
    fn the_log_is_moved_durably() {
        for (writes, expected) in [(true, 1), (false, 2)] {
            let connection = Connection::open_in_memory().unwrap();
            connection.pragma_update(None, "synchronous", "off").unwrap();
            if writes { prepare_writer(&connection) } else { prepare_reader(&connection) }.unwrap();
            let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            assert_eq!(level, expected, "1 is `normal`, 2 is `full`");
        }
    }

    #[test]
    fn the_mark_changes_its_page() {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection).unwrap();
        let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'";
        let page: u32 = connection.query_row(page, [], |row| row.get(0)).unwrap();
        assert_eq!(page, META_PAGE);
        let value =
            || connection.query_row("SELECT value FROM meta WHERE name = 'synced'", [], |row| row.get(0));
        for expected in 1..4 {
            connection.execute(SYNC_MARK, []).unwrap();
            assert_eq!(value(), Ok::<i64, _>(expected));
        }
    }

    #[test]
    fn the_id_of_an_event_holds_its_run_and_number() {
        for (run, seq) in [(1, 0), (1, 1), (7, 12), ((1 << 23) - 1, (1 << 40) - 1)] {
            let id = event_id(run, seq).unwrap();
            assert_eq!((id >> SEQ_BITS, seq_of(id)), (run, seq));
        }
        for (run, seq) in [(0, 1), (-1, 1), (1 << 23, 1), (1, 1 << 40), (1, u64::MAX)] {
            assert!(event_id(run, seq).is_err(), "{run} {seq}");
        }
    }
}
