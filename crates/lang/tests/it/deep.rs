//! Deep and repeating data, deep syntax and long chains of definitions: an answer or a named limit, at once, on a stack
//! of 2 MiB.
#![expect(clippy::unwrap_used, reason = "a case that goes wrong fails the test")]
#![expect(clippy::disallowed_types, reason = "a small stack and a time limit need a thread")]

use std::sync::mpsc;
use std::time::Duration;

use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::func::{FUNCTIONS, FunctionGroup, ParamKind};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Error, Expression, Limits, NoWorld, Scope, ScopeEntry, Session, Syntax, Template,
    Value, World,
};

const STACK: usize = 2 << 20;
/// What takes longer has no bound. Nothing takes a hundredth of it on a quiet machine; a busy one must not fail a test.
const TIME: Duration = Duration::from_mins(5);

/// A large text is no deep one.
fn limits() -> &'static Limits {
    static LIMITS: Limits = Limits { text_result: 1 << 16, operations: 100_000, ..Limits::DEFAULT };
    &LIMITS
}

/// Runs on a small stack, and fails when it does not come to an end.
fn bounded<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || send.send(run())).unwrap();
    let result = receive.recv_timeout(TIME);
    match result {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end: {name}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("panicked: {name}: {:?}", thread.join().is_err()),
    }
}

// ---- data --------------------------------------------------------------------------------------------------

fn nested(levels: usize, leaf: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(leaf, |value, _| wrap(value))
}

fn list(items: Vec<Value>) -> Value {
    Value::list(items).unwrap()
}

fn object(entries: Vec<(&str, Value)>) -> Value {
    Value::object(entries.into_iter().map(|(key, value)| (key.into(), value))).unwrap()
}

/// Lists 200 deep, objects 200 deep, and two equal values that hold one part as often as data may be large, each built
/// by itself.
fn values() -> Vec<(&'static str, Value)> {
    let doubled = |value: Value| Value::list(vec![value.clone(), value.clone()]).unwrap_or(value);
    let repeating = || nested(100, Value::from("x"), doubled);
    vec![
        ("deep", nested(200, Value::from(1i64), |value| list(vec![value]))),
        ("tree", nested(200, Value::from("x"), |value| object(vec![("k", value)]))),
        ("wide", repeating()),
        ("same", repeating()),
        ("keyed", nested(20, Value::NULL, |value| object(vec![("a", value.clone()), ("b", value)]))),
        ("int", Value::from(3i64)),
        ("text", Value::from("x")),
    ]
}

fn scope() -> Scope {
    let entries = values().into_iter().map(|(name, value)| (name.into(), ScopeEntry::Plain(value)));
    Scope::new().with_entries("deep", entries).ok().unwrap()
}

/// Evaluates, prints the error, lists what is read: whatever the answer, it comes.
fn answers(source: String) {
    bounded(&source.clone(), move || {
        let scope = scope();
        let expression = Expression::parse(source.as_str(), &Syntax::DEFAULT).unwrap();
        let mut world = NoWorld;
        let mut session = Session::new(&mut world).limits(limits());
        if let Err(error) = expression.value(&scope, &mut session) {
            let diagnostic = error.diagnostic();
            assert!(diagnostic.notes.iter().all(|note| note.len() < 1000), "{source}");
        }
        let _ = session.take_warnings();
    });
}

#[test]
fn every_operator_takes_deep_data() {
    let names: Vec<&str> = values().iter().map(|(name, _)| *name).collect();
    for left in &names {
        for right in &names {
            for op in ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
            {
                answers(format!("{left} {op} {right}"));
            }
            answers(format!("{left}[{right}]"));
            answers(format!("{left}[{right}:]"));
            answers(format!("[{left}] == [{right}]"));
            answers(format!("{left} if {right} else {left}"));
            answers(format!("{left} and {right}"));
        }
        for source in [
            "not NAME",
            "- NAME",
            "[NAME, NAME]",
            "{\"k\": NAME}",
            "'-${NAME}-'",
            "NAME[0:1]",
            "NAME.k",
            "${NAME:-x}",
        ] {
            answers(source.replace("NAME", left));
        }
    }
}

