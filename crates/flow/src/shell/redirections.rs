//! Redirections and here-documents, read into a tree.

use std::ops::Range;

use ecow::EcoString;

use super::Dialect;
use super::reader::{Edit, Quote, Replacement, ScriptReader};
use super::tree::{CommandSyntax, Redirection, RedirectionTarget, Word, WordPart};

/// A here-document whose lines have not been read yet.
pub(super) struct PendingDocument {
    delimiter: String,
    strip: bool,
    quoted: bool,
    word: Range<usize>,
    index: usize,
}

impl ScriptReader<'_> {
    /// Reads the redirections after a compound command.
    pub(super) fn read_redirections(&mut self, syntax: &CommandSyntax) -> Vec<Redirection> {
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
    pub(super) fn read_redirection(
        &mut self,
        descriptor: Option<EcoString>,
        redirections: &mut Vec<Redirection>,
    ) {
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
    pub(super) fn read_documents(&mut self) {
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
}
