//! What a step leaves: the result of an attempt, what was measured of it, and the envelope made of both.
//!
//! Nothing is stored here: a [`Driver`] keeps the values of an envelope where they belong.

use std::time::Duration;

use ecow::EcoString;
use threadline_expect::{ALONE, ExpectationOutcome, Settled};
use threadline_flow::fields::{Failure, FailureKind, NodeType, field_names as names};
use threadline_flow::model::CaptureFormat;
use threadline_lang::diag::words;
use threadline_lang::{Envelope, Limits, Number, Value, data};

use super::Driver;
use super::effect::{EffectLimits, ProcessEnd, ProcessEnding, Stream};
use crate::evaluate::{self, Wanted};
use crate::event::{
    Address, Datum, ExactStream, ExactStreams, JudgeReply, JudgedEvent, Millis, Output, Status, trim_newlines,
};
use crate::spend::Spend;
use crate::view::Limit;

/// The result of an attempt before it is stored.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The value, or why there is none.
    pub value: Result<Value, Failure>,
    /// What the step printed, where that is not the value.
    pub output: Option<Value>,
    /// What it printed to standard error, if anything.
    pub stderr: Option<Value>,
    /// How that differs from what its program printed to the byte.
    pub exact: ExactStreams<Value>,
}

impl StepResult {
    /// A value, or a failure, and nothing that was printed.
    pub fn silent(value: Result<Value, Failure>) -> Self {
        Self::printed(value, None, None)
    }

    /// A value, or a failure, and texts that were printed.
    pub fn printed(value: Result<Value, Failure>, output: Option<Value>, stderr: Option<Value>) -> Self {
        Self { value, output, stderr, exact: ExactStreams::default() }
    }

    /// A text as the value that it is in a format; any other value as it is.
    #[must_use]
    pub fn typed(self, format: CaptureFormat) -> Self {
        let read = match &self.value {
            Ok(value) if format != CaptureFormat::Text => {
                value.as_str().map(|text| read_output(text, format))
            }
            _ => None,
        };
        let Some(value) = read else { return self };
        let output = self.value.ok();
        Self { value, output, ..self }
    }

    /// A failure, and nothing that was printed.
    pub fn failed(failure: Failure) -> Self {
        Self::silent(Err(failure))
    }
}

/// When something happened and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When it began.
    pub started: Millis,
    /// When it ended.
    pub finished: Millis,
    /// How long it took, by a clock that does not jump.
    pub elapsed: Duration,
}

/// A moment on both clocks of a driver.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    /// The time of day, which may jump.
    pub time: Millis,
    /// The time since some moment before, which never jumps.
    pub steady: Duration,
}

impl ClockReading {
    /// The timing of what began now and ends then.
    pub fn until(self, end: Self) -> Timing {
        let elapsed = end.steady.saturating_sub(self.steady);
        Timing { started: self.time, finished: end.time, elapsed }
    }
}

impl Timing {
    /// The timing of what began with an event, perhaps in an earlier process, whose steady clock is not known any more.
    pub fn since(began: Millis, now: Millis) -> Self {
        let elapsed = now.saturating_sub(began).max(0).unsigned_abs();
        Self { started: began, finished: now, elapsed: Duration::from_millis(elapsed) }
    }
}

/// What was measured of a step.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The kind of step, as it stands in `meta.node_type`.
    pub node_type: &'static str,
    /// When it ran.
    pub timing: Timing,
    /// The number of attempts before this one.
    pub retries: u32,
    /// What the kind of step adds to the meta data.
    pub own: Vec<(&'static str, Value)>,
    /// What agents used for it.
    pub spent: Spend,
}

/// An envelope as the journal keeps it, and as it is read by name.
pub(super) struct Sealed {
    pub(super) output: Output,
    pub(super) envelope: Envelope,
}

