//! Where a problem stands: from a scalar's own text back to the bytes of the file.

use crate::data::{self, Style};
use crate::diag::error::{Error, Origin};
use crate::diag::{Diagnostic, Span};

/// An error of the language in a scalar of the file.
pub fn of_language(error: &Error, origin: &Origin, text: &str) -> Diagnostic {
    let origin = error.origin().unwrap_or(origin);
    Diagnostic { span: place_in(origin, error.span(), text), ..error.diagnostic() }
}

/// Problems in the order of the file, each once: what an alias repeats is wrong once.
pub fn in_order(mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    problems.dedup();
    problems
}

/// The bytes of a file that a span of a scalar's text stands for.
pub fn place_in(origin: &Origin, span: Span, text: &str) -> Span {
    let at = |offset: u32| data::locate::locate(text, origin.span, origin.style, offset as usize);
    let (start, end) = (at(span.start), at(span.end));
    // The end of a text stands before its quote.
    let quoted = matches!(origin.style, Style::Json | Style::Single | Style::Double);
    let behind = quoted && end > start && end == origin.span.range().end;
    Span::new(start, end.max(start) - usize::from(behind))
}
