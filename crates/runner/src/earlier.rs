//! The run that a run continues: what it recorded, by the executions of the run at hand.
//!
//! An index of its journal is made once. Whether anything of it is kept is the engine's business.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::agent::thread::THREAD;
use threadline_engine::event::{
    Address, Computed, Event, EventKind, KeptMaker, Listed, RunStarted, Seq, Status,
};
use threadline_engine::execute::EarlierResult;
use threadline_engine::pairing::StepPairing;
use threadline_engine::replay::{Evaluated, Fold, output_of};
use threadline_engine::world::Answer;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_store::{JournalError, JournalReader, RunId, StoreError};

use crate::driver::DriveError;
use crate::items::ChunkReader;
use crate::reload;

/// An earlier run and the plan of the run that continues it.
pub struct EarlierRun<'s> {
    reader: &'s JournalReader,
    run: RunId,
    /// The number of its events.
    events: Seq,
    /// That of the run at hand, and that of the earlier run.
    plans: (Arc<Plan>, Arc<Plan>),
    /// Whether the commits of its items are kept.
    keeps_commits: bool,
    steps: StepPairing,
    /// The last attempt of each execution that went well, and its end.
    attempts: BTreeMap<Address, CompletedAttempt>,
    /// Executions that began and did not end well, and how.
    others: BTreeMap<Address, Unkept>,
    /// The ends of items, lists and phases that went well.
    ends: BTreeMap<Address, Seq>,
    /// Conditions that had to compute something.
    conditions: BTreeMap<Address, Seq>,
    lists: BTreeMap<Address, Seq>,
    /// Judgements that had to compute something, or for which a judge was asked.
    judgements: BTreeMap<Address, Seq>,
    /// The last event of each call of a workflow.
    calls: BTreeMap<Address, Seq>,
    /// The way that led to each visit of a loop.
    paths: BTreeMap<Address, Hash>,
    /// What entries of `context` had to compute.
    definitions: BTreeMap<EcoString, Vec<Answer>>,
    /// What each thread had when the run continued it first.
    threads: Vec<Computed>,
    /// The events that were read last.
    pages: Mutex<VecDeque<(Seq, Vec<Event>)>>,
}

/// The number of events that are read together: what is kept was recorded in about the order in which it is asked for.
const EVENTS_AT_ONCE: Seq = 128;

/// The number of such pages that are held.
const PAGES: usize = 8;

#[derive(Clone, Copy)]
struct CompletedAttempt {
    /// The event that began it; 0 for what was kept from a run before.
    started: Seq,
    /// The event that ended it; 0 while it is under way.
    ended: Seq,
}

/// How an execution ended that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unkept {
    /// It failed in that run.
    Failed,
    /// It was under way when the run stopped.
    Unfinished,
}

/// Where the lists of the run at hand are.
pub trait CurrentLists {
    /// The event with the items of a step that is under way.
    fn list_of(&self, at: &Address) -> Option<Seq>;

    /// The items that an event recorded.
    fn items(&self, list: Seq) -> Result<Listed, JournalError>;

    /// How they are paired with those of the earlier run.
    fn pairings(&self) -> &ItemPairings;
}

/// The items of the lists of one run, as they are paired with those of the earlier run: made once for each list. They
/// are known by the event with the list, so a forecast and the run itself have their own: their events may come in
/// another order.
#[derive(Default)]
pub struct ItemPairings(Mutex<BTreeMap<Seq, Arc<ItemPairing>>>);

impl ItemPairings {
    fn get(&self, list: Seq) -> Option<Arc<ItemPairing>> {
        self.locked().get(&list).cloned()
    }

