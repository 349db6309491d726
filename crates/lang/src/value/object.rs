//! Objects and the key tables they share.
//!
//! Keys stand in the order they were written. Records of one shape share one [`KeyTable`], so a list of a million
//! records holds its field names once. Look-up is by a hash computed when the path was parsed; the index of a
//! large table has sorted buckets, so that no choice of keys can make it slow.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ecow::EcoString;

use super::{Extent, Oversized, Value};

/// A name with its hash.
#[derive(Clone, Eq, PartialOrd, Ord)]
pub struct Key {
    hash: u32,
    name: EcoString,
}

impl Key {
    /// The key of a name.
    #[inline]
    pub fn new(name: impl Into<EcoString>) -> Self {
        let name = name.into();
        Self { hash: hash(&name), name }
    }

    /// The name as a text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    #[inline]
    fn is(&self, hash: u32, name: &str) -> bool {
        self.hash == hash && same_name(&self.name, name)
    }

    /// The name, cheap to clone.
    pub fn name(&self) -> &EcoString {
        &self.name
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.is(other.hash, &other.name)
    }
}

/// Equality of names, without a call for the short ones that most names are.
#[inline]
fn same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) => {
            a_first == b_first && a_last == b_last && (a.len() <= 16 || a == b)
        }
        _ => match (a.first_chunk::<4>(), b.first_chunk::<4>(), a.last_chunk::<4>(), b.last_chunk::<4>()) {
            (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) => {
                a_first == b_first && a_last == b_last
            }
            _ => a.iter().zip(b).all(|(a, b)| a == b),
        },
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
pub(crate) fn hash(name: &str) -> u32 {
    // The seed is fixed, so that a path's hashes hold for every table; the index does not rely on the hash
    // being hard to guess.
    let mut hasher = foldhash::fast::FoldHasher::with_seed(0x5bd1_e995, foldhash::SharedSeed::global_fixed());
    hasher.write(name.as_bytes());
    hasher.finish() as u32
}

/// In which table a step of a path found its key the last time, and where. Records of one shape share their table,
/// so most look-ups are one comparison, however large the table.
///
/// The number of a table and a position are packed into one word, so that threads never see half of an update.
#[derive(Default)]
pub(crate) struct LastPosition(AtomicU64);

const POSITION_BITS: u32 = 20;

/// Numbers tables, so that a [`LastPosition`] can tell them apart. It is only ever counted up: what a number was
/// given to can be gone, but no other table gets it. Tables beyond the last number have none and are searched.
static NEXT_TABLE: AtomicU64 = AtomicU64::new(1);

fn table_number() -> u64 {
    let number = NEXT_TABLE.fetch_add(1, Ordering::Relaxed);
    if number >> (64 - POSITION_BITS) == 0 { number } else { 0 }
}

/// Tables up to this size are scanned.
const SCANNED: usize = 12;

/// A table of distinct keys, in the order they were written.
#[derive(Default)]
pub struct KeyTable {
    /// Which table this is; 0 for one that is not told apart.
    number: u64,
    entries: Vec<Key>,
    index: Option<Index>,
}

/// A key stood twice: the keys given, and where the second of the pair is.
#[derive(Debug)]
pub struct Repeated {
    /// The position of the later key.
    pub at: usize,
    /// The keys as they were given.
    pub keys: Vec<Key>,
}

/// Positions of the entries sorted by hash and name, and where each bucket of hashes begins among them.
struct Index {
    shift: u32,
    starts: Vec<u32>,
    order: Vec<u32>,
}

impl KeyTable {
    /// A table of these keys; two equal ones are an error.
    pub fn new(keys: Vec<Key>) -> Result<Self, Repeated> {
        if keys.len() <= SCANNED {
            return match (1..keys.len()).find(|at| keys[..*at].contains(&keys[*at])) {
                Some(at) => Err(Repeated { at, keys }),
                None => Ok(Self { number: table_number(), entries: keys, index: None }),
            };
        }
        match Index::new(&keys) {
            Ok(index) => Ok(Self { number: table_number(), entries: keys, index: Some(index) }),
            Err(at) => Err(Repeated { at, keys }),
        }
    }

    /// The keys in order.
    pub fn as_slice(&self) -> &[Key] {
        &self.entries
    }

