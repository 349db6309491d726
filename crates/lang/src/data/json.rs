//! JSON as RFC 8259 has it, read strictly: no comments, no trailing commas, no repeated keys.
//!
//! Every digit of a number is kept. The reader does not recurse, so no input can exhaust the stack.

use crate::data::{ReadError, ReadErrorKind, Sink, Style, check_size, value_of};
use crate::diag::Span;
use crate::limits::{Limit, Limits};
use crate::value::{Number, NumberError, Value};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads one JSON text into a sink. A byte order mark before it is skipped.
pub fn read<S: Sink>(text: &str, limits: &Limits, sink: &mut S) -> Result<(), S::Error> {
    check_size(text, limits)?;
    let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let nesting = Nesting { max: limits.data_depth, ..Nesting::default() };
    let mut reader = JsonReader { text, at, sink, nesting, decoded: String::new() };
    reader.document()
}

/// Reads one JSON text as a value.
pub fn read_value(text: &str, limits: &Limits) -> Result<Value, ReadError> {
    value_of(|sink| read(text, limits, sink))
}

struct JsonReader<'t, 's, S> {
    text: &'t str,
    at: usize,
    sink: &'s mut S,
    nesting: Nesting,
    /// The last text that had escapes in it.
    decoded: String,
}

/// Which of the open containers are objects, one bit each, the innermost last.
#[derive(Default)]
struct Nesting {
    depth: usize,
    max: u8,
    objects: [u64; 4],
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    List,
    Object,
}

impl Nesting {
    fn push(&mut self, container: Container) -> Result<(), Limit> {
        if self.depth >= usize::from(self.max) {
            return Err(Limit::DataDepth);
        }
        let bit = 1 << (self.depth % 64);
        match container {
            Container::Object => self.objects[self.depth / 64] |= bit,
            Container::List => self.objects[self.depth / 64] &= !bit,
        }
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    #[inline]
    fn innermost(&self) -> Option<Container> {
        let at = self.depth.checked_sub(1)?;
        let object = self.objects[at / 64] >> (at % 64) & 1 == 1;
        Some(if object { Container::Object } else { Container::List })
    }
}

impl<S: Sink> JsonReader<'_, '_, S> {
    fn document(&mut self) -> Result<(), S::Error> {
        loop {
            let complete = self.value()?;
            if complete && !self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Reads a value, or the opening of a container up to its first value. True when the value is complete.
    #[inline]
    fn value(&mut self) -> Result<bool, S::Error> {
        self.skip_space();
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                let (text, span) = string(self.text, &mut self.at, &mut self.decoded)?;
                self.sink.text(text, Style::Json, span)?;
            }
            Some(b'{') => return self.open_object(),
            Some(b'[') => return self.open_list(),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') if self.word("true") => self.sink.bool(true, Span::new(start, self.at))?,
            Some(b'f') if self.word("false") => self.sink.bool(false, Span::new(start, self.at))?,
            Some(b'n') if self.word("null") => self.sink.null(Span::new(start, self.at))?,
            _ => return Err(self.no_value().into()),
        }
        Ok(true)
    }

    fn open_object(&mut self) -> Result<bool, S::Error> {
        let span = self.open(Container::Object)?;
        self.sink.begin_object(span)?;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.close()?;
            return Ok(true);
        }
        self.key("a key in double quotes or `}`")?;
        Ok(false)
    }

    fn open_list(&mut self) -> Result<bool, S::Error> {
        let span = self.open(Container::List)?;
        self.sink.begin_list(span)?;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.close()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn open(&mut self, container: Container) -> Result<Span, ReadError> {
        let span = Span::new(self.at, self.at + 1);
        self.nesting.push(container).map_err(|limit| ReadError::new(ReadErrorKind::Limit(limit), span))?;
        self.at += 1;
        Ok(span)
    }

    fn close(&mut self) -> Result<(), S::Error> {
        let span = Span::new(self.at, self.at + 1);
        self.at += 1;
        let container = self.nesting.innermost();
        self.nesting.pop();
        match container {
            Some(Container::Object) => self.sink.end_object(span),
            _ => self.sink.end_list(span),
        }
    }

    /// Closes containers up to the next value; false at the end of the text.
    #[inline]
    fn after_value(&mut self) -> Result<bool, S::Error> {
        loop {
            self.skip_space();
            match (self.nesting.innermost(), self.peek()) {
                (Some(Container::List), Some(b',')) => {
                    self.at += 1;
                    return Ok(true);
                }
                (Some(Container::Object), Some(b',')) => {
                    self.at += 1;
                    self.skip_space();
                    self.key("a key in double quotes")?;
                    return Ok(true);
                }
                (Some(Container::List), Some(b']')) | (Some(Container::Object), Some(b'}')) => {
                    self.close()?;
                }
                (None, None) => return Ok(false),
                (container, _) => return Err(self.no_continuation(container).into()),
            }
        }
    }

    /// Reads a key and its colon.
    #[inline]
    fn key(&mut self, expected: &'static str) -> Result<(), S::Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected(expected).into());
        }
        let (key, span) = string(self.text, &mut self.at, &mut self.decoded)?;
        self.sink.key(key, Style::Json, span)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(ReadError::syntax(self.text, self.at, "`:` after the key").into());
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), S::Error> {
        let rest = &self.text.as_bytes()[self.at..];
        let part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = rest.iter().position(|byte| !part(byte)).unwrap_or(rest.len());
        let span = Span::new(self.at, self.at + len);
        let number = Number::parse(&self.text[span.range()]).map_err(|error| self.no_number(error, span))?;
        self.at += len;
        self.sink.number(number, span)
    }

