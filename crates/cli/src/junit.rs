//! The XML of `JUnit`, which most CI systems show: suites of cases, each with its outcome.

use std::fmt::Write as _;
use std::time::Duration;

use threadline_inspect::xml::xml;

/// The cases of one file or run.
pub(crate) struct TestSuite {
    pub(crate) name: String,
    /// What else is to be known of it, by name.
    pub(crate) properties: Vec<(&'static str, String)>,
    pub(crate) cases: Vec<TestCase>,
}

pub(crate) struct TestCase {
    pub(crate) name: String,
    /// How long it took, if that was measured.
    pub(crate) time: Option<Duration>,
    pub(crate) outcome: TestOutcome,
    /// What was said, where the outcome does not have it; empty for nothing.
    pub(crate) output: String,
}

pub(crate) enum TestOutcome {
    Passed,
    /// It did not run, for this reason.
    Skipped(String),
    Failed(TestTrouble),
    /// It could not be said whether it passes.
    Errored(TestTrouble),
}

/// What went wrong, in a line and at length.
pub(crate) struct TestTrouble {
    pub(crate) message: String,
    pub(crate) text: String,
}

/// Writes suites as one document.
pub(crate) fn junit(suites: &[TestSuite]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all: Vec<&TestCase> = suites.iter().flat_map(|suite| &suite.cases).collect();
    // Writing into a text cannot fail.
    // The schema of Jenkins knows the number of skipped cases only of a suite.
    let _ = writeln!(out, "<testsuites {}>", counts(&all));
    for suite in suites {
        let name = xml(&suite.name);
        let cases: Vec<&TestCase> = suite.cases.iter().collect();
        let skipped = cases.iter().filter(|case| matches!(case.outcome, TestOutcome::Skipped(_))).count();
        let skipped = if skipped == 0 { String::new() } else { format!(" skipped=\"{skipped}\"") };
        let _ = writeln!(out, "  <testsuite name=\"{name}\" {}{skipped}>", counts(&cases));
        if !suite.properties.is_empty() {
            out.push_str("    <properties>\n");
            for (name, value) in &suite.properties {
                let _ = writeln!(out, "      <property name=\"{name}\" value=\"{}\"/>", xml(value));
            }
            out.push_str("    </properties>\n");
        }
        for case in cases {
            let _ = write!(out, "    <testcase classname=\"{name}\" name=\"{}\"", xml(&case.name));
            if let Some(time) = case.time {
                let _ = write!(out, " time=\"{:.3}\"", time.as_secs_f64());
            }
            let (element, TestTrouble { message, text }) = match &case.outcome {
                TestOutcome::Passed if case.output.is_empty() => {
                    out.push_str("/>\n");
                    continue;
                }
                TestOutcome::Passed => {
                    let output = xml(&case.output);
                    let _ = writeln!(out, ">\n      <system-out>{output}</system-out>\n    </testcase>");
                    continue;
                }
                TestOutcome::Skipped(reason) => {
                    let reason = xml(reason);
                    let _ = writeln!(out, ">\n      <skipped>{reason}</skipped>\n    </testcase>");
                    continue;
                }
                TestOutcome::Failed(trouble) => ("failure", trouble),
                TestOutcome::Errored(trouble) => ("error", trouble),
            };
            let (message, text) = (xml(message), xml(text));
            let _ = writeln!(out, ">\n      <{element} message=\"{message}\">{text}</{element}>");
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts(cases: &[&TestCase]) -> String {
    let failed = cases.iter().filter(|case| matches!(case.outcome, TestOutcome::Failed(_))).count();
    let errored = cases.iter().filter(|case| matches!(case.outcome, TestOutcome::Errored(_))).count();
    format!("tests=\"{}\" failures=\"{failed}\" errors=\"{errored}\"", cases.len())
}
