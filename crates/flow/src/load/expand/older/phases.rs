//! Phases of older files: `merge` of a list of commands, and items that commit, which have worktrees of their own there.

use threadline_lang::Value;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};

use super::Expander;
use super::edits::EntryPlace;
use crate::checks::Check;
use crate::load::expand::{NodeEntries, entries, text};
use crate::problem::{Problem, joined};

/// The keys of the steps of a map.
const STEPS: [&str; 3] = ["agent_template", "steps", "commands"];

/// The keys of an older step whose command has to commit.
const COMMITS: [&str; 2] = ["commit_required", "auto_commit"];

/// What brings the commits of the items to the branch that is checked out.
const MERGES: &str = "git merge --quiet --no-edit -- ${map.branch}";

impl Expander<'_> {
    /// A list of commands whose `merge` is what runs when all of them did well.
    pub(super) fn with_merge_of_list(&mut self, root: TreeNode) -> TreeNode {
        let is_list = ["steps", "commands"].iter().any(|key| root.get(key).is_some());
        let others = ["map", "setup", "reduce", "mode", "on_success", "states", "nodes"];
        let is_phased = |key: &str| root.get(key).is_some_and(|node| node.value.as_str() != Some("standard"));
        let Some(merge) = root.entry("merge").filter(|_| is_list && !others.iter().any(|key| is_phased(key)))
        else {
            return root;
        };
        let place = self.place(merge);
        let inner = ["commands", "steps"].iter().find_map(|key| merge.node.entry(key));
        let is_alone = merge.node.entries().count() == 1;
        let fix = inner.is_none().then(|| Fix::new(merge.key_span, place.quoted("on_success")));
        let steps = inner.map_or(&merge.node, |inner| &inner.node).clone();
        let message = "`merge` of a list of commands is the spelling of an older system";
        let hint = if inner.is_some() && !is_alone {
            "write its commands under `on_success:`, and a limit as `timeout:` on each of them"
        } else {
            "write its commands under `on_success:`"
        };
        self.report_old(Problem { fix, ..Check::OldSpelling.at(merge.key_span, message).hint(hint) });
        let all = entries(&root).into_iter().map(|(key, entry)| {
            if key == "merge" {
                ("on_success".into(), TreeEntry { node: steps.clone(), ..entry })
            } else {
                (key, entry)
            }
        });
        let all = all.collect();
        self.make_object(all, root.span)
    }

    /// A map whose items have to commit: each works in a worktree, and `reduce` sees what they committed.
    pub(super) fn with_worktrees(&mut self, root: TreeNode) -> TreeNode {
        let Some(map) = root.entry("map").cloned() else { return root };
        let steps = STEPS.iter().find_map(|key| map.node.entry(key));
        let Some(steps) = steps.filter(|steps| map.node.get("worktree").is_none() && commits(&steps.node))
        else {
            return root;
        };
        let reduce = root.entry("reduce").cloned();
        let fix = self.worktree_edits(steps, reduce.as_ref());
        let fix = fix.and_then(|edits| joined(self.file.text(), edits));
        let message = "items that commit have worktrees of their own in an older system, and `reduce` sees their commits";
        let hint = format!("write `worktree: true` under `map:`, and begin `reduce:` with `shell: {MERGES}`");
        self.report_old(Problem { fix, ..Check::OldSpelling.at(map.key_span, message).hint(hint) });
        let mut items = entries(&map.node);
        let made = TreeNode::made_scalar(Value::from(true), map.key_span);
        items.push(("worktree".into(), TreeEntry::made(map.key_span, made)));
        let items = self.make_object(items, map.node.span);
        let reduced = reduce.map(|reduce| self.with_first_step(&reduce));
        let all = entries(&root).into_iter().map(|(key, entry)| match (&*key, &reduced) {
            ("map", _) => (key, TreeEntry { node: items.clone(), ..entry }),
            ("reduce", Some(node)) => (key, TreeEntry { node: node.clone(), ..entry }),
            _ => (key, entry),
        });
        let all = all.collect();
        self.make_object(all, root.span)
    }

    fn worktree_edits(&self, steps: &TreeEntry, reduce: Option<&TreeEntry>) -> Option<Vec<Fix>> {
        let mut edits = vec![self.place(steps).before(&["worktree: true".to_owned()])?];
        if let Some(reduce) = reduce {
            let list = listed(&reduce.node)?;
            let first = list.items().first()?;
            let (_, entry) = first.entries().next()?;
            let file = self.file.text();
            let key = EntryPlace { text: file, entry }.start();
            let line = file[..key].rfind('\n').map_or(0, |at| at + 1);
            let dash = file[line..key].find('-').filter(|at| file[line..line + at].trim().is_empty())?;
            let (blanks, gap) = (&file[line..line + dash], &file[line + dash..key]);
            let inner = " ".repeat(gap.len());
            edits.push(Fix::new(
                Span::new(line, line),
                format!("{blanks}{gap}when: map.branch != null\n{blanks}{inner}shell: {MERGES}\n"),
            ));
        }
        self.is_own(steps.key_span).then_some(edits)
    }

    /// The phase with a step before its own that merges what the items committed.
    fn with_first_step(&mut self, phase: &TreeEntry) -> TreeNode {
        let span = phase.key_span;
        let step: NodeEntries = vec![text("when", "map.branch != null", span), text("shell", MERGES, span)];
        let step = self.make_object(step, span);
        let Some(list) = listed(&phase.node) else { return phase.node.clone() };
        let steps = std::iter::once(step).chain(list.items().iter().cloned()).collect();
        let Ok(steps) = TreeNode::made_list(steps, list.span) else { return phase.node.clone() };
        if phase.node.value.as_list().is_some() {
            return steps;
        }
        let all = entries(&phase.node).into_iter().map(|(key, entry)| {
            let node = if STEPS.contains(&&*key) { steps.clone() } else { entry.node.clone() };
            (key, TreeEntry { node, ..entry })
        });
        let all = all.collect();
        self.make_object(all, phase.node.span)
    }
}

/// The steps of a phase, where they are a list.
fn listed(phase: &TreeNode) -> Option<&TreeNode> {
    let inner = STEPS.iter().find_map(|key| phase.get(key));
    inner.or(Some(phase)).filter(|list| !list.items().is_empty())
}

/// Whether a step below has to commit.
fn commits(node: &TreeNode) -> bool {
    let says = |key: &str| node.get(key).is_some_and(|value| value.value.as_bool() == Some(true));
    COMMITS.iter().any(|key| says(key))
        || node.items().iter().any(commits)
        || node.entries().any(|(_, entry)| commits(&entry.node))
}
