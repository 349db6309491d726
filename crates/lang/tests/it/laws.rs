//! Laws of the language, tried on sources made from its grammar and on values of every type.
//!
//! With `THREADLINE_LONG=1` each is tried on many more. A failing case is printed, reduced; none is kept.
#![expect(clippy::unwrap_used, reason = "a law that does not hold fails the test")]
#![expect(clippy::disallowed_methods, reason = "the environment says how many cases to try")]

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::generate::Gen;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Envelope, Error, Expression, Limits, Number, Promise, PromisedShape, Scope,
    ScopeEntry, Session, Syntax, Template, Types, Value, ValueShape, World, render,
};

// ---- the ground --------------------------------------------------------------------------------------------

const DATA: &str = r#"{
  "a": 1, "b": 2.50, "t": true, "f": false, "n": null, "s": "{\"a\": {\"b\": [7]}} ${x} $", "xs": [3, 1, 2],
  "ys": ["b", "a"], "o": {"k": {"l": [0, {"m": "deep"}]}, "a b": 1, "0": "zero", "": "empty"},
  "rows": [{"name": "p", "score": 85.0, "k": true}, {"name": "q", "score": 7, "k": false}],
  "item": {"name": "i", "score": 85}, "2nd": [1], "in": {"k": "in"}, "é-1": "é"
}"#;

const OUTPUTS: &str = r#"{
  "tool-1": {"value": {"score": 85, "result": 1, "k": [1]}, "meta": {"status": "completed"}},
  "node": {"value": [1, 2], "meta": {}},
  "prev": {"value": "{\"a\": {\"b\": [7]}}", "meta": {"output": "x"}}
}"#;

const CONTEXT: &str = r#"{"context": {
  "x": 1, "y": "${context.x}", "k": ["${context.y}", "${a}-${b}"], "m": "${= xs | each(\"${env.HOME}\") }",
  "l": "${context.name}", "name": "${context.l}"
}}"#;

fn json(text: &str) -> Value {
    read_value(text, DataFormat::Json, &Limits::DEFAULT).unwrap()
}

fn syntax() -> Syntax {
    Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT }
}

/// Every name of the scope, in one layer, so that any of them can be left out.
fn entries() -> Vec<(String, ScopeEntry)> {
    let data = json(DATA);
    let data = data.as_object().unwrap().iter();
    let mut entries: Vec<_> =
        data.map(|(key, value)| (key.as_str().to_owned(), ScopeEntry::Plain(value.clone()))).collect();
    let outputs = Envelope::all_from_outside(json(OUTPUTS).as_object().unwrap()).unwrap();
    entries.extend(outputs.into_iter().map(|(id, output)| (id.to_string(), ScopeEntry::Output(output))));
    let mut context = Document::from_value(&json(CONTEXT), &syntax()).unwrap();
    entries.push(("context".into(), ScopeEntry::Definitions(context.define("context").unwrap().unwrap())));
    entries.push(("unset".into(), ScopeEntry::Unset("not yet".into())));
    entries
}

fn scope_where(keep: impl Fn(&str) -> bool) -> Scope {
    let kept = entries().into_iter().filter(|(name, _)| keep(name));
    let kept = kept.map(|(name, entry)| (name.into(), entry));
    Scope::new().with_entries("all", kept).ok().unwrap()
}

fn scope() -> Scope {
    scope_where(|_| true)
}

/// The same names before they have their values: only their types are known, or all of their shapes.
fn promises(exact: bool) -> Scope {
    let promised = entries().into_iter().map(|(name, entry)| {
        let entry = match entry {
            ScopeEntry::Plain(value) => {
                let types = ValueShape::of_types(Types::named(Some(value.kind())));
                let shape = if exact { ValueShape::of(&value) } else { types };
                ScopeEntry::Promised(Arc::new(Promise {
                    why: "not yet".into(),
                    shape: PromisedShape::Value(shape.into()),
                }))
            }
            entry => entry,
        };
        (name.into(), entry)
    });
    Scope::new().with_entries("promised", promised).ok().unwrap()
}

/// Gives the same each time, and remembers what it was asked for.
#[derive(Default)]
struct Recorder(Vec<(String, Vec<Value>)>);

impl World for Recorder {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        self.0.push((name.to_owned(), args.to_vec()));
        let first = args.first().and_then(Value::as_str).unwrap_or_default();
        match (name, first) {
            ("now", _) => Ok(Value::from("2026-01-02T03:04:05Z")),
            ("env", "HOME") => Ok(Value::from("/home/${x}")),
            ("env", _) => Err(ComputeError::Missing { nearest: None }),
            ("cmd", _) => Err(ComputeError::Failed { message: "no commands".to_owned(), hint: None }),
            _ => Ok(Value::from(format!("<{name} {first}>"))),
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    // The same cases each time gate a change; the long form looks for new ones, and a failure prints its input.
    let (cases, rng_seed) = if long { (cases * 20, RngSeed::Random) } else { (cases, RngSeed::Fixed(42)) };
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..150)
}

/// An expression from the grammar.
fn expression() -> impl Strategy<Value = String> {
    choices().prop_map(|choices| Gen::new(&choices).expr())
}

