//! Types of references in commands before the run: values that can never be evaluated, or never be bound.

use threadline_lang::{Embedded, Inferred, Scope, Type};

use super::bind::refuse_container;
use super::{Argv, ShellProblem, ShellScript};

/// The type of a reference in a command, as far as it is known before the run.
pub struct InferredReference {
    /// The types, errors and warnings that the language infers.
    pub inferred: Inferred,
    /// Why its value can never be bound there.
    pub refused: Option<ShellProblem>,
}

impl InferredReference {
    fn infer(reference: &Embedded, scope: &Scope) -> Self {
        let inferred = reference.infer(scope);
        let kind = inferred.types().only().filter(|kind| matches!(kind, Type::List | Type::Object));
        let bare = kind.filter(|_| reference.binding().is_none());
        let refused = bare.map(|kind| refuse_container(reference, kind));
        Self { inferred, refused }
    }
}

impl ShellScript {
    /// Infers the type of every reference in a scope of promised names.
    pub fn infer(&self, scope: &Scope) -> Vec<InferredReference> {
        self.slots.iter().map(|slot| InferredReference::infer(&slot.reference, scope)).collect()
    }
}

impl Argv {
    /// Infers the type of every reference, with the index of its entry.
    pub fn infer(&self, scope: &Scope) -> Vec<(usize, InferredReference)> {
        self.each(|reference| vec![InferredReference::infer(reference, scope)])
    }
}
