//! `threadline logs`: what the programs and agents of a run printed, in full.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use anstyle::Style;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, ExactStream, Output, RunSlice, Seq, Status,
};
use threadline_engine::replay::output_of;
use threadline_flow::fields::NodeType;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use super::explain::named;
use super::history::{History, of_journal, of_store};
use super::kept::{StoredRuns, stored};
use crate::arguments::LogsArguments;
use crate::exit::CommandFailure;
use crate::report::{self, Report};
use threadline_inspect::explanation_json::label;
use threadline_inspect::target::ExplainTarget;

const DIM: Style = Style::new().dimmed();

pub(crate) fn logs(call: &LogsArguments) -> Result<(), CommandFailure> {
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    let targets = call.steps.iter().map(|step| named(&history, step)).collect::<Result<Vec<_>, _>>()?;
    let mut logs = Logs { history: &history, call, targets: &targets, attempts: BTreeMap::new(), next: 1 };
    if call.follow {
        let found = logs.read()?;
        logs.print(&found)?;
        return logs.follow(&reader);
    }
    let items = targets.iter().map(|target| target.asked_items(&history.plan));
    let found = match items.collect::<Option<Vec<_>>>().filter(|_| !targets.is_empty()) {
        Some(items) => logs.read_slice(&RunSlice::new(items.concat()))?,
        None => logs.read()?,
    };
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
    logs.print(shown.iter().copied())?;
    if shown.is_empty() {
        report::print_note("nothing was printed");
    } else if earlier > 0 && call.attempt.is_none() {
        report::print_note("only the last attempt is shown: `--attempt N` shows another");
    }
    Ok(())
}

/// What one attempt of a step printed.
struct PrintedAttempt {
    at: Address,
    attempt: u32,
    /// The event with which it ended.
    seq: Seq,
    stdout: Option<PrintedStream>,
    stderr: Option<PrintedStream>,
}

/// What was printed to one stream.
struct PrintedStream {
    /// The text, without the line breaks at its end.
    text: Datum,
    /// How the bytes differ from the text with one line break.
    exact: Option<ExactStream<Datum>>,
}

impl PrintedStream {
    /// None where nothing was printed.
    fn new(text: Option<Datum>, exact: Option<ExactStream<Datum>>) -> Option<Self> {
        let is_empty = match &text {
            Some(Datum::Here(value)) => value.is_null() || value.as_str() == Some(""),
            Some(Datum::Stored { .. }) => false,
            None => true,
        };
        if is_empty && exact.is_none() {
            return None;
        }
        Some(Self { text: text.unwrap_or_else(|| Datum::Here("".into())), exact })
    }
}

struct Logs<'c> {
    history: &'c History<'c>,
    call: &'c LogsArguments,
    /// Empty for every step.
    targets: &'c [ExplainTarget],
    /// The attempts that have begun.
    attempts: BTreeMap<Address, u32>,
    /// The first event that was not read yet.
    next: Seq,
}

