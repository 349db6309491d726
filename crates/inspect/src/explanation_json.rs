//! Explanations as JSON.

use threadline_engine::event::{Address, Datum, Event, EventKind, KeptMaker, Seq, Status};
use threadline_engine::replay::Maker;
use threadline_flow::fields::field_names as names;
use threadline_flow::shell::Delivery;
use threadline_lang::diag::preview;
use threadline_lang::{Explanation, Value};
use threadline_runner::values::load_envelope;

use crate::chain::{overlap, part_read};
use crate::conversation::conversation;
use crate::error::{InspectError, of_journal};
use crate::explanation::{
    AttemptEnd, ExplainedExpression, ExplainedJudgement, ExplainedReference, ExplainedValue,
    FieldExplanation, PartReader, Readers, StepExplanation,
};
use crate::history::{History, time_text};

/// Every evaluation of the steps that the user asked for.
pub fn explanation(
    history: &History<'_>,
    told: &[StepExplanation],
    readers: &Readers,
) -> Result<Value, InspectError> {
    let steps: Result<Vec<Value>, InspectError> =
        told.iter().map(|told| one(history, told, readers)).collect();
    Ok(explanation_of(history, steps?))
}

/// Every evaluation of the steps that the user asked for, and the executions that were skipped before any.
pub fn explanation_with_skipped(
    history: &History<'_>,
    told: &[StepExplanation],
    readers: &Readers,
    skipped_steps: &[(Event, String)],
) -> Result<Value, InspectError> {
    let mut all = Vec::with_capacity(told.len() + skipped_steps.len());
    for told in told {
        all.push((told.seen.seq, one(history, told, readers)?));
    }
    all.extend(skipped_steps.iter().map(|(event, reason)| (event.seq, skipped(history, event, reason))));
    all.sort_by_key(|(seq, _)| *seq);
    Ok(explanation_of(history, all.into_iter().map(|(_, value)| value).collect()))
}

/// Evaluations with the run that they belong to.
pub fn explanation_of(history: &History<'_>, evaluations: Vec<Value>) -> Value {
    Value::record([
        ("run", history.info.id.as_str().into()),
        ("workflow", history.started.workflow.as_str().into()),
        ("file", history.started.file.as_str().into()),
        ("text", history.started.text.to_string().into()),
        ("evaluations", Value::sequence(evaluations)),
    ])
}

/// A step that was skipped before anything of it was evaluated.
pub fn skipped(history: &History<'_>, event: &Event, reason: &str) -> Value {
    let step = event.at.step(&history.plan).map(|step| &history.plan.steps[step as usize]);
    let ended = Value::record([
        ("event", Value::from(event.seq)),
        ("time", time_text(event.time).into()),
        ("status", Status::Skipped.name().into()),
        ("reason", reason.into()),
    ]);
    Value::record([
        ("step", step.map_or(Value::NULL, |step| step.label.as_str().into())),
        ("number", step.map_or(Value::NULL, |step| step.number.as_str().into())),
        ("at", event.at.as_str().into()),
        ("evaluated", Value::NULL),
        ("event", Value::from(event.seq)),
        ("time", time_text(event.time).into()),
        ("fields", Value::sequence([])),
        ("ended", ended),
    ])
}

