//! What a run that continues another one keeps and what it does again, before it begins: the same machine and the
//! same executor, with what the earlier run left. Nothing is performed and nothing is written.
//!
//! A step that is done again leaves something that is not known. Whoever reads it is done again as well, as far as
//! can be told: where it turns out to be the same, the run keeps what follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, ItemEnded, Listed, Output, RunStarted, Seq, Status,
};
use threadline_engine::execute::effect::{ChosenItems, Effect, EffectResult, ItemsSource, ItemsSpec};
use threadline_engine::execute::result::{ClockReading, envelope, judged_envelope};
use threadline_engine::execute::{
    Driver, EarlierResult, EnterFolder, Executor, FieldEvaluation, Next, Performance, Recording, SecretView,
    Site, StepSite, item_in_worktree, item_result,
};
use threadline_engine::machine::{Command, Machine, Task};
use threadline_engine::replay::{Evaluated, output_of};
use threadline_engine::view::{ItemRef, Load, RunNames, View};
use threadline_engine::world::{Answer, Record, Recorder};
use threadline_flow::fields::Failure;
use threadline_flow::model::Action;
use threadline_flow::plan::{Plan, StepNumber};
use threadline_flow::problem::Problem;
use threadline_lang::{ComputeError, Envelope, Scope, ScopeEntry, Session, Value, World};
use threadline_store::JournalError;

use crate::choice::choose;
use crate::driver::DriveError;
use crate::earlier::{CurrentLists, EarlierRun, ItemPairings, StoredItems, Unkept};
use crate::items::ItemSource;
use crate::project::Project;
use crate::values::load_envelope;

/// The number of executions of a step that are named.
const MAX_EXAMPLES: usize = 5;

/// What becomes of each step, by its number.
#[derive(Debug, Default)]
pub struct ContinuationForecast {
    /// Steps that were looked at.
    pub steps: BTreeMap<StepNumber, StepForecast>,
    /// The state from which on a loop goes its way anew.
    pub loop_from: Option<Address>,
}

/// What becomes of the executions of a step.
#[derive(Debug, Default)]
pub struct StepForecast {
    /// So many results are kept.
    pub kept: u64,
    /// So many are done again, or for the first time.
    pub again: u64,
    /// Some of those that are done again, and why.
    pub examples: Vec<(Address, WhyAgain)>,
    /// What becomes of its items, of a step that has items.
    pub items: Option<ItemForecast>,
}

/// What becomes of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemForecast {
    /// So many keep all that they left, and so many do not.
    Known {
        /// All their results are kept.
        kept: u64,
        /// Something of them is done again.
        again: u64,
    },
    /// Which items there are is not known before the run.
    Unknown,
}

/// Why something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyAgain {
    /// The earlier run has nothing like it.
    New,
    /// What it does has changed, or what it is given.
    Changed,
    /// It failed in the earlier run.
    Failed,
    /// It was under way when the earlier run stopped.
    Unfinished,
    /// It reads what a step leaves that is done again.
    Reads(EcoString),
    /// It comes behind something that is done again.
    Follows,
    /// The user asks for it.
    Asked,
    /// It works in a worktree of its own, and what it committed is on a branch of the earlier run.
    InWorktree,
}

impl ContinuationForecast {
    /// The number of items of a map that keep all that they left.
    pub fn kept_items_of_map(&self, plan: &Plan) -> u64 {
        let of_map = |(step, found): (&StepNumber, &StepForecast)| match found.items {
            Some(ItemForecast::Known { kept, .. }) if plan.steps[*step as usize].step.is_map() => Some(kept),
            _ => None,
        };
        self.steps.iter().find_map(of_map).unwrap_or(0)
    }
}

