//! The results of the items of a list, gathered from the journal. They are stored in pieces, so that no list of results
//! is ever held as a whole.

use threadline_engine::event::{Datum, EventKind, ItemEnded, Seq};
use threadline_engine::execute::item_result;
use threadline_engine::machine::Task;
use threadline_engine::view::{ItemRef, Load as _};
use threadline_lang::Value;
use threadline_store::JournalError;

use crate::driver::DriveError;
use crate::items::{ChunkWriter, KeyOrder, Sorter, spool};
use crate::local::LocalDriver;

/// The maximum number of items in a piece of a list, and about how many bytes it may take.
pub(crate) const CHUNK_ITEMS: usize = 1_000;
pub(crate) const CHUNK_BYTES: u64 = 256 << 10;

/// The memory that sorting results takes, in bytes.
const SORT_MEMORY: usize = 8 << 20;

impl LocalDriver<'_, '_> {
    /// The value of each item in order; null where it failed or was skipped.
    pub(crate) fn values_of_items(
        &self,
        task: &Task,
        list: Seq,
        total: u64,
    ) -> Result<Vec<Value>, DriveError> {
        let mut values = vec![Value::NULL; usize::try_from(total).unwrap_or(0)];
        let reader = self.shared.journal.store().reader();
        self.each_ended(task, list, |index, ended| {
            if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
                *place = reader.load(&ended.value)?;
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Every end of an item since the event with the list, in the order of the journal.
    fn each_ended(
        &self,
        task: &Task,
        list: Seq,
        mut take: impl FnMut(u64, ItemEnded) -> Result<(), DriveError>,
    ) -> Result<(), DriveError> {
        let shared = self.shared;
        shared.wait_synced(task.as_of)?;
        for event in shared.journal.store().reader().events_of(shared.journal.run(), list, "item_ended")? {
            let event = event?;
            let item = event.at.as_item().filter(|(step, _)| *step == task.at);
            if let (Some((_, index)), EventKind::ItemEnded(ended)) = (item, event.kind) {
                take(index, ended)?;
            }
        }
        Ok(())
    }

    /// Stores the results of all items in their order. Of an item that was done again the last one counts.
    pub(crate) fn store_item_results(&self, task: &Task, list: Seq) -> Result<Datum, DriveError> {
        let shared = self.shared;
        let store = shared.journal.store();
        let spooled =
            |error: std::io::Error| JournalError::Value(format!("the results cannot be sorted: {error}"));
        let mut sorter = Sorter::new(&[KeyOrder::default()], &self.private_folder(), SORT_MEMORY);
        self.each_ended(task, list, |index, ended| {
            let item = (&shared.values).item(ItemRef { list, index })?;
            let result = item_result(index, item, &ended, store.reader().load(&ended.value)?);
            let key = Value::from(i64::try_from(index).unwrap_or(i64::MAX));
            sorter.push(vec![key], |out| spool::encode(&result, out)).map_err(spooled)?;
            Ok(())
        })?;
        let mut chunks = ChunkWriter::new(store, CHUNK_ITEMS, CHUNK_BYTES);
        let mut in_order = sorter.finish().map_err(spooled)?;
        let mut before: Option<(Vec<Value>, Vec<u8>)> = None;
        loop {
            let next = in_order.next().map_err(spooled)?;
            let is_same = next.as_ref().zip(before.as_ref()).is_some_and(|(next, before)| next.0 == before.0);
            if let Some((_, bytes)) = before.filter(|_| !is_same) {
                let result = spool::decode(&bytes).map_err(spooled)?;
                chunks.push(result).map_err(JournalError::from)?;
            }
            if next.is_none() {
                break;
            }
            before = next;
        }
        let chunks = chunks.finish().map_err(JournalError::from)?;
        let index = chunks.store(store).map_err(JournalError::from)?;
        // They are read before an event names them.
        store.wait_for_values()?;
        Ok(index)
    }
}
