//! Large values, much output, many items, and what is kept on disk.

use std::path::{Path, PathBuf};

use crate::harness::{run, workflow};

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| {
        let path = entry.path();
        if path.is_dir() { files(&path) } else { vec![path] }
    });
    below.collect()
}

fn bytes(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.len()).sum()
}

#[test]
fn a_value_of_a_megabyte_goes_everywhere() {
    let run = run(r#"
agents: {count: {command: [wc, -c]}}
steps:
  - {id: big, shell: "head -c 1048576 /dev/zero | tr '\\0' x"}
  - {id: shell, shell: "printf '%s' ${big} | wc -c", capture_format: number}
  - {id: quoted, shell: "x=\"${big}\"; echo ${#x}", capture_format: number}
  - {id: here, shell: "wc -c <<< ${big}", capture_format: number}
  - {id: file, shell: "wc -c < ${big | as_file}", capture_format: number}
  - {id: argv, argv: [wc, -c, "${big | as_file}"]}
  - {id: agent, agent: count, message: "${big}", capture_format: number}
  - {write_file: {path: out.txt, content: "${big}"}}
  - {id: size, shell: wc -c < out.txt, capture_format: number}
  - {id: value, value: "${= len(big.value) }"}
"#);
    for (id, expected) in [
        ("shell", "1048576"),
        ("quoted", "1048576"),
        ("here", "1048577"),
        ("file", "1048576"),
        ("size", "1048576"),
        ("value", "1048576"),
    ] {
        assert_eq!(run.value(id), expected, "{id}");
    }
    assert!(run.value("argv").starts_with("\"1048576 "), "{}", run.value("argv"));
    assert!(run.value("agent").contains("1048576"), "{}", run.value("agent"));
}

#[test]
fn an_argument_that_is_too_large_is_an_error_with_a_way_out() {
    for step in ["argv: [echo, \"${big}\"]", "shell: /bin/echo ${big}"] {
        let text = format!(
            "- {{id: big, shell: \"head -c 1048576 /dev/zero | tr '\\\\0' x\"}}\n- id: a\n  {step}\n"
        );
        let run = workflow(&text).run();
        assert!(!run.stderr.contains("Argument list too long"), "{step}: {}", run.stderr);
        assert!(!run.stdout.contains("Argument list too long"), "{step}: {}", run.error("a"));
        let plain = workflow(&text).command(&["run", "workflow.yaml"]).wait().exits(1);
        assert!(plain.stderr.contains("as_file"), "{step}: {}\n{}", plain.stderr, plain.stdout);
    }
}

#[test]
fn a_large_script_runs() {
    let text = format!("- {{id: a, shell: \"x={}; echo ${{#x}}\"}}\n", "y".repeat(300_000));
    assert_eq!(run(&text).value("a"), "\"300000\"");
}

#[test]
fn a_list_of_many_results_can_be_read_by_a_step() {
    let run = run(
        "allow: {commands: true}\nsteps:\n  - {id: all, foreach: \"${= cmd('seq 300') | lines }\", parallel: 4, do: [{value: \"${= item + '................................................................................................................................................................................................................................................................................................................' }\"}]}\n  - {id: a, shell: \"printf '%s' ${all | to_json} | wc -c\", capture_format: number}\n  - {id: b, shell: \"wc -l < ${all | join('\\n') | as_file}\", capture_format: number}\n",
    );
    assert!(run.value("a").parse::<u64>().is_ok_and(|size| size > 90_000), "{}", run.value("a"));
}

#[test]
fn what_steps_print_is_stored_once_and_the_journal_is_not_rewritten() {
    let workflow = workflow(&"- {shell: \"head -c 750000 /dev/urandom | base64 -w0\"}\n".repeat(30));
    workflow.run().well();
    let size = bytes(&workflow.project.path().join(".threadline"));
    assert!((22_000_000..45_000_000).contains(&size), "{size} bytes for 30 steps of a megabyte");
}

#[test]
fn the_same_output_is_stored_once() {
    let workflow = workflow(&"- {shell: \"head -c 1000000 /dev/zero | tr '\\\\0' x\"}\n".repeat(30));
    workflow.run().well();
    let size = bytes(&workflow.project.path().join(".threadline"));
    assert!(size < 5_000_000, "{size} bytes for one megabyte");
}

#[test]
fn the_environment_is_not_stored() {
    let canary = "canary-5f1c9e";
    let workflow = workflow("- {id: a, shell: \"test -n \\\"$CANARY\\\" && echo seen\"}\n- {shell: exit 1, continue_on_error: true}\n- {argv: [no-such-program], continue_on_error: true}\n- {shell: sleep 1000, timeout: 50ms}\n").env("CANARY", canary);
    let path = format!("{}:/{canary}", std::env::var("PATH").unwrap_or_default());
    let workflow = workflow.env("PATH", &path);
    let run = workflow.run().exits(1);
    assert_eq!(run.value("a"), "\"seen\"");
    let store = workflow.project.path().join(".threadline");
    assert!(!files(&store).is_empty());
    for file in files(&store) {
        let content = std::fs::read(&file).expect("a file of the store");
        let found = content.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!found, "the environment is in {}", file.display());
    }
}

#[test]
fn the_store_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    // Made by the run itself, not by the test.
    let workflow =
        workflow("- {shell: echo x}\n").file("sub/.git/keep", "").file("sub/w.yaml", "- shell: echo x\n");
    workflow.command(&["run", "--dir", "sub", "sub/w.yaml"]).wait().well();
    let store = workflow.project.path().join("sub/.threadline");
    let mode = |path: &Path| std::fs::metadata(path).expect("the store").permissions().mode() & 0o077;
    assert_eq!(mode(&store), 0);
    // What version control reads says nothing.
    for file in files(&store).iter().filter(|file| !file.ends_with(".gitignore")) {
        assert_eq!(mode(file), 0, "{}", file.display());
    }
}

#[test]
fn nothing_is_left_in_the_spool() {
    let workflow = workflow(
        "- {id: big, shell: \"head -c 1048576 /dev/zero | tr '\\\\0' x\"}\n- {shell: \"printf '%s' ${big} | wc -c; wc -c < ${big | as_file}\"}\n- {shell: \"printf '%s' ${big}; exit 1\", continue_on_error: true}\n",
    );
    workflow.run().well();
    assert_eq!(files(&workflow.project.path().join(".threadline/spool")), Vec::<PathBuf>::new());
}

#[test]
fn a_hundred_items_print_a_bounded_number_of_lines() {
    let workflow = workflow(
        "allow: {commands: true}\nsteps:\n  - {id: all, foreach: \"${= cmd('seq 100') | lines }\", parallel: 4, do: [{shell: \"true\"}, {shell: \"true\"}, {value: \"${item}\"}]}\n",
    );
    let run = workflow.command(&["run", "workflow.yaml"]).wait().well();
    let lines = run.stdout.lines().count() + run.stderr.lines().count();
    assert!(lines <= 50, "{lines} lines:\n{}", run.stdout);
}

#[test]
fn a_failure_among_many_items_is_shown() {
    let workflow = workflow(
        "allow: {commands: true}\nsteps:\n  - {id: all, foreach: \"${= cmd('seq 100') | lines }\", do: [{shell: \"test ${item} != 70 || { echo the reason >&2; exit 4; }\"}]}\n",
    );
    let run = workflow.command(&["run", "workflow.yaml"]).wait().exits(1);
    assert!(run.stdout.contains("exit code 4") && run.stdout.contains("the reason"), "{}", run.stdout);
    assert!(run.stdout.contains("[69]"), "{}", run.stdout);
}
