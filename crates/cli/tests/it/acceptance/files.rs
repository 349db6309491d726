//! Files stay in the project: whatever a path is made of, and wherever links lead.

use crate::harness::{Workflow, workflow};

/// Reads or writes this path and gives the error.
fn refused(prepare: impl Fn(Workflow) -> Workflow, path: &str) -> [String; 2] {
    let read = format!("- {{id: a, value: \"${{file:{path}}}\"}}");
    let write = format!("- {{id: a, write_file: {{path: \"{path}\", content: pwned, create_dirs: true}}}}");
    [read, write].map(|text| {
        let workflow = prepare(workflow(&text));
        workflow.project.write("../outside.txt", b"secret");
        workflow.project.write("../elsewhere/deep.txt", b"secret");
        let run = workflow.run().exits(1);
        assert!(!run.stdout.contains("secret"), "{}", run.stdout);
        for (name, content) in [("../outside.txt", "secret"), ("../elsewhere/deep.txt", "secret")] {
            assert_eq!(workflow.read(name), content);
        }
        assert!(!workflow.has("../elsewhere/new.txt") && !workflow.has("../new.txt"));
        run.error("a")
    })
}

fn assert_outside(errors: &[String; 2]) {
    for error in errors {
        assert!(error.contains("is outside the project"), "{error}");
    }
}

#[test]
fn a_path_with_dots_does_not_leave_the_project() {
    assert_outside(&refused(|workflow| workflow, "../outside.txt"));
    assert_outside(&refused(|workflow| workflow, "a/b/../../../outside.txt"));
    assert_outside(&refused(|workflow| workflow, "./.././outside.txt"));
}

#[test]
fn an_absolute_path_does_not_leave_the_project() {
    assert_outside(&refused(|workflow| workflow, "/etc/hostname"));
}

#[test]
fn a_linked_file_does_not_lead_out_of_the_project() {
    assert_outside(&refused(|workflow| workflow.link("link.txt", "../outside.txt"), "link.txt"));
}

#[test]
fn a_linked_folder_does_not_lead_out_of_the_project() {
    assert_outside(&refused(|workflow| workflow.link("out", "../elsewhere"), "out/deep.txt"));
    let [_, write] = refused(|workflow| workflow.link("out", "../elsewhere"), "out/new.txt");
    assert!(write.contains("is outside the project"), "{write}");
}

#[test]
fn a_dangling_link_is_not_written_through() {
    let workflow =
        workflow("- {id: a, write_file: {path: link.txt, content: pwned}}").link("link.txt", "../new.txt");
    let run = workflow.run();
    assert!(!workflow.has("../new.txt"), "{}", run.stdout);
}

#[test]
fn a_link_inside_the_project_is_followed() {
    let workflow = workflow(
        "- {id: a, value: \"${file:link.txt}\"}\n- {write_file: {path: link.txt, content: new}}\n- {id: b, value: \"${file:real.txt}\"}\n",
    )
    .file("real.txt", "old")
    .link("link.txt", "real.txt");
    let run = workflow.run().well();
    assert_eq!((run.value("a"), run.value("b")), ("\"old\"".into(), "\"new\"".into()));
    assert!(workflow.project.path().join("link.txt").is_symlink());
}

#[test]
fn the_store_is_not_the_workflows() {
    for path in [".threadline/anything", "sub/../.threadline/anything"] {
        for error in refused(|workflow| workflow.file("sub/keep", ""), path) {
            assert!(error.contains("is in the store"), "{path}: {error}");
        }
    }
    let [read, write] = refused(|workflow| workflow.link("link", ".threadline"), "link/anything");
    assert!(read.contains("no such file"), "{read}");
    assert!(write.contains("is in the store"), "{write}");
}

#[test]
fn a_path_that_a_value_makes_is_judged_too() {
    let workflow = workflow(
        "inputs: {name: {}}\nsteps:\n  - {id: a, write_file: {path: \"out/${inputs.name}\", content: x, create_dirs: true}}\n",
    );
    let run = workflow.run_with(&["--input", "name=../../new.txt"]).exits(1);
    assert!(run.error("a").contains("is outside the project"), "{}", run.error("a"));
    assert!(!workflow.has("../new.txt"));
}

#[test]
fn allowed_folders_can_be_used() {
    let workflow = workflow(
        "allow: {files: [../elsewhere]}\nsteps:\n  - {id: a, value: \"${file:../elsewhere/deep.txt}\"}\n  - write_file: {path: ../elsewhere/new.txt, content: made}\n  - {id: b, value: \"${file:../outside.txt}\"}\n",
    );
    workflow.project.write("../elsewhere/deep.txt", b"deep");
    workflow.project.write("../outside.txt", b"secret");
    let run = workflow.run().exits(1);
    assert_eq!(run.value("a"), "\"deep\"");
    assert_eq!(workflow.read("../elsewhere/new.txt"), "made");
    assert!(run.error("b").contains("is outside the project"));
}

#[test]
fn a_file_is_written_as_its_format_and_mode_say() {
    use std::os::unix::fs::PermissionsExt as _;
    let workflow = workflow(
        r#"
context: {data: {n: 7, text: "a: b", list: [1.50, null]}}
steps:
  - {id: json, write_file: {path: a/b/out.json, content: "${context.data}", format: json, create_dirs: true, mode: "600"}}
  - {id: yaml, write_file: {path: out.yaml, content: "${context.data}", format: yaml}}
  - {id: text, write_file: {path: out.txt, content: "${context.data.n} and ${context.data.list}"}}
  - {id: back, value: "${= from_yaml(file('out.yaml')) == from_json(file('a/b/out.json')) }"}
"#,
    );
    let run = workflow.run().well();
    assert_eq!(run.value("back"), "true");
    assert_eq!(workflow.read("out.txt"), "7 and [1.50,null]");
    assert_eq!(run.value("text"), r#"{"path":"out.txt","bytes":17}"#);
    assert!(workflow.read("a/b/out.json").contains("1.50"));
    let mode = std::fs::metadata(workflow.project.path().join("a/b/out.json"))
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_missing_folder_is_an_error_that_says_what_to_write() {
    let run = workflow("- {id: a, write_file: {path: no/such/x.txt, content: x}}").run().exits(1);
    assert!(run.error("a").starts_with("File: `no/such/x.txt`"), "{}", run.error("a"));
    assert!(run.error("a").contains("create_dirs: true"), "{}", run.error("a"));
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let workflow =
        workflow("- {id: a, write_file: {path: folder, content: x}}\n").file("folder/keep", "kept");
    let run = workflow.run().exits(1);
    assert!(run.error("a").contains("is a folder"), "{}", run.error("a"));
    assert_eq!(workflow.read("folder/keep"), "kept");
}

#[test]
fn a_file_that_is_not_text_or_not_a_file_is_refused() {
    for (path, expected) in
        [("binary", "not valid UTF-8"), ("folder", "not a regular file"), ("no-such", "no such file")]
    {
        let workflow = workflow(&format!("- {{id: a, value: \"${{file:{path}}}\"}}")).file("folder/x", "");
        workflow.project.write("binary", b"a\xff");
        let run = workflow.run().exits(1);
        assert!(run.error("a").contains(expected), "{}", run.error("a"));
    }
}

#[test]
fn a_pipe_is_not_read_as_a_file() {
    let workflow = workflow("- {id: a, value: \"${file:pipe}\"}").pipes(&["pipe"]);
    let run = workflow.run().exits(1);
    assert!(run.error("a").contains("not a regular file"), "{}", run.error("a"));
}
