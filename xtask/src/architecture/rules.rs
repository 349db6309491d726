//! Rules about the text of one Rust file.

use std::ops::Range;
use std::path::{Component, Path};

use crate::source::SourceText;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils"];

/// Marks of work that is not done, and of tests that are not run.
const UNFINISHED: &[&str] = &["todo!", "dbg!", "unimplemented!", "#[ignore", "FIXME"];

/// The beginning of a reference, plain and in a regular expression.
const OPENINGS: &[&str] = &["${", r"\$\{", r"\$\\{", "[$][{]"];

/// Calls that look for something in text.
const SEARCHES: &[&str] = &[
    "Regex::new",
    "RegexBuilder::new",
    "contains",
    "ends_with",
    "find",
    "find_iter",
    "match_indices",
    "matches",
    "replace",
    "replacen",
    "rfind",
    "rmatch_indices",
    "rsplit",
    "rsplit_once",
    "rsplitn",
    "split",
    "split_inclusive",
    "split_once",
    "split_terminator",
    "splitn",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trim_end_matches",
    "trim_matches",
    "trim_start_matches",
];

/// Crates and modules with an empty name.
pub(super) fn empty_names(path: &Path, source: &SourceText<'_>) -> Vec<String> {
    let parts = names(path).map(|part| part.trim_end_matches(".rs"));
    let parts = parts.filter(|part| EMPTY_NAMES.contains(part));
    let mut problems: Vec<String> =
        parts.map(|part| format!("{}: `{part}` says nothing about it", path.display())).collect();
    let code = source.code();
    for name in EMPTY_NAMES {
        let declaration = format!("mod {name}");
        problems.extend(words(&code, &declaration).map(|at| {
            let line = source.line(at);
            format!("{}:{line}: `{name}` says nothing about it", path.display())
        }));
    }
    problems
}

/// Marks of unfinished work, in code and in comments.
pub(super) fn unfinished(path: &Path, source: &SourceText<'_>) -> Vec<String> {
    let text = source.code_and_comments();
    let mut problems = Vec::new();
    for mark in UNFINISHED {
        problems.extend(words(&text, mark).map(|at| {
            let line = source.line(at);
            format!("{}:{line}: `{mark}` must not stay", path.display())
        }));
    }
    problems
}

/// Code that looks for references itself. Only `crates/lang` does that: a second scanner would read other
/// things into the same text. Tests may look for anything.
///
/// The reader of shell text is the one exception: `${` is the shell's own, too, and only its quoting tells
/// where one of ours may stand. It decides whose a `${` is, and leaves what stands in the braces to `lang`.
pub(super) fn scanners(path: &Path, source: &SourceText<'_>) -> Vec<String> {
    if !must_not_scan(path) {
        return Vec::new();
    }
    let code = source.code();
    let tests = test_modules(&code);
    let scanners = source.literals().filter(|&(at, literal)| {
        OPENINGS.iter().any(|opening| literal.contains(opening))
            && (is_search(&code[..at]) || is_compared(&code[..at], literal))
            && !tests.iter().any(|module| module.contains(&at))
    });
    scanners
        .map(|(at, literal)| {
            let line = source.line(at);
            let path = path.display();
            format!("{path}:{line}: `{literal}` is searched for; only `lang` reads references")
        })
        .collect()
}

/// The text of an address, as code outside of its type gets it.
const ADDRESS_TEXTS: &[&str] = &["at.as_str()", "at.to_string()"];

/// Code that takes the text of an address apart. Only `engine/src/address.rs` knows its form; the field is private, so
/// the compiler catches everything but what goes through the text.
pub(super) fn dissected_addresses(path: &Path, source: &SourceText<'_>) -> Vec<String> {
    let parts: Vec<_> = names(path).collect();
    if !matches!(parts.as_slice(), ["crates", _, "src", ..])
        || parts.ends_with(&["engine", "src", "address.rs"])
    {
        return Vec::new();
    }
    let code = source.code();
    let mut problems = Vec::new();
    for text in ADDRESS_TEXTS {
        problems.extend(words(&code, text).filter(|at| is_dissected(&code[at + text.len()..])).map(|at| {
            let line = source.line(at);
            format!("{}:{line}: the text of an address is taken apart; ask the `Address`", path.display())
        }));
    }
    problems
}

/// Whether what follows a text is a search in it or a part of it.
fn is_dissected(after: &str) -> bool {
    let after = after.trim_start();
    let called = after.strip_prefix('.').map(|call| call.split(|next| !is_name(next)).next().unwrap_or(call));
    after.starts_with('[') || called.is_some_and(|called| called != "contains" && is_in_searches(called))
}

fn must_not_scan(path: &Path) -> bool {
    let parts: Vec<_> = names(path).collect();
    match parts.as_slice() {
        ["crates", "lang", ..] | ["crates", "flow", "src", "shell", ..] => false,
        ["crates", _, "src", inner @ ..] => !inner.iter().any(|part| matches!(*part, "tests" | "tests.rs")),
        _ => false,
    }
}

fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}

/// Where a word stands that is not a part of a longer one.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let ends_as_name = word.ends_with(is_name);
    let places = text.match_indices(word).map(|(at, _)| at);
    places.filter(move |&at| {
        let continues = text[..at].ends_with(is_name);
        let goes_on = ends_as_name && text[at + word.len()..].starts_with(is_name);
        !continues && !goes_on
    })
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Whether the nearest call around the end of the code is a search. Macros, brackets and tuples do not count
/// as calls.
fn is_search(before: &str) -> bool {
    let mut closed = 0_usize;
    for (at, character) in before.char_indices().rev() {
        match character {
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed > 0 => closed -= 1,
            '{' | ';' if closed == 0 => return false,
            '(' => {
                let called = called(&before[..at]);
                if !called.is_empty() {
                    return is_in_searches(called);
                }
            }
            _ => {}
        }
    }
    false
}

