//! What happened in a run, as little of each event as its state at any time follows from: what, when, and to which
//! execution. A million events take some dozens of megabytes, and a run that goes on is read on.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use threadline_engine::event::{Address, ERROR, Event, EventKind, Millis, Seq, Status};
use threadline_engine::machine::Outcome;
use threadline_flow::plan::{Plan, StepNumber};
use threadline_store::{EventMark, JournalReader, RunId};

use crate::error::{InspectError, of_journal, of_store};
use crate::run_state::Standing;

/// The events of a run up to the last one that was read.
pub struct RunTimeline {
    pub(crate) plan: Arc<Plan>,
    run: RunId,
    pub(crate) places: Vec<TimelinePlace>,
    known: HashMap<Box<str>, PlaceNumber, BuildHasherDefault<DefaultHasher>>,
    pub(crate) events: Vec<TimelineEvent>,
}

/// The number of an execution in [`RunTimeline`].
pub type PlaceNumber = u32;

/// An execution, an item, a list or the run itself.
pub struct TimelinePlace {
    /// Its address.
    pub at: Address,
    /// The step that it is an execution of; of an item, the step with the items.
    pub step: Option<StepNumber>,
    /// Of an item, the step whose item it is, and its index.
    pub item: Option<(PlaceNumber, u64)>,
    /// The innermost item that it stands in.
    pub inside: Option<PlaceNumber>,
    /// What stands in it, of an item.
    pub(crate) contents: Vec<PlaceNumber>,
    /// Its items, of a step with items.
    pub(crate) items: Vec<PlaceNumber>,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct TimelineEvent {
    /// When it happened.
    pub time: Millis,
    /// To what.
    pub place: PlaceNumber,
    /// What happened.
    pub what: Happening,
}

/// What happened, as far as the state of a run follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// The run began.
    Begins,
    /// The run goes on after a pause, a crash or a failure.
    GoesOn,
    /// The run stopped before its end.
    Pauses,
    /// The run is over.
    Ends {
        /// How it ended.
        outcome: Outcome,
        /// Whether it is a loop that ended in a state, or by a limit.
        by_loop: bool,
    },
    /// The items of a step are known: how many.
    Expands(u64),
    /// An attempt begins, or an item that failed begins again.
    Starts,
    /// An item that failed begins again.
    ItemBegins,
    /// An attempt failed and another begins then.
    WillRetry(Millis),
    /// A step or an item has ended.
    Over(Status),
    /// A state was judged: whether it failed, because no route leads on.
    Judged {
        /// Whether it failed.
        failed: bool,
    },
    /// Anything else.
    Other,
}

impl Happening {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::GoesOn => "goes-on",
            Self::Pauses => "pauses",
            Self::Ends { .. } => "ends",
            Self::Expands(_) => "expands",
            Self::Starts => "starts",
            Self::ItemBegins => "item-begins",
            Self::WillRetry(_) => "retries",
            Self::Over(_) => "over",
            Self::Judged { .. } => "judged",
            Self::Other => "other",
        }
    }

    /// How the execution that it is about stands then, where it says that.
    pub fn standing(self) -> Option<Standing> {
        match self {
            Self::Starts | Self::ItemBegins | Self::Expands(_) => Some(Standing::Running),
            Self::WillRetry(_) => Some(Standing::Retrying),
            Self::Over(status) => Some(Standing::of(status)),
            Self::Judged { failed } => Some(if failed { Standing::Failed } else { Standing::Completed }),
            _ => None,
        }
    }
}

/// Texts without which the end of a step is that it completed.
const OTHER_ENDS: [&str; 3] = ["\"failed\"", "\"skipped\"", "\"cancelled\""];

impl RunTimeline {
    /// Reads the events of a run.
    pub fn read(reader: &JournalReader, run: &RunId, plan: &Arc<Plan>) -> Result<Self, InspectError> {
        let mut timeline = Self {
            plan: Arc::clone(plan),
            run: run.clone(),
            places: Vec::new(),
            known: HashMap::default(),
            events: Vec::new(),
        };
        timeline.read_on(reader)?;
        Ok(timeline)
    }

