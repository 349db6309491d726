//! Names of `context` that an older system fills from outside: the folder of the run, and what is given on its command
//! line without being declared. Here the folder is `run.dir`, and the others are inputs.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_lang::diag::Fix;
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::value::Value;
use threadline_lang::{Syntax, Template};

use super::edits::EntryPlace;
use super::{Expander, named, reference};
use crate::checks::Check;
use crate::load::expand::without;
use crate::problem::{Problem, joined};

/// The entry of `context` that is the folder of the run there.
pub(super) const RUN_DIR: &str = "run_dir";

/// The entry of `context` that is the argument of the command line there.
const ARGUMENT: &str = "input";

/// A name that is read and not declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutsideName {
    Folder,
    /// An input; whether it has to be given.
    Input {
        is_required: bool,
    },
}

impl OutsideName {
    fn entry(self, name: &str) -> String {
        match self {
            Self::Folder => "run.dir".to_owned(),
            Self::Input { .. } => format!("inputs.{name}"),
        }
    }
}

impl Expander<'_> {
    /// A loop in which every entry of `context` that is read is declared, where an older system would fill it.
    pub(in crate::load::expand) fn with_names_from_outside(&mut self, root: TreeNode) -> TreeNode {
        let Some(states) = root.entry("states") else { return root };
        let context = root.get("context");
        if !self.file.text().contains("context.")
            || context.is_some_and(|context| context.value.as_object().is_none() && !context.value.is_null())
        {
            return root;
        }
        let mut read = reads(&root);
        let is_declared = |name: &EcoString| context.is_some_and(|context| context.get(name).is_some());
        read.retain(|name, _| !is_declared(name));
        let is_older = self.is_older || read.contains_key(RUN_DIR);
        let fills = |name: &EcoString| is_older || [RUN_DIR, ARGUMENT].contains(&name.as_str());
        let found: Vec<(EcoString, OutsideName)> = read
            .into_iter()
            .filter(|(name, _)| fills(name))
            .map(|(name, is_required)| match name.as_str() {
                RUN_DIR => (name, OutsideName::Folder),
                ARGUMENT => (name, OutsideName::Input { is_required: false }),
                _ => (name, OutsideName::Input { is_required }),
            })
            .collect();
        if found.is_empty() {
            return root;
        }
        let fix = self.outside_edits(&root, states, &found).and_then(|edits| joined(self.file.text(), edits));
        for (at, (name, kind)) in found.iter().enumerate() {
            let fix = fix.clone().filter(|_| at == 0);
            let source = kind.entry(name);
            let message = match kind {
                OutsideName::Folder => {
                    format!("`context.{name}` is the folder of the run in an older system")
                }
                OutsideName::Input { .. } => {
                    format!(
                        "nothing declares `context.{name}`, which an older system takes from its command line"
                    )
                }
            };
            let hint = match kind {
                OutsideName::Folder => format!("write `{name}: ${{{source}}}` under `context:`"),
                OutsideName::Input { .. } => {
                    format!("declare it under `inputs:`, and write `{name}: ${{{source}}}` under `context:`")
                }
            };
            self.report_old(Problem { fix, ..Check::OldSpelling.at(states.key_span, message).hint(hint) });
        }
        let span = states.key_span;
        let (mut inputs, mut context) = (named(root.get("inputs")), named(root.get("context")));
        for (name, kind) in &found {
            let node = reference(&kind.entry(name), span);
            context.push((name.clone(), TreeEntry::made(span, node)));
            if let OutsideName::Input { is_required } = kind
                && inputs.iter().all(|(known, _)| known != name)
            {
                inputs.push((name.clone(), TreeEntry::made(span, self.declared(*is_required, name, span))));
            }
        }
        let mut all = without(&root, &["inputs", "context"]);
        for (key, entries) in [("inputs", inputs), ("context", context)] {
            if !entries.is_empty() {
                let (key_span, place) =
                    root.entry(key).map_or((span, span), |entry| (entry.key_span, entry.node.span));
                let node = self.make_object(entries, place);
                all.push((key.into(), TreeEntry::made(key_span, node)));
            }
        }
        self.make_object(all, root.span)
    }

    fn declared(&mut self, is_required: bool, name: &str, span: threadline_lang::diag::Span) -> TreeNode {
        let (key, value) = declaration(is_required, name);
        let entry = TreeEntry::made(span, TreeNode::made_scalar(value, span));
        self.make_object(vec![(key.into(), entry)], span)
    }

    /// The changes of the text: entries of `inputs` and of `context`, which are made where there is none.
    fn outside_edits(
        &self,
        root: &TreeNode,
        states: &TreeEntry,
        found: &[(EcoString, OutsideName)],
    ) -> Option<Vec<Fix>> {
        if !self.is_own(states.key_span) {
            return None;
        }
        let declared = |name: &EcoString, kind: OutsideName| {
            let OutsideName::Input { is_required } = kind else { return None };
            let is_new = root.get("inputs").is_none_or(|inputs| inputs.get(name).is_none());
            let (key, value) = declaration(is_required, name);
            is_new.then(|| {
                format!("{name}: {{{key}: {}}}", value.to_json(threadline_lang::value::JsonStyle::Compact))
            })
        };
        let inputs: Vec<String> = found.iter().filter_map(|(name, kind)| declared(name, *kind)).collect();
        let context: Vec<String> =
            found.iter().map(|(name, kind)| format!("{name}: \"${{{}}}\"", kind.entry(name))).collect();
        let (mut edits, mut before) = (Vec::new(), String::new());
        for (key, lines) in [("inputs", inputs), ("context", context)] {
            if lines.is_empty() {
                continue;
            }
            let own = root.entry(key).filter(|entry| self.is_own(entry.key_span));
            match own
                .map(|entry| (entry, entry.node.entries().find(|(_, inner)| self.is_own(inner.key_span))))
            {
                Some((_, Some((_, first)))) => {
                    edits.push(EntryPlace { text: self.file.text(), entry: first }.before(&lines)?);
                }
                Some((entry, None)) if entry.node.value.is_null() => {
                    edits.push(EntryPlace { text: self.file.text(), entry }.block(key, &lines)?);
                }
                Some(_) => return None,
                None => before.extend([key, ":\n  ", &lines.join("\n  "), "\n"]),
            }
        }
        if !before.is_empty() {
            let place = EntryPlace { text: self.file.text(), entry: states };
            edits.push(place.before_lines(&before)?);
        }
        Some(edits)
    }
}

