//! Explanations as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::{Datum, ERROR, JudgedEvent, KeptMaker, Status};
use threadline_engine::replay::{ChosenCount, Evaluated, Maker};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{SECRET_MASK, SECRETS_ROOT};
use threadline_lang::Value;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::value::JsonStyle;

use super::super::conversation::in_short;
use super::super::history::{History, clock_text};
use crate::exit::CommandFailure;
use crate::failure_output::{printed_lines, reply_lines};
use crate::report::{Report, explanation_text, first_line, further_lines, visible};
use crate::reporter::describe_missing_route;
use crate::table::Table;
use threadline_inspect::chain::{overlap, part_read};
use threadline_inspect::conversation::conversation;
use threadline_inspect::explanation::{
    ExplainedJudgement, ExplainedReference, ExplainedValue, FieldExplanation, PartReader, Readers,
    StepExplanation,
};
use threadline_inspect::explanation_json::label;
use threadline_inspect::labels::title;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The maximum number of other readers of a value that are named.
const MAX_READERS: usize = 4;

/// Formats evaluations as text.
pub(crate) struct ExplanationPrinter<'h, 'r> {
    pub(crate) history: &'h History<'r>,
    pub(crate) readers: &'h Readers,
    /// Whether values are shown in full.
    pub(crate) full: bool,
    /// Whether there is room for every location and for the times of values.
    pub(crate) wide: bool,
    /// Texts that are not shown.
    pub(crate) secrets: Vec<String>,
}

impl ExplanationPrinter<'_, '_> {
    /// Every evaluation, below the name of its execution.
    pub(crate) fn text(&self, told: &[StepExplanation]) -> Result<String, CommandFailure> {
        let mut out = String::new();
        let mut before = None;
        for (at, one) in told.iter().enumerate() {
            if before != Some(&one.seen.at) {
                if before.is_some() {
                    out.push('\n');
                }
                out.push_str(&self.title(one));
                before = Some(&one.seen.at);
            }
            let same = told[..at].iter().rfind(|known| known.is_same_attempt(one));
            self.evaluation(one, same, &mut out)?;
        }
        Ok(out)
    }

    fn title(&self, told: &StepExplanation) -> String {
        let step = &self.history.plan.steps[told.seen.step as usize];
        let source = self.history.source();
        let (file, line, column) = source.place(step.step.origin.span.range().start.min(source.text.len()));
        let name = visible(&label(self.history, &told.seen.at));
        format!("{BOLD}{name}{BOLD:#}  {DIM}{file}:{line}:{column}, step {}{DIM:#}\n", told.seen.at)
    }

    /// One evaluation, or the earlier one that had the same result.
    fn evaluation(
        &self,
        told: &StepExplanation,
        same: Option<&StepExplanation>,
        out: &mut String,
    ) -> Result<(), CommandFailure> {
        out.push_str(&headline(told));
        if let Some(maker) = &told.seen.kept {
            let made = self.maker(told, maker)?;
            // Writing into a text cannot fail.
            let _ = writeln!(out, "    {made}");
        }
        if let Some(same) = same {
            // Writing into a text cannot fail.
            let _ = writeln!(out, "    everything as in attempt {}", same.seen.attempt);
            return Ok(());
        }
        if told.reproducible == Some(false) {
            out.push_str("    not reproducible with this version: the run resolved something else\n");
        }
        for field in &told.fields {
            self.field(told, field, out)?;
        }
        if let Some(ended) = told.ended.as_ref().filter(|ended| ended.output.status == Status::Failed) {
            let lines = printed_lines(self.history.reader, &ended.output, self.max_lines());
            if !lines.is_empty() {
                let _ = writeln!(out, "    {BOLD}printed{BOLD:#}");
            }
            for line in lines {
                let _ = writeln!(out, "      {line}");
            }
        }
        if let Some(conversation) = conversation(self.history, told)? {
            out.push_str(&in_short(&conversation));
        }
        if let Some(judged) = &told.judged {
            out.push_str(&self.led(told, judged));
        }
        if let Some(run) = told.called() {
            let _ =
                writeln!(out, "    {BOLD}run{BOLD:#} {run}: `threadline explain {run}` tells what it did");
        }
        let source = self.history.source();
        for problem in &told.problems {
            for line in Report::problem(source, problem).text().lines() {
                // Writing into a text cannot fail.
                let _ = writeln!(out, "    {line}");
            }
        }
        Ok(())
    }

