//! Source files: a name, a text, and whether it is JSON or YAML.
//!
//! A source never opens anything: it is made of a name and the bytes that somebody read. It knows where its
//! lines begin and can be read as a value or as a tree that keeps the place of every key and value.
//!
//! A file that is put together of several has their texts behind its own, so that one span says both the file and the
//! place in it.

mod place;
mod tree;

use std::fmt;
use std::sync::Arc;

use crate::data::{self, DataFormat, ReadError, ReadErrorKind, json};
use crate::diag::error::Origin;
use crate::document::{Document, DocumentError};
use crate::limits::Limits;
use crate::syntax::Syntax;
use crate::value::Value;

pub use place::{PlaceFinder, fix_in, in_order, of_language, place_in};
pub use tree::{TreeEntry, TreeNode, TreeStep};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// One file of JSON or YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    name: Arc<str>,
    /// Its own text, and behind it those of its parts.
    text: Arc<str>,
    format: DataFormat,
    parts: Arc<[SourcePart]>,
    lacking: Arc<[Lacking]>,
    /// The part whose keys hold where the file says nothing.
    below: Option<Arc<str>>,
}

/// A part of a file that was read: what it means to its reader, and where it stands.
#[derive(Debug, Clone)]
pub struct Field<T> {
    /// The value that the reader made of it.
    pub value: T,
    /// The keys that lead there, the span of the scalar or block, and how it is written.
    pub origin: Origin,
}

/// A file that another is put together with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourcePart {
    name: Arc<str>,
    format: DataFormat,
    /// Where its text begins.
    start: usize,
}

/// A file that another names as a part of itself, and that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The name by which the other file refers to it.
    pub name: String,
    /// What happened, in words.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// The file that a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSlice<'f> {
    /// The name of the file.
    pub name: &'f str,
    /// Its text alone.
    pub text: &'f str,
    /// Where that begins among the texts of all parts.
    pub start: usize,
}

/// Why bytes are no source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodingError {
    /// A byte that cannot stand in UTF-8.
    NotUtf8 {
        /// The name of the file.
        name: Arc<str>,
        /// The offset of the byte.
        offset: usize,
        /// The line it stands in, from 1.
        line: usize,
        /// Whether the file begins as one in UTF-16 does.
        utf16: bool,
    },
}

