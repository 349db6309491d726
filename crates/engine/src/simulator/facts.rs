//! What a journal says so far, told without the machine: what is done, where items are, what may begin.
//!
//! An event that no run may have says so here; whoever watches a run decides what becomes of that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use threadline_flow::fields::{FailureKind, field_names as names};
use threadline_flow::model::Action;
use threadline_flow::plan::{Part, Plan, StepNumber};
use threadline_lang::Value;

use super::chance::Fated;
use crate::event::{Address, Computed, Event, EventKind, Millis, Rules, Seq, Status};
use crate::machine::{Counts, Outcome};
use crate::view::ItemView;

/// How the error of what the time of the run ended begins.
const RUN_TIMED_OUT: &str = "the run timed out";

/// What the journal says so far.
pub(super) struct Facts {
    plan: Arc<Plan>,
    /// Steps that finished or were skipped.
    pub(super) done: BTreeMap<Address, Done>,
    /// The lists whose items are known.
    pub(super) lists: BTreeMap<Address, SimulatedList>,
    /// The items that have begun.
    items: BTreeMap<Address, Item>,
    /// The last event that made an attempt possible: its condition holds, or the one before failed.
    pub(super) announced: BTreeMap<Address, Seq>,
    /// The last attempt of each step that began one.
    pub(super) started: BTreeMap<Address, BegunAttempt>,
    /// The number of exchanges of the last attempt of each step that asked an agent again, and the last of them.
    pub(super) exchanged: BTreeMap<Address, (u32, Seq)>,
    /// The steps whose call was lost, and whose agent is asked again without anybody being asked: whether the attempt
    /// that does so has begun.
    recalled: BTreeMap<Address, bool>,
    /// The steps whose next attempt goes on behind what the agent said in the last one.
    passing: BTreeSet<Address>,
    /// The state that led nowhere.
    pub(super) stuck: Option<Address>,
    /// How the steps of the run ended, and the event that says so, until one of them goes on.
    pub(super) outcome: Option<(Outcome, Seq)>,
    /// The last end of the run.
    pub(super) ended: Option<Seq>,
    /// How the run ended, when it did and nobody went on with it.
    over: Option<Outcome>,
    /// Everything that something happened to since.
    since: BTreeSet<Address>,
    /// What failed because it was running at a crash, since the run last went on after its end.
    pub(super) crashed: BTreeSet<Address>,
    time: StepsTime,
}

/// How long the steps of the run have taken, by the times of events.
#[derive(Default)]
struct StepsTime {
    /// When they began, moved by the time in which the run was stopped.
    since: Millis,
    /// How long they may take.
    limit: Option<Duration>,
    /// When the run went on after its end, until one of its steps does.
    went_on: Option<Millis>,
    now: Millis,
}

impl StepsTime {
    fn take(&mut self, event: &Event) {
        let before = std::mem::replace(&mut self.now, event.time);
        match &event.kind {
            EventKind::LimitsResolved { limits, .. } => {
                (self.since, self.limit) = (event.time, limits.timeout);
            }
            EventKind::Resumed { .. } => self.since += event.time - before,
            _ if !event.at.is_root() && event.at.run_part().is_none() => {
                if let Some(time) = self.went_on.take() {
                    self.since = time;
                }
            }
            _ => {}
        }
    }

    /// Whether it is over for an execution.
    fn is_over(&self, at: &Address) -> bool {
        let passed = u128::from((self.now - self.since).max(0).unsigned_abs());
        at.run_part().is_none() && self.limit.is_some_and(|limit| passed >= limit.as_millis())
    }
}

/// An attempt that began.
pub(super) struct BegunAttempt {
    pub(super) seq: Seq,
    pub(super) attempt: u32,
    /// The number of attempts that do not count: those before the step was over and began again.
    pub(super) base: u32,
    /// Whether a crash cut it off, and it is made again.
    pub(super) rerun: bool,
    /// What its fields had to compute.
    pub(super) computed: Vec<Computed>,
}

#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) seq: Seq,
    pub(super) status: Status,
    /// Whether the run had no time left then.
    out_of_time: bool,
}

