//! The tests of workflow files, in one program: `cargo test -p threadline-flow --test it keys::` runs one module.

mod expand;
mod files;
mod keys;
mod loops;
