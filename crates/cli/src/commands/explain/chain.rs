//! Chains of values: what a value was made of, step by step, or which steps read it.
//!
//! A *source* is a value that something made: what an execution left, the items of a list, an entry of
//! `context`, an input, what a run exported, or a part of one of these. [`Tracer`] knows what each source was
//! made of. A chain follows that through loops, items, phases and called runs, in one of the two directions.
//! A run is only read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, Seq};
use threadline_engine::machine::Command;
use threadline_engine::replay::{Evaluated, Maker, Seen, output_of};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_flow::plan::StepNumber;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Origin, PathStep, Resolution, Value, parse_path};

use super::super::history::History;
use super::explanation::{StepExplanation, explain_seen};
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

/// A value that something made, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TracedSource {
    /// The run, by its place in [`Tracer::runs`].
    run: usize,
    product: Product,
    /// The part of the product, by keys and indices.
    part: Vec<String>,
}

/// What something made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Product {
    /// What an event recorded: the output of a step, or a judgement.
    Output(Seq),
    /// What an execution without an output evaluated.
    Unfinished(Address),
    /// The items of a list, which an event recorded.
    Items(Seq),
    /// An entry of `context`.
    Entry(EcoString),
    /// An input of a run; all of them without a name.
    Input(Option<EcoString>),
    /// What a run exported.
    Exports,
    /// What nothing is known of but its name: an import, the payload, the run, the machine.
    Given(String),
}

/// One value that a product was made of.
#[derive(Clone)]
struct TracedRead {
    reader: String,
    field: String,
    reference: String,
    value: Option<Value>,
    /// The part of the product that this went into.
    part: Vec<String>,
    /// Whether that part is the value itself, so that a part of it is the same part of the source.
    is_passed_on: bool,
    source: TracedSource,
    /// Who made the source, in words.
    maker: String,
    /// The same for programs.
    maker_json: Value,
}

/// A link of a chain.
struct ChainLink {
    depth: usize,
    read: TracedRead,
    /// Whether the rest of the chain is shown above.
    shown: bool,
}

/// A run whose values are followed.
struct TracedRun<'r> {
    history: History<'r>,
    /// Every evaluation of each execution, in order.
    seen: BTreeMap<Address, Vec<Seen>>,
    /// The evaluation of `exports`.
    exports: Option<Seen>,
    /// The events with what each execution left.
    outputs: BTreeMap<Address, Vec<Seq>>,
    /// The lists of items.
    lists: Vec<(Address, Seq)>,
    /// The events with the value of each item that ended well, by the event that ended it.
    items: BTreeMap<Address, Vec<(Seq, Seq)>>,
    /// What a phase is made of at its end: its last step, and what its steps captured.
    phases: BTreeMap<Seq, PhaseParts>,
    /// Entries of `context` that were evaluated.
    defined: BTreeMap<EcoString, Seq>,
    explained: RefCell<BTreeMap<Seq, Rc<StepExplanation>>>,
}

/// The last step of a phase, and what its steps captured.
type PhaseParts = (Option<Seq>, Vec<(EcoString, Seq)>);

/// Knows what values were made of.
struct Tracer<'r> {
    runs: Vec<Rc<TracedRun<'r>>>,
}

