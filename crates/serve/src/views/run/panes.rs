//! What stands in the middle beside the source: the steps, one execution with all its attempts, items, what was printed,
//! conversations with agents, and called runs.

use std::fmt::Write as _;

use threadline_engine::event::{Address, Seq, Status};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::Action;
use threadline_inspect::InspectError;
use threadline_inspect::conversation::conversation;
use threadline_inspect::explanation::{ExplainedValue, StepExplanation, explain_steps, skipped_steps};
use threadline_inspect::history::{History, clock_text};
use threadline_inspect::items::{self, ErrorGroup, ItemChoice};
use threadline_inspect::labels;
use threadline_inspect::logs::{LogReader, PrintedStream, StreamChoice};
use threadline_inspect::run_state::{RunState, Standing};
use threadline_inspect::target::{ExplainTarget, lists_around};
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;

use super::choice::{Pane, ViewChoice, item_text, step_id};
use super::head::status_of;
use super::source::{ConditionLine, condition_of, millis_text};
use super::value::{ValueView, visible, visible_lines};

/// The number of items of a page.
const ITEMS: usize = 50;

/// The number of lines that are shown of what was printed.
const LINES: usize = 300;

/// The longest line that is shown.
const LONGEST_LINE: usize = 2_000;

/// The number of positions of the strip of items.
const STRIP: usize = 172;

/// The maximum number of executions in the list of steps.
const MAX_STEPS: usize = 1_000;

/// An execution in the list of steps.
pub(crate) struct StepRow {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) depth: usize,
    pub(crate) standing: Standing,
    pub(crate) is_chosen: bool,
    pub(crate) link: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) took: String,
    pub(crate) made: Option<ValueView>,
    pub(crate) error: String,
    pub(crate) items: String,
    pub(crate) items_link: Option<String>,
}

/// The steps of a run.
pub(crate) struct StepsView {
    pub(crate) rows: Vec<StepRow>,
    pub(crate) more: usize,
    pub(crate) inside: Vec<(String, String)>,
    pub(crate) detail: Option<StepDetail>,
}

/// One execution with all that was evaluated of it.
pub(crate) struct StepDetail {
    /// Its id in a page that is a file.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) at: String,
    pub(crate) evaluations: Vec<EvaluationView>,
    pub(crate) skipped: String,
    pub(crate) log: String,
    pub(crate) items: Option<String>,
    pub(crate) command: String,
}

/// One evaluation.
pub(crate) struct EvaluationView {
    pub(crate) title: String,
    pub(crate) event: Seq,
    pub(crate) time: String,
    pub(crate) class: &'static str,
    pub(crate) end: String,
    pub(crate) fields: Vec<FieldView>,
    pub(crate) printed: String,
    pub(crate) problems: Vec<String>,
    pub(crate) verdict: String,
    pub(crate) called: Option<String>,
    pub(crate) is_reproducible: bool,
}

/// A field of a step.
pub(crate) struct FieldView {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) condition: Vec<ConditionLine>,
    pub(crate) reads: Vec<(String, String, Option<ValueView>, String, bool)>,
}

