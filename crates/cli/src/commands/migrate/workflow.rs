//! Workflows of every shape: the fixes of the problems that `check` finds, as far as they are mechanical.

use std::fmt::Write as _;

use threadline_flow::checks::Check;
use threadline_flow::problem::Problem;
use threadline_flow::{files, load};
use threadline_lang::Value;
use threadline_lang::diag::Fix;
use threadline_lang::source::SourceFile;

use super::Migrated;
use crate::inputs;
use crate::prepare::plan_file;

/// What a change of the text keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// The loader reads exactly the same.
    Everything,
    /// The text is another, but reads and means the same.
    Meaning,
    /// The same, and a value that would have been run as code is none any more.
    Safety,
}

/// What stands in a change by which a program gets a value that is no code: from its environment, or checked first.
const MOVED: [&str; 3] = [".environ[", "process.env.", "*[!0-9-]*"];

/// So often a file is read again: what is changed may uncover more.
const ROUNDS: usize = 30;

/// The workflow in the current spelling, and what is left.
pub(super) fn migrated(file: &SourceFile) -> Migrated {
    let mut text = file.own_text().to_owned();
    let mut places = 0;
    let mut refused: Vec<(String, Fix)> = Vec::new();
    for _ in 0..ROUNDS {
        let problems = problems_of(file, &text);
        let mut fixes: Vec<(Keeps, Fix)> = Vec::new();
        // The wide ones first: what they declare follows from what else is old in the file.
        let mut found: Vec<_> =
            problems.iter().filter_map(|problem| Some((problem, mechanical(problem)?))).collect();
        found.sort_by_key(|(_, (_, fix))| std::cmp::Reverse(fix.span.end - fix.span.start));
        // What says nothing goes last: until then it tells that the file is an older one.
        let says_nothing = |problem: &Problem| problem.id == Check::IgnoredKey.id();
        let is_open = |(problem, (_, fix)): &(&Problem, (Keeps, &Fix))| {
            !says_nothing(problem) && !refused.iter().any(|(id, known)| id == problem.id && *known == **fix)
        };
        if found.iter().any(is_open) {
            found.retain(|(problem, _)| !says_nothing(problem));
        }
        for (problem, (keeps, fix)) in found {
            let is_known = refused.iter().any(|(id, known)| id == problem.id && *known == *fix);
            if !is_known && !fixes.iter().any(|(_, other)| overlap(other, fix)) {
                fixes.push((keeps, fix.clone()));
            }
        }
        if fixes.is_empty() {
            break;
        }
        if let Some(new) = applied(file, &text, &fixes) {
            places += fixes.len();
            text = new;
            continue;
        }
        // One of them does not do what it should: each alone.
        let (kept, one) = first_sound(file, &text, &fixes);
        refused.extend(problems.iter().filter_map(|problem| {
            let (_, fix) = mechanical(problem)?;
            let is_tried = fixes[..kept].iter().any(|(_, tried)| tried == fix);
            is_tried.then(|| (problem.id.to_owned(), fix.clone()))
        }));
        if let Some(new) = one {
            places += 1;
            text = new;
        }
    }
    let mut left = problems_of(file, &text);
    let before = problems_of(file, file.own_text());
    if left.iter().any(Problem::is_error) && !before.iter().any(Problem::is_error) {
        // What was sound stays so, whatever else could be written otherwise.
        (text, places, left) = (file.own_text().to_owned(), 0, before);
    }
    let is_old = |problem: &Problem| {
        problem.is_error()
            || [Check::OldSpelling.id(), Check::IgnoredKey.id(), Check::OldKey.id()].contains(&problem.id)
    };
    Migrated { places, left: left.into_iter().filter(is_old).collect(), text }
}

/// The first of several changes that is sound, with the number of those before it, which are not.
fn first_sound(file: &SourceFile, text: &str, fixes: &[(Keeps, Fix)]) -> (usize, Option<String>) {
    for (at, fix) in fixes.iter().enumerate() {
        if let Some(new) = applied(file, text, std::slice::from_ref(fix)) {
            return (at, Some(new));
        }
    }
    (fixes.len(), None)
}

/// How many values are run as code.
fn evaluated(problems: &[Problem]) -> usize {
    problems.iter().filter(|problem| problem.id == Check::ShellEvaluates.id()).count()
}

/// The problems of a text in the place of the file, without those of other files.
fn problems_of(file: &SourceFile, text: &str) -> Vec<Problem> {
    let own = text.len();
    let whole = with_states(file, text);
    let is_part = whole.is_some();
    let file = SourceFile::with_format(file.name(), whole.as_deref().unwrap_or(text), file.format());
    let (_, mut problems) = plan_file(&files::assemble(file, &inputs::read_called));
    problems.retain(|problem| problem.file.is_none() && problem.span.range().start <= own);
    if is_part {
        // What a state lacks is in the files that use the fragment.
        let is_known = |problem: &Problem| OF_PARTS.iter().any(|check| check.id() == problem.id);
        problems.retain(|problem| is_known(problem) || problem.id == "deprecated-spelling");
        for problem in &mut problems {
            problem.fix = problem.fix.take().filter(|fix| fix.span.range().end <= own);
        }
    }
    problems
}

