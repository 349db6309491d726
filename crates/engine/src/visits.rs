//! Some visits of a loop instead of all: what a state sees in its thousandth visit follows from all visits before, but of
//! most of them nothing matters beside their number.
//!
//! [`VisitedStates`] is made of the addresses and the sorts of events, without reading what they say. From it follows
//! which visits have to be read so that some of them show what the whole run shows: the visit before, the last two that
//! set each name, and those after which the run stopped or went on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::{Action, Evaluator, Terminal};
use threadline_flow::plan::{Plan, PlannedStep};

use crate::event::{Address, EventKind, Seq};

/// What is known of an event without reading what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSort {
    /// A step left something under its names: it finished, or had a field without a value.
    Sets,
    /// A step was skipped, which sets its id.
    Skips,
    /// A state was judged.
    Judges,
    /// The outcome of the run is known, or the run is over.
    Ends,
    /// The run went on.
    Resumes,
    /// Any other.
    Other,
}

impl EventSort {
    /// That of an event.
    pub fn of(event: &EventKind) -> Self {
        match event {
            EventKind::Finished { .. } | EventKind::Unresolved { .. } => Self::Sets,
            EventKind::Skipped { .. } => Self::Skips,
            EventKind::Judged(_) => Self::Judges,
            EventKind::OutcomeKnown { .. } | EventKind::RunEnded { .. } => Self::Ends,
            EventKind::Resumed { .. } => Self::Resumes,
            _ => Self::Other,
        }
    }
}

/// How many values of each name of a loop can be read: the last one, and the one before.
const KEPT_VALUES: usize = 2;

/// How many of the visits that set a name are read before one that may read it. The last judgement of a run need not have
/// set anything.
const SETTERS_READ: usize = KEPT_VALUES + 1;

/// The visits of a loop in their order, with what set its names.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct VisitedStates {
    plan: Arc<Plan>,
    visits: Vec<Visit>,
    places: BTreeMap<Address, usize>,
    /// The visits in which each name was set, in order: by whether it is a capture, and by itself.
    setters: BTreeMap<(bool, EcoString), Vec<usize>>,
    /// The events outside of visits that ended the run or went on with it, each with the number of visits before it.
    turns: Vec<(Seq, usize)>,
    has_items: bool,
    was_resumed: bool,
    /// Whether the last event that ended the run or went on with it did that.
    goes_on: bool,
    is_broken: bool,
}

struct Visit {
    at: Address,
    position: usize,
    last: Seq,
    iteration: u64,
    in_a_row: u64,
    /// Whether an event ended the run behind it, before the next visit.
    is_end: bool,
}

/// Some visits of a loop, and what has to be known of the others.
#[derive(Debug, PartialEq, Eq)]
pub struct LoopSlice {
    entries: BTreeMap<Address, VisitEntry>,
    /// The last event of what is asked for.
    last: Seq,
    through_end: bool,
}

/// What a loop had done when it came to a visit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VisitEntry {
    /// The number of states that were executed before.
    pub(crate) steps: u64,
    /// The iteration that the visit belongs to.
    pub(crate) iteration: u64,
    /// How often its state had followed itself.
    pub(crate) in_a_row: u64,
    /// The visit that follows.
    pub(crate) next: Option<Address>,
    /// Whether the run ended behind it; it may have gone on since.
    pub(crate) is_end: bool,
    /// Whether it is asked for, and not only read for those that are.
    is_asked: bool,
}

impl VisitedStates {
    /// No visits of the loop of a plan; none if it has no loop.
    pub fn new(plan: &Arc<Plan>) -> Option<Self> {
        plan.states.as_ref()?;
        Some(Self {
            plan: Arc::clone(plan),
            visits: Vec::new(),
            places: BTreeMap::new(),
            setters: BTreeMap::new(),
            turns: Vec::new(),
            has_items: false,
            was_resumed: false,
            goes_on: false,
            is_broken: false,
        })
    }

