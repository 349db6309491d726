//! Results of scenarios for people: every failure, the pass rates, what has changed, and a summary.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::TestReport;
use super::baseline::{BaselineComparison, CaseChange};
use super::results::{TestExecution, TestResult, TestedFile, TriedCase, result_of};
use crate::report::visible;
use crate::reporter::spend_text;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const UNSURE: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// The most lines of a prompt or an answer in the report of a failure.
const MAX_LINES: usize = 12;

/// The most failed repetitions of one case that are shown.
const MAX_REPETITIONS: usize = 3;

/// The column in which the texts of a failure begin.
const TEXT_COLUMN: usize = 10;

/// The fewest columns that a text is wrapped to.
const MIN_WIDTH: usize = 20;

/// The mark of a result, in its color.
pub(super) fn mark(result: TestResult) -> (Style, &'static str) {
    match result {
        TestResult::Passed => (GOOD, "✓"),
        TestResult::Failed | TestResult::Errored => (BAD, "✗"),
        TestResult::NotEvaluable => (UNSURE, "?"),
        TestResult::Skipped | TestResult::NotRun => (DIM, "-"),
    }
}

/// The failures of all files, then what came of everything, for a screen of so many columns.
pub(super) fn report(report: &TestReport<'_>, columns: usize) -> String {
    let mut writer = TextReport { out: String::new(), columns };
    for file in report.files {
        for case in &file.cases {
            writer.push_failures(file, case);
        }
    }
    writer.push_repeats(report.files);
    if let Some(comparison) = &report.comparison {
        writer.push_comparison(report, comparison);
    }
    writer.push_summary(report);
    writer.out
}

struct TextReport {
    out: String,
    columns: usize,
}

