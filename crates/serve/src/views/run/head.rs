//! What a reader sees of a run first: how it stands, how far it has come, what it was given, and what failed.

use jiff::Timestamp;
use threadline_engine::event::{Address, EventKind, Seq, Status};
use threadline_engine::replay::output_of;
use threadline_flow::fields::field_names as names;
use threadline_inspect::InspectError;
use threadline_inspect::history::History;
use threadline_inspect::labels;
use threadline_inspect::run_state::{RunPhase, RunState, Standing, StandingCounts};
use threadline_inspect::runs::ListedRun;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_runner::values::load_envelope;

use super::choice::{Pane, ViewChoice};
use super::source::{ShownEvaluations, millis_text};
use super::value::{ValueView, time_words, visible, visible_lines};

/// The maximum number of lines that are shown of what a failed step printed.
const MAX_LINES: usize = 8;

/// The maximum number of values that are shown of what it read.
const MAX_READS: usize = 8;

/// The beginning of the page of a run.
pub(crate) struct HeadView {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) file: String,
    /// The class and the word for how it stands, or stood.
    pub(crate) status: &'static str,
    pub(crate) word: String,
    pub(crate) is_live: bool,
    pub(crate) bar: String,
    pub(crate) counts: String,
    pub(crate) items: String,
    pub(crate) began: String,
    pub(crate) began_words: String,
    pub(crate) took: String,
    pub(crate) left: String,
    pub(crate) now: Vec<String>,
    pub(crate) last: Seq,
    pub(crate) inputs: Vec<(String, ValueView)>,
    pub(crate) notes: Vec<String>,
    pub(crate) caller: Option<String>,
    pub(crate) continues: Option<String>,
    pub(crate) past: Option<PastView>,
}

/// The event after which the run is shown, where that is not the last.
pub(crate) struct PastView {
    pub(crate) at: Seq,
    pub(crate) what: String,
    pub(crate) back: String,
}

/// What failed first and was not made good.
pub(crate) struct FailureView {
    pub(crate) name: String,
    pub(crate) link: String,
    pub(crate) error: String,
    pub(crate) attempts: String,
    pub(crate) reads: Vec<(String, ValueView, String)>,
    pub(crate) stream: &'static str,
    pub(crate) lines: String,
    pub(crate) line_count: usize,
    pub(crate) shown_lines: usize,
    pub(crate) log: String,
    pub(crate) skipped: String,
    /// What else failed.
    pub(crate) more: String,
}

impl HeadView {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        listed: &ListedRun,
        last: Seq,
        choice: &ViewChoice,
        now: Timestamp,
    ) -> Self {
        let is_past = state.until < last;
        let (status, word) = if is_past {
            let word = match state.phase {
                RunPhase::Running => "Running then".to_owned(),
                RunPhase::Paused => "Paused then".to_owned(),
                RunPhase::Ended(_) => capital(state.phase.name()),
            };
            (state.phase.name(), word)
        } else {
            (listed.status.name(), capital(listed.status.name()))
        };
        let is_live = listed.status.name() == "running";
        let (steps, items) = (state.outside_steps(), state.items());
        let inputs = history.names.inputs.as_object().into_iter().flat_map(|inputs| inputs.iter());
        let inputs = inputs.map(|(key, value)| (visible(key.as_str()), ValueView::new(value))).collect();
        let until = if is_past { state.time } else { listed.ended.map(Timestamp::as_millisecond) };
        let until = until.unwrap_or_else(|| now.as_millisecond());
        let mut notes = Vec::new();
        notes.extend(listed.paused.as_deref().map(visible));
        notes.extend(
            listed
                .loop_end
                .as_ref()
                .map(|(_, end)| format!("{} in {}", visible(end.reason.name()), visible(end.state.as_str()))),
        );
        let failed = items.get(Standing::Failed);
        if failed > 0 {
            notes.push(format!("{failed} of {} failed", words::count(items.total(), "item")));
        }
        let past = is_past.then(|| PastView {
            at: state.until,
            what: event_text(history, state.until),
            back: choice.with(|other| other.at = None),
        });
        Self {
            id: history.info.id.to_string(),
            workflow: visible(&history.info.name),
            file: visible(&history.info.file),
            status,
            word,
            is_live,
            bar: bar(if items.total() > 0 { items } else { steps }),
            counts: steps.text(),
            items: if items.total() > 0 {
                format!("{} · {}", words::count(items.total(), "item"), items.text())
            } else {
                String::new()
            },
            began: listed.run.started_at.clone(),
            began_words: time_words(&listed.run.started_at),
            took: state.began.map_or(String::new(), |began| millis_text(until - began)),
            left: if is_live && !is_past { left(state, now) } else { String::new() },
            now: running(history, state),
            last,
            inputs,
            notes,
            caller: listed.caller.clone(),
            continues: listed.continues.clone(),
            past,
        }
    }
}