impl StepsView {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let plan = &history.plan;
        let executions = state.executions();
        let more = executions.len().saturating_sub(MAX_STEPS);
        let mut rows = Vec::new();
        for execution in executions.into_iter().take(MAX_STEPS) {
            let planned = &plan.steps[execution.step as usize];
            let of = &execution.state;
            let at = execution.at.as_ref();
            let (mut made, mut error) = (None, String::new());
            if of.ended.is_some() {
                let event = history.event(of.last)?;
                if let Some(output) = threadline_engine::replay::output_of(&event) {
                    let why = if output.status == Status::Skipped { names::REASON } else { names::ERROR };
                    let why = output.meta.get(why).and_then(Value::as_str).unwrap_or_default();
                    error = visible(labels::first_line(why));
                    if output.status == Status::Completed {
                        let value = history.load(&output.value)?;
                        made = Some(ValueView::new(&value)).filter(|_| !value.is_null());
                    }
                }
            }
            let items = at.and_then(|at| state.items_of(at));
            rows.push(StepRow {
                name: visible(&at.map_or_else(|| planned.label.to_string(), |at| labels::name(plan, at))),
                kind: planned.step.action.name().key(),
                depth: labels::depth(&planned.number).min(6),
                standing: of.standing,
                is_chosen: at.is_some() && at == choice.step.as_ref(),
                link: at.map(|at| choice.step(Pane::Steps, at)),
                attempts: of.attempts,
                took: of
                    .began
                    .zip(of.ended)
                    .filter(|_| of.standing != Standing::Skipped)
                    .map_or(String::new(), |(began, ended)| millis_text(ended - began)),
                made,
                error,
                items: items.map_or(String::new(), |items| items.text()),
                items_link: at.filter(|_| items.is_some()).map(|at| choice.step(Pane::Items, at)),
            });
        }
        let inside = (0..).zip(&plan.steps).filter(|(number, _)| lists_around(plan, *number) > 0);
        let inside = inside
            .map(|(number, step)| (visible(&step.label), state.executions_of(number).text()))
            .filter(|(_, text)| !text.is_empty());
        let detail =
            choice.step.as_ref().map(|at| StepDetail::new(history, state, at, choice)).transpose()?;
        Ok(Self { rows, more, inside: inside.collect(), detail })
    }
}

impl StepDetail {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        at: &Address,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let target = ExplainTarget::executions(&history.plan, vec![at.clone()]);
        let mut told = explain_steps(history, &target)?;
        told.retain(|told| told.seen.seq <= state.until);
        let mut evaluations = Vec::with_capacity(told.len());
        for told in &told {
            evaluations.push(evaluation(history, told, state.until, choice)?);
        }
        let skipped = skipped_steps(history, &target)?;
        let skipped = skipped.into_iter().filter(|(event, _)| event.seq <= state.until);
        let skipped = skipped.map(|(_, reason)| visible(&reason)).last().unwrap_or_default();
        let handle = labels::handle(&history.plan, at);
        Ok(Self {
            id: step_id(at),
            name: visible(&labels::name(&history.plan, at)),
            at: at.to_string(),
            evaluations,
            skipped,
            log: choice.step(Pane::Log, at),
            items: state.items_of(at).map(|_| choice.step(Pane::Items, at)),
            command: visible(&format!("threadline explain {} {handle}", history.info.id)),
        })
    }
}

