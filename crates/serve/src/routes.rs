//! The one table of routes. Requests are answered, checked and described by it, and the tests try every row.

use hyper::Method;
use threadline_inspect::runs::RunStatus;

use crate::answer::ContentKind;
use crate::api;
use crate::parameters::{GivenArguments, ParameterKind, RouteParameter};
use crate::problem::Problem;
use crate::server::Handler;
use crate::views;
use crate::whole;

/// What a route does to what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteEffect {
    /// Nothing: it reads.
    Reads,
    /// It takes a token that is not in the head.
    Opens,
    /// It starts or stops something.
    Acts,
}

/// What a request brings beside its path and query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    /// The fields of a form.
    Form,
    /// JSON: what is started.
    Start,
    /// JSON: how a run goes on.
    Resume,
    /// JSON: how a run is stopped.
    Stop,
}

impl BodyKind {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Form => "application/x-www-form-urlencoded",
            // No page of another site can send it without asking first.
            Self::Start | Self::Resume | Self::Stop => "application/json",
        }
    }
}

/// One route.
pub(crate) struct Route {
    /// Its name in the description of the API.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    /// Its path; a segment in braces is a parameter.
    pub(crate) path: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    /// The parameters of its path, then those of its query.
    pub(crate) parameters: &'static [&'static [RouteParameter]],
    pub(crate) body: BodyKind,
    pub(crate) effect: RouteEffect,
    /// What it answers, and the name of the schema of that.
    pub(crate) answer: (ContentKind, Option<&'static str>),
    pub(crate) handler: Handler,
}

const NONE: &[&[RouteParameter]] = &[];

const PROJECT: &[RouteParameter] =
    &[RouteParameter { name: "project", kind: ParameterKind::Project, about: "the name of the project" }];

const RUN: &[RouteParameter] =
    &[PROJECT[0], RouteParameter { name: "run", kind: ParameterKind::Run, about: "the id of the run" }];

const AT: RouteParameter = RouteParameter {
    name: "at",
    kind: ParameterKind::Number(1, u64::MAX),
    about: "as it was after this event. Default: the last one",
};

const STEP: RouteParameter = RouteParameter {
    name: "step",
    kind: ParameterKind::Text,
    about: "a step as on a command line: an id, a number, an item such as `map[3]/1`, a visit such as `check#2`, a field \
            of one such as `build.shell`",
};

const ITEMS: RouteParameter = RouteParameter {
    name: "items",
    kind: ParameterKind::Text,
    about: "without a step: of steps in items, those in this item, as `3`, or in one of an item, as `3.1`",
};

const POINTER: RouteParameter = RouteParameter {
    name: whole::POINTER,
    kind: ParameterKind::Text,
    about: "answers with the whole of the value at this pointer, as an attachment",
};

const EVENT_COUNTS: &[RouteParameter] = &[
    RouteParameter {
        name: "after",
        kind: ParameterKind::Number(0, u64::MAX),
        about: "only events behind this one. Default: all of them",
    },
    RouteParameter {
        name: "count",
        kind: ParameterKind::Number(1, 10_000),
        about: "at most so many. Default: 1000",
    },
];

const STATUSES: [&str; RunStatus::ALL.len()] = {
    let mut names = [""; RunStatus::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = RunStatus::ALL[at].name();
        at += 1;
    }
    names
};

const RUN_CHOICE: &[RouteParameter] = &[
    RouteParameter {
        name: "status",
        kind: ParameterKind::Words(&STATUSES),
        about: "only runs with one of these",
    },
    RouteParameter {
        name: "workflow",
        kind: ParameterKind::Text,
        about: "only runs of this workflow: its name or its file",
    },
    RouteParameter {
        name: "text",
        kind: ParameterKind::Text,
        about: "only runs with this in their id, or in the name or file of their workflow",
    },
    RouteParameter {
        name: "since",
        kind: ParameterKind::Moment,
        about: "only runs that began then or later",
    },
    RouteParameter { name: "until", kind: ParameterKind::Moment, about: "only runs that began before" },
    RouteParameter { name: "called", kind: ParameterKind::Flag, about: "also runs that other runs called" },
    RouteParameter {
        name: "after",
        kind: ParameterKind::Run,
        about: "only runs behind this one: the `next` of a page",
    },
    RouteParameter {
        name: "count",
        kind: ParameterKind::Number(1, 500),
        about: "at most so many. Default: 50",
    },
];

