//! Workflows as users write them, run through the binary: what each promise of the reference means in practice.
//!
//! A test writes a workflow, runs it, and looks at what its steps left and at the files it made. Processes wait for
//! each other through named pipes, never by the clock.

#[path = "../support/mod.rs"]
mod support;

mod computed;
mod failures;
mod files;
mod foreach;
mod harness;
mod items;
mod limits;
mod mapreduce;
mod names;
mod processes;
mod resuming;
mod shells;
mod tracing;
mod worktrees;