fn evaluation(
    history: &History<'_>,
    told: &StepExplanation,
    until: Seq,
    choice: &ViewChoice,
) -> Result<EvaluationView, InspectError> {
    let seen = &told.seen;
    let ended = told.ended.as_ref().filter(|ended| ended.seq <= until);
    let mut title = if seen.attempt > 0 {
        match told.attempts_allowed {
            Some(allowed) if allowed > 1 => format!("Attempt {} of {allowed}", seen.attempt),
            _ => format!("Attempt {}", seen.attempt),
        }
    } else {
        super::head::capital(told.evaluated())
    };
    if let Some(attempt) = seen.item_attempt.filter(|attempt| *attempt > 1) {
        let _ = write!(title, " of attempt {attempt} of the item");
    }
    let (mut class, mut end, mut printed) = ("running", String::new(), String::new());
    if let Some(ended) = ended {
        class = if ended.retried { "retrying" } else { status_of(ended.output.status) };
        let error = ended.output.meta.get(names::ERROR).and_then(Value::as_str);
        let took = millis_text(ended.time - seen.time);
        end = match error {
            Some(error) => {
                format!("{}: {} · {took}", ended.output.status.name(), visible(labels::first_line(error)))
            }
            None => format!("{} · {took}", ended.output.status.name()),
        };
        if ended.output.status == Status::Failed {
            let of = |stream: &Option<threadline_engine::event::Datum>| -> Result<String, InspectError> {
                let text = stream.as_ref().map(|text| history.load(text)).transpose()?;
                Ok(text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default())
            };
            let text = of(&ended.output.stderr)?;
            let text = if text.is_empty() { of(&ended.output.output)? } else { text };
            let lines: Vec<&str> = text.lines().collect();
            printed = visible_lines(&lines[lines.len().saturating_sub(12)..].join("\n"));
        }
    } else if seen.attempt == 0 {
        class = "completed";
    }
    let fields = told.fields.iter().map(|field| FieldView {
        name: visible(&field.name),
        text: match &field.shown {
            ExplainedValue::Nothing | ExplainedValue::Condition(_) => String::new(),
            ExplainedValue::Text(text) => visible_lines(&words::shorten(text, LONGEST_LINE)),
            ExplainedValue::Value(value) => {
                visible(&words::shorten(&value.to_json(JsonStyle::Compact), LONGEST_LINE))
            }
            ExplainedValue::Shell(bound) => {
                let variables = bound.variables.iter().map(|variable| {
                    let value = Value::from(variable.value.as_str());
                    format!("{} = {}", variable.name, threadline_lang::diag::excerpt(&value))
                });
                let variables: Vec<String> = variables.collect();
                let text = words::shorten(&bound.text, LONGEST_LINE).into_owned();
                visible_lines(&format!("{}\n\n{}", text.trim_end(), variables.join("\n")))
                    .trim_end()
                    .to_owned()
            }
            ExplainedValue::Words(words) => {
                let words: Vec<String> = words
                    .iter()
                    .map(|word| Value::from(word.value.as_str()).to_json(JsonStyle::Compact))
                    .collect();
                visible(&words.join(" "))
            }
            ExplainedValue::Expectation { told, .. } => {
                let trees: Vec<String> = told.iter().map(|outcome| outcome.tree.to_string()).collect();
                visible_lines(&trees.join("\n"))
            }
        },
        condition: condition_of(field),
        reads: field
            .references
            .iter()
            .map(|reference| {
                let resolution = &reference.resolution;
                let range = reference.range;
                let link = choice.with(|other| {
                    (other.pane, other.value) = (Some(Pane::Source), Some((range.line, range.column)));
                    other.attempt = (seen.attempt > 0).then_some(u64::from(seen.attempt));
                    let items: Vec<u64> = seen.at.items().collect();
                    other.item = Some(items).filter(|items| !items.is_empty());
                    other.visit = seen.at.visit_around();
                });
                (
                    visible(&resolution.reference),
                    link,
                    resolution.value.as_ref().map(ValueView::new),
                    visible(&super::maker_text(history, &reference.maker)),
                    resolution.defaulted,
                )
            })
            .collect(),
    });
    let verdict = told.judged.as_ref().map_or(String::new(), |judged| {
        let recorded = &judged.recorded;
        let to = recorded.to.as_ref().map_or(String::new(), |to| format!(" → {to}"));
        visible(&format!("{}{to}: {}", recorded.verdict, labels::first_line(&recorded.reason)))
    });
    Ok(EvaluationView {
        title,
        event: seen.seq,
        time: clock_text(seen.time),
        class,
        end,
        fields: fields.collect(),
        printed,
        problems: told.problems.iter().map(|problem| visible_lines(&problem.message)).collect(),
        verdict,
        called: told.called().map(visible),
        is_reproducible: told.reproducible != Some(false),
    })
}

/// Items of a step.
pub(crate) struct ItemsView {
    pub(crate) name: String,
    pub(crate) lists: Vec<(String, String, bool)>,
    pub(crate) counts: String,
    pub(crate) strip: String,
    pub(crate) total: u64,
    pub(crate) filters: Vec<(String, u64, String, bool)>,
    pub(crate) groups: Vec<ErrorGroup>,
    pub(crate) rows: Vec<ItemLine>,
    pub(crate) next: Option<String>,
    pub(crate) first: Option<String>,
    pub(crate) detail: Option<ItemDetail>,
    pub(crate) steps: Vec<(String, String)>,
}

/// An item of the table.
pub(crate) struct ItemLine {
    pub(crate) index: u64,
    pub(crate) standing: Standing,
    pub(crate) item: ValueView,
    pub(crate) error: String,
    pub(crate) result: Option<ValueView>,
    pub(crate) attempts: u32,
    pub(crate) took: String,
    pub(crate) link: String,
    pub(crate) is_chosen: bool,
}

