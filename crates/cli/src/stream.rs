//! A run as lines of JSON for programs: every event, with the label of its step and its values.

use threadline_engine::event::{Address, Event};
use threadline_flow::plan::Plan;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_runner::driver::Notice;
use threadline_store::wire;

use crate::commands::history::time_text;
use crate::printing::print_line;
use crate::remarks::Remarks;

/// Prints an event as a line of JSON; the output of steps is part of their events. Remarks go to stderr.
pub(crate) fn notice(plan: &Plan, remarks: &mut Remarks, notice: &Notice) {
    notice_of(None, plan, remarks, notice);
}

/// Prints a notice; the lines about a called run name that run.
fn notice_of(called: Option<&str>, plan: &Plan, remarks: &mut Remarks, notice: &Notice) {
    match notice {
        Notice::Event(event) => {
            let line = event_json(called, plan, event).to_json(JsonStyle::Compact);
            print_line(&line);
        }
        Notice::Called(called) => notice_of(Some(&called.run), &called.plan, remarks, &called.notice),
        remark => {
            remarks.notice(plan, remark);
        }
    }
}

/// An event as the journal stores it, with its number, time and step, and its run if that was called.
pub(crate) fn event_json(called: Option<&str>, plan: &Plan, event: &Event) -> Value {
    let (kind, payload) = wire::encode(&event.kind);
    // The line above has just written it.
    let payload = data::json::read_value(&payload, &Limits::DEFAULT).unwrap_or_default();
    let run = called.map(|run| ("run".into(), run.into()));
    let mut entries: Vec<(ecow::EcoString, Value)> = run.into_iter().collect();
    entries.extend([
        ("seq".into(), Value::from(i64::try_from(event.seq).unwrap_or(i64::MAX))),
        ("time".into(), time_text(event.time).as_str().into()),
        ("kind".into(), kind.into()),
    ]);
    if event.at != Address::default() {
        entries.push(("at".into(), event.at.as_str().into()));
        let label = event.at.step(plan).map(|step| plan.steps[step as usize].label.clone());
        entries.extend(label.map(|label| ("step".into(), label.as_str().into())));
    }
    entries.push(("data".into(), payload));
    Value::record(entries)
}