/// A template from the grammar.
fn template() -> impl Strategy<Value = String> {
    choices().prop_map(|choices| Gen::new(&choices).template())
}

fn parse(source: &str) -> Expression {
    Expression::parse(source, &syntax()).unwrap_or_else(|error| panic!("{source:?}: {error:?}"))
}

fn parse_template(source: &str) -> Template {
    Template::parse(source, &syntax()).unwrap_or_else(|errors| panic!("{source:?}: {errors:?}"))
}

fn evaluate(source: &str, scope: &Scope) -> Result<Value, Error> {
    let mut world = Recorder::default();
    parse(source).value(scope, &mut Session::new(&mut world))
}

fn resolve(source: &str, scope: &Scope) -> Result<Value, Error> {
    let mut world = Recorder::default();
    parse_template(source).value(scope, &mut Session::new(&mut world))
}

fn text_of(source: &str, scope: &Scope) -> Result<String, Error> {
    let mut world = Recorder::default();
    let mut out = String::new();
    parse_template(source).text(scope, &mut Session::new(&mut world), &mut out).map(|()| out)
}

/// What a result says, to compare two of them: the value with all its digits, or the sort of error.
fn told(result: &Result<Value, Error>) -> String {
    match result {
        Ok(value) => format!("{} {}", value.kind(), value.to_json(JsonStyle::Compact)),
        Err(error) => format!("error: {}", error.id()),
    }
}

fn is_limit(error: &Error) -> bool {
    error.id() == "limit"
}

fn check_span(source: &str, error: &Error) {
    assert!(source.get(error.span().range()).is_some(), "{error:?} in {source:?}");
    let diagnostic = error.diagnostic();
    assert!(!diagnostic.message.is_empty() && !diagnostic.id.is_empty(), "{source:?}");
}

// ---- parsing and printing ----------------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn an_expression_prints_to_what_means_the_same(source in expression()) {
        let expression = parse(&source);
        let printed = expression.print();
        let again = parse(&printed);
        prop_assert_eq!(again.print(), printed.as_str(), "{:?}", source);
        let scope = scope();
        let (value, other) = (evaluate(&source, &scope), evaluate(&printed, &scope));
        prop_assert_eq!(told(&value), told(&other), "{:?} printed as {:?}", source, printed);
    }

    #[test]
    fn a_template_prints_to_what_means_the_same(source in template()) {
        let printed = parse_template(&source).print();
        prop_assert_eq!(parse_template(&printed).print(), printed.as_str(), "{:?}", source);
        let scope = scope();
        let (value, other) = (resolve(&source, &scope), resolve(&printed, &scope));
        prop_assert_eq!(told(&value), told(&other), "{:?} printed as {:?}", source, printed);
    }

    #[test]
    fn a_mutation_parses_or_is_refused_at_a_place(
        source in expression(), in_template in any::<bool>(), at in any::<prop::sample::Index>(),
        how in 0..6, with in any::<prop::sample::Index>(),
    ) {
        let source = if in_template { format!("x ${{= {source} }} y ${{a}}") } else { source };
        let mutated = mutate(&source, at, how, with);
        match Template::parse(mutated.as_str(), &syntax()) {
            Ok(template) => {
                let printed = template.print();
                let again = Template::parse(printed.as_str(), &syntax());
                prop_assert!(again.is_ok_and(|again| again.print() == printed), "{:?}: {:?}", mutated, printed);
            }
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in &errors {
                    check_span(&mutated, error);
                }
            }
        }
        match Expression::parse(mutated.as_str(), &syntax()) {
            Ok(expression) => {
                let printed = expression.print();
                let again = Expression::parse(printed.as_str(), &syntax());
                prop_assert!(again.is_ok_and(|again| again.print() == printed), "{:?}: {:?}", mutated, printed);
            }
            Err(error) => check_span(&mutated, &error),
        }
    }

    #[test]
    fn every_error_has_a_place(source in expression()) {
        let mut world = Recorder::default();
        let (expression, scope) = (parse(&source), scope());
        if let Err(error) = expression.value(&scope, &mut Session::new(&mut world))
            && error.origin().is_none()
        {
            check_span(&source, &error);
        }
    }

    #[test]
    fn a_value_has_an_inferred_type(source in expression(), promised in 0..3) {
        let scope = scope();
        let known = match promised {
            0 => scope.clone(),
            known => promises(known == 1),
        };
        let inferred = parse(&source).infer(&known);
        for error in &inferred.errors {
            check_span(&source, error);
        }
        match evaluate(&source, &scope) {
            Ok(value) => {
                prop_assert!(inferred.types().may_be(value.kind()), "{:?} is {:?}", source, value);
                // What can only fail may stand where evaluation does not come to.
                let lazy = ["and", "or", "&&", "||", "if", "default", "exists", ":-", "<", ">", "=", "("];
                let everywhere = !lazy.iter().any(|word| source.contains(word));
                prop_assert!(!everywhere || inferred.errors.is_empty(), "{:?} is {:?}", source, value);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn explaining_gives_the_value(source in expression()) {
        let (expression, scope, mut world) = (parse(&source), scope(), Recorder::default());
        let explained = expression.explain(&scope, &mut Session::new(&mut world));
        prop_assert_eq!(told(&explained.outcome.unwrap()), told(&evaluate(&source, &scope)), "{:?}", source);
    }
}

/// One change: a character left out, put in or replaced, a word repeated, a closing brace dropped, an end cut off.
fn mutate(source: &str, at: prop::sample::Index, how: i32, with: prop::sample::Index) -> String {
    const PIECES: [&str; 28] = [
        "$", "{", "}", "(", ")", "[", "]", "\"", "'", "\\", "|", ":", "-", ".", ",", "=", "!", " ", "é",
        "\u{a0}", "0", "e", "not ", " in ", "${", ":-", "\u{2028}", "\0",
    ];
    let piece = PIECES[with.index(PIECES.len())];
    let places: Vec<usize> = source.char_indices().map(|(at, _)| at).chain([source.len()]).collect();
    let place = at.index(places.len());
    let start = places[place];
    let end = places.get(place + 1).copied().unwrap_or(start);
    match how {
        0 => format!("{}{}", &source[..start], &source[end..]),
        1 => format!("{}{piece}{}", &source[..start], &source[start..]),
        2 => format!("{}{piece}{}", &source[..start], &source[end..]),
        3 => {
            let word = source[start..].split(' ').next().unwrap_or_default();
            format!("{}{word}{}", &source[..start], &source[start..])
        }
        4 => match source[..start].rfind(['}', ')', ']']) {
            Some(brace) => format!("{}{}", &source[..brace], &source[brace + 1..]),
            None => source[..start].to_owned(),
        },
        _ => source[..start].to_owned(),
    }
}

// ---- text, values, documents -------------------------------------------------------------------------------

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "${a}", "${", "$${a}", "$", "$$", "}", "{", "${= 1 }", "${x:-y}", "\\", "\"", "'", "\n", "é", "😀", "\0",
            "${s}", "$$${", "%s", "{{a}}", "`id`", "$(id)", "\u{feff}",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,5}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::NULL),
        any::<bool>().prop_map(Value::from),
        exact().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| Value::list(items).unwrap()),
            prop::collection::vec((any_text(), inner), 0..4).prop_map(|entries| {
                Value::object(entries.into_iter().map(|(key, value)| (key.into(), value))).unwrap()
            }),
        ]
    })
}

