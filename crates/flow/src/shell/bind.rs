//! Binding: the values of a script's references, checked for their places, and how they travel to the shell.

use threadline_lang::diag::{Diagnostic, Severity, Span};
use threadline_lang::{Binding, Embedded, Error, Scope, Session, Type, Value};

use super::places::{Place, Rule};
use super::reader::{Quote, Slot, What};
use super::{Problem, Script};

/// The bytes that one string of the environment, or one argument, can hold on Linux, without its final NUL.
pub const STRING_LIMIT: usize = 131_071;

/// The bytes that the values of one script may take together in the environment; what is beyond comes through files.
pub const ENVIRONMENT_LIMIT: usize = 512 << 10;

/// The words that one list may become.
const MAX_WORDS: usize = 10_000;

/// A script with its values, ready to be run and to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The text with a variable in the place of each reference, without the prelude that sets the variables.
    pub text: String,
    /// The variables, in the order of the text.
    pub variables: Vec<Variable>,
    /// What a value made worth saying.
    pub warnings: Vec<Problem>,
}

/// A variable of the shell that holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the text, `TL_1` and so on.
    pub name: String,
    /// The text form of the value.
    pub value: String,
    /// The reference, in the text of the script.
    pub span: Span,
    /// How the value comes to the shell.
    pub travel: Travel,
}

/// How a value comes to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Travel {
    /// In the environment of the shell, under a name that the prelude removes.
    Environment,
    /// In a private file that the prelude reads: it is too large for the environment.
    File,
    /// In a private file whose path is what the variable holds: `as_file`.
    Path,
}

/// A script as it will be bound, some of its values not known.
#[derive(Debug, Clone)]
pub struct Foreseen {
    /// The text, and a variable for each reference.
    pub bound: Bound,
    /// The variables that have no value yet, by their place among all, and why.
    pub unknown: Vec<(usize, BindError)>,
}

/// Why a script cannot be bound.
#[derive(Debug, Clone)]
pub enum BindError {
    /// A reference has no value.
    Evaluation(Error),
    /// A value cannot stand where the reference does, or the text was refused.
    Refused(Problem),
}

impl BindError {
    /// The error as people read it.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::Evaluation(error) => error.diagnostic(),
            Self::Refused(problem) => problem.diagnostic(),
        }
    }

    /// Where, in the text of the script.
    pub fn span(&self) -> Span {
        match self {
            Self::Evaluation(error) => error.span(),
            Self::Refused(problem) => problem.span,
        }
    }
}