/// The envelope of a step, its values kept by the driver.
pub(super) fn seal<D: Driver>(
    driver: &mut D,
    measurement: &Measurement,
    result: StepResult,
    state: Option<&str>,
) -> Result<Sealed, D::Error> {
    let (status, value, failure) = match result.value {
        Ok(value) => (Status::Completed, value, None),
        Err(failure) => (Status::Failed, Value::NULL, Some(failure)),
    };
    let meta = meta(status, measurement, failure.as_ref(), state.map(|state| (names::STATE, state)));
    let output = Output {
        status,
        value: driver.keep(&value)?,
        output: result.output.as_ref().map(|output| driver.keep(output)).transpose()?,
        stderr: result.stderr.as_ref().map(|stderr| driver.keep(stderr)).transpose()?,
        meta: meta.clone(),
        spent: some_spent(&measurement.spent),
        thread: None,
        exact: match result.exact.try_map(|bytes| driver.keep(&bytes))? {
            exact if exact.is_none() => None,
            exact => Some(Box::new(exact)),
        },
    };
    Ok(Sealed { output, envelope: envelope(value, result.output, result.stderr, meta) })
}

/// What was spent, if anything was.
pub(crate) fn some_spent(spent: &Spend) -> Option<Box<Spend>> {
    (!spent.is_nothing()).then(|| Box::new(spent.clone()))
}

/// The envelope of a step that does not run.
pub(super) fn seal_skipped<D: Driver>(
    driver: &mut D,
    measurement: &Measurement,
    reason: &str,
) -> Result<Output, D::Error> {
    let meta = meta(Status::Skipped, measurement, None, Some((names::REASON, reason)));
    let value = driver.keep(&Value::NULL)?;
    Ok(Output {
        status: Status::Skipped,
        value,
        output: None,
        stderr: None,
        meta,
        spent: None,
        thread: None,
        exact: None,
    })
}

/// What a step left as it is read by name: its value and meta data, and what every step has beside them.
pub fn envelope(value: Value, output: Option<Value>, stderr: Option<Value>, meta: Value) -> Envelope {
    let output = output.unwrap_or_else(|| if value.as_str().is_some() { value.clone() } else { Value::NULL });
    let stderr = stderr.unwrap_or_else(|| Value::from(""));
    let of_meta = |name: &str| meta.get(name).cloned().unwrap_or_default();
    let also = [
        (names::OUTPUT.into(), output),
        (names::STDERR.into(), stderr),
        (names::EXIT_CODE.into(), of_meta(names::EXIT_CODE)),
        (names::DURATION_MS.into(), of_meta(names::EXECUTION_TIME_MS)),
        (names::STATE.into(), meta.get(names::STATE).cloned().unwrap_or_else(|| of_meta(names::STATUS))),
    ];
    Envelope { also: Value::object(also).ok(), ..Envelope::new(value, meta) }
}

/// What a state without an action leaves: the details of its verdict as its value, and what its judge said as
/// its output. `load` gives the values of the event.
pub fn judged_envelope<E>(
    at: &Address,
    judged: &JudgedEvent,
    load: impl Fn(&Datum) -> Result<Value, E>,
) -> Result<Envelope, E> {
    let said = |said: fn(&JudgeReply) -> Option<&Datum>| judged.reply.as_ref().and_then(said);
    let (answer, stderr) = (said(|reply| reply.answer.as_ref()), said(|reply| reply.stderr.as_ref()));
    let (answer, stderr) = (answer.map(&load).transpose()?, stderr.map(&load).transpose()?);
    let elapsed = judged.reply.as_ref().map_or(0, |reply| reply.elapsed_ms);
    let meta = Value::record([
        (names::NODE_TYPE, Value::from(NodeType::State.name())),
        (names::STATUS, Status::Completed.name().into()),
        (names::EXECUTION_TIME_MS, Value::from(elapsed)),
        (names::STATE, at.state().unwrap_or_default().into()),
    ]);
    Ok(envelope(load(&judged.details)?, answer, stderr, meta))
}

/// The end of what a program printed to a stream.
pub struct PrintedTail {
    /// The stream that it was printed to.
    pub stream: Stream,
    /// Its last lines.
    pub lines: Vec<String>,
    /// The number of lines before them.
    pub before: usize,
}

