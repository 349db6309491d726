//! `argv`: a program and its arguments without a shell. A reference is one argument, or a part of one.

use ecow::EcoString;
use threadline_lang::diag::{Severity, Span};
use threadline_lang::{Binding, Embedded, Error, Reference, Scope, Session, TextPiece, Type, Value, pieces};

use super::bind::{BindError, Binder, STRING_LIMIT, TOO_LARGE, problem, refuse_container};
use super::follow;
use super::hazards::{self, HazardRule};
use super::reader::{Quote, ReferenceSlot, TextPlaces};
use super::tree::{
    CommandList, CommandSyntax, Joint, ListItem, Pipeline, ScriptTree, ShellCommand, Word, WordPart,
};
use super::{AnalysisContext, Dialect, ShellProblem};

/// An analysed program with its arguments. It holds no values.
pub struct Argv {
    entries: Vec<Vec<ArgumentPart>>,
    slots: Vec<ReferenceSlot>,
    refused: Vec<(usize, ShellProblem)>,
}

enum ArgumentPart {
    Text(EcoString),
    Slot(usize),
}

/// One argument for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Index of the list entry that it comes from.
    pub entry: usize,
    /// The argument, or the content of the file.
    pub value: String,
    /// Whether the argument is the path of a private file that holds the value: `as_file`.
    pub is_file: bool,
}

