//! Runs the reference: every page of `spec/`, and the README. `THREADLINE_UPDATE=1` writes the expected parts
//! anew.
//!
//! - A block whose info string has `file=NAME` is that file, for the rest of the page.
//! - A `console` block has lines `$ threadline ...`, each followed by what it prints: stdout, then stderr, then
//!   `[exit 1]` when the code is not 0.
//! - An `expr` block has lines `EXPRESSION → JSON` or `EXPRESSION → error: MESSAGE`, evaluated with the page's
//!   `data.json` when there is one.
//! - Other blocks are only read by people.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::support::{self, Outcome, Project, difference, updates};

const ARROW: &str = " → ";

#[test]
fn every_page_says_what_is_so() {
    let pages = pages();
    let failures: Vec<String> = pages.iter().flat_map(|page| check(page)).collect();
    support::report(&failures, pages.len());
}

pub(crate) fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(root.join("spec"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.extend(Some(root.join("README.md")).filter(|readme| readme.is_file()));
    pages
}

/// Every block of a page that does not hold.
fn check(path: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let project = Project::new();
    let mut failures = Vec::new();
    let mut updated = String::with_capacity(page.len());
    for piece in pieces(&page) {
        let Piece::Block { line, open, info, content, close } = piece else {
            let Piece::Prose(text) = piece else { continue };
            updated.push_str(text);
            continue;
        };
        let actual = match (file_name(info), info.split_whitespace().next()) {
            (Some(file), _) => {
                project.write(file, content.as_bytes());
                content.to_owned()
            }
            (None, Some("console")) => console(&project, content),
            (None, Some("expr")) => expressions(&project, content),
            _ => content.to_owned(),
        };
        failures.extend(difference(&format!("{name}:{line}"), content, &actual));
        updated.extend([open, &actual, close]);
    }
    if updates() {
        if !failures.is_empty() {
            std::fs::write(path, updated).expect("the page can be written");
        }
        return Vec::new();
    }
    failures
}

pub(crate) enum Piece<'a> {
    Prose(&'a str),
    Block { line: usize, open: &'a str, info: &'a str, content: &'a str, close: &'a str },
}

/// The page cut at its fences. A fence closes with as many backticks as it opened with.
pub(crate) fn pieces(page: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = page;
    let mut line = 1;
    while let Some((start, fence)) = next_fence(rest) {
        let (prose, block) = rest.split_at(start);
        let open = block.split_inclusive('\n').next().unwrap_or_default();
        let inside = &block[open.len()..];
        let mut end = 0;
        let close = inside.split_inclusive('\n').find(|text| {
            let closes = text.trim_end() == fence;
            end += if closes { 0 } else { text.len() };
            closes
        });
        line += prose.lines().count();
        let close = close.unwrap_or_else(|| panic!("line {line}: a block that is never closed"));
        let info = open[fence.len()..].trim();
        let content = &inside[..end];
        pieces.push(Piece::Prose(prose));
        pieces.push(Piece::Block { line, open, info, content, close });
        line += content.lines().count() + 2;
        rest = &inside[end + close.len()..];
    }
    pieces.push(Piece::Prose(rest));
    pieces
}

/// Where the next line begins that opens a block, and its backticks.
fn next_fence(text: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
        if ticks >= 3 && !line[ticks..].contains('`') {
            return Some((at, &line[..ticks]));
        }
        at += line.len();
    }
    None
}

pub(crate) fn file_name(info: &str) -> Option<&str> {
    info.split_whitespace().find_map(|word| word.strip_prefix("file="))
}

/// The block with what its commands print.
fn console(project: &Project, content: &str) -> String {
    let mut shown = String::new();
    for command in content.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let Outcome { stdout, stderr, exit } = project.run_line_steady(command);
        // Writing into a text cannot fail.
        let _ = writeln!(shown, "$ {command}");
        for text in [stdout, stderr] {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            shown.extend([&text, end]);
        }
        if exit != 0 {
            let _ = writeln!(shown, "[exit {exit}]");
        }
    }
    shown
}

/// The block with what its expressions give.
fn expressions(project: &Project, content: &str) -> String {
    let data = project.read("data.json").is_some();
    let mut shown = String::new();
    for line in content.lines() {
        let Some((expression, _)) = line.rsplit_once(ARROW) else {
            assert!(line.trim().is_empty(), "a line without `→`: {line}");
            shown.push('\n');
            continue;
        };
        let mut arguments = vec!["eval"];
        arguments.extend(if data { &["--data", "data.json"][..] } else { &[] });
        arguments.extend(["--", expression.trim()]);
        let outcome = project.run(&arguments, b"");
        let result = match outcome.exit {
            0 => outcome.stdout.trim_end().to_owned(),
            _ => format!("error: {}", first_message(&outcome.stderr)),
        };
        // Writing into a text cannot fail.
        let _ = writeln!(shown, "{expression}{ARROW}{result}");
    }
    shown
}

/// The message of the first error, without its name.
fn first_message(stderr: &str) -> &str {
    let line = stderr.lines().find(|line| line.starts_with("error")).unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, message)| message)
}
