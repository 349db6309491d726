//! Steps of older lists that stand for more than one step of today: a step that is mended and tried again, one whose
//! result is validated, and one that names the files it makes.

use ecow::EcoString;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Type, Value};

use super::Expander;
use super::edits::EntryPlace;
use crate::checks::Check;
use crate::fields::{KeyKind, STEP};
use crate::load::expand::{NodeEntries, entries, text, without};
use crate::problem::Problem;

/// How often a step is tried, in what runs when it fails.
const ATTEMPTS: &str = "max_attempts";

/// Whether the run ends when the last attempt failed.
const FAILS: &str = "fail_workflow";

/// The keys of a validation.
const OF_VALIDATION: [&str; 6] = ["claude", "shell", "commands", "result_file", "threshold", "on_incomplete"];

/// The name by which the result of a validation is read there.
const VALIDATION: &str = "validation";

impl Expander<'_> {
    /// The steps that a step stands for, where it is written as in an older system. `written` is how it stands in the
    /// file, `step` the same with the names of today.
    pub(super) fn steps_of_older(&mut self, written: &TreeNode, step: &TreeNode) -> Option<Vec<TreeNode>> {
        let mended = self.mended(written, step);
        let step = mended.as_ref().unwrap_or(step);
        let several = self.validated(written, step).or_else(|| self.with_files(written, step));
        several.or_else(|| mended.map(|step| vec![step]))
    }

    /// A step with `max_attempts` or `fail_workflow` in its `on_failure`.
    fn mended(&mut self, written: &TreeNode, step: &TreeNode) -> Option<TreeNode> {
        let handler = step.entry("on_failure")?;
        let (most, fails) = (handler.node.entry(ATTEMPTS), handler.node.entry(FAILS));
        let (key, named) = most.map(|entry| (ATTEMPTS, entry)).or_else(|| Some((FAILS, fails?)))?;
        let attempts = match most {
            Some(most) => Some(most.node.value.as_i64().filter(|most| *most >= 1)?),
            None => None,
        };
        let goes_on = match fails {
            Some(fails) => !fails.node.value.as_bool()?,
            None => true,
        };
        if attempts.is_some() && step.get("retry").is_some() {
            return None;
        }
        let span = handler.node.span;
        let rest = self.make_object(without(&handler.node, &[ATTEMPTS, FAILS]), span);
        let instead = match attempts {
            None => ("on_failure".into(), TreeEntry { node: rest, ..handler.clone() }),
            Some(attempts) => {
                let attempts = TreeNode::made_scalar(Value::from(attempts), named.node.span);
                let mut retry = vec![("attempts".into(), TreeEntry::made(named.key_span, attempts))];
                // Without anything that mends, the step is only tried again.
                if rest.entries().next().is_some() {
                    retry.push(("fix".into(), TreeEntry::made(handler.key_span, rest)));
                }
                let retry = self.make_object(retry, span);
                ("retry".into(), TreeEntry::made(handler.key_span, retry))
            }
        };
        let mut all: NodeEntries = Vec::with_capacity(step.entries().count() + 1);
        for (known, entry) in entries(step) {
            all.push(if known == "on_failure" { instead.clone() } else { (known, entry) });
        }
        let is_told = step.get("continue_on_error").is_some();
        if goes_on && !is_told {
            all.push(flag("continue_on_error", true, named.key_span));
        }
        let message = format!("`{key}` is the spelling of an older system");
        let hint = match attempts {
            Some(attempts) if goes_on => format!(
                "write `retry: {{attempts: {attempts}, fix: ...}}` with these steps, and `continue_on_error: true`, because \
                 the run goes on when the last attempt failed"
            ),
            Some(attempts) => format!("write `retry: {{attempts: {attempts}, fix: ...}}` with these steps"),
            None if goes_on => "write `continue_on_error: true` on the step itself".to_owned(),
            None => "remove it: a step that failed ends the run".to_owned(),
        };
        let fix = self.mended_text(written, attempts, goes_on && !is_told);
        self.report_old(Problem { fix, ..Check::OldSpelling.at(named.key_span, message).hint(hint) });
        Some(self.make_object(all, step.span))
    }

    /// The change of the text: the steps move below `retry`, with their comments.
    fn mended_text(&self, written: &TreeNode, attempts: Option<i64>, goes_on: bool) -> Option<Fix> {
        let outer = self.place(written.entry("on_failure")?);
        let inner = &outer.entry.node;
        let blanks = " ".repeat(outer.indent()?);
        let place = |entry| EntryPlace { text: self.file.text(), entry };
        let mut removed = Vec::new();
        if inner.entries().all(|(key, _)| key == ATTEMPTS || key == FAILS) {
            return None;
        }
        for (_, entry) in inner.entries() {
            place(entry)
                .indent()
                .filter(|_| place(entry).has_own_lines() || entry.node.entries().count() > 0)?;
        }
        for key in [ATTEMPTS, FAILS] {
            if let Some(entry) = inner.entry(key) {
                removed.push(place(entry).removed(inner)?);
            }
        }
        let begin = if goes_on { format!("continue_on_error: true\n{blanks}") } else { String::new() };
        let all = self.file.text();
        let (start, key_end) = (outer.start(), outer.entry.key_span.range().end);
        let body = key_end + all[key_end..].find('\n')? + 1;
        let end = removed.iter().map(|fix| fix.span.range().end).max()?.max(outer.end());
        let mut lines = String::new();
        let mut from = body;
        removed.sort_by_key(|fix| fix.span.start);
        for fix in &removed {
            lines.push_str(all.get(from..fix.span.range().start)?);
            lines.push_str(&fix.text);
            from = fix.span.range().end;
        }
        lines.push_str(all.get(from..end)?);
        let head = &all[key_end..body];
        let new = match attempts {
            None => format!("{begin}on_failure{head}{lines}"),
            Some(attempts) => {
                let deeper: String = lines
                    .split_inclusive('\n')
                    .map(|line| if line.trim().is_empty() { line.to_owned() } else { format!("  {line}") })
                    .collect();
                format!("{begin}retry:\n{blanks}  attempts: {attempts}\n{blanks}  fix{head}{deeper}")
            }
        };
        self.is_own(outer.entry.key_span).then(|| Fix::new(Span::new(start, end), new))
    }

    /// A step with `validate`: what validates it follows, then a step that reads the result, and has it completed and
    /// validated again until it is good enough.
    fn validated(&mut self, written: &TreeNode, step: &TreeNode) -> Option<Vec<TreeNode>> {
        let named = step.entry("validate")?;
        let validate = &named.node;
        let is_known = |(key, _): (&str, &TreeEntry)| OF_VALIDATION.contains(&key);
        if validate.entries().next().is_none() || !validate.entries().all(is_known) {
            return None;
        }
        let span = validate.span;
        let threshold = match validate.get("threshold") {
            None => Value::from(100),
            Some(node) if matches!(node.value.kind(), Type::Int | Type::Decimal) => node.value.clone(),
            Some(_) => return None,
        };
        let incomplete = validate.get("on_incomplete");
        let completed =
            incomplete.and_then(|node| node.get(ATTEMPTS)).map_or(Some(2), |node| node.value.as_i64());
        let completed = completed.filter(|completed| *completed >= 0)?;
        let fails = match incomplete.map(|node| node.get(FAILS)) {
            None => false,
            Some(None) => true,
            Some(Some(node)) => node.value.as_bool()?,
        };
        let mut acts = self.steps_in(validate, &["result_file", "threshold", "on_incomplete"]);
        let mut reads = match validate.get("result_file") {
            Some(file) => {
                file.value.as_str()?;
                let words = vec![
                    TreeNode::made_text("cat", file.span),
                    TreeNode::made_text("--", file.span),
                    file.clone(),
                ];
                let argv = TreeNode::made_list(words, file.span).ok()?;
                vec![("argv".into(), TreeEntry::made(file.span, argv))]
            }
            None => entries(&acts.pop()?),
        };
        reads.retain(|(key, _)| !["capture", "capture_format"].contains(&key.as_str()));
        reads.extend([text("capture", VALIDATION, span), text("capture_format", "json", span)]);
        acts.push(self.make_object(reads, span));
        let expect = format!("value.completion_percentage >= {threshold}");
        let expect = self.make_object(vec![text("expr", &expect, span)], span);
        let expect = TreeEntry::made(named.key_span, expect);
        let document = vec![text("value", &format!("${{{VALIDATION}}}"), span), ("expect".into(), expect)];
        let document = self.make_object(document, span);
        let mut judges = vec![("assert".into(), TreeEntry::made(named.key_span, document))];
        if let Some(incomplete) = incomplete {
            let mut fix = self.steps_in(incomplete, &[ATTEMPTS, FAILS]);
            fix.extend(acts.iter().cloned());
            let fix = TreeNode::made_list(fix, incomplete.span).ok()?;
            let attempts = TreeNode::made_scalar(Value::from(completed.saturating_add(1)), incomplete.span);
            let retry = vec![
                ("attempts".into(), TreeEntry::made(span, attempts)),
                ("fix".into(), TreeEntry::made(span, fix)),
            ];
            let retry = self.make_object(retry, incomplete.span);
            judges.push(("retry".into(), TreeEntry::made(span, retry)));
        }
        if !fails {
            judges.push(flag("continue_on_error", true, span));
        }
        let own = self.make_object(without(step, &["validate"]), step.span);
        let judges = self.make_object(judges, span);
        let mut all = vec![own];
        for act in acts.into_iter().chain([judges]) {
            all.push(self.under_condition(step, act));
        }
        let hint = "write the validation as a step of its own; behind it one that reads its result, `argv: [cat, FILE]` with \
                    `capture: validation` and `capture_format: json`; and one that judges it, `assert: {value: \"${validation}\", \
                    expect: {expr: value.completion_percentage >= 95}}` with `retry: {attempts: 3, fix: ...}`";
        let written = written.entry("validate").unwrap_or(named);
        let message = "`validate` is the spelling of an older system";
        self.report_old(Check::OldSpelling.at(written.key_span, message).hint(hint));
        Some(all)
    }

    /// What an object does that is a step, or has `commands`; without keys that say something else.
    fn steps_in(&mut self, node: &TreeNode, others: &[&str]) -> Vec<TreeNode> {
        if let Some(commands) = node.get("commands") {
            let list = self.present(commands, &KeyKind::Steps).unwrap_or_else(|| commands.clone());
            return list.items().to_vec();
        }
        let step = self.make_object(without(node, others), node.span);
        if step.entries().next().is_none() {
            return Vec::new();
        }
        vec![self.present_object(&step, &STEP, "").unwrap_or(step)]
    }

    /// A step that runs when another one does.
    fn under_condition(&mut self, of: &TreeNode, step: TreeNode) -> TreeNode {
        let Some(when) = of.entry("when").filter(|_| step.get("when").is_none()) else { return step };
        let mut all = entries(&step);
        all.push(("when".into(), when.clone()));
        self.make_object(all, step.span)
    }

    /// A step with `outputs`: the newest file of each pattern is looked for behind it.
    fn with_files(&mut self, written: &TreeNode, step: &TreeNode) -> Option<Vec<TreeNode>> {
        let named = step.entry("outputs")?;
        let id = step.get("id")?;
        let id_text = id.value.as_str().filter(|id| crate::forms::is_name(id))?.to_owned();
        let span = named.node.span;
        let (mut all, mut fields) = (Vec::new(), NodeEntries::new());
        for (name, entry) in entries(&named.node) {
            let pattern = entry.node.get("file_pattern").unwrap_or(&entry.node).value.as_str()?.to_owned();
            if !crate::forms::is_name(&name) || pattern.contains(['\'', '\n', '$']) {
                return None;
            }
            let captured = format!("{id_text}_{name}");
            let look = vec![text("shell", &newest(&pattern), span), text("capture", &captured, span)];
            let look = self.make_object(look, span);
            all.push(self.under_condition(step, look));
            fields.push(text(&name, &format!("${{{captured}}}"), span));
        }
        if fields.is_empty() {
            return None;
        }
        let fields = self.make_object(fields, span);
        let value = vec![("value".into(), TreeEntry::made(span, fields)), text("capture", &id_text, span)];
        let value = self.make_object(value, span);
        let value = self.under_condition(step, value);
        all.push(value);
        all.insert(0, self.make_object(without(step, &["outputs", "id"]), step.span));
        let written = written.entry("outputs").unwrap_or(named);
        let message = "`outputs` is the spelling of an older system";
        let hint = format!(
            "find each file in a step behind it, as in `capture: {id_text}_NAME` with `shell: ls -t -- PATTERN | head -n 1`"
        );
        self.report_old(Check::OldSpelling.at(written.key_span, message).hint(hint));
        Some(all)
    }
}

/// A command that prints the path of the newest file with a name, or path, of a pattern; it fails if there is none.
fn newest(pattern: &str) -> String {
    let by =
        if pattern.contains('/') { format!("-path './{pattern}'") } else { format!("-name '{pattern}'") };
    format!(
        "find . -name .git -prune -o -type f {by} -printf '%T@ %P\\n' | sort -n | tail -n 1 | cut -d ' ' -f 2- | grep ."
    )
}

fn flag(key: &str, value: bool, span: Span) -> (EcoString, TreeEntry) {
    (key.into(), TreeEntry::made(span, TreeNode::made_scalar(Value::from(value), span)))
}
