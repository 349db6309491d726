//! Binding: evaluates the references of a script, checks each value for the hazards around it, and decides
//! how it is delivered to the shell.

use threadline_lang::diag::{Diagnostic, Severity, Span};
use threadline_lang::{Binding, Embedded, Error, Scope, Session, Type, Value};

use super::hazards::{self, Hazard, HazardRule};
use super::reader::{Quote, ReferenceSlot, Replacement};
use super::{ShellProblem, ShellScript};

/// Maximum size of one environment variable or argument on Linux, in bytes, without the final NUL.
pub const STRING_LIMIT: usize = 131_071;

/// Maximum size of all values of one script in the environment, in bytes. Values beyond it are delivered in
/// files.
pub const ENVIRONMENT_LIMIT: usize = 512 << 10;

/// Maximum number of words that one list may become.
const MAX_WORDS: usize = 10_000;

/// A script with its values, ready to run and to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundScript {
    /// The text with a variable for each reference, without the prelude that sets the variables.
    pub text: String,
    /// The variables, in the order of the text.
    pub variables: Vec<BoundVariable>,
    /// Warnings about values.
    pub warnings: Vec<ShellProblem>,
}

/// A shell variable that holds the value of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundVariable {
    /// Name in the text: `TL_1` and so on.
    pub name: String,
    /// The text form of the value.
    pub value: String,
    /// Span of the reference in the text of the script.
    pub span: Span,
    /// How the value is delivered to the shell.
    pub delivery: Delivery,
}

/// How a value is delivered to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In the environment of the shell, under a name that the prelude removes.
    Environment,
    /// In a private file that the prelude reads, because it is too large for the environment.
    File,
    /// In a private file whose path the variable holds: `as_file`.
    Path,
}

/// A script with the values that are known before the run.
#[derive(Debug, Clone)]
pub struct ScriptPreview {
    /// The text, with a variable for each reference.
    pub bound: BoundScript,
    /// The indexes of the variables without a value, and why they have none.
    pub unknown: Vec<(usize, BindError)>,
}

/// Why a script cannot be bound.
#[derive(Debug, Clone)]
pub enum BindError {
    /// A reference has no value.
    Evaluation(Error),
    /// A value is not allowed where its reference is, or the text was refused.
    Refused(ShellProblem),
}

impl BindError {
    /// The diagnostic for people.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::Evaluation(error) => error.diagnostic(),
            Self::Refused(problem) => problem.diagnostic(),
        }
    }

    /// Span of the reference in the text of the script.
    pub fn span(&self) -> Span {
        match self {
            Self::Evaluation(error) => error.span(),
            Self::Refused(problem) => problem.span,
        }
    }
}

impl ShellScript {
    /// Evaluates every reference and replaces it by a variable. If one value cannot be bound, none is.
    pub fn bind(&self, scope: &Scope, session: &mut Session<'_>) -> Result<BoundScript, Vec<BindError>> {
        self.bind_values(|_, reference| reference.value(scope, session))
    }

    /// Binds values that the caller evaluates: `evaluate` is called for each reference, in the order of the
    /// text.
    pub fn bind_values(
        &self,
        mut evaluate: impl FnMut(usize, &Embedded) -> Result<Value, Error>,
    ) -> Result<BoundScript, Vec<BindError>> {
        if !self.refused.is_empty() {
            return Err(self.refused.iter().cloned().map(BindError::Refused).collect());
        }
        let mut binder = Binder::default();
        let slots = self.slots.iter().enumerate();
        let written: Vec<String> =
            slots.map(|(at, slot)| binder.bind_slot(slot, evaluate(at, &slot.reference))).collect();
        if !binder.errors.is_empty() {
            return Err(binder.errors);
        }
        binder.limit_environment();
        Ok(BoundScript {
            text: self.apply_edits(&written),
            variables: binder.variables,
            warnings: binder.warnings,
        })
    }

