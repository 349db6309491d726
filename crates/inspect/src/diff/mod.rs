//! Two runs of a workflow compared: their inputs, what each execution left, their verdicts, items and exports, aligned by
//! step, item and visit; and why they differ, as far as what was recorded says it.
//!
//! What is made anew in each run is no difference: times, durations, ids, what a machine used. Steps of workflows whose
//! texts differ are paired like those of a run that continues another one. A run is only read.

mod align;
mod because;
mod json;
mod recorded;
pub mod sentences;
mod subjects;
pub mod values;

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{Address, Seq};
use threadline_lang::Value;

use self::values::ValueChange;
use crate::chain::ChainDirection;
use crate::chain::Chains;
use crate::error::InspectError;
use crate::history::History;
use crate::labels;
use crate::target::ExplainTarget;

/// Two runs, and where they differ.
pub struct RunDiff {
    /// The runs, the first and the second.
    pub runs: [DiffRun; 2],
    /// The differences, each behind those that it can follow from.
    pub differences: Vec<Difference>,
    /// The first value that differs, by its place among the differences: what others follow from and that follows from none.
    pub first: Option<usize>,
    /// How many executions of each step are the same in both runs, in the order in which they end.
    pub same: Vec<SameStep>,
    /// All of it in order: differences, and what is the same between them.
    pub rows: Vec<DiffRow>,
}

/// One of the two runs.
pub struct DiffRun {
    /// Its id.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The file of its workflow.
    pub file: String,
    /// The hash of the text.
    pub text: Hash,
    /// How it ended, or how far it has come.
    pub status: &'static str,
    /// The steps that only its workflow has.
    pub own_steps: Vec<String>,
}

/// Executions of a step that are the same in both runs.
pub struct SameStep {
    /// The step.
    pub step: String,
    /// How many.
    pub count: u64,
}

/// A row of a comparison.
pub enum DiffRow {
    /// A difference, by its place.
    Different(usize),
    /// Executions that are the same, each step once.
    Same(Vec<SameStep>),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffSubject {
    /// An input.
    Input(EcoString),
    /// What a graph was started with.
    Payload,
    /// What an earlier run exported.
    Import(EcoString),
    /// An entry of `context`.
    Context(EcoString),
    /// The items of a step.
    Items,
    /// What an execution left.
    Step,
    /// How an item ended, where its steps do not say it.
    Item,
    /// The verdict on a state.
    Verdict,
    /// What the run exported.
    Exports,
}

impl DiffSubject {
    /// Its kind in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Payload => "payload",
            Self::Import(_) => "import",
            Self::Context(_) => "context",
            Self::Items => "items",
            Self::Step => "step",
            Self::Item => "item",
            Self::Verdict => "verdict",
            Self::Exports => "exports",
        }
    }
}

/// Something that differs.
pub struct Difference {
    /// What it is.
    pub subject: DiffSubject,
    /// Its name: `inputs.urgent`, `gate`, `there[17]`, `check#3`.
    pub name: String,
    /// Where its step stands: the line in the first run's file, or in the second's where only that has it.
    pub line: Option<usize>,
    /// What each run has of it.
    pub sides: [Option<DiffSide>; 2],
    /// Its parts that differ.
    pub changes: Vec<PartChange>,
    /// How many more parts of the value differ than are listed.
    pub more: u64,
    /// Why it differs.
    pub because: Vec<DiffCause>,
    /// How many more reasons there are than are listed.
    pub more_causes: u64,
    /// Whether it differs only because of times and ids that a run makes anew.
    pub is_volatile: bool,
}

/// What one run has of something that differs.
pub struct DiffSide {
    /// The execution.
    pub at: Option<Address>,
    /// The event that recorded it.
    pub event: Option<Seq>,
    /// How it ended, of an execution.
    pub status: Option<&'static str>,
    /// Why it failed or was skipped.
    pub why: Option<String>,
    /// How many attempts it took.
    pub attempts: u32,
}

/// The part of something that differs.
pub struct PartChange {
    /// What of it.
    pub what: ChangedPart,
    /// The value of that part in both runs.
    pub change: ValueChange,
}

/// What of an execution differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedPart {
    /// How it ended.
    Status,
    /// Its value.
    Value,
    /// Why it failed or was skipped.
    Error,
    /// The exit code of its program.
    ExitCode,
    /// What it printed.
    Output,
    /// What it printed to stderr.
    Stderr,
    /// The model that answered.
    Model,
    /// The verdict on a state.
    Verdict,
    /// Why it is that verdict.
    Reason,
    /// The state that follows.
    Next,
    /// How many attempts it took.
    Attempts,
}

