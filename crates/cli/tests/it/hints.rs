//! Does what every hint says. A hint that is one replacement comes with it (`fix` in `check --json`): the test applies
//! each in the files of the cases, the pages and the examples, and checks again. For every other sort of hint a case
//! in `tests/hints` has a file, the hint, and the file after somebody followed it. Of several commands the last is
//! the one after the hint was followed, the one before it shows the hint, and others prepare.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use threadline_lang::data::json;
use threadline_lang::{Limits, Value};

use crate::spec::{Piece, file_name, pages, pieces};
use crate::support::{self, Project, case, command_line};

/// A file that a command checks, in a project of its own.
struct CheckedFile {
    place: String,
    project: Project,
    /// The command that checks it, without the file.
    command: &'static [&'static str],
    name: String,
    /// Whether the page has the file as it should be, which its own test checks.
    has_right: bool,
}

#[test]
fn every_fix_puts_its_problem_right() {
    let mut failures = Vec::new();
    let mut applied = 0;
    for file in checked_files() {
        let Some(text) = file.project.read(&file.name) else { continue };
        for problem in problems(&file) {
            let Some(fix) = problem.get("fix") else { continue };
            // Of a problem in another file that one is checked.
            if problem.get("file").is_some() {
                continue;
            }
            applied += 1;
            failures.extend(not_right(&file, &text, &problem, fix));
        }
    }
    assert!(applied > 200, "only {applied} fixes");
    support::report(&failures, applied);
}

#[test]
fn every_hint_that_is_followed_helps() {
    let cases = case::all(&folder("tests/hints"));
    let failures: Vec<String> = cases.iter().filter_map(|case| follow(case).err()).collect();
    support::report(&failures, cases.len());
}

#[test]
fn every_sort_of_hint_that_is_shown_is_followed() {
    let mut followed: BTreeSet<String> = BTreeSet::new();
    for case in case::all(&folder("tests/hints")) {
        followed.extend(case.file("hint").map(|hint| sort_of(&String::from_utf8_lossy(&hint))));
    }
    for file in checked_files() {
        for problem in problems(&file) {
            let hints = problem.get("hints").and_then(Value::as_list).unwrap_or_default();
            let known = match (file.has_right, problem.get("fix").is_some()) {
                (true, _) => hints.len(),
                (false, is_fixed) => usize::from(is_fixed),
            };
            followed.extend(hints.iter().take(known).filter_map(Value::as_str).map(sort_of));
        }
    }
    let shown = shown_hints();
    let left: Vec<&String> = shown.keys().filter(|sort| !followed.contains(*sort)).collect();
    let list: Vec<String> =
        left.iter().map(|sort| format!("  {sort}\n    as in {}\n", shown[*sort])).collect();
    println!("{} of {} sorts of hints are followed", shown.len() - left.len(), shown.len());
    assert!(left.is_empty(), "{} sorts of hints that nothing follows:\n{}", left.len(), list.concat());
}

/// Does what the hint of a case says, and demands that the command then goes well.
fn follow(case: &case::Case) -> Result<(), String> {
    let project = case.project();
    let text =
        |name: &str| case.file(name).map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned());
    let hint = text("hint").ok_or_else(|| format!("{}: no section `hint`", case.name()))?;
    let (first, then) = match &case.commands[..] {
        [command] => (command, command),
        [before @ .., first, then] => {
            for command in before {
                project.run_line_steady(command);
            }
            (first, then)
        }
        [] => return Err(format!("{}: a command, or one and how it is to be written", case.name())),
    };
    let before = project.run_line_steady(first);
    let said = before.stderr.lines().any(|line| line.strip_prefix("hint: ") == Some(&hint));
    if !said {
        return Err(format!("{}: no hint `{hint}` in\n{}", case.name(), before.stderr));
    }
    match (case.files().next(), case.file("fixed")) {
        (Some(name), Some(fixed)) => project.write(name, &fixed),
        _ if first != then => {}
        _ => return Err(format!("{}: no section `fixed`", case.name())),
    }
    let after = project.run_line_steady(then);
    if after.exit == 0 && !after.stderr.contains(&hint) {
        return Ok(());
    }
    Err(format!("{}: after `{hint}`:\n{}{}", case.name(), after.stdout, after.stderr))
}

/// Why a fix does not help.
fn not_right(file: &CheckedFile, text: &str, problem: &Value, fix: &Value) -> Option<String> {
    let fixed = apply(text, fix);
    file.project.write(&file.name, fixed.as_bytes());
    let left = problems(file);
    file.project.write(&file.name, text.as_bytes());
    let start = place(fix, "line", "column");
    let put_in = text_at(fix, "text");
    let end = (start.0, start.1 + put_in.chars().count());
    let same = |other: &&Value| {
        other.get("id") == problem.get("id")
            && (place(other, "line", "column") == place(problem, "line", "column")
                || text_at(other, "message") == text_at(problem, "message")
                    && place(other, "line", "column").0 == start.0)
    };
    let is_new = |other: &&Value| {
        let at = place(other, "line", "column");
        let end_of_other = place(other, "end_line", "end_column");
        // What cannot be read at all hides whatever else is wrong.
        let was_hidden = text_at(problem, "id") == "unreadable" && text_at(other, "id") != "unreadable";
        text_at(other, "severity") == "error"
            && !was_hidden
            && at <= end
            && start <= end_of_other
            && at.0 == start.0
    };
    let known: Vec<(String, String)> =
        problems(file).iter().map(|known| (text_at(known, "id"), text_at(known, "message"))).collect();
    let is_known = |other: &&Value| known.contains(&(text_at(other, "id"), text_at(other, "message")));
    let stays = left.iter().find(same);
    let stays = stays.or_else(|| left.iter().filter(is_new).find(|other| !is_known(other)))?;
    let line = |text: &str| text.lines().nth(start.0 - 1).unwrap_or_default().trim().to_owned();
    Some(format!(
        "{}: {}: {}\n  {:?} became {:?}, and then: {}: {}\n",
        file.place,
        text_at(problem, "id"),
        text_at(problem, "message"),
        line(text),
        line(&fixed),
        text_at(stays, "id"),
        text_at(stays, "message"),
    ))
}

