//! What happens to a request: the gate, the table of routes, the parameters, the body, the handler. Each of them may refuse
//! it, and then nothing after it sees it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderName;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;
use threadline_flow::model::Workflow;
use threadline_lang::Value;
use threadline_runner::project::{Project, plain};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::answer::{AnswerBody, ContentKind, HttpAnswer};
use crate::connection;
use crate::gate::{Gate, Refusal};
use crate::live::WatchedRuns;
use crate::parameters::GivenArguments;
use crate::problem::Problem;
use crate::projects::ServedProject;
use crate::public_url::PublicUrl;
use crate::routes::{self, BodyKind, Route, RouteEffect, RouteMissing};
use crate::token::Token;
use crate::views;

/// The largest body of a request.
const LARGEST_BODY: usize = 1 << 20;

/// How long a client may take to send a body.
const PATIENCE_FOR_BODY: Duration = Duration::from_secs(30);

/// The most connections at once. Others wait until one of them ends.
const MOST_CONNECTIONS: usize = 1_024;

/// The most requests that read journals at once.
const MOST_READERS: usize = 16;

/// How long nothing is accepted after that failed: there are no handles for a moment.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a server is told.
pub struct ServeSettings {
    /// The projects that are shown. Whoever made them has looked whose their stores are.
    pub projects: Vec<Project>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address under which browsers find it, where that is another one.
    pub public_url: Option<PublicUrl>,
    /// What whoever asks must know.
    pub token: Token,
    /// Whether nothing can be started or stopped.
    pub read_only: bool,
    /// Reads the file of a workflow, with all files that it takes in; nothing if it is none.
    pub read_workflow: WorkflowReader,
    /// The schemas of what it answers, by their names.
    pub schemas: Vec<(&'static str, Value)>,
}

/// Reads the file of a workflow.
pub type WorkflowReader = fn(&Path) -> Option<Workflow>;

/// A server, as all its connections share it.
pub(crate) struct PageServer {
    pub(crate) gate: Gate,
    pub(crate) projects: Vec<Arc<ServedProject>>,
    pub(crate) watched: WatchedRuns,
    pub(crate) read_only: bool,
    pub(crate) read_workflow: WorkflowReader,
    pub(crate) schemas: Vec<(&'static str, Value)>,
}

/// A request that was let in, and what it asks for.
pub(crate) struct RouteCall {
    pub(crate) server: Arc<PageServer>,
    pub(crate) arguments: GivenArguments,
    pub(crate) body: Bytes,
    /// The number of the last event that a browser has seen that connects again.
    pub(crate) last_event: Option<String>,
    pub(crate) now: Timestamp,
}

/// Answers requests of a route. It may wait for disks.
pub(crate) type Handler = fn(&RouteCall) -> Result<HttpAnswer, Problem>;

impl RouteCall {
    /// The project that it is about.
    pub(crate) fn project(&self) -> Result<&Arc<ServedProject>, Problem> {
        let name = self.arguments.text("project").unwrap_or_default();
        let known = self.server.projects.iter().find(|project| project.name == name);
        known.ok_or_else(|| Problem::missing("there is no such project"))
    }
}

/// Answers requests until the process ends. `ready` is told the address of the page as soon as it is there: without the
/// token, and with it.
pub fn serve(settings: ServeSettings, ready: impl FnOnce(&str, &str)) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MOST_READERS)
        .enable_all()
        .build()
        .map_err(|error| plain(&error))?;
    runtime.block_on(listen(settings, ready))
}

async fn listen(settings: ServeSettings, ready: impl FnOnce(&str, &str)) -> Result<(), String> {
    let ServeSettings { projects, listen, public_url, token, read_only, read_workflow, schemas } = settings;
    let cannot = |error: &std::io::Error| format!("cannot listen at `{listen}`: {}", plain(error));
    let listener = TcpListener::bind(listen).await.map_err(|error| cannot(&error))?;
    let address = listener.local_addr().map_err(|error| cannot(&error))?;
    let gate = Gate::new(&token, &names_of(address), public_url.clone());
    let origin = public_url.map_or_else(|| format!("http://{address}"), |public| public.origin());
    let page = format!("{origin}{}", gate.base());
    ready(&format!("{page}/"), &format!("{page}/open?token={}", token.reveal()));
    let projects = ServedProject::all(projects);
    let watched = WatchedRuns::default();
    let server = Arc::new(PageServer { gate, projects, watched, read_only, read_workflow, schemas });
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(respond(server, request).await) }
            });
            connection::answer(stream, service).await;
            drop(place);
        });
    }
}