const ITEM_CHOICE: &[RouteParameter] = &[
    RouteParameter {
        name: "standing",
        kind: ParameterKind::Words(&api::run::STANDINGS),
        about: "only items that stand like one of these",
    },
    RouteParameter {
        name: "after",
        kind: ParameterKind::Number(0, u64::MAX),
        about: "only items behind the one with this index: the `next` of a page",
    },
    RouteParameter {
        name: "count",
        kind: ParameterKind::Number(1, 1_000),
        about: "at most so many. Default: 50",
    },
];

const WAY: RouteParameter = RouteParameter {
    name: "way",
    kind: ParameterKind::Word(&["back", "forward"]),
    about: "to what made it, or to all that read it. Default: back",
};

const COMPARED: &[RouteParameter] = &[RouteParameter {
    name: "run",
    kind: ParameterKind::Runs,
    about: "a run; given twice, the first one first",
}];

const VIEW: &[RouteParameter] = &[
    AT,
    RouteParameter {
        name: "pane",
        kind: ParameterKind::Word(&views::run::choice::Pane::NAMES),
        about: "what stands in the middle",
    },
    RouteParameter { name: "step", kind: ParameterKind::Text, about: "the address of an execution" },
    RouteParameter {
        name: "attempt",
        kind: ParameterKind::Number(1, u32::MAX as u64),
        about: "which attempt of it",
    },
    RouteParameter {
        name: "item",
        kind: ParameterKind::Text,
        about: "the item whose values are shown, as `3` or `3.1`",
    },
    RouteParameter {
        name: "visit",
        kind: ParameterKind::Text,
        about: "the visit of a state whose values are shown, as `check#2`",
    },
    RouteParameter {
        name: "value",
        kind: ParameterKind::Text,
        about: "a value by its line and column, as `44:19`",
    },
    RouteParameter {
        name: "standing",
        kind: ParameterKind::Words(&api::run::STANDINGS),
        about: "only items that stand like one of these",
    },
    RouteParameter {
        name: "after",
        kind: ParameterKind::Number(0, u64::MAX),
        about: "items behind the one with this index, or lines behind so many",
    },
    LINE_CHOICE[1],
    LINE_CHOICE[4],
];

const LINE_CHOICE: &[RouteParameter] = &[
    RouteParameter {
        name: "event",
        kind: ParameterKind::Number(1, u64::MAX),
        about: "the event with which the attempt ended",
    },
    RouteParameter {
        name: "stream",
        kind: ParameterKind::Word(api::logs::STREAMS),
        about: "which stream. Default: stdout",
    },
    RouteParameter {
        name: "from",
        kind: ParameterKind::Number(0, u64::MAX),
        about: "how many lines are left out before",
    },
    RouteParameter {
        name: "count",
        kind: ParameterKind::Number(1, api::logs::MOST_LINES),
        about: "at most so many lines. Default: 200",
    },
    RouteParameter { name: "search", kind: ParameterKind::Text, about: "only lines with this text" },
    RouteParameter { name: "whole", kind: ParameterKind::Flag, about: "all of it, as an attachment" },
];

/// The most that a page of a list holds.
pub(crate) const USUAL_COUNT: u64 = 50;

