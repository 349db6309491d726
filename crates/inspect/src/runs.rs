//! The runs of a store, the newest first: which are chosen, and what is said of each.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use threadline_engine::event::{Datum, Event, EventKind, LoopEnd};
use threadline_engine::machine::Outcome;
use threadline_engine::replay::output_of;
use threadline_engine::spend::Spend;
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_store::{JournalReader, RunId, RunInfo, StoreError};

use crate::error::{InspectError, of_store};
use crate::history::{History, time_text};
use crate::labels::{first_line, label};
use crate::run_state::{RunState, StandingCounts};
use crate::timeline::RunTimeline;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// It did what it should.
    Completed,
    /// Something failed.
    Failed,
    /// It was stopped before its end.
    Paused,
    /// A limit ended its loop.
    Stopped,
    /// A process drives it.
    Running,
    /// It did not end, and no process drives it any more.
    Interrupted,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Failed, Self::Paused, Self::Stopped, Self::Running, Self::Interrupted];

    /// Its name, as in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
        }
    }

    /// The status with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// That of a run. A run that has not ended and that no process drives was interrupted.
    pub fn of(reader: &JournalReader, run: &RunInfo) -> Result<Self, InspectError> {
        Ok(match run.status.as_str() {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "paused" => Self::Paused,
            "stopped" => Self::Stopped,
            _ if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => Self::Running,
            _ => Self::Interrupted,
        })
    }
}

/// Which runs are listed.
#[derive(Debug, Clone, Default)]
pub struct RunChoice {
    /// Only runs with one of these, if there are any.
    pub status: Vec<RunStatus>,
    /// Only runs of this workflow: its name or its file.
    pub workflow: Option<String>,
    /// Only runs with this in their id, or in the name or file of their workflow.
    pub text: Option<String>,
    /// Only runs that began then or later.
    pub since: Option<Timestamp>,
    /// Only runs that began before.
    pub until: Option<Timestamp>,
    /// Also runs that other runs called.
    pub called: bool,
    /// Only runs behind this one in the list: older ones.
    pub after: Option<String>,
    /// At most so many.
    pub count: Option<usize>,
    /// Only these runs that somebody started, and what they called: others are in the same journal.
    pub only: Option<BTreeSet<String>>,
}

impl RunChoice {
    /// Whether nothing is left out but called runs.
    pub fn is_everything(&self) -> bool {
        let Self { status, workflow, text, since, until, after, count, called: _, only: _ } = self;
        status.is_empty()
            && workflow.is_none()
            && text.is_none()
            && since.is_none()
            && until.is_none()
            && after.is_none()
            && count.is_none()
    }

    /// Whether a run is listed, as far as its row tells.
    fn has(&self, run: &RunInfo) -> bool {
        let contains = |text: &String| {
            let text = text.to_lowercase();
            [run.id.as_str(), &run.name, &run.file].iter().any(|part| part.to_lowercase().contains(&text))
        };
        (self.called || !run.id.is_called())
            && self.workflow.as_ref().is_none_or(|name| run.name == *name || run.file == *name)
            && self.text.as_ref().is_none_or(contains)
            && self.only.as_ref().is_none_or(|only| only.contains(run.id.started()))
            && self.since.is_none_or(|since| moment(&run.started_at).is_some_and(|began| began >= since))
            && self.until.is_none_or(|until| moment(&run.started_at).is_some_and(|began| began < until))
    }
}

/// Chosen runs, and where the list goes on.
pub struct RunPage {
    /// The runs, the newest first.
    pub runs: Vec<ListedRun>,
    /// The last of them, where more are behind it.
    pub next: Option<String>,
}

/// A run and its status.
pub struct ListedRun {
    /// What the store says of it.
    pub run: RunInfo,
    /// How it stands.
    pub status: RunStatus,
    /// When it began.
    pub began: Option<Timestamp>,
    /// The time of its last event, unless it goes on.
    pub ended: Option<Timestamp>,
    /// From its first event to its last, or until now if it goes on.
    pub took: Option<Duration>,
    /// Where and why a loop ended.
    pub loop_end: Option<(Outcome, LoopEnd)>,
    /// The run whose results it keeps.
    pub continues: Option<String>,
    /// The run that called it.
    pub caller: Option<String>,
    /// How many items are failed, if its last event says so: a run that has ended or paused.
    pub failed_items: Option<u64>,
    /// What it spent on agents, if its last event says so: that of a run that has ended or paused.
    pub spent: Option<Spend>,
    /// What it was given; nothing where that is too large for a list.
    pub inputs: Option<Value>,
    /// Why it is paused.
    pub paused: Option<String>,
}

