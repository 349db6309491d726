//! Why something differs between two runs: what it read that differs, what decided differently that it runs, or what else
//! was recorded. Where nothing of that differs, it says nothing: the reason lies outside of what a run records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ecow::EcoString;
use threadline_engine::event::{Address, Seq};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_lang::Value;

use super::align::ExecutionAlignment;
use super::recorded::RecordedRun;
use super::values::{Equivalents, ValueComparison};
use super::{CauseKind, ChangedPart, DiffCause, DiffSubject, Difference};
use crate::chain::TracedRead;
use crate::chain::reads::{ReadOrigin, ReadTracer};
use crate::error::InspectError;
use crate::history::History;

/// The maximum number of reasons for one difference; the others are counted.
const MAX_CAUSES: usize = 12;

/// The number of items up to which only these are read of a run, and not all of it.
const FEW_ITEMS: usize = 200;

/// Roots whose values a run makes anew.
const CLOCKS: [&str; 2] = ["uuid", "date"];

/// Last words of references to what a run makes anew.
const MADE_ANEW: [&str; 12] = [
    names::STARTED_AT,
    names::FINISHED_AT,
    names::EXECUTION_TIME_MS,
    names::DURATION,
    names::DURATION_MS,
    names::CPU_TIME_MS,
    names::MEMORY_USAGE_MB,
    names::TOOL_EXECUTION_TIME_MS,
    names::THREAD_ID,
    names::RUN_ID,
    names::WAITED_MS,
    names::WORKER,
];

/// Whether a reference reads a time, an id, or what a machine used.
fn is_clock(reference: &str) -> bool {
    let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '-';
    let path: String = reference.chars().take_while(|char| is_word(*char) || *char == '.').collect();
    let root = path.split('.').next().unwrap_or_default();
    let last = path.rsplit('.').next().unwrap_or_default();
    CLOCKS.contains(&root)
        || matches!(
            path.as_str(),
            "workflow.id"
                | "workflow.start_time"
                | "run.dir"
                | "loop.elapsed"
                | "loop.elapsed_ms"
                | "agent.worktree"
        )
        || path.contains('.') && MADE_ANEW.contains(&last)
}

/// Finds reasons.
pub(super) struct Reasons<'c, 'r> {
    recorded: &'c [RecordedRun; 2],
    alignment: &'c ExecutionAlignment<'c, 'r>,
    histories: [&'c History<'r>; 2],
    equivalents: &'c Equivalents,
    at: &'c [[Option<Address>; 2]],
    tracers: [ReadTracer<'r>; 2],
    /// The difference of what an event recorded, in each run.
    by_event: [BTreeMap<Seq, usize>; 2],
    by_input: BTreeMap<EcoString, usize>,
    by_entry: BTreeMap<EcoString, usize>,
    /// The steps that failed in one run and not in the other, by the run in which they did.
    failed: [Vec<(Address, usize)>; 2],
    /// The lists that differ, by their addresses.
    lists: [BTreeMap<Address, usize>; 2],
    /// Executions that differ.
    by_address: [BTreeMap<Address, usize>; 2],
}

impl<'c, 'r> Reasons<'c, 'r> {
    pub(super) fn new(
        histories: [&'c History<'r>; 2],
        recorded: &'c [RecordedRun; 2],
        alignment: &'c ExecutionAlignment<'c, 'r>,
        equivalents: &'c Equivalents,
        at: &'c [[Option<Address>; 2]],
        differences: &[Difference],
    ) -> Result<Self, InspectError> {
        let items = |side: usize| {
            let all = at.iter().filter_map(|at| at[side].as_ref());
            let all: BTreeSet<Vec<u64>> =
                all.map(|at| at.items().collect::<Vec<u64>>()).filter(|items| !items.is_empty()).collect();
            (all.len() <= FEW_ITEMS).then_some(all)
        };
        let tracers = [ReadTracer::new(histories[0], items(0))?, ReadTracer::new(histories[1], items(1))?];
        let mut found = Self {
            recorded,
            alignment,
            histories,
            equivalents,
            at,
            tracers,
            by_event: Default::default(),
            by_input: BTreeMap::new(),
            by_entry: BTreeMap::new(),
            failed: Default::default(),
            lists: Default::default(),
            by_address: Default::default(),
        };
        for (place, difference) in differences.iter().enumerate() {
            match &difference.subject {
                DiffSubject::Input(name) => drop(found.by_input.insert(name.clone(), place)),
                DiffSubject::Context(name) => drop(found.by_entry.insert(name.clone(), place)),
                _ => {}
            }
            for side in [0, 1] {
                let event = difference.sides[side].as_ref().and_then(|side| side.event);
                if let Some(seq) = event {
                    found.by_event[side].insert(seq, place);
                }
                let Some(at) = &at[place][side] else { continue };
                match difference.subject {
                    DiffSubject::Items => drop(found.lists[side].insert(at.clone(), place)),
                    DiffSubject::Step => {
                        found.by_address[side].insert(at.clone(), place);
                        // Where only one run has a visit, its step says so, and not its verdict.
                        if let Some(verdict) = recorded[side].verdicts.get(at) {
                            found.by_event[side].entry(verdict.seq).or_insert(place);
                        }
                    }
                    _ => {}
                }
                let status = |side: usize| difference.sides[side].as_ref().and_then(|side| side.status);
                let has_failed = status(side) == Some("failed") && status(1 - side) != Some("failed");
                if difference.subject == DiffSubject::Step && has_failed {
                    found.failed[side].push((at.clone(), place));
                }
            }
        }
        Ok(found)
    }