    #[inline]
    fn word(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    #[cold]
    fn no_value(&self) -> ReadError {
        let rest = &self.text[self.at..];
        match ["NaN", "Infinity"].iter().find(|word| rest.starts_with(**word)) {
            Some(word) => ReadError::new(ReadErrorKind::NotANumber, Span::new(self.at, self.at + word.len())),
            None => self.unexpected("a value"),
        }
    }

    /// Something that JSON does not have, with a hint where other formats have it.
    #[cold]
    fn unexpected(&self, expected: &'static str) -> ReadError {
        let error = ReadError::syntax(self.text, self.at, expected);
        let before = self.text[..self.at].trim_end();
        let hint = match &self.text[self.at..] {
            rest if rest.starts_with('#') || rest.starts_with("//") || rest.starts_with("/*") => {
                "JSON has no comments"
            }
            rest if rest.starts_with('\'') => "JSON has texts in double quotes only",
            rest if rest.starts_with([']', '}']) && before.ends_with(',') => "remove the comma before it",
            rest if ["True", "False", "None"].iter().any(|word| rest.starts_with(word)) => {
                "JSON has `true`, `false` and `null`"
            }
            _ => return error,
        };
        error.with_hint(hint)
    }

    #[cold]
    fn no_number(&self, error: NumberError, span: Span) -> ReadError {
        let after = &self.text[span.end as usize..];
        match error {
            NumberError::TooLarge => ReadError::new(ReadErrorKind::Limit(Limit::Digits), span),
            _ if after.starts_with("Infinity") => {
                let end = span.end as usize + "Infinity".len();
                ReadError::new(ReadErrorKind::NotANumber, Span::new(self.at, end))
            }
            _ => ReadError::invalid_number(self.text, span),
        }
    }

    #[cold]
    fn no_continuation(&self, container: Option<Container>) -> ReadError {
        match container {
            Some(Container::List) => self.unexpected("`,` or `]`"),
            Some(Container::Object) => self.unexpected("`,` or `}`"),
            None => ReadError::new(ReadErrorKind::TrailingText, Span::new(self.at, self.text.len())),
        }
    }
}

/// Reads the string that begins at `at`: what it says, and its span with the quotes.
#[inline]
fn string<'a>(text: &'a str, at: &mut usize, decoded: &'a mut String) -> Result<(&'a str, Span), ReadError> {
    let start = *at;
    let end = plain_end(text.as_bytes(), start + 1);
    if text.as_bytes().get(end) == Some(&b'"') {
        *at = end + 1;
        return Ok((&text[start + 1..end], Span::new(start, end + 1)));
    }
    decoded.clear();
    let end = decode(text, start + 1, end, decoded)?;
    *at = end;
    Ok((decoded, Span::new(start, end)))
}

/// Reads on from `at`, where the first thing stands that is not plain; gives the end after the quote.
#[cold]
fn decode(text: &str, mut done: usize, mut at: usize, decoded: &mut String) -> Result<usize, ReadError> {
    loop {
        decoded.push_str(&text[done..at]);
        match text.as_bytes().get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => {
                let (c, len) = escape(text, at)?;
                decoded.push(c);
                done = at + len;
            }
            Some(control) => {
                let kind = ReadErrorKind::ControlCharacter(char::from(*control));
                return Err(ReadError::new(kind, Span::new(at, at + 1)));
            }
            None => return Err(ReadError::syntax(text, at, "`\"`")),
        }
        at = plain_end(text.as_bytes(), done);
    }
}

/// The escape at a place: its character, and its length in the source.
pub(super) fn escape(text: &str, at: usize) -> Result<(char, usize), ReadError> {
    let rest = &text.as_bytes()[at + 1..];
    let c = match rest.first() {
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(text, at),
        _ => {
            let len = text[at + 1..].chars().next().map_or(0, char::len_utf8);
            return Err(ReadError::new(ReadErrorKind::InvalidEscape, Span::new(at, at + 1 + len)));
        }
    };
    Ok((c, 2))
}

