//! What a step saw, evaluated again: every field with what it came to, and every reference with who made its value.
//!
//! Plain output, JSON and the end of a failed run are all made of this.

use std::collections::{BTreeMap, BTreeSet};

use threadline_engine::evaluate::{Act, Left, Resolved, Wanted, expected};
use threadline_engine::event::{Address, Event, EventKind, JudgedEvent, Millis, Output, Seq, Status};
use threadline_engine::judge::{Judgement, Rule};
use threadline_engine::replay::{Evaluated, Look, Maker, Rejudged, Seen};
use threadline_engine::select::Found;
use threadline_expect::{ExpectationOutcome, Settled};
use threadline_flow::model::{self, Action, Setting, Step};
use threadline_flow::plan::PlannedStep;
use threadline_flow::problem::Problem;
use threadline_flow::shell::{Argument, BoundScript};
use threadline_lang::{Explanation, Origin, Resolution, Value};

use super::super::history::{History, of_journal};
use super::target::Target;
use crate::exit::Failure;
use crate::report;

/// One evaluation of a step.
pub(crate) struct Told {
    pub(crate) seen: Seen,
    /// Every field that was evaluated and is asked for.
    pub(crate) fields: Vec<FieldTold>,
    /// Why fields have no value.
    pub(crate) problems: Vec<Problem>,
    /// Whether this program resolves the fields to what the run resolved them to.
    pub(crate) reproducible: Option<bool>,
    /// How it ended, when it did.
    pub(crate) ended: Option<Ended>,
    /// The verdict, and where it leads, of a state that was judged.
    pub(crate) judged: Option<Box<JudgedTold>>,
}

/// A verdict, and where it leads.
pub(crate) struct JudgedTold {
    /// As the journal has it.
    pub(crate) recorded: JudgedEvent,
    /// What led there.
    pub(crate) by: Option<Rule>,
}

/// How an evaluation, or the attempt that it began, ended.
pub(crate) struct Ended {
    pub(crate) seq: Seq,
    pub(crate) time: Millis,
    pub(crate) output: Output,
    /// Whether another attempt follows.
    pub(crate) retried: bool,
}

/// A field, what it came to, and what it read.
pub(crate) struct FieldTold {
    /// Its name: `shell`, `env.NAME`.
    pub(crate) name: String,
    /// Where it stands: line and column.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) shown: Shown,
    pub(crate) references: Vec<Referenced>,
}

/// What a field came to.
pub(crate) enum Shown {
    /// Nothing: it has no value.
    Nothing,
    /// A text.
    Text(String),
    /// A value.
    Value(Value),
    /// A text for a shell, with its values bound.
    Shell(BoundScript),
    /// A program and its arguments.
    Words(Vec<Argument>),
    /// A condition.
    Condition(Explanation),
    /// What was expected of what the step left.
    Expectation {
        /// The expectations, with what they compare with.
        settled: Settled,
        /// What they came to, where all of them were met; otherwise the error of the step has it.
        told: Vec<ExpectationOutcome>,
    },
}

/// A reference, what it gave, and who made that.
pub(crate) struct Referenced {
    pub(crate) resolution: Resolution,
    /// Where it stands: line and column.
    pub(crate) place: (usize, usize),
    pub(crate) maker: Maker,
}

/// Who read what somebody made: which execution, in which field.
pub(crate) type Readers = BTreeMap<Maker, Vec<(Address, String)>>;

/// Every evaluation that is asked for, in the order of the journal.
pub(crate) fn tell(history: &History<'_>, target: &Target) -> Result<Vec<Told>, Failure> {
    let mut told: Vec<Told> = Vec::new();
    let mut latest: BTreeMap<Address, usize> = BTreeMap::new();
    history.each(|fold, event| {
        if let Some(seen) = fold.seen(event).filter(|seen| target.means(&seen.at, seen.step)) {
            latest.insert(seen.at.clone(), told.len());
            told.push(of_seen(history, target, seen)?);
        }
        if let (Some(at), Some(ended)) = (latest.get(&event.at), ended(event)) {
            expectations(history, &mut told[*at].fields, &ended.output)?;
            told[*at].ended = Some(ended);
        }
        Ok(())
    })?;
    told.retain(|told| target.field.is_none() || !told.fields.is_empty());
    Ok(told)
}

