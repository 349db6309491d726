//! Items in the store: a few thousand to a value, each value stored once by its hash, and an index of which item is
//! where. An item is found by loading the one chunk that holds it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use threadline_engine::event::Datum;
use threadline_lang::value::Oversized;
use threadline_lang::{ComputeError, PagedList, Value};
use threadline_store::{JournalError, JournalReader, Store, StoreError, wire};

/// Why items cannot be stored or found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkError {
    /// The journal says so.
    Journal(JournalError),
    /// An item is nested too deep to stand in a list.
    TooDeep {
        /// The index of the item.
        index: u64,
    },
    /// The index is not one, in words.
    Index(String),
    /// There is no such item.
    Missing {
        /// Which was asked for.
        index: u64,
        /// How many there are.
        len: u64,
    },
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::TooDeep { index } => write!(f, "item {index} is nested too deep to be stored in a list"),
            Self::Index(why) => write!(f, "the index of items cannot be read: {why}"),
            Self::Missing { index, len } => write!(f, "there is no item {index}, only {len}"),
        }
    }
}

impl std::error::Error for ChunkError {}

impl From<ChunkError> for JournalError {
    fn from(error: ChunkError) -> Self {
        match error {
            ChunkError::Journal(error) => error,
            error => Self::Value(error.to_string()),
        }
    }
}

impl From<StoreError> for ChunkError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}

/// Which items are where.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    /// The index of the first item of each chunk, and the chunk.
    chunks: Vec<(u64, Datum)>,
    len: u64,
}

impl Chunks {
    /// How many items there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many chunks there are.
    pub fn count(&self) -> usize {
        self.chunks.len()
    }

    /// The index itself as a value for an event.
    pub fn store(&self, store: &Store) -> Result<Datum, ChunkError> {
        let chunk =
            |(first, datum): &(u64, Datum)| Value::list(vec![Value::from(*first), wire::datum(datum)]);
        let chunks = self.chunks.iter().map(chunk).collect::<Result<Vec<_>, _>>().and_then(Value::list);
        let index = chunks.and_then(|chunks| Value::list(vec![Value::from(self.len), chunks]));
        let index = index.map_err(|Oversized(limit)| ChunkError::Index(limit.name().to_owned()))?;
        Ok(store.datum(&index)?)
    }

    /// The index that [`Chunks::store`] stored.
    pub fn load(reader: &JournalReader, datum: &Datum) -> Result<Self, ChunkError> {
        let index = reader.load(datum).map_err(ChunkError::Journal)?;
        let not_one = || ChunkError::Index("it has another form".to_owned());
        let Some([len, chunks]) = index.as_list() else { return Err(not_one()) };
        let chunk = |value: &Value| {
            let Some([first, datum]) = value.as_list() else { return Err(not_one()) };
            let datum = wire::read_datum(datum).map_err(ChunkError::Index)?;
            Ok((as_u64(first).ok_or_else(not_one)?, datum))
        };
        let chunks = chunks.as_list().ok_or_else(not_one)?.iter().map(chunk).collect::<Result<_, _>>()?;
        Ok(Self { chunks, len: as_u64(len).ok_or_else(not_one)? })
    }
}

fn as_u64(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|number| u64::try_from(number).ok())
}

/// Packs items into chunks.
pub struct ChunkWriter<'s> {
    store: &'s Store,
    max_items: usize,
    max_bytes: u64,
    items: Vec<Value>,
    bytes: u64,
    done: Chunks,
}

impl<'s> ChunkWriter<'s> {
    /// Chunks of at most so many items and about so many bytes; an item that is larger has a chunk to itself.
    pub fn new(store: &'s Store, max_items: usize, max_bytes: u64) -> Self {
        Self { store, max_items, max_bytes, items: Vec::new(), bytes: 0, done: Chunks::default() }
    }

    /// Takes the next item.
    pub fn push(&mut self, item: Value) -> Result<(), ChunkError> {
        let bytes = item.size() + 1;
        if self.items.len() >= self.max_items || self.bytes + bytes > self.max_bytes {
            self.flush()?;
        }
        // A list around it must be possible, and this is where it is known which item is at fault.
        if item.depth() >= threadline_lang::value::MAX_DEPTH {
            return Err(ChunkError::TooDeep { index: self.done.len });
        }
        self.items.push(item);
        self.bytes += bytes;
        self.done.len += 1;
        Ok(())
    }

    /// How many items there are so far.
    pub fn len(&self) -> u64 {
        self.done.len
    }

    /// Whether there is none so far.
    pub fn is_empty(&self) -> bool {
        self.done.len == 0
    }

