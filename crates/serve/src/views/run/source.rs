//! The text of the workflow as it was, with the values that its references had: those of one attempt, one item and one
//! visit, and never of another. What was not evaluated has no value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use threadline_engine::event::Address;
use threadline_engine::replay::Evaluated;
use threadline_flow::plan::StepNumber;
use threadline_inspect::InspectError;
use threadline_inspect::explanation::{
    ExplainedReference, ExplainedValue, FieldExplanation, StepExplanation, explain_steps,
};
use threadline_inspect::history::History;
use threadline_inspect::labels;
use threadline_inspect::place::TextRange;
use threadline_inspect::run_state::{RunState, Standing};
use threadline_inspect::source;
use threadline_inspect::target::{ExplainTarget, lists_around};
use threadline_lang::diag::words;
use threadline_lang::{Explanation, Value};

use super::choice::{Pane, ViewChoice};
use super::value::{ValueView, visible};

/// The maximum number of executions whose values are looked for at once, of a run with many.
const MAX_EXECUTIONS: usize = 400;

/// The text with values.
pub(crate) struct SourceView {
    pub(crate) file: String,
    pub(crate) hash: String,
    pub(crate) lines: Vec<SourceLine>,
    /// The line that a reader wants to see first: that of what failed.
    pub(crate) first: usize,
    /// Other files that the workflow is made of.
    pub(crate) others: Vec<String>,
    /// Which item, visits and attempts can be chosen.
    pub(crate) switches: Vec<SourceSwitch>,
}

/// A line of the text.
pub(crate) struct SourceLine {
    pub(crate) number: usize,
    /// The step that begins here, and how it stands.
    pub(crate) step: Option<StepMark>,
    pub(crate) parts: Vec<LinePart>,
}

/// How the step stands that begins in a line, and what it made.
pub(crate) struct StepMark {
    pub(crate) standing: Standing,
    pub(crate) link: String,
    pub(crate) name: String,
    pub(crate) made: Option<ValueView>,
    pub(crate) note: String,
}

/// A part of a line.
pub(crate) enum LinePart {
    Text(String),
    Value(Box<ReferencePart>),
}

/// A reference, or a part of one that goes on in the next line.
pub(crate) struct ReferencePart {
    pub(crate) text: String,
    pub(crate) id: String,
    pub(crate) link: String,
    pub(crate) is_chosen: bool,
    pub(crate) is_default: bool,
    /// What it gave, behind its end; none of a part that goes on, or where it has no value.
    pub(crate) value: Option<ValueView>,
    pub(crate) is_end: bool,
    pub(crate) card: Option<ValueCard>,
}

/// What is said of a value at once.
pub(crate) struct ValueCard {
    pub(crate) step: String,
    pub(crate) maker: String,
    pub(crate) scope: String,
}

/// Which of several is shown.
pub(crate) struct SourceSwitch {
    pub(crate) label: String,
    pub(crate) choices: Vec<(String, String, bool)>,
    /// What is said beside it.
    pub(crate) note: String,
}

/// The evaluations whose values are shown, the last of each kind of each execution.
pub(crate) struct ShownEvaluations {
    pub(crate) told: Vec<StepExplanation>,
    /// The attempts of the execution that is asked for.
    pub(crate) attempts: Vec<u32>,
    /// The item, where the run has items.
    pub(crate) item: Vec<u64>,
}

impl ShownEvaluations {
    /// Reads those of a view.
    pub(crate) fn read(
        history: &History<'_>,
        state: &RunState<'_>,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let plan = &history.plan;
        let item = shown_item(state, choice);
        let target = if plan.states.is_some() {
            let shown = executions_of_visits(state, choice);
            ExplainTarget::executions(plan, shown)
        } else {
            ExplainTarget::with_item(plan, item.clone())
        };
        let all = explain_steps(history, &target)?;
        let mut attempts = BTreeSet::new();
        let mut last: BTreeMap<(Address, u8), StepExplanation> = BTreeMap::new();
        for told in all.into_iter().filter(|told| told.seen.seq <= state.until) {
            let at = told.seen.at.clone();
            let is_asked = choice.step.as_ref() == Some(&at);
            if is_asked && told.seen.evaluated == Evaluated::Fields {
                attempts.insert(told.seen.attempt);
                let wanted = choice.attempt.and_then(|attempt| u32::try_from(attempt).ok());
                if wanted.is_some_and(|attempt| attempt != told.seen.attempt) {
                    continue;
                }
            }
            last.insert((at, told.seen.evaluated as u8), told);
        }
        let mut told: Vec<StepExplanation> = last.into_values().collect();
        for told in &mut told {
            told.ended = told.ended.take().filter(|ended| ended.seq <= state.until);
        }
        told.sort_by_key(|told| told.seen.seq);
        Ok(Self { told, attempts: attempts.into_iter().collect(), item })
    }

