//! The one JSON value of an answer: taken out of prose and fences, and nothing mended on the way.
//!
//! An answer that holds none, or more than one, is not guessed at: the error says why, so that the agent can be
//! asked again.

use threadline_flow::model::AnswerFormat;
use threadline_lang::{Limits, Type, Value, data};

/// The value of an answer, as the format reads it; or why the answer does not fit, as a part of a sentence about it.
pub(crate) fn read(text: &str, format: &AnswerFormat) -> Result<Value, String> {
    let types = format.shape().types;
    let value = find(text, types.may_be(Type::Object), types.may_be(Type::List))?;
    format.read(value).map_err(|why| format!("does not fit the JSON Schema: {why}"))
}

/// The JSON value of an answer. In prose it is an object or a list, whichever can be the answer.
fn find(text: &str, objects: bool, lists: bool) -> Result<Value, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if let Ok(value) = read_json(text) {
        return Ok(value);
    }
    let text = behind_thoughts(text);
    let whole = match read_json(text) {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    let fenced = fenced(text);
    if let Some(problem) = fenced.unclosed {
        return Err(problem.to_owned());
    }
    let blocks: Vec<&str> =
        fenced.blocks.into_iter().filter(|block| block.is_json).map(|block| block.text).collect();
    if !blocks.is_empty() {
        return only(blocks.iter().map(|block| read_json(block)).collect(), "fenced block");
    }
    let spans = spans(text, objects, lists);
    if spans.is_empty() {
        if text.starts_with(['{', '[']) {
            return Err(format!("is not JSON: {whole}"));
        }
        return Err("holds no JSON value".to_owned());
    }
    only(spans.into_iter().map(read_json).collect(), "JSON value")
}

/// What a model says when it has thought: what stands behind the block of its thoughts, which some models leave open at
/// its beginning. Without such a block it is all of the text.
fn behind_thoughts(text: &str) -> &str {
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        let end = match text.find(open) {
            Some(0) | None => text.find(close),
            Some(_) => None,
        };
        if let Some(end) = end {
            return text[end + close.len()..].trim_start();
        }
    }
    text
}

/// The only value of several places that could hold one.
fn only(found: Vec<Result<Value, String>>, noun: &str) -> Result<Value, String> {
    let count = found.iter().filter(|value| value.is_ok()).count();
    if count > 1 {
        return Err(format!("holds {count} {noun}s, and exactly one is needed"));
    }
    let mut why = None;
    for value in found {
        match value {
            Ok(value) => return Ok(value),
            Err(error) => why = why.or(Some(error)),
        }
    }
    let why = why.unwrap_or_default();
    Err(format!("is not JSON: {why}"))
}

fn read_json(text: &str) -> Result<Value, String> {
    data::json::read_value(text.trim(), &Limits::DEFAULT).map_err(|error| error.to_string())
}

/// The fenced blocks of a text.
struct Fences<'t> {
    blocks: Vec<FencedBlock<'t>>,
    /// What to say of a fence that is never closed.
    unclosed: Option<&'static str>,
}

struct FencedBlock<'t> {
    text: &'t str,
    /// Whether it can be the answer: it says that it is JSON, or says nothing and begins like it.
    is_json: bool,
}

fn fenced(text: &str) -> Fences<'_> {
    let mut blocks = Vec::new();
    // Where the block under way begins, the backticks of its fence, and whether it can be the answer.
    let mut open: Option<(usize, usize, String)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let trimmed = line.trim();
        let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
        // A block may end behind its last value.
        let closing = trimmed.len() - trimmed.trim_end_matches('`').len();
        match &open {
            Some((from, fence, language))
                if closing >= *fence && (trimmed.len() == ticks || is_json(language)) =>
            {
                let upto = start + line.trim_end().len() - closing;
                let text = &text[*from..upto];
                let begins = text.trim_start().starts_with(['{', '[']);
                let is_json = is_json(language) || language.is_empty() && begins;
                blocks.push(FencedBlock { text, is_json });
                open = None;
            }
            None if ticks >= 3 && !trimmed[ticks..].contains('`') => {
                open = Some((end, ticks, trimmed[ticks..].trim().to_ascii_lowercase()));
            }
            // A block of JSON may begin behind prose in the same line.
            None if ticks == 0 => {
                let (before, language) = trimmed.rsplit_once('`').unwrap_or((trimmed, ""));
                let ticks = before.len() + 1 - before.trim_end_matches('`').len();
                let is_first = before.find('`').is_some_and(|first| first + ticks == before.len() + 1);
                if ticks >= 3 && is_first && is_json(&language.to_ascii_lowercase()) {
                    open = Some((end, ticks, language.to_ascii_lowercase()));
                }
            }
            _ => {}
        }
    }
    let unclosed = open.is_some().then_some("ends inside a fenced block: it was cut off");
    Fences { blocks, unclosed }
}

/// Whether the word behind a fence says that its block is JSON.
fn is_json(language: &str) -> bool {
    matches!(language, "json" | "jsonc" | "json5")
}

/// The outermost objects and lists in prose, each up to its last bracket. One that is never closed reaches to the
/// end of the text.
fn spans(text: &str, objects: bool, lists: bool) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let begins = |byte: &u8| *byte == b'{' && objects || *byte == b'[' && lists;
    while let Some(offset) = bytes[at..].iter().position(begins) {
        let start = at + offset;
        // What a bracket of prose encloses is no value: `[see above]`, `{like this}`.
        if !begins_like_json(&text[start..]) {
            at = start + 1;
            continue;
        }
        at = closing(bytes, start).unwrap_or(bytes.len());
        found.push(&text[start..at]);
    }
    found
}

/// Where the bracket at `start` is closed: behind the closing one.
fn closing(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether what stands behind the bracket that a text begins with could be JSON: a field, an element, or the closing
/// bracket.
fn begins_like_json(text: &str) -> bool {
    let inside = text[1..].trim_start();
    let Some(first) = inside.chars().next() else { return false };
    if text.starts_with('{') {
        return matches!(first, '"' | '}' | '\'');
    }
    let is_word = ["true", "false", "null"].iter().any(|word| inside.starts_with(word));
    matches!(first, '"' | '{' | '[' | ']' | '-') || is_word || first.is_ascii_digit()
}
