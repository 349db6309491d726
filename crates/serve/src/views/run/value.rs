//! Values as pages show them: short, on one line, with a class for their type, and nothing that could steer how other text
//! is shown.

use threadline_lang::Value;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;

/// The longest preview beside a reference, in characters.
const SHORT: usize = 34;

/// The longest preview in a table.
const MIDDLE: usize = 160;

/// The longest value that a page shows as a whole; a longer one is kept as a file.
const LONGEST: usize = 20_000;

/// A value in short.
#[derive(Debug, Clone)]
pub(crate) struct ValueView {
    /// Its class: `text`, `number`, `bool`, `null` or `tree`.
    pub(crate) class: &'static str,
    /// Its type.
    pub(crate) kind: String,
    pub(crate) short: String,
    pub(crate) middle: String,
}

impl ValueView {
    pub(crate) fn new(value: &Value) -> Self {
        let shown = excerpt(value);
        let class = match value {
            value if value.as_str().is_some() => "text",
            value if value.is_null() => "null",
            value if value.as_bool().is_some() => "bool",
            value if value.as_number().is_some() => "number",
            _ => "tree",
        };
        let kind = match (value.as_list(), value.as_object()) {
            (Some(list), _) => format!("list of {}", list.len()),
            (_, Some(object)) => format!("object of {}", object.len()),
            _ => value.kind().name().to_owned(),
        };
        let cut = |most: usize| visible(&words::shorten(&shown, most));
        Self { class, kind, short: cut(SHORT), middle: cut(MIDDLE) }
    }
}

/// A value as a whole, as far as a page shows it.
pub(crate) struct WholeValue {
    pub(crate) text: String,
    /// How many characters are left out.
    pub(crate) left_out: usize,
}

impl WholeValue {
    pub(crate) fn new(value: &Value) -> Self {
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_json(JsonStyle::Pretty),
        };
        let end = text.char_indices().nth(LONGEST).map(|(end, _)| end);
        let left_out = end.map_or(0, |end| text[end..].chars().count());
        let shown = &text[..end.unwrap_or(text.len())];
        Self { text: visible_lines(shown), left_out }
    }
}

/// A text on one line, with marks in place of what steers how text is shown.
pub(crate) fn visible(text: &str) -> String {
    words::one_line(text).into_owned()
}

/// The same for a text with several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| words::one_line(line.trim_end_matches('\r')).into_owned()).collect();
    lines.join("\n")
}

/// A time of the journal as people read it: in UTC, to the second.
pub(crate) fn time_words(time: &str) -> String {
    let words = time.split('.').next().unwrap_or(time).trim_end_matches('Z').replace('T', " ");
    format!("{words} UTC")
}
