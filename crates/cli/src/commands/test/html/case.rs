//! A case on the page: what was said, what each expectation came to and why.

use std::fmt::Write as _;
use std::time::Duration;

use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;

use super::escape::{escaped, lines};
use super::{PageCase, change_badge, tag_words, tags};
use crate::commands::test::baseline::{BaselineCase, CaseChange};
use crate::commands::test::rate::PassRate;
use crate::commands::test::results::{TestCheck, TestExecution, TestResult, TriedCase, Turn, result_of};
use crate::commands::test::text::{answer_text, tool_calls, tree_line};
use crate::reporter::spend_text;

/// The characters of an answer in a table, and of arguments of a tool.
const EXCERPT_CHARS: usize = 200;

/// A text with more lines scrolls in a box of its own.
const LONG_LINES: usize = 24;

/// The most repetitions of a case that are shown one by one.
const MAX_REPETITIONS: usize = 100;

pub(super) struct ShownCase<'s, 'r> {
    pub(super) case: &'s PageCase<'r>,
    /// Whether the scenario has no other case, and its name stands here.
    pub(super) is_alone: bool,
    pub(super) change: Option<CaseChange>,
    pub(super) before: Option<&'s BaselineCase>,
}

impl ShownCase<'_, '_> {
    pub(super) fn write(&self, out: &mut String) {
        let PageCase { file, case, .. } = *self.case;
        let scenario = &case.scenario;
        // Writing into a text cannot fail.
        let _ = writeln!(
            out,
            "<details class=\"case\" id=\"{}\" data-result=\"{}\" data-target=\"{}\" data-tags=\"{}\" \
             data-change=\"{}\">",
            self.case.id(),
            case.result.name(),
            escaped(scenario.target.as_deref().unwrap_or_default()),
            tag_words(&scenario.tags),
            self.change.map_or("", CaseChange::name)
        );
        self.write_head(out);
        out.push_str("<div class=\"body\">\n");
        if let Some((_, value)) = &case.case {
            let text = value.to_json(JsonStyle::Compact);
            let _ = writeln!(out, "<h4>Case</h4><pre>{}</pre>", lines(&text));
        }
        if case.executions.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", lines(&case.untried));
        }
        let is_repeated = scenario.times > 1;
        for execution in case.executions.iter().take(MAX_REPETITIONS) {
            if is_repeated {
                write_repetition(out, execution, &file.run);
            } else {
                write_execution(out, execution, &file.run);
            }
        }
        if let Some(more @ 1..) = case.executions.len().checked_sub(MAX_REPETITIONS) {
            let _ = writeln!(out, "<p class=\"soft\">… {}</p>", words::count(more, "more repetition"));
        }
        self.write_before(out);
        let (name, line, column) = &case.place;
        let _ = writeln!(out, "<p class=\"place\">{}:{line}:{column}</p>", escaped(name));
        out.push_str("</div>\n</details>\n");
    }

    fn write_head(&self, out: &mut String) {
        let case = self.case.case;
        let scenario = &case.scenario;
        let title = match (&case.case, &scenario.target) {
            _ if self.is_alone => scenario.name.to_string(),
            (Some((name, _)), _) => name.clone(),
            (None, Some(target)) => target.to_string(),
            (None, None) => scenario.name.to_string(),
        };
        let mut badges = String::new();
        if let Some(target) = scenario.target.as_ref().filter(|target| **target != title) {
            let _ = write!(badges, "<span class=\"tag\">{}</span> ", escaped(target));
        }
        if self.is_alone && scenario.description.is_none() {
            badges.push_str(&tags(&scenario.tags));
        }
        badges.push_str(&self.change.map(change_badge).unwrap_or_default());
        if !case.flaky().is_empty() {
            badges.push_str("<span class=\"badge unsure\">flaky judge</span>");
        }
        let reason = case.reason();
        let class = match case.result {
            TestResult::Failed | TestResult::Errored => " bad-text",
            TestResult::NotEvaluable => " unsure-text",
            _ => "",
        };
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!("<span class=\"why{class}\">{}</span>", escaped(&reason))
        };
        let _ = writeln!(
            out,
            "<summary>{}<span class=\"head\"><span class=\"title\">{}</span>{badges}{why}</span><span \
             class=\"numbers\">{}</span></summary>",
            mark(case.result.name(), case.result.words()),
            escaped(&title),
            numbers(case)
        );
    }

    /// What was answered at the time of the baseline, where that is another answer.
    fn write_before(&self, out: &mut String) {
        let Some(before) = self.before else { return };
        let now = crate::commands::test::baseline::answers(self.case.case);
        let others = before.answers.iter().filter(|answer| !now.contains(answer));
        let others: Vec<&String> = others.take(1).collect();
        if before.result != self.case.case.result {
            let _ = writeln!(out, "<p class=\"soft\">Before: {}</p>", before.result.words());
        }
        for answer in others {
            let _ = writeln!(
                out,
                "<details class=\"inner\"><summary>Answer before</summary><div class=\"say\"><pre>{}</pre></div></details>",
                lines(answer)
            );
        }
    }
}

