//! The names of a run with the steps that set them, and the history of one name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, Millis, RunSlice, Seq, split_item_suffix};
use threadline_engine::replay::{Change, Fold, Maker, NameSort};
use threadline_engine::visits::{EventSort, VisitedStates};
use threadline_flow::model::Step;
use threadline_flow::plan::{Plan, PlannedStep};
use threadline_lang::diag::nearest;
use threadline_lang::{Type, Value};
use threadline_store::{EventMark, wire};

use crate::error::{InspectError, of_store};
use crate::explanation::Readers;
use crate::explanation_json::{label, reader_json};
use crate::history::{History, time_text};
use crate::target::lists_around;

/// A value that a name was set to.
pub struct AssignedValue {
    /// The name as references use it.
    pub name: String,
    /// What sort of name it is.
    pub sort: NameSort,
    /// The execution that set it; empty for the run.
    pub at: Address,
    /// The event that set it; `None` for a value of the file.
    pub seq: Option<u64>,
    /// When it was set.
    pub time: Option<i64>,
    /// The event that set it before, in the same scope.
    pub before_seq: Option<u64>,
    /// The value before. What events recorded is loaded for what is shown, and only then.
    pub before: Option<Value>,
    /// The value, once it was loaded.
    pub value: Value,
    /// What made it.
    pub maker: Maker,
    /// The iteration of a loop in which it was set, and whether that has ended: then a reference to it is missing.
    pub iteration: Option<(u64, bool)>,
}

impl AssignedValue {
    /// The name with the item it belongs to.
    pub fn shown_name(&self) -> String {
        format!("{}{}", self.name, self.at.item_suffix())
    }

    /// Loads what events recorded. Inputs and entries as written are there already.
    pub fn load(&mut self, history: &History<'_>) -> Result<(), InspectError> {
        let value = |seq: u64| -> Result<Value, InspectError> {
            match self.sort {
                NameSort::Context => match history.event(seq)?.kind {
                    EventKind::Defined { value, .. } => history.load(&value),
                    _ => Ok(Value::NULL),
                },
                _ => Ok(history.output(seq)?.value.clone()),
            }
        };
        let recorded = self.seq.filter(|_| self.sort != NameSort::Input).map(value).transpose()?;
        if let (None, Some(seq)) = (self.time, self.seq) {
            self.time = Some(history.event(seq)?.time);
        }
        self.before = self.before_seq.map(value).transpose()?;
        self.value = recorded.unwrap_or_else(|| std::mem::take(&mut self.value));
        Ok(())
    }
}

/// The values that steps and entries of `context` set.
#[derive(Default)]
struct FoundSettings {
    settings: Vec<AssignedValue>,
    began: Millis,
}

impl FoundSettings {
    /// Takes the next event.
    fn take(&mut self, fold: &mut Fold, event: &Event) {
        if let EventKind::RunStarted(_) = event.kind {
            self.began = event.time;
        }
        let iteration = fold.machine.iteration();
        for change in fold.changes(event) {
            let captured = change.sort == NameSort::Capture;
            let iteration = iteration.filter(|_| captured).map(|iteration| (iteration, false));
            self.settings.push(AssignedValue { iteration, ..of_change(&change) });
        }
    }

    /// What a slice of the run set; nothing where all of it has to be read.
    fn in_slice(history: &History<'_>, slice: &RunSlice) -> Result<Option<Self>, InspectError> {
        let mut found = Self::default();
        let is_whole = history.each_of(slice, |fold, event| {
            found.take(fold, event);
            Ok(())
        })?;
        Ok(is_whole.then_some(found))
    }

    fn in_all(history: &History<'_>) -> Result<Self, InspectError> {
        let mut found = Self::default();
        let fold = history.each(|fold, event| {
            found.take(fold, event);
            Ok(())
        })?;
        let last = fold.machine.iteration();
        for (iteration, lapsed) in found.settings.iter_mut().filter_map(|setting| setting.iteration.as_mut())
        {
            *lapsed = last.is_some_and(|last| last > *iteration);
        }
        Ok(found)
    }
}

