//! The items of a step that works on many: read from where they come, selected, and given in order.
//!
//! A million items are never in memory: a stream is read item by item, and what has to wait for others, because it is
//! sorted or compared, waits on disk. The steps of a selection have one order: `json_path`, filter, sort, distinct,
//! offset, number of items.
//!
//! Nothing here evaluates an expression; whoever selects gives functions for that.

mod chunk;
mod csv;
mod distinct;
mod document;
mod files;
mod sort;
mod source;
pub(crate) mod spool;
mod window;

use std::fmt;
use std::io;
use std::path::Path;

use threadline_flow::json_path::JsonPath;
use threadline_flow::model::SourceFormat;
use threadline_lang::diag::preview;
use threadline_lang::{Limits, Value};

pub use chunk::{ChunkError, ChunkReader, ChunkWriter, Chunks};
pub use csv::CsvFault;
pub use sort::{Disorder, KeyOrder};
pub use source::{ItemSource, SourceError, SourceErrorKind};
pub use window::StreamPosition;

use crate::project::plain;
use distinct::{Distinct, Novelty};
use sort::Admission;
pub(crate) use sort::Sorter;
use source::SourceEnd;

/// Says whether an item stays; it is given the index among all items that were read.
pub type Keep<'a, E> = &'a mut dyn FnMut(&Value, u64) -> Result<bool, E>;
/// What an item is sorted by: as many values each time as there are orders.
pub type Keys<'a, E> = &'a mut dyn FnMut(&Value) -> Result<Vec<Value>, E>;
/// What of an item must not occur twice.
pub type ItemKey<'a, E> = &'a mut dyn FnMut(&Value) -> Result<Value, E>;

/// Which items are wanted, and in which order.
pub struct Selection<'a, E> {
    /// Where the items are in a document; without it they are the elements of a list. In JSON lines it selects in each
    /// line.
    pub json_path: Option<&'a JsonPath>,
    /// Which items stay.
    pub keep: Option<Keep<'a, E>>,
    /// What they are sorted by, and how each of that is ordered. Equal ones keep their order.
    pub sort: Option<(Keys<'a, E>, &'a [KeyOrder])>,
    /// Of items that are alike in this the first stays.
    pub distinct: Option<ItemKey<'a, E>>,
    /// So many are left out.
    pub offset: u64,
    /// So many are given at most. Reading ends with the last of them, unless all have to be known.
    pub max_items: Option<u64>,
}

impl<E> Default for Selection<'_, E> {
    fn default() -> Self {
        Self { json_path: None, keep: None, sort: None, distinct: None, offset: 0, max_items: None }
    }
}

/// How much a selection may take.
#[derive(Debug, Clone)]
pub struct SelectLimits {
    /// The limits of what is read: a line, an element of a list, and a document whose path cannot be streamed may have
    /// `source` bytes.
    pub data: Limits,
    /// The memory of a sort, and that of the keys of `distinct`, in bytes.
    pub memory: usize,
}

impl Default for SelectLimits {
    fn default() -> Self {
        Self { data: Limits::DEFAULT, memory: 32 << 20 }
    }
}

/// What became of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SelectionCounts {
    /// The form in which a stream was read.
    pub format: Option<SourceFormat>,
    /// Items that were read.
    pub read: u64,
    /// Items that stayed after the filter.
    pub kept: u64,
    /// Items that stayed because they are the first of their key.
    pub distinct: u64,
    /// Items that were given.
    pub given: u64,
    /// Whether the source was read to its end.
    pub complete: bool,
}

/// Why a selection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectError<E> {
    /// The source does not give its items.
    ItemSource(SourceError),
    /// Items cannot be put in an order.
    KeyOrder(Disorder),
    /// What must not occur twice cannot be compared, in words.
    Distinct(String),
    /// What has to wait cannot be written or read, in words.
    Spool(String),
    /// A function that was given failed.
    Caller(E),
}

impl<E: fmt::Display> fmt::Display for SelectError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ItemSource(error) => error.fmt(f),
            Self::KeyOrder(Disorder::Kind { key, value, item }) => write!(
                f,
                "key {} of the sort is {} for item {item}; items are sorted by numbers or texts",
                key + 1,
                preview(value)
            ),
            Self::KeyOrder(Disorder::Mixed { key, first, second }) => write!(
                f,
                "key {} of the sort is {} for item {} and {} for item {}, which have no order",
                key + 1,
                preview(&first.0),
                first.1,
                preview(&second.0),
                second.1
            ),
            Self::Distinct(why) => write!(f, "items cannot be compared: {why}"),
            Self::Spool(why) => write!(f, "items cannot be kept on disk: {why}"),
            Self::Caller(error) => error.fmt(f),
        }
    }
}

impl<E> SelectError<E> {
    /// What to do about it, when there is one thing to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ItemSource(error) => error.hint(),
            Self::KeyOrder(Disorder::Mixed { .. }) => {
                Some("make them alike with `number(...)` or `text(...)`")
            }
            _ => None,
        }
    }
}

/// Inside of a selection, enough is a reason to end, too.
enum SelectionStop<E> {
    Enough,
    Failed(SelectError<E>),
}

impl<E> From<io::Error> for SelectionStop<E> {
    fn from(error: io::Error) -> Self {
        Self::Failed(SelectError::Spool(plain(&error)))
    }
}

