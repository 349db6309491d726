//! The larger example of the README, run where it says, against the output it shows.

use std::path::Path;
use std::process::Command;

use regex::Regex;

/// The text with what differs from run to run replaced.
fn steady(text: &str) -> String {
    let id = Regex::new("run [a-z0-9]{8}").expect("a pattern");
    let time = Regex::new(r" +[0-9.]+m?s\b").expect("a pattern");
    time.replace_all(&id.replace_all(text, "run [ID]"), " [TIME]").into_owned()
}

#[test]
fn the_larger_example_prints_what_the_readme_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let arguments = "run workflow.yaml --input version=1.4.0";
    assert!(readme.contains(&format!("cd examples/release-notes\nthreadline {arguments}\n")));
    let workflow =
        std::fs::read_to_string(root.join("examples/release-notes/workflow.yaml")).expect("the example");
    let shown = workflow.split_once('\n').map_or("", |(_, shown)| shown);
    assert!(readme.contains(&format!("```yaml\n{shown}```")), "the README shows another workflow");
    let output = Command::new(env!("CARGO_BIN_EXE_threadline"))
        .args(arguments.split(' '))
        .current_dir(root.join("examples/release-notes"))
        .env("NO_COLOR", "1")
        .output()
        .expect("the binary runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let printed = steady(&String::from_utf8_lossy(&output.stdout));
    assert!(
        steady(&readme).contains(&format!("```text\n{printed}```")),
        "the README does not show:\n{printed}"
    );
}
