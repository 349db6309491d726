//! Paths into JSON: `a.b[0]`, `a.0`, `[-1]`, `["any key"]`.
//!
//! A path is a plain text here, read when it is used. It never holds references or filters.

use ecow::EcoString;
use unicode_ident::is_xid_continue;

use super::FuncError;
use crate::data::{DataFormat, ReadError, ReadErrorKind};
use crate::document::PathStep;
use crate::limits::Limits;
use crate::value::{Value, ValueRepr};

const PATH: usize = 0;
const SOURCE: usize = 1;

/// What a path leads to in a JSON text or in a value. The path is the first argument of the errors.
pub(crate) fn find(path: &str, source: &Value, limits: &Limits) -> Result<Value, FuncError> {
    let steps = steps(path)?;
    let mut value = match source.as_str() {
        Some(text) => parse(text, SOURCE, limits)?,
        None => source.clone(),
    };
    for (index, step) in steps.iter().enumerate() {
        value = take(&value, step, index)?;
    }
    Ok(value)
}

/// The value of a JSON text, which is the argument `arg` of the errors.
pub(super) fn parse(text: &str, arg: usize, limits: &Limits) -> Result<Value, FuncError> {
    crate::data::json::read_value(text, limits).map_err(|error| unread(text, arg, DataFormat::Json, &error))
}

/// A text is not what its format wants, and where.
pub(super) fn unread(text: &str, arg: usize, format: DataFormat, error: &ReadError) -> FuncError {
    if let ReadErrorKind::Limit(limit) = error.kind {
        return FuncError::Limit(limit);
    }
    let before = text.get(..error.offset()).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let why =
        format!("not valid {}: {}, at line {line}, column {column}", format.name(), error.without_text());
    FuncError::value(arg, why, error.hint)
}

/// The steps of a path, for a caller that goes them itself; the error is why it is none.
pub(crate) fn path_steps(path: &str) -> Result<Vec<PathStep>, String> {
    let steps = steps(path).map_err(|error| match error {
        FuncError::Value { why, .. } => why,
        _ => "this is not a path".to_owned(),
    })?;
    let step = |step: Step| match step {
        Step::Field(name) | Step::Key(name) => PathStep::Key(name),
        Step::Index(index) => PathStep::Index(index),
    };
    Ok(steps.into_iter().map(step).collect())
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// `.name`; digits are an index of a list too.
    Field(EcoString),
    /// `[0]`, `[-1]`
    Index(i64),
    /// `["any key"]`
    Key(EcoString),
}

fn steps(path: &str) -> Result<Vec<Step>, FuncError> {
    let mut rest = path.trim();
    if rest.is_empty() {
        let hint = "`from_json(...)` gives the whole value";
        return Err(FuncError::value(PATH, "the path is empty", Some(hint)));
    }
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
            bracket(inner)
        } else {
            field(rest.strip_prefix('.').filter(|_| !steps.is_empty()).unwrap_or(rest))
        }
        .ok_or_else(|| unread_step(steps.len()))?;
        if !after.is_empty() && !after.starts_with(['.', '[']) {
            return Err(unread_step(steps.len()));
        }
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

fn unread_step(index: usize) -> FuncError {
    let why = format!("step {} of the path is not one", index + 1);
    FuncError::value(PATH, why, Some("paths are written like `a.b[0]` or `a[\"any key\"]`"))
}

fn field(rest: &str) -> Option<(Step, &str)> {
    let is_name = |char: char| char == '-' || is_xid_continue(char);
    let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    (!name.is_empty()).then(|| (Step::Field(name.into()), after))
}

fn bracket(inner: &str) -> Option<(Step, &str)> {
    let quote = inner.chars().next()?;
    if matches!(quote, '"' | '\'') {
        let (key, after) = key(&inner[1..], quote)?;
        return Some((Step::Key(key), after.strip_prefix(']')?));
    }
    let (index, after) = inner.split_once(']')?;
    let digits = index.strip_prefix('-').unwrap_or(index);
    let is_index = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // No list is long enough for an index that does not fit.
    is_index.then(|| (Step::Index(index.parse().unwrap_or(i64::MAX)), after))
}

/// A quoted key, with the escapes of a text literal but `\u`.
fn key(text: &str, quote: char) -> Option<(EcoString, &str)> {
    let mut key = EcoString::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => match chars.next()?.1 {
                'n' => key.push('\n'),
                't' => key.push('\t'),
                'r' => key.push('\r'),
                'u' => return None,
                escaped @ ('\\' | '"' | '\'') => key.push(escaped),
                other => key.extend(['\\', other]),
            },
            _ if char == quote => return Some((key, &text[at + 1..])),
            _ => key.push(char),
        }
    }
    None
}

fn take(value: &Value, step: &Step, index: usize) -> Result<Value, FuncError> {
    let found = match (&value.0, step) {
        (ValueRepr::Null, _) => None,
        (ValueRepr::Object(object), Step::Field(name) | Step::Key(name)) => object.get_str(name),
        (ValueRepr::List(_), Step::Index(at)) => item(value, *at),
        (ValueRepr::List(_), Step::Field(name)) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            item(value, name.parse().unwrap_or(i64::MAX))
        }
        (ValueRepr::Object(_), Step::Index(_)) => {
            let why = format!("step {} of the path is an index into an object", index + 1);
            return Err(FuncError::value(PATH, why, Some("a key is written like `[\"0\"]`")));
        }
        (ValueRepr::List(_), Step::Field(_) | Step::Key(_)) => {
            let why = format!("step {} of the path is a key into a list", index + 1);
            return Err(FuncError::value(PATH, why, Some("an index is written like `[0]`")));
        }
        _ => {
            let kind = value.kind().with_article();
            let why = format!("step {} of the path goes into {kind}", index + 1);
            return Err(FuncError::value(PATH, why, None));
        }
    };
    found.cloned().ok_or(FuncError::Missing("the path leads nowhere"))
}

fn item(list: &Value, index: i64) -> Option<&Value> {
    let items = list.as_list()?;
    let at = usize::try_from(index.unsigned_abs()).ok()?;
    items.get(if index < 0 { items.len().checked_sub(at)? } else { at })
}
