//! The names of executions as people read them, and as they write them on a command line.

use threadline_engine::event::Address;
use threadline_flow::plan::{Part, Plan};

/// An execution with its items, indented by the depth of its step in the file.
pub fn label(plan: &Plan, at: &Address) -> String {
    let depth = at.step(plan).map_or(0, |step| depth(&plan.steps[step as usize].number));
    format!("{}{}", "  ".repeat(depth), name(plan, at))
}

/// An execution with its items, without what its step is a part of.
pub fn name(plan: &Plan, at: &Address) -> String {
    let Some(step) = at.step(plan) else { return at.to_string() };
    format!("{}{}{}", plan.steps[step as usize].label, visit_suffix(at), at.item_suffix())
}

/// The label of the step of an execution.
pub fn step_label(plan: &Plan, at: &Address) -> String {
    at.step(plan).map_or_else(|| at.to_string(), |step| plan.steps[step as usize].label.to_string())
}

/// The number of a visit behind the name of a state: `#2` for the second, nothing for the first.
pub fn visit_suffix(at: &Address) -> String {
    match at.visit().filter(|visit| at.is_visit() && *visit > 1) {
        Some(visit) => format!("#{visit}"),
        None => String::new(),
    }
}

/// The depth of a step in the file: 0 for `3`, `finally.1` and `on_failure.1`, 1 for `setup.1` and `3.do.1`.
pub fn depth(number: &str) -> usize {
    let of_run = Part::OF_RUN.iter().find_map(|part| number.strip_prefix(part.key())?.strip_prefix('.'));
    let number = of_run.unwrap_or(number);
    number.split('.').count() / 2
}

/// A step in a sentence: its label, and its number if another step has the same label.
pub fn title(plan: &Plan, at: &Address) -> String {
    let label = label(plan, at);
    let label = label.trim_start();
    let Some(step) = at.step(plan) else { return format!("`{label}`") };
    let steps = &plan.steps;
    let known = &steps[step as usize];
    let alone = steps.iter().filter(|other| other.label == known.label).count() == 1;
    if alone { format!("`{label}`") } else { format!("`{label}` (step {})", known.number) }
}

/// The name of an execution on a command line.
pub fn handle(plan: &Plan, at: &Address) -> String {
    let step = at.step(plan).map(|step| &plan.steps[step as usize].step);
    // Each visit of a state is an execution of its own.
    let step = step.filter(|step| step.state.is_none());
    let name = step.and_then(|step| step.id.as_ref().or(step.capture.as_ref()));
    let handle = name.map_or_else(|| at.to_string(), |name| format!("{}{}", name.value, at.item_suffix()));
    let is_word = handle.chars().all(|char| char.is_ascii_alphanumeric() || "_-./#".contains(char));
    if is_word { handle } else { format!("'{handle}'") }
}

/// The first line of a text, which is its message.
pub fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}