pub(super) fn declaration(is_required: bool, name: &str) -> (&'static str, Value) {
    match name {
        ARGUMENT => ("default", Value::from("")),
        _ => ("required", Value::from(is_required)),
    }
}

/// The names of `context` that a file reads, and whether one of them has no default.
pub(super) fn reads(root: &TreeNode) -> BTreeMap<EcoString, bool> {
    let mut read = BTreeMap::new();
    let about = ["name", "description", "goal", "fragments"];
    for (_, entry) in root.entries().filter(|(key, _)| !about.contains(key)) {
        note_reads(&entry.node, &mut read);
    }
    read
}

/// Notes the names of `context` that the texts of a node read, and whether one of them has no default.
fn note_reads(node: &TreeNode, read: &mut BTreeMap<EcoString, bool>) {
    if let Some(text) = node.value.as_str() {
        if !text.contains("context.") {
            return;
        }
        let (template, _) = Template::parse_all(text, &Syntax::DEFAULT);
        for reference in template.references().into_iter().filter(|reference| reference.root == "context") {
            if let Some(name) = reference.first.filter(|name| crate::forms::is_name(name)) {
                *read.entry(name).or_default() |= !reference.guarded;
            }
        }
    }
    node.items().iter().for_each(|item| note_reads(item, read));
    node.entries().for_each(|(_, entry)| note_reads(&entry.node, read));
}