    /// Where a kept result was made, and with which text.
    fn maker(&self, told: &StepExplanation, maker: &KeptMaker) -> Result<String, CommandFailure> {
        let KeptMaker { run, event } = maker;
        let Some(made) = self.history.event_of(run, *event)? else {
            return Ok(format!("from run {run}, event {event}; that run was removed"));
        };
        let text = if self.history.has_text_of(run)? { "the same text" } else { "an earlier text" };
        // An item may have stood elsewhere in its list, and a step in its file.
        let step = if made.at == told.seen.at {
            visible(label(self.history, &made.at).trim())
        } else {
            made.at.to_string()
        };
        let step = if step.contains(['[', '#', ' ']) { format!("'{step}'") } else { step };
        Ok(format!("from run {run}, event {event}, made with {text}: `threadline explain {run} {step}`"))
    }

    /// The route of a verdict, and the rule that chose it.
    fn led(&self, told: &StepExplanation, judged: &ExplainedJudgement) -> String {
        let recorded = &judged.recorded;
        let mut out = further_lines(&recorded.reason, "      ");
        if let Some(reply) = &recorded.reply {
            let _ = writeln!(out, "    {BOLD}answer{BOLD:#}");
            for line in reply_lines(self.history.reader, reply, self.max_lines()) {
                let _ = writeln!(out, "      {line}");
            }
        }
        if let Datum::Here(details) = &recorded.details
            && details.as_object().is_some_and(|details| details.iter().next().is_some())
        {
            let _ = writeln!(out, "    {BOLD}details{BOLD:#} {}", self.value(details));
        }
        let by = judged.by.map_or(String::new(), |by| format!(" by {}", by.text(&recorded.verdict)));
        match &recorded.to {
            Some(to) => {
                let _ = writeln!(out, "    {BOLD}→ {to}{BOLD:#}{by}");
            }
            None if is_failure(self.history, told) => {
                let plan = &self.history.plan;
                let _ = writeln!(
                    out,
                    "    {}",
                    describe_missing_route(plan, told.seen.step, recorded, first_line(&recorded.reason))
                );
            }
            None => {
                let _ = writeln!(out, "    {BOLD}the end{BOLD:#} of the loop, or of the iteration");
            }
        }
        out
    }

    fn field(
        &self,
        told: &StepExplanation,
        field: &FieldExplanation,
        out: &mut String,
    ) -> Result<(), CommandFailure> {
        let name = &field.name;
        let _ = match &field.shown {
            ExplainedValue::Nothing => writeln!(out, "    {BOLD}{name}{BOLD:#}"),
            ExplainedValue::Text(text) if !text.trim_end().contains('\n') => {
                writeln!(out, "    {BOLD}{name}{BOLD:#} {}", self.value(&text.as_str().into()))
            }
            ExplainedValue::Text(text) => writeln!(out, "    {BOLD}{name}{BOLD:#}\n{}", self.block(text)),
            ExplainedValue::Value(value) => writeln!(out, "    {BOLD}{name}{BOLD:#} {}", self.value(value)),
            ExplainedValue::Words(words) => {
                let words = words.iter().map(|word| word.value.as_str().into());
                let words = Value::sequence(words);
                writeln!(out, "    {BOLD}{name}{BOLD:#} {}", self.value(&words))
            }
            ExplainedValue::Shell(bound) => {
                let mut variables = Table::default();
                for variable in &bound.variables {
                    let value = self.value(&variable.value.as_str().into());
                    variables.row([(PLAIN, variable.name.clone()), (PLAIN, format!("= {value}"))]);
                }
                writeln!(
                    out,
                    "    {BOLD}{name}{BOLD:#}\n{}\n{}",
                    self.block(&bound.text),
                    variables.text("      ").trim_end_matches('\n')
                )
            }
            // The end of the attempt says why nothing was compared, or what was unmet.
            ExplainedValue::Expectation { told, .. } if told.is_empty() && field.references.is_empty() => {
                Ok(())
            }
            ExplainedValue::Expectation { told, .. } if told.is_empty() => {
                writeln!(out, "    {BOLD}{name}{BOLD:#}")
            }
            ExplainedValue::Expectation { told, .. } => {
                let lines: Vec<String> =
                    told.iter().map(|outcome| self.block(&outcome.tree.to_string())).collect();
                writeln!(out, "    {BOLD}{name}{BOLD:#}\n{}", lines.join("\n"))
            }
            ExplainedValue::Condition(explanation) => {
                let tree = explanation_text(explanation);
                let lines: Vec<String> = tree.lines().map(|line| format!("      {line}")).collect();
                writeln!(out, "    {BOLD}{name}{BOLD:#}\n{}", lines.join("\n"))
            }
        };
        while out.ends_with("\n\n") {
            out.pop();
        }
        out.push_str(&self.references(told, &field.references, "      ")?);
        Ok(())
    }

