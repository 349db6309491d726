//! The JSON Schemas of what commands print with `--json`. A test holds every case with `--json` against them.

use threadline_engine::event::Status;
use threadline_engine::machine::Outcome;
use threadline_lang::{Type, Value};
use threadline_store::wire;

use super::schema::{SchemaProperties, an_object, any, described, listed, one_of, or_null, typed, words};
use threadline_inspect::diff::{CauseKind, ChangedPart};
use threadline_inspect::run_state::Standing;
use threadline_inspect::runs::RunStatus;

/// A run of a list.
pub(super) fn run() -> Value {
    let ended = vec![
        ("reason", typed("string", "why the loop ended: `terminal`, or the key of a limit")),
        ("state", typed("string", "the state it ended with, or would have gone on with")),
        ("limit", or_null("integer", "the limit that was reached: a number, or milliseconds")),
    ];
    let run = vec![
        ("run", typed("string", "the id of the run")),
        ("workflow", typed("string", "the name of the workflow")),
        ("file", typed("string", "the file of the workflow")),
        ("status", one_of(RunStatus::ALL.map(RunStatus::name), "how the run is, or ended")),
        ("started_at", typed("string", "when it began, RFC 3339, UTC")),
        ("ended_at", or_null("string", "when its last event happened; null while it goes on")),
        ("duration_ms", or_null("integer", "the time from its first event to its last, or until now")),
        ("events", typed("integer", "the number of its events")),
        ("inputs", any("what it was given; null where that is too large for a list")),
        ("error", failure_of_run()),
        ("steps", standing_counts("how its steps outside of items stand, with `--details`")),
        ("items", standing_counts("how its items stand, with `--details`")),
        ("paused", typed("string", "why it is paused")),
        ("caller", typed("string", "the id of the run that called it")),
        (
            "failed_items",
            or_null(
                "integer",
                "how many items are failed; null before its end, and of runs of \
            earlier versions",
            ),
        ),
        ("spent", spent("what it spent on agents; null before its end", true)),
        ("ended", an_object(ended, &["reason", "state", "limit"], false)),
        ("continues", typed("string", "the id of the run whose results it keeps")),
    ];
    let required = [
        "run",
        "workflow",
        "file",
        "status",
        "started_at",
        "ended_at",
        "duration_ms",
        "events",
        "inputs",
        "failed_items",
        "spent",
    ];
    an_object(run, &required, true)
}

pub(super) fn runs() -> Value {
    let properties = vec![
        ("runs", listed(run(), "the runs, the newest first")),
        ("next", or_null("string", "the last of them, for `--after`, where more are behind it")),
        ("store_bytes", typed("integer", "the size of the store on disk")),
    ];
    let body = an_object(properties, &["runs", "next", "store_bytes"], true);
    described("What `runs --json` prints", &body)
}

/// The step of a run that failed first.
fn failure_of_run() -> Value {
    let fields = vec![
        ("step", typed("string", "the step that failed first and was not made good")),
        ("message", typed("string", "the first line of its error")),
    ];
    let of_step = an_object(fields, &["step", "message"], false);
    Value::record([(
        "anyOf",
        Value::sequence([of_step, typed("null", "nothing failed, or all was made good")]),
    )])
}

/// How many executions or items stand in which way.
fn standing_counts(about: &str) -> Value {
    let mut counts = vec![("total", typed("integer", "how many they are"))];
    counts.extend(Standing::ALL.map(|standing| (standing.name(), typed("integer", standing.words()))));
    let counts = an_object(counts, &["total"], false);
    let fields = counts.as_object().into_iter().flat_map(|object| object.iter());
    let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(fields.chain([("description".into(), about.into())]))
}

pub(super) fn state() -> Value {
    let step = vec![
        ("step", typed("string", "the step, with its visit")),
        ("number", typed("string", "its number among all steps of the file")),
        ("at", or_null("string", "which execution of it; null if it has not begun")),
        ("standing", one_of(Standing::ALL.map(Standing::name), "how it stands")),
        ("attempts", typed("integer", "how many attempts have begun")),
        ("began", or_null("string", "when the first of them began")),
        ("ended", or_null("string", "when it ended")),
        ("until", or_null("string", "when the next attempt begins, where one is waited for")),
        ("items", standing_counts("how its items stand")),
    ];
    let required = ["step", "number", "at", "standing", "attempts", "began", "ended", "until"];
    let inside = vec![
        ("step", typed("string", "the step")),
        ("number", typed("string", "its number among all steps of the file")),
        ("executions", standing_counts("how its executions stand that have begun")),
    ];
    let inside = an_object(inside, &["step", "number", "executions"], false);
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("event", typed("integer", "the event after which it was like this")),
        ("events", typed("integer", "the number of its events")),
        ("time", or_null("string", "the time of that event")),
        ("status", one_of(["running", "paused", "completed", "failed", "stopped"], "how the run was")),
        ("steps", listed(an_object(step, &required, false), "the steps outside of items")),
        ("inside", listed(inside, "the steps in items")),
    ];
    let required = ["run", "event", "events", "time", "status", "steps", "inside"];
    described("What `show --at EVENT --json` prints", &an_object(properties, &required, false))
}

pub(super) fn items() -> Value {
    let row = vec![
        ("at", typed("string", "the address of the item")),
        ("index", typed("integer", "its index, from 0")),
        ("standing", one_of(Standing::ALL.map(Standing::name), "how it stands")),
        ("item", any("the item")),
        ("preview", typed("string", "the item in short, for people")),
        ("attempts", typed("integer", "how many attempts of it as a whole have begun")),
        ("step_attempts", typed("integer", "the largest number of attempts that one of its steps took")),
        ("began", or_null("string", "when it began")),
        ("ended", or_null("string", "when it ended")),
        ("duration_ms", or_null("integer", "the time between")),
        ("error", or_null("string", "why it failed")),
        ("result", any("what its last step left")),
    ];
    let required: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
    let group = vec![
        ("shape", typed("string", "what their errors have in common; `…` stands for what differs")),
        ("count", typed("integer", "how many items failed like this")),
        ("example", typed("string", "the error of the first of them")),
        ("items", listed(typed("integer", "an index"), "the first of them")),
    ];
    let group = an_object(group, &["shape", "count", "example", "items"], false);
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("at", typed("string", "which execution of the step")),
        ("items", standing_counts("how all its items stand")),
        ("rows", listed(an_object(row, &required, false), "items, those that failed first")),
        ("next", or_null("integer", "the last of them, for `--after`, where more are behind it")),
        ("errors", listed(group, "why items failed, the most frequent first")),
    ];
    let required = ["run", "at", "items", "rows", "next", "errors"];
    described("What `show --items STEP --json` prints", &an_object(properties, &required, false))
}

