//! Changes of the text around one entry of an object, such that comments and layout stay. Where a place does not let
//! itself be changed so, there is no change.

use threadline_lang::data::Style;
use threadline_lang::diag::{Fix, Span};
use threadline_lang::source::{TreeEntry, TreeNode};

/// An entry of an object, in the text that it stands in.
pub(super) struct EntryPlace<'t> {
    pub(super) text: &'t str,
    pub(super) entry: &'t TreeEntry,
}

impl EntryPlace<'_> {
    fn is_json(&self) -> bool {
        self.entry.key_style == Style::Json
    }

    /// The end of the value, without white space and comments behind it.
    pub(super) fn end(&self) -> usize {
        let range = self.entry.node.span.range();
        let range = range.start.max(self.entry.key_span.range().end)..range.end;
        let written = self.text.get(range.clone()).unwrap_or_default();
        if written.is_empty() {
            // A value that is left out: the colon stands behind the key.
            let rest = &self.text[self.entry.key_span.range().end..];
            return self.entry.key_span.range().end + rest.find(':').map_or(0, |at| at + 1);
        }
        range.start + written.trim_end().len()
    }

    pub(super) fn start(&self) -> usize {
        self.entry.key_span.range().start
    }

    /// Where the line of the key begins.
    fn line(&self) -> usize {
        self.text[..self.start()].rfind('\n').map_or(0, |at| at + 1)
    }

    /// The column of the key, where only blanks stand before it.
    pub(super) fn indent(&self) -> Option<usize> {
        let before = &self.text[self.line()..self.start()];
        before.bytes().all(|byte| byte == b' ').then_some(before.len())
    }

    /// What stands behind the value in its last line.
    fn behind(&self) -> &str {
        let rest = &self.text[self.end()..];
        rest.split(['\n', '\r']).next().unwrap_or_default()
    }

    /// Whether the entry has its lines for itself: nothing but a comment stands beside it.
    pub(super) fn has_own_lines(&self) -> bool {
        let behind = self.behind().trim_start();
        !self.is_json() && self.indent().is_some() && (behind.is_empty() || behind.starts_with('#'))
    }

    /// A key as it is written here.
    pub(super) fn quoted(&self, key: &str) -> String {
        if self.is_json() { format!("\"{key}\"") } else { key.to_owned() }
    }

    /// Another value.
    pub(super) fn value(&self, value: &str) -> Fix {
        Fix::new(Span::new(self.entry.node.span.range().start, self.end()), self.quoted(value))
    }

    /// Another entry in its place.
    pub(super) fn entry(&self, key: &str, value: &str) -> Fix {
        let text = format!("{}: {}", self.quoted(key), self.quoted(value));
        Fix::new(Span::new(self.start(), self.end()), text)
    }

    /// Other text in place of the value; none where the value begins on a line of its own, or is a text over several lines.
    pub(super) fn flow(&self, text: &str) -> Option<Fix> {
        let start = self.entry.node.span.range().start;
        let between = self.text.get(self.entry.key_span.range().end..start)?;
        let is_block = between.contains('\n') || self.text[start..self.end()].contains('\n');
        (!is_block && start < self.end()).then(|| Fix::new(Span::new(start, self.end()), text))
    }

    /// Entries before this one, in the same way of writing.
    pub(super) fn before(&self, entries: &[String]) -> Option<Fix> {
        let start = self.start();
        let text = match self.indent() {
            Some(indent) if !self.is_json() => {
                let gap = format!("\n{}", " ".repeat(indent));
                entries.join(&gap) + &gap
            }
            _ if self.is_json() => return None,
            _ => entries.join(", ") + ", ",
        };
        Some(Fix::new(Span::new(start, start), text))
    }

    /// Lines before the entry, which begins at the left edge.
    pub(super) fn before_lines(&self, lines: &str) -> Option<Fix> {
        let is_first = self.indent() == Some(0) && !self.is_json();
        is_first.then(|| Fix::new(Span::new(self.start(), self.start()), lines))
    }

    /// An object with these entries, by this name, in place of the entry.
    pub(super) fn block(&self, key: &str, entries: &[String]) -> Option<Fix> {
        let indent = self.indent().filter(|_| self.has_own_lines())?;
        let gap = format!("\n{}", " ".repeat(indent + 2));
        let lines = entries.join(&gap);
        Some(Fix::new(Span::new(self.start(), self.end()), format!("{key}:{gap}{lines}")))
    }

    /// Without the entry. A comment behind it stays.
    pub(super) fn removed(&self, object: &TreeNode) -> Option<Fix> {
        let keys: Vec<Span> = object.entries().map(|(_, entry)| entry.key_span).collect();
        let position = keys.iter().position(|key| *key == self.entry.key_span)?;
        let next = keys.get(position + 1);
        if keys.len() == 1 {
            return None;
        }
        if self.has_own_lines() {
            let comment = self.behind().trim();
            if !comment.is_empty() {
                return Some(Fix::new(Span::new(self.start(), self.end() + self.behind().len()), comment));
            }
            let end = self.end() + self.behind().len();
            let rest = &self.text[end..];
            let line_break = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
            return Some(Fix::new(Span::new(self.line(), end + line_break), ""));
        }
        if let Some(next) = next.map(|next| next.range()).filter(|next| next.start > self.end()) {
            let between = &self.text[self.end()..next.start];
            return (!between.contains('#')).then(|| Fix::new(Span::new(self.start(), next.start), ""));
        }
        // The last of several: the comma before it goes, too.
        let before = self.text[..self.start()].trim_end();
        let before = before.strip_suffix(',')?;
        Some(Fix::new(Span::new(before.len(), self.end()), ""))
    }

    /// The entry as a comment, where it has its lines for itself.
    pub(super) fn commented_out(&self, object: &TreeNode) -> Option<Fix> {
        if !self.has_own_lines() || object.entries().count() < 2 {
            return None;
        }
        let indent = self.indent()?;
        let written = &self.text[self.start()..self.end()];
        let mut text = String::with_capacity(written.len() + 16);
        for (at, line) in written.split('\n').enumerate() {
            if at > 0 {
                text.push('\n');
                let blank = line.bytes().take_while(|byte| *byte == b' ').count();
                if line.trim().is_empty() {
                    text.push_str(line);
                    continue;
                }
                let column = blank.min(indent);
                text.push_str(&line[..column]);
                text.push_str("# ");
                text.push_str(&line[column..]);
                continue;
            }
            text.push_str("# ");
            text.push_str(line);
        }
        Some(Fix::new(Span::new(self.start(), self.end()), text))
    }
}
