//! Everything that a world would decide, made of a seed: how steps end, what conditions say, how long lists are.
//!
//! What becomes of an execution depends on the seed and on which execution it is, never on when it happens: a run that
//! was killed and resumed meets the same world as one that was not.

use threadline_flow::model::{Retry, Setting, Step};
use threadline_lang::Value;

use crate::evaluate::RetryPlan;
use crate::event::Address;
use crate::random::{Random, mixed};

/// How often things go which way, in a hundred.
#[derive(Debug, Clone, Copy)]
pub struct Chances {
    /// A field has a value.
    pub evaluates: u64,
    /// A condition is true.
    pub holds: u64,
    /// An attempt goes well.
    pub well: u64,
    /// An attempt inside an item goes well.
    pub well_in_items: u64,
    /// The longest list.
    pub items: u64,
    /// The longest that an attempt takes, in milliseconds.
    pub duration: u64,
    /// An answer of a model breaks off.
    pub breaks: u64,
}

/// No message of an agent takes so many tokens.
pub const MAX_TOKENS: u64 = 500;

/// No message of a model behind an API is so many tokens long, nor is the question.
pub const MAX_MODEL_TOKENS: u64 = 40;

impl Default for Chances {
    fn default() -> Self {
        Self { evaluates: 98, holds: 70, well: 80, well_in_items: 80, items: 4, duration: 2_000, breaks: 0 }
    }
}

/// What becomes of each execution.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    /// The seed that decides everything.
    pub seed: u64,
    /// How often what.
    pub chances: Chances,
    /// How often it was tried anew: attempts have other luck each time.
    pub luck: u32,
    /// Whether whatever made attempts fail was put right.
    pub mended: bool,
}

impl Fate {
    /// Whether a field, or all of them, have a value.
    pub fn evaluates(&self, at: &Fated, field: &str) -> bool {
        self.mended || self.of(at, field, self.luck << 16).percent(self.chances.evaluates)
    }

    /// Whether a condition holds.
    pub fn holds(&self, at: &Fated) -> bool {
        self.of(at, "holds", 0).percent(self.chances.holds)
    }

    /// Whether an attempt goes well.
    pub fn well(&self, at: &Fated, attempt: u32) -> bool {
        let Chances { well, well_in_items, .. } = self.chances;
        let percent = if at.at.is_in_items() { well_in_items } else { well };
        self.mended || self.of(at, "well", attempt | self.luck << 16).percent(percent)
    }

    /// How many answers of an agent do not fit before one does.
    pub fn misfits(&self, at: &Fated, attempt: u32) -> u64 {
        self.of(at, "misfits", attempt).below(3)
    }

    /// How many tools an agent calls, instead of answering, in an exchange of an attempt.
    pub fn calls(&self, at: &Fated, attempt: u32, exchange: u32) -> u64 {
        let most = if exchange < 6 { 3 } else { 1 };
        self.of(at, "calls", attempt << 8 | exchange).below(most)
    }

    /// How many tokens an agent reads for a message.
    pub fn tokens(&self, at: &Fated, attempt: u32, exchange: u32) -> u64 {
        self.of(at, "tokens", attempt << 8 | exchange).below(MAX_TOKENS)
    }

    /// How the answer of a model breaks off, if it does: one of three ways.
    pub fn breaks(&self, at: &Fated, attempt: u32, exchange: u32) -> Option<u64> {
        let mut random = self.of(at, "breaks", attempt << 8 | exchange);
        (!self.mended && random.percent(self.chances.breaks)).then(|| random.below(3))
    }

    /// Whether a called workflow that failed did so because of a step that may not run twice.
    pub fn crashes(&self, at: &Fated, attempt: u32) -> bool {
        self.of(at, "crashes", attempt | self.luck << 16).percent(50)
    }

    /// Whether the fields of an attempt have to compute something.
    pub fn computes(&self, at: &Fated) -> bool {
        self.of(at, "computes", 0).percent(10)
    }

