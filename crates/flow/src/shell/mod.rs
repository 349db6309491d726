//! Shell text: finds the references in a command, and binds each of them to a shell variable.
//!
//! A command is read before the run, in the dialect of the shell that will run it. Each reference becomes a
//! shell variable that is one word; the value itself never appears in the text. Where the shell or a program
//! would evaluate even the value of a variable again (a [`Hazard`]), the reference is refused, with a hint
//! that shows a safe spelling.
//!
//! ```
//! use threadline_flow::shell::{AnalysisContext, Dialect, analyse};
//! use threadline_lang::{Limits, NoWorld, Scope, Session, Syntax, data};
//!
//! let names = data::json::read_value(r#"{"item": "a b; rm -rf /"}"#, &Limits::DEFAULT)?;
//! let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let syntax = Syntax::DEFAULT;
//! let context = AnalysisContext::new(Dialect::Bash, &syntax, &|name| name == "item");
//!
//! let (script, problems) = analyse("printf '%s\n' ${item} \"$HOME\"", &context);
//! assert!(problems.is_empty());
//! let bound = script.bind(&scope, &mut Session::new(&mut NoWorld)).unwrap();
//! assert_eq!(bound.text, "printf '%s\n' \"${TL_1}\" \"$HOME\"");
//! assert_eq!(bound.variables[0].value, "a b; rm -rf /");
//! # Ok::<(), data::ReadError>(())
//! ```
//!
//! These stay with the shell: `$VAR`, `${VAR:-x}`, `$(...)`, `$1`, and every name that the script itself
//! sets. Text that the reader does not understand is refused, never guessed. Nothing here runs anything, and
//! a [`ShellScript`] holds no values.

mod argv;
mod bind;
mod carriers;
mod commands;
mod compound;
mod counted;
mod embedded;
mod follow;
mod hazards;
mod names;
mod options;
mod reader;
mod redirections;
mod tree;
mod typed;
mod words;
mod wrappers;

use ecow::EcoString;
use threadline_lang::diag::{Diagnostic, Fix, Severity, Span};
use threadline_lang::{Binding, Embedded, Error, Reference, Scope, Syntax};

pub use argv::{Argument, Argv};
pub use bind::{
    BindError, BoundScript, BoundVariable, Delivery, ENVIRONMENT_LIMIT, STRING_LIMIT, ScriptPiece,
    ScriptPreview, quoted,
};
pub use carriers::{CARRIERS, Carrier};
pub use hazards::{
    ArgSelector, CODE_VARIABLES, HAZARDS, Hazard, HazardRule, OPTION_PROGRAMS, is_code_variable,
};
pub use typed::InferredReference;

use reader::{Edit, ReferenceSlot};

/// The shell language that a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The shell GNU Bash.
    Bash,
    /// POSIX `sh` without the extensions of bash: dash and `BusyBox`.
    Posix,
    /// The program `sh`, which is dash on some systems and bash on others. A text must be safe in both.
    Sh,
    /// The shell called Z shell.
    Zsh,
}

impl Dialect {
    /// The dialect of a shell, by the file name of its program.
    pub fn of_program(name: &str) -> Option<Self> {
        match name.rsplit('/').next().unwrap_or(name) {
            "bash" => Some(Self::Bash),
            "sh" => Some(Self::Sh),
            "dash" | "ash" | "busybox" => Some(Self::Posix),
            "zsh" => Some(Self::Zsh),
            _ => None,
        }
    }
}

/// What the analysis knows besides the text.
#[derive(Clone, Copy)]
pub struct AnalysisContext<'a> {
    /// The shell that will run the text.
    pub dialect: Dialect,
    /// The limits and the declared kinds of the language.
    pub syntax: &'a Syntax,
    /// Whether a name is a root in this scope.
    pub roots: &'a dyn Fn(&str) -> bool,
    /// The roots of which only fields are read, so that a variable of the script may have the same name.
    pub tables: &'a [&'static str],
    /// Lists all names in scope, for suggestions. It is called only if there is a problem.
    pub known: &'a dyn Fn() -> Vec<EcoString>,
    /// The variables that `env:` sets for this step; they belong to the shell.
    pub environment: &'a [EnvironmentName],
    /// The files that earlier steps write with values in them.
    pub files: &'a [EcoString],
    /// Whether a reference can only be a number or a truth value, which is never code.
    pub is_plain: &'a dyn Fn(&Embedded) -> bool,
    /// What to do where the analysis cannot tell.
    pub unknown: UnknownPolicy,
    /// Whether nothing in the text is a reference; only `env:` brings values.
    pub is_verbatim: bool,
    /// Looks up the text of `context.NAME` by `NAME`, and of `param.NAME` by `param.NAME`, if it is a literal
    /// of the file. Such a text may be code at the start of a command.
    pub literal: &'a dyn Fn(&str) -> Option<EcoString>,
}

