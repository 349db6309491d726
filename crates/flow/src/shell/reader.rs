//! The reader of shell text: its state, the references it found, and what becomes of them.
//!
//! A text is read twice: first for the names that the script itself sets, then for everything else. Code from
//! `context` is put in where it stands, and the text is read again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ecow::EcoString;
use threadline_lang::diag::{Severity, Span};
use threadline_lang::{Binding, Embedded, Limit};

use super::commands::Waiting;
use super::names::Owner;
use super::places::{Place, Rule, place};
use super::words::Expansion;
use super::{Dialect, MAX_PROBLEMS, Problem, Setting};

/// How deep substitutions, subshells and parameters may stand in each other.
const MAX_DEPTH: usize = 64;

/// How many references one text may hold.
const MAX_SLOTS: usize = 10_000;

/// How many pieces of code from `context` one text may hold.
const MAX_PASTES: usize = 32;

/// The quoting around a reference, which decides what its variable looks like there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// Outside of quotes: the variable brings its own.
    Plain,
    /// Inside double quotes, a here-document or arithmetic: nothing is split there.
    Inside,
    /// Inside single quotes, which are closed for it.
    Single,
    /// Inside `$'...'`, which is closed for it.
    AnsiC,
}

/// A reference and where it stands.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the place")]
pub(super) struct Slot {
    pub reference: Embedded,
    pub quote: Quote,
    /// The substitutions around it.
    pub level: usize,
    /// It is the first thing in its word.
    pub begins_word: bool,
    /// It is the whole word, so that `words` may be several.
    pub is_word: bool,
    /// It goes to a program as an argument or in the environment.
    pub external: bool,
    /// It stands in the body of a function.
    pub in_function: bool,
    /// What is checked when it is bound.
    pub places: Vec<&'static Place>,
}

impl Slot {
    pub(super) fn new(reference: Embedded, quote: Quote, level: usize) -> Self {
        Self {
            reference,
            quote,
            level,
            begins_word: false,
            is_word: false,
            external: false,
            in_function: false,
            places: Vec::new(),
        }
    }

    /// What is to be said about the reference in a place before its value is known.
    pub(super) fn problem(&self, place: &Place, dialect: Dialect) -> Option<Problem> {
        let binding = self.reference.binding();
        let (severity, id) = match place.rule {
            Rule::Refuse => (Severity::Error, "shell-evaluates"),
            Rule::Int if binding.is_some() => (Severity::Error, "shell-evaluates"),
            Rule::Warn if place.id == "echo" && dialect == Dialect::Bash => return None,
            Rule::Dash if !self.begins_word || binding == Some(Binding::AsFile) => return None,
            Rule::Int => return None,
            Rule::Dash => (Severity::Warning, "shell-option"),
            Rule::Warn => (Severity::Warning, "shell-altered"),
        };
        let message = format!("a value here {}", place.what);
        Some(Problem {
            id,
            severity,
            span: self.reference.span(),
            message,
            hint: Some(place.safe.to_owned()),
        })
    }
}

/// A piece of the text that is written differently for the shell.
pub(super) struct Edit {
    pub range: Range<usize>,
    pub what: What,
}