/// An item with its steps.
pub(crate) struct ItemDetail {
    pub(crate) index: String,
    pub(crate) source: String,
    pub(crate) steps: Vec<(String, Standing, StepDetail)>,
    pub(crate) close: String,
}

impl ItemsView {
    /// The items of the step that is asked for, else of the first with items; none where no step has any yet.
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        choice: &ViewChoice,
    ) -> Result<Option<Self>, InspectError> {
        let lists: Vec<Address> = state.lists().map(|(at, _)| at.clone()).collect();
        let asked = choice.step.as_ref().filter(|at| state.items_of(at).is_some());
        let Some(at) = asked.or(lists.first()).cloned() else { return Ok(None) };
        let wanted = ItemChoice { standing: choice.standing.clone(), after: choice.after, count: ITEMS };
        let page = items::items(history, state, &at, &wanted)?;
        let groups = items::error_groups(history, state, &at)?;
        let groups = groups
            .into_iter()
            .take(12)
            .map(|group| ErrorGroup {
                shape: visible(&group.shape),
                example: visible_lines(&words::shorten(&group.example, 400)),
                ..group
            })
            .collect();
        let own: Vec<u64> = at.items().collect();
        let to_item = |index: u64| {
            let mut item = own.clone();
            item.push(index);
            item
        };
        let rows = page.rows.iter().map(|row| {
            let place = &row.item.state;
            let item = to_item(row.item.index);
            ItemLine {
                index: row.item.index,
                standing: place.standing,
                item: ValueView::new(&row.value),
                error: row.error.as_deref().map_or(String::new(), one_line_error),
                result: row.result.as_ref().filter(|value| !value.is_null()).map(ValueView::new),
                attempts: row.attempts.max(row.item.step_attempts),
                took: place
                    .began
                    .zip(place.ended)
                    .map_or(String::new(), |(began, ended)| millis_text(ended - began)),
                is_chosen: choice.item.as_ref() == Some(&item),
                link: choice.with(|other| {
                    (other.pane, other.item) = (Some(Pane::Items), Some(item));
                    other.step = Some(at.clone());
                }),
            }
        });
        let rows = rows.collect();
        let all_link = choice.with(|other| {
            (other.standing, other.after, other.step) = (Vec::new(), None, Some(at.clone()));
        });
        let mut filters =
            vec![("All, failed first".to_owned(), page.counts.total(), all_link, choice.standing.is_empty())];
        for standing in Standing::ALL {
            let count = page.counts.get(standing);
            if count == 0 {
                continue;
            }
            let link = choice.with(|other| {
                (other.standing, other.after, other.step) = (vec![standing], None, Some(at.clone()));
            });
            let is_chosen = choice.standing == [standing];
            filters.push((super::head::capital(standing.words()), count, link, is_chosen));
        }
        let detail =
            choice.item.as_ref().filter(|item| item.len() == own.len() + 1).and_then(|item| item.last());
        let detail =
            detail.map(|index| ItemDetail::new(history, state, &at.item(*index), choice)).transpose()?;
        let plan = &history.plan;
        let steps = (0..).zip(&plan.steps).filter(|(number, _)| lists_around(plan, *number) > 0);
        let steps = steps
            .map(|(number, step)| (visible(&step.label), state.executions_of(number).text()))
            .filter(|(_, text)| !text.is_empty());
        let named = |list: &Address| visible(&labels::name(plan, list));
        Ok(Some(Self {
            name: named(&at),
            lists: lists
                .iter()
                .map(|list| (named(list), choice.step(Pane::Items, list), *list == at))
                .collect(),
            counts: page.counts.text(),
            strip: strip(state, &at),
            total: page.counts.total(),
            filters,
            groups,
            rows,
            next: page.next.map(|next| choice.with(|other| other.after = Some(next))),
            first: choice.after.map(|_| choice.with(|other| other.after = None)),
            detail,
            steps: steps.collect(),
        }))
    }
}

/// An error on one line: its first, and the last where a program printed it.
fn one_line_error(error: &str) -> String {
    let first = labels::first_line(error);
    let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = if first.ends_with(':') { format!("{first} {}", last.trim()) } else { first.to_owned() };
    visible(&words::shorten(&line, 240))
}

