//! The environment of a child: what this process inherited, without what is ours, plus what a step adds.
//!
//! The inherited part is read once and shared; a step's own part is a small table over it. Nothing here changes the
//! environment of this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::mark::Mark;

/// Names that carry bound values. A child gets those of its own step and never those of another.
const BOUND_VALUES: &[u8] = b"TL_";

/// The environment of a child. O(1) to clone as long as nothing was added.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Sorted by name.
    inherited: Arc<[(OsString, OsString)]>,
    /// `None` removes a variable.
    changes: BTreeMap<OsString, Option<OsString>>,
    mark: Option<Arc<Mark>>,
}

impl Environment {
    /// No variable at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// What this process inherited, without every `TL_*`. Call it once and clone the result.
    pub fn inherited() -> Self {
        std::env::vars_os().collect()
    }

    /// Sets a variable, whatever it was.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changes.insert(name.into(), Some(value.into()));
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl Into<OsString>) {
        self.changes.insert(name.into(), None);
    }

    /// Marks the child, and all that it starts, as a part of this step of this run, so that they can be found again.
    pub fn mark(&mut self, run: &str, step: &str) {
        self.mark = Some(Arc::new(Mark::new(run, step, |name| self.inherited_value(OsStr::new(name)))));
    }

    /// The step that the child will belong to.
    pub(super) fn step_mark(&self) -> Option<&Mark> {
        self.mark.as_deref()
    }

    /// The value that the child will see.
    pub fn get(&self, name: &OsStr) -> Option<&OsStr> {
        match self.changes.get(name) {
            Some(value) => value.as_deref(),
            None => self.inherited_value(name),
        }
    }

    /// The names of all variables that were inherited and not removed, and of those that were set.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        let inherited = self.inherited.iter().map(|(name, _)| name.as_os_str());
        let kept = inherited.filter(|name| !self.changes.contains_key(*name));
        let set = self.changes.iter().filter(|(_, value)| value.is_some());
        kept.chain(set.map(|(name, _)| name.as_os_str()))
    }

    fn inherited_value(&self, name: &OsStr) -> Option<&OsStr> {
        let found = self.inherited.binary_search_by(|(known, _)| known.as_os_str().cmp(name)).ok()?;
        Some(&self.inherited[found].1)
    }

    /// A name that no environment can hold, or a value with a zero byte.
    pub(super) fn impossible_name(&self) -> Option<&OsStr> {
        let impossible = |(name, value): &(&OsString, &Option<OsString>)| {
            name.is_empty()
                || name.as_bytes().iter().any(|byte| matches!(byte, b'=' | 0))
                || value.as_ref().is_some_and(|value| value.as_bytes().contains(&0))
        };
        self.changes.iter().find(impossible).map(|(name, _)| name.as_os_str())
    }

    /// Every variable of the child. The mark comes last, so that it wins.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let inherited = self.inherited.iter().filter(|(name, _)| !self.changes.contains_key(name));
        let inherited = inherited.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let own = self.changes.iter().filter_map(|(name, value)| Some((name.as_os_str(), value.as_deref()?)));
        inherited.chain(own).chain(self.mark.iter().flat_map(|mark| mark.variables()))
    }
}

/// The given variables in place of those of this process, without every `TL_*`.
impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        let mut inherited: Vec<_> =
            variables.into_iter().filter(|(name, _)| !name.as_bytes().starts_with(BOUND_VALUES)).collect();
        inherited.sort_by(|(left, _), (right, _)| left.cmp(right));
        inherited.dedup_by(|(later, _), (first, _)| later == first);
        Self { inherited: inherited.into(), changes: BTreeMap::new(), mark: None }
    }
}
