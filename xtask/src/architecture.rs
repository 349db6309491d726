//! What the compiler does not check: which crate may use which, that there is one scanner for references, that nothing
//! is left half done, that no folder is named after nothing in particular, that every licence is one we accept.
//!
//! Each rule is a function from text to the problems in it. This file finds the text; it judges nothing.

mod crates;
mod licence;
mod rules;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::project::{Project, output, works};
use source::Source;

/// Runs all checks and reports all problems at once.
pub(crate) fn check(project: &Project) -> Result<(), Failure> {
    let mut problems = untracked_locks(project);
    let members = tree(project, &["--depth", "1", "--no-dedupe"])?;
    problems.extend(crates::edges(&members));
    problems.extend(crates::licences(&tree(project, &[])?));
    for path in rust_files(&project.root)? {
        problems.extend(file_problems(&project.root, &path)?);
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("the architecture is broken:\n  {}", problems.join("\n  ")),
        "each rule and its reason is a function in xtask/src/architecture",
    ))
}

/// Lock files that git does not know. Without git there is nothing to ask.
fn untracked_locks(project: &Project) -> Vec<String> {
    if !works(&mut project.program("git", &["rev-parse", "--git-dir"])) {
        return Vec::new();
    }
    let outside = project.outside_packages().into_iter();
    let outside = outside.map(|folder| format!("{folder}/Cargo.lock"));
    let locks = std::iter::once("Cargo.lock".to_owned()).chain(outside);
    let untracked =
        locks.filter(|lock| !works(&mut project.program("git", &["ls-files", "--error-unmatch", lock])));
    untracked.map(|lock| format!("{lock} is not committed: `git add {lock}`")).collect()
}

/// All packages of the workspace with what they depend on, for every platform and feature.
fn tree(project: &Project, extra: &[&str]) -> Result<String, Failure> {
    let mut command = project.cargo(&["tree", "--workspace", "--all-features", "--locked"]);
    command.args(["--target", "all", "--prefix", "depth"]).args(["--format", crates::FORMAT]).args(extra);
    output(&mut command, "if the lock file is old, run `cargo update --workspace`")
}

fn file_problems(root: &Path, path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    let source = Source::new(&text);
    let mut problems = rules::empty_names(relative, &source);
    problems.extend(rules::unfinished(relative, &source));
    problems.extend(rules::scanners(relative, &source));
    Ok(problems)
}

/// Every Rust file of the tree, in order, without what is built.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let path = entry.map_err(|error| unreadable(&folder, &error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "see whether it is there and yours")
}
