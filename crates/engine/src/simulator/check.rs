//! What must be true of every run, checked event by event from the journal alone, without asking the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use threadline_flow::fields::field_names as names;
use threadline_flow::model::OnCrash;
use threadline_flow::plan::{Graph, ListNumber, Part, Plan};
use threadline_lang::Value;

use super::Execution;
use super::chance::{Fated, number_in};
use super::effects::UnrecordedEffects;
use super::facts::{Done, Facts, items_outside};
use crate::event::{Address, Datum, Event, EventKind, Output, SafeEvents, Seq, Status};
use crate::machine::{Counts, ENDS_AHEAD, InvalidEvent, Outcome, Task};
use crate::memory::{MemoryJournal, MissingValue};
use crate::replay::output_of;
use crate::view::{ItemRef, View};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// After which event.
    pub seq: Seq,
    /// What happened, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after event {}: {}", self.seq, self.what)
    }
}

impl From<InvalidEvent> for Violation {
    fn from(misfit: InvalidEvent) -> Self {
        Self { seq: misfit.seq, what: format!("the machine refuses it: {}", misfit.why) }
    }
}

pub(super) type PromiseCheck = Result<(), Violation>;

/// Watches a run from outside.
pub(super) struct PromiseChecker {
    pub(super) plan: Arc<Plan>,
    pub(super) facts: Facts,
    pub(super) performed: UnrecordedEffects,
    /// Whether programs that were under way at a crash went on elsewhere.
    pub(super) finds_programs: bool,
    last: Seq,
    /// Every attempt that was made, and after which end of the run.
    executions: Vec<(Execution, Option<Seq>)>,
    /// The attempts of this life that acted.
    acted: Vec<(Address, u32)>,
    /// The items of which attempts were made and whose end was not on disk when last looked at, and whether any of those
    /// did something in the world.
    exposed: BTreeMap<Address, bool>,
    /// The lives that ended while something ran.
    abrupt: BTreeSet<usize>,
    failed_by_crash: bool,
}

impl PromiseChecker {
    pub(super) fn new(plan: Arc<Plan>, finds_programs: bool) -> Self {
        Self {
            finds_programs,
            facts: Facts::new(Arc::clone(&plan)),
            plan,
            performed: UnrecordedEffects::default(),
            last: 0,
            executions: Vec::new(),
            acted: Vec::new(),
            exposed: BTreeMap::new(),
            abrupt: BTreeSet::new(),
            failed_by_crash: false,
        }
    }

    /// An event is about to be appended while everything up to `durable` is on disk.
    pub(super) fn event(&mut self, event: &Event, durable: Seq) -> PromiseCheck {
        self.last = event.seq;
        let at = &event.at;
        let violation = |what| Violation { seq: event.seq, what };
        self.facts.enter(at).map_err(violation)?;
        if let EventKind::Expanded { .. } = event.kind {
            self.exposed.retain(|item, _| !item.is_in_items_of(at));
        }
        match &event.kind {
            EventKind::Decided { as_of, .. }
            | EventKind::Skipped { as_of, .. }
            | EventKind::Expanded { as_of, .. }
            | EventKind::Unresolved { as_of, .. }
            | EventKind::Started { as_of, .. } => {
                let acts = self.acts(event);
                self.not(acts && *as_of > durable, || {
                    format!("`{at}` acts on event {as_of}, which is not on disk")
                })?;
                self.in_order(at)?;
                self.not_done(at)?;
            }
            EventKind::Finished { .. } => {
                self.in_order(at)?;
                self.not_done(at)?;
            }
            _ => {}
        }
        self.recorded(event)?;
        self.facts.take(event).map_err(violation)
    }