    /// References as a table, each once.
    pub(crate) fn references<'t>(
        &self,
        told: &StepExplanation,
        references: impl IntoIterator<Item = &'t ExplainedReference>,
        indent: &str,
    ) -> Result<String, CommandFailure> {
        let mut table = Table::default();
        let mut seen = Vec::new();
        for reference in references {
            let resolution = &reference.resolution;
            // Without room for locations, a value that is read in several places is shown once.
            let place = Some(reference.place).filter(|_| self.wide);
            let key = (place, resolution.reference.clone(), resolution.within.clone());
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let (line, column) = reference.place;
            let is_secret = resolution.root == SECRETS_ROOT;
            let value = match &resolution.value {
                Some(_) if is_secret => format!("= {SECRET_MASK}"),
                Some(value) if self.is_secret(value) => "= ***".to_owned(),
                Some(value) => format!("= {}", self.value(value)),
                None => "has no value".to_owned(),
            };
            let kind = resolution.kind().map_or("", threadline_lang::Type::name);
            let kind = if is_secret { "secret, masked" } else { kind };
            let path = if resolution.path == resolution.reference.as_str() {
                resolution.reference.to_string()
            } else {
                format!("{} → {}", resolution.reference, resolution.path)
            };
            table.row([
                (DIM, format!("{line}:{column}")),
                (PLAIN, path),
                (PLAIN, value),
                (DIM, kind.to_owned()),
                (DIM, self.made(told, reference)? + &self.others(told, reference)),
            ]);
        }
        Ok(table.text(indent))
    }

    fn is_secret(&self, value: &Value) -> bool {
        !self.secrets.is_empty() && {
            let text = value.to_string();
            self.secrets.iter().any(|secret| text.contains(secret))
        }
    }

    fn value(&self, value: &Value) -> String {
        if self.full { value.to_json(JsonStyle::Compact) } else { excerpt(value) }
    }

    /// The maximum number of lines of a text.
    fn max_lines(&self) -> usize {
        const LINES: usize = 20;
        if self.full { usize::MAX } else { LINES }
    }

    /// A text of several lines.
    fn block(&self, text: &str) -> String {
        let count = text.lines().count();
        let shown = self.max_lines();
        let mut lines: Vec<String> =
            text.lines().take(shown).map(|line| format!("      {DIM}│{DIM:#} {}", visible(line))).collect();
        if count > shown {
            let more = count - shown;
            lines.push(format!("      {DIM}│ {more} more {}{DIM:#}", words::plural(&more, "line")));
        }
        lines.join("\n")
    }

    /// What made a value, in words.
    fn made(&self, told: &StepExplanation, reference: &ExplainedReference) -> Result<String, CommandFailure> {
        let history = self.history;
        let scope = &reference.resolution.scope;
        Ok(match &reference.maker {
            Maker::Event(seq) => {
                let event = history.event(*seq)?;
                let status = threadline_engine::replay::output_of(&event).map(|output| output.status);
                let status = match status {
                    Some(status) if status != Status::Completed => format!(" {}", status.name()),
                    _ => String::new(),
                };
                let when = if self.wide { format!(", {}", clock_text(event.time)) } else { String::new() };
                format!("from {}{status}, event {seq}{when}", title(&history.plan, &event.at))
            }
            Maker::Item { list, index } => {
                let event = history.event(*list)?;
                format!("item {index} of {}, event {list}", title(&history.plan, &event.at))
            }
            Maker::Input(_) => "input".to_owned(),
            Maker::Import(name) => match name.as_ref().and_then(|name| history.imported_run(name)) {
                Some(run) => format!("exported by run {run}"),
                None => "an earlier run".to_owned(),
            },
            Maker::Context(name) => {
                let event = name.as_ref().and_then(|name| told.seen.defined.get(name));
                let set = name.as_ref().is_some_and(|name| {
                    let path = format!("context.{name}");
                    history.started.set.iter().any(|(set, _)| set.starts_with(&path))
                });
                match event {
                    Some(seq) => format!("context, event {seq}"),
                    None if set => "context, set by the caller".to_owned(),
                    None => "context".to_owned(),
                }
            }
            Maker::Payload => "the payload".to_owned(),
            Maker::Run => "the run".to_owned(),
            Maker::World => format!("computed by {}, recorded in event {}", scope, told.seen.seq),
            Maker::Nobody => String::new(),
        })
    }

    /// The other readers of a value, in words.
    fn others(&self, told: &StepExplanation, reference: &ExplainedReference) -> String {
        let readers = self.readers.get(&reference.maker).into_iter().flatten();
        let part = part_read(&reference.resolution, &reference.maker);
        let others = readers.filter(|reader| reader.at != told.seen.at && overlap(&reader.part, &part));
        readers_named(self.history, others).map_or(String::new(), |names| format!("; also read by {names}"))
    }
}

