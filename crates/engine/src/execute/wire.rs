//! Effects and their results as JSON values, so that a worker on another machine can perform them.
//!
//! Only what needs nothing of the coordinator has a form here: programs, requests and files. Tools, called runs, items
//! and worktrees live where the journal is, and an effect that reads secrets is performed
//! where the secrets are. The form has a version; a key, a word or a version that is not known is an error, never
//! ignored.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ecow::EcoString;
use threadline_flow::fields::{Failure, FailureKind, METHODS};
use threadline_lang::Value;

use super::effect::{
    Effect, EffectKey, EffectLimits, EffectResult, EffectText, FileSpec, NoResponse, Pieces, ProcessEnd,
    ProcessEnding, ProcessSpec, ReadSpec, RequestSpec, Response, Role, StartFailure, Stream,
};
use super::result::Timing;
use crate::evaluate::{HostPolicy, Request};
use crate::event::Address;

/// The version of the form.
const VERSION: i64 = 1;

/// Why a value is no effect or result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectWireError(String);

impl fmt::Display for EffectWireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EffectWireError {}

type WireResult<T> = Result<T, EffectWireError>;

fn wrong<T>(message: impl Into<String>) -> WireResult<T> {
    Err(EffectWireError(message.into()))
}

/// An effect with its key, when a worker elsewhere can perform it.
pub fn encode_effect(key: &EffectKey, effect: &Effect) -> Option<Value> {
    let (kind, spec) = match effect {
        Effect::Process(spec) => ("process", process_spec(spec)),
        Effect::Request(spec) => ("request", request_spec(spec)),
        Effect::ReadFile(spec) => ("read_file", Value::record([("path", spec.path.as_str().into())])),
        Effect::WriteFile(spec) => ("write_file", file_spec(spec)),
        Effect::Nothing
        | Effect::Pause(_)
        | Effect::Tool(_)
        | Effect::ListTools(_)
        | Effect::Workflow(_)
        | Effect::ReadItems(_)
        | Effect::EnterWorktree { .. }
        | Effect::MergeItem(_)
        | Effect::AbandonItem { .. }
        | Effect::CloseWorktrees
        | Effect::WithSecrets(_) => return None,
    };
    Some(Value::record([
        ("v", VERSION.into()),
        ("at", key.at.as_str().into()),
        ("as_of", key.as_of.into()),
        ("attempt", u64::from(key.attempt).into()),
        ("role", key.role.name().into()),
        ("exchange", u64::from(key.exchange).into()),
        ("kind", kind.into()),
        ("spec", spec),
    ]))
}

/// The effect that [`encode_effect`] wrote.
pub fn decode_effect(value: &Value) -> WireResult<(EffectKey, Effect)> {
    let fields = ExactKeys::of(value, &["v", "at", "as_of", "attempt", "role", "exchange", "kind", "spec"])?;
    fields.version()?;
    let role = fields.text("role")?;
    let Some(role) = Role::ALL.into_iter().find(|known| known.name() == role) else {
        return wrong(format!("unknown role `{role}`"));
    };
    let at = Address::parse(fields.text("at")?).map_err(|error| EffectWireError(error.to_string()))?;
    let (as_of, attempt) = (fields.int("as_of")?, fields.int("attempt")?);
    let key = EffectKey { at, as_of, attempt, role, exchange: fields.int("exchange")? };
    let spec = fields.get("spec")?;
    let effect = match fields.text("kind")? {
        "process" => Effect::Process(read_process_spec(spec)?),
        "request" => Effect::Request(read_request_spec(spec)?),
        "read_file" => {
            let path = ExactKeys::of(spec, &["path"])?.text("path")?.to_owned();
            Effect::ReadFile(ReadSpec { path })
        }
        "write_file" => Effect::WriteFile(read_file_spec(spec)?),
        other => return wrong(format!("unknown effect `{other}`")),
    };
    Ok((key, effect))
}

