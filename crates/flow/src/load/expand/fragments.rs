//! States that are made of fragments: the fragment's keys below the state's own, and what `with` gives bound to the
//! parameters, which its texts read as `${param.NAME}`.

use ecow::EcoString;
use threadline_lang::diag::{Span, nearest};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Document, Syntax};

use super::parts::{path_of, replaced};
use super::{Entries, Expander, Fragments, entries, text, without};
use crate::checks::Check;
use crate::fields::{FRAGMENT, INPUT};
use crate::files::{name_from, path_from};
use crate::load::read::{shown, span_of, unknown_key};
use crate::model::Input;
use crate::problem::Problem;

/// The keys of a fragment that are about the fragment itself.
const OF_FRAGMENT: [&str; 2] = ["description", "parameters"];

/// The keys of a state that say which fragment it is made of.
const OF_STATE: [&str; 2] = ["fragment", "with"];

impl Expander<'_> {
    /// Every state made of its fragment.
    pub(super) fn states(&mut self, root: TreeNode, fragments: &Fragments) -> TreeNode {
        self.fragments(fragments);
        let Some(states) = root.entry("states").filter(|states| states.node.value.as_object().is_some())
        else {
            return root;
        };
        let made: Entries = states
            .node
            .entries()
            .map(|(name, entry)| {
                let node = self.state(&entry.node, fragments).unwrap_or_else(|| entry.node.clone());
                (EcoString::from(name), replaced(entry, node))
            })
            .collect();
        let states = replaced(states, self.object(made, states.node.span));
        let all = entries(&root).into_iter().map(|(key, entry)| match key.as_str() {
            "states" => (key, states.clone()),
            _ => (key, entry),
        });
        self.object(all.collect(), root.span)
    }

    /// The keys of fragments that no state of the file may be made of.
    fn fragments(&mut self, fragments: &Fragments) {
        for entry in fragments.values() {
            let own = self.file.placed(entry.key_span.range().start).start == 0;
            if entry.node.value.as_object().is_none() {
                let message = format!("a fragment is an object, not {}", shown(&entry.node.value));
                self.problem(Check::WrongType.at(span_of(&entry.node), message));
                continue;
            }
            if let Some(nested) = entry.node.entry("fragment") {
                let message = "a fragment cannot be made of another";
                self.problem(Check::KeyNotHere.at(nested.key_span, message));
            }
            self.check_fixed(&entry.node, &FRAGMENT, |_| true);
            // What a state is made of is looked at there; of a library only what is used.
            for (key, found) in entry.node.entries().filter(|(key, _)| own && FRAGMENT.key(key).is_none()) {
                let problem = unknown_key(&FRAGMENT, key, found.key_span);
                self.problem(problem);
            }
        }
    }

    fn state(&mut self, state: &TreeNode, fragments: &Fragments) -> Option<TreeNode> {
        let made = match state.entry("fragment") {
            Some(named) => self.made_of(state, named, fragments)?,
            None => state.clone(),
        };
        let made = self.loop_call(&made).unwrap_or(made);
        let made = self.call_from_here(&made).unwrap_or(made);
        Some(self.slash_command(&made).unwrap_or(made))
    }

    /// A state made of a fragment.
    fn made_of(&mut self, state: &TreeNode, named: &TreeEntry, fragments: &Fragments) -> Option<TreeNode> {
        let Some(name) = named.node.value.as_str() else {
            let message = format!("`fragment` takes a name, not {}", shown(&named.node.value));
            self.problem(Check::WrongType.at(span_of(&named.node), message));
            return None;
        };
        let Some(fragment) = fragments.get(name) else {
            let problem =
                Check::UnknownFragment.at(named.node.span, format!("there is no fragment `{name}`"));
            let known_names: Vec<&str> = fragments.keys().map(EcoString::as_str).collect();
            self.problem(match nearest(name, known_names.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{near}`")),
                None if known_names.is_empty() => {
                    problem.hint("write it under `fragments:`, or `import:` the file that has it")
                }
                None => problem.note(format!("fragments: {}", known_names.join(", "))),
            });
            return Some(self.object(without(state, &OF_STATE), state.span));
        };
        let below = self.object(without(&fragment.node, &OF_FRAGMENT), fragment.node.span);
        let below = self.object(without(&below, &["fragment"]), below.span);
        let param = self.bound(state, named, name, &fragment.node);
        // A state that is made of a fragment and calls a workflow has `with` for the fragment.
        let above = self.object(without(state, &OF_STATE), state.span);
        let mut all = entries(&self.over(&below, &above));
        if let Some(param) = param {
            all.retain(|(key, _)| key != "param");
            all.push(("param".into(), param));
        }
        Some(self.object(all, state.span))
    }

    // ---- parameters ------------------------------------------------------------------------------------

    /// What the parameters of a fragment are bound to in a state.
    fn bound(
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
            let message = format!("`parameters` takes an object of names, not {}", shown(&parameters.value));
            self.problem(Check::WrongType.at(span_of(parameters), message));
        }
        if let Some(with) = with.filter(|with| with.node.value.as_object().is_none()) {
            let message = format!("`with` takes an object of names, not {}", shown(&with.node.value));
            self.problem(Check::WrongType.at(span_of(&with.node), message));
        }
        let known_names: Vec<&str> =
            parameters.into_iter().flat_map(TreeNode::entries).map(|(parameter, _)| parameter).collect();
        for (given, entry) in with.into_iter().flat_map(|with| with.node.entries()) {
            if !known_names.contains(&given) {
                let problem = unknown_parameter(name, given, entry.key_span, &known_names);
                self.problem(problem);
            }
        }
        let mut bound = Entries::new();
        for (parameter, declared) in parameters.into_iter().flat_map(TreeNode::entries) {
            let kind = self.parameter(declared);
            let given = with.and_then(|with| with.node.entry(parameter));
            if let Some(given) = given.or_else(|| declared.node.entry("default")) {
                self.fits(parameter, kind, given);
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
            let hint = format!("give it: `with: {{{parameter}: ...}}`");
            self.problem(Check::MissingParam.at(named.node.span, message).hint(hint));
            // One word about it is enough: where it is read it is a command that does nothing.
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
        Some(TreeEntry::made(key_span, self.object(bound, span)))
    }

    /// Looks at how a parameter is declared; the word for its type.
    fn parameter(&mut self, declared: &TreeEntry) -> Option<&'static str> {
        if declared.node.value.is_null() {
            return None;
        }
        if declared.node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", INPUT.title, shown(&declared.node.value));
            let hint = "write `default:` before what holds when it is not given";
            self.problem(Check::WrongType.at(span_of(&declared.node), message).hint(hint));
            return None;
        }
        for (key, found) in declared.node.entries().filter(|(key, _)| INPUT.key(key).is_none()) {
            let problem = unknown_key(&INPUT, key, found.key_span);
            self.problem(problem);
        }
        self.check_fixed(&declared.node, &INPUT, |_| true);
        let kind = declared.node.get("type")?;
        let choices = INPUT.known("type").choices();
        let written = kind.value.as_str().unwrap_or_default();
        let found = choices.iter().find(|choice| choice.spellings().any(|spelling| spelling == written));
        if found.is_none() {
            let expected = crate::fields::Form::OneOf(choices).expected();
            let message = format!("`type` takes {expected}, not {}", shown(&kind.value));
            self.problem(Check::UnknownChoice.at(span_of(kind), message));
        }
        found.map(|choice| choice.name)
    }

    /// Whether what is written out fits the type of its parameter. What a reference gives is not known yet.
    fn fits(&mut self, parameter: &str, kind: Option<&'static str>, given: &TreeEntry) {
        let Some(kind) = kind.and_then(Input::type_of) else { return };
        let value = &given.node.value;
        let written = Document::compile(&Syntax::DEFAULT, |sink| given.node.feed(sink));
        let is_fixed = written.is_ok_and(|document| document.as_fixed().is_some());
        if !is_fixed || Input::accepts(kind, value) {
            return;
        }
        let (kind, got) = (kind.with_article(), value.kind().with_article());
        let message = format!("`{parameter}` is {kind}, and this is {got}");
        self.problem(Check::WrongType.at(span_of(&given.node), message));
    }

    // ---- other spellings -------------------------------------------------------------------------------

    /// `loop: NAME` is `workflow: NAME.yaml`.
    fn loop_call(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let called = state.entry("loop")?;
        if let Some(other) = state.entry("workflow") {
            let message = "`loop` and `workflow` mean the same";
            self.problem(Check::ConflictingKeys.at(other.key_span, message).hint("keep one of them"));
        }
        let Some(path) = called.node.value.as_str() else {
            let message = format!("`loop` takes the file of a loop, not {}", shown(&called.node.value));
            self.problem(Check::WrongType.at(span_of(&called.node), message));
            // One word about it is enough: what stands in its place does nothing.
            let mut all = without(state, &["loop", "workflow", "with"]);
            all.push(text("action", ":", called.key_span));
            return Some(self.object(all, state.span));
        };
        let node = TreeNode::made_text(&path_of(path), called.node.span);
        let all =
            entries(state).into_iter().filter(|(key, _)| key != "workflow").map(|(key, entry)| match &*key {
                "loop" => ("workflow".into(), replaced(&entry, node.clone())),
                _ => (key, entry),
            });
        Some(self.object(all.collect(), state.span))
    }

    /// A file that a state calls is named from the folder of the file where that is written: here from this one's.
    fn call_from_here(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let path = state.get("workflow")?;
        let of = self.file.placed(path.span.range().start);
        if of.start == 0 || folder(of.name) == folder(self.file.name()) {
            return None;
        }
        let name = name_from(of.name, path.value.as_str()?);
        let node = TreeNode::made_text(&path_from(self.file.name(), &name), path.span);
        let all = entries(state).into_iter().map(|(key, entry)| match &*key {
            "workflow" => (key, replaced(&entry, node.clone())),
            _ => (key, entry),
        });
        Some(self.object(all.collect(), state.span))
    }

    /// `action: /review the change` is a prompt: no program is called so.
    fn slash_command(&mut self, state: &TreeNode) -> Option<TreeNode> {
        let action = state.entry("action")?;
        if state.get("action_type").is_some() || !is_slash_command(action.node.value.as_str()?) {
            return None;
        }
        let mut all = entries(state);
        all.push(text("action_type", "prompt", action.key_span));
        Some(self.object(all, state.span))
    }
}

/// Whether a text begins with the name of a command of an agent, such as `/review` or `/team:review`.
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
    match nearest(given, known_names.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean `{near}`")),
        None if known_names.is_empty() => {
            problem.hint(format!("declare it there: `parameters: {{{given}: }}`"))
        }
        None => problem.note(format!("parameters: {}", known_names.join(", "))),
    }
}

/// The folder of a file.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
