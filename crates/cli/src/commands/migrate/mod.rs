//! `threadline migrate`: rewrites files of older systems in the current spelling. The changes are shown first.
//!
//! What is changed is what `check` has a mechanical answer for; the loader reads both spellings in the same way, and that
//! is verified before anything is shown. A file is changed only where its spelling is old, so comments and layout stay.

mod difference;
mod outputs;
mod workflow;

use std::fmt::Write as _;
use std::path::Path;

use threadline_flow::fields::WORKFLOW;
use threadline_flow::problem::Problem;
use threadline_lang::Limits;
use threadline_lang::diag::words;
use threadline_lang::source::{SourceFile, TreeNode};
use threadline_runner::project::plain;

use super::print_styled;
use crate::arguments::MigrateArguments;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::report::Report;
use difference::difference;

/// A file in the current spelling.
struct Migrated {
    text: String,
    /// How many places were changed.
    places: usize,
    /// What somebody has to decide, in the places of the new text.
    left: Vec<Problem>,
}

pub(crate) fn migrate(call: &MigrateArguments) -> Result<(), CommandFailure> {
    let mut has_errors = false;
    for path in &call.files {
        let file = inputs::read_source(path)?;
        let tree = file.read_tree(&Limits::DEFAULT).map_err(|error| inputs::unreadable(&file, &error))?;
        let migrated =
            if is_workflow(&tree) { workflow::migrated(&file) } else { outputs::migrated(&file, &tree)? };
        if migrated.text == file.text() {
            print_styled(&format!("{}: nothing to change\n", file.name()))?;
        } else {
            print_styled(&difference(file.name(), file.text(), &migrated.text))?;
            if call.write {
                write(path, &migrated.text)?;
            }
            let count = migrated.places;
            let places = words::plural(&count, "place");
            let done = if call.write { "changed" } else { "to change; `--write` writes it" };
            print_styled(&format!("{}: {count} {places} {done}\n", file.name()))?;
        }
        has_errors |= migrated.left.iter().any(Problem::is_error);
        print_styled(&decisions(&file, &migrated))?;
    }
    if has_errors { Err(CommandFailure::Shown(1)) } else { Ok(()) }
}

/// Whether a file is a workflow, and not outputs by the id of their node: these are objects, and a node may be called
/// like a key of a workflow.
fn is_workflow(tree: &TreeNode) -> bool {
    let is_key =
        |(key, node): (&str, &TreeNode)| WORKFLOW.key(key).is_some() && !outputs::is_output(&node.value);
    tree.value.as_list().is_some() || tree.entries().map(|(key, entry)| (key, &entry.node)).any(is_key)
}

/// What is left for people: each problem in a line, with its hint.
fn decisions(file: &SourceFile, migrated: &Migrated) -> String {
    let count = migrated.left.len();
    if count == 0 {
        return String::new();
    }
    let new = SourceFile::with_format(file.name(), &migrated.text, file.format());
    let mut out = format!("{}: {count} {} left to decide\n", file.name(), words::plural(&count, "place"));
    for problem in &migrated.left {
        let (line, column) = new.line_column(problem.span.range().start);
        let severity = if problem.is_error() { "error" } else { "warning" };
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  {line}:{column} {severity}[{}]: {}", problem.id, problem.message);
        for hint in &problem.hints {
            let _ = writeln!(out, "      hint: {hint}");
        }
    }
    out
}

fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    std::fs::write(path, text).map_err(|error| {
        let message = format!("cannot write `{}`: {}", path.display(), plain(&error));
        CommandFailure::NotStarted(vec![Report::plain(message)])
    })
}
