//! Requests to servers: one request, one answer, on the calling thread.
//!
//! Everything about the client library stands here. No proxy is taken from the environment, nothing is
//! remembered from one request to the next, and the certificates that are trusted are those of the machine.
//! Redirects are followed here: what a step sends goes to the origin that it was written for, and a redirect
//! leads to no private address of another host.

mod address;
mod redirect;

use std::io::Read;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::evaluate::{HostPolicy, Request};
use threadline_engine::execute::effect::{NoResponse, Response};
use threadline_engine::execute::result::timed_out;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::url::host_name;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, http};

use address::{PrivateAddress, PublicResolver};

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

/// What becomes of a redirect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectPolicy {
    /// It is followed.
    Follow,
    /// It is an error: the request makes no sense elsewhere, or as another one.
    Refuse,
}

/// Requests to any host.
static AGENT: LazyLock<Agent> = LazyLock::new(|| agent().into());

/// Requests to hosts with public addresses.
static PUBLIC: LazyLock<Agent> =
    LazyLock::new(|| Agent::with_parts(agent(), DefaultConnector::default(), PublicResolver));

/// Connections that trust the certificates of this machine.
pub fn tls() -> TlsConfig {
    // A certificate that cannot be read is one that is not trusted.
    let found = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<Certificate<'static>> =
        found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(provider)
        .build()
}

fn agent() -> ureq::config::Config {
    Agent::config_builder()
        .tls_config(tls())
        .proxy(None)
        .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        .build()
}

/// Sends a request and reads all of the answer. `watch` is shown what was read so far, each time that there is more.
pub(crate) fn send(
    request: &Request,
    limits: RequestLimits,
    watch: &mut dyn FnMut(&[u8]),
) -> Result<Response, NoResponse> {
    let mut never = |read: &[u8]| {
        watch(read);
        false
    };
    send_until(request, limits, RedirectPolicy::Follow, &mut never)
}

/// Sends a request and reads the answer, to its end or until what was read is enough.
pub(crate) fn send_until(
    request: &Request,
    limits: RequestLimits,
    redirects: RedirectPolicy,
    is_enough: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<Response, NoResponse> {
    let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
    let mut hop = Hop::first(request);
    for _ in 0..=MAX_REDIRECTS {
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let failed = |error: ureq::Error| NoResponse {
            failure: failure(&error, &hop.url, limits),
            is_sent: may_be_sent(&error),
            received: None,
        };
        if timeout == Some(Duration::ZERO) {
            return Err(NoResponse::unsent(timed_out(limits.timeout, None)));
        }
        let (parts, body) = hop.send(timeout).map_err(failed)?.into_parts();
        let location = parts.headers.get(http::header::LOCATION).map(http::HeaderValue::as_bytes);
        if let (true, Some(location)) = (redirect::is_redirect(parts.status.as_u16()), location) {
            let location = String::from_utf8_lossy(location);
            let next = hop.next(parts.status.as_u16(), &location, redirects, &request.hosts);
            hop = next.map_err(NoResponse::unsent)?;
            continue;
        }
        let response = |body: Vec<u8>| Response {
            status: parts.status.as_u16(),
            reason: parts.status.canonical_reason().map(str::to_owned),
            headers: header_lines(&parts.headers),
            body,
            worker: None,
        };
        let mut read = Vec::new();
        let mut reader = body.into_reader().take(limits.max_answer.saturating_add(1));
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => read.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let failure = broken(error.into(), &hop.url, limits);
                    return Err(NoResponse {
                        failure,
                        is_sent: true,
                        received: Some(Box::new(response(read))),
                    });
                }
            }
            if is_enough(&read) {
                break;
            }
        }
        if read.len() as u64 > limits.max_answer {
            let message = format!("the answer is larger than {} bytes", limits.max_answer);
            let failure = Failure::new(FailureKind::OutputTooLarge, message);
            return Err(NoResponse { failure, is_sent: true, received: Some(Box::new(response(read))) });
        }
        return Ok(response(read));
    }
    let message = format!("more than {MAX_REDIRECTS} redirects");
    Err(NoResponse::unsent(Failure::new(FailureKind::Http, message)))
}

/// Whether a server may have heard of a request that failed with this error. Where that is not known, it may have.
fn may_be_sent(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::Io(error) => !matches!(
            error.kind(),
            AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable
        ),
        ureq::Error::Protocol(_) | ureq::Error::Timeout(_) => true,
        _ => false,
    }
}

