//! `foreach`: the order of results, how many run at once, and what a failing item means for the others.

use crate::harness::{run, workflow};

#[test]
fn results_stand_in_the_order_of_the_items() {
    // The first waits for the last.
    let workflow = workflow("- {id: all, foreach: [a, b, c], parallel: 3, do: [{shell: \"if test ${item} = a; then cat go > /dev/null; elif test ${item} = c; then echo go > go; fi; echo ${item}\"}]}\n").pipes(&["go"]);
    let run = workflow.run().well();
    assert_eq!(run.value("all"), r#"["a","b","c"]"#);
}

#[test]
fn two_items_at_once_run_at_the_same_time() {
    let workflow = workflow("- {id: all, foreach: [1, 2], parallel: 2, do: [{shell: \"if test ${item} = 1; then echo hi > one; cat two; else cat one; echo ho > two; fi\"}]}\n").pipes(&["one", "two"]);
    assert_eq!(workflow.run().well().value("all"), r#"["ho","hi"]"#);
}

#[test]
fn what_two_items_compute_is_computed_at_the_same_time() {
    let workflow = workflow(
        r#"
allow: {commands: true}
context: {fixed: "${uuid}", other: "${cmd:echo >> calls}"}
steps:
  - {value: "${context.fixed}"}
  - id: all
    foreach: [1, 2]
    parallel: 2
    do:
      - when: item == 1
        value: ${cmd:echo hi > one; cat two} ${context.other}
      - when: item == 2
        value: ${cmd:cat one; echo ho > two} ${context.other}
  - {value: "${context.other}"}
"#,
    )
    .pipes(&["one", "two"]);
    assert_eq!(workflow.run().well().value("all"), r#"["ho ","hi "]"#);
    assert_eq!(workflow.lines("calls"), 1);
}

#[test]
fn without_parallel_items_run_one_after_the_other() {
    let script = "mkdir busy; rmdir busy; echo ${item} >> log";
    let workflow = workflow(&format!("- {{foreach: [1, 2, 3, 4, 5, 6], do: [{{shell: \"{script}\"}}]}}\n"));
    workflow.run().well();
    assert_eq!(workflow.read("log"), "1\n2\n3\n4\n5\n6\n");
}

#[test]
fn jobs_1_is_really_one_at_a_time() {
    // A second one at the same time would find the folder.
    let text = "- {foreach: \"${= cmd('seq 30') | lines }\", parallel: 8, do: [{shell: \"mkdir busy; cat /proc/self/stat > /dev/null; rmdir busy\"}]}\n";
    let workflow = workflow(&format!("allow: {{commands: true}}\nsteps:\n{}", text.replace("- {", "  - {")));
    workflow.run_with(&["--jobs", "1"]).well();
}

#[test]
fn an_empty_list_is_well() {
    let run = run("- {id: all, foreach: [], do: [{shell: touch ran}]}\n- {id: n, value: \"${all | len}\"}\n");
    assert_eq!(
        (run.value("all"), run.value("n"), run.meta("all", "total")),
        ("[]".into(), "0".into(), "0".into())
    );
}

#[test]
fn max_items_is_obeyed() {
    let run = run(
        "inputs: {most: {type: int, default: 2}}\nsteps:\n  - {id: a, foreach: [1, 2, 3], max_items: 2, do: [{value: \"${item}\"}]}\n  - {id: b, foreach: [1, 2, 3], max_items: \"${inputs.most}\", do: [{value: \"${item}\"}]}\n  - {id: c, foreach: [1, 2, 3], max_items: 0, do: [{value: \"${item}\"}]}\n  - {id: d, foreach: [1], max_items: 5, do: [{value: \"${item}\"}]}\n",
    );
    assert_eq!(
        [run.value("a"), run.value("b"), run.value("c"), run.value("d")],
        ["[1,2]", "[1,2]", "[]", "[1]"]
    );
}

#[test]
fn a_number_that_makes_no_sense_is_not_read_as_another() {
    for (field, expected) in [
        ("foreach: [1]\n    do: [{value: 1}]\n    parallel: ${inputs.n}", "a whole number of at least 1"),
        (
            "foreach: [1]\n    do: [{value: 1}]\n    max_items: ${= inputs.n - 1 }",
            "a whole number of at least 0",
        ),
        ("shell: touch ran\n    retry: {attempts: \"${inputs.n}\"}", "a whole number of at least 1"),
        ("shell: touch ran\n    timeout: ${= inputs.n - 1 }", "a duration"),
        ("shell: touch ran\n    max_output: ${= inputs.n - 1 }", "a size"),
    ] {
        let workflow = workflow(&format!("inputs: {{n: {{type: int}}}}\nsteps:\n  - id: a\n    {field}\n"));
        let run = workflow.run_with(&["--input", "n=0"]).exits(1);
        assert!(
            run.error("a").starts_with(&format!("Evaluation: expected {expected}")),
            "{}",
            run.error("a")
        );
        assert!(!workflow.has("ran"));
    }
}

#[test]
fn what_is_not_a_list_fails_the_step() {
    let run = workflow("- {id: x, shell: echo 7, capture_format: json}\n- {id: all, foreach: \"${x}\", do: [{shell: touch ran}]}\n").run().exits(1);
    assert_eq!(run.error("all"), "Evaluation: expected a list, got an int");
}

#[test]
fn items_have_fields_and_an_index() {
    let run = run(
        "- {id: all, foreach: [{n: 7, index: mine}], do: [{value: [\"${item.n}\", \"${item.index}\", \"${item['index']}\", \"${item}\"]}]}\n",
    );
    assert_eq!(run.value("all"), r#"[[7,0,"mine",{"n":7,"index":"mine"}]]"#);
}

#[test]
fn inside_a_foreach_there_may_be_another() {
    let run = run(r#"
- id: all
  foreach: [[1, 2], [3]]
  parallel: 2
  do:
    - value: ${item}
      capture: outer
    - id: inner
      foreach: ${item}
      parallel: 2
      do:
        - value: "${item}/${item.index}/${outer | len}"
    - value: {outer: "${item.index}", inner: "${inner}"}
"#);
    assert_eq!(run.value("all"), r#"[{"outer":0,"inner":["1/0/2","2/1/2"]},{"outer":1,"inner":["3/0/1"]}]"#);
}

#[test]
fn skipped_steps_of_an_item_are_skipped_for_that_item_only() {
    let run =
        run("- {id: all, foreach: [1, 2, 3], do: [{value: base}, {when: item == 2, value: \"two\"}]}\n");
    assert_eq!(run.value("all"), r#"["base","two","base"]"#);
}

#[test]
fn a_failing_item_stops_new_ones_and_lets_those_under_way_end() {
    // Item 1 fails when item 0 has begun; item 0 ends well after that; items 2 and 3 never begin.
    let workflow = workflow(
        r"
- id: all
  foreach: [0, 1, 2, 3]
  parallel: 2
  do:
    - shell: |
        echo ${item} >> log
        if test ${item} = 1; then echo > began; exit 1; fi
        cat began > /dev/null
        cat go > /dev/null
",
    )
    .pipes(&["began", "go"]);
    let running = workflow.start(&[]);
    running.until("\"status\":\"failed\"");
    workflow.release("go");
    let run = running.wait().exits(1);
    let mut log: Vec<String> = workflow.read("log").lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["0", "1"]);
    assert_eq!(run.meta("1[0]/1", "status"), "\"completed\"");
    assert!(run.error("all").starts_with("Items: 1 of 4 items failed"), "{}", run.error("all"));
    let counts = ["total", "successful", "failed", "skipped"].map(|name| run.meta("all", name));
    assert_eq!(counts, ["4", "1", "1", "2"]);
}

#[test]
fn an_item_may_fail_and_go_on() {
    let run = run(
        "- {id: all, foreach: [0, 1, 2], do: [{shell: \"test ${item} != 1\", continue_on_error: true, id: s}, {value: \"${s.meta.status}\"}]}\n",
    );
    assert_eq!(run.value("all"), r#"["completed","failed","completed"]"#);
}

#[test]
fn a_resume_runs_only_the_items_that_had_not_finished() {
    let workflow = workflow(
        r#"
- id: all
  foreach: [0, 1, 2, 3]
  do:
    - shell: echo "first ${item}" >> log
    - shell: |
        echo "second ${item}" >> log
        test ${item} != 2 || test -e mended
        echo ${item}
"#,
    );
    workflow.run().exits(1);
    workflow.project.write("mended", b"");
    let run = workflow.resume().well();
    assert_eq!(
        workflow.read("log"),
        "first 0\nsecond 0\nfirst 1\nsecond 1\nfirst 2\nsecond 2\nsecond 2\nfirst 3\nsecond 3\n"
    );
    assert_eq!(run.value("all"), r#"["0","1","2","3"]"#);
}

#[test]
fn five_thousand_items_with_eight_at_once() {
    let run = workflow("allow: {commands: true}\nsteps:\n  - {id: all, foreach: \"${= cmd('seq 5000') | lines }\", parallel: 8, do: [{value: \"${= int(item) * 2 }\"}]}\n  - {id: sum, value: \"${all | sum}\"}\n")
        .run()
        .well();
    assert_eq!(run.value("sum"), "25005000");
    assert_eq!(run.meta("all", "successful"), "5000");
}

#[test]
fn names_inside_do_can_be_those_of_another_item_without_mixing() {
    let run = run(
        "- {id: all, foreach: [1, 2, 3, 4, 5, 6, 7, 8], parallel: 8, do: [{shell: \"echo ${item}\", capture: x}, {shell: \"echo ${x}\", id: y}, {value: \"${= item == int(x) and x == y.value }\"}]}\n",
    );
    assert_eq!(run.value("all"), "[true,true,true,true,true,true,true,true]");
}
