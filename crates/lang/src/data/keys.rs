//! The keys of the objects being read: repeated ones are found, and records of one shape get one table.
//!
//! While the keys of an object follow those of an object read shortly before, nothing is hashed, copied or
//! compared with the other keys: the known table has done all that.

use std::sync::Arc;

use crate::data::{ReadError, ReadErrorKind};
use crate::diag::Span;
use crate::value::{Key, KeyTable};

/// How many of the last tables an object is compared with.
const RECENT: usize = 8;

/// Gathers the keys of nested objects and gives a table for each.
pub struct KeyTables {
    /// Every table so far. The objects hold them anyway, and so positions stay right.
    tables: Vec<Arc<KeyTable>>,
    open: Vec<OpenKeys>,
    /// The keys of the open objects that follow no known table.
    keys: Vec<Key>,
    /// Where the keys of the open objects stand.
    spans: Vec<Span>,
}

struct OpenKeys {
    first_key: usize,
    first_span: usize,
    /// The table that the keys so far are the beginning of, until there is none.
    follows: Option<usize>,
}

impl KeyTables {
    /// Nothing gathered yet.
    pub fn new() -> Self {
        Self {
            tables: Vec::with_capacity(16),
            open: Vec::with_capacity(16),
            keys: Vec::with_capacity(32),
            spans: Vec::with_capacity(32),
        }
    }

    /// An object begins.
    pub fn begin(&mut self) {
        let follows = self.tables.len().checked_sub(1);
        self.open.push(OpenKeys { first_key: self.keys.len(), first_span: self.spans.len(), follows });
    }

    /// The innermost object has this key next.
    #[inline]
    pub fn key(&mut self, name: &str, span: Span) {
        let Some(open) = self.open.last_mut() else { return };
        let at = self.spans.len() - open.first_span;
        self.spans.push(span);
        if let Some(table) = open.follows {
            if is_next(&self.tables[table], at, name) {
                return;
            }
            open.follows = follow(&self.tables, table, at, |keys| is_next(keys, at, name));
            if open.follows.is_some() {
                return;
            }
            self.keys.extend_from_slice(&self.tables[table].as_slice()[..at]);
        }
        self.keys.push(Key::new(name));
    }

    /// The innermost object ends; a key that stood twice in it is an error.
    pub fn end(&mut self) -> Result<Arc<KeyTable>, ReadError> {
        let Some(open) = self.open.pop() else { return Ok(Arc::default()) };
        let count = self.spans.len() - open.first_span;
        if let Some(table) = open.follows {
            let whole = |keys: &KeyTable| keys.as_slice().len() == count;
            let found = if whole(&self.tables[table]) {
                Some(table)
            } else {
                follow(&self.tables, table, count, whole)
            };
            if let Some(found) = found {
                self.spans.truncate(open.first_span);
                return Ok(Arc::clone(&self.tables[found]));
            }
            self.keys.extend_from_slice(&self.tables[table].as_slice()[..count]);
        }
        self.add(&open)
    }

    fn add(&mut self, open: &OpenKeys) -> Result<Arc<KeyTable>, ReadError> {
        let keys = self.keys.split_off(open.first_key);
        let keys = KeyTable::new(keys).map_err(|repeated| {
            let key = &repeated.keys[repeated.at];
            let first = repeated.keys.iter().position(|other| other == key).unwrap_or(repeated.at);
            let span = |at: usize| self.spans[open.first_span + at];
            let kind = ReadErrorKind::DuplicateKey { key: key.name().clone(), first: span(first) };
            ReadError::new(kind, span(repeated.at))
        })?;
        self.spans.truncate(open.first_span);
        let keys = Arc::new(keys);
        self.tables.push(Arc::clone(&keys));
        Ok(keys)
    }
}

impl Default for KeyTables {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn is_next(keys: &KeyTable, at: usize, name: &str) -> bool {
    keys.as_slice().get(at).is_some_and(|key| key.as_str() == name)
}

/// Another recent table that begins with the same `count` keys and suits.
fn follow(
    tables: &[Arc<KeyTable>],
    table: usize,
    count: usize,
    suits: impl Fn(&KeyTable) -> bool,
) -> Option<usize> {
    let prefix = &tables[table].as_slice()[..count];
    let oldest = tables.len().saturating_sub(RECENT);
    (oldest..tables.len()).rev().find(|other| {
        *other != table && suits(&tables[*other]) && tables[*other].as_slice().get(..count) == Some(prefix)
    })
}
