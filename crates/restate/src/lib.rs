//! Runs the programs and requests of workflows on other machines, by Restate.
//!
//! A coordinator drives a run as it always does: it evaluates, decides and keeps the journal. Only the programs and requests
//! of its steps are performed by workers, through a Restate server that remembers what was asked for and what came of it.
//!
//! - [`address`]: where that server is.
//! - [`key`]: the key that requests are signed with.
//! - [`remote`]: the [`Workplace`](threadline_runner::workplace::Workplace) of a coordinator.
//! - [`worker`]: a worker: a supervisor, and the server that performs programs.
//! - [`segments`]: the journals of runs in a blob store.
//! - [`detached`]: runs that workers coordinate.
//! - `labels`: which service performs what asks for labels.
//! - `wire`: what is said between the two.
//! - `values`: the large values of acts and results.
//! - `bundle`: the project, for workers that do not have its folder.
//! - [`blobs`]: a store for what is too large for a message: a folder, or a bucket.
//!
//! This is the only crate with an asynchronous runtime: the library of Restate for workers is made of one, and so is that
//! of object stores. It is used by the server of a worker and inside of `blobs` and by nothing else; the coordinator's side
//! blocks, as all other code does.

pub mod address;
pub mod blobs;
mod bundle;
pub mod detached;
pub mod key;
mod labels;
pub mod remote;
pub mod segments;
mod values;
mod wire;
pub mod worker;
