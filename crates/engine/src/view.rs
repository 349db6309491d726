//! The names that a step sees, and the scope made of them.
//!
//! A view says which event made each name; whoever evaluates loads those outputs and nothing else.

use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::SECRET_MASK;
use threadline_flow::plan::{LOOP_ROOTS, PAYLOAD, Plan, RUN};
use threadline_lang::{EngineItem, Envelope, Lapsed, Scope, ScopeEntry, Value};

use crate::event::{Address, Millis, SafeEvents, Seq};
use crate::hash::Hash;

/// For each name that a step reads, the event that made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct View {
    /// The event that made the step ready.
    pub as_of: Seq,
    /// Where an item that acts begins with it beside others: what is known of the ends of items before.
    pub earlier_ends: SafeEvents,
    /// How many attempts of the step went before.
    pub attempts: u32,
    /// The event that began the last of them.
    pub started: Option<Seq>,
    /// What the agent said so far, where the attempt goes on with it.
    pub exchanges: Vec<Seq>,
    /// Whether a call of its agent may have been in flight at a crash, and is not counted.
    pub in_doubt: bool,
    /// Outputs by id.
    pub outputs: Vec<(EcoString, Seq)>,
    /// Captures by name.
    pub captured: Vec<(EcoString, Seq)>,
    /// The step before.
    pub prev: Option<Seq>,
    /// The item around the step, if any.
    pub item: Option<ItemView>,
    /// What phases left, by their names.
    pub phases: Vec<(EcoString, Seq)>,
    /// What can be read of the map, if any.
    pub map: Option<MapView>,
    /// The time by which it has to be through, beside its own.
    pub limit: Option<Limit>,
    /// Whether what an earlier run left may stand for it, in a run that continues that one.
    pub may_keep: bool,
    /// Whether nothing in it was done in a run that continues another one.
    pub is_kept: bool,
    /// In a loop of a run that continues another: the way that led here.
    pub path: Option<Hash>,
    /// Whether it is for what judges a state.
    pub is_judged: bool,
    /// What the state left, while it is judged.
    pub result: Option<Seq>,
    /// The state and the loop.
    pub state: Option<StateView>,
    /// In a loop: what was captured by the same names before.
    pub earlier: Vec<(EcoString, Seq)>,
    /// In a loop: the verdicts on what events made.
    pub verdicts: Vec<(Seq, PastVerdict)>,
    /// The outcome of the run.
    pub outcome: Option<Seq>,
    /// What the state saw when it acted, where it is judged and that is not the same: it has captured
    /// something since.
    pub acting: Option<Box<View>>,
}

/// What was said of a state when it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastVerdict {
    /// The event of the judgement.
    pub seq: Seq,
    /// The word that judged the state.
    pub verdict: EcoString,
    /// How sure it is, where that is known.
    pub confidence: Option<Value>,
    /// Why it is that, in words.
    pub reason: EcoString,
}

/// What can be read of a state and of the loop around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateView {
    /// The name of the state.
    pub name: EcoString,
    /// Which iteration, from 1.
    pub iteration: u64,
    /// How long the loop has been going on, without the time it was stopped.
    pub elapsed_ms: Millis,
    /// How often the state has followed itself.
    pub in_a_row: u64,
    /// The number that the state measured the last time.
    pub measured: Option<Value>,
}

impl StateView {
    /// The state that an execution is, as a view has it.
    pub fn of(view: &View, at: &Address) -> Self {
        let nowhere =
            || Self { name: at.to_string().into(), iteration: 0, elapsed_ms: 0, in_a_row: 0, measured: None };
        view.state.clone().unwrap_or_else(nowhere)
    }
}

/// An item, and what the engine says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemView {
    /// The list and index of the item.
    pub item: ItemRef,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// Who runs it, from 0.
    pub runner: u64,
    /// Whether that can be read: in a map-reduce, where `agent` is a name of the engine's.
    pub has_agent: bool,
    /// The event that says why the attempt before failed.
    pub error: Option<Seq>,
}

/// What can be read of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapView {
    /// It goes on.
    Running {
        /// How many items there are.
        total: u64,
    },
    /// It is over: the event with what it left.
    Over(Seq),
}

/// A time by which something has to be through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// When it began.
    pub since: Millis,
    /// How long it may take.
    pub allowed: Duration,
    /// What, in words.
    pub scope: &'static str,
}

impl Limit {
    /// When it is over.
    pub fn until(&self) -> Millis {
        self.since.saturating_add(i64::try_from(self.allowed.as_millis()).unwrap_or(i64::MAX))
    }

    /// How much of it is left at this time. A clock that was set back makes it no longer.
    pub fn left(&self, now: Millis) -> Duration {
        let left = self.until().saturating_sub(now).max(0).unsigned_abs();
        Duration::from_millis(left).min(self.allowed)
    }
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

