//! What came of scenarios: one execution for each scenario, target, case and repetition, read from the journals of
//! their runs. Every report is made of it; nothing is printed here.

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, Output, Seq, Status};
use threadline_engine::machine::Outcome;
use threadline_engine::spend::Spend;
use threadline_engine::view::ItemRef;
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Action, Scenario, Step, case_name};
use threadline_flow::plan::Plan;
use threadline_lang::Value;

use super::rate::PassRate;
use crate::commands::history::History;
use crate::exit::CommandFailure;
use crate::failure_output::printed_lines;
use crate::report::first_line;

/// The number of lines of what a failed target printed.
const PRINTED_LINES: usize = 20;

/// A file of scenarios that was tried.
pub(super) struct TestedFile {
    pub(super) file: String,
    pub(super) run: String,
    pub(super) workflow: String,
    /// How the run ended; none if it stopped before its end.
    pub(super) outcome: Option<Outcome>,
    /// When the run began, as RFC 3339 has it.
    pub(super) started_at: String,
    pub(super) duration_ms: u64,
    pub(super) cases: Vec<TriedCase>,
}

/// A scenario with a target and a case, over all its repetitions.
pub(super) struct TriedCase {
    pub(super) scenario: Scenario,
    /// The file, line and column of the scenario.
    pub(super) place: (String, usize, usize),
    /// The name of the case, and the case itself.
    pub(super) case: Option<(String, Value)>,
    pub(super) at: Address,
    /// Whether it passed often enough.
    pub(super) result: TestResult,
    /// Why it was not tried, or why nothing of it could be.
    pub(super) untried: String,
    /// Every time that it was tried, in the order of the repetitions.
    pub(super) executions: Vec<TestExecution>,
}

/// One time that a scenario was tried with one target and one case.
pub(super) struct TestExecution {
    /// Which repetition it is, from 1, where there are several.
    pub(super) repetition: Option<u64>,
    pub(super) at: Address,
    pub(super) result: TestResult,
    pub(super) duration_ms: u64,
    pub(super) turns: Vec<Turn>,
    pub(super) checks: Vec<TestCheck>,
    /// Why it failed, where that is no expectation.
    pub(super) error: Option<String>,
    /// The step that failed.
    pub(super) failed_step: Option<Address>,
    /// Why a judge gave no answer, while it is not known whether that ended the execution.
    failed_judge: Option<String>,
    pub(super) spent: Spend,
}

/// What became of an execution, or of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TestResult {
    Passed,
    /// An expectation is unmet.
    Failed,
    /// An expectation cannot be evaluated, and none is unmet.
    NotEvaluable,
    /// The target, or another step, failed.
    Errored,
    Skipped,
    /// The run stopped before.
    NotRun,
}

/// What was asked, and what was answered.
pub(super) struct Turn {
    pub(super) prompt: Value,
    /// How long the target took; none before it has ended.
    pub(super) duration_ms: Option<u64>,
    /// What the target used, where it is an agent.
    pub(super) spent: Spend,
    /// The answer as expectations see it; nothing where there is none.
    pub(super) answer: Option<Value>,
    /// Why there is none.
    pub(super) error: Option<String>,
    /// The end of what the target printed, where it failed.
    pub(super) printed: Vec<String>,
}

/// The expectations of one place, and what they came to.
pub(super) struct TestCheck {
    /// The file, line and column of each expectation that is not met, by its name.
    pub(super) places: BTreeMap<String, (String, usize, usize)>,
    pub(super) at: Address,
    /// `{met, unmet, not_evaluable, vacuous, outcomes, open, opinions}`
    pub(super) value: Value,
}

impl TestedFile {
    pub(super) fn executions(&self) -> impl Iterator<Item = &TestExecution> {
        self.cases.iter().flat_map(|case| &case.executions)
    }
}