impl Argv {
    /// Analyses the entries of an `argv` list. Each problem has the index of its entry.
    pub fn analyse(entries: &[&str], context: &AnalysisContext<'_>) -> (Self, Vec<(usize, ShellProblem)>) {
        let mut argv = Self { entries: Vec::new(), slots: Vec::new(), refused: Vec::new() };
        let mut problems = Vec::new();
        let mut words = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match pieces(&EcoString::from(*entry), context.syntax) {
                Ok(pieces) => words.push(argv.entry(at, pieces, &mut problems)),
                Err(errors) => {
                    problems.extend(errors.iter().map(|error| (at, ShellProblem::from_error(error))));
                    argv.entries.push(Vec::new());
                    words.push(Word::default());
                }
            }
        }
        argv.inspect(words, &AnalysisContext { dialect: Dialect::Posix, ..*context }, &mut problems);
        let refused = problems.iter().filter(|(_, problem)| problem.severity == Severity::Error);
        argv.refused = refused.cloned().collect();
        (argv, problems)
    }

    /// Analyses `bash -c TEXT bash ARGUMENTS...`, in which the arguments are values.
    pub(super) fn of_command_call(
        text: &str,
        arguments: usize,
        context: &AnalysisContext<'_>,
    ) -> (Self, Vec<(usize, ShellProblem)>) {
        let mut argv = Self { entries: Vec::new(), slots: Vec::new(), refused: Vec::new() };
        let (mut problems, mut words) = (Vec::new(), Vec::new());
        for text in ["bash", "-c", text, "bash"] {
            words.push(argv.entry(words.len(), vec![TextPiece::Text(text.into())], &mut problems));
        }
        for _ in 0..arguments {
            // What it reads does not matter: the value is given when it is checked.
            let value = pieces(&EcoString::from("${value}"), context.syntax).unwrap_or_default();
            words.push(argv.entry(words.len(), value, &mut problems));
        }
        argv.inspect(words, context, &mut problems);
        (argv, problems)
    }

    /// Checks values in the order of the references, without evaluating these.
    pub fn check_values<'v>(&self, values: impl IntoIterator<Item = &'v str>) -> Option<ShellProblem> {
        let mut binder = Binder::default();
        for (slot, value) in self.slots.iter().zip(values) {
            binder.check_hazards(slot, value);
        }
        binder.errors.into_iter().find_map(|error| match error {
            BindError::Refused(problem) => Some(problem),
            BindError::Evaluation(_) => None,
        })
    }

    fn entry(
        &mut self,
        at: usize,
        pieces: Vec<TextPiece>,
        problems: &mut Vec<(usize, ShellProblem)>,
    ) -> Word {
        let mut word = Word { fixed: true, ..Word::default() };
        let mut parts = Vec::new();
        let whole = pieces.len() == 1;
        for piece in pieces {
            match piece {
                TextPiece::Text(text) => {
                    word.push_text(&text);
                    parts.push(ArgumentPart::Text(text));
                }
                TextPiece::Reference(reference) => {
                    if let Some(problem) = refuse_binding(&reference, whole) {
                        problems.push((at, problem));
                    }
                    let mut slot = ReferenceSlot::new(reference, Quote::Plain);
                    slot.begins_word = word.parts.is_empty();
                    slot.is_word = whole;
                    word.push_part(WordPart::Slot(self.slots.len()));
                    parts.push(ArgumentPart::Slot(self.slots.len()));
                    self.slots.push(slot);
                }
            }
        }
        self.entries.push(parts);
        word
    }

    /// Applies the table of hazards, as to a command of a shell.
    fn inspect(
        &mut self,
        mut words: Vec<Word>,
        context: &AnalysisContext<'_>,
        problems: &mut Vec<(usize, ShellProblem)>,
    ) {
        if words.is_empty() {
            return;
        }
        let mut owners = vec![0; self.slots.len()];
        for (at, word) in words.iter_mut().enumerate() {
            // The position of a word is the index of its entry.
            word.range = at..at + 1;
            for slot in word.slots() {
                owners[slot] = at;
            }
        }
        let places = TextPlaces { source: " ".repeat(words.len()).into(), pastes: Vec::new() };
        let found = follow::follow(tree_of(words), &places, &mut self.slots, context);
        for slot in &mut self.slots {
            // The size of a whole argument is checked, not that of its parts.
            slot.external = false;
        }
        for (slot, at) in self.slots.iter().zip(&owners) {
            let hazards = slot
                .hazards
                .iter()
                .filter(|hazard| hazard.rule != HazardRule::Warn || !hazard.is(&hazards::ECHO));
            problems.extend(hazards.filter_map(|hazard| Some((*at, slot.problem(hazard, Dialect::Posix)?))));
        }
        problems.extend(found.problems.into_iter().map(|problem| {
            let entry = problem.span.range().start;
            (entry, ShellProblem { span: Span::default(), ..problem })
        }));
    }

    /// The checks that binding makes, as problems: for a command whose values are not bound.
    pub fn needed_checks(&self) -> Vec<(usize, ShellProblem)> {
        let mut problems = Vec::new();
        for (at, parts) in self.entries.iter().enumerate() {
            for part in parts {
                let ArgumentPart::Slot(slot) = part else { continue };
                let slot = &self.slots[*slot];
                let needed = slot.hazards.iter().filter(|hazard| {
                    hazard.rule == HazardRule::Int || hazard.is(&hazards::RUNNING_OPTION) && slot.begins_word
                });
                problems.extend(needed.map(|hazard| {
                    let message = format!("a value here {}", hazard.effect);
                    (at, problem("shell-evaluates", &slot.reference, message, hazard.fix))
                }));
            }
        }
        problems
    }

    /// What stands in the arguments themselves: all that references read but those that become the path of a file.
    pub(crate) fn visible_references(&self) -> Vec<(usize, Reference)> {
        let is_file = |reference: &Embedded| reference.binding() == Some(Binding::AsFile);
        self.each(|reference| if is_file(reference) { Vec::new() } else { reference.references() })
    }

    /// Every reference that binding reads, with the index of its entry.
    pub fn references(&self) -> Vec<(usize, Reference)> {
        self.each(Embedded::references)
    }

    /// Checks the names of every reference against a scope, as [`threadline_lang::Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<(usize, Error)> {
        self.each(|reference| reference.check(scope))
    }

    pub(super) fn each<T>(&self, list: impl Fn(&Embedded) -> Vec<T>) -> Vec<(usize, T)> {
        let mut all = Vec::new();
        for (at, parts) in self.entries.iter().enumerate() {
            for part in parts {
                if let ArgumentPart::Slot(slot) = part {
                    all.extend(list(&self.slots[*slot].reference).into_iter().map(|one| (at, one)));
                }
            }
        }
        all
    }

    /// Evaluates the program and its arguments. If one value cannot be bound, none is. `enter` is called
    /// before each entry, with its index.
    pub fn bind(
        &self,
        scope: &Scope,
        session: &mut Session<'_>,
        enter: impl Fn(usize, &mut Session<'_>),
    ) -> Result<Vec<Argument>, Vec<(usize, BindError)>> {
        if !self.refused.is_empty() {
            let refused = self.refused.iter().cloned();
            return Err(refused.map(|(at, problem)| (at, BindError::Refused(problem))).collect());
        }
        let (mut arguments, mut errors) = (Vec::new(), Vec::new());
        for (at, parts) in self.entries.iter().enumerate() {
            let mut binder = Binder::default();
            enter(at, session);
            arguments.extend(self.arguments(at, parts, scope, session, &mut binder));
            errors.extend(binder.errors.into_iter().map(|error| (at, error)));
        }
        if errors.is_empty() { Ok(arguments) } else { Err(errors) }
    }

    fn arguments(
        &self,
        entry: usize,
        parts: &[ArgumentPart],
        scope: &Scope,
        session: &mut Session<'_>,
        binder: &mut Binder,
    ) -> Vec<Argument> {
        let mut value = String::new();
        let mut is_file = false;
        for part in parts {
            match part {
                ArgumentPart::Text(text) => value.push_str(text),
                ArgumentPart::Slot(slot) => {
                    let slot = &self.slots[*slot];
                    match slot.reference.value(scope, session) {
                        Err(error) => binder.errors.push(BindError::Evaluation(error)),
                        Ok(list) if slot.reference.binding() == Some(Binding::Words) => {
                            return list_arguments(entry, slot, &list, binder);
                        }
                        Ok(one) => {
                            is_file = slot.reference.binding() == Some(Binding::AsFile);
                            value.push_str(&argument_text(slot, &one, is_file, binder));
                        }
                    }
                }
            }
        }
        if !is_file
            && value.len() > STRING_LIMIT
            && let Some(ArgumentPart::Slot(slot)) = parts.last()
        {
            let message =
                format!("the argument has {} bytes, but can have at most {STRING_LIMIT}", value.len());
            binder.refuse(problem("shell-size", &self.slots[*slot].reference, message, TOO_LARGE));
        }
        vec![Argument { entry, value, is_file }]
    }
}

