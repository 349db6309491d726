//! `threadline test`: tries the scenarios of files, each file as a run of its own, and reports what came of them.
//!
//! A run of scenarios is a run like every other: it is recorded, resumed and explained. Here it is only chosen what is
//! tried, and how the results are shown.

mod baseline;
mod ci;
mod failed;
mod html;
mod json;
mod rate;
mod results;
mod text;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::event::{Address, Datum, Event, EventKind, Status};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{Action, Scenario, ScenarioSelection, case_name};
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_runner::project::{Project, plain};
use unicode_width::UnicodeWidthStr;

use self::baseline::{Baseline, BaselineComparison};
use self::failed::LastRun;
use self::results::{TestResult, TestTotals, TestedFile, TriedCase};
use super::ci_report::{append_summary, check_report_path, is_on_github, write_report};
use super::history::{History, cannot_start, project, reader};
use super::run::{LineMaker, StartedRun, go_on, start};
use super::{print, print_styled};
use crate::arguments::{TestArguments, TestFormat};
use crate::exit::CommandFailure;
use crate::report::{self, first_line, visible};
use crate::screen::Screen;
use crate::stats;

/// The most characters of a reason in the line of an execution that no terminal shows.
const REASON_CHARS: usize = 100;

/// The columns of a report that no terminal shows.
const COLUMNS: usize = 100;

/// The narrowest column of names.
const MIN_NAME_WIDTH: usize = 24;

/// The columns of a case and of a repetition in the column of names.
const CASE_WIDTH: usize = 20;
const REPETITION_WIDTH: usize = 4;

/// The columns of a mark and a time in the line of an execution, with the blanks between.
const MARK_AND_TIME: usize = 14;

/// The most scenarios that a note about their targets names.
const SHOWN_TARGETS: usize = 3;

/// The ends of the names of files with scenarios, for whoever names none.
const ENDINGS: [&str; 3] = [".test.yaml", ".test.yml", ".test.json"];

pub(crate) fn test(call: &TestArguments) -> Result<(), CommandFailure> {
    for output in &call.report {
        check_report_path(&output.path)?;
    }
    let baseline = call.baseline.as_deref().map(Baseline::read).transpose()?;
    let session = TestSession { call, project: project(call.dir.as_deref())?, baseline };
    if call.watch {
        return watch::watch(&session);
    }
    let TriedFiles { tested, stopped, .. } = if call.resume.is_empty() {
        session.try_files(&session.files()?, false)?
    } else {
        session.go_on_with(&call.resume)?
    };
    session.report(&tested)?;
    if let Some(failure) = stopped {
        return Err(failure);
    }
    let is_bad = tested.iter().flat_map(|file| &file.cases).any(|case| case.result.is_bad());
    if is_bad { Err(CommandFailure::Shown(1)) } else { Ok(()) }
}

/// A call of `threadline test`.
struct TestSession<'c> {
    call: &'c TestArguments,
    project: Project,
    baseline: Option<Baseline>,
}

/// What came of some files.
#[derive(Default)]
struct TriedFiles {
    tested: Vec<TestedFile>,
    /// Files that cannot be tried, of which that is said already.
    refused: Vec<PathBuf>,
    /// Why not all of them were tried.
    stopped: Option<CommandFailure>,
}

/// What every report is made of.
struct TestReport<'r> {
    files: &'r [TestedFile],
    totals: TestTotals,
    comparison: Option<BaselineComparison<'r>>,
}

impl<'r> TestReport<'r> {
    fn cases(&self) -> impl Iterator<Item = (&'r TestedFile, &'r TriedCase)> {
        self.files.iter().flat_map(|file| file.cases.iter().map(move |case| (file, case)))
    }
}

/// What came of trying a file.
enum Tried {
    Ended(TestedFile),
    /// The run stopped before its end.
    Stopped(TestedFile, CommandFailure),
}

impl TriedFiles {
    /// Adds what came of one more file. Whether another one may be tried.
    fn add(&mut self, tried: Tried) -> bool {
        match tried {
            Tried::Ended(file) => self.tested.push(file),
            Tried::Stopped(file, failure) => {
                self.tested.push(file);
                self.stopped = Some(failure);
            }
        }
        self.stopped.is_none()
    }
}

