//! Rows of comma-separated values, as RFC 4180 writes them: the first row names the columns, every other is an object of
//! texts. One row at a time is in memory.

use std::fmt;
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Value;
use threadline_lang::value::{Key, KeyTable, Object};

use super::document::DocumentStream;
use super::source::{SourceEnd, SourceErrorKind, Taker};
use super::window::StreamPosition;

/// The largest number of columns, which is that of spreadsheets.
const MAX_COLUMNS: usize = 16_384;

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvFault {
    /// A quoted value is not closed.
    Unclosed,
    /// Something other than a comma stands behind a quoted value.
    BehindQuote,
    /// A value that is not quoted contains a quote.
    QuoteInside,
    /// The row has another number of values than there are columns.
    Count {
        /// The number of its values.
        found: usize,
        /// The number of columns.
        columns: usize,
    },
    /// There are more values than a row may have.
    TooMany,
    /// A column has no name.
    NoName {
        /// The column, from 1.
        column: usize,
    },
    /// Two columns have one name.
    SameName {
        /// The name.
        name: EcoString,
        /// The first column, from 1.
        first: usize,
        /// The second one.
        second: usize,
    },
    /// There is not even a first row.
    Empty,
}

impl fmt::Display for CsvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => f.write_str("a quoted value has no closing `\"`"),
            Self::BehindQuote => f.write_str("text stands behind the closing `\"` of a value"),
            Self::QuoteInside => f.write_str("a `\"` stands inside a value without quotes"),
            Self::Count { found, columns } => {
                let values = if *found == 1 { "value" } else { "values" };
                let names = if *columns == 1 { "column" } else { "columns" };
                write!(f, "it has {found} {values}, and the first row names {columns} {names}")
            }
            Self::TooMany => write!(f, "it has more than {MAX_COLUMNS} values"),
            Self::NoName { column } => write!(f, "column {column} has no name"),
            Self::SameName { name, first, second } => {
                write!(f, "columns {first} and {second} are both named `{name}`")
            }
            Self::Empty => f.write_str("there is no first row, which names the columns"),
        }
    }
}

impl CsvFault {
    /// What to do about it, when there is one thing to do.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BehindQuote => Some("inside a quoted value write each `\"` twice"),
            Self::QuoteInside => Some("put the value in quotes, and write each `\"` in it twice"),
            Self::Count { .. } => Some("a value with a comma or a line break in it stands in quotes"),
            Self::NoName { .. } | Self::SameName { .. } => Some("give each column a name of its own"),
            _ => None,
        }
    }
}

/// A fault with the byte of the row where it is.
type PlacedFault = (usize, CsvFault);

impl DocumentStream<'_> {
    /// Gives each row behind the first as an object. Blank lines are skipped.
    pub(super) fn each_row<E>(&mut self, take: Taker<'_, E>) -> Result<(), SourceEnd<E>> {
        let mut columns: Option<Arc<KeyTable>> = None;
        let mut number = 0;
        while self.window.peek()?.is_some() {
            let (place, limit) = (self.window.place(), self.limits.source);
            let mut scan = RowScan::default();
            let end = self.window.find(limit, |byte| scan.is_end(byte))?;
            let end = end.ok_or(SourceErrorKind::TooLong { what: "the row", place, limit })?;
            number += 1;
            let bytes = &self.window.seen()[..end];
            let text = std::str::from_utf8(bytes).map_err(|error| SourceErrorKind::NotUtf8 {
                line: place.after(&bytes[..error.valid_up_to()]).line,
            })?;
            let text = text.strip_suffix('\r').unwrap_or(text);
            let refused = |(at, fault): PlacedFault| {
                let place = place.after(&bytes[..at]);
                SourceErrorKind::Csv { place, row: number, fault }
            };
            let mut item = None;
            if !text.is_empty() {
                let values = values_of(text).map_err(refused)?;
                match &columns {
                    None => columns = Some(columns_of(&values).map_err(|fault| refused((0, fault)))?),
                    Some(columns) => {
                        item = Some(object(columns, values).map_err(|fault| refused((0, fault)))?);
                    }
                }
            }
            let line_break = usize::from(end < self.window.seen().len());
            self.window.pass(end + line_break);
            if let Some(item) = item {
                take(item)?;
            }
        }
        if columns.is_none() {
            let (place, fault) = (StreamPosition { line: 1, column: 1 }, CsvFault::Empty);
            return Err(SourceErrorKind::Csv { place, row: 1, fault }.into());
        }
        Ok(())
    }
}

