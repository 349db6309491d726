//! The tests of the `threadline` binary, in one program: `cargo test -p threadline --test it cases::` runs one module.

mod acceptance;
mod beside;
mod called;
mod cases;
mod elsewhere;
mod examples;
mod expectations;
mod explain;
mod explain_store;
mod harness;
mod hostile;
mod imports;
mod kill;
mod library;
mod little_loops;
mod locks;
mod loops_seen;
mod monsters;
mod readme;
mod reference;
mod schema;
mod spec;
mod store_trust;
mod support;
mod terminal;
mod tools;
