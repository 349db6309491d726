//! What names mean: scopes, types, and what is found before anything runs.

use crate::harness::{run, workflow};

/// Asserts that a workflow is refused with these words before its first step runs.
pub(crate) fn refused(text: &str, words: &[&str]) {
    let workflow = workflow(text);
    let mut run = workflow.run().exits(3);
    assert_eq!(run.stdout, "", "{text}");
    for word in words {
        run = run.says(word);
    }
    assert!(!workflow.has("ran"), "a step ran although the file is wrong:\n{text}");
    // `check` says the same.
    let checked = workflow.command(&["check", "workflow.yaml"]).wait().exits(1);
    assert_eq!(checked.stderr, run.stderr);
}

// ---- found before the run -------------------------------------------------------------------------------------

#[test]
fn an_unknown_name_is_an_error_before_anything_runs() {
    let fields = [
        "value: ${versoin}",
        "value: \"text ${versoin}\"",
        "value: \"${= versoin + 1 }\"",
        "shell: echo ${versoin}",
        "argv: [echo, \"${versoin}\"]",
        "{value: 1, when: versoin == 1}",
        "{shell: make, env: {A: \"${versoin}\"}}",
        "{shell: make, cwd: \"${versoin}\"}",
        "{shell: make, timeout: \"${versoin}\"}",
        "claude: hello ${versoin}",
        "write_file: {path: \"${versoin}\", content: x}",
        "write_file: {path: x, content: [\"${versoin}\"]}",
        "{foreach: \"${versoin}\", do: [{value: 1}]}",
        "{shell: make, retry: {attempts: 2, delay: \"${versoin}\"}}",
    ];
    for field in fields {
        let text = format!("- shell: touch ran\n- {{id: version, value: 1}}\n- {field}\n");
        refused(&text, &["`versoin`", "did you mean `version`"]);
    }
}