    /// Why an item failed, as an event says it.
    fn item_error(&mut self, seq: Seq) -> Result<EcoString, Self::Error>;

    /// The outcome of the run that an event recorded, an object.
    fn outcome(&mut self, seq: Seq) -> Result<Value, Self::Error>;

    /// The results of the items whose end an event recorded.
    fn results(&mut self, seq: Seq) -> Result<ScopeEntry, Self::Error>;
}

/// Where the folders of runs are, in the folder of the project.
pub const RUN_FOLDERS: &str = ".threadline-runs";

/// The folder that a run has for its files, from the folder of the project on.
pub fn run_folder(run: &str) -> EcoString {
    eco_format!("{RUN_FOLDERS}/{run}")
}

impl RunNames {
    /// The names of the run that no step makes.
    pub fn scope(&self, plan: &Plan) -> Scope {
        let text = |text: &EcoString| Value::from(text.as_str());
        let workflow = Value::record([
            ("name", text(&self.workflow)),
            ("id", text(&self.run)),
            ("start_time", text(&self.start_time)),
        ]);
        let mut entries = vec![
            ("imports".into(), ScopeEntry::Plain(self.imports.clone())),
            ("inputs".into(), ScopeEntry::Plain(self.inputs.clone())),
            ("workflow".into(), ScopeEntry::Plain(workflow)),
        ];
        let secrets = &plan.workflow.secrets;
        if !secrets.is_empty() {
            let masks = secrets.iter().map(|secret| (secret.name.clone(), Value::from(SECRET_MASK)));
            entries.push(("secrets".into(), ScopeEntry::Plain(Value::record(masks))));
        }
        if plan.lists[0].graph.is_some() {
            entries.push((PAYLOAD.into(), ScopeEntry::Plain(self.payload.clone())));
        }
        let context = plan.workflow.context.as_ref();
        let context = context.map(|context| ScopeEntry::Definitions(Arc::clone(&context.definitions)));
        entries.push(("context".into(), context.unwrap_or_else(|| ScopeEntry::Names(Scope::new()))));
        // A name that a step may set is known before it does: a default stands ready for it.
        if plan.states.is_some() {
            for root in LOOP_ROOTS {
                let why = eco_format!("`{root}` is not known here");
                entries.push((root.into(), ScopeEntry::Unset(why)));
            }
        }
        // Its outcome is not known yet.
        let folder = Value::from(run_folder(&self.run).as_str());
        entries.push((RUN.into(), ScopeEntry::Plain(Value::record([(names::DIR, folder)]))));
        let unset = plan.names().into_iter().map(|name| {
            let why = eco_format!("the step that gives `{name}` has not run");
            (name.clone(), ScopeEntry::Unset(why))
        });
        let prev = ("prev".into(), ScopeEntry::Unset("no step of this list has run".into()));
        if plan.is_map_reduce() {
            for phase in ["setup", "map", "reduce", "aggregates"] {
                let why = eco_format!("`{phase}` is not known yet");
                entries.push((phase.into(), ScopeEntry::Unset(why)));
            }
        }
        layer(&layer(&Scope::new(), "run", unset.chain([prev]).collect()), "run", entries)
    }
}

impl View {
    /// The scope of a step: what its fields may read. `worktree` is the folder of the item's own.
    pub fn scope<L: Load>(
        &self,
        run: &Scope,
        load: &mut L,
        worktree: Option<&str>,
    ) -> Result<Scope, L::Error> {
        let mut captured = Vec::with_capacity(self.captured.len());
        let mut entries = Vec::new();
        for (name, seq) in &self.captured {
            let envelope = self.of_state(name, *seq, load)?;
            if !self.outputs.iter().any(|(id, _)| id == name) {
                entries.push((name.clone(), ScopeEntry::Plain(envelope.value.clone())));
            }
            captured.push((name.clone(), ScopeEntry::Output(envelope)));
        }
        for (id, seq) in &self.outputs {
            entries.push((id.clone(), ScopeEntry::Output(load.output(*seq)?)));
        }
        for (name, seq) in &self.earlier {
            if !self.captured.iter().any(|(known, _)| known == name) {
                let why = eco_format!("`{name}` was captured in an iteration before");
                let also = Value::record([("previous", plain(&*self.judged_output(*seq, load)?))]);
                captured.push((name.clone(), ScopeEntry::Lapsed(Arc::new(Lapsed { why, also }))));
            }
        }
        if let Some(seq) = self.prev {
            entries.push(("prev".into(), ScopeEntry::Output(self.judged_output(seq, load)?)));
        }
        if let Some(state) = &self.state {
            entries.extend(state.entries(run));
            let result = self.result.map(|seq| load.output(seq)).transpose()?;
            entries.extend(result.map(|result| ("result".into(), ScopeEntry::Output(result))));
        }
        entries.push(("captured".into(), ScopeEntry::Names(layer(&Scope::new(), "captured", captured))));
        for (phase, seq) in &self.phases {
            entries.push((phase.clone(), ScopeEntry::Plain(load.output(*seq)?.value.clone())));
        }
        if let Some(seq) = self.outcome {
            entries.push((RUN.into(), ScopeEntry::Plain(with_run_id(&load.outcome(seq)?, run))));
        }
        if let Some(map) = self.map {
            map_entries(map, load, &mut entries)?;
        }
        let scope = layer(run, "steps", entries);
        let Some(item) = self.item else { return Ok(scope) };
        let error = item.error.map(|seq| load.item_error(seq)).transpose()?;
        Ok(with_item(&scope, &item, load.item(item.item)?, error.as_deref(), worktree))
    }

