//! Reads HTTP requests.

use std::time::Duration;

use ecow::EcoString;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Template, Type, Value};

use super::read::{LocatedNode, ObjectFields, WorkflowLoader, shown, span_of};
use crate::checks::Check;
use crate::fields::HTTP;
use crate::model::{Action, Field, Http, Setting};
use crate::url::{self, UrlPiece};

/// Headers that are set automatically.
const OWN_HEADERS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

impl WorkflowLoader {
    pub(super) fn read_http(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let place = fields.get("http")?;
        self.read_request_of(fields, place)
    }

    /// Reads the request of a step: the value of `http`, or `params` of the tool `http`.
    pub(super) fn read_request_of(
        &mut self,
        fields: &ObjectFields<'_>,
        place: LocatedNode<'_>,
    ) -> Option<Action> {
        if let (Some(found), Some(_)) = (fields.found("timeout"), place.node.get("timeout")) {
            let message = "`timeout` is set both on the step and in the request";
            self.report(Check::ConflictingKeys.at(found.entry.key_span, message).hint("keep one of them"));
        }
        self.read_request(place).map(Action::Http)
    }

    /// Reads the maximum duration of the request of a step.
    pub(super) fn read_http_timeout(&mut self, fields: &ObjectFields<'_>) -> Option<Setting<Duration>> {
        let is_tool = fields.get("tool").is_some_and(|place| place.node.value.as_str() == Some("http"));
        let place = fields
            .get(if is_tool { "params" } else { "http" })
            .filter(|place| place.node.value.as_object().is_some())?;
        // Problems of its keys are reported when the request itself is read.
        let told = self.problems.len();
        let inner = self.read_fields(place, &HTTP);
        self.problems.truncate(told);
        self.read_time_limit(&inner?, "timeout")
    }

    fn read_request(&mut self, place: LocatedNode<'_>) -> Option<Http> {
        if let Some(url) = place.node.value.as_str() {
            let request = format!("{{url: {}}}", Value::from(url).to_json(JsonStyle::Compact));
            let problem = Check::WrongType
                .at(span_of(place.node), format!("`http` is an object, not the text `{url}`"));
            self.report(problem.replace(format!("write `http: {request}`"), request));
            return None;
        }
        let inner = self.read_fields(place, &HTTP)?;
        let method = self.read_choice(&inner, "method");
        let url = self.read_template_of(&inner, "url");
        if let Some(url) = &url {
            self.check_url(url);
        }
        let headers = self.read_headers(&inner);
        let query = self.read_document_of(&inner, "query");
        if let (Some(query), Some(place)) = (&query, inner.get("query"))
            && let Some(value) = query.value.as_fixed()
            && value.kind() != Type::Object
        {
            let message = format!("`query` takes an object of parameters, not {}", shown(value));
            self.report(Check::WrongType.at(span_of(place.node), message));
        }
        let body = self.read_document_of(&inner, "body");
        if let (Some("GET" | "HEAD"), Some(found)) = (method, inner.found("body")) {
            let message = format!("a {} request has no `body`", method.unwrap_or_default());
            let hint = "write `method: POST`, or pass the values in `query:`";
            self.report(Check::BadRequest.at(found.entry.key_span, message).hint(hint));
        }
        Some(Http { method: method?, url: url?, headers, query, body })
    }

    /// Checks a URL as far as possible before its values are known.
    pub(super) fn check_url(&mut self, field: &Field<Template>) {
        let parts: Vec<Option<&str>> = field.value.written_parts().collect();
        if parts.first().is_some_and(Option::is_none) {
            return;
        }
        // A letter stands for every value, because it is valid everywhere.
        let pieces = parts.into_iter().map(|part| part.map_or(UrlPiece::Value("x"), UrlPiece::Written));
        if let Err(error) = url::build(pieces) {
            let problem = Check::BadRequest.at(field.origin.span, error.message);
            self.report(error.hint.into_iter().fold(problem, crate::problem::Problem::hint));
        }
    }

    /// Reads headers, keyed by name in lower case.
    pub(super) fn read_headers(&mut self, fields: &ObjectFields<'_>) -> Vec<(EcoString, Field<Template>)> {
        let Some(place) = self.read_map(fields, "headers") else { return Vec::new() };
        let mut headers: Vec<(EcoString, Field<Template>)> = Vec::new();
        for (name, entry, at) in place.entries() {
            let lower = EcoString::from(name.to_ascii_lowercase());
            let wrong = if !url::is_header_name(name) {
                Some(format!("`{name}` is not a valid header name"))
            } else if OWN_HEADERS.contains(&lower.as_str()) {
                Some(format!("the header `{name}` is set automatically"))
            } else if headers.iter().any(|(known, _)| *known == lower) {
                Some(format!("the header `{name}` is set twice"))
            } else {
                None
            };
            if let Some(message) = wrong {
                self.report(Check::BadRequest.at(entry.key_span, message));
                continue;
            }
            let Some(value) = self.read_template(&at, name) else { continue };
            if value.value.as_plain().is_some_and(|text| !url::is_header_value(&text)) {
                let message =
                    format!("the header `{name}` contains a line break or another control character");
                self.report(Check::BadRequest.at(value.origin.span, message));
            }
            headers.push((lower, value));
        }
        headers
    }
}
