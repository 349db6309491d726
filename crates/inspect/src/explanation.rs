//! What a step saw, evaluated again: every field with what it came to, and every reference with who made its value.
//!
//! Plain output, JSON and the end of a failed run are all made of this.

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use threadline_engine::agent::thread::ResolvedThread;
use threadline_engine::evaluate::{
    Act, FieldOutcome, FieldValue, Observed, Resolved, ResolvedAssertion, Wanted, expected,
};
use threadline_engine::event::{
    Address, Event, EventKind, JudgedEvent, Millis, Output, RunSlice, Seq, Status,
};
use threadline_engine::judge::{Judgement, Rule};
use threadline_engine::replay::{Evaluated, Fold, Look, Maker, Rejudged, Seen};
use threadline_expect::{ExpectationOutcome, Settled};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Action, Evaluator, Field, Filter, ForEach, Step};
use threadline_flow::plan::{PlannedStep, Read};
use threadline_flow::problem::Problem;
use threadline_flow::shell::{Argument, BoundScript};
use threadline_lang::diag::words;
use threadline_lang::{Explanation, Origin, Resolution, TracedExpression, Value};

use crate::chain::part_read;
use crate::error::{InspectError, of_journal};
use crate::history::History;
use crate::place::TextRange;
use crate::target::{ExplainTarget, lists_around};

/// One evaluation of a step.
pub struct StepExplanation {
    /// What the journal says of it.
    pub seen: Seen,
    /// Every field that was evaluated and is asked for.
    pub fields: Vec<FieldExplanation>,
    /// Why fields have no value.
    pub problems: Vec<Problem>,
    /// Whether this program resolves the fields to what the run resolved them to.
    pub reproducible: Option<bool>,
    /// How it ended, when it did.
    pub ended: Option<AttemptEnd>,
    /// How many attempts there may be in all, of an attempt.
    pub attempts_allowed: Option<u64>,
    /// The verdict, and where it leads, of a state that was judged.
    pub judged: Option<Box<ExplainedJudgement>>,
    /// The agent that was asked.
    pub asked: Option<AgentAsked>,
    /// What it said before its last word: events with what they recorded.
    pub exchanges: Vec<(Seq, Output)>,
}

/// An agent that was asked, and what it was told.
pub struct AgentAsked {
    /// The name of the agent.
    pub agent: EcoString,
    /// How it is asked.
    pub provider: &'static str,
    /// What it was told.
    pub message: String,
    /// The thread that the message continues.
    pub thread: Option<ResolvedThread>,
}

impl AgentAsked {
    fn of(history: &History<'_>, step: &Step, look: &Look) -> Option<Self> {
        if let Some(Ok(resolved)) = &look.fields
            && let Act::Agent { agent, message, thread } = &resolved.act
        {
            let provider = agent.provider.word.name;
            let (message, thread) = (message.clone(), thread.clone());
            return Some(Self { agent: agent.name.clone(), provider, message, thread });
        }
        let message = look.judged.as_ref()?.question.clone()?;
        let Evaluator::Agent(judge) = step.evaluator()? else { return None };
        let agent = judge.agent.value.clone();
        let provider = history.plan.workflow.agent(&agent)?.provider.word.name;
        Some(Self { agent, provider, message, thread: None })
    }
}

/// A verdict, and where it leads.
pub struct ExplainedJudgement {
    /// As the journal has it.
    pub recorded: JudgedEvent,
    /// What led there.
    pub by: Option<Rule>,
}

/// How an evaluation, or the attempt that it began, ended.
pub struct AttemptEnd {
    /// The event that ended it.
    pub seq: Seq,
    /// The time of that event.
    pub time: Millis,
    /// What it left.
    pub output: Output,
    /// Whether another attempt follows.
    pub retried: bool,
}

/// A field, what it came to, and what it read.
pub struct FieldExplanation {
    /// Its name: `shell`, `env.NAME`.
    pub name: String,
    /// Where it stands: line and column.
    pub place: Option<(usize, usize)>,
    /// What it came to.
    pub shown: ExplainedValue,
    /// What it read, in order.
    pub references: Vec<ExplainedReference>,
    /// The whole of each `${...}`, or of an expression, with what it gave.
    pub expressions: Vec<ExplainedExpression>,
}