fn scope_of(entries: &[(&str, &Value)]) -> Scope {
    let entries = entries.iter().map(|(name, value)| ((*name).into(), ScopeEntry::Plain((*value).clone())));
    Scope::new().with_entries("test", entries).ok().unwrap()
}

fn is_fixed(value: &Value) -> bool {
    match (value.as_str(), value.as_list(), value.as_object()) {
        (Some(text), ..) => !text.contains("${"),
        (_, Some(items), _) => items.iter().all(is_fixed),
        (_, _, Some(object)) => object.values().iter().all(is_fixed),
        _ => true,
    }
}

/// Whether what has no reference in it is the same in memory, not a copy.
fn check_shared(before: &Value, after: &Value) {
    if is_fixed(before) {
        let shared = before.as_list().is_some() || before.as_object().is_some();
        assert!(!shared || before.is_same(after), "{before:?} was copied");
        assert_eq!(before, after);
        return;
    }
    if let (Some(before), Some(after)) = (before.as_list(), after.as_list()) {
        before.iter().zip(after).for_each(|(before, after)| check_shared(before, after));
    }
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object()) {
        assert!(Arc::ptr_eq(before.keys(), after.keys()), "the keys were copied");
        before.values().iter().zip(after.values()).for_each(|(before, after)| check_shared(before, after));
    }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn render_agrees_with_resolve(source in template()) {
        let scope = scope();
        let value = resolve(&source, &scope);
        let text = text_of(&source, &scope);
        match (&value, &text) {
            (Ok(value), Ok(text)) => prop_assert_eq!(&value.to_string(), text, "{:?}", source),
            (Err(error), Err(other)) => prop_assert_eq!(error.id(), other.id(), "{:?}", source),
            _ => prop_assert!(false, "{source:?}: {value:?}, as text {text:?}"),
        }
        // The function knows no declared kinds.
        if !source.contains("ticket") {
            let mut world = Recorder::default();
            match (&text, render(&source, &scope, &mut Session::new(&mut world))) {
                (Ok(text), Ok(rendered)) => prop_assert_eq!(text, &rendered),
                (Err(error), Err(errors)) => prop_assert_eq!(error.id(), errors[0].id()),
                (text, rendered) => prop_assert!(false, "{source:?}: {text:?}, rendered {rendered:?}"),
            }
        }
        let leaf = Document::from_value(&Value::from(source.as_str()), &syntax()).unwrap();
        let mut world = Recorder::default();
        match (&value, leaf.resolve(&scope, &mut Session::new(&mut world))) {
            (Ok(value), Ok(resolved)) => prop_assert_eq!(
                told(&Ok(value.clone())), told(&Ok(resolved)), "{:?}", source
            ),
            (Err(_), Err(_)) => {}
            (value, resolved) => prop_assert!(false, "{source:?}: {value:?}, in a document {resolved:?}"),
        }
    }

    #[test]
    fn what_has_no_reference_is_shared(
        value in any_value(), sources in prop::collection::vec("(\\$\\{(a|xs|o\\.k)\\}|x)", 1..3),
    ) {
        let fixed = Document::fixed(value.clone());
        let mut world = Recorder::default();
        let resolved = fixed.resolve(&scope(), &mut Session::new(&mut world)).unwrap();
        prop_assert_eq!(told(&Ok(resolved)), told(&Ok(value.clone())));
        let sources = sources.iter().map(|source| Value::from(source.as_str())).collect();
        let inner = Value::object([("v".into(), value.clone()), ("r".into(), Value::list(sources).unwrap())]);
        let mixed = Value::list(vec![inner.unwrap(), value]).unwrap();
        if let Ok(document) = Document::from_value(&mixed, &Syntax::DEFAULT)
            && let Ok(resolved) = document.resolve(&scope(), &mut Session::new(&mut world))
        {
            check_shared(&mixed, &resolved);
        }
        prop_assert!(world.0.is_empty());
    }

    #[test]
    fn a_read_document_is_shared_between_resolutions(value in any_value()) {
        let source = value.to_json(JsonStyle::Compact);
        if let Ok(document) = Document::read(&source, DataFormat::Json, &Syntax::DEFAULT)
            && let Some(fixed) = document.as_fixed()
        {
            let mut world = Recorder::default();
            let resolved = document.resolve(&scope(), &mut Session::new(&mut world)).unwrap();
            let shared = fixed.as_list().is_some() || fixed.as_object().is_some();
            prop_assert!(!shared || resolved.is_same(fixed));
        }
    }

    #[test]
    fn a_value_comes_through_as_it_is(v in any_text(), w in any_value()) {
        let text = Value::from(v.as_str());
        let scope = scope_of(&[("v", &text), ("w", &w), ("a", &Value::from("FORGED")), ("s", &Value::from("FORGED"))]);
        let same = |source: &str, expected: &Value| {
            let value = resolve(source, &scope).unwrap_or_else(|error| panic!("{source}: {error:?}"));
            assert_eq!(told(&Ok(value)), told(&Ok(expected.clone())), "{source} with {v:?}, {w:?}");
        };
        for source in [
            "${v}", "${= v }", "${= '${v}' }", "${= \"${v}\" + '' }", "${v | default('x')}", "${= [v][0] }",
            "${= {\"k\": v}.k }", "${v | to_json | from_json}", "${= [v] | each(\"it\") | first }", "${v | text}",
            "${= [{\"k\": v}] | collect(\"k\") | last }", "${= v[:] }", "${= v[:3] + v[3:] }", "${nope.x:-${v}}",
            "${= v if true else w }", "${= [v] | where(\"true\") | join('') }", "${= '${= \"${v}\" }' }",
            "${v | replace('\u{1}', '')}","${= ([v] * 2) | unique | first }", ] {
            if source.contains("nope") {
                let scope = scope_of(&[("v", &text), ("nope", &Value::object([]).unwrap())]);
                assert_eq!(told(&resolve(source, &scope)), told(&Ok(text.clone())), "{source} with {v:?}");
            } else {
                same(source, &text);
            }
        }
        for source in ["${w}", "${= [w][0] }", "${= {\"k\": w}[\"k\"] }", "${= [w] | each(\"it\") | first }"] {
            same(source, &w);
        }
        let joined = format!("<{v}|{w}|{v}>");
        same("<${v}|${w}|${v}>", &Value::from(joined.as_str()));
        same("${= '<${v}|${w}|${v}>' }", &Value::from(joined.as_str()));
        prop_assert_eq!(text_of("${v}${w}", &scope).unwrap(), format!("{v}{w}"));
        // In a document, in lists and objects, as a whole and as a part of a text.
        let source = json(r#"{"k": ["${v}", {"${v}": "${w}"}, "-${v}-"], "l": "${w}"}"#);
        let document = Document::from_value(&source, &Syntax::DEFAULT).unwrap();
        let mut world = Recorder::default();
        let resolved = document.resolve(&scope, &mut Session::new(&mut world)).unwrap();
        let list = resolved.get("k").unwrap().as_list().unwrap();
        prop_assert_eq!(list[0].as_str(), Some(v.as_str()));
        prop_assert_eq!(told(&Ok(list[1].get("${v}").unwrap().clone())), told(&Ok(w.clone())));
        let dashed = format!("-{v}-");
        prop_assert_eq!(list[2].as_str(), Some(dashed.as_str()));
        prop_assert_eq!(told(&Ok(resolved.get("l").unwrap().clone())), told(&Ok(w)));
    }
}

