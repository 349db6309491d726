//! Merges one object over another, key by key: the upper value wins, objects are merged recursively, and null
//! removes a key.

use ecow::EcoString;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Expander, NodeEntries};

/// The keys in which null is a value: it removes an environment variable that the program inherits.
const KEEPS_NULL: &str = "env";

impl Expander<'_> {
    /// Merges one object over another. A value that is not an object replaces everything below it.
    pub(super) fn merge(&mut self, below: &TreeNode, above: &TreeNode) -> TreeNode {
        self.merge_nested(below, above, false)
    }

    fn merge_nested(&mut self, below: &TreeNode, above: &TreeNode, keeps_null: bool) -> TreeNode {
        if below.value.as_object().is_none() || above.value.as_object().is_none() {
            return above.clone();
        }
        if !self.count_inherited(below.entries().count(), above.span) {
            return above.clone();
        }
        let mut merged: NodeEntries = Vec::new();
        for (key, entry) in below.entries() {
            let entry = match above.entry(key) {
                None => entry.clone(),
                Some(own) if own.node.value.is_null() && !keeps_null => continue,
                Some(own) => {
                    let node = self.merge_nested(&entry.node, &own.node, key == KEEPS_NULL);
                    TreeEntry { node, ..own.clone() }
                }
            };
            merged.push((EcoString::from(key), entry));
        }
        let new = above
            .entries()
            .filter(|(key, entry)| below.get(key).is_none() && (keeps_null || !entry.node.value.is_null()));
        merged.extend(new.map(|(key, entry)| (EcoString::from(key), entry.clone())));
        self.make_object(merged, above.span)
    }
}
