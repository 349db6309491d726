//! Reads words: quotes, substitutions, parameters and arithmetic, nested in each other.

use std::ops::Range;
use std::rc::Rc;

use ecow::EcoString;

use super::Dialect;
use super::commands::ListEnd;
use super::hazards::{self, Hazard};
use super::names::{Owner, shell_name};
use super::reader::{Edit, Quote, Replacement, ScriptReader};
use super::tree::{Arithmetic, CommandList, KeySort, Operation, Parameter, Word, WordPart};

/// The sort of text after an operator of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BracedText {
    /// A default: quotes around the parameter apply to it.
    Default,
    /// A pattern or a replacement: it has its own quotes.
    Pattern,
}

/// What ends arithmetic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArithmeticEnd {
    Parens,
    Bracket,
    Brace,
}

impl ScriptReader<'_> {
    /// Reads a word of a command, up to white space or an operator.
    pub(super) fn read_word(&mut self) -> Word {
        let start = self.pos;
        let mut word = Word { fixed: true, ..Word::default() };
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.at(self.pos + 1) == Some(b'(') && self.dialect() != Dialect::Posix => {
                    let at = self.pos;
                    self.pos += 1;
                    let list = Rc::new(self.read_substitution());
                    let range = at..self.pos;
                    word.push_part(WordPart::Process { range, list, is_output: byte == b'>' });
                }
                b'(' if self.is_pattern_group(start) => self.read_pattern_group(&mut word),
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' => self.read_backslash(false, &mut word),
                b'\'' => self.read_single_quotes(Quote::Single, &mut word),
                b'"' => self.read_double_quotes(&mut word),
                b'$' => self.read_word_dollar(&mut word),
                b'`' => self.read_backquotes(false, &mut word),
                _ => {
                    self.note_character(byte, start, &mut word);
                    self.read_character(&mut word);
                }
            }
        }
        word.range = start..self.pos;
        if let Some(slot) = word.first_slot() {
            self.slots[slot].begins_word = true;
        }
        word
    }

    /// Notes a character that changes the meaning of a reference after it.
    fn note_character(&self, byte: u8, start: usize, word: &mut Word) {
        match byte {
            b'~' => {
                word.tilde = self.pos == start || matches!(self.text.as_bytes()[self.pos - 1], b'=' | b':');
            }
            b'/' | b':' => word.tilde = false,
            b'{' => word.brace = true,
            _ => {}
        }
    }

    pub(super) fn read_character(&mut self, word: &mut Word) {
        let width = self.text[self.pos..].chars().next().map_or(1, char::len_utf8);
        word.push_text(&self.text[self.pos..self.pos + width]);
        self.pos += width;
    }

    /// Reads a dollar outside of quotes.
    fn read_word_dollar(&mut self, word: &mut Word) {
        let (slots, at) = (self.slots.len(), self.pos);
        self.read_dollar_in_word(word);
        if self.slots.len() == slots {
            return;
        }
        if word.tilde {
            self.report_unknown(
                at..self.pos,
                "a value after `~` cannot name a home folder",
                "write out the path, or start it with `\"$HOME\"/`",
            );
        }
        let around = self.text[..at].ends_with("..") || self.text[self.pos..self.end].starts_with("..");
        if word.brace && around {
            self.report_unknown(
                at..self.pos,
                "the shell expands `{a..b}` before the value is known",
                "use `seq`: `for I in $(seq 1 ${n})`",
            );
        }
    }

    fn read_dollar_in_word(&mut self, word: &mut Word) {
        match self.at(self.pos + 1) {
            Some(b'\'') if self.dialect() == Dialect::Posix => {
                let at = self.pos;
                self.report_unknown(
                    at..at + 2,
                    "shells disagree about `$'`",
                    "write `$(printf ...)`, or run it with bash",
                );
                self.pos += 1;
            }
            Some(b'\'') => {
                word.quoted = true;
                self.pos += 1;
                let start = self.pos;
                self.read_single_quotes(Quote::AnsiC, word);
                word.fixed = false;
                // Escapes are not interpreted, so the text is not known.
                if self.pos > start + 2 {
                    word.push_text("\0");
                }
            }
            Some(b'"') => {
                self.pos += 1;
                let forbidden = self.forbidden.replace("in `$\"...\"`, which is translated");
                self.read_double_quotes(word);
                self.forbidden = forbidden;
                word.fixed = false;
            }
            _ => self.read_dollar(Quote::Plain, false, word),
        }
    }

    /// Reads a backslash. Inside double quotes it escapes only some characters.
    pub(super) fn read_backslash(&mut self, in_quotes: bool, word: &mut Word) {
        let at = self.pos;
        match self.at(at + 1) {
            Some(b'\n') => self.pos += 2,
            Some(b'$') => {
                word.quoted = true;
                word.push_text("$");
                self.pos += 2;
                if self.peek() == Some(b'{') && !matches!(self.find_owner(at + 1), Owner::Shell) {
                    self.report_escape(at);
                }
            }
            Some(b'"' | b'\\' | b'`') => {
                word.quoted = true;
                word.push_text(&self.text[at + 1..at + 2]);
                self.pos += 2;
            }
            Some(_) if in_quotes => {
                word.push_text("\\");
                self.pos += 1;
            }
            Some(_) => {
                word.quoted = true;
                self.pos += 1;
                self.read_character(word);
            }
            None => self.pos += 1,
        }
    }

    fn report_escape(&mut self, at: usize) {
        self.report_error(
            "shell-escape",
            at..at + 3,
            "a backslash does not escape a reference",
            "write `$${` for a `${` of the shell, and `'$${...}'` in single quotes for the text",
        );
    }

    /// Reads single quotes, or `$'...'` after its dollar.
    pub(super) fn read_single_quotes(&mut self, quote: Quote, word: &mut Word) {
        let open = self.pos;
        word.quoted = true;
        self.pos += 1;
        let mut from = self.pos;
        loop {
            match self.peek() {
                None => return self.report_unclosed(open, "'"),
                Some(b'\'') => break,
                Some(b'\\') if quote == Quote::AnsiC => self.pos += 2,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'$') && self.at(self.pos + 2) == Some(b'{') => {
                    let at = self.pos;
                    self.pos += 1;
                    if !matches!(self.find_owner(at + 1), Owner::Shell) {
                        self.report_escape(at);
                        self.pos += 2;
                    }
                }
                Some(b'$') => {
                    word.push_text(&self.text[from..self.pos]);
                    let slots = self.slots.len();
                    from = self.pos;
                    self.read_literal_dollar(quote);
                    if self.slots.len() > slots {
                        word.push_part(WordPart::Slot(slots));
                        from = self.pos;
                    }
                }
                Some(_) => self.pos += 1,
            }
        }
        self.pos = self.pos.min(self.end);
        let to = self.text.floor_char_boundary(self.pos);
        word.push_text(self.text.get(from..to).unwrap_or_default());
        self.pos += 1;
    }

    /// Reads a dollar where the shell expands nothing, so only references of the workflow count.
    pub(super) fn read_literal_dollar(&mut self, quote: Quote) {
        let start = self.pos;
        let dollars = self.text.as_bytes()[start..self.end].iter().take_while(|byte| **byte == b'$').count();
        if self.at(start + dollars) != Some(b'{') {
            self.pos += dollars;
            return;
        }
        match dollars {
            1 => match self.find_owner(start) {
                Owner::Workflow => self.read_reference(quote),
                Owner::Shell => self.pos += 2,
                Owner::Unclear(problem) => {
                    self.push_problem(problem);
                    self.pos += 2;
                }
            },
            2 => {
                self.edits.push(Edit { range: start..start + 1, replacement: Replacement::Text("") });
                self.pos += 3;
            }
            _ => {
                self.pos += dollars + 1;
                self.report_dollars(start);
            }
        }
    }

    /// Reads double quotes.
    pub(super) fn read_double_quotes(&mut self, word: &mut Word) {
        let open = self.pos;
        word.quoted = true;
        self.pos += 1;
        loop {
            match self.peek() {
                None => return self.report_unclosed(open, "\""),
                Some(b'"') => break,
                Some(b'\\') => self.read_backslash(true, word),
                Some(b'$') => self.read_dollar(Quote::Inside, true, word),
                Some(b'`') => self.read_backquotes(true, word),
                Some(_) => self.read_character(word),
            }
        }
        self.pos += 1;
    }

    pub(super) fn report_unclosed(&mut self, open: usize, what: &str) {
        self.pos = self.end;
        let written = self.text[open..].starts_with(what);
        let end = open + if written { what.len() } else { 1 };
        let named = if what == "`" { "backquote".to_owned() } else { format!("`{what}`") };
        self.report_error("shell-unclosed", open..end, format!("this {named} is never closed"), "close it");
    }

    // ---- substitutions ---------------------------------------------------------------------------------

    /// Reads a dollar that is not doubled and not followed by a brace.
    pub(super) fn read_single_dollar(&mut self, in_quotes: bool, word: &mut Word) {
        let start = self.pos;
        match self.at(start + 1) {
            Some(b'(') if self.at(start + 2) == Some(b'(') => {
                self.pos += 3;
                self.read_arithmetic_part(ArithmeticEnd::Parens, word);
            }
            Some(b'(') => {
                self.pos += 1;
                let list = Rc::new(self.read_substitution());
                let range = start..self.pos;
                word.push_part(WordPart::Substitution { range, list, quoted: in_quotes });
            }
            Some(b'[') if self.dialect() != Dialect::Posix => {
                self.pos += 2;
                let forbidden = self.forbidden.replace("in `$[...]`");
                self.read_arithmetic_part(ArithmeticEnd::Bracket, word);
                self.forbidden = forbidden;
            }
            Some(b'~' | b'=' | b'^') if self.dialect() == Dialect::Zsh && self.begins_name(start + 2) => {
                let again = self.at(start + 1) == Some(b'~');
                self.pos += 2;
                let evaluates = again.then_some(&hazards::EXPANDED_AGAIN);
                self.read_plain_parameter(start, in_quotes, evaluates, word);
            }
            Some(_) if self.begins_name(start + 1) => {
                self.pos += 1;
                self.read_plain_parameter(start, in_quotes, None, word);
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'!') => {
                self.pos += 2;
                let name = self.text[start + 1..self.pos].into();
                let range = start..self.pos;
                word.push_part(WordPart::Parameter(Rc::new(Parameter::plain(range, name, in_quotes))));
            }
            // A dollar that begins no expansion is literal.
            _ => {
                self.pos += 1;
                word.push_text("$");
            }
        }
    }

    fn begins_name(&self, at: usize) -> bool {
        self.at(at).is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    }

    /// Reads the name of a parameter without braces.
    fn read_plain_parameter(
        &mut self,
        start: usize,
        in_quotes: bool,
        evaluates: Option<&'static Hazard>,
        word: &mut Word,
    ) {
        let from = self.pos;
        self.pos += shell_name(&self.text[from..self.end]).len();
        let name = self.text[from..self.pos].into();
        let range = start + 1..self.pos;
        let parameter = Parameter { evaluates, ..Parameter::plain(range, name, in_quotes) };
        word.push_part(WordPart::Parameter(Rc::new(parameter)));
    }

    fn read_arithmetic_part(&mut self, close: ArithmeticEnd, word: &mut Word) {
        let arithmetic = self.read_nested_arithmetic(close);
        word.push_part(WordPart::Arithmetic(Rc::new(arithmetic)));
    }

    /// Reads arithmetic as one level of nesting.
    pub(super) fn read_nested_arithmetic(&mut self, close: ArithmeticEnd) -> Arithmetic {
        self.with_nesting(|reader| reader.read_arithmetic(close, &hazards::ARITHMETIC))
            .unwrap_or_else(|| Arithmetic::empty(&hazards::ARITHMETIC))
    }

    /// Reads the script in `$(...)` or `<(...)`, at its `(`.
    pub(super) fn read_substitution(&mut self) -> CommandList {
        let open = self.pos;
        self.pos += 1;
        let waiting = std::mem::take(&mut self.waiting);
        let list = self.with_nesting(|reader| {
            let list = reader.read_list(ListEnd::Paren);
            if reader.pos < reader.end {
                reader.pos += 1;
            } else {
                reader.report_unclosed(open, "(");
            }
            list
        });
        self.report_unread_documents();
        if !waiting.is_empty() && self.text[open..self.pos].contains('\n') {
            self.report_unknown(
                open..open + 1,
                "shells disagree about a line break in a substitution before a here-document",
                "put the substitution into a variable first",
            );
        }
        self.waiting = waiting;
        list.unwrap_or_default()
    }

    /// Reads a command in backquotes.
    pub(super) fn read_backquotes(&mut self, in_quotes: bool, word: &mut Word) {
        let open = self.pos;
        let mut close = open + 1;
        let mut escapes = false;
        loop {
            match self.at(close) {
                None => return self.report_unclosed(open, "`"),
                Some(b'`') => break,
                Some(b'\\') => {
                    escapes |= matches!(self.at(close + 1), Some(b'$' | b'`' | b'\\' | b'"'));
                    close += 2;
                }
                Some(_) => close += 1,
            }
        }
        let outer = std::mem::replace(&mut self.end, close);
        let waiting = std::mem::take(&mut self.waiting);
        let forbidden = self.forbidden;
        if escapes {
            self.forbidden = Some("in backquotes that contain backslashes");
        } else if in_quotes {
            self.forbidden = Some("in backquotes inside double quotes");
        }
        self.pos = open + 1;
        let range = open..close + 1;
        if escapes {
            self.skip_unread_text();
            word.push_part(WordPart::Unread(range));
        } else {
            let list = self.with_nesting(|reader| reader.read_list(ListEnd::Text)).unwrap_or_default();
            word.push_part(WordPart::Substitution { range, list: Rc::new(list), quoted: in_quotes });
        }
        self.report_unread_documents();
        self.waiting = waiting;
        self.forbidden = forbidden;
        self.end = outer;
        self.pos = close + 1;
    }

    /// Skips text that is not read, and reports the references in it.
    fn skip_unread_text(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'$' { self.read_literal_dollar(Quote::Plain) } else { self.pos += 1 }
        }
    }

    /// Whether the `(` at the position belongs to a pattern such as `@(a|b)`.
    fn is_pattern_group(&self, start: usize) -> bool {
        self.dialect() != Dialect::Posix
            && self.pos > start
            && matches!(self.text.as_bytes()[self.pos - 1], b'@' | b'!' | b'+' | b'?' | b'*')
    }

    fn read_pattern_group(&mut self, word: &mut Word) {
        let open = self.pos;
        word.push_part(WordPart::Text("*".into()));
        let forbidden = self.forbidden.replace("in a group of a pattern");
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => {
                    self.report_unclosed(open, "(");
                    break;
                }
                Some(b'(') => {
                    depth += 1;
                    self.pos += 1;
                }
                Some(b')') => {
                    depth -= 1;
                    self.pos += 1;
                    if depth == 0 {
                        break;
                    }
                }
                Some(b'\\') => self.read_backslash(false, word),
                Some(b'\'') => self.read_single_quotes(Quote::Single, word),
                Some(b'"') => self.read_double_quotes(word),
                Some(b'$') => self.read_dollar(Quote::Plain, false, word),
                Some(b'`') => self.read_backquotes(false, word),
                Some(_) => self.pos += 1,
            }
        }
        self.forbidden = forbidden;
    }

    // ---- parameters ------------------------------------------------------------------------------------

    /// Reads a parameter of the shell, at `${`.
    pub(super) fn read_parameter(&mut self, in_quotes: bool, word: &mut Word) {
        if let Some(parameter) = self.with_nesting(|reader| reader.read_parameter_inside(in_quotes)) {
            word.push_part(WordPart::Parameter(Rc::new(parameter)));
        }
    }

    fn read_parameter_inside(&mut self, in_quotes: bool) -> Parameter {
        let open = self.pos;
        self.pos += 2;
        let mut operand = Word { fixed: true, ..Word::default() };
        let zsh = self.dialect() == Dialect::Zsh;
        let flags = if zsh { self.read_zsh_flags(&mut operand) } else { 0..0 };
        let flags = &self.text[flags];
        let mut indirect = self.peek() == Some(b'!') || flags.contains('P');
        let is_length = self.peek() == Some(b'#') && !matches!(self.at(self.pos + 1), None | Some(b'}'));
        while matches!(self.peek(), Some(b'#' | b'!')) && !matches!(self.at(self.pos + 1), None | Some(b'}'))
        {
            self.pos += 1;
        }
        let start = self.pos;
        self.pos += shell_name(&self.text[start..self.end]).len();
        if self.pos == start {
            self.read_special_parameter();
        }
        let name = start..self.pos;
        // `${!PREFIX@}` and `${!PREFIX*}` list names, `${!NAME[@]}` lists keys.
        let rest = &self.text[self.pos..self.end];
        let mut lists_keys = None;
        if ["@}", "*}", "[@]}", "[*]}"].iter().any(|list| rest.starts_with(list))
            && indirect
            && !flags.contains('P')
        {
            indirect = false;
            let keyed = self.names.associative.contains(&self.text[name.clone()]);
            lists_keys = Some(if keyed { KeySort::Text } else { KeySort::Index });
        }
        let mut subscript = None;
        while self.peek() == Some(b'[') {
            self.pos += 1;
            self.is_key = self.names.associative.contains(&self.text[name.clone()]);
            subscript = Some(self.read_arithmetic(ArithmeticEnd::Bracket, &hazards::SUBSCRIPT));
        }
        let again = flags.contains(['e', '%', '~'])
            || self.peek() == Some(b'@') && matches!(self.at(self.pos + 1), Some(b'P' | b'E'));
        let evaluates = if indirect {
            Some(&hazards::INDIRECT)
        } else if again {
            Some(&hazards::EXPANDED_AGAIN)
        } else {
            None
        };
        let operation = self.read_parameter_operator(open, name.clone(), in_quotes, &mut operand);
        Parameter {
            range: if name.is_empty() { open..self.pos } else { name.clone() },
            name: self.text[name].into(),
            quoted: in_quotes,
            is_length,
            lists_keys,
            evaluates,
            subscript,
            operation,
            operand,
        }
    }

    /// Reads the flags of zsh before the name, and an expansion in place of the name.
    fn read_zsh_flags(&mut self, operand: &mut Word) -> Range<usize> {
        let start = self.pos;
        if self.peek() == Some(b'(') {
            let rest = &self.text[self.pos..self.end];
            self.pos += rest.find(')').map_or(rest.len(), |at| at + 1);
        }
        while matches!(self.peek(), Some(b'=' | b'^' | b'~' | b'+')) {
            self.pos += 1;
        }
        let flags = start..self.pos;
        if self.peek() == Some(b'$') {
            let forbidden = self.forbidden.replace("in a parameter of zsh");
            self.read_dollar(Quote::Inside, true, operand);
            self.forbidden = forbidden;
        }
        flags
    }

    /// Reads `1`, `@`, `#` and so on in braces.
    fn read_special_parameter(&mut self) {
        let digits = self.text.as_bytes()[self.pos..self.end].iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        if digits > 0 {
            self.pos += digits;
        } else if matches!(self.peek(), Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) {
            self.pos += 1;
        }
    }

    fn read_parameter_operator(
        &mut self,
        open: usize,
        name: Range<usize>,
        in_quotes: bool,
        operand: &mut Word,
    ) -> Operation {
        let colon = self.peek() == Some(b':');
        let operator = if colon { self.at(self.pos + 1) } else { self.peek() };
        match operator {
            Some(b'-' | b'=' | b'?' | b'+') => {
                if operator == Some(b'=') {
                    self.note_set(&self.text[name]);
                }
                self.pos += 1 + usize::from(colon);
                self.read_braced(open, BracedText::Default, in_quotes, operand);
                match operator {
                    Some(b'+') => Operation::Alternative,
                    _ => Operation::Default { assigns: operator == Some(b'=') },
                }
            }
            _ if colon => {
                self.pos += 1;
                let offset = self.read_arithmetic(ArithmeticEnd::Brace, &hazards::SUBSTRING);
                if self.peek() == Some(b'}') {
                    self.pos += 1;
                }
                Operation::Substring(offset)
            }
            Some(b'#' | b'%') => self.read_pattern(open, in_quotes, None, operand),
            Some(b'/') if self.dialect() != Dialect::Posix => {
                self.read_pattern(open, in_quotes, None, operand)
            }
            Some(b'}') => {
                self.pos += 1;
                Operation::Plain
            }
            _ => self.read_pattern(open, in_quotes, Some("after this operator of the shell"), operand),
        }
    }

    fn read_pattern(
        &mut self,
        open: usize,
        in_quotes: bool,
        forbidden: Option<&'static str>,
        operand: &mut Word,
    ) -> Operation {
        let start = self.pos;
        let before = self.forbidden;
        let here = self.in_document.then_some("in a pattern inside a here-document");
        self.forbidden = before.or(forbidden).or(here);
        self.read_braced(open, BracedText::Pattern, in_quotes, operand);
        self.forbidden = before;
        let digits =
            ["//[!0-9]/}", "//[^0-9]/}", "//[!0-9]}", "//[^0-9]}", "//[![:digit:]]/}", "//[^[:digit:]]/}"];
        let written = &self.text[start..self.pos];
        if digits.contains(&written) {
            Operation::KeepDigits
        } else if written.starts_with('%') {
            Operation::TrimEnd
        } else {
            Operation::Change
        }
    }

    /// Reads the text after an operator, up to the brace that closes the parameter.
    fn read_braced(&mut self, open: usize, kind: BracedText, in_quotes: bool, word: &mut Word) {
        loop {
            match self.peek() {
                None => return self.report_unclosed(open, "${"),
                Some(b'}') => break,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'}') => {
                    word.push_text("}");
                    self.pos += 2;
                }
                Some(b'\\') => self.read_backslash(in_quotes, word),
                Some(b'\'') => self.read_single_quotes_in_braces(kind, in_quotes, word),
                Some(b'"') if in_quotes && kind == BracedText::Default => {
                    let forbidden = self.forbidden;
                    self.forbidden = forbidden.or(Some("in quotes inside quotes"));
                    self.read_double_quotes(word);
                    self.forbidden = forbidden;
                }
                Some(b'"') => self.read_double_quotes(word),
                Some(b'$') => {
                    let plain = kind == BracedText::Pattern || !in_quotes;
                    self.read_dollar(if plain { Quote::Plain } else { Quote::Inside }, in_quotes, word);
                }
                Some(b'`') => self.read_backquotes(in_quotes, word),
                Some(_) => self.read_character(word),
            }
        }
        self.pos += 1;
    }

    fn read_single_quotes_in_braces(&mut self, kind: BracedText, in_quotes: bool, word: &mut Word) {
        let at = self.pos;
        if in_quotes && kind == BracedText::Default {
            self.report_unknown(
                at..at + 1,
                "shells disagree about `'` in a default inside double quotes",
                "put the default into a variable first",
            );
            self.pos += 1;
            return;
        }
        let forbidden = self.forbidden;
        if in_quotes {
            self.forbidden = forbidden.or(Some("in quotes inside quotes"));
        }
        self.read_single_quotes(Quote::Single, word);
        self.forbidden = forbidden;
    }

    // ---- arithmetic ------------------------------------------------------------------------------------

    /// Reads arithmetic after its opening, including its end; only a brace is left to the caller.
    pub(super) fn read_arithmetic(&mut self, close: ArithmeticEnd, hazard: &'static Hazard) -> Arithmetic {
        let open = self.pos;
        let is_key = std::mem::take(&mut self.is_key);
        let (mut parens, mut brackets) = (0_usize, 0_usize);
        let mut word = Word::default();
        let end = loop {
            match self.peek() {
                None => {
                    self.report_unclosed(open.saturating_sub(1), "(");
                    break self.pos;
                }
                Some(b')') if close == ArithmeticEnd::Parens && parens == 0 => {
                    if self.at(self.pos + 1) == Some(b')') {
                        self.pos += 2;
                        break self.pos - 2;
                    }
                    let at = self.pos;
                    self.report_unknown(
                        at..at + 1,
                        "`((` is not closed by `))`",
                        "write `( (` with a space for a subshell",
                    );
                    self.pos += 1;
                    break at;
                }
                Some(b']') if close == ArithmeticEnd::Bracket && brackets == 0 => {
                    self.pos += 1;
                    break self.pos - 1;
                }
                Some(b'}') if close == ArithmeticEnd::Brace => break self.pos,
                Some(byte @ (b'(' | b')' | b'[' | b']')) => {
                    match byte {
                        b'(' => parens += 1,
                        b')' => parens = parens.saturating_sub(1),
                        b'[' => brackets += 1,
                        _ => brackets = brackets.saturating_sub(1),
                    }
                    self.pos += 1;
                }
                Some(b'\\') => self.read_backslash(true, &mut word),
                Some(b'"') => self.read_double_quotes(&mut word),
                Some(b'\'') => self.read_single_quotes_in_braces(BracedText::Pattern, true, &mut word),
                Some(b'$') => self.read_dollar(Quote::Inside, true, &mut word),
                Some(b'`') => self.read_backquotes(true, &mut word),
                Some(_) => self.read_character(&mut word),
            }
        };
        let names = if is_key { Vec::new() } else { self.note_arithmetic_names(open, end) };
        word.range = open..end;
        let is_whole = matches!(&self.text[open..end.max(open)], "@" | "*");
        Arithmetic { range: open..end, hazard, word, names, is_key, is_whole }
    }

    /// Notes the variables that arithmetic sets. Returns the bare names in it.
    pub(super) fn note_arithmetic_names(&mut self, start: usize, end: usize) -> Vec<EcoString> {
        let text = &self.text[start..end.max(start)];
        let mut names: Vec<EcoString> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let name = shell_name(&text[at..]);
            if name.is_empty() {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let (before, after) = (&text[..at], text[at + name.len()..].trim_start());
            let counts = ["++", "--"];
            let counted = counts.iter().any(|sign| before.ends_with(sign) || after.starts_with(sign));
            let signs = after.len()
                - after.trim_start_matches(['+', '-', '*', '/', '%', '&', '|', '^', '<', '>']).len();
            let assigned = after[signs..].starts_with('=') && !after[signs..].starts_with("==");
            let compared = signs == 1 && after.starts_with(['<', '>']);
            if counted || assigned && !compared {
                self.note_set(name);
            }
            if names.last().is_none_or(|last| last != name) {
                names.push(name.into());
            }
            at += name.len();
        }
        names
    }
}

impl Parameter {
    /// `$NAME`, without an operator.
    fn plain(range: Range<usize>, name: EcoString, quoted: bool) -> Self {
        Self {
            range,
            name,
            quoted,
            is_length: false,
            lists_keys: None,
            evaluates: None,
            subscript: None,
            operation: Operation::Plain,
            operand: Word::default(),
        }
    }
}

impl Arithmetic {
    /// Arithmetic that was not read.
    fn empty(hazard: &'static Hazard) -> Self {
        Self { range: 0..0, hazard, word: Word::default(), names: Vec::new(), is_key: false, is_whole: false }
    }
}