    /// An attempt is really made.
    pub(super) fn execute(
        &mut self,
        execution: Execution,
        acts: bool,
        safe: SafeEvents,
        in_flight: Option<OnCrash>,
    ) -> PromiseCheck {
        let Execution { at, fated, attempt, exchange, life } = &execution;
        self.not_done(at)?;
        self.not(self.facts.crashed.contains(at), || {
            format!("`{at}` is made again after it was running at a crash and failed for that")
        })?;
        let announced = self.facts.announced.get(at).copied().unwrap_or(0);
        self.not(announced > safe.durable, || {
            format!("attempt {attempt} of `{at}` begins because of event {announced}, which is not on disk")
        })?;
        // What an agent said and the journal keeps is not asked for again, and nothing is left out.
        let (said, last) = self.facts.exchanged.get(at).copied().unwrap_or_default();
        self.not(*exchange != said, || {
            format!("`{at}` asks for exchange {exchange} of attempt {attempt}, and {said} are recorded")
        })?;
        self.not(last > safe.durable, || {
            format!("`{at}` asks again because of event {last}, which is not on disk")
        })?;
        self.expose(at, acts, safe)?;
        let ended = self.facts.ended;
        let is_same = |known: &Execution| {
            known.fated == *fated && known.attempt == *attempt && known.exchange == *exchange
        };
        let earlier = self.executions.iter().filter(|(known, end)| is_same(known) && *end == ended);
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        let on_crash = step.map(|step| self.plan.workflow.on_crash(step));
        for (known, _) in earlier {
            self.not(known.life == *life, || format!("attempt {attempt} of `{at}` is made twice"))?;
            let calm = !self.abrupt.contains(&known.life);
            self.not(calm, || format!("attempt {attempt} of `{at}` is made again without a crash"))?;
            let wanted = in_flight.or(on_crash) == Some(OnCrash::Rerun) || self.facts.is_recalled(at);
            self.not(!wanted, || {
                format!("attempt {attempt} of `{at}` is made again against its `on_crash`")
            })?;
        }
        if acts {
            self.acted.push((at.clone(), *attempt));
        }
        self.executions.push((execution, ended));
        Ok(())
    }

    /// An attempt is made for the items around it. A kill repeats all items that acted and whose end is not written: of
    /// a list never more than run at once. A power loss also repeats those whose end is not on disk: some more.
    fn expose(&mut self, at: &Address, acts: bool, safe: SafeEvents) -> PromiseCheck {
        let facts = &self.facts;
        self.exposed.retain(|item, _| facts.item_over(item).is_none_or(|end| end > safe.durable));
        for item in at.items_around() {
            *self.exposed.entry(item).or_default() |= acts;
        }
        for (list, _) in at.items_around().filter_map(|item| item.as_item()) {
            let of_list =
                |(item, _): &(&Address, &bool)| item.as_item().is_some_and(|(each, _)| each == list);
            let is_lost_by_kill = |(item, acted): &(&Address, &bool)| {
                **acted && self.facts.item_over(item).is_none_or(|end| end > safe.written)
            };
            let unwritten = self.exposed.iter().filter(of_list).filter(is_lost_by_kill).count() as u64;
            let exposed = self.exposed.iter().filter(of_list).count() as u64;
            let parallel = self.facts.lists.get(&list).map_or(0, |list| list.parallel);
            let steps = list.step(&self.plan).and_then(|step| self.plan.part(step, Part::Do));
            let acts = parallel == 1 || steps.is_some_and(|steps| self.plan.acts(steps));
            self.not(acts && unwritten > parallel, || {
                format!("with `{at}` a kill repeats {unwritten} items of `{list}`, {parallel} run at once")
            })?;
            let ahead = if parallel > 1 { ENDS_AHEAD as u64 } else { 0 };
            self.not(acts && exposed > parallel + ahead, || {
                format!(
                    "with `{at}` a power loss repeats {exposed} items of `{list}`, {parallel} run at once"
                )
            })?;
        }
        Ok(())
    }

