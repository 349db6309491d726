//! `threadline schema`: the JSON Schema of what Threadline reads and writes.

use threadline_engine::event::Status;
use threadline_engine::machine::Outcome;
use threadline_flow::fields::{FailureKind, META, NodeType, OutputField};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Value};
use threadline_store::wire;

use super::{output_schemas, print};
use crate::arguments::{SchemaArguments, SchemaKind};
use crate::exit::CommandFailure;

pub(crate) fn schema(call: &SchemaArguments) -> Result<(), CommandFailure> {
    let schema = match call.kind {
        SchemaKind::Workflow => threadline_flow::fields::schema(),
        SchemaKind::Envelope => envelope(),
        SchemaKind::Events => events(),
        SchemaKind::Expectations => threadline_expect::schema(),
        SchemaKind::Outcomes => outcomes(),
        SchemaKind::FailedItems => failed_items(),
        SchemaKind::Simulation => simulation(),
        SchemaKind::Runs => output_schemas::runs(),
        SchemaKind::Explanation => output_schemas::explanation(),
        SchemaKind::Chain => output_schemas::chain(),
        SchemaKind::Names => output_schemas::names(),
        SchemaKind::Preview => output_schemas::preview(),
        SchemaKind::Problems => output_schemas::problems(),
        SchemaKind::Tools => output_schemas::tools(),
        SchemaKind::Logs => output_schemas::logs(),
        SchemaKind::Cleaning => output_schemas::cleaning(),
        SchemaKind::Continuation => continuation(),
    };
    print(&format!("{}\n", schema.to_json(JsonStyle::Pretty)))
}

pub(super) type Entries = Vec<(&'static str, Value)>;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    Value::sequence(words.into_iter().map(Value::from))
}

/// Something of a type, and what it means.
pub(super) fn typed(kind: &str, about: &str) -> Value {
    Value::record([("type", kind.into()), ("description", about.into())])
}

pub(super) fn any(about: &str) -> Value {
    Value::record([("description", about.into())])
}

pub(super) fn one_of<'a>(choices: impl IntoIterator<Item = &'a str>, about: &str) -> Value {
    Value::record([("enum", words(choices)), ("description", about.into())])
}

pub(super) fn an_object(properties: Entries, required: &[&str], open: bool) -> Value {
    let mut object = vec![
        ("type", Value::from("object")),
        ("properties", Value::record(properties)),
        ("required", words(required.iter().copied())),
    ];
    if !open {
        object.push(("additionalProperties", false.into()));
    }
    Value::record(object)
}

/// A field of the table of outputs.
fn property(field: &'static OutputField) -> (&'static str, Value) {
    let schema = match (field.name, field.kind) {
        ("node_type", _) => one_of(NodeType::ALL.map(NodeType::name), field.doc),
        ("status", _) => one_of(Status::ALL.map(Status::name), field.doc),
        ("error_type", _) => one_of(FailureKind::ALL.map(FailureKind::name), field.doc),
        (_, None) => any(field.doc),
        // A map that failed writes null for what it cannot count.
        (_, Some(kind)) if matches!(field.name, "duration" | "success_rate" | "branch") => {
            or_null(type_word(kind), field.doc)
        }
        (_, Some(kind)) => typed(type_word(kind), field.doc),
    };
    (field.name, schema)
}

fn type_word(kind: Type) -> &'static str {
    match kind {
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Int => "integer",
        Type::Decimal => "number",
        Type::Text => "string",
        Type::List => "array",
        Type::Object => "object",
    }
}

/// Every field that the `meta` of a step can have.
fn meta() -> Entries {
    let mut fields: Entries = META.iter().map(property).collect();
    for field in NodeType::ALL.into_iter().flat_map(NodeType::meta) {
        if !fields.iter().any(|(name, _)| *name == field.name) {
            fields.push(property(field));
        }
    }
    fields
}

fn envelope() -> Value {
    let required: Vec<&str> = META.iter().filter(|field| !field.optional).map(|field| field.name).collect();
    let properties = vec![("value", any("the result, typed")), ("meta", an_object(meta(), &required, true))];
    let body = an_object(properties, &["value", "meta"], false);
    described("What a step leaves", &body)
}