pub(super) fn source() -> Value {
    let file = vec![
        ("file", typed("string", "its name")),
        ("hash", typed("string", "the hash of its bytes")),
        ("text", typed("string", "what stood in it")),
    ];
    let file = an_object(file, &["file", "hash", "text"], false);
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("files", listed(file, "the file of the run, then those that it takes in or calls")),
    ];
    described("What `show --source --json` prints", &an_object(properties, &["run", "files"], false))
}

/// What agents used.
fn spent(about: &str, or_null: bool) -> Value {
    let fields = vec![
        ("turns", typed("integer", "the number of messages that agents wrote")),
        ("input_tokens", typed("integer", "tokens that they read, as far as they say so")),
        ("output_tokens", typed("integer", "tokens that they wrote, as far as they say so")),
        ("cost_usd", typed("number", "what that costs in US dollars, as far as it is known")),
        ("elapsed_ms", typed("integer", "how long they worked, all calls added")),
        ("uncounted", typed("integer", "the number of messages whose tokens are not known")),
        ("unpriced", typed("integer", "the number of messages whose cost is not known")),
    ];
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let estimated = typed("integer", "the number of messages that broke off, whose use is an estimate");
    let fields = fields.into_iter().chain([("estimated", estimated)]).collect();
    let object = an_object(fields, &required, false);
    let fields = object.as_object().into_iter().flat_map(|object| object.iter());
    let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
    let kinds = words(if or_null { &["object", "null"][..] } else { &["object"] }.iter().copied());
    let fields = fields.map(|(key, value)| if key == "type" { (key, kinds.clone()) } else { (key, value) });
    Value::record(fields.chain([("description".into(), about.into())]))
}

pub(super) fn cleaning() -> Value {
    let removed = vec![
        ("run", typed("string", "the id of the run")),
        ("workflow", typed("string", "the name of its workflow")),
        ("status", typed("string", "its status")),
        ("started_at", typed("string", "when it began")),
        ("event_bytes", typed("integer", "the size of its events and of those of the runs that it called")),
        ("branches", listed(typed("string", "a branch"), "its branches, which go with it")),
    ];
    let removed =
        an_object(removed, &["run", "workflow", "status", "started_at", "event_bytes", "branches"], false);
    let reasons = ["driven", "imported", "continued", "unmerged", "unknown"];
    let kept = vec![
        ("run", typed("string", "the id of the run")),
        ("reason", one_of(reasons, "why it stays")),
        ("message", typed("string", "the same for people")),
    ];
    let kept = an_object(kept, &["run", "reason", "message"], false);
    let entries = vec![
        ("removed", listed(removed, "the runs that are gone, or would be")),
        ("kept", listed(kept, "the runs that were chosen and stay")),
        ("answers", typed("integer", "how many kept answers of agents are gone, or would be")),
        ("threads", typed("integer", "how many threads of agents are gone, or would be")),
        ("dry_run", typed("boolean", "whether nothing was removed")),
        ("store_bytes_before", typed("integer", "the size of the store before")),
        ("store_bytes", typed("integer", "the size of the store afterwards")),
    ];
    let required = ["removed", "kept", "answers", "threads", "dry_run", "store_bytes_before", "store_bytes"];
    described("What `clean --json` and `rm --json` print", &an_object(entries, &required, false))
}

pub(super) fn problems() -> Value {
    let place = || {
        vec![
            ("line", typed("integer", "the line of its beginning, from 1")),
            ("column", typed("integer", "the column of its beginning, from 1, in characters")),
            ("end_line", typed("integer", "the line of its end")),
            ("end_column", typed("integer", "the column behind its end")),
        ]
    };
    let mut fix = place();
    fix.push(("text", typed("string", "what takes the place of that range")));
    let fix = an_object(fix, &["line", "column", "end_line", "end_column", "text"], false);
    let texts = |about: &str| listed(typed("string", "a sentence"), about);
    let mut problem = vec![
        ("file", typed("string", "the file that it stands in, if that is not the one that was checked")),
        ("id", typed("string", "the kind of problem")),
        ("severity", one_of(["error", "warning"], "whether the file can be run")),
        ("message", typed("string", "what is wrong")),
        ("notes", texts("what is known about it")),
        ("hints", texts("how to put it right")),
        ("fix", fix),
    ];
    problem.extend(place());
    let required =
        ["id", "severity", "message", "line", "column", "end_line", "end_column", "notes", "hints"];
    let problem = an_object(problem, &required, false);
    let properties = vec![
        ("file", typed("string", "the file that was checked")),
        ("ok", typed("boolean", "whether it has no error")),
        ("steps", or_null("integer", "the number of steps of a workflow; null if it has an error")),
        ("expectations", or_null("integer", "the number of expectations; null if the file has an error")),
        ("problems", listed(problem, "every problem, in the order of the file")),
    ];
    let body = an_object(properties, &["file", "ok", "problems"], false);
    described("A line of `check --json` and `expect --check --json`", &body)
}

pub(super) fn logs() -> Value {
    let properties = vec![
        ("step", typed("string", "the step, with its item")),
        ("at", typed("string", "which execution of which step")),
        ("attempt", typed("integer", "which attempt, from 1")),
        ("stdout", or_null("string", "everything it printed to stdout; null if nothing")),
        ("stderr", or_null("string", "everything it printed to stderr; null if nothing")),
    ];
    let body = an_object(properties, &["step", "at", "attempt", "stdout", "stderr"], false);
    described("A line of `logs --json`", &body)
}

pub(super) fn tools() -> Value {
    let tool = vec![
        ("name", typed("string", "the name as a step gives it: `SERVER.TOOL`")),
        ("description", or_null("string", "what the server says about it")),
        ("parameters", any("the JSON Schema of its parameters")),
    ];
    let tool = an_object(tool, &["name", "description", "parameters"], true);
    let server = vec![
        ("name", typed("string", "the name of the server in the workflow")),
        ("title", or_null("string", "the name that it gives itself")),
        ("version", or_null("string", "the version that it gives itself")),
        ("tools", listed(tool, "its tools")),
    ];
    let server = an_object(server, &["name", "title", "version", "tools"], false);
    let body = an_object(vec![("servers", listed(server, "the servers"))], &["servers"], false);
    described("What `tools --json` prints", &body)
}

