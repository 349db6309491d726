//! What can happen in a run. The ordered events are the only truth about it; everything else is made of them.

use std::fmt;

use ecow::EcoString;
use threadline_flow::plan::{Part, Plan, StepNumber};
use threadline_lang::{ComputeError, Value};

use crate::hash::Hash;
use crate::machine::Outcome;

/// The number of an event in its run, from 1.
pub type Seq = u64;

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// Which execution of which step: `3` is the third step of the workflow, `3[17]/1` the first step for item 17 of it,
/// `3/on_failure/1` the first step after its failure, `finally/1` the first at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Instance(pub EcoString);

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Instance {
    /// Which step of a plan it is an execution of.
    pub fn step(&self, plan: &Plan) -> Option<StepNumber> {
        let mut list = Some(0);
        let mut step = None;
        let mut words = self.0.split('/').peekable();
        if words.next_if_eq(&"finally").is_some() {
            list = plan.finally;
        }
        for word in words {
            let part = Part::ALL.into_iter().find(|part| part.key() == word);
            if let (Some(part), Some(owner)) = (part, step) {
                list = plan.part(owner, part);
                continue;
            }
            let (position, item) = match word.split_once('[') {
                Some((position, _)) => (position, true),
                None => (word, false),
            };
            let at: usize = position.parse().ok()?;
            let number = *plan.lists.get(list? as usize)?.steps.get(at.checked_sub(1)?)?;
            step = Some(number);
            list = if item { plan.part(number, Part::Do) } else { None };
        }
        step
    }

    /// The indexes of the items it is for, the outermost first.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.0.split('[').skip(1).filter_map(|rest| rest.split(']').next())
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its number.
    pub seq: Seq,
    /// When.
    pub time: Millis,
    /// To which step; empty for the run itself.
    pub at: Instance,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The run began.
    RunStarted(RunStarted),
    /// A `when` is true. One that is not true is [`What::Skipped`].
    Decided {
        /// The event after which its names were read.
        as_of: Seq,
        /// What it had to compute.
        computed: Vec<Computed>,
    },
    /// A step does not run.
    Skipped {
        /// The event after which its names were read.
        as_of: Seq,
        /// What its condition had to compute.
        computed: Vec<Computed>,
        /// What reads of it give: a null value and the reason in its meta.
        output: Output,
    },
    /// The list of a `foreach` is known.
    Expanded {
        /// The event after which its names were read.
        as_of: Seq,
        /// What it had to compute.
        computed: Vec<Computed>,
        /// The list.
        items: Datum,
        /// How many they are.
        count: u64,
        /// How many run at once.
        parallel: u64,
    },
    /// An attempt begins.
    Started {
        /// The event after which its names were read.
        as_of: Seq,
        /// Which attempt, from 1.
        attempt: u32,
        /// Whether the same attempt was running when Threadline was killed.
        rerun: bool,
        /// What its fields had to compute.
        computed: Vec<Computed>,
        /// The hash of its resolved fields.
        fields: Hash,
    },
    /// A value of `context` was evaluated, for the whole run.
    Defined {
        /// Its name.
        name: EcoString,
        /// What it came to.
        value: Datum,
        /// What it had to compute.
        computed: Vec<Computed>,
    },
    /// An attempt failed, and there will be another.
    Retrying {
        /// What it left.
        output: Output,
        /// When the next one begins.
        until: Millis,
    },
    /// A condition, list or field has no value: the step failed before it began.
    Unresolved {
        /// The event after which its names were read.
        as_of: Seq,
        /// What it had to compute.
        computed: Vec<Computed>,
        /// What it left: the error in its meta.
        output: Output,
    },
    /// A step is done, well or not.
    Finished {
        /// What it left.
        output: Output,
    },
    /// The run stopped before its end and can be resumed.
    Paused {
        /// Why.
        reason: EcoString,
    },
    /// The run goes on after a pause, a crash, or a failure.
    Resumed,
    /// The run is over.
    RunEnded {
        /// How.
        outcome: Outcome,
        /// What `exports` came to, an object; nothing of a run that failed.
        exports: Datum,
    },
}

/// What a run begins with.
#[derive(Debug, Clone)]
pub struct RunStarted {
    /// The id of the run.
    pub run: EcoString,
    /// The name of the workflow.
    pub workflow: EcoString,
    /// The file as it was named, and the hash of its text.
    pub file: EcoString,
    /// The hash of the file's text.
    pub text: Hash,
    /// The values of the caller's, an object.
    pub inputs: Datum,
    /// What earlier runs exported, an object by the names of `imports`.
    pub imports: Datum,
    /// What a graph is started with; null when there is nothing.
    pub payload: Datum,
    /// The settings of `context` that the caller made: path and value.
    pub set: Vec<(EcoString, Datum)>,
    /// Whether the caller vouched for these settings, so that they may stand as code.
    pub trust_set: bool,
    /// The folder that steps run in.
    pub folder: EcoString,
    /// The version of the program.
    pub program: EcoString,
    /// How many steps may run at once, when there is a limit.
    pub jobs: Option<u64>,
}

/// What a step left.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: Status,
    /// The result.
    pub value: Datum,
    /// What it printed, where the value is not that text.
    pub output: Option<Datum>,
    /// What it printed to stderr, where that is anything.
    pub stderr: Option<Datum>,
    /// An object: status, times, and what the kind of step adds.
    pub meta: Value,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Well.
    Completed,
    /// Not well.
    Failed,
    /// It did not run.
    Skipped,
    /// It was stopped.
    Cancelled,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Skipped, Self::Cancelled];

    /// As it stands in meta data.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A value in the journal: in the event itself, or by the hash of its bytes.
#[derive(Debug, Clone)]
pub enum Datum {
    /// Here.
    Here(Value),
    /// Elsewhere, by its hash.
    Stored {
        /// The hash of its bytes.
        hash: Hash,
        /// How many bytes.
        len: u64,
        /// How the bytes are to be read.
        form: Form,
    },
}

/// How the bytes of a stored value are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As text.
    Text,
    /// As JSON.
    Json,
    /// As JSON that tells binary floats from decimals.
    Tagged,
}

/// A value that the world was asked for, and what it answered.
#[derive(Debug, Clone)]
pub struct Computed {
    /// The kind: `env`, `file`, `cmd`, `now`, `uuid`, or a declared one.
    pub name: EcoString,
    /// What it was asked with, a list.
    pub args: Datum,
    /// The answer.
    pub answer: Result<Datum, ComputeError>,
}
