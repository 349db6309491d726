//! Segments in memory: they outlive the stores that keep them, as a store elsewhere does.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use super::{SegmentCreation, SegmentError, SegmentNumber, SegmentStore};
use crate::location::locked;
use crate::names::Hash;

/// The segments of a run, in memory. Clones are the same.
#[derive(Clone, Default)]
pub struct MemorySegments(Arc<Mutex<MemoryState>>);

#[derive(Default)]
struct MemoryState {
    segments: BTreeMap<SegmentNumber, Vec<u8>>,
    values: BTreeMap<Hash, Vec<u8>>,
    unavailable: Option<String>,
}

impl MemorySegments {
    /// Lets everything fail for a reason, until that is taken back.
    pub fn set_unavailable(&self, why: Option<&str>) {
        locked(&self.0).unavailable = why.map(str::to_owned);
    }

    /// Changes the segments, whatever that does to them.
    pub fn change(&self, change: impl FnOnce(&mut BTreeMap<SegmentNumber, Vec<u8>>)) {
        change(&mut locked(&self.0).segments);
    }

    /// Changes the large values, whatever that does to them.
    pub fn change_values(&self, change: impl FnOnce(&mut BTreeMap<Hash, Vec<u8>>)) {
        change(&mut locked(&self.0).values);
    }

    fn with<T>(&self, work: impl FnOnce(&mut MemoryState) -> T) -> Result<T, SegmentError> {
        let mut state = locked(&self.0);
        match &state.unavailable {
            Some(why) => Err(SegmentError::Unavailable(why.clone())),
            None => Ok(work(&mut state)),
        }
    }
}

impl SegmentStore for MemorySegments {
    fn create(&self, number: SegmentNumber, bytes: &[u8]) -> Result<SegmentCreation, SegmentError> {
        self.with(|state| {
            if state.segments.contains_key(&number) {
                return SegmentCreation::AlreadyThere;
            }
            state.segments.insert(number, bytes.to_vec());
            SegmentCreation::Created
        })
    }

    fn read(&self, number: SegmentNumber) -> Result<Option<Vec<u8>>, SegmentError> {
        self.with(|state| state.segments.get(&number).cloned())
    }

    fn numbers(&self) -> Result<Vec<SegmentNumber>, SegmentError> {
        self.with(|state| state.segments.keys().copied().collect())
    }

    fn keep_value(&self, hash: &Hash, _length: u64, value: &mut dyn Read) -> Result<(), SegmentError> {
        let mut bytes = Vec::new();
        value.read_to_end(&mut bytes).map_err(|error| SegmentError::Unavailable(error.to_string()))?;
        self.with(|state| {
            state.values.insert(*hash, bytes);
        })
    }

    fn read_value(&self, hash: &Hash, to: &mut dyn Write) -> Result<(), SegmentError> {
        let found = self.with(|state| state.values.get(hash).cloned())?;
        let bytes = found.ok_or_else(|| SegmentError::Damaged(format!("value `{hash}` is missing")))?;
        to.write_all(&bytes).map_err(|error| SegmentError::Unavailable(error.to_string()))
    }
}
