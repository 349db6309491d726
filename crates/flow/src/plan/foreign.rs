//! Warns about references as other systems write them: `{{ name }}` is text here, and `${{ name }}` an error of the shell.

use threadline_lang::source::TreeNode;
use threadline_lang::{ForeignReference, Origin};

use super::check::Checker;
use crate::checks::Check;
use crate::problem::{fix_in, place_in};

/// Keys whose text nobody evaluates.
const FOR_PEOPLE: [&str; 2] = ["description", "name"];

/// Keys whose text is a command.
const COMMANDS: [&str; 2] = ["shell", "action"];

/// How the braces are written where they are meant.
const AS_TEXT: &str = "for the braces themselves write `${= \"{{\" }`";

impl Checker<'_> {
    /// Looks for such references in every text of the file.
    pub(super) fn foreign_references(&mut self) {
        let file = self.plan.workflow.file.clone();
        if !file.own_text().contains("{{") {
            return;
        }
        if let Ok(tree) = file.read_tree(&self.plan.workflow.syntax.limits) {
            self.foreign_in(&tree, false);
        }
    }

    fn foreign_in(&mut self, node: &TreeNode, is_command: bool) {
        let is_literal = node.get("interpolate").is_some_and(|value| value.value.as_bool() == Some(false));
        for (key, entry) in node.entries() {
            let is_plain = FOR_PEOPLE.contains(&key) || is_literal && key == "shell";
            if !is_plain {
                self.foreign_in(&entry.node, COMMANDS.contains(&key));
            }
        }
        for item in node.items() {
            self.foreign_in(item, false);
        }
        if let (Some(text), Some(style)) = (node.value.as_str(), node.style) {
            let origin = Origin { path: ecow::EcoString::new(), span: node.span, style };
            // Outside of commands `${{` is an error of the language.
            for found in
                ForeignReference::all_in(text).into_iter().filter(|found| is_command || !found.has_dollar)
            {
                self.warn_of_foreign(&origin, &found);
            }
        }
    }

    fn warn_of_foreign(&mut self, origin: &Origin, found: &ForeignReference) {
        let is_known = self.is_root(&found.root)
            || self.names.scopes.iter().any(|scope| scope.names.contains_key(found.root.as_str()));
        if !is_known && !found.has_dollar {
            return;
        }
        let text = self.plan.workflow.file.text();
        let span = place_in(origin, found.span, text);
        let braces = if found.has_dollar { "${{ ... }}" } else { "{{ ... }}" };
        let mut problem = Check::ForeignReference.at(span, format!("`{braces}` is not a reference here"));
        if is_known {
            let spelling = format!("${{{}}}", found.inside);
            problem = problem.hint(format!("write `{spelling}`; {AS_TEXT}"));
            let fix = threadline_lang::diag::Fix::new(found.span, spelling);
            problem.fix = fix_in(origin, fix, text);
        } else {
            problem = problem.hint(format!("a reference is written `${{name}}`; {AS_TEXT}"));
        }
        self.problem(problem);
    }
}
