//! `JSONPath` (RFC 9535), which selects work items in a document.
//!
//! A path is evaluated on a copy of the document and gives the *locations* of values; the values come from
//! the document itself, with all their digits. Comparisons in a filter use binary floats, as in the
//! underlying library.
//!
//! A path may need only one element of a list at a time: names that lead to a list or object, then `[*]` or
//! one filter, then anything that depends only on that element. Such a path can be evaluated on a stream.

use std::fmt;

use ecow::EcoString;
use serde_json_path::PathElement;
use threadline_lang::Value;
use threadline_lang::value::Oversized;

/// Maximum length of a path, in bytes.
pub const MAX_LENGTH: usize = 4 << 10;

/// Maximum nesting of brackets and parentheses. The time to parse nested filters doubles with each level.
pub const MAX_NESTING: usize = 8;

/// Maximum number of places that a path may visit in a document, as far as that can be foreseen. Each `..`
/// behind another one multiplies the number by the depth of the document.
pub const MAX_VISITS: u64 = 50_000_000;

/// Selectors beside each other in brackets that cost no more than as many paths.
const FREE_SELECTORS: u64 = 64;

/// A parsed path.
#[derive(Debug, Clone)]
pub struct JsonPath {
    source: EcoString,
    whole: Weighed,
    streamed: Option<Streamed>,
}

#[derive(Debug, Clone)]
struct Streamed {
    names: Vec<EcoString>,
    /// The path in a list with this one element; none if it selects the element itself.
    each: Option<Weighed>,
}

/// A path, and what makes it visit a place more than once.
#[derive(Debug, Clone)]
struct Weighed {
    path: serde_json_path::JsonPath,
    /// The number of `..` that start at every place which another one visits.
    descents: u32,
    /// The number of queries of the whole document in filters.
    roots: u32,
    /// The product of the numbers of selectors in brackets.
    selectors: u64,
}

/// Why a path selects nothing in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRefusal {
    /// The element is nested too deeply for the container around it.
    TooDeep,
    /// It could visit more than [`MAX_VISITS`] places.
    TooManyVisits,
}

