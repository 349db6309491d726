//! What was said between a step, or the judge of a state, and an agent: in full, and in one line for each exchange.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;

use crate::report::visible;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// What an exchange used, in words: `3 tokens read, 25 tokens written, $0.02, cached`.
fn used_text(used: &Value) -> String {
    let count = |name: &str| used.get(name).and_then(Value::as_i64);
    let is = |name: &str| used.get(name).and_then(Value::as_bool) == Some(true);
    let tokens = count(names::INPUT_TOKENS).zip(count(names::OUTPUT_TOKENS));
    let spent = [
        tokens.map(|(read, wrote)| format!("{} read, {wrote} written", words::count(read, "token"))),
        used.get(names::TOTAL_COST_USD).map(|cost| format!("${cost}")),
    ];
    let source =
        [is(names::CACHED).then(|| "cached".to_owned()), is(names::REPLAYED).then(|| "replayed".to_owned())];
    spent.into_iter().chain(source).flatten().collect::<Vec<_>>().join(", ")
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_list).unwrap_or_default()
}

/// A conversation in full, for people.
pub(super) fn in_full(conversation: &Value) -> String {
    let part = |key: &str| visible(text(conversation, key).unwrap_or_default());
    let attempt = conversation.get("attempt").filter(|attempt| !attempt.is_null());
    let attempt = attempt.map_or_else(|| "judge".to_owned(), |attempt| format!("attempt {attempt}"));
    let mut out = format!(
        "{BOLD}{}{BOLD:#}  {DIM}{attempt}, agent `{}` ({}){DIM:#}\n",
        part("step"),
        part("agent"),
        part("provider")
    );
    let mut say = |head: &str, note: &str, said: &str| {
        let note = if note.is_empty() { String::new() } else { format!("  {DIM}{}{DIM:#}", visible(note)) };
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  {BOLD}{head}{BOLD:#}{note}");
        for line in said.trim_end_matches('\n').lines() {
            let _ = writeln!(out, "    {DIM}│{DIM:#} {}", visible(line));
        }
    };
    if let Some(thread) = conversation.get("thread").filter(|thread| !thread.is_null()) {
        let before = list(thread, "before");
        let name = text(thread, "name").unwrap_or_default();
        let count = words::count(before.len() as u64, "message");
        say("thread", &format!("`{name}`, {count} before"), "");
        for message in before {
            let told = text(message, "told");
            let head = if told.is_some() { "before: message" } else { "before: answer" };
            say(head, "", told.or_else(|| text(message, "said")).unwrap_or_default());
        }
    }
    say("message", "", text(conversation, "message").unwrap_or_default());
    for exchange in list(conversation, "exchanges") {
        let used = used_text(exchange);
        let full =
            |value: &Value| value.as_str().map_or_else(|| value.to_json(JsonStyle::Pretty), str::to_owned);
        for call in list(exchange, "called") {
            let name = text(call, names::NAME).unwrap_or_default();
            let arguments = call.get(names::ARGUMENTS).map(excerpt).unwrap_or_default();
            let is_error = call.get(names::IS_ERROR).and_then(Value::as_bool) == Some(true);
            let failed = if is_error { ": failed" } else { "" };
            let result = call.get(names::RESULT).filter(|result| !result.is_null());
            say("called", &format!("`{name}` {arguments}{failed}"), &result.map(full).unwrap_or_default());
        }
        if let Some(server) = text(exchange, "server") {
            let tools = list(exchange, "tools").iter().map(|tool| format!("`{tool}`"));
            say("tools", &format!("of `{server}`: {}", words::names(tools)), "");
        } else if let Some(tool) = text(exchange, "tool") {
            match text(exchange, "error") {
                Some(error) => say("result", &format!("of `{tool}`: failed"), error),
                None => say(
                    "result",
                    &format!("of `{tool}`"),
                    &full(exchange.get("result").unwrap_or(&Value::NULL)),
                ),
            }
        } else if exchange.get("calls").is_some() {
            let calls = list(exchange, "calls").iter().map(|call| {
                let arguments = call.get("arguments").map(|arguments| arguments.to_json(JsonStyle::Compact));
                format!("{} {}", text(call, "tool").unwrap_or_default(), arguments.unwrap_or_default())
            });
            let calls: Vec<String> = calls.collect();
            let said = text(exchange, "said").map(|said| format!("{said}\n")).unwrap_or_default();
            say("calls", &used, &format!("{said}{}", calls.join("\n")));
        } else if let Some(why) = text(exchange, "misfit") {
            let note = if used.is_empty() { String::new() } else { format!("; {used}") };
            say("answer", &format!("{why}{note}"), &full(exchange.get("said").unwrap_or(&Value::NULL)));
        } else if let Some(error) = text(exchange, "error") {
            say("failed", "", error);
        } else {
            let verdict = text(exchange, "verdict").map(|verdict| format!("verdict {verdict}"));
            say("answer", &verdict.unwrap_or_default(), &full(exchange.get("said").unwrap_or(&Value::NULL)));
        }
    }
    let total = conversation.get("total").map(used_text).unwrap_or_default();
    let model = conversation.get("total").and_then(|total| text(total, names::MODEL_USED));
    let end: Vec<&str> =
        model.into_iter().chain(Some(total.as_str()).filter(|total| !total.is_empty())).collect();
    if !end.is_empty() {
        let _ = writeln!(out, "  {DIM}{}{DIM:#}", visible(&end.join(", ")));
    }
    out
}

/// A line for each exchange of a conversation. Nothing where the message and the answer are all there is.
pub(super) fn in_short(conversation: &Value) -> String {
    let mut out = String::new();
    let exchanges = list(conversation, "exchanges");
    let thread = conversation.get("thread").filter(|thread| !thread.is_null());
    if let Some(thread) = thread {
        let count = words::count(list(thread, "before").len() as u64, "message");
        // Writing into a text cannot fail.
        let _ = writeln!(out, "    {BOLD}before{BOLD:#} {count} in the thread");
    }
    let spent = conversation.get("total").filter(|total| total.get(names::INPUT_TOKENS).is_some());
    let has_called = exchanges.iter().any(|exchange| exchange.get("called").is_some());
    let is_plain = exchanges.len() < 2
        && !has_called
        && conversation.get("total").map(used_text).unwrap_or_default().is_empty();
    if is_plain && thread.is_none() || text(conversation, "of") == Some("judge") {
        return out;
    }
    let _ = writeln!(out, "    {BOLD}exchanges{BOLD:#}");
    for exchange in exchanges {
        let of = |key: &str| exchange.get(key).map(excerpt).unwrap_or_default();
        for call in list(exchange, "called") {
            let name = visible(text(call, names::NAME).unwrap_or_default());
            let arguments = call.get(names::ARGUMENTS).map(excerpt).unwrap_or_default();
            let is_error = call.get(names::IS_ERROR).and_then(Value::as_bool) == Some(true);
            let failed = if is_error { format!(", {BAD}failed{BAD:#}") } else { String::new() };
            let result = call.get(names::RESULT).map(excerpt).unwrap_or_default();
            let _ =
                writeln!(out, "      called  `{name}` {}{failed}: {}", visible(&arguments), visible(&result));
        }
        let line = if let Some(server) = text(exchange, "server") {
            format!("tools   of `{server}`: {}", list(exchange, "tools").len())
        } else if let Some(tool) = text(exchange, "tool") {
            match text(exchange, "error") {
                Some(error) => format!("result  of `{tool}`, {BAD}failed{BAD:#}: {}", visible(error)),
                None => format!("result  of `{tool}`: {}", visible(&of("result"))),
            }
        } else if exchange.get("calls").is_some() {
            let calls = list(exchange, "calls").iter().map(|call| {
                let arguments = call.get("arguments").map(excerpt).unwrap_or_default();
                format!("`{}` {arguments}", text(call, "tool").unwrap_or_default())
            });
            format!("calls   {}", visible(&calls.collect::<Vec<_>>().join(", ")))
        } else if let Some(why) = text(exchange, "misfit") {
            format!("answer  {}, {BAD}{}{BAD:#}", visible(&of("said")), visible(why))
        } else if let Some(error) = text(exchange, "error") {
            format!("{BAD}failed{BAD:#}  {}", visible(crate::report::first_line(error)))
        } else {
            format!("answer  {}", visible(&of("said")))
        };
        let event = exchange.get("event").map(ToString::to_string).unwrap_or_default();
        let used = used_text(exchange);
        let used = if used.is_empty() { used } else { format!("; {}", visible(&used)) };
        let _ = writeln!(out, "      {line}  {DIM}event {event}{used}{DIM:#}");
    }
    let total = spent.map(used_text).unwrap_or_default();
    if !total.is_empty() {
        let _ = writeln!(out, "      {DIM}in all {}{DIM:#}", visible(&total));
    }
    out
}
