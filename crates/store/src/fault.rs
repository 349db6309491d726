//! Faults that tests inject into the writer. They exist only with the feature `testing`.

use crate::error::StoreError;

/// The point at which the writer asks for a [`Fault`]. Commits are counted from 1 since the store was opened; the commit
/// of a new run is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePoint {
    /// The commit of this number is about to be made: nothing of it is on disk.
    Before(u64),
    /// The segment of the commit of this number is kept elsewhere: nothing of it is on disk here.
    Shipped(u64),
    /// The commit of this number is on disk, and no waiting thread has been woken.
    After(u64),
}

/// What a test makes happen at a [`WritePoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The writer goes on.
    None,
    /// The writer stops as if the process had been killed there: nothing more is written, and every thread that waits or
    /// appends gets [`StoreError::Crashed`].
    Crash,
    /// The write fails with this error, and so does every later write.
    Fail(StoreError),
}

/// Decides on a [`Fault`] for each [`WritePoint`].
pub type FaultHook = Box<dyn FnMut(WritePoint) -> Fault + Send>;

/// The faults of one store, and the number of its commits.
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

    pub(crate) fn after_shipping(&mut self) -> Result<(), StoreError> {
        self.ask(WritePoint::Shipped(self.commits))
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
