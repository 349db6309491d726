//! Where items come from: a value, files, or a stream of JSON, JSON lines, lines of text or rows of values. Items of a stream come one by one;
//! what is in memory is one item.
//!
//! The form of a stream is what somebody says, else what its name says, else what its beginning looks like. Lines end
//! with `\n` or `\r\n`, and those with nothing but space in them are skipped: what programs print ends with one.

use std::fmt;
use std::io::{self, Read};

use threadline_flow::json_path::{JsonPath, PathRefusal};
use threadline_flow::model::SourceFormat;
use threadline_lang::data::{self, ReadError};
use threadline_lang::{Limits, Type, Value};

use super::csv::CsvFault;
use super::document::{DocumentStream, Want};
use super::window::{StreamPosition, StreamWindow};
use crate::project::plain;

/// What the name of a file says about its form.
fn format_of_name(name: &str) -> Option<SourceFormat> {
    match extension(name)?.as_str() {
        "json" => Some(SourceFormat::Json),
        "jsonl" | "ndjson" => Some(SourceFormat::JsonLines),
        "txt" | "list" | "log" => Some(SourceFormat::Lines),
        "csv" => Some(SourceFormat::Csv),
        _ => None,
    }
}

/// What the beginning of a text says about its form: `[` begins JSON; `{` begins JSON lines when its line is a whole
/// value and another line follows, else JSON; anything else is lines.
fn format_of_text(window: &mut StreamWindow<'_>, limits: &Limits) -> io::Result<SourceFormat> {
    const FIRST_LINE: usize = 1 << 20;
    let first = window.find(FIRST_LINE, |byte| !byte.is_ascii_whitespace())?;
    match first.and_then(|at| window.seen().get(at)) {
        Some(b'[') => return Ok(SourceFormat::Json),
        Some(b'{') => {}
        _ => return Ok(SourceFormat::Lines),
    }
    let mut begun = false;
    let end = window.find(FIRST_LINE, |byte| {
        begun |= byte == b'{';
        begun && byte == b'\n'
    })?;
    let Some(end) = end else { return Ok(SourceFormat::Json) };
    let first = std::str::from_utf8(&window.seen()[..end]);
    if !first.is_ok_and(|line| data::json::read_value(line, limits).is_ok()) {
        return Ok(SourceFormat::Json);
    }
    let mut passed = 0;
    let next = window.find(2 * FIRST_LINE, |byte| {
        passed += 1;
        passed > end && !byte.is_ascii_whitespace()
    })?;
    let follows = next.is_none_or(|at| at < window.seen().len());
    Ok(if follows { SourceFormat::JsonLines } else { SourceFormat::Json })
}

fn extension(name: &str) -> Option<String> {
    let (_, extension) = name.rsplit_once('.')?;
    (!extension.contains('/')).then(|| extension.to_ascii_lowercase())
}

/// Where items come from.
pub enum ItemSource<'a> {
    /// A value: the elements of a list, or what a path selects.
    Value {
        /// What people call it.
        name: String,
        /// The value that holds the items.
        value: &'a Value,
    },
    /// Items that are made one by one, such as files.
    Items {
        /// What people call it.
        name: String,
        /// The items.
        items: Box<dyn Iterator<Item = Result<Value, SourceErrorKind>> + 'a>,
    },
    /// A file that is open, or what a command printed.
    Stream {
        /// What people call it; the extension says the form, unless `format` does.
        name: String,
        /// The bytes, read as a stream.
        read: Box<dyn Read + 'a>,
        /// The form, where it is said.
        format: Option<SourceFormat>,
    },
}

/// Why a source does not give its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// What people call the source.
    pub name: String,
    /// What is wrong.
    pub kind: SourceErrorKind,
}

