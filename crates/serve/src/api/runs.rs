//! The runs of a project.

use threadline_inspect::runs::{self, RunChoice, RunDetails, RunPage, RunStatus};
use threadline_lang::Value;

use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::routes::USUAL_COUNT;
use crate::server::RouteCall;

/// The runs that are asked for, each with what all its events say of it, where they can be read.
pub(crate) fn read(call: &RouteCall) -> Result<(RunPage, Vec<Option<RunDetails>>), Problem> {
    let given = &call.arguments;
    let text = |name: &str| given.text(name).map(str::to_owned);
    let choice = RunChoice {
        status: given.words("status").iter().filter_map(|word| RunStatus::named(word)).collect(),
        workflow: text("workflow"),
        text: text("text"),
        since: given.moment("since"),
        until: given.moment("until"),
        called: given.flag("called"),
        after: given.run("after").map(ToString::to_string),
        count: usize::try_from(given.number("count").unwrap_or(USUAL_COUNT)).ok(),
        only: None,
    };
    let project = call.project()?;
    project.try_read(|reader| {
        let Some(reader) = reader else {
            return Ok((RunPage { runs: Vec::new(), next: None }, Vec::new()));
        };
        let page = runs::runs(reader, &choice, call.now)?;
        let details = page.runs.iter().map(|listed| project.details(reader, &listed.run)).collect();
        Ok((page, details))
    })
}

pub(crate) fn runs(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let (page, details) = read(call)?;
    let runs = page.runs.iter().zip(&details).map(|(listed, details)| listed.value(details.as_ref()));
    Ok(HttpAnswer::json(&Value::record([
        ("runs", Value::sequence(runs)),
        ("next", page.next.as_deref().map_or(Value::NULL, Value::from)),
    ])))
}