/// Every route.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        name: "open",
        method: Method::GET,
        path: "/open",
        about: "Takes the token of the address that was printed, and has the browser keep a cookie",
        parameters: &[&[RouteParameter { name: "token", kind: ParameterKind::Text, about: "the token" }]],
        body: BodyKind::None,
        effect: RouteEffect::Opens,
        answer: (ContentKind::Html, None),
        handler: views::entry::open,
    },
    Route {
        name: "openWithForm",
        method: Method::POST,
        path: "/open",
        about: "Takes the token of a form",
        parameters: NONE,
        body: BodyKind::Form,
        effect: RouteEffect::Opens,
        answer: (ContentKind::Html, None),
        handler: views::entry::open_with_form,
    },
    Route {
        name: "asset",
        method: Method::GET,
        path: "/assets/{asset}",
        about: "A style sheet or a module of the pages",
        parameters: &[&[RouteParameter { name: "asset", kind: ParameterKind::Asset, about: "its name" }]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Css, None),
        handler: views::asset,
    },
    Route {
        name: "description",
        method: Method::GET,
        path: "/api/openapi.json",
        about: "This description",
        parameters: NONE,
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, None),
        handler: api::description,
    },
    Route {
        name: "projects",
        method: Method::GET,
        path: "/api/projects",
        about: "The projects that are shown",
        parameters: NONE,
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("projects")),
        handler: api::projects,
    },
    Route {
        name: "runs",
        method: Method::GET,
        path: "/api/projects/{project}/runs",
        about: "The runs of a project, the newest first",
        parameters: &[PROJECT, RUN_CHOICE],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("runs")),
        handler: api::runs::runs,
    },
    Route {
        name: "run",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}",
        about: "A run, and what all its events say of it",
        parameters: &[RUN, &[POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("run")),
        handler: api::run::run,
    },
    Route {
        name: "state",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/state",
        about: "How each step and the items of a run stand, or stood after an event",
        parameters: &[RUN, &[AT]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("state")),
        handler: api::run::state,
    },
    Route {
        name: "graph",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/graph",
        about: "The graph or the loop of a run as a drawing",
        parameters: &[
            RUN,
            &[
                AT,
                RouteParameter {
                    name: "page",
                    kind: ParameterKind::Flag,
                    about: "with the colours of the style sheet of the page",
                },
            ],
        ],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Svg, None),
        handler: api::run::graph,
    },
    Route {
        name: "timeline",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/timeline",
        about: "What happened in a run, event by event, without values",
        parameters: &[RUN, EVENT_COUNTS],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("timeline")),
        handler: api::run::timeline,
    },
    Route {
        name: "events",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/events",
        about: "The events of a run as they come: server-sent events, the id of each is its number. What stands in `Last-Event-ID` counts before `after`",
        parameters: &[RUN, &[EVENT_COUNTS[0]]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Events, None),
        handler: api::run::events,
    },
    Route {
        name: "items",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/items",
        about: "The items of a step, those that failed first, and why items failed",
        parameters: &[RUN, &[STEP, AT, POINTER], ITEM_CHOICE],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("items")),
        handler: api::run::items,
    },
    Route {
        name: "source",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/source",
        about: "The text of the workflow, and of the files that it takes in or calls, as it was when the run began",
        parameters: &[RUN],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("source")),
        handler: api::run::source,
    },
    Route {
        name: "explanation",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/explanation",
        about: "Every evaluation of steps: each field and each reference with the value that it had, and what made it",
        parameters: &[RUN, &[STEP, ITEMS, AT, POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("explanation")),
        handler: api::run::explanation,
    },
    Route {
        name: "chain",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/chain",
        about: "What a value was made of, or who read it",
        parameters: &[RUN, &[STEP, WAY, POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("chain")),
        handler: api::run::chain,
    },
    Route {
        name: "names",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/names",
        about: "The names of a run with their values and who set them, or the history of one",
        parameters: &[
            RUN,
            &[
                RouteParameter {
                    name: "name",
                    kind: ParameterKind::Text,
                    about: "only this name, with all its values",
                },
                POINTER,
            ],
        ],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("names")),
        handler: api::run::names,
    },
    Route {
        name: "conversations",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/conversations",
        about: "What was said between steps and agents",
        parameters: &[RUN, &[STEP, ITEMS, POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("conversations")),
        handler: api::run::conversations,
    },
    Route {
        name: "failures",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/failures",
        about: "What failed in a run and was not made good",
        parameters: &[RUN, &[POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("failures_of_run")),
        handler: api::run::failures,
    },
    Route {
        name: "calledRuns",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/called",
        about: "The runs that steps of a run called",
        parameters: &[RUN],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("called")),
        handler: api::run::called,
    },
    Route {
        name: "logs",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/logs",
        about: "Which attempts of steps printed something, and how much",
        parameters: &[RUN, &[STEP]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("attempts")),
        handler: api::logs::logs,
    },
    Route {
        name: "lines",
        method: Method::GET,
        path: "/api/projects/{project}/runs/{run}/lines",
        about: "Lines that an attempt printed, the last ones where nobody says which",
        parameters: &[RUN, LINE_CHOICE],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("lines")),
        handler: api::logs::lines,
    },
    Route {
        name: "workflows",
        method: Method::GET,
        path: "/api/projects/{project}/workflows",
        about: "The workflows of a project that can be started, and their inputs",
        parameters: &[PROJECT],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("workflows")),
        handler: api::workflows::workflows,
    },
    Route {
        name: "start",
        method: Method::POST,
        path: "/api/projects/{project}/runs",
        about: "Starts a workflow",
        parameters: &[PROJECT],
        body: BodyKind::Start,
        effect: RouteEffect::Acts,
        answer: (ContentKind::Json, Some("accepted")),
        handler: api::actions::start,
    },
    Route {
        name: "stop",
        method: Method::POST,
        path: "/api/projects/{project}/runs/{run}/stop",
        about: "Stops a run that a process drives",
        parameters: &[RUN],
        body: BodyKind::Stop,
        effect: RouteEffect::Acts,
        answer: (ContentKind::Json, Some("accepted")),
        handler: api::actions::stop,
    },
    Route {
        name: "resume",
        method: Method::POST,
        path: "/api/projects/{project}/runs/{run}/resume",
        about: "Goes on with a run that stopped, was killed or failed",
        parameters: &[RUN],
        body: BodyKind::Resume,
        effect: RouteEffect::Acts,
        answer: (ContentKind::Json, Some("accepted")),
        handler: api::actions::resume,
    },
    Route {
        name: "homePage",
        method: Method::GET,
        path: "/",
        about: "The page of the project, or of all projects",
        parameters: NONE,
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Html, None),
        handler: views::runs::home,
    },
    Route {
        name: "runsPage",
        method: Method::GET,
        path: "/projects/{project}/runs",
        about: "The page with the runs of a project",
        parameters: &[PROJECT, RUN_CHOICE],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Html, None),
        handler: views::runs::runs,
    },
    Route {
        name: "diff",
        method: Method::GET,
        path: "/api/projects/{project}/diff",
        about: "Two runs of a workflow compared value by value, with the reason for every difference",
        parameters: &[PROJECT, COMPARED, &[POINTER]],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Json, Some("diff")),
        handler: views::diff::data,
    },
    Route {
        name: "diffPage",
        method: Method::GET,
        path: "/projects/{project}/diff",
        about: "The page with two runs side by side",
        parameters: &[PROJECT, COMPARED],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Html, None),
        handler: views::diff::diff,
    },
    Route {
        name: "startPage",
        method: Method::GET,
        path: "/projects/{project}/start",
        about: "The page that starts a workflow",
        parameters: &[
            PROJECT,
            &[RouteParameter {
                name: "workflow",
                kind: ParameterKind::Text,
                about: "the file of the workflow",
            }],
        ],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Html, None),
        handler: views::start::start,
    },
    Route {
        name: "runPage",
        method: Method::GET,
        path: "/projects/{project}/runs/{run}",
        about: "The page of a run",
        parameters: &[RUN, VIEW],
        body: BodyKind::None,
        effect: RouteEffect::Reads,
        answer: (ContentKind::Html, None),
        handler: views::run::run,
    },
];