/// The chosen runs, the newest first. Called runs stand below the run that was started by the user.
pub fn runs(reader: &JournalReader, choice: &RunChoice, now: Timestamp) -> Result<RunPage, InspectError> {
    let mut listing = RunListing { reader, choice, now, listed: Vec::new(), next: None };
    let behind = choice.after.as_deref().map(|after| place_of(reader, after)).transpose()?;
    // Those that the run called stand behind it, and so does the rest of them behind one of them.
    if let Some(behind) = &behind {
        let started = RunId::new(behind.started())?;
        let called = if choice.called { reader.called_by(&started)? } else { Vec::new() };
        let passed = called.iter().position(|run| run.id == *behind).map_or(0, |at| at + 1);
        for run in called.into_iter().skip(passed) {
            if !listing.take(run)? {
                return Ok(listing.page());
            }
        }
    }
    let started = behind.map(|behind| RunId::new(behind.started())).transpose()?;
    for run in runs_behind(reader, choice, started.as_ref())? {
        let run = run?;
        let called = if choice.called { reader.called_by(&run.id)? } else { Vec::new() };
        for run in std::iter::once(run).chain(called) {
            if !listing.take(run)? {
                return Ok(listing.page());
            }
        }
    }
    Ok(listing.page())
}

/// The run that a list goes on behind.
fn place_of(reader: &JournalReader, after: &str) -> Result<RunId, InspectError> {
    let found = RunId::new(after).and_then(|run| reader.run(&run));
    match found {
        Ok(info) => Ok(info.id),
        Err(StoreError::NoSuchRun { .. } | StoreError::BadRunId { .. }) => {
            let message = format!("there is no run `{after}` that the list could go on behind");
            Err(InspectError::plain(message).missing())
        }
        Err(error) => Err(of_store(&error)),
    }
}

/// Runs that somebody started, the newest first.
type StartedRows<'r> = Box<dyn Iterator<Item = Result<RunInfo, InspectError>> + 'r>;

/// The runs that somebody started, the newest first, behind one of them.
fn runs_behind<'r>(
    reader: &'r JournalReader,
    choice: &RunChoice,
    behind: Option<&RunId>,
) -> Result<StartedRows<'r>, InspectError> {
    if choice.only.is_none() {
        return Ok(Box::new(reader.newest_started(behind)?.map(|run| run.map_err(|error| of_store(&error)))));
    }
    // They were brought here in any order.
    let mut runs = reader.runs()?;
    runs.retain(|run| !run.id.is_called());
    runs.sort_by(|one, two| two.started_at.cmp(&one.started_at));
    let passed =
        behind.and_then(|behind| runs.iter().position(|run| run.id == *behind)).map_or(0, |at| at + 1);
    Ok(Box::new(runs.into_iter().skip(passed).map(Ok)))
}

/// Collects runs until there are enough.
struct RunListing<'l> {
    reader: &'l JournalReader,
    choice: &'l RunChoice,
    now: Timestamp,
    listed: Vec<ListedRun>,
    next: Option<String>,
}

impl RunListing<'_> {
    /// Takes the next run if it is chosen. Says whether more are wanted.
    fn take(&mut self, run: RunInfo) -> Result<bool, InspectError> {
        let Self { reader, choice, now, listed, next } = self;
        // A run without events was killed before it did anything.
        if run.events == 0 || !choice.has(&run) {
            return Ok(true);
        }
        let status = RunStatus::of(reader, &run)?;
        if !choice.status.is_empty() && !choice.status.contains(&status) {
            return Ok(true);
        }
        if choice.count.is_some_and(|count| listed.len() >= count) {
            *next = listed.last().map(|last| last.run.id.to_string());
            return Ok(false);
        }
        listed.push(ListedRun::of(reader, *now, run, status));
        Ok(true)
    }

    fn page(self) -> RunPage {
        RunPage { runs: self.listed, next: self.next }
    }
}

impl ListedRun {
    /// What the first and the last event of a run say of it.
    pub fn of(reader: &JournalReader, now: Timestamp, run: RunInfo, status: RunStatus) -> Self {
        // An event that cannot be read is reported when the run is opened.
        let last = reader.event(&run.id, run.events).ok();
        let began = moment(&run.started_at);
        let ended = last.as_ref().filter(|_| status != RunStatus::Running);
        let ended = ended.and_then(|last| Timestamp::from_millisecond(last.time).ok());
        let until = if status == RunStatus::Running { Some(now) } else { ended };
        let took = began.zip(until).and_then(|(began, until)| until.duration_since(began).try_into().ok());
        let (mut loop_end, mut failed_items, mut spent, mut paused) = (None, None, None, None);
        match last.map(|event| event.kind) {
            Some(EventKind::RunEnded { outcome, ended, failed_items: failed, spent: used, .. }) => {
                (loop_end, failed_items) = (ended.map(|end| (outcome, end)), failed);
                spent = Some(used.map(|used| *used).unwrap_or_default());
            }
            Some(EventKind::Paused { reason, failed_items: failed, spent: used }) => {
                (failed_items, paused) = (failed, Some(reason.to_string()));
                spent = Some(used.map(|used| *used).unwrap_or_default());
            }
            _ => {}
        }
        let (mut continues, mut caller, mut inputs) = (None, None, None);
        if let Ok(Event { kind: EventKind::RunStarted(started), .. }) = reader.event(&run.id, 1) {
            continues = started.continues.map(|of| of.run.to_string());
            caller = started.caller.map(|caller| caller.run.to_string());
            if let Datum::Here(value) = started.inputs {
                inputs = Some(value);
            }
        }
        Self {
            run,
            status,
            began,
            ended,
            took,
            loop_end,
            continues,
            caller,
            failed_items,
            spent,
            inputs,
            paused,
        }
    }