/// The first letter as a capital.
pub(crate) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

/// What an event was about, in short.
pub(crate) fn event_text(history: &History<'_>, seq: Seq) -> String {
    let Ok(event) = history.event(seq) else { return String::new() };
    let kind = threadline_store::wire::encode(&event.kind).0;
    let what = kind.replace('_', " ");
    if event.at.is_root() {
        return what;
    }
    visible(&format!("{what}: {}", labels::name(&history.plan, &event.at)))
}

/// What runs at this moment.
fn running(history: &History<'_>, state: &RunState<'_>) -> Vec<String> {
    let open = |standing: Standing| matches!(standing, Standing::Running | Standing::Retrying);
    let executions = state.executions();
    let running = executions.iter().filter(|execution| open(execution.state.standing));
    running
        .filter_map(|execution| {
            let at = execution.at.as_ref()?;
            let name = visible(&labels::name(&history.plan, at));
            let items = state.items_of(at).map(|items| format!(", {} of {}", items.over(), items.total()));
            let again =
                if execution.state.standing == Standing::Retrying { ", waits to be tried again" } else { "" };
            Some(format!("{name}{}{again}", items.unwrap_or_default()))
        })
        .take(6)
        .collect()
}

/// About how long the items take that are left.
fn left(state: &RunState<'_>, now: Timestamp) -> String {
    let Some((list, counts)) = state.lists().find(|(_, counts)| counts.over() < counts.total()) else {
        return String::new();
    };
    let Some(began) = state.at(list).began.filter(|_| counts.over() > 0) else { return String::new() };
    let took = (now.as_millisecond() - began).max(0);
    let over = i64::try_from(counts.over()).unwrap_or(i64::MAX);
    let open = i64::try_from(counts.total() - counts.over()).unwrap_or(i64::MAX);
    let left = took.saturating_mul(open) / over.max(1);
    // A second is as exact as an estimate can be.
    format!("about {} left", millis_text((left / 1_000 + 1) * 1_000))
}

/// How many stand in which way, as a bar.
pub(crate) fn bar(counts: StandingCounts) -> String {
    use std::fmt::Write as _;
    let total = counts.total().max(1);
    let order = [
        Standing::Completed,
        Standing::Retrying,
        Standing::Failed,
        Standing::Cancelled,
        Standing::Running,
        Standing::Interrupted,
        Standing::Skipped,
        Standing::NotYet,
    ];
    let mut out = format!(
        "<svg class=\"prog\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        counts.text()
    );
    let mut from = 0;
    for standing in order {
        let count = counts.get(standing);
        if count == 0 {
            continue;
        }
        // One of many is seen, too.
        let width = (count.saturating_mul(1000) / total).max(6);
        // Writing into a text cannot fail.
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{from}\" y=\"0\" width=\"{width}\" height=\"6\"/>",
            standing.name()
        );
        from += width;
    }
    out.push_str("</svg>");
    out
}

