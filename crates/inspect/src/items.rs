//! The items of a step page by page, what needs attention first; and why items failed, grouped by what their errors have
//! in common.

use std::collections::BTreeMap;

use threadline_engine::event::{Address, EventKind, Seq};
use threadline_engine::view::ItemRef;
use threadline_lang::Value;
use threadline_lang::diag::{preview, words};

use crate::error::{InspectError, of_journal};
use crate::history::{History, time_text};
use crate::labels::{first_line, label};
use crate::run_state::{RunState, Standing, StandingCounts, StandingItem};
use crate::target::ExplainTarget;

/// Which items are asked for.
#[derive(Debug, Clone, Default)]
pub struct ItemChoice {
    /// Only those that stand like this; all where there is none.
    pub standing: Vec<Standing>,
    /// Only those behind this one, in the order that they are listed in.
    pub after: Option<u64>,
    /// At most so many.
    pub count: usize,
}

/// Some items of a step.
pub struct ItemPage {
    /// The step.
    pub at: Address,
    /// How all its items stand.
    pub counts: StandingCounts,
    /// The items.
    pub rows: Vec<ItemRow>,
    /// What to ask for to see those behind them: the index of the last.
    pub next: Option<u64>,
}

/// An item of a page.
pub struct ItemRow {
    /// How it stands.
    pub item: StandingItem,
    /// What it is.
    pub value: Value,
    /// How many attempts it took, as a whole.
    pub attempts: u32,
    /// Why it failed.
    pub error: Option<String>,
    /// What its last step left.
    pub result: Option<Value>,
}

/// The list of items that a text names: that of a step, or the one whose items have this step.
pub fn list_named(history: &History<'_>, state: &RunState<'_>, step: &str) -> Result<Address, InspectError> {
    let plan = &history.plan;
    let target = ExplainTarget::named(history, step)?;
    let lists: Vec<&Address> = state.lists().map(|(at, _)| at).collect();
    let of_step = |at: &&&Address| {
        at.step(plan).is_some_and(|number| target.means(at, number) || target.steps.contains(&number))
    };
    let by_name = lists.iter().find(of_step);
    // The name of a list of items stands for the steps in it, too.
    let by_label = lists.iter().find(|at| label(plan, at).trim_start() == step || at.as_str() == step);
    if let Some(at) = by_label.or(by_name) {
        return Ok((*at).clone());
    }
    let message = format!("`{step}` of run `{}` has no items", history.info.id);
    let names: Vec<String> = lists.iter().map(|at| format!("`{}`", label(plan, at).trim_start())).collect();
    let hint = if names.is_empty() {
        format!("`threadline show {} --at {}` shows its steps", history.info.id, state.until)
    } else {
        format!("these have: {}", words::list(&names, "and"))
    };
    Err(InspectError::with_hint(message, hint).missing())
}

/// A page of the items of a step, as they were after an event.
pub fn items(
    history: &History<'_>,
    state: &RunState<'_>,
    at: &Address,
    choice: &ItemChoice,
) -> Result<ItemPage, InspectError> {
    let Some((list, counts)) = state.list_of(at).zip(state.items_of(at)) else {
        let message = format!("`{at}` of run `{}` has no items after event {}", history.info.id, state.until);
        return Err(InspectError::plain(message).missing());
    };
    let chosen =
        |item: &StandingItem| choice.standing.is_empty() || choice.standing.contains(&item.state.standing);
    let all: Vec<StandingItem> = state.items_in_order(at).into_iter().filter(chosen).collect();
    let from = match choice.after {
        None => 0,
        Some(after) => all.iter().position(|item| item.index == after).map_or(all.len(), |at| at + 1),
    };
    let has_more = all.len().saturating_sub(from) > choice.count;
    let mut rows = Vec::new();
    for item in all.into_iter().skip(from).take(choice.count) {
        rows.push(row(history, list, item)?);
    }
    let next = rows.last().filter(|_| has_more).map(|row| row.item.index);
    Ok(ItemPage { at: at.clone(), counts, rows, next })
}

fn row(history: &History<'_>, list: Seq, item: StandingItem) -> Result<ItemRow, InspectError> {
    let value = history.item(ItemRef { list, index: item.index })?;
    let (mut attempts, mut error, mut result) = (item.state.attempts, None, None);
    if item.state.ended.is_some()
        && let EventKind::ItemEnded(ended) = history.event(item.state.last)?.kind
    {
        attempts = ended.attempts;
        error = ended.error.as_ref().map(ToString::to_string);
        result = if ended.error.is_none() { Some(history.load(&ended.value)?) } else { None };
    }
    Ok(ItemRow { item, value, attempts, error, result })
}

