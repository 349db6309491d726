//! Scenarios become the nodes of a graph: each with each of its targets is a `foreach` over its cases.
//!
//! In an item, what a prompt gives is captured as `prompt`, what the target leaves as `reply`, and the answer made of it
//! as `answer`; an `assert` compares that with the expectations. So a scenario runs, is recorded, resumed and explained
//! as every other graph is. Where there are judges, the questions that no rule decides are put to them between two
//! assertions.

mod foreign;
mod judges;
mod steps;

use ecow::{EcoString, eco_format};
use threadline_lang::diag::{Span, words};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Number, Type, Value};

use self::judges::ScenarioJudge;
use super::{Expander, NodeEntries, entries, text};
use crate::checks::Check;
use crate::fields::{ActionName, Form, KeyKind, KeySpec, ObjectSpec, REPEAT, SCENARIO, STEP, TARGET};
use crate::forms;
use crate::load::read::{head, shown, span_of, unknown_key};
use crate::model::Scenario;
use crate::problem::Problem;

/// The keys that make a file a set of scenarios.
const MARKS: [&str; 7] = ["scenarios", "target", "targets", "prompt", "expectations", "cases", "judges"];

/// The keys of a single scenario that every workflow has, too.
const OF_FILE: [&str; 5] = ["name", "description", "steps", "commands", "timeout"];

/// What a scenario says about its surroundings: targets read it as `scenario.KEY`.
const SURROUNDINGS: [&str; 6] =
    ["environment", "entities", "walletState", "onchainState", "localState", "constraints"];

/// Captures that scenarios set by themselves.
const OWN_NAMES: [&str; 9] =
    ["case", "facts", "scenario", "prompt", "reply", "answer", "checked", "rulings", "row"];

/// A target with its name.
#[derive(Clone)]
struct ScenarioTarget {
    /// The name; none of the only one.
    name: Option<EcoString>,
    node: TreeNode,
    span: Span,
}

/// What holds for one scenario with one target while it becomes a node.
struct NodeContext<'c> {
    target: &'c ScenarioTarget,
    judges: Vec<ScenarioJudge>,
    quorum: Option<TreeNode>,
    has_facts: bool,
    /// The thread of an execution, where it asks an agent more than once.
    thread: Option<String>,
}

