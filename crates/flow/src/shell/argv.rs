//! `argv`: a program and its arguments without a shell. One reference is one argument, or a part of one.

use ecow::EcoString;
use threadline_lang::diag::Severity;
use threadline_lang::{
    Binding, Embedded, Error, Reference, Scope, Session, Syntax, TextPiece, Type, Value, pieces,
};

use super::bind::{BindError, Binder, STRING_LIMIT, TOO_LARGE, container, problem};
use super::places::Rule;
use super::reader::{Names, Quote, Reader, Slot};
use super::words::Word;
use super::{Dialect, Problem, Setting};

/// A program and its arguments, analysed. It holds no values.
pub struct Argv {
    entries: Vec<Vec<Part>>,
    slots: Vec<Slot>,
    refused: Vec<(usize, Problem)>,
}

enum Part {
    Text(EcoString),
    Slot(usize),
}

/// One argument for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The entry of the list that it comes from.
    pub entry: usize,
    /// The argument, or the text of the file.
    pub value: String,
    /// The argument is the path of a private file that holds the value: `as_file`.
    pub is_file: bool,
}

impl Argv {
    /// Analyses the entries of an `argv` list. Each problem comes with the index of its entry.
    pub fn analyse(entries: &[&str], syntax: &Syntax) -> (Self, Vec<(usize, Problem)>) {
        let mut argv = Self { entries: Vec::new(), slots: Vec::new(), refused: Vec::new() };
        let mut problems = Vec::new();
        let mut words = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match pieces(&EcoString::from(*entry), syntax) {
                Ok(pieces) => words.push(argv.entry(at, pieces, &mut problems)),
                Err(errors) => {
                    problems.extend(errors.iter().map(|error| (at, told(error))));
                    argv.entries.push(Vec::new());
                    words.push(Word::default());
                }
            }
        }
        argv.inspect(&words, syntax, &mut problems);
        let refused = problems.iter().filter(|(_, problem)| problem.severity == Severity::Error);
        argv.refused = refused.cloned().collect();
        (argv, problems)
    }

    fn entry(&mut self, at: usize, pieces: Vec<TextPiece>, problems: &mut Vec<(usize, Problem)>) -> Word {
        let first = self.slots.len();
        let mut word = Word { fixed: true, ..Word::default() };
        let mut parts = Vec::new();
        let whole = pieces.len() == 1;
        for piece in pieces {
            match piece {
                TextPiece::Text(text) => {
                    if word.fixed {
                        word.literal.push_str(&text);
                    }
                    parts.push(Part::Text(text));
                }
                TextPiece::Reference(reference) => {
                    if let Some(problem) = misplaced(&reference, whole) {
                        problems.push((at, problem));
                    }
                    let mut slot = Slot::new(reference, Quote::Plain, 0);
                    slot.begins_word = word.fixed && word.literal.is_empty();
                    slot.is_word = whole;
                    if slot.begins_word {
                        word.begins = Some(self.slots.len());
                    }
                    word.fixed = false;
                    parts.push(Part::Slot(self.slots.len()));
                    self.slots.push(slot);
                }
            }
        }
        word.slots = first..self.slots.len();
        self.entries.push(parts);
        word
    }

    /// Applies the table of places, as to a command of a shell.
    fn inspect(&mut self, words: &[Word], syntax: &Syntax, problems: &mut Vec<(usize, Problem)>) {
        if words.is_empty() {
            return;
        }
        let names = Names::default();
        let setting = Setting::new(Dialect::Posix, syntax, &|_| true);
        let mut reader = Reader::new(&setting, &EcoString::new(), "", &[], &names);
        reader.slots = std::mem::take(&mut self.slots);
        reader.inspect(words);
        self.slots = std::mem::take(&mut reader.slots);
        for (at, word) in words.iter().enumerate() {
            for slot in &self.slots[word.slots.clone()] {
                let told = slot.places.iter().filter(|place| place.rule != Rule::Warn || place.id != "echo");
                problems.extend(told.filter_map(|place| Some((at, slot.problem(place, Dialect::Posix)?))));
            }
        }
    }

    /// Everything that binding can read, with the index of its entry.
    pub fn references(&self) -> Vec<(usize, Reference)> {
        self.each(Embedded::references)
    }

    /// Checks the names of every reference against a scope, as [`threadline_lang::Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<(usize, Error)> {
        self.each(|reference| reference.check(scope))
    }

    pub(super) fn each<T>(&self, give: impl Fn(&Embedded) -> Vec<T>) -> Vec<(usize, T)> {
        let mut all = Vec::new();
        for (at, parts) in self.entries.iter().enumerate() {
            for part in parts {
                if let Part::Slot(slot) = part {
                    all.extend(give(&self.slots[*slot].reference).into_iter().map(|one| (at, one)));
                }
            }
        }
        all
    }

    /// The program and its arguments with their values. Nothing is bound when one value cannot be. `place` tells the
    /// session where an entry stands.
    pub fn bind(
        &self,
        scope: &Scope,
        session: &mut Session<'_>,
        place: impl Fn(usize, &mut Session<'_>),
    ) -> Result<Vec<Argument>, Vec<(usize, BindError)>> {
        if !self.refused.is_empty() {
            let refused = self.refused.iter().cloned();
            return Err(refused.map(|(at, problem)| (at, BindError::Refused(problem))).collect());
        }
        let (mut arguments, mut errors) = (Vec::new(), Vec::new());
        for (at, parts) in self.entries.iter().enumerate() {
            let mut binder = Binder::default();
            place(at, session);
            arguments.extend(self.arguments(at, parts, scope, session, &mut binder));
            errors.extend(binder.errors.into_iter().map(|error| (at, error)));
        }
        if errors.is_empty() { Ok(arguments) } else { Err(errors) }
    }

    fn arguments(
        &self,
        entry: usize,
        parts: &[Part],
        scope: &Scope,
        session: &mut Session<'_>,
        binder: &mut Binder,
    ) -> Vec<Argument> {
        let mut value = String::new();
        let mut is_file = false;
        for part in parts {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Slot(slot) => {
                    let slot = &self.slots[*slot];
                    match slot.reference.value(scope, session) {
                        Err(error) => binder.errors.push(BindError::Evaluation(error)),
                        Ok(list) if slot.reference.binding() == Some(Binding::Words) => {
                            return words(entry, slot, &list, binder);
                        }
                        Ok(one) => {
                            is_file = slot.reference.binding() == Some(Binding::AsFile);
                            value.push_str(&text_of(slot, &one, is_file, binder));
                        }
                    }
                }
            }
        }
        if !is_file
            && value.len() > STRING_LIMIT
            && let Some(Part::Slot(slot)) = parts.last()
        {
            let message =
                format!("an argument of {} bytes, and at most {STRING_LIMIT} can be given", value.len());
            binder.refuse(problem("shell-size", &self.slots[*slot].reference, message, TOO_LARGE));
        }
        vec![Argument { entry, value, is_file }]
    }
}

