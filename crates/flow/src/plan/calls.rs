//! Checks calls of other workflows: the values they are passed fit their `inputs`, and the fields that are
//! read are among their `exports`.

use threadline_lang::diag::Span;
use threadline_lang::{Origin, Reference};

use super::Read;
use super::check::{Checker, Makers, Readable, Reader, end_of_output, field_after};
use crate::checks::Check;
use crate::model::{Action, Call, Given, Input, Workflow};

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
