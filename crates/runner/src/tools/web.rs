//! A server that is reached over HTTP: a message is a request, its answer a JSON document or a stream of events.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::evaluate::Request;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;

use super::lock;
use super::message::{self, Arrived, ExchangeError};
use threadline_engine::execute::effect::Response;
use threadline_engine::execute::response_result;

use crate::http;

/// An answer is at most so large.
const MAX_ANSWER: u64 = 64 << 20;
/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where a server is, and the session with it.
pub(super) struct Web {
    url: String,
    headers: Vec<(EcoString, String)>,
    session: Mutex<WebSession>,
    is_over: AtomicBool,
    next: AtomicI64,
}

#[derive(Default, Clone)]
struct WebSession {
    id: Option<String>,
    version: Option<String>,
}

impl Web {
    pub(super) fn new(url: &str, headers: &[(EcoString, String)]) -> Self {
        let (url, headers) = (url.to_owned(), headers.to_vec());
        Self {
            url,
            headers,
            session: Mutex::default(),
            is_over: AtomicBool::new(false),
            next: AtomicI64::new(1),
        }
    }

    /// The version of the protocol that later requests name.
    pub(super) fn speaks(&self, version: &str) {
        lock(&self.session).version = Some(version.to_owned());
    }

    /// Whether its session is one that the server still knows, as far as we were told.
    pub(super) fn lives(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    pub(super) fn request(
        &self,
        method: &str,
        params: Value,
        deadline: Option<Instant>,
    ) -> Result<Value, ExchangeError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let limits = http::RequestLimits {
            timeout: deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            max_answer: MAX_ANSWER,
        };
        if limits.timeout == Some(Duration::ZERO) {
            return Err(ExchangeError::Timeout);
        }
        // A stream may stay open when the answer has come.
        let is_enough = |read: &[u8]| read.ends_with(b"\n") && answer_in_stream(read, id).is_some();
        let sent = http::send_until(
            &self.post("POST", Some(message::request(id, method, params))),
            limits,
            &is_enough,
        );
        let answer = sent.map_err(|failure| match failure.kind {
            FailureKind::Timeout => ExchangeError::Timeout,
            _ => ExchangeError::Failure(failure),
        })?;
        if let Some(session) = answer.header("mcp-session-id") {
            lock(&self.session).id = Some(session.to_owned());
        }
        self.answer(answer, id)
    }

    fn answer(&self, answer: Response, id: i64) -> Result<Value, ExchangeError> {
        let is_stream =
            answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream && answer.is_success() {
            let found = answer_in_stream(&answer.body, id);
            return found.unwrap_or_else(|| Err(ExchangeError::Ended("before its answer came".to_owned())));
        }
        // Errors of the protocol come with other statuses, too.
        if let Some(Arrived::Answer(of, answered)) =
            std::str::from_utf8(&answer.body).ok().and_then(message::read)
            && of == id
        {
            return answered;
        }
        // A session that the server does not know any more is begun anew by the next call.
        self.is_over.store(answer.status == 404, Ordering::SeqCst);
        Err(ExchangeError::Failure(match response_result(answer).value {
            Err(failure) => failure,
            Ok(_) => Failure::new(FailureKind::Http, "the answer is no message of the protocol"),
        }))
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        let limits = http::RequestLimits { timeout: Some(FAREWELL), max_answer: MAX_ANSWER };
        // Nobody waits for what comes of it.
        let _ = http::send(&self.post("POST", Some(message::notification(method, params))), limits);
    }

    /// Ends the session, when there is one.
    pub(super) fn end(&self) {
        if lock(&self.session).id.is_some() {
            let limits = http::RequestLimits { timeout: Some(FAREWELL), max_answer: MAX_ANSWER };
            // A server need not offer it.
            let _ = http::send(&self.post("DELETE", None), limits);
        }
    }

    fn post(&self, method: &'static str, body: Option<String>) -> Request {
        let session = lock(&self.session).clone();
        let mut headers = self.headers.clone();
        headers.retain(|(name, _)| !matches!(name.as_str(), "accept" | "content-type"));
        headers.push(("accept".into(), "application/json, text/event-stream".to_owned()));
        headers.push(("content-type".into(), "application/json".to_owned()));
        headers.extend(session.id.map(|id| ("mcp-session-id".into(), id)));
        headers.extend(session.version.map(|version| ("mcp-protocol-version".into(), version)));
        Request { method, url: self.url.clone(), headers, body }
    }
}

/// The answer to a request among the events of a stream.
fn answer_in_stream(stream: &[u8], id: i64) -> Option<Result<Value, ExchangeError>> {
    let text = std::str::from_utf8(stream).ok()?;
    let mut data = String::new();
    for line in text.lines().chain([""]) {
        if let Some(more) = line.strip_prefix("data:") {
            data.push_str(more.strip_prefix(' ').unwrap_or(more));
            data.push('\n');
        } else if line.is_empty() && !data.is_empty() {
            if let Some(Arrived::Answer(of, answer)) = message::read(&data)
                && of == id
            {
                return Some(answer);
            }
            data.clear();
        }
    }
    None
}
