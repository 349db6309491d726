//! The environment of a child: what this process inherited, without what is ours, plus what a step adds.
//!
//! The inherited part is read once and shared; a step's own part is a small table over it. Nothing here changes the
//! environment of this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ecow::EcoString;

use super::mark::{self, RUN_VARIABLE, STEP_VARIABLE, SharedMark};

/// Names that carry bound values. A child gets those of its own step and never those of another.
const BOUND_VALUES: &[u8] = b"TL_";

/// The environment of a child. O(1) to clone as long as nothing was added.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    inherited: Arc<Inherited>,
    /// `None` removes a variable.
    changes: BTreeMap<OsString, Option<OsString>>,
}

#[derive(Debug, Default)]
struct Inherited {
    /// Sorted by name, each name once.
    variables: Vec<(OsString, OsString)>,
    within: SharedMark,
}

impl Inherited {
    fn get(&self, name: &OsStr) -> Option<&OsStr> {
        let found = self.variables.binary_search_by(|(known, _)| known.as_os_str().cmp(name)).ok()?;
        Some(&self.variables[found].1)
    }
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

    /// Sets variables, and removes those without a value.
    pub fn change(&mut self, changes: &[(EcoString, Option<String>)]) {
        for (name, value) in changes {
            match value {
                Some(value) => self.set(name.as_str(), value),
                None => self.remove(name.as_str()),
            }
        }
    }

    /// Marks the child, and all that it starts, as a part of this step of this run, so that they can be found again.
    /// Call it after what a workflow sets, so that this wins.
    pub fn mark(&mut self, run: &str, step: &str) {
        self.set(RUN_VARIABLE, run);
        self.set(STEP_VARIABLE, step);
    }

    /// Takes the mark of another environment, whatever was set since.
    pub(crate) fn keep_mark(&mut self, of: &Self) {
        for name in [RUN_VARIABLE, STEP_VARIABLE] {
            match of.get(OsStr::new(name)) {
                Some(value) => self.set(name, value),
                None => self.remove(name),
            }
        }
    }

    /// What was set or removed since it was inherited, without its mark; or the name of a variable that is no text.
    pub fn changes(&self) -> Result<Vec<(EcoString, Option<String>)>, OsString> {
        let own = self.changes.iter().filter(|(name, _)| !mark::is_part(name));
        own.map(|(name, value)| {
            let text = |text: &OsString| text.to_str().map(str::to_owned).ok_or_else(|| name.clone());
            Ok((text(name)?.into(), value.as_ref().map(text).transpose()?))
        })
        .collect()
    }

    /// The value that the child will see.
    pub fn get(&self, name: &OsStr) -> Option<&OsStr> {
        match self.changes.get(name) {
            Some(value) => value.as_deref(),
            None => self.inherited.get(name),
        }
    }

    /// The names of all variables that were inherited and not removed, and of those that were set.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        let inherited = self.inherited.variables.iter().map(|(name, _)| name.as_os_str());
        let kept = inherited.filter(|name| !self.changes.contains_key(*name));
        let set = self.changes.iter().filter(|(_, value)| value.is_some());
        kept.chain(set.map(|(name, _)| name.as_os_str()))
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

    /// Every variable of the child but its mark.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let inherited = self.inherited.variables.iter().filter(|(name, _)| !self.changes.contains_key(name));
        let inherited = inherited.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let own = self.changes.iter().filter_map(|(name, value)| Some((name.as_os_str(), value.as_deref()?)));
        inherited.chain(own)
    }

    /// The mark of the child that has this name.
    pub(super) fn mark_of<'a>(&'a self, child: &'a OsStr) -> impl Iterator<Item = (&'static str, &'a OsStr)> {
        self.inherited.within.variables(child)
    }
}

/// The given variables in place of those of this process, without every `TL_*`.
impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        let mut variables: Vec<_> =
            variables.into_iter().filter(|(name, _)| !name.as_bytes().starts_with(BOUND_VALUES)).collect();
        variables.sort_by(|(left, _), (right, _)| left.cmp(right));
        variables.dedup_by(|(later, _), (first, _)| later == first);
        let mut inherited = Inherited { variables, within: SharedMark::default() };
        inherited.within = SharedMark::from_inherited(|name| inherited.get(OsStr::new(name)));
        inherited.variables.retain(|(name, _)| !mark::is_part(name));
        Self { inherited: Arc::new(inherited), changes: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::{ProcessMark, marks_of, step_of};
    use super::*;

    /// The environment of a child, as a process that it starts inherits it and as `/proc` shows it.
    fn given(environment: &Environment, child: &str) -> (Environment, Vec<u8>) {
        let mark: Vec<_> = environment.mark_of(OsStr::new(child)).collect();
        let mark = mark.into_iter().map(|(name, value)| (OsStr::new(name), value));
        let all: Vec<_> = environment.variables().chain(mark).collect();
        let shown =
            all.iter().flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        let shown = shown.collect();
        (all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), shown)
    }

    fn mark<'a>(run: &'a str, child: &'a str) -> ProcessMark<'a> {
        ProcessMark { run: run.as_bytes(), child: child.as_bytes() }
    }

    #[test]
    fn a_process_of_an_inner_run_carries_the_marks_of_all_runs_around_it() {
        let mut outer = Environment::empty();
        outer.mark("r1", "build");
        let (mut inner, shown) = given(&outer, "c1");
        assert_eq!(marks_of(&shown), [mark("r1", "c1")]);

        inner.mark("r2", "a[3]");
        let (innermost, shown) = given(&inner, "c2");
        assert_eq!(marks_of(&shown), [mark("r2", "c2"), mark("r1", "c1")]);
        assert_eq!(step_of(&shown), b"a[3]");

        let (_, shown) = given(&innermost, "c3");
        assert_eq!(marks_of(&shown), [mark("", "c3"), mark("r1", "c1"), mark("r2", "c2")]);
    }

    #[test]
    fn an_environment_without_a_mark_has_none() {
        for environment in [&b""[..], b"\0\0", b"A=1\0THREADLINE_CHILDREN=1\0", b"XTHREADLINE_CHILD=1\0"] {
            assert_eq!(marks_of(environment), []);
        }
    }
}