/// What came of all files together.
#[derive(Default)]
pub(super) struct TestTotals {
    pub(super) cases: usize,
    pub(super) executions: usize,
    pub(super) duration_ms: u64,
    pub(super) spent: Spend,
    /// The number of expectations that are met only because a `when` was not.
    pub(super) vacuous: u64,
    /// The number of cases with each result, in the order of [`TestResult::ALL`].
    counts: [usize; TestResult::ALL.len()],
}

impl TestTotals {
    pub(super) fn of(files: &[TestedFile]) -> Self {
        let mut totals = Self::default();
        for file in files {
            totals.duration_ms += file.duration_ms;
            totals.cases += file.cases.len();
            for case in &file.cases {
                totals.executions += case.executions.len();
                totals.counts[case.result as usize] += 1;
            }
            for execution in file.executions() {
                totals.spent.add(&execution.spent);
                totals.vacuous += execution.count(names::VACUOUS);
            }
        }
        totals
    }

    pub(super) fn count(&self, result: TestResult) -> usize {
        self.counts[result as usize]
    }

    /// The number of cases that were to be tried: all but those that were skipped.
    pub(super) fn wanted(&self) -> usize {
        self.cases - self.count(TestResult::Skipped)
    }
}

impl TestResult {
    /// The word in reports for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotEvaluable => "not_evaluable",
            Self::Errored => "errored",
            Self::Skipped => "skipped",
            Self::NotRun => "not_run",
        }
    }

    /// The word for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NotEvaluable => "not evaluable",
            Self::NotRun => "not run",
            other => other.name(),
        }
    }

    /// The result of a word in a report.
    pub(super) fn of_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == word)
    }

    pub(super) const ALL: [Self; 6] =
        [Self::Passed, Self::Failed, Self::NotEvaluable, Self::Errored, Self::Skipped, Self::NotRun];

    /// Whether whoever tests has something to do about it.
    pub(super) fn is_bad(self) -> bool {
        !matches!(self, Self::Passed | Self::Skipped)
    }
}

impl TestCheck {
    pub(super) fn outcomes(&self) -> &[Value] {
        self.value.get(names::OUTCOMES).and_then(Value::as_list).unwrap_or_default()
    }

    /// The file, line and column of the expectation that an outcome is of.
    pub(super) fn place_of(&self, outcome: &Value) -> Option<&(String, usize, usize)> {
        self.places.get(outcome.get("name")?.as_str()?)
    }

    pub(super) fn opinions(&self) -> &[Value] {
        self.value.get(names::OPINIONS).and_then(Value::as_list).unwrap_or_default()
    }

    fn count(&self, name: &str) -> u64 {
        self.value.get(name).and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }

    /// The judges that said different things of one answer.
    fn flaky(&self) -> impl Iterator<Item = &str> {
        let is_flaky = |opinion: &&Value| opinion.get("flaky").and_then(Value::as_bool) == Some(true);
        self.opinions().iter().filter(is_flaky).filter_map(|opinion| opinion.get("judge")?.as_str())
    }
}

impl TestExecution {
    /// Every outcome that is not met, with the place of its expectation and its check.
    pub(super) fn unmet(&self) -> impl Iterator<Item = (&TestCheck, &Value)> {
        self.checks.iter().flat_map(|check| {
            let unmet = check.outcomes().iter().filter(|outcome| result_of(outcome) != "met");
            unmet.map(move |outcome| (check, outcome))
        })
    }

    /// What judges said, each about a question.
    pub(super) fn opinions(&self) -> impl Iterator<Item = &Value> {
        self.checks.iter().flat_map(TestCheck::opinions)
    }

    /// The number of expectations with this result.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.checks.iter().map(|check| check.count(name)).sum()
    }

    /// The reason in one line.
    pub(super) fn reason(&self) -> String {
        // What is unmet says more than what could not be evaluated.
        let mut first = self.unmet().find(|(_, outcome)| result_of(outcome) == "unmet");
        if first.is_none() {
            first = self.unmet().next();
        }
        if let Some((_, outcome)) = first {
            return outcome.get("reason").map(ToString::to_string).unwrap_or_default();
        }
        self.error.as_deref().map(first_line).unwrap_or_default().to_owned()
    }
}