/// The pass rate with its interval, how long it took, and what it used.
fn numbers(case: &TriedCase) -> String {
    let mut out = String::new();
    if let Some(rate) = case.rate() {
        let _ = write!(
            out,
            "{}{} of {} · {} <span title=\"95 % confidence\">({})</span><br>",
            meter(rate),
            rate.passed,
            rate.tried,
            rate.percent(),
            rate.interval_text()
        );
    }
    let mut details = Vec::new();
    if !case.executions.is_empty() {
        details.push(words::duration(Duration::from_millis(case.duration_ms())));
    }
    details.extend(spend_text(&case.spent()));
    out.push_str(&escaped(&details.join(" · ")));
    out
}

/// A bar of the pass rate with brackets around its interval.
fn meter(rate: PassRate) -> String {
    let (low, high) = rate.interval();
    format!(
        "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{:.1}%\"></i><u \
         style=\"left:{:.1}%;width:{:.1}%\"></u></span>",
        rate.share() * 100.0,
        low * 100.0,
        (high - low) * 100.0
    )
}

fn write_repetition(out: &mut String, execution: &TestExecution, run: &str) {
    let (result, reason) = (execution.result, execution.reason());
    let is_open = if result.is_bad() { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details class=\"repetition\"{is_open}><summary>{}<span class=\"head\">#{} {}</span><span \
         class=\"numbers\">{}</span></summary>\n<div class=\"execution\">",
        mark(result.name(), result.words()),
        execution.repetition.unwrap_or(1),
        escaped(&reason),
        words::duration(Duration::from_millis(execution.duration_ms))
    );
    write_execution(out, execution, run);
    out.push_str("</div>\n</details>\n");
}

fn write_execution(out: &mut String, execution: &TestExecution, run: &str) {
    for turn in &execution.turns {
        write_turn(out, turn);
    }
    let has_said = execution.turns.iter().any(|turn| turn.error.is_some());
    let is_unmet = execution.unmet().next().is_some();
    if let Some(error) = execution.error.as_deref().filter(|_| !has_said && !is_unmet) {
        write_said(out, "error", "error", &[], error);
        out.push_str("</div>\n");
    }
    let count: usize = execution.checks.iter().map(|check| check.outcomes().len()).sum();
    if count > 0 {
        out.push_str("<h4>Expectations</h4>\n<ul class=\"checks\">\n");
        for check in &execution.checks {
            check.outcomes().iter().for_each(|outcome| write_outcome(out, check, outcome));
        }
        out.push_str("</ul>\n");
    }
    write_opinions(out, execution);
    let step = execution.failed_step.as_ref().or_else(|| execution.checks.last().map(|check| &check.at));
    if let Some(at) = step {
        let command = format!("threadline explain {run} '{at}'");
        let _ = writeln!(
            out,
            "<p class=\"command\"><code>{}</code><button type=\"button\" class=\"copy\" hidden>Copy</button></p>",
            escaped(&command)
        );
    }
}