impl<'r> TracedRun<'r> {
    fn open(history: History<'r>) -> Result<Self, CommandFailure> {
        let mut run = Self {
            seen: BTreeMap::new(),
            exports: None,
            outputs: BTreeMap::new(),
            lists: Vec::new(),
            items: BTreeMap::new(),
            phases: BTreeMap::new(),
            defined: BTreeMap::new(),
            explained: RefCell::default(),
            history,
        };
        let (mut seen, mut exports) = (BTreeMap::<Address, Vec<Seen>>::new(), None);
        let (mut outputs, mut lists) = (BTreeMap::<Address, Vec<Seq>>::new(), Vec::new());
        let (mut items, mut phases) = (BTreeMap::<Address, Vec<(Seq, Seq)>>::new(), BTreeMap::new());
        let fold = run.history.each(|fold, event| {
            let at = &event.at;
            match fold.seen(event) {
                Some(of_run) if of_run.evaluated == Evaluated::Exports => exports = Some(of_run),
                Some(of_step) => seen.entry(at.clone()).or_default().push(of_step),
                None => {}
            }
            match &event.kind {
                EventKind::Finished { .. } => {
                    if let Some(Command::Close { last, captured, .. }) = fold.machine.next_of(at) {
                        phases.insert(event.seq, (last, captured));
                    }
                    outputs.entry(at.clone()).or_default().push(event.seq);
                }
                EventKind::Unresolved { .. } | EventKind::Skipped { .. } | EventKind::Judged(_) => {
                    outputs.entry(at.clone()).or_default().push(event.seq);
                }
                EventKind::Expanded { .. } => lists.push((at.clone(), event.seq)),
                EventKind::ItemEnded(_) => {
                    if let Some(Command::EndItem { ending, .. }) = fold.machine.next_of(at) {
                        let left = ending.output.map(|left| (event.seq, left));
                        items.entry(at.clone()).or_default().extend(left);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        let defined = fold.machine.defined().clone();
        (run.seen, run.exports, run.outputs, run.lists) = (seen, exports, outputs, lists);
        (run.items, run.phases, run.defined) = (items, phases, defined);
        Ok(run)
    }

    /// The last evaluation of an execution of this kind, up to an event.
    fn last_seen(&self, at: &Address, evaluated: Evaluated, until: Seq) -> Option<&Seen> {
        let seen = self.seen.get(at)?;
        seen.iter().rfind(|seen| seen.evaluated == evaluated && seen.seq <= until)
    }

    fn explain(&self, seen: &Seen) -> Result<Rc<StepExplanation>, CommandFailure> {
        if let Some(known) = self.explained.borrow().get(&seen.seq) {
            return Ok(Rc::clone(known));
        }
        let explained = Rc::new(explain_seen(&self.history, seen.clone())?);
        self.explained.borrow_mut().insert(seen.seq, Rc::clone(&explained));
        Ok(explained)
    }

    fn action(&self, at: &Address) -> Option<(StepNumber, &Action)> {
        let step = at.step(&self.history.plan)?;
        Some((step, &self.history.plan.steps[step as usize].step.action))
    }

    /// The value of an entry of `context`.
    fn entry(&self, name: &str) -> Result<Option<Value>, CommandFailure> {
        let known = self.defined.get(name).map(|seq| (EcoString::from(name), *seq));
        let known = self.history.context(&known.into_iter().collect())?.remove(name);
        let context = self.history.plan.workflow.context.as_ref();
        let entry = context.and_then(|context| context.entries.iter().find(|entry| entry.name == name));
        Ok(known.or_else(|| entry?.written.value.as_fixed().cloned()))
    }
}

impl<'r> Tracer<'r> {
    fn new(history: &History<'r>) -> Result<Self, CommandFailure> {
        let mut tracer = Self { runs: Vec::new() };
        tracer.add(history, history.info.id.as_str())?;
        Ok(tracer)
    }

    /// The place of a run, which is read when it is needed.
    fn add(&mut self, beside: &History<'r>, id: &str) -> Result<usize, CommandFailure> {
        if let Some(known) = self.runs.iter().position(|run| run.history.info.id.as_str() == id) {
            return Ok(known);
        }
        let run = TracedRun::open(History::open(beside.reader, id)?)?;
        self.runs.push(Rc::new(run));
        Ok(self.runs.len() - 1)
    }

    /// An execution in a sentence, with its run if that is not the one that was asked for.
    fn title(&self, run: usize, at: &Address) -> String {
        let history = &self.runs[run].history;
        if run == 0 {
            title(history, at)
        } else {
            format!("{} of run {}", title(history, at), history.info.id)
        }
    }

    /// Everything that a product was made of.
    fn reads(&mut self, run: usize, product: &Product) -> Result<Vec<TracedRead>, CommandFailure> {
        match product {
            Product::Output(seq) => self.output_reads(run, *seq),
            Product::Unfinished(at) => {
                let traced = Rc::clone(&self.runs[run]);
                let mut reads = Vec::new();
                for seen in traced.seen.get(at).into_iter().flatten() {
                    reads.extend(self.evaluation_reads(run, Some(seen))?);
                }
                Ok(reads)
            }
            Product::Items(seq) => {
                let traced = Rc::clone(&self.runs[run]);
                let at = traced.history.event(*seq)?.at;
                self.evaluation_reads(run, traced.last_seen(&at, Evaluated::List, *seq))
            }
            Product::Entry(name) => self.entry_reads(run, name),
            Product::Input(name) => self.input_reads(run, name.as_ref()),
            Product::Exports => {
                let traced = Rc::clone(&self.runs[run]);
                self.evaluation_reads(run, traced.exports.as_ref())
            }
            Product::Given(_) => Ok(Vec::new()),
        }
    }

    /// What went into the output that an event recorded.
    fn output_reads(&mut self, run: usize, seq: Seq) -> Result<Vec<TracedRead>, CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let event = traced.history.event(seq)?;
        let at = &event.at;
        let evaluation = |evaluated| traced.last_seen(at, evaluated, seq);
        if let EventKind::Judged(_) = &event.kind {
            return self.judgement_reads(run, &event, evaluation(Evaluated::Judgement));
        }
        let mut reads = self.evaluation_reads(run, evaluation(Evaluated::Condition))?;
        if matches!(event.kind, EventKind::Skipped { .. }) {
            return Ok(reads);
        }
        match traced.action(at).map(|(_, action)| action) {
            Some(Action::ForEach(each)) => {
                let list = self.evaluation_reads(run, evaluation(Evaluated::List))?;
                let counted = list.into_iter().map(|read| {
                    let part = if each.is_map { vec![TOTAL.to_owned()] } else { read.part };
                    TracedRead { part, ..read }
                });
                reads.extend(counted);
                reads.extend(self.evaluation_reads(run, evaluation(Evaluated::Aggregates))?);
                reads.extend(self.item_reads(run, at, seq, each.is_map)?);
            }
            Some(Action::Phase(_)) => {
                reads.extend(self.evaluation_reads(run, evaluation(Evaluated::Variables))?);
                reads.extend(self.phase_reads(run, at, seq)?);
            }
            Some(Action::Workflow(_)) if called_run(&event).is_some() => {
                let id = called_run(&event).unwrap_or_default();
                let called = self.add(&traced.history, &id)?;
                let value = output_of(&event).map(|output| traced.history.load(&output.value)).transpose()?;
                let maker = format!("what run {id} exported");
                let maker_json = Value::record([("kind", "exports".into()), ("run", id.as_str().into())]);
                let read = self.pass_on(run, at, ("exports", "exports"), Vec::new(), value);
                let source = TracedSource { run: called, product: Product::Exports, part: Vec::new() };
                reads.push(TracedRead { source, maker, maker_json, ..read });
            }
            _ => reads.extend(self.evaluation_reads(run, evaluation(Evaluated::Fields))?),
        }
        Ok(reads)
    }

    /// What the items of a list left.
    fn item_reads(
        &mut self,
        run: usize,
        at: &Address,
        until: Seq,
        is_map: bool,
    ) -> Result<Vec<TracedRead>, CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let list = traced.lists.iter().rfind(|(of, seq)| of == at && *seq < until).map_or(0, |(_, seq)| *seq);
        let own = |item: &Address| item.as_item().filter(|(owner, _)| owner == at).map(|(_, index)| index);
        let items = traced.items.iter().filter_map(|(item, ends)| Some((own(item)?, ends)));
        let mut items: Vec<(u64, Seq)> = items
            .filter_map(|(index, ends)| {
                let (_, left) = ends.iter().rfind(|(ended, _)| *ended > list && *ended < until)?;
                Some((index, *left))
            })
            .collect();
        items.sort_unstable();
        let mut reads = Vec::new();
        for (index, left) in items.into_iter().take(MAX_LINKS) {
            let number = index.to_string();
            let part = if is_map {
                vec!["results".to_owned(), number, names::VALUE.to_owned()]
            } else {
                vec![number]
            };
            let field = if is_map { format!("results[{index}]") } else { format!("[{index}]") };
            reads.push(self.pass_on_output(run, at, (&field, "result"), part, left)?);
        }
        Ok(reads)
    }

    /// What the steps of a phase captured, and what the last of them left.
    fn phase_reads(&mut self, run: usize, at: &Address, seq: Seq) -> Result<Vec<TracedRead>, CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let Some((last, captured)) = traced.phases.get(&seq) else { return Ok(Vec::new()) };
        let own = match traced.action(at) {
            Some((_, Action::Phase(phase))) => &phase.variables[..],
            _ => &[],
        };
        let mut reads = Vec::new();
        for (name, left) in captured.iter().filter(|(name, _)| !own.iter().any(|(own, _)| own == name)) {
            let part = vec![names::VARIABLES.to_owned(), name.to_string()];
            let field = format!("{}.{name}", names::VARIABLES);
            reads.push(self.pass_on_output(run, at, (&field, name), part, *left)?);
        }
        if let Some(last) = last {
            let part = vec![names::OUTPUT.to_owned()];
            let read = self.pass_on_output(run, at, (names::OUTPUT, "prev"), part, *last)?;
            reads.push(TracedRead { is_passed_on: false, ..read });
        }
        Ok(reads)
    }

    /// What a state was judged by: what its judgement read, and what it left.
    fn judgement_reads(
        &mut self,
        run: usize,
        event: &Event,
        seen: Option<&Seen>,
    ) -> Result<Vec<TracedRead>, CommandFailure> {
        let mut reads = self.evaluation_reads(run, seen)?;
        let traced = Rc::clone(&self.runs[run]);
        // A state that only goes on was judged by nothing.
        let is_judged =
            seen.is_some_and(|seen| traced.history.plan.steps[seen.step as usize].step.is_judged());
        let is_read = reads.iter().any(|read| read.reference.starts_with("result"));
        let result = seen.and_then(|seen| seen.view.result).filter(|_| is_judged && !is_read);
        if let Some(result) = result {
            let read = self.pass_on_output(run, &event.at, ("evaluate", "result"), Vec::new(), result)?;
            reads.push(TracedRead { is_passed_on: false, ..read });
        }
        Ok(reads)
    }

    /// What an entry of `context` is made of.
    fn entry_reads(&mut self, run: usize, name: &EcoString) -> Result<Vec<TracedRead>, CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let context = traced.history.plan.workflow.context.as_ref();
        let entry = context.and_then(|context| context.entries.iter().find(|entry| entry.name == *name));
        let Some(entry) = entry else { return Ok(Vec::new()) };
        let mut known = traced.defined.clone();
        let own = known.remove(name);
        let mut reads = Vec::new();
        for resolution in traced.history.look_at_entry(entry, own, &known)? {
            let field = format!("context.{name}");
            let maker = threadline_engine::view::View::default().maker(&resolution);
            let part = part_of(resolution.origin.as_ref(), &entry.written.origin);
            let read = TracedRead {
                reader: "context".to_owned(),
                ..self.read(run, &field, &resolution, &maker, part)?
            };
            reads.push(read);
        }
        Ok(reads)
    }

    /// What a caller gave to a run that it called.
    fn input_reads(
        &mut self,
        run: usize,
        name: Option<&EcoString>,
    ) -> Result<Vec<TracedRead>, CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let Some(caller) = traced.history.started.caller.clone() else { return Ok(Vec::new()) };
        let calling = self.add(&traced.history, &caller.run)?;
        let of_caller = Rc::clone(&self.runs[calling]);
        let seen = of_caller.seen.get(&caller.at).into_iter().flatten();
        let mut seen =
            seen.filter(|seen| seen.evaluated == Evaluated::Fields && seen.attempt == caller.attempt);
        let reads = self.evaluation_reads(calling, seen.next_back())?;
        let field = name.map(|name| format!("with.{name}"));
        let reads = reads.into_iter().filter(|read| match &field {
            Some(field) => read.field == *field,
            None => read.field.starts_with("with."),
        });
        Ok(reads.collect())
    }

