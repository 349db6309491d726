//! Names that texts of an older list read: the step before as `shell`, the branch of the items as `merge.source_branch`,
//! and the variables of `env:` by their bare names. They become the names of today.

use std::collections::BTreeSet;

use ecow::EcoString;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Origin, Reference, Syntax, Template};

use super::edits::EntryPlace;
use super::{Expander, named, reference};
use crate::checks::Check;
use crate::load::expand::{NodeEntries, entries, text, without};
use crate::problem::{self, Problem, joined};

/// The roots of an older system that are the step before.
const ROOTS: [&str; 2] = ["shell", "claude"];

/// What is read of a step before.
const FIELDS: [&str; 3] = ["output", "stderr", "exit_code"];

/// What is read of a merge there: the branch that is merged, and the one that it is merged into.
const SOURCE: &str = "source_branch";
const TARGET: &str = "target_branch";

/// Keys whose text is a command, where a variable is read by the shell.
const COMMANDS: [&str; 3] = ["shell", "until", "check"];

/// The names of a file that are read otherwise today.
#[derive(Default)]
struct OldNames {
    /// Whether the step before has its older names.
    previous: bool,
    merge: bool,
    /// What steps capture.
    captures: BTreeSet<EcoString>,
    /// The variables of `env:` that are fixed texts.
    variables: BTreeSet<EcoString>,
    /// Those that are read, with the changes of the text; none where one cannot be changed.
    read: BTreeSet<EcoString>,
    edits: Vec<Option<Fix>>,
    /// Whether a step reads the branch that is merged into.
    reads_target: bool,
}