    /// Binds as many values as are known before the run.
    pub fn preview(&self, scope: &Scope, session: &mut Session<'_>) -> ScriptPreview {
        let mut binder = Binder::default();
        let mut unknown = Vec::new();
        let written: Vec<String> = self
            .slots
            .iter()
            .map(|slot| {
                let (variables, errors) = (binder.variables.len(), binder.errors.len());
                let text = binder.bind_slot(slot, slot.reference.value(scope, session));
                let Some(error) = binder.errors.drain(errors..).next() else { return text };
                binder.variables.truncate(variables);
                unknown.push((variables, error));
                slot.quote.quote_variable(&binder.add_variable(
                    slot.reference.span(),
                    String::new(),
                    Delivery::Environment,
                ))
            })
            .collect();
        let bound = BoundScript {
            text: self.apply_edits(&written),
            variables: binder.variables,
            warnings: binder.warnings,
        };
        ScriptPreview { bound, unknown }
    }

    /// The text with its edits applied.
    fn apply_edits(&self, written: &[String]) -> String {
        let mut out = String::with_capacity(self.text.len() + 16 * written.len());
        let mut from = 0;
        for edit in &self.edits {
            out.push_str(&self.text[from..edit.range.start]);
            match &edit.replacement {
                Replacement::Slot(slot) => out.push_str(&written[*slot]),
                Replacement::Text(text) => out.push_str(text),
            }
            from = edit.range.end;
        }
        out.push_str(&self.text[from..]);
        out
    }
}

/// Collects the variables, warnings and errors of one script or list of arguments.
#[derive(Default)]
pub(super) struct Binder {
    variables: Vec<BoundVariable>,
    warnings: Vec<ShellProblem>,
    pub errors: Vec<BindError>,
}

