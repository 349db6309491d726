//! `${shell.output}`, which is the output of the step before in an older system: `${prev.output}`.

use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Origin, Syntax, Template};

use super::Expander;
use crate::checks::Check;
use crate::load::expand::{NodeEntries, entries};
use crate::problem::{self, Problem};

/// The roots of an older system that are the step before, with what is as long and means that here.
const ROOTS: [(&str, &str); 2] = [("shell", " prev"), ("claude", "  prev")];

/// What is read of a step before.
const FIELDS: [&str; 4] = ["output", "stdout", "stderr", "exit_code"];

impl Expander<'_> {
    /// A file whose texts read the step before by its name of today.
    pub(super) fn with_present_roots(&mut self, root: TreeNode) -> TreeNode {
        let text = self.file.text();
        let is_read = ROOTS.iter().any(|(old, _)| text.contains(&format!("{old}.")));
        // A step may be called so.
        let names = ["id: shell", "capture: shell\n", "capture_output: shell\n", "id: claude"];
        if !is_read || root.get("states").is_some() || names.iter().any(|name| text.contains(name)) {
            return root;
        }
        self.present_roots(&root).unwrap_or(root)
    }

    fn present_roots(&mut self, node: &TreeNode) -> Option<TreeNode> {
        if node.value.as_str().is_some() {
            return self.present_text(node);
        }
        let mut is_changed = false;
        if !node.items().is_empty() {
            let items = node.items().iter().map(|item| {
                let made = self.present_roots(item);
                is_changed |= made.is_some();
                made.unwrap_or_else(|| item.clone())
            });
            let items: Vec<TreeNode> = items.collect();
            return is_changed.then(|| TreeNode::made_list(items, node.span).ok())?;
        }
        let made: NodeEntries = entries(node)
            .into_iter()
            .map(|(key, entry)| {
                let made = self.present_roots(&entry.node);
                is_changed |= made.is_some();
                let node = made.unwrap_or_else(|| entry.node.clone());
                (key, TreeEntry { node, ..entry })
            })
            .collect();
        is_changed.then(|| self.make_object(made, node.span))
    }

    /// The text with other names in the same places, so that what stands behind them is found where it is written.
    fn present_text(&mut self, node: &TreeNode) -> Option<TreeNode> {
        let text = node.value.as_str()?;
        if !ROOTS.iter().any(|(old, _)| text.contains(old)) {
            return None;
        }
        let (template, _) = Template::parse_all(text, &Syntax::DEFAULT);
        let mut new = text.to_owned();
        let origin = Origin { path: "".into(), span: node.span, style: node.style? };
        for reference in template.references() {
            let Some((old, ours)) = ROOTS.iter().find(|(old, _)| reference.root == *old) else { continue };
            let at = reference.span.range().start;
            let field = reference.first.as_deref().filter(|first| FIELDS.contains(first));
            let (Some(field), true) = (field, text.get(at..).is_some_and(|rest| rest.starts_with(old)))
            else {
                continue;
            };
            // Only where blanks may stand before a name: behind the brace.
            if !text[..at].ends_with('{') || field == "stdout" {
                continue;
            }
            new.replace_range(at..at + old.len(), ours);
            let span = Span::new(at, at + old.len());
            let file = self.file.text();
            let fix = problem::fix_in(&origin, Fix::new(span, "prev"), file);
            let message = format!("`{old}.{field}` is the spelling of an older system");
            let problem = Check::OldSpelling.at(problem::place_in(&origin, span, file), message);
            let problem = problem.hint(format!("read the previous step as `${{prev.{field}}}`"));
            self.report_old(Problem { fix, ..problem });
        }
        if new == text {
            return None;
        }
        let mut made = node.clone();
        made.value = new.into();
        Some(made)
    }
}