impl TestSession<'_> {
    /// The folder that steps run in.
    fn folder(&self) -> &Path {
        self.project.here()
    }

    /// Tries files one after the other. Whoever watches goes on after a file that cannot be tried.
    fn try_files(&self, files: &[PathBuf], goes_on: bool) -> Result<TriedFiles, CommandFailure> {
        let mut tried = TriedFiles::default();
        let mut has_left_out = false;
        for file in files {
            let Some(selection) = self.selection(file)? else {
                has_left_out = true;
                continue;
            };
            match self.try_file(file, selection) {
                Ok(file) => {
                    if !tried.add(file) {
                        break;
                    }
                }
                // Another file may have what was asked for.
                Err(CommandFailure::NothingChosen) => {}
                Err(failure) if goes_on => {
                    failure.show();
                    tried.refused.push(file.clone());
                }
                Err(failure) => return Err(failure),
            }
        }
        let has_none = tried.tested.iter().all(|file| file.cases.is_empty());
        if has_none && !has_left_out && !goes_on {
            return Err(CommandFailure::NothingChosen);
        }
        Ok(tried)
    }

    /// What is tried of a file; nothing where nothing of it failed and only that was asked for.
    fn selection(&self, file: &Path) -> Result<Option<ScenarioSelection>, CommandFailure> {
        let selection = self.call.selection();
        if !self.call.failed {
            return Ok(Some(selection));
        }
        let name = file.display();
        match failed::last_run(&self.project, self.call.trust_store, file)? {
            LastRun::Failed(nodes) => Ok(Some(ScenarioSelection { only: Some(nodes), ..selection })),
            LastRun::Passed(run) => {
                report::print_note(&format!("no case of `{name}` failed in its last run, {run}"));
                Ok(None)
            }
            LastRun::Missing => {
                report::print_note(&format!("`{name}` was not tried before: all of it is tried"));
                Ok(Some(selection))
            }
        }
    }

    /// Runs the scenarios of a file and reads what came of them.
    fn try_file(&self, file: &Path, selection: ScenarioSelection) -> Result<Tried, CommandFailure> {
        let run = self.call.run_of(file.to_owned(), selection);
        let is_shown = self.call.format == TestFormat::Text;
        let watch = |plan: &Arc<Plan>| {
            self.warn_of_no_exchange(plan, file);
            watcher(plan, is_shown, BTreeMap::new())
        };
        let driven = start(&run, Some(&watch))?;
        if self.call.stats {
            stats::print(&driven.store);
        }
        read_driven(driven)
    }

    /// Warns of targets that are no agents where answers of agents are recorded or replayed.
    fn warn_of_no_exchange(&self, plan: &Plan, file: &Path) {
        let (flag, what) = match (&self.call.record, &self.call.replay) {
            (Some(_), _) => ("--record", "is not recorded"),
            (None, Some(_)) => ("--replay", "runs as always"),
            (None, None) => return,
        };
        let mut names: Vec<String> = Vec::new();
        for (step, scenario) in results::target_steps(plan) {
            // What a called workflow asks of agents is recorded.
            let is_agent = matches!(step.action, Action::Agent { .. } | Action::Workflow(_));
            if !is_agent && !names.contains(&format!("`{}`", scenario.title())) {
                names.push(format!("`{}`", scenario.title()));
            }
        }
        if names.is_empty() {
            return;
        }
        if let Some(more @ 1..) = names.len().checked_sub(SHOWN_TARGETS) {
            names.truncate(SHOWN_TARGETS);
            names.push(format!("{more} more"));
        }
        let message = format!(
            "`{flag}` is about agents only: in `{}` the target of {} {what}",
            file.display(),
            words::list(names, "and")
        );
        report::print_note(&message);
    }

    /// Continues runs one after the other.
    fn go_on_with(&self, runs: &[String]) -> Result<TriedFiles, CommandFailure> {
        let mut tried = TriedFiles::default();
        for run in runs {
            if !tried.add(self.go_on(run)?) {
                break;
            }
        }
        Ok(tried)
    }

    /// Continues a run of scenarios that stopped. One that has ended is only reported.
    fn go_on(&self, run: &str) -> Result<Tried, CommandFailure> {
        let reader = reader(self.call.dir.as_deref())?;
        let history = History::open(&reader, run)?;
        if history.plan.workflow.scenarios.is_empty() {
            let message = format!("run `{}` tried no scenarios", history.info.id);
            return Err(cannot_start(&message));
        }
        let tested = results::read(&history)?;
        if tested.outcome.is_some() {
            return Ok(Tried::Ended(tested));
        }
        let is_shown = self.call.format == TestFormat::Text;
        // What the killed process was told of the cases is not told again.
        let named =
            tested.cases.iter().filter_map(|case| Some((case.at.clone(), case.case.as_ref()?.0.clone())));
        let named: BTreeMap<Address, String> = named.collect();
        let watch = |plan: &Arc<Plan>| watcher(plan, is_shown, named.clone());
        match go_on(&self.call.resume_of(history.info.id.to_string()), Some(&watch))? {
            Some(driven) => read_driven(driven),
            None => Ok(Tried::Ended(tested)),
        }
    }

    /// Compares files with the baseline, if there is one.
    fn compared<'r>(&'r self, files: &'r [TestedFile]) -> TestReport<'r> {
        // What a run that is continued was to try, its call said.
        let is_chosen = self.call.failed || !self.call.resume.is_empty();
        let has_all_cases = !is_chosen && self.call.selection().is_all();
        let has_all_files = self.call.files.is_empty();
        let comparison =
            self.baseline.as_ref().map(|baseline| baseline.compare(files, has_all_files, has_all_cases));
        TestReport { files, totals: TestTotals::of(files), comparison }
    }

    /// Prints and writes every report that was asked for, and what the environment asks for.
    fn report(&self, files: &[TestedFile]) -> Result<(), CommandFailure> {
        let report = self.compared(files);
        self.print(&report)?;
        self.write(&report)
    }

    /// The same while files are watched: what is new is printed, and everything is written.
    fn report_watched(
        &self,
        known: &mut Vec<TestedFile>,
        new: Vec<TestedFile>,
    ) -> Result<(), CommandFailure> {
        if self.call.format == TestFormat::Text && !new.is_empty() {
            self.print(&self.compared(&new))?;
        }
        let is_gone = |file: &TestedFile| !Path::new(&file.file).exists();
        known.retain(|file| new.iter().all(|newer| newer.file != file.file) && !is_gone(file));
        known.extend(new);
        known.sort_by(|one, other| one.file.cmp(&other.file));
        let report = self.compared(known);
        if self.call.format != TestFormat::Text {
            self.print(&report)?;
        }
        self.write(&report)
    }

    fn print(&self, report: &TestReport<'_>) -> Result<(), CommandFailure> {
        match self.call.format {
            TestFormat::Text => print_styled(&text::report(report, columns())),
            format => print(&rendered(format, report)?),
        }
    }

    fn write(&self, report: &TestReport<'_>) -> Result<(), CommandFailure> {
        for output in &self.call.report {
            write_report(&output.path, &rendered(output.format, report)?)?;
        }
        if !is_on_github() {
            return Ok(());
        }
        if self.call.format == TestFormat::Text {
            print(&ci::annotations(report))?;
        }
        append_summary(&ci::markdown(report))
    }

    /// The files that are named, those below folders that are named, or all below the current folder.
    fn files(&self) -> Result<Vec<PathBuf>, CommandFailure> {
        files_of(self.call)
    }
}