fn one(history: &History<'_>, told: &StepExplanation, readers: &Readers) -> Result<Value, InspectError> {
    let seen = &told.seen;
    let step = &history.plan.steps[seen.step as usize];
    let fields: Result<Vec<Value>, InspectError> =
        told.fields.iter().map(|shown| field(history, told, shown, readers)).collect();
    let problems = told.problems.iter().map(|problem| problem.message.as_str().into());
    let known = Value::record([
        ("step", step.label.as_str().into()),
        ("number", step.number.as_str().into()),
        ("at", seen.at.as_str().into()),
        ("evaluated", told.evaluated().into()),
        ("attempt", if seen.attempt == 0 { Value::NULL } else { i64::from(seen.attempt).into() }),
        ("attempts_allowed", told.attempts_allowed.map_or(Value::NULL, Value::from)),
        ("item_attempt", seen.item_attempt.map_or(Value::NULL, |attempt| i64::from(attempt).into())),
        ("rerun", seen.rerun.into()),
        ("kept", seen.kept.as_ref().map_or(Ok(Value::NULL), |maker| kept(history, maker))?),
        ("event", Value::from(seen.seq)),
        ("time", time_text(seen.time).into()),
        ("reproducible", told.reproducible.map_or(Value::NULL, Value::from)),
        ("fields", Value::sequence(fields?)),
        ("problems", Value::sequence(problems)),
        ("ended", told.ended.as_ref().map_or(Ok(Value::NULL), |end| ended(history, end))?),
    ]);
    let mut more: Vec<(ecow::EcoString, Value)> = Vec::new();
    more.extend(conversation(history, told)?.map(|conversation| ("conversation".into(), conversation)));
    match (&told.judged, seen.chosen) {
        (Some(judged), _) => more.push(("judged".into(), of_state(history, judged)?)),
        (None, Some(chosen)) => {
            let read = chosen.read.map_or(Value::NULL, Value::from);
            more.push((
                "chosen".into(),
                Value::record([("read", read), ("items", Value::from(chosen.count))]),
            ));
        }
        (None, None) => {}
    }
    let known = known.as_object().into_iter().flat_map(|known| known.iter());
    let known = known.map(|(key, value)| (key.name().clone(), value.clone()));
    Ok(Value::record(known.chain(more)))
}

/// The event that made a result which this run keeps, and whether it belongs to the same text.
fn kept(history: &History<'_>, maker: &KeptMaker) -> Result<Value, InspectError> {
    let KeptMaker { run, event } = maker;
    let same_text = history.has_text_of(run)?;
    Ok(Value::record([
        ("run", run.as_str().into()),
        ("event", Value::from(*event)),
        ("same_text", same_text.into()),
    ]))
}

/// The verdict on a state, and its route.
fn of_state(history: &History<'_>, told: &ExplainedJudgement) -> Result<Value, InspectError> {
    let judged = &told.recorded;
    let load = |datum: Option<&Datum>| datum.map_or(Ok(Value::NULL), |datum| history.load(datum));
    let reply = judged.reply.as_ref();
    Ok(Value::record([
        ("verdict", judged.verdict.as_str().into()),
        ("confidence", judged.confidence.clone().unwrap_or_default()),
        ("reason", judged.reason.as_str().into()),
        ("details", history.load(&judged.details)?),
        ("to", judged.to.as_ref().map_or(Value::NULL, |to| to.as_str().into())),
        ("by", told.by.map_or(Value::NULL, |by| by.text(&judged.verdict).as_str().into())),
        ("answer", load(reply.and_then(|reply| reply.answer.as_ref()))?),
        ("stderr", load(reply.and_then(|reply| reply.stderr.as_ref()))?),
        ("duration_ms", reply.map_or(Value::NULL, |reply| Value::from(reply.elapsed_ms))),
    ]))
}

fn ended(history: &History<'_>, ended: &AttemptEnd) -> Result<Value, InspectError> {
    let meta = |name: &str| ended.output.meta.get(name).cloned();
    let mut entries = vec![
        ("event", Value::from(ended.seq)),
        ("time", time_text(ended.time).into()),
        ("status", ended.output.status.name().into()),
        ("error", meta(names::ERROR).unwrap_or_default()),
        ("retried", ended.retried.into()),
    ];
    entries.extend(meta(names::RUN_ID).map(|run| ("called", run)));
    if ended.output.status == Status::Failed {
        let left = load_envelope(history.reader, &ended.output).map_err(|error| of_journal(&error))?;
        let printed = |name: &str| left.also.as_ref().and_then(|also| also.get(name)).cloned();
        entries.push(("stdout", printed(names::OUTPUT).unwrap_or_default()));
        entries.push(("stderr", printed(names::STDERR).unwrap_or_default()));
    }
    Ok(Value::record(entries))
}

