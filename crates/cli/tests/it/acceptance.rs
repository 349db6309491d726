//! Workflows as users write them, run through the binary: what each promise of the reference means in practice.
//!
//! A test writes a workflow, runs it, and looks at what its steps left and at the files it made. Processes wait for
//! each other through named pipes, never by the clock.

mod computed;
mod failures;
mod files;
mod foreach;
mod items;
mod limits;
mod mapreduce;
mod names;
mod processes;
mod resuming;
mod shells;
mod tracing;
mod worktrees;
