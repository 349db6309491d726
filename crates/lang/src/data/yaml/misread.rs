//! What to say about YAML that is wrong, and about YAML that would be read otherwise than it was meant.
//!
//! Most mistakes in workflow files are values that need quotes: `when: '${a}' == 'b'`, `a: b: c`, `x: *.txt`.
//! Where the line of an error looks like that, the error is about the value and says so.

use granit_parser::{ErrorKind, ScanError};

use crate::data::locate::yaml_escape;
use crate::data::{ReadError, ReadErrorKind, UnexpectedText};
use crate::diag::{Fix, Span};
use crate::limits::Limit;

pub(super) const QUOTE: &str = "quote this value";
const QUOTE_OR_BLOCK: &str = "quote the whole value, or write it below its key as a block: `key: |`";
const DOUBLE_APOSTROPHE: &str = "write `''` for a quote inside of single quotes";
const ESCAPE_QUOTE: &str = "write `\\\"` for a quote inside of double quotes";
const COMMENT_INSIDE: &str = "a comment cannot stand inside a text";

/// Refuses a plain scalar that begins a reference and leaves its end to a comment or to a value: `${= x # y }`
/// and, as a list item, `${= {"k": 1} }`.
pub(super) fn check_cut(text: &str, span: Span, is_key: bool) -> Result<(), ReadError> {
    let scalar = text.get(span.range()).unwrap_or("");
    let Some(start) = scalar.find("${") else { return Ok(()) };
    let comment = text[span.end as usize..].trim_start_matches([' ', '\t']).starts_with('#');
    if balanced(&scalar[start..]) || !(is_key || comment) {
        return Ok(());
    }
    let span = Span::new(span.start as usize, end_of_line(text, span.end as usize));
    Err(to_quote(text, ReadErrorKind::CutReference, span, QUOTE))
}

/// Refuses a comment between the lines of a plain scalar, which the parser lets pass after a tab.
pub(super) fn check_comment(text: &str, span: Span) -> Result<(), ReadError> {
    let scalar = text.get(span.range()).unwrap_or("");
    let comment = |line: &&str| line.trim_start_matches([' ', '\t']).starts_with('#');
    match scalar.split(['\n', '\r']).skip(1).find(comment) {
        None => Ok(()),
        Some(_) => Err(ReadError::new(ReadErrorKind::Yaml(COMMENT_INSIDE.into()), span)),
    }
}

fn balanced(reference: &str) -> bool {
    let depth = reference.bytes().fold(0usize, |depth, byte| match byte {
        b'{' => depth + 1,
        b'}' => depth.saturating_sub(1),
        _ => depth,
    });
    depth == 0
}

/// The error of the parser, in our words.
pub(super) fn explain(text: &str, error: &ScanError) -> ReadError {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    let kind = match error.kind() {
        ErrorKind::RecursionLimitExceeded => ReadErrorKind::Limit(Limit::DataDepth),
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            ReadErrorKind::ControlCharacter(*character)
        }
        kind if is_escape(kind) => return bad_escape(text, at),
        other => ReadErrorKind::Yaml(message(other).into()),
    };
    if let Some(error) = unclosed_quote(text, at, error.kind()) {
        return error;
    }
    if let Some(span) = swallowing_reference(text, at, error.kind()) {
        let kind = ReadErrorKind::Yaml(message(&ErrorKind::ExpectedFlowMappingSeparator).into());
        return to_quote(text, kind, span, QUOTE);
    }
    if let Some(span) = value_to_quote(text, at, error.kind()) {
        return match error.kind() {
            ErrorKind::MappingValueNotAllowed => {
                to_quote(text, ReadErrorKind::Yaml(KEY_IN_VALUE.into()), span, QUOTE_OR_BLOCK)
            }
            ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
                inner_quote(text, &kind, span).unwrap_or_else(|| to_quote(text, kind, span, QUOTE))
            }
            _ => to_quote(text, kind, span, QUOTE),
        };
    }
    let at = narrow(text, at, error.kind());
    let span = Span::new(at, at + UnexpectedText::at(text, at).len());
    let fix = if is_indentation(error.kind()) { like_above(text, at) } else { None };
    let hint = fix.as_ref().map(|_| INDENT).or_else(|| other_hint(text, at, error.kind()));
    ReadError { hint, fix, ..ReadError::new(kind, span) }
}

