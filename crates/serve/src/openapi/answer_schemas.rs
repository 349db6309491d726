//! The schemas of bodies, and of the answers that no command prints.

use threadline_inspect::run_state::Standing;
use threadline_lang::{Type, Value};

use super::reference;
use crate::api::logs::STREAMS;
use crate::routes::BodyKind;

/// The schemas, by their names.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("problem", problem()),
        ("projects", projects()),
        ("runs", runs()),
        ("timeline", timeline()),
        ("failures_of_run", failures()),
        ("called", called()),
        ("attempts", attempts()),
        ("lines", lines()),
        ("workflows", workflows()),
        ("accepted", object(&[("run", or_null("string", "the id of the run; null if it is not known yet"))])),
        ("cut", cut()),
    ]
}

fn typed(kind: &str, about: &str) -> Value {
    Value::record([("type", Value::from(kind)), ("description", about.into())])
}

fn text(about: &str) -> Value {
    typed("string", about)
}

fn integer(about: &str) -> Value {
    typed("integer", about)
}

fn or_null(kind: &str, about: &str) -> Value {
    let kinds = Value::sequence([kind, "null"].map(Value::from));
    Value::record([("type", kinds), ("description", about.into())])
}

fn words(known: &[&str], about: &str) -> Value {
    let known = Value::sequence(known.iter().map(|word| Value::from(*word)));
    Value::record([("enum", known), ("description", about.into())])
}

fn listed(items: Value, about: &str) -> Value {
    Value::record([("type", Value::from("array")), ("items", items), ("description", about.into())])
}

/// An object with these properties, all of them required, and no others.
fn object(properties: &[(&'static str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    object_with(properties, &names)
}

fn object_with(properties: &[(&'static str, Value)], required: &[&str]) -> Value {
    Value::record([
        ("type", Value::from("object")),
        ("properties", Value::record(properties.iter().cloned())),
        ("required", Value::sequence(required.iter().map(|name| Value::from(*name)))),
        ("additionalProperties", false.into()),
    ])
}

impl BodyKind {
    /// The schema of a body.
    pub(super) fn schema(self) -> Value {
        let flag = |about: &str| typed("boolean", about);
        match self {
            Self::None => Value::empty_object(),
            Self::Form => object(&[("token", text("the token"))]),
            Self::Start => {
                let properties = [
                    ("workflow", text("the file of the workflow, as the list of workflows has it")),
                    ("inputs", typed("object", "inputs with their values")),
                    (
                        "texts",
                        typed("object", "inputs as texts, each read as the type that the workflow declares"),
                    ),
                ];
                object_with(&properties, &["workflow"])
            }
            Self::Resume => {
                object_with(&[("failed", flag("rerun the failed items of a run that has ended"))], &[])
            }
            Self::Stop => {
                object_with(&[("now", flag("end the running steps instead of letting them finish"))], &[])
            }
        }
    }
}

fn problem() -> Value {
    object(&[
        ("type", text("`about:blank`")),
        ("title", text("the status in words")),
        ("status", integer("the status")),
        ("detail", text("what is wrong")),
        ("hint", or_null("string", "what can be done about it")),
    ])
}

fn projects() -> Value {
    let project = object(&[
        ("project", text("its name in paths")),
        ("folder", text("its folder on the machine of the server")),
    ]);
    object(&[
        ("projects", listed(project, "the projects")),
        ("read_only", typed("boolean", "whether nothing can be started or stopped")),
        ("version", text("that of Threadline")),
    ])
}

fn runs() -> Value {
    object(&[
        ("runs", listed(reference("run"), "the runs, the newest first")),
        ("next", or_null("string", "the last of them, for `after`, where more are behind it")),
    ])
}

fn timeline() -> Value {
    let standings = Standing::ALL.map(Standing::name);
    let event = [
        ("seq", integer("its number")),
        ("time", text("when it happened")),
        ("at", text("which execution it is about; none for the run")),
        ("step", text("the same for people")),
        ("what", text("what happened, in a word")),
        ("standing", words(&standings, "how the execution stands from then on, where it changes")),
    ];
    object(&[
        ("run", text("the id of the run")),
        ("last", integer("the number of its last event")),
        ("events", listed(object_with(&event, &["seq", "time", "what"]), "events in order")),
        ("next", or_null("integer", "the last of them, for `after`, where more are behind it")),
    ])
}

fn failures() -> Value {
    object(&[
        ("run", text("the id of the run")),
        ("failures", listed(reference("failure"), "items first, then steps")),
    ])
}

fn called() -> Value {
    object(&[
        ("run", text("the id of the run that called them")),
        ("runs", listed(reference("run"), "the runs, the oldest first")),
    ])
}

fn attempts() -> Value {
    let size = || {
        let size = object(&[("lines", integer("how many lines")), ("bytes", integer("how many bytes"))]);
        let nothing = Value::record([("type", Value::from("null"))]);
        Value::record([("anyOf", Value::sequence([size, nothing]))])
    };
    let attempt = object(&[
        ("step", text("the step, with its item")),
        ("at", text("which execution")),
        ("attempt", integer("which attempt, from 1")),
        ("event", integer("the event with which it ended")),
        ("stdout", size()),
        ("stderr", size()),
    ]);
    object(&[
        ("run", text("the id of the run")),
        ("attempts", listed(attempt, "in the order in which they ended")),
    ])
}

fn lines() -> Value {
    let line = object(&[
        ("line", integer("its number, from 1")),
        ("text", text("the line, cut after 2000 characters")),
    ]);
    object(&[
        ("run", text("the id of the run")),
        ("at", text("which execution")),
        ("attempt", integer("which attempt, from 1")),
        ("stream", words(STREAMS, "which stream")),
        ("found", integer("how many lines there are, or have the text that is searched for")),
        ("from", integer("how many of them were left out before")),
        ("lines", listed(line, "the lines")),
    ])
}

fn workflows() -> Value {
    let input = object(&[
        ("name", text("its name")),
        ("type", or_null("string", "its type; null if it takes anything")),
        ("required", typed("boolean", "whether it must be given")),
        ("default", Value::record([("description", Value::from("its default; null if there is none"))])),
        ("description", or_null("string", "what it is for")),
    ]);
    let workflow = object(&[
        ("file", text("its file, from the folder of the project")),
        ("name", text("its name")),
        ("inputs", listed(input, "what it takes")),
    ]);
    object(&[("workflows", listed(workflow, "by their files"))])
}

/// What stands in an answer in the place of a large value.
fn cut() -> Value {
    let kinds = Type::ALL.map(Type::name);
    let cut = object(&[
        ("type", words(&kinds, "the type of the value")),
        ("length", integer("how many characters it has: a text itself, anything else as JSON")),
        ("preview", text("the first 200 of them")),
        ("hash", text("the hash of all of them")),
        ("pointer", text("the same request with this `pointer` answers with all of it")),
    ]);
    object(&[("$cut", cut)])
}