/// The result of an effect that a worker performed.
pub fn encode_result(result: &EffectResult) -> Option<Value> {
    let (kind, data) = match result {
        EffectResult::Cancelled => ("cancelled", Value::NULL),
        EffectResult::Process(Ok(end)) => ("ended", process_end(end)),
        EffectResult::Process(Err(failure)) => ("not_started", start_failure(failure)),
        EffectResult::Response(Ok(response), timing_) => {
            ("response", with_timing(response_fields(response), timing_))
        }
        EffectResult::Response(Err(missing), timing_) => {
            ("no_response", with_timing(no_response_fields(missing), timing_))
        }
        EffectResult::Read(Ok(text), timing_) => ("read", with_timing(text.as_str().into(), timing_)),
        EffectResult::Read(Err(failure_), timing_) => ("not_read", with_timing(failure(failure_), timing_)),
        EffectResult::Written(Ok(()), timing_) => ("written", timing(timing_)),
        EffectResult::Written(Err(failure_), timing_) => {
            ("not_written", with_timing(failure(failure_), timing_))
        }
        EffectResult::Nothing
        | EffectResult::Refused(_)
        | EffectResult::Interrupted(_)
        | EffectResult::Leaked(..)
        | EffectResult::Tool(..)
        | EffectResult::Tools(..)
        | EffectResult::Called(..)
        | EffectResult::Items(_)
        | EffectResult::Worktree(_)
        | EffectResult::Branch(_) => return None,
    };
    Some(Value::record([("v", VERSION.into()), ("kind", kind.into()), ("data", data)]))
}

/// The result that [`encode_result`] wrote.
pub fn decode_result(value: &Value) -> WireResult<EffectResult> {
    let fields = ExactKeys::of(value, &["v", "kind", "data"])?;
    fields.version()?;
    let data = fields.get("data")?;
    Ok(match fields.text("kind")? {
        "cancelled" => EffectResult::Cancelled,
        "ended" => EffectResult::Process(Ok(read_process_end(data)?)),
        "not_started" => EffectResult::Process(Err(read_start_failure(data)?)),
        "response" => {
            let (response, timing) = read_with_timing(data, read_response)?;
            EffectResult::Response(Ok(response), timing)
        }
        "no_response" => {
            let (missing, timing) = read_with_timing(data, read_no_response)?;
            EffectResult::Response(Err(missing), timing)
        }
        "read" => {
            let (text, timing) = read_with_timing(data, read_text)?;
            EffectResult::Read(Ok(text), timing)
        }
        "not_read" => {
            let (failure, timing) = read_with_timing(data, read_failure)?;
            EffectResult::Read(Err(failure), timing)
        }
        "written" => EffectResult::Written(Ok(()), read_timing(data)?),
        "not_written" => {
            let (failure, timing) = read_with_timing(data, read_failure)?;
            EffectResult::Written(Err(failure), timing)
        }
        other => return wrong(format!("unknown result `{other}`")),
    })
}

// ---- effects ------------------------------------------------------------------------------------------------

fn process_spec(spec: &ProcessSpec) -> Value {
    Value::record([
        ("program", pieces(&spec.program)),
        ("arguments", Value::sequence(spec.arguments.iter().map(pieces))),
        ("files", Value::sequence(spec.files.iter().map(pieces))),
        ("env", variables(&spec.env)),
        ("cwd", optional_text(spec.cwd.as_deref())),
        ("stdin", optional_text(spec.stdin.as_deref())),
        ("reports_usage", spec.reports_usage.into()),
        ("limits", limits(&spec.limits)),
    ])
}

fn read_process_spec(value: &Value) -> WireResult<ProcessSpec> {
    let fields = ExactKeys::of(
        value,
        &["program", "arguments", "files", "env", "cwd", "stdin", "reports_usage", "limits"],
    )?;
    Ok(ProcessSpec {
        program: read_pieces(fields.get("program")?)?,
        arguments: fields.list("arguments")?.iter().map(read_pieces).collect::<WireResult<_>>()?,
        files: fields.list("files")?.iter().map(read_pieces).collect::<WireResult<_>>()?,
        env: fields.list("env")?.iter().map(read_variable).collect::<WireResult<_>>()?,
        cwd: fields.optional_text("cwd")?,
        stdin: fields.optional_text("stdin")?,
        reports_usage: fields.get("reports_usage")?.as_bool() == Some(true),
        limits: read_limits(fields.get("limits")?)?,
    })
}