impl Script {
    /// Evaluates every reference and puts a variable in its place. Nothing is bound when one value cannot be.
    pub fn bind(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Bound, Vec<BindError>> {
        self.bind_values(|_, reference| reference.value(scope, session))
    }

    /// The same with values that were evaluated elsewhere: `give` is asked for each reference, in the order of the
    /// text.
    pub fn bind_values(
        &self,
        mut give: impl FnMut(usize, &Embedded) -> Result<Value, Error>,
    ) -> Result<Bound, Vec<BindError>> {
        if !self.refused.is_empty() {
            return Err(self.refused.iter().cloned().map(BindError::Refused).collect());
        }
        let mut binder = Binder::default();
        let slots = self.slots.iter().enumerate();
        let written: Vec<String> =
            slots.map(|(at, slot)| binder.slot(slot, give(at, &slot.reference))).collect();
        if !binder.errors.is_empty() {
            return Err(binder.errors);
        }
        binder.share_environment();
        Ok(Bound { text: self.with(&written), variables: binder.variables, warnings: binder.warnings })
    }

    /// The script as it will be bound, as far as its values are known.
    pub fn foresee(&self, scope: &Scope, session: &mut Session<'_>) -> Foreseen {
        let mut binder = Binder::default();
        let mut unknown = Vec::new();
        let written: Vec<String> = self
            .slots
            .iter()
            .map(|slot| {
                let (variables, errors) = (binder.variables.len(), binder.errors.len());
                let text = binder.slot(slot, slot.reference.value(scope, session));
                let Some(error) = binder.errors.drain(errors..).next() else { return text };
                binder.variables.truncate(variables);
                unknown.push((variables, error));
                slot.quote.around(&binder.variable(slot.reference.span(), String::new(), Travel::Environment))
            })
            .collect();
        let bound =
            Bound { text: self.with(&written), variables: binder.variables, warnings: binder.warnings };
        Foreseen { bound, unknown }
    }

    /// The text with its edits carried out.
    fn with(&self, written: &[String]) -> String {
        let mut out = String::with_capacity(self.text.len() + 16 * written.len());
        let mut from = 0;
        for edit in &self.edits {
            out.push_str(&self.text[from..edit.range.start]);
            match &edit.what {
                What::Slot(slot) => out.push_str(&written[*slot]),
                What::Text(text) => out.push_str(text),
            }
            from = edit.range.end;
        }
        out.push_str(&self.text[from..]);
        out
    }
}

/// Values on their way into a script or a list of arguments.
#[derive(Default)]
pub(super) struct Binder {
    variables: Vec<Variable>,
    warnings: Vec<Problem>,
    pub errors: Vec<BindError>,
}

impl Binder {
    /// What stands in the text for a reference.
    fn slot(&mut self, slot: &Slot, value: Result<Value, Error>) -> String {
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                self.errors.push(BindError::Evaluation(error));
                return String::new();
            }
        };
        match slot.reference.binding() {
            Some(Binding::Words) => self.words(slot, &value),
            Some(Binding::Raw) => self.checked(&slot.reference, &value).unwrap_or_default(),
            Some(Binding::AsFile) => match self.checked(&slot.reference, &value) {
                Some(text) => slot.quote.around(&self.variable(slot.reference.span(), text, Travel::Path)),
                None => String::new(),
            },
            None => self.one(slot, &value),
        }
    }

    fn one(&mut self, slot: &Slot, value: &Value) -> String {
        if matches!(value.kind(), Type::List | Type::Object) {
            self.refuse(container(&slot.reference, value.kind()));
            return String::new();
        }
        let Some(text) = self.checked(&slot.reference, value) else { return String::new() };
        self.fit(slot, &text);
        slot.quote.around(&self.variable(slot.reference.span(), text, Travel::Environment))
    }

    fn words(&mut self, slot: &Slot, value: &Value) -> String {
        let words: Vec<String> = self.items(slot, value).iter().map(|item| self.one(slot, item)).collect();
        words.join(" ")
    }

    /// The items of a list that becomes words.
    pub(super) fn items<'v>(&mut self, slot: &Slot, value: &'v Value) -> &'v [Value] {
        let Some(items) = value.as_list() else {
            let message = format!("`words` needs a list, not {}", value.kind().with_article());
            self.refuse(problem("shell-words", &slot.reference, message, "leave `words` out for one word"));
            return &[];
        };
        if items.len() > MAX_WORDS {
            let message =
                format!("a list of {} items is too long for words, at most {MAX_WORDS}", items.len());
            self.refuse(problem("shell-size", &slot.reference, message, TOO_LARGE));
            return &[];
        }
        items
    }

    /// The text form, when a shell can hold it.
    pub(super) fn checked(&mut self, reference: &Embedded, value: &Value) -> Option<String> {
        let mut text = String::new();
        value.write_text(&mut text);
        if !text.contains('\0') {
            return Some(text);
        }
        self.refuse(problem(
            "shell-nul",
            reference,
            "the value holds a NUL byte, which no variable and no argument can",
            "write it as base64: `| base64`",
        ));
        None
    }

    /// Checks a value against what its place takes.
    pub(super) fn fit(&mut self, slot: &Slot, text: &str) {
        for place in &slot.places {
            match place.rule {
                Rule::Int if !is_int(text) => {
                    let message = format!("a value here {}: only an int may stand here", place.what);
                    self.refuse(problem("shell-int", &slot.reference, message, place.safe));
                }
                Rule::Dash if slot.begins_word && text.starts_with('-') => {
                    self.refuse(dash(&slot.reference, place));
                }
                Rule::Warn if place.id == "echo" && slot.begins_word && is_echo_option(text) => {
                    let mut warning = problem(
                        "shell-altered",
                        &slot.reference,
                        "`echo` reads this value as an option",
                        place.safe,
                    );
                    warning.severity = Severity::Warning;
                    self.warnings.push(warning);
                }
                _ => {}
            }
        }
        if slot.external && text.len() > STRING_LIMIT {
            let message = format!(
                "the value has {} bytes, and an argument of a program at most {STRING_LIMIT}",
                text.len()
            );
            self.refuse(problem("shell-size", &slot.reference, message, TOO_LARGE));
        }
    }

    pub(super) fn refuse(&mut self, problem: Problem) {
        self.errors.push(BindError::Refused(problem));
    }

    /// Adds a variable; gives its name.
    fn variable(&mut self, span: Span, value: String, travel: Travel) -> String {
        let name = format!("TL_{}", self.variables.len() + 1);
        self.variables.push(Variable { name: name.clone(), value, span, travel });
        name
    }

    /// What the environment cannot hold comes through files.
    fn share_environment(&mut self) {
        let mut sum = 0;
        for variable in self.variables.iter_mut().filter(|variable| variable.travel == Travel::Environment) {
            let size = entry(&variable.name).len() + 1 + variable.value.len();
            if size > STRING_LIMIT || sum + size > ENVIRONMENT_LIMIT {
                variable.travel = Travel::File;
            } else {
                sum += size + 1;
            }
        }
    }
}

