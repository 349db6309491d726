//! Problems of workflow files as data. The loader, the checks and the shell analysis all report this type.

use threadline_lang::Origin;
use threadline_lang::data::ReadError;
use threadline_lang::diag::{Fix, Span};

use crate::checks::Check;
use crate::shell::ShellProblem;

/// A problem of a workflow file. Its span is a range of the text of the file.
pub use threadline_lang::diag::Diagnostic as Problem;
pub use threadline_lang::source::{PlaceFinder, fix_in, in_order, of_language, place_in};

/// The problem for an error of the YAML or JSON reader.
pub fn of_reading(error: &ReadError) -> Problem {
    let mut problem = Check::Unreadable.at(error.span, error.to_string());
    problem.hints.extend(error.advice());
    problem.fix = error.fix.as_deref().cloned();
    problem
}

/// The problem of the file for a problem of a shell text in it.
pub fn of_shell(problem: &ShellProblem, origin: &Origin, text: &str) -> Problem {
    let diagnostic = problem.diagnostic();
    let fix = diagnostic.fix.clone().and_then(|fix| fix_in(origin, fix, text));
    Problem { span: place_in(origin, problem.span, text), fix, ..diagnostic }
}

/// Several changes as one: what stands between them stays as it is. None if they overlap.
pub fn joined(text: &str, mut edits: Vec<Fix>) -> Option<Fix> {
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let (first, last) = (edits.first()?.span.start, edits.iter().map(|edit| edit.span.end).max()?);
    let mut out = String::new();
    let mut from = first as usize;
    for edit in &edits {
        let range = edit.span.range();
        out.push_str(text.get(from..range.start)?);
        out.push_str(&edit.text);
        from = range.end;
    }
    Some(Fix { span: Span { start: first, end: last }, text: out })
}
