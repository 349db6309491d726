//! What was said between a step, or the judge of a state, and an agent: as data.
//!
//! What the agent was told is evaluated again, as every field is; what it said stands in the events of the attempt.

use threadline_engine::agent::conversation::ExchangeKind;
use threadline_engine::event::{Datum, Status};
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;

use crate::error::InspectError;
use crate::explanation::{AgentAsked, StepExplanation};
use crate::explanation_json::label;
use crate::history::{History, time_text};

/// The conversation of an evaluation, where an agent was asked.
pub fn conversation(history: &History<'_>, told: &StepExplanation) -> Result<Option<Value>, InspectError> {
    let Some(asked) = &told.asked else { return Ok(None) };
    let AgentAsked { agent, provider, message, thread } = asked;
    let (mut exchanges, mut total) = (Vec::new(), Value::empty_object());
    // The calls that are known: those that Threadline made, or that an agent reported with an answer that did not fit.
    let mut known_calls = 0;
    for (seq, output) in &told.exchanges {
        let value = history.load(&output.value)?;
        let meta = |name: &str| output.meta.get(name).cloned();
        let mut entry = vec![("event", Value::from(*seq))];
        let error = || meta(names::ERROR).map(|error| ("error", error));
        match ExchangeKind::of_meta(&output.meta) {
            ExchangeKind::Tools => {
                let tools = value.as_list().unwrap_or_default().iter();
                let tools = tools.filter_map(|tool| tool.get("name").cloned());
                entry.push(("server", meta(names::TOOL_NAME).unwrap_or_default()));
                entry.push(("tools", Value::sequence(tools)));
            }
            ExchangeKind::Calls => {
                let text = value.get("text").filter(|text| text.as_str() != Some(""));
                entry.extend(text.map(|text| ("said", text.clone())));
                let calls = value.get("calls").and_then(Value::as_list).unwrap_or_default();
                let calls = calls.iter().map(|call| {
                    let part = |name: &str| call.get(name).cloned().unwrap_or_default();
                    Value::record([("tool", part("name")), ("arguments", part("arguments"))])
                });
                entry.push(("calls", Value::sequence(calls)));
            }
            ExchangeKind::Call => {
                entry.push(("tool", meta(names::TOOL_NAME).unwrap_or_default()));
                entry.push(("arguments", meta(names::PARAMETERS).unwrap_or_default()));
                match error() {
                    Some(error) => entry.push(error),
                    None => entry.push(("result", value)),
                }
                known_calls += 1;
            }
            ExchangeKind::Misfit => {
                let called = output.meta.get(names::TOOL_CALLS).and_then(Value::as_list).unwrap_or_default();
                entry.extend(called_entry(called));
                known_calls += called.len();
                entry.push(("said", value));
                entry.push(("misfit", meta(names::REASON).unwrap_or_default()));
            }
        }
        entry.extend(used(&output.meta));
        exchanges.push(Value::record(entry));
    }
    if let Some(ended) = &told.ended {
        let output = &ended.output;
        let mut entry = vec![("event", Value::from(ended.seq))];
        if output.status == Status::Completed {
            let value = history.load(&output.value)?;
            entry.extend(called_entry(beyond(known_calls, &value)));
            entry.push(("said", value.get(names::FINAL_RESPONSE).cloned().unwrap_or_default()));
        } else {
            entry.extend(called_entry(beyond(known_calls, &output.meta)));
            entry.push(("error", output.meta.get(names::ERROR).cloned().unwrap_or_default()));
        }
        let source = [names::CACHED, names::REPLAYED].into_iter();
        entry.extend(source.filter_map(|name| Some((name, output.meta.get(name)?.clone()))));
        exchanges.push(Value::record(entry));
        total = Value::record(used(&output.meta));
    }
    if let Some(judged) = &told.judged {
        let reply = judged.recorded.reply.as_ref();
        let answer = reply.and_then(|reply| reply.answer.as_ref());
        let load = |datum: Option<&Datum>| datum.map_or(Ok(Value::NULL), |datum| history.load(datum));
        let entry = [
            ("event", Value::from(told.seen.seq)),
            ("said", load(answer)?),
            ("verdict", judged.recorded.verdict.as_str().into()),
        ];
        exchanges.push(Value::record(entry));
    }
    let thread = thread.as_ref().map_or(Value::NULL, |thread| {
        let before = thread.before.value().get("messages").cloned().unwrap_or_default();
        Value::record([("name", Value::from(thread.name.as_str())), ("before", before)])
    });
    let attempt = if told.seen.attempt == 0 { Value::NULL } else { told.seen.attempt.into() };
    Ok(Some(Value::record([
        ("step", label(history, &told.seen.at).as_str().into()),
        ("at", told.seen.at.as_str().into()),
        ("of", if told.judged.is_some() { "judge" } else { "step" }.into()),
        ("attempt", attempt),
        ("time", time_text(told.seen.time).into()),
        ("agent", agent.as_str().into()),
        ("provider", (*provider).into()),
        ("thread", thread),
        ("message", message.as_str().into()),
        ("exchanges", Value::sequence(exchanges)),
        ("total", total),
    ])))
}

/// The calls of an execution that are not known from its exchanges.
fn beyond(known: usize, of: &Value) -> &[Value] {
    let all = of.get(names::TOOL_CALLS).and_then(Value::as_list).unwrap_or_default();
    all.get(known..).unwrap_or_default()
}

/// What an agent called itself before it answered.
fn called_entry(called: &[Value]) -> Option<(&'static str, Value)> {
    (!called.is_empty()).then(|| ("called", Value::sequence(called.iter().cloned())))
}

/// What an exchange used, and where its answer comes from.
fn used(meta: &Value) -> Vec<(&'static str, Value)> {
    let keys = [
        names::MODEL_USED,
        names::INPUT_TOKENS,
        names::OUTPUT_TOKENS,
        names::TOTAL_COST_USD,
        names::CACHED,
        names::REPLAYED,
        names::EXECUTION_TIME_MS,
    ];
    keys.into_iter().filter_map(|key| Some((key, meta.get(key)?.clone()))).collect()
}
