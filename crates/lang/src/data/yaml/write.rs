//! Prints a value as YAML: block style, indented by two, quotes only where they are needed.
//!
//! What is printed reads back as the same value with the same digits. Words that other readers of YAML take
//! for bools, dates or numbers are quoted as well.

use std::fmt::Write;

use super::core_schema::{self, Scalar};
use crate::value::{Type, Value};

/// The longest key that is printed before its `:` on one line; the format allows 1,024 characters.
const LONGEST_KEY: usize = 1000;
const INDENT: usize = 2;
const INDENT_INDICATOR: char = '2';

/// Appends a value as a YAML document that ends with a line break.
pub fn write(value: &Value, out: &mut String) {
    match value.kind() {
        Type::List | Type::Object if !is_empty(value) => container(value, 0, out),
        _ => {
            leaf(value, 0, ScalarPosition::Document, out);
            end_line(out);
        }
    }
}

/// Where a text is printed.
#[derive(Clone, Copy, PartialEq)]
enum ScalarPosition {
    Document,
    Value,
    Key,
}

fn is_empty(value: &Value) -> bool {
    value.as_list().is_some_and(<[Value]>::is_empty)
        || value.as_object().is_some_and(|object| object.is_empty())
}

/// Entries at an indentation; the first begins where `out` ends.
fn container(value: &Value, indent: usize, out: &mut String) {
    if let Some(items) = value.as_list() {
        for (at, item) in items.iter().enumerate() {
            start_entry(at, indent, out);
            out.push('-');
            entry(item, indent, true, out);
        }
    }
    if let Some(object) = value.as_object() {
        for (at, (key, value)) in object.iter().enumerate() {
            start_entry(at, indent, out);
            write_key(key.as_str(), indent, out);
            entry(value, indent, false, out);
        }
    }
}

fn start_entry(at: usize, indent: usize, out: &mut String) {
    if at > 0 {
        spaces(indent, out);
    }
}

/// What follows a `-` or a key. A container in a list begins on the line of its dash.
fn entry(value: &Value, indent: usize, compact: bool, out: &mut String) {
    let nested = matches!(value.kind(), Type::List | Type::Object) && !is_empty(value);
    if !nested {
        out.push(' ');
        leaf(value, indent + INDENT, ScalarPosition::Value, out);
        end_line(out);
        return;
    }
    if compact {
        out.push(' ');
    } else {
        out.push('\n');
        spaces(indent + INDENT, out);
    }
    container(value, indent + INDENT, out);
}

fn write_key(key: &str, indent: usize, out: &mut String) {
    let start = out.len();
    write_text(key, indent, ScalarPosition::Key, out);
    if out.len() - start > LONGEST_KEY {
        out.insert_str(start, "? ");
        out.push('\n');
        spaces(indent, out);
    }
    out.push(':');
}

fn leaf(value: &Value, indent: usize, place: ScalarPosition, out: &mut String) {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => write_text(text, indent, place, out),
        (None, Type::Null) => out.push_str("null"),
        (None, Type::List) => out.push_str("[]"),
        (None, Type::Object) => out.push_str("{}"),
        (None, _) => value.write_text(out),
    }
}

fn write_text(text: &str, indent: usize, place: ScalarPosition, out: &mut String) {
    if place != ScalarPosition::Key && fits_block(text, place) {
        write_block(text, indent, out);
    } else if fits_plain(text, place) {
        out.push_str(text);
    } else if text.contains(['"', '\\'])
        && !text.contains('\'')
        && text.chars().all(|c| c == ' ' || is_visible(c))
    {
        out.push('\'');
        out.push_str(text);
        out.push('\'');
    } else {
        write_double(text, out);
    }
}

/// Whether a text reads back as itself without quotes.
fn fits_plain(text: &str, place: ScalarPosition) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let indicator = "-?:,[]{}#&*!|>'\"%@`".contains(first);
    let dash = first == '-' && text[1..].starts_with(|c: char| c.is_ascii_alphabetic());
    (!indicator || dash)
        && !text.starts_with("...")
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| c == ' ' || is_visible(c))
        && !(place == ScalarPosition::Key && text.contains("${"))
        && matches!(core_schema::resolve(text), Ok(Scalar::Text))
        && !is_word_elsewhere(text)
        && !is_number_elsewhere(text)
}

/// What YAML 1.1 takes for a bool, a merge or a default.
fn is_word_elsewhere(text: &str) -> bool {
    const WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "<<", "="];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// What YAML 1.1 may take for a number, a time or a date.
fn is_number_elsewhere(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-', '.']);
    let part = |byte: u8| byte.is_ascii_hexdigit() || b"_:.+-oOxXtTzZ ".contains(&byte);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(part)
}

/// Whether a character can stand in a scalar as it is.
fn is_visible(c: char) -> bool {
    !c.is_control() && !c.is_whitespace() && !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text reads back as itself from a block after `|`.
fn fits_block(text: &str, place: ScalarPosition) -> bool {
    let mut lines = text.split('\n');
    let content = |line: &str| line.is_empty() || line.chars().any(|c| c != ' ' && c != '\t');
    let visible = |c: char| matches!(c, ' ' | '\t' | '\n') || is_visible(c);
    text.contains('\n')
        && !text.trim_matches('\n').is_empty()
        && text.chars().all(visible)
        && lines.all(|line| content(line) && !line.starts_with('\t'))
        && !(place == ScalarPosition::Document && starts_with_space(text))
}

/// Whether the first line that is not empty begins with a space, so that its indentation must be told.
fn starts_with_space(text: &str) -> bool {
    text.trim_start_matches('\n').starts_with(' ')
}

fn write_block(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    if starts_with_space(text) {
        out.push(INDENT_INDICATOR);
    }
    let body = text.strip_suffix('\n');
    match body {
        None => out.push('-'),
        Some(body) if body.ends_with('\n') => out.push('+'),
        Some(_) => {}
    }
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            spaces(indent.max(INDENT), out);
            out.push_str(line);
        }
    }
}

fn write_double(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' ' => out.push(' '),
            c if is_visible(c) => out.push(c),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
        }
    }
    out.push('"');
}

fn end_line(out: &mut String) {
    out.push('\n');
}

fn spaces(count: usize, out: &mut String) {
    (0..count).for_each(|_| out.push(' '));
}