    /// What one evaluation read.
    fn evaluation_reads(
        &mut self,
        run: usize,
        seen: Option<&Seen>,
    ) -> Result<Vec<TracedRead>, CommandFailure> {
        let Some(seen) = seen else { return Ok(Vec::new()) };
        let traced = Rc::clone(&self.runs[run]);
        let explained = traced.explain(seen)?;
        let step = &traced.history.plan.steps[seen.step as usize].step;
        let mut reads = Vec::new();
        for field in &explained.fields {
            for reference in &field.references {
                let origin = reference.resolution.origin.as_ref();
                let part = match (seen.evaluated, &step.action) {
                    (Evaluated::Fields, Action::Value(document)) if field.name == "value" => {
                        part_of(origin, &document.origin)
                    }
                    (Evaluated::Fields, Action::Workflow(_)) => with_part(&field.name, origin),
                    (Evaluated::Variables | Evaluated::Aggregates, _) => named_part(origin, 0),
                    (Evaluated::Exports, _) => named_part(origin, 1),
                    _ => Vec::new(),
                };
                let read = self.read(run, &field.name, &reference.resolution, &reference.maker, part)?;
                let reader = if seen.evaluated == Evaluated::Exports {
                    let id = &traced.history.info.id;
                    if run == 0 { "the run".to_owned() } else { format!("run {id}") }
                } else {
                    self.title(run, &seen.at)
                };
                reads.push(TracedRead { reader, ..read });
            }
        }
        Ok(reads)
    }

