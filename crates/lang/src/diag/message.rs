//! The wording of every error, in one place, and diagnostics as data for renderers.

use std::fmt;

use ecow::EcoString;

use super::error::{Error, ErrorKind, ParseClass};
use super::{Span, nearest, words};
use crate::limits::Limit;
use crate::source::SourceFile;
use crate::syntax::push_key;
use crate::value::{JsonStyle, NumberError, Type, Value};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// There is no result.
    Error,
    /// There is a result, and something to change.
    Warning,
}

/// A problem as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable name for this sort of problem, such as `unknown-root`.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What, in one line.
    pub message: String,
    /// Where, in the text of the template or expression.
    pub span: Span,
    /// The values that were read, and the names there are.
    pub notes: Vec<String>,
    /// What to do.
    pub hints: Vec<String>,
    /// The change that does what the first hint says, where that is one replacement.
    pub fix: Option<Fix>,
    /// The file it stands in, where that is another than the one that was asked about.
    pub file: Option<SourceFile>,
}

/// A change of a text that puts a problem right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The bytes that are replaced; empty where something is inserted.
    pub span: Span,
    /// What stands there afterwards.
    pub text: String,
}

impl Fix {
    /// The replacement of a part of a text.
    pub fn new(span: Span, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }
}

impl Diagnostic {
    /// An error with nothing but a message.
    pub fn error(id: &'static str, span: Span, message: impl Into<String>) -> Self {
        let (severity, notes, hints) = (Severity::Error, Vec::new(), Vec::new());
        Self { id, severity, message: message.into(), span, notes, hints, fix: None, file: None }
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

    /// With the name that was probably meant in place of the one it stands at.
    #[must_use]
    pub fn did_you_mean(self, spelling: impl fmt::Display) -> Self {
        let fix = Fix::new(self.span, spelling.to_string());
        Self { fix: Some(fix), ..self.hint(words::did_you_mean(spelling)) }
    }

    /// With a hint, and with what is to stand in place of what it stands at.
    #[must_use]
    pub fn replace(self, hint: impl Into<String>, text: impl Into<String>) -> Self {
        let fix = Fix::new(self.span, text);
        Self { fix: Some(fix), ..self.hint(hint) }
    }

    /// With something else to know.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With a hint at the known name that was probably meant or, if none is close, with a note of all of them, such as
    /// `keys: a, b`.
    #[must_use]
    pub fn suggest<'a>(
        self,
        name: &str,
        what: &str,
        known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    ) -> Self {
        let known = known.into_iter();
        match nearest(name, known.clone()) {
            Some(near) => self.did_you_mean(near),
            None => self.note(format!("{what}: {}", words::names(known))),
        }
    }

    /// Whether there is no result because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// At most this many characters of a value are shown.
const PREVIEW_CHARS: usize = 60;

impl Error {
    /// The stable name of this sort of error.
    pub fn id(&self) -> &'static str {
        match self.kind() {
            ErrorKind::Parse { class, .. } => match class {
                ParseClass::Syntax => "syntax",
                ParseClass::Unclosed => "unclosed",
                ParseClass::InvalidPath => "invalid-path",
                ParseClass::UnknownFunction => "unknown-function",
                ParseClass::Arguments => "wrong-arguments",
                ParseClass::UnknownKind => "unknown-kind",
                ParseClass::ElementExpression => "element-expression",
                ParseClass::Limit(..) => "limit",
            },
            ErrorKind::UnknownRoot { .. } => "unknown-root",
            ErrorKind::NodeNotFound { .. } => "node-not-found",
            ErrorKind::FieldNotFound { .. } => "field-not-found",
            ErrorKind::IndexNotFound { .. } => "index-not-found",
            ErrorKind::StepIntoNull { .. } => "step-into-null",
            ErrorKind::EnvNotSet { .. } => "env-not-set",
            ErrorKind::Unset { .. } => "unset",
            ErrorKind::Nothing { .. } => "nothing",
            ErrorKind::StepIntoType { .. } | ErrorKind::Operands { .. } | ErrorKind::Expected { .. } => {
                "type"
            }
            ErrorKind::Argument { .. } => "bad-argument",
            ErrorKind::Number(_) => "arithmetic",
            ErrorKind::Element { cause, .. } | ErrorKind::MayBe { cause, .. } => cause.id(),
            ErrorKind::Limit { .. } => "limit",
            ErrorKind::Computed { .. } => "computed",
            ErrorKind::Cycle { .. } => "cycle",
        }
    }

