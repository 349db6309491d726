//! One plain sentence for every line. All wording of answers stands here.

use threadline_lang::diag::{excerpt, words};
use threadline_lang::{Error, Explanation, Number, PathStep, Type, Value};

use super::{AnswerCounts, AnsweredWeight, ExpectationAnswer, NoAnswer, Subject, Tree};
use crate::model::{ExpectationLine, InnerCheck, InnerKind};
use crate::operand::{self, NoAnswerReason, PreparedOperand};
use crate::table::{NamedOperator, Op};
use crate::tree::STEP;

/// A line that says nothing yet.
pub(super) fn line(answer: Option<ExpectationAnswer>) -> Tree {
    Tree {
        answer,
        path: String::new(),
        operator: "".into(),
        expected: None,
        actual: None,
        reason: String::new(),
        negates: false,
        vacuous: false,
        score: None,
        children: Vec::new(),
    }
}

fn logic(answer: ExpectationAnswer, path: String, node: &ExpectationLine, reason: String) -> Tree {
    Tree { path, operator: node.written.clone(), reason, ..line(Some(answer)) }
}

/// `1st`, `2nd`, `3rd`
pub(super) fn ordinal(position: usize) -> String {
    let number = position + 1;
    let ending = match (number % 10, number % 100) {
        (1, other) if other != 11 => "st",
        (2, other) if other != 12 => "nd",
        (3, other) if other != 13 => "rd",
        _ => "th",
    };
    format!("the {number}{ending}")
}

fn are(count: usize, of: usize) -> String {
    match (count, of) {
        (1, 1) => "it is".to_owned(),
        (1, _) => format!("1 of {of} is"),
        (2, 2) => "both are".to_owned(),
        (count, of) if count == of => format!("all {of} are"),
        _ => format!("{count} of {of} are"),
    }
}

fn count(lines: &[Tree], answer: ExpectationAnswer) -> usize {
    lines.iter().filter(|line| line.answer == Some(answer)).count()
}

// ---- logic ----------------------------------------------------------------------------------------------

pub(super) fn top(lines: Vec<Tree>) -> Tree {
    let answers = lines.iter().filter_map(|line| line.answer);
    let answer =
        answers.fold(None, |all, answer| Some(super::both(all.unwrap_or(ExpectationAnswer::Met), answer)));
    let answer = answer.unwrap_or(ExpectationAnswer::NotEvaluable);
    let reason = side_by_side(answer, &lines);
    // Checks of one value are about that value.
    let path = lines.first().map_or("", |line| &line.path);
    let path = if lines.iter().all(|line| line.path == path) { path.to_owned() } else { String::new() };
    Tree { path, reason, children: lines, ..line(Some(answer)) }
}

pub(super) fn together(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    lines: &[Tree],
) -> Tree {
    logic(answer, path, node, side_by_side(answer, lines))
}

fn side_by_side(answer: ExpectationAnswer, lines: &[Tree]) -> String {
    let asked = lines.iter().filter(|line| line.answer.is_some()).count();
    if asked == 0 {
        return "nothing of it is known, so nothing is asked".to_owned();
    }
    format!("{} {}", are(count(lines, answer), asked), answer.words())
}

pub(super) fn all(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    members: usize,
    decided: Option<usize>,
    why: Option<String>,
) -> Tree {
    let reason = match (why, answer, decided) {
        (Some(why), ..) => why,
        (_, ExpectationAnswer::Met, _) => format!("{} met", are(members, members)),
        (.., Some(decided)) => format!("{} is unmet", ordinal(decided)),
        _ => "not all of them can be evaluated".to_owned(),
    };
    logic(answer, path, node, reason)
}

pub(super) fn any(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    members: usize,
    decided: Option<usize>,
) -> Tree {
    let reason = match (answer, decided) {
        (_, Some(decided)) => format!("{} is met", ordinal(decided)),
        (ExpectationAnswer::Unmet, _) if members == 1 => "it is unmet".to_owned(),
        (ExpectationAnswer::Unmet, _) if members == 2 => "neither is met".to_owned(),
        (ExpectationAnswer::Unmet, _) => format!("none of {members} is met"),
        _ => "none is met, and not all of them can be evaluated".to_owned(),
    };
    logic(answer, path, node, reason)
}

