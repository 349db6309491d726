//! Chains of values: what a value was made of, step by step, or which steps read it.
//!
//! A *source* is a value that something made: what an execution left, the items of a list, an entry of
//! `context`, an input, what a run exported, or a part of one of these. `Tracer` knows what each source was
//! made of. A chain follows that through loops, items, phases and called runs, in one of the two directions.
//! A run is only read.

mod control;
mod graph;
pub(crate) mod reads;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, RunSlice, Seq};
use threadline_engine::machine::Command;
use threadline_engine::replay::{Evaluated, Fold, Maker, Seen, output_of};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Action, Step};
use threadline_flow::plan::{PlannedStep, Read, StepNumber};
use threadline_lang::{Origin, PathStep, Resolution, Value, parse_path};

use crate::error::InspectError;
use crate::explanation::{StepExplanation, explain_seen};
use crate::history::History;
use crate::labels::title;
use crate::place::TextRange;
use crate::target::{ExplainTarget, lists_around};

/// The maximum depth of a chain.
const MAX_DEPTH: usize = 100;

/// The maximum number of links: a value may be read by thousands of steps.
const MAX_LINKS: usize = 1_000;

/// The direction in which a chain is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChainDirection {
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
pub struct TracedRead {
    /// Who read it, in words.
    pub reader: String,
    /// The field that read it.
    pub field: String,
    /// The reference, as it is written.
    pub reference: String,
    /// What it gave.
    pub value: Option<Value>,
    /// The part of the product that this went into.
    part: Vec<String>,
    /// Whether that part is the value itself, so that a part of it is the same part of the source.
    is_passed_on: bool,
    /// Whether it decided that the reader ran or did not, and is no part of what the reader left.
    pub is_control: bool,
    /// Where the reference stands.
    pub range: Option<TextRange>,
    /// What it is a part of.
    source: TracedSource,
    /// Who made the source, in words.
    pub maker: String,
    /// The same for programs.
    pub maker_json: Value,
}

/// A link of a chain.
pub struct ChainLink {
    /// How far it is from what was asked for.
    pub depth: usize,
    /// Who read it.
    reader: TracedSource,
    /// What was read.
    pub read: TracedRead,
    /// Whether the rest of the chain is shown above.
    pub shown: bool,
}

/// The items that are read of each run, by its id, each by its indexes.
type ItemsByRun = BTreeMap<String, BTreeSet<Vec<u64>>>;

/// A run whose values are followed.
struct TracedRun<'r> {
    history: History<'r>,
    /// The part of the run that was read, where that is not all of it.
    slice: Option<RunSlice>,
    events: TracedEvents,
    explained: RefCell<BTreeMap<Seq, Rc<StepExplanation>>>,
}

/// What the events of a run say of its values.
#[derive(Default)]
struct TracedEvents {
    /// Every evaluation of each execution, in order.
    seen: BTreeMap<Address, Vec<Seen>>,
    /// The evaluation of `exports`.
    exports: Option<Seen>,
    /// The events with what each execution left.
    outputs: BTreeMap<Address, Vec<Seq>>,
    /// The lists of items, with the numbers of these.
    lists: Vec<(Address, Seq, u64)>,
    /// The events with the value of each item that ended well, by the event that ended it.
    items: BTreeMap<Address, Vec<(Seq, Seq)>>,
    /// What a phase is made of at its end: its last step, and what its steps captured.
    phases: BTreeMap<Seq, PhaseParts>,
    /// Attempts that failed and that another one followed.
    retries: Vec<(Address, Seq)>,
    /// The judgements on states, with their verdicts.
    judged: Vec<(Seq, EcoString)>,
    /// Entries of `context` that were evaluated.
    defined: BTreeMap<EcoString, Seq>,
}

/// The last step of a phase, and what its steps captured.
type PhaseParts = (Option<Seq>, Vec<(EcoString, Seq)>);

