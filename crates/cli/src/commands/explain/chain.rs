//! Chains of values: what a value was made of, step by step, or which steps read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use threadline_engine::event::{Address, Seq};
use threadline_engine::replay::{Maker, output_of};
use threadline_flow::fields::field_names as names;
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::super::history::History;
use super::explanation::{ExplainedReference, StepExplanation, explain_steps, last_of_each};
use super::target::ExplainTarget;
use super::text::title;
use crate::exit::CommandFailure;
use crate::report::visible;

/// The maximum depth of a chain.
const MAX_DEPTH: usize = 100;

/// The maximum number of links: a value may be read by thousands of steps.
const MAX_LINKS: usize = 1_000;

/// The direction in which a chain is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainDirection {
    /// To the values that a value was made of.
    Back,
    /// To the steps that read a value.
    Forward,
}

/// One read of a value.
struct ChainLink {
    depth: usize,
    reader: String,
    field: String,
    reference: String,
    value: Option<Value>,
    /// The step or source that made the value.
    maker: String,
    /// Whether the rest of the chain is shown above.
    shown: bool,
}

/// The chains that start at the steps the user asked for.
pub(crate) struct Chains<'h> {
    history: &'h History<'h>,
    /// The last evaluations of each execution.
    told: BTreeMap<Address, Vec<StepExplanation>>,
    /// The reads of the value that an event recorded: the execution, and the positions of its evaluation, field and
    /// reference.
    readers: BTreeMap<Seq, Vec<(Address, usize, usize, usize)>>,
    links: Vec<ChainLink>,
    seen: BTreeSet<Address>,
    cut: bool,
}

impl<'h> Chains<'h> {
    /// Follows the references of steps.
    pub(crate) fn follow(
        history: &'h History<'h>,
        target: &ExplainTarget,
        way: ChainDirection,
    ) -> Result<Self, CommandFailure> {
        let everything = ExplainTarget::of((0..).take(history.plan.steps.len()).collect());
        let all = explain_steps(history, &everything)?;
        let last: BTreeSet<Seq> = last_of_each(&all).iter().map(|told| told.seen.seq).collect();
        let mut told: BTreeMap<Address, Vec<StepExplanation>> = BTreeMap::new();
        for one in all {
            let condition = one.seen.attempt == 0;
            if condition || last.contains(&one.seen.seq) {
                told.entry(one.seen.at.clone()).or_default().push(one);
            }
        }
        let readers = readers(&told);
        let mut chains =
            Self { history, told, readers, links: Vec::new(), seen: BTreeSet::new(), cut: false };
        let starts: Vec<Address> = chains
            .told
            .iter()
            .filter(|(at, told)| told.first().is_some_and(|told| target.means(at, told.seen.step)))
            .map(|(at, _)| at.clone())
            .collect();
        for at in starts {
            match way {
                ChainDirection::Back => chains.back(&at, Some(target), 0)?,
                ChainDirection::Forward => chains.forward(&at, 0)?,
            }
        }
        Ok(chains)
    }

    fn is_full(&mut self, depth: usize) -> bool {
        self.cut |= depth >= MAX_DEPTH || self.links.len() >= MAX_LINKS;
        depth >= MAX_DEPTH || self.links.len() >= MAX_LINKS
    }

