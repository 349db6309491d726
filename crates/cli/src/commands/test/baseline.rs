//! What has changed since an earlier time, whose JSON report is the baseline.

use std::path::Path;

use threadline_lang::{Limits, Value};

use super::results::{TestResult, TestedFile, TriedCase};
use super::text::answer_text;
use crate::commands::history::cannot_start;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::report::Report;

/// An earlier report.
pub(super) struct Baseline {
    name: String,
    cases: Vec<BaselineCase>,
}

/// A case of an earlier report.
pub(super) struct BaselineCase {
    file: String,
    key: CaseKey,
    /// The name for people.
    pub(super) name: String,
    pub(super) result: TestResult,
    /// What was answered, one text for each time that it was tried.
    pub(super) answers: Vec<String>,
}

/// What makes two cases of two reports the same: scenario, target and the name of the case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CaseKey {
    scenario: String,
    target: Option<String>,
    case: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseChange {
    NewlyFailing,
    NewlyPassing,
    /// It came to the same, by another answer.
    OtherAnswer,
    New,
}

/// What has changed since a baseline.
pub(super) struct BaselineComparison<'b> {
    /// The file of the baseline.
    pub(super) baseline: &'b str,
    /// For each file its cases in their order: what has changed, and the case of the baseline.
    changes: Vec<Vec<(Option<CaseChange>, Option<&'b BaselineCase>)>>,
    /// Those that are not there any more.
    pub(super) missing: Vec<&'b BaselineCase>,
}

impl CaseChange {
    pub(super) const ALL: [Self; 4] = [Self::NewlyFailing, Self::NewlyPassing, Self::OtherAnswer, Self::New];

    /// The word in reports for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewlyFailing => "newly_failing",
            Self::NewlyPassing => "newly_passing",
            Self::OtherAnswer => "changed_answer",
            Self::New => "new",
        }
    }

    /// The words for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NewlyFailing => "newly failing",
            Self::NewlyPassing => "newly passing",
            Self::OtherAnswer => "changed answer",
            Self::New => "new",
        }
    }
}

impl CaseKey {
    fn of(case: &TriedCase) -> Self {
        Self {
            scenario: case.scenario.id.to_string(),
            target: case.scenario.target.as_ref().map(ToString::to_string),
            case: case.case.as_ref().map(|(name, _)| name.clone()),
        }
    }
}

impl Baseline {
    pub(super) fn read(path: &Path) -> Result<Self, CommandFailure> {
        let file = inputs::read_source(path)?;
        let document =
            file.read_value(&Limits::DEFAULT).map_err(|error| inputs::unreadable(&file, &error))?;
        let name = path.display().to_string();
        let Some(cases) = cases_of(&document) else {
            let message = format!("`{name}` is no report of `threadline test`");
            let hint = "`threadline test --report json=FILE` writes one";
            return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]));
        };
        if cases.is_empty() {
            return Err(cannot_start(&format!("the report `{name}` has no case to compare with")));
        }
        Ok(Self { name, cases })
    }

    /// Compares files with the report. Whether `all` of what there is was tried decides what is missing: a file that
    /// was not tried, or a case that was not chosen, is not gone.
    pub(super) fn compare(
        &self,
        files: &[TestedFile],
        has_all_files: bool,
        has_all_cases: bool,
    ) -> BaselineComparison<'_> {
        let mut open: Vec<&BaselineCase> = self.cases.iter().collect();
        let is_tested = |file: &str| files.iter().any(|tested| tested.file == file);
        let mut changes = Vec::new();
        for file in files {
            let mut of_file = Vec::new();
            for case in &file.cases {
                let key = CaseKey::of(case);
                let same_file = open.iter().position(|known| known.key == key && known.file == file.file);
                // A file that has another name now.
                let moved = || open.iter().position(|known| known.key == key && !is_tested(&known.file));
                let before = same_file.or_else(moved).map(|at| open.remove(at));
                of_file.push((change_of(case, before), before));
            }
            changes.push(of_file);
        }
        let is_missing = |case: &&BaselineCase| has_all_cases && (has_all_files || is_tested(&case.file));
        BaselineComparison {
            baseline: &self.name,
            changes,
            missing: open.into_iter().filter(is_missing).collect(),
        }
    }
}

impl<'b> BaselineComparison<'b> {
    /// What has changed of a case, by the positions of its file and of itself.
    pub(super) fn change(&self, file: usize, case: usize) -> Option<CaseChange> {
        self.changes.get(file)?.get(case)?.0
    }

    /// The same case in the baseline.
    pub(super) fn before(&self, file: usize, case: usize) -> Option<&'b BaselineCase> {
        self.changes.get(file)?.get(case)?.1
    }

    pub(super) fn count(&self, change: CaseChange) -> usize {
        self.changes.iter().flatten().filter(|(known, _)| *known == Some(change)).count()
    }
}

fn change_of(case: &TriedCase, before: Option<&BaselineCase>) -> Option<CaseChange> {
    let Some(before) = before else { return Some(CaseChange::New) };
    match (before.result, case.result) {
        (_, TestResult::Skipped | TestResult::NotRun) => None,
        (before, now) if now.is_bad() && !before.is_bad() => Some(CaseChange::NewlyFailing),
        (before, TestResult::Passed) if before != TestResult::Passed => Some(CaseChange::NewlyPassing),
        _ => {
            // Of several repetitions none has to be like another: what counts is whether any is as before.
            let answers = answers(case);
            let is_other = !answers.is_empty()
                && !before.answers.is_empty()
                && answers.iter().all(|answer| !before.answers.contains(answer));
            is_other.then_some(CaseChange::OtherAnswer)
        }
    }
}

/// What was answered, one text for each execution that has an answer.
pub(super) fn answers(case: &TriedCase) -> Vec<String> {
    let of_execution = case.executions.iter().map(|execution| {
        let answers = execution.turns.iter().filter_map(|turn| turn.answer.as_ref());
        answers.map(answer_text).collect::<Vec<_>>().join("\n\n")
    });
    of_execution.filter(|text| !text.is_empty()).collect()
}

/// The cases of a report; nothing if it is none.
fn cases_of(document: &Value) -> Option<Vec<BaselineCase>> {
    let mut cases = Vec::new();
    for file in document.get("files")?.as_list()? {
        let name = file.get("file")?.as_str()?;
        for case in file.get("cases")?.as_list()? {
            cases.push(case_of(name, case)?);
        }
    }
    Some(cases)
}

fn case_of(file: &str, case: &Value) -> Option<BaselineCase> {
    let text = |key: &str| case.get(key).and_then(Value::as_str).map(str::to_owned);
    let key = CaseKey { scenario: text("scenario")?, target: text("target"), case: text("case") };
    let mut name = text("name")?;
    for part in [&key.target, &key.case].into_iter().flatten() {
        name = format!("{name} · {part}");
    }
    let executions = case.get("executions")?.as_list()?.iter();
    let answers = executions.map(|execution| {
        let turns = execution.get("turns").and_then(Value::as_list).unwrap_or_default();
        let answers = turns.iter().filter_map(|turn| turn.get("answer").filter(|answer| !answer.is_null()));
        answers.map(answer_text).collect::<Vec<_>>().join("\n\n")
    });
    let answers = answers.filter(|text| !text.is_empty()).collect();
    let result = TestResult::of_name(&text("result")?)?;
    Some(BaselineCase { file: file.to_owned(), key, name, result, answers })
}