impl TriedCase {
    /// The scenario with its target and its case.
    pub(super) fn name(&self) -> String {
        let case = self.case.as_ref().map(|(name, _)| format!(" · {name}")).unwrap_or_default();
        format!("{}{case}", self.scenario.title())
    }

    /// The name with the repetition, where there are several.
    pub(super) fn name_of(&self, execution: &TestExecution) -> String {
        let repetition = execution.repetition.map(|number| format!(" #{number}")).unwrap_or_default();
        format!("{}{repetition}", self.name())
    }

    /// The executions that went wrong, if the case did not pass often enough.
    pub(super) fn failures(&self) -> impl Iterator<Item = &TestExecution> {
        let is_bad = self.result.is_bad();
        self.executions.iter().filter(move |execution| is_bad && execution.result.is_bad())
    }

    pub(super) fn passed(&self) -> u64 {
        self.executions.iter().filter(|execution| execution.result == TestResult::Passed).count() as u64
    }

    pub(super) fn tried(&self) -> u64 {
        self.executions.len() as u64
    }

    pub(super) fn duration_ms(&self) -> u64 {
        self.executions.iter().map(|execution| execution.duration_ms).sum()
    }

    pub(super) fn spent(&self) -> Spend {
        let mut spent = Spend::default();
        self.executions.iter().for_each(|execution| spent.add(&execution.spent));
        spent
    }

    /// How often it passed, where it was tried several times.
    pub(super) fn rate(&self) -> Option<PassRate> {
        let is_repeated = self.scenario.times > 1 && !self.executions.is_empty();
        is_repeated.then(|| PassRate::new(self.passed(), self.tried()))
    }

    /// The judges that said different things of one answer, each once.
    pub(super) fn flaky(&self) -> Vec<&str> {
        let checks = self.executions.iter().flat_map(|execution| &execution.checks);
        let mut flaky: Vec<&str> = Vec::new();
        for judge in checks.flat_map(TestCheck::flaky) {
            if !flaky.contains(&judge) {
                flaky.push(judge);
            }
        }
        flaky
    }

    /// Why it did not pass or was not tried, in one line.
    pub(super) fn reason(&self) -> String {
        let mut reasons = self.failures().map(TestExecution::reason);
        reasons.next().unwrap_or_else(|| first_line(&self.untried).to_owned())
    }
}

/// The word of an outcome: `met`, `unmet` or `not_evaluable`.
pub(super) fn result_of(outcome: &Value) -> &str {
    outcome.get("result").and_then(Value::as_str).unwrap_or_default()
}

/// Reads what came of the scenarios of a run.
pub(super) fn read(history: &History<'_>) -> Result<TestedFile, CommandFailure> {
    let mut reader = ResultReader::new(history);
    history.try_each(|_, event| reader.take(event))?;
    reader.finish()
}

struct ResultReader<'h, 'r> {
    history: &'h History<'r>,
    cases: BTreeMap<Address, Value>,
    /// The executions with the nodes that they are of.
    executions: BTreeMap<Address, (EcoString, TestExecution)>,
    /// How the items ended that are cases with several repetitions, with their nodes.
    repeated: BTreeMap<Address, (EcoString, Status, String)>,
    /// The lists of cases, with the number of them.
    lists: BTreeMap<EcoString, (Address, Seq, u64)>,
    /// The scenarios that were skipped or have failed as a whole.
    nodes: BTreeMap<EcoString, (Status, String, Address)>,
    outcome: Option<Outcome>,
    times: Option<(i64, i64)>,
}