/// The whole of a `${...}`, or an expression, and what it gave.
pub struct ExplainedExpression {
    /// As it is written.
    pub text: EcoString,
    /// Where it stands.
    pub range: TextRange,
    /// What it gave; nothing when it has no value.
    pub value: Option<Value>,
    /// The entry of `context` that it is a part of; none when the field itself has it.
    pub within: Option<EcoString>,
    /// Whether a default stood in for something that it reads.
    pub defaulted: bool,
}

/// What a field came to.
pub enum ExplainedValue {
    /// Nothing: it has no value.
    Nothing,
    /// A text.
    Text(String),
    /// Any value.
    Value(Value),
    /// A text for a shell, with its values bound.
    Shell(BoundScript),
    /// A program and its arguments.
    Words(Vec<Argument>),
    /// A condition, with all its parts.
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
pub struct ExplainedReference {
    /// What it resolved to.
    pub resolution: Resolution,
    /// Where it stands: line and column.
    pub place: (usize, usize),
    /// Where it ends.
    pub range: TextRange,
    /// Who made the value.
    pub maker: Maker,
}

/// Who read what somebody made.
pub type Readers = BTreeMap<Maker, Vec<PartReader>>;

/// One who read a value: which execution, in which field, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartReader {
    /// The execution; of an entry of `context` and of `exports` none.
    pub at: Address,
    /// The field that reads it.
    pub field: String,
    /// The part that is read, by keys and indices.
    pub part: Vec<String>,
}

/// Every evaluation that is asked for, in the order of the journal. Where that is about some items or visits, the others
/// are not read.
pub fn explain_steps(
    history: &History<'_>,
    target: &ExplainTarget,
) -> Result<Vec<StepExplanation>, InspectError> {
    if let Some(slice) = target.slice(history)? {
        let mut asked = AskedSteps { history, target, told: Vec::new(), latest: BTreeMap::new() };
        let is_whole = history.each_of(&slice, |fold, event| asked.take(fold, event))?;
        if is_whole && !asked.read_who_runs_an_item() {
            return Ok(asked.end());
        }
    }
    explain_steps_of_all(history, target)
}

/// The same, of the whole journal.
fn explain_steps_of_all(
    history: &History<'_>,
    target: &ExplainTarget,
) -> Result<Vec<StepExplanation>, InspectError> {
    let mut asked = AskedSteps { history, target, told: Vec::new(), latest: BTreeMap::new() };
    history.each(|fold, event| asked.take(fold, event))?;
    Ok(asked.end())
}

/// The executions that were skipped before anything of them was evaluated, each with the event and the reason.
pub fn skipped_steps(
    history: &History<'_>,
    target: &ExplainTarget,
) -> Result<Vec<(Event, String)>, InspectError> {
    let mut skipped: BTreeMap<Address, (Event, String)> = BTreeMap::new();
    let mut take = |fold: &mut Fold, event: &Event| {
        let step = fold.machine.step_of(&event.at).filter(|step| target.means(&event.at, *step));
        if let (EventKind::Skipped { output, .. }, Some(_)) = (&event.kind, step)
            && fold.seen(event).is_none()
        {
            let reason = output.meta.get(names::REASON).map(ToString::to_string).unwrap_or_default();
            skipped.insert(event.at.clone(), (event.clone(), reason));
        }
        Ok(())
    };
    let is_whole = match target.slice(history)? {
        Some(slice) => history.each_of(&slice, &mut take)?,
        None => false,
    };
    if !is_whole {
        history.each(&mut take)?;
    }
    Ok(skipped.into_values().collect())
}

/// Collects the evaluations that are asked for.
struct AskedSteps<'h, 'r> {
    history: &'h History<'r>,
    target: &'h ExplainTarget,
    told: Vec<StepExplanation>,
    /// Where the last evaluation of each execution is.
    latest: BTreeMap<Address, usize>,
}

impl AskedSteps<'_, '_> {
    /// Takes the next event.
    fn take(&mut self, fold: &Fold, event: &Event) -> Result<(), InspectError> {
        let Self { history, target, told, latest } = self;
        // What an execution saw is put together only for those that are asked for.
        let is_asked = fold.machine.step_of(&event.at).is_some_and(|step| target.means(&event.at, step));
        let seen = is_asked.then(|| fold.seen(event)).flatten();
        if let Some(seen) = seen.filter(|seen| seen.evaluated != Evaluated::Exports) {
            latest.insert(seen.at.clone(), told.len());
            let mut explained = explain_seen(history, seen)?;
            explained.fields.retain(|field| target.means_field(&field.name));
            told.push(explained);
        }
        if let (Some(at), EventKind::Exchanged { output, .. }) = (latest.get(&event.at), &event.kind) {
            told[*at].exchanges.push((event.seq, output.clone()));
        }
        if let (Some(at), Some(ended)) = (latest.get(&event.at), ended(event)) {
            expectations(history, &mut told[*at].fields, &ended.output)?;
            told[*at].ended = Some(ended);
        }
        Ok(())
    }