    /// Takes the next event, by its sort and the text of its address.
    pub fn take(&mut self, seq: Seq, sort: EventSort, address: &str) {
        let Ok(at) = Address::parse(address) else {
            self.is_broken = true;
            return;
        };
        let Some(visit) = at.visit_around() else {
            if matches!(sort, EventSort::Ends | EventSort::Resumes) {
                self.turns.push((seq, self.visits.len()));
                self.goes_on = sort == EventSort::Resumes;
                self.was_resumed |= self.goes_on;
            }
            if let (EventSort::Ends, Some(visit)) = (sort, self.visits.last_mut()) {
                visit.is_end = true;
            }
            return;
        };
        if self.visits.last().is_none_or(|last| last.at != visit) {
            self.begin(visit);
        }
        if let Some(visit) = self.visits.last_mut() {
            (visit.last, visit.is_end) = (seq, false);
        }
        self.has_items |= at.is_in_items();
        if !at.is_in_items() && matches!(sort, EventSort::Sets | EventSort::Skips | EventSort::Judges) {
            self.set_names(sort, &at);
        }
    }

    fn begin(&mut self, at: Address) {
        let Some(position) = at.outermost_position(&self.plan) else {
            self.is_broken = true;
            return;
        };
        let begins_anew = self.plan.states.as_ref().is_some_and(|states| states.initial == position);
        let before = self.visits.last().map(|last| (last.position, last.in_a_row, last.iteration));
        let in_a_row = match before {
            // Behind a state that ends a loop, no route was taken.
            Some((last, in_a_row, _)) if self.terminal(last).is_some() => in_a_row,
            Some((last, in_a_row, _)) if last == position => in_a_row + 1,
            _ => 0,
        };
        let iteration = before.map_or(0, |(_, _, iteration)| iteration) + u64::from(begins_anew);
        // A visit is one piece of the journal.
        self.is_broken |= self.places.insert(at.clone(), self.visits.len()).is_some();
        self.visits.push(Visit { at, position, last: 0, iteration, in_a_row, is_end: false });
    }

    fn planned(&self, position: usize) -> &PlannedStep {
        &self.plan.steps[self.plan.lists[0].steps[position] as usize]
    }

    fn terminal(&self, position: usize) -> Option<Terminal> {
        self.planned(position).step.state.as_ref().and_then(|state| state.terminal)
    }

