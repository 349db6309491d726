//! The outcome of the run, read as `run.NAME` in the steps that run when it is known.

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::{Promise, PromisedShape, Scope, ScopeEntry, Type, Types, ValueShape};

use super::check::{Checker, Reader};
use super::names::object_of;
use super::{Part, Plan, RUN, StepNumber};
use crate::checks::Check;
use crate::fields::field_names as names;
use crate::fields::outputs::{FAILED_STEP_FIELDS, RUN_FIELDS};

impl Plan {
    /// The list of the workflow that a step stands in, at any depth, if it runs when the outcome is known.
    pub fn run_part_around(&self, step: StepNumber) -> Option<Part> {
        let mut list = self.steps[step as usize].list;
        while let Some((owner, _)) = self.lists[list as usize].parent {
            list = self.steps[owner as usize].list;
        }
        self.run_parts.iter().find(|(_, known)| *known == list).map(|(part, _)| *part)
    }
}

impl Checker<'_> {
    /// A scope with the outcome of the run, where that is known.
    pub(super) fn with_outcome(&self, reader: Reader, scope: Scope) -> Scope {
        let Some(part) = reader.step.and_then(|step| self.plan.run_part_around(step)) else { return scope };
        let fields = RUN_FIELDS.iter().map(|field| {
            let shape = match (field.name, part) {
                (names::FAILED, _) => ValueShape::list_of(object_of(FAILED_STEP_FIELDS.iter())),
                (names::ERROR | names::ERROR_TYPE, Part::OnFailure) => ValueShape::one(Type::Text),
                (names::ERROR | names::ERROR_TYPE, Part::OnSuccess) => ValueShape::of_types(Types::NULL),
                _ => ValueShape::of_types(field.types()),
            };
            let promise = Promise {
                why: "the outcome of the run is not known yet".into(),
                shape: PromisedShape::Value(shape.into()),
            };
            (EcoString::from(field.name), ScopeEntry::Promised(promise.into()))
        });
        let fields = Scope::new().with_entries(RUN, fields).unwrap_or_default();
        scope.with_entries("run", [(RUN.into(), ScopeEntry::Names(fields))]).unwrap_or(scope)
    }

    /// Reports a reference to the outcome where it is not known. Returns whether it did.
    pub(super) fn reads_outcome(&mut self, reader: Reader, span: Span) -> bool {
        if reader.step.is_some_and(|step| self.plan.run_part_around(step).is_some()) {
            return false;
        }
        let message = "`run` is the outcome of the run, which is not known before its steps have ended";
        let hint = "read it in `on_failure`, `on_success` or `finally` of the workflow; the id of the run is \
                    `workflow.id`";
        self.problem(Check::NotKnownHere.at(span, message).hint(hint));
        true
    }
}