fn columns_of(names: &[EcoString]) -> Result<Arc<KeyTable>, CsvFault> {
    if let Some(at) = names.iter().position(EcoString::is_empty) {
        return Err(CsvFault::NoName { column: at + 1 });
    }
    let table = KeyTable::new(names.iter().map(|name| Key::new(name.clone())).collect());
    table.map(Arc::new).map_err(|repeated| {
        let name = names.get(repeated.at).cloned().unwrap_or_default();
        let first = names.iter().position(|known| *known == name).unwrap_or_default();
        CsvFault::SameName { name, first: first + 1, second: repeated.at + 1 }
    })
}

fn object(columns: &Arc<KeyTable>, values: Vec<EcoString>) -> Result<Value, CsvFault> {
    let (found, columns_count) = (values.len(), columns.as_slice().len());
    if found != columns_count {
        return Err(CsvFault::Count { found, columns: columns_count });
    }
    let values = values.into_iter().map(Value::from).collect();
    Object::new(Arc::clone(columns), values).map(Value::from).map_err(|_| CsvFault::TooMany)
}

/// The values of one row.
fn values_of(row: &str) -> Result<Vec<EcoString>, PlacedFault> {
    let (mut values, mut at) = (Vec::new(), 0);
    loop {
        if values.len() == MAX_COLUMNS {
            return Err((at, CsvFault::TooMany));
        }
        let rest = &row[at..];
        if let Some(inner) = rest.strip_prefix('"') {
            let (value, len) = quoted(inner).ok_or((at, CsvFault::Unclosed))?;
            values.push(value);
            at += 1 + len;
            if !matches!(row.as_bytes().get(at), None | Some(b',')) {
                return Err((at, CsvFault::BehindQuote));
            }
        } else {
            let value = &rest[..rest.find(',').unwrap_or(rest.len())];
            if let Some(quote) = value.find('"') {
                return Err((at + quote, CsvFault::QuoteInside));
            }
            values.push(value.into());
            at += value.len();
        }
        if at == row.len() {
            return Ok(values);
        }
        // The comma.
        at += 1;
    }
}

/// The value of a text behind its opening quote, and the number of bytes up to and with the closing one.
fn quoted(text: &str) -> Option<(EcoString, usize)> {
    let (mut value, mut at) = (EcoString::new(), 0);
    loop {
        let end = at + text[at..].find('"')?;
        value.push_str(&text[at..end]);
        if text.as_bytes().get(end + 1) != Some(&b'"') {
            return Some((value, end + 1));
        }
        value.push('"');
        at = end + 2;
    }
}

/// Finds the end of a row: a line break that is not inside quotes.
#[derive(Default)]
struct RowScan {
    at: RowState,
}

#[derive(Default)]
enum RowState {
    /// A value begins.
    #[default]
    Start,
    /// In a value without quotes, or behind one with quotes.
    Plain,
    /// In quotes. A doubled quote ends them and begins them again.
    Quoted,
    /// Behind a quote that ends the value unless another follows.
    Quote,
}

impl RowScan {
    fn is_end(&mut self, byte: u8) -> bool {
        self.at = match (&self.at, byte) {
            (RowState::Quoted, b'"') => RowState::Quote,
            (RowState::Quoted, _) | (RowState::Start | RowState::Quote, b'"') => RowState::Quoted,
            (_, b'\n') => return true,
            (_, b',') => RowState::Start,
            _ => RowState::Plain,
        };
        false
    }
}
