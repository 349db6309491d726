//! A stream read as lines, or as one JSON document of which only one element at a time is in memory.
//!
//! The elements are found by their brackets and quotes; what they are is for the one JSON reader to say. All of a
//! document is read, also what nobody wants, so that a broken one is never taken for a sound one.

use std::collections::HashSet;
use std::io;

use ecow::EcoString;
use threadline_flow::json_path::JsonPath;
use threadline_lang::data::{self, ReadError, ReadErrorKind, UnexpectedText};
use threadline_lang::diag::Span;
use threadline_lang::source::line_column;
use threadline_lang::{Limits, Value};

use super::source::{SourceEnd, SourceErrorKind};
use super::window::{StreamPosition, StreamWindow};

/// What is read.
pub(super) struct DocumentStream<'a> {
    pub(super) window: StreamWindow<'a>,
    pub(super) limits: &'a Limits,
    /// Whether the form was taken from the beginning of the text.
    pub(super) guessed: bool,
}

/// What is wanted of a value of a document.
#[derive(Clone, Copy)]
pub(super) enum Want<'n> {
    /// Each of its elements or members.
    Each,
    /// What these names lead to; there is one at least.
    Under(&'n [EcoString]),
    /// Only that it is JSON.
    Nothing,
}

impl<'n> Want<'n> {
    pub(super) fn of(names: &'n [EcoString]) -> Self {
        if names.is_empty() { Self::Each } else { Self::Under(names) }
    }

    /// What is wanted of the member of a name.
    fn member(self, name: &str) -> Self {
        match self {
            Self::Under([first, rest @ ..]) if first == name => Self::of(rest),
            _ => Self::Nothing,
        }
    }
}

/// Takes one element with the place where it begins.
type ElementTaker<'t, E> = &'t mut dyn FnMut(Value, StreamPosition) -> Result<(), SourceEnd<E>>;

/// Takes one line with the place where it begins.
type LineTaker<'t, 'a, E> =
    &'t mut dyn FnMut(&DocumentStream<'a>, &str, StreamPosition) -> Result<(), SourceEnd<E>>;

impl<'a> DocumentStream<'a> {
    /// Gives each line that is not blank, with its place.
    pub(super) fn each_line<E>(&mut self, take: LineTaker<'_, 'a, E>) -> Result<(), SourceEnd<E>> {
        while self.window.peek()?.is_some() {
            let place = self.window.place();
            let limit = self.limits.source;
            let end = self.window.find(limit, |byte| byte == b'\n')?;
            let end = end.ok_or(SourceErrorKind::TooLong { what: "the line", place, limit })?;
            let line = std::str::from_utf8(&self.window.seen()[..end]);
            let line = line.map_err(|_| SourceErrorKind::NotUtf8 { line: place.line })?;
            let line = line.strip_suffix('\r').unwrap_or(line);
            if !line.trim().is_empty() {
                take(self, line, place)?;
            }
            let line_break = usize::from(end < self.window.seen().len());
            self.window.pass(end + line_break);
        }
        Ok(())
    }

    /// The value of a JSON text that begins at a place.
    pub(super) fn json(&self, text: &str, place: StreamPosition) -> Result<Value, SourceErrorKind> {
        data::json::read_value(text, self.limits).map_err(|error| {
            let (line, column) = line_column(text, error.offset());
            let column = if line == 1 { place.column + column as u64 - 1 } else { column as u64 };
            let place = StreamPosition { line: place.line + line as u64 - 1, column };
            SourceErrorKind::Json { place, error, guessed: self.guessed }
        })
    }

    /// The whole document, for a path that needs it.
    pub(super) fn whole<E>(&mut self, path: &JsonPath) -> Result<Value, SourceEnd<E>> {
        let limit = self.limits.source;
        let too_large = || SourceErrorKind::TooLargeForPath { path: path.as_str().to_owned(), limit };
        let end = self.window.find(limit, |_| false)?.ok_or_else(too_large)?;
        Ok(self.text(end)?)
    }

    /// The value of so many bytes, which are passed.
    fn text(&mut self, end: usize) -> Result<Value, SourceErrorKind> {
        let (bytes, place) = (&self.window.seen()[..end], self.window.place());
        let text = std::str::from_utf8(bytes).map_err(|error| SourceErrorKind::NotUtf8 {
            line: place.after(&bytes[..error.valid_up_to()]).line,
        })?;
        let value = self.json(text, place)?;
        self.window.pass(end);
        Ok(value)
    }

    /// Reads a document to its end and gives what is wanted of it.
    pub(super) fn document<E>(
        &mut self,
        want: Want<'_>,
        take: ElementTaker<'_, E>,
    ) -> Result<(), SourceEnd<E>> {
        self.value(want, take)?;
        self.end()
    }

    /// Nothing but space may follow.
    pub(super) fn end<E>(&mut self) -> Result<(), SourceEnd<E>> {
        self.window.skip_space()?;
        if self.window.peek()?.is_none() {
            return Ok(());
        }
        let error = ReadError::new(ReadErrorKind::TrailingText, Span::default());
        let place = self.window.place();
        Err(SourceErrorKind::Json { place, error, guessed: self.guessed }.into())
    }

    fn value<E>(&mut self, want: Want<'_>, take: ElementTaker<'_, E>) -> Result<(), SourceEnd<E>> {
        self.window.skip_space()?;
        match self.window.peek()? {
            Some(b'[') => self.container(b']', want, take),
            Some(b'{') => self.container(b'}', want, take),
            _ => self.element().map(|_| ()),
        }
    }

