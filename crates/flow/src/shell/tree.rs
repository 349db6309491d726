//! The syntax tree of a shell text: what the reader reads, and what the analysis walks.
//!
//! The tree holds no values and no text of its own beyond names and literals; ranges point into the text.

use std::ops::Range;

use ecow::EcoString;

use super::hazards::Hazard;

/// A text that has been read.
#[derive(Default)]
pub(super) struct ScriptTree {
    pub body: CommandList,
    /// The bodies of the here-documents, by index.
    pub documents: Vec<Word>,
}

/// Commands one after another.
#[derive(Default)]
pub(super) struct CommandList {
    pub items: Vec<ListItem>,
}

/// A pipeline, and how it is joined to the one before it.
pub(super) struct ListItem {
    pub joint: Joint,
    pub pipeline: Pipeline,
}

/// What stands between two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// `;`, `&` or a line break.
    Sequence,
    /// `&&`: the next command runs if this one succeeds.
    And,
    /// `||`: the next command runs if this one fails.
    Or,
}

/// Commands that are joined by `|`.
pub(super) struct Pipeline {
    pub negated: bool,
    pub commands: Vec<ShellCommand>,
}

/// A command with its redirections.
pub(super) struct ShellCommand {
    pub syntax: CommandSyntax,
    pub redirections: Vec<Redirection>,
}

/// The sorts of commands.
pub(super) enum CommandSyntax {
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// `{ ...; }` or `( ... )`.
    Group(CommandList),
    If {
        /// The conditions with their bodies.
        branches: Vec<(CommandList, CommandList)>,
        otherwise: CommandList,
    },
    /// `while` and `until`.
    While {
        until: bool,
        condition: CommandList,
        body: CommandList,
    },
    /// `for` and `select`; without words the loop is over the arguments.
    For {
        name: Word,
        words: Option<Vec<Word>>,
        body: CommandList,
    },
    /// `for ((...))`: a loop that counts.
    Counted {
        header: Arithmetic,
        body: CommandList,
    },
    Case {
        subject: Word,
        clauses: Vec<CaseClause>,
    },
    /// `((...))`: arithmetic as a command.
    Arithmetic(Arithmetic),
    /// `[[ ... ]]`; the first word is `[[`.
    Conditional(Vec<Word>),
    Function {
        name: Word,
        body: Box<ShellCommand>,
    },
    Coprocess {
        name: EcoString,
        body: Box<ShellCommand>,
    },
}

/// A clause of `case`.
pub(super) struct CaseClause {
    pub patterns: Vec<Word>,
    pub body: CommandList,
}

/// `NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(...)`.
pub(super) struct Assignment {
    pub name: EcoString,
    pub range: Range<usize>,
    pub subscript: Option<Arithmetic>,
    /// Whether it is `+=`, which keeps the value before.
    pub appends: bool,
    pub value: AssignedWords,
}

/// The right side of an assignment.
pub(super) enum AssignedWords {
    One(Word),
    /// The elements of an array.
    Many(Vec<Word>),
}

impl Assignment {
    pub(super) fn words(&self) -> &[Word] {
        match &self.value {
            AssignedWords::One(word) => std::slice::from_ref(word),
            AssignedWords::Many(words) => words,
        }
    }
}

/// A redirection of one descriptor.
pub(super) struct Redirection {
    /// The descriptor before the operator, if one is written.
    pub descriptor: Option<EcoString>,
    pub target: RedirectionTarget,
}

/// What a descriptor is redirected to or from.
pub(super) enum RedirectionTarget {
    /// `< file` and `<> file`.
    Input(Word),
    /// `> file`, `>> file`, `&> file`.
    Output(Word),
    /// `<& n`: input from another descriptor.
    InputDescriptor(Word),
    /// `>& n`: output to another descriptor.
    OutputDescriptor(Word),
    /// `<<< word`: a word as the input.
    HereString(Word),
    /// `<< END`: the index of the document.
    HereDocument(usize),
}

/// One word of a command.
#[derive(Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact about the word")]
pub(super) struct Word {
    pub range: Range<usize>,
    /// The start of its value, as far as that is known before the run.
    pub literal: String,
    /// Whether the whole value is known.
    pub fixed: bool,
    /// Whether a part is quoted, so that the word is not a keyword.
    pub quoted: bool,
    pub parts: Vec<WordPart>,
    /// Whether the position follows a tilde, where a user name may be.
    pub tilde: bool,
    /// Whether a brace is open.
    pub brace: bool,
}