pub(super) fn not(answer: ExpectationAnswer, path: String, node: &ExpectationLine, lines: &[Tree]) -> Tree {
    let reason = match answer {
        ExpectationAnswer::Met => "what it negates is unmet".to_owned(),
        ExpectationAnswer::Unmet => {
            let met: Vec<&str> = lines.iter().map(|line| line.reason.as_str()).collect();
            format!("what it negates is met: {}", met.join("; "))
        }
        ExpectationAnswer::NotEvaluable => "what it negates cannot be evaluated".to_owned(),
    };
    Tree { negates: true, ..logic(answer, path, node, reason) }
}

pub(super) fn when(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    condition: ExpectationAnswer,
    branch: bool,
) -> Tree {
    let reason = match (condition, branch) {
        (ExpectationAnswer::Met, true) => format!("the condition is met, and `then` is {}", answer.words()),
        (ExpectationAnswer::Met, false) => {
            "the condition is met, and there is no `then`: nothing is asked".to_owned()
        }
        (ExpectationAnswer::Unmet, true) => {
            format!("the condition is unmet, and `else` is {}", answer.words())
        }
        (ExpectationAnswer::Unmet, false) => {
            "the condition is unmet, and there is no `else`: nothing is asked".to_owned()
        }
        (ExpectationAnswer::NotEvaluable, _) => "the condition cannot be evaluated".to_owned(),
    };
    let vacuous = !branch && condition != ExpectationAnswer::NotEvaluable;
    Tree { vacuous, ..logic(answer, path, node, reason) }
}

pub(super) fn scored(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    counted: &AnsweredWeight,
    threshold: Option<&Number>,
) -> Tree {
    let share = |number: &Number| {
        let rounded = number.round(4).and_then(|number| number.shortest());
        rounded.unwrap_or_else(|_| number.clone()).to_string()
    };
    let score = counted.score();
    let shown = score.as_ref().map_or_else(|| "none".to_owned(), share);
    let reason = match (threshold, counted.must) {
        (Some(_), Some((at, must))) if must == answer => {
            format!("the score is {shown}, but {} must be met and is {}", ordinal(at), must.words())
        }
        (Some(threshold), _) if answer == ExpectationAnswer::NotEvaluable => format!(
            "the score is {shown}, and whether it reaches {} depends on what cannot be evaluated",
            share(threshold)
        ),
        (Some(threshold), _) => {
            let than = if answer == ExpectationAnswer::Met { "at least" } else { "less than" };
            format!("the score is {shown}, {than} {}", share(threshold))
        }
        (None, _) => {
            let said = match answer {
                ExpectationAnswer::Met => "all are met",
                ExpectationAnswer::Unmet => "not all are met",
                ExpectationAnswer::NotEvaluable => "not all can be evaluated",
            };
            format!("{said}; the score is {shown}")
        }
    };
    Tree { score, ..logic(answer, path, node, reason) }
}

pub(super) fn not_evaluated(
    node: &ExpectationLine,
    path: String,
    decided: usize,
    by: ExpectationAnswer,
) -> Tree {
    let reason = format!("not evaluated: {} is {}, which decides", ordinal(decided), by.words());
    Tree { path, operator: node.written.clone(), reason, ..line(None) }
}

pub(super) fn branch_not_evaluated(
    node: &ExpectationLine,
    path: String,
    condition: ExpectationAnswer,
) -> Tree {
    let reason = format!("not evaluated: the condition is {}", condition.words());
    Tree { path, operator: node.written.clone(), reason, ..line(None) }
}

