//! The end of what a failed step printed, as lines for people. It is read here for every command, wherever
//! the journal keeps it. Nothing is printed here.

use anstyle::Style;
use threadline_engine::event::{Datum, JudgeReply, Output};
use threadline_engine::execute::result::{PrintedTail, envelope, failure_tails};
use threadline_flow::fields::field_names as names;
use threadline_lang::diag::words;
use threadline_lang::{Envelope, Value};
use threadline_runner::values::load_envelope;
use threadline_store::{JournalError, JournalReader};

use crate::report::visible;

const DIM: Style = Style::new().dimmed();

/// The last lines that a failed step printed, each behind a bar. The streams are named if there are two of
/// them.
pub(crate) fn printed_lines(reader: &JournalReader, output: &Output, max_lines: usize) -> Vec<String> {
    lines_of(load_envelope(reader, output), max_lines)
}

/// The last lines that a judge said.
pub(crate) fn reply_lines(reader: &JournalReader, reply: &JudgeReply, max_lines: usize) -> Vec<String> {
    let load = |datum: &Option<Datum>| datum.as_ref().map(|datum| reader.load(datum)).transpose();
    let printed = load(&reply.answer).and_then(|answer| Ok((answer, load(&reply.stderr)?)));
    let said = printed.map(|(answer, stderr)| {
        let meta = Value::record([(names::AGENT_ID, Value::NULL)]);
        envelope(Value::NULL, answer, stderr, meta)
    });
    lines_of(said, max_lines)
}

fn lines_of(left: Result<Envelope, JournalError>, max_lines: usize) -> Vec<String> {
    let tails = match left {
        Ok(left) => failure_tails(&left, max_lines),
        Err(error) => {
            let error = visible(&error.to_string());
            return vec![format!("{DIM}what it printed cannot be read:{DIM:#} {error}")];
        }
    };
    let is_named = tails.len() > 1;
    let mut lines = Vec::new();
    for PrintedTail { stream, lines: last, before } in tails {
        if is_named {
            lines.push(format!("{DIM}{}{DIM:#}", stream.name()));
        }
        if before > 0 {
            lines.push(format!("{DIM}│ … {} before{DIM:#}", words::count(before, "line")));
        }
        lines.extend(last.iter().map(|line| format!("{DIM}│{DIM:#} {}", visible(line))));
    }
    lines
}