fn unicode_escape(text: &str, at: usize) -> Result<(char, usize), ReadError> {
    let first = hex(text, at).ok_or_else(|| ReadError::syntax(text, at + 2, "four hexadecimal digits"))?;
    if let Some(c) = char::from_u32(first) {
        return Ok((c, 6));
    }
    let lone = || ReadError::new(ReadErrorKind::LoneSurrogate, Span::new(at, at + 6));
    let second = hex(text, at + 6).ok_or_else(lone)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return Err(lone());
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(code).map(|c| (c, 12)).ok_or_else(lone)
}

/// The value of the `\uXXXX` at a place, when there is one.
fn hex(text: &str, at: usize) -> Option<u32> {
    let escape = text.as_bytes().get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

/// The first place from `at` on with a quote, a backslash or a control character.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let special = special(u64::from_le_bytes(*chunk));
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or(&[]);
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

/// The high bit of each byte that is special; only the lowest such bit is exact, the borrow may add others above.
#[inline]
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let zero = |word: u64| word.wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    let (quote, backslash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
    ((control & !word) | (zero(quote) & !quote) | (zero(backslash) & !backslash)) & HIGHS
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::JsonStyle;

    fn value(text: &str) -> Value {
        read_value(text, &Limits::DEFAULT).unwrap()
    }

    fn error(text: &str) -> ReadError {
        read_value(text, &Limits::DEFAULT).unwrap_err()
    }

    #[test]
    fn digits_are_kept() {
        let text = "[9007199254740993,1.10,85.0,123456789012345678901234567890,-0.5,0.30000000000000004441]";
        assert_eq!(value(text).to_json(JsonStyle::Compact), text);
    }

    #[test]
    fn strings_of_every_length_are_scanned() {
        for len in 0..40 {
            for special in ["", "\\n", "\\u00e9", "\\ud83d\\ude00", "é", "\u{7f}", "\u{10ffff}"] {
                let (before, after) = ("x".repeat(len), "y".repeat(40 - len));
                let read = value(&format!("\"{before}{special}{after}\""));
                let said = match special {
                    "\\n" => "\n",
                    "\\u00e9" => "é",
                    "\\ud83d\\ude00" => "😀",
                    other => other,
                };
                assert_eq!(read.as_str(), Some(format!("{before}{said}{after}").as_str()));
            }
        }
    }

    #[test]
    fn records_of_one_shape_share_their_keys() {
        let list =
            value(r#"[{"a":1,"b":{"x":1}},{"a":2,"b":{"y":1}},{"a":3},{"a":4,"b":{"x":2}},{"a":5},{},{}]"#);
        let items: Vec<_> = list.as_list().unwrap().iter().map(|item| item.as_object().unwrap()).collect();
        let same = |a: usize, b: usize| Arc::ptr_eq(items[a].keys(), items[b].keys());
        assert!(same(0, 1) && same(0, 3) && same(2, 4) && same(5, 6) && !same(0, 2));
    }

    #[test]
    fn repeated_keys_say_where_both_stand() {
        let read = error(r#"[{"a":1,"b":2},{"a":1,"b":2,"a":3}]"#);
        let first = Span::new(16, 19);
        assert_eq!(read.kind, ReadErrorKind::DuplicateKey { key: "a".into(), first });
        assert_eq!(read.span, Span::new(28, 31));
        assert!(value(r#"{"a":1,"A":2,"a ":3}"#).as_object().is_some());
        assert_eq!(error(r#"{"a":1,"\u0061":2}"#).offset(), 7);
    }

    #[test]
    fn nesting_is_limited_without_recursion() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read_value(&nested(200), &Limits::DEFAULT).is_ok());
        for depth in [201, 10_000, 1_000_000] {
            let read = error(&nested(depth));
            assert_eq!((read.kind, read.span), (ReadErrorKind::Limit(Limit::DataDepth), Span::new(200, 201)));
        }
    }

    /// What is written around data at the limit is no data, is read back where that is asked for, and goes into no data.
    #[test]
    fn a_record_around_deep_data_is_read_back() {
        let deep = value(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
        let around =
            Value::record([("parts", Value::sequence([deep.clone(), 1.into()])), ("name", "x".into())]);
        assert_eq!((deep.depth(), around.depth()), (200, 202));
        let text = around.to_json(JsonStyle::Compact);
        assert!(read_value(&text, &Limits::DEFAULT).is_err());
        let limits = Limits { data_depth: 250, ..Limits::DEFAULT };
        let again = read_value(&text, &limits).unwrap();
        assert_eq!((again.depth(), &again), (202, &around));
        assert!(Value::list(vec![around]).is_err() && Value::list(vec![deep]).is_err());
        let deeper = format!("{}{}", "[".repeat(251), "]".repeat(251));
        assert!(read_value(&deeper, &limits).is_err());
    }

    #[test]
    fn size_is_limited() {
        let limits = Limits { source: 4, ..Limits::DEFAULT };
        assert!(read_value("1234", &limits).is_ok());
        assert_eq!(read_value("12345", &limits).unwrap_err().kind, ReadErrorKind::Limit(Limit::Source));
    }
}