/// What can be said of fragments by themselves.
const OF_PARTS: [Check; 5] =
    [Check::OldSpelling, Check::IgnoredKey, Check::OldKey, Check::ShellEvaluates, Check::UnknownKey];

/// A file that only has fragments, with a state for each of them behind its own text, so that everything in them is read.
fn with_states(file: &SourceFile, text: &str) -> Option<String> {
    let own = SourceFile::with_format(file.name(), text, file.format());
    let tree = own.read_tree(&threadline_lang::Limits::DEFAULT).ok()?;
    let is_block = tree.entry("fragments").is_some_and(|entry| {
        let start = entry.key_span.range().start;
        start == 0 || text[..start].ends_with('\n')
    });
    let others = ["states", "from", "steps", "nodes", "map", "initial", "flow"];
    if !is_block || others.iter().any(|key| tree.get(key).is_some()) {
        return None;
    }
    let names: Vec<String> = tree.get("fragments")?.entries().map(|(name, _)| name.to_owned()).collect();
    let mut whole = format!("{text}\ninitial: state-1\nstates:\n  end: {{terminal: true}}\n");
    for (at, name) in names.iter().enumerate() {
        let name = Value::from(name.as_str()).to_json(threadline_lang::value::JsonStyle::Compact);
        let number = at + 1;
        // Writing into a text cannot fail.
        let _ = writeln!(whole, "  state-{number}: {{fragment: {name}, next: end}}");
    }
    Some(whole)
}

/// The change that puts a problem right, where that is no guess.
fn mechanical(problem: &Problem) -> Option<(Keeps, &Fix)> {
    let fix = problem.fix.as_ref()?;
    let keeps = match problem.id {
        id if id == Check::OldSpelling.id() || id == Check::IgnoredKey.id() => Keeps::Everything,
        id if id == Check::OldKey.id() => Keeps::Meaning,
        id if id == Check::PassesAll.id() => Keeps::Meaning,
        "deprecated-field" | "deprecated-spelling" => Keeps::Meaning,
        id if id == Check::ShellEvaluates.id() && MOVED.iter().any(|moved| fix.text.contains(moved)) => {
            Keeps::Safety
        }
        // A bare name in what selects items is a field of them.
        "unknown-root" if fix.text.starts_with("item.") => Keeps::Meaning,
        _ => return None,
    };
    Some((keeps, fix))
}

fn overlap(one: &Fix, other: &Fix) -> bool {
    let (one, other) = (one.span.range(), other.span.range());
    one == other || one.start < other.end && other.start < one.end
}

/// The text with these changes, if they keep what they should.
fn applied(file: &SourceFile, text: &str, fixes: &[(Keeps, Fix)]) -> Option<String> {
    let new = changed(text, fixes)?;
    let read = |text: &str| {
        let whole = with_states(file, text);
        let text = whole.as_deref().unwrap_or(text);
        let file = SourceFile::with_format(file.name(), text, file.format());
        let file = files::assemble(file, &inputs::read_called);
        Some(load::expanded(&file).0?.value)
    };
    let is_read = SourceFile::with_format(file.name(), &new, file.format())
        .read_tree(&threadline_lang::Limits::DEFAULT)
        .is_ok();
    if fixes.iter().any(|(keeps, _)| *keeps != Keeps::Everything) {
        let (before, after) = (problems_of(file, text), problems_of(file, &new));
        let errors = |problems: &[Problem]| problems.iter().filter(|problem| problem.is_error()).count();
        let is_safer =
            fixes.iter().all(|(keeps, _)| *keeps != Keeps::Safety) || evaluated(&after) < evaluated(&before);
        if !is_safer || errors(&after) > errors(&before) {
            return None;
        }
    }
    let is_same = fixes.iter().any(|(keeps, _)| *keeps != Keeps::Everything)
        || match (read(text), read(&new)) {
            (Some(old), Some(new)) => same(&old, &new),
            (old, new) => old.is_none() && new.is_none(),
        };
    (is_read && is_same).then_some(new)
}

/// Whether values are the same, in whatever order keys stand.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_object(), other.as_object(), one.as_list(), other.as_list()) {
        (Some(one), Some(other), ..) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        (_, _, Some(one), Some(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

fn changed(text: &str, fixes: &[(Keeps, Fix)]) -> Option<String> {
    let mut fixes: Vec<&Fix> = fixes.iter().map(|(_, fix)| fix).collect();
    fixes.sort_by_key(|fix| (fix.span.start, fix.span.end));
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for fix in fixes {
        let range = fix.span.range();
        out.push_str(text.get(from..range.start)?);
        out.push_str(&fix.text);
        from = range.end;
    }
    out.push_str(text.get(from..)?);
    Some(out)
}
