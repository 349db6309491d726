//! The tests of the runner, in one program: `cargo test -p threadline-runner --test it crash::` runs one module.
//!
//! `process_bad_children` is a program of its own: it is its own harness, and ends every process that it adopted.

mod crash;
mod crash_wire;
mod items;
mod process;
mod shell;
mod worktrees;
