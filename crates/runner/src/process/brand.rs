//! A mark that a process keeps when it drops its environment, its group and its session.
//!
//! Every process below another inherits its limits, through `env -i`, `setsid` and any number of forks. One
//! of them, of the resident set, has meant nothing to Linux since 2.4: its number says here which run a
//! process belongs to, and which child of that run it comes from. It is far larger than any memory, so
//! whoever reads it finds no limit in it.
//!
//! A process can change its own limits, and a machine may not let us set this one. So this mark only adds to
//! the others: environment, group and descent.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use threadline_engine::Hash;

use super::mark;

/// Set in every brand: 4 EiB, more than any memory.
const HIGH: u64 = 1 << 62;

/// So many bits number the children of a process; 0 is a process that was not numbered yet.
const CHILD_BITS: u32 = 24;

/// What says which run, with room for the number of a child.
static OWN_RUN: OnceLock<u64> = OnceLock::new();

/// The brand of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brand(u64);

/// Brands this process, and with it all that it will start, as a part of a run. To be called once, before the
/// first child.
pub(super) fn brand_as(run: &str) {
    wear(*OWN_RUN.get_or_init(|| run_part(run)));
}

/// Starts a child with the brand of its name. It inherits that from this process, which has no other way to give it
/// before the child can start something itself; so one child is started at a time.
pub(super) fn spawn(command: &mut Command, name: &OsStr) -> io::Result<Child> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Brand(brand)) = Brand::of_child(name) {
        wear(brand);
    }
    command.spawn()
}

/// Brands this process.
fn wear(brand: u64) {
    let limit = getrlimit(Resource::Rss);
    // Where it cannot be set, the other marks have to do.
    let _ = setrlimit(Resource::Rss, Rlimit { current: Some(brand), ..limit });
}

impl Brand {
    /// The brand of a child with this name; none when this process has none.
    pub(super) fn of_child(name: &OsStr) -> Option<Self> {
        let number = name.as_bytes().rsplit(|&byte| byte == b'-').next()?;
        let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        // Without 0, which is nobody's.
        let number = 1 + number % ((1 << CHILD_BITS) - 1);
        Some(Self(OWN_RUN.get()? | number))
    }

    /// The brand that a process carries.
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max resident set"))?;
        let number: u64 = line.split_whitespace().next()?.parse().ok()?;
        (number & HIGH != 0).then_some(Self(number))
    }

    /// Whether it is one of a run.
    pub(super) fn is_of_run(self, run: &[u8]) -> bool {
        std::str::from_utf8(run).is_ok_and(|run| self.run() == run_part(run))
    }

    /// Whether this process gave it, to a child that it knows by its number.
    pub(super) fn is_numbered(self) -> bool {
        OWN_RUN.get() == Some(&self.run()) && self.0 != self.run()
    }

    fn run(self) -> u64 {
        self.0 >> CHILD_BITS << CHILD_BITS
    }
}

/// Of the run and its store: a copy of a project has runs with the same ids.
fn run_part(run: &str) -> u64 {
    let hash = Hash::of(format!("{}.{run}", mark::own_store()).as_bytes());
    let bits = hash.as_bytes().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    HIGH | (bits & (HIGH - 1)) >> CHILD_BITS << CHILD_BITS
}
