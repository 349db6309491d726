//! `threadline migrate`: rewrites files of older systems in the current spelling. The changes are shown first.
//!
//! A file is changed only where its spelling is old, so comments and layout stay.

use std::fmt::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use threadline_flow::files;
use threadline_flow::problem::Problem;
use threadline_lang::source::{SourceFile, TreeNode};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Envelope, Limits, Value};
use threadline_runner::project::plain;

use super::print_styled;
use crate::arguments::MigrateArguments;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{plan_file, problem_reports};
use crate::report::{Report, visible};

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// A replacement of a part of a file.
struct FileChange {
    start: usize,
    end: usize,
    text: String,
}

pub(crate) fn migrate(call: &MigrateArguments) -> Result<(), CommandFailure> {
    for path in &call.files {
        let file = inputs::read_source(path)?;
        let tree = file.read_tree(&Limits::DEFAULT).map_err(|error| inputs::unreadable(&file, &error))?;
        let is_workflow = tree.value.as_list().is_some()
            || ["steps", "commands", "nodes"].iter().any(|key| tree.get(key).is_some());
        let mut changes = if is_workflow { spellings(&file)? } else { outputs(&file, &tree)? };
        changes.sort_by_key(|change| change.start);
        changes.dedup_by_key(|change| change.start);
        if changes.is_empty() {
            print_styled(&format!("{}: nothing to change\n", file.name()))?;
            continue;
        }
        let text = changed(file.text(), &changes);
        let new = SourceFile::with_format(file.name(), &text, file.format());
        if !is_done(&tree, &new, is_workflow) {
            let message =
                format!("{} cannot be changed where it is old: a comment may be in the way", file.name());
            return Err(CommandFailure::NotStarted(vec![Report::plain(message)]));
        }
        print_styled(&difference(&file, &changes, &text))?;
        if call.write {
            write(path, &text)?;
        }
        let count = changes.len();
        let places = if count == 1 { "place" } else { "places" };
        let done = if call.write { "changed" } else { "to change; `--write` writes it" };
        print_styled(&format!("{}: {count} {places} {done}\n", file.name()))?;
    }
    Ok(())
}

/// Checks that a changed file means the same as before, and that no old spelling is left.
fn is_done(old: &TreeNode, new: &SourceFile, is_workflow: bool) -> bool {
    let Ok(tree) = new.read_tree(&Limits::DEFAULT) else { return false };
    if is_workflow {
        return spellings(new).is_ok_and(|left| left.is_empty());
    }
    let wanted =
        old.entries().map(|(_, entry)| envelope(&entry.node.value).unwrap_or(entry.node.value.clone()));
    old.entries().count() == tree.entries().count()
        && old.entries().zip(wanted).all(|((name, _), wanted)| tree.value.get(name) == Some(&wanted))
}

/// The old spellings of a workflow. It must have no other error, because only then the meaning of its names is known.
fn spellings(file: &SourceFile) -> Result<Vec<FileChange>, CommandFailure> {
    let own = file.own_text().len();
    let file = &files::assemble(file.clone(), &inputs::read_called);
    let (planned, mut problems) = plan_file(file);
    problems.retain(Problem::is_error);
    let planned = planned.ok_or_else(|| CommandFailure::NotStarted(problem_reports(file, &problems)))?;
    let change = |at: usize| FileChange { start: at, end: at, text: "meta.".to_owned() };
    // Old spellings in an imported file are changed in that file.
    let places = planned.old_spellings.iter().map(|span| span.range().start).filter(|at| *at < own);
    Ok(places.map(change).collect())
}

/// Outputs of nodes by their id, in the shapes of older systems: each becomes an envelope.
fn outputs(file: &SourceFile, tree: &TreeNode) -> Result<Vec<FileChange>, CommandFailure> {
    if tree.value.as_object().is_none() {
        let message = format!("{} is neither a workflow nor outputs by the id of their node", file.name());
        return Err(CommandFailure::NotStarted(vec![Report::plain(message)]));
    }
    let old = tree.entries().filter_map(|(_, entry)| Some((&entry.node, envelope(&entry.node.value)?)));
    let changes = old.map(|(node, new)| {
        let (range, text) = (node.span.range(), new.to_json(JsonStyle::Compact));
        // A block of YAML begins on the line below its key; its replacement stands behind the key.
        let before = file.text()[..range.start].trim_end();
        let below = file.text()[before.len()..range.start].contains('\n');
        let (start, text) = if below { (before.len(), format!(" {text}")) } else { (range.start, text) };
        FileChange { start, end: range.end, text }
    });
    Ok(changes.collect())
}

/// An output of an older shape as an envelope. A plain value stays one, and so does a value that is too deep to be
/// wrapped.
fn envelope(output: &Value) -> Option<Value> {
    let read = Envelope::from_outside(output).ok()?;
    let known = read.meta.as_object().is_some_and(|meta| !meta.is_empty());
    let new = Value::object([("value".into(), read.value), ("meta".into(), read.meta)]).ok()?;
    (read.legacy.is_some() && known).then_some(new)
}

fn changed(text: &str, changes: &[FileChange]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for change in changes {
        out.push_str(&text[from..change.start]);
        out.push_str(&change.text);
        from = change.end;
    }
    out.push_str(&text[from..]);
    out
}

/// The lines that change, before and after.
fn difference(file: &SourceFile, changes: &[FileChange], text: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (file.text().lines().collect(), text.lines().collect());
    let mut out = format!("--- {0}\n+++ {0}\n", file.name());
    let (mut at, mut behind) = (0, 0_isize);
    while at < changes.len() {
        let first = file.line_column(changes[at].start).0;
        let mut last = file.line_column(changes[at].end).0;
        let mut grown = growth(file, &changes[at]);
        at += 1;
        while at < changes.len() && file.line_column(changes[at].start).0 <= last {
            last = last.max(file.line_column(changes[at].end).0);
            grown += growth(file, &changes[at]);
            at += 1;
        }
        let start = (first - 1).saturating_add_signed(behind);
        let count = (last - first + 1).saturating_add_signed(grown);
        // Writing into a text cannot fail.
        let _ = writeln!(out, "@@ line {first} @@");
        for line in old.iter().skip(first - 1).take(last - first + 1) {
            let _ = writeln!(out, "{OLD}-{}{OLD:#}", visible(line));
        }
        for line in new.iter().skip(start).take(count) {
            let _ = writeln!(out, "{NEW}+{}{NEW:#}", visible(line));
        }
        behind += grown;
    }
    out
}

/// The number of lines that a change adds.
fn growth(file: &SourceFile, change: &FileChange) -> isize {
    let lines = |text: &str| isize::try_from(text.matches('\n').count()).unwrap_or(isize::MAX);
    lines(&change.text) - lines(&file.text()[change.start..change.end])
}

fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    std::fs::write(path, text).map_err(|error| {
        let message = format!("cannot write `{}`: {}", path.display(), plain(&error));
        CommandFailure::NotStarted(vec![Report::plain(message)])
    })
}