impl TextReport {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.out, "{line}");
    }

    fn push_failures(&mut self, file: &TestedFile, case: &TriedCase) {
        if case.executions.is_empty() && case.result.is_bad() {
            let (style, mark) = mark(case.result);
            self.line(format_args!("\n{style}{mark} {}{style:#}", visible(&case.name())));
            self.push_block(case.result.words(), &case.untried);
            let (file, line, column) = &case.place;
            self.push_dim(&format!("{file}:{line}:{column}"));
            return;
        }
        for execution in case.failures().take(MAX_REPETITIONS) {
            self.push_failure(file, case, execution);
        }
        if let Some(more @ 1..) = case.failures().count().checked_sub(MAX_REPETITIONS) {
            let repetitions = words::plural(&more, "repetition");
            self.line(format_args!(
                "\n{DIM}  … {more} more {repetitions} of {} failed{DIM:#}",
                visible(&case.name())
            ));
        }
    }

    fn push_failure(&mut self, file: &TestedFile, case: &TriedCase, execution: &TestExecution) {
        let (style, mark) = mark(execution.result);
        self.line(format_args!("\n{style}{mark} {}{style:#}", visible(&case.name_of(execution))));
        for turn in &execution.turns {
            self.push_block("prompt", &turn.prompt.to_string());
            if let Some(answer) = &turn.answer {
                self.push_block("answer", &answer_text(answer));
                let calls: Vec<String> = tool_calls(answer).iter().map(CalledToolText::text).collect();
                if !calls.is_empty() {
                    self.push_block("tools", &calls.join("\n"));
                }
            }
            if let Some(error) = &turn.error {
                self.push_block("error", error);
                for line in &turn.printed {
                    self.line(format_args!("{:TEXT_COLUMN$}{}", "", visible(line)));
                }
            }
        }
        let mut told = execution.turns.iter().any(|turn| turn.error.is_some());
        for (check, outcome) in execution.unmet() {
            told = true;
            let is_unmet = result_of(outcome) == "unmet";
            let (style, word) = if is_unmet { (BAD, "✗ unmet") } else { (UNSURE, "? not evaluable") };
            let reason = outcome.get("reason").map(ToString::to_string).unwrap_or_default();
            let lines = wrapped(&format!("{word}: {reason}"), self.width(4));
            for (at, line) in lines.iter().enumerate() {
                let (indent, styled) = if at == 0 {
                    let rest = line.strip_prefix(word).unwrap_or(line);
                    ("  ", format!("{style}{word}{style:#}{rest}"))
                } else {
                    ("    ", line.clone())
                };
                self.line(format_args!("{indent}{styled}"));
            }
            if let Some((file, line, column)) = check.place_of(outcome) {
                self.line(format_args!("    {DIM}{}:{line}:{column}{DIM:#}", visible(file)));
            }
            if let Some(tree) = outcome.get("tree").filter(|tree| tree.get("children").is_some()) {
                self.push_tree(tree, 2);
            }
        }
        let opinions: Vec<String> = execution.opinions().map(opinion_text).collect();
        if !opinions.is_empty() {
            self.push_block("judges", &opinions.join("\n"));
        }
        if let Some(error) = execution.error.as_deref().filter(|_| !told) {
            self.push_block("error", error);
        }
        if let Some(at) = &execution.failed_step {
            self.push_dim(&format!("threadline explain {} '{at}'", file.run));
        }
    }

    /// The lines of a tree, each below the one that it belongs to.
    fn push_tree(&mut self, tree: &Value, depth: usize) {
        let text = |key: &str| tree.get(key).and_then(Value::as_str).unwrap_or_default();
        let (style, mark) = tree_mark(text("result"));
        let indent = 2 * depth.min(self.columns / 4);
        let lines = wrapped(&tree_line(tree), self.width(indent + 2));
        for (at, line) in lines.iter().enumerate() {
            if at == 0 {
                self.line(format_args!("{:indent$}{style}{mark}{style:#} {line}", ""));
            } else {
                self.line(format_args!("{:indent$}  {line}", ""));
            }
        }
        for child in tree.get("children").and_then(Value::as_list).unwrap_or_default() {
            self.push_tree(child, depth + 1);
        }
    }

    fn push_block(&mut self, label: &str, text: &str) {
        let width = self.width(TEXT_COLUMN);
        let lines: Vec<String> = text.trim_end().lines().flat_map(|line| wrapped(line, width)).collect();
        for (at, line) in lines.iter().take(MAX_LINES).enumerate() {
            let label = if at == 0 { label } else { "" };
            let margin = TEXT_COLUMN - 4;
            self.line(format_args!("  {DIM}{label:<margin$}{DIM:#}  {line}"));
        }
        if let Some(more @ 1..) = lines.len().checked_sub(MAX_LINES) {
            let more = words::count(more, "more line");
            self.line(format_args!("{:TEXT_COLUMN$}{DIM}… {more}{DIM:#}", ""));
        }
    }

    fn push_dim(&mut self, text: &str) {
        self.line(format_args!("  {DIM}{}{DIM:#}", visible(text)));
    }

    /// The pass rates of what was tried several times.
    fn push_repeats(&mut self, files: &[TestedFile]) {
        let cases: Vec<&TriedCase> = files.iter().flat_map(|file| &file.cases).collect();
        let repeated: Vec<_> = cases.iter().filter_map(|case| Some((case, case.rate()?))).collect();
        let flaky: Vec<_> =
            cases.iter().flat_map(|case| case.flaky().into_iter().map(move |judge| (case, judge))).collect();
        if !repeated.is_empty() || !flaky.is_empty() {
            self.out.push('\n');
        }
        for (case, rate) in repeated {
            let (style, mark) = mark(case.result);
            self.line(format_args!(
                "{style}{mark}{style:#} {}  {} of {} passed, {} {DIM}(95 %: {}){DIM:#}",
                visible(&case.name()),
                rate.passed,
                rate.tried,
                rate.percent(),
                rate.interval_text()
            ));
        }
        for (case, judge) in flaky {
            self.line(format_args!(
                "{UNSURE}flaky{UNSURE:#}  the judge `{}` disagrees with itself about {}",
                visible(judge),
                visible(&case.name())
            ));
        }
    }

    fn push_comparison(&mut self, report: &TestReport<'_>, comparison: &BaselineComparison<'_>) {
        self.line(format_args!("\n{BOLD}compared with {}{BOLD:#}", visible(comparison.baseline)));
        let mut has_any = false;
        let cases = report.files.iter().enumerate().flat_map(|(file_at, file)| {
            file.cases.iter().enumerate().map(move |(at, case)| (file_at, at, case))
        });
        let cases: Vec<_> = cases.collect();
        for change in CaseChange::ALL {
            for (file_at, at, case) in &cases {
                if comparison.change(*file_at, *at) != Some(change) {
                    continue;
                }
                has_any = true;
                let style = change_style(change);
                self.line(format_args!(
                    "  {style}{:<14}{style:#}  {}",
                    change.words(),
                    visible(&case.name())
                ));
                if let (CaseChange::OtherAnswer, Some(before)) = (change, comparison.before(*file_at, *at)) {
                    let now = super::baseline::answers(case);
                    for (label, answers) in [("before", &before.answers), ("now", &now)] {
                        let answer = answers.first().map_or("", String::as_str);
                        let answer = visible(&answer.lines().collect::<Vec<_>>().join(" "));
                        let answer = cut(&answer, self.width(26));
                        self.line(format_args!("{:18}{DIM}{label:<6}{DIM:#}  {answer}", ""));
                    }
                }
            }
        }
        for case in &comparison.missing {
            self.line(format_args!("  {UNSURE}{:<14}{UNSURE:#}  {}", "missing", visible(&case.name)));
        }
        if !has_any && comparison.missing.is_empty() {
            self.push_dim("nothing has changed");
        }
    }

    fn push_summary(&mut self, report: &TestReport<'_>) {
        let totals = &report.totals;
        let parts: Vec<String> = TestResult::ALL
            .into_iter()
            .map(|result| (totals.count(result), result))
            .filter(|(count, result)| *count > 0 || *result == TestResult::Passed)
            .map(|(count, result)| {
                let (style, _) = mark(result);
                let style = if count == 0 { Style::new() } else { style };
                format!("{style}{count} {}{style:#}", result.words())
            })
            .collect();
        let mut details = vec![words::duration(Duration::from_millis(totals.duration_ms))];
        if totals.executions > totals.cases {
            details.push(words::count(totals.executions, "execution"));
        }
        details.extend(spend_text(&totals.spent));
        self.line(format_args!(
            "\n{BOLD}{}{BOLD:#}: {} {DIM}({}){DIM:#}",
            words::count(totals.cases, "case"),
            parts.join(", "),
            details.join(", ")
        ));
        if totals.vacuous > 0 {
            let count = words::count(totals.vacuous, "expectation");
            self.line(format_args!("{count} met only because a `when` was not: look whether that is meant"));
        }
        for file in report.files.iter().filter(|file| file.outcome.is_none()) {
            let run = &file.run;
            self.line(format_args!("note: run {run} stopped; `threadline test --resume {run}` goes on"));
        }
    }

    /// The columns that are left for a text behind so many.
    fn width(&self, taken: usize) -> usize {
        self.columns.saturating_sub(taken).max(MIN_WIDTH)
    }
}

