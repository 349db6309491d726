//! Calls of other workflows: what they are given fits their `inputs`, and what is read of them is among their
//! `exports`.

use threadline_lang::diag::{Span, nearest};
use threadline_lang::{Origin, Reference};

use super::Read;
use super::check::{Checker, Makers, Readable, Reader, end_of_output, field_after};
use crate::checks::Check;
use crate::model::{Action, Call, Given, Input, Workflow};

impl Checker<'_> {
    /// What a call gives, compared with what the called workflow takes.
    pub(super) fn call(&mut self, reader: Reader, call: &Call, reads: &mut Vec<Read>) {
        let callee = self.called.get(&call.path.value).and_then(|callee| callee.workflow.as_deref());
        for given in &call.with {
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
                            format!("`{}` is {kind} in `{}`, and this is {got}", given.name, call.path.value);
                        self.problem(Check::WrongType.at(given.value.origin.span, message));
                    }
                    continue;
                }
                (Some(kind), None) => Readable::Given(&given.value, kind),
                (None, _) => Readable::Value(&given.value),
            };
            self.field(reader, field, reads);
        }
        for input in callee.map_or(&[][..], |callee| &callee.inputs) {
            let missing = input.required && input.default.is_none();
            if missing && !call.with.iter().any(|given| given.name == input.name) {
                let about = input.description.as_ref().map_or(String::new(), |about| format!(" ({about})"));
                let message = format!("`{}` needs `{}`{about}", call.path.value, input.name);
                let problem = Check::MissingInput.at(call.path.origin.span, message);
                self.problem(problem.hint(format!("give it: `with: {{{}: ...}}`", input.name)));
            }
        }
    }

    fn unknown_input(&mut self, callee: &Workflow, call: &Call, given: &Given) {
        let names: Vec<&str> = callee.inputs.iter().map(|input| input.name.as_str()).collect();
        let message = format!("`{}` has no input `{}`", call.path.value, given.name);
        let problem = Check::UnknownInput.at(given.span, message);
        let problem = match nearest(&given.name, names.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`")),
            None if names.is_empty() => problem.note("it has no inputs"),
            None => problem.note(format!("inputs: {}", names.join(", "))),
        };
        self.problem(problem);
    }

    /// Whether a field of a called workflow's value is read that it does not export, which is reported.
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
                // The language knows what else an output has.
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
        let problem = match nearest(field, names.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`")),
            None if names.is_empty() => problem.hint(format!("write there: `exports: {{{field}: ...}}`")),
            None => problem.note(format!("exports: {}", names.join(", "))),
        };
        self.problem(problem);
        true
    }
}