    /// Whether a reference told who of several ran an item.
    fn read_who_runs_an_item(&self) -> bool {
        self.told.iter().any(StepExplanation::reads_who_runs_an_item)
    }

    fn end(mut self) -> Vec<StepExplanation> {
        let target = self.target;
        self.told.retain(|told| target.field.is_none() || !told.fields.is_empty());
        self.told
    }
}

/// The last evaluation of each execution, in the order of their first.
pub fn last_of_each(told: &[StepExplanation]) -> Vec<&StepExplanation> {
    let mut places: BTreeMap<&Address, usize> = BTreeMap::new();
    let mut last: Vec<&StepExplanation> = Vec::new();
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

/// How an event ended what its execution evaluated.
pub fn ended(event: &Event) -> Option<AttemptEnd> {
    let (output, retried) = match &event.kind {
        EventKind::Finished { output, .. }
        | EventKind::Unresolved { output, .. }
        | EventKind::Skipped { output, .. } => (output, false),
        EventKind::Retrying { output, .. } => (output, true),
        _ => return None,
    };
    Some(AttemptEnd { seq: event.seq, time: event.time, output: output.clone(), retried })
}

/// The field with the expectations of an `assert`.
const ASSERTED: &str = "assert.expect";

/// What a step expected, compared again with what it left.
fn expectations(
    history: &History<'_>,
    fields: &mut [FieldExplanation],
    output: &Output,
) -> Result<(), InspectError> {
    if output.status != Status::Completed {
        return Ok(());
    }
    // What an `assert` compares is not what it leaves.
    for field in fields.iter_mut().filter(|field| field.name != ASSERTED) {
        if let ExplainedValue::Expectation { settled, told } = &mut field.shown {
            let left = threadline_runner::values::load_envelope(history.reader, output)
                .map_err(|error| of_journal(&error))?;
            let printed =
                left.also.as_ref().and_then(|also| also.get(names::OUTPUT)).filter(|text| !text.is_null());
            let left = Observed { value: &left.value, output: printed, meta: &left.meta };
            *told = expected(settled, &left, Wanted::All).unwrap_or_default();
        }
    }
    Ok(())
}

/// One evaluation with all its fields.
pub fn explain_seen(history: &History<'_>, seen: Seen) -> Result<StepExplanation, InspectError> {
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
    let judged = seen.judged.clone().map(|recorded| Box::new(ExplainedJudgement { recorded: *recorded, by }));
    let step = &history.plan.steps[seen.step as usize].step;
    let asked = AgentAsked::of(history, step, &look);
    let mut fields =
        ExplainedFields { history, step: &history.plan.steps[seen.step as usize], told: Vec::new() };
    fields.results(&look);
    if let Some(Ok(Resolved { act: Act::Assert(assertion), .. })) = &look.fields {
        fields.asserted(assertion);
    }
    fields.references(&seen, look.trace);
    fields.expressions(look.expressions);
    let fields = fields.told;
    let attempts_allowed = match &look.fields {
        Some(Ok(resolved)) => Some(resolved.retry.attempts),
        _ => None,
    };
    Ok(StepExplanation {
        seen,
        fields,
        problems,
        reproducible,
        ended: None,
        attempts_allowed,
        judged,
        asked,
        exchanges: Vec::new(),
    })
}

/// Everybody who read what was made for these evaluations, these themselves too.
pub fn readers(history: &History<'_>, told: &[StepExplanation]) -> Result<Readers, InspectError> {
    let mut readers: Readers =
        told.iter().flat_map(StepExplanation::makers).map(|maker| (maker, Vec::new())).collect();
    readers_of(history, &mut readers)?;
    Ok(readers)
}

/// Adds who read what these made.
pub fn readers_of(history: &History<'_>, readers: &mut Readers) -> Result<(), InspectError> {
    readers.retain(|maker, _| !matches!(maker, Maker::Payload | Maker::Run | Maker::World | Maker::Nobody));
    // Which steps read these is not known before they are looked at.
    let everywhere = |maker: &Maker| matches!(maker, Maker::Input(_) | Maker::Import(_) | Maker::Context(_));
    let all = readers.keys().any(everywhere);
    if let Some(slice) = slice_of_readers(history, readers)? {
        let mut found = FoundReaders { history, all, readers: readers.clone(), known: BTreeSet::new() };
        if history.each_of(&slice, |fold, event| found.take(fold, event))? {
            *readers = found.readers;
            return Ok(());
        }
    }
    let mut found = FoundReaders { history, all, readers: std::mem::take(readers), known: BTreeSet::new() };
    history.each(|fold, event| found.take(fold, event))?;
    *readers = found.readers;
    Ok(())
}

/// The number of makers from which on nobody asks where each of them is.
const MANY_MAKERS: usize = 256;

/// The slice of the run with everybody who can have read what these made, where that is not all of it: names of an item
/// never reach another, and a loop keeps the last two values of a name.
fn slice_of_readers(history: &History<'_>, readers: &Readers) -> Result<Option<RunSlice>, InspectError> {
    if readers.len() > MANY_MAKERS {
        return Ok(None);
    }
    let (plan, visited) = (&history.plan, history.visited()?);
    let (mut all, mut visits, mut through_end) = (Vec::new(), BTreeSet::new(), false);
    for maker in readers.keys() {
        let (at, index) = match maker {
            Maker::Event(seq) => (history.event(*seq)?.at, None),
            Maker::Item { list, index } => (history.event(*list)?.at, Some(*index)),
            _ => return Ok(None),
        };
        if let Some(visited) = visited {
            match at.visit_around().and_then(|visit| visited.number(&visit)) {
                Some(made_in) => {
                    let (while_read, is_read_at_end) = visited.while_read(made_in);
                    visits.extend(while_read);
                    through_end |= is_read_at_end;
                }
                None => through_end = true,
            }
        }
        let items: Vec<u64> = at.items().chain(index).collect();
        if !items.is_empty() {
            all.push(items);
            continue;
        }
        let reads_more = |step: &PlannedStep| step.reads.iter().any(|read| *read != Read::Item);
        let mut inside = (0..).zip(&plan.steps).filter(|(number, _)| lists_around(plan, *number) > 0);
        if inside.any(|(_, step)| reads_more(step)) {
            return Ok(None);
        }
    }
    let slice = RunSlice::new(all);
    Ok(match visited {
        Some(visited) => visited.slice(&visits, through_end).map(|visits| slice.in_visits(visits)),
        None => Some(slice),
    })
}

/// Collects who read what some made.
struct FoundReaders<'h, 'r> {
    history: &'h History<'r>,
    /// Whether anybody may have read it.
    all: bool,
    readers: Readers,
    known: BTreeSet<(Maker, PartReader)>,
}

impl FoundReaders<'_, '_> {
    /// Takes the next event.
    fn take(&mut self, fold: &Fold, event: &Event) -> Result<(), InspectError> {
        let Self { history, all, readers, known } = self;
        if let EventKind::Defined { name, .. } = &event.kind {
            entry_reads(history, name, readers);
        }
        let Some(seen) = fold.seen(event) else { return Ok(()) };
        if !*all && !seen.view.makers().any(|maker| readers.contains_key(&maker)) {
            return Ok(());
        }
        let step = &history.plan.steps[seen.step as usize];
        for resolution in history.look(&seen)?.trace {
            let maker = seen.view.maker(&resolution);
            let Some(of_maker) = readers.get_mut(&maker) else { continue };
            let field = field_of(step, resolution.origin.as_ref());
            let part = part_read(&resolution, &maker);
            let reader = PartReader { at: seen.at.clone(), field, part };
            if known.insert((maker, reader.clone())) {
                of_maker.push(reader);
            }
        }
        Ok(())
    }
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
        let field = format!("context.{name}");
        let reader = PartReader { at: Address::default(), field, part: Vec::new() };
        if let Some(known) = readers.get_mut(&maker).filter(|known| !known.contains(&reader)) {
            known.push(reader);
        }
    }
}

