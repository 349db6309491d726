//! What can happen in a run. The ordered events are the only truth about it; everything else is made of them.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ecow::EcoString;
use threadline_lang::{ComputeError, Value};

pub use crate::address::{Address, AddressError, RunSlice, split_item_suffix};
pub use threadline_flow::model::{Budget, BudgetKey};

use crate::evaluate::RetryPlan;
use crate::hash::Hash;
use crate::machine::Outcome;
use crate::spend::Spend;

/// The number of an event in its run, from 1.
pub type Seq = u64;

/// So many events of a journal are safe, or have to be before something is done; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SafeEvents {
    /// They were handed to the operating system: they survive the end of this process, however that ends.
    pub written: Seq,
    /// They are on disk: they survive the end of the machine, too.
    pub durable: Seq,
}

impl SafeEvents {
    /// Whether these events are safe where so many are.
    pub fn are_within(self, safe: Self) -> bool {
        self.written <= safe.written && self.durable <= safe.durable
    }
}

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// The number of the event in its run.
    pub seq: Seq,
    /// The time at which it happened.
    pub time: Millis,
    /// To which step; empty for the run itself.
    pub at: Address,
    /// What happened, with its data.
    pub kind: EventKind,
}

/// What happened, by kind.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a run begins once, and events are held one at a time")]
pub enum EventKind {
    /// The run began.
    RunStarted(RunStarted),
    /// A `when` is true. One that is not true is [`EventKind::Skipped`].
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
        /// Where the list is stored.
        items: Listed,
        /// How many they are.
        count: u64,
        /// How many elements were read to choose them. Runs of earlier versions do not say it.
        read: Option<u64>,
        /// How many run at once.
        parallel: u64,
        /// What holds for each of them.
        rules: Rules,
        /// The hash of where they come from and which are taken. Runs of earlier versions do not say it.
        source: Option<Hash>,
    },
    /// An item failed, and begins again later.
    ItemRetrying {
        /// Why it failed.
        error: EcoString,
        /// When it begins again.
        until: Millis,
    },
    /// An item that failed begins again.
    ItemBegun {
        /// Which attempt, from 2.
        attempt: u32,
    },
    /// An item is over.
    ItemEnded(ItemEnded),
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
        /// The hash of what its result depends on. Runs of earlier versions do not say it.
        work: Option<Hash>,
    },
    /// A value of `context` was evaluated, for the whole run.
    Defined {
        /// The name of the entry.
        name: EcoString,
        /// What it came to.
        value: Datum,
        /// What it had to compute.
        computed: Vec<Computed>,
    },
    /// An agent answered, and the attempt asks it for more.
    Exchanged {
        /// Which exchange of the attempt, from 1.
        number: u32,
        /// Whether the agent is not asked for more now: a budget is used up, or it is asked too often.
        held: bool,
        /// Whether it calls a workflow now, which goes on inside after a crash.
        calls: bool,
        /// What it left.
        output: Output,
    },
    /// A call of an agent is over of which nothing more will be heard, and counts as this.
    CallLost {
        /// What it used, as an estimate.
        spent: Box<Spend>,
        /// Whether the agent is asked again; otherwise that is for whoever resumes the run.
        goes_on: bool,
    },
    /// An attempt failed, and there will be another.
    Retrying {
        /// What it left.
        output: Output,
        /// When the next one begins.
        until: Millis,
        /// Whether the next one goes on behind the exchanges of this one.
        keeps_exchanges: bool,
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
        /// The index of the results of its items, where they are not its value.
        results: Option<Datum>,
        /// Where it was made, when this run continues another one and did not do it again.
        kept: Option<Box<KeptResult>>,
    },
    /// The run stopped before its end and can be resumed.
    Paused {
        /// The reason for the pause.
        reason: EcoString,
        /// How many items are failed at this time; not known in journals of earlier versions.
        failed_items: Option<u64>,
        /// What the run has spent on agents, if any was asked.
        spent: Option<Box<Spend>>,
    },
    /// The run goes on after a pause, a crash, or a failure.
    Resumed {
        /// Whether items that failed, and were let fail, are done again, and what comes after them.
        failed: bool,
        /// The budgets that hold from now on, beside those of before.
        budgets: Vec<BudgetChange>,
        /// How many steps may run at once from now on, where that is another number than at the beginning.
        jobs: Option<u64>,
    },
    /// The limits of a loop are known, and it begins.
    LimitsResolved {
        /// What it had to compute.
        computed: Vec<Computed>,
        /// The limits that hold for the loop.
        limits: LoopLimits,
    },
    /// A state was judged.
    Judged(Box<JudgedEvent>),
    /// The steps of the run have ended, and its last lists read the outcome or depend on it.
    OutcomeKnown {
        /// How the run ends, as far as it has come.
        outcome: Outcome,
        /// The outcome as it is read by name: an object with every field of `run` but the id.
        run: Datum,
    },
    /// The run is over.
    RunEnded {
        /// How the run ended.
        outcome: Outcome,
        /// What `exports` came to, an object; nothing of a run that failed.
        exports: Datum,
        /// Where a loop ended, and why.
        ended: Option<LoopEnd>,
        /// How many items are failed at the end; not known in journals of earlier versions.
        failed_items: Option<u64>,
        /// What the run spent on agents, if any was asked.
        spent: Option<Box<Spend>>,
    },
}

