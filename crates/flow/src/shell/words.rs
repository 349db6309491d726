//! Words: quotes, substitutions, parameters and arithmetic, nested in each other.

use std::ops::Range;

use super::Dialect;
use super::commands::End;
use super::names::{Owner, shell_name};
use super::places::place;
use super::reader::{Edit, Quote, Reader, What};

/// One word of a command.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the word")]
pub(super) struct Word {
    pub range: Range<usize>,
    /// What is known of its value, from the beginning.
    pub literal: String,
    /// All of it is known.
    pub fixed: bool,
    /// Some of it is quoted, so it is no keyword.
    pub quoted: bool,
    /// The references in it, those in its substitutions too.
    pub slots: Range<usize>,
    /// The variables of the shell in it.
    pub variables: Range<usize>,
    /// The reference that it begins with.
    pub begins: Option<usize>,
    /// A tilde stands where the name of a home folder can follow.
    pub tilde: bool,
    /// A brace is open.
    pub brace: bool,
}

impl Word {
    /// The value, when all of it is known.
    pub(super) fn text(&self) -> Option<&str> {
        self.fixed.then_some(self.literal.as_str())
    }

    /// An unquoted word that is exactly this.
    pub(super) fn is(&self, text: &str) -> bool {
        self.fixed && !self.quoted && self.literal == text
    }

    fn push(&mut self, text: &str) {
        if self.fixed {
            self.literal.push_str(text);
        }
    }
}

/// A variable of the shell that the text expands.
pub(super) struct Expansion {
    pub name: Range<usize>,
    pub quoted: bool,
    pub level: usize,
}

/// What the text behind an operator of a parameter is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braced {
    /// A default: quotes around the whole hold for it.
    Default,
    /// A pattern or a replacement: it has quotes of its own.
    Pattern,
}

/// What ends arithmetic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    Parens,
    Bracket,
    Brace,
}