    /// Stores the rest. An event that is appended from now on may name the chunks.
    pub fn finish(mut self) -> Result<Chunks, ChunkError> {
        self.flush()?;
        Ok(self.done)
    }

    fn flush(&mut self) -> Result<(), ChunkError> {
        if self.items.is_empty() {
            return Ok(());
        }
        let first = self.done.len - self.items.len() as u64;
        let list = Value::list(std::mem::take(&mut self.items));
        let list = list.map_err(|Oversized(_)| ChunkError::TooDeep { index: first })?;
        self.done.chunks.push((first, self.store.datum(&list)?));
        self.bytes = 0;
        Ok(())
    }
}

/// So many chunks are kept in memory.
const KEPT: usize = 4;

/// Finds items in chunks; those used last are kept.
pub struct ChunkReader {
    reader: JournalReader,
    chunks: Arc<Chunks>,
    kept: Mutex<VecDeque<(usize, Value)>>,
}

impl ChunkReader {
    /// The items of an index. They can be read as soon as an event that was appended after them is on disk.
    pub fn new(reader: &JournalReader, chunks: Arc<Chunks>) -> Self {
        Self { reader: reader.clone(), chunks, kept: Mutex::default() }
    }

    /// The items of an index that was stored.
    pub fn open(reader: &JournalReader, index: &Datum) -> Result<Self, ChunkError> {
        Ok(Self::new(reader, Arc::new(Chunks::load(reader, index)?)))
    }

    /// How many items there are.
    pub fn len(&self) -> u64 {
        self.chunks.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The number of bytes that the items take in the store.
    pub fn bytes(&self) -> u64 {
        let bytes = |(_, chunk): &(u64, Datum)| match chunk {
            Datum::Here(list) => list.size(),
            Datum::Stored { len, .. } => *len,
        };
        self.chunks.chunks.iter().map(bytes).sum()
    }

    /// All items at once; none if they are nested too deep, or too large, for one list.
    pub fn elements(&self) -> Result<Option<Value>, ChunkError> {
        let mut elements = Vec::new();
        for (_, chunk) in &self.chunks.chunks {
            let list = self.reader.load(chunk).map_err(ChunkError::Journal)?;
            elements.extend_from_slice(list.as_list().unwrap_or_default());
        }
        Ok(Value::list(elements).ok())
    }

    /// Loads the item at an index.
    pub fn item(&self, index: u64) -> Result<Value, ChunkError> {
        let missing = || ChunkError::Missing { index, len: self.chunks.len };
        if index >= self.chunks.len {
            return Err(missing());
        }
        let at = self.chunks.chunks.partition_point(|(first, _)| *first <= index);
        let at = at.checked_sub(1).ok_or_else(missing)?;
        let list = self.chunk(at)?;
        let within = usize::try_from(index - self.chunks.chunks[at].0).map_err(|_| missing())?;
        list.as_list().and_then(|items| items.get(within)).cloned().ok_or_else(missing)
    }

    /// The items from this one to the end of its chunk.
    fn rest_of_chunk(&self, from: u64) -> Result<Value, ChunkError> {
        let missing = || ChunkError::Missing { index: from, len: self.chunks.len };
        let at = self.chunks.chunks.partition_point(|(first, _)| *first <= from);
        let at = at.checked_sub(1).ok_or_else(missing)?;
        let list = self.chunk(at)?;
        let within = usize::try_from(from - self.chunks.chunks[at].0).map_err(|_| missing())?;
        if within == 0 {
            return Ok(list);
        }
        let rest = list.as_list().and_then(|items| items.get(within..)).ok_or_else(missing)?;
        Value::list(rest.to_vec()).map_err(|Oversized(_)| missing())
    }

    fn chunk(&self, at: usize) -> Result<Value, ChunkError> {
        let found = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let position = kept.iter().position(|(chunk, _)| *chunk == at);
            let entry = position.and_then(|position| kept.remove(position));
            entry.map(|(_, list)| {
                kept.push_back((at, list.clone()));
                list
            })
        };
        if let Some(list) = found {
            return Ok(list);
        }
        // Two that miss at once load it twice, and neither waits for the other's disk.
        let list = self.reader.load(&self.chunks.chunks[at].1).map_err(ChunkError::Journal)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(chunk, _)| *chunk != at);
        kept.push_back((at, list.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(list)
    }
}

impl PagedList for ChunkReader {
    fn len(&self) -> u64 {
        self.chunks.len
    }

    fn page(&self, from: u64) -> Result<Value, ComputeError> {
        self.rest_of_chunk(from)
            .map_err(|error| ComputeError::Failed { message: error.to_string(), hint: None })
    }
}
