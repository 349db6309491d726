//! Large values: an answer has the beginning of each, and its length, type and hash; the whole of one is asked for by its
//! own request, with the path to it in the answer (a JSON Pointer, RFC 6901), and is a file that a browser keeps.

use threadline_engine::Hash;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;

use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::server::RouteCall;

/// The name of the parameter with the path to a value.
pub(crate) const POINTER: &str = "pointer";

/// The key of what stands in the place of a value that is cut.
const CUT: &str = "$cut";

/// The keys of values that are cut where they are large, by the name of the schema of what is answered.
pub(crate) const CUT_KEYS: &[(&str, &[&str])] = &[
    ("run", &["inputs"]),
    ("items", VALUES),
    ("explanation", VALUES),
    ("chain", &["value"]),
    ("diff", &["value", "left_value", "right_value"]),
    ("names", &["value", "before"]),
    ("conversations", VALUES),
    ("failure", VALUES),
];

const VALUES: &[&str] = &[
    "value",
    "item",
    "result",
    "stdout",
    "stderr",
    "answer",
    "details",
    "error",
    "message",
    "said",
    "arguments",
    "told",
];

/// A value with no more characters than this is never cut.
const SHORT: usize = 200;

/// Answers with a value of a schema in which what is large is cut, or with the whole of one part.
pub(crate) fn answer(call: &RouteCall, value: &Value, schema: &str) -> Result<HttpAnswer, Problem> {
    let keys = CUT_KEYS.iter().find(|(name, _)| *name == schema).map_or(&[][..], |(_, keys)| keys);
    let Some(pointer) = call.arguments.text(POINTER) else {
        return Ok(HttpAnswer::json(&cut(value, keys, &mut String::new())));
    };
    let found = follow(value, pointer).ok_or_else(|| Problem::missing("there is nothing at this pointer"))?;
    Ok(HttpAnswer::attachment("value", text_of(found)))
}

/// A value as text: a text is itself, anything else is JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_json(JsonStyle::Compact), str::to_owned)
}

/// The value with what is large under the keys cut. What is cut, and what is under a key, is not looked into.
fn cut(value: &Value, keys: &[&str], pointer: &mut String) -> Value {
    let length = pointer.len();
    let inside = |key: &str, value: &Value, pointer: &mut String| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let shown = if keys.contains(&key) { shown(value, pointer) } else { cut(value, keys, pointer) };
        pointer.truncate(length);
        shown
    };
    if let Some(object) = value.as_object() {
        return Value::record(
            object.iter().map(|(key, value)| (key.name().clone(), inside(key.as_str(), value, pointer))),
        );
    }
    if let Some(list) = value.as_list() {
        let elements = list.iter().enumerate();
        return Value::sequence(elements.map(|(at, value)| inside(&at.to_string(), value, pointer)));
    }
    value.clone()
}

/// A value, or what stands in its place.
fn shown(value: &Value, pointer: &str) -> Value {
    let text = text_of(value);
    let is_short = text.len() <= SHORT || text.chars().nth(SHORT).is_none();
    // What looks like a value that was cut is cut, so that nothing else does.
    if is_short && value.get(CUT).is_none() {
        return value.clone();
    }
    let cut = Value::record([
        ("type", Value::from(value.kind().name())),
        ("length", Value::from(text.chars().count())),
        ("preview", words::shorten(&text, SHORT).into_owned().into()),
        ("hash", Hash::of(text.as_bytes()).to_string().into()),
        (POINTER, pointer.into()),
    ]);
    Value::record([(CUT, cut)])
}

/// The value at a pointer.
fn follow<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    let Some(path) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(value) };
    path.split('/').try_fold(value, |value, key| {
        let key = key.replace("~1", "/").replace("~0", "~");
        match value.as_list() {
            Some(list) => list.get(key.parse::<usize>().ok()?),
            None => value.as_object()?.get_str(&key),
        }
    })
}

#[cfg(test)]
mod tests {
    use threadline_lang::{Limits, data};

    use super::*;

    fn value(json: &str) -> Value {
        data::json::read_value(json, &Limits::DEFAULT).expect("JSON")
    }

    #[test]
    fn what_is_cut_is_found_whole_at_its_pointer() {
        let long = "ü".repeat(SHORT + 1);
        let whole =
            value(&format!("{{\"a/b\":[{{\"value\":\"{long}\"}},{{\"value\":{{\"value\":\"{long}\"}}}}]}}"));
        let shown = cut(&whole, &["value"], &mut String::new());
        for (at, expected) in [("0", "text"), ("1", "object")] {
            let cut = follow(&shown, &format!("/a~1b/{at}/value/{CUT}")).expect("it is cut");
            assert_eq!(cut.get("type").and_then(Value::as_str), Some(expected));
            let pointer = cut.get(POINTER).and_then(Value::as_str).expect("a pointer");
            let found = follow(&whole, pointer).expect("the whole of it");
            assert_eq!(
                text_of(found).chars().count().to_string(),
                cut.get("length").expect("one").to_string()
            );
        }
    }

    #[test]
    fn short_values_stay_unless_they_look_like_cut_ones() {
        let whole = value(r#"{"value":"short","rest":{"value":{"$cut":1}},"text":null}"#);
        let shown = cut(&whole, &["value"], &mut String::new());
        assert_eq!(shown.get("value").and_then(Value::as_str), Some("short"));
        assert!(follow(&shown, "/rest/value/$cut/pointer").is_some());
        assert_eq!(follow(&whole, "/rest/missing"), None);
        assert_eq!(follow(&whole, "rest"), None);
    }
}
