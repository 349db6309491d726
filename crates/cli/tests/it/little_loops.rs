//! What goes wrong in loops of other systems, each as a test of its own.

use crate::support::{Outcome, Project};

/// A loop in a project of its own.
fn project(text: &str) -> Project {
    let project = Project::new();
    project.write("w.yaml", text.as_bytes());
    project
}

/// A loop of one state that acts, and an end.
fn acting(context: &str, action: &str) -> Project {
    let action = action.replace('\n', "\n      ");
    let (act, done) = ("action: |", "terminal: true");
    project(&format!(
        "context: {context}\ninitial: act\nstates:\n  act:\n    {act}\n      {action}\n    next: done\n  done: {{{done}}}\n"
    ))
}

fn run(project: &Project) -> Outcome {
    project.run_line_steady("threadline run -v w.yaml")
}

/// What the states of a loop print, when it comes to a good end.
fn printed(project: &Project) -> Vec<String> {
    let outcome = run(project);
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    let lines = outcome.stdout.lines().filter_map(|line| line.split_once(" │ "));
    lines.map(|(_, line)| line.to_owned()).collect()
}

/// What `check` says of a loop that it refuses.
fn refused(text: &str) -> String {
    let outcome = project(text).run_line("threadline check w.yaml");
    assert_eq!(outcome.exit, 1, "{}{}", outcome.stdout, outcome.stderr);
    outcome.stderr
}

/// The lines that begin a problem.
fn headings(told: &str) -> Vec<&str> {
    told.lines().filter(|line| line.starts_with("error[") || line.starts_with("warning[")).collect()
}

#[test]
fn operators_of_the_shell_are_no_references() {
    let project = acting(
        "{}",
        r#"A=(one two); F=dir/notes.txt; unset VAR
echo "${VAR:-x} ${A[@]} ${#A[@]} ${F##*/}""#,
    );
    assert_eq!(printed(&project), ["x one two 2 notes.txt"]);
}

