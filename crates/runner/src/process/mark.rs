//! The mark that a child carries in its environment, and every process below it that keeps its environment.
//!
//! It is what makes a left-over process ours beyond doubt; a process id alone never is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

/// The run that a process belongs to.
pub const RUN_VARIABLE: &str = "THREADLINE_RUN";
/// The step of that run, for people.
pub const STEP_VARIABLE: &str = "THREADLINE_STEP";
/// What stands for the step in the mark of a git that Threadline itself calls.
pub(crate) const OWN_GIT: &str = "worktrees";
/// The child that a process is or comes from: a name that no other child ever had. Up to the dot it is the store of the
/// run, since a copy of a project has runs with the same ids.
const CHILD_VARIABLE: &str = "THREADLINE_CHILD";
/// The runs and children around it, when a step starts Threadline itself: lines of a run, a tab and a child.
const WITHIN_VARIABLE: &str = "THREADLINE_WITHIN";

/// Whether a variable is a part of a mark. What this process inherited of it is not passed on as it is.
pub(super) fn is_part(name: &OsStr) -> bool {
    [RUN_VARIABLE, STEP_VARIABLE, CHILD_VARIABLE, WITHIN_VARIABLE].iter().any(|part| name == *part)
}

/// The store whose runs this process drives.
static STORE: OnceLock<String> = OnceLock::new();

/// Says which store's runs this process drives, by its identity: only processes of these are found by their marks.
pub fn belong_to(store: String) {
    // A process has one store, and says so once.
    let _ = STORE.set(store);
}

/// The store whose runs this process drives; empty if there is none.
pub(super) fn own_store() -> &'static str {
    STORE.get().map_or("", String::as_str)
}

/// A name for a new child.
pub(super) fn new_child() -> OsString {
    static PROCESS: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().simple().to_string());
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{}.{}-{}", own_store(), *PROCESS, NUMBER.fetch_add(1, Ordering::Relaxed)).into()
}

/// The part of a mark that all children of this process share.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedMark(Option<OsString>);

impl SharedMark {
    /// From the mark that this process was given itself, if it was.
    pub(super) fn from_inherited<'a>(inherited: impl Fn(&str) -> Option<&'a OsStr>) -> Self {
        Self(inherited(CHILD_VARIABLE).map(|child| {
            let outer = inherited(WITHIN_VARIABLE).unwrap_or_default().as_bytes();
            let run = inherited(RUN_VARIABLE).unwrap_or_default().as_bytes();
            OsString::from_vec([outer, run, b"\t", child.as_bytes(), b"\n"].concat())
        }))
    }

    /// The variables of a child beside its run and step.
    pub(super) fn variables<'a>(
        &'a self,
        child: &'a OsStr,
    ) -> impl Iterator<Item = (&'static str, &'a OsStr)> {
        let within = self.0.as_deref().map(|within| (WITHIN_VARIABLE, within));
        [(CHILD_VARIABLE, child)].into_iter().chain(within)
    }
}

/// What a process is a part of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessMark<'a> {
    pub(super) run: &'a [u8],
    pub(super) child: &'a [u8],
}

impl ProcessMark<'_> {
    /// Whether it is the mark of a run of this process' store; of any store if this process has none.
    pub(super) fn is_of_run(&self, run: &[u8]) -> bool {
        self.run == run && (STORE.get().is_none() || self.is_of_store())
    }

    /// Whether it is the mark of a run of this process' store.
    pub(super) fn is_of_store(&self) -> bool {
        let rest = STORE.get().and_then(|store| self.child.strip_prefix(store.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"."))
    }
}

/// Reads the marks out of a whole environment, as `/proc` shows it: its own first, then those around.
pub(super) fn marks_of(environment: &[u8]) -> Vec<ProcessMark<'_>> {
    let value = |name| variable(environment, name).unwrap_or_default();
    let own =
        variable(environment, CHILD_VARIABLE).map(|child| ProcessMark { run: value(RUN_VARIABLE), child });
    let around = value(WITHIN_VARIABLE).split(|&byte| byte == b'\n').filter_map(|line| {
        let tab = line.iter().position(|&byte| byte == b'\t')?;
        Some(ProcessMark { run: &line[..tab], child: &line[tab + 1..] })
    });
    own.into_iter().chain(around).collect()
}

/// The step that a process belongs to.
pub(super) fn step_of(environment: &[u8]) -> &[u8] {
    variable(environment, STEP_VARIABLE).unwrap_or_default()
}

fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut entries = environment.split(|&byte| byte == 0);
    entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
