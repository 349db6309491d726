//! The page with the runs of a project.

use askama::Template;
use threadline_inspect::history::time_text;
use threadline_inspect::runs::{ListedRun, RunDetails, RunStatus};
use threadline_lang::diag::words;

use super::run::value::time_words;
use super::run::{head, visible};
use super::{PageFrame, page};
use crate::answer::HttpAnswer;
use crate::api;
use crate::parameters::encoded;
use crate::problem::Problem;
use crate::server::RouteCall;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: PageFrame,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    frame: PageFrame,
    rows: Vec<RunsPageRow>,
    statuses: Vec<(&'static str, bool)>,
    workflow: String,
    text: String,
    since: String,
    /// Where the list goes on.
    next: Option<String>,
}

/// A run of the list.
struct RunsPageRow {
    id: String,
    workflow: String,
    status: &'static str,
    began: String,
    began_words: String,
    took: String,
    inputs: String,
    /// What failed first, and why.
    error: Option<(String, String)>,
    /// How the steps stand, and how the items do.
    steps: String,
    items: String,
    /// How far it is, as a drawing.
    bar: String,
}

impl RunsPageRow {
    fn new(listed: &ListedRun, details: Option<&RunDetails>) -> Self {
        let began = listed.began.map(|began| time_text(began.as_millisecond()));
        let began = began.unwrap_or_else(|| listed.run.started_at.clone());
        Self {
            id: listed.run.id.to_string(),
            workflow: visible(&listed.run.name),
            status: listed.status.name(),
            began_words: time_words(&began),
            began,
            took: listed.took.map_or(String::new(), words::duration),
            inputs: visible(&listed.inputs_text()),
            error: details
                .and_then(|details| details.error.as_ref())
                .map(|(step, message)| (visible(step), visible(message))),
            steps: details.map_or(String::new(), |details| details.steps.text()),
            items: details.map_or(String::new(), |details| details.items.text()),
            bar: details.map_or(String::new(), |details| {
                let counts = if details.items.total() > 0 { details.items } else { details.steps };
                head::bar(counts)
            }),
        }
    }
}

/// The page of the only project, or the list of projects.
pub(crate) fn home(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let server = &call.server;
    if let [only] = &server.projects[..] {
        return Ok(HttpAnswer::elsewhere(format!("{}/projects/{}/runs", server.gate.base(), only.name)));
    }
    page(&HomePage { frame: PageFrame::new(server, "Projects", None) })
}

pub(crate) fn runs(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let project = call.project()?;
    let (found, details) = api::runs::read(call)?;
    let given = &call.arguments;
    let text = |name: &str| given.text(name).unwrap_or_default().to_owned();
    let status = given.words("status");
    page(&RunsPage {
        frame: PageFrame::new(&call.server, "Runs", Some(&project.name)),
        rows: found
            .runs
            .iter()
            .zip(&details)
            .map(|(run, details)| RunsPageRow::new(run, details.as_ref()))
            .collect(),
        statuses: RunStatus::ALL.map(|known| (known.name(), status.contains(&known.name()))).to_vec(),
        workflow: text("workflow"),
        text: text("text"),
        since: given.moment("since").map_or(String::new(), |since| since.to_string()),
        next: found.next.as_deref().map(|next| behind(call, next)),
    })
}

/// The query of the page behind a run, with the same choice.
fn behind(call: &RouteCall, next: &str) -> String {
    let given = &call.arguments;
    let mut query: Vec<String> = Vec::new();
    query.extend(given.words("status").iter().map(|status| format!("status={status}")));
    for name in ["workflow", "text"] {
        query.extend(given.text(name).map(|text| format!("{name}={}", encoded(text))));
    }
    for name in ["since", "until"] {
        query.extend(given.moment(name).map(|moment| format!("{name}={moment}")));
    }
    query.extend(given.flag("called").then(|| "called=true".to_owned()));
    query.extend(given.number("count").map(|count| format!("count={count}")));
    query.push(format!("after={next}"));
    query.join("&")
}
