//! A run that was killed, stopped or has failed goes on: what had finished is not done again, and nothing is lost.

use crate::harness::{Workflow, workflow};

/// A step that tells when it runs and waits for a word.
pub(crate) const WAITS: &str = "echo > began; cat go > /dev/null";

/// Kills a run while its waiting step runs.
pub(crate) fn killed(workflow: &Workflow) {
    let running = workflow.start(&[]);
    workflow.receive("began");
    running.kill();
}

/// Resumes a run whose waiting step runs again.
pub(crate) fn resumed(workflow: &Workflow) -> crate::harness::Run {
    let running = workflow.command(&["resume", "--json"]);
    workflow.receive("began");
    workflow.release("go");
    running.wait()
}

#[test]
fn after_a_kill_nothing_that_had_finished_runs_again() {
    let workflow = workflow(&format!(
        r#"
- {{id: one, shell: "echo one >> log; echo 7", capture_format: number, capture: seven}}
- {{id: random, value: "${{uuid}}"}}
- {{id: waits, shell: "echo waits >> log; {WAITS}; echo ${{random}}"}}
- {{id: after, value: ["${{seven}}", "${{= random.value == waits.value }}"]}}
"#
    ))
    .pipes(&["began", "go"]);
    killed(&workflow);
    let run = resumed(&workflow).well();
    assert_eq!(workflow.read("log"), "one\nwaits\nwaits\n");
    assert_eq!(run.value("after"), "[7,true]");
}

#[test]
fn a_step_that_runs_again_after_a_kill_sees_the_same_computed_values() {
    let workflow = workflow(&format!(
        r#"
allow: {{commands: true}}
context: {{id: "${{uuid}}"}}
steps:
  - id: waits
    shell: |
      echo ${{cmd:echo >> calls; wc -l < calls}} ${{context.id}} ${{uuid}} ${{date:%H:%M:%S}} ${{env.COLOUR}} ${{file:note.txt}} >> seen
      {WAITS}
  - {{id: after, value: "${{context.id}}"}}
"#
    ))
    .pipes(&["began", "go"])
    .env("COLOUR", "blue")
    .file("note.txt", "before");
    killed(&workflow);
    workflow.project.write("note.txt", b"changed");
    let workflow = workflow.env("COLOUR", "red");
    let run = resumed(&workflow).well();
    let seen = workflow.read("seen");
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
    assert!(lines[0].starts_with("1 ") && lines[0].ends_with(" blue before"), "{}", lines[0]);
    assert_eq!(workflow.lines("calls"), 1);
    assert!(seen.contains(run.value("after").trim_matches('"')));
}

#[test]
fn on_crash_fail_makes_the_step_fail() {
    let text = format!(
        "- {{id: a, on_crash: fail, shell: \"echo a >> log; {WAITS}\", on_failure: [{{shell: echo caught >> log}}]}}\n- shell: echo after >> log\n"
    );
    let workflow = workflow(&text).pipes(&["began", "go"]);
    killed(&workflow);
    let run = workflow.resume().exits(1);
    assert_eq!(run.error("a"), "Crash: it was running when Threadline was killed");
    assert_eq!(workflow.read("log"), "a\ncaught\n");
}

#[test]
fn on_crash_ask_waits_with_exit_code_4_until_somebody_says() {
    let text = format!(
        "- {{id: a, on_crash: ask, shell: \"echo a >> log; {WAITS}\"}}\n- shell: echo after >> log\n"
    );
    for in_flight in ["rerun", "fail"] {
        let workflow = workflow(&text).pipes(&["began", "go"]);
        killed(&workflow);
        let asked = workflow.command(&["resume"]).wait().exits(4);
        let asked = asked.says("on_crash: ask").says("--in-flight rerun");
        assert!(asked.stdout.contains("paused"), "{}", asked.stdout);
        assert_eq!(workflow.read("log"), "a\n");
        if in_flight == "fail" {
            let run = workflow.resume_with(&["--in-flight", "fail"]).exits(1);
            assert!(run.error("a").starts_with("Crash: "), "{}", run.error("a"));
            assert_eq!(workflow.read("log"), "a\n");
        } else {
            let running = workflow.command(&["resume", "--json", "--in-flight", "rerun"]);
            workflow.receive("began");
            workflow.release("go");
            running.wait().well();
            assert_eq!(workflow.read("log"), "a\na\nafter\n");
        }
    }
}

