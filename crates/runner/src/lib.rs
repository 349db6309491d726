//! Carries out what the engine commands, on this machine. It decides nothing about a workflow.

pub mod process;
pub mod signals;