impl StepExplanation {
    /// Who made what its references gave.
    fn makers(&self) -> impl Iterator<Item = Maker> {
        self.references().map(|reference| reference.maker.clone())
    }

    /// The run that it called.
    pub fn called(&self) -> Option<&str> {
        self.ended.as_ref()?.output.meta.get(names::RUN_ID)?.as_str()
    }

    /// Every reference of its fields.
    pub fn references(&self) -> impl Iterator<Item = &ExplainedReference> {
        self.fields.iter().flat_map(|field| &field.references)
    }

    /// Whether a reference told who of several ran an item, which follows from all items.
    pub fn reads_who_runs_an_item(&self) -> bool {
        self.references().any(|reference| reference.resolution.root == "agent")
    }

    /// Whether two attempts of one execution resolved to the same.
    pub fn is_same_attempt(&self, other: &Self) -> bool {
        let known = self.seen.fields.is_some() && self.reproducible == Some(true);
        known
            && self.reproducible == other.reproducible
            && self.seen.at == other.seen.at
            && self.seen.fields == other.seen.fields
    }

    /// What was evaluated, in a word.
    pub fn evaluated(&self) -> &'static str {
        match self.seen.evaluated {
            Evaluated::Condition => "condition",
            Evaluated::List => "list",
            Evaluated::Fields => "attempt",
            Evaluated::Judgement => "judgement",
            Evaluated::Variables => "variables",
            Evaluated::Aggregates => "aggregates",
            Evaluated::Exports => "exports",
        }
    }
}