impl<'a> AnalysisContext<'a> {
    /// A context in which `env:` sets nothing and no entry of `context` is a literal.
    pub fn new(dialect: Dialect, syntax: &'a Syntax, roots: &'a dyn Fn(&str) -> bool) -> Self {
        Self {
            dialect,
            syntax,
            roots,
            tables: &[],
            known: &Vec::new,
            environment: &[],
            files: &[],
            is_plain: &|_| false,
            unknown: UnknownPolicy::Refuse,
            is_verbatim: false,
            literal: &|_| None,
        }
    }
}

/// A variable that `env:` sets for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentName {
    /// The name of the variable.
    pub name: EcoString,
    /// Whether its text has references, so that it can hold a value from data.
    pub holds_value: bool,
    /// The secret that its text reads, if it reads one.
    pub secret: Option<EcoString>,
}

/// What to do where the analysis cannot tell what happens to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownPolicy {
    /// Refuse the text.
    #[default]
    Refuse,
    /// Accept the text with a warning.
    Warn,
    /// Say nothing: the author has said why the text is safe.
    Trust,
}

/// A problem of a shell text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellProblem {
    /// Stable name for this sort of problem.
    pub id: &'static str,
    /// An error refuses the text; a warning does not.
    pub severity: Severity,
    /// Span in the text.
    pub span: Span,
    /// The problem in one line.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// The change that does so.
    pub fix: Option<Box<Fix>>,
}

impl ShellProblem {
    /// An error of the language in a shell text.
    fn from_error(error: &Error) -> Self {
        let Diagnostic { id, span, message, hints, fix, .. } = error.diagnostic();
        Self {
            id,
            severity: Severity::Error,
            span,
            message,
            hint: hints.into_iter().next(),
            fix: fix.map(Box::new),
        }
    }

    /// The diagnostic for people.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic {
            id: self.id,
            severity: self.severity,
            message: self.message.clone(),
            span: self.span,
            notes: Vec::new(),
            hints: self.hint.iter().cloned().collect(),
            fix: self.fix.as_deref().cloned(),
            file: None,
        }
    }
}

/// An analysed shell text: its references, and how each of them is bound. It holds no values.
pub struct ShellScript {
    /// The text, including code that was pasted from `context`.
    text: EcoString,
    edits: Vec<Edit>,
    slots: Vec<ReferenceSlot>,
    refused: Vec<ShellProblem>,
    code: Vec<EcoString>,
    dialect: Dialect,
    environment: Vec<(EcoString, Vec<&'static Hazard>)>,
    written: Vec<EcoString>,
}

/// Maximum number of problems that are reported for one text.
const MAX_PROBLEMS: usize = 1_000;

/// Analyses a shell text. All problems are reported; a script with an error cannot be bound.
pub fn analyse(text: &str, context: &AnalysisContext<'_>) -> (ShellScript, Vec<ShellProblem>) {
    if context.dialect != Dialect::Sh {
        return analyse_dialect(text, context);
    }
    // A text for `sh` is read as the strict one, and must also be safe where `sh` is bash.
    let (mut script, mut problems) =
        analyse_dialect(text, &AnalysisContext { dialect: Dialect::Posix, ..*context });
    let (as_bash, more) = analyse_dialect(text, &AnalysisContext { dialect: Dialect::Bash, ..*context });
    for (slot, other) in script.slots.iter_mut().zip(&as_bash.slots) {
        for hazard in &other.hazards {
            if !slot.hazards.iter().any(|known| known.is(hazard)) {
                slot.hazards.push(hazard);
            }
        }
        slot.begins_word |= other.begins_word;
        slot.is_split |= other.is_split;
    }
    // Where bash finds other references, it reads the text in another way, and all of its errors count.
    let same = script.slots.len() == as_bash.slots.len();
    let serious = more.into_iter().filter(|problem| {
        let counts = matches!(problem.id, "shell-evaluates" | "shell-not-known")
            || !same && problem.severity == Severity::Error;
        counts && !problems.contains(problem)
    });
    let mut serious: Vec<_> = serious.collect();
    if !same && problems.iter().chain(&serious).all(|problem| problem.severity != Severity::Error) {
        serious.push(ShellProblem {
            id: "shell-unknown",
            severity: Severity::Error,
            span: Span::default(),
            message: "dash and bash read this text in different ways, and `sh` can be either".to_owned(),
            hint: Some("name the shell: `shell_program: bash`".to_owned()),
            fix: None,
        });
    }
    script.refused.extend(serious.iter().filter(|problem| problem.severity == Severity::Error).cloned());
    problems.extend(serious);
    for (name, hazards) in as_bash.environment {
        if !script.environment.iter().any(|(known, _)| *known == name) {
            script.environment.push((name, hazards));
        }
    }
    problems.sort_by_key(|problem| (problem.span, problem.severity != Severity::Error));
    (script, problems)
}

fn analyse_dialect(text: &str, context: &AnalysisContext<'_>) -> (ShellScript, Vec<ShellProblem>) {
    let mut read = reader::read(text, context);
    let mut problems = read.problems;
    let followed = follow::follow(read.tree, &read.places, &mut read.slots, context);
    problems.extend(followed.problems);
    for slot in &read.slots {
        problems.extend(slot.hazards.iter().filter_map(|hazard| slot.problem(hazard, context.dialect)));
    }
    problems.extend(refuse_overlap(&read.edits));
    problems.sort_by_key(|problem| (problem.span, problem.severity != Severity::Error));
    problems.dedup();
    problems.truncate(MAX_PROBLEMS);
    let refused = problems.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
    let script = ShellScript {
        text: read.text,
        edits: read.edits,
        slots: read.slots,
        refused,
        code: read.code,
        dialect: context.dialect,
        environment: followed.environment,
        written: followed.written,
    };
    (script, problems)
}

/// Refuses a text if two edits overlap. No such text is known; if there were one, nothing would be guessed.
fn refuse_overlap(edits: &[Edit]) -> Option<ShellProblem> {
    let pair = edits.windows(2).find(|pair| pair[0].range.end > pair[1].range.start)?;
    Some(ShellProblem {
        id: "shell-unknown",
        severity: Severity::Error,
        span: Span::new(pair[0].range.start, pair[0].range.end),
        message: "the meaning of this text is ambiguous".to_owned(),
        hint: Some("write it differently, or set `interpolate: false`".to_owned()),
        fix: None,
    })
}

/// Analyses the text of `cmd:`, in which every name with a lower-case letter is a reference.
pub fn analyse_command(text: &str, dialect: Dialect, syntax: &Syntax) -> (ShellScript, Vec<ShellProblem>) {
    let roots = |name: &str| name.bytes().any(|byte| byte.is_ascii_lowercase());
    analyse(text, &AnalysisContext::new(dialect, syntax, &roots))
}

/// Analyses the text of `cmd("text", arguments...)`, whose arguments are values in the positional parameters of
/// a shell.
pub fn analyse_command_call(
    text: &str,
    arguments: usize,
    unknown: UnknownPolicy,
) -> (Argv, Vec<ShellProblem>) {
    let syntax = Syntax::DEFAULT;
    let context = AnalysisContext { unknown, ..AnalysisContext::new(Dialect::Posix, &syntax, &|_| true) };
    let (argv, problems) = Argv::of_command_call(text, arguments, &context);
    (argv, problems.into_iter().map(|(_, problem)| problem).collect())
}

impl ShellScript {
    /// Every reference that binding reads, with its span in the text.
    pub fn references(&self) -> Vec<Reference> {
        self.slots.iter().flat_map(|slot| slot.reference.references()).collect()
    }

