//! The reader of shell text: its state, and the references that it finds. What a value reaches is not decided
//! here.
//!
//! A text is read once for the names that the script itself sets. If there are any, it is read again with
//! them, because a name may be set after it is used. Code from `context` is pasted where its reference is,
//! and the text is read again.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

use ecow::EcoString;
use threadline_lang::diag::{Severity, Span};
use threadline_lang::{Binding, Embedded, Limit};

use super::hazards::{self, Hazard, HazardRule};
use super::names::Owner;
use super::redirections::PendingDocument;
use super::tree::{ScriptTree, Word, WordPart};
use super::{AnalysisContext, Dialect, MAX_PROBLEMS, ShellProblem};

/// Maximum nesting of substitutions, subshells and parameters.
const MAX_DEPTH: usize = 64;

/// Maximum number of references in one text.
const MAX_SLOTS: usize = 10_000;

/// Maximum number of pieces of code from `context` in one text.
const MAX_PASTES: usize = 32;

/// The quoting around a reference, which decides how its variable is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// Outside of quotes: the variable gets its own.
    Plain,
    /// Inside double quotes, a here-document or arithmetic: nothing is split there.
    Inside,
    /// Inside single quotes, which are closed before the variable.
    Single,
    /// Inside `$'...'`, which is closed before the variable.
    AnsiC,
}

/// A reference in the text, and the facts about its position.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact about the position")]
pub(super) struct ReferenceSlot {
    pub reference: Embedded,
    pub quote: Quote,
    /// Whether its word begins with it.
    pub begins_word: bool,
    /// Whether it is the whole word, so that `words` may expand to several.
    pub is_word: bool,
    /// Whether the shell splits it before a program gets a piece of it.
    pub is_split: bool,
    /// Whether it reaches a program as an argument or in the environment.
    pub external: bool,
    /// Whether it is inside the body of a function.
    pub in_function: bool,
    /// The hazards that its value is checked for when it is bound.
    pub hazards: Vec<&'static Hazard>,
}

impl ReferenceSlot {
    pub(super) fn new(reference: Embedded, quote: Quote) -> Self {
        Self {
            reference,
            quote,
            begins_word: false,
            is_word: false,
            is_split: false,
            external: false,
            in_function: false,
            hazards: Vec::new(),
        }
    }

    /// The problem of this reference at a hazard, as far as it is known before the value is.
    pub(super) fn problem(&self, hazard: &Hazard, dialect: Dialect) -> Option<ShellProblem> {
        let binding = self.reference.binding();
        let (severity, id) = match hazard.rule {
            HazardRule::Refuse => (Severity::Error, "shell-evaluates"),
            // The elements of a list are checked one by one.
            HazardRule::Int if binding == Some(Binding::Words) && self.is_word => return None,
            HazardRule::Int if binding.is_some() => (Severity::Error, "shell-evaluates"),
            HazardRule::Warn if hazard.is(&hazards::ECHO) && dialect == Dialect::Bash => return None,
            HazardRule::Dash if !self.begins_word || binding == Some(Binding::AsFile) => return None,
            HazardRule::Int => return None,
            HazardRule::Dash => (Severity::Warning, "shell-option"),
            HazardRule::Warn => (Severity::Warning, "shell-altered"),
        };
        let message = format!("a value here {}", hazard.effect);
        Some(ShellProblem {
            id,
            severity,
            span: self.reference.span(),
            message,
            hint: Some(hazard.fix.to_owned()),
            fix: None,
        })
    }
}

/// A range of the text that is replaced for the shell.
pub(super) struct Edit {
    pub range: Range<usize>,
    pub replacement: Replacement,
}

pub(super) enum Replacement {
    /// The variable of a reference, by the index of its slot.
    Slot(usize),
    Text(&'static str),
}

/// The result of reading a text.
pub(super) struct ReadText {
    pub text: EcoString,
    pub tree: ScriptTree,
    pub places: TextPlaces,
    pub slots: Vec<ReferenceSlot>,
    pub edits: Vec<Edit>,
    pub problems: Vec<ShellProblem>,
    pub code: Vec<EcoString>,
}

/// The names that the script sets.
#[derive(Default)]
pub(super) struct ScriptNames {
    /// Variables that the script sets.
    pub set: BTreeSet<EcoString>,
    /// Functions that the script defines.
    pub functions: BTreeSet<EcoString>,
    /// Arrays whose subscripts are keys, not arithmetic.
    pub associative: BTreeSet<EcoString>,
    /// Where text of unknown content is run: any name may be set after it.
    pub unknown_from: Option<usize>,
}

impl ScriptNames {
    /// Whether a second reading with these names would be the same as the first with `known`.
    fn adds_nothing_to(&self, known: &Self) -> bool {
        self.set.is_subset(&known.set) && self.associative.is_empty() && self.unknown_from.is_none()
    }
}

/// Code from `context` that was pasted into the text.
pub(super) struct Paste {
    /// The pasted code, in the text as it is read.
    pub range: Range<usize>,
    /// Number of bytes of the source that it replaced.
    pub replaced: usize,
}

/// Where the ranges of a text with pasted code stand in the source.
#[derive(Default)]
pub(super) struct TextPlaces {
    pub source: EcoString,
    pub pastes: Vec<Paste>,
}

impl TextPlaces {
    /// The position in the source of a position in the text; for pasted code, that of its reference.
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

