//! Rows are lists: whatever is asked of them, the answer is that of the list, and only what is needed is read.
#![expect(clippy::unwrap_used, reason = "a case that goes wrong fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Expression, Limits, NoWorld, PagedList, Promise, PromisedShape, Scope,
    ScopeEntry, Session, SinglePageList, Syntax, Type, Value, ValueShape,
};

/// Rows that are made when they are read, and a count of the pages that were.
struct Made<F> {
    len: u64,
    page: u64,
    make: F,
    pages: AtomicU64,
    read: AtomicU64,
}

impl<F: Fn(u64) -> Value + Send + Sync> Made<F> {
    fn new(len: u64, page: u64, make: F) -> Arc<Self> {
        Arc::new(Self { len, page, make, pages: AtomicU64::new(0), read: AtomicU64::new(0) })
    }

    /// The pages read since the last time, and the rows in them.
    fn counts(&self) -> (u64, u64) {
        (self.pages.swap(0, Ordering::Relaxed), self.read.swap(0, Ordering::Relaxed))
    }
}

impl<F: Fn(u64) -> Value + Send + Sync> PagedList for Made<F> {
    fn len(&self) -> u64 {
        self.len
    }

    fn page(&self, from: u64) -> Result<Value, ComputeError> {
        let rows: Vec<Value> = (from..self.len.min(from + self.page)).map(&self.make).collect();
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(rows.len() as u64, Ordering::Relaxed);
        Ok(Value::list(rows).unwrap())
    }
}

fn json(text: &str) -> Value {
    read_value(text, DataFormat::Json, &Limits::DEFAULT).unwrap()
}

/// A scope in which `map.results` is this, beside some names.
fn scope(results: ScopeEntry) -> Scope {
    let map = [("total".into(), ScopeEntry::Plain(Value::from(7))), ("results".into(), results)];
    let map = Scope::new().with_entries("map", map).ok().unwrap();
    let entries = [
        ("map".into(), ScopeEntry::Names(map)),
        ("limit".into(), ScopeEntry::Plain(Value::from(2))),
        ("few".into(), ScopeEntry::Plain(json("[1, 2, 3]"))),
    ];
    Scope::new().with_entries("run", entries).ok().unwrap()
}

fn rows(rows: Arc<dyn PagedList>) -> Scope {
    scope(ScopeEntry::Paged(rows))
}

/// The answer: a value as JSON and the warnings, or all of the error.
fn answer(source: &str, scope: &Scope) -> String {
    let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
    let mut world = NoWorld;
    let mut session = Session::new(&mut world);
    match expression.value(scope, &mut session) {
        Ok(value) => {
            let mut warnings = session.take_warnings();
            // A list has passed the first call when the second begins.
            warnings.sort_by_key(|warning| (warning.span, warning.id));
            format!("{} {warnings:?}", value.to_json(JsonStyle::Compact))
        }
        Err(error) => {
            let mut diagnostic = error.diagnostic();
            // Rows are not shown as the values of a list are.
            diagnostic.notes.retain(|note| !note.starts_with("map.results") || !note.contains(" is ["));
            format!("{diagnostic:?}")
        }
    }
}

fn value(source: &str, scope: &Scope) -> String {
    let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
    match expression.value(scope, &mut Session::new(&mut NoWorld)) {
        Ok(value) => value.to_json(JsonStyle::Compact),
        Err(error) => format!("{}: {error}", error.id()),
    }
}

// ---- the same answers as over a list -----------------------------------------------------------------------

fn scores() -> impl Strategy<Value = Value> {
    prop_oneof![
        20 => (-3i64..4).prop_map(Value::from),
        3 => Just(json("2.5")),
        1 => Just(json("null")),
        1 => "[ab]{0,2}".prop_map(Value::from),
        1 => Just(json("[1, [2, \"x\"]]")),
    ]
}

fn row() -> impl Strategy<Value = Value> {
    let status = prop_oneof![9 => Just("success"), 3 => Just("failed")];
    let object = (0i64..5, status, scores(), any::<bool>()).prop_map(|(index, status, score, whole)| {
        let value = if whole { score.clone() } else { json("{}") };
        let value = match value.as_object() {
            Some(_) => Value::object([("score".into(), score)]).unwrap(),
            None => Value::object([("score".into(), value), ("also".into(), Value::from(index))]).unwrap(),
        };
        Value::object([
            ("index".into(), Value::from(index)),
            ("status".into(), Value::from(status)),
            ("value".into(), value),
        ])
        .unwrap()
    });
    prop_oneof![30 => object, 1 => scores()]
}