/// What came of a run that ended or stopped.
fn read_driven(driven: StartedRun) -> Result<Tried, CommandFailure> {
    let StartedRun { store, id, stopped } = driven;
    let history = History::open(store.reader(), &id)?;
    let tested = results::read(&history)?;
    if stopped.outcome().is_some() {
        return Ok(Tried::Ended(tested));
    }
    let failure = match stopped.conclude(&store, &id, true) {
        Err(failure) => failure,
        Ok(()) => CommandFailure::Shown(4),
    };
    Ok(Tried::Stopped(tested, failure))
}

/// A report in a format, without styles.
fn rendered(format: TestFormat, report: &TestReport<'_>) -> Result<String, CommandFailure> {
    Ok(match format {
        TestFormat::Text => {
            let text = text::report(report, COLUMNS);
            report::guard(&anstream::adapter::strip_str(&text).to_string()).into_owned()
        }
        TestFormat::Json => json::report(report)?,
        TestFormat::Junit => ci::junit(report),
        TestFormat::Html => html::report(report),
        TestFormat::Github => ci::annotations(report),
    })
}

/// The columns that a line may have.
fn columns() -> usize {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    if is_terminal { Screen::size().columns } else { COLUMNS }
}

/// The files that are named, those below folders that are named, or all below the current folder.
fn files_of(call: &TestArguments) -> Result<Vec<PathBuf>, CommandFailure> {
    let here = [PathBuf::from(".")];
    let named = if call.files.is_empty() { &here[..] } else { &call.files[..] };
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        collect(path, &mut files)?;
        if files.len() == before {
            let message = format!(
                "no file below `{}` has a name that ends with {}",
                path.display(),
                words::code_list(ENDINGS, "or")
            );
            return Err(cannot_start(&message));
        }
    }
    Ok(files)
}

