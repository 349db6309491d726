//! Asking running children to end, from another thread.
//!
//! A control is shared by whoever may ask and by whoever runs a child. It holds no process and sends no signal itself:
//! it wakes the threads that wait in [`run`](super::run), and those end their own children.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// The time between two looks whether something is over that wakes nobody.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What was asked for. The later ones include the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Nothing: go on.
    Nothing,
    /// End the child: a request first, and force when its time of grace is over.
    Cancel,
    /// End the child by force, now.
    Kill,
    /// The same, and leave alone what goes on elsewhere: somebody else drives the run.
    Abandon,
}

/// A handle by which children are asked to end. Clones are the same control.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<ControlState>);

#[derive(Debug, Default)]
struct ControlState {
    asked: AtomicU8,
    waiting: Mutex<Vec<Arc<OwnedFd>>>,
    parent: Option<Control>,
}

impl Control {
    /// A control of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// A control that is also asked whatever this one is: for one step of a run.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(ControlState { parent: Some(self.clone()), ..ControlState::default() }))
    }

    /// Asks all children under this control to end, and keeps new ones from starting.
    pub fn cancel(&self) {
        self.ask(Asked::Cancel);
    }

    /// Ends all children under this control by force, and keeps new ones from starting.
    pub fn kill(&self) {
        self.ask(Asked::Kill);
    }

    /// Ends all children under this control by force, and leaves what goes on elsewhere to whoever drives the run now.
    pub fn abandon(&self) {
        self.ask(Asked::Abandon);
    }

    /// What was asked for, here or further up.
    pub fn asked(&self) -> Asked {
        self.chain()
            .map(|shared| from_level(shared.asked.load(Ordering::SeqCst)))
            .max()
            .unwrap_or(Asked::Nothing)
    }

    fn ask(&self, what: Asked) {
        self.0.asked.fetch_max(what as u8, Ordering::SeqCst);
        for wake in lock(&self.0.waiting).iter() {
            ring(wake);
        }
    }

    fn chain(&self) -> impl Iterator<Item = &ControlState> {
        std::iter::successors(Some(&*self.0), |shared| shared.parent.as_ref().map(|parent| &*parent.0))
    }

    /// Does something on a thread of its own, and waits until it is done. When something is asked before, nobody waits any
    /// longer, and there is no result: what it does ends with this process at the latest.
    pub fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> rustix::io::Result<Option<T>> {
        self.wait_aside(None, work)
    }

    /// The same; nobody waits any longer either once it is over.
    pub(crate) fn aside_unless<T: Send + 'static>(
        &self,
        is_over: impl Fn() -> bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> rustix::io::Result<Option<T>> {
        self.wait_aside(Some(&is_over), work)
    }

    fn wait_aside<T: Send + 'static>(
        &self,
        is_over: Option<&dyn Fn() -> bool>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> rustix::io::Result<Option<T>> {
        let waiting = self.wait_here()?;
        let (done, result) = std::sync::mpsc::channel();
        let wake = Wake(waiting.wake.clone());
        std::thread::spawn(move || {
            // Also when it panics somebody waits for it.
            let wake = wake;
            // Nobody may be left who wants it.
            let _ = done.send(work());
            drop(done);
            drop(wake);
        });
        loop {
            match result.try_recv() {
                Ok(result) => return Ok(Some(result)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) if waiting.asked() != Asked::Nothing => return Ok(None),
                Err(TryRecvError::Empty) if is_over.is_some_and(|is_over| is_over()) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            // Interrupted, or no memory for a moment: look again.
            let pause = is_over.map(|_| LOOK_AGAIN);
            let _ = poll(&mut [PollFd::new(&waiting.wake, PollFlags::IN)], pause.as_ref());
            waiting.clear();
        }
    }

    /// Makes this thread wake up when something is asked, until the result is dropped.
    pub(super) fn wait_here(&self) -> rustix::io::Result<ControlWaiter<'_>> {
        let wake = take_wake()?;
        for shared in self.chain() {
            lock(&shared.waiting).push(wake.clone());
        }
        Ok(ControlWaiter { control: self, wake })
    }
}

/// Wakes a thread when it is dropped.
struct Wake(Arc<OwnedFd>);

impl Drop for Wake {
    fn drop(&mut self) {
        ring(&self.0);
    }
}

/// The counter of an eventfd cannot overflow by ones in a lifetime, so the only failure is a signal.
fn ring(wake: &OwnedFd) {
    while rustix::io::write(wake, &1u64.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
}

/// A thread that is woken by a control.
pub(super) struct ControlWaiter<'a> {
    control: &'a Control,
    wake: Arc<OwnedFd>,
}

impl ControlWaiter<'_> {
    /// Becomes readable when something was asked. It may do so without a reason.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Gets ready for the next time; to be called before `asked`, so that nothing is missed.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // It is non-blocking, and whether there was anything to take does not matter.
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    pub(super) fn asked(&self) -> Asked {
        self.control.asked()
    }
}

impl Drop for ControlWaiter<'_> {
    fn drop(&mut self) {
        for shared in self.control.chain() {
            let mut waiting = lock(&shared.waiting);
            if let Some(mine) = waiting.iter().position(|wake| Arc::ptr_eq(wake, &self.wake)) {
                waiting.swap_remove(mine);
            }
        }
        self.clear();
        lock(&IDLE).push(self.wake.clone());
    }
}

/// Wakers that nobody waits with: there are as many as threads that ever waited at once, not as threads. One may still
/// be rung for who had it before, which only wakes the next without a reason.
static IDLE: Mutex<Vec<Arc<OwnedFd>>> = Mutex::new(Vec::new());

fn take_wake() -> rustix::io::Result<Arc<OwnedFd>> {
    if let Some(wake) = lock(&IDLE).pop() {
        return Ok(wake);
    }
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

fn from_level(level: u8) -> Asked {
    match level {
        0 => Asked::Nothing,
        1 => Asked::Cancel,
        2 => Asked::Kill,
        _ => Asked::Abandon,
    }
}

/// The list is whole after every statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