/// A schema with its title before it.
pub(super) fn described(title: &str, body: &Value) -> Value {
    let head = [("$schema".into(), Value::from(DRAFT)), ("title".into(), title.into())];
    let body = body.as_object().into_iter().flat_map(|body| body.iter());
    let body = body.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(head.into_iter().chain(body))
}

fn events() -> Value {
    let kinds = wire::KINDS
        .map(|(kind, about)| Value::record([("const", kind.into()), ("description", about.into())]));
    let kind = Value::record([("oneOf", Value::sequence(kinds.to_vec()))]);
    let properties = vec![
        ("run", typed("string", "the id of the run, where a step called it; left out for the run itself")),
        ("seq", typed("integer", "the number of the event in its run, from 1")),
        ("time", typed("string", "when, RFC 3339, UTC")),
        ("kind", kind),
        ("at", typed("string", "which execution of which step, such as `3` or `5[17]/1`")),
        ("step", typed("string", "the label of the step")),
        ("data", typed("object", "what the event says, as the journal has it")),
    ];
    described(
        "A line of `run --json` and `show --json`",
        &an_object(properties, &["seq", "time", "kind", "data"], false),
    )
}

fn outcomes() -> Value {
    let results = ["met", "unmet", "not_evaluable"];
    let line = vec![
        ("result", one_of(results.into_iter().chain(["not_evaluated"]), "what the line came to")),
        ("path", typed("string", "where in the actual document it looked")),
        ("operator", typed("string", "the field, operator or logic as it is written")),
        ("expected", any("what it compared with")),
        ("actual", any("what it found; left out where there is nothing")),
        ("reason", typed("string", "one sentence")),
        ("vacuous", typed("boolean", "whether it is met only because nothing was asked")),
        ("score", typed("number", "the share of the weight that is met, where it was asked for")),
        (
            "children",
            Value::record([
                ("type", "array".into()),
                ("items", Value::record([("$ref", "#/$defs/line".into())])),
            ]),
        ),
    ];
    let line = an_object(line, &["result", "path", "operator", "reason"], false);
    let outcome = vec![
        ("name", typed("string", "what the expectation is called")),
        ("result", one_of(results, "what it came to")),
        ("reason", typed("string", "why, in one sentence")),
        ("tree", Value::record([("$ref", "#/$defs/line".into())])),
    ];
    let outcome = an_object(outcome, &["name", "result", "reason", "tree"], false);
    let body = Value::record([
        ("type", "array".into()),
        ("items", outcome),
        ("$defs", Value::record([("line", line)])),
    ]);
    described("What `expect --format json` prints", &body)
}

/// Something of a type, or null.
pub(super) fn or_null(kind: &str, about: &str) -> Value {
    Value::record([("type", words([kind, "null"])), ("description", about.into())])
}

pub(super) fn listed(items: Value, about: &str) -> Value {
    Value::record([("type", "array".into()), ("items", items), ("description", about.into())])
}

fn simulation() -> Value {
    let visit = vec![
        ("at", typed("string", "which execution, such as `check#3`")),
        ("state", typed("string", "the state")),
        ("iteration", typed("integer", "which iteration, from 1")),
        ("verdict", typed("string", "what it came to")),
        ("reason", typed("string", "why")),
        ("judged", typed("boolean", "whether it was judged as in a run; otherwise the verdict was invented")),
        ("to", or_null("string", "the state that follows; null at the end, and where there is no route")),
    ];
    let visit = an_object(visit, &["at", "state", "iteration", "verdict", "reason", "judged", "to"], false);
    let outcomes = Outcome::ALL.map(Outcome::name).into_iter().chain(["given_up"]);
    let state = typed("string", "the state");
    let cycle = Value::record([
        ("type", words(["array", "null"])),
        ("items", state.clone()),
        ("description", "the states that were repeated until a limit ended the walk".into()),
    ]);
    let walk = vec![
        ("outcome", one_of(outcomes, "how it ended")),
        (
            "reason",
            or_null(
                "string",
                "why it ended: `terminal`, or the key of a limit; null when a verdict had no route",
            ),
        ),
        ("state", or_null("string", "the state it ended with, or would have gone on with")),
        ("limit", or_null("integer", "the limit that was reached: a number, or milliseconds")),
        ("iterations", typed("integer", "how many iterations were begun")),
        ("steps", typed("integer", "how many states were executed")),
        ("cycle", cycle),
        ("visits", listed(visit, "every state that was executed")),
    ];
    let required = ["outcome", "reason", "state", "limit", "iterations", "steps", "cycle", "visits"];
    let walk = an_object(walk, &required, false);
    let of_state =
        vec![("state", state), ("visits", typed("integer", "how often it was executed, in all walks"))];
    let of_state = an_object(of_state, &["state", "visits"], false);
    let way = vec![
        ("from", typed("string", "the state it leads from")),
        ("to", typed("string", "the state it leads to")),
        (
            "by",
            listed(
                typed("string", "a verdict, `_`, or a condition"),
                "what leads there; empty when everything does",
            ),
        ),
        ("taken", typed("integer", "how often it was taken, in all walks")),
    ];
    let way = an_object(way, &["from", "to", "by", "taken"], false);
    let properties = vec![
        ("workflow", typed("string", "the name of the loop")),
        ("seed", or_null("integer", "the seed of random verdicts")),
        ("walks", listed(walk, "the walks")),
        ("states", listed(of_state, "every state of the file")),
        ("ways", listed(way, "every way of the file")),
    ];
    let required = ["workflow", "seed", "walks", "states", "ways"];
    described("What `simulate --json` prints", &an_object(properties, &required, false))
}

