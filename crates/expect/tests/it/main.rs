//! The tests of expectations, in one program: `cargo test -p threadline-expect --test it laws::` runs one module.

mod answers;
mod cases;
mod everyday;
mod generate;
mod laws;
mod library;
mod malformed;
mod monsters;
mod support;