    /// A reference of a product, with who made its value.
    fn read(
        &mut self,
        run: usize,
        field: &str,
        resolution: &Resolution,
        maker: &Maker,
        part: Vec<String>,
    ) -> Result<TracedRead, CommandFailure> {
        let (source, maker, maker_json) = self.source(run, resolution, maker)?;
        Ok(TracedRead {
            reader: String::new(),
            field: field.to_owned(),
            reference: resolution.reference.to_string(),
            value: resolution.value.clone(),
            part,
            is_passed_on: false,
            source,
            maker,
            maker_json,
        })
    }

    /// Who made the value of a reference: the source, in words, and for programs.
    fn source(
        &mut self,
        run: usize,
        resolution: &Resolution,
        maker: &Maker,
    ) -> Result<(TracedSource, String, Value), CommandFailure> {
        let traced = Rc::clone(&self.runs[run]);
        let id = traced.history.info.id.as_str();
        let named = |kind: &str, name: &Option<EcoString>| {
            let name = name.as_ref().map_or(Value::NULL, |name| name.as_str().into());
            vec![("kind", Value::from(kind)), ("name", name), ("run", id.into())]
        };
        let given = |words: &str, kind: &str| {
            let product = Product::Given(words.to_owned());
            (product, words.to_owned(), vec![("kind", Value::from(kind)), ("run", id.into())])
        };
        let part = part_read(resolution, maker);
        let (product, words, json) = match maker {
            Maker::Event(seq) => {
                let event = traced.history.event(*seq)?;
                let mut words = self.title(run, &event.at);
                if let Some(called) = called_run(&event) {
                    let _ = write!(words, " (run {called})");
                }
                let json = self.step_json("step", run, &event);
                if output_of(&event).is_none() && !matches!(event.kind, EventKind::Judged(_)) {
                    // Why an item failed.
                    (Product::Given(words.clone()), words, json)
                } else {
                    (Product::Output(*seq), words, json)
                }
            }
            Maker::Item { list, index } => {
                let event = traced.history.event(*list)?;
                let mut json = self.step_json("item", run, &event);
                json.push(("index", Value::from(*index)));
                let words = format!("item {index} of {}", self.title(run, &event.at));
                (Product::Items(*list), words, json)
            }
            Maker::Input(name) => {
                let mut json = named("input", name);
                let words = match &traced.history.started.caller {
                    Some(caller) => {
                        let field = name.as_ref().map_or("with".to_owned(), |name| format!("with.{name}"));
                        json.push((
                            "caller",
                            Value::record([
                                ("run", Value::from(caller.run.as_str())),
                                ("at", caller.at.as_str().into()),
                                ("field", field.as_str().into()),
                            ]),
                        ));
                        let calling = self.add(&traced.history, &caller.run)?;
                        format!("`{field}` of {}", self.title(calling, &caller.at))
                    }
                    None => "an input".to_owned(),
                };
                (Product::Input(name.clone()), words, json)
            }
            Maker::Import(name) => {
                let from = name.as_ref().and_then(|name| traced.history.imported_run(name));
                let words = from.map_or("an earlier run".to_owned(), |from| format!("run {from}"));
                let mut json = named("import", name);
                json.push(("from", from.map_or(Value::NULL, Value::from)));
                (Product::Given(words.clone()), words, json)
            }
            Maker::Context(Some(name)) => {
                let json = named("context", &Some(name.clone()));
                (Product::Entry(name.clone()), "context".to_owned(), json)
            }
            Maker::Context(None) => given("context", "context"),
            Maker::Payload => given("the payload", "payload"),
            Maker::Run => given("the run", "run"),
            Maker::World => given("the machine", "computed"),
            Maker::Nobody => given("nobody", "nobody"),
        };
        let part = if matches!(product, Product::Items(_) | Product::Given(_)) { Vec::new() } else { part };
        Ok((TracedSource { run, product, part }, words, Value::record(json)))
    }

