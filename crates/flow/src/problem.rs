//! What is wrong with a file, as data: the loader, the checks and the shell analysis all report this.
//!
//! Nothing here prints, and nothing here reads a file.

use threadline_lang::Origin;
use threadline_lang::data::ReadError;

use crate::checks::Check;
use crate::shell;

/// A problem of a workflow file; its span is one of the file's text.
pub use threadline_lang::diag::Diagnostic as Problem;
pub use threadline_lang::source::{in_order, of_language, place_in};

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