impl Expander<'_> {
    /// Replaces the keys of scenarios by the nodes that they stand for.
    pub(super) fn expand_scenarios(&mut self, root: TreeNode) -> TreeNode {
        let other = ["nodes", "states", "map"].into_iter().find(|key| root.get(key).is_some());
        let mark = MARKS.iter().find_map(|key| root.entry(key));
        let Some(mark) = mark.filter(|_| other.is_none()) else {
            return self.without_scenario_keys(root, other);
        };
        let span = mark.key_span;
        let is_scenario_key = |key: &str| {
            OF_FILE.contains(&key) && (key != "name" && key != "description")
                || SCENARIO.key(key).is_some() && !OF_FILE.contains(&key)
                || key == "scenarios"
        };
        let mut kept: NodeEntries =
            entries(&root).into_iter().filter(|(key, _)| !is_scenario_key(key)).collect();
        let mut nodes = NodeEntries::new();
        match root.entry("scenarios") {
            Some(listed) => {
                let shared = self.shared_of(&root);
                for (id, node, at) in self.listed_scenarios(listed) {
                    self.add_scenario(&node, id, at, Some(&shared), &root, &mut nodes);
                }
            }
            None if self.is_of_expectations(&root) => {}
            None => {
                let only: NodeEntries =
                    entries(&root).into_iter().filter(|(key, _)| SCENARIO.key(key).is_some()).collect();
                let at = root.entry("name").map_or(span, |name| name.node.span);
                for (key, entry) in only.iter().filter(|(key, _)| !matches!(&**key, "name" | "description")) {
                    self.check_value(key, SCENARIO.known(key), &entry.node);
                }
                let only = self.make_object(only, root.span);
                self.add_scenario(&only, None, at, None, &root, &mut nodes);
            }
        }
        if nodes.is_empty() {
            self.incomplete = true;
        }
        if self.problems.iter().any(Problem::is_error) {
            // Whoever has to correct the file first is not told what else to think of.
            self.problems.retain(|problem| problem.id != Check::NothingExpected.id());
        }
        let nodes = self.make_object(nodes, span);
        kept.push(("nodes".into(), TreeEntry::made(span, nodes)));
        self.make_object(kept, root.span)
    }

    /// A file of another shape, without the keys of scenarios, which are reported.
    fn without_scenario_keys(&mut self, root: TreeNode, other: Option<&str>) -> TreeNode {
        // Loops have `constraints`, too.
        let is_own = |key: &str| {
            key == "scenarios"
                || SCENARIO.key(key).is_some() && !OF_FILE.contains(&key) && key != "constraints"
        };
        if !root.entries().any(|(key, _)| is_own(key)) {
            return root;
        }
        for (key, entry) in root.entries().filter(|(key, _)| is_own(key)) {
            let is_mark = MARKS.contains(&key) && key != "targets";
            if matches!(key, "category" | "tags") {
                self.report_for_readers(&root, key, entry);
                continue;
            }
            let problem = match (other.filter(|_| is_mark), key) {
                (Some(other), _) => {
                    let message = format!("a file has either scenarios, with `{key}`, or `{other}`");
                    Check::ConflictingKeys.at(entry.key_span, message)
                }
                (None, "environment") => Check::OldKey
                    .at(entry.key_span, "a workflow has no key `environment`")
                    .replace("write it as `env:`", "env"),
                (None, _) => Check::KeyNotHere
                    .at(entry.key_span, format!("`{key}` only applies to scenarios"))
                    .hint("remove it, or mention it in `description:`"),
            };
            self.report(problem);
        }
        let kept = entries(&root).into_iter().filter(|(key, _)| !is_own(key)).collect();
        self.make_object(kept, root.span)
    }

    /// Whether a file has nothing but expectations, which compare an answer that is there already.
    fn is_of_expectations(&mut self, root: &TreeNode) -> bool {
        let Some(expect) = root.entry("expectations").or_else(|| root.entry("expect")) else { return false };
        let tells = ["id", "name", "description", "category", "tags", "expectations", "expect"];
        let is_alone = root.entries().all(|(key, _)| tells.contains(&key));
        if is_alone {
            let message = "the file has expectations and nothing that is asked";
            let hint = format!(
                "`threadline expect {} --actual ANSWER.json` compares an answer with them; for a scenario add `prompt`",
                self.file.name()
            );
            self.report(Check::BadScenario.at(expect.key_span, message).hint(hint));
        }
        is_alone
    }

    /// What the file says for all of its scenarios.
    fn shared_of(&mut self, root: &TreeNode) -> TreeNode {
        for key in ["steps", "prompt", "expectations", "expect"] {
            if let Some(found) = root.entry(key) {
                let message = format!("`{key}` belongs to one of the `scenarios`");
                let hint = "move it into the scenario that it is for";
                self.report(Check::KeyNotHere.at(found.key_span, message).hint(hint));
            }
        }
        let shared = [
            "target", "targets", "facts", "tags", "cases", "repeat", "judge", "judges", "quorum", "rubric",
            "timeout",
        ];
        let of_all = entries(root).into_iter().filter(|(key, _)| shared.contains(&key.as_str()));
        self.make_object(of_all.collect(), root.span)
    }

    /// The scenarios of a list, or of an object by their ids.
    fn listed_scenarios(&mut self, listed: &TreeEntry) -> Vec<(Option<EcoString>, TreeNode, Span)> {
        let node = &listed.node;
        if node.value.as_object().is_some() {
            let of_key =
                |(id, entry): (&str, &TreeEntry)| (Some(id.into()), entry.node.clone(), entry.key_span);
            return node.entries().map(of_key).collect();
        }
        if node.value.as_list().is_none() {
            let message = format!("`scenarios` takes a list of scenarios, not {}", shown(&node.value));
            self.report(Check::WrongType.at(span_of(node), message));
            return Vec::new();
        }
        if node.items().is_empty() {
            self.report(Check::BadScenario.at(listed.key_span, "`scenarios` is empty"));
        }
        let of_item = |item: &TreeNode| {
            let at =
                item.entry("name").or_else(|| item.entry("id")).map_or(head(item), |name| name.node.span);
            (None, item.clone(), at)
        };
        node.items().iter().map(of_item).collect()
    }

    /// Adds a node for each target of a scenario.
    fn add_scenario(
        &mut self,
        written: &TreeNode,
        id: Option<EcoString>,
        at: Span,
        shared: Option<&TreeNode>,
        root: &TreeNode,
        nodes: &mut NodeEntries,
    ) {
        if written.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", SCENARIO.title, shown(&written.value));
            self.report(Check::WrongType.at(at.to(span_of(written)), message));
            return;
        }
        if shared.is_some() {
            self.check_object(written, &SCENARIO);
        }
        let whole = match shared {
            Some(shared) => self.with_shared(shared, written),
            None => written.clone(),
        };
        let name = whole.get("name").and_then(|name| name.value.as_str()).map(EcoString::from);
        let own_id = whole.entry("id").and_then(|id| id.node.value.as_str()).map(EcoString::from);
        // A key such as `asks for more` is a name, and an id is made of it.
        let (key, title) = match id {
            Some(key) if forms::is_name(&key) => (Some(key), None),
            key => (None, key),
        };
        let id_of_title = title.as_deref().map(id_of);
        let name = name.or(title);
        let id = key.or(own_id).or(id_of_title).or_else(|| name.as_deref().map(id_of)).unwrap_or_else(|| {
            let file = self.file.name().rsplit('/').next().unwrap_or_default();
            if shared.is_some() {
                eco_format!("scenario-{}", self.scenarios.len() + 1)
            } else {
                id_of(file.rsplit_once('.').map_or(file, |(stem, _)| stem))
            }
        });
        if !forms::is_name(&id) {
            let message = if id.is_empty() {
                "no id can be made of the name, which has no ASCII letter".to_owned()
            } else {
                format!("`{id}` is no id: it has letters, digits, `-` and `_`, and at least one letter")
            };
            self.report(Check::BadScenario.at(at, message).hint("give the scenario an `id`"));
            return;
        }
        if self.scenario_ids.contains(&id) {
            let message = format!("there is another scenario with the id `{id}`");
            self.report(Check::BadScenario.at(at, message).hint("give one of them an `id` of its own"));
            return;
        }
        self.scenario_ids.insert(id.clone());
        let whole = self.with_own_steps(&whole);
        self.warn_of_nothing_expected(&whole, at);
        let targets = self.targets_of(&whole, root, at);
        let (times, threshold) = self.repeat_of(&whole);
        let mut tags: Vec<EcoString> = Self::texts(&whole, "tags");
        tags.extend(whole.get("category").and_then(|word| word.value.as_str()).map(EcoString::from));
        let text_of = |key: &str| whole.get(key).and_then(|node| node.value.as_str()).map(EcoString::from);
        for target in &targets {
            let node = match &target.name {
                Some(name) => eco_format!("{id}-{name}"),
                None => id.clone(),
            };
            self.made = self.made.saturating_add(usize::try_from(times).unwrap_or(usize::MAX));
            if self.made > MAX_MADE {
                if !std::mem::replace(&mut self.incomplete, true) {
                    let message =
                        format!("scenarios, targets, repetitions and judges make more than {MAX_MADE} steps");
                    self.report(Check::BadScenario.at(at, message).hint("try them in several files"));
                }
                return;
            }
            if nodes.iter().any(|(known, _)| *known == node) {
                let message = format!("there is another scenario with the id `{node}`");
                self.report(Check::BadScenario.at(at, message).hint("give one of them another `id`"));
                continue;
            }
            let scenario = Scenario {
                node: node.clone(),
                id: id.clone(),
                name: name.clone().unwrap_or_else(|| id.clone()),
                description: text_of("description"),
                target: target.name.clone(),
                tags: tags.clone(),
                has_cases: whole.get("cases").is_some(),
                times,
                skip: text_of("skip"),
                span: at,
            };
            if let Some(made) = self.node_of(&whole, &scenario, target, threshold.clone()) {
                nodes.push((node, TreeEntry::made(at, made)));
                self.scenarios.push(scenario);
            }
        }
    }

    /// A scenario with what the file says for all of them: tags and facts are added, anything else it may say anew.
    fn with_shared(&mut self, shared: &TreeNode, own: &TreeNode) -> TreeNode {
        let has = |key: &str| own.get(key).is_some();
        let mut all = entries(own);
        for (key, entry) in shared.entries() {
            let replaced = match key {
                "target" | "targets" => has("target") || has("targets"),
                "judge" | "judges" => has("judge") || has("judges"),
                key => has(key),
            };
            if !replaced {
                all.push((key.into(), entry.clone()));
                continue;
            }
            let own_entry = own.entry(key);
            let Some(at) = all.iter().position(|(known, _)| known == key) else { continue };
            match (key, own_entry) {
                ("facts", Some(own_entry)) => {
                    let node = self.merge(&entry.node, &own_entry.node);
                    all[at].1 = TreeEntry { node, ..own_entry.clone() };
                }
                ("tags", Some(own_entry)) => {
                    let items = entry.node.items().iter().chain(own_entry.node.items()).cloned().collect();
                    let node = self.make_list(items, own_entry.node.span);
                    all[at].1 = TreeEntry { node, ..own_entry.clone() };
                }
                _ => {}
            }
        }
        self.make_object(all, own.span)
    }

    // ---- targets ---------------------------------------------------------------------------------------

    fn targets_of(&mut self, scenario: &TreeNode, root: &TreeNode, at: Span) -> Vec<ScenarioTarget> {
        if let (Some(target), Some(several)) = (scenario.entry("target"), scenario.entry("targets")) {
            // `target: NAME` beside the targets of the file chooses one of them.
            if target.node.value.as_str().is_none() || several.node.value.as_list().is_some() {
                let message = "a scenario has either `target` or `targets`";
                self.report(Check::ConflictingKeys.at(target.key_span, message).hint("remove one of them"));
                return Vec::new();
            }
        }
        if let Some(target) = scenario.entry("target") {
            return self.target(None, target, root).into_iter().collect();
        }
        let Some(several) = scenario.entry("targets") else {
            let message = "the scenario has no `target`";
            let hint = "write `target: NAME` with the name of an agent, or a step, such as `target: {argv: [./ask, \
                        \"${prompt}\"]}`; or give a file of targets: `threadline test --target FILE`";
            self.report(Check::BadScenario.at(at, message).hint(hint));
            return Vec::new();
        };
        let node = &several.node;
        if node.value.as_list().is_some() {
            let chosen = node.items().iter().filter_map(|item| {
                let name = item.value.as_str().map(EcoString::from);
                let entry = TreeEntry::made(item.span, item.clone());
                let Some(name) = name else {
                    let message = format!("`targets` takes names of targets, not {}", shown(&item.value));
                    self.report(Check::WrongType.at(span_of(item), message));
                    return None;
                };
                self.target(Some(name), &entry, root)
            });
            return chosen.collect();
        }
        if node.value.as_object().is_none() {
            let message = format!("`targets` takes targets by their names, not {}", shown(&node.value));
            self.report(Check::WrongType.at(span_of(node), message));
            return Vec::new();
        }
        let named: Vec<(EcoString, TreeEntry)> = entries(node);
        named
            .into_iter()
            .filter_map(|(name, entry)| {
                if !forms::is_name(&name) {
                    let message = format!("`{name}` is no name of a target");
                    self.report(Check::BadScenario.at(entry.key_span, message));
                    return None;
                }
                self.target(Some(name), &entry, root)
            })
            .collect()
    }

    /// A target: a step, the name of one of the file's `targets`, or that of an agent.
    fn target(
        &mut self,
        name: Option<EcoString>,
        entry: &TreeEntry,
        root: &TreeNode,
    ) -> Option<ScenarioTarget> {
        let span = entry.key_span;
        if entry.node.value.as_object().is_some() {
            self.check_object(&entry.node, &TARGET);
            if !entry.node.entries().any(|(key, _)| is_action(key) && TARGET.key(key).is_some()) {
                let message = "the target has nothing that answers";
                let hint = "give it `agent`, `workflow`, `argv`, `shell`, `http` or `tool`";
                self.report(Check::BadScenario.at(span, message).hint(hint));
                return None;
            }
            return Some(ScenarioTarget { name, node: entry.node.clone(), span });
        }
        let Some(word) = entry.node.value.as_str() else {
            let message =
                format!("a target is a step or the name of an agent, not {}", shown(&entry.node.value));
            self.report(Check::WrongType.at(entry.key_span.to(span_of(&entry.node)), message));
            return None;
        };
        let declared = root.get("targets").and_then(|targets| targets.entry(word));
        if let Some(declared) = declared.filter(|declared| declared.node.value.as_object().is_some()) {
            self.check_object(&declared.node, &TARGET);
            return Some(ScenarioTarget { name, node: declared.node.clone(), span });
        }
        // Of a name that nobody declares the plan says so.
        let agent = TreeNode::made_text(word, entry.node.span);
        let node = vec![("agent".into(), TreeEntry::made(entry.node.span, agent))];
        let node = self.make_object(node, entry.node.span);
        Some(ScenarioTarget { name, node, span })
    }

    // ---- a node ----------------------------------------------------------------------------------------

    fn node_of(
        &mut self,
        scenario: &TreeNode,
        about: &Scenario,
        target: &ScenarioTarget,
        threshold: Option<TreeNode>,
    ) -> Option<TreeNode> {
        let span = about.span;
        let steps = self.steps_of(scenario, about)?;
        let is_agent = target.node.get("agent").is_some();
        let prompts = steps.iter().filter(|step| prompt_of(step).is_some()).count();
        let repeats = about.times > 1;
        let row = if repeats { " ${row}" } else { "" };
        let thread = format!("scenario ${{workflow.id}} {}{row} ${{item.index}}", about.node);
        let context = NodeContext {
            target,
            judges: self.judges_of(scenario),
            quorum: scenario.get("quorum").cloned(),
            has_facts: scenario.get("facts").is_some(),
            thread: Some(thread).filter(|_| is_agent && prompts > 1),
        };
        let mut list = Vec::new();
        if let Some(facts) = scenario.entry("facts") {
            list.push(self.value_step("facts", facts.node.clone(), facts.key_span));
        }
        let surroundings: NodeEntries = SURROUNDINGS
            .iter()
            .filter_map(|key| Some((EcoString::from(*key), scenario.entry(key)?.clone())))
            .chain([text("id", &about.id, span), text("name", &about.name, span)])
            .collect();
        if surroundings.len() > 2 {
            let node = self.make_object(surroundings, span);
            list.push(self.value_step("scenario", node, span));
        }
        let mut has_answer = false;
        for step in &steps {
            self.add_step(step, &context, &mut has_answer, &mut list);
        }
        if let Some(expect) = expectations_of(scenario) {
            if has_answer {
                self.add_checks(&expect.node, expect.key_span, None, &context, &mut list);
            } else {
                let message = "there is no answer to compare with: no step of the scenario is a prompt";
                let hint =
                    "add `prompt:` to the steps, or compare a value with `assert: {value: ..., expect: ...}`";
                self.report(Check::BadScenario.at(expect.key_span, message).hint(hint));
            }
        }
        let item_timeout = scenario.entry("timeout").map(|timeout| ("item_timeout".into(), timeout.clone()));
        let cases = if let Some(cases) = scenario.entry("cases") {
            cases.node.clone()
        } else {
            let nothing = self.make_object(Vec::new(), span);
            self.make_list(vec![nothing], span)
        };
        let mut outer = Vec::new();
        if about.has_cases {
            outer.push(self.captured_step("value", "${item}", "case", span));
        }
        if repeats {
            outer.push(self.captured_step("value", "${item.index}", "row", span));
            let count = i64::try_from(about.times).unwrap_or(i64::MAX);
            let numbers = (1..=count).map(|number| TreeNode::made_scalar(number.into(), span)).collect();
            let numbers = self.make_list(numbers, span);
            let mut policy = vec![text("on_item_failure", "skip", span)];
            if let Some(threshold) = threshold {
                let goes_on = TreeNode::made_scalar(true.into(), span);
                policy.push(("continue_on_failure".into(), TreeEntry::made(span, goes_on)));
                policy.push(("failure_threshold".into(), TreeEntry::made(span, threshold)));
            }
            let inner = self.list_node(numbers, policy, item_timeout, list, span);
            outer.push(inner);
            let policy = vec![text("on_item_failure", "skip", span)];
            return Some(self.named_node(about, cases, policy, None, outer, span));
        }
        outer.append(&mut list);
        let policy = vec![text("on_item_failure", "skip", span)];
        Some(self.named_node(about, cases, policy, item_timeout, outer, span))
    }

    fn named_node(
        &mut self,
        about: &Scenario,
        source: TreeNode,
        policy: NodeEntries,
        item_timeout: Option<(EcoString, TreeEntry)>,
        steps: Vec<TreeNode>,
        span: Span,
    ) -> TreeNode {
        let list = self.list_node(source, policy, item_timeout, steps, span);
        let mut all = entries(&list);
        all.push(text("name", &about.name, span));
        if about.skip.is_some() {
            all.push(text("when", "false", span));
        }
        self.make_object(all, span)
    }

    /// A `foreach` over a source, as many at once as the run allows.
    fn list_node(
        &mut self,
        source: TreeNode,
        policy: NodeEntries,
        item_timeout: Option<(EcoString, TreeEntry)>,
        steps: Vec<TreeNode>,
        span: Span,
    ) -> TreeNode {
        let parallel = TreeNode::made_scalar(MAX_PARALLEL.into(), span);
        let (policy, steps) = (self.make_object(policy, span), self.make_list(steps, span));
        let mut all: NodeEntries = vec![
            ("foreach".into(), TreeEntry::made(span, source)),
            ("parallel".into(), TreeEntry::made(span, parallel)),
            ("error_policy".into(), TreeEntry::made(span, policy)),
        ];
        all.extend(item_timeout);
        all.push(("do".into(), TreeEntry::made(span, steps)));
        self.make_object(all, span)
    }

    // ---- small parts -----------------------------------------------------------------------------------

    /// How often a case is tried, and the share that may fail.
    fn repeat_of(&mut self, scenario: &TreeNode) -> (u64, Option<TreeNode>) {
        let Some(repeat) = scenario.entry("repeat") else { return (1, None) };
        let span = repeat.node.span;
        let (times, pass) = if repeat.node.value.as_object().is_some() {
            self.check_object(&repeat.node, &REPEAT);
            (repeat.node.get("times").cloned(), repeat.node.get("pass").cloned())
        } else {
            (Some(repeat.node.clone()), None)
        };
        let count = times.as_ref().and_then(|times| forms::count(&times.value));
        let Some(count) = count.filter(|count| (1..=MAX_REPEATS).contains(count)) else {
            let message = format!("`repeat` takes a whole number from 1 to {MAX_REPEATS}");
            self.report(Check::WrongType.at(span, message).hint("write `repeat: {times: 5, pass: 80%}`"));
            return (1, None);
        };
        let Some(pass) = pass else { return (count, None) };
        let Some(share) = forms::fraction(&pass.value) else {
            let message = format!("`pass` takes {}, not {}", forms::FRACTION_FORM, shown(&pass.value));
            self.report(Check::WrongType.at(span_of(&pass), message));
            return (count, None);
        };
        let may_fail = Number::int(1).sub(&share).map_or(Value::from(0), Value::from);
        (count, Some(TreeNode::made_scalar(may_fail, span)))
    }

    fn texts(scenario: &TreeNode, key: &str) -> Vec<EcoString> {
        let items = scenario.get(key).map_or(&[][..], TreeNode::items);
        items.iter().map(|item| item.value.to_string().into()).collect()
    }

    /// A step that captures a value.
    fn value_step(&mut self, capture: &str, value: TreeNode, span: Span) -> TreeNode {
        let all = vec![("value".into(), TreeEntry::made(span, value)), text("capture", capture, span)];
        self.make_object(all, span)
    }

    fn captured_step(&mut self, key: &str, value: &str, capture: &str, span: Span) -> TreeNode {
        self.make_object(vec![text(key, value, span), text("capture", capture, span)], span)
    }

    fn make_list(&mut self, items: Vec<TreeNode>, span: Span) -> TreeNode {
        TreeNode::made_list(items, span).unwrap_or_else(|_| {
            self.report(Check::Unreadable.at(span, "the scenario is nested too deep"));
            TreeNode::made_null(span)
        })
    }

    /// Reports the keys that an object does not have, and values that the others do not take.
    fn check_object(&mut self, node: &TreeNode, object: &'static ObjectSpec) {
        if node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", object.title, shown(&node.value));
            self.report(Check::WrongType.at(span_of(node), message));
            return;
        }
        for (key, entry) in node.entries() {
            if let Some(spec) = object.key(key) {
                self.check_value(key, spec, &entry.node);
            } else {
                let problem = unknown_key(object, key, entry.key_span, self.problems.len());
                self.report(problem);
            }
        }
    }

    /// Reports a value that a key does not take, where nobody looks at it when the nodes are read.
    fn check_value(&mut self, key: &str, spec: &KeySpec, node: &TreeNode) {
        // What a step of any kind has is looked at then.
        let is_of_step = STEP.key(key).is_some_and(|known| std::ptr::eq(known, spec)) || key == "when";
        let kind = node.value.kind();
        let is_scalar = !matches!(kind, Type::Null | Type::List | Type::Object);
        let (fits, expected) = match spec.kind {
            _ if is_of_step => return,
            KeyKind::Fixed(Form::Text | Form::Name) | KeyKind::Text => (is_scalar, "text".to_owned()),
            KeyKind::Fixed(form @ Form::OneOf(choices)) => {
                let written = node.value.as_str().unwrap_or_default();
                (choices.iter().any(|choice| choice.name == written), form.expected())
            }
            KeyKind::Map(_) => (kind == Type::Object, "an object".to_owned()),
            KeyKind::List(_) => (kind == Type::List, "a list".to_owned()),
            _ => return,
        };
        if !fits {
            let message = format!("`{key}` takes {expected}, not {}", shown(&node.value));
            self.report(Check::WrongType.at(span_of(node), message));
        }
    }
}