/// Where a value is read.
fn readers() -> Value {
    let reader = vec![
        ("step", or_null("string", "the step; null for `context` and `exports`")),
        ("at", or_null("string", "which execution of it")),
        ("field", typed("string", "the field that reads it")),
    ];
    listed(an_object(reader, &["step", "at", "field"], false), "who else reads the same part of it")
}

pub(super) fn names() -> Value {
    let name = vec![
        ("name", typed("string", "the name")),
        ("kind", one_of(["input", "context", "step", "capture"], "what kind of name it is")),
        ("value", any("its value")),
        ("type", one_of(Type::ALL.map(Type::name), "the type of the value")),
        ("before", any("the value that it had before; null if none")),
        ("step", or_null("string", "the step that set it")),
        ("at", or_null("string", "which execution of it")),
        ("event", or_null("integer", "the number of the event")),
        ("time", or_null("string", "when, RFC 3339, UTC")),
        ("read_by", readers()),
        ("iteration", typed("integer", "the iteration of the loop in which it was set")),
        ("lapsed", typed("boolean", "whether that iteration is over, and the name with it")),
    ];
    let required = ["name", "kind", "value", "type", "before", "step", "at", "event", "time", "read_by"];
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("workflow", typed("string", "the name of the workflow")),
        ("names", listed(an_object(name, &required, false), "each name, or each value of one name")),
    ];
    described("What `vars --json` prints", &an_object(properties, &["run", "workflow", "names"], false))
}

/// A condition and its parts.
fn explained_condition() -> Value {
    let parts = Value::record([
        ("type", "array".into()),
        ("items", Value::record([("$ref", "#/$defs/condition".into())])),
        ("description", "what it is made of".into()),
    ]);
    let condition = vec![
        ("source", typed("string", "the expression as it is written")),
        ("evaluated", typed("boolean", "whether it was needed")),
        ("value", any("what it came to")),
        ("error", or_null("string", "why it came to nothing")),
        ("parts", parts),
    ];
    an_object(condition, &["source", "evaluated", "value", "error", "parts"], false)
}

fn condition_reference() -> Value {
    Value::record([("$ref", "#/$defs/condition".into())])
}

/// A schema whose definitions stand at its end.
fn with_condition(title: &str, body: &Value) -> Value {
    let definitions = Value::record([("condition", explained_condition())]);
    let fields = body.as_object().into_iter().flat_map(|body| body.iter());
    let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
    let fields = fields.chain([("$defs".into(), definitions)]);
    described(title, &Value::record(fields))
}

pub(super) fn preview() -> Value {
    let reference = vec![
        ("reference", typed("string", "the reference as it is written")),
        ("line", typed("integer", "its line, from 1")),
        ("column", typed("integer", "its column, from 1")),
        ("known", typed("boolean", "whether its value is known before the run")),
        ("value", any("the value")),
        ("why", or_null("string", "why it is not known")),
    ];
    let reference = an_object(reference, &["reference", "line", "column", "known", "value", "why"], false);
    let variable = vec![
        ("name", typed("string", "the variable that carries a value into shell text")),
        ("value", or_null("string", "its value")),
        ("why", or_null("string", "why it is not known")),
    ];
    let variable = an_object(variable, &["name", "value", "why"], false);
    let field = vec![
        ("field", typed("string", "the key")),
        ("line", typed("integer", "its line, from 1")),
        ("column", typed("integer", "its column, from 1")),
        ("known", typed("boolean", "whether everything it reads is known before the run")),
        ("value", any("what it comes to")),
        ("explanation", condition_reference()),
        ("variables", listed(variable, "what travels into shell text")),
        ("references", listed(reference, "what it reads")),
        ("problems", listed(typed("string", "a sentence"), "why it will fail")),
    ];
    let field =
        an_object(field, &["field", "line", "column", "known", "value", "references", "problems"], false);
    let items = vec![
        ("known", typed("boolean", "whether the items are known before the run")),
        ("count", or_null("integer", "their number")),
        ("first", Value::record([("description", "the first of them".into())])),
        ("why", or_null("string", "why they are not known")),
    ];
    let items = an_object(items, &["known", "count", "first", "why"], false);
    let step = vec![
        ("step", typed("string", "the label of the step")),
        ("number", typed("string", "its number among all steps of the file")),
        ("action", typed("string", "the key of what it does")),
        ("fields", listed(field.clone(), "its fields, in the order of evaluation")),
        ("items", items),
    ];
    let step = an_object(step, &["step", "number", "action", "fields"], false);
    let properties = vec![
        ("file", typed("string", "the file")),
        ("workflow", typed("string", "the name of the workflow")),
        ("env", listed(field, "the variables that every program gets")),
        ("steps", listed(step, "every step of the file")),
    ];
    let body = an_object(properties, &["file", "workflow", "env", "steps"], false);
    with_condition("What `preview --json` prints", &body)
}

/// Who made a value: its `kind` says what else is known.
fn maker() -> Value {
    let kinds = [
        "step",
        "item",
        "input",
        "import",
        "context",
        "payload",
        "run",
        "computed",
        "nobody",
        "exports",
        "aggregates",
        "variables",
        "items",
    ];
    an_object(vec![("kind", one_of(kinds, "what made it"))], &["kind"], true)
}

/// Where a kept result was made.
fn kept() -> Value {
    let properties = vec![
        ("run", typed("string", "the id of the run that made it")),
        ("event", typed("integer", "the number of its event in that run")),
        ("same_text", typed("boolean", "whether that run had the same text of the workflow")),
    ];
    let made = an_object(properties, &["run", "event", "same_text"], false);
    let made = made.as_object().into_iter().flat_map(|made| made.iter());
    let made = made.filter(|(key, _)| key.as_str() != "type");
    let made = made.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record([("type".into(), words(["object", "null"]))].into_iter().chain(made))
}

