//! Runs of one project beside each other, through the real binary: none touches the files that another writes or uses,
//! and what a killed one leaves is removed by the next.

use std::path::Path;

use crate::harness::{Running, Workflow, workflow};

/// So much is in the spool and not only in memory or a pipe, wherever the reader is.
const LARGE: usize = 200_000;

/// A step that prints much, says so by a file `inside-NAME`, and prints more when there is a file `go`.
fn printer(name: &str) -> String {
    format!(
        "- id: report\n  shell: |\n    head -c {LARGE} /dev/zero | tr '\\0' x\n    touch inside-{name}\n    \
         until test -e go; do sleep 0.01; done\n    head -c {LARGE} /dev/zero | tr '\\0' y\n\
         - id: size\n  value: ${{= len(report) }}\n"
    )
}

/// Everything in the spool but the locks of processes.
fn spooled(workflow: &Workflow) -> usize {
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).expect("the spool");
        let paths = entries.map(|entry| entry.expect("the spool").path());
        paths
            .map(|path| if path.is_dir() { 1 + count(&path) } else { usize::from(!path.ends_with("lock")) })
            .sum()
    }
    count(&workflow.project.path().join(".threadline/spool"))
}

/// Opens the store to write, by all commands that do.
fn use_the_store(workflow: &Workflow, failed: &str) {
    workflow.command(&["run", "small.yaml"]).wait().well();
    workflow.command(&["resume", failed]).wait().exits(1);
    for command in [&["show", failed][..], &["runs"], &["explain", failed]] {
        workflow.command(command).wait().well();
    }
}

/// A project with a small workflow, and the id of a run in it that failed.
fn busy_project() -> (Workflow, String) {
    let workflow = workflow("- {shell: exit 1}\n").file("small.yaml", "- {value: 1}\n");
    let failed = workflow.run().exits(1);
    let run = failed.of_kind("run_started")[0].get("data").and_then(|data| data.get("run")?.as_str());
    (workflow, run.expect("the id of the run").to_owned())
}

#[test]
fn eight_runs_with_large_outputs_do_not_disturb_each_other() {
    let (workflow, failed) = busy_project();
    let mut running: Vec<Running> = Vec::new();
    for number in 0..8 {
        let name = format!("large-{number}");
        workflow.project.write(&format!("{name}.yaml"), printer(&name).as_bytes());
        running.push(workflow.command(&["run", "--json", &format!("{name}.yaml")]));
        workflow.until_there(&format!("inside-{name}"));
    }
    use_the_store(&workflow, &failed);
    workflow.project.write("go", b"");
    for run in running {
        assert_eq!(run.wait().well().value("size"), (2 * LARGE).to_string());
    }
    assert_eq!(spooled(&workflow), 0);
}

#[test]
fn a_value_that_a_program_reads_as_a_file_stays_while_it_does() {
    let (workflow, failed) = busy_project();
    let text = "context: {text: \"hello\\nhello\\n\"}\ninitial: count\nstates:\n  count:\n    action: |\n      \
                touch inside; until test -e go; do sleep 0.01; done; grep -c hello ${context.text | as_file}\n    \
                capture: n\n    next: done\n  done: {terminal: true, value: \"${n} lines\"}\n";
    workflow.project.write("loop.yaml", text.as_bytes());
    let counting = workflow.command(&["run", "--json", "loop.yaml"]);
    workflow.until_there("inside");
    use_the_store(&workflow, &failed);
    workflow.project.write("go", b"");
    assert_eq!(counting.wait().well().value("done"), "\"2 lines\"");
}

#[test]
fn what_a_killed_process_spooled_is_removed_by_the_next_that_opens_the_store() {
    let (workflow, failed) = busy_project();
    workflow.project.write("large.yaml", printer("large").as_bytes());
    let killed = workflow.command(&["run", "--json", "large.yaml"]);
    workflow.until_there("inside-large");
    killed.kill();
    // A folder, the output in it, and the values that the process needs.
    assert_eq!(spooled(&workflow), 3);
    workflow.command(&["show", &failed]).wait().well();
    assert_eq!(spooled(&workflow), 3);
    workflow.project.write("go", b"");
    workflow.command(&["run", "small.yaml"]).wait().well();
    assert_eq!(spooled(&workflow), 0);
}
