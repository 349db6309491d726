//! What the programs and agents of a run printed, attempt by attempt.

use std::collections::BTreeMap;

use threadline_engine::event::{
    Address, Datum, Event, EventKind, ExactStream, Output, RunSlice, Seq, Status,
};
use threadline_engine::replay::output_of;
use threadline_flow::fields::NodeType;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use crate::error::{InspectError, of_journal, of_store};
use crate::explanation_json::label;
use crate::history::History;
use crate::target::ExplainTarget;

/// Which streams are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamChoice {
    /// Both of them.
    Both,
    /// What programs printed, and what agents said.
    Stdout,
    /// What they printed to stderr.
    Stderr,
}

/// What one attempt of a step printed.
pub struct PrintedAttempt {
    /// Which execution.
    pub at: Address,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The event with which it ended.
    pub seq: Seq,
    /// What it printed, if anything.
    pub stdout: Option<PrintedStream>,
    /// What it printed to stderr, if anything.
    pub stderr: Option<PrintedStream>,
}

/// What was printed to one stream.
pub struct PrintedStream {
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

    /// What was printed, as text.
    pub fn text(&self, history: &History<'_>) -> Result<String, InspectError> {
        text_of(history, &self.text)
    }

    /// What was printed, to the byte.
    pub fn bytes(&self, history: &History<'_>) -> Result<Vec<u8>, InspectError> {
        let exact = match &self.exact {
            None => None,
            Some(ExactStream::Ending(ending)) => Some(ExactStream::Ending(ending.clone())),
            Some(ExactStream::Base64(encoded)) => Some(ExactStream::Base64(text_of(history, encoded)?)),
        };
        ExactStream::bytes(exact.as_ref(), self.text(history)?).map_err(|error| {
            InspectError::plain(format!("the journal holds bytes of an output that cannot be read: {error}"))
        })
    }
}

fn text_of(history: &History<'_>, datum: &Datum) -> Result<String, InspectError> {
    let value = history.load(datum)?;
    Ok(value.as_str().map_or_else(|| value.to_json(JsonStyle::Compact), str::to_owned))
}

/// Reads what attempts printed, in the order in which they ended.
pub struct LogReader<'h> {
    history: &'h History<'h>,
    streams: StreamChoice,
    /// Empty for every step.
    targets: &'h [ExplainTarget],
    /// The attempts that have begun.
    attempts: BTreeMap<Address, u32>,
    /// The first event that was not read yet.
    next: Seq,
}

impl<'h> LogReader<'h> {
    /// Reads what these steps printed; with none, all of them.
    pub fn new(history: &'h History<'h>, targets: &'h [ExplainTarget], streams: StreamChoice) -> Self {
        Self { history, streams, targets, attempts: BTreeMap::new(), next: 1 }
    }

    /// The attempts that ended up to now and printed something, the earliest first. No more of the run is read than what
    /// the steps need.
    pub fn read_asked(&mut self) -> Result<Vec<PrintedAttempt>, InspectError> {
        let items = self.targets.iter().map(|target| target.asked_items(&self.history.plan));
        match items.collect::<Option<Vec<_>>>().filter(|_| !self.targets.is_empty()) {
            Some(items) => self.read_slice(&RunSlice::new(items.concat())),
            None => self.read_on(),
        }
    }

    /// The attempts that ended since the last call and printed something, the earliest first.
    pub fn read_on(&mut self) -> Result<Vec<PrintedAttempt>, InspectError> {
        let mut found = Vec::new();
        let (reader, run) = (self.history.reader, &self.history.info.id);
        for event in reader.events(run, self.next).map_err(|error| of_store(&error))? {
            found.extend(self.take(&event.map_err(|error| of_journal(&error))?));
        }
        Ok(found)
    }

    /// The attempt that ended with an event, if it printed something.
    pub fn read_event(&mut self, seq: Seq) -> Result<Option<PrintedAttempt>, InspectError> {
        let event = self.history.event(seq)?;
        // Which attempt it was is known from the events of the same execution.
        let (reader, run) = (self.history.reader, &self.history.info.id);
        let mut chosen =
            reader.choose(run, |at| at == event.at.as_str()).map_err(|error| of_store(&error))?;
        chosen.retain(|known| *known <= seq);
        let mut printed = None;
        for event in reader.events_at(run, &chosen) {
            printed = self.take(&event.map_err(|error| of_journal(&error))?);
        }
        Ok(printed)
    }

    /// The attempts in a slice of the run that printed something, without looking at any other.
    fn read_slice(&mut self, slice: &RunSlice) -> Result<Vec<PrintedAttempt>, InspectError> {
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
        let is_program = plan.steps[step as usize].step.action.node_type() == NodeType::Shell;
        let (exact_stdout, exact_stderr) = match output.exact.as_deref() {
            Some(exact) => (exact.stdout.clone(), exact.stderr.clone()),
            None => (None, None),
        };
        let stdout = PrintedStream::new(stdout_of(output, is_program), exact_stdout);
        let stdout = stdout.filter(|_| self.streams != StreamChoice::Stderr);
        let stderr = PrintedStream::new(output.stderr.clone(), exact_stderr);
        let stderr = stderr.filter(|_| self.streams != StreamChoice::Stdout);
        let attempt = self.attempts.get(&event.at).copied().unwrap_or(1);
        let printed = PrintedAttempt { at: event.at.clone(), attempt, seq: event.seq, stdout, stderr };
        (printed.stdout.is_some() || printed.stderr.is_some()).then_some(printed)
    }
}

/// What a step printed to stdout. The value of a program is that text, if nothing else is said.
fn stdout_of(output: &Output, is_program: bool) -> Option<Datum> {
    let value = || (is_program && output.status != Status::Failed).then(|| output.value.clone());
    output.output.clone().or_else(value)
}

impl PrintedAttempt {
    /// What an attempt printed as JSON.
    pub fn value(&self, history: &History<'_>) -> Result<Value, InspectError> {
        let stream = |stream: &Option<PrintedStream>| match stream {
            Some(stream) => stream.text(history).map(Value::from),
            None => Ok(Value::NULL),
        };
        Ok(Value::record([
            ("step", label(history, &self.at).into()),
            ("at", self.at.as_str().into()),
            ("attempt", Value::from(u64::from(self.attempt))),
            ("stdout", stream(&self.stdout)?),
            ("stderr", stream(&self.stderr)?),
        ]))
    }
}
