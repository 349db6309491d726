//! What a step leaves: its output read as the format says, and the meta data with everything that was measured.

use ecow::EcoString;
use jiff::Timestamp;
use threadline_engine::evaluate::{self, Wanted};
use threadline_engine::event::{Output, Status};
use threadline_engine::view::Limit;
use threadline_expect::{ALONE, ExpectationOutcome, Settled};
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::CaptureFormat;
use threadline_lang::{Envelope, Limits, Number, Value, data};
use threadline_store::{JournalError, Reader, Store, StoreError};

use crate::process::{Ended, How};

/// What was measured of a step.
pub struct Measured {
    /// What sort of step it is.
    pub node_type: &'static str,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// How long it took, by a clock that does not jump.
    pub elapsed: std::time::Duration,
    /// How many attempts went before.
    pub retries: u32,
    /// What the sort of step adds.
    pub own: Vec<(&'static str, Value)>,
}

/// A result before it is stored.
pub struct Left {
    /// The value, or why there is none.
    pub value: Result<Value, Failure>,
    /// What it printed, where that is not the value.
    pub output: Option<Value>,
    /// What it printed to stderr.
    pub stderr: Option<Value>,
}

/// The envelope of a step, its large values stored.
pub fn envelope(store: &Store, measured: &Measured, result: Left) -> Result<Output, StoreError> {
    let (status, value, failure) = match result.value {
        Ok(value) => (Status::Completed, value, None),
        Err(failure) => (Status::Failed, Value::NULL, Some(failure)),
    };
    stored(store, status, measured, &value, failure, result.output, result.stderr)
}

/// What a step left when it is what the step expects; else the failure of the step.
pub fn checked(settled: &Settled, measured: &Measured, left: Left) -> Left {
    let Ok(value) = &left.value else { return left };
    let meta = meta(Status::Completed, measured, None);
    // What a program printed as text, or somebody answered, is the value itself.
    let is_answer = meta.get("tool_name").is_some() && value.as_str().is_some();
    let is_printed = is_answer || meta.get("cpu_time_ms").is_some();
    let printed = left.output.as_ref().or(Some(value).filter(|_| is_printed));
    let compared = evaluate::Left { value, output: printed, meta: &meta };
    let message = match evaluate::expected(settled, &compared, Wanted::Unmet) {
        Err(why) => format!("`expect` cannot be evaluated: {why}"),
        Ok(outcomes) if outcomes.is_empty() => return left,
        Ok(outcomes) => outcomes.iter().map(told).collect::<Vec<_>>().join("\n"),
    };
    // What it printed can still be read.
    let output = printed.cloned();
    Left { value: Err(Failure::new(FailureKind::Expectation, message)), output, stderr: left.stderr }
}

/// Why an expectation is not met: a sentence, and the tree where that says more.
fn told(outcome: &ExpectationOutcome) -> String {
    let (answer, reason) = (outcome.answer.words(), &outcome.reason);
    // One that stands alone has no name of its own.
    let name = Some(&outcome.name).filter(|name| *name != ALONE);
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    let said = format!("`expect`{name} is {answer}: {reason}");
    if outcome.tree.children.is_empty() { said } else { format!("{said}\n{}", outcome.tree) }
}

/// The envelope of a step that did not run.
pub fn skipped(store: &Store, measured: &Measured, reason: &str) -> Result<Output, StoreError> {
    let mut output = stored(store, Status::Skipped, measured, &Value::NULL, None, None, None)?;
    output.meta = with(&output.meta, "reason", Value::from(reason));
    Ok(output)
}

fn stored(
    store: &Store,
    status: Status,
    measured: &Measured,
    value: &Value,
    failure: Option<Failure>,
    output: Option<Value>,
    stderr: Option<Value>,
) -> Result<Output, StoreError> {
    let store_it = |value: Option<Value>| value.map(|value| store.datum(&value)).transpose();
    Ok(Output {
        status,
        value: store.datum(value)?,
        output: store_it(output)?,
        stderr: store_it(stderr)?,
        meta: meta(status, measured, failure),
    })
}

/// Everything that is known about how a step went.
fn meta(status: Status, measured: &Measured, failure: Option<Failure>) -> Value {
    let mut meta = vec![
        entry("node_type", measured.node_type.into()),
        entry("status", status.name().into()),
        entry("execution_time_ms", millis(measured.elapsed)),
        entry("started_at", time(measured.started)),
        entry("finished_at", time(measured.finished)),
        entry("retry_count", i64::from(measured.retries).into()),
    ];
    if let Some(failure) = failure {
        meta.push(entry("error", failure.message.as_str().into()));
        meta.push(entry("error_type", failure.kind.name().into()));
    }
    meta.extend(measured.own.iter().map(|(name, value)| entry(name, value.clone())));
    Value::record(meta)
}

fn entry(name: &str, value: Value) -> (EcoString, Value) {
    (name.into(), value)
}

pub(crate) fn with(object: &Value, name: &str, value: Value) -> Value {
    let entries = object.as_object().into_iter().flat_map(|object| object.iter());
    let entries = entries.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(entries.chain([entry(name, value)]))
}

/// RFC 3339, UTC, milliseconds.
pub fn time(timestamp: Timestamp) -> Value {
    Value::from(format!("{timestamp:.3}"))
}

pub(crate) fn millis(duration: std::time::Duration) -> Value {
    Value::from(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// What was measured of a process, for the meta data.
pub fn usage(ended: &Ended) -> Vec<(&'static str, Value)> {
    let mut own = Vec::new();
    match ended.how {
        How::Exited(code) => own.push(("exit_code", i64::from(code).into())),
        How::Signalled(signal) => own.push(("signal", i64::from(signal).into())),
        _ => {}
    }
    own.push(("cpu_time_ms", millis(ended.usage.cpu_time)));
    // Tenths of a MiB, exact.
    let tenths = i64::try_from(ended.usage.max_memory * 10 / (1 << 20)).unwrap_or(i64::MAX);
    own.extend(
        Number::parse(&format!("{}.{}", tenths / 10, tenths % 10)).map(|mb| ("memory_usage_mb", mb.into())),
    );
    own
}

/// How the failure of a process that printed nothing begins.
const SILENT: &str = "printed nothing for";

/// Why a process did not end well, in words.
pub fn ending(
    how: How,
    timeout: Option<std::time::Duration>,
    idle_timeout: Option<std::time::Duration>,
    max_output: u64,
) -> Option<Failure> {
    Some(match how {
        How::Exited(0) => return None,
        How::Exited(code) => {
            Failure::new(FailureKind::ExitCode, format!("exit code {code}{}", meaning(code)))
        }
        How::Signalled(signal) => Failure::new(FailureKind::Signal, format!("ended by signal {signal}")),
        How::TimedOut => {
            let time = timeout.map_or(String::new(), |time| format!(" after {}", spoken(time)));
            Failure::new(FailureKind::Timeout, format!("timed out{time}"))
        }
        How::Silent => {
            let time = idle_timeout.map_or_else(|| "too long".to_owned(), spoken);
            Failure::new(FailureKind::Timeout, format!("{SILENT} {time}"))
        }
        How::Cancelled => Failure::new(FailureKind::Cancelled, "stopped"),
        How::OutputTooLarge(stream) => {
            let message = format!("printed more than {max_output} bytes to {}", stream.name());
            Failure::new(FailureKind::OutputTooLarge, message)
        }
        How::OutputNotKept(stream, kind) => Failure::new(
            FailureKind::OutputTooLarge,
            format!("its {} could not be kept: {kind}", stream.name()),
        ),
        How::NeedsTerminal => {
            Failure::new(FailureKind::Start, "it asked for a terminal, which a step does not have")
        }
    })
}

/// The time of what a step belongs to is over.
pub(crate) fn over(limit: &Limit) -> Failure {
    Failure::new(
        FailureKind::Timeout,
        format!("the {} timed out after {}", limit.scope, spoken(limit.allowed)),
    )
}

/// A step whose time was what was left of this limit says so when that was not enough.
pub(crate) fn name_limit(output: &mut Output, limit: &Limit) {
    let failure = over(limit);
    if FailureKind::of_meta(&output.meta) != Some(failure.kind) {
        return;
    }
    if output.meta.get("error").and_then(Value::as_str).is_some_and(|error| error.starts_with(SILENT)) {
        return;
    }
    let Some(meta) = output.meta.as_object() else { return };
    let entries = meta.iter().map(|(name, value)| {
        let value =
            if name.as_str() == "error" { Value::from(failure.message.as_str()) } else { value.clone() };
        (EcoString::from(name.as_str()), value)
    });
    if let Ok(named) = Value::object(entries) {
        output.meta = named;
    }
}

/// What shells mean by some exit codes.
fn meaning(code: i32) -> &'static str {
    match code {
        126 => " (found, but not executable)",
        127 => " (command not found)",
        _ => "",
    }
}

/// A duration as people write it.
pub fn spoken(duration: std::time::Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..1_000 => format!("{millis}ms"),
        _ if millis.is_multiple_of(1_000) && millis < 60_000 => format!("{}s", millis / 1_000),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", millis / 60_000, millis / 1_000 % 60),
        _ => format!("{}h{:02}m", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// Output as a value of a format. Texts come without their final line breaks.
pub fn read(text: &str, format: CaptureFormat) -> Result<Value, Failure> {
    let text = stripped(text);
    let unfit = |what: &str| {
        Err(Failure::new(
            FailureKind::Format,
            format!("the output is not {what}: {}", threadline_lang::diag::preview(&text.into())),
        ))
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

/// Without final line breaks, as `$(...)` of a shell.
pub fn stripped(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r'])
}

/// An output of the journal as it can be read by name.
pub fn loaded(reader: &Reader, output: &Output) -> Result<Envelope, JournalError> {
    let value = reader.load(&output.value)?;
    let printed = match &output.output {
        Some(printed) => reader.load(printed)?,
        None if value.as_str().is_some() => value.clone(),
        None => Value::NULL,
    };
    let stderr = match &output.stderr {
        Some(stderr) => reader.load(stderr)?,
        None => Value::from(""),
    };
    let of_meta = |name: &str| output.meta.get(name).cloned().unwrap_or_default();
    let also = [
        entry("output", printed),
        entry("stderr", stderr),
        entry("exit_code", of_meta("exit_code")),
        entry("duration_ms", of_meta("execution_time_ms")),
        entry("state", output.meta.get("state").cloned().unwrap_or_else(|| of_meta("status"))),
    ];
    let also = Value::object(also).ok();
    Ok(Envelope { also, ..Envelope::new(value, output.meta.clone()) })
}
