//! Pages. Each is a template that is filled with what the API reads; every value in it is escaped, and none of them
//! stands in a script or a style.

pub(crate) mod diff;
pub(crate) mod entry;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod start;

use askama::Template;
use hyper::StatusCode;

use crate::answer::HttpAnswer;
use crate::assets;
use crate::problem::Problem;
use crate::server::{PageServer, RouteCall};

/// What every page has around what it shows.
pub(crate) struct PageFrame {
    /// What all paths begin with, without a slash at its end.
    pub(crate) base: String,
    /// What stands in the title.
    pub(crate) title: String,
    /// The project that it is about, and the others.
    pub(crate) project: Option<String>,
    pub(crate) projects: Vec<String>,
    /// Whether nothing can be started or stopped.
    pub(crate) read_only: bool,
}

impl PageFrame {
    pub(crate) fn new(server: &PageServer, title: impl Into<String>, project: Option<&str>) -> Self {
        Self {
            base: server.gate.base(),
            title: title.into(),
            project: project.map(str::to_owned),
            projects: server.projects.iter().map(|project| project.name.clone()).collect(),
            read_only: server.read_only,
        }
    }
}

/// A page of a template.
pub(crate) fn page(template: &impl Template) -> Result<HttpAnswer, Problem> {
    let page = template.render();
    page.map(HttpAnswer::html).map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &format!("the page cannot be made: {error}"))
    })
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'p> {
    frame: PageFrame,
    problem: &'p Problem,
}

/// The page that says why there is none.
pub(crate) fn problem(server: &PageServer, problem: &Problem) -> HttpAnswer {
    let title = problem.status.canonical_reason().unwrap_or_default();
    let frame = PageFrame::new(server, title, None);
    match page(&ProblemPage { frame, problem }) {
        Ok(page) => page.status(problem.status),
        Err(problem) => HttpAnswer::problem(&problem),
    }
}

pub(crate) fn asset(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let name = call.arguments.text("asset").unwrap_or_default();
    let asset = assets::find(name).ok_or_else(|| Problem::missing("there is no such file"))?;
    Ok(HttpAnswer::asset(asset.kind, asset.content))
}
