//! Paths into the actual document: `facts.balance`, `plan[0].params.amount`, `value["any key"]`.

use ecow::EcoString;
use threadline_lang::{PathStep, parse_path};

/// A path into the actual document, parsed once.
#[derive(Debug, Clone)]
pub(crate) struct ActualPath {
    steps: Vec<PathStep>,
}

impl ActualPath {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { steps: parse_path(text)? })
    }

    /// A path along these keys.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self { steps: names.iter().map(|name| PathStep::key(*name)).collect() }
    }

    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// The name of its first step.
    pub(crate) fn root(&self) -> Option<&str> {
        self.steps.first()?.name().map(EcoString::as_str)
    }

    /// The name of its second step.
    pub(crate) fn second(&self) -> Option<&EcoString> {
        self.steps.get(1)?.name()
    }
}
