//! Requests to servers: one request, one answer, on the calling thread.
//!
//! Everything about the client library stands here. No proxy is taken from the environment, nothing is remembered from
//! one request to the next, and the certificates that are trusted are those of the machine.

use std::io::Read;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ecow::EcoString;
use threadline_engine::evaluate::Request;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::{Limits as DataLimits, Value, data};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, http};

use crate::output::{Left, spoken};

/// So many redirects are followed.
const MAX_REDIRECTS: u32 = 10;

/// So much is read at a time.
const PIECE: usize = 64 << 10;

/// So much of an answer stands in a message.
const SHOWN: usize = 200;

/// How long an answer may take, and how large it may be.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_answer: u64,
}

/// What a server answered.
pub(crate) struct Answer {
    status: http::StatusCode,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    // A certificate that cannot be read is one that is not trusted.
    let found = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<Certificate<'static>> =
        found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(provider)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .max_redirects(MAX_REDIRECTS)
        .max_idle_connections(0)
        .build()
        .into()
});

/// Sends a request and reads all of the answer.
pub(crate) fn send(request: &Request, limits: Limits) -> Result<Answer, Failure> {
    send_until(request, limits, &|_| false)
}

/// Sends a request and reads the answer, to its end or until what was read is enough.
pub(crate) fn send_until(
    request: &Request,
    limits: Limits,
    is_enough: &dyn Fn(&[u8]) -> bool,
) -> Result<Answer, Failure> {
    let failed = |error: ureq::Error| failure(&error, request, limits);
    let is_secure = request.url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let mut builder = http::Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        builder = builder.header(name.as_str(), value.as_str());
    }
    let response = match &request.body {
        Some(body) => builder.body(body.as_str()).map_err(ureq::Error::from).and_then(|request| {
            let configured = AGENT.configure_request(request).timeout_global(limits.timeout);
            AGENT.run(configured.https_only(is_secure).build())
        }),
        None => builder.body(()).map_err(ureq::Error::from).and_then(|request| {
            let configured = AGENT.configure_request(request).timeout_global(limits.timeout);
            AGENT.run(configured.https_only(is_secure).build())
        }),
    };
    let (parts, body) = response.map_err(failed)?.into_parts();
    let mut read = Vec::new();
    let mut reader = body.into_reader().take(limits.max_answer.saturating_add(1));
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => read.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error.into())),
        }
        if is_enough(&read) {
            break;
        }
    }
    if read.len() as u64 > limits.max_answer {
        let message = format!("the answer is larger than {} bytes", limits.max_answer);
        return Err(Failure::new(FailureKind::OutputTooLarge, message));
    }
    Ok(Answer { status: parts.status, headers: parts.headers, body: read })
}

fn failure(error: &ureq::Error, request: &Request, limits: Limits) -> Failure {
    let host = request.url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    // What stands before an `@` may be a password.
    let host = host.and_then(|host| host.rsplit('@').next()).unwrap_or_default();
    let message = match error {
        ureq::Error::Timeout(_) => {
            let time = limits.timeout.map_or(String::new(), |time| format!(" after {}", spoken(time)));
            return Failure::new(FailureKind::Timeout, format!("timed out{time}"));
        }
        ureq::Error::HostNotFound => format!("the host `{host}` is not known"),
        ureq::Error::ConnectionFailed => format!("no connection to `{host}`"),
        ureq::Error::TooManyRedirects => format!("more than {MAX_REDIRECTS} redirects"),
        ureq::Error::RedirectFailed => {
            "the server redirects a request with a body, which is not sent again".into()
        }
        ureq::Error::RequireHttpsOnly(url) => format!("the server redirects from `https` to `{url}`"),
        ureq::Error::BadUri(why) => format!("`{}` is not a URL: {why}", request.url),
        ureq::Error::Io(error) => format!("no connection to `{host}`: {}", crate::project::plain(error)),
        error => format!("no answer from `{host}`: {error}"),
    };
    Failure::new(FailureKind::Http, message)
}

impl Answer {
    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// What was read.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// A header, when it is text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    /// The meta data that a request adds.
    pub(crate) fn meta(&self) -> Vec<(&'static str, Value)> {
        let mut headers: Vec<(EcoString, Value)> = Vec::new();
        for name in self.headers.keys() {
            let values: Vec<String> = self
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
                .collect();
            headers.push((name.as_str().into(), values.join(", ").into()));
        }
        // The client bounds the headers of an answer.
        let headers = Value::record(headers);
        vec![("status_code", i64::from(self.status.as_u16()).into()), ("headers", headers)]
    }

    /// What it leaves: JSON as a value, anything else as text.
    pub(crate) fn left(self) -> Left {
        let kind = self.content_type();
        let text = String::from_utf8(self.body);
        if !self.status.is_success() {
            let text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
            let failure = Failure::new(FailureKind::Http, refusal(self.status, &text));
            return Left { value: Err(failure), output: Some(text.into()), stderr: None };
        }
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let failure =
                    Failure::new(FailureKind::Format, format!("the answer is not UTF-8 at byte {at}"));
                return Left { value: Err(failure), output: None, stderr: None };
            }
        };
        if !is_json(&kind) {
            return Left { value: Ok(text.into()), output: None, stderr: None };
        }
        let value = match text.trim() {
            "" => Ok(Value::NULL),
            _ => data::json::read_value(&text, &DataLimits::DEFAULT).map_err(|error| {
                Failure::new(FailureKind::Format, format!("the answer is not JSON: {error}"))
            }),
        };
        Left { value, output: Some(text.into()), stderr: None }
    }

    fn content_type(&self) -> String {
        let header = self.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        header.and_then(|header| header.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// Whether answers of a type are JSON.
fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

/// What a server said when it did not do what was asked.
fn refusal(status: http::StatusCode, text: &str) -> String {
    let reason = status.canonical_reason().map_or(String::new(), |reason| format!(" {reason}"));
    let said: String = text.trim().chars().take(SHOWN).collect();
    let more = if said.len() < text.trim().len() { "..." } else { "" };
    let said = if said.is_empty() { said } else { format!(": {said}{more}") };
    format!("the server answered {}{reason}{said}", status.as_u16())
}
