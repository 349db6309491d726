//! Why a step can fail: the words of `meta.error_type`.

use std::fmt;

use threadline_lang::Value;

use super::field_names;

/// Why a step failed: the word in `meta.error_type` and the sentence in `meta.error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure, written to `meta.error_type`.
    pub kind: FailureKind,
    /// The cause in words, written to `meta.error`.
    pub message: String,
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The kinds of failure that `meta.error_type` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "`meaning` documents each of them, for the reference too")]
pub enum FailureKind {
    ExitCode,
    Signal,
    Timeout,
    Cancelled,
    OutputTooLarge,
    Start,
    Format,
    Evaluation,
    Http,
    Tool,
    Agent,
    File,
    Crash,
    Items,
    Input,
    Worktree,
    Workflow,
    Locked,
    Expectation,
    SecretOutput,
    Fail,
    Verdict,
    Replay,
}

impl FailureKind {
    /// Every kind, in the order of the reference.
    pub const ALL: [Self; 23] = [
        Self::ExitCode,
        Self::Signal,
        Self::Timeout,
        Self::Cancelled,
        Self::OutputTooLarge,
        Self::Start,
        Self::Format,
        Self::Evaluation,
        Self::Http,
        Self::Tool,
        Self::Agent,
        Self::File,
        Self::Crash,
        Self::Items,
        Self::Input,
        Self::Worktree,
        Self::Workflow,
        Self::Locked,
        Self::Expectation,
        Self::SecretOutput,
        Self::Fail,
        Self::Verdict,
        Self::Replay,
    ];

    /// The word in `meta.error_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExitCode => "ExitCode",
            Self::Signal => "Signal",
            Self::Timeout => "Timeout",
            Self::Cancelled => "Cancelled",
            Self::OutputTooLarge => "OutputTooLarge",
            Self::Start => "Start",
            Self::Format => "Format",
            Self::Evaluation => "Evaluation",
            Self::Http => "Http",
            Self::Tool => "Tool",
            Self::Agent => "Agent",
            Self::File => "File",
            Self::Crash => "Crash",
            Self::Items => "Items",
            Self::Input => "Input",
            Self::Worktree => "Worktree",
            Self::Workflow => "Workflow",
            Self::Locked => "Locked",
            Self::Expectation => "Expectation",
            Self::SecretOutput => "SecretOutput",
            Self::Fail => "Fail",
            Self::Verdict => "Verdict",
            Self::Replay => "Replay",
        }
    }

    /// What the kind means, as one line of the reference.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ExitCode => "the program exited with a code other than 0",
            Self::Signal => "the program was killed by a signal that Threadline did not send",
            Self::Timeout => {
                "the step exceeded its `timeout`, printed nothing for its `idle_timeout`, or its item, phase, loop or run \
                 exceeded its own `timeout`"
            }
            Self::Cancelled => "the step was stopped because the run was stopped",
            Self::OutputTooLarge => {
                "the program printed more than `max_output`, or an answer was larger than that"
            }
            Self::Start => "the program could not be started",
            Self::Format => {
                "the output does not have the format of `capture_format`, or an answer has the wrong type"
            }
            Self::Evaluation => "a field of the step has no value",
            Self::Http => "the server could not be reached, or answered with a status other than 2xx",
            Self::Tool => {
                "the tool reported a failure, rejected its parameters, does not exist, or its server exited"
            }
            Self::Agent => {
                "the model refused to answer, its answer was cut off, or what the provider sent cannot be read"
            }
            Self::File => "a file could not be read or written, or has no recorded answer to the message",
            Self::Crash => {
                "the step was running when Threadline was killed, and its `on_crash` is `fail`; or this is true of a \
                 step in the workflow that it calls. Nothing retries it"
            }
            Self::Items => "items of a `foreach` or a map failed",
            Self::Input => "the source of a list gives no items",
            Self::Worktree => "the worktree of an item could not be used, or its changes could not be merged",
            Self::Workflow => "the called workflow failed",
            Self::Locked => "another run holds a lock that the called workflow needs",
            Self::Fail => "the step is a `fail` step",
            Self::Verdict => {
                "of a run: no route leads on from the verdict on a state, or the loop ended in a failure state"
            }
            Self::Expectation => "the output does not meet `expect`, or cannot be compared with it",
            Self::Replay => "the run is replayed, and what an agent is asked is not what was recorded",
            Self::SecretOutput => {
                "the output or the answer contains a secret, and `secret_output` is not `mask`"
            }
        }
    }

    /// The kind that the `meta` of an envelope names; `None` for a step that did not fail.
    pub fn of_meta(meta: &Value) -> Option<Self> {
        let name = meta.get(field_names::ERROR_TYPE)?.as_str()?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