    /// Says of each difference why it is one.
    pub(super) fn explain(mut self, differences: &mut [Difference]) -> Result<(), InspectError> {
        for place in 0..differences.len() {
            let mut causes = self.causes(place, &differences[place])?;
            // Nothing follows from itself, nor from what comes later.
            for cause in &mut causes {
                cause.of = cause.of.filter(|of| *of < place);
            }
            let is_anew = |cause: &DiffCause| {
                cause.kind == CauseKind::Clock || cause.of.is_some_and(|of| differences[of].is_volatile)
            };
            let is_status = |what: ChangedPart| {
                matches!(what, ChangedPart::Status | ChangedPart::Verdict | ChangedPart::Next)
            };
            let is_volatile = !causes.is_empty()
                && causes.iter().all(is_anew)
                && !differences[place].changes.iter().any(|change| is_status(change.what));
            let more_causes = causes.len().saturating_sub(MAX_CAUSES) as u64;
            causes.truncate(MAX_CAUSES);
            let difference = &mut differences[place];
            (difference.because, difference.more_causes, difference.is_volatile) =
                (causes, more_causes, is_volatile);
        }
        Ok(())
    }

    fn causes(&mut self, place: usize, difference: &Difference) -> Result<Vec<DiffCause>, InspectError> {
        let at = &self.at[place];
        let mut causes = Vec::new();
        if let (Some(left), Some(right)) = (&at[0], &at[1])
            && matches!(difference.subject, DiffSubject::Step | DiffSubject::Items | DiffSubject::Verdict)
            && self.is_plain(0, left)
            && self.alignment.has_other_text(left, right)
        {
            causes.push(cause(CauseKind::Text, "", None));
        }
        let reads = match &difference.subject {
            DiffSubject::Step | DiffSubject::Verdict => self.of_sides(difference, at)?,
            DiffSubject::Items => {
                let mut of = |side: usize| {
                    let seq = difference.sides[side].as_ref().and_then(|side| side.event);
                    seq.map_or(Ok(Vec::new()), |seq| self.tracers[side].of_items(seq))
                };
                [of(0)?, of(1)?]
            }
            DiffSubject::Context(name) => [self.tracers[0].of_entry(name)?, self.tracers[1].of_entry(name)?],
            DiffSubject::Exports => [self.tracers[0].of_exports()?, self.tracers[1].of_exports()?],
            _ => Default::default(),
        };
        let has_both = !at.iter().all(Option::is_none) && at.iter().all(Option::is_some);
        self.compare_reads(reads, has_both, &mut causes);
        if difference.subject == DiffSubject::Step {
            self.of_items(at, &mut causes);
            self.of_called(at, &mut causes);
            if causes.is_empty() {
                causes.extend(self.why_missing(at));
            }
        }
        Ok(causes)
    }

    /// Whether a step does something itself: the texts of others are those of the steps in them.
    fn is_plain(&self, side: usize, at: &Address) -> bool {
        let plan = &self.histories[side].plan;
        at.step(plan).is_some_and(|step| {
            !matches!(plan.steps[step as usize].step.action, Action::ForEach(_) | Action::Phase(_))
        })
    }

