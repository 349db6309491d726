//! Sources: their format, their places, and the bytes that are none.
#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use threadline_lang::data::{DataFormat, Style};
use threadline_lang::diag::Span;
use threadline_lang::limits::Limits;
use threadline_lang::source::{SourceFile, TreeNode, TreeStep};
use threadline_lang::value::JsonStyle;

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile::new(name, text.as_bytes().to_vec()).unwrap()
}

fn tree(file: &SourceFile) -> TreeNode {
    file.read_tree(&Limits::DEFAULT).unwrap()
}

#[test]
fn the_extension_decides() {
    assert_eq!(file("a.json", "a: 1").format(), DataFormat::Json);
    assert_eq!(file("dir.json/a.yaml", "{}").format(), DataFormat::Yaml);
    assert_eq!(file("a.YML", "{}").format(), DataFormat::Yaml);
    assert_eq!(file("a.Json", "").format(), DataFormat::Json);
}

#[test]
fn otherwise_the_content_decides() {
    let format = |text: &str| file("-", text).format();
    assert_eq!(format(r#"{"a": 1}"#), DataFormat::Json);
    assert_eq!(format("\u{feff} [1, 2]"), DataFormat::Json);
    assert_eq!(format("12"), DataFormat::Json);
    assert_eq!(format("\"text\""), DataFormat::Json);
    assert_eq!(format("a: 1\n"), DataFormat::Yaml);
    assert_eq!(format("- 1\n"), DataFormat::Yaml);
    assert_eq!(format(""), DataFormat::Yaml);
    assert_eq!(format("{a: 1, b: [c, d]}"), DataFormat::Yaml);
    assert_eq!(format("[a, b]"), DataFormat::Yaml);
}

/// A file that is neither shows the error of what it was meant to be.
#[test]
fn a_slip_in_json_stays_json() {
    for text in [
        r#"{"a": 1, // one
"b": 2}"#,
        "[1, NaN]",
        r#"{"a": 1, "b"}"#,
        "[{\"a\": True}]",
        "{\"a\": 1, \"a\": 2}",
        "[1, 2",
        "{a: ${b}}",
    ] {
        let source = file("data", text);
        assert_eq!(source.format(), DataFormat::Json, "{text}");
        assert!(source.read_value(&Limits::DEFAULT).is_err(), "{text}");
    }
    let source = file("data", "a: [1, 2\nb: 3");
    assert_eq!(source.format(), DataFormat::Yaml);
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let error = SourceFile::new("a.json", b"{\n\"a\":\n\"\xff\"}".to_vec()).unwrap_err();
    assert_eq!(error.to_string(), "`a.json` is not UTF-8: line 3, byte 8 of the file");
    assert_eq!(error.hint(), None);
    let error = SourceFile::new("a.yaml", b"\xff\xfea\0:\0".to_vec()).unwrap_err();
    assert_eq!(error.to_string(), "`a.yaml` is not UTF-8: line 1, byte 0 of the file");
    assert_eq!(error.hint(), Some("it looks like UTF-16; save it as UTF-8"));
    for bytes in [&b"\"\xc0\x80\""[..], b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\"\xe4\xb8", b"\x80"]
    {
        assert!(SourceFile::new("a.json", bytes.to_vec()).is_err());
    }
}

#[test]
fn lines_and_columns_count_characters() {
    let source = file("a.yaml", "\u{feff}é: 1\r\n\n中文: x\n");
    let at = |text: &str| source.line_column(source.text().find(text).unwrap());
    assert_eq!(at("é"), (1, 1));
    assert_eq!(at("1"), (1, 4));
    assert_eq!(at("中"), (3, 1));
    assert_eq!(at("x"), (3, 5));
    assert_eq!(source.line_column(4), (1, 1), "inside a character is at its start");
    assert_eq!(source.line_column(usize::MAX), (4, 1));
}

#[test]
fn a_tree_knows_every_place() {
    let source = file(
        "w.yaml",
        "name: demo\nsteps:\n  - shell: |\n      ls\n    when: \"${a}\"\n  - &x {n: 1}\nagain: *x\n",
    );
    let root = tree(&source);
    let text = |span: Span| &source.text()[span.range()];
    assert_eq!(text(root.entry("steps").unwrap().key_span), "steps");
    assert_eq!(source.line_column(root.entry("again").unwrap().key_span.start as usize), (7, 1));
    let path = [TreeStep::Key("steps"), TreeStep::Index(0), TreeStep::Key("when")];
    let when = root.at(path).unwrap();
    assert_eq!(
        (text(when.span), when.style, when.value.as_str()),
        ("\"${a}\"", Some(Style::Double), Some("${a}"))
    );
    assert_eq!(root.at(["steps".into(), 0.into(), "shell".into()]).unwrap().style, Some(Style::Literal));
    assert!(root.at(["steps".into(), 2.into()]).is_none());
    assert!(root.at(["steps".into(), "shell".into()]).is_none());
    let again = root.get("again").unwrap();
    assert_eq!((text(again.span), text(again.get("n").unwrap().span)), ("*x", "1"));
    assert_eq!(text(root.at(["steps".into(), 1.into()]).unwrap().span), "{n: 1}");
    assert_eq!(root.entries().map(|(key, _)| key).collect::<Vec<_>>(), ["name", "steps", "again"]);
    assert_eq!(root.value, source.read_value(&Limits::DEFAULT).unwrap());
}

#[test]
fn the_span_of_a_container_covers_it() {
    let source = file("a.json", r#" {"a": [1, {"b": null}], "c": []} "#);
    let root = tree(&source);
    let text = |path: &[TreeStep<'_>]| &source.text()[root.at(path.iter().copied()).unwrap().span.range()];
    assert_eq!(text(&[]), source.text().trim());
    assert_eq!(text(&["a".into()]), r#"[1, {"b": null}]"#);
    assert_eq!(text(&["a".into(), 1.into()]), r#"{"b": null}"#);
    assert_eq!(text(&["c".into()]), "[]");
    let block = file("a.yaml", "a:\n  - 1\n  - b: x\n    c: y\n# comment\nd: 2\n");
    let root = tree(&block);
    assert_eq!(&block.text()[root.get("a").unwrap().span.range()], "- 1\n  - b: x\n    c: y");
}

#[test]
fn a_tree_and_a_value_refuse_the_same() {
    for text in ["a: 1\na: 2\n", "a: [1\n", "a: &a [*a]\n", "- ${= {\"k\": 1} }\n"] {
        let source = file("a.yaml", text);
        assert_eq!(
            source.read_tree(&Limits::DEFAULT).unwrap_err(),
            source.read_value(&Limits::DEFAULT).unwrap_err()
        );
    }
    assert_eq!(tree(&file("a.yaml", "# nothing\n")).value.to_json(JsonStyle::Compact), "null");
}
