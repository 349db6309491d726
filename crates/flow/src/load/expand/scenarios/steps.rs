//! The steps of a scenario: prompts, waits, assertions and steps of any kind, and what each of them becomes.

use std::collections::BTreeSet;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::super::{Expander, NodeEntries, entries, text};
use super::{NodeContext, OWN_NAMES, expectations_of, is_action, known_entries, prompt_of};
use crate::checks::Check;
use crate::fields::{SCENARIO_STEP, TARGET};
use crate::forms;
use crate::load::read::{head, shown, span_of};
use crate::model::Scenario;

/// How long the target took to answer, in seconds.
pub(super) const LATENCY: &str = "${= captured.reply.duration_ms / 1000 }";

impl Expander<'_> {
    /// The steps of a scenario: those that it lists, or its only prompt.
    pub(super) fn steps_of(&mut self, scenario: &TreeNode, about: &Scenario) -> Option<Vec<TreeNode>> {
        let listed = scenario.entry("steps").or_else(|| scenario.entry("commands"));
        match (listed, scenario.entry("prompt")) {
            (Some(_), Some(prompt)) => {
                let message = "a scenario has either `prompt` or `steps`";
                let hint = "write the prompt as one of the steps: `- prompt: ...`";
                self.report(Check::ConflictingKeys.at(prompt.key_span, message).hint(hint));
                None
            }
            (Some(listed), None) => {
                if listed.node.items().is_empty() {
                    // What is no list was reported.
                    if listed.node.value.as_list().is_some() || scenario.get("steps").is_none() {
                        let message = "`steps` takes a list of prompts and other steps";
                        self.report(Check::WrongType.at(listed.key_span, message));
                    }
                    return None;
                }
                let steps = listed.node.items().to_vec();
                Some(steps)
            }
            (None, Some(prompt)) => {
                let only = vec![("prompt".into(), prompt.clone())];
                Some(vec![self.make_object(only, prompt.node.span)])
            }
            (None, None) if about.has_cases => {
                let prompt = vec![text("prompt", "${case.prompt}", about.span)];
                Some(vec![self.make_object(prompt, about.span)])
            }
            (None, None) => {
                let message = "the scenario has no `prompt` and no `steps`";
                self.report(
                    Check::BadScenario
                        .at(about.span, message)
                        .hint("write what the target is asked: `prompt: ...`"),
                );
                None
            }
        }
    }

    /// A scenario with its steps in our words. Reports the keys that they do not have, and names that are taken: those are
    /// left out.
    pub(super) fn with_own_steps(&mut self, scenario: &TreeNode) -> TreeNode {
        let Some(key) = ["steps", "commands"].into_iter().find(|key| scenario.get(key).is_some()) else {
            return self.without_empty_expectations(scenario);
        };
        let mut names = BTreeSet::new();
        let mut steps = Vec::new();
        for step in scenario.get(key).map_or(&[][..], TreeNode::items) {
            let Some(step) = self.translated(step) else { continue };
            if self.is_of_application(&step) {
                self.incomplete = true;
            } else {
                self.check_object(&step, &SCENARIO_STEP);
            }
            steps.push(self.with_free_names(&step, &mut names));
        }
        let is_list = scenario.get(key).is_some_and(|steps| steps.value.as_list().is_some());
        if !is_list {
            return self.without_empty_expectations(scenario);
        }
        let span = scenario.get(key).map_or(scenario.span, |steps| steps.span);
        let steps = self.make_list(steps, span);
        let with_steps = |(known, entry): (EcoString, TreeEntry)| {
            let node = if known == key { steps.clone() } else { entry.node.clone() };
            (known, TreeEntry { node, ..entry })
        };
        let all = entries(scenario).into_iter().map(with_steps).collect();
        let scenario = self.make_object(all, scenario.span);
        self.without_empty_expectations(&scenario)
    }

    /// A scenario without expectations that say nothing, `{}`.
    fn without_empty_expectations(&mut self, scenario: &TreeNode) -> TreeNode {
        let is_empty = |node: &TreeNode| node.value.as_object().is_some() && node.entries().next().is_none();
        let Some(expect) = expectations_of(scenario) else { return scenario.clone() };
        let (node, key_span) = (&expect.node, expect.key_span);
        if node.value.as_list().is_none() || !node.items().iter().any(is_empty) {
            return scenario.clone();
        }
        let left: Vec<TreeNode> = node.items().iter().filter(|item| !is_empty(item)).cloned().collect();
        let kept: NodeEntries =
            entries(scenario).into_iter().filter(|(_, entry)| entry.key_span != key_span).collect();
        let list = (!left.is_empty()).then(|| self.make_list(left, node.span));
        let list = list.map(|list| ("expectations".into(), TreeEntry { node: list, ..expect.clone() }));
        self.make_object(kept.into_iter().chain(list).collect(), scenario.span)
    }

    /// Warns of a scenario that any answer passes.
    pub(super) fn warn_of_nothing_expected(&mut self, scenario: &TreeNode, at: Span) {
        let steps = scenario.get("steps").or_else(|| scenario.get("commands"));
        let compares =
            |step: &TreeNode| ["expect", "assert", "assertion"].iter().any(|key| step.get(key).is_some());
        let has_any = expectations_of(scenario).is_some()
            || steps.is_some_and(|steps| steps.items().iter().any(compares));
        if !has_any {
            let message = "the scenario expects nothing: it passes whatever the answer is";
            let hint = "say what must hold of the answer, such as `expectations: {shouldContain: refund}`";
            self.report(Check::NothingExpected.at(at, message).hint(hint));
        }
    }

    /// Whether a step acts on the application of which it was written, or asks that. Then nobody else can do it.
    fn is_of_application(&mut self, step: &TreeNode) -> bool {
        if let Some(action) = step.entry("action") {
            let node = &action.node;
            let is_step = node.entries().any(|(key, _)| is_action(key));
            let name = node.get("type").unwrap_or(node).value.as_str();
            if let Some(name) = name.filter(|_| !is_step) {
                let message =
                    format!("`{name}` is an action of the application that the scenario was written for");
                let hint = "write the step that does it, such as `action: {argv: [./act, \"${scenario.entities}\"]}`, or \
                            let a `workflow` do it";
                self.report(Check::BadScenario.at(span_of(node), message).hint(hint));
                return true;
            }
        }
        let Some(assertion) = step.entry("assertion") else { return false };
        let Some(own) = ["type", "customValidator", "check"].iter().find_map(|key| assertion.node.entry(key))
        else {
            return false;
        };
        let name = own.node.value.as_str().map_or(String::new(), |name| format!(" `{name}`"));
        let message = format!("the assertion{name} asks the application that the scenario was written for");
        let hint = "say what must hold of the answer, `assert: {shouldContain: [...]}`, or of a value that a step reads, \
                    `assert: {value: \"${balance.value}\", expect: {gt: 5}}`";
        self.report(Check::BadScenario.at(own.key_span, message).hint(hint));
        true
    }

    /// A step whose `assertion` is called `assert`, without names that scenarios set by themselves and ids that another
    /// step of the scenario has, which are reported.
    fn with_free_names(&mut self, step: &TreeNode, names: &mut BTreeSet<EcoString>) -> TreeNode {
        let mut all = NodeEntries::new();
        for (key, mut entry) in entries(step) {
            match &*key {
                "assertion" => all.push(("assert".into(), entry)),
                "action" if entry.node.value.as_object().is_some() => {
                    entry.node = self.with_free_names(&entry.node, names);
                    all.push((key, entry));
                }
                "id" | "capture" | "capture_output" if !self.is_free(&key, &entry, names) => {}
                _ => all.push((key, entry)),
            }
        }
        self.make_object(all, step.span)
    }

    /// Whether a step of a scenario may have a name.
    fn is_free(&mut self, key: &str, entry: &TreeEntry, names: &mut BTreeSet<EcoString>) -> bool {
        let Some(name) = entry.node.value.as_str() else { return true };
        let message = if OWN_NAMES.contains(&name) {
            format!("`{name}` is a name that scenarios set by themselves")
        } else if key == "id" && !names.insert(name.into()) {
            format!("another step of the scenario has the id `{name}`")
        } else {
            return true;
        };
        self.report(Check::BadScenario.at(entry.node.span, message).hint("choose another name"));
        false
    }

    /// Adds what a step of a scenario stands for.
    pub(super) fn add_step(
        &mut self,
        step: &TreeNode,
        context: &NodeContext<'_>,
        has_answer: &mut bool,
        list: &mut Vec<TreeNode>,
    ) {
        let span = head(step);
        self.add_delay(step, "delayBefore", list);
        let id = step.entry("id").cloned();
        if let Some(prompt) = prompt_of(step) {
            list.push(self.value_step("prompt", prompt.node.clone(), prompt.key_span));
            list.push(self.asking_step(context, id.clone(), prompt.key_span));
            list.push(self.answer_step(context, prompt.key_span));
            *has_answer = true;
            if let Some(expect) = step.entry("expect") {
                self.add_checks(&expect.node, expect.key_span, None, context, list);
            }
            self.refuse_beside(
                step,
                "prompt",
                &["prompt", "input", "expect", "id", "type", "delayBefore", "delayAfter"],
            );
        } else if let Some(action) = step.entry("action") {
            let mut all = entries(&action.node);
            all.extend(id.filter(|_| action.node.get("id").is_none()).map(|id| ("id".into(), id)));
            list.push(self.make_object(all, action.node.span));
            self.refuse_beside(step, "action", &["action", "id", "type", "delayBefore", "delayAfter"]);
        } else if let Some(wait) = step.entry("wait") {
            list.push(self.wait_step(wait.clone()));
        } else if let Some(wait) = step.entry("waitMs") {
            list.extend(self.milliseconds(wait).map(|wait| self.wait_step(wait)));
        } else if let Some(assert) = step.entry("assert") {
            let is_whole = ["value", "answer"].iter().any(|key| assert.node.get(key).is_some())
                && assert.node.get("expect").is_some();
            if is_whole {
                list.push(self.make_object(known_entries(step, &SCENARIO_STEP), step.span));
            } else if *has_answer {
                self.add_checks(&assert.node, assert.key_span, id, context, list);
            } else {
                let message = "there is no answer to compare with yet";
                let hint = "put it behind a `prompt`, or write `assert: {value: ..., expect: ...}`";
                self.report(Check::BadScenario.at(assert.key_span, message).hint(hint));
            }
        } else if step.get("type").is_some() {
            let message = "the step says neither what is asked nor what is done";
            let hint = "write `prompt: ...`, `wait: 2s`, `assert: {...}`, or `action:` with a step";
            self.report(Check::BadScenario.at(span, message).hint(hint));
        } else if step.entries().any(|(key, _)| SCENARIO_STEP.key(key).is_some())
            || step.entries().next().is_none()
        {
            list.push(self.make_object(known_entries(step, &SCENARIO_STEP), step.span));
        }
        self.add_delay(step, "delayAfter", list);
    }

    fn refuse_beside(&mut self, step: &TreeNode, key: &str, known: &[&str]) {
        for (other, entry) in step.entries().filter(|(other, _)| !known.contains(other)) {
            if SCENARIO_STEP.key(other).is_some() {
                let message = format!("`{other}` does not apply to a step with `{key}`");
                self.report(Check::KeyNotHere.at(entry.key_span, message));
            }
        }
    }

    fn add_delay(&mut self, step: &TreeNode, key: &str, list: &mut Vec<TreeNode>) {
        let Some(delay) = step.entry(key) else { return };
        if let Some(wait) = self.milliseconds(delay) {
            list.push(self.wait_step(wait));
        }
    }

    /// A number of milliseconds as a duration.
    fn milliseconds(&mut self, entry: &TreeEntry) -> Option<TreeEntry> {
        let Some(count) = forms::count(&entry.node.value) else {
            let message = format!("a number of milliseconds is expected, not {}", shown(&entry.node.value));
            self.report(Check::WrongType.at(span_of(&entry.node), message));
            return None;
        };
        let node = TreeNode::made_text(&format!("{count}ms"), entry.node.span);
        Some(TreeEntry { node, ..entry.clone() })
    }

    fn wait_step(&mut self, wait: TreeEntry) -> TreeNode {
        let span = wait.node.span;
        self.make_object(vec![("wait".into(), wait)], span)
    }

    /// The step that asks the target.
    fn asking_step(&mut self, context: &NodeContext<'_>, id: Option<TreeEntry>, at: Span) -> TreeNode {
        let mut all: NodeEntries = known_entries(&context.target.node, &TARGET)
            .into_iter()
            .filter(|(key, _)| key != "answer")
            .collect();
        let span = context.target.span;
        if context.target.node.get("agent").is_some() {
            if context.target.node.get("message").is_none() {
                all.push(text("message", "${prompt}", span));
            }
            if let Some(thread) = &context.thread {
                all.push(text("thread", thread, span));
            }
        }
        all.push(text("capture", "reply", span));
        all.extend(id.map(|id| ("id".into(), id)));
        self.make_object(all, at)
    }

    /// The step that makes the answer of what the target left.
    fn answer_step(&mut self, context: &NodeContext<'_>, at: Span) -> TreeNode {
        let target = &context.target.node;
        let span = context.target.span;
        let is_agent = target.get("agent").is_some();
        let written = target.entry("answer");
        let latency = || text("latency", LATENCY, span);
        let of_agent = |known: &mut Self| -> NodeEntries {
            let usage = vec![
                text("tokens", "${= captured.reply.meta.total_tokens | default(null) }", span),
                text("cost", "${= captured.reply.meta.total_cost_usd | default(null) }", span),
            ];
            let usage = known.make_object(usage, span);
            let mut all = vec![
                text("text", "${reply.final_response}", span),
                text("tools", "${reply.tool_calls}", span),
                ("usage".into(), TreeEntry::made(span, usage)),
            ];
            if target.get("output").is_some() {
                all.push(text("value", "${reply.output}", span));
            }
            all
        };
        let node = match written {
            None if is_agent => {
                let mut all = of_agent(self);
                all.push(latency());
                self.make_object(all, span)
            }
            None => TreeNode::made_text("${reply}", span),
            Some(written) => {
                let mut all = if is_agent { of_agent(self) } else { Vec::new() };
                all.push(latency());
                let own = if written.node.value.as_object().is_some() {
                    entries(&written.node)
                } else {
                    vec![("text".into(), written.clone())]
                };
                all.retain(|(key, _)| own.iter().all(|(known, _)| known != key));
                all.extend(own);
                self.make_object(all, written.node.span)
            }
        };
        let entry = match written {
            Some(written) => TreeEntry { node, ..written.clone() },
            None => TreeEntry::made(span, node),
        };
        let all = vec![("value".into(), entry), text("capture", "answer", span)];
        self.make_object(all, at)
    }
}