/// The result of an earlier run that this run keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptResult {
    /// The event after which the names of its step were read.
    pub as_of: Seq,
    /// Who made it.
    pub maker: KeptMaker,
    /// What its fields had to compute when it was made.
    pub computed: Vec<Computed>,
    /// The hash of its resolved fields.
    pub fields: Hash,
    /// The hash of what its result depends on.
    pub work: Hash,
}

/// The event of another run that made what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMaker {
    /// The id of the run.
    pub run: EcoString,
    /// The number of the event in that run.
    pub event: Seq,
}

/// The limits of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopLimits {
    /// The maximum number of states to execute.
    pub max_steps: u64,
    /// The maximum number of iterations.
    pub max_iterations: Option<u64>,
    /// The maximum number of times that one transition may be repeated.
    pub max_edge_revisits: Option<u64>,
    /// The maximum number of visits in a row after which a state has the same fingerprint.
    pub max_stall: Option<u64>,
    /// The maximum duration.
    pub timeout: Option<Duration>,
    /// The pause between two iterations.
    pub backoff: Option<Duration>,
}

/// The judgement on a state, as the journal keeps it.
#[derive(Debug, Clone)]
pub struct JudgedEvent {
    /// The event after which its names were read.
    pub as_of: Seq,
    /// What it had to compute.
    pub computed: Vec<Computed>,
    /// The word that judges the state.
    pub verdict: EcoString,
    /// How sure it is, where that is known.
    pub confidence: Option<Value>,
    /// Why it is that, in words.
    pub reason: EcoString,
    /// What it was made of, an object.
    pub details: Datum,
    /// The number that was measured, where the next one is compared with it.
    pub measured: Option<Value>,
    /// The state that follows; none when no route fits, and of a state that ends the loop.
    pub to: Option<EcoString>,
    /// The fingerprint of the verdict and the output: equal as long as nothing changes.
    pub fingerprint: Hash,
    /// What the judge said, where one was asked.
    pub reply: Option<JudgeReply>,
    /// Where the judge was asked, when this run continues another one and did not ask again.
    pub kept: Option<KeptMaker>,
}

/// What a judge said, as it said it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeReply {
    /// Its whole answer, or what it printed when it failed.
    pub answer: Option<Datum>,
    /// What it printed to stderr, where that is anything.
    pub stderr: Option<Datum>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// The hash of what it was asked. Runs of earlier versions do not say it.
    pub asked: Option<Hash>,
    /// What it used.
    pub spent: Option<Box<Spend>>,
}

