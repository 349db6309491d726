//! Paths into data as plain text: `a.b[0]`, `a.0`, `[-1]`, `["any key"]`.
//!
//! A path is read once and followed often. It never holds references, filters or slices: those are expressions.

use ecow::EcoString;
use unicode_ident::is_xid_continue;

use crate::syntax::push_key;
use crate::value::{Key, Value};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// `.name` or `["any key"]`: into the value of a key.
    Key {
        /// The key with its hash.
        key: Key,
        /// The index of a list that a key of digits can also be.
        number: Option<usize>,
        /// Whether it is written in brackets and quotes.
        quoted: bool,
    },
    /// `[0]` or `[-1]`: into an element of a list; negative indexes count from the end.
    Index(i64),
}

/// The position of the first step that is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPathStep(pub usize);

/// The steps of a path such as `a.b[0]["any key"]`. The error says which step is malformed.
pub fn parse_path(path: &str) -> Result<Vec<PathStep>, String> {
    if path.trim().is_empty() {
        return Err(EMPTY_PATH.to_owned());
    }
    path_steps(path).map_err(BadPathStep::message)
}

/// Why an empty text is no path.
pub(crate) const EMPTY_PATH: &str = "the path is empty";

impl BadPathStep {
    pub(crate) fn message(self) -> String {
        format!("step {} of the path is malformed", self.0 + 1)
    }
}

/// The steps of a path; an empty path has none.
pub(crate) fn path_steps(path: &str) -> Result<Vec<PathStep>, BadPathStep> {
    let mut rest = path.trim();
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
            bracket(inner)
        } else {
            dotted(rest.strip_prefix('.').filter(|_| !steps.is_empty()).unwrap_or(rest))
        }
        .ok_or(BadPathStep(steps.len()))?;
        if !after.is_empty() && !after.starts_with(['.', '[']) {
            return Err(BadPathStep(steps.len()));
        }
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

impl PathStep {
    /// A step into the value of a key.
    pub fn key(name: impl Into<EcoString>) -> Self {
        Self::with_name(name.into(), false)
    }

    fn with_name(name: EcoString, quoted: bool) -> Self {
        let number = name.parse().ok();
        Self::Key { key: Key::new(name), number, quoted }
    }

    /// The name of the key; an index has none.
    pub fn name(&self) -> Option<&EcoString> {
        match self {
            Self::Key { key, .. } => Some(key.name()),
            Self::Index(_) => None,
        }
    }

    /// The part of a value that the step leads to.
    pub fn take<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Key { key, number, .. } => match (value.as_object(), value.as_list(), number) {
                (Some(object), ..) => object.get(key),
                (_, Some(elements), Some(number)) => elements.get(*number),
                _ => None,
            },
            Self::Index(index) => {
                let elements = value.as_list()?;
                elements.get(position(*index, elements.len())?)
            }
        }
    }

    /// Appends the step to the text of the path before it.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Key { key, .. } => push_key(out, key.as_str()),
            Self::Index(index) => {
                out.push('[');
                out.push_str(itoa::Buffer::new().format(*index));
                out.push(']');
            }
        }
    }
}

/// The position of an index in a list of this length, if it can be in one.
pub(crate) fn position(index: i64, len: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { len.checked_sub(distance) } else { Some(distance) }
}

fn dotted(rest: &str) -> Option<(PathStep, &str)> {
    let is_name = |char: char| char == '-' || is_xid_continue(char);
    let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    (!name.is_empty()).then(|| (PathStep::key(name), after))
}

fn bracket(inner: &str) -> Option<(PathStep, &str)> {
    let quote = inner.chars().next()?;
    if matches!(quote, '"' | '\'') {
        let (key, after) = quoted_key(&inner[1..], quote)?;
        return Some((PathStep::with_name(key, true), after.strip_prefix(']')?));
    }
    let (index, after) = inner.split_once(']')?;
    let digits = index.strip_prefix('-').unwrap_or(index);
    let is_index = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // No list is long enough for an index that does not fit.
    is_index.then(|| (PathStep::Index(index.parse().unwrap_or(i64::MAX)), after))
}

/// A quoted key, with the escapes of a text literal except `\u`.
fn quoted_key(text: &str, quote: char) -> Option<(EcoString, &str)> {
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
