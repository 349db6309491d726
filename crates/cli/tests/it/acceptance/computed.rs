//! Values of the machine in workflows: every kind in every field, asked for only when it is read, once per attempt,
//! and recorded.

use crate::harness::{run, workflow};

/// A workflow with every kind of computed value in a field of its own.
const KINDS: &str = r#"
computed:
  ticket: {command: [sh, -c, "read -r id; echo \"{\\\"id\\\": $id, \\\"points\\\": 3}\""]}
allow: {commands: true}
steps:
  - shell: |
      echo '{"build": {"numbers": [6, 7]}}'
"#;

#[test]
fn every_kind_in_a_value_field_keeps_its_type() {
    let steps = r#"
  - id: all
    value:
      env: ${env.COLOUR}
      file: ${file:note.txt}
      cmd: ${cmd:echo "a b" | tr a-z A-Z}
      json: ${json:build.numbers[1]}
      list: ${json:build.numbers}
      date: ${= date("%Y") | int > 2000 }
      uuid: ${= uuid | len }
      ticket: ${ticket:ABC-1}
      points: ${= ticket("ABC-1").points + 1 }
"#;
    let workflow = workflow(&format!("{KINDS}{steps}")).file("note.txt", "one\ntwo\n").env("COLOUR", "blue");
    assert_eq!(
        workflow.run().well().value("all"),
        r#"{"env":"blue","file":"one\ntwo","cmd":"A B","json":7,"list":[6,7],"date":true,"uuid":36,"#
            .to_owned()
            + r#""ticket":{"id":"ABC-1","points":3},"points":4}"#
    );
}

