//! What is asked about one run. Everything is what a command says of it, read by the same code.

use std::sync::Arc;

use threadline_engine::event::Seq;
use threadline_inspect::chain::{ChainDirection, Chains};
use threadline_inspect::conversation::conversation;
use threadline_inspect::explanation::{Readers, explain_steps, readers, readers_of, skipped_steps};
use threadline_inspect::explanation_json::explanation_with_skipped;
use threadline_inspect::failures::Failures;
use threadline_inspect::graph::{SvgUse, WorkflowDrawing};
use threadline_inspect::history::{History, time_text};
use threadline_inspect::items::{self, ItemChoice};
use threadline_inspect::labels::label;
use threadline_inspect::names::{latest_names, of_name, setting_json};
use threadline_inspect::run_state::{RunState, Standing};
use threadline_inspect::runs::{ListedRun, RunDetails, RunStatus};
use threadline_inspect::source;
use threadline_inspect::target::ExplainTarget;
use threadline_inspect::timeline::RunTimeline;
use threadline_lang::Value;
use threadline_store::RunId;

use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::routes::USUAL_COUNT;
use crate::server::RouteCall;
use crate::whole;

/// The words of standings.
pub(crate) const STANDINGS: [&str; Standing::ALL.len()] = {
    let mut names = [""; Standing::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Standing::ALL[at].name();
        at += 1;
    }
    names
};

/// The run that a request is about.
pub(crate) fn run_of(call: &RouteCall) -> Result<&RunId, Problem> {
    call.arguments.run("run").ok_or_else(|| Problem::missing("there is no such run"))
}

/// Opens the run that a request is about.
pub(crate) fn open<T>(
    call: &RouteCall,
    read: impl FnOnce(&History<'_>, &RunTimeline) -> Result<T, Problem>,
) -> Result<T, Problem> {
    call.project()?.open(run_of(call)?, read)
}

/// The same, as it was after the event that the request names, or as it is.
pub(crate) fn open_state<T>(
    call: &RouteCall,
    read: impl FnOnce(&History<'_>, &RunState<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    open(call, |history, timeline| {
        read(history, &RunState::at_event(history, timeline, call.arguments.number("at"))?)
    })
}

/// The run as the list has it, with what all its events say of it.
pub(crate) fn listed(
    call: &RouteCall,
    history: &History<'_>,
    state: &RunState<'_>,
) -> Result<(ListedRun, RunDetails), Problem> {
    let (reader, info) = (history.reader, &history.info);
    let status = RunStatus::of(reader, info)?;
    Ok((ListedRun::of(reader, call.now, info.clone(), status), RunDetails::of(history, state)?))
}

pub(crate) fn run(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, timeline| {
        let (listed, details) = listed(call, history, &RunState::now(timeline))?;
        whole::answer(call, &listed.value(Some(&details)), "run")
    })
}

pub(crate) fn state(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open_state(call, |history, state| Ok(HttpAnswer::json(&state.value(history.info.id.as_str()))))
}

pub(crate) fn graph(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, timeline| {
        let state = RunState::at_event(history, timeline, call.arguments.number("at"))?;
        let used = if call.arguments.flag("page") { SvgUse::Page } else { SvgUse::File };
        Ok(HttpAnswer::svg(WorkflowDrawing::of_state(timeline, &state).svg_in(used)))
    })
}

/// What happened, event by event, without its values.
pub(crate) fn timeline(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, timeline| {
        let after = call.arguments.number("after").unwrap_or(0);
        let count = call.arguments.number("count").unwrap_or(1_000);
        let to = timeline.last().min(after.saturating_add(count));
        let events = timeline.events(after + 1, to).map(|(seq, event)| {
            let at = &timeline.place(event.place).at;
            let mut entries = vec![("seq", Value::from(seq)), ("time", time_text(event.time).into())];
            if !at.is_root() {
                entries.push(("at", at.as_str().into()));
                entries.push(("step", label(&history.plan, at).trim_start().into()));
            }
            entries.extend([("what", Value::from(event.what.name()))]);
            entries.extend(event.what.standing().map(|standing| ("standing", standing.name().into())));
            Value::record(entries)
        });
        let next = (to < timeline.last()).then_some(to);
        Ok(HttpAnswer::json(&Value::record([
            ("run", history.info.id.as_str().into()),
            ("last", Value::from(timeline.last())),
            ("events", Value::sequence(events)),
            ("next", next.map_or(Value::NULL, Value::from)),
        ])))
    })
}

pub(crate) fn items(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let given = &call.arguments;
    open_state(call, |history, state| {
        let step = given.text("step").ok_or_else(|| Problem::bad("`step` says whose items are asked for"))?;
        let at = items::list_named(history, state, step)?;
        let standing =
            Standing::ALL.into_iter().filter(|known| given.words("standing").contains(&known.name()));
        let choice = ItemChoice {
            standing: standing.collect(),
            after: given.number("after"),
            count: usize::try_from(given.number("count").unwrap_or(USUAL_COUNT)).unwrap_or(usize::MAX),
        };
        let page = items::items(history, state, &at, &choice)?;
        let groups = items::error_groups(history, state, &at)?;
        let value = with(&page.value(history.info.id.as_str()), [("errors", items::groups_value(&groups))]);
        whole::answer(call, &value, "items")
    })
}

