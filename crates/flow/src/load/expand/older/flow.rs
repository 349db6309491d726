//! `flow` of older loops: the states in a row, each with the one behind it as its next, or with a choice of two as in
//! `look?done:mend`.

use ecow::EcoString;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Expander, named};
use crate::checks::Check;
use crate::load::expand::{entries, text, without};
use crate::problem::Problem;

/// The keys by which a state says itself what follows, or that it is an end.
const ROUTES: [&str; 5] = ["next", "on_yes", "on_no", "route", "terminal"];

/// A state of the row.
struct Link {
    name: EcoString,
    /// What follows a yes and a no, where it is a choice.
    choice: Option<(EcoString, EcoString)>,
    written: TreeNode,
}

impl Expander<'_> {
    /// A loop whose states say themselves what follows.
    pub(super) fn with_flow(&mut self, root: TreeNode) -> TreeNode {
        let Some(flow) = root.entry("flow").cloned() else { return root };
        let Some(links) = flow.node.items().iter().map(link).collect::<Option<Vec<Link>>>() else {
            return root;
        };
        if links.is_empty() || root.get("states").is_some_and(|states| states.value.as_object().is_none()) {
            return root;
        }
        let message = "`flow` is the spelling of an older system";
        let hint = "write `next:`, or `on_yes:` and `on_no:`, in each state";
        self.report_old(Problem { ..Check::OldSpelling.at(flow.key_span, message).hint(hint) });
        let mut states = named(root.get("states"));
        for (at, link) in links.iter().enumerate() {
            let span = link.written.span;
            let Some(position) = states.iter().position(|(name, _)| *name == link.name) else {
                let ends = if link.name == "failed" { "failure" } else { "true" };
                let state = self.make_object(vec![text("terminal", ends, span)], span);
                states.push((link.name.clone(), TreeEntry::made(span, state)));
                continue;
            };
            let entry = &states[position].1;
            let has = |key: &str| entry.node.get(key).is_some();
            let mut all = entries(&entry.node);
            match (&link.choice, links.get(at + 1)) {
                (Some((yes, no)), _) => {
                    let missing = [("on_yes", yes), ("on_no", no)].into_iter().filter(|(key, _)| !has(key));
                    all.extend(missing.map(|(key, to)| text(key, to, span)));
                }
                (None, Some(next)) if !ROUTES.iter().any(|key| has(key)) => {
                    all.push(text("next", &next.name, span));
                }
                _ => continue,
            }
            let place = entry.node.span;
            states[position].1.node = self.make_object(all, place);
        }
        let mut all = without(&root, &["flow", "states"]);
        if root.get("initial").is_none() {
            all.push(text("initial", &links[0].name, links[0].written.span));
        }
        let key_span = root.entry("states").map_or(flow.key_span, |entry| entry.key_span);
        let place = root.get("states").map_or(flow.node.span, |node| node.span);
        let states = self.make_object(states, place);
        all.push(("states".into(), TreeEntry::made(key_span, states)));
        self.make_object(all, root.span)
    }
}

fn link(node: &TreeNode) -> Option<Link> {
    let written = node.value.as_str()?;
    let (name, choice) = match written.split_once('?') {
        None => (written, None),
        Some((name, ways)) => (name, Some(ways.split_once(':')?)),
    };
    let word = |word: &str| EcoString::from(word.trim());
    let choice = choice.map(|(yes, no)| (word(yes), word(no)));
    Some(Link { name: word(name), choice, written: node.clone() })
}
