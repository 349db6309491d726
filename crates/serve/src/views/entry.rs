//! How a browser is let in: the address that was printed has the token, and leads to a page that goes on by itself. So the
//! address with the token stays neither in the history as a page of its own, nor in what the pages send, and a cookie that
//! is not sent for other sites' links is sent for this one.

use askama::Template;
use hyper::StatusCode;

use super::page;
use crate::answer::HttpAnswer;
use crate::parameters::decoded;
use crate::problem::Problem;
use crate::server::{PageServer, RouteCall};

#[derive(Template)]
#[template(path = "open.html")]
struct OpenPage {
    base: String,
}

#[derive(Template)]
#[template(path = "ask.html")]
struct AskPage<'p> {
    base: String,
    why: &'p str,
}

/// Lets in whoever has the token in the address.
#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(crate) fn open(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    Ok(let_in(call, call.arguments.text("token")))
}

/// Lets in whoever has written the token into the form.
#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(crate) fn open_with_form(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let fields = std::str::from_utf8(&call.body).unwrap_or_default();
    let token = fields.split('&').find_map(|field| field.strip_prefix("token="));
    let token = token.and_then(|token| decoded(token, true));
    Ok(let_in(call, token.as_deref().map(str::trim)))
}

fn let_in(call: &RouteCall, token: Option<&str>) -> HttpAnswer {
    let gate = &call.server.gate;
    match token {
        Some(token) if gate.knows(token) => match page(&OpenPage { base: gate.base() }) {
            Ok(page) => page.cookie(gate.set_cookie()),
            Err(problem) => HttpAnswer::problem(&problem),
        },
        Some(_) => ask(&call.server, "that is not the token of this server"),
        None => ask(&call.server, ""),
    }
}

/// The page that asks for the token.
pub(crate) fn ask(server: &PageServer, why: &str) -> HttpAnswer {
    match page(&AskPage { base: server.gate.base(), why }) {
        Ok(page) => page.status(StatusCode::UNAUTHORIZED),
        Err(problem) => HttpAnswer::problem(&problem),
    }
}
