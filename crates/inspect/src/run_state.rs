//! A run as it was after an event: how each execution stood, how many items, and what of a list comes first.
//!
//! It is folded from the events of a [`RunTimeline`], without reading the journal: a million of them take milliseconds.

use std::collections::BTreeMap;

use threadline_engine::event::{Address, Millis, Seq, Status};
use threadline_engine::machine::Outcome;
use threadline_flow::model::Action;
use threadline_flow::plan::{Part, StepNumber};
use threadline_lang::Value;

use crate::error::InspectError;
use crate::history::{History, time_text};
use crate::labels::label;
use crate::timeline::{Happening, PlaceNumber, RunTimeline, TimelineEvent};

/// How an execution, an item or a state stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It failed, and nothing made it good.
    Failed,
    /// It was stopped.
    Cancelled,
    /// An attempt failed, and another is waited for.
    Retrying,
    /// It runs.
    Running,
    /// It ran when the run was stopped, and has not begun again.
    Interrupted,
    /// It has not begun.
    NotYet,
    /// It did what it should.
    Completed,
    /// It does not run.
    Skipped,
}

impl Standing {
    /// All of them, what needs attention first.
    pub const ALL: [Self; 8] = [
        Self::Failed,
        Self::Cancelled,
        Self::Retrying,
        Self::Running,
        Self::Interrupted,
        Self::NotYet,
        Self::Completed,
        Self::Skipped,
    ];

    /// Its name in JSON and in classes of drawings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Retrying => "retrying",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::NotYet => "not-yet",
            Self::Completed => "completed",
            Self::Skipped => "skipped",
        }
    }

    /// The same for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Retrying => "to be tried again",
            Self::NotYet => "not yet",
            other => other.name(),
        }
    }

    /// A sign that says it without a colour.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Failed => "✗",
            Self::Cancelled => "⊘",
            Self::Retrying => "↻",
            Self::Running => "◐",
            Self::Interrupted => "‖",
            Self::NotYet => "○",
            Self::Completed => "✓",
            Self::Skipped => "–",
        }
    }

    /// That of a status.
    pub fn of(status: Status) -> Self {
        match status {
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Skipped => Self::Skipped,
            Status::Cancelled => Self::Cancelled,
        }
    }

    fn position(self) -> usize {
        self as usize
    }
}

/// How a run stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPhase {
    /// It went on.
    Running,
    /// It was stopped before its end.
    Paused,
    /// It is over.
    Ended(Outcome),
}

impl RunPhase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended(outcome) => outcome.name(),
        }
    }
}

/// How many executions or items stand in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StandingCounts([u64; Standing::ALL.len()]);

impl StandingCounts {
    /// How many stand in a way.
    pub fn get(&self, standing: Standing) -> u64 {
        self.0[standing.position()]
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many are over.
    pub fn over(&self) -> u64 {
        [Standing::Completed, Standing::Failed, Standing::Skipped, Standing::Cancelled]
            .map(|standing| self.get(standing))
            .iter()
            .sum()
    }

    fn add(&mut self, standing: Standing) {
        self.0[standing.position()] += 1;
    }

    fn remove(&mut self, standing: Standing) {
        let count = &mut self.0[standing.position()];
        *count = count.saturating_sub(1);
    }

    /// As JSON: each way with at least one, and the total.
    pub fn value(&self) -> Value {
        let counts = Standing::ALL.into_iter().filter(|standing| self.get(*standing) > 0);
        let counts = counts.map(|standing| (standing.name(), Value::from(self.get(standing))));
        Value::record([("total", Value::from(self.total()))].into_iter().chain(counts))
    }

    /// In words: `8 completed, 1 failed`.
    pub fn text(&self) -> String {
        let order = [
            Standing::Completed,
            Standing::Failed,
            Standing::Cancelled,
            Standing::Skipped,
            Standing::Running,
            Standing::Retrying,
            Standing::Interrupted,
            Standing::NotYet,
        ];
        let counts = order.into_iter().filter(|standing| self.get(*standing) > 0);
        let counts = counts.map(|standing| format!("{} {}", self.get(standing), standing.words()));
        counts.collect::<Vec<_>>().join(", ")
    }
}

/// How one execution or item stands.
#[derive(Debug, Clone, Copy)]
pub struct PlaceState {
    /// How it stands.
    pub standing: Standing,
    /// When it began, first.
    pub began: Option<Millis>,
    /// When its last attempt began.
    pub started: Option<Millis>,
    /// When it ended.
    pub ended: Option<Millis>,
    /// When the next attempt begins, where one is waited for.
    pub until: Option<Millis>,
    /// How many attempts have begun.
    pub attempts: u32,
    /// The last event about it.
    pub last: Seq,
}

const NOTHING: PlaceState = PlaceState {
    standing: Standing::NotYet,
    began: None,
    started: None,
    ended: None,
    until: None,
    attempts: 0,
    last: 0,
};

/// A run as it was after an event.
pub struct RunState<'t> {
    timeline: &'t RunTimeline,
    /// The event.
    pub until: Seq,
    /// Its time; of a run without events none.
    pub time: Option<Millis>,
    /// When the run began.
    pub began: Option<Millis>,
    /// How the run stood.
    pub phase: RunPhase,
    /// By the numbers of executions, as far as anything happened to them.
    states: Vec<PlaceState>,
    /// Items of each step with items.
    lists: BTreeMap<PlaceNumber, StandingCounts>,
    /// The event with the items of each.
    expanded: BTreeMap<PlaceNumber, Seq>,
    /// How the executions of each step stand.
    steps: Vec<StandingCounts>,
}

