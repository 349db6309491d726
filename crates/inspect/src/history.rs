//! A stored run: its workflow, its values, and everything that happened. A run is only read here, never changed.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::event::{Address, Datum, Event, EventKind, RunSlice, RunStarted, Seq};
pub use threadline_engine::execute::result::time_text;
use threadline_engine::replay::{self, Fold, Look, Seen};
use threadline_engine::view::{ItemRef, Load as _, RunNames};
use threadline_engine::visits::{EventSort, VisitedStates};
use threadline_engine::world::Replay;
use threadline_flow::model::ContextEntry;
use threadline_flow::plan::Plan;
use threadline_lang::{Envelope, Resolution, Scope, Value};
use threadline_runner::reload::PlanError;
use threadline_runner::values::Values;
use threadline_runner::{WORKTREE, reload};
use threadline_store::{EventMark, JournalError, JournalReader, RunId, RunInfo, StoreError, wire};

use crate::error::{InspectError, of_journal, of_store};
use crate::place::ReportSource;

/// What stands in an event that says that something failed.
const FAILED: &str = "\"failed\"";

/// A run of the journal, for reading.
pub struct History<'r> {
    /// The store.
    pub reader: &'r JournalReader,
    /// What the store says of the run.
    pub info: RunInfo,
    /// What it began with.
    pub started: RunStarted,
    /// The workflow that it follows, as it was.
    pub plan: Arc<Plan>,
    /// The names that do not come from steps.
    pub names: RunNames,
    /// The names of the run that do not come from steps.
    scope: Scope,
    values: Values<'r>,
    /// The entries of `context` that were loaded.
    context: RefCell<BTreeMap<Seq, Value>>,
    /// The visits of the loop, once they were asked for.
    visited: OnceCell<Option<VisitedStates>>,
}

impl<'r> History<'r> {
    /// Opens a run by its id, by a prefix of it, or by `last`.
    pub fn open(reader: &'r JournalReader, name: &str) -> Result<Self, InspectError> {
        Self::of(reader, reader.find(name).map_err(|error| of_store(&error))?)
    }

    /// Opens a run that was found.
    pub fn of(reader: &'r JournalReader, info: RunInfo) -> Result<Self, InspectError> {
        Self::with_plan(reader, info, None)
    }

    /// Opens a run that was found, whose plan may be known already.
    pub fn with_plan(
        reader: &'r JournalReader,
        info: RunInfo,
        plan: Option<&Arc<Plan>>,
    ) -> Result<Self, InspectError> {
        let Some(started) = reload::started(reader, &info).map_err(|error| of_journal(&error))? else {
            let message = format!("run `{}` was stopped before it began, nothing of it was done", info.id);
            let hint = format!("start it again: `threadline run {}`", info.file);
            return Err(InspectError::with_hint(message, hint));
        };
        let plan = match plan {
            Some(plan) => Arc::clone(plan),
            None => Arc::new(plan_of(reader, &started)?),
        };
        let names = reload::names(reader, &info, &started).map_err(|error| of_journal(&error))?;
        let (scope, values) = (names.scope(&plan), Values::new(reader, info.id.clone()));
        let (context, visited) = (RefCell::default(), OnceCell::new());
        Ok(Self { reader, info, started, plan, names, scope, values, context, visited })
    }

    /// Visits every event, with the fold of the events before it.
    pub fn each(
        &self,
        visit: impl FnMut(&mut Fold, &Event) -> Result<(), InspectError>,
    ) -> Result<Fold, InspectError> {
        self.try_each(visit)
    }

    /// The same for whoever fails in another way.
    pub fn try_each<E: From<InspectError>>(
        &self,
        mut visit: impl FnMut(&mut Fold, &Event) -> Result<(), E>,
    ) -> Result<Fold, E> {
        let mut fold = Fold::new(Arc::clone(&self.plan));
        for event in self.reader.events(&self.info.id, 1).map_err(|error| of_store(&error))? {
            let event = event.map_err(|error| of_journal(&error))?;
            visit(&mut fold, &event)?;
            fold.apply(&event).map_err(|misfit| self.misfit(&event, &misfit.why))?;
        }
        Ok(fold)
    }