const KEY_IN_VALUE: &str = "a `: ` inside a value without quotes begins another value";
const INDENT: &str = "check the indentation of this line";

/// A value that can be read once it stands in quotes.
fn to_quote(text: &str, kind: ReadErrorKind, span: Span, hint: &'static str) -> ReadError {
    let value = text.get(span.range()).unwrap_or("");
    let has_comment = value.contains(" #");
    let fix = if has_comment { None } else { tried(text, Fix::new(span, quoted(value))) };
    ReadError { hint: Some(hint), fix, ..ReadError::new(kind, span) }
}

/// A text on one line in the quotes that change it least.
pub(super) fn quoted(value: &str) -> String {
    if value.contains('\'') && !value.contains(['"', '\\']) {
        return format!("\"{value}\"");
    }
    format!("'{}'", value.replace('\'', "''"))
}

/// A quote inside a text that stands in the same quotes: `'it's'`.
fn inner_quote(text: &str, kind: &ReadErrorKind, span: Span) -> Option<ReadError> {
    let value = text.get(span.range())?;
    let quote = value.chars().next()?;
    let inside = value.get(1..value.len().checked_sub(1)?).filter(|_| value.ends_with(quote))?;
    let (hint, escaped) = match quote {
        '\'' => (DOUBLE_APOSTROPHE, inside.replace('\'', "''")),
        _ => (ESCAPE_QUOTE, inside.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    // `'a' == 'b'` has spaces around what stands between its quotes: a value of several texts.
    let letters = |at: usize| {
        let before = inside[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        before && inside[at + 1..].starts_with(char::is_alphanumeric)
    };
    if !inside.match_indices(quote).all(|(at, _)| letters(at)) {
        return None;
    }
    let fix = tried(text, Fix::new(span, format!("{quote}{escaped}{quote}")))?;
    Some(ReadError { hint: Some(hint), fix: Some(fix), ..ReadError::new(kind.clone(), span) })
}

/// The quote that is not closed, when that is what is wrong: the parser points at what follows.
fn unclosed_quote(text: &str, at: usize, kind: &ErrorKind) -> Option<ReadError> {
    if !matches!(kind, ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent) {
        return None;
    }
    let mut end = end_of_line(text, at);
    loop {
        let value = value_on_line(text, end);
        if let Some(value) = value
            && let Some(quote) = text[value.range()].chars().next().filter(|c| matches!(c, '"' | '\''))
            && closing(&text[value.range()], quote).is_none()
        {
            let end = value.range().end;
            let message = "this quote is never closed, or its text is not indented";
            let kind = ReadErrorKind::Yaml(message.into());
            let fix = tried(text, Fix::new(Span::new(end, end), quote));
            let hint =
                fix.as_ref().map(|_| if quote == '"' { "close it with `\"`" } else { "close it with `'`" });
            return Some(ReadError { hint, fix, ..ReadError::new(kind, value) });
        }
        end = text[..end].rfind('\n')?;
    }
}

/// Where the quote ends that a value begins with.
fn closing(value: &str, quote: char) -> Option<usize> {
    let mut rest = value.char_indices().skip(1).peekable();
    while let Some((at, char)) = rest.next() {
        match char {
            '\\' if quote == '"' => _ = rest.next(),
            _ if char != quote => {}
            _ if quote == '\'' && rest.peek().is_some_and(|(_, next)| *next == quote) => _ = rest.next(),
            _ => return Some(at),
        }
    }
    None
}

fn is_indentation(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::MappingValueNotAllowed
            | ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::ExpectedBlockSequenceEntry
            | ErrorKind::BlockSequenceEntryNotAllowed
            | ErrorKind::InvalidIndentation
            | ErrorKind::SimpleKeyExpected
            | ErrorKind::InvalidSimpleKey
    ) || is_tab(kind)
}

fn is_tab(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar
    )
}

/// The line of a place indented as the nearest line above it that it can belong with, when that is what it needs.
fn like_above(text: &str, at: usize) -> Option<Box<Fix>> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..end_of_line(text, at)];
    let content = line.trim_start_matches([' ', '\t']);
    let blank = &line[..line.len() - content.len()];
    let indent = blank.bytes().map(|byte| if byte == b'\t' { 2 } else { 1 }).sum();
    let mut columns = open_columns(&text[..start], content.starts_with("- "));
    if blank.contains('\t')
        && let Some(column) = below_key(&text[..start])
        && let Some(fix) = tried(text, Fix::new(Span::new(start, start + blank.len()), " ".repeat(column)))
    {
        return Some(fix);
    }
    columns.retain(|column| *column != blank.len() || blank.contains('\t'));
    columns.sort_by_key(|column| (column.abs_diff(indent), std::cmp::Reverse(*column)));
    let span = Span::new(start, start + blank.len());
    columns.into_iter().take(MAX_COLUMNS).find_map(|column| tried(text, Fix::new(span, " ".repeat(column))))
}