    fn step_json(&self, kind: &'static str, run: usize, event: &Event) -> Vec<(&'static str, Value)> {
        let history = &self.runs[run].history;
        vec![
            ("kind", kind.into()),
            ("step", super::json::label(history, &event.at).into()),
            ("at", event.at.as_str().into()),
            ("event", Value::from(event.seq)),
            ("run", history.info.id.as_str().into()),
        ]
    }

    /// A value that a product passes on as it is.
    fn pass_on(
        &self,
        run: usize,
        at: &Address,
        (field, reference): (&str, &str),
        part: Vec<String>,
        value: Option<Value>,
    ) -> TracedRead {
        TracedRead {
            reader: self.title(run, at),
            field: field.to_owned(),
            reference: reference.to_owned(),
            value,
            part,
            is_passed_on: true,
            source: TracedSource { run, product: Product::Exports, part: Vec::new() },
            maker: String::new(),
            maker_json: Value::NULL,
        }
    }

    /// What an event recorded, which a product passes on as it is.
    fn pass_on_output(
        &self,
        run: usize,
        at: &Address,
        names: (&str, &str),
        part: Vec<String>,
        left: Seq,
    ) -> Result<TracedRead, CommandFailure> {
        let history = &self.runs[run].history;
        let event = history.event(left)?;
        let value = Some(history.output(left)?.value.clone());
        let source = TracedSource { run, product: Product::Output(left), part: Vec::new() };
        let maker = self.title(run, &event.at);
        let maker_json = Value::record(self.step_json("step", run, &event));
        Ok(TracedRead { source, maker, maker_json, ..self.pass_on(run, at, names, part, value) })
    }