/// Knows what values were made of.
struct Tracer<'r> {
    runs: Vec<Rc<TracedRun<'r>>>,
    /// The items that are read; without them all are.
    items: Option<ItemsByRun>,
    /// The items that turned out to be needed and were not read.
    missing: ItemsByRun,
    /// Whether something follows from all items together, such as who of several runs one.
    needs_all: bool,
    way: ChainDirection,
}

impl TracedEvents {
    /// Takes the next event.
    fn take(&mut self, fold: &Fold, event: &Event) {
        let at = &event.at;
        match fold.seen(event) {
            Some(of_run) if of_run.evaluated == Evaluated::Exports => self.exports = Some(of_run),
            Some(of_step) => self.seen.entry(at.clone()).or_default().push(of_step),
            None => {}
        }
        match &event.kind {
            EventKind::Finished { .. } => {
                if let Some(Command::Close { last, captured, .. }) = fold.machine.next_of(at) {
                    self.phases.insert(event.seq, (last, captured));
                }
                self.outputs.entry(at.clone()).or_default().push(event.seq);
            }
            EventKind::Unresolved { .. } | EventKind::Skipped { .. } | EventKind::Judged(_) => {
                if let EventKind::Judged(judged) = &event.kind {
                    self.judged.push((event.seq, judged.verdict.clone()));
                }
                self.outputs.entry(at.clone()).or_default().push(event.seq);
            }
            kind if control::is_retry(kind) => self.retries.push((at.clone(), event.seq)),
            EventKind::Expanded { count, .. } => self.lists.push((at.clone(), event.seq, *count)),
            EventKind::ItemEnded(_) => {
                if let Some(Command::EndItem { ending, .. }) = fold.machine.next_of(at) {
                    let left = ending.output.map(|left| (event.seq, left));
                    self.items.entry(at.clone()).or_default().extend(left);
                }
            }
            EventKind::Defined { name, .. } => {
                self.defined.insert(name.clone(), event.seq);
            }
            _ => {}
        }
    }
}

impl<'r> TracedRun<'r> {
    /// Reads a run, or a slice of it where that is possible.
    fn open(history: History<'r>, slice: Option<RunSlice>) -> Result<Self, InspectError> {
        let explained = RefCell::default();
        if let Some(slice) = slice {
            let mut events = TracedEvents::default();
            let take = |fold: &mut Fold, event: &Event| {
                events.take(fold, event);
                Ok(())
            };
            if history.each_of(&slice, take)? {
                return Ok(Self { history, slice: Some(slice), events, explained });
            }
        }
        let mut events = TracedEvents::default();
        history.each(|fold, event| {
            events.take(fold, event);
            Ok(())
        })?;
        Ok(Self { history, slice: None, events, explained })
    }

    /// The last evaluation of an execution of this kind, up to an event.
    fn last_seen(&self, at: &Address, evaluated: Evaluated, until: Seq) -> Option<&Seen> {
        let seen = self.events.seen.get(at)?;
        seen.iter().rfind(|seen| seen.evaluated == evaluated && seen.seq <= until)
    }

    fn explain(&self, seen: &Seen) -> Result<Rc<StepExplanation>, InspectError> {
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
    fn entry(&self, name: &str) -> Result<Option<Value>, InspectError> {
        let known = self.events.defined.get(name).map(|seq| (EcoString::from(name), *seq));
        let known = self.history.context(&known.into_iter().collect())?.remove(name);
        let context = self.history.plan.workflow.context.as_ref();
        let entry = context.and_then(|context| context.entries.iter().find(|entry| entry.name == name));
        Ok(known.or_else(|| entry?.written.value.as_fixed().cloned()))
    }
}

impl<'r> Tracer<'r> {
    fn new(
        history: &History<'r>,
        items: Option<ItemsByRun>,
        way: ChainDirection,
    ) -> Result<Self, InspectError> {
        let mut tracer = Self { runs: Vec::new(), items, missing: BTreeMap::new(), needs_all: false, way };
        tracer.add(history, history.info.id.as_str())?;
        Ok(tracer)
    }