/// The verdict of what cannot be determined.
pub const ERROR: &str = "error";

/// Where a loop ended, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopEnd {
    /// The limit or state that ended the loop.
    pub reason: LoopReason,
    /// The state it ended with, or would have gone on with.
    pub state: EcoString,
    /// The limit that was reached: a number, or milliseconds.
    pub limit: Option<u64>,
}

/// Why a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopReason {
    /// It came to a state that ends it.
    Terminal,
    /// The maximum number of states was executed.
    MaxSteps,
    /// The maximum number of iterations began.
    MaxIterations,
    /// One transition was repeated too often.
    MaxEdgeRevisits,
    /// A state had the same fingerprint too often in a row.
    MaxStall,
    /// Its time is over.
    Timeout,
}

impl LoopReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Terminal,
        Self::MaxSteps,
        Self::MaxIterations,
        Self::MaxEdgeRevisits,
        Self::MaxStall,
        Self::Timeout,
    ];

    /// As it stands in the journal: the key of the limit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::MaxSteps => "max_steps",
            Self::MaxIterations => "max_iterations",
            Self::MaxEdgeRevisits => "max_edge_revisits",
            Self::MaxStall => "max_stall",
            Self::Timeout => "timeout",
        }
    }
}

/// How an item ended.
#[derive(Debug, Clone)]
pub struct ItemEnded {
    /// Well, not well, or without any step of it executed.
    pub status: Status,
    /// What its last step left; null when it failed.
    pub value: Datum,
    /// Why it failed.
    pub error: Option<EcoString>,
    /// Which attempt it was, from 1.
    pub attempts: u32,
    /// How long this attempt took, in milliseconds.
    pub duration_ms: u64,
    /// The branch that keeps its commits, of an item that failed.
    pub branch: Option<EcoString>,
    /// Why it is not tried again although `retry` allows more attempts.
    pub not_retried: Option<EcoString>,
}

/// A list of values: whole, or in pieces that are loaded one at a time.
#[derive(Debug, Clone)]
pub enum Listed {
    /// The whole list as one value.
    Whole(Datum),
    /// The index of the pieces.
    Chunks(Datum),
}

/// What holds for each item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// When a failed item is tried again from its beginning.
    pub retry: RetryPlan,
    /// How long an attempt of an item may take.
    pub timeout: Option<Duration>,
    /// The maximum number of items that may fail; after one more, no other begins.
    pub most_failed: Option<u64>,
    /// Whether the list goes well all the same when no more items failed than may.
    pub goes_on: bool,
}

impl Rules {
    /// The first failure ends the list.
    pub const STRICT: Self =
        Self { retry: RetryPlan::ONCE, timeout: None, most_failed: Some(0), goes_on: false };

    /// Whether no further item begins after this number of failures.
    pub fn stops_after(&self, failed: u64) -> bool {
        self.most_failed.is_some_and(|most| failed > most)
    }
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
    /// The run that each import comes from, by its name. Runs of earlier versions do not say it.
    pub imported: Vec<(EcoString, EcoString)>,
    /// What a graph is started with; null when there is nothing.
    pub payload: Datum,
    /// The settings of `context` that the caller made: path and value.
    pub set: Vec<(EcoString, Datum)>,
    /// Whether the caller vouched for these settings, so that they may stand as code.
    pub trust_set: bool,
    /// The folder that steps run in, relative to the project. Journals of 0.1.0 have an absolute path.
    pub folder: EcoString,
    /// The version of the program.
    pub program: EcoString,
    /// How many steps may run at once, when there is a limit.
    pub jobs: Option<u64>,
    /// The budgets that the caller set.
    pub budgets: Vec<BudgetChange>,
    /// The files of the workflows that it calls, by their names, and the hashes of their texts.
    pub files: Vec<(EcoString, Hash)>,
    /// Whose step called it; none when somebody started it.
    pub caller: Option<Caller>,
    /// The run whose results it keeps, when it continues one.
    pub continues: Option<Continued>,
    /// What becomes of its exchanges with agents, where they are recorded or replayed.
    pub exchanges: Option<ExchangeMode>,
    /// Where its programs run, when that is elsewhere; a called run does what its caller does.
    pub on: Option<RemoteService>,
}