/// The path that ends the code, as in `memmem::find`.
fn called(before: &str) -> &str {
    let start = before.rfind(|character| !is_name(character) && character != ':');
    let start = start.map_or(0, |at| at + 1);
    // What separates is ASCII wherever code compiles; `get` only keeps this from panicking.
    before.get(start..).unwrap_or_default()
}

fn is_in_searches(called: &str) -> bool {
    let last = called.rsplit("::").next().unwrap_or(called);
    SEARCHES.contains(&last)
        || SEARCHES.iter().any(|search| search.contains("::") && called.ends_with(search))
}

/// Whether the bare opening is compared with something, or given a name under which it can be searched for.
fn is_compared(before: &str, literal: &str) -> bool {
    OPENINGS.contains(&literal) && before.trim_end().ends_with('=')
}

/// The bodies of test modules.
fn test_modules(code: &str) -> Vec<Range<usize>> {
    let attributes = code.match_indices("#[cfg(test)]");
    attributes.map(|(at, _)| at..item_end(code, at)).collect()
}

/// Where the item that begins here ends: at a semicolon or at the brace that closes its body.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code[start..].char_indices() {
        match character {
            ';' if depth == 0 => return start + at,
            '{' => depth += 1,
            '}' if depth <= 1 => return start + at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Path, &SourceText<'_>) -> Vec<String>, path: &str, text: &str) -> Vec<String> {
        rule(Path::new(path), &SourceText::new(text))
    }

    #[test]
    fn files_and_modules_have_telling_names() {
        let check = |path, text| found(empty_names, path, text);
        assert_eq!(
            check("crates/lang/src/utils.rs", ""),
            ["crates/lang/src/utils.rs: `utils` says nothing about it"]
        );
        assert_eq!(check("crates/cli/tests/common/mod.rs", "").len(), 1, "folders count");
        assert_eq!(check("a.rs", "\nmod common {}"), ["a.rs:2: `common` says nothing about it"]);
        assert!(check("crates/lang/src/uncommon.rs", "mod common_prefix; // mod utils").is_empty());
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments() {
        let check = |text| found(unfinished, "a.rs", text);
        assert_eq!(check("fn f() {\n    todo!()\n}"), ["a.rs:2: `todo!` must not stay"]);
        assert_eq!(check("dbg!(x); unimplemented!()").len(), 2);
        assert_eq!(check("#[ignore = \"slow\"]").len(), 1);
        assert_eq!(check("// FIXME later").len(), 1);
        assert!(check("let x = \"todo! FIXME\"; my_todo!(); // ignore").is_empty());
    }

    #[test]
    fn a_second_scanner_is_found() {
        for text in [
            r#"text.find("${")"#,
            r##"text.split_once(r#"${"#)"##,
            r#"text.replace(&format!("${{{name}}}"), value)"#,
            r#"memmem::find(text, b"${")"#,
            r#"text.starts_with(["${", "x"])"#,
            r#"Regex::new(r"\$\{(\w+)\}")"#,
            r#"Regex::new("\\$\\{")"#,
            r#"&text[..2] == "${""#,
            r#"const OPENING: &str = "${";"#,
        ] {
            assert_eq!(found(scanners, "crates/flow/src/a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn writing_a_reference_is_not_scanning() {
        for text in [
            r#"out.push_str("${")"#,
            r#"format!("did you mean `${{{name}}}`?")"#,
            r#"let hint = "write ${= a - b }";"#,
            r#"xs.contains(&render("${x}"))"#,
            r#"// text.find("${")"#,
            "#[cfg(test)]\nmod tests { fn f() { text.find(\"${\"); } }",
        ] {
            assert_eq!(found(scanners, "crates/flow/src/a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn only_the_sources_of_the_other_crates_are_searched() {
        let text = r#"text.find("${")"#;
        for path in [
            "crates/lang/src/a.rs",
            "crates/flow/src/shell/names.rs",
            "crates/flow/src/load/tests.rs",
            "crates/flow/tests/a.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(found(scanners, path, text), [""; 0], "{path}");
        }
    }

    #[test]
    fn the_text_of_an_address_is_not_taken_apart() {
        let check = |path, text| found(dissected_addresses, path, text).len();
        for text in [
            "event.at.as_str().split('/')",
            "task.at.to_string().rfind('[')",
            "at.as_str()\n    .strip_prefix(x)",
            "at.as_str()[..2]",
        ] {
            assert_eq!(check("crates/cli/src/a.rs", text), 1, "{text}");
            assert_eq!(check("crates/engine/src/address.rs", text), 0, "{text}");
            assert_eq!(check("crates/cli/tests/a.rs", text), 0, "{text}");
        }
        assert_eq!(check("crates/cli/src/a.rs", "at.as_str().width(); that.as_str().split('/')"), 0);
    }

    #[test]
    fn code_after_a_test_module_counts() {
        let text = "#[cfg(test)]\nmod tests;\nfn f() { text.find(\"${\"); }";
        assert_eq!(found(scanners, "crates/cli/src/a.rs", text).len(), 1);
    }
}