/// Every value that was set, or all that a slice of the run can have set, in the order of the journal, not loaded yet.
fn settings(history: &History<'_>, slice: Option<&RunSlice>) -> Result<Vec<AssignedValue>, InspectError> {
    let found = slice.map(|slice| FoundSettings::in_slice(history, slice)).transpose()?.flatten();
    let FoundSettings { settings, began } = match found {
        Some(found) => found,
        None => FoundSettings::in_all(history)?,
    };
    Ok(with_given(history, Some(began), settings))
}

/// Values that were set, behind those that the run was given.
fn with_given(
    history: &History<'_>,
    began: Option<Millis>,
    settings: Vec<AssignedValue>,
) -> Vec<AssignedValue> {
    let inputs = history.names.inputs.as_object().into_iter().flat_map(|inputs| inputs.iter());
    let inputs = inputs.map(|(name, value)| AssignedValue {
        name: format!("inputs.{}", name.as_str()),
        sort: NameSort::Input,
        at: Address::default(),
        seq: Some(1),
        time: began,
        before_seq: None,
        before: None,
        value: value.clone(),
        maker: Maker::Input(Some(name.name().clone())),
        iteration: None,
    });
    let mut all: Vec<AssignedValue> = inputs.collect();
    all.extend(literals(history, &settings));
    all.extend(settings);
    all
}

/// Entries of `context` without a reference: they are never evaluated, so no event records them.
fn literals(history: &History<'_>, settings: &[AssignedValue]) -> Vec<AssignedValue> {
    let entries = history.plan.workflow.context.iter().flat_map(|context| &context.entries);
    let fixed = entries.filter_map(|entry| Some((&entry.name, entry.written.value.as_fixed()?)));
    let literal = |(name, value): (&EcoString, &Value)| AssignedValue {
        name: format!("context.{name}"),
        sort: NameSort::Context,
        at: Address::default(),
        seq: None,
        time: None,
        before_seq: None,
        before: None,
        value: value.clone(),
        maker: Maker::Context(Some(name.clone())),
        iteration: None,
    };
    let all = fixed.map(literal);
    all.filter(|literal| !settings.iter().any(|setting| setting.name == literal.name)).collect()
}

fn of_change(change: &Change) -> AssignedValue {
    let (name, maker) = match change.sort {
        NameSort::Context => (format!("context.{}", change.name), Maker::Context(Some(change.name.clone()))),
        _ => (change.name.to_string(), Maker::Event(change.seq)),
    };
    AssignedValue {
        name,
        sort: change.sort,
        at: change.at.clone(),
        seq: Some(change.seq),
        time: Some(change.time),
        before_seq: change.before,
        before: None,
        value: Value::NULL,
        maker,
        iteration: None,
    }
}

/// The last value of each name of the run, and of each item, not loaded yet.
pub fn latest_names(history: &History<'_>) -> Result<Vec<AssignedValue>, InspectError> {
    match latest_unread(history)? {
        Some(latest) => Ok(latest),
        None => Ok(latest(settings(history, None)?)),
    }
}

/// The last value of each name of the run, and of each item: names in the order in which they were first set, the items
/// of a name in theirs.
fn latest(settings: Vec<AssignedValue>) -> Vec<AssignedValue> {
    let mut last: Vec<AssignedValue> = Vec::new();
    let mut places: BTreeMap<(String, Vec<u64>), usize> = BTreeMap::new();
    for setting in settings {
        let items = setting.at.items().collect();
        match places.entry((setting.name.clone(), items)) {
            Entry::Occupied(known) => last[*known.get()] = setting,
            Entry::Vacant(place) => {
                place.insert(last.len());
                last.push(setting);
            }
        }
    }
    with_items_together(last)
}

/// Names in the order in which they were first set, the items of a name in theirs.
fn with_items_together(mut settings: Vec<AssignedValue>) -> Vec<AssignedValue> {
    let mut firsts = BTreeMap::new();
    for (at, setting) in settings.iter().enumerate() {
        firsts.entry(setting.name.clone()).or_insert(at);
    }
    settings.sort_by_cached_key(|setting| (firsts[&setting.name], setting.at.items().collect::<Vec<u64>>()));
    settings
}

