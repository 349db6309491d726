//! Functions on lists and objects. Order is kept wherever none is asked for; nothing is changed in place.

use std::collections::HashMap;
use std::sync::Arc;

use ecow::EcoString;

use super::distinct::{Fixed, SeenValues};
use super::number::EMPTY;
use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Gives, Returns, order};
use crate::value::{Key, KeyTable, MAX_DEPTH, Object, Type, Value, ValueRepr};

pub(super) const COLLECT: Function = Function {
    name: "collect",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::element("expression")],
    required: 2,
    returns: Returns::Results,
    doc: "a field of each element, or any expression over it; the same as `each`",
    examples: &[(r#"[{"id": 1}, {"id": 2}] | collect("id")"#, "[1,2]")],
    body: Body::Each(Gives::Result),
};

pub(super) const COUNT: Function = Function {
    name: "count",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::condition("condition")],
    required: 1,
    returns: Returns::Int,
    doc: "the number of elements, or of elements for which the condition is true",
    examples: &[
        (r#"[{"ok": true}, {"ok": false}] | count("ok")"#, "1"),
        (r#"[5, 8, 9] | count("it > 5")"#, "2"),
        ("count([5, 8, 9])", "3"),
    ],
    body: Body::Fold(count),
};

pub(super) const EACH: Function = Function {
    name: "each",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::element("expression")],
    required: 2,
    returns: Returns::Results,
    doc: "the result of an expression for each element",
    examples: &[
        (r#"["a", "b"] | each("upper(it)")"#, r#"["A","B"]"#),
        (r#"[{"n": 1}, {"n": 2}] | each("n * 10")"#, "[10,20]"),
    ],
    body: Body::Each(Gives::Result),
};

pub(super) const FIRST: Function = Function {
    name: "first",
    group: FunctionGroup::Collection,
    params: &[param::list("list")],
    required: 1,
    returns: Returns::Element,
    doc: "the first element; missing if the list is empty",
    examples: &[("first([7, 8])", "7"), (r#"[] | first | default("none")"#, r#""none""#)],
    body: Body::Fold(first),
};

pub(super) const FLATTEN: Function = Function {
    name: "flatten",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::count("depth")],
    required: 1,
    returns: Returns::Flattened,
    doc: "the list with nested lists replaced by their elements, down to a depth (default: 1)",
    examples: &[("flatten([1, [2, [3]]])", "[1,2,[3]]"), ("[1, [2, [3]]] | flatten(2)", "[1,2,3]")],
    body: Body::Fold(flatten),
};

pub(super) const GROUP_BY: Function = Function {
    name: "group_by",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::group_key("expression")],
    required: 2,
    returns: Returns::Groups,
    doc: "the elements grouped by an expression over them: an object whose keys are the text forms of the results, in order of first appearance",
    examples: &[
        (
            r#"[{"t": "b", "n": 1}, {"t": "a", "n": 2}, {"t": "b", "n": 3}] | group_by("t")"#,
            r#"{"b":[{"t":"b","n":1},{"t":"b","n":3}],"a":[{"t":"a","n":2}]}"#,
        ),
        (r#"[1, 2, 3] | group_by("it % 2 == 0")"#, r#"{"false":[1,3],"true":[2]}"#),
    ],
    body: Body::Fold(group_by),
};

pub(super) const ITEMS: Function = Function {
    name: "items",
    group: FunctionGroup::Collection,
    params: &[param::object("object")],
    required: 1,
    returns: Returns::Entries,
    doc: "the entries of an object, each as an object of `key` and `value`",
    examples: &[
        (r#"items({"a": 1})"#, r#"[{"key":"a","value":1}]"#),
        (r#"{"a": 1, "b": 5} | items | where("value > 2") | collect("key")"#, r#"["b"]"#),
    ],
    body: Body::Plain(items),
};

pub(super) const KEYS: Function = Function {
    name: "keys",
    group: FunctionGroup::Collection,
    params: &[param::object("object")],
    required: 1,
    returns: Returns::Texts,
    doc: "the keys of an object, in the order they were written",
    examples: &[(r#"keys({"b": 1, "a": 2})"#, r#"["b","a"]"#)],
    body: Body::Plain(keys),
};

pub(super) const LAST: Function = Function {
    name: "last",
    group: FunctionGroup::Collection,
    params: &[param::list("list")],
    required: 1,
    returns: Returns::Element,
    doc: "the last element; missing if the list is empty",
    examples: &[("last([7, 8])", "8")],
    body: Body::Fold(last),
};

pub(super) const LEN: Function = Function {
    name: "len",
    group: FunctionGroup::Collection,
    params: &[param::container("value")],
    required: 1,
    returns: Returns::Int,
    doc: "the number of code points of a text, elements of a list or entries of an object",
    examples: &[("len([1, 2])", "2"), (r#"len("héllo")"#, "5"), (r#"{"a": 1} | len"#, "1")],
    body: Body::Fold(len),
};

pub(super) const REVERSE: Function = Function {
    name: "reverse",
    group: FunctionGroup::Collection,
    params: &[param::list("list")],
    required: 1,
    returns: Returns::Same,
    doc: "the elements from last to first",
    examples: &[("reverse([1, 2, 3])", "[3,2,1]")],
    body: Body::Fold(reverse),
};

pub(super) const SORT: Function = Function {
    name: "sort",
    group: FunctionGroup::Collection,
    params: &[param::ordered("list"), param::text("order")],
    required: 1,
    returns: Returns::Same,
    doc: "the list sorted, \"asc\" (the default) or \"desc\"; the elements are all numbers or all texts, which are compared by code point; nulls come last",
    examples: &[
        ("[3, 1, 2] | sort", "[1,2,3]"),
        (r#"["b", "a", "B"] | sort"#, r#"["B","a","b"]"#),
        (r#"[2.5, null, 10] | sort("desc")"#, "[10,2.5,null]"),
    ],
    body: Body::Fold(sort),
};

pub(super) const SORT_BY: Function = Function {
    name: "sort_by",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::ordered_by("expression"), param::text("order")],
    required: 2,
    returns: Returns::Same,
    doc: "the elements sorted by an expression over them, \"asc\" (the default) or \"desc\"; the results are all numbers or all texts; equal elements keep their order, nulls come last",
    examples: &[
        (r#"[{"n": 2}, {"n": 1}] | sort_by("n")"#, r#"[{"n":1},{"n":2}]"#),
        (r#"["bb", "a", "cc"] | sort_by("len(it)", "desc")"#, r#"["bb","cc","a"]"#),
    ],
    body: Body::Fold(sort),
};

pub(super) const UNIQUE: Function = Function {
    name: "unique",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::element("expression")],
    required: 1,
    returns: Returns::Same,
    doc: "the list without duplicates, or with the first element for each result of an expression; 85 and 85.0 are equal",
    examples: &[
        ("unique([2, 1, 2.0, 1])", "[2,1]"),
        (r#"[{"t": "a", "n": 1}, {"t": "a", "n": 2}] | unique("t")"#, r#"[{"t":"a","n":1}]"#),
    ],
    body: Body::Fold(unique),
};

pub(super) const VALUES: Function = Function {
    name: "values",
    group: FunctionGroup::Collection,
    params: &[param::object("object")],
    required: 1,
    returns: Returns::Values,
    doc: "the values of an object, in the order of its keys",
    examples: &[(r#"values({"b": 1, "a": 2})"#, "[1,2]")],
    body: Body::Plain(values),
};

pub(super) const WHERE: Function = Function {
    name: "where",
    group: FunctionGroup::Collection,
    params: &[param::list("list"), param::condition("condition")],
    required: 2,
    returns: Returns::Same,
    doc: "the elements for which the condition, a bool, is true",
    examples: &[
        (r#"[{"score": 85}, {"score": 70}] | where("score >= 80")"#, r#"[{"score":85}]"#),
        (r#"["a", "bb"] | where("len(it) == 2")"#, r#"["bb"]"#),
    ],
    body: Body::Each(Gives::Element),
};

fn len(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let value = call.arg(0);
    let len = match &value.0 {
        ValueRepr::Text(_) => call.text(0)?.chars().count(),
        ValueRepr::List(_) => call.len()?,
        ValueRepr::Object(object) => object.len(),
        _ => return Err(call.wrong_type(0, "text, a list or an object")),
    };
    Ok(Value::from(len))
}

fn count(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    if !call.has_element() {
        return Ok(Value::from(call.len()?));
    }
    let mut count = 0usize;
    call.each(|_, index, _, result| {
        count += usize::from(holds(index, &result)?);
        Ok(())
    })?;
    Ok(Value::from(count))
}

/// The list that a function makes element by element.
pub(super) fn list_of(call: &mut FunctionCall<'_>, gives: Gives) -> Result<Value, FuncError> {
    let mut items = Vec::new();
    call.each(|_, index, item, result| {
        if let Some(given) = gives.of(index, item, result)? {
            items.push(given);
        }
        Ok(())
    })?;
    Ok(Value::list(items)?)
}

impl Gives {
    /// What the list gets for an element, when it gets something.
    #[inline]
    pub(crate) fn of(self, index: usize, item: &Value, result: Value) -> Result<Option<Value>, FuncError> {
        match self {
            Self::Element => Ok(holds(index, &result)?.then(|| item.clone())),
            Self::Result => Ok(Some(result)),
        }
    }
}

/// Whether the condition for an element is true.
fn holds(index: usize, result: &Value) -> Result<bool, FuncError> {
    let got = result.kind();
    result.as_bool().ok_or(FuncError::ElementType { index, expected: "a bool", got })
}

fn first(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    call.end(|len| 0..len.min(1), |_| false)?.ok_or(EMPTY)
}

fn last(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    call.end(|len| len.saturating_sub(1)..len, |_| true)?.ok_or(EMPTY)
}

fn reverse(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let items = call.elements()?;
    call.spend(items.len())?;
    Ok(Value::list(items.iter().rev().cloned().collect())?)
}

fn sort(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    order::sorted(call, 1)
}

fn unique(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let (mut seen, mut kept) = (SeenValues::default(), Vec::new());
    call.each(|call, _, item, key| {
        let key_size = if call.stream.is_some() && call.has_element() { key.size() } else { 0 };
        if seen.insert(call, key)? {
            call.make_room(key_size)?;
            kept.push(call.keep(item)?);
        }
        Ok(())
    })?;
    Ok(Value::list(kept)?)
}

fn flatten(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let depth = call.optional_count(1, u32::from(MAX_DEPTH), 1)?;
    let mut items = Vec::new();
    call.each_item(|call, _, item| open_item(call, item, depth, &mut items))?;
    Ok(Value::list(items)?)
}

fn open_item(
    call: &mut FunctionCall<'_>,
    item: &Value,
    depth: u32,
    items: &mut Vec<Value>,
) -> Result<(), FuncError> {
    match item.as_list() {
        Some(inner) if depth > 0 => open(call, inner, depth - 1, items),
        _ => {
            items.push(call.keep(item)?);
            Ok(())
        }
    }
}

/// Recurses no deeper than values are nested.
fn open(
    call: &mut FunctionCall<'_>,
    list: &[Value],
    depth: u32,
    items: &mut Vec<Value>,
) -> Result<(), FuncError> {
    for item in list {
        call.spend(1)?;
        open_item(call, item, depth, items)?;
    }
    Ok(())
}

fn group_by(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let mut positions: HashMap<EcoString, usize, Fixed> = HashMap::default();
    let mut groups: Vec<(EcoString, Vec<Value>)> = Vec::new();
    call.each(|call, index, item, key| {
        let name = group_name(call, index, &key)?;
        let at = *positions.entry(name.clone()).or_insert(groups.len());
        if at == groups.len() {
            groups.push((name, Vec::new()));
        }
        groups[at].1.push(call.keep(item)?);
        Ok(())
    })?;
    let mut entries = Vec::with_capacity(groups.len());
    for (name, items) in groups {
        entries.push((name, Value::list(items)?));
    }
    Ok(Value::object(entries)?)
}

fn group_name(call: &mut FunctionCall<'_>, index: usize, key: &Value) -> Result<EcoString, FuncError> {
    if let ValueRepr::Text(text) = &key.0 {
        return Ok(text.clone());
    }
    if matches!(key.kind(), Type::List | Type::Object) {
        return Err(call.wrong_element(index, "text, a number, a bool or null", key.kind()));
    }
    let name = EcoString::from(key.to_string());
    call.spend_bytes(name.len())?;
    Ok(name)
}

fn keys(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let object = call.object(0)?;
    call.spend(object.len())?;
    let names = object.iter().map(|(key, _)| Value::from(key.name().clone()));
    Ok(Value::list(names.collect())?)
}

fn values(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let object = call.object(0)?;
    call.spend(object.len())?;
    Ok(Value::list(object.values().to_vec())?)
}

fn items(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let object = call.object(0)?;
    call.spend(object.len())?;
    let shape = vec![Key::new("key"), Key::new("value")];
    let Ok(shape) = KeyTable::new(shape).map(Arc::new) else {
        return Ok(Value::NULL);
    };
    let entry = |(key, value): (&Key, &Value)| {
        let fields = vec![Value::from(key.name().clone()), value.clone()];
        Object::new(Arc::clone(&shape), fields).map(Value::from)
    };
    Ok(Value::list(object.iter().map(entry).collect::<Result<_, _>>()?)?)
}
