//! Commands: lists, pipelines, compound commands, redirections and here-documents.

use std::ops::Range;

use super::Dialect;
use super::hazards::{self, Hazard, is_code_variable};
use super::inspect::read_names;
use super::names::{Owner, shell_name};
use super::reader::{Edit, PasteRequest, Quote, Replacement, ScriptReader};
use super::words::{ArithmeticEnd, Word};

/// Maximum length of a subscript in an assignment, in bytes.
const MAX_SUBSCRIPT: usize = 4096;

/// What ends a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    /// The end of the text.
    Text,
    Paren,
    /// `;;`, or `esac`.
    Case,
}

/// A simple command, or the redirections after a compound one.
#[derive(Default)]
pub(super) struct SimpleCommand {
    pub words: Vec<Word>,
    pub assignments: Vec<(Range<usize>, Word)>,
    /// References that are redirected to standard input.
    pub inputs: Vec<Range<usize>>,
    pub here_documents: Vec<usize>,
    /// The files that the output is redirected to.
    pub outputs: Vec<Word>,
    /// Set at the end of a compound command: what was known where it began.
    pub compound: Option<Checkpoint>,
    /// Number of references before the command.
    pub slots: usize,
    /// Number of here-documents before the command.
    pub documents: usize,
}

/// The state of reading one list of commands.
struct ShellListFrame {
    command: SimpleCommand,
    /// What was known where the pipeline began.
    pipeline: Checkpoint,
    /// Whether the command reads from the one before it.
    piped: bool,
    /// The compound commands around the position.
    open: Vec<OpenCompound>,
    /// What arrives on standard input from outside the list.
    input: Option<Checkpoint>,
}

/// A compound command that is not closed yet, and the pipeline that it is part of.
struct OpenCompound {
    pipeline: Checkpoint,
    piped: bool,
    is_function_body: bool,
}

/// How much was known at a position: lengths of the lists of the reader.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    slots: usize,
    documents: usize,
    sinks: usize,
    readers: usize,
}

/// A here-document whose lines have not been read yet.
pub(super) struct PendingDocument {
    delimiter: String,
    strip: bool,
    quoted: bool,
    word: Range<usize>,
    index: usize,
}

