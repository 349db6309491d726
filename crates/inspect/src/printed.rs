//! The end of what a failed step printed.

use threadline_engine::event::Output;
use threadline_engine::execute::result::failure_tails;
use threadline_runner::values::load_envelope;
use threadline_store::{JournalError, JournalReader};

/// The last line that a failed step printed, if it printed anything.
pub fn last_printed_line(reader: &JournalReader, output: &Output) -> Result<Option<String>, JournalError> {
    let last = failure_tails(&load_envelope(reader, output)?, 1).pop();
    Ok(last.and_then(|mut tail| tail.lines.pop()).map(|line| line.trim().to_owned()))
}