/// How each item stands, in the order of the list, as a drawing.
fn strip(state: &RunState<'_>, at: &Address) -> String {
    let buckets = state.strip(at, STRIP);
    let mut out = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {} 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        buckets.len()
    );
    for (at, standing) in buckets.iter().enumerate() {
        let (y, height) = if *standing == Standing::Failed { (0, 20) } else { (5, 10) };
        // Writing into a text cannot fail.
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{at}\" y=\"{y}\" width=\"1.02\" height=\"{height}\"/>",
            standing.name()
        );
    }
    out.push_str("</svg>");
    out
}

impl ItemDetail {
    fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        item: &Address,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let plan = &history.plan;
        let indexes: Vec<u64> = item.items().collect();
        let target = ExplainTarget::with_item(plan, indexes.clone());
        let told = explain_steps(history, &target)?;
        let mut ats: Vec<Address> = Vec::new();
        for told in told.iter().filter(|told| told.seen.seq <= state.until) {
            let at = &told.seen.at;
            if at.is_inside(item) && !ats.contains(at) {
                ats.push(at.clone());
            }
        }
        for (event, _) in skipped_steps(history, &target)? {
            if event.at.is_inside(item) && event.seq <= state.until && !ats.contains(&event.at) {
                ats.push(event.at);
            }
        }
        ats.sort();
        let mut steps = Vec::new();
        for at in &ats {
            let detail = StepDetail::new(history, state, at, choice)?;
            steps.push((detail.name.clone(), state.at(at).standing, detail));
        }
        Ok(Self {
            index: item_text(&indexes),
            source: choice.with(|other| {
                (other.pane, other.item) = (Some(Pane::Source), Some(indexes.clone()));
            }),
            steps,
            close: choice.with(|other| other.item = None),
        })
    }
}

