//! Goes through everything that two runs recorded, side by side.

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use threadline_engine::event::{Address, Datum, Seq, Status};
use threadline_engine::view::ItemRef;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_lang::Value;

use super::align::ExecutionAlignment;
use super::because::Reasons;
use super::recorded::{RecordedEnd, RecordedRun, RecordedVerdict};
use super::values::{Equivalents, PartStep, ValueChange, ValueChanges, ValueComparison};
use super::{
    ChangedPart, DiffRow, DiffRun, DiffSide, DiffSubject, Difference, PartChange, RunDiff, SameCounts,
    name_of,
};
use crate::error::InspectError;
use crate::history::{History, time_text};
use crate::labels::step_label;

/// The maximum number of items of a list that are shown.
const MAX_ITEMS: usize = 20;

/// What is compared, with where it is in both runs.
pub(super) struct ComparedSubject {
    pub(super) subject: DiffSubject,
    pub(super) at: [Option<Address>; 2],
    /// Its place in order: the event of the first run, then that of the second.
    key: (Seq, Seq),
}

pub(super) fn compare(left: &History<'_>, right: &History<'_>) -> Result<RunDiff, InspectError> {
    let histories = [left, right];
    let recorded = [RecordedRun::read(left)?, RecordedRun::read(right)?];
    let mut alignment = ExecutionAlignment::new(histories, [&recorded[0], &recorded[1]]);
    let own_steps = alignment.own_steps();
    let is_apart = |side: usize| own_steps[side].len() == histories[side].plan.steps.len();
    if is_apart(0) && is_apart(1) {
        let message = format!(
            "runs `{}` and `{}` are of workflows without a common step: `{}` and `{}`",
            left.info.id, right.info.id, left.started.workflow, right.started.workflow
        );
        return Err(InspectError::with_hint(
            message,
            "`threadline runs --workflow NAME` lists the runs of one workflow".to_owned(),
        ));
    }
    let subjects = subjects(&mut alignment, &recorded)?;
    let mut comparison = SubjectComparison {
        histories,
        recorded: &recorded,
        equivalents: equivalents(histories, &subjects, &recorded),
        alignment,
        differences: Vec::new(),
        compared: Vec::new(),
        differing: Default::default(),
    };
    comparison.given()?;
    let (mut rows, mut same, mut all_same) = (Vec::new(), SameCounts::default(), SameCounts::default());
    rows.extend((0..comparison.differences.len()).map(DiffRow::Different));
    for subject in subjects {
        let step = subject
            .at
            .iter()
            .zip(histories)
            .find_map(|(at, history)| at.as_ref().map(|at| step_label(&history.plan, at)));
        let is_step = subject.subject == DiffSubject::Step;
        let before = comparison.differences.len();
        comparison.subject(subject)?;
        if comparison.differences.len() > before {
            let found = std::mem::take(&mut same).end();
            rows.extend((!found.is_empty()).then_some(DiffRow::Same(found)));
            rows.push(DiffRow::Different(before));
        } else if let Some(step) = step.filter(|_| is_step) {
            same.add(step.clone());
            all_same.add(step);
        }
    }
    let found = same.end();
    rows.extend((!found.is_empty()).then_some(DiffRow::Same(found)));
    let before = comparison.differences.len();
    comparison.exports()?;
    rows.extend((before..comparison.differences.len()).map(DiffRow::Different));
    let SubjectComparison { mut differences, compared, alignment, equivalents, .. } = comparison;
    Reasons::new(histories, &recorded, &alignment, &equivalents, &compared, &differences)?
        .explain(&mut differences)?;
    let is_root = |difference: &&Difference| !difference.because.iter().any(|cause| cause.of.is_some());
    let place =
        |wanted: &dyn Fn(&&Difference) -> bool| differences.iter().position(|difference| wanted(&difference));
    let first = place(&|difference| is_root(difference) && !difference.is_minor())
        .or_else(|| place(&|difference| !difference.is_minor()))
        .or_else(|| place(&|difference| !difference.is_volatile))
        .or_else(|| place(&|_| true));
    let [own_left, own_right] = own_steps;
    let run = |side: usize, own_steps: Vec<String>| {
        let History { info, started, .. } = histories[side];
        DiffRun {
            id: info.id.to_string(),
            workflow: started.workflow.to_string(),
            file: started.file.to_string(),
            text: started.text,
            status: recorded[side].how(),
            own_steps,
        }
    };
    let runs = [run(0, own_left), run(1, own_right)];
    Ok(RunDiff { runs, differences, first, same: all_same.end(), rows })
}

