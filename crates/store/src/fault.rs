//! Faults that tests put into the writer. Only with the feature `testing`.

use crate::error::StoreError;

/// Where in its work the writer is when it asks for a [`Fault`]. Commits are counted from 1 since the store was
/// opened; that of a new run is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePoint {
    /// The commit of this number is about to be made: nothing of it is on disk.
    Before(u64),
    /// The commit of this number is on disk, and nobody has been told.
    After(u64),
}

/// What a test makes of a [`WritePoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The writer stops as if the process had been killed there: nothing more is written, whoever waits or appends
    /// gets [`StoreError::Crashed`].
    Crash,
    /// The write fails with this error, which every later write answers too.
    Fail(StoreError),
}

/// Decides about each [`WritePoint`].
pub type FaultHook = Box<dyn FnMut(WritePoint) -> Fault + Send>;

/// The faults of one store, and how many commits it has begun.
pub(crate) struct Faults {
    hook: Option<FaultHook>,
    commits: u64,
}

impl Faults {
    pub(crate) fn new(hook: Option<FaultHook>) -> Self {
        Self { hook, commits: 0 }
    }

    pub(crate) fn before_commit(&mut self) -> Result<(), StoreError> {
        self.commits += 1;
        self.ask(WritePoint::Before(self.commits))
    }

    pub(crate) fn after_commit(&mut self) -> Result<(), StoreError> {
        self.ask(WritePoint::After(self.commits))
    }

    fn ask(&mut self, point: WritePoint) -> Result<(), StoreError> {
        match self.hook.as_mut().map_or(Fault::None, |hook| hook(point)) {
            Fault::None => Ok(()),
            Fault::Crash => Err(StoreError::Crashed),
            Fault::Fail(error) => Err(error),
        }
    }
}
