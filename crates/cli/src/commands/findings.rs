//! Problems of files as other systems read them: annotations of GitHub, SARIF, `JUnit`.

use std::fmt::Write as _;
use std::path::Path;

use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::diag::Severity;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;

use crate::junit::{TestCase, TestOutcome, TestSuite, TestTrouble, junit};

/// A checked file with its problems.
pub(super) struct CheckedFile {
    pub(super) file: SourceFile,
    pub(super) ok: bool,
    pub(super) problems: Vec<Problem>,
}

/// A problem and where it stands.
pub(super) struct PlacedProblem<'p> {
    pub(super) problem: &'p Problem,
    /// The file that it stands in, if that is not the one that was checked.
    pub(super) elsewhere: Option<&'p str>,
    file: &'p str,
    pub(super) start: (usize, usize),
    pub(super) end: (usize, usize),
}

impl<'p> PlacedProblem<'p> {
    pub(super) fn new(checked: &'p SourceFile, problem: &'p Problem) -> Self {
        let file = problem.file.as_ref().unwrap_or(checked);
        let range = problem.span.range();
        let named = file.placed(range.start).name;
        let elsewhere = (problem.file.is_some() || named != file.name()).then_some(named);
        Self {
            problem,
            elsewhere,
            file: named,
            start: file.line_column(range.start),
            end: file.line_column(range.end),
        }
    }

    pub(super) fn severity(&self) -> &'static str {
        match self.problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }

    /// The message with its notes and hints, a line each.
    fn text(&self) -> String {
        let notes = self.problem.notes.iter().map(|note| format!("note: {note}"));
        let hints = self.problem.hints.iter().map(|hint| format!("hint: {hint}"));
        let lines = std::iter::once(self.problem.message.clone()).chain(notes).chain(hints);
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl CheckedFile {
    fn placed(&self) -> impl Iterator<Item = PlacedProblem<'_>> {
        self.problems.iter().map(|problem| PlacedProblem::new(&self.file, problem))
    }
}

/// Commands of GitHub that put each problem beside its line.
pub(super) fn github(files: &[CheckedFile]) -> String {
    let mut out = String::new();
    for placed in files.iter().flat_map(CheckedFile::placed) {
        let ((line, column), (end_line, end_column)) = (placed.start, placed.end);
        let place = format!("line={line},col={column},endLine={end_line},endColumn={end_column}");
        out.push_str(&annotation(placed.severity(), placed.file, &place, placed.problem.id, &placed.text()));
    }
    out
}

/// One command of GitHub. Its values cannot end it.
pub(crate) fn annotation(severity: &str, file: &str, place: &str, title: &str, text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| {
        let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        text.replace(':', "%3A").replace(',', "%2C")
    };
    format!(
        "::{severity} file={},{place},title={}::{text}\n",
        property(&workspace_path(file)),
        property(title)
    )
}

/// A file as GitHub looks for it: by its path in the repository, in whatever folder of it the job works.
fn workspace_path(file: &str) -> String {
    let workspace = std::env::var_os("GITHUB_WORKSPACE").filter(|folder| !folder.is_empty());
    let inside = workspace.and_then(|folder| {
        let folder = Path::new(&folder).canonicalize().ok()?;
        let file = Path::new(file).canonicalize().ok()?;
        Some(file.strip_prefix(folder).ok()?.to_string_lossy().into_owned())
    });
    inside.unwrap_or_else(|| file.to_owned())
}

/// One run of SARIF 2.1.0.
pub(super) fn sarif(files: &[CheckedFile]) -> String {
    let results = files.iter().flat_map(CheckedFile::placed).map(|placed| {
        let ((line, column), (end_line, end_column)) = (placed.start, placed.end);
        let region = Value::record([
            ("startLine", Value::from(line)),
            ("startColumn", Value::from(column)),
            ("endLine", Value::from(end_line)),
            ("endColumn", Value::from(end_column)),
        ]);
        let place = Value::record([
            ("artifactLocation", Value::record([("uri", uri(placed.file).into())])),
            ("region", region),
        ]);
        Value::record([
            ("ruleId", placed.problem.id.into()),
            ("level", placed.severity().into()),
            ("message", Value::record([("text", placed.text().into())])),
            ("locations", Value::sequence([Value::record([("physicalLocation", place)])])),
        ])
    });
    let driver =
        Value::record([("name", Value::from("threadline")), ("version", env!("CARGO_PKG_VERSION").into())]);
    let run = Value::record([
        ("tool", Value::record([("driver", driver)])),
        ("columnKind", "unicodeCodePoints".into()),
        ("results", Value::sequence(results)),
    ]);
    let document = Value::record([
        ("version", Value::from("2.1.0")),
        ("$schema", "https://json.schemastore.org/sarif-2.1.0.json".into()),
        ("runs", Value::sequence([run])),
    ]);
    format!("{}\n", document.to_json(JsonStyle::Pretty))
}

/// A path as a reference of a URI.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A suite of one case for each file, which fails if the file has an error.
pub(super) fn suites(files: &[CheckedFile]) -> String {
    let cases = files.iter().map(|checked| {
        let errors: Vec<PlacedProblem<'_>> =
            checked.placed().filter(|placed| placed.problem.is_error()).collect();
        let outcome = match (checked.ok, errors.first()) {
            (true, _) | (false, None) => TestOutcome::Passed,
            (false, Some(first)) => TestOutcome::Failed(TestTrouble {
                message: first.problem.message.clone(),
                text: errors.iter().map(line).collect(),
            }),
        };
        TestCase { name: checked.file.name().to_owned(), time: None, outcome, output: String::new() }
    });
    junit(&[TestSuite {
        name: "threadline check".to_owned(),
        properties: Vec::new(),
        cases: cases.collect(),
    }])
}

fn line(placed: &PlacedProblem<'_>) -> String {
    let (line, column) = placed.start;
    format!(
        "{}:{line}:{column}: {}[{}]: {}\n",
        placed.file,
        placed.severity(),
        placed.problem.id,
        placed.text()
    )
}
