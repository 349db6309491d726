//! Lists with more items than a screen has room for: their items are counted, and only the first failures are shown.

use std::collections::BTreeMap;

use threadline_engine::event::Address;

use crate::progress::Progress;

/// The maximum number of items of a list whose steps are shown one by one.
const ITEMS_SHOWN: u64 = 10;

/// The maximum number of failed items that are shown of a large list; the others are counted.
const FAILURES_SHOWN: usize = 10;

/// Whether one more failed item of a list is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureDisplay {
    Shown,
    /// The first that is not shown: the screen says that failures are counted from here on.
    FirstHidden,
    Hidden,
}

/// The large lists of a run, by the step whose items they hold, with the number of failed items that were met.
#[derive(Default)]
pub(super) struct LargeLists {
    failures: BTreeMap<Address, usize>,
    /// Whether every item is shown, however many there are.
    disabled: bool,
}

impl LargeLists {
    /// The large lists that were under way when a run was resumed; none if everything is shown.
    pub(super) fn restore(progress: &Progress, show_all: bool) -> Self {
        let mut lists = Self { failures: BTreeMap::new(), disabled: show_all };
        for list in progress.lists() {
            lists.add(&list.at, list.total);
        }
        lists
    }

    /// Remembers a list if it is a large one.
    pub(super) fn add(&mut self, owner: &Address, items: u64) {
        if items > ITEMS_SHOWN && !self.disabled {
            self.failures.insert(owner.clone(), 0);
        }
    }

    pub(super) fn contains(&self, owner: &Address) -> bool {
        self.failures.contains_key(owner)
    }

    /// The large list that an execution belongs to.
    pub(super) fn large_list_of(&self, at: &Address) -> Option<Address> {
        if self.failures.is_empty() {
            return None;
        }
        let mut owners = at.items_around().filter_map(|item| item.parent());
        owners.find(|owner| self.failures.contains_key(owner))
    }

    /// Counts a failed item.
    pub(super) fn count_failure(&mut self, at: &Address) -> FailureDisplay {
        let owner = self.large_list_of(at);
        let Some(met) = owner.and_then(|owner| self.failures.get_mut(&owner)) else {
            return FailureDisplay::Shown;
        };
        *met += 1;
        match *met {
            met if met <= FAILURES_SHOWN => FailureDisplay::Shown,
            met if met == FAILURES_SHOWN + 1 => FailureDisplay::FirstHidden,
            _ => FailureDisplay::Hidden,
        }
    }
}