    /// The error as people read it.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut notes: Vec<String> = self
            .reads()
            .iter()
            .map(|read| format!("{} is {}", read.reference, preview(&read.value)))
            .collect();
        notes.extend(self.names_note());
        Diagnostic {
            id: self.id(),
            severity: Severity::Error,
            message: self.to_string(),
            span: self.span(),
            notes,
            hints: self.hints(),
            fix: self.fix(),
            file: None,
        }
    }

    fn names_note(&self) -> Option<String> {
        match self.kind() {
            ErrorKind::UnknownRoot { available, .. } => Some(names("names in scope", available)),
            ErrorKind::NodeNotFound { available, .. } => Some(names("nodes", available)),
            ErrorKind::FieldNotFound { available, .. } => Some(names("fields there", available)),
            ErrorKind::Element { cause, .. } => cause.names_note(),
            _ => None,
        }
    }

    /// What to write in place of what stands at the span, or inside of it.
    fn fix(&self) -> Option<Fix> {
        let named = |name: &str, available: &[EcoString]| {
            let near = nearest(name, available.iter().map(EcoString::as_str))?;
            crate::syntax::is_plain_name(near).then(|| Fix::new(self.span(), near))
        };
        match self.kind() {
            ErrorKind::UnknownRoot { name, available, .. } => named(name, available),
            ErrorKind::FieldNotFound { field, available, hint: None, .. } => named(field, available),
            ErrorKind::EnvNotSet { nearest: Some(near), .. } => {
                Some(Fix::new(self.span(), format!("env.{near}")))
            }
            ErrorKind::Element { cause, .. } => cause.fix(),
            _ => self.written_fix().cloned(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        match self.kind() {
            ErrorKind::UnknownRoot { name, available, hint } => {
                hints.extend(did_you_mean(name, available));
                hints.extend(hint.clone());
            }
            ErrorKind::NodeNotFound { id, available } => hints.extend(did_you_mean(id, available)),
            ErrorKind::FieldNotFound { path, field, available, hint } => match hint {
                Some(hint) => hints.push(hint.clone()),
                None => hints.extend(nearest(field, available.iter().map(EcoString::as_str)).map(|near| {
                    let mut spelling = path.clone();
                    push_key(&mut spelling, near);
                    words::did_you_mean(spelling)
                })),
            },
            ErrorKind::EnvNotSet { name, nearest } => hints.push(match nearest {
                Some(near) => words::did_you_mean(format_args!("env.{near}")),
                None => format!("set {name}, or give a default: `${{env.{name}:-text}}`"),
            }),
            ErrorKind::Parse { hint, .. }
            | ErrorKind::StepIntoType { hint, .. }
            | ErrorKind::Operands { hint, .. }
            | ErrorKind::Expected { hint, .. }
            | ErrorKind::Argument { hint, .. }
            | ErrorKind::Computed { hint, .. } => hints.extend(hint.clone()),
            ErrorKind::StepIntoNull { path, step } => {
                hints.push(format!("for a value that may be null give a default: `${{{path}{step}:-text}}`"));
            }
            ErrorKind::Element { cause, .. } => match cause.kind() {
                ErrorKind::StepIntoNull { path, step } => {
                    let path = path.strip_prefix("it.").unwrap_or(path);
                    hints.push(format!(
                        "for a value that may be null give a default: `default({path}{step}, 0)`"
                    ));
                }
                _ => hints.extend(cause.hints()),
            },
            ErrorKind::MayBe { path, kind: Type::Null, .. } => {
                hints.push(format!("give a default for null: `default({path}, 0)`"));
            }
            ErrorKind::MayBe { .. } => hints.push("give a default of the type that is needed".to_owned()),
            ErrorKind::Limit { limit: Limit::Elements, .. } => hints.push(
                "aggregate them with `where`, `count`, `sum` or the like, or take a slice: `[0:100]`"
                    .to_owned(),
            ),
            _ => {}
        }
        hints
    }
}

fn did_you_mean(name: &str, available: &[EcoString]) -> Option<String> {
    words::suggest(name, available.iter().map(EcoString::as_str))
}

fn names(what: &str, available: &[EcoString]) -> String {
    if available.is_empty() {
        return format!("{what}: none");
    }
    format!("{what}: {}", words::names(available.iter().map(|name| shown_name(name))))
}

/// A name as it would be written; odd ones in quotes.
fn shown_name(name: &str) -> String {
    if crate::syntax::is_plain_name(name) { name.to_owned() } else { crate::value::quoted(name) }
}

/// A value on one line, cut short: its JSON, with the type where JSON does not show it.
pub fn preview(value: &Value) -> String {
    let shown = excerpt(value);
    match value {
        value if value.as_list().is_some() => {
            let count = value.as_list().map_or(0, <[Value]>::len);
            format!("{shown} (list of {count})")
        }
        value if value.is_null() || value.as_object().is_some() => shown,
        value => format!("{shown} ({})", value.kind()),
    }
}

/// A value's JSON on one line, cut short.
pub fn excerpt(value: &Value) -> String {
    let mut full = String::new();
    write_bounded(value, &mut full);
    words::shorten(&full, PREVIEW_CHARS).into_owned()
}

/// JSON that ends soon after a preview is full: a preview of a million records must not print a million records, and a
/// value may hold one part many times over.
fn write_bounded(value: &Value, out: &mut String) {
    let full = |out: &str| out.len() > 4 * PREVIEW_CHARS;
    match (value.as_list(), value.as_object(), value.as_str()) {
        (Some(items), ..) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if full(out) {
                    break;
                }
                out.push_str(if at > 0 { "," } else { "" });
                write_bounded(item, out);
            }
            out.push(']');
        }
        (_, Some(object), _) => {
            out.push('{');
            for (at, (key, value)) in object.iter().enumerate() {
                if full(out) {
                    break;
                }
                out.push_str(if at > 0 { "," } else { "" });
                write_short(key.as_str(), out);
                out.push(':');
                write_bounded(value, out);
            }
            out.push('}');
        }
        (.., Some(text)) => write_short(text, out),
        _ => value.write_json(out, JsonStyle::Compact),
    }
}

