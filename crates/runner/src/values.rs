//! The values of a run, loaded from the journal when a step reads them and kept for a while.
//!
//! What is kept is bounded in bytes; whatever was dropped is in the journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use threadline_engine::event::{Datum, EventKind, Listed, Output, Seq};
use threadline_engine::execute::result::{envelope, judged_envelope};
use threadline_engine::replay::output_of;
use threadline_engine::view::{ItemRef, Load};
use threadline_lang::{Envelope, ScopeEntry, Value};
use threadline_store::{JournalError, JournalReader, RunId};

use crate::items::ChunkReader;

/// So many bytes of values are kept, about.
const MAX_KEPT: u64 = 8 << 20;

/// An output takes so many bytes beside the texts in it, about: its meta data, its fields and the tables around them.
const OUTPUT: u64 = 2 << 10;

/// An envelope of the journal as it is read by name.
pub fn load_envelope(reader: &JournalReader, output: &Output) -> Result<Envelope, JournalError> {
    let load = |datum: &Option<Datum>| datum.as_ref().map(|datum| reader.load(datum)).transpose();
    let (printed, stderr) = (load(&output.output)?, load(&output.stderr)?);
    Ok(envelope(reader.load(&output.value)?, printed, stderr, output.meta.clone()))
}

/// Outputs and lists by the events that recorded them.
pub struct Values<'s> {
    reader: &'s JournalReader,
    run: RunId,
    kept: Mutex<ValueCache>,
}

#[derive(Default)]
struct ValueCache {
    /// Each with about so many bytes.
    entries: BTreeMap<Seq, (Entry, u64)>,
    order: VecDeque<Seq>,
    bytes: u64,
}

#[derive(Clone)]
enum Entry {
    Output(Arc<Envelope>),
    /// One whose values were recorded before this run began.
    Kept(Arc<Output>),
    List(Value),
    Chunks(Arc<ChunkReader>),
}

impl<'s> Values<'s> {
    /// The values of a run.
    pub fn new(reader: &'s JournalReader, run: RunId) -> Self {
        Self { reader, run, kept: Mutex::default() }
    }

    /// The output that an event recorded.
    pub fn output(&self, seq: Seq) -> Result<Arc<Envelope>, JournalError> {
        match self.kept(seq) {
            Some(Entry::Output(output)) => return Ok(output),
            Some(Entry::Kept(output)) => return load_envelope(self.reader, &output).map(Arc::new),
            _ => {}
        }
        let event = self.reader.event(&self.run, seq)?;
        let envelope = match (&event.kind, output_of(&event)) {
            (EventKind::Judged(judged), _) => {
                judged_envelope(&event.at, judged, |datum| self.reader.load(datum))?
            }
            (_, Some(output)) => load_envelope(self.reader, output)?,
            _ => return Err(JournalError::Value(format!("event {seq} has no output"))),
        };
        let envelope = Arc::new(envelope);
        self.keep_output(seq, &envelope);
        Ok(envelope)
    }

    /// The list that an event recorded.
    fn list(&self, seq: Seq) -> Result<Entry, JournalError> {
        if let Some(entry @ (Entry::List(_) | Entry::Chunks(_))) = self.kept(seq) {
            return Ok(entry);
        }
        let event = self.reader.event(&self.run, seq)?;
        match &event.kind {
            EventKind::Expanded { items: Listed::Whole(items), .. } => {
                let list = self.reader.load(items)?;
                self.keep_list(seq, &list);
                Ok(Entry::List(list))
            }
            EventKind::Expanded { items: Listed::Chunks(index), .. } => {
                let chunks = Arc::new(ChunkReader::open(self.reader, index)?);
                self.keep(seq, Entry::Chunks(Arc::clone(&chunks)), 0);
                Ok(Entry::Chunks(chunks))
            }
            _ => Err(JournalError::Value(format!("event {seq} has no list"))),
        }
    }

