//! What the steps of a run printed: which attempts, and their lines some at a time.

use threadline_inspect::explanation_json::label;
use threadline_inspect::logs::{LogReader, PrintedAttempt, PrintedStream, StreamChoice};
use threadline_lang::Value;
use threadline_lang::diag::words;

use super::run::open;
use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::server::RouteCall;
use threadline_inspect::history::History;
use threadline_inspect::target::ExplainTarget;

/// The names of the streams.
pub(crate) const STREAMS: &[&str] = &["stdout", "stderr"];

/// How many lines are answered at once, where nobody says how many.
const USUAL_LINES: u64 = 200;

/// The most lines that are answered at once.
pub(crate) const MOST_LINES: u64 = 2_000;

/// The most characters of a line. The whole text is an attachment.
const LONGEST_LINE: usize = 2_000;

fn attempts(call: &RouteCall, history: &History<'_>) -> Result<Vec<PrintedAttempt>, Problem> {
    let step = call.arguments.text("step");
    let targets = step.map(|step| ExplainTarget::named(history, step)).transpose()?;
    let targets: Vec<ExplainTarget> = targets.into_iter().collect();
    Ok(LogReader::new(history, &targets, StreamChoice::Both).read_asked()?)
}

/// Which attempts printed something, and how much.
pub(crate) fn logs(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, _| {
        let size = |stream: &Option<PrintedStream>| -> Result<Value, Problem> {
            let Some(stream) = stream else { return Ok(Value::NULL) };
            let text = stream.text(history)?;
            Ok(Value::record([
                ("lines", Value::from(text.lines().count())),
                ("bytes", Value::from(text.len())),
            ]))
        };
        let mut found = Vec::new();
        for printed in attempts(call, history)? {
            found.push(Value::record([
                ("step", label(history, &printed.at).into()),
                ("at", printed.at.as_str().into()),
                ("attempt", Value::from(u64::from(printed.attempt))),
                ("event", Value::from(printed.seq)),
                ("stdout", size(&printed.stdout)?),
                ("stderr", size(&printed.stderr)?),
            ]));
        }
        let run = history.info.id.as_str();
        Ok(HttpAnswer::json(&Value::record([("run", run.into()), ("attempts", Value::sequence(found))])))
    })
}

/// Some lines of a stream of an attempt; the last ones where nobody says which.
pub(crate) fn lines(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let given = &call.arguments;
    let event = given
        .number("event")
        .ok_or_else(|| Problem::bad("`event` says with which event the attempt ended"))?;
    open(call, |history, _| {
        let printed = LogReader::new(history, &[], StreamChoice::Both).read_event(event)?;
        let printed = printed.ok_or_else(|| {
            let run = &history.info.id;
            Problem::missing(&format!(
                "no attempt of run `{run}` that printed something ended with event {event}"
            ))
        })?;
        let is_stderr = given.text("stream") == Some("stderr");
        let stream = if is_stderr { &printed.stderr } else { &printed.stdout };
        let text = stream.as_ref().map_or(Ok(String::new()), |stream| stream.text(history))?;
        if given.flag("whole") {
            return Ok(HttpAnswer::attachment(
                &format!("{}-{}", history.info.id, label(history, &printed.at)),
                text,
            ));
        }
        let all = |line: &&str| given.text("search").is_none_or(|search| line.contains(search));
        let found = text.lines().enumerate().filter(|(_, line)| all(line)).count() as u64;
        let count = given.number("count").unwrap_or(USUAL_LINES).min(MOST_LINES);
        let from = given.number("from").unwrap_or_else(|| found.saturating_sub(count));
        let [skip, take] = [from, count].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let lines = text.lines().enumerate().filter(|(_, line)| all(line)).skip(skip).take(take);
        let lines = lines.map(|(number, line)| {
            Value::record([
                ("line", Value::from(number + 1)),
                ("text", words::shorten(line, LONGEST_LINE).into_owned().into()),
            ])
        });
        Ok(HttpAnswer::json(&Value::record([
            ("run", Value::from(history.info.id.as_str())),
            ("at", printed.at.as_str().into()),
            ("attempt", Value::from(u64::from(printed.attempt))),
            ("stream", if is_stderr { "stderr" } else { "stdout" }.into()),
            ("found", Value::from(found)),
            ("from", Value::from(from)),
            ("lines", Value::sequence(lines)),
        ])))
    })
}