    /// Every product of the runs that are known, and of those that they call or are called by.
    fn products(&mut self) -> Result<Vec<(usize, Product)>, CommandFailure> {
        let mut products = Vec::new();
        let mut run = 0;
        while run < self.runs.len() {
            let traced = Rc::clone(&self.runs[run]);
            for (at, outputs) in &traced.outputs {
                let is_call = matches!(traced.action(at), Some((_, Action::Workflow(_))));
                for seq in outputs {
                    products.push((run, Product::Output(*seq)));
                    let called = if is_call { called_run(&traced.history.event(*seq)?) } else { None };
                    if let Some(id) = called {
                        self.add(&traced.history, &id)?;
                    }
                }
            }
            if let Some(caller) = &traced.history.started.caller {
                self.add(&traced.history, &caller.run)?;
                let inputs = traced.history.plan.workflow.inputs.iter();
                products.extend(inputs.map(|input| (run, Product::Input(Some(input.name.clone())))));
            }
            let unfinished = traced.seen.keys().filter(|at| !traced.outputs.contains_key(*at));
            products.extend(unfinished.map(|at| (run, Product::Unfinished(at.clone()))));
            products.extend(traced.lists.iter().map(|(_, seq)| (run, Product::Items(*seq))));
            let context = traced.history.plan.workflow.context.iter().flat_map(|context| &context.entries);
            products.extend(context.map(|entry| (run, Product::Entry(entry.name.clone()))));
            products.extend(traced.exports.iter().map(|_| (run, Product::Exports)));
            run += 1;
        }
        Ok(products)
    }
}

/// The field of a map that says how many items there are.
const TOTAL: &str = "total";

fn step_text(step: &PathStep) -> String {
    match step {
        PathStep::Key { key, .. } => key.as_str().to_owned(),
        PathStep::Index(index) => index.to_string(),
    }
}

/// The part of what somebody made that a reference reads.
pub(crate) fn part_read(resolution: &Resolution, maker: &Maker) -> Vec<String> {
    let steps = parse_path(&resolution.path).unwrap_or_default();
    let steps: Vec<String> = steps.iter().map(step_text).collect();
    match maker {
        Maker::Event(_) => part_in_output(&steps),
        Maker::Item { .. } => steps.into_iter().skip(1).collect(),
        Maker::Input(_) | Maker::Import(_) | Maker::Context(_) => steps.into_iter().skip(2).collect(),
        Maker::Payload | Maker::Run | Maker::World | Maker::Nobody => Vec::new(),
    }
}

/// The part of an output that a path reads: without the name of the output, and without the word for its
/// value.
fn part_in_output(steps: &[String]) -> Vec<String> {
    let root = steps.first().map_or("", String::as_str);
    let named = if matches!(root, "captured" | "nodes") { 2 } else { 1 };
    let mut rest = &steps[named.min(steps.len())..];
    if root == "captured" && rest.first().is_some_and(|first| first == "previous") {
        rest = &rest[1..];
    }
    match (root, rest.first().map(String::as_str)) {
        ("aggregates", _) => std::iter::once("aggregates".to_owned()).chain(rest.iter().cloned()).collect(),
        ("map" | "setup" | "reduce", _) => rest.to_vec(),
        (_, Some("value" | "result")) => rest[1..].to_vec(),
        // What stands beside the value belongs to the whole of it.
        (
            _,
            Some(
                names::OUTPUT | names::STDERR | names::EXIT_CODE | names::DURATION_MS | names::STATE | "meta",
            ),
        ) => Vec::new(),
        _ => rest.to_vec(),
    }
}

