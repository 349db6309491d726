//! Data files: JSON and YAML in, events out.
//!
//! A reader turns a text into events with spans; a [`Sink`] makes something of them: a [`Value`], a document of
//! templates, a tree that knows where everything stands. So there is one reader per format, whatever is built.
//! Nothing here opens a file, and nothing here looks into a text for `${...}`, except to say that YAML has cut
//! one in two.

mod error;
pub mod json;
mod keys;
pub mod locate;
mod value;
#[cfg(feature = "yaml")]
pub mod yaml;

use crate::diag::Span;
use crate::limits::{Limit, Limits};
use crate::value::{Number, Value};

pub use error::{ReadError, ReadErrorKind, UnexpectedText};
pub use keys::KeyTables;
pub use value::ValueSink;

/// How a text or key was written; it decides what its source looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// A JSON string.
    Json,
    /// YAML without quotes.
    Plain,
    /// YAML in single quotes.
    Single,
    /// YAML in double quotes.
    Double,
    /// A YAML block after `|`.
    Literal,
    /// A YAML block after `>`.
    Folded,
}

/// Takes what a reader reads, in the order of the source.
///
/// Every object is `begin_object`, then a `key` and a value for each entry, then `end_object`. A reader never
/// nests deeper than [`MAX_DEPTH`](crate::value::MAX_DEPTH); repeated keys are for the sink to find, with
/// [`KeyTables`]. An error ends the reading.
pub trait Sink {
    /// What ends the reading: a [`ReadError`], or whatever else the sink can run into.
    type Error: From<ReadError>;

    /// A null. Its span is empty where YAML leaves a value out.
    fn null(&mut self, span: Span) -> Result<(), Self::Error>;

    /// A bool was read.
    fn bool(&mut self, bool: bool, span: Span) -> Result<(), Self::Error>;

    /// A number was read.
    fn number(&mut self, number: Number, span: Span) -> Result<(), Self::Error>;

    /// A text, decoded; the span has its quotes.
    fn text(&mut self, text: &str, style: Style, span: Span) -> Result<(), Self::Error>;

    /// The key of the value that comes next, decoded; the span has its quotes.
    fn key(&mut self, key: &str, style: Style, span: Span) -> Result<(), Self::Error>;

    /// A list begins; the span is that of `[`, or empty in a YAML block.
    fn begin_list(&mut self, span: Span) -> Result<(), Self::Error>;

    /// The innermost list ends; the span is that of `]`, or empty in a YAML block.
    fn end_list(&mut self, span: Span) -> Result<(), Self::Error>;

    /// An object begins; the span is that of `{`, or empty in a YAML block.
    fn begin_object(&mut self, span: Span) -> Result<(), Self::Error>;

    /// The innermost object ends; the span is that of `}`, or empty in a YAML block.
    fn end_object(&mut self, span: Span) -> Result<(), Self::Error>;

    /// The value that begins next is to be kept under a number, for aliases.
    fn anchor(&mut self, _id: usize) {}

    /// The value kept under a number stands here again, complete. The reader bounds how much this can add up
    /// to. A sink that keeps nothing refuses.
    fn alias(&mut self, _id: usize, span: Span) -> Result<(), Self::Error> {
        Err(ReadError::new(ReadErrorKind::AliasNotAllowed, span).into())
    }
}

/// What a data file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataFormat {
    /// JSON as of RFC 8259.
    Json,
    /// YAML 1.2 with the core schema.
    Yaml,
}

impl DataFormat {
    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
        }
    }
}

/// Reads a text of a format into a sink.
pub fn read<S: Sink>(text: &str, format: DataFormat, limits: &Limits, sink: &mut S) -> Result<(), S::Error> {
    match format {
        DataFormat::Json => json::read(text, limits, sink),
        #[cfg(feature = "yaml")]
        DataFormat::Yaml => yaml::read(text, limits, sink),
        #[cfg(not(feature = "yaml"))]
        DataFormat::Yaml => Err(ReadError::new(ReadErrorKind::NoYaml, Span::default()).into()),
    }
}

/// Reads a text of a format as a value.
pub fn read_value(text: &str, format: DataFormat, limits: &Limits) -> Result<Value, ReadError> {
    value_of(|sink| read(text, format, limits, sink))
}

fn check_size(text: &str, limits: &Limits) -> Result<(), ReadError> {
    if text.len() > limits.source {
        return Err(ReadError::new(ReadErrorKind::Limit(Limit::Source), Span::default()));
    }
    Ok(())
}

fn value_of(read: impl FnOnce(&mut ValueSink) -> Result<(), ReadError>) -> Result<Value, ReadError> {
    let mut sink = ValueSink::new();
    read(&mut sink)?;
    Ok(sink.finish())
}
