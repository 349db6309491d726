//! Reads every case under `tests/data` and compares what came of it with the list beside the folder.
//!
//! A new case is a new file. `THREADLINE_UPDATE=1 cargo test -p threadline-lang --test it data::` writes the lists
//! again; read the difference.
#![expect(clippy::disallowed_methods, reason = "the cases are files")]
#![expect(clippy::unwrap_used, reason = "a case that cannot be read fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use threadline_lang::data::{DataFormat, ReadError, read_value};
use threadline_lang::limits::Limits;
use threadline_lang::value::JsonStyle;

const LONGEST: usize = 300;

/// One line per case: what was read, or where and why it was refused.
fn check(folder: &str, format: DataFormat, expected_ok: Option<bool>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut cases: Vec<_> =
        fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let mut actual = String::new();
    for case in cases {
        let text = fs::read_to_string(&case).unwrap();
        let read = read_value(&text, format, &Limits::DEFAULT);
        let name = case.file_stem().unwrap().to_str().unwrap();
        assert!(expected_ok.is_none_or(|ok| ok == read.is_ok()), "{folder}/{name}: {read:?}");
        let told = match read {
            Ok(value) => value.to_json(JsonStyle::Compact),
            Err(error) => tell(&text, &error),
        };
        writeln!(actual, "{name}: {}", told.chars().take(LONGEST).collect::<String>()).unwrap();
    }
    let list = root.join(format!("{folder}.txt"));
    if std::env::var_os("THREADLINE_UPDATE").is_some() {
        fs::write(&list, &actual).unwrap();
    }
    let expected = fs::read_to_string(&list).unwrap_or_default();
    for (actual, expected) in actual.lines().zip(expected.lines()) {
        assert_eq!(actual, expected);
    }
    assert_eq!(actual, expected);
}

fn tell(text: &str, error: &ReadError) -> String {
    let before = &text[..error.offset()];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let hint = error.hint.map_or(String::new(), |hint| format!(" (hint: {hint})"));
    let at: String = text[error.span.range()].chars().take(40).collect();
    format!("error at {line}:{column} {at:?}: {error}{hint}")
}

#[test]
fn json_accepted() {
    check("json/accept", DataFormat::Json, Some(true));
}

#[test]
fn json_rejected() {
    check("json/reject", DataFormat::Json, Some(false));
}

#[test]
#[cfg(feature = "yaml")]
fn yaml() {
    check("yaml", DataFormat::Yaml, None);
}
