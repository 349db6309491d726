//! Flat scenarios as other systems write them: a list of scenarios as the whole file, waits without a time, messages as
//! actions, and assertions that have a name. Each becomes what a scenario of ours would say.

use threadline_lang::Value;
use threadline_lang::diag::Span;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::super::{Expander, NodeEntries, entries, text};
use crate::fields::STEP;

/// The keys by which an object in a list is a scenario, and no step of a workflow.
const MARKS: [&str; 4] = ["steps", "commands", "expectations", "cases"];

/// How long a wait without a time takes, in milliseconds.
const WAIT_MS: i64 = 1_000;

/// The words of an answer that tells of an error.
const ERROR_WORDS: [&str; 3] = ["error", "failed", "cannot"];

impl Expander<'_> {
    /// A file that is a list of scenarios, as an object with them; any other as it is.
    pub(in super::super) fn with_listed_scenarios(&mut self, root: TreeNode) -> TreeNode {
        let is_scenario =
            |item: &TreeNode| MARKS.iter().any(|key| STEP.key(key).is_none() && item.get(key).is_some());
        if root.value.as_list().is_none() || !root.items().iter().any(is_scenario) {
            return root;
        }
        let head = Span { end: root.span.end.min(root.span.start + 1), ..root.span };
        let all = vec![("scenarios".into(), TreeEntry::made(head, root.clone()))];
        self.make_object(all, root.span)
    }

    /// A step in the words of ours; nothing for one that only waits for an answer, which is there when the prompt is
    /// over.
    pub(super) fn translated(&mut self, step: &TreeNode) -> Option<TreeNode> {
        let type_of =
            |node: &TreeNode| node.get("type").and_then(|kind| kind.value.as_str()).map(str::to_owned);
        if let Some(action) = step.entry("action") {
            match type_of(&action.node).as_deref() {
                Some("wait-for-response") => {
                    let left = ["delayBefore", "delayAfter"].into_iter();
                    let left: NodeEntries =
                        left.filter_map(|key| Some((key.into(), step.entry(key)?.clone()))).collect();
                    let wait = text("wait", "0ms", action.node.span);
                    return (!left.is_empty())
                        .then(|| self.make_object(left.into_iter().chain([wait]).collect(), step.span));
                }
                Some("input-message") => {
                    if let Some(message) =
                        action.node.get("params").and_then(|params| params.entry("message"))
                    {
                        return Some(self.replaced(step, "action", ("prompt", message.clone())));
                    }
                }
                _ => {}
            }
        }
        if let Some(assertion) = step.entry("assertion")
            && let Some(kind) = type_of(&assertion.node)
            && let Some(expected) = self.named_assertion(&kind, &assertion.node)
        {
            let entry = TreeEntry { node: expected, ..assertion.clone() };
            return Some(self.replaced(step, "assertion", ("assert", entry)));
        }
        let is_wait = type_of(step).as_deref() == Some("wait");
        if is_wait && ["wait", "waitMs"].iter().all(|key| step.get(key).is_none()) {
            let wait = TreeEntry::made(step.span, TreeNode::made_scalar(WAIT_MS.into(), step.span));
            let all = entries(step).into_iter().chain([("waitMs".into(), wait)]).collect();
            return Some(self.make_object(all, step.span));
        }
        Some(step.clone())
    }

    /// A step with another entry in place of one, of whatever `type` it says that it is.
    fn replaced(&mut self, step: &TreeNode, key: &str, (name, entry): (&str, TreeEntry)) -> TreeNode {
        let kept = entries(step).into_iter().filter(|(known, _)| known != key && known != "type");
        let all = kept.chain([(name.into(), entry)]).collect();
        self.make_object(all, step.span)
    }

    /// What an assertion with a name asks of the last answer; nothing where only the application can tell.
    fn named_assertion(&mut self, kind: &str, assertion: &TreeNode) -> Option<TreeNode> {
        let at = assertion.span;
        let expected = || assertion.get("expected").filter(|node| node.value.as_str().is_some()).cloned();
        Some(match kind {
            "check-llm-response" => self.made_check(&["text", "contains"], expected()?, at),
            "check-agent-call" => {
                let name = expected()?;
                let planned = self.made_check(&["plan", "some", "agent", "iContains"], name.clone(), at);
                let named = self.made_check(&["text", "iContains"], name, at);
                let is_planned = TreeNode::made_scalar(Value::from(true), at);
                let is_planned = self.made_check(&["plan", "exists"], is_planned, at);
                let parts = [("when", is_planned), ("then", planned), ("else", named)];
                let parts = parts.map(|(key, node)| (key.into(), TreeEntry::made(at, node)));
                self.make_object(parts.into(), at)
            }
            "check-extrinsic-creation" => {
                let is_empty = TreeNode::made_scalar(Value::from(false), at);
                self.made_check(&["plan", "empty"], is_empty, at)
            }
            "check-error" => {
                let words = ERROR_WORDS.map(|word| TreeNode::made_text(word, at));
                let words = self.make_list(words.into(), at);
                self.made_check(&["text", "iContainsAny"], words, at)
            }
            _ => return None,
        })
    }

    /// Objects in each other, the innermost with this operand.
    fn made_check(&mut self, keys: &[&str], operand: TreeNode, at: Span) -> TreeNode {
        keys.iter().rev().fold(operand, |inner, key| {
            self.make_object(vec![((*key).into(), TreeEntry::made(at, inner))], at)
        })
    }
}