impl From<Oversized> for PathRefusal {
    fn from(_: Oversized) -> Self {
        Self::TooDeep
    }
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => f.write_str("the element is nested too deep for a JSONPath"),
            Self::TooManyVisits => write!(
                f,
                "the JSONPath could visit more than {} million places of the document; use fewer `..`, and \
                 names in place of `*`",
                MAX_VISITS / 1_000_000
            ),
        }
    }
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPathError {
    /// The problem, in words.
    pub message: String,
    /// Byte offset of the problem.
    pub offset: usize,
    /// How to fix it.
    pub hint: Option<&'static str>,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JsonPathError {}

impl JsonPath {
    /// Parses a path.
    pub fn parse(source: &str) -> Result<Self, JsonPathError> {
        check_extent(source)?;
        let whole = serde_json_path::JsonPath::parse(source).map_err(|error| JsonPathError {
            // Mostly the library only says that the path is wrong.
            message: match error.message() {
                "parser error" => format!("`{source}` is not a valid JSONPath from here"),
                why => format!("`{source}` is not a valid JSONPath: {why}"),
            },
            offset: error.position().saturating_sub(1).min(source.len()),
            hint: Some(if source.starts_with('$') {
                "write names, elements and conditions as `$.a`, `$[\"a b\"]`, `$.list[*]`, \
                 `$.list[?@.open == true]`"
            } else {
                "start the path with `$`, as in `$.items[*]`"
            }),
        })?;
        Ok(Self { source: source.into(), whole: Weighed::new(whole, source), streamed: streamed(source) })
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// The values that the path selects in a document, in document order.
    pub fn select(&self, document: &Value) -> Result<Vec<Value>, PathRefusal> {
        self.whole.select(document)
    }

    /// The names that lead to the container whose elements [`JsonPath::select_in_element`] takes one by one;
    /// none if the path needs the whole document.
    pub fn names(&self) -> Option<&[EcoString]> {
        self.streamed.as_ref().map(|streamed| streamed.names.as_slice())
    }

    /// The values that the path selects in one element of the container that [`JsonPath::names`] lead to. It
    /// fails if the element is nested too deeply for the container around it.
    pub fn select_in_element(&self, element: Value) -> Result<Vec<Value>, PathRefusal> {
        match self.streamed.as_ref().and_then(|streamed| streamed.each.as_ref()) {
            Some(each) => each.select(&Value::list(vec![element])?),
            None => Ok(vec![element]),
        }
    }
}

impl Weighed {
    fn new(path: serde_json_path::JsonPath, source: &str) -> Self {
        let bytes: Vec<(usize, u8)> = outside_quotes(source).collect();
        let (mut outer, mut inner, mut roots) = (0u32, 0u32, 0u32);
        let mut selectors = 1u64;
        // The selectors of each bracket that is open; a comma in parentheses separates arguments.
        let mut open: Vec<u64> = Vec::new();
        for (at, (offset, byte)) in bytes.iter().enumerate() {
            match byte {
                b'[' => open.push(1),
                b'(' => open.push(0),
                b']' | b')' => selectors = selectors.saturating_mul(open.pop().unwrap_or(1).max(1)),
                b',' => {
                    if let Some(count) = open.last_mut().filter(|count| **count > 0) {
                        *count += 1;
                    }
                }
                b'.' if bytes.get(at + 1) == Some(&(offset + 1, b'.')) => {
                    let count = if open.is_empty() { &mut outer } else { &mut inner };
                    *count = count.saturating_add(1);
                }
                b'$' if *offset > 0 && !leads_to_one(&source[offset + 1..]) => roots += 1,
                _ => {}
            }
        }
        Self { path, descents: outer.saturating_sub(1).saturating_add(inner), roots, selectors }
    }

    fn select(&self, document: &Value) -> Result<Vec<Value>, PathRefusal> {
        if self.visits(document) > MAX_VISITS {
            return Err(PathRefusal::TooManyVisits);
        }
        let copy = threadline_expect::json(document);
        let found = self.path.query_located(&copy);
        Ok(found.locations().filter_map(|place| at(document, place.iter())).collect())
    }

    /// No fewer than the places that it visits; nothing for a path that visits each a few times.
    fn visits(&self, document: &Value) -> u64 {
        if self.descents == 0 && self.roots == 0 && self.selectors <= FREE_SELECTORS {
            return 0;
        }
        let (count, depth) = extent(document);
        // Each place is named by all the keys on the way to it.
        let visits = count.saturating_mul(depth).saturating_mul(self.selectors);
        let visits = visits.saturating_mul(depth.saturating_pow(self.descents));
        visits.saturating_mul(count.saturating_pow(self.roots))
    }
}

/// How many values a document holds, and how deep they are nested. Documents are at most 200 deep.
fn extent(document: &Value) -> (u64, u64) {
    let parts = match document.as_object() {
        Some(object) => object.values(),
        None => document.as_list().unwrap_or_default(),
    };
    let (count, depth) = parts
        .iter()
        .map(extent)
        .fold((1u64, 0), |(count, depth), (inner, below)| (count + inner, depth.max(below)));
    (count, depth + 1)
}

/// Whether a query leads to at most one value: names and indexes, and nothing else.
fn leads_to_one(mut query: &str) -> bool {
    loop {
        query = query.trim_start();
        if let Some((_, after)) = name(query) {
            query = after;
            continue;
        }
        let index = query.strip_prefix('[').and_then(|inner| inner.split_once(']'));
        match index.filter(|(index, _)| index.trim().parse::<i64>().is_ok()) {
            Some((_, after)) => query = after,
            None => return !query.starts_with(['.', '[']),
        }
    }
}

fn at<'p>(document: &Value, place: impl Iterator<Item = &'p PathElement<'p>>) -> Option<Value> {
    let mut value = document;
    for step in place {
        value = match step {
            PathElement::Name(name) => value.get(name)?,
            PathElement::Index(index) => value.as_list()?.get(*index)?,
        };
    }
    Some(value.clone())
}

fn check_extent(source: &str) -> Result<(), JsonPathError> {
    let refused = |message: String, offset| Err(JsonPathError { message, offset, hint: None });
    if source.len() > MAX_LENGTH {
        return refused(format!("a JSONPath can have at most {} KiB", MAX_LENGTH >> 10), MAX_LENGTH);
    }
    let mut nesting = 0usize;
    for (offset, byte) in outside_quotes(source) {
        match byte {
            b'[' | b'(' => nesting += 1,
            b']' | b')' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > MAX_NESTING {
            return refused(
                format!("a JSONPath can nest brackets and parentheses at most {MAX_NESTING} levels deep"),
                offset,
            );
        }
    }
    Ok(())
}

/// The bytes outside of quoted texts, with their offsets; the quotes themselves are included.
fn outside_quotes(source: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut quote, mut escaped) = (None, false);
    source.bytes().enumerate().filter(move |(_, byte)| match quote {
        None => {
            quote = matches!(byte, b'"' | b'\'').then_some(*byte);
            true
        }
        Some(_) if escaped => {
            escaped = false;
            false
        }
        Some(open) => {
            escaped = *byte == b'\\';
            if *byte == open {
                quote = None;
            }
            *byte == open
        }
    })
}

/// How a valid path takes one element at a time, if it can.
fn streamed(source: &str) -> Option<Streamed> {
    let mut rest = source.strip_prefix('$')?.trim_start();
    let mut names = Vec::new();
    loop {
        if let Some(after) = wildcard(rest) {
            let each = match after.trim() {
                "" => None,
                after => Some(each_path(&format!("[*]{after}"))?),
            };
            return Some(Streamed { names, each });
        }
        if is_one_filter(rest) {
            return Some(Streamed { names, each: Some(each_path(rest)?) });
        }
        let (name, after) = name(rest)?;
        names.push(name.into());
        rest = after.trim_start();
    }
}

/// A path for a list of one element. It must not read the root, which would be a different one.
fn each_path(rest: &str) -> Option<Weighed> {
    if outside_quotes(rest).any(|(_, byte)| byte == b'$') {
        return None;
    }
    let source = format!("${rest}");
    Some(Weighed::new(serde_json_path::JsonPath::parse(&source).ok()?, &source))
}

/// The rest of a path after `.*` or `[*]`.
fn wildcard(rest: &str) -> Option<&str> {
    if let Some(after) = rest.strip_prefix(".*") {
        return Some(after);
    }
    rest.strip_prefix('[')?.trim_start().strip_prefix('*')?.trim_start().strip_prefix(']')
}

/// Whether a segment is a single filter.
fn is_one_filter(rest: &str) -> bool {
    if !rest.strip_prefix('[').is_some_and(|inner| inner.trim_start().starts_with('?')) {
        return false;
    }
    let mut nesting = 0usize;
    for (_, byte) in outside_quotes(rest) {
        match byte {
            b'[' | b'(' => nesting += 1,
            b']' | b')' => nesting = nesting.saturating_sub(1),
            b',' if nesting == 1 => return false,
            _ => {}
        }
        if nesting == 0 {
            return true;
        }
    }
    false
}

/// A name selector, and the rest after it. Names with escapes need the whole document.
fn name(rest: &str) -> Option<(&str, &str)> {
    if let Some(plain) = rest.strip_prefix('.') {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
        let end = plain.find(|c| !is_part(c)).unwrap_or(plain.len());
        return (end > 0).then(|| plain.split_at(end));
    }
    let inner = rest.strip_prefix('[')?.trim_start();
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (name, after) = inner[1..].split_once(quote)?;
    let after = after.trim_start().strip_prefix(']')?;
    (!name.contains('\\')).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadline_lang::{Limits, data};

    fn value(json: &str) -> Value {
        data::json::read_value(json, &Limits::DEFAULT).unwrap()
    }

    fn path(source: &str) -> JsonPath {
        JsonPath::parse(source).unwrap()
    }

    const DOCUMENT: &str = r#"{"a": {"b": [{"n": 1.10, "t": ["x"]}, {"n": 9007199254740993}, 3, [4, 5]], "c d": [1]},
        "o": {"p": {"n": 1}, "q": {"n": 2}}, "é": [true], "e": []}"#;

    #[test]
    fn values_keep_their_digits() {
        let found = path("$..n").select(&value(DOCUMENT)).unwrap();
        assert_eq!(format!("{found:?}"), "[1.10, 9007199254740993, 1, 2]");
    }

    #[test]
    fn names_lead_to_what_is_streamed() {
        for (source, names) in [
            ("$[*]", Some(&[][..])),
            ("$.*", Some(&[])),
            ("$.a.b[*]", Some(&["a", "b"])),
            ("$['a'][\"c d\"][ * ]", Some(&["a", "c d"])),
            ("$ .a .b [*] .n", Some(&["a", "b"])),
            ("$.é[*]", Some(&["é"])),
            ("$.a.b[?@.n > 1].t[*]", Some(&["a", "b"])),
            ("$.a.b[?match(@.n, 'a,b')]", Some(&["a", "b"])),
            ("$.a[*]['$']", Some(&["a"])),
            ("$", None),
            ("$.a", None),
            ("$..n", None),
            ("$.a.b[0]", None),
            ("$.a.b[?@.n, ?@.t]", None),
            ("$.a.b[?@.n == $.o.p.n]", None),
            ("$['a','o'][*]", None),
            ("$['\\u0061'][*]", None),
        ] {
            let path = path(source);
            let found = path.names().map(|names| names.iter().map(EcoString::as_str).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), names, "{source}");
        }
    }

    #[test]
    fn one_element_at_a_time_selects_the_same() {
        let document = value(DOCUMENT);
        for source in [
            "$[*]",
            "$.*",
            "$.a.b[*]",
            "$.o.*",
            "$.o[?@.n > 1]",
            "$.a.b[*].n",
            "$.a.b[*][*]",
            "$.a.b[*]..*",
            "$.a.b[?@.n]",
            "$.a.b[?@.n].t[*]",
            "$.a.b[?length(@) == 2][1]",
            "$.a['c d'][*]",
            "$.e[*]",
            "$.a.b[*][0, 1]",
        ] {
            let path = path(source);
            let container = path
                .names()
                .unwrap()
                .iter()
                .fold(document.clone(), |value, name| value.get(name).unwrap().clone());
            let elements: Vec<Value> = match container.as_object() {
                Some(object) => object.values().to_vec(),
                None => container.as_list().unwrap().to_vec(),
            };
            let streamed: Vec<Value> =
                elements.into_iter().flat_map(|element| path.select_in_element(element).unwrap()).collect();
            let whole = path.select(&document).unwrap();
            assert_eq!(format!("{streamed:?}"), format!("{whole:?}"), "{source}");
        }
    }

    #[test]
    fn a_path_that_multiplies_is_refused_where_the_document_is_too_large_for_it() {
        let deep = value(&format!("{}1{}", "[".repeat(190), "]".repeat(190)));
        let wide = value(&format!("[{}1]", "{\"a\": 1},".repeat(20_000)));
        for (source, document, is_taken) in [
            ("$..*", &deep, true),
            ("$..*..*", &deep, true),
            ("$..*..*..*", &deep, false),
            ("$..*[?@..*]..*", &deep, false),
            ("$[?@[?@[?@..*]..*]..*]", &deep, false),
            (&format!("${}", "[*,*]".repeat(40)), &deep, false),
            ("$[0,0,0][0,0,0]", &deep, true),
            ("$..a..a", &wide, true),
            ("$[?@.a == $[0].a]", &wide, true),
            ("$[?@.a == $['0'][0].a]", &wide, true),
            ("$[?count($[*]) > 1]", &wide, false),
            ("$[?count($..a) > 1]", &wide, false),
            ("$[?@.b == '$..a']", &wide, true),
        ] {
            assert_eq!(path(source).select(document).is_ok(), is_taken, "{source}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let error = |source: &str| JsonPath::parse(source).unwrap_err();
        assert_eq!(error("items[*]").hint, Some("start the path with `$`, as in `$.items[*]`"));
        assert_eq!(error("$.items[").message, "`$.items[` is not a valid JSONPath from here");
        assert!(error("$.é[?@.x = 1]").offset <= 13);
        assert_eq!(error(&format!("${}", ".a".repeat(3000))).message, "a JSONPath can have at most 4 KiB");
        for open in ["[?@", "[?(", "[?!(", "[?length(", "["] {
            let deep = format!("${}", open.repeat(1000));
            let error = error(&deep[..deep.len().min(MAX_LENGTH)]);
            assert_eq!(
                error.message, "a JSONPath can nest brackets and parentheses at most 8 levels deep",
                "{open}"
            );
        }
    }

    #[test]
    fn a_long_path_is_read_on_a_small_stack() {
        for part in [".a", "..a", "[0]", "['a']", "[?@.a]", "[?@.a||@.b]"] {
            path(&format!("${}", part.repeat(MAX_LENGTH / part.len() - 1)));
        }
        for joint in ["||", "&&", "||!"] {
            path(&format!("$[?{}@.b]", format!("@.a{joint}").repeat(600)));
        }
    }
}
