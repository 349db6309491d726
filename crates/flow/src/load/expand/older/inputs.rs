//! `input_key`, `required_inputs` and `parameters` of older loops: values of the caller, which are read as entries of
//! `context` there. Here they are inputs, and `context` takes them from these.

use ecow::EcoString;
use threadline_lang::Value;
use threadline_lang::diag::Fix;
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::value::JsonStyle;

use super::edits::EntryPlace;
use super::outside::{RUN_DIR, declaration, reads};
use super::{Expander, named, reference};
use crate::checks::Check;
use crate::fields::INPUT;
use crate::load::expand::{NodeEntries, without};
use crate::problem::{Problem, joined};

/// The keys of an older loop that name values of its caller.
const KEYS: [&str; 3] = ["parameters", "input_key", "required_inputs"];

/// The words for types of parameters that are texts here.
const TEXTS: [&str; 2] = ["path", "enum"];

/// The keys of a parameter that list its values.
const VALUES: [&str; 2] = ["values", "enum"];

/// An input that an older loop declares.
struct OldInput {
    name: EcoString,
    /// The whole declaration, as an input of today.
    declared: TreeNode,
    /// What changes below `parameters` where it is declared there; none if that cannot be changed in its place.
    edits: Option<Vec<Fix>>,
    is_parameter: bool,
}