/// What was said between a step or a judge and an agent.
fn a_conversation() -> Value {
    let call = an_object(
        vec![("tool", typed("string", "the name of the tool")), ("arguments", any("what it was given"))],
        &["tool", "arguments"],
        false,
    );
    let called = vec![
        ("name", typed("string", "the name of the tool")),
        ("arguments", any("what it was given")),
        ("result", any("what it gave; null where that is not known")),
        ("is_error", typed("boolean", "whether it failed")),
    ];
    let called = an_object(called, &["name", "arguments", "result", "is_error"], false);
    let exchange = vec![
        ("event", typed("integer", "the number of the event")),
        ("called", listed(called, "the tools that the agent called itself before that, where it says so")),
        ("server", typed("string", "the server that was asked for its tools")),
        ("tools", listed(typed("string", "a name"), "the tools of that server")),
        ("said", any("what the agent said")),
        ("misfit", typed("string", "why that was no answer")),
        ("calls", listed(call, "the tools that the agent calls")),
        ("tool", typed("string", "the tool that was called")),
        ("arguments", any("what the tool was given")),
        ("result", any("what the tool gave")),
        ("error", typed("string", "why there is no answer or result")),
        ("verdict", typed("string", "the verdict that was made of the answer")),
    ];
    let message = an_object(
        vec![("told", typed("string", "a message")), ("said", typed("string", "an answer"))],
        &[],
        false,
    );
    let thread = vec![
        ("name", typed("string", "the name of the thread")),
        ("before", listed(message, "what was said in it before")),
    ];
    let Some(thread) = an_object(thread, &["name", "before"], false).as_object().map(|thread| {
        let fields = thread.iter().map(|(key, value)| {
            let value = if key.as_str() == "type" { words(["object", "null"]) } else { value.clone() };
            (key.name().clone(), value)
        });
        Value::record(fields)
    }) else {
        return Value::NULL;
    };
    let entries = vec![
        ("step", typed("string", "the label of the step, with its item")),
        ("at", typed("string", "which execution of it")),
        ("of", one_of(["step", "judge"], "who asks: the step, or the judge of a state")),
        ("attempt", or_null("integer", "which attempt, from 1; null of a judge")),
        ("time", typed("string", "when it began, RFC 3339, UTC")),
        ("agent", typed("string", "the name of the agent")),
        ("provider", typed("string", "how it was asked")),
        ("thread", thread),
        ("message", typed("string", "what the agent was told")),
        ("exchanges", listed(an_object(exchange, &["event"], true), "what followed, in order")),
        ("total", typed("object", "what all of it used")),
    ];
    let required =
        ["step", "at", "of", "attempt", "agent", "provider", "thread", "message", "exchanges", "total"];
    an_object(entries, &required, false)
}

pub(super) fn conversations() -> Value {
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("conversations", listed(a_conversation(), "the conversations of the step, in order")),
    ];
    described("What `show RUN STEP --json` prints", &an_object(properties, &["run", "conversations"], false))
}

pub(super) fn explanation() -> Value {
    let reference = vec![
        ("reference", typed("string", "the reference as it is written")),
        ("path", typed("string", "the path that answered it")),
        ("line", typed("integer", "its line, from 1")),
        ("column", typed("integer", "its column, from 1")),
        ("end_line", typed("integer", "the line of its end")),
        ("end_column", typed("integer", "the column behind its end")),
        ("defaulted", typed("boolean", "whether a default stood in for it")),
        ("scope", or_null("string", "the scope that answered")),
        ("type", or_null("string", "the type of the value; null if there was none")),
        ("value", any("the value")),
        ("preview", or_null("string", "the value in short, for people")),
        ("within", or_null("string", "the definition that the reference stands in")),
        ("maker", maker()),
        ("read_by", readers()),
    ];
    let required = [
        "reference",
        "path",
        "line",
        "column",
        "end_line",
        "end_column",
        "defaulted",
        "scope",
        "type",
        "value",
        "preview",
        "within",
        "maker",
        "read_by",
    ];
    let reference = an_object(reference, &required, false);
    let variable = vec![
        ("name", typed("string", "the variable that carries a value into shell text")),
        ("value", typed("string", "its value")),
        ("travel", one_of(["environment", "file", "path"], "how it travels")),
    ];
    let variable = an_object(variable, &["name", "value", "travel"], false);
    let expression = vec![
        ("text", typed("string", "all of it as it is written")),
        ("line", typed("integer", "the line of its beginning, from 1")),
        ("column", typed("integer", "the column of its beginning, from 1")),
        ("end_line", typed("integer", "the line of its end")),
        ("end_column", typed("integer", "the column behind its end")),
        ("type", or_null("string", "the type of the value; null if there was none")),
        ("value", any("what it gave")),
        ("within", or_null("string", "the definition that it stands in")),
        ("defaulted", typed("boolean", "whether a default stood in for something that it reads")),
    ];
    let required: Vec<&str> = expression.iter().map(|(name, _)| *name).collect();
    let expression = an_object(expression, &required, false);
    let field = vec![
        ("field", typed("string", "the key")),
        ("line", or_null("integer", "its line, from 1")),
        ("column", or_null("integer", "its column, from 1")),
        ("value", any("what it came to")),
        ("explanation", condition_reference()),
        ("variables", listed(variable, "what travelled into shell text")),
        ("references", listed(reference, "what it read")),
        ("expressions", listed(expression, "the whole of each `${...}`, or of the expression")),
    ];
    let field = an_object(field, &["field", "line", "column", "value", "references", "expressions"], false);
    let evaluation = vec![
        ("step", or_null("string", "the label of the step")),
        ("number", or_null("string", "its number among all steps of the file")),
        ("at", typed("string", "which execution of it")),
        ("evaluated", or_null("string", "what was evaluated; null if the step was skipped before")),
        ("attempt", or_null("integer", "which attempt, from 1")),
        ("attempts_allowed", or_null("integer", "how many attempts there may be in all")),
        ("item_attempt", or_null("integer", "which attempt of its item, from 1")),
        ("kept", kept()),
        ("rerun", typed("boolean", "whether it was running when Threadline was killed")),
        ("event", typed("integer", "the number of the event")),
        ("time", typed("string", "when, RFC 3339, UTC")),
        ("reproducible", or_null("boolean", "whether the fields came to the same again")),
        ("fields", listed(field, "the fields, in the order of evaluation")),
        ("problems", listed(typed("string", "a sentence"), "why a field has no value")),
        ("ended", Value::record([("type", words(["object", "null"]))])),
        ("conversation", a_conversation()),
        ("judged", an_object(vec![("verdict", typed("string", "the verdict"))], &["verdict"], true)),
        ("chosen", an_object(vec![("items", typed("integer", "how many were kept"))], &["items"], true)),
    ];
    let required = ["step", "number", "at", "evaluated", "event", "time", "fields", "ended"];
    let properties = vec![
        ("text", typed("string", "the hash of the text of the workflow that its events belong to")),
        ("run", typed("string", "the id of the run")),
        ("workflow", typed("string", "the name of the workflow")),
        ("file", typed("string", "the file of the workflow")),
        ("evaluations", listed(an_object(evaluation, &required, true), "what was evaluated, in order")),
    ];
    let body = an_object(properties, &["run", "workflow", "file", "evaluations"], false);
    with_condition("What `explain --json` prints", &body)
}

