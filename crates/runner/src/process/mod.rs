//! Running child processes: one thread, one child, one call.
//!
//! A child has its own process group. Its standard input is whole before it starts, its output is read as it
//! comes, and when the call returns nothing of it lives: not what it left in the background, not what left
//! its group or its session, not what dropped its environment. Whatever survives this process itself is found
//! by its marks, see [`end_left_over`].
//!
//! Nothing here knows workflows, decides about retries, or starts a thread.

mod brand;
mod control;
mod environment;
mod linux;
mod mark;
mod output;
mod room;
mod run;
mod start;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use control::{Asked, Control};
use ecow::EcoString;
pub use environment::Environment;
pub use linux::{
    LeftOver, LeftOverEnding, adopt_orphans, end_all_left_over, end_descendants, end_left_over, end_strays,
    find_left_over,
};
pub(crate) use linux::{SeenProgram, find_programs};
pub(crate) use mark::OWN_GIT;
pub use mark::{RUN_VARIABLE, STEP_VARIABLE, belong_to};
pub use output::{Captured, Spooled};
pub use run::run;
pub use start::StartError;
use threadline_engine::execute::effect::ProcessEnding;

use crate::secrets::masks::Masks;
pub use threadline_engine::execute::effect::Stream;

/// Gets this process ready to drive a run, before it starts the first child: it adopts orphans, it and all
/// that it starts can be found again by the run, and it may have as many files open as the machine lets it.
pub fn prepare(run: &str) {
    // If orphans cannot be adopted, they are still found by their marks.
    let _ = adopt_orphans();
    brand::brand_as(run);
    room::raise_limit();
}

/// What to run, and within which limits.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A name to be looked for on the child's `PATH`, or a path (relative to `cwd`).
    pub program: OsString,
    /// The arguments, without the program's name.
    pub args: Vec<OsString>,
    /// All variables of the child.
    pub env: Environment,
    /// The folder to run in.
    pub cwd: PathBuf,
    /// What the child reads.
    pub stdin: Stdin,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// How long it may write nothing.
    pub idle_timeout: Option<Duration>,
    /// How much it may write, per stream.
    pub max_output: u64,
    /// The time between the request to end and force.
    pub grace: Duration,
    /// The folder where output goes that is too large for memory.
    pub spool: PathBuf,
    /// What masks its output as it arrives.
    pub masks: Option<Arc<Masks>>,
}

/// What a child reads from its standard input.
#[derive(Clone, Debug, Default)]
pub enum Stdin {
    /// There is nothing to read.
    #[default]
    Null,
    /// These bytes, as far as it wants them, in a file that is complete before the child starts.
    Bytes(Arc<[u8]>),
    /// What somebody writes into a pipe, of which this is the other end: a conversation. What the child
    /// writes is told as it comes, and not kept.
    Pipe(Arc<OwnedFd>),
}

/// How a child ended. Whatever ended it first is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnding {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal that was not ours.
    Signalled(i32),
    /// It was ended because its time was over.
    TimedOut,
    /// It was ended because it wrote nothing for too long.
    Silent,
    /// It was ended, or never started, because a [`Control`] asked for it.
    Cancelled,
    /// It was ended because it wrote more than `max_output`. The first `max_output` bytes were kept.
    OutputTooLarge(Stream),
    /// It was ended because what it wrote could not be kept, for this reason.
    OutputNotKept(Stream, io::ErrorKind),
    /// It was ended because it asked the terminal for input, which no step may.
    NeedsTerminal,
}

impl From<ChildEnding> for ProcessEnding {
    fn from(how: ChildEnding) -> Self {
        match how {
            ChildEnding::Exited(code) => Self::Exited(code),
            ChildEnding::Signalled(signal) => Self::Signalled(signal),
            ChildEnding::TimedOut => Self::TimedOut,
            ChildEnding::Silent => Self::Silent,
            ChildEnding::Cancelled => Self::Cancelled,
            ChildEnding::OutputTooLarge(stream) => Self::OutputTooLarge(stream),
            ChildEnding::OutputNotKept(stream, kind) => Self::OutputNotKept(stream, kind.to_string()),
            ChildEnding::NeedsTerminal => Self::NeedsTerminal,
        }
    }
}

/// All that is known of a child that ended.
#[derive(Debug)]
pub struct EndedChild {
    /// How it ended.
    pub how: ChildEnding,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// What it used.
    pub usage: Usage,
    /// When it was started.
    pub started: Timestamp,
    /// When it was seen to end.
    pub finished: Timestamp,
    /// How long it ran, by a clock that does not jump.
    pub elapsed: Duration,
    /// The secrets that were masked in its standard output.
    pub secrets: Vec<EcoString>,
    /// Processes of this child that force could not end in ten seconds. Almost always none.
    pub survivors: Vec<LeftOver>,
}

/// What a child used, with those of its own children that it waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time, of the program and of the system for it.
    pub cpu_time: Duration,
    /// The most memory that it held at a time, in bytes.
    pub max_memory: u64,
}