fn write_turn(out: &mut String, turn: &Turn) {
    write_said(out, "prompt", "prompt", &[], &turn.prompt.to_string());
    out.push_str("</div>\n");
    let time = turn.duration_ms.map(|millis| words::duration(Duration::from_millis(millis)));
    let details: Vec<String> = time.into_iter().chain(spend_text(&turn.spent)).collect();
    if let Some(error) = &turn.error {
        write_said(out, "error", "error", &details, error);
        if !turn.printed.is_empty() {
            let _ = writeln!(out, "<pre class=\"printed\">{}</pre>", lines(&turn.printed.join("\n")));
        }
        out.push_str("</div>\n");
    } else if let Some(answer) = &turn.answer {
        let text = answer.get("text").and_then(Value::as_str);
        let shown = text.map_or_else(|| answer_text(answer), str::to_owned);
        write_said(out, "answer", "answer", &details, &shown);
        if text.is_some() {
            write_rest(out, answer);
        }
        write_calls(out, answer);
        out.push_str("</div>\n");
    }
}

/// Begins a box with what somebody said.
fn write_said(out: &mut String, class: &str, who: &str, details: &[String], text: &str) {
    let details: Vec<String> =
        details.iter().map(|detail| format!("<span>{}</span>", escaped(detail))).collect();
    let details = details.concat();
    let long = if text.lines().count() > LONG_LINES { " long" } else { "" };
    let _ = writeln!(
        out,
        "<div class=\"say {class}{long}\"><p class=\"who\">{who}{details}</p><pre>{}</pre>",
        lines(text)
    );
}

/// What an answer says beside its text, as JSON.
fn write_rest(out: &mut String, answer: &Value) {
    let Some(object) = answer.as_object() else { return };
    let is_shown = |key: &str, value: &Value| {
        let is_empty = value.is_null() || value.as_list().is_some_and(<[Value]>::is_empty);
        !matches!(key, "text" | "usage" | "latency" | "tools") && !is_empty
    };
    let rest = object.iter().filter(|(key, value)| is_shown(key.as_str(), value));
    let rest: Vec<String> =
        rest.map(|(key, value)| format!("{}: {}", key.as_str(), value.to_json(JsonStyle::Pretty))).collect();
    if !rest.is_empty() {
        let _ = writeln!(out, "<pre class=\"rest\">{}</pre>", lines(&rest.join("\n")));
    }
}

/// The tools that a target called, with arguments and results.
fn write_calls(out: &mut String, answer: &Value) {
    let calls = tool_calls(answer);
    if calls.is_empty() {
        return;
    }
    let count = words::count(calls.len(), "tool call");
    let _ = writeln!(out, "<details class=\"calls\"><summary>{count}</summary>\n<ol>");
    for call in calls {
        let result = call.result.map(|result| format!("<pre>{}</pre>", lines(&result.to_string())));
        let badge = if call.is_error { " <span class=\"badge bad\">failed</span>" } else { "" };
        let (name, arguments) = (escaped(call.name), lines(&call.arguments));
        let result = result.unwrap_or_default();
        let _ = writeln!(out, "<li><code>{name}({arguments})</code>{badge}{result}</li>");
    }
    out.push_str("</ol></details>\n");
}

