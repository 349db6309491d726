//! What a run that continues another one keeps and does again, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_runner::forecast::{ContinuationForecast, ItemForecast, StepForecast, WhyAgain};

use crate::report::visible;
use crate::reporter::label;
use crate::table::Table;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const OPEN: Style = AnsiColor::Yellow.on_default();

/// The steps and items that are kept and done again, counted.
#[derive(Default)]
struct Totals {
    kept: u64,
    again: u64,
    items_kept: u64,
    items_again: u64,
    has_items: bool,
}

fn totals(plan: &Plan, forecast: &ContinuationForecast) -> Totals {
    let mut totals = Totals::default();
    for (step, found) in &forecast.steps {
        match found.items {
            Some(ItemForecast::Known { kept, again }) => {
                totals.has_items = true;
                totals.items_kept += kept;
                totals.items_again += again;
            }
            Some(ItemForecast::Unknown) => totals.again += 1,
            None if is_in_items(plan, *step) => {}
            None => {
                totals.kept += found.kept;
                totals.again += found.again;
            }
        }
    }
    totals
}

/// Whether a step belongs to items, so that the items are counted in its place.
fn is_in_items(plan: &Plan, step: u32) -> bool {
    let mut list = plan.steps[step as usize].list;
    while let Some((owner, _)) = plan.lists[list as usize].parent {
        let owner_step = &plan.steps[owner as usize];
        if matches!(owner_step.step.action, threadline_flow::model::Action::ForEach(_)) {
            return true;
        }
        list = owner_step.list;
    }
    false
}

pub(super) fn text(run: &str, plan: &Plan, forecast: &ContinuationForecast) -> String {
    let mut table = Table::default();
    for (step, found) in &forecast.steps {
        let planned = &plan.steps[*step as usize];
        let is_inner = is_in_items(plan, *step);
        let Some((style, word, note)) = line(plan, found, is_inner) else { continue };
        let indent = if is_inner { "  " } else { "" };
        table.row([
            (style, word.to_owned()),
            (PLAIN, format!("{indent}{}", visible(&planned.label))),
            (DIM, note),
        ]);
    }
    let mut out = format!("{BOLD}{}{BOLD:#} {DIM}continues run {run}{DIM:#}\n", visible(&plan.workflow.name));
    out.push_str(&table.text("  "));
    if let Some(from) = &forecast.loop_from {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  the loop goes its way anew from `{from}` on");
    }
    let Totals { kept, again, items_kept, items_again, has_items } = totals(plan, forecast);
    let mut sums = Vec::new();
    if kept + again > 0 {
        sums.push(format!("{} kept, {again} again", words::count(kept, "step")));
    }
    if has_items {
        sums.push(format!("{} kept, {items_again} again", words::count(items_kept, "item")));
    }
    out.push_str(&sums.join("; "));
    out.push('\n');
    out
}

/// The word for what becomes of a step, and why. The steps of items are told when something of them is done.
fn line(plan: &Plan, found: &StepForecast, is_inner: bool) -> Option<(Style, &'static str, String)> {
    match found.items {
        Some(ItemForecast::Unknown) => {
            return Some((OPEN, "again", "which items it has is known when it runs".to_owned()));
        }
        Some(ItemForecast::Known { kept, again }) => {
            let (style, word) = if again == 0 { (DIM, "kept") } else { (OPEN, "again") };
            return Some((style, word, format!("{} kept, {again} again", words::count(kept, "item"))));
        }
        None => {}
    }
    if found.again == 0 {
        return (!is_inner).then(|| (DIM, "kept", String::new()));
    }
    let all = found.kept + found.again;
    let why = reasons(plan, found, all > 1);
    let is_new = found.kept == 0 && found.examples.iter().all(|(_, why)| *why == WhyAgain::New);
    let word = if is_new { "new" } else { "again" };
    let note = if all > 1 { format!("{} of {all}: {why}", found.again) } else { why };
    Some((OPEN, word, note))
}

/// Each reason once, with the executions that it holds for where there are several.
fn reasons(plan: &Plan, found: &StepForecast, several: bool) -> String {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (at, why) in &found.examples {
        by_reason.entry(reason(why)).or_default().push(visible(label(plan, at).trim()));
    }
    let more = found.again.saturating_sub(found.examples.len() as u64);
    let parts = by_reason.into_iter().map(|(why, at)| match several {
        true if why.is_empty() => at.join(", "),
        true => format!("{} {why}", at.join(", ")),
        false => why,
    });
    let mut text = parts.collect::<Vec<_>>().join("; ");
    if more > 0 {
        // Writing into a text cannot fail.
        let _ = write!(text, "; {more} more");
    }
    text
}

fn reason(why: &WhyAgain) -> String {
    match why {
        WhyAgain::New => String::new(),
        WhyAgain::Changed => "changed".to_owned(),
        WhyAgain::Failed => "failed before".to_owned(),
        WhyAgain::Unfinished => "was cut off before".to_owned(),
        WhyAgain::Reads(step) if step.is_empty() => "reads what changes".to_owned(),
        WhyAgain::Reads(step) => format!("reads `{step}`"),
        WhyAgain::Follows => "follows what runs again".to_owned(),
        WhyAgain::Asked => "as asked".to_owned(),
        WhyAgain::InWorktree => "works in a worktree of its own".to_owned(),
    }
}

/// The word for a reason, in JSON.
fn reason_word(why: &WhyAgain) -> &'static str {
    match why {
        WhyAgain::New => "new",
        WhyAgain::Changed => "changed",
        WhyAgain::Failed => "failed",
        WhyAgain::Unfinished => "unfinished",
        WhyAgain::Reads(_) => "reads",
        WhyAgain::Follows => "follows",
        WhyAgain::Asked => "asked",
        WhyAgain::InWorktree => "worktree",
    }
}

/// Every word for a reason.
pub(super) const REASON_WORDS: [&str; 8] =
    ["new", "changed", "failed", "unfinished", "reads", "follows", "asked", "worktree"];

pub(super) fn json(run: &str, plan: &Plan, forecast: &ContinuationForecast) -> Value {
    let steps = forecast.steps.iter().map(|(step, found)| {
        let planned = &plan.steps[*step as usize];
        let again = found.examples.iter().map(|(at, why)| {
            let reads = if let WhyAgain::Reads(step) = why { step.as_str().into() } else { Value::NULL };
            Value::record([("at", at.as_str().into()), ("why", reason_word(why).into()), ("reads", reads)])
        });
        let items = match found.items {
            None => Value::NULL,
            Some(ItemForecast::Unknown) => Value::record([("known", false.into())]),
            Some(ItemForecast::Known { kept, again }) => Value::record([
                ("known", true.into()),
                ("kept", Value::from(kept)),
                ("again", Value::from(again)),
            ]),
        };
        Value::record([
            ("step", planned.label.as_str().into()),
            ("number", planned.number.as_str().into()),
            ("kept", Value::from(found.kept)),
            ("again", Value::from(found.again)),
            ("executions", Value::sequence(again)),
            ("items", items),
        ])
    });
    let totals = totals(plan, forecast);
    Value::record([
        ("continues", run.into()),
        ("workflow", plan.workflow.name.as_str().into()),
        ("steps", Value::sequence(steps)),
        ("loop_from", forecast.loop_from.as_ref().map_or(Value::NULL, |at| at.as_str().into())),
        ("steps_kept", Value::from(totals.kept)),
        ("steps_again", Value::from(totals.again)),
        ("items_kept", Value::from(totals.items_kept)),
        ("items_again", Value::from(totals.items_again)),
    ])
}