    /// The place of a run, which is read when it is needed.
    fn add(&mut self, beside: &History<'r>, id: &str) -> Result<usize, InspectError> {
        if let Some(known) = self.runs.iter().position(|run| run.history.info.id.as_str() == id) {
            return Ok(known);
        }
        let slice = self
            .items
            .as_ref()
            .map(|items| RunSlice::new(items.get(id).into_iter().flatten().cloned().collect()));
        let run = TracedRun::open(History::open(beside.reader, id)?, slice)?;
        self.runs.push(Rc::new(run));
        Ok(self.runs.len() - 1)
    }

    /// Whether what happened at an address was read. If not, its item is needed.
    fn has_read(&mut self, run: usize, at: &Address) -> bool {
        let TracedRun { slice, history, .. } = &*self.runs[run];
        let has_read = slice.as_ref().is_none_or(|slice| slice.has(at.as_str()));
        if !has_read {
            let missing = self.missing.entry(history.info.id.to_string()).or_default();
            missing.insert(at.items().collect());
        }
        has_read
    }

    /// An execution in a sentence, with its run if that is not the one that was asked for.
    fn title(&self, run: usize, at: &Address) -> String {
        let history = &self.runs[run].history;
        if run == 0 {
            title(&history.plan, at)
        } else {
            format!("{} of run {}", title(&history.plan, at), history.info.id)
        }
    }

    /// Everything that a part of a product was made of, and what else the product was made of.
    fn reads(
        &mut self,
        run: usize,
        product: &Product,
        part: &[String],
        with_route: bool,
    ) -> Result<Vec<TracedRead>, InspectError> {
        match product {
            Product::Output(seq) => {
                let mut reads = self.output_reads(run, *seq, part)?;
                let event = self.runs[run].history.event(*seq)?;
                if !matches!(event.kind, EventKind::Judged(_)) {
                    reads.extend(self.control_reads(run, &event.at, *seq, with_route)?);
                }
                Ok(reads)
            }
            Product::Unfinished(at) => {
                let traced = Rc::clone(&self.runs[run]);
                let mut reads = Vec::new();
                for seen in traced.events.seen.get(at).into_iter().flatten() {
                    reads.extend(self.evaluation_reads(run, Some(seen))?);
                }
                reads.extend(self.control_reads(run, at, Seq::MAX, with_route)?);
                Ok(reads)
            }
            Product::Items(seq) => {
                let traced = Rc::clone(&self.runs[run]);
                let at = traced.history.event(*seq)?.at;
                if !self.has_read(run, &at) {
                    return Ok(Vec::new());
                }
                self.evaluation_reads(run, traced.last_seen(&at, Evaluated::List, *seq))
            }
            Product::Entry(name) => self.entry_reads(run, name),
            Product::Input(name) => self.input_reads(run, name.as_ref()),
            Product::Exports => {
                let traced = Rc::clone(&self.runs[run]);
                self.evaluation_reads(run, traced.events.exports.as_ref())
            }
            Product::Given(_) => Ok(Vec::new()),
        }
    }

    /// What went into the output that an event recorded.
    fn output_reads(
        &mut self,
        run: usize,
        seq: Seq,
        part: &[String],
    ) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let event = traced.history.event(seq)?;
        let at = &event.at;
        if !self.has_read(run, at) {
            return Ok(Vec::new());
        }
        let evaluation = |evaluated| traced.last_seen(at, evaluated, seq);
        if let EventKind::Judged(_) = &event.kind {
            return self.judgement_reads(run, &event, evaluation(Evaluated::Judgement));
        }
        let reads = self.evaluation_reads(run, evaluation(Evaluated::Condition))?;
        let mut reads: Vec<TracedRead> =
            reads.into_iter().map(|read| TracedRead { is_control: true, ..read }).collect();
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
                let part = match part {
                    [] => Some(part),
                    [field, part @ ..] if each.is_map => (field == RESULTS).then_some(part),
                    part => Some(part),
                };
                if let Some(part) = part {
                    let asked = part.first().and_then(|index| index.parse().ok());
                    reads.extend(self.item_reads(run, (at, seq), asked, each.is_map)?);
                }
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