    /// Reads the events that were written since.
    pub fn read_on(&mut self, reader: &JournalReader) -> Result<(), InspectError> {
        let from = self.last() + 1;
        let (mut unread, mut broken) = (Vec::new(), None);
        let run = self.run.clone();
        let take = |mark: &EventMark<'_>| {
            let Some(address) = mark.address else { return broken = Some(mark.seq) };
            let Some(place) = self.place_of(address) else { return broken = Some(mark.seq) };
            let Some(time) = mark.time.and_then(|time| time.parse().ok()) else {
                return broken = Some(mark.seq);
            };
            let what = match mark.kind {
                "started" => Some(Happening::Starts),
                "item_begun" => Some(Happening::ItemBegins),
                "skipped" => Some(Happening::Over(Status::Skipped)),
                "unresolved" => Some(Happening::Over(Status::Failed)),
                "finished" | "item_ended" if !mark.has_text => Some(Happening::Over(Status::Completed)),
                "run_started" => Some(Happening::Begins),
                "resumed" => Some(Happening::GoesOn),
                "paused" => Some(Happening::Pauses),
                "finished" | "item_ended" | "run_ended" | "expanded" | "retrying" | "item_retrying"
                | "judged" => None,
                _ => Some(Happening::Other),
            };
            if what.is_none() {
                unread.push(mark.seq);
            }
            self.events.push(TimelineEvent { time, place, what: what.unwrap_or(Happening::Other) });
        };
        reader.scan_from(&run, from, &OTHER_ENDS, take).map_err(|error| of_store(&error))?;
        if let Some(seq) = broken {
            // Whoever reads the event says what is wrong with it.
            reader.event(&run, seq).map_err(|error| of_journal(&error))?;
            return Err(InspectError::plain(format!("event {seq} of run `{run}` cannot be read")));
        }
        for event in reader.events_at(&run, &unread) {
            let event = event.map_err(|error| of_journal(&error))?;
            let what = self.happening(&event);
            if let Some(known) = index(event.seq).and_then(|at| self.events.get_mut(at)) {
                known.what = what;
            }
        }
        Ok(())
    }

    /// The plan of the run.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The number of the last event.
    pub fn last(&self) -> Seq {
        self.events.len() as Seq
    }

    /// An event, by its number.
    pub fn event(&self, seq: Seq) -> Option<&TimelineEvent> {
        self.events.get(index(seq)?)
    }

    /// The events from one number to another, with their numbers.
    pub fn events(&self, from: Seq, to: Seq) -> impl Iterator<Item = (Seq, &TimelineEvent)> {
        let from = from.max(1);
        let count = usize::try_from((to + 1).saturating_sub(from)).unwrap_or(usize::MAX);
        let skip = usize::try_from(from - 1).unwrap_or(usize::MAX);
        (from..).zip(self.events.iter().skip(skip).take(count))
    }

    /// What an event was about.
    pub fn place(&self, place: PlaceNumber) -> &TimelinePlace {
        &self.places[place as usize]
    }

    /// The execution with an address.
    pub fn find(&self, at: &Address) -> Option<PlaceNumber> {
        self.known.get(at.as_str()).copied()
    }

    fn place_of(&mut self, address: &str) -> Option<PlaceNumber> {
        if let Some(known) = self.known.get(address) {
            return Some(*known);
        }
        let at = Address::parse(address).ok()?;
        let item = match at.as_item() {
            Some((owner, index)) => Some((self.place_of(owner.as_str())?, index)),
            None => None,
        };
        let around = at.items_around().rfind(|item| *item != at);
        let inside = match around {
            Some(around) => Some(self.place_of(around.as_str())?),
            None => None,
        };
        let number = PlaceNumber::try_from(self.places.len()).ok()?;
        let step = at.step(&self.plan);
        self.places.push(TimelinePlace { at, step, item, inside, contents: Vec::new(), items: Vec::new() });
        self.known.insert(address.into(), number);
        if let Some((owner, _)) = item {
            self.places[owner as usize].items.push(number);
        }
        let mut around = inside;
        while let Some(item) = around {
            self.places[item as usize].contents.push(number);
            around = self.places[item as usize].inside;
        }
        Some(number)
    }

    fn happening(&self, event: &Event) -> Happening {
        match &event.kind {
            EventKind::Finished { output, .. } => Happening::Over(output.status),
            EventKind::ItemEnded(ended) => Happening::Over(ended.status),
            EventKind::RunEnded { outcome, ended, .. } => {
                Happening::Ends { outcome: *outcome, by_loop: ended.is_some() }
            }
            EventKind::Expanded { count, .. } => Happening::Expands(*count),
            EventKind::Retrying { until, .. } | EventKind::ItemRetrying { until, .. } => {
                Happening::WillRetry(*until)
            }
            EventKind::Judged(judged) => {
                let step = event.at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
                let state = step.and_then(|step| step.state.as_ref());
                let ends = state.is_some_and(|state| state.terminal.is_some());
                Happening::Judged { failed: judged.to.is_none() && (!ends || judged.verdict == ERROR) }
            }
            _ => Happening::Other,
        }
    }
}

fn index(seq: Seq) -> Option<usize> {
    usize::try_from(seq.checked_sub(1)?).ok()
}
