//! One object over another, key by key: what stands over it wins, objects are merged in the same way, and null takes a
//! key away.

use ecow::EcoString;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Entries, Expander};

/// Where null is a value of its own: it takes away a variable of the environment that the program was started with.
const KEEPS_NULL: &str = "env";

impl Expander<'_> {
    /// One object over another. What is not an object takes the place of everything below it.
    pub(super) fn over(&mut self, below: &TreeNode, above: &TreeNode) -> TreeNode {
        self.over_at(below, above, false)
    }

    fn over_at(&mut self, below: &TreeNode, above: &TreeNode, keeps_null: bool) -> TreeNode {
        if below.value.as_object().is_none() || above.value.as_object().is_none() {
            return above.clone();
        }
        if !self.take(below.entries().count(), above.span) {
            return above.clone();
        }
        let mut merged: Entries = Vec::new();
        for (key, entry) in below.entries() {
            let entry = match above.entry(key) {
                None => entry.clone(),
                Some(own) if own.node.value.is_null() && !keeps_null => continue,
                Some(own) => {
                    let node = self.over_at(&entry.node, &own.node, key == KEEPS_NULL);
                    TreeEntry { node, ..own.clone() }
                }
            };
            merged.push((EcoString::from(key), entry));
        }
        let new = above
            .entries()
            .filter(|(key, entry)| below.get(key).is_none() && (keeps_null || !entry.node.value.is_null()));
        merged.extend(new.map(|(key, entry)| (EcoString::from(key), entry.clone())));
        self.object(merged, above.span)
    }
}
