//! What is wrong with a file, as data: the loader, the checks and the shell analysis all report this.
//!
//! Nothing here prints, and nothing here reads a file.

use threadline_lang::data::{self, ReadError, Style};
use threadline_lang::diag::Span;
use threadline_lang::{Error, Origin};

use crate::checks::Check;
use crate::shell;

/// A problem of a workflow file; its span is one of the file's text.
pub use threadline_lang::diag::Diagnostic as Problem;

/// An error of the language in a scalar of the file.
pub fn of_language(error: &Error, origin: &Origin, text: &str) -> Problem {
    let origin = error.origin().unwrap_or(origin);
    Problem { span: place_in(origin, error.span(), text), ..error.diagnostic() }
}

/// An error of a reader of YAML or JSON.
pub fn of_reading(error: &ReadError) -> Problem {
    let mut problem = Check::Unreadable.at(error.span, error.to_string());
    problem.hints.extend(error.hint.map(str::to_owned));
    problem
}

/// A problem of a shell text that is a scalar of the file.
pub fn of_shell(problem: &shell::Problem, origin: &Origin, text: &str) -> Problem {
    Problem { span: place_in(origin, problem.span, text), ..problem.diagnostic() }
}

/// Problems in the order of the file, each once: what an alias repeats is wrong once.
pub fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
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
