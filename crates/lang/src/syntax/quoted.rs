//! Text in quotes inside expressions: escapes, templates in it, and keys, in which no reference may stand.

use super::parser::{Parsed, Parser, position};
use super::{NodeId, NodeRange, SyntaxNode, TemplatePart};
use crate::diag::Span;
use crate::diag::error::ParseClass;
use crate::value::Value;

impl Parser<'_, '_> {
    /// Text in either quote: a template, always text.
    pub(super) fn string(&mut self) -> Parsed<NodeId> {
        let open = self.pos;
        let parts = self.quoted_parts(true)?;
        let span = self.span_from(open);
        if let [] | [TemplatePart::Owned(_)] = parts[..] {
            let text = match parts.into_iter().next() {
                Some(TemplatePart::Owned(text)) => text,
                _ => ecow::EcoString::new(),
            };
            return Ok(self.push(SyntaxNode::Const(Value::from(text)), span));
        }
        let run = NodeRange { start: position(self.program.parts.len()), len: position(parts.len()) };
        self.program.parts.extend(parts);
        Ok(self.push(SyntaxNode::Text(run), span))
    }

    /// A key in quotes: names are known before the run, so no reference may stand in one.
    pub(super) fn key_literal(&mut self) -> Parsed<String> {
        let open = self.pos;
        let parts = self.quoted_parts(true)?;
        let texts = parts.iter().map(|part| match part {
            TemplatePart::Owned(text) => Some(text.as_str()),
            TemplatePart::Lit(_) | TemplatePart::Ref(..) => None,
        });
        match texts.collect() {
            Some(key) => Ok(key),
            None => self.problem(
                ParseClass::Syntax,
                self.span_from(open),
                "a key is literal: no reference may stand in it",
            ),
        }
    }

    /// Text in either quote, `${` in it left as text.
    pub(super) fn key_text(&mut self) -> Parsed<(String, Span)> {
        let open = self.pos;
        let mut parts = self.quoted_parts(false)?;
        let span = self.span_from(open);
        Ok(match parts.pop() {
            Some(TemplatePart::Owned(text)) => (text.to_string(), span),
            _ => (String::new(), span),
        })
    }

    /// The inside of a quoted text, escapes decoded. Without `references`, `${` stays text for the caller: a key
    /// refuses it, an element expression parses it.
    fn quoted_parts(&mut self, references: bool) -> Parsed<Vec<TemplatePart>> {
        let open = self.pos;
        let quote = self.text.as_bytes()[open];
        self.pos += 1;
        let mut parts = Vec::new();
        let mut text = ecow::EcoString::new();
        loop {
            let rest = &self.text.as_bytes()[self.pos..self.end];
            let plain = memchr::memchr3(quote, b'\\', b'$', rest).unwrap_or(rest.len());
            text.push_str(&self.text[self.pos..self.pos + plain]);
            self.pos += plain;
            match self.peek() {
                None => {
                    return self.problem(
                        ParseClass::Unclosed,
                        self.span(open, open + 1),
                        "this quote is never closed",
                    );
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(b'$') => self.quoted_dollars(references, &mut text, &mut parts)?,
                Some(_) => {
                    self.pos += 1;
                    break;
                }
            }
        }
        if !text.is_empty() {
            parts.push(TemplatePart::Owned(text));
        }
        Ok(parts)
    }

    fn quoted_dollars(
        &mut self,
        references: bool,
        text: &mut ecow::EcoString,
        parts: &mut Vec<TemplatePart>,
    ) -> Parsed<()> {
        let start = self.pos;
        let count = self.text[start..self.end].bytes().take_while(|byte| *byte == b'$').count();
        self.pos += count;
        if self.peek() != Some(b'{') || !references {
            text.push_str(&self.text[start..self.pos]);
            return Ok(());
        }
        text.push_str(&self.text[start..start + count / 2]);
        if count % 2 == 0 {
            return Ok(());
        }
        self.pos += 1;
        if !text.is_empty() {
            parts.push(TemplatePart::Owned(std::mem::take(text)));
        }
        let ref_start = self.pos - 2;
        let node = self.nested(Self::reference)?;
        let span = self.span_from(ref_start);
        parts.push(TemplatePart::Ref(node, span));
        Ok(())
    }

    fn escape(&mut self, text: &mut ecow::EcoString) -> Parsed<()> {
        let decoded = match self.peek_at(1) {
            Some(b'\\') => '\\',
            Some(b'\'') => '\'',
            Some(b'"') => '"',
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'u') if self.peek_at(2) == Some(b'{') => return self.unicode_escape(text),
            Some(b'$') if self.peek_at(2) == Some(b'{') => {
                return self.problem_with(
                    ParseClass::Syntax,
                    self.span(self.pos, self.pos + 3),
                    "`\\${` does not escape",
                    "write `$${` for the text `${`",
                );
            }
            _ => {
                text.push('\\');
                self.pos += 1;
                return Ok(());
            }
        };
        text.push(decoded);
        self.pos += 2;
        Ok(())
    }

    fn unicode_escape(&mut self, text: &mut ecow::EcoString) -> Parsed<()> {
        let start = self.pos;
        let digits = &self.text[start + 3..self.end];
        let len = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let closed = digits.as_bytes().get(len) == Some(&b'}');
        let decoded = u32::from_str_radix(&digits[..len], 16).ok().and_then(char::from_u32);
        match decoded {
            Some(char) if closed => {
                text.push(char);
                self.pos = start + 3 + len + 1;
                Ok(())
            }
            _ => self.problem(
                ParseClass::Syntax,
                self.span(start, start + 3 + len),
                "`\\u{...}` takes the hexadecimal number of a character",
            ),
        }
    }
}