/// Adds the files with scenarios below a folder, in the order of their names.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CommandFailure> {
    let refused = |error: std::io::Error| cannot_start(&format!("`{}`: {}", folder.display(), plain(&error)));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        entries.push(entry.map_err(refused)?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A link may lead in a circle.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !name.starts_with('.') {
            collect(&entry.path(), files)?;
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            let path = entry.path();
            files.push(path.strip_prefix("./").map(Path::to_owned).unwrap_or(path));
        }
    }
    Ok(())
}

/// Gives a line for each execution when it ends, with the names of cases that are known already.
fn watcher(plan: &Arc<Plan>, is_shown: bool, cases: BTreeMap<Address, String>) -> LineMaker {
    let mut lines = ProgressLines { cases, ..ProgressLines::new(Arc::clone(plan)) };
    Box::new(move |event: &Event| {
        let lines = lines.take(&event.at, &event.kind);
        if is_shown { lines } else { Vec::new() }
    })
}

struct ProgressLines {
    plan: Arc<Plan>,
    /// The line of the run, until it is known that a case is tried.
    heading: Option<String>,
    /// The cases that run, as far as their events hold them.
    cases: BTreeMap<Address, String>,
    /// The names of cases that were told, with the ids of their nodes.
    names: BTreeSet<(EcoString, String)>,
    /// Why an expectation is not met, for executions that run.
    unmet: BTreeMap<Address, (TestResult, String)>,
    name_width: usize,
    /// The columns for a reason; none where no terminal shows it.
    reason_width: Option<usize>,
}

impl ProgressLines {
    fn new(plan: Arc<Plan>) -> Self {
        let scenarios = plan.workflow.scenarios.iter();
        let widest = scenarios.map(|scenario| {
            let target = scenario.target.as_ref().map_or(0, |target| target.width() + 3);
            let case = if scenario.has_cases { CASE_WIDTH } else { 0 };
            let repetition = if scenario.times > 1 { REPETITION_WIDTH } else { 0 };
            scenario.name.width() + target + case + repetition
        });
        let columns = columns();
        let name_width = widest.max().unwrap_or(0).clamp(MIN_NAME_WIDTH, (columns / 2).max(MIN_NAME_WIDTH));
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        let reason_width = is_terminal.then(|| columns.saturating_sub(name_width + MARK_AND_TIME));
        Self {
            plan,
            heading: None,
            cases: BTreeMap::new(),
            names: BTreeSet::new(),
            unmet: BTreeMap::new(),
            name_width,
            reason_width,
        }
    }

    fn take(&mut self, at: &Address, kind: &EventKind) -> Vec<String> {
        if let EventKind::RunStarted(started) = kind {
            let heading = format!("{}  run {}", visible(&started.workflow), started.run);
            if results::chooses_by_name(&self.plan) {
                self.heading = Some(heading);
                return Vec::new();
            }
            return vec![heading];
        }
        let line = self.line_of(at, kind);
        if line.is_some() { self.heading.take().into_iter().chain(line).collect() } else { Vec::new() }
    }