impl Reader<'_> {
    /// A word of a command, up to white space or an operator.
    pub(super) fn word(&mut self) -> Word {
        let start = self.pos;
        let mut word = Word { fixed: true, ..Word::default() };
        let (slots, variables) = (self.slots.len(), self.expansions.len());
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.at(self.pos + 1) == Some(b'(') && self.dialect() != Dialect::Posix => {
                    word.fixed = false;
                    self.pos += 1;
                    self.substitution();
                }
                b'(' if self.is_pattern_group(start) => self.pattern_group(&mut word),
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' => self.backslash(false, &mut word),
                b'\'' => self.single(Quote::Single, &mut word),
                b'"' => self.double(&mut word),
                b'$' => self.word_dollar(&mut word),
                b'`' => {
                    word.fixed = false;
                    self.backticks(false);
                }
                _ => {
                    self.notice(byte, start, &mut word);
                    self.plain_character(&mut word);
                }
            }
        }
        word.range = start..self.pos;
        word.slots = slots..self.slots.len();
        word.variables = variables..self.expansions.len();
        if let Some(slot) = word.begins {
            self.slots[slot].begins_word = true;
        }
        word
    }

    /// Characters that change what a reference behind them would mean.
    fn notice(&self, byte: u8, start: usize, word: &mut Word) {
        match byte {
            b'~' => {
                word.tilde = self.pos == start || matches!(self.text.as_bytes()[self.pos - 1], b'=' | b':');
            }
            b'/' | b':' => word.tilde = false,
            b'{' => word.brace = true,
            _ => {}
        }
    }

    fn plain_character(&mut self, word: &mut Word) {
        let width = self.text[self.pos..].chars().next().map_or(1, char::len_utf8);
        word.push(&self.text[self.pos..self.pos + width]);
        self.pos += width;
    }

    /// At a dollar outside of quotes.
    fn word_dollar(&mut self, word: &mut Word) {
        let (slots, at) = (self.slots.len(), self.pos);
        let first = word.fixed && word.literal.is_empty();
        self.dollar_in_word(word);
        if self.slots.len() == slots {
            return;
        }
        let level = self.level;
        if first && self.slots[slots].level == level {
            word.begins = Some(slots);
        }
        if word.tilde {
            self.unknown(
                at..self.pos,
                "a value behind `~` cannot name a home folder",
                "write the path out, or begin it with `\"$HOME\"/`",
            );
        }
        let around = self.text[..at].ends_with("..") || self.text[self.pos..self.end].starts_with("..");
        if word.brace && around {
            self.unknown(
                at..self.pos,
                "the shell expands `{a..b}` before it knows the value",
                "count with `seq`: `for I in $(seq 1 ${n})`",
            );
        }
    }

    fn dollar_in_word(&mut self, word: &mut Word) {
        match self.at(self.pos + 1) {
            Some(b'\'') if self.dialect() == Dialect::Posix => {
                let at = self.pos;
                self.unknown(
                    at..at + 2,
                    "shells differ on `$'`",
                    "write `$(printf ...)`, or run it with bash",
                );
                self.pos += 1;
            }
            Some(b'\'') => {
                word.quoted = true;
                self.pos += 1;
                self.single(Quote::AnsiC, word);
                word.fixed = false;
            }
            Some(b'"') => {
                self.pos += 1;
                let forbidden = self.forbidden.replace("in `$\"...\"`, which is translated");
                self.double(word);
                self.forbidden = forbidden;
                word.fixed = false;
            }
            _ => {
                let before = self.pos;
                self.dollar(Quote::Plain, false);
                // A dollar that begins nothing is just that.
                if self.pos == before + 1 { word.push("$") } else { word.fixed = false }
            }
        }
    }

    /// At `\`. Inside of double quotes it quotes only some characters.
    pub(super) fn backslash(&mut self, in_quotes: bool, word: &mut Word) {
        let at = self.pos;
        match self.at(at + 1) {
            Some(b'\n') => self.pos += 2,
            Some(b'$') => {
                word.quoted = true;
                word.push("$");
                self.pos += 2;
                if self.peek() == Some(b'{') && !matches!(self.owner(at + 1), Owner::Shell) {
                    self.escaped_reference(at);
                }
            }
            Some(b'"' | b'\\' | b'`') => {
                word.quoted = true;
                word.push(&self.text[at + 1..at + 2]);
                self.pos += 2;
            }
            Some(_) if in_quotes => {
                word.push("\\");
                self.pos += 1;
            }
            Some(_) => {
                word.quoted = true;
                self.pos += 1;
                self.plain_character(word);
            }
            None => self.pos += 1,
        }
    }

    fn escaped_reference(&mut self, at: usize) {
        self.problem(
            "shell-escape",
            at..at + 3,
            "a backslash does not escape a reference",
            "write `$${` for the shell's own `${`, and `'$${...}'` in single quotes for the text",
        );
    }

    /// At `'`, in single quotes or behind the dollar of `$'...'`.
    pub(super) fn single(&mut self, quote: Quote, word: &mut Word) {
        let open = self.pos;
        word.quoted = true;
        self.pos += 1;
        let mut from = self.pos;
        loop {
            match self.peek() {
                None => return self.unclosed(open, "'"),
                Some(b'\'') => break,
                Some(b'\\') if quote == Quote::AnsiC => self.pos += 2,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'$') && self.at(self.pos + 2) == Some(b'{') => {
                    let at = self.pos;
                    self.pos += 1;
                    if !matches!(self.owner(at + 1), Owner::Shell) {
                        self.escaped_reference(at);
                        self.pos += 2;
                    }
                }
                Some(b'$') => {
                    word.push(&self.text[from..self.pos]);
                    let first = word.fixed && word.literal.is_empty();
                    let slots = self.slots.len();
                    from = self.pos;
                    self.literal_dollar(quote);
                    if self.slots.len() > slots {
                        word.fixed = false;
                        if first {
                            word.begins = Some(slots);
                        }
                        from = self.pos;
                    }
                }
                Some(_) => self.pos += 1,
            }
        }
        self.pos = self.pos.min(self.end);
        let to = self.text.floor_char_boundary(self.pos);
        word.push(self.text.get(from..to).unwrap_or_default());
        self.pos += 1;
    }

    /// At a dollar where the shell expands nothing: only references of ours count.
    pub(super) fn literal_dollar(&mut self, quote: Quote) {
        let start = self.pos;
        let dollars = self.text.as_bytes()[start..self.end].iter().take_while(|byte| **byte == b'$').count();
        if self.at(start + dollars) != Some(b'{') {
            self.pos += dollars;
            return;
        }
        match dollars {
            1 => match self.owner(start) {
                Owner::Ours => self.slot(quote),
                Owner::Shell => self.pos += 2,
                Owner::Unclear(problem) => {
                    self.report_at(problem);
                    self.pos += 2;
                }
            },
            2 => {
                self.edits.push(Edit { range: start..start + 1, what: What::Text("") });
                self.pos += 3;
            }
            _ => {
                self.pos += dollars + 1;
                self.too_many_dollars(start);
            }
        }
    }

    /// At `"`.
    pub(super) fn double(&mut self, word: &mut Word) {
        let open = self.pos;
        word.quoted = true;
        self.pos += 1;
        loop {
            match self.peek() {
                None => return self.unclosed(open, "\""),
                Some(b'"') => break,
                Some(b'\\') => self.backslash(true, word),
                Some(b'$') => {
                    let (slots, first) = (self.slots.len(), word.fixed && word.literal.is_empty());
                    let before = self.pos;
                    self.dollar(Quote::Inside, true);
                    if self.pos == before + 1 {
                        word.push("$");
                    } else {
                        word.fixed = false;
                    }
                    if first && self.slots.len() > slots && self.slots[slots].level == self.level {
                        word.begins = Some(slots);
                    }
                }
                Some(b'`') => {
                    word.fixed = false;
                    self.backticks(true);
                }
                Some(_) => self.plain_character(word),
            }
        }
        self.pos += 1;
    }

    pub(super) fn unclosed(&mut self, open: usize, what: &str) {
        self.pos = self.end;
        let written = self.text[open..].starts_with(what);
        let end = open + if written { what.len() } else { 1 };
        let named = if what == "`" { "backquote".to_owned() } else { format!("`{what}`") };
        self.problem("shell-unclosed", open..end, format!("this {named} is never closed"), "close it");
    }

    // ---- substitutions ---------------------------------------------------------------------------------

    /// At a dollar that is not doubled and has no brace behind it.
    pub(super) fn single_dollar(&mut self, in_quotes: bool) {
        let start = self.pos;
        match self.at(start + 1) {
            Some(b'(') if self.at(start + 2) == Some(b'(') => {
                self.pos += 3;
                self.nested(|reader| reader.arithmetic(Close::Parens, "arithmetic"));
            }
            Some(b'(') => {
                self.pos += 1;
                self.substitution();
            }
            Some(b'[') if self.dialect() != Dialect::Posix => {
                self.pos += 2;
                let forbidden = self.forbidden.replace("in `$[...]`");
                self.nested(|reader| reader.arithmetic(Close::Bracket, "arithmetic"));
                self.forbidden = forbidden;
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = shell_name(&self.text[start + 1..self.end]).len();
                self.pos += 1 + name;
                self.expands(start + 1..self.pos, in_quotes);
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'!') => self.pos += 2,
            _ => self.pos += 1,
        }
    }

    fn expands(&mut self, name: Range<usize>, quoted: bool) {
        self.expansions.push(Expansion { name, quoted, level: self.level });
    }

    /// At `(` of `$(...)` or `<(...)`: a whole script of its own.
    pub(super) fn substitution(&mut self) {
        let open = self.pos;
        self.pos += 1;
        let waiting = std::mem::take(&mut self.waiting);
        self.level += 1;
        self.nested(|reader| {
            reader.list(End::Paren);
            if reader.pos < reader.end {
                reader.pos += 1;
            } else {
                reader.unclosed(open, "(");
            }
        });
        self.level -= 1;
        self.unread_documents();
        if !waiting.is_empty() && self.text[open..self.pos].contains('\n') {
            self.unknown(
                open..open + 1,
                "shells differ on a line break in a substitution before a here-document",
                "put the substitution into a variable first",
            );
        }
        self.waiting = waiting;
    }

    /// At a backquote.
    pub(super) fn backticks(&mut self, in_quotes: bool) {
        let open = self.pos;
        let mut close = open + 1;
        let mut escapes = false;
        loop {
            match self.at(close) {
                None => return self.unclosed(open, "`"),
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
            self.forbidden = Some("in backquotes that hold backslashes");
        } else if in_quotes {
            self.forbidden = Some("in backquotes inside of double quotes");
        }
        self.pos = open + 1;
        self.level += 1;
        if escapes {
            self.opaque();
        } else {
            self.nested(|reader| {
                reader.list(End::Text);
            });
        }
        self.level -= 1;
        self.unread_documents();
        self.waiting = waiting;
        self.forbidden = forbidden;
        self.end = outer;
        self.pos = close + 1;
    }

    /// Text that is not read, only searched for references, which may not stand in it.
    fn opaque(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'$' { self.literal_dollar(Quote::Plain) } else { self.pos += 1 }
        }
    }

    /// Whether `(` at the position belongs to a pattern such as `@(a|b)`.
    fn is_pattern_group(&self, start: usize) -> bool {
        self.dialect() != Dialect::Posix
            && self.pos > start
            && matches!(self.text.as_bytes()[self.pos - 1], b'@' | b'!' | b'+' | b'?' | b'*')
    }

    fn pattern_group(&mut self, word: &mut Word) {
        let open = self.pos;
        word.fixed = false;
        let forbidden = self.forbidden.replace("in a group of a pattern");
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => {
                    self.unclosed(open, "(");
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
                Some(b'\\') => self.backslash(false, word),
                Some(b'\'') => self.single(Quote::Single, word),
                Some(b'"') => self.double(word),
                Some(b'$') => self.dollar(Quote::Plain, false),
                Some(b'`') => self.backticks(false),
                Some(_) => self.pos += 1,
            }
        }
        self.forbidden = forbidden;
    }

    // ---- parameters ------------------------------------------------------------------------------------

    /// At `${` of the shell's own.
    pub(super) fn parameter(&mut self, in_quotes: bool) {
        self.nested(|reader| reader.parameter_inside(in_quotes));
    }

    fn parameter_inside(&mut self, in_quotes: bool) {
        let open = self.pos;
        self.pos += 2;
        let flags = if self.dialect() == Dialect::Zsh { self.zsh_flags() } else { 0..0 };
        let flags = &self.text[flags];
        let indirect = self.peek() == Some(b'!') || flags.contains('P');
        while matches!(self.peek(), Some(b'#' | b'!')) && !matches!(self.at(self.pos + 1), None | Some(b'}'))
        {
            self.pos += 1;
        }
        let start = self.pos;
        self.pos += shell_name(&self.text[start..self.end]).len();
        if self.pos > start {
            self.expands(start..self.pos, in_quotes);
            let again = flags.contains(['e', '%']) || matches!(self.at(self.pos + 1), Some(b'P' | b'E'));
            if indirect {
                self.evaluates(self.expansions.len() - 1, "indirect");
            } else if again && (self.peek() == Some(b'@') || !flags.is_empty()) {
                self.evaluates(self.expansions.len() - 1, "expanded-again");
            }
        } else {
            self.special_parameter();
        }
        let name = start..self.pos;
        while self.peek() == Some(b'[') {
            self.pos += 1;
            self.keyed = self.names.associative.contains(&self.text[name.clone()]);
            self.arithmetic(Close::Bracket, "subscript");
        }
        self.operator_of_parameter(open, name, in_quotes);
    }

    /// The flags of zsh before the name.
    fn zsh_flags(&mut self) -> Range<usize> {
        let start = self.pos;
        if self.peek() == Some(b'(') {
            let rest = &self.text[self.pos..self.end];
            self.pos += rest.find(')').map_or(rest.len(), |at| at + 1);
        }
        let flags = start..self.pos;
        while matches!(self.peek(), Some(b'=' | b'^' | b'~' | b'+')) {
            self.pos += 1;
        }
        if self.peek() == Some(b'$') {
            let forbidden = self.forbidden.replace("in a parameter of zsh");
            self.dollar(Quote::Inside, true);
            self.forbidden = forbidden;
        }
        flags
    }

    /// `$1`, `$@`, `$#` and the like in braces.
    fn special_parameter(&mut self) {
        let digits = self.text.as_bytes()[self.pos..self.end].iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        if digits > 0 {
            self.pos += digits;
        } else if matches!(self.peek(), Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) {
            self.pos += 1;
        }
    }

    fn operator_of_parameter(&mut self, open: usize, name: Range<usize>, in_quotes: bool) {
        let colon = self.peek() == Some(b':');
        let operator = if colon { self.at(self.pos + 1) } else { self.peek() };
        match operator {
            Some(b'-' | b'=' | b'?' | b'+') => {
                if operator == Some(b'=') {
                    self.sets(&self.text[name]);
                }
                self.pos += 1 + usize::from(colon);
                self.braced(open, Braced::Default, in_quotes);
            }
            _ if colon => {
                self.pos += 1;
                self.arithmetic(Close::Brace, "substring");
                if self.peek() == Some(b'}') {
                    self.pos += 1;
                }
            }
            Some(b'#' | b'%') => self.pattern(open, in_quotes, None),
            Some(b'/') if self.dialect() != Dialect::Posix => self.pattern(open, in_quotes, None),
            Some(b'}') => self.pos += 1,
            _ => self.pattern(open, in_quotes, Some("behind this operator of the shell")),
        }
    }

    fn pattern(&mut self, open: usize, in_quotes: bool, forbidden: Option<&'static str>) {
        let before = self.forbidden;
        let here = self.in_document.then_some("in a pattern inside of a here-document");
        self.forbidden = before.or(forbidden).or(here);
        self.braced(open, Braced::Pattern, in_quotes);
        self.forbidden = before;
    }

    /// The text behind an operator, up to the brace that closes the parameter.
    fn braced(&mut self, open: usize, kind: Braced, in_quotes: bool) {
        let mut word = Word::default();
        loop {
            match self.peek() {
                None => return self.unclosed(open, "${"),
                Some(b'}') => break,
                Some(b'\\') if self.at(self.pos + 1) == Some(b'}') => self.pos += 2,
                Some(b'\\') => self.backslash(in_quotes, &mut word),
                Some(b'\'') => self.single_in_braces(kind, in_quotes, &mut word),
                Some(b'"') if in_quotes && kind == Braced::Default => {
                    let forbidden = self.forbidden;
                    self.forbidden = forbidden.or(Some("in quotes inside of quotes"));
                    self.double(&mut word);
                    self.forbidden = forbidden;
                }
                Some(b'"') => self.double(&mut word),
                Some(b'$') => {
                    let plain = kind == Braced::Pattern || !in_quotes;
                    self.dollar(if plain { Quote::Plain } else { Quote::Inside }, in_quotes);
                }
                Some(b'`') => self.backticks(in_quotes),
                Some(_) => self.pos += 1,
            }
        }
        self.pos += 1;
    }

    fn single_in_braces(&mut self, kind: Braced, in_quotes: bool, word: &mut Word) {
        let at = self.pos;
        if in_quotes && kind == Braced::Default {
            self.unknown(
                at..at + 1,
                "shells differ on `'` in a default inside of double quotes",
                "put the default into a variable first",
            );
            self.pos += 1;
            return;
        }
        let forbidden = self.forbidden;
        if in_quotes {
            self.forbidden = forbidden.or(Some("in quotes inside of quotes"));
        }
        self.single(Quote::Single, word);
        self.forbidden = forbidden;
    }

    // ---- arithmetic ------------------------------------------------------------------------------------

    /// Behind the opening of arithmetic, to behind what closes it; a brace is left to the caller.
    pub(super) fn arithmetic(&mut self, close: Close, id: &'static str) {
        let (open, slots) = (self.pos, self.slots.len());
        let variables = self.expansions.len();
        let keyed = std::mem::take(&mut self.keyed);
        let (mut parens, mut brackets) = (0_usize, 0_usize);
        let mut word = Word::default();
        let end = loop {
            match self.peek() {
                None => return self.unclosed(open.saturating_sub(1), "("),
                Some(b')') if close == Close::Parens && parens == 0 => {
                    if self.at(self.pos + 1) == Some(b')') {
                        self.pos += 2;
                        break self.pos - 2;
                    }
                    let at = self.pos;
                    self.unknown(
                        at..at + 1,
                        "`((` that is not closed by `))`",
                        "for a subshell write `( (` with a space",
                    );
                    self.pos += 1;
                    break at;
                }
                Some(b']') if close == Close::Bracket && brackets == 0 => {
                    self.pos += 1;
                    break self.pos - 1;
                }
                Some(b'}') if close == Close::Brace => break self.pos,
                Some(byte @ (b'(' | b')' | b'[' | b']')) => {
                    match byte {
                        b'(' => parens += 1,
                        b')' => parens = parens.saturating_sub(1),
                        b'[' => brackets += 1,
                        _ => brackets = brackets.saturating_sub(1),
                    }
                    self.pos += 1;
                }
                Some(b'\\') => self.backslash(true, &mut word),
                Some(b'"') => self.double(&mut word),
                Some(b'\'') => self.single_in_braces(Braced::Pattern, true, &mut word),
                Some(b'$') => self.dollar(Quote::Inside, true),
                Some(b'`') => self.backticks(true),
                Some(_) => self.pos += 1,
            }
        };
        self.arithmetic_slots(slots, id);
        if !keyed {
            self.computes(variables, id);
            self.arithmetic_names(open, end, id);
        }
    }

    /// The variables that arithmetic sets, and those whose values it evaluates: a bare name is enough.
    pub(super) fn arithmetic_names(&mut self, start: usize, end: usize, id: &'static str) {
        let text = &self.text[start..end.max(start)];
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
                self.sets(name);
            }
            self.computes_name(&name.into(), place(id));
            at += name.len();
        }
    }
}