pub(super) fn expression(
    answer: ExpectationAnswer,
    node: &ExpectationLine,
    explanation: &Explanation,
    result: Result<bool, Error>,
) -> Tree {
    const SHOWN: usize = 6;
    let mut parts = Vec::new();
    explanation.parts.iter().for_each(|part| came_to(part, &mut parts));
    parts.truncate(SHOWN);
    let said = match result {
        Ok(met) => format!("the expression is {met}"),
        Err(error) => error.to_string(),
    };
    let reason = if parts.is_empty() { said } else { format!("{said}: {}", parts.join(", ")) };
    let expected = Some(explanation.source.as_str().into());
    Tree { operator: node.written.clone(), expected, reason, ..line(Some(answer)) }
}

/// What the parts of an expression came to.
fn came_to(part: &Explanation, found: &mut Vec<String>) {
    if let Some(Ok(value)) = &part.outcome {
        found.push(format!("`{}` is {}", part.source, excerpt(value)));
    }
    part.parts.iter().for_each(|part| came_to(part, found));
}

// ---- operators ------------------------------------------------------------------------------------------

pub(super) fn test(
    answer: ExpectationAnswer,
    node: &ExpectationLine,
    named: NamedOperator,
    operand: Result<(&PreparedOperand, &Value), &String>,
    subject: Subject<'_>,
    path: String,
    result: Result<bool, NoAnswer>,
) -> Tree {
    let operator = node.written.clone();
    let actual = subject.value().cloned();
    let name = shown(&path);
    let (expected, reason) = match operand {
        Err(why) => (None, format!("what it compares with has no value: {why}")),
        Ok((prepared, expected)) => {
            let reason = match (result, subject) {
                (_, Subject::Missing(within, step)) => missing(&name, within, step),
                (Ok(holds), Subject::Value(value)) => {
                    let said = statement(named.operator.op, holds, &name, prepared, expected, value);
                    format!("{said}{}", against(answer, named))
                }
                (Err(NoAnswer::Why(why)), Subject::Value(value)) => failed(why, &name, expected, value),
                (Err(_), _) => format!("{name} cannot be compared"),
            };
            (Some(expected.clone()), reason)
        }
    };
    Tree { path, operator, expected, actual, reason, ..line(Some(answer)) }
}

/// An operator that asks for the opposite: what holds is what should not.
fn against(answer: ExpectationAnswer, named: NamedOperator) -> &'static str {
    if answer != ExpectationAnswer::Unmet || !named.negated {
        return "";
    }
    match named.operator.op {
        Op::Matches | Op::StartsWith | Op::EndsWith | Op::Contains | Op::ContainsAll | Op::ContainsAny => {
            ", which it should not"
        }
        // What is there, null or empty says enough.
        Op::Exists | Op::IsNull | Op::Empty | Op::Subset => "",
        _ => ", which it should not be",
    }
}

fn shown(path: &str) -> String {
    if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") }
}

fn missing(name: &str, within: &Value, step: &PathStep) -> String {
    let mut wanted = String::new();
    step.write(&mut wanted);
    match (within.as_object(), within.as_list(), step) {
        (Some(object), _, PathStep::Key { key, .. }) => {
            let hint = words::suggest(key.as_str(), object.iter().map(|(key, _)| key.as_str()));
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("{name} is missing: there is no `{wanted}`{hint}")
        }
        (_, Some(items), _) => {
            format!("{name} is missing: the list has {}", words::count(items.len(), "item"))
        }
        _ => format!("{name} is missing: {} has no `{wanted}`", within.kind().with_article()),
    }
}

