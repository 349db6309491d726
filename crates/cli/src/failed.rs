//! The items that failed, out of the events of a run. What did well leaves nothing here.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, ItemEnded, Seq, Status};
use threadline_engine::view::ItemRef;

/// The items whose last state is that they failed.
#[derive(Default)]
pub(crate) struct FailedItems {
    /// By the step they are items of, and their index.
    items: BTreeMap<(EcoString, u64), FailedItem>,
    /// The event with the list of each step that has items, and how many they are.
    lists: BTreeMap<EcoString, (Seq, u64)>,
    /// The step that failed, of items that are not over yet.
    steps: BTreeMap<EcoString, Address>,
}

/// An item that failed.
pub(crate) struct FailedItem {
    /// Its name, `map[17]`.
    pub(crate) at: Address,
    /// Where its value is.
    pub(crate) item: ItemRef,
    /// How many items there are beside it, and itself.
    pub(crate) of: u64,
    /// The execution that failed; none when all its steps did well.
    pub(crate) step: Option<Address>,
    /// How it ended.
    pub(crate) ended: ItemEnded,
}

impl FailedItems {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The items of each list in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FailedItem> {
        self.items.values()
    }

    /// Takes the next event of the run.
    pub(crate) fn take(&mut self, event: &Event) {
        let at = &event.at.0;
        match &event.kind {
            EventKind::Expanded { count, .. } => {
                self.forget_items(at);
                self.forget_below(&format!("{at}["));
                self.lists.insert(at.clone(), (event.seq, *count));
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. }
                if output.status == Status::Failed =>
            {
                let Some((item, rest)) = within_item(at) else { return };
                // What follows from a failure may fail, too; the step of the item itself is what counts.
                if !rest.contains('/') || !self.steps.contains_key(item) {
                    self.steps.insert(item.into(), event.at.clone());
                }
            }
            EventKind::ItemRetrying { .. } | EventKind::ItemBegun { .. } => {
                self.steps.remove(at);
                self.forget_below(&format!("{at}/"));
            }
            EventKind::ItemEnded(ended) => self.ended(event, ended),
            _ => {}
        }
    }

    fn ended(&mut self, event: &Event, ended: &ItemEnded) {
        let Some((owner, index)) = item_of(&event.at.0) else { return };
        let step = self.steps.remove(&event.at.0);
        if ended.status != Status::Failed {
            if !self.items.is_empty() {
                self.items.remove(&(owner.into(), index));
            }
            return drop_below(&mut self.lists, &format!("{}/", event.at));
        }
        let (list, of) = self.lists.get(owner).copied().unwrap_or_default();
        let item = ItemRef { list, index };
        let failed = FailedItem { at: event.at.clone(), item, of, step, ended: ended.clone() };
        self.items.insert((owner.into(), index), failed);
    }

    /// What is done anew from its beginning.
    fn forget_below(&mut self, prefix: &str) {
        while let Some(owner) = self.owner_from(prefix).filter(|owner| owner.starts_with(prefix)) {
            self.forget_items(&owner);
        }
        drop_below(&mut self.lists, prefix);
        drop_below(&mut self.steps, prefix);
    }

    fn forget_items(&mut self, owner: &EcoString) {
        while self.owner_from(owner).as_ref() == Some(owner) {
            let first = self.items.range((owner.clone(), 0)..).next().map(|(key, _)| key.clone());
            first.and_then(|key| self.items.remove(&key));
        }
    }

    /// Whose items are the first from a name on.
    fn owner_from(&self, name: &str) -> Option<EcoString> {
        self.items.range((EcoString::from(name), 0)..).next().map(|((owner, _), _)| owner.clone())
    }
}

/// Takes out what has a name that begins so.
fn drop_below<T>(map: &mut BTreeMap<EcoString, T>, prefix: &str) {
    let from = EcoString::from(prefix);
    while let Some(name) = map.range(from.clone()..).next().map(|(name, _)| name.clone()) {
        if !name.starts_with(prefix) {
            return;
        }
        map.remove(&name);
    }
}

/// `map[17]`: whose item it is, and which.
pub(crate) fn item_of(at: &str) -> Option<(&str, u64)> {
    let (owner, index) = at.strip_suffix(']')?.rsplit_once('[')?;
    Some((owner, index.parse().ok()?))
}

/// `map[17]/2/on_failure/1`: the innermost item that an execution is for, and the rest.
pub(crate) fn within_item(at: &str) -> Option<(&str, &str)> {
    let end = at.rfind(']')? + 1;
    Some((&at[..end], at[end..].strip_prefix('/')?))
}