#[test]
fn every_built_in_takes_deep_data() {
    let names: Vec<&str> = values().iter().map(|(name, _)| *name).collect();
    for function in FUNCTIONS.iter().filter(|function| function.group != FunctionGroup::Binding) {
        for first in &names {
            for other in &names {
                for count in function.required..=function.params.len() {
                    let args: Vec<String> = function.params[..count]
                        .iter()
                        .enumerate()
                        .map(|(at, param)| match param.kind {
                            ParamKind::Element => "\"it\"".to_owned(),
                            _ if at == 0 => (*first).to_owned(),
                            _ => (*other).to_owned(),
                        })
                        .collect();
                    answers(format!("{}({})", function.name, args.join(", ")));
                    if count == 1 {
                        answers(format!("{}([{first}, {other}])", function.name));
                    }
                }
            }
        }
    }
}

#[test]
fn deep_data_in_texts_documents_and_computed_values() {
    struct Echo;
    impl World for Echo {
        fn compute(&mut self, _name: &str, args: &[Value]) -> Result<Value, ComputeError> {
            Ok(args.first().cloned().unwrap_or_default())
        }
    }
    for (name, value) in values() {
        bounded(name, move || {
            let scope = scope();
            for source in
                ["${NAME}", "a ${NAME} b", "${= [NAME] }", "${NAME.x:-y}", "${file(NAME)}", "${= '${NAME}' }"]
            {
                let source = source.replace("NAME", name);
                let template = Template::parse(source.as_str(), &Syntax::DEFAULT).unwrap();
                let mut world = Echo;
                let mut session = Session::new(&mut world).limits(limits()).traced();
                if let Err(error) = template.value(&scope, &mut session) {
                    let _ = error.diagnostic();
                }
                let mut out = String::new();
                if let Err(error) = template.text(&scope, &mut session, &mut out) {
                    assert!(out.is_empty());
                    let _ = error.diagnostic();
                }
                let _ = template.check(&scope);
            }
            let document =
                Document::from_value(&list(vec![Value::from("${int}"), Value::NULL]), &Syntax::DEFAULT);
            let _ = document.unwrap().references();
            let _ = threadline_lang::diag::preview(&value);
        });
    }
}

#[test]
fn a_document_of_200_levels_is_read_resolved_and_printed() {
    bounded("document", || {
        for (open, close) in [("[", "]"), ("{\"k\":", "}")] {
            for (levels, expected) in [(200, true), (201, false), (100_000, false)] {
                for leaf in ["1", "\"${int}\""] {
                    let text = format!("{}{leaf}{}", open.repeat(levels), close.repeat(levels));
                    for format in [DataFormat::Json, DataFormat::Yaml] {
                        assert_eq!(read_value(&text, format, &Limits::DEFAULT).is_ok(), expected, "{levels}");
                        let document = Document::read(&text, format, &Syntax::DEFAULT);
                        assert_eq!(document.is_ok(), expected, "{levels} {leaf}");
                        let Ok(document) = document else { continue };
                        let mut world = NoWorld;
                        let value = document
                            .resolve(&scope(), &mut Session::new(&mut world).limits(limits()))
                            .unwrap();
                        let printed = value.to_json(JsonStyle::Pretty);
                        assert_eq!(read_value(&printed, DataFormat::Json, &Limits::DEFAULT).unwrap(), value);
                    }
                }
            }
        }
    });
}

// ---- syntax ------------------------------------------------------------------------------------------------

fn wrapped(levels: usize, before: &str, inside: &str, after: &str) -> String {
    format!("{}{inside}{}", before.repeat(levels), after.repeat(levels))
}

/// An expression of so many levels.
type Levels = fn(usize) -> String;

/// Each construct that nests.
fn constructs() -> Vec<(&'static str, Levels)> {
    vec![
        ("parentheses", |n| wrapped(n, "(", "1", ")")),
        ("lists", |n| wrapped(n, "[", "1", "]")),
        ("objects", |n| wrapped(n, "{a: ", "1", "}")),
        ("not", |n| wrapped(n, "not ", "true", "")),
        ("exclamation marks", |n| wrapped(n, "!", "true", "")),
        ("minus", |n| wrapped(n, "- ", "1", "")),
        ("glued minus", |n| wrapped(n, "-", "1", "")),
        ("powers", |n| wrapped(n, "1 ** ", "1", "")),
        ("if in else", |n| wrapped(n, "1 if false else ", "1", "")),
        ("calls", |n| wrapped(n, "text(", "1", ")")),
        ("calls in second arguments", |n| wrapped(n, "default(null, ", "1", ")")),
        ("filters", |n| wrapped(n, "", "int", " | text")),
        ("filters in arguments", |n| wrapped(n, "null | default(", "1", ")")),
        ("indexes behind", |n| wrapped(n, "", "deep", "[ 0 ]")),
        ("slices behind", |n| wrapped(n, "", "deep", "[:]")),
        ("indexes inside", |n| wrapped(n, "[0][", "0", "]")),
        ("references", |n| wrapped(n, "${= ", "1", " }")),
        ("references in texts", |n| wrapped(n, "'${= ", "1", " }'")),
        ("defaults", |n| wrapped(n, "${text.nope:-", "x", "}")),
        ("chains of comparisons", |n| wrapped(n, "1 == (", "1", ") == 1")),
        ("sums in parentheses", |n| wrapped(n, "1 + (", "1", ")")),
        ("conditions", |n| wrapped(n, "true and (", "true", ") or false")),
    ]
}