    /// What was captured, with what was before it.
    fn of_state<L: Load>(&self, name: &str, seq: Seq, load: &mut L) -> Result<Arc<Envelope>, L::Error> {
        let output = self.judged_output(seq, load)?;
        let Some((_, earlier)) = self.earlier.iter().find(|(known, _)| known == name) else {
            return Ok(output);
        };
        let previous = plain(&*self.judged_output(*earlier, load)?);
        Ok(with_field(&output, "previous", previous))
    }

    /// An output, with the verdict on it.
    fn judged_output<L: Load>(&self, seq: Seq, load: &mut L) -> Result<Arc<Envelope>, L::Error> {
        let output = load.output(seq)?;
        Ok(match self.verdicts.iter().find(|(known, _)| *known == seq) {
            Some((_, said)) => {
                let output = with_field(&output, "verdict", Value::from(said.verdict.as_str()));
                let output = with_field(&output, "reason", Value::from(said.reason.as_str()));
                with_field(&output, "confidence", said.confidence.clone().unwrap_or_default())
            }
            None => output,
        })
    }

    /// Every event that the step's values come from.
    pub fn sources(&self) -> Vec<Seq> {
        let captured = self.captured.iter().chain(&self.earlier);
        let outputs = self.outputs.iter().chain(captured).map(|(_, seq)| *seq).chain(self.result);
        let item = self.item.into_iter().flat_map(|item| [Some(item.item.list), item.error]).flatten();
        let map = match self.map {
            Some(MapView::Over(seq)) => Some(seq),
            _ => None,
        };
        let phases = self.phases.iter().map(|(_, seq)| *seq);
        let acting = self.acting.iter().flat_map(|acting| acting.sources());
        let mut sources: Vec<Seq> = outputs
            .chain(acting)
            .chain(self.prev)
            .chain(item)
            .chain(phases)
            .chain(map)
            .chain(self.outcome)
            .collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}

/// The outcome of a run with the id of the run before it.
fn with_run_id(outcome: &Value, run: &Scope) -> Value {
    let id = run.value("workflow").and_then(|workflow| workflow.get("id").cloned()).unwrap_or_default();
    let fields = outcome.as_object().into_iter().flat_map(|fields| fields.iter());
    let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
    let folder = Value::from(run_folder(id.as_str().unwrap_or_default()).as_str());
    let own = [(EcoString::from(names::DIR), folder), (names::ID.into(), id)];
    Value::record(own.into_iter().chain(fields))
}

/// An output with one more field beside its value.
fn with_field(output: &Envelope, name: &str, value: Value) -> Arc<Envelope> {
    let also = output.also.as_ref().and_then(Value::as_object);
    let also = also.into_iter().flat_map(|also| also.iter());
    let also =
        also.filter(|(key, _)| key.as_str() != name).map(|(key, value)| (key.name().clone(), value.clone()));
    let also = Value::record(also.chain([(EcoString::from(name), value)]));
    Arc::new(Envelope { also: Some(also), ..output.clone() })
}

/// An output as one value: its value, and the fields beside it.
fn plain(output: &Envelope) -> Value {
    let also = output.also.as_ref().and_then(Value::as_object);
    let also = also.into_iter().flat_map(|also| also.iter());
    let also = also.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record([(EcoString::from("value"), output.value.clone())].into_iter().chain(also))
}

impl StateView {
    /// `state` and `loop`.
    fn entries(&self, run: &Scope) -> [(EcoString, ScopeEntry); 2] {
        let object = |entries: Vec<(EcoString, Value)>| ScopeEntry::Plain(Value::record(entries));
        let of_run = |name: &str| run.value("workflow").and_then(|workflow| workflow.get(name).cloned());
        let state = vec![
            ("name".into(), Value::from(self.name.as_str())),
            ("iteration".into(), Value::from(self.iteration)),
        ];
        let of_loop = vec![
            ("name".into(), of_run("name").unwrap_or_default()),
            ("started_at".into(), of_run("start_time").unwrap_or_default()),
            ("elapsed_ms".into(), Value::from(self.elapsed_ms)),
            ("elapsed".into(), Value::from(elapsed(self.elapsed_ms).as_str())),
        ];
        [("state".into(), object(state)), ("loop".into(), object(of_loop))]
    }
}

/// A time for people: `500ms`, `30s`, `2m 15s`.
pub fn elapsed(millis: Millis) -> EcoString {
    let seconds = millis / 1000;
    match (seconds / 60, seconds % 60) {
        _ if millis < 1000 => eco_format!("{millis}ms"),
        (0, seconds) => eco_format!("{seconds}s"),
        (minutes, 0) => eco_format!("{minutes}m"),
        (minutes, seconds) => eco_format!("{minutes}m {seconds}s"),
    }
}

/// A scope in which there is an item.
pub fn with_item(
    scope: &Scope,
    item: &ItemView,
    value: Value,
    error: Option<&str>,
    worktree: Option<&str>,
) -> Scope {
    let own = Value::record([
        ("index", Value::from(item.item.index)),
        ("attempt", Value::from(item.attempt)),
        ("previous_error", error.map_or(Value::NULL, Value::from)),
    ]);
    let agent = Value::record([
        ("id", Value::from(eco_format!("agent-{}", item.runner + 1).as_str())),
        ("worktree", worktree.map_or(Value::NULL, Value::from)),
    ]);
    let entry = ScopeEntry::Item(Arc::new(EngineItem { value, own }));
    let mut entries = vec![("item".into(), entry)];
    entries.extend(item.has_agent.then(|| ("agent".into(), ScopeEntry::Plain(agent))));
    layer(scope, &eco_format!("item {}", item.item.index), entries)
}

/// What can be read of a map: how many items there are, and at its end what became of them.
fn map_entries<L: Load>(
    map: MapView,
    load: &mut L,
    entries: &mut Vec<(EcoString, ScopeEntry)>,
) -> Result<(), L::Error> {
    match map {
        MapView::Running { total } => {
            let names = vec![("total".into(), ScopeEntry::Plain(Value::from(total)))];
            entries.push(("map".into(), ScopeEntry::Names(layer(&Scope::new(), "map", names))));
        }
        MapView::Over(seq) => {
            let output = load.output(seq)?;
            let results = load.results(seq)?;
            if output.value.is_null() {
                of_failed_map(&output.meta, results, entries);
            } else {
                of_map(&output.value, results, entries);
            }
        }
    }
    Ok(())
}

/// What is known of a map whatever became of it. Of one that failed it stands in the meta data.
const OF_FAILED_MAP: [&str; 7] =
    ["total", "successful", "failed", "skipped", "duration", "success_rate", "branch"];

fn of_failed_map(meta: &Value, results: ScopeEntry, entries: &mut Vec<(EcoString, ScopeEntry)>) {
    let known = OF_FAILED_MAP.iter().filter_map(|name| Some((*name, meta.get(name)?.clone())));
    of_map(&Value::record(known), results, entries);
}

/// What a map left, an object, and its results as names.
fn of_map(left: &Value, results: ScopeEntry, entries: &mut Vec<(EcoString, ScopeEntry)>) {
    let mut names = vec![("results".into(), results)];
    for (key, value) in left.as_object().into_iter().flat_map(|object| object.iter()) {
        let is_aggregates = key.name() == "aggregates";
        let into = if is_aggregates { &mut *entries } else { &mut names };
        into.push((key.name().clone(), ScopeEntry::Plain(value.clone())));
    }
    entries.push(("map".into(), ScopeEntry::Names(layer(&Scope::new(), "map", names))));
}

/// A scope in which a map is over: what it left, an object, and its results.
pub fn with_map(scope: &Scope, left: &Value, results: ScopeEntry) -> Scope {
    let mut entries = Vec::new();
    of_map(left, results, &mut entries);
    layer(scope, "map", entries)
}

/// A layer of names of which none stands twice: the caller takes them of tables by name.
fn layer(scope: &Scope, label: &str, entries: Vec<(EcoString, ScopeEntry)>) -> Scope {
    scope.with_entries(label, entries).unwrap_or_else(|_| scope.clone())
}

#[cfg(test)]
mod tests {
    use super::elapsed;

    #[test]
    fn times_are_for_people() {
        let times = [0, 500, 999, 1000, 30_000, 59_000, 60_000, 90_000, 125_000, 3_600_000];
        let shown = times.map(elapsed);
        assert_eq!(shown, ["0ms", "500ms", "999ms", "1s", "30s", "59s", "1m", "1m 30s", "2m 5s", "60m"]);
    }
}
