//! Requests of a file.

use std::time::Duration;

use ecow::EcoString;
use threadline_lang::{Template, Type};

use super::read::{Fields, Loader, Place, shown, span_of};
use crate::checks::Check;
use crate::fields::HTTP;
use crate::model::{Action, Field, Http, Setting};
use crate::url::{self, Piece};

/// Headers that follow from the request itself.
const OWN_HEADERS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

impl Loader {
    pub(super) fn http(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let place = fields.get("http")?;
        self.request_of(fields, place)
    }

    /// The request of a step, as it stands behind `http` or as `params` of the tool of that name.
    pub(super) fn request_of(&mut self, fields: &Fields<'_>, place: Place<'_>) -> Option<Action> {
        if let (Some(found), Some(_)) = (fields.found("timeout"), place.node.get("timeout")) {
            let message = "`timeout` stands beside the request and in it";
            self.problem(Check::ConflictingKeys.at(found.entry.key_span, message).hint("keep one of them"));
        }
        self.request(place).map(Action::Http)
    }

    /// How long the request of a step may take.
    pub(super) fn http_timeout(&mut self, fields: &Fields<'_>) -> Option<Setting<Duration>> {
        let is_tool = fields.get("tool").is_some_and(|place| place.node.value.as_str() == Some("http"));
        let place = fields
            .get(if is_tool { "params" } else { "http" })
            .filter(|place| place.node.value.as_object().is_some())?;
        // What is wrong with its keys is told once.
        let told = self.problems.len();
        let inner = self.fields(place, &HTTP);
        self.problems.truncate(told);
        self.time_limit(&inner?, "timeout")
    }

    fn request(&mut self, place: Place<'_>) -> Option<Http> {
        let inner = self.fields(place, &HTTP)?;
        let method = self.choice(&inner, "method");
        let url = self.template_of(&inner, "url");
        if let Some(url) = &url {
            self.written_url(url);
        }
        let headers = self.headers(&inner);
        let query = self.document_of(&inner, "query");
        if let (Some(query), Some(place)) = (&query, inner.get("query"))
            && let Some(value) = query.value.as_fixed()
            && value.kind() != Type::Object
        {
            let message = format!("`query` takes an object of names and values, not {}", shown(value));
            self.problem(Check::WrongType.at(span_of(place.node), message));
        }
        let body = self.document_of(&inner, "body");
        if let (Some("GET" | "HEAD"), Some(found)) = (method, inner.found("body")) {
            let message = format!("`body` does not go with {}", method.unwrap_or_default());
            let hint = "write `method: POST`, or what is asked for as `query:`";
            self.problem(Check::BadRequest.at(found.entry.key_span, message).hint(hint));
        }
        Some(Http { method: method?, url: url?, headers, query, body })
    }

    /// What of a URL can be looked at before its values are known.
    pub(super) fn written_url(&mut self, field: &Field<Template>) {
        let parts: Vec<Option<&str>> = field.value.written_parts().collect();
        if parts.first().is_some_and(Option::is_none) {
            return;
        }
        // A name stands for every value: it fits everywhere.
        let pieces = parts.into_iter().map(|part| part.map_or(Piece::Value("x"), Piece::Written));
        if let Err(error) = url::build(pieces) {
            let problem = Check::BadRequest.at(field.origin.span, error.message);
            self.problem(error.hint.into_iter().fold(problem, crate::problem::Problem::hint));
        }
    }

    /// Lines of a header, by their names in lower case.
    pub(super) fn headers(&mut self, fields: &Fields<'_>) -> Vec<(EcoString, Field<Template>)> {
        let Some(place) = self.map(fields, "headers") else { return Vec::new() };
        let mut headers: Vec<(EcoString, Field<Template>)> = Vec::new();
        for (name, entry, at) in place.entries() {
            let lower = EcoString::from(name.to_ascii_lowercase());
            let wrong = if !url::is_header_name(name) {
                Some(format!("`{name}` cannot be the name of a header"))
            } else if OWN_HEADERS.contains(&lower.as_str()) {
                Some(format!("the header `{name}` follows from the request itself"))
            } else if headers.iter().any(|(known, _)| *known == lower) {
                Some(format!("the header `{name}` stands twice"))
            } else {
                None
            };
            if let Some(message) = wrong {
                self.problem(Check::BadRequest.at(entry.key_span, message));
                continue;
            }
            let Some(value) = self.template(&at, name) else { continue };
            if value.value.as_plain().is_some_and(|text| !url::is_header_value(&text)) {
                let message = format!("the header `{name}` holds a line break or another control character");
                self.problem(Check::BadRequest.at(value.origin.span, message));
            }
            headers.push((lower, value));
        }
        headers
    }
}