/// What a judge said of an answer, in one line.
pub(super) fn opinion_text(opinion: &Value) -> String {
    let text = |key: &str| opinion.get(key).map(ToString::to_string).unwrap_or_default();
    let count = |key: &str| opinion.get(key).and_then(Value::as_i64).unwrap_or(0);
    let mut said = match (count("yes"), count("no")) {
        (0, 0) => "no vote".to_owned(),
        (1, 0) => "yes".to_owned(),
        (0, 1) => "no".to_owned(),
        (yes, no) => format!("yes {yes}, no {no}"),
    };
    let is_flaky = opinion.get("flaky").and_then(Value::as_bool) == Some(true);
    said.push_str(if is_flaky { ", flaky" } else { "" });
    said.push_str(if count("misquoted") > 0 { ", misquoted" } else { "" });
    format!("{} on “{}”: {said}: {}", text("judge"), text("question"), text("reason"))
}

/// The mark of a line of a tree, in its color.
pub(super) fn tree_mark(result: &str) -> (Style, &'static str) {
    match result {
        "met" => (GOOD, "✓"),
        "unmet" => (BAD, "✗"),
        "not_evaluable" => (UNSURE, "?"),
        _ => (DIM, "·"),
    }
}

/// What a line of a tree says: what it is about, and why.
pub(super) fn tree_line(tree: &Value) -> String {
    let text = |key: &str| tree.get(key).and_then(Value::as_str).unwrap_or_default();
    let title = if matches!(text("operator"), "" | "step") { text("path") } else { text("operator") };
    let colon = if title.is_empty() { "" } else { ": " };
    format!("{title}{colon}{}", text("reason"))
}