fn pieces(pieces: &Pieces) -> Value {
    Value::sequence(pieces.iter().map(|piece| match piece {
        EffectText::Text(text) => Value::from(text.as_str()),
        EffectText::PathOf(file) => Value::record([("path_of", (*file as u64).into())]),
        EffectText::QuotedPathOf(file) => Value::record([("quoted_path_of", (*file as u64).into())]),
    }))
}

fn read_pieces(value: &Value) -> WireResult<Pieces> {
    let Some(list) = value.as_list() else { return wrong("a text is no list of pieces") };
    let piece = |piece: &Value| {
        if let Some(text) = piece.as_str() {
            return Ok(EffectText::Text(text.to_owned()));
        }
        match ExactKeys::of(piece, &["path_of"]) {
            Ok(fields) => Ok(EffectText::PathOf(fields.int("path_of")?)),
            Err(_) => Ok(EffectText::QuotedPathOf(
                ExactKeys::of(piece, &["quoted_path_of"])?.int("quoted_path_of")?,
            )),
        }
    };
    list.iter().map(piece).collect()
}

fn variables(env: &[(EcoString, Option<String>)]) -> Value {
    Value::sequence(
        env.iter().map(|(name, value)| {
            Value::sequence([Value::from(name.as_str()), optional_text(value.as_deref())])
        }),
    )
}

fn read_variable(value: &Value) -> WireResult<(EcoString, Option<String>)> {
    match value.as_list() {
        Some([name, value]) if value.is_null() || value.as_str().is_some() => match name.as_str() {
            Some(name) => Ok((name.into(), value.as_str().map(str::to_owned))),
            None => wrong("a variable has no name"),
        },
        _ => wrong("a variable is a name and a value"),
    }
}

fn request_spec(spec: &RequestSpec) -> Value {
    let Request { method, url, headers, body, hosts } = &spec.request;
    let known = hosts.known.iter().map(|host| Value::from(host.as_str()));
    Value::record([
        ("method", (*method).into()),
        ("url", url.as_str().into()),
        ("headers", header_lines(headers)),
        ("body", optional_text(body.as_deref())),
        ("is_host_data", hosts.is_data.into()),
        ("known_hosts", Value::sequence(known)),
        ("limits", limits(&spec.limits)),
    ])
}

fn read_request_spec(value: &Value) -> WireResult<RequestSpec> {
    let fields = ExactKeys::of(value, REQUEST_KEYS)?;
    let method = fields.text("method")?;
    let Some(method) = METHODS.iter().map(|known| known.name).find(|known| *known == method) else {
        return wrong(format!("unknown method `{method}`"));
    };
    let request = Request {
        method,
        url: fields.text("url")?.to_owned(),
        headers: read_header_lines(fields.list("headers")?)?,
        body: fields.optional_text("body")?,
        hosts: HostPolicy {
            is_data: fields.bool("is_host_data")?,
            known: fields.list("known_hosts")?.iter().map(read_host).collect::<WireResult<_>>()?,
        },
    };
    Ok(RequestSpec { request, limits: read_limits(fields.get("limits")?)? })
}

const REQUEST_KEYS: &[&str] = &["method", "url", "headers", "body", "is_host_data", "known_hosts", "limits"];

fn read_host(value: &Value) -> WireResult<EcoString> {
    value.as_str().map_or_else(|| wrong("a host is a text"), |host| Ok(host.into()))
}

fn header_lines(headers: &[(EcoString, String)]) -> Value {
    let line = |(name, value): &(EcoString, String)| {
        Value::sequence([Value::from(name.as_str()), Value::from(value.as_str())])
    };
    Value::sequence(headers.iter().map(line))
}

