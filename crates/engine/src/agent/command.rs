//! An agent that is a program: the message comes on its standard input, the answer on its standard output.

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_lang::diag::{excerpt, nearest, words};
use threadline_lang::{Limits, Object, Value, data};

use super::chat::{Chat, FinishedCall, TokenUsage};
use super::stream::StreamForm;
use super::{AgentSurroundings, CallReach, Provider, ProviderCode, Reading, Reply};
use crate::execute::effect::{
    Effect, EffectResult, EffectText, ProcessEnd, ProcessEnding, ProcessSpec, USAGE_VARIABLE,
};
use crate::execute::result::{Printed, process_failure, usage};
use crate::execute::start_failure;

pub(super) const CODE: ProviderCode = ProviderCode {
    new: |agent| Box::new(CommandProvider { command: agent.program("command").unwrap_or_default().to_vec() }),
    stream: || Some(StreamForm::Text),
    joined: |_| None,
};

struct CommandProvider {
    command: Vec<String>,
}

/// A program that reads a whole conversation from its standard input.
pub(super) fn process(
    command: &[String],
    chat: &Chat,
    surroundings: AgentSurroundings,
    reports_usage: bool,
) -> Effect {
    let AgentSurroundings { env, cwd, limits } = surroundings;
    let mut words = command.iter().map(|word| vec![EffectText::Text(word.clone())]);
    let program = words.next().unwrap_or_default();
    let arguments = words.collect();
    let stdin = Some(chat.as_text());
    Effect::Process(ProcessSpec {
        program,
        arguments,
        files: Vec::new(),
        env,
        cwd,
        stdin,
        reports_usage,
        limits,
    })
}

/// How a program ended, or why it did not start.
pub(super) fn process_end(result: EffectResult) -> Result<ProcessEnd, Failure> {
    match result {
        EffectResult::Process(Ok(end)) => Ok(end),
        EffectResult::Process(Err(failure)) => Err(start_failure(failure, false)),
        _ => Err(Failure::new(FailureKind::Start, "the agent was not started")),
    }
}

impl Provider for CommandProvider {
    fn ask(&mut self, chat: &Chat, surroundings: AgentSurroundings) -> Effect {
        process(&self.command, chat, surroundings, true)
    }

    fn reply(&self, result: EffectResult, reading: &Reading<'_>) -> Reply {
        let mut end = match process_end(result) {
            Ok(end) => end,
            Err(failure) => return Reply::failed(failure),
        };
        let printed = Printed::of(&mut end);
        let is_accepted = reading.accepts_exit_codes && matches!(end.ending, ProcessEnding::Exited(_));
        let failure =
            process_failure(&end.ending, reading.limits, reading.cut_short).filter(|_| !is_accepted);
        let (output, stderr) = (printed.output(), printed.stderr());
        let (mut meta, timing) = (usage(&end), Some(end.timing));
        let report = end.usage.take().map(|report| report.and_then(|text| read_report(&text))).transpose();
        let (report, unreadable) = match report {
            Ok(report) => (report.unwrap_or_default(), None),
            Err(why) => {
                let message = format!("what it reported in `{USAGE_VARIABLE}` cannot be used: {why}");
                (UsageReport::default(), Some(Failure::new(FailureKind::Format, message)))
            }
        };
        let is_silent = output.is_none() && report.usage == TokenUsage::default();
        let has_exited = matches!(end.ending, ProcessEnding::Exited(_));
        let failure = failure.or(unreadable);
        let asked =
            if failure.is_some() && is_silent && has_exited { CallReach::InVain } else { CallReach::Counted };
        let answer = match failure {
            Some(failure) => Err(failure),
            None => printed.stdout,
        };
        meta.extend(report.model.map(|model| (names::MODEL_USED, Value::from(model))));
        Reply {
            asked,
            answer,
            printed: output,
            stderr,
            meta,
            timing,
            usage: report.usage,
            called: report.tool_calls,
            ..Reply::said(String::new())
        }
    }
}