/// The route for a path and a method, with the parameters of the path; none where no route has this path, and the methods
/// that there are where none has this method.
pub(crate) fn find(method: &Method, path: &str) -> Result<(&'static Route, GivenArguments), RouteMissing> {
    let (mut allowed, mut problem) = (Vec::new(), None);
    for route in ROUTES {
        let Some(found) = route.take(path) else { continue };
        if route.method != *method {
            allowed.push(route.method.as_str());
            continue;
        }
        match found {
            Ok(arguments) => return Ok((route, arguments)),
            Err(why) => problem = Some(why),
        }
    }
    Err(match problem {
        Some(problem) => RouteMissing::Path(problem),
        None if allowed.is_empty() => RouteMissing::Path(Problem::missing("there is nothing at this path")),
        None => RouteMissing::Method(allowed.join(", ")),
    })
}

/// Why there is no route.
pub(crate) enum RouteMissing {
    Path(Problem),
    /// The methods that there are.
    Method(String),
}

/// Whether a path is one where the token is taken.
pub(crate) fn is_entry(path: &str) -> bool {
    ROUTES.iter().any(|route| route.effect == RouteEffect::Opens && route.path == path)
}

impl Route {
    /// Its parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static RouteParameter> {
        self.parameters.iter().copied().flatten()
    }

    /// Whether a parameter stands in the path.
    pub(crate) fn is_in_path(&self, parameter: &RouteParameter) -> bool {
        self.path.split('/').any(|segment| braced(segment) == Some(parameter.name))
    }

    /// The parameters of a path; nothing where it is not that of this route.
    fn take(&self, path: &str) -> Option<Result<GivenArguments, Problem>> {
        let (mut own, mut given) = (self.path.split('/'), path.split('/'));
        let mut segments = Vec::new();
        loop {
            match (own.next(), given.next()) {
                (None, None) => break,
                (Some(own), Some(given)) => match braced(own) {
                    Some(name) => segments.push((name, given)),
                    None if own == given => {}
                    None => return None,
                },
                _ => return None,
            }
        }
        let mut arguments = GivenArguments::default();
        for (name, segment) in segments {
            let parameter = self.parameters().find(|parameter| parameter.name == name)?;
            if let Err(problem) = arguments.take_segment(parameter, segment) {
                return Some(Err(problem));
            }
        }
        Some(Ok(arguments))
    }
}