/// Readers of a value, in words; `None` if there are none.
pub(crate) fn readers_named<'r>(
    history: &History<'_>,
    readers: impl Iterator<Item = &'r PartReader>,
) -> Option<String> {
    let mut known = BTreeSet::new();
    let mut names: Vec<String> = readers.map(|reader| reader_title(history, reader)).collect();
    names.retain(|name| known.insert(name.clone()));
    let more = names.len().saturating_sub(MAX_READERS);
    names.truncate(MAX_READERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

/// A reader of a value in a sentence: a step, an entry of `context`, or an export.
fn reader_title(history: &History<'_>, reader: &PartReader) -> String {
    if reader.at.is_root() { format!("`{}`", reader.field) } else { title(&history.plan, &reader.at) }
}

/// Whether a state failed, because its verdict has no route.
pub(crate) fn is_failure(history: &History<'_>, told: &StepExplanation) -> bool {
    let state = history.plan.steps[told.seen.step as usize].step.state.as_ref();
    let ends = state.is_some_and(|state| state.terminal.is_some());
    let of = told.judged.as_ref().map(|judged| &judged.recorded);
    of.is_some_and(|judged| judged.to.is_none() && (!ends || judged.verdict == ERROR))
}

/// How many elements of a source became items: `3 of 6 elements`.
fn describe_chosen(chosen: ChosenCount) -> String {
    match chosen.read {
        Some(read) if read != chosen.count => {
            format!("{} of {}", chosen.count, words::count(read, "element"))
        }
        _ => words::count(chosen.count, "element"),
    }
}

/// What was evaluated, when, and its result.
fn headline(told: &StepExplanation) -> String {
    let seen = &told.seen;
    let what = match seen.evaluated {
        Evaluated::Condition => "condition".to_owned(),
        Evaluated::List => "list".to_owned(),
        Evaluated::Fields => {
            let of_item = seen.item_attempt.filter(|attempt| *attempt > 1);
            let of_item =
                of_item.map_or(String::new(), |attempt| format!(" of attempt {attempt} of the item"));
            let again = if seen.rerun { ", again after a crash" } else { "" };
            let meta = told.ended.as_ref().map(|ended| &ended.output.meta);
            let worker = meta.and_then(|meta| meta.get(names::WORKER)?.as_str());
            let worker = worker.map_or(String::new(), |worker| format!(" on worker `{worker}`"));
            match seen.kept {
                Some(_) => format!("kept{of_item}"),
                None => format!("attempt {}{of_item}{again}{worker}", seen.attempt),
            }
        }
        Evaluated::Judgement => "judged".to_owned(),
        Evaluated::Variables => "variables".to_owned(),
        Evaluated::Aggregates => "aggregates".to_owned(),
        Evaluated::Exports => "exports".to_owned(),
    };
    let (style, came) = match (&told.ended, seen.evaluated) {
        (Some(ended), _) if ended.output.status == Status::Failed => {
            let error = ended.output.meta.get(names::ERROR).map(ToString::to_string);
            let error = error.map_or(String::new(), |error| format!(": {}", first_line(&error)));
            let why = ended.output.meta.get(names::NOT_RETRIED);
            let again = match (ended.retried, why) {
                (true, _) => ", tried again".to_owned(),
                (false, Some(why)) => format!(", not tried again: {why}"),
                (false, None) => String::new(),
            };
            (BAD, format!("failed{error}{again}"))
        }
        (Some(ended), Evaluated::Condition) if ended.output.status == Status::Skipped => {
            (DIM, "false, skipped".to_owned())
        }
        (_, Evaluated::Condition) => (GOOD, "true".to_owned()),
        (_, Evaluated::List) => (PLAIN, seen.chosen.map_or(String::new(), describe_chosen)),
        (_, Evaluated::Variables | Evaluated::Aggregates | Evaluated::Exports) => (PLAIN, String::new()),
        (Some(ended), Evaluated::Fields) => (GOOD, ended.output.status.name().to_owned()),
        (None, Evaluated::Fields) => (DIM, "not ended".to_owned()),
        (_, Evaluated::Judgement) => match &told.judged {
            Some(judged) => {
                let JudgedEvent { verdict, reason, .. } = &judged.recorded;
                let style = if verdict == ERROR { BAD } else { PLAIN };
                (style, format!("{verdict}, {}", first_line(reason)))
            }
            None => (PLAIN, String::new()),
        },
    };
    let came = if came.is_empty() { came } else { format!(": {style}{}{style:#}", visible(&came)) };
    let error = told.ended.as_ref().and_then(|ended| ended.output.meta.get(names::ERROR));
    let more = error.map_or(String::new(), |error| further_lines(&error.to_string(), "      "));
    format!("  {what}{came}  {DIM}event {}, {}{DIM:#}\n{more}", seen.seq, clock_text(seen.time))
}