pub(super) fn chain() -> Value {
    let link = vec![
        ("depth", typed("integer", "how many values lie between it and the beginning")),
        (
            "kind",
            one_of(
                ["value", "control"],
                "whether the reader was made of it, or it decided that the reader ran",
            ),
        ),
        ("reader", typed("string", "who reads the value")),
        ("field", typed("string", "the field that reads it")),
        ("reference", typed("string", "the reference as it is written")),
        ("value", any("the value")),
        ("maker", typed("string", "who made the value, for people")),
        ("from", maker()),
        ("above", typed("boolean", "whether what follows from it is listed above")),
    ];
    let required = ["depth", "kind", "reader", "field", "reference", "value", "maker", "from", "above"];
    let node = vec![
        ("id", typed("string", "its id in this graph")),
        (
            "kind",
            one_of(["step", "judgement", "items", "context", "input", "exports", "given"], "what it is"),
        ),
        ("run", typed("string", "the id of its run")),
        ("step", typed("string", "the step, with its item")),
        ("at", typed("string", "which execution of it")),
        ("event", typed("integer", "the event that recorded it")),
        ("time", typed("string", "when, RFC 3339, UTC")),
        ("status", or_null("string", "how the step ended, or the verdict")),
        ("name", typed("string", "the input, the entry of `context`, or what else gave it")),
        ("part", typed("string", "the part of it that was read first")),
    ];
    let node = an_object(node, &["id", "kind", "run"], false);
    let edge = vec![
        ("from", typed("string", "the node that made the value")),
        ("to", typed("string", "the node that read it")),
        (
            "kind",
            one_of(["value", "control"], "whether it went into what was made, or decided that it was made"),
        ),
        ("field", typed("string", "the field that reads it")),
        ("reference", typed("string", "the reference as it is written")),
        ("line", or_null("integer", "its line, from 1")),
        ("column", or_null("integer", "its column, from 1")),
        ("end_line", or_null("integer", "the line of its end")),
        ("end_column", or_null("integer", "the column behind its end")),
        ("type", or_null("string", "the type of the value")),
        ("value", any("the value")),
    ];
    let of_edge: Vec<&str> = edge.iter().map(|(name, _)| *name).collect();
    let edge = an_object(edge, &of_edge, false);
    let properties = vec![
        ("run", typed("string", "the id of the run")),
        ("name", typed("string", "the name that was asked for, if it is no step")),
        ("value", any("its value")),
        ("chain", listed(an_object(link, &required, false), "every value on the way")),
        ("nodes", listed(node, "who made or read them, each once")),
        ("edges", listed(edge, "who read what of whom")),
    ];
    let body = an_object(properties, &["run", "chain", "nodes", "edges"], false);
    described("What `explain --back --json` and `explain --forward --json` print", &body)
}

pub(super) fn diff() -> Value {
    let run = || {
        let fields = vec![
            ("run", typed("string", "the id of the run")),
            ("workflow", typed("string", "the name of its workflow")),
            ("file", typed("string", "the file of its workflow")),
            ("text", typed("string", "the hash of the text of that file as it was")),
            (
                "status",
                one_of(["completed", "failed", "stopped", "paused", "not ended"], "how it ended, if it has"),
            ),
            ("own_steps", listed(typed("string", "a step"), "the steps that only its workflow has")),
        ];
        an_object(fields, &["run", "workflow", "file", "text", "status", "own_steps"], false)
    };
    let side = || {
        let fields = vec![
            ("at", or_null("string", "the address of the execution")),
            ("event", or_null("integer", "the event that recorded it")),
            ("status", or_null("string", "how it ended")),
            ("why", or_null("string", "why it failed, was skipped or was judged like that")),
            ("attempts", or_null("integer", "how many attempts it took")),
        ];
        let object = an_object(fields, &["at", "event", "status", "why", "attempts"], false);
        Value::record([(
            "anyOf",
            Value::sequence([object, typed("null", "the run did not come to it, or does not have it")]),
        )])
    };
    let parts = [
        ChangedPart::Status,
        ChangedPart::Value,
        ChangedPart::Error,
        ChangedPart::ExitCode,
        ChangedPart::Output,
        ChangedPart::Stderr,
        ChangedPart::Model,
        ChangedPart::Verdict,
        ChangedPart::Reason,
        ChangedPart::Next,
        ChangedPart::Attempts,
    ];
    let change = vec![
        ("what", one_of(parts.map(ChangedPart::name), "what of it differs")),
        ("path", typed("string", "which part of that: `.content.called`, `[3]`; empty for all of it")),
        ("text_line", or_null("integer", "the first line that differs, of a text with several")),
        ("left_value", any("what it is in the first run; absent where that has no such part")),
        ("right_value", any("what it is in the second run")),
    ];
    let kinds = [
        CauseKind::Value,
        CauseKind::Control,
        CauseKind::Clock,
        CauseKind::Text,
        CauseKind::Items,
        CauseKind::NoItem,
        CauseKind::NotReached,
        CauseKind::Called,
    ];
    let cause = vec![
        (
            "kind",
            one_of(
                kinds.map(CauseKind::name),
                "it read a value that differs, something else decided that it runs, it read a time or an id, its \
                 text differs, its items differ, one run has no such item, one run did not come to it, or the runs \
                 that it called differ",
            ),
        ),
        ("reference", typed("string", "what was read, or what decided, as it is written")),
        ("field", typed("string", "the field that reads it")),
        ("maker", typed("string", "who made what was read, for people")),
        ("line", or_null("integer", "the line of the reference")),
        ("column", or_null("integer", "its column")),
        ("difference", or_null("integer", "the difference that it is, by its place, from 0")),
        ("left_value", any("what was read in the first run")),
        ("right_value", any("what was read in the second run")),
    ];
    let of_cause = ["kind", "reference", "field", "maker", "line", "column", "difference"];
    let kinds = ["input", "payload", "import", "context", "items", "step", "item", "verdict", "exports"];
    let difference = vec![
        ("kind", one_of(kinds, "what differs")),
        ("name", typed("string", "its name: `inputs.urgent`, `build`, `check[17]`, `fix#2`")),
        ("line", or_null("integer", "the line of its step")),
        ("left", side()),
        ("right", side()),
        (
            "changes",
            listed(an_object(change, &["what", "path", "text_line"], false), "its parts that differ"),
        ),
        ("more_changes", typed("integer", "how many parts more differ")),
        (
            "because",
            listed(an_object(cause, &of_cause, false), "why; nothing where all that it read is the same"),
        ),
        ("more_causes", typed("integer", "how many reasons more there are")),
        ("made_anew", typed("boolean", "whether it differs only by times and ids that a run makes anew")),
    ];
    let of_difference: Vec<&str> = difference.iter().map(|(name, _)| *name).collect();
    let difference = an_object(difference, &of_difference, false);
    let first = vec![
        ("difference", typed("integer", "its place among the differences")),
        ("following", listed(typed("integer", "a difference"), "what follows from it, at any distance")),
        ("chain_of", one_of_or_null(["left", "right"], "the run whose chain it is")),
        ("chain", listed(any("a link, as in the schema `chain`"), "what it was made of")),
    ];
    let first = an_object(first, &["difference", "following", "chain_of", "chain"], false);
    let same =
        vec![("step", typed("string", "the step")), ("count", typed("integer", "how many executions of it"))];
    let properties = vec![
        ("left", run()),
        ("right", run()),
        ("same_text", typed("boolean", "whether the text of the workflow is the same")),
        ("first", Value::record([("anyOf", Value::sequence([first, typed("null", "nothing differs")]))])),
        ("differences", listed(difference, "each behind those that it can follow from")),
        ("same", listed(an_object(same, &["step", "count"], false), "what is the same in both runs")),
    ];
    let required = ["left", "right", "same_text", "first", "differences", "same"];
    described("What `diff --json` prints", &an_object(properties, &required, false))
}

