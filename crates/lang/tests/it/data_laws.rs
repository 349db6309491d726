//! Laws of the data formats: what is printed reads back, and every character is found again in its source.
#![cfg(feature = "yaml")]
#![expect(clippy::unwrap_used, reason = "a law that does not hold fails the test")]
#![expect(clippy::disallowed_methods, reason = "the environment says how many cases to try")]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use threadline_lang::data::locate::locate;
use threadline_lang::data::{DataFormat, ReadError, Sink, Style, json, read_value, yaml};
use threadline_lang::diag::Span;
use threadline_lang::limits::Limits;
use threadline_lang::value::{JsonStyle, Number, Value};

fn text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "null",
        "~",
        "true",
        "no",
        "On",
        "0x1f",
        "012",
        "1e3",
        ".5",
        "-",
        "---",
        "...",
        "? a",
        "- a",
        "a: b",
        "a #b",
        "#",
        "<<",
        "!x",
        "&a",
        "*a",
        "|",
        ">",
        "%",
        "@",
        "`",
        "'",
        "\"",
        "\\",
        "${a}",
        "${= {",
        "[",
        "{}",
        ",",
        ":",
        "a:",
        " a",
        "a ",
        "é",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\u{a0}",
        "\u{7f}",
        "\u{9f}",
        "\0",
        "\t",
        "\r",
        "😀",
        "2026-01-02",
        "12:30",
        ".inf",
        "-.INF",
        ".nan",
        "",
        "=",
        "\u{ffff}",
        "a\nb",
        "\n",
        "\n\n",
        " \n",
        "a\n",
        "=>",
    ]);
    let parts = prop_oneof![
        4 => words.prop_map(str::to_owned),
        3 => "[ -~]{0,6}",
        2 => "[a-c \\n:#-]{0,8}",
        1 => "\\PC{0,4}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(parts, 0..5).prop_map(|parts| parts.concat())
}

fn number() -> impl Strategy<Value = Value> {
    let source =
        prop_oneof!["-?(0|[1-9][0-9]{0,25})", "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?(e-?[0-9]{1,3})?"];
    source.prop_map(|source| Value::from(Number::parse(&source).unwrap()))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::NULL),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| Value::list(items).unwrap()),
            prop::collection::vec((text(), inner), 0..5).prop_map(|entries| Value::object(
                entries.into_iter().map(|(key, value)| (key.into(), value))
            )
            .unwrap()),
        ]
    })
}

fn check(value: &Value, printed: &str, format: DataFormat) {
    let read = read_value(printed, format, &Limits::DEFAULT);
    let read = read.unwrap_or_else(|error| panic!("{error} at {:?} in\n{printed}", error.span));
    assert_eq!(&read, value, "{printed}");
    assert_eq!(read.to_json(JsonStyle::Compact), value.to_json(JsonStyle::Compact), "{printed}");
}