    fn container<E>(
        &mut self,
        close: u8,
        want: Want<'_>,
        take: ElementTaker<'_, E>,
    ) -> Result<(), SourceEnd<E>> {
        let (is_object, mut keys) = (close == b'}', SeenKeys::default());
        self.window.pass(1);
        self.window.skip_space()?;
        if self.window.peek()? == Some(close) {
            self.window.pass(1);
            return Ok(());
        }
        loop {
            self.window.skip_space()?;
            let mut inner = Want::Nothing;
            if is_object {
                let key = self.key(&mut keys)?;
                inner = want.member(key.as_str().unwrap_or_default());
                self.window.skip_space()?;
            }
            let place = self.window.place();
            match (want, inner) {
                (Want::Each, _) => take(self.element()?, place)?,
                (Want::Under(_), inner) => self.value(inner, take)?,
                (Want::Nothing, _) => drop(self.element()?),
            }
            self.window.skip_space()?;
            match self.window.peek()? {
                Some(b',') => self.window.pass(1),
                Some(byte) if byte == close => {
                    self.window.pass(1);
                    return Ok(());
                }
                _ if is_object => return Err(self.unexpected("`,` or `}`")?.into()),
                _ => return Err(self.unexpected("`,` or `]`")?.into()),
            }
            self.window.skip_space()?;
            if self.window.peek()? == Some(close) {
                let mut kind =
                    self.unexpected(if is_object { "a key in double quotes" } else { "a value" })?;
                if let SourceErrorKind::Json { error, .. } = &mut kind {
                    error.hint = Some("remove the comma before it");
                }
                return Err(kind.into());
            }
        }
    }

    /// Reads a key and its colon.
    fn key<E>(&mut self, keys: &mut SeenKeys) -> Result<Value, SourceEnd<E>> {
        if self.window.peek()? != Some(b'"') {
            return Err(self.unexpected("a key in double quotes")?.into());
        }
        let place = self.window.place();
        let key = self.element()?;
        let name = EcoString::from(key.as_str().unwrap_or_default());
        keys.bytes += name.len();
        if keys.bytes > self.limits.source {
            return Err(SourceErrorKind::TooLong {
                what: "the object's keys",
                place,
                limit: self.limits.source,
            }
            .into());
        }
        if !keys.names.insert(name.clone()) {
            let error = ReadErrorKind::DuplicateKey { key: name, first: Span::default() };
            let error = ReadError::new(error, Span::default());
            return Err(SourceErrorKind::Json { place, error, guessed: self.guessed }.into());
        }
        self.window.skip_space()?;
        if self.window.peek()? != Some(b':') {
            return Err(self.unexpected("`:` after the key")?.into());
        }
        self.window.pass(1);
        Ok(key)
    }

    /// Reads one value into memory.
    pub(super) fn element<E>(&mut self) -> Result<Value, SourceEnd<E>> {
        let (place, limit) = (self.window.place(), self.limits.source);
        let mut scan = Scan::default();
        let end = self.window.find(limit, |byte| scan.is_behind(byte))?;
        match end {
            Some(0) => Err(self.unexpected("a value")?.into()),
            Some(end) => Ok(self.text(end)?),
            None => Err(SourceErrorKind::TooLong { what: "the element", place, limit }.into()),
        }
    }

    fn unexpected(&mut self, expected: &'static str) -> io::Result<SourceErrorKind> {
        // A character has four bytes at most.
        while self.window.seen().len() < 4 && self.window.more()? {}
        let seen = self.window.seen();
        let text = String::from_utf8_lossy(&seen[..seen.len().min(4)]);
        let found = text.chars().next().map_or(UnexpectedText::End, |c| UnexpectedText::Text(c.into()));
        let error = ReadError::new(ReadErrorKind::Syntax { expected, found }, Span::default());
        Ok(SourceErrorKind::Json { place: self.window.place(), error, guessed: self.guessed })
    }
}

/// The keys of an object so far, to find those that stand twice.
#[derive(Default)]
struct SeenKeys {
    names: HashSet<EcoString>,
    bytes: usize,
}

/// Finds the end of a value by its brackets and quotes; whether it is a value at all is for the reader to say.
#[derive(Default)]
struct Scan {
    at: DocumentState,
    depth: usize,
}

#[derive(Default, PartialEq)]
enum DocumentState {
    #[default]
    Start,
    Inside,
    Text,
    Escape,
    End,
}

impl Scan {
    /// Whether the value ended before this byte.
    #[inline]
    fn is_behind(&mut self, byte: u8) -> bool {
        let outermost = self.depth == 0;
        self.at = match (&self.at, byte) {
            (DocumentState::End, _) => return true,
            (DocumentState::Text, b'\\') => DocumentState::Escape,
            (DocumentState::Text, b'"') => self.closed(),
            // What is not in brackets ends where something else begins.
            (DocumentState::Inside, b'"' | b'{' | b'[')
            | (
                DocumentState::Start | DocumentState::Inside,
                b'}' | b']' | b',' | b':' | b' ' | b'\n' | b'\t' | b'\r',
            ) if outermost => {
                return true;
            }
            (DocumentState::Text | DocumentState::Escape, _) | (_, b'"') => DocumentState::Text,
            (_, b'{' | b'[') => {
                self.depth += 1;
                DocumentState::Inside
            }
            (_, b'}' | b']') => {
                self.depth -= 1;
                self.closed()
            }
            _ => DocumentState::Inside,
        };
        false
    }

    fn closed(&self) -> DocumentState {
        if self.depth == 0 { DocumentState::End } else { DocumentState::Inside }
    }
}