/// One request on the way to an answer.
struct Hop<'r> {
    method: &'static str,
    url: String,
    headers: Vec<(EcoString, String)>,
    body: Option<&'r str>,
    /// Whether the host must be a public one.
    is_public: bool,
}

impl<'r> Hop<'r> {
    fn first(request: &'r Request) -> Self {
        let host = host_name(&request.url).unwrap_or_default();
        Self {
            method: request.method,
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.as_deref(),
            is_public: request.hosts.is_data && !request.hosts.is_known(host),
        }
    }

    fn send(&self, timeout: Option<Duration>) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let agent: &Agent = if self.is_public { &PUBLIC } else { &AGENT };
        let mut builder = http::Request::builder().method(self.method).uri(&self.url);
        for (name, value) in &self.headers {
            builder = builder.header(name.as_str(), value.as_str());
        }
        if let Some(body) = self.body {
            let request = agent.configure_request(builder.body(body)?).timeout_global(timeout).build();
            return agent.run(request);
        }
        agent.run(agent.configure_request(builder.body(())?).timeout_global(timeout).build())
    }

    /// The request that a redirect asks for.
    fn next(
        self,
        status: u16,
        location: &str,
        redirects: RedirectPolicy,
        hosts: &HostPolicy,
    ) -> Result<Self, Failure> {
        let refused = |message: String| Failure::new(FailureKind::Http, message);
        let url = redirect::target(&self.url, location).map_err(refused)?;
        if redirects == RedirectPolicy::Refuse {
            return Err(refused(format!("the server redirects to `{url}`; write that URL in the workflow")));
        }
        let (from, to) = (redirect::origin(&self.url), redirect::origin(&url));
        let scheme =
            |origin: &Option<(String, String, u16)>| origin.as_ref().map(|(scheme, ..)| scheme.clone());
        if scheme(&from).as_deref() == Some("https") && scheme(&to).as_deref() != Some("https") {
            return Err(refused(format!("the server redirects from `https` to `{url}`")));
        }
        let keeps_method = matches!(status, 307 | 308) || matches!(self.method, "GET" | "HEAD");
        if keeps_method && self.body.is_some() {
            return Err(refused(
                "the server redirects a request with a body, which is not sent again".into(),
            ));
        }
        let mut headers = self.headers;
        if from == to {
            // Who may do something is asked again, and a request without a body has no type of one.
            let is_kept = |name: &str| !matches!(name, "authorization" | "cookie" | "content-type");
            headers.retain(|(name, _)| is_kept(name));
        } else {
            headers.clear();
        }
        let host =
            |origin: Option<(String, String, u16)>| origin.map(|(_, host, _)| host).unwrap_or_default();
        let (old, new) = (host(from), host(to));
        let is_public =
            if old == new { self.is_public } else { !hosts.is_known(host_name(&url).unwrap_or_default()) };
        let method = if keeps_method { self.method } else { "GET" };
        Ok(Self { method, url, headers, body: None, is_public })
    }
}

/// The host of a URL, as people read it.
fn host_of(url: &str) -> &str {
    let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    // What stands before an `@` may be a password.
    host.and_then(|host| host.rsplit('@').next()).unwrap_or_default()
}

/// Why an answer that had begun did not come to its end.
fn broken(error: ureq::Error, url: &str, limits: RequestLimits) -> Failure {
    match error {
        ureq::Error::Io(error) => {
            let (host, why) = (host_of(url), crate::project::plain(&error));
            Failure::new(FailureKind::Http, format!("the connection to `{host}` broke: {why}"))
        }
        error => failure(&error, url, limits),
    }
}

fn failure(error: &ureq::Error, url: &str, limits: RequestLimits) -> Failure {
    let host = host_of(url);
    let message = match error {
        ureq::Error::Timeout(_) => {
            return timed_out(limits.timeout, None);
        }
        ureq::Error::HostNotFound => format!("the host `{host}` is not known"),
        ureq::Error::ConnectionFailed => format!("no connection to `{host}`"),
        ureq::Error::BadUri(why) => format!("`{url}` is not a URL: {why}"),
        ureq::Error::Other(error) if let Some(private) = error.downcast_ref::<PrivateAddress>() => format!(
            "a value or a redirect leads to `{host}`, and {private}; `allow: {{hosts: [...]}}` permits it"
        ),
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
