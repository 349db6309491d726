//! What a loop file is short for: the file it is made `from`, the fragments it imports, and the short forms of loops
//! become states before anything is loaded.
//!
//! From tree to tree: every node keeps the place where somebody wrote it, so a problem of a state that was made here
//! points at what its author wrote, in the file where it stands. Nothing is opened, and no template is looked into.

mod fragments;
mod merge;
mod parts;
mod short;

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_lang::Type;
use threadline_lang::data::{ReadError, ReadErrorKind};
use threadline_lang::diag::Span;
use threadline_lang::source::{SourceFile, TreeEntry, TreeNode};

use super::read::{no_bool, span_of};
use crate::checks::Check;
use crate::fields::{Form, KeyKind, KeySpec, ObjectSpec};
use crate::problem::{Problem, of_reading};

pub use parts::named_parts;

/// So many files may stand one behind the other, each made from the next or importing it.
const MAX_DEPTH: usize = 16;

/// So many keys may be taken over from fragments and from other files, in all.
const MAX_TAKEN: usize = 1_000_000;

/// Entries of an object, on their way into another.
type Entries = Vec<(EcoString, TreeEntry)>;

/// The fragments of a file and of those it takes them from, by their names.
type Fragments = BTreeMap<EcoString, TreeEntry>;

/// A tree in which nothing is short for something else, and what is wrong with what was. There is none when so much is
/// missing that nothing can be said of the rest.
pub(super) fn expand(file: &SourceFile, root: TreeNode) -> (Option<TreeNode>, Vec<Problem>) {
    let mut expander =
        Expander { file, problems: Vec::new(), taken: 0, imported: Vec::new(), incomplete: false };
    let root = expander.file(root);
    (Some(root).filter(|_| !expander.incomplete), expander.problems)
}

struct Expander<'f> {
    file: &'f SourceFile,
    problems: Vec<Problem>,
    /// How many keys were taken over until now.
    taken: usize,
    /// The files whose fragments were taken: each is, once.
    imported: Vec<String>,
    /// Whether something is missing that the rest stands on.
    incomplete: bool,
}

impl Expander<'_> {
    fn file(&mut self, root: TreeNode) -> TreeNode {
        if root.value.as_object().is_none() {
            return root;
        }
        let (root, fragments) = self.whole(&root);
        let root = self.short(root);
        self.states(root, &fragments)
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Counts what is taken over; whether it may be.
    fn take(&mut self, count: usize, span: Span) -> bool {
        let before = self.taken;
        self.taken = before.saturating_add(count);
        if before <= MAX_TAKEN && self.taken > MAX_TAKEN {
            let message = format!("more than {MAX_TAKEN} keys are taken over from fragments and other files");
            self.problem(Check::Unreadable.at(span, message));
        }
        self.taken <= MAX_TAKEN
    }

    /// Looks at what the table of an object can be held against before it is gone: no key in two spellings, and texts
    /// and bools behind the keys that take those. `of` are the keys that are gone then.
    fn check_fixed(&mut self, node: &TreeNode, object: &'static ObjectSpec, of: impl Fn(&KeySpec) -> bool) {
        let mut found: Vec<(&KeySpec, &str)> = Vec::new();
        for (written, entry) in node.entries() {
            let Some(key) = object
                .keys
                .iter()
                .find(|key| of(key) && (key.name == written || key.aliases.contains(&written)))
            else {
                continue;
            };
            if let Some((_, first)) = found.iter().find(|(known, _)| known.name == key.name) {
                let message = format!("`{first}` and `{written}` mean the same");
                self.problem(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
                continue;
            }
            found.push((key, written));
            let kind = entry.node.value.kind();
            match key.kind {
                KeyKind::Fixed(Form::Bool) if kind != Type::Bool => {
                    self.problem(no_bool(written, &entry.node))
                }
                KeyKind::Fixed(Form::Text) if matches!(kind, Type::Null | Type::List | Type::Object) => {
                    let message = format!("`{written}` takes text, not {}", kind.with_article());
                    self.problem(Check::WrongType.at(span_of(&entry.node), message));
                }
                _ => {}
            }
        }
    }

    /// An object of entries, no key twice.
    fn object(&mut self, entries: Entries, span: Span) -> TreeNode {
        TreeNode::made_object(entries, span).unwrap_or_else(|oversized| {
            let error = ReadError::new(ReadErrorKind::Limit(oversized.0), span);
            self.problem(of_reading(&error));
            TreeNode::made_text("", span)
        })
    }
}

/// The entries of an object.
fn entries(node: &TreeNode) -> Entries {
    node.entries().map(|(key, entry)| (EcoString::from(key), entry.clone())).collect()
}

/// The entries of an object without some keys.
fn without(node: &TreeNode, keys: &[&str]) -> Entries {
    let kept = node.entries().filter(|(key, _)| !keys.contains(key));
    kept.map(|(key, entry)| (EcoString::from(key), entry.clone())).collect()
}

/// An entry that nobody wrote, for something that stands at a place.
fn text(key: &str, text: &str, span: Span) -> (EcoString, TreeEntry) {
    (key.into(), TreeEntry::made(span, TreeNode::made_text(text, span)))
}
