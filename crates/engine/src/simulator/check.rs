//! What must be true of every run, checked event by event from the journal alone, without asking the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::OnCrash;
use threadline_flow::plan::{Graph, Part, Plan};
use threadline_lang::Value;

use super::Execution;
use super::facts::{Done, Facts, items_around};
use crate::event::{Address, Datum, Event, EventKind, Listed, Output, Seq, Status};
use crate::machine::{Counts, InvalidEvent, Outcome};
use crate::replay::output_of;
use crate::view::View;

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

type Checked = Result<(), Violation>;

/// Watches a run from outside.
pub(super) struct Checker {
    plan: Arc<Plan>,
    facts: Facts,
    last: Seq,
    /// Every attempt that was made, and after which end of the run.
    executions: Vec<(Execution, Option<Seq>)>,
    /// The lives that ended while something ran.
    abrupt: BTreeSet<usize>,
    failed_by_crash: bool,
}

impl Checker {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self {
            facts: Facts::new(Arc::clone(&plan)),
            plan,
            last: 0,
            executions: Vec::new(),
            abrupt: BTreeSet::new(),
            failed_by_crash: false,
        }
    }

    /// An event is about to be appended while everything up to `durable` is on disk.
    pub(super) fn event(&mut self, event: &Event, durable: Seq) -> Checked {
        self.last = event.seq;
        let at = &event.at.0;
        let violation = |what| Violation { seq: event.seq, what };
        self.facts.enter(at).map_err(violation)?;
        match &event.kind {
            EventKind::Decided { as_of, .. }
            | EventKind::Skipped { as_of, .. }
            | EventKind::Expanded { as_of, .. }
            | EventKind::Unresolved { as_of, .. }
            | EventKind::Started { as_of, .. } => {
                self.not(*as_of > durable, || format!("`{at}` acts on event {as_of}, which is not on disk"))?;
                self.in_order(at)?;
                self.not_done(at)?;
            }
            EventKind::Finished { .. } => {
                self.in_order(at)?;
                self.not_done(at)?;
            }
            _ => {}
        }
        self.facts.take(event).map_err(violation)
    }

    /// An attempt is really made.
    pub(super) fn execute(
        &mut self,
        execution: Execution,
        durable: Seq,
        in_flight: Option<OnCrash>,
    ) -> Checked {
        let Execution { at, fated, attempt, life } = &execution;
        self.not_done(&at.0)?;
        let announced = self.facts.announced.get(&at.0).copied().unwrap_or(0);
        self.not(announced > durable, || {
            format!("attempt {attempt} of `{at}` begins because of event {announced}, which is not on disk")
        })?;
        if let Some(late) = self.item_before(&at.0).filter(|seq| *seq > durable) {
            return self
                .not(true, || format!("`{at}` begins before event {late} of the item before is on disk"));
        }
        let ended = self.facts.ended;
        let same = |known: &Execution| known.fated == *fated && known.attempt == *attempt;
        let earlier = self.executions.iter().filter(|(known, end)| same(known) && *end == ended);
        let on_crash = at.step(&self.plan).map(|step| self.plan.steps[step as usize].step.on_crash);
        for (known, _) in earlier {
            self.not(known.life == *life, || format!("attempt {attempt} of `{at}` is made twice"))?;
            let calm = !self.abrupt.contains(&known.life);
            self.not(calm, || format!("attempt {attempt} of `{at}` is made again without a crash"))?;
            let wanted = in_flight.or(on_crash) == Some(OnCrash::Rerun);
            self.not(!wanted, || {
                format!("attempt {attempt} of `{at}` is made again against its `on_crash`")
            })?;
        }
        self.executions.push((execution, ended));
        Ok(())
    }

    /// The last event of the item before, where items run one after the other.
    fn item_before(&self, at: &str) -> Option<Seq> {
        let before = at.match_indices('[').filter_map(|(bracket, _)| {
            let (each, rest) = at.split_at(bracket);
            let index: u64 = rest[1..].split(']').next()?.parse().ok()?;
            let alone = self.facts.lists.get(each).is_some_and(|list| list.parallel == 1);
            let before = format!("{each}[{}]", index.checked_sub(1).filter(|_| alone)?);
            let prefix = format!("{before}/");
            let done = self.facts.done.iter().filter(|(at, _)| at.starts_with(&prefix));
            done.map(|(_, done)| done.seq).chain(self.facts.item_over(&before)).max()
        });
        before.max()
    }

    /// These executions are under way, or about to be.
    pub(super) fn under_way<'a>(&self, flight: impl Iterator<Item = &'a Address>) -> Checked {
        let flight: BTreeSet<&str> = flight.map(|at| at.0.as_str()).collect();
        let mut places: BTreeMap<&str, &str> = BTreeMap::new();
        let mut items: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for at in &flight {
            if let Some(item) = items_around(at).find(|item| flight.contains(item)) {
                return self.not(true, || format!("`{item}` is at its end while `{at}` is under way"));
            }
            for (list, position) in self.positions(at) {
                let other = *places.entry(list).or_insert(position);
                self.not(other != position && !self.is_graph(list), || {
                    format!("steps {other} and {position} of the list `{list}` are under way at once")
                })?;
                let own = &at[..list.len() + position.len()];
                self.not(own.len() < at.len() && flight.contains(own), || {
                    format!("`{own}` and its part `{at}` are under way at once")
                })?;
            }
            for (bracket, _) in at.match_indices('[') {
                let index = at[bracket + 1..].split(']').next().unwrap_or_default();
                items.entry(&at[..bracket]).or_default().insert(index);
            }
        }
        for (at, items) in items {
            let parallel = self.facts.lists.get(at).map_or(0, |list| list.parallel);
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

    /// This is left of the journal.
    pub(super) fn crashed(&mut self, journal: &[Event]) {
        self.facts = Facts::new(Arc::clone(&self.plan));
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
        let result = |(at, done): (&EcoString, &Done)| {
            (Address(at.clone()), (done.status, value_of(journal, done.seq)))
        };
        self.facts.done.iter().map(result).collect()
    }

    /// How each item ended, and with which attempt.
    pub(super) fn results_of_items(&self) -> BTreeMap<Address, (Status, u32)> {
        self.facts.results_of_items()
    }

    /// An execution as its fate knows it.
    pub(super) fn fated(&self, at: &Address) -> Address {
        self.facts.fated(at)
    }

    /// Whether items of the workflow were let fail.
    pub(super) fn let_items_fail(&self) -> bool {
        self.facts.first_let_fail().is_some()
    }

    /// An item is at its end, and this one runs it.
    pub(super) fn runs(&mut self, at: &Address, runner: u64) -> Checked {
        self.facts.runs(&at.0, runner).or_else(|what| self.not(true, || what))
    }

    /// The items of a list are counted.
    pub(super) fn counted(&self, at: &Address, counts: Counts) -> Checked {
        self.facts.counted(&at.0, counts).or_else(|what| self.not(true, || what))
    }

    /// A step reads what is known, as it is now: nothing of another item, and nothing that was done again since.
    pub(super) fn reads(&mut self, at: &Address, view: &View, journal: &[Event]) -> Checked {
        if let Some(item) = view.item {
            self.facts.sees(at, item).or_else(|what| self.not(true, || what))?;
        }
        for seq in view.sources() {
            let event = usize::try_from(seq).ok().and_then(|seq| journal.get(seq.checked_sub(1)?));
            let Some(event) = event.filter(|event| output_of(event).is_some()) else { continue };
            let current = self.facts.done.get(&event.at.0).is_some_and(|done| done.seq == seq);
            self.not(!current, || format!("`{at}` reads event {seq} of `{}`, which is past", event.at))?;
            let other = items_around(&event.at.0).find(|item| !items_around(&at.0).any(|own| own == *item));
            self.not(other.is_some(), || format!("`{at}` reads event {seq} of `{}`", event.at))?;
        }
        Ok(())
    }

    /// The run is over: every list that had to run did so, once for each time that it had to.
    pub(super) fn ended(&self, journal: &[Event], outcome: Outcome) -> Checked {
        let root = &self.plan.lists[0];
        let walks = self.plan.states.is_some();
        let undone = (0..if walks { 0 } else { root.steps.len() })
            .map(|position| root.word(position))
            .find(|at| !self.facts.done.contains_key(at));
        if let (Some(at), Outcome::Completed) = (undone, outcome) {
            return self.not(true, || format!("the run completed without `{at}`"));
        }
        let mut finished: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut concluded: BTreeMap<&str, u64> = BTreeMap::new();
        let mut ends = 0;
        for event in journal {
            match &event.kind {
                EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                    let counts = finished.entry(&event.at.0).or_default();
                    let well = output.status == Status::Completed;
                    *(if well { &mut counts.0 } else { &mut counts.1 }) += 1;
                    *concluded.entry(&event.at.0).or_default() += 1;
                }
                EventKind::Skipped { .. } => *concluded.entry(&event.at.0).or_default() += 1,
                EventKind::RunEnded { .. } => ends += 1,
                _ => {}
            }
        }
        let times = |first: &str| concluded.get(first).copied().unwrap_or(0);
        for (at, (well, failed)) in finished {
            let Some(step) = Address(at.into()).step(&self.plan) else {
                return self.not(true, || format!("there is no step `{at}`"));
            };
            for (part, _) in &self.plan.steps[step as usize].parts {
                let wanted = match part {
                    Part::Do => continue,
                    Part::OnFailure => failed,
                    Part::OnSuccess => well,
                    Part::Finally => well + failed,
                };
                let ran = times(&format!("{at}/{}/1", part.key()));
                // A list that failed is gone on with, so after a resume its first step may have run once more.
                let fits = if ends == 1 { ran == wanted } else { ran >= wanted };
                self.not(!fits, || {
                    format!("`{}` of `{at}` ran {ran} times instead of {wanted}", part.key())
                })?;
            }
        }
        let ran = times("finally/1");
        let fits = self.plan.finally.is_none() || ran == ends || ends > 1 && (1..=ends).contains(&ran);
        self.not(!fits, || format!("the last steps ran {ran} times for {ends} ends"))
    }

    /// The step before it in its list is done, and whatever it is a part of is where it should be.
    fn in_order(&self, at: &EcoString) -> Checked {
        let (list, position) = at.rfind('/').map_or(("", at.as_str()), |slash| at.split_at(slash + 1));
        if list.is_empty() && self.plan.is_map_reduce() {
            return self.phase_in_order(at);
        }
        let position: u64 = position.parse().unwrap_or(0);
        if self.is_graph(list) {
            return self.has_waited(at, position);
        }
        if position > 1 {
            let before: EcoString = format!("{list}{}", position - 1).into();
            let done = self.facts.done.get(&before);
            self.not(done.is_none(), || format!("`{at}` begins before `{before}` is done"))?;
            let step = Address(before.clone()).step(&self.plan);
            let goes_on = step.is_some_and(|step| self.plan.steps[step as usize].step.continue_on_error);
            let failed = done.is_some_and(|done| done.status == Status::Failed);
            self.not(failed && !goes_on, || format!("`{at}` runs although `{before}` failed"))?;
        }
        let Some(owner) = list.strip_suffix('/') else { return Ok(()) };
        if let Some((each, index)) = owner.strip_suffix(']').and_then(|owner| owner.rsplit_once('[')) {
            let count = self.facts.lists.get(each).map_or(0, |list| list.count);
            let index: u64 = index.parse().unwrap_or(u64::MAX);
            return self.not(index >= count, || format!("`{each}` has {count} items and not item {index}"));
        }
        let Some((owner, part)) = owner.rsplit_once('/') else { return self.phase_in_order(owner) };
        let status = self.facts.done.get(owner).map(|done| done.status);
        let fits = match status {
            Some(Status::Completed) => part != Part::OnFailure.key(),
            Some(Status::Failed) => part != Part::OnSuccess.key(),
            _ => false,
        };
        self.not(!fits, || format!("`{at}` runs while `{owner}` is {:?}", status.map(Status::name)))
    }

    /// The phase before a phase completed.
    fn phase_in_order(&self, phase: &str) -> Checked {
        let Some(position) = self.plan.lists[0].position(phase) else { return Ok(()) };
        let Some(before) = position.checked_sub(1).map(|before| self.plan.lists[0].word(before)) else {
            return Ok(());
        };
        let completed = self.facts.done.get(&before).is_some_and(|done| done.status == Status::Completed);
        self.not(!completed, || format!("`{phase}` begins before `{before}` completed"))
    }

    /// Whether the steps of a list do not run one after the other.
    fn is_graph(&self, list: &str) -> bool {
        list.is_empty() && self.plan.lists[0].graph.is_some()
    }

    /// The lists that an execution stands in, the outermost first, each with its position there.
    fn positions<'a>(&self, at: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let words = at.split('/').scan(0, |from, word| {
            let start = *from;
            *from += word.len() + 1;
            Some((start, word))
        });
        words.filter_map(|(start, word)| {
            let position = word.split('[').next()?;
            let phase = start == 0 && self.plan.lists[0].position(position).is_some();
            (phase || position.parse::<u64>().is_ok()).then_some((&at[..start], position))
        })
    }

    /// Every node that a node waits for is done.
    fn has_waited(&self, at: &EcoString, position: u64) -> Checked {
        let graph = self.plan.lists[0].graph.as_ref();
        let at_position = |graph: &Graph| {
            let node = graph.nodes.get(usize::try_from(position).ok()?.checked_sub(1)?)?;
            node.sources()
                .map(|source| EcoString::from(format!("{}", source + 1)))
                .find(|source| !self.facts.done.contains_key(source))
        };
        match graph.and_then(at_position) {
            Some(source) => self.not(true, || format!("`{at}` begins before `{source}` is done")),
            None => Ok(()),
        }
    }

    /// A finished step never runs again. When a run that failed goes on, what failed does, and the lists that belong
    /// to an end which did not last.
    fn not_done(&self, at: &EcoString) -> Checked {
        let Some(done) = self.facts.done.get(at) else { return Ok(()) };
        let over = self.facts.ended.is_some_and(|ended| done.seq < ended);
        // A node that was skipped because of a failure may run when that is put right.
        let skipped = done.status == Status::Skipped && self.is_graph("") && at.parse::<u64>().is_ok();
        // No route led on from a state: it is done again, however well its action went.
        let stuck = self.facts.stuck.as_ref() == Some(at);
        let again = done.status == Status::Failed || skipped || stuck || self.facts.ended_anew(at);
        self.not(!(over && again), || format!("`{at}` runs again, it was done at event {}", done.seq))
    }

    fn not(&self, broken: bool, what: impl FnOnce() -> String) -> Checked {
        if broken { Err(Violation { seq: self.last, what: what() }) } else { Ok(()) }
    }
}

/// The value that an event recorded.
pub(super) fn value_of(journal: &[Event], seq: Seq) -> i64 {
    let event = usize::try_from(seq).ok().and_then(|seq| journal.get(seq.checked_sub(1)?));
    event.and_then(output_of).map_or(0, number_of)
}

/// An element of the list that an event recorded.
pub(super) fn item_of(journal: &[Event], seq: Seq, index: u64) -> i64 {
    let event = usize::try_from(seq).ok().and_then(|seq| journal.get(seq.checked_sub(1)?));
    let Some(EventKind::Expanded { items: Listed::Whole(Datum::Here(items)), .. }) =
        event.map(|event| &event.kind)
    else {
        return 0;
    };
    let item = items.as_list().zip(usize::try_from(index).ok()).and_then(|(items, index)| items.get(index));
    item.and_then(Value::as_i64).unwrap_or(0)
}

fn number_of(output: &Output) -> i64 {
    match &output.value {
        Datum::Here(value) => value.as_i64().unwrap_or(-1),
        Datum::Stored { .. } => -1,
    }
}
