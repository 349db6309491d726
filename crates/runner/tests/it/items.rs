//! Work items: where they come from, what is selected of them, and how they are stored.
//!
//! Every selection is compared with one in memory that sorts and compares in the plainest way, with so little memory
//! that everything that can wait on disk does.
#![expect(clippy::unwrap_used, reason = "what a test is built from must be sound")]

use std::cmp::Ordering;
use std::convert::Infallible;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use threadline_flow::json_path::JsonPath;
use threadline_flow::model::SourceFormat;
use threadline_lang::value::{JsonStyle, ops};
use threadline_lang::{Limits, Value, data};
use threadline_runner::items::{
    ChunkError, ChunkReader, ChunkWriter, Chunks, ItemSource, KeyOrder, SelectError, SelectLimits, Selection,
    SelectionCounts, select,
};
use threadline_store::{Durability, EventDraft, MemoryDisk, NewRun, RunId, Store, StoreOptions};

// ---- the ground --------------------------------------------------------------------------------------------

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Atomic::Relaxed);
        let path = std::env::temp_dir().join(format!("threadline-items-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The files in it.
    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in a folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Gives a few bytes at a time, as a pipe may.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(self.1);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn stream<'a>(name: &str, bytes: &'a [u8]) -> ItemSource<'a> {
    ItemSource::Stream { name: name.to_owned(), read: Box::new(Trickle(bytes, 3)), format: None }
}

fn json(value: &Value) -> String {
    value.to_json(JsonStyle::Compact)
}

fn value(text: &str) -> Value {
    data::json::read_value(text, &Limits::DEFAULT).unwrap()
}

type Outcome = Result<(Vec<String>, SelectionCounts), SelectError<String>>;

fn run(source: ItemSource<'_>, selection: Selection<'_, String>, limits: &SelectLimits) -> Outcome {
    let folder = Folder::new();
    let mut items = Vec::new();
    let counts = select(source, selection, &folder.0, limits, &mut |item| {
        items.push(json(&item));
        Ok(())
    });
    assert_eq!(folder.files(), Vec::<PathBuf>::new(), "nothing is left");
    Ok((items, counts?))
}

fn small(memory: usize) -> SelectLimits {
    SelectLimits { memory, ..SelectLimits::default() }
}

/// The items of a stream, or the error with its hint.
fn read(name: &str, text: impl AsRef<[u8]>, path: &str) -> String {
    read_limited(name, text, path, &SelectLimits::default())
}

fn read_limited(name: &str, text: impl AsRef<[u8]>, path: &str, limits: &SelectLimits) -> String {
    let path = (!path.is_empty()).then(|| JsonPath::parse(path).unwrap());
    let selection = Selection { json_path: path.as_ref(), ..Selection::default() };
    shown(run(stream(name, text.as_ref()), selection, limits))
}

fn shown(outcome: Outcome) -> String {
    match outcome {
        Ok((items, _)) => items.join(" "),
        Err(error) => match error.hint() {
            Some(hint) => format!("error: {error}; hint: {hint}"),
            None => format!("error: {error}"),
        },
    }
}

// ---- sources -----------------------------------------------------------------------------------------------

