//! One reference inside a text of another language, such as a shell command, whose reader found it.
//!
//! Only there may the last filter be a way of binding, for only there is a value bound into something.

use ecow::EcoString;

use crate::diag::Span;
use crate::diag::error::Error;
use crate::eval::{Inferred, ProgramEvaluator, Session, Val};
use crate::scope::Scope;
use crate::syntax::{self, NodeId, Program, Reference, Syntax};
use crate::value::Value;

/// How a value is bound, when the reference says so with its last filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `words`: each item of a list is a word of its own.
    Words,
    /// `as_file`: the path of a private file that holds the text.
    AsFile,
    /// `raw`: the text as it is, on the author's word.
    Raw,
}

impl Binding {
    pub(crate) fn of(filter: &str) -> Option<Self> {
        match filter {
            "words" => Some(Self::Words),
            "as_file" => Some(Self::AsFile),
            "raw" => Some(Self::Raw),
            _ => None,
        }
    }
}

/// A reference in a longer text. Its spans are positions in that text.
pub struct Embedded {
    program: Program,
    node: NodeId,
    span: Span,
    binding: Option<Binding>,
}

impl Embedded {
    /// Parses the reference whose `${` stands at `at`. Beside an error comes the position behind the brace that closes
    /// the reference, as well as it can be told.
    pub fn parse(source: &EcoString, at: usize, syntax: &Syntax) -> Result<Self, (Error, usize)> {
        let (program, parsed) = syntax::parse_embedded(source, at, syntax);
        let (node, end, binding) = parsed?;
        Ok(Self { program, node, span: Span::new(at, end), binding })
    }

    /// Where it stands, from `$` to behind `}`.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The reference as it is written.
    pub fn text(&self) -> &str {
        self.program.text(self.span)
    }

    /// The way of binding that its last filter names.
    pub fn binding(&self) -> Option<Binding> {
        self.binding
    }

    /// The value. What is missing is an error, whatever the session's policy for text is.
    pub fn value(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        session.begin();
        let mut evaluator = ProgramEvaluator::new(session, &self.program, scope);
        let found = evaluator.node(self.node);
        evaluator.trace_whole(self.span, found.as_deref());
        found.map(Val::into_owned)
    }

    /// Everything that evaluation can read.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        self.program.references(self.node, &mut references);
        references
    }

    /// Checks the names against a scope, as [`crate::Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        crate::eval::check(&self.program, self.node, scope)
    }

    /// What is known of its value before the names of a scope have theirs.
    pub fn infer(&self, scope: &Scope) -> Inferred {
        crate::eval::infer(&self.program, self.node, scope, None)
    }
}

/// A part of a text with references.
#[derive(Debug)]
pub enum TextPiece {
    /// Text, its escapes undone.
    Text(EcoString),
    /// A reference between the braces of `${...}`.
    Reference(Embedded),
}

/// Takes a text with references apart, for a field in which a reference may name a way of binding. Every problem is
/// reported.
pub fn pieces(source: &EcoString, syntax: &Syntax) -> Result<Vec<TextPiece>, Vec<Error>> {
    let (mut pieces, mut errors) = (Vec::new(), Vec::new());
    let (mut text, mut from) = (EcoString::new(), 0);
    while let Some(at) = syntax::next_reference(source, from) {
        let first = from + source[from..at].trim_end_matches('$').len();
        let dollars = at + 1 - first;
        text.push_str(&source[from..first + dollars / 2]);
        if dollars.is_multiple_of(2) {
            text.push('{');
            from = at + 2;
            continue;
        }
        if !text.is_empty() {
            pieces.push(TextPiece::Text(std::mem::take(&mut text)));
        }
        match Embedded::parse(source, at, syntax) {
            Ok(reference) => {
                from = reference.span.range().end;
                pieces.push(TextPiece::Reference(reference));
            }
            Err((error, end)) => {
                errors.push(error);
                from = end;
            }
        }
    }
    text.push_str(&source[from..]);
    if !text.is_empty() {
        pieces.push(TextPiece::Text(text));
    }
    if errors.is_empty() { Ok(pieces) } else { Err(errors) }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Embedded").field(&self.text()).finish()
    }
}