/// The end of what a failed step printed: of stderr, and of stdout if stderr is empty, if an agent answered,
/// or if the step failed because of what it printed. Nothing of a step that is no program.
pub fn failure_tails(left: &Envelope, max_lines: usize) -> Vec<PrintedTail> {
    let is_agent = left.meta.get(names::AGENT_ID).is_some();
    if !is_agent && left.meta.get(names::CPU_TIME_MS).is_none() {
        return Vec::new();
    }
    let text = |name: &str| left.also.as_ref()?.get(name)?.as_str().filter(|text| !text.trim().is_empty());
    let (stdout, stderr) = (text(names::OUTPUT), text(names::STDERR));
    let is_unfit =
        matches!(FailureKind::of_meta(&left.meta), Some(FailureKind::Format | FailureKind::Expectation));
    let stdout = stdout.filter(|_| is_agent || is_unfit || stderr.is_none());
    let streams = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)];
    let tails = streams.into_iter().filter_map(|(stream, text)| Some((stream, text?)));
    let tails = tails.map(|(stream, text)| {
        let lines = words::last_lines(text, max_lines);
        let before = text.trim_end().split('\n').count() - lines.len();
        PrintedTail { stream, lines: lines.into_iter().map(Into::into).collect(), before }
    });
    tails.collect()
}