    /// The line for an event that ends an execution.
    fn line_of(&mut self, at: &Address, kind: &EventKind) -> Option<String> {
        let plan = Arc::clone(&self.plan);
        let step = at.step(&plan)?;
        let outer = at.outermost()?.step(&plan)?;
        let id = &plan.steps[outer as usize].step.id.as_ref()?.value;
        let scenario = plan.workflow.scenarios.iter().find(|scenario| scenario.node == *id)?;
        let levels = if scenario.times > 1 { 2 } else { 1 };
        let step = &plan.steps[step as usize].step;
        let capture = step.capture.as_ref().map(|capture| &*capture.value);
        match kind {
            EventKind::Finished { output, .. } if capture == Some("case") => {
                if let (Datum::Here(case), Some(item)) = (&output.value, at.items_around().next()) {
                    // The name of a case that goes on is known.
                    if !self.cases.contains_key(&item) {
                        let mut name = case_name(case);
                        if !self.names.insert((id.clone(), name.clone())) {
                            name = results::numbered(&name, &item);
                        }
                        self.cases.insert(item, name);
                    }
                }
                None
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. }
                if matches!(step.action, Action::Assert(_)) && output.status == Status::Failed =>
            {
                let execution = at.items_around().nth(levels - 1)?;
                if let Some(Datum::Here(value)) = &output.output {
                    self.unmet.insert(execution, first_unmet(value)?);
                }
                None
            }
            EventKind::ItemEnded(ended) if at.items().count() == levels => {
                let unmet = self.unmet.remove(at);
                let result = match ended.status {
                    Status::Completed => TestResult::Passed,
                    Status::Skipped => TestResult::Skipped,
                    Status::Cancelled => TestResult::NotRun,
                    Status::Failed => unmet.as_ref().map_or(TestResult::Failed, |(result, _)| *result),
                };
                let item = at.items_around().next()?;
                let case = self.cases.get(&item).cloned();
                if levels == 1 {
                    self.cases.remove(&item);
                }
                let error = ended.error.as_deref().map(results::of_case);
                let reason = unmet.as_ref().map(|(_, reason)| reason.as_str()).or(error.as_deref());
                Some(self.line(scenario, case, at, result, Some(ended.duration_ms), reason))
            }
            EventKind::Skipped { .. } if !at.is_in_items() => {
                Some(self.line(scenario, None, at, TestResult::Skipped, None, scenario.skip.as_deref()))
            }
            _ => None,
        }
    }

    fn line(
        &self,
        scenario: &Scenario,
        case: Option<String>,
        at: &Address,
        result: TestResult,
        duration_ms: Option<u64>,
        reason: Option<&str>,
    ) -> String {
        let mut name = scenario.title().to_string();
        name.extend(case.map(|case| format!(" · {case}")));
        let mut repetition = String::new();
        if scenario.times > 1 {
            repetition.extend(at.items().nth(1).map(|index| format!(" #{}", index + 1)));
        }
        // The number of a repetition is never cut off.
        let name = text::cut(&visible(&name), self.name_width.saturating_sub(repetition.width()));
        let name = text::padded(&format!("{name}{repetition}"), self.name_width);
        let (style, mark) = text::mark(result);
        let time = duration_ms.map(|millis| words::duration(std::time::Duration::from_millis(millis)));
        let reason = reason.map(first_line).filter(|_| result != TestResult::Passed).unwrap_or_default();
        let reason = match self.reason_width {
            Some(width) => text::cut(&visible(reason), width),
            None => words::shorten(&visible(reason), REASON_CHARS).into_owned(),
        };
        let line = format!("{style}{mark}{style:#} {name} {:>8}  {reason}", time.unwrap_or_default());
        line.trim_end().to_owned()
    }
}

/// The first expectation of several that is not met, by what all of them came to: one that is unmet before one that
/// cannot be evaluated.
fn first_unmet(value: &Value) -> Option<(TestResult, String)> {
    let outcomes = value.get(names::OUTCOMES)?.as_list()?;
    let first = |word: &str| outcomes.iter().find(|outcome| results::result_of(outcome) == word);
    let (result, outcome) = match first("unmet") {
        Some(outcome) => (TestResult::Failed, outcome),
        None => (TestResult::NotEvaluable, first("not_evaluable")?),
    };
    Some((result, outcome.get("reason")?.to_string()))
}

impl TestArguments {
    fn selection(&self) -> ScenarioSelection {
        ScenarioSelection {
            filters: self.filter.iter().map(Into::into).collect(),
            tags: self.tag.iter().map(Into::into).collect(),
            shard: self.shard,
            only: None,
            targets: self.target.as_ref().map(|path| path.display().to_string().into()),
        }
    }
}