/// Everything that walks a program.
fn walk(source: &str) -> Result<(), Error> {
    let expression = Expression::parse(source, &Syntax::DEFAULT)?;
    let scope = scope();
    let mut world = NoWorld;
    let mut session = Session::new(&mut world).limits(limits());
    let value = expression.value(&scope, &mut session);
    let explained = expression.explain(&scope, &mut session);
    if let (Ok(value), Some(Ok(explained))) = (&value, &explained.outcome) {
        assert_eq!(value, explained);
    }
    let _ = expression.check(&scope);
    let _ = expression.references();
    let _ = Expression::parse(expression.print(), &Syntax::DEFAULT)
        .map_err(|error| assert_eq!(error.id(), "limit"));
    Ok(())
}

/// The largest number of levels that parses.
fn most_levels(source: Levels) -> usize {
    let parses = |levels: usize| Expression::parse(source(levels), &Syntax::DEFAULT).is_ok();
    (1..=200).take_while(|levels| parses(*levels)).last().unwrap_or(0)
}

#[test]
fn syntax_nests_128_deep() {
    for (name, source) in constructs() {
        bounded(name, move || {
            let most = most_levels(source);
            // A reference and the expression in it are two levels, as are a filter and its arguments.
            let two = ["references", "references in texts", "filters in arguments"].contains(&name);
            assert_eq!(most, if two { 64 } else { 128 }, "{name}");
            for levels in [most, 128] {
                let _ = walk(&source(levels));
            }
            for levels in [129, 1000, 20_000] {
                let error = walk(&source(levels)).unwrap_err();
                assert_eq!(error.id(), "limit", "{levels} {name}: {error:?}");
                assert!((error.span().end as usize) <= source(levels).len());
            }
            let template = format!("x ${{= {} }} y", source(127));
            let mut world = NoWorld;
            if let Ok(template) = Template::parse(template.as_str(), &Syntax::DEFAULT) {
                let _ = template.value(&scope(), &mut Session::new(&mut world).limits(limits()));
                let _ = template.print();
            }
        });
    }
}

/// Each element expression stands in the text of another, so every level doubles its backslashes.
#[test]
fn element_expressions_nest() {
    bounded("element expressions", || {
        let mut source = "it".to_owned();
        for _ in 0..10 {
            source = format!("[1] | each(\"{}\")", source.replace('\\', "\\\\").replace('"', "\\\""));
            let _ = walk(&source);
        }
    });
}

#[test]
fn long_flat_syntax_is_no_deep_syntax() {
    bounded("flat", || {
        for (first, more) in
            [("1", " + 1"), ("true", " and true"), ("true", " or false"), ("1", " == 1"), ("2", " * 1")]
        {
            let source = format!("{first}{}", more.repeat(5000));
            walk(&source).unwrap();
            let mut world = NoWorld;
            let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
            expression.value(&scope(), &mut Session::new(&mut world).limits(limits())).unwrap();
        }
        let steps = format!("deep{}", "[0]".repeat(200));
        walk(&steps).unwrap();
        let template = "${int}".repeat(10_000);
        let mut world = NoWorld;
        let template = Template::parse(template, &Syntax::DEFAULT).unwrap();
        template.value(&scope(), &mut Session::new(&mut world).limits(limits())).unwrap();
    });
}

// ---- definitions -------------------------------------------------------------------------------------------

