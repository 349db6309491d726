//! Requests to servers: one request, one answer, on the calling thread.
//!
//! Everything about the client library stands here. No proxy is taken from the environment, nothing is remembered from
//! one request to the next, and the certificates that are trusted are those of the machine.

use std::io::Read;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ecow::EcoString;
use threadline_engine::evaluate::Request;
use threadline_engine::execute::effect::Response;
use threadline_engine::execute::result::timed_out;
use threadline_flow::fields::{Failure, FailureKind};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, http};

/// So many redirects are followed.
const MAX_REDIRECTS: u32 = 10;

/// So much is read at a time.
const PIECE: usize = 64 << 10;

/// How long an answer may take, and how large it may be.
#[derive(Clone, Copy)]
pub(crate) struct RequestLimits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_answer: u64,
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
pub(crate) fn send(request: &Request, limits: RequestLimits) -> Result<Response, Failure> {
    send_until(request, limits, &|_| false)
}

/// Sends a request and reads the answer, to its end or until what was read is enough.
pub(crate) fn send_until(
    request: &Request,
    limits: RequestLimits,
    is_enough: &dyn Fn(&[u8]) -> bool,
) -> Result<Response, Failure> {
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
    Ok(Response {
        status: parts.status.as_u16(),
        reason: parts.status.canonical_reason().map(str::to_owned),
        headers: header_lines(&parts.headers),
        body: read,
    })
}

fn failure(error: &ureq::Error, request: &Request, limits: RequestLimits) -> Failure {
    let host = request.url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    // What stands before an `@` may be a password.
    let host = host.and_then(|host| host.rsplit('@').next()).unwrap_or_default();
    let message = match error {
        ureq::Error::Timeout(_) => {
            return timed_out(limits.timeout, None);
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

/// The header lines of a response; those of one name are one line.
fn header_lines(headers: &http::HeaderMap) -> Vec<(EcoString, String)> {
    let line = |name: &http::HeaderName| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (name.as_str().into(), values.join(", "))
    };
    headers.keys().map(line).collect()
}