    fn set_names(&mut self, sort: EventSort, at: &Address) {
        let Some(step) = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step) else { return };
        let of_judgement = sort == EventSort::Judges;
        // What does nothing leaves its judgement.
        if of_judgement && !matches!(step.action, Action::Nothing) {
            return;
        }
        let id = step.id.as_ref().filter(|_| !of_judgement).map(|id| (false, id.value.clone()));
        let capture = step.capture.as_ref().filter(|_| sort != EventSort::Skips);
        let capture = capture.map(|capture| (true, capture.value.clone()));
        let visit = self.visits.len().saturating_sub(1);
        for name in id.into_iter().chain(capture) {
            let setters = self.setters.entry(name).or_default();
            if setters.last() != Some(&visit) {
                setters.push(visit);
            }
        }
    }

    /// The visits of the state at a position, by their numbers.
    pub fn of_state(&self, position: usize) -> impl Iterator<Item = usize> {
        let visits = self.visits.iter().enumerate();
        visits.filter(move |(_, visit)| visit.position == position).map(|(number, _)| number)
    }

    /// The iteration that the loop is in after the events so far, as far as they happened in it.
    pub fn iteration(&self) -> Option<u64> {
        self.visits.last().map(|visit| visit.iteration)
    }

    /// Whether the loop has ended, and the run did not go on since.
    pub fn is_over(&self) -> bool {
        self.visits.last().is_some_and(|visit| visit.is_end) && !self.goes_on
    }

    /// The number of a visit, from 0.
    pub fn number(&self, visit: &Address) -> Option<usize> {
        self.places.get(visit).copied()
    }

    /// The visits in which something can have been read that was made in a visit, and whether it can have been read outside
    /// of visits: at the end of the run, or at one before it went on.
    pub fn while_read(&self, made_in: usize) -> (RangeInclusive<usize>, bool) {
        let mut last = made_in + 1;
        for setters in self.setters.values() {
            if let Ok(place) = setters.binary_search(&made_in) {
                last = last.max(setters.get(place + KEPT_VALUES).copied().unwrap_or(self.visits.len()));
            }
        }
        let end = self.visits.len().saturating_sub(1);
        let visits = made_in..=last.min(end);
        let mut turns = self.turns.iter().filter_map(|(_, before)| before.checked_sub(1));
        let is_read_outside = last >= end || turns.any(|visit| visits.contains(&visit));
        (visits, is_read_outside)
    }

    /// The slice in which some visits show what they show in the whole run, and so do the ends of the run if they are asked
    /// for. None where all of the run has to be read.
    pub fn slice(&self, asked: &BTreeSet<usize>, through_end: bool) -> Option<LoopSlice> {
        // How long a loop took depends on the very last event before it went on.
        if self.is_broken || (self.was_resumed && self.has_items) {
            return None;
        }
        let last = asked.last().and_then(|visit| self.visits.get(*visit)).map_or(0, |visit| visit.last);
        let last = if through_end { Seq::MAX } else { last };
        let mut read = asked.clone();
        let ends = self.turns.iter().map(|(_, visits)| *visits).chain([self.visits.len()]);
        let ends: Vec<usize> = ends.filter(|_| through_end).collect();
        // What a state that failed left is not what is read at the end, but what was there before.
        read.extend(ends.iter().filter_map(|end| end.checked_sub(2)));
        for visit in asked.iter().copied().chain(ends) {
            read.extend(visit.checked_sub(1));
            for setters in self.setters.values() {
                let before = setters.partition_point(|setter| *setter < visit);
                read.extend(&setters[before.saturating_sub(SETTERS_READ)..before]);
            }
            read.extend(self.last_measured(visit));
        }
        let turns = self.turns.iter().filter(|(seq, _)| *seq <= last);
        read.extend(turns.filter_map(|(_, visits)| visits.checked_sub(1)));
        let entry = |visit: usize| -> Option<(Address, VisitEntry)> {
            let Visit { at, iteration, in_a_row, is_end, .. } = self.visits.get(visit)?;
            let next = self.visits.get(visit + 1).map(|next| next.at.clone());
            let (steps, is_asked) = (visit as u64, asked.contains(&visit));
            let (iteration, in_a_row, is_end) = (*iteration, *in_a_row, *is_end);
            Some((at.clone(), VisitEntry { steps, iteration, in_a_row, next, is_end, is_asked }))
        };
        Some(LoopSlice { entries: read.into_iter().filter_map(entry).collect(), last, through_end })
    }

    /// The visit of the same state before, where the judgement compares what it measures with what was measured then.
    fn last_measured(&self, visit: usize) -> Option<usize> {
        let position = self.visits.get(visit)?.position;
        if !measures(self.planned(position)) {
            return None;
        }
        self.visits[..visit].iter().rposition(|before| before.position == position)
    }
}

/// Whether the judgement on a state compares what it measures with what it measured in the visit before.
pub(crate) fn measures(step: &PlannedStep) -> bool {
    matches!(step.step.evaluator(), Some(Evaluator::Convergence(_)))
}

impl LoopSlice {
    /// What is known of a visit that belongs to it, by the text of its address.
    pub(crate) fn entry(&self, visit: &str) -> Option<&VisitEntry> {
        self.entries.get(visit)
    }

    /// Whether an event belongs to it that is about an address in a visit, or outside of visits.
    pub(crate) fn has(&self, address: &str) -> bool {
        Address::visit_of(address).is_none_or(|visit| self.entries.contains_key(visit))
    }

    /// Whether an event is one of those that are asked for.
    pub(crate) fn asks_for(&self, at: &Address) -> bool {
        match Address::visit_of(at.as_str()) {
            Some(visit) => self.entries.get(visit).is_some_and(|entry| entry.is_asked),
            None => self.through_end,
        }
    }

    /// The last event of what is asked for.
    pub(crate) fn last(&self) -> Seq {
        self.last
    }
}

impl VisitEntry {
    /// Whether the visit is read only because others depend on it.
    pub(crate) fn is_support(&self) -> bool {
        !self.is_asked
    }
}
