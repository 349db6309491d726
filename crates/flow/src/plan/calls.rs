//! Checks calls of other workflows: the values they are passed fit their `inputs`, and the fields that are
//! read are among their `exports`.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::{Origin, Reference};

use super::Read;
use super::check::{Checker, Makers, Readable, Reader, end_of_output, field_after};
use crate::checks::Check;
use crate::model::{Action, Call, Given, Input, Workflow};
use crate::problem::Problem;

/// The key by which an older loop gives a called one everything it has.
const PASSES_ALL: &str = "context_passthrough";

/// The place of a key beside the one whose value stands at a place, if it is `true` there.
fn sibling(text: &str, value: Span, key: &str) -> Option<Span> {
    let line = text.get(..value.range().start)?.rfind('\n').map_or(0, |at| at + 1);
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let own = depth(&text[line..]);
    let is_deeper =
        |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#') || depth(line) >= own;
    let before = text[..line].split_inclusive('\n').rev().take_while(is_deeper).map(str::len).sum::<usize>();
    let mut at = line - before;
    for found in text[at..].split_inclusive('\n') {
        if at > line && !is_deeper(&found) {
            return None;
        }
        let rest = found.trim_start().strip_prefix(key).and_then(|rest| rest.strip_prefix(':'));
        if depth(found) == own && rest.is_some_and(|rest| rest.trim_start().starts_with("true")) {
            return Some(Span::new(at + own, at + own + key.len()));
        }
        at += found.len();
    }
    None
}

/// The change of the text by which a call gives more inputs.
fn with_entries(text: &str, call: &Call, lines: &[String]) -> Option<Fix> {
    let blanks = |at: usize| {
        let line = text[..at].rfind('\n').map_or(0, |line| line + 1);
        text[line..at].bytes().all(|byte| byte == b' ').then(|| " ".repeat(at - line))
    };
    if let Some(first) = call.with.first() {
        let at = first.span.range().start;
        let new = match blanks(at) {
            Some(blanks) => lines.join(&format!("\n{blanks}")) + "\n" + &blanks,
            None => lines.join(", ") + ", ",
        };
        return Some(Fix::new(Span::new(at, at), new));
    }
    let value = call.path.origin.span.range();
    let key = text[..value.start].rfind(['\n', '{', ',']).map_or(0, |at| at + 1);
    let key = key + text[key..].len() - text[key..].trim_start().len();
    let blanks = blanks(key)?;
    let new = lines.join(&format!("\n{blanks}  "));
    Some(Fix::new(Span::new(key, key), format!("with:\n{blanks}  {new}\n{blanks}")))
}