// ---- references and checks ---------------------------------------------------------------------------------

/// The root of a path as a trace shows it.
fn root_of(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

proptest! {
    #![proptest_config(config(2500))]

    #[test]
    fn references_are_what_evaluation_reads(source in expression()) {
        let expression = parse(&source);
        let references = expression.references();
        let all = scope();
        let mut world = Recorder::default();
        let mut session = Session::new(&mut world).traced();
        let value = expression.value(&all, &mut session);
        let trace = session.take_trace();
        // What is not listed is not needed. A definition has references of its own.
        let listed = |name: &str| {
            references.iter().any(|reference| reference.root == name || reference.root == "nodes"
                || reference.root == "context")
        };
        let fewer = evaluate(&source, &scope_where(listed));
        prop_assert_eq!(told(&value), told(&fewer), "{:?}", source);
        // The world is asked for nothing else.
        let context = references.iter().any(|reference| reference.root == "context");
        for (name, _) in &world.0 {
            let name = if name == "now" { "date" } else { name };
            prop_assert!(context || references.iter().any(|reference| reference.root == name), "{source:?}: {name}");
        }
        // What was read is needed.
        for resolution in trace.iter().filter(|resolution| !resolution.computed) {
            let root = root_of(&resolution.path);
            if root == "nodes" || !entries().iter().any(|(name, _)| name == root) {
                continue;
            }
            prop_assert!(context || listed(root), "{source:?} read {root}");
            let without = scope_where(|name| name != root);
            let result = evaluate(&source, &without);
            // An output may have been read by `nodes` as well, which then misses it first.
            let missed = ["error: unknown-root", "error: node-not-found"].contains(&told(&result).as_str());
            prop_assert!(missed, "{source:?} without {root}: {result:?}");
            let checked = expression.check(&without);
            prop_assert!(
                context || checked.iter().any(|error| error.id() == "unknown-root"),
                "{source:?} without {root}: {checked:?}"
            );
        }
    }

    #[test]
    fn what_is_guarded_is_never_missing(source in expression()) {
        let references = parse(&source).references();
        if let Err(error) = evaluate(&source, &scope())
            && error.is_missing() && error.origin().is_none()
        {
            let span = error.span();
            let around = references
                .iter()
                .filter(|reference| reference.span.start <= span.start && span.end <= reference.span.end)
                .min_by_key(|reference| reference.span.end - reference.span.start);
            prop_assert!(around.is_none_or(|reference| !reference.guarded), "{source:?}: {error:?}, {around:?}");
        }
    }

    #[test]
    fn checking_agrees_with_evaluation(source in expression()) {
        let all = scope();
        let value = evaluate(&source, &all);
        let checked = parse(&source).check(&all);
        let unknown = |error: &Error| matches!(error.id(), "unknown-root" | "node-not-found");
        if value.is_ok() {
            prop_assert!(checked.iter().all(unknown), "{source:?} gives {value:?}, checked {checked:?}");
        }
        for error in &checked {
            if error.origin().is_none() {
                check_span(&source, error);
            }
            // An unknown name is unknown: no name of the scope is reported.
            if let threadline_lang::ErrorKind::UnknownRoot { name, .. } = error.kind() {
                prop_assert!(!all.names().contains(name), "{source:?}");
            }
        }
    }
}

// ---- computed values and limits ----------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(2500))]

    #[test]
    fn a_computed_value_is_asked_for_once(sources in prop::collection::vec(template(), 1..4)) {
        let mut world = Recorder::default();
        let mut session = Session::new(&mut world);
        let scope = scope();
        for source in sources.iter().chain(&sources) {
            let _ = parse_template(source).value(&scope, &mut session);
        }
        let mut asked: Vec<_> = world.0.iter().filter(|(name, _)| name != "uuid").collect();
        let count = asked.len();
        asked.sort_by_key(|(name, args)| (name.clone(), format!("{args:?}")));
        asked.dedup();
        prop_assert_eq!(asked.len(), count, "{:?} asked for {:?}", sources, world.0);
    }

    #[test]
    fn a_limit_gives_an_error_or_the_same_value(
        source in template(), operations in 0u64..60, text_result in 0usize..40, regex in 0usize..2000,
        computed in 0usize..3, computed_bytes in 0usize..60, syntax_depth in 0usize..8, expression in 0usize..40,
    ) {
        let limits = Limits {
            operations, text_result, regex, computed, computed_bytes, syntax_depth, expression, ..Limits::DEFAULT
        };
        let scope = scope();
        let free = resolve(&source, &scope);
        let mut world = Recorder::default();
        let limited = parse_template(&source).value(&scope, &mut Session::new(&mut world).limits(&limits));
        match &limited {
            Ok(value) => {
                prop_assert_eq!(told(&Ok(value.clone())), told(&free), "{:?}", source);
            }
            Err(error) if is_limit(error) || error.id() == "computed" => {}
            Err(error) => prop_assert_eq!(told(&free), format!("error: {}", error.id()), "{:?}", source),
        }
        // What was over a limit is not asked for again.
        let mut world = Recorder::default();
        let mut session = Session::new(&mut world).limits(&limits);
        for _ in 0..2 {
            let _ = parse_template(&source).value(&scope, &mut session);
        }
        let mut asked: Vec<String> =
            world.0.iter().filter(|(name, _)| name != "uuid").map(|asked| format!("{asked:?}")).collect();
        prop_assert!(asked.len() <= computed, "{source:?} asked for {asked:?}");
        asked.sort();
        asked.dedup();
        let count = world.0.iter().filter(|(name, _)| name != "uuid").count();
        prop_assert_eq!(asked.len(), count, "{:?} asked for {:?}", source, world.0);
        match Template::parse(source.as_str(), &Syntax { limits, ..syntax() }) {
            Ok(template) => prop_assert_eq!(template.print(), parse_template(&source).print()),
            Err(errors) => prop_assert!(errors.iter().any(is_limit), "{source:?}: {errors:?}"),
        }
    }
}

