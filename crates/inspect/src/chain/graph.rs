//! A chain as a graph: each source once, with an id, its event and its place in the run, and who read what of it.

use std::collections::BTreeMap;

use threadline_engine::event::EventKind;
use threadline_engine::replay::output_of;
use threadline_lang::Value;

use super::{ChainLink, Chains, Product, TracedSource};
use crate::error::InspectError;
use crate::explanation_json::label;
use crate::history::time_text;

impl Chains<'_> {
    /// The nodes and the edges of the chain.
    pub fn graph(&self) -> Result<(Value, Value), InspectError> {
        let mut nodes: BTreeMap<String, Value> = BTreeMap::new();
        let mut edges: Vec<(String, String, Value)> = Vec::new();
        for ChainLink { reader, read, .. } in &self.links {
            let (from, to) = (self.node_id(&read.source), self.node_id(reader));
            for (id, source) in [(&from, &read.source), (&to, reader)] {
                if !nodes.contains_key(id) {
                    nodes.insert(id.clone(), self.node(id, source)?);
                }
            }
            let place = |number: Option<usize>| number.map_or(Value::NULL, Value::from);
            let range = read.range.as_ref();
            let kind = read.value.as_ref().map_or(Value::NULL, |value| value.kind().name().into());
            let edge = Value::record([
                ("from", Value::from(from.as_str())),
                ("to", to.as_str().into()),
                ("kind", if read.is_control { "control" } else { "value" }.into()),
                ("field", read.field.as_str().into()),
                ("reference", read.reference.as_str().into()),
                ("line", place(range.map(|range| range.line))),
                ("column", place(range.map(|range| range.column))),
                ("end_line", place(range.map(|range| range.end_line))),
                ("end_column", place(range.map(|range| range.end_column))),
                ("type", kind),
                ("value", read.value.clone().unwrap_or_default()),
            ]);
            if !edges
                .iter()
                .any(|(known_from, known_to, known)| *known_from == from && *known_to == to && *known == edge)
            {
                edges.push((from, to, edge));
            }
        }
        let edges = Value::sequence(edges.into_iter().map(|(_, _, edge)| edge));
        Ok((Value::sequence(nodes.into_values()), edges))
    }

    /// The id of a source: what it is in the run, and the run where that is another one.
    pub(super) fn node_id(&self, source: &TracedSource) -> String {
        let own = match &source.product {
            Product::Output(seq) | Product::Items(seq) => format!("e{seq}"),
            Product::Unfinished(at) => format!("at:{at}"),
            Product::Entry(name) => format!("context.{name}"),
            Product::Input(Some(name)) => format!("inputs.{name}"),
            Product::Input(None) => "inputs".to_owned(),
            Product::Exports => "exports".to_owned(),
            Product::Given(words) => words.replace(' ', "-").replace('`', ""),
        };
        if source.run == 0 { own } else { format!("{}/{own}", self.tracer.runs[source.run].history.info.id) }
    }

    fn node(&self, id: &str, source: &TracedSource) -> Result<Value, InspectError> {
        let history = &self.tracer.runs[source.run].history;
        let head = |kind: &str| {
            vec![("id", Value::from(id)), ("kind", kind.into()), ("run", history.info.id.as_str().into())]
        };
        let mut entries = match &source.product {
            Product::Output(seq) | Product::Items(seq) => {
                let event = history.event(*seq)?;
                let kind = match &event.kind {
                    EventKind::Judged(_) => "judgement",
                    EventKind::Expanded { .. } => "items",
                    _ => "step",
                };
                let status = match &event.kind {
                    EventKind::Judged(judged) => Value::from(judged.verdict.as_str()),
                    _ => output_of(&event).map_or(Value::NULL, |output| output.status.name().into()),
                };
                let mut entries = head(kind);
                entries.extend([
                    ("step", Value::from(label(history, &event.at).as_str())),
                    ("at", event.at.as_str().into()),
                    ("event", Value::from(*seq)),
                    ("time", time_text(event.time).into()),
                    ("status", status),
                ]);
                entries
            }
            Product::Unfinished(at) => {
                let mut entries = head("step");
                entries.push(("step", label(history, at).as_str().into()));
                entries.push(("at", at.as_str().into()));
                entries
            }
            Product::Entry(name) => {
                let mut entries = head("context");
                entries.push(("name", name.as_str().into()));
                entries
            }
            Product::Input(name) => {
                let mut entries = head("input");
                entries.extend(name.as_ref().map(|name| ("name", name.as_str().into())));
                entries
            }
            Product::Exports => head("exports"),
            Product::Given(words) => {
                let mut entries = head("given");
                entries.push(("name", words.as_str().into()));
                entries
            }
        };
        if !source.part.is_empty() && matches!(source.product, Product::Input(_) | Product::Entry(_)) {
            entries.push(("part", source.part.join(".").as_str().into()));
        }
        Ok(Value::record(entries))
    }
}