/// What is wrong with a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// It cannot be read, in words.
    Unreadable(String),
    /// It is not JSON.
    Json {
        /// The position in the stream.
        place: StreamPosition,
        /// What is wrong with the text.
        error: ReadError,
        /// Whether the form was taken from the beginning of the text.
        guessed: bool,
    },
    /// A row of comma-separated values is wrong.
    Csv {
        /// The place in the stream.
        place: StreamPosition,
        /// The number of the row, from 1, which is the one with the names.
        row: u64,
        /// What is wrong with it.
        fault: CsvFault,
    },
    /// One file of several cannot be read, in words that name it.
    OneFile {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<&'static str>,
    },
    /// A line is not UTF-8.
    NotUtf8 {
        /// Which, from 1.
        line: u64,
    },
    /// A line or an element is larger than a document may be.
    TooLong {
        /// What it is.
        what: &'static str,
        /// Where it begins.
        place: StreamPosition,
        /// How many bytes it may have.
        limit: usize,
    },
    /// It is no list, and no path says where one is.
    NotAList(Type),
    /// The path needs the document in memory, and the document is too large for that.
    TooLargeForPath {
        /// The path that leads nowhere.
        path: String,
        /// How many bytes it may have.
        limit: usize,
    },
    /// A path for lines of text.
    PathInLines(String),
    /// An element is nested too deep for the path.
    TooDeep {
        /// Where it begins.
        place: StreamPosition,
    },
    /// The path is not evaluated on the document.
    Path(PathRefusal),
    /// A form that is not read item by item.
    OtherFormat(String),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.kind {
            SourceErrorKind::Unreadable(why) => write!(f, "`{name}`: {why}"),
            SourceErrorKind::Json { place: StreamPosition { line, column }, error, .. } => {
                write!(f, "{name}:{line}:{column}: {error}")
            }
            SourceErrorKind::Csv { place: StreamPosition { line, column }, row, fault } => {
                write!(f, "{name}:{line}:{column}: row {row}: {fault}")
            }
            SourceErrorKind::OneFile { message, .. } => f.write_str(message),
            SourceErrorKind::NotUtf8 { line } => write!(f, "{name}:{line}: the line is not UTF-8"),
            SourceErrorKind::TooLong { what, place: StreamPosition { line, column }, limit } => {
                write!(f, "{name}:{line}:{column}: {what} is larger than {}", bytes(*limit))
            }
            SourceErrorKind::NotAList(kind) => {
                write!(f, "`{name}` holds {}, and items are the elements of a list", kind.with_article())
            }
            SourceErrorKind::TooLargeForPath { path, limit } => write!(
                f,
                "the JSONPath `{path}` needs the whole document in memory, and `{name}` is larger than {}",
                bytes(*limit)
            ),
            SourceErrorKind::PathInLines(path) => {
                write!(f, "`{name}` is read as lines of text, in which the JSONPath `{path}` selects nothing")
            }
            SourceErrorKind::TooDeep { place: StreamPosition { line, column } } => {
                write!(f, "{name}:{line}:{column}: the element is nested too deep for a JSONPath")
            }
            SourceErrorKind::Path(refusal) => write!(f, "`{name}`: {refusal}"),
            SourceErrorKind::OtherFormat(extension) => {
                write!(f, "`{name}`: a file of the kind `.{extension}` is not read item by item")
            }
        }
    }
}

impl std::error::Error for SourceError {}

impl SourceError {
    /// What to do about it, when there is one thing to do.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            SourceErrorKind::Json { error, guessed, .. } => error.hint.or(guessed.then_some(
                "its beginning looks like JSON; `format: lines` or `format: jsonl` says that it is not",
            )),
            SourceErrorKind::Csv { fault, .. } => fault.hint(),
            SourceErrorKind::OneFile { hint, .. } => *hint,
            SourceErrorKind::NotAList(_) => {
                Some("`json_path` says where the items are, as in `json_path: $.items[*]`")
            }
            SourceErrorKind::TooLargeForPath { .. } => Some(
                "paths such as `$[*]`, `$.items[*]`, `$.items[*].name` and `$.items[?@.open]` take one element at a time",
            ),
            SourceErrorKind::PathInLines(_) => Some("`format: json` or `format: jsonl` reads it as JSON"),
            SourceErrorKind::OtherFormat(_) => Some(
                "`format:` takes `json`, `jsonl`, `lines` and `csv`; another file can be read as a value first",
            ),
            _ => None,
        }
    }
}

fn bytes(count: usize) -> String {
    if count >= 1 << 20 && count.is_multiple_of(1 << 20) {
        format!("{} MiB", count >> 20)
    } else {
        format!("{count} bytes")
    }
}

