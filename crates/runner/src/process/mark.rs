//! The mark that a child carries in its environment, and every process below it that keeps its environment.
//!
//! It is what makes a left-over process ours beyond doubt; a process id alone never is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The run that a process belongs to.
pub const RUN_VARIABLE: &str = "THREADLINE_RUN";
/// The step of that run.
pub const STEP_VARIABLE: &str = "THREADLINE_STEP";
/// The runs and steps around that run, when a step starts Threadline itself: lines of a run, a tab and a step.
const WITHIN_VARIABLE: &str = "THREADLINE_WITHIN";

/// One step of one run, and what is around it.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) run: OsString,
    pub(super) step: OsString,
    within: Option<OsString>,
}

impl Mark {
    /// The mark of a step. `inherited` looks up what this process was given, which may be a mark itself.
    pub(super) fn new<'a>(run: &str, step: &str, inherited: impl Fn(&str) -> Option<&'a OsStr>) -> Self {
        let outer = inherited(RUN_VARIABLE).map(|outer_run| {
            let outer_step = inherited(STEP_VARIABLE).unwrap_or_default();
            let mut lines = inherited(WITHIN_VARIABLE).unwrap_or_default().as_bytes().to_vec();
            lines.extend_from_slice(outer_run.as_bytes());
            lines.push(b'\t');
            lines.extend_from_slice(outer_step.as_bytes());
            lines.push(b'\n');
            OsString::from_vec(lines)
        });
        Self { run: run.into(), step: step.into(), within: outer }
    }

    /// As variables of the child.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let own = [(RUN_VARIABLE, &self.run), (STEP_VARIABLE, &self.step)];
        let within = self.within.iter().map(|within| (WITHIN_VARIABLE, within));
        own.into_iter().chain(within).map(|(name, value)| (OsStr::new(name), value.as_os_str()))
    }
}

/// Reads the marks out of a whole environment, as `/proc` shows it: every run and step that a process is a part of,
/// its own first.
pub(super) fn marks_of(environment: &[u8]) -> Vec<(&[u8], &[u8])> {
    let value = |name: &str| {
        environment
            .split(|&byte| byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let own = value(RUN_VARIABLE).map(|run| (run, value(STEP_VARIABLE).unwrap_or_default()));
    let lines = value(WITHIN_VARIABLE).unwrap_or_default().split(|&byte| byte == b'\n');
    let outer = lines.filter_map(|line| {
        let tab = line.iter().position(|&byte| byte == b'\t')?;
        Some((&line[..tab], &line[tab + 1..]))
    });
    own.into_iter().chain(outer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment_of(mark: &Mark) -> Vec<u8> {
        let entries = mark
            .variables()
            .flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        entries.collect()
    }

    #[test]
    fn a_process_of_an_inner_run_carries_the_marks_of_all_runs_around_it() {
        let outer = Mark::new("r1", "build", |_| None);
        assert_eq!(marks_of(&environment_of(&outer)), [(&b"r1"[..], &b"build"[..])]);

        let inner = Mark::new("r2", "a[3]", |name| {
            outer.variables().find(|(known, _)| *known == name).map(|(_, value)| value)
        });
        let innermost = Mark::new("r3", "x", |name| {
            inner.variables().find(|(known, _)| *known == name).map(|(_, value)| value)
        });
        let expected: [(&[u8], &[u8]); 3] = [(b"r3", b"x"), (b"r1", b"build"), (b"r2", b"a[3]")];
        assert_eq!(marks_of(&environment_of(&innermost)), expected);
    }

    #[test]
    fn an_environment_without_a_mark_has_none() {
        for environment in [&b""[..], b"\0\0", b"A=1\0THREADLINE_RUNNER=1\0", b"XTHREADLINE_RUN=1\0"] {
            assert!(marks_of(environment).is_empty());
        }
    }
}