#[test]
fn an_escaped_reference_is_no_process_id() {
    let project =
        acting("{name: n}", r#"echo '$${context.name}' "${context.name}"; [ $$ -gt 1 ] && echo pid"#);
    assert_eq!(printed(&project), ["${context.name} n", "pid"]);
}

#[test]
fn a_misspelt_root_does_not_hide_behind_a_default() {
    let told = refused(
        r#"
context: {name: n}
initial: act
states:
  act:
    action: echo "${contxt.name:-x}"
    evaluate: {type: expression, expression: 'default(captued.x, 1) == 1'}
    on_yes: tell
    on_no: tell
  tell: {value: "${stat.name:-x} ${context.nmae:-x}", next: done}
  done: {terminal: true}
"#,
    );
    let misspelt = ["contxt", "captued", "stat"].map(|name| format!("unknown name `{name}`"));
    assert!(misspelt.iter().all(|told_of| told.contains(told_of)), "{told}");
    for near in ["`context`", "`captured`", "`state`"] {
        assert!(told.contains(&format!("did you mean {near}")), "{near}: {told}");
    }
}

#[test]
fn a_default_covers_null_and_empty_text() {
    let project = acting(
        r#"{nothing: null, empty: "", zero: 0}"#,
        r#"echo "${context.nothing:-a} ${context.empty:-b} ${context.zero:-c} ${context.nothing | default('d')}""#,
    );
    assert_eq!(printed(&project), ["a b 0 d"]);
}

#[test]
fn objects_and_lists_print_as_json() {
    let project = project(
        r#"
context: {of: {name: it's, on: true, none: null, list: [1, 2.50]}}
agents: {claude: {command: [cat]}}
initial: ask
states:
  ask: {action_type: prompt, action: "${context.of}", next: act}
  act: {action: 'printf "%s\n" ${context.of | to_json}', next: done}
  done: {terminal: true}
"#,
    );
    let json = r#"{"name":"it's","on":true,"none":null,"list":[1,2.50]}"#;
    assert_eq!(printed(&project), [json, json]);
}

#[test]
fn a_capture_that_a_way_goes_around_is_refused() {
    let told = refused(
        r#"
initial: check
states:
  check: {action: "true", on_yes: report, on_no: look}
  look: {action: echo found, capture: errors, next: report}
  report: {action: 'echo "${captured.errors.output}"', next: done}
  done: {terminal: true}
"#,
    );
    assert_eq!(headings(&told), ["error[maybe-unset]: `errors` is not set on every path to `report`"]);
    assert!(told.contains("not set on the path check → report"), "{told}");
}

#[test]
fn a_capture_of_an_earlier_iteration_is_not_taken_for_this_one() {
    let told = refused(
        r#"
initial: check
max_iterations: 3
states:
  check: {action: 'echo "${captured.errors.output:-}"', on_yes: look, on_no: done}
  look: {action: echo found, capture: errors, next: check}
  done: {terminal: true}
"#,
    );
    assert!(headings(&told)[0].starts_with("error[never-set]: `errors` is never set here"), "{told}");
    assert!(told.contains("`${captured.errors.previous.output:-text}`"), "{told}");
}

/// The same at run time, where a way is chosen that the check cannot know: the value of before is not there.
#[test]
fn what_was_captured_before_an_iteration_reads_as_missing_in_it() {
    let project = project(
        r#"
initial: begin
max_iterations: 3
states:
  begin:
    evaluate: {type: expression, expression: state.iteration == 1}
    on_yes: look
    on_no: tell
  look: {action: echo found, capture: errors, next: tell}
  tell:
    action: echo "${captured.errors.output:-nothing} ${captured.errors.previous.output:-none}"
    evaluate: {type: expression, expression: state.iteration == 2}
    on_yes: done
    on_no: begin
  done: {terminal: true}
"#,
    );
    assert_eq!(printed(&project), ["found", "found none", "nothing found"]);
}

#[test]
fn an_error_is_never_any_other_verdict() {
    let project = project(
        r"
initial: act
states:
  act: {action: exit 9, route: {yes: wrong, _: wrong, _error: right}}
  wrong: {terminal: failure}
  right: {terminal: true}
",
    );
    let outcome = run(&project);
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("error → right  exit code 9 is neither yes nor no"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn an_error_without_a_route_of_its_own_fails_the_state() {
    let project = project(
        r"
initial: act
states:
  act: {action: exit 9, evaluate: exit_code, next: wrong}
  wrong: {terminal: true}
",
    );
    let outcome = run(&project);
    assert_eq!(outcome.exit, 1, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("wrong"), "{}", outcome.stdout);
}

#[test]
fn a_verdict_other_than_yes_is_no_failure() {
    let project = project(
        r"
initial: check
states:
  check: {action: exit 1, on_yes: wrong, on_no: judge}
  judge:
    action: echo blocked
    evaluate: {type: expression, expression: result.output}
    on_blocked: done
    next: wrong
  done: {terminal: true}
  wrong: {terminal: failure}
",
    );
    let outcome = run(&project);
    assert_eq!((outcome.exit, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("no → judge") && outcome.stdout.contains("blocked → done"));
    assert!(!outcome.stdout.contains('✗') && !outcome.stdout.contains("failed"), "{}", outcome.stdout);
}

/// The verdicts of a state, one visit after the other.
fn verdicts(stdout: &str, state: &str) -> Vec<String> {
    let lines = stdout.lines().filter_map(|line| line.split_once(" → ").map(|(before, _)| before));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<&str>>());
    let visits = words.filter(|words| words.iter().any(|word| word.split('#').next() == Some(state)));
    visits
        .filter_map(|words| words.last().filter(|word| **word != state).map(|word| (*word).to_owned()))
        .collect()
}

/// Where the output of a simulation is a fixed text, no number is ever found in it and no simulation can succeed.
#[test]
fn a_simulation_with_a_numeric_evaluator_can_succeed() {
    let numeric = project(
        r"
initial: measure
max_iterations: 5
states:
  measure:
    action: touch hit; wc -l < notes
    evaluate: {type: output_numeric, operator: lte, target: 3}
    on_yes: done
    on_no: shrink
    on_error: broken
  shrink: {action: touch hit, next: measure}
  done: {terminal: true}
  broken: {terminal: failure}
",
    );
    for (options, expected) in [
        ("--all yes", &["yes"][..]),
        ("--alternating", &["no", "yes"]),
        ("--verdicts measure=no,no,yes", &["no", "no", "yes"]),
        ("--numbers measure=10,7,3", &["no", "no", "yes"]),
    ] {
        let outcome = numeric.run_line(&format!("threadline simulate w.yaml {options}"));
        assert_eq!(outcome.exit, 0, "{options}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("completed in done"), "{options}: {}", outcome.stdout);
        assert_eq!(verdicts(&outcome.stdout, "measure"), expected, "{options}: {}", outcome.stdout);
    }
    let random = numeric.run_line("threadline simulate w.yaml --seed 3 --runs 20");
    assert!(random.stdout.contains("completed in done"), "{}", random.stdout);
    assert!(numeric.read("hit").is_none(), "a simulation ran something");
}

/// The measurement before is that of the state itself: not what the state before it printed, and not the first one.
#[test]
fn convergence_compares_with_the_measurement_before() {
    let project = project(
        r#"
initial: measure
max_iterations: 9
states:
  measure:
    action: head -n "$NUMBER" numbers | tail -n 1
    env: {NUMBER: "${state.iteration}"}
    evaluate: {type: convergence, target: 0, direction: minimize}
    on_target: done
    on_progress: work
    on_stall: work
    on_error: broken
  work: {action: echo 1000, next: measure}
  done: {terminal: true}
  broken: {terminal: failure}
"#,
    );
    project.write("numbers", b"9\n4\n6\n5\n5\n0\n");
    let outcome = project.run_line("threadline run w.yaml");
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    let expected = ["progress", "progress", "stall", "progress", "stall", "target"];
    assert_eq!(verdicts(&outcome.stdout, "measure"), expected, "{}", outcome.stdout);
    let simulated = project.run_line("threadline simulate w.yaml --numbers measure=9,4,6,5,5,0");
    assert_eq!(verdicts(&simulated.stdout, "measure"), expected, "{}", simulated.stdout);
}

/// What a shell takes for its own, and what is easily damaged.
const FRAGMENTS: [&str; 24] = [
    "'",
    "\"",
    "`",
    "$",
    "\\",
    "$(touch hit)",
    "`touch hit`",
    ";touch hit;",
    "|touch hit",
    "\ntouch hit\n",
    "&&touch hit",
    "';touch hit;'",
    "\";touch hit;\"",
    "\nEND\n",
    "${HOME}",
    "${context.name}",
    "$HOME",
    "*",
    "~",
    "-x",
    "é😀",
    "\t",
    " ",
    "#",
];

/// Every fragment by itself and beside some others, as lines of JSON.
fn values() -> Vec<String> {
    let count = FRAGMENTS.len();
    let mut values: Vec<String> = FRAGMENTS.iter().map(|fragment| (*fragment).to_owned()).collect();
    values.push(String::new());
    values.extend((0..count).map(|at| {
        let parts = [FRAGMENTS[at], "a", FRAGMENTS[(at * 7 + 3) % count], FRAGMENTS[(at * 5 + 11) % count]];
        parts.concat()
    }));
    values
}

#[test]
fn a_value_is_never_run_in_any_place_of_a_state() {
    let values = values();
    let lines: Vec<String> = values
        .iter()
        .map(|value| threadline_lang::Value::from(value.as_str()))
        .map(|value| value.to_json(threadline_lang::value::JsonStyle::Compact))
        .collect();
    let project = project(&format!(
        r#"
context: {{name: leaked}}
agents: {{claude: {{command: [cat]}}}}
initial: next
max_iterations: {}
states:
  next:
    action: head -n "$NUMBER" values | tail -n 1
    env: {{NUMBER: "${{state.iteration}}"}}
    capture: value
    capture_format: json
    next: bare
  bare: {{action: 'printf "<%s>" ${{value}}', capture: bare, next: quoted}}
  quoted: {{action: 'printf "<%s>" "${{captured.value.value}}"', capture: quoted, next: single}}
  single: {{action: "printf '<%s>' '${{value}}'", capture: single, next: document}}
  document:
    action: |
      cat <<'END'
      <${{value}}>
      END
    capture: document
    next: argv
  argv: {{argv: [printf, "<%s>", "${{value}}"], capture: argv, next: variable}}
  variable: {{action: 'printf "<%s>" "$V"', env: {{V: "${{value}}"}}, capture: variable, next: prompt}}
  prompt: {{action_type: prompt, action: "<${{value}}>", capture: prompt, next: file}}
  file: {{write_file: {{path: out, content: "<${{value}}>"}}, next: read}}
  read: {{action: cat out, capture: read, next: compare}}
  compare:
    value: "<${{value}}>"
    evaluate:
      type: expression
      expression: >-
        [bare, quoted, single, document, argv, variable, captured.prompt.output, read, result.value]
        | unique | len == 1
    route:
      - {{when: "result.verdict == 'yes' and state.iteration == {}", to: done}}
    on_yes: next
    on_no: damaged
  damaged: {{terminal: failure}}
  done: {{terminal: true}}
"#,
        values.len(),
        values.len()
    ));
    project.write("values", (lines.join("\n") + "\n").as_bytes());
    let outcome = project.run_line("threadline run w.yaml");
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stdout.matches("• compare").count(), values.len());
    assert_eq!(project.read("hit"), None, "a value was run");
}
