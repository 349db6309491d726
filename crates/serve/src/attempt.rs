//! Requests that are tried without a connection, for tests: the gate, the table of routes, the parameters.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use jiff::Timestamp;

use crate::gate::Gate;
use crate::parameters::{decoded, encoded};
use crate::routes;
use crate::token::Token;

/// The host of the server that requests are tried at.
pub const TRIED_HOST: &str = "127.0.0.1:7117";

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriedRequest {
    /// Whether it is let in.
    pub is_admitted: bool,
    /// Whether there is a route for it.
    pub has_route: bool,
    /// Whether its parameters can be read.
    pub is_understood: bool,
}

/// Tries a request; nothing where its parts cannot be those of one.
pub fn try_request(
    token: &Token,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Option<TriedRequest> {
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let uri: Uri = target.parse().ok()?;
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
    }
    let gate = Gate::new(token, &[TRIED_HOST.to_owned()], None);
    let is_admitted = gate.admit(&method, &uri, &headers, routes::is_entry).is_ok();
    // What is refused is read all the same: more is tried like this.
    let found = routes::find(&method, uri.path()).ok();
    let has_route = found.is_some();
    let is_understood = found.is_some_and(|(route, mut arguments)| {
        let query = uri.query().unwrap_or_default();
        let own: Vec<_> =
            route.parameters().filter(|parameter| !route.is_in_path(parameter)).copied().collect();
        arguments.take_query(&own, query, Timestamp::UNIX_EPOCH).is_ok()
    });
    Some(TriedRequest { is_admitted, has_route, is_understood })
}

/// A text that was encoded and decoded again, as a part of a path and of a query.
pub fn encoded_and_decoded(text: &str) -> [Option<String>; 2] {
    let encoded = encoded(text);
    [decoded(&encoded, false), decoded(&encoded, true)]
}