fn field(
    history: &History<'_>,
    told: &StepExplanation,
    field: &FieldExplanation,
    readers: &Readers,
) -> Result<Value, InspectError> {
    let references: Result<Vec<Value>, InspectError> =
        field.references.iter().map(|reference| referenced(history, told, reference, readers)).collect();
    let (line, column) = match field.place {
        Some((line, column)) => (Value::from(line), Value::from(column)),
        None => (Value::NULL, Value::NULL),
    };
    let mut entries = vec![("field", Value::from(field.name.as_str())), ("line", line), ("column", column)];
    match &field.shown {
        ExplainedValue::Nothing => entries.push(("value", Value::NULL)),
        ExplainedValue::Text(text) => entries.push(("value", text.as_str().into())),
        ExplainedValue::Value(value) => entries.push(("value", value.clone())),
        ExplainedValue::Words(words) => {
            let words = words.iter().map(|word| word.value.as_str().into());
            entries.push(("value", Value::sequence(words)));
        }
        ExplainedValue::Shell(bound) => {
            entries.push(("value", bound.text.as_str().into()));
            let variables = bound.variables.iter().map(|variable| {
                let delivery = match variable.delivery {
                    Delivery::Environment => "environment",
                    Delivery::File => "file",
                    Delivery::Path => "path",
                };
                Value::record([
                    ("name", variable.name.as_str().into()),
                    ("value", variable.value.as_str().into()),
                    ("travel", delivery.into()),
                ])
            });
            entries.push(("variables", Value::sequence(variables)));
        }
        ExplainedValue::Expectation { told, .. } => {
            let told = told.iter().map(|outcome| {
                Value::record([
                    ("name", outcome.name.clone().into()),
                    ("result", outcome.answer.name().into()),
                    ("reason", outcome.reason.as_str().into()),
                    ("tree", outcome.tree.to_string().into()),
                ])
            });
            entries.push(("value", Value::sequence(told)));
        }
        ExplainedValue::Condition(explanation) => {
            let value = explanation.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
            entries.push(("value", value.cloned().unwrap_or_default()));
            entries.push(("explanation", tree(explanation)));
        }
    }
    entries.push(("references", Value::sequence(references?)));
    entries.push(("expressions", Value::sequence(field.expressions.iter().map(expression))));
    Ok(Value::record(entries))
}

/// The whole of a `${...}` and what it gave.
fn expression(expression: &ExplainedExpression) -> Value {
    let ExplainedExpression { text, range, value, within, defaulted } = expression;
    Value::record([
        ("text", text.as_str().into()),
        ("line", range.line.into()),
        ("column", range.column.into()),
        ("end_line", range.end_line.into()),
        ("end_column", range.end_column.into()),
        ("type", value.as_ref().map_or(Value::NULL, |value| value.kind().name().into())),
        ("value", value.clone().unwrap_or_default()),
        ("within", within.as_ref().map_or(Value::NULL, |within| within.as_str().into())),
        ("defaulted", (*defaulted).into()),
    ])
}

/// A condition and its parts.
pub fn tree(explanation: &Explanation) -> Value {
    let (value, error) = match &explanation.outcome {
        Some(Ok(value)) => (value.clone(), Value::NULL),
        Some(Err(error)) => (Value::NULL, error.to_string().into()),
        None => (Value::NULL, Value::NULL),
    };
    Value::record([
        ("source", explanation.source.as_str().into()),
        ("evaluated", explanation.outcome.is_some().into()),
        ("value", value),
        ("error", error),
        ("parts", Value::sequence(explanation.parts.iter().map(tree))),
    ])
}