/// A text in quotes, no more of it than a preview shows.
fn write_short(text: &str, out: &mut String) {
    let end = text.char_indices().nth(PREVIEW_CHARS + 1).map_or(text.len(), |(at, _)| at);
    crate::value::quote(&text[..end], out);
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ErrorKind::Parse { message, .. } => f.write_str(message),
            ErrorKind::UnknownRoot { name, .. } => write!(f, "unknown name `{name}`"),
            ErrorKind::NodeNotFound { id, .. } => write!(f, "there is no output of a node `{id}`"),
            ErrorKind::FieldNotFound { path, field, .. } => {
                write!(f, "`{path}` has no field {}", field_name(field))
            }
            ErrorKind::IndexNotFound { path, index, len } => {
                write!(f, "`{path}` has no element {index}: it has {len}")
            }
            ErrorKind::StepIntoNull { path, step } => {
                write!(f, "`{path}` is null: there is no `{step}` in it")
            }
            ErrorKind::EnvNotSet { name, .. } => write!(f, "the environment variable `{name}` is not set"),
            ErrorKind::Unset { path, why } => write!(f, "`{path}` has no value: {why}"),
            ErrorKind::Nothing { function, why } => write!(f, "`{function}` has nothing to give: {why}"),
            ErrorKind::StepIntoType { path, step, types, .. } => {
                write!(f, "`{path}` is {}: it has no `{step}`", types.in_words())
            }
            ErrorKind::Operands { operator, left, right, .. } => operands(f, operator, *left, *right),
            ErrorKind::Expected { place, expected, got, .. } => {
                write!(f, "{place} takes {expected}, not {}", got.with_article())
            }
            ErrorKind::Argument { function, parameter, why, .. } => {
                write!(f, "`{function}`: {parameter}: {why}")
            }
            ErrorKind::Number(error) => f.write_str(match error {
                NumberError::DivisionByZero => "division by zero",
                NumberError::Exponent => "the exponent is neither whole nor a number of halves",
                NumberError::NegativeRoot => "a negative number has no square root",
                NumberError::Syntax => "this is not a number",
                NumberError::TooLarge => "the number has too many digits",
            }),
            ErrorKind::Element { function, index, cause } => match cause.kind() {
                ErrorKind::Expected { place, expected, got, .. } if place == "the expression" => {
                    let got = got.with_article();
                    write!(f, "`{function}`, element {index}: the expression gives {got}, not {expected}")
                }
                _ => write!(f, "`{function}`, element {index}: {cause}"),
            },
            ErrorKind::MayBe { path, kind, cause } => {
                write!(f, "{cause}, and `{path}` may be {}", kind.with_article())
            }
            ErrorKind::Limit { limit, max } => f.write_str(&limit.passed(*max)),
            ErrorKind::Computed { kind, message, .. } => write!(f, "`{kind}`: {message}"),
            ErrorKind::Cycle { chain } => {
                f.write_str("definitions that need each other: ")?;
                for (at, name) in chain.iter().enumerate() {
                    write!(f, "{}{name}", if at > 0 { " → " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

fn operands(f: &mut fmt::Formatter<'_>, operator: &str, left: Type, right: Type) -> fmt::Result {
    match operator {
        "<" | "<=" | ">" | ">=" => {
            write!(f, "`{operator}` does not compare {} with {}", left.with_article(), right.with_article())
        }
        "in" | "not in" => {
            write!(f, "`{operator}` does not look for {} in {}", left.with_article(), right.with_article())
        }
        _ => write!(f, "`{operator}` does not take {} and {}", left.with_article(), right.with_article()),
    }
}

fn field_name(field: &str) -> String {
    if crate::syntax::is_plain_name(field) { format!("`{field}`") } else { crate::value::quoted(field) }
}