/// Why the items end before the end.
pub(super) enum SourceEnd<E> {
    /// Enough have been taken.
    Enough,
    /// The source is at fault.
    ItemSource(SourceErrorKind),
    /// Whoever takes the items is.
    Taker(E),
}

impl<E> From<io::Error> for SourceEnd<E> {
    fn from(error: io::Error) -> Self {
        Self::ItemSource(SourceErrorKind::Unreadable(plain(&error)))
    }
}

impl<E> From<SourceErrorKind> for SourceEnd<E> {
    fn from(kind: SourceErrorKind) -> Self {
        Self::ItemSource(kind)
    }
}

/// Takes one item after the other.
pub(super) type Taker<'t, E> = &'t mut dyn FnMut(Value) -> Result<(), SourceEnd<E>>;

/// Gives every item of a source to `take`, and says in which form a stream was read.
pub(super) fn each<E>(
    source: ItemSource<'_>,
    path: Option<&JsonPath>,
    limits: &Limits,
    format: &mut Option<SourceFormat>,
    take: Taker<'_, E>,
) -> Result<(), SourceEnd<E>> {
    let (name, read, said) = match source {
        ItemSource::Value { value, .. } => return each_of_value(value, path, take),
        ItemSource::Items { mut items, .. } => {
            return items.try_for_each(|item| take_selected(path, item?, &mut *take));
        }
        ItemSource::Stream { name, read, format } => (name, read, format),
    };
    let said = said.or_else(|| format_of_name(&name));
    if said.is_none() {
        let other = extension(&name).filter(|extension| matches!(extension.as_str(), "yaml" | "yml"));
        other.map_or(Ok(()), |extension| Err(SourceErrorKind::OtherFormat(extension)))?;
    }
    let mut window = StreamWindow::new(read)?;
    let used = match said {
        Some(said) => said,
        None => format_of_text(&mut window, limits)?,
    };
    *format = Some(used);
    let mut stream = DocumentStream { window, limits, guessed: said.is_none() };
    match (used, path) {
        (SourceFormat::Lines, Some(path)) => {
            Err(SourceErrorKind::PathInLines(path.as_str().to_owned()).into())
        }
        (SourceFormat::Lines, None) => stream.each_line(&mut |_, line, _| take(Value::from(line))),
        (SourceFormat::JsonLines, path) => stream
            .each_line(&mut |stream, line, place| take_selected(path, stream.json(line, place)?, &mut *take)),
        (SourceFormat::Csv, path) => stream.each_row(&mut |row| take_selected(path, row, &mut *take)),
        (SourceFormat::Json, None) => {
            stream.window.skip_space()?;
            if stream.window.peek()? != Some(b'[') {
                let value = stream.element()?;
                stream.end()?;
                return Err(SourceErrorKind::NotAList(value.kind()).into());
            }
            stream.document(Want::Each, &mut |value, _| take(value))
        }
        (SourceFormat::Json, Some(path)) => match path.names() {
            Some(names) => stream.document(Want::of(names), &mut |value, place| {
                let selected = path.select_in_element(value).map_err(|refusal| match refusal {
                    PathRefusal::TooDeep => SourceErrorKind::TooDeep { place },
                    refusal @ PathRefusal::TooManyVisits => SourceErrorKind::Path(refusal),
                })?;
                selected.into_iter().try_for_each(&mut *take)
            }),
            None => select(path, &stream.whole(path)?)?.into_iter().try_for_each(take),
        },
    }
}

/// Gives a value, or what a path selects in it.
fn take_selected<E>(path: Option<&JsonPath>, value: Value, take: Taker<'_, E>) -> Result<(), SourceEnd<E>> {
    match path {
        Some(path) => select(path, &value)?.into_iter().try_for_each(take),
        None => take(value),
    }
}

fn select(path: &JsonPath, document: &Value) -> Result<Vec<Value>, SourceErrorKind> {
    path.select(document).map_err(SourceErrorKind::Path)
}

fn each_of_value<E>(value: &Value, path: Option<&JsonPath>, take: Taker<'_, E>) -> Result<(), SourceEnd<E>> {
    match (path, value.as_list()) {
        (Some(path), _) => select(path, value)?.into_iter().try_for_each(take),
        (None, Some(items)) => items.iter().cloned().try_for_each(take),
        (None, None) => Err(SourceErrorKind::NotAList(value.kind()).into()),
    }
}
