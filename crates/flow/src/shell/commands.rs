//! Lists, pipelines and simple commands with their assignments, read into a tree.

use std::ops::Range;

use ecow::EcoString;

use super::Dialect;
use super::hazards;
use super::names::{Owner, shell_name};
use super::reader::{PasteRequest, ScriptReader};
use super::tree::{
    AssignedWords, Assignment, CommandList, CommandSyntax, Joint, ListItem, Pipeline, ScriptTree,
    ShellCommand, Word, WordPart,
};
use super::words::ArithmeticEnd;

/// Maximum length of a subscript in an assignment, in bytes.
const MAX_SUBSCRIPT: usize = 4096;

/// Words that end a list of commands, wherever one begins.
const CLOSING_WORDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "}", "esac", "end"];

/// What ends a list of commands. The end itself stays unread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    /// The end of the text.
    Text,
    Paren,
    /// `;;`, or `esac`.
    Case,
    /// One of these words where a command begins.
    Words(&'static [&'static str]),
}

impl ScriptReader<'_> {
    /// Reads the whole text.
    pub(super) fn read_text(&mut self) -> ScriptTree {
        if !self.is_inner {
            self.report_reserved_names();
        }
        let body = self.read_list(ListEnd::Text);
        self.report_unread_documents();
        ScriptTree { body, documents: std::mem::take(&mut self.documents) }
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

    /// Reads commands up to the end of the list, which stays unread.
    pub(super) fn read_list(&mut self, end: ListEnd) -> CommandList {
        let mut list = CommandList::default();
        let mut joint = Joint::Sequence;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => break,
                Some(b')') if end == ListEnd::Paren => break,
                Some(b'\n') => {
                    self.pos += 1;
                    self.read_documents();
                }
                Some(b'#') => self.skip_comment(),
                Some(b';') if end == ListEnd::Case && self.ends_clause() => break,
                Some(b';') => {
                    self.pos += 1;
                    joint = Joint::Sequence;
                }
                Some(b'&') if self.starts_with("&&") => {
                    self.pos += 2;
                    joint = Joint::And;
                }
                Some(b'&') if !self.starts_with("&>") || self.dialect() == Dialect::Posix => {
                    self.pos += 1;
                    joint = Joint::Sequence;
                }
                Some(b'|') if self.starts_with("||") => {
                    self.pos += 2;
                    joint = Joint::Or;
                }
                Some(b')') => {
                    let at = self.pos;
                    self.report_unknown(at..at + 1, "unmatched `)`", "quote it, or open it with `(`");
                    self.pos += 1;
                }
                Some(_) if self.is_at_end_word(end, !list.items.is_empty()) => break,
                Some(_) => {
                    let before = self.pos;
                    let pipeline = self.read_pipeline(end);
                    if self.pos == before {
                        self.report_unknown(before..before + 1, "unexpected character", "quote it");
                        self.pos += 1;
                    }
                    list.items.push(ListItem { joint, pipeline });
                    joint = Joint::Sequence;
                }
            }
        }
        list
    }

    /// Whether `;;`, `;&` or `;|` is at the position.
    fn ends_clause(&self) -> bool {
        matches!(self.at(self.pos + 1), Some(b';' | b'&' | b'|'))
    }

    /// Whether a word at the position ends the list. A word that ends another list is reported.
    fn is_at_end_word(&mut self, end: ListEnd, has_commands: bool) -> bool {
        let Some(word) = self.peek_plain_word() else { return false };
        let ends = match end {
            ListEnd::Case => word == "esac",
            ListEnd::Words(words) => words.contains(&word) && (word != "{" || has_commands),
            ListEnd::Text | ListEnd::Paren => false,
        };
        if ends || !CLOSING_WORDS.contains(&word) || word == "end" {
            return ends;
        }
        let (at, length) = (self.pos, word.len());
        let message = format!("unexpected `{word}`");
        self.report_unknown(at..at + length, message, "close what is open before it");
        self.pos += length;
        // What follows is read as a command of its own.
        self.skip_blanks();
        false
    }

    /// The word at the position, if it has no quotes and no expansions.
    pub(super) fn peek_plain_word(&self) -> Option<&str> {
        let rest = self.text.get(self.pos..self.end)?;
        let length = rest.bytes().take_while(|byte| !b" \t\n;&|()<>".contains(byte)).count();
        let word = rest.get(..length)?;
        (!word.is_empty() && !word.contains(['$', '`', '"', '\'', '\\'])).then_some(word)
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

    pub(super) fn skip_blank_lines(&mut self) {
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

    /// Reads `a | b`, with `!` or `time` before it.
    pub(super) fn read_pipeline(&mut self, end: ListEnd) -> Pipeline {
        let mut pipeline = Pipeline { negated: false, commands: Vec::new() };
        loop {
            self.skip_blanks();
            match self.peek_plain_word() {
                Some("!") => {
                    self.pos += 1;
                    pipeline.negated = !pipeline.negated;
                }
                Some("time") => {
                    self.pos += 4;
                    self.skip_blanks();
                    if self.starts_with("-p ") {
                        self.pos += 2;
                    }
                }
                _ => break,
            }
        }
        loop {
            pipeline.commands.push(self.read_command(end));
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.starts_with("||") {
                return pipeline;
            }
            self.pos += 1;
            self.eat("&");
            // A line break after `|` separates nothing.
            self.skip_blank_lines();
        }
    }

    // ---- commands --------------------------------------------------------------------------------------

    pub(super) fn read_command(&mut self, end: ListEnd) -> ShellCommand {
        self.skip_blanks();
        let syntax = match self.peek() {
            Some(b'(') => Some(self.read_parenthesis()),
            _ => match self.peek_plain_word() {
                Some(_) => self.with_keyword(end),
                None => None,
            },
        };
        let Some(syntax) = syntax else { return self.read_simple() };
        let redirections = self.read_redirections(&syntax);
        ShellCommand { syntax, redirections }
    }

    /// Reads a compound command that begins with a keyword at the position.
    fn with_keyword(&mut self, end: ListEnd) -> Option<CommandSyntax> {
        let word = self.peek_plain_word()?.to_owned();
        let start = self.pos;
        let zsh = self.dialect() == Dialect::Zsh;
        let read: fn(&mut Self) -> CommandSyntax = match word.as_str() {
            "{" => Self::read_group,
            "if" => Self::read_if,
            "while" | "until" => Self::read_while,
            "for" | "select" => Self::read_for,
            "foreach" if zsh => Self::read_for,
            "repeat" if zsh => Self::read_repeat,
            "case" => Self::read_case,
            "function" => Self::read_function_keyword,
            "[[" if self.dialect() != Dialect::Posix => Self::read_conditional,
            "coproc" if self.dialect() != Dialect::Posix => return self.read_coprocess(end),
            _ => return None,
        };
        self.pos += word.len();
        let unread = CommandSyntax::Group(CommandList::default());
        // The keyword is known again by the functions that read two of them.
        self.keyword = start;
        Some(self.with_nesting(read).unwrap_or(unread))
    }

    // ---- simple commands -------------------------------------------------------------------------------

    /// Reads assignments, words and redirections; or the definition of a function.
    fn read_simple(&mut self) -> ShellCommand {
        let (mut assignments, mut words, mut redirections) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'&') if self.starts_with("&>") && self.dialect() != Dialect::Posix => {
                    self.pos += 1;
                    self.read_redirection(None, &mut redirections);
                }
                None | Some(b'\n' | b';' | b'|' | b')' | b'&') => break,
                Some(b'#') => self.skip_comment(),
                Some(b'<' | b'>')
                    if self.at(self.pos + 1) != Some(b'(') || self.dialect() == Dialect::Posix =>
                {
                    self.read_redirection(None, &mut redirections);
                }
                Some(b'(') => {
                    if words.len() == 1
                        && assignments.is_empty()
                        && let Some(function) = self.read_function_parentheses(&mut words)
                    {
                        return ShellCommand { syntax: function, redirections };
                    }
                    let at = self.pos;
                    self.report_unknown(at..at + 1, "unexpected `(`", "quote it");
                    self.pos += 1;
                }
                Some(_) => {
                    if words.is_empty() && (self.read_assignment(&mut assignments) || self.request_paste()) {
                        continue;
                    }
                    let word = self.read_word();
                    if word.range.is_empty() {
                        let at = self.pos;
                        self.report_unknown(at..at + 1, "unexpected character", "quote it");
                        self.pos += 1;
                        continue;
                    }
                    if matches!(self.peek(), Some(b'<' | b'>')) && self.is_descriptor(&word) {
                        let descriptor = word.literal.trim_matches(['{', '}']).into();
                        self.read_redirection(Some(descriptor), &mut redirections);
                        continue;
                    }
                    if self.read_array_argument(&words, &word, &mut assignments) {
                        continue;
                    }
                    words.push(word);
                }
            }
        }
        for word in words.iter().skip(1) {
            self.allow_several_words(word);
        }
        if !words.is_empty() {
            self.note_declared_names(&words);
        }
        let syntax = CommandSyntax::Simple { assignments, words };
        ShellCommand { syntax, redirections }
    }

    /// Reads `()` and the body after the name of a function.
    fn read_function_parentheses(&mut self, words: &mut Vec<Word>) -> Option<CommandSyntax> {
        let at = self.pos;
        self.pos += 1;
        self.skip_blanks();
        if !self.eat(")") {
            self.pos = at;
            return None;
        }
        let name = words.pop()?;
        self.with_nesting(|reader| reader.read_function_body(name))
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

    // ---- assignments -----------------------------------------------------------------------------------

    /// Reads `NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(...)` before a command.
    fn read_assignment(&mut self, assignments: &mut Vec<Assignment>) -> bool {
        let start = self.pos;
        let name = shell_name(&self.text[start..self.end]).len();
        if name == 0 {
            return false;
        }
        let range = start..start + name;
        let appends = self.at(range.end) == Some(b'+');
        match self.at(range.end) {
            Some(b'=') => self.pos = range.end + 1,
            Some(b'+') if self.at(range.end + 1) == Some(b'=') => self.pos = range.end + 2,
            Some(b'[') if self.dialect() != Dialect::Posix => {
                return self.read_element_assignment(assignments, range);
            }
            _ => return false,
        }
        let assignment = Assignment { appends, ..self.read_assigned_value(range, None) };
        assignments.push(assignment);
        true
    }

    /// Reads `NAME[i]=value`, unless it is a pattern that is a word of its own.
    fn read_element_assignment(&mut self, assignments: &mut Vec<Assignment>, name: Range<usize>) -> bool {
        if !self.is_element(name.end) {
            return false;
        }
        self.pos = name.end + 1;
        self.is_key = self.names.associative.contains(&self.text[name.clone()]);
        let subscript = self.read_arithmetic(ArithmeticEnd::Bracket, &hazards::SUBSCRIPT);
        if self.eat("=") || self.eat("+=") {
            let assignment = self.read_assigned_value(name, Some(subscript));
            assignments.push(assignment);
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

    fn read_assigned_value(
        &mut self,
        range: Range<usize>,
        subscript: Option<super::tree::Arithmetic>,
    ) -> Assignment {
        let name = EcoString::from(&self.text[range.clone()]);
        self.note_set(&name);
        let value = if self.peek() == Some(b'(') && self.dialect() != Dialect::Posix {
            AssignedWords::Many(self.read_array())
        } else {
            AssignedWords::One(self.read_word())
        };
        Assignment { name, range, subscript, appends: false, value }
    }

    /// Reads the elements of an array, at `(`.
    pub(super) fn read_array(&mut self) -> Vec<Word> {
        let open = self.pos;
        let mut words = Vec::new();
        self.pos += 1;
        loop {
            self.skip_blank_lines();
            match self.peek() {
                None => {
                    self.report_unclosed(open, "(");
                    return words;
                }
                Some(b')') => {
                    self.pos += 1;
                    return words;
                }
                Some(b'[') => {
                    self.pos += 1;
                    let arithmetic = self.read_arithmetic(ArithmeticEnd::Bracket, &hazards::SUBSCRIPT);
                    let mut word = Word { range: arithmetic.range.clone(), ..Word::default() };
                    word.push_part(WordPart::Arithmetic(arithmetic.into()));
                    words.push(word);
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
                    words.push(word);
                }
            }
        }
    }

    /// Reads an array that is an argument, as in `declare a=(...)`.
    fn read_array_argument(
        &mut self,
        words: &[Word],
        word: &Word,
        assignments: &mut Vec<Assignment>,
    ) -> bool {
        let declares = words
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
        let name = EcoString::from(shell_name(&word.literal));
        self.note_set(&name.clone());
        let value = AssignedWords::Many(self.read_array());
        assignments.push(Assignment {
            name,
            range: word.range.clone(),
            subscript: None,
            appends: word.literal.ends_with("+="),
            value,
        });
        true
    }

    // ---- code from context -----------------------------------------------------------------------------

    /// Requests the code of a `context` or `param` entry, if a command begins with a reference to one that is
    /// a literal of the file.
    fn request_paste(&mut self) -> bool {
        if self.is_inner
            || !self.starts_with("${")
            || self.places.pastes.iter().any(|paste| paste.range.contains(&self.pos))
        {
            return false;
        }
        let Owner::Workflow = self.find_owner(self.pos) else { return false };
        let origin = self.places.origin(self.pos);
        let Ok(reference) =
            threadline_lang::Embedded::parse(&self.places.source, origin, self.context.syntax)
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