fn change_style(change: CaseChange) -> Style {
    match change {
        CaseChange::NewlyFailing => BAD,
        CaseChange::NewlyPassing => GOOD,
        CaseChange::OtherAnswer => UNSURE,
        CaseChange::New => DIM,
    }
}

/// A call of a tool in an answer.
pub(super) struct CalledToolText<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: String,
    pub(super) result: Option<&'a Value>,
    pub(super) is_error: bool,
}

impl CalledToolText<'_> {
    /// The call as it would be written: `search({"query":"refund"})`.
    pub(super) fn text(&self) -> String {
        let failed = if self.is_error { " failed" } else { "" };
        format!("{}({}){failed}", self.name, self.arguments)
    }
}

/// The tools that a target called.
pub(super) fn tool_calls(answer: &Value) -> Vec<CalledToolText<'_>> {
    let calls = answer.get("tools").and_then(Value::as_list).unwrap_or_default();
    let call = |call| {
        let text = |key: &str| Value::get(call, key);
        Some(CalledToolText {
            name: text("name")?.as_str()?,
            arguments: text("arguments").map(|value| value.to_json(JsonStyle::Compact)).unwrap_or_default(),
            result: text("result").filter(|result| !result.is_null()),
            is_error: text("is_error").and_then(Value::as_bool) == Some(true),
        })
    };
    calls.iter().filter_map(call).collect()
}

/// The text of an answer; what else it says, but the calls of tools, as JSON below.
pub(super) fn answer_text(answer: &Value) -> String {
    let Some(object) = answer.as_object() else { return answer.to_string() };
    let text = answer.get("text").and_then(Value::as_str).map(str::to_owned);
    let rest = object.iter().filter(|(key, value)| {
        let is_empty = value.is_null() || value.as_list().is_some_and(<[Value]>::is_empty);
        !matches!(key.as_str(), "text" | "usage" | "latency" | "tools") && !is_empty
    });
    let rest: Vec<String> =
        rest.map(|(key, value)| format!("{}: {}", key.as_str(), value.to_json(JsonStyle::Compact))).collect();
    let lines: Vec<String> = text.into_iter().chain(rest).collect();
    lines.join("\n")
}

/// A text of one line, broken between words so that no line has more than so many columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let text = visible(text);
    let mut lines = Vec::new();
    let mut rest = text.as_str();
    while rest.width() > width {
        let mut columns = 0;
        let fits = |(_, char): &(usize, char)| {
            columns += char.width().unwrap_or(0);
            columns <= width
        };
        let end = rest.char_indices().take_while(fits).last().map_or(0, |(at, char)| at + char.len_utf8());
        let end = end.max(rest.chars().next().map_or(0, char::len_utf8));
        // A word that is longer than a line is cut.
        let blank = rest[..end].rfind(' ').filter(|at| *at > 0 && !rest[end..].starts_with(' '));
        let end = blank.unwrap_or(end);
        lines.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest.to_owned());
    }
    lines
}

/// A text of one line that has at most so many columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut columns = 1;
    let fits = |char: &char| {
        columns += char.width().unwrap_or(0);
        columns <= width
    };
    let mut out: String = text.chars().take_while(fits).collect();
    out.push('…');
    out
}

/// A text of one line in a column of a width.
pub(super) fn padded(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let blanks = width.saturating_sub(text.width());
    format!("{text}{:blanks$}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_break_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("onetwothree", 4), ["onet", "woth", "ree"]);
        assert_eq!(wrapped("", 4), [""]);
        // Each of these takes two columns.
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("日本語", 1), ["日", "本", "語"]);
    }

    #[test]
    fn a_column_has_one_width() {
        assert_eq!(padded("abc", 5), "abc  ");
        assert_eq!(padded("abcdef", 5), "abcd…");
        assert_eq!(padded("日本語", 5), "日本…");
    }
}