/// Collects the fields of a step.
struct ExplainedFields<'h, 'r> {
    history: &'h History<'r>,
    step: &'h PlannedStep,
    told: Vec<FieldExplanation>,
}

impl ExplainedFields<'_, '_> {
    fn add(&mut self, name: &str, origin: Option<&Origin>, shown: ExplainedValue) {
        let place = origin.map(|origin| self.line_column(origin));
        let (references, expressions) = (Vec::new(), Vec::new());
        self.told.push(FieldExplanation { name: name.to_owned(), place, shown, references, expressions });
    }

    fn line_column(&self, origin: &Origin) -> (usize, usize) {
        let (_, line, column) = self.history.source().place(origin.span.range().start);
        (line, column)
    }

    fn results(&mut self, look: &Look) {
        let step = &*self.step.step;
        if let (Some(condition), Some(when)) = (&look.condition, &step.when) {
            self.add("when", Some(&when.origin), ExplainedValue::Condition(condition.clone()));
        }
        if let Some(judged) = &look.judged {
            self.judgement(step, judged);
        }
        for outcome in &look.outcomes {
            self.outcome(outcome);
        }
        if let (Some(_), Action::ForEach(each)) = (&look.list, &step.action) {
            self.choice(each);
        }
    }

    /// What chooses and sorts the elements of a list, as it is written: it was evaluated for each of them.
    fn choice(&mut self, each: &ForEach) {
        match &each.filter {
            Some(Filter::Condition(filter)) => self.written("filter", filter, filter.value.source()),
            Some(Filter::Expectation(filter)) => self.written("filter", filter, "expectations"),
            None => {}
        }
        for key in &each.sort_by {
            let order = if key.descending { " DESC" } else { "" };
            let nulls = match key.nulls_first {
                Some(true) => " NULLS FIRST",
                Some(false) => " NULLS LAST",
                None => "",
            };
            self.written("sort_by", &key.by, &format!("{}{order}{nulls}", key.by.value.source()));
        }
        if let Some(distinct) = &each.distinct {
            self.written("distinct", distinct, distinct.value.source());
        }
    }

    fn written<T>(&mut self, name: &str, field: &Field<T>, text: &str) {
        self.add(name, Some(&field.origin), ExplainedValue::Text(text.to_owned()));
    }

    /// What judges a state, and the conditions of its routes that were looked at.
    fn judgement(&mut self, step: &Step, judged: &Rejudged) {
        let Some(state) = &step.state else { return };
        if let (true, Some(by)) = (step.is_judged(), step.evaluator()) {
            let shown = match &judged.expression {
                Some(tree) => ExplainedValue::Condition(tree.clone()),
                None => ExplainedValue::Text(by.name().to_owned()),
            };
            let origin = state.evaluate.as_ref().map(|evaluate| &evaluate.origin);
            self.add("evaluate", origin, shown);
            if let Some(question) = &judged.question {
                self.add("prompt", origin, ExplainedValue::Text(question.clone()));
            }
        }
        for ((condition, _), tree) in state.routes.conditions.iter().zip(&judged.conditions) {
            let name = field_of(self.step, Some(&condition.origin));
            self.add(&name, Some(&condition.origin), ExplainedValue::Condition(tree.clone()));
        }
    }

