//! Why something differs, in sentences. The runs are A and B.

use threadline_lang::Value;
use threadline_lang::diag::words;

use super::{CauseKind, DiffCause, DiffSubject, Difference, RunDiff};

/// The letters of the two runs.
pub const LETTERS: [&str; 2] = ["A", "B"];

/// The maximum number of names in a sentence.
const MAX_NAMES: usize = 8;

/// Why something differs, in a sentence.
pub fn because(diff: &RunDiff, difference: &Difference, show: &dyn Fn(&Value) -> String) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut items: Vec<String> = Vec::new();
    for cause in &difference.because {
        match (cause.kind, cause.of) {
            (CauseKind::Items, Some(of)) => items.push(diff.differences[of].name.clone()),
            _ => reasons.push(reason(diff, difference, cause, show)),
        }
    }
    if !items.is_empty() {
        reasons.push(format!("of {}", names(&items)));
    }
    if difference.more_causes > 0 {
        reasons.push(format!("of {} more", difference.more_causes));
    }
    if !reasons.is_empty() {
        return format!("because {}", words::list(reasons, "and"));
    }
    match difference.subject {
        DiffSubject::Step | DiffSubject::Verdict | DiffSubject::Item | DiffSubject::Items => {
            "no value that it read differs".to_owned()
        }
        _ => String::new(),
    }
}

fn reason(
    diff: &RunDiff,
    difference: &Difference,
    cause: &DiffCause,
    show: &dyn Fn(&Value) -> String,
) -> String {
    let DiffCause { kind, reference, maker, values, of, .. } = cause;
    let [left, right] = values.each_ref().map(|value| value.as_ref().map(&show));
    match kind {
        CauseKind::Value if of.is_some() => format!("it reads `{reference}`"),
        CauseKind::Value => {
            let sides = match (left, right) {
                (Some(left), Some(right)) => format!(": {left} in A, {right} in B"),
                _ => String::new(),
            };
            format!("it reads `{reference}` from {maker}{sides}")
        }
        CauseKind::Control => format!("of `{reference}`"),
        CauseKind::Clock => format!("it reads `{reference}`, which each run makes anew"),
        CauseKind::Text => match difference.sides.iter().position(Option::is_none) {
            Some(missing) => format!("only the workflow of {} has this step", LETTERS[1 - missing]),
            None => "its text in the workflow differs".to_owned(),
        },
        CauseKind::Items => "of its items".to_owned(),
        CauseKind::NoItem => {
            let missing = difference.sides.iter().position(Option::is_none).unwrap_or(0);
            format!("only {} has this item", LETTERS[1 - missing])
        }
        CauseKind::NotReached => {
            let missing = usize::from(*maker == diff.runs[1].id);
            let letter = LETTERS[missing];
            match of {
                Some(of) => format!("`{}` failed in {letter}", diff.differences[*of].name),
                None => format!("{letter} did not come to it, it is {}", diff.runs[missing].status),
            }
        }
        CauseKind::Called => {
            let run =
                |value: &Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            format!(
                "the runs that it called differ: `threadline diff {} {}`",
                run(&values[0]),
                run(&values[1])
            )
        }
    }
}

/// Names in a sentence; of many only the first.
pub fn names(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    words::list(shown, "and")
}
