//! The grammar, rule by rule: what is accepted, how it prints, and what is refused where.
//!
//! Each file under `tests/grammar` is a rule. Its first line says what its lines are, `# template` or `# expression`;
//! then a line is `accept: SOURCE`, with `prints: SOURCE` below where the canonical spelling differs, or
//! `refuse@OFFSET ID: SOURCE`. `⏎` stands for a line break, `⇥` for a tab, `⍽` for a no-break space.
//! A new case is a line `case: SOURCE`; `THREADLINE_UPDATE=1 cargo test -p threadline-lang --test it grammar::`
//! writes the rest, and the difference is to be read.
#![expect(clippy::disallowed_methods, reason = "the cases are files")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Error, Expression, Limits, NoWorld, Scope, Session, Syntax, Template};

fn syntax() -> Syntax {
    Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT }
}

fn decoded(text: &str) -> String {
    text.replace('⏎', "\n").replace('⇥', "\t").replace('⍽', "\u{a0}")
}

fn encoded(text: &str) -> String {
    text.replace('\n', "⏎").replace('\t', "⇥").replace('\u{a0}', "⍽")
}

/// The canonical spelling, or the first problem.
fn parse(kind: &str, source: &str) -> Result<String, Error> {
    match kind {
        "# template" => match Template::parse(source, &syntax()) {
            Ok(template) => Ok(template.print()),
            Err(errors) => Err(errors[0].clone()),
        },
        "# expression" => Expression::parse(source, &syntax()).map(|expression| expression.print()),
        other => panic!("a file begins with `# template` or `# expression`, not {other:?}"),
    }
}

/// What a case should say.
fn told(kind: &str, written: &str) -> String {
    let source = decoded(written);
    match parse(kind, &source) {
        Ok(printed) => {
            assert_eq!(
                parse(kind, &printed).as_deref().ok(),
                Some(&*printed),
                "{source} printed as {printed}"
            );
            let printed = encoded(&printed);
            if printed == written {
                format!("accept: {written}\n")
            } else {
                format!("accept: {written}\n  prints: {printed}\n")
            }
        }
        Err(error) => {
            let span = error.span().range();
            assert!(source.get(span.clone()).is_some(), "{source}: {error:?}");
            format!("refuse@{} {}: {written}\n", span.start, error.id())
        }
    }
}

#[test]
fn every_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grammar");
    let mut rules: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    rules.sort();
    assert!(!rules.is_empty());
    for rule in rules {
        let expected = fs::read_to_string(&rule).unwrap();
        let kind = expected.lines().next().unwrap_or_default();
        let mut actual = String::new();
        for line in expected.lines().filter(|line| !line.starts_with("  prints: ")) {
            match line.split_once(": ") {
                Some((_, source)) if !line.starts_with('#') => actual.push_str(&told(kind, source)),
                _ => writeln!(actual, "{line}").unwrap(),
            }
        }
        if std::env::var_os("THREADLINE_UPDATE").is_some() {
            fs::write(&rule, &actual).unwrap();
            continue;
        }
        for (actual, expected) in actual.lines().zip(expected.lines()) {
            assert_eq!(actual, expected, "{}", rule.display());
        }
        assert_eq!(actual, expected, "{}", rule.display());
    }
}

/// The inputs that settle what something means, as templates with their values.
#[test]
fn every_settled_meaning() {
    let data = r#"{"a": {"status": "ready"}, "x": "1 == 1 or x", "o": {"keys": 1, "k": 2}, "e": "", "t": "h\u00e9llo",
        "xs": [[1, 2]], "n": null, "m": {}, "neg": -3}"#;
    let data = read_value(data, DataFormat::Json, &Limits::DEFAULT).unwrap();
    let scope = Scope::new().with_values("data", data.as_object().unwrap().clone());
    for (source, expected) in [
        ("${= -2 ** 2 }", "-4"),
        ("${= - neg | abs }", "-3"),
        ("${= 'a' == t | upper }", "false"),
        ("${= true or t | upper }", "true"),
        ("${= '${a.status}' == 'ready' }", "true"),
        ("${= ${a.status} == 'ready' }", "true"),
        ("${= x == true }", "false"),
        ("${x}", "\"1 == 1 or x\""),
        ("${= '${neg}' }", "\"-3\""),
        ("${neg}", "-3"),
        ("${neg}\n", "\"-3\\n\""),
        ("${o.keys}", "1"),
        ("${= o.keys() }", "[\"keys\",\"k\"]"),
        ("${m.no:-{}}", "\"{}\""),
        ("${m.no:-}}", "\"}\""),
        ("${m.no:-a | b}", "\"a | b\""),
        ("${m.no | default('x') | upper}", "\"X\""),
        ("${e | upper:-t}", "\"t\""),
        ("${n:-t}", "\"t\""),
        ("${= {\"a\": \"}\"} }", "{\"a\":\"}\"}"),
        ("${= '\\d+' }", "\"\\\\d+\""),
        ("${= t[1:3] }", "\"\u{e9}l\""),
        ("${= t[-99:99] }", "\"h\u{e9}llo\""),
        ("${= t[0] }", "type"),
        ("${xs.0.1}", "2"),
        ("${= not 1 in [2] }", "true"),
        ("${= !true == false }", "true"),
        ("${= 5-3 }", "2"),
        ("${= 0.1 + 0.2 == 0.3 }", "true"),
        ("${= 1 < 2 < 3 }", "true"),
        ("${= 'false' and true }", "type"),
        ("${= \"5\" > 3 }", "type"),
        ("${= \"5\" == 5 }", "false"),
        ("${= true and 'x' }", "\"x\""),
        ("${nope}", "unknown-root"),
        ("${nope:-x}", "unknown-root"),
        ("${m.no}", "field-not-found"),
        ("${t.no:-x}", "type"),
        ("$${x}", "\"${x}\""),
        ("$$${neg}", "\"$-3\""),
    ] {
        let mut world = NoWorld;
        let template = Template::parse(source, &syntax()).unwrap();
        let told = match template.value(&scope, &mut Session::new(&mut world)) {
            Ok(value) => value.to_json(JsonStyle::Compact),
            Err(error) => error.id().to_owned(),
        };
        assert_eq!(told, expected, "{source}");
    }
}