/// Definitions `d0` to `dN`, each made from the next by `wrap`; the result of resolving all of them.
fn chain(count: usize, wrap: impl Fn(&str) -> String) -> Result<Value, Vec<Error>> {
    let entries: Vec<String> = (0..count)
        .map(|at| {
            let next = if at + 1 < count { format!("${{context.d{}}}", at + 1) } else { "1".to_owned() };
            format!("\"d{at}\": {}", wrap(&next))
        })
        .collect();
    let text = format!("{{\"context\": {{{}}}, \"first\": \"${{context.d0}}\"}}", entries.join(", "));
    let mut document = Document::read(&text, DataFormat::Json, &Syntax::DEFAULT).unwrap();
    let definitions = document.define("context").unwrap().unwrap();
    let entry = ScopeEntry::Definitions(definitions);
    let scope = scope().with_entries("context", [("context".into(), entry)]).ok().unwrap();
    let mut world = NoWorld;
    document.resolve(&scope, &mut Session::new(&mut world).limits(limits()))
}

#[test]
fn definitions_chain_100_deep() {
    bounded("a chain", || {
        let value = chain(100, |next| format!("\"{next}\"")).unwrap();
        assert_eq!(value.get("first").unwrap().to_string(), "1");
        let errors = chain(101, |next| format!("\"{next}\"")).unwrap_err();
        assert!(errors.iter().any(|error| error.id() == "limit"), "{errors:?}");
        let _ = chain(10_000, |next| format!("\"{next}\"")).unwrap_err();
    });
}

#[test]
fn definitions_chain_through_deep_expressions() {
    for (name, source) in constructs() {
        bounded(name, move || {
            for levels in [10, 14, 20, 60, 126] {
                let _ = chain(100, |next| {
                    let expression = source(levels).replacen('1', &format!("({next})"), 1);
                    let text = Value::from(format!("${{= {expression} }}"));
                    // Where a construct has its operand elsewhere, the chain is still read.
                    let text = if Template::parse(text.to_string(), &Syntax::DEFAULT).is_ok() {
                        text
                    } else {
                        Value::from(next)
                    };
                    text.to_json(JsonStyle::Compact)
                });
            }
        });
    }
}

#[test]
fn definitions_chain_through_deep_lists() {
    bounded("lists", || {
        for levels in [1, 2, 50, 190] {
            let result = chain(100, |next| wrapped(levels, "[", &format!("\"{next}\""), "]"));
            assert_eq!(result.is_ok(), levels == 1, "{levels}: {result:?}");
        }
        let _ = chain(100, |next| wrapped(150, "{\"k\": ", &format!("\"{next}\""), "}")).unwrap_err();
    });
}

#[test]
fn definitions_that_double_are_bounded() {
    bounded("doubling", || {
        let value = chain(20, |next| format!("[\"{next}\", \"{next}\"]")).unwrap();
        assert!(value.get("first").unwrap().as_list().is_some());
        let errors = chain(60, |next| format!("[\"{next}\", \"{next}\"]")).unwrap_err();
        assert!(errors.iter().any(|error| error.id() == "limit"), "{errors:?}");
    });
    bounded("doubling text", || {
        let errors = chain(60, |next| format!("\"{next}{next}\"")).unwrap_err();
        assert!(errors.iter().any(|error| error.id() == "limit"), "{errors:?}");
    });
    bounded("doubling in a text", || {
        let errors = chain(20, |next| format!("\"${{= [{next}, {next}] }}\"").replace("1, 1", "\\\"1\\\""))
            .map(|value| {
                // The whole has a value; as a text it is over the limit.
                let first = value.get("first").unwrap().clone();
                let scope =
                    Scope::new().with_entries("x", [("v".into(), ScopeEntry::Plain(first))]).ok().unwrap();
                let mut world = NoWorld;
                let mut out = String::new();
                let template = Template::parse("a ${v}", &Syntax::DEFAULT).unwrap();
                template.text(&scope, &mut Session::new(&mut world).limits(limits()), &mut out).unwrap_err()
            });
        assert_eq!(errors.unwrap().id(), "limit");
    });
}

#[test]
fn a_cycle_of_definitions_is_named() {
    bounded("cycle", || {
        let text =
            r#"{"context": {"a": "${context.b}", "b": ["x ${context.c.k}"], "c": {"k": "${= context.a }"}}}"#;
        let mut document = Document::read(text, DataFormat::Json, &Syntax::DEFAULT).unwrap();
        let definitions = document.define("context").unwrap().unwrap();
        let entry = ScopeEntry::Definitions(definitions);
        let scope = Scope::new().with_entries("context", [("context".into(), entry)]).ok().unwrap();
        let mut world = NoWorld;
        let errors = document.resolve(&scope, &mut Session::new(&mut world).limits(limits())).unwrap_err();
        assert!(errors[0].to_string().contains("a → b → c → a"), "{errors:?}");
        let _ = document.check(&scope);
    });
}
