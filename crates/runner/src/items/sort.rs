//! Sorts more records than fit in memory: sorted runs on disk, merged a few at a time. Equal ones keep their order.
//!
//! A record is what it is sorted by and some bytes; what the bytes mean is for whoever sorts.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use threadline_lang::value::ops;
use threadline_lang::{Type, Value};

use super::spool::{self, SpoolReader, SpoolWriter};

/// How one key is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyOrder {
    /// The largest first.
    pub descending: bool,
    /// Nulls before everything else; without it they come last, in both directions.
    pub nulls_first: bool,
}

impl KeyOrder {
    fn compare(self, a: &Value, b: &Value) -> Ordering {
        let nulls = |order: Ordering| if self.nulls_first { order.reverse() } else { order };
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => nulls(Ordering::Greater),
            (false, true) => nulls(Ordering::Less),
            (false, false) => {
                // Only keys that have an order were admitted.
                let order = ops::order(a, b).unwrap_or(Ordering::Equal);
                if self.descending { order.reverse() } else { order }
            }
        }
    }
}

/// Why a key has no place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disorder {
    /// It is neither number nor text nor null.
    Kind {
        /// Which of the keys, from 0.
        key: usize,
        /// The value that cannot be compared.
        value: Value,
        /// Which item, from 0, among those that are sorted.
        item: u64,
    },
    /// A number and a text have no order.
    Mixed {
        /// Which of the keys, from 0.
        key: usize,
        /// The first value that decided.
        first: (Value, u64),
        /// The one that does not go with it.
        second: (Value, u64),
    },
}

/// Checks that the keys of all records have an order.
#[derive(Default)]
pub(crate) struct Admission {
    firsts: Vec<Option<(Value, u64)>>,
}