/// Everything that is known about how a step went.
fn meta(
    status: Status,
    measurement: &Measurement,
    failure: Option<&Failure>,
    last: Option<(&'static str, &str)>,
) -> Value {
    let Timing { started, finished, elapsed } = measurement.timing;
    let mut meta: Vec<(EcoString, Value)> = vec![
        (names::NODE_TYPE.into(), measurement.node_type.into()),
        (names::STATUS.into(), status.name().into()),
        (names::EXECUTION_TIME_MS.into(), millis(elapsed)),
        (names::STARTED_AT.into(), time_text(started).into()),
        (names::FINISHED_AT.into(), time_text(finished).into()),
        (names::RETRY_COUNT.into(), i64::from(measurement.retries).into()),
    ];
    if let Some(failure) = failure {
        meta.push((names::ERROR.into(), failure.message.as_str().into()));
        meta.push((names::ERROR_TYPE.into(), failure.kind.name().into()));
    }
    let own = measurement.own.iter().map(|(name, value)| ((*name).into(), value.clone()));
    meta.extend(own.chain(last.map(|(name, text)| (name.into(), text.into()))));
    // An object of a few texts and numbers is never too large.
    Value::object(meta).unwrap_or_default()
}

/// A time as RFC 3339 writes it: UTC, with milliseconds.
pub fn time_text(time: Millis) -> String {
    // A time outside of the years that can be written is the first that can.
    let timestamp = jiff::Timestamp::from_millisecond(time).unwrap_or(jiff::Timestamp::MIN);
    format!("{timestamp:.3}")
}

pub(super) fn millis(duration: Duration) -> Value {
    Value::from(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// A duration in seconds, exact to the millisecond.
pub(super) fn seconds(duration: Duration) -> Value {
    let text = format!("{}.{:03}", duration.as_secs(), duration.subsec_millis());
    Number::parse(&text).map_or(Value::NULL, Value::from)
}

/// The result of an attempt when it is what the step expects; otherwise the failure of the step.
pub(super) fn compare(settled: &Settled, measurement: &Measurement, result: StepResult) -> StepResult {
    let Ok(value) = &result.value else { return result };
    let meta = meta(Status::Completed, measurement, None, None);
    // What a program printed as text, or a tool answered, is the value itself.
    let is_answer = meta.get(names::TOOL_NAME).is_some() && value.as_str().is_some();
    let is_printed = is_answer || meta.get(names::CPU_TIME_MS).is_some();
    let printed = result.output.as_ref().or(Some(value).filter(|_| is_printed));
    let compared = evaluate::Observed { value, output: printed, meta: &meta };
    let message = match evaluate::expected(settled, &compared, Wanted::Unmet) {
        Err(why) => format!("`expect` cannot be evaluated: {why}"),
        Ok(outcomes) if outcomes.is_empty() => return result,
        Ok(outcomes) => {
            outcomes.iter().map(|outcome| describe_unmet("expect", outcome)).collect::<Vec<_>>().join("\n")
        }
    };
    // What it printed can still be read.
    let output = printed.cloned();
    let value = Err(Failure::new(FailureKind::Expectation, message));
    StepResult { value, output, stderr: result.stderr, exact: result.exact }
}

/// Why an expectation behind a key is not met: a sentence, and the tree where that says more.
pub(crate) fn describe_unmet(key: &str, outcome: &ExpectationOutcome) -> String {
    let (answer, reason) = (outcome.answer.words(), &outcome.reason);
    // One that stands alone has no name of its own.
    let name = Some(&outcome.name).filter(|name| *name != ALONE);
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    let sentence = format!("`{key}`{name} is {answer}: {reason}");
    if outcome.tree.children.is_empty() { sentence } else { format!("{sentence}\n{}", outcome.tree) }
}

/// What a process adds to the meta data.
pub(crate) fn usage(end: &ProcessEnd) -> Vec<(&'static str, Value)> {
    let mut own = Vec::new();
    match end.ending {
        ProcessEnding::Exited(code) => own.push((names::EXIT_CODE, i64::from(code).into())),
        ProcessEnding::Signalled(signal) => own.push((names::SIGNAL, i64::from(signal).into())),
        _ => {}
    }
    own.push((names::CPU_TIME_MS, millis(end.cpu_time)));
    // Tenths of a MiB, exact.
    let tenths = i64::try_from(end.max_memory.saturating_mul(10) >> 20).unwrap_or(i64::MAX);
    let mebibytes = Number::parse(&format!("{}.{}", tenths / 10, tenths % 10));
    own.extend(mebibytes.map(|mebibytes| (names::MEMORY_USAGE_MB, mebibytes.into())));
    own.extend(end.worker.as_ref().map(|worker| (names::WORKER, worker.into())));
    own
}

/// Why a process did not end well. `None` when it exited with 0.
pub fn process_failure(
    ending: &ProcessEnding,
    limits: &EffectLimits,
    cut_short: Option<&Limit>,
) -> Option<Failure> {
    Some(match ending {
        ProcessEnding::Exited(0) => return None,
        ProcessEnding::Exited(code) => {
            Failure::new(FailureKind::ExitCode, describe_exit_code(i64::from(*code)))
        }
        ProcessEnding::Signalled(signal) => {
            Failure::new(FailureKind::Signal, format!("ended by signal {signal}"))
        }
        ProcessEnding::TimedOut => timed_out(limits.timeout, cut_short),
        ProcessEnding::Silent => {
            let time = limits.idle_timeout.map_or_else(|| "too long".to_owned(), words::duration);
            Failure::new(FailureKind::Timeout, format!("printed nothing for {time}"))
        }
        ProcessEnding::Cancelled => Failure::new(FailureKind::Cancelled, "stopped"),
        ProcessEnding::OutputTooLarge(stream) => {
            let message = format!("printed more than {} bytes to {}", limits.max_output, stream.name());
            Failure::new(FailureKind::OutputTooLarge, message)
        }
        ProcessEnding::OutputNotKept(stream, why) => {
            let message = format!("its {} could not be kept: {why}", stream.name());
            Failure::new(FailureKind::OutputTooLarge, message)
        }
        ProcessEnding::NeedsTerminal => {
            Failure::new(FailureKind::Start, "it asked for a terminal, which a step does not have")
        }
    })
}

/// The failure of what took too long: its own `timeout`, or the limit of its item, phase or loop that left it less time.
pub fn timed_out(timeout: Option<Duration>, cut_short: Option<&Limit>) -> Failure {
    if let Some(limit) = cut_short {
        return limit_reached(limit);
    }
    let time = timeout.map_or(String::new(), |time| format!(" after {}", words::duration(time)));
    Failure::new(FailureKind::Timeout, format!("timed out{time}"))
}

/// The failure of a step whose item, phase or loop has no time left.
pub(crate) fn limit_reached(limit: &Limit) -> Failure {
    let message = format!("the {} timed out after {}", limit.scope, words::duration(limit.allowed));
    Failure::new(FailureKind::Timeout, message)
}

/// An exit code, with what shells mean by some of them.
pub(crate) fn describe_exit_code(code: i64) -> String {
    match code {
        126 => "exit code 126 (found, but not executable)".to_owned(),
        127 => "exit code 127 (command not found)".to_owned(),
        _ => format!("exit code {code}"),
    }
}

/// Whether a shell says with an exit code that the program could not be started, or that a signal ended it.
pub(crate) fn is_abnormal_exit(code: i64) -> bool {
    /// What a shell adds to the number of a signal.
    const SIGNALLED: i64 = 128;
    /// The last of the signals that end a program.
    const LAST_SIGNAL: i64 = 31;
    matches!(code, 126 | 127) || (SIGNALLED + 1..=SIGNALLED + LAST_SIGNAL).contains(&code)
}

/// Output as a value of a format. A text loses its final line breaks.
pub fn read_output(text: &str, format: CaptureFormat) -> Result<Value, Failure> {
    let text = trim_newlines(text);
    let unfit = |what: &str| {
        let found = threadline_lang::diag::preview(&text.into());
        Err(Failure::new(FailureKind::Format, format!("the output is not {what}: {found}")))
    };
    match format {
        CaptureFormat::Text => Ok(Value::from(text)),
        CaptureFormat::Json => data::json::read_value(text, &Limits::DEFAULT)
            .map_err(|error| Failure::new(FailureKind::Format, format!("the output is not JSON: {error}"))),
        CaptureFormat::Lines => {
            let lines = if text.is_empty() { Vec::new() } else { text.lines().map(Value::from).collect() };
            Value::list(lines).or_else(|_| unfit("of a size that a list can have"))
        }
        CaptureFormat::Number => match Number::parse(text.trim()) {
            Ok(number) => Ok(number.into()),
            Err(_) => unfit("a number"),
        },
        CaptureFormat::Boolean => match text.trim() {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => unfit("`true` or `false`"),
        },
    }
}

/// What a process printed, as text.
pub(crate) struct Printed {
    pub(crate) stdout: Result<String, Failure>,
    /// What it printed to stdout for people, where it is not UTF-8.
    lossy: Option<String>,
    stderr: String,
    /// How that differs from the bytes that it printed.
    pub(crate) exact: ExactStreams<Value>,
}

impl Printed {
    pub(crate) fn of(end: &mut ProcessEnd) -> Self {
        let exact = ExactStreams {
            stdout: end.stdout.as_ref().ok().and_then(|bytes| ExactStream::of(bytes)),
            stderr: ExactStream::of(&end.stderr),
        };
        let stdout = std::mem::replace(&mut end.stdout, Ok(Vec::new()));
        let stdout = stdout.map_err(|why| Failure::new(FailureKind::OutputTooLarge, why));
        let mut lossy = None;
        let stdout = stdout.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| {
                lossy = Some(String::from_utf8_lossy(error.as_bytes()).into_owned());
                let at = error.utf8_error().valid_up_to();
                let message =
                    format!("its output is not UTF-8 at byte {at}; pipe it through `base64`, or into a file");
                Failure::new(FailureKind::Format, message)
            })
        });
        Self { stdout, lossy, stderr: String::from_utf8_lossy(&end.stderr).into_owned(), exact }
    }

    /// What it printed to stdout, with a mark in place of what is not UTF-8.
    pub(crate) fn output(&self) -> Option<Value> {
        let text = self.stdout.as_ref().ok().or(self.lossy.as_ref())?;
        Some(Value::from(trim_newlines(text)))
    }

    pub(crate) fn stderr(&self) -> Option<Value> {
        let text = trim_newlines(&self.stderr);
        (!text.is_empty()).then(|| Value::from(text))
    }
}
