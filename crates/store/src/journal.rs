//! The journal of one run as typed events: the driver appends them, and every other part of the program reads them.
//!
//! Small values are part of their events. Large ones are stored once, by their hash.

use std::fmt;

use threadline_engine::event::{Address, Computed, Datum, Event, EventKind, Millis, ValueEncoding};
use threadline_engine::world::Answer;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use crate::wire::{self, WireError};
use crate::{
    Durability, EventDraft, JournalReader, Lease, RunId, Seq, Store, StoreError, StoredEvent, Ticket,
};

/// The maximum size of a value that is part of its event, in bytes.
const MAX_INLINE: usize = 2_048;

/// Why the journal cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalError {
    /// The store failed.
    Store(StoreError),
    /// An event cannot be decoded.
    Wire(WireError),
    /// A value cannot be decoded.
    Value(String),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Wire(error) => error.fmt(f),
            Self::Value(why) => write!(f, "a value of the journal cannot be read: {why}"),
        }
    }
}

impl std::error::Error for JournalError {}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<WireError> for JournalError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// Appends the events of a run that this process drives.
pub struct Journal<'s> {
    store: &'s Store,
    lease: Lease,
}

impl<'s> Journal<'s> {
    /// The journal of a run.
    pub fn new(store: &'s Store, lease: Lease) -> Self {
        Self { store, lease }
    }

    /// The store that holds the journal.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The id of the run.
    pub fn run(&self) -> &RunId {
        self.lease.run()
    }

    /// Appends events. They are numbered at once; the ticket tells when they are on disk.
    pub fn append(
        &self,
        time: Millis,
        happened: Vec<(Address, EventKind)>,
        durability: Durability,
    ) -> Result<(Vec<Event>, Ticket), StoreError> {
        let drafts = happened.iter().map(|(at, kind)| draft(time, at, kind)).collect();
        let ticket = self.lease.append(drafts, durability)?;
        let numbered = (ticket.first()..).zip(happened);
        let events = numbered.map(|(seq, (at, kind))| Event { seq, time, at, kind }).collect();
        Ok((events, ticket))
    }

    /// Waits until everything up to an event is written.
    pub fn wait_written(&self, seq: Seq) -> Result<(), StoreError> {
        self.lease.wait_written(seq)
    }

    /// Waits until an event is written, without making it urgent.
    pub fn wait_written_patiently(&self, seq: Seq) -> Result<(), StoreError> {
        self.lease.wait_written_patiently(seq)
    }

    /// Waits until an event is on disk, without making it urgent.
    pub fn wait_patiently(&self, seq: Seq) -> Result<(), StoreError> {
        self.lease.wait_patiently(seq)
    }

    /// Waits until everything up to an event is on disk.
    pub fn wait_synced(&self, seq: Seq) -> Result<(), StoreError> {
        self.lease.wait_synced(seq)
    }
}

impl Store {
    /// A value for an event: small ones as they are, large ones by their hash.
    pub fn datum(&self, value: &Value) -> Result<Datum, StoreError> {
        if let Some(text) = value.as_str() {
            if text.len() <= MAX_INLINE {
                return Ok(Datum::Here(value.clone()));
            }
            let hash = self.put_text(text)?;
            return Ok(Datum::Stored { hash, len: text.len() as u64, form: ValueEncoding::Text });
        }
        let json = match (value.as_list(), value.as_object()) {
            (None, None) => return Ok(Datum::Here(value.clone())),
            _ => value.to_json(JsonStyle::Compact),
        };
        if json.len() <= MAX_INLINE && value.depth() <= wire::SHALLOW {
            return Ok(Datum::Here(value.clone()));
        }
        let len = json.len() as u64;
        let hash = self.put_value(json.into_bytes())?;
        Ok(Datum::Stored { hash, len, form: ValueEncoding::Json })
    }

    /// Answers of the world for an event.
    pub fn computed(&self, answers: &[Answer]) -> Result<Vec<Computed>, StoreError> {
        let computed = |answer: &Answer| {
            let args = Value::sequence(answer.args.clone());
            let answered = match &answer.answer {
                Ok(value) => Ok(self.datum(value)?),
                Err(error) => Err(error.clone()),
            };
            Ok(Computed { name: answer.name.clone(), args: self.datum(&args)?, answer: answered })
        };
        answers.iter().map(computed).collect()
    }
}

impl JournalReader {
    /// The events of a run from a number on.
    pub fn events(
        &self,
        run: &RunId,
        from: Seq,
    ) -> Result<impl Iterator<Item = Result<Event, JournalError>>, StoreError> {
        Ok(self.read(run, from)?.map(|record| event(&record?)))
    }

    /// The events of a run from a number on that are of one kind. The others are read, and not looked into.
    pub fn events_of(
        &self,
        run: &RunId,
        from: Seq,
        kind: &'static str,
    ) -> Result<impl Iterator<Item = Result<Event, JournalError>>, StoreError> {
        let of_kind = move |record: &Result<StoredEvent, StoreError>| {
            record.as_ref().map_or(true, |record| record.kind == kind)
        };
        Ok(self.read(run, from)?.filter(of_kind).map(|record| event(&record?)))
    }

    /// The events of a run with these numbers, which are in order.
    pub fn events_at<'s>(
        &'s self,
        run: &'s RunId,
        chosen: &'s [Seq],
    ) -> impl Iterator<Item = Result<Event, JournalError>> + 's {
        self.read_chosen(run, chosen).map(|record| event(&record?))
    }

    /// The event of a run with this number.
    pub fn event(&self, run: &RunId, seq: Seq) -> Result<Event, JournalError> {
        event(&self.stored_event(run, seq)?)
    }

    /// The value of an event.
    pub fn load(&self, datum: &Datum) -> Result<Value, JournalError> {
        match datum {
            Datum::Here(value) => Ok(value.clone()),
            Datum::Stored { hash, form, .. } => {
                let bytes = self.value(hash)?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| JournalError::Value(format!("{hash} is not UTF-8")))?;
                wire::value_of(*form, text).map_err(|why| JournalError::Value(format!("{hash}: {why}")))
            }
        }
    }

    /// The answers of the world that an event holds.
    pub fn answers(&self, computed: &[Computed]) -> Result<Vec<Answer>, JournalError> {
        let answer = |computed: &Computed| {
            let args = self.load(&computed.args)?.as_list().unwrap_or_default().to_vec();
            let answer = match &computed.answer {
                Ok(datum) => Ok(self.load(datum)?),
                Err(error) => Err(error.clone()),
            };
            Ok(Answer { name: computed.name.clone(), args, answer })
        };
        computed.iter().map(answer).collect()
    }
}

fn draft(time: Millis, at: &Address, event: &EventKind) -> EventDraft {
    let (kind, payload) = wire::encode(event);
    let draft = EventDraft::new(kind, time.to_string()).at(at.as_str()).with(payload);
    match event {
        EventKind::RunStarted(_) | EventKind::Resumed { .. } => draft.status("running"),
        EventKind::Paused { .. } => draft.status("paused"),
        EventKind::RunEnded { outcome, .. } => draft.status(outcome.name()),
        _ => draft,
    }
}

fn event(stored: &StoredEvent) -> Result<Event, JournalError> {
    let unreadable = |why: String| WireError { kind: stored.kind.clone(), why };
    let time = stored.time.parse().map_err(|_| unreadable("its time is not a number".to_owned()))?;
    let at = Address::parse(&stored.address).map_err(|error| unreadable(error.to_string()))?;
    let kind = wire::decode(&stored.kind, &stored.payload)?;
    Ok(Event { seq: stored.seq, time, at, kind })
}