/// What a program reports of an answer.
#[derive(Default)]
struct UsageReport {
    usage: TokenUsage,
    model: Option<String>,
    tool_calls: Vec<FinishedCall>,
}

/// The keys of a report.
const REPORT_KEYS: [&str; 5] = ["input_tokens", "output_tokens", "cost_usd", "model", names::TOOL_CALLS];

/// The keys of a call in a report.
const CALL_KEYS: [&str; 4] = [names::NAME, names::ARGUMENTS, names::RESULT, names::IS_ERROR];

/// Reads a report: one JSON object. What is left out is not known, and an empty report says nothing.
fn read_report(text: &str) -> Result<UsageReport, String> {
    if text.trim().is_empty() {
        return Ok(UsageReport::default());
    }
    let value = data::json::read_value(text.trim(), &Limits::DEFAULT)
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let Some(report) = value.as_object() else { return Err(format!("{} is no object", excerpt(&value))) };
    check_keys(report, "it", &REPORT_KEYS)?;
    let given = |key: &str| report.get_str(key).filter(|value| !value.is_null());
    let wrong = |key: &str, what: &str, value: &Value| format!("`{key}` is {what}, not {}", excerpt(value));
    let count = |key: &str| {
        let read = |value: &Value| value.as_i64().and_then(|count| u64::try_from(count).ok());
        given(key).map(|value| read(value).ok_or_else(|| wrong(key, "a number of tokens", value))).transpose()
    };
    let cost = given("cost_usd").map(|value| {
        let cost = value.as_number().filter(|cost| !cost.is_negative()).cloned();
        cost.ok_or_else(|| wrong("cost_usd", "a number of US dollars", value))
    });
    let model = given("model").map(|value| {
        value.as_str().map(str::to_owned).ok_or_else(|| wrong("model", "the name of a model", value))
    });
    let (input_tokens, output_tokens) = (count("input_tokens")?, count("output_tokens")?);
    let usage = TokenUsage { input_tokens, output_tokens, cost: cost.transpose()? };
    let tool_calls = match given(names::TOOL_CALLS) {
        Some(calls) => {
            let list = calls.as_list().ok_or_else(|| wrong(names::TOOL_CALLS, "a list of calls", calls))?;
            list.iter().enumerate().map(|(at, call)| read_call(at + 1, call)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    Ok(UsageReport { usage, model: model.transpose()?, tool_calls })
}

/// Reads a call of a report. Only the name has to be there.
fn read_call(number: usize, call: &Value) -> Result<FinishedCall, String> {
    let place = format!("call {number} of `{}`", names::TOOL_CALLS);
    let Some(fields) = call.as_object() else {
        return Err(format!("{place} is {}, no object", excerpt(call)));
    };
    check_keys(fields, &place, &CALL_KEYS)?;
    let part = |key: &str| fields.get_str(key).cloned().unwrap_or_default();
    let wrong = |key: &str, what: &str| format!("`{key}` of {place} is {what}, not {}", excerpt(&part(key)));
    let name = part(names::NAME);
    let name = name.as_str().ok_or_else(|| wrong(names::NAME, "the name of a tool"))?;
    let is_error = match part(names::IS_ERROR) {
        value if value.is_null() => false,
        value => value.as_bool().ok_or_else(|| wrong(names::IS_ERROR, "true or false"))?,
    };
    let arguments = match part(names::ARGUMENTS) {
        value if value.is_null() => Value::empty_object(),
        value if value.as_object().is_some() => value,
        _ => return Err(wrong(names::ARGUMENTS, "an object")),
    };
    Ok(FinishedCall::new(name.to_owned(), &arguments, &part(names::RESULT), is_error))
}

/// Refuses the first key that means nothing.
fn check_keys(object: &Object, place: &str, known: &[&str]) -> Result<(), String> {
    let unknown = object.iter().map(|(key, _)| key.as_str()).find(|key| !known.contains(key));
    unknown.map_or(Ok(()), |key| {
        let near = nearest(key, known.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; {}", words::did_you_mean(near)));
        Err(format!("{place} has no key `{key}`{near}"))
    })
}