impl ItemPage {
    /// The page as JSON.
    pub fn value(&self, run: &str) -> Value {
        let rows = self.rows.iter().map(|row| {
            let StandingItem { index, at, state, step_attempts } = &row.item;
            let time = |time: Option<i64>| time.map_or(Value::NULL, |time| time_text(time).into());
            let took = state.began.zip(state.ended).map(|(began, ended)| ended - began);
            Value::record([
                ("at", Value::from(at.as_str())),
                ("index", Value::from(*index)),
                ("standing", state.standing.name().into()),
                ("item", row.value.clone()),
                ("preview", preview(&row.value).into()),
                ("attempts", Value::from(row.attempts)),
                ("step_attempts", Value::from(*step_attempts)),
                ("began", time(state.began)),
                ("ended", time(state.ended)),
                ("duration_ms", took.map_or(Value::NULL, Value::from)),
                ("error", row.error.as_deref().map_or(Value::NULL, Value::from)),
                ("result", row.result.clone().unwrap_or_default()),
            ])
        });
        Value::record([
            ("run", run.into()),
            ("at", self.at.as_str().into()),
            ("items", self.counts.value()),
            ("rows", Value::sequence(rows)),
            ("next", self.next.map_or(Value::NULL, Value::from)),
        ])
    }
}

/// Items that failed for what looks like the same reason.
#[derive(Debug, Clone)]
pub struct ErrorGroup {
    /// What their errors have in common; `…` stands for what differs.
    pub shape: String,
    /// How many they are.
    pub count: u64,
    /// The error of the first of them.
    pub example: String,
    /// The indexes of the first of them.
    pub items: Vec<u64>,
}

/// How many items of a group are named.
const NAMED_ITEMS: usize = 10;

/// Why items of a step failed, the most frequent first.
pub fn error_groups(
    history: &History<'_>,
    state: &RunState<'_>,
    at: &Address,
) -> Result<Vec<ErrorGroup>, InspectError> {
    let failed: Vec<StandingItem> =
        state.items_in_order(at).into_iter().filter(|item| item.state.standing == Standing::Failed).collect();
    let mut events: Vec<(Seq, u64)> = failed.iter().map(|item| (item.state.last, item.index)).collect();
    events.sort_unstable();
    let numbers: Vec<Seq> = events.iter().map(|(seq, _)| *seq).collect();
    let mut groups: BTreeMap<String, ErrorGroup> = BTreeMap::new();
    for (event, (_, index)) in history.reader.events_at(&history.info.id, &numbers).zip(&events) {
        let event = event.map_err(|error| of_journal(&error))?;
        let EventKind::ItemEnded(ended) = event.kind else { continue };
        let error = ended.error.as_deref().unwrap_or_default();
        let shape = shape(error);
        let group = groups.entry(shape.clone()).or_insert_with(|| ErrorGroup {
            shape,
            count: 0,
            example: error.to_owned(),
            items: Vec::new(),
        });
        group.count += 1;
        if group.items.len() < NAMED_ITEMS {
            group.items.push(*index);
        }
    }
    let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
    groups.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.shape.cmp(&other.shape)));
    Ok(groups)
}

/// The first line of an error, and the last where a program printed it, with `…` for what differs from item to item:
/// words with a digit or a slash, and what stands in quotes.
fn shape(error: &str) -> String {
    let first = first_line(error);
    let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = if first.ends_with(':') { format!("{first} {}", last.trim()) } else { first.to_owned() };
    let mut out = String::new();
    let mut quote = None;
    for (at, word) in line.split(' ').enumerate() {
        if at > 0 && quote.is_none() {
            out.push(' ');
        }
        let core = word.trim_end_matches([',', '.', ':', ';', ')']);
        let punctuation = &word[core.len()..];
        let opened = core.chars().next().filter(|char| ['"', '\'', '`'].contains(char));
        let open = quote.or(opened);
        if let Some(open) = open {
            if quote.is_none() {
                out.push('…');
            }
            let closes = core.ends_with(open) && (quote.is_some() || core.len() > 1);
            quote = (!closes).then_some(open);
            if closes {
                out.push_str(punctuation);
            }
            continue;
        }
        // What an exit code or a status is stays.
        let is_short = core.len() <= 3 && core.chars().all(|char| char.is_ascii_digit());
        let differs = core.contains(|char: char| char.is_ascii_digit() || char == '/') && !is_short;
        out.push_str(if differs { "…" } else { core });
        out.push_str(punctuation);
    }
    out
}

/// Groups of errors as JSON.
pub fn groups_value(groups: &[ErrorGroup]) -> Value {
    Value::sequence(groups.iter().map(|group| {
        Value::record([
            ("shape", Value::from(group.shape.as_str())),
            ("count", Value::from(group.count)),
            ("example", group.example.as_str().into()),
            ("items", Value::sequence(group.items.iter().map(|index| Value::from(*index)))),
        ])
    }))
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn what_differs_from_item_to_item_is_left_out() {
        assert_eq!(shape("exit code 3"), "exit code 3");
        assert_eq!(shape("exit code 3:\n  lines\n  no host example12.org"), "exit code 3: no host …");
        assert_eq!(shape("cannot open \"a b.txt\": gone"), "cannot open …: gone");
        assert_eq!(shape("no file /tmp/x17 there"), "no file … there");
    }
}