    /// These executions are under way, or about to be.
    pub(super) fn under_way<'a>(&self, flight: impl Iterator<Item = &'a Address>) -> PromiseCheck {
        let flight: BTreeSet<&Address> = flight.collect();
        let mut places: BTreeMap<Address, Address> = BTreeMap::new();
        let mut items: BTreeMap<Address, BTreeSet<u64>> = BTreeMap::new();
        for at in flight.iter().copied() {
            if let Some(item) = items_outside(at).find(|item| flight.contains(item)) {
                return self.not(true, || format!("`{item}` is at its end while `{at}` is under way"));
            }
            for (list, step) in Self::positions(at) {
                let graph = self.is_graph(&list);
                let other = places.entry(list).or_insert_with(|| step.clone());
                self.not(*other != step && !graph, || {
                    format!("`{other}` and `{step}` of one list are under way at once")
                })?;
                self.not(step != *at && flight.contains(&step), || {
                    format!("`{step}` and its part `{at}` are under way at once")
                })?;
            }
            for (each, index) in at.items_around().filter_map(|item| item.as_item()) {
                items.entry(each).or_default().insert(index);
            }
        }
        for (at, items) in items {
            let parallel = self.facts.lists.get(&at).map_or(0, |list| list.parallel);
            self.not(items.len() as u64 > parallel, || {
                format!("{} items of `{at}` are under way, {parallel} may be", items.len())
            })?;
        }
        Ok(())
    }

    /// A life ended while something ran.
    pub(super) fn abrupt(&mut self, life: usize) {
        self.abrupt.insert(life);
    }

    /// The program was killed, and this is left of the journal: it knows every attempt that acted.
    pub(super) fn starts_are_known(&self, journal: &[Event]) -> PromiseCheck {
        let start = |event: &'_ Event| match event.kind {
            EventKind::Started { attempt, .. } => Some((event.at.clone(), attempt)),
            _ => None,
        };
        let known: BTreeSet<(Address, u32)> = journal.iter().filter_map(start).collect();
        match self.acted.iter().find(|acted| !known.contains(acted)) {
            Some((at, attempt)) => self.not(true, || {
                format!("attempt {attempt} of `{at}` acted, and the journal knows nothing of it")
            }),
            None => Ok(()),
        }
    }

    /// This is left of the journal.
    pub(super) fn crashed(&mut self, journal: &[Event]) {
        self.facts = Facts::new(Arc::clone(&self.plan));
        self.performed = UnrecordedEffects::default();
        self.acted.clear();
        for event in journal {
            // It was checked when it happened.
            let _ = self.facts.take(event);
        }
    }

    pub(super) fn fails_by_crash(&mut self) {
        self.failed_by_crash = true;
    }

    pub(super) fn failed_by_crash(&self) -> bool {
        self.failed_by_crash
    }

    pub(super) fn into_executions(self) -> Vec<Execution> {
        self.executions.into_iter().map(|(execution, _)| execution).collect()
    }

    /// How each execution ended, and with which value.
    pub(super) fn results(&self, journal: &[Event]) -> BTreeMap<Address, (Status, i64)> {
        let result = |(at, done): (&Address, &Done)| (at.clone(), (done.status, value_of(journal, done.seq)));
        self.facts.done.iter().map(result).collect()
    }

    /// How each item ended, and with which attempt.
    pub(super) fn results_of_items(&self) -> BTreeMap<Address, (Status, u32)> {
        self.facts.results_of_items()
    }

    /// An execution as its fate knows it.
    pub(super) fn fated(&self, at: &Address) -> Fated {
        self.facts.fated(at)
    }

    /// Whether items of the workflow were let fail.
    pub(super) fn has_tolerated_failures(&self) -> bool {
        self.facts.first_let_fail().is_some()
    }

    /// An item is at its end, and this one runs it.
    pub(super) fn runs(&mut self, at: &Address, runner: u64) -> PromiseCheck {
        self.facts.runs(at, runner).or_else(|what| self.not(true, || what))
    }

    /// The items of a list are counted.
    pub(super) fn counted(&self, at: &Address, counts: Counts, is_cut_short: bool) -> PromiseCheck {
        self.facts.counted(at, counts, is_cut_short).or_else(|what| self.not(true, || what))
    }

    /// A step reads what had happened when it became ready, as it is now: nothing that it left itself, nothing of another
    /// item, and nothing that was done again since.
    pub(super) fn reads(&mut self, task: &Task, view: &View, journal: &[Event]) -> PromiseCheck {
        let Task { at, as_of, .. } = task;
        if let Some(item) = view.item {
            self.facts.sees(at, item).or_else(|what| self.not(true, || what))?;
        }
        for seq in view.sources() {
            self.not(seq > *as_of, || format!("`{at}` reads event {seq}, and was ready at event {as_of}"))?;
            let event = MemoryJournal(journal).event(seq)?;
            // What a state left is read when it is judged.
            let is_own = event.at == *at && view.result != Some(seq);
            self.not(is_own, || format!("`{at}` reads what it left itself at event {seq}"))?;
            if output_of(event).is_none() {
                continue;
            }
            let current = self.facts.done.get(&event.at).is_some_and(|done| done.seq == seq);
            self.not(!current, || format!("`{at}` reads event {seq} of `{}`, which is past", event.at))?;
            let other = items_outside(&event.at).find(|item| !at.is_inside(item));
            self.not(other.is_some(), || format!("`{at}` reads event {seq} of `{}`", event.at))?;
        }
        Ok(())
    }

    /// The run is over: every list that had to run did so, once for each time that it had to.
    pub(super) fn ended(&self, journal: &[Event], outcome: Outcome) -> PromiseCheck {
        self.threads_grow(journal)?;
        let root = &self.plan.lists[0];
        let walks = self.plan.states.is_some();
        let undone = (0..if walks { 0 } else { root.steps.len() })
            .map(|position| Address::root().child(root, position))
            .find(|at| !self.facts.done.contains_key(at));
        if let (Some(at), Outcome::Completed) = (undone, outcome) {
            return self.not(true, || format!("the run completed without `{at}`"));
        }
        let mut finished: BTreeMap<&Address, (u64, u64)> = BTreeMap::new();
        let mut concluded: BTreeMap<&Address, u64> = BTreeMap::new();
        let mut ends = 0;
        for event in journal {
            match &event.kind {
                EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                    let counts = finished.entry(&event.at).or_default();
                    let well = output.status == Status::Completed;
                    *(if well { &mut counts.0 } else { &mut counts.1 }) += 1;
                    *concluded.entry(&event.at).or_default() += 1;
                }
                EventKind::Skipped { .. } => *concluded.entry(&event.at).or_default() += 1,
                EventKind::RunEnded { .. } => ends += 1,
                _ => {}
            }
        }
        let times = |list: &Address, number: ListNumber| {
            let first = list.child(&self.plan.lists[number as usize], 0);
            concluded.get(&first).copied().unwrap_or(0)
        };
        for (at, (well, failed)) in finished {
            let Some(step) = at.step(&self.plan) else {
                return self.not(true, || format!("there is no step `{at}`"));
            };
            let is_fixed = self.plan.part(step, Part::Fix).is_some();
            for (part, list) in &self.plan.steps[step as usize].parts {
                let wanted = match part {
                    Part::Do => continue,
                    Part::Fix | Part::OnFailure => failed,
                    Part::OnSuccess => well,
                    Part::Finally => well + failed,
                };
                let ran = times(&at.part(*part), *list);
                // A list that failed is gone on with, so after a resume its first step may have run once more.
                let fits = match (is_fixed, ends) {
                    // Which failures were followed by another attempt depends on how many there were.
                    (true, _) => ends > 1 || ran <= wanted,
                    (false, 1) => ran == wanted,
                    (false, _) => ran >= wanted,
                };
                self.not(!fits, || {
                    format!("`{}` of `{at}` ran {ran} times instead of {wanted}", part.key())
                })?;
            }
        }
        let ran = |part: Part| self.plan.run_part(part).map(|list| times(&Address::of_run(part), list));
        let last = ran(Part::Finally);
        let fits = |ran: u64| ran == ends || ends > 1 && (1..=ends).contains(&ran);
        self.not(last.is_some_and(|ran| !fits(ran)), || {
            format!("the last steps ran {last:?} times for {ends} ends")
        })?;
        // How the steps ended is known of a run that ended once and whose last lists did well.
        let (after_failure, after_success) = (ran(Part::OnFailure), ran(Part::OnSuccess));
        let wrong = match self.facts.outcome {
            Some((Outcome::Failed, _)) if ends == 1 => after_failure == Some(0) || after_success > Some(0),
            Some((Outcome::Completed, _)) if ends == 1 => after_success == Some(0) || after_failure > Some(0),
            Some((Outcome::Stopped, _)) if ends == 1 => after_success.max(after_failure) > Some(0),
            _ => false,
        };
        self.not(wrong, || {
            let steps = self.facts.outcome;
            format!(
                "`on_failure` ran {after_failure:?} times, `on_success` {after_success:?} after {steps:?}"
            )
        })
    }

    /// Each step that continues a thread adds its message and its answer to what was said before: nothing is lost by a
    /// crash, and nothing is said twice.
    fn threads_grow(&self, journal: &[Event]) -> PromiseCheck {
        let mut said: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for event in journal {
            let EventKind::Finished { output, .. } = &event.kind else { continue };
            let Some(thread) = &output.thread else { continue };
            let Datum::Here(conversation) = &thread.conversation else { continue };
            let messages = conversation.get("messages").and_then(Value::as_list).unwrap_or_default();
            let before = said.entry(thread.name.as_str()).or_default();
            let has_grown = messages.len() == before.len() + 2 && messages.starts_with(before);
            self.not(!has_grown, || {
                format!("`{}` leaves {} messages in a thread of {}", event.at, messages.len(), before.len())
            })?;
            *before = messages.to_vec();
        }
        Ok(())
    }

    /// The steps of the run have ended as this list wants it, and so has the list before it.
    fn run_part_in_order(&self, at: &Address, part: Part) -> PromiseCheck {
        if !self.plan.records_outcome() {
            return Ok(());
        }
        let Some((outcome, known)) = self.facts.outcome else {
            return self.not(true, || format!("`{at}` runs before the outcome of the run is known"));
        };
        let wanted = match outcome {
            Outcome::Failed => Some(Part::OnFailure),
            Outcome::Completed => Some(Part::OnSuccess),
            Outcome::Stopped => None,
        };
        if part != Part::Finally {
            return self.not(wanted != Some(part), || format!("`{at}` runs, the run is {}", outcome.name()));
        }
        let Some((handler, list)) = wanted.and_then(|part| Some((part, self.plan.run_part(part)?))) else {
            return Ok(());
        };
        let first = Address::of_run(handler).child(&self.plan.lists[list as usize], 0);
        let has_run = self.facts.done.get(&first).is_some_and(|done| done.seq > known);
        self.not(!has_run, || format!("`{at}` runs before `{}` of the run", handler.key()))
    }

    /// The outcome of the run is that of its steps: what failed is named, and whatever is named has failed.
    pub(super) fn outcome_fits(&self, outcome: Outcome, run: &Datum) -> PromiseCheck {
        let Datum::Here(run) = run else { return self.not(true, || "an outcome is not here".to_owned()) };
        let text = |name: &str| run.get(name).and_then(Value::as_str);
        self.not(text(names::STATUS) != Some(outcome.name()), || format!("{run:?} is {}", outcome.name()))?;
        let failed = run.get(names::FAILED).and_then(Value::as_list).unwrap_or_default();
        let has_error = text(names::ERROR).is_some();
        let is_well = outcome == Outcome::Completed;
        self.not(has_error == is_well || is_well && !failed.is_empty(), || format!("an outcome is {run:?}"))?;
        for entry in failed {
            let step = entry.get(names::STEP).and_then(Value::as_str).unwrap_or_default();
            let is_it = |(at, done): (&Address, &Done)| {
                at.shown(&self.plan) == step && (done.status == Status::Failed || self.facts.stuck.is_some())
            };
            let has_failed = self.facts.done.iter().any(is_it)
                || self.facts.stuck.as_ref().is_some_and(|at| at.as_str() == step)
                || self.facts.results_of_items().iter().any(|(at, _)| at.as_str() == step);
            self.not(!has_failed, || format!("`{step}` is named in the outcome, and has not failed"))?;
        }
        Ok(())
    }

    /// The step before it in its list is done, and whatever it is a part of is where it should be.
    fn in_order(&self, at: &Address) -> PromiseCheck {
        let list = at.parent().unwrap_or_default();
        if list.is_root() && self.plan.is_map_reduce() {
            return self.phase_in_order(at);
        }
        if let Some(part) = list.run_part().filter(|part| list == Address::of_run(*part)) {
            self.run_part_in_order(at, part)?;
        }
        let position = at.position();
        if self.is_graph(&list) {
            return self.has_waited(at);
        }
        if let (Some(before), Some(step)) = (position.and_then(|at| at.checked_sub(1)), at.step(&self.plan)) {
            let around = self.plan.steps[step as usize].list;
            let before = list.child(&self.plan.lists[around as usize], before);
            let done = self.facts.done.get(&before);
            self.not(done.is_none(), || format!("`{at}` begins before `{before}` is done"))?;
            let step = before.step(&self.plan);
            let goes_on = step.is_some_and(|step| self.plan.steps[step as usize].step.continue_on_error);
            let failed = done.is_some_and(|done| done.status == Status::Failed);
            self.not(failed && !goes_on, || format!("`{at}` runs although `{before}` failed"))?;
        }
        if let Some((each, index)) = list.as_item() {
            let count = self.facts.lists.get(&each).map_or(0, |list| list.count);
            return self.not(index >= count, || format!("`{each}` has {count} items and not item {index}"));
        }
        let Some((owner, part)) = list.parent().zip(list.as_part()) else {
            return self.phase_in_order(&list);
        };
        let status = self.facts.done.get(&owner).map(|done| done.status);
        let fits = match status {
            Some(Status::Completed) => !matches!(part, Part::OnFailure | Part::Fix),
            Some(Status::Failed) => part != Part::OnSuccess,
            _ => false,
        };
        self.not(!fits, || format!("`{at}` runs while `{owner}` is {:?}", status.map(Status::name)))
    }

    /// The phase before a phase completed.
    fn phase_in_order(&self, phase: &Address) -> PromiseCheck {
        let position = phase.outermost_position(&self.plan).filter(|_| self.plan.is_map_reduce());
        let Some(before) = position.and_then(|position| position.checked_sub(1)) else { return Ok(()) };
        let before = Address::root().child(&self.plan.lists[0], before);
        let completed = self.facts.done.get(&before).is_some_and(|done| done.status == Status::Completed);
        self.not(!completed, || format!("`{phase}` begins before `{before}` completed"))
    }

    /// Whether the steps of a list do not run one after the other.
    fn is_graph(&self, list: &Address) -> bool {
        list.is_root() && self.plan.lists[0].graph.is_some()
    }

    /// The lists that an execution stands in, the outermost first, each with its step there.
    fn positions(at: &Address) -> impl Iterator<Item = (Address, Address)> {
        at.lineage().filter_map(|step| {
            let list = step.parent()?;
            step.step_in(&list).map(|step| (list, step))
        })
    }

    /// Every node that a node waits for is done.
    fn has_waited(&self, at: &Address) -> PromiseCheck {
        let graph = self.plan.lists[0].graph.as_ref();
        let at_position = |graph: &Graph| {
            let node = graph.nodes.get(at.position()?)?;
            node.sources()
                .map(|source| Address::root().child(&self.plan.lists[0], source))
                .find(|source| !self.facts.done.contains_key(source))
        };
        match graph.and_then(at_position) {
            Some(source) => self.not(true, || format!("`{at}` begins before `{source}` is done")),
            None => Ok(()),
        }
    }

    /// A finished step never runs again. When a run that failed goes on, what failed does, and the lists that belong
    /// to an end which did not last.
    fn not_done(&self, at: &Address) -> PromiseCheck {
        let Some(done) = self.facts.done.get(at) else { return Ok(()) };
        let over = self.facts.ended.is_some_and(|ended| done.seq < ended);
        // A node that was skipped because of a failure may run when that is put right.
        let skipped = done.status == Status::Skipped
            && self.is_graph(&Address::root())
            && at.position().is_some()
            && at.parent() == Some(Address::root());
        // No route led on from a state: it is done again, however well its action went.
        let stuck = self.facts.stuck.as_ref() == Some(at);
        let again = done.status == Status::Failed || skipped || stuck || self.facts.ended_anew(at);
        let is_mended = self.facts.was_mended(at) || self.mends_again_since(at, done.seq);
        self.not(!(over && again || is_mended), || {
            format!("`{at}` runs again, it was done at event {}", done.seq)
        })
    }

    /// Whether an execution stands between two attempts of a step of which another one failed since an event.
    fn mends_again_since(&self, at: &Address, seq: Seq) -> bool {
        let lists = at.lineage().filter(|list| list.as_part() == Some(Part::Fix));
        let owners = lists.filter_map(|list| list.parent());
        owners.filter_map(|owner| self.facts.done.get(&owner)).any(|done| done.seq > seq)
    }

    pub(super) fn not(&self, broken: bool, what: impl FnOnce() -> String) -> PromiseCheck {
        if broken { Err(Violation { seq: self.last, what: what() }) } else { Ok(()) }
    }
}

impl From<MissingValue> for Violation {
    fn from(MissingValue(seq): MissingValue) -> Self {
        Self { seq, what: "it does not hold what is read of it".to_owned() }
    }
}

/// The value that an event recorded.
pub(super) fn value_of(journal: &[Event], seq: Seq) -> i64 {
    MemoryJournal(journal).event(seq).ok().and_then(output_of).map_or(0, number_of)
}

/// An element of the list that an event recorded.
pub(super) fn item_of(journal: &[Event], item: ItemRef) -> i64 {
    MemoryJournal(journal).element(item).ok().and_then(Value::as_i64).unwrap_or(0)
}

fn number_of(output: &Output) -> i64 {
    match (&output.value, output.status) {
        (_, Status::Skipped) => -2,
        (Datum::Here(value), _) => number_in(value).unwrap_or(-1),
        (Datum::Stored { .. }, _) => -1,
    }
}
