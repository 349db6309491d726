//! What a run recorded, by execution: what each left last, how often it was tried, its verdict, its items.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_engine::event::{Address, Datum, EventKind, Listed, Output, Seq, Status};
use threadline_engine::machine::Outcome;
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;

use crate::error::{InspectError, of_journal, of_store};
use crate::history::History;

/// What an execution left.
#[derive(Debug, Clone)]
pub(super) struct RecordedEnd {
    pub(super) seq: Seq,
    pub(super) status: Status,
    pub(super) value: Datum,
    pub(super) output: Option<Datum>,
    pub(super) stderr: Option<Datum>,
    /// Why it failed or was skipped.
    pub(super) why: Option<String>,
    pub(super) exit_code: Option<Value>,
    pub(super) model: Option<Value>,
    /// The run that it called.
    pub(super) called: Option<String>,
}

impl RecordedEnd {
    fn of(seq: Seq, output: &Output) -> Self {
        let text = |name: &str| output.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            seq,
            status: output.status,
            value: output.value.clone(),
            output: output.output.clone(),
            stderr: output.stderr.clone(),
            why: text(if output.status == Status::Skipped { names::REASON } else { names::ERROR }),
            exit_code: output.meta.get(names::EXIT_CODE).cloned(),
            model: output.meta.get(names::MODEL_USED).cloned(),
            called: text(names::RUN_ID),
        }
    }
}

/// A verdict on a state.
pub(super) struct RecordedVerdict {
    pub(super) seq: Seq,
    pub(super) verdict: EcoString,
    pub(super) reason: EcoString,
    pub(super) to: Option<EcoString>,
}

/// The items of a step.
pub(super) struct RecordedItems {
    pub(super) seq: Seq,
    pub(super) count: u64,
    pub(super) items: Listed,
}

/// How an item ended.
pub(super) struct RecordedItem {
    pub(super) seq: Seq,
    pub(super) status: Status,
    pub(super) error: Option<EcoString>,
}

/// What a run recorded.
#[derive(Default)]
pub(super) struct RecordedRun {
    pub(super) ends: BTreeMap<Address, RecordedEnd>,
    /// Executions that have begun and not ended, with the event that they began with.
    pub(super) open: BTreeMap<Address, Seq>,
    pub(super) verdicts: BTreeMap<Address, RecordedVerdict>,
    pub(super) lists: BTreeMap<Address, RecordedItems>,
    pub(super) items: BTreeMap<Address, RecordedItem>,
    /// How many attempts of an execution failed and were followed by another.
    pub(super) retries: BTreeMap<Address, u32>,
    pub(super) defined: BTreeMap<EcoString, Seq>,
    pub(super) outcome: Option<Outcome>,
    pub(super) paused: Option<String>,
}

impl RecordedRun {
    /// Reads the events of a run.
    pub(super) fn read(history: &History<'_>) -> Result<Self, InspectError> {
        let mut run = Self::default();
        for event in history.reader.events(&history.info.id, 1).map_err(|error| of_store(&error))? {
            let event = event.map_err(|error| of_journal(&error))?;
            run.take(event.seq, &event.at, event.kind);
        }
        Ok(run)
    }

    fn take(&mut self, seq: Seq, at: &Address, kind: EventKind) {
        match kind {
            EventKind::Started { .. } => {
                self.ends.remove(at);
                self.verdicts.remove(at);
                self.open.insert(at.clone(), seq);
            }
            EventKind::Finished { output, .. }
            | EventKind::Unresolved { output, .. }
            | EventKind::Skipped { output, .. } => {
                self.open.remove(at);
                self.ends.insert(at.clone(), RecordedEnd::of(seq, &output));
            }
            EventKind::Retrying { .. } => {
                *self.retries.entry(at.clone()).or_default() += 1;
            }
            EventKind::Judged(judged) => {
                let recorded =
                    RecordedVerdict { seq, verdict: judged.verdict, reason: judged.reason, to: judged.to };
                self.verdicts.insert(at.clone(), recorded);
            }
            EventKind::Expanded { items, count, .. } => {
                self.forget_items(at);
                self.lists.insert(at.clone(), RecordedItems { seq, count, items });
            }
            EventKind::ItemRetrying { .. } | EventKind::ItemBegun { .. } => self.forget_inside(at),
            EventKind::ItemEnded(ended) => {
                let item = RecordedItem { seq, status: ended.status, error: ended.error };
                self.items.insert(at.clone(), item);
            }
            EventKind::Defined { name, .. } => {
                self.defined.insert(name, seq);
            }
            EventKind::RunEnded { outcome, .. } => (self.outcome, self.paused) = (Some(outcome), None),
            EventKind::Paused { reason, .. } => self.paused = Some(reason.to_string()),
            EventKind::Resumed { .. } => (self.outcome, self.paused) = (None, None),
            _ => {}
        }
    }

    /// The items of a list are others now.
    fn forget_items(&mut self, at: &Address) {
        at.remove_items_from(&mut self.ends);
        at.remove_items_from(&mut self.open);
        at.remove_items_from(&mut self.lists);
        at.remove_items_from(&mut self.items);
        at.remove_items_from(&mut self.retries);
    }

    /// An item begins again.
    fn forget_inside(&mut self, item: &Address) {
        item.remove_lists_from(&mut self.ends);
        item.remove_lists_from(&mut self.open);
        item.remove_lists_from(&mut self.lists);
        item.remove_lists_from(&mut self.items);
        item.remove_lists_from(&mut self.retries);
        self.items.remove(item);
    }

    /// How the run ended, or how far it has come.
    pub(super) fn how(&self) -> &'static str {
        match (self.outcome, &self.paused) {
            (Some(outcome), _) => outcome.name(),
            (None, Some(_)) => "paused",
            (None, None) => "not ended",
        }
    }
}