/// The hosts that a server is known by that listens at an address.
fn names_of(address: SocketAddr) -> Vec<String> {
    let mut names = vec![address.to_string()];
    if address.ip().is_loopback() {
        names.push(format!("localhost:{}", address.port()));
    }
    names
}

/// Answers a request.
async fn respond(server: Arc<PageServer>, request: Request<Incoming>) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let is_entry = |path: &str| routes::is_entry(path);
    let admitted = server.gate.admit(&head.method, &head.uri, &head.headers, is_entry);
    let path = match admitted {
        Ok(admitted) => admitted.path.to_owned(),
        Err(refusal) => return refused(&server, refusal).response(),
    };
    let (route, mut arguments) = match routes::find(&head.method, &path) {
        Ok(found) => found,
        Err(RouteMissing::Path(problem)) => return HttpAnswer::problem(&problem).response(),
        Err(RouteMissing::Method(allowed)) => {
            let problem =
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "there is no such method at this path");
            return HttpAnswer::problem(&problem).allow(&allowed).response();
        }
    };
    let answer = async {
        if server.read_only && route.effect == RouteEffect::Acts {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "this server only shows runs: it has `--read-only`",
            ));
        }
        let now = Timestamp::now();
        let of_query: Vec<_> =
            route.parameters().filter(|parameter| !route.is_in_path(parameter)).copied().collect();
        arguments.take_query(&of_query, head.uri.query().unwrap_or_default(), now)?;
        let body = body_of(route, &head.headers, body).await?;
        let last_event = head.headers.get(&LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?").to_owned());
        let call = RouteCall { server: Arc::clone(&server), arguments, body, last_event, now };
        let answered = tokio::task::spawn_blocking(move || (route.handler)(&call)).await;
        // The message of a panic is on stderr.
        answered.unwrap_or_else(|_| {
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server failed at this request; that is a bug",
            ))
        })
    };
    match answer.await {
        Ok(answer) => answer.response(),
        Err(problem) if route.answer.0 == ContentKind::Html => views::problem(&server, &problem).response(),
        Err(problem) => HttpAnswer::problem(&problem).response(),
    }
}

/// Says why a request is not let in, and nothing else.
fn refused(server: &PageServer, refusal: Refusal) -> HttpAnswer {
    let (status, detail) = match refusal {
        Refusal::Malformed => (StatusCode::BAD_REQUEST, "the head of the request cannot be understood"),
        Refusal::WrongHost => (StatusCode::MISDIRECTED_REQUEST, "this server has another name"),
        Refusal::ForeignOrigin => (StatusCode::FORBIDDEN, "another site has sent this request"),
        Refusal::Unknown { knows_segment: true } => return views::entry::ask(server, ""),
        Refusal::Unknown { knows_segment: false } => {
            (StatusCode::UNAUTHORIZED, "the token is missing or wrong")
        }
    };
    HttpAnswer::problem(&Problem::new(status, detail))
}

/// The body of a request, as its route takes it.
async fn body_of(route: &Route, headers: &hyper::HeaderMap, body: Incoming) -> Result<Bytes, Problem> {
    if route.body == BodyKind::None {
        return if body.is_end_stream() {
            Ok(Bytes::new())
        } else {
            Err(Problem::bad("a request for this path has no body"))
        };
    }
    let wanted = route.body.media_type();
    let given =
        headers.get(hyper::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim();
    if !given.eq_ignore_ascii_case(wanted) {
        let detail = format!("the body of this request is `{wanted}`");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, &detail));
    }
    let too_large = || {
        let detail = format!("a body has at most {LARGEST_BODY} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, &detail)
    };
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    let read = tokio::time::timeout(PATIENCE_FOR_BODY, Limited::new(body, LARGEST_BODY).collect()).await;
    match read {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad("the body of the request broke off")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come")),
    }
}