fn continuation() -> Value {
    let execution = vec![
        ("at", typed("string", "which execution, such as `3` or `map[17]/1`")),
        ("why", one_of(super::forecast_text::REASON_WORDS, "why it runs")),
        ("reads", or_null("string", "the step whose result it reads, where that is the reason")),
    ];
    let execution = an_object(execution, &["at", "why", "reads"], false);
    let items = Value::record([
        ("type", words(["object", "null"])),
        (
            "properties",
            Value::record([
                ("known", typed("boolean", "whether the items are known before the run")),
                ("kept", typed("integer", "items that keep all their results")),
                ("again", typed("integer", "items of which something runs")),
            ]),
        ),
        ("required", words(["known"])),
        ("additionalProperties", false.into()),
        ("description", "of a step with items".into()),
    ]);
    let step = vec![
        ("step", typed("string", "the label of the step")),
        ("number", typed("string", "its number in the file")),
        ("kept", typed("integer", "executions whose results are kept")),
        ("again", typed("integer", "executions that run")),
        ("executions", listed(execution, "some of those that run")),
        ("items", items),
    ];
    let step = an_object(step, &["step", "number", "kept", "again", "executions", "items"], false);
    let properties = vec![
        ("continues", typed("string", "the id of the earlier run")),
        ("workflow", typed("string", "the name of the workflow")),
        ("steps", listed(step, "the steps, in the order of the file")),
        ("loop_from", or_null("string", "the visit from which on a loop goes its way anew")),
        ("steps_kept", typed("integer", "kept executions outside of items")),
        ("steps_again", typed("integer", "executions outside of items that run")),
        ("items_kept", typed("integer", "items that keep all their results")),
        ("items_again", typed("integer", "items of which something runs")),
    ];
    let required = [
        "continues",
        "workflow",
        "steps",
        "loop_from",
        "steps_kept",
        "steps_again",
        "items_kept",
        "items_again",
    ];
    described(
        "What `resume --edited --dry-run --json` and `rerun --dry-run --json` print",
        &an_object(properties, &required, false),
    )
}

fn failed_items() -> Value {
    let properties = vec![
        ("at", typed("string", "the item, such as `map[17]`; 17 is its index")),
        ("index", typed("integer", "which item of its list, from 0")),
        ("item", any("its value")),
        (
            "step",
            or_null(
                "string",
                "the execution that failed, such as `map[17]/2`; null when all its steps did well",
            ),
        ),
        ("error", typed("string", "why it failed")),
        ("attempts", typed("integer", "which attempt it was, from 1")),
        ("duration_ms", typed("integer", "how long that attempt took, in milliseconds")),
        ("branch", or_null("string", "the branch that keeps its commits, where there is one")),
    ];
    let required = ["at", "index", "item", "step", "error", "attempts", "duration_ms", "branch"];
    described("A line of `show --failed --json`", &an_object(properties, &required, false))
}