fn read_header_lines(lines: &[Value]) -> WireResult<Vec<(EcoString, String)>> {
    let line = |line: &Value| match line.as_list() {
        Some([name, value]) => match (name.as_str(), value.as_str()) {
            (Some(name), Some(value)) => Ok((name.into(), value.to_owned())),
            _ => wrong("a header line is two texts"),
        },
        _ => wrong("a header line is a name and a value"),
    };
    lines.iter().map(line).collect()
}

fn file_spec(spec: &FileSpec) -> Value {
    Value::record([
        ("path", spec.path.as_str().into()),
        ("content", spec.content.as_str().into()),
        ("mode", spec.mode.map_or(Value::NULL, |mode| u64::from(mode).into())),
        ("create_dirs", spec.create_dirs.into()),
        ("cwd", optional_text(spec.cwd.as_deref())),
    ])
}

fn read_file_spec(value: &Value) -> WireResult<FileSpec> {
    let fields = ExactKeys::of(value, &["path", "content", "mode", "create_dirs", "cwd"])?;
    Ok(FileSpec {
        path: fields.text("path")?.to_owned(),
        content: fields.text("content")?.to_owned(),
        mode: fields.optional_int("mode")?,
        create_dirs: fields.bool("create_dirs")?,
        cwd: fields.optional_text("cwd")?,
    })
}

fn limits(limits: &EffectLimits) -> Value {
    Value::record([
        ("timeout_ms", optional_millis(limits.timeout)),
        ("idle_timeout_ms", optional_millis(limits.idle_timeout)),
        ("max_output", limits.max_output.into()),
    ])
}

fn read_limits(value: &Value) -> WireResult<EffectLimits> {
    let fields = ExactKeys::of(value, &["timeout_ms", "idle_timeout_ms", "max_output"])?;
    Ok(EffectLimits {
        timeout: fields.optional_int("timeout_ms")?.map(Duration::from_millis),
        idle_timeout: fields.optional_int("idle_timeout_ms")?.map(Duration::from_millis),
        max_output: fields.int("max_output")?,
    })
}

// ---- results ------------------------------------------------------------------------------------------------

fn process_end(end: &ProcessEnd) -> Value {
    let stdout = match &end.stdout {
        Ok(written) => Value::record([("ok", bytes(written))]),
        Err(why) => Value::record([("error", why.as_str().into())]),
    };
    let usage = match &end.usage {
        None => Value::NULL,
        Some(Ok(report)) => Value::record([("ok", report.as_str().into())]),
        Some(Err(why)) => Value::record([("error", why.as_str().into())]),
    };
    Value::record([
        ("ending", ending(&end.ending)),
        ("stdout", stdout),
        ("stderr", bytes(&end.stderr)),
        ("cpu_us", micros(end.cpu_time)),
        ("max_memory", end.max_memory.into()),
        ("usage", usage),
        ("timing", timing(&end.timing)),
    ])
}

fn read_process_end(value: &Value) -> WireResult<ProcessEnd> {
    let fields =
        ExactKeys::of(value, &["ending", "stdout", "stderr", "cpu_us", "max_memory", "usage", "timing"])?;
    let stdout = fields.get("stdout")?;
    let stdout = match ExactKeys::of(stdout, &["ok"]) {
        Ok(stdout) => Ok(read_bytes(stdout.get("ok")?)?),
        Err(_) => Err(ExactKeys::of(stdout, &["error"])?.text("error")?.to_owned()),
    };
    Ok(ProcessEnd {
        ending: read_ending(fields.get("ending")?)?,
        stdout,
        stderr: read_bytes(fields.get("stderr")?)?,
        cpu_time: Duration::from_micros(fields.int("cpu_us")?),
        max_memory: fields.int("max_memory")?,
        usage: match fields.get("usage")? {
            usage if usage.is_null() => None,
            usage => Some(match ExactKeys::of(usage, &["ok"]) {
                Ok(usage) => Ok(usage.text("ok")?.to_owned()),
                Err(_) => Err(ExactKeys::of(usage, &["error"])?.text("error")?.to_owned()),
            }),
        },
        timing: read_timing(fields.get("timing")?)?,
        worker: None,
    })
}