/// Every execution, list and verdict of both runs, in the order of the first.
fn subjects(
    alignment: &mut ExecutionAlignment<'_, '_>,
    recorded: &[RecordedRun; 2],
) -> Result<Vec<ComparedSubject>, InspectError> {
    type Places = BTreeMap<(Address, DiffSubject), Seq>;
    let places = |run: &RecordedRun| -> Places {
        let step = |(at, seq): (&Address, Seq)| ((at.clone(), DiffSubject::Step), seq);
        let ends = run.ends.iter().map(|(at, end)| step((at, end.seq)));
        let open = run.open.iter().map(|(at, seq)| step((at, *seq)));
        let lists = run.lists.iter().map(|(at, list)| ((at.clone(), DiffSubject::Items), list.seq));
        let items = run.items.iter().map(|(at, item)| ((at.clone(), DiffSubject::Item), item.seq));
        let verdicts =
            run.verdicts.iter().map(|(at, verdict)| ((at.clone(), DiffSubject::Verdict), verdict.seq));
        open.chain(ends).chain(lists).chain(items).chain(verdicts).collect()
    };
    let (left, right) = (places(&recorded[0]), places(&recorded[1]));
    let mut found: Vec<ComparedSubject> = Vec::new();
    let mut paired: BTreeSet<(Address, DiffSubject)> = BTreeSet::new();
    let mut behind = 0;
    let mut in_order: Vec<(&(Address, DiffSubject), &Seq)> = right.iter().collect();
    in_order.sort_by_key(|(_, seq)| **seq);
    for ((at, subject), seq) in in_order {
        let of_left = alignment.left(at)?;
        let known = of_left.and_then(|of| {
            let key = (of, subject.clone());
            left.get(&key).map(|seq| (key, *seq))
        });
        if let Some(((of, _), left_seq)) = known {
            behind = behind.max(left_seq);
            paired.insert((of.clone(), subject.clone()));
            let at = [Some(of), Some(at.clone())];
            found.push(ComparedSubject { subject: subject.clone(), at, key: (left_seq, 0) });
        } else {
            let at = [None, Some(at.clone())];
            found.push(ComparedSubject { subject: subject.clone(), at, key: (behind, *seq) });
        }
    }
    for ((at, subject), seq) in left {
        if !paired.contains(&(at.clone(), subject.clone())) {
            found.push(ComparedSubject { subject, at: [Some(at), None], key: (seq, 0) });
        }
    }
    found.sort_by_key(|subject| subject.key);
    Ok(found)
}