#[test]
fn what_a_killed_run_left_behind_is_ended_before_it_goes_on() {
    let workflow =
        workflow(&format!("- {{id: a, shell: \"echo $$ >> ids; {WAITS}\"}}\n")).pipes(&["began", "go"]);
    killed(&workflow);
    resumed(&workflow).well();
    super::processes::all_gone(&workflow, "ids");
    assert_eq!(workflow.lines("ids"), 2);
}

#[test]
fn after_a_failure_the_run_goes_on_where_it_failed() {
    let workflow = workflow(
        r#"
inputs: {name: {type: text}}
steps:
  - {shell: "echo one >> log; echo 7", capture_format: number, capture: seven}
  - id: broken
    shell: echo broken >> log; test -e mended
    retry: {attempts: 2, delay: 1ms}
    on_failure: [{shell: echo on_failure >> log}]
  - {id: after, value: ["${seven}", "${inputs.name}", "${broken.meta.retry_count}"]}
finally:
  - shell: echo end >> log
"#,
    );
    workflow.run_with(&["--input", "name=Ada"]).exits(1);
    assert_eq!(workflow.read("log"), "one\nbroken\nbroken\non_failure\nend\n");
    workflow.resume().exits(1);
    workflow.project.write("mended", b"");
    let run = workflow.resume().well();
    assert_eq!(
        workflow.read("log"),
        "one\nbroken\nbroken\non_failure\nend\nbroken\nbroken\non_failure\nend\nbroken\nend\n"
    );
    assert!(run.value("after").starts_with("[7,\"Ada\","), "{}", run.value("after"));
}