    /// Visits the events of a slice of the run, with the fold of those before, which shows the steps in it what the fold of
    /// all events would. Says whether that was possible: where the rest of the run decides what comes next, all of it has
    /// to be read, and what was visited is of no use.
    pub fn each_of(
        &self,
        slice: &RunSlice,
        mut visit: impl FnMut(&mut Fold, &Event) -> Result<(), InspectError>,
    ) -> Result<bool, InspectError> {
        // What a visit of a loop sees is made of those before it.
        if self.plan.states.is_some() && !slice.has_visits() {
            return Ok(false);
        }
        let (reader, run) = (self.reader, &self.info.id);
        let mut chosen = reader.choose(run, |at| slice.has(at)).map_err(|error| of_store(&error))?;
        chosen.retain(|seq| *seq <= slice.last());
        // Reading everything is simpler than looking for nearly everything.
        if 2 * chosen.len() as u64 > self.info.events {
            return Ok(false);
        }
        let mut fold = Fold::of_slice(Arc::clone(&self.plan), slice.clone());
        for event in reader.events_at(run, &chosen) {
            let event = event.map_err(|error| of_journal(&error))?;
            if slice.asks_for(&event.at) {
                visit(&mut fold, &event)?;
            }
            if fold.apply(&event).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits the events that tell what failed and what became of it since, and no others where these are few.
    pub fn each_of_failures(
        &self,
        mut visit: impl FnMut(&Event) -> Result<(), InspectError>,
    ) -> Result<(), InspectError> {
        let (reader, run) = (self.reader, &self.info.id);
        let (mut failed, mut judged): (Vec<Address>, Option<Address>) = (Vec::new(), None);
        let note = |mark: &EventMark<'_>| {
            let at = || mark.address.and_then(|address| Address::parse(address).ok());
            match wire::sort_of(mark.kind) {
                EventSort::Judges => judged = at(),
                // A loop ends behind a state that failed.
                EventSort::Ends => failed.extend(judged.take()),
                _ if mark.has_text => failed.extend(at()),
                _ => {}
            }
        };
        reader.scan(run, Some(FAILED), note).map_err(|error| of_store(&error))?;
        failed.extend(judged);
        // Whatever happened to what failed, or to what it stands in.
        let around: BTreeSet<Address> = failed.iter().flat_map(Address::lineage).collect();
        let chosen = reader.choose(run, |address| address.is_empty() || around.contains(address));
        let chosen = chosen.map_err(|error| of_store(&error))?;
        if 2 * chosen.len() as u64 > self.info.events {
            return self.each(|_, event| visit(event)).map(|_| ());
        }
        reader
            .events_at(run, &chosen)
            .try_for_each(|event| visit(&event.map_err(|error| of_journal(&error))?))
    }

    /// The visits of the loop, made of what is known of events that are not read; none if the run has no loop.
    pub fn visited(&self) -> Result<Option<&VisitedStates>, InspectError> {
        if let Some(known) = self.visited.get() {
            return Ok(known.as_ref());
        }
        let mut visited = VisitedStates::new(&self.plan);
        if let Some(visited) = &mut visited {
            let take = |mark: &EventMark<'_>| {
                visited.take(mark.seq, wire::sort_of(mark.kind), mark.address.unwrap_or("?"));
            };
            self.reader.scan(&self.info.id, None, take).map_err(|error| of_store(&error))?;
        }
        Ok(self.visited.get_or_init(|| visited).as_ref())
    }

    /// The failure for an event that this program would not have written.
    fn misfit(&self, event: &Event, why: &str) -> InspectError {
        let Event { seq, at, kind: what, .. } = event;
        let kind = wire::encode(what).0;
        let of = if at.is_root() { String::new() } else { format!(" of `{at}`") };
        let message = format!("event {seq} of run `{}`, `{kind}`{of}, does not fit: {why}", self.info.id);
        let hint = format!(
            "the journal is damaged, or another version of threadline wrote it (it says {}, this is {}); `threadline \
             run {}` starts anew",
            self.started.program,
            env!("CARGO_PKG_VERSION"),
            self.started.file
        );
        InspectError::with_hint(message, hint)
    }

    /// The values of entries of `context`.
    pub fn context(
        &self,
        defined: &BTreeMap<EcoString, Seq>,
    ) -> Result<BTreeMap<EcoString, Value>, InspectError> {
        let load = |seq: Seq| -> Result<Value, JournalError> {
            if let Some(known) = self.context.borrow().get(&seq) {
                return Ok(known.clone());
            }
            let value = reload::defined(self.reader, &self.info.id, seq)?;
            self.context.borrow_mut().insert(seq, value.clone());
            Ok(value)
        };
        let entries = defined.iter().map(|(name, seq)| Ok((name.clone(), load(*seq)?)));
        entries.collect::<Result<_, JournalError>>().map_err(|error| of_journal(&error))
    }
}