/// What was printed.
pub(crate) struct LogView {
    pub(crate) attempts: Vec<(String, String, bool)>,
    pub(crate) name: String,
    pub(crate) streams: Vec<(&'static str, String, bool)>,
    pub(crate) lines: Vec<(usize, String)>,
    pub(crate) found: usize,
    pub(crate) from: usize,
    pub(crate) earlier: Option<String>,
    pub(crate) later: Option<String>,
    pub(crate) search: String,
    /// Where all of it is kept as a file.
    pub(crate) event: Seq,
    pub(crate) stream: &'static str,
    pub(crate) fields: Vec<(String, String)>,
    /// Executions that print while they run and have not ended.
    pub(crate) open: Vec<String>,
}

impl LogView {
    pub(crate) fn new(
        history: &History<'_>,
        state: &RunState<'_>,
        choice: &ViewChoice,
    ) -> Result<Self, InspectError> {
        let targets: Vec<ExplainTarget> = match &choice.step {
            Some(at) => vec![ExplainTarget::executions(&history.plan, vec![at.clone()])],
            None => vec![ExplainTarget::with_item(&history.plan, choice.item.clone().unwrap_or_default())],
        };
        let mut printed = LogReader::new(history, &targets, StreamChoice::Both).read_asked()?;
        printed.retain(|printed| printed.seq <= state.until);
        let open =
            state.executions().into_iter().filter(|execution| execution.state.standing == Standing::Running);
        let open =
            open.filter_map(|execution| execution.at).map(|at| visible(&labels::name(&history.plan, &at)));
        let name = |printed: &threadline_inspect::logs::PrintedAttempt| {
            let name = visible(&labels::name(&history.plan, &printed.at));
            if printed.attempt > 1 { format!("{name}, attempt {}", printed.attempt) } else { name }
        };
        let chosen = match (&choice.step, choice.attempt) {
            (Some(_), Some(attempt)) => {
                printed.iter().rposition(|printed| u64::from(printed.attempt) == attempt)
            }
            _ => None,
        };
        let chosen = chosen.or(printed.len().checked_sub(1));
        let mut attempts: Vec<(String, String, bool)> = Vec::new();
        for (at, known) in printed.iter().enumerate() {
            let link = choice.with(|other| {
                (other.step, other.attempt) = (Some(known.at.clone()), Some(u64::from(known.attempt)));
                (other.after, other.stream, other.search) = (None, None, None);
            });
            attempts.push((name(known), link, Some(at) == chosen));
        }
        let Some(shown) = chosen.and_then(|at| printed.get(at)) else {
            return Ok(Self {
                attempts,
                name: String::new(),
                streams: Vec::new(),
                lines: Vec::new(),
                found: 0,
                from: 0,
                earlier: None,
                later: None,
                search: String::new(),
                event: 0,
                stream: "stdout",
                fields: Vec::new(),
                open: open.collect(),
            });
        };
        let all = [("stderr", &shown.stderr), ("stdout", &shown.stdout)];
        let has: Vec<&'static str> =
            all.iter().filter(|(_, stream)| stream.is_some()).map(|(name, _)| *name).collect();
        let stream =
            choice.stream.filter(|name| has.contains(name)).or(has.first().copied()).unwrap_or("stdout");
        let text = |stream: &Option<PrintedStream>| {
            stream.as_ref().map_or(Ok(String::new()), |stream| stream.text(history))
        };
        let text = text(if stream == "stderr" { &shown.stderr } else { &shown.stdout })?;
        let is_wanted =
            |line: &str| choice.search.as_ref().is_none_or(|search| line.contains(search.as_str()));
        let found = text.lines().filter(|line| is_wanted(line)).count();
        let last = found.saturating_sub(LINES);
        let from = choice.after.map_or(last, |after| usize::try_from(after).unwrap_or(usize::MAX).min(last));
        let lines = text.lines().enumerate().filter(|(_, line)| is_wanted(line)).skip(from).take(LINES);
        let lines = lines.map(|(number, line)| {
            // What a line was before a program wrote it again.
            let line = line.trim_end_matches('\r');
            let line = line.rsplit('\r').next().unwrap_or(line);
            (number + 1, visible(&words::shorten(&plain(line), LONGEST_LINE)))
        });
        let to = |from: usize| choice.with(|other| other.after = Some(from as u64));
        let streams = has.iter().map(|name| {
            let link = choice.with(|other| (other.stream, other.after) = (Some(*name), None));
            (*name, link, *name == stream)
        });
        Ok(Self {
            name: name(shown),
            streams: streams.collect(),
            lines: lines.collect(),
            found,
            from,
            earlier: (from > 0).then(|| to(from.saturating_sub(LINES))),
            later: (from < last).then(|| to((from + LINES).min(last))),
            search: choice.search.clone().unwrap_or_default(),
            event: shown.seq,
            stream,
            fields: choice.fields(&["search", "after"]),
            attempts,
            open: open.collect(),
        })
    }
}

/// A line without the escapes that colour it.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' && chars.peek() == Some(&'[') {
            chars.next();
            // An escape ends with a letter.
            while chars.peek().is_some_and(|char| !char.is_ascii_alphabetic()) {
                chars.next();
            }
            if chars.peek() == Some(&'m') {
                chars.next();
            }
            continue;
        }
        out.push(char);
    }
    out
}

/// A conversation with an agent.
pub(crate) struct TalkView {
    pub(crate) name: String,
    pub(crate) agent: String,
    pub(crate) title: String,
    pub(crate) turns: Vec<TalkTurn>,
    pub(crate) total: String,
}

/// What was said once.
pub(crate) struct TalkTurn {
    pub(crate) who: &'static str,
    pub(crate) class: &'static str,
    pub(crate) text: String,
    pub(crate) note: String,
}

/// The conversations of steps with agents.
pub(crate) fn talks(
    history: &History<'_>,
    state: &RunState<'_>,
    choice: &ViewChoice,
) -> Result<Vec<TalkView>, InspectError> {
    let target = match &choice.step {
        Some(at) => ExplainTarget::executions(&history.plan, vec![at.clone()]),
        None if history.plan.states.is_some() => ExplainTarget::whole(&history.plan),
        None => ExplainTarget::with_item(&history.plan, choice.item.clone().unwrap_or_default()),
    };
    let mut found = Vec::new();
    for told in explain_steps(history, &target)?.iter().filter(|told| told.seen.seq <= state.until) {
        if let Some(talk) = conversation(history, told)? {
            found.push(TalkView::new(&talk));
        }
    }
    Ok(found)
}