fn ending(ending: &ProcessEnding) -> Value {
    let (word, detail): (&str, Value) = match ending {
        ProcessEnding::Exited(code) => ("exited", i64::from(*code).into()),
        ProcessEnding::Signalled(signal) => ("signalled", i64::from(*signal).into()),
        ProcessEnding::TimedOut => ("timed_out", Value::NULL),
        ProcessEnding::Silent => ("silent", Value::NULL),
        ProcessEnding::Cancelled => ("cancelled", Value::NULL),
        ProcessEnding::OutputTooLarge(stream) => ("output_too_large", stream.name().into()),
        ProcessEnding::OutputNotKept(stream, why) => {
            ("output_not_kept", Value::sequence([stream.name().into(), why.as_str().into()]))
        }
        ProcessEnding::NeedsTerminal => ("needs_terminal", Value::NULL),
    };
    Value::sequence([word.into(), detail])
}

fn read_ending(value: &Value) -> WireResult<ProcessEnding> {
    let Some([word, detail]) = value.as_list() else { return wrong("an ending is a word and a detail") };
    let code = || match detail.as_i64().and_then(|code| i32::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => wrong("an ending has no code"),
    };
    Ok(match word.as_str().unwrap_or_default() {
        "exited" => ProcessEnding::Exited(code()?),
        "signalled" => ProcessEnding::Signalled(code()?),
        "timed_out" => ProcessEnding::TimedOut,
        "silent" => ProcessEnding::Silent,
        "cancelled" => ProcessEnding::Cancelled,
        "output_too_large" => ProcessEnding::OutputTooLarge(read_stream(detail)?),
        "output_not_kept" => match detail.as_list() {
            Some([stream, why]) => ProcessEnding::OutputNotKept(
                read_stream(stream)?,
                why.as_str().unwrap_or_default().to_owned(),
            ),
            _ => return wrong("an output that was not kept has a stream and a reason"),
        },
        "needs_terminal" => ProcessEnding::NeedsTerminal,
        other => return wrong(format!("unknown ending `{other}`")),
    })
}

fn read_stream(value: &Value) -> WireResult<Stream> {
    let name = value.as_str().unwrap_or_default();
    match Stream::ALL.into_iter().find(|stream| stream.name() == name) {
        Some(stream) => Ok(stream),
        None => wrong(format!("unknown stream `{name}`")),
    }
}

fn start_failure(failure: &StartFailure) -> Value {
    Value::record([
        ("kind", failure.kind.name().into()),
        ("message", failure.message.as_str().into()),
        ("hint", optional_text(failure.hint.as_deref())),
        ("is_missing", failure.is_missing.into()),
    ])
}

fn read_start_failure(value: &Value) -> WireResult<StartFailure> {
    let fields = ExactKeys::of(value, &["kind", "message", "hint", "is_missing"])?;
    Ok(StartFailure {
        kind: read_failure_kind(fields.text("kind")?)?,
        message: fields.text("message")?.to_owned(),
        hint: fields.optional_text("hint")?,
        is_missing: fields.bool("is_missing")?,
    })
}

fn failure(failure: &Failure) -> Value {
    Value::record([("kind", failure.kind.name().into()), ("message", failure.message.as_str().into())])
}

fn read_failure(value: &Value) -> WireResult<Failure> {
    let fields = ExactKeys::of(value, &["kind", "message"])?;
    Ok(Failure::new(read_failure_kind(fields.text("kind")?)?, fields.text("message")?))
}

fn read_failure_kind(name: &str) -> WireResult<FailureKind> {
    match FailureKind::ALL.into_iter().find(|kind| kind.name() == name) {
        Some(kind) => Ok(kind),
        None => wrong(format!("unknown failure `{name}`")),
    }
}

