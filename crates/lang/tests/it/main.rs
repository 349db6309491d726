//! The tests of the language, in one program: `cargo test -p threadline-lang --test it grammar::` runs one module.

mod data;
mod data_laws;
mod deep;
mod embedded;
mod generate;
mod grammar;
mod laws;
mod paged_lists;
mod source;
mod threads;