    /// The places of all references that the text shows.
    pub(crate) fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let lines: Vec<&str> = text.split('\n').collect();
        marks(self, &lines).iter().map(|mark| (mark.range.line, mark.range.column)).collect()
    }

    /// The field and the evaluation with a reference at a place.
    pub(crate) fn at(
        &self,
        place: (usize, usize),
    ) -> Option<(&StepExplanation, &FieldExplanation, TextRange)> {
        let starts = |range: &TextRange| (range.line, range.column) == place;
        self.told.iter().rev().find_map(|told| {
            told.fields.iter().find_map(|field| {
                let of_expression = field.expressions.iter().map(|expression| expression.range);
                let of_reference = field.references.iter().map(|reference| reference.range);
                let mut ranges = of_expression.chain(of_reference);
                ranges.find(starts).map(|range| (told, field, range))
            })
        })
    }
}

/// The item whose values are shown: the one that is asked for, else the first of those that failed, else the first.
fn shown_item(state: &RunState<'_>, choice: &ViewChoice) -> Vec<u64> {
    if let Some(item) = &choice.item {
        return item.clone();
    }
    let Some((list, _)) = state.lists().next() else { return Vec::new() };
    let first = state.items_in_order(list).into_iter().next();
    first.map_or_else(Vec::new, |item| vec![item.index])
}

/// Of a loop, what belongs to one visit of each state: the one that is asked for, else the last.
fn executions_of_visits(state: &RunState<'_>, choice: &ViewChoice) -> Vec<Address> {
    let executions = state.executions();
    let mut visits: BTreeMap<String, Address> = BTreeMap::new();
    for execution in &executions {
        let Some(visit) = execution.at.as_ref().and_then(Address::visit_around) else { continue };
        let Some(name) = visit.state().map(str::to_owned) else { continue };
        let is_fixed = choice.visit.as_ref().is_some_and(|chosen| chosen.state() == Some(name.as_str()));
        if !is_fixed {
            visits.insert(name, visit);
        }
    }
    if let Some(chosen) = &choice.visit
        && let Some(name) = chosen.state()
    {
        visits.insert(name.to_owned(), chosen.clone());
    }
    let is_shown = |at: &Address| match at.visit_around() {
        Some(visit) => visits.values().any(|known| *known == visit),
        None => true,
    };
    executions
        .into_iter()
        .filter_map(|execution| execution.at)
        .filter(is_shown)
        .take(MAX_EXECUTIONS)
        .collect()
}

/// A range of the text with what is shown of it.
struct Mark<'e> {
    range: TextRange,
    told: &'e StepExplanation,
    value: Option<&'e Value>,
    is_default: bool,
    references: Vec<&'e ExplainedReference>,
}

impl SourceView {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        shown: &ShownEvaluations,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let mut texts = source::texts(history)?.into_iter();
        let Some(main) = texts.next() else {
            return Err(InspectError::plain("the text of the workflow is not there"));
        };
        let lines: Vec<&str> = main.text.split('\n').collect();
        let marks = marks(shown, &lines);
        let mut steps = step_marks(history, state, shown, choice, &lines)?;
        let failed = steps.iter().find(|(_, step)| step.standing == Standing::Failed);
        let first = failed.map_or(0, |(line, _)| *line);
        let mut views = Vec::with_capacity(lines.len());
        let last = if main.text.ends_with('\n') { lines.len() - 1 } else { lines.len() };
        for (at, line) in lines.iter().enumerate().take(last) {
            let number = at + 1;
            let parts = line_parts(history, line, number, &marks, choice);
            views.push(SourceLine { number, step: steps.remove(&number), parts });
        }
        let hash: String = main.hash.to_string().chars().take(8).collect();
        Ok(Self {
            file: visible(&main.file),
            hash,
            lines: views,
            first,
            others: texts.map(|text| visible(&text.file)).collect(),
            switches: switches(history, state, shown, choice),
        })
    }
}

