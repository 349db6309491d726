//! The first item of each key, with equality as the language has it.
//!
//! While the keys fit in memory each item is judged as it comes. From there on the items wait on disk, their keys are
//! sorted, and what is kept of an item in memory is one bit: whether it is the first of its key.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use threadline_lang::Value;

use super::sort::{KeyOrder, Sorter};
use super::spool::{self, SpoolWriter};

/// What a key takes in memory beside its text.
const OVERHEAD: usize = 48;

/// What becomes of an item.
pub(super) enum Novelty {
    /// It is the first of its key.
    First(Value),
    /// It is not.
    Again,
    /// It waits for [`Distinct::finish`].
    Later,
}

pub(super) struct Distinct {
    folder: PathBuf,
    memory: usize,
    seen: HashSet<Box<str>>,
    bytes: usize,
    waiting: Option<UndecidedItem>,
}

struct UndecidedItem {
    items: SpoolWriter,
    count: u64,
    keys: Sorter,
}

impl Distinct {
    /// Nothing seen yet. It takes about `memory` bytes of memory.
    pub(super) fn new(folder: &Path, memory: usize) -> Self {
        Self { folder: folder.to_owned(), memory, seen: HashSet::new(), bytes: 0, waiting: None }
    }

    /// Takes an item and its key, as the text that equal keys have in common.
    pub(super) fn judge(&mut self, key: String, item: Value) -> io::Result<Novelty> {
        if let Some(waiting) = &mut self.waiting {
            // What was given before is known, and need not wait.
            waiting.keys.push(vec![Value::from(key)], number(waiting.count))?;
            waiting.count += 1;
            let mut encoded = Vec::new();
            spool::encode(&item, &mut encoded);
            waiting.items.bytes(&encoded)?;
            return Ok(Novelty::Later);
        }
        let len = key.len();
        if !self.seen.insert(key.into_boxed_str()) {
            return Ok(Novelty::Again);
        }
        self.bytes += len + OVERHEAD;
        if self.bytes > self.memory {
            self.begin_to_wait()?;
        }
        Ok(Novelty::First(item))
    }

    /// The keys that were seen go before all others of their text.
    fn begin_to_wait(&mut self) -> io::Result<()> {
        let mut keys = Sorter::new(&[KeyOrder::default()], &self.folder, self.memory);
        for key in std::mem::take(&mut self.seen) {
            keys.push(vec![Value::from(&*key)], number(GIVEN))?;
        }
        self.waiting = Some(UndecidedItem { items: SpoolWriter::create(&self.folder)?, count: 0, keys });
        Ok(())
    }

    /// Gives the items that waited and are the first of their keys, in their order.
    pub(super) fn finish<E: From<io::Error>>(
        self,
        take: &mut dyn FnMut(Value) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(UndecidedItem { items, count, keys }) = self.waiting else { return Ok(()) };
        let firsts = firsts(keys, count)?;
        let mut items = items.finish()?;
        for at in 0..count {
            let bytes = items.bytes()?;
            if firsts.has(at) {
                take(spool::decode(&bytes)?)?;
            }
        }
        Ok(())
    }
}

/// The number of a key whose item was given before any waited.
const GIVEN: u64 = u64::MAX;

fn number(number: u64) -> impl FnOnce(&mut Vec<u8>) {
    move |out| out.extend_from_slice(&number.to_le_bytes())
}

/// Sorting is stable, so the first record of a key is its first item.
fn firsts(keys: Sorter, count: u64) -> io::Result<Bits> {
    let mut firsts = Bits::new(count)?;
    let mut sorted = keys.finish()?;
    let mut last: Option<Value> = None;
    while let Some((mut keys, bytes)) = sorted.next()? {
        let key = keys.pop().unwrap_or_default();
        if last.as_ref() != Some(&key) {
            let number = bytes.try_into().map(u64::from_le_bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            if number != GIVEN {
                firsts.set(number);
            }
            last = Some(key);
        }
    }
    Ok(firsts)
}

struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> io::Result<Self> {
        let words = usize::try_from(count.div_ceil(64)).map_err(io::Error::other)?;
        Ok(Self(vec![0; words]))
    }

    fn set(&mut self, at: u64) {
        if let Some(word) = usize::try_from(at / 64).ok().and_then(|word| self.0.get_mut(word)) {
            *word |= 1 << (at % 64);
        }
    }

    fn has(&self, at: u64) -> bool {
        let word = usize::try_from(at / 64).ok().and_then(|word| self.0.get(word));
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}
