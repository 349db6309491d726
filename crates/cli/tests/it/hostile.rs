//! Values that would steer a terminal, shown by every command that prints for people: none of their bytes
//! arrives.

use crate::harness::workflow;
use crate::support::Project;

/// What no output may hold: C0 but line breaks and tabs, DEL, C1, and the marks of the direction of text.
fn steers(char: char) -> bool {
    matches!(char, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// As an escape of YAML and JSON.
const EVIL: &str = r"A\u001b[31m\u009b31m\u202eB\u2066\u200f\u061c\u0085\u0007C\rD";

fn project() -> Project {
    let project = Project::new();
    let workflow = format!(
        r#"
name: "w {EVIL}"
inputs: {{x: {{type: text, description: "d {EVIL}"}}, n: {{type: int, default: 1}}}}
context: {{c: "{EVIL}", o: {{"k{EVIL}": "{EVIL}"}}}}
steps:
  - {{id: a, name: "name {EVIL}", value: "${{inputs.x}} {EVIL}"}}
  - {{id: b, when: "inputs.x != '{EVIL}z'", shell: "printf '%s\n' ${{a}} >&2; printf %s ${{context.c}}"}}
  - {{id: c, value: "${{context.o}}", capture: seen}}
  - foreach: ["${{inputs.x}}", two]
    do:
      - {{shell: "printf %s ${{item}}", expect: {{output: {{contains: "{EVIL}"}}}}}}
    error_policy: {{continue_on_failure: true}}
  - {{id: d, value: "${{file(a)}}"}}
"#
    );
    project.write("w.yaml", workflow.as_bytes());
    let graph = format!(
        r#"
nodes:
  - {{id: a, name: "n {EVIL}", value: "{EVIL}"}}
  - {{id: b, name: "m {EVIL}", depends_on: [a], value: "${{a}}"}}
"#
    );
    project.write("graph.yaml", graph.as_bytes());
    let wrong = format!("steps: [{{valeu: \"{EVIL}\", \"{EVIL}\": 1, shell: \"${{x}} {EVIL}\"}}]\n");
    project.write("wrong.yaml", wrong.as_bytes());
    project.write("raw.yaml", "steps:\n  - {value: 1, \u{9b}31m\u{202e}: 2}\n".as_bytes());
    project.write("e.yaml", format!("expect: {{text: {{contains: \"{EVIL}\"}}}}\n").as_bytes());
    project.write("actual.json", format!("{{\"text\": \"other {EVIL}\"}}").as_bytes());
    project
}

#[test]
fn no_command_lets_a_value_steer_the_terminal() {
    let project = project();
    let x = format!(
        "x=in {}",
        "\u{1b}[31m\u{9b}31m\u{202e}B\u{2066}\u{200f}\u{61c}\u{85}\u{7}C\rD\nerror: forged"
    );
    let data = format!("v=\"{EVIL}\"");
    let commands: &[&[&str]] = &[
        &["check", "w.yaml"],
        &["check", "wrong.yaml"],
        &["check", "raw.yaml"],
        &["preview", "w.yaml", "--input", &x],
        &["preview", "w.yaml", "--full", "--input", &x],
        &["run", "w.yaml", "--input", &x],
        &["run", "w.yaml", "--verbose", "--trace-variables", "--input", &x],
        &["run", "w.yaml", "--input", "n=\u{9b}x\u{202e}"],
        &["run", "w.yaml", "--input", &x, "--set", "context.\u{9b}c=\u{202e}"],
        &["runs"],
        &["show", "last"],
        &["show", "last", "--failed"],
        &["show", "\u{9b}31m\u{202e}"],
        &["explain", "last"],
        &["explain", "last", "b"],
        &["explain", "last", "b", "--full"],
        &["explain", "last", "b", "--back"],
        &["explain", "last", "a", "--forward"],
        &["explain", "last", "\u{9b}31m"],
        &["vars", "last"],
        &["vars", "last", "--full"],
        &["vars", "last", "a"],
        &["graph", "w.yaml"],
        &["graph", "last"],
        &["graph", "graph.yaml"],
        &["graph", "graph.yaml", "--format", "mermaid"],
        &["graph", "graph.yaml", "--format", "dot"],
        &["run", "graph.yaml"],
        &["graph", "last"],
        &["eval", "--explain", "--set-json", &data, "len(v + v) > 100 and file(v) == 'x'"],
        &["eval", "--trace", "--set-json", &data, "len(v)"],
        &["eval", "--set-json", &data, "v.missing"],
        &["eval", "\u{9b}31m\u{202e}"],
        &["render", "--set-json", &data, "${file(v)}"],
        &["render", "--trace", "--set-json", &data, "${len(v)}"],
        &["expect", "e.yaml", "--actual", "actual.json"],
        &["expect", "e.yaml", "--actual", "actual.json", "--explain"],
        &["migrate", "w.yaml"],
        &["init", "\u{9b}31m"],
        &["resume", "last"],
    ];
    let mut found = Vec::new();
    for command in commands {
        let outcome = project.run(command, b"");
        for (name, text) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
            if let Some(line) = text.lines().find(|line| line.contains(steers)) {
                found.push(format!("{command:?} {name}: {}\n", line.escape_unicode()));
            }
            if let Some(line) = text.lines().find(|line| line.starts_with("error: forged")) {
                found.push(format!("{command:?} {name}: a forged line {line}\n"));
            }
        }
        assert_ne!(outcome.exit, -1, "{command:?}");
    }
    assert!(found.is_empty(), "{}", found.concat());
}

#[test]
fn a_secret_of_the_environment_is_not_in_the_summary_of_a_failed_run() {
    let workflow = workflow(
        "
steps:
  - id: upload
    env: {COPY: 'Bearer ${env.API_TOKEN}'}
    shell: 'test -z ${env.API_TOKEN} || test -z ${env.PLAIN}'
",
    );
    let workflow = workflow.env("API_TOKEN", "canary-of-a-token").env("PLAIN", "shown-as-it-is");
    let run = workflow.command(&["run", "workflow.yaml"]).wait().exits(1);
    assert!(!run.stdout.contains("canary") && !run.stderr.contains("canary"), "{run:?}");
    assert!(run.stdout.contains("env.API_TOKEN") && run.stdout.contains("***"), "{run:?}");
    assert!(run.stdout.contains("shown-as-it-is"), "{run:?}");
}