// ---- logic -------------------------------------------------------------------------------------------------

/// A condition that has a value: over bools, comparisons and membership.
fn condition(make: &mut Gen<'_>, depth: usize) -> String {
    if depth == 0 {
        return make
            .one(&[
                "true",
                "f",
                "t",
                "false",
                "(a == 1)",
                "(b > 2)",
                "(1 in xs)",
                "('z' in ys)",
                "(a < b <= 3)",
                "exists(o.k)",
            ])
            .to_owned();
    }
    let (left, right) = (condition(make, depth - 1), condition(make, depth - 1));
    match make.pick(5) {
        0 => format!("({left} and {right})"),
        1 => format!("({left} or {right})"),
        2 => format!("(not {left})"),
        3 => format!("({left} if {right} else {left})"),
        _ => format!("({left} == {right})"),
    }
}

fn conditions() -> impl Strategy<Value = (String, String)> {
    choices().prop_map(|choices| {
        let mut make = Gen::new(&choices);
        (condition(&mut make, 2), condition(&mut make, 2))
    })
}

fn operands() -> impl Strategy<Value = (String, String, String)> {
    choices().prop_map(|choices| {
        let mut make = Gen::new(&choices);
        let mut one = || format!("({})", make.expr());
        (one(), one(), one())
    })
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn logic_has_its_laws((p, q) in conditions()) {
        let scope = scope();
        let same = |left: &str, right: &str| {
            let (left_value, right_value) = (evaluate(left, &scope), evaluate(right, &scope));
            assert!(left_value.is_ok(), "{left}: {left_value:?}");
            assert_eq!(told(&left_value), told(&right_value), "{left} and {right}");
        };
        same(&format!("not ({p} and {q})"), &format!("not {p} or not {q}"));
        same(&format!("not ({p} or {q})"), &format!("not {p} and not {q}"));
        same(&format!("not not {p}"), &p);
        same(&format!("{p} && {q}"), &format!("{p} and {q}"));
        same(&format!("!{p} || {q}"), &format!("{q} if {p} else true"));
        same(&format!("{p} and {q}"), &format!("{q} and {p}"));
        same(&format!("{p} or ({p} and {q})"), &p);
    }

    #[test]
    fn the_side_not_taken_is_not_read((p, _) in conditions()) {
        let scope = scope();
        let holds = evaluate(&p, &scope).unwrap().as_bool().unwrap();
        let asks = |source: &str| {
            let mut world = Recorder::default();
            let _ = parse(source).value(&scope, &mut Session::new(&mut world));
            !world.0.is_empty()
        };
        assert_eq!(asks(&format!("{p} and file('x')")), holds, "{p}");
        assert_eq!(asks(&format!("{p} or env.HOME")), !holds, "{p}");
        assert_eq!(asks(&format!("uuid if {p} else 1")), holds, "{p}");
        assert_eq!(asks(&format!("1 if {p} else cmd('ls')")), !holds, "{p}");
        assert_eq!(asks(&format!("default(null if {p} else 1, ticket('x'))")), holds, "{p}");
        assert_eq!(asks(&format!("2 < (1 if {p} else 3) < len(file('x'))")), !holds, "{p}");
        assert!(!asks(&format!("exists(o.nope) and {p} and file('x')")), "{p}");
        let source = format!("${{= {p} }}${{a:-${{file:x}}}}${{n:-${{env.HOME}}}}");
        let mut world = Recorder::default();
        parse_template(&source).value(&scope, &mut Session::new(&mut world)).unwrap();
        assert_eq!(world.0.len(), 1, "{source}: {:?}", world.0);
    }

    #[test]
    fn a_chain_is_a_conjunction((a, b, c) in operands(), one in 0usize..6, two in 0usize..6) {
        const RELATIONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
        let (one, two) = (RELATIONS[one], RELATIONS[two]);
        let scope = scope();
        let chain = evaluate(&format!("{a} {one} {b} {two} {c}"), &scope);
        let both = evaluate(&format!("{a} {one} {b} and {b} {two} {c}"), &scope);
        prop_assert_eq!(told(&chain), told(&both), "{} {} {} {} {}", a, one, b, two, c);
        let inside = evaluate(&format!("{a} not in {b}"), &scope);
        let outside = evaluate(&format!("not ({a} in {b})"), &scope);
        prop_assert_eq!(told(&inside), told(&outside), "{} not in {}", a, b);
        let differs = evaluate(&format!("{a} != {b}"), &scope);
        let equals = evaluate(&format!("not ({a} == {b})"), &scope);
        prop_assert_eq!(told(&differs), told(&equals), "{} != {}", a, b);
    }
}