/// Where what belongs to a key begins, when a text ends with a key that has no value yet.
fn below_key(above: &str) -> Option<usize> {
    let line = above.lines().rev().find(|line| !line.trim().is_empty())?;
    let content = line.trim_start_matches([' ', '-']);
    content.trim_end().ends_with(':').then(|| line.len() - content.len() + 2)
}

/// The most indentations that are tried.
const MAX_COLUMNS: usize = 4;

/// The most lines that are looked at for an indentation.
const LINES_ABOVE: usize = 200;

/// The columns of the items, or of the keys, that are still open after a text.
fn open_columns(above: &str, of_items: bool) -> Vec<usize> {
    let mut columns = Vec::new();
    let mut least = usize::MAX;
    for line in above.lines().rev().take(LINES_ABOVE) {
        let mut content = line.trim_start_matches(' ');
        let mut column = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indent = column;
        while let Some(rest) = content.strip_prefix("- ") {
            if of_items && column <= least {
                columns.push(column);
            }
            column += 2 + (rest.len() - rest.trim_start_matches(' ').len());
            content = rest.trim_start_matches(' ');
        }
        if !of_items && column <= least && (content.ends_with(':') || content.contains(": ")) {
            columns.push(column);
        }
        least = least.min(indent);
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The largest text that a fix is tried in: to try one, the whole text is parsed again.
const MAX_TRIED: usize = 1 << 18;

/// A fix that brings the parser beyond the place that it changes.
fn tried(text: &str, fix: Fix) -> Option<Box<Fix>> {
    let (before, after) = (text.get(..fix.span.range().start)?, text.get(fix.span.range().end..)?);
    if text.len() > MAX_TRIED || fix.text.contains(['\n', '\r']) {
        return None;
    }
    let end_of_line = end_of_line(text, fix.span.range().end) - fix.span.range().end;
    let beyond = before.len() + fix.text.len() + end_of_line;
    let fixed = format!("{before}{}{after}", fix.text);
    let mut parser = granit_parser::Parser::new_from_str_with_options(&fixed, super::parser_options());
    while let Some(next) = parser.next_event() {
        if let Err(error) = next {
            let at = error.marker().byte_offset().unwrap_or(0);
            return (at > beyond).then(|| Box::new(fix));
        }
    }
    Some(Box::new(fix))
}

fn is_escape(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownQuotedScalarEscape
            | ErrorKind::InvalidQuotedScalarHexEscape
            | ErrorKind::InvalidUnicodeEscape
            | ErrorKind::InvalidLowSurrogate
            | ErrorKind::InvalidLowSurrogateHexEscape
            | ErrorKind::MissingLowSurrogate
            | ErrorKind::UnpairedLowSurrogate
    )
}

/// The first escape that cannot be read in the text whose quote stands at a place.
fn bad_escape(text: &str, quote: usize) -> ReadError {
    let mut at = quote + 1;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match yaml_escape(&text[at..]) {
            Some((_, len)) => at += len,
            None => break,
        }
    }
    let escape = text.get(at..).unwrap_or("");
    let digits = escape.chars().skip(2).take_while(char::is_ascii_hexdigit).take(4).count();
    let surrogate = escape.starts_with("\\u") && digits == 4;
    let kind = if surrogate { ReadErrorKind::LoneSurrogate } else { ReadErrorKind::InvalidEscape };
    let len: usize = escape.chars().take(if surrogate { 6 } else { 2 }).map(char::len_utf8).sum();
    ReadError::new(kind, Span::new(at, at + len))
}

