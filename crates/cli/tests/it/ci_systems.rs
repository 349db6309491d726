//! What is printed when the environment says that a CI system reads it.

#![expect(clippy::unwrap_used, reason = "a command that does not start fails the test")]

use std::process::{Command, Output};

use crate::support::{Project, junit_schema};

fn on_github(project: &Project, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", project.path().join("summary.md"));
    command.args(arguments).current_dir(project.path()).output().unwrap()
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
         in scope: captured, context, inputs, run, workflow\n"
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("--> w.yaml:2:14"));
}

#[test]
fn failed_steps_are_annotated_and_summarised_in_a_job_of_github() {
    let project = Project::new();
    let workflow = "name: nightly\nsteps:\n- {id: fine, value: 1}\n- id: broken\n  shell: |\n    echo \"100% | wrong\" >&2\n    exit 3\n";
    project.write("w.yaml", workflow.as_bytes());
    project.write("summary.md", b"before\n");
    let output = on_github(&project, &["run", "w.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    let annotation = printed.lines().find(|line| line.starts_with("::error")).unwrap();
    assert_eq!(
        annotation,
        "::error file=w.yaml,line=4,col=3,title=broken failed::w.yaml:4:3%0Aexit code 3%0A│ 100%25 | wrong"
    );
    let summary = project.read("summary.md").unwrap();
    assert!(summary.starts_with("before\n### nightly: failed\n\nRun `"), "{summary}");
    assert!(summary.contains("`, 1 completed, 1 failed, "), "{summary}");
    assert!(summary.contains("| broken | w.yaml:4 | exit code 3 |\n"), "{summary}");
}

#[test]
fn exports_are_in_the_summary_of_a_job_of_github() {
    let project = Project::new();
    let workflow = "name: nightly\nexports: {version: \"${v}\"}\nsteps:\n- {id: v, value: \"a|b*c\"}\n";
    project.write("w.yaml", workflow.as_bytes());
    assert_eq!(on_github(&project, &["run", "w.yaml"]).status.code(), Some(0));
    let summary = project.read("summary.md").unwrap();
    assert!(summary.starts_with("### nightly: completed\n\n"), "{summary}");
    assert!(
        summary.contains("| export | value |\n|---|---|\n| version | \"a\\|b\\*c\" (text) |\n"),
        "{summary}"
    );
}

/// A program that reads events gets nothing else.
#[test]
fn events_are_not_mixed_with_annotations() {
    let project = Project::new();
    project.write("w.yaml", b"steps:\n- shell: exit 3\n");
    let output = on_github(&project, &["run", "w.yaml", "--json"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.lines().all(|line| line.starts_with("{\"seq\":")), "{printed}");
}

#[test]
fn a_report_has_a_case_for_each_step_and_item() {
    let project = Project::new();
    let workflow = "name: nightly\nsetup:\n- {id: rarely, when: 1 > 2, value: 1}\nmap:\n  input: [1, 0]\n  steps:\n  - shell: \
                    |\n      echo '<look>' >&2\n      test ${item} != 0\nreduce:\n- {id: never, value: 1}\n";
    project.write("w.yaml", workflow.as_bytes());
    let outcome = project.run(&["run", "w.yaml", "--report", "junit=report.xml"], b"");
    assert_eq!(outcome.exit, 1, "{}", outcome.stderr);
    let report = project.read("report.xml").unwrap();
    junit_schema::check(&report);
    let times = regex::Regex::new(r#" time="[0-9.]+""#).unwrap();
    assert_eq!(
        times.replace_all(&report, ""),
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" errors="0">
  <testsuite name="nightly" tests="3" failures="1" errors="0" skipped="1">
    <testcase classname="nightly" name="rarely">
      <skipped>`when` is false</skipped>
    </testcase>
    <testcase classname="nightly" name="map[0]"/>
    <testcase classname="nightly" name="map[1]">
      <failure message="exit code 1: &lt;look&gt;">w.yaml:5:3
exit code 1: &lt;look&gt;</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
    );
}

/// A CI system must not take half a run for a whole one.
#[test]
fn a_run_that_stopped_is_an_error_of_its_report() {
    let project = Project::new();
    project.write(
        "w.yaml",
        b"initial: a\nmax_steps: 1\nstates:\n  a: {shell: 'true', next: b}\n  b: {terminal: true}\n",
    );
    assert_eq!(project.run(&["run", "w.yaml", "--report", "junit=report.xml"], b"").exit, 4);
    let report = project.read("report.xml").unwrap();
    assert!(
        report.contains("<error message=\"the run stopped before its end\">`threadline resume "),
        "{report}"
    );
}