/// The last value of each name of the run, and of each item, out of the kinds and the addresses of its events. None where
/// what is known without reading them does not suffice.
fn latest_unread(history: &History<'_>) -> Result<Option<Vec<AssignedValue>>, InspectError> {
    let mut scanned = ScannedSettings { visited: VisitedStates::new(&history.plan), ..Default::default() };
    let take = |mark: &EventMark<'_>| scanned.take(&history.plan, mark);
    history.reader.scan(&history.info.id, None, take).map_err(|error| of_store(&error))?;
    for seq in std::mem::take(&mut scanned.defined) {
        if let EventKind::Defined { name, .. } = history.event(seq)?.kind {
            scanned.set(&name, NameSort::Context, &Address::root(), seq);
        }
    }
    let ScannedSettings { latest, is_unknown, visited, .. } = scanned;
    // Whether the loop has begun another iteration stands in its last judgement, unless it is over.
    if is_unknown || visited.as_ref().is_some_and(|visited| !visited.is_over()) {
        return Ok(None);
    }
    let last = visited.as_ref().and_then(VisitedStates::iteration);
    let mut latest: Vec<(EcoString, LatestSetting)> =
        latest.into_iter().map(|((name, _), setting)| (name, setting)).collect();
    latest.sort_by_key(|(_, setting)| setting.place);
    let value = |(name, setting): (EcoString, LatestSetting)| {
        let LatestSetting { at, sort, seq, before, iteration, .. } = setting;
        let change = Change { name, sort, at, seq, time: 0, before };
        let lapsed = |iteration| (iteration, last.is_some_and(|last| last > iteration));
        AssignedValue { time: None, iteration: iteration.map(lapsed), ..of_change(&change) }
    };
    let latest = with_items_together(latest.into_iter().map(value).collect());
    Ok(Some(with_given(history, None, latest)))
}

/// What set each name last, as far as the kinds and the addresses of events tell.
#[derive(Default)]
struct ScannedSettings {
    /// By the name, which of an entry of `context` is apart from others, and the items around what set it.
    latest: BTreeMap<(EcoString, (bool, Vec<u64>)), LatestSetting>,
    /// The event that set each name last, in each scope.
    set: BTreeMap<(Address, bool, EcoString), Seq>,
    /// The events with entries of `context`: which they are has to be read.
    defined: Vec<Seq>,
    /// Of a loop, its visits so far.
    visited: Option<VisitedStates>,
    /// Whether an event could not be understood.
    is_unknown: bool,
}

struct LatestSetting {
    /// Where the name stands in the list: the event that set it first, and which of the names that it set.
    place: (Seq, usize),
    at: Address,
    sort: NameSort,
    seq: Seq,
    before: Option<Seq>,
    /// The iteration of a loop in which it was captured.
    iteration: Option<u64>,
}

impl ScannedSettings {
    /// Takes the next event.
    fn take(&mut self, plan: &Plan, mark: &EventMark<'_>) {
        let sort = wire::sort_of(mark.kind);
        if let (Some(visited), Some(address)) = (&mut self.visited, mark.address) {
            visited.take(mark.seq, sort, address);
        }
        if mark.kind == "defined" {
            self.defined.push(mark.seq);
        }
        if !matches!(sort, EventSort::Sets | EventSort::Skips) {
            return;
        }
        let Some(at) = mark.address.and_then(|address| Address::parse(address).ok()) else {
            self.is_unknown = true;
            return;
        };
        let Some(step) = at.step(plan).map(|step| &plan.steps[step as usize].step) else { return };
        if let Some(id) = &step.id {
            self.set(&id.value, NameSort::Step, &at, mark.seq);
        }
        if let Some(capture) = step.capture.as_ref().filter(|_| sort == EventSort::Sets) {
            self.set(&capture.value, NameSort::Capture, &at, mark.seq);
        }
    }

    fn set(&mut self, name: &EcoString, sort: NameSort, at: &Address, seq: Seq) {
        let is_context = sort == NameSort::Context;
        let scope = at.items_around().next_back().unwrap_or_default();
        let before = self.set.insert((scope, is_context, name.clone()), seq);
        let iteration = self.visited.as_ref().and_then(VisitedStates::iteration);
        let iteration = iteration.filter(|_| sort == NameSort::Capture);
        let place = (seq, usize::from(sort == NameSort::Capture));
        let setting = LatestSetting { place, at: at.clone(), sort, seq, before, iteration };
        match self.latest.entry((name.clone(), (is_context, at.items().collect()))) {
            Entry::Occupied(mut known) => {
                let place = known.get().place;
                known.insert(LatestSetting { place, ..setting });
            }
            Entry::Vacant(free) => {
                free.insert(setting);
            }
        }
    }
}

