//! The page with two runs of a workflow side by side.

use askama::Template;
use threadline_inspect::diff::sentences::{because, names};
use threadline_inspect::diff::{ChangedPart, DiffRow, Difference, PartChange, RunDiff};
use threadline_inspect::history::History;
use threadline_lang::diag::excerpt;

use super::run::value::ValueView;
use super::run::visible;
use super::{PageFrame, page};
use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::server::RouteCall;
use crate::whole;

/// The maximum number of differences on a page.
const MAX_DIFFERENCES: usize = 500;

#[derive(Template)]
#[template(path = "diff.html")]
struct DiffPage {
    frame: PageFrame,
    project: String,
    runs: Vec<DiffRunView>,
    same_text: bool,
    first: Option<DifferenceView>,
    /// The chain behind it, and in which run.
    chain: Vec<(usize, String)>,
    chain_of: &'static str,
    following: String,
    rows: Vec<DiffRowView>,
    count: usize,
    left_out: usize,
    swapped: String,
}

struct DiffRunView {
    id: String,
    workflow: String,
    status: &'static str,
    class: &'static str,
    own: String,
}

/// A row of the table.
struct DiffRowView {
    same: String,
    difference: Option<DifferenceView>,
}

/// Something that differs.
struct DifferenceView {
    name: String,
    line: Option<usize>,
    changes: Vec<ChangeView>,
    more: u64,
    because: String,
    links: [Option<String>; 2],
}

/// A part that differs.
struct ChangeView {
    part: String,
    sides: [ChangeSide; 2],
}

/// What a run has of it.
struct ChangeSide {
    text: String,
    class: &'static str,
}

impl DifferenceView {
    fn new(diff: &RunDiff, difference: &Difference) -> Self {
        let has_status = difference.changes.iter().any(|change| change.what == ChangedPart::Status);
        let shown = difference.changes.iter().filter(|change| {
            !(has_status && change.what == ChangedPart::Value && change.change.path.is_empty())
        });
        let changes = shown.map(|change| ChangeView {
            part: part_text(change),
            sides: [0, 1].map(|side| change_side(difference, change, side)),
        });
        let link = |side: usize| {
            let at = difference.sides[side].as_ref()?.at.as_ref()?;
            Some(format!(
                "runs/{}?pane=steps&step={}",
                diff.runs[side].id,
                crate::parameters::encoded(at.as_str())
            ))
        };
        Self {
            name: visible(&difference.name),
            line: difference.line,
            changes: changes.collect(),
            more: difference.more,
            because: visible(
                because(diff, difference, &|value| excerpt(value))
                    .replace('`', "")
                    .trim_start_matches("because "),
            ),
            links: [link(0), link(1)],
        }
    }
}

fn part_text(change: &PartChange) -> String {
    let what = match change.what {
        ChangedPart::ExitCode => "exit code",
        ChangedPart::Status => "",
        ChangedPart::Value if !change.change.path.is_empty() => "",
        what => what.name(),
    };
    let line = change.change.line.map_or(String::new(), |line| format!(", line {line}"));
    visible(&format!("{what}{}{line}", change.change.path))
}

fn change_side(difference: &Difference, change: &PartChange, side: usize) -> ChangeSide {
    let value = if side == 0 { &change.change.left } else { &change.change.right };
    if change.what == ChangedPart::Status {
        let of = difference.sides[side].as_ref();
        let status = of.and_then(|of| of.status).unwrap_or("not reached");
        let why = of.and_then(|of| of.why.as_deref()).map(visible);
        let made = difference.changes.iter().find(|change| change.what == ChangedPart::Value);
        let made = made
            .and_then(|made| if side == 0 { made.change.left.as_ref() } else { made.change.right.as_ref() });
        let more = why.or_else(|| made.map(|made| ValueView::new(made).middle));
        let text = more.map_or(status.to_owned(), |more| format!("{status}: {more}"));
        return ChangeSide { text, class: "" };
    }
    match value {
        Some(value) => {
            let view = ValueView::new(value);
            ChangeSide { text: view.middle, class: view.class }
        }
        None => ChangeSide { text: "nothing".to_owned(), class: "null" },
    }
}