#[test]
fn an_unknown_key_is_an_error_before_anything_runs() {
    refused("- shell: touch ran\n  timout: 5s\n", &["error[unknown-key]", "`timout`", "`timeout`"]);
    refused("steps:\n  - shell: touch ran\nnmae: x\n", &["error[unknown-key]", "`nmae`", "`name`"]);
    refused(
        "- write_file: {path: ran, content: x, mod: \"600\"}\n",
        &["error[unknown-key]", "`mod`", "`mode`"],
    );
    refused(
        "- {shell: touch ran, retry: {attempts: 2, dealy: 1s}}\n",
        &["error[unknown-key]", "`dealy`", "`delay`"],
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    let text = "- shell: touch ran\n- value: ${a}\n- shell: echo ${b.c}\n  timout: 1\n- {value: 1, when: \"'x' > 3\"}\n";
    refused(text, &["`a`", "`b`", "`timout`", "does not compare text with an int"]);
}

#[test]
fn a_step_that_runs_later_cannot_be_read() {
    refused(
        "- shell: touch ran\n- value: ${later}\n- {id: later, value: 1}\n",
        &["error[runs-later]", "`later`"],
    );
}

#[test]
fn a_capture_that_is_not_set_on_every_way_cannot_be_read() {
    refused(
        "inputs: {go: {type: bool, default: false}}\nsteps:\n- shell: touch ran\n- {when: inputs.go, value: 1, capture: x}\n- value: ${x}\n",
        &["error[maybe-unset]", "`x`"],
    );
}

#[test]
fn entries_of_context_that_need_each_other_are_shown_as_a_chain() {
    refused(
        "context:\n  a: ${context.b}\n  b: x ${context.c.d}\n  c: {d: \"${= context.a }\"}\nsteps:\n  - shell: touch ran\n",
        &["error[context-cycle]", "a", "b", "c"],
    );
    refused("context: {a: \"${context.a}\"}\nsteps:\n  - shell: touch ran\n", &["error[context-cycle]"]);
}

#[test]
fn a_wrong_type_is_found_before_anything_runs() {
    refused(
        "inputs: {name: {type: text}}\nsteps:\n  - shell: touch ran\n  - value: ${= inputs.name - 1 }\n",
        &["error[type]", "inputs.name - 1"],
    );
    refused("- shell: touch ran\n- {foreach: 7, do: [{value: 1}]}\n", &["list"]);
    refused("- shell: touch ran\n- {value: 1, when: 7}\n", &["bool"]);
}

#[test]
fn an_item_outside_of_its_foreach_is_an_error() {
    refused("- shell: touch ran\n- value: ${item}\n", &["error[item-outside]"]);
    refused(
        "- shell: touch ran\n- {foreach: [1], do: [{id: inner, value: 1}]}\n- value: ${inner}\n",
        &["error[ends-with-item]", "`inner`"],
    );
}

#[test]
fn what_is_too_deep_is_refused() {
    let parentheses =
        format!("- shell: touch ran\n- value: ${{= {}1{} }}\n", "(".repeat(200), ")".repeat(200));
    refused(&parentheses, &["error[limit]", "nesting of an expression"]);
    let data = format!("- shell: touch ran\n- value: {}1{}\n", "[".repeat(300), "]".repeat(300));
    refused(&data, &["nesting of data"]);
    let entries: Vec<String> = (0..400).map(|at| format!("  c{at}: ${{context.c{}}}\n", at + 1)).collect();
    let chain = entries.concat();
    let chain = format!("context:\n{chain}  c400: end\nsteps:\n  - {{id: a, value: \"${{context.c0}}\"}}\n");
    let run = workflow(&chain).run().exits(1);
    assert_eq!(run.error("a"), "Evaluation: over the limit: nesting of an evaluation, at most 100");
}

#[test]
fn a_file_that_is_wrong_runs_nothing_even_if_the_fault_comes_last() {
    refused("- shell: touch ran\n- shell: touch ran\n- shell: eval ${workflow.name}\n", &["error["]);
    refused("- shell: touch ran\n- shell: \"echo 'open\"\n", &[]);
    refused("- shell: touch ran\n-  shell: x\n   shell: y\n", &["error[unreadable]"]);
}

// ---- values keep their types ---------------------------------------------------------------------------------

#[test]
fn numbers_stay_as_they_are() {
    let run = run(r#"
- {id: seven, shell: echo 7, capture_format: number}
- {id: same, value: "${seven}"}
- {id: text, value: "<${seven}>"}
- {id: shell, shell: "printf '%s' ${seven} ${= seven + 1 } ${= 85.0 } ${= 12345678901234567890 * 10 }"}
- {id: decimal, shell: "echo '{\"a\": 1.10, \"b\": 7, \"c\": 9007199254740993}'", capture_format: json}
- {id: read, value: ["${decimal.value.a}", "${decimal.value.b}", "${= decimal.value.c + 0 }"]}
"#);
    assert_eq!((run.value("same"), run.value("text")), ("7".into(), "\"<7>\"".into()));
    assert_eq!(run.value("shell"), "\"7885.0123456789012345678900\"");
    assert_eq!(run.value("read"), "[1.10,7,9007199254740993]");
}

#[test]
fn booleans_null_and_lists_stay_what_they_are() {
    let run = run(r#"
- {id: data, value: {yes: true, no: false, none: null, list: [1, "1"], empty: "", object: {b: 1, a: 2}}}
- {id: same, value: "${data}"}
- {id: text, value: "${data.value.yes} ${data.value.no} [${data.value.none}] ${data.value.list} ${data.value.object}"}
- {id: no, when: data.value.no, value: 1}
- {id: equal, value: "${= data.value.list[0] == data.value.list[1] }"}
"#);
    assert_eq!(
        run.value("same"),
        r#"{"yes":true,"no":false,"none":null,"list":[1,"1"],"empty":"","object":{"b":1,"a":2}}"#
    );
    assert_eq!(run.value("text"), r#""true false [] [1,\"1\"] {\"b\":1,\"a\":2}""#);
    assert_eq!(run.count("skipped", "no"), 1);
    assert_eq!(run.value("equal"), "false");
}

#[test]
fn captures_come_without_their_final_line_breaks() {
    let run = run(r#"
- {shell: "printf 'a\n\n b \n\n'", capture: x}
- {id: x2, value: "<${x}>"}
- {id: output, value: "<${captured.x.output}>"}
- {id: size, shell: "printf %s ${x} | wc -c", capture_format: number}
"#);
    assert_eq!((run.value("x2"), run.value("output")), (r#""<a\n\n b >""#.into(), r#""<a\n\n b >""#.into()));
    assert_eq!(run.value("size"), "6");
}

#[test]
fn every_capture_format_reads_what_it_says() {
    let run = run(r#"
- {id: text, shell: "printf ' 7 \n'", capture_format: text}
- {id: json, shell: "echo '[1, {\"a\": null}]'", capture_format: json}
- {id: lines, shell: "printf 'a\n\nb\n'", capture_format: lines}
- {id: none, shell: "true", capture_format: lines}
- {id: number, shell: "echo ' -1.50 '", capture_format: number}
- {id: boolean, shell: "echo true", capture_format: boolean}
- {id: string, shell: "echo x", capture_format: string}
- {id: printed, value: "${json.output}"}
"#);
    let expected = [
        ("text", "\" 7 \""),
        ("json", "[1,{\"a\":null}]"),
        ("lines", "[\"a\",\"\",\"b\"]"),
        ("none", "[]"),
        ("number", "-1.50"),
        ("boolean", "true"),
        ("string", "\"x\""),
        ("printed", r#""[1, {\"a\": null}]""#),
    ];
    for (id, value) in expected {
        assert_eq!(run.value(id), value, "{id}");
    }
}

#[test]
fn output_of_another_format_fails_the_step() {
    for (format, output, expected) in [
        ("json", "{oops", "the output is not JSON"),
        ("number", "seven", "the output is not a number: \"seven\""),
        ("boolean", "yes", "the output is not `true` or `false`: \"yes\""),
        ("number", "", "the output is not a number"),
    ] {
        let text = format!("- {{id: a, shell: \"echo '{output}'\", capture_format: {format}}}\n");
        let run = workflow(&text).run().exits(1);
        assert!(run.error("a").starts_with(&format!("Format: {expected}")), "{}", run.error("a"));
    }
}

// ---- scopes --------------------------------------------------------------------------------------------------

#[test]
fn names_of_an_item_do_not_reach_another_item_or_the_steps_after() {
    let workflow = workflow(
        r#"
- {value: outer, capture: x}
- id: each
  foreach: [1, 2]
  do:
    - {id: before, value: "${x}"}
    - {value: "${= item * 10 }", capture: y}
    - {value: ["${before}", "${y}"]}
- {id: after, value: "${x}"}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("each"), r#"[["outer",10],["outer",20]]"#);
    assert_eq!(run.value("after"), "\"outer\"");
}

#[test]
fn a_name_inside_a_foreach_hides_the_one_outside_and_ends_with_the_item() {
    let run = run(r#"
- {value: outer, capture: x}
- id: each
  foreach: [1, 2]
  do:
    - {value: "inner ${item}", capture: x}
    - {value: "${x}"}
- {id: after, value: "${x}"}
"#);
    assert_eq!(run.value("each"), r#"["inner 1","inner 2"]"#);
    assert_eq!(run.value("after"), "\"outer\"");
}

#[test]
fn on_failure_shares_the_scope_of_the_list_around_it() {
    let run = workflow(
        r#"
- {value: before, capture: x}
- id: broken
  shell: echo out; echo err >&2; exit 3
  continue_on_error: true
  on_failure:
    - {value: "${x} ${prev.exit_code} ${prev.output} ${prev.stderr} ${broken.meta.error_type}", capture: seen}
- {id: after, value: "${seen | default('not set')}"}
"#,
    )
    .run()
    .well();
    assert_eq!(run.value("after"), "\"before 3 out err ExitCode\"");
}

#[test]
fn a_capture_that_is_set_again_has_the_new_value() {
    let run = run(r#"
- {value: 1, capture: x}
- {id: first, value: "${x}"}
- {value: "${= x + 1 }", capture: x}
- {id: second, value: "${x}"}
- {id: list, foreach: [10, 20], do: [{value: "${= x + item }"}]}
"#);
    assert_eq!(
        (run.value("first"), run.value("second"), run.value("list")),
        ("1".into(), "2".into(), "[12,22]".into())
    );
}

#[test]
fn prev_is_the_last_step_that_ran() {
    let run = run(r#"
- {shell: echo one}
- {when: false, shell: echo skipped}
- {id: a, value: "${prev.output}"}
- {id: b, foreach: [1], do: [{shell: echo inner}, {value: "${prev.output}"}]}
- {id: c, value: "${prev.value}"}
"#);
    assert_eq!(
        (run.value("a"), run.value("b"), run.value("c")),
        ("\"one\"".into(), "[\"inner\"]".into(), "[\"inner\"]".into())
    );
}

#[test]
fn skipped_and_failed_steps_can_be_read() {
    let run = run(r#"
- {id: skipped, when: false, shell: echo x}
- {id: failed, shell: "exit 4", continue_on_error: true}
- id: all
  value: ["${skipped}", "${skipped.meta.status}", "${skipped.meta.reason}", "${failed}", "${failed.meta.status}", "${failed.exit_code}", "${failed.meta.error}"]
"#);
    assert_eq!(run.value("all"), r#"[null,"skipped","`when` is false",null,"failed",4,"exit code 4"]"#);
}

#[test]
fn the_run_has_its_own_names() {
    let run = workflow(r#"
name: my run
steps:
  - {id: a, value: ["${workflow.name}", "${= len(workflow.id) > 3 }", "${= workflow.start_time | starts_with('20') }"]}
  - {id: b, shell: "test \"$THREADLINE_RUN\" = ${workflow.id} && echo \"$THREADLINE_STEP\""}
"#)
    .run()
    .well();
    assert_eq!(run.value("a"), r#"["my run",true,true]"#);
    assert_eq!(run.value("b"), "\"2\"");
}

#[test]
fn the_caller_gives_values_of_the_declared_types() {
    let text = r#"
inputs:
  count: {type: int}
  ratio: {type: number, default: 0.50}
  tags: {type: list, default: []}
  dry: {type: bool, default: false}
  name: {type: text, default: "7"}
  any: {required: false}
steps:
  - {id: all, value: "${inputs}"}
"#;
    let workflow = workflow(text).file("given.yaml", "count: 3\ntags: [a, 1]\nname: x\n");
    let given = ["--inputs", "given.yaml", "--input", "count=4", "--input", "dry=true", "--input", "any=007"];
    assert_eq!(
        workflow.run_with(&given).well().value("all"),
        r#"{"count":4,"ratio":0.50,"tags":["a",1],"dry":true,"name":"x","any":"007"}"#
    );
    assert_eq!(
        workflow.run_with(&["--input", "count=1"]).well().value("all"),
        r#"{"count":1,"ratio":0.50,"tags":[],"dry":false,"name":"7","any":null}"#
    );
}

#[test]
fn a_value_of_context_can_be_set_for_a_run() {
    let workflow = workflow(
        "context: {a: 1, deep: {b: x}, c: \"${context.deep.b}!\"}\nsteps:\n  - {id: all, value: \"${context}\"}\n",
    );
    let run = workflow.run_with(&["--set", "context.deep.b=y", "--set-json", "context.a=[2]"]).well();
    assert_eq!(run.value("all"), r#"{"a":[2],"deep":{"b":"y"},"c":"y!"}"#);
    workflow.run_with(&["--set", "context.depp=1"]).exits(2).says("did you mean `context.deep`");
}

#[test]
fn undefined_keep_and_empty_are_obeyed() {
    for (policy, expected) in [("keep", r#"["<${missing}>","${missing}"]"#), ("empty", r#"["<>",null]"#)] {
        let text = format!(
            "undefined: {policy}\ncontext: {{o: {{}}}}\nsteps:\n  - {{id: a, value: [\"<${{context.o.missing}}>\", \"${{context.o.missing}}\"]}}\n"
        );
        assert_eq!(run(&text).value("a"), expected.replace("missing", "context.o.missing"));
    }
}
