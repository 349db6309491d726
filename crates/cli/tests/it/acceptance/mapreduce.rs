//! Variables of a map-reduce: what was promised of them, one test for each promise.

use threadline_lang::{Limits, Value, data};

use super::names::refused;
use super::resuming::{WAITS, killed, resumed};
use crate::harness::{Run, Workflow, run, workflow};

/// A file whose phases all write what a reference gives into `seen`; its `map` has one item.
fn in_all_phases(reference: &str, more: &str) -> Workflow {
    let step = format!("shell: \"printf '%s\\\\n' {reference} >> seen\"");
    workflow(&format!(
        "{more}\nsetup: [{{{step}}}]\nmap: {{input: [1], steps: [{{{step}}}]}}\nreduce: [{{{step}}}]\nmerge: [{{{step}}}]\nfinally: [{{{step}}}]\n"
    ))
}

/// What every phase saw, which must be the same everywhere.
fn seen_by_all(workflow: &Workflow) -> String {
    let seen = workflow.read("seen");
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 5, "{seen}");
    assert!(lines.iter().all(|line| *line == lines[0]), "{seen}");
    lines[0].to_owned()
}

#[test]
fn every_aggregate_variable_is_available_in_the_reduce() {
    let run = run(r#"
map:
  input: [1, 2, 3, 4, 5]
  steps:
    - when: item != 5
      shell: test ${item} != 2; echo ${item}
      capture_format: number
error_policy: {continue_on_failure: true}
reduce:
  - id: counts
    value: ["${map.total}", "${map.successful}", "${map.failed}", "${map.skipped}", "${map.success_rate}"]
  - {id: time, value: "${= map.duration >= 0 and map.duration < 100 }"}
  - {id: results, value: "${map.results | each('[index, status, value]')}"}
  - {id: in_shell, shell: "echo ${map.total} $(( ${map.successful} + ${map.failed} + ${map.skipped} )) ${map.success_rate}"}
  - {id: by_condition, when: map.failed == 1 and map.total == 5, value: yes}
"#);
    assert_eq!(run.value("counts"), "[5,3,1,1,60]");
    assert_eq!(run.value("time"), "true");
    assert_eq!(
        run.value("results"),
        r#"[[0,"success",1],[1,"failed",null],[2,"success",3],[3,"success",4],[4,"skipped",null]]"#
    );
    assert_eq!(run.value("in_shell"), "\"5 5 60\"");
    assert_eq!(run.value("by_condition"), "\"yes\"");
}

#[test]
fn variables_pass_from_the_setup_to_map_reduce_and_merge() {
    let workflow = workflow(
        r#"
setup:
  exports: [version]
  commands:
    - {shell: echo 1.2.3, capture: version}
    - {shell: "echo '{\"most\": 2, \"names\": [\"a\", \"b\", \"c\"]}'"}
    - {shell: printf 'done\n\n'}
  capture_outputs: {settings: {command_index: 1, format: json}}
  variables: {twice: "${= captured.settings.value.most * 2 }"}
map:
  input: ${setup.variables.settings.names}
  max_items: ${setup.variables.settings.most}
  steps:
    - shell: printf '%s\n' ${item}-${version}-${setup.variables.twice}-${setup.output} >> seen
reduce:
  - shell: printf '%s\n' ${version}-${setup.variables.twice}-${setup.variables.settings.names[0]}-${setup.output} >> seen
merge:
  - shell: printf '%s\n' ${setup.variables.version}-${setup.output}-${version} >> seen
"#,
    );
    workflow.run().well();
    assert_eq!(workflow.read("seen"), "a-1.2.3-4-done\nb-1.2.3-4-done\n1.2.3-4-a-done\n1.2.3-done-1.2.3\n");
}

#[test]
fn the_environment_is_read_in_every_phase() {
    let workflow = in_all_phases("${env.COLOUR}", "").env("COLOUR", "dark $(touch ran) red");
    workflow.run().well();
    assert_eq!(seen_by_all(&workflow), "dark $(touch ran) red");
    assert!(!workflow.has("ran"));
    let run = in_all_phases("${env.COLUOR}", "").env("COLOUR", "red").run().exits(1);
    assert!(run.stdout.contains("COLUOR"), "{}", run.stdout);
}

#[test]
fn the_content_of_a_file_is_read_in_every_phase() {
    let workflow = in_all_phases("${file:notes/a.txt}", "").file("notes/a.txt", "it's ${item} \"$HOME\"\n");
    workflow.run().well();
    assert_eq!(seen_by_all(&workflow), "it's ${item} \"$HOME\"");
}

#[test]
fn the_output_of_a_command_is_read_in_every_phase() {
    let workflow = in_all_phases("${cmd:echo one | tr o 0}", "allow: {commands: true}");
    workflow.run().well();
    assert_eq!(seen_by_all(&workflow), "0ne");
    let refused = in_all_phases("${cmd:touch ran}", "");
    refused.run().exits(3).says("allow: {commands: true}");
    assert!(!refused.has("ran"));
}

#[test]
fn a_field_of_json_output_is_read_in_every_phase() {
    let steps = "[{shell: \"echo '{\\\"a\\\": {\\\"b\\\": [10, 2.50]}}'\"}, {shell: \"echo ${json:a.b[1]} >> seen\"}]";
    let workflow = workflow(&format!(
        "setup: {steps}\nmap: {{input: [1], steps: {steps}}}\nreduce: {steps}\nmerge: {steps}\nfinally: {steps}\n"
    ));
    workflow.run().well();
    assert_eq!(seen_by_all(&workflow), "2.50");
}

#[test]
fn computed_values_are_lazy_and_asked_for_once() {
    let workflow = workflow(
        r#"
allow: {commands: true}
context: {fixed: "${cmd:echo x >> fixed; echo 7}", never: "${cmd:touch ran}"}
map:
  input: [1, 2, 3]
  max_parallel: 3
  steps:
    - {value: "${context.fixed} ${item}"}
    - {id: twice, value: ["${cmd:echo x >> twice; echo y}", "${cmd:echo x >> twice; echo y}"]}
    - {when: item == 9 and cmd("touch ran") == "", value: 1}
    - {value: "${item.previous_error:-none}${item | default(cmd('touch ran'))}"}
reduce:
  - {id: last, value: "${context.fixed} ${map.results | collect('value')}"}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("last"), r#""7 [\"none1\",\"none2\",\"none3\"]""#);
    assert_eq!(workflow.lines("fixed"), 1, "an entry of the context is evaluated once per run");
    assert_eq!(workflow.lines("twice"), 3, "two uses in a step are one call");
    assert!(!workflow.has("ran"), "what is not needed is not computed");
}

#[test]
fn scopes_are_enforced() {
    let map = "map: {input: [1], steps: [{id: done, value: \"${item}\", capture: mine}]}\n";
    // What belongs to an item, to a phase or to a later phase is unknown elsewhere; the message says where it is known.
    let cases = [
        ("reduce: [{value: \"${item}\"}]", "`item`"),
        ("reduce: [{value: \"${mine}\"}]", "`mine`"),
        ("reduce: [{value: \"${done}\"}]", "`done`"),
        ("reduce: [{value: \"${agent.id}\"}]", "`agent`"),
        ("setup: [{value: \"${map.results}\"}]", "in `reduce`, `merge`"),
        ("setup: [{value: \"${setup.output}\"}]", "in `map`, `reduce`, `merge` and `exports`"),
        ("reduce: [{value: \"${reduce.output}\"}]", "in `merge` and `exports`"),
        ("setup: [{value: 1, capture: a}]\nreduce: [{value: \"${a}\"}]", "exports: [a]"),
    ];
    for (text, words) in cases {
        refused(&format!("{map}{text}\n"), &["error[", words]);
    }
    // What a phase exports is there for all after it; what an item captures is its own.
    let run = run(
        "setup: {exports: [word], steps: [{value: outer, capture: word}]}\nmap: {input: [1, 2], max_parallel: 2, steps: [{value: inner, capture: own}, {value: \"${word} ${own} ${item}\"}]}\nreduce: [{id: last, value: [\"${word}\", \"${map.results | collect('value')}\"]}]\n",
    );
    assert_eq!(run.value("last"), r#"["outer",["outer inner 1","outer inner 2"]]"#);
}

#[test]
fn undefined_variables_give_clear_errors() {
    let at = |place: &str| {
        format!(
            "setup: [{{shell: touch ran}}]\nmap:\n  input: [{{name: a}}]\n  steps: [{{value: 1}}]\n{place}\n"
        )
    };
    let nearest = [
        ("reduce: [{value: \"${map.succesful}\"}]", "`succesful`", "map.successful"),
        ("reduce: [{value: \"${setup.variabels}\"}]", "`variabels`", "setup.variables"),
        ("reduce: [{value: \"${wrokflow.id}\"}]", "`wrokflow`", "`workflow`"),
        ("reduce: [{shell: \"echo ${map.totl}\"}]", "`totl`", "map.total"),
        ("reduce: [{value: 1, when: map.totl > 1}]", "`totl`", "map.total"),
        ("aggregates: {n: \"${map.reslts | count}\"}", "`reslts`", "map.results"),
    ];
    for (text, name, near) in nearest {
        refused(&at(text), &[name, near, "workflow.yaml:5:"]);
    }
    // What only the item can tell is an error of that item.
    let run = workflow("map:\n  input: [{name: a}, {nmae: b}]\n  steps: [{value: \"${item.name}\"}]\n").run();
    let run = run.exits(1);
    assert!(run.error("map").starts_with("Items: 1 of 2 items failed"), "{}", run.error("map"));
    assert!(run.error("map[1]/1").contains("name"), "{}", run.error("map[1]/1"));
}

#[test]
fn resolutions_can_be_traced_in_every_phase() {
    let text = "setup: [{shell: echo 7, capture: n, capture_format: number}]\nmap: {input: [x], steps: [{shell: \"echo ${item} ${setup.variables.n}\"}]}\nreduce: [{id: last, value: \"${map.successful} of ${map.total}\"}]\n";
    let workflow = workflow(text);
    let run = workflow.run_with(&["--trace-variables"]).well();
    for words in ["item", "setup.variables.n", "map.successful", "map.total"] {
        assert!(run.stderr.contains(words), "`{words}` is not in\n{}", run.stderr);
    }
    for (step, words) in
        [("map[0]/1", "setup.variables.n"), ("map[0]/1", "\"x\""), ("last", "map.successful")]
    {
        let explained = workflow.command(&["explain", "last", step]).wait().well();
        assert!(explained.stdout.contains(words), "`{words}` is not in\n{}", explained.stdout);
    }
}

/// Kills a run when the waiting step runs, resumes it, and lets the step end.
fn killed_and_resumed(workflow: &Workflow) -> Run {
    killed(workflow);
    resumed(workflow)
}

#[test]
fn variables_persist_when_a_run_is_resumed() {
    let text = format!(
        r#"
context: {{id: "${{uuid}}"}}
setup:
  exports: [n]
  steps:
    - {{shell: "echo setup >> log; echo 7", capture: n, capture_format: number}}
  variables: {{id: "${{context.id}}", made: "${{uuid}}"}}
map:
  input: [a, b, c]
  retry: {{attempts: 2, delay: 1ms}}
  steps:
    - shell: echo ${{item}} ${{item.attempt}} ${{item.previous_error:-none}} ${{setup.variables.made}} ${{context.id}} ${{n}} >> log
    - {{when: item == "b" and item.attempt == 1, shell: exit 3}}
    - {{when: item == "b", shell: "{WAITS}"}}
    - {{value: "${{item}} ${{n}}"}}
aggregates: {{all: "${{map.results | collect('value')}}"}}
reduce:
  - {{id: same, value: "${{= setup.variables.id == context.id }}"}}
  - {{id: last, value: ["${{aggregates.all}}", "${{n}}", "${{map.results | collect('attempts')}}", "${{map.successful}}"]}}
  - {{shell: "echo ${{setup.variables.made}} >> log"}}
"#
    );
    let workflow = workflow(&text).pipes(&["began", "go"]);
    let run = killed_and_resumed(&workflow).well();
    assert_eq!(run.value("same"), "true");
    assert_eq!(run.value("last"), r#"[["a 7","b 7","c 7"],7,[1,2,1],3]"#);
    let log = workflow.read("log");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 6, "{log}");
    let made = lines[5];
    assert_eq!(lines[0], "setup");
    assert!(lines[1].starts_with(&format!("a 1 none {made} ")), "{log}");
    assert!(lines[2].starts_with(&format!("b 1 none {made} ")), "{log}");
    assert!(lines[3].starts_with(&format!("b 2 exit code 3 {made} ")), "{log}");
    assert!(lines[4].starts_with(&format!("c 1 none {made} ")), "{log}");
}

#[test]
fn a_run_killed_in_its_reduce_or_its_setup_goes_on_there() {
    let text = |setup: &str, reduce: &str| {
        format!(
            "setup: [{{shell: \"echo setup >> log; {setup}\"}}, {{value: 5, capture: five}}]\nmap: {{input: [1, 2], steps: [{{shell: \"echo ${{item}} ${{setup.variables.five}} >> log\"}}]}}\nreduce: [{{shell: \"echo ${{map.successful}} >> log; {reduce}\"}}, {{shell: \"echo end >> log\"}}]\n"
        )
    };
    let workflow_setup = workflow(&text(WAITS, "true")).pipes(&["began", "go"]);
    killed_and_resumed(&workflow_setup).well();
    assert_eq!(workflow_setup.read("log"), "setup\nsetup\n1 5\n2 5\n2\nend\n");
    let workflow_reduce = workflow(&text("true", WAITS)).pipes(&["began", "go"]);
    killed_and_resumed(&workflow_reduce).well();
    assert_eq!(workflow_reduce.read("log"), "setup\n1 5\n2 5\n2\n2\nend\n");
}

#[test]
fn references_cost_less_than_a_twentieth_of_what_the_steps_do() {
    // Processor time, for time on a shared machine says nothing: of 60 steps that each do a little work, with ten
    // references and with none.
    let own_and_children = |references: &str| {
        let text = format!(
            "context: {{a: 1}}\nmap:\n  input: {{shell: seq 60}}\n  max_parallel: 2\n  steps: [{{shell: \"for ((i = 0; i < 10000; i++)); do :; done; true {references}\"}}]\n"
        );
        let run = workflow(&text).run_with(&["--stats"]).well();
        let line = run.stderr.lines().last().expect("the line of `--stats`");
        let stats = data::json::read_value(line, &Limits::DEFAULT).expect("a line of JSON");
        let number = |name| stats.get(name).and_then(Value::as_i64).expect("processor time");
        (number("own_cpu_ms"), number("children_cpu_ms"))
    };
    let (with, children) =
        own_and_children(&"${item} ${item.index} ${map.total} ${context.a} ${workflow.id} ".repeat(2));
    let (without, _) = own_and_children("");
    assert!(
        (with - without) * 20 < children,
        "{with} ms with references, {without} ms without, steps {children} ms"
    );
}