fn write_outcome(out: &mut String, check: &TestCheck, outcome: &Value) {
    let result = result_of(outcome);
    let text = |key: &str| outcome.get(key).map(ToString::to_string).unwrap_or_default();
    let place = check.place_of(outcome).map_or(String::new(), |(file, line, column)| {
        format!(" <span class=\"place\">{}:{line}:{column}</span>", escaped(file))
    });
    let _ = write!(
        out,
        "<li><div class=\"check\">{}<div><p>{}{place}</p>",
        mark(result, &result.replace('_', " ")),
        escaped(&text("reason"))
    );
    match outcome.get("tree") {
        Some(tree) if tree.get("children").is_some() => {
            let is_open = if result == "met" { "" } else { " open" };
            let _ = write!(out, "<details class=\"inner\"{is_open}><summary>why</summary>");
            out.push_str("<ul class=\"tree\">");
            write_tree(out, tree);
            out.push_str("</ul></details>");
        }
        Some(tree) if tree.as_str().is_some() => {
            let _ = write!(out, "<pre>{}</pre>", lines(&tree.to_string()));
        }
        _ => {}
    }
    out.push_str("</div></div></li>\n");
}

fn write_tree(out: &mut String, tree: &Value) {
    let result = tree.get("result").and_then(Value::as_str).unwrap_or_default();
    // Only words of ours become the name of a class.
    let known = ["met", "unmet", "not_evaluable"].into_iter().find(|known| *known == result);
    let class = known.unwrap_or("not_evaluated");
    let line = escaped(&tree_line(tree));
    let _ = write!(
        out,
        "<li><div class=\"line\">{}<span>{line}</span></div>",
        mark(class, &class.replace('_', " "))
    );
    let children = tree.get("children").and_then(Value::as_list).unwrap_or_default();
    if !children.is_empty() {
        out.push_str("<ul class=\"tree\">");
        for child in children {
            write_tree(out, child);
        }
        out.push_str("</ul>");
    }
    out.push_str("</li>");
}

/// What judges said, those that disagree with themselves marked.
fn write_opinions(out: &mut String, execution: &TestExecution) {
    let opinions: Vec<&Value> = execution.opinions().collect();
    if opinions.is_empty() {
        return;
    }
    out.push_str(
        "<h4>Judges</h4>\n<div class=\"judges\"><table><thead><tr><th scope=\"col\">judge</th><th \
         scope=\"col\">said</th><th scope=\"col\">question</th><th scope=\"col\">reason</th></tr></thead>\n<tbody>\n",
    );
    for opinion in opinions {
        let text = |key: &str| escaped(&opinion.get(key).map(ToString::to_string).unwrap_or_default());
        let count = |key: &str| opinion.get(key).and_then(Value::as_i64).unwrap_or(0);
        let is_flaky = opinion.get("flaky").and_then(Value::as_bool) == Some(true);
        let mut said = match (count("yes"), count("no")) {
            (1, 0) => "yes".to_owned(),
            (0, 1) => "no".to_owned(),
            (yes, no) => format!("yes {yes}, no {no}"),
        };
        if is_flaky {
            said.push_str(" <span class=\"badge unsure\">flaky</span>");
        }
        if count("misquoted") > 0 {
            said.push_str(" <span class=\"badge bad\">misquoted</span>");
        }
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td data-label=\"said\">{said}</td><td data-label=\"question\">{}</td><td \
             data-label=\"reason\">{}</td></tr>",
            text("judge"),
            text("question"),
            text("reason")
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// The mark of a result; `class` is a word of ours.
pub(super) fn mark(class: &str, words: &str) -> String {
    let sign = match class {
        "passed" | "met" => "✓",
        "failed" | "errored" | "unmet" => "✗",
        "not_evaluable" => "?",
        "not_evaluated" => "·",
        _ => "–",
    };
    format!("<span class=\"mark {class}\" role=\"img\" aria-label=\"{words}\">{sign}</span>")
}

/// The beginning of the last answer, or why there is none.
pub(super) fn answer_excerpt(case: &TriedCase) -> String {
    let turns = case.executions.iter().flat_map(|execution| &execution.turns);
    let answer = turns.rev().find_map(|turn| turn.answer.as_ref()).map(answer_text);
    let text = answer.unwrap_or_else(|| case.reason());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words::shorten(&text, EXCERPT_CHARS).into_owned()
}