/// One of some words, or null.
fn one_of_or_null<'a>(choices: impl IntoIterator<Item = &'a str>, about: &str) -> Value {
    let choices = choices.into_iter().map(Value::from).chain([Value::NULL]);
    Value::record([("enum", Value::sequence(choices)), ("description", about.into())])
}

/// What the events of each kind say: the fields of `data`, with those that may be absent marked by `?`.
fn event_fields(kind: &str) -> Value {
    let number = |about| typed("integer", about);
    let text = |about| typed("string", about);
    let object = |about| typed("object", about);
    let flag = |about| typed("boolean", about);
    let hash = || typed("string", "a hash");
    let as_of = || number("the event at which the names are read");
    let exact = || {
        let stream = || {
            an_event_object(vec![
                ("ending?", text("the line breaks at its end, where that is not one")),
                ("base64?", any("its bytes in base64, where they are not UTF-8")),
            ])
        };
        an_event_object(vec![("stdout?", stream()), ("stderr?", stream())])
    };
    let output = || {
        let fields = vec![
            ("status", one_of(Status::ALL.map(Status::name), "how it ended")),
            ("value", any("its value")),
            ("output?", any("what it printed, where that is not its value")),
            ("stderr?", any("what it printed to stderr")),
            ("meta", object("its meta data, as `threadline schema envelope` describes it")),
            ("spent?", spent("what agents used for it that no event before it says", false)),
            ("thread?", object("the thread that it continued: `name` and `conversation`")),
            ("exact?", exact()),
        ];
        an_event_object(fields)
    };
    let computed = || {
        let failed = vec![("message", text("why")), ("hint", or_null("string", "what helps"))];
        let fields = vec![
            ("name", text("what was computed")),
            ("args", typed("array", "with what")),
            ("value?", any("what it came to")),
            ("missing?", or_null("string", "there is none; the nearest name")),
            ("failed?", an_event_object(failed)),
        ];
        listed(an_event_object(fields), "the computed values that were read")
    };
    let budgets = || {
        typed("array", "the budgets that `--budget` set: limits, with `step` where they are those of a step")
    };
    let failed_items = || number("how many items are failed");
    let status = |about| one_of(Status::ALL.map(Status::name), about);
    let outcome = || one_of(Outcome::ALL.map(Outcome::name), "how the run ended, or ends");
    let maker = || an_event_object(vec![("run", text("the earlier run")), ("event", number("its event"))]);
    an_event_object(match kind {
        "run_started" => vec![
            ("run", text("the id of the run")),
            ("workflow", text("the name of the workflow")),
            ("file", text("its file")),
            ("text", hash()),
            ("inputs", object("its inputs")),
            ("imports", object("what it imports")),
            ("set", typed("array", "what `--set` replaced: `path` and `value`")),
            ("trust_set", flag("whether `--trust-set` was given")),
            ("folder", text("the folder of its steps")),
            ("program", text("the version of Threadline")),
            ("jobs", or_null("integer", "the number that `--jobs` gave")),
            ("budgets?", budgets()),
            ("payload?", any("the payload of a graph")),
            ("imported?", typed("array", "the runs that imports come from: `name` and `run`")),
            ("files?", typed("array", "other files of the workflow: `file` and `text`, a hash")),
            ("caller?", object("the step that called it: `run`, `at` and `attempt`")),
            ("continues?", object("the run that it continues")),
            (
                "exchanges?",
                object("where its exchanges with agents are recorded: `record`, or `replay` and `live`"),
            ),
            (
                "on?",
                object(
                    "the service whose workers run its programs: `address`, `key_file` or `key_variable`, and where they \
                     are used `blobs`, `bundle` and `replicated`",
                ),
            ),
        ],
        "decided" => vec![("as_of", as_of()), ("computed", computed())],
        "skipped" | "unresolved" => {
            vec![("as_of", as_of()), ("computed", computed()), ("output", output())]
        }
        "expanded" => vec![
            ("as_of", as_of()),
            ("computed", computed()),
            ("items?", typed("array", "the items")),
            ("chunks?", object("the index of the items, which are too large for a line")),
            ("count", number("how many items there are")),
            ("parallel", number("how many run at once")),
            ("read?", number("how many were read before some were chosen")),
            ("rules?", object("what holds for the items")),
            ("source?", hash()),
        ],
        "item_retrying" => vec![("error", text("why it failed")), ("until", number("when it begins again"))],
        "item_begun" => vec![("attempt", number("which attempt, from 1"))],
        "item_ended" => vec![
            ("status", status("how it ended")),
            ("value", any("its result")),
            ("error?", text("why it failed")),
            ("attempts", number("how many attempts it took")),
            ("duration_ms", number("how long the last attempt took")),
            ("branch?", text("the branch that keeps its commits")),
            ("not_retried?", text("why it was not tried again")),
        ],
        "started" => vec![
            ("as_of", as_of()),
            ("attempt", number("which attempt, from 1")),
            ("rerun", flag("whether it was running when Threadline was killed")),
            ("computed", computed()),
            ("fields", hash()),
            ("work?", hash()),
        ],
        "defined" => {
            vec![("name", text("the entry")), ("value", any("its value")), ("computed", computed())]
        }
        "exchanged" => vec![
            ("number", number("which exchange of the attempt, from 1")),
            ("output", output()),
            (
                "held?",
                flag(
                    "whether the agent is not asked for more now: a budget is used up, or it is asked too often",
                ),
            ),
            ("calls?", flag("whether it calls a workflow now, which goes on inside after a crash")),
        ],
        "call_lost" => vec![
            ("spent", spent("what a call of an agent counts as that broke off", false)),
            ("goes_on", flag("whether the agent is asked again without anybody being asked")),
        ],
        "retrying" => vec![
            ("output", output()),
            ("until", number("when the next attempt begins")),
            ("keeps_exchanges?", flag("whether it goes on behind what the agent has said")),
        ],
        "finished" => vec![
            ("output", output()),
            ("results?", any("the results of its items, where they are not its value")),
            (
                "kept?",
                an_event_object(vec![
                    ("as_of", as_of()),
                    ("maker", maker()),
                    ("computed", computed()),
                    ("fields", hash()),
                    ("work", hash()),
                ]),
            ),
        ],
        "bounded" => vec![("computed", computed()), ("bounds", object("the limits"))],
        "judged" => vec![
            ("as_of", as_of()),
            ("computed", computed()),
            ("verdict", text("the verdict")),
            ("reason", text("why")),
            ("details", any("what else the judge said")),
            ("print", hash()),
            ("confidence?", typed("number", "how sure the judge is")),
            ("measured?", any("the number that was measured")),
            ("to?", text("the state that follows")),
            ("reply?", object("what the judge answered: `elapsed_ms`, `answer`, `stderr`, `asked`, `spent`")),
            ("kept?", maker()),
        ],
        "outcome_known" => vec![("outcome", outcome()), ("run", object("the fields of `run`"))],
        "paused" => vec![
            ("reason", text("why it stopped")),
            ("failed_items?", failed_items()),
            ("spent?", spent("what it has spent on agents", false)),
        ],
        "resumed" => {
            vec![
                ("failed?", flag("whether failed items are done again")),
                ("budgets?", budgets()),
                ("jobs?", number("how many steps may run at once from now on, if it is another number")),
            ]
        }
        "run_ended" => vec![
            ("outcome", outcome()),
            ("exports", any("what it exports")),
            ("reason?", text("why a loop ended: `terminal`, or the key of a limit")),
            ("state?", text("the state it ended with, or would have gone on with")),
            ("limit?", number("the limit that was reached: a number, or milliseconds")),
            ("failed_items?", failed_items()),
            ("spent?", spent("what it spent on agents", false)),
        ],
        _ => Vec::new(),
    })
}