/// A service through which the programs of a run are performed on other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteService {
    /// Its address, such as `restate://host:8080`.
    pub address: EcoString,
    /// Where the key is that requests are signed with.
    pub key: KeySource,
    /// The URL of the blob store, when it is not a folder of the store.
    pub blobs: Option<EcoString>,
    /// Whether programs find a copy of the project, and not the folder that all machines share.
    pub bundle: bool,
    /// Whether the journal is kept in that blob store, too, before it is written here.
    pub replicated: bool,
}

/// Where a key is found; never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In this file.
    File(EcoString),
    /// In this environment variable.
    Variable(EcoString),
}

/// What becomes of the exchanges of a run with agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeMode {
    /// They are written to files.
    Record {
        /// The folder with the files, relative to the project where it is inside of it.
        folder: EcoString,
    },
    /// They are read from files, and no agent is asked.
    Replay {
        /// The folder with the files, relative to the project where it is inside of it.
        folder: EcoString,
        /// The steps whose agents are asked all the same.
        live: Vec<EcoString>,
    },
}

/// A budget that the caller sets, in place of what the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetChange {
    /// The number of the step in its file, such as `3.do.1`; none for the budget of the run.
    pub step: Option<EcoString>,
    /// The limits that are set.
    pub budget: Budget,
}

/// The run that another one continues: with an edited file, or from a step on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continued {
    /// The id of that run.
    pub run: EcoString,
    /// What `workflow.id` stays: the id of the first run.
    pub first: EcoString,
    /// What `workflow.start_time` stays: when the first run began.
    pub start_time: EcoString,
    /// What is done again, with all that follows; nothing when only what has changed is.
    pub from: Vec<RerunTarget>,
    /// Whether the items of a map begin with what those of that run committed, all of which are kept.
    pub keeps_commits: bool,
    /// The number of states after which a limit last stopped that run, of a loop: up to there nothing stops this one.
    pub stopped_after: Option<u64>,
}

/// Executions that are done again, with all that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RerunTarget {
    /// The number of the step in its file: `3`, `3.do.1`.
    pub step: EcoString,
    /// Only in these items, the outermost first; in all of them when there is none.
    pub items: Vec<u64>,
    /// Only from this visit on, of a state.
    pub visit: Option<u64>,
}

impl RunStarted {
    /// The beginning of a run that nobody stores: of its workflow there is nothing but the name.
    pub fn bare(run: EcoString, workflow: EcoString) -> Self {
        let nothing = || Datum::Here(Value::NULL);
        Self {
            run,
            workflow,
            file: EcoString::new(),
            text: Hash::default(),
            inputs: nothing(),
            imports: nothing(),
            imported: Vec::new(),
            payload: nothing(),
            set: Vec::new(),
            trust_set: false,
            folder: EcoString::new(),
            program: EcoString::new(),
            jobs: None,
            budgets: Vec::new(),
            files: Vec::new(),
            caller: None,
            continues: None,
            exchanges: None,
            on: None,
        }
    }
}

/// A step that called a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The id of its run.
    pub run: EcoString,
    /// The execution that called it.
    pub at: Address,
    /// The attempt that called it.
    pub attempt: u32,
}