impl<'h, 'r> ResultReader<'h, 'r> {
    fn new(history: &'h History<'r>) -> Self {
        Self {
            history,
            cases: BTreeMap::new(),
            executions: BTreeMap::new(),
            repeated: BTreeMap::new(),
            lists: BTreeMap::new(),
            nodes: BTreeMap::new(),
            outcome: None,
            times: None,
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), CommandFailure> {
        let (first, _) = self.times.unwrap_or((event.time, event.time));
        self.times = Some((first, event.time));
        match &event.kind {
            EventKind::RunEnded { outcome, .. } => self.outcome = Some(*outcome),
            EventKind::Resumed { .. } => self.outcome = None,
            _ => {}
        }
        let Some(scenario) = self.scenario(&event.at) else { return Ok(()) };
        let levels = if scenario.times > 1 { 2 } else { 1 };
        let around: Vec<Address> = event.at.items_around().collect();
        if around.is_empty() {
            if let EventKind::Expanded { count, .. } = &event.kind {
                self.lists.insert(scenario.node.clone(), (event.at.clone(), event.seq, *count));
            }
            if let EventKind::Finished { output, .. }
            | EventKind::Unresolved { output, .. }
            | EventKind::Skipped { output, .. } = &event.kind
            {
                self.nodes
                    .insert(scenario.node.clone(), (output.status, reason_of(output), event.at.clone()));
            }
            return Ok(());
        }
        let Some(at) = around.get(levels - 1).cloned() else {
            return self.take_case(event, &scenario, &around[0]);
        };
        if event.at == at {
            self.take_end(event, &scenario, &at);
            return Ok(());
        }
        if levels == 1 && self.capture(&event.at) == Some("case") {
            self.take_case(event, &scenario, &at)?;
        }
        self.take_step(event, &scenario, &at)
    }

    fn scenario(&self, at: &Address) -> Option<Scenario> {
        let plan = &*self.history.plan;
        let step = at.outermost()?.step(plan)?;
        let id = &plan.steps[step as usize].step.id.as_ref()?.value;
        plan.workflow.scenarios.iter().find(|scenario| scenario.node == *id).cloned()
    }

    fn capture(&self, at: &Address) -> Option<&str> {
        let plan = &self.history.plan;
        let step = at.step(plan)?;
        plan.steps[step as usize].step.capture.as_ref().map(|capture| capture.value.as_str())
    }

    /// Something that happened to an item with repetitions, or in it before they begin.
    fn take_case(
        &mut self,
        event: &Event,
        scenario: &Scenario,
        item: &Address,
    ) -> Result<(), CommandFailure> {
        match &event.kind {
            EventKind::Finished { output, .. } if self.capture(&event.at) == Some("case") => {
                self.cases.insert(item.clone(), self.history.load(&output.value)?);
            }
            EventKind::ItemEnded(ended) if event.at == *item => {
                let error = ended.error.as_ref().map(ToString::to_string).unwrap_or_default();
                self.repeated.insert(item.clone(), (scenario.node.clone(), ended.status, error));
            }
            _ => {}
        }
        Ok(())
    }

    fn execution(&mut self, scenario: &Scenario, at: &Address) -> &mut TestExecution {
        let repetition = at.items().nth(1).filter(|_| scenario.times > 1).map(|index| index + 1);
        let (_, execution) = self.executions.entry(at.clone()).or_insert_with(|| {
            let execution = TestExecution {
                repetition,
                at: at.clone(),
                result: TestResult::NotRun,
                duration_ms: 0,
                turns: Vec::new(),
                checks: Vec::new(),
                error: None,
                failed_step: None,
                failed_judge: None,
                spent: Spend::default(),
            };
            (scenario.node.clone(), execution)
        });
        execution
    }

    fn take_end(&mut self, event: &Event, scenario: &Scenario, at: &Address) {
        match &event.kind {
            EventKind::ItemEnded(ended) => {
                let execution = self.execution(scenario, at);
                execution.duration_ms = ended.duration_ms;
                execution.error = ended.error.as_deref().map(of_case);
                let failed_judge = execution.failed_judge.take().filter(|_| ended.status == Status::Failed);
                if let Some(error) = failed_judge {
                    // What it was asked about is open because of that, and for no other reason.
                    execution.checks.pop();
                    (execution.error, execution.result) = (Some(error), TestResult::Errored);
                    return;
                }
                execution.result = match ended.status {
                    Status::Completed => TestResult::Passed,
                    Status::Skipped => TestResult::Skipped,
                    Status::Cancelled => TestResult::NotRun,
                    Status::Failed if execution.count(names::UNMET) > 0 => TestResult::Failed,
                    Status::Failed if execution.count(names::NOT_EVALUABLE) > 0 => TestResult::NotEvaluable,
                    Status::Failed => TestResult::Errored,
                };
            }
            // What is done again begins anew.
            EventKind::ItemRetrying { .. } => drop(self.executions.remove(at)),
            _ => {}
        }
    }

    fn take_step(&mut self, event: &Event, scenario: &Scenario, at: &Address) -> Result<(), CommandFailure> {
        if let Some(spent) = event.kind.spent() {
            let is_target = self.capture(&event.at) == Some("reply");
            let execution = self.execution(scenario, at);
            execution.spent.add(spent);
            if let Some(turn) = execution.turns.last_mut().filter(|_| is_target) {
                turn.spent.add(spent);
            }
        }
        let (EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. }) = &event.kind else {
            return Ok(());
        };
        let (history, plan) = (self.history, &self.history.plan);
        let Some(number) = event.at.step(plan) else { return Ok(()) };
        let step = &plan.steps[number as usize].step;
        let has_failed = output.status == Status::Failed;
        let capture = step.capture.as_ref().map(|capture| capture.value.clone());
        if let Action::Assert(assertion) = &step.action {
            let value = if has_failed { output.output.as_ref() } else { Some(&output.value) };
            let value = value.map(|value| history.load(value)).transpose()?.unwrap_or_default();
            let place = |offset: usize| {
                let (file, line, column) = history.source().place(offset);
                (file.to_owned(), line, column)
            };
            let members = assertion.expect.value.members().iter();
            let places =
                members.map(|member| (member.name().to_string(), place(member.span().range().start)));
            let check = TestCheck { places: places.collect(), at: event.at.clone(), value };
            let execution = self.execution(scenario, at);
            // What judges were asked about is compared again with what they said.
            let is_same = |known: &TestCheck| known.places == check.places;
            if execution.checks.last().is_some_and(is_same) {
                execution.checks.pop();
            }
            execution.checks.push(check);
        }
        if capture.as_deref() == Some("reply") {
            let millis = output.meta.get(names::EXECUTION_TIME_MS).and_then(Value::as_i64);
            let millis = millis.and_then(|millis| u64::try_from(millis).ok());
            if let Some(turn) = self.execution(scenario, at).turns.last_mut() {
                turn.duration_ms = millis;
            }
        }
        match capture.as_deref() {
            Some("prompt") if !has_failed => {
                let prompt = history.load(&output.value)?;
                let turn = Turn {
                    prompt,
                    duration_ms: None,
                    spent: Spend::default(),
                    answer: None,
                    error: None,
                    printed: Vec::new(),
                };
                self.execution(scenario, at).turns.push(turn);
            }
            Some("reply") if has_failed => {
                let printed = printed_lines(history.reader, output, PRINTED_LINES);
                let printed =
                    printed.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
                if let Some(turn) = self.execution(scenario, at).turns.last_mut() {
                    turn.error = Some(reason_of(output));
                    turn.printed = printed;
                }
            }
            Some("answer") if !has_failed => {
                let answer = history.load(&output.value)?;
                if let Some(turn) = self.execution(scenario, at).turns.last_mut() {
                    turn.answer = Some(answer);
                }
            }
            _ => {}
        }
        // A list fails because of a step in it, which is the one to name.
        if has_failed && !matches!(step.action, Action::ForEach(_)) {
            let judge = match &step.action {
                Action::Agent { agent, .. } if capture.as_deref().is_some_and(is_ruling) => {
                    Some(&agent.value)
                }
                _ => None,
            };
            let failed_judge =
                judge.map(|judge| format!("the judge `{judge}` gave no answer: {}", reason_of(output)));
            let execution = self.execution(scenario, at);
            execution.failed_step = Some(event.at.clone());
            execution.failed_judge = failed_judge;
        }
        Ok(())
    }