/// An object with more entries.
fn with<const N: usize>(object: &Value, more: [(&'static str, Value); N]) -> Value {
    let known = object.as_object().into_iter().flat_map(|object| object.iter());
    let known = known.map(|(key, value)| (key.name().clone(), value.clone()));
    Value::record(known.chain(more.into_iter().map(|(name, value)| (name.into(), value))))
}

pub(crate) fn source(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, _| Ok(HttpAnswer::json(&source::texts_value(history, &source::texts(history)?))))
}

/// The steps that a request names: one of them, or all of them with those in one item of each list.
pub(crate) fn target(call: &RouteCall, history: &History<'_>) -> Result<ExplainTarget, Problem> {
    if let Some(step) = call.arguments.text("step") {
        return Ok(ExplainTarget::named(history, step)?);
    }
    let items = call.arguments.text("items").unwrap_or_default();
    let indexes = items.split('.').filter(|index| !index.is_empty()).map(str::parse);
    let indexes = indexes.collect::<Result<Vec<u64>, _>>();
    let indexes = indexes
        .map_err(|_| Problem::bad("`items` is the index of an item, as `3`, or of one in one, as `3.1`"))?;
    Ok(ExplainTarget::with_item(&history.plan, indexes))
}

/// Every evaluation of steps up to an event, with every value that they read.
pub(crate) fn explanation(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, timeline| {
        let until = RunState::at_event(history, timeline, call.arguments.number("at"))?.until;
        let target = target(call, history)?;
        let mut told = explain_steps(history, &target)?;
        told.retain(|told| told.seen.seq <= until);
        for told in &mut told {
            told.ended = told.ended.take().filter(|ended| ended.seq <= until);
            told.exchanges.retain(|(seq, _)| *seq <= until);
        }
        let others = readers(history, &told)?;
        let mut skipped = skipped_steps(history, &target)?;
        skipped.retain(|(event, _)| event.seq <= until);
        whole::answer(call, &explanation_with_skipped(history, &told, &others, &skipped)?, "explanation")
    })
}

/// What a value was made of, or who read it.
pub(crate) fn chain(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let way = match call.arguments.text("way") {
        Some("forward") => ChainDirection::Forward,
        _ => ChainDirection::Back,
    };
    open(call, |history, _| {
        let name = call.arguments.text("step");
        let name = name.ok_or_else(|| {
            Problem::bad("`step` says which step, field or entry of `context` it begins with")
        })?;
        let (value, chains) = match ExplainTarget::named(history, name) {
            Ok(target) => (None, Chains::follow(history, &target, way)?),
            Err(missing) => {
                let (value, chains) = Chains::follow_name(history, name, way)?.ok_or(missing)?;
                (Some(value), chains)
            }
        };
        let (nodes, edges) = chains.graph()?;
        let mut entries = vec![("run", Value::from(history.info.id.as_str()))];
        if let Some(value) = value {
            entries.extend([("name", name.into()), ("value", value)]);
        }
        entries.extend([("chain", chains.json()), ("nodes", nodes), ("edges", edges)]);
        whole::answer(call, &Value::record(entries), "chain")
    })
}

/// The names of a run, or the history of one.
pub(crate) fn names(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, _| {
        let mut settings = match call.arguments.text("name") {
            Some(name) => of_name(history, name)?,
            None => latest_names(history)?,
        };
        for setting in &mut settings {
            setting.load(history)?;
        }
        let mut readers: Readers =
            settings.iter().map(|setting| (setting.maker.clone(), Vec::new())).collect();
        readers_of(history, &mut readers)?;
        let names = settings.iter().map(|setting| setting_json(history, setting, &readers));
        let value = Value::record([
            ("run", history.info.id.as_str().into()),
            ("workflow", history.started.workflow.as_str().into()),
            ("names", Value::sequence(names)),
        ]);
        whole::answer(call, &value, "names")
    })
}

/// What was said between steps and agents.
pub(crate) fn conversations(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, _| {
        let mut found = Vec::new();
        for told in explain_steps(history, &target(call, history)?)? {
            found.extend(conversation(history, &told)?);
        }
        let run = history.info.id.as_str();
        let value = Value::record([("run", run.into()), ("conversations", Value::sequence(found))]);
        whole::answer(call, &value, "conversations")
    })
}

/// What failed and was not made good.
pub(crate) fn failures(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    open(call, |history, _| {
        let mut found = Vec::new();
        Failures::read(history)?.json(history, |failure| {
            found.push(failure);
            Ok::<_, Problem>(())
        })?;
        let run = history.info.id.as_str();
        whole::answer(
            call,
            &Value::record([("run", run.into()), ("failures", Value::sequence(found))]),
            "failure",
        )
    })
}

/// The runs that steps of a run called.
pub(crate) fn called(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let run = run_of(call)?;
    let found = call.project()?.read(run, |reader| {
        reader.run(run)?;
        let called = reader.called_by(&RunId::new(run.started())?)?;
        let listed = called.into_iter().filter(|called| called.events > 0).map(|called| {
            let status = RunStatus::of(reader, &called)?;
            Ok(ListedRun::of(reader, call.now, called, status))
        });
        listed.collect::<Result<Vec<_>, Problem>>()
    })?;
    let of_run = found.iter().filter(|listed| listed.caller.as_deref() == Some(run.as_str()));
    let runs = Value::sequence(of_run.map(|listed| listed.value(None)));
    Ok(HttpAnswer::json(&Value::record([("run", run.as_str().into()), ("runs", runs)])))
}

/// The events of a run as they come.
pub(crate) fn events(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let run = run_of(call)?;
    // What a browser says that connects again is newer than what it said at first.
    let after = match call.last_event.as_deref() {
        None | Some("") => call.arguments.number("after").unwrap_or(0),
        Some(id) if id.bytes().all(|byte| byte.is_ascii_digit()) => {
            id.parse::<Seq>().map_err(|_| Problem::bad("`Last-Event-ID` is no number of an event"))?
        }
        Some(_) => return Err(Problem::bad("`Last-Event-ID` is no number of an event")),
    };
    let project = Arc::clone(call.project()?);
    Ok(HttpAnswer::events(call.server.watched.follow(&project, run, after)?))
}
