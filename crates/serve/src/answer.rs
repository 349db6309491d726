//! Answers, with the header fields that each of them has. What is in an answer is never guessed from its content, and no
//! page runs a script that is not a file of the server.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use tokio::sync::mpsc;

use crate::problem::Problem;

/// What a page may load and run: files of this server, and nothing that stands in the page itself. Nobody may put it into
/// a frame, and its forms go nowhere else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Fields of every answer.
const ALWAYS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What an answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Json,
    ProblemJson,
    Html,
    Svg,
    Css,
    Script,
    /// A text that is kept as a file.
    Attachment,
    Events,
}

impl ContentKind {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::ProblemJson => "application/problem+json",
            Self::Html => "text/html; charset=utf-8",
            Self::Svg => "image/svg+xml",
            Self::Css => "text/css; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Attachment => "text/plain; charset=utf-8",
            Self::Events => "text/event-stream",
        }
    }
}

/// An answer.
pub(crate) struct HttpAnswer {
    status: StatusCode,
    kind: ContentKind,
    body: AnswerBody,
    fields: Vec<(HeaderName, String)>,
}

impl HttpAnswer {
    fn new(kind: ContentKind, body: impl Into<Bytes>) -> Self {
        let body = AnswerBody::Whole(Full::new(body.into()));
        Self { status: StatusCode::OK, kind, body, fields: Vec::new() }
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::new(ContentKind::Json, value.to_json(JsonStyle::Compact) + "\n")
    }

    pub(crate) fn html(page: String) -> Self {
        Self::new(ContentKind::Html, page)
    }

    pub(crate) fn svg(drawing: String) -> Self {
        Self::new(ContentKind::Svg, drawing)
    }

    /// A file of the page.
    pub(crate) fn asset(kind: ContentKind, content: &'static [u8]) -> Self {
        Self::new(kind, Bytes::from_static(content))
    }

    /// A text that a browser keeps as a file and never shows.
    pub(crate) fn attachment(name: &str, text: String) -> Self {
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        let name: String = name.chars().take(80).map(plain).collect();
        Self::new(ContentKind::Attachment, text)
            .with(CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.txt\""))
    }

    /// Events as they come.
    pub(crate) fn events(lines: mpsc::Receiver<Bytes>) -> Self {
        let (status, kind) = (StatusCode::OK, ContentKind::Events);
        Self { status, kind, body: AnswerBody::Events(lines), fields: Vec::new() }
            // Proxies that collect answers would keep events back.
            .with(HeaderName::from_static("x-accel-buffering"), "no".to_owned())
    }

    /// Sends a browser to another path of this server.
    pub(crate) fn elsewhere(path: String) -> Self {
        Self::new(ContentKind::Html, "").status(StatusCode::SEE_OTHER).with(LOCATION, path)
    }

    /// Why there is no answer.
    pub(crate) fn problem(problem: &Problem) -> Self {
        let body = problem.value().to_json(JsonStyle::Compact) + "\n";
        let answer = Self::new(ContentKind::ProblemJson, body).status(problem.status);
        if problem.status == StatusCode::UNAUTHORIZED {
            return answer.with(WWW_AUTHENTICATE, "Bearer".to_owned());
        }
        answer
    }

    #[must_use]
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Has a browser keep a cookie.
    #[must_use]
    pub(crate) fn cookie(self, cookie: String) -> Self {
        self.with(SET_COOKIE, cookie)
    }

    /// Says which methods there are.
    #[must_use]
    pub(crate) fn allow(self, methods: &str) -> Self {
        self.with(ALLOW, methods.to_owned())
    }

    fn with(mut self, name: HeaderName, value: String) -> Self {
        self.fields.push((name, value));
        self
    }

    /// The answer as it is sent.
    pub(crate) fn response(self) -> Response<AnswerBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind.media_type()));
        for (name, value) in ALWAYS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in self.fields {
            // All of them are made of letters, digits and marks.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Full<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context),
            Self::Events(lines) => lines.poll_recv(context).map(|lines| Some(Ok(Frame::data(lines?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
