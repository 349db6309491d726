//! Shell text: which references stand in a command, in which quoting, and how each is bound.
//!
//! A command is read in the dialect of the shell that will run it, before the run. Each reference becomes a variable
//! of the shell that is one word in its place; the value itself never stands in the text. Where the shell or a program
//! would evaluate even a variable's value again, the reference is refused, with the safe spelling.
//!
//! ```
//! use threadline_flow::shell::{Dialect, Setting, analyse};
//! use threadline_lang::{Limits, NoWorld, Scope, Session, Syntax, data};
//!
//! let names = data::json::read_value(r#"{"item": "a b; rm -rf /"}"#, &Limits::DEFAULT)?;
//! let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let syntax = Syntax::DEFAULT;
//! let setting = Setting::new(Dialect::Bash, &syntax, &|name| name == "item");
//!
//! let (script, problems) = analyse("printf '%s\n' ${item} \"$HOME\"", &setting);
//! assert!(problems.is_empty());
//! let bound = script.bind(&scope, &mut Session::new(&mut NoWorld)).unwrap();
//! assert_eq!(bound.text, "printf '%s\n' \"${TL_1}\" \"$HOME\"");
//! assert_eq!(bound.variables[0].value, "a b; rm -rf /");
//! # Ok::<(), data::ReadError>(())
//! ```
//!
//! What stays the shell's: `$VAR`, `${VAR:-x}`, `$(...)`, `$1`, every name that the script itself sets. What the reader
//! does not know is refused, never guessed. Nothing here runs anything, and no value is kept in a [`Script`].

mod argv;
mod bind;
mod commands;
mod inspect;
mod names;
mod places;
mod reader;
mod typed;
mod words;

use ecow::EcoString;
use threadline_lang::diag::{Diagnostic, Severity, Span};
use threadline_lang::{Error, Reference, Scope, Syntax};

pub use argv::{Argument, Argv};
pub use bind::{
    BindError, Bound, ENVIRONMENT_LIMIT, Foreseen, STRING_LIMIT, ScriptPiece, Travel, Variable, quoted,
};
pub use places::{CODE_VARIABLES, EVALUATES_AGAIN, OPTION_PROGRAMS, Place, Rule, Which, is_code_variable};
pub use typed::Typed;

use reader::{Edit, Slot};

/// Which shell reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// GNU bash.
    Bash,
    /// dash, the `sh` of busybox, and every other `sh`.
    Posix,
    /// zsh.
    Zsh,
}

impl Dialect {
    /// The dialect of a program, by the last part of its path.
    pub fn of_program(name: &str) -> Option<Self> {
        match name.rsplit('/').next().unwrap_or(name) {
            "bash" => Some(Self::Bash),
            "sh" | "dash" | "ash" | "busybox" => Some(Self::Posix),
            "zsh" => Some(Self::Zsh),
            _ => None,
        }
    }
}

/// What the analysis may know beside the text.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The shell that will read the text.
    pub dialect: Dialect,
    /// The limits and declared kinds of the language.
    pub syntax: &'a Syntax,
    /// Whether a name is a root in scope here.
    pub roots: &'a dyn Fn(&str) -> bool,
    /// The roots of which only fields are read: a variable of the script may have the same name.
    pub tables: &'a [&'static str],
    /// All roots, for the nearest name.
    pub known: &'a [EcoString],
    /// The names that `env:` sets for this step: they are the shell's.
    pub environment: &'a [EcoString],
    /// The text of `context.NAME`, asked for as `NAME`, or of `param.NAME`, asked for as that, when it is a literal of
    /// this file: it may stand as code where a command begins.
    pub literal: &'a dyn Fn(&str) -> Option<EcoString>,
}

impl<'a> Setting<'a> {
    /// A setting in which `env:` sets nothing and no context entry is a literal.
    pub fn new(dialect: Dialect, syntax: &'a Syntax, roots: &'a dyn Fn(&str) -> bool) -> Self {
        Self { dialect, syntax, roots, tables: &[], known: &[], environment: &[], literal: &|_| None }
    }
}

/// Something about a shell text that must or should be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name for this sort of problem.
    pub id: &'static str,
    /// An error refuses the text; a warning does not.
    pub severity: Severity,
    /// Where, in the text.
    pub span: Span,
    /// What, in one line.
    pub message: String,
    /// How to write it instead.
    pub hint: Option<String>,
}

impl Problem {
    /// The problem as people read it, beside those of the language.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic {
            id: self.id,
            severity: self.severity,
            message: self.message.clone(),
            span: self.span,
            notes: Vec::new(),
            hints: self.hint.iter().cloned().collect(),
            file: None,
        }
    }
}

/// A shell text, analysed: where its references stand and how each is bound. It holds no values.
pub struct Script {
    /// The text with the author's own code from `context` in it.
    text: EcoString,
    edits: Vec<Edit>,
    slots: Vec<Slot>,
    refused: Vec<Problem>,
    code: Vec<EcoString>,
    dialect: Dialect,
}

/// So many problems of one text are reported; the rest would not be read.
const MAX_PROBLEMS: usize = 1_000;

/// Analyses a shell text. Every problem is reported; where one is an error, the script cannot be bound.
pub fn analyse(text: &str, setting: &Setting<'_>) -> (Script, Vec<Problem>) {
    let read = reader::read(text, setting);
    let mut problems = read.problems;
    problems.extend(overlapping(&read.edits));
    problems.sort_by_key(|problem| (problem.span, problem.severity != Severity::Error));
    problems.dedup();
    problems.truncate(MAX_PROBLEMS);
    let refused = problems.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
    let script = Script {
        text: read.text,
        edits: read.edits,
        slots: read.slots,
        refused,
        code: read.code,
        dialect: setting.dialect,
    };
    (script, problems)
}

/// A place that was read in two ways. There is none that is known; if there were one, nothing would be guessed.
fn overlapping(edits: &[Edit]) -> Option<Problem> {
    let pair = edits.windows(2).find(|pair| pair[0].range.end > pair[1].range.start)?;
    Some(Problem {
        id: "shell-unknown",
        severity: Severity::Error,
        span: Span::new(pair[0].range.start, pair[0].range.end),
        message: "this cannot be read for sure".to_owned(),
        hint: Some("write it in another way, or say `interpolate: false`".to_owned()),
    })
}

/// Analyses the text of `cmd:` with references in it. There what is not upper-case is a reference.
pub fn command_script(text: &str, dialect: Dialect, syntax: &Syntax) -> (Script, Vec<Problem>) {
    let roots = |name: &str| name.bytes().any(|byte| byte.is_ascii_lowercase());
    analyse(text, &Setting::new(dialect, syntax, &roots))
}

impl Script {
    /// Everything that binding can read, with its place in the text.
    pub fn references(&self) -> Vec<Reference> {
        self.slots.iter().flat_map(|slot| slot.reference.references()).collect()
    }

    /// Checks the names of every reference against a scope, as [`threadline_lang::Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        self.slots.iter().flat_map(|slot| slot.reference.check(scope)).collect()
    }

    /// How many references are bound.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is nothing to bind.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The context entries that stand in the text as code. Whatever replaces one replaces code.
    pub fn code(&self) -> &[EcoString] {
        &self.code
    }

    /// The shell that the text was analysed for.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("text", &self.text)
            .field("slots", &self.slots.len())
            .finish_non_exhaustive()
    }
}