/// The last evaluation of each execution, in the order of their first.
pub(crate) fn last_of_each(told: &[Told]) -> Vec<&Told> {
    let mut places: BTreeMap<&Address, usize> = BTreeMap::new();
    let mut last: Vec<&Told> = Vec::new();
    for one in told {
        if let Some(at) = places.get(&one.seen.at) {
            last[*at] = one;
        } else {
            places.insert(&one.seen.at, last.len());
            last.push(one);
        }
    }
    last
}

fn ended(event: &Event) -> Option<Ended> {
    let (output, retried) = match &event.kind {
        EventKind::Finished { output, .. }
        | EventKind::Unresolved { output, .. }
        | EventKind::Skipped { output, .. } => (output, false),
        EventKind::Retrying { output, .. } => (output, true),
        _ => return None,
    };
    Some(Ended { seq: event.seq, time: event.time, output: output.clone(), retried })
}

/// What a step expected, compared again with what it left.
fn expectations(history: &History<'_>, fields: &mut [FieldTold], output: &Output) -> Result<(), Failure> {
    if output.status != Status::Completed {
        return Ok(());
    }
    for field in fields {
        if let Shown::Expectation { settled, told } = &mut field.shown {
            let left = threadline_runner::values::load_envelope(history.reader, output)
                .map_err(|error| of_journal(&error))?;
            let printed =
                left.also.as_ref().and_then(|also| also.get("output")).filter(|text| !text.is_null());
            let left = Left { value: &left.value, output: printed, meta: &left.meta };
            *told = expected(settled, &left, Wanted::All).unwrap_or_default();
        }
    }
    Ok(())
}

fn of_seen(history: &History<'_>, target: &Target, seen: Seen) -> Result<Told, Failure> {
    let look = history.look(&seen)?;
    let reproducible = match (&look.fields, seen.fields) {
        (Some(Ok(resolved)), Some(recorded)) => Some(resolved.fingerprint() == recorded),
        (Some(Err(_)), Some(_)) => Some(false),
        _ => look.judged.as_ref().zip(seen.judged.as_ref()).map(|(again, recorded)| {
            let Judgement { verdict, to, .. } = &again.judgement;
            verdict.verdict == recorded.verdict && verdict.reason == recorded.reason && *to == recorded.to
        }),
    };
    let problems = look.errors().iter().map(|error| error.problem(history.source().text)).collect();
    let by = look.judged.as_ref().and_then(|judged| judged.judgement.by);
    let judged = seen.judged.clone().map(|recorded| Box::new(JudgedTold { recorded: *recorded, by }));
    let mut fields = Fields { history, step: &history.plan.steps[seen.step as usize], told: Vec::new() };
    fields.results(&look);
    fields.references(&seen, look.trace);
    let mut fields = fields.told;
    fields.retain(|field| target.means_field(&field.name));
    Ok(Told { seen, fields, problems, reproducible, ended: None, judged })
}

/// Everybody who read what was made for these evaluations, these themselves too.
pub(crate) fn readers(history: &History<'_>, told: &[Told]) -> Result<Readers, Failure> {
    let mut readers: Readers = told.iter().flat_map(Told::makers).map(|maker| (maker, Vec::new())).collect();
    readers_of(history, &mut readers)?;
    Ok(readers)
}

