//! The items that failed, out of the events of a run. What did well leaves nothing here.

use std::collections::BTreeMap;

use threadline_engine::event::{Address, Event, EventKind, ItemEnded, Seq, Status};
use threadline_engine::view::ItemRef;

/// The items whose last state is that they failed.
#[derive(Default)]
pub struct FailedItems {
    /// By the step they are items of, and their index.
    items: BTreeMap<Address, BTreeMap<u64, FailedItem>>,
    /// The event with the list of each step that has items, and how many they are.
    lists: BTreeMap<Address, (Seq, u64)>,
    /// The step that failed, of items that are not over yet.
    steps: BTreeMap<Address, FailedExecution>,
}

/// An item that failed.
pub struct FailedItem {
    /// Its name, `map[17]`.
    pub at: Address,
    /// Where its value is.
    pub item: ItemRef,
    /// How many items there are beside it, and itself.
    pub of: u64,
    /// The execution that failed; none when all its steps did well.
    pub step: Option<FailedExecution>,
    /// How it ended.
    pub ended: ItemEnded,
}

/// An execution that failed.
#[derive(Clone)]
pub struct FailedExecution {
    /// The execution.
    pub at: Address,
    /// The event with its output.
    pub seq: Seq,
}

impl FailedItems {
    /// Whether no item is failed.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many items are failed.
    pub fn len(&self) -> usize {
        self.items.values().map(BTreeMap::len).sum()
    }

    /// The items of each list in order.
    pub fn iter(&self) -> impl Iterator<Item = &FailedItem> {
        self.items.values().flat_map(BTreeMap::values)
    }

    /// Takes the next event of the run.
    pub fn take(&mut self, event: &Event) {
        let at = &event.at;
        match &event.kind {
            EventKind::Expanded { count, .. } => {
                self.items.remove(at);
                at.remove_items_from(&mut self.items);
                at.remove_items_from(&mut self.lists);
                at.remove_items_from(&mut self.steps);
                self.lists.insert(at.clone(), (event.seq, *count));
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. }
                if output.status == Status::Failed =>
            {
                let Some(item) = at.items_around().next_back() else { return };
                // What follows from a failure may fail, too; the step of the item itself is what counts.
                let is_own = at.parent().as_ref() == Some(&item);
                if is_own || !self.steps.contains_key(&item) {
                    self.steps.insert(item, FailedExecution { at: at.clone(), seq: event.seq });
                }
            }
            EventKind::ItemRetrying { .. } | EventKind::ItemBegun { .. } => {
                self.steps.remove(at);
                at.remove_lists_from(&mut self.items);
                at.remove_lists_from(&mut self.lists);
                at.remove_lists_from(&mut self.steps);
            }
            EventKind::ItemEnded(ended) => self.ended(event, ended),
            _ => {}
        }
    }

    fn ended(&mut self, event: &Event, ended: &ItemEnded) {
        let Some((owner, index)) = event.at.as_item() else { return };
        let step = self.steps.remove(&event.at);
        if ended.status != Status::Failed {
            if let Some(items) = self.items.get_mut(&owner) {
                items.remove(&index);
                if items.is_empty() {
                    self.items.remove(&owner);
                }
            }
            return event.at.remove_lists_from(&mut self.lists);
        }
        let (list, of) = self.lists.get(&owner).copied().unwrap_or_default();
        let item = ItemRef { list, index };
        let failed = FailedItem { at: event.at.clone(), item, of, step, ended: ended.clone() };
        self.items.entry(owner).or_default().insert(index, failed);
    }
}
