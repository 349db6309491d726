//! Commands: lists, pipelines, compound commands, redirections and here-documents, read into a tree.

use std::ops::Range;

use ecow::EcoString;

use super::Dialect;
use super::hazards;
use super::names::{Owner, shell_name};
use super::reader::{Edit, PasteRequest, Quote, Replacement, ScriptReader};
use super::tree::{
    AssignedWords, Assignment, CaseClause, CommandList, CommandSyntax, Joint, ListItem, Pipeline,
    Redirection, RedirectionTarget, ScriptTree, ShellCommand, Word, WordPart,
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
    fn peek_plain_word(&self) -> Option<&str> {
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

    /// Reads `a | b`, with `!` or `time` before it.
    fn read_pipeline(&mut self, end: ListEnd) -> Pipeline {
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

    fn read_command(&mut self, end: ListEnd) -> ShellCommand {
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

    fn read_group(&mut self) -> CommandSyntax {
        let open = self.pos - 1;
        let list = self.read_list(ListEnd::Words(&["}"]));
        self.close(open, "{", "}");
        CommandSyntax::Group(list)
    }

    /// Reads the word that closes a compound command.
    fn close(&mut self, open: usize, opened: &str, close: &str) {
        if self.peek_plain_word() == Some(close) {
            self.pos += close.len();
        } else {
            self.report_unclosed(open, opened);
        }
    }

    /// The words that end a condition; in zsh a brace can begin what follows it.
    fn condition_end(&self, word: &'static [&'static str], with_brace: &'static [&'static str]) -> ListEnd {
        ListEnd::Words(if self.dialect() == Dialect::Zsh { with_brace } else { word })
    }

    fn read_if(&mut self) -> CommandSyntax {
        let open = self.keyword;
        let mut branches = Vec::new();
        let mut otherwise = CommandList::default();
        loop {
            let condition = self.read_list(self.condition_end(&["then"], &["then", "{"]));
            if self.eat("{") {
                let body = self.read_list(ListEnd::Words(&["}"]));
                self.close(open, "if", "}");
                branches.push((condition, body));
                self.skip_blanks();
                match self.peek_plain_word() {
                    Some("elif") => self.pos += 4,
                    Some("else") => {
                        self.pos += 4;
                        self.skip_blanks();
                        if self.eat("{") {
                            otherwise = self.read_list(ListEnd::Words(&["}"]));
                            self.close(open, "if", "}");
                        }
                        break;
                    }
                    _ => break,
                }
                continue;
            }
            if self.peek_plain_word() != Some("then") {
                self.report_unclosed(open, "if");
                break;
            }
            self.pos += 4;
            let body = self.read_list(ListEnd::Words(&["elif", "else", "fi"]));
            branches.push((condition, body));
            match self.peek_plain_word() {
                Some("elif") => self.pos += 4,
                Some("else") => {
                    self.pos += 4;
                    otherwise = self.read_list(ListEnd::Words(&["fi"]));
                    self.close(open, "if", "fi");
                    break;
                }
                _ => {
                    self.close(open, "if", "fi");
                    break;
                }
            }
        }
        CommandSyntax::If { branches, otherwise }
    }

    fn read_while(&mut self) -> CommandSyntax {
        let open = self.keyword;
        let until = self.text[open..].starts_with("until");
        let condition = self.read_list(self.condition_end(&["do"], &["do", "{"]));
        let body = self.read_loop_body(open, if until { "until" } else { "while" });
        CommandSyntax::While { until, condition, body }
    }

    /// Reads `do ... done`, or `{ ... }`.
    fn read_loop_body(&mut self, open: usize, keyword: &str) -> CommandList {
        loop {
            self.skip_blank_lines();
            if self.peek() != Some(b';') {
                break;
            }
            self.pos += 1;
        }
        match self.peek_plain_word() {
            Some("do") => {
                self.pos += 2;
                let body = self.read_list(ListEnd::Words(&["done"]));
                self.close(open, keyword, "done");
                body
            }
            Some("{") => {
                self.pos += 1;
                let body = self.read_list(ListEnd::Words(&["}"]));
                self.close(open, keyword, "}");
                body
            }
            _ if self.text[open..].starts_with("foreach") => {
                let body = self.read_list(ListEnd::Words(&["end"]));
                self.close(open, keyword, "end");
                body
            }
            _ if self.dialect() == Dialect::Zsh => {
                let pipeline = self.read_pipeline(ListEnd::Text);
                CommandList { items: vec![ListItem { joint: Joint::Sequence, pipeline }] }
            }
            _ => {
                self.report_unclosed(open, keyword);
                CommandList::default()
            }
        }
    }

    fn read_repeat(&mut self) -> CommandSyntax {
        let open = self.keyword;
        self.skip_blanks();
        let count = self.read_word();
        let body = self.read_loop_body(open, "repeat");
        let words = vec![Word::fixed("repeat"), count];
        let counted = ShellCommand {
            syntax: CommandSyntax::Simple { assignments: Vec::new(), words },
            redirections: Vec::new(),
        };
        let pipeline = Pipeline { negated: false, commands: vec![counted] };
        let condition = CommandList { items: vec![ListItem { joint: Joint::Sequence, pipeline }] };
        CommandSyntax::While { until: false, condition, body }
    }

    fn read_for(&mut self) -> CommandSyntax {
        let open = self.keyword;
        self.skip_blanks();
        if self.eat("((") {
            let header = self.read_nested_arithmetic(ArithmeticEnd::Parens);
            let body = self.read_loop_body(open, "for");
            return CommandSyntax::Counted { header, body };
        }
        let name = self.read_word();
        if let Some(name) = name.text() {
            let name = name.to_owned();
            self.note_set(&name);
        }
        self.skip_blank_lines();
        let words = match self.peek() {
            Some(b'(') if self.dialect() == Dialect::Zsh => Some(self.read_array()),
            _ if self.peek_plain_word() == Some("in") => {
                self.pos += 2;
                Some(self.read_loop_words())
            }
            _ => {
                self.report_loop_value();
                None
            }
        };
        let body = self.read_loop_body(open, "for");
        CommandSyntax::For { name, words, body }
    }

    /// Reports a reference where `in`, `do` or a line break belongs.
    fn report_loop_value(&mut self) {
        if self.starts_with("${") {
            let word = self.read_word();
            self.report_unknown(word.range, "a value is not allowed here", "write `for NAME in ...`");
        }
    }

    fn read_loop_words(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b';' | b'\n' | b'&' | b'|' | b')' | b'#') => return words,
                Some(_) => {
                    let word = self.read_word();
                    if word.range.is_empty() {
                        return words;
                    }
                    self.allow_several_words(&word);
                    words.push(word);
                }
            }
        }
    }

    fn read_case(&mut self) -> CommandSyntax {
        let open = self.pos;
        self.skip_blanks();
        let subject = self.read_word();
        let mut clauses = Vec::new();
        self.skip_blank_lines();
        let word = self.read_word();
        if !word.is("in") {
            self.report_unknown(
                open..open + 1,
                "`case` without `in`",
                "write `case WORD in PATTERN) ... ;; esac`",
            );
            return CommandSyntax::Case { subject, clauses };
        }
        loop {
            self.skip_blank_lines();
            if self.peek().is_none() {
                self.report_unclosed(open.saturating_sub(4), "case");
                break;
            }
            let mut patterns = Vec::new();
            if !self.eat("(") {
                let word = self.read_word();
                if word.is("esac") {
                    break;
                }
                if word.range.is_empty() {
                    self.report_unclosed(open.saturating_sub(4), "case");
                    break;
                }
                patterns.push(word);
            }
            if !self.read_case_patterns(&mut patterns) {
                break;
            }
            let body = self.read_list(ListEnd::Case);
            clauses.push(CaseClause { patterns, body });
            if self.peek_plain_word() == Some("esac") {
                self.pos += 4;
                break;
            }
            if self.peek().is_none() {
                self.report_unclosed(open.saturating_sub(4), "case");
                break;
            }
            self.pos += 1;
            while matches!(self.peek(), Some(b';' | b'&' | b'|')) {
                self.pos += 1;
            }
        }
        CommandSyntax::Case { subject, clauses }
    }

    /// Reads the patterns of a clause and the `)` after them.
    fn read_case_patterns(&mut self, patterns: &mut Vec<Word>) -> bool {
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
                    let word = self.read_word();
                    if word.range.is_empty() {
                        self.report_unknown(at..at + 1, "unexpected character in a pattern", "quote it");
                        self.pos = self.end;
                        return false;
                    }
                    patterns.push(word);
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
    fn read_conditional(&mut self) -> CommandSyntax {
        let open = self.pos;
        let mut words = vec![Word::fixed("[[")];
        loop {
            self.skip_blank_lines();
            match self.peek() {
                None => {
                    self.report_unclosed(open.saturating_sub(2), "[[");
                    break;
                }
                Some(_) if words.last().is_some_and(|word| word.is("=~")) => {
                    let before = self.pos;
                    words.push(self.read_regex());
                    self.pos = self.pos.max(before + 1);
                }
                Some(byte @ (b'(' | b')' | b'<' | b'>' | b'&' | b'|' | b';')) => {
                    words.push(Word::fixed(&char::from(byte).to_string()));
                    self.pos += 1;
                }
                Some(_) => {
                    let word = self.read_word();
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
        CommandSyntax::Conditional(words)
    }

    /// Reads a regular expression after `=~`, in which parentheses and bars mean nothing to the shell.
    fn read_regex(&mut self) -> Word {
        let start = self.pos;
        let mut whole = Word { fixed: true, ..Word::default() };
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
                    whole.push_text(&self.text[self.pos..=self.pos]);
                    self.pos += 1;
                }
                Some(_) => {
                    let word = self.read_word();
                    if word.range.is_empty() {
                        self.pos += 1;
                    }
                    whole.quoted |= word.quoted;
                    if whole.fixed {
                        whole.literal.push_str(&word.literal);
                    }
                    whole.fixed &= word.fixed;
                    whole.parts.extend(word.parts);
                }
            }
        }
        whole.range = start..self.pos;
        let written = &self.text[start..self.pos.max(start)];
        // A backslash belongs to the expression.
        whole.quoted = written.contains(['\'', '"']);
        if whole.fixed {
            written.clone_into(&mut whole.literal);
        }
        whole
    }

    /// Reads a subshell or arithmetic, at `(`.
    fn read_parenthesis(&mut self) -> CommandSyntax {
        let at = self.pos;
        if self.starts_with("((") && self.dialect() != Dialect::Posix {
            self.pos += 2;
            let arithmetic = self.read_nested_arithmetic(ArithmeticEnd::Parens);
            return CommandSyntax::Arithmetic(arithmetic);
        }
        self.pos += 1;
        let list = self.with_nesting(|reader| {
            let list = reader.read_list(ListEnd::Paren);
            if reader.pos < reader.end {
                reader.pos += 1;
            } else {
                reader.report_unclosed(at, "(");
            }
            list
        });
        CommandSyntax::Group(list.unwrap_or_default())
    }

    fn read_function_keyword(&mut self) -> CommandSyntax {
        self.skip_blanks();
        let name = self.read_word();
        self.skip_blanks();
        if self.eat("(") {
            self.skip_blanks();
            self.eat(")");
        }
        self.read_function_body(name)
    }

    fn read_function_body(&mut self, name: Word) -> CommandSyntax {
        if let Some(name) = name.text() {
            self.found.functions.insert(name.into());
        }
        self.skip_blank_lines();
        self.bodies += 1;
        let body = Box::new(self.read_command(ListEnd::Text));
        self.bodies -= 1;
        CommandSyntax::Function { name, body }
    }

    fn read_coprocess(&mut self, end: ListEnd) -> Option<CommandSyntax> {
        self.pos += "coproc".len();
        self.skip_blanks();
        let mut name = EcoString::from("COPROC");
        let named = self.peek_plain_word().filter(|word| shell_name(word) == *word).map(str::to_owned);
        if let Some(word) = named {
            let rest = self.text.get(self.pos + word.len()..self.end).unwrap_or_default();
            if rest.trim_start_matches([' ', '\t']).starts_with(['{', '(']) {
                self.pos += word.len();
                name = word.into();
            }
        }
        self.note_set(&name.clone());
        let body = self.with_nesting(|reader| reader.read_command(end))?;
        Some(CommandSyntax::Coprocess { name, body: Box::new(body) })
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
    fn read_array(&mut self) -> Vec<Word> {
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

    // ---- redirections ----------------------------------------------------------------------------------

    /// Reads the redirections after a compound command.
    fn read_redirections(&mut self, syntax: &CommandSyntax) -> Vec<Redirection> {
        let mut redirections = Vec::new();
        if matches!(syntax, CommandSyntax::Function { .. } | CommandSyntax::Coprocess { .. }) {
            return redirections;
        }
        loop {
            self.skip_blanks();
            let Some(rest) = self.text.get(self.pos..self.end) else { return redirections };
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            match rest.as_bytes().get(digits) {
                Some(b'<' | b'>')
                    if rest.as_bytes().get(digits + 1) != Some(&b'(') || self.dialect() == Dialect::Posix =>
                {
                    let descriptor = (digits > 0).then(|| EcoString::from(&rest[..digits]));
                    self.pos += digits;
                    self.read_redirection(descriptor, &mut redirections);
                }
                Some(b'&') if self.starts_with("&>") && self.dialect() != Dialect::Posix => {
                    self.pos += 1;
                    self.read_redirection(None, &mut redirections);
                }
                _ => return redirections,
            }
        }
    }

    /// Reads a redirection, at `<` or `>`.
    fn read_redirection(&mut self, descriptor: Option<EcoString>, redirections: &mut Vec<Redirection>) {
        let at = self.pos;
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| self.starts_with(operator)).unwrap_or(">");
        self.pos += operator.len();
        self.skip_blanks();
        if matches!(operator, "<<" | "<<-") {
            if let Some(index) = self.read_delimiter(operator == "<<-") {
                let target = RedirectionTarget::HereDocument(index);
                redirections.push(Redirection { descriptor, target });
            }
            return;
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
        if matches!(operator, "<&" | ">&") && word.slots().next().is_some() {
            self.report_unknown(
                word.range.clone(),
                "a value cannot name a file descriptor",
                "write out the number, or use a file: `> ${path}`",
            );
        }
        let target = match operator {
            "<<<" => RedirectionTarget::HereString(word),
            "<&" => RedirectionTarget::InputDescriptor(word),
            ">&" => RedirectionTarget::OutputDescriptor(word),
            "<" | "<>" => RedirectionTarget::Input(word),
            _ => RedirectionTarget::Output(word),
        };
        redirections.push(Redirection { descriptor, target });
    }

    /// Reads the word after `<<`, which ends the here-document.
    fn read_delimiter(&mut self, strip: bool) -> Option<usize> {
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
            return None;
        }
        let index = self.documents.len();
        self.documents.push(Word::default());
        self.waiting.push(PendingDocument {
            delimiter: word.literal.clone(),
            strip,
            quoted: word.quoted,
            word: word.range,
            index,
        });
        Some(index)
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
        let outer = std::mem::replace(&mut self.end, end);
        let mut word = if document.quoted {
            self.read_quoted_document(document, end)
        } else {
            self.read_plain_document()
        };
        word.range = start..end;
        self.end = outer;
        self.pos = after;
        self.documents[document.index] = word;
    }

    fn read_plain_document(&mut self) -> Word {
        let mut word = Word { fixed: true, ..Word::default() };
        let outer = std::mem::replace(&mut self.in_document, true);
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.read_backslash(true, &mut word),
                b'$' => self.read_dollar(Quote::Inside, true, &mut word),
                b'`' => self.read_backquotes(true, &mut word),
                _ => self.read_character(&mut word),
            }
        }
        self.in_document = outer;
        word
    }

    /// Reads a here-document in which the shell expands nothing. If it contains a reference, it is turned
    /// into one that the shell expands, and everything that the author wrote is escaped.
    fn read_quoted_document(&mut self, document: &PendingDocument, end: usize) -> Word {
        let (start, slots, edits) = (self.pos, self.slots.len(), self.edits.len());
        let mut word = Word { fixed: true, quoted: true, ..Word::default() };
        while let Some(byte) = self.peek() {
            let (at, before) = (self.pos, self.slots.len());
            if byte == b'$' {
                self.read_literal_dollar(Quote::Inside);
            } else {
                self.pos += 1;
            }
            if self.slots.len() > before {
                word.push_part(WordPart::Slot(before));
            } else if word.parts.is_empty() {
                word.push_text(self.text.get(at..self.pos).unwrap_or("?"));
            }
        }
        if self.slots.len() == slots {
            return Word::fixed(&self.text[start..end]);
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
        word
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