/// Says what a run that continues another one will keep, without doing anything.
pub fn forecast(
    earlier: &EarlierRun<'_>,
    plan: &Arc<Plan>,
    names: &RunNames,
    started: &RunStarted,
    project: &Project,
    spool: &Path,
) -> Result<ContinuationForecast, DriveError> {
    let mut forecaster = Forecaster {
        earlier,
        plan,
        started,
        project,
        spool,
        scope: names.scope(plan),
        machine: Machine::new(Arc::clone(plan)),
        todo: VecDeque::new(),
        last: 0,
        events: BTreeMap::new(),
        lists: BTreeMap::new(),
        pairings: ItemPairings::default(),
        unknown: BTreeMap::new(),
        ended: BTreeMap::new(),
        acting_items: BTreeSet::new(),
        context: BTreeMap::new(),
        was_asked: false,
        found: ContinuationForecast::default(),
    };
    forecaster.happen(Address::root(), EventKind::RunStarted(started.clone()))?;
    while let Some(command) = forecaster.todo.pop_front() {
        if !forecaster.follow(command)? {
            break;
        }
    }
    Ok(forecaster.found)
}

struct Forecaster<'f, 's> {
    earlier: &'f EarlierRun<'s>,
    plan: &'f Arc<Plan>,
    started: &'f RunStarted,
    project: &'f Project,
    spool: &'f Path,
    scope: Scope,
    machine: Machine,
    todo: VecDeque<Command>,
    last: Seq,
    /// What can still be read.
    events: BTreeMap<Seq, Event>,
    lists: BTreeMap<Seq, Arc<StoredItems>>,
    pairings: ItemPairings,
    /// Events whose values are not known, and the steps that make them.
    unknown: BTreeMap<Seq, EcoString>,
    /// How items ended, by their lists.
    ended: BTreeMap<Address, BTreeMap<u64, ItemEnded>>,
    /// Items in which something is done.
    acting_items: BTreeSet<Address>,
    context: BTreeMap<EcoString, Value>,
    /// Whether a value had to be computed that was not recorded.
    was_asked: bool,
    found: ContinuationForecast,
}

impl Forecaster<'_, '_> {
    fn happen(&mut self, at: Address, kind: EventKind) -> Result<Seq, DriveError> {
        self.last += 1;
        let event = Event { seq: self.last, time: 0, at, kind };
        self.todo.extend(self.machine.apply(&event)?);
        if let EventKind::ItemEnded(ended) = &event.kind {
            self.item_ended(&event.at, ended.clone());
        } else {
            self.events.insert(self.last, event);
        }
        Ok(self.last)
    }

    /// What an item did is forgotten with it, so that a million of them need no more room than one.
    fn item_ended(&mut self, item: &Address, ended: ItemEnded) {
        self.events.retain(|_, event| !event.at.is_inside(item));
        let Some((list, index)) = item.as_item() else { return };
        let acts = self.acting_items.remove(item);
        if acts {
            self.acting_items.extend(list.items_around().next_back());
        }
        if let Some(step) = item.step(self.plan) {
            let known = &mut self.found.steps.entry(step).or_default().items;
            let (kept, again) = match known {
                Some(ItemForecast::Known { kept, again }) => (*kept, *again),
                _ => (0, 0),
            };
            let (kept, again) = if acts { (kept, again + 1) } else { (kept + 1, again) };
            *known = Some(ItemForecast::Known { kept, again });
        }
        self.ended.entry(list).or_default().insert(index, ended);
    }