    /// Keeps a pairing, unless another thread was faster.
    fn keep(&self, list: Seq, pairing: ItemPairing) -> Arc<ItemPairing> {
        Arc::clone(self.locked().entry(list).or_insert_with(|| Arc::new(pairing)))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Seq, Arc<ItemPairing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which items of two lists are the same.
pub struct ItemPairing {
    /// Whether all are.
    is_same: bool,
    earlier: BTreeMap<u64, u64>,
}

impl<'s> EarlierRun<'s> {
    /// The run that a run continues, where it continues one.
    pub fn of(
        reader: &'s JournalReader,
        started: &RunStarted,
        plan: &Arc<Plan>,
    ) -> Result<Option<Self>, DriveError> {
        let Some(continued) = &started.continues else { return Ok(None) };
        let run = RunId::new(&continued.run)?;
        // Where that run was removed, nothing of it can be kept any more.
        if let Err(StoreError::NoSuchRun { .. }) = reader.run(&run) {
            return Ok(None);
        }
        let mut found = Self::open(reader, &run, plan)?;
        found.keeps_commits = continued.keeps_commits;
        Ok(Some(found))
    }

    /// Reads the journal of a run that is continued with a plan.
    pub fn open(reader: &'s JournalReader, run: &RunId, plan: &Arc<Plan>) -> Result<Self, DriveError> {
        let info = reader.run(run)?;
        let started = reload::started(reader, &info)?;
        let started = started.ok_or_else(|| JournalError::Value(format!("run `{run}` has no beginning")))?;
        let earlier = reload::plan(reader, &started)?;
        let steps = StepPairing::new(plan, &earlier);
        let mut found = Self {
            reader,
            run: run.clone(),
            events: info.events,
            plans: (Arc::clone(plan), Arc::new(earlier)),
            keeps_commits: false,
            steps,
            attempts: BTreeMap::new(),
            others: BTreeMap::new(),
            ends: BTreeMap::new(),
            conditions: BTreeMap::new(),
            lists: BTreeMap::new(),
            judgements: BTreeMap::new(),
            calls: BTreeMap::new(),
            paths: BTreeMap::new(),
            definitions: BTreeMap::new(),
            threads: Vec::new(),
            pages: Mutex::default(),
        };
        found.index()?;
        Ok(found)
    }

    /// The journal that the run is in.
    pub(crate) fn reader(&self) -> &'s JournalReader {
        self.reader
    }

    /// The id of the run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The number of items of its map that went well.
    pub fn merged_items(&self) -> u64 {
        let of_map = |at: &&Address| at.as_item().is_some_and(|(step, _)| step == "map");
        self.ends.keys().filter(of_map).count() as u64
    }

    /// Whether the commits of its items are kept.
    pub(crate) fn keeps_commits(&self) -> bool {
        self.keeps_commits
    }

    /// Keeps the commits of its items, all of which are kept.
    pub fn keep_commits(&mut self) {
        self.keeps_commits = true;
    }

    /// What entries of `context` had to compute.
    pub(crate) fn definitions(&self) -> &BTreeMap<EcoString, Vec<Answer>> {
        &self.definitions
    }

    /// What a thread had when the run continued it first.
    pub(crate) fn first_of_thread(&self, name: &str) -> Result<Option<Value>, DriveError> {
        for computed in &self.threads {
            let args = self.reader.load(&computed.args)?;
            let is_it = args.as_list().and_then(<[Value]>::first).and_then(Value::as_str) == Some(name);
            if let (true, Ok(answer)) = (is_it, &computed.answer) {
                return Ok(Some(self.reader.load(answer)?));
            }
        }
        Ok(None)
    }

    fn index(&mut self) -> Result<(), DriveError> {
        // Only a loop has a way, and only the machine knows it.
        let earlier = &self.plans.1;
        let mut fold = earlier.states.is_some().then(|| Fold::new(Arc::clone(earlier)));
        let (reader, run) = (self.reader, self.run.clone());
        for event in reader.events(&run, 1)? {
            let event = event?;
            if let Some(fold) = &mut fold {
                if let (Some(visit), Some(path)) = (event.at.outermost(), fold.machine.path()) {
                    self.paths.insert(visit, path);
                }
                fold.apply(&event)?;
            }
            self.take(&event)?;
        }
        let unfinished = self.attempts.iter().filter(|(_, attempt)| attempt.ended == 0);
        self.others.extend(unfinished.map(|(at, _)| (at.clone(), Unkept::Unfinished)));
        self.attempts.retain(|_, attempt| attempt.ended > 0);
        Ok(())
    }

    fn take(&mut self, event: &Event) -> Result<(), DriveError> {
        let Event { seq, at, kind, .. } = event;
        let seq = *seq;
        let is_call = || {
            let step = at.step(&self.plans.1).map(|step| &self.plans.1.steps[step as usize].step.action);
            matches!(step, Some(Action::Workflow(_)))
        };
        if let EventKind::Started { computed, .. } = kind {
            let threads = computed.iter().filter(|computed| computed.name == THREAD);
            self.threads.extend(threads.cloned());
        }
        if let EventKind::Finished { kept: Some(kept), .. } = kind {
            let threads = kept.computed.iter().filter(|computed| computed.name == THREAD);
            self.threads.extend(threads.cloned());
        }
        match kind {
            EventKind::Started { .. } => {
                if is_call() {
                    self.calls.insert(at.clone(), seq);
                }
                self.others.remove(at);
                self.attempts.insert(at.clone(), CompletedAttempt { started: seq, ended: 0 });
            }
            EventKind::Finished { output, kept, .. } => {
                if is_call() {
                    self.calls.insert(at.clone(), seq);
                }
                if output.status != Status::Completed {
                    self.attempts.remove(at);
                    self.others.insert(at.clone(), Unkept::Failed);
                } else if kept.is_some() {
                    self.attempts.insert(at.clone(), CompletedAttempt { started: 0, ended: seq });
                } else if let Some(attempt) = self.attempts.get_mut(at) {
                    attempt.ended = seq;
                } else {
                    self.ends.insert(at.clone(), seq);
                }
            }
            EventKind::Retrying { .. } => {
                if is_call() {
                    self.calls.insert(at.clone(), seq);
                }
                self.attempts.remove(at);
                self.others.insert(at.clone(), Unkept::Failed);
            }
            EventKind::Unresolved { .. } => {
                self.attempts.remove(at);
                self.others.insert(at.clone(), Unkept::Failed);
            }
            EventKind::Decided { computed, .. } => {
                self.note_condition(at, seq, computed);
            }
            EventKind::Skipped { computed, .. } => {
                self.attempts.remove(at);
                self.note_condition(at, seq, computed);
            }
            EventKind::Expanded { .. } => {
                self.lists.insert(at.clone(), seq);
            }
            EventKind::Judged(judged) if !judged.computed.is_empty() || judged.reply.is_some() => {
                self.judgements.insert(at.clone(), seq);
            }
            EventKind::Defined { name, computed, .. } => {
                self.definitions.insert(name.clone(), self.reader.answers(computed)?);
            }
            EventKind::ItemEnded(ended) if ended.status == Status::Completed => {
                self.ends.insert(at.clone(), seq);
            }
            // It begins again from its first step.
            EventKind::ItemRetrying { .. } => at.remove_lists_from(&mut self.attempts),
            _ => {}
        }
        Ok(())
    }

    /// An event of the run.
    fn event(&self, seq: Seq) -> Result<Event, JournalError> {
        let first = (seq - 1) / EVENTS_AT_ONCE * EVENTS_AT_ONCE + 1;
        let place = usize::try_from(seq - first).unwrap_or(usize::MAX);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = pages.iter().find(|(known, _)| *known == first) {
            return page
                .get(place)
                .cloned()
                .ok_or_else(|| JournalError::Value(format!("there is no event {seq}")));
        }
        let numbers: Vec<Seq> = (first..first + EVENTS_AT_ONCE).filter(|seq| *seq <= self.events).collect();
        let page = self.reader.events_at(&self.run, &numbers).collect::<Result<Vec<Event>, _>>()?;
        let found = page.get(place).cloned();
        pages.truncate(PAGES - 1);
        pages.push_front((first, page));
        found.ok_or_else(|| JournalError::Value(format!("there is no event {seq}")))
    }

    fn note_condition(&mut self, at: &Address, seq: Seq, computed: &[Computed]) {
        if computed.is_empty() {
            self.conditions.remove(at);
        } else {
            self.conditions.insert(at.clone(), seq);
        }
    }

    /// The execution of the earlier run that is paired with one of the run at hand, when the same way led to both.
    fn execution(
        &self,
        lists: &dyn CurrentLists,
        at: &Address,
        path: Option<Hash>,
    ) -> Result<Option<Address>, DriveError> {
        let item = |step: &Address, of: &Address, index: u64| self.item(lists, step, of, index);
        let found = self.steps.execution((&self.plans.0, &self.plans.1), at, item)?;
        Ok(found.filter(|found| {
            let known = found.outermost().and_then(|visit| self.paths.get(&visit).copied());
            self.plans.1.states.is_none() || at.run_part().is_some() || known == path
        }))
    }

    fn item(
        &self,
        lists: &dyn CurrentLists,
        step: &Address,
        earlier: &Address,
        index: u64,
    ) -> Result<Option<u64>, DriveError> {
        let (Some(list), Some(of)) = (lists.list_of(step), self.lists.get(earlier)) else { return Ok(None) };
        let pairing = if let Some(pairing) = lists.pairings().get(list) {
            pairing
        } else {
            let EventKind::Expanded { items, .. } = self.event(*of)?.kind else {
                return Ok(None);
            };
            lists.pairings().keep(list, ItemPairing::new(self.reader, &lists.items(list)?, &items)?)
        };
        Ok(pairing.earlier(index))
    }

    /// How the execution of the earlier run ended that is paired with one of the run at hand and is not kept;
    /// nothing where there is none.
    pub fn unkept(&self, lists: &dyn CurrentLists, at: &Address) -> Result<Option<Unkept>, DriveError> {
        let item = |step: &Address, of: &Address, index: u64| self.item(lists, step, of, index);
        let found = self.steps.execution((&self.plans.0, &self.plans.1), at, item)?;
        Ok(found.and_then(|found| self.others.get(&found).copied()))
    }

    /// What was recorded when the same of an execution was evaluated.
    pub fn result(
        &self,
        lists: &dyn CurrentLists,
        at: &Address,
        path: Option<Hash>,
        evaluated: Evaluated,
    ) -> Result<Option<EarlierResult>, DriveError> {
        let Some(found) = self.execution(lists, at, path)? else { return Ok(None) };
        let seq = match evaluated {
            Evaluated::Fields if found.is_item() => self.ends.get(&found),
            Evaluated::Fields => return self.completed(&found),
            Evaluated::Condition => self.conditions.get(&found),
            Evaluated::List => self.lists.get(&found),
            Evaluated::Judgement => self.judgements.get(&found),
            Evaluated::Variables | Evaluated::Aggregates => self.ends.get(&found),
            Evaluated::Exports => None,
        };
        let Some(seq) = seq else { return Ok(None) };
        let what = self.event(*seq)?.kind;
        let mut maker = self.maker(*seq);
        let mut details = Value::NULL;
        let computed = match &what {
            EventKind::Decided { computed, .. }
            | EventKind::Skipped { computed, .. }
            | EventKind::Expanded { computed, .. } => computed,
            EventKind::Judged(judged) => {
                details = self.reader.load(&judged.details)?;
                maker = judged.kept.clone().unwrap_or(maker);
                &judged.computed
            }
            EventKind::Finished { .. } | EventKind::ItemEnded(_) => &Vec::new(),
            _ => return Ok(None),
        };
        let answers = self.reader.answers(computed)?;
        Ok(Some(EarlierResult { maker, what, answers, work: None, details }))
    }

    fn completed(&self, at: &Address) -> Result<Option<EarlierResult>, DriveError> {
        let Some(attempt) = self.attempts.get(at) else { return Ok(None) };
        let EventKind::Finished { output, kept, .. } = self.event(attempt.ended)?.kind else {
            return Ok(None);
        };
        let (maker, computed, work) = match kept {
            Some(kept) => (kept.maker, kept.computed, Some(kept.work)),
            None => match self.event(attempt.started)?.kind {
                EventKind::Started { computed, work, .. } => (self.maker(attempt.ended), computed, work),
                _ => return Ok(None),
            },
        };
        let answers = self.reader.answers(&computed)?;
        let what = EventKind::Finished { output, results: None, kept: None };
        Ok(Some(EarlierResult { maker, what, answers, work, details: Value::NULL }))
    }

    fn maker(&self, event: Seq) -> KeptMaker {
        KeptMaker { run: self.run.as_str().into(), event }
    }

    /// The run that the last attempt of a call of the earlier run called, if it began.
    pub(crate) fn called(
        &self,
        lists: &dyn CurrentLists,
        at: &Address,
        path: Option<Hash>,
    ) -> Result<Option<RunId>, DriveError> {
        let Some(found) = self.execution(lists, at, path)? else { return Ok(None) };
        let Some(seq) = self.calls.get(&found) else { return Ok(None) };
        let event = self.event(*seq)?;
        let run = if let EventKind::Started { as_of, .. } = &event.kind {
            let started = RunId::new(self.run.started())?;
            Some(RunId::called(&started, &self.run, found.as_str(), *as_of, 0)?)
        } else {
            let run = output_of(&event).and_then(|output| output.meta.get(names::RUN_ID));
            run.and_then(Value::as_str).map(RunId::new).transpose()?
        };
        let Some(run) = run else { return Ok(None) };
        match self.reader.run(&run) {
            Ok(info) => Ok((info.events > 0).then_some(run)),
            Err(StoreError::NoSuchRun { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl ItemPairing {
    /// Items are the same that have the same value: at the same index where they can, else in their order.
    pub fn new(reader: &JournalReader, now: &Listed, then: &Listed) -> Result<Self, JournalError> {
        let (now, then) = (StoredItems::open(reader, now)?, StoredItems::open(reader, then)?);
        if now.is_stored_as(&then) {
            return Ok(Self { is_same: true, earlier: BTreeMap::new() });
        }
        let mut left: BTreeMap<Hash, VecDeque<u64>> = BTreeMap::new();
        let (mut earlier, mut open) = (BTreeMap::new(), Vec::new());
        for index in 0..then.len().max(now.len()) {
            let (then, now) = (then.print(index)?, now.print(index)?);
            if then.is_some() && then == now {
                earlier.insert(index, index);
                continue;
            }
            if let Some(print) = then {
                left.entry(print).or_default().push_back(index);
            }
            open.extend(now.map(|print| (index, print)));
        }
        for (index, print) in open {
            let same = left.get_mut(&print).and_then(VecDeque::pop_front);
            earlier.extend(same.map(|of| (index, of)));
        }
        Ok(Self { is_same: false, earlier })
    }

    /// Whether both lists are the same.
    pub fn is_same(&self) -> bool {
        self.is_same
    }

    /// The index in the earlier list of an item of the later one.
    pub fn earlier(&self, index: u64) -> Option<u64> {
        if self.is_same { Some(index) } else { self.earlier.get(&index).copied() }
    }
}

/// A list of the journal, read item by item.
pub(crate) enum StoredItems {
    Whole(Value),
    Chunks(threadline_engine::event::Datum, ChunkReader),
}

impl StoredItems {
    pub(crate) fn open(reader: &JournalReader, items: &Listed) -> Result<Self, JournalError> {
        Ok(match items {
            Listed::Whole(list) => Self::Whole(reader.load(list)?),
            Listed::Chunks(index) => Self::Chunks(index.clone(), ChunkReader::open(reader, index)?),
        })
    }

    fn is_stored_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Chunks(one, _), Self::Chunks(two, _)) => one == two,
            (Self::Whole(one), Self::Whole(two)) => one == two,
            _ => false,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Whole(list) => list.as_list().map_or(0, <[Value]>::len) as u64,
            Self::Chunks(_, chunks) => chunks.len(),
        }
    }

    /// The hash of an item; nothing behind the last.
    fn print(&self, index: u64) -> Result<Option<Hash>, JournalError> {
        if index >= self.len() {
            return Ok(None);
        }
        Ok(Some(Hash::of(self.item(index)?.to_json(JsonStyle::Compact).as_bytes())))
    }

    /// An item; null behind the last.
    pub(crate) fn item(&self, index: u64) -> Result<Value, JournalError> {
        Ok(match self {
            Self::Whole(list) => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                list.as_list().and_then(|items| items.get(index)).cloned().unwrap_or_default()
            }
            Self::Chunks(_, chunks) => chunks.item(index)?,
        })
    }
}