impl Checker<'_> {
    /// A value that a call gives, compared with the input of the called workflow.
    pub(super) fn given(&mut self, reader: Reader, call: &Call, given: &Given, reads: &mut Vec<Read>) {
        let callee = self.called.get(&call.path.value).and_then(|callee| callee.workflow.as_deref());
        let input = callee.and_then(|callee| callee.inputs.iter().find(|input| input.name == given.name));
        if let (Some(callee), None) = (callee, input) {
            self.unknown_input(callee, call, given);
        }
        let kind = input.and_then(|input| input.kind);
        let field = match (kind, given.value.value.as_fixed()) {
            (Some(kind), Some(value)) => {
                if !Input::accepts(kind, value) {
                    let (kind, got) = (kind.with_article(), value.kind().with_article());
                    let message =
                        format!("`{}` must be {kind} in `{}`, not {got}", given.name, call.path.value);
                    self.problem(Check::WrongType.at(given.value.origin.span, message));
                }
                return;
            }
            (Some(kind), None) => Readable::Given(&given.value, kind),
            (None, _) => Readable::Value(&given.value),
        };
        self.field(reader, field, reads);
    }

    /// Every input of the called workflow that needs a value is given one.
    pub(super) fn missing_inputs(&mut self, call: &Call) {
        let callee = self.called.get(&call.path.value).and_then(|callee| callee.workflow.as_deref());
        for input in callee.map_or(&[][..], |callee| &callee.inputs) {
            let missing = input.required && input.default.is_none();
            if missing && !call.with.iter().any(|given| given.name == input.name) {
                let about = input.description.as_ref().map_or(String::new(), |about| format!(" ({about})"));
                let message = format!("`{}` needs `{}`{about}", call.path.value, input.name);
                let problem = Check::MissingInput.at(call.path.origin.span, message);
                self.problem(problem.hint(format!("pass it: `with: {{{}: ...}}`", input.name)));
            }
        }
        if let Some(callee) = callee {
            let names: Vec<EcoString> = callee.inputs.iter().map(|input| input.name.clone()).collect();
            self.passed_through(call, &names);
        }
    }

    /// Tells of a state that gives a called loop everything it has, as in an older system: what the loop takes has to be
    /// named.
    fn passed_through(&mut self, call: &Call, inputs: &[EcoString]) {
        let file = self.plan.workflow.file.clone();
        let Some(span) = sibling(file.text(), call.path.origin.span, PASSES_ALL) else { return };
        let workflow = Arc::clone(&self.plan.workflow);
        let has = |name: &EcoString| {
            let context = workflow.context.iter().flat_map(|context| &context.entries);
            context.into_iter().any(|entry| entry.name == *name)
        };
        let is_captured = |name: &EcoString| {
            let mut steps = self.plan.steps.iter().filter_map(|planned| planned.step.capture.as_ref());
            steps.any(|capture| capture.value == *name)
        };
        let given = inputs.iter().filter(|name| call.with.iter().all(|given| given.name != **name));
        let lines: Vec<String> = given
            .filter_map(|name| match (is_captured(name), has(name)) {
                (true, _) => Some(format!("{name}: \"${{captured.{name}.output}}\"")),
                (false, true) => Some(format!("{name}: \"${{context.{name}}}\"")),
                (false, false) => None,
            })
            .collect();
        if lines.is_empty() {
            return;
        }
        let message = "a state gives a called loop what it names";
        let hint = format!("write `with: {{{}}}`", lines.join(", "));
        let fix = with_entries(file.text(), call, &lines);
        self.problem(Problem { fix, ..Check::PassesAll.at(span, message).hint(hint) });
    }

    fn unknown_input(&mut self, callee: &Workflow, call: &Call, given: &Given) {
        let names: Vec<&str> = callee.inputs.iter().map(|input| input.name.as_str()).collect();
        let message = format!("`{}` has no input `{}`", call.path.value, given.name);
        let problem = Check::UnknownInput.at(given.span, message);
        self.problem(if names.is_empty() {
            problem.note("it has no inputs")
        } else {
            problem.suggest(&given.name, "inputs", names.iter().copied())
        });
    }

    /// Reports a reference to a field that the called workflow does not export. Returns whether it did.
    pub(super) fn unknown_export(
        &mut self,
        origin: &Origin,
        reference: &Reference,
        name: &str,
        makers: &Makers,
        is_output: bool,
    ) -> bool {
        let [step] = makers.steps[..] else { return false };
        let Action::Workflow(call) = &self.plan.steps[step as usize].step.action else { return false };
        let callee = self.called.get(&call.path.value).and_then(|callee| callee.workflow.as_deref());
        let Some(callee) = callee else { return false };
        let mut end = end_of_output(reference, name);
        if is_output {
            match field_after(reference, end) {
                Some((at, field @ ("value" | "result"))) => end = at + field.len(),
                // The language checks the other fields of an output.
                _ => return false,
            }
        }
        let Some((at, field)) = field_after(reference, end) else { return false };
        let names: Vec<&str> = callee.exports.iter().map(|(name, _)| name.as_str()).collect();
        if names.contains(&field) {
            return false;
        }
        let at = reference.span.range().start + at;
        let span = self.place(origin, Span::new(at, at + field.len()));
        let problem = Check::NotExported.at(span, format!("`{}` does not export `{field}`", call.path.value));
        self.problem(if names.is_empty() {
            problem.hint(format!("export it there: `exports: {{{field}: ...}}`"))
        } else {
            problem.suggest(field, "exports", names.iter().copied())
        });
        true
    }
}