impl<'t> RunState<'t> {
    /// Folds the events of a run up to one.
    pub fn after(timeline: &'t RunTimeline, until: Seq) -> Self {
        let until = until.min(timeline.last());
        let mut state = Self {
            timeline,
            until,
            time: timeline.event(until).map(|event| event.time),
            began: timeline.event(1).map(|event| event.time),
            phase: RunPhase::Running,
            states: vec![NOTHING; timeline.places.len()],
            lists: BTreeMap::new(),
            expanded: BTreeMap::new(),
            steps: vec![StandingCounts::default(); timeline.plan.steps.len()],
        };
        for (seq, event) in timeline.events(1, until) {
            state.take(seq, event);
        }
        state
    }

    /// As it was after an event, or as it is; an error says which events there are.
    pub fn at_event(
        history: &History<'_>,
        timeline: &'t RunTimeline,
        at: Option<Seq>,
    ) -> Result<Self, InspectError> {
        let last = timeline.last();
        if let Some(at) = at.filter(|at| *at == 0 || *at > last) {
            let message = format!("run `{}` has no event {at}", history.info.id);
            return Err(InspectError::with_hint(message, format!("its events are 1 to {last}")).missing());
        }
        Ok(Self::after(timeline, at.unwrap_or(last)))
    }

    /// As it is now.
    pub fn now(timeline: &'t RunTimeline) -> Self {
        Self::after(timeline, timeline.last())
    }

    fn take(&mut self, seq: Seq, event: &TimelineEvent) {
        let place = event.place;
        self.states[place as usize].last = seq;
        match event.what {
            Happening::Begins | Happening::GoesOn => {
                self.phase = RunPhase::Running;
                self.cut_off();
            }
            Happening::Pauses => {
                self.phase = RunPhase::Paused;
                self.cut_off();
            }
            Happening::Ends { outcome, .. } => self.phase = RunPhase::Ended(outcome),
            Happening::Expands(count) => {
                self.expand(place, event.time, count);
                self.expanded.insert(place, seq);
            }
            Happening::Starts => self.start(place, event.time, true),
            Happening::ItemBegins => {
                self.forget_inside(place);
                self.start(place, event.time, true);
            }
            Happening::WillRetry(until) => {
                self.stand(place, Standing::Retrying);
                self.states[place as usize].until = Some(until);
            }
            Happening::Over(status) => self.end(place, event.time, Standing::of(status)),
            Happening::Judged { failed } => {
                let standing = if failed { Standing::Failed } else { Standing::Completed };
                self.end(place, event.time, standing);
            }
            Happening::Other => {}
        }
    }

    fn start(&mut self, place: PlaceNumber, time: Millis, counts: bool) {
        self.stand(place, Standing::Running);
        let state = &mut self.states[place as usize];
        state.began.get_or_insert(time);
        state.started = Some(time);
        (state.ended, state.until) = (None, None);
        state.attempts += u32::from(counts);
        // An item runs with the first of its steps.
        if let Some(item) = self.timeline.place(place).inside {
            let of_item = self.states[item as usize].standing;
            if !matches!(of_item, Standing::Running) {
                self.start(item, time, of_item == Standing::NotYet);
            }
        }
    }

    fn end(&mut self, place: PlaceNumber, time: Millis, standing: Standing) {
        self.stand(place, standing);
        let state = &mut self.states[place as usize];
        state.began.get_or_insert(time);
        state.ended = Some(time);
        state.until = None;
    }

    fn expand(&mut self, place: PlaceNumber, time: Millis, count: u64) {
        if self.lists.contains_key(&place) {
            let timeline = self.timeline;
            for item in &timeline.place(place).items {
                self.forget(*item);
                self.forget_inside(*item);
            }
        }
        let mut counts = StandingCounts::default();
        counts.0[Standing::NotYet.position()] = count;
        self.lists.insert(place, counts);
        self.start(place, time, true);
    }

