//! What is shown of a run, as data: the terminal, the JSON of commands and pages are made of it. Runs are read from a store,
//! and never changed. Nothing is printed here.
//!
//! - [`history`]: a stored run, with the folds of its events.
//! - [`target`]: the names of steps, as people write them.
//! - [`explanation`]: what a step saw, evaluated again; [`explanation_json`]: the same as JSON.
//! - [`chain`]: a value followed back to what made it, and forward to all that read it.
//! - [`diff`]: two runs of a workflow, value by value, and why they differ.
//! - [`names`]: the names of a run, and who set them.
//! - [`conversation`]: what was said between a step and an agent.
//! - [`logs`]: what programs and agents printed.
//! - [`failed_items`], [`failures`]: what failed and was not made good.
//! - [`graph`]: steps and states as a drawing, and as SVG.
//! - [`timeline`], [`run_state`]: what happened in little room, and a run as it was after an event.
//! - [`items`]: items page by page, and why they failed.
//! - [`runs`]: the runs of a store.
//! - [`source`]: the text of the workflow as it was.
//! - [`labels`]: the names of executions as people read them.
//! - [`place`]: files, lines and columns. [`printed`]: the end of what a step printed. [`xml`]: text in SVG.

pub mod chain;
pub mod conversation;
pub mod diff;
pub mod error;
pub mod explanation;
pub mod explanation_json;
pub mod failed_items;
pub mod failures;
pub mod graph;
pub mod history;
pub mod items;
pub mod labels;
pub mod logs;
pub mod names;
pub mod place;
pub mod printed;
pub mod run_state;
pub mod runs;
pub mod source;
pub mod target;
pub mod timeline;
pub mod xml;

pub use error::{InspectError, of_journal, of_store};
