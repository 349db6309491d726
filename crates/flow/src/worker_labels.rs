//! Labels of workers: what a step asks for with `on`, and what `threadline worker --label` says of a worker.

use std::collections::BTreeMap;
use std::fmt;

use ecow::EcoString;

/// A name or a value of a label has at most so many bytes.
const LONGEST: usize = 63;

/// Labels by their names. A worker performs a step if it has all labels that the step asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WorkerLabels(BTreeMap<EcoString, EcoString>);

impl WorkerLabels {
    /// Adds a label, or says what is wrong with it.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        let fits = |text: &str, more: &str| {
            let is_known = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            (1..=LONGEST).contains(&text.len()) && text.chars().all(is_known)
        };
        if !fits(name, "_-.") || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(format!(
                "`{name}` is no name of a label: it begins with a letter, and has letters, digits, `_`, `-` and `.`, at \
                 most {LONGEST}"
            ));
        }
        if !fits(value, "_-.:/") {
            return Err(format!(
                "`{value}` is no value of a label: it has letters, digits, `_`, `-`, `.`, `:` and `/`, at most {LONGEST}"
            ));
        }
        if self.0.contains_key(name) {
            return Err(format!("the label `{name}` is there twice"));
        }
        self.0.insert(name.into(), value.into());
        Ok(())
    }

    /// Reads labels from texts such as `gpu=true`.
    pub fn of_pairs<'t>(pairs: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let mut labels = Self::default();
        for pair in pairs {
            let wrong = || format!("`{pair}` is no label: write `NAME=VALUE`, such as `gpu=true`");
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            labels.add(name.trim(), value.trim())?;
        }
        Ok(labels)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All labels, by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&EcoString, &EcoString)> {
        self.0.iter()
    }

    /// Those labels that are chosen by their places.
    #[must_use]
    pub fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Self {
        let chosen = self.0.iter().enumerate().filter(|(place, _)| is_chosen(*place));
        Self(chosen.map(|(_, (name, value))| (name.clone(), value.clone())).collect())
    }
}

impl fmt::Display for WorkerLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
