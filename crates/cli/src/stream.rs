//! A run as lines of JSON for programs: every event, with the label of its step and its values.

use std::cell::Cell;

use threadline_engine::event::{Address, Datum, Event};
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_runner::driver::Notice;
use threadline_runner::items::ChunkReader;
use threadline_store::wire::{self, DatumForm, StoredForm};
use threadline_store::{JournalError, JournalReader};

use crate::commands::history::time_text;
use crate::printing::{self, print_line};
use crate::remarks::Remarks;

/// The maximum number of bytes of values that a line loads from the store; further values stay in their stored form.
const MAX_LOADED: u64 = 64 << 20;

/// The maximum number of bytes of a list of items or results in a line. Such a list is never held as a whole elsewhere,
/// and takes many times its bytes.
const MAX_LIST: u64 = 4 << 20;

/// The maximum depth of a value in a line, which nests it a few levels deeper; a deeper one stays in its stored form.
const MAX_NESTED: u8 = 190;

/// How the lines of a run show values.
#[derive(Clone, Copy)]
pub(crate) struct EventLines<'r> {
    reader: &'r JournalReader,
    stored: bool,
}

impl<'r> EventLines<'r> {
    /// Lines with plain values, or with values as the journal stores them.
    pub(crate) fn new(reader: &'r JournalReader, stored: bool) -> Self {
        Self { reader, stored }
    }

    /// Prints an event; the output of steps is part of their events. Remarks go to stderr.
    pub(crate) fn notice(self, plan: &Plan, remarks: &mut Remarks, notice: &Notice) {
        self.notice_of(None, plan, remarks, notice);
    }

    /// Prints a notice; the lines about a called run name that run.
    fn notice_of(self, called: Option<&str>, plan: &Plan, remarks: &mut Remarks, notice: &Notice) {
        match notice {
            Notice::Event(event) => match self.line(called, plan, event) {
                Ok(line) => print_line(&line),
                Err(error) => printing::note_failure(&format!("event {}: {error}", event.seq)),
            },
            Notice::Called(called) => {
                self.notice_of(Some(&called.run), &called.plan, remarks, &called.notice);
            }
            remark => {
                remarks.notice(plan, remark);
            }
        }
    }

    /// An event with its number, time and step, and its run if that was called.
    pub(crate) fn line(
        self,
        called: Option<&str>,
        plan: &Plan,
        event: &Event,
    ) -> Result<String, JournalError> {
        let (kind, data) = if self.stored {
            let Ok(fields) = wire::fields_of(&event.kind, &StoredForm);
            fields
        } else {
            wire::fields_of(&event.kind, &PlainForm::new(self.reader))?
        };
        let run = called.map(|run| ("run", run.into()));
        let mut entries: Vec<(&str, Value)> = run.into_iter().collect();
        entries.extend([
            ("seq", Value::from(event.seq)),
            ("time", time_text(event.time).as_str().into()),
            ("kind", kind.into()),
        ]);
        if event.at != Address::default() {
            entries.push(("at", event.at.as_str().into()));
            let label = event.at.step(plan).map(|step| plan.steps[step as usize].label.clone());
            entries.extend(label.map(|label| ("step", label.as_str().into())));
        }
        entries.push(("data", Value::record(data)));
        Ok(Value::record(entries).to_json(JsonStyle::Compact))
    }
}

/// The values of one event, loaded from the store.
struct PlainForm<'r> {
    reader: &'r JournalReader,
    /// The number of bytes that may still be loaded.
    room: Cell<u64>,
}

impl<'r> PlainForm<'r> {
    fn new(reader: &'r JournalReader) -> Self {
        Self { reader, room: Cell::new(MAX_LOADED) }
    }

    /// Whether there is room for so many bytes, which is taken then.
    fn has_room(&self, bytes: u64) -> bool {
        let left = self.room.get().checked_sub(bytes);
        self.room.set(left.unwrap_or(self.room.get()));
        left.is_some()
    }
}

impl DatumForm for PlainForm<'_> {
    type Error = JournalError;

    fn value(&self, datum: &Datum) -> Result<Value, JournalError> {
        if let Datum::Stored { len, .. } = datum
            && !self.has_room(*len)
        {
            return Ok(wire::datum(datum));
        }
        let value = self.reader.load(datum)?;
        Ok(if value.depth() > MAX_NESTED { wire::datum(datum) } else { value })
    }

    fn elements(&self, index: &Datum) -> Result<Option<Value>, JournalError> {
        let list = ChunkReader::open(self.reader, index)?;
        let bytes = list.bytes();
        if bytes > MAX_LIST || !self.has_room(bytes) {
            return Ok(None);
        }
        Ok(list.elements()?.filter(|elements| elements.depth() <= MAX_NESTED))
    }
}