    /// Carries out a command as far as it is known. False when nothing more can be said.
    fn follow(&mut self, command: Command) -> Result<bool, DriveError> {
        let view = self.machine.view_of(&command);
        let unknown = view.sources().iter().find_map(|seq| self.unknown.get(seq).cloned());
        let task = command.task().cloned();
        match (&command, task) {
            (Command::End { .. }, _) => return Ok(true),
            (Command::Wait { task, .. }, _) => {
                let next = self.machine.after_pause(&task.at);
                self.todo.extend(next);
                return Ok(true);
            }
            (Command::Start { .. }, Some(task)) => {
                if let Some(why) = self.why_not(&task.at, &view, unknown) {
                    return self.again(&task, why).map(|()| true);
                }
            }
            (Command::Decide(_), Some(task)) if unknown.is_some() => {
                return self.decided(&task).map(|()| true);
            }
            (Command::Expand(_), Some(task)) if unknown.is_some() => {
                return self.unknown_items(&task).map(|()| true);
            }
            (Command::Judge(_), Some(task)) if unknown.is_some() => {
                self.found.loop_from.get_or_insert(task.at);
                return Ok(false);
            }
            (Command::EndItem { ending, .. }, Some(task)) => {
                let left = ending.output.and_then(|seq| self.unknown.get(&seq));
                if left.is_some() {
                    let value = Datum::Here(Value::NULL);
                    let (status, error, branch) = (Status::Completed, None, None);
                    let not_retried = None;
                    let ended =
                        ItemEnded { status, value, error, attempts: 1, duration_ms: 0, branch, not_retried };
                    return self.happen(task.at, EventKind::ItemEnded(ended)).map(|_| true);
                }
            }
            (Command::Collect { .. }, Some(task)) => {
                let items = self.found.steps.get(&task.step).and_then(|step| step.items);
                let is_known = matches!(items, None | Some(ItemForecast::Known { again: 0, .. }));
                if unknown.is_some() || !is_known {
                    return self.unknown_result(&task).map(|()| true);
                }
            }
            (Command::Close { last, captured, .. }, Some(task)) => {
                let mut sources = last.iter().chain(captured.iter().map(|(_, seq)| seq));
                if unknown.is_some() || sources.any(|seq| self.unknown.contains_key(seq)) {
                    return self.unknown_result(&task).map(|()| true);
                }
            }
            _ => {}
        }
        self.carry_out(command, &view)
    }

    fn carry_out(&mut self, command: Command, view: &View) -> Result<bool, DriveError> {
        let (plan, task) = (Arc::clone(self.plan), command.task().cloned());
        let executor = Executor::new(&plan);
        self.was_asked = false;
        let (is_start, is_decision) =
            (matches!(command, Command::Start { .. }), matches!(command, Command::Decide(_)));
        let mut next = executor.begin(self, command, view.clone())?;
        loop {
            let performance = match next {
                Next::Record(recording) => {
                    let Recording { at, kind, .. } = *recording;
                    let failed = matches!(kind, EventKind::Unresolved { .. });
                    match task {
                        // What has to be computed anew is not computed to look ahead.
                        Some(task) if failed && self.was_asked && is_decision => {
                            self.decided(&task)?;
                        }
                        Some(task) if failed && is_start => self.again(&task, WhyAgain::Changed)?,
                        Some(task) if failed && self.was_asked => {
                            self.unknown_items(&task)?;
                        }
                        _ => self.record(at, kind)?,
                    }
                    return Ok(true);
                }
                Next::Perform(performance) => *performance,
                Next::Pause(..) | Next::Ask(_) | Next::Hold(..) | Next::Later(..) | Next::Leave => {
                    return Ok(true);
                }
            };
            let Performance { effect, pending, .. } = performance;
            let result = match (&effect, &task) {
                (Effect::EnterWorktree { .. } | Effect::MergeItem(_), _) => EffectResult::Worktree(Ok(())),
                (Effect::CloseWorktrees | Effect::AbandonItem { .. }, _) => EffectResult::Branch(None),
                (Effect::ReadItems(spec), Some(task)) => {
                    let Some(chosen) = self.choose(task, view, spec)? else {
                        self.unknown_items(task)?;
                        return Ok(true);
                    };
                    EffectResult::Items(Ok(chosen))
                }
                (_, Some(task)) if is_start => {
                    let why = match self.earlier.unkept(self, &task.at)? {
                        Some(Unkept::Failed) => WhyAgain::Failed,
                        Some(Unkept::Unfinished) => WhyAgain::Unfinished,
                        None if self.is_known(&task.at, view)? => WhyAgain::Changed,
                        None => WhyAgain::New,
                    };
                    self.again(task, why)?;
                    return Ok(true);
                }
                (Effect::Process(_) | Effect::WithSecrets(_), Some(task))
                    if view.result.is_none() && !view.is_judged =>
                {
                    // The command of a list.
                    self.unknown_items(task)?;
                    return Ok(true);
                }
                // A judge is asked.
                (_, Some(task)) => {
                    self.found.loop_from.get_or_insert(task.at.clone());
                    return Ok(false);
                }
                (_, None) => return Ok(true),
            };
            next = executor.done(self, pending, result)?;
        }
    }

    /// Whether the earlier run did it, and well.
    fn is_known(&self, at: &Address, view: &View) -> Result<bool, DriveError> {
        Ok(self.earlier.result(self, at, view.path, Evaluated::Fields)?.is_some())
    }