    /// What the items of a list left, or the one that is asked about.
    fn item_reads(
        &mut self,
        run: usize,
        (at, until): (&Address, Seq),
        asked: Option<u64>,
        is_map: bool,
    ) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let list = traced.events.lists.iter().rfind(|(of, seq, _)| of == at && *seq < until);
        let (list, count) = list.map_or((0, 0), |(_, seq, count)| (*seq, *count));
        let wanted = match (self.way, asked) {
            (ChainDirection::Forward, _) => 0..count,
            (ChainDirection::Back, Some(index)) => index..count.min(index.saturating_add(1)),
            (ChainDirection::Back, None) => 0..count.min(MAX_LINKS as u64),
        };
        if self.way == ChainDirection::Back {
            let mut has_all = true;
            for index in wanted.clone() {
                has_all &= self.has_read(run, &at.item(index));
            }
            if !has_all {
                return Ok(Vec::new());
            }
        }
        let own = |item: &Address| item.as_item().filter(|(owner, _)| owner == at).map(|(_, index)| index);
        let items = traced.events.items.iter().filter_map(|(item, ends)| Some((own(item)?, ends)));
        let mut items: Vec<(u64, Seq)> = items
            .filter_map(|(index, ends)| {
                let (_, left) = ends.iter().rfind(|(ended, _)| *ended > list && *ended < until)?;
                Some((index, *left)).filter(|_| wanted.contains(&index))
            })
            .collect();
        items.sort_unstable();
        let mut reads = Vec::new();
        for (index, left) in items {
            let number = index.to_string();
            let part =
                if is_map { vec![RESULTS.to_owned(), number, names::VALUE.to_owned()] } else { vec![number] };
            let field = if is_map { format!("results[{index}]") } else { format!("[{index}]") };
            reads.push(self.pass_on_output(run, at, (&field, "result"), part, left)?);
        }
        Ok(reads)
    }