/// The text after a fix.
fn apply(text: &str, fix: &Value) -> String {
    let (start, end) = (place(fix, "line", "column"), place(fix, "end_line", "end_column"));
    format!("{}{}{}", &text[..offset(text, start)], text_at(fix, "text"), &text[offset(text, end)..])
}

/// The byte of a line and a column, both from 1; columns count characters.
fn offset(text: &str, (line, column): (usize, usize)) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = text[start..].trim_start_matches('\u{feff}');
    let start = text.len() - rest.len();
    rest.char_indices().nth(column - 1).map_or(text.len(), |(at, _)| start + at)
}

fn place(of: &Value, line: &str, column: &str) -> (usize, usize) {
    let number = |key: &str| of.get(key).map(ToString::to_string).and_then(|text| text.parse().ok());
    (number(line).unwrap_or(1), number(column).unwrap_or(1))
}

fn text_at(of: &Value, key: &str) -> String {
    of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The problems of a file.
fn problems(file: &CheckedFile) -> Vec<Value> {
    let arguments: Vec<&str> = file.command.iter().copied().chain([file.name.as_str()]).collect();
    let outcome = file.project.run(&arguments, b"");
    let Ok(found) = json::read_value(outcome.stdout.trim(), &Limits::DEFAULT) else { return Vec::new() };
    found.get("problems").and_then(Value::as_list).unwrap_or_default().to_vec()
}

/// Every file that a command of a case, a page or an example checks or runs.
fn checked_files() -> Vec<CheckedFile> {
    let mut files = Vec::new();
    for case in case::all(&folder("tests/cases")) {
        for (command, name) in checks_in(&case.commands) {
            if case.file(&name).is_some() {
                files.push(CheckedFile {
                    place: case.name(),
                    project: case.project(),
                    command,
                    name,
                    has_right: false,
                });
            }
        }
    }
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        let place = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (mut written, mut commands) = (Vec::new(), Vec::new());
        for piece in pieces(&text) {
            let Piece::Block { info, content, .. } = piece else { continue };
            match file_name(info) {
                Some(name) => written.push((name, content)),
                None => commands
                    .extend(content.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned)),
            }
        }
        for (command, name) in checks_in(&commands) {
            let project = Project::new();
            for (name, content) in &written {
                project.write(name, content.as_bytes());
            }
            let right = name.replace(".yaml", "-right.yaml");
            let has_right = written.iter().any(|(name, _)| *name == right);
            files.push(CheckedFile { place: place.clone(), project, command, name, has_right });
        }
    }
    files
}

/// The files that commands check, with the command that prints their problems as JSON; each once.
fn checks_in(commands: &[String]) -> BTreeSet<(&'static [&'static str], String)> {
    let mut found = BTreeSet::new();
    for line in commands {
        let words = command_line(line).map(|(words, _)| words).unwrap_or_default();
        let command: &[&str] = match words.get(1).map(String::as_str) {
            Some("check" | "run" | "preview" | "graph" | "simulate") => &["check", "--json"],
            Some("expect") => &["expect", "--check", "--json"],
            _ => continue,
        };
        let is_file = |word: &&String| [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
        let named = words.iter().skip(2).filter(is_file).find(|word| !word.starts_with('-'));
        found.extend(named.map(|name| (command, name.clone())));
    }
    found
}

/// The sorts of hints in the expected outputs of cases and pages, with an example of each.
fn shown_hints() -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    let mut note = |place: &str, text: &str| {
        for hint in
            text.lines().filter_map(|line| line.strip_prefix("hint: ")).filter(|hint| hint.contains('`'))
        {
            shown.entry(sort_of(hint)).or_insert_with(|| format!("{place}: {hint}"));
        }
    };
    for case in case::all(&folder("tests/cases")) {
        note(&case.name(), case.expected_stderr());
    }
    for page in pages() {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for piece in pieces(&std::fs::read_to_string(&page).expect("a page")) {
            if let Piece::Block { info: "console", content, .. } = piece {
                note(&name, content);
            }
        }
    }
    shown
}

/// A hint without what it shows.
fn sort_of(hint: &str) -> String {
    let mut sort = String::new();
    for (at, part) in hint.trim_end().split('`').enumerate() {
        sort.push_str(if at % 2 == 1 { "`…`" } else { part });
    }
    // The name of a variable of the environment stands without backticks.
    let is_variable = |word: &str| word.contains('_') && !word.contains(|char: char| char.is_lowercase());
    sort.split(' ').map(|word| if is_variable(word) { "NAME," } else { word }).collect::<Vec<_>>().join(" ")
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