/// A piece of a word.
#[derive(Clone)]
pub(super) enum WordPart {
    /// Literal text that is not empty.
    Text(EcoString),
    /// A reference of the workflow, by the index of its slot.
    Slot(usize),
    Parameter(std::rc::Rc<Parameter>),
    /// `$(...)` or backquotes.
    Substitution {
        range: Range<usize>,
        list: std::rc::Rc<CommandList>,
        quoted: bool,
    },
    /// `<(...)`, or `>(...)` if it is for output.
    Process {
        range: Range<usize>,
        list: std::rc::Rc<CommandList>,
        is_output: bool,
    },
    Arithmetic(std::rc::Rc<Arithmetic>),
    /// Text that the reader skips, in which the shell expands something.
    Unread(Range<usize>),
    /// What arrives on standard input, in the place where a program such as `xargs` puts it.
    Arrival,
}

/// A variable or parameter that the shell expands.
pub(super) struct Parameter {
    pub range: Range<usize>,
    /// The name, `1`, `@` and so on; empty if it is an expansion itself, as zsh allows.
    pub name: EcoString,
    pub quoted: bool,
    /// Whether it is `${#NAME}`, the length of the value.
    pub is_length: bool,
    /// `${!NAME[@]}`: the keys of an array.
    pub lists_keys: Option<KeySort>,
    /// The hazard of the way it is expanded: `${!NAME}`, `${NAME@P}`.
    pub evaluates: Option<&'static Hazard>,
    pub subscript: Option<Arithmetic>,
    pub operation: Operation,
    /// The text after the operator.
    pub operand: Word,
}

/// What the keys of an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySort {
    /// The keys are numbers, each of them arithmetic.
    Index,
    /// The keys are texts, as those of `declare -A`.
    Text,
}

/// What the shell does to a parameter.
pub(super) enum Operation {
    /// It is used as it is.
    Plain,
    /// `:-` and `-`, `:=` and `=`.
    Default { assigns: bool },
    /// `:+` and `+`.
    Alternative,
    /// Its end is removed: `%` and `%%`.
    TrimEnd,
    /// A part of it is removed or replaced, or its letters change.
    Change,
    /// Everything but digits is removed.
    KeepDigits,
    /// `${NAME:offset:length}`: both are arithmetic.
    Substring(Arithmetic),
}

/// Text that the shell evaluates as arithmetic.
pub(super) struct Arithmetic {
    pub range: Range<usize>,
    pub hazard: &'static Hazard,
    /// References, parameters and substitutions in it.
    pub word: Word,
    /// The bare names in it, which arithmetic reads as variables.
    pub names: Vec<EcoString>,
    /// Whether it is the key of an associative array, which is no arithmetic.
    pub is_key: bool,
    /// Whether it is `@` or `*`, for all elements of an array.
    pub is_whole: bool,
}

impl Word {
    /// The value, if all of it is known.
    pub(super) fn text(&self) -> Option<&str> {
        self.fixed.then_some(self.literal.as_str())
    }

    /// Whether the word is unquoted and exactly this text.
    pub(super) fn is(&self, text: &str) -> bool {
        self.fixed && !self.quoted && self.literal == text
    }

    /// A word with a known value that stands nowhere in the text.
    pub(super) fn fixed(text: &str) -> Self {
        let parts = if text.is_empty() { Vec::new() } else { vec![WordPart::Text(text.into())] };
        Self { literal: text.to_owned(), fixed: true, parts, ..Self::default() }
    }

    /// The references that stand in the word itself, not in its substitutions.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Slot(slot) => Some(*slot),
            _ => None,
        })
    }

    /// The reference that the word begins with.
    pub(super) fn first_slot(&self) -> Option<usize> {
        match self.parts.first() {
            Some(WordPart::Slot(slot)) => Some(*slot),
            _ => None,
        }
    }

    pub(super) fn push_text(&mut self, text: &str) {
        if self.fixed {
            self.literal.push_str(text);
        }
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(WordPart::Text(before)) => before.push_str(text),
            _ => self.parts.push(WordPart::Text(text.into())),
        }
    }

    pub(super) fn push_part(&mut self, part: WordPart) {
        self.fixed = false;
        self.parts.push(part);
    }
}
