//! Expands states that use fragments: the keys of the state override those of the fragment, and `with` is
//! bound to the parameters, which the fragment reads as `${param.NAME}`.

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Document, Syntax};

use super::parts::{path_of, with_node};
use super::{Expander, Fragments, NodeEntries, entries, text, without};
use crate::checks::Check;
use crate::fields::{FRAGMENT, INPUT};
use crate::files::{name_from, path_from};
use crate::load::read::{shown, span_of, unknown_key, unless_present};
use crate::model::Input;
use crate::problem::Problem;

/// The keys of a fragment that describe the fragment itself.
const OF_FRAGMENT: [&str; 2] = ["description", "parameters"];

/// The keys of a state that select its fragment.
const OF_STATE: [&str; 2] = ["fragment", "with"];

impl Expander<'_> {
    /// Expands every state that uses a fragment.
    pub(super) fn expand_states(&mut self, root: TreeNode, fragments: &Fragments) -> TreeNode {
        self.check_fragments(fragments);
        let Some(states) = root.entry("states").filter(|states| states.node.value.as_object().is_some())
        else {
            return root;
        };
        let made: NodeEntries = states
            .node
            .entries()
            .map(|(name, entry)| {
                let node = self.expand_state(&entry.node, fragments).unwrap_or_else(|| entry.node.clone());
                let node = self.expand_stall(name, &node).unwrap_or(node);
                (EcoString::from(name), with_node(entry, node))
            })
            .collect();
        let states = with_node(states, self.make_object(made, states.node.span));
        let all = entries(&root).into_iter().map(|(key, entry)| match key.as_str() {
            "states" => (key, states.clone()),
            _ => (key, entry),
        });
        self.make_object(all.collect(), root.span)
    }

    /// Reports keys that a fragment cannot have.
    fn check_fragments(&mut self, fragments: &Fragments) {
        for entry in fragments.values() {
            let own = self.file.placed(entry.key_span.range().start).start == 0;
            if entry.node.value.as_object().is_none() {
                let message = format!("a fragment is an object, not {}", shown(&entry.node.value));
                self.report(Check::WrongType.at(span_of(&entry.node), message));
                continue;
            }
            if let Some(nested) = entry.node.entry("fragment") {
                let message = "a fragment cannot be based on another one";
                self.report(Check::KeyNotHere.at(nested.key_span, message));
            }
            self.check_removed_keys(&entry.node, &FRAGMENT, |_| true);
            // The other keys are checked in the states that use the fragment; unused fragments of a library
            // are not checked.
            for (key, found) in entry.node.entries().filter(|(key, _)| own && FRAGMENT.key(key).is_none()) {
                let problem = unknown_key(&FRAGMENT, key, found.key_span, self.problems.len());
                self.report(problem);
            }
        }
    }

    fn expand_state(&mut self, state: &TreeNode, fragments: &Fragments) -> Option<TreeNode> {
        let made = match state.entry("fragment") {
            Some(named) => self.apply_fragment(state, named, fragments)?,
            None => state.clone(),
        };
        let made = self.expand_loop_call(&made).unwrap_or(made);
        let made = self.relocate_call(&made).unwrap_or(made);
        Some(self.expand_slash_command(&made).unwrap_or(made))
    }

    /// Expands a state that uses a fragment.
    fn apply_fragment(
        &mut self,
        state: &TreeNode,
        named: &TreeEntry,
        fragments: &Fragments,
    ) -> Option<TreeNode> {
        let Some(name) = named.node.value.as_str() else {
            let message = format!("`fragment` takes a name, not {}", shown(&named.node.value));
            self.report(Check::WrongType.at(span_of(&named.node), message));
            return None;
        };
        let Some(fragment) = fragments.get(name) else {
            let problem = Check::UnknownFragment.at(named.node.span, format!("unknown fragment `{name}`"));
            let known_names: Vec<&str> = fragments.keys().map(EcoString::as_str).collect();
            self.report(if known_names.is_empty() {
                problem.hint("define it under `fragments:`, or `import:` the file that has it")
            } else {
                problem.suggest(name, "fragments", known_names.iter().copied())
            });
            return Some(self.make_object(without(state, &OF_STATE), state.span));
        };
        let below = self.make_object(without(&fragment.node, &OF_FRAGMENT), fragment.node.span);
        let below = self.make_object(without(&below, &["fragment"]), below.span);
        let param = self.bind_parameters(state, named, name, &fragment.node);
        let mut above = without(state, &OF_STATE);
        // In a state that uses a fragment and calls a workflow, `with` gives both what they declare.
        if let Some(with) = state.entry("with").filter(|_| calls_workflow(state, &fragment.node)) {
            let parameters = fragment.node.get("parameters");
            let is_free = |key: &str| parameters.is_none_or(|parameters| parameters.get(key).is_none());
            let given: NodeEntries =
                entries(&with.node).into_iter().filter(|(key, _)| is_free(key)).collect();
            if !given.is_empty() {
                let node = self.make_object(given, with.node.span);
                above.push(("with".into(), with_node(with, node)));
            }
        }
        let above = self.make_object(above, state.span);
        let mut all = entries(&self.merge(&below, &above));
        if let Some(param) = param {
            all.retain(|(key, _)| key != "param");
            all.push(("param".into(), param));
        }
        Some(self.make_object(all, state.span))
    }

    // ---- parameters ------------------------------------------------------------------------------------

    /// Binds the parameters of a fragment in a state.
    fn bind_parameters(
        &mut self,
        state: &TreeNode,
        named: &TreeEntry,
        name: &str,
        fragment: &TreeNode,
    ) -> Option<TreeEntry> {
        let with = state.entry("with");
        let parameters = fragment.get("parameters");
        if let Some(parameters) =
            parameters.filter(|node| node.value.as_object().is_none() && !node.value.is_null())
        {
            let message = format!("`parameters` takes an object, not {}", shown(&parameters.value));
            self.report(Check::WrongType.at(span_of(parameters), message));
        }
        if let Some(with) = with.filter(|with| with.node.value.as_object().is_none()) {
            let message = format!("`with` takes an object, not {}", shown(&with.node.value));
            self.report(Check::WrongType.at(span_of(&with.node), message));
        }
        let known_names: Vec<&str> =
            parameters.into_iter().flat_map(TreeNode::entries).map(|(parameter, _)| parameter).collect();
        for (given, entry) in with.into_iter().flat_map(|with| with.node.entries()) {
            if !known_names.contains(&given) && !calls_workflow(state, fragment) {
                let problem = unknown_parameter(name, given, entry.key_span, &known_names);
                self.report(
                    with.into_iter().fold(problem, |problem, with| unless_present(problem, &with.node)),
                );
            }
        }
        let mut bound = NodeEntries::new();
        for (parameter, declared) in parameters.into_iter().flat_map(TreeNode::entries) {
            let kind = self.check_parameter(declared);
            let given = with.and_then(|with| with.node.entry(parameter));
            if let Some(given) = given.or_else(|| declared.node.entry("default")) {
                self.check_argument(parameter, kind, given);
                let node = given.node.clone();
                bound.push((parameter.into(), TreeEntry { node, ..given.clone() }));
                continue;
            }
            let optional = declared.node.get("required").and_then(|required| required.value.as_bool());
            if optional == Some(false) {
                bound.push((
                    parameter.into(),
                    TreeEntry::made(declared.key_span, TreeNode::made_null(declared.key_span)),
                ));
                continue;
            }
            let about = declared.node.get("description").and_then(|about| about.value.as_str());
            let about = about.map_or(String::new(), |about| format!(" ({about})"));
            let message = format!("the fragment `{name}` needs `{parameter}`{about}");
            let hint = format!("pass it: `with: {{{parameter}: ...}}`");
            self.report(Check::MissingParam.at(named.node.span, message).hint(hint));
            // The missing parameter is bound to a harmless command, so that it is reported only once.
            bound.push((
                parameter.into(),
                TreeEntry::made(declared.key_span, TreeNode::made_text(":", declared.key_span)),
            ));
        }
        if bound.is_empty() {
            return None;
        }
        let span = with.map_or(named.node.span, |with| with.node.span);
        let key_span = with.map_or(named.key_span, |with| with.key_span);
        Some(TreeEntry::made(key_span, self.make_object(bound, span)))
    }

    /// Checks the declaration of a parameter. Returns its type.
    fn check_parameter(&mut self, declared: &TreeEntry) -> Option<&'static str> {
        if declared.node.value.is_null() {
            return None;
        }
        if declared.node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", INPUT.title, shown(&declared.node.value));
            let hint = "write a default value as `{default: ...}`";
            self.report(Check::WrongType.at(span_of(&declared.node), message).hint(hint));
            return None;
        }
        for (key, found) in declared.node.entries().filter(|(key, _)| INPUT.key(key).is_none()) {
            let problem = unknown_key(&INPUT, key, found.key_span, self.problems.len());
            self.report(problem);
        }
        self.check_removed_keys(&declared.node, &INPUT, |_| true);
        let kind = declared.node.get("type")?;
        let choices = INPUT.known("type").choices();
        let written = kind.value.as_str().unwrap_or_default();
        let found = choices.iter().find(|choice| choice.spellings().any(|spelling| spelling == written));
        if found.is_none() {
            let expected = crate::fields::Form::OneOf(choices).expected();
            let message = format!("`type` takes {expected}, not {}", shown(&kind.value));
            self.report(Check::UnknownChoice.at(span_of(kind), message));
        }
        found.map(|choice| choice.name)
    }

    /// Checks that a literal value fits the type of its parameter. The value of a reference is not known yet.
    fn check_argument(&mut self, parameter: &str, kind: Option<&'static str>, given: &TreeEntry) {
        let Some(kind) = kind.and_then(Input::type_of) else { return };
        let value = &given.node.value;
        let written = Document::compile(&Syntax::DEFAULT, |sink| given.node.feed(sink));
        let is_fixed = written.is_ok_and(|document| document.as_fixed().is_some());
        if !is_fixed || Input::accepts(kind, value) {
            return;
        }
        let (kind, got) = (kind.with_article(), value.kind().with_article());
        let message = format!("`{parameter}` must be {kind}, not {got}");
        self.report(Check::WrongType.at(span_of(&given.node), message));
    }

    // ---- other spellings -------------------------------------------------------------------------------

    /// Rewrites `loop: NAME` to `workflow: NAME.yaml`.
    fn expand_loop_call(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let called = state.entry("loop")?;
        if let Some(other) = state.entry("workflow") {
            let message = "`loop` and `workflow` are the same key";
            self.report(Check::ConflictingKeys.at(other.key_span, message).hint("keep one of them"));
        }
        let Some(path) = called.node.value.as_str() else {
            let message = format!("`loop` takes the path of a file, not {}", shown(&called.node.value));
            self.report(Check::WrongType.at(span_of(&called.node), message));
            // The key is replaced by a harmless one, so that it is reported only once.
            let mut all = without(state, &["loop", "workflow", "with"]);
            all.push(text("action", ":", called.key_span));
            return Some(self.make_object(all, state.span));
        };
        let node = TreeNode::made_text(&path_of(path), called.node.span);
        let all =
            entries(state).into_iter().filter(|(key, _)| key != "workflow").map(|(key, entry)| match &*key {
                "loop" => ("workflow".into(), with_node(&entry, node.clone())),
                _ => (key, entry),
            });
        Some(self.make_object(all.collect(), state.span))
    }

    /// Makes the path of a called file relative to this file; it is written relative to the file that
    /// contains the state.
    fn relocate_call(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let path = state.get("workflow")?;
        let file = self.file.placed(path.span.range().start);
        if file.start == 0 || folder(file.name) == folder(self.file.name()) {
            return None;
        }
        let name = name_from(file.name, path.value.as_str()?);
        let node = TreeNode::made_text(&path_from(self.file.name(), &name), path.span);
        let all = entries(state).into_iter().map(|(key, entry)| match &*key {
            "workflow" => (key, with_node(&entry, node.clone())),
            _ => (key, entry),
        });
        Some(self.make_object(all.collect(), state.span))
    }

    /// Rewrites `action: /review the change` to a prompt, because no program has such a name.
    fn expand_slash_command(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let action = state.entry("action")?;
        if state.get("action_type").is_some() || !is_slash_command(action.node.value.as_str()?) {
            return None;
        }
        let mut all = entries(state);
        all.push(text("action_type", "prompt", action.key_span));
        Some(self.make_object(all, state.span))
    }
}

/// Whether a state calls a workflow, by itself or by its fragment.
fn calls_workflow(state: &TreeNode, fragment: &TreeNode) -> bool {
    ["loop", "workflow"].iter().any(|key| state.get(key).or_else(|| fragment.get(key)).is_some())
}

/// Whether a text starts with a command for an agent, such as `/review` or `/team:review`.
pub(super) fn is_slash_command(action: &str) -> bool {
    let Some(word) = action.strip_prefix('/').and_then(|rest| rest.split_whitespace().next()) else {
        return false;
    };
    let begins = action.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic);
    begins && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
}

fn unknown_parameter(fragment: &str, given: &str, span: Span, known_names: &[&str]) -> Problem {
    let problem =
        Check::UnknownParam.at(span, format!("the fragment `{fragment}` has no parameter `{given}`"));
    if known_names.is_empty() {
        return problem.hint(format!("declare it in the fragment: `parameters: {{{given}: }}`"));
    }
    problem.suggest(given, "parameters", known_names.iter().copied())
}

/// The folder of a file.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