/// The references that stand where the text has them: what a file that was taken in has is elsewhere.
fn marks<'e>(shown: &'e ShownEvaluations, lines: &[&str]) -> Vec<Mark<'e>> {
    let mut found: BTreeMap<(usize, usize), Mark<'e>> = BTreeMap::new();
    for told in &shown.told {
        for field in &told.fields {
            let inside = |outer: TextRange, inner: TextRange| {
                (outer.line, outer.column) <= (inner.line, inner.column)
                    && (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
            };
            for expression in &field.expressions {
                let range = without_quote(lines, expression.range, &expression.text);
                if text_at(lines, range).as_deref().map(str::trim) != Some(expression.text.trim()) {
                    continue;
                }
                let references =
                    field.references.iter().filter(|reference| inside(range, reference.range)).collect();
                let (value, is_default) = (expression.value.as_ref(), expression.defaulted);
                found.insert((range.line, range.column), Mark { range, told, value, is_default, references });
            }
            for reference in &field.references {
                let range = without_quote(lines, reference.range, &reference.resolution.reference);
                let is_covered =
                    field.expressions.iter().any(|expression| inside(expression.range, reference.range));
                let written = &reference.resolution.reference;
                let is_here = text_at(lines, range).is_some_and(|text| text.contains(written.as_str()));
                if is_covered || !is_here {
                    continue;
                }
                let (value, is_default) =
                    (reference.resolution.value.as_ref(), reference.resolution.defaulted);
                let references = vec![reference];
                found.insert((range.line, range.column), Mark { range, told, value, is_default, references });
            }
        }
    }
    // Of two that overlap the first is shown.
    let mut marks: Vec<Mark<'e>> = Vec::new();
    for mark in found.into_values() {
        let is_free = marks.last().is_none_or(|before| {
            (before.range.end_line, before.range.end_column) <= (mark.range.line, mark.range.column)
        });
        if is_free {
            marks.push(mark);
        }
    }
    marks
}

/// A range without the quote that ends its scalar, where what is written does not have it.
fn without_quote(lines: &[&str], range: TextRange, written: &str) -> TextRange {
    let quote = text_at(lines, range).and_then(|text| text.chars().last());
    let is_more = quote.is_some_and(|quote| matches!(quote, '"' | '\'') && !written.ends_with(quote));
    TextRange { end_column: range.end_column - usize::from(is_more && range.end_column > 1), ..range }
}

/// The text of a range.
fn text_at(lines: &[&str], range: TextRange) -> Option<String> {
    let mut text = String::new();
    for number in range.line..=range.end_line {
        let line = lines.get(number.checked_sub(1)?)?;
        let from = if number == range.line { range.column.checked_sub(1)? } else { 0 };
        let to = if number == range.end_line { range.end_column.checked_sub(1)? } else { usize::MAX };
        if number > range.line {
            text.push('\n');
        }
        text.extend(line.chars().take(to).skip(from));
    }
    Some(text)
}

