//! Problems of workflow files as data. The loader, the checks and the shell analysis all report this type.

use threadline_lang::Origin;
use threadline_lang::data::ReadError;
use threadline_lang::diag::words;

use crate::checks::Check;
use crate::shell::ShellProblem;

/// A problem of a workflow file. Its span is a range of the text of the file.
pub use threadline_lang::diag::Diagnostic as Problem;
pub use threadline_lang::source::{PlaceFinder, in_order, of_language, place_in};

/// The problem for an error of the YAML or JSON reader.
pub fn of_reading(error: &ReadError) -> Problem {
    let mut problem = Check::Unreadable.at(error.span, error.to_string());
    problem.hints.extend(error.hint.map(str::to_owned));
    problem
}

/// The problem of the file for a problem of a shell text in it.
pub fn of_shell(problem: &ShellProblem, origin: &Origin, text: &str) -> Problem {
    Problem { span: place_in(origin, problem.span, text), ..problem.diagnostic() }
}

/// Completes the problem of an unknown name: a hint with the name that was probably meant, or a note that
/// lists all of them after a label.
pub(crate) fn suggest_or_list<'a, K>(problem: Problem, name: &str, known: K, label: &str) -> Problem
where
    K: IntoIterator<Item = &'a str> + Clone,
{
    match words::suggest(name, known.clone()) {
        Some(hint) => problem.hint(hint),
        None => problem.note(format!("{label}: {}", words::names(known))),
    }
}
