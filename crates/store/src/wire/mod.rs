//! The stored format of events: a kind and a JSON object each. The engine's types may change without it.
//!
//! An object is written and read by two functions that stand beside each other. A key that the reader does not know is
//! an error: a journal that says more than this program understands is never read as if it said less.

mod datum;
mod fields;
mod items;
mod loops;
mod run;
mod step;

use std::fmt;

use threadline_engine::event::{EventKind, Listed, Rules};
use threadline_engine::machine::Outcome;
use threadline_engine::visits::EventSort;
use threadline_lang::{Limits, Value, data};

pub(crate) use self::datum::SHALLOW;
pub use self::datum::{DatumForm, StoredForm, datum, read_datum, value_of, value_text};
pub use self::fields::StoredFields;
use self::fields::{FieldReader, FieldResult, hash};
use self::items::{item_ended_fields, read_item_ended, read_rules, rules_value};
use self::loops::{judged_fields, limits_value, loop_end_fields, read_judged, read_limits, read_loop_end};
use self::run::{budgets_field, read_budgets, read_run_started, run_started_fields};
use self::step::{
    computed_list, kept_value, output_value, read_computed_list, read_kept, read_output, read_spent,
    spent_field,
};

/// Why a stored event cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The kind of the event.
    pub kind: String,
    /// What is wrong, in words.
    pub why: String,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event `{}` of the journal cannot be read: {}", self.kind, self.why)
    }
}

impl std::error::Error for WireError {}

/// Every kind of event, with what it says, for the published schema.
pub const KINDS: [(&str, &str); 20] = [
    (
        "run_started",
        "the run began: its id, the workflow, the file and the hash of its text, inputs, settings, folder",
    ),
    ("decided", "a `when` is true"),
    ("skipped", "a `when` is false: the step does not run"),
    ("expanded", "the items of a `foreach` or a map are known"),
    ("item_retrying", "an item failed and begins again later"),
    ("item_begun", "an item that failed begins again"),
    ("item_ended", "an item is over: its result, its error, its attempts"),
    ("started", "an attempt of a step begins"),
    ("defined", "an entry of `context` was evaluated, for the whole run"),
    ("exchanged", "an agent called a tool, a tool was called, or the agent is asked for another answer"),
    ("call_lost", "a call of an agent broke off, and is counted"),
    ("retrying", "an attempt failed, another begins later"),
    ("unresolved", "a condition, list or field has no value: the step failed before it began"),
    ("finished", "a step is done: its value and meta data"),
    ("bounded", "the limits of the run are known: its steps begin"),
    ("judged", "a state was judged: its verdict, why, and the state that follows"),
    ("outcome_known", "the steps of the run have ended: how, why, and how long they took"),
    ("paused", "the run stopped before its end"),
    ("resumed", "the run goes on"),
    ("run_ended", "the run is over"),
];

/// What the kind of a stored event tells of it.
pub fn sort_of(kind: &str) -> EventSort {
    match kind {
        "finished" | "unresolved" => EventSort::Sets,
        "skipped" => EventSort::Skips,
        "judged" => EventSort::Judges,
        "outcome_known" | "run_ended" => EventSort::Ends,
        "resumed" => EventSort::Resumes,
        _ => EventSort::Other,
    }
}

/// The kind of an event, and its payload as JSON.
pub fn encode(event: &EventKind) -> (&'static str, String) {
    let Ok((kind, fields)) = fields_of(event, &StoredForm);
    (kind, Value::fields_to_json(&fields))
}

/// The event of a kind and a payload.
pub fn decode(kind: &str, payload: &str) -> Result<EventKind, WireError> {
    let failed = |why: String| WireError { kind: kind.to_owned(), why };
    let value =
        data::json::read_value(payload, &Limits::DEFAULT).map_err(|error| failed(error.to_string()))?;
    FieldReader::read_all(&value, |reader| read_event(kind, reader)).map_err(failed)
}