impl Expander<'_> {
    /// A file whose texts read everything by its name of today.
    pub(super) fn with_present_roots(&mut self, root: TreeNode) -> TreeNode {
        if root.get("states").is_some() || root.get("nodes").is_some() {
            return root;
        }
        let text = self.file.text();
        // A step may be called so.
        let names = ["id: shell", "capture: shell\n", "capture_output: shell\n", "id: claude"];
        let previous = ROOTS.iter().any(|old| text.contains(&format!("{old}.")))
            && !names.iter().any(|name| text.contains(name));
        let is_fixed = |entry: &TreeEntry| {
            let value = &entry.node.value;
            !value.is_null()
                && value.as_list().is_none()
                && value.as_object().is_none()
                && !value.to_string().contains('$')
        };
        let variables = named(root.get("env")).into_iter().filter(|(name, entry)| {
            let is_known = root.get("context").is_some_and(|context| context.get(name).is_some());
            let is_set =
                [format!("id: {name}"), format!("capture: {name}"), format!("capture_output: {name}")];
            is_fixed(entry)
                && crate::forms::is_name(name)
                && !is_known
                && !is_set.iter().any(|set| text.contains(set))
        });
        let mut captures = BTreeSet::new();
        note_captures(&root, self.is_older, &mut captures);
        let mut old = OldNames {
            previous,
            captures,
            merge: root.get("map").is_some() && text.contains("merge."),
            variables: variables.map(|(name, _)| name).collect(),
            ..OldNames::default()
        };
        if !old.previous && !old.merge && old.variables.is_empty() && old.captures.is_empty() {
            return root;
        }
        let made = self.present_roots(&root, "", &mut old).unwrap_or(root);
        let made = if old.reads_target { self.with_target(made) } else { made };
        self.with_variables(made, &old)
    }

    fn present_roots(&mut self, node: &TreeNode, key: &str, old: &mut OldNames) -> Option<TreeNode> {
        if node.value.as_str().is_some() {
            return self.present_text(node, key, old);
        }
        let mut is_changed = false;
        if !node.items().is_empty() {
            let items = node.items().iter().map(|item| {
                let made = self.present_roots(item, key, old);
                is_changed |= made.is_some();
                made.unwrap_or_else(|| item.clone())
            });
            let items: Vec<TreeNode> = items.collect();
            return is_changed.then(|| TreeNode::made_list(items, node.span).ok())?;
        }
        let made: NodeEntries = entries(node)
            .into_iter()
            .map(|(key, entry)| {
                let made = if key == "env" { None } else { self.present_roots(&entry.node, &key, old) };
                is_changed |= made.is_some();
                let node = made.unwrap_or_else(|| entry.node.clone());
                (key, TreeEntry { node, ..entry })
            })
            .collect();
        is_changed.then(|| self.make_object(made, node.span))
    }

    /// The text with the names of today.
    fn present_text(&mut self, node: &TreeNode, key: &str, old: &mut OldNames) -> Option<TreeNode> {
        let text = node.value.as_str()?;
        if !text.contains('$') {
            return None;
        }
        let (template, _) = Template::parse_all(text, &Syntax::DEFAULT);
        let mut changes: Vec<(Span, String)> = Vec::new();
        for reference in template.references() {
            let at = reference.span.range().start;
            if !text[..at.min(text.len())].ends_with('{') || !text[at..].starts_with(reference.root.as_str())
            {
                continue;
            }
            let span = Span::new(at, at + reference.root.len());
            if let Some(change) = Self::present_name(&reference, span, text, key, old) {
                changes.push(change);
            }
        }
        // What an agent is told has variables without braces, too.
        if key == "claude" || key == "message" {
            changes.extend(dollar_names(text, old));
        }
        if changes.is_empty() {
            return None;
        }
        changes.sort_by_key(|(span, _)| span.start);
        changes.dedup_by_key(|(span, _)| span.start);
        let origin = node.style.map(|style| Origin { path: "".into(), span: node.span, style });
        let file = self.file.text();
        for (span, new) in &changes {
            let fix = origin
                .as_ref()
                .and_then(|origin| problem::fix_in(origin, Fix::new(*span, new.as_str()), file));
            let name = &text[span.range()];
            let place = origin.as_ref().map_or(node.span, |origin| problem::place_in(origin, *span, file));
            let message = format!("`{name}` is the spelling of an older system");
            let problem = Check::OldSpelling.at(place, message).hint(format!("write `{new}`"));
            // A variable has to be declared beside it: all of them change at once.
            let is_variable = new.contains("context.");
            if is_variable {
                old.edits.push(fix.clone());
            }
            let fix = fix.filter(|_| !is_variable && new != TARGET);
            let id = if is_variable { problem.id } else { "deprecated-spelling" };
            self.report_old(Problem { id, fix, ..problem });
        }
        let mut new = text.to_owned();
        for (span, with) in changes.iter().rev() {
            // With blanks before it, a shorter name leaves what stands behind it in its place.
            let blanks = span.range().len().saturating_sub(with.len());
            new.replace_range(span.range(), &format!("{}{with}", " ".repeat(blanks)));
        }
        if new.len() != text.len() {
            self.rewritten.push(node.span);
        }
        let mut made = TreeNode::made_text(&new, node.span);
        made.style = node.style;
        Some(made)
    }

    /// What a reference is written as today: what changes of it.
    fn present_name(
        reference: &Reference,
        root: Span,
        text: &str,
        key: &str,
        old: &mut OldNames,
    ) -> Option<(Span, String)> {
        let name = reference.root.as_str();
        let first = reference.first.as_deref();
        if ROOTS.contains(&name) {
            return (old.previous && FIELDS.contains(&first?)).then(|| (root, "prev".to_owned()));
        }
        if old.captures.contains(name)
            && let Some(field @ ("exit_code" | "stderr" | "success")) = first
        {
            let end = root.range().end + 1 + field.len();
            text.get(root.range().end + 1..end).filter(|written| *written == field)?;
            if field != "success" {
                return Some((root, format!("captured.{name}")));
            }
            let close = end + text[end..].find('}')?;
            let is_plain = matches!(&text[end..close], "" | ":-false" | "|default:false" | ":default=false");
            let new = format!("= default(captured.{name}.exit_code, 1) == 0");
            return is_plain.then(|| (Span::new(root.range().start, close), new));
        }
        if name == "merge" && old.merge {
            let first = first.filter(|first| [SOURCE, TARGET].contains(first))?;
            let end = root.range().end + 1 + first.len();
            let whole = Span::new(root.range().start, end);
            text.get(whole.range()).filter(|written| written.ends_with(first))?;
            old.reads_target |= first == TARGET;
            let new = if first == SOURCE { "map.branch" } else { "target_branch" };
            return Some((whole, new.to_owned()));
        }
        if first.is_none() && old.variables.contains(name) && !COMMANDS.contains(&key) {
            old.read.insert(name.into());
            return Some((root, format!("context.{name}")));
        }
        None
    }

    /// The phase `merge` with a step that finds the branch which is merged into.
    fn with_target(&mut self, root: TreeNode) -> TreeNode {
        let Some(merge) = root.entry("merge").cloned() else { return root };
        let span = merge.key_span;
        let step = vec![text("shell", "git branch --show-current", span), text("capture", TARGET, span)];
        let step = self.make_object(step, span);
        let is_list = merge.node.value.as_list().is_some();
        let key = ["commands", "steps"].into_iter().find(|key| merge.node.get(key).is_some());
        let list = if is_list { Some(&merge.node) } else { key.and_then(|key| merge.node.get(key)) };
        let Some(list) = list else { return root };
        let steps = std::iter::once(step).chain(list.items().iter().cloned()).collect();
        let Ok(steps) = TreeNode::made_list(steps, list.span) else { return root };
        let node = match key.filter(|_| !is_list) {
            None => steps,
            Some(key) => {
                let all = entries(&merge.node).into_iter().map(|(known, entry)| {
                    let node = if known == key { steps.clone() } else { entry.node.clone() };
                    (known, TreeEntry { node, ..entry })
                });
                let all = all.collect();
                self.make_object(all, merge.node.span)
            }
        };
        let all = entries(&root).into_iter().map(|(known, entry)| {
            let node = if known == "merge" { node.clone() } else { entry.node.clone() };
            (known, TreeEntry { node, ..entry })
        });
        let all = all.collect();
        self.make_object(all, root.span)
    }

    /// The file with the variables that texts read as entries of `context`, which `env` takes from there.
    fn with_variables(&mut self, root: TreeNode, old: &OldNames) -> TreeNode {
        let Some(env) = root.entry("env").filter(|_| !old.read.is_empty()).cloned() else { return root };
        let mut context = named(root.get("context"));
        let mut variables = named(Some(&env.node));
        for (name, entry) in variables.iter_mut().filter(|(name, _)| old.read.contains(name)) {
            context.push((name.clone(), entry.clone()));
            entry.node = reference(&format!("context.{name}"), entry.node.span);
        }
        let fix = self.variable_edits(&root, &env, old).and_then(|edits| joined(self.file.text(), edits));
        let names: Vec<String> = old.read.iter().map(|name| format!("`{name}`")).collect();
        let message = format!("`env:` is for programs, and texts read {} of it", names.join(", "));
        let hint = "write the values under `context:`, and read them as `${context.NAME}`, also in `env:`";
        self.report_old(Problem { fix, ..Check::OldSpelling.at(env.key_span, message).hint(hint) });
        let mut all = without(&root, &["context", "env"]);
        let context = self.make_object(context, env.node.span);
        let variables = self.make_object(variables, env.node.span);
        let key_span = root.entry("context").map_or(env.key_span, |entry| entry.key_span);
        all.push(("context".into(), TreeEntry::made(key_span, context)));
        all.push(("env".into(), TreeEntry { node: variables, ..env }));
        self.make_object(all, root.span)
    }

    fn variable_edits(&self, root: &TreeNode, env: &TreeEntry, old: &OldNames) -> Option<Vec<Fix>> {
        let file = self.file.text();
        let mut edits: Vec<Fix> = old.edits.iter().cloned().collect::<Option<_>>()?;
        let mut lines = Vec::new();
        for (name, entry) in env.node.entries().filter(|(name, _)| old.read.contains(*name)) {
            let place = EntryPlace { text: file, entry };
            let value = file.get(entry.node.span.range().start..place.end())?;
            if value.contains('\n') {
                return None;
            }
            lines.push(format!("{name}: {value}"));
            edits.push(place.flow(&format!("\"${{context.{name}}}\""))?);
        }
        if let Some(context) = root.entry("context") {
            let (_, first) = context.node.entries().next()?;
            edits.push(EntryPlace { text: file, entry: first }.before(&lines)?);
        } else {
            let before = format!("context:\n  {}\n", lines.join("\n  "));
            edits.push(EntryPlace { text: file, entry: env }.before_lines(&before)?);
        }
        self.is_own(env.key_span).then_some(edits)
    }
}

/// Notes what the steps of a file capture, by its older key or in a file that is older otherwise: the fields are read directly
/// there.
fn note_captures(node: &TreeNode, is_older: bool, captures: &mut BTreeSet<EcoString>) {
    let named = node.get("capture_output").or_else(|| node.get("capture").filter(|_| is_older));
    if let Some(name) = named.and_then(|name| name.value.as_str()) {
        captures.insert(name.into());
    }
    node.items().iter().for_each(|item| note_captures(item, is_older, captures));
    node.entries().for_each(|(_, entry)| note_captures(&entry.node, is_older, captures));
}

/// `$NAME` in a text, for variables of the file.
fn dollar_names(text: &str, old: &mut OldNames) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('$') {
        let rest = &text[at + 1..];
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        if !text[..at].ends_with(['$', '\\']) && old.variables.contains(name) {
            old.read.insert(name.into());
            found.push((Span::new(at, at + 1 + end), format!("${{context.{name}}}")));
        }
    }
    found
}