    fn record(&mut self, at: Address, kind: EventKind) -> Result<(), DriveError> {
        let step = at.step(self.plan);
        let is_kept = matches!(kind, EventKind::Finished { kept: Some(_), .. });
        self.happen(at, kind)?;
        if let Some(step) = step.filter(|_| is_kept) {
            self.found.steps.entry(step).or_default().kept += 1;
        }
        Ok(())
    }

    /// Why an execution cannot be kept, whatever its fields are.
    fn why_not(&self, at: &Address, view: &View, unknown: Option<EcoString>) -> Option<WhyAgain> {
        let from = self.started.continues.as_ref().map(|continued| continued.from.as_slice());
        let is_asked =
            |around: Address| from.iter().flat_map(|from| *from).any(|of| of.means(self.plan, &around));
        if !view.may_keep {
            return Some(if at.lineage().any(is_asked) {
                WhyAgain::Asked
            } else if item_in_worktree(self.plan, at).is_some() {
                WhyAgain::InWorktree
            } else {
                WhyAgain::Follows
            });
        }
        unknown.map(WhyAgain::Reads)
    }

    /// A step is done, and nobody knows what it leaves.
    fn again(&mut self, task: &Task, why: WhyAgain) -> Result<(), DriveError> {
        let Task { at, step, as_of } = task;
        let of_step = self.found.steps.entry(*step).or_default();
        of_step.again += 1;
        if of_step.examples.len() < MAX_EXAMPLES {
            of_step.examples.push((at.clone(), why));
        }
        self.acting_items.extend(at.items_around().next_back());
        let (computed, fields) = (Vec::new(), threadline_engine::Hash::default());
        let (as_of, attempt, rerun, work) = (*as_of, 1, false, None);
        let started = EventKind::Started { as_of, attempt, rerun, computed, fields, work };
        self.happen(at.clone(), started)?;
        self.unknown_result(task)
    }

    /// A step is over, and what it left is not known.
    fn unknown_result(&mut self, task: &Task) -> Result<(), DriveError> {
        let label = self.plan.steps[task.step as usize].label.clone();
        self.unknown.insert(self.last + 1, label);
        let nothing = || Datum::Here(Value::NULL);
        let (status, meta) = (Status::Completed, Value::empty_object());
        let output = Output {
            status,
            value: nothing(),
            output: None,
            stderr: None,
            meta,
            spent: None,
            thread: None,
            exact: None,
        };
        let is_map = self.plan.steps[task.step as usize].step.is_map();
        let results = is_map.then(|| Datum::Here(Value::sequence([])));
        self.happen(task.at.clone(), EventKind::Finished { output, results, kept: None })?;
        Ok(())
    }

    /// A condition is not known: its step is taken to run.
    fn decided(&mut self, task: &Task) -> Result<(), DriveError> {
        let kind = EventKind::Decided { as_of: task.as_of, computed: Vec::new() };
        self.happen(task.at.clone(), kind).map(|_| ())
    }

    /// Which items a list has is not known.
    fn unknown_items(&mut self, task: &Task) -> Result<(), DriveError> {
        self.found.steps.entry(task.step).or_default().items = Some(ItemForecast::Unknown);
        self.acting_items.extend(task.at.items_around().next_back());
        let kind = EventKind::Expanded {
            as_of: task.as_of,
            computed: Vec::new(),
            items: Listed::Whole(Datum::Here(Value::sequence([]))),
            count: 0,
            read: None,
            parallel: 1,
            rules: threadline_engine::event::Rules::STRICT,
            source: None,
        };
        self.happen(task.at.clone(), kind).map(|_| ())
    }

