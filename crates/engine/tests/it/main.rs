//! The tests of the engine, in one program: `cargo test -p threadline-engine --test it graphs::` runs one
//! module.

mod budgets;
mod graphs;
mod simulate;
mod simulate_loops;