const STAGES: &[&str] = &[
    "where(\"status == 'success'\")",
    "where(\"value.score > ${limit}\")",
    "where(\"value.score\")",
    "where(\"exists(value.also)\")",
    "where(\"index\")",
    "where(\"true\")",
    "where(\"it != 1\")",
    "each(\"value\")",
    "each(\"value.score\")",
    "each(\"value.score * 2\")",
    "collect(\"index\")",
    "collect(\"value.also\")",
    "collect(\"10 / value.score\")",
    "each(\"it\")",
];

const ENDS: &[&str] = &[
    "",
    "count",
    "count(\"index > 1\")",
    "count(\"index\")",
    "len",
    "sum",
    "sum(\"value.score\")",
    "sum(\"index\")",
    "avg",
    "avg(\"value.score\")",
    "min",
    "min(\"value.score\")",
    "max",
    "max(\"index\")",
    "max(1, 2)",
    "median",
    "median(\"index\")",
    "unique",
    "unique(\"index\")",
    "unique(\"value\")",
    "group_by(\"status\")",
    "group_by(\"index\")",
    "group_by(\"value\")",
    "first",
    "last",
    "first | default(5)",
    "sort",
    "sort(\"desc\")",
    "sort(\"down\")",
    "sort_by(\"index\")",
    "sort_by(\"value.score\", \"desc\")",
    "sort_by(\"index\", 1)",
    "reverse",
    "flatten",
    "flatten(2)",
    "flatten(\"a\")",
    "join(\", \")",
    "join(1)",
    "join(map.none)",
    "contains(1)",
    "contains(\"a\")",
    "exists",
    "default([])",
    "default([]) | count",
    "to_json",
    "upper",
    "keys",
    "round(2)",
];