/// What a step left.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: Status,
    /// The value of the step.
    pub value: Datum,
    /// What it printed, where the value is not that text.
    pub output: Option<Datum>,
    /// What it printed to stderr, where that is anything.
    pub stderr: Option<Datum>,
    /// An object: status, times, and what the kind of step adds.
    pub meta: Value,
    /// What agents used for it that no event before it says, if any was asked.
    pub spent: Option<Box<Spend>>,
    /// The thread that it continued, where it continued one and went well.
    pub thread: Option<Box<ContinuedThread>>,
    /// How what its program printed differs from the texts above, where it does.
    pub exact: Option<Box<ExactStreams<Datum>>>,
}

/// How what a program printed differs from the texts that are kept of it. They are without the line breaks at their end,
/// which is usually one, and have a mark in place of what is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExactStreams<T> {
    /// Of standard output.
    pub stdout: Option<ExactStream<T>>,
    /// Of standard error.
    pub stderr: Option<ExactStream<T>>,
}

/// How one stream differs from its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExactStream<T> {
    /// It ends with these line breaks and not with one.
    Ending(EcoString),
    /// It is not UTF-8: its bytes in base64, as a text.
    Base64(T),
}

/// A text without its final line breaks, as `$(...)` of a shell gives it.
pub(crate) fn trim_newlines(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r'])
}

impl ExactStream<Value> {
    /// How bytes differ from their text, if they do.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Some(Self::Base64(BASE64_STANDARD.encode(bytes).into()));
        };
        match &text[trim_newlines(text).len()..] {
            "\n" => None,
            "" if text.is_empty() => None,
            ending => Some(Self::Ending(ending.into())),
        }
    }
}

impl ExactStream<String> {
    /// The bytes that were printed, where `text` is what is kept of them. Fails on what is no base64.
    pub fn bytes(exact: Option<&Self>, text: String) -> Result<Vec<u8>, String> {
        match exact {
            None => Ok((text + "\n").into_bytes()),
            Some(Self::Ending(ending)) => Ok((text + ending).into_bytes()),
            Some(Self::Base64(encoded)) => BASE64_STANDARD.decode(encoded).map_err(|error| error.to_string()),
        }
    }
}

impl<T> ExactStreams<T> {
    /// Whether there is no difference.
    pub fn is_none(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// The same with its texts kept elsewhere.
    pub fn try_map<U, E>(self, mut keep: impl FnMut(T) -> Result<U, E>) -> Result<ExactStreams<U>, E> {
        let mut stream = |stream: Option<ExactStream<T>>| match stream {
            None => Ok(None),
            Some(ExactStream::Ending(ending)) => Ok(Some(ExactStream::Ending(ending))),
            Some(ExactStream::Base64(bytes)) => keep(bytes).map(|bytes| Some(ExactStream::Base64(bytes))),
        };
        Ok(ExactStreams { stdout: stream(self.stdout)?, stderr: stream(self.stderr)? })
    }
}

/// A thread that a step continued.
#[derive(Debug, Clone, PartialEq)]
pub struct ContinuedThread {
    /// The name of the thread.
    pub name: EcoString,
    /// All that was said in it, up to the answer of the step.
    pub conversation: Datum,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The step did what it should.
    Completed,
    /// The step did not do what it should.
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
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// The value stands in the event itself.
    Here(Value),
    /// Elsewhere, by its hash.
    Stored {
        /// The hash of its bytes.
        hash: Hash,
        /// How many bytes.
        len: u64,
        /// How the bytes are to be read.
        form: ValueEncoding,
    },
}

/// How the bytes of a stored value are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueEncoding {
    /// The bytes are UTF-8 text.
    Text,
    /// The bytes are JSON.
    Json,
    /// As JSON of an earlier version, in which `{"float": "0.1"}` is a number. Only read.
    Tagged,
}

/// A value that the world was asked for, and what it answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Computed {
    /// The kind: `env`, `file`, `cmd`, `now`, `uuid`, or a declared one.
    pub name: EcoString,
    /// What it was asked with, a list.
    pub args: Datum,
    /// What the world answered, or why it did not.
    pub answer: Result<Datum, ComputeError>,
}