impl FailureView {
    /// What failed first, if anything did.
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        shown: &ShownEvaluations,
        choice: &ViewChoice,
    ) -> Result<Option<Self>, InspectError> {
        let Some((at, seq)) = state.first_failure() else { return Ok(None) };
        let event = history.event(seq)?;
        let (mut error, mut stream, mut printed) = (String::new(), "stderr", String::new());
        match &event.kind {
            EventKind::ItemEnded(ended) => {
                ended.error.as_deref().unwrap_or_default().clone_into(&mut error);
            }
            EventKind::Judged(judged) => error = judged.reason.to_string(),
            _ => {
                if let Some(output) = output_of(&event) {
                    let told = output.meta.get(names::ERROR).and_then(Value::as_str);
                    told.unwrap_or_default().clone_into(&mut error);
                    let left = load_envelope(history.reader, output);
                    let left = left.map_err(|error| threadline_inspect::of_journal(&error))?;
                    let of = |name: &str| {
                        let text = left.also.as_ref().and_then(|also| also.get(name));
                        text.and_then(Value::as_str).unwrap_or_default().trim_end().to_owned()
                    };
                    printed = of(names::STDERR);
                    if printed.is_empty() {
                        (stream, printed) = ("stdout", of(names::OUTPUT));
                    }
                }
            }
        }
        let place = state.at(&at);
        let allowed =
            shown.told.iter().rfind(|told| told.seen.at == at).and_then(|told| told.attempts_allowed);
        let mut attempts = match (place.attempts, allowed) {
            (0, _) => String::new(),
            (attempts, Some(allowed)) if allowed > 1 => format!("attempt {attempts} of {allowed}"),
            (attempts, _) if attempts > 1 => format!("attempt {attempts}"),
            _ => String::new(),
        };
        if let Some(took) = place.started.zip(place.ended).map(|(began, ended)| millis_text(ended - began)) {
            attempts = if attempts.is_empty() { took } else { format!("{attempts} · {took}") };
        }
        let mut reads: Vec<(String, ValueView, String)> = Vec::new();
        for told in shown.told.iter().filter(|told| told.seen.at == at) {
            for reference in told.references() {
                let Some(value) = &reference.resolution.value else { continue };
                let name = visible(&reference.resolution.reference);
                let range = reference.range;
                let link = choice.with(|other| {
                    (other.pane, other.value) = (Some(Pane::Source), Some((range.line, range.column)));
                });
                if reads.len() < MAX_READS && !reads.iter().any(|(known, ..)| *known == name) {
                    reads.push((name, ValueView::new(value), link));
                }
            }
        }
        let executions = state.executions();
        let of = |standing: Standing| -> Vec<String> {
            let of = executions.iter().filter(|execution| execution.state.standing == standing);
            let of = of.filter(|execution| execution.state.last > seq || standing == Standing::Failed);
            of.filter_map(|execution| execution.at.as_ref())
                .filter(|other| **other != at)
                .map(|other| visible(&labels::name(&history.plan, other)))
                .collect()
        };
        let skipped = of(Standing::Skipped);
        let mut more = of(Standing::Failed);
        let failed_items = state.items().get(Standing::Failed);
        if failed_items > 0 && !at.is_item() {
            more.push(words::count(failed_items, "item"));
        }
        let all: Vec<&str> = printed.lines().collect();
        let from = all.len().saturating_sub(MAX_LINES);
        let pane = if at.is_item() { Pane::Items } else { Pane::Steps };
        let target: Address = at.as_item().map_or_else(|| at.clone(), |(list, _)| list);
        Ok(Some(Self {
            name: visible(&labels::name(&history.plan, &at)),
            link: choice.step(pane, &target),
            error: visible_lines(first_lines(&error)),
            attempts,
            reads,
            stream,
            lines: visible_lines(&all[from..].join("\n")),
            line_count: all.len(),
            shown_lines: all.len() - from,
            log: choice.step(Pane::Log, &at),
            skipped: words::names(skipped),
            more: words::names(more),
        }))
    }
}

/// The first lines of an error, which is rarely longer.
fn first_lines(error: &str) -> &str {
    error.match_indices('\n').nth(5).map_or(error, |(end, _)| &error[..end])
}

/// Whether a run can be resumed or stopped, and what that would do, in words.
pub(crate) struct ActionView {
    pub(crate) resume: Option<String>,
    pub(crate) resume_failed: Option<String>,
    pub(crate) stop: bool,
}

impl ActionView {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        listed: &ListedRun,
        is_past: bool,
        read_only: bool,
    ) -> Option<Self> {
        if is_past || read_only || history.info.id.is_called() {
            return None;
        }
        let failed_items = state.items().get(Standing::Failed);
        let name = state.first_failure().filter(|(at, _)| !at.is_item());
        let name = name.map(|(at, _)| visible(&labels::name(&history.plan, &at)));
        let (mut resume, mut resume_failed, mut stop) = (None, None, false);
        match listed.status.name() {
            "running" => stop = true,
            "failed" => resume = Some(name.map_or("Resume".to_owned(), |name| format!("Resume from {name}"))),
            "paused" | "interrupted" | "stopped" => resume = Some("Resume".to_owned()),
            _ => {}
        }
        if failed_items > 0 && !stop {
            resume_failed = Some(format!("Resume {}", words::count(failed_items, "failed item")));
        }
        Some(Self { resume, resume_failed, stop })
    }
}

/// The class of a status.
pub(crate) fn status_of(status: Status) -> &'static str {
    Standing::of(status).name()
}