#[test]
fn every_kind_reaches_a_shell_as_one_word() {
    let steps = r#"
  - id: all
    shell: |
      printf '[%s]' ${env.COLOUR} "${file:note.txt}" '${cmd:echo "a  b"}' ${json:build.numbers[1]}
    capture: words
  - id: random
    shell: |
      printf '%s %s' ${date:%Y} ${uuid} | wc -c
    capture_format: number
  - id: own
    shell: echo ${= ticket("ABC-1").points }
"#;
    let workflow = workflow(&format!("{KINDS}{steps}"))
        .file("note.txt", "$(touch pwned)\n")
        .env("COLOUR", "dark  blue;");
    // The step before `all` is the one that `json:` reads.
    let run = workflow.run().well();
    assert_eq!(run.value("all"), r#""[dark  blue;][$(touch pwned)][a  b][7]""#);
    assert_eq!(run.value("random"), "41");
    assert_eq!(run.value("own"), r#""3""#);
    assert!(!workflow.has("pwned"));
}

#[test]
fn every_kind_is_one_argument_of_a_program() {
    let steps = r#"
  - id: all
    argv: [printf, "[%s]", "${env.COLOUR}", "${file:note.txt}", "${cmd:echo x y}", "${json:build.numbers[0]}", "n${json:build.numbers[1]}"]
  - id: lengths
    argv: [printf, "%s-%s", "${date:%Y-%m-%d}", "${uuid}"]
"#;
    let workflow = workflow(&format!("{KINDS}{steps}")).file("note.txt", "a *\n").env("COLOUR", "dark blue");
    let run = workflow.run().well();
    assert_eq!(run.value("all"), r#""[dark blue][a *][x y][6][n7]""#);
    assert_eq!(run.value("lengths").len(), 2 + 10 + 1 + 36);
}

#[test]
fn every_kind_can_decide_a_condition() {
    let steps = r#"
  - {id: a, when: "env.COLOUR == 'blue'", value: 1}
  - {id: b, when: "file('note.txt') | contains('two')", value: 1}
  - {id: c, when: "cmd('echo 5') | int > 4", value: 1}
  - {id: d, when: "date('%Y') | int > 2000", value: 1}
  - {id: e, when: "len(uuid) == 36", value: 1}
  - {id: f, when: "ticket('x').points == 3", value: 1}
  - {id: g, when: "env.NOBODY | exists", value: 1}
  - shell: |
      echo '{"ok": true}'
  - {id: h, when: "json('ok', prev.output)", value: 1}
"#;
    let workflow = workflow(&format!("{KINDS}{steps}")).file("note.txt", "two").env("COLOUR", "blue");
    let run = workflow.run().well();
    for id in ["a", "b", "c", "d", "e", "f", "h"] {
        assert_eq!(run.value(id), "1", "{id}");
    }
    assert_eq!(run.count("skipped", "g"), 1);
}

#[test]
fn every_other_field_takes_computed_values() {
    let run = workflow(
        r#"
allow: {commands: true}
agents:
  echo: {command: [sh, agent.sh, "${file:agent.txt}"]}
env:
  WIDE: ${cmd:echo wide}
steps:
  - id: variables
    shell: echo $WIDE $OWN $STAMP
    env: {OWN: "${file:name.txt}", STAMP: "y${date:%Y}"}
  - id: cwd
    shell: pwd | sed 's|.*/||'
    cwd: ${file:name.txt}
  - id: message
    agent: echo
    message: hello ${file:name.txt} ${cmd:echo and all}
  - id: write
    write_file: {path: "${cmd:echo out}/${file:name.txt}.txt", content: "${env.COLOUR} ${file:name.txt}", create_dirs: true}
  - id: timeout
    shell: echo in time
    timeout: ${file:seconds.txt}
  - id: items
    foreach: ${= cmd("printf '1\n2'") | lines }
    parallel: ${= file("count.txt") | int }
    do: [{value: "${item}"}]
"#,
    )
    .file("name.txt", "sub\n")
    .file("agent.txt", "AND\n")
    .file("agent.sh", "tr a-z A-Z; echo \"$1\"\n")
    .file("seconds.txt", "30s\n")
    .file("count.txt", "2\n")
    .file("sub/keep", "")
    .env("COLOUR", "blue");
    let done = run.run().well();
    assert!(done.value("variables").starts_with("\"wide sub y2"), "{}", done.value("variables"));
    assert_eq!(done.value("cwd"), r#""sub""#);
    assert!(done.value("message").contains("HELLO SUB AND ALLAND"), "{}", done.value("message"));
    assert_eq!(run.read("out/sub.txt"), "blue sub");
    assert_eq!(done.value("items"), r#"["1","2"]"#);
}

#[test]
fn a_timeout_out_of_a_file_is_obeyed() {
    let workflow =
        workflow("- {id: slow, shell: sleep 1000, timeout: \"${file:limit.txt}\"}").file("limit.txt", "50ms");
    let run = workflow.run().exits(1);
    assert_eq!(run.error("slow"), "Timeout: timed out after 50ms");
}

#[test]
fn what_is_not_read_is_not_computed() {
    let workflow = workflow(
        r#"
allow: {commands: true}
context:
  unread: ${cmd:echo context >> calls}
steps:
  - {id: a, value: "${= 1 if true else cmd('echo else >> calls') }"}
  - {id: b, value: "${= true or cmd('echo or >> calls') == '' }"}
  - {id: c, value: "${inputs.given:-${cmd:echo default >> calls}}"}
  - {id: d, when: false, value: "${cmd:echo skipped >> calls}"}
  - id: e
    shell: "true"
    on_failure: [{value: "${cmd:echo on_failure >> calls}"}]
  - id: f
    foreach: []
    do: [{value: "${cmd:echo item >> calls}"}]
inputs: {given: {default: here}}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(
        (run.value("a"), run.value("b"), run.value("c")),
        ("1".into(), "true".into(), "\"here\"".into())
    );
    assert!(!workflow.has("calls"), "{}", workflow.read("calls"));
}

#[test]
fn two_uses_in_one_step_are_one_call() {
    let workflow = workflow(
        r#"
allow: {commands: true}
computed: {count: {command: [sh, -c, "echo >> plugged; cat"]}}
steps:
  - id: twice
    env: {A: "${cmd:echo >> calls; wc -l < calls}"}
    shell: echo $A ${cmd:echo >> calls; wc -l < calls} "${cmd:echo >> calls; wc -l < calls}"
  - {id: own, value: ["${count:x}", "${= count('x') }", "${count:y}"]}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("twice"), r#""1 1 1""#);
    assert_eq!(run.value("own"), r#"["x","x","y"]"#);
    assert_eq!((workflow.lines("calls"), workflow.lines("plugged")), (1, 2));
}

#[test]
fn the_next_attempt_asks_again() {
    let workflow = workflow(
        r"
allow: {commands: true}
steps:
  - id: third
    shell: test ${cmd:echo >> calls; wc -l < calls} = 3
    retry: {attempts: 5, delay: 1ms}
",
    );
    let run = workflow.run().well();
    assert_eq!(workflow.lines("calls"), 3);
    assert_eq!(run.count("retrying", "third"), 2);
    assert_eq!(run.meta("third", "retry_count"), "2");
}

#[test]
fn the_next_step_asks_again_and_context_does_not() {
    let run = run(r#"
allow: {commands: true}
context: {fixed: "${cmd:echo >> context; wc -l < context}"}
steps:
  - {id: a, value: ["${cmd:echo >> calls; wc -l < calls}", "${context.fixed}", "${context.fixed}"]}
  - {id: b, value: ["${cmd:echo >> calls; wc -l < calls}", "${context.fixed}"]}
  - {id: c, foreach: [1, 2, 3], parallel: 3, do: [{value: "${context.fixed}"}]}
"#);
    assert_eq!((run.value("a"), run.value("b")), (r#"["1","1","1"]"#.into(), r#"["2","1"]"#.into()));
    assert_eq!(run.value("c"), r#"["1","1","1"]"#);
}

#[test]
fn a_uuid_is_new_for_every_step_and_fixed_in_context() {
    let run = run(r#"
context: {one: "${uuid}"}
steps:
  - {id: a, value: "${uuid}"}
  - {id: b, value: "${uuid}"}
  - {id: c, value: "${= a.value != b.value and len(a.value) == 36 }"}
  - {id: d, value: "${context.one}"}
  - {id: e, value: "${= context.one == d.value }"}
"#);
    assert_eq!((run.value("c"), run.value("e")), ("true".into(), "true".into()));
}

#[test]
fn a_failing_command_fails_the_step_with_its_stderr() {
    let workflow = workflow(
        "allow: {commands: true}\nsteps:\n  - {id: a, value: \"${cmd:echo no such ticket >&2; exit 3}\"}\n  - shell: touch after\n",
    );
    let run = workflow.run().exits(1);
    assert_eq!(
        run.error("a"),
        "Evaluation: `cmd`: `echo no such ticket >&2; exit 3` failed, exit code 3: no such ticket"
    );
    assert!(!workflow.has("after"));
}

#[test]
fn commands_need_the_permission_before_anything_runs() {
    let workflow = workflow("- shell: touch ran\n- {value: \"${cmd:touch called}\"}\n");
    workflow.run().exits(3).says("error[commands-not-allowed]").says("allow: {commands: true}");
    assert!(!workflow.has("ran") && !workflow.has("called"));
}

// ---- declared kinds -----------------------------------------------------------------------------------------

#[test]
fn a_declared_kind_gets_its_argument_as_json_and_gives_json() {
    let run = run(r#"
computed: {echo: {command: [cat]}}
steps:
  - id: all
    value:
      raw: ${echo:ABC-1}
      quotes: ${echo:a "b" \n}
      object: "${= echo({'a': [1, 2.50, null, true]}) }"
      several: ${= echo("a", 1) }
      big: ${= echo(12345678901234567890123) }
"#);
    assert_eq!(
        run.value("all"),
        r#"{"raw":"ABC-1","quotes":"a \"b\" \\n","object":{"a":[1,2.50,null,true]},"several":["a",1],"big":12345678901234567890123}"#
    );
}

#[test]
fn a_declared_kind_that_prints_no_json_is_an_error_of_the_step() {
    let workflow =
        workflow("computed: {bad: {command: [echo, not json]}}\nsteps:\n  - {id: a, value: \"${bad:x}\"}\n");
    let run = workflow.run().exits(1);
    assert!(run.error("a").starts_with("Evaluation: `bad`:"), "{}", run.error("a"));
    assert!(run.error("a").contains("JSON"), "{}", run.error("a"));
}

#[test]
fn a_declared_kind_that_fails_shows_its_stderr() {
    let workflow = workflow(
        "computed: {bad: {command: [sh, -c, \"echo no ticket >&2; exit 4\"]}}\nsteps:\n  - {id: a, value: \"${bad:x}\"}\n",
    );
    let error = workflow.run().exits(1).error("a");
    assert!(error.contains("exit code 4: no ticket"), "{error}");
}

#[test]
fn a_declared_kind_has_its_own_timeout() {
    let workflow = workflow(
        "computed: {slow: {command: [sleep, \"1000\"], timeout: 100ms}}\nsteps:\n  - {id: a, value: \"${slow:x}\"}\n",
    );
    let error = workflow.run().exits(1).error("a");
    assert!(error.contains("no end after 100ms"), "{error}");
}

#[test]
fn a_declared_kind_whose_program_is_missing_says_so() {
    let workflow = workflow(
        "computed: {gone: {command: [./no-such-program]}}\nsteps:\n  - {id: a, value: \"${gone:x}\"}\n",
    );
    let error = workflow.run().exits(1).error("a");
    assert!(error.contains("no-such-program"), "{error}");
}

#[test]
fn an_unknown_kind_is_found_before_anything_runs() {
    let workflow = workflow(
        "computed: {ticket: {command: [cat]}}\nsteps:\n  - shell: touch ran\n  - {value: \"${tickt:x}\"}\n",
    );
    workflow.run().exits(3).says("unknown kind `tickt:`").says("did you mean `ticket:`");
    assert!(!workflow.has("ran"));
}
