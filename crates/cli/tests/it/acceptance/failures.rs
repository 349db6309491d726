//! What happens when something fails: exit codes, attempts, and the order of everything that follows.

use threadline_lang::Value;

use crate::harness::{run, workflow};

// ---- exit codes ----------------------------------------------------------------------------------------------

#[test]
fn exit_code_0_when_all_is_well() {
    let workflow = workflow("- shell: echo one\n- {when: false, shell: exit 3}\n");
    workflow.run().well();
}

#[test]
fn exit_code_1_when_a_step_failed() {
    let workflow = workflow("- {id: a, shell: exit 3}\n- shell: touch after\n");
    let run = workflow.run().exits(1);
    assert_eq!(run.error("a"), "ExitCode: exit code 3");
    assert_eq!(run.meta("a", "exit_code"), "3");
    assert!(!workflow.has("after"));
    assert_eq!(run.of_kind("run_ended").len(), 1);
}

#[test]
fn exit_code_2_for_wrong_usage() {
    let workflow = workflow("inputs: {n: {type: int}}\nsteps:\n  - shell: touch ran\n");
    for arguments in [
        &["run"][..],
        &["run", "--no-such-flag", "workflow.yaml"],
        &["run", "workflow.yaml"],
        &["run", "workflow.yaml", "--input", "n=x"],
        &["run", "workflow.yaml", "--input", "n"],
        &["run", "workflow.yaml", "--input", "n=1", "--input", "m=1"],
        &["run", "workflow.yaml", "--input", "n=1", "--set", "other=1"],
        &["run", "workflow.yaml", "--input", "n=1", "--jobs", "0"],
    ] {
        workflow.command(arguments).wait().exits(2);
    }
    assert!(!workflow.has("ran"));
}

#[test]
fn exit_code_3_when_it_could_not_start() {
    let workflow = workflow("- shell: touch ran\n- shell: echo ${no_such_name.x}\n")
        .file("folder/x", "")
        .file("empty.yaml", "");
    for file in ["workflow.yaml", "no-such-file.yaml", "folder", "empty.yaml"] {
        workflow.command(&["run", file]).wait().exits(3).says("error");
    }
    workflow.command(&["resume"]).wait().exits(3);
    workflow.command(&["resume", "no-such-run"]).wait().exits(3);
    workflow.command(&["run", "--dir", "no-such-folder", "workflow.yaml"]).wait().exits(3);
    assert!(!workflow.has("ran"));
}

// ---- continuing ----------------------------------------------------------------------------------------------

#[test]
fn continue_on_error_goes_on_and_the_run_does_well() {
    let workflow = workflow(
        "- {id: a, shell: exit 3, continue_on_error: true}\n- {id: b, value: \"${a.meta.status}\"}\n",
    );
    let run = workflow.run().well();
    assert_eq!((run.error("a"), run.value("b")), ("ExitCode: exit code 3".into(), "\"failed\"".into()));
}

#[test]
fn a_failing_step_without_on_failure_fails_the_run() {
    workflow("- shell: \"false\"\n").run().exits(1);
    workflow("- argv: [\"false\"]\n").run().exits(1);
    workflow("- {foreach: [1, 2], do: [{argv: [\"false\"]}]}\n").run().exits(1);
    workflow("- {foreach: [1, 2], parallel: 2, do: [{argv: [test, \"${item}\", =, \"1\"]}]}\n")
        .run()
        .exits(1);
}