/// The text of one value, checked for its place.
fn text_of(slot: &Slot, value: &Value, is_file: bool, binder: &mut Binder) -> String {
    if !is_file && matches!(value.kind(), Type::List | Type::Object) {
        binder.refuse(container(&slot.reference, value.kind()));
        return String::new();
    }
    let text = binder.checked(&slot.reference, value).unwrap_or_default();
    if !is_file {
        binder.fit(slot, &text);
    }
    text
}

/// A list as arguments, each of them checked.
fn words(entry: usize, slot: &Slot, list: &Value, binder: &mut Binder) -> Vec<Argument> {
    let items = binder.items(slot, list);
    let mut arguments = Vec::new();
    for item in items {
        if matches!(item.kind(), Type::List | Type::Object) {
            binder.refuse(container(&slot.reference, item.kind()));
        } else if let Some(value) = binder.checked(&slot.reference, item) {
            binder.fit(slot, &value);
            arguments.push(Argument { entry, value, is_file: false });
        }
    }
    arguments
}

/// Ways of binding that have no meaning in a part of an argument, or without a shell.
fn misplaced(reference: &Embedded, whole: bool) -> Option<Problem> {
    match reference.binding()? {
        Binding::Raw => Some(problem(
            "shell-raw",
            reference,
            "`raw` pastes text for a shell, and `argv` has none",
            "leave `raw` out",
        )),
        _ if whole => None,
        _ => Some(problem(
            "shell-words",
            reference,
            "a way of binding needs an entry of its own",
            "let the reference be the whole entry",
        )),
    }
}

fn told(error: &Error) -> Problem {
    let told = error.diagnostic();
    Problem {
        id: told.id,
        severity: Severity::Error,
        span: told.span,
        message: told.message,
        hint: told.hints.into_iter().next(),
    }
}