impl Expander<'_> {
    /// A loop whose values of the caller are inputs.
    pub(super) fn with_present_inputs(&mut self, root: TreeNode) -> TreeNode {
        let is_loop = ["states", "from", "import"].iter().any(|key| root.get(key).is_some());
        if !is_loop || KEYS.iter().all(|key| root.get(key).is_none()) || root.get("inputs").is_some() {
            return root;
        }
        let (Some(inputs), Some(first)) =
            (self.old_inputs(&root), KEYS.iter().find_map(|key| root.entry(key)))
        else {
            return root;
        };
        let fix = self.input_edits(&root, &inputs).and_then(|edits| joined(self.file.text(), edits));
        for (at, (key, entry)) in KEYS.iter().filter_map(|key| Some((key, root.entry(key)?))).enumerate() {
            let message = format!("`{key}` is the spelling of an older system");
            let hint = "declare the values of the caller under `inputs:`, and put them into `context:` as `NAME: \
                        \"${inputs.NAME}\"`";
            let fix = fix.clone().filter(|_| at == 0);
            self.report_old(Problem { fix, ..Check::OldSpelling.at(entry.key_span, message).hint(hint) });
        }
        let mut all = without(&root, &[KEYS[0], KEYS[1], KEYS[2], "context"]);
        let span = first.node.span;
        let mut context = named(root.get("context"));
        let mut declared = NodeEntries::new();
        for OldInput { name, declared: input, .. } in inputs {
            let node = reference(&format!("inputs.{name}"), input.span);
            match context.iter_mut().find(|(known, _)| *known == name) {
                Some((_, entry)) => {
                    entry.node = reference(&format!("inputs.{name}"), entry.node.span);
                }
                None => context.push((name.clone(), TreeEntry::made(input.span, node))),
            }
            declared.push((name, TreeEntry::made(input.span, input)));
        }
        let declared = self.make_object(declared, span);
        let context = self.make_object(context, root.get("context").map_or(span, |node| node.span));
        all.push(("inputs".into(), TreeEntry::made(first.key_span, declared)));
        let key_span = root.entry("context").map_or(first.key_span, |entry| entry.key_span);
        all.push(("context".into(), TreeEntry::made(key_span, context)));
        self.make_object(all, root.span)
    }

    /// The inputs; none if something is not what it is there.
    fn old_inputs(&mut self, root: &TreeNode) -> Option<Vec<OldInput>> {
        let context = root.get("context");
        let required: Vec<&str> = match root.get("required_inputs") {
            Some(list) => list.items().iter().map(|item| item.value.as_str()).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        let mut inputs: Vec<OldInput> = Vec::new();
        if root.get("parameters").is_some_and(|node| node.value.as_object().is_none()) {
            return None;
        }
        for (name, entry) in named(root.get("parameters")) {
            let given = context.and_then(|context| context.get(&name));
            inputs.push(self.parameter(name.clone(), &entry, given, required.contains(&name.as_str()))?);
        }
        let key = root.get("input_key").map(|node| node.value.as_str());
        if key == Some(None) {
            return None;
        }
        for name in key.flatten().into_iter().chain(required.iter().copied()) {
            if inputs.iter().any(|known| known.name == name) {
                continue;
            }
            let span = root.get("input_key").or(root.get("required_inputs"))?.span;
            let given = context.and_then(|context| context.get(name)).map(|node| node.value.clone());
            let declared = if required.contains(&name) {
                made("required", Value::from(true), span)
            } else {
                made("default", given.unwrap_or_else(|| Value::from("")), span)
            };
            let declared = self.make_object(vec![declared], span);
            inputs.push(OldInput { name: name.into(), declared, edits: None, is_parameter: false });
        }
        self.add_undeclared(root, &mut inputs);
        Some(inputs)
    }

    /// Adds what the file reads without declaring it: it is given on the command line there, too.
    fn add_undeclared(&mut self, root: &TreeNode, inputs: &mut Vec<OldInput>) {
        let span = KEYS.iter().find_map(|key| root.entry(key)).map_or(root.span, |entry| entry.node.span);
        let is_known = |name: &EcoString, inputs: &[OldInput]| {
            name == RUN_DIR
                || root.get("context").is_some_and(|context| context.get(name).is_some())
                || inputs.iter().any(|known| known.name == *name)
        };
        for (name, is_required) in reads(root) {
            if !is_known(&name, inputs) {
                let (key, value) = declaration(is_required, &name);
                let declared = self.make_object(vec![made(key, value, span)], span);
                inputs.push(OldInput { name, declared, edits: None, is_parameter: false });
            }
        }
    }

    /// A parameter as an input: its type by the word of today, and not required unless it says so.
    fn parameter(
        &mut self,
        name: EcoString,
        entry: &TreeEntry,
        given: Option<&TreeNode>,
        is_required: bool,
    ) -> Option<OldInput> {
        let written = &entry.node;
        if written.value.is_null() {
            let declared =
                self.make_object(vec![made("required", Value::from(false), written.span)], written.span);
            return Some(OldInput { name, declared, edits: None, is_parameter: true });
        }
        written.value.as_object()?;
        let mut all = without(written, &VALUES);
        if all.iter().any(|(key, _)| INPUT.key(key).is_none()) {
            return None;
        }
        let text = self.file.text();
        let mut edits: Vec<Option<Fix>> = VALUES
            .iter()
            .filter_map(|key| written.entry(key))
            .map(|entry| EntryPlace { text, entry }.commented_out(written))
            .collect();
        for (_, entry) in all.iter_mut().filter(|(key, _)| key == "type") {
            if entry.node.value.as_str().is_some_and(|word| TEXTS.contains(&word)) {
                let edit = EntryPlace { text, entry }.value("text");
                edits.push(Some(edit));
                entry.node = TreeNode::made_text("text", entry.node.span);
            }
        }
        // There, values of the caller are texts and become what they look like: a type other than text says nothing, and
        // neither does one that its default does not have.
        let is_text =
            |node: &TreeNode| matches!(node.value.as_str(), Some("string" | "text" | "path" | "enum"));
        let other = |node: &TreeNode| !node.value.is_null() && node.value.as_str().is_none();
        let has_other = written.get("default").or(given).is_some_and(other);
        if let Some(entry) = written.entry("type").filter(|entry| has_other || !is_text(&entry.node)) {
            edits.retain(|edit| edit.as_ref().is_none_or(|edit| edit.span.start != entry.node.span.start));
            edits.push(
                EntryPlace { text, entry }
                    .commented_out(written)
                    .or_else(|| EntryPlace { text, entry }.removed(written)),
            );
            all.retain(|(key, _)| key != "type");
        }
        let asks = written.get("required").and_then(|node| node.value.as_bool());
        let has_default = written.get("default").is_some();
        let more = match (asks, has_default) {
            (Some(true), true) => {
                edits.push(
                    written.entry("required").and_then(|entry| EntryPlace { text, entry }.removed(written)),
                );
                all.retain(|(key, _)| key != "required");
                None
            }
            (Some(true), false) | (_, true) => None,
            (_, false) if is_required => Some(("required", Value::from(true))),
            (_, false) => match given.filter(|given| !given.value.is_null()) {
                Some(given) => Some(("default", given.value.clone())),
                None => asks.is_none().then_some(("required", Value::from(false))),
            },
        };
        if let Some((key, value)) = more {
            let line = format!("{key}: {}", value.to_json(JsonStyle::Compact));
            let first = written.entries().next().map(|(_, entry)| entry);
            edits.push(first.and_then(|first| EntryPlace { text, entry: first }.before(&[line])));
            if key == "required" {
                all.retain(|(known, _)| known != "required");
            }
            all.push(made(key, value, written.span));
        }
        let declared = self.make_object(all, written.span);
        Some(OldInput { name, declared, edits: edits.into_iter().collect(), is_parameter: true })
    }

    /// The changes of the text: `parameters` become `inputs` where they stand, and `context` gets references.
    fn input_edits(&self, root: &TreeNode, inputs: &[OldInput]) -> Option<Vec<Fix>> {
        let place = |entry| EntryPlace { text: self.file.text(), entry };
        let mut edits = Vec::new();
        let added: Vec<String> = inputs
            .iter()
            .filter(|input| !input.is_parameter)
            .map(|input| format!("{}: {}", input.name, inline(&input.declared)))
            .collect();
        let mut rest = KEYS[1..].iter().filter_map(|key| root.entry(key));
        if let Some(parameters) = root.entry("parameters") {
            edits.push(Fix::new(parameters.key_span, place(parameters).quoted("inputs")));
            for input in inputs.iter().filter(|input| input.is_parameter) {
                edits.extend(input.edits.clone()?);
            }
            if !added.is_empty() {
                let (_, first) = parameters.node.entries().next()?;
                edits.push(place(first).before(&added)?);
            }
        } else {
            edits.push(place(rest.next()?).block("inputs", &added)?);
        }
        for entry in rest {
            edits.push(place(entry).removed(root)?);
        }
        let line = |input: &OldInput| format!("{0}: \"${{inputs.{0}}}\"", input.name);
        let Some(context) = root.entry("context").filter(|entry| entry.node.value.as_object().is_some())
        else {
            if root.get("context").is_some() {
                return None;
            }
            let first = edits.iter_mut().min_by_key(|edit| edit.span.start)?;
            let lines: Vec<String> = inputs.iter().map(|input| format!("  {}\n", line(input))).collect();
            first.text = format!("context:\n{}{}", lines.concat(), first.text);
            return Some(edits);
        };
        let mut missing = Vec::new();
        for input in inputs {
            match context.node.entry(&input.name) {
                Some(entry) => {
                    edits.push(place(entry).flow(&format!("\"${{inputs.{}}}\"", input.name))?);
                }
                None => missing.push(line(input)),
            }
        }
        if !missing.is_empty() {
            let (_, first) = context.node.entries().next()?;
            edits.push(place(first).before(&missing)?);
        }
        Some(edits)
    }
}

fn made(key: &str, value: Value, span: threadline_lang::diag::Span) -> (EcoString, TreeEntry) {
    (key.into(), TreeEntry::made(span, TreeNode::made_scalar(value, span)))
}

/// An object on one line, as people write it in YAML.
fn inline(object: &TreeNode) -> String {
    let entries = object
        .entries()
        .map(|(key, entry)| format!("{key}: {}", entry.node.value.to_json(JsonStyle::Compact)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}