/// The history of a name, which may be written without `inputs`, `context` or `captured` before it, and with an item
/// behind it.
pub fn of_name(history: &History<'_>, name: &str) -> Result<Vec<AssignedValue>, InspectError> {
    let bare = name.strip_prefix("captured.").unwrap_or(name);
    let (bare, items) = split_item_suffix(bare).unwrap_or((bare, Vec::new()));
    let chosen = |settings: Vec<AssignedValue>| -> Vec<AssignedValue> {
        let (exact, others): (Vec<AssignedValue>, Vec<AssignedValue>) = settings
            .into_iter()
            .filter(|setting| setting.at.items().take(items.len()).eq(items.iter().copied()))
            .partition(|setting| setting.name == bare);
        if !exact.is_empty() {
            return exact;
        }
        let is_under =
            |setting: &AssignedValue| setting.name.split_once('.').is_some_and(|(_, rest)| rest == bare);
        others.into_iter().filter(is_under).collect()
    };
    if let Some(slice) = slice_of_name(history, bare, &items) {
        let found = chosen(settings(history, Some(&slice))?);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let all = settings(history, None)?;
    let names: Vec<String> = all.iter().map(|setting| setting.name.clone()).collect();
    let found = chosen(all);
    if !found.is_empty() {
        return Ok(found);
    }
    let message = format!("nothing set a name `{name}` in run `{}`", history.info.id);
    let near = nearest(name, names.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`"));
    let hint = near.unwrap_or_else(|| format!("`threadline vars {}` lists them", history.info.id));
    Err(InspectError::with_hint(message, hint).missing())
}

/// The slice of the run with everything that can have set a name; nothing where every item can, or every visit of a loop.
fn slice_of_name(history: &History<'_>, name: &str, items: &[u64]) -> Option<RunSlice> {
    let plan = &history.plan;
    if plan.states.is_some() {
        return None;
    }
    if !items.is_empty() {
        return Some(RunSlice::new(vec![items.to_vec()]));
    }
    let sets = |step: &PlannedStep| {
        let Step { id, capture, .. } = &*step.step;
        [id, capture].into_iter().flatten().any(|known| known.value == name)
    };
    let mut inside = (0..).zip(&plan.steps).filter(|(number, _)| lists_around(plan, *number) > 0);
    (!inside.any(|(_, step)| sets(step))).then(|| RunSlice::new(Vec::new()))
}

/// A value that a name was set to, as JSON.
pub fn setting_json(history: &History<'_>, setting: &AssignedValue, readers: &Readers) -> Value {
    let sort = match setting.sort {
        NameSort::Input => "input",
        NameSort::Context => "context",
        NameSort::Step => "step",
        NameSort::Capture => "capture",
    };
    let read_by = readers.get(&setting.maker).into_iter().flatten();
    let read_by = read_by.map(|reader| reader_json(history, reader));
    let by_step = setting.at != Address::default();
    let kind: Type = setting.value.kind();
    let iteration = setting
        .iteration
        .map(|(iteration, lapsed)| [("iteration", Value::from(iteration)), ("lapsed", lapsed.into())]);
    let known = [
        ("name", setting.name.as_str().into()),
        ("kind", sort.into()),
        ("value", setting.value.clone()),
        ("type", kind.name().into()),
        ("before", setting.before.clone().unwrap_or_default()),
        ("step", if by_step { label(history, &setting.at).into() } else { Value::NULL }),
        ("at", if by_step { setting.at.as_str().into() } else { Value::NULL }),
        ("event", setting.seq.map_or(Value::NULL, Value::from)),
        ("time", setting.time.map_or(Value::NULL, |time| time_text(time).into())),
        ("read_by", Value::sequence(read_by)),
    ];
    Value::record(known.into_iter().chain(iteration.into_iter().flatten()))
}