impl TalkView {
    fn new(talk: &Value) -> Self {
        let text = |of: &Value, name: &str| -> String {
            match of.get(name) {
                None => String::new(),
                Some(value) if value.is_null() => String::new(),
                Some(value) => {
                    value.as_str().map_or_else(|| value.to_json(JsonStyle::Compact), str::to_owned)
                }
            }
        };
        let shown = |text: &str| visible_lines(&words::shorten(text, 20_000));
        let mut turns = Vec::new();
        for message in talk
            .get("thread")
            .and_then(|thread| thread.get("before"))
            .and_then(Value::as_list)
            .into_iter()
            .flatten()
        {
            let who = if text(message, "role") == "assistant" { "agent" } else { "told before" };
            let said = message.get("content").or_else(|| message.get("text"));
            let said = said.map_or(String::new(), |said| {
                said.as_str().map_or_else(|| said.to_json(JsonStyle::Compact), str::to_owned)
            });
            turns.push(TalkTurn { who, class: "before", text: shown(&said), note: String::new() });
        }
        turns.push(TalkTurn {
            who: "told",
            class: "told",
            text: shown(&text(talk, "message")),
            note: String::new(),
        });
        for turn in talk.get("exchanges").and_then(Value::as_list).unwrap_or_default() {
            let note = spent(turn);
            let mut add = |who, class, text: String| {
                if !text.is_empty() {
                    turns.push(TalkTurn { who, class, text: shown(&text), note: String::new() });
                }
            };
            add("agent", "said", text(turn, "said"));
            for call in turn.get("calls").and_then(Value::as_list).unwrap_or_default() {
                add("calls", "call", format!("{} {}", text(call, "tool"), text(call, "arguments")));
            }
            for call in turn.get("called").and_then(Value::as_list).unwrap_or_default() {
                add("called", "call", call.to_json(JsonStyle::Compact));
            }
            if turn.get("tool").is_some() {
                let result = text(turn, "result");
                let error = text(turn, "error");
                add("result", "result", if error.is_empty() { result } else { error });
            } else {
                add("error", "failed", text(turn, "error"));
            }
            add("does not fit", "failed", text(turn, "misfit"));
            add("verdict", "said", text(turn, "verdict"));
            if let Some(last) = turns.last_mut() {
                last.note = note;
            }
        }
        let attempt = text(talk, "attempt");
        let agent = format!("{} ({})", text(talk, "agent"), text(talk, "provider"));
        let title =
            if attempt.is_empty() || attempt == "1" { String::new() } else { format!("attempt {attempt}") };
        Self {
            name: visible(text(talk, "step").trim()),
            agent: visible(&agent),
            title,
            turns,
            total: talk.get("total").map_or(String::new(), spent),
        }
    }
}

/// What an answer used.
fn spent(of: &Value) -> String {
    let number = |name: &str| {
        of.get(name).filter(|value| !value.is_null()).map(|value| value.to_json(JsonStyle::Compact))
    };
    let mut parts = Vec::new();
    parts.extend(of.get(names::MODEL_USED).and_then(Value::as_str).map(visible));
    parts.extend(number(names::INPUT_TOKENS).map(|count| format!("{count} tokens read")));
    parts.extend(number(names::OUTPUT_TOKENS).map(|count| format!("{count} written")));
    parts.extend(number(names::TOTAL_COST_USD).map(|cost| format!("{cost} USD")));
    parts.extend(of.get(names::EXECUTION_TIME_MS).and_then(Value::as_i64).map(millis_text));
    parts.extend(of.get(names::CACHED).map(|_| "kept answer".to_owned()));
    parts.extend(of.get(names::REPLAYED).map(|_| "replayed".to_owned()));
    parts.join(" · ")
}

/// Whether any step asks an agent, or judges with one.
pub(crate) fn has_agents(history: &History<'_>) -> bool {
    let of = |action: &Action| matches!(action, Action::Agent { .. });
    history.plan.steps.iter().any(|step| {
        let judges = step.step.evaluator().is_some_and(|by| by.name() == "agent");
        of(&step.step.action) || judges
    })
}