fn response_fields(response: &Response) -> Value {
    Value::record([
        ("status", u64::from(response.status).into()),
        ("reason", optional_text(response.reason.as_deref())),
        ("headers", header_lines(&response.headers)),
        ("body", bytes(&response.body)),
    ])
}

fn read_response(value: &Value) -> WireResult<Response> {
    let fields = ExactKeys::of(value, &["status", "reason", "headers", "body"])?;
    Ok(Response {
        status: fields.int("status")?,
        reason: fields.optional_text("reason")?,
        headers: read_header_lines(fields.list("headers")?)?,
        body: read_bytes(fields.get("body")?)?,
        worker: None,
    })
}

fn no_response_fields(missing: &NoResponse) -> Value {
    Value::record([
        ("failure", failure(&missing.failure)),
        ("is_sent", missing.is_sent.into()),
        ("received", missing.received.as_deref().map_or(Value::NULL, response_fields)),
    ])
}

fn read_no_response(value: &Value) -> WireResult<NoResponse> {
    let fields = ExactKeys::of(value, &["failure", "is_sent", "received"])?;
    let received = fields.get("received")?;
    Ok(NoResponse {
        failure: read_failure(fields.get("failure")?)?,
        is_sent: fields.bool("is_sent")?,
        received: if received.is_null() { None } else { Some(Box::new(read_response(received)?)) },
    })
}

fn with_timing(result: Value, timing_: &Timing) -> Value {
    Value::record([("result", result), ("timing", timing(timing_))])
}

fn read_with_timing<T>(value: &Value, read: impl FnOnce(&Value) -> WireResult<T>) -> WireResult<(T, Timing)> {
    let fields = ExactKeys::of(value, &["result", "timing"])?;
    Ok((read(fields.get("result")?)?, read_timing(fields.get("timing")?)?))
}

fn timing(timing: &Timing) -> Value {
    Value::record([
        ("started", timing.started.into()),
        ("finished", timing.finished.into()),
        ("elapsed_us", micros(timing.elapsed)),
    ])
}

fn read_timing(value: &Value) -> WireResult<Timing> {
    let fields = ExactKeys::of(value, &["started", "finished", "elapsed_us"])?;
    Ok(Timing {
        started: fields.int("started")?,
        finished: fields.int("finished")?,
        elapsed: Duration::from_micros(fields.int("elapsed_us")?),
    })
}

// ---- values -------------------------------------------------------------------------------------------------

fn read_text(value: &Value) -> WireResult<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| EffectWireError("what was read is no text".to_owned()))
}

/// Bytes: as text where they are that, otherwise in base64.
fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::record([("text", text.into())]),
        Err(_) => Value::record([("base64", BASE64_STANDARD.encode(bytes).into())]),
    }
}

fn read_bytes(value: &Value) -> WireResult<Vec<u8>> {
    if let Ok(fields) = ExactKeys::of(value, &["text"]) {
        return Ok(fields.text("text")?.as_bytes().to_vec());
    }
    let text = ExactKeys::of(value, &["base64"])?.text("base64")?.to_owned();
    BASE64_STANDARD.decode(text).map_err(|error| EffectWireError(format!("bytes are no base64: {error}")))
}

fn optional_text(text: Option<&str>) -> Value {
    text.map_or(Value::NULL, Value::from)
}

fn optional_millis(duration: Option<Duration>) -> Value {
    duration.map_or(Value::NULL, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into())
}

fn micros(duration: Duration) -> Value {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).into()
}

/// The fields of an object that has exactly these keys.
struct ExactKeys<'v>(&'v Value);

