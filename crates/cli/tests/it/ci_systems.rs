//! What is printed when the environment says that a CI system reads it.

#![expect(clippy::unwrap_used, reason = "a command that does not start fails the test")]

use std::process::{Command, Output};

use crate::support::Project;

fn on_github(project: &Project, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(arguments).env("GITHUB_ACTIONS", "true").current_dir(project.path()).output().unwrap()
}

#[test]
fn problems_are_annotated_in_a_job_of_github() {
    let project = Project::new();
    project.write("w.yaml", b"steps:\n- {value: \"${nope}\"}\n");
    let output = on_github(&project, &["check", "w.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        printed,
        "::error file=w.yaml,line=2,col=14,endLine=2,endColumn=18,title=unknown-root::unknown name `nope`%0Anote: names \
         in scope: captured, context, inputs, workflow\n"
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("--> w.yaml:2:14"));
}
