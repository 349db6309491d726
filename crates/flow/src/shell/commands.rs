//! Commands: lists, pipelines, compound commands, redirections and here-documents.

use std::ops::Range;

use super::Dialect;
use super::inspect::read_names;
use super::names::{Owner, shell_name};
use super::places::{is_code_variable, place};
use super::reader::{Edit, Quote, Reader, What};
use super::words::{Close, Word};

/// A subscript in an assignment is no longer than this.
const MAX_SUBSCRIPT: usize = 4096;

/// What ends a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The end of the text.
    Text,
    /// `)`.
    Paren,
    /// `;;`, or `esac`.
    Case,
}

/// A simple command, or what follows a compound one.
#[derive(Default)]
pub(super) struct Command {
    pub words: Vec<Word>,
    pub assignments: Vec<(Range<usize>, Word)>,
    /// References that arrive on standard input.
    pub inputs: Vec<Range<usize>>,
    pub here_documents: Vec<usize>,
    /// The files that its output goes to.
    pub outputs: Vec<Word>,
    /// It is the end of a compound command, which began with so many sinks and readers known.
    pub closed: Option<(usize, usize)>,
    /// The references before it.
    pub slots: usize,
    pub documents: usize,
}

/// One list of commands.
struct Frame {
    command: Command,
    /// Where the pipeline began.
    pipeline: Start,
    piped: bool,
    /// The pipelines around the compound commands that are open, and whether each is the body of a function.
    open: Vec<(Start, bool, bool)>,
    /// What arrives on standard input from outside.
    input: Option<Start>,
}

/// How much was known where something began.
#[derive(Clone, Copy)]
pub(super) struct Start {
    slots: usize,
    documents: usize,
    sinks: usize,
    readers: usize,
}

/// A here-document whose lines have not come yet.
pub(super) struct Waiting {
    delimiter: String,
    strip: bool,
    quoted: bool,
    word: Range<usize>,
    index: usize,
}