#[test]
fn lines() {
    for (text, expected) in [
        ("", ""),
        ("\n\n", ""),
        ("a\nb\n", r#""a" "b""#),
        ("a\r\nb", r#""a" "b""#),
        ("a\n\n \t\nb", r#""a" "b""#),
        ("  a \n\n b", r#""  a " " b""#),
        ("\u{feff}a\n", r#""a""#),
        ("a\rb\n", r#""a\rb""#),
        ("[not json\n{\n", r#""[not json" "{""#),
    ] {
        assert_eq!(read("files.txt", text, ""), expected, "{text:?}");
    }
    assert_eq!(read("files.txt", b"a\nb\n\xff\n", ""), "error: files.txt:3: the line is not UTF-8");
    let limits = SelectLimits { data: Limits { source: 5, ..Limits::DEFAULT }, ..SelectLimits::default() };
    assert_eq!(read_limited("files.txt", "12345\n12345", "", &limits), r#""12345" "12345""#);
    assert_eq!(
        read_limited("files.txt", "a\n123456\n", "", &limits),
        "error: files.txt:2:1: the line is larger than 5 bytes"
    );
    assert_eq!(
        read("files.txt", "a", "$[*]"),
        "error: `files.txt` is read as lines of text, in which the JSONPath `$[*]` selects nothing; \
         hint: `format: json` or `format: jsonl` reads it as JSON"
    );
}

#[test]
fn json_lines() {
    assert_eq!(read("a.jsonl", "{\"a\": 1.10}\n\n[1]\r\n\"é\"\nnull", ""), r#"{"a":1.10} [1] "é" null"#);
    assert_eq!(read("a.ndjson", "\u{feff}1\n 9007199254740993 \n", ""), "1 9007199254740993");
    assert_eq!(read("a.jsonl", "{\"a\": [1, 2]}\n{\"b\": 1}\n{\"a\": [3]}", "$.a[*]"), "1 2 3");
    assert_eq!(read("a.jsonl", "1\n  {\"é\": x}\n", ""), "error: a.jsonl:2:9: expected a value, found `x`");
    assert_eq!(read("a.jsonl", "1 2\n", ""), "error: a.jsonl:1:3: the data ended before this");
    assert_eq!(
        read("a.jsonl", "1\n{\n}", ""),
        "error: a.jsonl:2:2: expected a key in double quotes or `}`, found the end of the text"
    );
}

#[test]
fn a_json_list() {
    for (text, expected) in [
        ("[]", ""),
        (" [ ] \n", ""),
        (
            "\u{feff}[1.10, \"a,]\\\"\", {\"b\": [1, {\"c\": \"}\"}]}, [], null, true,-0.0]",
            r#"1.10 "a,]\"" {"b":[1,{"c":"}"}]} [] null true 0.0"#,
        ),
        ("[\n 123456789012345678901234567890\n,\n 1e5 ]", "123456789012345678901234567890 1e5"),
    ] {
        for path in ["", "$[*]", "$.*"] {
            assert_eq!(read("a.json", text, path), expected, "{text}");
        }
    }
}

#[test]
fn json_that_is_wrong_says_where() {
    for (text, expected) in [
        ("", "1:1: expected a value, found the end of the text"),
        ("[", "1:2: expected a value, found the end of the text"),
        ("[1", "1:3: expected `,` or `]`, found the end of the text"),
        ("[1,\n 2 3]", "2:4: expected `,` or `]`, found `3`"),
        ("[1,]", "1:4: expected a value, found `]`; hint: remove the comma before it"),
        ("[,1]", "1:2: expected a value, found `,`"),
        ("[1]\n]", "2:1: the data ended before this"),
        ("[1] [2]", "1:5: the data ended before this"),
        ("[\"é\", x]", "1:7: expected a value, found `x`"),
        ("[\n // no\n 1]", "2:2: expected a value, found `/`; hint: JSON has no comments"),
        ("[{\"a\":1,\n\"a\":2}]", "2:1: the key `a` stands twice in one object"),
        ("[{]}]", "1:3: expected a key in double quotes or `}`, found `]`"),
        ("[01]", "1:2: `01` is not a number"),
        ("[1é]", "1:3: the data ended before this"),
        ("[\"a", "1:4: expected `\"`, found the end of the text"),
        ("[1}", "1:3: expected `,` or `]`, found `}`"),
        ("[1:2]", "1:3: expected `,` or `]`, found `:`"),
    ] {
        assert_eq!(read("a.json", text, ""), format!("error: a.json:{expected}"), "{text:?}");
    }
    assert_eq!(read("a.json", b"[1,\n\"\xff\"]", ""), "error: a.json:2: the line is not UTF-8");
    let limits = SelectLimits { data: Limits { source: 5, ..Limits::DEFAULT }, ..SelectLimits::default() };
    assert_eq!(read_limited("a.json", "[123, 12345, \"abc\"]", "", &limits), r#"123 12345 "abc""#);
    assert_eq!(
        read_limited("a.json", "[1,\n \"abcd\"]", "", &limits),
        "error: a.json:2:2: the element is larger than 5 bytes"
    );
    assert_eq!(
        read("a.json", r#"{"items": []}"#, ""),
        "error: `a.json` holds an object, and items are the elements of a list; \
         hint: `json_path` says where the items are, as in `json_path: $.items[*]`"
    );
}

const NESTED: &str = r#"{"meta": {"items": [0], "n": {"o": 1}}, "a": {"x": [9], "b": [1.10, {"n": 2, "ok": true}, {"n": 3}]},
  "o": {"p": 1, "q": [2]}, "rest": [[1], {"a": 1}]}"#;

#[test]
fn paths_into_a_document() {
    for (path, expected) in [
        ("$.a.b[*]", r#"1.10 {"n":2,"ok":true} {"n":3}"#),
        ("$['a'][\"b\"].*", r#"1.10 {"n":2,"ok":true} {"n":3}"#),
        ("$.a.b[*].n", "2 3"),
        ("$.a.b[?@.ok]", r#"{"n":2,"ok":true}"#),
        ("$.a.b[?@.n > 1].n", "2 3"),
        ("$.o[*]", "1 [2]"),
        ("$.*.b[*]", r#"1.10 {"n":2,"ok":true} {"n":3}"#),
        ("$..n", r#"{"o":1} 2 3"#),
        ("$.a.b[0, 2]", r#"1.10 {"n":3}"#),
        ("$.a.b", r#"[1.10,{"n":2,"ok":true},{"n":3}]"#),
        ("$.nothing[*]", ""),
        ("$.a.b.c[*]", ""),
        ("$.o.p[*]", ""),
        ("$..nothing", ""),
    ] {
        assert_eq!(read("a.json", NESTED, path), expected, "{path}");
        let (path, document) = (JsonPath::parse(path).unwrap(), value(NESTED));
        let selection = Selection { json_path: Some(&path), ..Selection::default() };
        let source = ItemSource::Value { name: "input".to_owned(), value: &document };
        assert_eq!(shown(run(source, selection, &SelectLimits::default())), expected, "{path:?}");
    }
}

#[test]
fn what_a_path_passes_is_read_too() {
    for (text, expected) in [
        (r#"{"a": [1], "b": [1 2]}"#, "1:20: expected `,` or `]`, found `2`"),
        (r#"{"b": nul, "a": [1]}"#, "1:7: expected a value, found `nul`"),
        (r#"{"a": [1], "a": [2]}"#, "1:12: the key `a` stands twice in one object"),
        (r#"{"b": {"c": 1, "c": 2}, "a": []}"#, "1:16: the key `c` stands twice in one object"),
        (r#"{"a": [1]} x"#, "1:12: the data ended before this"),
        (
            r#"{"a": [1],}"#,
            "1:11: expected a key in double quotes, found `}`; hint: remove the comma before it",
        ),
        (r#"{"a" [1]}"#, "1:6: expected `:` after the key, found `[`"),
        ("{a: [1]}", "1:2: expected a key in double quotes, found `a`"),
        (r#"{"a": [1]"#, "1:10: expected `,` or `}`, found the end of the text"),
        (r#"{"a": }"#, "1:7: expected a value, found `}`"),
    ] {
        assert_eq!(read("a.json", text, "$.a[*]"), format!("error: a.json:{expected}"), "{text}");
    }
    let limits = SelectLimits { data: Limits { source: 20, ..Limits::DEFAULT }, ..SelectLimits::default() };
    let long = format!("{{\"b\": [{}0], \"a\": [1, 2]}}", "1, ".repeat(100));
    assert_eq!(read_limited("a.json", &long, "$.a[*]", &limits), "1 2");
    assert_eq!(
        read_limited("a.json", &long, "$..a", &limits),
        "error: the JSONPath `$..a` needs the whole document in memory, and `a.json` is larger than 20 bytes; \
         hint: paths such as `$[*]`, `$.items[*]`, `$.items[*].name` and `$.items[?@.open]` take one element at a time"
    );
}

#[test]
fn the_form_of_a_text_that_has_no_name_for_it() {
    for (text, format, items) in [
        ("a\nb", SourceFormat::Lines, 2),
        ("  a\nb", SourceFormat::Lines, 2),
        ("", SourceFormat::Lines, 0),
        ("[1, 2]", SourceFormat::Json, 2),
        (" \n [1,\n 2]", SourceFormat::Json, 2),
        ("{\"a\": 1}\n{\"a\": 2}\n", SourceFormat::JsonLines, 2),
        ("\n{\"a\": 1}\n\n{\"a\": 2}", SourceFormat::JsonLines, 2),
    ] {
        let source = stream("the output of `list`", text.as_bytes());
        let (found, counts) = run(source, Selection::default(), &SelectLimits::default()).unwrap();
        assert_eq!((counts.format, found.len()), (Some(format), items), "{text:?}");
    }
    assert_eq!(read("out", "{\"a\": [1, 2]}\n", "$.a[*]"), "1 2", "one line is a document");
    assert_eq!(read("out", "{\n\"a\": [1, 2]}\n", "$.a[*]"), "1 2");
    assert_eq!(read("out", "  a\n b", ""), r#""  a" " b""#);
    assert_eq!(
        read("todo", "[ ] wash\n[x] eat\n", ""),
        "error: todo:1:5: the data ended before this; \
         hint: its beginning looks like JSON; `format: lines` or `format: jsonl` says that it is not"
    );
    assert_eq!(
        read("items.yaml", "- 1\n", ""),
        "error: `items.yaml`: a file of the kind `.yaml` is not read item by item; \
         hint: `format:` takes `json`, `jsonl`, `lines` and `csv`; another file can be read as a value first"
    );
    let said = ItemSource::Stream {
        name: "items.yaml".to_owned(),
        read: Box::new(&b"- 1\n"[..]),
        format: Some(SourceFormat::Lines),
    };
    assert_eq!(shown(run(said, Selection::default(), &SelectLimits::default())), r#""- 1""#);
}

#[test]
fn a_value() {
    let list = value("[1.10, {\"a\": 1}]");
    let source = ItemSource::Value { name: "input".to_owned(), value: &list };
    assert_eq!(shown(run(source, Selection::default(), &SelectLimits::default())), r#"1.10 {"a":1}"#);
    let text = Value::from("a");
    let source = ItemSource::Value { name: "input".to_owned(), value: &text };
    assert_eq!(
        shown(run(source, Selection::default(), &SelectLimits::default())),
        "error: `input` holds text, and items are the elements of a list; \
         hint: `json_path` says where the items are, as in `json_path: $.items[*]`"
    );
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(5))
    }
}

#[test]
fn a_file_that_cannot_be_read() {
    let source = ItemSource::Stream { name: "a.txt".to_owned(), read: Box::new(Broken), format: None };
    assert_eq!(
        shown(run(source, Selection::default(), &SelectLimits::default())),
        "error: `a.txt`: input/output error"
    );
}

// ---- selections --------------------------------------------------------------------------------------------

/// What a selection does, as data.
#[derive(Debug, Clone)]
struct Wanted {
    filter: bool,
    orders: Vec<(bool, bool)>,
    distinct: Option<bool>,
    offset: u64,
    max_items: Option<u64>,
}

fn key(item: &Value, name: &str) -> Value {
    item.get(name).cloned().unwrap_or_default()
}

fn keys(item: &Value, count: usize) -> Vec<Value> {
    ["k", "l"][..count].iter().map(|name| key(item, name)).collect()
}

fn passes(item: &Value) -> bool {
    item.get("v").and_then(Value::as_i64).is_some_and(|v| v % 3 != 0)
}

/// The plainest way to do it.
fn model(items: &[Value], wanted: &Wanted) -> Vec<String> {
    let mut items: Vec<Value> = items.iter().filter(|item| !wanted.filter || passes(item)).cloned().collect();
    items.sort_by(|a, b| {
        let (a, b) = (keys(a, wanted.orders.len()), keys(b, wanted.orders.len()));
        let mut order = Ordering::Equal;
        for (at, (descending, nulls_first)) in wanted.orders.iter().enumerate() {
            let one = match (a[at].is_null(), b[at].is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) if *nulls_first => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) if *nulls_first => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ if *descending => ops::order(&b[at], &a[at]).unwrap(),
                _ => ops::order(&a[at], &b[at]).unwrap(),
            };
            order = order.then(one);
        }
        order
    });
    if let Some(by_key) = wanted.distinct {
        let mut seen: Vec<Value> = Vec::new();
        items.retain(|item| {
            let key = if by_key { key(item, "k") } else { key(item, "d") };
            let new = !seen.contains(&key);
            seen.push(key);
            new
        });
    }
    let max = wanted.max_items.unwrap_or(u64::MAX);
    let items = items.iter().skip(usize::try_from(wanted.offset).unwrap());
    items.take(usize::try_from(max).unwrap_or(usize::MAX)).map(json).collect()
}

fn selected(source: ItemSource<'_>, path: Option<&JsonPath>, wanted: &Wanted, memory: usize) -> Outcome {
    let orders: Vec<KeyOrder> = wanted
        .orders
        .iter()
        .map(|(descending, nulls_first)| KeyOrder { descending: *descending, nulls_first: *nulls_first })
        .collect();
    let mut keep = |item: &Value, _: u64| Ok(passes(item));
    let mut sort_keys = |item: &Value| Ok(keys(item, orders.len()));
    let by_key = wanted.distinct == Some(true);
    let mut distinct = |item: &Value| Ok(if by_key { key(item, "k") } else { key(item, "d") });
    let selection = Selection {
        json_path: path,
        keep: wanted.filter.then_some(&mut keep),
        sort: (!orders.is_empty()).then_some((&mut sort_keys, orders.as_slice())),
        distinct: wanted.distinct.is_some().then_some(&mut distinct),
        offset: wanted.offset,
        max_items: wanted.max_items,
    };
    run(source, selection, &small(memory))
}

fn numbers() -> impl Strategy<Value = Value> {
    let written = prop::sample::select(vec![
        "1",
        "1.0",
        "1.00",
        "2",
        "10",
        "1e1",
        "-3",
        "0.1",
        "-0.0",
        "0",
        "9007199254740993",
        "9007199254740992",
    ]);
    prop_oneof![
        8 => written.prop_map(value),
        1 => Just(Value::NULL),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    prop_oneof![8 => "[ab\u{e9}\"\n]{0,3}".prop_map(Value::from), 1 => Just(Value::NULL)]
}

/// Values that are equal now and then, in different forms.
fn compared() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![numbers(), texts(), any::<bool>().prop_map(Value::from)];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| Value::list(items).unwrap()),
            prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), inner), 0..3).prop_map(
                |entries| {
                    Value::object(entries.into_iter().map(|(key, value)| (key.into(), value))).unwrap()
                }
            ),
        ]
    })
}

fn items() -> impl Strategy<Value = Vec<Value>> {
    let with = |keys: BoxedStrategy<Value>, others: BoxedStrategy<Value>| {
        let item = (keys, others, 0..100_i64, compared()).prop_map(|(k, l, v, d)| {
            let entries = [("k", k), ("l", l), ("v", Value::from(v)), ("d", d)];
            Value::object(entries.map(|(key, value)| (key.into(), value))).unwrap()
        });
        prop::collection::vec(item, 0..60).boxed()
    };
    prop_oneof![with(numbers().boxed(), texts().boxed()), with(texts().boxed(), numbers().boxed()),]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (
        any::<bool>(),
        prop::collection::vec(any::<(bool, bool)>(), 0..3),
        any::<Option<bool>>(),
        prop_oneof![Just(0), 0..20_u64],
        prop_oneof![Just(None), (0..40_u64).prop_map(Some)],
    )
        .prop_map(|(filter, orders, distinct, offset, max_items)| Wanted {
            filter,
            orders,
            distinct,
            offset,
            max_items,
        })
}

fn config(cases: u32) -> ProptestConfig {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    // The same cases each time gate a change; the long form looks for new ones, and a failure prints its input.
    let (cases, rng_seed) = if long { (cases * 20, RngSeed::Random) } else { (cases, RngSeed::Fixed(42)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn a_selection_is_what_the_plainest_way_gives(
        items in items(), wanted in wanted(), memory in prop::sample::select(vec![1, 300, 2000, 1 << 20]),
    ) {
        let list = Value::list(items.clone()).unwrap();
        let source = ItemSource::Value { name: "input".to_owned(), value: &list };
        let (found, counts) = selected(source, None, &wanted, memory).unwrap();
        prop_assert_eq!(&found, &model(&items, &wanted));
        prop_assert_eq!(counts.given, found.len() as u64);
        if counts.complete {
            prop_assert_eq!(counts.read, items.len() as u64);
        }
    }

    #[test]
    fn a_selection_of_a_stream_is_the_same(
        items in items(), wanted in wanted(), pretty in any::<bool>(), bytes in 1..50_usize,
    ) {
        let style = if pretty { JsonStyle::Pretty } else { JsonStyle::Compact };
        let list = Value::list(items.clone()).unwrap();
        let document = Value::object([
            ("before".into(), list.clone()), ("in".into(), Value::object([("it".into(), list.clone())]).unwrap()), ("after".into(), list.clone()),
        ]).unwrap().to_json(style);
        let lines: String = items.iter().map(|item| json(item) + "\n").collect();
        let (list, expected) = (list.to_json(style), model(&items, &wanted));
        let path = JsonPath::parse("$.in.it[*]").unwrap();
        for (name, text, path) in [("a.json", &list, None), ("a.json", &document, Some(&path)), ("a.jsonl", &lines, None)] {
            let read = Box::new(Trickle(text.as_bytes(), bytes));
            let source = ItemSource::Stream { name: name.to_owned(), read, format: None };
            let (found, _) = selected(source, path, &wanted, 500).unwrap();
            prop_assert_eq!(&found, &expected, "{}", name);
        }
    }

    #[test]
    fn a_stream_fails_where_the_reader_does(
        text in "[\\[\\]{},:\" \n\\\\1a-]{0,12}|\\[(1|\"a\"|\\{\"a\":1\\}|,| |\\]|\\[){0,8}",
    ) {
        let whole = data::json::read_value(&text, &Limits::DEFAULT);
        let source = ItemSource::Stream { name: "a.json".to_owned(), read: Box::new(Trickle(text.as_bytes(), 2)), format: Some(SourceFormat::Json) };
        match (whole, run(source, Selection::default(), &SelectLimits::default())) {
            (Ok(whole), Ok((items, _))) => {
                prop_assert_eq!(whole.as_list().unwrap().iter().map(json).collect::<Vec<_>>(), items);
            }
            (Ok(whole), Err(_)) => prop_assert!(whole.as_list().is_none(), "refused"),
            (Err(error), Ok(_)) => prop_assert!(false, "accepted, and the reader says {}", error),
            (Err(_), Err(_)) => {}
        }
    }
}

#[test]
fn the_filter_is_told_the_index() {
    let mut seen = Vec::new();
    let mut keep = |item: &Value, index: u64| {
        seen.push(format!("{index}:{item}"));
        Ok(index % 2 == 1)
    };
    let selection = Selection { keep: Some(&mut keep), max_items: Some(2), ..Selection::default() };
    let (items, counts) = run(stream("a.txt", b"a\nb\nc\nd\ne\nf"), selection, &small(0)).unwrap();
    assert_eq!((items.join(" ").as_str(), counts.read, counts.kept), (r#""b" "d""#, 4, 2));
    assert!(!counts.complete);
    assert_eq!(seen, ["0:a", "1:b", "2:c", "3:d"]);
}

#[test]
fn what_has_no_order_is_named() {
    let sorted = |text: &str| {
        let mut keys = |item: &Value| Ok(vec![key(item, "k"), key(item, "l")]);
        let orders = [KeyOrder::default(); 2];
        let selection = Selection { sort: Some((&mut keys, &orders)), ..Selection::default() };
        shown(run(stream("a.jsonl", text.as_bytes()), selection, &small(0)))
    };
    assert_eq!(
        sorted("{\"l\": 1}\n{\"l\": null}\n{\"l\": \"a\"}\n"),
        "error: key 2 of the sort is 1 (int) for item 0 and \"a\" (text) for item 2, which have no order; \
         hint: make them alike with `number(...)` or `text(...)`"
    );
    assert_eq!(
        sorted("{\"k\": true}\n"),
        "error: key 1 of the sort is true (bool) for item 0; items are sorted by numbers or texts"
    );
}

#[test]
fn an_error_of_the_caller_ends_it() {
    let folder = Folder::new();
    let mut given = 0;
    let mut keys = |item: &Value| Ok(vec![item.clone()]);
    let orders = [KeyOrder { descending: true, nulls_first: false }];
    let selection = Selection { sort: Some((&mut keys, &orders)), ..Selection::default() };
    let outcome = select(stream("a.txt", b"a\nb\nc\nd"), selection, &folder.0, &small(0), &mut |item| {
        given += 1;
        if given == 3 { Err(format!("no {item}")) } else { Ok(()) }
    });
    assert_eq!(outcome, Err(SelectError::Caller("no b".to_owned())));
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

#[test]
fn a_spool_that_cannot_be_written() {
    let mut keys = |item: &Value| Ok(vec![item.clone()]);
    let orders = [KeyOrder::default()];
    let selection = Selection::<String> { sort: Some((&mut keys, &orders)), ..Selection::default() };
    let nowhere = Path::new("/dev/null/spool");
    let outcome = select(stream("a.txt", b"a\nb"), selection, nowhere, &small(0), &mut |_| Ok(()));
    let error = outcome.unwrap_err();
    assert_eq!(error, SelectError::Spool("not a directory".to_owned()));
    assert_eq!(error.to_string(), "items cannot be kept on disk: not a directory");
}

/// Lines in an order that looks like none, made as they are read.
struct Generated {
    next: u64,
    count: u64,
    rest: Vec<u8>,
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.len() < buffer.len() && self.next < self.count {
            let key = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46;
            self.rest.extend_from_slice(format!("{key:06} {}\n", self.next).as_bytes());
            self.next += 1;
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

#[test]
fn many_lines_are_sorted_and_distinct_in_little_memory() {
    const COUNT: u64 = 300_000;
    let folder = Folder::new();
    let read = Box::new(Generated { next: 0, count: COUNT, rest: Vec::new() });
    let source = ItemSource::Stream { name: "a.txt".to_owned(), read, format: None };
    let key = |item: &Value| Value::from(&item.as_str().unwrap()[..6]);
    let mut keys = |item: &Value| Ok::<_, Infallible>(vec![key(item)]);
    let mut distinct = |item: &Value| Ok(key(item));
    let orders = [KeyOrder::default()];
    let selection =
        Selection { sort: Some((&mut keys, &orders)), distinct: Some(&mut distinct), ..Selection::default() };
    let mut given: Vec<(u64, u64)> = Vec::new();
    let counts = select(source, selection, &folder.0, &small(1 << 20), &mut |item| {
        let (key, number) = item.as_str().unwrap().split_once(' ').unwrap();
        given.push((key.parse().unwrap(), number.parse().unwrap()));
        Ok(())
    })
    .unwrap();
    let mut expected = std::collections::BTreeMap::new();
    for next in 0..COUNT {
        expected.entry(next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46).or_insert(next);
    }
    assert!(expected.len() < 300_000, "some occur twice");
    assert_eq!((counts.read, counts.distinct), (COUNT, expected.len() as u64));
    assert!(given == expected.into_iter().collect::<Vec<_>>());
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

// ---- chunks ------------------------------------------------------------------------------------------------

fn store() -> Store {
    Store::in_memory(&MemoryDisk::new().unwrap(), StoreOptions::default()).unwrap()
}

/// Values are on disk when an event that came after them is.
fn on_disk(store: &Store) {
    let id = RunId::new("k3x9-0001").unwrap();
    let run = NewRun { id, name: "many".into(), file: "many.yaml".into(), started_at: "0".into() };
    let lease = store.create_run(run).unwrap();
    lease.append(vec![EventDraft::new("expanded", "0")], Durability::Now).unwrap().wait().unwrap();
}

#[test]
fn items_are_found_in_their_chunks() {
    let store = store();
    let mut items: Vec<Value> = (0..1000).map(|at| value(&format!("{{\"n\": {at}.10}}"))).collect();
    items[17] = Value::from("x".repeat(10_000));
    items[500] = value("0.10");
    let mut writer = ChunkWriter::new(&store, 64, 5_000);
    for item in &items {
        writer.push(item.clone()).unwrap();
    }
    let chunks = writer.finish().unwrap();
    assert_eq!((chunks.len(), chunks.is_empty()), (1000, false));
    assert!((1000 / 64..40).contains(&chunks.count()), "{}", chunks.count());
    let index = chunks.store(&store).unwrap();
    on_disk(&store);
    let loaded = Arc::new(Chunks::load(store.reader(), &index).unwrap());
    let reader = ChunkReader::new(store.reader(), loaded);
    for at in (0..1000).chain([999, 17, 18, 500, 0, 63, 64]) {
        let (found, item) = (reader.item(at).unwrap(), &items[usize::try_from(at).unwrap()]);
        assert_eq!((json(&found), &found), (json(item), item), "{at}");
    }
    assert_eq!(reader.item(1000), Err(ChunkError::Missing { index: 1000, len: 1000 }));
    assert_eq!(reader.len(), 1000);
}

#[test]
fn no_items_are_an_index_too() {
    let store = store();
    let chunks = ChunkWriter::new(&store, 64, 5_000).finish().unwrap();
    assert!(chunks.is_empty());
    let index = chunks.store(&store).unwrap();
    let reader = ChunkReader::new(store.reader(), Arc::new(Chunks::load(store.reader(), &index).unwrap()));
    assert_eq!(reader.item(0).unwrap_err().to_string(), "there is no item 0, only 0");
}

#[test]
fn an_item_that_no_list_can_hold_is_named() {
    let store = store();
    let mut deep = Value::NULL;
    for _ in 0..200 {
        deep = Value::list(vec![deep]).unwrap();
    }
    let mut writer = ChunkWriter::new(&store, 64, 5_000);
    writer.push(Value::NULL).unwrap();
    let error = writer.push(deep).unwrap_err();
    assert_eq!(error.to_string(), "item 1 is nested too deep to be stored in a list");
}