/// The same cases each time gate a change; the long form looks for new ones, and a failure prints its input.
fn config(cases: u32) -> ProptestConfig {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    let (cases, rng_seed) = if long { (cases * 20, RngSeed::Random) } else { (cases, RngSeed::Fixed(42)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn json_reads_back(value in value()) {
        check(&value, &value.to_json(JsonStyle::Compact), DataFormat::Json);
        check(&value, &value.to_json(JsonStyle::Pretty), DataFormat::Json);
    }

    #[test]
    fn yaml_reads_back(value in value()) {
        let mut printed = String::new();
        yaml::write(&value, &mut printed);
        check(&value, &printed, DataFormat::Yaml);
    }

    #[test]
    fn json_is_yaml(value in value()) {
        // YAML wants some characters escaped that JSON lets stand.
        let printed = value.to_json(JsonStyle::Pretty);
        if !printed.contains(|c| matches!(c, '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')) {
            check(&value, &printed, DataFormat::Yaml);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in text(), more in prop::collection::vec(text(), 0..4)) {
        let text = text + &more.join("\n");
        let _ = json::read_value(&text, &Limits::DEFAULT).map_err(|error| check_error(&text, &error));
        let _ = yaml::read_value(&text, &Limits::DEFAULT).map_err(|error| check_error(&text, &error));
    }

    #[test]
    fn characters_are_found_in_their_source(source in scalar_source()) {
        let mut found = Texts(Vec::new());
        if yaml::read(&source, &Limits::DEFAULT, &mut found).is_ok() {
            for (text, style, span) in found.0 {
                check_located(&source, &text, style, span);
            }
        }
    }

    #[test]
    fn characters_are_found_in_json(value in value()) {
        let source = value.to_json(JsonStyle::Pretty);
        let mut found = Texts(Vec::new());
        json::read(&source, &Limits::DEFAULT, &mut found).unwrap();
        for (text, style, span) in found.0 {
            check_located(&source, &text, style, span);
        }
    }
}

fn check_error(text: &str, error: &ReadError) {
    assert!(text.get(error.span.range()).is_some(), "{error:?} in {text:?}");
    assert!(!error.to_string().is_empty());
}

/// Scalars of every style over several lines, most of them right.
fn scalar_source() -> impl Strategy<Value = String> {
    let fold =
        || prop::sample::select(vec!["\n   ", " \n  ", "\n\n    ", "\r\n  ", "  \n \n\n   ", "\n  \t "]);
    let word =
        || prop::sample::select(vec!["a", "bc", "é", "😀", "x y", "${a}", "d  e", "-", "f:g", " ", "#h"]);
    let pieces = |extra: Vec<&'static str>| {
        let piece = prop_oneof![4 => word(), 2 => fold(), 3 => prop::sample::select(extra)];
        prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
    };
    let double = pieces(vec![
        "\\n",
        "\\\"",
        "\\\\",
        "\\x41",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\U0001F600",
        "\\\n   ",
        "\\N",
        "'",
        "\\\n\n  ",
        "\\ ",
    ]);
    let single = pieces(vec!["''", "\"", "\\", "''''"]);
    let plain = pieces(vec!["'", "\"", "\\", ", "]);
    let line = || {
        let content = prop::collection::vec(word(), 1..4).prop_map(|words| words.concat());
        prop_oneof![3 => content.prop_map(|line| format!("    {line}\n")), 1 => Just("\n".to_owned()),
            1 => Just("      more\n".to_owned()), 1 => Just("  \n".to_owned()), 1 => Just("    \ttab\r\n".to_owned())]
    };
    let header = prop::sample::select(vec!["|", "|-", "|+", "|2", "> # c", ">-", ">+", ">2-"]);
    let block = (header, prop::collection::vec(line(), 0..6))
        .prop_map(|(header, lines)| format!("{header}\n{}", lines.concat()));
    let scalar = prop_oneof![
        double.prop_map(|text| format!("\"{text}\"")),
        single.prop_map(|text| format!("'{text}'")),
        plain,
        block,
    ];
    (prop::sample::select(vec!["k:\n  l: ", "k: ", "- ", "- k: ", "- - "]), scalar)
        .prop_map(|(before, scalar)| format!("{before}{scalar}"))
}

fn check_located(source: &str, text: &str, style: Style, span: Span) {
    let mut last = None;
    for (offset, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace() && !c.is_control()) {
        let at = locate(source, span, style, offset);
        let there = &source[at..];
        let escaped = there.starts_with('\\') && matches!(style, Style::Json | Style::Double);
        assert!(there.starts_with(c) || escaped, "{c:?} of {text:?} is not at {at} of {source:?}");
        assert!(last < Some(at), "{c:?} of {text:?} is at {at} of {source:?}, as is another");
        last = Some(at);
    }
    assert!(locate(source, span, style, text.len() + 1) <= span.end as usize);
}

/// Every text and key, with where it stands.
struct Texts(Vec<(String, Style, Span)>);

impl Sink for Texts {
    type Error = ReadError;

    fn null(&mut self, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn bool(&mut self, _: bool, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn number(&mut self, _: Number, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn text(&mut self, text: &str, style: Style, span: Span) -> Result<(), ReadError> {
        self.0.push((text.to_owned(), style, span));
        Ok(())
    }

    fn key(&mut self, key: &str, style: Style, span: Span) -> Result<(), ReadError> {
        self.text(key, style, span)
    }

    fn begin_list(&mut self, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn end_list(&mut self, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn begin_object(&mut self, _: Span) -> Result<(), ReadError> {
        Ok(())
    }

    fn end_object(&mut self, _: Span) -> Result<(), ReadError> {
        Ok(())
    }
}