/// The steps from the place of a document to a place in it.
fn part_of(origin: Option<&Origin>, document: &Origin) -> Vec<String> {
    let inside = origin.and_then(|origin| origin.path.strip_prefix(document.path.as_str()));
    let inside = inside.map(|inside| inside.trim_start_matches('.')).filter(|inside| !inside.is_empty());
    let steps = inside.and_then(|inside| parse_path(inside).ok()).unwrap_or_default();
    steps.iter().map(step_text).collect()
}

/// The place of a reference in values by name, such as `variables` and `exports`, without the first `skip`
/// steps of it that name them all.
fn named_part(origin: Option<&Origin>, skip: usize) -> Vec<String> {
    let steps = origin.and_then(|origin| parse_path(&origin.path).ok()).unwrap_or_default();
    let steps: Vec<String> = steps.iter().map(step_text).collect();
    let at = steps.iter().rposition(|step| matches!(step.as_str(), "variables" | "aggregates" | "exports"));
    at.map_or(Vec::new(), |at| steps[at + skip..].to_vec())
}

/// The place of a reference in what a call is given.
fn with_part(field: &str, origin: Option<&Origin>) -> Vec<String> {
    if !field.starts_with("with.") {
        return Vec::new();
    }
    let steps = origin.and_then(|origin| parse_path(&origin.path).ok()).unwrap_or_default();
    let steps: Vec<String> = steps.iter().map(step_text).collect();
    let at = steps.iter().rposition(|step| step == "with");
    at.map_or(Vec::new(), |at| steps[(at + 2).min(steps.len())..].to_vec())
}

/// Whether one part is the other, or contains it.
pub(crate) fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// The run that a step called.
fn called_run(event: &Event) -> Option<String> {
    Some(output_of(event)?.meta.get(names::RUN_ID)?.as_str()?.to_owned())
}

/// The chains that start at what the user asked for.
pub(crate) struct Chains<'r> {
    tracer: Tracer<'r>,
    links: Vec<ChainLink>,
    followed: BTreeSet<TracedSource>,
    /// Who read each product: the reader, and how.
    readers: BTreeMap<(usize, Product), Vec<(TracedSource, TracedRead)>>,
    cut: bool,
}

impl<'r> Chains<'r> {
    /// Follows what steps read or left.
    pub(crate) fn follow(
        history: &History<'r>,
        target: &ExplainTarget,
        way: ChainDirection,
    ) -> Result<Self, CommandFailure> {
        let mut chains = Self::new(history, way)?;
        let run = Rc::clone(&chains.tracer.runs[0]);
        for at in run.seen.keys() {
            if !at.step(&run.history.plan).is_some_and(|step| target.means(at, step)) {
                continue;
            }
            let last = |judged: bool| {
                let mut outputs = run.outputs.get(at).into_iter().flatten();
                let is_judged = |seq: &&Seq| {
                    run.last_seen(at, Evaluated::Judgement, **seq).is_some_and(|seen| seen.seq == **seq)
                };
                outputs.rfind(|seq| is_judged(seq) == judged).copied()
            };
            let starts: Vec<Product> =
                [last(false), last(true)].into_iter().flatten().map(Product::Output).collect();
            let starts = if starts.is_empty() { vec![Product::Unfinished(at.clone())] } else { starts };
            for product in starts {
                let source = TracedSource { run: 0, product, part: Vec::new() };
                chains.go(&source, Some(target), way, 0)?;
            }
        }
        Ok(chains)
    }

    /// Follows an entry of `context`, or what the run exported, by its name. Nothing if there is no such
    /// value.
    pub(crate) fn follow_name(
        history: &History<'r>,
        name: &str,
        way: ChainDirection,
    ) -> Result<Option<(Value, Self)>, CommandFailure> {
        let (root, rest) = name.split_once('.').unwrap_or((name, ""));
        let mut chains = Self::new(history, way)?;
        let run = Rc::clone(&chains.tracer.runs[0]);
        let (product, part, value) = match root {
            "context" if !rest.is_empty() => {
                let (entry, part) = rest.split_once('.').unwrap_or((rest, ""));
                (Product::Entry(entry.into()), part, run.entry(entry)?)
            }
            "exports" if run.exports.is_some() => {
                let value = threadline_runner::reload::exports(run.history.reader, &run.history.info);
                (
                    Product::Exports,
                    rest,
                    Some(value.map_err(|error| super::super::history::of_journal(&error))?),
                )
            }
            _ => return Ok(None),
        };
        let steps = if part.is_empty() { Vec::new() } else { parse_path(part).unwrap_or_default() };
        let inside = |value: Value| {
            let found = steps.iter().try_fold(&value, |value, step| match step {
                PathStep::Key { key, .. } => value.get(key.as_str()),
                PathStep::Index(index) => value.as_list()?.get(usize::try_from(*index).ok()?),
            });
            found.cloned()
        };
        let Some(value) = value.and_then(inside) else { return Ok(None) };
        let source = TracedSource { run: 0, product, part: steps.iter().map(step_text).collect() };
        chains.go(&source, None, way, 0)?;
        Ok(Some((value, chains)))
    }