impl Reader<'_> {
    /// The whole text.
    pub(super) fn whole(&mut self) {
        self.reserved_names();
        self.list(End::Text);
        self.unread_documents();
    }

    fn start(&self) -> Start {
        Start {
            slots: self.slots.len(),
            documents: self.here_documents.len(),
            sinks: self.sinks.len(),
            readers: self.readers.len(),
        }
    }

    /// Our own variables are not the script's.
    fn reserved_names(&mut self) {
        let mut from = 0;
        while let Some(found) = self.text[from..].find("TL_") {
            let at = from + found;
            let alone = !self.text[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_');
            let behind = &self.text[at + 3..];
            if alone && (behind.starts_with(|char: char| char.is_ascii_digit()) || behind.starts_with("IN_"))
            {
                self.problem(
                    "shell-reserved",
                    at..at + 3,
                    "names that begin with `TL_` and a number hold the values",
                    "give the variable another name",
                );
            }
            from = at + 3;
        }
    }

    // ---- lists -----------------------------------------------------------------------------------------

    /// Commands up to what ends the list, which is left; gives whether `esac` did.
    pub(super) fn list(&mut self, end: End) -> bool {
        self.list_from(end, None)
    }

    fn list_from(&mut self, end: End, input: Option<Start>) -> bool {
        let start = self.start();
        let mut frame =
            Frame { command: Command::default(), pipeline: start, piped: false, open: Vec::new(), input };
        self.begin(&mut frame);
        loop {
            self.blanks();
            match self.peek() {
                None => break,
                Some(b')') if end == End::Paren => break,
                Some(b'\n') => {
                    self.pos += 1;
                    self.separate(&mut frame);
                    self.read_documents();
                    // A document belongs to the line before.
                    self.begin_pipeline(&mut frame);
                }
                Some(b'#') => self.comment(),
                Some(b';')
                    if matches!(self.at(self.pos + 1), Some(b';' | b'&' | b'|')) && end == End::Case =>
                {
                    break;
                }
                Some(b';') => {
                    self.pos += 1;
                    self.separate(&mut frame);
                }
                Some(b'&') if self.at(self.pos + 1) == Some(b'>') && self.dialect() != Dialect::Posix => {
                    self.pos += 1;
                    self.redirection(&mut frame);
                }
                Some(b'&') => {
                    self.pos += 1;
                    self.eat("&");
                    self.separate(&mut frame);
                }
                Some(b'|') if self.eat("||") => self.separate(&mut frame),
                Some(b'|') => {
                    self.pos += 1;
                    self.eat("&");
                    self.finish(&mut frame);
                    frame.piped = true;
                }
                Some(b'<' | b'>')
                    if self.at(self.pos + 1) != Some(b'(') || self.dialect() == Dialect::Posix =>
                {
                    self.redirection(&mut frame);
                }
                Some(b'(') => self.parenthesis(&mut frame),
                Some(b')') => {
                    let at = self.pos;
                    self.unknown(at..at + 1, "a `)` that closes nothing", "quote it, or open it with `(`");
                    self.pos += 1;
                }
                Some(_) => {
                    if self.step(&mut frame, end) {
                        self.finish(&mut frame);
                        return true;
                    }
                }
            }
        }
        self.finish(&mut frame);
        false
    }

    fn begin(&mut self, frame: &mut Frame) {
        frame.command =
            Command { slots: self.slots.len(), documents: self.here_documents.len(), ..Command::default() };
    }

    fn begin_pipeline(&mut self, frame: &mut Frame) {
        if !frame.piped {
            frame.pipeline = self.start();
        }
        self.begin(frame);
    }

    /// Behind `;`, `&`, `&&`, `||` or a line break. A line break behind `|` separates nothing.
    fn separate(&mut self, frame: &mut Frame) {
        let empty = frame.command.words.is_empty()
            && frame.command.assignments.is_empty()
            && frame.command.closed.is_none();
        self.finish(frame);
        if !(empty && frame.piped) {
            frame.piped = false;
            frame.pipeline = self.start();
        }
    }

    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'\n') => self.pos += 2,
                _ => return,
            }
        }
    }

    fn blank_lines(&mut self) {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'\n') => {
                    self.pos += 1;
                    self.read_documents();
                }
                Some(b'#') => self.comment(),
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.pos += 1;
        }
    }

    /// A word; gives whether it was the `esac` that ends the list.
    fn step(&mut self, frame: &mut Frame, end: End) -> bool {
        let begins = frame.command.words.is_empty() && frame.command.closed.is_none();
        if begins && self.assignment(frame) {
            return false;
        }
        if begins && self.pastes_code() {
            return false;
        }
        let word = self.word();
        if word.range.is_empty() {
            let at = self.pos;
            self.unknown(at..at + 1, "a character that cannot stand here", "quote it");
            self.pos += 1;
            return false;
        }
        if matches!(self.peek(), Some(b'<' | b'>')) && self.is_descriptor(&word) {
            return false;
        }
        if begins && frame.command.assignments.is_empty() && word.fixed && !word.quoted {
            if end == End::Case && word.literal == "esac" {
                return true;
            }
            if self.keyword(frame, &word) {
                return false;
            }
        }
        if self.array_argument(frame, &word) {
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
            self.sets(name);
            return shell_name(name) == name && !name.is_empty();
        }
        !word.literal.is_empty() && word.literal.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// A keyword where a command begins.
    fn keyword(&mut self, frame: &mut Frame, word: &Word) -> bool {
        match word.literal.as_str() {
            "if" | "while" | "until" | "{" => {
                let body = word.literal == "{" && std::mem::take(&mut self.defining);
                self.open(frame, body);
            }
            "then" | "else" | "elif" | "do" => {
                frame.piped = false;
                self.begin_pipeline(frame);
            }
            "!" | "coproc" => {}
            "time" => {
                self.blanks();
                if self.starts_with("-p ") {
                    self.pos += 2;
                }
            }
            "fi" | "done" | "}" | "esac" => self.close(frame),
            "for" | "select" | "foreach" => {
                self.open(frame, false);
                self.for_header();
            }
            "case" => {
                let start = frame.pipeline;
                self.nested(Self::case);
                frame.command.closed = Some((start.sinks, start.readers));
            }
            "function" => {
                self.blanks();
                let name = self.word();
                self.defines(&name);
                self.blanks();
                if self.eat("(") {
                    self.blanks();
                    self.eat(")");
                }
            }
            "[[" if self.dialect() != Dialect::Posix => self.conditional(frame),
            _ => return false,
        }
        true
    }

    fn open(&mut self, frame: &mut Frame, body: bool) {
        frame.open.push((frame.pipeline, frame.piped, body));
        self.bodies += usize::from(body);
        frame.piped = false;
        frame.pipeline = self.start();
        self.begin(frame);
    }

    fn close(&mut self, frame: &mut Frame) {
        let (pipeline, piped, body) = frame.open.pop().unwrap_or((frame.pipeline, frame.piped, false));
        self.bodies -= usize::from(body);
        (frame.pipeline, frame.piped) = (pipeline, piped);
        frame.command.closed = Some((pipeline.sinks, pipeline.readers));
    }

    fn defines(&mut self, name: &Word) {
        self.defining = true;
        if !name.slots.is_empty() {
            self.mark_all(name.slots.clone(), place("command-word"));
        }
        if let Some(name) = name.text() {
            self.found.functions.insert(name.into());
        }
    }

    /// At `(`: a subshell, arithmetic, or the parentheses of a function.
    fn parenthesis(&mut self, frame: &mut Frame) {
        let at = self.pos;
        let begins = frame.command.words.is_empty() && frame.command.assignments.is_empty();
        if begins && frame.command.closed.is_none() {
            if self.starts_with("((") && self.dialect() != Dialect::Posix {
                self.pos += 2;
                self.nested(|reader| reader.arithmetic(Close::Parens, "arithmetic"));
                frame.command.closed = Some((self.sinks.len(), self.readers.len()));
                return;
            }
            let (start, input) = (self.start(), Self::input_of(frame));
            let body = usize::from(std::mem::take(&mut self.defining));
            self.bodies += body;
            self.pos += 1;
            self.nested(|reader| {
                reader.list_from(End::Paren, input);
                if reader.pos < reader.end {
                    reader.pos += 1;
                } else {
                    reader.unclosed(at, "(");
                }
            });
            self.bodies -= body;
            frame.command.closed = Some((start.sinks, start.readers));
            return;
        }
        if let [name] = &frame.command.words[..]
            && frame.command.assignments.is_empty()
            && frame.command.closed.is_none()
        {
            self.pos += 1;
            self.blanks();
            if self.eat(")") {
                self.defines(name);
                frame.command.words.clear();
                return;
            }
        }
        self.unknown(at..at + 1, "a `(` that cannot stand here", "quote it");
        self.pos = at + 1;
    }

    /// What arrives on the standard input of the next command: the pipeline before it, or that of a command around it.
    fn input_of(frame: &Frame) -> Option<Start> {
        if frame.piped {
            return Some(frame.pipeline);
        }
        let around = frame.open.iter().rev().find(|(_, piped, _)| *piped).map(|(start, ..)| *start);
        around.or(frame.input)
    }

    // ---- compound commands -----------------------------------------------------------------------------

    fn for_header(&mut self) {
        self.blanks();
        if self.eat("((") {
            return self.nested(|reader| reader.arithmetic(Close::Parens, "arithmetic"));
        }
        let name = self.word();
        self.mark_all(name.slots.clone(), place("loop-name"));
        let names = name.text().map(str::to_owned);
        if let Some(name) = &names {
            self.sets(name);
        }
        self.blank_lines();
        let (before, edits, problems) = (self.pos, self.edits.len(), self.problems.len());
        let word = self.word();
        if !word.is("in") {
            if word.slots.is_empty() {
                // It is read again as what it is.
                self.pos = before;
                self.edits.truncate(edits);
                self.problems.truncate(problems);
            } else {
                self.unknown(word.range.clone(), "a value cannot stand here", "write `for NAME in ...`");
            }
            return;
        }
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b';' | b'\n' | b'&' | b'|' | b')' | b'#') => return,
                Some(_) => {
                    let word = self.word();
                    if word.range.is_empty() {
                        return;
                    }
                    self.listed(&word);
                    self.splits(&word);
                    if let Some(name) = &names {
                        self.holds(name, &word);
                    }
                }
            }
        }
    }

    fn case(&mut self) {
        let open = self.pos;
        self.blanks();
        self.word();
        self.blank_lines();
        let word = self.word();
        if !word.is("in") {
            self.unknown(
                open..open + 1,
                "a `case` without `in`",
                "write `case WORD in PATTERN) ... ;; esac`",
            );
            return;
        }
        loop {
            self.blank_lines();
            if self.peek().is_none() {
                return self.unclosed(open.saturating_sub(4), "case");
            }
            if !self.eat("(") {
                let word = self.word();
                if word.is("esac") {
                    return;
                }
                if word.range.is_empty() {
                    return self.unclosed(open.saturating_sub(4), "case");
                }
            }
            if !self.case_patterns() {
                return;
            }
            if self.list(End::Case) {
                return;
            }
            if self.peek().is_none() {
                return self.unclosed(open.saturating_sub(4), "case");
            }
            self.pos += 1;
            while matches!(self.peek(), Some(b';' | b'&' | b'|')) {
                self.pos += 1;
            }
        }
    }

    /// The patterns of a clause, to behind its `)`.
    fn case_patterns(&mut self) -> bool {
        loop {
            self.blank_lines();
            match self.peek() {
                Some(b')') => {
                    self.pos += 1;
                    return true;
                }
                Some(b'|') => self.pos += 1,
                Some(_) => {
                    let at = self.pos;
                    if self.word().range.is_empty() {
                        self.unknown(at..at + 1, "a character that cannot stand in a pattern", "quote it");
                        self.pos = self.end;
                        return false;
                    }
                }
                None => {
                    let at = self.end.saturating_sub(1);
                    self.unknown(at..self.end, "a pattern without `)`", "write `PATTERN) ... ;;`");
                    return false;
                }
            }
        }
    }

    /// Behind `[[`, to behind `]]`.
    fn conditional(&mut self, frame: &mut Frame) {
        let open = self.pos;
        let mut words = vec![Word { literal: "[[".to_owned(), fixed: true, ..Word::default() }];
        loop {
            self.blank_lines();
            match self.peek() {
                None => {
                    self.unclosed(open.saturating_sub(2), "[[");
                    break;
                }
                Some(b'(' | b')' | b'<' | b'>' | b'&' | b'|' | b';') => self.pos += 1,
                Some(_) => {
                    let regex = words.last().is_some_and(|word| word.is("=~"));
                    let word = if regex { self.regex() } else { self.word() };
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
        self.inspect_rows("[[", &words);
        frame.command.closed = Some((self.sinks.len(), self.readers.len()));
    }

    /// A regular expression behind `=~`, in which parentheses and bars mean nothing to the shell.
    fn regex(&mut self) -> Word {
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
                    if self.word().range.is_empty() {
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

    /// `NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(...)` before a command.
    fn assignment(&mut self, frame: &mut Frame) -> bool {
        let start = self.pos;
        let name = shell_name(&self.text[start..self.end]).len();
        if name == 0 {
            return false;
        }
        let range = start..start + name;
        match self.at(range.end) {
            Some(b'=') => self.pos = range.end + 1,
            Some(b'+') if self.at(range.end + 1) == Some(b'=') => self.pos = range.end + 2,
            Some(b'[') if self.dialect() != Dialect::Posix => return self.element(frame, range),
            _ => return false,
        }
        self.assigned(frame, range);
        true
    }

    /// `NAME[i]=value`, or a pattern that is a word of its own.
    fn element(&mut self, frame: &mut Frame, name: Range<usize>) -> bool {
        if !self.is_element(name.end) {
            return false;
        }
        self.pos = name.end + 1;
        self.keyed = self.names.associative.contains(&self.text[name.clone()]);
        self.arithmetic(Close::Bracket, "subscript");
        if self.eat("=") || self.eat("+=") {
            self.assigned(frame, name);
        } else {
            let at = self.pos;
            self.unknown(
                name.start..at,
                "a subscript that the reader cannot follow",
                "put it into a variable first",
            );
        }
        true
    }

    /// Whether `]=` or `]+=` closes the bracket at a position, as well as it can be told without reading what is inside.
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

    fn assigned(&mut self, frame: &mut Frame, name: Range<usize>) {
        let text = &self.text[name.clone()];
        self.sets(text);
        if self.peek() == Some(b'(') && self.dialect() != Dialect::Posix {
            let word = self.array();
            self.holds(text, &word);
            frame.command.assignments.push((name, word));
            return;
        }
        let word = self.word();
        self.holds(text, &word);
        frame.command.assignments.push((name, word));
    }

    /// At `(`: the elements of an array.
    fn array(&mut self) -> Word {
        let open = self.pos;
        let (slots, variables) = (self.slots.len(), self.expansions.len());
        self.pos += 1;
        loop {
            self.blank_lines();
            match self.peek() {
                None => {
                    self.unclosed(open, "(");
                    break;
                }
                Some(b')') => {
                    self.pos += 1;
                    break;
                }
                Some(b'[') => {
                    self.pos += 1;
                    self.arithmetic(Close::Bracket, "subscript");
                    self.eat("=");
                }
                Some(_) => {
                    let word = self.word();
                    if word.range.is_empty() {
                        let at = self.pos;
                        self.unknown(at..at + 1, "a character that cannot stand in an array", "quote it");
                        self.pos += 1;
                    }
                    self.listed(&word);
                    self.splits(&word);
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

    /// `declare a=(...)`: an array as an argument.
    fn array_argument(&mut self, frame: &mut Frame, word: &Word) -> bool {
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
        self.sets(&name);
        let array = self.array();
        self.holds(&name, &array);
        if is_code_variable(&name) {
            self.mark_word(&array, place("code-variable"));
        }
        true
    }

    // ---- redirections ----------------------------------------------------------------------------------

    /// At `<` or `>`.
    fn redirection(&mut self, frame: &mut Frame) {
        let at = self.pos;
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| self.starts_with(operator)).unwrap_or(">");
        self.pos += operator.len();
        self.blanks();
        if matches!(operator, "<<" | "<<-") {
            return self.delimiter(frame, operator == "<<-");
        }
        let word = self.word();
        if word.range.is_empty() {
            self.unknown(at..at + operator.len(), format!("a `{operator}` without a file"), "name the file");
            return;
        }
        if matches!(operator, "<&" | ">&") && !word.slots.is_empty() {
            self.unknown(
                word.range.clone(),
                "a value cannot name a file descriptor",
                "write the number out, or a file: `> ${path}`",
            );
        }
        if operator.starts_with('<') {
            frame.command.inputs.push(word.slots.clone());
        }
        if operator != "<<<" {
            self.splits(&word);
        }
        if operator.starts_with('>') && operator != ">&" {
            frame.command.outputs.push(word);
        }
    }

    /// Behind `<<`: the word that ends the here-document.
    fn delimiter(&mut self, frame: &mut Frame, strip: bool) {
        let start = self.pos;
        let forbidden = self.forbidden.replace("in the delimiter of a here-document");
        let word = self.word();
        self.forbidden = forbidden;
        if !word.fixed || word.range.is_empty() {
            self.unknown(
                start..self.pos.max(start + 1),
                "a here-document without a plain delimiter",
                "write `<<EOF`",
            );
            return;
        }
        let index = self.here_documents.len();
        self.here_documents.push(0..0);
        frame.command.here_documents.push(index);
        self.waiting.push(Waiting {
            delimiter: word.literal.clone(),
            strip,
            quoted: word.quoted,
            word: word.range,
            index,
        });
    }

    /// Behind a line break: the lines of the here-documents that were opened before it.
    fn read_documents(&mut self) {
        for document in std::mem::take(&mut self.waiting) {
            self.read_document(&document);
        }
    }

    pub(super) fn unread_documents(&mut self) {
        for document in std::mem::take(&mut self.waiting) {
            self.unended(&document);
        }
    }

    fn unended(&mut self, document: &Waiting) {
        self.problem(
            "shell-unclosed",
            document.word.clone(),
            format!("the here-document has no line `{}`", document.delimiter),
            "end it with such a line, without anything before or behind",
        );
    }

    fn read_document(&mut self, document: &Waiting) {
        let start = self.pos;
        let mut line = start;
        let end = loop {
            if line >= self.end {
                self.pos = self.end;
                return self.unended(document);
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
            self.quoted_document(document, end);
        } else {
            self.plain_document();
        }
        self.end = outer;
        self.pos = after;
        self.here_documents[document.index] = slots..self.slots.len();
    }

    fn plain_document(&mut self) {
        let mut word = Word::default();
        let outer = std::mem::replace(&mut self.in_document, true);
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.backslash(true, &mut word),
                b'$' => self.dollar(Quote::Inside, true),
                b'`' => self.backticks(true),
                _ => self.pos += 1,
            }
        }
        self.in_document = outer;
    }

    /// A document in which the shell expands nothing. With a reference in it, it becomes one in which the shell
    /// does, and what the author wrote is escaped.
    fn quoted_document(&mut self, document: &Waiting, end: usize) {
        let (start, slots, edits) = (self.pos, self.slots.len(), self.edits.len());
        while let Some(byte) = self.peek() {
            match byte {
                b'$' => self.literal_dollar(Quote::Inside),
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
            self.unknown(
                document.word.clone(),
                "a here-document with references needs a plain delimiter",
                "use letters, digits and `_` only",
            );
        }
        let own: Vec<Edit> = self.edits.drain(edits..).collect();
        self.unquote(&document.word);
        let mut at = start;
        for edit in own {
            self.escape(at, edit.range.start);
            at = edit.range.end;
            match edit.what {
                What::Slot(slot) => self.edits.push(Edit { range: edit.range, what: What::Slot(slot) }),
                // The dollar of `$${` that goes away makes room for the backslash before the other one.
                What::Text(_) => {
                    self.edits.push(Edit { range: edit.range.start..at + 1, what: What::Text("\\$") });
                    at += 1;
                }
            }
        }
        self.escape(at, end);
    }

    /// The delimiter without its quotes.
    fn unquote(&mut self, word: &Range<usize>) {
        for at in word.clone() {
            if matches!(self.text.as_bytes()[at], b'\'' | b'"' | b'\\') {
                self.edits.push(Edit { range: at..at + 1, what: What::Text("") });
            }
        }
    }

    /// A backslash before everything that the shell would read in a here-document.
    fn escape(&mut self, start: usize, end: usize) {
        for at in start..end {
            if matches!(self.text.as_bytes()[at], b'\\' | b'$' | b'`') {
                self.edits.push(Edit { range: at..at, what: What::Text("\\") });
            }
        }
    }

    // ---- the end of a command --------------------------------------------------------------------------

    fn finish(&mut self, frame: &mut Frame) {
        let input = Self::input_of(frame);
        let command = std::mem::take(&mut frame.command);
        self.begin(frame);
        for (name, word) in &command.assignments {
            if is_code_variable(&self.text[name.clone()]) {
                self.mark_word(word, place("code-variable"));
            }
        }
        if let Some(first) = command.words.first() {
            let external = first.text().is_none_or(|name| !self.is_inside(name));
            if external {
                for (_, word) in &command.assignments {
                    self.goes_outside(word);
                }
            }
        }
        self.write_files(&command, frame.pipeline);
        if command.closed.is_some() {
            self.feed_compound(&command);
        } else if !command.words.is_empty() {
            self.inspect(&command.words);
            self.feed(&command, input);
        }
    }

    /// The files that the command writes, with everything that its pipeline could put there.
    fn write_files(&mut self, command: &Command, pipeline: Start) {
        let (slots, documents) =
            (pipeline.slots..self.slots.len(), pipeline.documents..self.here_documents.len());
        let tee = command.words.first().and_then(Word::text) == Some("tee");
        let operands = if tee { &command.words[1..] } else { &[] };
        for file in command.outputs.iter().chain(operands) {
            self.writes_file(file, slots.clone(), documents.clone());
        }
    }

    /// What arrives on standard input, for programs that read their text there and for `read`.
    fn feed(&mut self, command: &Command, input: Option<Start>) {
        let Some(sink) = self.sink(&command.words) else {
            return self.feed_names(command, input);
        };
        if command.inputs.is_empty() && command.here_documents.is_empty() {
            self.sinks.push(sink);
        }
        self.feed_place(command, input, sink);
    }

    fn feed_place(&mut self, command: &Command, input: Option<Start>, sink: &'static super::Place) {
        for slots in &command.inputs {
            self.mark_all(slots.clone(), sink);
        }
        for index in &command.here_documents {
            self.later(0..0, *index..*index + 1, sink);
        }
        if let Some(start) = input {
            self.later(start.slots..command.slots, start.documents..command.documents, sink);
        }
    }

    fn feed_names(&mut self, command: &Command, input: Option<Start>) {
        let names = read_names(&command.words);
        for name in names {
            for slots in &command.inputs {
                self.holds_slots(&name, slots.clone());
            }
            if let Some(start) = input {
                self.holds_slots(&name, start.slots..command.slots);
            }
            self.readers.push(name);
        }
    }

    /// Redirections behind a compound command are the input of what it runs.
    fn feed_compound(&mut self, command: &Command) {
        let Some((sinks, readers)) = command.closed else { return };
        if command.inputs.is_empty() && command.here_documents.is_empty() {
            return;
        }
        let sinks: Vec<_> = self.sinks[sinks.min(self.sinks.len())..].to_vec();
        for sink in sinks {
            self.feed_place(command, None, sink);
        }
        let readers: Vec<_> = self.readers[readers.min(self.readers.len())..].to_vec();
        for name in readers {
            for slots in &command.inputs {
                self.holds_slots(&name, slots.clone());
            }
        }
    }

    // ---- code from context -----------------------------------------------------------------------------

    /// At a word that is a `context` or `param` reference to a literal of the file, where a command begins: asks for it.
    fn pastes_code(&mut self) -> bool {
        if !self.starts_with("${") || self.pastes.iter().any(|paste| paste.range.contains(&self.pos)) {
            return false;
        }
        let Owner::Ours = self.owner(self.pos) else { return false };
        let origin = self.origin(self.pos);
        let Ok(reference) = threadline_lang::Embedded::parse(&self.source, origin, self.setting.syntax)
        else {
            return false;
        };
        let end = self.pos + reference.span().range().len();
        let alone = self.at(end).is_none_or(|byte| b" \t\n;&|<>)".contains(&byte));
        let [read] = &reference.references()[..] else { return false };
        let whole = reference.text().trim_start_matches("${").trim_end_matches('}').trim() == read.path;
        // A value of the state's own is named with its root.
        let own = Some(read.path.as_str()).filter(|path| path.starts_with("param."));
        let (Some(name), true, true) = (read.path.strip_prefix("context.").or(own), alone, whole) else {
            return false;
        };
        if reference.binding().is_some() || end > self.end {
            return false;
        }
        let Some(literal) = (self.setting.literal)(name) else { return false };
        self.paste = Some((self.pos..end, name.into(), literal));
        self.pos = self.end;
        true
    }
}
