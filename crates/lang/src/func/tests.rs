//! One table per group: a function, its arguments as JSON, and its result as JSON or the error.

use super::measure::{self, MeasuredForm};
use super::{
    Body, FUNCTIONS, FuncError, Function, FunctionCall, FunctionGroup, ParamKind, PatternCache, find, json,
};
use crate::data;
use crate::limits::Limits;
use crate::value::{JsonStyle, MAX_DEPTH, Number, Value};

/// An element expression: `it`, a field, or one that fails.
#[derive(Clone, Copy)]
enum Element {
    It,
    Field(&'static str),
    Fails,
}

fn read(json: &str) -> Value {
    match data::json::read_value(json, &Limits::DEFAULT) {
        Ok(value) => value,
        Err(error) => panic!("{json}: {error}"),
    }
}

fn run(name: &str, args: &[Value], element: Option<Element>, limits: &Limits) -> Result<Value, FuncError> {
    let function = find(name).unwrap_or_else(|| panic!("no function `{name}`"));
    assert!(is_plain(function), "`{name}` is not plain");
    let mut apply = |_: usize, item: &Value| match element {
        Some(Element::Field(name)) => item.get(name).cloned().ok_or(FuncError::Element),
        Some(Element::Fails) => Err(FuncError::Element),
        _ => Ok(item.clone()),
    };
    let mut fuel = limits.operations;
    let element = element.is_some().then_some(&mut apply as super::ElementFn<'_>);
    let (fuel, patterns) = (&mut fuel, &mut PatternCache::default());
    function.body.run(&mut FunctionCall {
        args,
        stream: None,
        room: u64::MAX,
        element,
        limits,
        fuel,
        patterns,
    })
}

/// Whether a function is carried out by itself.
fn is_plain(function: &Function) -> bool {
    !matches!(function.body, Body::Exists | Body::Default | Body::Binding)
}

fn show(result: Result<Value, FuncError>) -> String {
    match result {
        Ok(value) => value.to_json(JsonStyle::Compact),
        Err(FuncError::Missing(why)) => format!("missing: {why}"),
        Err(FuncError::Type { arg, expected, got }) => {
            format!("type: {arg} must be {expected}, not {got}")
        }
        Err(FuncError::Op(op, error)) => format!("op: {op} {error:?}"),
        Err(FuncError::ElementType { index, expected, got }) => {
            format!("element {index}: {}, not {expected}", got.with_article())
        }
        Err(FuncError::Value { arg, why, hint: None }) => format!("value: {arg} {why}"),
        Err(FuncError::Value { arg, why, hint: Some(hint) }) => format!("value: {arg} {why}; hint: {hint}"),
        Err(FuncError::Number(error)) => format!("number: {error:?}"),
        Err(FuncError::Limit(limit)) => format!("limit: {}", limit.name()),
        Err(FuncError::Feature(name)) => format!("feature: {name}"),
        Err(FuncError::Element) => "element".to_owned(),
    }
}

fn check(name: &str, args: &[&str], expected: &str) {
    let values: Vec<Value> = args.iter().map(|arg| read(arg)).collect();
    assert_eq!(show(run(name, &values, None, &Limits::DEFAULT)), expected, "{name}{args:?}");
}

fn check_by(name: &str, args: &[&str], element: Element, expected: &str) {
    let values: Vec<Value> = args.iter().map(|arg| read(arg)).collect();
    assert_eq!(show(run(name, &values, Some(element), &Limits::DEFAULT)), expected, "{name}{args:?}");
}

fn check_limited(name: &str, args: &[&str], limits: &Limits, expected: &str) {
    let values: Vec<Value> = args.iter().map(|arg| read(arg)).collect();
    assert_eq!(show(run(name, &values, None, limits)), expected, "{name}{args:?}");
}

fn plain() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().filter(|function| is_plain(function))
}

#[test]
fn the_table_is_sorted_and_complete() {
    assert!(FUNCTIONS.is_sorted_by(|a, b| a.name < b.name));
    for function in FUNCTIONS {
        let name = function.name;
        assert!(find(name).is_some_and(|found| std::ptr::eq(found, function)), "{name}");
        assert_eq!(function.examples.is_empty(), function.group == FunctionGroup::Binding, "{name}");
        assert!((1..=function.params.len()).contains(&function.required), "{name}");
        assert!(!function.doc.is_empty() && !function.doc.ends_with('.'), "{name}");
        let (_, before) = function.params.split_last().expect("a parameter");
        assert!(before.iter().all(|param| param.kind != ParamKind::Rest), "{name}");
        assert_eq!(function.params[0].kind, ParamKind::Value, "{name}");
        for (source, json) in function.examples {
            assert!(source.contains(name), "{name}: {source}");
            assert_eq!(read(json).to_json(JsonStyle::Compact), *json, "{name}");
        }
    }
    assert!(find("nothing").is_none());
    let parameter =
        |name, arg| find(name).and_then(|function| function.parameter(arg)).map(|param| param.name);
    assert_eq!(parameter("sort_by", 1), Some("order"));
    assert_eq!(parameter("min", 0), Some("list"));
    assert_eq!(parameter("min", 5), Some("value"));
}

#[cfg(all(feature = "regex", feature = "time", feature = "codec", feature = "yaml"))]
#[test]
fn the_examples_hold() {
    use crate::{Expression, NoWorld, Scope, Session, Syntax};
    for function in FUNCTIONS {
        for (source, json) in function.examples {
            let expression = match Expression::parse(*source, &Syntax::DEFAULT) {
                Ok(expression) => expression,
                Err(error) => panic!("{source}: {error}"),
            };
            let mut world = NoWorld;
            match expression.value(&Scope::new(), &mut Session::new(&mut world)) {
                Ok(value) => assert_eq!(value.to_json(JsonStyle::Compact), *json, "{source}"),
                Err(error) => panic!("{source}: {error}"),
            }
        }
    }
}

#[test]
fn every_function_of_the_design_is_there() {
    let names = "exists default len count abs min max sum avg median round int float number text bool upper lower \
        trim split join replace starts_with ends_with contains matches lines slug keys values items first last \
        reverse sort sort_by unique flatten where each group_by collect from_json to_json from_yaml to_yaml url \
        base64 sha256 format_date duration extract seconds_between json words as_file raw";
    for name in names.split_whitespace() {
        assert!(FUNCTIONS.iter().any(|function| function.name == name), "{name} is missing");
    }
}

#[test]
fn numbers() {
    for (name, args, expected) in [
        ("abs", &["-3"][..], "3"),
        ("abs", &["-2.50"], "2.50"),
        ("abs", &["-9223372036854775808"], "9223372036854775808"),
        ("abs", &[r#""3""#], "type: 0 must be a number, not text"),
        ("round", &["2.5"], "3"),
        ("round", &["-2.5"], "-3"),
        ("round", &["2.4999"], "2"),
        ("round", &["2.345", "2"], "2.35"),
        ("round", &["1e3", "1"], "1000.0"),
        ("round", &["7", "2"], "7"),
        ("round", &["1.5", "-1"], "value: 1 must be from 0 to 10000"),
        ("round", &["1.5", "99999999999999999999"], "value: 1 must be from 0 to 10000"),
        ("round", &["1.5", "1.0"], "type: 1 must be an int, not decimal"),
        ("round", &["null"], "type: 0 must be a number, not null"),
        ("round", &["1e10000", "1"], "limit: digits of a number"),
        ("sum", &["[]"], "0"),
        ("sum", &["[1, 2.5]"], "3.5"),
        ("sum", &["[0.1, 0.2]"], "0.3"),
        ("sum", &["[9223372036854775807, 1]"], "9223372036854775808"),
        ("sum", &["[1, null]"], "value: 0 the element at index 1 is null, not a number"),
        (
            "sum",
            &[r#"[1, "2"]"#],
            "value: 0 the element at index 1 is text, not a number; hint: `number(...)` reads a text as a number",
        ),
        ("sum", &["{}"], "type: 0 must be a list, not object"),
        ("sum", &["[1e10000, 1e-10000]"], "limit: digits of a number"),
        ("avg", &["[]"], "missing: the list is empty"),
        ("avg", &["[1, 2]"], "1.5"),
        ("avg", &["[2, 4]"], "3.0"),
        ("avg", &["[0.1, 0.2, 0.3]"], "0.2"),
        ("avg", &["[-0.1, -0.2, -0.3]"], "-0.2"),
        ("avg", &["[1e-300, 3e-300]"], "2e-300"),
        ("avg", &["[0.0, 0.00]"], "0.0"),
        ("avg", &["[1e400, 1e400]"], "1e400"),
        ("avg", &["[9007199254740993, 9007199254740993]"], "9007199254740993.0"),
        ("median", &["[]"], "missing: the list is empty"),
        ("median", &["[5, 1, 3]"], "3.0"),
        ("median", &["[4, 1, 2, 3]"], "2.5"),
        ("median", &["[0.1, 0.2]"], "0.15"),
        ("median", &["[1e400]"], "1e400"),
        ("median", &["[true]"], "value: 0 the element at index 0 is a bool, not a number"),
        ("min", &["[3, 1, 2]"], "1"),
        ("min", &["[1.0, 1]"], "1.0"),
        ("min", &[r#"["b", "a"]"#], r#""a""#),
        ("min", &["[]"], "missing: the list is empty"),
        ("min", &["3", "1", "2"], "1"),
        ("min", &[r#""b""#, r#""a""#], r#""a""#),
        ("min", &["5"], "type: 0 must be a list or several values, not int"),
        ("min", &["1", r#""a""#], "type: 1 must be a number, as the first is, not text"),
        ("min", &[r#""a""#, "1"], "type: 1 must be text, as the first is, not int"),
        ("min", &["[1]", "[2]"], "type: 0 must be a number or text, not list"),
        ("min", &["1", "null"], "type: 1 must be a number, as the first is, not null"),
        ("min", &["[null]"], "value: 0 the element at index 0 is null, not a number or text"),
        (
            "max",
            &[r#"[1, 2.5, "a"]"#],
            "value: 0 an int at index 0 and text at index 2 have no order; \
             hint: make them alike with `number(...)` or `text(...)`",
        ),
        ("max", &["[3, 9007199254740993, 9007199254740992]"], "9007199254740993"),
        ("max", &["1", "2.5", "2"], "2.5"),
        ("max", &["[true]"], "value: 0 the element at index 0 is a bool, not a number or text"),
    ] {
        check(name, args, expected);
    }
}

#[test]
fn numbers_of_an_element_expression() {
    let list = r#"[{"n": 3}, {"n": 1.5}]"#;
    for (name, args, expected) in [
        ("sum", &[list][..], "4.5"),
        ("avg", &[list], "2.25"),
        ("median", &[list], "2.25"),
        ("min", &[list], "1.5"),
        ("max", &[list], "3"),
        ("sum", &[r#"[{"n": 1}, {}]"#], "element"),
        ("sum", &[r#"[{"n": true}]"#], "element 0: a bool, not a number"),
        ("min", &["5"], "type: 0 must be a list before an expression over its elements, not int"),
        (
            "min",
            &[list, "1"],
            "value: 1 nothing may follow the expression over the elements; hint: put the values into a list",
        ),
    ] {
        check_by(name, args, Element::Field("n"), expected);
    }
}

#[test]
fn a_quotient_that_does_not_end_has_34_digits() {
    let third = Number::int(1).div(&Number::int(3)).expect("a quotient");
    let list = Value::list(vec![Value::from(third.clone()), Value::from(third)]).expect("a list");
    for (name, expected) in [
        ("sum", "0.6666666666666666666666666666666666"),
        ("avg", "0.3333333333333333333333333333333333"),
        ("median", "0.3333333333333333333333333333333333"),
        ("unique", "[0.3333333333333333333333333333333333]"),
    ] {
        assert_eq!(show(run(name, std::slice::from_ref(&list), None, &Limits::DEFAULT)), expected, "{name}");
    }
}

#[test]
fn conversions() {
    let not_a_number =
        "value: 0 the text is not a number; hint: numbers are written like `42`, `-3.10` or `1e6`";
    let not_whole = "value: 0 the number is not whole; hint: `round(...)` gives the nearest int";
    for (name, arg, expected) in [
        ("int", r#""42""#, "42"),
        ("int", r#"" -7\n""#, "-7"),
        ("int", r#""85.0""#, "85"),
        ("int", "85.0", "85"),
        ("int", "1e3", "1000"),
        ("int", "true", "1"),
        ("int", "false", "0"),
        ("int", "2.7", not_whole),
        ("int", r#""2.7""#, not_whole),
        ("int", r#""x""#, not_a_number),
        ("int", "null", "type: 0 must be a number, text or a bool, not null"),
        ("int", "1e10000", "limit: digits of a number"),
        ("int", "1e-10000", not_whole),
        ("number", r#"" 3.10 ""#, "3.10"),
        ("number", r#""12345678901234567890123""#, "12345678901234567890123"),
        ("number", "3.10", "3.10"),
        ("number", r#""""#, not_a_number),
        ("number", r#""007""#, not_a_number),
        ("number", r#""1 2""#, not_a_number),
        ("number", r#""0x10""#, not_a_number),
        ("number", r#""NaN""#, not_a_number),
        ("number", r#""1e99999""#, "limit: digits of a number"),
        ("number", "true", "type: 0 must be a number or text, not bool"),
        ("float", "3", "3.0"),
        ("float", "0.1", "0.1"),
        ("float", r#""2.50""#, "2.50"),
        ("float", "1e400", "1e400"),
        ("float", "[]", "type: 0 must be a number or text, not list"),
        ("text", "85.0", r#""85.0""#),
        ("text", "null", r#""""#),
        ("text", r#"{"a": [1, "b"]}"#, r#""{\"a\":[1,\"b\"]}""#),
        ("text", r#""x""#, r#""x""#),
        ("bool", "true", "true"),
        ("bool", r#""false""#, "false"),
        ("bool", r#""yes""#, "value: 0 the text is neither `true` nor `false`"),
        ("bool", r#""True""#, "value: 0 the text is neither `true` nor `false`"),
        ("bool", "1", "type: 0 must be a bool or text, not int"),
        ("bool", "null", "type: 0 must be a bool or text, not null"),
    ] {
        check(name, &[arg], expected);
    }
}

#[test]
fn texts() {
    for (name, args, expected) in [
        ("upper", &[r#""straße""#][..], r#""STRASSE""#),
        ("upper", &["1"], "type: 0 must be text, not int"),
        ("lower", &[r#""ÀΣ""#], r#""àς""#),
        ("lower", &["null"], "type: 0 must be text, not null"),
        ("trim", &[r#""  a b\n""#], r#""a b""#),
        ("trim", &[r#""ab""#], r#""ab""#),
        ("trim", &["[]"], "type: 0 must be text, not list"),
        ("split", &[r#""a,b,,c""#, r#"",""#], r#"["a","b","","c"]"#),
        ("split", &[r#""  two  words ""#], r#"["two","words"]"#),
        ("split", &[r#""""#], "[]"),
        ("split", &[r#""""#, r#"",""#], r#"[""]"#),
        ("split", &[r#""a""#, r#""""#], "value: 1 the separator is empty"),
        ("split", &[r#""a""#, "1"], "type: 1 must be text, not int"),
        ("join", &[r#"["a", "b"]"#, r#"", ""#], r#""a, b""#),
        ("join", &["[1, null, true, [2], 85.0]", r#""-""#], r#""1--true-[2]-85.0""#),
        ("join", &["[]", r#"",""#], r#""""#),
        ("join", &["[1, 2]"], r#""12""#),
        ("join", &[r#""ab""#], "type: 0 must be a list, not text"),
        ("join", &["[]", "1"], "type: 1 must be text, not int"),
        ("replace", &[r#""a-b-c""#, r#""-""#, r#""__""#], r#""a__b__c""#),
        ("replace", &[r#""aaa""#, r#""aa""#, r#""b""#], r#""ba""#),
        ("replace", &[r#""a.b""#, r#"".""#, r#""""#], r#""ab""#),
        ("replace", &[r#""ab""#, r#""x""#, r#""y""#], r#""ab""#),
        ("replace", &[r#""a""#, r#""""#, r#""b""#], "value: 1 the text to replace is empty"),
        ("replace", &[r#""a""#, r#""a""#, "1"], "type: 2 must be text, not int"),
        ("starts_with", &[r#""abc""#, r#""ab""#], "true"),
        ("starts_with", &[r#""abc""#, r#""b""#], "false"),
        ("starts_with", &["[1]", "1"], "type: 0 must be text, not list"),
        ("ends_with", &[r#""abc""#, r#""bc""#], "true"),
        ("ends_with", &[r#""abc""#, "1"], "type: 1 must be text, not int"),
        ("contains", &[r#""abc""#, r#""b""#], "true"),
        ("contains", &["[1, 2]", "2.0"], "true"),
        ("contains", &["[1, 2]", "[2]"], "false"),
        ("contains", &[r#"{"a": null}"#, r#""a""#], "true"),
        ("contains", &[r#""abc""#, "1"], "op: in Types(Int, Text)"),
        ("contains", &["{}", "1"], "op: in Types(Int, Object)"),
        ("contains", &["5", "1"], "type: 0 must be text, a list or an object, not int"),
        ("lines", &[r#""a\nb\r\n\nc\n""#], r#"["a","b","","c"]"#),
        ("lines", &[r#""""#], "[]"),
        ("lines", &[r#"["a"]"#], "type: 0 must be text, not list"),
        ("slug", &[r#""Fix: the  Parser!""#], r#""fix-the-parser""#),
        ("slug", &[r#""--a__b--""#], r#""a-b""#),
        ("slug", &[r#""日本""#], "value: 0 no ASCII letter or digit to keep"),
        ("slug", &[r#""""#], "value: 0 no ASCII letter or digit to keep"),
        ("slug", &["1"], "type: 0 must be text, not int"),
    ] {
        check(name, args, expected);
    }
}

#[cfg(feature = "regex")]
#[test]
fn patterns() {
    let text = r#""error 42\nnext""#;
    for (pattern, expected) in [
        (r#""\\d+""#, "true"),
        (r#""^next""#, "false"),
        (r#""(?m)^next""#, "true"),
        (r#""""#, "true"),
        (r#""(""#, "value: 1 not a regular expression: unclosed group"),
        (
            r#""[z-a]""#,
            "value: 1 not a regular expression: invalid character class range, the start must be <= the end",
        ),
        (r#""a(?=b)""#, "value: 1 not a regular expression: look-ahead and look-behind are not supported"),
        (r#""(?<!a)b""#, "value: 1 not a regular expression: look-ahead and look-behind are not supported"),
        (r#""(a)\\1""#, "value: 1 not a regular expression: back-references are not supported"),
        (r#""(\\w{100}){100}""#, "limit: size of a compiled pattern"),
        ("1", "type: 1 must be text, not int"),
    ] {
        check("matches", &[text, pattern], expected);
    }
    check("matches", &["1", r#""a""#], "type: 0 must be text, not int");
    let limits = Limits { regex: 100, ..Limits::DEFAULT };
    check_limited("matches", &[text, r#""\\d+""#], &limits, "limit: size of a compiled pattern");
}

#[cfg(feature = "regex")]
#[test]
fn compiled_patterns_come_and_go() {
    for _ in 0..3 {
        for digit in 0..10 {
            let (text, pattern) = (format!("\"a{digit}\""), format!("\"^a{digit}$\""));
            check("matches", &[&text, &pattern], "true");
            check("matches", &["\"b\"", &pattern], "false");
        }
    }
}

#[test]
fn collections() {
    for (name, args, expected) in [
        ("len", &["[1, 2]"][..], "2"),
        ("len", &[r#""héllo""#], "5"),
        ("len", &[r#"{"a": 1}"#], "1"),
        ("len", &["null"], "type: 0 must be text, a list or an object, not null"),
        ("len", &["12"], "type: 0 must be text, a list or an object, not int"),
        ("count", &["[1, 2]"], "2"),
        ("count", &[r#""ab""#], "type: 0 must be a list, not text"),
        ("keys", &[r#"{"b": 1, "a": 2}"#], r#"["b","a"]"#),
        ("keys", &["[1]"], "type: 0 must be an object, not list"),
        ("values", &[r#"{"b": 1, "a": [2]}"#], "[1,[2]]"),
        ("values", &["1"], "type: 0 must be an object, not int"),
        ("items", &[r#"{"a": 1, "b": null}"#], r#"[{"key":"a","value":1},{"key":"b","value":null}]"#),
        ("items", &["{}"], "[]"),
        ("items", &["[]"], "type: 0 must be an object, not list"),
        ("first", &["[7, 8]"], "7"),
        ("first", &["[]"], "missing: the list is empty"),
        ("first", &["[null]"], "null"),
        ("first", &[r#""ab""#], "type: 0 must be a list, not text"),
        ("last", &["[7, 8]"], "8"),
        ("last", &["[]"], "missing: the list is empty"),
        ("last", &["null"], "type: 0 must be a list, not null"),
        ("reverse", &["[1, 2, 3]"], "[3,2,1]"),
        ("reverse", &[r#""ab""#], "type: 0 must be a list, not text"),
        ("sort", &["[3, 1.5, 2]"], "[1.5,2,3]"),
        ("sort", &["[]"], "[]"),
        ("sort", &[r#"["b", "a", "B"]"#], r#"["B","a","b"]"#),
        ("sort", &["[1, null, 3]", r#""desc""#], "[3,1,null]"),
        ("sort", &["[2, null, 1]", r#""asc""#], "[1,2,null]"),
        ("sort", &["[1.0, 1, 1.00]", r#""desc""#], "[1.0,1,1.00]"),
        ("sort", &["[1]", r#""up""#], "value: 1 must be `asc` or `desc`"),
        ("sort", &["[1]", "true"], "type: 1 must be text, not bool"),
        ("sort", &["[[1]]"], "value: 0 the element at index 0 is a list, not a number or text"),
        (
            "sort",
            &[r#"[null, "a", 1]"#],
            "value: 0 text at index 1 and an int at index 2 have no order; \
             hint: make them alike with `number(...)` or `text(...)`",
        ),
        ("sort", &["{}"], "type: 0 must be a list, not object"),
        ("unique", &["[2, 1, 2.0, 1, 1e0]"], "[2,1]"),
        ("unique", &[r#"[null, "a", null, "a", true, "true"]"#], r#"[null,"a",true,"true"]"#),
        ("unique", &[r#"[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}]"#], r#"[{"a":1,"b":[2]}]"#),
        ("unique", &["[[1, 2], [2, 1], [1, 2]]"], "[[1,2],[2,1]]"),
        ("unique", &["[0, 0.0, -0.0, 10, 1e1, 100e-1, -10]"], "[0,10,-10]"),
        ("unique", &["1"], "type: 0 must be a list, not int"),
        ("flatten", &["[1, [2, [3, []]]]"], "[1,2,[3,[]]]"),
        ("flatten", &["[1, [2, [3, []]]]", "3"], "[1,2,3]"),
        ("flatten", &["[1, [2]]", "0"], "[1,[2]]"),
        ("flatten", &["[1]", "-1"], "value: 1 must be from 0 to 200"),
        ("flatten", &["[1]", r#""1""#], "type: 1 must be an int, not text"),
        ("flatten", &["{}"], "type: 0 must be a list, not object"),
    ] {
        check(name, args, expected);
    }
}

#[test]
fn collections_by_an_element_expression() {
    let list = r#"[{"f": "b", "i": 1}, {"f": "a", "i": 2}, {"f": "b", "i": 3}]"#;
    let flags = r#"[{"f": true, "i": 1}, {"f": false, "i": 2}]"#;
    let nulls = r#"[{"f": null, "i": 1}, {"f": 2, "i": 2}, {"f": 1.5, "i": 3}]"#;
    for (name, args, expected) in [
        ("where", &[flags][..], r#"[{"f":true,"i":1}]"#),
        ("where", &["[]"], "[]"),
        ("where", &[list], "element 0: text, not a bool"),
        ("where", &[r#"[{"f": true}, {"f": 1}]"#], "element 1: an int, not a bool"),
        ("where", &["{}"], "type: 0 must be a list, not object"),
        ("where", &[r#"[{"g": 1}]"#], "element"),
        ("count", &[flags], "1"),
        ("count", &[nulls], "element 0: null, not a bool"),
        ("each", &[list], r#"["b","a","b"]"#),
        ("each", &[r#""ab""#], "type: 0 must be a list, not text"),
        ("collect", &[nulls], "[null,2,1.5]"),
        ("group_by", &[list], r#"{"b":[{"f":"b","i":1},{"f":"b","i":3}],"a":[{"f":"a","i":2}]}"#),
        ("group_by", &[flags], r#"{"true":[{"f":true,"i":1}],"false":[{"f":false,"i":2}]}"#),
        ("group_by", &[r#"[{"f": null}, {"f": ""}]"#], r#"{"":[{"f":null},{"f":""}]}"#),
        ("group_by", &["[]"], "{}"),
        ("group_by", &[r#"[{"f": []}]"#], "element 0: a list, not text, a number, a bool or null"),
        ("sort_by", &[nulls], r#"[{"f":1.5,"i":3},{"f":2,"i":2},{"f":null,"i":1}]"#),
        ("sort_by", &[nulls, r#""desc""#], r#"[{"f":2,"i":2},{"f":1.5,"i":3},{"f":null,"i":1}]"#),
        ("sort_by", &[list], r#"[{"f":"a","i":2},{"f":"b","i":1},{"f":"b","i":3}]"#),
        ("sort_by", &[list, r#""desc""#], r#"[{"f":"b","i":1},{"f":"b","i":3},{"f":"a","i":2}]"#),
        ("sort_by", &[list, r#""down""#], "value: 1 must be `asc` or `desc`"),
        ("sort_by", &[r#"[{"f": 1}, {"f": true}]"#], "element 1: a bool, not a number or text"),
        (
            "sort_by",
            &[r#"[{"f": 1}, {"f": "a"}]"#],
            "value: 0 an int at index 0 and text at index 1 have no order; \
             hint: make them alike with `number(...)` or `text(...)`",
        ),
        ("unique", &[list], r#"[{"f":"b","i":1},{"f":"a","i":2}]"#),
    ] {
        check_by(name, args, Element::Field("f"), expected);
    }
}

#[test]
fn json_texts() {
    for (name, args, expected) in [
        ("from_json", &[r#""{\"a\": [1, 2.50]}""#][..], r#"{"a":[1,2.50]}"#),
        ("from_json", &["[]"], "type: 0 must be text, not list"),
        ("to_json", &[r#"{"a": [1, "b"]}"#], r#""{\"a\":[1,\"b\"]}""#),
        ("to_json", &["[1]", r#""pretty""#], r#""[\n  1\n]""#),
        ("to_json", &["null"], r#""null""#),
        ("to_json", &["1", r#""wide""#], "value: 1 must be `compact` or `pretty`"),
    ] {
        check(name, args, expected);
    }
    let broken = show(run("from_json", &[Value::from("[1,\n 2 x]")], None, &Limits::DEFAULT));
    assert!(broken.starts_with("value: 0 not valid JSON: "), "{broken}");
    assert!(broken.ends_with(", at line 2, column 4"), "{broken}");
}

#[test]
fn json_paths() {
    let source = r#"{"a": {"b": [5, {"c": null}], "0": "zero", "x y": 1, "q\"": 2}, "tool-1": true}"#;
    let unread = "of the path is malformed; hint: paths are written like `a.b[0]` or `a[\"any key\"]`";
    for (path, expected) in [
        ("a.b[0]", "5"),
        ("a.b.0", "5"),
        ("a.b[-2]", "5"),
        ("a.b[-1].c", "null"),
        (" a.b[0] ", "5"),
        ("a.0", r#""zero""#),
        (r#"a["x y"]"#, "1"),
        ("a['x y']", "1"),
        (r#"a["q\""]"#, "2"),
        ("tool-1", "true"),
        (r#"["tool-1"]"#, "true"),
        ("x", "missing: the path leads nowhere"),
        ("a.b[2]", "missing: the path leads nowhere"),
        ("a.b[-3]", "missing: the path leads nowhere"),
        ("a.b[99999999999999999999]", "missing: the path leads nowhere"),
        ("a.b[-99999999999999999999]", "missing: the path leads nowhere"),
        ("a.b[1].c.d", "missing: the path leads nowhere"),
        ("a.b[0].c", "value: 0 step 4 of the path goes into an int"),
        (
            "a[0]",
            "value: 0 step 2 of the path is an index into an object; hint: a key is written like `[\"0\"]`",
        ),
        ("a.b.c", "value: 0 step 3 of the path is a key into a list; hint: an index is written like `[0]`"),
        (
            r#"a.b["0"]"#,
            "value: 0 step 3 of the path is a key into a list; hint: an index is written like `[0]`",
        ),
        ("", "value: 0 the path is empty; hint: `from_json(...)` gives the whole value"),
        ("a..b", &format!("value: 0 step 2 {unread}")),
        (".a", &format!("value: 0 step 1 {unread}")),
        ("a.", &format!("value: 0 step 2 {unread}")),
        ("a[", &format!("value: 0 step 2 {unread}")),
        ("a[]", &format!("value: 0 step 2 {unread}")),
        ("a[0", &format!("value: 0 step 2 {unread}")),
        ("a[x]", &format!("value: 0 step 2 {unread}")),
        ("a[\"x]", &format!("value: 0 step 2 {unread}")),
        (r#"a["\u{41}"]"#, &format!("value: 0 step 2 {unread}")),
        ("a.b[0]c", &format!("value: 0 step 3 {unread}")),
        ("a b", &format!("value: 0 step 1 {unread}")),
    ] {
        let as_value = json::find(path, &read(source), &Limits::DEFAULT);
        assert_eq!(show(as_value), expected, "{path}");
        let as_text = json::find(path, &Value::from(source), &Limits::DEFAULT);
        assert_eq!(show(as_text), expected, "{path}");
    }
    check("json", &[r#""[-1]""#, "[1, 2]"], "2");
    check("json", &[r#""a""#, "5"], "value: 0 step 1 of the path goes into an int");
    check("json", &["1", "[]"], "type: 0 must be text, not int");
    let broken = show(json::find("a", &Value::from("{"), &Limits::DEFAULT));
    assert!(broken.starts_with("value: 1 not valid JSON: "), "{broken}");
}

#[cfg(feature = "yaml")]
#[test]
fn yaml_texts() {
    check("from_yaml", &[r#""[1, 2]""#], "[1,2]");
    check("from_yaml", &["1"], "type: 0 must be text, not int");
    let value = read(r#"{"a": [1, "1", null, 2.50], "b": {"c": true}}"#);
    let yaml = run("to_yaml", std::slice::from_ref(&value), None, &Limits::DEFAULT).expect("YAML");
    assert_eq!(show(run("from_yaml", &[yaml], None, &Limits::DEFAULT)), value.to_json(JsonStyle::Compact));
    let limits = Limits { text_result: 10, ..Limits::DEFAULT };
    check_limited("to_yaml", &[r#"["a long text"]"#], &limits, "limit: size of a text or list");
}

#[cfg(feature = "codec")]
#[test]
fn encodings() {
    for (name, arg, expected) in [
        ("url", r#""a b/ü""#, r#""a%20b%2F%C3%BC""#),
        ("url", r#""AZaz09-._~""#, r#""AZaz09-._~""#),
        ("url", "4.50", r#""4.50""#),
        ("url", "null", "type: 0 must be text, a number or a bool, not null"),
        ("base64", r#""hello""#, r#""aGVsbG8=""#),
        ("base64", r#""""#, r#""""#),
        ("base64", r#""ÿ?>""#, r#""w78/Pg==""#),
        ("base64", "true", r#""dHJ1ZQ==""#),
        ("base64", "[]", "type: 0 must be text, a number or a bool, not list"),
        ("sha256", r#""abc""#, r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#),
        ("sha256", "{}", "type: 0 must be text, a number or a bool, not object"),
    ] {
        check(name, &[arg], expected);
    }
}

#[test]
fn durations() {
    let unread =
        "value: 0 the text is not a duration; hint: write it like `500ms`, `30s`, `5m`, `1h30m` or `2d`";
    for (arg, expected) in [
        (r#""500ms""#, "0.5"),
        (r#""30s""#, "30"),
        (r#""5m""#, "300"),
        (r#""1h""#, "3600"),
        (r#""1h30m""#, "5400"),
        (r#"" 1h 30m ""#, "5400"),
        (r#""2d""#, "172800"),
        (r#""1.5h""#, "5400"),
        (r#""1d2h3m4s5ms""#, "93784.005"),
        (r#""0s""#, "0"),
        (r#""0.25s""#, "0.25"),
        ("30", "30"),
        ("1.50", "1.50"),
        (r#""""#, unread),
        (r#""30""#, unread),
        (r#""s""#, unread),
        (r#""-5s""#, unread),
        (r#""30m1h""#, unread),
        (r#""1s1s""#, unread),
        (r#""5 s""#, unread),
        (r#""1w""#, unread),
        (r#""5M""#, unread),
        (r#""1.s""#, unread),
        (r#""9999999999999999999s""#, unread),
        ("true", "type: 0 must be text or a number, not bool"),
    ] {
        check("duration", &[arg], expected);
    }
}

#[cfg(feature = "time")]
#[test]
fn dates() {
    let time = r#""2024-05-06T23:30:00.25Z""#;
    for (args, expected) in [
        (&[time][..], r#""2024-05-06""#),
        (&[time, r#""%H:%M""#, r#""Europe/Paris""#], r#""01:30""#),
        (&[time, r#""%H:%M %Z""#], r#""23:30 UTC""#),
        (&[time, r#""%H:%M""#, r#""+02:00""#], r#""01:30""#),
        (&[time, r#""%A %e %B %s""#], r#""Monday  6 May 1715038200""#),
        (&[time, r#""""#], r#""""#),
        (&[r#""2024-05-06T23:30:00+02:00""#, r#""%H:%M""#], r#""21:30""#),
        (
            &[time, r#""%H""#, r#""Europe/Pariss""#],
            "value: 2 no time zone has this name; hint: did you mean `Europe/Paris`",
        ),
        (
            &[time, r#""%H""#, r#""new york""#],
            "value: 2 no time zone has this name; hint: did you mean `America/New_York`",
        ),
        (&[time, r#""%H""#, r#""Nowhere/At_All""#], "value: 2 no time zone has this name"),
        (&[time, r#""%H""#, "1"], "type: 2 must be text, not int"),
        (&[time, "1"], "type: 1 must be text, not int"),
        (
            &[r#""2024-05-06""#],
            "value: 0 the text is not a time in RFC 3339; hint: write it like `2024-05-06T07:08:09Z`, with a zone",
        ),
        (&["1715038200"], "type: 0 must be text, not int"),
    ] {
        check("format_date", args, expected);
    }
    for format in [r#""%""#, r#""%!""#, r#""%999Y""#] {
        let result = show(run("format_date", &[read(time), read(format)], None, &Limits::DEFAULT));
        assert!(result.starts_with("value: 1 the format does not hold: "), "{format}: {result}");
    }
    let long = "%255Y".repeat(300);
    assert_eq!(
        show(super::time::strftime("2024-05-06T00:00:00Z", &long, None).map(Value::from)),
        "value: 1 the format is longer than 1024 bytes"
    );
    let limits = Limits { text_result: 10, ..Limits::DEFAULT };
    check_limited("format_date", &[time, r#""%20Y""#], &limits, "limit: size of a text or list");
}

#[cfg(feature = "time")]
#[test]
fn no_format_panics() {
    let times = ["2024-05-06T07:08:09Z", "-009999-01-02T01:59:59Z", "9999-12-30T22:00:00.999999999Z"];
    let flags = [
        "", "-", "0", "_", "^", "#", ":", "::", ":::", ".", "E", "O", "255", "_255", "0255", ".0", ".9",
        ".10",
    ];
    for time in times {
        for flag in flags {
            for directive in (0u8..=127).map(char::from) {
                let format = format!("%{flag}{directive}");
                if let Ok(text) = super::time::strftime(time, &format, Some("America/New_York")) {
                    assert!(text.len() <= 255 + format.len(), "{format:?}");
                }
            }
        }
    }
}

#[test]
fn texts_stay_within_the_limit() {
    let limits = Limits { text_result: 10, ..Limits::DEFAULT };
    let over = "limit: size of a text or list";
    for (name, args, expected) in [
        ("upper", &[r#""ßßßßß""#][..], r#""SSSSSSSSSS""#),
        ("upper", &[r#""ΐΐΐΐ""#], over),
        ("lower", &[r#""ABCDEFGHIJK""#], over),
        ("join", &["[1234, 5678]", r#""--""#], r#""1234--5678""#),
        ("join", &["[1234, 56789]", r#""--""#], over),
        ("join", &["[[[[[[[]]]]]], 1, null, null, null]", r#""-""#], over),
        ("replace", &[r#""aaaaa""#, r#""a""#, r#""bb""#], r#""bbbbbbbbbb""#),
        ("replace", &[r#""aaaaa""#, r#""a""#, r#""bbb""#], over),
        ("text", &["[1,2,3,4]"], r#""[1,2,3,4]""#),
        ("text", &["[1,2,3,4,5]"], over),
        ("to_json", &[r#""1234567\n""#], over),
        ("to_json", &["[1, 2]", r#""pretty""#], over),
    ] {
        check_limited(name, args, &limits, expected);
    }
    #[cfg(feature = "codec")]
    for (name, arg, expected) in [
        ("url", r#""   a""#, r#""%20%20%20a""#),
        ("url", r#""   ab""#, over),
        ("base64", r#""123456""#, r#""MTIzNDU2""#),
        ("base64", r#""1234567""#, over),
        ("sha256", r#""""#, over),
    ] {
        check_limited(name, &[arg], &limits, expected);
    }
}

#[test]
fn loops_spend_operations() {
    let limits = Limits { operations: 3, ..Limits::DEFAULT };
    let over = "limit: operations per evaluation";
    let (list, object, text) = ("[1, 2, 3, 4]", r#"{"a": 1, "b": 2, "c": 3, "d": 4}"#, r#""a\nb\nc\nd""#);
    for (name, arg) in [
        ("avg", list),
        ("collect", list),
        ("each", list),
        ("flatten", list),
        ("group_by", list),
        ("items", object),
        ("join", list),
        ("keys", object),
        ("lines", text),
        ("max", list),
        ("median", list),
        ("min", list),
        ("reverse", list),
        ("sort", list),
        ("sort_by", list),
        ("split", text),
        ("sum", list),
        ("unique", "[[1, 2]]"),
        ("values", object),
        ("where", "[true, true, true, true]"),
    ] {
        check_limited(name, &[arg], &limits, over);
    }
    check_limited("contains", &[list, "9"], &limits, over);
    check_limited("min", &["1", "2", "3", "4"], &limits, over);
    let long = Value::from("a".repeat(4 << 10));
    for function in ["upper", "trim", "len", "from_json", "slug"] {
        assert_eq!(show(run(function, std::slice::from_ref(&long), None, &limits)), over, "{function}");
    }
}

#[test]
fn unique_is_linear() {
    let mut items = Vec::new();
    for index in 0..50_000i64 {
        items.push(Value::object([("id".into(), Value::from(index))]).expect("an object"));
        let large =
            Number::parse(&format!("{}00000000000000000000000000000001", index + 1)).expect("a number");
        items.push(Value::from(large));
        items.push(Value::from(Number::parse(&format!("0.1000000000000000000{index}1")).expect("a number")));
    }
    let count = items.len();
    let list = Value::list(items).expect("a list");
    let unique = run("unique", &[list], None, &Limits::DEFAULT).expect("a list");
    assert_eq!(unique.as_list().map(<[Value]>::len), Some(count));
}

/// A list as deep as values get.
fn deep() -> Value {
    (1..MAX_DEPTH).fold(read("[1]"), |inner, _| Value::list(vec![inner]).expect("a list"))
}

/// A small value in memory, and nearly the largest that a text may be made of.
fn shared() -> Value {
    let doubled = |inner: Value, _| match Value::list(vec![inner.clone(), inner.clone()]) {
        Ok(list) => list,
        Err(_) => inner,
    };
    (0..150).fold(read("[1]"), doubled)
}

#[test]
fn deep_and_shared_values_end() {
    let limits = Limits { text_result: 1 << 20, operations: 100_000, ..Limits::DEFAULT };
    for function in plain() {
        for value in [deep(), shared()] {
            for element in [None, Some(Element::It)] {
                let wrapped = Value::list(vec![value.clone()]);
                let args = [value.clone(), Value::from(200i64)];
                let _ = run(function.name, &args, element, &limits);
                let _ = run(function.name, &args[..1], element, &limits);
                if let Ok(wrapped) = wrapped {
                    let _ = run(function.name, &[wrapped], element, &limits);
                }
            }
        }
    }
    let over = "limit: nesting of data";
    assert_eq!(show(run("items", &[read("{}")], None, &limits)), "[]");
    let object = Value::object([("a".into(), Value::list(vec![]).expect("a list"))]);
    let nested = (2..MAX_DEPTH).fold(object, |inner, _| Value::object([("a".into(), inner?)]));
    let nested = nested.expect("an object");
    assert_eq!(show(run("items", &[nested], None, &limits)), over);
    assert_eq!(show(run("text", &[shared()], None, &limits)), "limit: size of a text or list");
    assert_eq!(show(run("unique", &[shared()], None, &limits)), "limit: operations per evaluation");
    assert_eq!(show(run("flatten", &[deep(), Value::from(200i64)], None, &limits)), "[1]");
}

fn samples() -> Vec<Value> {
    [
        "null",
        "true",
        "0",
        "-3",
        "99999999999999999999999",
        "2.50",
        "-1e10000",
        r#""""#,
        r#""é-[(\n ""#,
        r#""5m""#,
        r#""2024-05-06T07:08:09Z""#,
        r#""desc""#,
        "[]",
        r#"[1, "a", null]"#,
        "[2, 1.5]",
        r#"{"a": [1]}"#,
    ]
    .iter()
    .map(|json| read(json))
    .collect()
}

#[test]
fn no_combination_of_arguments_panics() {
    let samples = samples();
    let tight = Limits { text_result: 3, operations: 4, regex: 64, ..Limits::DEFAULT };
    let try_all = |args: &[Value]| {
        for function in plain() {
            for element in [None, Some(Element::It), Some(Element::Fails)] {
                let _ = run(function.name, args, element, &Limits::DEFAULT);
            }
            let given = args.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
            if let Ok(result) = run(function.name, args, None, &tight) {
                let size = result.as_str().map_or(0, str::len);
                assert!(size <= given.max(tight.text_result), "{}{args:?}", function.name);
            }
        }
    };
    try_all(&[]);
    for a in &samples {
        try_all(std::slice::from_ref(a));
        for b in &samples {
            try_all(&[a.clone(), b.clone()]);
            for c in &samples {
                try_all(&[a.clone(), b.clone(), c.clone()]);
            }
        }
    }
}

#[test]
fn measured_sizes_are_exact() {
    let texts =
        [r#"{"a\"\n": ["\\\t\u0001\u007f", 1.50, null, true, false, {}, []], "é": [[{"b": -7e-20}]]}"#];
    for value in texts.iter().map(|json| read(json)).chain(samples()).chain([deep()]) {
        let text = value.to_string().len();
        let compact = value.to_json(JsonStyle::Compact).len();
        let pretty = value.to_json(JsonStyle::Pretty).len();
        for (form, size) in
            [(MeasuredForm::Text, text), (MeasuredForm::Compact, compact), (MeasuredForm::Pretty, pretty)]
        {
            assert_eq!(measure::size(&value, form, usize::MAX), Some(size), "{value:?}");
            assert_eq!(measure::size(&value, form, size), Some(size), "{value:?}");
            let less = size.checked_sub(1);
            assert_eq!(less.and_then(|less| measure::size(&value, form, less)), None, "{value:?}");
        }
    }
}

/// Values of every shape, the same ones every time.
#[cfg(feature = "yaml")]
fn varied(seed: &mut u64, depth: u32) -> Value {
    const PARTS: [&str; 16] = [
        "a", "\n", " ", "\t", "'", "\"", "\\", "\u{a0}", "\u{85}", "\u{2003}", "\u{feff}", "é", "日", "0",
        ": ", "#",
    ];
    let mut next = |below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    let kind = next(if depth == 0 { 3 } else { 6 });
    let long = if next(8) == 0 { 400 } else { 6 };
    let count = next(long);
    let text: String = (0..count).map(|_| PARTS[usize::try_from(next(16)).unwrap_or(0)]).collect();
    match kind {
        0 => Value::from(text),
        1 => Value::from(count == 3),
        2 => Value::from(Number::decimal(7, count.cast_signed() * 3).expect("a number")),
        3 | 4 => Value::list((0..count % 5).map(|_| varied(seed, depth - 1)).collect()).expect("a list"),
        _ => {
            let entries = (0..count % 5).map(|at| (format!("{at}{text}").into(), varied(seed, depth - 1)));
            Value::object(entries.collect::<Vec<_>>()).expect("an object")
        }
    }
}

#[cfg(feature = "yaml")]
#[test]
fn no_yaml_is_larger_than_measured() {
    let mut seed = 7;
    for round in 0..20_000 {
        let value = varied(&mut seed, round % 8);
        let mut yaml = String::new();
        data::yaml::write(&value, &mut yaml);
        let measured = measure::size(&value, MeasuredForm::Block, usize::MAX).expect("a size");
        assert!(yaml.len() <= measured, "{} > {measured}\n{yaml}", yaml.len());
    }
}