impl ScriptReader<'_> {
    /// Reads the whole text.
    pub(super) fn read_text(&mut self) {
        self.report_reserved_names();
        self.read_list(ListEnd::Text);
        self.report_unread_documents();
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            slots: self.slots.len(),
            documents: self.here_documents.len(),
            sinks: self.sinks.len(),
            readers: self.readers.len(),
        }
    }

    /// Refuses variables with the names that are reserved for bound values.
    fn report_reserved_names(&mut self) {
        let mut from = 0;
        while let Some(found) = self.text[from..].find("TL_") {
            let at = from + found;
            let alone = !self.text[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_');
            let behind = &self.text[at + 3..];
            if alone && (behind.starts_with(|char: char| char.is_ascii_digit()) || behind.starts_with("IN_"))
            {
                self.report_error(
                    "shell-reserved",
                    at..at + 3,
                    "variables named `TL_` and a number are reserved for bound values",
                    "rename the variable",
                );
            }
            from = at + 3;
        }
    }

    // ---- lists -----------------------------------------------------------------------------------------

    /// Reads commands up to the end of the list, which stays unread. Returns whether `esac` was the end.
    pub(super) fn read_list(&mut self, end: ListEnd) -> bool {
        self.read_list_from(end, None)
    }

    fn read_list_from(&mut self, end: ListEnd, input: Option<Checkpoint>) -> bool {
        let start = self.checkpoint();
        let mut frame = ShellListFrame {
            command: SimpleCommand::default(),
            pipeline: start,
            piped: false,
            open: Vec::new(),
            input,
        };
        self.begin_command(&mut frame);
        loop {
            self.skip_blanks();
            match self.peek() {
                None => break,
                Some(b')') if end == ListEnd::Paren => break,
                Some(b'\n') => {
                    self.pos += 1;
                    self.end_command(&mut frame);
                    self.read_documents();
                    // A document belongs to the line before.
                    self.begin_pipeline(&mut frame);
                }
                Some(b'#') => self.skip_comment(),
                Some(b';')
                    if matches!(self.at(self.pos + 1), Some(b';' | b'&' | b'|')) && end == ListEnd::Case =>
                {
                    break;
                }
                Some(b';') => {
                    self.pos += 1;
                    self.end_command(&mut frame);
                }
                Some(b'&') if self.at(self.pos + 1) == Some(b'>') && self.dialect() != Dialect::Posix => {
                    self.pos += 1;
                    self.read_redirection(&mut frame);
                }
                Some(b'&') => {
                    self.pos += 1;
                    self.eat("&");
                    self.end_command(&mut frame);
                }
                Some(b'|') if self.eat("||") => self.end_command(&mut frame),
                Some(b'|') => {
                    self.pos += 1;
                    self.eat("&");
                    self.finish_command(&mut frame);
                    frame.piped = true;
                }
                Some(b'<' | b'>')
                    if self.at(self.pos + 1) != Some(b'(') || self.dialect() == Dialect::Posix =>
                {
                    self.read_redirection(&mut frame);
                }
                Some(b'(') => self.read_parenthesis(&mut frame),
                Some(b')') => {
                    let at = self.pos;
                    self.report_unknown(at..at + 1, "unmatched `)`", "quote it, or open it with `(`");
                    self.pos += 1;
                }
                Some(_) => {
                    if self.read_command_word(&mut frame, end) {
                        self.finish_command(&mut frame);
                        return true;
                    }
                }
            }
        }
        self.finish_command(&mut frame);
        false
    }

    fn begin_command(&mut self, frame: &mut ShellListFrame) {
        frame.command = SimpleCommand {
            slots: self.slots.len(),
            documents: self.here_documents.len(),
            ..SimpleCommand::default()
        };
    }

    fn begin_pipeline(&mut self, frame: &mut ShellListFrame) {
        if !frame.piped {
            frame.pipeline = self.checkpoint();
        }
        self.begin_command(frame);
    }

    /// After `;`, `&`, `&&`, `||` or a line break. A line break after `|` separates nothing.
    fn end_command(&mut self, frame: &mut ShellListFrame) {
        let empty = frame.command.words.is_empty()
            && frame.command.assignments.is_empty()
            && frame.command.compound.is_none();
        self.finish_command(frame);
        if !(empty && frame.piped) {
            frame.piped = false;
            frame.pipeline = self.checkpoint();
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'\n') => self.pos += 2,
                _ => return,
            }
        }
    }

    fn skip_blank_lines(&mut self) {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'\n') => {
                    self.pos += 1;
                    self.read_documents();
                }
                Some(b'#') => self.skip_comment(),
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.pos += 1;
        }
    }

    /// Reads a word. Returns whether it was the `esac` that ends the list.
    fn read_command_word(&mut self, frame: &mut ShellListFrame, end: ListEnd) -> bool {
        let begins = frame.command.words.is_empty() && frame.command.compound.is_none();
        if begins && self.read_assignment(frame) {
            return false;
        }
        if begins && self.request_paste() {
            return false;
        }
        let word = self.read_word();
        if word.range.is_empty() {
            let at = self.pos;
            self.report_unknown(at..at + 1, "unexpected character", "quote it");
            self.pos += 1;
            return false;
        }
        if matches!(self.peek(), Some(b'<' | b'>')) && self.is_descriptor(&word) {
            return false;
        }
        if begins && frame.command.assignments.is_empty() && word.fixed && !word.quoted {
            if end == ListEnd::Case && word.literal == "esac" {
                return true;
            }
            if self.read_keyword(frame, &word) {
                return false;
            }
        }
        if self.read_array_argument(frame, &word) {
            return false;
        }
        frame.command.words.push(word);
        false
    }

    /// `2>` or `{name}>`: the word belongs to the redirection.
    fn is_descriptor(&mut self, word: &Word) -> bool {
        if word.quoted || !word.fixed {
            return false;
        }
        let name = word.literal.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        if let Some(name) = name {
            self.note_set(name);
            return shell_name(name) == name && !name.is_empty();
        }
        !word.literal.is_empty() && word.literal.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Reads a keyword at the start of a command. Returns whether there was one.
    fn read_keyword(&mut self, frame: &mut ShellListFrame, word: &Word) -> bool {
        match word.literal.as_str() {
            "if" | "while" | "until" | "{" => {
                let body = word.literal == "{" && std::mem::take(&mut self.defining);
                self.open_compound(frame, body);
            }
            "then" | "else" | "elif" | "do" => {
                frame.piped = false;
                self.begin_pipeline(frame);
            }
            "!" | "coproc" => {}
            "time" => {
                self.skip_blanks();
                if self.starts_with("-p ") {
                    self.pos += 2;
                }
            }
            "fi" | "done" | "}" | "esac" => self.close_compound(frame),
            "for" | "select" | "foreach" => {
                self.open_compound(frame, false);
                self.read_for_header();
            }
            "case" => {
                let start = frame.pipeline;
                self.with_nesting(Self::read_case);
                frame.command.compound = Some(start);
            }
            "function" => {
                self.skip_blanks();
                let name = self.read_word();
                self.note_function(&name);
                self.skip_blanks();
                if self.eat("(") {
                    self.skip_blanks();
                    self.eat(")");
                }
            }
            "[[" if self.dialect() != Dialect::Posix => self.read_conditional(frame),
            _ => return false,
        }
        true
    }

    fn open_compound(&mut self, frame: &mut ShellListFrame, is_function_body: bool) {
        frame.open.push(OpenCompound { pipeline: frame.pipeline, piped: frame.piped, is_function_body });
        self.bodies += usize::from(is_function_body);
        frame.piped = false;
        frame.pipeline = self.checkpoint();
        self.begin_command(frame);
    }

    fn close_compound(&mut self, frame: &mut ShellListFrame) {
        let unopened = OpenCompound { pipeline: frame.pipeline, piped: frame.piped, is_function_body: false };
        let compound = frame.open.pop().unwrap_or(unopened);
        self.bodies -= usize::from(compound.is_function_body);
        (frame.pipeline, frame.piped) = (compound.pipeline, compound.piped);
        frame.command.compound = Some(compound.pipeline);
    }

    fn note_function(&mut self, name: &Word) {
        self.defining = true;
        if !name.slots.is_empty() {
            self.mark_all(name.slots.clone(), &hazards::COMMAND_WORD);
        }
        if let Some(name) = name.text() {
            self.found.functions.insert(name.into());
        }
    }

    /// Reads a subshell, arithmetic, or the parentheses of a function, at `(`.
    fn read_parenthesis(&mut self, frame: &mut ShellListFrame) {
        let at = self.pos;
        let begins = frame.command.words.is_empty() && frame.command.assignments.is_empty();
        if begins && frame.command.compound.is_none() {
            if self.starts_with("((") && self.dialect() != Dialect::Posix {
                self.pos += 2;
                self.with_nesting(|reader| {
                    reader.read_arithmetic(ArithmeticEnd::Parens, &hazards::ARITHMETIC);
                });
                frame.command.compound = Some(self.checkpoint());
                return;
            }
            let (start, input) = (self.checkpoint(), Self::input_of(frame));
            let body = usize::from(std::mem::take(&mut self.defining));
            self.bodies += body;
            self.pos += 1;
            self.with_nesting(|reader| {
                reader.read_list_from(ListEnd::Paren, input);
                if reader.pos < reader.end {
                    reader.pos += 1;
                } else {
                    reader.report_unclosed(at, "(");
                }
            });
            self.bodies -= body;
            frame.command.compound = Some(start);
            return;
        }
        if let [name] = &frame.command.words[..]
            && frame.command.assignments.is_empty()
            && frame.command.compound.is_none()
        {
            self.pos += 1;
            self.skip_blanks();
            if self.eat(")") {
                self.note_function(name);
                frame.command.words.clear();
                return;
            }
        }
        self.report_unknown(at..at + 1, "unexpected `(`", "quote it");
        self.pos = at + 1;
    }

    /// What arrives on the standard input of the next command: the pipeline before it, or that of an open
    /// compound.
    fn input_of(frame: &ShellListFrame) -> Option<Checkpoint> {
        if frame.piped {
            return Some(frame.pipeline);
        }
        let around = frame.open.iter().rev().find(|open| open.piped).map(|open| open.pipeline);
        around.or(frame.input)
    }

    // ---- compound commands -----------------------------------------------------------------------------

    fn read_for_header(&mut self) {
        self.skip_blanks();
        if self.eat("((") {
            return self
                .with_nesting(|reader| reader.read_arithmetic(ArithmeticEnd::Parens, &hazards::ARITHMETIC));
        }
        let name = self.read_word();
        self.mark_all(name.slots.clone(), &hazards::LOOP_NAME);
        let names = name.text().map(str::to_owned);
        if let Some(name) = &names {
            self.note_set(name);
        }
        self.skip_blank_lines();
        let (before, edits, problems) = (self.pos, self.edits.len(), self.problems.len());
        let word = self.read_word();
        if !word.is("in") {
            if word.slots.is_empty() {
                // It is no `in`, so the word is read again as part of the body.
                self.pos = before;
                self.edits.truncate(edits);
                self.problems.truncate(problems);
            } else {
                self.report_unknown(
                    word.range.clone(),
                    "a value is not allowed here",
                    "write `for NAME in ...`",
                );
            }
            return;
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b';' | b'\n' | b'&' | b'|' | b')' | b'#') => return,
                Some(_) => {
                    let word = self.read_word();
                    if word.range.is_empty() {
                        return;
                    }
                    self.allow_several_words(&word);
                    self.warn_if_unquoted(&word);
                    if let Some(name) = &names {
                        self.note_held(name, &word);
                    }
                }
            }
        }
    }

    fn read_case(&mut self) {
        let open = self.pos;
        self.skip_blanks();
        self.read_word();
        self.skip_blank_lines();
        let word = self.read_word();
        if !word.is("in") {
            self.report_unknown(
                open..open + 1,
                "`case` without `in`",
                "write `case WORD in PATTERN) ... ;; esac`",
            );
            return;
        }
        loop {
            self.skip_blank_lines();
            if self.peek().is_none() {
                return self.report_unclosed(open.saturating_sub(4), "case");
            }
            if !self.eat("(") {
                let word = self.read_word();
                if word.is("esac") {
                    return;
                }
                if word.range.is_empty() {
                    return self.report_unclosed(open.saturating_sub(4), "case");
                }
            }
            if !self.read_case_patterns() {
                return;
            }
            if self.read_list(ListEnd::Case) {
                return;
            }
            if self.peek().is_none() {
                return self.report_unclosed(open.saturating_sub(4), "case");
            }
            self.pos += 1;
            while matches!(self.peek(), Some(b';' | b'&' | b'|')) {
                self.pos += 1;
            }
        }
    }

    /// Reads the patterns of a clause and the `)` after them.
    fn read_case_patterns(&mut self) -> bool {
        loop {
            self.skip_blank_lines();
            match self.peek() {
                Some(b')') => {
                    self.pos += 1;
                    return true;
                }
                Some(b'|') => self.pos += 1,
                Some(_) => {
                    let at = self.pos;
                    if self.read_word().range.is_empty() {
                        self.report_unknown(at..at + 1, "unexpected character in a pattern", "quote it");
                        self.pos = self.end;
                        return false;
                    }
                }
                None => {
                    let at = self.end.saturating_sub(1);
                    self.report_unknown(at..self.end, "pattern without `)`", "write `PATTERN) ... ;;`");
                    return false;
                }
            }
        }
    }

    /// Reads a conditional after `[[`, including the `]]`.
    fn read_conditional(&mut self, frame: &mut ShellListFrame) {
        let open = self.pos;
        let mut words = vec![Word { literal: "[[".to_owned(), fixed: true, ..Word::default() }];
        loop {
            self.skip_blank_lines();
            match self.peek() {
                None => {
                    self.report_unclosed(open.saturating_sub(2), "[[");
                    break;
                }
                Some(b'(' | b')' | b'<' | b'>' | b'&' | b'|' | b';') => self.pos += 1,
                Some(_) => {
                    let regex = words.last().is_some_and(|word| word.is("=~"));
                    let word = if regex { self.read_regex() } else { self.read_word() };
                    if word.is("]]") {
                        break;
                    }
                    if word.range.is_empty() {
                        self.pos += 1;
                    }
                    words.push(word);
                }
            }
        }
        self.inspect_program("[[", &words);
        frame.command.compound = Some(self.checkpoint());
    }

    /// Reads a regular expression after `=~`, in which parentheses and bars mean nothing to the shell.
    fn read_regex(&mut self) -> Word {
        let mut whole = Word { slots: self.slots.len()..self.slots.len(), ..Word::default() };
        let (start, variables) = (self.pos, self.expansions.len());
        let mut parens = 0_usize;
        loop {
            match self.peek() {
                None | Some(b'\n') => break,
                Some(b' ' | b'\t' | b')') if parens == 0 => break,
                Some(byte @ (b'(' | b')' | b'|' | b'<' | b'>' | b'&' | b';' | b' ' | b'\t')) => {
                    match byte {
                        b'(' => parens += 1,
                        b')' => parens -= 1,
                        _ => {}
                    }
                    self.pos += 1;
                }
                Some(_) => {
                    if self.read_word().range.is_empty() {
                        self.pos += 1;
                    }
                }
            }
        }
        whole.range = start..self.pos;
        whole.slots.end = self.slots.len();
        whole.variables = variables..self.expansions.len();
        whole
    }

    // ---- assignments -----------------------------------------------------------------------------------

    /// Reads `NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(...)` before a command.
    fn read_assignment(&mut self, frame: &mut ShellListFrame) -> bool {
        let start = self.pos;
        let name = shell_name(&self.text[start..self.end]).len();
        if name == 0 {
            return false;
        }
        let range = start..start + name;
        match self.at(range.end) {
            Some(b'=') => self.pos = range.end + 1,
            Some(b'+') if self.at(range.end + 1) == Some(b'=') => self.pos = range.end + 2,
            Some(b'[') if self.dialect() != Dialect::Posix => {
                return self.read_element_assignment(frame, range);
            }
            _ => return false,
        }
        self.read_assigned_value(frame, range);
        true
    }

    /// Reads `NAME[i]=value`, unless it is a pattern that is a word of its own.
    fn read_element_assignment(&mut self, frame: &mut ShellListFrame, name: Range<usize>) -> bool {
        if !self.is_element(name.end) {
            return false;
        }
        self.pos = name.end + 1;
        self.keyed = self.names.associative.contains(&self.text[name.clone()]);
        self.read_arithmetic(ArithmeticEnd::Bracket, &hazards::SUBSCRIPT);
        if self.eat("=") || self.eat("+=") {
            self.read_assigned_value(frame, name);
        } else {
            let at = self.pos;
            self.report_unknown(
                name.start..at,
                "this subscript cannot be analysed",
                "put it into a variable first",
            );
        }
        true
    }

    /// Guesses whether `]=` or `]+=` closes the bracket at a position, without reading what is inside.
    fn is_element(&self, open: usize) -> bool {
        let most = self.end.min(open + MAX_SUBSCRIPT);
        let mut depth = 0_usize;
        for at in open..most {
            match self.text.as_bytes()[at] {
                b'[' => depth += 1,
                b']' => depth = depth.saturating_sub(1),
                b'\n' => return false,
                _ => {}
            }
            if depth == 0 {
                let behind = &self.text.as_bytes()[at + 1..self.end];
                return behind.starts_with(b"=") || behind.starts_with(b"+=");
            }
        }
        false
    }

    fn read_assigned_value(&mut self, frame: &mut ShellListFrame, name: Range<usize>) {
        let text = &self.text[name.clone()];
        self.note_set(text);
        if self.peek() == Some(b'(') && self.dialect() != Dialect::Posix {
            let word = self.read_array();
            self.note_held(text, &word);
            frame.command.assignments.push((name, word));
            return;
        }
        let word = self.read_word();
        self.note_held(text, &word);
        frame.command.assignments.push((name, word));
    }

    /// Reads the elements of an array, at `(`.
    fn read_array(&mut self) -> Word {
        let open = self.pos;
        let (slots, variables) = (self.slots.len(), self.expansions.len());
        self.pos += 1;
        loop {
            self.skip_blank_lines();
            match self.peek() {
                None => {
                    self.report_unclosed(open, "(");
                    break;
                }
                Some(b')') => {
                    self.pos += 1;
                    break;
                }
                Some(b'[') => {
                    self.pos += 1;
                    self.read_arithmetic(ArithmeticEnd::Bracket, &hazards::SUBSCRIPT);
                    self.eat("=");
                }
                Some(_) => {
                    let word = self.read_word();
                    if word.range.is_empty() {
                        let at = self.pos;
                        self.report_unknown(at..at + 1, "unexpected character in an array", "quote it");
                        self.pos += 1;
                    }
                    self.allow_several_words(&word);
                    self.warn_if_unquoted(&word);
                }
            }
        }
        Word {
            range: open..self.pos,
            slots: slots..self.slots.len(),
            variables: variables..self.expansions.len(),
            ..Word::default()
        }
    }

    /// Reads an array that is an argument, as in `declare a=(...)`.
    fn read_array_argument(&mut self, frame: &mut ShellListFrame, word: &Word) -> bool {
        let declares = frame
            .command
            .words
            .first()
            .and_then(Word::text)
            .is_some_and(|name| matches!(name, "declare" | "typeset" | "local" | "export" | "readonly"));
        if !declares
            || self.peek() != Some(b'(')
            || !word.literal.ends_with('=')
            || self.dialect() == Dialect::Posix
        {
            return false;
        }
        let name = shell_name(&word.literal).to_owned();
        self.note_set(&name);
        let array = self.read_array();
        self.note_held(&name, &array);
        if is_code_variable(&name) {
            self.mark_word(&array, &hazards::CODE_VARIABLE);
        }
        true
    }

    // ---- redirections ----------------------------------------------------------------------------------

    /// Reads a redirection, at `<` or `>`.
    fn read_redirection(&mut self, frame: &mut ShellListFrame) {
        let at = self.pos;
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| self.starts_with(operator)).unwrap_or(">");
        self.pos += operator.len();
        self.skip_blanks();
        if matches!(operator, "<<" | "<<-") {
            return self.read_delimiter(frame, operator == "<<-");
        }
        let word = self.read_word();
        if word.range.is_empty() {
            self.report_unknown(
                at..at + operator.len(),
                format!("`{operator}` without a file"),
                "name the file",
            );
            return;
        }
        if matches!(operator, "<&" | ">&") && !word.slots.is_empty() {
            self.report_unknown(
                word.range.clone(),
                "a value cannot name a file descriptor",
                "write out the number, or use a file: `> ${path}`",
            );
        }
        if operator.starts_with('<') {
            frame.command.inputs.push(word.slots.clone());
        }
        if operator != "<<<" {
            self.warn_if_unquoted(&word);
        }
        if operator.starts_with('>') && operator != ">&" {
            frame.command.outputs.push(word);
        }
    }

    /// Reads the word after `<<`, which ends the here-document.
    fn read_delimiter(&mut self, frame: &mut ShellListFrame, strip: bool) {
        let start = self.pos;
        let forbidden = self.forbidden.replace("in the delimiter of a here-document");
        let word = self.read_word();
        self.forbidden = forbidden;
        if !word.fixed || word.range.is_empty() {
            self.report_unknown(
                start..self.pos.max(start + 1),
                "here-document without a plain delimiter",
                "write `<<EOF`",
            );
            return;
        }
        let index = self.here_documents.len();
        self.here_documents.push(0..0);
        frame.command.here_documents.push(index);
        self.waiting.push(PendingDocument {
            delimiter: word.literal.clone(),
            strip,
            quoted: word.quoted,
            word: word.range,
            index,
        });
    }

    /// Reads the lines of the pending here-documents, after a line break.
    fn read_documents(&mut self) {
        for document in std::mem::take(&mut self.waiting) {
            self.read_document(&document);
        }
    }

    pub(super) fn report_unread_documents(&mut self) {
        for document in std::mem::take(&mut self.waiting) {
            self.report_unended(&document);
        }
    }

    fn report_unended(&mut self, document: &PendingDocument) {
        self.report_error(
            "shell-unclosed",
            document.word.clone(),
            format!("the here-document has no closing line `{}`", document.delimiter),
            "end it with this line, with nothing before or after the word",
        );
    }

    fn read_document(&mut self, document: &PendingDocument) {
        let start = self.pos;
        let mut line = start;
        let end = loop {
            if line >= self.end {
                self.pos = self.end;
                return self.report_unended(document);
            }
            let rest = &self.text[line..self.end];
            let length = rest.find('\n').unwrap_or(rest.len());
            let mut text = &rest[..length];
            if document.strip {
                text = text.trim_start_matches('\t');
            }
            if text == document.delimiter {
                break line;
            }
            line += length + 1;
        };
        let after = {
            let rest = &self.text[end..self.end];
            end + rest.find('\n').map_or(rest.len(), |at| at + 1)
        };
        let slots = self.slots.len();
        let outer = std::mem::replace(&mut self.end, end);
        if document.quoted {
            self.read_quoted_document(document, end);
        } else {
            self.read_plain_document();
        }
        self.end = outer;
        self.pos = after;
        self.here_documents[document.index] = slots..self.slots.len();
    }

    fn read_plain_document(&mut self) {
        let mut word = Word::default();
        let outer = std::mem::replace(&mut self.in_document, true);
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.read_backslash(true, &mut word),
                b'$' => self.read_dollar(Quote::Inside, true),
                b'`' => self.read_backquotes(true),
                _ => self.pos += 1,
            }
        }
        self.in_document = outer;
    }

    /// Reads a here-document in which the shell expands nothing. If it contains a reference, it is turned
    /// into one that the shell expands, and everything that the author wrote is escaped.
    fn read_quoted_document(&mut self, document: &PendingDocument, end: usize) {
        let (start, slots, edits) = (self.pos, self.slots.len(), self.edits.len());
        while let Some(byte) = self.peek() {
            match byte {
                b'$' => self.read_literal_dollar(Quote::Inside),
                b'\\' if self.at(self.pos + 1) == Some(b'$') && self.at(self.pos + 2) == Some(b'{') => {
                    self.pos += 1;
                }
                _ => self.pos += 1,
            }
        }
        if self.slots.len() == slots {
            return;
        }
        if !document.delimiter.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            || document.delimiter.is_empty()
        {
            self.report_unknown(
                document.word.clone(),
                "a here-document with references needs a plain delimiter",
                "use letters, digits and `_` only",
            );
        }
        let own: Vec<Edit> = self.edits.drain(edits..).collect();
        self.unquote_delimiter(&document.word);
        let mut at = start;
        for edit in own {
            self.escape_range(at, edit.range.start);
            at = edit.range.end;
            match edit.replacement {
                Replacement::Slot(slot) => {
                    self.edits.push(Edit { range: edit.range, replacement: Replacement::Slot(slot) });
                }
                // Of `$${` the first dollar is replaced by a backslash before the second.
                Replacement::Text(_) => {
                    self.edits.push(Edit {
                        range: edit.range.start..at + 1,
                        replacement: Replacement::Text("\\$"),
                    });
                    at += 1;
                }
            }
        }
        self.escape_range(at, end);
    }

    /// Removes the quotes of a delimiter.
    fn unquote_delimiter(&mut self, word: &Range<usize>) {
        for at in word.clone() {
            if matches!(self.text.as_bytes()[at], b'\'' | b'"' | b'\\') {
                self.edits.push(Edit { range: at..at + 1, replacement: Replacement::Text("") });
            }
        }
    }

    /// Puts a backslash before every character that the shell would expand in a here-document.
    fn escape_range(&mut self, start: usize, end: usize) {
        for at in start..end {
            if matches!(self.text.as_bytes()[at], b'\\' | b'$' | b'`') {
                self.edits.push(Edit { range: at..at, replacement: Replacement::Text("\\") });
            }
        }
    }

    // ---- the end of a command --------------------------------------------------------------------------

    fn finish_command(&mut self, frame: &mut ShellListFrame) {
        let input = Self::input_of(frame);
        let command = std::mem::take(&mut frame.command);
        self.begin_command(frame);
        for (name, word) in &command.assignments {
            if is_code_variable(&self.text[name.clone()]) {
                self.mark_word(word, &hazards::CODE_VARIABLE);
            }
        }
        if let Some(first) = command.words.first() {
            let external = first.text().is_none_or(|name| !self.is_builtin(name));
            if external {
                for (_, word) in &command.assignments {
                    self.mark_external(word);
                }
            }
        }
        self.note_output_files(&command, frame.pipeline);
        if command.compound.is_some() {
            self.feed_compound(&command);
        } else if !command.words.is_empty() {
            self.inspect_command(&command.words);
            self.feed_command(&command, input);
        }
    }

    /// Notes the files that a command writes, with every reference that its pipeline could put there.
    fn note_output_files(&mut self, command: &SimpleCommand, pipeline: Checkpoint) {
        let (slots, documents) =
            (pipeline.slots..self.slots.len(), pipeline.documents..self.here_documents.len());
        let tee = command.words.first().and_then(Word::text) == Some("tee");
        let operands = if tee { &command.words[1..] } else { &[] };
        for file in command.outputs.iter().chain(operands) {
            self.note_written_file(file, slots.clone(), documents.clone());
        }
    }

    /// Applies the standard input of a command: to programs that run it, and to `read`.
    fn feed_command(&mut self, command: &SimpleCommand, input: Option<Checkpoint>) {
        let Some(sink) = self.find_input_sink(&command.words) else {
            return self.feed_names(command, input);
        };
        if command.inputs.is_empty() && command.here_documents.is_empty() {
            self.sinks.push(sink);
        }
        self.feed_hazard(command, input, sink);
    }

    fn feed_hazard(&mut self, command: &SimpleCommand, input: Option<Checkpoint>, sink: &'static Hazard) {
        for slots in &command.inputs {
            self.mark_all(slots.clone(), sink);
        }
        for index in &command.here_documents {
            self.defer_hazard(0..0, *index..*index + 1, sink);
        }
        if let Some(start) = input {
            self.defer_hazard(start.slots..command.slots, start.documents..command.documents, sink);
        }
    }

    fn feed_names(&mut self, command: &SimpleCommand, input: Option<Checkpoint>) {
        let names = read_names(&command.words);
        for name in names {
            for slots in &command.inputs {
                self.note_held_slots(&name, slots.clone());
            }
            if let Some(start) = input {
                self.note_held_slots(&name, start.slots..command.slots);
            }
            self.readers.push(name);
        }
    }

    /// Applies redirections after a compound command to the commands inside it.
    fn feed_compound(&mut self, command: &SimpleCommand) {
        let Some(Checkpoint { sinks, readers, .. }) = command.compound else { return };
        if command.inputs.is_empty() && command.here_documents.is_empty() {
            return;
        }
        let sinks: Vec<_> = self.sinks[sinks.min(self.sinks.len())..].to_vec();
        for sink in sinks {
            self.feed_hazard(command, None, sink);
        }
        let readers: Vec<_> = self.readers[readers.min(self.readers.len())..].to_vec();
        for name in readers {
            for slots in &command.inputs {
                self.note_held_slots(&name, slots.clone());
            }
        }
    }

    // ---- code from context -----------------------------------------------------------------------------

    /// Requests the code of a `context` or `param` entry, if a command begins with a reference to one that is
    /// a literal of the file.
    fn request_paste(&mut self) -> bool {
        if !self.starts_with("${") || self.pastes.iter().any(|paste| paste.range.contains(&self.pos)) {
            return false;
        }
        let Owner::Workflow = self.find_owner(self.pos) else { return false };
        let origin = self.origin(self.pos);
        let Ok(reference) = threadline_lang::Embedded::parse(&self.source, origin, self.context.syntax)
        else {
            return false;
        };
        let end = self.pos + reference.span().range().len();
        let alone = self.at(end).is_none_or(|byte| b" \t\n;&|<>)".contains(&byte));
        let [read] = &reference.references()[..] else { return false };
        let whole = reference.text().trim_start_matches("${").trim_end_matches('}').trim() == read.path;
        // A parameter of a state is requested with its root.
        let own = Some(read.path.as_str()).filter(|path| path.starts_with("param."));
        let (Some(name), true, true) = (read.path.strip_prefix("context.").or(own), alone, whole) else {
            return false;
        };
        if reference.binding().is_some() || end > self.end {
            return false;
        }
        let Some(literal) = (self.context.literal)(name) else { return false };
        self.paste = Some(PasteRequest { range: self.pos..end, name: name.into(), code: literal });
        self.pos = self.end;
        true
    }
}
