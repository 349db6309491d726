//! How an act that is performed elsewhere is asked for, until it is known what came of it.
//!
//! It has a key, and whoever performs it answers the same to the same key. So it is asked for as often as need be: after
//! a lost answer, and after a crash of whoever asks. What an answer means is decided here and nowhere else; who asks
//! carries keys and answers, and the simulator does, too.

use super::effect::{EffectKey, EffectResult};

/// An act that is being asked for.
#[derive(Debug, Clone, Copy)]
pub struct Inquiry {
    /// Whether it may begin at most once.
    once: bool,
    /// Whether somebody has decided that what was cut off before may begin again.
    repeats: bool,
    /// How often it was ended before.
    again: u32,
}

/// What is heard of an act.
#[derive(Debug, Clone)]
pub enum ActNews {
    /// What came of it.
    Done(Box<EffectResult>),
    /// It was told to end, or given up before it began.
    Ended,
    /// It may have begun, its worker died, and it may not begin twice.
    Interrupted {
        /// Whether it was asked for first by the process that hears this: nobody has decided about that end yet.
        is_new: bool,
    },
}

impl Inquiry {
    /// An act that is asked for the first time in a life of a coordinator.
    pub fn new(once: bool, repeats: bool) -> Self {
        Self { once, repeats, again: 0 }
    }

    /// What it is known by. An execution that begins again starts the same address with attempt 1 again, so the event that
    /// made it ready is a part of the key; and so is how often the act was ended before.
    pub fn key(&self, run: &str, key: &EffectKey) -> String {
        let EffectKey { at, as_of, attempt, role, exchange } = key;
        format!("{run}/{at}/{as_of}/{attempt}/{}/{exchange}/{}", role.name(), self.again)
    }

    /// What the act comes to after an answer. None: it is asked for again, by the key that it has now.
    pub fn hear(&mut self, news: ActNews, is_told_to_end: bool) -> Option<EffectResult> {
        let (why, is_undecided) = match news {
            ActNews::Done(result) => return Some(*result),
            ActNews::Ended if is_told_to_end => return Some(EffectResult::Cancelled),
            // It was told to end, before or by somebody else: that is no result of the step.
            ActNews::Ended => ("it was told to end", false),
            // Somebody has decided about an end that was known before, and about no later one.
            ActNews::Interrupted { is_new } => ("its worker died while it ran", is_new),
        };
        if is_undecided || self.once && !self.repeats {
            return Some(EffectResult::Interrupted(why.to_owned()));
        }
        self.again += 1;
        None
    }
}
