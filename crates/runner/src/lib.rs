//! Carries out what the engine commands, on this machine. It decides nothing about a workflow.
//!
//! - [`driver`]: the threads of a run; every event goes through it into the journal and the machine.
//! - `local`: one command: evaluates its fields on this machine, and keeps its values.
//! - `perform`: performs its effects.
//! - `results`: the results of the items of a list, gathered from the journal.
//! - `item_worktree`: items in worktrees of their own.
//! - [`choice`]: which elements of a source are the items of a step.
//! - [`http`]: requests, and which certificates are trusted.
//! - [`items`]: work items from wherever they come, selected in order and stored in chunks.
//! - `called`: a step that calls a workflow, which is a run of its own.
//! - [`earlier`]: the run that a run continues.
//! - [`forecast`]: what a run that continues another one keeps, before it begins.
//! - [`answers`]: answers of agents, kept between runs.
//! - [`exchanges`]: exchanges with agents in files, recorded or replayed.
//! - [`reload`]: a run of the journal, read again.
//! - [`locks`]: what a run has for itself while it is driven.
//! - [`clock`]: the time, by a clock that does not jump.
//! - [`process`]: children, started, fed, read and ended.
//! - [`project`]: the folder that may be read and written, and where its store is.
//! - `protected`: folders that no file is written in.
//! - [`secrets`]: environment files and secrets, read when a run begins, and masks for what comes back.
//! - [`threads`]: conversations that go on between steps and runs.
//! - [`trust`]: whether a store is the user's own.
//! - [`world`]: computed values of the real world.
//! - [`values`]: outputs, loaded when they are read.
//! - [`workplace`]: where the programs of a run are performed.
//! - [`worktrees`]: a git worktree for each item in flight, and a branch for what all of them did.

mod agent_gates;
pub mod answers;
mod bell;
mod called;
pub mod choice;
pub mod clock;
pub mod driver;
pub mod driving_process;
pub mod earlier;
pub mod exchanges;
mod file_pattern;
pub mod forecast;
pub mod http;
mod item_worktree;
pub mod items;
mod local;
pub mod locks;
mod perform;
mod private;
pub mod process;
pub mod project;
mod protected;
pub mod reload;
mod results;
pub mod secrets;
pub mod signals;
mod stop;
mod teller;
pub mod threads;
pub mod tools;
pub mod trust;
pub mod values;
pub mod workplace;
pub mod worktrees;
pub mod world;

pub use local::WORKTREE;
