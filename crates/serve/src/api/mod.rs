//! The handlers that answer with data. Each has a function that reads, which pages are made with, too, and one that makes
//! JSON of that.

pub(crate) mod actions;
pub(crate) mod logs;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod workflows;

use threadline_lang::Value;

use crate::answer::HttpAnswer;
use crate::openapi;
use crate::problem::Problem;
use crate::server::RouteCall;

#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(crate) fn description(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    Ok(HttpAnswer::json(&openapi::described(&call.server.schemas, &call.server.gate.base())))
}

#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(crate) fn projects(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let projects = call.server.projects.iter().map(|project| {
        Value::record([("project", project.name.as_str().into()), ("folder", project.folder().into())])
    });
    Ok(HttpAnswer::json(&Value::record([
        ("projects", Value::sequence(projects)),
        ("read_only", call.server.read_only.into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ])))
}