    /// The cases that have not begun when the run stopped, behind those that have.
    fn unbegun(&self, scenario: &Scenario, begun: &[TriedCase]) -> Result<Vec<TriedCase>, CommandFailure> {
        let Some((list_at, list, count)) = self.lists.get(&scenario.node) else { return Ok(Vec::new()) };
        if self.outcome.is_some() {
            return Ok(Vec::new());
        }
        let begun: BTreeSet<&Address> = begun.iter().map(|case| &case.at).collect();
        let mut cases = Vec::new();
        for index in 0..*count {
            let at = list_at.item(index);
            if begun.contains(&at) {
                continue;
            }
            let mut case = self.case(scenario, at, Vec::new());
            STOPPED_BEFORE.clone_into(&mut case.untried);
            if scenario.has_cases && case.case.is_none() {
                let value = self.history.item(ItemRef { list: *list, index })?;
                case.case = Some((case_name(&value), value));
            }
            cases.push(case);
        }
        Ok(cases)
    }

    fn finish(mut self) -> Result<TestedFile, CommandFailure> {
        let (history, plan) = (self.history, &self.history.plan);
        let mut by_node: BTreeMap<EcoString, Vec<TestExecution>> = BTreeMap::new();
        for (node, execution) in std::mem::take(&mut self.executions).into_values() {
            by_node.entry(node).or_default().push(execution);
        }
        let mut cases: Vec<TriedCase> = Vec::new();
        for scenario in &plan.workflow.scenarios {
            let first = cases.len();
            let mut executions = by_node.remove(&scenario.node).unwrap_or_default();
            executions.sort_by_key(|execution| execution.at.items().collect::<Vec<_>>());
            for execution in executions {
                let Some(item) = execution.at.items_around().next() else { continue };
                let last = cases[first..].last_mut().filter(|case| case.at == item);
                match last {
                    Some(case) => case.executions.push(execution),
                    None => cases.push(self.case(scenario, item, vec![execution])),
                }
            }
            // Those of which no repetition has begun.
            for (item, (node, status, error)) in &self.repeated {
                if *node == scenario.node && cases[first..].iter().all(|case| case.at != *item) {
                    let mut case = self.case(scenario, item.clone(), Vec::new());
                    (case.result, case.untried) = (untried_result(*status), error.clone());
                    cases.push(case);
                }
            }
            let unbegun = self.unbegun(scenario, &cases[first..])?;
            cases.extend(unbegun);
            cases[first..].sort_by_key(|case| case.at.items().collect::<Vec<_>>());
            let not_reached = || (Status::Cancelled, STOPPED_BEFORE.to_owned(), Address::root());
            let (status, reason, at) = self.nodes.get(&scenario.node).cloned().unwrap_or_else(not_reached);
            if cases.len() > first || status == Status::Completed && chooses_cases(plan, scenario) {
                continue;
            }
            let mut case = self.case(scenario, at, Vec::new());
            (case.result, case.untried) = match status {
                Status::Completed => (TestResult::Errored, NO_CASES.to_owned()),
                status => {
                    let reason = scenario.skip.as_ref().map_or(reason, ToString::to_string);
                    (untried_result(status), reason)
                }
            };
            cases.push(case);
        }
        number_equal_names(&mut cases);
        for case in cases.iter_mut().filter(|case| !case.executions.is_empty()) {
            let worst = case.executions.iter().map(|execution| execution.result).max();
            // Of several repetitions so many have passed as were asked for.
            let is_enough = matches!(self.repeated.get(&case.at), Some((_, Status::Completed, _)));
            case.result = worst.filter(|_| !is_enough).unwrap_or(TestResult::Passed);
        }
        let (first, end) = self.times.unwrap_or_default();
        Ok(TestedFile {
            file: history.started.file.to_string(),
            run: history.info.id.to_string(),
            workflow: history.started.workflow.to_string(),
            outcome: self.outcome,
            started_at: history.info.started_at.clone(),
            duration_ms: u64::try_from(end - first).unwrap_or(0),
            cases,
        })
    }