    /// Adds what an execution read, and what that was made of.
    fn back(
        &mut self,
        at: &Address,
        target: Option<&ExplainTarget>,
        depth: usize,
    ) -> Result<(), CommandFailure> {
        if self.is_full(depth) || !self.seen.insert(at.clone()) {
            return Ok(());
        }
        let mut found = Vec::new();
        for told in self.told.get(at).into_iter().flatten() {
            for field in &told.fields {
                if target.is_some_and(|target| !target.means_field(&field.name)) {
                    continue;
                }
                for reference in &field.references {
                    found.push((self.link(at, &field.name, reference, depth)?, reference.maker.clone()));
                }
            }
        }
        for (link, maker) in found {
            let from = match maker {
                Maker::Event(seq) | Maker::Item { list: seq, .. } => Some(self.history.event(seq)?.at),
                _ => None,
            };
            let shown = from.as_ref().is_some_and(|from| self.seen.contains(from));
            self.links.push(ChainLink { shown, ..link });
            if let Some(from) = from.filter(|_| !shown) {
                self.back(&from, None, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Adds the steps that read the output of an execution, and those that read theirs.
    fn forward(&mut self, at: &Address, depth: usize) -> Result<(), CommandFailure> {
        if self.is_full(depth) || !self.seen.insert(at.clone()) {
            return Ok(());
        }
        let left = self.told.get(at).into_iter().flatten().filter_map(|told| Some(told.ended.as_ref()?.seq));
        let left: Vec<Seq> = left.collect();
        let mut found = Vec::new();
        for seq in left {
            for (reader, told, field, reference) in self.readers.get(&seq).into_iter().flatten() {
                let field = &self.told[reader][*told].fields[*field];
                let link = self.link(reader, &field.name, &field.references[*reference], depth)?;
                found.push((reader.clone(), link));
            }
        }
        for (reader, link) in found {
            let shown = self.seen.contains(&reader);
            self.links.push(ChainLink { shown, ..link });
            if !shown {
                self.forward(&reader, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The step whose output an event recorded, with the run that it called.
    fn maker(&self, seq: Seq) -> Result<String, CommandFailure> {
        let event = self.history.event(seq)?;
        let title = title(self.history, &event.at);
        let called =
            output_of(&event).and_then(|output| output.meta.get(names::RUN_ID)?.as_str().map(str::to_owned));
        Ok(called.map_or(title.clone(), |run| format!("{title} (run {run})")))
    }

    fn link(
        &self,
        at: &Address,
        field: &str,
        reference: &ExplainedReference,
        depth: usize,
    ) -> Result<ChainLink, CommandFailure> {
        let maker = match &reference.maker {
            Maker::Event(seq) => self.maker(*seq)?,
            Maker::Item { list, index } => {
                format!("item {index} of {}", title(self.history, &self.history.event(*list)?.at))
            }
            Maker::Input(_) => "an input".to_owned(),
            Maker::Import(_) => "an earlier run".to_owned(),
            Maker::Context(_) => "context".to_owned(),
            Maker::Payload => "the payload".to_owned(),
            Maker::Run => "the run".to_owned(),
            Maker::World => "the machine".to_owned(),
            Maker::Nobody => "nobody".to_owned(),
        };
        Ok(ChainLink {
            depth,
            reader: title(self.history, at),
            field: field.to_owned(),
            reference: reference.resolution.reference.to_string(),
            value: reference.resolution.value.clone(),
            maker,
            shown: false,
        })
    }

    /// The chains as text.
    pub(crate) fn text(&self, full: bool) -> String {
        let mut out = String::new();
        for link in &self.links {
            let value = link.value.as_ref().map_or("has no value".to_owned(), |value| {
                let shown = if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
                format!("= {shown}")
            });
            let shown = if link.shown { ", which is above" } else { "" };
            let ChainLink { reader, field, reference, maker, .. } = link;
            let indent = "  ".repeat(link.depth);
            let line = format!("{reader} {field}: {reference} {value}, from {maker}{shown}");
            // Writing into a text cannot fail.
            let _ = writeln!(out, "{indent}{}", visible(&line));
        }
        if self.cut {
            out.push_str("and more\n");
        }
        if out.is_empty() { "nothing\n".to_owned() } else { out }
    }

    /// The chains as JSON: the links, each with its depth.
    pub(crate) fn json(&self) -> Value {
        let links = self.links.iter().map(|link| {
            Value::record([
                ("depth", link.depth.into()),
                ("reader", link.reader.as_str().into()),
                ("field", link.field.as_str().into()),
                ("reference", link.reference.as_str().into()),
                ("value", link.value.clone().unwrap_or_default()),
                ("maker", link.maker.as_str().into()),
                ("above", link.shown.into()),
            ])
        });
        Value::sequence(links)
    }
}

/// The reads of the value that each event recorded.
fn readers(
    told: &BTreeMap<Address, Vec<StepExplanation>>,
) -> BTreeMap<Seq, Vec<(Address, usize, usize, usize)>> {
    let mut readers: BTreeMap<Seq, Vec<(Address, usize, usize, usize)>> = BTreeMap::new();
    for (at, evaluations) in told {
        for (nth, one) in evaluations.iter().enumerate() {
            for (of_field, field) in one.fields.iter().enumerate() {
                for (of_reference, reference) in field.references.iter().enumerate() {
                    if let Maker::Event(seq) | Maker::Item { list: seq, .. } = &reference.maker {
                        readers.entry(*seq).or_default().push((at.clone(), nth, of_field, of_reference));
                    }
                }
            }
        }
    }
    readers
}
