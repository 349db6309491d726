//! The generated parts of `spec/shell.md`, made from the tables and from the reader itself.
//!
//! A part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`; `THREADLINE_UPDATE=1` writes it.

use std::fmt::Write;
use std::path::Path;

use threadline_flow::shell::{CARRIERS, CODE_VARIABLES, Dialect, HAZARDS, Hazard, HazardRule};
use threadline_lang::Value;

use super::shells::bind;

/// The places of the first table, each with a command.
const CONTEXTS: &[(&str, &str)] = &[
    ("a word", "ls ${x}"),
    ("a part of a word", "ls src/${x}.rs"),
    ("behind a literal dollar", "echo \\$${x}"),
    ("inside of `\"...\"`", "echo \"a ${x}\""),
    ("inside of `'...'`", "echo 'a ${x} b'"),
    ("inside of `$'...'` (not in a plain `sh`)", "echo $'a\\t${x}'"),
    ("inside of `$(...)`", "echo \"$(date -d ${x})\""),
    ("inside of backquotes", "D=`date -d ${x}`"),
    ("an assignment", "V=${x}"),
    ("the list of a loop", "for f in ${x} b; do ls \"$f\"; done"),
    ("the word and the patterns of `case`", "case ${x} in ${x}) ;; esac"),
    ("an array (not in a plain `sh`)", "A=(a ${x})"),
    ("a here-string (not in a plain `sh`)", "cat <<< ${x}"),
    ("inside of `<(...)` (not in a plain `sh`)", "cat <(echo ${x})"),
    ("a default inside of double quotes", "echo \"${V:-${x}}\""),
    ("a pattern or replacement of a parameter", "echo \"${V#${x}}\""),
    ("a here-document", "cat <<EOF⏎${x}⏎EOF"),
    ("a quoted here-document", "cat <<'EOF'⏎${x} $HOME⏎EOF"),
    ("arithmetic: an int only", "echo $((${x} + 1))"),
];

fn contexts() -> String {
    let mut table = "| place | written | becomes |\n|---|---|---|\n".to_owned();
    for (place, written) in CONTEXTS {
        let names = [("x".to_owned(), Value::from(5))];
        let bound = bind(&written.replace('⏎', "\n"), Dialect::Bash, &names).unwrap();
        writeln!(table, "| {place} | {} | {} |", code(written), code(&bound.text.replace('\n', "⏎")))
            .unwrap();
    }
    table + "\n`⏎` is a line break.\n"
}

fn places() -> String {
    let mut table = "| place | a value here | rule | example | instead |\n|---|---|---|---|---|\n".to_owned();
    for place in HAZARDS {
        let rule = match place.rule {
            HazardRule::Refuse => "refused",
            HazardRule::Int => "int only",
            HazardRule::Dash => "not with `-`",
            HazardRule::Warn => "warned",
        };
        let example = code(&place.example.replace('\n', "⏎"));
        let safe = place.fix.replace('|', "\\|");
        writeln!(table, "| {} | {} | {rule} | {example} | {safe} |", named(place), place.effect).unwrap();
    }
    table
}

/// The id of a row, and its programs.
fn named(place: &Hazard) -> String {
    let programs: Vec<String> = place.programs.iter().map(|program| format!("`{program}`")).collect();
    if programs.is_empty() { place.id.to_owned() } else { format!("{}: {}", place.id, programs.join(" ")) }
}

fn carriers() -> String {
    let mut table = "| carrier | refused, for example |\n|---|---|\n".to_owned();
    for carrier in CARRIERS {
        writeln!(table, "| {} | {} |", carrier.name, code(&carrier.example.replace('\n', "⏎"))).unwrap();
    }
    table
}

fn variables() -> String {
    let names: Vec<String> = CODE_VARIABLES.iter().map(|name| format!("`{name}`")).collect();
    names.join(" ")
}

/// Text as code in a table.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

#[test]
fn the_page_says_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/shell.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut expected = page.clone();
    for (part, generated) in
        [("contexts", contexts()), ("carriers", carriers()), ("places", places()), ("variables", variables())]
    {
        let (open, close) = (format!("<!-- generated: {part} -->\n"), format!("<!-- end of {part} -->\n"));
        let (before, rest) = expected.split_once(&open).unwrap();
        let (_, after) = rest.split_once(&close).unwrap();
        expected = format!("{before}{open}\n{}\n\n{close}{after}", generated.trim());
    }
    if std::env::var_os("THREADLINE_UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    let line = page.lines().zip(expected.lines()).position(|(is, wanted)| is != wanted);
    assert!(
        page == expected,
        "spec/shell.md:{} is not what the program does; THREADLINE_UPDATE=1 cargo test writes it",
        line.map_or(page.lines().count(), |line| line + 1)
    );
}