impl Binder {
    /// Binds a reference, and returns the text that replaces it.
    fn bind_slot(&mut self, slot: &ReferenceSlot, value: Result<Value, Error>) -> String {
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                self.errors.push(BindError::Evaluation(error));
                return String::new();
            }
        };
        match slot.reference.binding() {
            Some(Binding::Words) => self.bind_words(slot, &value),
            Some(Binding::Raw) => self.text_of(&slot.reference, &value).unwrap_or_default(),
            Some(Binding::AsFile) => match self.text_of(&slot.reference, &value) {
                Some(text) => {
                    slot.quote.quote_variable(&self.add_variable(slot.reference.span(), text, Delivery::Path))
                }
                None => String::new(),
            },
            None => self.bind_word(slot, &value),
        }
    }

    fn bind_word(&mut self, slot: &ReferenceSlot, value: &Value) -> String {
        if matches!(value.kind(), Type::List | Type::Object) {
            self.refuse(refuse_container(&slot.reference, value.kind()));
            return String::new();
        }
        let Some(text) = self.text_of(&slot.reference, value) else { return String::new() };
        self.check_hazards(slot, &text);
        slot.quote.quote_variable(&self.add_variable(slot.reference.span(), text, Delivery::Environment))
    }

    fn bind_words(&mut self, slot: &ReferenceSlot, value: &Value) -> String {
        let words: Vec<String> =
            self.list_elements(slot, value).iter().map(|item| self.bind_word(slot, item)).collect();
        words.join(" ")
    }

    /// The elements of a list that becomes words.
    pub(super) fn list_elements<'v>(&mut self, slot: &ReferenceSlot, value: &'v Value) -> &'v [Value] {
        let Some(elements) = value.as_list() else {
            let message = format!("`words` needs a list, not {}", value.kind().with_article());
            self.refuse(problem("shell-words", &slot.reference, message, "remove `words` to bind one word"));
            return &[];
        };
        if elements.len() > MAX_WORDS {
            let message =
                format!("a list of {} elements is too long for `words`, at most {MAX_WORDS}", elements.len());
            self.refuse(problem("shell-size", &slot.reference, message, TOO_LARGE));
            return &[];
        }
        elements
    }

    /// The text form of a value, unless a shell cannot hold it.
    pub(super) fn text_of(&mut self, reference: &Embedded, value: &Value) -> Option<String> {
        let mut text = String::new();
        value.write_text(&mut text);
        if !text.contains('\0') {
            return Some(text);
        }
        self.refuse(problem(
            "shell-nul",
            reference,
            "the value contains a NUL byte, which no variable or argument can hold",
            "encode it as base64: `| base64`",
        ));
        None
    }

    /// Checks a value for the hazards around its reference.
    pub(super) fn check_hazards(&mut self, slot: &ReferenceSlot, text: &str) {
        for hazard in &slot.hazards {
            match hazard.rule {
                HazardRule::Int if !is_int(text) => {
                    let message = format!("a value here {}: only an int is allowed", hazard.effect);
                    self.refuse(problem("shell-int", &slot.reference, message, hazard.fix));
                }
                HazardRule::Dash
                    if slot.begins_word && is_option(text, hazard)
                        || slot.is_split && has_option_piece(text) =>
                {
                    self.refuse(refuse_dash(&slot.reference, hazard));
                }
                HazardRule::Warn if hazard.is(&hazards::ECHO) && slot.begins_word && is_echo_option(text) => {
                    let mut warning = problem(
                        "shell-altered",
                        &slot.reference,
                        "`echo` reads this value as an option",
                        hazard.fix,
                    );
                    warning.severity = Severity::Warning;
                    self.warnings.push(warning);
                }
                _ => {}
            }
        }
        if slot.external && text.len() > STRING_LIMIT {
            let message = format!(
                "the value has {} bytes, but an argument of a program can have at most {STRING_LIMIT}",
                text.len()
            );
            self.refuse(problem("shell-size", &slot.reference, message, TOO_LARGE));
        }
    }

    pub(super) fn refuse(&mut self, problem: ShellProblem) {
        self.errors.push(BindError::Refused(problem));
    }

    /// Adds a variable and returns its name.
    fn add_variable(&mut self, span: Span, value: String, delivery: Delivery) -> String {
        let name = format!("TL_{}", self.variables.len() + 1);
        self.variables.push(BoundVariable { name: name.clone(), value, span, delivery });
        name
    }

    /// Delivers values that do not fit into the environment through files.
    fn limit_environment(&mut self) {
        let mut sum = 0;
        for variable in
            self.variables.iter_mut().filter(|variable| variable.delivery == Delivery::Environment)
        {
            let size = environment_name(&variable.name).len() + 1 + variable.value.len();
            if size > STRING_LIMIT || sum + size > ENVIRONMENT_LIMIT {
                variable.delivery = Delivery::File;
            } else {
                sum += size + 1;
            }
        }
    }
}

pub(super) const TOO_LARGE: &str = "pass it in a file with `| as_file`, or on standard input";

pub(super) fn problem(
    id: &'static str,
    reference: &Embedded,
    message: impl Into<String>,
    hint: &str,
) -> ShellProblem {
    ShellProblem {
        id,
        severity: Severity::Error,
        span: reference.span(),
        message: message.into(),
        hint: Some(hint.to_owned()),
        fix: None,
    }
}

pub(super) fn refuse_container(reference: &Embedded, kind: Type) -> ShellProblem {
    let message = format!("{} cannot be bound as one word", kind.with_article());
    let hint = if kind == Type::List {
        "write `| words` for one word per element, `| join(\"\\n\")`, `| to_json`, or `| as_file`"
    } else {
        "write `| to_json` or `| as_file`"
    };
    problem("shell-list", reference, message, hint)
}

fn refuse_dash(reference: &Embedded, hazard: &Hazard) -> ShellProblem {
    problem("shell-option", reference, "the value starts with `-` and would be read as an option", hazard.fix)
}

