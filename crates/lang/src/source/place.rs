//! Where a problem stands: from a scalar's own text back to the bytes of the file.

use crate::data::Style;
use crate::data::locate::ScalarPlaces;
use crate::diag::error::{Error, Origin};
use crate::diag::{Diagnostic, Fix, Span};

/// An error of the language in a scalar of the file.
pub fn of_language(error: &Error, origin: &Origin, text: &str) -> Diagnostic {
    // A container has no place of its own: its field has one.
    let origin = error.origin().filter(|origin| origin.span != Span::default()).unwrap_or(origin);
    let diagnostic = error.diagnostic();
    let fix = diagnostic.fix.clone().and_then(|fix| fix_in(origin, fix, text));
    Diagnostic { span: place_in(origin, error.span(), text), fix, ..diagnostic }
}

/// A change of a scalar's text as a change of the file, where what is put in can be written there as it is or with
/// escapes.
pub fn fix_in(origin: &Origin, fix: Fix, text: &str) -> Option<Fix> {
    let span = place_in(origin, fix.span, text);
    let put_in = match origin.style {
        Style::Json | Style::Double => {
            let quoted = crate::value::quoted(&fix.text);
            quoted[1..quoted.len() - 1].to_owned()
        }
        Style::Single => fix.text.replace('\'', "''"),
        Style::Plain if fix.text.contains(": ") || fix.text.contains(" #") => return None,
        Style::Plain | Style::Literal | Style::Folded => fix.text,
    };
    Some(Fix { span, text: put_in })
}

/// Problems in the order of the file, each once: what an alias repeats is wrong once.
pub fn in_order(mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    problems.dedup();
    problems
}

/// The bytes of a file that a span of a scalar's text stands for.
pub fn place_in(origin: &Origin, span: Span, text: &str) -> Span {
    PlaceFinder::default().place_in(origin, span, text)
}

/// Finds places of one file. It remembers the scalar that it walked last, so that thousands of references in
/// one text cost one walk.
#[derive(Default)]
pub struct PlaceFinder {
    walked: Option<(Span, Style, ScalarPlaces)>,
}

impl PlaceFinder {
    /// The bytes of the file that a span of a scalar's text stands for.
    pub fn place_in(&mut self, origin: &Origin, span: Span, text: &str) -> Span {
        let is_walked = |(scalar, style, _): &(Span, Style, ScalarPlaces)| {
            *scalar == origin.span && *style == origin.style
        };
        let walked = self.walked.take().filter(is_walked);
        let (_, _, places) = self.walked.insert(walked.unwrap_or_else(|| {
            (origin.span, origin.style, ScalarPlaces::new(text, origin.span, origin.style))
        }));
        let (start, end) = (places.locate(span.start as usize), places.locate(span.end as usize));
        // The end of a text stands before its quote.
        let quoted = matches!(origin.style, Style::Json | Style::Single | Style::Double);
        let behind = quoted && end > start && end == origin.span.range().end;
        Span::new(start, end.max(start) - usize::from(behind))
    }
}