fn expressions() -> impl Strategy<Value = String> {
    let stages = prop::collection::vec(prop::sample::select(STAGES), 0..4);
    let slices =
        prop::sample::select(&["", "", "", "[1:]", "[1:4]", "[:-2]", "[-3:]", "[limit:]", "['a':]"][..]);
    let behind =
        prop::sample::select(&["", "", "", "[0]", "[-1]", "[7]", "[1:3]", "[:-1]", "[limit]", "['a']"][..]);
    let wraps = prop::sample::select(
        &["@", "@", "@", "@", "1 in (@)", "1 not in @", "@ == @", "[@]", "few | each(\"it + ${# | count}\")"]
            [..],
    );
    (slices, stages, behind, prop::sample::select(ENDS), wraps).prop_map(
        |(slice, stages, behind, end, wrap)| {
            let mut source = format!("map.results{slice}");
            for stage in stages {
                source = format!("{source} | {stage}");
            }
            if !behind.is_empty() {
                source = format!("({source}){behind}");
            }
            if !end.is_empty() {
                source = format!("{source} | {end}");
            }
            let quotes = wrap.contains('#') && source.contains(['"', '\'', '(', '[']);
            if quotes { source } else { wrap.replace('#', &source).replace('@', &format!("({source})")) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn rows_answer_as_their_list_does(
        list in prop::collection::vec(row(), 0..9),
        page in 1u64..5,
        source in expressions(),
    ) {
        let plain = scope(ScopeEntry::Plain(Value::list(list.clone()).unwrap()));
        let expected = answer(&source, &plain);
        let made = Made::new(list.len() as u64, page, { let list = list.clone(); move |at| list[usize::try_from(at).unwrap()].clone() });
        prop_assert_eq!(&answer(&source, &rows(made)), &expected, "{}", source);
        let listed = SinglePageList::new(Value::list(list).unwrap());
        prop_assert_eq!(&answer(&source, &rows(Arc::new(listed))), &expected, "{}", source);
    }
}

// ---- only what is needed is read ---------------------------------------------------------------------------

fn result(at: u64) -> Value {
    let at = i64::try_from(at).unwrap();
    let value = Value::object([("score".into(), Value::from(at % 100))]).unwrap();
    let status = if at % 4 == 3 { "failed" } else { "success" };
    let entries = [("item", Value::from(at)), ("status", Value::from(status)), ("value", value)];
    Value::object(entries.into_iter().map(|(name, value)| (name.into(), value))).unwrap()
}

#[test]
fn an_index_or_slice_reads_the_pages_it_needs() {
    let made = Made::new(1000, 10, result);
    let scope = rows(made.clone());
    for (source, expected, pages) in [
        ("map.results[3].item", "3", 1),
        ("map.results[-1].item", "999", 1),
        ("map.results.7.value.score", "7", 1),
        ("map.results[limit].item", "2", 1),
        ("map.results[limit * 100].item", "200", 1),
        ("map.results[1000].item", "index-not-found: `map.results` has no element 1000: it has 1000", 0),
        ("map.results[-1001]", "index-not-found: `map.results` has no element -1001: it has 1000", 0),
        (
            "map.results[10 ** 30]",
            "index-not-found: `map.results` has no element 1000000000000000000000000000000: it has 1000",
            0,
        ),
        ("map.results[10:20] | collect('item') | join(' ')", "\"10 11 12 13 14 15 16 17 18 19\"", 1),
        ("map.results[5:25] | sum('item')", "290", 2),
        ("map.results[-15:][-5:][0].item", "995", 1),
        ("map.results[5:5]", "[]", 0),
        ("map.results[2000:] | count", "0", 0),
        ("map.results | first | keys | len", "3", 1),
        ("(map.results | last).item", "999", 1),
        (
            "map.results[:20] | last | to_json",
            r#""{\"item\":19,\"status\":\"failed\",\"value\":{\"score\":19}}""#,
            1,
        ),
        ("len(map.results)", "1000", 0),
        ("map.results | count", "1000", 0),
        ("exists(map.results)", "true", 0),
        ("exists(map.results[1000])", "false", 0),
        ("map.results[1000] | default(1)", "1", 0),
        ("default(map.results, []) | count", "1000", 0),
        ("map.total", "7", 0),
        ("map.results | sum('item')", "499500", 100),
        ("map.results | where(\"status == 'failed'\") | first | to_json | len", "48", 100),
    ] {
        assert_eq!(value(source, &scope), expected, "{source}");
        assert_eq!(made.counts().0, pages, "{source}");
    }
    let error = value("map.results.item", &scope);
    assert_eq!(error, "type: `map.results` is a list: it has no `.item`");
}

#[test]
fn checks_read_no_rows() {
    let made = Made::new(1000, 10, result);
    let scope = rows(made.clone());
    let expression = Expression::parse(
        "map.results | sum('value.score') > 3 and len(map.results) > map.total",
        &Syntax::DEFAULT,
    );
    let expression = expression.unwrap();
    assert!(expression.check(&scope).is_empty());
    assert!(expression.infer(&scope).errors.is_empty());
    assert_eq!(made.counts(), (0, 0));
}

// ---- a million rows ----------------------------------------------------------------------------------------

#[test]
fn aggregates_over_a_million_rows() {
    let kinds: Vec<Value> = (0..100).map(result).collect();
    let made = Made::new(1_000_000, 1000, move |at| kinds[usize::try_from(at % 100).unwrap()].clone());
    let scope = rows(made.clone());
    for (source, expected) in [
        ("map.results | where(\"status == 'success'\") | sum('value.score')", "36750000"),
        ("map.results | median('item')", "49.5"),
        ("map.results | unique('status') | len", "2"),
    ] {
        assert_eq!(value(source, &scope), expected, "{source}");
        assert_eq!(made.counts(), (1000, 1_000_000), "{source}");
    }
}

// ---- bounds ------------------------------------------------------------------------------------------------

#[test]
fn rows_become_a_list_when_they_are_not_too_large() {
    let limits = Limits { text_result: 10_000, ..Limits::DEFAULT };
    let large = rows(Made::new(1000, 10, result));
    let all = |source: &str| {
        let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
        let mut world = NoWorld;
        expression.value(&large, &mut Session::new(&mut world).limits(&limits))
    };
    for source in [
        "map.results",
        "map",
        "map.results == []",
        "to_json(map.results)",
        "map.results | where('true')",
        "map.results | reverse",
        "map.results | sort_by('item')",
        "map.results | group_by('status')",
        "map.results | unique",
        "map.results | each('[it]') | flatten",
        "[1, 2] | each('${map.results}')",
    ] {
        let error = all(source).unwrap_err().diagnostic();
        let message = error.message.trim_start_matches("`each`, element 0: ");
        assert_eq!(message, "over the limit: elements kept in a list, at most 10000 bytes", "{source}");
        assert!(error.hints[0].starts_with("aggregate them with `where`"), "{source}");
    }
    for source in [
        "map.results[:50]",
        "map.results | where('item < 50')",
        "(map.results | where('item > 50'))[:10]",
        "map.results | where('item < 50') | sort_by('item', 'desc')",
        "map.results | sum('item')",
        "map.results | max('item')",
    ] {
        assert!(all(source).is_ok(), "{source}");
    }
}

#[test]
fn a_row_has_as_many_operations_as_an_evaluation() {
    let limits = Limits { operations: 1000, ..Limits::DEFAULT };
    let made = Made::new(5000, 100, result);
    let scope = rows(made.clone());
    let run = |source: &str| {
        let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
        let mut world = NoWorld;
        let answer = expression.value(&scope, &mut Session::new(&mut world).limits(&limits));
        answer.map(|value| value.to_json(JsonStyle::Compact)).map_err(|error| error.to_string())
    };
    // Five thousand rows, each of them cheap.
    assert_eq!(run("map.results | where('item % 2 == 0') | sum('1 + 1')").unwrap(), "5000");
    assert_eq!(run("(map.results | sum('1')) + (map.results | sum('1'))").unwrap(), "10000");
    // One row is bounded all the same.
    let error = run("map.results | each(\"([1] * 2000) | sum\") | count").unwrap_err();
    assert!(error.contains("operations per evaluation"), "{error}");
    // Rows within the expression over a row, or over an element of a list, are not given back.
    for source in ["map.results", "(few * 300)"] {
        made.counts();
        let error = run(&format!("{source} | each(\"${{map.results | sum('1')}}\") | count")).unwrap_err();
        assert!(error.contains("operations per evaluation"), "{error}");
        let (_, read) = made.counts();
        assert!(read < 2000, "{read}");
    }
    let error = run("map.results | each(\"${map.results[1].item}\") | count").unwrap_err();
    assert!(error.contains("operations per evaluation"), "{error}");
    assert_eq!(run("few | each(\"${map.results[3].item}\") | sum").unwrap(), "9");
}

/// A definition is an evaluation of its own, also when a row is the first to read it.
#[test]
fn a_definition_that_a_row_reads_may_stream() {
    let text = "{\"context\": {\"mean\": \"${map.results | avg('value.score')}\"}}";
    let mut context = Document::read(text, DataFormat::Json, &Syntax::DEFAULT).unwrap();
    let entry = ScopeEntry::Definitions(context.define("context").unwrap().unwrap());
    let made = Made::new(2000, 100, result);
    let scope = rows(made.clone()).with_entries("context", [("context".into(), entry)]).ok().unwrap();
    let limits = Limits { operations: 1000, ..Limits::DEFAULT };
    let expression = "map.results | count('value.score > ${context.mean}')";
    let expression = Expression::parse(expression, &Syntax::DEFAULT).unwrap();
    let mut world = NoWorld;
    let count = expression.value(&scope, &mut Session::new(&mut world).limits(&limits)).unwrap();
    assert_eq!(count.as_i64(), Some(1000));
    assert_eq!(made.counts().1, 4000);
}

// ---- rows that go wrong ------------------------------------------------------------------------------------

enum Wrong {
    Fails,
    Missing,
    Empty,
    NotAList,
    /// More rows than there are.
    TooMany,
    Endless,
}

impl PagedList for Wrong {
    fn len(&self) -> u64 {
        if matches!(self, Self::Endless) { u64::MAX } else { 5 }
    }

    fn page(&self, from: u64) -> Result<Value, ComputeError> {
        match self {
            _ if from < 2 => Ok(Value::list(vec![Value::from(1)]).unwrap()),
            Self::Fails => {
                let hint = Some("look at the disk".to_owned());
                Err(ComputeError::Failed { message: "the page is torn".to_owned(), hint })
            }
            Self::Missing | Self::Endless => Err(ComputeError::Missing { nearest: None }),
            Self::Empty => Ok(Value::list(Vec::new()).unwrap()),
            Self::NotAList => Ok(Value::from(1)),
            Self::TooMany => Ok(Value::list(vec![Value::from(1); 100]).unwrap()),
        }
    }
}

#[test]
fn rows_that_cannot_be_read_are_an_error() {
    let not_there = "computed: `map.results`: element 2 of 5 is not there";
    for (wrong, expected) in [
        (Wrong::Fails, "computed: `map.results`: the page is torn"),
        (Wrong::Missing, not_there),
        (Wrong::Empty, not_there),
        (Wrong::NotAList, not_there),
        (Wrong::TooMany, "5"),
        (Wrong::Endless, "computed: `map.results`: element 2 of 18446744073709551615 is not there"),
    ] {
        let scope = rows(Arc::new(wrong));
        for source in [
            "map.results | sum",
            "map.results | where('it == 1') | sum",
            "map.results | each('it') | count",
            "map.results | join | len",
            "len(map.results[:5])",
            "map.results[-1000:] | reverse | len",
        ] {
            let answer = value(source, &scope);
            assert!(
                answer == expected || source.contains(':') || expected.contains("18446"),
                "{source}: {answer}"
            );
            assert!(!answer.contains("panic"));
        }
        for source in
            ["map.results", "map", "map.results[2]", "1 in map.results", "exists(map.results | where('it'))"]
        {
            value(source, &scope);
        }
        assert_eq!(value("map.results[1]", &scope), "1");
        assert_eq!(value("map.results[:2] | sum", &scope), "2");
    }
}

// ---- what is shown -----------------------------------------------------------------------------------------

#[test]
fn a_trace_and_an_explanation_do_not_grow_with_the_rows() {
    let source = "map.results | where('item > ${limit}') | sum('item + ${map.total}')";
    let mut shown = Vec::new();
    for len in [20, 2000] {
        let scope = rows(Made::new(len, 7, result));
        let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
        let mut world = NoWorld;
        let mut session = Session::new(&mut world).traced();
        expression.value(&scope, &mut session).unwrap();
        let trace: Vec<String> =
            session.take_trace().iter().map(|read| format!("{}: {:?}", read.reference, read.value)).collect();
        let expected =
            [&format!("map.results: Some(\"{len} elements\")"), "limit: Some(2)", "map.total: Some(7)"];
        assert_eq!(trace, expected);
        let explanation = expression.explain(&scope, &mut Session::new(&mut NoWorld));
        let stage = &explanation.parts[0];
        shown.push(format!("{:?} {:?}", stage.parts[0].outcome, stage.outcome));
        assert!(stage.parts[1].for_each && explanation.parts[1].for_each);
    }
    assert_eq!(
        shown,
        [
            r#"Some(Ok("20 elements")) Some(Ok("17 elements"))"#,
            r#"Some(Ok("2000 elements")) Some(Ok("1997 elements"))"#
        ]
    );
}

// ---- before there are any ----------------------------------------------------------------------------------

#[test]
fn promised_rows_are_a_list_of_objects() {
    let row = ValueShape::object(vec![
        ("index".into(), ValueShape::one(Type::Int)),
        ("status".into(), ValueShape::one(Type::Text)),
        ("value".into(), ValueShape::ANY),
    ]);
    let shape = PromisedShape::Value(ValueShape::list_of(row).into());
    let promise = Promise { why: "the map has not run".into(), shape };
    let scope = scope(ScopeEntry::Promised(Arc::new(promise)));
    let problems = |source: &str| -> Vec<String> {
        let expression = Expression::parse(source, &Syntax::DEFAULT).unwrap();
        let mut problems: Vec<String> = expression.check(&scope).iter().map(ToString::to_string).collect();
        problems.extend(expression.infer(&scope).errors.iter().map(ToString::to_string));
        problems
    };
    for fine in [
        "map.results",
        "map.results[0].value.anything",
        "map.results[-1].index + 1",
        "map.results | sum('value.score')",
        "map.results.3.status",
        "map.results[1:] | count",
    ] {
        assert_eq!(problems(fine), [""; 0], "{fine}");
    }
    for (wrong, expected) in [
        ("map.results.status", "`map.results` is a list: it has no `.status`"),
        ("map.results[0].statsu", "`map.results[0]` has no field `statsu`"),
        ("map.results[0].index.x", "`map.results[0].index` is an int: it has no `.x`"),
        ("map.results[0].status * map.results[0].status", "`*` does not take text and text"),
        ("map.results + 1", "`+` does not take a list and an int"),
    ] {
        assert_eq!(problems(wrong), [expected], "{wrong}");
    }
    let expression = Expression::parse("map.results | count", &Syntax::DEFAULT).unwrap();
    let error = expression.value(&scope, &mut Session::new(&mut NoWorld)).unwrap_err();
    assert_eq!(error.to_string(), "`map.results` has no value: the map has not run");
}
