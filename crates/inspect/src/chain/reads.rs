//! What single executions read, each by itself and without going on from there: a comparison of two runs follows both.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ecow::EcoString;
use threadline_engine::event::{Address, Seq};
use threadline_engine::replay::Evaluated;

use super::{ChainDirection, Product, TracedRead, Tracer};
use crate::error::InspectError;
use crate::history::History;

/// Reads what executions of a run read.
pub(crate) struct ReadTracer<'r>(Tracer<'r>);

/// Where a value that was read comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadOrigin {
    /// What an event of the run recorded: what an execution left, a judgement, or a list of items.
    Event(Seq),
    /// An input; all of them without a name.
    Input(Option<EcoString>),
    /// An entry of `context`.
    Entry(EcoString),
    /// The end of a run that was called.
    Called,
    /// What no other value was made of: the machine, the run, an import.
    Given,
}

impl<'r> ReadTracer<'r> {
    /// Reads a run. With `items`, of those that stand in items only these are read.
    pub(crate) fn new(
        history: &History<'r>,
        items: Option<BTreeSet<Vec<u64>>>,
    ) -> Result<Self, InspectError> {
        let items = items.map(|items| BTreeMap::from([(history.info.id.to_string(), items)]));
        Ok(Self(Tracer::new(history, items, ChainDirection::Back)?))
    }

    /// What went into what an event recorded, and what decided that it was.
    pub(crate) fn of_event(&mut self, seq: Seq) -> Result<Vec<TracedRead>, InspectError> {
        self.0.reads(0, &Product::Output(seq), &[], true)
    }

    /// What a step that calls a workflow gave to it.
    pub(crate) fn of_call(&mut self, at: &Address, seq: Seq) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.0.runs[0]);
        self.0.evaluation_reads(0, traced.last_seen(at, Evaluated::Fields, seq))
    }

    /// What went into the items that an event recorded.
    pub(crate) fn of_items(&mut self, seq: Seq) -> Result<Vec<TracedRead>, InspectError> {
        self.0.reads(0, &Product::Items(seq), &[], false)
    }

    /// What an execution read that has not ended.
    pub(crate) fn of_unfinished(&mut self, at: &Address) -> Result<Vec<TracedRead>, InspectError> {
        self.0.reads(0, &Product::Unfinished(at.clone()), &[], true)
    }

    /// What an entry of `context` is made of.
    pub(crate) fn of_entry(&mut self, name: &EcoString) -> Result<Vec<TracedRead>, InspectError> {
        self.0.reads(0, &Product::Entry(name.clone()), &[], false)
    }

    /// What the run exported was made of.
    pub(crate) fn of_exports(&mut self) -> Result<Vec<TracedRead>, InspectError> {
        self.0.reads(0, &Product::Exports, &[], false)
    }
}

impl TracedRead {
    /// Where its value comes from.
    pub(crate) fn origin(&self) -> ReadOrigin {
        match &self.source.product {
            Product::Output(seq) | Product::Items(seq) => ReadOrigin::Event(*seq),
            Product::Input(name) => ReadOrigin::Input(name.clone()),
            Product::Entry(name) => ReadOrigin::Entry(name.clone()),
            Product::Exports => ReadOrigin::Called,
            Product::Unfinished(_) | Product::Given(_) => ReadOrigin::Given,
        }
    }
}