fn statement(
    op: Op,
    holds: bool,
    name: &str,
    prepared: &PreparedOperand,
    expected: &Value,
    actual: &Value,
) -> String {
    let (e, a) = (excerpt(expected), excerpt(actual));
    let not = if holds { "" } else { "not " };
    let does = |yes: &str, no: &str, what: &str| {
        if holds { format!("{name} {yes} {what}") } else { format!("{name} does not {no} {what}: it is {a}") }
    };
    match op {
        Op::Eq if holds => format!("{name} is {a}"),
        Op::Eq => format!("{name} is {a}, not {e}{}", almost(expected, actual)),
        Op::Gt => format!("{name} is {a}, {not}more than {e}"),
        Op::Gte => format!("{name} is {a}, {not}at least {e}"),
        Op::Lt => format!("{name} is {a}, {not}less than {e}"),
        Op::Lte => format!("{name} is {a}, {not}at most {e}"),
        Op::Between => {
            let ends: Vec<String> = expected.as_list().unwrap_or_default().iter().map(excerpt).collect();
            format!("{name} is {a}, {not}from {}", ends.join(" to "))
        }
        Op::Approx => {
            let part = |name: &str| expected.get(name).map(excerpt).unwrap_or_default();
            format!("{name} is {a}, {not}within {} of {}", part("tolerance"), part("value"))
        }
        Op::In => format!("{name} is {a}, {not}one of {e}"),
        Op::Matches => does("matches", "match", &e),
        Op::Exists => {
            // A value is there, whatever was asked.
            format!("{name} is there: it is {a}")
        }
        Op::IsNull | Op::Empty => format!("{name} is {}", of_kind(op, actual, &a)),
        Op::Type => format!("{name} is {}", of_type(holds, expected, actual, &a)),
        Op::StartsWith => does("begins with", "begin with", &e),
        Op::EndsWith => does("ends with", "end with", &e),
        Op::Contains => does("contains", "contain", &e),
        Op::ContainsAll => several(name, prepared, actual, holds, &a),
        Op::ContainsAny => {
            let found = operand::found(prepared, actual, true);
            match expected.as_list() {
                _ if holds => format!("{name} contains {}", list(&found)),
                Some([_, _, ..]) => format!("{name} contains none of {e}: it is {a}"),
                Some([only]) => format!("{name} does not contain {}: it is {a}", excerpt(only)),
                _ => format!("{name} does not contain {e}: it is {a}"),
            }
        }
        Op::Subset if holds => format!("{name} is {a}, nothing beyond {e}"),
        Op::Subset => format!("{name} has {} beyond {e}", list(&operand::beyond(prepared, actual))),
        Op::Schema => match prepared {
            PreparedOperand::Schema(schema) if !holds => {
                format!("{name} is not valid by the schema: {}", schema.problems(actual).join("; "))
            }
            _ => format!("{name} is valid by the schema"),
        },
        Op::Before => format!("{name} is {a}, {not}before {e}"),
        Op::After => format!("{name} is {a}, {not}after {e}"),
        // These have lines of their own.
        Op::Length | Op::Each | Op::Some | Op::AtLeast => format!("{name} is {a}"),
    }
}

/// Two texts that are one number: it is easy to mean the number.
fn almost(expected: &Value, actual: &Value) -> &'static str {
    let number = |value: &Value| value.as_str().and_then(|text| Number::parse(text.trim()).ok());
    match (number(expected), number(actual)) {
        (Some(one), Some(other)) if one == other => {
            " as text; they are the same number: expect it without quotes to compare numbers"
        }
        _ if expected.to_string() == actual.to_string() && expected.kind() != actual.kind() => {
            ": the types differ"
        }
        _ => "",
    }
}

fn of_kind(op: Op, actual: &Value, a: &str) -> String {
    match op {
        Op::IsNull if actual.is_null() => "null".to_owned(),
        Op::IsNull => format!("not null but {a}"),
        _ => {
            let empty = operand::length(actual) == Ok(0);
            if empty { format!("empty: it is {a}") } else { format!("not empty: it is {a}") }
        }
    }
}

fn of_type(holds: bool, expected: &Value, actual: &Value, a: &str) -> String {
    let kind = if actual.is_null() { "null" } else { actual.kind().with_article() };
    let names = expected.as_list().map_or_else(|| vec![expected], |names| names.iter().collect());
    let names: Vec<String> = names.into_iter().map(ToString::to_string).collect();
    let not = if holds { String::new() } else { format!(", not {}", names.join(" or ")) };
    let value = if actual.is_null() { String::new() } else { format!(": {a}") };
    format!("{kind}{not}{value}")
}

fn several(name: &str, prepared: &PreparedOperand, actual: &Value, holds: bool, a: &str) -> String {
    if holds {
        return format!("{name} contains {}", list(&operand::found(prepared, actual, true)));
    }
    format!("{name} does not contain {}: it is {a}", list(&operand::found(prepared, actual, false)))
}