/// An object of fields, of which those that end in `?` may be absent.
fn an_event_object(fields: SchemaProperties) -> Value {
    let required: Vec<&str> =
        fields.iter().map(|(name, _)| *name).filter(|name| !name.ends_with('?')).collect();
    let fields = fields.into_iter().map(|(name, schema)| (name.trim_end_matches('?'), schema));
    an_object(fields.collect(), &required, false)
}

pub(super) fn events() -> Value {
    let kinds = wire::KINDS
        .map(|(kind, about)| Value::record([("const", kind.into()), ("description", about.into())]));
    let kind = Value::record([("oneOf", Value::sequence(kinds))]);
    let of_kinds = wire::KINDS.map(|(kind, _)| {
        let when = Value::record([("kind", Value::record([("const", kind.into())]))]);
        let then = Value::record([("data", event_fields(kind))]);
        Value::record([
            ("if", Value::record([("properties", when)])),
            ("then", Value::record([("properties", then)])),
        ])
    });
    let properties = vec![
        ("run", typed("string", "the id of the run, where a step called it; left out for the run itself")),
        ("seq", typed("integer", "the number of the event in its run, from 1")),
        ("time", typed("string", "when, RFC 3339, UTC")),
        ("kind", kind),
        ("at", typed("string", "which execution of which step, such as `3` or `5[17]/1`")),
        ("step", typed("string", "the label of the step")),
        ("data", typed("object", "what the event says")),
    ];
    let body = an_object(properties, &["seq", "time", "kind", "data"], false);
    let fields = body.as_object().into_iter().flat_map(|body| body.iter());
    let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
    let fields = fields.chain([("allOf".into(), Value::sequence(of_kinds))]);
    described("A line of `run --json` and `show --json`", &Value::record(fields))
}

pub(super) fn failures() -> Value {
    let properties = vec![
        ("at", typed("string", "the item, such as `map[17]`, or the execution of a step outside of items")),
        ("index", or_null("integer", "which item of its list, from 0; null for a step")),
        ("item", any("the value of the item; null for a step")),
        (
            "step",
            or_null(
                "string",
                "the execution that failed, such as `map[17]/2`; null when all steps of an item did well",
            ),
        ),
        ("error", typed("string", "why it failed")),
        ("attempts", typed("integer", "which attempt it was, from 1")),
        ("duration_ms", or_null("integer", "how long it took, in milliseconds; of an item the last attempt")),
        ("branch", or_null("string", "the branch that keeps the commits of the item, where there is one")),
        ("passed_over", typed("boolean", "whether it was let fail, and the run went on")),
    ];
    let required =
        ["at", "index", "item", "step", "error", "attempts", "duration_ms", "branch", "passed_over"];
    described("A line of `show --failed --json`", &an_object(properties, &required, false))
}

/// A line of the tree of an expectation.
fn tree_line() -> Value {
    let results = ["met", "unmet", "not_evaluable", "not_evaluated"];
    let line = vec![
        ("result", one_of(results, "what the line came to")),
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
    an_object(line, &["result", "path", "operator", "reason"], false)
}

/// The results of expectations.
const RESULTS: [&str; 3] = ["met", "unmet", "not_evaluable"];

pub(super) fn outcomes() -> Value {
    let outcome = vec![
        ("name", typed("string", "what the expectation is called")),
        ("result", one_of(RESULTS, "what it came to")),
        ("reason", typed("string", "why, in one sentence")),
        ("tree", Value::record([("$ref", "#/$defs/line".into())])),
    ];
    let outcome = an_object(outcome, &["name", "result", "reason", "tree"], false);
    let body = Value::record([
        ("type", "array".into()),
        ("items", outcome),
        ("$defs", Value::record([("line", tree_line())])),
    ]);
    described("What `expect --format json` prints", &body)
}

/// The results of cases of scenarios.
const CASE_RESULTS: [&str; 6] = ["passed", "failed", "not_evaluable", "errored", "skipped", "not_run"];

/// An object all of whose fields are there.
fn whole_object(fields: SchemaProperties) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    an_object(fields, &required, false)
}

