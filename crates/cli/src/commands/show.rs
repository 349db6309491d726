//! `threadline show`: prints the lines of a run again and the outputs of its steps, or the long form of a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anstyle::Style;
use threadline_engine::event::{Address, Output, Status};
use threadline_engine::replay::output_of;
use threadline_flow::fields::field_names as names;
use threadline_flow::load;
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::data::yaml;
use threadline_lang::diag::excerpt;
use threadline_lang::value::JsonStyle;

use super::conversation::in_full;
use super::explain::failures::FailureSummary;
use super::graph::loop_text;
use super::history::{History, of_journal, of_store};
use super::kept::stored;
use super::{print, print_styled};
use crate::arguments::ShowArguments;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::problem_reports;
use crate::progress::Progress;
use crate::report::{self, Report, first_line};
use crate::reporter::{ReportOptions, Reporter, shown_of};
use crate::stream::EventLines;
use crate::table::Table;
use threadline_inspect::conversation::conversation;
use threadline_inspect::explanation::explain_steps;
use threadline_inspect::graph::states::TakenRoutes;
use threadline_inspect::target::ExplainTarget;

const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

pub(crate) fn show(call: &ShowArguments) -> Result<(), CommandFailure> {
    if call.expanded {
        return expanded(Path::new(&call.which.run), call.json);
    }
    let reader = stored(&call.which)?;
    let history = History::open(&reader, reader.name(&call.which))?;
    if call.source {
        return super::show_state::show_source(&history, call.json);
    }
    if call.at.is_some() || call.items.is_some() {
        return super::show_state::show_state(&history, call);
    }
    if let Some(step) = &call.step {
        return conversations(&history, step, call.json);
    }
    if call.failed {
        return super::show_failed::show(&history, call.json);
    }
    if call.json {
        let lines = EventLines::new(&reader, call.stored);
        history.try_each(|_, event| {
            let line = lines.line(None, &history.plan, event).map_err(|error| of_journal(&error))?;
            print(&format!("{line}\n"))
        })?;
        return Ok(());
    }
    let mut reporter = Reporter::new(
        Arc::clone(&history.plan),
        history.info.id.as_str(),
        ReportOptions::default(),
        Progress::default(),
    )
    .reading(&reader);
    let mut left: BTreeMap<u32, StepOutputs> = BTreeMap::new();
    let mut path = TakenRoutes::default();
    history.each(|fold, event| {
        reporter.event(event);
        if history.plan.states.is_some() {
            path.take(&history.plan, event);
        }
        if let (Some(output), Some(step)) = (output_of(event), fold.machine.step_of(&event.at)) {
            left.entry(step).or_default().add(&event.at, output);
        }
        Ok(())
    })?;
    let is_driven = reader.is_driven(&history.info.id).map_err(|error| of_store(&error))?;
    let running = if is_driven { reporter.running_lines() } else { Vec::new() };
    let running = running.iter().fold(String::new(), |text, line| text + line + "\n");
    let (failed, log) = (reporter.failed_steps(), reporter.take_failures());
    let (plan, run) = (&history.plan, history.info.id.as_str());
    let failures = FailureSummary { plan, run, failed: &failed, log: &log }.text(Some(&history))?;
    let ways = loop_text(plan, &path);
    let ways = ways.map_or(String::new(), |ways| format!("{ways}\n"));
    print_styled(&format!("{running}{failures}\n{ways}{}", envelopes(&history, &left)))
}

/// Prints what was said between a step and agents.
fn conversations(history: &History<'_>, step: &str, json: bool) -> Result<(), CommandFailure> {
    let target = ExplainTarget::named(history, step)?;
    let mut found = Vec::new();
    for told in explain_steps(history, &target)? {
        found.extend(conversation(history, &told)?);
    }
    let run = history.info.id.as_str();
    if json {
        let found = Value::record([("run", run.into()), ("conversations", Value::sequence(found))]);
        return print(&format!("{}\n", found.to_json(JsonStyle::Compact)));
    }
    if found.is_empty() {
        let message = format!("no agent was asked by `{step}` in run `{run}`");
        let hint = format!("`threadline explain {run} {step}` tells what it did");
        return Err(CommandFailure::Failed(vec![Report::with_hint(message, &hint)]));
    }
    let texts: Vec<String> = found.iter().map(in_full).collect();
    print_styled(&texts.join("\n"))
}

/// Prints the long form of a file.
fn expanded(path: &Path, json: bool) -> Result<(), CommandFailure> {
    let file = inputs::read_workflow(path)?;
    let (tree, problems) = load::expanded(&file);
    let sound = !problems.iter().any(Problem::is_error);
    let reports = problem_reports(&file, &problems);
    let Some(tree) = tree.filter(|_| sound) else { return Err(CommandFailure::Failed(reports)) };
    report::print_all(&reports);
    let mut out = String::new();
    if json {
        out = tree.value.to_json(JsonStyle::Compact);
        out.push('\n');
    } else {
        yaml::write(&tree.value, &mut out);
    }
    print(&out)
}

/// The outputs of the executions of one step.
#[derive(Default)]
struct StepOutputs {
    last: BTreeMap<Address, Status>,
    /// What the last execution left.
    left: Option<Output>,
    kind: String,
    /// The run that the last execution called.
    called: Option<String>,
}

impl StepOutputs {
    fn add(&mut self, at: &Address, output: &Output) {
        self.last.insert(at.clone(), output.status);
        let meta = |name: &str| output.meta.get(name).map(ToString::to_string);
        self.kind = meta(names::NODE_TYPE).unwrap_or_default();
        self.called = meta(names::RUN_ID);
        self.left = Some(output.clone());
    }

    /// What the last execution left, or why it left nothing.
    fn shown(&self, history: &History<'_>) -> String {
        let Some(left) = &self.left else { return String::new() };
        if let Some(why) = left.meta.get(names::ERROR).or_else(|| left.meta.get(names::REASON)) {
            return first_line(&why.to_string()).to_owned();
        }
        match shown_of(left, |stored| history.load(stored).ok()) {
            // Two quotes in a column say less than a word.
            Ok(text) if text.as_str() == Some("") => "(empty)".to_owned(),
            Ok(value) => excerpt(&value),
            Err(bytes) => format!("{bytes} bytes"),
        }
    }

    fn status(&self) -> String {
        if let [status] = self.last.values().collect::<Vec<_>>()[..] {
            return status.name().to_owned();
        }
        let counts = Status::ALL.into_iter().filter_map(|status| {
            let count = self.last.values().filter(|known| **known == status).count();
            (count > 0).then(|| format!("{count} {}", status.name()))
        });
        counts.collect::<Vec<_>>().join(", ")
    }
}

fn envelopes(history: &History<'_>, left: &BTreeMap<u32, StepOutputs>) -> String {
    let mut table = Table::default();
    let head = ["step", "type", "status", "value"].map(|word| (DIM, word.to_owned()));
    table.row(head);
    for (number, step) in (0..).zip(&history.plan.steps) {
        let Some(left) = left.get(&number) else { continue };
        let several = left.last.len() > 1;
        let kind = match &left.called {
            Some(run) if !several => format!("{} {run}", left.kind),
            _ => left.kind.clone(),
        };
        table.row([
            (PLAIN, step.label.to_string()),
            (DIM, kind),
            (PLAIN, left.status()),
            (PLAIN, if several && step.step.state.is_none() { String::new() } else { left.shown(history) }),
        ]);
    }
    table.text("")
}
