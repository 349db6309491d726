//! What a step starts: its environment, its folder, its output, and that nothing of it outlives its end.

use std::path::Path;

use crate::harness::{Workflow, run, workflow};

// ---- environment and folder ----------------------------------------------------------------------------------

#[test]
fn variables_of_the_step_win_over_the_workflows_and_the_callers() {
    let run = workflow(
        r#"
env: {A: workflow, B: workflow, C: null}
steps:
  - {id: a, shell: "echo $A $B ${C-none} $D", env: {A: step}}
  - {id: b, shell: "echo $A ${B-none} $C ${D-none}", env: {B: null, C: back, D: null}}
  - {id: c, argv: [sh, -c, "echo $A $D"]}
"#,
    )
    .env("A", "caller")
    .env("C", "caller")
    .env("D", "caller")
    .run()
    .well();
    assert_eq!(
        [run.value("a"), run.value("b"), run.value("c")],
        ["\"step workflow none caller\"", "\"workflow none back none\"", "\"workflow caller\""]
    );
}

#[test]
fn one_wrong_variable_is_an_error_for_that_one() {
    let workflow =
        workflow("- {shell: touch ran, env: {GOOD: x, \"BAD NAME\": y, ALSO: [1, 2], NOT=THIS: z}}\n");
    let run = workflow.run().exits(3).says("`BAD NAME`").says("`NOT=THIS`").says("`ALSO`");
    assert!(!run.stderr.contains("`GOOD`"), "{}", run.stderr);
    assert!(!workflow.has("ran"));
}

#[test]
fn numbers_and_booleans_are_text_in_the_environment() {
    let run = run(
        "- {id: a, shell: \"echo $N $B $D $O\", env: {N: 7, B: true, D: 1.50, O: \"${= [1, null] }\"}}\n",
    );
    assert_eq!(run.value("a"), "\"7 true 1.50 [1,null]\"");
}

#[test]
fn a_variable_that_programs_take_for_code_takes_no_reference() {
    let workflow =
        workflow("inputs: {x: {}}\nsteps:\n  - {shell: touch ran, env: {BASH_ENV: \"${inputs.x}\"}}\n");
    workflow.run_with(&["--input", "x=y"]).exits(3).says("error[code-variable]");
    assert!(!workflow.has("ran"));
}

