//! Items of a map where others go wrong: text that stays text, types that are kept, failures that count, keys that are
//! obeyed, runs that go on, and a store that stays small and private.

use std::os::unix::fs::PermissionsExt as _;

use super::limits::files;
use super::resuming::{killed, resumed};
use crate::harness::{run, workflow};

#[test]
fn variables_reach_the_shell_as_values() {
    let workflow = workflow(
        r"
name: demo
setup: [{shell: echo out, capture: got}]
map:
  input: [{id: a}]
  steps:
    - shell: printf '%s\n' ${item.id} ${item.index} ${item.attempt} ${item.previous_error:-none} ${agent.id} ${map.total} ${setup.output} ${setup.variables.got} ${workflow.name} ${workflow.id} > item
reduce:
  - shell: printf '%s\n' ${map.total} ${map.successful} ${map.failed} ${map.skipped} ${map.success_rate} ${map.duration} ${map.results | len} ${setup.output} > reduce
merge:
  - shell: printf '%s\n' ${reduce.output:-nothing} ${map.total} > merge
",
    );
    workflow.run().well();
    let item = workflow.read("item");
    let lines: Vec<&str> = item.lines().collect();
    assert_eq!(lines[..9], ["a", "0", "1", "none", "agent-1", "1", "out", "out", "demo"]);
    assert_eq!(lines[9].len(), 8, "{item}");
    let reduce = workflow.read("reduce");
    let lines: Vec<&str> = reduce.lines().collect();
    assert_eq!(lines[..5], ["1", "1", "0", "0", "100"]);
    assert!(lines[5].parse::<f64>().is_ok(), "{reduce}");
    assert_eq!(lines[6..], ["1", "out"]);
    assert_eq!(workflow.read("merge"), "nothing\n1\n");
    for name in ["item", "reduce", "merge"] {
        assert!(!workflow.read(name).contains("${"), "{name} has literal text");
    }
}