    /// The span in the source of a range of the text, aligned to characters.
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
}

/// A request to paste code from `context`.
pub(super) struct PasteRequest {
    /// The reference to replace.
    pub range: Range<usize>,
    /// Name of the entry.
    pub name: EcoString,
    /// The literal text of the entry.
    pub code: EcoString,
}

/// Reads a text from left to right, and notes references, edits and problems.
pub(super) struct ScriptReader<'a> {
    pub context: &'a AnalysisContext<'a>,
    /// The text as it is read, with pasted code.
    pub text: &'a str,
    pub places: &'a TextPlaces,
    /// The names that are known from the beginning.
    pub names: &'a ScriptNames,
    /// Whether the text is an argument of a command of another text, in which nothing is a reference.
    pub is_inner: bool,
    /// The names that this reading finds.
    pub found: ScriptNames,
    pub pos: usize,
    pub end: usize,
    pub depth: usize,
    /// Why no reference is allowed at the position, in words that follow "not allowed".
    pub forbidden: Option<&'static str>,
    pub slots: Vec<ReferenceSlot>,
    pub edits: Vec<Edit>,
    pub problems: Vec<ShellProblem>,
    /// The here-documents that have been read, by index.
    pub documents: Vec<Word>,
    /// The here-documents whose lines start after the next line break.
    pub waiting: Vec<PendingDocument>,
    pub in_document: bool,
    /// Whether the next subscript is a key, not arithmetic.
    pub is_key: bool,
    /// Where the keyword of the compound command stands that is being read.
    pub keyword: usize,
    /// Number of function bodies around the position.
    pub bodies: usize,
    /// Where functions are exported.
    pub exports: Option<Range<usize>>,
    /// The code from `context` to paste before the text can be read.
    pub paste: Option<PasteRequest>,
    /// All names in scope, for suggestions; computed at the first problem.
    pub suggestions: OnceCell<Vec<EcoString>>,
}

/// Reads a text, and pastes code from `context` until there is none left to paste.
pub(super) fn read(source: &str, context: &AnalysisContext<'_>) -> ReadText {
    let limit = context.syntax.limits.source;
    if source.len() > limit {
        return too_long(limit);
    }
    let mut text = EcoString::from(source);
    let mut places = TextPlaces { source: text.clone(), pastes: Vec::new() };
    let mut code = Vec::new();
    let mut names = ScriptNames::default();
    names.set.extend(context.environment.iter().map(|variable| variable.name.clone()));
    loop {
        let mut first = ScriptReader::new(context, &text, &places, &names);
        let mut tree = first.read_text();
        let can_paste = |request: &PasteRequest| {
            places.pastes.len() < MAX_PASTES && text.len() + request.code.len() <= limit
        };
        if let Some(request) = first.paste.take_if(|request| can_paste(request)) {
            drop(first);
            text = paste_code(&text, &request, &mut places.pastes);
            code.push(request.name);
            continue;
        }
        let found = std::mem::take(&mut first.found);
        let (slots, edits, problems) = if first.paste.is_none() && found.adds_nothing_to(&names) {
            first.finish()
        } else {
            drop(first);
            let mut known = found;
            known.set.extend(names.set);
            let mut second = ScriptReader::new(context, &text, &places, &known);
            tree = second.read_text();
            second.finish()
        };
        return ReadText { text, tree, places, slots, edits, problems, code };
    }
}

/// Reads a text that is an argument of a command, such as that of `sh -c`. Without a tree, it cannot be read.
pub(super) fn read_inner(text: &str, context: &AnalysisContext<'_>) -> Option<ScriptTree> {
    let (places, mut names) = (TextPlaces::default(), ScriptNames::default());
    for _ in 0..2 {
        let mut reader = ScriptReader::new(context, text, &places, &names);
        reader.is_inner = true;
        let tree = reader.read_text();
        if !reader.problems.is_empty() {
            return None;
        }
        let found = std::mem::take(&mut reader.found);
        if found.associative.is_empty() || !names.associative.is_empty() {
            return Some(tree);
        }
        drop(reader);
        names = found;
    }
    None
}

