//! The page that starts a workflow: a form made of its inputs. What is sent is the route of the API.

use askama::Template;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Type, Value};

use super::run::visible;
use super::{PageFrame, page};
use crate::answer::HttpAnswer;
use crate::api::workflows;
use crate::problem::Problem;
use crate::server::RouteCall;

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage {
    frame: PageFrame,
    project: String,
    workflows: Vec<(String, String, bool)>,
    chosen: Option<StartForm>,
}

/// The form of a workflow.
struct StartForm {
    file: String,
    name: String,
    description: String,
    inputs: Vec<InputField>,
}

/// A field of the form.
struct InputField {
    name: String,
    /// How it is read: as `text`, `flag`, or what the type is.
    kind: &'static str,
    required: bool,
    default: String,
    is_set: bool,
    description: String,
}

pub(crate) fn start(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let project = call.project()?;
    let found = workflows::all(&call.server, project);
    let asked = call.arguments.text("workflow");
    let chosen = match asked {
        Some(file) => Some(workflows::named(&call.server, project, file)?),
        None => None,
    };
    let chosen = chosen.map(|known| StartForm {
        name: visible(&known.workflow.name),
        description: String::new(),
        inputs: known
            .workflow
            .inputs
            .iter()
            .map(|input| {
                let default = input.default.clone().unwrap_or_default();
                InputField {
                    name: input.name.to_string(),
                    kind: match input.kind {
                        Some(Type::Bool) => "flag",
                        Some(Type::Int | Type::Decimal) => "number",
                        Some(Type::List | Type::Object | Type::Null) => "json",
                        Some(Type::Text) | None => "text",
                    },
                    required: input.required,
                    is_set: default.as_bool() == Some(true),
                    default: shown(&default),
                    description: visible(input.description.as_deref().unwrap_or_default()),
                }
            })
            .collect(),
        file: known.file,
    });
    page(&StartPage {
        frame: PageFrame::new(&call.server, "Start a run", Some(&project.name)),
        project: project.name.clone(),
        workflows: found
            .iter()
            .map(|known| {
                (known.file.clone(), visible(&known.workflow.name), asked == Some(known.file.as_str()))
            })
            .collect(),
        chosen,
    })
}

/// A default as somebody would write it.
fn shown(default: &Value) -> String {
    if default.is_null() {
        return String::new();
    }
    default.as_str().map_or_else(|| default.to_json(JsonStyle::Compact), str::to_owned)
}