    /// The items of a list whose elements are here.
    fn choose(
        &mut self,
        task: &Task,
        view: &View,
        spec: &ItemsSpec,
    ) -> Result<Option<ChosenItems>, DriveError> {
        let plan = Arc::clone(self.plan);
        let Action::ForEach(each) = &plan.steps[task.step as usize].step.action else { return Ok(None) };
        let project = &self.project.clone();
        let source = match &spec.source {
            ItemsSource::Resolved(resolved) => match ItemSource::open(project, resolved) {
                Ok(Some(source)) => source,
                _ => return Ok(None),
            },
            ItemsSource::Printed(_) => return Ok(None),
        };
        let (mut items, spool) = (Vec::new(), self.spool);
        let secrets = SecretView::Masked;
        let site = StepSite { plan: &plan, task, view, secrets }.with(&spec.earlier);
        let FieldEvaluation { result, computed } = self.evaluate(site, |scope, session, _| {
            let mut take = |value: Value| {
                items.push(value);
                Ok::<(), JournalError>(())
            };
            choose((each, &spec.expansion), source, (scope, session), spool, &mut take).ok()
        })?;
        let (Some(counts), Ok(list)) = (result, Value::list(items)) else { return Ok(None) };
        let count = list.as_list().map_or(0, <[Value]>::len) as u64;
        let items = Listed::Whole(Datum::Here(list));
        Ok(Some(ChosenItems { items, count, read: counts.read, leads_nowhere: false, computed }))
    }
}

impl CurrentLists for Forecaster<'_, '_> {
    fn list_of(&self, at: &Address) -> Option<Seq> {
        self.machine.items_of(at)
    }

    fn items(&self, list: Seq) -> Result<Listed, JournalError> {
        match self.events.get(&list).map(|event| &event.kind) {
            Some(EventKind::Expanded { items, .. }) => Ok(items.clone()),
            _ => Err(JournalError::Value(format!("event {list} has no list"))),
        }
    }

    fn pairings(&self) -> &ItemPairings {
        &self.pairings
    }
}

/// Loads what the forecast has.
struct ForecastValues<'v> {
    earlier: &'v EarlierRun<'v>,
    events: &'v BTreeMap<Seq, Event>,
    lists: &'v mut BTreeMap<Seq, Arc<StoredItems>>,
}

impl ForecastValues<'_> {
    fn missing(seq: Seq) -> JournalError {
        JournalError::Value(format!("event {seq} has no value"))
    }
}

impl Load for ForecastValues<'_> {
    type Error = JournalError;

    fn output(&mut self, seq: Seq) -> Result<Arc<Envelope>, JournalError> {
        let event = self.events.get(&seq).ok_or_else(|| Self::missing(seq))?;
        if let EventKind::Judged(judged) = &event.kind {
            let load = |datum: &Datum| self.earlier.reader().load(datum);
            return judged_envelope(&event.at, judged, load).map(Arc::new);
        }
        let output = output_of(event).ok_or_else(|| Self::missing(seq))?;
        load_envelope(self.earlier.reader(), output).map(Arc::new)
    }

    fn item(&mut self, item: ItemRef) -> Result<Value, JournalError> {
        if let Some(list) = self.lists.get(&item.list) {
            return list.item(item.index);
        }
        let Some(EventKind::Expanded { items, .. }) = self.events.get(&item.list).map(|event| &event.kind)
        else {
            return Err(Self::missing(item.list));
        };
        let list = Arc::new(StoredItems::open(self.earlier.reader(), items)?);
        self.lists.insert(item.list, Arc::clone(&list));
        list.item(item.index)
    }

    fn item_error(&mut self, seq: Seq) -> Result<EcoString, JournalError> {
        Err(Self::missing(seq))
    }

    fn outcome(&mut self, seq: Seq) -> Result<Value, JournalError> {
        match self.events.get(&seq).map(|event| &event.kind) {
            Some(EventKind::OutcomeKnown { run, .. }) => self.earlier.reader().load(run),
            _ => Err(Self::missing(seq)),
        }
    }

    fn results(&mut self, seq: Seq) -> Result<ScopeEntry, JournalError> {
        match self.events.get(&seq).map(|event| &event.kind) {
            Some(EventKind::Finished { results: Some(results), .. }) => {
                Ok(ScopeEntry::Plain(self.earlier.reader().load(results)?))
            }
            _ => Err(Self::missing(seq)),
        }
    }
}

/// A world that computes nothing.
struct SilentWorld {
    was_asked: bool,
}

impl World for SilentWorld {
    fn compute(&mut self, _: &str, _: &[Value]) -> Result<Value, ComputeError> {
        self.was_asked = true;
        Err(ComputeError::Failed { message: "it is computed in the run".to_owned(), hint: None })
    }