/// The text of one value, checked for the hazards around its reference.
fn argument_text(slot: &ReferenceSlot, value: &Value, is_file: bool, binder: &mut Binder) -> String {
    if !is_file && matches!(value.kind(), Type::List | Type::Object) {
        binder.refuse(refuse_container(&slot.reference, value.kind()));
        return String::new();
    }
    let text = binder.text_of(&slot.reference, value).unwrap_or_default();
    if !is_file {
        binder.check_hazards(slot, &text);
    }
    text
}

/// The elements of a list as arguments, each of them checked.
fn list_arguments(entry: usize, slot: &ReferenceSlot, list: &Value, binder: &mut Binder) -> Vec<Argument> {
    let elements = binder.list_elements(slot, list);
    let mut arguments = Vec::new();
    for element in elements {
        if matches!(element.kind(), Type::List | Type::Object) {
            binder.refuse(refuse_container(&slot.reference, element.kind()));
        } else if let Some(value) = binder.text_of(&slot.reference, element) {
            binder.check_hazards(slot, &value);
            arguments.push(Argument { entry, value, is_file: false });
        }
    }
    arguments
}

/// Refuses bindings that have no meaning in a part of an argument, or without a shell.
fn refuse_binding(reference: &Embedded, whole: bool) -> Option<ShellProblem> {
    match reference.binding()? {
        Binding::Raw => Some(problem(
            "shell-raw",
            reference,
            "`raw` pastes text for a shell, but `argv` runs without one",
            "remove `raw`",
        )),
        _ if whole => None,
        _ => Some(problem(
            "shell-words",
            reference,
            "`words` and `as_file` need an entry of their own",
            "make the reference the whole entry",
        )),
    }
}

/// A program with its arguments as the only command of a text.
fn tree_of(words: Vec<Word>) -> ScriptTree {
    let command = ShellCommand {
        syntax: CommandSyntax::Simple { assignments: Vec::new(), words },
        redirections: Vec::new(),
    };
    let pipeline = Pipeline { negated: false, commands: vec![command] };
    let body = CommandList { items: vec![ListItem { joint: Joint::Sequence, pipeline }] };
    ScriptTree { body, documents: Vec::new() }
}