#[test]
fn inputs_settings_and_the_clock_of_the_run_persist() {
    let workflow = workflow(r#"
inputs: {n: {type: int}}
context: {a: {b: 1}, now: "${date:%H:%M:%S}", secret: "${env.COLOUR}"}
steps:
  - {id: before, value: ["${inputs.n}", "${context.a.b}", "${context.now}", "${context.secret}", "${workflow.id}", "${workflow.start_time}"]}
  - shell: test -e mended
  - {id: after, value: ["${inputs.n}", "${context.a.b}", "${context.now}", "${context.secret}", "${workflow.id}", "${workflow.start_time}"]}
  - {id: same, value: "${= before.value == after.value }"}
"#)
    .env("COLOUR", "blue");
    workflow.run_with(&["--input", "n=5", "--set-json", "context.a.b=[1]"]).exits(1);
    workflow.project.write("mended", b"");
    let run = workflow.env("COLOUR", "red").resume().well();
    assert_eq!(run.value("same"), "true");
    assert!(run.value("after").starts_with("[5,[1],"), "{}", run.value("after"));
}

#[test]
fn an_edited_file_does_not_change_a_run_under_way() {
    let workflow = workflow("- shell: test -e mended\n- shell: echo old >> log\n");
    workflow.run().exits(1);
    workflow.project.write("workflow.yaml", b"- shell: echo new >> log\n");
    workflow.project.write("mended", b"");
    workflow.resume().well().says("has changed since");
    assert_eq!(workflow.read("log"), "old\n");
}

#[test]
fn a_completed_run_has_nothing_to_resume() {
    let workflow = workflow("- shell: echo x >> log\n");
    workflow.run().well();
    let run = workflow.command(&["resume", "last"]).wait().well();
    assert!(run.stdout.contains("is completed, there is nothing to resume"), "{}", run.stdout);
    assert_eq!(workflow.read("log"), "x\n");
}

#[test]
fn a_run_is_driven_by_one_process_only() {
    let workflow = workflow(&format!("- {{id: a, shell: \"{WAITS}\"}}\n")).pipes(&["began", "go"]);
    let running = workflow.start(&[]);
    workflow.receive("began");
    let refused = workflow.command(&["resume"]).wait().exits(3);
    assert!(!refused.stderr.is_empty());
    workflow.release("go");
    running.wait().well();
}

#[test]
fn a_run_has_a_prefix_and_runs_side_by_side_do_not_mix() {
    let workflow =
        workflow("inputs: {n: {}}\nsteps:\n  - shell: test -e mended\n  - {id: a, value: \"${inputs.n}\"}\n");
    let first = workflow.run_with(&["--input", "n=first"]).exits(1);
    workflow.run_with(&["--input", "n=second"]).exits(1);
    workflow.project.write("mended", b"");
    let id = first.of_kind("run_started")[0]
        .get("data")
        .and_then(|data| data.get("run")?.as_str())
        .expect("an id");
    assert_eq!(workflow.resume_with(&[&id[..6]]).well().value("a"), "\"first\"");
    assert_eq!(workflow.resume_with(&["last"]).well().value("a"), "\"second\"");
}

/// Two steps an item. The second begins when what the first left is on disk, and with it all that was before.
const ITEMS: &str = r"
- id: all
  foreach: [0, 1, 2]
  do:
    - shell: echo ${item} >> first
    - shell: |
        echo > began
        cat go > /dev/null
        echo ${item} >> second
        echo ${item}
";

#[test]
fn killed_in_a_foreach_it_goes_on_with_what_is_left() {
    let workflow = workflow(ITEMS).pipes(&["began", "go"]);
    let running = workflow.start(&[]);
    workflow.receive("began");
    workflow.release("go");
    workflow.receive("began");
    running.kill();
    let running = workflow.command(&["resume", "--json"]);
    for _ in 1..=2 {
        workflow.receive("began");
        workflow.release("go");
    }
    assert_eq!(running.wait().well().value("all"), r#"["0","1","2"]"#);
    assert_eq!([workflow.read("first"), workflow.read("second")], ["0\n1\n2\n", "0\n1\n2\n"]);
}

#[test]
fn killed_again_and_again_it_still_comes_to_its_end() {
    let workflow = workflow(ITEMS).pipes(&["began", "go"]);
    killed(&workflow);
    for _ in 0..2 {
        let running = workflow.command(&["resume", "--json"]);
        workflow.receive("began");
        workflow.release("go");
        workflow.receive("began");
        running.kill();
    }
    assert_eq!(resumed(&workflow).well().value("all"), r#"["0","1","2"]"#);
    assert_eq!([workflow.read("first"), workflow.read("second")], ["0\n1\n2\n", "0\n1\n2\n"]);
}

/// Where `SQLite` keeps the version that a program gave to its file.
const VERSION_AT: std::ops::Range<usize> = 60..64;

#[test]
fn a_store_of_a_later_program_is_left_alone() {
    let workflow = workflow("- shell: touch ran\n");
    workflow.run().well();
    std::fs::remove_file(workflow.project.path().join("ran")).expect("it ran");
    let file = workflow.project.path().join(".threadline/journal.db");
    let mut journal = std::fs::read(&file).expect("the journal");
    journal[VERSION_AT].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&file, &journal).expect("the journal");
    for arguments in [&["run", "workflow.yaml"][..], &["resume"], &["runs"]] {
        let refused = workflow.command(arguments).wait().exits(3);
        refused.says("written by a newer threadline: version 99").says("hint: use the newer `threadline`");
    }
    assert!(!workflow.has("ran"));
    assert_eq!(std::fs::read(&file).expect("the journal"), journal);
}

/// A step that may not run twice, and waits for a word.
fn charge() -> String {
    format!("{{id: charge, shell: \"echo charged >> charges; {WAITS}\", on_crash: fail}}")
}

/// Kills a run in its step that may not run twice: the resume fails and has not run it again; the next one, which
/// somebody asks for, does.
fn fails_once(workflow: Workflow) {
    let workflow = workflow.pipes(&["began", "go"]);
    killed(&workflow);
    let run = workflow.resume().exits(1);
    assert_eq!(workflow.lines("charges"), 1, "{}{}", run.stdout, run.stderr);
    assert!(run.of_kind("item_retrying").is_empty() && run.of_kind("retrying").is_empty(), "{}", run.stdout);
    resumed(&workflow).well();
    assert_eq!(workflow.lines("charges"), 2);
}

#[test]
fn on_crash_fail_holds_in_a_map_that_retries_its_items() {
    let charge = charge();
    fails_once(workflow(&format!(
        "map:\n  input: [1]\n  retry: {{attempts: 3, delay: 1ms}}\n  steps:\n    - {charge}\n"
    )));
}

#[test]
fn on_crash_fail_holds_in_a_foreach_that_retries_its_items() {
    let charge = charge();
    fails_once(workflow(&format!(
        "- foreach: [1]\n  error_policy: {{on_item_failure: retry}}\n  do:\n    - {charge}\n"
    )));
}

#[test]
fn on_crash_fail_holds_in_items_of_items_that_are_retried() {
    let charge = charge();
    fails_once(workflow(&format!(
        "- foreach: [1]\n  error_policy: {{on_item_failure: retry}}\n  do:\n    - foreach: [2]\n      do:\n        \
         - {charge}\n"
    )));
}

#[test]
fn on_crash_fail_holds_in_an_item_that_fails_for_another_reason() {
    let charge = format!(
        "{{id: charge, shell: \"echo charged >> charges; {WAITS}\", on_crash: fail, continue_on_error: true}}"
    );
    let workflow = workflow(&format!(
        "- foreach: [1]\n  error_policy: {{on_item_failure: retry}}\n  do:\n    - {charge}\n    - shell: test -e \
         mended\n"
    ))
    .pipes(&["began", "go"]);
    killed(&workflow);
    workflow.resume().exits(1);
    assert_eq!(workflow.lines("charges"), 1);
    workflow.project.write("mended", b"");
    workflow.resume().well();
    assert_eq!(workflow.lines("charges"), 1);
}

#[test]
fn on_crash_fail_holds_in_a_workflow_whose_call_is_retried() {
    let charge = charge();
    let calls = "- {id: call, workflow: pay.yaml, retry: {attempts: 3, delay: 1ms}}\n";
    fails_once(workflow(calls).file("pay.yaml", &format!("- {charge}\n")));
    let calls = "- foreach: [1]\n  error_policy: {on_item_failure: retry}\n  do: [{workflow: pay.yaml}]\n";
    fails_once(workflow(calls).file("pay.yaml", &format!("- {charge}\n")));
    let called = format!("initial: pay\nstates:\n  pay: {charge}\n  done: {{terminal: true}}\n")
        .replace("id: charge", "next: done");
    let calls = "- {id: call, workflow: pay.yaml, retry: {attempts: 3, delay: 1ms}}\n";
    fails_once(workflow(calls).file("pay.yaml", &called));
}

/// An agent that survives the kill of its Threadline has the whole of what it was told, however late it reads.
#[test]
fn a_kill_cuts_no_prompt_off() {
    let workflow = workflow(
        r#"
agents: {slow: {command: [sh, agent.sh]}}
context: {long: "${file:long.txt}"}
steps:
  - {agent: slow, message: "${context.long} DO NOT TOUCH PRODUCTION"}
"#,
    )
    .file("long.txt", &"x".repeat(200_000))
    .file("agent.sh", "echo > began; cat go > /dev/null; tail -c 23 > got")
    .pipes(&["began", "go", "got"]);
    killed(&workflow);
    workflow.release("go");
    assert_eq!(workflow.receive("got"), "DO NOT TOUCH PRODUCTION");
}