/// So many executions of one scenario run at once at most; the run has its own limit.
const MAX_PARALLEL: i64 = 1_000;

/// So often is a case tried, or a judge asked, at most.
const MAX_REPEATS: u64 = 1_000;

/// So many nodes, repetitions and rulings the scenarios of a file make at most.
const MAX_MADE: usize = 100_000;

/// The entries of an object whose keys it may have; the others were reported.
fn known_entries(node: &TreeNode, object: &'static ObjectSpec) -> NodeEntries {
    entries(node).into_iter().filter(|(key, _)| object.key(key).is_some()).collect()
}

/// Whether a key says what a step does.
fn is_action(key: &str) -> bool {
    STEP.key(key).is_some_and(|key| ActionName::ALL.iter().any(|action| action.key() == key.name))
}

/// What is expected of the last answer of a scenario.
fn expectations_of(scenario: &TreeNode) -> Option<&TreeEntry> {
    scenario.entry("expectations").or_else(|| scenario.entry("expect"))
}

/// The prompt of a step.
fn prompt_of(step: &TreeNode) -> Option<&TreeEntry> {
    step.entry("prompt").or_else(|| step.entry("input"))
}

/// The id that a name gives: its letters and digits, with `-` between the words.
fn id_of(name: &str) -> EcoString {
    let mut id = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() || char == '_' {
            id.push(char.to_ascii_lowercase());
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    let id = id.trim_end_matches('-');
    words::shorten(id, 60).trim_end_matches(['-', '…']).into()
}