/// The name in braces of a segment.
fn braced(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_route_has_its_own_name_and_its_own_path_and_method() {
        let names: BTreeSet<&str> = ROUTES.iter().map(|route| route.name).collect();
        assert_eq!(names.len(), ROUTES.len());
        let paths: BTreeSet<(&str, &str)> =
            ROUTES.iter().map(|route| (route.method.as_str(), route.path)).collect();
        assert_eq!(paths.len(), ROUTES.len());
    }

    #[test]
    fn every_segment_in_braces_is_a_parameter() {
        for route in ROUTES {
            for name in route.path.split('/').filter_map(braced) {
                assert!(route.parameters().any(|parameter| parameter.name == name), "{}: {name}", route.path);
            }
        }
    }

    #[test]
    fn a_path_is_found_whole_or_not_at_all() {
        let found = |path: &str| find(&Method::GET, path).is_ok();
        assert!(found("/") && found("/api/projects") && found("/api/projects/a/runs"));
        for path in [
            "",
            "//",
            "/api",
            "/api/projects/",
            "/api/projects/a/runs/",
            "/API/projects",
            "/api/projects/%/runs",
        ] {
            assert!(!found(path), "{path}");
        }
        assert!(matches!(find(&Method::DELETE, "/api/projects"), Err(RouteMissing::Method(_))));
    }
}
