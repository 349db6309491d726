//! The actual document that expectations are evaluated against.

use ecow::EcoString;
use threadline_lang::diag::words;
use threadline_lang::value::Oversized;
use threadline_lang::{Scope, Value};

use crate::table::ROOTS;

/// What a document is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// An answer of an agent: `{text, type, plan, tools, value, usage, latency, facts}`.
    Answer,
    /// What a step left: `{value, output, exit_code, meta}`.
    Step,
    /// Anything else: `{value}`.
    Plain,
}

impl DocumentKind {
    /// In a sentence.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Answer => "an answer",
            Self::Step => "what a step left",
            Self::Plain => "a plain document",
        }
    }

    /// The names at the root of such a document.
    pub fn roots(self) -> impl Iterator<Item = &'static str> {
        ROOTS.iter().filter(move |root| root.kinds.contains(&self)).map(|root| root.name)
    }

    fn has_all(self, value: &Value) -> bool {
        let object = value.as_object();
        object
            .is_some_and(|object| object.iter().all(|(key, _)| self.roots().any(|root| root == key.as_str())))
    }
}

/// A document to check, with its facts.
#[derive(Debug, Clone)]
pub struct Actual {
    kind: DocumentKind,
    document: Value,
}

impl Actual {
    /// A document of a known kind. One of [`DocumentKind::Plain`] becomes the `value`; the others are taken as they are.
    pub fn new(kind: DocumentKind, document: Value) -> Result<Self, Oversized> {
        let document = match kind {
            DocumentKind::Answer | DocumentKind::Step => document,
            DocumentKind::Plain => Value::object([("value".into(), document)])?,
        };
        Ok(Self { kind, document })
    }

    /// A document whose kind follows from its keys: an answer has a `text` or a `plan`, a step a `value`, and neither
    /// has a key of its own beside those of its kind.
    pub fn detect(document: Value) -> Result<Self, Oversized> {
        let has = |name: &str| document.get(name).is_some();
        let kind = if DocumentKind::Answer.has_all(&document) && (has("text") || has("plan")) {
            DocumentKind::Answer
        } else if DocumentKind::Step.has_all(&document) && has("value") {
            DocumentKind::Step
        } else {
            DocumentKind::Plain
        };
        Self::new(kind, document)
    }

    /// The answer of whoever was asked: a text, or an object with the names of an answer. Anything else is no answer;
    /// the error says why.
    pub fn answer(given: Value) -> Result<Self, String> {
        let too_large = |_| "the answer is nested too deep, or too large".to_owned();
        if given.as_str().is_some() {
            let document = Value::object([("text".into(), given)]).map_err(too_large)?;
            return Self::new(DocumentKind::Answer, document).map_err(too_large);
        }
        let Some(object) = given.as_object() else {
            return Err(format!("an answer is a text or an object, not {}", given.kind().with_article()));
        };
        let is_root = |name: &str| DocumentKind::Answer.roots().any(|root| root == name);
        if let Some((other, _)) = object.iter().find(|(key, _)| !is_root(key.as_str())) {
            let roots = words::names(DocumentKind::Answer.roots());
            return Err(format!("an answer has no `{}`: it has {roots}", other.as_str()));
        }
        Self::new(DocumentKind::Answer, given).map_err(too_large)
    }

    /// With the time that an answer took, if that is known and the answer does not say it.
    pub fn with_latency(self, latency: &Value) -> Result<Self, Oversized> {
        if latency.is_null() || self.document.get("latency").is_some() {
            return Ok(self);
        }
        let own = self.document.as_object().into_iter().flat_map(|object| object.iter());
        let own = own.map(|(key, value)| (key.name().clone(), value.clone()));
        let document = Value::object(own.chain([("latency".into(), latency.clone())]))?;
        Ok(Self { document, ..self })
    }

    /// With more facts. The name is of a fact that the document gives another value.
    pub fn with_facts(self, facts: &Value) -> Result<Self, FactsError> {
        let Some(more) = facts.as_object() else { return Err(FactsError::NotAnObject) };
        let own = self.document.get("facts").and_then(Value::as_object);
        let mut merged: Vec<(EcoString, Value)> = own
            .into_iter()
            .flat_map(|own| own.iter())
            .map(|(key, value)| (key.name().clone(), value.clone()))
            .collect();
        for (key, value) in more.iter() {
            match merged.iter().find(|(name, _)| name == key.name()) {
                Some((name, other)) if other != value => return Err(FactsError::Differs(name.clone())),
                Some(_) => {}
                None => merged.push((key.name().clone(), value.clone())),
            }
        }
        let facts = Value::object(merged).map_err(|_| FactsError::TooLarge)?;
        let entries = self.document.as_object().into_iter().flat_map(|object| object.iter());
        let entries = entries.filter(|(key, _)| key.as_str() != "facts");
        let entries =
            entries.map(|(key, value)| (key.name().clone(), value.clone())).chain([("facts".into(), facts)]);
        let document = Value::object(entries).map_err(|_| FactsError::TooLarge)?;
        Ok(Self { document, ..self })
    }

    /// What it is of.
    pub fn kind(&self) -> DocumentKind {
        self.kind
    }

    /// The whole document.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The names that references and expressions of expectations see, in front of those of a caller.
    pub fn scope(&self, outer: &Scope) -> Scope {
        match self.document.as_object() {
            Some(object) => outer.with_values("actual", object.clone()),
            None => outer.clone(),
        }
    }
}

/// Why facts cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactsError {
    /// Facts are names with values.
    NotAnObject,
    /// The document has this fact with another value.
    Differs(EcoString),
    /// Together they are too large or too deep.
    TooLarge,
}