// ---- numbers and text --------------------------------------------------------------------------------------

/// An exact number, small or large.
fn exact() -> impl Strategy<Value = Number> {
    let source = prop_oneof![
        3 => "-?(0|[1-9][0-9]{0,3})",
        2 => "-?(0|[1-9][0-9]{0,40})",
        3 => "-?(0|[1-9][0-9]{0,3})\\.[0-9]{1,3}",
        2 => "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,25})?(e-?[0-9]{1,2})?",
        1 => prop::sample::select(vec![
            "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-0", "0.0", "0e5", "1e400", "1e-400",
            "0.1", "1.10", "4503599627370497.5", "9007199254740993", "12e0", "1e9999", "1e-10000",
        ]).prop_map(str::to_owned),
    ];
    source.prop_map(|source| Number::parse(&source).unwrap())
}

/// A number as a file has it, or as a quotient, a power or a root gives it.
fn any_number() -> impl Strategy<Value = Number> {
    let quotient = (-1000i64..1000, 1i64..1000)
        .prop_map(|(whole, part)| Number::int(whole).div(&Number::int(part)).unwrap());
    let power = (1i64..100, -6i64..7)
        .prop_map(|(base, halves)| Number::int(base).pow(&Number::decimal(halves * 5, 1).unwrap()).unwrap());
    prop_oneof![4 => exact(), 3 => quotient, 1 => power]
}