    /// A field of the list or of the attempt, and what it came to.
    fn outcome(&mut self, outcome: &FieldOutcome) {
        // What the file fixes says nothing new; what a server is made of is shown with the references in it.
        let chooses = matches!(outcome.key, "offset" | "max_items");
        if outcome.fixed && !chooses || outcome.key.starts_with("server.") {
            return;
        }
        // Of two variables with one name the later one holds.
        if outcome.key == "env" {
            self.told.retain(|field| *field.name != *outcome.name);
        }
        let shown = outcome.value.as_ref().map_or(ExplainedValue::Nothing, shown);
        self.add(&outcome.name, outcome.origin.as_ref(), shown);
    }

    /// What the expectations of an `assert` came to.
    fn asserted(&mut self, assertion: &ResolvedAssertion) {
        for field in self.told.iter_mut().filter(|field| field.name == ASSERTED) {
            if let ExplainedValue::Expectation { told, .. } = &mut field.shown {
                *told = assertion.outcomes();
            }
        }
    }

    fn references(&mut self, seen: &Seen, trace: Vec<Resolution>) {
        for resolution in trace {
            let name = field_of(self.step, resolution.origin.as_ref());
            let at = self.told.iter().position(|field| field.name == name).unwrap_or_else(|| {
                self.add(&name, resolution.origin.as_ref(), ExplainedValue::Nothing);
                self.told.len() - 1
            });
            let range = self.history.source().range(resolution.span, resolution.origin.as_ref());
            let place = (range.line, range.column);
            let maker = seen.view.maker(&resolution);
            self.told[at].references.push(ExplainedReference { resolution, place, range, maker });
        }
    }

    /// The whole references, each with the field that has it. What reads nothing is nothing to be told.
    fn expressions(&mut self, expressions: Vec<TracedExpression>) {
        for TracedExpression { text, value, span, origin, within } in expressions {
            let name = field_of(self.step, origin.as_ref());
            let Some(field) = self.told.iter_mut().find(|field| field.name == name) else { continue };
            let inside = |reference: &&ExplainedReference| {
                let Resolution { span: read, origin: read_in, .. } = &reference.resolution;
                *read_in == origin && span.start <= read.start && read.end <= span.end
            };
            let mut reads = field.references.iter().filter(inside).peekable();
            if reads.peek().is_none() {
                continue;
            }
            let defaulted = reads.any(|reference| reference.resolution.defaulted);
            let range = self.history.source().range(span, origin.as_ref());
            field.expressions.push(ExplainedExpression { text, range, value, within, defaulted });
        }
    }
}

fn shown(value: &FieldValue) -> ExplainedValue {
    let words = |words: &[String]| Value::sequence(words.iter().map(|word| Value::from(word.as_str())));
    match value {
        FieldValue::Text(text) | FieldValue::Variable(Some(text)) => ExplainedValue::Text(text.clone()),
        FieldValue::Variable(None) => ExplainedValue::Nothing,
        FieldValue::Words(command) => ExplainedValue::Value(words(command)),
        FieldValue::Arguments(arguments) => ExplainedValue::Words(arguments.clone()),
        FieldValue::Shell(bound) => ExplainedValue::Shell(bound.clone()),
        FieldValue::Value(value) => ExplainedValue::Value(value.clone()),
        FieldValue::Count(count) => ExplainedValue::Value((*count).into()),
        FieldValue::Duration(duration) => ExplainedValue::Text(words::duration(*duration)),
        FieldValue::Fraction(fraction) => ExplainedValue::Text(fraction.to_string()),
        FieldValue::Condition(explanation) | FieldValue::Branch { explanation, .. } => {
            ExplainedValue::Condition(explanation.clone())
        }
        FieldValue::Expectations(settled) => {
            ExplainedValue::Expectation { settled: settled.clone(), told: Vec::new() }
        }
    }
}

/// The field of a step that a place of the file belongs to.
pub fn field_of(step: &PlannedStep, origin: Option<&Origin>) -> String {
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
        "aggregates" | "assert" | "env" | "error_policy" | "exports" | "http" | "param" | "params"
        | "retry" | "variables" | "with" | "write_file" => words.next().map_or(path.to_owned(), |second| {
            format!("{first}.{}", second.split('[').next().unwrap_or(second))
        }),
        // Each condition is looked at by itself.
        "route" => first.to_owned(),
        // A setting of an agent: `agents.NAME.SETTING`.
        "agents" => {
            let setting = words.nth(1).unwrap_or(path);
            setting.split('[').next().unwrap_or(setting).to_owned()
        }
        "servers" => "server".to_owned(),
        "claude" => "message".to_owned(),
        first => first.to_owned(),
    }
}

fn second_is(path: &str, name: &str) -> bool {
    path.split('.').nth(1) == Some(name)
}