#[test]
fn on_failure_does_not_make_a_failure_good() {
    let workflow = workflow(
        "- {id: a, shell: exit 3, on_failure: [{shell: echo mended > log}]}\n- shell: touch after\n",
    );
    let run = workflow.run().exits(1);
    assert_eq!(workflow.read("log"), "mended\n");
    assert_eq!(run.error("a"), "ExitCode: exit code 3");
    assert!(!workflow.has("after"));
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails_the_step() {
    let workflow = workflow(
        "context: {o: {}}\nsteps:\n  - {id: a, when: context.o.missing == 1, shell: touch ran}\n  - shell: touch after\n",
    );
    let run = workflow.run();
    assert!([1, 3].contains(&run.exit), "{}", run.stdout);
    assert!(!workflow.has("ran") && !workflow.has("after"));
    let workflow = crate::harness::workflow(
        "- {id: o, shell: \"echo '{}'\", capture_format: json}\n- {id: a, when: o.value.missing == 1, shell: touch ran}\n- shell: touch after\n",
    );
    let run = workflow.run().exits(1);
    assert!(run.error("a").starts_with("Evaluation: "), "{}", run.error("a"));
    assert!(!workflow.has("ran") && !workflow.has("after"));
}

#[test]
fn a_step_whose_fields_have_no_value_can_be_caught_like_any_other() {
    let run = run(r#"
- {id: o, shell: "echo '{}'", capture_format: json}
- id: a
  value: ${o.value.missing}
  continue_on_error: true
  on_failure: [{id: caught, value: "${prev.meta.error_type}"}]
- {id: after, value: "${a.meta.status}"}
"#);
    assert_eq!((run.value("caught"), run.value("after")), ("\"Evaluation\"".into(), "\"failed\"".into()));
}

// ---- order ---------------------------------------------------------------------------------------------------

#[test]
fn attempts_then_on_failure_then_finally_then_the_end() {
    let workflow = workflow(
        r"
steps:
  - id: broken
    shell: echo attempt >> log; exit 1
    retry: {attempts: 3, delay: 1ms}
    on_failure: [{shell: echo on_failure >> log}]
    on_success: [{shell: echo on_success >> log}]
    finally: [{shell: echo finally >> log}]
  - shell: echo after >> log
finally:
  - shell: echo end >> log
",
    );
    let run = workflow.run().exits(1);
    assert_eq!(workflow.read("log"), "attempt\nattempt\nattempt\non_failure\nfinally\nend\n");
    assert_eq!(run.order(), ["1", "1/on_failure/1", "1/finally/1", "finally/1"]);
}

#[test]
fn on_success_then_finally_then_the_next_step() {
    let workflow = workflow(
        r#"
steps:
  - id: well
    shell: echo step >> log; echo out
    on_failure: [{shell: echo on_failure >> log}]
    on_success: [{shell: "echo \"on_success ${prev.output}\" >> log"}]
    finally: [{shell: "echo \"finally ${prev.output}\" >> log"}]
  - shell: echo after >> log
finally:
  - shell: echo end >> log
"#,
    );
    workflow.run().well();
    assert_eq!(workflow.read("log"), "step\non_success out\nfinally out\nafter\nend\n");
}

#[test]
fn a_handler_that_fails_fails_the_step_and_finally_still_runs() {
    for part in ["on_success", "finally"] {
        let text = format!(
            "- id: a\n  shell: echo step >> log\n  {part}: [{{shell: exit 5}}]\n{}- shell: echo after >> log\n",
            if part == "finally" { "" } else { "  finally: [{shell: echo finally >> log}]\n" }
        );
        let workflow = workflow(&text);
        workflow.run().exits(1);
        let expected = if part == "finally" { "step\n" } else { "step\nfinally\n" };
        assert_eq!(workflow.read("log"), expected, "{part}");
    }
}

#[test]
fn the_end_of_a_workflow_runs_whatever_happened() {
    let workflow = workflow(
        "steps:\n  - shell: exit 1\nfinally:\n  - shell: echo cleaned > log\n  - shell: exit 2\n  - shell: echo never >> log\n",
    );
    workflow.run().exits(1);
    assert_eq!(workflow.read("log"), "cleaned\n");
    let well = crate::harness::workflow("steps:\n  - shell: \"true\"\nfinally:\n  - shell: exit 2\n");
    well.run().exits(1);
}

// ---- attempts ------------------------------------------------------------------------------------------------

/// Asserts that the journal has these pauses between attempts, in milliseconds.
fn pauses(retry: &str, expected: &[i64]) {
    let run = workflow(&format!("- {{id: a, shell: exit 1, retry: {retry}}}\n")).run().exits(1);
    let millis = |time: &Value| {
        let time = time.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        time.expect("a time").as_millisecond()
    };
    let retrying = run.of_kind("retrying");
    assert_eq!(retrying.len(), expected.len(), "{retry}");
    for (event, pause) in retrying.into_iter().zip(expected) {
        let data = event.get("data").expect("data");
        let until = data.get("until").and_then(Value::as_i64).expect("an end");
        let finished = data.get("output").and_then(|output| output.get("meta")?.get("finished_at"));
        // It is counted from some moment between the end of the attempt and the event.
        let longest = until - millis(finished.expect("an end of the attempt"));
        let shortest = until - millis(event.get("time").expect("a time"));
        assert!((shortest..=longest).contains(pause), "{retry}: {shortest} <= {pause} <= {longest}");
    }
}

#[test]
fn pauses_between_attempts_are_what_the_backoff_says() {
    pauses("{attempts: 4, delay: 20ms}", &[20, 20, 20]);
    pauses("{attempts: 4, delay: 20ms, backoff: linear}", &[20, 40, 60]);
    pauses("{attempts: 5, delay: 20ms, backoff: exponential, max_delay: 100ms}", &[20, 40, 80, 100]);
    pauses("{attempts: 1, delay: 20ms}", &[]);
}

#[test]
fn a_step_is_tried_as_often_as_it_says_and_not_more() {
    let workflow = workflow(
        "- {id: a, shell: \"echo >> tries; exit 1\", retry: {attempts: 3, delay: 1ms}}\n- {id: b, shell: touch after}\n",
    );
    let run = workflow.run().exits(1);
    assert_eq!((workflow.lines("tries"), run.meta("a", "retry_count")), (3, "2".into()));
    assert_eq!(
        (run.count("started", "a"), run.count("retrying", "a"), run.count("finished", "a")),
        (3, 2, 1)
    );
}

#[test]
fn a_number_behind_retry_counts_all_attempts() {
    let workflow = workflow("- {id: a, shell: \"echo >> tries; test $(wc -l < tries) = 2\", retry: 2}\n");
    let run = workflow.run().well();
    assert_eq!((workflow.lines("tries"), run.meta("a", "retry_count")), (2, "1".into()));
}

#[test]
fn attempts_can_come_from_a_value() {
    let workflow = workflow(
        "inputs: {n: {type: int}}\nsteps:\n  - {id: a, shell: \"echo >> tries; exit 1\", retry: {attempts: \"${inputs.n}\", delay: \"${= '1' + 'ms' }\"}}\n",
    );
    workflow.run_with(&["--input", "n=4"]).exits(1);
    assert_eq!(workflow.lines("tries"), 4);
}

#[test]
fn a_timeout_is_of_one_attempt_and_is_tried_again() {
    let workflow = workflow(
        "- {id: a, shell: \"echo >> tries; test $(wc -l < tries) -ge 2 || sleep 1000\", timeout: 1s, retry: {attempts: 9, delay: 1ms}}\n",
    );
    let run = workflow.run().well();
    assert!(run.count("retrying", "a") >= 1);
    assert!(run.stdout.contains("timed out after 1s"), "{}", run.stdout);
}

#[test]
fn output_of_the_wrong_format_is_tried_again() {
    let workflow = workflow(
        "- {id: a, shell: \"echo >> tries; test $(wc -l < tries) = 2 && echo 7 || echo x\", capture_format: number, retry: {attempts: 3, delay: 1ms}}\n",
    );
    assert_eq!(workflow.run().well().value("a"), "7");
}

#[test]
fn a_file_that_cannot_be_written_is_tried_again() {
    let workflow = workflow(
        "- {id: a, write_file: {path: no/such.txt, content: x}, retry: {attempts: 2, delay: 1ms}}\n",
    );
    let run = workflow.run().exits(1);
    assert_eq!(run.count("retrying", "a"), 1);
}

// ---- agents --------------------------------------------------------------------------------------------------

#[test]
fn an_agent_gets_the_message_and_its_answer_is_the_value() {
    let run = workflow(r#"
agents:
  upper: {command: [tr, a-z, A-Z], model: letters}
steps:
  - {id: a, agent: upper, message: "hello ${workflow.name}\n"}
  - {id: b, agent: upper, message: "{}", capture_format: json}
  - {id: all, value: ["${a.result.final_response}", "${a.result.messages_created}", "${a.meta.agent_name}", "${a.meta.model_used}", "${a.output}", "${b.result.output}"]}
"#)
    .run()
    .well();
    assert_eq!(run.value("all"), r#"["HELLO WORKFLOW",1,"upper","letters","HELLO WORKFLOW",{}]"#);
    assert_eq!(run.meta("a", "node_type"), "\"agent\"");
}

#[test]
fn an_agent_that_fails_fails_its_step() {
    let run = workflow("agents: {bad: {command: [sh, -c, \"cat > /dev/null; echo no >&2; exit 9\"]}}\nsteps:\n  - {id: a, agent: bad, message: x, retry: {attempts: 2, delay: 1ms}, continue_on_error: true}\n  - {id: err, value: \"${a.stderr}\"}\n").run().well();
    assert_eq!((run.error("a"), run.value("err")), ("ExitCode: exit code 9".into(), "\"no\"".into()));
    assert_eq!(run.count("retrying", "a"), 1);
}

#[test]
fn claude_is_an_agent_that_needs_no_declaration() {
    let workflow = workflow("- {id: a, claude: \"say ${workflow.name}\"}\n")
        .program("bin/claude", "printf '%s: ' \"$@\"; cat");
    let path =
        format!("{}/bin:{}", workflow.project.path().display(), std::env::var("PATH").unwrap_or_default());
    let run = workflow.env("PATH", &path).run().well();
    assert!(run.value("a").contains("-p: say workflow"), "{}", run.value("a"));
}

// ---- meta data -----------------------------------------------------------------------------------------------

#[test]
fn meta_data_say_what_was_measured() {
    let run = run(
        "- {id: a, shell: \"for i in 1 2 3; do :; done\"}\n- {id: b, value: 1}\n- {id: c, foreach: [1, 2], do: [{value: 1}]}\n- {id: d, write_file: {path: x, content: y}}\n",
    );
    for (id, kind) in [("a", "shell"), ("b", "value"), ("c", "foreach"), ("d", "write_file")] {
        assert_eq!(
            (run.meta(id, "node_type"), run.meta(id, "status")),
            (format!("\"{kind}\""), "\"completed\"".into())
        );
        for name in ["execution_time_ms", "retry_count"] {
            assert!(run.meta(id, name).parse::<u64>().is_ok(), "{id} {name}");
        }
        for name in ["started_at", "finished_at"] {
            let text = run.meta(id, name);
            let text = text.trim_matches('"');
            assert!(
                text.len() == 24 && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok(),
                "{id} {name} {text}"
            );
        }
        assert!(run.meta(id, "started_at") <= run.meta(id, "finished_at"), "{id}");
    }
    for name in ["exit_code", "cpu_time_ms", "memory_usage_mb"] {
        assert_ne!(run.meta("a", name), "", "{name}");
        assert_eq!(run.meta("b", name), "", "{name}");
    }
    assert_eq!((run.meta("c", "total"), run.meta("c", "successful")), ("2".into(), "2".into()));
}

#[test]
fn a_foreach_takes_as_long_as_its_items() {
    let run = run("- {id: c, foreach: [1, 2], do: [{shell: sleep 0.05}]}\n");
    let item = run.meta("1[0]/1", "started_at");
    assert!(run.meta("c", "started_at") <= item, "{} {item}", run.meta("c", "started_at"));
    assert!(run.meta("c", "execution_time_ms").parse::<u64>().is_ok_and(|time| time >= 100));
}