impl<'v> ExactKeys<'v> {
    fn of(value: &'v Value, keys: &[&str]) -> WireResult<Self> {
        let Some(object) = value.as_object() else { return wrong("expected an object") };
        if let Some((key, _)) = object.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            return wrong(format!("unknown key `{}`", key.as_str()));
        }
        match keys.iter().find(|key| value.get(key).is_none()) {
            Some(missing) => wrong(format!("`{missing}` is missing")),
            None => Ok(Self(value)),
        }
    }

    fn version(&self) -> WireResult<()> {
        match self.int::<i64>("v")? {
            VERSION => Ok(()),
            other => wrong(format!("version {other} is not known")),
        }
    }

    fn get(&self, key: &str) -> WireResult<&'v Value> {
        self.0.get(key).ok_or_else(|| EffectWireError(format!("`{key}` is missing")))
    }

    fn text(&self, key: &str) -> WireResult<&'v str> {
        self.get(key)?.as_str().ok_or_else(|| EffectWireError(format!("`{key}` is no text")))
    }

    fn optional_text(&self, key: &str) -> WireResult<Option<String>> {
        if self.get(key)?.is_null() { Ok(None) } else { self.text(key).map(|text| Some(text.to_owned())) }
    }

    fn list(&self, key: &str) -> WireResult<&'v [Value]> {
        self.get(key)?.as_list().ok_or_else(|| EffectWireError(format!("`{key}` is no list")))
    }

    fn bool(&self, key: &str) -> WireResult<bool> {
        self.get(key)?.as_bool().ok_or_else(|| EffectWireError(format!("`{key}` is no bool")))
    }

    fn int<T: std::str::FromStr>(&self, key: &str) -> WireResult<T> {
        let value = self.get(key)?;
        let number = value.as_number().and_then(|number| number.to_string().parse().ok());
        number.ok_or_else(|| EffectWireError(format!("`{key}` is no whole number that fits")))
    }

    fn optional_int<T: std::str::FromStr>(&self, key: &str) -> WireResult<Option<T>> {
        if self.get(key)?.is_null() { Ok(None) } else { self.int(key).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use threadline_lang::Limits;
    use threadline_lang::data;
    use threadline_lang::value::JsonStyle;

    use super::*;

    fn through_text(value: &Value) -> Value {
        data::json::read_value(&value.to_json(JsonStyle::Compact), &Limits::DEFAULT).unwrap()
    }

    fn key() -> EffectKey {
        let at = Address::parse("map[17]/2").unwrap();
        EffectKey { at, as_of: 41, attempt: 2, role: Role::Act, exchange: 1 }
    }

    fn effect_limits() -> EffectLimits {
        EffectLimits { timeout: Some(Duration::from_millis(1_500)), idle_timeout: None, max_output: 64 << 20 }
    }

    fn effects() -> Vec<Effect> {
        let process = ProcessSpec {
            program: vec![EffectText::Text("bash".into())],
            arguments: vec![
                vec![EffectText::Text("cat ".into()), EffectText::QuotedPathOf(0)],
                vec![EffectText::PathOf(1)],
            ],
            files: vec![vec![EffectText::Text("a\nb".into())], vec![EffectText::PathOf(0)]],
            env: vec![("A".into(), Some("1".into())), ("B".into(), None)],
            cwd: Some("sub".into()),
            stdin: Some("it's \u{0} \u{1f600}".into()),
            reports_usage: true,
            limits: effect_limits(),
        };
        let request = Request {
            method: "PATCH",
            url: "http://127.0.0.1/x?y=%20".into(),
            headers: vec![("accept".into(), "text/plain".into())],
            body: Some("{}".into()),
            hosts: HostPolicy { is_data: true, known: vec!["localhost".into()] },
        };
        let file = FileSpec {
            path: "out/a".into(),
            content: "text".into(),
            mode: Some(0o640),
            create_dirs: true,
            cwd: None,
        };
        vec![
            Effect::Process(process),
            Effect::Request(RequestSpec { request, limits: effect_limits() }),
            Effect::ReadFile(ReadSpec { path: "in/a".into() }),
            Effect::WriteFile(file),
        ]
    }

    fn results() -> Vec<EffectResult> {
        let timing = Timing { started: 7, finished: 9, elapsed: Duration::from_micros(1_999) };
        let end = |ending, stdout| ProcessEnd {
            ending,
            stdout,
            stderr: vec![0xff, 0, 1],
            cpu_time: Duration::from_micros(3),
            max_memory: 1 << 40,
            usage: Some(Ok("{}".to_owned())),
            timing,
            worker: None,
        };
        let endings = [
            ProcessEnding::Exited(-1),
            ProcessEnding::Signalled(9),
            ProcessEnding::TimedOut,
            ProcessEnding::Silent,
            ProcessEnding::Cancelled,
            ProcessEnding::OutputTooLarge(Stream::Stdout),
            ProcessEnding::OutputNotKept(Stream::Stderr, "no space".into()),
            ProcessEnding::NeedsTerminal,
        ];
        let ended =
            endings.into_iter().map(|ending| EffectResult::Process(Ok(end(ending, Ok(b"85".to_vec())))));
        let response = Response {
            status: 204,
            reason: Some("No Content".into()),
            headers: Vec::new(),
            body: vec![0xc3],
            worker: None,
        };
        let failure = || Failure::new(FailureKind::Http, "no connection");
        let not_started = StartFailure {
            message: "cannot find `x`".into(),
            hint: Some("install it".into()),
            is_missing: true,
            kind: FailureKind::Start,
        };
        let rest = [
            EffectResult::Cancelled,
            EffectResult::Process(Ok(end(ProcessEnding::Exited(0), Err("unreadable".into())))),
            EffectResult::Process(Err(not_started)),
            EffectResult::Response(Ok(response.clone()), timing),
            EffectResult::Response(Err(NoResponse::unsent(failure())), timing),
            EffectResult::Response(
                Err(NoResponse { failure: failure(), is_sent: true, received: Some(Box::new(response)) }),
                timing,
            ),
            EffectResult::Read(Ok("a\nb".into()), timing),
            EffectResult::Read(Err(failure()), timing),
            EffectResult::Written(Ok(()), timing),
            EffectResult::Written(Err(failure()), timing),
        ];
        ended.chain(rest).collect()
    }

    #[test]
    fn effects_come_back_as_they_went() {
        for effect in effects() {
            let written = encode_effect(&key(), &effect).unwrap();
            let (read_key, read) = decode_effect(&through_text(&written)).unwrap();
            assert_eq!((read_key, format!("{read:?}")), (key(), format!("{effect:?}")));
        }
    }

    #[test]
    fn results_come_back_as_they_went() {
        for result in results() {
            let written = encode_result(&result).unwrap();
            let read = decode_result(&through_text(&written)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{result:?}"));
        }
    }

    #[test]
    fn what_lives_beside_the_journal_has_no_form() {
        assert!(encode_effect(&key(), &Effect::CloseWorktrees).is_none());
        assert!(encode_result(&EffectResult::Branch(None)).is_none());
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        let effect = encode_effect(&key(), &effects()[0]).unwrap();
        let fields: Vec<(EcoString, Value)> = {
            let object = effect.as_object().unwrap();
            object.iter().map(|(key, value)| (key.name().clone(), value.clone())).collect()
        };
        let changed = |name: &str, value: Value| {
            let fields = fields
                .iter()
                .map(|(key, old)| (key.clone(), if key == name { value.clone() } else { old.clone() }));
            decode_effect(&Value::record(fields)).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(changed("v", 2_i64.into()), Err("version 2 is not known".to_owned()));
        assert_eq!(changed("kind", "dance".into()), Err("unknown effect `dance`".to_owned()));
        assert_eq!(changed("role", "cook".into()), Err("unknown role `cook`".to_owned()));
        assert_eq!(changed("as_of", "x".into()), Err("`as_of` is no whole number that fits".to_owned()));
        let more = fields.iter().cloned().chain([("extra".into(), Value::NULL)]);
        let error = decode_effect(&Value::record(more)).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "unknown key `extra`");
    }
}