/// A list whose items are known.
pub(super) struct SimulatedList {
    seq: Seq,
    pub(super) count: u64,
    pub(super) parallel: u64,
    pub(super) rules: Rules,
    /// So many more items may begin: as many as run at once, and one more for each that ended while any may begin.
    slots: u64,
}

/// An item that has begun.
struct Item {
    /// Which attempt it is, from 1.
    attempt: u32,
    /// How often it began again from its beginning.
    begun: u32,
    /// Attempts that count: those since a resume after a failure.
    tries: u64,
    /// Who runs it, when a step of it has said so.
    runner: Option<u64>,
    /// The event that says why it failed last.
    error: Option<Seq>,
    stage: ItemStage,
}

#[derive(Clone, Copy, PartialEq)]
enum ItemStage {
    UnderWay,
    Waiting,
    Over {
        seq: Seq,
        status: Status,
        /// Whether it failed, and a resume may do it again.
        may_go_on: bool,
    },
}

impl Item {
    fn failed(&self) -> bool {
        matches!(self.stage, ItemStage::Over { status: Status::Failed, may_go_on: false, .. })
    }
}

impl Facts {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            done: BTreeMap::new(),
            lists: BTreeMap::new(),
            items: BTreeMap::new(),
            announced: BTreeMap::new(),
            started: BTreeMap::new(),
            exchanged: BTreeMap::new(),
            recalled: BTreeMap::new(),
            passing: BTreeSet::new(),
            stuck: None,
            outcome: None,
            ended: None,
            over: None,
            since: BTreeSet::new(),
            crashed: BTreeSet::new(),
            time: StepsTime::default(),
        }
    }

    /// Whether an attempt asks an agent again whose call was lost, as somebody decided before.
    pub(super) fn is_recalled(&self, at: &Address) -> bool {
        self.recalled.get(at) == Some(&true)
    }

    /// Takes an event; what no run may do is said in words.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), String> {
        let at = event.at.clone();
        if !at.is_root() {
            self.since.insert(at.clone());
            if at.run_part().is_none() {
                self.outcome = None;
            }
        }
        self.time.take(event);
        self.enter(&at)?;
        if self.was_mended(&at) {
            // What the steps between the attempts set stays.
            self.done.remove(&at);
        } else if self.done.contains_key(&at) {
            self.done_again(&at);
        }
        match &event.kind {
            EventKind::Finished { output, .. }
            | EventKind::Unresolved { output, .. }
            | EventKind::Skipped { output, .. } => {
                if FailureKind::of_meta(&output.meta) == Some(FailureKind::Crash) {
                    self.crashed.insert(at.clone());
                }
                let error = output.meta.get(names::ERROR).and_then(Value::as_str);
                if error.is_some_and(|error| error.starts_with(RUN_TIMED_OUT)) && !self.time.is_over(&at) {
                    return Err(format!("`{at}` is out of time, and the run has time left"));
                }
                let out_of_time = self.time.is_over(&at);
                self.done.insert(at, Done { seq: event.seq, status: output.status, out_of_time });
            }
            EventKind::Expanded { count, parallel, rules, .. } => {
                self.forget(|key| key.is_in_items_of(&at));
                let (seq, count, parallel, rules) = (event.seq, *count, *parallel, *rules);
                self.lists.insert(at, SimulatedList { seq, count, parallel, rules, slots: parallel });
            }
            EventKind::CallLost { goes_on: true, .. } => {
                self.recalled.insert(at, false);
            }
            EventKind::Started { attempt, computed, rerun, .. } => {
                let same = self.started.get(&at).filter(|began| *rerun && began.attempt == *attempt);
                if same.is_some_and(|began| began.computed != *computed) {
                    return Err(format!(
                        "attempt {attempt} of `{at}` is made again with other computed values"
                    ));
                }
                match self.recalled.get_mut(&at) {
                    Some(has_begun) if !*has_begun => *has_begun = true,
                    _ => drop(self.recalled.remove(&at)),
                }
                if !rerun && !self.passing.remove(&at) {
                    self.exchanged.remove(&at);
                }
                let was_over =
                    |began: &BegunAttempt| self.done.get(&at).is_some_and(|done| done.seq > began.seq);
                let base = match self.started.get(&at) {
                    // Attempts are counted anew where what is around the step begins again.
                    Some(began) if was_over(began) && *attempt <= began.attempt => 0,
                    Some(began) if was_over(began) => began.attempt,
                    began => began.map_or(0, |began| began.base),
                };
                let (seq, attempt, computed) = (event.seq, *attempt, computed.clone());
                self.started.insert(at, BegunAttempt { seq, attempt, base, rerun: *rerun, computed });
            }
            EventKind::Exchanged { number, .. } => {
                self.exchanged.insert(at, (*number, event.seq));
            }
            EventKind::Judged(judged) => {
                self.stuck = judged.to.is_none().then_some(at);
            }
            EventKind::Retrying { keeps_exchanges: true, .. } => {
                self.announced.insert(at.clone(), event.seq);
                self.passing.insert(at);
            }
            EventKind::Retrying { .. } | EventKind::Decided { .. } => {
                self.announced.insert(at, event.seq);
            }
            EventKind::ItemRetrying { .. } => {
                let most = self.list_with(&at).map_or(0, |list| list.rules.retry.attempts);
                let item = self.item(&at, ItemStage::UnderWay)?;
                if item.tries >= most {
                    return Err(format!("`{at}` begins again after {} of {most} attempts", item.tries));
                }
                item.stage = ItemStage::Waiting;
                item.error = Some(event.seq);
                self.forget(|key| key.is_inside(&at));
            }
            EventKind::ItemBegun { attempt } => {
                let item = self.item(&at, ItemStage::Waiting)?;
                if *attempt != item.attempt + 1 {
                    return Err(format!("attempt {attempt} of `{at}` follows attempt {}", item.attempt));
                }
                (item.attempt, item.stage) = (*attempt, ItemStage::UnderWay);
                item.begun += 1;
                item.tries += 1;
            }
            EventKind::ItemEnded(ended) => {
                let has_crash = self.crashed.iter().any(|crashed| crashed.is_inside(&at));
                let most = self.list_with(&at).map_or(0, |list| list.rules.retry.attempts);
                let is_too_late = self.time.is_over(&at);
                let item = self.item(&at, ItemStage::UnderWay)?;
                let may_begin_again = item.tries < most && !has_crash;
                // It says why it does not begin again all the same: nothing does when the time of the run is over.
                let says_so = ended.error.as_ref().is_some_and(|error| error.starts_with(RUN_TIMED_OUT));
                if says_so && !is_too_late {
                    return Err(format!("`{at}` is out of time, and the run has time left"));
                }
                let is_refused = ended.not_retried.is_some() || is_too_late;
                if ended.status == Status::Failed && may_begin_again && !is_refused {
                    return Err(format!("`{at}` failed for good after {} of {most} attempts", item.tries));
                }
                item.runner = None;
                if ended.attempts != item.attempt {
                    return Err(format!("`{at}` ends with attempt {} as {}", item.attempt, ended.attempts));
                }
                item.stage = ItemStage::Over { seq: event.seq, status: ended.status, may_go_on: false };
                if ended.status == Status::Failed {
                    item.error = Some(event.seq);
                }
                let Some((each, _)) = at.as_item() else { return Err(format!("`{at}` is no item")) };
                let failed = self.items_of(&each).filter(|(_, item)| item.failed()).count() as u64;
                if let Some(list) = self.lists.get_mut(&each)
                    && !list.rules.stops_after(failed)
                {
                    list.slots += 1;
                }
            }
            EventKind::RunEnded { outcome, .. } => {
                self.ended = Some(event.seq);
                self.over = Some(*outcome);
                self.since.clear();
            }
            EventKind::OutcomeKnown { outcome, .. } => {
                self.outcome.get_or_insert((*outcome, event.seq));
            }
            EventKind::Resumed { failed, .. } => self.resumed(*failed),
            _ => {}
        }
        Ok(())
    }

    /// Whether the steps between two attempts of a step are through since it failed.
    pub(super) fn was_mended(&self, at: &Address) -> bool {
        let list = at.step(&self.plan).and_then(|step| self.plan.part(step, Part::Fix));
        let (Some(failed), Some(list)) = (self.done.get(at), list) else { return false };
        let list = &self.plan.lists[list as usize];
        let position = list.steps.len().saturating_sub(1);
        let final_step = at.part(Part::Fix).child(list, position);
        let ended = self.done.get(&final_step).filter(|done| done.seq > failed.seq);
        ended.is_some() && (!self.failed(&final_step, list.steps[position]) || self.goes_on(&final_step))
    }

    /// A step is done again: what was done after it is not done any more.
    fn done_again(&mut self, at: &Address) {
        let list = at.parent().unwrap_or_default();
        let root = &self.plan.lists[0];
        let in_lists = |key: &Address| key.is_inside(at) && !key.is_in_items_of(at);
        if list.is_root() && root.graph.is_some() {
            return self.forget(in_lists);
        }
        // The steps of a phase are not done again with its end.
        if !(list.is_root() && root.is_named()) {
            self.forget(in_lists);
        }
        let Some(position) = at.position() else { return };
        self.forget(|key| {
            let other = key.step_in(&list).and_then(|step| step.position());
            other.is_some_and(|other| other > position)
        });
    }

    /// Something is about to happen to an execution: the items around it are under way, or begin.
    pub(super) fn enter(&mut self, at: &Address) -> Result<(), String> {
        items_outside(at).try_for_each(|key| self.inside(&key))
    }

    /// Something happens inside an item: it must be under way, or begin.
    fn inside(&mut self, key: &Address) -> Result<(), String> {
        let Some((each, index)) = key.as_item() else { return Err(format!("`{key}` is no item")) };
        let Some(list) = self.lists.get_mut(&each) else { return Err(format!("`{each}` has no list")) };
        if index >= list.count {
            return Err(format!("`{each}` has {} items and not item {index}", list.count));
        }
        let begins = match self.items.get(key).map(|item| item.stage) {
            Some(ItemStage::UnderWay) => return Ok(()),
            Some(ItemStage::Waiting) => return Err(format!("`{key}` has not begun again")),
            Some(ItemStage::Over { may_go_on: false, seq, status }) => {
                return Err(format!("`{key}` was over at event {seq}, {}", status.name()));
            }
            Some(ItemStage::Over { may_go_on: true, .. }) | None => list.slots,
        };
        if begins == 0 {
            return Err(format!("`{key}` begins, and no item may"));
        }
        list.slots -= 1;
        let anew = self.in_worktree(&each);
        if let Some(item) = self.items.get_mut(key) {
            item.attempt += 1;
            item.tries = 1;
            item.stage = ItemStage::UnderWay;
            // What a worktree had does not outlive a failure.
            if anew {
                self.forget(|other| other.is_inside(key));
            }
        } else {
            let stage = ItemStage::UnderWay;
            let item = Item { attempt: 1, begun: 0, tries: 1, runner: None, error: None, stage };
            self.items.insert(key.clone(), item);
        }
        Ok(())
    }

    fn item(&mut self, key: &Address, stage: ItemStage) -> Result<&mut Item, String> {
        match self.items.get_mut(key) {
            Some(item) if item.stage == stage => Ok(item),
            _ => Err(format!("`{key}` is somewhere else")),
        }
    }

    /// The list that an item is of.
    pub(super) fn list_with(&self, item: &Address) -> Option<&SimulatedList> {
        item.as_item().and_then(|(each, _)| self.lists.get(&each))
    }

    fn in_worktree(&self, each: &Address) -> bool {
        let step = each.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        step.is_some_and(|step| matches!(&step.action, Action::ForEach(each) if each.worktree))
    }

    /// The run goes on. After its end with what failed, or with items that were let fail and all that came after them.
    fn resumed(&mut self, failed: bool) {
        let Some(outcome) = self.over.take() else { return };
        self.crashed.clear();
        let rewound = self.first_let_fail().filter(|_| failed);
        if let Some((position, at)) = &rewound {
            let root = &self.plan.lists[0];
            let later = (*position + 1..root.steps.len()).map(|at| Address::root().child(root, at));
            for later in later.chain(Part::OF_RUN.map(Address::of_run)).collect::<Vec<_>>() {
                self.forget(|key| *key == later || key.is_inside(&later));
            }
            self.done.remove(at);
            let parts = Part::BESIDE.map(|part| at.part(part));
            self.forget(|key| parts.iter().any(|part| key.is_inside(part)));
        } else if outcome == Outcome::Completed {
            return;
        }
        self.time.went_on = Some(self.time.now);
        let lists: Vec<Address> = self.lists.keys().cloned().collect();
        for at in lists {
            if self.done.get(&at).is_some_and(|done| done.status == Status::Completed) || self.goes_on(&at) {
                continue;
            }
            if let Some(list) = self.lists.get_mut(&at) {
                list.slots = list.parallel;
            }
            let below = self.items.range_mut(at.item(0)..).take_while(|(key, _)| key.is_in_items_of(&at));
            for (_, item) in below {
                if let ItemStage::Over { status: Status::Failed, may_go_on, .. } = &mut item.stage {
                    *may_go_on = true;
                }
            }
        }
    }

    /// Whether a step failed, and its list went on behind it.
    fn goes_on(&self, at: &Address) -> bool {
        let failed = self.done.get(at).is_some_and(|done| done.status == Status::Failed);
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        failed && step.is_some_and(|step| step.continue_on_error)
    }

    /// The first list of the workflow that completed although items of it failed. One whose own lists failed is not
    /// among them: it failed, and the run goes on behind it or ends with it.
    pub(super) fn first_let_fail(&self) -> Option<(usize, Address)> {
        let root = &self.plan.lists[0];
        let steps = (0..root.steps.len()).map(|position| (position, Address::root().child(root, position)));
        steps.into_iter().find(|(position, at)| {
            let is_done = self.done.contains_key(at) && !self.failed(at, root.steps[*position]);
            is_done && root.graph.is_none() && self.items_of(at).any(|(_, item)| item.failed())
        })
    }

    /// Whether a step failed, or a list that belongs to it.
    fn failed(&self, at: &Address, step: StepNumber) -> bool {
        let itself = self.done.get(at).is_some_and(|done| done.status == Status::Failed);
        let list_failed = |part| {
            let Some(number) = self.plan.part(step, part) else { return false };
            let (list, frame) = (&self.plan.lists[number as usize], at.part(part));
            list.steps.iter().enumerate().any(|(position, inner)| {
                let inner_at = frame.child(list, position);
                self.failed(&inner_at, *inner) && !self.went_on(&inner_at, *inner)
            })
        };
        itself || [Part::OnFailure, Part::OnSuccess, Part::Finally].into_iter().any(list_failed)
    }

    /// Whether the list of a failed step goes on behind it: it may, and the run had time left when all of it was done.
    fn went_on(&self, at: &Address, step: StepNumber) -> bool {
        let inside = self.done.iter().filter(|(key, _)| *key == at || key.is_inside(at));
        let last = inside.map(|(_, done)| done).max_by_key(|done| done.seq);
        self.plan.steps[step as usize].step.continue_on_error && last.is_some_and(|done| !done.out_of_time)
    }

    /// Forgets everything at these addresses.
    fn forget(&mut self, goes: impl Fn(&Address) -> bool) {
        self.done.retain(|key, _| !goes(key));
        self.lists.retain(|key, _| !goes(key));
        self.items.retain(|key, _| !goes(key));
        self.announced.retain(|key, _| !goes(key));
        self.started.retain(|key, _| !goes(key));
        self.exchanged.retain(|key, _| !goes(key));
    }

    fn items_of(&self, each: &Address) -> impl Iterator<Item = (&Address, &Item)> {
        let below = self.items.range(each.item(0)..).take_while(|(key, _)| key.is_in_items_of(each));
        below.filter(|(key, _)| key.parent().as_ref() == Some(each))
    }

    /// The end of an item, when it is over.
    pub(super) fn item_over(&self, key: &Address) -> Option<Seq> {
        match self.items.get(key)?.stage {
            ItemStage::Over { seq, .. } => Some(seq),
            _ => None,
        }
    }

    /// How each item ended, and with which attempt.
    pub(super) fn results_of_items(&self) -> BTreeMap<Address, (Status, u32)> {
        let over = |(key, item): (&Address, &Item)| match item.stage {
            ItemStage::Over { status, .. } => Some((key.clone(), (status, item.attempt))),
            _ => None,
        };
        self.items.iter().filter_map(over).collect()
    }

    /// An execution as its fate knows it: another one each time that an item around it begins again.
    pub(super) fn fated(&self, at: &Address) -> Fated {
        Fated::new(at, |key| self.items.get(key).map_or(0, |item| item.begun))
    }

    /// The items of a list are counted as they ended, and all that could have begun did.
    pub(super) fn counted(&self, at: &Address, counts: Counts, is_cut_short: bool) -> Result<(), String> {
        let own = self.count(at)?;
        if own != counts {
            return Err(format!("`{at}` counts {counts:?}, there are {own:?}"));
        }
        let stops = self.lists.get(at).is_some_and(|list| list.rules.stops_after(own.failed));
        if own.left() > 0 && !stops && !is_cut_short {
            return Err(format!("`{at}` is over, and {} items have not begun", own.left()));
        }
        Ok(())
    }

    /// How the items of a list ended, which all have.
    pub(super) fn count(&self, at: &Address) -> Result<Counts, String> {
        let Some(list) = self.lists.get(at) else { return Err(format!("`{at}` has no list")) };
        let mut own = Counts { total: list.count, ..Counts::default() };
        for (key, item) in self.items_of(at) {
            match item.stage {
                ItemStage::Over { status: Status::Completed, .. } => own.successful += 1,
                ItemStage::Over { status: Status::Skipped, .. } => own.skipped += 1,
                ItemStage::Over { may_go_on: false, .. } => own.failed += 1,
                _ => return Err(format!("`{at}` is over before `{key}` is")),
            }
        }
        Ok(own)
    }

    /// A step sees its item as it is: in this attempt, with the error of the one before.
    pub(super) fn sees(&mut self, at: &Address, view: ItemView) -> Result<(), String> {
        let inner = items_outside(at).last().and_then(|key| Some((key.as_item()?, key)));
        let Some(((each, index), key)) = inner else { return Err(format!("`{at}` is in no item")) };
        let (attempt, error) = match self.items.get(&key) {
            // It begins with this step.
            None => (1, None),
            Some(Item { attempt, error, stage: ItemStage::Over { .. }, .. }) => (attempt + 1, *error),
            Some(item) => (item.attempt, item.error),
        };
        let list = self.lists.get(&each).map(|list| (list.seq, list.parallel));
        let error = error.filter(|_| attempt > 1);
        let fits = (view.attempt, view.error) == (attempt, error)
            && list.is_some_and(|(seq, parallel)| view.item.list == seq && view.runner < parallel)
            && view.item.index == index;
        if !fits {
            return Err(format!("`{at}` sees {view:?} in attempt {attempt}, error {error:?}"));
        }
        self.runs(&key, view.runner)
    }

    /// Nobody else runs an item, and nobody runs two of a list.
    pub(super) fn runs(&mut self, key: &Address, runner: u64) -> Result<(), String> {
        let Some((each, _)) = key.as_item() else { return Err(format!("`{key}` is no item")) };
        let same = |(other, item): &(&Address, &Item)| *other != key && item.runner == Some(runner);
        if let Some((other, _)) = self.items_of(&each).find(same) {
            return Err(format!("runner {runner} has `{other}` and `{key}`"));
        }
        let Some(item) = self.items.get_mut(key) else { return Ok(()) };
        match item.runner.replace(runner) {
            Some(other) if other != runner => Err(format!("`{key}` is run by {runner}, and was by {other}")),
            _ => Ok(()),
        }
    }

    /// Whether an execution is in a list that belongs to the end of something which went on since.
    pub(super) fn ended_anew(&self, at: &Address) -> bool {
        let went_on = |owner: &Address, list: &Address| {
            let within = |other: &Address| other == owner || other.is_inside(owner);
            self.since.iter().any(|other| within(other) && !other.is_inside(list))
        };
        let lists = at.lineage().filter(|outer| outer != at);
        lists.filter_map(|list| Some((list.parent()?, list))).any(|(owner, list)| {
            let ends = matches!(list.as_part(), Some(Part::OnFailure | Part::Finally));
            (ends || Part::OF_RUN.map(Address::of_run).contains(&list)) && went_on(&owner, &list)
        })
    }
}

/// The items that an execution stands in, the outermost first.
pub(super) fn items_outside(at: &Address) -> impl Iterator<Item = Address> {
    at.items_around().filter(move |item| item != at)
}