fn line_parts(
    history: &History<'_>,
    line: &str,
    number: usize,
    marks: &[Mark<'_>],
    choice: &ViewChoice,
) -> Vec<LinePart> {
    let chars: Vec<char> = line.trim_end_matches('\r').chars().collect();
    let text = |from: usize, to: usize| -> String {
        visible(&chars[from.min(chars.len())..to.min(chars.len())].iter().collect::<String>())
    };
    let mut parts = Vec::new();
    let mut at = 0;
    let of_line = marks.iter().filter(|mark| mark.range.line <= number && number <= mark.range.end_line);
    for mark in of_line {
        let from = if mark.range.line == number { mark.range.column - 1 } else { 0 };
        let is_end = mark.range.end_line == number;
        let to = if is_end { mark.range.end_column - 1 } else { chars.len() };
        if from > at {
            parts.push(LinePart::Text(text(at, from)));
        }
        let place = (mark.range.line, mark.range.column);
        let is_begin = mark.range.line == number;
        parts.push(LinePart::Value(Box::new(ReferencePart {
            text: text(from, to),
            id: format!("{}-{}", place.0, place.1),
            link: choice.with(|other| other.value = Some(place)),
            is_chosen: choice.value == Some(place),
            is_default: mark.is_default,
            value: mark.value.filter(|_| is_end).map(ValueView::new),
            is_end,
            card: is_begin.then(|| card(history, mark)),
        })));
        at = to.max(at);
    }
    if at < chars.len() {
        parts.push(LinePart::Text(text(at, chars.len())));
    }
    parts
}

fn card(history: &History<'_>, mark: &Mark<'_>) -> ValueCard {
    let step = labels::title(&history.plan, &mark.told.seen.at);
    let mut makers: Vec<String> = Vec::new();
    let mut scopes: Vec<String> = Vec::new();
    for reference in &mark.references {
        let maker = super::maker_text(history, &reference.maker);
        if !makers.contains(&maker) {
            makers.push(maker);
        }
        let scope = reference.resolution.scope.to_string();
        if !scope.is_empty() && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    ValueCard {
        step: visible(&step.replace('`', "")),
        maker: visible(&makers.join(", ")),
        scope: visible(&scopes.join(", ")),
    }
}

/// The steps that begin in lines.
fn step_marks(
    history: &History<'_>,
    state: &RunState<'_>,
    shown: &ShownEvaluations,
    choice: &ViewChoice,
    lines: &[&str],
) -> Result<BTreeMap<usize, StepMark>, InspectError> {
    let plan = Arc::clone(&history.plan);
    let mut found = BTreeMap::new();
    let executions = state.executions();
    for (number, planned) in (0..).zip(&plan.steps) {
        let number: StepNumber = number;
        let start = planned.step.origin.span.range().start;
        let (file, line, _) = history.source().place(start.min(history.source().text.len()));
        if file != history.started.file.as_str() {
            continue;
        }
        // What a step is may begin below its name.
        let above = line.checked_sub(2).and_then(|at| lines.get(at)).map_or("", |text| text.trim());
        let name = above.trim_end_matches(':').trim_matches(['"', '\'']);
        let line = if above.ends_with(':') && name == planned.label { line - 1 } else { line };
        let own: Vec<_> = executions.iter().filter(|execution| execution.step == number).collect();
        let of_visit = own.iter().rev().find(|execution| match (&choice.visit, &execution.at) {
            (Some(visit), Some(at)) => at.visit_around().as_ref() == Some(visit),
            _ => false,
        });
        let in_items = lists_around(&plan, number) > 0;
        let (at, place) = if in_items {
            let at = shown.told.iter().map(|told| &told.seen.at).find(|at| at.step(&plan) == Some(number));
            match at {
                Some(at) => (Some(at.clone()), state.at(at)),
                None => continue,
            }
        } else {
            match of_visit.or_else(|| own.last()) {
                Some(execution) => (execution.at.clone(), execution.state),
                None => continue,
            }
        };
        let mut own = shown.told.iter().rev().filter(|told| Some(&told.seen.at) == at.as_ref());
        let ended = own.find_map(|told| told.ended.as_ref()).filter(|ended| !ended.retried);
        let made = match ended {
            Some(ended) if place.standing == Standing::Completed => {
                let value = history.load(&ended.output.value)?;
                Some(ValueView::new(&value)).filter(|_| !value.is_null())
            }
            _ => None,
        };
        let took = place.began.zip(place.ended).map(|(began, ended)| millis_text(ended - began));
        let mut notes: Vec<String> = Vec::new();
        if !matches!(place.standing, Standing::Completed | Standing::NotYet) {
            notes.push(place.standing.words().to_owned());
        }
        if place.attempts > 1 {
            notes.push(format!("{} attempts", place.attempts));
        }
        notes.extend(took.filter(|_| place.standing != Standing::Skipped));
        let href = at.as_ref().map_or_else(String::new, |at| choice.step(Pane::Steps, at));
        let name = at.as_ref().map_or_else(|| planned.label.to_string(), |at| labels::name(&plan, at));
        found.insert(
            line,
            StepMark {
                standing: place.standing,
                link: href,
                name: visible(&name),
                made,
                note: notes.join(" · "),
            },
        );
    }
    Ok(found)
}

/// What can be chosen: an attempt, an item, a visit.
fn switches(
    history: &History<'_>,
    state: &RunState<'_>,
    shown: &ShownEvaluations,
    choice: &ViewChoice,
) -> Vec<SourceSwitch> {
    let mut found = Vec::new();
    if let Some(step) = choice.step.as_ref().filter(|_| shown.attempts.len() > 1) {
        let chosen = choice.attempt.or_else(|| shown.attempts.last().map(|last| u64::from(*last)));
        let choices = shown.attempts.iter().map(|attempt| {
            let link = choice.with(|other| other.attempt = Some(u64::from(*attempt)));
            (attempt.to_string(), link, chosen == Some(u64::from(*attempt)))
        });
        let label = format!("Attempt of {}", visible(&labels::name(&history.plan, step)));
        found.push(SourceSwitch { label, choices: choices.collect(), note: String::new() });
    }
    if let Some((list, counts)) = state.lists().next() {
        let total = counts.total();
        let index = shown.item.first().copied().unwrap_or(0);
        let to = |index: u64| {
            choice.with(|other| {
                other.item = Some(vec![index]);
                other.value = None;
            })
        };
        let mut choices = Vec::new();
        choices.extend(index.checked_sub(1).map(|before| ("‹".to_owned(), to(before), false)));
        choices.push((index.to_string(), to(index), true));
        choices.extend((index + 1 < total).then(|| ("›".to_owned(), to(index + 1), false)));
        let label = format!("Item of {}", visible(&labels::name(&history.plan, list)));
        found.push(SourceSwitch { label, choices, note: format!("of {total}") });
    }
    if history.plan.states.is_some() {
        let executions = state.executions();
        let visits =
            executions.iter().filter_map(|execution| execution.at.as_ref()).filter(|at| at.is_visit());
        let visits: Vec<&Address> = visits.collect();
        let chosen = choice.visit.clone().or_else(|| visits.last().map(|visit| (*visit).clone()));
        let place = chosen.as_ref().and_then(|chosen| visits.iter().position(|visit| *visit == chosen));
        if let (Some(chosen), Some(place)) = (&chosen, place) {
            let to = |visit: &Address| {
                choice.with(|other| {
                    other.visit = Some(visit.clone());
                    other.value = None;
                })
            };
            let mut choices = Vec::new();
            choices.extend(place.checked_sub(1).map(|before| ("‹".to_owned(), to(visits[before]), false)));
            choices.push((visible(&labels::name(&history.plan, chosen)), to(chosen), true));
            choices.extend(visits.get(place + 1).map(|next| ("›".to_owned(), to(next), false)));
            let note = format!("{} of {}", place + 1, words::count(visits.len() as u64, "visit"));
            found.push(SourceSwitch { label: "Visit".to_owned(), choices, note });
        }
    }
    found
}

/// A duration in milliseconds for people.
pub(crate) fn millis_text(millis: i64) -> String {
    words::duration(std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// A condition as lines of a tree, each with its depth.
pub(crate) fn condition_lines(explanation: &Explanation) -> Vec<ConditionLine> {
    let mut lines = Vec::new();
    add_condition(explanation, 0, &mut lines);
    lines
}

/// A part of a condition.
pub(crate) struct ConditionLine {
    pub(crate) depth: usize,
    pub(crate) text: String,
    pub(crate) value: Option<ValueView>,
    pub(crate) note: String,
}

fn add_condition(explanation: &Explanation, depth: usize, lines: &mut Vec<ConditionLine>) {
    let (value, note) = match &explanation.outcome {
        Some(Ok(value)) => (Some(ValueView::new(value)), String::new()),
        Some(Err(error)) => (None, error.to_string()),
        None => (None, "not evaluated".to_owned()),
    };
    lines.push(ConditionLine {
        depth: depth.min(9),
        text: visible(&explanation.source),
        value,
        note: visible(&note),
    });
    for part in &explanation.parts {
        add_condition(part, depth + 1, lines);
    }
}

/// The condition of a field, if it is one.
pub(crate) fn condition_of(field: &FieldExplanation) -> Vec<ConditionLine> {
    match &field.shown {
        ExplainedValue::Condition(explanation) => condition_lines(explanation),
        _ => Vec::new(),
    }
}
