//! What is wrong with a file, as data: the loader, the checks and the shell analysis all report this.
//!
//! Nothing here prints, and nothing here reads a file.

use threadline_lang::data::{self, ReadError, Style};
use threadline_lang::diag::{Severity, Span};
use threadline_lang::{Error, Origin};

use crate::checks::Check;
use crate::shell;

/// A problem of a workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name for this sort of problem, such as `unknown-key`.
    pub id: &'static str,
    /// Whether the workflow can run in spite of it.
    pub severity: Severity,
    /// What, in one line.
    pub message: String,
    /// Where, in the text of the file.
    pub span: Span,
    /// Other places and names that matter.
    pub notes: Vec<String>,
    /// What to do.
    pub hints: Vec<String>,
}

impl Problem {
    /// An error with nothing but a message.
    pub fn error(id: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self {
            id,
            severity: Severity::Error,
            message: message.into(),
            span,
            notes: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A warning with nothing but a message.
    pub fn warning(id: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(id, span, message) }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With something else to know.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// An error of the language in a scalar of the file.
    pub fn of_language(error: &Error, origin: &Origin, text: &str) -> Self {
        let diagnostic = error.diagnostic();
        let origin = error.origin().unwrap_or(origin);
        Self {
            id: diagnostic.id,
            severity: diagnostic.severity,
            message: diagnostic.message,
            span: place_in(origin, error.span(), text),
            notes: diagnostic.notes,
            hints: diagnostic.hints,
        }
    }

    /// An error of a reader of YAML or JSON.
    pub fn of_reading(error: &ReadError) -> Self {
        let mut problem = Check::Unreadable.at(error.span, error.to_string());
        problem.hints.extend(error.hint.map(str::to_owned));
        problem
    }

    /// A problem of a shell text that is a scalar of the file.
    pub fn of_shell(problem: &shell::Problem, origin: &Origin, text: &str) -> Self {
        Self {
            id: problem.id,
            severity: problem.severity,
            message: problem.message.clone(),
            span: place_in(origin, problem.span, text),
            notes: Vec::new(),
            hints: problem.hint.iter().cloned().collect(),
        }
    }

    /// Whether nothing can run because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
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
