//! The names that a step sees, and the scope made of them.
//!
//! A view says which event made each name; whoever evaluates loads those outputs and nothing else.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_flow::plan::{PAYLOAD, Plan};
use threadline_lang::{Entry, Envelope, Item, Scope, Value};

use crate::event::Seq;

/// For each name that a step reads, the event that made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The event that made the step ready.
    pub as_of: Seq,
    /// How many attempts of the step went before.
    pub attempts: u32,
    /// The event that began the last of them.
    pub started: Option<Seq>,
    /// Outputs by id.
    pub outputs: Vec<(EcoString, Seq)>,
    /// Captures by name.
    pub captured: Vec<(EcoString, Seq)>,
    /// The step before.
    pub prev: Option<Seq>,
    /// The item.
    pub item: Option<ItemRef>,
}

/// An element of the list of a `foreach`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRef {
    /// The event with the list.
    pub list: Seq,
    /// Which element, from 0.
    pub index: u64,
}

/// What a run gives to every step.
pub struct RunNames {
    /// The values of the caller's, an object.
    pub inputs: Value,
    /// What earlier runs exported, an object by the names of `imports`.
    pub imports: Value,
    /// What a graph is started with.
    pub payload: Value,
    /// The name of the workflow.
    pub workflow: EcoString,
    /// The id of the run.
    pub run: EcoString,
    /// When it began, RFC 3339.
    pub start_time: EcoString,
}

/// Where outputs and lists come from.
pub trait Load {
    /// Why something could not be loaded.
    type Error;

    /// The output that an event recorded.
    fn output(&mut self, seq: Seq) -> Result<Arc<Envelope>, Self::Error>;

    /// An element of the list that an event recorded.
    fn item(&mut self, item: ItemRef) -> Result<Value, Self::Error>;
}

impl RunNames {
    /// The names of the run that no step makes.
    pub fn scope(&self, plan: &Plan) -> Scope {
        let text = |text: &EcoString| Value::from(text.as_str());
        // An object of three texts is never too large.
        let workflow = Value::object([
            ("name".into(), text(&self.workflow)),
            ("id".into(), text(&self.run)),
            ("start_time".into(), text(&self.start_time)),
        ])
        .unwrap_or_default();
        let mut entries = vec![
            ("imports".into(), Entry::Plain(self.imports.clone())),
            ("inputs".into(), Entry::Plain(self.inputs.clone())),
            ("workflow".into(), Entry::Plain(workflow)),
        ];
        if plan.lists[0].graph.is_some() {
            entries.push((PAYLOAD.into(), Entry::Plain(self.payload.clone())));
        }
        let context = plan.workflow.context.as_ref();
        let context = context.map(|context| Entry::Definitions(Arc::clone(&context.definitions)));
        entries.push(("context".into(), context.unwrap_or_else(|| Entry::Names(Scope::new()))));
        // A name that a step may set is known before it does: a default stands ready for it.
        let unset = plan.names().into_iter().map(|name| {
            let why = eco_format!("the step that gives `{name}` has not run");
            (name.clone(), Entry::Unset(why))
        });
        let prev = ("prev".into(), Entry::Unset("no step of this list has run".into()));
        layer(&layer(&Scope::new(), "run", unset.chain([prev]).collect()), "run", entries)
    }
}

impl View {
    /// The scope of a step: what its fields may read.
    pub fn scope<L: Load>(&self, run: &Scope, load: &mut L) -> Result<Scope, L::Error> {
        let mut captured = Vec::with_capacity(self.captured.len());
        let mut entries = Vec::new();
        for (name, seq) in &self.captured {
            let envelope = load.output(*seq)?;
            if !self.outputs.iter().any(|(id, _)| id == name) {
                entries.push((name.clone(), Entry::Plain(envelope.value.clone())));
            }
            captured.push((name.clone(), Entry::Output(envelope)));
        }
        for (id, seq) in &self.outputs {
            entries.push((id.clone(), Entry::Output(load.output(*seq)?)));
        }
        if let Some(seq) = self.prev {
            entries.push(("prev".into(), Entry::Output(load.output(seq)?)));
        }
        entries.push(("captured".into(), Entry::Names(layer(&Scope::new(), "captured", captured))));
        let scope = layer(run, "steps", entries);
        let Some(item) = self.item else { return Ok(scope) };
        let value = load.item(item)?;
        let own = item_names(item.index);
        let entry = Entry::Item(Arc::new(Item { value, own }));
        Ok(layer(&scope, &eco_format!("item {}", item.index), vec![("item".into(), entry)]))
    }

    /// Every event that the step's values come from.
    pub fn sources(&self) -> Vec<Seq> {
        let outputs = self.outputs.iter().chain(&self.captured).map(|(_, seq)| *seq);
        let mut sources: Vec<Seq> = outputs.chain(self.prev).chain(self.item.map(|item| item.list)).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}

fn item_names(index: u64) -> Value {
    let index = i64::try_from(index).unwrap_or(i64::MAX);
    // An object of one number is never too large.
    Value::object([("index".into(), Value::from(index))]).unwrap_or_default()
}

/// A layer of names of which none stands twice: the caller takes them of tables by name.
fn layer(scope: &Scope, label: &str, entries: Vec<(EcoString, Entry)>) -> Scope {
    scope.with_entries(label, entries).unwrap_or_else(|_| scope.clone())
}
