//! A server that is reached over HTTP: a message is a request, its answer a JSON document or a stream of events.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::evaluate::{HostPolicy, Request};
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
    hosts: HostPolicy,
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
    pub(super) fn new(url: &str, headers: &[(EcoString, String)], hosts: &HostPolicy) -> Self {
        let (url, headers) = (url.to_owned(), headers.to_vec());
        Self {
            url,
            headers,
            hosts: hosts.clone(),
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
        let mut is_enough = |read: &[u8]| read.ends_with(b"\n") && answer_in_stream(read, id).is_some();
        let sent = http::send_until(
            &self.post("POST", Some(message::request(id, method, params))),
            limits,
            http::RedirectPolicy::Refuse,
            &mut is_enough,
        );
        let answer = sent.map_err(|missing| match missing.failure.kind {
            FailureKind::Timeout => ExchangeError::Timeout,
            _ => ExchangeError::Failure(missing.failure),
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
        match message::read(&answer.body) {
            Arrived::Answer(of, answered) if of == id => return answered,
            Arrived::Unreadable(_, why) => return Err(ExchangeError::Unreadable(why)),
            _ => {}
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
        let notification = self.post("POST", Some(message::notification(method, params)));
        let _ = http::send_until(&notification, limits, http::RedirectPolicy::Refuse, &mut |_| false);
    }

    /// Ends the session, when there is one.
    pub(super) fn end(&self) {
        if lock(&self.session).id.is_some() {
            let limits = http::RequestLimits { timeout: Some(FAREWELL), max_answer: MAX_ANSWER };
            // A server need not offer it.
            let _ = http::send_until(
                &self.post("DELETE", None),
                limits,
                http::RedirectPolicy::Refuse,
                &mut |_| false,
            );
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
        Request { method, url: self.url.clone(), headers, body, hosts: self.hosts.clone() }
    }
}

/// The answer to a request among the events of a stream.
fn answer_in_stream(stream: &[u8], id: i64) -> Option<Result<Value, ExchangeError>> {
    let mut data: Vec<u8> = Vec::new();
    let lines = stream.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.chain([&b""[..]]) {
        if let Some(more) = line.strip_prefix(b"data:") {
            data.extend_from_slice(more.strip_prefix(b" ").unwrap_or(more));
            data.push(b'\n');
        } else if line.is_empty() && !data.is_empty() {
            match message::read(&data) {
                Arrived::Answer(of, answer) if of == id => return Some(answer),
                Arrived::Unreadable(of, why) if of.is_none_or(|of| of == id) => {
                    return Some(Err(ExchangeError::Unreadable(why)));
                }
                _ => {}
            }
            data.clear();
        }
    }
    None
}