    fn case(&self, scenario: &Scenario, item: Address, executions: Vec<TestExecution>) -> TriedCase {
        let (file, line, column) = self.history.source().place(scenario.span.range().start);
        TriedCase {
            scenario: scenario.clone(),
            place: (file.to_owned(), line, column),
            case: self.cases.get(&item).map(|case| (case_name(case), case.clone())),
            at: item,
            result: TestResult::NotRun,
            untried: String::new(),
            executions,
        }
    }
}

/// The steps that ask targets, each with its scenario.
pub(super) fn target_steps(plan: &Plan) -> impl Iterator<Item = (&Step, &Scenario)> {
    let capture = |step: &Step| step.capture.as_ref().is_some_and(|capture| capture.value == "reply");
    let scenario = |number: &str| {
        let node = number.split('.').next()?.parse::<usize>().ok()?.checked_sub(1)?;
        let step = plan.lists.first()?.steps.get(node)?;
        let id = &plan.steps[*step as usize].step.id.as_ref()?.value;
        plan.workflow.scenarios.iter().find(|scenario| scenario.node == *id)
    };
    let asking = plan.steps.iter().filter(move |planned| capture(&planned.step));
    asking.filter_map(move |planned| Some((&*planned.step, scenario(&planned.number)?)))
}

/// Tells cases of one scenario with the same name apart: all but the first say which row they are.
fn number_equal_names(cases: &mut [TriedCase]) {
    let mut known = BTreeSet::new();
    for case in cases {
        let Some((name, _)) = &mut case.case else { continue };
        if !known.insert((case.scenario.node.clone(), name.clone())) {
            *name = numbered(name, &case.at);
        }
    }
}

