//! `threadline logs`: what the programs and agents of a run printed, in full.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use anstyle::Style;
use threadline_engine::event::Address;
use threadline_inspect::explanation_json::label;
use threadline_inspect::logs::{LogReader, PrintedAttempt, StreamChoice};
use threadline_inspect::target::ExplainTarget;
use threadline_lang::value::JsonStyle;

use super::history::{History, of_store};
use super::kept::{StoredRuns, stored};
use crate::arguments::LogsArguments;
use crate::exit::CommandFailure;
use crate::report;

const DIM: Style = Style::new().dimmed();

pub(crate) fn logs(call: &LogsArguments) -> Result<(), CommandFailure> {
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    let targets = call.steps.iter().map(|step| ExplainTarget::named(&history, step));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let streams = match (call.stdout, call.stderr) {
        (true, false) => StreamChoice::Stdout,
        (false, true) => StreamChoice::Stderr,
        _ => StreamChoice::Both,
    };
    let mut log = LogReader::new(&history, &targets, streams);
    let printer = LogPrinter { history: &history, call, targets: &targets };
    if call.follow {
        printer.print(&log.read_on()?)?;
        return printer.follow(&mut log, &reader);
    }
    let found = log.read_asked()?;
    let mut last: BTreeMap<&Address, &PrintedAttempt> = BTreeMap::new();
    for printed in &found {
        if call.attempt.is_none_or(|attempt| attempt == printed.attempt) {
            last.insert(&printed.at, printed);
        }
    }
    // In the order in which they ended.
    let mut shown: Vec<&PrintedAttempt> = last.into_values().collect();
    shown.sort_by_key(|printed| printed.seq);
    let earlier = found.len() - shown.len();
    printer.print(shown.iter().copied())?;
    if shown.is_empty() {
        report::print_note("nothing was printed");
    } else if earlier > 0 && call.attempt.is_none() {
        report::print_note("only the last attempt is shown: `--attempt N` shows another");
    }
    Ok(())
}

struct LogPrinter<'c> {
    history: &'c History<'c>,
    call: &'c LogsArguments,
    /// Empty for every step.
    targets: &'c [ExplainTarget],
}

impl LogPrinter<'_> {
    /// Prints what attempts printed. Lines say whose they are, unless the user asked for one execution.
    fn print<'p>(&self, found: impl IntoIterator<Item = &'p PrintedAttempt>) -> Result<(), CommandFailure> {
        let found: Vec<&PrintedAttempt> = found.into_iter().collect();
        let alone = match self.targets {
            [target] => target.is_one() || !self.call.follow && found.len() < 2,
            _ => false,
        };
        for printed in found {
            if self.call.json {
                super::print(&format!("{}\n", printed.value(self.history)?.to_json(JsonStyle::Compact)))?;
                continue;
            }
            for (stream, mark) in [(&printed.stdout, '|'), (&printed.stderr, '!')] {
                let Some(stream) = stream else { continue };
                if alone && !std::io::stdout().is_terminal() {
                    super::print_bytes(&stream.bytes(self.history)?)?;
                    continue;
                }
                let text = stream.text(self.history)?;
                let prefix = (!alone).then(|| format!("{} {mark} ", label(self.history, &printed.at)));
                print_lines(&text, prefix.as_deref())?;
            }
        }
        Ok(())
    }

    /// Prints what further attempts print, until no process drives the run.
    fn follow(&self, log: &mut LogReader<'_>, runs: &StoredRuns) -> Result<(), CommandFailure> {
        loop {
            runs.refresh()?;
            // Asked first, so that what a run writes before it ends is read.
            let driven =
                self.history.reader.is_driven(&self.history.info.id).map_err(|error| of_store(&error))?;
            self.print(&log.read_on()?)?;
            if !driven {
                return Ok(());
            }
            std::thread::sleep(runs.pause());
        }
    }
}

/// Prints a text and a line break at its end, each line after a prefix.
fn print_lines(text: &str, prefix: Option<&str>) -> Result<(), CommandFailure> {
    let styled = std::io::stdout().is_terminal();
    let mut out = String::with_capacity(text.len() + 1);
    let lines = prefix.map_or_else(|| vec![text], |_| text.lines().collect());
    for line in lines {
        let prefix = prefix.unwrap_or_default();
        out.push_str(&if styled { styled_prefix(prefix) } else { prefix.to_owned() });
        if styled {
            out.push_str(&line.split('\n').map(report::visible).collect::<Vec<_>>().join("\n"));
        } else {
            out.push_str(line);
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    if styled { super::print_styled(&out) } else { super::print(&out) }
}

fn styled_prefix(prefix: &str) -> String {
    format!("{DIM}{}{DIM:#}", report::visible(prefix))
}
