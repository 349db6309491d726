//! What a run does, without doing it: no clock, no files, no threads.
//!
//! A run is its journal: an ordered list of [`event::Event`]s. The [`machine::Machine`] folds the events of a plan into a
//! state and returns [`machine::Command`]s: what is to be done next. A driver carries them out, appends what happened as
//! further events, and applies those in turn:
//!
//! ```text
//!            ┌──────────────── Machine::apply ◄────────────────┐
//!            ▼                                                 │
//!   Command (Start `map[17]/2`)                          Event (Finished at `map[17]/2`)
//!            │                                                 ▲
//!            ▼                                                 │
//!   Machine::view ──► View ──► Scope ──► evaluate::resolve ──► the driver acts
//! ```
//!
//! The machine holds no values. A [`view::View`] says which events made the names that a step reads; only those outputs
//! are loaded, into the scope that its fields are resolved in. What a step asked of the world is kept with its event, so
//! the same evaluation can be made again later: `explain` shows what the run saw.
//!
//! Each execution has an [`event::Address`]: `3` is the third step, `map[17]/2` the second step for item 17, `check#3` the
//! third visit of a state. An event that does not fit the state is a [`machine::InvalidEvent`]; nothing is guessed.
//!
//! | module | what it holds |
//! |---|---|
//! | [`event`] | events, addresses, outputs: everything that the journal stores |
//! | [`machine`] | the state machine: lists, graphs, items, loops, resuming |
//! | [`view`] | the names that a step sees, and the scope made of them |
//! | [`evaluate`] | the fields of a step, resolved |
//! | [`select`] | the items of a list: their source, which are taken, their rules |
//! | [`judge`] | the verdict on a state of a loop, and the route that it takes |
//! | [`world`] | computed values, recorded in a run and given again in a replay |
//! | [`replay`] | a journal read again: what a step saw, who made it, how a name changed |
//! | [`visits`] | some visits of a loop, read instead of all |
//! | [`pairing`] | which step of an edited file is which, and which execution of an earlier run |
//! | [`rehearsal`] | a loop walked with invented results, for `simulate` |
//! | [`spend`] | what a run spends on agents, summed from its events |
//! | `memory` | a journal in memory, for drivers that invent what steps do |
//! | `canonical` | resolved fields as one text, whose hash the journal keeps |
//! | `simulator` | seeded runs that crash anywhere, checked after each event; only with the feature `testing` |

mod address;
pub mod agent;
mod canonical;
pub mod evaluate;
pub mod event;
pub mod execute;
mod hash;
pub mod judge;
pub mod machine;
mod memory;
pub mod pairing;
pub mod random;
pub mod rehearsal;
pub mod replay;
pub mod select;
#[cfg(feature = "testing")]
pub mod simulator;
pub mod spend;
pub mod view;
pub mod visits;
pub mod world;

pub use hash::{BadHash, Hash};