fn referenced(
    history: &History<'_>,
    told: &StepExplanation,
    reference: &ExplainedReference,
    readers: &Readers,
) -> Result<Value, InspectError> {
    let resolution = &reference.resolution;
    let others = readers.get(&reference.maker).into_iter().flatten();
    let part = part_read(resolution, &reference.maker);
    let others = others.filter(|reader| reader.at != told.seen.at && overlap(&reader.part, &part));
    let others = others.map(|reader| reader_json(history, reader));
    let scope = if resolution.scope.is_empty() { Value::NULL } else { resolution.scope.as_str().into() };
    Ok(Value::record([
        ("reference", resolution.reference.as_str().into()),
        ("path", resolution.path.as_str().into()),
        ("line", reference.place.0.into()),
        ("column", reference.place.1.into()),
        ("end_line", reference.range.end_line.into()),
        ("end_column", reference.range.end_column.into()),
        ("defaulted", resolution.defaulted.into()),
        ("scope", scope),
        ("type", resolution.kind().map_or(Value::NULL, |kind| kind.name().into())),
        ("value", resolution.value.clone().unwrap_or_default()),
        ("preview", resolution.value.as_ref().map_or(Value::NULL, |value| preview(value).into())),
        ("within", resolution.within.as_ref().map_or(Value::NULL, |within| within.as_str().into())),
        ("maker", maker(history, told, reference)?),
        ("read_by", Value::sequence(others)),
    ]))
}

fn maker(
    history: &History<'_>,
    told: &StepExplanation,
    reference: &ExplainedReference,
) -> Result<Value, InspectError> {
    let name =
        |name: &Option<ecow::EcoString>| name.as_ref().map_or(Value::NULL, |name| name.as_str().into());
    Ok(match &reference.maker {
        Maker::Event(seq) => made_at(history, "step", *seq)?,
        Maker::Item { list, index } => Value::record([
            ("kind", "item".into()),
            ("index", Value::from(*index)),
            ("list", made_at(history, "foreach", *list)?),
        ]),
        Maker::Input(input) => Value::record([("kind", "input".into()), ("name", name(input))]),
        Maker::Import(import) => {
            let run = import.as_ref().and_then(|name| history.imported_run(name));
            Value::record([
                ("kind", "import".into()),
                ("name", name(import)),
                ("run", run.map_or(Value::NULL, Value::from)),
            ])
        }
        Maker::Context(entry) => {
            let event = entry.as_ref().and_then(|name| told.seen.defined.get(name));
            Value::record([
                ("kind", "context".into()),
                ("name", name(entry)),
                ("event", event.map_or(Value::NULL, |seq| Value::from(*seq))),
            ])
        }
        Maker::Payload => Value::record([("kind", "payload".into())]),
        Maker::Run => Value::record([("kind", "run".into())]),
        Maker::World => Value::record([
            ("kind", "computed".into()),
            ("by", reference.resolution.root.as_str().into()),
            ("event", Value::from(told.seen.seq)),
        ]),
        Maker::Nobody => Value::record([("kind", "nobody".into())]),
    })
}

/// The step whose event it is.
fn made_at(history: &History<'_>, kind: &str, seq: Seq) -> Result<Value, InspectError> {
    let event = history.event(seq)?;
    let status = match &event.kind {
        EventKind::Expanded { .. } => Value::NULL,
        _ => threadline_engine::replay::output_of(&event)
            .map_or(Value::NULL, |output| output.status.name().into()),
    };
    Ok(Value::record([
        ("kind", kind.into()),
        ("step", label(history, &event.at).into()),
        ("at", event.at.as_str().into()),
        ("event", Value::from(seq)),
        ("time", time_text(event.time).into()),
        ("status", status),
    ]))
}

/// A reader of a value: a step, an entry of `context`, or an export.
pub fn reader_json(history: &History<'_>, PartReader { at, field, .. }: &PartReader) -> Value {
    let by_step = !at.is_root();
    Value::record([
        ("step", if by_step { label(history, at).into() } else { Value::NULL }),
        ("at", if by_step { at.as_str().into() } else { Value::NULL }),
        ("field", field.as_str().into()),
    ])
}

/// The name of an execution for people.
pub fn label(history: &History<'_>, at: &Address) -> String {
    crate::labels::label(&history.plan, at).trim_start().to_owned()
}
