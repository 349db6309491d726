//! Reads `assert`: expectations about a value or an answer.

use std::sync::Arc;

use threadline_expect::{DocumentKind, LoadContext};

use super::read::{ObjectFields, WorkflowLoader, head};
use crate::checks::Check;
use crate::fields::ASSERT;
use crate::model::{Action, Assertion};

impl WorkflowLoader {
    pub(super) fn read_assertion(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let inner = self.read_fields(fields.get("assert")?, &ASSERT)?;
        let span = fields.found("assert").map_or(head(inner.place.node), |found| found.entry.key_span);
        let (kind, key) = match (inner.found("value"), inner.found("answer")) {
            (Some(_), None) => (DocumentKind::Plain, "value"),
            (None, Some(_)) => (DocumentKind::Answer, "answer"),
            (Some(value), Some(_)) => {
                let message = "`assert` checks either a `value` or an `answer`, not both";
                self.report(
                    Check::ConflictingKeys.at(value.entry.key_span, message).hint("remove one of them"),
                );
                return None;
            }
            (None, None) => {
                if !inner.misspelt("value") && !inner.misspelt("answer") {
                    let message = "`assert` needs the document that it checks";
                    let hint = "write `value: ${STEP}`, or `answer: ${STEP}` for the answer of an agent";
                    self.report(Check::MissingKey.at(span, message).hint(hint));
                }
                return None;
            }
        };
        let document = self.read_document_of(&inner, key);
        let facts = self.read_document_of(&inner, "facts");
        let latency = self.read_document_of(&inner, "latency");
        if let (DocumentKind::Plain, Some(found)) = (kind, inner.found("latency")) {
            let message = "`latency` does not apply to a `value`";
            self.report(
                Check::KeyNotHere.at(found.entry.key_span, message).hint("it is a part of an `answer`"),
            );
        }
        let rulings = self.read_document_of(&inner, "rulings");
        let quorum = self.read_fixed_count(&inner, "quorum").map(u64::from);
        let keeps_open = self.read_choice(&inner, "open") == Some("keep");
        let place = inner.get("expect")?;
        let context = LoadContext { kind: Some(kind), syntax: &self.syntax, ..LoadContext::DEFAULT };
        let (expectations, problems) =
            threadline_expect::load_part(place.node, &place.path, self.file.text(), &context);
        for problem in problems {
            self.report(problem);
        }
        let expect = place.field(Arc::new(expectations));
        let document = document?;
        let assertion = Assertion { kind, document, facts, latency, expect, rulings, quorum, keeps_open };
        Some(Action::Assert(Box::new(assertion)))
    }
}