/// The parser points at the start of a text or past a tab; the culprit itself is meant.
fn narrow(text: &str, at: usize, kind: &ErrorKind) -> usize {
    match kind {
        ErrorKind::UnexpectedCharacter { character } => {
            text[at..].find(*character).map_or(at, |found| at + found)
        }
        kind if is_tab(kind) => tab_near(text, at),
        _ => at,
    }
}

/// The tab in the indentation of the line of a place or of one behind it.
fn tab_near(text: &str, at: usize) -> usize {
    let mut start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    for line in text[start..].split_inclusive('\n') {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..blank].find('\t') {
            return start + tab;
        }
        start += line.len();
    }
    at
}

fn other_hint(text: &str, at: usize, kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::MappingValueNotAllowed | ErrorKind::ExpectedBlockMappingKey => Some(INDENT),
        ErrorKind::BlockSequenceEntryNotAllowed => Some("begin the list on the next line"),
        // Such as `{plan[0].x: 1}`: in brackets the key ends where another bracket opens.
        ErrorKind::ExpectedFlowMappingSeparator
            if text[..at].ends_with(']') || text[at..].starts_with(['[', '{']) =>
        {
            Some("quote this key")
        }
        _ => None,
    }
}

/// The words for an error of the parser; its own where they are rarely seen.
fn message(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::UnclosedFlowCollection { open } => return format!("`{open}` is not closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return format!("`{open}` is closed by `{close}`");
        }
        ErrorKind::UnexpectedCharacter { character: '`' } => {
            return "a backquote cannot begin a value without quotes".to_owned();
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return format!("`{character}` cannot begin a value without quotes");
        }
        _ => {}
    }
    let words = match kind {
        ErrorKind::UnexpectedEofFlowSequence => "the list is not closed",
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            "the object is not closed"
        }
        ErrorKind::UnclosedQuotedScalar => "the quote is not closed",
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "the value goes on after its closing quote"
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::MappingKeyNotAllowed => "a key cannot stand here",
        ErrorKind::ExpectedBlockMappingKey => "expected a key and `:`",
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => "expected `:` after the key",
        ErrorKind::ExpectedFlowMappingSeparator => "expected `,` or `}`",
        ErrorKind::ExpectedFlowSequenceSeparator => "expected `,` or `]`",
        ErrorKind::ExpectedBlockSequenceEntry => "expected `-` and an item",
        ErrorKind::BlockSequenceEntryNotAllowed | ErrorKind::BlockEntryInFlowCollection => {
            "a list item cannot stand here"
        }
        ErrorKind::MisplacedFlowCollectionEnd => "there is nothing open to close",
        kind if is_tab(kind) => "a tab cannot stand here; indent with spaces",
        ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::InvalidFlowScalarIndent => "wrong indentation",
        ErrorKind::InvalidQuotedScalarIndent => {
            "the quote before this is not closed, or its text is not indented"
        }
        ErrorKind::InvalidColonPlacement => "`:` cannot stand here; is a bracket before it not closed?",
        ErrorKind::UndeclaredTagHandle => "this tag has no meaning here",
        ErrorKind::UnknownAnchor => "there is no anchor of this name before",
        ErrorKind::CommentNotSeparated => "a comment needs a space before its `#`",
        ErrorKind::CommentInterceptedScalar => COMMENT_INSIDE,
        ErrorKind::ExpectedDocumentStart | ErrorKind::InvalidDocumentEnd => "the document ended before this",
        ErrorKind::InvalidBlockScalarHeader => "only an indentation, `+`, `-` or a comment can stand here",
        ErrorKind::BomInsideDocument => "a byte order mark can only stand at the start",
        other => return other.to_string(),
    };
    words.to_owned()
}

