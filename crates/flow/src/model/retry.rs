//! When a failed step or item is tried again: how often, after which pauses, and after which failures.
//!
//! A failure is named by its kind as in `meta.error_type`, by the exit code of its program, or by the status
//! of its HTTP response. What a file says is fixed before the run; nothing is evaluated here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use threadline_lang::Value;

use super::{Setting, Step};
use crate::fields::{FailureKind, field_names};

/// When a failed step is tried again.
pub struct Retry {
    /// So many attempts in all.
    pub attempts: Setting<u64>,
    /// How the pause grows.
    pub backoff: Backoff,
    /// The first pause.
    pub delay: Setting<Duration>,
    /// The longest pause.
    pub max_delay: Setting<Duration>,
    /// Whether a pause is shortened by a random part.
    pub jitter: bool,
    /// The failures that are tried again.
    pub conditions: RetryConditions,
    /// The steps that run between two attempts; without them the step itself is tried again.
    pub fix: Vec<Arc<Step>>,
}

impl Retry {
    /// The number of attempts, when steps run between them.
    pub fn fixed_attempts(&self) -> Option<u64> {
        self.attempts.known().filter(|_| !self.fix.is_empty())
    }
}

/// How the pause between attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backoff {
    /// It does not.
    #[default]
    Fixed,
    /// By the first pause each time.
    Linear,
    /// Twice as long each time.
    Exponential,
}

/// The failures that are tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryConditions {
    /// `on`: only these; without it all but permanent HTTP statuses.
    pub on: Option<Vec<FailureMatch>>,
    /// `not_on`: none of these, whatever `on` says.
    pub not_on: Vec<FailureMatch>,
}

/// A failure as `on` and `not_on` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureMatch {
    /// Every failure of a kind: `Timeout`.
    Kind(FailureKind),
    /// A program that exited with a code: `exit 75`.
    ExitCode(u8),
    /// A response with a status: `http 503`.
    Status(u16),
    /// A response with a status of a class, the first digit of its status: `http 5xx`.
    StatusClass(u16),
}

/// What is known of a failure that may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureFacts {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The exit code of the program.
    pub exit_code: Option<i64>,
    /// The status of the response.
    pub status: Option<i64>,
}

impl FailureFacts {
    /// What the meta data of a failure say.
    pub fn new(kind: FailureKind, meta: impl Fn(&str) -> Option<Value>) -> Self {
        let number = |name: &str| meta(name).and_then(|value| value.as_i64());
        Self {
            kind,
            exit_code: number(field_names::EXIT_CODE),
            status: number(field_names::STATUS_CODE).filter(|_| kind == FailureKind::Http),
        }
    }
}

impl fmt::Display for FailureFacts {
    /// As `on` would name it, most exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.exit_code.filter(|_| self.kind == FailureKind::ExitCode)) {
            (Some(status), _) => write!(f, "http {status}"),
            (None, Some(code)) => write!(f, "exit {code}"),
            (None, None) => self.kind.fmt(f),
        }
    }
}

impl fmt::Display for FailureMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::ExitCode(code) => write!(f, "exit {code}"),
            Self::Status(status) => write!(f, "http {status}"),
            Self::StatusClass(class) => write!(f, "http {class}xx"),
        }
    }
}

static USUAL: RetryConditions = RetryConditions { on: None, not_on: Vec::new() };

/// Statuses of clients' mistakes that go away by themselves: a timeout, a request that came too early, too many
/// of them.
const TEMPORARY: [i64; 3] = [408, 425, 429];

impl RetryConditions {
    /// What holds where a file says nothing: every failure but permanent HTTP statuses.
    pub fn of(retry: Option<&Retry>) -> &Self {
        retry.map_or(&USUAL, |retry| &retry.conditions)
    }

    /// Why a failure is not tried again; nothing where it is.
    pub fn refusal(&self, failure: &FailureFacts) -> Option<String> {
        if self.not_on.iter().any(|named| named.covers(failure)) {
            return Some(format!("`{failure}` is in `retry.not_on`"));
        }
        match &self.on {
            Some(on) if on.iter().any(|named| named.covers(failure)) => None,
            Some(_) => Some(format!("`{failure}` is not in `retry.on`")),
            None if is_permanent(failure) => {
                Some(format!("`{failure}` is permanent unless `retry.on` names it"))
            }
            None => None,
        }
    }
}

impl FailureMatch {
    fn covers(self, failure: &FailureFacts) -> bool {
        match self {
            Self::Kind(kind) => kind == failure.kind,
            Self::ExitCode(code) => failure.exit_code == Some(i64::from(code)),
            Self::Status(status) => failure.status == Some(i64::from(status)),
            Self::StatusClass(class) => failure.status.is_some_and(|status| status / 100 == i64::from(class)),
        }
    }

    /// Reads a failure as `on` and `not_on` name it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let word = text.trim();
        if let Some(kind) = FailureKind::ALL.into_iter().find(|kind| kind.name() == word) {
            return Some(Self::Kind(kind));
        }
        let (sort, rest) = word.split_once(' ')?;
        let rest = rest.trim_start();
        match (sort, rest.strip_suffix("xx")) {
            ("exit", _) => rest.parse().ok().filter(|code| *code > 0).map(Self::ExitCode),
            ("http", Some(class)) => {
                class.parse().ok().filter(|class| (1..=5).contains(class)).map(Self::StatusClass)
            }
            ("http", None) => {
                rest.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Status)
            }
            _ => None,
        }
    }
}

/// Whether a response says that the same request will never go well.
fn is_permanent(failure: &FailureFacts) -> bool {
    failure.status.is_some_and(|status| status / 100 == 4 && !TEMPORARY.contains(&status))
}
