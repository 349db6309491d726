//! Conditions on items in the words of an older map-reduce: fields of the item by their bare names, `OR`, `AND` and `NOT`,
//! and `x matches 'pattern'`.

use threadline_lang::Origin;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};

use super::Expander;
use crate::checks::Check;
use crate::load::expand::entries;
use crate::problem::{self, Problem};

/// The keys of a map that are about its items.
const KEYS: [&str; 3] = ["filter", "sort_by", "distinct"];

/// Words that are no fields.
const WORDS: [&str; 16] = [
    "and", "or", "not", "in", "is", "true", "false", "null", "if", "else", "ASC", "DESC", "NULLS", "FIRST",
    "LAST", "contains",
];

/// The names that can be read beside the item.
const ROOTS: [&str; 10] =
    ["item", "map", "setup", "context", "inputs", "env", "workflow", "imports", "trigger", "_"];

impl Expander<'_> {
    /// A map whose items are chosen in the words of today.
    pub(super) fn with_present_filters(&mut self, root: TreeNode) -> TreeNode {
        let Some(map) = root.entry("map").filter(|map| map.node.get("agent_template").is_some()).cloned()
        else {
            return root;
        };
        let mut is_changed = false;
        let mut items = entries(&map.node);
        for (key, entry) in items.iter_mut().filter(|(key, _)| KEYS.contains(&key.as_str())) {
            let made = if entry.node.value.as_list().is_none() {
                self.present_condition(&entry.node, key)
            } else {
                let made: Vec<Option<TreeNode>> =
                    entry.node.items().iter().map(|item| self.present_condition(item, key)).collect();
                let changed = made.iter().any(Option::is_some);
                let all = made.into_iter().zip(entry.node.items());
                let all = all.map(|(made, item)| made.unwrap_or_else(|| item.clone())).collect();
                TreeNode::made_list(all, entry.node.span).ok().filter(|_| changed)
            };
            if let Some(made) = made {
                entry.node = made;
                is_changed = true;
            }
        }
        if !is_changed {
            return root;
        }
        let items = self.make_object(items, map.node.span);
        let all = entries(&root).into_iter().map(|(key, entry)| {
            let node = if key == "map" { items.clone() } else { entry.node.clone() };
            (key, TreeEntry { node, ..entry })
        });
        let all = all.collect();
        self.make_object(all, root.span)
    }

    fn present_condition(&mut self, node: &TreeNode, key: &str) -> Option<TreeNode> {
        let text = node.value.as_str()?;
        let file = self.file.text();
        let is_set = |name: &str| {
            ["id", "capture", "capture_output"].iter().any(|key| file.contains(&format!("{key}: {name}")))
        };
        let new = present_words(text, &is_set)?;
        let message = format!("`{key}` is written as in an older system");
        let problem = Check::OldSpelling.at(node.span, message).hint(format!("write `{new}`"));
        let origin = Origin { path: "".into(), span: node.span, style: node.style? };
        let whole = Fix::new(Span::new(0, text.len()), new.as_str());
        let fix = problem::fix_in(&origin, whole, self.file.text());
        self.report_old(Problem { fix, ..problem });
        self.rewritten.push(node.span);
        Some(TreeNode::made_text(&new, node.span))
    }
}

/// A condition with the words of today; none if it has them already. `is_set` says whether a step sets a name.
fn present_words(text: &str, is_set: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    // Where the last operand begins in what is written.
    let mut operand = 0;
    let mut matching: Option<usize> = None;
    while let Some(char) = text[at..].chars().next() {
        if char == '\'' || char == '"' {
            let rest = &text[at + 1..];
            let end = rest.find(char)? + at + 2;
            out.push_str(&text[at..end]);
            if let Some(begin) = matching.take() {
                out.push(')');
                operand = begin;
            }
            at = end;
            continue;
        }
        if char.is_alphabetic() || char == '_' {
            let end = text[at..]
                .find(|char: char| !char.is_alphanumeric() && !"_.[]".contains(char))
                .map_or(text.len(), |end| at + end);
            let word = &text[at..end];
            let first = word.split(['.', '[']).next().unwrap_or(word);
            let is_call = text[end..].trim_start().starts_with('(');
            match word {
                "OR" | "AND" | "NOT" => out.push_str(&word.to_lowercase()),
                "matches" if !is_call => {
                    out.truncate(out.trim_end().len());
                    out.insert_str(operand, "matches(");
                    out.push(',');
                    matching = Some(operand);
                }
                _ if is_call || WORDS.contains(&first) || ROOTS.contains(&first) || is_set(first) => {
                    operand = out.len();
                    out.push_str(word);
                }
                _ => {
                    operand = out.len();
                    out.push_str("item.");
                    out.push_str(word);
                }
            }
            at = end;
            continue;
        }
        if char.is_ascii_digit() {
            let end = text[at..]
                .find(|char: char| !char.is_alphanumeric() && char != '.')
                .map_or(text.len(), |end| at + end);
            out.push_str(&text[at..end]);
            at = end;
            continue;
        }
        if char == '$' {
            // A reference says where it reads.
            return None;
        }
        out.push(char);
        at += char.len_utf8();
    }
    (out != text && matching.is_none()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::present_words;

    #[test]
    fn older_conditions_are_those_of_today() {
        for (old, new) in [
            ("score >= 5 OR name matches '^a'", Some("item.score >= 5 or matches(item.name, '^a')")),
            (
                "unified_score.final_score DESC NULLS LAST",
                Some("item.unified_score.final_score DESC NULLS LAST"),
            ),
            ("NOT item.done AND lines[0] == 'x OR y'", Some("not item.done and item.lines[0] == 'x OR y'")),
            ("item.score >= 5 && len(item.name) > 2", None),
            ("${item.score} > 3", None),
        ] {
            assert_eq!(present_words(old, &|_| false).as_deref(), new);
        }
    }
}
