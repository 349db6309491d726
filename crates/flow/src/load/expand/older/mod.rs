//! Spellings of older systems become those of today, before anything else is expanded: keys that are called otherwise,
//! keys without a meaning here, and a few forms.
//!
//! Everything is told, with the change of the text that means the same; `migrate` makes it. Whether a file can be read so
//! follows from the rows of [`crate::fields::OLDER_KEYS`].

mod edits;
mod filters;
mod flow;
mod inputs;
mod mend;
mod outside;
mod phases;
mod previous;
mod stall;

use ecow::EcoString;
use threadline_lang::data::Style;
use threadline_lang::diag::{Severity, Span};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Syntax, Template, Type};

use super::parts::with_node;
use super::{Expander, NodeEntries, entries};
use crate::checks::Check;
use crate::fields::{
    Becomes, EVALUATE, FRAGMENT, KeyKind, NODE, ObjectSpec, ROUTE, STATE, STEP, WORKFLOW, find_older_key,
};
use crate::forms::is_name;
use crate::plan::SELF;
use crate::problem::{self, Problem};
use edits::EntryPlace;

/// The file that is being read, and what it is told of.
impl Expander<'_> {
    /// A file with the spellings of today.
    pub(super) fn with_present_spellings(&mut self, root: TreeNode) -> TreeNode {
        let kind = if root.value.as_list().is_some() { KeyKind::Steps } else { KeyKind::Object(&WORKFLOW) };
        let root = self.with_merge_of_list(root);
        let root = self.with_worktrees(root);
        let root = self.with_present_filters(root);
        let root = self.present(&root, &kind).unwrap_or(root);
        let root = self.with_flow(root);
        let root = self.with_secrets(root);
        let root = self.with_present_roots(root);
        self.with_present_inputs(root)
    }

    /// A node of a kind with the spellings of today; none if it has them already.
    fn present(&mut self, node: &TreeNode, kind: &KeyKind) -> Option<TreeNode> {
        match (kind, node.value.kind()) {
            (KeyKind::Object(spec), Type::Object) => self.present_object(node, spec, ""),
            (KeyKind::Steps, Type::Object) => self.present_step(node),
            (KeyKind::Steps, Type::List) => self.present_steps(node),
            (KeyKind::Nodes, Type::Object) => self.present_values(node, &KeyKind::Object(&STEP)),
            (KeyKind::Nodes, Type::List) => self.present_items(node, &KeyKind::Object(&NODE)),
            (KeyKind::Map(kind), Type::Object) => self.present_values(node, kind),
            (KeyKind::List(kind), Type::List) => self.present_items(node, kind),
            (KeyKind::Either(kinds), found) => {
                let fits = |kind: &&KeyKind| match found {
                    Type::Object => matches!(kind, KeyKind::Object(_) | KeyKind::Map(_) | KeyKind::Steps),
                    Type::List => matches!(kind, KeyKind::List(_) | KeyKind::Steps),
                    _ => false,
                };
                let kind = kinds.iter().find(fits)?;
                self.present(node, kind)
            }
            _ => None,
        }
    }

    /// A step, or the list of those that it stands for.
    fn present_step(&mut self, node: &TreeNode) -> Option<TreeNode> {
        let made = self.present_object(node, &STEP, "");
        match self.steps_of_older(node, made.as_ref().unwrap_or(node)) {
            None => made,
            Some(mut steps) if steps.len() == 1 => steps.pop(),
            Some(steps) => TreeNode::made_list(steps, node.span).ok(),
        }
    }

    /// A list of steps. One that says nothing but what an older system read beside it is left out.
    fn present_steps(&mut self, node: &TreeNode) -> Option<TreeNode> {
        let mut is_changed = false;
        let mut steps = Vec::with_capacity(node.items().len());
        for item in node.items() {
            match self.present_step(item) {
                None => steps.push(item.clone()),
                Some(made) => {
                    is_changed = true;
                    let says_nothing = made.value.as_object().is_some_and(|object| object.is_empty());
                    match made.items() {
                        [] if says_nothing => {}
                        [] => steps.push(made),
                        several => steps.extend(several.iter().cloned()),
                    }
                }
            }
        }
        is_changed.then(|| TreeNode::made_list(steps, node.span).ok())?
    }

    fn present_items(&mut self, node: &TreeNode, kind: &KeyKind) -> Option<TreeNode> {
        let made: Vec<Option<TreeNode>> = node.items().iter().map(|item| self.present(item, kind)).collect();
        if made.iter().all(Option::is_none) {
            return None;
        }
        let items =
            made.into_iter().zip(node.items()).map(|(made, item)| made.unwrap_or_else(|| item.clone()));
        TreeNode::made_list(items.collect(), node.span).ok()
    }

    fn present_values(&mut self, node: &TreeNode, kind: &KeyKind) -> Option<TreeNode> {
        let made: Vec<Option<TreeNode>> =
            node.entries().map(|(_, entry)| self.present(&entry.node, kind)).collect();
        if made.iter().all(Option::is_none) {
            return None;
        }
        let all = made.into_iter().zip(node.entries()).map(|(made, (name, entry))| {
            let node = made.unwrap_or_else(|| entry.node.clone());
            (EcoString::from(name), with_node(entry, node))
        });
        let all: NodeEntries = all.collect();
        Some(self.make_object(all, node.span))
    }

    /// An object; one that stands in another for it may have the older keys of that, too.
    fn present_object(
        &mut self,
        node: &TreeNode,
        spec: &'static ObjectSpec,
        around: &str,
    ) -> Option<TreeNode> {
        let mut made = NodeEntries::with_capacity(node.entries().count());
        let mut is_changed = false;
        for (key, entry) in node.entries() {
            let mut kept = (EcoString::from(key), entry.clone());
            if let Some(known) = spec.key(key) {
                let is_flag = spec.name == STEP.name
                    && known.name == "capture"
                    && entry.node.value.kind() == Type::Bool;
                if is_flag {
                    self.report_captured_flag(node, key, entry);
                    is_changed = true;
                    continue;
                }
                // An editor saves what it draws beside the step of a node, or in it.
                let inside = if spec.name == NODE.name && known.name == "config" {
                    entry
                        .node
                        .value
                        .as_object()
                        .and_then(|_| self.present_object(&entry.node, &STEP, NODE.name))
                } else {
                    self.present(&entry.node, &known.kind)
                };
                if let Some(inside) = inside {
                    kept.1 = with_node(entry, inside);
                    is_changed = true;
                }
            } else if let Some(older) = spec.find_older(key).or_else(|| find_older_key(around, key)) {
                match older.becomes {
                    Becomes::Key(ours) if is_free(node, spec, ours) => {
                        self.report_spelling(entry, key, ours);
                        is_changed = true;
                        let inside = spec.key(ours).and_then(|known| self.present(&entry.node, &known.kind));
                        let inside = inside.unwrap_or_else(|| entry.node.clone());
                        kept = (ours.into(), with_node(entry, inside));
                    }
                    Becomes::Nothing(why) => {
                        self.report_ignored(node, spec, key, entry, &format!("make it a comment: {why}"));
                        is_changed = true;
                        continue;
                    }
                    Becomes::Without(instead) => {
                        self.report_ignored(node, spec, key, entry, instead);
                        is_changed = true;
                        continue;
                    }
                    Becomes::Key(_) | Becomes::Form(_) | Becomes::Else(_) => {}
                }
            }
            made.push(kept);
        }
        is_changed |= self.take_values(node, spec, &mut made);
        let is_state = spec.name == STATE.name || spec.name == FRAGMENT.name;
        if is_state && node.get("failure").is_some_and(|failure| failure.value.as_bool().is_some()) {
            self.take_failure(node, &mut made);
            is_changed = true;
        }
        is_changed.then(|| self.make_object(made, node.span))
    }

    /// Values of the keys of an object that are spelt otherwise. Whether there was one.
    fn take_values(&mut self, node: &TreeNode, spec: &'static ObjectSpec, made: &mut NodeEntries) -> bool {
        let mut is_changed = false;
        for (key, entry) in made.iter_mut() {
            let Some(known) = spec.key(key) else { continue };
            let Some(value) = entry.node.value.as_str() else { continue };
            let is_route = spec.name == STATE.name || spec.name == FRAGMENT.name || spec.name == ROUTE.name;
            let new = match known.name {
                "path" if spec.name == EVALUATE.name && is_dotted(value) => value[1..].to_owned(),
                "next" | "on_yes" | "on_no" | "on_error" | "on_VERDICT" | "on_retry_exhausted" | "to"
                    if is_route && value == CURRENT =>
                {
                    SELF.to_owned()
                }
                _ => continue,
            };
            self.report_value(entry, &new);
            entry.node = TreeNode::made_text(&new, entry.node.span);
            is_changed = true;
        }
        let routes = made.iter().position(|(key, entry)| {
            let is_current = |(_, entry): (&str, &TreeEntry)| entry.node.value.as_str() == Some(CURRENT);
            spec.name == STATE.name && key == "route" && entry.node.entries().any(is_current)
        });
        if let Some(at) = routes {
            let mut ways = entries(&made[at].1.node);
            for (_, way) in ways.iter_mut().filter(|(_, way)| way.node.value.as_str() == Some(CURRENT)) {
                self.report_value(way, SELF);
                way.node = TreeNode::made_text(SELF, way.node.span);
            }
            let span = made[at].1.node.span;
            made[at].1.node = self.make_object(ways, span);
            is_changed = true;
        }
        if spec.name == WORKFLOW.name
            && let Some(mode) = node.entry("mode").filter(|mode| mode.node.value.as_str() == Some("standard"))
        {
            self.report_ignored(
                node,
                spec,
                "mode: standard",
                mode,
                "remove it: `steps:` says what the file is",
            );
            made.retain(|(key, _)| key != "mode");
            is_changed = true;
        }
        is_changed
    }

    /// A file whose secret variables are `secrets`, which `env` takes from there.
    fn with_secrets(&mut self, root: TreeNode) -> TreeNode {
        let Some(env) = root.entry("env").cloned() else { return root };
        let (mut secrets, mut variables) = (named(root.get("secrets")), named(Some(&env.node)));
        let mut is_changed = false;
        for (name, entry) in &mut variables {
            let is_secret =
                entry.node.get("secret").is_some_and(|secret| secret.value.as_bool() == Some(true));
            let source = entry.node.get("value").and_then(|value| value.value.as_str());
            let variable = source.and_then(|source| {
                let (template, _) = Template::parse_all(source, &Syntax::DEFAULT);
                let references = template.references();
                let [reference] = &references[..] else { return None };
                let path = reference.path.as_str();
                let is_whole = source.len() == path.len() + 3;
                Some(path.strip_prefix("env.").unwrap_or(path).to_owned())
                    .filter(|name| is_whole && is_name(name))
            });
            let (Some(variable), true) =
                (variable, is_secret && secrets.iter().all(|(known, _)| known != name))
            else {
                continue;
            };
            let message = format!("`secret: true` of `{name}` is the spelling of an older system");
            let hint = format!(
                "write `secrets: {{{name}: {variable}}}`, and `{name}: \"${{secrets.{name}}}\"` under `env:`"
            );
            self.report_old(Check::OldSpelling.at(entry.key_span, message).hint(hint));
            secrets.push((
                name.clone(),
                TreeEntry::made(entry.key_span, TreeNode::made_text(&variable, entry.node.span)),
            ));
            entry.node = reference(&format!("secrets.{name}"), entry.node.span);
            is_changed = true;
        }
        if !is_changed {
            return root;
        }
        let mut all = super::without(&root, &["env", "secrets"]);
        let secrets = self.make_object(secrets, env.node.span);
        let variables = self.make_object(variables, env.node.span);
        all.push(("secrets".into(), TreeEntry::made(env.key_span, secrets)));
        all.push(("env".into(), TreeEntry { node: variables, ..env }));
        self.make_object(all, root.span)
    }

    // ---- what is told ----------------------------------------------------------------------------------

    /// Whether a place is in the file itself and not in one that it is put together with: only the file that is looked at
    /// is told how it could be written.
    fn is_own(&self, span: Span) -> bool {
        self.file.placed(span.range().start).start == 0
    }

    fn report_old(&mut self, problem: Problem) {
        if self.is_own(problem.span) {
            self.is_older = true;
            self.report(problem);
        }
    }

    fn report_spelling(&mut self, entry: &TreeEntry, key: &str, ours: &str) {
        let message = format!("`{key}` is the spelling of an older system");
        let written = self.place(entry).quoted(ours);
        let problem = Check::OldSpelling.at(entry.key_span, message);
        self.report_old(problem.replace(format!("write it as `{ours}:`"), written));
    }

    fn report_value(&mut self, entry: &TreeEntry, new: &str) {
        let span = entry.node.span;
        let written = self.file.text().get(span.range()).unwrap_or_default();
        let message = format!("`{}` is the spelling of an older system", written.trim_matches(['"', '\'']));
        let problem = Check::OldSpelling.at(span, message);
        let quote = if entry.key_style == Style::Json { "\"" } else { "" };
        self.report_old(problem.replace(format!("write `{new}`"), format!("{quote}{new}{quote}")));
    }

    fn report_ignored(
        &mut self,
        node: &TreeNode,
        spec: &ObjectSpec,
        key: &str,
        entry: &TreeEntry,
        hint: &str,
    ) {
        let message = format!("{} has no key `{key}` here: the run goes without it", spec.title);
        let fix = self.place(entry).commented_out(node);
        self.report_old(Problem { fix, ..Check::IgnoredKey.at(entry.key_span, message).hint(hint) });
    }

    /// Of `capture_output: true`, which names nothing.
    fn report_captured_flag(&mut self, node: &TreeNode, key: &str, entry: &TreeEntry) {
        let message = format!("`{key}` takes a name; without one, the next step reads `${{prev}}`");
        let hint = format!("write `{key}: NAME` and read `${{NAME}}`, or remove it");
        let fix = self.place(entry).commented_out(node);
        self.report_old(Problem { fix, ..Check::IgnoredKey.at(entry.node.span, message).hint(hint) });
    }

    /// Reads `failure: true` beside `terminal: true` as `terminal: failure`.
    fn take_failure(&mut self, node: &TreeNode, made: &mut NodeEntries) {
        let Some(failure) = node.entry("failure") else { return };
        let fails = failure.node.value.as_bool() == Some(true);
        made.retain(|(key, _)| key != "failure");
        let terminal = node.entry("terminal");
        if !fails {
            return self.report_ignored(node, &STATE, "failure", failure, "remove it: it is the default");
        }
        let message = "`failure: true` is the spelling of an older system";
        let mut edits = Vec::new();
        let place = self.place(failure);
        match terminal {
            Some(terminal) => {
                edits.push(self.place(terminal).value("failure"));
                edits.extend(place.removed(node));
            }
            None => edits.push(place.entry("terminal", "failure")),
        }
        let is_whole = edits.len() == 1 + usize::from(terminal.is_some());
        let fix = Some(edits).filter(|_| is_whole).and_then(|edits| problem::joined(self.file.text(), edits));
        let problem = Check::OldSpelling.at(failure.key_span, message).hint("write `terminal: failure`");
        self.report_old(Problem { fix, ..problem });
        let value =
            TreeNode::made_text("failure", terminal.map_or(failure.node.span, |known| known.node.span));
        match made.iter_mut().find(|(key, _)| key == "terminal") {
            Some((_, entry)) => entry.node = value,
            None => made.push(("terminal".into(), TreeEntry::made(failure.key_span, value))),
        }
    }

    fn place<'t>(&'t self, entry: &'t TreeEntry) -> EntryPlace<'t> {
        EntryPlace { text: self.file.text(), entry }
    }

    /// Keys for readers that scenarios have, too: other files say nothing with them.
    pub(super) fn report_for_readers(&mut self, root: &TreeNode, key: &str, entry: &TreeEntry) {
        self.report_ignored(root, &WORKFLOW, key, entry, "remove it, or mention it in `description:`");
    }
}

/// How an older system calls the state itself in a route.
const CURRENT: &str = "$current";

/// Whether a path begins as one of another program: `.a.b` for `a.b`.
fn is_dotted(path: &str) -> bool {
    let mut chars = path.chars();
    chars.next() == Some('.') && chars.next().is_some_and(|char| char.is_alphabetic() || char == '_')
}

/// Whether an object does not have a key yet, by any name.
fn is_free(node: &TreeNode, spec: &ObjectSpec, ours: &str) -> bool {
    node.entries().all(|(key, _)| spec.key(key).is_none_or(|known| known.name != ours))
}

/// A problem that is no error where it stands.
pub(in crate::load) fn mild(problem: Problem) -> Problem {
    Problem { severity: Severity::Warning, ..problem }
}

/// The entries of `context`, and of what else is an object of names.
fn named(node: Option<&TreeNode>) -> NodeEntries {
    node.filter(|node| node.value.as_object().is_some()).map(entries).unwrap_or_default()
}

/// A text with one reference.
fn reference(to: &str, span: Span) -> TreeNode {
    TreeNode::made_text(&format!("${{{to}}}"), span)
}
