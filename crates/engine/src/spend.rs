//! What a run spends on agents: the turns, tokens and dollars of its calls, summed from its events.
//!
//! Each event says what was used for it and for no other event, so the sum of a journal is exact wherever a crash cut it
//! off.

use std::time::Duration;

use threadline_lang::{Number, Value};

use crate::agent::chat::TokenUsage;
use crate::event::EventKind;

/// What asking agents used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// The number of messages that agents wrote.
    pub turns: u64,
    /// Tokens that they read, as far as they say so.
    pub input_tokens: u64,
    /// Tokens that they wrote, as far as they say so.
    pub output_tokens: u64,
    /// What that costs in US dollars, as far as it is known.
    pub cost: Number,
    /// How long they worked, all calls added, in milliseconds.
    pub elapsed_ms: u64,
    /// The number of messages whose tokens are not known.
    pub uncounted: u64,
    /// The number of messages whose cost is not known.
    pub unpriced: u64,
    /// The number of messages that broke off, so that what they used is an estimate.
    pub estimated: u64,
}

impl Default for Spend {
    fn default() -> Self {
        let cost = Number::int(0);
        Self {
            turns: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost,
            elapsed_ms: 0,
            uncounted: 0,
            unpriced: 0,
            estimated: 0,
        }
    }
}

/// The names of the fields in the journal.
const TURNS: &str = "turns";
const INPUT_TOKENS: &str = "input_tokens";
const OUTPUT_TOKENS: &str = "output_tokens";
const COST: &str = "cost_usd";
const ELAPSED: &str = "elapsed_ms";
const UNCOUNTED: &str = "uncounted";
const UNPRICED: &str = "unpriced";
const ESTIMATED: &str = "estimated";

impl Spend {
    /// One message of an agent, for which it worked this long.
    pub fn of_turn(usage: &TokenUsage, elapsed: Duration) -> Self {
        let TokenUsage { input_tokens, output_tokens, cost } = usage;
        Self {
            turns: 1,
            input_tokens: input_tokens.unwrap_or(0),
            output_tokens: output_tokens.unwrap_or(0),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            uncounted: u64::from(input_tokens.is_none() || output_tokens.is_none()),
            unpriced: u64::from(cost.is_none()),
            cost: cost.clone().unwrap_or(Number::int(0)),
            estimated: 0,
        }
    }

    /// Whether no agent was asked.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The tokens that are known.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds what another one has spent.
    pub fn add(&mut self, other: &Self) {
        let Self { turns, input_tokens, output_tokens, cost, elapsed_ms, uncounted, unpriced, estimated } =
            other;
        self.estimated = self.estimated.saturating_add(*estimated);
        self.turns = self.turns.saturating_add(*turns);
        self.input_tokens = self.input_tokens.saturating_add(*input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(*output_tokens);
        self.elapsed_ms = self.elapsed_ms.saturating_add(*elapsed_ms);
        self.uncounted = self.uncounted.saturating_add(*uncounted);
        self.unpriced = self.unpriced.saturating_add(*unpriced);
        match self.cost.add(cost).and_then(|cost| cost.shortest()) {
            Ok(cost) => self.cost = cost,
            // A number as large as that is no cost that anybody knows.
            Err(_) => self.unpriced = self.unpriced.saturating_add(1),
        }
    }

    /// Without a part of it.
    pub fn remove(&mut self, part: &Self) {
        let Self { turns, input_tokens, output_tokens, cost, elapsed_ms, uncounted, unpriced, estimated } =
            part;
        self.estimated = self.estimated.saturating_sub(*estimated);
        self.turns = self.turns.saturating_sub(*turns);
        self.input_tokens = self.input_tokens.saturating_sub(*input_tokens);
        self.output_tokens = self.output_tokens.saturating_sub(*output_tokens);
        self.elapsed_ms = self.elapsed_ms.saturating_sub(*elapsed_ms);
        self.uncounted = self.uncounted.saturating_sub(*uncounted);
        self.unpriced = self.unpriced.saturating_sub(*unpriced);
        if let Ok(cost) = self.cost.sub(cost).and_then(|cost| cost.shortest()) {
            self.cost = cost;
        }
    }

    /// As it stands in the journal.
    pub fn value(&self) -> Value {
        let Self { turns, input_tokens, output_tokens, cost, elapsed_ms, uncounted, unpriced, estimated } =
            self;
        let fields = [
            (TURNS, Value::from(*turns)),
            (INPUT_TOKENS, Value::from(*input_tokens)),
            (OUTPUT_TOKENS, Value::from(*output_tokens)),
            (COST, cost.clone().into()),
            (ELAPSED, Value::from(*elapsed_ms)),
            (UNCOUNTED, Value::from(*uncounted)),
            (UNPRICED, Value::from(*unpriced)),
        ];
        // Journals of earlier versions do not say it.
        let estimated = (*estimated > 0).then(|| (ESTIMATED, Value::from(*estimated)));
        Value::record(fields.into_iter().chain(estimated))
    }

    /// What [`Self::value`] made.
    pub fn of_value(value: &Value) -> Option<Self> {
        let count = |name: &str| u64::try_from(value.get(name)?.as_i64()?).ok();
        Some(Self {
            turns: count(TURNS)?,
            input_tokens: count(INPUT_TOKENS)?,
            output_tokens: count(OUTPUT_TOKENS)?,
            cost: value.get(COST)?.as_number()?.clone(),
            elapsed_ms: count(ELAPSED)?,
            uncounted: count(UNCOUNTED)?,
            unpriced: count(UNPRICED)?,
            estimated: if value.get(ESTIMATED).is_some() { count(ESTIMATED)? } else { 0 },
        })
    }
}

impl EventKind {
    /// What agents used for this event, and for no event before it.
    pub fn spent(&self) -> Option<&Spend> {
        match self {
            // What another run made was paid there.
            Self::Finished { kept: Some(_), .. } => None,
            Self::Finished { output, .. }
            | Self::Exchanged { output, .. }
            | Self::Retrying { output, .. } => output.spent.as_deref(),
            Self::CallLost { spent, .. } => Some(spent),
            Self::Judged(judged) if judged.kept.is_none() => judged.reply.as_ref()?.spent.as_deref(),
            _ => None,
        }
    }
}