    /// The results that an index leads to, read page by page.
    pub fn rows(&self, index: &Datum) -> Result<ScopeEntry, JournalError> {
        Ok(ScopeEntry::Paged(Arc::new(ChunkReader::open(self.reader, index)?)))
    }

    /// Keeps an output that is known already.
    pub fn keep_output(&self, seq: Seq, envelope: &Arc<Envelope>) {
        let size = envelope.value.size() + envelope.also.as_ref().map_or(0, Value::size) + OUTPUT;
        self.keep(seq, Entry::Output(Arc::clone(envelope)), size);
    }

    /// Keeps an output that stands in an event of an earlier run, too: whoever reads it need not wait for the event.
    pub fn keep_earlier(&self, seq: Seq, output: Output) {
        let data = [Some(&output.value), output.output.as_ref(), output.stderr.as_ref()];
        let here = data.into_iter().flatten().map(|datum| match datum {
            Datum::Here(value) => value.size(),
            Datum::Stored { .. } => 0,
        });
        let size = here.sum::<u64>() + OUTPUT;
        self.keep(seq, Entry::Kept(Arc::new(output)), size);
    }

    /// Keeps a list that is known already.
    pub fn keep_list(&self, seq: Seq, list: &Value) {
        self.keep(seq, Entry::List(list.clone()), list.size());
    }

    /// Whether what an event recorded is known without the journal.
    pub fn has(&self, seq: Seq) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries.contains_key(&seq)
    }

    fn kept(&self, seq: Seq) -> Option<Entry> {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entries
            .get(&seq)
            .map(|(entry, _)| entry.clone())
    }

    fn keep(&self, seq: Seq, entry: Entry, size: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        if kept.entries.insert(seq, (entry, size)).is_none() {
            kept.order.push_back(seq);
            kept.bytes += size;
        }
        while kept.bytes > MAX_KEPT && kept.order.len() > 1 {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some((_, size)) = kept.entries.remove(&oldest) {
                kept.bytes = kept.bytes.saturating_sub(size);
            }
        }
    }
}

impl Load for &Values<'_> {
    type Error = JournalError;

    fn output(&mut self, seq: Seq) -> Result<Arc<Envelope>, JournalError> {
        Values::output(self, seq)
    }

    fn item(&mut self, item: ItemRef) -> Result<Value, JournalError> {
        let found = match self.list(item.list)? {
            Entry::Chunks(chunks) => return Ok(chunks.item(item.index)?),
            Entry::List(list) => {
                let index = usize::try_from(item.index).unwrap_or(usize::MAX);
                list.as_list().and_then(|items| items.get(index)).cloned()
            }
            Entry::Output(_) | Entry::Kept(_) => None,
        };
        found.ok_or_else(|| JournalError::Value(format!("event {} has no item {}", item.list, item.index)))
    }

    fn item_error(&mut self, seq: Seq) -> Result<EcoString, JournalError> {
        match self.reader.event(&self.run, seq)?.kind {
            EventKind::ItemRetrying { error, .. } => Ok(error),
            EventKind::ItemEnded(ended) => Ok(ended.error.unwrap_or_default()),
            _ => Err(JournalError::Value(format!("event {seq} is about no item that failed"))),
        }
    }

    fn outcome(&mut self, seq: Seq) -> Result<Value, JournalError> {
        match self.reader.event(&self.run, seq)?.kind {
            EventKind::OutcomeKnown { run, .. } => Ok(self.reader.load(&run)?),
            _ => Err(JournalError::Value(format!("event {seq} has no outcome"))),
        }
    }

    fn results(&mut self, seq: Seq) -> Result<ScopeEntry, JournalError> {
        match self.reader.event(&self.run, seq)?.kind {
            EventKind::Finished { results: Some(index), .. } => self.rows(&index),
            _ => Err(JournalError::Value(format!("event {seq} has no results"))),
        }
    }
}