/// The name of a case that another one has, too.
pub(super) fn numbered(name: &str, at: &Address) -> String {
    format!("{name} (row {})", at.items().next().map_or(0, |index| index + 1))
}

/// The result of a case of which nothing was tried.
fn untried_result(status: Status) -> TestResult {
    match status {
        Status::Skipped => TestResult::Skipped,
        Status::Failed => TestResult::Errored,
        Status::Completed | Status::Cancelled => TestResult::NotRun,
    }
}

/// Why a case was not tried.
const STOPPED_BEFORE: &str = "the run stopped before it was tried";

/// Why a scenario with an empty table is an error: it would pass whatever the target does.
const NO_CASES: &str = "there are no cases: the source of `cases` is empty";

/// Whether it depends on the names of cases which of them are tried.
pub(super) fn chooses_by_name(plan: &Plan) -> bool {
    plan.steps
        .iter()
        .any(|planned| matches!(&planned.step.action, Action::ForEach(each) if each.named.is_some()))
}

/// Whether only some cases of a scenario are tried.
fn chooses_cases(plan: &Plan, scenario: &Scenario) -> bool {
    plan.steps.iter().map(|planned| &planned.step).any(|step| {
        let is_it = step.id.as_ref().is_some_and(|id| id.value == scenario.node);
        is_it
            && matches!(&step.action, Action::ForEach(each) if each.filter.is_some() || each.named.is_some())
    })
}

/// Whether a capture is of what a judge says.
fn is_ruling(capture: &str) -> bool {
    capture.strip_prefix("ruling_").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn reason_of(output: &Output) -> String {
    let meta = |name: &str| output.meta.get(name);
    let text = meta(names::ERROR).or_else(|| meta(names::REASON)).map(ToString::to_string);
    text.as_deref().map(of_case).unwrap_or_default()
}

/// Why an execution failed, in the words of scenarios: to whoever tests, an item of a list is a case.
pub(super) fn of_case(error: &str) -> String {
    match error.strip_prefix("the item ") {
        Some(rest) => format!("the case {rest}"),
        None => error.to_owned(),
    }
}