    /// How a state is judged that has read this.
    pub fn verdict(&self, at: &Fated, reads: &[i64]) -> &'static str {
        let mut bits = self.of(at, "verdict", self.luck << 16).number();
        for read in reads {
            bits = mixed(bits.rotate_left(7) ^ read.unsigned_abs());
        }
        let Chances { evaluates, holds, .. } = self.chances;
        match bits % 100 {
            _ if self.mended => "yes",
            percent if percent >= evaluates => crate::event::ERROR,
            percent if percent < holds => "yes",
            _ => "no",
        }
    }

    /// What a state came to, where that is compared: one of two things.
    pub fn fingerprint(&self, at: &Fated) -> u64 {
        self.of(at, "print", self.luck << 16).below(2)
    }

    /// Whether what an item did in its worktree goes together with what others did.
    pub fn merges(&self, at: &Fated) -> bool {
        self.mended || self.of(at, "merges", self.luck << 16).percent(self.chances.well_in_items)
    }

    /// Whether whoever resumes a run that failed asks for the items that were let fail, too.
    pub fn wants_failed(&self) -> bool {
        self.of(&Fated::default(), "wants", self.luck).percent(50)
    }

    /// How long an attempt takes.
    pub fn duration(&self, at: &Fated, attempt: u32) -> u64 {
        self.of(at, "duration", attempt).below(self.chances.duration + 1)
    }

    /// The list of a `foreach`.
    pub fn items(&self, at: &Fated) -> Vec<i64> {
        let mut random = self.of(at, "items", 0);
        let count = random.below(self.chances.items + 1);
        (0..count).map(|_| number(random.number())).collect()
    }

    /// A value that was made of others.
    pub fn value(&self, at: &Fated, reads: &[i64]) -> i64 {
        let mut bits = self.of(at, "value", 0).number();
        for read in reads {
            bits = mixed(bits.rotate_left(7) ^ read.unsigned_abs());
        }
        number(bits)
    }

    fn of(&self, at: &Fated, what: &str, attempt: u32) -> Random {
        let mut bits = mixed(self.seed ^ u64::from(attempt).rotate_right(16));
        let begun = at.begun.iter().flat_map(|begun| begun.to_le_bytes());
        for byte in at.at.as_str().bytes().chain(begun).chain([0]).chain(what.bytes()) {
            bits = mixed(bits ^ u64::from(byte));
        }
        Random::new(bits)
    }
}

/// Numbers that are easy to read in a journal.
fn number(bits: u64) -> i64 {
    i64::try_from(bits % 1_000_000_007).unwrap_or(0)
}

/// An execution with how often the items around it have begun again: it has another fate each time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Fated {
    at: Address,
    /// How often each item that it stands in, or is, has begun again; nothing where none has.
    begun: Vec<u32>,
}

impl Fated {
    /// An execution, with how often an item has begun again.
    pub fn new(at: &Address, begun: impl Fn(&Address) -> u32) -> Self {
        let begun: Vec<u32> = at.items_around().map(|item| begun(&item)).collect();
        let again = begun.iter().any(|begun| *begun > 0);
        Self { at: at.clone(), begun: if again { begun } else { Vec::new() } }
    }
}

/// When a step is tried again, where the file says so.
pub(super) fn retry(step: &Step) -> RetryPlan {
    step.retry.as_ref().map_or(RetryPlan::ONCE, retry_plan)
}

fn retry_plan(retry: &Retry) -> RetryPlan {
    RetryPlan {
        attempts: fixed(&retry.attempts, 1).max(1),
        backoff: retry.backoff,
        delay: fixed(&retry.delay, RetryPlan::ONCE.delay),
        max_delay: fixed(&retry.max_delay, RetryPlan::ONCE.max_delay),
        jitter: retry.jitter,
    }
}

/// The key of an object whose value is what fate made of a phase.
pub(super) const FATE: &str = "fate";

/// The number that fate put into a value: alone, as text, or where the kind of step keeps it.
pub(super) fn number_in(value: &Value) -> Option<i64> {
    if let Some(text) = value.as_str() {
        return text.parse().ok();
    }
    let inside = |name: &str| value.get(name).and_then(number_in);
    let of_phase = || value.get("variables").and_then(|variables| variables.get(FATE)).and_then(number_in);
    let first = || value.as_list().and_then(|list| list.first()).and_then(number_in);
    let number = value.as_i64().or_else(first).or_else(of_phase);
    number.or_else(|| ["aggregates", "final_response", "path"].into_iter().find_map(inside))
}

fn fixed<T: Copy>(setting: &Setting<T>, otherwise: T) -> T {
    setting.known().unwrap_or(otherwise)
}