impl ChangedPart {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Value => "value",
            Self::Error => "error",
            Self::ExitCode => "exit_code",
            Self::Output => "output",
            Self::Stderr => "stderr",
            Self::Model => "model",
            Self::Verdict => "verdict",
            Self::Reason => "reason",
            Self::Next => "next",
            Self::Attempts => "attempts",
        }
    }

    /// Whether it says what became of the execution, and not only how it came to that.
    fn is_result(self) -> bool {
        matches!(self, Self::Status | Self::Value | Self::ExitCode | Self::Verdict | Self::Next)
    }
}

/// Why something differs.
pub struct DiffCause {
    /// What sort of reason it is.
    pub kind: CauseKind,
    /// What was read, or what decided, as it is written.
    pub reference: String,
    /// The field that read it.
    pub field: String,
    /// Who made what was read, in words.
    pub maker: String,
    /// Where the reference stands.
    pub place: Option<(usize, usize)>,
    /// What it was in both runs.
    pub values: [Option<Value>; 2],
    /// The difference that it is, where it is one, by its place.
    pub of: Option<usize>,
}

/// What sort of reason it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CauseKind {
    /// It read a value that differs.
    Value,
    /// What decided that it runs differs.
    Control,
    /// It read a time or an id, which each run makes anew.
    Clock,
    /// Its text in the workflow differs.
    Text,
    /// It is made of items that differ.
    Items,
    /// One of the runs has no such item.
    NoItem,
    /// One of the runs ended, or stopped, before it.
    NotReached,
    /// It called a run that differs.
    Called,
}

impl CauseKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Control => "control",
            Self::Clock => "clock",
            Self::Text => "text",
            Self::Items => "items",
            Self::NoItem => "no_item",
            Self::NotReached => "not_reached",
            Self::Called => "called",
        }
    }
}

impl Difference {
    /// Whether nothing of what became of it differs: only what was printed, or how often it was tried.
    pub fn is_minor(&self) -> bool {
        self.is_volatile || !self.changes.iter().any(|change| change.what.is_result())
    }
}

impl RunDiff {
    /// Compares two runs.
    pub fn between(left: &History<'_>, right: &History<'_>) -> Result<Self, InspectError> {
        subjects::compare(left, right)
    }

    /// Whether the workflows are the same text.
    pub fn has_same_text(&self) -> bool {
        self.runs[0].text == self.runs[1].text
    }

    /// The differences that follow from one, at any distance, in order.
    pub fn following(&self, from: usize) -> Vec<usize> {
        let mut found = vec![from];
        for (at, difference) in self.differences.iter().enumerate().skip(from + 1) {
            if difference.because.iter().any(|cause| cause.of.is_some_and(|of| found.contains(&of))) {
                found.push(at);
            }
        }
        found.remove(0);
        found
    }

    /// What the first value that differs was made of in one of the runs: the chain behind it.
    pub fn chain_behind_first<'r>(
        &self,
        histories: [&History<'r>; 2],
    ) -> Result<Option<(usize, Chains<'r>)>, InspectError> {
        let Some(first) = self.first.map(|first| &self.differences[first]) else { return Ok(None) };
        if !matches!(first.subject, DiffSubject::Step | DiffSubject::Verdict) {
            return Ok(None);
        }
        let ran = |side: &Option<DiffSide>| side.as_ref().is_some_and(|side| side.at.is_some());
        let Some(which) = first.sides.iter().position(ran) else { return Ok(None) };
        let history = histories[which];
        let Some(at) = first.sides[which].as_ref().and_then(|side| side.at.clone()) else { return Ok(None) };
        let target = ExplainTarget::executions(&history.plan, vec![at]);
        Ok(Some((which, Chains::follow(history, &target, ChainDirection::Back)?)))
    }
}

/// Counts executions that are the same, by step.
#[derive(Default)]
struct SameCounts {
    order: Vec<String>,
    counts: BTreeMap<String, u64>,
}

impl SameCounts {
    fn add(&mut self, step: String) {
        let count = self.counts.entry(step.clone()).or_default();
        if *count == 0 {
            self.order.push(step);
        }
        *count += 1;
    }

    fn end(self) -> Vec<SameStep> {
        let Self { order, counts } = self;
        let count = |step: &String| counts.get(step).copied().unwrap_or(0);
        order.into_iter().map(|step| SameStep { count: count(&step), step }).collect()
    }
}

/// An execution as people read it.
fn name_of(history: &History<'_>, at: &Address) -> String {
    labels::name(&history.plan, at)
}