    /// What the steps of a phase captured, and what the last of them left.
    fn phase_reads(&mut self, run: usize, at: &Address, seq: Seq) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let Some((last, captured)) = traced.events.phases.get(&seq) else { return Ok(Vec::new()) };
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
    ) -> Result<Vec<TracedRead>, InspectError> {
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
    fn entry_reads(&mut self, run: usize, name: &EcoString) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let context = traced.history.plan.workflow.context.as_ref();
        let entry = context.and_then(|context| context.entries.iter().find(|entry| entry.name == *name));
        let Some(entry) = entry else { return Ok(Vec::new()) };
        let mut known = traced.events.defined.clone();
        let own = known.remove(name);
        let mut reads = Vec::new();
        for resolution in traced.history.look_at_entry(entry, own, &known)? {
            let field = format!("context.{name}");
            let maker = threadline_engine::view::View::default().maker(&resolution);
            let part = part_of(resolution.origin.as_ref(), &entry.written.origin);
            let range = traced.history.source().range(resolution.span, resolution.origin.as_ref());
            let read = TracedRead {
                reader: "context".to_owned(),
                range: Some(range),
                ..self.read(run, &field, &resolution, &maker, part)?
            };
            reads.push(read);
        }
        Ok(reads)
    }

    /// What a caller gave to a run that it called.
    fn input_reads(&mut self, run: usize, name: Option<&EcoString>) -> Result<Vec<TracedRead>, InspectError> {
        let traced = Rc::clone(&self.runs[run]);
        let Some(caller) = traced.history.started.caller.clone() else { return Ok(Vec::new()) };
        let calling = self.add(&traced.history, &caller.run)?;
        if !self.has_read(calling, &caller.at) {
            return Ok(Vec::new());
        }
        let of_caller = Rc::clone(&self.runs[calling]);
        let seen = of_caller.events.seen.get(&caller.at).into_iter().flatten();
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
    fn evaluation_reads(&mut self, run: usize, seen: Option<&Seen>) -> Result<Vec<TracedRead>, InspectError> {
        let Some(seen) = seen else { return Ok(Vec::new()) };
        let traced = Rc::clone(&self.runs[run]);
        let explained = traced.explain(seen)?;
        self.needs_all |= traced.slice.is_some() && explained.reads_who_runs_an_item();
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
                let read = TracedRead { range: Some(reference.range), ..read };
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
    ) -> Result<TracedRead, InspectError> {
        let (source, maker, maker_json) = self.source(run, resolution, maker)?;
        Ok(TracedRead {
            reader: String::new(),
            field: field.to_owned(),
            reference: resolution.reference.to_string(),
            value: resolution.value.clone(),
            part,
            is_passed_on: false,
            is_control: false,
            range: None,
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
    ) -> Result<(TracedSource, String, Value), InspectError> {
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
            ("step", crate::explanation_json::label(history, &event.at).into()),
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
            is_control: false,
            range: None,
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
    ) -> Result<TracedRead, InspectError> {
        let history = &self.runs[run].history;
        let event = history.event(left)?;
        let value = Some(history.output(left)?.value.clone());
        let source = TracedSource { run, product: Product::Output(left), part: Vec::new() };
        let maker = self.title(run, &event.at);
        let maker_json = Value::record(self.step_json("step", run, &event));
        Ok(TracedRead { source, maker, maker_json, ..self.pass_on(run, at, names, part, value) })
    }

    /// Every product of the runs that are known, and of those that they call or are called by.
    fn products(&mut self) -> Result<Vec<(usize, Product)>, InspectError> {
        let mut products = Vec::new();
        let mut run = 0;
        while run < self.runs.len() {
            let traced = Rc::clone(&self.runs[run]);
            for (at, outputs) in &traced.events.outputs {
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
            let unfinished = traced.events.seen.keys().filter(|at| !traced.events.outputs.contains_key(*at));
            products.extend(unfinished.map(|at| (run, Product::Unfinished(at.clone()))));
            products.extend(traced.events.lists.iter().map(|(_, seq, _)| (run, Product::Items(*seq))));
            let context = traced.history.plan.workflow.context.iter().flat_map(|context| &context.entries);
            products.extend(context.map(|entry| (run, Product::Entry(entry.name.clone()))));
            products.extend(traced.events.exports.iter().map(|_| (run, Product::Exports)));
            run += 1;
        }
        Ok(products)
    }
}

/// The field of a map that says how many items there are.
const TOTAL: &str = "total";

/// The field of a map with the results of its items.
const RESULTS: &str = "results";

fn step_text(step: &PathStep) -> String {
    match step {
        PathStep::Key { key, .. } => key.as_str().to_owned(),
        PathStep::Index(index) => index.to_string(),
    }
}

/// The part of what somebody made that a reference reads.
pub fn part_read(resolution: &Resolution, maker: &Maker) -> Vec<String> {
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
pub fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// The run that a step called.
fn called_run(event: &Event) -> Option<String> {
    Some(output_of(event)?.meta.get(names::RUN_ID)?.as_str()?.to_owned())
}

/// The chains that start at what the user asked for.
pub struct Chains<'r> {
    tracer: Tracer<'r>,
    /// The links, each followed by those that lead on from it.
    pub links: Vec<ChainLink>,
    followed: BTreeSet<TracedSource>,
    /// Who read each product: the reader, and how.
    readers: BTreeMap<(usize, Product), Vec<(TracedSource, TracedRead)>>,
    /// Whether there are more than are shown.
    pub cut: bool,
}

/// How often more items may turn out to be needed before all are read.
const MAX_ROUNDS: usize = 8;

/// The items that are read at first. What is asked of is read, and going back more where it turns out to be needed. Where
/// items read what was made outside of them, all of them may have read what is asked of.
fn first_items(history: &History<'_>, target: &ExplainTarget, way: ChainDirection) -> Option<ItemsByRun> {
    let plan = &history.plan;
    let asked = target.asked_items(plan)?;
    if way == ChainDirection::Forward {
        let is_called = |step: &PlannedStep| matches!(step.step.action, Action::Workflow(_));
        let made_outside = |read: &Read| match read {
            Read::Item | Read::Prev => false,
            Read::Output(name) | Read::Captured(name) => {
                let sets = |step: &PlannedStep| {
                    let Step { id, capture, .. } = &*step.step;
                    [id, capture].into_iter().flatten().any(|known| known.value == *name)
                };
                (0..).zip(&plan.steps).any(|(number, step)| lists_around(plan, number) == 0 && sets(step))
            }
            _ => true,
        };
        let reads_outside = |(number, step): (StepNumber, &PlannedStep)| match step.step.action {
            Action::ForEach(_) => !step.reads.is_empty(),
            _ => lists_around(plan, number) > 0 && step.reads.iter().any(made_outside),
        };
        if history.started.caller.is_some()
            || plan.steps.iter().any(is_called)
            || (0..).zip(&plan.steps).any(reads_outside)
        {
            return None;
        }
    }
    let asked = asked.into_iter().collect();
    Some(BTreeMap::from([(history.info.id.to_string(), asked)]))
}

impl<'r> Chains<'r> {
    /// Follows what steps read or left.
    pub fn follow(
        history: &History<'r>,
        target: &ExplainTarget,
        way: ChainDirection,
    ) -> Result<Self, InspectError> {
        let first = first_items(history, target, way);
        Self::with_items(history, first, way, |chains| chains.follow_steps(target, way))
            .map(|((), found)| found)
    }

    /// Follows with some items read, then again with those that turned out to be needed, until all that are needed are
    /// read.
    fn with_items<T>(
        history: &History<'r>,
        mut items: Option<ItemsByRun>,
        way: ChainDirection,
        follow: impl Fn(&mut Self) -> Result<T, InspectError>,
    ) -> Result<(T, Self), InspectError> {
        let mut rounds = 0;
        loop {
            let mut chains = Self::new(history, way, items)?;
            let followed = follow(&mut chains)?;
            let Tracer { items: read, missing, needs_all, .. } = &mut chains.tracer;
            if missing.is_empty() && !*needs_all {
                return Ok((followed, chains));
            }
            rounds += 1;
            items = read.take().filter(|_| rounds < MAX_ROUNDS && !*needs_all);
            if let Some(items) = &mut items {
                for (run, needed) in std::mem::take(missing) {
                    items.entry(run).or_default().extend(needed);
                }
            }
        }
    }

    fn follow_steps(&mut self, target: &ExplainTarget, way: ChainDirection) -> Result<(), InspectError> {
        let chains = self;
        let run = Rc::clone(&chains.tracer.runs[0]);
        // What was skipped may have been skipped before anything of it was evaluated.
        let known: BTreeSet<&Address> = run.events.seen.keys().chain(run.events.outputs.keys()).collect();
        for at in known {
            if !at.step(&run.history.plan).is_some_and(|step| target.means(at, step)) {
                continue;
            }
            let last = |judged: bool| {
                let mut outputs = run.events.outputs.get(at).into_iter().flatten();
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
        Ok(())
    }

    /// Follows an entry of `context`, or what the run exported, by its name. Nothing if there is no such
    /// value.
    pub fn follow_name(
        history: &History<'r>,
        name: &str,
        way: ChainDirection,
    ) -> Result<Option<(Value, Self)>, InspectError> {
        if !matches!(name.split('.').next(), Some("context" | "exports")) {
            return Ok(None);
        }
        // What steps read of the context is known when they are looked at.
        let first = BTreeMap::from([(history.info.id.to_string(), BTreeSet::new())]);
        let first = (way == ChainDirection::Back).then_some(first);
        let (value, chains) = Self::with_items(history, first, way, |chains| chains.follow_one(name, way))?;
        Ok(value.map(|value| (value, chains)))
    }

    fn follow_one(&mut self, name: &str, way: ChainDirection) -> Result<Option<Value>, InspectError> {
        let (root, rest) = name.split_once('.').unwrap_or((name, ""));
        let chains = self;
        let run = Rc::clone(&chains.tracer.runs[0]);
        let (product, part, value) = match root {
            "context" if !rest.is_empty() => {
                let (entry, part) = rest.split_once('.').unwrap_or((rest, ""));
                (Product::Entry(entry.into()), part, run.entry(entry)?)
            }
            "exports" if run.events.exports.is_some() => {
                let value = threadline_runner::reload::exports(run.history.reader, &run.history.info);
                (Product::Exports, rest, Some(value.map_err(|error| crate::error::of_journal(&error))?))
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
        Ok(Some(value))
    }

    fn new(
        history: &History<'r>,
        way: ChainDirection,
        items: Option<ItemsByRun>,
    ) -> Result<Self, InspectError> {
        let mut tracer = Tracer::new(history, items, way)?;
        let mut readers: BTreeMap<(usize, Product), Vec<(TracedSource, TracedRead)>> = BTreeMap::new();
        if way == ChainDirection::Forward {
            for (run, product) in tracer.products()? {
                for read in tracer.reads(run, &product, &[], true)? {
                    let reader = TracedSource { run, product: product.clone(), part: read.part.clone() };
                    let key = (read.source.run, read.source.product.clone());
                    readers.entry(key).or_default().push((reader, read));
                }
                // Each is looked at once.
                tracer.runs[run].explained.borrow_mut().clear();
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
    ) -> Result<(), InspectError> {
        if self.is_full(depth) || !self.followed.insert(source.clone()) {
            return Ok(());
        }
        let next: Vec<(TracedSource, TracedRead, TracedSource)> = match way {
            ChainDirection::Back => {
                let reads = self.tracer.reads(source.run, &source.product, &source.part, depth == 0)?;
                let of_part = reads.into_iter().filter(|read| overlap(&read.part, &source.part));
                let named =
                    of_part.filter(|read| target.is_none_or(|target| target.means_field(&read.field)));
                named
                    .map(|read| {
                        let next = read.source_of(source);
                        (source.clone(), read, next)
                    })
                    .collect()
            }
            ChainDirection::Forward => {
                let key = (source.run, source.product.clone());
                let readers = self.readers.get(&key).into_iter().flatten();
                let of_part = readers.filter(|(_, read)| overlap(&read.source.part, &source.part));
                let next = |(reader, read): &(TracedSource, TracedRead)| {
                    (reader.clone(), read.clone(), read.part_of_reader(reader, source))
                };
                of_part.map(next).collect()
            }
        };
        for (reader, read, next) in next {
            if self.is_full(depth) {
                break;
            }
            let shown = self.followed.contains(&next) && !matches!(next.product, Product::Given(_));
            self.links.push(ChainLink { depth, reader, read, shown });
            if !shown {
                self.go(&next, None, way, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Whether they have no link.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The chains as JSON: the links, each with its depth.
    pub fn json(&self) -> Value {
        let links = self.links.iter().map(|link| {
            let TracedRead { reader, field, reference, value, maker, maker_json, is_control, .. } =
                &link.read;
            Value::record([
                ("depth", link.depth.into()),
                ("kind", if *is_control { "control" } else { "value" }.into()),
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
