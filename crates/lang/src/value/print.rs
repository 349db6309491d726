//! The one text form, and JSON.

use super::{Repr, Value};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonStyle {
    /// On one line, without spaces.
    Compact,
    /// Indented by two spaces.
    Pretty,
}

impl Value {
    /// Appends the text form: text as it is, null as nothing, lists and objects as compact JSON.
    #[inline]
    pub fn write_text(&self, out: &mut String) {
        match &self.0 {
            Repr::Text(text) => out.push_str(text),
            Repr::Null => {}
            Repr::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            Repr::Number(number) => number.write(out),
            Repr::List(_) | Repr::Object(_) => self.write_json(out, JsonStyle::Compact),
        }
    }

    /// Appends the text form, but not much more than `most` bytes of a list or an object: a value may hold one part
    /// many times over.
    pub(crate) fn write_text_within(&self, most: usize, out: &mut String) {
        match &self.0 {
            Repr::List(_) | Repr::Object(_) => {
                let most = out.len().saturating_add(most);
                Writer { out, pretty: false, indent: 0, most }.value(self);
            }
            _ => self.write_text(out),
        }
    }

    /// The value as JSON.
    pub fn to_json(&self, style: JsonStyle) -> String {
        let mut out = String::new();
        self.write_json(&mut out, style);
        out
    }

    /// Appends the value as JSON, every digit kept.
    pub fn write_json(&self, out: &mut String, style: JsonStyle) {
        Writer { out, pretty: style == JsonStyle::Pretty, indent: 0, most: usize::MAX }.value(self);
    }
}

struct Writer<'a> {
    out: &'a mut String,
    pretty: bool,
    indent: usize,
    /// No entry is written behind this length.
    most: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) {
        match &value.0 {
            Repr::Null => self.out.push_str("null"),
            Repr::Bool(bool) => self.out.push_str(if *bool { "true" } else { "false" }),
            Repr::Number(number) => number.write(self.out),
            Repr::Text(text) => quote(text, self.out),
            Repr::List(list) => {
                self.container('[', ']', list.items.iter(), |writer, item| writer.value(item));
            }
            Repr::Object(object) => self.container('{', '}', object.iter(), |writer, (key, value)| {
                quote(key.as_str(), writer.out);
                writer.out.push_str(if writer.pretty { ": " } else { ":" });
                writer.value(value);
            }),
        }
    }

    fn container<T>(
        &mut self,
        open: char,
        close: char,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        self.indent += 1;
        let mut empty = true;
        for item in items {
            if self.out.len() > self.most {
                break;
            }
            if !empty {
                self.out.push(',');
            }
            empty = false;
            self.line();
            write(self, item);
        }
        self.indent -= 1;
        if !empty {
            self.line();
        }
        self.out.push(close);
    }

    fn line(&mut self) {
        if self.pretty {
            self.out.push('\n');
            (0..self.indent).for_each(|_| self.out.push_str("  "));
        }
    }
}

/// Appends a JSON string.
pub(crate) fn quote(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f | 0x7f => "",
            _ => continue,
        };
        out.push_str(&text[done..at]);
        done = at + 1;
        if escape.is_empty() {
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}