/// Texts that say the same in both runs: their ids, those of the runs that they called, and when they began.
fn equivalents(
    histories: [&History<'_>; 2],
    subjects: &[ComparedSubject],
    recorded: &[RecordedRun; 2],
) -> Equivalents {
    let mut found = Equivalents::default();
    for subject in subjects.iter().filter(|subject| subject.subject == DiffSubject::Step) {
        let [Some(left), Some(right)] = &subject.at else { continue };
        let called = |side: usize, at: &Address| recorded[side].ends.get(at)?.called.clone();
        if let (Some(left), Some(right)) = (called(0, left), called(1, right)) {
            found.add(&left, &right);
        }
    }
    found.add(histories[0].info.id.as_str(), histories[1].info.id.as_str());
    let began = |side: usize| histories[side].info.started_at.clone();
    found.add(&began(0), &began(1));
    let first = |side: usize| histories[side].event(1).ok().map(|event| time_text(event.time));
    if let (Some(left), Some(right)) = (first(0), first(1)) {
        found.add(&left, &right);
    }
    found
}

/// A part of a verdict.
type VerdictPart<'p> = &'p dyn Fn(&RecordedVerdict) -> Option<EcoString>;

/// Compares what both runs have of each subject.
struct SubjectComparison<'c, 'r> {
    histories: [&'c History<'r>; 2],
    recorded: &'c [RecordedRun; 2],
    equivalents: Equivalents,
    alignment: ExecutionAlignment<'c, 'r>,
    differences: Vec<Difference>,
    /// Where each difference is, beside the differences.
    compared: Vec<[Option<Address>; 2]>,
    /// The executions of each run that differ.
    differing: [BTreeSet<Address>; 2],
}

impl SubjectComparison<'_, '_> {
    fn changes(&self, left: &Value, right: &Value) -> ValueChanges {
        ValueComparison { equivalents: &self.equivalents, leaves_out: &|_| false }.changes(left, right)
    }

    /// What the runs were given: inputs, imports, the payload and the entries of `context`.
    fn given(&mut self) -> Result<(), InspectError> {
        let [left, right] = self.histories.map(|history| &history.names);
        let of = |value: &Value| -> BTreeMap<EcoString, Value> {
            let entries = value.as_object().into_iter().flat_map(|object| object.iter());
            entries.map(|(key, value)| (key.name().clone(), value.clone())).collect()
        };
        let (inputs, imports) =
            ([of(&left.inputs), of(&right.inputs)], [of(&left.imports), of(&right.imports)]);
        self.named(&inputs, DiffSubject::Input, "inputs");
        self.named(&imports, DiffSubject::Import, "imports");
        let payloads = self.histories.map(|history| history.load(&history.started.payload));
        let [left, right] = payloads;
        let found = self.changes(&left?, &right?);
        self.add(DiffSubject::Payload, "trigger", [None, None], found);
        let entries = [self.entries(0)?, self.entries(1)?];
        self.named(&entries, DiffSubject::Context, "context");
        Ok(())
    }

    /// The entries of `context` that were evaluated, or that are written as values.
    fn entries(&self, side: usize) -> Result<BTreeMap<EcoString, Value>, InspectError> {
        let history = self.histories[side];
        let mut found = history.context(&self.recorded[side].defined)?;
        let written = history.plan.workflow.context.iter().flat_map(|context| &context.entries);
        for (name, value) in
            written.filter_map(|entry| Some((entry.name.clone(), entry.written.value.as_fixed()?)))
        {
            found.entry(name).or_insert_with(|| value.clone());
        }
        // An entry that one run did not need is no difference.
        Ok(found)
    }

    fn named(
        &mut self,
        values: &[BTreeMap<EcoString, Value>; 2],
        subject: impl Fn(EcoString) -> DiffSubject,
        root: &str,
    ) {
        let all: BTreeSet<&EcoString> = values.iter().flat_map(BTreeMap::keys).collect();
        for name in all {
            let found = match (values[0].get(name), values[1].get(name)) {
                (Some(left), Some(right)) => self.changes(left, right),
                // What nobody evaluated has no value.
                (left, right) if root != "context" => ValueChanges {
                    parts: vec![ValueChange {
                        path: String::new(),
                        line: None,
                        left: left.cloned(),
                        right: right.cloned(),
                    }],
                    more: 0,
                },
                _ => continue,
            };
            self.add(subject(name.clone()), &format!("{root}.{name}"), [None, None], found);
        }
    }

    fn exports(&mut self) -> Result<(), InspectError> {
        let exports = |side: usize| {
            let History { reader, info, plan, .. } = self.histories[side];
            let has_ended = self.recorded[side].outcome.is_some() && !plan.workflow.exports.is_empty();
            has_ended
                .then(|| threadline_runner::reload::exports(reader, info))
                .transpose()
                .map_err(|error| crate::error::of_journal(&error))
        };
        if let (Some(left), Some(right)) = (exports(0)?, exports(1)?) {
            let found = self.changes(&left, &right);
            self.add(DiffSubject::Exports, "exports", [None, None], found);
        }
        Ok(())
    }

    /// Adds what is no execution, if it differs.
    fn add(&mut self, subject: DiffSubject, name: &str, at: [Option<Address>; 2], found: ValueChanges) {
        let changes =
            found.parts.into_iter().map(|change| PartChange { what: ChangedPart::Value, change }).collect();
        let side = |at: &Option<Address>| {
            Some(DiffSide { at: at.clone(), event: None, status: None, why: None, attempts: 0 })
        };
        let sides = [side(&at[0]), side(&at[1])];
        self.push(subject, name.to_owned(), at, sides, (changes, found.more));
    }

    fn push(
        &mut self,
        subject: DiffSubject,
        name: String,
        at: [Option<Address>; 2],
        sides: [Option<DiffSide>; 2],
        (changes, more): (Vec<PartChange>, u64),
    ) {
        if changes.is_empty() {
            return;
        }
        let line = at.iter().zip(self.histories).find_map(|(at, history)| {
            let step = at.as_ref()?.step(&history.plan)?;
            let (_, line, _) =
                history.source().place(history.plan.steps[step as usize].step.origin.span.range().start);
            Some(line)
        });
        let (because, more_causes, is_volatile) = (Vec::new(), 0, false);
        self.differences.push(Difference {
            subject,
            name,
            line,
            sides,
            changes,
            more,
            because,
            more_causes,
            is_volatile,
        });
        for (known, at) in self.differing.iter_mut().zip(&at) {
            known.extend(at.clone());
        }
        self.compared.push(at);
    }

    /// Whether something differs that stands in an execution.
    fn differs_inside(&self, side: usize, at: &Address) -> bool {
        let behind = self.differing[side].range(at.clone()..);
        behind.take_while(|known| *known == at || known.is_inside(at)).any(|known| known != at)
    }

    fn name(&self, at: &[Option<Address>; 2]) -> String {
        let sides = at.iter().zip(self.histories).rev();
        let mut names = sides.filter_map(|(at, history)| at.as_ref().map(|at| name_of(history, at)));
        names.next().unwrap_or_default()
    }

    fn subject(&mut self, compared: ComparedSubject) -> Result<(), InspectError> {
        let ComparedSubject { subject, at, .. } = compared;
        match subject {
            DiffSubject::Step => self.step(at),
            DiffSubject::Verdict => {
                self.verdict(at);
                Ok(())
            }
            DiffSubject::Items => self.items(at),
            DiffSubject::Item => {
                self.item(at);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What an execution left.
    fn step(&mut self, at: [Option<Address>; 2]) -> Result<(), InspectError> {
        let end = |side: usize| at[side].as_ref().and_then(|at| self.recorded[side].ends.get(at));
        let ends = [end(0), end(1)];
        let retries = |side: usize| {
            at[side].as_ref().and_then(|at| self.recorded[side].retries.get(at)).copied().unwrap_or(0)
        };
        let status = |side: usize| match ends[side] {
            Some(end) => end.status.name(),
            None if at[side].is_some() => "not ended",
            None => "not reached",
        };
        let sides = [0, 1].map(|side| {
            at[side].as_ref().map(|at| DiffSide {
                at: Some(at.clone()),
                event: ends[side].map(|end| end.seq).or_else(|| self.recorded[side].open.get(at).copied()),
                status: Some(status(side)),
                why: ends[side].and_then(|end| end.why.clone()),
                attempts: retries(side) + 1,
            })
        });
        let (mut changes, mut more) = (Vec::new(), 0);
        let whole = |left: Option<Value>, right: Option<Value>| ValueChange {
            path: String::new(),
            line: None,
            left,
            right,
        };
        if status(0) != status(1) {
            let change = whole(Some(status(0).into()), Some(status(1).into()));
            changes.push(PartChange { what: ChangedPart::Status, change });
        }
        let finished =
            |side: usize| ends[side].filter(|end| matches!(end.status, Status::Completed | Status::Failed));
        match (finished(0), finished(1)) {
            (Some(left), Some(right)) => {
                self.ends((left, right), (&at[0], &at[1]), &mut changes, &mut more)?;
            }
            (left, right) => {
                let value = |side: usize, end: Option<&RecordedEnd>| {
                    end.map(|end| self.histories[side].load(&end.value)).transpose()
                };
                let (left, right) = (value(0, left)?, value(1, right)?);
                let is_said = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
                if is_said(&left) || is_said(&right) {
                    changes.push(PartChange { what: ChangedPart::Value, change: whole(left, right) });
                }
                // Both were skipped, for another reason.
                let why = |side: usize| ends[side].and_then(|end| end.why.as_deref()).map(Value::from);
                if status(0) == status(1) && why(0) != why(1) {
                    changes.push(PartChange { what: ChangedPart::Error, change: whole(why(0), why(1)) });
                }
            }
        }
        if retries(0) != retries(1) && finished(0).is_some() && finished(1).is_some() {
            let attempts = |side: usize| Some(Value::from(retries(side) + 1));
            changes.push(PartChange { what: ChangedPart::Attempts, change: whole(attempts(0), attempts(1)) });
        }
        let name = self.name(&at);
        self.push(DiffSubject::Step, name, at, sides, (changes, more));
        Ok(())
    }

    /// What an execution left in both runs.
    fn ends(
        &self,
        (left, right): (&RecordedEnd, &RecordedEnd),
        at: (&Option<Address>, &Option<Address>),
        changes: &mut Vec<PartChange>,
        more: &mut u64,
    ) -> Result<(), InspectError> {
        let leaves_out = |path: &[PartStep<'_>]| {
            let sides = [(at.0, 0), (at.1, 1)];
            sides.into_iter().any(|(at, side)| {
                at.as_ref().is_some_and(|at| is_made_anew(&self.histories[side].plan, at, path))
            })
        };
        let comparison = ValueComparison { equivalents: &self.equivalents, leaves_out: &leaves_out };
        let load = |left: &Datum, right: &Datum| -> Result<Option<(Value, Value)>, InspectError> {
            if let (Datum::Stored { hash, .. }, Datum::Stored { hash: other, .. }) = (left, right)
                && hash == other
            {
                return Ok(None);
            }
            Ok(Some((self.histories[0].load(left)?, self.histories[1].load(right)?)))
        };
        let mut add = |what: ChangedPart, found: ValueChanges| {
            *more += found.more;
            changes.extend(found.parts.into_iter().map(|change| PartChange { what, change }));
        };
        let small = |left: Option<&Value>, right: Option<&Value>| {
            let null = Value::NULL;
            comparison.changes(left.unwrap_or(&null), right.unwrap_or(&null))
        };
        add(ChangedPart::ExitCode, small(left.exit_code.as_ref(), right.exit_code.as_ref()));
        if let Some((one, other)) = load(&left.value, &right.value)? {
            add(ChangedPart::Value, comparison.changes(&one, &other));
        }
        if left.status == right.status {
            let text = |why: &Option<String>| why.as_deref().map(Value::from);
            let (one, other) = (text(&left.why), text(&right.why));
            add(ChangedPart::Error, small(one.as_ref(), other.as_ref()));
        }
        add(ChangedPart::Model, small(left.model.as_ref(), right.model.as_ref()));
        // How it ended says more than that one printed what the other left.
        if left.status != right.status {
            return Ok(());
        }
        for (what, one, other) in [
            (ChangedPart::Output, &left.output, &right.output),
            (ChangedPart::Stderr, &left.stderr, &right.stderr),
        ] {
            let nothing = Datum::Here(Value::from(""));
            let (one, other) = (one.as_ref().unwrap_or(&nothing), other.as_ref().unwrap_or(&nothing));
            if let Some((one, other)) = load(one, other)? {
                add(what, comparison.changes(&one, &other));
            }
        }
        Ok(())
    }

    fn verdict(&mut self, at: [Option<Address>; 2]) {
        let verdict = |side: usize| at[side].as_ref().and_then(|at| self.recorded[side].verdicts.get(at));
        let sides = [0, 1].map(|side| {
            verdict(side).map(|found| DiffSide {
                at: at[side].clone(),
                event: Some(found.seq),
                status: Some("judged"),
                why: Some(found.reason.to_string()).filter(|reason| !reason.is_empty()),
                attempts: 0,
            })
        });
        let mut changes = Vec::new();
        let text = |side: usize, part: VerdictPart<'_>| {
            verdict(side).and_then(part).map(|text| Value::from(text.as_str()))
        };
        let parts: [(ChangedPart, VerdictPart<'_>); 3] = [
            (ChangedPart::Verdict, &|verdict| Some(verdict.verdict.clone())),
            (ChangedPart::Next, &|verdict| verdict.to.clone()),
            (ChangedPart::Reason, &|verdict| Some(verdict.reason.clone())),
        ];
        for (what, part) in parts {
            let (left, right) = (text(0, part), text(1, part));
            let says_same = match (&left, &right) {
                (Some(left), Some(right)) => self.changes(left, right).parts.is_empty(),
                (left, right) => left == right,
            };
            let is_whole = verdict(0).is_some() && verdict(1).is_some();
            // A state that only goes on is judged by nothing: that it was reached says it all.
            let is_told = what == ChangedPart::Verdict || is_whole;
            if !says_same && is_told {
                let change = ValueChange { path: String::new(), line: None, left, right };
                changes.push(PartChange { what, change });
            }
        }
        // That only one run has the visit says its step, too.
        let is_of_one = !(verdict(0).is_some() && verdict(1).is_some());
        let is_told = |(known, at): (&BTreeSet<Address>, &Option<Address>)| {
            at.as_ref().is_some_and(|at| known.contains(at))
        };
        if is_of_one && self.differing.iter().zip(&at).any(is_told) {
            return;
        }
        let name = self.name(&at);
        self.push(DiffSubject::Verdict, name, at, sides, (changes, 0));
    }

    /// The items of a step.
    fn items(&mut self, at: [Option<Address>; 2]) -> Result<(), InspectError> {
        let [Some(left), Some(right)] = &at else { return Ok(()) };
        let Some(aligned) = self.alignment.items(left, right)? else { return Ok(()) };
        if !aligned.differs() {
            return Ok(());
        }
        let seq = |side: usize, at: &Address| self.recorded[side].lists.get(at).map_or(0, |list| list.seq);
        let lists = [seq(0, left), seq(1, right)];
        let item = |side: usize, index: u64| {
            self.histories[side].item(ItemRef { list: lists[side], index }).map(Some)
        };
        let mut all: Vec<(u64, [bool; 2])> = Vec::new();
        all.extend(aligned.changed.iter().map(|index| (*index, [true, true])));
        all.extend(aligned.only_left.iter().map(|index| (*index, [true, false])));
        all.extend(aligned.only_right.iter().map(|index| (*index, [false, true])));
        all.sort_unstable();
        let more = all.len().saturating_sub(MAX_ITEMS) as u64;
        let mut changes = Vec::new();
        for (index, [in_left, in_right]) in all.into_iter().take(MAX_ITEMS) {
            let left = if in_left { item(0, index)? } else { None };
            let right = if in_right { item(1, index)? } else { None };
            let change = ValueChange { path: format!("[{index}]"), line: None, left, right };
            changes.push(PartChange { what: ChangedPart::Value, change });
        }
        let name = format!("items of {}", self.name(&at));
        let sides = [0, 1].map(|side| {
            Some(DiffSide {
                at: at[side].clone(),
                event: Some(lists[side]),
                status: None,
                why: None,
                attempts: 0,
            })
        });
        self.push(DiffSubject::Items, name, at, sides, (changes, more));
        Ok(())
    }

    /// How an item ended, where no step in it says why it differs.
    fn item(&mut self, at: [Option<Address>; 2]) {
        let [Some(left), Some(right)] = &at else { return };
        let (Some(one), Some(other)) = (self.recorded[0].items.get(left), self.recorded[1].items.get(right))
        else {
            return;
        };
        if one.status == other.status {
            return;
        }
        if self.differs_inside(0, left) || self.differs_inside(1, right) {
            return;
        }
        let change = ValueChange {
            path: String::new(),
            line: None,
            left: Some(one.status.name().into()),
            right: Some(other.status.name().into()),
        };
        let sides = [(left, one), (right, other)].map(|(at, item)| {
            Some(DiffSide {
                at: Some(at.clone()),
                event: Some(item.seq),
                status: Some(item.status.name()),
                why: item.error.as_ref().map(ToString::to_string),
                attempts: 0,
            })
        });
        let name = self.name(&at);
        let changes = vec![PartChange { what: ChangedPart::Status, change }];
        self.push(DiffSubject::Item, name, at, sides, (changes, 0));
    }
}

/// Whether a part of what a step leaves is made anew in each run: how long something took, and the id of a conversation.
fn is_made_anew(plan: &Plan, at: &Address, path: &[PartStep<'_>]) -> bool {
    let Some(step) = at.step(plan) else { return false };
    match (&plan.steps[step as usize].step.action, path) {
        (Action::Agent { .. }, [PartStep::Key(key)]) => *key == names::THREAD_ID,
        (Action::ForEach(_), [PartStep::Key(key)]) => *key == names::DURATION,
        (Action::ForEach(_), [PartStep::Key("results"), PartStep::Index(_), PartStep::Key(key)]) => {
            *key == names::DURATION_MS
        }
        _ => false,
    }
}