fn too_long(limit: usize) -> ReadText {
    let message = format!("over the limit: {}, at most {limit} bytes", Limit::Source.name());
    let problem = ShellProblem {
        id: "limit",
        severity: Severity::Error,
        span: Span::default(),
        message,
        hint: None,
        fix: None,
    };
    ReadText {
        text: EcoString::new(),
        tree: ScriptTree::default(),
        places: TextPlaces::default(),
        slots: Vec::new(),
        edits: Vec::new(),
        problems: vec![problem],
        code: Vec::new(),
    }
}

/// Replaces a reference by its code.
fn paste_code(text: &str, request: &PasteRequest, pastes: &mut Vec<Paste>) -> EcoString {
    let PasteRequest { range, code, .. } = request;
    let mut whole = EcoString::with_capacity(text.len() + code.len());
    whole.push_str(&text[..range.start]);
    whole.push_str(code);
    whole.push_str(&text[range.end..]);
    for paste in pastes.iter_mut().filter(|paste| paste.range.start >= range.end) {
        let shift = |at: usize| at + code.len() - range.len();
        paste.range = shift(paste.range.start)..shift(paste.range.end);
    }
    pastes.push(Paste { range: range.start..range.start + code.len(), replaced: range.len() });
    pastes.sort_by_key(|paste| paste.range.start);
    whole
}

impl<'a> ScriptReader<'a> {
    pub(super) fn new(
        context: &'a AnalysisContext<'a>,
        text: &'a str,
        places: &'a TextPlaces,
        names: &'a ScriptNames,
    ) -> Self {
        Self {
            context,
            text,
            places,
            names,
            is_inner: context.is_verbatim,
            found: ScriptNames::default(),
            pos: 0,
            end: text.len(),
            depth: 0,
            forbidden: None,
            slots: Vec::new(),
            edits: Vec::new(),
            problems: Vec::new(),
            documents: Vec::new(),
            waiting: Vec::new(),
            in_document: false,
            is_key: false,
            keyword: 0,
            bodies: 0,
            exports: None,
            paste: None,
            suggestions: OnceCell::new(),
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.context.dialect
    }

    // ---- positions -------------------------------------------------------------------------------------

    pub(super) fn peek(&self) -> Option<u8> {
        self.at(self.pos)
    }

    pub(super) fn at(&self, at: usize) -> Option<u8> {
        if at < self.end { Some(self.text.as_bytes()[at]) } else { None }
    }

    pub(super) fn starts_with(&self, token: &str) -> bool {
        // Behind an escape that nothing follows, the position is past the end.
        self.text.as_bytes().get(self.pos..self.end).is_some_and(|rest| rest.starts_with(token.as_bytes()))
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    /// The span in the source of a range of the text.
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        self.places.span(start, end)
    }

    // ---- problems --------------------------------------------------------------------------------------

    pub(super) fn report_error(
        &mut self,
        id: &'static str,
        range: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(Severity::Error, id, range, message.into(), hint.into());
    }

    pub(super) fn report_warning(
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
        self.push_problem(ShellProblem { id, severity, span, message, hint: Some(hint), fix: None });
    }

    pub(super) fn push_problem(&mut self, problem: ShellProblem) {
        if self.problems.len() < 4 * MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Reports text that the reader cannot interpret. What follows may be misread, so the script is refused.
    pub(super) fn report_unknown(
        &mut self,
        range: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report_error("shell-unknown", range, message, hint);
    }

    /// Reads one level of nesting. Beyond the limit, the rest of the text is not read.
    pub(super) fn with_nesting<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            let at = self.pos;
            self.report_unknown(
                at..at + 1,
                format!("nested more than {MAX_DEPTH} levels deep"),
                "move a part of it into a function",
            );
            self.pos = self.end;
            return None;
        }
        self.depth += 1;
        let read = inner(self);
        self.depth -= 1;
        Some(read)
    }

    // ---- references ------------------------------------------------------------------------------------

    /// Reads everything that can begin with a dollar.
    pub(super) fn read_dollar(&mut self, quote: Quote, in_quotes: bool, word: &mut Word) {
        let start = self.pos;
        let dollars = self.text.as_bytes()[start..self.end].iter().take_while(|byte| **byte == b'$').count();
        if self.at(start + dollars) == Some(b'{') {
            match dollars {
                1 => self.read_brace(quote, in_quotes, word),
                2 => {
                    self.edits.push(Edit { range: start..start + 1, replacement: Replacement::Text("") });
                    self.pos += 1;
                    self.read_parameter(in_quotes, word);
                }
                _ => {
                    self.pos = start + dollars - 1;
                    self.report_dollars(start);
                    self.read_parameter(in_quotes, word);
                }
            }
            return;
        }
        // Two dollars are the process id; the last of an odd number begins an expansion.
        self.pos += dollars - 1 + usize::from(dollars.is_multiple_of(2));
        if dollars > 1 {
            word.push_part(WordPart::Text("$$".into()));
        }
        if dollars % 2 == 1 {
            self.read_single_dollar(in_quotes, word);
        }
    }

