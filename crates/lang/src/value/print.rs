//! The one text form, and JSON.

use super::{Value, ValueRepr};

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
            ValueRepr::Text(text) => out.push_str(text),
            ValueRepr::Null => {}
            ValueRepr::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            ValueRepr::Number(number) => number.write(out),
            ValueRepr::List(_) | ValueRepr::Object(_) => self.write_json(out, JsonStyle::Compact),
        }
    }

    /// The value as JSON.
    pub fn to_json(&self, style: JsonStyle) -> String {
        let mut out = String::new();
        self.write_json(&mut out, style);
        out
    }

    /// Fields as one JSON object on one line, in their order. No two of them have the same name.
    pub fn fields_to_json(fields: &[(&str, Self)]) -> String {
        let mut out = String::with_capacity(256);
        let fields = fields.iter().map(|(name, value)| (*name, value));
        JsonWriter { out: &mut out, pretty: false, indent: 0 }.object(fields);
        out
    }

    /// Appends the value as JSON, every digit kept.
    pub fn write_json(&self, out: &mut String, style: JsonStyle) {
        JsonWriter { out, pretty: style == JsonStyle::Pretty, indent: 0 }.value(self);
    }
}

struct JsonWriter<'a> {
    out: &'a mut String,
    pretty: bool,
    indent: usize,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value) {
        match &value.0 {
            ValueRepr::Null => self.out.push_str("null"),
            ValueRepr::Bool(bool) => self.out.push_str(if *bool { "true" } else { "false" }),
            ValueRepr::Number(number) => number.write(self.out),
            ValueRepr::Text(text) => quote(text, self.out),
            ValueRepr::List(list) => {
                self.container('[', ']', list.items.iter(), JsonWriter::value);
            }
            ValueRepr::Object(object) => {
                self.object(object.iter().map(|(key, value)| (key.as_str(), value)));
            }
        }
    }

    fn object<'v>(&mut self, fields: impl Iterator<Item = (&'v str, &'v Value)>) {
        self.container('{', '}', fields, |writer, (name, value)| {
            quote(name, writer.out);
            writer.out.push_str(if writer.pretty { ": " } else { ":" });
            writer.value(value);
        });
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
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| ESCAPED[usize::from(byte)]) {
        out.push_str(&rest[..at]);
        escape(rest.as_bytes()[at], out);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// The bytes that cannot stand in a JSON string as they are, and delete.
static ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0x7f] = true;
    table
};

fn escape(byte: u8, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        byte => {
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}
