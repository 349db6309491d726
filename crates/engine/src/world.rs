//! Computed values: recorded while a run goes on, and given again when it is resumed or explained.
//!
//! Nothing here computes anything; a [`Recorder`] asks another world, a [`Replay`] only what was recorded.

use std::collections::{BTreeMap, VecDeque};

use ecow::EcoString;
use threadline_lang::{ComputeError, Value, World};

/// A value that the world was asked for, and what it answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The kind: `env`, `file`, `cmd`, `now`, `uuid`, or a declared one.
    pub name: EcoString,
    /// What it was asked with.
    pub args: Vec<Value>,
    /// What the world answered, or why it did not.
    pub answer: Result<Value, ComputeError>,
}

/// Asks a world, and keeps every answer.
pub struct Recorder<'w> {
    world: &'w mut dyn World,
    /// Answers of an attempt that was interrupted: given again before the world is asked.
    earlier: Replay,
    /// What entries of `context` computed in the run that this one continues.
    definitions: BTreeMap<EcoString, Replay>,
    /// The entries of `context` that the run has evaluated. Whoever is told that there is none evaluates it
    /// next.
    known: &'w mut dyn FnMut(&str) -> Option<Value>,
    computed: Vec<Answer>,
    /// Definitions being evaluated, and how many answers there were when each began.
    open: Vec<(EcoString, usize)>,
    defined: Vec<Definition>,
}

/// An entry of `context` that was evaluated now.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name of the entry.
    pub name: EcoString,
    /// What it came to.
    pub value: Value,
    /// What it had to compute.
    pub computed: Vec<Answer>,
}

/// What was asked of the world.
#[derive(Debug, Default)]
pub struct Record {
    /// The answers, in the order they were asked for.
    pub computed: Vec<Answer>,
    /// The entries of `context` that were evaluated.
    pub defined: Vec<Definition>,
}

impl<'w> Recorder<'w> {
    /// A recorder of this world, with whom to ask for entries of `context`, and where these answers were
    /// given before.
    pub fn new(
        world: &'w mut dyn World,
        known: &'w mut dyn FnMut(&str) -> Option<Value>,
        earlier: &[Answer],
    ) -> Self {
        Self {
            world,
            earlier: Replay::new(earlier, BTreeMap::new()),
            definitions: BTreeMap::new(),
            known,
            computed: Vec::new(),
            open: Vec::new(),
            defined: Vec::new(),
        }
    }

    /// With what entries of `context` computed in the run that this one continues: they compute the same.
    #[must_use]
    pub fn continuing(mut self, definitions: &BTreeMap<EcoString, Vec<Answer>>) -> Self {
        let replay = |answers: &Vec<Answer>| Replay::new(answers, BTreeMap::new());
        self.definitions =
            definitions.iter().map(|(name, answers)| (name.clone(), replay(answers))).collect();
        self
    }

    /// Everything that was asked.
    pub fn finish(self) -> Record {
        Record { computed: self.computed, defined: self.defined }
    }
}

impl World for Recorder<'_> {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        let definition = self.open.last().and_then(|(open, _)| self.definitions.get_mut(open));
        let known = definition.and_then(|answers| answers.take(name, args));
        let answer = match known.or_else(|| self.earlier.take(name, args)) {
            Some(answer) => answer,
            None => self.world.compute(name, args),
        };
        self.computed.push(Answer { name: name.into(), args: args.to_vec(), answer: answer.clone() });
        answer
    }

    fn known(&mut self, definition: &str) -> Option<Value> {
        let own = self.defined.iter().find(|defined| defined.name == definition);
        if let Some(value) = own.map(|defined| defined.value.clone()).or_else(|| (self.known)(definition)) {
            return Some(value);
        }
        self.open.push((definition.into(), self.computed.len()));
        None
    }

    fn defined(&mut self, definition: &str, value: &Value) {
        // One that failed was opened and never ends; what it computed belongs to whoever read it.
        let Some(at) = self.open.iter().rposition(|(name, _)| name == definition) else { return };
        let from = self.open[at].1;
        self.open.truncate(at);
        let computed = self.computed.split_off(from.min(self.computed.len()));
        // The session remembers an answer, so a field that asks the same is not heard here. A `uuid` is its
        // template's.
        self.computed.extend(computed.iter().filter(|answer| answer.name != "uuid").cloned());
        self.defined.push(Definition { name: definition.into(), value: value.clone(), computed });
    }
}

/// Gives what was recorded, and nothing else.
#[derive(Debug, Default)]
pub struct Replay {
    recorded: VecDeque<Answer>,
    known: BTreeMap<EcoString, Value>,
}

impl Replay {
    /// A world of these answers and these entries of `context`.
    pub fn new(recorded: &[Answer], known: BTreeMap<EcoString, Value>) -> Self {
        Self { recorded: recorded.iter().cloned().collect(), known }
    }

    /// The next answer to a question that was asked before.
    fn take(&mut self, name: &str, args: &[Value]) -> Option<Result<Value, ComputeError>> {
        let at = self.recorded.iter().position(|known| known.name == name && known.args == args)?;
        self.recorded.remove(at).map(|known| known.answer)
    }
}

impl World for Replay {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        self.take(name, args).unwrap_or_else(|| {
            Err(ComputeError::Failed { message: "the journal has no such value".to_owned(), hint: None })
        })
    }

    fn known(&mut self, definition: &str) -> Option<Value> {
        self.known.get(definition).cloned()
    }
}
