//! The first command of the README, run where it says, against the output it shows.

use std::path::Path;
use std::process::Command;

#[test]
fn the_first_command_prints_what_the_readme_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let arguments = "resolve --outputs examples/resolve/outputs.json examples/resolve/request.yaml";
    assert!(readme.contains(&format!("cargo run -q -p threadline -- {arguments}")));
    let output = Command::new(env!("CARGO_BIN_EXE_threadline"))
        .args(arguments.split(' '))
        .current_dir(&root)
        .env_remove("CHANNEL")
        .output()
        .expect("the binary runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(readme.contains(&format!("```json\n{printed}```")), "the README does not show:\n{printed}");
    let request = std::fs::read_to_string(root.join("examples/resolve/request.yaml")).expect("the example");
    let shown = request.split_once('\n').map_or("", |(_, shown)| shown);
    assert!(readme.contains(shown), "the README shows another request");
}