    /// What an execution or a verdict was made of in each run.
    fn of_sides(
        &mut self,
        difference: &Difference,
        at: &[Option<Address>; 2],
    ) -> Result<[Vec<TracedRead>; 2], InspectError> {
        let mut found = [Vec::new(), Vec::new()];
        for side in [0, 1] {
            let Some(of) = &at[side] else { continue };
            let is_open =
                difference.subject == DiffSubject::Step && !self.recorded[side].ends.contains_key(of);
            let seq = difference.sides[side].as_ref().and_then(|side| side.event);
            found[side] = match seq {
                Some(seq) if !is_open => self.tracers[side].of_event(seq)?,
                _ => self.tracers[side].of_unfinished(of)?,
            };
            // What the items of a list left is told by them.
            let of_item = |read: &TracedRead| {
                read.reference == "result"
                    && (read.field.starts_with('[') || read.field.starts_with("results["))
            };
            found[side].retain(|read| !of_item(read));
            // What a call exported follows from what it was given, as far as this run knows.
            if let Some(seq) =
                seq.filter(|_| found[side].iter().any(|read| read.origin() == ReadOrigin::Called))
            {
                found[side].retain(|read| read.origin() != ReadOrigin::Called);
                found[side].extend(self.tracers[side].of_call(of, seq)?);
            }
        }
        Ok(found)
    }

    /// The reads that differ: those of both runs that gave different values, and those of one that come from something
    /// that differs.
    fn compare_reads(&self, reads: [Vec<TracedRead>; 2], has_both: bool, causes: &mut Vec<DiffCause>) {
        type ReadKey = (bool, String, String);
        let key =
            |read: &TracedRead| -> ReadKey { (read.is_control, read.field.clone(), read.reference.clone()) };
        let [left, right] = reads;
        let mut others: BTreeMap<ReadKey, VecDeque<TracedRead>> = BTreeMap::new();
        for read in right {
            others.entry(key(&read)).or_default().push_back(read);
        }
        let mut known: BTreeSet<(bool, String)> = BTreeSet::new();
        let mut add = |sides: [Option<&TracedRead>; 2]| {
            let Some(read) = sides[0].or(sides[1]) else { return };
            let of = [0, 1].into_iter().find_map(|side| self.difference_of(side, sides[side]?));
            let value = |side: usize| sides[side].and_then(|read| read.value.clone());
            let values = [value(0), value(1)];
            let differs = match (&values[0], &values[1]) {
                (Some(left), Some(right)) => !self.is_same(left, right),
                (None, None) => false,
                _ => sides.iter().all(Option::is_some),
            };
            let is_cause = match sides {
                [Some(_), Some(_)] if !read.is_control => differs,
                // Of what decides, how it ended may differ and not its value.
                [Some(_), Some(_)] => differs || of.is_some(),
                _ => of.is_some(),
            };
            if !is_cause || !known.insert((read.is_control, read.reference.clone())) {
                return;
            }
            let kind = match read.is_control {
                _ if is_clock(&read.reference) => CauseKind::Clock,
                true => CauseKind::Control,
                false => CauseKind::Value,
            };
            causes.push(DiffCause {
                kind,
                reference: read.reference.clone(),
                field: read.field.clone(),
                maker: read.maker.clone(),
                place: read.range.map(|range| (range.line, range.column)),
                values,
                of,
            });
        };
        for read in &left {
            let other = others.get_mut(&key(read)).and_then(VecDeque::pop_front);
            add([Some(read), other.as_ref()]);
        }
        for read in others.values().flatten() {
            add([None, Some(read)]);
        }
        // What it read says more than that it had to be there.
        let values: BTreeSet<usize> = causes
            .iter()
            .filter(|cause| cause.kind == CauseKind::Value)
            .filter_map(|cause| cause.of)
            .collect();
        causes.retain(|cause| {
            cause.kind != CauseKind::Control || cause.of.is_none_or(|of| !values.contains(&of))
        });
        // Where both ran, what only one of them read was read because of something else that differs.
        if has_both && causes.iter().any(|cause| cause.values.iter().all(Option::is_some)) {
            causes.retain(|cause| cause.kind != CauseKind::Value || cause.values.iter().all(Option::is_some));
        }
    }

    fn is_same(&self, left: &Value, right: &Value) -> bool {
        let comparison = ValueComparison { equivalents: self.equivalents, leaves_out: &|_| false };
        comparison.changes(left, right).parts.is_empty()
    }

