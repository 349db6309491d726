//! The tests of the journal, in one program: `cargo test -p threadline-store --test it wire::` runs one module.

mod clean;
mod damage;
mod fixture;
mod journal;
mod processes;
mod random;
mod replica;
mod wire;
