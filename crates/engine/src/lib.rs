//! What a run does, without doing it: a machine takes events and returns commands. No clock, files or threads here.
//!
//! - [`event`]: what can happen in a run. The ordered events are the only truth about it.
//! - [`machine`]: rebuilds the state of a run from its events and says what to do next. It holds no values, only the
//!   numbers of the events that made them.
//! - [`view`]: the names that a step sees, and the scope made of them.
//! - [`evaluate`]: the fields of a step, resolved: the runner carries them out, previews and explanations show them.
//! - [`judge`]: the verdict on what a state of a loop left, and the state that follows.
//! - [`select`]: the items of a list: where they come from, which are taken, what holds for them.
//! - `canonical`: resolved fields as one text, whose hash the journal keeps.
//! - [`world`]: computed values, recorded while a run goes on and given again when it is replayed.
//! - [`rehearsal`]: a loop walked with invented results, for `simulate`.
//! - [`replay`]: a journal read again: what a step saw, who made it, how a name changed.
//! - `simulator`: a run without a world, through crashes and jumping clocks, checked after every event; only with the
//!   feature `testing`.

mod address;
pub mod agent;
mod canonical;
pub mod evaluate;
pub mod event;
pub mod execute;
mod hash;
pub mod judge;
pub mod machine;
pub mod random;
pub mod rehearsal;
pub mod replay;
pub mod select;
#[cfg(feature = "testing")]
pub mod simulator;
pub mod view;
pub mod world;

pub use hash::{BadHash, Hash};