/// The kind of an event, and its fields with their values in a form.
pub fn fields_of<F: DatumForm>(
    event: &EventKind,
    form: &F,
) -> Result<(&'static str, StoredFields), F::Error> {
    Ok(match event {
        EventKind::RunStarted(started) => ("run_started", run_started_fields(started, form)?),
        EventKind::Decided { as_of, computed } => {
            ("decided", vec![("as_of", Value::from(*as_of)), ("computed", computed_list(computed, form)?)])
        }
        EventKind::Skipped { as_of, computed, output } => (
            "skipped",
            vec![
                ("as_of", Value::from(*as_of)),
                ("computed", computed_list(computed, form)?),
                ("output", output_value(output, form)?),
            ],
        ),
        EventKind::Expanded { as_of, computed, items, count, read, parallel, rules, source } => {
            let mut fields = vec![
                ("as_of", Value::from(*as_of)),
                ("computed", computed_list(computed, form)?),
                match items {
                    Listed::Whole(items) => ("items", form.value(items)?),
                    Listed::Chunks(index) => match form.elements(index)? {
                        Some(items) => ("items", items),
                        None => ("chunks", datum(index)),
                    },
                },
                ("count", Value::from(*count)),
                ("parallel", Value::from(*parallel)),
            ];
            fields.extend(read.map(|read| ("read", Value::from(read))));
            if *rules != Rules::STRICT {
                fields.push(("rules", rules_value(rules)));
            }
            fields.extend(source.as_ref().map(|source| ("source", hash(source))));
            ("expanded", fields)
        }
        EventKind::ItemRetrying { error, until } => {
            ("item_retrying", vec![("error", Value::from(error)), ("until", (*until).into())])
        }
        EventKind::ItemBegun { attempt } => ("item_begun", vec![("attempt", Value::from(*attempt))]),
        EventKind::ItemEnded(ended) => ("item_ended", item_ended_fields(ended, form)?),
        EventKind::Started { as_of, attempt, rerun, computed, fields, work } => {
            let mut stored = vec![
                ("as_of", Value::from(*as_of)),
                ("attempt", Value::from(*attempt)),
                ("rerun", (*rerun).into()),
                ("computed", computed_list(computed, form)?),
                ("fields", hash(fields)),
            ];
            stored.extend(work.as_ref().map(|work| ("work", hash(work))));
            ("started", stored)
        }
        EventKind::Defined { name, value, computed } => (
            "defined",
            vec![
                ("name", Value::from(name)),
                ("value", form.value(value)?),
                ("computed", computed_list(computed, form)?),
            ],
        ),
        EventKind::Exchanged { number, held, calls, output } => {
            let mut fields =
                vec![("number", u64::from(*number).into()), ("output", output_value(output, form)?)];
            fields.extend(held.then(|| ("held", true.into())));
            fields.extend(calls.then(|| ("calls", true.into())));
            ("exchanged", fields)
        }
        EventKind::CallLost { spent, goes_on } => {
            ("call_lost", vec![("spent", spent.value()), ("goes_on", (*goes_on).into())])
        }
        EventKind::Retrying { output, until, keeps_exchanges } => {
            let mut fields = vec![("output", output_value(output, form)?), ("until", (*until).into())];
            fields.extend(keeps_exchanges.then(|| ("keeps_exchanges", true.into())));
            ("retrying", fields)
        }
        EventKind::Unresolved { as_of, computed, output } => (
            "unresolved",
            vec![
                ("as_of", Value::from(*as_of)),
                ("computed", computed_list(computed, form)?),
                ("output", output_value(output, form)?),
            ],
        ),
        EventKind::Finished { output, results, kept } => {
            let mut fields = vec![("output", output_value(output, form)?)];
            if let Some(index) = results {
                fields.push(("results", form.elements(index)?.unwrap_or_else(|| datum(index))));
            }
            if let Some(kept) = kept {
                fields.push(("kept", kept_value(kept, form)?));
            }
            ("finished", fields)
        }
        EventKind::Paused { reason, failed_items, spent } => {
            let mut fields = vec![("reason", Value::from(reason))];
            fields.extend(failed_items.map(|count| ("failed_items", Value::from(count))));
            fields.extend(spent_field(spent.as_deref()));
            ("paused", fields)
        }
        EventKind::Resumed { failed, budgets, jobs } => {
            let failed = failed.then(|| ("failed", true.into()));
            let jobs = jobs.map(|jobs| ("jobs", Value::from(jobs)));
            let fields = failed.into_iter().chain(budgets_field(budgets)).chain(jobs);
            ("resumed", fields.collect())
        }
        EventKind::LimitsResolved { computed, limits } => {
            ("bounded", vec![("computed", computed_list(computed, form)?), ("bounds", limits_value(limits))])
        }
        EventKind::Judged(judged) => ("judged", judged_fields(judged, form)?),
        EventKind::OutcomeKnown { outcome, run } => {
            ("outcome_known", vec![("outcome", Value::from(outcome.name())), ("run", form.value(run)?)])
        }
        EventKind::RunEnded { outcome, exports, ended, failed_items, spent } => {
            let mut fields =
                vec![("outcome", Value::from(outcome.name())), ("exports", form.value(exports)?)];
            fields.extend(ended.iter().flat_map(loop_end_fields));
            fields.extend(failed_items.map(|count| ("failed_items", Value::from(count))));
            fields.extend(spent_field(spent.as_deref()));
            ("run_ended", fields)
        }
    })
}