    fn new(history: &History<'r>, way: ChainDirection) -> Result<Self, CommandFailure> {
        let mut tracer = Tracer::new(history)?;
        let mut readers: BTreeMap<(usize, Product), Vec<(TracedSource, TracedRead)>> = BTreeMap::new();
        if way == ChainDirection::Forward {
            for (run, product) in tracer.products()? {
                for read in tracer.reads(run, &product)? {
                    let reader = TracedSource { run, product: product.clone(), part: read.part.clone() };
                    let key = (read.source.run, read.source.product.clone());
                    readers.entry(key).or_default().push((reader, read));
                }
            }
        }
        Ok(Self { tracer, links: Vec::new(), followed: BTreeSet::new(), readers, cut: false })
    }

    fn is_full(&mut self, depth: usize) -> bool {
        self.cut |= depth >= MAX_DEPTH || self.links.len() >= MAX_LINKS;
        depth >= MAX_DEPTH || self.links.len() >= MAX_LINKS
    }

    /// Adds what a source was made of, or who read it, and so on.
    fn go(
        &mut self,
        source: &TracedSource,
        target: Option<&ExplainTarget>,
        way: ChainDirection,
        depth: usize,
    ) -> Result<(), CommandFailure> {
        if self.is_full(depth) || !self.followed.insert(source.clone()) {
            return Ok(());
        }
        let next: Vec<(TracedRead, TracedSource)> = match way {
            ChainDirection::Back => {
                let reads = self.tracer.reads(source.run, &source.product)?;
                let of_part = reads.into_iter().filter(|read| overlap(&read.part, &source.part));
                let named =
                    of_part.filter(|read| target.is_none_or(|target| target.means_field(&read.field)));
                named
                    .map(|read| {
                        let next = read.source_of(source);
                        (read, next)
                    })
                    .collect()
            }
            ChainDirection::Forward => {
                let key = (source.run, source.product.clone());
                let readers = self.readers.get(&key).into_iter().flatten();
                let of_part = readers.filter(|(_, read)| overlap(&read.source.part, &source.part));
                of_part.map(|(reader, read)| (read.clone(), read.part_of_reader(reader, source))).collect()
            }
        };
        for (read, next) in next {
            if self.is_full(depth) {
                break;
            }
            let shown = self.followed.contains(&next) && !matches!(next.product, Product::Given(_));
            self.links.push(ChainLink { depth, read, shown });
            if !shown {
                self.go(&next, None, way, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Whether they have no link.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The chains as text.
    pub(crate) fn text(&self, full: bool) -> String {
        let mut out = String::new();
        for link in &self.links {
            let TracedRead { reader, field, reference, value, maker, .. } = &link.read;
            let value = value.as_ref().map_or("has no value".to_owned(), |value| {
                let shown = if full { value.to_json(JsonStyle::Compact) } else { excerpt(value) };
                format!("= {shown}")
            });
            let shown = if link.shown { ", which is above" } else { "" };
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
            let TracedRead { reader, field, reference, value, maker, maker_json, .. } = &link.read;
            Value::record([
                ("depth", link.depth.into()),
                ("reader", reader.as_str().into()),
                ("field", field.as_str().into()),
                ("reference", reference.as_str().into()),
                ("value", value.clone().unwrap_or_default()),
                ("maker", maker.as_str().into()),
                ("from", maker_json.clone()),
                ("above", link.shown.into()),
            ])
        });
        Value::sequence(links)
    }
}

impl TracedRead {
    /// The source of this read, where it is a part of a product that is asked about.
    fn source_of(&self, asked: &TracedSource) -> TracedSource {
        let mut source = self.source.clone();
        if self.is_passed_on {
            source.part.extend(asked.part.iter().skip(self.part.len()).cloned());
        }
        source
    }

    /// The part of the reader that a part of its source went into.
    fn part_of_reader(&self, reader: &TracedSource, source: &TracedSource) -> TracedSource {
        let mut reader = reader.clone();
        if self.is_passed_on {
            reader.part.extend(source.part.iter().skip(self.source.part.len()).cloned());
        }
        reader
    }
}