#[test]
fn steps_carry_the_marks_of_their_run() {
    let run = run(
        "- {id: a, shell: \"echo $THREADLINE_RUN $THREADLINE_STEP\"}\n- {id: b, foreach: [1], do: [{shell: echo $THREADLINE_STEP}]}\n- {id: c, value: \"${= a.value | starts_with(workflow.id) }\"}\n",
    );
    assert!(run.value("a").ends_with(" 1\""), "{}", run.value("a"));
    assert_eq!((run.value("b"), run.value("c")), (r#"["2[0]/1"]"#.into(), "true".into()));
}

#[test]
fn a_step_runs_in_its_folder() {
    let workflow = workflow("- {id: a, shell: ls, cwd: sub}\n- {id: b, argv: [ls], cwd: sub}\n- {id: c, cwd: sub, value: \"${file:inner.txt}\"}\n- {write_file: {path: new.txt, content: x}, cwd: sub}\n").file("sub/inner.txt", "inner");
    let run = workflow.run().well();
    assert_eq!(
        [run.value("a"), run.value("b"), run.value("c")],
        ["\"inner.txt\"", "\"inner.txt\"", "\"inner\""]
    );
    assert!(workflow.has("sub/new.txt"));
}

#[test]
fn a_folder_that_is_computed_is_the_folder_of_all_fields() {
    let workflow = workflow(
        r#"
allow: {commands: true}
inputs: {folder: {default: sub}}
steps:
  - {id: file, cwd: "${inputs.folder}", value: "${file:inner.txt}"}
  - {id: command, cwd: "${inputs.folder}", value: "${cmd:ls}"}
  - {id: shell, cwd: "${file:where.txt}", env: {A: "${file:inner.txt}"}, shell: "echo $A ${file:inner.txt}"}
  - {cwd: "${inputs.folder}", write_file: {path: new.txt, content: "${file:inner.txt}"}}
"#,
    )
    .file("sub/inner.txt", "inner")
    .file("where.txt", "sub\n");
    let run = workflow.run().well();
    let values = [run.value("file"), run.value("command"), run.value("shell")];
    assert_eq!(values, ["\"inner\"", "\"inner.txt\"", "\"inner inner\""]);
    assert_eq!(workflow.read("sub/new.txt"), "inner");
}

#[test]
fn dir_is_the_folder_of_the_steps() {
    let workflow = workflow("- {id: a, shell: ls}\n- {id: b, value: \"${file:inner.txt}\"}\n")
        .file("sub/inner.txt", "inner");
    let run = workflow.run_with(&["--dir", "sub"]).well();
    assert_eq!([run.value("a"), run.value("b")], ["\"inner.txt\"", "\"inner\""]);
}

#[test]
fn steps_have_no_stdin() {
    assert_eq!(run("- {id: a, shell: cat; echo end}\n").value("a"), "\"end\"");
}

// ---- what cannot start ---------------------------------------------------------------------------------------

#[test]
fn what_cannot_start_says_why() {
    for (step, expected) in [
        ("shell: no-such-program-here", "ExitCode: exit code 127 (command not found)"),
        ("argv: [no-such-program-here]", "Start: "),
        ("argv: [./plain.txt]", "Start: "),
        ("shell: ./plain.txt", "ExitCode: exit code 126 (found, but not executable)"),
        ("argv: [ls]\n  cwd: no/such/folder", "Start: "),
        ("shell: ls\n  cwd: plain.txt", "Start: "),
        ("shell: ls\n  shell_program: /no/such/bash", "Start: "),
    ] {
        let workflow = workflow(&format!("- id: a\n  {step}\n")).file("plain.txt", "not a program");
        let run = workflow.run().exits(1);
        assert!(run.error("a").starts_with(expected), "{step}: {}", run.error("a"));
        let culprit = if step.contains("no/such/folder") {
            "no/such/folder"
        } else if step.contains("plain.txt") && step.contains("cwd") {
            "plain.txt"
        } else {
            ""
        };
        assert!(run.error("a").contains(culprit), "{step}: {}", run.error("a"));
    }
}

// ---- output --------------------------------------------------------------------------------------------------

#[test]
fn more_output_than_allowed_fails_the_step_and_ends_the_program() {
    let run = workflow("- {id: a, shell: yes, max_output: 10kB}\n").run().exits(1);
    assert_eq!(run.error("a"), "OutputTooLarge: printed more than 10000 bytes to stdout");
    let run = workflow("- {id: a, shell: yes >&2, max_output: 10kB}\n").run().exits(1);
    assert_eq!(run.error("a"), "OutputTooLarge: printed more than 10000 bytes to stderr");
}

#[test]
fn output_that_is_not_utf_8_fails_with_the_place() {
    let run = workflow("- {id: a, shell: \"printf 'ab\\\\377c'\"}\n").run().exits(1);
    assert!(run.error("a").starts_with("Format: its output is not UTF-8 at byte 2"), "{}", run.error("a"));
}

#[test]
fn stderr_that_is_not_utf_8_does_not_matter() {
    let run =
        run("- {id: a, shell: \"printf 'ab\\\\377c' >&2; echo fine\"}\n- {id: b, value: \"${a.stderr}\"}\n");
    assert_eq!((run.value("a"), run.value("b")), ("\"fine\"".into(), "\"ab\u{fffd}c\"".into()));
}

#[test]
fn both_streams_and_the_exit_code_can_be_read() {
    let run = run(r#"
- {id: a, shell: "echo out; echo err >&2; exit 3", continue_on_error: true, capture: c}
- {id: b, value: ["${a.output}", "${a.stderr}", "${a.exit_code}", "${a.state}", "${captured.c.output}", "${captured.c.exit_code}", "${= a.duration_ms >= 0 }"]}
- {id: quiet, shell: "true"}
- {id: d, value: ["${quiet.output}", "${quiet.stderr}", "${quiet.exit_code}"]}
"#);
    assert_eq!(run.value("b"), r#"["out","err",3,"failed","out",3,true]"#);
    assert_eq!(run.value("d"), r#"["","",0]"#);
}

#[test]
fn a_program_that_ends_by_a_signal_says_so() {
    let run = workflow("- {id: a, shell: kill -s USR1 $$}\n").run().exits(1);
    assert!(run.error("a").starts_with("Signal: ended by signal 10"), "{}", run.error("a"));
}

// ---- ends ----------------------------------------------------------------------------------------------------

/// Asserts that the processes whose ids stand in a file are gone.
pub(crate) fn all_gone(workflow: &Workflow, file: &str) {
    let ids = workflow.read(file);
    assert!(!ids.trim().is_empty(), "no process wrote its id");
    for id in ids.split_whitespace() {
        let status = std::fs::read_to_string(Path::new("/proc").join(id).join("status"));
        let lives = status
            .is_ok_and(|status| status.lines().any(|line| line.starts_with("State:") && !line.contains('Z')));
        assert!(!lives, "process {id} lives on");
    }
}

#[test]
fn a_timeout_ends_everything_that_the_step_started() {
    let workflow = workflow(
        "- id: a\n  timeout: 2s\n  shell: |\n    sleep 1000 & echo $! >> ids\n    (sleep 1000 & echo $! >> ids; setsid sleep 1000 & echo $! >> ids; wait) &\n    echo $$ >> ids\n    wait\n",
    );
    let run = workflow.run().exits(1);
    assert_eq!(run.error("a"), "Timeout: timed out after 2s");
    all_gone(&workflow, "ids");
}

#[test]
fn nothing_outlives_its_step_or_its_run() {
    let workflow = workflow(
        "- {id: a, shell: \"sleep 1000 & echo $! > ids; setsid sleep 1000 & echo $! >> ids; echo done\"}\n- {id: b, shell: echo next}\n",
    );
    let run = workflow.run().well();
    assert_eq!((run.value("a"), run.value("b")), ("\"done\"".into(), "\"next\"".into()));
    all_gone(&workflow, "ids");
}

// ---- signals -------------------------------------------------------------------------------------------------

#[test]
fn the_first_signal_lets_the_step_end_and_starts_nothing_new() {
    for signal in ["INT", "TERM", "HUP"] {
        let workflow = workflow("- {id: a, shell: \"echo > began; cat go > /dev/null; echo a >> log\"}\n- {id: b, shell: echo b >> log}\n").pipes(&["began", "go"]);
        let running = workflow.start(&[]);
        workflow.receive("began");
        running.signal(signal);
        running.until("stopping");
        workflow.release("go");
        let run = running.wait().exits(130);
        assert_eq!(workflow.read("log"), "a\n", "{signal}");
        assert_eq!(run.of_kind("paused").len(), 1);
        workflow.resume().well();
        assert_eq!(workflow.read("log"), "a\nb\n", "{signal}");
    }
}

#[test]
fn the_second_signal_ends_the_step_which_is_done_again() {
    let workflow = workflow("- {id: a, shell: \"echo $$ >> ids; echo > began; cat go > /dev/null; echo a >> log\"}\n- {id: b, shell: echo b >> log}\n").pipes(&["began", "go"]);
    let running = workflow.start(&[]);
    workflow.receive("began");
    running.signal("INT");
    // Two signals at once count as one.
    running.until("stopping");
    running.signal("INT");
    running.wait().exits(130);
    all_gone(&workflow, "ids");
    assert!(!workflow.has("log"));
    let resumed = workflow.command(&["resume", "--json"]);
    workflow.receive("began");
    workflow.release("go");
    resumed.wait().well();
    assert_eq!(workflow.read("log"), "a\nb\n");
}

#[test]
fn a_signal_ends_the_pause_before_an_attempt() {
    let workflow =
        workflow("- {id: a, shell: \"echo >> tries; test -e mended\", retry: {attempts: 3, delay: 1h}}\n");
    let running = workflow.start(&[]);
    running.until("\"kind\":\"retrying\"");
    running.signal("INT");
    running.wait().exits(130);
    assert_eq!(workflow.lines("tries"), 1);
}