impl Logs<'_> {
    /// The attempts that ended since the last call and printed something, the earliest first.
    fn read(&mut self) -> Result<Vec<PrintedAttempt>, CommandFailure> {
        let mut found = Vec::new();
        let (reader, run) = (self.history.reader, &self.history.info.id);
        for event in reader.events(run, self.next).map_err(|error| of_store(&error))? {
            found.extend(self.take(&event.map_err(|error| of_journal(&error))?));
        }
        Ok(found)
    }

    /// The attempts in a slice of the run that printed something, without looking at any other.
    fn read_slice(&mut self, slice: &RunSlice) -> Result<Vec<PrintedAttempt>, CommandFailure> {
        let (reader, run) = (self.history.reader, &self.history.info.id);
        let chosen = reader.choose(run, |at| slice.has(at)).map_err(|error| of_store(&error))?;
        let mut found = Vec::new();
        for event in reader.events_at(run, &chosen) {
            found.extend(self.take(&event.map_err(|error| of_journal(&error))?));
        }
        Ok(found)
    }

    /// Takes the next event: what an attempt printed that ended with it.
    fn take(&mut self, event: &Event) -> Option<PrintedAttempt> {
        self.next = event.seq + 1;
        if let EventKind::Started { attempt, .. } = event.kind {
            self.attempts.insert(event.at.clone(), attempt);
        }
        self.printed(event)
    }

    fn printed(&self, event: &Event) -> Option<PrintedAttempt> {
        let output = output_of(event).filter(|output| output.status != Status::Skipped)?;
        let plan = &self.history.plan;
        let step = event.at.step(plan)?;
        if !self.targets.is_empty() && !self.targets.iter().any(|target| target.means(&event.at, step)) {
            return None;
        }
        let both = self.call.stdout == self.call.stderr;
        let is_program = plan.steps[step as usize].step.action.node_type() == NodeType::Shell;
        let (exact_stdout, exact_stderr) = match output.exact.as_deref() {
            Some(exact) => (exact.stdout.clone(), exact.stderr.clone()),
            None => (None, None),
        };
        let stdout = PrintedStream::new(stdout_of(output, is_program), exact_stdout);
        let stdout = stdout.filter(|_| both || self.call.stdout);
        let stderr = PrintedStream::new(output.stderr.clone(), exact_stderr);
        let stderr = stderr.filter(|_| both || self.call.stderr);
        let attempt = self.attempts.get(&event.at).copied().unwrap_or(1);
        let printed = PrintedAttempt { at: event.at.clone(), attempt, seq: event.seq, stdout, stderr };
        (printed.stdout.is_some() || printed.stderr.is_some()).then_some(printed)
    }

    /// Prints what attempts printed. Lines say whose they are, unless the user asked for one execution.
    fn print<'p>(&self, found: impl IntoIterator<Item = &'p PrintedAttempt>) -> Result<(), CommandFailure> {
        let found: Vec<&PrintedAttempt> = found.into_iter().collect();
        let alone = match self.targets {
            [target] => target.is_one() || !self.call.follow && found.len() < 2,
            _ => false,
        };
        for printed in found {
            if self.call.json {
                super::print(&format!("{}\n", self.json(printed)?.to_json(JsonStyle::Compact)))?;
                continue;
            }
            for (stream, mark) in [(&printed.stdout, '|'), (&printed.stderr, '!')] {
                let Some(stream) = stream else { continue };
                if alone && !std::io::stdout().is_terminal() {
                    super::print_bytes(&self.bytes(stream)?)?;
                    continue;
                }
                let text = self.text(&stream.text)?;
                let prefix = (!alone).then(|| format!("{} {mark} ", label(self.history, &printed.at)));
                print_lines(&text, prefix.as_deref())?;
            }
        }
        Ok(())
    }

    fn json(&self, printed: &PrintedAttempt) -> Result<Value, CommandFailure> {
        let stream = |stream: &Option<PrintedStream>| match stream {
            Some(stream) => self.text(&stream.text).map(Value::from),
            None => Ok(Value::NULL),
        };
        Ok(Value::record([
            ("step", label(self.history, &printed.at).into()),
            ("at", printed.at.as_str().into()),
            ("attempt", Value::from(u64::from(printed.attempt))),
            ("stdout", stream(&printed.stdout)?),
            ("stderr", stream(&printed.stderr)?),
        ]))
    }

    fn text(&self, datum: &Datum) -> Result<String, CommandFailure> {
        let value = self.history.load(datum)?;
        Ok(value.as_str().map_or_else(|| value.to_json(JsonStyle::Compact), str::to_owned))
    }

    /// What was printed, to the byte.
    fn bytes(&self, stream: &PrintedStream) -> Result<Vec<u8>, CommandFailure> {
        let exact = match &stream.exact {
            None => None,
            Some(ExactStream::Ending(ending)) => Some(ExactStream::Ending(ending.clone())),
            Some(ExactStream::Base64(encoded)) => Some(ExactStream::Base64(self.text(encoded)?)),
        };
        ExactStream::bytes(exact.as_ref(), self.text(&stream.text)?).map_err(|error| {
            let message = format!("the journal holds bytes of an output that cannot be read: {error}");
            CommandFailure::NotStarted(vec![Report::plain(message)])
        })
    }

    /// Prints what further attempts print, until no process drives the run.
    fn follow(&mut self, runs: &StoredRuns) -> Result<(), CommandFailure> {
        loop {
            runs.refresh()?;
            // Asked first, so that what a run writes before it ends is read.
            let driven =
                self.history.reader.is_driven(&self.history.info.id).map_err(|error| of_store(&error))?;
            let found = self.read()?;
            self.print(&found)?;
            if !driven {
                return Ok(());
            }
            std::thread::sleep(runs.pause());
        }
    }
}

/// What a step printed to stdout. The value of a program is that text, if nothing else is said.
fn stdout_of(output: &Output, is_program: bool) -> Option<Datum> {
    let value = || (is_program && output.status != Status::Failed).then(|| output.value.clone());
    output.output.clone().or_else(value)
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