    pub(super) fn report_dollars(&mut self, start: usize) {
        self.report_error(
            "shell-escape",
            start..start + 3,
            "three or more dollars before a brace",
            "write `$${` for a `${` of the shell, and `\\$` for a dollar before a reference",
        );
    }

    /// Reads `${`: a reference of the workflow, or a parameter of the shell.
    fn read_brace(&mut self, quote: Quote, in_quotes: bool, word: &mut Word) {
        match self.find_owner(self.pos) {
            Owner::Workflow => {
                let slot = self.slots.len();
                self.read_reference(quote);
                let unread = WordPart::Text("?".into());
                word.push_part(if self.slots.len() > slot { WordPart::Slot(slot) } else { unread });
            }
            Owner::Shell => self.read_parameter(in_quotes, word),
            Owner::Unclear(problem) => {
                self.push_problem(problem);
                self.read_parameter(in_quotes, word);
            }
        }
    }

    /// Reads a reference of the workflow.
    pub(super) fn read_reference(&mut self, quote: Quote) {
        let start = self.pos;
        let origin = self.places.origin(start);
        if self.places.is_pasted(start) {
            self.report_error(
                "shell-code",
                start..start + 2,
                "code from `context` cannot contain references",
                "write out the command in place of the reference",
            );
            self.pos += 2;
            return;
        }
        let reference = match Embedded::parse(&self.places.source, origin, self.context.syntax) {
            Ok(reference) => reference,
            Err((error, end)) => {
                self.push_problem(ShellProblem::from_error(&error));
                self.pos = (start + end - origin).min(self.end);
                return;
            }
        };
        let length = reference.span().range().len();
        let end = start + length;
        if end > self.end || self.places.pastes.iter().any(|paste| (start..end).contains(&paste.range.start))
        {
            self.report_unknown(
                start..start + 2,
                "the reference ends outside of its quotes",
                "close it with `}`",
            );
            self.pos = self.end;
            return;
        }
        self.pos = end;
        if let Some(why) = self.forbidden {
            self.report_unknown(
                start..end,
                format!("a reference is not allowed {why}"),
                "put it in a variable first: `V=${...}`",
            );
            return;
        }
        if reference.binding() == Some(Binding::Raw) {
            self.report_warning(
                "shell-raw",
                start..end,
                "`raw` pastes the value: the shell runs it as part of the command",
                "remove `raw` unless the value is code that you trust",
            );
        }
        if self.slots.len() >= MAX_SLOTS {
            self.report_error(
                "limit",
                start..end,
                format!("over the limit: references in a shell text, at most {MAX_SLOTS}"),
                "put the values into a file with `| as_file`",
            );
            self.pos = self.end;
            return;
        }
        self.edits.push(Edit { range: start..end, replacement: Replacement::Slot(self.slots.len()) });
        let mut slot = ReferenceSlot::new(reference, quote);
        slot.in_function = self.bodies > 0;
        self.slots.push(slot);
    }

    /// Reports what can be decided only at the end, and gives the result.
    fn finish(mut self) -> (Vec<ReferenceSlot>, Vec<Edit>, Vec<ShellProblem>) {
        if let Some(request) = self.paste.take() {
            self.report_unknown(request.range, "too much code from `context`", "write out the command");
        }
        if let Some(range) = self.exports.take()
            && self.slots.iter().any(|slot| slot.in_function)
        {
            self.report_unknown(
                range,
                "an exported function cannot contain a reference: other shells do not have its variable",
                "pass the value to the function as an argument",
            );
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].reference.binding() == Some(Binding::Words) && !self.slots[slot].is_word {
                let span = self.slots[slot].reference.span();
                self.push_problem(ShellProblem {
                    id: "shell-words",
                    severity: Severity::Error,
                    span,
                    message: "`words` can expand to several words, which is not allowed here".to_owned(),
                    hint: Some(
                        "write it on its own, outside of quotes, as an argument or in a list".to_owned(),
                    ),
                    fix: None,
                });
            }
        }
        self.edits.sort_by_key(|edit| edit.range.start);
        self.slots.shrink_to_fit();
        self.problems.truncate(4 * MAX_PROBLEMS);
        (self.slots, self.edits, self.problems)
    }

    /// Allows a reference that is a whole word in a list of words to expand to several.
    pub(super) fn allow_several_words(&mut self, word: &Word) {
        if let [WordPart::Slot(slot)] = word.parts[..]
            && self.slots[slot].quote == Quote::Plain
            && word.range.len() == self.slots[slot].reference.span().range().len()
        {
            self.slots[slot].is_word = true;
        }
    }
}
