//! Compound commands (`if`, loops, `case`, `[[ ]]`, functions, coprocesses), read into a tree.

use ecow::EcoString;

use super::Dialect;
use super::commands::ListEnd;
use super::names::shell_name;
use super::reader::ScriptReader;
use super::tree::{CaseClause, CommandList, CommandSyntax, Joint, ListItem, Pipeline, ShellCommand, Word};
use super::words::ArithmeticEnd;

impl ScriptReader<'_> {
    pub(super) fn read_group(&mut self) -> CommandSyntax {
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

    pub(super) fn read_if(&mut self) -> CommandSyntax {
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

    pub(super) fn read_while(&mut self) -> CommandSyntax {
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

    pub(super) fn read_repeat(&mut self) -> CommandSyntax {
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

    pub(super) fn read_for(&mut self) -> CommandSyntax {
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

    pub(super) fn read_case(&mut self) -> CommandSyntax {
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
    pub(super) fn read_conditional(&mut self) -> CommandSyntax {
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
    pub(super) fn read_parenthesis(&mut self) -> CommandSyntax {
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

    pub(super) fn read_function_keyword(&mut self) -> CommandSyntax {
        self.skip_blanks();
        let name = self.read_word();
        self.skip_blanks();
        if self.eat("(") {
            self.skip_blanks();
            self.eat(")");
        }
        self.read_function_body(name)
    }

    pub(super) fn read_function_body(&mut self, name: Word) -> CommandSyntax {
        if let Some(name) = name.text() {
            self.found.functions.insert(name.into());
        }
        self.skip_blank_lines();
        self.bodies += 1;
        let body = Box::new(self.read_command(ListEnd::Text));
        self.bodies -= 1;
        CommandSyntax::Function { name, body }
    }

    pub(super) fn read_coprocess(&mut self, end: ListEnd) -> Option<CommandSyntax> {
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
}
