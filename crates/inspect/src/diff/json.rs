//! A comparison as JSON.

use threadline_lang::Value;

use super::{DiffCause, DiffSide, Difference, PartChange, RunDiff, SameStep};
use crate::chain::Chains;

/// The words for the two runs in JSON.
const SIDES: [&str; 2] = ["left", "right"];

impl RunDiff {
    /// The comparison, with the chain behind its first difference and in which run that is.
    pub fn value(&self, chain: Option<&(usize, Chains<'_>)>) -> Value {
        let run = |side: usize| {
            let run = &self.runs[side];
            Value::record([
                ("run", Value::from(run.id.as_str())),
                ("workflow", run.workflow.as_str().into()),
                ("file", run.file.as_str().into()),
                ("text", run.text.to_string().into()),
                ("status", run.status.into()),
                ("own_steps", Value::sequence(run.own_steps.iter().map(|step| step.as_str().into()))),
            ])
        };
        let first = self.first.map_or(Value::NULL, |first| {
            let following = self.following(first).into_iter().map(Value::from);
            let (of, links) = match chain {
                Some((side, chain)) => (SIDES[*side].into(), chain.json()),
                None => (Value::NULL, Value::sequence([])),
            };
            Value::record([
                ("difference", Value::from(first)),
                ("following", Value::sequence(following)),
                ("chain_of", of),
                ("chain", links),
            ])
        });
        Value::record([
            ("left", run(0)),
            ("right", run(1)),
            ("same_text", self.has_same_text().into()),
            ("first", first),
            ("differences", Value::sequence(self.differences.iter().map(difference))),
            ("same", Value::sequence(self.same.iter().map(same))),
        ])
    }
}

fn same(same: &SameStep) -> Value {
    Value::record([("step", Value::from(same.step.as_str())), ("count", Value::from(same.count))])
}

fn difference(difference: &Difference) -> Value {
    let Difference { subject, name, line, sides, changes, more, because, more_causes, is_volatile } =
        difference;
    Value::record([
        ("kind", subject.kind().into()),
        ("name", name.as_str().into()),
        ("line", line.map_or(Value::NULL, Value::from)),
        ("left", sides[0].as_ref().map_or(Value::NULL, side)),
        ("right", sides[1].as_ref().map_or(Value::NULL, side)),
        ("changes", Value::sequence(changes.iter().map(change))),
        ("more_changes", Value::from(*more)),
        ("because", Value::sequence(because.iter().map(cause))),
        ("more_causes", Value::from(*more_causes)),
        ("made_anew", (*is_volatile).into()),
    ])
}

fn side(side: &DiffSide) -> Value {
    let DiffSide { at, event, status, why, attempts } = side;
    Value::record([
        ("at", at.as_ref().map_or(Value::NULL, |at| at.as_str().into())),
        ("event", event.map_or(Value::NULL, Value::from)),
        ("status", status.map_or(Value::NULL, Value::from)),
        ("why", why.as_deref().map_or(Value::NULL, Value::from)),
        ("attempts", if *attempts == 0 { Value::NULL } else { Value::from(*attempts) }),
    ])
}

fn change(change: &PartChange) -> Value {
    let found = &change.change;
    let mut entries = vec![
        ("what", Value::from(change.what.name())),
        ("path", found.path.as_str().into()),
        ("text_line", found.line.map_or(Value::NULL, Value::from)),
    ];
    // A part that a run does not have is not null.
    entries.extend(found.left.clone().map(|left| ("left_value", left)));
    entries.extend(found.right.clone().map(|right| ("right_value", right)));
    Value::record(entries)
}

fn cause(cause: &DiffCause) -> Value {
    let DiffCause { kind, reference, field, maker, place, values: [left, right], of } = cause;
    let mut entries = vec![
        ("kind", Value::from(kind.name())),
        ("reference", reference.as_str().into()),
        ("field", field.as_str().into()),
        ("maker", maker.as_str().into()),
        ("line", place.map_or(Value::NULL, |(line, _)| line.into())),
        ("column", place.map_or(Value::NULL, |(_, column)| column.into())),
        ("difference", of.map_or(Value::NULL, Value::from)),
    ];
    entries.extend(left.clone().map(|left| ("left_value", left)));
    entries.extend(right.clone().map(|right| ("right_value", right)));
    Value::record(entries)
}
