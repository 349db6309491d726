//! How long a value's text form or JSON is, found without making it.
//!
//! A value may hold one part many times over, so its text can be far larger than the value in memory. The walk
//! ends as soon as the size is over the limit, and each container adds at least two bytes, so it is bounded too.

use crate::value::{Value, ValueRepr};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeasuredForm {
    /// The text form.
    Text,
    /// JSON without white space.
    Compact,
    /// JSON with one entry per line.
    Pretty,
    /// No less than block YAML, in which the lines of a text are indented too.
    Block,
}

/// The size in bytes, unless it is more than `most`.
pub(crate) fn size(value: &Value, form: MeasuredForm, most: usize) -> Option<usize> {
    let mut measure = SizeMeter { left: most, form, digits: String::new() };
    let done = match (form, value.as_str()) {
        (MeasuredForm::Block, _) => measure.add(1).and_then(|()| measure.value(value, 0)),
        (MeasuredForm::Text, Some(text)) => measure.add(text.len()),
        (MeasuredForm::Text, None) if value.is_null() => Some(()),
        _ => measure.value(value, 0),
    };
    done.map(|()| most - measure.left)
}

struct SizeMeter {
    left: usize,
    form: MeasuredForm,
    digits: String,
}

impl SizeMeter {
    fn add(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }

    fn value(&mut self, value: &Value, indent: usize) -> Option<()> {
        match &value.0 {
            ValueRepr::Null | ValueRepr::Bool(true) => self.add(4),
            ValueRepr::Bool(false) => self.add(5),
            ValueRepr::Number(number) => {
                self.digits.clear();
                number.write(&mut self.digits);
                self.add(self.digits.len())
            }
            ValueRepr::Text(text) => self.quoted(text, indent),
            ValueRepr::List(_) => {
                let items = value.as_list()?;
                self.brackets(items.len(), indent)?;
                items.iter().try_for_each(|item| self.value(item, indent + 1))
            }
            ValueRepr::Object(object) => {
                self.brackets(object.len(), indent)?;
                object.iter().try_for_each(|(key, value)| {
                    self.quoted(key.as_str(), indent)?;
                    self.add(if self.is_indented() { 2 } else { 1 })?;
                    self.value(value, indent + 1)
                })
            }
        }
    }

    /// All of a container but its entries: brackets, commas, line breaks and indentation.
    fn brackets(&mut self, entries: usize, indent: usize) -> Option<()> {
        if entries == 0 {
            return self.add(2);
        }
        self.add(1 + entries)?;
        if self.is_indented() {
            self.add(entries.checked_mul(1 + 2 * (indent + 1))?)?;
            self.add(1 + 2 * indent)?;
        }
        Some(())
    }

    fn quoted(&mut self, text: &str, indent: usize) -> Option<()> {
        if self.form == MeasuredForm::Block {
            return self.block(text, 2 * indent.max(1));
        }
        let size = text.bytes().map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
            0..=0x1f | 0x7f => 6,
            _ => 1,
        });
        self.add(2 + size.sum::<usize>())
    }

    /// A text in YAML, at its longest: in quotes with more escapes than JSON has, as an indented block, or as a
    /// long key on lines of its own.
    fn block(&mut self, text: &str, indent: usize) -> Option<()> {
        const LONG: usize = 100;
        let size = text.chars().map(|char| match char {
            '\n' => 2 + indent,
            '"' | '\\' | '\r' | '\t' => 2,
            ' ' => 1,
            '\u{feff}' | '\u{fffe}' | '\u{ffff}' => 6,
            char if char.is_control() || char.is_whitespace() => 6,
            char => char.len_utf8(),
        });
        let has_lines = text.len() > LONG || text.contains('\n');
        self.add(if has_lines { 6 + indent } else { 2 } + size.sum::<usize>())
    }

    fn is_indented(&self) -> bool {
        matches!(self.form, MeasuredForm::Pretty | MeasuredForm::Block)
    }
}
