//! Room for another child: how many handles of files this process may have, and how many children that makes.
//!
//! A child costs a few handles as long as it runs. Whoever finds none left waits until another child has
//! ended, instead of failing a step for something that is over soon.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::control::{Asked, Control};

/// The handles of one child: two pipes, the process itself, its waker, what it reads, two files for output.
const PER_CHILD: u64 = 8;

/// The handles of all the rest: the journal, leases, the terminal, files that steps read and write.
const RESERVED: u64 = 40;

/// So many handles are enough for thousands of children.
const MOST_HANDLES: u64 = 65_536;

/// The time between two looks whether somebody asked to end.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The limit that this process was started with, and that its children get back.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// How many children have a slot.
static TAKEN: Mutex<u64> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// Lets this process open as many files as it may, which is often more than it is given at first.
pub(super) fn raise_limit() {
    let limit = *INHERITED.get_or_init(|| getrlimit(Resource::Nofile));
    let most = limit.maximum.unwrap_or(MOST_HANDLES).min(MOST_HANDLES);
    if limit.current.is_some_and(|current| current < most) {
        // Where it cannot be raised, fewer children run at once.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// Gives a child that was just started the limit that this process was started with.
pub(super) fn restore_limit(child: Pid) {
    if let Some(limit) = INHERITED.get() {
        // It ends, or it has more handles than it asked for.
        let _ = prlimit(Some(child), Resource::Nofile, *limit);
    }
}

/// The right of a child to run, given back when it is dropped.
pub(super) struct ChildSlot(());

impl ChildSlot {
    /// Waits for a slot; none when somebody asks to end before.
    pub(super) fn take(control: &Control) -> Option<Self> {
        let mut taken = taken();
        while *taken >= most() {
            if control.asked() != Asked::Nothing {
                return None;
            }
            let waited = FREED.wait_timeout(taken, LOOK_AGAIN);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        Some(Self(()))
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        *taken() -= 1;
        FREED.notify_one();
    }
}

fn most() -> u64 {
    let handles = getrlimit(Resource::Nofile).current.unwrap_or(MOST_HANDLES);
    (handles.saturating_sub(RESERVED) / PER_CHILD).max(1)
}

/// The number is right after every statement, so a panic elsewhere does not spoil it.
fn taken() -> MutexGuard<'static, u64> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
