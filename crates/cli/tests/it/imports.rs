//! What a run exports, and what later runs of other workflows read of it.

use crate::support::Project;

const COMPILE: &str = "
name: compile
inputs: {version: {type: int}}
steps:
  - {id: size, shell: echo 85, capture_format: number}
exports:
  size: ${size}
  version: ${inputs.version}
";

const DEPLOY: &str = "
name: deploy
imports: {build: compile}
context: {label: 'v${imports.build.version}'}
steps:
  - value: ${= imports.build.size + 1 }
    id: next
  - write_file: {path: out, content: '${context.label} ${next}'}
";

#[test]
fn a_later_run_reads_what_the_last_completed_one_exported() {
    let project = Project::new();
    project.write("compile.yaml", COMPILE.as_bytes());
    project.write("deploy.yaml", DEPLOY.as_bytes());
    for version in ["1", "2"] {
        let compiled = project.run_line(&format!("threadline run compile.yaml --input version={version}"));
        assert_eq!((compiled.stderr.as_str(), compiled.exit), ("", 0));
    }
    let deployed = project.run_line("threadline run deploy.yaml");
    assert_eq!((deployed.stderr.as_str(), deployed.exit), ("", 0));
    assert_eq!(project.read("out").as_deref(), Some("v2 86"));
    let explained = project.run_line("threadline explain last next");
    assert!(
        explained.stdout.contains("imports.build.size  = 85  int  exported by run "),
        "{}",
        explained.stdout
    );
}

#[test]
fn a_run_may_be_named_whose_exports_are_read() {
    let project = Project::new();
    project.write("compile.yaml", COMPILE.as_bytes());
    project.write("deploy.yaml", DEPLOY.as_bytes());
    let first = project.run_line("threadline run compile.yaml --input version=1");
    let id = first.stdout.lines().next().and_then(|line| line.rsplit(' ').next()).expect("its id").to_owned();
    project.run_line("threadline run compile.yaml --input version=2");
    let deployed = project.run_line(&format!("threadline run deploy.yaml --import build={id}"));
    assert_eq!((deployed.stderr.as_str(), deployed.exit), ("", 0));
    assert_eq!(project.read("out").as_deref(), Some("v1 86"));
    for (import, exit, message) in [
        ("biuld=last", 2, "the workflow imports nothing as `biuld`; did you mean `build`"),
        ("build", 2, "`--import build`: write a name, `=` and a run"),
        ("build=nothing", 3, "no run `nothing`"),
    ] {
        let refused = project.run_line(&format!("threadline run deploy.yaml --import {import}"));
        assert_eq!(refused.exit, exit, "{}", refused.stderr);
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
}

#[test]
fn nothing_runs_when_there_is_nothing_to_import() {
    let project = Project::new();
    project.write("deploy.yaml", DEPLOY.as_bytes());
    let deployed = project.run_line("threadline run deploy.yaml");
    assert_eq!(deployed.exit, 3);
    assert_eq!(project.read("out"), None);
    let message = "\
error: no run of the workflow `compile` has completed
 --> deploy.yaml:3:11
  |
3 | imports: {build: compile}
  |           ^^^^^

hint: run it first, in this project
";
    assert_eq!(deployed.stderr, message);
}

#[test]
fn a_name_that_is_not_imported_is_found_before_the_run() {
    let project = Project::new();
    project.write("typo.yaml", DEPLOY.replace("imports.build.size", "imports.biuld.size").as_bytes());
    let checked = project.run_line("threadline check typo.yaml");
    assert_eq!(checked.exit, 1);
    assert!(checked.stderr.contains("did you mean `imports.build`"), "{}", checked.stderr);
}