pub(super) enum What {
    /// The variable of a reference.
    Slot(usize),
    /// Other text.
    Text(&'static str),
}

/// What reading a text gave.
pub(super) struct Read {
    pub text: EcoString,
    pub slots: Vec<Slot>,
    pub edits: Vec<Edit>,
    pub problems: Vec<Problem>,
    pub code: Vec<EcoString>,
}

/// The names that the script sets.
#[derive(Default)]
pub(super) struct Names {
    /// Variables.
    pub set: BTreeSet<EcoString>,
    /// Functions.
    pub functions: BTreeSet<EcoString>,
    /// Arrays whose subscripts are keys, which nothing computes.
    pub associative: BTreeSet<EcoString>,
    /// Where text of unknown content is run: behind it anything may be set.
    pub unknown_from: Option<usize>,
    /// The references whose values went into a variable.
    pub holding: BTreeMap<EcoString, Held>,
}

/// The references whose values went into one variable.
#[derive(Default, Clone)]
pub(super) struct Held {
    pub slots: Vec<usize>,
    /// There are more.
    pub overflow: bool,
}

/// Code from `context` that stands in the text.
pub(super) struct Paste {
    /// Where it stands in the text as it is read.
    pub range: Range<usize>,
    /// How many bytes of the source it replaced.
    pub replaced: usize,
}

/// References that a place evaluates again, known only when their here-documents have been read.
pub(super) struct Mark {
    pub slots: Range<usize>,
    pub here_documents: Range<usize>,
    pub place: &'static Place,
}

pub(super) struct Reader<'a> {
    pub setting: &'a Setting<'a>,
    /// The text as the author wrote it, in which references are parsed.
    pub source: EcoString,
    /// The text as it is read.
    pub text: &'a str,
    pub pastes: &'a [Paste],
    /// What the reading before found out.
    pub names: &'a Names,
    /// What this reading finds out.
    pub found: Names,
    pub pos: usize,
    pub end: usize,
    pub depth: usize,
    pub level: usize,
    /// Why no reference may stand here.
    pub forbidden: Option<&'static str>,
    pub slots: Vec<Slot>,
    pub edits: Vec<Edit>,
    pub problems: Vec<Problem>,
    pub here_documents: Vec<Range<usize>>,
    pub marks: Vec<Mark>,
    /// The here-documents whose lines come behind the next line break.
    pub waiting: Vec<Waiting>,
    pub in_document: bool,
    /// The next subscript is a key.
    pub keyed: bool,
    /// The variables of the shell that the text expands.
    pub expansions: Vec<Expansion>,
    /// The programs that read their text from a standard input that comes from further out.
    pub sinks: Vec<&'static Place>,
    /// The variables that are read from there.
    pub readers: Vec<EcoString>,
    /// A function has a name and no body yet.
    pub defining: bool,
    /// The bodies of functions around the position.
    pub bodies: usize,
    /// Where functions are exported.
    pub exports: Option<Range<usize>>,
    /// The files that the script runs.
    pub runs: BTreeSet<EcoString>,
    /// The files that it writes, with the references whose values may go there.
    pub written: Vec<(EcoString, Range<usize>, Range<usize>)>,
    /// Variables that stand where a number is computed.
    pub computed: Vec<(EcoString, &'static Place)>,
    /// Code from `context` that must be put in before the text can be read.
    pub paste: Option<(Range<usize>, EcoString, EcoString)>,
}

/// Reads a text.
pub(super) fn read(source: &str, setting: &Setting<'_>) -> Read {
    let source_text = EcoString::from(source);
    let limit = setting.syntax.limits.source;
    if source.len() > limit {
        return too_long(limit);
    }
    let mut text = source_text.clone();
    let mut pastes: Vec<Paste> = Vec::new();
    let mut code = Vec::new();
    loop {
        let mut names = Names::default();
        names.set.extend(setting.environment.iter().cloned());
        let mut first = Reader::new(setting, &source_text, &text, &pastes, &names);
        first.whole();
        let (mut found, paste) = (std::mem::take(&mut first.found), first.paste.take());
        if let Some((range, name, literal)) = paste
            && pastes.len() < MAX_PASTES
            && text.len() + literal.len() <= limit
        {
            drop(first);
            text = paste_code(&text, &range, &literal, &mut pastes);
            code.push(name);
            continue;
        }
        drop(first);
        found.set.extend(names.set);
        let mut second = Reader::new(setting, &source_text, &text, &pastes, &found);
        second.whole();
        if let Some((range, ..)) = second.paste.take() {
            second.unknown(range, "too much code from `context`", "write the command out");
        }
        second.settle();
        let (mut slots, mut edits, mut problems) = (second.slots, second.edits, second.problems);
        edits.sort_by_key(|edit| edit.range.start);
        slots.shrink_to_fit();
        problems.truncate(4 * MAX_PROBLEMS);
        return Read { text, slots, edits, problems, code };
    }
}

fn too_long(limit: usize) -> Read {
    let message = format!("over the limit: {}, at most {limit} bytes", Limit::Source.name());
    let problem =
        Problem { id: "limit", severity: Severity::Error, span: Span::default(), message, hint: None };
    Read {
        text: EcoString::new(),
        slots: Vec::new(),
        edits: Vec::new(),
        problems: vec![problem],
        code: Vec::new(),
    }
}

/// Puts code in the place of its reference.
fn paste_code(text: &str, range: &Range<usize>, literal: &str, pastes: &mut Vec<Paste>) -> EcoString {
    let mut whole = EcoString::with_capacity(text.len() + literal.len());
    whole.push_str(&text[..range.start]);
    whole.push_str(literal);
    whole.push_str(&text[range.end..]);
    for paste in pastes.iter_mut().filter(|paste| paste.range.start >= range.end) {
        let shift = |at: usize| at + literal.len() - range.len();
        paste.range = shift(paste.range.start)..shift(paste.range.end);
    }
    pastes.push(Paste { range: range.start..range.start + literal.len(), replaced: range.len() });
    pastes.sort_by_key(|paste| paste.range.start);
    whole
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        setting: &'a Setting<'a>,
        source: &EcoString,
        text: &'a str,
        pastes: &'a [Paste],
        names: &'a Names,
    ) -> Self {
        Self {
            setting,
            source: source.clone(),
            text,
            pastes,
            names,
            found: Names::default(),
            pos: 0,
            end: text.len(),
            depth: 0,
            level: 0,
            forbidden: None,
            slots: Vec::new(),
            edits: Vec::new(),
            problems: Vec::new(),
            here_documents: Vec::new(),
            marks: Vec::new(),
            waiting: Vec::new(),
            in_document: false,
            keyed: false,
            expansions: Vec::new(),
            sinks: Vec::new(),
            readers: Vec::new(),
            defining: false,
            bodies: 0,
            exports: None,
            runs: BTreeSet::new(),
            written: Vec::new(),
            computed: Vec::new(),
            paste: None,
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.setting.dialect
    }

    // ---- positions -------------------------------------------------------------------------------------

    pub(super) fn peek(&self) -> Option<u8> {
        self.at(self.pos)
    }

    pub(super) fn at(&self, at: usize) -> Option<u8> {
        if at < self.end { Some(self.text.as_bytes()[at]) } else { None }
    }

    pub(super) fn starts_with(&self, token: &str) -> bool {
        self.text.as_bytes()[self.pos..self.end].starts_with(token.as_bytes())
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    /// A position of the text in the author's source; inside of pasted code it is where the reference stands.
    pub(super) fn origin(&self, at: usize) -> usize {
        let mut origin = at;
        for paste in self.pastes.iter().rev().filter(|paste| paste.range.start < at) {
            origin = if at >= paste.range.end {
                origin - paste.range.len() + paste.replaced
            } else {
                origin - (at - paste.range.start)
            };
        }
        origin
    }

    fn is_pasted(&self, at: usize) -> bool {
        self.pastes.iter().any(|paste| paste.range.contains(&at))
    }

    /// A range of the text as a span of the author's source, at characters.
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        if self.is_pasted(start) {
            let paste = self.pastes.iter().find(|paste| paste.range.contains(&start));
            let from = paste.map_or(start, |paste| self.origin(paste.range.start));
            return Span::new(from, from + paste.map_or(0, |paste| paste.replaced));
        }
        let start = self.source.floor_char_boundary(self.origin(start).min(self.source.len()));
        let end = self.source.ceil_char_boundary(self.origin(end).min(self.source.len()));
        Span::new(start, end.max(start))
    }

    // ---- problems --------------------------------------------------------------------------------------

    pub(super) fn problem(
        &mut self,
        id: &'static str,
        range: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(Severity::Error, id, range, message.into(), hint.into());
    }

    pub(super) fn warn(
        &mut self,
        id: &'static str,
        range: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(Severity::Warning, id, range, message.into(), hint.into());
    }

    fn report(
        &mut self,
        severity: Severity,
        id: &'static str,
        range: Range<usize>,
        message: String,
        hint: String,
    ) {
        let span = self.span(range.start, range.end);
        self.report_at(Problem { id, severity, span, message, hint: Some(hint) });
    }

    pub(super) fn report_at(&mut self, problem: Problem) {
        if self.problems.len() < 4 * MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Text that the reader does not know; what follows may be read wrongly, so the script is refused.
    pub(super) fn unknown(
        &mut self,
        range: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problem("shell-unknown", range, message, hint);
    }

    /// Counts a level of nesting; behind the limit the rest of the text is not read.
    pub(super) fn nested(&mut self, inner: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_DEPTH {
            let at = self.pos;
            self.unknown(
                at..at + 1,
                format!("nested more than {MAX_DEPTH} deep"),
                "write a part of it as a function",
            );
            self.pos = self.end;
            return;
        }
        self.depth += 1;
        inner(self);
        self.depth -= 1;
    }

    // ---- references ------------------------------------------------------------------------------------

    /// At a dollar: everything that can begin with one. Gives whether the reader went on.
    pub(super) fn dollar(&mut self, quote: Quote, in_quotes: bool) {
        let start = self.pos;
        let dollars = self.text.as_bytes()[start..self.end].iter().take_while(|byte| **byte == b'$').count();
        if self.at(start + dollars) == Some(b'{') {
            match dollars {
                1 => self.brace(quote, in_quotes),
                2 => {
                    self.edits.push(Edit { range: start..start + 1, what: What::Text("") });
                    self.pos += 1;
                    self.parameter(in_quotes);
                }
                _ => {
                    self.pos = start + dollars - 1;
                    self.too_many_dollars(start);
                    self.parameter(in_quotes);
                }
            }
            return;
        }
        // Two dollars are the process id; the last of an odd number begins something.
        self.pos += dollars - 1 + usize::from(dollars.is_multiple_of(2));
        if dollars % 2 == 1 {
            self.single_dollar(in_quotes);
        }
    }

    pub(super) fn too_many_dollars(&mut self, start: usize) {
        self.problem(
            "shell-escape",
            start..start + 3,
            "three or more dollars before a brace",
            "write `$${` for the shell's own `${`, and `\\$` for a dollar before a reference",
        );
    }

    /// At `${`: ours or the shell's.
    fn brace(&mut self, quote: Quote, in_quotes: bool) {
        match self.owner(self.pos) {
            Owner::Ours => self.slot(quote),
            Owner::Shell => self.parameter(in_quotes),
            Owner::Unclear(problem) => {
                self.report_at(problem);
                self.parameter(in_quotes);
            }
        }
    }

    /// At a reference of ours.
    pub(super) fn slot(&mut self, quote: Quote) {
        let start = self.pos;
        let origin = self.origin(start);
        if self.is_pasted(start) {
            self.problem(
                "shell-code",
                start..start + 2,
                "code from `context` can hold no references",
                "write the command out where the reference stands",
            );
            self.pos += 2;
            return;
        }
        let reference = match Embedded::parse(&self.source, origin, self.setting.syntax) {
            Ok(reference) => reference,
            Err((error, end)) => {
                let told = error.diagnostic();
                self.report_at(Problem {
                    id: told.id,
                    severity: Severity::Error,
                    span: told.span,
                    message: told.message,
                    hint: told.hints.into_iter().next(),
                });
                self.pos = (start + end - origin).min(self.end);
                return;
            }
        };
        let length = reference.span().range().len();
        let end = start + length;
        if end > self.end || self.pastes.iter().any(|paste| (start..end).contains(&paste.range.start)) {
            self.unknown(
                start..start + 2,
                "a reference that ends outside of its quotes",
                "close it with `}`",
            );
            self.pos = self.end;
            return;
        }
        self.pos = end;
        if let Some(why) = self.forbidden {
            self.unknown(
                start..end,
                format!("a reference cannot stand {why}"),
                "put it in a variable first: `V=${...}`",
            );
            return;
        }
        if reference.binding() == Some(Binding::Raw) {
            self.warn(
                "shell-raw",
                start..end,
                "`raw` pastes the value: the shell reads it as a part of the command",
                "leave `raw` out unless the value is code that you trust",
            );
        }
        if self.slots.len() >= MAX_SLOTS {
            self.problem(
                "limit",
                start..end,
                format!("over the limit: references in a shell text, at most {MAX_SLOTS}"),
                "put the values into a file with `| as_file`",
            );
            self.pos = self.end;
            return;
        }
        self.edits.push(Edit { range: start..end, what: What::Slot(self.slots.len()) });
        let mut slot = Slot::new(reference, quote, self.level);
        slot.in_function = self.bodies > 0;
        self.slots.push(slot);
    }

    // ---- what a place means for the references in it ---------------------------------------------------

    /// Applies a row of the table to a reference.
    pub(super) fn mark(&mut self, slot: usize, place: &'static Place) {
        let Some(found) = self.slots.get_mut(slot) else { return };
        if found.places.iter().any(|known| known.id == place.id)
            || found.reference.binding() == Some(Binding::Raw)
        {
            return;
        }
        found.places.push(place);
        if let Some(problem) = found.problem(place, self.setting.dialect) {
            self.report_at(problem);
        }
    }

    pub(super) fn mark_all(&mut self, slots: Range<usize>, place: &'static Place) {
        for slot in slots {
            self.mark(slot, place);
        }
    }

    /// What could be told only at the end.
    fn settle(&mut self) {
        for (file, slots, here_documents) in std::mem::take(&mut self.written) {
            if self.runs.contains(&file) {
                self.marks.push(Mark { slots, here_documents, place: place("script-file") });
            }
        }
        for mark in std::mem::take(&mut self.marks) {
            let documents: Vec<_> = self.here_documents[mark.here_documents.clone()].to_vec();
            self.mark_all(mark.slots, mark.place);
            for slots in documents {
                self.mark_all(slots, mark.place);
            }
        }
        if let Some(range) = self.exports.take()
            && self.slots.iter().any(|slot| slot.in_function)
        {
            self.unknown(
                range,
                "a function that is run by another shell cannot hold a reference, whose variable that shell does not have",
                "give the value to the function as an argument",
            );
        }
        for (name, row) in std::mem::take(&mut self.computed) {
            let held = self.found.holding.get(&name).cloned().unwrap_or_default();
            held.slots.iter().for_each(|slot| self.mark(*slot, row));
            if held.overflow {
                let message = format!("`{name}` holds too many values to check that each is an int");
                let span = self.span(0, 0);
                let hint = Some(row.safe.to_owned());
                self.report_at(Problem {
                    id: "shell-evaluates",
                    severity: Severity::Error,
                    span,
                    message,
                    hint,
                });
            }
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].reference.binding() == Some(Binding::Words) && !self.slots[slot].is_word {
                let span = self.slots[slot].reference.span();
                self.report_at(Problem {
                    id: "shell-words",
                    severity: Severity::Error,
                    span,
                    message: "`words` may be several words, and cannot stand here".to_owned(),
                    hint: Some(
                        "let it stand alone, outside of quotes, as an argument or in a list".to_owned(),
                    ),
                });
            }
        }
    }

    /// The reference stands where a number is computed.
    pub(super) fn arithmetic_slots(&mut self, from: usize, id: &'static str) {
        let level = self.level;
        for slot in from..self.slots.len() {
            if self.slots[slot].level == level {
                self.mark(slot, place(id));
            }
        }
    }
}
