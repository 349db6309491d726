//! Types of references in commands before values are known: what can never be computed, and what can never be bound.

use threadline_lang::{Embedded, Inferred, Scope, Type};

use super::bind::container;
use super::{Argv, Problem, Script};

/// What is known of a reference in a command before its names have their values.
pub struct Typed {
    /// What the language says of it.
    pub inferred: Inferred,
    /// Why its value can never be bound where it stands.
    pub refused: Option<Problem>,
}

impl Typed {
    fn of(reference: &Embedded, scope: &Scope) -> Self {
        let inferred = reference.infer(scope);
        let kind = inferred.types.only().filter(|kind| matches!(kind, Type::List | Type::Object));
        let bare = kind.filter(|_| reference.binding().is_none());
        let refused = bare.map(|kind| container(reference, kind));
        Self { inferred, refused }
    }
}

impl Script {
    /// What is known of every reference before the names of a scope have their values.
    pub fn infer(&self, scope: &Scope) -> Vec<Typed> {
        self.slots.iter().map(|slot| Typed::of(&slot.reference, scope)).collect()
    }
}

impl Argv {
    /// What is known of every reference, with the index of its entry.
    pub fn infer(&self, scope: &Scope) -> Vec<(usize, Typed)> {
        self.each(|reference| vec![Typed::of(reference, scope)])
    }
}