pub(super) fn tests() -> Value {
    let counts = [("cases", typed("integer", "the number of cases"))];
    let of_result = CASE_RESULTS.map(|result| (result, typed("integer", "how many of them came to this")));
    let counts = whole_object(counts.into_iter().chain(of_result).collect());
    let file = vec![
        ("file", typed("string", "the file")),
        ("name", typed("string", "the name of the file")),
        ("run", typed("string", "the id of its run, for `explain`, `show` and `resume`")),
        ("outcome", or_null("string", "how the run ended; null if it stopped before its end")),
        ("started_at", typed("string", "when the run began, RFC 3339, UTC")),
        ("duration_ms", typed("integer", "how long the run took")),
        ("cases", listed(tried_case(), "its scenarios with each target and each case")),
    ];
    let baseline = vec![
        ("file", typed("string", "the report that was compared with")),
        ("newly_failing", typed("integer", "the number of cases that fail now and did not before")),
        ("newly_passing", typed("integer", "the number of cases that pass now and did not before")),
        ("changed_answer", typed("integer", "the number of other cases with another answer")),
        ("new", typed("integer", "the number of cases that were not there")),
        ("missing", listed(typed("string", "its name"), "the cases that are not there any more")),
    ];
    let fields = vec![
        ("program", typed("string", "the version of Threadline")),
        ("counts", counts),
        ("executions", typed("integer", "how often cases were tried")),
        ("vacuous", typed("integer", "how many expectations are met only because a `when` was not")),
        ("duration_ms", typed("integer", "how long all runs took together")),
        ("spent", spent("what agents used, judges included", false)),
        ("files", listed(whole_object(file), "the files that were tried")),
        ("baseline", whole_object(baseline)),
    ];
    let required = ["program", "counts", "executions", "vacuous", "duration_ms", "spent", "files"];
    let body = an_object(fields, &required, false);
    let body = body.as_object().into_iter().flat_map(|body| body.iter());
    let body = body.map(|(key, value)| (key.name().clone(), value.clone()));
    let definitions = Value::record([("line", tree_line())]);
    let body = Value::record(body.chain([("$defs".into(), definitions)]));
    described("What `test --format json` prints", &body)
}

/// A scenario with a target and a case.
fn tried_case() -> Value {
    let execution = vec![
        ("repetition", or_null("integer", "which repetition it is, from 1; null for the only one")),
        ("at", typed("string", "its address in the run")),
        ("result", one_of(CASE_RESULTS, "what it came to")),
        ("reason", typed("string", "why, in one line; empty if it passed")),
        ("error", or_null("string", "the error that ended it")),
        ("failed_step", or_null("string", "the address of the step that failed, for `explain`")),
        ("duration_ms", typed("integer", "how long it took")),
        ("spent", spent("what agents used, judges included", false)),
        ("turns", listed(test_turn(), "what was asked and answered")),
        ("checks", listed(test_check(), "the expectations, place by place")),
    ];
    let place = [
        ("file", typed("string", "the file in which the scenario stands")),
        ("line", typed("integer", "the line, from 1")),
        ("column", typed("integer", "the column, from 1, in characters")),
    ];
    let fields: SchemaProperties = vec![
        ("scenario", typed("string", "the id of the scenario")),
        ("name", typed("string", "the name of the scenario")),
        ("description", or_null("string", "its description")),
        ("target", or_null("string", "the name of the target; null for the only one")),
        ("tags", listed(typed("string", "a tag"), "its tags")),
        ("case", or_null("string", "the name of the case; null where there are no `cases`")),
        ("input", any("the case")),
        ("result", one_of(CASE_RESULTS, "what it came to")),
        ("reason", typed("string", "why, in one line; empty if it passed")),
        ("passed", typed("integer", "how often it passed")),
        ("tried", typed("integer", "how often it was tried")),
        ("pass_rate", or_null("number", "the share that passed, from 0 to 1; null without `repeat`")),
        (
            "interval",
            Value::record([
                ("type", words(["array", "null"])),
                ("items", typed("number", "a bound of the pass rate with 95 % confidence")),
            ]),
        ),
        ("flaky", listed(typed("string", "a judge"), "the judges that disagree with themselves")),
        ("executions", listed(whole_object(execution), "every time that it was tried")),
        (
            "change",
            Value::record([
                (
                    "enum",
                    Value::sequence([
                        "newly_failing".into(),
                        "newly_passing".into(),
                        "changed_answer".into(),
                        "new".into(),
                        Value::NULL,
                    ]),
                ),
                ("description", "what has changed since the baseline; only with `--baseline`".into()),
            ]),
        ),
    ];
    let fields: SchemaProperties = fields.into_iter().chain(place).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).filter(|name| *name != "change").collect();
    an_object(fields, &required, false)
}

/// What a target was asked, and what it answered.
fn test_turn() -> Value {
    whole_object(vec![
        ("prompt", any("what was asked")),
        ("answer", any("the answer as expectations see it; null where there is none")),
        ("error", or_null("string", "why there is none")),
        ("printed", listed(typed("string", "a line"), "the end of what the target printed, where it failed")),
        ("duration_ms", or_null("integer", "how long the target took")),
        ("spent", spent("what the target used", false)),
    ])
}

/// The expectations of one place.
fn test_check() -> Value {
    let expectation = vec![
        ("name", typed("string", "what the expectation is called")),
        ("result", one_of(RESULTS, "what it came to")),
        ("reason", typed("string", "why, in one sentence")),
        ("file", or_null("string", "the file in which it stands")),
        ("line", or_null("integer", "the line, from 1")),
        ("column", or_null("integer", "the column, from 1, in characters")),
        (
            "tree",
            Value::record([(
                "anyOf",
                Value::sequence([
                    Value::record([("$ref", "#/$defs/line".into())]),
                    typed("string", "the tree as text, where it is too deep"),
                ]),
            )]),
        ),
    ];
    let opinion = vec![
        ("question", typed("string", "what was asked about the answer")),
        ("judge", typed("string", "who was asked")),
        ("yes", typed("integer", "how often the judge said yes")),
        ("no", typed("integer", "how often the judge said no")),
        ("misquoted", typed("integer", "how often its evidence is not in the answer")),
        ("flaky", typed("boolean", "whether it disagrees with itself")),
        ("reason", typed("string", "why, in its words")),
    ];
    whole_object(vec![
        ("at", typed("string", "the address of the step that compared")),
        ("expectations", listed(whole_object(expectation), "what each came to")),
        ("opinions", listed(whole_object(opinion), "what judges said")),
    ])
}

pub(super) fn simulation() -> Value {
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

pub(super) fn continuation() -> Value {
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