/// Whether a program reads a text as an option.
fn is_option(text: &str, hazard: &Hazard) -> bool {
    // Editors run what follows a `+`.
    text.starts_with('-') || text.starts_with('+') && hazard.is(&hazards::RUNNING_OPTION)
}

/// Whether a piece of a text can be read as an option, wherever it is split.
fn has_option_piece(text: &str) -> bool {
    let mut before = ' ';
    text.chars().any(|char| {
        let begins = matches!(char, '-' | '+') && !before.is_alphanumeric();
        before = char;
        begins
    })
}

/// Checks the value of a variable of `env:` for a place that the script uses it in.
pub(super) fn refuse_environment(name: &str, value: &str, hazard: &Hazard) -> Option<ShellProblem> {
    let (id, only) = match hazard.rule {
        HazardRule::Int if !is_int(value) => ("shell-int", ": only an int is allowed"),
        HazardRule::Dash if is_option(value, hazard) || has_option_piece(value) => ("shell-option", ""),
        _ => return None,
    };
    Some(ShellProblem {
        id,
        severity: Severity::Error,
        span: Span::default(),
        message: format!("the script uses `{name}` where a value {}{only}", hazard.effect),
        hint: Some(hazard.fix.to_owned()),
        fix: None,
    })
}

/// Whether every shell reads a text as the same int: 64 bits, without a leading zero, which may mean octal.
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
    /// A variable as it is written in this quoting: one word, or a part of the word around it.
    fn quote_variable(self, name: &str) -> String {
        match self {
            Self::Plain => format!("\"${{{name}}}\""),
            Self::Inside => format!("${{{name}}}"),
            Self::Single => format!("'\"${{{name}}}\"'"),
            Self::AnsiC => format!("'\"${{{name}}}\"$'"),
        }
    }
}

/// The environment variable that delivers a value; the prelude removes it before any child can see it.
fn environment_name(name: &str) -> String {
    name.replacen("TL_", "TL_IN_", 1)
}

/// A piece of the text for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptPiece {
    /// Text that is not a path.
    Text(String),
    /// The path of the private file of the variable at this index, as a quoted word.
    FileOf(usize),
}

impl BoundScript {
    /// The whole text for the shell, in pieces. A prelude on its first line sets the variables, so line numbers
    /// stay the same. The private file of a variable must hold its exact value.
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
            let (name, entry) = (&variable.name, environment_name(&variable.name));
            match variable.delivery {
                Delivery::Environment => text.extend([name.as_str(), "=${", &entry, "};unset ", &entry, ";"]),
                // Command substitution drops trailing line breaks; the dot after them preserves them.
                Delivery::File => {
                    let after = format!(" && printf .)||exit 125;{name}=${{{name}%.}};");
                    file(&mut text, &format!("{name}=$(cat <"), index, &after);
                }
                Delivery::Path => file(&mut text, &format!("{name}="), index, ";"),
            }
        }
        text.push_str(&self.text);
        pieces.push(ScriptPiece::Text(text));
        pieces
    }

    /// The whole text. `file_of` gives the path of the private file of the variable at an index.
    pub fn script(&self, file_of: impl Fn(usize) -> String) -> String {
        let piece = |piece| match piece {
            ScriptPiece::Text(text) => text,
            ScriptPiece::FileOf(index) => quoted(&file_of(index)),
        };
        self.pieces().into_iter().map(piece).collect()
    }

    /// The environment variables to add for the shell.
    pub fn environment(&self) -> impl Iterator<Item = (String, &str)> {
        let delivered = self.variables.iter().filter(|variable| variable.delivery == Delivery::Environment);
        delivered.map(|variable| (environment_name(&variable.name), variable.value.as_str()))
    }

    /// The variables whose values must be in private files, with their indexes.
    pub fn files(&self) -> impl Iterator<Item = (usize, &BoundVariable)> {
        self.variables.iter().enumerate().filter(|(_, variable)| variable.delivery != Delivery::Environment)
    }
}

/// A text in single quotes, as all shells read it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