fn list(values: &[Value]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = values.iter().take(SHOWN).map(excerpt).collect();
    match values.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn failed(why: NoAnswerReason, name: &str, expected: &Value, actual: &Value) -> String {
    let a = match actual.kind() {
        Type::Null => "null".to_owned(),
        _ => format!("{} ({})", excerpt(actual), actual.kind()),
    };
    match why {
        NoAnswerReason::NotANumber => format!("{name} is {a}, which is no number"),
        NoAnswerReason::OtherUnit => {
            format!("{name} is {a}, which cannot be compared with {}: the units differ", excerpt(expected))
        }
        NoAnswerReason::NotText => format!("{name} is {a}, which is no text"),
        NoAnswerReason::NoText => format!("{name} is {a}, which is neither text nor a number"),
        NoAnswerReason::NoContainer => {
            format!("{name} is {a}, which is neither text nor a list nor an object")
        }
        NoAnswerReason::NotAList => format!("{name} is {a}, which is no list"),
        NoAnswerReason::OtherContainer => {
            format!("{name} is {a}, which cannot be a part of {}", expected.kind().with_article())
        }
        NoAnswerReason::NotAPart => {
            format!("{name} is {a}, which can contain only texts, not {}", excerpt(expected))
        }
        NoAnswerReason::NotATime => format!("{name} is {a}, which is no time"),
        NoAnswerReason::TooLarge => format!("{name} is too large to be compared"),
    }
}

// ---- what is in a value ---------------------------------------------------------------------------------

pub(super) fn inner_failed(
    node: &ExpectationLine,
    subject: Subject<'_>,
    path: String,
    why: NoAnswer,
) -> Tree {
    let name = shown(&path);
    let reason = match (subject, why) {
        (Subject::Missing(within, step), _) => missing(&name, within, step),
        (Subject::Value(value), NoAnswer::Why(why)) => failed(why, &name, &Value::NULL, value),
        (Subject::Value(_), NoAnswer::Missing) => format!("{name} is missing"),
    };
    let actual = subject.value().cloned();
    Tree { actual, ..logic(ExpectationAnswer::NotEvaluable, path, node, reason) }
}

pub(super) fn quantified(
    answer: ExpectationAnswer,
    path: String,
    node: &ExpectationLine,
    inner: &InnerCheck,
    items: usize,
    counts: &AnswerCounts,
    lines: &[Tree],
) -> Tree {
    let name = shown(&path);
    let at = |index: Option<usize>| index.map(|index| format!("{path}[{index}]")).unwrap_or_default();
    let unknown = || format!("{} cannot be evaluated", at(counts.first_unknown));
    let plain = answer.negated_if(inner.negated);
    let reason = match (inner.kind, plain) {
        (_, _) if items == 0 => format!("{name} has no items"),
        (InnerKind::Each, ExpectationAnswer::Met) => format!("every item of {name} meets it"),
        (InnerKind::Each, ExpectationAnswer::Unmet) => format!("{} does not meet it", at(counts.first_unmet)),
        (InnerKind::Some, ExpectationAnswer::Met) if inner.negated => {
            let met = lines.iter().rfind(|line| line.answer == Some(ExpectationAnswer::Met));
            let why = met.map(|line| line.reason.as_str()).unwrap_or_default();
            format!("{} meets it: {why}", at(counts.first_met))
        }
        (InnerKind::Some, ExpectationAnswer::Met) => format!("{} meets it", at(counts.first_met)),
        (InnerKind::Some, ExpectationAnswer::Unmet) => format!("no item of {name} meets it"),
        (InnerKind::AtLeast(1), ExpectationAnswer::Met) => format!("1 item of {name} meets it"),
        (InnerKind::AtLeast(wanted), ExpectationAnswer::Met) => format!("{wanted} items of {name} meet it"),
        (InnerKind::AtLeast(wanted), ExpectationAnswer::Unmet) => too_few(wanted, items, counts, &at),
        _ => unknown(),
    };
    // A list without items meets what is asked of each, and of none.
    let vacuous = items == 0 && answer == ExpectationAnswer::Met;
    Tree { vacuous, negates: inner.negated, ..logic(answer, path, node, reason) }
}

/// Fewer items than wanted. Counting ends when it is clear, so how many there are is not always known.
fn too_few(
    wanted: u64,
    items: usize,
    counts: &AnswerCounts,
    at: &impl Fn(Option<usize>) -> String,
) -> String {
    let Some(first) = counts.first_unmet else {
        let there_are =
            if items == 1 { "there is 1 item".to_owned() } else { format!("there are {items} items") };
        return format!("{there_are}, fewer than {wanted}");
    };
    let most = items - counts.unmet;
    let known = if counts.met == most { "" } else { "no more than " };
    let meet = if most == 1 { "meets" } else { "meet" };
    format!("{known}{most} of {items} items {meet} it, fewer than {wanted}; {} does not", at(Some(first)))
}

/// Items or steps that were not needed, from one on to the last of so many.
pub(super) fn rest_not_evaluated(path: &str, operator: &str, from: usize, count: usize) -> Tree {
    let reason = match from.checked_sub(1) {
        Some(decided) => format!("not evaluated: [{decided}] decides"),
        None => "not evaluated: there are too few".to_owned(),
    };
    let path = match count - 1 {
        last if last == from => format!("{path}[{from}]"),
        last => format!("{path}[{from}] to [{last}]"),
    };
    Tree { path, operator: operator.into(), reason, ..line(None) }
}

// ---- the plan -------------------------------------------------------------------------------------------

pub(super) fn no_plan(node: &ExpectationLine, why: &str) -> Tree {
    logic(ExpectationAnswer::NotEvaluable, "plan".to_owned(), node, why.to_owned())
}

pub(super) fn candidate(answer: ExpectationAnswer, path: String, lines: &[Tree]) -> Tree {
    Tree { path, operator: STEP.into(), reason: side_by_side(answer, lines), ..line(Some(answer)) }
}

pub(super) fn step(
    answer: ExpectationAnswer,
    node: &ExpectationLine,
    met: Option<usize>,
    candidates: &[Tree],
) -> Tree {
    let reason = match (answer, met, candidates) {
        (_, Some(index), _) => format!("plan[{index}] meets it"),
        (_, _, []) => "the plan has no steps".to_owned(),
        (ExpectationAnswer::NotEvaluable, ..) => {
            "no step of the plan meets it, and not every one can be evaluated".to_owned()
        }
        (_, _, candidates) => {
            let met = |step: &Tree| count(&step.children, ExpectationAnswer::Met);
            // Of steps that are equally near, the first.
            let near = candidates.iter().rev().max_by_key(|step| met(step));
            let near = near.filter(|step| candidates.len() > 1 && met(step) > 0);
            let near = near.map(|step| format!("; {} is nearest", step.path)).unwrap_or_default();
            format!("no step of the plan meets it{near}")
        }
    };
    logic(answer, "plan".to_owned(), node, reason)
}

// ---- rules ----------------------------------------------------------------------------------------------

pub(super) fn ruled(
    answer: ExpectationAnswer,
    node: &ExpectationLine,
    expected: Option<Value>,
    reason: String,
) -> Tree {
    Tree { operator: node.written.clone(), expected, reason, ..line(Some(answer)) }
}

/// What a judge says, and why where that is known.
pub(super) fn judged(ruling: &str, why: &str) -> String {
    let colon = if why.is_empty() { "" } else { ": " };
    format!("a judge says {ruling}{colon}{why}")
}

/// Why an expectation came to what it did, in one sentence.
pub(super) fn reason_of(tree: &Tree) -> String {
    if tree.answer == Some(ExpectationAnswer::Met) {
        return tree.reason.clone();
    }
    let causes = tree.causes();
    match causes[..] {
        [] => tree.reason.clone(),
        [only] => only.reason.clone(),
        [first, ref more @ ..] => format!("{}; and {} more", first.reason, more.len()),
    }
}
