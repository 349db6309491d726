//! `budget`: what agents may use together in a step, in the items of a list, or in a run.

use std::time::Duration;

use threadline_lang::{Number, Value};

use crate::forms;

/// The limits of a budget. One that is not set does not limit anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// The number of messages that agents may write.
    pub turns: Option<u64>,
    /// The number of tokens that they may read and write.
    pub tokens: Option<u64>,
    /// What that may cost in US dollars.
    pub cost: Option<Number>,
    /// How long agents may work, all their calls added.
    pub time: Option<Duration>,
}

/// A limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetKey {
    /// Messages of agents.
    Turns,
    /// The number of tokens.
    Tokens,
    /// The cost in dollars.
    Cost,
    /// The time of all calls.
    Time,
}

impl BudgetKey {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Turns, Self::Tokens, Self::Cost, Self::Time];

    /// Its key in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
        }
    }

    /// The limit with this key.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// What its value must be.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Turns | Self::Tokens => "a whole number above 0",
            Self::Cost => "a number of US dollars above 0",
            Self::Time => "a duration above 0, such as `30m`",
        }
    }
}

impl Budget {
    /// Sets a limit, if the value is one.
    #[must_use]
    pub fn set(&mut self, key: BudgetKey, value: &Value) -> bool {
        let count = || forms::count(value).filter(|count| *count > 0);
        match key {
            BudgetKey::Turns => self.turns = count(),
            BudgetKey::Tokens => self.tokens = count(),
            BudgetKey::Cost => {
                let above_zero = |cost: &&Number| !cost.is_zero() && !cost.is_negative();
                self.cost = value.as_number().filter(above_zero).cloned();
            }
            BudgetKey::Time => self.time = forms::duration(value).filter(|time| !time.is_zero()),
        }
        self.get(key).is_some()
    }

    /// A limit as a value: of the time the number of seconds.
    pub fn get(&self, key: BudgetKey) -> Option<Value> {
        match key {
            BudgetKey::Turns => self.turns.map(Value::from),
            BudgetKey::Tokens => self.tokens.map(Value::from),
            BudgetKey::Cost => self.cost.clone().map(Value::from),
            BudgetKey::Time => {
                let millis = i64::try_from(self.time?.as_millis()).ok()?;
                Number::decimal(millis, 3).ok()?.shortest().ok().map(Value::from)
            }
        }
    }

    /// Takes the limits that another one sets.
    pub fn change(&mut self, other: &Self) {
        let Self { turns, tokens, cost, time } = other;
        self.turns = turns.or(self.turns);
        self.tokens = tokens.or(self.tokens);
        self.cost = cost.clone().or(self.cost.take());
        self.time = time.or(self.time);
    }

    /// The limits that are set.
    pub fn entries(&self) -> impl Iterator<Item = (BudgetKey, Value)> {
        BudgetKey::ALL.into_iter().filter_map(|key| Some((key, self.get(key)?)))
    }
}
