//! Loops of any shape: whatever the states are, they are loaded and checked, and what is wrong is told at its place.

use std::fmt::Write as _;
use std::sync::Arc;

use threadline_flow::load::load;
use threadline_flow::plan::plan;
use threadline_flow::problem::Problem;
use threadline_lang::data::DataFormat;
use threadline_lang::source::SourceFile;

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// What a state does, with references in it. The first have an exit code, by which they are judged.
const ACTIONS: &[&str] = &[
    "shell: make",
    "shell: 'echo ${captured.a.output:-none} ${state.iteration}'",
    "shell: 'echo ${captured.b.previous.value:-none}'",
    "action: 'look at ${prev.output:-nothing}', action_type: prompt",
    "claude: 'why ${prev.verdict:-nothing}'",
    "value: '${context.n}'",
    "foreach: [1, 2], do: {shell: 'echo ${item}'}",
];
const WITH_EXIT_CODE: usize = 3;

/// How it is judged, and where its verdicts lead: `T` is a state.
const JUDGED: &[&str] = &[
    "next: T",
    "on_yes: T, on_no: T, on_error: T",
    "on_yes: T, on_no: self, max_retries: 2, on_retry_exhausted: T, on_error: T",
    "route: {yes: T, no: T, _error: T}",
    "route: [{when: 'result.exit_code == 3', to: T}], next: T",
    "evaluate: {type: classify, verdicts: [x, y, z]}, on_x: T, on_y: T, on_z: T, on_error: T",
    "evaluate: {type: output_numeric, operator: gt, target: '${context.n}'}, on_yes: T, on_no: T",
    "evaluate: {type: convergence, target: 0}, route: {target: T, progress: T, stall: T, _error: T}",
    "evaluate: {expression: 'default(prev.exit_code, 0) == 0'}, on_yes: T, on_no: T, on_error: T",
];

/// What is sometimes wrong with one.
const WRONG: &[&str] =
    &["next: nobody", "shell: 'echo ${captured.b.output}'", "on_blocked: T", "terminal: failure"];

/// A loop of so many states; each leads at least to the one after it, and a sound one to nothing that is wrong.
fn file(numbers: &mut Numbers, count: usize, sound: bool) -> String {
    let mut text = String::from("initial: s0\ncontext: {n: 3}\nmax_iterations: 9\nstates:\n");
    text.push_str("  s0: {shell: a, capture: a, next: s1}\n  s1: {shell: a, capture: b, next: s2}\n");
    for at in 2..count {
        let judged = if !sound && numbers.one_in(count) { numbers.of(WRONG) } else { numbers.of(JUDGED) };
        let mut state = String::new();
        if !judged.starts_with("shell") {
            let judges_code = !judged.contains("evaluate") && !judged.starts_with("next");
            let actions = if judges_code { &ACTIONS[..WITH_EXIT_CODE] } else { ACTIONS };
            write!(state, "{}, ", numbers.of(actions)).expect("a text");
        }
        if numbers.one_in(3) {
            write!(state, "capture: {}, ", numbers.of(&["a", "b", "c"])).expect("a text");
        }
        let mut parts = judged.split(": T");
        state.push_str(parts.next().unwrap_or_default());
        for (number, part) in parts.enumerate() {
            let to = if number == 0 { at + 1 } else { numbers.below(count + 1) };
            write!(state, ": s{to}{part}").expect("a text");
        }
        writeln!(text, "  s{at}: {{{state}}}").expect("a text");
    }
    writeln!(text, "  s{count}: {{terminal: true}}").expect("a text");
    text
}

/// Loads and plans a text; its errors.
fn checked(text: &str) -> Vec<Problem> {
    let mut problems = found(text);
    problems.retain(Problem::is_error);
    problems
}

/// All problems of a file, also those that are no errors.
fn found(text: &str) -> Vec<Problem> {
    let (workflow, mut problems) = load(SourceFile::with_format("loop.yaml", text, DataFormat::Yaml));
    let planned = workflow.map(|workflow| plan(Arc::new(workflow)));
    let is_planned = planned.as_ref().is_some_and(|(plan, _)| plan.is_some());
    problems.extend(planned.into_iter().flat_map(|(_, found)| found));
    for problem in &problems {
        assert!(text.get(problem.span.range()).is_some(), "{problem:?}\n{text}");
    }
    assert!(is_planned || problems.iter().any(Problem::is_error), "neither a plan nor an error\n{text}");
    problems
}

#[test]
fn loops_of_any_shape_are_checked() {
    let mut numbers = Numbers(11);
    let mut refused = 0;
    for round in 0..120 {
        let count = 3 + numbers.below(if round % 10 == 0 { 300 } else { 12 });
        let text = file(&mut numbers, count, true);
        let problems = checked(&text);
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        refused += usize::from(!checked(&file(&mut numbers, count, false)).is_empty());
    }
    assert!(refused > 20, "{refused} files were refused");
}

/// Of states that nothing leads to there are many problems, and telling them costs no more than the file is long.
#[test]
fn many_states_that_nothing_leads_to() {
    let mut text = String::from("initial: s0\nstates:\n  s0: {terminal: true}\n");
    for at in 1..5_000 {
        writeln!(text, "  s{at}: {{shell: a, next: s{}}}", at % 4_999 + 1).expect("a text");
    }
    let problems = found(&text);
    assert!(!problems.is_empty() && problems.len() < 1_000, "{} problems", problems.len());
}
