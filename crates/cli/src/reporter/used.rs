//! What agents used, as people read it.

use std::time::Duration;

use threadline_engine::agent::chat::TokenUsage;
use threadline_engine::event::{BudgetChange, Output};
use threadline_engine::spend::Spend;
use threadline_flow::fields::field_names as names;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::words;

use crate::report::visible;

/// What an answer used, behind it: `  (1250 tokens, $0.02)`. That of an agent is the sum of all its messages.
pub(super) fn used_by(output: &Output) -> String {
    let of_answer = TokenUsage::of_meta(&output.meta);
    let is_cached = output.meta.get(names::CACHED).and_then(Value::as_bool) == Some(true);
    if is_cached && spend_of(&of_answer).tokens() == 0 {
        return "  (cached)".to_owned();
    }
    let used = match output.spent.as_deref() {
        _ if of_answer != TokenUsage::default() => spend_text(&spend_of(&of_answer)),
        Some(spent) => spend_text(spent),
        None => None,
    };
    used.map_or(String::new(), |used| format!("  ({used})"))
}

fn spend_of(usage: &TokenUsage) -> Spend {
    Spend::of_turn(usage, Duration::ZERO)
}

/// Budgets that somebody set, behind something else: `, budget cost=5, review.turns=20`.
pub(super) fn budgets_text(plan: &Plan, changes: &[BudgetChange]) -> String {
    let of = |change: &BudgetChange| {
        let label = change.step.as_ref().map(|number| {
            let planned = plan.steps.iter().find(|planned| planned.number == *number);
            format!("{}.", planned.map_or(number, |planned| &planned.label))
        });
        let label = label.unwrap_or_default();
        let limits = change.budget.entries();
        limits.map(|(key, limit)| format!("{label}{}={limit}", key.name())).collect::<Vec<_>>().join(", ")
    };
    if changes.is_empty() {
        return String::new();
    }
    format!(", budget {}", visible(&changes.iter().map(of).collect::<Vec<_>>().join(", ")))
}

/// What agents used, as people read it: `1250 tokens, $0.02`; nothing where none of it is known. Where a part is an
/// estimate, it says so.
pub(crate) fn spend_text(spent: &Spend) -> Option<String> {
    let Spend { turns, uncounted, unpriced, cost, estimated, .. } = spent;
    let at_least = |unknown: u64| match (unknown, estimated) {
        (0, 0) => "",
        (0, _) => "about ",
        _ => "at least ",
    };
    let tokens = (uncounted < turns || spent.tokens() > 0)
        .then(|| format!("{}{}", at_least(*uncounted), words::count(spent.tokens(), "token")));
    let cost = (unpriced < turns || !cost.is_zero()).then(|| format!("{}${cost}", at_least(*unpriced)));
    let known: Vec<String> = tokens.into_iter().chain(cost).collect();
    (!known.is_empty()).then(|| known.join(", "))
}
