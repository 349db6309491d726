//! A journal in memory, for drivers that invent what steps do: every value is in its event.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::{Envelope, ScopeEntry, Value};

use crate::event::{Datum, Event, EventKind, Listed, Seq};
use crate::execute::result::{envelope, judged_envelope};
use crate::replay::output_of;
use crate::view::{ItemRef, Load};

/// Events in their order, from the first.
#[derive(Clone, Copy)]
pub(crate) struct MemoryJournal<'j>(pub(crate) &'j [Event]);

/// An event that does not hold what was looked for.
#[derive(Debug)]
pub(crate) struct MissingValue(
    #[cfg_attr(
        not(feature = "testing"),
        allow(dead_code, reason = "only the simulator says which event it is")
    )]
    pub(crate) Seq,
);

impl<'j> MemoryJournal<'j> {
    pub(crate) fn event(self, seq: Seq) -> Result<&'j Event, MissingValue> {
        let index = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
        index.and_then(|index| self.0.get(index)).ok_or(MissingValue(seq))
    }

    /// The element of a list that an event recorded.
    pub(crate) fn element(self, item: ItemRef) -> Result<&'j Value, MissingValue> {
        let items = match &self.event(item.list)?.kind {
            EventKind::Expanded { items: Listed::Whole(Datum::Here(items)), .. } => items.as_list(),
            _ => None,
        };
        let element = items.zip(usize::try_from(item.index).ok()).and_then(|(items, at)| items.get(at));
        element.ok_or(MissingValue(item.list))
    }
}

impl Load for MemoryJournal<'_> {
    type Error = MissingValue;

    fn output(&mut self, seq: Seq) -> Result<Arc<Envelope>, MissingValue> {
        let here = |datum: &Datum| match datum {
            Datum::Here(value) => Ok(value.clone()),
            Datum::Stored { .. } => Err(MissingValue(seq)),
        };
        let event = self.event(seq)?;
        if let EventKind::Judged(judged) = &event.kind {
            return judged_envelope(&event.at, judged, here).map(Arc::new);
        }
        let output = output_of(event).ok_or(MissingValue(seq))?;
        let printed = output.output.as_ref().map(here).transpose()?;
        let stderr = output.stderr.as_ref().map(here).transpose()?;
        Ok(Arc::new(envelope(here(&output.value)?, printed, stderr, output.meta.clone())))
    }

    fn item(&mut self, item: ItemRef) -> Result<Value, MissingValue> {
        self.element(item).cloned()
    }

    fn item_error(&mut self, seq: Seq) -> Result<EcoString, MissingValue> {
        match &self.event(seq)?.kind {
            EventKind::ItemRetrying { error, .. } => Ok(error.clone()),
            EventKind::ItemEnded(ended) => Ok(ended.error.clone().unwrap_or_default()),
            _ => Err(MissingValue(seq)),
        }
    }

    fn outcome(&mut self, seq: Seq) -> Result<Value, MissingValue> {
        match &self.event(seq)?.kind {
            EventKind::OutcomeKnown { run: Datum::Here(run), .. } => Ok(run.clone()),
            _ => Err(MissingValue(seq)),
        }
    }

    fn results(&mut self, seq: Seq) -> Result<ScopeEntry, MissingValue> {
        match &self.event(seq)?.kind {
            EventKind::Finished { results: Some(Datum::Here(results)), .. } => {
                Ok(ScopeEntry::Plain(results.clone()))
            }
            _ => Err(MissingValue(seq)),
        }
    }
}
