//! Files with one type error each, and right files that look suspicious: all of them are told apart before a run.
//!
//! The second line of a file says which error or warning `check` finds, or `none`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_type_error_is_found_before_the_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/types");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of the files")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let (mut wrong, mut found, mut right) = (Vec::new(), 0, 0);
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a file");
        let code = text.lines().nth(1).and_then(|line| line.strip_prefix("# finds: "));
        let code = code.unwrap_or_else(|| panic!("{} does not say what is found", path.display()));
        let output = Command::new(env!("CARGO_BIN_EXE_threadline"))
            .args(["check"])
            .arg(path)
            .current_dir(&folder)
            .env("NO_COLOR", "1")
            .output()
            .expect("the binary runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = told + &String::from_utf8_lossy(&output.stdout);
        let as_said = match code {
            "none" => output.status.success() && !told.contains("error[") && !told.contains("warning["),
            code => told.contains(&format!("error[{code}]")) || told.contains(&format!("warning[{code}]")),
        };
        match (as_said, code) {
            (true, "none") => right += 1,
            (true, _) => found += 1,
            (false, _) => wrong.push(format!("{}: {code}\n{told}", path.display())),
        }
    }
    println!(
        "type errors found before the run: {found}; right files left alone: {right}; of {}",
        files.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {} are not as they say:\n{}",
        wrong.len(),
        files.len(),
        wrong.join("\n")
    );
    assert!(found >= 120, "only {found} files with an error");
}