/// Adds who read what these made.
pub(crate) fn readers_of(history: &History<'_>, readers: &mut Readers) -> Result<(), Failure> {
    readers.retain(|maker, _| !matches!(maker, Maker::Payload | Maker::Run | Maker::World | Maker::Nobody));
    // Which steps read these is not known before they are looked at.
    let everywhere = |maker: &Maker| matches!(maker, Maker::Input(_) | Maker::Import(_) | Maker::Context(_));
    let all = readers.keys().any(everywhere);
    let mut known = BTreeSet::new();
    history.each(|fold, event| {
        if let EventKind::Defined { name, .. } = &event.kind {
            entry_reads(history, name, readers);
        }
        let Some(seen) = fold.seen(event) else { return Ok(()) };
        if !all && !seen.makers().any(|maker| readers.contains_key(&maker)) {
            return Ok(());
        }
        let step = &history.plan.steps[seen.step as usize];
        for resolution in history.look(&seen)?.trace {
            let maker = seen.maker(&resolution);
            let Some(of_maker) = readers.get_mut(&maker) else { continue };
            let reader = (seen.at.clone(), field_of(step, resolution.origin.as_ref()));
            if known.insert((maker, reader.clone())) {
                of_maker.push(reader);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// An entry of `context` that was evaluated has read what stands in it.
fn entry_reads(history: &History<'_>, name: &str, readers: &mut Readers) {
    let entries = history.plan.workflow.context.iter().flat_map(|context| &context.entries);
    for (_, reference) in
        entries.filter(|entry| entry.name == name).flat_map(|entry| entry.written.value.references())
    {
        let maker = match reference.root.as_str() {
            "inputs" => Maker::Input(reference.first),
            "context" => Maker::Context(reference.first),
            _ => continue,
        };
        let reader = (Address::default(), format!("context.{name}"));
        if let Some(known) = readers.get_mut(&maker).filter(|known| !known.contains(&reader)) {
            known.push(reader);
        }
    }
}

impl Told {
    /// Who made what its references gave.
    fn makers(&self) -> impl Iterator<Item = Maker> {
        self.references().map(|reference| reference.maker.clone())
    }

    /// The run that it called.
    pub(crate) fn called(&self) -> Option<&str> {
        self.ended.as_ref()?.output.meta.get("run_id")?.as_str()
    }

    /// Every reference of its fields.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Referenced> {
        self.fields.iter().flat_map(|field| &field.references)
    }

    /// Whether two attempts of one execution resolved to the same.
    pub(crate) fn is_same_attempt(&self, other: &Self) -> bool {
        let known = self.seen.fields.is_some() && self.reproducible == Some(true);
        known
            && self.reproducible == other.reproducible
            && self.seen.at == other.seen.at
            && self.seen.fields == other.seen.fields
    }

    /// What was evaluated, in a word.
    pub(crate) fn evaluated(&self) -> &'static str {
        match self.seen.evaluated {
            Evaluated::Condition => "condition",
            Evaluated::List => "list",
            Evaluated::Fields => "attempt",
            Evaluated::Judgement => "judgement",
        }
    }
}

/// Collects the fields of a step.
struct Fields<'h, 'r> {
    history: &'h History<'r>,
    step: &'h PlannedStep,
    told: Vec<FieldTold>,
}

impl Fields<'_, '_> {
    fn add(&mut self, name: &str, origin: Option<&Origin>, shown: Shown) {
        let place = origin.map(|origin| self.line_column(origin));
        self.told.push(FieldTold { name: name.to_owned(), place, shown, references: Vec::new() });
    }

    fn line_column(&self, origin: &Origin) -> (usize, usize) {
        let (_, line, column) = self.history.source().place(origin.span.range().start);
        (line, column)
    }

    fn results(&mut self, look: &Look) {
        let step = &*self.step.step;
        if let (Some(condition), Some(when)) = (&look.condition, &step.when) {
            self.add("when", Some(&when.origin), Shown::Condition(condition.clone()));
        }
        if let (Some(list), Action::ForEach(each)) = (&look.list, &step.action) {
            let shown = list.as_ref().map_or(Shown::Nothing, |list| match &list.source {
                Found::List(list) => Shown::Value(list.clone()),
                Found::File { path, .. } => Shown::Text(path.clone()),
                Found::Shell { bound, .. } => Shown::Shell((**bound).clone()),
            });
            let origin = match &each.source {
                model::Source::Value(items) => &items.origin,
                model::Source::File { path, .. } => &path.origin,
                model::Source::Shell { text, .. } => &text.origin,
            };
            self.add(if each.is_map { "input" } else { "foreach" }, Some(origin), shown);
        }
        if let Some(judged) = &look.judged {
            self.judgement(step, judged);
        }
        match &look.fields {
            Some(Ok(resolved)) => self.resolved(step, resolved),
            Some(Err(_)) => self.action(step, None),
            None => {}
        }
    }

    /// What judges a state, and the conditions of its routes that were looked at.
    fn judgement(&mut self, step: &Step, judged: &Rejudged) {
        let Some(state) = &step.state else { return };
        if let (true, Some(by)) = (step.is_judged(), step.evaluator()) {
            let shown = match &judged.expression {
                Some(tree) => Shown::Condition(tree.clone()),
                None => Shown::Text(by.name().to_owned()),
            };
            let origin = state.evaluate.as_ref().map(|evaluate| &evaluate.origin);
            self.add("evaluate", origin, shown);
        }
        for ((condition, _), tree) in state.routes.conditions.iter().zip(&judged.conditions) {
            let name = field_of(self.step, Some(&condition.origin));
            self.add(&name, Some(&condition.origin), Shown::Condition(tree.clone()));
        }
    }

    fn resolved(&mut self, step: &Step, resolved: &Resolved) {
        for (name, value) in &resolved.env {
            let variables = step.env.iter().chain(&self.history.plan.workflow.env);
            let written = variables.filter(|variable| variable.name == *name);
            let origin =
                written.filter_map(|variable| variable.value.as_ref()).map(|field| &field.origin).next();
            let shown = value.as_ref().map_or(Shown::Nothing, |value| Shown::Text(value.clone()));
            self.add(&format!("env.{name}"), origin, shown);
        }
        if let (Some(cwd), Some(field)) = (&resolved.cwd, &step.cwd) {
            self.add("cwd", Some(&field.origin), Shown::Text(cwd.clone()));
        }
        let timeouts = [
            ("timeout", resolved.timeout, &step.timeout),
            ("idle_timeout", resolved.idle_timeout, &step.idle_timeout),
        ];
        for (key, timeout, written) in timeouts {
            if let (Some(timeout), Some(Setting::Dynamic(field))) = (timeout, written) {
                let spoken = threadline_engine::execute::result::format_duration(timeout);
                self.add(key, Some(&field.origin), Shown::Text(spoken));
            }
        }
        if let Some(Setting::Dynamic(field)) = &step.max_output {
            let bytes = i64::try_from(resolved.max_output).unwrap_or(i64::MAX);
            self.add("max_output", Some(&field.origin), Shown::Value(bytes.into()));
        }
        self.action(step, Some(&resolved.act));
        if let (Some(settled), Some(field)) = (&resolved.expect, &step.expect) {
            let shown = Shown::Expectation { settled: settled.clone(), told: Vec::new() };
            self.add("expect", Some(&field.origin), shown);
        }
    }

    fn action(&mut self, step: &Step, act: Option<&Act>) {
        let of_tool = step.tool.is_some();
        let (shell, argv) = if of_tool { ("params.command", "params.argv") } else { ("shell", "argv") };
        let written = |origin: &Origin, name| if origin.path.ends_with(".action") { "action" } else { name };
        match (&step.action, act) {
            (Action::Shell { text, .. }, Some(Act::Shell { bound })) => {
                let shell = written(&text.origin, shell);
                self.add(shell, Some(&text.origin), Shown::Shell(bound.clone()));
            }
            (Action::Shell { text, .. }, Some(Act::Verbatim { text: verbatim })) => {
                let shell = written(&text.origin, shell);
                self.add(shell, Some(&text.origin), Shown::Text(verbatim.to_string()));
            }
            (Action::Argv(words), Some(Act::Argv(arguments))) => {
                let origin = words.first().map(|word| &word.origin);
                self.add(argv, origin, Shown::Words(arguments.clone()));
            }
            (Action::Agent { message, .. }, Some(Act::Agent { command, message: text, .. })) => {
                let words = command.iter().map(|word| Value::from(word.as_str()));
                self.add("command", None, Shown::Value(Value::sequence(words)));
                let name = written(&message.origin, "message");
                self.add(name, Some(&message.origin), Shown::Text(text.clone()));
            }
            (Action::Http(http), Some(Act::Http(request))) => {
                let line = format!("{} {}", request.method, request.url);
                let base = if of_tool { "params" } else { "http" };
                self.add(&format!("{base}.url"), Some(&http.url.origin), Shown::Text(line));
                for (name, value) in &request.headers {
                    let written = http.headers.iter().find(|(known, _)| known == name);
                    let origin = written.map(|(_, field)| &field.origin);
                    self.add(&format!("{base}.headers.{name}"), origin, Shown::Text(value.clone()));
                }
                if let (Some(text), Some(field)) = (&request.body, &http.body) {
                    self.add(&format!("{base}.body"), Some(&field.origin), Shown::Text(text.clone()));
                }
            }
            (Action::Tool(call), Some(Act::Tool(called))) => {
                let name = written(&call.name.origin, "tool");
                self.add(name, Some(&call.name.origin), Shown::Text(call.name.value.to_string()));
                let origin = call.params.as_ref().map(|field| &field.origin);
                self.add("params", origin, Shown::Value(called.params.clone()));
            }
            (Action::Workflow(call), Some(Act::Workflow(called))) => {
                self.add("workflow", Some(&call.path.origin), Shown::Text(called.file.to_string()));
                for given in &call.with {
                    let value = called.with.get(&given.name).cloned().unwrap_or_default();
                    self.add(&format!("with.{}", given.name), Some(&given.value.origin), Shown::Value(value));
                }
            }
            (Action::WriteFile(file), Some(Act::WriteFile { path, content, .. })) => {
                self.add("write_file.path", Some(&file.path.origin), Shown::Text(path.clone()));
                self.add("write_file.content", Some(&file.content.origin), Shown::Text(content.clone()));
            }
            (Action::Value(field), Some(Act::Value(value))) => {
                self.add("value", Some(&field.origin), Shown::Value(value.clone()));
            }
            (Action::Condition(condition), Some(Act::Made { value, .. })) => {
                self.add("condition", Some(&condition.expression.origin), Shown::Value(value.clone()));
            }
            (Action::Trigger(_), Some(Act::Made { value, .. })) => {
                self.add("trigger", None, Shown::Value(value.clone()));
            }
            (action, _) => self.without_value(action),
        }
    }

    /// A field that has no value stands there all the same.
    fn without_value(&mut self, action: &Action) {
        match action {
            Action::Shell { text, .. } => {
                let name = if text.origin.path.ends_with(".action") { "action" } else { "shell" };
                self.add(name, Some(&text.origin), Shown::Nothing);
            }
            Action::Argv(words) => self.add("argv", words.first().map(|word| &word.origin), Shown::Nothing),
            Action::Agent { message, .. } => self.add("message", Some(&message.origin), Shown::Nothing),
            Action::Http(http) => self.add("http.url", Some(&http.url.origin), Shown::Nothing),
            Action::Tool(call) => {
                self.add("params", call.params.as_ref().map(|field| &field.origin), Shown::Nothing);
            }
            Action::Workflow(call) => {
                for given in &call.with {
                    self.add(&format!("with.{}", given.name), Some(&given.value.origin), Shown::Nothing);
                }
            }
            Action::WriteFile(file) => {
                self.add("write_file.path", Some(&file.path.origin), Shown::Nothing);
                self.add("write_file.content", Some(&file.content.origin), Shown::Nothing);
            }
            Action::Value(field) => self.add("value", Some(&field.origin), Shown::Nothing),
            Action::Condition(condition) => {
                self.add("condition", Some(&condition.expression.origin), Shown::Nothing);
            }
            Action::ForEach(_) | Action::Trigger(_) | Action::Phase(_) | Action::Nothing => {}
        }
    }

    fn references(&mut self, seen: &Seen, trace: Vec<Resolution>) {
        for resolution in trace {
            let name = field_of(self.step, resolution.origin.as_ref());
            let at = self.told.iter().position(|field| field.name == name).unwrap_or_else(|| {
                self.add(&name, resolution.origin.as_ref(), Shown::Nothing);
                self.told.len() - 1
            });
            let (_, line, column) = report::trace_place(self.history.source(), &resolution);
            let place = (line, column);
            let maker = seen.maker(&resolution);
            self.told[at].references.push(Referenced { resolution, place, maker });
        }
    }
}

/// The field of a step that a place of the file belongs to.
pub(crate) fn field_of(step: &PlannedStep, origin: Option<&Origin>) -> String {
    let Some(origin) = origin else { return String::new() };
    let inside = origin.path.strip_prefix(step.step.origin.path.as_str());
    let path = inside.and_then(|rest| rest.strip_prefix('.')).unwrap_or(&origin.path);
    let mut words = path.split('.');
    let first = words.next().unwrap_or(path);
    match first.split('[').next().unwrap_or(first) {
        "http" | "params" if second_is(path, "headers") => {
            path.split('.').take(3).collect::<Vec<_>>().join(".").to_ascii_lowercase()
        }
        // What the tool of a server is given is one field.
        "params" if step.step.tool.is_none() => "params".to_owned(),
        "env" | "http" | "params" | "variables" | "with" | "write_file" => {
            words.next().map_or(path.to_owned(), |second| {
                format!("{first}.{}", second.split('[').next().unwrap_or(second))
            })
        }
        // Each condition is looked at by itself.
        "route" => first.to_owned(),
        "agents" => "command".to_owned(),
        "servers" => "server".to_owned(),
        "claude" => "message".to_owned(),
        first => first.to_owned(),
    }
}

fn second_is(path: &str, name: &str) -> bool {
    path.split('.').nth(1) == Some(name)
}