    /// What ran does not run any more: the run was stopped, or goes on after a crash.
    fn cut_off(&mut self) {
        let running = (0..).zip(&self.states).filter(|(_, state)| state.standing == Standing::Running);
        let running: Vec<PlaceNumber> = running.map(|(place, _)| place).collect();
        for place in running {
            self.stand(place, Standing::Interrupted);
        }
    }

    fn forget_inside(&mut self, item: PlaceNumber) {
        let timeline = self.timeline;
        for inner in &timeline.place(item).contents {
            self.forget(*inner);
        }
    }

    fn forget(&mut self, place: PlaceNumber) {
        if self.states[place as usize].last > 0 {
            self.stand(place, Standing::NotYet);
            if self.timeline.place(place).item.is_none()
                && let Some(step) = self.timeline.place(place).step
            {
                self.steps[step as usize].remove(Standing::NotYet);
            }
        }
        self.lists.remove(&place);
        self.states[place as usize] = NOTHING;
    }

    fn stand(&mut self, place: PlaceNumber, standing: Standing) {
        let of = self.timeline.place(place);
        let state = &mut self.states[place as usize];
        let before = std::mem::replace(&mut state.standing, standing);
        let is_known = state.began.is_some() || before != Standing::NotYet;
        if let Some((owner, _)) = of.item {
            let counts = self.lists.entry(owner).or_default();
            counts.remove(before);
            counts.add(standing);
        } else if let Some(step) = of.step {
            let counts = &mut self.steps[step as usize];
            if is_known {
                counts.remove(before);
            }
            counts.add(standing);
        }
    }

    /// How an execution or an item stands.
    pub fn at(&self, at: &Address) -> PlaceState {
        self.timeline.find(at).map_or(NOTHING, |place| self.states[place as usize])
    }

    /// How the items of a step stand.
    pub fn items_of(&self, at: &Address) -> Option<StandingCounts> {
        self.timeline.find(at).and_then(|place| self.lists.get(&place)).copied()
    }

    /// The event with the items of a step.
    pub fn list_of(&self, at: &Address) -> Option<Seq> {
        self.timeline.find(at).and_then(|place| self.expanded.get(&place)).copied()
    }

    /// How the executions of a step stand that anything happened to.
    pub fn executions_of(&self, step: StepNumber) -> StandingCounts {
        self.steps.get(step as usize).copied().unwrap_or_default()
    }

    /// How the items stand of all lists together.
    pub fn items(&self) -> StandingCounts {
        let mut all = StandingCounts::default();
        for counts in self.lists.values() {
            for (sum, count) in all.0.iter_mut().zip(counts.0) {
                *sum += count;
            }
        }
        all
    }

    /// How the steps outside of items stand, each once: of a loop, its visits.
    pub fn outside_steps(&self) -> StandingCounts {
        let mut counts = StandingCounts::default();
        for execution in self.executions() {
            counts.add(execution.state.standing);
        }
        counts
    }

    /// The executions outside of items: those that anything happened to, and the steps that have not begun; in the order of
    /// the file, and of a loop in that of its visits.
    pub fn executions(&self) -> Vec<StandingExecution> {
        let plan = &self.timeline.plan;
        let mut found: Vec<StandingExecution> = Vec::new();
        for (place, state) in self.timeline.places.iter().zip(&self.states) {
            let is_outside = place.inside.is_none() && place.item.is_none();
            if let Some(step) = place.step.filter(|_| is_outside && state.last > 0) {
                found.push(StandingExecution { at: Some(place.at.clone()), step, state: *state });
            }
        }
        let is_loop = plan.states.is_some();
        for (number, step) in (0..).zip(&plan.steps) {
            let is_in_items = crate::target::lists_around(plan, number) > 0;
            let handles = plan.lists[step.list as usize].parent;
            // What handles a failure, and a state that was not entered, is nothing that is still to come.
            let is_sure = !is_loop && handles.is_none_or(|(_, part)| part == Part::Do);
            if is_sure && !is_in_items && !found.iter().any(|known| known.step == number) {
                found.push(StandingExecution { at: None, step: number, state: NOTHING });
            }
        }
        if is_loop {
            found.sort_by_key(|execution| execution.state.began);
        } else {
            found.sort_by_key(|execution| execution.step);
        }
        found
    }

    /// The execution outside of items that failed first and was not made good, with the event; else the item.
    pub fn first_failure(&self) -> Option<(Address, Seq)> {
        let failed = |is_item: bool| {
            let states = self.timeline.places.iter().zip(&self.states);
            let failed = states.filter(move |(place, state)| {
                state.standing == Standing::Failed
                    && place.item.is_some() == is_item
                    && place.inside.is_none()
            });
            failed.min_by_key(|(_, state)| state.last).map(|(place, state)| (place.at.clone(), state.last))
        };
        failed(false).or_else(|| failed(true))
    }