    /// What references read that name this way of binding.
    pub(crate) fn bound_as(&self, binding: Binding) -> impl Iterator<Item = Reference> {
        let slots = self.slots.iter().filter(move |slot| slot.reference.binding() == Some(binding));
        slots.flat_map(|slot| slot.reference.references())
    }

    /// Checks the names of every reference against a scope, as [`threadline_lang::Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        self.slots.iter().flat_map(|slot| slot.reference.check(scope)).collect()
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no references.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries of `context` that are pasted into the text as code.
    pub fn code(&self) -> &[EcoString] {
        &self.code
    }

    /// The files that the text writes with values in them, as far as their names are known.
    pub fn written(&self) -> &[EcoString] {
        &self.written
    }

    /// Checks the value of a variable of `env:` for the places that evaluate it.
    pub fn check_environment(&self, name: &str, value: &str) -> Option<ShellProblem> {
        let (_, hazards) = self.environment.iter().find(|(known, _)| known == name)?;
        hazards.iter().find_map(|hazard| bind::refuse_environment(name, value, hazard))
    }

    /// The shell that the text was analysed for.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl ShellScript {
    /// The changes of the text by which a program in it gets its values from the environment, where that means the same.
    pub(crate) fn values_from_environment(&self, text: &str, at: usize) -> Vec<Fix> {
        let slots: Vec<_> = self.slots.iter().map(|slot| slot.reference.span().range()).collect();
        embedded::values_from_environment(text, &slots, at)
    }

    /// The change of the text by which names of an arithmetic expression are checked to be numbers first.
    pub(crate) fn checked_numbers(&self, text: &str, expression: &std::ops::Range<usize>) -> Option<Fix> {
        let is_inside = |slot: &ReferenceSlot| {
            let slot = slot.reference.span().range();
            slot.start < expression.end && expression.start < slot.end
        };
        if self.slots.iter().any(is_inside) { None } else { counted::checked_first(text, expression) }
    }
}

impl std::fmt::Debug for ShellScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShellScript")
            .field("text", &self.text)
            .field("slots", &self.slots.len())
            .finish_non_exhaustive()
    }
}
