//! Shell text: the shell's own stays the shell's, values never run, and a script that fails is seen to fail.

use crate::harness::{run, workflow};

/// A value with everything in it that a shell could take for its own.
const HOSTILE: &str = "it's $(touch pwned) `touch pwned` \"; touch pwned # \\ * ~ ${HOME} $HOME\t!\n -rf";

#[test]
fn what_is_the_shells_stays_the_shells() {
    let run = run(r#"
- id: awk
  shell: printf 'a b\nc d\n' | awk '{ print $2, $1 }'
- id: own
  shell: |
    set -- one two
    file=notes.tar.gz
    list=(x y z)
    echo $1 ${2} $# ${file%%.*} ${#list[@]} ${list[1]} $((1 + 2)) $(echo sub) ${NOT_SET:-default} "$$" | sed 's/[0-9]*$/pid/'
- id: escaped
  shell: echo '$${x}' "$${HOME}"
- id: off
  interpolate: false
  shell: x=1; echo ${x} ${NOPE:-n}
"#);
    assert_eq!(run.value("awk"), r#""b a\nd c""#);
    assert_eq!(run.value("own"), r#""one two 2 notes 3 y 3 sub default pid""#);
    assert_eq!(run.value("escaped"), r#""${x} /home/user""#);
    assert_eq!(run.value("off"), r#""1 n""#);
}

#[test]
fn an_item_of_text_and_of_an_object_reaches_the_shell() {
    let run = run(r#"
- id: texts
  foreach: [plain, "two words", "$(touch pwned)"]
  do: [{shell: "printf '<%s>' ${item}"}]
- id: objects
  foreach: [{name: a, n: 7, deep: {x: [1.50]}}, {name: b, n: 8, deep: {x: [null]}}]
  do: [{shell: "printf '%s|' ${item.name} ${item.n} ${item.deep.x[0]} ${item.index} ${item | to_json}"}]
"#);
    assert_eq!(run.value("texts"), r#"["<plain>","<two words>","<$(touch pwned)>"]"#);
    assert_eq!(
        run.value("objects"),
        r#"["a|7|1.50|0|{\"name\":\"a\",\"n\":7,\"deep\":{\"x\":[1.50]}}|","b|8||1|{\"name\":\"b\",\"n\":8,\"deep\":{\"x\":[null]}}|"]"#
    );
}

#[test]
fn a_hostile_value_is_data_in_every_place_of_a_step() {
    let workflow = workflow(
        r#"
inputs: {title: {type: text}}
agents: {cat: {command: [cat]}}
steps:
  - {id: bare, shell: "printf '%s' ${inputs.title}"}
  - {id: double, shell: "printf '%s' \"${inputs.title}\""}
  - {id: single, shell: "printf '%s' '${inputs.title}'"}
  - {id: sub, shell: "x=$(printf '%s' ${inputs.title}); printf '%s' \"$x\""}
  - id: here
    shell: |
      cat <<'EOF'
      ${inputs.title}
      EOF
  - {id: argv, argv: [printf, "%s", "${inputs.title}"]}
  - {id: variable, shell: "printf '%s' \"$TITLE\"", env: {TITLE: "${inputs.title}"}}
  - {id: agent, agent: cat, message: "${inputs.title}"}
  - {id: file, write_file: {path: out.txt, content: "${inputs.title}"}}
  - {id: read, value: "${file:out.txt}"}
  - {id: value, value: "${inputs.title}"}
  - {id: same, value: "${= [bare.value, double.value, single.value, sub.value, here.value, argv.value, variable.value, agent.value.final_response, read.value, value.value] | unique | len }"}
"#,
    );
    let run = workflow.run_with(&["--input", &format!("title={HOSTILE}")]).well();
    assert_eq!(run.value("same"), "1");
    assert_eq!(workflow.read("out.txt"), HOSTILE);
    assert!(!workflow.has("pwned"));
}

#[test]
fn a_name_of_a_file_is_data_too() {
    let name = "$(touch pwned); touch pwned.txt";
    let workflow = workflow(
        "inputs: {name: {}}\nsteps:\n  - {write_file: {path: \"${inputs.name}\", content: x}}\n  - {id: a, shell: \"cat ./${inputs.name}\"}\n  - {id: b, shell: pwd, cwd: \"${inputs.name}.d\"}\n",
    );
    std::fs::create_dir(workflow.project.path().join(format!("{name}.d"))).expect("a folder");
    let run = workflow.run_with(&["--input", &format!("name={name}")]).well();
    assert_eq!(run.value("a"), "\"x\"");
    assert!(run.value("b").contains(name));
    assert!(!workflow.has("pwned") && !workflow.has("pwned.txt"));
}

#[test]
fn a_value_where_it_would_run_is_refused_before_anything_runs() {
    for script in [
        "eval ${inputs.x}",
        "sh -c ${inputs.x}",
        "bash -c 'echo ${inputs.x}'",
        "${inputs.x}",
        "python3 -c 'print(${inputs.x})'",
        "awk '{ print ${inputs.x} }' file",
        "sed s/a/${inputs.x}/ file",
        "ssh host ls ${inputs.x}",
        "find . -exec sh -c ${inputs.x} +",
        "echo ${inputs.x} | sh",
        "trap ${inputs.x} EXIT",
        "export ${inputs.x}",
        "source ${inputs.x}",
    ] {
        let quoted = script.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!(
            "inputs: {{x: {{type: text, default: x}}}}\nsteps:\n  - shell: touch ran\n  - shell: \"{quoted}\"\n"
        );
        let workflow = workflow(&text);
        let run = workflow.run().exits(3);
        assert!(run.stderr.contains("error["), "{script}: {}", run.stderr);
        assert!(!workflow.has("ran"), "{script}");
    }
}

#[test]
fn a_value_in_arithmetic_must_be_an_int() {
    let workflow =
        workflow("inputs: {x: {type: int}}\nsteps:\n  - {id: a, shell: \"echo $((${inputs.x} * 2))\"}\n");
    assert_eq!(workflow.run_with(&["--input", "x=21"]).well().value("a"), "\"42\"");
    let workflow = crate::harness::workflow(
        "- {id: x, shell: \"echo 'a[$(touch pwned)]'\"}\n- {id: a, shell: \"echo $((${x}))\"}\n",
    );
    let run = workflow.run();
    assert!([1, 3].contains(&run.exit), "{}", run.stdout);
    assert!(!workflow.has("pwned"));
}

#[test]
fn a_list_or_object_is_not_bound_as_it_is() {
    for field in ["shell: \"echo ${context.x}\"", "argv: [echo, \"${context.x}\"]"] {
        for value in ["[1, 2]", "{a: 1}"] {
            let run = workflow(&format!("context: {{x: {value}}}\nsteps:\n  - id: a\n    {field}\n")).run();
            let said = if run.exit == 1 { run.error("a") } else { run.stderr.clone() };
            assert!(
                [1, 3].contains(&run.exit) && said.contains("cannot be bound as one word"),
                "{field} {value}: {said}"
            );
        }
    }
}

#[test]
fn a_value_that_would_be_an_option_fails_there() {
    let workflow = workflow(
        "inputs: {x: {type: text}}\nsteps:\n  - {id: a, shell: \"rm ${inputs.x}\"}\n  - shell: touch after\n",
    );
    let run = workflow.run_with(&["--input", "x=-rf"]).exits(1);
    assert!(run.error("a").starts_with("Evaluation: "), "{}", run.error("a"));
    assert!(!workflow.has("after"));
}

#[test]
fn a_value_with_a_zero_byte_is_refused_with_a_word() {
    for field in [
        "shell: \"echo ${context.x}\"",
        "argv: [echo, \"${context.x}\"]",
        "shell: echo\n    env: {A: \"${context.x}\"}",
    ] {
        let text = format!("context: {{x: \"a\\0b\"}}\nsteps:\n  - id: a\n    {field}\n");
        let run = workflow(&text).run().exits(1);
        assert!(
            run.error("a").contains("NUL") || run.error("a").contains("no environment can hold"),
            "{field}: {}",
            run.error("a")
        );
    }
}

#[test]
fn a_failing_line_in_the_middle_of_a_script_is_seen() {
    for script in [
        "false; echo ok",
        "false | true",
        "false\necho ok\n",
        "x=$(false); echo ok",
        "cd no-such; touch after",
    ] {
        let text = format!("- id: a\n  shell: |\n    {}\n", script.replace('\n', "\n    "));
        let workflow = workflow(&text);
        let run = workflow.run().exits(1);
        assert!(run.error("a").starts_with("ExitCode: exit code 1"), "{script}: {}", run.error("a"));
        assert!(!workflow.has("after"));
    }
}

#[test]
fn a_shell_that_is_not_strict_goes_on() {
    let run = run(
        "- {id: a, shell: \"false; echo ok\", strict_shell: false}\n- {id: b, shell: \"false | true && echo ok\", strict_shell: false}\n",
    );
    assert_eq!((run.value("a"), run.value("b")), ("\"ok\"".into(), "\"ok\"".into()));
}

#[test]
fn the_length_of_a_variable_needs_no_quotes() {
    let text =
        "inputs: {x: {default: \"a  b\"}}\nsteps:\n  - {id: a, shell: \"v=${inputs.x}; echo ${#v}\"}\n";
    let run = workflow(text).run().well();
    assert_eq!((run.value("a"), run.stderr.as_str()), ("\"4\"".into(), ""));
    workflow(&text.replace("${#v}", "$v")).run().well().says("warning[shell-altered]");
}

#[test]
fn another_shell_can_be_asked_for() {
    let run = run(
        "inputs: {x: {default: \"a  b\"}}\nsteps:\n  - {id: a, shell_program: sh, shell: \"printf '<%s>' ${inputs.x}\"}\n  - {id: b, shell_program: /bin/sh, shell: \"echo '${inputs.x}'\"}\n",
    );
    assert_eq!((run.value("a"), run.value("b")), ("\"<a  b>\"".into(), "\"a  b\"".into()));
}

#[test]
fn a_list_is_bound_as_its_filter_says() {
    let run = run(r#"
context: {list: ["a b", c, "$(touch pwned)"]}
steps:
  - {id: words, shell: "printf '<%s>' ${context.list | words}"}
  - {id: argv, argv: [printf, "<%s>", "${context.list | words}"]}
  - {id: json, shell: "printf '%s' ${context.list | to_json}"}
  - {id: file, shell: "cat ${context.list | as_file}", capture_format: json}
"#);
    assert_eq!(run.value("words"), r#""<a b><c><$(touch pwned)>""#);
    assert_eq!(run.value("argv"), r#""<a b><c><$(touch pwned)>""#);
    assert_eq!(run.value("json"), r#""[\"a b\",\"c\",\"$(touch pwned)\"]""#);
    assert_eq!(run.value("file"), r#"["a b","c","$(touch pwned)"]"#);
}

#[test]
fn bound_values_are_not_inherited_by_what_a_script_starts() {
    let run = workflow("context: {x: canary-value}\nsteps:\n  - {id: a, shell: \"echo ${context.x}; env | grep -c canary-value || true\"}\n  - {id: b, shell: \"env | grep ^TL_ || echo none\"}\n")
        .env("TL_9", "inherited")
        .run()
        .well();
    assert_eq!((run.value("a"), run.value("b")), (r#""canary-value\n0""#.into(), "\"none\"".into()));
}

#[test]
fn code_of_the_author_may_come_from_context() {
    let workflow = workflow("context: {check: \"test -e marker && echo there\"}\nsteps:\n  - {id: a, shell: \"${context.check}\"}\n").file("marker", "");
    assert_eq!(workflow.run().well().value("a"), "\"there\"");
    let refused = workflow.run_with(&["--set", "context.check=touch pwned"]);
    assert_ne!(refused.exit, 0);
    assert!(!workflow.has("pwned"));
    workflow.run_with(&["--trust-set", "--set", "context.check=touch trusted"]).well();
    assert!(workflow.has("trusted"));
}