fn read_event(kind: &str, reader: &mut FieldReader<'_>) -> FieldResult<EventKind> {
    Ok(match kind {
        "run_started" => EventKind::RunStarted(read_run_started(reader)?),
        "decided" => {
            EventKind::Decided { as_of: reader.count("as_of")?, computed: read_computed_list(reader)? }
        }
        "skipped" => EventKind::Skipped {
            as_of: reader.count("as_of")?,
            computed: read_computed_list(reader)?,
            output: read_output(reader)?,
        },
        "expanded" => EventKind::Expanded {
            as_of: reader.count("as_of")?,
            computed: read_computed_list(reader)?,
            items: match reader.optional("chunks") {
                Some(index) => Listed::Chunks(read_datum(index)?),
                None => Listed::Whole(read_datum(reader.value("items")?)?),
            },
            count: reader.count("count")?,
            read: reader.optional_count("read")?,
            parallel: reader.count("parallel")?,
            rules: reader.optional("rules").map_or(Ok(Rules::STRICT), read_rules)?,
            source: reader.optional_hash("source")?,
        },
        "item_retrying" => {
            EventKind::ItemRetrying { error: reader.text("error")?.into(), until: reader.int("until")? }
        }
        "item_begun" => EventKind::ItemBegun { attempt: reader.attempt("attempt")? },
        "item_ended" => EventKind::ItemEnded(read_item_ended(reader)?),
        "started" => EventKind::Started {
            as_of: reader.count("as_of")?,
            attempt: reader.attempt("attempt")?,
            rerun: reader.bool("rerun")?,
            computed: read_computed_list(reader)?,
            fields: reader.hash("fields")?,
            work: reader.optional_hash("work")?,
        },
        "defined" => EventKind::Defined {
            name: reader.text("name")?.into(),
            value: read_datum(reader.value("value")?)?,
            computed: read_computed_list(reader)?,
        },
        "exchanged" => EventKind::Exchanged {
            number: u32::try_from(reader.count("number")?).map_err(|_| "`number` is too large".to_owned())?,
            held: reader.has("held") && reader.bool("held")?,
            calls: reader.has("calls") && reader.bool("calls")?,
            output: read_output(reader)?,
        },
        "call_lost" => EventKind::CallLost {
            spent: read_spent(reader)?.ok_or_else(|| "`spent` is missing".to_owned())?,
            goes_on: reader.bool("goes_on")?,
        },
        "retrying" => EventKind::Retrying {
            output: read_output(reader)?,
            until: reader.int("until")?,
            // Journals from before conversations do not say it.
            keeps_exchanges: reader
                .optional("keeps_exchanges")
                .is_some_and(|value| value.as_bool() == Some(true)),
        },
        "unresolved" => EventKind::Unresolved {
            as_of: reader.count("as_of")?,
            computed: read_computed_list(reader)?,
            output: read_output(reader)?,
        },
        "finished" => EventKind::Finished {
            output: read_output(reader)?,
            results: reader.optional("results").map(read_datum).transpose()?,
            kept: reader.optional("kept").map(read_kept).transpose()?.map(Box::new),
        },
        "paused" => EventKind::Paused {
            reason: reader.text("reason")?.into(),
            failed_items: reader.optional_count("failed_items")?,
            spent: read_spent(reader)?,
        },
        "resumed" => EventKind::Resumed {
            failed: reader.has("failed") && reader.bool("failed")?,
            budgets: read_budgets(reader)?,
            jobs: reader.optional_count("jobs")?,
        },
        "run_ended" => EventKind::RunEnded {
            outcome: read_outcome(reader)?,
            exports: read_datum(reader.value("exports")?)?,
            ended: read_loop_end(reader)?,
            failed_items: reader.optional_count("failed_items")?,
            spent: read_spent(reader)?,
        },
        "bounded" => EventKind::LimitsResolved {
            computed: read_computed_list(reader)?,
            limits: read_limits(reader.value("bounds")?)?,
        },
        "outcome_known" => {
            EventKind::OutcomeKnown { outcome: read_outcome(reader)?, run: read_datum(reader.value("run")?)? }
        }
        "judged" => EventKind::Judged(Box::new(read_judged(reader)?)),
        _ => return Err("this program does not know the kind".to_owned()),
    })
}

fn read_outcome(reader: &mut FieldReader<'_>) -> FieldResult<Outcome> {
    let name = reader.text("outcome")?;
    let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
    known.ok_or_else(|| format!("there is no outcome `{name}`"))
}