    fn known(&mut self, _: &str) -> Option<Value> {
        None
    }
}

impl Driver for Forecaster<'_, '_> {
    type Error = DriveError;

    fn moment(&mut self) -> ClockReading {
        ClockReading { time: 0, steady: std::time::Duration::ZERO }
    }

    fn spread(&mut self) -> f64 {
        0.0
    }

    fn keep(&mut self, value: &Value) -> Result<Datum, DriveError> {
        Ok(Datum::Here(value.clone()))
    }

    fn envelope(&mut self, seq: Seq) -> Result<Arc<Envelope>, DriveError> {
        if self.unknown.contains_key(&seq) {
            return Ok(Arc::new(envelope(Value::NULL, None, None, Value::empty_object())));
        }
        let Self { earlier, events, lists, .. } = self;
        Ok(ForecastValues { earlier, events, lists }.output(seq)?)
    }

    fn event(&mut self, seq: Seq) -> Result<Event, DriveError> {
        Ok(self.events.get(&seq).cloned().ok_or_else(|| ForecastValues::missing(seq))?)
    }

    fn answers(&mut self, _: Seq) -> Result<Vec<Answer>, DriveError> {
        Ok(Vec::new())
    }

    fn earlier(
        &mut self,
        site: StepSite<'_>,
        evaluated: Evaluated,
    ) -> Result<Option<EarlierResult>, DriveError> {
        self.earlier.result(&*self, &site.task.at, site.view.path, evaluated)
    }

    fn item_values(&mut self, task: &Task, _: Seq, total: u64) -> Result<Result<Value, Failure>, DriveError> {
        let ended = self.ended.remove(&task.at).unwrap_or_default();
        let mut values = vec![Value::NULL; usize::try_from(total).unwrap_or(0)];
        for (index, ended) in ended {
            if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
                *place = self.earlier.reader().load(&ended.value)?;
            }
        }
        Ok(Ok(Value::list(values).unwrap_or_default()))
    }

    fn store_results(&mut self, task: &Task, list: Seq) -> Result<Datum, DriveError> {
        let ended = self.ended.remove(&task.at).unwrap_or_default();
        let mut results = Vec::new();
        for (index, ended) in ended {
            let Self { earlier, events, lists, .. } = self;
            let item = ForecastValues { earlier, events, lists }.item(ItemRef { list, index })?;
            results.push(item_result(index, item, &ended, self.earlier.reader().load(&ended.value)?));
        }
        Ok(Datum::Here(Value::list(results).unwrap_or_default()))
    }

    fn rows(&mut self, results: &Datum) -> Result<ScopeEntry, DriveError> {
        Ok(ScopeEntry::Plain(self.earlier.reader().load(results)?))
    }

    fn report(&mut self, _: &Address, _: Vec<Problem>) {}

    fn scope(&mut self, view: &View) -> Result<Scope, DriveError> {
        let Self { earlier, events, lists, scope, .. } = self;
        Ok(view.scope(scope, &mut ForecastValues { earlier, events, lists }, None)?)
    }

    fn evaluate<T>(
        &mut self,
        site: Site<'_>,
        evaluate: impl FnOnce(&Scope, &mut Session<'_>, &EnterFolder<'_>) -> T,
    ) -> Result<FieldEvaluation<T>, DriveError> {
        let scope = self.scope(site.view)?;
        let context = &self.context;
        let mut known = |name: &str| context.get(name).cloned();
        let mut world = SilentWorld { was_asked: false };
        let mut recorder =
            Recorder::new(&mut world, &mut known, site.earlier).continuing(self.earlier.definitions());
        let workflow = &self.plan.workflow;
        let mut session =
            Session::new(&mut recorder).limits(&workflow.syntax.limits).undefined(workflow.undefined);
        let result = evaluate(&scope, &mut session, &|_| Ok(()));
        drop(session);
        let Record { computed, defined } = recorder.finish();
        self.was_asked |= world.was_asked;
        self.context.extend(defined.into_iter().map(|defined| (defined.name, defined.value)));
        Ok(FieldEvaluation { result, computed })
    }
}
