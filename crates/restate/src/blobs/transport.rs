//! The requests of object stores, made with the client that all other requests of Threadline are made with.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Body as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use threadline_runner::http;
use ureq::http::{Method, Request, Response};

/// How long a server may take for one request. No request carries more than a piece of a blob.
const LONGEST: Duration = Duration::from_mins(2);

/// How long a server has to take a connection.
const CONNECTING: Duration = Duration::from_secs(5);

/// An answer is at most as large as a piece of a blob, or a page of a list.
const LARGEST_ANSWER: u64 = 64 << 20;

/// Makes requests.
#[derive(Debug, Clone)]
pub(super) struct Transport(ureq::Agent);

impl Transport {
    pub(super) fn new() -> Self {
        let agent = ureq::Agent::config_builder()
            .tls_config(http::tls())
            .proxy(None)
            .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECTING))
            .timeout_global(Some(LONGEST))
            .build();
        Self(agent.into())
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<HttpResponse, HttpError> {
        let takes_body = matches!(*request.method(), Method::PUT | Method::POST);
        let sent = if takes_body {
            self.0.run(request)
        } else {
            let (parts, _) = request.into_parts();
            self.0.run(Request::from_parts(parts, ()))
        };
        let (parts, mut body) = sent.map_err(failed)?.into_parts();
        let read = body.with_config().limit(LARGEST_ANSWER).read_to_vec();
        Ok(Response::from_parts(parts, read.map_err(failed)?.into()))
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _options: &object_store::ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, mut body) = request.into_parts();
        let mut bytes = Vec::with_capacity(body.content_length());
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            if let Some(piece) = frame?.data_ref() {
                bytes.extend_from_slice(piece);
            }
        }
        let transport = self.clone();
        let request = Request::from_parts(parts, bytes);
        let sent = tokio::task::spawn_blocking(move || transport.send(request)).await;
        sent.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?
    }
}

/// What kind of failure it is: that says whether it is worth another try.
fn failed(error: ureq::Error) -> HttpError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let kind = match &error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(error) => match error.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => HttpErrorKind::Interrupted,
            std::io::ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
            _ => HttpErrorKind::Unknown,
        },
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
