//! Expectations and documents of extreme size: they are answered or refused. What would take hours or all memory does not
//! come back here, and the limit of the whole run tells.

use std::fmt::Write as _;

use crate::support::{answer, detected, json, loaded, outcomes, sound};
use threadline_expect::{Actual, DocumentKind, ExpectationAnswer};
use threadline_lang::Value;
use threadline_lang::data::DataFormat;

/// What a text is refused for.
#[track_caller]
fn refused(text: &str) -> String {
    let (expectations, problems) = loaded(text, DataFormat::Json);
    assert!(expectations.is_none());
    problems[0].message.clone()
}

fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

#[test]
fn documents_as_deep_as_they_can_be() {
    let deep = "[".repeat(190) + &"]".repeat(190);
    let actual = detected(&deep);
    let same = sound(&format!("{{\"value\": {{\"eq\": {deep}}}}}"));
    assert_eq!(answer(&same, &actual), ExpectationAnswer::Met);
    let other = sound(&format!("{{\"value\": {{\"eq\": {}1{}}}}}", "[".repeat(190), "]".repeat(190)));
    assert_eq!(outcomes(&other, &actual)[0].answer, ExpectationAnswer::Unmet);
    let schema = sound(r##"{"value": {"schema": {"items": {"$ref": "#"}}}}"##);
    assert_eq!(answer(&schema, &actual), ExpectationAnswer::Met);
    assert!(Actual::new(DocumentKind::Plain, json(&("[".repeat(200) + &"]".repeat(200)))).is_err());
}

#[test]
fn logic_as_deep_as_it_can_be() {
    let nested = |depth: usize| {
        let expectation = "{\"not\": ".repeat(depth) + "{\"value\": 1}" + &"}".repeat(depth);
        format!("{{\"depth\": 50, \"expectations\": {{\"it\": {expectation}}}}}")
    };
    let deepest = sound(&nested(50));
    assert_eq!(outcomes(&deepest, &detected("1"))[0].answer, ExpectationAnswer::Met);
    assert_eq!(refused(&nested(51)), "logic is nested 51 deep; 50 is the most");
    assert_eq!(refused(&nested(190)), "logic is nested 51 deep; 50 is the most");
    let paths = "{\"a\": ".repeat(190) + "1" + &"}".repeat(190);
    let into = sound(&format!("{{\"value\": {paths}}}"));
    assert_eq!(outcomes(&into, &detected(&paths))[0].answer, ExpectationAnswer::Met);
    let each = "{\"each\": ".repeat(190) + "1" + &"}".repeat(190);
    let lists = sound(&format!("{{\"value\": {each}}}"));
    assert_eq!(outcomes(&lists, &detected("[[[[1]]]]"))[0].answer, ExpectationAnswer::NotEvaluable);
}

#[test]
fn texts_of_a_megabyte() {
    let long = "ab ".repeat(350_000);
    let actual = Actual::new(DocumentKind::Plain, Value::from(format!("{long}É!")))
        .unwrap_or_else(|_| panic!("a text"));
    for (check, expected) in [
        (format!(r#"{{"contains": "{long}"}}"#), ExpectationAnswer::Met),
        (format!(r#"{{"iStartsWith": "{}"}}"#, long.to_uppercase()), ExpectationAnswer::Met),
        (r#"{"iContains": "é!"}"#.to_owned(), ExpectationAnswer::Met),
        (r#"{"matches": "(a|b| )*É!$"}"#.to_owned(), ExpectationAnswer::Met),
        (r#"{"eq": 5}"#.to_owned(), ExpectationAnswer::Unmet),
        (r#"{"gt": 5}"#.to_owned(), ExpectationAnswer::NotEvaluable),
        (r#"{"length": 1050002}"#.to_owned(), ExpectationAnswer::Met),
    ] {
        let expectations = sound(&format!("{{\"value\": {check}}}"));
        assert_eq!(answer(&expectations, &actual), expected);
        let outcome = outcomes(&expectations, &actual).remove(0);
        assert!(outcome.reason.len() < 1000, "a reason is short: {}", outcome.reason.len());
    }
    let digits = "9".repeat(1_000_000);
    let actual = Actual::new(DocumentKind::Plain, Value::from(digits)).unwrap_or_else(|_| panic!("a text"));
    assert_eq!(answer(&sound(r#"{"value": {"gt": 5}}"#), &actual), ExpectationAnswer::NotEvaluable);
}

#[test]
fn lists_of_a_hundred_thousand_items() {
    let actual = detected(&numbers(100_000));
    for (check, expected) in [
        (r#"{"each": {"gte": 0, "lt": 100000}}"#, ExpectationAnswer::Met),
        (r#"{"each": {"ne": 99999}}"#, ExpectationAnswer::Unmet),
        (r#"{"some": {"eq": 100000}}"#, ExpectationAnswer::Unmet),
        (r#"{"none": {"gt": "5 DOT"}}"#, ExpectationAnswer::NotEvaluable),
        (r#"{"atLeast": {"count": 50000, "of": {"gte": 50000}}}"#, ExpectationAnswer::Met),
        (r#"{"contains": 99999}"#, ExpectationAnswer::Met),
        (r#"{"length": 100000}"#, ExpectationAnswer::Met),
    ] {
        let expectations = sound(&format!("{{\"value\": {check}}}"));
        assert_eq!(answer(&expectations, &actual), expected, "{check}");
        let outcome = outcomes(&expectations, &actual).remove(0);
        assert_eq!(outcome.answer, expected, "{check}");
        assert!(outcome.reason.len() < 1000, "{}", outcome.reason);
    }
}

#[test]
fn lists_that_are_compared_with_lists() {
    let many = numbers(100_000);
    let actual = detected(&many);
    for operator in ["subset", "containsAll", "containsAny"] {
        let expectations = sound(&format!("{{\"value\": {{\"{operator}\": {many}}}}}"));
        assert_eq!(answer(&expectations, &actual), ExpectationAnswer::Met, "{operator}");
    }
    // Numbers may be written as texts, so what is not found at once is compared with each; that has an end.
    let texts: Vec<String> = (0..100_000).map(|number| format!("\"{number}.0\"")).collect();
    for (operator, expected) in [
        ("subset", ExpectationAnswer::NotEvaluable),
        ("containsAll", ExpectationAnswer::NotEvaluable),
        ("containsAny", ExpectationAnswer::Met),
    ] {
        let text = format!("{{\"value\": {{\"{operator}\": [{}]}}}}", texts.join(","));
        let outcome = outcomes(&sound(&text), &actual).remove(0);
        assert_eq!(outcome.answer, expected, "{operator}: {}", outcome.reason);
        assert!(outcome.reason.len() < 1000, "{}", outcome.reason);
    }
    let strangers: Vec<String> = (0..100_000).map(|number| format!("\"x{number}\"")).collect();
    for (operator, expected) in [
        ("subset", ExpectationAnswer::Unmet),
        ("containsAll", ExpectationAnswer::Unmet),
        ("containsAny", ExpectationAnswer::NotEvaluable),
    ] {
        let text = format!("{{\"value\": {{\"{operator}\": [{}]}}}}", strangers.join(","));
        let outcome = outcomes(&sound(&text), &actual).remove(0);
        assert_eq!(outcome.answer, expected, "{operator}: {}", outcome.reason);
        assert!(outcome.reason.len() < 1000, "{}", outcome.reason);
    }
}

#[test]
fn groups_of_ten_thousand_members() {
    for (key, value, expected) in [("all", 1, ExpectationAnswer::Met), ("any", 2, ExpectationAnswer::Unmet)] {
        let members = vec![format!("{{\"value\": {value}}}"); 10_000];
        let expectations = sound(&format!("{{\"{key}\": [{}]}}", members.join(",")));
        assert_eq!(answer(&expectations, &detected("1")), expected);
        assert_eq!(outcomes(&expectations, &detected("1")).remove(0).answer, expected);
    }
    let members = vec!["{\"value\": 1, \"weight\": 0.1}".to_owned(); 10_000];
    let scored = sound(&format!("{{\"threshold\": 1, \"all\": [{}]}}", members.join(",")));
    assert_eq!(answer(&scored, &detected("1")), ExpectationAnswer::Met);
}

#[test]
fn files_of_ten_thousand_expectations() {
    let mut text = String::from("[{\"value\": 1}");
    for _ in 1..10_000 {
        text.push_str(",{\"value\": 1}");
    }
    text.push(']');
    let expectations = sound(&text);
    assert_eq!(outcomes(&expectations, &detected("1")).len(), 10_000);
    let unnamed = text.replace("{\"value\": 1}", "{\"valeu\": 1}");
    let (none, problems) = loaded(&unnamed, DataFormat::Json);
    assert!(none.is_none() && problems.len() <= 201, "{}", problems.len());
}

#[test]
fn plans_and_parameters_of_a_thousand() {
    let mut params = String::new();
    for at in 0..1_000 {
        let _ = write!(params, "{}\"p{at}\": {at}", if at > 0 { ", " } else { "" });
    }
    let step = format!("{{\"agent\": \"A\", \"params\": {{{params}}}}}");
    let expectations = sound(&format!("{{\"expectedAgent\": \"A\", \"expectedParams\": {{{params}}}}}"));
    let plan = vec![step.as_str(); 100].join(",").replace("\"p999\": 999", "\"p999\": 0");
    let actual = detected(&format!("{{\"plan\": [{plan}]}}"));
    assert_eq!(answer(&expectations, &actual), ExpectationAnswer::Unmet);
    assert_eq!(outcomes(&expectations, &actual).remove(0).answer, ExpectationAnswer::Unmet);
}

/// Everybody takes the last step that is free, so each newcomer moves all others on.
#[test]
fn two_thousand_expectations_with_steps_of_their_own() {
    let many = 2_000;
    let mut file = String::from("{\"distinct\": true, \"expectations\": [");
    for at in 0..many {
        let _ = write!(
            file,
            "{}{{\"expectedAmount\": {{\"gte\": {}}}}}",
            if at > 0 { "," } else { "" },
            many - at
        );
    }
    file.push_str("]}");
    let steps: Vec<String> = (1..=many)
        .map(|amount| format!("{{\"agent\": \"A\", \"params\": {{\"amount\": {amount}}}}}"))
        .collect();
    let expectations = sound(&file);
    let enough = detected(&format!("{{\"plan\": [{}]}}", steps.join(",")));
    assert_eq!(answer(&expectations, &enough), ExpectationAnswer::Met);
    let short = detected(&format!("{{\"plan\": [{}]}}", steps[1..].join(",")));
    assert_eq!(answer(&expectations, &short), ExpectationAnswer::Unmet);
}

#[test]
fn regular_expressions_of_extreme_size() {
    let long = format!("{{\"value\": {{\"matches\": \"{}\"}}}}", "a".repeat(1_000_000));
    assert_eq!(refused(&long), "the regular expression takes more than 1 MiB when it is compiled");
    let many = r#"{"value": {"matches": "((a{100}){100}){100}"}}"#;
    assert_eq!(refused(many), "the regular expression takes more than 1 MiB when it is compiled");
    let deep = format!("{{\"value\": {{\"matches\": \"{}a{}\"}}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(refused(&deep).starts_with("not a regular expression: exceed the maximum number of nested"));
    let slow = sound(r#"{"value": {"matches": "^(a+)+$"}}"#);
    let actual = Actual::new(DocumentKind::Plain, Value::from("a".repeat(100_000) + "b"))
        .unwrap_or_else(|_| panic!("a text"));
    assert_eq!(answer(&slow, &actual), ExpectationAnswer::Unmet);
}

#[test]
fn numbers_of_extreme_size() {
    let digits = "9".repeat(9_000);
    let actual = detected(&digits);
    let near = sound(&format!(
        "{{\"value\": {{\"gte\": {digits}, \"approx\": {{\"value\": {digits}, \"tolerance\": \"1%\"}}}}}}"
    ));
    assert_eq!(answer(&near, &actual), ExpectationAnswer::Met);
    for check in [
        r#"{"approx": {"value": 1e9999, "tolerance": "1%"}}"#,
        r#"{"between": [-1e9999, 1e9999]}"#,
        r#"{"lt": "1e9999 DOT"}"#,
    ] {
        let (expectations, problems) = loaded(&format!("{{\"value\": {check}}}"), DataFormat::Json);
        assert!(expectations.is_some() || !problems.is_empty());
        if let Some(expectations) = expectations {
            outcomes(&expectations, &actual);
        }
    }
}

/// A pattern from the document is compiled once, not for every item.
#[test]
fn expected_values_from_the_document_for_every_item() {
    let pattern = "[a-z]{1,40}".repeat(20);
    let document =
        format!(r#"{{"text": "", "facts": {{"pattern": "{pattern}", "list": {}}}}}"#, numbers(20_000));
    let expectations = sound(r#"{"facts.list": {"none": {"matches": "${facts.pattern}"}}}"#);
    assert_eq!(answer(&expectations, &detected(&document)), ExpectationAnswer::Met);
}

/// What aliases repeat is many times as large as the file.
#[test]
fn aliases_that_double() {
    let mut file = String::from("expectations:\n  a0: &a0 {value: 1}\n");
    for at in 1..30 {
        let _ = writeln!(file, "  a{at}: &a{at} {{all: [*a{0}, *a{0}]}}", at - 1);
    }
    let (expectations, problems) = loaded(&file, DataFormat::Yaml);
    assert!(expectations.is_none() && !problems.is_empty());
    let mut values = String::from("value:\n  in:\n    - &a0 [1, 1]\n");
    for at in 1..60 {
        let _ = writeln!(values, "    - &a{at} [*a{0}, *a{0}]", at - 1);
    }
    let (expectations, problems) = loaded(&values, DataFormat::Yaml);
    match expectations {
        Some(expectations) => {
            outcomes(&expectations, &detected("[[1, 2], [1, 2]]"));
        }
        None => assert!(!problems.is_empty()),
    }
}