    /// The run as JSON; with what all its events say, where that is known.
    pub fn value(&self, details: Option<&RunDetails>) -> Value {
        let run = &self.run;
        let time = |time: Option<Timestamp>| {
            time.map_or(Value::NULL, |time| time_text(time.as_millisecond()).into())
        };
        let millis = |took: Duration| Value::from(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let mut entries: Vec<(&str, Value)> = vec![
            ("run", run.id.as_str().into()),
            ("workflow", run.name.as_str().into()),
            ("file", run.file.as_str().into()),
            ("status", self.status.name().into()),
            ("started_at", run.started_at.as_str().into()),
            ("ended_at", time(self.ended)),
            ("duration_ms", self.took.map_or(Value::NULL, millis)),
            ("events", Value::from(run.events)),
            ("inputs", self.inputs.clone().unwrap_or_default()),
            ("failed_items", self.failed_items.map_or(Value::NULL, Value::from)),
            ("spent", self.spent.as_ref().map_or(Value::NULL, Spend::value)),
        ];
        entries.extend(details.into_iter().flat_map(RunDetails::entries));
        entries.extend(self.paused.as_deref().map(|why| ("paused", why.into())));
        entries.extend(self.caller.as_deref().map(|run| ("caller", run.into())));
        entries.extend(self.continues.as_deref().map(|run| ("continues", run.into())));
        entries.extend(self.loop_end.as_ref().map(|(_, end)| {
            let end = Value::record([
                ("reason", end.reason.name().into()),
                ("state", end.state.as_str().into()),
                ("limit", end.limit.map_or(Value::NULL, Value::from)),
            ]);
            ("ended", end)
        }));
        Value::record(entries)
    }

    /// Its inputs on one line: `target=prod, urgent=true`.
    pub fn inputs_text(&self) -> String {
        let inputs = self.inputs.as_ref().and_then(Value::as_object);
        let inputs = inputs.into_iter().flat_map(|inputs| inputs.iter());
        let shown = |value: &Value| match value.as_str() {
            Some(text) => words::shorten(text, 30).into_owned(),
            None => words::shorten(&threadline_lang::diag::excerpt(value), 30).into_owned(),
        };
        inputs
            .map(|(name, value)| format!("{}={}", name.as_str(), shown(value)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// What all events of a run together say of it.
#[derive(Clone)]
pub struct RunDetails {
    /// How its steps outside of items stand.
    pub steps: StandingCounts,
    /// How its items stand.
    pub items: StandingCounts,
    /// Which step failed first and was not made good, and why.
    pub error: Option<(String, String)>,
}

impl RunDetails {
    /// Reads them.
    pub fn read(reader: &JournalReader, run: &RunId) -> Result<Self, InspectError> {
        let history = History::open(reader, run.as_str())?;
        let timeline = RunTimeline::read(reader, run, &history.plan)?;
        Self::of(&history, &RunState::now(&timeline))
    }

    /// Those of a state.
    pub fn of(history: &History<'_>, state: &RunState<'_>) -> Result<Self, InspectError> {
        let mut error = None;
        if let Some((at, seq)) = state.first_failure() {
            let event = history.event(seq)?;
            let said = match &event.kind {
                EventKind::Judged(judged) => Some(judged.reason.to_string()),
                EventKind::ItemEnded(ended) => ended.error.as_ref().map(ToString::to_string),
                _ => output_of(&event)
                    .and_then(|output| output.meta.get(names::ERROR))
                    .map(ToString::to_string),
            };
            let name = label(&history.plan, &at).trim_start().to_owned();
            error = Some((name, first_line(&said.unwrap_or_default()).to_owned()));
        }
        Ok(Self { steps: state.outside_steps(), items: state.items(), error })
    }

    fn entries(&self) -> Vec<(&'static str, Value)> {
        let error = self.error.as_ref().map_or(Value::NULL, |(step, message)| {
            Value::record([("step", Value::from(step.as_str())), ("message", message.as_str().into())])
        });
        vec![("error", error), ("steps", self.steps.value()), ("items", self.items.value())]
    }
}

/// The moment of a time as the store has it.
pub fn moment(time: &str) -> Option<Timestamp> {
    time.parse().ok()
}
