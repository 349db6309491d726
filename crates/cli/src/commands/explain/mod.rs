//! `threadline explain`: shows every reference of a step, its value, and what made the value. A run is only read.

mod chain;
pub(crate) mod failures;
mod overview;
pub(crate) mod text;

use std::collections::BTreeMap;

use anstyle::Style;
use threadline_engine::event::{Address, Event, EventKind};
use threadline_engine::replay::{Failed, Fold, output_of};
use threadline_inspect::chain::{ChainDirection, Chains};
use threadline_inspect::explanation::{Readers, explain_steps, readers, skipped_steps};
use threadline_inspect::explanation_json as json;
use threadline_inspect::target::ExplainTarget;
use threadline_lang::Value;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use self::text::ExplanationPrinter;
use super::history::History;
use super::kept::stored;
use super::print_styled as print;
use crate::arguments::ExplainArguments;
use crate::exit::CommandFailure;
use crate::report::{Report, visible};
use crate::table::Table;

const PLAIN: Style = Style::new();
const DIM: Style = Style::new().dimmed();

pub(crate) fn explain(call: &ExplainArguments) -> Result<(), CommandFailure> {
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    let way =
        if call.back { Some(ChainDirection::Back) } else { call.forward.then_some(ChainDirection::Forward) };
    let target = if call.all {
        ExplainTarget::whole(&history.plan)
    } else if let Some(step) = &call.step {
        match ExplainTarget::named(&history, step) {
            Ok(target) => target,
            Err(missing) => return explain_name(&history, call, step, way)?.ok_or(missing.into()),
        }
    } else {
        let failed = failed(&history)?;
        if failed.is_empty() {
            return choose(&history, call);
        }
        ExplainTarget::executions(&history.plan, failed)
    };
    if let Some(way) = way {
        let chains = Chains::follow(&history, &target, way)?;
        if call.json {
            let run = history.info.id.as_str();
            let (nodes, edges) = chains.graph()?;
            let found = Value::record([
                ("run", Value::from(run)),
                ("chain", chains.json()),
                ("nodes", nodes),
                ("edges", edges),
            ]);
            return super::print(&format!("{}\n", found.to_json(JsonStyle::Compact)));
        }
        return print(&chain::text(&chains, call.full));
    }
    if call.step.is_some()
        && !call.json
        && !target.is_one()
        && let Some(found) = overview::overview(&history, &target)?
    {
        found.table.print("")?;
        return print(&format!("\n{}", found.next));
    }
    let told = explain_steps(&history, &target)?;
    if call.json && (call.all || call.step.is_some()) && !told.is_empty() {
        let (others, skipped) = (readers(&history, &told)?, skipped_steps(&history, &target)?);
        let value = json::explanation_with_skipped(&history, &told, &others, &skipped)?;
        return super::print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    if told.is_empty() {
        return explain_skipped(&history, call, &target)?
            .map_or_else(|| Err(nothing(&history, call, &target)?), |text| super::print(&text));
    }
    let others = readers(&history, &told)?;
    if call.json {
        let value = json::explanation(&history, &told, &others)?;
        return super::print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    let teller = ExplanationPrinter {
        history: &history,
        readers: &others,
        full: call.full,
        wide: true,
        secrets: Vec::new(),
    };
    print(&teller.text(&told)?)
}

/// Explains an entry of `context`, or what the run exported: its value and the chain. Nothing if there is
/// none.
fn explain_name(
    history: &History<'_>,
    call: &ExplainArguments,
    name: &str,
    way: Option<ChainDirection>,
) -> Result<Option<()>, CommandFailure> {
    let way = way.unwrap_or(ChainDirection::Back);
    let Some((value, chains)) = Chains::follow_name(history, name, way)? else { return Ok(None) };
    if call.json {
        let (nodes, edges) = chains.graph()?;
        let explained = Value::record([
            ("run", history.info.id.as_str().into()),
            ("name", name.into()),
            ("value", value),
            ("chain", chains.json()),
            ("nodes", nodes),
            ("edges", edges),
        ]);
        return super::print(&format!("{}\n", explained.to_json(JsonStyle::Compact))).map(Some);
    }
    let shown = if call.full { value.to_json(JsonStyle::Compact) } else { excerpt(&value) };
    let chain = if chains.is_empty() { String::new() } else { chain::text(&chains, call.full) };
    print(&format!("{} = {shown}\n{chain}", visible(name))).map(Some)
}

/// The executions that failed, were not made good, and were not forgiven by `continue_on_error`.
pub(crate) fn failed(history: &History<'_>) -> Result<Vec<Address>, CommandFailure> {
    let mut failed = Failed::default();
    history.each(|_, event| {
        failed.take(&history.plan, event);
        Ok(())
    })?;
    Ok(failed.executions().map(|(at, _)| at.clone()).collect())
}

/// The failure for a step of which nothing was evaluated.
fn nothing(
    history: &History<'_>,
    call: &ExplainArguments,
    target: &ExplainTarget,
) -> Result<CommandFailure, CommandFailure> {
    let name = call.step.as_deref().unwrap_or_default();
    let run = &history.info.id;
    let item = Address::parse(name).ok().filter(Address::is_item);
    if let Some(item) = item
        && had(history, &item)?
    {
        let message = format!("`{name}` is an item, and each of its steps is explained separately");
        let hint = format!("`threadline explain {run} '{name}/1'` explains its first");
        return Ok(CommandFailure::Failed(vec![Report::with_hint(message, &hint)]));
    }
    let message = match &target.field {
        Some(field) => format!("`{name}`: no field `{field}` was evaluated in run `{run}`"),
        None => format!("`{name}` was not reached in run `{run}`"),
    };
    Ok(CommandFailure::Failed(vec![Report::plain(message)]))
}

/// Whether anything happened to an item.
fn had(history: &History<'_>, item: &Address) -> Result<bool, CommandFailure> {
    let mut found = false;
    let mut take = |_: &mut Fold, event: &Event| {
        found |= event.at == *item;
        Ok(())
    };
    let slice = ExplainTarget::executions(&history.plan, vec![item.clone()]).slice(history)?;
    let is_whole = slice.map(|slice| history.each_of(&slice, &mut take)).transpose()?;
    if is_whole != Some(true) {
        history.each(&mut take)?;
    }
    Ok(found)
}

/// The executions that were skipped before anything of them was evaluated, with the reasons. Nothing if there
/// are none.
fn explain_skipped(
    history: &History<'_>,
    call: &ExplainArguments,
    target: &ExplainTarget,
) -> Result<Option<String>, CommandFailure> {
    let skipped = skipped_steps(history, target)?;
    if skipped.is_empty() {
        return Ok(None);
    }
    if call.json {
        let explained = json::explanation_with_skipped(history, &[], &Readers::new(), &skipped)?;
        return Ok(Some(format!("{}\n", explained.to_json(JsonStyle::Compact))));
    }
    let lines = skipped.iter().map(|(event, reason)| {
        let (name, seq) = (visible(&json::label(history, &event.at)), event.seq);
        let time = super::history::clock_text(event.time);
        format!("{name}  step {}\n  skipped: {}  event {seq}, {time}\n", event.at, visible(reason))
    });
    Ok(Some(lines.collect()))
}

/// Lists the steps that can be explained: no step failed, and the user asked for none.
fn choose(history: &History<'_>, call: &ExplainArguments) -> Result<(), CommandFailure> {
    let mut turns: BTreeMap<u32, (u64, &'static str)> = BTreeMap::new();
    history.each(|fold, event| {
        let Some(step) = fold.machine.step_of(&event.at) else { return Ok(()) };
        let is_state = history.plan.steps[step as usize].step.state.is_some();
        let status = match &event.kind {
            EventKind::Judged(_) => Some("executed"),
            _ if is_state => None,
            _ => output_of(event).map(|output| output.status.name()),
        };
        if let Some(status) = status {
            let turn = turns.entry(step).or_default();
            *turn = (turn.0 + 1, status);
        }
        Ok(())
    })?;
    if call.json {
        let value = json::explanation(history, &[], &Readers::new())?;
        return super::print(&format!("{}\n", value.to_json(JsonStyle::Compact)));
    }
    let mut table = Table::default();
    // The number of a state is its name.
    let numbered = history.plan.steps.iter().any(|step| step.number != step.label);
    for (number, step) in (0..).zip(&history.plan.steps) {
        let came = match turns.get(&number) {
            Some((1, status)) => (*status).to_owned(),
            Some((count, _)) => format!("{count} times"),
            None => "was not reached".to_owned(),
        };
        let row = [
            (DIM, step.number.to_string()),
            (PLAIN, step.label.to_string()),
            (DIM, step.step.action.name().key().to_owned()),
            (PLAIN, came),
        ];
        table.row(row.into_iter().skip(usize::from(!numbered)));
    }
    let run = &history.info.id;
    print(&format!(
        "no step of run {run} failed\n\n{}\n`threadline explain {run} STEP` explains one of them\n",
        table.text("  ")
    ))
}
