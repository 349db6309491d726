//! JSON texts as values, and what a path leads to in one.
//!
//! The path is a plain text that is read when it is used.

use super::FuncError;
use crate::data::{DataFormat, ReadError, ReadErrorKind};
use crate::data_path::{EMPTY_PATH, PathStep, path_steps};
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

fn steps(path: &str) -> Result<Vec<PathStep>, FuncError> {
    let steps = path_steps(path).map_err(|error| {
        FuncError::value(PATH, error.message(), Some("paths are written like `a.b[0]` or `a[\"any key\"]`"))
    })?;
    if steps.is_empty() {
        let hint = "`from_json(...)` gives the whole value";
        return Err(FuncError::value(PATH, EMPTY_PATH, Some(hint)));
    }
    Ok(steps)
}

fn take(value: &Value, step: &PathStep, index: usize) -> Result<Value, FuncError> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let found = match (&value.0, step) {
        (ValueRepr::Null, _) => None,
        (ValueRepr::Object(_), PathStep::Key { .. }) | (ValueRepr::List(_), PathStep::Index(_)) => {
            step.take(value)
        }
        (ValueRepr::List(_), PathStep::Key { key, quoted: false, .. }) if is_number(key.as_str()) => {
            step.take(value)
        }
        (ValueRepr::Object(_), PathStep::Index(_)) => {
            let why = format!("step {} of the path is an index into an object", index + 1);
            return Err(FuncError::value(PATH, why, Some("a key is written like `[\"0\"]`")));
        }
        (ValueRepr::List(_), PathStep::Key { .. }) => {
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