    /// The difference that a read value comes from.
    fn difference_of(&self, side: usize, read: &TracedRead) -> Option<usize> {
        match read.origin() {
            ReadOrigin::Event(seq) => {
                let known = self.by_event[side].get(&seq).copied();
                // What a list left may be the same, and what its items left another.
                known.or_else(|| self.inside(side, &self.histories[side].event(seq).ok()?.at).next())
            }
            ReadOrigin::Input(Some(name)) => self.by_input.get(&name).copied(),
            ReadOrigin::Input(None) => self.by_input.values().next().copied(),
            ReadOrigin::Entry(name) => self.by_entry.get(&name).copied(),
            ReadOrigin::Called | ReadOrigin::Given => None,
        }
    }

    /// What of its items differs.
    fn of_items(&self, at: &[Option<Address>; 2], causes: &mut Vec<DiffCause>) {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for (side, of) in at.iter().enumerate() {
            found.extend(of.iter().flat_map(|of| self.inside(side, of)));
        }
        causes.extend(found.into_iter().map(|place| cause(CauseKind::Items, "", Some(place))));
    }

    /// What differs of the items of an execution.
    fn inside<'s>(&'s self, side: usize, of: &Address) -> impl Iterator<Item = usize> + use<'s, 'c, 'r> {
        let list = self.lists[side].get(of).copied();
        let behind = self.by_address[side].range(of.clone()..);
        let of = of.clone();
        let inside = behind
            .skip_while({
                let of = of.clone();
                move |(known, _)| **known == of
            })
            .take_while(move |(known, _)| known.is_in_items_of(&of));
        list.into_iter().chain(inside.map(|(_, place)| *place))
    }

    /// The runs that it called.
    fn of_called(&self, at: &[Option<Address>; 2], causes: &mut Vec<DiffCause>) {
        let called = |side: usize| {
            let end = at[side].as_ref().and_then(|at| self.recorded[side].ends.get(at))?;
            end.called.as_deref().map(Value::from)
        };
        if let (Some(left), Some(right)) = (called(0), called(1))
            && causes.is_empty()
        {
            let mut found = cause(CauseKind::Called, "", None);
            found.values = [Some(left), Some(right)];
            causes.push(found);
        }
    }

    /// Why one of the runs has no such execution.
    fn why_missing(&self, at: &[Option<Address>; 2]) -> Option<DiffCause> {
        let missing = at.iter().position(Option::is_none)?;
        let has = 1 - missing;
        let of = at[has].as_ref()?;
        // Its item is none of the other run's.
        for item in of.items_around() {
            let (list, _) = item.as_item()?;
            let is_own = self.alignment.is_own_item(has, &item);
            if is_own && let Some(place) = self.lists[has].get(&list) {
                return Some(cause(CauseKind::NoItem, "", Some(*place)));
            }
        }
        if self.alignment.is_own_step(has, of) {
            return Some(cause(CauseKind::Text, "", None));
        }
        // The nearest step that failed there and not here.
        let around: Vec<Address> = of.lineage().collect();
        let common =
            |failed: &Address| failed.lineage().zip(&around).take_while(|(one, other)| one == *other).count();
        let failed = self.failed[missing]
            .iter()
            .max_by_key(|(failed, place)| (common(failed), std::cmp::Reverse(*place)));
        let mut found = cause(CauseKind::NotReached, "", failed.map(|(_, place)| *place));
        found.maker = self.histories[missing].info.id.to_string();
        let how = Value::from(self.recorded[missing].how());
        found.values[missing] = Some(how);
        Some(found)
    }
}

fn cause(kind: CauseKind, reference: &str, of: Option<usize>) -> DiffCause {
    let (field, maker, place) = (String::new(), String::new(), None);
    DiffCause { kind, reference: reference.to_owned(), field, maker, place, values: [None, None], of }
}

#[cfg(test)]
mod tests {
    use super::is_clock;

    #[test]
    fn what_a_run_makes_anew_is_known_by_its_reference() {
        for reference in ["uuid", "date:%Y", "workflow.id", "prev.duration_ms", "a.meta.started_at | upper"] {
            assert!(is_clock(reference), "{reference}");
        }
        for reference in ["a", "inputs.duration_of", "workflow.name", "duration", "a.result.id", "run_id"] {
            assert!(!is_clock(reference), "{reference}");
        }
    }
}