impl Admission {
    pub(super) fn admit(&mut self, keys: &[Value], item: u64) -> Result<(), Disorder> {
        self.firsts.resize(keys.len(), None);
        for (key, (value, first)) in keys.iter().zip(&mut self.firsts).enumerate() {
            let is_text = match value.kind() {
                Type::Null => continue,
                Type::Text => true,
                Type::Int | Type::Decimal => false,
                _ => return Err(Disorder::Kind { key, value: value.clone(), item }),
            };
            match first {
                None => *first = Some((value.clone(), item)),
                Some(first) if (first.0.kind() == Type::Text) != is_text => {
                    return Err(Disorder::Mixed { key, first: first.clone(), second: (value.clone(), item) });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// So many runs are merged at once.
const FAN_IN: usize = 16;

/// What a record takes in memory beside its bytes.
const OVERHEAD: usize = size_of::<SortRecord>() + size_of::<Value>();

pub(crate) struct SortRecord {
    keys: Vec<Value>,
    number: u64,
    bytes: Range<usize>,
}

/// Takes records, and gives them in order.
pub(crate) struct Sorter {
    orders: Rc<[KeyOrder]>,
    folder: PathBuf,
    memory: usize,
    records: Vec<SortRecord>,
    bytes: Vec<u8>,
    keys: usize,
    count: u64,
    /// Sorted runs by how often they were merged: so a record is written once more only when there are many times as
    /// many.
    levels: Vec<Vec<SpoolReader>>,
}

impl Sorter {
    /// Nothing yet. It takes about `memory` bytes of memory.
    pub(crate) fn new(orders: &[KeyOrder], folder: &Path, memory: usize) -> Self {
        Self {
            orders: orders.into(),
            folder: folder.to_owned(),
            memory,
            records: Vec::new(),
            bytes: Vec::new(),
            keys: 0,
            count: 0,
            levels: Vec::new(),
        }
    }

    /// Takes a record. `write` appends its bytes.
    pub(crate) fn push(&mut self, keys: Vec<Value>, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let heap = |key: &Value| size_of::<Value>() + key.as_str().map_or(16, str::len);
        self.keys += keys.iter().map(heap).sum::<usize>();
        self.records.push(SortRecord { keys, number: self.count, bytes: start..self.bytes.len() });
        self.count += 1;
        if self.bytes.len() + self.keys + self.records.len() * OVERHEAD > self.memory {
            self.spill()?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let orders = &self.orders;
        self.records.sort_by(|a, b| compare(orders, &a.keys, &b.keys));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut writer = SpoolWriter::create(&self.folder)?;
        for record in self.records.drain(..) {
            write_record(&mut writer, record.number, &record.keys, &self.bytes[record.bytes])?;
        }
        self.bytes.clear();
        self.keys = 0;
        self.add_run(writer.finish()?)
    }

    /// A full level becomes one run of the next, so that only so many files are ever open.
    fn add_run(&mut self, mut run: SpoolReader) -> io::Result<()> {
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Vec::with_capacity(FAN_IN));
            }
            self.levels[level].push(run);
            if self.levels[level].len() < FAN_IN {
                break;
            }
            let full = std::mem::take(&mut self.levels[level]);
            let mut merge = Merge::new(Rc::clone(&self.orders), full)?;
            let mut writer = SpoolWriter::create(&self.folder)?;
            while let Some(head) = merge.next()? {
                write_record(&mut writer, head.number, &head.keys, &head.bytes)?;
            }
            run = writer.finish()?;
        }
        Ok(())
    }

    /// All records in order.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.levels.is_empty() {
            self.sort();
            return Ok(Sorted::Memory { records: self.records.into_iter(), bytes: self.bytes });
        }
        if !self.records.is_empty() {
            self.spill()?;
        }
        let runs = self.levels.into_iter().flatten().collect();
        Ok(Sorted::Runs(Merge::new(self.orders, runs)?))
    }
}

fn compare(orders: &[KeyOrder], a: &[Value], b: &[Value]) -> Ordering {
    let mut each = orders.iter().zip(a.iter().zip(b)).map(|(order, (a, b))| order.compare(a, b));
    each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Records in order.
pub(crate) enum Sorted {
    Memory { records: std::vec::IntoIter<SortRecord>, bytes: Vec<u8> },
    Runs(Merge),
}

impl Sorted {
    /// Gives the keys and bytes of each record.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<Value>, Vec<u8>)>> {
        match self {
            Self::Memory { records, bytes } => {
                Ok(records.next().map(|record| (record.keys, bytes[record.bytes].to_vec())))
            }
            Self::Runs(merge) => Ok(merge.next()?.map(|head| (head.keys, head.bytes))),
        }
    }
}

pub(crate) struct SortedHead {
    keys: Vec<Value>,
    number: u64,
    bytes: Vec<u8>,
}

pub(crate) struct Merge {
    orders: Rc<[KeyOrder]>,
    runs: Vec<(SortedHead, SpoolReader)>,
}

impl Merge {
    fn new(orders: Rc<[KeyOrder]>, readers: Vec<SpoolReader>) -> io::Result<Self> {
        let mut runs = Vec::with_capacity(readers.len());
        for mut reader in readers {
            if let Some(head) = read_record(&mut reader, orders.len())? {
                runs.push((head, reader));
            }
        }
        Ok(Self { orders, runs })
    }

    fn next(&mut self) -> io::Result<Option<SortedHead>> {
        let order = |a: &SortedHead, b: &SortedHead| {
            compare(&self.orders, &a.keys, &b.keys).then(a.number.cmp(&b.number))
        };
        let least = self.runs.iter().enumerate().min_by(|(_, (a, _)), (_, (b, _))| order(a, b));
        let Some((at, _)) = least else { return Ok(None) };
        let (head, reader) = &mut self.runs[at];
        match read_record(reader, self.orders.len())? {
            Some(next) => Ok(Some(std::mem::replace(head, next))),
            None => Ok(Some(self.runs.swap_remove(at).0)),
        }
    }
}

fn write_record(writer: &mut SpoolWriter, number: u64, keys: &[Value], bytes: &[u8]) -> io::Result<()> {
    writer.number(number)?;
    let mut encoded = Vec::new();
    for key in keys {
        encoded.clear();
        spool::encode(key, &mut encoded);
        writer.bytes(&encoded)?;
    }
    writer.bytes(bytes)
}

fn read_record(reader: &mut SpoolReader, keys: usize) -> io::Result<Option<SortedHead>> {
    let Some(number) = reader.next_number()? else { return Ok(None) };
    let keys = (0..keys).map(|_| spool::decode(&reader.bytes()?)).collect::<io::Result<_>>()?;
    Ok(Some(SortedHead { keys, number, bytes: reader.bytes()? }))
}