    /// The position of a key, looked for first where it was the last time.
    #[inline]
    pub(crate) fn position_near<'n>(
        &self,
        hash: u32,
        name: impl FnOnce() -> &'n str,
        last: &LastPosition,
    ) -> Option<usize> {
        let known = last.0.load(Ordering::Relaxed);
        if known >> POSITION_BITS == self.number && self.number != 0 {
            return Some((known & ((1 << POSITION_BITS) - 1)) as usize);
        }
        let found = self.search(hash, name())?;
        if found >> POSITION_BITS == 0 {
            last.0.store(self.number << POSITION_BITS | found as u64, Ordering::Relaxed);
        }
        Some(found)
    }

    /// The position of a key.
    #[inline]
    pub fn position(&self, key: &Key) -> Option<usize> {
        self.search(key.hash, &key.name)
    }

    #[inline(never)]
    fn search(&self, hash: u32, name: &str) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|entry| entry.is(hash, name)),
            Some(index) => index.position(&self.entries, hash, name),
        }
    }
}

impl Index {
    fn new(entries: &[Key]) -> Result<Self, usize> {
        let count = u32::try_from(entries.len()).map_err(|_| entries.len())?;
        let mut order: Vec<u32> = (0..count).collect();
        let at = |position: u32| &entries[position as usize];
        order.sort_unstable_by(|a, b| at(*a).cmp(at(*b)).then(a.cmp(b)));
        if let Some(pair) =
            order.windows(2).filter(|pair| at(pair[0]) == at(pair[1])).min_by_key(|pair| pair[1])
        {
            return Err(pair[1] as usize);
        }
        let shift = 32 - count.next_power_of_two().trailing_zeros();
        let buckets = count.next_power_of_two() as usize;
        let mut starts = vec![0u32; buckets + 1];
        for position in &order {
            starts[(at(*position).hash >> shift) as usize + 1] += 1;
        }
        for bucket in 0..buckets {
            starts[bucket + 1] += starts[bucket];
        }
        Ok(Self { shift, starts, order })
    }

    fn position(&self, entries: &[Key], hash: u32, name: &str) -> Option<usize> {
        let bucket = (hash >> self.shift) as usize;
        let bucket = &self.order[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
        let at = |position: &u32| &entries[*position as usize];
        let found = if bucket.len() <= 8 {
            bucket.iter().position(|position| at(position).is(hash, name))
        } else {
            let order = |entry: &Key| entry.hash.cmp(&hash).then_with(|| entry.as_str().cmp(name));
            bucket.binary_search_by(|position| order(at(position))).ok()
        };
        found.map(|at| bucket[at] as usize)
    }
}

/// An object: keys in order, each with a value.
#[derive(Default)]
pub struct Object {
    extent: Extent,
    keys: Arc<KeyTable>,
    values: Vec<Value>,
}

impl Object {
    /// An object over a key table; both have the same length.
    pub fn new(keys: Arc<KeyTable>, values: Vec<Value>) -> Result<Self, Oversized> {
        debug_assert_eq!(keys.entries.len(), values.len());
        Ok(Self { extent: Extent::of(&values)?, keys, values })
    }

    /// An object around data, whatever the limits of data are.
    pub(super) fn around(keys: Arc<KeyTable>, values: Vec<Value>) -> Self {
        Self { extent: Extent::around(&values), keys, values }
    }

    /// An object of a text whose reader has counted how deep it is.
    pub(crate) fn read(keys: Arc<KeyTable>, values: Vec<Value>) -> Result<Self, Oversized> {
        debug_assert_eq!(keys.entries.len(), values.len());
        Ok(Self { extent: Extent::around(&values).of_known_depth()?, keys, values })
    }

    /// The key table.
    pub fn keys(&self) -> &Arc<KeyTable> {
        &self.keys
    }

    /// The values in the order of the keys.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.keys.entries.iter().zip(&self.values)
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.keys.position(key).map(|at| &self.values[at])
    }

    /// The value of a key, looked for first where it was the last time.
    #[inline]
    pub(crate) fn get_near<'n>(
        &self,
        hash: u32,
        name: impl FnOnce() -> &'n str,
        last: &LastPosition,
    ) -> Option<&Value> {
        self.keys.position_near(hash, name, last).map(|at| &self.values[at])
    }

    /// The value of a name.
    pub fn get_str(&self, name: &str) -> Option<&Value> {
        self.get(&Key::new(name))
    }

    /// The position of a name among the keys.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.keys.position(&Key::new(name))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }
}
