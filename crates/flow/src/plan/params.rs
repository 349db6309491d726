//! The parameters of a state, read as `param.NAME`.

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::{Promise, PromisedShape, Scope, ScopeEntry};

use super::check::{Checker, Reader};
use crate::checks::Check;
use crate::model::{Moment, State};

impl Checker<'_> {
    /// The state whose values a field can read. They are evaluated when the state begins, and cannot read each other.
    fn state_of(&self, reader: Reader) -> Option<&State> {
        let step = reader.step.filter(|_| reader.moment != Moment::Params)?;
        self.plan.steps[step as usize].step.state.as_deref().filter(|state| !state.params.is_empty())
    }

    /// A scope with the parameters of a state.
    pub(super) fn with_params(&self, reader: Reader, scope: Scope) -> Scope {
        let Some(state) = self.state_of(reader) else { return scope };
        let names = state.params.iter().map(|(name, value)| {
            let promised = || {
                let (why, shape) = ("the state has not started".into(), value.value.infer(&scope).shape);
                ScopeEntry::Promised(Promise { why, shape: PromisedShape::Value(shape.into()) }.into())
            };
            let entry =
                value.value.as_fixed().map_or_else(promised, |value| ScopeEntry::Plain(value.clone()));
            (name.clone(), entry)
        });
        let names = Scope::new().with_entries("param", names).unwrap_or_default();
        let entries = [(EcoString::from("param"), ScopeEntry::Names(names))];
        scope.with_entries("state", entries).unwrap_or(scope)
    }

    /// Reports a reference to a parameter in a state that has none. Returns whether it did.
    pub(super) fn reads_param(&mut self, reader: Reader, span: Span) -> bool {
        if self.state_of(reader).is_some() {
            return false;
        }
        let problem = if reader.moment == Moment::Params {
            let message = "the entries of `param` cannot read each other";
            Check::NotKnownHere.at(span, message).hint("write out the value, or define it in `context`")
        } else {
            let message = "`param` is only available in a state that uses a fragment with parameters";
            Check::NotKnownHere.at(span, message).hint("write `param: {NAME: value}` in this state")
        };
        self.problem(problem);
        true
    }

    /// The text of a literal parameter, which may be code at the start of a command.
    pub(super) fn literal_param(&self, reader: Reader, name: &str) -> Option<EcoString> {
        let (_, value) = self.state_of(reader)?.params.iter().find(|(known, _)| known == name)?;
        value.value.as_fixed().and_then(|value| value.as_str()).map(EcoString::from)
    }
}