/// The value on the line of an error that should have been quoted, when it looks like that.
fn value_to_quote(text: &str, at: usize, kind: &ErrorKind) -> Option<Span> {
    let value = value_on_line(text, at)?;
    let source = &text[value.range()];
    let quoted = source.starts_with(['"', '\'']);
    if let Some(reference) = source.find("${")
        && !quoted
        && !source.starts_with(['|', '>'])
    {
        return Some(if source.starts_with(['[', '{']) {
            in_brackets(source, unquoted_reference(source).unwrap_or(reference), value)
        } else {
            value
        });
    }
    let inside = at > value.start as usize && at < value.end as usize;
    let fits = match kind {
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => true,
        ErrorKind::MappingValueNotAllowed => inside,
        ErrorKind::ExpectedBlockMappingKey => inside && source.starts_with(['[', '{']),
        ErrorKind::UnknownAnchor => source.starts_with('*'),
        ErrorKind::UnexpectedCharacter { character } => !character.is_control() && at == value.start as usize,
        _ => source.starts_with('!') && at >= value.start as usize,
    };
    fits.then_some(value)
}

/// A value in brackets on an earlier line whose reference is in no quotes: what stands between its own quotes and those of
/// a later line was read as one text, and the parser points behind that.
fn swallowing_reference(text: &str, at: usize, kind: &ErrorKind) -> Option<Span> {
    let trailing =
        [ErrorKind::InvalidTrailingSingleQuotedScalar, ErrorKind::InvalidTrailingDoubleQuotedScalar];
    let mut end = text[..at].rfind('\n').filter(|_| trailing.contains(kind))?;
    loop {
        if let Some(value) = value_on_line(text, end)
            && let source = &text[value.range()]
            && source.starts_with(['[', '{'])
            && let Some(reference) = unquoted_reference(source)
        {
            return Some(in_brackets(source, reference, value));
        }
        end = text[..end].rfind('\n')?;
    }
}

/// Where the first reference stands that is in no quotes. A quote begins a text only where a value begins.
fn unquoted_reference(source: &str) -> Option<usize> {
    let mut quote = None;
    let mut last = '{';
    for (at, char) in source.char_indices() {
        match (quote, char) {
            (None, '$') if source[at..].starts_with("${") => return Some(at),
            (None, '"' | '\'') if matches!(last, '{' | '[' | ',' | ':') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            _ => {}
        }
        if char != ' ' {
            last = char;
        }
    }
    None
}

/// The value around a reference inside a list or object in brackets.
fn in_brackets(source: &str, reference: usize, value: Span) -> Span {
    let before = &source[..reference];
    let key = before.rfind(": ").map_or(0, |at| at + 2);
    let start = key.max(before.rfind(['[', '{', ',']).map_or(0, |at| at + 1));
    let start = start + (before[start..].len() - before[start..].trim_start().len());
    let mut depth = 0_usize;
    let ends = |byte: u8| match byte {
        b'{' => {
            depth += 1;
            false
        }
        b'}' if depth > 0 => {
            depth -= 1;
            false
        }
        b'}' | b']' => true,
        b',' => depth == 0,
        _ => false,
    };
    let len = source[reference..].bytes().position(ends).unwrap_or(source.len() - reference);
    let text = source[start..reference + len].trim_end();
    let start = value.start as usize + start;
    Span::new(start, start + text.len())
}

/// What stands after the key, or after the dashes, on the line of a place.
fn value_on_line(text: &str, at: usize) -> Option<Span> {
    let start = text.get(..at)?.rfind(['\n', '\r']).map_or(0, |newline| newline + 1);
    let end = end_of_line(text, at);
    let line = &text[start..end];
    let mut value = line.trim_start_matches([' ', '\t', '\u{feff}']);
    while let Some(rest) = value.strip_prefix("- ").or_else(|| value.strip_prefix("? ")) {
        value = rest.trim_start_matches(' ');
    }
    if !value.starts_with(['[', '{'])
        && let Some(rest) = after_key(value)
    {
        value = rest;
    }
    let start = end - value.len();
    let len = value.trim_end().len();
    (len > 0).then(|| Span::new(start, start + len))
}

/// What follows the first `: ` that is not inside a quoted key.
fn after_key(line: &str) -> Option<&str> {
    let quote = line.chars().next().filter(|c| matches!(c, '"' | '\''));
    let key = match quote {
        Some(quote) => line[1..].find(quote)? + 2,
        None => line.find(": ")?,
    };
    let rest = line[key..].trim_start_matches(' ').strip_prefix(": ")?;
    Some(rest.trim_start_matches(' '))
}

fn end_of_line(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |newline| at + newline)
}
