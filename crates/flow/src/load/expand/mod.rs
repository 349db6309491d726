//! Expands a file before it is loaded: the file that it inherits `from`, the fragments that it imports, and the
//! short forms of loops become states; scenarios become nodes of a graph.
//!
//! This is a rewrite from tree to tree. Every node keeps its span, so a problem of a state that was made here
//! points at the text in the file that the author wrote. No file is opened, and no template is parsed.

mod fragments;
mod merge;
mod older;
mod parts;
mod scenarios;
mod short;
mod user_agents;

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use threadline_lang::Type;
use threadline_lang::data::{ReadError, ReadErrorKind};
use threadline_lang::diag::Span;
use threadline_lang::source::{SourceFile, TreeEntry, TreeNode};

use super::read::{no_bool, span_of};
use crate::checks::Check;
use crate::fields::{Form, KeyKind, KeySpec, ObjectSpec};
use crate::model::Scenario;
use crate::problem::{Problem, of_reading};

pub(super) use older::mild;
pub use parts::named_parts;
pub use user_agents::user_agents_of;

/// Maximum depth of files that inherit from or import each other.
const MAX_DEPTH: usize = 16;

/// Maximum number of keys that are inherited from fragments and other files.
const MAX_TAKEN: usize = 1_000_000;

/// Entries of an object that is being built.
type NodeEntries = Vec<(EcoString, TreeEntry)>;

/// The fragments of a file and of its imports, by name.
type Fragments = BTreeMap<EcoString, TreeEntry>;

/// Expands a tree.
pub(super) fn expand(file: &SourceFile, root: TreeNode) -> ExpandedFile {
    let mut expander = Expander {
        file,
        problems: Vec::new(),
        taken: 0,
        imported: Vec::new(),
        is_older: false,
        rewritten: Vec::new(),
        incomplete: false,
        scenarios: Vec::new(),
        scenario_ids: BTreeSet::new(),
        made: 0,
    };
    let root = expander.expand_file(root);
    let root = Some(root).filter(|_| !expander.incomplete);
    let Expander { problems, rewritten, scenarios, .. } = expander;
    ExpandedFile { root, problems, rewritten, scenarios }
}

/// A file in which everything that stands for something else has become that.
pub(super) struct ExpandedFile {
    /// The tree; none if so much is missing that the rest cannot be checked.
    pub(super) root: Option<TreeNode>,
    pub(super) problems: Vec<Problem>,
    /// The texts that stand otherwise in the file.
    pub(super) rewritten: Vec<Span>,
    /// The scenarios that became nodes.
    pub(super) scenarios: Vec<Scenario>,
}

struct Expander<'f> {
    file: &'f SourceFile,
    problems: Vec<Problem>,
    /// Number of keys inherited so far.
    taken: usize,
    /// The files whose fragments were already added.
    imported: Vec<String>,
    /// Whether the file has a spelling of an older system.
    is_older: bool,
    /// The texts that stand otherwise in the file.
    rewritten: Vec<Span>,
    /// Whether something is missing that the rest depends on.
    incomplete: bool,
    scenarios: Vec<Scenario>,
    /// The ids of the scenarios so far.
    scenario_ids: BTreeSet<EcoString>,
    /// How many nodes, repetitions and rulings they make.
    made: usize,
}

impl Expander<'_> {
    fn expand_file(&mut self, root: TreeNode) -> TreeNode {
        let root = self.with_present_spellings(root);
        let root = self.with_listed_scenarios(root);
        if root.value.as_object().is_none() {
            return root;
        }
        let (root, fragments) = self.include_parts(&root);
        let root = self.put_over_targets(root);
        let root = self.expand_scenarios(root);
        let root = self.expand_short_form(root);
        let root = self.expand_states(root, &fragments);
        let root = self.with_names_from_outside(root);
        self.add_user_agents(root)
    }

    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Counts an inherited key. Returns whether the limit allows it.
    fn count_inherited(&mut self, count: usize, span: Span) -> bool {
        let before = self.taken;
        self.taken = before.saturating_add(count);
        if before <= MAX_TAKEN && self.taken > MAX_TAKEN {
            let message = format!("more than {MAX_TAKEN} keys are inherited from fragments and other files");
            self.report(Check::Unreadable.at(span, message));
        }
        self.taken <= MAX_TAKEN
    }

    /// Checks keys before the expansion removes them: no key under two names, and the right type for literal
    /// texts and bools. `is_removed` selects the keys to check.
    fn check_removed_keys(
        &mut self,
        node: &TreeNode,
        object: &'static ObjectSpec,
        is_removed: impl Fn(&KeySpec) -> bool,
    ) {
        let mut found: Vec<(&KeySpec, &str)> = Vec::new();
        for (written, entry) in node.entries() {
            let Some(key) = object
                .keys
                .iter()
                .find(|key| is_removed(key) && (key.name == written || key.aliases.contains(&written)))
            else {
                continue;
            };
            if let Some((_, first)) = found.iter().find(|(known, _)| known.name == key.name) {
                let message = format!("`{first}` and `{written}` are the same key");
                self.report(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
                continue;
            }
            found.push((key, written));
            let kind = entry.node.value.kind();
            match key.kind {
                KeyKind::Fixed(Form::Bool) if kind != Type::Bool => {
                    self.report(no_bool(written, &entry.node));
                }
                KeyKind::Fixed(Form::Text) if matches!(kind, Type::Null | Type::List | Type::Object) => {
                    let message = format!("`{written}` takes text, not {}", kind.with_article());
                    self.report(Check::WrongType.at(span_of(&entry.node), message));
                }
                _ => {}
            }
        }
    }

    /// An object of entries, without duplicate keys.
    fn make_object(&mut self, entries: NodeEntries, span: Span) -> TreeNode {
        TreeNode::made_object(entries, span).unwrap_or_else(|oversized| {
            let error = ReadError::new(ReadErrorKind::Limit(oversized.0), span);
            self.report(of_reading(&error));
            TreeNode::made_text("", span)
        })
    }
}

/// The entries of an object.
fn entries(node: &TreeNode) -> NodeEntries {
    node.entries().map(|(key, entry)| (EcoString::from(key), entry.clone())).collect()
}

/// The entries of an object without some keys.
fn without(node: &TreeNode, keys: &[&str]) -> NodeEntries {
    let kept = node.entries().filter(|(key, _)| !keys.contains(key));
    kept.map(|(key, entry)| (EcoString::from(key), entry.clone())).collect()
}

/// An entry that nobody wrote, with the span of the text that it follows from.
fn text(key: &str, text: &str, span: Span) -> (EcoString, TreeEntry) {
    (key.into(), TreeEntry::made(span, TreeNode::made_text(text, span)))
}