    /// The items of a step, what needs attention first, else by their index. Those of which nothing is known yet are not
    /// among them.
    pub fn items_in_order(&self, at: &Address) -> Vec<StandingItem> {
        let Some(owner) = self.timeline.find(at) else { return Vec::new() };
        let items = self.timeline.place(owner).items.iter().filter_map(|item| {
            let place = self.timeline.place(*item);
            let state = self.states[*item as usize];
            let (_, index) = place.item?;
            // An item whose steps have begun has no event of its own yet.
            if state.standing == Standing::NotYet && state.last == 0 {
                return None;
            }
            let inside = place.contents.iter().map(|inner| self.states[*inner as usize].attempts);
            Some(StandingItem {
                index,
                at: place.at.clone(),
                state,
                step_attempts: inside.max().unwrap_or(0),
            })
        });
        let mut items: Vec<StandingItem> = items.collect();
        items.sort_by_key(|item| (item.state.standing, item.index));
        items
    }

    /// How each item of a step stands, by its index: `None` where nothing is known yet.
    pub fn strip(&self, at: &Address, buckets: usize) -> Vec<Standing> {
        let count = self.items_of(at).map_or(0, |counts| counts.total());
        let buckets = u64::try_from(buckets).unwrap_or(u64::MAX).min(count).max(1);
        let mut strip = vec![Standing::NotYet; usize::try_from(buckets).unwrap_or(1)];
        let mut order = [Standing::Skipped; 8];
        order.copy_from_slice(&Standing::ALL);
        let rank = |standing: Standing| match standing {
            // One that has not begun hides none that has.
            Standing::NotYet => usize::MAX,
            standing => order.iter().position(|known| *known == standing).unwrap_or(usize::MAX),
        };
        for item in self.items_in_order(at) {
            let bucket = item.index.saturating_mul(buckets) / count.max(1);
            if let Some(known) = usize::try_from(bucket).ok().and_then(|bucket| strip.get_mut(bucket))
                && rank(item.state.standing) < rank(*known)
            {
                *known = item.state.standing;
            }
        }
        strip
    }

    /// All of it as JSON.
    pub fn value(&self, run: &str) -> Value {
        let plan = &self.timeline.plan;
        let time = |time: Option<Millis>| time.map_or(Value::NULL, |time| time_text(time).into());
        let executions = self.executions();
        let steps = executions.iter().map(|execution| {
            let planned = &plan.steps[execution.step as usize];
            let at = execution.at.as_ref();
            let name =
                at.map_or_else(|| planned.label.to_string(), |at| label(plan, at).trim_start().to_owned());
            let state = &execution.state;
            let items = at.and_then(|at| self.items_of(at));
            let mut entries = vec![
                ("step", Value::from(name.as_str())),
                ("number", planned.number.as_str().into()),
                ("at", at.map_or(Value::NULL, |at| at.as_str().into())),
                ("standing", state.standing.name().into()),
                ("attempts", Value::from(state.attempts)),
                ("began", time(state.began)),
                ("ended", time(state.ended)),
                ("until", time(state.until)),
            ];
            entries.extend(items.map(|items| ("items", items.value())));
            Value::record(entries)
        });
        let inside =
            (0..).zip(&plan.steps).filter(|(number, _)| crate::target::lists_around(plan, *number) > 0);
        let inside = inside.map(|(number, step)| {
            Value::record([
                ("step", Value::from(step.label.as_str())),
                ("number", step.number.as_str().into()),
                ("executions", self.executions_of(number).value()),
            ])
        });
        Value::record([
            ("run", run.into()),
            ("event", Value::from(self.until)),
            ("events", Value::from(self.timeline.last())),
            ("time", time(self.time)),
            ("status", self.phase.name().into()),
            ("steps", Value::sequence(steps)),
            ("inside", Value::sequence(inside)),
        ])
    }

    /// The steps with items, outside of other items, that have begun.
    pub fn lists(&self) -> impl Iterator<Item = (&Address, StandingCounts)> {
        self.lists.iter().filter_map(|(place, counts)| {
            let place = self.timeline.place(*place);
            let is_list = place.step.is_some_and(|step| {
                matches!(self.timeline.plan.steps[step as usize].step.action, Action::ForEach(_))
            });
            (is_list && place.inside.is_none()).then_some((&place.at, *counts))
        })
    }
}

/// An execution outside of items, or a step of which there is none yet.
pub struct StandingExecution {
    /// Its address; none of a step that has not begun.
    pub at: Option<Address>,
    /// Its step.
    pub step: StepNumber,
    /// How it stands.
    pub state: PlaceState,
}

/// An item, and how it stands.
pub struct StandingItem {
    /// Its index.
    pub index: u64,
    /// Its address.
    pub at: Address,
    /// How it stands.
    pub state: PlaceState,
    /// The largest number of attempts that one of its steps took.
    pub step_attempts: u32,
}