/// Gives every selected item to `take`, in order. `spool` is a folder for what does not fit in memory; nothing stays
/// there.
pub fn select<E>(
    source: ItemSource<'_>,
    selection: Selection<'_, E>,
    spool: &Path,
    limits: &SelectLimits,
    take: &mut dyn FnMut(Value) -> Result<(), E>,
) -> Result<SelectionCounts, SelectError<E>> {
    let name = match &source {
        ItemSource::Value { name, .. } | ItemSource::Items { name, .. } | ItemSource::Stream { name, .. } => {
            name.clone()
        }
    };
    let Selection { json_path, mut keep, sort, distinct, offset, max_items } = selection;
    let mut counts = SelectionCounts::default();
    let mut format = None;
    let distinct = distinct.map(|key| (key, Distinct::new(spool, limits.memory)));
    let mut last = FinalSelection {
        distinct,
        max_key: limits.data.source,
        offset,
        max_items,
        take,
        distinct_count: 0,
        given: 0,
    };
    let mut sort =
        sort.map(|(keys, orders)| (keys, Admission::default(), Sorter::new(orders, spool, limits.memory)));
    let read = source::each(source, json_path, &limits.data, &mut format, &mut |item| {
        if last.is_full() {
            return Err(SourceEnd::Enough);
        }
        let index = counts.read;
        counts.read += 1;
        if let Some(keep) = &mut keep
            && !keep(&item, index)
                .map_err(|error| SourceEnd::Taker(SelectionStop::Failed(SelectError::Caller(error))))?
        {
            return Ok(());
        }
        counts.kept += 1;
        let taken = match &mut sort {
            Some((keys, admission, sorter)) => push_sorted(&item, counts.kept - 1, keys, admission, sorter),
            None => last.push(item),
        };
        taken.map_err(SourceEnd::Taker)
    });
    counts.format = format;
    match read {
        Ok(()) => counts.complete = true,
        Err(SourceEnd::Enough | SourceEnd::Taker(SelectionStop::Enough)) => {}
        Err(SourceEnd::ItemSource(kind)) => return Err(SelectError::ItemSource(SourceError { name, kind })),
        Err(SourceEnd::Taker(SelectionStop::Failed(error))) => return Err(error),
    }
    match finish(sort.map(|(_, _, sorter)| sorter), &mut last) {
        Ok(()) | Err(SelectionStop::Enough) => {}
        Err(SelectionStop::Failed(error)) => return Err(error),
    }
    (counts.distinct, counts.given) = (last.distinct_count, last.given);
    Ok(counts)
}

fn push_sorted<E>(
    item: &Value,
    index: u64,
    keys: &mut Keys<'_, E>,
    admission: &mut Admission,
    sorter: &mut Sorter,
) -> Result<(), SelectionStop<E>> {
    let keys = keys(item).map_err(|error| SelectionStop::Failed(SelectError::Caller(error)))?;
    admission
        .admit(&keys, index)
        .map_err(|disorder| SelectionStop::Failed(SelectError::KeyOrder(disorder)))?;
    Ok(sorter.push(keys, |out| spool::encode(item, out))?)
}

/// Gives what had to wait for the end of the source.
fn finish<E>(sorter: Option<Sorter>, last: &mut FinalSelection<'_, '_, E>) -> Result<(), SelectionStop<E>> {
    if last.is_full() {
        return Ok(());
    }
    if let Some(sorter) = sorter {
        let mut records = sorter.finish()?;
        while let Some((_, bytes)) = records.next()? {
            last.push(spool::decode(&bytes)?)?;
        }
    }
    let Some((_, distinct)) = last.distinct.take() else { return Ok(()) };
    distinct.finish(&mut |item| last.give(item))
}

/// What is done to items that are in order: distinct, offset, number.
struct FinalSelection<'a, 't, E> {
    distinct: Option<(ItemKey<'a, E>, Distinct)>,
    max_key: usize,
    offset: u64,
    max_items: Option<u64>,
    take: &'t mut dyn FnMut(Value) -> Result<(), E>,
    distinct_count: u64,
    given: u64,
}

impl<E> FinalSelection<'_, '_, E> {
    fn is_full(&self) -> bool {
        self.max_items.is_some_and(|max| self.given >= max)
    }

    fn push(&mut self, item: Value) -> Result<(), SelectionStop<E>> {
        let Some((key_of, distinct)) = &mut self.distinct else { return self.give(item) };
        let key = key_of(&item).map_err(|error| SelectionStop::Failed(SelectError::Caller(error)))?;
        let refused = |why: String| SelectionStop::Failed(SelectError::Distinct(why));
        if key.size() > self.max_key as u64 {
            return Err(refused(format!("a key is larger than {} bytes", self.max_key)));
        }
        let mut text = String::new();
        key.write_canonical(&mut text);
        match distinct.judge(text, item)? {
            Novelty::First(item) => self.give(item),
            Novelty::Again | Novelty::Later => Ok(()),
        }
    }

    fn give(&mut self, item: Value) -> Result<(), SelectionStop<E>> {
        if self.is_full() {
            return Err(SelectionStop::Enough);
        }
        self.distinct_count += 1;
        if self.distinct_count <= self.offset {
            return Ok(());
        }
        (self.take)(item).map_err(|error| SelectionStop::Failed(SelectError::Caller(error)))?;
        self.given += 1;
        if self.is_full() { Err(SelectionStop::Enough) } else { Ok(()) }
    }
}
