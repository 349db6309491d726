//! What the compiler does not check: which crate may use which, that there is one scanner for references and
//! one reader of addresses, that nothing is left half done, that no folder is named after nothing in
//! particular, that every system can have the files.
//!
//! Each rule is a function from text to the problems in it. This file finds the text; it judges nothing.

mod crates;
mod file_names;
mod rules;
mod wording;

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::measure::RustFile;
use crate::measure::names::TypeNames;
use crate::project::{Project, files, output, works};
use crate::source::SourceText;

/// Runs all checks and reports all problems at once.
pub(crate) fn check(project: &Project) -> Result<(), Failure> {
    let mut problems = untracked_locks(project);
    problems.extend(crates::edges(&tree(project)?));
    let files = files(&project.root)?;
    let relative: Vec<PathBuf> = files.iter().map(|path| relative(&project.root, path).to_owned()).collect();
    problems.extend(file_names::unportable(&relative));
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        problems.extend(file_problems(&project.root, path)?);
    }
    let sources = sources(project, &files)?;
    let mut names = TypeNames::default();
    for file in &sources {
        names.add(file);
    }
    problems.extend(wording::repeated_names(&names));
    problems.extend(wording::empty_docs(&sources));
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
fn tree(project: &Project) -> Result<String, Failure> {
    let mut command = project.cargo(&["tree", "--workspace", "--all-features", "--locked"]);
    command.args(["--target", "all", "--prefix", "depth"]).args(["--format", crates::FORMAT]);
    command.args(["--depth", "1", "--no-dedupe"]);
    output(&mut command, "if the lock file is old, run `cargo update --workspace`")
}

fn file_problems(root: &Path, path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    let relative = relative(root, path);
    let source = SourceText::new(&text);
    let mut problems = rules::empty_names(relative, &source);
    problems.extend(rules::unfinished(relative, &source));
    problems.extend(rules::scanners(relative, &source));
    problems.extend(rules::dissected_addresses(relative, &source));
    Ok(problems)
}

/// The Rust files of the crates.
fn sources(project: &Project, files: &[PathBuf]) -> Result<Vec<RustFile>, Failure> {
    let crates = project.root.join("crates");
    let rust = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.filter(|path| path.starts_with(&crates)).map(|path| RustFile::read(&project.root, path)).collect()
}

fn relative<'a>(root: &Path, path: &'a Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}