fn hash(number: &Number) -> u64 {
    // A fixed hasher, so that a failure repeats.
    let mut hasher = std::hash::DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn exact_arithmetic_has_its_laws(a in exact(), b in exact(), c in exact()) {
        let zero = Number::int(0);
        if let (Ok(left), Ok(right)) = (a.add(&b), b.add(&a)) {
            prop_assert_eq!(left.to_string(), right.to_string());
            if let Ok(back) = left.sub(&b) {
                prop_assert_eq!(&back, &a);
            }
        }
        if let (Ok(left), Ok(right)) = (a.mul(&b), b.mul(&a)) {
            prop_assert_eq!(left.to_string(), right.to_string());
        }
        if let (Ok(left), Ok(right)) =
            (a.add(&b).and_then(|sum| sum.add(&c)), b.add(&c).and_then(|sum| a.add(&sum)))
        {
            prop_assert_eq!(left.to_string(), right.to_string());
        }
        if let (Ok(left), Ok(right)) =
            (a.mul(&b).and_then(|product| product.mul(&c)), b.mul(&c).and_then(|product| a.mul(&product)))
        {
            prop_assert_eq!(left.to_string(), right.to_string());
        }
        if let (Ok(left), Ok(x), Ok(y)) = (b.add(&c).and_then(|sum| a.mul(&sum)), a.mul(&b), a.mul(&c))
            && let Ok(right) = x.add(&y)
        {
            prop_assert_eq!(left, right);
        }
        prop_assert_eq!(a.sub(&a).unwrap(), zero.clone());
        prop_assert_eq!(a.neg().and_then(|negated| negated.neg()).unwrap().to_string(), a.to_string());
        if let (Ok(quotient), Ok(rest)) = (a.floor_div(&b), a.rem(&b)) {
            if let Ok(back) = quotient.mul(&b).and_then(|product| product.add(&rest)) {
                prop_assert_eq!(&back, &a, "{} // {} = {}, rest {}", &a, &b, quotient, rest);
            }
            prop_assert!(rest.abs().unwrap() < b.abs().unwrap());
            prop_assert!(rest.is_zero() || rest.is_negative() == b.is_negative());
            prop_assert!(quotient.is_whole());
        }
    }

    #[test]
    fn numbers_are_in_one_order(a in any_number(), b in any_number(), c in any_number()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse(), "{} {}", &a, &b);
        prop_assert_eq!(a.cmp(&a), Ordering::Equal);
        prop_assert_eq!(a == b, a.cmp(&b) == Ordering::Equal);
        if a <= b && b <= c {
            prop_assert!(a <= c, "{a} {b} {c}");
        }
        if a == b {
            prop_assert_eq!(hash(&a), hash(&b), "{} {}", &a, &b);
        }
        // The same numbers through the operators.
        let scope = scope_of(&[("x", &Value::from(a.clone())), ("y", &Value::from(b.clone()))]);
        for (source, expected) in [("x < y", a < b), ("x <= y", a <= b), ("x == y", a == b), ("x >= y", a >= b)] {
            prop_assert_eq!(evaluate(source, &scope).unwrap().as_bool(), Some(expected), "{} {}", &a, &b);
        }
    }

    #[test]
    fn equal_numbers_hash_alike(mantissa in -100_000i64..100_000, zeros in 0usize..5) {
        let int = Number::int(mantissa);
        let decimal = Number::parse(&format!("{mantissa}.{}", "0".repeat(zeros + 1))).unwrap();
        let exponent = Number::parse(&format!("{mantissa}{}e-{zeros}", "0".repeat(zeros))).unwrap();
        for number in [&decimal, &exponent] {
            prop_assert_eq!(&int, number);
            prop_assert_eq!(hash(&int), hash(number));
        }
    }

    #[test]
    fn a_number_reads_back_as_printed(number in any_number()) {
        let text = number.to_string();
        let again = Number::parse(&text).unwrap();
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(&again, &number);
        prop_assert_eq!(again.is_int(), number.is_int());
    }

    /// No two values that are shown equal compare unequal, whatever made them and whoever compares them; and two equal
    /// numbers of one scale and notation are shown equal.
    #[test]
    fn what_is_shown_equal_is_equal(a in any_number(), b in any_number()) {
        let shown = Number::parse(&a.to_string()).unwrap();
        prop_assert_eq!(&shown, &a);
        prop_assert_eq!(hash(&shown), hash(&a));
        let scope = scope_of(&[("x", &Value::from(a.clone())), ("shown", &Value::from(shown))]);
        for source in [
            "x == shown and shown == x and not (x != shown)",
            "x >= shown and x <= shown and not (x < shown) and not (x > shown)",
            "x in [shown]",
            "len(unique([x, shown])) == 1",
            "len(group_by([x, shown], 'it')) == 1",
            "sort([x, shown]) == sort([shown, x])",
            "min(x, shown) == max(x, shown)",
            "from_json(to_json(x)) == x",
            "median([x]) == x",
            "float(x) == x",
            "{'k': x} == {'k': shown}",
        ] {
            prop_assert_eq!(evaluate(source, &scope).unwrap().as_bool(), Some(true), "{}: {}", &a, source);
        }
        let notation = |number: &Number| {
            let text = number.to_string();
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, ""));
            (digits.split_once('.').map(|(_, places)| places.len()), exponent.to_owned())
        };
        if a == b && notation(&a) == notation(&b) {
            prop_assert_eq!(a.to_string(), b.to_string());
        }
    }

    /// The quotient is the nearest number of 34 digits, and exact where it has no more.
    #[test]
    fn a_quotient_is_correctly_rounded(a in exact(), b in exact()) {
        if let Ok(quotient) = a.div(&b)
            && let Ok(product) = quotient.mul(&b)
            && let Ok(difference) = product.sub(&a)
        {
            let text = quotient.to_string();
            let digits = text.split('e').next().unwrap_or_default();
            let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
            let significant = digits.trim_start_matches('0').trim_end_matches('0').len();
            prop_assert!(significant <= 34, "{} / {} = {}", a, b, quotient);
            if !difference.is_zero() {
                // Off by at most half of the last place: |q * b - a| * 2 * 10^33 <= |q * b|.
                let scale = Number::parse("2e33").unwrap();
                if let (Ok(off), Ok(whole)) = (difference.abs().unwrap().mul(&scale), product.abs()) {
                    prop_assert!(off <= whole, "{} / {} = {}", a, b, quotient);
                }
            }
        }
    }

    /// The same against whole numbers: `n / d` is the digits of `n * 10^k // d`, rounded half-even.
    #[test]
    fn a_quotient_of_ints_is_that_of_whole_numbers(n in 1i64..1_000_000_000, d in 1i64..1_000_000_000) {
        let (n, d) = (Number::int(n), Number::int(d));
        let quotient = n.div(&d).unwrap();
        let mut unit = Number::int(1);
        while n.mul(&unit).unwrap().floor_div(&d).unwrap().to_string().len() < 34 {
            unit = unit.mul(&Number::int(10)).unwrap();
        }
        let shifted = n.mul(&unit).unwrap();
        let (whole, rest) = (shifted.floor_div(&d).unwrap(), shifted.rem(&d).unwrap());
        let odd = whole.rem(&Number::int(2)).unwrap();
        let up = match rest.mul(&Number::int(2)).unwrap().cmp(&d) {
            Ordering::Less => Number::int(0),
            Ordering::Equal => odd,
            Ordering::Greater => Number::int(1),
        };
        prop_assert_eq!(quotient.mul(&unit).unwrap(), whole.add(&up).unwrap(), "{} / {}", n, d);
    }

    #[test]
    fn a_slice_is_that_of_the_characters(text in any_text(), from in -9i64..9, to in -9i64..9) {
        let chars: Vec<char> = text.chars().collect();
        let len = i64::try_from(chars.len()).unwrap();
        let place = |at: i64| usize::try_from(if at < 0 { (len + at).max(0) } else { at.min(len) }).unwrap();
        let (start, end) = (place(from), place(to).max(place(from)));
        let scope = scope_of(&[("v", &Value::from(text.as_str()))]);
        let slice = |source: String| evaluate(&source, &scope).unwrap().to_string();
        prop_assert_eq!(slice(format!("v[{from}:{to}]")), chars[start..end].iter().collect::<String>());
        prop_assert_eq!(slice(format!("v[:{to}] + v[{to}:]")), text.as_str());
        prop_assert_eq!(slice(format!("v[{from}:]")), chars[place(from)..].iter().collect::<String>());
    }
}