#[test]
fn dollars_of_the_shell_and_of_awk_are_untouched() {
    let run = run(r#"
map:
  input: ["a b c"]
  steps:
    - shell: |
        set -- one two
        echo ${item} | awk '{print $2, $NF}'
        echo $1 $# "$2" ${1} ${#1} ${HOME:+home}
reduce:
  - {id: all, value: "${map.results[0].value}"}
"#);
    assert_eq!(run.value("all"), r#""b c\none 2 two one 3 home""#);
}

#[test]
fn an_item_keeps_its_type_whatever_it_is() {
    let run = run(r#"
map:
  input: [text, 7, 7.0, 2.50, true, null, [1, "2"], {n: 1, t: "1", b: false, o: {x: [null]}}, 12345678901234567890123]
  steps: [{value: "${item}"}]
reduce:
  - {id: all, value: "${map.results | collect('value')}"}
  - {id: same, value: "${= map.results | collect('value') == map.results | collect('item')}"}
"#);
    assert_eq!(
        run.value("all"),
        r#"["text",7,7.0,2.50,true,null,[1,"2"],{"n":1,"t":"1","b":false,"o":{"x":[null]}},12345678901234567890123]"#
    );
    assert_eq!(run.value("same"), "true");
}

#[test]
fn a_text_and_the_fields_of_an_object_reach_the_shell() {
    let run = run(r#"
map:
  input: [plain, {name: field, n: 7}]
  steps:
    - {when: item.index == 0, shell: "printf '%s' ${item}"}
    - {when: item.index == 1, shell: "printf '%s|%s|%s' ${item.name} ${item.n} ${item | to_json}"}
reduce:
  - {id: all, value: "${map.results | collect('value')}"}
"#);
    assert_eq!(run.value("all"), r#"["plain","field|7|{\"name\":\"field\",\"n\":7}"]"#);
}

#[test]
fn captures_of_items_and_phases_have_no_final_line_break() {
    let run = run(r#"
setup: [{shell: "printf 'a\n\n'", capture: a}]
map:
  input: [1]
  steps: [{shell: "printf 'b\r\n'", capture: b}, {value: ["${b}", "${setup.variables.a}", "${setup.output}"]}]
reduce: [{id: all, value: "${map.results[0].value}"}]
"#);
    assert_eq!(run.value("all"), r#"["b","a","a"]"#);
}

#[test]
fn numbers_stay_as_they_are_through_all_phases() {
    let run = run(r#"
setup: [{shell: echo 7, capture: n, capture_format: number}]
map:
  input: ["${setup.variables.n}", 7.0]
  steps: [{shell: "echo ${item}", capture_format: number}]
aggregates: {sum: "${map.results | sum('value')}"}
reduce:
  - {id: all, value: ["${map.results | collect('value')}", "${aggregates.sum}", "${map.total}", "${map.success_rate}"]}
  - {id: text, shell: "echo ${setup.variables.n} ${map.successful} ${aggregates.sum}"}
"#);
    assert_eq!(run.value("all"), "[[7,7.0],14.0,2,100]");
    assert_eq!(run.value("text"), "\"7 2 14.0\"");
}

#[test]
fn a_failing_step_without_on_failure_fails_its_item() {
    let text = "map: {input: [1, 2, 3, 4, 5, 6], max_parallel: 3, steps: [{shell: \"test $(( ${item} % 2 )) = 1\"}]}\n";
    let failed = workflow(text).run().exits(1);
    let counts = ["total", "successful", "failed", "skipped"].map(|name| failed.meta("map", name));
    assert_eq!(counts, ["6", "3", "3", "0"]);
    let reduce = "error_policy: {continue_on_failure: true}\nreduce: [{id: n, shell: \"echo failed=${map.failed}\"}]\n";
    let tolerated = workflow(&format!("{text}{reduce}")).run().well();
    assert_eq!(tolerated.value("n"), "\"failed=3\"");
}

#[test]
fn offset_distinct_when_and_timeout_are_obeyed() {
    let run = run(r#"
map:
  input: [a, b, b, c, c, d]
  distinct: item
  offset: 1
  timeout: 1s
  steps:
    - {when: item != "c", shell: "if test ${item} = d; then sleep 100; fi; echo ${item}"}
error_policy: {continue_on_failure: true}
reduce:
  - {id: all, value: "${map.results | each('[item, status, error]')}"}
"#);
    assert_eq!(
        run.value("all"),
        r#"[["b","success",null],["c","skipped",null],["d","failed","the item timed out after 1s"]]"#
    );
}

#[test]
fn one_wrong_entry_of_the_environment_is_an_error() {
    let text = "env: {GOOD: a, NUMBER: 7, LIST: [1]}\nmap: {input: [1], steps: [{shell: touch ran}]}\n";
    let workflow = workflow(text);
    workflow.run().exits(3).says("`LIST`");
    assert!(!workflow.has("ran"));
}

#[test]
fn a_map_that_was_killed_goes_on_where_it_was() {
    let workflow = workflow(
        "map:\n  input: {shell: seq 20}\n  max_parallel: 4\n  steps:\n    - shell: echo ${item} >> log; if test ${item} = 10; then echo > began; cat go; fi\n    - value: ${= int(item) * 2}\nreduce: [{id: sum, value: \"${map.results | sum('value')}\"}]\n",
    )
    .pipes(&["began", "go"]);
    killed(&workflow);
    let before = workflow.lines("log");
    let run = resumed(&workflow).well();
    assert_eq!(run.value("sum"), "420");
    let log = workflow.read("log");
    let times = |item: usize| log.lines().filter(|line| *line == item.to_string()).count();
    assert_eq!(times(10), 2, "{log}");
    // At most the four that ran at the kill ran twice.
    let again = log.lines().count() - 20;
    assert!((1..=4).contains(&again) && before >= 7, "{again} items ran again, {before} had begun\n{log}");
    assert!((1..=20).all(|item| (1..=2).contains(&times(item))), "{log}");
}

#[test]
fn the_journal_grows_by_what_an_item_leaves() {
    // Nothing is rewritten: twice the items cost at most twice the bytes, and a little for the tables.
    let written = |items: usize| {
        let text = format!(
            "map: {{input: {{shell: seq {items}}}, max_parallel: 2, steps: [{{value: \"${{item}}\"}}, {{value: \"${{item}} again\"}}]}}\nreduce: [{{value: \"${{map.results | len}}\"}}]\n"
        );
        let run = workflow(&text).run_with(&["--stats"]).well();
        let line = run.stderr.lines().last().expect("the line of `--stats`").to_owned();
        let (_, bytes) = line.split_once("\"bytes\":").expect("the bytes of the journal");
        let digits: String = bytes.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number")
    };
    let (few, many) = (written(500), written(1_000));
    assert!(many < few * 5 / 2, "{few} bytes for 500 items, {many} for 1000");
}

#[test]
fn items_that_are_hostile_shell_text_are_not_run() {
    let hostile = [
        "$(touch ran)",
        "`touch ran`",
        "; touch ran;",
        "' ; touch ran ; '",
        "\" ; touch ran ; \"",
        "a\ntouch ran\n",
        "${IFS}",
        "${item}",
        "$HOME",
        "\\",
        "*",
        "-n",
        "a && touch ran",
        "| touch ran",
        "> ran",
        "{a,b}",
        "~",
        "!!",
        "#",
        "\u{1b}[31m",
    ];
    let json: Vec<String> =
        hostile.iter().map(|text| format!("{text:?}").replace("\\u{1b}", "\\u001b")).collect();
    let workflow = workflow(
        r#"
map:
  input: items.json
  max_parallel: 4
  steps:
    - {shell: "printf '%s' ${item}", capture: bare}
    - {shell: "printf '%s' \"${item}\"", capture: double}
    - {shell: "printf '%s' '${item}'", capture: single}
    - {shell: "x=${item}; printf '%s' \"$x\"", capture: assigned}
    - {argv: [printf, "%s", "x${item}"], capture: argument}
    - value: "${= bare == double and double == single and single == assigned and argument == 'x' + bare and item | trim == bare | trim }"
reduce:
  - {id: all, value: "${map.results | collect('value') | unique}"}
"#,
    )
    .file("items.json", &format!("[{}]", json.join(",")));
    let run = workflow.run().well();
    assert_eq!(run.value("all"), "[true]");
    assert!(!workflow.has("ran"));
}

#[test]
fn the_environment_of_items_is_not_stored_and_the_store_is_private() {
    let canary = "canary-77ab01";
    let workflow = workflow(
        "map: {input: [1, 2], steps: [{shell: \"test -n \\\"$TOKEN\\\" && test ${item} = 1\"}]}\nerror_policy: {continue_on_failure: true}\nreduce: [{shell: \"test -n \\\"$TOKEN\\\"\"}]\n",
    )
    .env("TOKEN", canary);
    workflow.run().well();
    let found = files(&workflow.project.path().join(".threadline"));
    assert!(!found.is_empty());
    for file in found {
        let content = std::fs::read(&file).expect("a file of the store");
        let has = content.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!has, "the environment is in {}", file.display());
        let mode = std::fs::metadata(&file).expect("a file of the store").permissions().mode();
        let others = mode & 0o077;
        assert!(others == 0 || file.ends_with(".gitignore"), "{} has mode {mode:o}", file.display());
    }
}

#[test]
fn large_results_reach_the_shell_or_are_refused_with_the_way_out() {
    let map = "map: {input: {shell: seq 40}, max_parallel: 2, steps: [{shell: \"head -c 100000 /dev/zero | tr '\\\\0' x\"}]}\n";
    let intact = format!(
        "{map}reduce:\n  - {{id: file, shell: \"wc -c < ${{map.results | as_file}}\", capture_format: number}}\n  - {{id: builtin, shell: \"printf '%s' ${{map.results | to_json}} | wc -c\", capture_format: number}}\n  - {{id: size, value: \"${{map.results | to_json | len}}\"}}\n"
    );
    let run = workflow(&intact).run().well();
    assert_eq!(run.value("builtin"), run.value("size"));
    assert_eq!(run.value("file"), run.value("size"));
    assert!(run.value("size").parse::<u64>().expect("a number") > 4_000_000);
    let refused = format!("{map}reduce: [{{id: out, argv: [echo, \"${{map.results | to_json}}\"]}}]\n");
    let refused = workflow(&refused).run().exits(1);
    refused.says("as_file");
}