impl SourceFile {
    /// A file of these bytes. What it is written in follows from its extension, otherwise from what it holds.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, EncodingError> {
        let text = text(name, bytes)?;
        let format = format_of_name(name).unwrap_or_else(|| format_of_text(&text));
        Ok(Self::with_format(name, &text, format))
    }

    /// A text of a known format.
    pub fn with_format(name: &str, text: &str, format: DataFormat) -> Self {
        let (parts, lacking) = (Arc::default(), Arc::default());
        Self { name: name.into(), text: text.into(), format, parts, lacking, below: None }
    }

    /// The file over another one, whose keys hold where it says nothing. The other one has to be among its parts.
    #[must_use]
    pub fn over(&self, below: &str) -> Self {
        Self { below: Some(below.into()), ..self.clone() }
    }

    /// The name of the part whose keys hold where the file says nothing.
    pub fn below(&self) -> Option<&str> {
        self.below.as_deref()
    }

    /// The file put together with others, whose texts stand behind its own; and those that could not be read.
    #[must_use]
    pub fn with_parts(&self, parts: &[Self], lacking: Vec<Lacking>) -> Self {
        let mut text = self.own_text().to_owned();
        let mut placed = Vec::with_capacity(parts.len());
        for part in parts {
            text.push('\n');
            placed.push(SourcePart { name: Arc::clone(&part.name), format: part.format, start: text.len() });
            text.push_str(part.own_text());
        }
        Self { text: text.into(), parts: placed.into(), lacking: lacking.into(), ..self.clone() }
    }

    /// The files that it is put together with, each alone.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        self.parts.iter().map(|part| Self::with_format(&part.name, self.placed(part.start).text, part.format))
    }

    /// Why a part could not be read.
    pub fn lacking(&self, name: &str) -> Option<&Lacking> {
        self.lacking.iter().find(|lacking| lacking.name == name)
    }

    /// Its text without those of its parts.
    pub fn own_text(&self) -> &str {
        self.placed(0).text
    }

    /// The file that a byte belongs to. Past the end is the last.
    pub fn placed(&self, offset: usize) -> FileSlice<'_> {
        let at = self.parts.partition_point(|part| part.start <= offset);
        let end = self.parts.get(at).map_or(self.text.len(), |next| next.start - 1);
        let (name, start) = match at.checked_sub(1).map(|at| &self.parts[at]) {
            Some(part) => (&part.name, part.start),
            None => (&self.name, 0),
        };
        FileSlice { name, text: &self.text[start..end], start }
    }

    /// The name as the caller gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text, with those of its parts: what spans are about.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is written in.
    pub fn format(&self) -> DataFormat {
        self.format
    }

    /// The line and the column of a byte in the file that it belongs to, as [`line_column`] counts them.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let placed = self.placed(offset);
        line_column(placed.text, offset.saturating_sub(placed.start))
    }

    /// Reads it as a value.
    pub fn read_value(&self, limits: &Limits) -> Result<Value, ReadError> {
        data::read_value(self.own_text(), self.format, limits)
    }

    /// Reads it as a document, the templates in it compiled.
    pub fn read_document(&self, syntax: &Syntax) -> Result<Document, DocumentError> {
        Document::read(self.own_text(), self.format, syntax)
    }

    /// Reads it as a tree that knows where everything stands.
    pub fn read_tree(&self, limits: &Limits) -> Result<TreeNode, ReadError> {
        tree::read(self.own_text(), self.format, limits, 0)
    }

    /// Reads one of its parts as a tree; its places are those of the whole text, those of an error of the part alone.
    pub fn read_part(&self, name: &str, limits: &Limits) -> Option<Result<TreeNode, ReadError>> {
        let part = self.parts.iter().find(|part| &*part.name == name)?;
        Some(tree::read(self.placed(part.start).text, part.format, limits, part.start))
    }
}

/// The text of a file that may be neither JSON nor YAML.
pub fn text(name: &str, bytes: Vec<u8>) -> Result<String, EncodingError> {
    String::from_utf8(bytes).map_err(|error| {
        let (offset, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes[..offset].split(|byte| *byte == b'\n').count();
        let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        EncodingError::NotUtf8 { name: name.into(), offset, line, utf16 }
    })
}

/// The line and the column of a byte, both from 1; columns count characters. Past the end is the end.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let in_line = before[start..].trim_start_matches(BYTE_ORDER_MARK);
    (line, in_line.chars().count() + 1)
}

fn format_of_name(name: &str) -> Option<DataFormat> {
    let (_, extension) = name.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "json" => Some(DataFormat::Json),
        "yaml" | "yml" => Some(DataFormat::Yaml),
        _ => None,
    }
}

/// JSON when it is JSON, else YAML when it is YAML, else what its first character promises.
fn format_of_text(text: &str) -> DataFormat {
    let Err(error) = json::read_value(text, &Limits::DEFAULT) else { return DataFormat::Json };
    let content = text.trim_start_matches(BYTE_ORDER_MARK).trim_start();
    if !content.starts_with(['{', '[']) {
        return DataFormat::Yaml;
    }
    // YAML takes a JSON text with a slip for something else without a word: `NaN`, or a comment, for a text.
    let inside = content.trim_start_matches(|c: char| matches!(c, '{' | '[') || c.is_whitespace());
    let meant_as_json = inside.starts_with('"') || error.kind == ReadErrorKind::NotANumber;
    if !meant_as_json && data::read_value(text, DataFormat::Yaml, &Limits::DEFAULT).is_ok() {
        return DataFormat::Yaml;
    }
    DataFormat::Json
}

impl EncodingError {
    /// What to do about it, when there is one thing to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotUtf8 { utf16, .. } => utf16.then_some("it looks like UTF-16; save it as UTF-8"),
        }
    }
}

impl fmt::Display for EncodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { name, offset, line, .. } => {
                write!(f, "`{name}` is not UTF-8: line {line}, byte {offset} of the file")
            }
        }
    }
}

impl std::error::Error for EncodingError {}