impl History<'_> {
    /// Evaluates a step again with the values that it had at the time of an event.
    pub fn look(&self, seen: &Seen) -> Result<Look, InspectError> {
        let worktree = seen.computed.iter().find(|computed| computed.name == WORKTREE);
        let worktree = match worktree.map(|computed| &computed.answer) {
            Some(Ok(folder)) => Some(self.reader.load(folder).map_err(|error| of_journal(&error))?),
            _ => None,
        };
        let worktree = worktree.as_ref().and_then(Value::as_str);
        let scope = seen.view.scope(&self.scope, &mut &self.values, worktree);
        let scope = scope.map_err(|error| of_journal(&error))?;
        let answers = self.reader.answers(&seen.computed).map_err(|error| of_journal(&error))?;
        let mut world = Replay::new(&answers, self.context(&seen.defined)?);
        let result = seen.view.result.map(|seq| self.output(seq)).transpose()?;
        let acting =
            seen.view.acting.as_ref().map(|view| view.scope(&self.scope, &mut &self.values, worktree));
        let acting = acting.transpose().map_err(|error| of_journal(&error))?;
        Ok(replay::look(&self.plan, seen, (&scope, acting.as_ref()), result.as_deref(), &mut world))
    }

    /// What an entry of `context` read when an event recorded it, evaluated again with the entries that are
    /// known.
    pub fn look_at_entry(
        &self,
        entry: &ContextEntry,
        seq: Option<Seq>,
        known: &BTreeMap<EcoString, Seq>,
    ) -> Result<Vec<Resolution>, InspectError> {
        let computed = match seq.map(|seq| self.event(seq)).transpose()?.map(|event| event.kind) {
            Some(EventKind::Defined { computed, .. }) => computed,
            _ => Vec::new(),
        };
        let answers = self.reader.answers(&computed).map_err(|error| of_journal(&error))?;
        let mut world = Replay::new(&answers, self.context(known)?);
        Ok(replay::look_at_entry(&self.plan, entry, &self.scope, &mut world))
    }

    /// The run that an import comes from, if the journal says it.
    pub fn imported_run(&self, name: &str) -> Option<&str> {
        let found = self.started.imported.iter().find(|(known, _)| known == name);
        found.map(|(_, run)| run.as_str())
    }

    /// Whether another run of the store follows the same texts as this one.
    pub fn has_text_of(&self, run: &str) -> Result<bool, InspectError> {
        let info = match RunId::new(run).and_then(|run| self.reader.run(&run)) {
            Ok(info) => info,
            Err(StoreError::NoSuchRun { .. }) => return Ok(false),
            Err(error) => return Err(of_store(&error)),
        };
        let other = reload::started(self.reader, &info).map_err(|error| of_journal(&error))?;
        let RunStarted { text, files, .. } = &self.started;
        Ok(other.is_some_and(|other| other.text == *text && other.files == *files))
    }

    /// An event of another run of the store; nothing where that run was removed.
    pub fn event_of(&self, run: &str, seq: Seq) -> Result<Option<Event>, InspectError> {
        let run = RunId::new(run).map_err(|error| of_store(&error))?;
        match self.reader.event(&run, seq) {
            Err(JournalError::Store(StoreError::NoSuchRun { .. })) => Ok(None),
            found => found.map(Some).map_err(|error| of_journal(&error)),
        }
    }

    /// The event with this number.
    pub fn event(&self, seq: Seq) -> Result<Event, InspectError> {
        self.reader.event(&self.info.id, seq).map_err(|error| of_journal(&error))
    }

    /// The envelope that a step left, by its event.
    pub fn output(&self, seq: Seq) -> Result<Arc<Envelope>, InspectError> {
        self.values.output(seq).map_err(|error| of_journal(&error))
    }

    /// The value of an item.
    pub fn item(&self, item: ItemRef) -> Result<Value, InspectError> {
        (&self.values).item(item).map_err(|error| of_journal(&error))
    }

    /// A value of the journal.
    pub fn load(&self, datum: &Datum) -> Result<Value, InspectError> {
        self.reader.load(datum).map_err(|error| of_journal(&error))
    }

    /// The text of the workflow, for locations in it.
    pub fn source(&self) -> ReportSource<'_> {
        let file = &self.plan.workflow.file;
        ReportSource::of(file)
    }
}

/// Plans the workflow text that a run was started with.
fn plan_of(reader: &JournalReader, started: &RunStarted) -> Result<Plan, InspectError> {
    reload::plan(reader, started).map_err(|error| match error {
        PlanError::Journal(error) => of_journal(&error),
        PlanError::Unusable(why) => InspectError::plain(why),
    })
}

/// A time of day in UTC, with milliseconds.
pub fn clock_text(millis: i64) -> String {
    let text = time_text(millis);
    text.split_once('T').map_or(text.clone(), |(_, clock)| clock.trim_end_matches('Z').to_owned())
}
