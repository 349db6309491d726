//! Paths into the actual document: `facts.balance`, `plan[0].params.amount`, `value["any key"]`.

use std::fmt::Write as _;

use ecow::EcoString;
use threadline_lang::value::Key;
use threadline_lang::{PathStep, Value, is_plain_name, parse_path};

/// A path, read once.
#[derive(Debug, Clone)]
pub(crate) struct ActualPath {
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Into the value of a key; of a list into the item of this number.
    Key(Key, Option<usize>),
    /// Into an item of a list; negative ones count from the end.
    Index(i64),
}

impl ActualPath {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { steps: parse_path(text)?.into_iter().map(Step::from).collect() })
    }

    /// Of names that are keys.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self { steps: names.iter().map(|name| Step::from(PathStep::Key((*name).into()))).collect() }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The name of its first step.
    pub(crate) fn root(&self) -> Option<&str> {
        match self.steps.first()? {
            Step::Key(key, _) => Some(key.as_str()),
            Step::Index(_) => None,
        }
    }

    /// The name of its second step.
    pub(crate) fn second(&self) -> Option<&EcoString> {
        match self.steps.get(1)? {
            Step::Key(key, _) => Some(key.name()),
            Step::Index(_) => None,
        }
    }
}

impl From<PathStep> for Step {
    fn from(step: PathStep) -> Self {
        match step {
            PathStep::Key(name) => {
                let number = name.parse().ok();
                Self::Key(Key::new(name), number)
            }
            PathStep::Index(index) => Self::Index(index),
        }
    }
}

impl Step {
    /// Where it leads from a value.
    pub(crate) fn take<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Key(key, number) => match (value.as_object(), value.as_list(), number) {
                (Some(object), ..) => object.get(key),
                (_, Some(items), Some(number)) => items.get(*number),
                _ => None,
            },
            Self::Index(index) => {
                let items = value.as_list()?;
                let back = usize::try_from(index.unsigned_abs()).ok()?;
                items.get(if *index < 0 { items.len().checked_sub(back)? } else { back })
            }
        }
    }

    /// As it stands behind what came before it.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Key(key, _) => write_key(key.as_str(), out),
            // Writing into a text cannot fail.
            Self::Index(index) => drop(write!(out, "[{index}]")),
        }
    }
}

/// A key behind what came before it.
pub(crate) fn write_key(name: &str, out: &mut String) {
    if is_plain_name(name) {
        out.push_str(if out.is_empty() { "" } else { "." });
        out.push_str(name);
    } else {
        let _ = write!(out, "[{}]", Value::from(name).to_json(threadline_lang::value::JsonStyle::Compact));
    }
}
