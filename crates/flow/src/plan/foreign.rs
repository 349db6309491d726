//! Warns about references as other systems write them: `{{ name }}` is text here, and `${{ name }}` an error of the shell.

use threadline_lang::diag::Span;
use threadline_lang::source::TreeNode;
use threadline_lang::{ForeignReference, Origin};

use super::check::Checker;
use crate::checks::Check;
use crate::model::Action;
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
        self.dollar_names();
        let file = self.plan.workflow.file.clone();
        if !file.own_text().contains("{{") {
            return;
        }
        if let Ok(tree) = file.read_tree(&self.plan.workflow.syntax.limits) {
            self.foreign_in(&tree, false);
        }
    }

    /// `$NAME` in what agents are told: an older system fills it, here it is text.
    fn dollar_names(&mut self) {
        let plan = self.plan;
        for planned in &plan.steps {
            let Action::Agent { message, .. } = &planned.step.action else { continue };
            let text = message.value.source();
            for (at, _) in text.match_indices('$') {
                let rest = &text[at + 1..];
                let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                let is_argument = ["ARG", "ARGUMENTS", "1", "2", "3"].contains(&name);
                let of_step = planned.step.env.iter().chain(&plan.workflow.env);
                let is_variable = of_step.into_iter().any(|variable| variable.name == name);
                if text[..at].ends_with(['$', '\\']) || !is_argument && !is_variable {
                    continue;
                }
                let span =
                    place_in(&message.origin, Span::new(at, at + 1 + name.len()), plan.workflow.file.text());
                let message = format!("`${name}` is text here: the agent is told it as it is");
                let hint = if is_variable {
                    format!("name it in `context:`, and write `${{context.{name}}}`")
                } else {
                    "declare it under `inputs:`, and write `${inputs.NAME}`".to_owned()
                };
                self.problem(Check::ForeignReference.at(span, message).hint(hint));
            }
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
