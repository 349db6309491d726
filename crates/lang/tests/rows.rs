//! Rows are lists: whatever is asked of them, the answer is that of the list, and only what is needed is read.
#![expect(clippy::unwrap_used, reason = "a case that goes wrong fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use threadline_lang::data::{Format, read_value};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Entry, Expression, Limits, NoWorld, Promise, RowList, Rows, Scope, Session,
    Shape, Syntax, Template, Type, Value,
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

impl<F: Fn(u64) -> Value + Send + Sync> Rows for Made<F> {
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
    read_value(text, Format::Json, &Limits::DEFAULT).unwrap()
}

/// A scope in which `map.results` is this, beside some names.
fn scope(results: Entry) -> Scope {
    let map = [("total".into(), Entry::Plain(Value::from(7))), ("results".into(), results)];
    let map = Scope::new().with_entries("map", map).ok().unwrap();
    let entries = [
        ("map".into(), Entry::Names(map)),
        ("limit".into(), Entry::Plain(Value::from(2))),
        ("few".into(), Entry::Plain(json("[1, 2, 3]"))),
    ];
    Scope::new().with_entries("run", entries).ok().unwrap()
}

fn rows(rows: Arc<dyn Rows>) -> Scope {
    scope(Entry::Rows(rows))
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
    "where(\"value.score > limit\")",
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
        &["@", "@", "@", "@", "1 in (@)", "1 not in @", "@ == @", "[@]", "few | each(\"it + (@ | count)\")"]
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
            let quotes = wrap.contains("each") && source.contains('"');
            if quotes { source } else { wrap.replace('@', &format!("({source})")) }
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
        let plain = scope(Entry::Plain(Value::list(list.clone()).unwrap()));
        let expected = answer(&source, &plain);
        let made = Made::new(list.len() as u64, page, { let list = list.clone(); move |at| list[usize::try_from(at).unwrap()].clone() });
        prop_assert_eq!(&answer(&source, &rows(made)), &expected, "{}", source);
        let listed = RowList::new(Value::list(list).unwrap());
        prop_assert_eq!(&answer(&source, &rows(Arc::new(listed))), &expected, "{}", source);
    }
}