pub(super) const TOO_LARGE: &str = "write it to a file with `| as_file`, or put it on standard input";

pub(super) fn problem(
    id: &'static str,
    reference: &Embedded,
    message: impl Into<String>,
    hint: &str,
) -> Problem {
    Problem {
        id,
        severity: Severity::Error,
        span: reference.span(),
        message: message.into(),
        hint: Some(hint.to_owned()),
    }
}

pub(super) fn container(reference: &Embedded, kind: Type) -> Problem {
    let message = format!("{} cannot be bound as it is", kind.with_article());
    let hint = if kind == Type::List {
        "write `| words` for a word per item, `| join(\"\\n\")`, `| to_json`, or `| as_file`"
    } else {
        "write `| to_json` or `| as_file`"
    };
    problem("shell-list", reference, message, hint)
}

fn dash(reference: &Embedded, place: &Place) -> Problem {
    problem("shell-option", reference, "the value begins with `-` and would be read as an option", place.safe)
}

/// An int as every shell reads it: no leading zero, which some take as octal, and 64 bits.
fn is_int(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    plain && digits.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_ok()
}

fn is_echo_option(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|letters| {
        !letters.is_empty() && letters.bytes().all(|letter| matches!(letter, b'n' | b'e' | b'E'))
    })
}

impl Quote {
    /// A variable as it stands in this quoting: one word, or a part of the word around it.
    fn around(self, name: &str) -> String {
        match self {
            Self::Plain => format!("\"${{{name}}}\""),
            Self::Inside => format!("${{{name}}}"),
            Self::Single => format!("'\"${{{name}}}\"'"),
            Self::AnsiC => format!("'\"${{{name}}}\"$'"),
        }
    }
}

/// The name under which a value arrives in the environment; no descendant of the shell sees it.
fn entry(name: &str) -> String {
    name.replacen("TL_", "TL_IN_", 1)
}

/// A piece of the text for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptPiece {
    /// Text as it stands.
    Text(String),
    /// The path of the private file of the variable at this index, as a quoted word.
    FileOf(usize),
}

impl Bound {
    /// The whole text for the shell: a prelude that sets the variables, on the first line of the text, so that line
    /// numbers stay right. The private file of a variable holds its value to the byte.
    pub fn pieces(&self) -> Vec<ScriptPiece> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut file = |text: &mut String, before: &str, index: usize, after: &str| {
            text.push_str(before);
            pieces.push(ScriptPiece::Text(std::mem::take(text)));
            pieces.push(ScriptPiece::FileOf(index));
            text.push_str(after);
        };
        for (index, variable) in self.variables.iter().enumerate() {
            let (name, entry) = (&variable.name, entry(&variable.name));
            match variable.travel {
                Travel::Environment => text.push_str(&format!("{name}=${{{entry}}};unset {entry};")),
                // Command substitution drops final line breaks; the mark behind them keeps them.
                Travel::File => {
                    let after = format!(" && printf .)||exit 125;{name}=${{{name}%.}};");
                    file(&mut text, &format!("{name}=$(cat <"), index, &after);
                }
                Travel::Path => file(&mut text, &format!("{name}="), index, ";"),
            }
        }
        text.push_str(&self.text);
        pieces.push(ScriptPiece::Text(text));
        pieces
    }

    /// The same as one text. `file_of` gives the path of the private file of the variable at an index.
    pub fn script(&self, file_of: impl Fn(usize) -> String) -> String {
        let piece = |piece| match piece {
            ScriptPiece::Text(text) => text,
            ScriptPiece::FileOf(index) => quoted(&file_of(index)),
        };
        self.pieces().into_iter().map(piece).collect()
    }

    /// What the environment of the shell must hold beside what it has.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        let travelling = self.variables.iter().filter(|variable| variable.travel == Travel::Environment);
        travelling.map(|variable| (entry(&variable.name), variable.value.clone()))
    }

    /// The variables whose values must stand in private files, with their indexes.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Variable)> {
        self.variables.iter().enumerate().filter(|(_, variable)| variable.travel != Travel::Environment)
    }
}

/// A text in single quotes, as every shell reads it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