/// Calls `read` with the two runs that a request names.
fn with_runs<T>(
    call: &RouteCall,
    read: impl FnOnce([&History<'_>; 2]) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let [left, right] = call.arguments.runs("run") else {
        return Err(Problem::bad("`run` is given twice: the two runs that are compared")
            .hint("mark two runs in the list of runs"));
    };
    call.project()?.read(left, |reader| {
        // Whole ids: a prefix or `last` is for people at a command line.
        let (left, right) = (reader.run(left)?.id, reader.run(right)?.id);
        let (left, right) = (History::open(reader, left.as_str())?, History::open(reader, right.as_str())?);
        read([&left, &right])
    })
}

/// Two runs compared, as data.
pub(crate) fn data(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    with_runs(call, |histories| {
        let found = RunDiff::between(histories[0], histories[1])?;
        let chain = found.chain_behind_first(histories)?;
        whole::answer(call, &found.value(chain.as_ref()), "diff")
    })
}

/// The page of two runs.
pub(crate) fn diff(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let project = call.project()?.name.clone();
    with_runs(call, |histories| {
        let found = RunDiff::between(histories[0], histories[1])?;
        let chain = found.chain_behind_first(histories)?;
        let view = |at: usize| DifferenceView::new(&found, &found.differences[at]);
        let (mut rows, mut shown) = (Vec::new(), 0);
        for row in &found.rows {
            match row {
                DiffRow::Different(at) if Some(*at) == found.first => {}
                DiffRow::Different(at) => {
                    shown += 1;
                    if shown <= MAX_DIFFERENCES {
                        rows.push(DiffRowView { same: String::new(), difference: Some(view(*at)) });
                    }
                }
                DiffRow::Same(same) => {
                    let steps = same.iter().map(|same| match same.count {
                        1 => visible(&same.step),
                        count => visible(&format!("{} ({count} times)", same.step)),
                    });
                    let steps: Vec<String> = steps.collect();
                    rows.push(DiffRowView { same: steps.join(", "), difference: None });
                }
            }
        }
        let following = found.first.map_or_else(Vec::new, |first| found.following(first));
        let mut distinct: Vec<String> = Vec::new();
        for at in &following {
            let name = visible(&found.differences[*at].name);
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        let runs = found.runs.iter().map(|run| DiffRunView {
            id: run.id.clone(),
            workflow: visible(&run.workflow),
            status: run.status,
            class: if run.status == "not ended" { "running" } else { run.status },
            own: if run.own_steps.is_empty() {
                String::new()
            } else {
                visible(&names(&run.own_steps).replace('`', ""))
            },
        });
        let links = chain.iter().flat_map(|(_, chain)| &chain.links).take(40).map(|link| {
            let read = &link.read;
            let value = read
                .value
                .as_ref()
                .map_or("has no value".to_owned(), |value| format!("= {}", excerpt(value)));
            let text =
                format!("{} {}: {} {value}, from {}", read.reader, read.field, read.reference, read.maker);
            (link.depth.min(9), visible(&text.replace('`', "")))
        });
        let links: Vec<(usize, String)> = links.collect();
        let title = format!("{} and {}", found.runs[0].id, found.runs[1].id);
        page(&DiffPage {
            frame: PageFrame::new(&call.server, title, Some(&project)),
            same_text: found.has_same_text(),
            first: found.first.map(view),
            chain_of: chain.as_ref().map_or("", |(side, _)| ["A", "B"][*side]),
            chain: links,
            following: match (following.len(), found.differences.len().saturating_sub(1)) {
                (_, 0) => String::new(),
                (0, _) => "none of the other differences follows from it".to_owned(),
                (count, all) if count == all => {
                    format!("all {all} others follow from it: {}", names(&distinct).replace('`', ""))
                }
                (count, all) => {
                    format!("{count} of {all} others follow from it: {}", names(&distinct).replace('`', ""))
                }
            },
            rows,
            count: found.differences.len(),
            left_out: shown.saturating_sub(MAX_DIFFERENCES),
            swapped: format!("?run={}&run={}", found.runs[1].id, found.runs[0].id),
            runs: runs.collect(),
            project: project.clone(),
        })
    })
}
